// SPDX-License-Identifier: Apache-2.0
#include <check.h>
#include <stdlib.h>

#include "master_driver.h"

/* G1, G8 */
START_TEST(absent_key_is_a_miss_at_once)
{
	struct fkv_msg plan;

	master_get_start(1, "k", FKV_CLASS_GET, core_now + FKV_SEC);
	plan = master_get_plan(1, -ENOENT);
	ck_assert_uint_eq(plan.source, FLUXONKV_SOURCE_MISS);
	/* a put in flight is no version */
	master_put_start(2, "k", 100, 0);
	master_planned(2, 0);
	master_get_start(3, "k", FKV_CLASS_GET, core_now);
	master_get_plan(3, -ENOENT);
	ck_assert_uint_eq(master_stats().misses, 2);
	ck_assert_uint_eq(master_stats().ops, 1);
	master_put_revoke(2, false);
}
END_TEST

/* G1, K6a */
START_TEST(memory_replica_is_given_with_a_grant_and_a_reference)
{
	struct given g = master_put(1, "k", 100);
	struct fkv_route_info info;
	struct fkv_msg plan;

	master_get_start(2, "k", FKV_CLASS_GET, core_now);
	plan = master_get_plan(2, 0);
	ck_assert_uint_eq(plan.source, FLUXONKV_SOURCE_LOCAL);
	ck_assert_uint_eq(plan.extent, g.extent);
	ck_assert_uint_eq(plan.offset, g.offset);
	ck_assert_uint_eq(plan.put_id, g.put_id);
	ck_assert_uint_eq(plan.len, 100);
	ck_assert(plan.grant);
	ck_assert(master_route("k", &info));
	ck_assert_uint_eq(info.refs, 2);
	ck_assert_uint_eq(master_stats().ops, 0);
}
END_TEST

/* G1, G7 */
START_TEST(value_on_ssd_gets_a_target_and_becomes_a_memory_replica)
{
	uint64_t id = master_on_ssd(1, "k", 1);
	struct fkv_route_info info;
	struct fkv_msg plan;

	master_get_start(5, "k", FKV_CLASS_GET, core_now);
	plan = master_get_plan(5, 0);
	ck_assert_uint_eq(plan.source, FLUXONKV_SOURCE_SSD_LOCAL);
	ck_assert_uint_eq(plan.put_id, id);
	ck_assert_uint_eq(plan.len, BIG);
	ck_assert_uint_eq(master_stats().cause_bytes[2], BIG);
	ck_assert(master_get_done(5, 0).grant);
	ck_assert(master_route("k", &info));
	ck_assert(info.memory && info.ssd && !info.unbacked);
	ck_assert_uint_eq(info.refs, 1);
	ck_assert_uint_eq(master_stats().cause_bytes[2], 0);
	ck_assert_uint_eq(master_stats().promotions, 1);
}
END_TEST

/* G7: only the version that is still current */
START_TEST(fetch_of_an_overwritten_version_is_only_held)
{
	struct fkv_msg plan;

	master_on_ssd(1, "k", 1);
	master_get_start(5, "k", FKV_CLASS_GET, core_now);
	plan = master_get_plan(5, 0);
	master_put_start(6, "k", PAGE, 0);
	master_planned(6, 0);
	master_put_done(6);
	core_take_msg(FKV_MSG_RETIRE);
	master_retired(6);
	master_published(6);
	master_commit("k", 0, 2);
	ck_assert(!master_get_done(5, 0).grant);
	ck_assert_uint_eq(master_stats().promotions_stale, 1);
	ck_assert_uint_eq(master_stats().cause_bytes[4], BIG);
	master_quiet(plan.extent, 1);
	ck_assert_uint_eq(master_stats().used, PAGE);
}
END_TEST

/* G7, D1 */
START_TEST(fetch_of_a_deleted_key_is_only_held)
{
	struct fkv_msg plan;

	master_on_ssd(1, "k", 1);
	master_get_start(5, "k", FKV_CLASS_GET, core_now);
	plan = master_get_plan(5, 0);
	master_delete(6, "k", 0);
	ck_assert(!master_get_done(5, 0).grant);
	master_quiet(plan.extent, 1);
	ck_assert_uint_eq(master_stats().used, 0);
}
END_TEST

