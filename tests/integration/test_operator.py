#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What operators do: settings of a session (R31) and having caches released (R22, R23)."""
import os
import subprocess

from lib.harness import (CTL, IS_ROOT, Daemon, SimGpu, check_replays, ctl, folder,
                         slow, wait_for)
from lib.python import SYSTEM_PYTHON, environment
from lib.runner import check_equal, check_in, main, skip_unless, test

GB = 10**9
KEEP = {"policy": "fixed", "cap_fraction": "1"}


def set_(daemon, *words, **run_options):
    return ctl("set", "--socket", daemon.socket, *(str(w) for w in words), **run_options)


def release(daemon, *words):
    return ctl("release", "--bytes", "--socket", daemon.socket, *(str(w) for w in words), timeout=40)


def row(daemon, session):
    return next(r for r in daemon.status()["sessions"] if r["session"] == session)


def asks(peer, reserved, total=100 * GB, free=90 * GB):
    return peer.ok("ask", reserved=reserved, allocated=0, free=free, total=total)


# ---- set ----

@test
def a_cap_counts_from_the_next_boundary():
    with folder() as at:
        journal = os.path.join(at, "journal")
        with Daemon(at=at, journal_file=journal) as d, d.worker("a") as p:
            asks(p, 20 * GB)
            check_equal(asks(p, 20 * GB)["reason"], 10)
            done = set_(d, p.session, "cap=12GB")
            check_equal((done.returncode, done.stdout), (0, "session 1: revision 1\n"))
            check_equal(p.recv()[:2], (0, "welcome"))  # it brings it back after a restart
            answer = asks(p, 20 * GB)
            check_equal((answer["decision"], answer["cap"]), (2, 12 * GB))
            got = row(d, p.session)
            check_equal((got["cap"], got["pin"], got["priority"], got["revision"]),
                        (12 * GB, None, 0, 1))
            check_equal(set_(d, p.session, "cap=none", "pin=1GB", "priority=-7").returncode, 0)
            p.recv()
            got = row(d, p.session)
            check_equal((got["cap"], got["pin"], got["priority"], got["revision"]),
                        (None, GB, -7, 2))
            check_equal(asks(p, 20 * GB)["cap"], 25 * GB)
            check_in("set by an operator, revision 2: cap -, pin 1.00 GB, priority -7",
                     ctl("status", "--socket", d.socket).stdout)
        check_replays(journal)


@test
def a_stale_revision_is_refused():
    with Daemon() as d, d.worker("a") as p:
        check_equal(set_(d, p.session, "priority=1", "--rev", 0).returncode, 0)
        done = set_(d, p.session, "priority=2", "--rev", 0)
        check_equal(done.returncode, 1)
        check_in("stale", done.stderr)
        check_equal(row(d, p.session)["priority"], 1)
        check_equal(set_(d, p.session, "priority=2", "--rev", 1).returncode, 0)


@test
def what_cannot_be_is_named():
    with Daemon() as d, d.worker("a") as p:
        for words, part in (((), "session"), ((p.session,), "cap=B"), (("x", "cap=1"), "number"),
                            ((p.session, "cap=-1"), "cap=-1"), ((p.session, "size=1"), "size=1"),
                            ((p.session, "priority=101"), "priority=101"),
                            ((p.session, "pin=1", "--rev", "x"), "--rev")):
            done = set_(d, *words)
            check_equal(done.returncode, 2, words)
            check_in(part, done.stderr)
        done = set_(d, 77, "cap=1")
        check_equal(done.returncode, 1)
        check_in("no session with that number", done.stderr)
        check_equal(p.error("set", session=p.session, revision=0, priority=101), "invalid")
        for words, part in (((), "SESSION"), ((1, "--all"), "one of"), (("x",), "number"), ((1, 2), "one session"),
                            (("--all", "--until-free", "x"), "size")):
            done = release(d, *words)
            check_equal(done.returncode, 2, words)
            check_in(part, done.stderr)
        check_equal(release(d, 77).returncode, 1)


