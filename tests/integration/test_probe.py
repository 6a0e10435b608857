#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Telemetry that hangs, fails, or is not there: nobody waits but those who need it (R6, R9)."""
import os
import signal
import threading
import time

from lib.harness import MS, Daemon, SimGpu, folder, slow, wait_for
from lib.runner import check, check_equal, check_in, main, test

NVML_CALL, CUDA_CALL = "nvmlDeviceGetMemoryInfo_v2", "cuMemGetInfo_v2"
AT_ONCE = 0.1
SAMPLE_TIMEOUT = 0.1  # its default


def timed(function, *arguments, **keywords):
    began = time.monotonic()
    value = function(*arguments, **keywords)
    return time.monotonic() - began, value


def check_at_once(what, seconds):
    check(seconds < slow(AT_ONCE), f"{what} took {seconds:.3f} s")


def hang(sim, d, call):
    """Makes the probe hang, and waits until it does."""
    sim.fault(call, "hang")
    with d.observer():
        wait_for(lambda: sim.calls(call) > 0, what="the probe hangs")


def check_others_are_served(d):
    with d.worker("paired") as p:
        seconds, (_, reason, answer) = timed(p.ask, 30, 10, 80, 400)
        check_at_once("an ask with its own pair", seconds)
        check_equal((reason, answer["free"]), ("cached_over_budget", 80))
    seconds, done = timed(d.ctl, "status")
    check(seconds < slow(0.5), f"dlo-ctl status took {seconds:.3f} s")
    check_equal(done.returncode, 0)


def check_unpaired(d, p):
    """It waits for sample_timeout and no longer, and nobody waits with it."""
    answers = []
    asking = threading.Thread(target=lambda: answers.append(timed(p.ask, 30, 10)))
    asking.start()
    check_others_are_served(d)
    asking.join(slow(5))
    [(seconds, (decision, reason, answer))] = answers
    check_equal((decision, reason), ("release", "telemetry_unavailable"))
    check(seconds < SAMPLE_TIMEOUT + slow(250 * MS), f"answered after {seconds:.3f} s")
    check("free" not in answer, answer)


def hung_probe(call, **options):
    with folder() as at:
        sim = SimGpu(at)
        with Daemon(sim, at=at, **options) as d, d.worker("unpaired") as p:
            wait_for(lambda: p.ask(30, 10)[1] != "telemetry_unavailable", what="a first sample")
            hang(sim, d, call)
            check_unpaired(d, p)
            check_unpaired(d, p)
            wait_for(lambda: d.status()["device"]["probe"] != "running" or
                     p.ask(30, 10)[1] == "telemetry_unavailable", what="it is known to hang")
            sim.run("fault", "clear")
            wait_for(lambda: p.ask(30, 10)[1] != "telemetry_unavailable", 15, "recovery")
            hang(sim, d, call)
            seconds, code = timed(d.stop)
            check_equal(code, 0, "exit status")
            check_at_once("SIGTERM", seconds)


@test
def a_hung_nvml_call_blocks_nobody():
    hung_probe(NVML_CALL, telemetry="nvml", probe_timeout="500ms")


@test
def a_hung_cuda_call_blocks_nobody():
    hung_probe(CUDA_CALL, telemetry="cuda", probe_timeout="500ms")


@test
def the_log_says_once_that_the_probe_hangs_and_once_that_it_answers():
    with folder() as at:
        sim = SimGpu(at)
        with Daemon(sim, at=at, probe_timeout="200ms") as d, d.worker() as p:
            wait_for(lambda: p.ask(30, 10)[1] != "telemetry_unavailable", what="a first sample")
            hang(sim, d, NVML_CALL)
            [line] = d.wait_log("event=probe_failed")
            check_in("hung", line)
            wait_for(lambda: "hung" in d.status()["device"]["probe"] or
                     "waiting" in d.status()["device"]["probe"], what="status says so")
            sim.run("fault", "clear")
            d.wait_log("answers again", seconds=15)
            check_equal(len(d.log_lines("event=probe_failed")), 1)


@test
def a_decision_that_a_hung_probe_delayed_is_seen_at_once_by_followers():
    with folder() as at:
        sim = SimGpu(at)
        with Daemon(sim, at=at, probe_timeout="60s", sample_interval="60s",
                    hello_timeout="60s") as d:
            p = d.worker("unpaired")
            wait_for(lambda: p.ask(30, 10)[1] != "telemetry_unavailable", what="a first sample")
            hang_next(sim, p)
            with d.observer() as o:
                cursor = last_cursor(o)
                p.send("ask", reserved=30, allocated=10)
                check_in(b"ask s=", follow(o, cursor, b"ask s="))
                check_equal(p.recv()[1], "answer")
            p.close()


def hang_next(sim, p):
    sim.fault(NVML_CALL, "hang")
    wait_for(lambda: p.ask(30, 10)[1] == "telemetry_unavailable", what="the probe hangs")


