// SPDX-License-Identifier: Apache-2.0
/*
 * test_bench_hist.c - latency histogram, and sizes on the command line
 */
#include <check.h>
#include <stdlib.h>

#include "bench/args.h"
#include "bench/hist.h"

static struct bench_hist *hist_new(void)
{
	return calloc(1, sizeof(struct bench_hist));
}

START_TEST(empty_histogram_says_zero)
{
	struct bench_hist *h = hist_new();

	ck_assert_uint_eq(bench_hist_quantile(h, 0.5), 0);
	ck_assert(bench_hist_mean(h) == 0);
	free(h);
}
END_TEST

START_TEST(small_values_are_exact)
{
	struct bench_hist *h = hist_new();

	for (uint64_t v = 1; v <= 60; v++)
		bench_hist_add(h, v);
	ck_assert_uint_eq(bench_hist_quantile(h, 0), 1);
	ck_assert_uint_eq(bench_hist_quantile(h, 0.5), 30);
	ck_assert_uint_eq(bench_hist_quantile(h, 0.95), 57);
	ck_assert_uint_eq(bench_hist_quantile(h, 1), 60);
	free(h);
}
END_TEST

START_TEST(quantiles_are_at_most_a_64th_too_large)
{
	struct bench_hist *h = hist_new();

	for (uint64_t v = 1; v <= 1000000; v++)
		bench_hist_add(h, v * 37);
	for (int q = 1; q <= 1000; q++) {
		uint64_t exact = (uint64_t)q * 1000 * 37;
		uint64_t got = bench_hist_quantile(h, q / 1000.0);

		ck_assert_uint_ge(got, exact - 37);
		ck_assert_uint_le(got, exact + exact / 64 + 37);
	}
	ck_assert_uint_eq(bench_hist_quantile(h, 1), 37000000);
	free(h);
}
END_TEST

START_TEST(extreme_values_have_a_bucket)
{
	struct bench_hist *h = hist_new();

	bench_hist_add(h, 0);
	bench_hist_add(h, UINT64_MAX);
	ck_assert_uint_eq(bench_hist_quantile(h, 0.5), 0);
	ck_assert_uint_eq(bench_hist_quantile(h, 1), UINT64_MAX);
	free(h);
}
END_TEST

START_TEST(merged_equals_added_together)
{
	struct bench_hist *a = hist_new(), *b = hist_new(), *all = hist_new();

	for (uint64_t v = 100; v < 90000; v += 7) {
		bench_hist_add(v % 2 ? a : b, v);
		bench_hist_add(all, v);
	}
	bench_hist_merge(a, b);
	ck_assert_mem_eq(a, all, sizeof(*a));
	free(a);
	free(b);
	free(all);
}
END_TEST

START_TEST(sizes_have_binary_units)
{
	uint64_t v;

	ck_assert_int_eq(bench_size_parse("4096", &v), 0);
	ck_assert_uint_eq(v, 4096);
	ck_assert_int_eq(bench_size_parse("384k", &v), 0);
	ck_assert_uint_eq(v, 393216);
	ck_assert_int_eq(bench_size_parse("1.25MiB", &v), 0);
	ck_assert_uint_eq(v, 1310720);
	ck_assert_int_eq(bench_size_parse("16gb", &v), 0);
	ck_assert_uint_eq(v, 16ULL << 30);
	ck_assert_int_ne(bench_size_parse("", &v), 0);
	ck_assert_int_ne(bench_size_parse("-1", &v), 0);
	ck_assert_int_ne(bench_size_parse("1x", &v), 0);
	ck_assert_int_ne(bench_size_parse("0x10", &v), 0);
	ck_assert_int_ne(bench_size_parse("1e99", &v), 0);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("bench_hist");
	TCase *t = tcase_create("all");
	SRunner *r;
	int failed;

	tcase_add_test(t, empty_histogram_says_zero);
	tcase_add_test(t, small_values_are_exact);
	tcase_add_test(t, quantiles_are_at_most_a_64th_too_large);
	tcase_add_test(t, extreme_values_have_a_bucket);
	tcase_add_test(t, merged_equals_added_together);
	tcase_add_test(t, sizes_have_binary_units);
	suite_add_tcase(s, t);
	r = srunner_create(s);
	srunner_run_all(r, CK_NORMAL);
	failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
