# SPDX-License-Identifier: Apache-2.0
# `make help` lists the targets. Everything is built below $(BUILD); the sources of a part are all
# the .c files of its folder, so a new file needs no line here.

VERSION := 0.1.0
BUILD   ?= build
PREFIX  ?= /usr
CC      ?= gcc
CFLAGS  ?= -O2 -g
# multiarch folder, "lib" where the compiler names none
LIBDIR  ?= lib$(addprefix /,$(shell $(CC) -print-multiarch 2>/dev/null))

WARN := -Wall -Wextra -Wconversion -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wvla -Wundef \
        -Wformat=2 -Werror
HARD := -fstack-protector-strong -fPIE
ifeq (,$(SANITIZE))
HARD += -D_FORTIFY_SOURCE=2
endif
# -ffp-contract=off: the three products of the policy are products of doubles on every CPU
BASE := -std=gnu11 -D_GNU_SOURCE -ffp-contract=off -DDLO_VERSION='"$(VERSION)"' $(SANITIZE)
INC  := -I. -Iclient/include -I$(BUILD)/gen
ALL_CFLAGS  = $(BASE) $(CFLAGS) $(WARN) $(HARD) $(INC) $(CPPFLAGS)
ALL_LDFLAGS = $(SANITIZE) -pie -Wl,-z,relro,-z,now $(LDFLAGS)

.DEFAULT_GOAL := all
include tests/make/packages.mk
include tests/make/objects.mk
include tests/make/checks.mk

.PHONY: all
all: $(BUILD)/dlod $(BUILD)/dlo-ctl $(BUILD)/libdlo-client.so.0 $(BUILD)/libdlo-client.a ## build everything
