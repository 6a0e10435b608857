#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The library and dlo-ctl against daemons that flood, lie or change their mind, and against what a fork
does to a connection. The library is driven through the Python package."""
import contextlib
import os
import signal
import socket
import subprocess
import threading
import time

from lib import wire
from lib.harness import CTL, Daemon, Peer, ctl, folder, slow, wait_for
from lib.python import Program, run
from lib.runner import check, check_equal, check_in, main, test

WELCOME = {"version": 1, "session": 5, "mode": 3, "daemon": b"0", "margin": 1.25, "cap_fraction": 0.25,
           "min_free": 0.05, "policy": 1}
RETAIN = {"decision": 1, "would": 1, "reason": 10, "peak": 7, "n": 3, "cached": 30}


class FakeDaemon:
    """Serves one connection at a time: answer(op, fields) gives the replies to a request, as (seq, body)
    pairs with seq None for the request's own."""

    def __init__(self, at, answer, flood=None):
        self.path = os.path.join(at, "s.sock")
        self.answer, self.flood = answer, flood
        self.listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.listener.bind(self.path)
        self.listener.listen(8)
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self):
        with contextlib.suppress(OSError):
            while True:
                connection, _ = self.listener.accept()
                threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection):
        with contextlib.suppress(OSError):
            if self.flood:
                threading.Thread(target=self._flood, args=(connection,), daemon=True).start()
            while data := connection.recv(4097):
                request = wire.decode("Request", data)
                seq = request.pop("seq")
                for reply_seq, body in self.answer(*next(iter(request.items()))):
                    connection.send(wire.encode("Reply", {"seq": seq if reply_seq is None else reply_seq,
                                                          **body}))

    def _flood(self, connection):
        data = wire.encode("Reply", self.flood)
        with contextlib.suppress(OSError):
            while True:
                connection.send(data)

    def close(self):
        self.listener.close()


def honest(op, _fields):
    return [(None, {"welcome": WELCOME} if op == "hello" else {"answer": RETAIN} if op == "ask"
             else {"done": {}})]


@contextlib.contextmanager
def fake(answer, flood=None):
    with folder() as at:
        daemon = FakeDaemon(at, answer, flood)
        try:
            yield daemon
        finally:
            daemon.close()


# ---- the library ----

@test
def a_flood_does_not_hold_a_call_beyond_its_deadline():
    with fake(lambda op, fields: honest(op, fields) if op == "hello" else [],
              flood={"seq": 99, "done": {}}) as d:
        out, _ = run("""
            import time
            started = time.monotonic()
            client = dlo.Client(name="w", deadline_ms=100)
            for n in range(20):
                client.ask(reserved=40, allocated=10, free=80, total=400)
                client.forced("failure")
                client.info()
            print(time.monotonic() - started)
        """, d.path, DLO_DEADLINE_MS=None)
        check(float(out) < 2 + slow(0.25) * 4, "it took", out)


@test
def replies_that_nobody_asked_for_are_ignored():
    def answer(op, fields):
        return [(0x7fffffff, {"done": {}}), (0, {"done": {}})] + honest(op, fields)

    with fake(answer) as d:
        run("""
            client = dlo.Client(name="w")
            for n in range(300):
                client.forced("failure")
                equal(client.ask(reserved=40, allocated=10, free=80, total=400).cause, "")
            equal(client.info()["connected"], True)
        """, d.path)


@test
def a_shadow_handle_keeps_whatever_the_daemon_says():
    with fake(honest) as d:
        run("""
            client = dlo.Client(name="w", mode="shadow")
            answer = client.ask(reserved=40, allocated=10, free=80, total=400)
            equal((answer.decision, answer.would), ("keep", "retain"))
        """, d.path)


