# SPDX-License-Identifier: Apache-2.0
"""A stand-in for vllm: what vLLM-Omni's offloader and plugin loader need of it."""
