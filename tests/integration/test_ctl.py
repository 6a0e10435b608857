#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""dlo-ctl: what it prints and how it exits."""
import json
import os
import re
import socket
import threading

from lib import wire
from lib.harness import ROOT, Daemon, ctl, folder
from lib.runner import check, check_equal, check_in, main, test

OK, FAILED, USAGE, NO_DAEMON, PERMISSION, TIMEOUT, VERSION, RELEASE, KEEP = 0, 1, 2, 3, 4, 6, 7, 10, 11
GOOD = """# dlo-trace 1
open s=1 name=h3
attach s=1 id=text_encoder bytes=12945000000 -> ok staged=12945000000
ask s=1 reserved=40 allocated=10 free=80 total=400 -> release reason=cached_over_budget peak=30 budget=0
ask s=1 reserved=40 allocated=10 free=80 total=400 -> retain reason=within_budget peak=30 budget=37
"""


def ask(d, *words):
    return d.ctl("ask", *words)


NUMBERS = ("--reserved", "40", "--allocated", "10", "--free", "80", "--total", "400")


# ---- status ----

@test
def status_shows_device_daemon_and_workers():
    with Daemon() as d, d.worker("alpha") as p:
        p.ok("attach", id="a", bytes=12_945_000_000)
        p.ask(17_950_000_000, 0, 80 * 10**9, 150_110_000_000)
        done = d.ctl("status")
        check_equal((done.returncode, done.stderr), (OK, ""))
        for part in ("SESSION", "alpha", str(os.getpid()), "12.94 GB", "17.95 GB", "22.43 GB",
                     "release", "cached_over_budget", "1 session", "mode on", "policy learned"):
            check_in(part, done.stdout)
        done = d.ctl("status", "--bytes")
        for part in ("12945000000", "17950000000", "22437500000"):
            check_in(part, done.stdout)


@test
def status_json_has_every_number():
    with Daemon() as d, d.worker("alpha") as p:
        p.ask(40, 10, 80, 400)
        done = d.ctl("status", "--json")
        check_equal(done.returncode, OK)
        status = json.loads(done.stdout)
        check_equal(status["schema"], 1)
        check_equal(status["daemon"]["pid"], d.pid)
        [row] = status["sessions"]
        check_equal((row["name"], row["pid"], row["peak"], row["budget"], row["serving_releases"]),
                    ("alpha", os.getpid(), 30, 37, 1))
        last = row["last"]
        check_equal((last["decision"], last["reason"], last["cached"], last["free"], last["total"],
                     last["floor"], last["cap"], last["budget"], last["capped"], last["n"]),
                    ("release", "cached_over_budget", 30, 80, 400, 20, 100, 0, False, 1))


@test
def status_without_workers_says_so():
    with Daemon() as d:
        check_in("no worker is registered", d.ctl("status").stdout)


# ---- explain ----

SITUATIONS = (
    (dict(reserved=40, allocated=10, free=80, total=400), ("30 B", "0 B", "R5")),
    (dict(reserved=40, allocated=10, free=80, total=400), ("30 B", "37 B", "within", "R5")),
    (dict(reserved=40, allocated=10, free=19, total=400), ("19 B", "20 B", "below", "R5")),
    (dict(reserved=40, allocated=10, force=1), ("forced", "R4")),
    (dict(allocated=10, free=80, total=400), ("R6",)),
    (dict(reserved=40, allocated=10), ("R6", "R9")),
)


@test
def explain_is_one_sentence_with_its_numbers_and_the_rule():
    with Daemon() as d, d.worker("alpha") as p:
        done = d.ctl("explain", str(p.session))
        check_in("has not asked", done.stdout)
        for fields, parts in SITUATIONS:
            p.ok("ask", component="dit", **fields)
            done = d.ctl("explain", str(p.session))
            check_equal((done.returncode, done.stdout.count("\n")), (OK, 1), done.stderr)
            for part in parts + ("alpha", "dit", f"session {p.session}"):
                check_in(part, done.stdout)
        check_equal(d.ctl("explain", "99").returncode, FAILED)
        check_in("unknown_session", d.ctl("explain", "99").stderr)


