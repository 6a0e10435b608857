#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# run-alone: it measures how long an ask takes
"""Real workers over the library: a daemon that dies, hangs or comes back harms nobody (R28 to R30)."""
import os
import signal
import time

from lib.h3 import WORKER, Worker
from lib.harness import SLOW, Daemon, SimGpu, folder, slow, wait_for
from lib.runner import check, check_equal, main, skip_unless, test

TOTAL = 150_110_000_000
DEADLINE_US = 250_000
SLACK_US = 250_000
STEPS = 4  # components of the shape h3


def check_bounded(w):
    slowest = max(int(b["us"]) for b in w.found("boundary"))
    check(slowest <= DEADLINE_US * max(1, SLOW) + SLACK_US, f"an ask took {slowest} us")


def outcome(w):
    return [(b["request"], b["component"], b["decision"], b["reason"]) for b in w.found("boundary")]


def gpu_at(at):
    skip_unless(os.path.exists(WORKER), "no " + WORKER)
    return SimGpu(at, TOTAL)


def undisturbed(at):
    """What the worker does when nothing happens to its daemon."""
    sim = gpu_at(at)
    with Daemon(sim, at=at) as d, Worker(sim, d.socket, "--requests", "3") as w:
        code, done = w.finish()
        check_equal(code, 0, "exit status")
        check_equal((done["releases_warmup"], done["releases_serving"]), ("2", "0"))
        return outcome(w)


@test
def a_lone_worker_releases_twice_in_warm_up_and_never_afterwards():
    with folder() as at:
        seen = undisturbed(at)
        check_equal(len(seen), 4 * STEPS)


@test
def kill_9_of_the_daemon_fails_no_worker_and_costs_no_release():
    with folder() as at:
        expected = undisturbed(at)
        sim = gpu_at(at)
        d = Daemon(sim, at=at).start()
        options = ("--requests", "3", "--stepwise", "--hold")
        with Worker(sim, d.socket, *options) as w:
            for _ in range(STEPS + 1):  # the warm-up, and one component of the first request
                check_equal(w.step()["by"], "daemon")
            before = d.status()["sessions"][0]
            d.kill()
            for _ in range(STEPS):  # without a daemon
                check(w.step()["by"].startswith("library:"), "who answers a dead daemon's worker?")
            with Daemon(sim, at=at) as d:
                finish_run(w)
                row = wait_for(lambda: d.status()["sessions"], what="the session is back")[0]
                check(row["peak"] >= before["peak"] > 0, row)
                check_equal((row["decisions"], row["cold_start_releases"], row["serving_releases"],
                             row["stagers"]), (4 * STEPS, 2, 0, before["stagers"]))
                code, done = w.finish()
            check_equal(code, 0, "exit status")
            check_equal((done["reconnects"] != "0", int(done["local"]) > 0), (True, True), done)
            check_bounded(w)
            check_equal(outcome(w), expected, "what was decided")


def pass_back_off():
    """The library tries again after a pause (100 ms, doubled at each miss) that nothing announces."""
    over = time.monotonic() + slow(0.5)
    wait_for(lambda: time.monotonic() > over, what="the back-off is over")


def finish_run(w):
    pass_back_off()
    while len(w.found("boundary")) < 4 * STEPS:
        w.step()
    wait_for(lambda: w.found("done"), what="the last line")


@test
def many_workers_live_through_kills_in_mid_run():
    with folder() as at:
        sim = SimGpu(at, 4 * TOTAL)
        skip_unless(os.path.exists(WORKER), "no " + WORKER)
        d = Daemon(sim, at=at).start()
        workers = [Worker(sim, d.socket, "--shape", "small", "--name", f"w{i}", "--requests", "20",
                          "--step-pause-ms", "20") for i in range(4)]
        try:
            for round_ in (3, 9):
                for w in workers:
                    w.wait_lines("boundary", round_)
                d.kill()
                d.start()
            for w in workers:
                code, done = w.finish(30)
                check_equal((code, w.errors), (0, ""), "worker")
                check_equal(len(w.found("boundary")), 21 * 2)
                check_bounded(w)
            wait_for(lambda: d.status()["sessions"] == [], what="nobody is left")
            check_equal(d.stop(), 0)
        finally:
            for w in workers:
                w.__exit__()
            if d.process.poll() is None:
                d.kill()


