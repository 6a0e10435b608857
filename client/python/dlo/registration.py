# SPDX-License-Identifier: Apache-2.0
"""One allocator cache of a host, registered with the daemon: its ledger, its handle, its boundaries.

This is what dlo.AllocatorCache and the host plugins are made of. It never raises for trouble with
the daemon or the C library; what the host's own empty_cache raises passes.

The ledger lives here. Hosts count bytes, the protocol names stagers: growing attaches a fresh id, and
shrinking detaches an id of that many bytes, or else attaches the remainder under a fresh id and
detaches all the others, so that the total is never 0 in between (R3).
"""
import collections
import itertools
import logging
import os
import re
import select
import sys
import threading
import time
import weakref

from dlo import _abi, _library, client, engage, settings

# Far below the 4096 stagers that a session may have: then they are merged into one.
IDS_MAX = 1024

_all = weakref.WeakSet()  # for the child of a fork


def worker_name():
    """DLO_NAME, else the program's name as a name of the protocol."""
    program = os.path.basename(sys.argv[0] if sys.argv else "")
    name = settings.get("DLO_NAME") or ("python" if program in ("", "-c", "-m") else program)
    return re.sub(r"[^A-Za-z0-9._:-]", "_", name)[:63]


def _fits(value):
    """A number of bytes, None where it is none."""
    return value if value is None or 0 <= value < _abi.MISSING else None


