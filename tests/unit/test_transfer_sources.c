// SPDX-License-Identifier: Apache-2.0
/*
 * test_transfer_sources.c - dst dials a plain socket: a source that breaks the
 * rules, or is silent
 */
#include <stdlib.h>
#include <unistd.h>

#include "transfer_driver.h"

static uint8_t payload[2 * FKV_FRAME_DATA_MAX];

#define LEN	10000u
#define WHERE	8192u

static int listener;
static struct sockaddr_storage raw_at;

/* dst has a target of LEN bytes at WHERE, and asks the raw source for it. */
static void raw_asked(struct raw *r, struct call *c, uint64_t op)
{
	struct fkv_transfer_pull p = pull_of(c, op, WHERE, LEN);
	struct fkv_frame f;

	p.peer = RAW_LIFE;
	ck_assert_int_eq(fkv_transfer_pull(dst.t, &p), 0);
	raw_accept(r, listener);
	raw_attach(r);
	ck_assert(raw_hear(r, &f));
	ck_assert_int_eq(f.kind, FKV_FRAME_PULL);
	ck_assert_uint_eq(f.op, op);
	ck_assert_uint_eq(f.len, LEN);
}

static void raw_data(struct raw *r, uint64_t op, uint64_t offset, uint64_t len)
{
	struct fkv_frame f = { .kind = FKV_FRAME_DATA, .op = op,
			       .offset = offset, .len = len };

	raw_say(r, &f);
	raw_send(r, payload, fkv_min_u64(len, sizeof(payload)));
}

static void raw_end(struct raw *r, uint64_t op, int status, uint64_t len)
{
	struct fkv_frame f = { .kind = FKV_FRAME_END, .op = op,
			       .status = status, .len = len };

	raw_say(r, &f);
}

static void raw_setup(void)
{
	transfer_setup();
	host_stop(&dst);
	host_start(&dst, "dst", DST_LIFE, 1);
	host_add(&dst, &src);
	listener = raw_listen(&raw_at);
	memset(dst.mem, 0x5a, FKV_MIB);
	memset(payload, 0xa5, sizeof(payload));
}

static void raw_teardown(void)
{
	close(listener);
	transfer_teardown();
}

static bool is(uint64_t from, uint64_t to, uint8_t byte)
{
	while (from < to && dst.mem[from] == byte)
		from++;
	return from >= to;
}

START_TEST(a_source_may_send_in_any_order)
{
	struct raw r;
	struct call c;

	raw_asked(&r, &c, 7);
	raw_data(&r, 7, 4096, LEN - 4096);
	raw_data(&r, 7, 0, 4096);
	raw_end(&r, 7, 0, LEN);
	ended(&c, 0, FKV_FAULT_NONE);
	ck_assert(is(WHERE, WHERE + LEN, 0xa5));
	ck_assert(is(0, WHERE, 0x5a) && is(WHERE + LEN, FKV_MIB, 0x5a));
	close(r.fd);
}
END_TEST

/* Each breaks the rules in its own way, and nothing lands where it must not. */
static void source_breaks(void (*how)(struct raw *r))
{
	uint64_t before = stats_of(&dst).broken;
	struct raw r;
	struct call c;

	memset(dst.mem, 0x5a, FKV_MIB);
	raw_asked(&r, &c, 7);
	how(&r);
	ended(&c, -EPROTO, FKV_FAULT_TRANSPORT);
	ck_assert_uint_eq(stats_of(&dst).broken, before + 1);
	ck_assert(is(0, WHERE, 0x5a) && is(WHERE + LEN, FKV_MIB, 0x5a));
	raw_is_closed(&r);
}

static void foreign_op(struct raw *r)
{
	raw_data(r, 8, 0, LEN);
}

static void past_the_end(struct raw *r)
{
	raw_data(r, 7, 1, LEN);
}

static void far_away(struct raw *r)
{
	raw_data(r, 7, FKV_VALUE_MAX - LEN, LEN);
}

static void twice(struct raw *r)
{
	raw_data(r, 7, 0, 4096);
	raw_data(r, 7, 4095, 2);
}

static void too_early(struct raw *r)
{
	raw_data(r, 7, 0, LEN - 1);
	raw_end(r, 7, 0, LEN);
}

