// SPDX-License-Identifier: Apache-2.0
#include <check.h>

#include "fake.h"
#include "index.h"

static struct fake f;

static void setup(void)
{
	ck_assert_int_eq(fake_up(&f), 0);
}

static void teardown(void)
{
	shim_alloc_fail = NULL;
	fake_down(&f);
}

static long held_pages(void)
{
	return atomic64_read(&f.inst.held_bytes) / (long)PAGE_SIZE;
}

static void expect_quiet(u64 cookie)
{
	struct fluxonkv_message m;

	ck_assert(fake_take(&f, &m));
	ck_assert_uint_eq(m.type, FLUXONKV_MESSAGE_QUIET);
	ck_assert_uint_eq(m.cookie, cookie);
}

static void expect_nothing(void)
{
	struct fluxonkv_message m;

	ck_assert(!fake_take(&f, &m));
}

/* ---- publish ---- */

/* K6 */
START_TEST(published_version_is_found_with_what_was_said)
{
	struct fkv_entry *e;

	ck_assert_ptr_null(fake_get(&f, "k"));
	ck_assert_int_eq(fake_publish(&f, "k", 7, 3, 2), 0);
	e = fake_get(&f, "k");
	ck_assert(e->put_id == 7 && e->offset == 3 * PAGE_SIZE &&
		  e->len == 2 * PAGE_SIZE && e->cookie == 7);
	ck_assert(e->key_len == 1 && e->key[0] == 'k');
	ck_assert_int_eq(atomic64_read(&f.inst.entries), 1);
	ck_assert(fake_live(&f, 3) && fake_live(&f, 4) && !fake_live(&f, 5));
	fkv_entry_put(e);
}
END_TEST

/* K1. With numbers that are all 0, a word hashes to its halves' product. */
START_TEST(keys_of_one_hash_are_told_apart)
{
	static const char *const keys[] = {
		"a", "b", "ab", "aa", "abc", "12345678", "12345678a",
		"12345678b", "12345678abcd",
	};
	struct fkv_entry *e;

	memset(f.inst.hash_key, 0, sizeof(f.inst.hash_key));
	for (u32 i = 0; i < 9; i++)
		ck_assert_int_eq(fake_publish(&f, keys[i], i + 1, i, 1), 0);
	for (u32 i = 0; i < 9; i++) {
		e = fake_get(&f, keys[i]);
		ck_assert_uint_eq(e->put_id, i + 1);
		ck_assert_uint_eq(e->hash, fkv_hash(&f.inst, e->key, i < 5 ?
						    1 : 8));
		fkv_entry_put(e);
	}
	ck_assert_ptr_null(fake_get(&f, "c"));
	ck_assert_ptr_null(fake_get(&f, "12345678c"));
	ck_assert_int_eq(fake_retire(&f, "ab", 3), FLUXONKV_QUIET);
	ck_assert_ptr_null(fake_get(&f, "ab"));
}
END_TEST

#define BUCKETS		4096u

static u32 longest_bucket(const struct fkv_instance *inst, u32 shift)
{
	static u16 chains[BUCKETS];
	u32 longest = 0;

	memset(chains, 0, sizeof(chains));
	for (u32 i = 0; i < BUCKETS / 4 * 3; i++) {
		u64 key = (u64)i << shift;
		u32 at = fkv_hash(inst, &key, 8) % BUCKETS;

		longest = max(longest, ++chains[at]);
	}
	return longest;
}

/*
 * The table takes a bucket of more than 16 for an attack and builds another
 * table, in vain. Of 2,000 secrets ten would have that with keys that count.
 */
START_TEST(keys_that_count_spread_over_the_table)
{
	u64 state = 5;

	for (u32 i = 0; i < 2000; i++) {
		for (u32 k = 0; k < 4; k++)
			f.inst.hash_key[k] = fake_random(&state);
		ck_assert_uint_le(longest_bucket(&f.inst, i % 2 * 32), 16);
	}
}
END_TEST

/* K6 */
START_TEST(second_version_of_a_key_is_refused)
{
	struct fkv_entry *e;

	ck_assert_int_eq(fake_publish(&f, "k", 1, 0, 1), 0);
	ck_assert_int_eq(fake_publish(&f, "k", 2, 1, 1), -EEXIST);
	ck_assert(!fake_live(&f, 1));
	ck_assert_int_eq(atomic64_read(&f.inst.overlaps), 0);
	ck_assert_int_eq(atomic64_read(&f.inst.entries), 1);
	e = fake_get(&f, "k");
	ck_assert_uint_eq(e->put_id, 1);
	fkv_entry_put(e);
}
END_TEST

