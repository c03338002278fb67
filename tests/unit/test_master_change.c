// SPDX-License-Identifier: Apache-2.0
#include <check.h>
#include <stdlib.h>

#include "master_driver.h"

/* P2: by the order in which puts take effect, not in which they began */
START_TEST(put_ids_rise_in_the_order_of_effect)
{
	struct given a, b;

	master_put_start(1, "k", 100, 0);
	master_planned(1, 0);
	master_put_start(2, "k", 100, 0);
	master_planned(2, 0);
	master_put_done(2);
	b = master_published(2);
	master_put_done(1);
	ck_assert_uint_eq(core_take_msg(FKV_MSG_RETIRE).put_id, b.put_id);
	master_retired(1);
	a = master_published(1);
	ck_assert_uint_gt(a.put_id, b.put_id);
	ck_assert_uint_eq(a.put_id >> 44, 3);
}
END_TEST

/* K6c, D1 */
START_TEST(put_over_a_live_key_retires_the_old_version_first)
{
	struct given old = master_put(1, "k", PAGE), new;
	struct fkv_route_info info;
	struct fkv_msg retire;

	master_put_start(2, "k", 2 * PAGE, 0);
	new = master_planned(2, 0);
	master_put_done(2);
	retire = core_take_msg(FKV_MSG_RETIRE);
	ck_assert_uint_eq(retire.op, 2);
	ck_assert_uint_eq(retire.put_id, old.put_id);
	ck_assert(master_route("k", &info));
	ck_assert_uint_eq(info.put_id, old.put_id);
	ck_assert(!core_has_msg(FKV_MSG_PUT_DONE_R));

	master_retired(2);
	ck_assert_uint_eq(master_published(2).extent, new.extent);
	ck_assert(master_route("k", &info));
	ck_assert_uint_eq(info.len, 2 * PAGE);
	ck_assert_uint_eq(master_stats().used, 3 * PAGE);
	ck_assert_uint_eq(master_stats().cause_bytes[4], PAGE);
	master_quiet(old.extent, 1);
	ck_assert_uint_eq(master_stats().used, 2 * PAGE);
}
END_TEST

/* K6c: a get between RETIRE and RETIRED is of the old version */
START_TEST(get_while_a_version_is_retired_has_no_grant)
{
	struct given old = master_put(1, "k", 100);
	struct fkv_msg plan;

	master_put_start(2, "k", 100, 0);
	master_planned(2, 0);
	master_put_done(2);
	core_take_msg(FKV_MSG_RETIRE);
	master_get_start(3, "k", FKV_CLASS_GET, core_now);
	plan = master_get_plan(3, 0);
	ck_assert_uint_eq(plan.put_id, old.put_id);
	ck_assert(!plan.grant);
	master_retired(2);
	master_published(2);
	master_quiet(old.extent, 2);
}
END_TEST

/* K6c: one at a time per key, in order */
START_TEST(changes_of_a_key_wait_for_their_turn)
{
	struct given v;

	master_put(1, "k", 100);
	for (uint64_t op = 2; op < 4; op++) {
		master_put_start(op, "k", 100, 0);
		master_planned(op, 0);
		master_put_done(op);
	}
	master_send((struct fkv_msg){ .type = FKV_MSG_DELETE, .op = 4 }, "k");
	master_send((struct fkv_msg){ .type = FKV_MSG_DELETE, .op = 5 }, "k");
	ck_assert_uint_eq(core_take_msg(FKV_MSG_RETIRE).op, 2);
	ck_assert_uint_eq(core_left(), 0);
	master_retired(2);
	v = master_published(2);
	ck_assert_uint_eq(core_take_msg(FKV_MSG_RETIRE).put_id, v.put_id);
	master_retired(3);
	v = master_published(3);
	ck_assert_uint_eq(core_take_msg(FKV_MSG_RETIRE).put_id, v.put_id);
	master_retired(4);
	ck_assert_int_eq(core_take_msg(FKV_MSG_DELETE_R).res, 0);
	/* nothing is left for the second delete */
	ck_assert_int_eq(core_take_msg(FKV_MSG_DELETE_R).res, -ENOENT);
	ck_assert_uint_eq(master_stats().keys, 0);
}
END_TEST

