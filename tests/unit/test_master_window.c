// SPDX-License-Identifier: Apache-2.0
/* M2: a hole for a large value costs the cheapest run of neighbours. */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>

#include "master_driver.h"

#define SMALL	(SEGMENT / 64)
#define MOST	(SEGMENT / SMALL)

static struct given value[MOST];
static unsigned int nr_values;

/* Small values until nothing is free; no reference is kept. */
static void fill(void)
{
	char key[16];

	for (nr_values = 0; nr_values < MOST; nr_values++) {
		sprintf(key, "k%u", nr_values);
		value[nr_values] = master_put(1 + nr_values, key, SMALL);
		master_quiet(value[nr_values].extent, 1);
		if (master_stats().evictions)
			break;
	}
}

static void hit(unsigned int i, uint64_t n)
{
	master_send((struct fkv_msg){
		.type = FKV_MSG_HITS, .extent = value[i].extent, .n = n,
	}, NULL);
}

static void want(uint64_t op, uint64_t len)
{
	master_put_start_until(op, "large", len, core_now + FKV_SEC);
}

/* Every other value is hot, so that no two neighbours come in policy order. */
START_TEST(hole_costs_its_own_length)
{
	uint64_t before;

	fill();
	for (unsigned int i = 0; i < nr_values; i += 2)
		hit(i, 8);
	before = master_stats().evictions;
	want(10000, 8 * SMALL);
	master_planned(10000, 0);
	ck_assert_uint_le(master_stats().evictions - before, 2 * 8 + 1);
	ck_assert_uint_ge(master_stats().windows, 1);
	master_put_revoke(10000, false);
}
END_TEST

/* Cold values at the far end are dearer in number, but cheaper in priority. */
START_TEST(window_is_where_the_coldest_are)
{
	unsigned int cold;

	fill();
	cold = nr_values - 24;
	for (unsigned int i = 0; i < nr_values; i++)
		if (i < cold || i >= cold + 12)
			hit(i, 12);
	want(10000, 8 * SMALL);
	master_planned(10000, 0);
	for (unsigned int i = 0; i < 10; i++) {
		char key[16];
		struct fkv_route_info info;

		sprintf(key, "k%u", i);
		ck_assert_msg(i < 2 || master_route(key, &info),
			      "a hot value went");
	}
	master_put_revoke(10000, false);
}
END_TEST

/* What is pinned is no part of the second window of the same waiter. */
START_TEST(second_window_goes_round_what_was_pinned)
{
	uint64_t asked[64];
	unsigned int n = 0;

	for (nr_values = 0; nr_values < MOST; nr_values++) {
		char key[16];

		sprintf(key, "k%u", nr_values);
		value[nr_values] = master_put(1 + nr_values, key, SMALL);
		if (core_left())
			break;
	}
	/* reclaim ahead asks for some: they go */
	while (core_left())
		master_evicted(core_take_msg(FKV_MSG_EVICT).extent,
			       FKV_EVICT_OK, 1);
	want(10000, 8 * SMALL);
	while (core_left()) {
		struct fkv_msg msg = core_take_msg(FKV_MSG_EVICT);

		ck_assert_uint_lt(n, 64);
		asked[n++] = msg.extent;
	}
	ck_assert_uint_gt(n, 0);
	master_evicted(asked[0], FKV_EVICT_BUSY, 0);
	for (unsigned int i = 1; i < n; i++)
		master_evicted(asked[i], FKV_EVICT_OK, 1);
	while (core_has_msg(FKV_MSG_EVICT)) {
		struct fkv_msg msg = core_take_msg(FKV_MSG_EVICT);

		ck_assert_uint_ne(msg.extent, asked[0]);
		master_evicted(msg.extent, FKV_EVICT_OK, 1);
	}
	master_planned(10000, 0);
	master_put_revoke(10000, false);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("master window");
	TCase *tc = tcase_create("core");
	SRunner *sr = srunner_create(s);
	int failed;

	tcase_add_checked_fixture(tc, master_setup, master_teardown);
	tcase_add_test(tc, hole_costs_its_own_length);
	tcase_add_test(tc, window_is_where_the_coldest_are);
	tcase_add_test(tc, second_window_goes_round_what_was_pinned);
	suite_add_tcase(s, tc);
	srunner_run_all(sr, CK_NORMAL);
	failed = srunner_ntests_failed(sr);
	srunner_free(sr);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