@test
def a_reload_is_followed_in_counts_and_in_local_answers():
    with Daemon(config="min_free = 0.05\n") as d, Program("""
            client = dlo.Client(name="w")
            def ask(free=80):
                return client.ask(reserved=40, allocated=10, free=free, total=400)
            equal(ask().reason, "cached_over_budget")
            step("reload")
            for n in range(5):
                equal(ask().reason, "low_free_memory")
            info = client.info()
            equal((info["retained"], info["serving_releases"]), (0, 6))
            equal(client.cap(400), 40)
            step("kill")
            answer = ask()
            equal((answer.reason, answer.cause), ("low_free_memory", "broken"))
            step("shadow")
            deadline = __import__("time").monotonic() + 20
            while ask().decision != "keep":
                assert __import__("time").monotonic() < deadline
            equal(client.info()["mode"], "shadow")
            step("done")
        """, d) as p:
        check_equal(p.line(), "reload")
        d.write_config("min_free = 0.9\ncap_fraction = 0.1\n")
        d.reload()
        p.go()
        check_equal(p.line(), "kill")
        check_equal(d.status()["sessions"][0]["serving_releases"], 6)
        d.kill()
        p.go()
        check_equal(p.line(), "shadow")
        with Daemon(at=d.folder, mode="shadow"):
            p.go()
            check_equal(p.line(), "done")
            p.go()
            p.finish()


@test
def a_daemon_that_is_gone_is_seen_without_a_request():
    with Daemon() as d, Program("""
            client = dlo.Client(name="w")
            equal(client.info()["connected"], True)
            step("kill")
            equal(client.info()["connected"], False)
        """, d) as p:
        p.line()
        d.kill()
        p.go()
        p.finish()


@test
def with_a_daemon_that_is_off_the_library_is_inert():
    with Daemon(mode="off") as d:
        run("""
            client = dlo.Client(name="w")
            answer = client.ask(reserved=40, allocated=10, free=80, total=400)
            equal((answer.decision, answer.would, answer.reason, answer.cause), ("keep", "keep", "", ""))
            equal(client.info()["decisions"], 0)
            equal(client.info()["mode"], "off")
        """, d)


@test
def a_forked_child_does_not_keep_a_session_alive():
    with Daemon() as d, Program("""
            import ctypes, time
            client = dlo.Client(name="w", deadline_ms=100)
            client.attach("a", 5)
            fork = ctypes.CDLL(None).fork  # one that Python's own handlers do not see
            pid = fork()
            if pid == 0:
                time.sleep(600)
                os._exit(0)
            print(pid, flush=True)
            step("stop")
            client.ask(reserved=40, allocated=10, free=80, total=400)  # misses its deadline
            step("go on")
            deadline = time.monotonic() + 20
            while not client.info()["connected"]:
                assert time.monotonic() < deadline
            step("close")
            client.close()
            step("closed")
            os.kill(pid, 9)
        """, d, DLO_DEADLINE_MS=None) as p:
        child = int(p.line())
        try:
            check_equal(p.line(), "stop")
            os.kill(d.process.pid, signal.SIGSTOP)
            p.go()
            check_equal(p.line(), "go on")
            os.kill(d.process.pid, signal.SIGCONT)
            p.go()
            check_equal(p.line(), "close")
            wait_for(lambda: len(d.status()["sessions"]) == 1, what="one session")
            p.go()
            check_equal(p.line(), "closed")
            wait_for(lambda: not d.status()["sessions"], what="no session")
            p.go()
            p.finish()
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.kill(child, signal.SIGKILL)


@test
def a_refused_stager_does_not_cost_the_peak():
    with folder() as at:
        with Program("""
                client = dlo.Client(name="w")
                for name in "abc":
                    client.attach(name, 100)
                client.set_peak(400)
                step("start")
                deadline = __import__("time").monotonic() + 20
                while not client.info()["connected"]:
                    assert __import__("time").monotonic() < deadline
                client.ask(reserved=40, allocated=10, free=80, total=4000)
                client.detach("a")
                client.detach("b")
                info = client.info()
                equal((info["staged_bytes"], info["stager_count"], info["peak"]), (100, 1, 400))
                client.ask(reserved=410, allocated=10, free=3000, total=4000)
                equal(client.info()["peak"], 400)
                client.detach("c")
                equal(client.info()["peak"], 0)
            """, os.path.join(at, "dlod.sock")) as p:
            p.line()
            with Daemon(at=at, max_stagers_session=2):
                p.go()
                p.finish()