/* U6 */
START_TEST(version_over_a_live_extent_is_refused)
{
	ck_assert_int_eq(fake_publish(&f, "a", 1, 2, 2), 0);
	ck_assert_int_eq(fake_publish(&f, "b", 2, 3, 1), -EBUSY);
	ck_assert_int_eq(atomic64_read(&f.inst.overlaps), 1);
	ck_assert_ptr_null(fake_get(&f, "b"));
	ck_assert_int_eq(fake_publish(&f, "b", 2, 4, 1), 0);
}
END_TEST

/* U6 */
START_TEST(extent_outside_the_segment_is_invalid)
{
	struct fluxonkv_result res = { .version = 1, .len = 1 };
	struct fluxonkv_entry arg = { .key_len = 1, .put_id = 1 };
	u64 key = 'k';
	int err;

	ck_assert_int_eq(fake_publish(&f, "k", 1, FAKE_PAGES, 1), -EINVAL);
	ck_assert_int_eq(fake_publish(&f, "k", 1, FAKE_PAGES - 1, 2), -EINVAL);
	arg.offset = 1;
	arg.len = 1;
	ck_assert_int_eq(fkv_index_publish(&f.inst, &arg, &key), -EINVAL);
	res.offset = 1;
	ck_assert_ptr_null(fkv_entry_given(&f.inst, &res, &err));
	ck_assert_int_eq(err, -EINVAL);
	ck_assert_ptr_null(fake_given(&f, 1, FAKE_PAGES, 1, &err));
	ck_assert_int_eq(err, -EINVAL);
}
END_TEST

/* K1 */
START_TEST(empty_values_have_no_extent)
{
	struct fkv_entry *a, *b;
	int err;

	ck_assert_int_eq(fake_publish(&f, "a", 1, 0, 0), 0);
	ck_assert_int_eq(fake_publish(&f, "b", 2, 0, 0), 0);
	a = fake_get(&f, "a");
	b = fake_given(&f, 3, 0, 0, &err);
	ck_assert(a && b && a != b);
	ck_assert_ptr_null(f.inst.seg.extents.rb_node);
	fkv_entry_put(a);
	fkv_entry_put(b);
	ck_assert_int_eq(fake_retire(&f, "a", 1), FLUXONKV_QUIET);
}
END_TEST

/* U6: else readers would look like the index's reference */
START_TEST(readers_have_a_limit)
{
	const int limit = FKV_INDEX_REF / 2;
	struct fkv_entry *e;
	int err;

	ck_assert_int_eq(fake_publish(&f, "k", 1, 0, 1), 0);
	e = fake_get(&f, "k");
	for (int base = 0;; base = FKV_INDEX_REF) {
		atomic_set(&e->refs, base + limit - 1);
		ck_assert_ptr_eq(fake_get(&f, "k"), e);
		ck_assert_ptr_null(fake_get(&f, "k"));
		ck_assert_ptr_null(fake_given(&f, 1, 0, 1, &err));
		ck_assert_int_eq(atomic_read(&e->refs), base + limit);
		if (base)
			break;
	}
	atomic_set(&e->refs, FKV_INDEX_REF + 1);
	fkv_entry_put(e);
}
END_TEST

/* ---- the end of a version ---- */

/* H1, K6 */
START_TEST(retired_version_is_quiet_when_its_last_reader_left)
{
	struct fkv_entry *a, *b;

	ck_assert_int_eq(fake_publish(&f, "k", 1, 0, 1), 0);
	a = fake_get(&f, "k");
	b = fake_get(&f, "k");
	ck_assert_int_eq(held_pages(), 1);
	ck_assert_int_eq(fake_retire(&f, "k", 1), FLUXONKV_HELD);
	ck_assert_int_eq(held_pages(), 0);
	ck_assert_int_eq(atomic64_read(&f.inst.retired), 1);
	ck_assert_ptr_null(fake_get(&f, "k"));
	fkv_entry_put(a);
	expect_nothing();
	ck_assert(fake_live(&f, 0));
	fkv_entry_put(b);
	ck_assert(!fake_live(&f, 0));
	ck_assert_int_eq(atomic64_read(&f.inst.retired), 0);
	expect_quiet(1);
	expect_nothing();
}
END_TEST

