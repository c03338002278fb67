// SPDX-License-Identifier: Apache-2.0
#include <check.h>
#include <stdlib.h>

#include "core/ssd/arbiter.h"

#define NR	600

static struct fkv_arbiter a;
static struct fkv_arbiter_item item[NR];
static int used;

static struct fkv_arbiter_item *add(enum fkv_arbiter_class class,
				    uint64_t bytes)
{
	struct fkv_arbiter_item *it = &item[used++];

	*it = (struct fkv_arbiter_item){ .class = class, .bytes = bytes };
	fkv_arbiter_add(&a, it);
	return it;
}

static struct fkv_arbiter_item *issue(bool last)
{
	struct fkv_arbiter_item *it = fkv_arbiter_next(&a);

	if (it)
		fkv_arbiter_issued(&a, it, last);
	return it;
}

static void setup(void)
{
	used = 0;
	fkv_arbiter_init(&a, 128, 2);
}

/* S10 */
START_TEST(reads_go_first_while_at_most_weight_times_writes)
{
	int reads = 0, writes = 0;

	for (int i = 0; i < 40; i++) {
		add(FKV_ARBITER_READ, 4096);
		add(FKV_ARBITER_WRITE, 4096);
	}
	for (int i = 0; i < 30; i++) {
		bool read_first = reads <= 2 * writes;
		struct fkv_arbiter_item *it = issue(true);

		ck_assert_int_eq(it->class == FKV_ARBITER_READ, read_first);
		reads += it->class == FKV_ARBITER_READ;
		writes += it->class == FKV_ARBITER_WRITE;
	}
	ck_assert_int_eq(reads, 20);
}
END_TEST

START_TEST(an_empty_channel_never_idles_the_other)
{
	for (int i = 0; i < 10; i++)
		add(FKV_ARBITER_READ, 4096);
	for (int i = 0; i < 10; i++)
		ck_assert_ptr_nonnull(issue(true));
	for (int i = 0; i < 10; i++)
		add(FKV_ARBITER_WRITE, 4096);
	for (int i = 0; i < 10; i++)
		ck_assert_ptr_nonnull(issue(true));
	ck_assert_ptr_null(issue(true));
}
END_TEST

START_TEST(depth_bounds_both_channels_together)
{
	struct fkv_arbiter_item *r;

	fkv_arbiter_init(&a, 3, 2);
	r = add(FKV_ARBITER_READ, 4096);
	add(FKV_ARBITER_WRITE, 4096);
	for (int i = 0; i < 3; i++)
		ck_assert_ptr_nonnull(issue(false));
	ck_assert_ptr_null(fkv_arbiter_next(&a));
	fkv_arbiter_returned(&a, r);
	ck_assert_ptr_nonnull(fkv_arbiter_next(&a));
}
END_TEST

/* protocol S10: 256 reads, 512 MiB; 32 writes, 128 MiB */
START_TEST(read_budget_is_count_and_bytes)
{
	fkv_arbiter_init(&a, 4096, 2);
	for (uint32_t i = 0; i < FKV_READS_MAX + 1; i++)
		add(FKV_ARBITER_READ, 4096);
	for (uint32_t i = 0; i < FKV_READS_MAX; i++)
		ck_assert_ptr_nonnull(issue(true));
	ck_assert_ptr_null(issue(true));
	fkv_arbiter_done(&a, &item[0]);
	ck_assert_ptr_eq(issue(true), &item[FKV_READS_MAX]);

	setup();
	add(FKV_ARBITER_READ, FKV_READ_BYTES_MAX - 4096);
	add(FKV_ARBITER_READ, 8192);
	ck_assert_ptr_eq(issue(true), &item[0]);
	ck_assert_ptr_null(issue(true));
	fkv_arbiter_done(&a, &item[0]);
	ck_assert_ptr_eq(issue(true), &item[1]);
}
END_TEST

START_TEST(write_budget_is_its_own)
{
	add(FKV_ARBITER_READ, FKV_READ_BYTES_MAX);
	for (uint32_t i = 0; i < FKV_WRITES_MAX + 1; i++)
		add(FKV_ARBITER_WRITE, 4096);
	for (uint32_t i = 0; i < FKV_WRITES_MAX + 1; i++)
		ck_assert_ptr_nonnull(issue(true));
	ck_assert_ptr_null(issue(true));
}
END_TEST

