// SPDX-License-Identifier: Apache-2.0
#include <check.h>
#include <stdlib.h>

#include "master_driver.h"

/* A master without an owner of its own: the test is all of them. */
static uint32_t peer[4];

static struct fkv_cluster_register reg(uint32_t i, uint64_t incarnation)
{
	static const char *const names[] = { "a", "b", "c", "d" };

	return (struct fkv_cluster_register){
		.name = names[i],
		.incarnation = incarnation,
		.segment_bytes = SEGMENT,
		.ssd_shards = 2,
		.parts = 1,
	};
}

static int enter(const struct fkv_cluster_register *r, uint32_t i)
{
	int err = fkv_master_register(master, core_now, r, &peer[i],
				      &core_out);

	fkv_master_check(master);
	return err;
}

/* What members are told of each other is looked at in one test only. */
static void forget_members(void)
{
	for (size_t i = 0; i < core_out.n; i++)
		if (core_out.cmds[i].type == FKV_CMD_CLUSTER) {
			core_take(FKV_CMD_CLUSTER);
			i = (size_t)-1;
		}
}

static void join(uint32_t i, uint64_t incarnation, uint32_t devices)
{
	struct fkv_cluster_register r = reg(i, incarnation);

	r.ssd_devices = devices;
	ck_assert_int_eq(enter(&r, i), 0);
	forget_members();
}

static void setup(void)
{
	struct fkv_master_config cfg = { .epoch = 3, .seed = 7 };

	core_setup();
	ck_assert_int_eq(fkv_master_create(&cfg, &master), 0);
	join(0, 100, 0);
	join(1, 101, 0);
	join(2, 102, 0);
}

static void from(uint32_t i, struct fkv_msg msg, const char *key)
{
	msg.peer = peer[i];
	master_send(msg, key);
}

static struct fkv_msg to(uint32_t i, enum fkv_msg_type type)
{
	struct fkv_msg msg = core_take_msg(type);

	ck_assert_uint_eq(msg.peer, peer[i]);
	return msg;
}

static void start(uint32_t i, uint64_t op, const char *key, uint64_t len)
{
	from(i, (struct fkv_msg){
		.type = FKV_MSG_PUT_START,
		.op = op,
		.len = len,
		.deadline_ns = core_now,
	}, key);
}

static void done(uint32_t i, uint64_t op, int res, bool suspect)
{
	from(i, (struct fkv_msg){
		.type = FKV_MSG_PUT_DONE,
		.op = op,
		.res = res,
		.suspect = suspect,
	}, NULL);
}

/* A put of an absent key by owner @i, whose own it becomes. */
static struct fkv_msg put_of(uint32_t i, uint64_t op, const char *key,
			     uint64_t len)
{
	struct fkv_msg plan;

	start(i, op, key, len);
	plan = to(i, FKV_MSG_PUT_PLAN);
	ck_assert_int_eq(plan.res, 0);
	ck_assert_uint_eq(plan.incarnation, 0);
	done(i, op, 0, false);
	return to(i, FKV_MSG_PUT_DONE_R);
}

static struct fkv_msg put(uint32_t i, uint64_t op, const char *key)
{
	return put_of(i, op, key, PAGE);
}

static struct fkv_msg get(uint32_t i, uint64_t op, const char *key, int res)
{
	struct fkv_msg plan;

	from(i, (struct fkv_msg){
		.type = FKV_MSG_GET_START,
		.op = op,
		.class = FKV_CLASS_GET,
		.deadline_ns = core_now,
	}, key);
	plan = to(i, FKV_MSG_GET_PLAN);
	ck_assert_uint_eq(plan.op, op);
	ck_assert_int_eq(plan.res, res);
	return plan;
}

static struct fkv_msg got(uint32_t i, uint64_t op)
{
	from(i, (struct fkv_msg){ .type = FKV_MSG_GET_DONE, .op = op }, NULL);
	return to(i, FKV_MSG_GET_DONE_R);
}

static void revoke(uint32_t i, uint64_t op, bool drop, bool suspect)
{
	from(i, (struct fkv_msg){
		.type = FKV_MSG_GET_REVOKE,
		.op = op,
		.drop = drop,
		.suspect = suspect,
	}, NULL);
}