@test
def a_stopped_daemon_delays_an_ask_by_its_deadline_and_no_more():
    with folder() as at:
        sim = gpu_at(at)
        with Daemon(sim, at=at) as d, \
                Worker(sim, d.socket, "--requests", "3", "--stepwise", "--hold") as w:
            for _ in range(STEPS):
                w.step()
            w.wait_lines("waiting", STEPS + 1)  # it has told that its warm-up is over
            with d.frozen():
                first = w.step()
                check_equal(first["by"], "library:deadline")
                for _ in range(STEPS - 1):  # after a miss, at once
                    check(int(w.step()["us"]) < slow(0.05) * 1e6, "it waits again")
            finish_run(w)
            code, done = w.finish()
            check_equal(code, 0, "exit status")
            check_equal(done["releases_serving"], "0")
            check_bounded(w)


@test
def without_any_daemon_the_same_policy_decides():
    with folder() as at:
        expected = undisturbed(at)
        sim = gpu_at(at)
        with Worker(sim, os.path.join(at, "none.sock"), "--requests", "3") as w:
            code, done = w.finish()
            check_equal((code, done["releases_warmup"], done["releases_serving"]), (0, "2", "0"))
            check_equal(outcome(w), expected)
            check(all(b["by"].startswith("library:") for b in w.found("boundary")))


@test
def a_daemon_that_appears_later_is_used():
    with folder() as at:
        sim = gpu_at(at)
        d = Daemon(sim, at=at)
        with Worker(sim, d.socket, "--requests", "3", "--stepwise", "--hold") as w:
            check_equal(w.step()["by"], "library:no_daemon")
            with d:
                finish_run(w)
                [row] = d.status()["sessions"]
                check_equal((row["cold_start_releases"], row["serving_releases"]), (2, 0))
                check_equal(w.finish()[0], 0)


@test
def mode_off_is_inert_and_shadow_keeps():
    with folder() as at:
        sim = gpu_at(at)
        with Daemon(sim, at=at) as d:
            with Worker(sim, d.socket, "--requests", "1", "--hold", env={"DLO_MODE": "off"}) as w:
                w.wait_lines("done", 1)
                check_equal(d.status()["sessions"], [])
                check_equal({b["decision"] for b in w.found("boundary")}, {"keep"})
                check_equal(w.finish()[0], 0)
            with Worker(sim, d.socket, "--requests", "1", "--hold",
                        env={"DLO_MODE": "shadow"}) as w:
                w.wait_lines("done", 1)
                [row] = d.status()["sessions"]
                check_equal({b["decision"] for b in w.found("boundary")}, {"keep"})
                check_equal(row["cold_start_releases"], 2)
                code, done = w.finish()
                check_equal((code, done["releases_warmup"], done["releases_serving"]), (0, "0", "0"))


@test
def a_worker_without_its_own_reading_is_decided_on_the_sample():
    with folder() as at:
        sim = gpu_at(at)
        with Daemon(sim, at=at) as d, Worker(sim, d.socket, "--requests", "3", "--no-pair") as w:
            code, done = w.finish()
            check_equal((code, done["releases_serving"]), (0, "0"))
            check_equal({b["by"] for b in w.found("boundary")}, {"daemon"})
            check(all(b["free"] != "-" for b in w.found("boundary")), w.lines)


@test
def a_worker_that_is_killed_leaves_nothing():
    with folder() as at:
        sim = gpu_at(at)
        with Daemon(sim, at=at) as d:
            with Worker(sim, d.socket, "--stepwise") as w:
                w.step()
                w.process.send_signal(signal.SIGKILL)
                wait_for(lambda: d.status()["sessions"] == [], 2, "the slot is free")
            check_equal(d.status()["daemon"]["stagers"], 0)
            wait_for(lambda: sim.openers() == [], what="nobody has the device open")


main()
