// SPDX-License-Identifier: Apache-2.0
#include <check.h>
#include <stdio.h>
#include <stdlib.h>

#include "core/master/space.h"
#include "master_driver.h"

#define PERCENT(n)	(SEGMENT / 100 * (n) / PAGE * PAGE)

/* P4: puts 85 %, gets 95 %, get_into 100 % */
START_TEST(limits_of_the_classes_are_percents_in_pages)
{
	struct fkv_space s = { .capacity = SEGMENT };

	ck_assert_uint_eq(fkv_space_limit(&s, FKV_CLASS_PUT), PERCENT(85));
	ck_assert_uint_eq(fkv_space_limit(&s, FKV_CLASS_GET), PERCENT(95));
	ck_assert_uint_eq(fkv_space_limit(&s, FKV_CLASS_INTO), PERCENT(100));
}
END_TEST

/* P4: larger than the class limit: at once, nothing evicted */
START_TEST(put_over_the_limit_is_efbig_and_evicts_nothing)
{
	struct given g = master_put(1, "k", BIG);
	struct fkv_msg plan;

	master_quiet(g.extent, 1);
	master_put_start_until(2, "l", PERCENT(85) + 1, core_now + FKV_SEC);
	plan = core_take_msg(FKV_MSG_PUT_PLAN);
	ck_assert_int_eq(plan.res, -EFBIG);
	ck_assert_ptr_nonnull(strstr(plan.text, "total"));
	ck_assert_uint_eq(master_stats().evictions, 0);
	ck_assert_uint_eq(master_stats().ops, 0);
	master_put_start_until(3, "l", PERCENT(85), core_now + FKV_SEC);
	master_planned(3, 0);
	master_put_revoke(3, false);
}
END_TEST

/* P4: puts cannot starve gets, nor gets get_into */
START_TEST(each_class_stops_at_its_own_limit)
{
	master_on_ssd(1, "k", 1);
	master_send((struct fkv_msg){
		.type = FKV_MSG_PINS,
		.n = PERCENT(65),
	}, NULL);
	master_put_start(5, "a", BIG, 0);
	ck_assert_uint_eq(master_stats().waiting, 1);
	master_get_start(6, "k", FKV_CLASS_GET, core_now + FKV_SEC);
	master_get_plan(6, 0);
	master_get_revoke(6, false);
	master_send((struct fkv_msg){
		.type = FKV_MSG_PINS,
		.n = PERCENT(74),
	}, NULL);
	master_get_start(7, "k", FKV_CLASS_GET, core_now + FKV_SEC);
	ck_assert_uint_eq(master_stats().waiting, 2);
	master_get_start(8, "k", FKV_CLASS_INTO, core_now + FKV_SEC);
	master_get_plan(8, 0);
	master_get_revoke(8, false);
	/* holders release: the waiters are served by that event */
	master_send((struct fkv_msg){ .type = FKV_MSG_PINS }, NULL);
	master_planned(5, 0);
	master_get_plan(7, 0);
	master_put_revoke(5, false);
	master_get_revoke(7, false);
}
END_TEST

/* P4: at most 5 s, never past the deadline, NOWAIT not at all */
START_TEST(wait_for_room_ends_by_deadline_or_after_5_s)
{
	struct fkv_msg plan;

	master_put_start(1, "a", PERCENT(84), 0);
	master_planned(1, 0);
	master_put_start_until(2, "b", BIG, core_now + 60 * FKV_SEC);
	master_put_start_until(3, "c", BIG, core_now + FKV_SEC);
	master_send((struct fkv_msg){
		.type = FKV_MSG_PUT_START,
		.op = 4,
		.len = BIG,
		.flags = FLUXONKV_PUT_NOWAIT,
		.deadline_ns = core_now + FKV_SEC,
	}, "d");
	master_tick();
	plan = core_take_msg(FKV_MSG_PUT_PLAN);
	ck_assert_uint_eq(plan.op, 4);
	ck_assert_int_eq(plan.res, -ENOSPC);
	core_now += FKV_SEC;
	master_tick();
	ck_assert_uint_eq(core_take_msg(FKV_MSG_PUT_PLAN).op, 3);
	core_now += FKV_SPACE_WAIT_MAX - FKV_SEC - 1;
	master_tick();
	ck_assert_uint_eq(core_left(), 0);
	core_now++;
	master_tick();
	ck_assert_uint_eq(core_take_msg(FKV_MSG_PUT_PLAN).op, 2);
	ck_assert_uint_eq(master_stats().no_space, 3);
	ck_assert_uint_eq(master_stats().waiting, 0);
	master_put_revoke(1, false);
	ck_assert_uint_eq(master_stats().used, 0);
}
END_TEST

/* P4: total, free, and what is not evictable, by cause */
START_TEST(no_room_says_what_is_where)
{
	char want[64];
	struct fkv_msg plan;

	master_put_start(1, "a", PERCENT(84), 0);
	master_planned(1, 0);
	master_put_start(2, "b", BIG, FLUXONKV_PUT_NOWAIT);
	master_tick();
	plan = core_take_msg(FKV_MSG_PUT_PLAN);
	snprintf(want, sizeof(want), "%llu total, %llu free", SEGMENT,
		 SEGMENT - PERCENT(84));
	ck_assert_ptr_nonnull(strstr(plan.text, want));
	snprintf(want, sizeof(want), "%llu open puts", PERCENT(84));
	ck_assert_ptr_nonnull(strstr(plan.text, want));
	master_put_revoke(1, false);
}
END_TEST

