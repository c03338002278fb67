// SPDX-License-Identifier: Apache-2.0
#include <check.h>

#include "fake.h"

#define PAGES	96u
#define EXTENTS	64u
#define STEPS	200000u

static struct rb_root root;
static struct fkv_extent exts[EXTENTS];
static u8 owner[PAGES];		/* of each page: index in exts + 1 */

static void setup(void)
{
	root = RB_ROOT;
	memset(exts, 0, sizeof(exts));
	memset(owner, 0, sizeof(owner));
}

static struct fkv_extent *add(u32 i, u64 first, u64 last, int err)
{
	exts[i].first = first;
	exts[i].last = last;
	ck_assert_int_eq(fkv_extent_add(&root, &exts[i]), err);
	return &exts[i];
}

/* U6 */
START_TEST(extent_that_shares_a_page_is_busy)
{
	add(0, 10, 19, 0);
	add(1, 10, 19, -EBUSY);
	add(1, 0, 10, -EBUSY);
	add(1, 19, 19, -EBUSY);
	add(1, 12, 13, -EBUSY);
	add(1, 0, UINT64_MAX, -EBUSY);
	ck_assert(!exts[1].added);
	add(1, 0, 9, 0);
	add(2, 20, UINT64_MAX, 0);
	ck_assert(exts[1].added && exts[2].added);
}
END_TEST

START_TEST(extent_deleted_twice_is_deleted_once)
{
	add(0, 1, 2, 0);
	add(1, 3, 4, 0);
	fkv_extent_del(&root, &exts[0]);
	ck_assert(!exts[0].added);
	fkv_extent_del(&root, &exts[0]);
	fkv_extent_del(&root, &exts[2]);
	ck_assert_ptr_eq(fkv_extent_find(&root, 0, 100), &exts[1]);
	add(2, 1, 2, 0);
}
END_TEST

START_TEST(find_gives_the_lowest_of_several)
{
	ck_assert_ptr_null(fkv_extent_find(&root, 0, UINT64_MAX));
	for (u32 i = 0; i < 9; i++)
		add(i, 10 * ((i * 4) % 9), 10 * ((i * 4) % 9) + 5, 0);
	ck_assert_uint_eq(fkv_extent_find(&root, 0, 100)->first, 0);
	ck_assert_uint_eq(fkv_extent_find(&root, 6, 100)->first, 10);
	ck_assert_uint_eq(fkv_extent_find(&root, 35, 61)->first, 30);
	ck_assert_ptr_null(fkv_extent_find(&root, 36, 39));
	ck_assert_ptr_null(fkv_extent_find(&root, 86, UINT64_MAX));
}
END_TEST

static u8 first_owner(u64 first, u64 last)
{
	for (u64 p = first; p <= last; p++)
		if (owner[p])
			return owner[p];
	return 0;
}

static void own(u64 first, u64 last, u8 who)
{
	for (u64 p = first; p <= last; p++)
		owner[p] = who;
}

static void random_step(u64 *state)
{
	u32 i = (u32)(fake_random(state) % EXTENTS);
	u64 first = fake_random(state) % PAGES;
	u64 last = first + fake_random(state) % 8;
	struct fkv_extent *found;
	u8 who;

	if (last >= PAGES)
		last = PAGES - 1;
	who = first_owner(first, last);
	found = fkv_extent_find(&root, first, last);
	shim_assert(found == (who ? &exts[who - 1] : NULL));
	if (exts[i].added) {
		own(exts[i].first, exts[i].last, 0);
		fkv_extent_del(&root, &exts[i]);
		return;
	}
	exts[i].first = first;
	exts[i].last = last;
	shim_assert(fkv_extent_add(&root, &exts[i]) == (who ? -EBUSY : 0));
	if (!who)
		own(first, last, (u8)(i + 1));
}

/* U6 */
START_TEST(extents_never_overlap)
{
	u64 state = 88172645463325252ULL;

	for (u32 i = 0; i < STEPS; i++)
		random_step(&state);
	for (u32 i = 0; i < EXTENTS; i++)
		fkv_extent_del(&root, &exts[i]);
	ck_assert_ptr_null(root.rb_node);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("kmod_extent");
	TCase *tc = tcase_create("extent");
	SRunner *sr;
	int failed;

	tcase_add_checked_fixture(tc, setup, NULL);
	tcase_add_test(tc, extent_that_shares_a_page_is_busy);
	tcase_add_test(tc, extent_deleted_twice_is_deleted_once);
	tcase_add_test(tc, find_gives_the_lowest_of_several);
	tcase_add_test(tc, extents_never_overlap);
	suite_add_tcase(s, tc);
	sr = srunner_create(s);
	srunner_run_all(sr, CK_NORMAL);
	failed = srunner_ntests_failed(sr);
	srunner_free(sr);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
