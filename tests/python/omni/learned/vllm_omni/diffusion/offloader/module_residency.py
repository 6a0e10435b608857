# SPDX-License-Identifier: Apache-2.0
"""A stand-in with the interface of vLLM-Omni's offloader that has the learned budget."""
import torch

from vllm_omni.platforms import current_omni_platform


class BoundedAllocatorCache:
    def __init__(self, device, *, min_free_fraction=0.05):
        self.device = device
        self.min_free_fraction = min_free_fraction
        self._staged_bytes = 0
        self._observed_cached_peak = 0

    def grow_retention_budget(self, staged_bytes):
        self._staged_bytes += staged_bytes

    def shrink_retention_budget(self, staged_bytes):
        self._staged_bytes = max(0, self._staged_bytes - staged_bytes)
        if not self._staged_bytes:
            self._observed_cached_peak = 0

    @property
    def observed_cached_peak(self):
        return self._observed_cached_peak

    @property
    def budget_bytes(self):
        return self._observed_cached_peak * 5 // 4

    def release_if_needed(self, *, force=False):
        torch.state.call("original")
        free, total = current_omni_platform.get_device_memory(self.device)
        cached = torch.state.reserved - torch.state.allocated
        release = cached > min(self.budget_bytes, total // 4) or free < total // 20
        if not force:
            self._observed_cached_peak = max(self._observed_cached_peak, cached)
        if force or release:
            current_omni_platform.empty_cache()
        return force or release


class Group:
    def __init__(self, count):
        self.master = Master(count)


class Master:
    def __init__(self, count):
        self.count = count

    def numel(self):
        return self.count

    def element_size(self):
        return 1


class PinnedModuleStager:
    def __init__(self, count, cache_retention=None):
        self._groups = [Group(count)]
        self.cache_retention = None
        self.set_cache_retention(cache_retention)

    @property
    def staged_bytes(self):
        return sum(group.master.numel() for group in self._groups)

    def set_cache_retention(self, cache_retention):
        if cache_retention is self.cache_retention:
            return
        if self.cache_retention is not None:
            self.cache_retention.shrink_retention_budget(self.staged_bytes)
        self.cache_retention = cache_retention
        if cache_retention is not None:
            cache_retention.grow_retention_budget(self.staged_bytes)