static void beat(uint32_t i, const uint64_t *ops, uint32_t n)
{
	struct fkv_cluster_msg msg = {
		.type = FKV_CLUSTER_HEARTBEAT,
		.heartbeat = { .seq = 9, .parts = 1, .n = n, .ops = ops },
	};

	fkv_master_cluster(master, core_now, peer[i], &msg, &core_out);
	fkv_master_check(master);
}

/* Time goes on; all but @dead send heartbeats. */
static void pass(uint64_t for_ns, uint32_t dead)
{
	uint64_t until = core_now + for_ns;

	while (core_now < until) {
		core_now += 200 * FKV_MS;
		for (uint32_t i = 0; i < 3; i++)
			if (i != dead)
				beat(i, NULL, 0);
		master_tick();
		forget_members();
	}
}

static void lapse(uint32_t i)
{
	pass(4 * FKV_SEC, i);
	ck_assert_uint_eq(core_take(FKV_CMD_END).peer, peer[i]);
}

/* G1, G3.1: a pull; G7: with room it stays, and has a grant */
START_TEST(value_elsewhere_is_pulled_and_kept_while_there_is_room)
{
	struct fkv_msg v = put(0, 1, "k"), plan, r;

	plan = get(1, 1, "k", 0);
	ck_assert_uint_eq(plan.source, FLUXONKV_SOURCE_MEMORY_REMOTE);
	ck_assert_uint_eq(plan.incarnation, 100);
	ck_assert_uint_eq(plan.put_id, v.put_id);
	ck_assert_uint_eq(plan.remote, 0);
	ck_assert_uint_eq(master_stats().cause_bytes[5], PAGE);
	r = got(1, 1);
	ck_assert_int_eq(r.res, 0);
	ck_assert(r.grant && !r.drop);
	ck_assert_uint_eq(master_stats().cause_bytes[5], 0);
	ck_assert_uint_eq(get(1, 2, "k", 0).source, FLUXONKV_SOURCE_LOCAL);
}
END_TEST

/* G7: without room to spare it is only held; wanted again it stays */
START_TEST(value_elsewhere_is_temporary_until_wanted_again)
{
	struct fkv_msg r;

	put(0, 1, "k");
	put_of(1, 50, "f", 860 * PAGE);
	put_of(1, 51, "g", 132 * PAGE);
	ck_assert_uint_eq(get(1, 1, "k", 0).source,
			  FLUXONKV_SOURCE_MEMORY_REMOTE);
	r = got(1, 1);
	ck_assert(!r.res && !r.grant && !r.drop);
	ck_assert_uint_eq(master_stats().temporary, 1);
	ck_assert_uint_eq(get(1, 2, "k", 0).source,
			  FLUXONKV_SOURCE_MEMORY_REMOTE);
	ck_assert(got(1, 2).grant);
}
END_TEST

/* K6c: every owner with a replica is asked, and all must have answered */
START_TEST(overwrite_waits_for_every_owner_with_a_replica)
{
	struct fkv_msg v = put(0, 1, "k"), a, b;

	get(1, 1, "k", 0);
	got(1, 1);
	start(2, 1, "k", PAGE);
	to(2, FKV_MSG_PUT_PLAN);
	done(2, 1, 0, false);
	a = core_take_msg(FKV_MSG_RETIRE);
	b = core_take_msg(FKV_MSG_RETIRE);
	ck_assert_uint_eq(a.peer + b.peer, peer[0] + peer[1]);
	ck_assert_uint_eq(a.put_id, v.put_id);
	ck_assert(!core_has_msg(FKV_MSG_RETIRE));
	from(0, (struct fkv_msg){ .type = FKV_MSG_RETIRED, .op = a.op }, NULL);
	/* the same one twice is one */
	from(0, (struct fkv_msg){ .type = FKV_MSG_RETIRED, .op = a.op }, NULL);
	/* one that was not asked is none */
	from(2, (struct fkv_msg){ .type = FKV_MSG_RETIRED, .op = a.op }, NULL);
	ck_assert(!core_has_msg(FKV_MSG_PUT_DONE_R));
	from(1, (struct fkv_msg){ .type = FKV_MSG_RETIRED, .op = b.op }, NULL);
	ck_assert_uint_gt(to(2, FKV_MSG_PUT_DONE_R).put_id, v.put_id);
}
END_TEST

