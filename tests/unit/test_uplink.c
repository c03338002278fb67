// SPDX-License-Identifier: Apache-2.0
/*
 * An owner's place in a cluster, without an owner: what the core would hear is
 * recorded, and the master is no more than a node of rpc.h.
 */
#include <check.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "svc/uplink.h"
#include "wait_for.h"

#define SEGMENT		(8 * FKV_MIB)
#define HEARD_MAX	64

static uv_loop_t loop;
static struct fkv_config cfg;
static struct fkv_uplink *uplink;
static void *segment;
static char err[200], master_at[32];

/* What the core heard. */
static unsigned int heard[FKV_IN_STAGE + 1];
static struct fkv_in session, msg_in;

/* The master, and what it heard. */
static struct master {
	struct fkv_rpc *rpc;
	struct fkv_rpc_peer *owner;
	unsigned int ups, frames, registers, heartbeats;
	unsigned int before_beat;	/* frames */
	uint32_t of_frame[HEARD_MAX];	/* messages */
	uint32_t epoch_seen;
	enum fkv_cluster_type last;
} m;

static void spin(void)
{
	spin_loop(&loop);
}

#define wait_for(cond)	wait_by(spin(), cond)

/* ---- the master ---- */

static int on_accept(void *arg, const char *name, uint64_t incarnation)
{
	(void)arg;
	(void)incarnation;
	ck_assert_str_eq(name, "o");
	return 0;
}

static void on_up(void *arg, struct fkv_rpc_peer *p)
{
	(void)arg;
	m.owner = p;
	m.ups++;
}

static void on_down(void *arg, struct fkv_rpc_peer *p, const char *why)
{
	(void)arg;
	(void)p;
	(void)why;
}

static void on_ended(void *arg, struct fkv_rpc_peer *p, int why)
{
	(void)arg;
	(void)why;
	if (m.owner == p)
		m.owner = NULL;
}

static void on_message(void *arg, struct fkv_rpc_peer *p, const void *data,
		       size_t len)
{
	struct fkv_cluster_msg msg;
	const char *why;

	(void)arg;
	(void)p;
	ck_assert_int_eq(fkv_cluster_decode(data, len, fkv_clock_ns(), &msg,
					    &why), 0);
	m.last = msg.type;
	if (msg.type == FKV_CLUSTER_BATCH)
		m.of_frame[m.frames++ % HEARD_MAX] = msg.batch.n;
	if (msg.type == FKV_CLUSTER_HEARTBEAT) {
		m.heartbeats++;
		m.before_beat = m.frames;
	}
	if (msg.type == FKV_CLUSTER_REGISTER) {
		m.registers++;
		m.epoch_seen = msg.reg.epoch_seen;
	}
	fkv_cluster_msg_done(&msg);
}

static void on_request(void *arg, struct fkv_rpc_peer *p,
		       const struct fkv_rpc_ask *ask, const void *data,
		       size_t len)
{
	(void)arg;
	(void)p;
	(void)ask;
	(void)data;
	(void)len;
}

static const struct fkv_rpc_ops ops = {
	.accept = on_accept, .up = on_up, .down = on_down, .ended = on_ended,
	.message = on_message, .request = on_request,
};

static void master_start(uint64_t epoch)
{
	struct fkv_rpc_config rc = {
		.self = { .cluster = "local", .name = "m",
			  .incarnation = epoch },
		.ops = &ops,
	};
	struct sockaddr_storage at;

	ck_assert_int_eq(fkv_rpc_create(&loop, &rc, &m.rpc), 0);
	ck_assert_int_eq(fkv_rpc_address(*master_at ? master_at :
					 "127.0.0.1:0", &at), 0);
	ck_assert_int_eq(fkv_rpc_listen(m.rpc, (struct sockaddr *)&at), 0);
	snprintf(master_at, sizeof(master_at), "127.0.0.1:%u",
		 fkv_rpc_port(m.rpc));
}

static void master_stop(void)
{
	if (!m.rpc)
		return;
	fkv_rpc_close_all(m.rpc);
	wait_for(fkv_rpc_is_closed(m.rpc));
	fkv_rpc_free(m.rpc);
	m.rpc = NULL;
	m.owner = NULL;
}

