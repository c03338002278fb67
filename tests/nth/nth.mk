# SPDX-License-Identifier: Apache-2.0
#
# Every Nth allocation and every Nth I/O fails: one program for each part.
# -fno-builtin: a malloc that is not used is not left out.

NTH_NAMES := core
NTH_OBJ := $(call obj,tests/nth/nth.c tests/nth/left.c)
NTH_LDFLAGS := -rdynamic
NTH_SRC_core := $(addprefix tests/nth/,nth_core.c world.c calls.c)
NTH_WITH_core := $(O)/testable.a

$(O)/tests/nth/%.o: BASE_CFLAGS += -fno-builtin

define NTH_RULE
$(O)/tests/nth/nth_$(1): $(call obj,$(NTH_SRC_$(1))) $(NTH_OBJ) \
		$(NTH_WITH_$(1))
	$$(call say,LD,$$@)$(CC) $(BASE_LDFLAGS) $(NTH_LDFLAGS) $$^ \
		$(TEST_LIBS) -ldl -o $$@
endef
$(foreach n,$(NTH_NAMES),$(eval $(call NTH_RULE,$(n))))

NTH_PROGRAMS := $(addprefix $(O)/tests/nth/nth_,$(NTH_NAMES))

tests: $(NTH_PROGRAMS)

.PHONY: nth check-nth
nth: $(NTH_PROGRAMS)
check-nth: nth
	$(Q)bad=0; for n in $(NTH_NAMES); do echo "nth_$$n:"; \
		$(O)/tests/nth/nth_$$n || bad=1; done; exit $$bad
