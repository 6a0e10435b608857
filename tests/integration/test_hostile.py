#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# run-alone: it measures memory, and fills a core
"""Peers that mean harm: the daemon's memory stays within 1 MiB of before, others are served."""
import os
import random
import resource
import select
import socket
import threading
import time

from lib import wire
from lib.harness import Closed, Daemon, Peer, SLOW, is_plain_build, slow, wait_for
from lib.runner import Skip, check, check_equal, main, test

MIB_KIB = 1024
PACKETS = int(100_000 / SLOW)
SESSIONS = 1024


class Quiet:
    """A well-behaved worker in a thread: it asks all the time, and each answer must come."""

    def __init__(self, d):
        self.peer = d.worker("quiet")
        self.asked = 0
        self.slowest = 0.0
        self.error = None
        self.over = threading.Event()
        self.thread = threading.Thread(target=self._run, daemon=True)

    def _run(self):
        try:
            while not self.over.wait(0.005):
                began = time.monotonic()
                self.peer.ask(30, 10, 80, 400)
                self.slowest = max(self.slowest, time.monotonic() - began)
                self.asked += 1
        except Exception as e:  # shown by the test's own thread
            self.error = e

    def __enter__(self):
        self.thread.start()
        wait_for(lambda: self.asked or self.error, what="the quiet worker is served")
        return self

    def __exit__(self, *unused):
        self.over.set()
        self.thread.join(slow(5))
        self.peer.close()

    def check_served(self):
        before = self.asked
        wait_for(lambda: self.asked > before or self.error, what="served afterwards")
        check(self.error is None, f"the quiet worker: {self.error!r}")
        check(self.slowest < slow(0.25), f"slowest answer {self.slowest:.3f} s")


def check_memory(d, before):
    if not is_plain_build():
        return
    after = d.rss_kib()
    check(after - before <= MIB_KIB, f"grew from {before} to {after} KiB")


def warm(d):
    """What any use of the daemon touches once."""
    with d.worker("warm") as p, d.observer() as o:
        for i in range(200):
            p.ok("attach", id=f"s{i}", bytes=1)
            p.ask(40, 10, 80, 400)
        o.status_pages()
    d.settle()
    return d.rss_kib()


# ---- 100,000 random packets ----

def templates():
    state = {"peak": 5, "n": 3, "counts": {"retained": 1, "forced": [0, 1, 2]}}
    yield wire.request(1, "hello", min_version=1, max_version=1, name="x", state=state)
    yield wire.request(2, "attach", id="a", bytes=2**63)
    yield wire.request(3, "detach", id="a")
    yield wire.request(4, "set_peak", peak=2**64 - 1)
    yield wire.request(5, "warmup", phase=1)
    yield wire.request(6, "busy", phase=1, need=5)
    yield wire.request(7, "ask", reserved=9, allocated=3, free=80, total=400, component="c")
    yield wire.request(8, "released", reserved=1, allocated=1, us=1)
    yield wire.request(9, "resume", state=state)
    yield wire.request(10, "status", cursor=1)
    yield wire.request(11, "events", cursor=3)
    yield bytes(wire.tag(15, 2) + wire.varint(4000) + bytes(4000))  # unknown, large
    yield wire.tag(100, 0) + b"\0" + b"\x7a\0" * 2000  # many unknown fields


def random_packet(rng, known):
    if rng.random() < 0.3:
        return rng.randbytes(rng.choice((1, 2, 5, 20, 300, 4096, 4097)))
    data = bytearray(rng.choice(known))
    for _ in range(rng.choice((0, 0, 1, 1, 2, 8))):
        data[rng.randrange(len(data))] = rng.randrange(256)
    if rng.random() < 0.1:
        del data[rng.randrange(len(data)):]
    return bytes(data)


class Flooder:
    """Sends whatever it is told, connects again when it is closed, reads now and then."""

    def __init__(self, path):
        self.path, self.sock, self.connects = path, None, 0

    def send(self, data):
        for _ in range(2):
            if self.sock is None:
                self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
                self.sock.connect(self.path)
                self.sock.setblocking(False)
                self.connects += 1
                if self.connects % 2:
                    self.sock.send(wire.request(1, "hello", min_version=1, max_version=1))
            try:
                self.drain()
                self.wait_writable()
                self.sock.send(data or b"\0")
                return
            except OSError:
                self.sock.close()
                self.sock = None

    def wait_writable(self):
        poll = select.poll()
        poll.register(self.sock, select.POLLOUT)
        poll.poll(slow(5) * 1000)

    def drain(self):
        try:
            while self.sock.recv(4097):
                pass
        except BlockingIOError:
            pass