static void answer(const struct fkv_cluster_msg *msg)
{
	static struct fkv_batch_out made;

	if (!made.buf)
		ck_assert_int_eq(fkv_batch_out_init(&made), 0);
	ck_assert_int_eq(fkv_batch_say(msg, m.owner, &made, fkv_clock_ns()), 0);
}

/* ---- the core ---- */

static void on_input(void *arg, const struct fkv_in *in)
{
	(void)arg;
	heard[in->type]++;
	if (in->type == FKV_IN_SESSION)
		session = *in;
	if (in->type == FKV_IN_MSG) {
		msg_in = *in;
		fkv_msg_done(in->msg);
	}
}

static void command(enum fkv_cmd_type type)
{
	struct fkv_cmd cmd = { .type = type };

	ck_assert(fkv_uplink_command(uplink, &cmd));
}

static void say_many(unsigned int n, enum fkv_msg_type type)
{
	struct fkv_cmd cmd = { .type = FKV_CMD_SEND };

	for (unsigned int i = 0; i < n; i++) {
		cmd.msg = (struct fkv_msg){
			.type = type, .op = i + 1, .extent = i + 1, .n = 1,
			.key = type == FKV_MSG_STAT ?
				fkv_key_create("key", 3) : NULL,
		};
		ck_assert(fkv_uplink_command(uplink, &cmd));
	}
}

static void say_cluster(enum fkv_cluster_type type)
{
	struct fkv_cmd cmd = {
		.type = FKV_CMD_CLUSTER,
		.cluster = { .type = type },
	};

	if (type == FKV_CLUSTER_HEARTBEAT)
		cmd.cluster.heartbeat.parts = 1;
	else
		cmd.cluster.reg = (struct fkv_cluster_register){
			.name = "o", .incarnation = session.incarnation,
			.epoch_seen = 99, .segment_bytes = SEGMENT,
			.parts = 1,
		};
	ck_assert(fkv_uplink_command(uplink, &cmd));
}

/* ---- setup ---- */

static void start(void)
{
	struct fkv_uplink_config uc = {
		.loop = &loop, .cfg = &cfg, .incarnation = 1ULL << 40,
		.segment = segment, .segment_bytes = SEGMENT,
		.shown_bytes = SEGMENT, .input = on_input,
		.err = err, .err_size = sizeof(err),
	};

	ck_assert_int_eq(fkv_config_set(&cfg, "x", "master", master_at, err,
					sizeof(err)), 0);
	ck_assert_msg(!fkv_uplink_create(&uc, &uplink), "%s", err);
	ck_assert_msg(!fkv_uplink_serve(uplink), "%s", err);
}

