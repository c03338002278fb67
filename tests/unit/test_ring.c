// SPDX-License-Identifier: Apache-2.0
#include <check.h>
#include <stdlib.h>

#include "ring_driver.h"

/* S8 */
START_TEST(entry_is_a_header_and_payload_in_units)
{
	struct fkv_ring_entry *e;

	ring_of(1, 1, 8);
	ck_assert_int_eq(fkv_ring_reserve(ring, ring_key[0], 1, 1, &e), 0);
	ck_assert_uint_eq(e->entry_len, 2 * UNIT);
	ck_assert_uint_eq(e->len, 1);
	ck_assert_int_eq(fkv_ring_reserve(ring, ring_key[1], 1, UNIT + 1, &e),
			 0);
	ck_assert_uint_eq(e->entry_len, 3 * UNIT);
	ck_assert_uint_eq(e->vpos, 2 * UNIT);
	ck_assert_uint_eq(ring_stats().used, 5 * UNIT);
}
END_TEST

/* S4, S8 */
START_TEST(larger_device_unit_pads_header_and_payload)
{
	struct fkv_ring_config cfg = { .nr_devices = 1 };
	struct fkv_ring_entry *e;

	cfg.device[0].nr_shards = 1;
	cfg.device[0].ring_size = 32 * UNIT;
	cfg.device[0].unit = 4 * UNIT;
	ck_assert_int_eq(fkv_ring_create(&cfg, &ring), 0);
	ck_assert_int_eq(fkv_ring_reserve(ring, ring_key[0], 1, 5 * UNIT, &e),
			 0);
	ck_assert_uint_eq(e->entry_len, 12 * UNIT);
	fkv_ring_check(ring);
}
END_TEST

/* S5 */
START_TEST(oldest_entries_are_evicted_first)
{
	ring_of(1, 1, 8);
	for (int i = 0; i < 4; i++)
		ring_committed(i, 1, 2);
	ring_committed(4, 1, 2);
	ck_assert(!ring_readable(0, 1));
	ck_assert(ring_readable(1, 1));
	ring_committed(5, 1, 3);
	ck_assert(!ring_readable(1, 1) && !ring_readable(2, 1));
	ck_assert(ring_readable(3, 1) && ring_readable(4, 1) &&
		  ring_readable(5, 1));
	ck_assert_uint_eq(ring_stats().evictions, 3);
}
END_TEST

/* S5 */
START_TEST(value_that_does_not_fit_before_the_end_starts_the_next_lap)
{
	struct fkv_ring_entry *e;

	ring_of(1, 1, 8);
	ring_committed(0, 1, 6);
	e = ring_writing(1, 1, 3);
	ck_assert_uint_eq(e->vpos, 8 * UNIT);
	ck_assert_uint_eq(e->skip_vpos, 6 * UNIT);
	ck_assert_uint_eq(e->skip_len, 2 * UNIT);
	ck_assert(!ring_readable(0, 1));
	ck_assert_uint_eq(ring_stats().laps, 1);
}
END_TEST

START_TEST(value_that_ends_at_the_end_skips_nothing)
{
	struct fkv_ring_entry *e;

	ring_of(1, 1, 8);
	ring_committed(0, 1, 5);
	e = ring_writing(1, 1, 3);
	ck_assert_uint_eq(e->vpos, 5 * UNIT);
	ck_assert_uint_eq(e->skip_len, 0);
	fkv_ring_commit(ring, e, 0);
	fkv_ring_commit_unpin(ring, e);
	e = ring_writing(2, 1, 2);
	ck_assert_uint_eq(e->vpos, 8 * UNIT);
	ck_assert_uint_eq(e->skip_len, 0);
	ck_assert(ring_readable(1, 1));
}
END_TEST

START_TEST(value_as_large_as_the_ring_is_taken_and_takes_all)
{
	ring_of(1, 1, 8);
	ring_committed(0, 1, 2);
	ring_committed(1, 1, 8);
	ck_assert(!ring_readable(0, 1));
	ck_assert(ring_readable(1, 1));
	ck_assert_uint_eq(ring_stats().used, 8 * UNIT);
	ring_committed(2, 1, 8);
	ck_assert(!ring_readable(1, 1));
}
END_TEST

/* K1 */
START_TEST(value_larger_than_a_shard_is_refused_without_effect)
{
	struct fkv_ring_entry *e = NULL;

	ring_of(1, 4, 8);
	ring_committed(0, 1, 8);
	ck_assert_int_eq(ring_reserve(1, 1, 9, &e), -EFBIG);
	ck_assert_int_eq(fkv_ring_reserve(ring, ring_key[1], 1, FKV_VALUE_MAX,
					  &e),
			 -EFBIG);
	ck_assert_ptr_null(e);
	ck_assert(ring_readable(0, 1));
}
END_TEST

