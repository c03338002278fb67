# SPDX-License-Identifier: Apache-2.0
#
# Installing: DESTDIR= goes before every path, PREFIX= and the folders below
# say where things live afterwards. SYSLIB is where systemd and udev look; of
# theirs only those below /usr/lib, /usr/local/lib and /etc are read.

DESTDIR ?=
SBINDIR ?= $(PREFIX)/sbin
BINDIR ?= $(PREFIX)/bin
LIBDIR ?= $(PREFIX)/lib
INCLUDEDIR ?= $(PREFIX)/include
DATADIR ?= $(PREFIX)/share
MANDIR ?= $(DATADIR)/man
DOCDIR ?= $(DATADIR)/doc/fluxonkv
SYSLIB ?= $(PREFIX)/lib
UNITDIR ?= $(SYSLIB)/systemd/system
SYSUSERSDIR ?= $(SYSLIB)/sysusers.d
UDEVRULESDIR ?= $(SYSLIB)/udev/rules.d
MODULESLOADDIR ?= $(SYSLIB)/modules-load.d
BASHDIR ?= $(DATADIR)/bash-completion/completions
ZSHDIR ?= $(DATADIR)/zsh/site-functions

# SOURCE:DESTINATION; those named .in are filled in first.
PROGRAMS := $(O)/fluxonkvd:$(SBINDIR)/fluxonkvd \
	$(O)/fluxonkvctl:$(SBINDIR)/fluxonkvctl \
	$(O)/fluxonkv-bench:$(BINDIR)/fluxonkv-bench \
	$(O)/libfluxonkv.so.0:$(LIBDIR)/libfluxonkv.so.0
MAN_PAGES := $(wildcard Documentation/man/*.[1-8])
FILES := include/fluxonkv.h:$(INCLUDEDIR)/fluxonkv.h \
	include/uapi/linux/fluxonkv.h:$(INCLUDEDIR)/linux/fluxonkv.h \
	$(O)/libfluxonkv.a:$(LIBDIR)/libfluxonkv.a \
	packaging/fluxonkv.pc.in:$(LIBDIR)/pkgconfig/fluxonkv.pc \
	packaging/systemd/fluxonkvd.service.in:$(UNITDIR)/fluxonkvd.service \
	packaging/systemd/fluxonkvd@.service.in:$(UNITDIR)/fluxonkvd@.service \
	packaging/systemd/sysusers.conf:$(SYSUSERSDIR)/fluxonkv.conf \
	packaging/systemd/udev.rules:$(UDEVRULESDIR)/60-fluxonkv.rules \
	packaging/completions/fluxonkv.bash:$(BASHDIR)/fluxonkvctl \
	packaging/completions/fluxonkv.zsh:$(ZSHDIR)/_fluxonkv \
	$(foreach d,operations.md install.md protocol.md threat-model.md \
		tracing.md fluxonkvd.conf.example,Documentation/$(d):$(DOCDIR)/$(d)) \
	$(foreach m,$(MAN_PAGES),$(m):$(MANDIR)/man$(subst .,,$(suffix $(m)))/$(notdir $(m)))

# TARGET:LINK. Each call of a page's NAME line has a link to the page.
MAN_LINKS := $(shell for m in Documentation/man/*.3; do p=$$(basename $$m); \
	sed -n '/^.SH NAME/{n;s/ *\\-.*//;s/,/ /g;p;q}' $$m | tr ' ' '\n' | \
	sed -n "s/^\(fluxonkv_[a-z_]*\)$$/$$p:\1.3/p" | grep -v ":$$p$$"; done)
LINKS := libfluxonkv.so.0:$(LIBDIR)/libfluxonkv.so \
	fluxonkvctl:$(BASHDIR)/fluxonkvd fluxonkvctl:$(BASHDIR)/fluxonkv-bench \
	$(foreach l,$(MAN_LINKS),$(subst :,:$(MANDIR)/man3/,$(l)))

FILL_IN = sed -e 's|@PREFIX@|$(PREFIX)|' -e 's|@SBINDIR@|$(SBINDIR)|' \
	-e 's|@LIBDIR@|$(LIBDIR)|' -e 's|@INCLUDEDIR@|$(INCLUDEDIR)|' \
	-e 's|@VERSION@|$(VERSION)|'

INSTALLED = $(foreach f,$(PROGRAMS) $(FILES) $(LINKS),$(DESTDIR)$(lastword $(subst :, ,$(f))))

.PHONY: install uninstall
install: daemon lib tools
	$(Q)set -e; for f in $(PROGRAMS); do \
		install -D -m 755 "$${f%%:*}" "$(DESTDIR)$${f#*:}"; done
	$(Q)set -e; for f in $(FILES); do to="$(DESTDIR)$${f#*:}"; \
		case $$f in \
		*.in:*) install -D -m 644 /dev/null "$$to"; \
			$(FILL_IN) "$${f%%:*}" >"$$to" ;; \
		*) install -D -m 644 "$${f%%:*}" "$$to" ;; \
		esac; done
	$(Q)set -e; for l in $(LINKS); do \
		ln -sf "$${l%%:*}" "$(DESTDIR)$${l#*:}"; done
	$(Q)test -n "$(DESTDIR)" || packaging/after-install \
		"$(SYSUSERSDIR)/fluxonkv.conf"

# Folders of our own go too; those that others share stay.
uninstall:
	$(Q)rm -f $(INSTALLED)
	$(Q)rmdir "$(DESTDIR)$(DOCDIR)" 2>/dev/null || true
	$(Q)test -n "$(DESTDIR)" || packaging/after-install

# The kernel module: KDIR= names the headers, else the running kernel's are
# taken. SIGN_KEY= and SIGN_CERT= sign it. User space needs none of this.
MODULE = O="$(O)" FLUXONKV_VERSION="$(VERSION)" KDIR="$(KDIR)" \
	SIGN_KEY="$(SIGN_KEY)" SIGN_CERT="$(SIGN_CERT)" packaging/module

.PHONY: modules modules-check dkms dkms-uninstall
modules:
	$(Q)$(MODULE) build

# Warnings are errors; sparse and clang have their say where there are these.
modules-check:
	$(Q)$(MODULE) check

# DKMS_SOURCE= and DKMS_TREE= stand for /usr/src and /var/lib/dkms.
dkms:
	$(Q)DKMS_SOURCE="$(DKMS_SOURCE)" DKMS_TREE="$(DKMS_TREE)" $(MODULE) dkms
	$(Q)install -D -m 644 packaging/systemd/modules-load.conf \
		"$(DESTDIR)$(MODULESLOADDIR)/fluxonkv.conf"

dkms-uninstall:
	$(Q)DKMS_SOURCE="$(DKMS_SOURCE)" DKMS_TREE="$(DKMS_TREE)" $(MODULE) \
		dkms-remove
	$(Q)rm -f "$(DESTDIR)$(MODULESLOADDIR)/fluxonkv.conf"

# What the Debian package of the module is made from.
.PHONY: install-module-source
install-module-source:
	$(Q)$(MODULE) source "$(DESTDIR)/usr/src/fluxonkv-$(VERSION)"
	$(Q)install -D -m 644 packaging/systemd/modules-load.conf \
		"$(DESTDIR)$(MODULESLOADDIR)/fluxonkv.conf"

# Packages into the build folder, from a copy: nothing is left in the tree.
.PHONY: deb deb-check
deb:
	@tests/tools/install-deps deb
	$(Q)packaging/deb "$(O)"

deb-check: deb
	$(Q)tests/tools/check-debs "$(O)/deb"