@test
def explain_names_the_policy_and_the_shadow():
    with Daemon(allow_never="true") as d:
        for policy in ("always", "never"):
            with d.worker(policy=wire.POLICY[policy]) as p:
                p.ask(40, 10, 80, 400)
                check_in("R11a", d.ctl("explain", str(p.session)).stdout)
        with d.worker(mode=wire.MODE["shadow"]) as p:
            p.ask(40, 10, 80, 400)
            text = d.ctl("explain", str(p.session)).stdout
            check_in("R30", text)
            check_in("would have been release", text)


@test
def what_releases_gave_back_is_shown_and_nothing_is_marked():
    with Daemon() as d, d.worker("alpha") as p, d.worker("beta") as q:
        check("GAVE BACK" not in d.ctl("status").stdout)
        check_equal(d.status()["sessions"][0]["proof"], None)
        p.ask(17_950_000_000, 0, 80 * 10**9, 150 * 10**9, component="dit")
        p.ok("released", reserved=450_000_000, allocated=0, us=23_000)
        text = d.ctl("status").stdout
        [row] = [line for line in text.splitlines() if "alpha" in line and "17.50 GB" in line]
        check_in("450.00 MB", row)
        check_in("23 ms", row)
        check("gave nothing back" not in text)
        text = d.ctl("explain", str(p.session)).stdout
        for part in ("took 23 ms", "gave back 17.50 GB of the 17.95 GB", "450.00 MB stayed cached", "R26"):
            check_in(part, text)
        q.ask(100, 0, 80, 400)
        q.ok("released", reserved=99, allocated=0, us=7)
        text = d.ctl("status").stdout
        [row] = [line for line in text.splitlines() if "gave nothing back" in line]
        check_in("beta", row)
        check_in("7 us", row)
        check_in("gave nothing back of the 100 B", d.ctl("explain", str(q.session)).stdout)
        check_in("1 of its 1 releases gave nothing back", d.ctl("explain", str(q.session)).stdout)
        q.ok("ask", force=wire.FORCE["failure"])
        q.ok("released", reserved=99, allocated=0, us=7)
        check_in("was not reported", d.ctl("explain", str(q.session)).stdout)
        check_equal(d.status()["sessions"][1]["proof"]["empty"], 1)


# ---- ask ----

@test
def ask_exits_with_its_answer():
    with Daemon() as d:
        done = ask(d, *NUMBERS)
        check_equal(done.returncode, RELEASE)
        check(done.stdout.startswith("release reason=cached_over_budget cached=30"), done.stdout)
        done = ask(d, *NUMBERS, "--peak", "30")
        check_equal(done.returncode, OK)
        check(done.stdout.startswith("retain reason=within_budget"), done.stdout)
        check_equal(ask(d, *NUMBERS, "--policy", "fixed").returncode, OK)
        check_equal(ask(d, *NUMBERS, "--policy", "always").returncode, RELEASE)
        check_equal(ask(d, "--force", "operator").returncode, RELEASE)
        check_equal(ask(d, *NUMBERS, "--peak", "30", "--min-free", "0.5").returncode, RELEASE)
        check_equal(ask(d, *NUMBERS, "--policy", "never").returncode, FAILED)
        check_equal(d.status()["sessions"], [])
    with Daemon(mode="shadow") as d:
        check_equal(ask(d, *NUMBERS).returncode, KEEP)


# ---- events ----

@test
def events_are_a_trace():
    with Daemon() as d, d.worker("alpha") as p:
        p.ask(40, 10, 80, 400)
        done = d.ctl("events")
        check_equal(done.returncode, OK)
        lines = done.stdout.splitlines()
        check_equal(lines[0], "# dlo-trace 1")
        check_equal([x.split()[0] for x in lines[1:] if not x.startswith("note ")],
                    ["config", "clock", "sample", "open", "ask"])
        check_in("age=0 floor=20 cap=100 budget=0 capped=0 peak=30 learned=37", lines[-1])


