// SPDX-License-Identifier: Apache-2.0
#include <check.h>
#include <stdlib.h>

#include "wire/bytes.h"
#include "wire/session.h"

#define SIDES	2
#define LINK	64	/* frames on their way, each direction */
#define SEEDS	400
#define STEPS	3000

struct frame {
	size_t len;
	uint8_t *data;
};

/* One side, and what the oracle knows of it. */
struct side {
	struct fkv_session s;
	uint64_t sent;		/* messages 1..sent were accepted */
	uint64_t got;		/* 1..got of the peer's were taken */
	struct frame link[LINK];	/* towards the peer */
	unsigned int n;
};

static struct side sides[SIDES];
static uint8_t out[FKV_SESSION_FRAME_MAX];
static uint64_t rnd;
static const struct fkv_session_id id = { .incarnation = 7, .epoch = 3 };

static unsigned int chance(unsigned int below)
{
	rnd ^= rnd << 13;
	rnd ^= rnd >> 7;
	rnd ^= rnd << 17;
	return (unsigned int)(rnd >> 20) % below;
}

static void unlink_frame(struct side *s, unsigned int i)
{
	free(s->link[i].data);
	memmove(&s->link[i], &s->link[i + 1],
		(s->n - i - 1) * sizeof(s->link[0]));
	s->n--;
}

static void cut(struct side *s)
{
	while (s->n)
		unlink_frame(s, 0);
}

static void setup(void)
{
	rnd = 88172645463325252ULL;
	memset(sides, 0, sizeof(sides));
	for (int i = 0; i < SIDES; i++)
		fkv_session_init(&sides[i].s, i == 0, id);
}

static void teardown(void)
{
	fkv_alloc_fail = NULL;
	for (int i = 0; i < SIDES; i++) {
		fkv_session_done(&sides[i].s);
		cut(&sides[i]);
	}
}

/* Lengths of 8 to 207 bytes; content by number and side. */
static size_t content(int side, uint64_t n, uint8_t *buf)
{
	size_t len = 8 + (size_t)(n * 37 % 200);

	fkv_put64(buf, n);
	for (size_t i = 8; i < len; i++)
		buf[i] = (uint8_t)(n + i + (size_t)side);
	return len;
}

static int send_one(int side, enum fkv_session_class class)
{
	uint8_t buf[256];
	size_t len = content(side, sides[side].sent + 1, buf);
	int err = fkv_session_send(&sides[side].s, buf, len, class);

	if (!err)
		sides[side].sent++;
	return err;
}

static bool take_one(int side)
{
	struct fkv_session_msg *m = fkv_session_take(&sides[side].s);
	uint8_t want[256];

	if (!m)
		return false;
	ck_assert_uint_eq(m->len, content(!side, ++sides[side].got, want));
	ck_assert_mem_eq(m->data, want, m->len);
	fkv_free(m);
	return true;
}

static void reconnect(void)
{
	for (int i = 0; i < SIDES; i++) {
		fkv_session_disconnected(&sides[i].s);
		cut(&sides[i]);
	}
	for (int i = 0; i < SIDES; i++)
		fkv_session_connected(&sides[i].s);
}

/* The next frame of a side onto its link; false: nothing to send, or full. */
static bool pump(int side)
{
	struct side *s = &sides[side];
	size_t n;

	if (s->n == LINK)
		return false;
	n = fkv_session_output(&s->s, out);
	if (!n)
		return false;
	/* of exactly its size, so that a sanitizer sees what is behind it */
	s->link[s->n].len = n;
	s->link[s->n].data = malloc(n);
	memcpy(s->link[s->n++].data, out, n);
	return true;
}

/* Deliver frame @i of the link of @side. */
static int deliver(int side, unsigned int i, bool keep)
{
	struct frame *f = &sides[side].link[i];
	const char *why = NULL;
	int err = fkv_session_input(&sides[!side].s, f->data, f->len, &why);

	ck_assert(err == 0 || (err == -EPROTO && why));
	if (!keep)
		unlink_frame(&sides[side], i);
	return err;
}

