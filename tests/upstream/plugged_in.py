# SPDX-License-Identifier: Apache-2.0
"""pytest plugin: switched on by vLLM-Omni's own plugin loader and nothing else."""
import sys

from vllm_omni.plugins import load_omni_general_plugins

NAME = "vllm_omni.diffusion.offloader.module_residency"
assert NAME not in sys.modules
load_omni_general_plugins()
assert NAME not in sys.modules, "the plugin must not import the offloader"
import vllm_omni.diffusion.offloader.module_residency as residency  # noqa: E402

assert "_dlo_patched" in vars(residency.BoundedAllocatorCache), "the class is not patched"
