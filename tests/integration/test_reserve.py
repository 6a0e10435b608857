#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Reservations (R25): room that is made for one, and kept."""
import os
import subprocess

from lib.harness import CTL, Daemon, SimGpu, check_replays, ctl, folder, slow, wait_for
from lib.python import run
from lib.runner import check, check_equal, check_in, main, test

GB = 10**9
TOTAL = 85 * GB
KEEP = {"policy": "fixed", "cap_fraction": "1", "resume_window": "0"}


def reserve(daemon, *words, **more):
    socket = daemon if isinstance(daemon, str) else daemon.socket
    return ctl("reserve", "--socket", socket, *(str(w) for w in words), timeout=40, **more)


def rows(daemon):
    return {row["name"]: row for row in daemon.status()["sessions"]}


def holding(peer, bytes_):
    peer.ok("ask", reserved=bytes_, allocated=0, free=TOTAL, total=TOTAL)


@test
def room_is_made_and_kept_for_the_command():
    with folder() as at:
        sim = SimGpu(at, TOTAL)
        journal = os.path.join(at, "journal")
        with Daemon(sim, at=at, journal_file=journal, **KEEP) as d, d.worker("a", features=1) as a:
            with sim.hold(40 * GB):
                holding(a, 40 * GB)
                a.ok("idle", phase=1)
                p = subprocess.Popen([CTL, "reserve", "--socket", d.socket, "60GB", "--wait", "20s", "--",
                                      "sh", "-c", "echo running; read x; true"], stdin=subprocess.PIPE,
                                     stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
                seq, body, told = a.recv(slow(10))
                check_equal((seq, body), (0, "reclaim"))
            a.ok("reclaimed", call=told["call"], reserved=0, allocated=0, us=5)
            check_equal(p.stdout.readline(), "running\n")
            held = rows(d)["dlo-ctl-reserve"]
            check_equal((held["held"], held["pid"]), (60 * GB, p.pid))
            check(0 < held["term_seconds"] <= 120, held["term_seconds"])
            # a load that would need what is kept
            b = d.worker("b", features=1)
            b.send("oom", need=30 * GB)
            check_equal(b.recv(slow(10))[2]["end"], 2, "nobody")
            p.stdin.close()
            check_equal(p.wait(slow(10)), 0)
            check_in("60.00 GB reserved", p.stderr.read())
            wait_for(lambda: "dlo-ctl-reserve" not in rows(d), what="it is gone with its command")
            b.ok("released", reserved=0, allocated=0)
            b.send("oom", need=30 * GB)
            check_equal(b.recv(slow(10))[2]["end"], 1, "covered")
            b.close()
            p.stdout.close()
            p.stderr.close()
        check_replays(journal)


@test
def no_room_in_time_is_exit_status_6():
    with folder() as at:
        sim = SimGpu(at, TOTAL)
        with Daemon(sim, at=at, **KEEP) as d, d.worker("a") as a, sim.hold(40 * GB):
            holding(a, 40 * GB)
            done = reserve(d, "60GB", "--wait", "300ms", "--", "echo", "started")
            check_equal((done.returncode, done.stdout), (6, ""))
            check_in("no room for 60.00 GB in that time", done.stderr)
            done = reserve(d, "40GB", "--", "echo", "started")
            check_equal((done.returncode, done.stdout), (0, "started\n"))


@test
def without_a_daemon_the_command_runs():
    with folder() as at:
        done = reserve(os.path.join(at, "none.sock"), "60GB", "--", "echo", "started")
        check_equal((done.returncode, done.stdout), (0, "started\n"))
        check_equal(reserve(os.path.join(at, "none.sock"), "60GB").returncode, 3)


@test
def what_cannot_be_is_named():
    with Daemon() as d:
        for words, part in (((), "size"), (("x",), "size"), (("0",), "size"), (("1GB", "--wait", "x"), "--wait"),
                            (("1GB", "--term", "x"), "--term")):
            done = reserve(d, *words)
            check_equal(done.returncode, 2, words)
            check_in(part, done.stderr)
        done = reserve(d, "1GB", "--wait", "601s")
        check_equal(done.returncode, 1)
        check_in("lease", done.stderr)
        check_equal(reserve(d, "1GB", "--", "/nonexistent/program").returncode, 1)


@test
def after_a_start_sessions_have_time_to_come_back():
    with folder() as at:
        sim = SimGpu(at, TOTAL)
        journal = os.path.join(at, "journal")
        with Daemon(sim, at=at, journal_file=journal, resume_window="1s") as d, d.worker("a") as a:
            a.send("lease", kind=3, bytes=GB, wait_ns=10**10, term_ns=10**10)
            a.send("status")
            check_equal(a.recv()[1], "status", "it is not granted yet")
            check_equal(a.recv(slow(10))[2]["end"], 1, "covered")
            a.ok("unlease", kind=3)
            check_equal(a.error("unlease", kind=3), "bad_state")
            check_equal(a.error("unlease", kind=1), "bad_state")
            check_equal(a.error("lease", kind=3), "invalid")
        check_replays(journal)


@test
def the_package_reserves():
    with folder() as at:
        sim = SimGpu(at, TOTAL)
        with Daemon(sim, at=at, **KEEP) as d:
            run("""
                from dlo import client
                with client.Client(name="a") as c:
                    room = c.reserve(60 * 10**9, wait=10)
                    equal((room.end, room.free), ("covered", 85 * 10**9))
                    with client.Client(name="b") as other:
                        equal(other.reserve(60 * 10**9, wait=0.2).end, "deadline")
                        c.unreserve()
                        c.unreserve()
                        equal(other.reserve(60 * 10**9, wait=10).end, "covered")
                with client.Client(name="c", socket="/nonexistent/sock") as alone:
                    equal(alone.reserve(1).end, "local")
                    alone.unreserve()
            """, daemon=d)


main()
