// SPDX-License-Identifier: Apache-2.0
/*
 * test_kmod_hits.c - kmod/hit.c: keys become holders, in one pass
 */
#include <check.h>

#include "gets.h"

/* ---- batches ---- */

static const u32 sizes[] = { 1, 31, 32, 33, 64, 65, 127, 128, 129, 1023, 1024 };

/* U4 */
START_TEST(each_key_has_its_result)
{
	u32 nr = sizes[_i], hits = 0, misses = 0;
	u64 pages = 0;
	struct fkv_work w;

	rq_begin(sizeof(struct fluxonkv_item));
	for (u32 i = 0; i < nr; i++) {
		if (i % 5 == 3)
			rq_add_wrong(NO_KEY + i / 5 % 3);
		else
			rq_add_key(i % 20);
	}
	ck_assert_int_eq(rq_hits(0, &w), 0);
	for (u32 i = 0; i < nr; i++) {
		if (i % 5 == 3) {
			expect_status(i, rq_wrong_status(NO_KEY + i / 5 % 3));
		} else if (i % 20 < RQ_KEYS) {
			expect_hit(i, i % 20);
			hits++;
			pages += i % 20 % 4;
		} else {
			expect_status(i, FKV_ASK);
			misses++;
		}
	}
	ck_assert_uint_eq(w.hits, hits);
	ck_assert_uint_eq(w.hit_bytes, pages * PAGE_SIZE);
	ck_assert_uint_eq(w.nr_ask, misses);
	ck_assert_uint_eq(nr_holders(0), hits);
	ck_assert_uint_eq(pinned_pages(0), pages);
	ck_assert_int_eq(atomic64_read(&world.uid.pinned),
			 (long)(pages * PAGE_SIZE));
	release_all(0, nr);
}
END_TEST

/* U6: who knows a larger item gets the same. */
START_TEST(larger_items_hit_as_well)
{
	struct fkv_work w;

	rq_begin(sizeof(struct fluxonkv_item) + 8);
	for (u32 i = 0; i < 70; i++)
		rq_add_key(i % 20);
	ck_assert_int_eq(rq_hits(0, &w), 0);
	for (u32 i = 0; i < 70; i++) {
		if (i % 20 < RQ_KEYS)
			expect_hit(i, i % 20);
		else
			expect_status(i, FKV_ASK);
	}
	release_all(0, 70);
}
END_TEST

/* H1 */
START_TEST(bytes_are_held_once_by_whoever_is_first)
{
	struct fluxonkv_result first[RQ_KEYS];
	struct fkv_work w;

	rq_begin(sizeof(struct fluxonkv_item));
	for (u32 i = 0; i < RQ_KEYS; i++)
		rq_add_key(i);
	ck_assert_int_eq(rq_hits(0, &w), 0);
	memcpy(first, rq_res, sizeof(first));
	ck_assert_uint_eq(held_pages(), 24);
	ck_assert_int_eq(rq_hits(1, &w), 0);
	ck_assert_uint_eq(held_pages(), 24);
	ck_assert_int_eq(fake_evict(&world, "k01", 2), -EBUSY);
	ck_assert_int_eq(fake_retire(&world, "k01", 2), FLUXONKV_HELD);
	ck_assert_uint_eq(held_pages(), 23);
	for (u32 i = 0; i < RQ_KEYS; i++)
		fkv_holder_del(&world.sessions[0], &first[i].id, 1);
	ck_assert_uint_eq(held_pages(), 23);
	ck_assert(fake_live(&world, 4));
	release_all(1, RQ_KEYS);
	ck_assert(!fake_live(&world, 4));
}
END_TEST

/* M4 */
START_TEST(hits_are_counted_for_the_policy)
{
	struct fluxonkv_hit told[RQ_KEYS];
	struct fkv_work w;

	rq_begin(sizeof(struct fluxonkv_item));
	for (u32 i = 0; i < 100; i++)
		rq_add_key(i % 3 ? 1 : 2);
	ck_assert_int_eq(rq_hits(0, &w), 0);
	ck_assert_uint_eq(fkv_index_hits(&world.inst, told, RQ_KEYS), 2);
	for (u32 i = 0; i < 2; i++)
		ck_assert_uint_eq(told[i].hits, told[i].cookie == 2 ? 66 : 34);
	release_all(0, 100);
}
END_TEST

