// SPDX-License-Identifier: Apache-2.0
#include <check.h>

#include "owner_driver.h"

#define CLIENTS	16

struct fkv_owner *owner;
struct fkv_ring *owner_ring;

static uint64_t clients[CLIENTS];
static size_t nr_clients;

static void setup(struct fkv_owner_config *cfg)
{
	core_setup();
	nr_clients = 0;
	ck_assert_int_eq(fkv_owner_create(cfg, &owner), 0);
	owner_client(CLIENT, UID, 0);
}

void owner_setup(void)
{
	owner_setup_caps(0, 0, 0);
}

void owner_setup_caps(uint64_t client_cap, uint64_t uid_cap,
		      uint64_t put_limit)
{
	struct fkv_owner_config cfg = {
		.client_cap = client_cap,
		.uid_cap = uid_cap,
		.put_limit = put_limit,
	};

	owner_ring = NULL;
	setup(&cfg);
}

void owner_setup_ssd(void)
{
	struct fkv_ring_config rc = { .nr_devices = 2 };
	struct fkv_owner_config cfg = { .ring_devices = 2, .ring_shards = 2 };

	for (uint32_t d = 0; d < rc.nr_devices; d++)
		rc.device[d] = (struct fkv_ring_device_config){
			.nr_shards = 1,
			.ring_size = 16 * PAGE,
			.unit = PAGE,
		};
	ck_assert_int_eq(fkv_ring_create(&rc, &owner_ring), 0);
	cfg.ring = owner_ring;
	setup(&cfg);
}

void owner_setup_cluster(void)
{
	struct fkv_ring_config rc = {
		.nr_devices = 1,
		.device[0] = { 1, 64 * FKV_MIB, PAGE },
	};
	struct fkv_owner_config cfg = {
		.ring_devices = 1,
		.ring_shards = 1,
		.cluster = true,
		.name = "me",
		.address = "h:1",
		.segment_bytes = 16384 * PAGE,
		.chunk_offset = 16384 * PAGE,
		.chunks = 2,
	};

	ck_assert_int_eq(fkv_ring_create(&rc, &owner_ring), 0);
	cfg.ring = owner_ring;
	setup(&cfg);
}

void owner_teardown(void)
{
	struct fkv_owner_stats st;

	/* what a test leaves on its client is not its subject */
	while (nr_clients) {
		struct fkv_in in = {
			.type = FKV_IN_CLIENT_GONE,
			.client = clients[--nr_clients],
		};

		fkv_owner_step(owner, core_now, &in, &core_out);
	}
	st = owner_stats();
	ck_assert_uint_eq(st.pinned_bytes, 0);
	ck_assert_uint_eq(st.holders, 0);
	ck_assert_uint_eq(st.calls, 0);
	fkv_owner_free(owner);
	core_drop_all();
	fkv_ring_free(owner_ring);
	core_teardown();
}

struct fkv_owner_stats owner_stats(void)
{
	struct fkv_owner_stats st;

	fkv_owner_check(owner);
	fkv_owner_get_stats(owner, &st);
	return st;
}

void owner_step(const struct fkv_in *in)
{
	fkv_owner_step(owner, core_now, in, &core_out);
	fkv_owner_check(owner);
	if (owner_ring)
		fkv_ring_check(owner_ring);
}

void owner_tick(uint64_t after_ns)
{
	core_now += after_ns;
	owner_step(&(struct fkv_in){ .type = FKV_IN_TICK });
}

void owner_msg(struct fkv_msg msg, const char *key)
{
	msg.key = key ? core_key_ref(key) : NULL;
	owner_step(&(struct fkv_in){ .type = FKV_IN_MSG, .msg = &msg });
}

void owner_client(uint64_t id, uint32_t uid, uint64_t arena_bytes)
{
	ck_assert_uint_lt(nr_clients, CLIENTS);
	clients[nr_clients++] = id;
	owner_step(&(struct fkv_in){
		.type = FKV_IN_CLIENT,
		.client = id,
		.uid = uid,
		.n = arena_bytes,
	});
}