# ---- replay ----

def replay(text, *options):
    with folder() as at:
        path = os.path.join(at, "x.trace")
        with open(path, "w", encoding="utf-8") as f:
            f.write(text)
        return path, ctl("replay", *options, path)


@test
def replay_check_exits_0_1_or_2():
    path, done = replay(GOOD, "--check")
    check_equal((done.returncode, done.stdout), (OK, "compared 10 keys in 1 file, 0 differences\n"))
    path, done = replay(GOOD.replace("budget=37", "budget=38"), "--check")
    check_equal(done.returncode, FAILED)
    check_in(f"{path}:5: budget: expected 38, got 37\n", done.stdout)
    _, done = replay("# dlo-trace 1\nopen s=1\nask s=1 reserved=4 allocated=1\n", "--check")
    check_equal(done.returncode, USAGE)
    for bad in ("nonsense s=1\n", "ask s=1\n", "attach s=1 id=a bytes=-1\n", "open s=x\n",
                "ask s=1 reserved=99999999999999999999 allocated=0\n"):
        path, done = replay("# dlo-trace 1\n" + bad, "--check")
        check_equal(done.returncode, FAILED, bad)
        check_in(f"{path}:2: ", done.stderr)
    check_equal(ctl("replay", "--check", "/nonexistent.trace").returncode, FAILED)


@test
def replay_live_checks_a_daemon():
    with Daemon() as d:
        path, done = replay(GOOD, "--check", "--live", "--socket", d.socket)
        check_equal(done.returncode, OK, done.stdout + done.stderr)
        path, done = replay(GOOD.replace("peak=30 budget=37", "peak=31 budget=37"), "--check",
                            "--live", "--socket", d.socket)
        check_equal(done.returncode, FAILED)
        check_in(f"{path}:5: peak: expected 31, got 30", done.stdout)
        check_equal(d.status()["sessions"], [])
    path, done = replay(GOOD, "--check", "--live", "--socket", "/nonexistent/x.sock")
    check_equal(done.returncode, NO_DAEMON)


@test
def the_vectors_without_samples_hold_for_a_live_daemon():
    folder_ = os.path.join(ROOT, "..", "shared")
    found = []
    for where, pattern in (("spec/vectors", r".*\.trace"), ("traces", r"h3-.*\.trace")):
        for name in sorted(os.listdir(os.path.join(folder_, where))) if os.path.isdir(
                os.path.join(folder_, where)) else ():
            path = os.path.join(folder_, where, name)
            if re.fullmatch(pattern, name) and not has_sample(path):
                found.append(path)
    found.append(os.path.join(ROOT, "tests/conformance/learned-seeded.trace"))
    with Daemon(allow_never="true") as d:
        done = ctl("replay", "--check", "--live", "--socket", d.socket, *found, timeout=60)
        check_equal(done.returncode, OK, done.stdout[-2000:] + done.stderr[-2000:])


def has_sample(path):
    with open(path, encoding="utf-8") as f:
        return any(line.startswith("sample ") for line in f)


# ---- usage and failures ----

@test
def wrong_usage_exits_2_and_says_how():
    with folder() as at:
        s = os.path.join(at, "s")
        for words in (("none",), ("status", "x"), ("status", "--none"), ("explain",), ("replay",),
                      ("explain", "x", "--socket", s), ("ask", "--socket", s), ("events", "x"),
                      ("ask", "--reserved", "-4"), ("ask", "--policy", "none"),
                      ("ask", "--name", "a b"), ("status", "--timeout", "x"),
                      ("replay", "--policy", "x", "f"), ("replay", "--socket", s, "f"),
                      ("replay", "--margin", "0.5", "f"), ()):
            done = ctl(*words)
            check_equal(done.returncode, USAGE, words)
            check(done.stderr and not done.stdout, words, done.stdout)
    for words in (("--help",), ("status", "--help"), ("ask", "--help"), ("replay", "--help"),
                  ("events", "--help"), ("explain", "--help"), ("--version",)):
        done = ctl(*words)
        check_equal((done.returncode, done.stderr), (OK, ""), words)
        check(done.stdout, words)


