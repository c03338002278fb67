# SPDX-License-Identifier: Apache-2.0

BASE_SRC := $(addprefix daemon/base/, \
	base.c hash.c hash_avx2.c key.c log.c size.c table.c timer.c)
WIRE_SRC := $(addprefix daemon/wire/, auth.c cluster.c cluster_core.c frame.c msg.c \
	pool.c request.c session.c)
CORE_SRC := daemon/core/core.c \
	$(addprefix daemon/core/master/, change.c extents.c get.c ghost.c \
		master.c members.c ops.c policy.c reclaim.c routes.c space.c window.c) \
	$(addprefix daemon/core/owner/, calls.c clients.c entries.c fetch.c \
		home.c owner.c persist.c put.c stage.c) \
	$(addprefix daemon/core/ssd/, arbiter.c ondisk.c ring.c)
IO_SRC := $(addprefix daemon/io/, device.c device_io.c direct.c engine.c engine_threads.c \
	engine_uring.c front_kdev.c front_unix.c gateway.c gateway_conn.c index.c \
	kdev_bind.c mailbox.c \
	rpc.c rpc_call.c rpc_conn.c rpc_key.c rpc_peer.c segment.c shard.c \
	tcp.c tcp_conn.c transfer.c transfer_chan.c transfer_chunks.c \
	transfer_ops.c transfer_sends.c transfer_thread.c workers.c)
SVC_SRC := $(addprefix daemon/svc/, address.c admin.c args.c batch.c config.c \
	config_role.c engine.c engine_life.c exposition.c http.c hub.c inbox.c \
	lockfile.c main.c metrics.c moves.c moves_in.c moves_out.c neighbours.c \
	notice.c preflight.c uplink.c)

# The schema of what hosts say to each other, compiled; what comes of it is not
# ours to lint.
CLUSTER_PB := $(O)/gen/wire/cluster.pb-c
WIRE_SRC += $(CLUSTER_PB).c
BASE_CFLAGS += -isystem $(O)/gen

$(CLUSTER_PB).c $(CLUSTER_PB).h &: daemon/wire/cluster.proto
	@mkdir -p $(@D)
	$(call say,PROTOC,$(CLUSTER_PB).c)protoc-c --c_out=$(@D) \
		-Idaemon/wire $<

# Who includes the header cannot know yet that it is made.
$(addprefix $(O)/,$(addsuffix .o,daemon/wire/cluster daemon/wire/cluster_core \
	fuzz/obj/daemon/wire/cluster fuzz/obj/daemon/wire/cluster_core \
	daemon/wire/pool fuzz/obj/daemon/wire/pool tests/unit/test_cluster)): \
	$(CLUSTER_PB).h

# made sources are in O already
obj = $(patsubst %.c,$(O)/%.o,$(patsubst $(O)/%,%,$(1)))

$(O)/gen/%.o: $(O)/gen/%.c
	$(call say,CC,$@)$(CC) $(BASE_CFLAGS) $(CFLAGS) $(CPPFLAGS) -MMD -MP \
		-c $< -o $@

BASE_OBJ := $(call obj,$(BASE_SRC))
WIRE_OBJ := $(call obj,$(WIRE_SRC))
CORE_OBJ := $(call obj,$(CORE_SRC))
IO_OBJ := $(call obj,$(IO_SRC))
SVC_OBJ := $(call obj,$(SVC_SRC))
WIRE_LIBS := -lprotobuf-c -lsodium
DAEMON_LIBS := -luring -luv -lyaml -lmicrohttpd -ljson-c -lsystemd \
	$(WIRE_LIBS) -lpthread

.PHONY: daemon
daemon: $(O)/fluxonkvd

$(O)/fluxonkvd: $(BASE_OBJ) $(WIRE_OBJ) $(CORE_OBJ) $(IO_OBJ) $(SVC_OBJ)
	$(call say,LD,$@)$(CC) $(BASE_LDFLAGS) $(LDFLAGS) $^ $(DAEMON_LIBS) \
		-o $@