/* S3 */
START_TEST(devices_and_their_shards_take_turns)
{
	static const uint32_t want[] = { 0, 2, 1, 3, 0, 2, 1, 3 };

	ring_of(2, 2, 16);
	for (int i = 0; i < 8; i++)
		ck_assert_uint_eq(ring_committed(i, 1, 2)->shard, want[i]);
}
END_TEST

/* S5: each kind of what is in the way */
START_TEST(write_in_flight_blocks_its_shard)
{
	struct fkv_ring_entry *w, *e;

	ring_of(1, 1, 8);
	w = ring_writing(0, 1, 8);
	ck_assert_int_eq(ring_reserve(1, 1, 2, &e), -EBUSY);
	ck_assert_uint_eq(ring_stats().blocked_write, 1);
	fkv_ring_abort(ring, w);
	ck_assert_int_eq(ring_reserve(1, 1, 2, &e), 0);
}
END_TEST

START_TEST(read_pin_blocks_its_shard)
{
	struct fkv_ring_entry *r, *e;

	ring_of(1, 1, 8);
	ring_committed(0, 1, 8);
	ck_assert_int_eq(ring_read_pin(0, 1, &r), 0);
	ck_assert_int_eq(ring_reserve(1, 1, 2, &e), -EBUSY);
	ck_assert_uint_eq(ring_stats().blocked_read, 1);
	ck_assert_int_eq(fkv_ring_read_unpin(ring, r), 0);
	ck_assert_int_eq(ring_reserve(1, 1, 2, &e), 0);
}
END_TEST

/* P7 */
START_TEST(commit_pin_blocks_until_the_master_answered)
{
	struct fkv_ring_entry *c, *e;

	ring_of(1, 1, 8);
	c = ring_writing(0, 1, 8);
	fkv_ring_commit(ring, c, 5);
	ck_assert_int_eq(ring_reserve(1, 1, 2, &e), -EBUSY);
	ck_assert_uint_eq(ring_stats().blocked_commit, 1);
	fkv_ring_commit_unpin(ring, c);
	ck_assert_int_eq(ring_reserve(1, 1, 2, &e), 0);
}
END_TEST

START_TEST(what_is_blocked_keeps_no_other_shard_back)
{
	struct fkv_ring_entry *r, *e;

	ring_of(1, 2, 8);
	ring_committed(0, 1, 8);
	ring_committed(1, 1, 8);
	ck_assert_int_eq(ring_read_pin(0, 1, &r), 0);
	e = ring_writing(2, 1, 2);
	ck_assert_uint_eq(e->shard, 1);
	fkv_ring_abort(ring, e);
	ck_assert_uint_eq(ring_committed(3, 1, 2)->shard, 1);
	ck_assert_int_eq(fkv_ring_read_unpin(ring, r), 0);
	ck_assert_uint_eq(ring_committed(4, 1, 2)->shard, 0);
}
END_TEST

START_TEST(blocked_device_passes_the_value_to_the_next)
{
	struct fkv_ring_entry *r;

	ring_of(2, 1, 8);
	ring_committed(0, 1, 8);
	ring_committed(1, 1, 8);
	ck_assert_int_eq(ring_read_pin(0, 1, &r), 0);
	ck_assert_uint_eq(ring_committed(2, 1, 2)->shard, 1);
	ck_assert_int_eq(fkv_ring_read_unpin(ring, r), 0);
}
END_TEST

/* S5 */
START_TEST(entry_the_tail_waits_for_gets_no_new_read_pins)
{
	struct fkv_ring_entry *r, *e, *again;

	ring_of(1, 1, 8);
	ring_committed(0, 1, 4);
	ring_committed(1, 1, 4);
	ck_assert_int_eq(ring_read_pin(0, 1, &r), 0);
	ck_assert_int_eq(ring_reserve(2, 1, 2, &e), -EBUSY);
	ck_assert_int_eq(ring_read_pin(0, 1, &again), -ESTALE);
	ck_assert(ring_readable(1, 1));
	ck_assert_int_eq(fkv_ring_read_unpin(ring, r), 0);
	ring_committed(2, 1, 2);
	ck_assert_int_eq(ring_read_pin(0, 1, &again), -ENOENT);
}
END_TEST

