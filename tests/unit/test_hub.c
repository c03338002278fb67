// SPDX-License-Identifier: Apache-2.0
/*
 * A master's process without its process: a hub in a loop, and owners that are
 * no more than a node of rpc.h.
 */
#include <check.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "svc/hub.h"
#include "wait_for.h"

/* An owner, and what it has heard. */
struct owner {
	struct fkv_rpc *rpc;
	struct fkv_rpc_peer *master;
	const char *name;
	uint64_t incarnation;
	unsigned int ups, ends, refusals;
	unsigned int frames, msgs, members;
	struct fkv_cluster_registered registered;
	bool is_registered;
	enum fkv_msg_type last;
};

static uv_loop_t loop;
static struct fkv_lockfile *store;
static struct fkv_hub *hub;
static struct fkv_batch_out made;
static struct owner a, b;
static char path[64], err[200];

static void spin(void)
{
	spin_loop(&loop);
}

#define wait_for(cond)	wait_by(spin(), cond)

/* ---- an owner ---- */

static int on_accept(void *arg, const char *name, uint64_t incarnation)
{
	(void)arg;
	(void)name;
	(void)incarnation;
	return -EPERM;
}

static void on_up(void *arg, struct fkv_rpc_peer *p)
{
	struct owner *o = arg;

	(void)p;
	o->ups++;
}

static void on_down(void *arg, struct fkv_rpc_peer *p, const char *why)
{
	(void)arg;
	(void)p;
	(void)why;
}

static void on_ended(void *arg, struct fkv_rpc_peer *p, int why)
{
	struct owner *o = arg;

	(void)p;
	(void)why;
	o->ends++;
}

