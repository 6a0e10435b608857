#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The examples of client/examples on the simulated GPU, with a daemon and without."""
import os
import subprocess

from lib.harness import BUILD, ROOT, Daemon, SimGpu, folder, slow
from lib.python import environment
from lib.runner import check, check_equal, check_in, main, test

C_WORKER = [os.path.join(BUILD, "examples", "worker")]
PYTHON_WORKER = ["/usr/bin/python3", os.path.join(ROOT, "client", "examples", "worker.py")]


def run(command, sim, socket, **more):
    done = subprocess.run(command, env={**os.environ, **sim.env, "DLO_SOCKET": socket, **more},
                          text=True, capture_output=True, timeout=slow(60), check=False)
    check_equal(done.returncode, 0, done.stderr)
    return done.stdout


def journal_counts(daemon):
    """(releases in warm-up, outside) of all sessions that there were."""
    counts = [0, 0]
    for line in daemon.ctl("events").stdout.splitlines():
        if line.startswith("ask ") and " -> release " in line:
            counts["warmup=0" in line] += 1
    return tuple(counts)


@test
def the_c_worker_releases_in_its_warm_up_alone():
    with folder() as at:
        sim = SimGpu(at, "2Gi")
        with Daemon(sim) as d:
            out = run(C_WORKER, sim, d.socket)
            check_equal(out.count("request "), 6)
            check_equal(out.count("retain"), 6 + out.count("warm-up text_encoder: retain"))
            check_equal(journal_counts(d)[1], 0)
            check(journal_counts(d)[0] >= 2)
            check_in("released s=1", d.ctl("events").stdout)
        check_in("request transformer: retain", run(C_WORKER, sim, "/nonexistent/s"))


@test
def the_python_worker_releases_in_its_warm_up_alone():
    more = {k: v for k, v in environment(stub=False).items() if k != "DLO_SOCKET"}
    with folder() as at:
        sim = SimGpu(at, "2Gi")
        with Daemon(sim) as d:
            out = run(PYTHON_WORKER, sim, d.socket, **{**more, **sim.env})
            check_equal(out.count("text_encoder: "), 5)
            check_equal(journal_counts(d)[1], 0)
            check_in("trimmed 3 times", out)
            check_in("released s=1", d.ctl("events").stdout)
        check_in("retain", run(PYTHON_WORKER, sim, "/nonexistent/s", **{**more, **sim.env}))


if __name__ == "__main__":
    main()
