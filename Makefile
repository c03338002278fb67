# SPDX-License-Identifier: Apache-2.0
#
# One makefile; each room lists its sources in its build.mk. Outputs go to
# build/ (or O=). V=1 shows commands. SAN=address,undefined or SAN=thread
# builds with sanitizers into build-address-undefined/ or build-thread/.

VERSION := 0.1.0

SAN ?=
O ?= $(if $(SAN),build-$(subst $(comma),-,$(SAN)),build)
comma := ,
# spelled in one way, for dependencies are files by name
override O := $(patsubst $(CURDIR)/%,%,$(abspath $(O)))
CC := gcc
CFLAGS ?= -O2 -g
PREFIX ?= /usr/local
WERROR := $(if $(CI),-Werror)

BASE_CFLAGS := -std=gnu11 -D_GNU_SOURCE=1 -Wall -Wextra -Wshadow -Wvla \
	-Wmissing-prototypes -fno-strict-aliasing -fPIC $(WERROR) \
	-DFLUXONKV_VERSION='"$(VERSION)"' \
	-Idaemon -Iinclude -Iinclude/uapi -Itools -Itools/lib
ifneq ($(SAN),)
BASE_CFLAGS += -fsanitize=$(SAN) -fno-omit-frame-pointer
BASE_LDFLAGS += -fsanitize=$(SAN)
ifneq ($(findstring undefined,$(SAN)),)
BASE_CFLAGS += -fno-sanitize-recover=undefined
endif
ifneq ($(findstring thread,$(SAN)),)
BASE_CFLAGS += -Wno-tsan
endif
endif

Q := $(if $(V),,@)
say = $(if $(V),,@printf '  %-7s %s\n' '$(1)' '$(patsubst $(O)/%,%,$(2))';)

.PHONY: all
all: daemon lib tools demo-program

include daemon/build.mk
include tools/build.mk
include packaging/build.mk
include tests/build.mk
include tests/model/model.mk
include tests/fuzz/fuzz.mk
include tests/nth/nth.mk
include tests/sim/sim.mk

$(O)/%.o: %.c
	@mkdir -p $(@D)
	$(call say,CC,$@)$(CC) $(BASE_CFLAGS) $(CFLAGS) $(CPPFLAGS) -MMD -MP \
		-c $< -o $@

# Not what guests and modules are made from, which has other files of that name.
-include $(shell find $(O) \( -path $(O)/vm -o -path $(O)/module \) -prune \
	-o -type f -name '*.d' -print 2>/dev/null)

.PHONY: deps
deps:
	@tests/tools/install-deps

.PHONY: demo
demo: deps
	$(Q)$(MAKE) --no-print-directory all
	$(Q)tests/e2e/demo $(O)

# The same by the kernel module, in a guest.
.PHONY: demo-vm
demo-vm:
	@tests/tools/install-deps vm
	$(Q)$(MAKE) --no-print-directory all $(O)/tests/e2e/story
	$(Q)tests/vm/demo-vm $(O)

# A master and three owners, each in a network namespace.
.PHONY: demo-cluster
demo-cluster:
	@tests/tools/install-deps cluster
	$(Q)$(MAKE) --no-print-directory all
	$(Q)tests/e2e/demo-cluster $(O)

# All processors build, unless make was told how many.
check_make = $(MAKE) --no-print-directory \
	$(if $(findstring jobserver,$(MAKEFLAGS)),,-j$$(nproc))

# VMCHECK=none leaves the module's guests out, for who runs all of vm-check.
VMCHECK ?= quick

.PHONY: check
check:
	@tests/tools/install-deps check vm
	$(Q)+$(check_make) all tests
	$(Q)+$(check_make) SAN=address,undefined all tests
	$(Q)+$(check_make) SAN=thread all tests
	$(Q)tests/tools/run-tests build build-address-undefined build-thread
	$(if $(filter none,$(VMCHECK)),,$(Q)tests/vm/vm-check build $(VMCHECK))

# The kernel module in guests with Debian's kernels, with its tests and a daemon:
# what check runs of it, all of it, and all under KASAN, lockdep and kmemleak.
.PHONY: vm-check-quick vm-check vm-check-debug
vm-check-quick vm-check vm-check-debug:
	@tests/tools/install-deps check vm
	$(Q)+$(check_make) all tests
	$(Q)$($(subst -,_,$@)_run)

vm_check_quick_run = tests/vm/vm-check $(O) quick
vm_check_run = tests/vm/vm-check $(O) full
vm_check_debug_run = tests/vm/debug-check $(O)

# Static checks, kept at zero.
.PHONY: lint
lint:
	@tests/tools/install-deps lint
	$(Q)$(MAKE) --no-print-directory all
	$(Q)O=$(O) tests/tools/lint

# Eviction policies on TRACE, requests in JSON lines, without a daemon; those of
# the public conversation trace are held against known shares of hits.
.PHONY: policy-sim
policy-sim: deps
	$(Q)$(MAKE) --no-print-directory $(O)/tests/tools/policy-sim
	$(Q)test -n "$(TRACE)" || { echo "make policy-sim TRACE=FILE"; exit 2; }
	$(Q)$(O)/tests/tools/policy-sim --check "$(TRACE)"

# Lines and branches by gcov, with the limits that core and wire keep.
.PHONY: coverage
coverage: deps
	$(Q)tests/tools/coverage build-coverage

.PHONY: clean
clean:
	rm -rf build build-address-undefined build-thread build-coverage