/* U7 */
START_TEST(holders_are_traced_while_somebody_traces)
{
	unsigned long before = shim_holds_traced;
	struct fkv_work w;

	rq_begin(sizeof(struct fluxonkv_item));
	for (u32 i = 0; i < 40; i++)
		rq_add_key(i);
	ck_assert_int_eq(rq_hits(0, &w), 0);
	ck_assert_uint_eq(shim_holds_traced, before);
	release_all(0, 40);
	shim_tracing = true;
	/* of 24 pages the last one is refused */
	world.inst.client_cap = 23 * PAGE_SIZE;
	ck_assert_int_eq(rq_hits(0, &w), 0);
	ck_assert_uint_eq(shim_holds_traced - before, RQ_KEYS - 1);
	release_all(0, 40);
}
END_TEST

/* ---- caps ---- */

/* What one by one, in order, would have given. */
static u32 expect_caps(u32 nr, u64 room)
{
	u32 refused = 0;

	for (u32 i = 0; i < nr; i++) {
		u32 key = i % RQ_KEYS;

		if (key % 4 <= room) {
			expect_hit(i, key);
			room -= key % 4;
		} else {
			expect_status(i, -EDQUOT);
			refused++;
		}
	}
	return refused;
}

/* H4 */
START_TEST(as_many_as_fit_a_cap_are_held)
{
	bool uid = _i % 2;
	u32 cap = (u32)_i / 2, refused;
	struct fkv_work w;

	if (uid)
		world.inst.uid_cap = (cap + 3) * PAGE_SIZE;
	else
		world.inst.client_cap = (cap + 3) * PAGE_SIZE;
	/* of another session of the user, or of this one */
	ck_assert(fkv_charge(&world.sessions[uid], 3 * PAGE_SIZE));
	rq_begin(sizeof(struct fluxonkv_item));
	for (u32 i = 0; i < 100; i++)
		rq_add_key(i % RQ_KEYS);
	ck_assert_int_eq(rq_hits(0, &w), 0);
	refused = expect_caps(100, cap);
	ck_assert_int_eq(atomic64_read(&world.inst.quota), refused);
	ck_assert_uint_eq(w.hits, 100 - refused);
	ck_assert_uint_eq(w.nr_ask, 0);
	ck_assert_uint_eq(nr_holders(0), 100 - refused);
	ck_assert_uint_eq(w.hit_bytes / PAGE_SIZE, pinned_pages(0) -
			  (uid ? 0 : 3));
	ck_assert_uint_le(w.hit_bytes / PAGE_SIZE, cap);
	fkv_uncharge(&world.sessions[uid], 3 * PAGE_SIZE);
	release_all(0, 100);
}
END_TEST

/* H4: what is refused is not kept from being evicted. */
START_TEST(refused_version_has_no_reader)
{
	struct fkv_work w;

	world.inst.client_cap = 2 * PAGE_SIZE;
	rq_begin(sizeof(struct fluxonkv_item));
	rq_add_key(3);
	rq_add_key(1);
	rq_add_key(2);
	rq_add_key(5);
	ck_assert_int_eq(rq_hits(0, &w), 0);
	expect_status(0, -EDQUOT);
	expect_hit(1, 1);
	expect_status(2, -EDQUOT);
	expect_hit(3, 5);
	ck_assert_uint_eq(held_pages(), 2);
	ck_assert_int_eq(fake_evict(&world, "k03", 4), FLUXONKV_QUIET);
	ck_assert_int_eq(fake_evict(&world, "k02", 3), FLUXONKV_QUIET);
	ck_assert_int_eq(fake_evict(&world, "k01", 2), -EBUSY);
	release_all(0, 4);
}
END_TEST

/* ---- the lease ---- */

static u64 boot_ns;
static u32 clock_reads;

static int refs_of(const char *key)
{
	struct fkv_entry *e = fake_get(&world, key);
	int refs = atomic_read(&e->refs) - FKV_INDEX_REF - 1;

	fkv_entry_put(e);
	return refs;
}

static u64 boottime(void)
{
	clock_reads++;
	return boot_ns;
}

static u64 boottime_of_the_pinned(void)
{
	char word[4] = "k01";
	u64 key = 0;
	struct fkv_probe p = { .key = &key, .len = 3 };
	struct fkv_entry *e;

	memcpy(&key, word, 3);
	p.hash = fkv_hash(&world.inst, &key, 3);
	e = rhashtable_lookup(&world.inst.index, &p, fkv_index_params);
	ck_assert_int_eq(atomic_read(&e->refs), FKV_INDEX_REF + 1);
	return boottime();
}

