# SPDX-License-Identifier: Apache-2.0
"""accelerate's offload hooks and diffusers' helper, as released, reach the wrapper."""
import accelerate
import accelerate.utils.memory
import torch
from diffusers.utils.torch_utils import empty_device_cache

import dlo.empty_cache
import standins
from standins import calls, equal, holding

standins.cuda(torch)
accelerate.utils.memory.is_cuda_available = lambda: True
equal(dlo.empty_cache.install(), True)



class Away(torch.nn.Linear):
    """A module on another device than the host's: the one that torch has without a GPU."""

    def __init__(self):
        super().__init__(2, 2, device="meta")

    def to(self, *_arguments, **_named):
        return self


first, first_hook = accelerate.cpu_offload_with_hook(Away(), "meta")
second, _ = accelerate.cpu_offload_with_hook(Away(), "meta", prev_module_hook=first_hook)
x = torch.zeros(1, 2, device="meta")
emptied = []
for cached in (30, 37, 30):
    holding(cached)
    second(first(x))  # the first is offloaded when the second starts, and the cache is asked for
    emptied.append(calls["empty_cache"])
equal(emptied, [1, 1, 1])
holding(60)
empty_device_cache("cuda")
equal(calls["empty_cache"], 2)
print(f"asked at {calls['statistics']} readings, emptied {calls['empty_cache']} times")
