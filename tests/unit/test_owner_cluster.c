// SPDX-License-Identifier: Apache-2.0
#include <check.h>
#include <stdlib.h>

#include "owner_driver.h"

/* A session with a master of that epoch begins; what it registers with. */
static struct fkv_cluster_register begin(uint64_t incarnation, uint64_t epoch)
{
	struct fkv_in in = {
		.type = FKV_IN_SESSION,
		.incarnation = incarnation,
		.n = epoch,
	};
	struct fkv_cluster_msg msg;

	owner_step(&in);
	msg = core_take(FKV_CMD_CLUSTER).cluster;
	ck_assert_int_eq(msg.type, FKV_CLUSTER_REGISTER);
	core_take_msg(FKV_MSG_SSD_TAIL);
	return msg.reg;
}

static void told(const struct fkv_cluster_msg *msg)
{
	struct fkv_in in = { .type = FKV_IN_CLUSTER, .cluster = msg };

	owner_step(&in);
}

static void accepted(void)
{
	struct fkv_cluster_msg msg = {
		.type = FKV_CLUSTER_REGISTERED,
		.registered = { .epoch = 3, .lease_ns = FKV_LEASE_NS },
	};

	told(&msg);
}

static void setup(void)
{
	owner_setup_cluster();
	begin(11, 3);
	accepted();
}

static void end(void)
{
	struct fkv_in in = { .type = FKV_IN_SESSION_END };

	owner_step(&in);
	core_take(FKV_CMD_STOP);
}

static void stopped(void)
{
	struct fkv_in in = { .type = FKV_IN_STOPPED };

	owner_step(&in);
}

static void moved(uint64_t token, int res, bool said)
{
	struct fkv_in in = {
		.type = FKV_IN_MOVED,
		.token = token,
		.res = res,
		.said = said,
	};

	owner_step(&in);
}

/* F0, F1 */
START_TEST(registration_says_who_and_what)
{
	struct fkv_cluster_register r;

	end();
	stopped();
	core_take(FKV_CMD_JOIN);
	r = begin(12, 3);
	ck_assert_str_eq(r.name, "me");
	ck_assert_uint_eq(r.incarnation, 12);
	ck_assert_uint_eq(r.was, 11);
	ck_assert_uint_eq(r.segment_bytes, 16384 * PAGE);
	ck_assert_uint_eq(r.ssd_devices, 1);
	ck_assert_uint_eq(r.ssd_shards, 1);
	ck_assert_uint_eq(r.n, 0);
	ck_assert_uint_eq(r.parts, 1);
	/* never accepted: what was kept is that of the one before */
	end();
	stopped();
	core_take(FKV_CMD_JOIN);
	ck_assert_uint_eq(begin(13, 3).was, 11);
	accepted();
	/* another master knows nothing of it */
	end();
	stopped();
	core_take(FKV_CMD_JOIN);
	ck_assert_uint_eq(begin(14, 4).was, 0);
}
END_TEST

START_TEST(calls_wait_for_the_next_session)
{
	uint64_t op;

	owner_ask(FLUXONKV_OP_STAT, "s");
	core_take_msg(FKV_MSG_STAT);
	end();
	owner_ask(FLUXONKV_OP_GET, "k");
	owner_begin(CLIENT, "p", PAGE, TIMEOUT);
	owner_ask(FLUXONKV_OP_DELETE, "d");
	ck_assert(!core_has(FKV_CMD_SEND));
	stopped();
	core_take(FKV_CMD_JOIN);
	begin(12, 3);
	core_take_msg(FKV_MSG_STAT);
	core_take_msg(FKV_MSG_DELETE);
	core_take_msg(FKV_MSG_PUT_START);
	op = owner_asked("k");
	owner_plan(op, FLUXONKV_SOURCE_LOCAL, 5, PAGE, 3, true);
	ck_assert_uint_eq(owner_result(0).version, 5);
	core_take(FKV_CMD_PUBLISH);
	owner_pinned(PAGE);
	core_drop_all();
}
END_TEST

