# SPDX-License-Identifier: Apache-2.0
"""A stand-in: the names that vLLM-Omni has for the device, over the stand-in for torch."""
import torch


class Platform:
    def get_device_memory(self, device):
        return torch.cuda.mem_get_info(device)

    def empty_cache(self):
        torch.cuda.empty_cache()


current_omni_platform = Platform()
