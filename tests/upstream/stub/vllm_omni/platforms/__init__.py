# SPDX-License-Identifier: Apache-2.0
"""A stand-in for vllm_omni.platforms: every entry fails until a test replaces it."""


class Platform:
    def _missing(self, *_arguments, **_named):
        raise NotImplementedError("no device behind this platform")

    Stream = Event = current_stream = stream = _missing
    empty_cache = synchronize = get_device_memory = _missing


current_omni_platform = Platform()