/* K6: strict_reads */
START_TEST(nothing_is_a_hit_when_the_lease_is_over)
{
	struct fkv_work w;

	world.inst.strict = true;
	world.inst.lease_until_ns = 500;
	boot_ns = 501;
	shim_boottime = boottime;
	rq_begin(sizeof(struct fluxonkv_item));
	for (u32 i = 0; i < 100; i++)
		rq_add_key(i % RQ_KEYS);
	ck_assert_int_eq(rq_hits(0, &w), 0);
	for (u32 i = 0; i < 100; i++)
		expect_status(i, FKV_ASK);
	ck_assert(w.nr_ask == 100 && !w.hits && !w.hit_bytes);
	ck_assert_uint_eq(nr_holders(0), 0);
	ck_assert_uint_eq(held_pages(), 0);
	ck_assert_int_eq(refs_of("k01"), 0);
	ck_assert_int_eq(fake_evict(&world, "k03", 4), FLUXONKV_QUIET);
	boot_ns = 500;
	ck_assert_int_eq(rq_hits(0, &w), 0);
	expect_hit(0, 0);
	expect_status(3, FKV_ASK);
	release_all(0, 100);
}
END_TEST

/* K6: else a frozen owner's lease ends between the two. */
START_TEST(clock_is_read_after_the_pin)
{
	struct fkv_work w;

	world.inst.strict = true;
	world.inst.lease_until_ns = 500;
	boot_ns = 1;
	clock_reads = 0;
	shim_boottime = boottime_of_the_pinned;
	rq_begin(sizeof(struct fluxonkv_item));
	rq_add_key(1);
	rq_add_key(99);
	ck_assert_int_eq(rq_hits(0, &w), 0);
	expect_hit(0, 1);
	expect_status(1, FKV_ASK);
	ck_assert_uint_eq(clock_reads, 1);
	release_all(0, 2);
}
END_TEST

/* ---- memory ---- */
/* U4: ENOMEM is of those that have no slot. */
START_TEST(keys_without_a_slot_have_no_memory)
{
	struct fkv_work w;

	rq_begin(sizeof(struct fluxonkv_item));
	for (u32 i = 0; i < 300; i++) {
		if (i % 50 == 49)
			rq_add_wrong(NO_KEY);
		else
			rq_add_key(i % 20);
	}
	/* the first block is there */
	ck_assert_uint_eq(fkv_holders_grow(&world.sessions[0].holders), 0);
	rq_asked_memory = 0;
	shim_alloc_fail = rq_no_memory;
	ck_assert_int_eq(rq_hits(0, &w), 0);
	shim_alloc_fail = NULL;
	/* to ask again for each of them takes long */
	ck_assert_uint_eq(rq_asked_memory, 1);
	for (u32 i = 0, slots = 0; i < 300; i++) {
		if (i % 50 == 49)
			expect_status(i, -EINVAL);
		else if (slots == RQ_SLOTS)
			expect_status(i, -ENOMEM);
		else if (i % 20 >= RQ_KEYS)
			expect_status(i, FKV_ASK);
		else if (++slots)
			expect_hit(i, i % 20);
	}
	ck_assert_uint_eq(nr_holders(0), RQ_SLOTS);
	ck_assert_uint_eq(w.hits, RQ_SLOTS);
	release_all(0, 300);
	ck_assert_int_eq(rq_hits(0, &w), 0);
	expect_hit(295, 15);
	release_all(0, 300);
}
END_TEST

/* Each allocation of a call fails once. */
START_TEST(failing_allocation_leaves_what_came_before)
{
	struct fkv_work w;

	rq_begin(sizeof(struct fluxonkv_item));
	for (u32 i = 0; i < 1024; i++)
		rq_add_key(i % RQ_KEYS);
	/* two for each block of slots; the array grows after eight */
	for (u32 n = 1;; n++) {
		u32 made = (n - 1) / 2 * RQ_SLOTS;

		fake_down(&world);
		rq_up();
		fake_fail_nth(n);
		ck_assert_int_eq(rq_hits(0, &w), 0);
		if (!fake_failed()) {
			ck_assert_uint_eq(n, 17);
			break;
		}
		for (u32 i = 0; i < 1024; i++) {
			if (i < made)
				expect_hit(i, i % RQ_KEYS);
			else
				expect_status(i, -ENOMEM);
		}
		release_all(0, 1024);
	}
	release_all(0, 1024);
}
END_TEST

/* ---- requests that are bad in the middle ---- */

static const u32 places[] = { 0, 1, 31, 32, 33, 63, 64, 65, 127, 128, 129 };