@test
def only_admins_may():
    skip_unless(IS_ROOT, "needs root, to be another user")
    with folder(0o755, base="/tmp") as at:
        with Daemon(at=at, socket_mode="0666", admin_group="daemon") as d, d.worker("a") as p:
            def by(uid, *groups):
                return subprocess.run([CTL, "set", "--socket", d.socket, str(p.session), "priority=1"],
                                      user=uid, group=uid, extra_groups=groups, text=True,
                                      env=dict(os.environ, TMPDIR="/tmp"),  # ours is private
                                      capture_output=True, check=False, timeout=slow(20))

            done = by(1000)
            check_equal(done.returncode, 4)
            check_in("may not", done.stderr)
            check_equal(row(d, p.session)["revision"], 0)
            check_equal(by(1000, 1).returncode, 0)  # "daemon" is group 1 of Debian
            check_equal(row(d, p.session)["revision"], 1)


@test
def a_setting_outlives_the_daemon():
    with folder() as at, Daemon(at=at) as d, run_worker(d) as worker:
        def info():
            worker.stdin.write("info\n")
            worker.stdin.flush()
            return worker.stdout.readline()

        check_equal(worker.stdout.readline(), "open\n")
        check_equal(set_(d, 1, "cap=12GB", "priority=5").returncode, 0)
        check_equal(info(), "True 12000000000\n")
        d.kill()
        with Daemon(at=at) as again:
            wait_for(lambda: info() and again.status()["sessions"], 10, "the worker is back")
            got = row(again, 1)
            check_equal((got["cap"], got["priority"], got["revision"]), (12 * GB, 5, 1))
        worker.stdin.close()
        worker.wait(slow(10))


def run_worker(daemon):
    code = ("import sys\nfrom dlo import client\nw = client.Client(name='a')\nprint('open', flush=True)\n"
            "for line in sys.stdin:\n    print(w.info()['connected'], w.cap(10**11), flush=True)\n")
    return subprocess.Popen([SYSTEM_PYTHON, "-c", code], env=environment(daemon), text=True,
                            stdin=subprocess.PIPE, stdout=subprocess.PIPE)


# ---- release ----

@test
def caches_are_released_now_or_at_the_next_boundary():
    with folder() as at:
        sim = SimGpu(at, 85 * GB)
        journal = os.path.join(at, "journal")
        with Daemon(sim, at=at, journal_file=journal, **KEEP) as d, d.worker("idle") as idle, \
                d.worker("busy", features=0) as busy, d.worker("dormant", features=1) as dormant:
            for p in (idle, busy, dormant):
                asks(p, 10 * GB)
            idle.ok("idle", phase=1)
            done = subprocess.Popen([CTL, "release", "--bytes", "--socket", d.socket, "--all"], text=True,
                                    stdout=subprocess.PIPE)
            seq, body, told = idle.recv()
            check_equal((seq, body, told["bytes"]), (0, "reclaim", 10 * GB))
            idle.ok("reclaimed", call=told["call"], reserved=0, allocated=0, us=5)
            wait_for(lambda: row(d, busy.session)["asked"], what="the busy one is asked")
            check_equal(asks(busy, 10 * GB)["reason"], 4)
            busy.ok("released", reserved=GB, allocated=0, us=5)
            out, _ = done.communicate(timeout=slow(20))
            check_in("released 19000000000", out)
            check_in("(nobody)", out)
            check_in("at its next boundary", release(d, dormant.session).stdout)
            check_equal(asks(dormant, 10 * GB)["reason"], 10)
        check_replays(journal)


@test
def one_operator_at_a_time_and_one_who_goes_leaves_nothing():
    with folder() as at:
        sim = SimGpu(at, 85 * GB)
        journal = os.path.join(at, "journal")
        with Daemon(sim, at=at, journal_file=journal, **KEEP) as d, d.worker("busy") as busy:
            asks(busy, 10 * GB)
            with d.observer() as operator:
                operator.send("vacate")
                wait_for(lambda: row(d, busy.session)["asked"], what="asked")
                with d.observer() as other:
                    check_equal(other.error("vacate"), "limit")
            wait_for(lambda: not row(d, busy.session)["asked"], what="not asked any more")
            check_equal(asks(busy, 10 * GB)["reason"], 10)
        check_replays(journal)


main()
