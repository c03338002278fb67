// SPDX-License-Identifier: Apache-2.0
#include <check.h>
#include <stdlib.h>

#include "core/master/ghost.h"

static struct fkv_ghost g;
static uint64_t allocs, fail_at;

static bool fail_one(size_t size)
{
	(void)size;
	return ++allocs == fail_at;
}

static void setup(void)
{
	fkv_alloc_fail = NULL;
	fkv_ghost_init(&g);
}

static void teardown(void)
{
	fkv_alloc_fail = NULL;
	fkv_ghost_done(&g);
	ck_assert_uint_eq(fkv_ghost_bytes(&g), 0);
}

static void put(uint64_t hash, uint64_t limit)
{
	struct fkv_lfu_count count = { .f = hash % 16, .epoch = 5 };

	fkv_ghost_put(&g, hash, count, limit);
}

static bool known(uint64_t hash)
{
	struct fkv_lfu_count count;

	if (!fkv_ghost_take(&g, hash, &count))
		return false;
	ck_assert_uint_eq(count.f, hash % 16);
	ck_assert_uint_eq(count.epoch, 5);
	return true;
}

/* eviction.md: what left is remembered once, up to a limit, oldest first out */
START_TEST(ghost_remembers_the_newest_up_to_its_limit)
{
	ck_assert(!known(1));
	for (uint64_t h = 1; h <= 3000; h++)
		put(h, 2000);
	ck_assert_uint_eq(fkv_ghost_entries(&g), 2000);
	ck_assert(!known(1000));
	ck_assert(known(1001));
	ck_assert(known(3000));
	ck_assert(!known(3000));
	put(7, 0);
	ck_assert(!known(7));
}
END_TEST

/* a limit that fell is reached by and by */
START_TEST(ghost_shrinks_by_a_few_entries_a_step)
{
	for (uint64_t h = 1; h <= 3000; h++)
		put(h, 3000);
	fkv_ghost_trim(&g, 100);
	ck_assert_uint_eq(fkv_ghost_entries(&g), 2992);
	for (int i = 0; i < 1000; i++)
		fkv_ghost_trim(&g, 100);
	ck_assert_uint_eq(fkv_ghost_entries(&g), 100);
	ck_assert(!known(2900));
	ck_assert(known(2901));
}
END_TEST

/* the number that ends chains names no entry */
START_TEST(ghost_survives_the_wrap_of_its_sequence_numbers)
{
	g.head = UINT32_MAX - 2047;
	g.tail = g.head;
	for (uint64_t h = 1; h <= 2500; h++)
		put(h, 1500);
	/* it counts as one, and is forgotten like one */
	for (uint64_t h = 1002; h <= 2500; h++)
		ck_assert(known(h));
	for (uint64_t h = 1; h <= 3000; h++)
		put(h, 1500);
	for (uint64_t h = 1501; h <= 3000; h++)
		ck_assert(known(h));
	ck_assert(!known(1500));
}
END_TEST

/* without memory less is remembered, or chains are longer; nothing breaks */
START_TEST(ghost_without_memory_forgets)
{
	for (fail_at = 1; fail_at < 20; fail_at++) {
		uint64_t seen = 0;

		fkv_ghost_done(&g);
		fkv_ghost_init(&g);
		allocs = 0;
		fkv_alloc_fail = fail_one;
		for (uint64_t h = 1; h <= 3000; h++)
			put(h, 5000);
		fkv_alloc_fail = NULL;
		for (uint64_t h = 1; h <= 3000; h++)
			seen += known(h);
		ck_assert_uint_ge(seen, 2999);
		ck_assert_uint_eq(g.live, 0);
	}
}
END_TEST

int main(void)
{
	Suite *s = suite_create("ghost");
	TCase *tc = tcase_create("core");
	SRunner *sr = srunner_create(s);
	int failed;

	tcase_add_checked_fixture(tc, setup, teardown);
	tcase_add_test(tc, ghost_remembers_the_newest_up_to_its_limit);
	tcase_add_test(tc, ghost_shrinks_by_a_few_entries_a_step);
	tcase_add_test(tc, ghost_survives_the_wrap_of_its_sequence_numbers);
	tcase_add_test(tc, ghost_without_memory_forgets);
	suite_add_tcase(s, tc);
	srunner_run_all(sr, CK_ENV);
	failed = srunner_ntests_failed(sr);
	srunner_free(sr);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
