# SPDX-License-Identifier: Apache-2.0
"""A stand-in for torch: an allocator whose numbers a test sets, with as much of the interface as dlo
and the hosts use. `state` is the steering wheel; every call is counted in state.calls."""
import types
from collections import Counter


class OutOfMemoryError(RuntimeError):
    pass


class State:
    def __init__(self):
        self.reserved = self.allocated = 0
        self.inactive = self.retries = 0
        self.free, self.total = 80, 400
        self.is_initialized = True
        self.uuid = None
        self.is_integrated = 0
        self.fails = {}  # name of a call: the exception it raises
        self.calls = Counter()
        self.log = []  # names, in order
        self.on_empty = None  # called by empty_cache; default: all that is cached is given back

    def call(self, name):
        self.calls[name] += 1
        self.log.append(name)
        if name in self.fails:
            raise self.fails[name]


state = State()


class device:
    def __init__(self, type, index=None):
        if isinstance(type, device):
            type, index = type.type, type.index
        elif isinstance(type, int):
            type, index = "cuda", type
        elif ":" in type:
            type, index = type.split(":")
        self.type, self.index = type, None if index is None else int(index)

    def __repr__(self):
        return f"device(type={self.type!r}, index={self.index})"

    def __str__(self):
        return self.type if self.index is None else f"{self.type}:{self.index}"

    def __eq__(self, other):
        return str(self) == str(other)

    def __hash__(self):
        return hash(str(self))


def _nested(device=None):
    state.call("memory_stats_as_nested_dict")
    def number(value):
        return {"all": {"current": value, "peak": value}}

    return {"reserved_bytes": number(state.reserved), "allocated_bytes": number(state.allocated),
            "inactive_split_bytes": number(state.inactive), "num_alloc_retries": state.retries}


def _mem_get_info(device=None):
    state.call("mem_get_info")
    return state.free, state.total


def _empty_cache():
    state.call("empty_cache")
    if state.on_empty:
        state.on_empty()
    else:
        state.reserved = state.allocated


def _properties(device=None):
    return types.SimpleNamespace(uuid=state.uuid, is_integrated=state.is_integrated, name="stand-in")


cuda = types.SimpleNamespace(
    is_available=lambda: True,
    is_initialized=lambda: state.is_initialized,
    device_count=lambda: 1,
    current_device=lambda: 0,
    memory_stats_as_nested_dict=_nested,
    mem_get_info=_mem_get_info,
    empty_cache=_empty_cache,
    get_device_properties=_properties,
    OutOfMemoryError=OutOfMemoryError)


def _accelerator(name):
    def read(device=None):
        state.call(f"accelerator.{name}")
        return getattr(state, name.split("_")[1])

    return read


accelerator = types.SimpleNamespace(
    memory_reserved=_accelerator("memory_reserved"),
    memory_allocated=_accelerator("memory_allocated"),
    empty_cache=_empty_cache)
__version__ = "0.stand-in"
