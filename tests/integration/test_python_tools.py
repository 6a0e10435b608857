#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""python3 -m dlo: record, report, doctor, run; and the package once it is installed."""
import json
import os
import re
import subprocess

from lib.harness import BUILD, CTL, ROOT, Daemon, folder, slow
from lib.python import PACKAGE, SYSTEM_PYTHON, environment
from lib.runner import check, check_equal, check_in, main, skip_unless, test

PROGRAM = """
import torch
state = torch.state
state.total, state.free = 400_000_000_000, 300_000_000_000
for cached in (30, 31, 29, 31, 30):
    state.reserved, state.allocated = (cached + 10) * 10**9, 10**10
    torch.cuda.empty_cache()
state.retries = 1
state.reserved, state.allocated, state.free = 12 * 10**9, 10**10, 10**9
try:
    raise torch.OutOfMemoryError("CUDA out of memory")
except torch.OutOfMemoryError:
    torch.cuda.empty_cache()
print(state.calls["empty_cache"])
"""


def dlo(*words, stub=True, daemon=None, **env):
    return subprocess.run([SYSTEM_PYTHON, "-m", "dlo", *words], text=True, capture_output=True,
                          env=environment(daemon, stub=stub, **env), timeout=slow(60), check=False)


def program(at, code=PROGRAM):
    path = os.path.join(at, "program.py")
    with open(path, "w", encoding="utf-8") as f:
        f.write(code)
    return [SYSTEM_PYTHON, path]


@test
def a_recording_changes_nothing_and_becomes_a_page():
    with folder() as at:
        trace = os.path.join(at, "trace")
        done = dlo("record", trace, "--", *program(at))
        check_equal((done.returncode, done.stdout), (0, "6\n"), done.stderr)
        replayed = subprocess.run([CTL, "replay", trace], text=True, capture_output=True, check=False)
        check_equal(replayed.returncode, 0, replayed.stderr)
        check_in("6 asks", replayed.stdout)
        with open(trace, encoding="utf-8") as f:
            text = f.read()
        check_equal(text.count("\nreleased "), 6)
        check_in("from_empty=41000000000", text)
        check_in("retries=1", text)
        check_in("force=oom_retry", text)
        done = dlo("report", trace)
        check_equal(done.returncode, 0, done.stderr)
        for part in ("6 boundaries", "1 forced", "the cache was emptied 6 times",
                     "kept the cache at 4 of 5 unforced boundaries", "1 cached_over_budget",
                     "learned peak at the end: 31.00 GB", "ran out of memory: 1.00 GB free, 387.00 GB in use"):
            check_in(part, done.stdout)
        done = dlo("record", trace, "--", "true")
        check_equal(done.returncode, 2)
        check_in("there already", done.stderr)


@test
def a_trace_that_cannot_be_read_is_named_by_line():
    with folder() as at:
        for text, parts in (("ask s=1\n", ("trace:1", "dlo-trace 1")),
                            ("# dlo-trace 1\nask s=1 reserved=x\n", ("trace:2", "reserved: not a number")),
                            ("# dlo-trace 1\nask s=1 t=never\n", ("trace:2", "t: not a time"))):
            path = os.path.join(at, "trace")
            with open(path, "w", encoding="utf-8") as f:
                f.write(text)
            done = dlo("report", path)
            check_equal(done.returncode, 1)
            for part in parts:
                check_in(part, done.stderr)
        check_equal(dlo("report", os.path.join(at, "nothing")).returncode, 1)
        path = os.path.join(at, "empty")
        with open(path, "w", encoding="utf-8") as f:
            f.write("# dlo-trace 1\n")
        check_in("no boundary was recorded", dlo("report", path).stdout)


@test
def a_program_is_run_with_its_calls_wrapped():
    with folder() as at, Daemon() as d:
        code = PROGRAM + "import sitecustomize, sys; print(sitecustomize.__file__)\n"
        done = dlo("run", "--", *program(at, code), daemon=d)
        check_equal(done.returncode, 0, done.stderr)
        check_equal(done.stdout.splitlines()[0], "2", "one over the budget, one forced")
        check_in("engaged", done.stderr)
        with open(os.path.join(at, "sitecustomize.py"), "w", encoding="utf-8") as f:
            f.write("print('the former one')\n")
        env = environment(d)
        env["PYTHONPATH"] += os.pathsep + at
        done = subprocess.run([SYSTEM_PYTHON, "-m", "dlo", "run", "--", SYSTEM_PYTHON, "-c", "pass"],
                              text=True, capture_output=True, env=env, check=False)
        check_equal(done.stdout.count("the former one"), 2)  # its own start, and the program's
        check_equal(dlo("run", "--", "/nonexistent/program").returncode, 2)


