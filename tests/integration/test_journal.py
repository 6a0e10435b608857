#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What the daemon writes down plays back to the same answers: the file, its pieces after rotation,
the ring, also after it wrapped; and a full disk costs lines, not the daemon."""
import os
import random
import resource
import signal
import subprocess
import time

from lib import wire
from lib.harness import (CTL, SLOW, Closed, Daemon, IS_ROOT, SimGpu, check_replays, folder, slow,
                         replay_check, run_dlod, wait_for)
from lib.runner import Skip, check, check_equal, check_in, main, test

HEADER = "# dlo-trace 1"


class Storm:
    """Random requests of several sessions, with reconnects that resume and ones that do not."""

    def __init__(self, d, seed, total=400):
        self.d, self.rng, self.total = d, random.Random(seed), total
        self.peers = [self.open(i) for i in range(5)]

    def open(self, i, **more):
        choice = {}
        if self.rng.random() < 0.5:
            choice["policy"] = self.rng.choice((1, 2, 3))
        if self.rng.random() < 0.3:
            choice["min_free"] = self.rng.choice((0.0, 0.1, 1 / 3))
        if self.rng.random() < 0.5:
            choice["features"] = 1
        if self.rng.random() < 0.3:
            choice["stage_end"] = 2
        return self.d.worker(f"w{i}", **choice, **more)

    def number(self):
        return self.rng.choice((0, 1, 7, self.rng.randrange(self.total), 10**12, 2**64 - 1))

    def request(self, p):
        n = self.number
        kind = self.rng.randrange(12)
        stager = f"s{self.rng.randrange(4)}"
        if kind < 5:
            ask = {k: n() for k in ("reserved", "allocated", "free", "total", "releasable")
                   if self.rng.random() < 0.8}
            if self.rng.random() < 0.15:
                ask["force"] = self.rng.randrange(1, 5)
            return p.call("ask", component=f"c{kind}", **ask)
        return [lambda: p.call("attach", id=stager, bytes=n()),
                lambda: p.call("detach", id=stager),
                lambda: p.call("set_peak", peak=n()),
                lambda: p.call("warmup", phase=self.rng.choice((1, 2))),
                lambda: p.call("busy", phase=self.rng.choice((1, 2))),
                lambda: p.call("released", reserved=n(), allocated=n(), us=3),
                lambda: p.call("resume", state=self.state())][kind - 5]()

    def state(self):
        n = self.number
        return {"peak": n(), "n": self.rng.randrange(1000), "in_warmup": self.rng.random() < 0.5,
                "warmup_ended": self.rng.random() < 0.5, "busy": self.rng.random() < 0.5,
                "residue": n(), "reserved": n(), "allocated": n(),
                "counts": {"retained": 5, "uncovered": 2, "forced": [0, 1, 2], "local": [0, 0, 9]}}

    def reconnect(self):
        i = self.rng.randrange(len(self.peers))
        self.peers[i].close()
        more = {"state": self.state()} if self.rng.random() < 0.5 else {}
        self.peers[i] = self.open(i, **more)

    def run(self, requests):
        for _ in range(int(requests / SLOW ** 0.5)):
            i = self.rng.randrange(len(self.peers))
            try:
                self.request(self.peers[i])
            except Closed:  # its hundredth error
                self.peers[i] = self.open(i)
            if self.rng.random() < 0.01:
                self.reconnect()
        return self

    def close(self):
        for p in self.peers:
            p.close()


def compared(text):
    return int(text.split("compared ")[1].split()[0])


def read(path):
    with open(path, encoding="utf-8") as f:
        return f.read()


# ---- the file ----

@test
def a_journal_of_random_requests_replays():
    for seed in (1, 2):
        with folder() as at:
            path = os.path.join(at, "journal")
            with Daemon(at=at, journal_file=path) as d:
                Storm(d, seed).run(3000).close()
            text = check_replays(path)
            check(compared(text) > 3000, text)


@test
def a_journal_with_samples_replays():
    with folder() as at:
        sim = SimGpu(at)
        path = os.path.join(at, "journal")
        with Daemon(sim, at=at, journal_file=path, sample_max_age="1ms") as d:
            storm = Storm(d, 3, total=16 << 30)
            storm.run(400)
            p = d.worker("unpaired")
            for i in range(30):
                p.ask(i << 20, 0)
            sim.fault("nvmlDeviceGetMemoryInfo_v2", "hang")
            wait_for(lambda: p.ask(5, 3)[1] == "telemetry_unavailable", what="a sample that fails")
            storm.close()
            p.close()
            d.stop()
        check_replays(path)
        text = read(path)
        for part in ("sample free=1", "sample free=- total=-", "source=nvml",
                     "reason=telemetry_unavailable"):
            check_in(part, text)


@test
def a_rotated_file_keeps_one_old_piece_and_both_replay():
    with folder() as at:
        path = os.path.join(at, "journal")
        with Daemon(at=at, journal_file=path, journal_file_max="64K") as d:
            Storm(d, 4).run(2500).close()
            d.stop()
        check_equal(sorted(x for x in os.listdir(at) if x.startswith("journal")),
                    ["journal", "journal.1"])
        for piece in (path, path + ".1"):
            check_in(HEADER, read(piece).splitlines()[0])
            check(os.path.getsize(piece) < 96 << 10, piece, os.path.getsize(piece))
            check_replays(piece)


@test
def a_journal_goes_on_after_a_restart_and_still_replays():
    with folder() as at:
        path = os.path.join(at, "journal")
        for seed in (5, 6):
            with Daemon(at=at, journal_file=path) as d:
                Storm(d, seed).run(300).close()
        with Daemon(at=at, journal_file=path) as d:
            Storm(d, 7).run(300)
            d.kill()  # nothing is flushed by a kill -9 but what was written after each turn
        check_replays(path)
        check_equal(read(path).count(HEADER), 1, "headers")


@test
def a_refused_session_and_bad_requests_replay():
    with folder() as at:
        path = os.path.join(at, "journal")
        with Daemon(at=at, journal_file=path) as d, d.worker() as p:
            with d.peer() as q:
                q.error("hello", min_version=1, max_version=1, policy=wire.POLICY["never"])
            for op, bad in (("detach", {"id": "none"}), ("warmup", {"phase": 2}),
                            ("busy", {"phase": 1}), ("attach", {"id": "x", "bytes": 2**64 - 1}),
                            ("attach", {"id": "y", "bytes": 1})):
                p.call(op, **bad)
            d.stop()
        check_replays(path)
        for word in ("policy_not_allowed", "unknown_stager", "bad_state", "overflow"):
            check_in(f"-> error reason={word}", read(path))


@test
def a_reload_is_in_the_journal_and_replays():
    with folder() as at:
        path = os.path.join(at, "journal")
        base = f"telemetry = worker\njournal_file = {path}\n"
        with Daemon(at=at, config=base) as d, d.worker() as p:
            p.ask(40, 10, 80, 400)
            d.write_config(base + "cap_fraction = 0.5\nmargin = 2\nmode = shadow\n")
            d.reload()
            p.ask(40, 10, 80, 400)
            d.stop()
        check_replays(path)


@test
def one_changed_value_is_found_by_file_line_and_key():
    with folder() as at:
        path = os.path.join(at, "journal")
        with Daemon(at=at, journal_file=path) as d, d.worker() as p:
            p.ask(40, 10, 80, 400)
            d.stop()
        text = read(path)
        line = next(i for i, x in enumerate(text.splitlines(), 1) if x.startswith("ask"))
        with open(path, "w", encoding="utf-8") as f:
            f.write(text.replace("peak=30", "peak=31"))
        code, out = replay_check(path)
        check_equal(code, 1, "exit status")
        check_in(f"{path}:{line}: peak: expected 31, got 30", out)


# ---- the ring ----

def check_ring(d, at):
    path = os.path.join(at, "ring.trace")
    with open(path, "w", encoding="utf-8") as f:
        f.write(d.events())
    check_in(HEADER, read(path).splitlines()[0])
    return check_replays(path)


@test
def the_ring_replays_before_and_after_it_wrapped():
    for ring in ("32K", "64K", "1M"):
        with folder() as at, Daemon(at=at, journal_ring=ring) as d:
            storm = Storm(d, 8)
            for _ in range(6):
                storm.run(200)
                check_ring(d, at)
            storm.close()


def smallest_ring():
    """Of what the configuration takes."""
    for size in ("16K", "24K", "32K", "64K"):
        done = run_dlod("--telemetry", "worker", "--journal-ring", size, "--check-config")
        if done.returncode == 0:
            return size
    raise AssertionError("no small ring is taken")


@test
def the_smallest_ring_that_is_taken_works():
    with folder() as at, Daemon(at=at, journal_ring=smallest_ring()) as d:
        storm = Storm(d, 9).run(300)
        check_in(HEADER, d.ctl("events", timeout=5).stdout)
        with d.worker() as p:
            check_equal(p.ask(40, 10, 80, 400)[0], "release")
        storm.close()


def fill_with_stagers(d, sessions, each):
    """Their lines are the shortest there are, so that there are many in a ring."""
    peers = [d.worker(f"many{i}") for i in range(sessions)]
    deadline = time.monotonic() + slow(20)
    for p in peers:
        for i in range(each):
            p.ok("attach", id=f"{i:x}", bytes=0)
            check(time.monotonic() < deadline, "attaching takes too long:", p.session, i)
    return peers


def check_lives_with_stagers(d, sessions, each):
    peers = fill_with_stagers(d, sessions, each)
    began = time.monotonic()
    for _ in range(20):
        for p in peers:
            check_equal(p.ask(40, 10, 80, 400)[2]["stagers"], each)
    seconds = time.monotonic() - began
    check(seconds < slow(2), f"{20 * sessions} asks took {seconds:.1f} s")
    d.ctl("events", timeout=5)
    for p in peers:
        p.close()


@test
def many_stagers_do_not_harm_the_smallest_ring():
    with Daemon(journal_ring=smallest_ring()) as d:
        check_lives_with_stagers(d, 2, 300)
        check_in("found no room in the ring", d.ctl("events", timeout=5).stdout)


@test
def as_many_stagers_as_a_user_may_have_do_not_harm_the_ring():
    with Daemon() as d:
        check_lives_with_stagers(d, 4, int(4096 / SLOW))


@test
def a_follower_gets_new_lines():
    with Daemon() as d:
        follower = subprocess.Popen([CTL, "events", "--follow", "--socket", d.socket], text=True,
                                    stdout=subprocess.PIPE)
        try:
            check_equal(follower.stdout.readline().strip(), HEADER)
            with d.worker("news") as p:
                p.ask(40, 10, 80, 400)
            seen = []
            while not seen or not seen[-1].startswith("close"):
                seen.append(follower.stdout.readline())
                check(seen[-1], "the follower ended", seen)
            check([x for x in seen if "name=news" in x], seen)
            check([x for x in seen if "reason=cached_over_budget" in x], seen)
            d.stop()
            follower.wait(slow(5))
        finally:
            follower.kill()
            follower.communicate()


@test
def records_that_left_the_ring_are_reported_as_lost():
    with Daemon(journal_ring="32K") as d, d.observer() as o:
        before = o.ok("events", cursor=1)["cursor"]
        storm = Storm(d, 10)
        page = {}
        for _ in range(20):  # a slow run makes a smaller storm
            storm.run(500)
            page = o.ok("events", cursor=before)
            if page.get("lost", 0) > 0:
                break
        check(page.get("lost", 0) > 0, page)
        check_equal(page["cursor"], before + page["lost"] + len(page["lines"]))
        o.ok("events", cursor=2**64 - 1)  # of another daemon
        storm.close()


# ---- a disk that is full ----

def full_after(size):
    """Writes fail beyond that size, as on a full disk."""
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))


@test
def a_file_that_cannot_grow_costs_lines_not_the_daemon():
    with folder() as at:
        path = os.path.join(at, "journal")
        d = Daemon(at=at, journal_file=path)
        d.args += ["--log-level", "warning"]
        d.spawn(preexec_fn=lambda: full_after(48 << 10))
        d.wait_ready()
        storm = Storm(d, 11).run(1500)
        check_equal(storm.open(9).ask(30, 10, 80, 400)[2]["n"], 1)
        check(d.log_lines("journal file", "events stay in memory"), "nothing was said")
        storm.close()
        check_equal(d.stop(), 0)
        check_replays(path)  # it ends with a whole line


@test
def a_full_disk_costs_lines_not_the_daemon():
    if not IS_ROOT:
        raise Skip("needs root, to mount a small tmpfs")
    with folder() as at:
        disk = os.path.join(at, "disk")
        os.mkdir(disk)
        done = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", disk], check=False,
                              capture_output=True, text=True)
        if done.returncode != 0:
            raise Skip(f"cannot mount a tmpfs: {done.stderr.strip()}")
        try:
            full_disk(at, disk)
        finally:
            subprocess.run(["umount", "-l", disk], check=False)


def full_disk(at, disk):
    path, filler = os.path.join(disk, "journal"), os.path.join(disk, "filler")
    with Daemon(at=at, journal_file=path) as d:
        with open(filler, "wb") as f:
            f.write(bytes(976 << 10))
        storm = Storm(d, 12).run(1500)
        d.wait_log("journal file", "events stay in memory")
        os.unlink(filler)
        storm.run(1500)
        d.wait_log("is written again")
        check_ring(d, at)
        storm.close()


@test
def a_path_that_cannot_be_opened_is_said_once():
    with folder() as at:
        path = os.path.join(at, "none", "journal")
        with Daemon(at=at, journal_file=path) as d:
            Storm(d, 13).run(100).close()
            check_equal(len(d.log_lines("journal file", path, "events stay in memory")), 1)
        check(not os.path.exists(os.path.dirname(path)))


@test
def what_is_no_regular_file_is_refused_and_stays_where_it_is():
    for make in (os.mkfifo, os.mkdir, lambda path: os.symlink("elsewhere", path)):
        with folder() as at:
            path = os.path.join(at, "journal")
            make(path)
            before = os.lstat(path)
            with Daemon(at=at, journal_file=path) as d:
                Storm(d, 14).run(100).close()
                after = os.lstat(path)
                check_equal((after.st_ino, after.st_mode), (before.st_ino, before.st_mode))
                check(not os.path.lexists(path + ".1"), "it was moved away")
                check_equal(len(d.log_lines("journal file", path, "events stay in memory")), 1)


main()