@test
def a_rank_needs_a_world():
    run("""
        for rank, world in ((3, 0), (2, 2)):
            try:
                dlo.Client(rank=rank, world=world, group="g")
            except dlo.DloError as e:
                equal("rank" in str(e), True)
            else:
                raise AssertionError("accepted")
        dlo.Client(rank=1, world=2, group="g")
    """)


# ---- dlo-ctl ----

def ask_ctl(path, *words):
    return ctl(*words, "--socket", path, timeout=20)


@test
def answers_that_are_none_are_failures():
    ask = ("ask", "--reserved", "40", "--allocated", "10", "--free", "80", "--total", "400")
    for body in ({"done": {}}, {"ledger": {"staged": 1}}, {"answer": {"n": 1}}):
        with fake(lambda op, fields, body=body: honest(op, fields) if op == "hello" else [(None, body)]) as d:
            done = ask_ctl(d.path, *ask)
            check_equal(done.returncode, 1, done.stdout)
            check("answer cannot be read" in done.stderr or "malformed" in done.stderr, done.stderr)
    for body in ({"done": {}}, {"welcome": {**WELCOME, "version": 9}}):
        with fake(lambda op, fields, body=body: [(None, body)]) as d:
            done = ask_ctl(d.path, "status")
            check_equal(done.returncode, 7, done.stderr)


@test
def pages_that_do_not_go_on_end():
    def serve(page):
        return lambda op, fields: honest(op, fields) if op == "hello" else [(None, page)]

    for verb, page, part in (("explain 1", {"status": {"more": False}}, "lacks session 1"),
                             ("explain 1", {"status": {"sessions": [{"session": 2}]}}, "lacks session 1"),
                             ("events", {"events": {"cursor": 1, "end": 5}}, "do not go on"),
                             ("events", {"events": {"cursor": 1, "end": 5, "lines": [b"note text=x"]}},
                              "do not go on")):
        with fake(serve(page)) as d:
            done = ask_ctl(d.path, *verb.split())
            check_equal(done.returncode, 1, (verb, done.stdout))
            check_in(part, done.stderr)
    with fake(serve({"status": {"more": True, "cursor": 1, "sessions": [{"session": 1}]}})) as d:
        check_equal(ask_ctl(d.path, "status").returncode, 0)


@test
def a_timeout_of_centuries_is_long():
    with Daemon() as d:
        check_equal(ctl("status", "--socket", d.socket, "--timeout", "5124095h").returncode, 0)


@test
def replay_says_what_it_could_not_write_and_names_any_file():
    with folder() as at:
        text = ("# dlo-trace 1\nopen s=1\nask s=1 reserved=40 allocated=10 free=80 total=1000\n"
                "open s=2\nask s=2 force=failure\n")
        path = os.path.join(os.fsencode(at), b"\xff.trace")
        with open(path, "w", encoding="utf-8") as f:
            f.write(text)
        done = subprocess.run([CTL, b"replay", path], capture_output=True, check=False)
        check_equal(done.returncode, 0, done.stderr)
        check(b"last session 2: peak 0 B" in done.stdout or b"last session 2: peak 0" in done.stdout)
        check(b"budget 250" not in done.stdout, done.stdout)
        done = subprocess.run([CTL, b"replay", b"--json", path], capture_output=True, check=False)
        check_equal(done.returncode, 0, done.stderr)
        check(b"%FF.trace" in done.stdout, done.stdout)
        check(b'"asks": 2' in done.stdout, done.stdout)
        for words in ([b"replay"], [b"replay", b"--json"], [b"replay", b"--check"]):
            done = subprocess.run([CTL, *words, path], stderr=subprocess.PIPE, check=False,
                                  preexec_fn=lambda: os.close(1))
            check_equal(done.returncode, 1 if b"--check" not in words else done.returncode, words)
            check(b"cannot be written" in done.stderr, words)


if __name__ == "__main__":
    main()
