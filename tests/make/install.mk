# SPDX-License-Identifier: Apache-2.0
# make install DESTDIR=... PREFIX=...

PREFIX ?= /usr/local
# below PREFIX; with the multiarch folder where the compiler names one
LIBDIR ?= lib$(addprefix /,$(shell $(CC) -print-multiarch 2>/dev/null))
ROOT    = $(DESTDIR)$(PREFIX)

.PHONY: install
install: all ## install below DESTDIR, PREFIX (/usr/local), with headers and a pkg-config file
	install -d $(ROOT)/sbin $(ROOT)/bin $(ROOT)/include/dlo $(ROOT)/$(LIBDIR)/pkgconfig
	install -m 755 $(BUILD)/dlod $(ROOT)/sbin/dlod
	install -m 755 $(BUILD)/dlo-ctl $(ROOT)/bin/dlo-ctl
	install -m 644 client/include/dlo/*.h $(ROOT)/include/dlo
	for l in libdlo-client libdlo-client-cuda; do \
	    install -m 644 $(BUILD)/$$l.so.0 $(ROOT)/$(LIBDIR)/$$l.so.0 && \
	    ln -sf $$l.so.0 $(ROOT)/$(LIBDIR)/$$l.so && \
	    install -m 644 $(BUILD)/$$l.a $(ROOT)/$(LIBDIR)/$$l.a && \
	    sed -e 's|@PREFIX@|$(PREFIX)|g' -e 's|@LIBDIR@|$(LIBDIR)|g' -e 's|@VERSION@|$(VERSION)|g' \
	        client/*/$$l.pc.in >$(ROOT)/$(LIBDIR)/pkgconfig/$$l.pc || exit 1; done
