#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Random steps through dlo.AllocatorCache and a live daemon equal the rules, step by step: verdict,
ledger, peak, budget, and how often the cache was emptied. DLO_STEPS says how many (10,000)."""
import os

from lib.harness import ROOT, Daemon
from lib.python import PACKAGE, STUB, run
from lib.runner import check_in, main, skip_unless, test

STEPS = int(os.environ.get("DLO_STEPS", "100000" if "DLO_LONG" in os.environ else "10000"))
SHARED = os.environ.get("DLO_SHARED", os.path.join(ROOT, "..", "shared"))

RUNNER = """
import random
state.on_empty = lambda: None

def through_the_cache(steps, fraction):
    cache = new_cache(min_free_fraction=fraction)
    for step in steps:
        if step[0] == "ask":
            state.reserved, state.allocated, state.free, state.total = step[1:5]
            before = state.calls["empty_cache"]
            verdict = cache.release_if_needed(force=step[5])
            equal(state.calls["empty_cache"] - before, int(verdict))
        else:
            verdict = None
            (cache.grow_retention_budget if step[0] == "attach" else cache.shrink_retention_budget)(step[1])
        yield verdict, cache._staged_bytes, cache.observed_cached_peak, cache.budget_bytes

def compare(steps, fraction, oracle):
    count = 0
    for step, got in zip(steps, through_the_cache(steps, fraction)):
        wanted = oracle(step)
        if got != wanted:
            raise AssertionError(f"step {count} {step}: expected {wanted}, got {got}")
        count += 1
    return count

# a value that is missing is one that torch does not tell
state.missing = object()
real = torch.cuda.memory_stats_as_nested_dict
def nested(device=None):
    if None in (state.reserved, state.allocated):
        raise RuntimeError("not read")
    return real(device)
torch.cuda.memory_stats_as_nested_dict = nested
"""


@test
def random_steps_equal_the_rules():
    with Daemon() as d:
        out, _ = run(RUNNER + f"""
import oracle
total = 0
rng = random.Random(1)
for segment in range(10):
    fraction = 0.05 if segment < 4 else rng.choice(oracle.FRACTIONS + (rng.random(),))
    reference = oracle.Oracle(fraction)
    def rule(step):
        verdict = getattr(reference, step[0])(*step[1:])
        return verdict, reference.staged, reference.peak, reference.learned
    total += compare(list(oracle.steps(segment, {STEPS} // 10, fraction)), fraction, rule)
print(total, "steps,", state.calls["empty_cache"], "releases, 0 differences")
""", d, PYTHONPATH=os.pathsep.join((PACKAGE, STUB, os.path.join(ROOT, "tests", "python"))))
        print("#", out.strip())
        check_in(f"{STEPS} steps", out)


@test
def random_steps_equal_the_shared_oracle():
    tools = os.path.join(SHARED, "tools")
    skip_unless(os.path.exists(os.path.join(tools, "oracle.py")), "no oracle.py in $DLO_SHARED/tools")
    with Daemon() as d:
        out, _ = run(RUNNER + f"""
import oracle
total = 0
rng = random.Random(2)
for segment in range(10):
    fraction = 0.05 if segment < 4 else rng.choice(oracle.FRACTIONS + (rng.random(),))
    reference = oracle.TunedOracle(fraction, floor="ieee")
    def rule(step):
        if step[0] == "ask":
            verdict = reference.decide(*step[1:]) != oracle.RETAIN
        else:
            verdict = getattr(reference, step[0])(step[1])
        return verdict, reference.staged, reference.peak, reference.learned
    steps = list(oracle.trace(random.Random(segment), {STEPS} // 10, fraction=fraction))
    total += compare(steps, fraction, rule)
print(total, "steps,", state.calls["empty_cache"], "releases, 0 differences")
""", d, PYTHONPATH=os.pathsep.join((PACKAGE, STUB, tools)))
        print("#", out.strip())
        check_in(f"{STEPS} steps", out)


if __name__ == "__main__":
    main()