/* M4a: below 2 % free it runs ahead, back to 4 % */
START_TEST(reclaim_runs_ahead_of_need)
{
	uint64_t pages = SEGMENT / PAGE, free;
	char key[16];

	for (uint64_t i = 0; i < pages / 2; i++) {
		struct given g;

		snprintf(key, sizeof(key), "k%llu",
			 (unsigned long long)i % 100);
		master_put_start(1000 + i, key, 16 * PAGE, 0);
		master_planned(1000 + i, 0);
		master_put_done(1000 + i);
		if (core_has_msg(FKV_MSG_RETIRE))
			master_retired(core_take_msg(FKV_MSG_RETIRE).op);
		g = master_published(1000 + i);
		master_quiet(g.extent, 1);
		free = master_stats().free;
		ck_assert_uint_ge(free, SEGMENT / 50);
		/* a key that was overwritten leaves its old extent */
		core_drop_all();
		if (master_stats().evictions)
			break;
	}
	ck_assert_uint_gt(master_stats().evictions, 0);
	ck_assert_uint_ge(master_stats().free, SEGMENT / 25);
	ck_assert_uint_lt(master_stats().free, SEGMENT / 25 + 16 * PAGE);
}
END_TEST

/* K3: a space that cannot be made */
START_TEST(space_without_memory_is_enomem)
{
	struct fkv_space s;

	core_fail_alloc(1);
	ck_assert_int_eq(fkv_space_init(&s, SEGMENT, false), -ENOMEM);
	ck_assert(core_alloc_failed());
}
END_TEST

/* M5: an extent that could not be made gives its room back */
START_TEST(extent_without_memory_gives_its_room_back)
{
	struct fkv_space s;
	uint64_t offset;

	ck_assert_int_eq(fkv_space_init(&s, SEGMENT, false), 0);
	ck_assert_int_eq(fkv_space_alloc(&s, FKV_CLASS_PUT, PAGE, &offset), 0);
	core_fail_alloc(1);
	ck_assert_ptr_null(fkv_extent_create(&s, offset, PAGE,
					     FKV_CAUSE_PUT));
	ck_assert(core_alloc_failed());
	core_fail_alloc(1);
	ck_assert_ptr_null(fkv_extent_create(&s, 0, 0, FKV_CAUSE_PUT));
	ck_assert(core_alloc_failed());
	ck_assert_uint_eq(fkv_extents_used_bytes(&s.extents), 0);
	fkv_space_done(&s);
}
END_TEST

/* F1: extents that are still busy are taken where they are */
START_TEST(extent_is_taken_only_where_all_of_it_is_free)
{
	struct fkv_extents x;

	ck_assert_int_eq(fkv_extents_init(&x, 8 * PAGE), 0);
	ck_assert_int_eq(fkv_extents_take(&x, 2 * PAGE, 2 * PAGE), 0);
	ck_assert_int_eq(fkv_extents_take(&x, 2 * PAGE, PAGE), -EBUSY);
	ck_assert_int_eq(fkv_extents_take(&x, 3 * PAGE, 2 * PAGE), -EBUSY);
	ck_assert_int_eq(fkv_extents_take(&x, PAGE, 2 * PAGE), -EBUSY);
	ck_assert_int_eq(fkv_extents_take(&x, 0, 9 * PAGE), -EBUSY);
	ck_assert_int_eq(fkv_extents_take(&x, 7 * PAGE, 2 * PAGE), -EBUSY);
	ck_assert_int_eq(fkv_extents_take(&x, 0, 2 * PAGE), 0);
	/* no hole at or below it is left */
	ck_assert_int_eq(fkv_extents_take(&x, 0, PAGE), -EBUSY);
	fkv_extents_check(&x);
	ck_assert_uint_eq(fkv_extents_used_bytes(&x), 4 * PAGE);
	fkv_extents_done(&x);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("master space");
	TCase *tc = tcase_create("core");
	SRunner *sr = srunner_create(s);
	int failed;

	tcase_add_checked_fixture(tc, master_setup, master_teardown);
	tcase_add_test(tc, limits_of_the_classes_are_percents_in_pages);
	tcase_add_test(tc, put_over_the_limit_is_efbig_and_evicts_nothing);
	tcase_add_test(tc, each_class_stops_at_its_own_limit);
	tcase_add_test(tc, wait_for_room_ends_by_deadline_or_after_5_s);
	tcase_add_test(tc, no_room_says_what_is_where);
	tcase_add_test(tc, reclaim_runs_ahead_of_need);
	tcase_add_test(tc, space_without_memory_is_enomem);
	tcase_add_test(tc, extent_without_memory_gives_its_room_back);
	tcase_add_test(tc, extent_is_taken_only_where_all_of_it_is_free);
	suite_add_tcase(s, tc);
	srunner_run_all(sr, CK_ENV);
	failed = srunner_ntests_failed(sr);
	srunner_free(sr);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