/* K6c, K6f: whose lease is over is not waited for, whoever did not answer */
START_TEST(end_of_a_lease_answers_for_its_owner)
{
	put(0, 1, "k");
	start(2, 1, "k", PAGE);
	to(2, FKV_MSG_PUT_PLAN);
	done(2, 1, 0, false);
	to(0, FKV_MSG_RETIRE);
	pass(3 * FKV_SEC, 0);
	ck_assert(!core_has_msg(FKV_MSG_PUT_DONE_R));
	from(2, (struct fkv_msg){ .type = FKV_MSG_STAT, .op = 7 }, "k");
	ck_assert_int_eq(to(2, FKV_MSG_STAT_R).res, 0);
	beat(2, (uint64_t[]){ 1 }, 1);
	forget_members();
	core_now += 300 * FKV_MS;
	master_tick();
	forget_members();
	ck_assert_uint_eq(core_take(FKV_CMD_END).peer, peer[0]);
	core_drop_all();
}
END_TEST

/* P3, G3.2: where no SSD is, the put goes to who has one; G3.3: told first */
START_TEST(put_goes_to_an_owner_with_ssd_when_here_is_none)
{
	struct fkv_msg x, plan, r, v;

	join(2, 202, 1);
	core_take(FKV_CMD_END);
	start(0, 5, "k", PAGE);
	x = to(2, FKV_MSG_EXPOSE);
	ck_assert_uint_eq(x.incarnation, 100);
	ck_assert_uint_eq(x.op, 5);
	ck_assert(!core_has_msg(FKV_MSG_PUT_PLAN));
	from(2, (struct fkv_msg){ .type = FKV_MSG_EXPOSED,
		.ticket = x.ticket }, NULL);
	plan = to(0, FKV_MSG_PUT_PLAN);
	ck_assert_uint_eq(plan.incarnation, 202);
	ck_assert_uint_eq(plan.remote, x.offset);
	done(0, 5, 0, false);
	v = to(0, FKV_MSG_PUT_DONE_R);
	ck_assert(!v.grant);
	ck_assert_uint_eq(v.extent, plan.extent);
	r = to(2, FKV_MSG_PERSIST);
	ck_assert_uint_eq(r.extent, x.extent);
	from(0, (struct fkv_msg){ .type = FKV_MSG_QUIET, .extent = v.extent,
		.n = 1 }, NULL);
	ck_assert_uint_eq(master_stats().used, PAGE);
	/* memory only: no reason to go elsewhere */
	from(0, (struct fkv_msg){ .type = FKV_MSG_PUT_START, .op = 6,
		.len = PAGE, .flags = FLUXONKV_PUT_MEMORY,
		.deadline_ns = core_now }, "m");
	ck_assert_uint_eq(to(0, FKV_MSG_PUT_PLAN).incarnation, 0);
}
END_TEST

static struct fkv_msg begin_remote(void)
{
	struct fkv_msg x;

	join(2, 202, 1);
	core_take(FKV_CMD_END);
	start(0, 5, "k", PAGE);
	x = to(2, FKV_MSG_EXPOSE);
	from(2, (struct fkv_msg){ .type = FKV_MSG_EXPOSED,
		.ticket = x.ticket }, NULL);
	to(0, FKV_MSG_PUT_PLAN);
	return x;
}

/* G3.4: a target whose put is over is free when its host says so */
START_TEST(target_of_a_put_that_failed_is_fenced)
{
	struct fkv_msg x = begin_remote(), f;

	from(0, (struct fkv_msg){ .type = FKV_MSG_PUT_REVOKE, .op = 5 }, NULL);
	f = to(2, FKV_MSG_FENCE);
	ck_assert_uint_eq(f.op, 5);
	ck_assert_uint_eq(f.incarnation, 100);
	ck_assert_uint_eq(master_stats().used, PAGE);
	/* only by its host */
	from(1, (struct fkv_msg){ .type = FKV_MSG_FENCED,
		.extent = x.extent }, NULL);
	ck_assert_uint_eq(master_stats().used, PAGE);
	from(2, (struct fkv_msg){ .type = FKV_MSG_FENCED,
		.extent = x.extent }, NULL);
	ck_assert_uint_eq(master_stats().used, 0);
}
END_TEST

/* G3.4: the same when its writer dies */
START_TEST(target_of_a_dead_writer_is_fenced)
{
	struct fkv_msg x = begin_remote();

	lapse(0);
	ck_assert_uint_eq(to(2, FKV_MSG_FENCE).extent, x.extent);
}
END_TEST

