# SPDX-License-Identifier: Apache-2.0
#
# Every Nth allocation and every Nth I/O fails: one program for each part.
# -fno-builtin: a malloc that is not used is not left out.

NTH_NAMES := core device lib config start daemon
NTH_OBJ := $(call obj,tests/nth/nth.c tests/nth/left.c)
NTH_LDFLAGS := -rdynamic
NTH_SRC_core := $(addprefix tests/nth/,nth_core.c world.c calls.c)
NTH_WITH_core := $(O)/testable.a
NTH_SRC_device := tests/nth/nth_device.c
NTH_WITH_device := $(O)/testable.a
NTH_SRC_config := tests/nth/nth_config.c
NTH_WITH_config := $(O)/testable.a
NTH_SRC_start := $(addprefix tests/nth/,nth_start.c fluxonkvd.c failcalls.c)
NTH_WITH_start := $(O)/testable.a
NTH_SRC_daemon := tests/nth/nth_daemon.c
NTH_WITH_daemon := $(O)/libfluxonkv.a
NTH_SRC_lib := tests/nth/nth_lib.c
NTH_WITH_lib := $(LIB_OBJ)

$(O)/tests/nth/%.o: BASE_CFLAGS += -fno-builtin -Itests

# A thread allocates before its sanitizer knows it: what stands before malloc
# must not be the sanitizer's, nor what stands before calls of the system.
ifneq ($(findstring thread,$(SAN)),)
$(NTH_OBJ) $(call obj,tests/nth/failcalls.c): BASE_CFLAGS := \
	$(filter-out -fsanitize=%,$(BASE_CFLAGS)) \
	-DNTH_SANITIZED -fno-builtin -Itests
endif

define NTH_RULE
$(O)/tests/nth/nth_$(1): $(call obj,$(NTH_SRC_$(1))) $(NTH_OBJ) \
		$(NTH_WITH_$(1))
	$$(call say,LD,$$@)$(CC) $(BASE_LDFLAGS) $(NTH_LDFLAGS) \
		$$(filter %.o %.a,$$^) $(TEST_LIBS) -ldl -o $$@
endef
$(foreach n,$(NTH_NAMES),$(eval $(call NTH_RULE,$(n))))

NTH_PROGRAMS := $(addprefix $(O)/tests/nth/nth_,$(NTH_NAMES))

# What is preloaded has no sanitizer, whatever the daemon has.
$(O)/tests/nth/failmalloc.so: tests/nth/failmalloc.c tests/nth/failmalloc.h
	@mkdir -p $(@D)
	$(call say,LD,$@)$(CC) -std=gnu11 -O2 -g -D_GNU_SOURCE=1 -fPIC \
		-fno-builtin -shared $< -o $@

$(O)/tests/nth/nth_daemon: $(O)/tests/nth/failmalloc.so $(O)/fluxonkvd

tests: $(NTH_PROGRAMS)

.PHONY: nth check-nth
nth: $(NTH_PROGRAMS)
check-nth: nth
	$(Q)bad=0; for n in $(NTH_NAMES); do echo "nth_$$n:"; \
		$(O)/tests/nth/nth_$$n $(O) || bad=1; done; exit $$bad