START_TEST(retired_version_without_readers_is_quiet_at_once)
{
	ck_assert_int_eq(fake_publish(&f, "k", 5, 0, 1), 0);
	ck_assert_int_eq(fake_retire(&f, "k", 4), -ENOENT);
	ck_assert_int_eq(fake_retire(&f, "j", 5), -ENOENT);
	ck_assert_int_eq(fake_retire(&f, "k", 9), FLUXONKV_QUIET);
	ck_assert_int_eq(fake_retire(&f, "k", 9), -ENOENT);
	ck_assert(!fake_live(&f, 0));
	expect_nothing();
}
END_TEST

/* H1 */
START_TEST(evict_takes_only_what_nobody_holds)
{
	struct fkv_entry *e;

	ck_assert_int_eq(fake_publish(&f, "k", 5, 0, 1), 0);
	e = fake_get(&f, "k");
	ck_assert_int_eq(fake_evict(&f, "k", 5), -EBUSY);
	fkv_entry_put(e);
	e = fake_get(&f, "k");
	ck_assert_ptr_nonnull(e);
	fkv_entry_put(e);
	ck_assert_int_eq(fake_evict(&f, "k", 4), -ENOENT);
	ck_assert_int_eq(fake_evict(&f, "k", 6), -ENOENT);
	ck_assert_int_eq(fake_evict(&f, "j", 5), -ENOENT);
	ck_assert_int_eq(fake_evict(&f, "k", 5), FLUXONKV_QUIET);
	/* who found it before gets no reference now; its memory is late */
	ck_assert_int_eq(atomic_read(&e->refs), 0);
	ck_assert_int_eq(fake_evict(&f, "k", 5), -ENOENT);
	ck_assert(!fake_live(&f, 0));
	expect_nothing();
}
END_TEST

/* U5 */
START_TEST(index_of_a_dead_owner_is_empty_but_for_what_is_held)
{
	struct fkv_entry *e;
	char key[8];

	for (u32 i = 0; i < FAKE_PAGES; i++) {
		snprintf(key, sizeof(key), "%u", i);
		ck_assert_int_eq(fake_publish(&f, key, i + 1, i, 1), 0);
	}
	e = fake_get(&f, "7");
	fkv_index_empty(&f.inst);
	ck_assert_int_eq(atomic64_read(&f.inst.entries), 0);
	ck_assert_int_eq(held_pages(), 0);
	for (u32 i = 0; i < FAKE_PAGES; i++)
		ck_assert_int_eq(fake_live(&f, i), i == 7);
	fkv_entry_put(e);
	ck_assert(!fake_live(&f, 7));
	expect_nothing();
}
END_TEST

/* ---- replies ---- */

/* U6 */
START_TEST(reply_gives_the_published_version)
{
	struct fkv_entry *e, *given;
	int err;

	ck_assert_int_eq(fake_publish(&f, "k", 5, 2, 2), 0);
	e = fake_get(&f, "k");
	given = fake_given(&f, 5, 2, 2, &err);
	ck_assert_ptr_eq(given, e);
	fkv_entry_put(e);
	ck_assert_int_eq(held_pages(), 2);
	ck_assert_int_eq(fake_retire(&f, "k", 5), FLUXONKV_HELD);
	/* and a retired one, while it is held */
	ck_assert_ptr_eq(fake_given(&f, 5, 2, 2, &err), e);
	fkv_entry_put(e);
	fkv_entry_put(e);
	expect_quiet(5);
}
END_TEST

