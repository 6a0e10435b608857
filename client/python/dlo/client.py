# SPDX-License-Identifier: Apache-2.0
"""One handle of libdlo-client: one session with the daemon, one allocator cache.

For programs that drive their own allocator. A program on torch wants dlo.AllocatorCache, which reads
and releases by itself.
"""
import ctypes
import weakref
from dataclasses import dataclass
from typing import Optional

from dlo import _abi, _library

MODES = {"off": _abi.MODE_OFF, "shadow": _abi.MODE_SHADOW, "on": _abi.MODE_ON}
POLICIES = {"learned": _abi.POLICY_LEARNED, "fixed": _abi.POLICY_FIXED, "always": _abi.POLICY_ALWAYS,
            "never": _abi.POLICY_NEVER}
STAGE_ENDS = {"force": _abi.STAGE_END_FORCE, "advise": _abi.STAGE_END_ADVISE}
FORCES = {"failure": _abi.FORCE_FAILURE, "oom_retry": _abi.FORCE_OOM_RETRY,
          "stage_end": _abi.FORCE_STAGE_END, "operator": _abi.FORCE_OPERATOR}
_CAUSES = range(_abi.CAUSE_NO_DAEMON, _abi.CAUSE_LOCKED + 1)


class DloError(Exception):
    """A call of the library failed. `code` is one of DLO_ERR_* of dlo.h, the text says why."""

    def __init__(self, code, text):
        super().__init__(text)
        self.code = code


@dataclass(frozen=True)
class Answer:
    """An answer with its inputs (R8). Bytes; None is a number that was not read.

    decision and would are "retain", "release" or "keep" ("" where there is nothing to do); cause
    says why the library answered by itself, "" where the daemon answered."""

    decision: str
    would: str
    reason: str
    cause: str
    cached: Optional[int]
    free: Optional[int]
    total: Optional[int]
    age_ns: Optional[int]
    floor: Optional[int]
    cap: Optional[int]
    budget: Optional[int]
    capped: Optional[bool]
    peak: int
    learned: int
    staged_bytes: int
    stager_count: int
    warmup: bool
    session: int
    n: int


@dataclass(frozen=True)
class Room:
    """How a call that waited for memory ended (R24). end: "covered", "nobody", "deadline",
    "unverified", "shadow" or "local". freed: bytes, for this call, by the other workers' reports;
    free: of the device, by the sample that decided, None where there was none."""

    end: str
    freed: int
    free: Optional[int]


def _word(function, number):
    return function(number).decode() if number else ""


def _answer(library, a):
    def read(field, value):
        return value if a.fields & field else None

    capped = read(_abi.FIELD_CAPPED, a.capped)
    return Answer(
        decision=_word(library.dlo_decision_name, a.decision),
        would=_word(library.dlo_decision_name, a.would),
        reason=_word(library.dlo_reason_name, a.reason),
        cause=_word(library.dlo_cause_name, a.cause),
        cached=read(_abi.FIELD_CACHED, a.cached),
        free=read(_abi.FIELD_FREE, a.free),
        total=read(_abi.FIELD_TOTAL, a.total),
        age_ns=read(_abi.FIELD_AGE, a.age_ns),
        floor=read(_abi.FIELD_FLOOR, a.floor),
        cap=read(_abi.FIELD_CAP, a.cap),
        budget=read(_abi.FIELD_BUDGET, a.budget),
        capped=None if capped is None else bool(capped),
        peak=a.peak,
        learned=a.learned,
        staged_bytes=a.staged_bytes,
        stager_count=a.stager_count,
        warmup=bool(a.warmup),
        session=a.session,
        n=a.n)


def _number(name, value):
    """Bytes for C: None is missing; a number that does not fit is an error, never cut."""
    if value is None:
        return _abi.MISSING
    value = int(value)
    if not 0 <= value < _abi.MISSING:
        raise ValueError(f"{name} must be from 0 to 2**64-2, got {value}")
    return value


def _choice(name, value, table):
    if value is None:
        return 0
    if value not in table:
        raise ValueError(f"{name} must be one of {', '.join(table)}, got {value!r}")
    return table[value]


def _text(value):
    return None if value is None else str(value).encode()


def _release_function(release):
    """As a function for C; the object must live as long as the handle."""
    if release is None:
        return _abi.release_fn()

    def call(_, bytes_, ret_reserved, ret_allocated):
        try:
            ret_reserved[0], ret_allocated[0] = (_number("reserved", n) for n in release(bytes_))
        except Exception:  # it could not: the daemon is told, and asks somebody else
            return -1
        return 0

    return _abi.release_fn(call)