static void with_a_hole(struct raw *r)
{
	raw_data(r, 7, 0, 100);
	raw_data(r, 7, 101, LEN - 101);
	raw_end(r, 7, 0, LEN);
}

static void wrong_sum(struct raw *r)
{
	raw_data(r, 7, 0, LEN);
	raw_end(r, 7, 0, LEN - 1);
}

static void foreign_end(struct raw *r)
{
	raw_end(r, 8, 0, 0);
}

static void too_long(struct raw *r)
{
	raw_data(r, 7, 0, FKV_FRAME_DATA_MAX + 1);
}

static void reader_talk(struct raw *r)
{
	struct fkv_frame f = { .kind = FKV_FRAME_PULL, .op = 7, .len = 1 };

	raw_say(r, &f);
}

static void bad_seal(struct raw *r)
{
	static const uint8_t zeros[FKV_FRAME_HEAD + FKV_AUTH_SEAL];

	raw_send(r, zeros, sizeof(zeros));
}

static void many_holes(struct raw *r)
{
	for (uint64_t i = 0; i <= FKV_SPANS_MAX; i++)
		raw_data(r, 7, 2 * i, 1);
}

/* G3.3 */
START_TEST(a_source_that_breaks_the_rules_loses_its_connection)
{
	source_breaks(foreign_op);
	source_breaks(past_the_end);
	source_breaks(far_away);
	source_breaks(twice);
	source_breaks(too_early);
	source_breaks(with_a_hole);
	source_breaks(wrong_sum);
	source_breaks(foreign_end);
	source_breaks(too_long);
	source_breaks(reader_talk);
	source_breaks(bad_seal);
	source_breaks(many_holes);
	src_serves();
}
END_TEST

/* G3.2: an op of one connection is nothing that another may touch */
START_TEST(an_op_belongs_to_one_connection)
{
	struct call c, other;
	struct raw r;

	open_target(&c, 9, WHERE + FKV_MIB, LEN);
	ck_assert_uint_eq(c.readies, 1);
	raw_asked(&r, &other, 7);
	raw_data(&r, 9, 0, LEN);
	ended(&other, -EPROTO, FKV_FAULT_TRANSPORT);
	ck_assert_uint_eq(c.dones, 0);
	raw_is_closed(&r);
	host_stop(&dst);
	ck_assert_int_eq(c.res.err, -ECANCELED);
	ck_assert(is(WHERE + FKV_MIB, WHERE + FKV_MIB + LEN, 0));
}
END_TEST

START_TEST(a_source_that_is_silent_is_given_up)
{
	struct raw r;
	struct call c;

	raw_asked(&r, &c, 7);
	ended(&c, -ETIMEDOUT, FKV_FAULT_TRANSPORT);
	ck_assert_uint_ge(c.res.ns, quick.stall_ns);
	ck_assert_uint_lt(c.res.ns, quick.stall_ns + 500 * FKV_MS);
	raw_is_closed(&r);
	/* half a head, half a frame, all but the end */
	for (int i = 0; i < 3; i++) {
		raw_asked(&r, &c, 7);
		if (i == 0)
			raw_send(&r, payload, FKV_FRAME_HEAD);
		if (i == 1) {
			struct fkv_frame f = { .kind = FKV_FRAME_DATA, .op = 7,
					       .len = LEN };

			raw_say(&r, &f);
			raw_send(&r, payload, LEN - 1);
		}
		if (i == 2)
			raw_data(&r, 7, 0, LEN);
		ended(&c, -ETIMEDOUT, FKV_FAULT_TRANSPORT);
		raw_is_closed(&r);
	}
	src_serves();
}
END_TEST

/* A byte now and then is no progress: a whole frame is. */
START_TEST(a_source_that_trickles_is_given_up)
{
	struct fkv_frame f = { .kind = FKV_FRAME_DATA, .op = 7, .len = LEN };
	struct raw r;
	struct call c;

	raw_asked(&r, &c, 7);
	raw_say(&r, &f);
	while (!c.dones && raw_send(&r, payload, 1))
		spin();
	ended(&c, -ETIMEDOUT, FKV_FAULT_TRANSPORT);
	raw_is_closed(&r);
}
END_TEST

