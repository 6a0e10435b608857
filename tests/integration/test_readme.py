#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The README says only what is true: its commands run, its worker is the one that is built."""
import os
import re
import subprocess

from lib.harness import BUILD, folder, slow
from lib.runner import check, check_equal, main, test

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def readme():
    with open(os.path.join(ROOT, "README.md"), encoding="utf-8") as f:
        return f.read()


def blocks(kind):
    return re.findall(rf"^```{kind}\n(.*?)^```$", readme(), re.M | re.S)


@test
def its_commands_run():
    scripts = blocks("sh")
    check(scripts, "there are none")
    for script in scripts:
        with folder() as at:
            env = dict(os.environ, PATH=f"{BUILD}:{os.environ['PATH']}")
            env.pop("DLO_SOCKET", None)
            done = subprocess.run(["bash", "-e", "-c", script], cwd=at, env=env, text=True,
                                  capture_output=True, timeout=slow(30), check=False)
            check_equal(done.returncode, 0, done.stdout + done.stderr)


@test
def its_worker_is_the_one_that_is_built():
    with open(os.path.join(ROOT, "tests/programs/readme_worker.c"), encoding="utf-8") as f:
        source = f.read()
    check_equal(len(blocks("c")), 1)
    check(blocks("c")[0].strip() in source, "the text differs from tests/programs/readme_worker.c")
    done = subprocess.run([os.path.join(BUILD, "programs/readme_worker")], text=True,
                          env=dict(os.environ, DLO_SOCKET="/nonexistent/dlod.sock"),
                          capture_output=True, timeout=slow(30), check=False)
    check_equal((done.returncode, done.stdout), (0, "release\n"), done.stderr)


@test
def its_links_lead_somewhere():
    for link in re.findall(r"\]\(([^)#]+)\)", readme()):
        check(os.path.exists(os.path.join(ROOT, link)), link)


main()