/* A23: who is no master, or of another mind, cannot end an owner */
START_TEST(answers_that_nobody_waits_for_end_the_session)
{
	static const struct fkv_msg bad[] = {
		{ .type = FKV_MSG_GET_PLAN, .op = 99 },
		{ .type = FKV_MSG_GET_DONE_R, .op = 99 },
		{ .type = FKV_MSG_PUT_PLAN, .op = 99 },
		{ .type = FKV_MSG_PUT_DONE_R, .op = 99 },
		{ .type = FKV_MSG_STAT_R, .op = 99 },
		{ .type = FKV_MSG_SSD_COMMIT_R, .op = 99 },
		{ .type = FKV_MSG_EXPOSE, .op = 1, .offset = 1ULL << 50,
		  .len = 4096 },
		{ .type = FKV_MSG_EXPOSE, .op = 1, .offset = 4096,
		  .len = UINT64_MAX },
		{ .type = FKV_MSG_PUT_START, .op = 1 },
	};

	for (size_t i = 0; i < FKV_ARRAY_SIZE(bad); i++) {
		struct fkv_msg msg = bad[i];
		struct fkv_in in = { .type = FKV_IN_MSG, .msg = &msg };

		owner_step(&in);
		core_take(FKV_CMD_END);
	}
}
END_TEST

/* F1: what is pinned is busy, once for each that holds it */
START_TEST(held_values_are_busy_until_they_are_quiet)
{
	struct fkv_entry *e = owner_put("k", PAGE, 7, 5);
	uint64_t id = owner_hold("k", PAGE);
	struct fkv_cluster_register r;
	struct fkv_msg quiet;

	end();
	ck_assert_ptr_eq(core_take(FKV_CMD_RETIRE).entry, e);
	owner_scanned(e);
	stopped();
	core_take(FKV_CMD_JOIN);
	r = begin(12, 3);
	ck_assert_uint_eq(r.n, 1);
	ck_assert_uint_eq(r.busy[0].offset, 7 * PAGE);
	ck_assert_uint_eq(r.busy[0].len, PAGE);
	owner_release(id);
	quiet = core_take_msg(FKV_MSG_QUIET);
	ck_assert_uint_eq(quiet.extent, 0);
	ck_assert_uint_eq(quiet.offset, 7 * PAGE);
	ck_assert_uint_eq(quiet.n, 1);
}
END_TEST

/* F0: nobody knows */
START_TEST(commit_and_delete_under_way_are_unknown)
{
	uint64_t id = owner_open(CLIENT, "k", PAGE, 3);

	owner_ask_id(FLUXONKV_OP_PUT_COMMIT, CLIENT, id, 0);
	core_take_msg(FKV_MSG_PUT_DONE);
	owner_ask(FLUXONKV_OP_DELETE, "d");
	core_take_msg(FKV_MSG_DELETE);
	end();
	for (int i = 0; i < 2; i++) {
		struct reply r = owner_reply();

		ck_assert_int_eq(r.res[0].status, -ETIMEDOUT);
		ck_assert_ptr_nonnull(strstr(r.text, "not known"));
	}
}
END_TEST

/* P5: its client may still write */
START_TEST(open_put_is_lost_and_its_extent_busy)
{
	uint64_t id = owner_open(CLIENT, "k", 2 * PAGE, 3);
	struct fkv_cluster_register r;

	end();
	ck_assert_uint_eq(core_take(FKV_CMD_SHUT).token, id);
	stopped();
	core_take(FKV_CMD_JOIN);
	r = begin(12, 3);
	ck_assert_uint_eq(r.n, 1);
	ck_assert_uint_eq(r.busy[0].offset, 3 * PAGE);
	ck_assert_uint_eq(r.busy[0].len, 2 * PAGE);
	owner_ask_id(FLUXONKV_OP_PUT_COMMIT, CLIENT, id, 0);
	ck_assert_int_eq(owner_reply().res[0].status, -ESTALE);
	ck_assert_uint_eq(core_take_msg(FKV_MSG_QUIET).offset, 3 * PAGE);
}
END_TEST

static struct fkv_cmd pulled(const char *key)
{
	uint64_t op;

	owner_ask(FLUXONKV_OP_GET, key);
	op = owner_asked(key);
	owner_msg((struct fkv_msg){
		.type = FKV_MSG_GET_PLAN,
		.op = op,
		.source = FLUXONKV_SOURCE_MEMORY_REMOTE,
		.put_id = 5,
		.len = PAGE,
		.extent = 9,
		.offset = 9 * PAGE,
		.incarnation = 77,
		.remote = 40 * PAGE,
	}, NULL);
	return core_take(FKV_CMD_PULL);
}