/* K6d: the version is being retired: no grant for what came from SSD */
START_TEST(fetch_while_a_version_is_retired_has_no_grant)
{
	struct fkv_msg plan;

	master_on_ssd(1, "k", 1);
	master_get_start(5, "k", FKV_CLASS_GET, core_now);
	plan = master_get_plan(5, 0);
	master_send((struct fkv_msg){ .type = FKV_MSG_DELETE, .op = 6 }, "k");
	core_take_msg(FKV_MSG_RETIRE);
	ck_assert(!master_get_done(5, 0).grant);
	master_retired(6);
	core_take_msg(FKV_MSG_DELETE_R);
	master_quiet(plan.extent, 1);
	ck_assert_uint_eq(master_stats().used, 0);
}
END_TEST

/* two fetches of one version: the second finds it in memory */
START_TEST(second_fetch_of_a_version_is_only_held)
{
	struct fkv_msg a, b;

	master_on_ssd(1, "k", 1);
	master_get_start(5, "k", FKV_CLASS_GET, core_now);
	a = master_get_plan(5, 0);
	master_get_start(6, "k", FKV_CLASS_INTO, core_now);
	b = master_get_plan(6, 0);
	ck_assert_uint_ne(a.extent, b.extent);
	ck_assert(master_get_done(6, 0).grant);
	ck_assert(!master_get_done(5, 0).grant);
	master_quiet(a.extent, 1);
	ck_assert_uint_eq(master_stats().used, BIG);
}
END_TEST

/* P6.1: its SSD copy went while it was fetched */
START_TEST(fetched_version_whose_ssd_copy_went_is_gone)
{
	struct fkv_msg plan;

	master_on_ssd(1, "k", 1);
	master_get_start(5, "k", FKV_CLASS_GET, core_now);
	plan = master_get_plan(5, 0);
	master_send((struct fkv_msg){ .type = FKV_MSG_SSD_TAIL, .seq = 2 },
		    NULL);
	ck_assert_uint_eq(master_stats().keys, 0);
	ck_assert(!master_get_done(5, 0).grant);
	master_quiet(plan.extent, 1);
	ck_assert_uint_eq(master_stats().used, 0);
}
END_TEST

/* G6 */
START_TEST(bad_source_leaves_the_route_and_the_target_is_free)
{
	master_on_ssd(1, "k", 1);
	master_get_start(5, "k", FKV_CLASS_GET, core_now);
	master_get_plan(5, 0);
	master_get_revoke(5, true);
	ck_assert_uint_eq(master_stats().keys, 0);
	ck_assert_uint_eq(master_stats().ssd_dropped, 1);
	ck_assert_uint_eq(master_stats().used, 0);
	ck_assert_uint_eq(master_stats().ops, 0);
	master_get_start(6, "k", FKV_CLASS_GET, core_now);
	master_get_plan(6, -ENOENT);
}
END_TEST

/* G6: not without the source's own word, never a newer version */
START_TEST(revoke_drops_only_the_version_that_failed)
{
	struct fkv_route_info info;

	master_on_ssd(1, "k", 1);
	master_get_start(5, "k", FKV_CLASS_GET, core_now);
	master_get_plan(5, 0);
	master_get_revoke(5, false);
	ck_assert(master_route("k", &info) && info.ssd);

	master_get_start(6, "k", FKV_CLASS_GET, core_now);
	master_get_plan(6, 0);
	master_put_start(7, "k", PAGE, 0);
	master_planned(7, 0);
	master_put_done(7);
	core_take_msg(FKV_MSG_RETIRE);
	master_retired(7);
	master_published(7);
	master_commit("k", 1, 1);
	master_get_revoke(6, true);
	ck_assert(master_route("k", &info) && info.ssd && info.memory);
	ck_assert_uint_eq(master_stats().ssd_dropped, 0);
}
END_TEST

/* G6, D1 */
START_TEST(revoke_of_a_deleted_version_drops_nothing)
{
	master_on_ssd(1, "k", 1);
	master_get_start(5, "k", FKV_CLASS_GET, core_now);
	master_get_plan(5, 0);
	master_delete(6, "k", 0);
	master_get_revoke(5, true);
	ck_assert_uint_eq(master_stats().ssd_dropped, 0);
	ck_assert_uint_eq(master_stats().used, 0);
}
END_TEST