START_TEST(a_larger_request_takes_the_whole_budget_alone)
{
	struct fkv_arbiter_item *small, *big, *after;

	small = add(FKV_ARBITER_READ, 4096);
	big = add(FKV_ARBITER_READ, 4 * FKV_READ_BYTES_MAX);
	after = add(FKV_ARBITER_READ, 4096);
	ck_assert_ptr_eq(issue(true), small);
	ck_assert_ptr_null(issue(true));
	fkv_arbiter_done(&a, small);
	ck_assert_ptr_eq(issue(true), big);
	ck_assert_ptr_null(issue(true));
	fkv_arbiter_done(&a, big);
	ck_assert_ptr_eq(issue(true), after);
}
END_TEST

START_TEST(gets_go_before_warm_reads)
{
	struct fkv_arbiter_item *warm[2], *get;

	warm[0] = add(FKV_ARBITER_WARM, 4096);
	warm[1] = add(FKV_ARBITER_WARM, 4096);
	ck_assert_ptr_eq(issue(false), warm[0]);
	get = add(FKV_ARBITER_READ, 4096);
	ck_assert_ptr_eq(issue(true), get);
	ck_assert_ptr_eq(issue(true), warm[0]);
	ck_assert_ptr_eq(issue(true), warm[1]);
}
END_TEST

START_TEST(warm_reads_take_no_budget_that_a_get_waits_for)
{
	struct fkv_arbiter_item *first, *get, *warm;

	first = add(FKV_ARBITER_READ, FKV_READ_BYTES_MAX - 4096);
	get = add(FKV_ARBITER_READ, 8192);
	warm = add(FKV_ARBITER_WARM, 4096);
	ck_assert_ptr_eq(issue(true), first);
	ck_assert_ptr_null(issue(true));
	fkv_arbiter_done(&a, first);
	ck_assert_ptr_eq(issue(true), get);
	ck_assert_ptr_eq(issue(true), warm);
}
END_TEST

START_TEST(one_channel_is_served_in_order)
{
	for (int i = 0; i < 5; i++)
		add(FKV_ARBITER_READ, 4096);
	for (int i = 0; i < 5; i++) {
		ck_assert_ptr_eq(issue(false), &item[i]);
		ck_assert_ptr_eq(issue(true), &item[i]);
	}
}
END_TEST

START_TEST(cancel_takes_only_what_was_not_begun)
{
	struct fkv_arbiter_item *begun = add(FKV_ARBITER_READ, 4096);
	int n = 0;

	add(FKV_ARBITER_READ, 4096);
	add(FKV_ARBITER_WARM, 4096);
	add(FKV_ARBITER_WRITE, 4096);
	ck_assert_ptr_eq(issue(false), begun);
	while (fkv_arbiter_cancel(&a))
		n++;
	ck_assert_int_eq(n, 3);
	ck_assert_ptr_eq(fkv_arbiter_next(&a), begun);
}
END_TEST

START_TEST(budget_and_counts_return_to_zero)
{
	for (int i = 0; i < 100; i++)
		add(i % FKV_ARBITER_CLASSES, 4096 * (i + 1));
	for (int i = 0; i < 100; i++) {
		struct fkv_arbiter_item *it = issue(i % 2);

		ck_assert_ptr_nonnull(it);
		fkv_arbiter_returned(&a, it);
		fkv_arbiter_done(&a, it);
	}
	ck_assert_uint_eq(a.read.inflight + a.write.inflight, 0);
	ck_assert_uint_eq(a.read.admitted + a.write.admitted, 0);
	ck_assert_uint_eq(a.read.admitted_bytes + a.write.admitted_bytes, 0);
	ck_assert_uint_eq(a.nr_waiting, 0);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("arbiter");
	TCase *tc = tcase_create("arbiter");
	SRunner *sr = srunner_create(s);
	int failed;

	tcase_add_checked_fixture(tc, setup, NULL);
	tcase_add_test(tc, reads_go_first_while_at_most_weight_times_writes);
	tcase_add_test(tc, an_empty_channel_never_idles_the_other);
	tcase_add_test(tc, depth_bounds_both_channels_together);
	tcase_add_test(tc, read_budget_is_count_and_bytes);
	tcase_add_test(tc, write_budget_is_its_own);
	tcase_add_test(tc, a_larger_request_takes_the_whole_budget_alone);
	tcase_add_test(tc, gets_go_before_warm_reads);
	tcase_add_test(tc, warm_reads_take_no_budget_that_a_get_waits_for);
	tcase_add_test(tc, one_channel_is_served_in_order);
	tcase_add_test(tc, cancel_takes_only_what_was_not_begun);
	tcase_add_test(tc, budget_and_counts_return_to_zero);
	suite_add_tcase(s, tc);
	srunner_run_all(sr, CK_NORMAL);
	failed = srunner_ntests_failed(sr);
	srunner_free(sr);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
