# SPDX-License-Identifier: Apache-2.0
"""Runs Python programs against the package in client/python and the C library of the build, with the
stand-ins of tests/python/stub in place of torch and the hosts. Each program is a process of its own,
of the system's Python, as a worker is."""
import os
import subprocess
import textwrap

from lib.harness import BUILD, ROOT, slow
from lib.runner import Skip, check_equal

PACKAGE = os.path.join(ROOT, "client", "python")
STUB = os.path.join(ROOT, "tests", "python", "stub")
SYSTEM_PYTHON = "/usr/bin/python3"

PRELUDE = """
import os, sys, threading
import torch
import dlo
state = torch.state

def holding(cached, allocated=10):
    state.reserved, state.allocated = cached + allocated, allocated

def new_cache(**more):
    return dlo.AllocatorCache(torch.device("cuda", 0), **more)

def equal(got, expected):
    if got != expected:
        raise AssertionError(f"expected {expected!r}, got {got!r}")

def step(*words):  # says something to the test and waits for its word
    print(*words, flush=True)
    return sys.stdin.readline().strip()
"""


class Setup(str):
    """What a program begins with: SETUP + more takes the indentation of a test off more."""

    def __add__(self, more):
        return str(self) + textwrap.dedent(more)


def _sanitizer():
    """The library that a sanitized libdlo-client needs to be loaded first."""
    with open(os.path.join(BUILD, "flags"), encoding="utf-8") as f:
        flags = f.read()
    if "-fsanitize=thread" in flags:
        raise Skip("ThreadSanitizer cannot be loaded into an interpreter that was built without it")
    if "-fsanitize=address" not in flags:
        return {}
    library = subprocess.run(["gcc", "-print-file-name=libasan.so"], text=True, capture_output=True,
                             check=True).stdout.strip()
    return {"LD_PRELOAD": library, "ASAN_OPTIONS": "detect_leaks=0"}


def environment(daemon=None, stub=True, **more):
    env = {k: v for k, v in os.environ.items() if not k.startswith("DLO_") or k in ("DLO_SLOW",)}
    env.update(_sanitizer())
    env["PYTHONPATH"] = os.pathsep.join([PACKAGE] + ([STUB] if stub else []))
    env["PYTHONDONTWRITEBYTECODE"] = "1"
    env["DLO_LIBRARY"] = os.path.join(BUILD, "libdlo-client.so.0")
    env["DLO_LIBRARY_CUDA"] = os.path.join(BUILD, "libdlo-client-cuda.so.0")
    env["DLO_DEADLINE_MS"] = str(int(250 * float(os.environ.get("DLO_SLOW", "1"))))
    env["XDG_RUNTIME_DIR"] = "/nonexistent"
    if daemon:
        env["DLO_SOCKET"] = daemon if isinstance(daemon, str) else daemon.socket
    for name, value in more.items():
        if value is None:
            env.pop(name, None)
        else:
            env[name] = str(value)
    return env


class Program:
    """A running one. line() is the next line that it says, go() answers it, finish() asserts that it
    ended well and returns the rest of stdout and all of stderr."""

    def __init__(self, code, daemon=None, **env):
        if not os.path.exists(SYSTEM_PYTHON):
            raise Skip(f"no {SYSTEM_PYTHON}")
        self.process = subprocess.Popen(
            [SYSTEM_PYTHON, "-c", PRELUDE + textwrap.dedent(code)], env=environment(daemon, **env),
            text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)

    def __enter__(self):
        return self

    def __exit__(self, *unused):
        if self.process.poll() is None:
            self.process.kill()
            self.process.communicate()

    def line(self):
        line = self.process.stdout.readline()
        if not line:
            raise AssertionError(f"the program ended:\n{self.process.communicate()[1]}")
        return line.strip()

    def go(self, word=""):
        self.process.stdin.write(word + "\n")
        self.process.stdin.flush()

    def finish(self, code=0):
        out, err = self.process.communicate(timeout=slow(60))
        check_equal(self.process.returncode, code, f"exit status; stdout:\n{out}\nstderr:\n{err}\n")
        return out, err


def run(code, daemon=None, **env):
    """Runs it to its end; (stdout, stderr)."""
    with Program(code, daemon, **env) as p:
        return p.finish()