/* G6: never a memory replica */
START_TEST(revoke_of_a_version_without_ssd_copy_drops_nothing)
{
	struct fkv_route_info info;

	master_on_ssd(1, "k", 1);
	master_get_start(5, "k", FKV_CLASS_GET, core_now);
	master_get_plan(5, 0);
	master_get_start(6, "k", FKV_CLASS_GET, core_now);
	master_get_plan(6, 0);
	ck_assert(master_get_done(6, 0).grant);
	master_send((struct fkv_msg){ .type = FKV_MSG_SSD_TAIL, .seq = 2 },
		    NULL);
	master_get_revoke(5, true);
	ck_assert(master_route("k", &info));
	ck_assert(info.memory && !info.ssd && info.unbacked);
}
END_TEST

/* G4: what is not a fetch is refused without effect */
START_TEST(answers_for_no_such_fetch_do_nothing)
{
	struct given g;

	master_get_done(99, -ESTALE);
	master_get_revoke(99, true);
	master_put_start(1, "k", 100, 0);
	g = master_planned(1, 0);
	master_get_done(1, -ESTALE);
	master_get_revoke(1, true);
	ck_assert_uint_eq(master_stats().bad_messages, 4);
	master_put_done(1);
	ck_assert_uint_eq(master_published(1).extent, g.extent);
}
END_TEST

/* P4, K3: a get that waits for room ends with its own words */
START_TEST(get_without_room_waits_until_its_deadline)
{
	struct fkv_msg plan;

	master_on_ssd(1, "k", 1);
	master_put_start(5, "full", SEGMENT / 100 * 84, 0);
	master_planned(5, 0);
	master_get_start(6, "k", FKV_CLASS_GET, core_now + FKV_SEC);
	ck_assert_uint_eq(master_stats().waiting, 1);
	/* not a fetch yet */
	master_get_done(6, -ESTALE);
	master_get_revoke(6, true);
	ck_assert_uint_eq(core_left(), 0);
	core_now += FKV_SEC;
	master_tick();
	plan = master_get_plan(6, -ENOSPC);
	ck_assert_ptr_nonnull(strstr(plan.text, "no room"));
	ck_assert_uint_eq(master_stats().waiting, 0);
	ck_assert_uint_eq(master_stats().no_space, 1);
	master_put_revoke(5, false);
}
END_TEST

/* P4 */
START_TEST(get_larger_than_its_class_is_efbig_and_into_is_not)
{
	uint64_t len = SEGMENT / 100 * 85 / PAGE * PAGE;
	struct given g;

	/* the put's class is tighter than the get's: by hand */
	master_ssd(1);
	master_put_start(1, "k", len, 0);
	g = master_planned(1, 0);
	master_put_done(1);
	master_published(1);
	master_commit("k", 0, 1);
	master_quiet(g.extent, 1);
	master_put_start(2, "l", BIG, 0);
	master_planned(2, 0);
	master_put_revoke(2, false);
	master_get_start(3, "k", FKV_CLASS_PUT, core_now);
	master_get_plan(3, 0);
	master_get_done(3, 0);
	master_put_start(4, "m", len + 1, 0);
	ck_assert_ptr_nonnull(strstr(core_take_msg(FKV_MSG_PUT_PLAN).text,
				     "no room"));
	ck_assert_uint_eq(fkv_master_put_limit(SEGMENT), len);
}
END_TEST

/* P4: a waiting get whose value comes into memory needs no room */
START_TEST(waiting_get_is_served_when_its_value_comes_to_memory)
{
	struct fkv_msg plan;

	master_on_ssd(1, "k", 1);
	master_get_start(5, "k", FKV_CLASS_GET, core_now);
	master_get_plan(5, 0);
	master_put_start(6, "full", SEGMENT / 100 * 55, 0);
	master_planned(6, 0);
	master_get_start(7, "k", FKV_CLASS_GET, core_now + FKV_SEC);
	ck_assert_uint_eq(master_stats().waiting, 1);
	ck_assert(master_get_done(5, 0).grant);
	plan = master_get_plan(7, 0);
	ck_assert_uint_eq(plan.source, FLUXONKV_SOURCE_LOCAL);
	ck_assert_uint_eq(master_stats().waiting, 0);
	master_put_revoke(6, false);
}
END_TEST