/* G3.1, K6e */
START_TEST(value_elsewhere_is_pulled_and_told_done_by_who_wants_it)
{
	struct fkv_cmd cmd = pulled("k");
	struct fluxonkv_result r;

	ck_assert_uint_eq(cmd.from, 40 * PAGE);
	ck_assert_uint_eq(cmd.offset, 9 * PAGE);
	ck_assert_uint_eq(cmd.xfer.incarnation, 77);
	moved(cmd.token, 0, false);
	ck_assert_uint_eq(core_take_msg(FKV_MSG_GET_DONE).op, cmd.token);
	owner_msg((struct fkv_msg){ .type = FKV_MSG_GET_DONE_R,
		.op = cmd.token, .grant = true }, NULL);
	core_take(FKV_CMD_PUBLISH);
	r = owner_result(0);
	ck_assert_uint_eq(r.source, FLUXONKV_SOURCE_MEMORY_REMOTE);
	ck_assert_uint_eq(r.offset, 9 * PAGE);
	owner_pinned(PAGE);
	ck_assert_uint_eq(owner_stats().hits_memory_remote, 1);
}
END_TEST

/* 2 s; G3: nothing is given back before the transfer has ended */
START_TEST(transfer_without_progress_is_cancelled_and_its_source_suspect)
{
	struct fkv_cmd cmd = pulled("k");
	struct fkv_in in = { .type = FKV_IN_PROGRESS, .token = cmd.token };
	struct fkv_msg msg;

	core_now += 1900 * FKV_MS;
	owner_step(&in);
	owner_tick(1900 * FKV_MS);
	ck_assert(!core_has(FKV_CMD_CANCEL));
	core_drop_all();
	owner_tick(200 * FKV_MS);
	core_now += 1;
	ck_assert_uint_eq(core_take(FKV_CMD_CANCEL).token, cmd.token);
	ck_assert(!core_has_msg(FKV_MSG_GET_REVOKE));
	moved(cmd.token, -ECANCELED, false);
	msg = core_take_msg(FKV_MSG_GET_REVOKE);
	ck_assert(msg.suspect && !msg.drop);
	core_drop_all();
}
END_TEST

/* G3.5 */
START_TEST(transfer_that_ends_for_anothers_sake_does_not_count)
{
	for (int i = 0; i < 5; i++) {
		struct fkv_cmd cmd;
		struct fkv_msg msg;
		uint64_t op;

		if (!i) {
			cmd = pulled("k");
		} else {
			op = owner_asked("k");
			owner_msg((struct fkv_msg){
				.type = FKV_MSG_GET_PLAN,
				.op = op,
				.source = FLUXONKV_SOURCE_MEMORY_REMOTE,
				.put_id = 5,
				.len = PAGE,
				.extent = 9,
				.offset = 9 * PAGE,
				.incarnation = 77,
			}, NULL);
			cmd = core_take(FKV_CMD_PULL);
		}
		moved(cmd.token, -ECANCELED, false);
		msg = core_take_msg(FKV_MSG_GET_REVOKE);
		ck_assert(!msg.suspect && !msg.drop);
	}
	core_drop_all();
}
END_TEST

/* G6 */
START_TEST(only_a_source_that_says_so_is_bad)
{
	static const struct {
		int res;
		bool said, drop, suspect;
	} ends[] = {
		{ -EIO, true, true, false },
		{ -ENOENT, true, true, false },
		{ -EIO, false, false, true },
		{ -ESHUTDOWN, true, false, false },
	};

	for (size_t i = 0; i < FKV_ARRAY_SIZE(ends); i++) {
		struct fkv_cmd cmd;
		struct fkv_msg msg;

		owner_ask(FLUXONKV_OP_GET, "k");
		owner_msg((struct fkv_msg){
			.type = FKV_MSG_GET_PLAN,
			.op = owner_asked("k"),
			.source = FLUXONKV_SOURCE_SSD_REMOTE,
			.put_id = 5,
			.len = PAGE,
			.extent = 9,
			.offset = 9 * PAGE,
			.incarnation = 77,
		}, NULL);
		cmd = core_take(FKV_CMD_STAGE);
		ck_assert_uint_eq(cmd.xfer.put_id, 5);
		moved(cmd.token, ends[i].res, ends[i].said);
		msg = core_take_msg(FKV_MSG_GET_REVOKE);
		ck_assert(msg.drop == ends[i].drop);
		ck_assert(msg.suspect == ends[i].suspect);
		owner_refuse(FKV_MSG_GET_PLAN, owner_asked("k"), -EAGAIN);
		owner_reply();
	}
}
END_TEST

