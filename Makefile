# SPDX-License-Identifier: Apache-2.0
# `make help` lists the targets. Everything is built below $(BUILD); the sources of a part are all
# the .c files of its folder, so a new file needs no line here. What is built of what stands in
# tests/make/objects.mk, the tests and checks in checks.mk, installing in install.mk; packages.mk
# gets what a fresh machine lacks.

VERSION := 0.1.0
BUILD   ?= build
CFLAGS  ?= -O2 -g
ifeq ($(origin CC),default)
CC := gcc
endif

WARN := -Wall -Wextra -Wconversion -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wvla -Wundef \
        -Wformat=2 -Werror
HARD := -fstack-protector-strong
ifeq (,$(SANITIZE))
HARD += -D_FORTIFY_SOURCE=2
else ifeq (,$(findstring clang,$(CC)))
# gcc sees less of the values through its own instrumentation
WARN += -Wno-format-truncation -Wno-maybe-uninitialized
endif
# -ffp-contract=off: the three products of the policy are products of doubles on every CPU
BASE := -std=gnu11 -D_GNU_SOURCE -ffp-contract=off -DDLO_VERSION='"$(VERSION)"' $(SANITIZE)
INC  := -I. -Iclient/include -I$(BUILD)/gen
# The library is made of position independent code with hidden symbols, and so is all it shares.
ALL_CFLAGS  = $(BASE) $(CFLAGS) $(WARN) $(HARD) -fPIC -fvisibility=hidden $(INC) $(CPPFLAGS)
ALL_LDFLAGS = $(SANITIZE) -pie -Wl,-z,relro,-z,now $(LDFLAGS)

# As many jobs as cores, unless told.
ifeq ($(MAKELEVEL)$(filter -j%,$(MAKEFLAGS))$(findstring jobserver,$(MAKEFLAGS)),0)
MAKEFLAGS += -j$(shell nproc 2>/dev/null || echo 1)
endif

.DEFAULT_GOAL := all
.DELETE_ON_ERROR:
include tests/make/packages.mk
include tests/make/objects.mk
include tests/make/checks.mk
include tests/make/install.mk

.PHONY: all
all: $(BUILD)/dlod $(BUILD)/dlo-ctl $(BUILD)/libdlo-client.so.0 $(BUILD)/libdlo-client.a \
     $(BUILD)/libdlo-client-cuda.so.0 $(BUILD)/libdlo-client-cuda.a ## build the daemon, dlo-ctl and the library (the default)

.PHONY: clean
clean: ## remove everything built
	rm -rf $(BUILD)

.PHONY: help
help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  %-16s %s\n", $$1, $$2 }' $(filter-out %.d,$(MAKEFILE_LIST))
	@echo
	@echo "  Variables: BUILD=$(BUILD) CC=$(CC) CFLAGS='$(CFLAGS)' SANITIZE= DESTDIR= PREFIX=$(PREFIX)"
	@echo "  NO_INSTALL=1 says what packages are missing instead of installing them."