/* All that is there goes over a connection that loses nothing. */
static void settle(void)
{
	bool more = true;

	while (more) {
		more = false;
		for (int i = 0; i < SIDES; i++) {
			while (pump(i))
				more = true;
			while (sides[i].n) {
				ck_assert_int_eq(deliver(i, 0, false), 0);
				more = true;
			}
			while (take_one(!i))
				;
		}
	}
}

static void open_up(void)
{
	reconnect();
	settle();
	for (int i = 0; i < SIDES; i++)
		ck_assert_int_eq(sides[i].s.state, FKV_SESSION_UP);
}

static void step(void)
{
	int side = (int)chance(SIDES);
	struct side *s = &sides[side];
	int err = 0;

	switch (chance(12)) {
	case 0:
	case 1:
		send_one(side, chance(2) ? FKV_SESSION_REQUEST :
					   FKV_SESSION_ANSWER);
		break;
	case 2:
	case 3:
	case 4:
		pump(side);
		break;
	case 5:
	case 6:
	case 7:
		if (s->n)
			err = deliver(side, 0, false);
		break;
	case 8:
		take_one(side);
		break;
	case 9:
		if (s->n && !chance(4))
			unlink_frame(s, chance(s->n));
		break;
	case 10:
		/* again, or out of turn */
		if (s->n && !chance(4))
			err = deliver(side, chance(s->n), chance(2));
		break;
	default:
		if (!chance(20))
			err = -EPROTO;
	}
	/* a connection that is no good is made anew */
	if (err)
		reconnect();
}

/* F0: against an oracle that only counts */
START_TEST(messages_come_once_and_in_order_whatever_is_lost)
{
	uint64_t resent = 0, repeated = 0, total = 0;

	for (int seed = 1; seed <= SEEDS; seed++) {
		teardown();
		setup();
		rnd = (uint64_t)seed * 0x9e3779b97f4a7c15ULL;
		reconnect();
		for (int i = 0; i < STEPS; i++)
			step();
		open_up();
		for (int i = 0; i < SIDES; i++) {
			ck_assert_uint_eq(sides[i].got, sides[!i].sent);
			ck_assert_uint_eq(sides[i].s.tx.n, 0);
			ck_assert_uint_eq(sides[i].s.tx.bytes, 0);
			resent += sides[i].s.resent;
			repeated += sides[i].s.repeated;
			total += sides[i].sent;
		}
	}
	/* and that it was made hard for them */
	ck_assert_uint_gt(total, 100000);
	ck_assert_uint_gt(resent, 10000);
	ck_assert_uint_gt(repeated, 1000);
}
END_TEST

/* F0 */
START_TEST(an_answer_is_kept_until_it_is_acknowledged)
{
	open_up();
	ck_assert_int_eq(send_one(1, FKV_SESSION_ANSWER), 0);
	ck_assert(pump(1));
	/* it is lost, with its connection, twice */
	reconnect();
	ck_assert_uint_eq(sides[1].s.tx.n, 1);
	reconnect();
	settle();
	ck_assert_uint_eq(sides[0].got, 1);
	ck_assert_uint_eq(sides[1].s.tx.n, 0);
}
END_TEST

START_TEST(what_was_not_taken_is_not_acknowledged)
{
	open_up();
	send_one(0, FKV_SESSION_REQUEST);
	ck_assert(pump(0));
	ck_assert_int_eq(deliver(0, 0, false), 0);
	ck_assert(!pump(1));
	ck_assert_uint_eq(sides[0].s.tx.n, 1);
	ck_assert(take_one(1));
	ck_assert(pump(1));
	ck_assert_int_eq(deliver(1, 0, false), 0);
	ck_assert_uint_eq(sides[0].s.tx.n, 0);
}
END_TEST

