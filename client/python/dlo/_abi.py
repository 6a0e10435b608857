# SPDX-License-Identifier: Apache-2.0
"""dlo.h, name by name: constants, structs (their size first) and prototypes.

Nothing else: what the names mean stands in dlo.h. A test compares every number, size and offset
here with what a C compiler makes of the header.
"""
import ctypes
from ctypes import POINTER, c_char, c_char_p, c_double, c_int32, c_int64, c_size_t, c_uint32, c_uint64, c_void_p

MISSING = 2**64 - 1
DEADLINE_MS_DEFAULT = 250

ERR_INVALID = -1
ERR_UNSUPPORTED = -4
ERR_BAD_STATE = -6
ERR_UNKNOWN_STAGER = -8
ERR_OVERFLOW = -9
ERR_LIMIT = -10
ERR_POLICY_NOT_ALLOWED = -12
ERR_NO_MEMORY = -14
ERR_IO = -15
ERR_NO_DAEMON = -16
ERR_TIMEOUT = -17
ERR_FORKED = -18
ERR_NOT_TRUSTED = -19

DECISION_RETAIN = 1
DECISION_RELEASE = 2
DECISION_KEEP = 3

FORCE_FAILURE = 1
FORCE_OOM_RETRY = 2
FORCE_STAGE_END = 3
FORCE_OPERATOR = 4

POLICY_LEARNED = 1
POLICY_FIXED = 2
POLICY_ALWAYS = 3
POLICY_NEVER = 4
POLICY_DEMAND = 5

MODE_OFF = 1
MODE_SHADOW = 2
MODE_ON = 3

STAGE_END_FORCE = 1
STAGE_END_ADVISE = 2

CAUSE_NO_DAEMON = 1
CAUSE_DEADLINE = 2
CAUSE_BACK_OFF = 3
CAUSE_BROKEN = 4
CAUSE_REFUSED = 5
CAUSE_LOCKED = 6

FEATURE_BRACKETS = 1
FEATURE_RECLAIM = 2
FEATURE_PARTIAL = 8

END_COVERED = 1
END_NOBODY = 2
END_DEADLINE = 3
END_UNVERIFIED = 4
END_SHADOW = 5
END_LOCAL = 6

FIELD_CACHED = 1
FIELD_FREE = 2
FIELD_TOTAL = 4
FIELD_AGE = 8
FIELD_FLOOR = 16
FIELD_CAP = 32
FIELD_BUDGET = 64
FIELD_CAPPED = 128

INFO_PATH = 112
INFO_TEXT = 80
INFO_COUNTS = 16
SOCKET_PATH_SIZE = 108

read_memory_fn = ctypes.CFUNCTYPE(c_int32, c_void_p, POINTER(c_uint64), POINTER(c_uint64))
release_fn = ctypes.CFUNCTYPE(c_int32, c_void_p, c_uint64, POINTER(c_uint64), POINTER(c_uint64))
log_fn = ctypes.CFUNCTYPE(None, c_void_p, c_int32, c_char_p)


class Sized(ctypes.Structure):
    """A struct that begins with its own size; `missing` names the members that start as MISSING."""

    missing = ()

    def __init__(self, **values):
        super().__init__(size=ctypes.sizeof(type(self)))
        for name in self.missing:
            setattr(self, name, MISSING)
        for name, value in values.items():
            setattr(self, name, value)


class dlo_options(Sized):
    _fields_ = [
        ("size", c_size_t),
        ("name", c_char_p),
        ("socket", c_char_p),
        ("gpu_uuid", c_char_p),
        ("mode", c_int32),
        ("deadline_ms", c_uint32),
        ("policy", c_int32),
        ("stage_end", c_int32),
        ("min_free", c_double),
        ("features", c_uint64),
        ("group", c_char_p),
        ("rank", c_uint32),
        ("world", c_uint32),
        ("read_memory", read_memory_fn),
        ("read_memory_arg", c_void_p),
        ("log", log_fn),
        ("log_arg", c_void_p),
        ("release", release_fn),
        ("release_arg", c_void_p),
    ]

    def __init__(self, **values):
        super().__init__(**{"min_free": -1.0, **values})


class dlo_boundary(Sized):
    missing = ("reserved", "allocated", "releasable", "free", "total")
    _fields_ = [
        ("size", c_size_t),
        ("force", c_int32),
        ("unused", c_int32),
        ("component", c_char_p),
        ("reserved", c_uint64),
        ("allocated", c_uint64),
        ("releasable", c_uint64),
        ("free", c_uint64),
        ("total", c_uint64),
    ]


