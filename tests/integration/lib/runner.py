# SPDX-License-Identifier: Apache-2.0
"""Runs the tests of a file and prints what tests/run.py counts: "ok - NAME", "not ok - NAME" with the
traceback below it, "ok - NAME # SKIP WHY".

    @test
    def a_sentence_that_should_be_true(): ...

    main()

`test_server.py WORD...` runs those whose names contain one of the words."""
import sys
import time
import traceback

_tests = []


class Skip(Exception):
    pass


def skip_unless(condition, why):
    if not condition:
        raise Skip(why)


def test(function):
    _tests.append(function)
    return function


def check(condition, *why):
    """assert that also works under python3 -O, and shows what it saw."""
    if not condition:
        raise AssertionError(" ".join(str(w) for w in why) or "check failed")


def check_equal(got, expected, what="value"):
    check(got == expected, f"{what}: expected {expected!r}, got {got!r}")


def check_in(needle, hay, what="text"):
    check(needle in hay, f"{what} lacks {needle!r}:\n{hay}")


def _indented(text):
    return "".join("    " + line + "\n" for line in text.splitlines())


def _run(function):
    name = function.__name__.replace("_", " ")
    started = time.monotonic()
    try:
        function()
    except Skip as skip:
        print(f"ok - {name} # SKIP {skip}", flush=True)
        return True
    except Exception:  # every kind of failure is one line and the others still run
        print(f"not ok - {name}\n{_indented(traceback.format_exc())}", end="", flush=True)
        return False
    print(f"ok - {name} ({time.monotonic() - started:.2f} s)", flush=True)
    return True


def main():
    words = sys.argv[1:]
    chosen = [t for t in _tests if not words or any(w in t.__name__ for w in words)]
    failed = [t for t in chosen if not _run(t)]
    sys.exit(1 if failed or not chosen else 0)
