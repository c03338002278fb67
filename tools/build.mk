# SPDX-License-Identifier: Apache-2.0

LIB_SRC := $(addprefix tools/lib/, keep.c body.c calls_get.c calls_meta.c \
	calls_put.c client.c conn.c errors.c fork.c held.c hello.c pins.c)
LIB_OBJ := $(call obj,$(LIB_SRC))

.PHONY: lib tools
lib: $(O)/libfluxonkv.so.0 $(O)/libfluxonkv.so $(O)/libfluxonkv.a \
	$(O)/fluxonkv.pc

$(O)/libfluxonkv.so.0: $(LIB_OBJ) tools/lib/libfluxonkv.map
	$(call say,LD,$@)$(CC) $(BASE_LDFLAGS) $(LDFLAGS) -shared \
		-Wl,--version-script=tools/lib/libfluxonkv.map \
		-Wl,-soname,libfluxonkv.so.0 $(LIB_OBJ) -o $@

$(O)/libfluxonkv.so: $(O)/libfluxonkv.so.0
	@ln -sf libfluxonkv.so.0 $@

$(O)/libfluxonkv.a: $(LIB_OBJ)
	$(call say,AR,$@)rm -f $@ && ar rcs $@ $^

# Made each time: it depends on PREFIX.
.PHONY: $(O)/fluxonkv.pc
$(O)/fluxonkv.pc: tools/lib/fluxonkv.pc.in
	@mkdir -p $(@D)
	@sed -e 's|@PREFIX@|$(PREFIX)|; s|@LIBDIR@|$(PREFIX)/lib|' \
		-e 's|@INCLUDEDIR@|$(PREFIX)/include|; s|@VERSION@|$(VERSION)|' \
		$< > $@

tools: $(O)/fluxonkvctl $(O)/fluxonkv-bench

BENCH_SRC := $(wildcard tools/bench/*.c)
CTL_SRC := $(wildcard tools/ctl/*.c)

$(O)/fluxonkv-bench: $(call obj,$(BENCH_SRC)) $(O)/libfluxonkv.a
	$(call say,LD,$@)$(CC) $(BASE_LDFLAGS) $(LDFLAGS) $^ -lsodium -ljson-c \
		-lm -lpthread -o $@

$(O)/fluxonkvctl: $(call obj,$(CTL_SRC)) $(O)/libfluxonkv.a
	$(call say,LD,$@)$(CC) $(BASE_LDFLAGS) $(LDFLAGS) $^ -ljson-c \
		-lpthread -o $@

DESTDIR ?=
MAN_PAGES := $(wildcard Documentation/man/*.[1-8])
# Each call of a page's NAME line: "call.3:page.3".
MAN_ALIASES = $(shell for m in Documentation/man/*.3; do p=$$(basename $$m); \
	sed -n '/^.SH NAME/{n;s/ *\\-.*//;s/,/ /g;p;q}' $$m | tr ' ' '\n' | \
	sed -n "s/^\(fluxonkv_[a-z_]*\)$$/\1.3:$$p/p" | grep -v "^$$p:"; done)
INSTALL_FILES = $(PREFIX)/sbin/fluxonkvd $(PREFIX)/sbin/fluxonkvctl \
	$(PREFIX)/bin/fluxonkv-bench $(PREFIX)/include/fluxonkv.h \
	$(PREFIX)/include/linux/fluxonkv.h $(PREFIX)/lib/libfluxonkv.a \
	$(PREFIX)/lib/libfluxonkv.so $(PREFIX)/lib/libfluxonkv.so.0 \
	$(PREFIX)/lib/pkgconfig/fluxonkv.pc \
	$(PREFIX)/lib/systemd/system/fluxonkvd.service \
	$(PREFIX)/share/bash-completion/completions/fluxonkvctl \
	$(foreach m,$(MAN_PAGES),$(PREFIX)/share/man/man$(subst .,,$(suffix $(m)))/$(notdir $(m))) \
	$(foreach a,$(MAN_ALIASES),$(PREFIX)/share/man/man3/$(firstword $(subst :, ,$(a))))

.PHONY: install uninstall
install: all
	install -Dm755 $(O)/fluxonkvd $(DESTDIR)$(PREFIX)/sbin/fluxonkvd
	install -Dm755 $(O)/fluxonkvctl $(DESTDIR)$(PREFIX)/sbin/fluxonkvctl
	install -Dm755 $(O)/fluxonkv-bench \
		$(DESTDIR)$(PREFIX)/bin/fluxonkv-bench
	install -Dm644 include/fluxonkv.h \
		$(DESTDIR)$(PREFIX)/include/fluxonkv.h
	install -Dm644 include/uapi/linux/fluxonkv.h \
		$(DESTDIR)$(PREFIX)/include/linux/fluxonkv.h
	install -Dm644 $(O)/libfluxonkv.a $(DESTDIR)$(PREFIX)/lib/libfluxonkv.a
	install -Dm755 $(O)/libfluxonkv.so.0 \
		$(DESTDIR)$(PREFIX)/lib/libfluxonkv.so.0
	ln -sf libfluxonkv.so.0 $(DESTDIR)$(PREFIX)/lib/libfluxonkv.so
	install -Dm644 $(O)/fluxonkv.pc \
		$(DESTDIR)$(PREFIX)/lib/pkgconfig/fluxonkv.pc
	install -d $(DESTDIR)$(PREFIX)/lib/systemd/system
	sed 's|@SBIN@|$(PREFIX)/sbin|' tools/fluxonkvd.service.in \
		> $(DESTDIR)$(PREFIX)/lib/systemd/system/fluxonkvd.service
	install -Dm644 tools/ctl/fluxonkvctl.bash \
		$(DESTDIR)$(PREFIX)/share/bash-completion/completions/fluxonkvctl
	for m in $(MAN_PAGES); do \
		install -Dm644 $$m $(DESTDIR)$(PREFIX)/share/man/man$${m##*.}/$${m##*/} \
		|| exit 1; done
	for a in $(MAN_ALIASES); do \
		ln -sf $${a#*:} $(DESTDIR)$(PREFIX)/share/man/man3/$${a%:*} \
		|| exit 1; done

uninstall:
	rm -f $(addprefix $(DESTDIR),$(INSTALL_FILES))