/* D1 */
START_TEST(delete_of_an_absent_key_is_enoent)
{
	struct given g;

	master_delete(1, "k", -ENOENT);
	g = master_put(2, "k", 100);
	master_delete(3, "k", 0);
	master_delete(4, "k", -ENOENT);
	master_quiet(g.extent, 1);
	ck_assert_uint_eq(master_stats().used, 0);
	ck_assert_uint_eq(master_stats().deletes, 3);
}
END_TEST

/* D1: an open put is no version */
START_TEST(delete_while_a_put_is_open_is_enoent_and_leaves_it)
{
	master_put_start(1, "k", 100, 0);
	master_planned(1, 0);
	master_delete(2, "k", -ENOENT);
	master_put_done(1);
	master_published(1);
	ck_assert_uint_eq(master_stats().keys, 1);
}
END_TEST

/* K4 */
START_TEST(exclusive_put_of_a_current_key_is_eexist_and_a_use)
{
	struct fkv_route_info before, after;

	master_put(1, "k", 100);
	ck_assert(master_route("k", &before));
	master_put_start(2, "k", 100, FLUXONKV_PUT_EXCL);
	master_planned(2, -EEXIST);
	ck_assert(master_route("k", &after));
	ck_assert_uint_eq(after.frequency, before.frequency + 1);
	ck_assert_uint_eq(master_stats().used, PAGE);
}
END_TEST

/* K4 */
START_TEST(exclusive_put_of_a_key_in_flight_is_ebusy)
{
	struct given g;

	master_put_start(1, "k", 100, 0);
	master_planned(1, 0);
	master_put_start(2, "k", 100, FLUXONKV_PUT_EXCL);
	master_planned(2, -EBUSY);
	/* one that is being deleted is there until it is not */
	master_put_done(1);
	g = master_published(1);
	master_send((struct fkv_msg){ .type = FKV_MSG_DELETE, .op = 3 }, "k");
	core_take_msg(FKV_MSG_RETIRE);
	master_put_start(4, "k", 100, FLUXONKV_PUT_EXCL);
	master_planned(4, -EEXIST);
	master_retired(3);
	core_take_msg(FKV_MSG_DELETE_R);
	master_quiet(g.extent, 1);
	master_put_start(5, "k", 100, FLUXONKV_PUT_EXCL);
	master_planned(5, 0);
	master_put_done(5);
	master_published(5);
}
END_TEST

/* K4: the version went while its delete waited for the owner */
START_TEST(exclusive_put_behind_a_delete_is_ebusy)
{
	master_on_ssd(1, "k", 1);
	master_send((struct fkv_msg){ .type = FKV_MSG_DELETE, .op = 5 }, "k");
	core_take_msg(FKV_MSG_RETIRE);
	master_send((struct fkv_msg){
		.type = FKV_MSG_SSD_TAIL,
		.seq = 2,
	}, NULL);
	ck_assert_uint_eq(master_stats().keys, 0);
	master_put_start(6, "k", 100, FLUXONKV_PUT_EXCL);
	master_planned(6, -EBUSY);
	master_retired(5);
	ck_assert_int_eq(core_take_msg(FKV_MSG_DELETE_R).res, 0);
}
END_TEST

/* K4: it was absent at begin, not any more at commit */
START_TEST(exclusive_put_that_lost_the_race_is_eexist)
{
	master_put_start(1, "k", 100, FLUXONKV_PUT_EXCL);
	master_planned(1, 0);
	master_put(2, "k", 200);
	master_put_done(1);
	ck_assert_int_eq(core_take_msg(FKV_MSG_PUT_DONE_R).res, -EEXIST);
	ck_assert_uint_eq(master_stats().used, PAGE);
	ck_assert_uint_eq(master_stats().ops, 0);
}
END_TEST

