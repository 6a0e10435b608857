# SPDX-License-Identifier: Apache-2.0
"""R1 to R8 in a few lines of Python, written from docs/policy.md and not from the C code, and random
steps that lie near the edges of every comparison."""
import random

FRACTIONS = (0.05, 0.05, 0.0, 1.0, 0.1, 0.07, 0.29, 0.35, 0.57, 1 / 3, 0.5, 0.999)
MAX = 1 << 48  # of sizes, so that their sums stay below 2^50


class Oracle:
    def __init__(self, min_free=0.05):
        self.min_free, self.staged, self.peak = min_free, 0, 0

    @property
    def learned(self):
        return int(self.peak * 1.25)

    def budget(self, total):
        return min(self.learned, int(total * 0.25))

    def floor(self, total):
        return int(total * self.min_free)

    def attach(self, bytes_):
        self.staged += bytes_

    def detach(self, bytes_):
        self.staged = max(0, self.staged - bytes_)
        if self.staged == 0:
            self.peak = 0

    def ask(self, reserved, allocated, free, total, force):
        """Is the cache released?"""
        if force or None in (reserved, allocated, free, total):
            return True
        cached = max(0, reserved - allocated)
        release = cached > self.budget(total) or free < self.floor(total)
        self.peak = max(self.peak, cached)
        return release


def steps(seed, count, fraction):
    """("attach", n), ("detach", n) or ("ask", reserved, allocated, free, total, force)."""
    rng, ref, attached = random.Random(seed), Oracle(fraction), []
    total = rng.randrange(1, MAX)

    def near(value):
        return max(0, min(MAX, value + rng.randrange(-2, 3)))

    for _ in range(count):
        dice = rng.random()
        if dice < 0.1 or (dice < 0.3 and not attached):
            n = rng.choice((0, rng.randrange(1, 1 << rng.randrange(1, 40))))
            attached.append(n)
            step = ("attach", n)
        elif dice < 0.22 and attached:
            n = attached.pop(rng.randrange(len(attached)))
            step = ("detach", n + rng.choice((0, 0, 0, 0, rng.randrange(1000))))
        else:
            if rng.random() < 0.1:
                total = rng.choice((0, 1, 3, 4, 19, 20, 21, 400, 80 << 30, 150_110_011_392, MAX,
                                    rng.randrange(1, MAX)))
            cached = rng.choice((near(ref.budget(total)), near(total // 4), near(ref.peak), 0,
                                 rng.randrange(max(1, total) + 1)))
            allocated = rng.randrange(MAX)
            pair = [allocated + cached, allocated]
            if rng.random() < 0.05:
                pair.reverse()
            free = rng.choice((near(ref.floor(total)), rng.randrange(total + 1)))
            values = [*pair, free, total]
            if rng.random() < 0.04:
                values[rng.randrange(4)] = None
            step = ("ask", *values, rng.random() < 0.05)
        getattr(ref, step[0])(*step[1:])
        yield step
