// SPDX-License-Identifier: Apache-2.0
/*
 * test_transfer_readers.c - a plain socket dials src: it has no key, or breaks
 * the rules with it
 */
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "wire/bytes.h"

#include "transfer_driver.h"

static struct fkv_frame attach_of(uint32_t slot, uint64_t generation)
{
	return (struct fkv_frame){ .kind = FKV_FRAME_ATTACH, .slot = slot,
				   .op = generation };
}

/* A reader with the key. */
static void raw_reader(struct raw *r, uint64_t generation)
{
	struct fkv_frame f = attach_of(0, generation);

	raw_dial(r, "reader", 44);
	raw_say(r, &f);
	ck_assert(raw_hear(r, &f));
	ck_assert_int_eq(f.kind, FKV_FRAME_ATTACHED);
	ck_assert_int_eq(f.status, 0);
	ck_assert_uint_eq(f.op, generation);
}

static struct fkv_frame pull_frame(uint64_t op, uint64_t len)
{
	return (struct fkv_frame){ .kind = FKV_FRAME_PULL, .op = op,
				   .len = len };
}

/* ---- no key ---- */

START_TEST(a_wrong_key_is_met_with_silence)
{
	uint8_t other[FKV_AUTH_KEY];
	struct raw r;
	uint8_t byte;

	memset(other, 0x22, sizeof(other));
	raw_connect(&r);
	raw_hello(&r, other, "reader", 44);
	ck_assert(!raw_recv(&r, &byte, 1));
	close(r.fd);
	/* none at all, which means the same */
	raw_connect(&r);
	raw_hello(&r, NULL, "reader", 44);
	ck_assert(!raw_recv(&r, &byte, 1));
	close(r.fd);
	ck_assert_uint_eq(stats_of(&src).refused, 2);
	ck_assert_uint_eq(stats_of(&src).strangers, 0);
	src_serves();
}
END_TEST

START_TEST(another_cluster_is_told_so)
{
	struct raw r;
	uint8_t head[4], text[64];

	raw_connect(&r);
	r.self = (struct fkv_auth_self){ key, "other", "reader", 44 };
	{
		uint8_t random[FKV_AUTH_RANDOM] = { 1 };
		struct fkv_auth_out out;

		fkv_auth_init(&r.auth, &r.self, true, random, &out);
		raw_message(&r, out.data, out.len);
	}
	ck_assert(raw_recv(&r, head, 4));
	ck_assert(raw_recv(&r, text, fkv_get32(head)));
	ck_assert_uint_eq(text[0], 4);
	raw_is_closed(&r);
	src_serves();
}
END_TEST

/* What one said to be let in lets nobody else in. */
START_TEST(a_recorded_handshake_opens_nothing)
{
	struct fkv_frame f = attach_of(0, 1);
	struct raw r, again;
	raw_dial(&r, "reader", 44);
	raw_say(&r, &f);
	ck_assert(raw_hear(&r, &f));
	raw_connect(&again);
	raw_send(&again, r.said, r.said_len);
	/* the hello is good, but the proof is that of another connection */
	raw_is_closed(&again);
	close(r.fd);
	ck_assert_uint_eq(stats_of(&src).refused, 1);
	src_serves();
}
END_TEST

START_TEST(nothing_is_served_before_the_handshake)
{
	uint8_t head[FKV_FRAME_HEAD + FKV_AUTH_SEAL] = { 0 };
	struct fkv_frame f = pull_frame(1, 4096);
	struct raw r;
	uint8_t byte;

	expose(0, 0, SEGMENT);
	fkv_frame_make(&f, head);
	raw_connect(&r);
	raw_send(&r, head, sizeof(head));
	ck_assert(!raw_recv(&r, &byte, 1));
	close(r.fd);
	/* nor with the handshake, but without its seal */
	raw_reader(&r, 1);
	raw_send(&r, head, sizeof(head));
	ck_assert(!raw_recv(&r, &byte, 1));
	close(r.fd);
	src_serves();
}
END_TEST

START_TEST(a_handshake_has_a_length_and_a_time)
{
	static const uint32_t lengths[] = { 0, FKV_AUTH_MSG_MAX + 1,
					    UINT32_MAX };
	struct raw r, slow;
	uint8_t head[4], byte;

	for (size_t i = 0; i < FKV_ARRAY_SIZE(lengths); i++) {
		raw_connect(&r);
		fkv_put32(head, lengths[i]);
		raw_send(&r, head, 4);
		ck_assert(!raw_recv(&r, &byte, 1));
		close(r.fd);
	}
	/* half of one */
	raw_connect(&slow);
	raw_connect(&r);
	raw_send(&slow, "\x40\0\0", 3);
	ck_assert(!raw_recv(&slow, &byte, 1));
	ck_assert(!raw_recv(&r, &byte, 1));
	close(slow.fd);
	close(r.fd);
	/* proven, and then silent: it is nobody's channel */
	raw_dial(&r, "reader", 44);
	ck_assert(!raw_recv(&r, &byte, 1));
	close(r.fd);
	wait_for(!stats_of(&src).connections);
	src_serves();
}
END_TEST

