# SPDX-License-Identifier: Apache-2.0
"""pytest plugin: our class stands in the place of vLLM-Omni's."""
import vllm_omni.diffusion.offloader.module_residency as residency

import dlo

residency.BoundedAllocatorCache = dlo.AllocatorCache
