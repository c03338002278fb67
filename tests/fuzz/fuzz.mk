# SPDX-License-Identifier: Apache-2.0
#
# A target is tests/fuzz/fuzz_NAME.c with what it reads in FUZZ_SRC_NAME. Twice
# built: by clang for libFuzzer (make fuzz), and by CC with replay.c, which runs
# the corpus (make fuzz-replay; in make check).

FUZZ_NAMES := $(patsubst tests/fuzz/fuzz_%.c,%,$(wildcard tests/fuzz/fuzz_*.c))
FUZZ_CC ?= clang
FUZZ_CFLAGS := $(filter-out -fsanitize=% -Werror,$(BASE_CFLAGS)) \
	-Itests -O1 -g -fsanitize=fuzzer-no-link,address,undefined \
	-fno-sanitize-recover=undefined -fno-omit-frame-pointer
FUZZ_RUN ?= $(FUZZ_NAMES)
MINUTES ?= 10

FUZZ_HASH := $(addprefix daemon/base/,base.c hash.c hash_avx2.c)
FUZZ_CONFIG := daemon/svc/config.c daemon/svc/config_role.c daemon/base/size.c daemon/base/base.c \
	tests/fuzz/settings.c
FUZZ_SRC_args := $(FUZZ_CONFIG) daemon/svc/args.c tests/fuzz/memfile.c
FUZZ_SRC_auth := daemon/base/base.c daemon/wire/auth.c
FUZZ_SRC_cluster := $(FUZZ_HASH) $(addprefix daemon/,base/key.c wire/cluster.c \
	wire/cluster_core.c wire/msg.c wire/pool.c wire/request.c) \
	$(CLUSTER_PB).c
FUZZ_SRC_config := $(FUZZ_CONFIG)
FUZZ_SRC_escape := tools/ctl/escape.c tools/ctl/table.c
FUZZ_SRC_http := daemon/svc/http.c daemon/base/base.c
FUZZ_SRC_kbody := kmod/body.c
FUZZ_SRC_ondisk := $(FUZZ_HASH) daemon/core/ssd/ondisk.c
FUZZ_SRC_reply := tools/lib/body.c tools/lib/errors.c
FUZZ_SRC_request := $(FUZZ_HASH) daemon/base/key.c daemon/wire/request.c \
	tools/lib/body.c tools/lib/errors.c
FUZZ_SRC_session := daemon/base/base.c daemon/wire/session.c
FUZZ_SRC_transfer := $(addprefix daemon/,base/base.c base/table.c base/timer.c \
	wire/frame.c io/transfer_chan.c io/transfer_ops.c io/transfer_sends.c \
	io/transfer_thread.c)
FUZZ_SRC_trace := tools/bench/requests.c tests/fuzz/memfile.c

FUZZ_LIBS_args := -lyaml -Wl,--wrap=fopen
FUZZ_LIBS_auth := -lsodium
FUZZ_LIBS_cluster := -lprotobuf-c
FUZZ_LIBS_config := -lyaml
FUZZ_LIBS_escape := -ljson-c
FUZZ_LIBS_http := -lpthread -Wl,--wrap=pthread_cond_timedwait
FUZZ_LIBS_transfer := -luv -lpthread
FUZZ_LIBS_trace := -ljson-c -lm -Wl,--wrap=fopen

# Texts are long where they are interesting, blocks are 4 KiB.
FUZZ_LEN_args := 512
FUZZ_LEN_auth := 2048
FUZZ_LEN_cluster := 4096
FUZZ_LEN_config := 2048
FUZZ_LEN_escape := 1024
FUZZ_LEN_http := 512
FUZZ_LEN_kbody := 4096
FUZZ_LEN_ondisk := 4097
FUZZ_LEN_reply := 4096
FUZZ_LEN_request := 4096
FUZZ_LEN_session := 2048
FUZZ_LEN_transfer := 2048
FUZZ_LEN_trace := 2048

FUZZ_DICT = $(addprefix -dict=$(CURDIR)/,$(wildcard tests/fuzz/dict/$(1).dict))

# obj of a directory: the same sources, compiled for libFuzzer
fuzz_obj = $(patsubst %.c,$(O)/fuzz/obj/%.o,$(patsubst $(O)/%,%,$(1)))