@test
def a_hundred_thousand_random_packets_cost_no_memory():
    rng = random.Random(20260101)
    known = list(templates())
    with Daemon() as d:
        before = warm(d)
        with Quiet(d) as quiet:
            flooder = Flooder(d.socket)
            for _ in range(PACKETS):
                flooder.send(random_packet(rng, known))
            flooder.sock and flooder.sock.close()
            quiet.check_served()
        d.settle()
        check_memory(d, before)
        check_equal(d.status()["daemon"]["stagers"], 0)


@test
def a_storm_of_bad_peers_does_not_fill_the_log():
    count = int(5000 / SLOW)
    with Daemon() as d:
        began = time.monotonic()
        for _ in range(count):
            with d.worker("storm") as p:
                p.send_raw(b"\xff" * 9)
        d.settle()
        seconds = time.monotonic() - began
        # daemon/service.c: 100 mistakes and 4,096 arrivals at once, then 20 a second of each
        lines, most = len(d.log().splitlines()), 4096 + 100 + 42 * (seconds + 1) + 20
        check(lines <= most, f"{lines} lines for {count} connections in {seconds:.1f} s")


# ---- floods ----

@test
def a_peer_that_never_reads_is_closed():
    with Daemon() as d:
        before = warm(d)
        with Quiet(d) as quiet, d.worker("deaf") as deaf:
            request = wire.request(5, "status")
            deaf.sock.settimeout(slow(5))
            try:
                for _ in range(100_000):
                    deaf.sock.send(request)
                check(False, "not closed after 100,000 requests")
            except (BrokenPipeError, ConnectionResetError):
                pass
            check_equal(len(d.wait_log("does not read its answers", "name=deaf")), 1)
            check_memory(d, before)
            quiet.check_served()


@test
def floods_of_asks_from_many_sessions_leave_others_served():
    with Daemon() as d:
        before = warm(d)
        with Quiet(d) as quiet:
            peers = [d.worker(f"flood{i}") for i in range(8)]
            until = time.monotonic() + 1.0
            while time.monotonic() < until:
                for p in peers:
                    for _ in range(16):
                        p.send("ask", reserved=40, allocated=10, free=80, total=400)
                for p in peers:
                    for _ in range(16):
                        check_equal(p.recv()[1], "answer")
            quiet.check_served()
            for p in peers:
                p.close()
        d.settle()
        check_memory(d, before)


@test
def connections_without_a_hello_cannot_keep_others_out():
    with Daemon(hello_timeout="200ms", max_sessions=40) as d:
        d.settle()
        idle = []
        for _ in range(60):
            idle.append(Peer(d.socket))
        wait_for(lambda: served(d), slow(3), "a place for others")
        for p in idle:
            p.close()


def served(d):
    try:
        with d.worker("late") as p:
            return p.ask(40, 10, 80, 400)[0] == "release"
    except Closed:
        return False
    except AssertionError:  # busy
        return False


# ---- many sessions ----

def raise_descriptors(needed):
    low, high = resource.getrlimit(resource.RLIMIT_NOFILE)
    if high != resource.RLIM_INFINITY and high < needed:
        raise Skip(f"the limit of descriptors is {high}")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(low, needed), high))


@test
def the_status_of_1024_sessions_is_complete():
    if os.geteuid() != 0:
        raise Skip("needs root, whose sessions have no quota a user")
    raise_descriptors(4 * SESSIONS)
    with Daemon(max_sessions=SESSIONS + 16, root_sessions=8) as d:
        peers = [d.worker(f"w{i}") for i in range(SESSIONS)]
        for p in peers:
            p.send("attach", id="stager", bytes=p.session)
        for p in peers:
            check_equal(p.recv()[1], "ledger")
        with d.observer() as o:
            first, rows = o.status_pages()
        check_equal(first["daemon"]["sessions"], SESSIONS)
        check_equal([r["session"] for r in rows], sorted(p.session for p in peers))
        check_equal([r["staged"] for r in rows], [r["session"] for r in rows])
        check_equal(len(d.status()["sessions"]), SESSIONS, "rows of dlo-ctl")
        stop_in_the_middle(d, peers)
        for p in peers:
            p.close()
        d.settle()


def stop_in_the_middle(d, peers):
    """A reader that takes two pages and no more, then asks on without reading."""
    before = d.rss_kib()
    with d.observer() as o:
        cursor = o.ok("status", cursor=0)["cursor"]
        o.ok("status", cursor=cursor)
        check_equal(peers[-1].ask(30, 10, 80, 400)[2]["n"], 1)
        check(o.is_open())
        try:
            for _ in range(10_000):
                o.send("status", cursor=cursor)
            check(False, "a peer that does not read is kept")
        except Closed:
            pass
        check_equal(peers[0].ask(30, 10, 80, 400)[2]["n"], 1)
    check_memory(d, before)


main()
