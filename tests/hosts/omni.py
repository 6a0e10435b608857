# SPDX-License-Identifier: Apache-2.0
"""The released vLLM-Omni: its plugin loader finds ours by the entry point, its class is patched, and its
stager runs over it."""
import os

import standins
from standins import calls, equal, holding

standins.omni()
import torch  # noqa: E402
from vllm_omni.plugins import load_omni_general_plugins  # noqa: E402

load_omni_general_plugins()
import vllm_omni.diffusion.offloader.module_residency as residency  # noqa: E402

equal("_dlo_patched" in vars(residency.BoundedAllocatorCache), True)
torch.accelerator.memory_reserved = lambda _device: standins.figures["reserved"]
torch.accelerator.memory_allocated = lambda _device: standins.figures["allocated"]

is_learned = os.environ.get("DLO_MODE") != "shadow" and os.environ.get("DLO_POLICY") != "fixed"
cache = residency.BoundedAllocatorCache(torch.device("cpu"))
left = torch.nn.Linear(8, 8)
right = torch.nn.Linear(8, 8)
right.weight = left.weight  # an alias
stager = residency.PinnedModuleStager([left, right], torch.device("cpu"), pin_memory=False,
                                      cache_retention=cache)
equal(cache._staged_bytes, (8 * 8 + 8 + 8) * 4)
before = left.weight.detach().clone()
emptied = []
for cached in (30, 37, 30):
    stager.load()
    equal(left.weight.untyped_storage().data_ptr(), right.weight.untyped_storage().data_ptr())
    holding(cached)
    stager.offload()
    emptied.append(calls["empty_cache"])
equal(emptied, [1, 1, 1] if is_learned else [0, 0, 0])
equal(torch.equal(left.weight, before), True)

load_once, attempts = stager._load_once, []


def fail_once():
    attempts.append(1)
    if len(attempts) == 1:
        raise torch.OutOfMemoryError("planted")
    load_once()


stager._load_once = fail_once
emptied = calls["empty_cache"]
stager.load()
equal((len(attempts), calls["empty_cache"] - emptied, stager.loaded), (2, 1, True))
stager.offload()
stager.set_cache_retention(None)
equal(cache._staged_bytes, 0)
if is_learned:
    equal((cache.observed_cached_peak, cache.budget_bytes), (0, 0))
print(f"patched {residency.BoundedAllocatorCache.__module__}, {calls['empty_cache']} releases")