START_TEST(what_is_taken_after_a_reconnect_is_acknowledged_all_the_same)
{
	open_up();
	for (int i = 0; i < 5; i++)
		send_one(0, FKV_SESSION_REQUEST);
	ck_assert(pump(0));
	ck_assert_int_eq(deliver(0, 0, false), 0);
	reconnect();
	ck_assert(pump(0));
	ck_assert_int_eq(deliver(0, 0, false), 0);
	ck_assert(pump(1));
	/* taken after the hello that said 0, before they are sent again */
	for (int i = 0; i < 5; i++)
		ck_assert(take_one(1));
	ck_assert(pump(1));
	ck_assert_int_eq(deliver(1, 0, false), 0);
	ck_assert_int_eq(deliver(1, 0, false), 0);
	ck_assert_uint_eq(sides[0].s.tx.n, 0);
	ck_assert(!pump(0));
	send_one(0, FKV_SESSION_REQUEST);
	settle();
	ck_assert_uint_eq(sides[1].got, 6);
}
END_TEST

START_TEST(sending_is_refused_at_the_bound_and_goes_on_when_acknowledged)
{
	open_up();
	for (uint32_t i = 0; i < FKV_SESSION_MSGS; i++)
		ck_assert_int_eq(send_one(0, FKV_SESSION_REQUEST), 0);
	ck_assert_int_eq(send_one(0, FKV_SESSION_REQUEST), -EAGAIN);
	for (uint32_t i = FKV_SESSION_MSGS;
	     i < FKV_SESSION_MSGS * FKV_SESSION_HARD; i++)
		ck_assert_int_eq(send_one(0, FKV_SESSION_ANSWER), 0);
	ck_assert_int_eq(send_one(0, FKV_SESSION_ANSWER), -ENOBUFS);
	ck_assert_uint_eq(sides[0].s.tx.n, FKV_SESSION_MSGS * FKV_SESSION_HARD);
	/* straight to the peer: the frames are larger than the link's */
	for (size_t n; (n = fkv_session_output(&sides[0].s, out));) {
		const char *why;

		ck_assert_int_eq(fkv_session_input(&sides[1].s, out, n, &why),
				 0);
		while (take_one(1))
			;
	}
	settle();
	ck_assert_int_eq(send_one(0, FKV_SESSION_REQUEST), 0);
}
END_TEST

START_TEST(bytes_are_bounded_as_well)
{
	static uint8_t big[FKV_SESSION_MSG_MAX + 1];
	struct fkv_session *s = &sides[0].s;
	uint64_t most = FKV_SESSION_BYTES * FKV_SESSION_HARD;
	unsigned int n = 0;
	int err;

	ck_assert_int_eq(fkv_session_send(s, big, sizeof(big), 0), -EMSGSIZE);
	ck_assert_int_eq(fkv_session_send(s, big, 0, 0), -EMSGSIZE);
	while (!(err = fkv_session_send(s, big, FKV_SESSION_MSG_MAX,
					FKV_SESSION_REQUEST)))
		n++;
	ck_assert_int_eq(err, -EAGAIN);
	ck_assert_uint_eq(n, FKV_SESSION_BYTES / FKV_SESSION_MSG_MAX + 1);
	while (!(err = fkv_session_send(s, big, FKV_SESSION_MSG_MAX,
					FKV_SESSION_ANSWER)))
		;
	ck_assert_int_eq(err, -ENOBUFS);
	ck_assert_uint_lt(s->tx.bytes, most + FKV_SESSION_MSG_MAX);
	/* and all of them fit into frames */
	reconnect();
	ck_assert(pump(0));
	ck_assert_int_eq(deliver(0, 0, false), 0);
	ck_assert(pump(1));
	ck_assert_int_eq(deliver(1, 0, false), 0);
	for (n = s->tx.n; n; n--) {
		size_t len = fkv_session_output(s, out);
		struct fkv_session_msg *m;
		const char *why;

		ck_assert_uint_le(len, sizeof(out));
		ck_assert_int_eq(fkv_session_input(&sides[1].s, out, len,
						   &why), 0);
		m = fkv_session_take(&sides[1].s);
		ck_assert_uint_eq(m->len, FKV_SESSION_MSG_MAX);
		fkv_free(m);
	}
	ck_assert_uint_eq(fkv_session_output(s, out), 0);
}
END_TEST

