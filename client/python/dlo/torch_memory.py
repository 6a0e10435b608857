# SPDX-License-Identifier: Apache-2.0
"""What torch knows about memory, read at call time and never fatal.

Everything is looked up anew at each call: hosts and their tests replace these functions. No call
initialises a device; None is what cannot be read. KeyboardInterrupt and SystemExit pass.
"""
import os
import sys


def _torch():
    return sys.modules.get("torch") or __import__("torch")


def _backend(device):
    """(torch.cuda or torch.xpu, torch.device) where that backend is initialised, else (None, device)."""
    torch = _torch()
    device = torch.device(device) if isinstance(device, (str, int)) else device
    backend = getattr(torch, getattr(device, "type", "cuda"), None)
    is_initialized = getattr(backend, "is_initialized", None)
    return (backend if is_initialized and is_initialized() else None), device


def read_allocator(device):
    """(reserved, allocated) in bytes, or (None, None).

    One read of the nested statistics: the two flattened ones of torch.accelerator cost ten times as
    much. Where the backend has none, the two calls of torch.accelerator."""
    try:
        backend, device = _backend(device)
        nested = getattr(backend, "memory_stats_as_nested_dict", None)
        stats = nested(device) if nested else None
        if stats:
            return (stats["reserved_bytes"]["all"]["current"],
                    stats["allocated_bytes"]["all"]["current"])
        accelerator = _torch().accelerator
        return int(accelerator.memory_reserved(device)), int(accelerator.memory_allocated(device))
    except Exception:  # a pluggable allocator throws here for ever: R6
        return None, None


def read_device_memory(device):
    """(free, total) in bytes as this process sees them, or (None, None). On a device whose memory is
    the host's, free is what the kernel could give (R11b)."""
    try:
        backend, device = _backend(device)
        free, total = backend.mem_get_info(device)
        return correct_host_memory(device, free, total), total
    except Exception:
        return None, None


def correct_host_memory(device, free, total):
    """free, or on a device whose memory is the host's what the kernel could give (R11b)."""
    try:
        backend, device = _backend(device)
        if backend.get_device_properties(device).is_integrated:
            from dlo import _library

            return _library.load().dlo_host_memory_free(free, total)
    except Exception:
        pass
    return free


def empty_cache(device):
    """Empties torch's cache, on every device of the process, as torch does. What it raises passes."""
    torch = _torch()
    backend = getattr(torch, getattr(torch.device(device) if isinstance(device, (str, int)) else device,
                                     "type", "cuda"), None)
    (backend if hasattr(backend, "empty_cache") else torch.accelerator).empty_cache()


def is_ready(device):
    """Is the device's backend initialised, so that its UUID can be read?"""
    try:
        return _backend(device)[0] is not None
    except Exception:
        return False


def device_uuid(device):
    """"GPU-..." or "MIG-...", None where it is not known (yet). Never initialises CUDA."""
    try:
        backend, device = _backend(device)
        uuid = str(backend.get_device_properties(device).uuid)
        if uuid.startswith(("GPU-", "MIG-")):
            return uuid
        is_instance = os.environ.get("CUDA_VISIBLE_DEVICES", "").startswith("MIG-")
        return ("MIG-" if is_instance else "GPU-") + uuid
    except Exception:
        return None


def is_async(device):
    """Is the cache of that device the driver's default pool (backend cudaMallocAsync)?"""
    try:
        backend, _ = _backend(device)
        return backend.get_allocator_backend() == "cudaMallocAsync"
    except Exception:
        return False


def ordinal(device):
    """Its number in this process."""
    backend, device = _backend(device)
    return backend.current_device() if device.index is None else device.index
