#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Connections: hello, bad input, quotas, descriptors, death of a peer (threats T2, T3, T8, T10, T13
to T16, T18, T19, T22)."""
import array
import os
import re
import signal
import socket
import struct
import time

from lib import wire
from lib.harness import Closed, Daemon, Peer, as_uid, folder, slow, wait_for, worker
from lib.runner import check, check_equal, check_in, main, test

U64_MAX = 2**64 - 1


# ---- hello ----

@test
def a_hello_agrees_on_a_version():
    with Daemon() as d:
        for low, high in ((1, 1), (1, 99)):
            with d.peer() as p:
                welcome = p.ok("hello", min_version=low, max_version=high, name="v")
                check_equal(welcome["version"], 1)
                check(welcome["session"] > 0)
        for low, high, word in ((2, 9, "version"), (0, 0, "invalid"), (3, 2, "invalid")):
            with d.peer() as p:
                check_equal(p.error("hello", min_version=low, max_version=high), word)
                check(p.is_closed(), "still open after", word)


@test
def a_second_hello_is_bad_state_and_the_session_goes_on():
    with Daemon() as d, d.worker() as p:
        check_equal(p.error("hello", min_version=1, max_version=1), "bad_state")
        check_equal(p.ask(40, 10, 80, 400)[:2], ("release", "cached_over_budget"))


@test
def anything_before_a_hello_is_bad_state_and_the_end():
    with Daemon() as d:
        for op, fields in (("attach", {"id": "a", "bytes": 1}), ("ask", {}), ("status", {}),
                           ("events", {"wait": True})):
            with d.peer() as p:
                check_equal(p.error(op, **fields), "bad_state", op)
                check(p.is_closed(), "still open after", op)
        check_equal(d.status()["daemon"]["sessions"], 0)


@test
def an_unknown_message_is_unsupported_and_the_session_goes_on():
    with Daemon() as d, d.worker() as p:
        p.seq += 1
        p.send_raw(wire.encode("Request", {"seq": p.seq}) + wire.block(29, b""))
        seq, word, _ = p.recv_error()
        check_equal((seq, word), (p.seq, "unsupported"))
        check_equal(p.ask(40, 10, 80, 400)[0], "release")


@test
def unknown_fields_are_ignored():
    with Daemon() as d, d.peer() as p:
        hello = wire.encode("Hello", {"min_version": 1, "max_version": 1}) + wire.block(99, b"new")
        p.send_raw(wire.encode("Request", {"seq": 7}) + wire.block(2, hello) + wire.tag(400, 0) +
                   wire.varint(5))
        seq, body, _ = p.recv()
        check_equal((seq, body), (7, "welcome"))


@test
def an_observer_may_look_and_nothing_else():
    with Daemon() as d, d.observer() as p:
        check_equal(p.error("attach", id="a", bytes=1), "permission")
        check_equal(p.error("ask"), "permission")
        check_equal(p.ok("status")["daemon"].get("sessions", 0), 0)


# ---- bytes that are no message ----

def warnings_of(d, pid):
    return [x for x in d.log_lines("level=warning", f"pid={pid}") if "refused" in x]


def check_refusal(d, data, word, as_worker):
    """The answer can be read, the connection ends, one warning names who and why."""
    before = len(warnings_of(d, os.getpid()))
    with (d.worker("bad") if as_worker else d.peer()) as p:
        p.send_raw(data)
        seq, got, _ = p.recv_error()
        check_equal((seq, got), (0, word))
        check(p.is_closed(), "still open after", word)
        session = p.session
    lines = warnings_of(d, os.getpid())[before:]
    check_equal(len(lines), 1, "warnings")
    for part in (f"session={session}", f"uid={os.getuid()}", f"({word})"):
        check_in(part, lines[0])


@test
def a_message_of_4097_bytes_is_too_long_and_the_end():
    with Daemon() as d, d.worker("quiet") as quiet:
        for as_worker in (False, True):
            check_refusal(d, b"\x08\x01" + bytes(4095), "too_long", as_worker)
            check_refusal(d, bytes(9000), "too_long", as_worker)
        check(quiet.is_open())


@test
def a_message_of_4096_bytes_is_read():
    with Daemon() as d, d.worker() as p:
        head = wire.encode("Request", {"seq": 9, "status": {}}) + wire.tag(100, 2)
        p.send_raw(head + wire.varint(4096 - len(head) - 2) + bytes(4096 - len(head) - 2))
        seq, body, _ = p.recv()
        check_equal((seq, body), (9, "status"))


@test
def garbage_is_malformed_and_the_end():
    with Daemon() as d, d.worker("quiet") as quiet:
        for data in (b"\xff" * 40, b"\x08", b"garbage", b"\x08\x01\x12\x7f"):
            for as_worker in (False, True):
                check_refusal(d, data, "malformed", as_worker)
        check(quiet.is_open())


@test
def an_empty_packet_ends_the_session_like_end_of_file():
    with Daemon() as d, d.worker() as p:
        p.sock.send(b"")
        check(p.is_closed())
        wait_for(lambda: d.status()["daemon"]["sessions"] == 0, what="session closed")


# ---- fields that break a rule ----

BAD_NAMES = (b"a\nlevel=error msg=forged", b"a\0b", b"\x1b[31m", b"", b"x" * 64, b"a b", b"\xc3\xa4",
             b'a"b', b"a/b")


@test
def a_bad_name_is_refused_and_forges_no_log_line():
    with Daemon() as d, d.worker("quiet") as quiet:
        for name in BAD_NAMES:
            with d.peer() as p:
                check_equal(p.error("hello", min_version=1, max_version=1, name=name), "invalid")
                check(p.is_closed())
            check_equal(quiet.error("attach", id=name, bytes=1), "invalid", name)
        log = d.log()
        check("\x1b" not in log and "\0" not in log, "control bytes in the log")
        check(all(re.match(r"ts=\S+ level=\w+ msg=\"", x) for x in log.splitlines()), log)
        check(not d.log_lines("level=error"), "a forged line")
        check_equal(quiet.ok("attach", id="x" * 63, bytes=1)["staged"], 1)


@test
def sums_that_pass_2_64_are_overflow_and_change_nothing():
    with Daemon() as d, d.worker() as p:
        check_equal(p.ok("attach", id="a", bytes=U64_MAX)["staged"], U64_MAX)
        check_equal(p.error("attach", id="b", bytes=U64_MAX), "overflow")
        check_equal(p.error("attach", id="b", bytes=1), "overflow")
        check_equal(p.ok("attach", id="b", bytes=0)["stagers"], 2)
        [row] = d.status()["sessions"]
        check_equal(row["stagers"], 2)


@test
def a_negative_size_is_a_large_one_and_harms_nobody():
    with Daemon() as d, d.worker() as p:
        check_equal(p.ok("attach", id="a", bytes=-1)["staged"], U64_MAX)
        check_equal(p.error("attach", id="b", bytes=-5), "overflow")
        decision, reason, answer = p.ask(U64_MAX, 0, U64_MAX, U64_MAX)
        check_equal((decision, reason), ("release", "cached_over_budget"))
        check_equal(answer["learned"], U64_MAX)  # saturates


@test
def an_attached_id_changes_nothing_and_an_unknown_one_is_an_error():
    with Daemon() as d, d.worker() as p:
        p.ok("attach", id="a", bytes=5)
        check_equal(p.ok("attach", id="a", bytes=7), {"staged": 5, "stagers": 1})
        check_equal(p.error("detach", id="b"), "unknown_stager")
        check_equal(p.ok("detach", id="a").get("staged", 0), 0)


@test
def numbers_outside_their_tables_are_invalid():
    with Daemon() as d, d.worker() as p:
        for op, bad in (("ask", {"force": 9}), ("ask", {"force": 2**32 - 1}), ("warmup", {"phase": 0}),
                        ("warmup", {"phase": 3}), ("busy", {"phase": 7}), ("attach", {"id": "a"}),
                        ("released", {"reserved": 1}), ("set_peak", {}),
                        ("resume", {"state": {"priority": 101}})):
            check_equal(p.error(op, **bad), "invalid", (op, bad))
        for bad in ({"policy": 77}, {"mode": 4}, {"stage_end": 3}, {"min_free": 1.5},
                    {"min_free": float("nan")}, {"min_free": -0.1}, {"rank": 2, "world": 2}):
            with d.peer() as q:
                check_equal(q.error("hello", min_version=1, max_version=1, **bad), "invalid", bad)
                check(q.is_closed())
        check_equal(p.error("warmup", phase=2), "bad_state")
        check_equal(p.error("busy", phase=1), "bad_state")  # it has no brackets


@test
def the_hundredth_error_ends_a_session():
    with Daemon() as d, d.worker() as p:
        for i in range(100):
            check(p.is_open(), "closed after", i)
            p.error("detach", id="none")
        check(p.is_closed())
        check_equal(len(warnings_of(d, os.getpid())), 5, "warnings")


# ---- quotas ----

@test
def stagers_have_quotas_a_session_a_user_and_a_daemon():
    with Daemon(max_stagers_session=3, max_stagers_uid=5, max_stagers=6) as d:
        with d.worker("a") as a, d.worker("b") as b:
            for i in range(3):
                a.ok("attach", id=f"s{i}", bytes=1)
            check_equal(a.error("attach", id="s3", bytes=1), "limit")
            check_equal(a.ok("attach", id="s0", bytes=9)["stagers"], 3)  # R1: no new one
            b.ok("attach", id="s0", bytes=1)
            b.ok("attach", id="s1", bytes=1)
            check_equal(b.error("attach", id="s2", bytes=1), "limit")
            a.ok("detach", id="s0")
            b.ok("attach", id="s2", bytes=1)
        wait_for(lambda: d.status()["daemon"]["stagers"] == 0, what="stagers gone")


@test
def sessions_have_a_quota_and_root_keeps_some():
    with Daemon(max_sessions=4, root_sessions=2, socket_mode="0666") as d:
        d.settle()
        os.chmod(d.folder, 0o711)
        with as_uid(1234):
            others = [in_folder(d) for _ in range(2)]
            refused = in_folder(d)
        for p in others:
            p.hello("other")
        check_equal(refused.recv_error()[:2], (0, "busy"))
        check(refused.is_closed())
        roots = [d.worker("root") for _ in range(2)]
        with d.peer() as last:
            check_equal(last.recv_error()[:2], (0, "busy"))
        wait_for(lambda: len(d.log_lines("refused a connection", "busy", "pid")) == 2, what="log")
        for p in others + roots + [refused]:
            p.close()
        wait_for(lambda: accepted(d), what="a free place")


def accepted(d):
    try:
        with d.observer():
            return True
    except (AssertionError, Closed):
        return False


def in_folder(d):
    """Connects by a relative path: the folder above is closed for other users."""
    here = os.open(".", os.O_PATH | os.O_DIRECTORY)
    euid = os.geteuid()
    try:
        os.seteuid(0)
        os.chdir(d.folder)
        os.seteuid(euid)
        return Peer("dlod.sock")
    finally:
        os.seteuid(0)
        os.fchdir(here)
        os.close(here)
        os.seteuid(euid)


@test
def a_user_has_a_quota_of_sessions_and_other_users_are_untouched():
    with Daemon(max_sessions_uid=2, socket_mode="0666") as d:
        os.chmod(d.folder, 0o711)
        with as_uid(1234):
            first = [in_folder(d) for _ in range(3)]
        for p in first[:2]:
            p.hello("one")
        check_equal(first[2].recv_error()[1], "busy")
        with as_uid(1235):
            other = in_folder(d)
        other.hello("two")
        rows = d.status()["sessions"]
        check_equal(sorted(r["uid"] for r in rows), [1234, 1234, 1235])
        for p in first + [other]:
            p.close()


@test
def a_user_of_another_group_cannot_connect():
    with Daemon() as d:
        os.chmod(d.folder, 0o711)
        with as_uid(1234):
            try:
                in_folder(d)
            except PermissionError:
                return
        check(False, "a stranger could connect")


@test
def a_shorter_hello_timeout_counts_from_the_reload_on():
    with Daemon(config="hello_timeout = 1h\n") as d, Peer(d.socket) as silent:
        check(silent.is_open())
        d.write_config("hello_timeout = 100ms\n")
        d.reload()
        check_equal(silent.recv_error(slow(2))[1], "hello_timeout")
        with Peer(d.socket) as later:
            check_equal(later.recv_error(slow(2))[1], "hello_timeout")


@test
def a_hello_that_came_in_time_is_read_by_a_daemon_that_was_late():
    with Daemon(hello_timeout="100ms") as d:
        with Peer(d.socket) as p, Peer(d.socket) as silent:
            wait_for(lambda: d.peer_count() == 2, what="both are accepted")
            os.kill(d.process.pid, signal.SIGSTOP)
            p.send("hello", min_version=1, max_version=1, name="early")
            started = time.monotonic()
            wait_for(lambda: time.monotonic() > started + 0.2, what="the time to be over")
            os.kill(d.process.pid, signal.SIGCONT)
            check_equal(p.recv()[1], "welcome")
            check_equal(silent.recv_error(slow(2))[1], "hello_timeout")


@test
def a_refused_connection_and_another_may_come_in_one_turn():
    with folder(0o755, base="/tmp") as at, \
            Daemon(at=at, hello_timeout="100ms", max_sessions_uid=1, socket_mode="0666") as d:
        with as_uid(1000):
            held = worker(d.socket, "held")
        with Peer(d.socket) as silent:  # its end is that of the timer
            silent.recv_error(slow(2))
            check(silent.is_closed())
        os.kill(d.process.pid, signal.SIGSTOP)
        with as_uid(1000):
            refused = Peer(d.socket)
        with refused, held, Peer(d.socket) as other:
            os.kill(d.process.pid, signal.SIGCONT)
            check_equal(refused.recv_error(slow(2))[1], "busy")
            other.observe()
            check_equal(held.ask(40, 10, 80, 400)[0], "release")


@test
def a_connection_without_a_hello_is_closed_in_time():
    with Daemon(hello_timeout="100ms") as d, d.worker("quiet") as quiet:
        silent = [d.peer() for _ in range(3)]
        for p in silent:
            check_equal(p.recv_error(slow(2))[:2], (0, "hello_timeout"))
            check(p.is_closed())
        check(quiet.is_open())
        check_equal(len(d.log_lines("no hello came in time", f"pid={os.getpid()}")), 3)


# ---- death, descriptors ----

@test
def connections_leave_no_descriptor_behind():
    with Daemon() as d:
        baseline = d.settle()
        for _ in range(20):
            with d.worker() as p, d.peer():
                p.ok("attach", id="a", bytes=1)
        check_equal(d.settle(), baseline, "descriptors")
        check_equal(d.status()["daemon"]["stagers"], 0)


@test
def descriptors_sent_along_are_not_taken():
    with Daemon() as d:
        d.settle()
        p = d.worker()
        baseline = d.fds()
        control = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [0] * 200))]
        for _ in range(5):
            p.seq += 1
            try:
                p.sock.sendmsg([wire.request(p.seq, "status")], control)
            except PermissionError:  # SO_PASSRIGHTS = 0, Linux 6.16
                p.send_raw(wire.request(p.seq, "status"))
            check_equal(p.recv()[1], "status")
        check_equal(d.fds(), baseline, "descriptors")
        p.close()


def fork_worker(d):
    """A worker process whose forked child keeps its socket: (pid of the worker, of the child)."""
    tell, told = socket.socketpair()
    worker = os.fork()
    if worker == 0:
        tell.close()
        p = d.worker("forked")
        p.ok("attach", id="a", bytes=1)
        child = os.fork()
        if child > 0:
            told.send(struct.pack("i", child))
        told.recv(1)  # both: until the test lets go
        os._exit(0)
    told.close()
    child = struct.unpack("i", tell.recv(4))[0]
    return worker, child, tell


@test
def a_dead_worker_frees_its_slot_though_a_child_holds_its_socket():
    with Daemon() as d:
        worker, child, tell = fork_worker(d)
        [row] = d.status()["sessions"]
        check_equal((row["pid"], row["name"]), (worker, "forked"))
        os.kill(worker, 9)
        os.waitpid(worker, 0)
        wait_for(lambda: d.status()["daemon"]["sessions"] == 0, 1, "slot freed")
        os.kill(child, 0)  # it lives, and so does the socket
        check_equal(len(d.log_lines("process is gone", f"pid={worker}")), 1)
        tell.close()


@test
def pid_and_uid_come_from_the_kernel():
    with Daemon() as d, d.worker() as p:
        [row] = d.status()["sessions"]
        check_equal((row["pid"], row["uid"]), (os.getpid(), os.getuid()))
        check(p.is_open())


@test
def requests_in_a_row_are_answered_in_order():
    with Daemon() as d, d.worker() as p:
        sent = [p.send("ask", reserved=40, allocated=10, free=80, total=400) for _ in range(20)]
        check_equal([p.recv()[0] for _ in sent], sent)


@test
def while_events_are_awaited_everything_else_is_bad_state():
    with Daemon() as d, d.observer() as p:
        cursor = 0
        while (page := p.ok("events", cursor=cursor)).get("lines"):
            cursor = page["cursor"]
        wait = p.send("events", cursor=cursor, wait=True)
        check_equal(p.error("status"), "bad_state")
        with d.worker("news"):
            seq, body, page = p.recv()
        check_equal((seq, body), (wait, "events"))
        check_in(b"name=news", page["lines"][0])


main()
