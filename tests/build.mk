# SPDX-License-Identifier: Apache-2.0
#
# A unit test is tests/unit/test_NAME.c, linked with all that is under test.

TEST_NAMES := $(patsubst tests/unit/test_%.c,%,$(wildcard tests/unit/test_*.c))
TEST_LIBS := $(shell pkg-config --libs check 2>/dev/null) $(DAEMON_LIBS) \
	-lm -lseccomp -lxxhash
SVC_TEST_OBJ := $(filter-out $(O)/daemon/svc/main.o,$(SVC_OBJ))
TESTABLE := $(BASE_OBJ) $(WIRE_OBJ) $(CORE_OBJ) $(IO_OBJ) $(SVC_TEST_OBJ)

.PHONY: tests
tests: daemon lib tools $(addprefix $(O)/tests/unit/test_,$(TEST_NAMES)) $(O)/tests/e2e/demo \
	$(O)/tests/tools/policy-sim $(O)/tests/tools/cheat $(O)/tests/sim/sim $(O)/tests/sim/cluster/cluster $(addprefix $(O)/tests/e2e/,story badinput launch stress field service) \
	$(O)/tests/conformance/conformance

$(O)/testable.a: $(TESTABLE)
	@rm -f $@ && ar rcs $@ $^

# The library's and the tools' sources have names of their own: not all fit
# beside the daemon's in one program.
$(O)/tests/unit/test_lib_%: $(O)/tests/unit/test_lib_%.o $(LIB_OBJ)
	$(call say,LD,$@)$(CC) $(BASE_LDFLAGS) $^ $(TEST_LIBS) -o $@

$(O)/tests/unit/test_bench_%: $(O)/tests/unit/test_bench_%.o \
		$(addprefix $(O)/tools/bench/,zipf.o payload.o hist.o args.o)
	$(call say,LD,$@)$(CC) $(BASE_LDFLAGS) $^ $(TEST_LIBS) -o $@

$(O)/tests/unit/test_ctl_%: $(O)/tests/unit/test_ctl_%.o \
		$(addprefix $(O)/tools/ctl/,escape.o message.o table.o)
	$(call say,LD,$@)$(CC) $(BASE_LDFLAGS) $^ $(TEST_LIBS) -ljson-c \
		-lnl-genl-3 -lnl-3 -o $@

# kmod's pure files, in user space: tests/kmod/shim has what they include.
KMOD_SHIM := -Itests/kmod/shim
KMOD_SRC := $(addprefix kmod/,extent.c body.c holder.c index.c hit.c \
	call_get.c) \
	tests/kmod/fake.c tests/kmod/gets.c tests/kmod/shim/shim.c

# In the kernel's style: callbacks without all arguments, mixed signs.
$(O)/kmod/%.o: BASE_CFLAGS += $(KMOD_SHIM) -Wno-unused-parameter \
	-Wno-sign-compare
$(O)/tests/kmod/%.o $(O)/tests/unit/test_kmod_%.o: BASE_CFLAGS += \
	$(KMOD_SHIM) -Ikmod -Itests/kmod -Wno-unused-parameter

$(O)/tests/kmod/kmod.a: $(call obj,$(KMOD_SRC))
	@rm -f $@ && ar rcs $@ $^

$(O)/tests/unit/test_kmod_%: $(O)/tests/unit/test_kmod_%.o \
		$(O)/tests/kmod/kmod.a
	$(call say,LD,$@)$(CC) $(BASE_LDFLAGS) $^ $(TEST_LIBS) -o $@

# Both halves of the handshake, the daemon's as text.
$(O)/tests/unit/test_pin_stress: $(O)/tests/unit/test_pin_stress.o \
		$(call obj,tools/lib/pins.c tools/lib/errors.c) $(O)/testable.a
	$(call say,LD,$@)$(CC) $(BASE_LDFLAGS) $^ $(TEST_LIBS) -o $@

# What several tests share: sources beside them that are no test.
SUPPORT_SRC := $(filter-out tests/unit/test_%.c,$(wildcard tests/unit/*.c))

$(O)/tests/unit/support.a: $(call obj,$(SUPPORT_SRC))
	@rm -f $@ && ar rcs $@ $^

$(O)/tests/unit/test_%: $(O)/tests/unit/test_%.o $(O)/tests/unit/support.a \
		$(O)/testable.a
	$(call say,LD,$@)$(CC) $(BASE_LDFLAGS) $^ $(TEST_LIBS) -o $@

$(O)/tests/e2e/launch: $(O)/tests/e2e/launch.o
	$(call say,LD,$@)$(CC) $(BASE_LDFLAGS) $^ -lseccomp -o $@

$(O)/tests/e2e/%: $(O)/tests/e2e/%.o $(O)/libfluxonkv.a
	$(call say,LD,$@)$(CC) $(BASE_LDFLAGS) $^ -lpthread -o $@

# The API's definition: the same program at every address.
$(O)/tests/conformance/%.o: BASE_CFLAGS += -Itests

$(O)/tests/conformance/conformance: \
		$(call obj,$(wildcard tests/conformance/*.c)) \
		$(O)/libfluxonkv.a
	$(call say,LD,$@)$(CC) $(BASE_LDFLAGS) $^ -lpthread -o $@

$(O)/tests/tools/cheat: $(O)/tests/tools/cheat.o $(O)/libfluxonkv.a
	$(call say,LD,$@)$(CC) $(BASE_LDFLAGS) $^ -lpthread -o $@

POLICY_SIM_SRC := tests/tools/policy-sim.c $(wildcard tests/tools/policies/*.c)

$(O)/tests/tools/policy-sim: $(call obj,$(POLICY_SIM_SRC)) $(O)/testable.a
	$(call say,LD,$@)$(CC) $(BASE_LDFLAGS) $^ $(TEST_LIBS) -o $@

SIM_SRC := $(wildcard tests/sim/*.c)

$(O)/tests/sim/sim: $(call obj,$(SIM_SRC)) $(BASE_OBJ) $(WIRE_OBJ) $(CORE_OBJ)
	$(call say,LD,$@)$(CC) $(BASE_LDFLAGS) $^ $(WIRE_LIBS) -lpthread -o $@

.SECONDARY:

.PHONY: demo-program
demo-program: $(O)/tests/e2e/demo