/* who joined late may have begun after the version's end */
START_TEST(late_joiner_of_a_replaced_version_asks_again)
{
	struct fkv_cmd cmd = pulled("k");

	owner_ask(FLUXONKV_OP_GET, "k");
	moved(cmd.token, 0, false);
	core_take_msg(FKV_MSG_GET_DONE);
	owner_msg((struct fkv_msg){ .type = FKV_MSG_GET_DONE_R,
		.op = cmd.token, .drop = true }, NULL);
	ck_assert_uint_eq(owner_result(0).version, 5);
	ck_assert(!core_has(FKV_CMD_REPLY));
	owner_refuse(FKV_MSG_GET_PLAN, owner_asked("k"), -ENOENT);
	ck_assert_int_eq(owner_reply().res[0].status, -ENOENT);
}
END_TEST

/* F1: what is under way must have ended before another life begins */
START_TEST(no_new_session_while_a_transfer_runs)
{
	struct fkv_cmd cmd = pulled("k");

	end();
	stopped();
	ck_assert(!core_has(FKV_CMD_JOIN));
	moved(cmd.token, -ECANCELED, false);
	core_take(FKV_CMD_JOIN);
	ck_assert(!core_has(FKV_CMD_SEND));
	begin(12, 3);
	owner_refuse(FKV_MSG_GET_PLAN, owner_asked("k"), -ENOENT);
	owner_reply();
}
END_TEST

/* G3, K6f */
START_TEST(heartbeat_lists_ops_and_a_lease_counts_from_its_sending)
{
	struct fkv_cluster_msg reply = {
		.type = FKV_CLUSTER_HEARTBEAT_REPLY,
		.heartbeat_reply = { .lease_ns = FKV_LEASE_NS },
	};
	struct fkv_cluster_msg beat;
	uint64_t op, sent;

	ck_assert_uint_eq(fkv_owner_lease(owner), core_now + FKV_LEASE_NS);
	owner_ask(FLUXONKV_OP_GET, "k");
	op = owner_asked("k");
	owner_tick(FKV_HEARTBEAT_NS);
	sent = core_now;
	beat = core_take(FKV_CMD_CLUSTER).cluster;
	ck_assert_int_eq(beat.type, FKV_CLUSTER_HEARTBEAT);
	ck_assert_uint_eq(beat.heartbeat.n, 1);
	ck_assert_uint_eq(beat.heartbeat.ops[0], op);
	core_now += 100 * FKV_MS;
	reply.heartbeat_reply.seq = beat.heartbeat.seq;
	told(&reply);
	ck_assert_uint_eq(fkv_owner_lease(owner), sent + FKV_LEASE_NS);
	/* one that was never sent */
	reply.heartbeat_reply.seq += 5;
	core_now += 100 * FKV_MS;
	told(&reply);
	ck_assert_uint_eq(fkv_owner_lease(owner), sent + FKV_LEASE_NS);
	reply.heartbeat_reply.res = -ESTALE;
	told(&reply);
	core_take(FKV_CMD_END);
	core_drop_all();
}
END_TEST

/* without memory there is no session yet, and nothing else happens */
START_TEST(registration_without_memory_is_for_the_next_session)
{
	struct fkv_in in = { .type = FKV_IN_SESSION, .incarnation = 12, .n = 3 };
	struct fkv_in over = { .type = FKV_IN_SESSION_END };
	uint64_t id;

	owner_put("k", PAGE, 7, 5);
	id = owner_hold("k", PAGE);
	owner_ask(FLUXONKV_OP_GET, "x");
	owner_asked("x");
	end();
	core_take(FKV_CMD_RETIRE);
	stopped();
	core_take(FKV_CMD_JOIN);
	core_fail_alloc(1);
	owner_step(&in);
	ck_assert(core_alloc_failed());
	core_take(FKV_CMD_END);
	ck_assert(!core_has(FKV_CMD_CLUSTER));
	owner_step(&over);
	core_take(FKV_CMD_STOP);
	stopped();
	core_take(FKV_CMD_JOIN);
	ck_assert_uint_eq(begin(13, 3).was, 11);
	owner_asked("x");
	owner_release(id);
	core_drop_all();
}
END_TEST