/* P3: what cannot be pushed is its requester's own */
START_TEST(put_that_cannot_be_pushed_stays_where_it_is)
{
	struct fkv_msg v;

	begin_remote();
	done(0, 5, -ECONNRESET, true);
	to(2, FKV_MSG_FENCE);
	v = to(0, FKV_MSG_PUT_DONE_R);
	ck_assert_int_eq(v.res, 0);
	ck_assert(v.grant);
	ck_assert_uint_eq(master_stats().suspected, 1);
	/* F3: placement passes it over for a while */
	start(0, 6, "j", PAGE);
	ck_assert_uint_eq(to(0, FKV_MSG_PUT_PLAN).incarnation, 0);
}
END_TEST

START_TEST(put_whose_target_dies_stays_where_it_is)
{
	struct fkv_msg v;
	struct fkv_cluster_register r = reg(2, 302);

	begin_remote();
	ck_assert_int_eq(enter(&r, 2), 0);
	core_take(FKV_CMD_END);
	forget_members();
	done(0, 5, 0, false);
	v = to(0, FKV_MSG_PUT_DONE_R);
	ck_assert(v.grant);
	ck_assert_uint_eq(get(2, 1, "k", 0).source,
			  FLUXONKV_SOURCE_MEMORY_REMOTE);
}
END_TEST

/* F1: suspended is not there for anybody, and back when its memory is */
START_TEST(replicas_of_a_tombed_owner_are_hidden_and_revived)
{
	struct fkv_cluster_register r = reg(0, 200);
	struct fkv_msg v = put(0, 1, "k");
	struct fkv_route_info info;

	lapse(0);
	get(1, 1, "k", -ENOENT);
	ck_assert(!master_route("k", &info));
	from(1, (struct fkv_msg){ .type = FKV_MSG_COUNT, .op = 2 }, NULL);
	ck_assert_uint_eq(to(1, FKV_MSG_COUNT_R).n, 0);
	r.was = 100;
	ck_assert_int_eq(enter(&r, 0), 0);
	forget_members();
	ck_assert_uint_eq(get(1, 3, "k", 0).put_id, v.put_id);
}
END_TEST

START_TEST(replicas_of_other_memory_are_gone)
{
	struct fkv_cluster_register r = reg(0, 200);

	put(0, 1, "k");
	lapse(0);
	r.was = 99;
	ck_assert_int_eq(enter(&r, 0), 0);
	forget_members();
	get(1, 3, "k", -ENOENT);
	ck_assert_uint_eq(master_stats().keys, 0);
	ck_assert_uint_eq(master_stats().used, 0);
}
END_TEST

/* F1: 10 min */
START_TEST(replicas_of_who_stays_away_go_for_good)
{
	put(0, 1, "k");
	lapse(0);
	ck_assert_uint_eq(master_stats().keys, 1);
	pass(602 * FKV_SEC, 0);
	ck_assert_uint_eq(master_stats().keys, 0);
}
END_TEST

START_TEST(suspended_key_is_overwritten_and_deleted)
{
	struct fkv_cluster_register r = reg(0, 200);

	put(0, 1, "k");
	put(0, 2, "d");
	lapse(0);
	start(1, 1, "k", PAGE);
	to(1, FKV_MSG_PUT_PLAN);
	done(1, 1, 0, false);
	to(1, FKV_MSG_PUT_DONE_R);
	from(1, (struct fkv_msg){ .type = FKV_MSG_DELETE, .op = 2 }, "d");
	ck_assert_int_eq(to(1, FKV_MSG_DELETE_R).res, -ENOENT);
	r.was = 100;
	ck_assert_int_eq(enter(&r, 0), 0);
	forget_members();
	get(0, 1, "d", -ENOENT);
	ck_assert_uint_eq(get(0, 3, "k", 0).incarnation, 101);
}
END_TEST

