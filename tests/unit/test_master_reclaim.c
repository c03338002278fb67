// SPDX-License-Identifier: Apache-2.0
#include <check.h>
#include <stdlib.h>

#include "master_driver.h"

#define FILL	(SEGMENT / 100 * 84)

/* A put of most of the segment: BIG must go for it. */
static void want_room(uint64_t op)
{
	master_put_start_until(op, "filler", FILL, core_now + FKV_SEC);
}

static void drop_filler(uint64_t op)
{
	master_planned(op, 0);
	master_put_revoke(op, false);
}

static void tail(uint32_t shard, uint64_t seq)
{
	master_send((struct fkv_msg){
		.type = FKV_MSG_SSD_TAIL,
		.shard = shard,
		.seq = seq,
	}, NULL);
}

static void evict_asked(uint64_t extent)
{
	ck_assert_uint_eq(core_take_msg(FKV_MSG_EVICT).extent, extent);
}

/* M4a: without a grant nobody is asked */
START_TEST(replica_without_references_goes_at_once)
{
	struct given g = master_put(1, "k", BIG);

	master_quiet(g.extent, 1);
	want_room(2);
	drop_filler(2);
	ck_assert_uint_eq(master_stats().evictions, 1);
	ck_assert_uint_eq(master_stats().evicted_bytes, BIG);
	/* D2: no replica is left: no version */
	ck_assert_uint_eq(master_stats().keys, 0);
}
END_TEST

/* M4a */
START_TEST(granted_replica_is_asked_for_and_freed_by_its_answer)
{
	struct given g = master_put(1, "k", BIG);

	want_room(2);
	evict_asked(g.extent);
	master_tick();
	ck_assert_uint_eq(core_left(), 0);
	master_evicted(g.extent, FKV_EVICT_OK, 1);
	drop_filler(2);
	ck_assert_uint_eq(master_stats().used, 0);
}
END_TEST

/* M4a: busy stays published and counts as an access */
START_TEST(busy_replica_stays_and_was_used)
{
	struct given g = master_put(1, "k", BIG);
	struct fkv_route_info before, after;

	ck_assert(master_route("k", &before));
	want_room(2);
	evict_asked(g.extent);
	master_evicted(g.extent, FKV_EVICT_BUSY, 0);
	ck_assert(master_route("k", &after));
	ck_assert(after.memory);
	ck_assert_uint_eq(after.frequency, before.frequency + 1);
	ck_assert_uint_eq(master_stats().evict_busy, 1);
	core_now += FKV_SEC;
	core_drop_all();
	master_tick();
	core_drop_all();
	master_put_revoke(2, false);
}
END_TEST

/* M4a: held is out of the route, its extent returns by QUIET */
START_TEST(held_replica_is_free_when_quiet)
{
	struct given g = master_put(1, "k", BIG);

	want_room(2);
	evict_asked(g.extent);
	master_evicted(g.extent, FKV_EVICT_HELD, 0);
	ck_assert_uint_eq(master_stats().keys, 0);
	ck_assert_uint_eq(master_stats().evict_held, 1);
	ck_assert_uint_eq(master_stats().cause_bytes[4], BIG);
	ck_assert(!core_has_msg(FKV_MSG_PUT_PLAN));
	master_quiet(g.extent, 1);
	drop_filler(2);
}
END_TEST

/* M4a: a get was answered with it meanwhile */
START_TEST(replica_given_again_while_asked_for_stays)
{
	struct given g = master_put(1, "k", BIG);
	struct fkv_route_info info;

	want_room(2);
	evict_asked(g.extent);
	master_get_start(3, "k", FKV_CLASS_GET, core_now);
	master_get_plan(3, 0);
	master_evicted(g.extent, FKV_EVICT_OK, 1);
	ck_assert(master_route("k", &info));
	ck_assert(info.memory);
	/* at the next poll, with what is left of its references */
	ck_assert_uint_eq(core_left(), 0);
	core_now += 10 * FKV_MS;
	master_tick();
	evict_asked(g.extent);
	master_evicted(g.extent, FKV_EVICT_OK, 1);
	drop_filler(2);
}
END_TEST

/* K6c: the version went while its eviction was asked for */
START_TEST(evicted_after_its_route_went_only_gives_back)
{
	struct given g = master_put(1, "k", BIG);

	want_room(2);
	evict_asked(g.extent);
	master_delete(3, "k", 0);
	ck_assert_uint_eq(master_stats().cause_bytes[4], BIG);
	master_evicted(g.extent, FKV_EVICT_HELD, 0);
	ck_assert(!core_has_msg(FKV_MSG_PUT_PLAN));
	master_quiet(g.extent, 1);
	drop_filler(2);
	/* and an answer that comes later than QUIET is for nothing */
	master_evicted(g.extent, FKV_EVICT_HELD, 0);
	ck_assert_uint_eq(master_stats().bad_messages, 0);
}
END_TEST

