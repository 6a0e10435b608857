# SPDX-License-Identifier: Apache-2.0
"""The vLLM-Omni plugin: entry point `vllm_omni.general_plugins`, loaded in every process of vLLM-Omni.

It patches BoundedAllocatorCache in place as soon as its module is imported, so that names that were
bound before, isinstance and mocks with a spec keep working. Installs with the learned budget and those
with the fixed share of 25 %, which have no ledger, are both known. What it does not know it leaves
alone, and says so in one error line. Requests are bracketed (R21) where the worker class is known.

Whatever the class did without dlo it still does in the modes off and shadow, and where the daemon says
"keep" (R30): the class's own release_if_needed runs, on the same state.
"""
import functools
import inspect
import sys
import threading
import weakref

from dlo import _abi, _library, engage, imports, settings
from dlo.doors import Doors
from dlo.registration import Registration

HOST = "vllm-omni"
WORKER_METHODS = ("execute_model", "execute_model_batch", "execute_stepwise")

_registrations = weakref.WeakSet()
_has_brackets = False


def register():
    """What the entry point names. Cheap, may be called again, imports neither torch nor vllm_omni,
    never raises."""
    try:
        if engage.mode()[0] == "off":
            return
        _library.load()
        for name in settings.get("DLO_VLLM_OMNI_MODULES"):
            imports.when_imported(name, _patch_safely)
        for name in settings.get("DLO_VLLM_OMNI_WORKERS"):
            imports.when_imported(name, _bracket_safely)
    except (_library.LibraryError, settings.SettingError) as e:
        if engage.is_asked():
            engage.refuse(HOST, e)


class OmniDoors(Doors):
    host = HOST

    @property
    def features(self):
        return _abi.FEATURE_BRACKETS if _has_brackets else 0

    def force_reason(self):
        """A release that is forced while no exception is handled is that of a stage's end."""
        return super().force_reason() if sys.exc_info()[1] else "stage_end"


# ---- the cache ----

def _patch_safely(module):
    try:
        patch(module)
    except Exception as e:  # the import must go on, and the host as it was
        engage.refuse(HOST, f"{module.__name__} is not of a shape that dlo {engage.__version__} "
                            f"knows: {e!r}")


class _State:
    """The class's own two numbers, where the class's own code runs: what it would have without dlo.
    Everywhere else they are the registration's."""

    def __init__(self):
        self._local = threading.local()

    def run(self, cache, function):
        """Runs the class's own code for that cache."""
        before, self._local.cache = getattr(self._local, "cache", None), cache
        try:
            return function()
        finally:
            self._local.cache = before

    def is_its_own(self, cache):
        return getattr(self._local, "cache", None) is cache or "_dlo" not in cache.__dict__

    def follow(self, cache, registration):
        """What dlo decided, the class would have decided: both go on from the same numbers."""
        cache.__dict__["_staged_bytes"] = registration.staged_bytes
        cache.__dict__["_observed_cached_peak"] = registration.last_peak

    def number(self, name, read, write):
        """A property for one of the names."""
        def get(cache):
            return cache.__dict__[name] if self.is_its_own(cache) else read(_registration(cache))

        def set_(cache, value):
            if not self.is_its_own(cache):
                write(_registration(cache), int(value))
            cache.__dict__[name] = value

        return property(get, set_)


_state = _State()


def _refuse_staged(registration, value):
    raise AttributeError("_staged_bytes is the ledger's: grow or shrink it")


def _write_peak(registration, value):
    registration.peak = value


def _registration(cache):
    """The registration of a patched cache; made here for one that is older than the patch."""
    found = cache.__dict__.get("_dlo")
    if found is None:
        found = Registration(OmniDoors(cache.device), cache.min_free_fraction)
        found.grow(cache.__dict__.get("_staged_bytes", 0))
        found.peak = cache.__dict__.get("_observed_cached_peak", 0)
        cache.__dict__["_dlo"] = found
        _registrations.add(found)
    return found


def patch(module):
    """Gives the classes of that module our methods. Raises where they are not what we know; then
    nothing is changed."""
    cls, stager = module.BoundedAllocatorCache, module.PinnedModuleStager
    if "_dlo_patched" in cls.__dict__:
        return
    parameters = inspect.signature(cls.__init__).parameters
    if "device" not in parameters or "min_free_fraction" not in parameters:
        raise TypeError("BoundedAllocatorCache takes no device and min_free_fraction")
    if "force" not in inspect.signature(cls.release_if_needed).parameters:
        raise TypeError("release_if_needed takes no force")
    if not callable(stager.set_cache_retention):
        raise TypeError("PinnedModuleStager has no set_cache_retention")
    has_ledger = hasattr(cls, "grow_retention_budget")
    _patch_stager(stager, has_ledger)
    for name, member in _members(cls).items():
        setattr(cls, name, member)


