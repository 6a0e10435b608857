#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The table of variables in docs/user-guide.md is that of client/python/dlo/settings.py, and every DLO_*
variable that product code reads has a row. Prints what differs."""
import os
import re
import subprocess
import sys

ROOT = os.path.abspath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
sys.path.insert(0, os.path.join(ROOT, "client", "python"))
sys.dont_write_bytecode = True
from dlo import settings  # noqa: E402

# Read by the daemon's probe, not by workers.
NOT_WORKERS = {"DLO_LIBNVML"}


def read_variables():
    """Names that C code gives to getenv, or a library's row names, and Python code to os.environ."""
    found = set()
    for folder in ("client", "daemon", "proto"):
        for path, _, names in os.walk(os.path.join(ROOT, folder)):
            for name in names:
                if not name.endswith((".c", ".h", ".py")):
                    continue
                with open(os.path.join(path, name), encoding="utf-8") as f:
                    text = f.read()
                found |= set(re.findall(r'(?:getenv\(|\.env = |environ\.get\(|environ\[)"(DLO_\w+)"', text))
                found |= set(re.findall(r'settings\.get\("(DLO_\w+)"\)', text))
    return found - NOT_WORKERS


def main():
    wrong = []
    with open(os.path.join(ROOT, "docs", "user-guide.md"), encoding="utf-8") as f:
        guide = f.read()
    rows = [f"| `{r.name}` | {r.values} | {r.meaning} |" for r in settings.TABLE]
    wrong += [f"docs/user-guide.md lacks: {row}" for row in rows if row not in guide]
    wrong += [f"docs/user-guide.md has, settings.py has not: {row}"
              for row in re.findall(r"^\| `DLO_.*$", guide, re.M) if row not in rows]
    known = {r.name for r in settings.TABLE}
    wrong += [f"{name} is read and has no row in settings.py" for name in sorted(read_variables() - known)]
    # nobody can forget to read one: a row that nothing reads is a promise
    text = subprocess.run(["grep", "-rhoE", "DLO_[A-Z_]+", os.path.join(ROOT, "client"),
                           "--include=*.py", "--include=*.c", "--include=*.h"], text=True,
                          capture_output=True, check=False).stdout.split()
    wrong += [f"{name} has a row and nothing reads it" for name in sorted(known) if text.count(name) < 2]
    print("\n".join(wrong), end="\n" if wrong else "")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