/* U6 */
START_TEST(reply_over_another_extent_is_refused)
{
	static const u64 wrong[][3] = {
		{ 6, 2, 2 }, { 5, 2, 1 }, { 5, 3, 1 }, { 5, 1, 2 },
		{ 5, 0, 9 },
	};
	/* of a put, whatever lies around it */
	struct fkv_entry put = {
		.extent = { .first = 20, .last = 20 },
		.refs = { 1 },
		.offset = 20 * PAGE_SIZE,
		.len = PAGE_SIZE,
	};
	int err;

	ck_assert_int_eq(fake_publish(&f, "k", 5, 2, 2), 0);
	for (u32 i = 0; i < 5; i++) {
		ck_assert_ptr_null(fake_given(&f, wrong[i][0], wrong[i][1],
					      wrong[i][2], &err));
		ck_assert_int_eq(err, -EBUSY);
		ck_assert_int_eq(atomic64_read(&f.inst.overlaps), i + 1);
	}
	/* one of an open put has no version */
	ck_assert_int_eq(fkv_extent_add(&f.inst.seg.extents, &put.extent), 0);
	ck_assert_ptr_null(fake_given(&f, 0, 20, 1, &err));
	ck_assert_int_eq(err, -EBUSY);
	fkv_extent_del(&f.inst.seg.extents, &put.extent);
}
END_TEST

START_TEST(reply_for_what_is_not_published_ends_with_its_holders)
{
	struct fkv_entry *a, *b;
	int err;

	a = fake_given(&f, 5, 2, 2, &err);
	b = fake_given(&f, 5, 2, 2, &err);
	ck_assert_ptr_eq(a, b);
	ck_assert_int_eq(fake_publish(&f, "k", 6, 2, 1), -EBUSY);
	ck_assert_ptr_null(fake_get(&f, ""));
	fkv_entry_put(a);
	ck_assert(fake_live(&f, 2));
	fkv_entry_put(b);
	ck_assert(!fake_live(&f, 2));
	expect_nothing();
}
END_TEST

static struct fkv_entry *between;

/* In the middle of a publish, which then fails: a reply for its bytes. */
static bool given_between(void)
{
	int err;

	shim_alloc_fail = NULL;
	between = fake_given(&f, 2, 1, 1, &err);
	return true;
}

static u32 nth;

static bool given_before_hashing(void)
{
	return ++nth == 2 && given_between();
}

/* U6: two threads of a daemon that errs */
START_TEST(reply_meets_a_publish_that_fails)
{
	ck_assert_int_eq(fake_publish(&f, "k", 1, 0, 1), 0);
	nth = 0;
	between = NULL;
	shim_alloc_fail = given_before_hashing;
	ck_assert_int_eq(fake_publish(&f, "l", 2, 1, 1), -ENOMEM);
	ck_assert_ptr_nonnull(between);
	shim_rcu_flush();
	ck_assert_int_eq(atomic64_read(&f.inst.entries), 1);
	ck_assert_int_eq(held_pages(), 0);
	ck_assert(!test_bit(FKV_ENTRY_HASHED, &between->flags));
	ck_assert_uint_eq(between->put_id, 2);
	ck_assert(fake_live(&f, 1));
	fkv_entry_put(between);
	ck_assert(!fake_live(&f, 1));
	expect_nothing();
}
END_TEST

/* An entry that ended, and whose extent is still there. */
START_TEST(reply_takes_the_place_of_an_entry_at_its_end)
{
	struct fkv_entry *e, *given;
	int err;

	ck_assert_int_eq(fake_publish(&f, "k", 5, 2, 1), 0);
	e = fake_get(&f, "k");
	fkv_entry_put(e);
	/* as evict() leaves it before it gives the extent back */
	atomic_set(&e->refs, 0);
	ck_assert_ptr_null(fake_get(&f, "k"));
	given = fake_given(&f, 5, 2, 1, &err);
	ck_assert(given && given != e);
	ck_assert(!e->extent.added && given->extent.added);
	atomic_set(&e->refs, FKV_INDEX_REF);
	ck_assert_int_eq(fake_evict(&f, "k", 5), FLUXONKV_QUIET);
	ck_assert(fake_live(&f, 2));
	fkv_entry_put(given);
}
END_TEST

/* ---- hits ---- */

static void hit(const char *key, u32 n)
{
	while (n--) {
		struct fkv_entry *e = fake_get(&f, key);

		fkv_index_hit(e);
		fkv_entry_put(e);
	}
}

