# SPDX-License-Identifier: Apache-2.0
# packages-GROUP gets the Debian packages of a group (tests/make/packages.sh names them). They are
# order-only prerequisites: a look costs 10 ms and rebuilds nothing.

PACKAGE_GROUPS := test format analyze clang fuzz valgrind shell
.PHONY: packages-build $(addprefix packages-,$(PACKAGE_GROUPS))

packages-build:
	@tests/make/packages.sh build

# One after the other: two apt-get would wait for each other's lock.
$(addprefix packages-,$(PACKAGE_GROUPS)): packages-%: | packages-build
	@tests/make/packages.sh $*