START_TEST(strangers_are_few)
{
	static struct raw r[2 * FKV_TRANSFER_STRANGERS_MAX];
	uint8_t byte;

	for (size_t i = 0; i < FKV_ARRAY_SIZE(r); i++) {
		raw_connect(&r[i]);
		spin();
		ck_assert_uint_le(stats_of(&src).strangers,
				  FKV_TRANSFER_STRANGERS_MAX);
	}
	/* an honest one is let in all the same */
	src_serves();
	for (size_t i = 0; i < FKV_ARRAY_SIZE(r); i++) {
		ck_assert(!raw_recv(&r[i], &byte, 1));
		close(r[i].fd);
	}
}
END_TEST

START_TEST(noise_is_no_handshake)
{
	uint8_t noise[256];
	struct raw r;

	srand(7);
	for (int i = 0; i < 300; i++) {
		raw_connect(&r);
		for (size_t k = 0; k < sizeof(noise); k++)
			noise[k] = (uint8_t)rand();
		/* half of them with a length that may be */
		if (i % 2)
			fkv_put32(noise, 1 + (uint32_t)rand() % 252);
		raw_send(&r, noise, sizeof(noise));
		close(r.fd);
	}
	wait_for(!stats_of(&src).strangers);
	src_serves();
}
END_TEST

/* ---- bad readers ---- */

static void reader_breaks(struct fkv_frame f)
{
	static uint64_t generation = 100;
	uint64_t before = stats_of(&src).broken;
	struct raw r;

	raw_reader(&r, ++generation);
	raw_say(&r, &f);
	raw_is_closed(&r);
	ck_assert_uint_eq(stats_of(&src).broken, before + 1);
}

START_TEST(a_reader_says_what_readers_say)
{
	unsigned int unknown = 99;

	reader_breaks((struct fkv_frame){ .kind = FKV_FRAME_DATA, .op = 1,
					  .len = 1 });
	reader_breaks((struct fkv_frame){ .kind = FKV_FRAME_END, .op = 1 });
	reader_breaks((struct fkv_frame){ .kind = FKV_FRAME_ATTACHED,
					  .op = 1 });
	reader_breaks((struct fkv_frame){ .kind = (enum fkv_frame_kind)unknown,
					  .op = 1 });
	reader_breaks((struct fkv_frame){ .kind = FKV_FRAME_PULL, .op = 1,
					  .len = 0 });
	/* once is enough */
	reader_breaks(attach_of(0, 9));
	src_serves();
}
END_TEST

START_TEST(a_pull_comes_after_its_attach)
{
	struct fkv_frame f = pull_frame(1, 4096);
	struct raw r;

	expose(0, 0, SEGMENT);
	raw_dial(&r, "reader", 44);
	raw_say(&r, &f);
	raw_is_closed(&r);
	src_serves();
}
END_TEST

/* G3.2: however late it comes */
START_TEST(a_generation_does_not_come_back)
{
	struct fkv_frame f;
	struct raw r, next;

	raw_reader(&r, 5);
	/* the next in its slot: the old one is gone */
	raw_reader(&next, 6);
	raw_is_closed(&r);
	for (uint64_t old = 4; old <= 6; old++) {
		raw_dial(&r, "reader", 44);
		f = attach_of(0, old);
		raw_say(&r, &f);
		ck_assert(raw_hear(&r, &f));
		ck_assert_int_eq(f.status, -ESTALE);
		raw_is_closed(&r);
	}
	ck_assert_uint_eq(peer_stats_of(&src, 44).channels_in, 1);
	close(next.fd);
	wait_for(!peer_stats_of(&src, 44).channels_in);
}
END_TEST

START_TEST(a_life_that_is_over_is_told_so)
{
	struct fkv_frame f = attach_of(0, 1);
	struct raw r;

	ck_assert_int_eq(fkv_transfer_peer_remove(src.t, 44), 0);
	raw_dial(&r, "reader", 44);
	raw_say(&r, &f);
	ck_assert(raw_hear(&r, &f));
	ck_assert_int_eq(f.status, -ESTALE);
	raw_is_closed(&r);
}
END_TEST

START_TEST(pulls_of_a_connection_are_bounded)
{
	struct fkv_frame f = pull_frame(1, FKV_FRAME_DATA_MAX);
	struct raw r;

	expose(0, 0, SEGMENT);
	raw_reader(&r, 1);
	for (uint32_t i = 0; i < 200; i++) {
		f.op = 1 + i;
		raw_say(&r, &f);
	}
	raw_is_closed(&r);
	ck_assert_uint_eq(stats_of(&src).broken, 1);
	src_serves();
}
END_TEST

