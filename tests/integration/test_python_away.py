#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The Python package where the daemon is not there, goes, stalls or comes back; its modes, and what it
says about them."""
import os
import signal

from lib.harness import Daemon, folder, slow
from lib.python import Program, run
from lib.runner import check, check_equal, check_in, main, test


def only_row(daemon):
    [row] = daemon.status()["sessions"]
    return row


# ---- a daemon that is not there, goes, stalls, comes back ----

@test
def without_a_daemon_the_same_policy_runs_here():
    _, err = run("""
        cache = new_cache()
        cache.grow_retention_budget(10)
        holding(30)
        equal(cache.release_if_needed(), True)
        holding(37)
        equal(cache.release_if_needed(), False)
        holding(47)
        equal(cache.release_if_needed(), True)
        equal(cache.budget_bytes, 58)
        equal(cache._dlo.handle().info()["local"]["no_daemon"], 3)
    """)
    check_in("the policy runs in this process", err)
    check_equal(err.count("\n"), 1, err)


@test
def a_killed_daemon_is_replaced_by_the_policy_and_then_by_its_successor():
    with Daemon() as d, Program("""
            cache = new_cache()
            cache.grow_retention_budget(10)
            holding(30)
            equal(cache.release_if_needed(), True)
            step("kill")
            holding(37)
            equal(cache.release_if_needed(), False)
            cache.grow_retention_budget(11)
            cache._observed_cached_peak = 40
            step("start")
            holding(50)
            deadline = __import__("time").monotonic() + float(os.environ.get("DLO_SLOW", "1")) * 20
            while not cache._dlo.handle().info()["connected"]:
                equal(cache.release_if_needed(), False)  # and no release is paid for it
                if __import__("time").monotonic() > deadline:
                    raise AssertionError("not connected again")
            equal(cache.release_if_needed(), False)
            equal(state.calls["empty_cache"], 1)
            step("back")
        """, d) as p:
        check_equal(p.line(), "kill")
        d.kill()
        p.go()
        check_equal(p.line(), "start")
        with Daemon(at=d.folder) as successor:
            p.go()
            check_equal(p.line(), "back")
            row = only_row(successor)
            check_equal((row["staged"], row["stagers"], row["serving_releases"]), (21, 2, 1))
            check(row["peak"] >= 40)
            p.go()
            p.finish()


@test
def a_stalled_daemon_costs_its_deadline_once():
    with Daemon() as d, Program("""
            import time
            cache = new_cache()
            holding(0)
            cache.release_if_needed()
            step("stop")
            for _ in range(20):
                started = time.monotonic()
                equal(cache.release_if_needed(), False)
                print(time.monotonic() - started, flush=True)
        """, d, DLO_DEADLINE_MS=200) as p:
        check_equal(p.line(), "stop")
        os.kill(d.process.pid, signal.SIGSTOP)
        try:
            p.go()
            times = [float(p.line()) for _ in range(20)]
            check(times[0] >= 0.19, "the first one did not wait:", times[0])
            check(times[0] < 0.2 + slow(0.25), "it waited beyond its deadline:", times[0])
            check(sum(times[1:]) < slow(0.25), "the next ones waited too:", times)
            p.finish()
        finally:
            os.kill(d.process.pid, signal.SIGCONT)


# ---- modes, and what is said ----

@test
def one_line_says_what_engaged():
    with Daemon() as d:
        _, err = run("""
            caches = [new_cache(), new_cache()]
            for cache in caches:
                holding(0)
                cache.release_if_needed()
        """, d)
        [line] = err.splitlines()
        for part in ("dlo 0.1.0: engaged", "cuda:0", d.socket, "dlod 0.1.0", "mode on", "host torch"):
            check_in(part, line)
        _, err = run("""
            import logging
            logging.basicConfig(level=logging.INFO, format="LOG %(name)s %(levelname)s %(message)s")
            new_cache().release_if_needed()
        """, d)
        check_in("LOG dlo INFO dlo 0.1.0: engaged", err)


@test
def what_was_asked_for_and_did_not_engage_is_an_error():
    code = "new_cache().release_if_needed()"
    for env, parts in (({"DLO_LIBRARY": "/nonexistent/lib.so"}, ("NOT engaged", "/nonexistent/lib.so")),
                       ({"DLO_MODE": "yes"}, ("NOT engaged", "DLO_MODE is 'yes'")),
                       ({"DLO_POLICY": "bold"}, ("DLO_POLICY is 'bold'", "learned, fixed, always or never")),
                       ({"DLO_DEADLINE_MS": "soon"}, ("DLO_DEADLINE_MS is 'soon'", "1 to 60000")),
                       ({"DLO_SOCKET": "/nonexistent/dlod.sock"}, ("/nonexistent/dlod.sock",))):
        out, err = run(f"import logging\nlogging.basicConfig(level=logging.ERROR)\n{code}\n"
                       "equal(state.calls['empty_cache'] <= 1, True)", **{"DLO_MODE": "on", **env})
        check_equal(err.count("\n"), 1, err)
        for part in parts:
            check_in(part, err)


@test
def off_and_shadow_leave_a_program_as_it_was():
    with Daemon() as d:
        for mode in ("off", "shadow"):
            run("""
                cache = new_cache()
                cache.grow_retention_budget(10)
                for n in range(1, 4):
                    holding(30)
                    equal(cache.release_if_needed(), True)  # a stager without a policy: R19
                    equal(state.calls["empty_cache"], n)
                if os.environ["DLO_MODE"] == "shadow":
                    equal(cache.observed_cached_peak, 30)
                    equal(cache._dlo.handle().ask(reserved=40, allocated=10, free=80, total=400).would,
                          "retain")
            """, d, DLO_MODE=mode)
    run("""
        equal(__import__("dlo.engage").engage.mode()[0], "off")
        os.environ["DLO_MODE"] = "shadow"
        equal(__import__("dlo.engage").engage.mode()[0], "shadow")
        equal(dlo.Client().ask(reserved=40, allocated=10, free=80, total=400).would, "release")
    """)


@test
def the_daemon_of_the_device_is_found_by_its_uuid():
    uuid = "GPU-11111111-2222-3333-4444-555555555555"
    with folder() as path:
        os.mkdir(os.path.join(path, "dlo"), 0o755)
        with Daemon(socket=os.path.join(path, "dlo", f"{uuid}.sock")) as d:
            run(f"""
                from dlo import engage
                state.uuid = "{uuid[4:]}"
                equal(engage.mode("{uuid}"), ("on", "{d.socket} exists"))
                equal(engage.mode("GPU-99999999-2222-3333-4444-555555555555")[0], "off")
                state.is_initialized = False
                cache = new_cache()
                cache.grow_retention_budget(10)  # before CUDA is there: not registered yet
                equal(cache._dlo._client, None)
                state.is_initialized = True
                holding(0)
                equal(cache.release_if_needed(), False)
                info = cache._dlo.handle().info()
                equal((info["socket"], info["staged_bytes"], info["connected"]), ("{d.socket}", 10, True))
            """, XDG_RUNTIME_DIR=path)


if __name__ == "__main__":
    main()