/* A peer that sends on and on without an acknowledgement. */
START_TEST(a_peer_that_breaks_the_bound_loses_its_connection)
{
	struct fkv_session *s = &sides[1].s;
	uint8_t f[24 + 5] = { 2, 0, 1 };
	const char *why;
	int err = 0;
	uint64_t n;

	open_up();
	fkv_put32(f + 24, 1);
	for (n = 1; !err && n < 1000000; n++) {
		fkv_put64(f + 8, n);
		err = fkv_session_input(s, f, sizeof(f), &why);
	}
	ck_assert_int_eq(err, -EPROTO);
	ck_assert_uint_eq(s->rx.n, FKV_SESSION_MSGS * (FKV_SESSION_HARD + 1));
}
END_TEST

START_TEST(the_end_voids_everything_on_both_sides)
{
	const char *why;
	size_t n;

	open_up();
	send_one(0, FKV_SESSION_REQUEST);
	send_one(1, FKV_SESSION_REQUEST);
	ck_assert(pump(0));
	ck_assert_int_eq(deliver(0, 0, false), 0);
	fkv_session_end(&sides[1].s, -ETIMEDOUT);
	ck_assert_ptr_null(fkv_session_take(&sides[1].s));
	ck_assert_int_eq(send_one(1, FKV_SESSION_ANSWER), -ESHUTDOWN);
	ck_assert_int_eq(sides[1].s.reason, -ETIMEDOUT);
	n = fkv_session_output(&sides[1].s, out);
	ck_assert_uint_eq(n, 24);
	ck_assert_uint_eq(fkv_session_output(&sides[1].s, out + 64), 0);
	ck_assert_int_eq(fkv_session_input(&sides[0].s, out, n, &why),
			 -ESTALE);
	ck_assert_int_eq(sides[0].s.state, FKV_SESSION_ENDED);
	ck_assert_uint_eq(sides[0].s.tx.n, 0);
	/* what was on its way is not looked at, and nothing is answered */
	ck_assert_int_eq(fkv_session_input(&sides[0].s, out, n, &why), 0);
	ck_assert_uint_eq(fkv_session_output(&sides[0].s, out), 0);
	/* and it stays so */
	reconnect();
	ck_assert_int_eq(sides[0].s.state, FKV_SESSION_ENDED);
}
END_TEST

/* The acceptor has forgotten: its lease was over, or it was started again. */
START_TEST(a_session_that_is_not_known_any_more_is_over)
{
	const char *why;

	open_up();
	send_one(0, FKV_SESSION_REQUEST);
	fkv_session_done(&sides[1].s);
	fkv_session_init(&sides[1].s, false, id);
	reconnect();
	ck_assert(pump(0));
	ck_assert_int_eq(fkv_session_input(&sides[1].s, sides[0].link[0].data,
					   sides[0].link[0].len, &why),
			 -ESTALE);
	ck_assert(pump(1));
	ck_assert_int_eq(fkv_session_input(&sides[0].s, sides[1].link[0].data,
					   sides[1].link[0].len, &why),
			 -ESTALE);
	ck_assert_uint_eq(sides[0].s.tx.n, 0);
}
END_TEST

/* Two dialers of one name and life, one of which began anew. */
START_TEST(a_dialer_that_forgot_is_not_taken_for_the_same)
{
	const char *why;

	open_up();
	send_one(0, FKV_SESSION_REQUEST);
	settle();
	fkv_session_done(&sides[0].s);
	fkv_session_init(&sides[0].s, true, id);
	reconnect();
	ck_assert(pump(0));
	ck_assert_int_eq(fkv_session_input(&sides[1].s, sides[0].link[0].data,
					   sides[0].link[0].len, &why),
			 -ESTALE);
}
END_TEST

