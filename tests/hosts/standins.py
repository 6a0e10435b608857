# SPDX-License-Identifier: Apache-2.0
"""What a machine without a GPU and without vLLM lacks: figures of a device, and the few names of vLLM that
vLLM-Omni's offloader and plugin loader use. The packages themselves are the released ones."""
import contextlib
import importlib.util
import logging
import os
import sys
import types
from collections import Counter

calls = Counter()
figures = {"reserved": 0, "allocated": 0, "free": 80, "total": 400}


def holding(cached, allocated=10):
    figures.update(reserved=cached + allocated, allocated=allocated)


def equal(got, expected):
    if got != expected:
        raise AssertionError(f"expected {expected!r}, got {got!r}")


def _package(name, path):
    """A package whose __init__ is not run, with the released modules in it."""
    package = types.ModuleType(name)
    package.__path__ = [path]
    sys.modules[name] = package
    return package


class Stream:
    def wait_stream(self, _stream):
        pass

    def wait_event(self, _event):
        pass


class Event:
    def record(self, _stream):
        pass


class Platform:
    """The device of vLLM-Omni's platform."""

    Stream, Event, current_stream = Stream, Event, Stream

    def stream(self, _stream):
        return contextlib.nullcontext()

    def synchronize(self):
        calls["synchronize"] += 1

    def get_device_memory(self, _device):
        return figures["free"], figures["total"]

    def empty_cache(self):
        calls["empty_cache"] += 1
        figures["reserved"] = figures["allocated"]


def omni():
    """Makes the released vllm_omni importable here."""
    root = importlib.util.find_spec("vllm_omni").submodule_search_locations[0]
    _package("vllm_omni", root)
    _package("vllm_omni.diffusion", os.path.join(root, "diffusion"))
    _package("vllm_omni.diffusion.offloader", os.path.join(root, "diffusion", "offloader"))
    platforms = types.ModuleType("vllm_omni.platforms")
    platforms.current_omni_platform = Platform()
    sys.modules["vllm_omni.platforms"] = platforms
    vllm = _package("vllm", "/nonexistent")
    for name, members in (("logger", {"init_logger": logging.getLogger}),
                          ("envs", {"VLLM_PLUGINS": None}),
                          ("plugins", {"load_general_plugins": lambda: None})):
        module = types.ModuleType(f"vllm.{name}")
        vars(module).update(members)
        sys.modules[f"vllm.{name}"] = module
        setattr(vllm, name, module)


def cuda(torch):
    """Lets the released torch tell of a CUDA device that is not there."""
    def nested(_device=None):
        calls["statistics"] += 1
        return {"reserved_bytes": {"all": {"current": figures["reserved"]}},
                "allocated_bytes": {"all": {"current": figures["allocated"]}}}

    torch.cuda.is_initialized = lambda: True
    torch.cuda.device_count = lambda: 1
    torch.cuda.memory_stats_as_nested_dict = nested
    torch.cuda.mem_get_info = lambda _device=None: (figures["free"], figures["total"])
    torch.cuda.empty_cache = Platform().empty_cache
