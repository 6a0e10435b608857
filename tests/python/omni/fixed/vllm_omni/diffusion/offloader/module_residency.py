# SPDX-License-Identifier: Apache-2.0
"""A stand-in with the interface of vLLM-Omni's offloader that has a fixed share and no ledger."""
import torch

from vllm_omni.platforms import current_omni_platform


class BoundedAllocatorCache:
    def __init__(self, device, *, max_cached_fraction=0.25, min_free_fraction=0.05):
        self.device = device
        self.max_cached_fraction = max_cached_fraction
        self.min_free_fraction = min_free_fraction

    def release_if_needed(self, *, force=False):
        torch.state.call("original")
        free, total = current_omni_platform.get_device_memory(self.device)
        cached = torch.state.reserved - torch.state.allocated
        release = cached > int(total * self.max_cached_fraction) or free < total // 20
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
        self.cache_retention = cache_retention
        self._groups = [Group(count)]

    def set_cache_retention(self, cache_retention):
        self.cache_retention = cache_retention