static uint64_t open_remote(void)
{
	struct fkv_msg start;

	owner_begin(CLIENT, "k", PAGE, TIMEOUT);
	start = core_take_msg(FKV_MSG_PUT_START);
	owner_msg((struct fkv_msg){
		.type = FKV_MSG_PUT_PLAN,
		.op = start.op,
		.extent = 3,
		.offset = 3 * PAGE,
		.incarnation = 77,
		.remote = 50 * PAGE,
	}, NULL);
	return owner_result(0).id;
}

/* G3.2, P3 */
START_TEST(put_at_another_owner_is_pushed_before_it_is_done)
{
	uint64_t id = open_remote();
	struct fkv_cmd cmd;

	owner_ask_id(FLUXONKV_OP_PUT_COMMIT, CLIENT, id, 0);
	ck_assert(!core_has_msg(FKV_MSG_PUT_DONE));
	cmd = core_take(FKV_CMD_PUSH);
	ck_assert_uint_eq(cmd.from, 3 * PAGE);
	ck_assert_uint_eq(cmd.offset, 50 * PAGE);
	ck_assert_uint_eq(cmd.xfer.op, id);
	ck_assert(cmd.xfer.last && !cmd.xfer.staged);
	moved(id, 0, false);
	ck_assert_int_eq(core_take_msg(FKV_MSG_PUT_DONE).res, 0);
	owner_msg((struct fkv_msg){ .type = FKV_MSG_PUT_DONE_R, .op = id,
		.extent = 3, .put_id = 8 }, NULL);
	ck_assert_uint_eq(owner_result(0).version, 8);
	/* nobody holds what it was staged in */
	ck_assert_uint_eq(core_take_msg(FKV_MSG_QUIET).extent, 3);
	ck_assert(!core_has(FKV_CMD_PUBLISH));
}
END_TEST

START_TEST(push_that_fails_is_told_and_its_host_suspect)
{
	uint64_t id = open_remote();
	struct fkv_msg msg;

	owner_ask_id(FLUXONKV_OP_PUT_COMMIT, CLIENT, id, 0);
	core_take(FKV_CMD_PUSH);
	moved(id, -ECONNRESET, false);
	msg = core_take_msg(FKV_MSG_PUT_DONE);
	ck_assert_int_eq(msg.res, -ECONNRESET);
	ck_assert(msg.suspect);
	owner_msg((struct fkv_msg){ .type = FKV_MSG_PUT_DONE_R, .op = id,
		.extent = 3, .put_id = 8, .grant = true }, NULL);
	core_take(FKV_CMD_PUBLISH);
	owner_result(0);
}
END_TEST

/* G3.3, G3.4 */
START_TEST(target_is_open_before_it_is_told_and_fenced_when_asked)
{
	struct fkv_in in = { .type = FKV_IN_FENCED };
	struct fkv_cmd cmd;

	owner_msg((struct fkv_msg){ .type = FKV_MSG_EXPOSE, .op = 4,
		.incarnation = 66, .ticket = 99, .extent = 5,
		.offset = 5 * PAGE, .len = PAGE }, NULL);
	ck_assert_uint_eq(core_out.cmds[0].type, FKV_CMD_OPEN);
	cmd = core_take(FKV_CMD_OPEN);
	ck_assert_uint_eq(cmd.xfer.op, 4);
	ck_assert_uint_eq(cmd.xfer.incarnation, 66);
	ck_assert_uint_eq(core_take_msg(FKV_MSG_EXPOSED).ticket, 99);
	owner_msg((struct fkv_msg){ .type = FKV_MSG_FENCE, .op = 4,
		.incarnation = 66, .extent = 5 }, NULL);
	in.token = core_take(FKV_CMD_FENCE).token;
	ck_assert(!core_has_msg(FKV_MSG_FENCED));
	owner_step(&in);
	ck_assert_uint_eq(core_take_msg(FKV_MSG_FENCED).extent, 5);
}
END_TEST

/* ---- pieces for peers (G5) ---- */

#define LEN	(2 * FKV_CHUNK + FKV_MIB)
#define SUMS	9

static uint64_t sums[SUMS];