/* F1: what is busy is nobody's until it is reported quiet */
START_TEST(busy_ranges_are_never_given_out_until_quiet)
{
	struct fkv_cluster_range busy[] = {
		{ 0, PAGE }, { 0, PAGE }, { 4 * PAGE, 2 * PAGE },
	};
	struct fkv_cluster_register r = reg(3, 300);

	r.busy = busy;
	r.n = 3;
	ck_assert_int_eq(enter(&r, 3), 0);
	forget_members();
	ck_assert_uint_eq(master_stats().used, 3 * PAGE);
	for (int i = 0; i < 2; i++) {
		ck_assert_uint_eq(master_stats().used, 3 * PAGE);
		from(3, (struct fkv_msg){ .type = FKV_MSG_QUIET, .n = 1 },
		     NULL);
	}
	ck_assert_uint_eq(master_stats().used, 2 * PAGE);
	from(3, (struct fkv_msg){ .type = FKV_MSG_QUIET, .offset = 4 * PAGE,
		.n = 1 }, NULL);
	ck_assert_uint_eq(master_stats().used, 0);
	/* in parts, of which none may be missing */
	r.incarnation = 301;
	r.parts = 2;
	r.part = 1;
	ck_assert_int_eq(enter(&r, 3), -EINVAL);
	core_take(FKV_CMD_END);
	r.part = 0;
	ck_assert_int_eq(enter(&r, 3), 0);
	ck_assert_uint_eq(master_stats().used, 0);
	r.part = 1;
	r.busy = &(struct fkv_cluster_range){ 8 * PAGE, PAGE };
	r.n = 1;
	ck_assert_int_eq(enter(&r, 3), 0);
	forget_members();
	ck_assert_uint_eq(master_stats().used, 4 * PAGE);
}
END_TEST

/* F1, P5: the target of an op is taken until its host has registered again */
START_TEST(target_of_a_tombed_owner_is_free_when_it_registers)
{
	struct fkv_cluster_register r = reg(1, 201);

	put(0, 1, "k");
	get(1, 1, "k", 0);
	lapse(1);
	ck_assert_uint_eq(master_stats().used, 2 * PAGE);
	ck_assert_uint_eq(master_stats().cause_bytes[5], 0);
	r.was = 101;
	ck_assert_int_eq(enter(&r, 1), 0);
	forget_members();
	ck_assert_uint_eq(master_stats().used, PAGE);
}
END_TEST

/* G3: an id missing twice is released, and counted */
START_TEST(op_that_two_heartbeats_do_not_list_is_released)
{
	uint64_t ops[] = { 1 };

	start(0, 1, "k", PAGE);
	to(0, FKV_MSG_PUT_PLAN);
	beat(0, ops, 1);
	beat(0, NULL, 0);
	beat(0, ops, 1);
	beat(0, NULL, 0);
	ck_assert_uint_eq(master_stats().ops, 1);
	beat(0, NULL, 0);
	ck_assert_uint_eq(master_stats().ops, 0);
	ck_assert_uint_eq(master_stats().leaked_ops, 1);
	ck_assert_uint_eq(master_stats().used, 0);
	forget_members();
}
END_TEST

/* G6: only what the source says itself drops a copy */
START_TEST(silent_source_is_suspect_and_a_bad_copy_is_dropped)
{
	struct fkv_msg p, plan;
	struct fkv_route_info info;

	join(0, 200, 1);
	core_take(FKV_CMD_END);
	put_of(0, 1, "k", BIG);
	p = to(0, FKV_MSG_PERSIST);
	from(0, (struct fkv_msg){ .type = FKV_MSG_SSD_COMMIT, .op = 9,
		.put_id = p.put_id, .extent = p.extent, .seq = 3 }, "k");
	to(0, FKV_MSG_SSD_COMMIT_R);
	from(0, (struct fkv_msg){ .type = FKV_MSG_QUIET, .extent = p.extent,
		.n = 1 }, NULL);
	start(0, 2, "filler", SEGMENT / 100 * 84);
	to(0, FKV_MSG_PUT_PLAN);
	ck_assert(master_route("k", &info) && info.ssd && !info.memory);

	plan = get(1, 1, "k", 0);
	ck_assert_uint_eq(plan.source, FLUXONKV_SOURCE_SSD_REMOTE);
	ck_assert_uint_eq(plan.incarnation, 200);
	revoke(1, 1, false, true);
	ck_assert(master_route("k", &info));
	/* the only one there is: tried until it failed 3 times */
	get(1, 2, "k", 0);
	revoke(1, 2, false, true);
	get(1, 3, "k", 0);
	revoke(1, 3, false, true);
	get(1, 4, "k", -EIO);
	/* a while later, a probe */
	pass(6 * FKV_SEC, 9);
	get(1, 5, "k", 0);
	revoke(1, 5, true, false);
	ck_assert(!master_route("k", &info));
	ck_assert_uint_eq(master_stats().ssd_dropped, 1);
}
END_TEST

