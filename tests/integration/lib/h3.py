# SPDX-License-Identifier: Apache-2.0
"""Runs tests/programs/h3_worker, a real worker over the real library."""
import contextlib
import os
import subprocess
import threading

from lib.harness import BUILD, slow

WORKER = os.path.join(BUILD, "programs/h3_worker")


class Worker:
    """A tests/programs/h3_worker; lines are its output, key=value as in a trace. With stepwise each
    component waits for step()."""

    def __init__(self, gpu, path, *options, env=None):
        self.process = subprocess.Popen(
            [WORKER, "--socket", path, *options], env=dict(os.environ, **gpu.env, **(env or {})),
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            bufsize=1)
        self.lines = []
        self.errors = ""
        self._changed = threading.Condition()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self):
        for line in self.process.stdout:
            with self._changed:
                self.lines.append(line.rstrip("\n"))
                self._changed.notify_all()

    def __enter__(self):
        return self

    def __exit__(self, *unused):
        self._let_go()
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        self._reader.join(slow(5))
        self.process.stdout.close()
        self.process.stderr.close()

    def _let_go(self):
        with contextlib.suppress(OSError):
            self.process.stdin.close()

    def found(self, kind):
        return [fields(line) for line in list(self.lines) if line.startswith(kind + " ")]

    def wait_lines(self, kind, count, seconds=20):
        """The first `count` lines of that kind."""
        with self._changed:
            done = self._changed.wait_for(lambda: len(self.found(kind)) >= count, slow(seconds))
        if not done:
            raise AssertionError(f"{len(self.found(kind))} lines of {kind}, expected {count}; "
                                 f"{self.lines[-3:]}")
        return self.found(kind)[:count]

    def step(self):
        """Lets one component run, and returns its boundary."""
        count = len(self.found("boundary"))
        self.wait_lines("waiting", count + 1)
        self.process.stdin.write("\n")
        return self.wait_lines("boundary", count + 1)[count]

    def finish(self, seconds=20):
        """Lets go of everything; the exit status and the last line."""
        self._let_go()
        code = self.process.wait(slow(seconds))
        self._reader.join(slow(5))
        self.errors = self.process.stderr.read()
        return code, (self.found("done") or [{}])[-1]


def fields(line):
    return dict(word.split("=", 1) for word in line.split() if "=" in word)
