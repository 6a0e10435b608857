#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The Python package over a live daemon: the duck type that hosts rely on, processes, threads and
copies. test_python_away.py has the daemons that are not there."""
import os
import re
import signal
import subprocess
import sys

from lib.harness import ROOT, Daemon, folder, slow, wait_for
from lib.python import PACKAGE, Program, environment, run
from lib.runner import check, check_equal, check_in, main, test


def only_row(daemon):
    [row] = daemon.status()["sessions"]
    return row


# ---- the mirror of dlo.h ----

def header_facts():
    """What a C compiler makes of dlo.h: every number, size, offset and function that is in it."""
    with open(os.path.join(ROOT, "client/include/dlo/dlo.h"), encoding="utf-8") as f:
        text = re.sub(r"/\*.*?\*/", "", f.read(), flags=re.S)
    lines = []
    for name in re.findall(r"\b(DLO_\w+) = -?\d+", text) + re.findall(
            r"^#define (DLO_\w+)[ \t]+\w+$", text, re.M):
        if not name.endswith(("_H", "_API", "_INIT")):
            lines.append(f'printf("{name}=%lld\\n", (long long)({name}));')
    for name, body in re.findall(r"^struct (dlo_\w+) \{(.*?)^\};", text, re.M | re.S):
        lines.append(f'printf("sizeof {name}=%zu\\n", sizeof(struct {name}));')
        for members in re.findall(r"([^;]+);", body):
            for member in members.split(","):
                member = re.sub(r"\[.*", "", member).split()[-1].lstrip("*")
                lines.append(f'printf("offsetof {name}.{member}=%zu\\n", '
                             f'offsetof(struct {name}, {member}));')
    functions = re.findall(r"^DLO_API [^;(]*?(dlo_\w+)\(", text, re.M)
    lines += [f'puts("function {name}=1");' for name in functions]
    with folder() as path:
        source, program = os.path.join(path, "facts.c"), os.path.join(path, "facts")
        with open(source, "w", encoding="utf-8") as f:
            f.write("#include <stddef.h>\n#include <stdio.h>\n#include <dlo/dlo.h>\n"
                    "int main(void)\n{\n" + "\n".join(lines) + "\nreturn 0;\n}\n")
        subprocess.run(["gcc", "-I", os.path.join(ROOT, "client/include"), source, "-o", program],
                       check=True)
        out = subprocess.run([program], text=True, capture_output=True, check=True).stdout
    return dict(line.split("=") for line in out.splitlines())


@test
def structs_and_numbers_are_those_of_the_header():
    wanted = header_facts()
    check(len(wanted) > 150, "facts:", len(wanted))
    out, _ = run("""
        import ctypes
        from dlo import _abi
        for struct in _abi.STRUCTS:
            print(f"sizeof {struct.__name__}={ctypes.sizeof(struct)}")
            for name, *_ in struct._fields_:
                print(f"offsetof {struct.__name__}.{name}={getattr(struct, name).offset}")
        for name, value in vars(_abi).items():
            if name.isupper() and isinstance(value, int) and name != "SOCKET_PATH_SIZE":
                print(f"DLO_{name}={value if value < 2**63 else value - 2**64}")
        for name in _abi.PROTOTYPES:
            print(f"function {name}=1")
    """)
    got = dict(line.split("=") for line in out.splitlines())
    for name, value in got.items():
        check_equal(value, wanted.get(name), name)
    for name in wanted:
        if name.startswith(("sizeof", "offsetof", "function")):
            check_in(name, got)


# ---- the duck type ----

@test
def a_cache_decides_first_and_learns_then():
    with Daemon() as d:
        run("""
            cache = new_cache()
            cache.grow_retention_budget(10)
            holding(30)
            equal(cache.release_if_needed(), True)
            equal((cache.observed_cached_peak, cache.budget_bytes, cache._staged_bytes), (30, 37, 10))
            equal((state.reserved, state.calls["empty_cache"]), (10, 1))
            holding(37)
            state.free = 80
            equal(cache.release_if_needed(), False)
            equal(state.calls["empty_cache"], 1)
            holding(100)  # over the cap of 100? no: at it, and over what was learned
            equal(cache.release_if_needed(), True)
            equal((cache.observed_cached_peak, cache.budget_bytes), (100, 125))  # uncapped
            cache._observed_cached_peak = 20
            equal(cache.observed_cached_peak, 20)
            holding(26)
            equal(cache.release_if_needed(), True)
            state.free = 19  # below 5 %
            holding(1)
            equal(cache.release_if_needed(), True)
        """, d)


@test
def statistics_are_read_once_a_boundary():
    with Daemon() as d:
        run("""
            cache = new_cache()
            holding(0)
            equal(cache.release_if_needed(), False)
            equal(state.log, ["memory_stats_as_nested_dict", "mem_get_info"])
            holding(30)
            state.log.clear()
            equal(cache.release_if_needed(), True)  # and once more for the proof
            equal(state.log, ["memory_stats_as_nested_dict", "mem_get_info", "empty_cache",
                              "memory_stats_as_nested_dict"])
        """, d)


@test
def a_forced_release_comes_first_and_waits_for_nobody():
    with Daemon() as d, Program("""
            import time
            cache = new_cache()
            holding(30)
            cache.release_if_needed()
            holding(30)
            state.log.clear()
            equal(cache.release_if_needed(force=True), True)
            equal(state.log[0], "empty_cache")
            equal(cache.observed_cached_peak, 30)  # learned before, not now
            try:
                raise torch.OutOfMemoryError("CUDA out of memory")
            except torch.OutOfMemoryError:
                cache.release_if_needed(force=True)
            step("told")
            started = time.monotonic()
            equal(cache.release_if_needed(force=True), True)
            print(time.monotonic() - started)
        """, d) as p:
        check_equal(p.line(), "told")
        wait_for(lambda: only_row(d)["forced"]["oom_retry"] == 1, what="the forced release is told")
        check_equal(only_row(d)["forced"]["failure"], 1)
        os.kill(d.process.pid, signal.SIGSTOP)
        try:
            p.go()
            check(float(p.line()) < slow(0.25), "it waited for a stalled daemon")
            p.finish()
        finally:
            os.kill(d.process.pid, signal.SIGCONT)


@test
def what_cannot_be_read_is_released_and_learns_nothing():
    with Daemon() as d:
        run("""
            cache = new_cache()
            for fails in ("memory_stats_as_nested_dict", "mem_get_info"):
                state.fails = {fails: RuntimeError("no statistics here")}
                holding(30)
                equal(cache.release_if_needed(), True)
                equal(cache.observed_cached_peak, 0)
            state.fails = {}
            for pair in ((None, 400), (80, None), (80, 2**65), (-1, 400)):  # numbers that are none
                holding(0)
                state.free, state.total = pair
                equal(cache.release_if_needed(), True)
            state.free, state.total = 80, 400
            equal(cache.observed_cached_peak, 0)
            state.fails = {"mem_get_info": KeyboardInterrupt()}
            try:
                cache.release_if_needed()
            except KeyboardInterrupt:
                print("interrupted")
            state.fails = {"empty_cache": RuntimeError("the host's own error")}
            holding(50)
            try:
                cache.release_if_needed(force=True)
            except RuntimeError as e:
                print(e)
        """, d)


@test
def arguments_that_cannot_be_are_refused_as_in_the_reference():
    run("""
        def error(kind, text, call, *arguments, **more):
            try:
                call(*arguments, **more)
            except kind as e:
                if text is not None:
                    equal(str(e), text)
                return
            raise AssertionError(f"no {kind.__name__}")

        for bad in (-0.1, 1.1, float("nan"), float("inf")):
            error(ValueError, f"min_free_fraction must be in [0, 1], got {bad}", new_cache,
                  min_free_fraction=bad)
        error(TypeError, None, new_cache, min_free_fraction="0.1")
        for good in (0, 1, True, -0.0, 0.5):
            new_cache(min_free_fraction=good)
        cache = new_cache()
        error(ValueError, "staged_bytes must be >= 0, got -1", cache.grow_retention_budget, -1)
        error(ValueError, "staged_bytes must be >= 0, got -2", cache.shrink_retention_budget, -2)
        cache.grow_retention_budget(10.9)
        equal(cache._staged_bytes, 10)
        error(TypeError, None, cache.release_if_needed, True)
    """)


@test
def shrinking_keeps_the_total_and_the_peak():
    with Daemon() as d, Program("""
            cache = new_cache()
            for n in (100, 20, 20, 0):
                cache.grow_retention_budget(n)
            holding(30)
            cache.release_if_needed()
            for n, left in ((20, 120), (7, 113), (0, 113), (100, 13)):
                cache.shrink_retention_budget(n)
                equal((cache._staged_bytes, cache.observed_cached_peak), (left, 30))
            step("shrunk")
            cache.shrink_retention_budget(1000)
            equal((cache._staged_bytes, cache.observed_cached_peak), (0, 0))
            cache._observed_cached_peak = 5
            cache.shrink_retention_budget(0)
            equal(cache.observed_cached_peak, 0)
            for _ in range(5000):  # more than a session may have stagers
                cache.grow_retention_budget(3)
            cache._observed_cached_peak = 9
            step("grown")
            cache.shrink_retention_budget(14999)
            equal((cache._staged_bytes, cache.observed_cached_peak), (1, 9))
        """, d) as p:
        check_equal(p.line(), "shrunk")
        check_equal(only_row(d)["staged"], 13)
        p.go()
        check_equal(p.line(), "grown")
        check_equal((only_row(d)["staged"], only_row(d)["peak"]), (15000, 9))
        check(only_row(d)["stagers"] <= 1024)
        p.go()
        p.finish()


@test
def a_refused_stager_is_not_the_last_one():
    with Daemon(max_stagers_uid=2) as d:
        run("""
            cache = new_cache()
            for n in (100, 20, 3):  # the third is over the quota
                cache.grow_retention_budget(n)
            holding(30)
            cache.release_if_needed()
            equal(cache._staged_bytes, 123)
            cache.shrink_retention_budget(100)
            cache.shrink_retention_budget(20)
            equal((cache._staged_bytes, cache.observed_cached_peak), (3, 30))
            cache.shrink_retention_budget(3)
            equal((cache._staged_bytes, cache.observed_cached_peak), (0, 0))
        """, d)


# ---- processes, threads and copies ----

@test
def the_child_of_a_fork_is_a_worker_of_its_own():
    with Daemon() as d, Program("""
            cache = new_cache()
            cache.grow_retention_budget(100)
            holding(30)
            cache.release_if_needed()
            pid = os.fork()
            if pid == 0:
                try:
                    equal((cache._staged_bytes, cache.observed_cached_peak), (100, 30))
                    holding(37)
                    equal(cache.release_if_needed(), False)
                    cache.grow_retention_budget(11)
                    step("child")
                except BaseException as e:
                    print(e, file=sys.stderr, flush=True)
                    os._exit(1)
                os._exit(0)
            equal(os.waitpid(pid, 0)[1], 0)
            holding(37)
            equal(cache.release_if_needed(), False)
            equal(cache._staged_bytes, 100)
            print("parent", flush=True)
        """, d) as p:
        check_equal(p.line(), "child")
        check_equal(sorted(r["staged"] for r in d.status()["sessions"]), [100, 111])
        check_equal(sorted(r["peak"] for r in d.status()["sessions"]), [30, 37])
        p.go()
        check_equal(p.line(), "parent")
        p.finish()


@test
def a_spawned_process_gets_the_cache_by_pickle():
    with Daemon() as d, folder() as path:
        with open(os.path.join(path, "spawned.py"), "w", encoding="utf-8") as f:
            f.write("import multiprocessing, torch, dlo\n"
                    "def work(cache, queue):\n"
                    "    torch.state.reserved = 47\n"
                    "    torch.state.allocated = 10\n"
                    "    queue.put((cache._staged_bytes, cache.observed_cached_peak,\n"
                    "               cache.release_if_needed()))\n"
                    "if __name__ == '__main__':\n"
                    "    cache = dlo.AllocatorCache(torch.device('cuda', 0), min_free_fraction=0.0)\n"
                    "    cache.grow_retention_budget(5)\n"
                    "    cache._observed_cached_peak = 30\n"
                    "    context = multiprocessing.get_context('spawn')\n"
                    "    queue = context.Queue()\n"
                    "    p = context.Process(target=work, args=(cache, queue))\n"
                    "    p.start()\n"
                    "    print(queue.get(timeout=60))\n"
                    "    p.join()\n")
        done = subprocess.run(["/usr/bin/python3", os.path.join(path, "spawned.py")], text=True,
                              capture_output=True, env=environment(d), timeout=slow(60), check=False)
        check_equal(done.stdout.strip(), "(5, 30, False)", done.stderr)


@test
def eight_threads_share_a_cache():
    with Daemon() as d:
        run("""
            cache = new_cache()
            cache.grow_retention_budget(1)
            holding(0)
            failures = []

            def work():
                try:
                    for i in range(200):
                        equal(cache.release_if_needed(), False)
                        if i % 20 == 0:
                            cache.grow_retention_budget(i)
                            cache.shrink_retention_budget(i)
                except BaseException as e:
                    failures.append(e)

            threads = [threading.Thread(target=work) for _ in range(8)]
            for t in threads:
                t.start()
            for t in threads:
                t.join()
            equal(failures, [])
            equal(cache._staged_bytes, 1)
            equal(cache._dlo.handle().info()["decisions"], 1600)
        """, d)


@test
def copies_are_registrations_of_their_own():
    with Daemon() as d, Program("""
            import copy, pickle
            cache = new_cache(min_free_fraction=0.25)
            cache.label = ["kept"]
            cache.grow_retention_budget(7)
            cache.grow_retention_budget(5)
            cache._observed_cached_peak = 30
            others = [copy.copy(cache), copy.deepcopy(cache), pickle.loads(pickle.dumps(cache))]
            for other in others:
                equal((other._staged_bytes, other.observed_cached_peak), (12, 30))
                equal((other.min_free_fraction, str(other.device), other.label),
                      (0.25, "cuda:0", ["kept"]))
                other.grow_retention_budget(100)
                holding(0)
                equal(other.release_if_needed(), True)  # 80 of 400 are below 25 %
            equal(cache._staged_bytes, 12)
            step("copied")
            del others, other
            step("collected")
            cache.shrink_retention_budget(5)
            equal((cache._staged_bytes, cache.observed_cached_peak), (7, 30))
        """, d) as p:
        check_equal(p.line(), "copied")
        check_equal(sorted(r["staged"] for r in d.status()["sessions"]), [12, 112, 112, 112])
        p.go()
        check_equal(p.line(), "collected")
        wait_for(lambda: len(d.status()["sessions"]) == 1, what="collected caches are forgotten")
        p.go()
        p.finish()


# ---- installing ----

@test
def the_package_installs_without_a_network():
    with folder() as path:
        code = ("import dlo_build, os, sys\n"
                f"wheel = dlo_build.build_wheel({path!r})\n"
                f"again = open(os.path.join({path!r}, wheel), 'rb').read()\n"
                f"dlo_build.build_wheel({path!r})\n"
                f"assert again == open(os.path.join({path!r}, wheel), 'rb').read()\n"
                f"print(dlo_build.build_sdist({path!r}))\n"
                f"print(dlo_build.build_editable({path!r}))\n")
        done = subprocess.run(["/usr/bin/python3", "-c", code], text=True, capture_output=True, cwd=PACKAGE,
                              env={**environment(stub=False), "PYTHONPATH": PACKAGE}, check=False)
        check_equal(done.returncode, 0, done.stderr)
        check_equal(done.stdout.split(), ["dlo_client-0.1.0.tar.gz", "dlo_client-0.1.0-py3-none-any.whl"])


if __name__ == "__main__":
    sys.exit(main())
