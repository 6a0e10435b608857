#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs suites of tests and counts their cases; `make test` calls it. Usage: run.py SUITE...

  unit         $DLO_BUILD/unit/test_*     programs of libcheck
  conformance  tests/conformance/run.sh   prints "ok - NAME", "not ok - NAME", "ok - NAME # SKIP WHY"
  integration  tests/integration/test_*.py  the same
  lint         tests/lint/run.sh, selftest.sh  the same

Every program runs from the repository root with

  DLO_BUILD        the build folder, absolute
  DLO_SIMGPU       $DLO_BUILD/simgpu (unit tests alone have it in LD_LIBRARY_PATH, and
                   $DLO_BUILD/locale, which has de_DE.UTF-8, in LOCPATH)
  DLO_SLOW         a factor for deadlines: 1, more under sanitizers and valgrind
  TMPDIR           an empty folder of its own, removed afterwards

Two programs run at a time. One that measures time or fills the machine says `run-alone` in its
first 20 lines (unit programs: in their source) and runs when the others are done. Output is shown
when something failed. The last line is `N passed, N failed, N skipped`.
"""
import concurrent.futures
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
BUILD = os.path.abspath(os.environ.get("DLO_BUILD", os.path.join(ROOT, "build")))
SLOW = float(os.environ.get("DLO_SLOW", "1"))
TIMEOUT = 120  # seconds for one program, times DLO_SLOW
JOBS = 2
CHECK_SUMMARY = re.compile(r"^\d+%: Checks: (\d+), Failures: (\d+), Errors: (\d+)$", re.M)
TAP_LINE = re.compile(r"^(not )?ok\b(.*)$", re.M)
SKIP_LINE = re.compile(r"^SKIP\b.*$", re.M)


class Result:
    def __init__(self, program):
        self.program = program
        self.passed = self.failed = 0
        self.skips = []
        self.output = ""
        self.seconds = 0.0


def listing(folder, pattern):
    path = os.path.join(ROOT, folder)
    names = sorted(os.listdir(path)) if os.path.isdir(path) else []
    return [os.path.join(folder, n) for n in names if re.fullmatch(pattern, n)]


def programs(suite):
    """(name shown, command, file that may say run-alone, is it of libcheck)"""
    if suite == "unit":
        for source in listing("tests/unit", r"test_\w+\.c"):
            name = os.path.basename(source)[:-2]
            yield f"unit/{name}", [os.path.join(BUILD, "unit", name)], source, True
        return
    found = {
        "conformance": listing("tests/conformance", r"run\.sh"),
        "integration": listing("tests/integration", r"test_\w+\.py"),
        "lint": listing("tests/lint", r"(run|selftest)\.sh"),
    }[suite]
    for path in found:
        interpreter = ["python3"] if path.endswith(".py") else ["bash"]
        yield path.removeprefix("tests/"), interpreter + [path], path, False


def runs_alone(path):
    with open(os.path.join(ROOT, path), encoding="utf-8") as f:
        return any("run-alone" in line for line, _ in zip(f, range(20)))


def count_check(result):
    """A libcheck program prints one summary; a case that cannot run prints SKIP."""
    summaries = CHECK_SUMMARY.findall(result.output)
    for checks, failures, errors in summaries:
        result.failed += int(failures) + int(errors)
        result.passed += int(checks) - int(failures) - int(errors)
    result.skips = SKIP_LINE.findall(result.output)
    result.passed = max(0, result.passed - len(result.skips))
    return bool(summaries)


def count_tap(result):
    for bad, rest in TAP_LINE.findall(result.output):
        if bad:
            result.failed += 1
        elif "# SKIP" in rest:
            result.skips.append("SKIP" + rest.replace("# SKIP", ":", 1))
        else:
            result.passed += 1
    return result.passed + result.failed + len(result.skips) > 0


def run(name, command, is_check):
    result = Result(name)
    tmp = tempfile.mkdtemp(prefix="dlo-test-")
    simgpu = os.path.join(BUILD, "simgpu")
    env = dict(os.environ, DLO_BUILD=BUILD, DLO_SIMGPU=simgpu, DLO_SLOW=f"{SLOW:g}", TMPDIR=tmp,
               PYTHONDONTWRITEBYTECODE="1")
    env.pop("MAKEFLAGS", None)  # a test that calls make is not part of this one
    env.pop("MAKELEVEL", None)
    env.pop("PYTHONUNBUFFERED", None)  # a user's programs are buffered
    if is_check:
        env["LD_LIBRARY_PATH"] = simgpu
        env.setdefault("LOCPATH", os.path.join(BUILD, "locale"))
        env.setdefault("CK_DEFAULT_TIMEOUT", f"{20 * SLOW:g}")
    started = time.monotonic()
    try:
        child = subprocess.Popen(command, cwd=ROOT, env=env, stdin=subprocess.DEVNULL,
                                 stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                 start_new_session=True)
    except OSError as e:
        result.output = f"cannot run {command[0]}: {e.strerror}\n"
        result.failed = 1
        return result
    ended = ""
    try:
        out = child.communicate(timeout=TIMEOUT * SLOW)[0]
    except subprocess.TimeoutExpired:
        ended = f"still running after {TIMEOUT * SLOW:g} s\n"
        os.killpg(child.pid, signal.SIGKILL)
        out = child.communicate()[0]
    try:
        os.killpg(child.pid, signal.SIGKILL)  # what it left behind
    except ProcessLookupError:
        pass
    result.seconds = time.monotonic() - started
    result.output = out.decode("utf-8", "replace")
    counted = count_check(result) if is_check else count_tap(result)
    if not ended and child.returncode != 0 and result.failed == 0:
        ended = f"exit status {child.returncode}\n"
    if not ended and not counted:
        ended = "printed no result\n"
    if ended:
        result.failed += 1
        result.output += ended
    shutil.rmtree(tmp, ignore_errors=True)
    return result


def show(result):
    word = "not ok" if result.failed else "ok"
    parts = [f"{result.passed} passed"]
    if result.failed:
        parts.append(f"{result.failed} failed")
    if result.skips:
        parts.append(f"{len(result.skips)} skipped")
    print(f"{word} - {result.program}: {', '.join(parts)} ({result.seconds:.1f} s)", flush=True)
    if result.failed:
        lines = result.output.splitlines()
        if len(lines) > 200:
            print(f"    ({len(lines) - 200} lines left out)")
        for line in lines[-200:]:
            print("    " + line, flush=True)
    else:
        for line in result.skips:
            print("    " + line, flush=True)


def main():
    together, alone = [], []
    for suite in sys.argv[1:]:
        found = list(programs(suite))
        if not found:
            print(f"{suite}: there is nothing to run yet", flush=True)
        for name, command, source, is_check in found:
            (alone if runs_alone(source) else together).append((name, command, is_check))
    results = []
    for batch, jobs in ((together, JOBS), (alone, 1)):
        with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
            for done in concurrent.futures.as_completed([pool.submit(run, *p) for p in batch]):
                results.append(done.result())
                show(results[-1])
    passed = sum(r.passed for r in results)
    failed = sum(r.failed for r in results)
    skipped = sum(len(r.skips) for r in results)
    print(f"{passed} passed, {failed} failed, {skipped} skipped", flush=True)
    return 1 if failed or not passed else 0


try:
    sys.exit(main())
except KeyError as e:
    sys.exit(f"run.py: there is no suite {e}; its first lines name them")
