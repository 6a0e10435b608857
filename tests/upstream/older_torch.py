# SPDX-License-Identifier: Apache-2.0
"""pytest plugin: makes an older torch (Debian's) look enough like the one that vLLM-Omni's tests want.
Does nothing where the real thing is there."""
import importlib
import sys
import types

import torch


def _absent(name):
    def call(*_arguments, **_named):
        raise NotImplementedError(f"torch.accelerator.{name}: no accelerator")

    return call


def _make():
    if not hasattr(torch.Tensor, "untyped_storage"):
        torch.Tensor.untyped_storage = torch.Tensor._storage
    if not hasattr(torch, "OutOfMemoryError"):
        torch.OutOfMemoryError = torch.cuda.OutOfMemoryError
    if not hasattr(torch, "accelerator"):
        accelerator = types.ModuleType("torch.accelerator")
        for name in ("memory_reserved", "memory_allocated", "empty_cache", "synchronize"):
            setattr(accelerator, name, _absent(name))
        torch.accelerator = sys.modules["torch.accelerator"] = accelerator
    try:
        importlib.import_module("torch.distributed.tensor")
    except ModuleNotFoundError:
        tensor = types.ModuleType("torch.distributed.tensor")
        tensor.DTensor = type("DTensor", (torch.Tensor,), {})
        torch.distributed.tensor = sys.modules["torch.distributed.tensor"] = tensor


_make()


def pytest_configure(config):
    for mark in ("diffusion", "cpu", "core_model"):
        config.addinivalue_line("markers", f"{mark}: a marker of vLLM-Omni's")