static void on_message(void *arg, struct fkv_rpc_peer *p, const void *data,
		       size_t len)
{
	struct fkv_cluster_msg msg;
	struct owner *o = arg;
	const char *why;

	(void)p;
	ck_assert_int_eq(fkv_cluster_decode(data, len, fkv_clock_ns(), &msg,
					    &why), 0);
	if (msg.type == FKV_CLUSTER_BATCH) {
		o->frames++;
		o->msgs += msg.batch.n;
		o->last = msg.batch.msgs[msg.batch.n - 1].type;
	}
	o->members += msg.type == FKV_CLUSTER_MEMBER;
	if (msg.type == FKV_CLUSTER_REGISTERED) {
		o->registered = msg.registered;
		o->is_registered = true;
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

static void dial(struct owner *o)
{
	struct sockaddr_storage at;
	char text[32];

	snprintf(text, sizeof(text), "127.0.0.1:%u", fkv_hub_port(hub));
	ck_assert_int_eq(fkv_rpc_address(text, &at), 0);
	ck_assert_int_eq(fkv_rpc_dial(o->rpc, (struct sockaddr *)&at,
				      &o->master), 0);
}

static void start(struct owner *o, const char *name, uint64_t incarnation)
{
	struct fkv_rpc_config rc = {
		.self = { .cluster = "c", .name = name,
			  .incarnation = incarnation },
		.ops = &ops,
		.arg = o,
	};

	*o = (struct owner){ .name = name, .incarnation = incarnation };
	ck_assert_int_eq(fkv_rpc_create(&loop, &rc, &o->rpc), 0);
	dial(o);
}

static void stop(struct owner *o)
{
	if (!o->rpc)
		return;
	fkv_rpc_close_all(o->rpc);
	wait_for(fkv_rpc_is_closed(o->rpc));
	fkv_rpc_free(o->rpc);
	o->rpc = NULL;
}

static void say(struct owner *o, const struct fkv_cluster_msg *msg)
{
	ck_assert_int_eq(fkv_batch_say(msg, o->master, &made, fkv_clock_ns()),
			 0);
}

static void say_register(struct owner *o, const char *name, uint32_t epoch)
{
	struct fkv_cluster_msg msg = {
		.type = FKV_CLUSTER_REGISTER,
		.reg = {
			.name = name,
			.incarnation = o->incarnation,
			.epoch_seen = epoch,
			.segment_bytes = 8 * FKV_MIB,
			.transports = FKV_CLUSTER_TCP,
			.address = "127.0.0.1:1/2",
			.parts = 1,
		},
	};

	o->is_registered = false;
	say(o, &msg);
}

static void join(struct owner *o, const char *name, uint64_t incarnation)
{
	start(o, name, incarnation);
	wait_for(o->ups);
	say_register(o, name, 0);
	wait_for(o->is_registered);
	ck_assert_int_eq(o->registered.res, 0);
}

/* @n questions of one type, in one message. */
static void ask(struct owner *o, uint32_t n, enum fkv_msg_type type)
{
	static struct fkv_msg msgs[FKV_CLUSTER_BATCH_MAX];
	struct fkv_cluster_msg msg = {
		.type = FKV_CLUSTER_BATCH,
		.batch = { .n = n, .msgs = msgs },
	};

	for (uint32_t i = 0; i < n; i++) {
		memset(&msgs[i], 0, sizeof(msgs[i]));
		msgs[i].type = type;
		msgs[i].op = i + 1;
		msgs[i].key = fkv_key_create("key", 3);
	}
	say(o, &msg);
	for (uint32_t i = 0; i < n; i++)
		fkv_msg_done(&msgs[i]);
}

/* ---- setup ---- */

static void setup(void)
{
	struct fkv_hub_config hc = {
		.loop = &loop, .cluster = "c", .name = "m",
		.listen = "127.0.0.1:0", .err = err, .err_size = sizeof(err),
	};

	fkv_log_set_level(FKV_LOG_ERR);
	strcpy(path, "/tmp/fkv-test-hub-XXXXXX");
	ck_assert_ptr_nonnull(mkdtemp(path));
	strcat(path, "/master");
	ck_assert_int_eq(uv_loop_init(&loop), 0);
	ck_assert_int_eq(fkv_lockfile_take(path, &store, err, sizeof(err)), 0);
	ck_assert_int_eq(fkv_batch_out_init(&made), 0);
	hc.store = store;
	ck_assert_int_eq(fkv_hub_create(&hc, &hub), 0);
	ck_assert_int_eq(fkv_hub_serve(hub), 0);
	memset(&a, 0, sizeof(a));
	memset(&b, 0, sizeof(b));
}

static void teardown(void)
{
	char lock[80];

	stop(&a);
	stop(&b);
	fkv_hub_close(hub);
	uv_run(&loop, UV_RUN_DEFAULT);
	fkv_hub_free(hub);
	fkv_lockfile_release(store, true);
	fkv_batch_out_done(&made);
	ck_assert_int_eq(uv_loop_close(&loop), 0);
	snprintf(lock, sizeof(lock), "%s.lock", path);
	unlink(lock);
	*strrchr(path, '/') = '\0';
	rmdir(path);
}

static struct fkv_hub_stats stats(void)
{
	struct fkv_hub_stats s;

	fkv_hub_get_stats(hub, &s);
	return s;
}

static bool stored(uint64_t epoch)
{
	char lock[80], text[96] = "", want[32];
	FILE *f;

	snprintf(lock, sizeof(lock), "%s.lock", path);
	f = fopen(lock, "re");
	ck_assert_ptr_nonnull(f);
	ck_assert_ptr_nonnull(fgets(text, sizeof(text), f));
	fclose(f);
	snprintf(want, sizeof(want), " epoch %llu\n",
		 (unsigned long long)epoch);
	return strstr(text, want);
}

/* ---- F1: members ---- */

START_TEST(an_owner_that_registers_is_a_member)
{
	struct fkv_member_info info;

	join(&a, "a", 7);
	ck_assert_uint_eq(a.registered.epoch, 1);
	ck_assert_uint_eq(a.registered.lease_ns, FKV_LEASE_NS);
	ck_assert(fkv_master_member(fkv_hub_master(hub), 0, &info));
	ck_assert_str_eq(info.name, "a");
	ck_assert_str_eq(info.address, "127.0.0.1:1/2");
	ck_assert(info.live && fkv_hub_is_connected(hub, 0));
	ck_assert_uint_eq(stats().registered, 1);
}
END_TEST

START_TEST(owners_learn_of_each_other)
{
	join(&a, "a", 7);
	join(&b, "b", 8);
	wait_for(a.members == 1 && b.members == 1);
}
END_TEST

/* all that one drain yields for one peer travels as one message */
START_TEST(answers_of_a_turn_are_one_frame)
{
	uint64_t before;

	join(&a, "a", 7);
	before = stats().sent.frames;
	ask(&a, FKV_CLUSTER_BATCH_MAX, FKV_MSG_STAT);
	wait_for(a.msgs == FKV_CLUSTER_BATCH_MAX);
	ck_assert_uint_eq(a.frames, 1);
	ck_assert_int_eq(a.last, FKV_MSG_STAT_R);
	ck_assert_uint_eq(stats().sent.frames - before, 1);
}
END_TEST

START_TEST(an_owner_that_has_not_registered_is_not_heard)
{
	start(&a, "a", 7);
	wait_for(a.ups);
	ask(&a, 1, FKV_MSG_STAT);
	wait_for(a.ends);
	ck_assert_uint_eq(a.msgs, 0);
	ck_assert_uint_eq(stats().broken, 1);
}
END_TEST

START_TEST(a_masters_message_ends_the_session)
{
	join(&a, "a", 7);
	ask(&a, 1, FKV_MSG_RETIRE);
	wait_for(a.ends);
	wait_for(!stats().sessions);
}
END_TEST

START_TEST(bytes_that_are_no_message_end_the_session)
{
	join(&a, "a", 7);
	ck_assert_int_eq(fkv_rpc_send(a.master, "\xff\xff", 2,
				      FKV_SESSION_REQUEST), 0);
	wait_for(a.ends);
	ck_assert_uint_eq(stats().broken, 1);
}
END_TEST

/* T3: the handshake says who it is */
START_TEST(a_name_that_is_not_the_handshakes_ends_the_session)
{
	struct fkv_member_info info;

	start(&a, "a", 7);
	wait_for(a.ups);
	say_register(&a, "b", 0);
	wait_for(a.ends);
	ck_assert(!fkv_master_member(fkv_hub_master(hub), 0, &info));
}
END_TEST

/* two daemons by one name: the one that is heard stays */
START_TEST(a_second_life_of_a_connected_name_waits)
{
	join(&a, "a", 7);
	start(&b, "a", 8);
	wait_for(stats().rpc.refused >= 2);
	ck_assert_uint_eq(b.ups, 0);
	ck_assert_uint_eq(a.ends, 0);
	stop(&a);
	wait_for(b.ups);
	say_register(&b, "a", 0);
	wait_for(b.is_registered);
	ck_assert_int_eq(b.registered.res, 0);
}
END_TEST

/* the session is forgotten, the member is not: its lease is waited for */
START_TEST(a_lost_connection_is_no_end_of_a_member)
{
	struct fkv_member_info info;

	join(&a, "a", 7);
	stop(&a);
	wait_for(!fkv_hub_is_connected(hub, 0));
	ck_assert(fkv_master_member(fkv_hub_master(hub), 0, &info));
	ck_assert(info.live);
}
END_TEST

/* ---- K6.b: epochs ---- */

START_TEST(an_epoch_that_an_owner_met_is_never_gone_below)
{
	ck_assert(stored(1));
	start(&a, "a", 7);
	wait_for(a.ups);
	say_register(&a, "a", 41);
	wait_for(a.ends);
	ck_assert_uint_eq(fkv_hub_epoch(hub), 42);
	ck_assert(stored(42));
	ck_assert(!a.is_registered);
	fkv_rpc_renew(a.rpc, ++a.incarnation);
	wait_for(a.ups == 2);
	ck_assert_uint_eq(fkv_rpc_peer_incarnation(a.master), 42);
	say_register(&a, "a", 41);
	wait_for(a.is_registered);
	ck_assert_uint_eq(a.registered.epoch, 42);
}
END_TEST

/* our own number, but not from us: the store was lost */
START_TEST(the_same_epoch_of_an_unknown_owner_is_another_masters)
{
	start(&a, "a", 7);
	wait_for(a.ups);
	say_register(&a, "a", 1);
	wait_for(a.ends);
	ck_assert_uint_eq(fkv_hub_epoch(hub), 2);
}
END_TEST

START_TEST(an_owner_that_comes_back_raises_nothing)
{
	join(&a, "a", 7);
	fkv_rpc_renew(a.rpc, ++a.incarnation);
	wait_for(a.ups == 2);
	say_register(&a, "a", 1);
	wait_for(a.is_registered);
	ck_assert_int_eq(a.registered.res, 0);
	ck_assert_uint_eq(fkv_hub_epoch(hub), 1);
}
END_TEST

START_TEST(the_highest_epoch_cannot_be_gone_above)
{
	start(&a, "a", 7);
	wait_for(a.ups);
	say_register(&a, "a", FKV_CLUSTER_EPOCH_MAX);
	wait_for(a.is_registered);
	ck_assert_int_eq(a.registered.res, -EOVERFLOW);
	ck_assert_uint_eq(fkv_hub_epoch(hub), 1);
	ck_assert(stored(1));
}
END_TEST

int main(void)
{
	Suite *s = suite_create("hub");
	TCase *tc = tcase_create("hub");
	SRunner *sr = srunner_create(s);
	int failed;

	tcase_add_checked_fixture(tc, setup, teardown);
	tcase_set_timeout(tc, 60);
	tcase_add_test(tc, an_owner_that_registers_is_a_member);
	tcase_add_test(tc, owners_learn_of_each_other);
	tcase_add_test(tc, answers_of_a_turn_are_one_frame);
	tcase_add_test(tc, an_owner_that_has_not_registered_is_not_heard);
	tcase_add_test(tc, a_masters_message_ends_the_session);
	tcase_add_test(tc, bytes_that_are_no_message_end_the_session);
	tcase_add_test(tc,
		       a_name_that_is_not_the_handshakes_ends_the_session);
	tcase_add_test(tc, a_second_life_of_a_connected_name_waits);
	tcase_add_test(tc, a_lost_connection_is_no_end_of_a_member);
	tcase_add_test(tc, an_epoch_that_an_owner_met_is_never_gone_below);
	tcase_add_test(tc,
		       the_same_epoch_of_an_unknown_owner_is_another_masters);
	tcase_add_test(tc, an_owner_that_comes_back_raises_nothing);
	tcase_add_test(tc, the_highest_epoch_cannot_be_gone_above);
	suite_add_tcase(s, tc);
	srunner_run_all(sr, CK_NORMAL);
	failed = srunner_ntests_failed(sr);
	srunner_free(sr);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
