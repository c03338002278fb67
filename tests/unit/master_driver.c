// SPDX-License-Identifier: Apache-2.0
#include <check.h>

#include "master_driver.h"

struct fkv_master *master;

void master_setup(void)
{
	struct fkv_master_config cfg = {
		.segment_bytes = SEGMENT,
		.epoch = 3,
		.shards = 2,
	};

	core_setup();
	ck_assert_int_eq(fkv_master_create(&cfg, &master), 0);
}

void master_teardown(void)
{
	struct fkv_master_stats st = master_stats();

	ck_assert_uint_eq(st.used + st.free, st.capacity);
	fkv_master_free(master);
	core_teardown();
}

struct fkv_master_stats master_stats(void)
{
	struct fkv_master_stats st;

	fkv_master_check(master);
	fkv_master_get_stats(master, &st);
	return st;
}

void master_send(struct fkv_msg msg, const char *key)
{
	msg.key = key ? core_key_ref(key) : NULL;
	fkv_master_step(master, core_now, &msg, &core_out);
	fkv_master_check(master);
}

void master_tick(void)
{
	fkv_master_tick(master, core_now, &core_out);
	fkv_master_check(master);
}

void master_put_start_until(uint64_t op, const char *key, uint64_t len,
			    uint64_t deadline_ns)
{
	master_send((struct fkv_msg){
		.type = FKV_MSG_PUT_START,
		.op = op,
		.len = len,
		.deadline_ns = deadline_ns,
	}, key);
}

void master_put_start(uint64_t op, const char *key, uint64_t len,
		      uint32_t flags)
{
	master_send((struct fkv_msg){
		.type = FKV_MSG_PUT_START,
		.op = op,
		.len = len,
		.flags = flags,
		.deadline_ns = core_now,
	}, key);
}

struct given master_planned(uint64_t op, int res)
{
	struct fkv_msg msg = core_take_msg(FKV_MSG_PUT_PLAN);

	ck_assert_uint_eq(msg.op, op);
	ck_assert_int_eq(msg.res, res);
	ck_assert_int_eq(!msg.extent, res != 0);
	return (struct given){ .extent = msg.extent, .offset = msg.offset };
}

void master_put_done(uint64_t op)
{
	master_send((struct fkv_msg){ .type = FKV_MSG_PUT_DONE, .op = op },
		    NULL);
}

struct given master_published(uint64_t op)
{
	struct fkv_msg msg = core_take_msg(FKV_MSG_PUT_DONE_R);

	ck_assert_uint_eq(msg.op, op);
	ck_assert_int_eq(msg.res, 0);
	ck_assert(msg.grant);
	return (struct given){ .extent = msg.extent, .put_id = msg.put_id };
}

struct given master_put(uint64_t op, const char *key, uint64_t len)
{
	struct given plan, done;

	master_put_start(op, key, len, 0);
	plan = master_planned(op, 0);
	master_put_done(op);
	done = master_published(op);
	ck_assert_uint_eq(done.extent, plan.extent);
	done.offset = plan.offset;
	return done;
}

void master_get_start(uint64_t op, const char *key, enum fkv_class class,
		      uint64_t deadline_ns)
{
	master_send((struct fkv_msg){
		.type = FKV_MSG_GET_START,
		.op = op,
		.class = class,
		.deadline_ns = deadline_ns,
	}, key);
}

struct fkv_msg master_get_plan(uint64_t op, int res)
{
	struct fkv_msg msg = core_take_msg(FKV_MSG_GET_PLAN);

	ck_assert_uint_eq(msg.op, op);
	ck_assert_int_eq(msg.res, res);
	return msg;
}

void master_quiet(uint64_t extent, uint64_t n)
{
	master_send((struct fkv_msg){
		.type = FKV_MSG_QUIET,
		.extent = extent,
		.n = n,
	}, NULL);
}

void master_evicted(uint64_t extent, enum fkv_evict_result res, uint64_t n)
{
	master_send((struct fkv_msg){
		.type = FKV_MSG_EVICTED,
		.extent = extent,
		.res = (int)res,
		.n = n,
	}, NULL);
}

void master_retired(uint64_t op)
{
	master_send((struct fkv_msg){ .type = FKV_MSG_RETIRED, .op = op },
		    NULL);
}

void master_delete(uint64_t op, const char *key, int res)
{
	struct fkv_msg msg;

	master_send((struct fkv_msg){ .type = FKV_MSG_DELETE, .op = op }, key);
	if (core_has_msg(FKV_MSG_RETIRE)) {
		msg = core_take_msg(FKV_MSG_RETIRE);
		master_retired(msg.op);
	}
	msg = core_take_msg(FKV_MSG_DELETE_R);
	ck_assert_uint_eq(msg.op, op);
	ck_assert_int_eq(msg.res, res);
}

void master_ssd(uint64_t devices)
{
	master_send((struct fkv_msg){
		.type = FKV_MSG_SSD_STATE,
		.n = devices,
	}, NULL);
}

static struct fkv_msg persist_end(enum fkv_msg_type type)
{
	struct fkv_msg msg = core_take_msg(FKV_MSG_PERSIST);

	return (struct fkv_msg){
		.type = type,
		.op = 900,
		.put_id = msg.put_id,
		.extent = msg.extent,
	};
}

void master_commit(const char *key, uint32_t shard, uint64_t seq)
{
	struct fkv_msg msg = persist_end(FKV_MSG_SSD_COMMIT);

	msg.shard = shard;
	msg.seq = seq;
	master_send(msg, key);
	ck_assert_uint_eq(core_take_msg(FKV_MSG_SSD_COMMIT_R).op, 900);
}

void master_persist_failed(const char *key, int err)
{
	struct fkv_msg msg = persist_end(FKV_MSG_PERSIST_FAILED);

	msg.res = err;
	master_send(msg, key);
}

/* Committed and quiet, it is what a put of most of the segment evicts. */
uint64_t master_on_ssd(uint64_t op, const char *key, uint64_t seq)
{
	struct fkv_route_info info;
	struct given g;

	master_ssd(1);
	g = master_put(op, key, BIG);
	master_commit(key, 0, seq);
	master_quiet(g.extent, 1);
	master_put_start(op + 1, "filler", SEGMENT / 100 * 84, 0);
	master_planned(op + 1, 0);
	master_put_revoke(op + 1, false);
	ck_assert(master_route(key, &info) && info.ssd && !info.memory);
	return g.put_id;
}

void master_put_revoke(uint64_t op, bool held)
{
	master_send((struct fkv_msg){
		.type = FKV_MSG_PUT_REVOKE,
		.op = op,
		.held = held,
	}, NULL);
}

void master_get_revoke(uint64_t op, bool drop)
{
	master_send((struct fkv_msg){
		.type = FKV_MSG_GET_REVOKE,
		.op = op,
		.drop = drop,
	}, NULL);
}

struct fkv_msg master_get_done(uint64_t op, int res)
{
	struct fkv_msg msg;

	master_send((struct fkv_msg){ .type = FKV_MSG_GET_DONE, .op = op },
		    NULL);
	msg = core_take_msg(FKV_MSG_GET_DONE_R);
	ck_assert_uint_eq(msg.op, op);
	ck_assert_int_eq(msg.res, res);
	return msg;
}

bool master_route(const char *key, struct fkv_route_info *ret)
{
	return fkv_master_route_at(master, core_key(key), ret);
}