/* F3: suspects are passed over while another has it */
START_TEST(suspect_is_no_source_while_another_has_the_value)
{
	uint64_t first;

	put(0, 1, "k");
	get(1, 1, "k", 0);
	got(1, 1);
	first = get(2, 1, "k", 0).incarnation;
	revoke(2, 1, false, true);
	for (uint64_t op = 2; op < 6; op++) {
		ck_assert_uint_ne(get(2, op, "k", 0).incarnation, first);
		revoke(2, op, false, false);
	}
}
END_TEST

/* F3: one that cannot reach the source says nothing of who can */
START_TEST(source_that_one_cannot_reach_is_tried_for_others)
{
	uint64_t op = 1;

	put(0, 1, "k");
	for (; op <= FKV_SUSPECT_MAX; op++) {
		get(1, op, "k", 0);
		revoke(1, op, false, true);
	}
	get(1, op, "k", -EIO);
	get(2, 1, "k", 0);
	got(2, 1);
	/* which the first can reach */
	ck_assert_uint_eq(get(1, op + 1, "k", 0).incarnation, 102);
	revoke(1, op + 1, false, true);
	/* nobody has it who is not suspect, and one that may be tried */
	get(2, 2, "k", 0);
}
END_TEST

/* K6f: who did not run expires nobody */
START_TEST(master_that_stood_still_expires_nobody)
{
	core_now += 20 * FKV_SEC;
	master_tick();
	ck_assert_uint_eq(master_stats().members_live, 3);
	core_now += 300 * FKV_MS;
	master_tick();
	ck_assert_uint_eq(master_stats().members_live, 3);
	forget_members();
}
END_TEST

/* an answer for an op of an earlier life is nobody's */
START_TEST(late_answer_for_a_dead_requester_is_void)
{
	struct fkv_msg r1, r2;

	put(1, 1, "k");
	start(0, 1, "k", PAGE);
	to(0, FKV_MSG_PUT_PLAN);
	done(0, 1, 0, false);
	r1 = to(1, FKV_MSG_RETIRE);
	join(0, 200, 0);
	core_take(FKV_CMD_END);
	start(0, 1, "k", PAGE);
	to(0, FKV_MSG_PUT_PLAN);
	done(0, 1, 0, false);
	r2 = to(1, FKV_MSG_RETIRE);
	ck_assert_uint_ne(r1.op, r2.op);
	from(1, (struct fkv_msg){ .type = FKV_MSG_RETIRED, .op = r1.op }, NULL);
	ck_assert(!core_has_msg(FKV_MSG_PUT_DONE_R));
	from(1, (struct fkv_msg){ .type = FKV_MSG_RETIRED, .op = r2.op }, NULL);
	to(0, FKV_MSG_PUT_DONE_R);
}
END_TEST

/* S13: tails are of (owner, shard) */
START_TEST(tail_of_one_owner_drops_nothing_of_another)
{
	struct fkv_route_info info;
	struct fkv_msg p;

	join(0, 200, 1);
	core_take(FKV_CMD_END);
	join(1, 201, 1);
	core_take(FKV_CMD_END);
	put(0, 1, "k");
	p = to(0, FKV_MSG_PERSIST);
	from(0, (struct fkv_msg){ .type = FKV_MSG_SSD_COMMIT, .op = 9,
		.put_id = p.put_id, .extent = p.extent, .seq = 3 }, "k");
	to(0, FKV_MSG_SSD_COMMIT_R);
	from(1, (struct fkv_msg){ .type = FKV_MSG_SSD_TAIL, .seq = 9 }, NULL);
	ck_assert(master_route("k", &info) && info.ssd);
	from(0, (struct fkv_msg){ .type = FKV_MSG_SSD_TAIL, .seq = 4 }, NULL);
	ck_assert(master_route("k", &info) && !info.ssd);
}
END_TEST