static void setup(void)
{
	fkv_log_set_level(FKV_LOG_ERR);
	memset(heard, 0, sizeof(heard));
	memset(&m, 0, sizeof(m));
	*master_at = '\0';
	segment = mmap(NULL, SEGMENT, PROT_READ | PROT_WRITE,
		       MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	ck_assert_ptr_ne(segment, MAP_FAILED);
	ck_assert_int_eq(uv_loop_init(&loop), 0);
	ck_assert_int_eq(fkv_config_init(&cfg), 0);
	ck_assert_int_eq(fkv_config_set(&cfg, "x", "role", "owner", err,
					sizeof(err)), 0);
	ck_assert_int_eq(fkv_config_set(&cfg, "x", "instance_key", "o", err,
					sizeof(err)), 0);
	ck_assert_int_eq(fkv_config_set(&cfg, "x", "listen", "127.0.0.1:0",
					err, sizeof(err)), 0);
	master_start(5);
	start();
	wait_for(heard[FKV_IN_SESSION] == 1 && m.owner);
}

static void teardown(void)
{
	master_stop();
	fkv_uplink_close(uplink);
	uv_run(&loop, UV_RUN_DEFAULT);
	fkv_uplink_free(uplink);
	fkv_config_done(&cfg);
	ck_assert_int_eq(uv_loop_close(&loop), 0);
	munmap(segment, SEGMENT);
}

static struct fkv_uplink_stats stats(void)
{
	struct fkv_uplink_stats s;

	fkv_uplink_get_stats(uplink, &s);
	return s;
}

/* ---- F0: the session ---- */

START_TEST(a_session_begins_with_the_masters_epoch)
{
	ck_assert_uint_eq(session.n, 5);
	ck_assert_uint_eq(session.incarnation, 1ULL << 40);
	ck_assert(stats().connected && stats().session);
	ck_assert_uint_eq(stats().epoch, 5);
}
END_TEST

START_TEST(messages_of_a_turn_are_one_frame)
{
	say_many(FKV_CLUSTER_BATCH_MAX, FKV_MSG_STAT);
	wait_for(m.frames);
	ck_assert_uint_eq(m.of_frame[0], FKV_CLUSTER_BATCH_MAX);
	ck_assert_uint_eq(stats().sent.messages, FKV_CLUSTER_BATCH_MAX);
	say_many(1, FKV_MSG_STAT);
	wait_for(m.frames == 2);
	ck_assert_uint_eq(m.of_frame[1], 1);
}
END_TEST

START_TEST(recalls_are_256_a_frame_and_the_rest_128)
{
	say_many(300, FKV_MSG_QUIET);
	wait_for(m.frames == 2);
	ck_assert_uint_eq(m.of_frame[0], FKV_CLUSTER_RECALL_MAX);
	ck_assert_uint_eq(m.of_frame[1], 300 - FKV_CLUSTER_RECALL_MAX);
	say_many(200, FKV_MSG_QUIET);
	say_many(1, FKV_MSG_STAT);
	wait_for(m.frames == 4);
	ck_assert_uint_eq(m.of_frame[2], 200);
	ck_assert_uint_eq(m.of_frame[3], 1);
	say_many(1, FKV_MSG_STAT);
	say_many(200, FKV_MSG_QUIET);
	wait_for(m.frames == 6);
	ck_assert_uint_eq(m.of_frame[4], FKV_CLUSTER_BATCH_MAX);
	ck_assert_uint_eq(m.of_frame[5], 201 - FKV_CLUSTER_BATCH_MAX);
}
END_TEST

/* a session has one order */
START_TEST(what_was_said_before_goes_before)
{
	say_many(3, FKV_MSG_STAT);
	say_cluster(FKV_CLUSTER_HEARTBEAT);
	wait_for(m.heartbeats);
	ck_assert_uint_eq(m.before_beat, 1);
	ck_assert_uint_eq(m.of_frame[0], 3);
}
END_TEST

START_TEST(an_answer_is_the_cores)
{
	struct fkv_msg one = { .type = FKV_MSG_COUNT_R, .op = 7, .n = 3 };
	struct fkv_cluster_msg msg = {
		.type = FKV_CLUSTER_BATCH,
		.batch = { .n = 1, .msgs = &one },
	};

	answer(&msg);
	wait_for(heard[FKV_IN_MSG] == 1);
	ck_assert_uint_eq(stats().received, 1);
}
END_TEST

START_TEST(an_owners_message_ends_the_session)
{
	struct fkv_msg one = { .type = FKV_MSG_PUT_DONE, .op = 7 };
	struct fkv_cluster_msg msg = {
		.type = FKV_CLUSTER_BATCH,
		.batch = { .n = 1, .msgs = &one },
	};

	answer(&msg);
	wait_for(heard[FKV_IN_SESSION_END] == 1);
	ck_assert_uint_eq(heard[FKV_IN_MSG], 0);
	ck_assert_uint_eq(stats().broken, 1);
}
END_TEST

START_TEST(bytes_that_are_no_message_end_the_session)
{
	ck_assert_int_eq(fkv_rpc_send(m.owner, "\xff\xff", 2,
				      FKV_SESSION_ANSWER), 0);
	wait_for(heard[FKV_IN_SESSION_END] == 1);
}
END_TEST

/* ---- F1: the next one ---- */

/* As the core does it: STOP, and when that is through, JOIN. */
static void begin_anew(void)
{
	unsigned int before = heard[FKV_IN_SESSION];

	command(FKV_CMD_STOP);
	wait_for(heard[FKV_IN_STOPPED]);
	command(FKV_CMD_JOIN);
	wait_for(heard[FKV_IN_SESSION] == before + 1);
}

START_TEST(after_an_end_nothing_is_said_until_the_core_joins)
{
	fkv_rpc_peer_end(m.owner, -ESTALE);
	wait_for(heard[FKV_IN_SESSION_END] == 1);
	say_many(5, FKV_MSG_STAT);
	say_cluster(FKV_CLUSTER_HEARTBEAT);
	for (int i = 0; i < 50; i++)
		spin();
	ck_assert_uint_eq(heard[FKV_IN_SESSION], 1);
	begin_anew();
	ck_assert_uint_ne(session.incarnation, 1ULL << 40);
	ck_assert_uint_eq(stats().incarnation, session.incarnation);
	ck_assert_uint_eq(m.frames, 0);
	ck_assert_uint_eq(m.heartbeats, 0);
	ck_assert_uint_eq(m.ups, 2);
}
END_TEST

START_TEST(another_master_at_the_address_ends_the_session)
{
	master_stop();
	master_start(6);
	wait_for(heard[FKV_IN_SESSION_END] == 1);
	begin_anew();
	ck_assert_uint_eq(session.n, 6);
}
END_TEST

START_TEST(the_core_ends_a_session_that_refuses_it)
{
	command(FKV_CMD_END);
	wait_for(heard[FKV_IN_SESSION_END] == 1);
	begin_anew();
}
END_TEST

/* K6.b: what the core says of epochs is what took it in, and no more */
START_TEST(a_registration_tells_the_highest_epoch_that_took_us_in)
{
	struct fkv_cluster_msg msg = {
		.type = FKV_CLUSTER_REGISTERED,
		.registered = { .epoch = 5, .lease_ns = FKV_LEASE_NS,
				.heartbeat_ns = FKV_HEARTBEAT_NS },
	};

	say_cluster(FKV_CLUSTER_REGISTER);
	wait_for(m.registers == 1);
	ck_assert_uint_eq(m.epoch_seen, 0);
	answer(&msg);
	wait_for(heard[FKV_IN_CLUSTER] == 1);
	say_cluster(FKV_CLUSTER_REGISTER);
	wait_for(m.registers == 2);
	ck_assert_uint_eq(m.epoch_seen, 5);
	msg.registered.epoch = 7;
	msg.registered.res = -EUSERS;
	answer(&msg);
	wait_for(heard[FKV_IN_CLUSTER] == 2);
	say_cluster(FKV_CLUSTER_REGISTER);
	wait_for(m.registers == 3);
	ck_assert_uint_eq(m.epoch_seen, 5);
}
END_TEST

/* new work is refused long before what must be said is */
START_TEST(a_master_that_takes_nothing_is_waited_for_then_given_up)
{
	unsigned int n = 0;

	ck_assert(fkv_uplink_has_room(uplink));
	master_stop();
	wait_for(!stats().connected);
	while (fkv_uplink_has_room(uplink)) {
		say_cluster(FKV_CLUSTER_HEARTBEAT);
		ck_assert_uint_le(++n, FKV_SESSION_MSGS);
	}
	ck_assert_uint_eq(n, FKV_SESSION_MSGS);
	spin();
	ck_assert_uint_eq(heard[FKV_IN_SESSION_END], 0);
	for (; n <= FKV_SESSION_MSGS * FKV_SESSION_HARD; n++)
		say_cluster(FKV_CLUSTER_HEARTBEAT);
	wait_for(heard[FKV_IN_SESSION_END] == 1);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("uplink");
	TCase *tc = tcase_create("uplink");
	SRunner *sr = srunner_create(s);
	int failed;

	tcase_add_checked_fixture(tc, setup, teardown);
	tcase_set_timeout(tc, 60);
	tcase_add_test(tc, a_session_begins_with_the_masters_epoch);
	tcase_add_test(tc, messages_of_a_turn_are_one_frame);
	tcase_add_test(tc, recalls_are_256_a_frame_and_the_rest_128);
	tcase_add_test(tc, what_was_said_before_goes_before);
	tcase_add_test(tc, an_answer_is_the_cores);
	tcase_add_test(tc, an_owners_message_ends_the_session);
	tcase_add_test(tc, bytes_that_are_no_message_end_the_session);
	tcase_add_test(tc,
		       after_an_end_nothing_is_said_until_the_core_joins);
	tcase_add_test(tc, another_master_at_the_address_ends_the_session);
	tcase_add_test(tc, the_core_ends_a_session_that_refuses_it);
	tcase_add_test(tc,
		a_registration_tells_the_highest_epoch_that_took_us_in);
	tcase_add_test(tc,
		a_master_that_takes_nothing_is_waited_for_then_given_up);
	suite_add_tcase(s, tc);
	srunner_run_all(sr, CK_NORMAL);
	failed = srunner_ntests_failed(sr);
	srunner_free(sr);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
