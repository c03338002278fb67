// SPDX-License-Identifier: Apache-2.0
#include <check.h>
#include <stdlib.h>

#include "owner_driver.h"

static void evict(const char *key, uint64_t extent)
{
	owner_msg((struct fkv_msg){
		.type = FKV_MSG_EVICT,
		.extent = extent,
	}, key);
}

static void answered(uint64_t extent, enum fkv_evict_result res, uint64_t n)
{
	struct fkv_msg msg = core_take_msg(FKV_MSG_EVICTED);

	ck_assert_uint_eq(msg.extent, extent);
	ck_assert_int_eq(msg.res, (int)res);
	ck_assert_uint_eq(msg.n, n);
}

/* K6d: from the answer on no new pin succeeds, and it waits for none */
START_TEST(retired_entry_is_out_at_once_and_given_back_when_quiet)
{
	struct fkv_entry *e = owner_put("k", PAGE, 5, 9);
	uint64_t id = owner_hold("k", PAGE);

	owner_retire("k", 9);
	ck_assert_ptr_eq(core_take(FKV_CMD_RETIRE).entry, e);
	owner_pinned(0);
	ck_assert_uint_eq(owner_stats().entries, 0);
	ck_assert_uint_eq(owner_stats().entries_retired, 1);
	owner_ask(FLUXONKV_OP_GET, "k");
	owner_refuse(FKV_MSG_GET_PLAN, owner_asked("k"), -ENOENT);
	owner_result(-ENOENT);

	owner_scanned(e);
	ck_assert_uint_eq(core_left(), 0);
	owner_release(id);
	owner_quiet(5, 1);
	ck_assert_uint_eq(owner_stats().entries_retired, 0);
}
END_TEST

/* H1: a reader of the shared index may come after the last holder */
START_TEST(retired_entry_without_holders_waits_for_its_scan)
{
	struct fkv_entry *e = owner_put("k", PAGE, 5, 9);
	uint64_t id = owner_hold("k", PAGE);

	owner_retire("k", 9);
	core_take(FKV_CMD_RETIRE);
	owner_pinned(0);
	owner_release(id);
	ck_assert_uint_eq(core_left(), 0);
	owner_scanned(e);
	owner_quiet(5, 1);
}
END_TEST

/* K6d: "if its put_id is not larger" */
START_TEST(retire_of_an_older_version_leaves_the_newer)
{
	struct fkv_entry *e = owner_put("k", PAGE, 5, 9);

	owner_retire("k", 8);
	ck_assert(e->live);
	owner_retire("l", 9);
	ck_assert(e->live);
	owner_retire("k", 10);
	ck_assert_ptr_eq(core_take(FKV_CMD_RETIRE).entry, e);
	owner_scanned(e);
	owner_quiet(5, 1);
}
END_TEST

/* M4a */
START_TEST(evicted_entry_goes_with_all_its_references)
{
	struct fkv_entry *e = owner_put("k", PAGE, 5, 9);

	evict("k", 5);
	ck_assert_ptr_eq(core_take(FKV_CMD_EVICT).entry, e);
	owner_evicted(e, FKV_EVICT_OK);
	answered(5, FKV_EVICT_OK, 1);
	ck_assert_uint_eq(owner_stats().entries, 0);
	ck_assert_uint_eq(owner_stats().entries_retired, 0);
}
END_TEST

/* M4a: what holders pin is not even asked for */
START_TEST(entry_with_a_holder_is_busy)
{
	struct fkv_entry *e = owner_put("k", PAGE, 5, 9);
	uint64_t id = owner_hold("k", PAGE);

	evict("k", 5);
	answered(5, FKV_EVICT_BUSY, 0);
	ck_assert(!core_has(FKV_CMD_EVICT));
	ck_assert(e->live);
	owner_release(id);
	owner_pinned(0);
}
END_TEST

/* M4a: what readers pin, the gateway says */
START_TEST(entry_that_readers_pin_is_busy_and_stays)
{
	struct fkv_entry *e = owner_put("k", PAGE, 5, 9);

	evict("k", 5);
	core_take(FKV_CMD_EVICT);
	owner_evicted(e, FKV_EVICT_BUSY);
	answered(5, FKV_EVICT_BUSY, 0);
	ck_assert(e->live);
	ck_assert_uint_eq(owner_stats().entries, 1);
}
END_TEST