/* S6 */
START_TEST(only_committed_entries_of_the_same_version_are_read)
{
	struct fkv_ring_entry *w, *e;

	ring_of(1, 1, 8);
	w = ring_writing(0, 7, 2);
	ck_assert_int_eq(ring_read_pin(0, 7, &e), -ENOENT);
	fkv_ring_commit(ring, w, 99);
	ck_assert_int_eq(ring_read_pin(0, 6, &e), -ENOENT);
	ck_assert_int_eq(ring_read_pin(1, 7, &e), -ENOENT);
	ck_assert_int_eq(ring_read_pin(0, 7, &e), 0);
	ck_assert_uint_eq(e->sum, 99);
	ck_assert_int_eq(fkv_ring_read_unpin(ring, e), 0);
	fkv_ring_commit_unpin(ring, w);
}
END_TEST

/* S6 */
START_TEST(aborted_entry_is_never_read_and_returns_its_accounting)
{
	ring_of(1, 1, 8);
	fkv_ring_abort(ring, ring_writing(0, 1, 4));
	fkv_ring_check(ring);
	ck_assert(!ring_readable(0, 1));
	ck_assert_uint_eq(ring_stats().used, 0);
	ring_committed(0, 1, 2);
	ck_assert(ring_readable(0, 1));
}
END_TEST

/* S6 */
START_TEST(newer_version_is_kept_when_an_older_write_ends_later)
{
	struct fkv_ring_entry *old, *new;

	ring_of(1, 1, 8);
	old = ring_writing(0, 1, 2);
	new = ring_writing(0, 2, 2);
	fkv_ring_commit(ring, new, 0);
	fkv_ring_commit(ring, old, 0);
	fkv_ring_check(ring);
	ck_assert(ring_readable(0, 2) && !ring_readable(0, 1));
	fkv_ring_commit_unpin(ring, old);
	fkv_ring_commit_unpin(ring, new);
	ck_assert_uint_eq(ring_stats().entries, 1);
}
END_TEST

START_TEST(newer_commit_makes_the_older_version_dead)
{
	ring_of(1, 1, 8);
	ring_committed(0, 1, 2);
	ring_committed(0, 2, 2);
	ck_assert(ring_readable(0, 2) && !ring_readable(0, 1));
	ck_assert_uint_eq(ring_stats().entries, 1);
}
END_TEST

/* S6 */
START_TEST(same_version_twice_is_one_entry)
{
	struct fkv_ring_entry *w, *e;

	ring_of(1, 1, 8);
	w = ring_writing(0, 1, 2);
	ck_assert_int_eq(ring_reserve(0, 1, 2, &e), -EINPROGRESS);
	fkv_ring_commit(ring, w, 0);
	fkv_ring_commit_unpin(ring, w);
	ck_assert_int_eq(ring_reserve(0, 1, 2, &e), -EALREADY);
	ck_assert_ptr_eq(e, w);
	fkv_ring_commit_pin(e);
	ck_assert_int_eq(ring_reserve(1, 1, 8, &e), -EBUSY);
	fkv_ring_commit_unpin(ring, w);
	ck_assert_int_eq(ring_reserve(1, 1, 8, &e), 0);
}
END_TEST

/* K6d */
START_TEST(retire_ends_older_versions_only)
{
	ring_of(1, 1, 8);
	ring_committed(0, 5, 2);
	ring_committed(1, 5, 2);
	fkv_ring_retire(ring, ring_key[0], 4);
	ck_assert(ring_readable(0, 5));
	fkv_ring_retire(ring, ring_key[0], 5);
	fkv_ring_check(ring);
	ck_assert(!ring_readable(0, 5));
	ck_assert(ring_readable(1, 5));
	fkv_ring_retire(ring, ring_key[0], 5);
}
END_TEST

/* S5 */
START_TEST(dead_entry_with_a_commit_pin_does_not_block)
{
	struct fkv_ring_entry *c;

	ring_of(1, 1, 8);
	c = ring_writing(0, 1, 8);
	fkv_ring_commit(ring, c, 0);
	fkv_ring_retire(ring, ring_key[0], 1);
	ring_committed(1, 1, 8);
	ck_assert_uint_eq(c->put_id, 1);
	fkv_ring_commit_unpin(ring, c);
}
END_TEST

START_TEST(write_of_a_retired_version_still_blocks)
{
	struct fkv_ring_entry *w, *e;

	ring_of(1, 1, 8);
	w = ring_writing(0, 1, 8);
	fkv_ring_retire(ring, ring_key[0], 1);
	ck_assert_int_eq(ring_reserve(1, 1, 2, &e), -EBUSY);
	fkv_ring_abort(ring, w);
	ck_assert_int_eq(ring_reserve(1, 1, 2, &e), 0);
}
END_TEST