START_TEST(evicted_that_nobody_asked_for_does_nothing)
{
	struct given g = master_put(1, "k", BIG);

	master_evicted(g.extent, FKV_EVICT_OK, 1);
	ck_assert_uint_eq(master_stats().bad_messages, 1);
	ck_assert_uint_eq(master_stats().keys, 1);
	/* more references than were given are no more than those */
	want_room(2);
	evict_asked(g.extent);
	master_evicted(g.extent, FKV_EVICT_OK, 7);
	ck_assert_uint_eq(master_stats().bad_messages, 2);
	drop_filler(2);
	g = master_put(3, "k", PAGE);
	master_quiet(g.extent, 7);
	master_quiet(999, 1);
	ck_assert_uint_eq(master_stats().bad_messages, 4);
	ck_assert_uint_eq(master_stats().used, PAGE);
}
END_TEST

/* P6, M4: not evictable before its first persist ended */
START_TEST(replica_whose_first_persist_is_pending_is_no_victim)
{
	struct given g;

	master_ssd(1);
	g = master_put(1, "k", BIG);
	master_quiet(g.extent, 1);
	ck_assert_uint_eq(master_stats().cause_bytes[3], BIG);
	want_room(2);
	ck_assert_uint_eq(master_stats().waiting, 1);
	master_commit("k", 0, 1);
	drop_filler(2);
	ck_assert_uint_eq(master_stats().keys_ssd, 1);
	ck_assert_uint_eq(master_stats().keys_memory, 0);
	ck_assert_uint_eq(master_stats().cause_bytes[3], 0);
}
END_TEST

/* P6 */
START_TEST(failed_persist_leaves_an_ordinary_memory_replica)
{
	struct given g;

	master_ssd(1);
	g = master_put(1, "k", BIG);
	master_quiet(g.extent, 1);
	master_persist_failed("k", -EIO);
	ck_assert_uint_eq(master_stats().persist_failed, 1);
	want_room(2);
	drop_filler(2);
	ck_assert_uint_eq(master_stats().keys, 0);
}
END_TEST

/* P7: each way in which a commit is of no use; it is answered all the same */
START_TEST(commit_of_what_is_not_there_any_more_is_ignored)
{
	struct given g;

	master_ssd(1);
	master_put(1, "a", PAGE);
	tail(0, 10);
	master_commit("a", 0, 9);	/* evicted before it was told */
	master_put(2, "b", PAGE);
	master_commit("b", 7, 9);	/* no such shard */
	g = master_put(3, "c", PAGE);
	master_delete(4, "c", 0);
	master_commit("c", 0, 11);	/* no route */
	master_quiet(g.extent, 1);
	g = master_put(5, "d", PAGE);
	master_put_start(6, "d", 2 * PAGE, FLUXONKV_PUT_MEMORY);
	master_planned(6, 0);
	master_put_done(6);
	core_take_msg(FKV_MSG_RETIRE);
	master_retired(6);
	master_published(6);
	master_commit("d", 0, 12);	/* another version */
	master_quiet(g.extent, 1);
	ck_assert_uint_eq(master_stats().commits_ignored, 4);
	ck_assert_uint_eq(master_stats().commits, 0);
	ck_assert_uint_eq(master_stats().keys_ssd, 0);
	ck_assert_uint_eq(master_stats().used, 4 * PAGE);
}
END_TEST

/* P7 */
START_TEST(end_of_no_persist_is_answered_and_does_nothing)
{
	struct given g = master_put(1, "a", PAGE);

	for (int i = 0; i < 2; i++) {
		master_send((struct fkv_msg){
			.type = FKV_MSG_SSD_COMMIT,
			.op = 3,
			.extent = i ? g.extent : 999,
		}, "a");
		core_take_msg(FKV_MSG_SSD_COMMIT_R);
	}
	ck_assert_uint_eq(master_stats().bad_messages, 2);
	ck_assert_uint_eq(master_stats().keys_ssd, 0);
}
END_TEST

/* S13 */
START_TEST(tail_of_a_shard_ends_its_older_copies_only)
{
	struct fkv_route_info info;

	master_ssd(1);
	master_put(1, "a", PAGE);
	master_put(2, "b", PAGE);
	master_put(3, "c", PAGE);
	master_commit("a", 0, 5);
	master_commit("b", 0, 6);
	master_commit("c", 1, 5);
	tail(0, 6);
	tail(0, 4);		/* a resend: tails only rise */
	tail(9, 100);
	ck_assert_uint_eq(master_stats().bad_messages, 1);
	ck_assert_uint_eq(master_stats().ssd_dropped, 1);
	ck_assert(master_route("a", &info) && !info.ssd && info.unbacked);
	ck_assert(master_route("b", &info) && info.ssd);
	ck_assert(master_route("c", &info) && info.ssd);
}
END_TEST