/* M4a: a reader pinned it between peek and retirement */
START_TEST(held_entry_is_out_and_its_extent_returns_by_quiet)
{
	struct fkv_entry *e = owner_put("k", PAGE, 5, 9);

	evict("k", 5);
	core_take(FKV_CMD_EVICT);
	owner_evicted(e, FKV_EVICT_HELD);
	answered(5, FKV_EVICT_HELD, 0);
	ck_assert(!e->live);
	ck_assert(!core_has_msg(FKV_MSG_QUIET));
	owner_scanned(e);
	owner_quiet(5, 1);
}
END_TEST

/* M4a: a holder came while the gateway was asked */
START_TEST(entry_held_while_it_is_evicted_returns_by_quiet)
{
	struct fkv_entry *e = owner_put("k", PAGE, 5, 9);
	uint64_t id;

	evict("k", 5);
	core_take(FKV_CMD_EVICT);
	id = owner_hold("k", PAGE);
	owner_evicted(e, FKV_EVICT_OK);
	answered(5, FKV_EVICT_HELD, 0);
	owner_pinned(0);
	owner_release(id);
	owner_quiet(5, 1);
}
END_TEST

/* M4a, K6d: retirement overtakes the eviction */
START_TEST(entry_retired_while_it_is_evicted_is_the_retirements)
{
	struct fkv_entry *e = owner_put("k", PAGE, 5, 9);

	evict("k", 5);
	core_take(FKV_CMD_EVICT);
	owner_retire("k", 9);
	core_take(FKV_CMD_RETIRE);
	owner_scanned(e);
	ck_assert_uint_eq(core_left(), 0);
	owner_evicted(e, FKV_EVICT_OK);
	answered(5, FKV_EVICT_HELD, 0);
	owner_quiet(5, 1);
}
END_TEST

/* M4a: the entry is another by now, or none */
START_TEST(evict_of_what_is_not_here_is_held)
{
	struct fkv_entry *e = owner_put("k", PAGE, 5, 9);

	evict("k", 4);
	answered(4, FKV_EVICT_HELD, 0);
	evict("l", 4);
	answered(4, FKV_EVICT_HELD, 0);
	ck_assert(e->live);
}
END_TEST

/* P4: pinned bytes are told once for all holders, and once for a change */
START_TEST(master_is_told_what_holders_and_readers_pin)
{
	uint64_t a, b;

	owner_put("a", PAGE + 1, 5, 9);
	a = owner_hold("a", 2 * PAGE);
	owner_ask(FLUXONKV_OP_GET, "a");
	b = owner_result(0).id;
	ck_assert_uint_eq(core_left(), 0);
	owner_step(&(struct fkv_in){ .type = FKV_IN_PINS, .n = PAGE });
	owner_pinned(3 * PAGE);
	owner_release(a);
	ck_assert_uint_eq(core_left(), 0);
	owner_release(b);
	owner_pinned(PAGE);
	owner_step(&(struct fkv_in){ .type = FKV_IN_PINS, .n = 0 });
	owner_pinned(0);
}
END_TEST

/* M4: hits in the shared index reach the policy */
START_TEST(hits_are_passed_on)
{
	struct fkv_entry *e = owner_put("k", PAGE, 5, 9);
	struct fkv_msg msg;

	owner_step(&(struct fkv_in){
		.type = FKV_IN_HITS,
		.entry = e,
		.n = 3,
	});
	msg = core_take_msg(FKV_MSG_HITS);
	ck_assert_uint_eq(msg.extent, 5);
	ck_assert_uint_eq(msg.n, 3);
}
END_TEST

/* K6a: a second grant for what is live is one reference more */
START_TEST(grant_of_what_is_live_adds_a_reference)
{
	uint64_t into, get;
	struct fkv_entry *e;
	struct fkv_call *call;

	owner_ask(FLUXONKV_OP_GET, "k");
	get = owner_asked("k");
	call = owner_call(FLUXONKV_OP_GET, 1);
	call->flags = FLUXONKV_REQ_INTO;
	call->items[0].key = core_key_ref("k");
	owner_run(call);
	into = owner_asked("k");
	owner_plan(get, FLUXONKV_SOURCE_LOCAL, 9, PAGE, 5, true);
	e = core_take(FKV_CMD_PUBLISH).entry;
	owner_plan(into, FLUXONKV_SOURCE_LOCAL, 9, PAGE, 5, true);
	ck_assert(!core_has(FKV_CMD_PUBLISH));
	ck_assert_uint_eq(e->given, 2);
	owner_pinned(PAGE);
	owner_gone(CLIENT);
	core_drop_all();
	evict("k", 5);
	core_take(FKV_CMD_EVICT);
	owner_evicted(e, FKV_EVICT_OK);
	answered(5, FKV_EVICT_OK, 2);
}
END_TEST