/* D1, P4: and one whose key is deleted is a miss */
START_TEST(waiting_get_of_a_deleted_key_is_a_miss)
{
	master_on_ssd(1, "k", 1);
	master_put_start(5, "full", SEGMENT / 100 * 84, 0);
	master_planned(5, 0);
	master_get_start(6, "k", FKV_CLASS_GET, core_now + FKV_SEC);
	master_delete(7, "k", 0);
	master_get_plan(6, -ENOENT);
	ck_assert_uint_eq(master_stats().waiting, 0);
	master_put_revoke(5, false);
}
END_TEST

START_TEST(get_without_memory_leaves_nothing)
{
	uint64_t n;

	master_on_ssd(1, "k", 1);
	for (n = 1;; n++) {
		core_fail_alloc(n);
		master_get_start(10 + n, "k", FKV_CLASS_GET, core_now);
		if (!core_alloc_failed())
			break;
		master_get_plan(10 + n, -ENOMEM);
		ck_assert_uint_eq(master_stats().used, 0);
		ck_assert_uint_eq(master_stats().ops, 0);
	}
	ck_assert_uint_gt(n, 2);
	master_get_plan(10 + n, 0);
	master_get_revoke(10 + n, false);
}
END_TEST

/* G7: the newer version is on SSD only: the old bytes are none of it */
START_TEST(fetch_of_an_old_version_is_not_the_new_ones_memory)
{
	struct fkv_route_info info;
	struct fkv_msg plan;
	struct given g;

	master_on_ssd(1, "k", 1);
	master_get_start(5, "k", FKV_CLASS_GET, core_now);
	plan = master_get_plan(5, 0);
	master_put_start(6, "k", BIG, 0);
	master_planned(6, 0);
	master_put_done(6);
	core_take_msg(FKV_MSG_RETIRE);
	master_retired(6);
	g = master_published(6);
	master_commit("k", 0, 2);
	master_quiet(g.extent, 1);
	master_put_start(7, "x", SEGMENT / 100 * 55, 0);
	master_planned(7, 0);
	ck_assert(master_route("k", &info) && !info.memory);
	ck_assert(!master_get_done(5, 0).grant);
	ck_assert(master_route("k", &info) && !info.memory);
	master_quiet(plan.extent, 1);
	master_put_revoke(7, false);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("master get");
	TCase *tc = tcase_create("core");
	SRunner *sr = srunner_create(s);
	int failed;

	tcase_add_checked_fixture(tc, master_setup, master_teardown);
	tcase_add_test(tc, absent_key_is_a_miss_at_once);
	tcase_add_test(tc,
		       memory_replica_is_given_with_a_grant_and_a_reference);
	tcase_add_test(tc,
		       value_on_ssd_gets_a_target_and_becomes_a_memory_replica);
	tcase_add_test(tc, fetch_of_an_overwritten_version_is_only_held);
	tcase_add_test(tc, fetch_of_a_deleted_key_is_only_held);
	tcase_add_test(tc, fetch_while_a_version_is_retired_has_no_grant);
	tcase_add_test(tc, second_fetch_of_a_version_is_only_held);
	tcase_add_test(tc, fetched_version_whose_ssd_copy_went_is_gone);
	tcase_add_test(tc, bad_source_leaves_the_route_and_the_target_is_free);
	tcase_add_test(tc, revoke_drops_only_the_version_that_failed);
	tcase_add_test(tc, revoke_of_a_deleted_version_drops_nothing);
	tcase_add_test(tc, revoke_of_a_version_without_ssd_copy_drops_nothing);
	tcase_add_test(tc, answers_for_no_such_fetch_do_nothing);
	tcase_add_test(tc, get_without_room_waits_until_its_deadline);
	tcase_add_test(tc, get_larger_than_its_class_is_efbig_and_into_is_not);
	tcase_add_test(tc,
		       waiting_get_is_served_when_its_value_comes_to_memory);
	tcase_add_test(tc, waiting_get_of_a_deleted_key_is_a_miss);
	tcase_add_test(tc, get_without_memory_leaves_nothing);
	tcase_add_test(tc, fetch_of_an_old_version_is_not_the_new_ones_memory);
	suite_add_tcase(s, tc);
	srunner_run_all(sr, CK_ENV);
	failed = srunner_ntests_failed(sr);
	srunner_free(sr);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
