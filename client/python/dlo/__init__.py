# SPDX-License-Identifier: Apache-2.0
"""dlo: GPU workers ask dlod when to empty their allocator cache.

    cache = dlo.AllocatorCache(torch.device("cuda", 0))   # a program on torch
    client = dlo.Client(name="worker")                    # a program with an allocator of its own

Importing it loads neither torch nor the C library.
"""

__version__ = "0.1.0"

_PLACES = {"AllocatorCache": "dlo.cache", "Client": "dlo.client", "Answer": "dlo.client",
           "DloError": "dlo.client", "LibraryError": "dlo._library", "SettingError": "dlo.settings"}
__all__ = ["__version__", *_PLACES]


def __getattr__(name):
    if name not in _PLACES:
        raise AttributeError(f"module 'dlo' has no attribute {name!r}")
    import importlib

    return getattr(importlib.import_module(_PLACES[name]), name)