START_TEST(targets_that_are_offered_are_bounded)
{
	struct fkv_frame f = { .kind = FKV_FRAME_TARGET, .len = 1 };
	struct raw r;

	raw_reader(&r, 1);
	for (f.op = 1; f.op <= FKV_TRANSFER_DEPTH + 1; f.op++)
		raw_say(&r, &f);
	raw_is_closed(&r);
	ck_assert_uint_eq(stats_of(&src).broken, 1);
	src_serves();
}
END_TEST

/* A21: it takes nothing, and costs no more than its connection */
START_TEST(a_reader_that_does_not_read_is_given_up)
{
	struct fkv_frame f = pull_frame(1, SEGMENT);
	uint64_t began;
	struct raw r;

	expose(0, 0, SEGMENT);
	raw_reader(&r, 1);
	raw_say(&r, &f);
	began = fkv_clock_ns();
	/* others are served meanwhile */
	src_serves();
	wait_for(!peer_stats_of(&src, 44).channels_in);
	ck_assert_uint_ge(fkv_clock_ns() - began, quick.stall_ns / 2);
	ck_assert_uint_eq(stats_of(&src).stalls, 1);
	close(r.fd);
}
END_TEST

START_TEST(unexposing_ends_what_is_being_sent)
{
	struct fkv_frame f = pull_frame(1, SEGMENT);
	struct call c = { 0 };
	struct raw r;

	expose(1, 0, SEGMENT);
	raw_reader(&r, 1);
	raw_say(&r, &f);
	wait_for(peer_stats_of(&src, 44).served == 1);
	ck_assert_int_eq(fkv_transfer_unexpose(src.t, 1, on_call, &c), 0);
	ended(&c, 0, FKV_FAULT_NONE);
	ck_assert_uint_eq(peer_stats_of(&src, 44).channels_in, 0);
	ck_assert_uint_eq(stats_of(&src).stalls, 0);
	close(r.fd);
}
END_TEST

START_TEST(a_push_to_who_does_not_read_fails_and_frees_its_chunk)
{
	struct fkv_transfer_push p = { .op = 7, .peer = 44, .generation = 1,
				       .len = SEGMENT, .done = on_call };
	struct call from = { 0 }, chunk;
	struct raw r;

	raw_reader(&r, 1);
	p.arg = &from;
	ck_assert_int_eq(fkv_transfer_push(src.t, &p), 0);
	piece(&chunk, 7, &(struct fkv_transfer_piece){ .len = SEGMENT,
						       .last = true });
	ended(&from, -ETIMEDOUT, FKV_FAULT_TRANSPORT);
	ended(&chunk, -ETIMEDOUT, FKV_FAULT_TRANSPORT);
	close(r.fd);
}
END_TEST

START_TEST(a_push_to_who_goes_away_fails)
{
	struct fkv_transfer_push p = { .op = 7, .peer = 44, .generation = 1,
				       .len = 8192, .done = on_call };
	struct call from = { 0 }, chunk;
	struct raw r;

	raw_reader(&r, 1);
	p.arg = &from;
	ck_assert_int_eq(fkv_transfer_push(src.t, &p), 0);
	piece(&chunk, 7, &(struct fkv_transfer_piece){ .len = 4096 });
	ended(&chunk, 0, FKV_FAULT_NONE);
	close(r.fd);
	ended(&from, -ECONNRESET, FKV_FAULT_TRANSPORT);
}
END_TEST

static void add_tests(TCase *tc)
{
	tcase_add_test(tc, a_wrong_key_is_met_with_silence);
	tcase_add_test(tc, another_cluster_is_told_so);
	tcase_add_test(tc, a_recorded_handshake_opens_nothing);
	tcase_add_test(tc, nothing_is_served_before_the_handshake);
	tcase_add_test(tc, a_handshake_has_a_length_and_a_time);
	tcase_add_test(tc, strangers_are_few);
	tcase_add_test(tc, noise_is_no_handshake);
	tcase_add_test(tc, a_reader_says_what_readers_say);
	tcase_add_test(tc, a_pull_comes_after_its_attach);
	tcase_add_test(tc, a_generation_does_not_come_back);
	tcase_add_test(tc, a_life_that_is_over_is_told_so);
	tcase_add_test(tc, pulls_of_a_connection_are_bounded);
	tcase_add_test(tc, targets_that_are_offered_are_bounded);
	tcase_add_test(tc, a_reader_that_does_not_read_is_given_up);
	tcase_add_test(tc, unexposing_ends_what_is_being_sent);
	tcase_add_test(tc,
		a_push_to_who_does_not_read_fails_and_frees_its_chunk);
	tcase_add_test(tc, a_push_to_who_goes_away_fails);
}

int main(void)
{
	Suite *s = suite_create("transfer readers");
	TCase *tc = tcase_create("readers");
	SRunner *sr = srunner_create(s);
	int failed;

	tcase_add_checked_fixture(tc, transfer_setup, transfer_teardown);
	tcase_set_timeout(tc, 120);
	add_tests(tc);
	suite_add_tcase(s, tc);
	srunner_run_all(sr, CK_NORMAL);
	failed = srunner_ntests_failed(sr);
	srunner_free(sr);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