/* S13, D2 */
START_TEST(single_loss_is_by_version)
{
	struct fkv_msg lost = { .type = FKV_MSG_SSD_LOST };
	uint64_t id = master_on_ssd(1, "k", 1);

	lost.put_id = id - 1;
	master_send(lost, "k");
	ck_assert_uint_eq(master_stats().keys, 1);
	lost.put_id = id;
	master_send(lost, "x");
	ck_assert_uint_eq(master_stats().keys, 1);
	master_send(lost, "k");
	ck_assert_uint_eq(master_stats().keys, 0);
	lost.put_id = master_put(5, "m", PAGE).put_id;
	master_send(lost, "m");		/* was never there */
	ck_assert_uint_eq(master_stats().keys, 1);
	ck_assert_uint_eq(master_stats().ssd_dropped, 1);
	master_persist_failed("m", -EIO);
}
END_TEST

/* An unbacked replica of BIG bytes without references. */
static struct given unbacked(const char *key, bool read)
{
	struct given g;

	master_ssd(1);
	g = master_put(1, key, BIG);
	master_commit(key, 0, 1);
	if (read)
		master_send((struct fkv_msg){
			.type = FKV_MSG_HITS,
			.extent = g.extent,
			.n = 1,
		}, NULL);
	master_quiet(g.extent, 1);
	tail(0, 2);
	return g;
}

/* P6.1 */
START_TEST(unbacked_replica_is_written_again_before_it_goes)
{
	struct fkv_route_info info;

	unbacked("k", true);
	want_room(2);
	ck_assert_uint_eq(master_stats().rebacked, 1);
	ck_assert(master_route("k", &info) && info.pending);
	/* it stays in P4's sum as evictable */
	ck_assert_uint_eq(master_stats().cause_bytes[3], 0);
	master_commit("k", 1, 1);
	drop_filler(2);
	ck_assert(master_route("k", &info) && info.ssd && !info.memory);
}
END_TEST

/* P4: the owner must know which persist keeps a value from being evicted */
START_TEST(persist_says_whether_it_is_the_first)
{
	struct fkv_msg persist;

	master_ssd(1);
	master_put(1, "k", BIG);
	persist = core_take_msg(FKV_MSG_PERSIST);
	ck_assert(persist.first);
	master_send((struct fkv_msg){
		.type = FKV_MSG_SSD_COMMIT,
		.put_id = persist.put_id,
		.extent = persist.extent,
		.seq = 1,
	}, "k");
	core_drop_all();
	unbacked("l", true);
	want_room(2);
	ck_assert(!core_take_msg(FKV_MSG_PERSIST).first);
	core_drop_all();
}
END_TEST

/*
 * P6.1, M4: a ring smaller than memory drops the new copy before the victim's
 * turn comes again: written once between two hits, or nothing is ever freed.
 */
START_TEST(unbacked_replica_is_written_again_once)
{
	unbacked("k", true);
	want_room(2);
	ck_assert_uint_eq(master_stats().rebacked, 1);
	tail(0, 3);
	master_commit("k", 0, 2);
	drop_filler(2);
	ck_assert_uint_eq(master_stats().rebacked, 1);
	ck_assert_uint_eq(master_stats().keys, 0);
}
END_TEST

/* P6.1 */
START_TEST(unbacked_replica_that_was_never_read_is_dropped)
{
	unbacked("k", false);
	want_room(2);
	drop_filler(2);
	ck_assert_uint_eq(master_stats().rebacked, 0);
	ck_assert_uint_eq(master_stats().keys, 0);
}
END_TEST

/* P6.1, P6: the tier is off, or goes off: then it is simply dropped */
START_TEST(unbacked_replica_is_dropped_without_a_tier)
{
	unbacked("k", true);
	want_room(2);
	master_ssd(0);
	master_persist_failed("k", -ENODEV);
	drop_filler(2);
	ck_assert_uint_eq(master_stats().keys, 0);
	unbacked("l", true);
	master_ssd(0);
	want_room(2);
	drop_filler(2);
	ck_assert_uint_eq(master_stats().keys, 0);
	ck_assert_uint_eq(master_stats().rebacked, 1);
}
END_TEST