def _members(cls):
    initialise, without_dlo = cls.__init__, cls.release_if_needed
    without_budget = cls.__dict__.get("budget_bytes")

    @functools.wraps(initialise)
    def __init__(self, *arguments, **named):
        initialise(self, *arguments, **named)
        _registration(self)

    @functools.wraps(without_dlo)
    def release_if_needed(self, *, force=False):
        registration = _registration(self)
        kept = []

        def keep():
            kept.append(True)
            return _state.run(self, lambda: without_dlo(self, force=force))

        why = registration.doors.force_reason() if force else None
        released = registration.boundary(why, keep)
        if not kept:
            _state.follow(self, registration)
        return released

    def grow_retention_budget(self, staged_bytes):
        if staged_bytes < 0:
            raise ValueError(f"staged_bytes must be >= 0, got {staged_bytes}")
        registration = _registration(self)
        registration.grow(int(staged_bytes))
        self.__dict__["_staged_bytes"] = registration.staged_bytes

    def shrink_retention_budget(self, staged_bytes):
        if staged_bytes < 0:
            raise ValueError(f"staged_bytes must be >= 0, got {staged_bytes}")
        registration = _registration(self)
        registration.shrink(int(staged_bytes))
        self.__dict__["_staged_bytes"] = registration.staged_bytes
        if registration.staged_bytes == 0:
            self.__dict__["_observed_cached_peak"] = 0

    def __getstate__(self):
        return {**self.__dict__, "_dlo": _registration(self).copy()}

    def __setstate__(self, state):
        self.__dict__.update(state)
        _registrations.add(self._dlo)

    return {
        "_dlo_patched": True,
        "__init__": __init__,
        "release_if_needed": release_if_needed,
        "grow_retention_budget": grow_retention_budget,
        "shrink_retention_budget": shrink_retention_budget,
        "__getstate__": __getstate__,
        "__setstate__": __setstate__,
        "_staged_bytes": _state.number("_staged_bytes", lambda r: r.staged_bytes, _refuse_staged),
        "_observed_cached_peak": _state.number("_observed_cached_peak", lambda r: r.peak, _write_peak),
        "observed_cached_peak": property(lambda self: _registration(self).peak),
        "budget_bytes": property(lambda self: without_budget.__get__(self) if without_budget and
                                 _state.is_its_own(self) else _registration(self).learned),
    }


# ---- the ledger ----

def _staged_bytes(stager):
    return sum(group.master.numel() * group.master.element_size()
               for group in getattr(stager, "_groups", ()))


def _patch_stager(cls, has_ledger):
    """A stager that is collected while attached is detached (R3), and one of an install without a
    ledger gets one."""
    set_retention, initialise = cls.set_cache_retention, cls.__init__

    def follow(stager):
        """Brings our books to the cache that the stager has now."""
        cache, bytes_ = getattr(stager, "cache_retention", None), _staged_bytes(stager)
        books = stager.__dict__.get("_dlo_books")
        if books and books.cache is cache:
            return
        if books:
            books.close(detach=not has_ledger)
        stager.__dict__["_dlo_books"] = _Books(stager, cache, bytes_)
        if not has_ledger and cache is not None:
            cache.grow_retention_budget(bytes_)

    @functools.wraps(set_retention)
    def set_cache_retention(self, cache_retention):
        set_retention(self, cache_retention)
        follow(self)

    @functools.wraps(initialise)
    def __init__(self, *arguments, **named):
        initialise(self, *arguments, **named)
        follow(self)

    cls.set_cache_retention = set_cache_retention
    cls.__init__ = __init__
    if not has_ledger:
        cls.staged_bytes = property(_staged_bytes)


class _Books:
    """To which cache a stager is attached with how many bytes."""

    def __init__(self, stager, cache, bytes_):
        self.cache, self.bytes = cache, bytes_
        registration = getattr(cache, "__dict__", {}).get("_dlo")
        self._finalizer = registration and weakref.finalize(stager, registration.collected, bytes_)
        if self._finalizer:
            self._finalizer.atexit = False

    def close(self, detach):
        if self._finalizer:
            self._finalizer.detach()
        if detach and self.cache is not None:
            self.cache.shrink_retention_budget(self.bytes)


# ---- requests ----

class _Brackets:
    """Busy while any request runs; requests inside requests are one."""

    def __init__(self):
        self.lock = threading.Lock()
        self.depth = 0
        self.begun = []

    def begin(self):
        with self.lock:
            self.depth += 1
            if self.depth == 1:
                self.begun = [r for r in list(_registrations) if r.busy_begin()]

    def end(self):
        with self.lock:
            self.depth -= 1
            if self.depth == 0:
                for registration in self.begun:
                    registration.busy_end()
                self.begun = []


_brackets = _Brackets()


def _bracketed(method):
    @functools.wraps(method)
    def run(self, *arguments, **named):
        _brackets.begin()
        try:
            return method(self, *arguments, **named)
        finally:
            _brackets.end()

    run._dlo = True
    return run


def _bracket_safely(module):
    global _has_brackets
    cls = getattr(module, "DiffusionWorker", None)
    for name in WORKER_METHODS:
        method = getattr(cls, name, None)
        if callable(method) and not hasattr(method, "_dlo"):
            setattr(cls, name, _bracketed(method))
            _has_brackets = True