void owner_gone(uint64_t id)
{
	owner_step(&(struct fkv_in){
		.type = FKV_IN_CLIENT_GONE,
		.client = id,
	});
}

void owner_io(uint64_t token, int res, uint64_t sum)
{
	owner_step(&(struct fkv_in){
		.type = FKV_IN_IO_DONE,
		.token = token,
		.res = res,
		.sum = sum,
	});
}

void owner_copied(uint64_t token, int res)
{
	owner_step(&(struct fkv_in){
		.type = FKV_IN_COPIED,
		.token = token,
		.res = res,
	});
}

void owner_hashed(uint64_t token, uint64_t sum)
{
	owner_step(&(struct fkv_in){
		.type = FKV_IN_HASHED,
		.token = token,
		.sum = sum,
	});
}

void owner_scanned(struct fkv_entry *e)
{
	owner_step(&(struct fkv_in){ .type = FKV_IN_SCANNED, .entry = e });
}

void owner_evicted(struct fkv_entry *e, enum fkv_evict_result res)
{
	owner_step(&(struct fkv_in){
		.type = FKV_IN_EVICTED,
		.entry = e,
		.res = (int)res,
	});
}

struct fkv_call *owner_call(uint16_t op, uint32_t nr)
{
	struct fkv_call *call = fkv_call_create(op, nr);

	ck_assert_ptr_nonnull(call);
	call->client = CLIENT;
	call->timeout_ns = TIMEOUT;
	return call;
}

void owner_run(struct fkv_call *call)
{
	owner_step(&(struct fkv_in){ .type = FKV_IN_CALL, .call = call });
}

void owner_ask(uint16_t op, const char *key)
{
	struct fkv_call *call = owner_call(op, 1);

	call->items[0].key = core_key_ref(key);
	owner_run(call);
}

void owner_ask_id(uint16_t op, uint64_t client, uint64_t id, uint32_t flags)
{
	struct fkv_call *call = owner_call(op, 1);

	call->client = client;
	call->items[0].id = id;
	call->items[0].flags = flags;
	owner_run(call);
}

void owner_begin(uint64_t client, const char *key, uint64_t len,
		 uint64_t timeout_ns)
{
	struct fkv_call *call = owner_call(FLUXONKV_OP_PUT_BEGIN, 1);

	call->client = client;
	call->timeout_ns = timeout_ns;
	call->items[0].key = core_key_ref(key);
	call->items[0].len = len;
	owner_run(call);
}

struct reply owner_reply(void)
{
	struct fkv_call *call = core_take(FKV_CMD_REPLY).call;
	struct reply r = {
		.status = call->status,
		.nr = call->nr,
		.arg = call->ret_arg,
	};

	memcpy(r.text, call->text, sizeof(r.text));
	for (uint32_t i = 0; i < call->nr && i < RESULTS; i++)
		r.res[i] = call->items[i].res;
	fkv_call_free(call);
	return r;
}

struct fluxonkv_result owner_result(int status)
{
	struct reply r = owner_reply();

	ck_assert_int_eq(r.status, 0);
	ck_assert_uint_eq(r.nr, 1);
	ck_assert_msg(r.res[0].status == status, "%d, not %d (%s)",
		      r.res[0].status, status, r.text);
	return r.res[0];
}

void owner_pinned(uint64_t bytes)
{
	ck_assert_uint_eq(core_take_msg(FKV_MSG_PINS).n, bytes);
}

uint64_t owner_open(uint64_t client, const char *key, uint64_t len,
		    uint64_t extent)
{
	struct fluxonkv_result res;
	struct fkv_msg start;

	owner_begin(client, key, len, TIMEOUT);
	start = core_take_msg(FKV_MSG_PUT_START);
	ck_assert_uint_eq(start.len, len);
	owner_msg((struct fkv_msg){
		.type = FKV_MSG_PUT_PLAN,
		.op = start.op,
		.extent = extent,
		.offset = extent * PAGE,
	}, NULL);
	res = owner_result(0);
	ck_assert_uint_eq(res.id, start.op);
	return res.id;
}

