# SPDX-License-Identifier: Apache-2.0
"""What the integration tests share: wire.py speaks the protocol, harness.py and h3.py run the programs,
runner.py runs the tests of a file."""