@test
def the_doctor_says_what_it_found():
    with Daemon() as d:
        done = dlo("doctor", "--require", "engaged", daemon=d)
        check_equal(done.returncode, 0, done.stdout)
        for part in ("dlo 0.1.0", "libdlo-client.so.0, version 0.1.0", f"dlod 0.1.0 at {d.socket}", "mode on",
                     "0.stand-in, 1 CUDA device(s)", "no vLLM-Omni here", "is managed by that daemon"):
            check_in(part, done.stdout)
        found = json.loads(dlo("doctor", "--json", daemon=d).stdout)
        check_equal((found["engaged"], found["package"]), (True, "0.1.0"))
        check_equal(dlo("doctor", "--require", "engaged", daemon=d, DLO_MODE="off").returncode, 1)
    for env, part in (({}, "is left alone"), ({"DLO_MODE": "on"}, "decides by itself"),
                      ({"DLO_SOCKET": "/nonexistent/s"}, "not reached at /nonexistent/s"),
                      ({"DLO_LIBRARY": "/nonexistent/l"}, "missing: libdlo-client.so.0 was not found"),
                      ({"DLO_DEADLINE_MS": "x"}, "WRONG: environment variable DLO_DEADLINE_MS"),
                      ({"DLO_MODE": "x"}, "must be off, shadow or on")):
        done = dlo("doctor", "--require", "engaged", **env)
        check_equal(done.returncode, 1, done.stdout)
        check_in(part, done.stdout)
    with folder() as at:
        with open(os.path.join(at, "torch.py"), "w", encoding="utf-8") as f:
            f.write("raise ImportError('broken')\n")
        check_in("torch      not there (broken)",
                 dlo("doctor", PYTHONPATH=os.pathsep.join((PACKAGE, at))).stdout)


@test
def every_command_of_the_guides_works():
    with folder() as at:
        os.symlink(os.path.join(ROOT, "client"), os.path.join(at, "client"))
        program(at)
        env = {**environment(), "PATH": f"{os.path.dirname(SYSTEM_PYTHON)}:{os.environ['PATH']}"}
        count = 0
        for name in ("user-guide.md", "hosts/vllm-omni.md", "hosts/torch.md", "hosts/diffusers.md"):
            with open(os.path.join(ROOT, "docs", name), encoding="utf-8") as f:
                blocks = re.findall(r"^ *```sh\n(.*?)^ *```", f.read(), re.M | re.S)
            for block in blocks:
                if "venv" in block and subprocess.run([SYSTEM_PYTHON, "-c", "import ensurepip"],
                                                      capture_output=True, check=False).returncode:
                    skip_unless(False, "no python3-venv here")
                done = subprocess.run(["bash", "-ec", block], text=True, capture_output=True, env=env, cwd=at,
                                      check=False)
                check_equal(done.returncode, 0, f"{name}: {block}\n{done.stdout}{done.stderr}")
                count += 1
        check(count >= 6, "blocks:", count)


@test
def bad_words_are_usage():
    for words in ((), ("cure",), ("report",), ("doctor", "--require", "luck"), ("record", "x")):
        check_equal(dlo(*words).returncode, 2, words)
    check_equal(dlo("version").stdout, "dlo 0.1.0\n")


@test
def an_installed_package_finds_the_library_and_the_plugin():
    with folder() as at:
        venv, log = os.path.join(at, "v"), os.path.join(at, "log")
        with open(log, "w", encoding="utf-8") as f:
            done = subprocess.run([SYSTEM_PYTHON, "-m", "venv", "--system-site-packages", venv], stdout=f,
                                  stderr=f, check=False)
        skip_unless(done.returncode == 0, "no python3-venv here")
        python = os.path.join(venv, "bin", "python")
        env = {k: v for k, v in environment(stub=False).items() if k != "PYTHONPATH"}
        done = subprocess.run([python, "-m", "pip", "install", "--no-index", "--no-deps", PACKAGE],
                              text=True, capture_output=True, env=env, check=False)
        check_equal(done.returncode, 0, done.stdout + done.stderr)
        check(not os.path.exists(os.path.join(PACKAGE, "build")), "the build leaves the tree as it was")
        code = ("import importlib.metadata as m, dlo\n"
                "points = m.entry_points()\n"
                "group = 'vllm_omni.general_plugins'\n"
                "found = points.select(group=group) if hasattr(points, 'select') else points[group]\n"
                "print([p.value for p in found], dlo.__file__)\n"
                "[p.load() for p in found]\n")
        done = subprocess.run([python, "-c", code], text=True, capture_output=True, env=env, cwd=at,
                              check=False)
        check_equal(done.returncode, 0, done.stderr)
        check_in("['dlo.vllm_omni:register']", done.stdout)
        check_in(venv, done.stdout)
        done = subprocess.run([python, "-m", "dlo", "doctor"], text=True, capture_output=True, env=env,
                              cwd=at, check=False)
        check_equal(done.returncode, 0, done.stderr)
        check_in(os.path.join(BUILD, "libdlo-client.so.0"), done.stdout)


if __name__ == "__main__":
    main()