class Client:
    """Opens a handle, as dlo_open of dlo.h says. Without a daemon that succeeds too.

    name: of this worker, [A-Za-z0-9._:-]{1,63}; None: that of the program. socket: of the daemon;
    gpu_uuid: "GPU-..." to find it by; mode: "off", "shadow", "on" ($DLO_MODE wins); deadline_ms: of
    each call; policy: "learned", "fixed", "always", "never"; stage_end: "force" or "advise";
    min_free: fraction of total kept free; features: FEATURE_* of dlo._abi; group, rank, world: of
    workers that act together. release(bytes): empties the cache, or at least so many bytes of it where
    a part can be given back, and returns (reserved, allocated) of afterwards; it is called inside
    idle_wait and oom alone, on the thread that called them, and may raise where it could not.

    Raises DloError, ValueError (a word or number that cannot be), and LibraryError where the C
    library is missing. Blocks: every call at most the deadline. Threads: any, the handle is locked
    inside. Fork: in the child of a fork every call raises DloError with ERR_FORKED; open another.
    The handle is closed by close(), at the end of a `with`, or when the object is collected."""

    def __init__(self, *, name=None, socket=None, gpu_uuid=None, mode=None, deadline_ms=None,
                 policy=None, stage_end=None, min_free=None, features=0, group=None, rank=0, world=0,
                 release=None):
        self._library = _library.load()
        self._release = _release_function(release)
        options = _abi.dlo_options(
            name=_text(name),
            socket=_text(socket),
            gpu_uuid=_text(gpu_uuid),
            mode=_choice("mode", mode, MODES),
            deadline_ms=int(deadline_ms or 0),
            policy=_choice("policy", policy, POLICIES),
            stage_end=_choice("stage_end", stage_end, STAGE_ENDS),
            min_free=-1.0 if min_free is None else float(min_free),
            features=features,
            group=_text(group),
            rank=rank,
            world=world,
            release=self._release)
        handle = ctypes.c_void_p()
        code = self._library.dlo_open(ctypes.byref(options), ctypes.byref(handle))
        if code < 0:
            raise DloError(code, self._library.dlo_last_error(None).decode())
        self._handle = handle
        self._close = weakref.finalize(self, self._library.dlo_close, handle)

    def close(self):
        """Ends the session; the daemon forgets it with its stagers. Closing twice is fine. No other
        thread may be inside a call."""
        self._close()

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.close()

    def _check(self, code):
        if code < 0:
            if code == _abi.ERR_FORKED:
                raise DloError(code, self._library.dlo_strerror(code).decode())
            raise DloError(code, self.last_error or self._library.dlo_strerror(code).decode())

    def _open_handle(self):
        if not self._close.alive:
            raise DloError(_abi.ERR_BAD_STATE, "the handle is closed")
        return self._handle

    @property
    def last_error(self):
        """One line on the last call of this handle that failed, "" before the first."""
        return self._library.dlo_last_error(self._open_handle()).decode()

    def attach(self, stager, staged_bytes):
        """R1. An id that is attached already changes nothing."""
        self._check(self._library.dlo_attach(self._open_handle(), _text(stager),
                                             _number("staged_bytes", staged_bytes)))

    def detach(self, stager):
        """R2, R3. When no bytes are left the learned peak is reset to 0."""
        self._check(self._library.dlo_detach(self._open_handle(), _text(stager)))

    def set_peak(self, peak_bytes):
        """R11c."""
        self._check(self._library.dlo_set_peak(self._open_handle(), _number("peak_bytes", peak_bytes)))

    def warmup_begin(self):
        """R12."""
        self._check(self._library.dlo_warmup_begin(self._open_handle()))

    def warmup_end(self):
        """R12."""
        self._check(self._library.dlo_warmup_end(self._open_handle()))

    def busy_begin(self, *, need=None, reserved=None, allocated=None):
        """R21: a request begins. Needs FEATURE_BRACKETS."""
        report = _abi.dlo_report(need=_number("need", need), reserved=_number("reserved", reserved),
                                 allocated=_number("allocated", allocated))
        self._check(self._library.dlo_busy_begin(self._open_handle(), ctypes.byref(report)))

    def busy_end(self, *, need=None, reserved=None, allocated=None):
        """R21: a request ends, which is a boundary too. Returns an Answer; decision "" is nothing to
        do."""
        report = _abi.dlo_report(need=_number("need", need), reserved=_number("reserved", reserved),
                                 allocated=_number("allocated", allocated))
        answer = _abi.dlo_answer()
        self._check(self._library.dlo_busy_end(self._open_handle(), ctypes.byref(report),
                                               ctypes.byref(answer)))
        return _answer(self._library, answer)

    def ask(self, *, reserved=None, allocated=None, releasable=None, free=None, total=None, force=None,
            component=None):
        """R4 to R8: what to do at a component boundary. There is always an Answer: the daemon's, or
        within the deadline the local one."""
        boundary = _abi.dlo_boundary(
            force=_choice("force", force, FORCES),
            component=_text(component),
            reserved=_number("reserved", reserved),
            allocated=_number("allocated", allocated),
            releasable=_number("releasable", releasable),
            free=_number("free", free),
            total=_number("total", total))
        answer = _abi.dlo_answer()
        self._check(self._library.dlo_ask(self._open_handle(), ctypes.byref(boundary),
                                          ctypes.byref(answer)))
        return _answer(self._library, answer)

    def forced(self, force, component=None):
        """R4. Tells, after the worker has released by itself, that it did and why. Never waits for
        the daemon."""
        self._check(self._library.dlo_forced(self._open_handle(), _choice("force", force, FORCES),
                                             _text(component)))

    def oom(self, need):
        """R24. Asks others to make room for `need` bytes: after a load ran out of memory, was undone
        and the cache was released, or before a load that does not fit. Returns a Room. Blocks until
        there is room or nobody is left to make it, at most 5 s (20 s for a dead worker's memory)."""
        room = _abi.dlo_room()
        self._check(self._library.dlo_oom(self._open_handle(), _number("need", need),
                                          ctypes.byref(room)))
        return Room(end=_word(self._library.dlo_end_name, room.end), freed=room.freed,
                    free=None if room.free == _abi.MISSING else room.free)

    def reserve(self, bytes_, *, wait=2.0, term=120.0):
        """R25. Has so many bytes of the device kept for this process, for `term` seconds; others make
        room, for at most `wait` seconds. Returns a Room: granted where its end is "covered"."""
        room = _abi.dlo_room()
        self._check(self._library.dlo_reserve(self._open_handle(), _number("bytes", bytes_),
                                              int(wait * 1000), int(term * 1000), ctypes.byref(room)))
        return Room(end=_word(self._library.dlo_end_name, room.end), freed=room.freed,
                    free=None if room.free == _abi.MISSING else room.free)

    def unreserve(self):
        """R25. Gives the reservation up."""
        self._check(self._library.dlo_unreserve(self._open_handle()))

    def idle_wait(self, fd=-1, timeout=None):
        """R21. Waits until the descriptor is readable, or for so many seconds, as select does; meanwhile
        this worker may be asked to release its cache. Returns whether fd is readable."""
        ready = ctypes.c_int32()
        timeout_ms = -1 if timeout is None else max(0, int(timeout * 1000))
        self._check(self._library.dlo_idle_wait(self._open_handle(), fd, timeout_ms,
                                                ctypes.byref(ready)))
        return bool(ready.value)

    def released(self, reserved, allocated, us):
        """R26. What the allocator holds after a release, and the microseconds it took."""
        self._check(self._library.dlo_released(
            self._open_handle(), _number("reserved", reserved), _number("allocated", allocated),
            _number("us", us)))

    def cap(self, total):
        """R5: the cap in force on a device of so many bytes; None in mode off."""
        cap = ctypes.c_uint64()
        self._check(self._library.dlo_get_cap(self._open_handle(), _number("total", total),
                                              ctypes.byref(cap)))
        return None if cap.value == _abi.MISSING else cap.value

    def learned(self):
        """(peak, learned) in bytes: the observed peak, and what it is with its margin, before the cap."""
        raw = _abi.dlo_info()
        self._check(self._library.dlo_get_info(self._open_handle(), ctypes.byref(raw)))
        return raw.peak, raw.learned

    def info(self):
        """The state of the handle as a dict, from this process alone: members of struct dlo_info,
        words for numbers where there are words, counts by word."""
        raw = _abi.dlo_info()
        self._check(self._library.dlo_get_info(self._open_handle(), ctypes.byref(raw)))
        info = {}
        for name, _ in raw._fields_[1:]:
            value = getattr(raw, name)
            info[name] = value.decode() if isinstance(value, bytes) else value
        names = {number: word for word, number in MODES.items()}
        info["mode"] = names.get(raw.mode, "off")
        info["policy"] = {number: word for word, number in POLICIES.items()}.get(raw.policy, "")
        info["connected"] = bool(raw.connected)
        info["in_warmup"], info["is_busy"] = bool(raw.in_warmup), bool(raw.is_busy)
        info["forced"] = {word: raw.forced[number] for word, number in FORCES.items()}
        info["local"] = {_word(self._library.dlo_cause_name, n): raw.local[n] for n in _CAUSES}
        return info


def version():
    """The version of the C library."""
    return _library.load().dlo_version().decode()


def find_socket(gpu_uuid=None):
    """Where the daemon's socket is, None where there is none; whether anybody listens is not tried.
    With several daemons and no UUID to choose by it raises DloError."""
    path = ctypes.create_string_buffer(_abi.SOCKET_PATH_SIZE)
    library = _library.load()
    code = library.dlo_find_socket(_text(gpu_uuid), path, len(path))
    if code == _abi.ERR_NO_DAEMON:
        return None
    if code < 0:
        raise DloError(code, "several daemons and no GPU UUID to choose one by" if code == _abi.ERR_INVALID
                       else library.dlo_strerror(code).decode())
    return path.value.decode()