/* K6a: without a grant nothing is published; it goes with its last holder */
START_TEST(entry_without_a_grant_is_only_held)
{
	struct fluxonkv_result res;

	owner_ask(FLUXONKV_OP_GET, "k");
	owner_plan(owner_asked("k"), FLUXONKV_SOURCE_LOCAL, 9, PAGE, 5, false);
	res = owner_result(0);
	ck_assert(!core_has(FKV_CMD_PUBLISH));
	ck_assert_uint_eq(owner_stats().entries, 0);
	owner_release(res.id);
	owner_quiet(5, 1);
	ck_assert_uint_eq(owner_stats().entries_retired, 0);
}
END_TEST

/* K1: keys are compared byte for byte, whatever their hashes say */
START_TEST(keys_of_one_hash_are_told_apart)
{
	struct fkv_entry *a, *b;
	uint64_t id;

	core_key("b")->hash.low = core_key("a")->hash.low;
	a = owner_put("a", PAGE, 5, 9);
	b = owner_put("b", PAGE, 6, 10);
	owner_ask(FLUXONKV_OP_GET, "a");
	ck_assert_uint_eq(owner_result(0).version, 9);
	owner_pinned(PAGE);
	owner_retire("b", 10);
	ck_assert_ptr_eq(core_take(FKV_CMD_RETIRE).entry, b);
	ck_assert(a->live);
	owner_scanned(b);
	owner_quiet(6, 1);

	/* fetches and persists, too */
	core_key("d")->hash.low = core_key("c")->hash.low;
	owner_ask(FLUXONKV_OP_GET, "c");
	id = owner_asked("c");
	owner_ask(FLUXONKV_OP_GET, "d");
	owner_retire("d", 9);
	owner_refuse(FKV_MSG_GET_PLAN, owner_asked("d"), -ENOENT);
	owner_result(-ENOENT);
	owner_ask(FLUXONKV_OP_GET, "c");
	ck_assert(!core_has_msg(FKV_MSG_GET_START));
	owner_refuse(FKV_MSG_GET_PLAN, id, -ENOSPC);
	owner_result(-ENOSPC);
	owner_result(-ENOSPC);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("owner entries");
	TCase *tc = tcase_create("core");
	SRunner *sr = srunner_create(s);
	int failed;

	tcase_add_checked_fixture(tc, owner_setup, owner_teardown);
	tcase_add_test(tc,
		       retired_entry_is_out_at_once_and_given_back_when_quiet);
	tcase_add_test(tc, retired_entry_without_holders_waits_for_its_scan);
	tcase_add_test(tc, retire_of_an_older_version_leaves_the_newer);
	tcase_add_test(tc, evicted_entry_goes_with_all_its_references);
	tcase_add_test(tc, entry_with_a_holder_is_busy);
	tcase_add_test(tc, entry_that_readers_pin_is_busy_and_stays);
	tcase_add_test(tc, held_entry_is_out_and_its_extent_returns_by_quiet);
	tcase_add_test(tc, entry_held_while_it_is_evicted_returns_by_quiet);
	tcase_add_test(tc,
		       entry_retired_while_it_is_evicted_is_the_retirements);
	tcase_add_test(tc, evict_of_what_is_not_here_is_held);
	tcase_add_test(tc, master_is_told_what_holders_and_readers_pin);
	tcase_add_test(tc, hits_are_passed_on);
	tcase_add_test(tc, grant_of_what_is_live_adds_a_reference);
	tcase_add_test(tc, entry_without_a_grant_is_only_held);
	tcase_add_test(tc, keys_of_one_hash_are_told_apart);
	suite_add_tcase(s, tc);
	srunner_run_all(sr, CK_ENV);
	failed = srunner_ntests_failed(sr);
	srunner_free(sr);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