/* S6, S7 */
START_TEST(dropped_entry_leaves_the_index_at_once)
{
	struct fkv_ring_entry *r;

	ring_of(1, 1, 8);
	ring_committed(0, 1, 2);
	ck_assert_int_eq(ring_read_pin(0, 1, &r), 0);
	fkv_ring_drop(ring, r);
	fkv_ring_check(ring);
	ck_assert(!ring_readable(0, 1));
	fkv_ring_drop(ring, r);
	fkv_ring_read_unpin(ring, r);
	ring_committed(0, 1, 2);
	ck_assert(ring_readable(0, 1));
}
END_TEST

/* S6 */
START_TEST(read_whose_bytes_were_taken_is_told)
{
	struct fkv_ring_entry *r;

	ring_of(2, 1, 8);
	ring_committed(0, 1, 2);
	ck_assert_int_eq(ring_read_pin(0, 1, &r), 0);
	fkv_ring_device_off(ring, r->shard);
	ck_assert_int_eq(fkv_ring_read_unpin(ring, r), -ENOENT);
}
END_TEST

/* K1: keys are compared byte for byte, whatever their hashes say */
START_TEST(keys_of_one_hash_are_told_apart)
{
	struct fkv_ring_entry *e;

	ring_of(1, 1, 16);
	ring_key[1]->hash.low = ring_key[0]->hash.low;
	ring_committed(0, 1, 2);
	ring_committed(1, 1, 2);
	ck_assert(ring_readable(0, 1) && ring_readable(1, 1));
	ck_assert_int_eq(ring_read_pin(1, 1, &e), 0);
	ck_assert_ptr_eq(e->key, ring_key[1]);
	ck_assert_int_eq(fkv_ring_read_unpin(ring, e), 0);
	ring_committed(1, 2, 2);
	ck_assert(ring_readable(0, 1) && !ring_readable(1, 1));
	fkv_ring_retire(ring, ring_key[1], 9);
	ck_assert(ring_readable(0, 1) && !ring_readable(1, 2));
}
END_TEST

int main(void)
{
	Suite *s = suite_create("ring");
	TCase *tc = tcase_create("ring");
	SRunner *sr;
	int failed;

	tcase_add_checked_fixture(tc, ring_setup, ring_teardown);
	tcase_set_timeout(tc, 60);
	tcase_add_test(tc, entry_is_a_header_and_payload_in_units);
	tcase_add_test(tc, larger_device_unit_pads_header_and_payload);
	tcase_add_test(tc, oldest_entries_are_evicted_first);
	tcase_add_test(tc,
	       value_that_does_not_fit_before_the_end_starts_the_next_lap);
	tcase_add_test(tc, value_that_ends_at_the_end_skips_nothing);
	tcase_add_test(tc, value_as_large_as_the_ring_is_taken_and_takes_all);
	tcase_add_test(tc,
		       value_larger_than_a_shard_is_refused_without_effect);
	tcase_add_test(tc, devices_and_their_shards_take_turns);
	tcase_add_test(tc, write_in_flight_blocks_its_shard);
	tcase_add_test(tc, read_pin_blocks_its_shard);
	tcase_add_test(tc, commit_pin_blocks_until_the_master_answered);
	tcase_add_test(tc, what_is_blocked_keeps_no_other_shard_back);
	tcase_add_test(tc, blocked_device_passes_the_value_to_the_next);
	tcase_add_test(tc, entry_the_tail_waits_for_gets_no_new_read_pins);
	tcase_add_test(tc, only_committed_entries_of_the_same_version_are_read);
	tcase_add_test(tc,
		       aborted_entry_is_never_read_and_returns_its_accounting);
	tcase_add_test(tc,
		       newer_version_is_kept_when_an_older_write_ends_later);
	tcase_add_test(tc, newer_commit_makes_the_older_version_dead);
	tcase_add_test(tc, same_version_twice_is_one_entry);
	tcase_add_test(tc, retire_ends_older_versions_only);
	tcase_add_test(tc, dead_entry_with_a_commit_pin_does_not_block);
	tcase_add_test(tc, write_of_a_retired_version_still_blocks);
	tcase_add_test(tc, dropped_entry_leaves_the_index_at_once);
	tcase_add_test(tc, read_whose_bytes_were_taken_is_told);
	tcase_add_test(tc, keys_of_one_hash_are_told_apart);
	suite_add_tcase(s, tc);
	sr = srunner_create(s);
	srunner_run_all(sr, CK_NORMAL);
	failed = srunner_ntests_failed(sr);
	srunner_free(sr);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
