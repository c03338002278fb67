// SPDX-License-Identifier: Apache-2.0
#include <check.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "svc/metrics.h"

static unsigned int bucket_of(uint64_t ns)
{
	struct fkv_histogram h = { 0 };

	fkv_histogram_record(&h, ns);
	ck_assert_uint_eq(h.count, 1);
	for (unsigned int b = 0; b < FKV_HISTOGRAM_BUCKETS; b++)
		if (h.bucket[b])
			return b;
	ck_abort_msg("%" PRIu64 " ns is in no bucket", ns);
	return 0;
}

/* O1: le is inclusive */
START_TEST(a_bucket_holds_what_is_at_most_its_bound)
{
	ck_assert_uint_eq(bucket_of(0), 0);
	ck_assert_uint_eq(bucket_of(1000), 0);
	ck_assert_uint_eq(bucket_of(1001), 1);
	ck_assert_uint_eq(bucket_of(2000), 1);
	ck_assert_uint_eq(bucket_of(2001), 2);
	for (unsigned int b = 0; b < FKV_HISTOGRAM_BUCKETS - 1; b++) {
		ck_assert_uint_eq(bucket_of(1000ULL << b), b);
		ck_assert_uint_eq(bucket_of((1000ULL << b) + 1), b + 1);
	}
}
END_TEST

START_TEST(the_longest_latencies_are_in_the_last_bucket)
{
	ck_assert_uint_eq(bucket_of(UINT64_MAX / 2),
			  FKV_HISTOGRAM_BUCKETS - 1);
	ck_assert_uint_eq(bucket_of(UINT64_MAX), FKV_HISTOGRAM_BUCKETS - 1);
}
END_TEST

START_TEST(one_metric_has_help_type_and_sample)
{
	struct fkv_text t = { 0 };
	char *out;

	fkv_metric_one(&t, "fluxonkv_x_total", "counter", "Things.",
		       UINT64_MAX);
	out = fkv_text_done(&t);
	ck_assert_str_eq(out, "# HELP fluxonkv_x_total Things.\n"
			 "# TYPE fluxonkv_x_total counter\n"
			 "fluxonkv_x_total 18446744073709551615\n");
	free(out);
}
END_TEST

START_TEST(labelled_samples_share_one_head)
{
	struct fkv_text t = { 0 };
	char *out;

	fkv_metric_head(&t, "fluxonkv_k", "gauge", "Keys.");
	fkv_metric(&t, "fluxonkv_k", "{tier=\"ssd\"}", 2);
	fkv_metric(&t, "fluxonkv_k", "{tier=\"memory\"}", 3);
	out = fkv_text_done(&t);
	ck_assert_str_eq(out, "# HELP fluxonkv_k Keys.\n"
			 "# TYPE fluxonkv_k gauge\n"
			 "fluxonkv_k{tier=\"ssd\"} 2\n"
			 "fluxonkv_k{tier=\"memory\"} 3\n");
	free(out);
}
END_TEST

static char *histogram_text(const char *label, const struct fkv_histogram *h)
{
	struct fkv_text t = { 0 };

	fkv_metric_histogram(&t, "h", label, h);
	return fkv_text_done(&t);
}

START_TEST(histogram_buckets_are_cumulative_and_end_in_count)
{
	struct fkv_histogram h = { 0 };
	uint64_t last = 0, v, count = 0;
	char *out, *p, *save;
	int buckets = 0;

	for (uint64_t ns = 1; ns < 1ULL << 40; ns *= 3) {
		fkv_histogram_record(&h, ns);
		count++;
	}
	out = histogram_text("", &h);
	ck_assert_ptr_nonnull(strstr(out, "h_bucket{le=\"+Inf\"}"));
	for (p = strtok_r(out, "\n", &save); p;
	     p = strtok_r(NULL, "\n", &save)) {
		if (strncmp(p, "h_bucket", 8))
			continue;
		v = strtoull(strrchr(p, ' '), NULL, 10);
		ck_assert_uint_ge(v, last);
		last = v;
		buckets++;
	}
	ck_assert_int_eq(buckets, FKV_HISTOGRAM_BUCKETS);
	ck_assert_uint_eq(last, count);
	free(out);
}
END_TEST