/* M4 */
START_TEST(hits_are_told_once)
{
	struct fluxonkv_hit got[4];

	ck_assert_int_eq(fake_publish(&f, "a", 1, 0, 1), 0);
	ck_assert_int_eq(fake_publish(&f, "b", 2, 1, 1), 0);
	ck_assert_uint_eq(fkv_index_hits(&f.inst, got, 4), 0);
	hit("a", 3);
	hit("b", 1);
	hit("a", 2);
	ck_assert_uint_eq(fkv_index_hits(&f.inst, got, 4), 2);
	ck_assert(got[0].cookie == 2 && got[0].hits == 1);
	ck_assert(got[1].cookie == 1 && got[1].hits == 5);
	ck_assert_uint_eq(fkv_index_hits(&f.inst, got, 4), 0);
	hit("a", 1);
	ck_assert_uint_eq(fkv_index_hits(&f.inst, got, 4), 1);
	ck_assert(got[0].cookie == 1 && got[0].hits == 1);
}
END_TEST

/* M4: both saw that it was not listed */
START_TEST(hits_of_two_at_once_list_it_once)
{
	struct fluxonkv_hit got[4];
	struct fkv_entry *e;

	ck_assert_int_eq(fake_publish(&f, "a", 1, 0, 1), 0);
	hit("a", 1);
	e = fake_get(&f, "a");
	fkv_index_list(e);
	ck_assert_int_eq(refcount_read(&e->uses), 2);
	fkv_entry_put(e);
	ck_assert_uint_eq(fkv_index_hits(&f.inst, got, 4), 1);
	ck_assert_uint_eq(fkv_index_hits(&f.inst, got, 4), 0);
}
END_TEST

/* M4 */
START_TEST(hits_that_do_not_fit_are_told_later)
{
	struct fluxonkv_hit got[2];
	bool seen[10] = { false };
	char key[2] = "0";

	for (u32 i = 0; i < 9; i++) {
		key[0] = (char)('0' + i);
		ck_assert_int_eq(fake_publish(&f, key, i, i, 1), 0);
		hit(key, i + 1);
	}
	ck_assert_uint_eq(fkv_index_hits(&f.inst, got, 0), 0);
	for (u32 i = 0; i < 5; i++) {
		u32 n = fkv_index_hits(&f.inst, got, 2);

		ck_assert_uint_eq(n, i < 4 ? 2 : 1);
		while (n--) {
			ck_assert(!seen[got[n].cookie]);
			seen[got[n].cookie] = true;
			ck_assert_uint_eq(got[n].hits, got[n].cookie + 1);
		}
	}
	hit("0", 1);
	hit("1", 1);
	ck_assert_uint_eq(fkv_index_hits(&f.inst, got, 1), 1);
	/* and fake_down() finds that the other one is dropped */
}
END_TEST

START_TEST(hits_of_what_is_gone_are_not_told)
{
	struct fluxonkv_hit got[2];

	ck_assert_int_eq(fake_publish(&f, "a", 1, 0, 1), 0);
	hit("a", 3);
	ck_assert_int_eq(fake_retire(&f, "a", 1), FLUXONKV_QUIET);
	/* its memory waits for who looks at the list */
	shim_rcu_flush();
	ck_assert_uint_eq(fkv_index_hits(&f.inst, got, 2), 0);
	shim_rcu_flush();
	ck_assert_int_eq(shim_live(), 0);
	ck_assert_int_eq(fake_publish(&f, "a", 2, 0, 1), 0);
	hit("a", 1);
	ck_assert_int_eq(fake_evict(&f, "a", 2), FLUXONKV_QUIET);
	/* and fake_down() finds that fkv_index_done() drops it */
}
END_TEST

/* ---- without memory ---- */

/* Each allocation of a life fails once; then the same succeeds. */
START_TEST(life_of_an_entry_without_memory)
{
	struct fkv_entry *e;
	u32 failed = 0;
	int err;

	for (u32 n = 1;; n++, failed++) {
		fake_fail_nth(n);
		err = fake_publish(&f, "k", 1, 0, 1);
		if (!fake_failed())
			break;
		ck_assert_int_eq(err, -ENOMEM);
		ck_assert_ptr_null(fake_get(&f, "k"));
		ck_assert(!fake_live(&f, 0));
		shim_rcu_flush();
		ck_assert_int_eq(shim_live(), 0);
	}
	ck_assert_int_eq(err, 0);
	ck_assert_uint_eq(failed, 2);
	fake_fail_nth(1);
	ck_assert_ptr_null(fake_given(&f, 2, 1, 1, &err));
	ck_assert(fake_failed());
	ck_assert_int_eq(err, -ENOMEM);
	ck_assert(!fake_live(&f, 1));
	e = fake_given(&f, 2, 1, 1, &err);
	ck_assert_ptr_nonnull(e);
	/* what ends needs none */
	fake_fail_nth(1);
	fkv_entry_put(e);
	ck_assert_int_eq(fake_retire(&f, "k", 1), FLUXONKV_QUIET);
	ck_assert(!fake_failed());
}
END_TEST

