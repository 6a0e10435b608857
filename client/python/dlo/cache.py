# SPDX-License-Identifier: Apache-2.0
"""dlo.AllocatorCache: in place of vLLM-Omni's BoundedAllocatorCache, for any program on torch."""
from dlo.doors import Doors
from dlo.registration import Registration


class AllocatorCache:
    """One torch allocator cache whose releases dlod decides, or, without a daemon, the same policy in
    this process.

    device: a torch.device or what makes one. min_free_fraction: part of the device that stays free,
    0 to 1. Raises ValueError and TypeError for arguments that cannot be; nothing of it raises because
    of the daemon. What empty_cache raises passes.

    Attach with grow_retention_budget when weights are staged, ask with release_if_needed after each
    component was offloaded, on the thread that ran it and after its own synchronize.

    Blocks: a call waits for the daemon at most its deadline (DLO_DEADLINE_MS, 250 ms), a forced
    release not at all. Threads, fork, spawn, pickle, copy and garbage collection are fine: see
    dlo.registration.Registration."""

    def __init__(self, device, *, min_free_fraction=0.05):
        if not 0.0 <= min_free_fraction <= 1.0:
            raise ValueError(f"min_free_fraction must be in [0, 1], got {min_free_fraction}")
        self.device = device
        self.min_free_fraction = min_free_fraction
        self._dlo = Registration(Doors(device), min_free_fraction)

    def __getstate__(self):
        state = self.__dict__.copy()
        state["_dlo"] = self._dlo.copy()
        return state

    @property
    def _staged_bytes(self):
        return self._dlo.staged_bytes

    @property
    def _observed_cached_peak(self):
        return self._dlo.peak

    @_observed_cached_peak.setter
    def _observed_cached_peak(self, value):
        self._dlo.peak = int(value)

    @property
    def observed_cached_peak(self):
        """The largest cached value seen at a boundary since the ledger was last empty, in bytes."""
        return self._dlo.peak

    @property
    def budget_bytes(self):
        """What may stay cached before the cap of the device, in bytes."""
        return self._dlo.learned

    def grow_retention_budget(self, staged_bytes):
        """So many bytes of host weights were staged (R1)."""
        if staged_bytes < 0:
            raise ValueError(f"staged_bytes must be >= 0, got {staged_bytes}")
        self._dlo.grow(int(staged_bytes))

    def shrink_retention_budget(self, staged_bytes):
        """So many are gone (R2); with the last one the learned peak is forgotten (R3)."""
        if staged_bytes < 0:
            raise ValueError(f"staged_bytes must be >= 0, got {staged_bytes}")
        self._dlo.shrink(int(staged_bytes))

    def release_if_needed(self, *, force=False):
        """A component boundary. Returns whether the cache was emptied. force: empties at once, without
        asking; the daemon is told afterwards, and nothing is learned (R4)."""
        why = self._dlo.doors.force_reason() if force else None
        return self._dlo.boundary(why, self._without_dlo)

    def _without_dlo(self):
        """What is done in the modes off and shadow, and without the C library: a stager without a
        policy empties at every offload (R19)."""
        return self._dlo.release()