struct fkv_entry *owner_put(const char *key, uint64_t len, uint64_t extent,
			    uint64_t put_id)
{
	uint64_t id = owner_open(CLIENT, key, len, extent);

	owner_ask_id(FLUXONKV_OP_PUT_COMMIT, CLIENT, id, 0);
	ck_assert_uint_eq(core_take_msg(FKV_MSG_PUT_DONE).op, id);
	owner_msg((struct fkv_msg){
		.type = FKV_MSG_PUT_DONE_R,
		.op = id,
		.extent = extent,
		.put_id = put_id,
		.grant = true,
	}, NULL);
	ck_assert_uint_eq(owner_result(0).version, put_id);
	return core_take(FKV_CMD_PUBLISH).entry;
}

uint64_t owner_asked(const char *key)
{
	struct fkv_msg msg = core_take_msg(FKV_MSG_GET_START);

	ck_assert_ptr_eq(msg.key, core_key(key));
	return msg.op;
}

void owner_plan(uint64_t op, enum fluxonkv_source source, uint64_t put_id,
		uint64_t len, uint64_t extent, bool grant)
{
	owner_msg((struct fkv_msg){
		.type = FKV_MSG_GET_PLAN,
		.op = op,
		.source = source,
		.put_id = put_id,
		.len = len,
		.extent = extent,
		.offset = extent * PAGE,
		.grant = grant,
	}, NULL);
}

void owner_refuse(enum fkv_msg_type type, uint64_t op, int res)
{
	owner_msg((struct fkv_msg){ .type = type, .op = op, .res = res },
		  NULL);
}

void owner_retire(const char *key, uint64_t put_id)
{
	owner_msg((struct fkv_msg){
		.type = FKV_MSG_RETIRE,
		.op = 555,
		.put_id = put_id,
	}, key);
	ck_assert_uint_eq(core_take_msg(FKV_MSG_RETIRED).op, 555);
}

void owner_quiet(uint64_t extent, uint64_t n)
{
	struct fkv_msg msg = core_take_msg(FKV_MSG_QUIET);

	ck_assert_uint_eq(msg.extent, extent);
	ck_assert_uint_eq(msg.n, n);
}

uint64_t owner_hold(const char *key, uint64_t pinned)
{
	uint64_t id;

	owner_ask(FLUXONKV_OP_GET, key);
	id = owner_result(0).id;
	owner_pinned(pinned);
	return id;
}

void owner_release(uint64_t id)
{
	owner_ask_id(FLUXONKV_OP_RELEASE, CLIENT, id, 0);
	owner_result(0);
}

void owner_persist(const char *key, uint64_t put_id, uint64_t len,
		   uint64_t extent)
{
	owner_msg((struct fkv_msg){
		.type = FKV_MSG_PERSIST,
		.put_id = put_id,
		.len = len,
		.extent = extent,
		.offset = extent * PAGE,
	}, key);
}

struct fkv_cmd owner_write(uint64_t sum)
{
	owner_hashed(core_take(FKV_CMD_HASH).token, sum);
	return core_take(FKV_CMD_WRITE);
}

struct fkv_msg owner_written(const struct fkv_cmd *write)
{
	owner_io(write->token, 0, 0);
	return core_take_msg(FKV_MSG_SSD_COMMIT);
}

void owner_on_ssd(const char *key, uint64_t put_id, uint64_t len,
		  uint64_t sum)
{
	struct fkv_cmd write;

	owner_persist(key, put_id, len, 99);
	write = owner_write(sum);
	owner_msg((struct fkv_msg){
		.type = FKV_MSG_SSD_COMMIT_R,
		.op = owner_written(&write).op,
	}, NULL);
}

struct fkv_msg owner_persist_failed(int res)
{
	struct fkv_msg msg = core_take_msg(FKV_MSG_PERSIST_FAILED);

	ck_assert_int_eq(msg.res, res);
	return msg;
}
