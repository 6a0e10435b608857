# SPDX-License-Identifier: Apache-2.0
"""How dlo reaches its host: what the allocator holds, what the device has, and the release."""
import logging
import os
import sys

from dlo import async_pool, engage, torch_memory


def _omni_platform():
    """vLLM-Omni's own names for device memory and release, in a process that runs it."""
    platforms = sys.modules.get("vllm_omni.platforms")
    return getattr(platforms, "current_omni_platform", None)


class Doors:
    """How a registration reaches its host: torch, or vLLM-Omni's platform where that is there. Looked
    up at each call. Picklable."""

    host = "torch"
    features = 0

    def __init__(self, device):
        self.device = device
        self._pool_of = self._found = None

    def _pool(self):
        """The driver's pool where torch's backend is cudaMallocAsync, else None."""
        if self._pool_of != os.getpid():
            self._pool_of, self._found = os.getpid(), None
            if torch_memory.is_async(self.device):
                try:
                    self._found = async_pool.AsyncPool(torch_memory.ordinal(self.device))
                except async_pool.PoolError as e:
                    engage.say(logging.DEBUG, f"cudaMallocAsync: {e}")
        return self._found

    def __getstate__(self):
        return {"device": self.device}

    def __setstate__(self, state):
        self.__init__(state["device"])

    def read_allocator(self):
        """(reserved, allocated), or (None, None)."""
        pool = self.is_ready() and self._pool()
        if pool:
            try:
                return pool.read()
            except async_pool.PoolError:
                return None, None
        return torch_memory.read_allocator(self.device)

    def read_memory(self):
        """(free, total) of the device, or (None, None)."""
        platform = _omni_platform()
        if platform is None:
            return torch_memory.read_device_memory(self.device)
        try:
            free, total = platform.get_device_memory(self.device)
            return torch_memory.correct_host_memory(self.device, free, total), total
        except Exception:
            return None, None

    def empty_cache(self):
        """The release. What it raises passes to the host."""
        platform = _omni_platform()
        if platform is None:
            torch_memory.empty_cache(self.device)
        else:
            platform.empty_cache()

    def release_for_others(self, bytes_):
        """R23: in an idle wait, on the thread that waits. Returns what the allocator holds then."""
        self.empty_cache()
        return self.read_allocator()

    def has_threshold(self):
        """Does the driver keep this cache, by a threshold of its own?"""
        return bool(self.is_ready() and self._pool())

    def settle(self, decision, cap):
        """After each answer, and once before the first: the driver's own threshold, where the
        allocator has one. cap: bytes, or None where the answer had none."""
        pool = self.has_threshold() and self._pool()
        if not pool or (cap is None and decision != "keep"):
            return
        try:
            pool.keep(None if decision == "keep" else cap)
        except async_pool.PoolError as e:
            engage.say(logging.DEBUG, f"cudaMallocAsync: {e}")

    def uuid(self):
        """Of the device, None where it is not known (yet)."""
        return torch_memory.device_uuid(self.device)

    def is_ready(self):
        """May the UUID be asked for now?"""
        return torch_memory.is_ready(self.device)

    def force_reason(self):
        """Why the host forces, by the exception that it is handling: "oom_retry" before the one retry
        of a load that ran out of memory, "failure" after it and for all others."""
        error = sys.exc_info()[1]
        is_first = is_out_of_memory(error) and not is_out_of_memory(error.__context__)
        return "oom_retry" if is_first else "failure"


def is_out_of_memory(error):
    """Is it torch's out-of-memory error, by its name and not its import?"""
    return any(c.__name__ in ("OutOfMemoryError", "AcceleratorOutOfMemoryError")
               for c in type(error).__mro__)