START_TEST(histogram_bounds_are_printed_exactly)
{
	struct fkv_histogram h = { 0 };
	char *out = histogram_text("", &h), *p = out;

	for (unsigned int b = 0; b < FKV_HISTOGRAM_BUCKETS - 1; b++) {
		double le;

		p = strstr(p, "le=\"") + 4;
		le = strtod(p, NULL);
		ck_assert_msg((uint64_t)(le * 1e6 + 0.5) == 1ULL << b,
			      "bucket %u: %.12g", b, le);
	}
	free(out);
}
END_TEST

/* a sum of days must still show one more millisecond, or rate() is 0 */
START_TEST(a_large_histogram_sum_loses_no_nanosecond)
{
	struct fkv_histogram h = { 0 };
	char *out;

	h.sum_ns = 1234567ULL * FKV_SEC + 890123456;
	h.count = 1;
	out = histogram_text("op=\"get\"", &h);
	ck_assert_ptr_nonnull(strstr(out,
				     "h_sum{op=\"get\"} 1234567.890123456\n"));
	ck_assert_ptr_nonnull(strstr(out, "h_count{op=\"get\"} 1\n"));
	ck_assert_ptr_nonnull(strstr(out, "{op=\"get\",le=\"+Inf\"} 1\n"));
	free(out);
}
END_TEST

START_TEST(a_text_grows_past_its_first_room)
{
	struct fkv_text t = { 0 };
	char *out, *p;

	for (int i = 0; i < 20000; i++)
		fkv_text_add(&t, "%06d\n", i);
	p = out = fkv_text_done(&t);
	ck_assert_uint_eq(strlen(out), 20000 * 7);
	for (int i = 0; i < 20000; i++, p += 7)
		ck_assert_int_eq(strtol(p, NULL, 10), i);
	free(out);
}
END_TEST

START_TEST(an_empty_text_is_an_empty_string)
{
	struct fkv_text t = { 0 };
	char *out = fkv_text_done(&t);

	ck_assert_str_eq(out, "");
	free(out);
}
END_TEST

static bool always(size_t size)
{
	(void)size;
	return true;
}

START_TEST(without_memory_a_text_is_broken_and_says_so)
{
	struct fkv_text t = { 0 };

	fkv_text_add(&t, "first");
	fkv_alloc_fail = always;
	for (int i = 0; i < 2000; i++)
		fkv_text_add(&t, "more and ");
	fkv_alloc_fail = NULL;
	fkv_text_add(&t, "late");
	ck_assert_ptr_null(fkv_text_done(&t));
}
END_TEST

int main(void)
{
	Suite *s = suite_create("metrics");
	TCase *tc = tcase_create("metrics");
	SRunner *sr = srunner_create(s);
	int failed;

	tcase_add_test(tc, a_bucket_holds_what_is_at_most_its_bound);
	tcase_add_test(tc, the_longest_latencies_are_in_the_last_bucket);
	tcase_add_test(tc, one_metric_has_help_type_and_sample);
	tcase_add_test(tc, labelled_samples_share_one_head);
	tcase_add_test(tc, histogram_buckets_are_cumulative_and_end_in_count);
	tcase_add_test(tc, histogram_bounds_are_printed_exactly);
	tcase_add_test(tc, a_large_histogram_sum_loses_no_nanosecond);
	tcase_add_test(tc, a_text_grows_past_its_first_room);
	tcase_add_test(tc, an_empty_text_is_an_empty_string);
	tcase_add_test(tc, without_memory_a_text_is_broken_and_says_so);
	suite_add_tcase(s, tc);
	srunner_run_all(sr, CK_NORMAL);
	failed = srunner_ntests_failed(sr);
	srunner_free(sr);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
