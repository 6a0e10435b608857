#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""R20 to R24a with a daemon, a simulated device and workers: who needs memory gets it from who can
give it, and nobody waits for who cannot."""
import contextlib
import os
import signal
import subprocess
import time

from lib.harness import Daemon, SimGpu, check_replays, folder, slow, wait_for
from lib.python import SYSTEM_PYTHON, environment
from lib.runner import check, check_equal, check_in, main, test

GB = 10**9
TOTAL = 85 * GB
HELD, NEED = 48600000000, 38900000000  # the published case
BRACKETS = 1
KEEP = {"policy": "fixed", "cap_fraction": "1"}  # alone, a worker would keep all of its cache

# A worker of the dlo package whose cache is a process that holds memory on the simulated device.
# Commands on stdin, one a line; an answer a line on stdout.
WORKER = r"""
import os, subprocess, sys, threading, time
from dlo import _abi, client

class Cache:
    # reserved bytes are held by a child, in pieces: one process a piece
    def __init__(self):
        self.pieces = []
        self.reserved = 0

    def hold(self, size):
        p = subprocess.Popen([os.environ["SIMGPU_TOOL"], "hold", str(size)], stdin=subprocess.PIPE,
                             stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        if not p.stdout.readline().startswith("holding"):
            p.wait()
            return False
        self.pieces.append(p)
        self.reserved += size
        return True

    def empty(self, bytes_=0):
        for p in self.pieces:
            p.stdin.close()
            p.wait()
        self.pieces, self.reserved = [], 0
        return 0, 0

cache = Cache()
worker = client.Client(name=sys.argv[1], features=int(sys.argv[2]), release=cache.empty,
                       deadline_ms=int(os.environ["DLO_DEADLINE_MS"]))

def say(*words):
    print(*words, flush=True)

class Closed(Exception):
    pass

say("open")
for line in sys.stdin:
    word, *rest = line.split()
    start = time.monotonic()
    if word == "hold":
        ok = cache.hold(int(rest[0]))
        worker.ask(reserved=cache.reserved, allocated=0, free=2**40, total=2**40)
        say("held" if ok else "failed")
    elif word == "idle":
        ready = worker.idle_wait(0, float(rest[0]))
        say("woken" if ready else "waited", cache.reserved)
    elif word == "oom":
        room = worker.oom(int(rest[0]))
        say(room.end, room.freed, room.free, f"{time.monotonic() - start:.3f}")
    elif word == "ask":
        answer = worker.ask(reserved=cache.reserved, allocated=0)
        if answer.decision == "release":
            cache.empty()
            worker.released(0, 0, 1)
        say(answer.decision, answer.reason)
    elif word == "begin":
        worker.busy_begin(reserved=cache.reserved, allocated=0, need=int(rest[0]) if rest else None)
        say("begun", f"{time.monotonic() - start:.3f}")
    elif word == "end":
        answer = worker.busy_end(reserved=cache.reserved, allocated=0,
                                 need=int(rest[0]) if rest else None)
        if answer.decision == "release":
            cache.empty()
            worker.released(0, 0, 1)
        say(answer.decision or "nothing", answer.reason or "-")
    elif word == "connected":
        say(worker.info()["connected"])
    else:
        sys.exit(1)
cache.empty()
"""


class Worker:
    def __init__(self, daemon, sim, name, features=BRACKETS):
        env = environment(daemon, stub=False, **sim.env)
        env["SIMGPU_TOOL"] = os.path.join(os.environ["DLO_SIMGPU"], "simgpu")
        self.process = subprocess.Popen([SYSTEM_PYTHON, "-c", WORKER, name, str(features)], env=env,
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        check_equal(self.read(), "open")

    def __enter__(self):
        return self

    def __exit__(self, *unused):
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.close()
        self.process.stdout.read()
        self.process.stdout.close()
        if self.process.wait(slow(30)) not in (0, -signal.SIGKILL):
            raise AssertionError(f"the worker ended with {self.process.returncode}")

    def send(self, *words):
        self.process.stdin.write(" ".join(str(w) for w in words) + "\n")
        self.process.stdin.flush()

    def read(self):
        line = self.process.stdout.readline()
        if not line:
            raise AssertionError("the worker ended")
        return line.strip()

    def call(self, *words):
        self.send(*words)
        return self.read()

    def hold(self, size):
        check_equal(self.call("hold", size), "held")


def rows(daemon):
    return {row["name"]: row for row in daemon.status()["sessions"]}


@contextlib.contextmanager
def stage(**options):
    """A device of 85.0e9 bytes, its daemon, and two workers, a and b."""
    with folder() as at:
        sim = SimGpu(at, TOTAL)
        journal = os.path.join(at, "journal")
        with Daemon(sim, at=at, journal_file=journal, **KEEP, **options) as d:
            with Worker(d, sim, "a") as a, Worker(d, sim, "b") as b:
                wait_for(lambda: d.status()["device"]["free"], what="a sample")
                yield d, sim, a, b
        check_replays(journal)


def wait_readiness(daemon, name, word):
    wait_for(lambda: rows(daemon)[name]["readiness"] == word, what=f"{name} is {word}")


# ---- the published case ----

@test
def without_room_the_load_fails():
    with stage() as (_, _, a, b):
        a.hold(HELD)
        check_equal(b.call("hold", NEED), "failed")


@test
def an_idle_worker_makes_room():
    with stage() as (d, _, a, b):
        a.hold(HELD)
        a.send("idle", 60)
        wait_readiness(d, "a", "ready")
        end, freed, _, seconds = b.call("oom", NEED).split()
        check_equal((end, int(freed)), ("covered", HELD))
        b.hold(NEED)
        check_equal(a.call("connected"), "woken 0")  # any word ends its idle wait
        check_equal(a.read(), "True")
        print(f"# one wait of {seconds} s")


@test
def a_dormant_worker_is_not_waited_for():
    with stage() as (d, _, a, b):
        a.hold(HELD)
        check_equal(rows(d)["a"]["readiness"], "at_next_boundary")
        end, freed, _, seconds = b.call("oom", NEED).split()
        check_equal((end, freed), ("nobody", "0"))
        check(float(seconds) < slow(0.5), "seconds:", seconds)


@test
def a_busy_worker_makes_room_at_its_boundary():
    with stage() as (d, _, a, b):
        a.hold(HELD)
        a.call("begin")
        b.send("oom", NEED)
        wait_for(lambda: rows(d)["a"]["asked"], what="a is asked")
        check_equal(a.call("ask"), "release reclaim")
        check_equal(b.read().split()[0], "covered")
        b.hold(NEED)


@test
def an_announced_need_is_met_before_the_work():
    with stage() as (d, _, a, b):
        a.hold(HELD)
        a.send("idle", 60)
        wait_readiness(d, "a", "ready")
        wait_for(lambda: d.status()["device"]["free"] < NEED, what="a sample")
        check_in("begun", b.call("begin", NEED))
        b.hold(NEED)


@test
def workers_that_take_turns_vacate_at_the_end_of_their_turn():
    with stage() as (d, _, a, b):
        b.call("begin", 0)
        check_equal(b.call("end", NEED), "nothing -")
        a.call("begin", 0)
        a.hold(HELD)
        wait_for(lambda: d.status()["device"]["free"] < NEED, what="a sample")
        check_equal(a.call("end", 0), "release neighbour_need")
        b.hold(NEED)


@test
def a_restarted_daemon_finds_an_idle_worker_again():
    with folder() as at:
        sim = SimGpu(at, TOTAL)
        with Daemon(sim, at=at, **KEEP) as first, Worker(first, sim, "a") as a, Worker(first, sim, "b") as b:
            a.hold(HELD)
            a.send("idle", 60)
            wait_readiness(first, "a", "ready")
            first.kill()
            with Daemon(sim, at=at, **KEEP) as d:
                wait_for(lambda: "a" in rows(d) and rows(d)["a"]["readiness"] == "ready", 10,
                         "a is back, though it makes no call")
                wait_for(lambda: b.call("connected") == "True", 10, "b is back")
                wait_for(lambda: d.status()["device"]["free"], what="a sample")
                check_equal(b.call("oom", NEED).split()[0], "covered")


# ---- who cannot ----

@test
def a_stopped_worker_costs_its_deadline_and_is_passed_over():
    with stage(oom_wait="30s") as (d, sim, a, b), Worker(d, sim, "c") as c:
        a.hold(HELD)
        c.hold(20 * GB)
        a.send("idle", 60)
        c.send("idle", 60)
        wait_readiness(d, "a", "ready")
        wait_readiness(d, "c", "ready")
        os.kill(c.process.pid, signal.SIGSTOP)
        try:
            # 16.4 are free: c alone would cover, and is asked first
            end, freed, _, seconds = b.call("oom", 30 * GB).split()
        finally:
            os.kill(c.process.pid, signal.SIGCONT)
        check_equal((end, int(freed)), ("covered", HELD))
        check(float(seconds) >= 2.0, "its deadline is 2 s:", seconds)


@test
def without_a_daemon_the_answer_is_at_once():
    with stage() as (d, _, a, b):
        a.hold(HELD)
        with d.frozen():
            start = time.monotonic()
            b.send("oom", NEED)
            d.signal(signal.SIGKILL)
            check_equal(b.read().split()[0], "local")
            check(time.monotonic() - start < slow(2), "seconds:", time.monotonic() - start)
        d.wait()
        d.start()


@test
def shadow_grants_nothing_and_asks_nobody():
    with stage(mode="shadow") as (d, _, a, b):
        a.hold(HELD)
        a.send("idle", 60)
        wait_for(lambda: rows(d)["a"]["readiness"] == "absent", what="a takes no part")
        check_equal(b.call("oom", NEED).split()[0], "shadow")


@test
def without_samples_the_answer_is_unverified():
    with folder() as at:
        sim = SimGpu(at, TOTAL)
        with Daemon(at=at, **KEEP) as d, Worker(d, sim, "a") as a, Worker(d, sim, "b") as b:
            a.hold(HELD)
            check_equal(b.call("oom", NEED).split()[0], "unverified")


@test
def two_calls_of_one_session_are_bad_state():
    with Daemon() as d, d.worker() as p:
        first = p.send("oom", need=1)
        check_equal(p.recv()[:2], (first, "wait_end"))
        check_equal(p.error("idle", phase=2), "bad_state")
        check_equal(p.error("idle", phase=0), "invalid")
        check_equal(p.error("oom"), "invalid")
        p.ok("reclaimed", call=77, refusal=1)  # of nothing: harmless


main()