static void on_ssd(bool good)
{
	uint64_t seed = fkv_sum_seed("k", 1, 5, LEN);

	for (uint64_t i = 0; i < SUMS; i++)
		sums[i] = i + 1;
	owner_on_ssd("k", 5, LEN, fkv_sum_chunks_final(seed, sums, SUMS) +
		     !good);
}

static void ask_push(uint64_t put_id)
{
	struct fkv_cluster_stage_read st = {
		.op = 4,
		.key = core_key("k"),
		.put_id = put_id,
		.len = LEN,
		.incarnation = 66,
		.offset = 100 * PAGE,
		.slot = 2,
		.generation = 8,
	};
	struct fkv_in in = {
		.type = FKV_IN_STAGE,
		.token = 31,
		.stage = &st,
	};

	owner_step(&in);
}

static void read_done(const struct fkv_cmd *cmd, int res)
{
	struct fkv_in in = {
		.type = FKV_IN_IO_DONE,
		.token = cmd->token,
		.res = res,
		.sums = &sums[cmd->from / FKV_SUM_CHUNK],
	};

	owner_step(&in);
}

static struct fkv_cmd reading(uint64_t piece)
{
	struct fkv_cmd cmd = core_take(FKV_CMD_READ);

	ck_assert(cmd.io.part);
	ck_assert_uint_eq(cmd.from, piece * FKV_CHUNK);
	ck_assert_uint_eq(cmd.len, piece < 2 ? FKV_CHUNK : FKV_MIB);
	ck_assert_uint_ge(cmd.offset, 16384 * PAGE);
	return cmd;
}

static struct fkv_cmd pushing(uint64_t piece)
{
	struct fkv_cmd cmd = core_take(FKV_CMD_PUSH);

	ck_assert_uint_eq(cmd.offset, 100 * PAGE + piece * FKV_CHUNK);
	ck_assert(cmd.xfer.staged && cmd.xfer.last == (piece == 2));
	ck_assert_uint_eq(cmd.xfer.generation, 8);
	ck_assert_uint_eq(cmd.xfer.slot, 2);
	ck_assert_uint_eq(cmd.xfer.op, 4);
	return cmd;
}

static void answered(int res, uint64_t len)
{
	struct fkv_cmd cmd = core_take(FKV_CMD_PUSHED);

	ck_assert_uint_eq(cmd.token, 31);
	ck_assert_int_eq(cmd.res, res);
	ck_assert_uint_eq(cmd.len, len);
	ck_assert_uint_eq(owner_stats().stages, 0);
}

/* no free buffer holds reads back; pushes keep the order */
START_TEST(pieces_are_read_ahead_and_pushed_in_order)
{
	struct fkv_cmd r0, r1, r2, p0, p1, p2;

	on_ssd(true);
	ask_push(5);
	r0 = reading(0);
	r1 = reading(1);
	ck_assert(!core_has(FKV_CMD_READ));
	read_done(&r1, 0);
	ck_assert(!core_has(FKV_CMD_PUSH));
	read_done(&r0, 0);
	p0 = pushing(0);
	p1 = pushing(1);
	moved(p0.token, 0, false);
	r2 = reading(2);
	read_done(&r2, 0);
	p2 = pushing(2);
	moved(p2.token, 0, false);
	ck_assert(!core_has(FKV_CMD_PUSHED));
	moved(p1.token, 0, false);
	answered(0, LEN);
}
END_TEST

/* S7: the last piece is what makes it complete */
START_TEST(bad_checksum_keeps_the_last_piece_back)
{
	struct fkv_cmd r, p0, p1;

	on_ssd(false);
	ask_push(5);
	r = reading(0);
	read_done(&r, 0);
	p0 = pushing(0);
	r = reading(1);
	read_done(&r, 0);
	p1 = pushing(1);
	moved(p0.token, 0, false);
	r = reading(2);
	read_done(&r, 0);
	ck_assert(!core_has(FKV_CMD_PUSH));
	core_take_msg(FKV_MSG_SSD_LOST);
	ck_assert(!core_has(FKV_CMD_PUSHED));
	moved(p1.token, 0, false);
	answered(-EBADMSG, 2 * FKV_CHUNK);
	ask_push(5);
	answered(-ENOENT, 0);
	core_drop_all();
}
END_TEST