/* P6.1: what is being replaced is not worth a write */
START_TEST(unbacked_replica_that_is_changing_is_dropped)
{
	unbacked("k", true);
	master_send((struct fkv_msg){ .type = FKV_MSG_DELETE, .op = 9 }, "k");
	core_take_msg(FKV_MSG_RETIRE);
	want_room(2);
	drop_filler(2);
	ck_assert_uint_eq(master_stats().rebacked, 0);
	master_retired(9);
	ck_assert_int_eq(core_take_msg(FKV_MSG_DELETE_R).res, 0);
}
END_TEST

/* K6c, P6.1: overwritten while it is written again */
START_TEST(rewrite_of_a_replica_that_went_gives_its_room_back)
{
	struct fkv_route_info info;

	unbacked("k", true);
	want_room(2);
	master_delete(9, "k", 0);
	ck_assert(!master_route("k", &info));
	ck_assert(!core_has_msg(FKV_MSG_PUT_PLAN));
	master_commit("k", 1, 1);
	ck_assert_uint_eq(master_stats().commits_ignored, 1);
	drop_filler(2);
	ck_assert_uint_eq(master_stats().used, 0);
}
END_TEST

/* P4: FIFO per class: a small one does not overtake */
START_TEST(waiters_of_a_class_are_served_in_order)
{
	master_put_start(1, "a", FILL, 0);
	master_planned(1, 0);
	master_put_start_until(2, "b", FILL, core_now + FKV_SEC);
	master_put_start_until(3, "c", PAGE, core_now + FKV_SEC);
	ck_assert_uint_eq(master_stats().waiting, 2);
	ck_assert_uint_eq(core_left(), 0);
	master_put_revoke(1, false);
	master_planned(2, 0);
	master_planned(3, 0);
	master_put_revoke(2, false);
	master_put_revoke(3, false);
	ck_assert_uint_eq(master_stats().space_waits, 2);
}
END_TEST

/* K3: a waiter that cannot be given its extent says so and leaves nothing */
START_TEST(waiter_without_memory_is_enomem)
{
	struct given g = master_put(1, "k", BIG);
	uint64_t n;

	want_room(2);
	evict_asked(g.extent);
	core_fail_alloc(1);
	master_evicted(g.extent, FKV_EVICT_OK, 1);
	for (n = 2; !core_has_msg(FKV_MSG_PUT_PLAN); n++) {
		ck_assert(core_alloc_failed());
		core_fail_alloc(n);
		master_tick();
	}
	core_alloc_failed();
	master_planned(2, -ENOMEM);
	ck_assert_uint_eq(master_stats().used, 0);
	ck_assert_uint_eq(master_stats().waiting, 0);
	ck_assert_uint_eq(master_stats().ops, 0);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("master reclaim");
	TCase *tc = tcase_create("core");
	SRunner *sr = srunner_create(s);
	int failed;

	tcase_add_checked_fixture(tc, master_setup, master_teardown);
	tcase_add_test(tc, replica_without_references_goes_at_once);
	tcase_add_test(tc,
		       granted_replica_is_asked_for_and_freed_by_its_answer);
	tcase_add_test(tc, busy_replica_stays_and_was_used);
	tcase_add_test(tc, held_replica_is_free_when_quiet);
	tcase_add_test(tc, replica_given_again_while_asked_for_stays);
	tcase_add_test(tc, evicted_after_its_route_went_only_gives_back);
	tcase_add_test(tc, evicted_that_nobody_asked_for_does_nothing);
	tcase_add_test(tc, replica_whose_first_persist_is_pending_is_no_victim);
	tcase_add_test(tc, failed_persist_leaves_an_ordinary_memory_replica);
	tcase_add_test(tc, commit_of_what_is_not_there_any_more_is_ignored);
	tcase_add_test(tc, end_of_no_persist_is_answered_and_does_nothing);
	tcase_add_test(tc, tail_of_a_shard_ends_its_older_copies_only);
	tcase_add_test(tc, single_loss_is_by_version);
	tcase_add_test(tc, unbacked_replica_is_written_again_before_it_goes);
	tcase_add_test(tc, persist_says_whether_it_is_the_first);
	tcase_add_test(tc, unbacked_replica_is_written_again_once);
	tcase_add_test(tc, unbacked_replica_that_was_never_read_is_dropped);
	tcase_add_test(tc, unbacked_replica_is_dropped_without_a_tier);
	tcase_add_test(tc, unbacked_replica_that_is_changing_is_dropped);
	tcase_add_test(tc, rewrite_of_a_replica_that_went_gives_its_room_back);
	tcase_add_test(tc, waiters_of_a_class_are_served_in_order);
	tcase_add_test(tc, waiter_without_memory_is_enomem);
	suite_add_tcase(s, tc);
	srunner_run_all(sr, CK_ENV);
	failed = srunner_ntests_failed(sr);
	srunner_free(sr);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