define FUZZ_RULE
$(O)/fuzz/fuzz_$(1): $(call fuzz_obj,tests/fuzz/fuzz_$(1).c $(FUZZ_SRC_$(1)))
	$$(call say,LD,$$@)$(FUZZ_CC) -fsanitize=fuzzer,address,undefined \
		$$^ $(FUZZ_LIBS_$(1)) -o $$@

$(O)/tests/fuzz/replay_$(1): $(call obj,tests/fuzz/fuzz_$(1).c \
		tests/fuzz/replay.c $(FUZZ_SRC_$(1)))
	$$(call say,LD,$$@)$(CC) $(BASE_LDFLAGS) $$^ $(FUZZ_LIBS_$(1)) -o $$@

.PHONY: fuzz-$(1)
fuzz-$(1): $(O)/fuzz/fuzz_$(1)
	@mkdir -p $(O)/fuzz/corpus/$(1)
	$$(call say,FUZZ,$(1))cd $(O)/fuzz && ./fuzz_$(1) \
		-max_total_time=$$$$(( $(MINUTES) * 60 )) \
		-max_len=$(FUZZ_LEN_$(1)) -timeout=5 -rss_limit_mb=2048 \
		-artifact_prefix=$(1)- -print_final_stats=1 \
		$(call FUZZ_DICT,$(1)) \
		corpus/$(1) $(CURDIR)/tests/fuzz/corpus/$(1) \
		>log-$(1) 2>&1 </dev/null || \
		{ tail -n 40 log-$(1); exit 1; }
	@tail -n 8 $(O)/fuzz/log-$(1) | sed -n 's/^stat::/  /p'
endef
$(foreach n,$(FUZZ_NAMES),$(eval $(call FUZZ_RULE,$(n))))

$(O)/fuzz/obj/gen/%.o: $(O)/gen/%.c
	@mkdir -p $(@D)
	$(call say,FUZZCC,$@)$(FUZZ_CC) $(FUZZ_CFLAGS) -MMD -MP -c $< -o $@

$(O)/fuzz/obj/%.o: %.c
	@mkdir -p $(@D)
	$(call say,FUZZCC,$@)$(FUZZ_CC) $(FUZZ_CFLAGS) -MMD -MP -c $< -o $@

$(O)/tests/fuzz/%.o: BASE_CFLAGS += -Itests

# The module's: with the kernel's headers of tests/kmod.
$(O)/tests/fuzz/fuzz_kbody.o: BASE_CFLAGS += $(KMOD_SHIM) -I.
$(addprefix $(O)/fuzz/obj/,kmod/body.o tests/fuzz/fuzz_kbody.o): \
	FUZZ_CFLAGS += $(KMOD_SHIM) -I. -Wno-unused-parameter

# One after the other: each may have all of a processor.
.PHONY: fuzz fuzz-compiler fuzz-programs fuzz-replays fuzz-replay
fuzz-compiler:
	@command -v $(FUZZ_CC) >/dev/null || { \
		echo "make fuzz needs clang (Debian: apt-get install clang)"; \
		exit 1; }

fuzz: fuzz-compiler $(addprefix $(O)/fuzz/fuzz_,$(FUZZ_RUN))
	@bad=; for n in $(FUZZ_RUN); do \
		$(MAKE) --no-print-directory -f $(firstword $(MAKEFILE_LIST)) \
			fuzz-$$n || bad="$$bad $$n"; \
	done; test -z "$$bad" || \
		{ echo "fuzz: see $(O)/fuzz/ for:$$bad"; exit 1; }
fuzz-programs: $(addprefix $(O)/fuzz/fuzz_,$(FUZZ_NAMES))
fuzz-replays: $(addprefix $(O)/tests/fuzz/replay_,$(FUZZ_NAMES))
fuzz-replay: fuzz-replays
	$(Q)for n in $(FUZZ_NAMES); do printf '%s: ' $$n; \
		$(O)/tests/fuzz/replay_$$n tests/fuzz/corpus/$$n || exit 1; done

tests: fuzz-replays

# The hand-made inputs again, for when a struct changes.
.PHONY: fuzz-seeds
fuzz-seeds: $(O)/tests/fuzz/seeds
	$(Q)$< tests/fuzz/corpus

$(O)/tests/fuzz/seeds: $(call obj,tests/fuzz/seeds.c $(FUZZ_HASH) \
		daemon/core/ssd/ondisk.c)
	$(call say,LD,$@)$(CC) $(BASE_LDFLAGS) $^ -o $@