/* U6: nothing of it remains, and nothing is told of what was not looked at. */
START_TEST(bad_request_holds_nothing)
{
	u32 at = places[_i];
	struct fkv_work w;

	rq_begin(sizeof(struct fluxonkv_item));
	for (u32 i = 0; i < at; i++)
		rq_add_key(i % RQ_KEYS);
	rq_add_wrong(BAD_PADDING);
	for (u32 i = 0; i < 40; i++)
		rq_add_key(i % RQ_KEYS);
	ck_assert_int_eq(rq_hits(0, &w), -EINVAL);
	for (u32 i = 0; i < at; i++)
		expect_hit(i, i % RQ_KEYS);
	for (u32 i = at; i < rq.nr; i++)
		expect_status(i, 0);
	ck_assert_uint_eq(nr_holders(0), at);
	fkv_work_uninstall(&w);
	ck_assert_uint_eq(nr_holders(0), 0);
	ck_assert_uint_eq(pinned_pages(0), 0);
	ck_assert_uint_eq(held_pages(), 0);
	ck_assert_int_eq(fkv_call_get(&w), -EINVAL);
	ck_assert_uint_eq(nr_holders(0), 0);
	ck_assert_int_eq(atomic64_read(&world.inst.nr_hits), 0);
}
END_TEST

/* U6 */
START_TEST(request_that_ends_early_or_late_holds_nothing)
{
	struct fkv_work w;

	rq_begin(sizeof(struct fluxonkv_item));
	for (u32 i = 0; i < 40; i++)
		rq_add_key(i % RQ_KEYS);
	rq.size -= 8;
	ck_assert_int_eq(rq_hits(0, &w), -EMSGSIZE);
	expect_status(39, 0);
	ck_assert_uint_eq(nr_holders(0), 39);
	fkv_work_uninstall(&w);
	rq.size += 8;
	rq.nr--;
	ck_assert_int_eq(rq_hits(0, &w), -EMSGSIZE);
	ck_assert_uint_eq(nr_holders(0), 39);
	fkv_work_uninstall(&w);
	ck_assert_uint_eq(nr_holders(0), 0);
	ck_assert_uint_eq(held_pages(), 0);
}
END_TEST

/* U6: also where there is no slot for it. */
START_TEST(bad_item_without_a_slot_fails_the_request)
{
	struct fkv_work w;

	rq_begin(sizeof(struct fluxonkv_item));
	for (u32 i = 0; i < RQ_SLOTS; i++)
		rq_add_key(i % RQ_KEYS);
	rq_add_wrong(BAD_PADDING);
	rq_add_key(1);
	ck_assert_uint_eq(fkv_holders_grow(&world.sessions[0].holders), 0);
	shim_alloc_fail = rq_no_memory;
	ck_assert_int_eq(rq_hits(0, &w), -EINVAL);
	expect_status(RQ_SLOTS, 0);
	expect_status(RQ_SLOTS + 1, 0);
	fkv_work_uninstall(&w);
	ck_assert_uint_eq(nr_holders(0), 0);
}
END_TEST

static TCase *add_case(Suite *s, const char *of, SFun up)
{
	TCase *tc = tcase_create(of);

	tcase_add_checked_fixture(tc, up, rq_down);
	tcase_set_timeout(tc, 120);
	suite_add_tcase(s, tc);
	return tc;
}

int main(void)
{
	Suite *s = suite_create("kmod_hits");
	TCase *tc = add_case(s, "hits", rq_up);
	SRunner *sr;
	int failed;

	tcase_add_loop_test(tc, each_key_has_its_result, 0, 11);
	tcase_add_test(tc, larger_items_hit_as_well);
	tcase_add_test(tc, bytes_are_held_once_by_whoever_is_first);
	tcase_add_test(tc, hits_are_counted_for_the_policy);
	tcase_add_test(tc, holders_are_traced_while_somebody_traces);
	tcase_add_loop_test(tc, as_many_as_fit_a_cap_are_held, 0, 320);
	tcase_add_test(tc, refused_version_has_no_reader);
	tcase_add_test(tc, nothing_is_a_hit_when_the_lease_is_over);
	tcase_add_test(tc, clock_is_read_after_the_pin);
	tcase_add_test(tc, keys_without_a_slot_have_no_memory);
	tcase_add_test(tc, failing_allocation_leaves_what_came_before);
	tcase_add_loop_test(tc, bad_request_holds_nothing, 0, 11);
	tcase_add_test(tc, request_that_ends_early_or_late_holds_nothing);
	tcase_add_test(tc, bad_item_without_a_slot_fails_the_request);
	sr = srunner_create(s);
	srunner_run_all(sr, CK_NORMAL);
	failed = srunner_ntests_failed(sr);
	srunner_free(sr);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
