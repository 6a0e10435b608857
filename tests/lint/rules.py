#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Each rule that docs/policy.md marks as built must be named in code (daemon, client, proto) and in
a vector or test. A rule begins with its id in bold (**R5 ...); the first `built` or `planned` from
there to the next rule is its mark."""
import os
import re
import sys

ROOT = os.path.normpath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
RULE = re.compile(r"\*\*(R\d+[a-z]?)\b")
MARK = re.compile(r"\b(built|planned)\b", re.I)
NAMED = re.compile(r"\bR\d+[a-z]?\b")


def named_in(folders):
    found = set()
    for folder in folders:
        for path, _, names in os.walk(os.path.join(ROOT, folder)):
            for name in names:
                if not re.search(r"\.(c|h|def|proto|py|sh|trace)$", name):
                    continue
                if os.path.join(path, name) == os.path.abspath(__file__):
                    continue
                with open(os.path.join(path, name), encoding="utf-8", errors="replace") as f:
                    found.update(NAMED.findall(f.read()))
    return found


def main():
    doc = os.path.join(ROOT, "docs", "policy.md")
    if not os.path.exists(doc):
        sys.exit("there is no docs/policy.md")
    with open(doc, encoding="utf-8") as f:
        text = f.read()
    starts = list(RULE.finditer(text))
    code, tests = named_in(["daemon", "client", "proto"]), named_in(["tests"])
    built = 0
    for this, following in zip(starts, starts[1:] + [None]):
        rule = this.group(1)
        mark = MARK.search(text, this.end(), following.start() if following else len(text))
        if not mark:
            print(f"docs/policy.md: {rule} is marked neither built nor planned")
        elif mark.group(1).lower() == "built":
            built += 1
            if rule not in code:
                print(f"docs/policy.md: {rule} is built, but no code in daemon, client, proto names it")
            if rule not in tests:
                print(f"docs/policy.md: {rule} is built, but no vector or test names it")
    if built == 0:
        print("docs/policy.md marks no rule as built")


main()
