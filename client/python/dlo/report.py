# SPDX-License-Identifier: Apache-2.0
"""One page on a recorded trace: what releases cost, how often the learned policy would have kept the
cache, and where a neighbour's memory was in the way.

The policy is the C library's own, in this process and without a daemon. A recording shows the program as
it ran: where it emptied and the policy would not have, what it would hold at the next boundary is taken
as the larger of what it held and what it mapped again.
"""
import os
import tempfile
from dataclasses import dataclass, field

from dlo import client

KEYS = ("reserved", "allocated", "free", "total", "inactive", "retries", "us")


class TraceError(Exception):
    """A line of the trace cannot be read; the text names file and line."""


@dataclass
class Boundary:
    t: float
    reserved: int = None
    allocated: int = None
    free: int = None
    total: int = None
    inactive: int = None
    retries: int = None
    force: str = None
    us: int = None  # None: the cache was kept

    @property
    def cached(self):
        if self.reserved is None or self.allocated is None:
            return None
        return max(0, self.reserved - self.allocated)

    @property
    def others(self):
        """What is in use on the device beside this allocator: other processes, contexts, libraries."""
        if None in (self.total, self.free, self.reserved):
            return None
        return max(0, self.total - self.free - self.reserved)


def _value(key, text, where):
    if text == "-":
        return None
    if not text.isdecimal():
        raise TraceError(f"{where}: {key}: not a number: {text}")
    return int(text)


def read(path):
    """The boundaries of a recording."""
    found = []
    with open(path, encoding="utf-8", errors="replace") as f:
        for number, line in enumerate(f, 1):
            words, where = line.split(), f"{path}:{number}"
            if number == 1 and line.strip() != "# dlo-trace 1":
                raise TraceError(f"{where}: not a trace: the first line must be '# dlo-trace 1'")
            if not words or words[0] not in ("ask", "released"):
                continue
            pairs = dict(word.split("=", 1) for word in words[1:] if "=" in word)
            try:
                t = float(pairs.get("t", "nan"))
            except ValueError:
                raise TraceError(f"{where}: t: not a time: {pairs['t']}") from None
            numbers = {k: _value(k, pairs[k], where) for k in KEYS if k in pairs}
            if words[0] == "ask":
                found.append(Boundary(t, force=pairs.get("force"), **numbers))
            elif found:
                found[-1].us = numbers.get("us")
    return found


@dataclass
class Learned:
    """What the learned policy would have done."""

    kept: int = 0
    released: dict = field(default_factory=dict)  # by reason
    saved_us: int = 0
    peak: int = 0
    floor: int = 0  # bytes below which it releases


def replay(boundaries):
    """Plays them through the policy, in this process."""
    learned, held = Learned(), None
    with tempfile.TemporaryDirectory() as nowhere:
        os.environ.pop("DLO_MODE", None)
        with client.Client(name="report", mode="on", policy="learned",
                           socket=os.path.join(nowhere, "none.sock")) as handle:
            for b in boundaries:
                if b.force:
                    handle.forced(b.force)
                    held = None
                    continue
                reserved = b.reserved if held is None or b.reserved is None else max(held, b.reserved)
                free = b.free
                if None not in (free, reserved, b.reserved):
                    free = max(0, free - (reserved - b.reserved))
                answer = handle.ask(reserved=reserved, allocated=b.allocated, free=free, total=b.total)
                learned.peak = answer.peak
                learned.floor = answer.floor or learned.floor
                if answer.decision == "retain":
                    learned.kept += 1
                    learned.saved_us += b.us or 0
                    held = reserved
                else:
                    learned.released[answer.reason] = learned.released.get(answer.reason, 0) + 1
                    held = None
    return learned


def _bytes(value):
    return "-" if value is None else f"{value / 1e9:.2f} GB"


def _seconds(us):
    return f"{us} us" if us < 1000 else f"{us / 1000:.1f} ms" if us < 10**6 else f"{us / 10**6:.2f} s"


def _crowded(boundaries, floor):
    """Boundaries at which memory ran out here while somebody else held some: (boundary, others)."""
    found, retries = [], None
    for b in boundaries:
        has_retried = retries is not None and b.retries is not None and b.retries > retries
        retries = b.retries if b.retries is not None else retries
        is_low = b.free is not None and b.free < floor
        if (has_retried or b.force == "oom_retry" or is_low) and b.others:
            found.append((b, "ran out of memory" if has_retried or b.force else "below the floor"))
    return found


def page(path):
    """The page, as text."""
    boundaries = read(path)
    if not boundaries:
        return f"{path}: no boundary was recorded: the program never emptied its cache\n"
    emptied = [b for b in boundaries if b.us is not None]
    unforced = [b for b in boundaries if not b.force]
    span = boundaries[-1].t - boundaries[0].t
    cost = sum(b.us for b in emptied)
    cached = [b.cached for b in boundaries if b.cached is not None]
    others = [b.others for b in boundaries if b.others is not None]
    learned = replay(boundaries)
    lines = [
        f"{path}: {len(boundaries)} boundaries in {span:.1f} s, {len(boundaries) - len(unforced)} forced",
        "",
        "What releases cost",
        f"  the cache was emptied {len(emptied)} times; that took {_seconds(cost)} in all"
        + (f", at most {_seconds(max(b.us for b in emptied))}" if emptied else "")
        + (f", {cost / span / 1e4:.2f} % of the time" if span > 0 else ""),
        "  (the calls alone: mapping the memory again afterwards is not in it)",
        f"  cached at a boundary: at most {_bytes(max(cached, default=None))}",
        "",
        "What the learned policy would have done",
        f"  kept the cache at {learned.kept} of {len(unforced)} unforced boundaries; "
        f"that saves {_seconds(learned.saved_us)} of the calls",
        "  released: " + (", ".join(f"{n} {reason}" for reason, n in sorted(learned.released.items()))
                          or "never"),
        f"  learned peak at the end: {_bytes(learned.peak)}",
        "",
        "Where somebody else's memory was in the way",
        f"  beside this allocator up to {_bytes(max(others, default=None))} were in use on the device",
    ]
    crowded = _crowded(boundaries, learned.floor)
    for b, why in crowded[:8]:
        lines.append(f"  at t={b.t:.3f} {why}: {_bytes(b.free)} free, {_bytes(b.others)} in use by others, "
                     f"{_bytes(b.cached)} cached here")
    if len(crowded) > 8:
        lines.append(f"  and {len(crowded) - 8} more")
    if not crowded:
        lines.append("  nowhere: memory never ran short")
    return "\n".join(lines) + "\n"
