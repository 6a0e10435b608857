#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares the table of docs/config.md with daemon/config.def and prints what differs.
With --write it writes the table anew; the text around it is kept."""
import os
import re
import sys

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
DOC = os.path.join(ROOT, "docs", "config.md")
BEGIN = "<!-- daemon/config.def begins: tests/lint/config_docs.py --write -->"
END = "<!-- daemon/config.def ends -->"
KEY = re.compile(r"^KEY\((\w+),\s*(\w+),\s*\"([^\"]*)\",\s*(\w+),\s*((?:\"[^\"]*\"\s*)+)\)", re.M)
TYPES = {
    "FRACTION": "fraction", "MARGIN": "number", "BYTES": "size", "DURATION": "time",
    "COUNT": "count", "BOOL": "true, false", "PATH": "path", "TEXT": "text", "MODE": "word",
    "POLICY": "word", "BACKEND": "word", "LEVEL": "word", "PERMISSIONS": "octal",
}


def rows():
    with open(os.path.join(ROOT, "daemon", "config.def"), encoding="utf-8") as f:
        text = f.read()
    found = KEY.findall(text)
    if len(found) != len(re.findall(r"^KEY\(", text, re.M)):
        sys.exit("daemon/config.def: a row is not of the form that config_docs.py reads")
    yield "| key | value | default | reload | what it does |"
    yield "| --- | --- | --- | --- | --- |"
    for name, kind, default, reload, doc in found:
        words = "".join(re.findall(r"\"([^\"]*)\"", doc)).replace("|", "\\|").replace("<", "&lt;")
        yield (f"| `{name}` | {TYPES[kind]} | {f'`{default}`' if default else 'empty'} | "
               f"{'yes' if reload == 'RELOAD' else 'restart'} | {words} |")


def main():
    with open(DOC, encoding="utf-8") as f:
        text = f.read()
    head, begin, rest = text.partition(BEGIN + "\n")
    table, end, tail = rest.partition(END)
    if not begin or not end:
        sys.exit(f"docs/config.md: no lines '{BEGIN}' and '{END}'")
    wanted = "\n" + "\n".join(rows()) + "\n\n"
    if "--write" in sys.argv:
        with open(DOC, "w", encoding="utf-8") as f:
            f.write(head + begin + wanted + end + tail)
        return
    have = set(table.splitlines())
    want = set(wanted.splitlines())
    for line in sorted(want - have):
        print(f"docs/config.md lacks: {line}")
    for line in sorted(have - want):
        print(f"docs/config.md has, config.def has not: {line}")
    if have != want:
        print("(tests/lint/config_docs.py --write)")


main()
