# SPDX-License-Identifier: Apache-2.0
"""What the integration tests share: wire.py speaks the protocol, harness.py runs the programs,
runner.py runs the tests of a file."""