class Registration:
    """Threads: any. Fork: the child registers anew, with the same ledger and peak. Pickle and copy
    carry ledger and peak; the copy is a registration of its own. Collected: the daemon forgets it."""

    def __init__(self, doors, min_free_fraction=None):
        """min_free_fraction: None is the daemon's."""
        self.doors = doors
        self._min_free = None if min_free_fraction is None else float(min_free_fraction)
        self._ids = {}  # stager: bytes
        self._total = 0
        self._peak = 0
        self._start()

    def _start(self):
        self._lock = threading.Lock()
        self._names = itertools.count(1)
        self._client = None
        self._is_refused = False
        self._last_decision = None
        self._collected = collections.deque()
        _all.add(self)

    def __getstate__(self):
        with self._lock:
            self._detach_collected()
            return {"doors": self.doors, "_min_free": self._min_free, "_ids": dict(self._ids),
                    "_total": self._total, "_peak": self._peak}

    def __setstate__(self, state):
        self.__dict__.update(state)
        self._start()
        self._ids = {next(self._names): bytes_ for bytes_ in self._ids.values()}

    def copy(self):
        other = object.__new__(type(self))
        other.__setstate__(self.__getstate__())
        return other

    # ---- the handle ----

    def _open(self, now):
        """The handle, None where there is none (yet). `now`: a boundary is here, it cannot be put off
        until the device's UUID is known. With the lock held."""
        if self._client or self._is_refused:
            return self._client
        try:
            if not now and not settings.get("DLO_SOCKET") and not self.doors.is_ready():
                return None
            self._client = client.Client(
                name=worker_name(),
                gpu_uuid=self.doors.uuid(),
                mode="on",  # $DLO_MODE wins
                deadline_ms=settings.get("DLO_DEADLINE_MS"),
                policy=settings.get("DLO_POLICY"),
                stage_end=settings.get("DLO_STAGE_END"),
                min_free=self._min_free,
                features=self.doors.features,
                release=self.doors.release_for_others)
        except (_library.LibraryError, client.DloError, settings.SettingError) as e:
            self._is_refused = True
            engage.refuse(self.doors.host, e)
            return None
        for stager, bytes_ in self._ids.items():
            self._try("attach", str(stager), bytes_)
        if self._peak:
            self._try("set_peak", self._peak)
        self._settle_first()
        engage.announce(self.doors.host, self.doors.device, self._client)
        return self._client

    def _settle_first(self):
        """The cap holds from the start: no boundary may come for a long time."""
        if not self.doors.has_threshold():
            return
        _, total = self.doors.read_memory()
        cap = _fits(total) and self._try("cap", total)
        if cap and cap is not True:  # None in mode off
            self.doors.settle("", cap)

    def _try(self, method, *arguments, **named):
        """Calls the handle; None where that failed, which a debug line tells."""
        try:
            return getattr(self._client, method)(*arguments, **named) or True
        except (client.DloError, ValueError) as e:
            engage.say(logging.DEBUG, f"{method}: {e}")
            if getattr(e, "code", 0) == _abi.ERR_FORKED:  # by a fork that Python did not see
                self._client = None
            return None

    def handle(self):
        """The open handle, None where there is none."""
        with self._lock:
            return self._open(now=True)

    # ---- the ledger ----

    def _attach(self, bytes_):
        stager = next(self._names)
        if not self._open(now=False) or self._try("attach", f"{stager}", bytes_):
            self._ids[stager] = bytes_

    def _detach(self, stagers):
        for stager in stagers:
            del self._ids[stager]
            if self._client:
                self._try("detach", f"{stager}")

    def _replace_all(self):
        peak = self._read_peak()
        old = list(self._ids)
        if self._total > 0:
            self._attach(self._total)
        self._detach(old)
        if self._total > 0 and not self._ids:
            self._set_peak(peak)  # a daemon at its quotas refused the new one: that is not R3

    def _read_peak(self):
        if self._client:
            known = self._try("learned")
            self._peak = known[0] if known else self._peak
        return self._peak

    def collected(self, bytes_):
        """A stager of so many bytes was garbage-collected without being detached: it is at the next
        call. Takes no lock, since the collector may run anywhere."""
        self._collected.append(bytes_)

    def _detach_collected(self):
        while self._collected:
            self._shrink(self._collected.popleft())

    def grow(self, bytes_):
        """R1, for so many more bytes."""
        with self._lock:
            self._detach_collected()
            self._total += bytes_
            self._attach(bytes_)
            if len(self._ids) > IDS_MAX:
                self._replace_all()

    def shrink(self, bytes_):
        """R2, R3, for so many bytes less, never below 0."""
        with self._lock:
            self._detach_collected()
            self._shrink(bytes_)

    def _shrink(self, bytes_):
        if self._total and not bytes_:
            return
        peak = self._read_peak()
        self._total = max(0, self._total - bytes_)
        same = next((s for s, b in self._ids.items() if b == bytes_), None)
        if same is None:
            self._replace_all()
        else:
            self._detach([same])
        if self._total == 0:
            self._set_peak(0)
        elif not any(self._ids.values()):
            self._set_peak(peak)  # the rest was refused, as above

    def _set_peak(self, bytes_):
        self._peak = bytes_
        if self._client:
            self._try("set_peak", bytes_)

    @property
    def staged_bytes(self):
        return self._total

    @property
    def last_peak(self):
        """The peak as of the last answer, without asking anybody."""
        return self._peak

    @property
    def peak(self):
        with self._lock:
            return self._read_peak()

    @peak.setter
    def peak(self, bytes_):
        with self._lock:
            self._open(now=False)
            self._set_peak(bytes_)

    @property
    def learned(self):
        """The budget before its cap: the peak with its margin. 0 without the C library."""
        with self._lock:
            known = self._try("learned") if self._open(now=True) else None
            return known[1] if known else 0

    # ---- boundaries ----

    def boundary(self, force, without_dlo):
        """A component boundary, on the host's thread after its own synchronize. force: None to ask, or
        a word of client.FORCES. Returns whether the cache was emptied. without_dlo(): what the host
        does without dlo, for the modes off and shadow (R30); it empties by itself and returns the
        same."""
        if self.is_forced(force) and self._is_kept():
            emptied = without_dlo()
            self._tell("forced", force)
            return emptied
        if self.is_forced(force):
            self._empty(force)
            return True
        decision = self.decide(force)
        if decision == "keep":
            return without_dlo()
        if decision == "release":
            self._empty(None)
        return decision == "release"

    def is_forced(self, force):
        """R4: is that forced, and not the end of a stage that is to be decided like any boundary?"""
        try:
            return bool(force) and not (force == "stage_end" and
                                        settings.get("DLO_STAGE_END") == "advise")
        except settings.SettingError:
            return True

    def _is_kept(self):
        """R30: does the host go on as without dlo, as far as is known without asking?"""
        try:
            return self._last_decision == "keep" or settings.get("DLO_MODE") in ("off", "shadow")
        except settings.SettingError:
            return True

    def _tell(self, method, *arguments):
        """Tells the daemon, and waits for nobody."""
        with self._lock:
            handle = self._open(now=True)
        if handle:
            self._try(method, *arguments)

    def decide(self, force=None):
        """Asks: "retain", "release" or "keep". The host then empties, or not, and calls emptied()."""
        reserved, allocated = self.doors.read_allocator()
        free, total = self.doors.read_memory()
        with self._lock:
            self._detach_collected()
            handle = self._open(now=True)
        answer = handle and self._try("ask", force=force, reserved=_fits(reserved),
                                      allocated=_fits(allocated), free=_fits(free), total=_fits(total))
        self._last_decision = answer.decision if answer else "keep"
        if not answer:
            return "keep"
        if answer.cause != "locked":
            self._peak = answer.peak
        self.doors.settle(answer.decision, answer.cap)
        return answer.decision

    def _empty(self, force):
        """Empties first and tells then (R4, R26)."""
        start_ns = time.monotonic_ns()
        self.doors.empty_cache()
        self.emptied((time.monotonic_ns() - start_ns) // 1000, force)

    def emptied(self, us, force=None):
        """The host has emptied its cache, in so many microseconds: tells why where it was forced, and
        what that gave back. Waits for nobody."""
        if force:
            self._tell("forced", force)
        reserved, allocated = self.doors.read_allocator()
        if reserved is not None and allocated is not None:
            self._tell("released", reserved, allocated, us)

    # ---- requests ----

    def _report(self):
        reserved, allocated = self.doors.read_allocator()
        return {"reserved": _fits(reserved), "allocated": _fits(allocated)}

    def busy_begin(self):
        """R21, R24a: a request begins; others may be asked to make room for it first. True where the
        daemon's session is busy now; then busy_end must follow. A handle that is not open yet is not
        opened for it."""
        return bool(self._client and self._try("busy_begin", **self._report()))

    def busy_end(self):
        """R21: it has ended, which is a boundary too: the cache is emptied where another worker needs
        what it keeps. Returns whether it was."""
        answer = self._client and self._try("busy_end", **self._report())
        if not answer or answer.decision != "release":
            return False
        self._empty(None)
        return True

    # ---- others ----

    def oom(self, need):
        """R24: others make room for so many bytes. None where nobody could be asked."""
        handle = self.handle()
        return handle and self._try("oom", _fits(need) or 0)

    def idle_wait(self, fd=-1, timeout=None):
        """R21: waits for the descriptor as select does; meanwhile others may ask for the cache. Returns
        whether it is readable."""
        handle = self.handle()
        try:
            if handle:
                return handle.idle_wait(fd, timeout)
        except (client.DloError, ValueError) as e:
            engage.say(logging.DEBUG, f"idle_wait: {e}")
        return bool(select.select([fd] if fd >= 0 else [], [], [], timeout)[0])

    def release(self):
        """Empties without having asked, and reports it: R19, for hosts that have no other way."""
        self._empty(None)
        return True

    def _after_fork(self):
        self._lock = threading.Lock()  # another thread of the parent may have held it
        self._client = None            # the parent's: closing it here frees the child's copy alone


def _after_fork():
    for registration in list(_all):
        registration._after_fork()


os.register_at_fork(after_in_child=_after_fork)