START_TEST(what_was_started_is_drained_before_an_error_is_told)
{
	struct fkv_cmd r0, r1;

	on_ssd(true);
	ask_push(5);
	r0 = reading(0);
	r1 = reading(1);
	read_done(&r1, -EIO);
	core_take_msg(FKV_MSG_SSD_LOST);
	ck_assert(!core_has(FKV_CMD_PUSHED));
	read_done(&r0, 0);
	ck_assert(!core_has(FKV_CMD_PUSH));
	answered(-EIO, 0);
	core_drop_all();
}
END_TEST

START_TEST(push_that_fails_says_nothing_of_the_copy)
{
	struct fkv_cmd r0, r1, p0;

	on_ssd(true);
	ask_push(5);
	r0 = reading(0);
	r1 = reading(1);
	read_done(&r0, 0);
	p0 = pushing(0);
	moved(p0.token, -EPIPE, false);
	read_done(&r1, 0);
	answered(-ECONNRESET, 0);
	ask_push(6);
	answered(-ENOENT, 0);
	core_drop_all();
}
END_TEST

START_TEST(push_without_progress_is_cancelled)
{
	struct fkv_cmd r0, r1, p0;

	on_ssd(true);
	ask_push(5);
	r0 = reading(0);
	r1 = reading(1);
	read_done(&r0, 0);
	p0 = pushing(0);
	owner_tick(FKV_XFER_STALL_NS);
	ck_assert_uint_eq(core_take(FKV_CMD_CANCEL).token, p0.token);
	moved(p0.token, -ECANCELED, false);
	read_done(&r1, 0);
	answered(-ECONNRESET, 0);
	core_drop_all();
}
END_TEST

START_TEST(end_of_a_session_ends_pushes_for_peers)
{
	struct fkv_cmd r0, r1;

	on_ssd(true);
	ask_push(5);
	r0 = reading(0);
	r1 = reading(1);
	end();
	stopped();
	read_done(&r0, 0);
	ck_assert(!core_has(FKV_CMD_JOIN));
	read_done(&r1, 0);
	answered(-ESHUTDOWN, 0);
	core_take(FKV_CMD_JOIN);
	ask_push(5);
	answered(-ESHUTDOWN, 0);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("owner_cluster");
	TCase *tc = tcase_create("core");
	SRunner *sr = srunner_create(s);
	int failed;

	tcase_add_checked_fixture(tc, setup, owner_teardown);
	tcase_add_test(tc, registration_says_who_and_what);
	tcase_add_test(tc, calls_wait_for_the_next_session);
	tcase_add_test(tc, answers_that_nobody_waits_for_end_the_session);
	tcase_add_test(tc, held_values_are_busy_until_they_are_quiet);
	tcase_add_test(tc, commit_and_delete_under_way_are_unknown);
	tcase_add_test(tc, open_put_is_lost_and_its_extent_busy);
	tcase_add_test(tc,
		value_elsewhere_is_pulled_and_told_done_by_who_wants_it);
	tcase_add_test(tc,
		transfer_without_progress_is_cancelled_and_its_source_suspect);
	tcase_add_test(tc,
		transfer_that_ends_for_anothers_sake_does_not_count);
	tcase_add_test(tc, only_a_source_that_says_so_is_bad);
	tcase_add_test(tc, late_joiner_of_a_replaced_version_asks_again);
	tcase_add_test(tc, no_new_session_while_a_transfer_runs);
	tcase_add_test(tc,
		heartbeat_lists_ops_and_a_lease_counts_from_its_sending);
	tcase_add_test(tc,
		registration_without_memory_is_for_the_next_session);
	tcase_add_test(tc, put_at_another_owner_is_pushed_before_it_is_done);
	tcase_add_test(tc, push_that_fails_is_told_and_its_host_suspect);
	tcase_add_test(tc,
		target_is_open_before_it_is_told_and_fenced_when_asked);
	tcase_add_test(tc, pieces_are_read_ahead_and_pushed_in_order);
	tcase_add_test(tc, bad_checksum_keeps_the_last_piece_back);
	tcase_add_test(tc,
		what_was_started_is_drained_before_an_error_is_told);
	tcase_add_test(tc, push_that_fails_says_nothing_of_the_copy);
	tcase_add_test(tc, push_without_progress_is_cancelled);
	tcase_add_test(tc, end_of_a_session_ends_pushes_for_peers);
	suite_add_tcase(s, tc);
	srunner_run_all(sr, CK_ENV);
	failed = srunner_ntests_failed(sr);
	srunner_free(sr);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