@test
def without_a_daemon_every_verb_exits_3():
    with folder() as at:
        missing, stale = os.path.join(at, "none.sock"), os.path.join(at, "stale.sock")
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as s:
            s.bind(stale)
        for path in (missing, stale):
            for words in (("status",), ("status", "--json"), ("events",), ("explain", "1"),
                          ("ask", *NUMBERS)):
                done = ctl(*words, "--socket", path)
                check_equal(done.returncode, NO_DAEMON, (words, path))
                check_equal(done.stdout, "")
                check_in("no_daemon", done.stderr)


@test
def a_socket_that_cannot_be_trusted_exits_4():
    with folder(0o777) as at:
        done = ctl("status", "--socket", os.path.join(at, "s.sock"))
        check_equal(done.returncode, PERMISSION)
        check_in("not_trusted", done.stderr)


@test
def a_hung_daemon_exits_6_in_time():
    with Daemon() as d, d.frozen():
        for words in (("status",), ("events",), ("explain", "1"), ("ask", *NUMBERS)):
            done = d.ctl(*words, "--timeout", "100ms")
            check_equal(done.returncode, TIMEOUT, words)


@test
def mode_off_is_no_session_to_ask():
    with Daemon(mode="off") as d:
        done = ask(d, *NUMBERS)
        check(done.returncode in (KEEP, PERMISSION), done.returncode, done.stderr)


# ---- a daemon that lies ----

ESCAPES = b"\x1b]0;evil\x07\x1b[31mred\r\nforged line\x9b1m"


def lying_daemon(path, answers):
    """Answers each request of one connection with the next of these bodies."""
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    listener.bind(path)
    listener.listen(4)

    def serve():
        connection, _ = listener.accept()
        for body in answers:
            seq = wire.decode("Request", connection.recv(4097))["seq"]
            connection.send(wire.encode("Reply", {"seq": seq, **body}))
        connection.recv(4097)
        connection.close()
        listener.close()

    threading.Thread(target=serve, daemon=True).start()


WELCOME = {"welcome": {"version": 1, "session": 0, "mode": 3, "daemon": b"0"}}


def check_harmless(text, what):
    check(not re.search(r"[\x00-\x09\x0b-\x1f\x7f-\x9f]", text), what, repr(text))
    check("forged line" not in text.splitlines(), what, repr(text))


@test
def control_bytes_never_reach_the_terminal():
    row = {"session": 1, "name": ESCAPES, "component": ESCAPES, "pid": 1,
           "last": {"decision": 2, "reason": 7, "n": 1, "cached": 5}}
    status = {"status": {"daemon": {"version": ESCAPES, "pid": 1}, "sessions": [row], "cursor": 1,
                         "device": {"uuid": ESCAPES, "name": ESCAPES, "pci": ESCAPES,
                                    "minor": 1, "probe": ESCAPES}}}
    cases = (("status", [WELCOME, status]), ("status --json", [WELCOME, status]),
             ("explain 1", [WELCOME, status]),
             ("events", [WELCOME, {"events": {"lines": [ESCAPES], "cursor": 2}},
                         {"events": {"cursor": 2}}]),
             ("status", [WELCOME, {"error": {"code": -1, "text": ESCAPES}}]),
             ("status", [{"error": {"code": -11, "text": ESCAPES}}]))
    for verb, answers in cases:
        with folder() as at:
            path = os.path.join(at, "s.sock")
            lying_daemon(path, answers)
            done = ctl(*verb.split(), "--socket", path)
            check_harmless(done.stdout + done.stderr, verb)
            if "error" not in answers[-1] and verb != "status --json":
                check(done.stdout, verb, done.stderr)


@test
def control_bytes_of_the_command_line_are_escaped():
    done = ctl("\x1b[31mred\x07")
    check_equal(done.returncode, USAGE)
    check_harmless(done.stderr, "verb")


main()
