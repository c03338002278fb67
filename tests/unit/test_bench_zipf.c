// SPDX-License-Identifier: Apache-2.0
/*
 * test_bench_zipf.c - the pressure workload's keys and payloads
 */
#include <check.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "bench/payload.h"
#include "bench/zipf.h"

static void check_sequence(uint32_t keys, uint64_t thread,
			   const uint32_t *want, unsigned int n)
{
	struct bench_zipf z;

	ck_assert_int_eq(bench_zipf_init(&z, keys, 0.99), 0);
	for (unsigned int i = 0; i < n; i++)
		ck_assert_uint_eq(bench_zipf_draw(&z, thread, i), want[i]);
	bench_zipf_done(&z);
}

/* W1's check values */
START_TEST(keys_of_the_reference_workload_are_drawn)
{
	static const uint32_t t0[] = { 91, 940, 264, 154, 1760, 739, 2, 33, 0,
				       2, 24, 1425 };
	static const uint32_t t1[] = { 5, 546, 52, 347, 2, 3, 295, 4, 128, 0,
				       466, 9 };

	check_sequence(2560, 0, t0, 12);
	check_sequence(2560, 1, t1, 12);
}
END_TEST

/* Made by another implementation of the same rule. */
START_TEST(other_key_counts_agree_with_a_second_implementation)
{
	static const uint32_t small[] = { 2, 39, 0, 3, 10, 0, 3, 3, 2, 1, 16,
					  70 };
	static const uint32_t middle[] = { 16, 76, 11, 251, 191, 100, 0, 215,
					   24, 3, 0, 1 };

	check_sequence(160, 3, small, 12);
	check_sequence(640, 2, middle, 12);
}
END_TEST

START_TEST(edges_of_the_uniform_number_stay_inside)
{
	struct bench_zipf z;

	ck_assert_int_eq(bench_zipf_init(&z, 100, 0.99), 0);
	ck_assert_uint_eq(bench_zipf_find(&z, 0), 0);
	ck_assert_uint_eq(bench_zipf_find(&z, 1), 99);
	ck_assert_uint_eq(bench_zipf_find(&z, z.cumulative[41]), 41);
	bench_zipf_done(&z);
	ck_assert_int_eq(bench_zipf_init(&z, 0, 0.99), -EINVAL);
	ck_assert_int_eq(bench_zipf_init(&z, 1, 0.99), 0);
	ck_assert_uint_eq(bench_zipf_draw(&z, 0, 0), 0);
	bench_zipf_done(&z);
}
END_TEST

static const uint64_t lengths[] = { 0, 1, 7, 8, 9, 4095, 4096, 8192, 8193,
				    12289, 65536 - 128 };

START_TEST(filled_payload_is_good)
{
	uint64_t seed = bench_payload_seed("key", 3);
	unsigned char *p = malloc(65537);

	for (unsigned int i = 0; i < sizeof(lengths) / sizeof(*lengths); i++) {
		p[lengths[i] + 1] = 0x5a;
		bench_payload_fill(p + 1, lengths[i], seed);
		ck_assert_uint_eq(p[lengths[i] + 1], 0x5a);
		ck_assert_uint_eq(bench_payload_check(p + 1, lengths[i], seed),
				  BENCH_PAYLOAD_GOOD);
		ck_assert_uint_eq(bench_payload_check_edges(p + 1, lengths[i],
							    seed),
				  BENCH_PAYLOAD_GOOD);
	}
	free(p);
}
END_TEST

START_TEST(any_wrong_byte_is_found)
{
	uint64_t seed = bench_payload_seed("key", 3), len = 12289;
	unsigned char *p = malloc(len);

	bench_payload_fill(p, len, seed);
	for (uint64_t at = 0; at < len; at++) {
		p[at] ^= 1;
		ck_assert_uint_eq(bench_payload_check(p, len, seed), at & ~7UL);
		if (at < 4096 || at >= len - 4096)
			ck_assert_uint_ne(bench_payload_check_edges(p, len,
								    seed),
					  BENCH_PAYLOAD_GOOD);
		p[at] ^= 1;
	}
	free(p);
}
END_TEST

START_TEST(bytes_of_another_key_or_place_are_found)
{
	uint64_t a = bench_payload_seed("k1", 2);
	uint64_t b = bench_payload_seed("k2", 2);
	unsigned char *p = malloc(65536);

	ck_assert_uint_ne(a, b);
	bench_payload_fill(p, 65536, a);
	ck_assert_uint_eq(bench_payload_check(p, 65536, b), 0);
	memmove(p + 16384, p + 8192, 4096);
	ck_assert_uint_eq(bench_payload_check(p, 65536, a), 16384);
	free(p);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("bench_zipf");
	TCase *t = tcase_create("all");
	SRunner *r;
	int failed;

	tcase_add_test(t, keys_of_the_reference_workload_are_drawn);
	tcase_add_test(t, other_key_counts_agree_with_a_second_implementation);
	tcase_add_test(t, edges_of_the_uniform_number_stay_inside);
	tcase_add_test(t, filled_payload_is_good);
	tcase_add_test(t, any_wrong_byte_is_found);
	tcase_add_test(t, bytes_of_another_key_or_place_are_found);
	suite_add_tcase(s, t);
	r = srunner_create(s);
	srunner_run_all(r, CK_NORMAL);
	failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
