# SPDX-License-Identifier: Apache-2.0
"""For any torch program, diffusers and accelerate: dlo decides at the calls of torch.cuda.empty_cache
that the program makes anyway.

    import dlo.empty_cache
    dlo.empty_cache.install()       # or: python3 -m dlo run -- python3 program.py

A call while an out-of-memory error is being handled always empties. Otherwise each device of the
process whose allocator holds anything is asked for; torch empties all of them at once, so it does where
one is to be released. Weights are not known here: the ledger is empty (R10).
"""
import functools
import sys
import time

from dlo import _library, engage, imports, settings
from dlo.doors import Doors, is_out_of_memory
from dlo.registration import Registration

HOST = "torch.cuda.empty_cache"

_registrations = {}  # device index: its registration


class _WrapperDoors(Doors):
    host = HOST


def _devices(torch):
    """Indices of the devices whose allocator holds memory. Asking for another one's free memory would
    make a context there."""
    if not torch.cuda.is_initialized():
        return []
    found = []
    for index in range(torch.cuda.device_count()):
        doors = _WrapperDoors(torch.device("cuda", index))
        reserved, _ = doors.read_allocator()
        if reserved is None or reserved > 0:
            found.append(index)
            if index not in _registrations:
                _registrations[index] = Registration(doors)
    return found


def _wrap(torch, original):
    @functools.wraps(original)
    def empty_cache():
        is_forced = is_out_of_memory(sys.exc_info()[1])
        registrations = [_registrations[index] for index in _devices(torch)]
        if registrations and not is_forced and all(r.decide() == "retain" for r in registrations):
            return
        start_ns = time.monotonic_ns()
        original()
        us = (time.monotonic_ns() - start_ns) // 1000
        for registration in registrations:
            registration.emptied(us, "oom_retry" if is_forced else None)

    empty_cache._dlo_original = original
    return empty_cache


def _patch(torch):
    original = torch.cuda.empty_cache
    if not hasattr(original, "_dlo_original"):
        torch.cuda.empty_cache = _wrap(torch, original)


def install():
    """Wraps torch.cuda.empty_cache, now or as soon as torch is imported. Does nothing in mode off;
    what was asked for and cannot be is one error line. Returns whether it is, or will be, wrapped.
    Installing twice is fine. Never raises."""
    try:
        if engage.mode()[0] == "off":
            return False
        _library.load()
    except (_library.LibraryError, settings.SettingError) as e:
        if engage.is_asked():
            engage.refuse(HOST, e)
        return False
    imports.when_imported("torch", _patch)
    return True


def uninstall():
    """Puts torch's own function back; the daemon forgets this process."""
    torch = sys.modules.get("torch")
    original = torch and getattr(torch.cuda.empty_cache, "_dlo_original", None)
    if original:
        torch.cuda.empty_cache = original
    _registrations.clear()