/* ... and with whole frames it may take its time. */
START_TEST(a_slow_source_that_makes_progress_is_not_given_up)
{
	struct raw r;
	struct call c;

	raw_asked(&r, &c, 7);
	for (uint64_t i = 0; i < 4; i++) {
		uint64_t until = fkv_clock_ns() + quick.stall_ns / 2;

		wait_for(fkv_clock_ns() >= until);
		raw_data(&r, 7, i * 2500, 2500);
	}
	raw_end(&r, 7, 0, LEN);
	ended(&c, 0, FKV_FAULT_NONE);
	ck_assert_uint_gt(c.res.ns, quick.stall_ns);
	close(r.fd);
}
END_TEST

START_TEST(a_source_that_goes_away_is_told_as_transport)
{
	struct raw r;
	struct call c;

	raw_asked(&r, &c, 7);
	raw_data(&r, 7, 0, 100);
	close(r.fd);
	ended(&c, -ECONNRESET, FKV_FAULT_TRANSPORT);
	raw_asked(&r, &c, 7);
	raw_data(&r, 7, 0, 100);
	raw_end(&r, 7, -EIO, 100);
	ended(&c, -EIO, FKV_FAULT_SOURCE);
	close(r.fd);
}
END_TEST

/* T4: when its host has ended it, no byte of the target changes any more. */
START_TEST(after_its_end_nothing_lands_in_a_target)
{
	struct call c, quiet = { 0 };
	struct fkv_frame f = { .kind = FKV_FRAME_DATA, .op = 7, .offset = 100,
			       .len = LEN - 100 };
	struct raw r;

	raw_asked(&r, &c, 7);
	raw_data(&r, 7, 0, 100);
	wait_for(peer_stats_of(&dst, RAW_LIFE).bytes_in == 100);
	/* on its way: in the socket, or not even that far */
	raw_say(&r, &f);
	raw_send(&r, payload, 500);
	ck_assert_int_eq(fkv_transfer_end(dst.t, 7, on_call, &quiet), 0);
	ended(&quiet, 0, FKV_FAULT_NONE);
	ended(&c, -ECANCELED, FKV_FAULT_LOCAL);
	memset(dst.mem + WHERE, 0x11, LEN);
	for (int i = 0; i < 20; i++)
		raw_send(&r, payload, 100);
	raw_is_closed(&r);
	ck_assert(is(WHERE, WHERE + LEN, 0x11));
}
END_TEST

/* The same by its time: what the source sends afterwards lands nowhere. */
START_TEST(after_its_time_nothing_lands_in_a_target)
{
	struct raw r;
	struct call c;

	raw_asked(&r, &c, 7);
	raw_data(&r, 7, 0, 100);
	ended(&c, -ETIMEDOUT, FKV_FAULT_TRANSPORT);
	memset(dst.mem + WHERE, 0x11, LEN);
	raw_data(&r, 7, 100, LEN - 100);
	raw_is_closed(&r);
	ck_assert(is(WHERE, WHERE + LEN, 0x11));
}
END_TEST

START_TEST(silence_is_to_blame_for_all_that_it_held_up)
{
	struct fkv_transfer_pull p;
	struct call c, same, young;
	struct fkv_frame f;
	uint64_t until;
	struct raw r;

	raw_asked(&r, &c, 7);
	p = pull_of(&same, 8, WHERE + LEN, 100);
	p.peer = RAW_LIFE;
	ck_assert_int_eq(fkv_transfer_pull(dst.t, &p), 0);
	ck_assert(raw_hear(&r, &f));
	until = fkv_clock_ns() + quick.stall_ns * 3 / 4;
	wait_for(fkv_clock_ns() >= until);
	p = pull_of(&young, 9, WHERE + 2 * LEN, 100);
	p.peer = RAW_LIFE;
	ck_assert_int_eq(fkv_transfer_pull(dst.t, &p), 0);
	ended(&c, -ETIMEDOUT, FKV_FAULT_TRANSPORT);
	ended(&same, -ETIMEDOUT, FKV_FAULT_TRANSPORT);
	/* G3.5: it had hardly begun */
	ended(&young, -ECONNABORTED, FKV_FAULT_SHARED);
	close(r.fd);
}
END_TEST

static void stand_still(struct fkv_data *x, struct fkv_item *it)
{
	uint64_t until = fkv_clock_ns() + quick.stall_ns + 700 * FKV_MS;

	while (fkv_clock_ns() < until)
		;
	fkv_data_report(x, it);
}

