# SPDX-License-Identifier: Apache-2.0

LIB_SRC := $(addprefix tools/lib/, keep.c body.c calls_get.c calls_meta.c \
	calls_put.c client.c conn.c errors.c fork.c held.c hello.c kdev.c \
	kdev_open.c map.c pins.c)
LIB_OBJ := $(call obj,$(LIB_SRC))

.PHONY: lib tools
lib: $(O)/libfluxonkv.so.0 $(O)/libfluxonkv.so $(O)/libfluxonkv.a

$(O)/libfluxonkv.so.0: $(LIB_OBJ) tools/lib/libfluxonkv.map
	$(call say,LD,$@)$(CC) $(BASE_LDFLAGS) $(LDFLAGS) -shared \
		-Wl,--version-script=tools/lib/libfluxonkv.map \
		-Wl,-soname,libfluxonkv.so.0 $(LIB_OBJ) -o $@

$(O)/libfluxonkv.so: $(O)/libfluxonkv.so.0
	@ln -sf libfluxonkv.so.0 $@

$(O)/libfluxonkv.a: $(LIB_OBJ)
	$(call say,AR,$@)rm -f $@ && ar rcs $@ $^

tools: $(O)/fluxonkvctl $(O)/fluxonkv-bench

BENCH_SRC := $(wildcard tools/bench/*.c)
CTL_SRC := $(wildcard tools/ctl/*.c)

$(O)/fluxonkv-bench: $(call obj,$(BENCH_SRC)) $(O)/libfluxonkv.a
	$(call say,LD,$@)$(CC) $(BASE_LDFLAGS) $(LDFLAGS) $^ -lsodium -ljson-c \
		-lm -lpthread -o $@

$(addprefix $(O)/tools/ctl/,message.o netlink.o) \
		$(O)/tests/unit/test_ctl_message.o: BASE_CFLAGS += \
	$(shell pkg-config --cflags libnl-genl-3.0 2>/dev/null)

$(O)/fluxonkvctl: $(call obj,$(CTL_SRC)) $(O)/libfluxonkv.a
	$(call say,LD,$@)$(CC) $(BASE_LDFLAGS) $(LDFLAGS) $^ -ljson-c \
		-lnl-genl-3 -lnl-3 -lpthread -o $@