START_TEST(version_is_held_while_it_has_readers)
{
	struct fkv_entry *e;

	ck_assert_int_eq(fkv_index_held(&f.inst, (u64[]){ 'k' }, 1, 5),
			 -ENOENT);
	ck_assert_int_eq(fake_publish(&f, "k", 5, 1, 1), 0);
	ck_assert_int_eq(fkv_index_held(&f.inst, (u64[]){ 'k' }, 1, 5),
			 FLUXONKV_QUIET);
	e = fake_get(&f, "k");
	ck_assert_int_eq(fkv_index_held(&f.inst, (u64[]){ 'k' }, 1, 5),
			 FLUXONKV_HELD);
	ck_assert_int_eq(fkv_index_held(&f.inst, (u64[]){ 'k' }, 1, 4),
			 -ENOENT);
	ck_assert_int_eq(fkv_index_held(&f.inst, (u64[]){ 'j' }, 1, 5),
			 -ENOENT);
	fkv_entry_put(e);
	ck_assert_int_eq(fkv_index_held(&f.inst, (u64[]){ 'k' }, 1, 5),
			 FLUXONKV_QUIET);
	ck_assert_int_eq(fake_retire(&f, "k", 5), FLUXONKV_QUIET);
	ck_assert_int_eq(fkv_index_held(&f.inst, (u64[]){ 'k' }, 1, 5),
			 -ENOENT);
}
END_TEST

START_TEST(index_without_memory_is_none)
{
	struct fake other;

	fake_fail_nth(1);
	ck_assert_int_eq(fake_up(&other), -ENOMEM);
	ck_assert(fake_failed());
}
END_TEST

int main(void)
{
	Suite *s = suite_create("kmod_index");
	TCase *tc = tcase_create("index");
	SRunner *sr;
	int failed;

	tcase_add_checked_fixture(tc, setup, teardown);
	tcase_add_test(tc, published_version_is_found_with_what_was_said);
	tcase_add_test(tc, keys_of_one_hash_are_told_apart);
	tcase_add_test(tc, keys_that_count_spread_over_the_table);
	tcase_add_test(tc, second_version_of_a_key_is_refused);
	tcase_add_test(tc, version_over_a_live_extent_is_refused);
	tcase_add_test(tc, extent_outside_the_segment_is_invalid);
	tcase_add_test(tc, empty_values_have_no_extent);
	tcase_add_test(tc, readers_have_a_limit);
	tcase_add_test(tc, retired_version_is_quiet_when_its_last_reader_left);
	tcase_add_test(tc, retired_version_without_readers_is_quiet_at_once);
	tcase_add_test(tc, evict_takes_only_what_nobody_holds);
	tcase_add_test(tc,
		       index_of_a_dead_owner_is_empty_but_for_what_is_held);
	tcase_add_test(tc, reply_gives_the_published_version);
	tcase_add_test(tc, reply_over_another_extent_is_refused);
	tcase_add_test(tc,
		       reply_for_what_is_not_published_ends_with_its_holders);
	tcase_add_test(tc, reply_meets_a_publish_that_fails);
	tcase_add_test(tc, reply_takes_the_place_of_an_entry_at_its_end);
	tcase_add_test(tc, hits_are_told_once);
	tcase_add_test(tc, hits_of_two_at_once_list_it_once);
	tcase_add_test(tc, hits_that_do_not_fit_are_told_later);
	tcase_add_test(tc, hits_of_what_is_gone_are_not_told);
	tcase_add_test(tc, life_of_an_entry_without_memory);
	tcase_add_test(tc, version_is_held_while_it_has_readers);
	tcase_add_test(tc, index_without_memory_is_none);
	suite_add_tcase(s, tc);
	sr = srunner_create(s);
	srunner_run_all(sr, CK_NORMAL);
	failed = srunner_ntests_failed(sr);
	srunner_free(sr);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