static bool went_on;

static void on_went_on(struct fkv_transfer *t, struct fkv_item *it)
{
	(void)t;
	(void)it;
	went_on = true;
}

START_TEST(a_thread_that_stood_still_accuses_nobody)
{
	static struct fkv_item it = { .run = stand_still,
				      .report = on_went_on };
	struct raw r;
	struct call c, kick = { 0 };

	went_on = false;
	raw_asked(&r, &c, 7);
	pthread_mutex_lock(&dst.t->lock);
	dst.t->calls++;
	STAILQ_INSERT_TAIL(&dst.t->todo, &it, link);
	pthread_mutex_unlock(&dst.t->lock);
	fkv_transfer_end(dst.t, 12345, on_call, &kick);
	wait_for(went_on);
	raw_data(&r, 7, 0, LEN);
	raw_end(&r, 7, 0, LEN);
	ended(&c, 0, FKV_FAULT_NONE);
	close(r.fd);
}
END_TEST

START_TEST(a_source_that_does_not_take_the_connection_is_unreachable)
{
	struct fkv_frame f, reply = { .kind = FKV_FRAME_ATTACHED };
	struct fkv_transfer_pull p;
	struct raw r;
	struct call c;

	for (int i = 0; i < 2; i++) {
		p = pull_of(&c, 7, WHERE, LEN);
		p.peer = RAW_LIFE;
		ck_assert_int_eq(fkv_transfer_pull(dst.t, &p), 0);
		raw_accept(&r, listener);
		ck_assert(raw_hear(&r, &f));
		reply.op = f.op + (uint64_t)i;
		reply.status = i ? 0 : -EUSERS;
		raw_say(&r, &reply);
		/* refused; or another generation than was named */
		ended(&c, i ? -EPROTO : -EUSERS, FKV_FAULT_TRANSPORT);
		raw_is_closed(&r);
	}
}
END_TEST

/* T3: it has the key, but is another life */
START_TEST(a_source_of_another_life_is_asked_for_nothing)
{
	struct fkv_transfer_pull p;
	struct raw r;
	struct call c;
	uint8_t byte;

	p = pull_of(&c, 7, WHERE, LEN);
	p.peer = RAW_LIFE;
	ck_assert_int_eq(fkv_transfer_pull(dst.t, &p), 0);
	raw_accept_as(&r, listener, RAW_LIFE + 1);
	ended(&c, -ESTALE, FKV_FAULT_TRANSPORT);
	while (raw_recv(&r, &byte, 1))
		;
	close(r.fd);
}
END_TEST

static void add_tests(TCase *tc)
{
	tcase_add_test(tc, a_source_may_send_in_any_order);
	tcase_add_test(tc, a_source_that_breaks_the_rules_loses_its_connection);
	tcase_add_test(tc, an_op_belongs_to_one_connection);
	tcase_add_test(tc, a_source_that_is_silent_is_given_up);
	tcase_add_test(tc, a_source_that_trickles_is_given_up);
	tcase_add_test(tc,
		a_slow_source_that_makes_progress_is_not_given_up);
	tcase_add_test(tc, a_source_that_goes_away_is_told_as_transport);
	tcase_add_test(tc, after_its_end_nothing_lands_in_a_target);
	tcase_add_test(tc, after_its_time_nothing_lands_in_a_target);
	tcase_add_test(tc, silence_is_to_blame_for_all_that_it_held_up);
	tcase_add_test(tc, a_thread_that_stood_still_accuses_nobody);
	tcase_add_test(tc,
		a_source_that_does_not_take_the_connection_is_unreachable);
	tcase_add_test(tc, a_source_of_another_life_is_asked_for_nothing);
}

int main(void)
{
	Suite *s = suite_create("transfer sources");
	TCase *tc = tcase_create("sources");
	SRunner *sr = srunner_create(s);
	int failed;

	tcase_add_checked_fixture(tc, raw_setup, raw_teardown);
	tcase_set_timeout(tc, 120);
	add_tests(tc);
	suite_add_tcase(s, tc);
	srunner_run_all(sr, CK_NORMAL);
	failed = srunner_ntests_failed(sr);
	srunner_free(sr);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