def last_cursor(o):
    cursor = 0
    while (page := o.ok("events", cursor=cursor)).get("lines"):
        cursor = page["cursor"]
    return cursor


def follow(o, cursor, word, seconds=1.0):
    """The first new line with that word, as events --follow gets it."""
    deadline = time.monotonic() + slow(seconds)
    while True:
        o.send("events", cursor=cursor, wait=True)
        page = o.recv(max(0.01, deadline - time.monotonic()))[2]
        cursor = page["cursor"]
        for line in page["lines"]:
            if word in line:
                return line


# ---- when the device is held ----

@test
def nobody_holds_the_device_while_no_session_is_there():
    with folder() as at:
        sim = SimGpu(at)
        with Daemon(sim, at=at) as d:
            d.wait_log("device GPU-")
            wait_for(lambda: not sim.openers(), what="the probe has gone after identifying")
            with d.observer() as o:
                o.ok("status")
                check_equal(sim.openers(), [], "opened for an observer")
            with d.worker() as p:  # R9: at the hello, not at the first ask
                wait_for(sim.openers, what="a probe")
                check(d.pid not in sim.openers(), "the daemon itself opened it")
                p.ask(30, 10)
            wait_for(lambda: not sim.openers(), what="the probe has gone with the last session")
            check_equal(d.status()["device"]["probe"], "off")


@test
def nvml_costs_no_device_memory():
    with folder() as at:
        sim = SimGpu(at)
        with Daemon(sim, at=at, telemetry="nvml") as d, d.worker() as p:
            wait_for(lambda: p.ask(30, 10)[1] != "telemetry_unavailable", what="a first sample")
            check_equal(sim.show()["devices"][0]["used_bytes"], 0)


@test
def a_missing_gpu_is_a_state_and_not_the_end():
    with folder() as at:
        sim = SimGpu(at)
        sim.env = dict(sim.env, SIMGPU=at + "/none")
        with Daemon(sim, at=at) as d, d.worker() as p:
            check_equal(p.ask(30, 10)[1], "telemetry_unavailable")
            check_equal(p.ask(30, 10, 80, 400)[1], "cached_over_budget")
            d.wait_log("event=probe_failed")
            device = d.status()["device"]
            check_equal((device["uuid"], device["free"]), (None, None))
            check(any(w in device["probe"] for w in ("waiting", "off", "starting")),
                  device["probe"])


@test
def a_gpu_that_is_not_there_is_named():
    with folder() as at:
        sim = SimGpu(at)
        for name in ("7", "GPU-00000000-0000-0000-0000-000000000000", "minor:99", "0000:ff:00.0"):
            with Daemon(sim, at=at, gpu=name) as d:
                [line] = d.wait_log("event=probe_failed")
                check_in("no_device", line, name)


@test
def a_lost_gpu_is_missing_telemetry():
    with folder() as at:
        sim = SimGpu(at)
        with Daemon(sim, at=at) as d, d.worker() as p:
            wait_for(lambda: p.ask(30, 10)[1] != "telemetry_unavailable", what="a first sample")
            sim.set("lost=1")
            wait_for(lambda: p.ask(30, 10)[1] == "telemetry_unavailable", what="it is lost")
            check_others_are_served(d)
            [line] = d.wait_log("event=probe_failed")
            check_in("lost", line)


@test
def an_error_of_one_call_is_missing_telemetry_for_a_while():
    with folder() as at:
        sim = SimGpu(at)
        with Daemon(sim, at=at) as d, d.worker() as p:
            wait_for(lambda: p.ask(30, 10)[1] != "telemetry_unavailable", what="a first sample")
            sim.fault(NVML_CALL, "error=999")
            wait_for(lambda: p.ask(30, 10)[1] == "telemetry_unavailable", what="it fails")
            sim.run("fault", "clear")
            wait_for(lambda: p.ask(30, 10)[1] != "telemetry_unavailable", 15, "recovery")


@test
def a_probe_that_is_killed_is_started_again():
    with folder() as at:
        sim = SimGpu(at)
        with Daemon(sim, at=at) as d, d.worker() as p:
            wait_for(lambda: p.ask(30, 10)[1] != "telemetry_unavailable", what="a first sample")
            [probe] = sim.openers()
            os.kill(probe, signal.SIGKILL)
            d.wait_log("ended by signal 9")
            wait_for(lambda: p.ask(30, 10)[1] != "telemetry_unavailable", 15, "another probe")
            check(sim.openers() != [probe])


@test
def a_slow_probe_within_the_timeout_decides():
    with folder() as at:
        sim = SimGpu(at)
        with Daemon(sim, at=at, sample_timeout="200ms", sample_max_age="150ms") as d, \
                d.worker() as p:
            wait_for(lambda: p.ask(30, 10)[1] != "telemetry_unavailable", what="a first sample")
            sim.fault(NVML_CALL, "slow=60")
            for _ in range(3):
                check_equal(p.ask(30, 10)[1], "within_budget")


main()
