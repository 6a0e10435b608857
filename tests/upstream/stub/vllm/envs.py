# SPDX-License-Identifier: Apache-2.0
import os

VLLM_PLUGINS = os.environ["VLLM_PLUGINS"].split(",") if "VLLM_PLUGINS" in os.environ else None
