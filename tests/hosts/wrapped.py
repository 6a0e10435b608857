# SPDX-License-Identifier: Apache-2.0
"""The released torch with its empty_cache wrapped, and AllocatorCache over it."""
import torch

import dlo
import dlo.empty_cache
import standins
from standins import calls, equal, holding

equal(dlo.empty_cache.install(), True)
torch.cuda.empty_cache()  # no device is initialised: torch's own function runs, and does nothing
dlo.empty_cache.uninstall()

standins.cuda(torch)
equal(dlo.empty_cache.install(), True)
holding(30)
torch.cuda.empty_cache()
holding(37)
torch.cuda.empty_cache()
equal(calls["empty_cache"], 1)
try:
    raise torch.OutOfMemoryError("planted")
except torch.OutOfMemoryError:
    torch.cuda.empty_cache()
equal(calls["empty_cache"], 2)
dlo.empty_cache.uninstall()

cache = dlo.AllocatorCache(torch.device("cuda", 0))
cache.grow_retention_budget(100)
holding(30)
equal(cache.release_if_needed(), True)
holding(37)
statistics = calls["statistics"]
equal(cache.release_if_needed(), False)
equal(calls["statistics"] - statistics, 1)
print(f"{calls['empty_cache']} of torch's own calls")
