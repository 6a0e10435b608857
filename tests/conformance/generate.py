#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes learned-seeded.trace: random sessions with the answers of R1 to R8 and R12.

The answers come from the oracle below, which is written from the prose of docs/policy.md and
shares no code with daemon/policy: Python integers, and one IEEE product. Standard library only;
the numbers of a seed are the same for every Python 3, since they come from a generator of our own.

usage: generate.py > learned-seeded.trace
"""

LINES = 1500
SEED = 20260131
MAX = 2**64 - 1
MARGIN, CAP_FRACTION = 1.25, 0.25
CAUSES = ("failure", "oom_retry", "stage_end", "operator")


class Random:
    """SplitMix64 (public domain), so that the file does not hang on a version of Python."""

    def __init__(self, seed):
        self.state = seed

    def bits(self):
        self.state = (self.state + 0x9E3779B97F4A7C15) & MAX
        z = self.state
        z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & MAX
        z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & MAX
        return z ^ (z >> 31)

    def below(self, n):
        return self.bits() % n

    def chance(self, one_in):
        return self.below(one_in) == 0

    def pick(self, items):
        return items[self.below(len(items))]


def product(size, fraction):
    """(uint64_t)((double)bytes * fraction), saturating"""
    value = float(size) * fraction
    return MAX if value >= 2.0**64 else int(value)


class Oracle:
    """One session under the learned policy."""

    def __init__(self, min_free):
        self.min_free = min_free
        self.stagers = {}
        self.peak = 0
        self.decisions = 0
        self.in_warmup = False

    def staged(self):
        return sum(self.stagers.values())

    def attach(self, name, size):  # R1
        if name not in self.stagers:
            if self.staged() + size > MAX:
                return "error reason=overflow"
            self.stagers[name] = size
        return "ok staged=%d stagers=%d" % (self.staged(), len(self.stagers))

    def detach(self, name):  # R2, R3
        if name not in self.stagers:
            return "error reason=unknown_stager"
        del self.stagers[name]
        if self.staged() == 0:
            self.peak = 0
        return "ok staged=%d stagers=%d peak=%d" % (self.staged(), len(self.stagers), self.peak)

    def warmup(self, begins):  # R12
        if self.in_warmup == begins:
            return "error reason=bad_state"
        self.in_warmup = begins
        return "ok"

    def budget(self, total):
        return min(product(self.peak, MARGIN), product(total, CAP_FRACTION))

    def judge(self, reserved, allocated, free, total):  # R5, R6, R7
        """Reason and the values of before; then learns."""
        if free is None or total is None:
            free = total = None  # half a pair is none
        cached = None if None in (reserved, allocated) else max(0, reserved - allocated)
        shown = {"cached": cached, "free": free, "total": total}
        if total is None:
            shown.update(age=None, floor=None, cap=None, budget=None, capped=None)
        else:
            learned = product(self.peak, MARGIN)
            cap = product(total, CAP_FRACTION)
            capped = None if cached is None else int(cap < cached <= learned)
            shown.update(age=0, floor=product(total, self.min_free), cap=cap,
                         budget=min(learned, cap), capped=capped)
        if cached is None or total is None:
            return "telemetry_unavailable", shown
        self.peak = max(self.peak, cached)
        if cached > shown["budget"]:
            return "cached_over_budget", shown
        if free < shown["floor"]:
            return "low_free_memory", shown
        return "within_budget", shown

    def ask(self, reserved, allocated, free, total, cause):  # R4, R8
        self.decisions += 1
        if cause:
            reason, shown = "forced", dict.fromkeys(
                ("cached", "free", "total", "age", "floor", "cap", "budget", "capped"))
        else:
            reason, shown = self.judge(reserved, allocated, free, total)
        answer = "retain" if reason == "within_budget" else "release"
        shown.update(peak=self.peak, learned=product(self.peak, MARGIN), staged=self.staged(),
                     stagers=len(self.stagers), warmup=int(self.in_warmup), n=self.decisions)
        return "%s reason=%s %s" % (answer, reason, pairs(shown))


def text(value):
    return "-" if value is None else str(value)


def pairs(values):
    return " ".join("%s=%s" % (key, text(value)) for key, value in values.items())


def near(rng, value):
    """A number at an edge, or one or two beside it."""
    return min(MAX, max(0, value + rng.below(5) - 2))


def some_total(rng):
    kind = rng.below(8)
    if kind == 0:
        return rng.below(64)
    if kind == 1:
        return MAX - rng.below(3)
    if kind == 2:
        return (1 << (50 + rng.below(13))) + rng.below(9) - 4
    return (8 + rng.below(180)) * 10**9 + rng.below(10**9)


def some_cached(rng, session, total):
    kind = rng.below(8)
    if kind < 2:
        return near(rng, session.budget(total))
    if kind == 2:
        return near(rng, session.peak)
    if kind == 3:
        return near(rng, product(session.peak, MARGIN))
    if kind == 4:
        return near(rng, product(total, CAP_FRACTION))
    if kind == 5:
        return rng.below(3)
    return rng.below(total // 3 + 1)


def some_ask(rng, session, total):
    cached = some_cached(rng, session, total)
    allocated = rng.below(min(total, MAX - cached) + 1)
    reserved = allocated + cached
    if rng.chance(12):
        reserved, allocated = allocated, reserved  # an allocator that counts late
    floor = product(total, session.min_free)
    free = near(rng, floor) if rng.chance(3) else rng.below(total + 1)
    values = {"reserved": reserved, "allocated": allocated, "free": free, "total": total}
    if rng.chance(14):
        values[rng.pick(tuple(values))] = None
    cause = rng.pick(CAUSES) if rng.chance(11) else None
    answer = session.ask(cause=cause, **values)
    if cause:
        return "ask", dict(values, force=cause), answer
    return "ask", values, answer


def some_event(rng, session, total):
    kind = rng.below(20)
    name = "g%d" % rng.below(5)
    if kind < 3:
        size = rng.pick((0, 0, 1 + rng.below(5000), rng.below(10**11), MAX - rng.below(3)))
        return "attach", {"id": name, "bytes": size}, session.attach(name, size)
    if kind < 5:
        return "detach", {"id": name}, session.detach(name)
    if kind == 5:
        peak = rng.pick((0, near(rng, product(total, 0.2)), rng.below(total + 1), MAX))
        session.peak = peak
        return "set_peak", {"peak": peak}, "ok peak=%d" % peak
    if kind == 6:
        begins = rng.chance(2)
        answer = session.warmup(begins)
        return "warmup", {"phase": "begin" if begins else "end"}, answer
    return some_ask(rng, session, total)


def main():
    rng = Random(SEED)
    lines = ["# dlo-trace 1", "# Made by generate.py, seed %d: do not edit." % SEED]
    number = 0
    while len(lines) < LINES:
        number += 1
        min_free = rng.pick((0.05, 0.05, 0.0, 1.0, 0.07, 0.29, 0.3333333333333333))
        session = Oracle(min_free)
        total = some_total(rng)
        lines.append("open s=%d min_free=%r -> ok" % (number, min_free))
        for _ in range(10 + rng.below(60)):
            if rng.chance(25):
                total = some_total(rng)
            verb, values, answer = some_event(rng, session, total)
            lines.append("%s s=%d %s -> %s" % (verb, number, pairs(values), answer))
        lines.append("close s=%d" % number)
    print("\n".join(lines))


if __name__ == "__main__":
    main()