START_TEST(a_hello_that_did_not_arrive_is_said_again_as_new)
{
	send_one(1, FKV_SESSION_REQUEST);
	reconnect();
	ck_assert(pump(0));
	ck_assert_int_eq(deliver(0, 0, false), 0);
	/* the acceptor is up, its hello is lost */
	ck_assert_int_eq(sides[1].s.state, FKV_SESSION_UP);
	ck_assert(pump(1));
	open_up();
	ck_assert_uint_eq(sides[0].got, 1);
}
END_TEST

START_TEST(a_hello_of_other_lives_ends_the_session)
{
	const char *why;

	for (size_t at = 8; at < 24; at++) {
		teardown();
		setup();
		reconnect();
		ck_assert(pump(0));
		sides[0].link[0].data[at] ^= 1;
		ck_assert_int_eq(fkv_session_input(&sides[1].s,
						   sides[0].link[0].data,
						   sides[0].link[0].len, &why),
				 -ESTALE);
	}
}
END_TEST

START_TEST(what_was_never_sent_cannot_be_acknowledged)
{
	uint8_t ack[16] = { 3 };
	const char *why;

	open_up();
	send_one(0, FKV_SESSION_REQUEST);
	fkv_put64(ack + 8, 1);
	ck_assert_int_eq(fkv_session_input(&sides[0].s, ack, 16, &why),
			 -EPROTO);
	ck_assert(pump(0));
	fkv_put64(ack + 8, 2);
	ck_assert_int_eq(fkv_session_input(&sides[0].s, ack, 16, &why),
			 -EPROTO);
	fkv_put64(ack + 8, 1);
	ck_assert_int_eq(fkv_session_input(&sides[0].s, ack, 16, &why), 0);
	/* in a hello, it has lost its memory */
	teardown();
	setup();
	open_up();
	reconnect();
	ck_assert(pump(0));
	fkv_put64(sides[0].link[0].data + 24, 9);
	ck_assert_int_eq(fkv_session_input(&sides[1].s, sides[0].link[0].data,
					   32, &why), -ESTALE);
}
END_TEST

/* Each is changed in each byte and cut at each length. */
static void mangle(int side, const uint8_t *frame, size_t len)
{
	uint8_t copy[512];
	const char *why;

	for (size_t n = 0; n < len; n++) {
		uint8_t *exact = malloc(n ? n : 1);

		memcpy(exact, frame, n);
		ck_assert_int_eq(fkv_session_input(&sides[side].s, exact, n,
						   &why), -EPROTO);
		free(exact);
	}
	for (size_t i = 0; i < 8; i++) {
		memcpy(copy, frame, len);
		copy[i] ^= 0x40;
		/* the reason of an end is free, zeros behind a kind need not be */
		if (copy[0] != 4 && copy[0] != 3 && copy[0] != 1)
			ck_assert_int_eq(fkv_session_input(&sides[side].s, copy,
							   len, &why), -EPROTO);
	}
	memcpy(copy, frame, len);
	copy[len] = 0;
	ck_assert_int_eq(fkv_session_input(&sides[side].s, copy, len + 1, &why),
			 -EPROTO);
}