/* K6: what the last master granted must be over */
START_TEST(master_that_restarts_registers_nobody_at_first)
{
	struct fkv_master_config cfg = {
		.epoch = 4,
		.serve_from_ns = core_now + FKV_LEASE_MASTER_NS,
	};
	struct fkv_cluster_register r = reg(0, 100);

	fkv_master_free(master);
	ck_assert_int_eq(fkv_master_create(&cfg, &master), 0);
	ck_assert_int_eq(enter(&r, 0), -EAGAIN);
	core_now += FKV_LEASE_MASTER_NS;
	ck_assert_int_eq(enter(&r, 0), 0);
}
END_TEST

START_TEST(members_are_told_of_each_other)
{
	struct fkv_cluster_register r = reg(3, 300);
	struct fkv_cluster_msg m;

	r.address = "h:1";
	ck_assert_int_eq(enter(&r, 3), 0);
	m = core_take(FKV_CMD_CLUSTER).cluster;
	ck_assert_int_eq(m.type, FKV_CLUSTER_REGISTERED);
	ck_assert_uint_eq(m.registered.epoch, 3);
	ck_assert_uint_eq(m.registered.lease_ns, FKV_LEASE_NS);
	for (uint64_t i = 0; i < 3; i++) {
		m = core_take(FKV_CMD_CLUSTER).cluster;
		ck_assert_int_eq(m.type, FKV_CLUSTER_MEMBER);
		ck_assert_uint_eq(m.member.incarnation, 100 + i);
	}
	for (uint32_t i = 0; i < 3; i++) {
		struct fkv_cmd cmd = core_take(FKV_CMD_CLUSTER);

		ck_assert_uint_eq(cmd.peer, peer[i]);
		ck_assert_uint_eq(cmd.cluster.member.incarnation, 300);
		ck_assert_str_eq(cmd.cluster.member.address, "h:1");
		ck_assert(!cmd.cluster.member.gone);
	}
}
END_TEST

static void teardown(void)
{
	forget_members();
	core_drop_all();
	master_teardown();
}

int main(void)
{
	Suite *s = suite_create("master_members");
	TCase *tc = tcase_create("core");
	SRunner *sr = srunner_create(s);
	int failed;

	tcase_add_checked_fixture(tc, setup, teardown);
	tcase_add_test(tc,
		value_elsewhere_is_pulled_and_kept_while_there_is_room);
	tcase_add_test(tc, value_elsewhere_is_temporary_until_wanted_again);
	tcase_add_test(tc, overwrite_waits_for_every_owner_with_a_replica);
	tcase_add_test(tc, end_of_a_lease_answers_for_its_owner);
	tcase_add_test(tc, put_goes_to_an_owner_with_ssd_when_here_is_none);
	tcase_add_test(tc, target_of_a_put_that_failed_is_fenced);
	tcase_add_test(tc, target_of_a_dead_writer_is_fenced);
	tcase_add_test(tc, put_that_cannot_be_pushed_stays_where_it_is);
	tcase_add_test(tc, put_whose_target_dies_stays_where_it_is);
	tcase_add_test(tc, replicas_of_a_tombed_owner_are_hidden_and_revived);
	tcase_add_test(tc, replicas_of_other_memory_are_gone);
	tcase_add_test(tc, replicas_of_who_stays_away_go_for_good);
	tcase_add_test(tc, suspended_key_is_overwritten_and_deleted);
	tcase_add_test(tc, busy_ranges_are_never_given_out_until_quiet);
	tcase_add_test(tc, target_of_a_tombed_owner_is_free_when_it_registers);
	tcase_add_test(tc, op_that_two_heartbeats_do_not_list_is_released);
	tcase_add_test(tc, silent_source_is_suspect_and_a_bad_copy_is_dropped);
	tcase_add_test(tc, suspect_is_no_source_while_another_has_the_value);
	tcase_add_test(tc, source_that_one_cannot_reach_is_tried_for_others);
	tcase_add_test(tc, master_that_stood_still_expires_nobody);
	tcase_add_test(tc, late_answer_for_a_dead_requester_is_void);
	tcase_add_test(tc, tail_of_one_owner_drops_nothing_of_another);
	tcase_add_test(tc, members_are_told_of_each_other);
	tcase_add_test(tc, master_that_restarts_registers_nobody_at_first);
	suite_add_tcase(s, tc);
	srunner_run_all(sr, CK_ENV);
	failed = srunner_ntests_failed(sr);
	srunner_free(sr);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