/* P5 */
START_TEST(revoked_put_frees_key_and_extent_at_once)
{
	master_put_start(1, "k", 100, 0);
	master_planned(1, 0);
	master_put_revoke(1, false);
	ck_assert_uint_eq(master_stats().used, 0);
	master_put_start(2, "k", 100, FLUXONKV_PUT_EXCL);
	master_planned(2, 0);
	master_put_revoke(2, false);
	/* commit comes too late */
	master_put_done(1);
	ck_assert_int_eq(core_take_msg(FKV_MSG_PUT_DONE_R).res, -ETIMEDOUT);
	ck_assert_uint_eq(master_stats().bad_messages, 1);
}
END_TEST

/* P5 */
START_TEST(extent_of_a_put_whose_client_may_write_waits_for_quiet)
{
	struct given g;

	master_put_start(1, "k", 100, 0);
	g = master_planned(1, 0);
	master_put_revoke(1, true);
	ck_assert_uint_eq(master_stats().used, PAGE);
	ck_assert_uint_eq(master_stats().ops, 0);
	master_quiet(g.extent, 1);
	ck_assert_uint_eq(master_stats().used, 0);
}
END_TEST

/* K1 */
START_TEST(empty_value_is_a_memory_replica_of_no_bytes)
{
	struct fkv_route_info info;
	struct given g;

	master_ssd(1);
	g = master_put(1, "k", 0);
	ck_assert(!core_has_msg(FKV_MSG_PERSIST));
	ck_assert(master_route("k", &info));
	ck_assert(info.memory && !info.ssd && !info.pending);
	ck_assert_uint_eq(master_stats().used, 0);
	master_get_start(2, "k", FKV_CLASS_GET, core_now);
	ck_assert_uint_eq(master_get_plan(2, 0).len, 0);
	master_delete(3, "k", 0);
	master_quiet(g.extent, 2);
	ck_assert_uint_eq(master_stats().extents, 0);
}
END_TEST

/* K4, P3: whether to persist is decided at begin */
START_TEST(memory_only_put_is_not_persisted)
{
	master_ssd(1);
	master_put_start(1, "k", 100, FLUXONKV_PUT_MEMORY);
	master_planned(1, 0);
	master_put_done(1);
	master_published(1);
	ck_assert(!core_has_msg(FKV_MSG_PERSIST));

	master_put_start(2, "l", 100, 0);
	master_planned(2, 0);
	master_ssd(0);
	master_put_done(2);
	master_published(2);
	master_persist_failed("l", -ENODEV);

	master_put_start(3, "m", 100, 0);
	master_planned(3, 0);
	master_ssd(1);
	master_put_done(3);
	master_published(3);
	ck_assert(!core_has_msg(FKV_MSG_PERSIST));
}
END_TEST

/* every op that is not what the message takes it for */
START_TEST(messages_for_no_such_change_do_nothing)
{
	struct given g = master_put(1, "k", 100);

	master_put_revoke(99, false);
	master_retired(99);
	master_put_start(2, "l", 100, 0);
	master_planned(2, 0);
	master_retired(2);		/* nothing was asked */
	master_get_revoke(2, false);
	master_get_done(2, -ESTALE);
	master_put_start(2, "m", 100, 0);	/* the id is taken */
	ck_assert_int_eq(core_take_msg(FKV_MSG_PUT_PLAN).res, -ENOMEM);
	ck_assert_uint_eq(master_stats().bad_messages, 5);
	master_put_revoke(2, false);

	master_send((struct fkv_msg){ .type = FKV_MSG_DELETE, .op = 3 }, "k");
	core_take_msg(FKV_MSG_RETIRE);
	master_put_done(3);
	ck_assert_int_eq(core_take_msg(FKV_MSG_PUT_DONE_R).res, -ETIMEDOUT);
	master_put_revoke(3, false);
	master_retired(3);
	core_take_msg(FKV_MSG_DELETE_R);
	master_quiet(g.extent, 1);
	ck_assert_uint_eq(master_stats().bad_messages, 7);
	ck_assert_uint_eq(master_stats().used, 0);
}
END_TEST

