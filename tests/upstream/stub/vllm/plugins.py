# SPDX-License-Identifier: Apache-2.0
def load_general_plugins():
    """vLLM's own plugins: none here."""