START_TEST(frames_that_are_none_are_refused)
{
	uint8_t end[24] = { 4 }, ack[16] = { 3 }, zero[16] = { 0 };
	uint8_t data[24 + 2 * 4 + 3] = { 2, 0, 2 };
	uint8_t hello[32] = { 1 };
	const char *why;

	fkv_put64(data + 8, 1);
	fkv_put32(data + 24, 1);
	fkv_put32(data + 29, 2);
	/* nothing but a hello may come first */
	reconnect();
	ck_assert_int_eq(fkv_session_input(&sides[1].s, ack, 16, &why),
			 -EPROTO);
	ck_assert_int_eq(fkv_session_input(&sides[1].s, data, sizeof(data),
					   &why), -EPROTO);
	open_up();
	mangle(1, hello, sizeof(hello));
	mangle(1, data, sizeof(data));
	mangle(1, ack, sizeof(ack));
	mangle(1, end, sizeof(end));
	ck_assert_int_eq(fkv_session_input(&sides[1].s, zero, 16, &why),
			 -EPROTO);
	/* the end of another session is not ours */
	ck_assert_int_eq(fkv_session_input(&sides[1].s, end, 24, &why),
			 -EPROTO);
	ck_assert_int_eq(sides[1].s.state, FKV_SESSION_UP);
	ck_assert_int_eq(sides[1].s.got, 0);
	/* lengths: none, more than there is, the largest number */
	fkv_put32(data + 24, 0);
	ck_assert_int_eq(fkv_session_input(&sides[1].s, data, sizeof(data),
					   &why), -EPROTO);
	fkv_put32(data + 24, UINT32_MAX);
	ck_assert_int_eq(fkv_session_input(&sides[1].s, data, sizeof(data),
					   &why), -EPROTO);
	fkv_put32(data + 24, 1);
	fkv_put64(data + 8, UINT64_MAX);
	ck_assert_int_eq(fkv_session_input(&sides[1].s, data, sizeof(data),
					   &why), -EPROTO);
	fkv_put64(data + 8, 1);
	ck_assert_int_eq(fkv_session_input(&sides[1].s, data, sizeof(data),
					   &why), 0);
	ck_assert_int_eq(sides[1].s.got, 2);
}
END_TEST

static unsigned int fail_at, allocations;

static bool fail_nth(size_t size)
{
	(void)size;
	return ++allocations == fail_at;
}

START_TEST(without_memory_a_message_is_refused_or_comes_again)
{
	open_up();
	fkv_alloc_fail = fail_nth;
	fail_at = 1;
	allocations = 0;
	ck_assert_int_eq(send_one(0, FKV_SESSION_REQUEST), -ENOMEM);
	ck_assert_int_eq(send_one(0, FKV_SESSION_REQUEST), 0);
	send_one(0, FKV_SESSION_REQUEST);
	ck_assert(pump(0));
	allocations = 0;
	fail_at = 2;
	ck_assert_int_eq(deliver(0, 0, false), -EPROTO);
	fkv_alloc_fail = NULL;
	open_up();
	ck_assert_uint_eq(sides[1].got, 2);
}
END_TEST

static void add_tests(TCase *tc)
{
	tcase_add_test(tc, messages_come_once_and_in_order_whatever_is_lost);
	tcase_add_test(tc, an_answer_is_kept_until_it_is_acknowledged);
	tcase_add_test(tc, what_was_not_taken_is_not_acknowledged);
	tcase_add_test(tc,
		what_is_taken_after_a_reconnect_is_acknowledged_all_the_same);
	tcase_add_test(tc,
		sending_is_refused_at_the_bound_and_goes_on_when_acknowledged);
	tcase_add_test(tc, bytes_are_bounded_as_well);
	tcase_add_test(tc, a_peer_that_breaks_the_bound_loses_its_connection);
	tcase_add_test(tc, the_end_voids_everything_on_both_sides);
	tcase_add_test(tc, a_session_that_is_not_known_any_more_is_over);
	tcase_add_test(tc, a_dialer_that_forgot_is_not_taken_for_the_same);
	tcase_add_test(tc, a_hello_that_did_not_arrive_is_said_again_as_new);
	tcase_add_test(tc, a_hello_of_other_lives_ends_the_session);
	tcase_add_test(tc, what_was_never_sent_cannot_be_acknowledged);
	tcase_add_test(tc, frames_that_are_none_are_refused);
	tcase_add_test(tc, without_memory_a_message_is_refused_or_comes_again);
}

int main(void)
{
	Suite *s = suite_create("session");
	TCase *tc = tcase_create("session");
	SRunner *sr = srunner_create(s);
	int failed;

	tcase_add_checked_fixture(tc, setup, teardown);
	tcase_set_timeout(tc, 120);
	add_tests(tc);
	suite_add_tcase(s, tc);
	srunner_run_all(sr, CK_NORMAL);
	failed = srunner_ntests_failed(sr);
	srunner_free(sr);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