/* K3: -ENOMEM, and nothing is left behind */
START_TEST(put_without_memory_leaves_nothing)
{
	uint64_t n = 1;

	for (;; n++) {
		struct fkv_msg plan;

		core_key("k");
		core_fail_alloc(n);
		master_put_start(n, "k", 100, 0);
		if (!core_alloc_failed())
			break;
		plan = core_take_msg(FKV_MSG_PUT_PLAN);
		ck_assert_int_eq(plan.res, -ENOMEM);
		ck_assert_uint_eq(master_stats().used, 0);
		ck_assert_uint_eq(master_stats().ops, 0);
		ck_assert_uint_eq(core_key("k")->refs, 1);
	}
	ck_assert_uint_gt(n, 3);
	master_planned(n, 0);
	master_put_revoke(n, false);
}
END_TEST

START_TEST(delete_without_memory_leaves_the_key)
{
	master_put(1, "k", 100);
	core_fail_alloc(1);
	master_delete(2, "k", -ENOMEM);
	ck_assert(core_alloc_failed());
	ck_assert_uint_eq(master_stats().keys, 1);
}
END_TEST

/* P4: what waits for room has nothing to commit or give back yet */
START_TEST(commit_and_revoke_of_a_put_without_room_do_nothing)
{
	master_put_start(1, "a", SEGMENT / 100 * 84, 0);
	master_planned(1, 0);
	master_put_start_until(2, "b", BIG, core_now + FKV_SEC);
	master_put_done(2);
	ck_assert_int_eq(core_take_msg(FKV_MSG_PUT_DONE_R).res, -ETIMEDOUT);
	master_put_revoke(2, false);
	ck_assert_uint_eq(master_stats().bad_messages, 2);
	ck_assert_uint_eq(master_stats().waiting, 1);
	master_put_revoke(1, false);
	master_planned(2, 0);
	master_put_revoke(2, false);
}
END_TEST

static void cancel(uint64_t op)
{
	master_send((struct fkv_msg){ .type = FKV_MSG_PUT_CANCEL, .op = op },
		    NULL);
}

/* P5: a put that waits for room dies with its client: key and line are free */
START_TEST(cancelled_put_waits_no_longer_and_holds_up_nobody)
{
	master_put_start(1, "a", SEGMENT / 100 * 80, 0);
	master_planned(1, 0);
	master_put_start_until(2, "b", BIG, core_now + FKV_SEC);
	master_put_start_until(3, "c", PAGE, core_now + FKV_SEC);
	ck_assert_uint_eq(master_stats().waiting, 2);
	cancel(2);
	master_planned(2, -ECANCELED);
	master_planned(3, 0);
	ck_assert_uint_eq(master_stats().waiting, 0);
	ck_assert_uint_eq(master_stats().ops, 2);
	master_put_start(4, "b", PAGE, FLUXONKV_PUT_EXCL);
	master_planned(4, 0);
	/* what was planned or refused before is no wait */
	cancel(2);
	cancel(3);
	ck_assert_uint_eq(core_left(), 0);
	ck_assert_uint_eq(master_stats().bad_messages, 0);
	master_put_revoke(1, false);
	master_put_revoke(3, false);
	master_put_revoke(4, false);
}
END_TEST