class dlo_answer(Sized):
    _fields_ = [
        ("size", c_size_t),
        ("decision", c_int32),
        ("would", c_int32),
        ("reason", c_int32),
        ("cause", c_int32),
        ("fields", c_uint64),
        ("cached", c_uint64),
        ("free", c_uint64),
        ("total", c_uint64),
        ("age_ns", c_uint64),
        ("floor", c_uint64),
        ("cap", c_uint64),
        ("budget", c_uint64),
        ("capped", c_uint64),
        ("peak", c_uint64),
        ("learned", c_uint64),
        ("staged_bytes", c_uint64),
        ("stager_count", c_uint32),
        ("warmup", c_int32),
        ("session", c_uint64),
        ("n", c_uint64),
    ]


class dlo_report(Sized):
    missing = ("need", "reserved", "allocated")
    _fields_ = [
        ("size", c_size_t),
        ("need", c_uint64),
        ("reserved", c_uint64),
        ("allocated", c_uint64),
    ]


class dlo_room(Sized):
    missing = ("free",)
    _fields_ = [
        ("size", c_size_t),
        ("end", c_int32),
        ("unused", c_int32),
        ("freed", c_uint64),
        ("free", c_uint64),
    ]


class dlo_info(Sized):
    _fields_ = [
        ("size", c_size_t),
        ("mode", c_int32),
        ("connected", c_int32),
        ("last_link_error", c_int32),
        ("protocol_version", c_uint32),
        ("session", c_uint64),
        ("decisions", c_uint64),
        ("peak", c_uint64),
        ("learned", c_uint64),
        ("staged_bytes", c_uint64),
        ("stager_count", c_uint32),
        ("in_warmup", c_int32),
        ("is_busy", c_int32),
        ("policy", c_int32),
        ("retained", c_uint64),
        ("cold_start_releases", c_uint64),
        ("serving_releases", c_uint64),
        ("uncovered", c_uint64),
        ("forced", c_uint64 * INFO_COUNTS),
        ("local", c_uint64 * INFO_COUNTS),
        ("reconnects", c_uint64),
        ("socket", c_char * INFO_PATH),
        ("uuid", c_char * INFO_TEXT),
        ("daemon_version", c_char * INFO_TEXT),
        ("last_link_text", c_char * 256),
    ]


STRUCTS = (dlo_options, dlo_boundary, dlo_answer, dlo_report, dlo_room, dlo_info)

# name: (result, arguments). A handle is an opaque pointer.
PROTOTYPES = {
    "dlo_open": (c_int32, (POINTER(dlo_options), POINTER(c_void_p))),
    "dlo_close": (None, (c_void_p,)),
    "dlo_attach": (c_int32, (c_void_p, c_char_p, c_uint64)),
    "dlo_detach": (c_int32, (c_void_p, c_char_p)),
    "dlo_set_peak": (c_int32, (c_void_p, c_uint64)),
    "dlo_warmup_begin": (c_int32, (c_void_p,)),
    "dlo_warmup_end": (c_int32, (c_void_p,)),
    "dlo_busy_begin": (c_int32, (c_void_p, POINTER(dlo_report))),
    "dlo_busy_end": (c_int32, (c_void_p, POINTER(dlo_report), POINTER(dlo_answer))),
    "dlo_ask": (c_int32, (c_void_p, POINTER(dlo_boundary), POINTER(dlo_answer))),
    "dlo_forced": (c_int32, (c_void_p, c_int32, c_char_p)),
    "dlo_released": (c_int32, (c_void_p, c_uint64, c_uint64, c_uint64)),
    "dlo_set_release": (c_int32, (c_void_p, release_fn, c_void_p)),
    "dlo_oom": (c_int32, (c_void_p, c_uint64, POINTER(dlo_room))),
    "dlo_reserve": (c_int32, (c_void_p, c_uint64, c_uint32, c_uint32, POINTER(dlo_room))),
    "dlo_unreserve": (c_int32, (c_void_p,)),
    "dlo_idle_wait": (c_int32, (c_void_p, c_int32, c_int64, POINTER(c_int32))),
    "dlo_get_info": (c_int32, (c_void_p, POINTER(dlo_info))),
    "dlo_get_cap": (c_int32, (c_void_p, c_uint64, POINTER(c_uint64))),
    "dlo_last_error": (c_char_p, (c_void_p,)),
    "dlo_find_socket": (c_int32, (c_char_p, c_char_p, c_size_t)),
    "dlo_host_memory_free": (c_uint64, (c_uint64, c_uint64)),
    "dlo_strerror": (c_char_p, (c_int32,)),
    "dlo_decision_name": (c_char_p, (c_int32,)),
    "dlo_reason_name": (c_char_p, (c_int32,)),
    "dlo_cause_name": (c_char_p, (c_int32,)),
    "dlo_end_name": (c_char_p, (c_int32,)),
    "dlo_version": (c_char_p, ()),
}


def bind(library, prototypes=PROTOTYPES):
    """Gives the functions of a loaded library their prototypes. AttributeError names a missing one."""
    for name, (result, arguments) in prototypes.items():
        function = getattr(library, name)
        function.restype = result
        function.argtypes = arguments
    return library