/* K6c: a fetch is no change, whatever is said of it */
START_TEST(fetch_is_neither_committed_nor_retired)
{
	master_on_ssd(1, "k", 1);
	master_get_start(5, "k", FKV_CLASS_GET, core_now);
	master_get_plan(5, 0);
	master_put_done(5);
	ck_assert_int_eq(core_take_msg(FKV_MSG_PUT_DONE_R).res, -ETIMEDOUT);
	master_put_revoke(5, false);
	master_retired(5);
	ck_assert_uint_eq(master_stats().bad_messages, 3);
	ck_assert_uint_eq(master_stats().cause_bytes[2], BIG);
	master_get_revoke(5, false);
}
END_TEST

/* K4: on SSD is current, too */
START_TEST(exclusive_put_of_a_key_on_ssd_is_eexist)
{
	master_on_ssd(1, "k", 1);
	master_put_start(5, "k", PAGE, FLUXONKV_PUT_EXCL);
	master_planned(5, -EEXIST);
	ck_assert_uint_eq(master_stats().used, 0);
}
END_TEST

/* D1: a delete behind another change waits, though no version is left */
START_TEST(delete_behind_a_change_of_a_lost_version_waits)
{
	master_on_ssd(1, "k", 1);
	master_send((struct fkv_msg){ .type = FKV_MSG_DELETE, .op = 5 }, "k");
	core_take_msg(FKV_MSG_RETIRE);
	master_send((struct fkv_msg){ .type = FKV_MSG_SSD_TAIL, .seq = 2 },
		    NULL);
	master_send((struct fkv_msg){ .type = FKV_MSG_DELETE, .op = 6 }, "k");
	ck_assert_uint_eq(core_left(), 0);
	master_retired(5);
	ck_assert_int_eq(core_take_msg(FKV_MSG_DELETE_R).res, 0);
	ck_assert_int_eq(core_take_msg(FKV_MSG_DELETE_R).res, -ENOENT);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("master change");
	TCase *tc = tcase_create("core");
	SRunner *sr = srunner_create(s);
	int failed;

	tcase_add_checked_fixture(tc, master_setup, master_teardown);
	tcase_add_test(tc, put_ids_rise_in_the_order_of_effect);
	tcase_add_test(tc, put_over_a_live_key_retires_the_old_version_first);
	tcase_add_test(tc, get_while_a_version_is_retired_has_no_grant);
	tcase_add_test(tc, changes_of_a_key_wait_for_their_turn);
	tcase_add_test(tc, delete_of_an_absent_key_is_enoent);
	tcase_add_test(tc, delete_while_a_put_is_open_is_enoent_and_leaves_it);
	tcase_add_test(tc, exclusive_put_of_a_current_key_is_eexist_and_a_use);
	tcase_add_test(tc, exclusive_put_of_a_key_in_flight_is_ebusy);
	tcase_add_test(tc, exclusive_put_behind_a_delete_is_ebusy);
	tcase_add_test(tc, exclusive_put_that_lost_the_race_is_eexist);
	tcase_add_test(tc, revoked_put_frees_key_and_extent_at_once);
	tcase_add_test(tc,
		       extent_of_a_put_whose_client_may_write_waits_for_quiet);
	tcase_add_test(tc, empty_value_is_a_memory_replica_of_no_bytes);
	tcase_add_test(tc, memory_only_put_is_not_persisted);
	tcase_add_test(tc, messages_for_no_such_change_do_nothing);
	tcase_add_test(tc, put_without_memory_leaves_nothing);
	tcase_add_test(tc, delete_without_memory_leaves_the_key);
	tcase_add_test(tc, commit_and_revoke_of_a_put_without_room_do_nothing);
	tcase_add_test(tc, cancelled_put_waits_no_longer_and_holds_up_nobody);
	tcase_add_test(tc, fetch_is_neither_committed_nor_retired);
	tcase_add_test(tc, exclusive_put_of_a_key_on_ssd_is_eexist);
	tcase_add_test(tc, delete_behind_a_change_of_a_lost_version_waits);
	suite_add_tcase(s, tc);
	srunner_run_all(sr, CK_ENV);
	failed = srunner_ntests_failed(sr);
	srunner_free(sr);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
