// SPDX-License-Identifier: Apache-2.0
#include <check.h>
#include <stdlib.h>

#include "core/master/policy.h"

#define ITEMS	4096

static struct fkv_lfu lfu;
static struct fkv_lfu_item item[ITEMS];
static uint64_t allocs, fail_every;

static bool fail_some(size_t size)
{
	(void)size;
	allocs++;
	return allocs % fail_every == 0;
}

static uint64_t rng_state;

/* xorshift64 (Marsaglia 2003): the same sequence everywhere */
static uint64_t rng(void)
{
	rng_state ^= rng_state << 13;
	rng_state ^= rng_state >> 7;
	rng_state ^= rng_state << 17;
	return rng_state;
}

static void setup(void)
{
	rng_state = 88172645463325252ULL;
	fkv_alloc_fail = NULL;
	allocs = 0;
	memset(item, 0, sizeof(item));
	fkv_lfu_init(&lfu, false);
}

static void setup_first(void)
{
	setup();
	lfu.first = true;
}

static void teardown(void)
{
	fkv_alloc_fail = NULL;
	fkv_lfu_done(&lfu);
}

static uint64_t hash_of(int i)
{
	return (i + 1) * 0x9e3779b97f4a7c15ULL;
}

static void insert_f(int i, unsigned int f)
{
	item[i].bytes = 100;
	fkv_lfu_insert(&lfu, &item[i], f, hash_of(i));
}

static void insert(int i)
{
	insert_f(i, fkv_lfu_ghost_take(&lfu, hash_of(i)));
}

static void insert_range(int from, int to)
{
	for (int i = from; i < to; i++)
		insert(i);
}

/* number of the item, -1: none */
static int victim(struct fkv_lfu_cursor *c)
{
	struct fkv_lfu_item *v = fkv_lfu_victim(&lfu, c);

	return v ? v - item : -1;
}

static int evict(void)
{
	struct fkv_lfu_cursor c = { .started = false };
	int i = victim(&c);

	if (i >= 0)
		fkv_lfu_evicted(&lfu, &item[i], false);
	return i;
}

/* M4 */
START_TEST(victim_of_equals_is_the_least_recent)
{
	insert_range(0, 4);
	for (int i = 0; i < 4; i++)
		ck_assert_int_eq(evict(), i);
	ck_assert_int_eq(evict(), -1);
}
END_TEST

START_TEST(victim_is_the_least_frequent)
{
	insert_range(0, 4);
	fkv_lfu_touch(&lfu, &item[0], 1);
	fkv_lfu_touch(&lfu, &item[1], 5);
	fkv_lfu_touch(&lfu, &item[2], 1);
	ck_assert_int_eq(evict(), 3);
	ck_assert_int_eq(evict(), 0);
	ck_assert_int_eq(evict(), 2);
	ck_assert_int_eq(evict(), 1);
}
END_TEST

START_TEST(touch_moves_to_the_head_of_its_ring)
{
	insert_range(0, 10);
	fkv_lfu_touch(&lfu, &item[1], 20);
	fkv_lfu_touch(&lfu, &item[0], 20);
	fkv_lfu_touch(&lfu, &item[1], 1);
	for (int i = 2; i < 10; i++)
		fkv_lfu_remove(&lfu, &item[i]);
	ck_assert_uint_eq(fkv_lfu_f(&lfu, &item[1]), FKV_COUNT_MAX);
	ck_assert_uint_eq(item[0].bucket, item[1].bucket);
	ck_assert_int_eq(evict(), 0);
}
END_TEST

START_TEST(touch_of_no_access_changes_nothing)
{
	insert_range(0, 2);
	fkv_lfu_touch(&lfu, &item[0], 0);
	ck_assert_int_eq(evict(), 0);
}
END_TEST

START_TEST(touch_of_a_huge_count_is_bounded)
{
	insert_range(0, 2);
	fkv_lfu_touch(&lfu, &item[0], UINT32_MAX);
	ck_assert_uint_eq(fkv_lfu_f(&lfu, &item[0]), FKV_COUNT_MAX);
	fkv_lfu_check(&lfu);
}
END_TEST

/* a batch touched last to first keeps the head of its prefix */
START_TEST(batch_touched_in_reverse_loses_its_tail_first)
{
	for (int i = 9; i >= 0; i--)
		insert(i);
	for (int i = 9; i >= 0; i--)
		ck_assert_int_eq(evict(), i);
}
END_TEST

START_TEST(old_favourite_ages_out)
{
	int i = 1, gone;

	insert(0);
	fkv_lfu_touch(&lfu, &item[0], 14);
	insert(1);
	/* each newcomer is as high above the age as the last one */
	do {
		insert(++i);
		gone = evict();
		ck_assert_int_lt(i, 100);
	} while (gone != 0);
	ck_assert_int_gt(i, 10);
}
END_TEST

START_TEST(age_only_rises_and_wraps)
{
	uint32_t age, wraps = 0;

	lfu.age = UINT32_MAX - 500;
	insert_range(0, 64);
	for (int step = 0; step < 20000; step++) {
		int i;

		age = lfu.age;
		fkv_lfu_touch(&lfu, &item[rng() % 16], rng() % 3);
		i = evict();
		ck_assert_uint_le(lfu.age - age, FKV_COUNT_MAX);
		wraps += lfu.age < age;
		insert(i);
		if (step % 100 == 0)
			fkv_lfu_check(&lfu);
	}
	ck_assert_uint_eq(wraps, 1);
}
END_TEST

START_TEST(age_stays_when_a_high_one_is_taken)
{
	insert_range(0, 2);
	fkv_lfu_touch(&lfu, &item[1], 9);
	fkv_lfu_evicted(&lfu, &item[1], false);
	ck_assert_uint_eq(lfu.age, 0);
	ck_assert_uint_eq(fkv_lfu_priority(&lfu, &item[0]), 1);
	ck_assert_int_eq(evict(), 0);
	ck_assert_uint_eq(lfu.age, 1);
}
END_TEST

START_TEST(victim_stays_until_it_is_taken)
{
	struct fkv_lfu_cursor c = { .started = false };
	struct fkv_lfu_cursor again = { .started = false };

	insert_range(0, 3);
	fkv_lfu_touch(&lfu, &item[0], 3);
	ck_assert_int_eq(victim(&c), 1);
	ck_assert_int_eq(victim(&c), 2);
	ck_assert_int_eq(victim(&c), 0);
	ck_assert_int_eq(victim(&c), -1);
	ck_assert_int_eq(victim(&again), 1);
	ck_assert_uint_eq(lfu.age, 0);
	ck_assert_uint_eq(lfu.resident, 3);
}
END_TEST

/* protocol M4a: BUSY counts as an access, and the walk goes on */
START_TEST(walk_meets_each_once_though_they_are_touched)
{
	struct fkv_lfu_cursor c = { .started = false };
	int n = 0, i;

	insert_range(0, 100);
	while ((i = victim(&c)) >= 0) {
		ck_assert(lfu.first || i == n);
		n++;
		if (i % 3 == 0)
			fkv_lfu_touch(&lfu, &item[i], 1);
		else if (i % 3 == 1)
			fkv_lfu_evicted(&lfu, &item[i], true);
		else
			fkv_lfu_park(&lfu, &item[i]);
	}
	ck_assert_int_eq(n, 100);
	ck_assert_uint_eq(lfu.resident, 67);
	fkv_lfu_check(&lfu);
}
END_TEST

/* M4: leased, pinned, in-flight, first persist pending */
START_TEST(parked_is_no_victim_but_counts)
{
	insert_range(0, 3);
	fkv_lfu_park(&lfu, &item[0]);
	fkv_lfu_park(&lfu, &item[0]);
	fkv_lfu_touch(&lfu, &item[0], 2);
	ck_assert_uint_eq(lfu.resident, 3);
	ck_assert_uint_eq(lfu.resident_bytes, 300);
	ck_assert_int_eq(evict(), 1);
	ck_assert_int_eq(evict(), 2);
	ck_assert_int_eq(evict(), -1);
	fkv_lfu_unpark(&lfu, &item[0]);
	fkv_lfu_unpark(&lfu, &item[0]);
	ck_assert_uint_eq(fkv_lfu_f(&lfu, &item[0]), 3);
	ck_assert_int_eq(evict(), 0);
	ck_assert_uint_eq(lfu.resident_bytes, 0);
}
END_TEST

START_TEST(unparked_after_long_is_the_next_but_not_lost)
{
	insert(0);
	fkv_lfu_park(&lfu, &item[0]);
	insert_range(1, 3);
	for (int i = 3; i < 300; i++) {
		insert(i);
		evict();
	}
	ck_assert_uint_gt(lfu.age, 90);
	fkv_lfu_unpark(&lfu, &item[0]);
	fkv_lfu_check(&lfu);
	ck_assert_uint_eq(fkv_lfu_priority(&lfu, &item[0]), 0);
	ck_assert_int_eq(evict(), 0);
}
END_TEST

START_TEST(parked_can_be_removed)
{
	insert_range(0, 2);
	fkv_lfu_park(&lfu, &item[0]);
	fkv_lfu_remove(&lfu, &item[0]);
	ck_assert_uint_eq(lfu.resident, 1);
	insert(0);
	fkv_lfu_check(&lfu);
	ck_assert_int_eq(evict(), 1);
	ck_assert_int_eq(evict(), 0);
}
END_TEST

START_TEST(f_halves_once_per_epoch)
{
	struct fkv_lfu_count count;

	insert_range(0, 10);
	fkv_lfu_touch(&lfu, &item[0], 14);
	fkv_lfu_touch(&lfu, &item[1], 10);
	/* 34 accesses so far; an epoch is 10 x 10 */
	fkv_lfu_touch(&lfu, &item[2], 65);
	ck_assert_uint_eq(fkv_lfu_f(&lfu, &item[0]), 15);
	fkv_lfu_touch(&lfu, &item[2], 1);
	ck_assert_uint_eq(fkv_lfu_f(&lfu, &item[0]), 7);
	count = fkv_lfu_evicted(&lfu, &item[1], true);
	ck_assert_uint_eq(fkv_lfu_count_f(&lfu, count), 5);
	/* 9 x 10 are enough now; two at once */
	fkv_lfu_touch(&lfu, &item[2], 180);
	ck_assert_uint_eq(fkv_lfu_f(&lfu, &item[0]), 1);
	ck_assert_uint_eq(fkv_lfu_count_f(&lfu, count), 1);
	fkv_lfu_touch(&lfu, &item[0], 1);
	ck_assert_uint_eq(fkv_lfu_f(&lfu, &item[0]), 2);
	fkv_lfu_touch(&lfu, &item[2], 1000000);
	ck_assert_uint_eq(fkv_lfu_f(&lfu, &item[0]), 0);
}
END_TEST

START_TEST(ghost_gives_f_back_once)
{
	insert_range(0, 4);
	fkv_lfu_touch(&lfu, &item[0], 4);
	fkv_lfu_evicted(&lfu, &item[0], false);
	ck_assert_uint_eq(fkv_lfu_ghost_take(&lfu, hash_of(0)), 5);
	ck_assert_uint_eq(fkv_lfu_ghost_take(&lfu, hash_of(0)), 0);
	ck_assert_uint_eq(fkv_lfu_ghost_take(&lfu, hash_of(1)), 0);
	insert_f(0, 5);
	ck_assert_uint_eq(fkv_lfu_f(&lfu, &item[0]), 6);
}
END_TEST

START_TEST(ghost_has_nothing_that_the_route_keeps_or_that_was_deleted)
{
	struct fkv_lfu_count count;

	insert_range(0, 4);
	count = fkv_lfu_evicted(&lfu, &item[0], true);
	fkv_lfu_remove(&lfu, &item[1]);
	ck_assert_uint_eq(fkv_lfu_ghost_take(&lfu, hash_of(0)), 0);
	ck_assert_uint_eq(fkv_lfu_ghost_take(&lfu, hash_of(1)), 0);
	fkv_lfu_ghost_put(&lfu, hash_of(0), count);
	ck_assert_uint_eq(fkv_lfu_ghost_take(&lfu, hash_of(0)), 1);
}
END_TEST

START_TEST(ghost_forgets_the_oldest_beyond_four_times_the_residents)
{
	struct fkv_lfu_count count = { .f = 3 };

	insert_range(0, 10);
	for (int i = 100; i < 150; i++)
		fkv_lfu_ghost_put(&lfu, hash_of(i), count);
	ck_assert_uint_eq(fkv_ghost_entries(&lfu.ghost), 40);
	ck_assert_uint_eq(fkv_lfu_ghost_take(&lfu, hash_of(109)), 0);
	ck_assert_uint_eq(fkv_lfu_ghost_take(&lfu, hash_of(110)), 3);
	ck_assert_uint_eq(fkv_lfu_ghost_take(&lfu, hash_of(149)), 3);
}
END_TEST

START_TEST(ghost_memory_is_bounded)
{
	struct fkv_lfu_count count = { .f = 3 };
	uint64_t bytes;

	insert_range(0, ITEMS);
	for (int i = 0; i < 20 * ITEMS; i++)
		fkv_lfu_ghost_put(&lfu, hash_of(i), count);
	bytes = fkv_ghost_bytes(&lfu.ghost);
	ck_assert_uint_eq(fkv_ghost_entries(&lfu.ghost), 4 * ITEMS);
	ck_assert_uint_le(bytes, 4 * ITEMS * 24 + 64 * FKV_KIB);
	/* the same again takes no more, and fewer residents give back */
	for (int i = 0; i < 20 * ITEMS; i++)
		fkv_lfu_ghost_put(&lfu, hash_of(i), count);
	ck_assert_uint_eq(fkv_ghost_bytes(&lfu.ghost), bytes);
	for (int i = 0; i < ITEMS; i++)
		fkv_lfu_remove(&lfu, &item[i]);
	ck_assert_uint_eq(fkv_ghost_entries(&lfu.ghost), 0);
	ck_assert_uint_eq(lfu.ghost.live, 0);
	ck_assert_uint_lt(fkv_ghost_bytes(&lfu.ghost), bytes / 2);
}
END_TEST

#define GHOST_KEYS	2000

/* the ghost against an array: @seq of the last put, 0: none */
static void ghost_model(struct fkv_ghost *g, uint64_t limit)
{
	static uint64_t put_at[GHOST_KEYS];
	static unsigned int f[GHOST_KEYS];
	struct fkv_lfu_count count = { .f = 0 };
	uint64_t seq = 0;

	memset(put_at, 0, sizeof(put_at));
	for (int step = 0; step < 100000; step++) {
		int i = rng() % GHOST_KEYS;
		bool there = put_at[i] && put_at[i] + limit > seq;

		if (rng() % 3) {
			count.f = f[i] = rng() % 16;
			fkv_ghost_put(g, hash_of(i), count, limit);
			put_at[i] = ++seq;
			continue;
		}
		ck_assert_int_eq(fkv_ghost_take(g, hash_of(i), &count), there);
		if (there)
			ck_assert_uint_eq(count.f, f[i]);
		put_at[i] = 0;
	}
}

START_TEST(ghost_agrees_with_an_array)
{
	static const uint64_t limits[] = { 1, 7, 1000, 1024, 1025, 5000 };

	for (size_t i = 0; i < FKV_ARRAY_SIZE(limits); i++) {
		struct fkv_ghost g;

		fkv_ghost_init(&g);
		ghost_model(&g, limits[i]);
		fkv_ghost_done(&g);
	}
}
END_TEST

START_TEST(ghost_sequence_may_wrap)
{
	struct fkv_lfu_count count = { .f = 5 };
	struct fkv_ghost *g = &lfu.ghost;

	g->head = g->tail = UINT32_MAX - 4095;
	for (int i = 0; i < 10000; i++) {
		fkv_ghost_put(g, hash_of(i), count, 3000);
		if (i < 100)
			continue;
		ck_assert(fkv_ghost_take(g, hash_of(i - 100), &count));
		ck_assert_uint_eq(count.f, 5);
	}
	ck_assert_uint_lt(g->head, 10000);
	ck_assert_uint_eq(g->live, 100);
}
END_TEST

START_TEST(ghost_only_forgets_when_memory_fails)
{
	insert_range(0, ITEMS);
	fkv_alloc_fail = fail_some;
	for (fail_every = 1; fail_every < 6; fail_every++) {
		for (int i = 0; i < ITEMS; i++) {
			fkv_lfu_evicted(&lfu, &item[i], false);
			insert(i);
			fkv_lfu_evicted(&lfu, &item[i], false);
			insert_f(i, 1);
		}
		fkv_lfu_check(&lfu);
	}
	ck_assert_uint_gt(allocs, 5);
}
END_TEST

/* M4 */
START_TEST(random_use_keeps_the_books)
{
	insert_range(0, ITEMS);
	for (int step = 0; step < 200000; step++) {
		int i = rng() % ITEMS;

		if (item[i].stage == FKV_LFU_OUT)
			insert(i);
		else if (rng() % 4 == 0)
			fkv_lfu_touch(&lfu, &item[i], rng() % 5);
		else if (rng() % 3 == 0)
			fkv_lfu_park(&lfu, &item[i]);
		else if (rng() % 2)
			fkv_lfu_unpark(&lfu, &item[i]);
		else if (rng() % 8)
			evict();
		else
			fkv_lfu_remove(&lfu, &item[i]);
		if (step % 1000 == 0)
			fkv_lfu_check(&lfu);
	}
	fkv_lfu_check(&lfu);
}
END_TEST

/* eviction.new_values: recent admits all */
START_TEST(recent_admits_every_newcomer)
{
	insert(0);
	fkv_lfu_touch(&lfu, &item[0], 9);
	ck_assert(fkv_lfu_admits(&lfu, 0, &item[0]));
}
END_TEST

START_TEST(first_admits_only_what_is_used_more_than_the_victim)
{
	insert(0);
	fkv_lfu_touch(&lfu, &item[0], 1);
	ck_assert(!fkv_lfu_admits(&lfu, 1, &item[0]));
	ck_assert(!fkv_lfu_admits(&lfu, 2, &item[0]));
	ck_assert(fkv_lfu_admits(&lfu, 3, &item[0]));
}
END_TEST

/* room for 200 of 1000 loaded in order: 198 first and the newest two stay */
START_TEST(first_keeps_what_came_first_and_the_newest_hundredth)
{
	insert_range(0, 200);
	for (int i = 200; i < 1000; i++) {
		ck_assert_int_eq(evict(), i - 3);
		insert(i);
	}
	for (int i = 0; i < 197; i++)
		ck_assert_int_ne(item[i].stage, FKV_LFU_OUT);
	ck_assert_int_eq(item[999].stage, FKV_LFU_WINDOW);
	ck_assert_int_eq(item[998].stage, FKV_LFU_WINDOW);
	fkv_lfu_check(&lfu);
}
END_TEST

START_TEST(first_lets_a_used_newcomer_replace_an_unused_one)
{
	insert_range(0, 200);
	for (int i = 1; i < 200; i++)
		fkv_lfu_touch(&lfu, &item[i], 1);
	insert_f(300, 2);
	insert_range(301, 303);
	ck_assert_int_eq(item[300].stage, FKV_LFU_NEWCOMER);
	ck_assert_int_eq(evict(), 0);
	ck_assert_int_eq(item[300].stage, FKV_LFU_SETTLED);
}
END_TEST

/* while no more than an epoch passes: the unread age even here */
START_TEST(first_scan_displaces_nobody)
{
	insert_range(0, 100);
	for (int i = 0; i < 100; i++)
		fkv_lfu_touch(&lfu, &item[i], 1);
	for (int i = 100; i < 1000; i++) {
		insert(i);
		ck_assert_int_eq(evict(), i - 1);
	}
	fkv_lfu_check(&lfu);
}
END_TEST

START_TEST(first_gives_the_newest_up_when_nothing_else_is_left)
{
	insert_range(0, 3);
	fkv_lfu_park(&lfu, &item[0]);
	fkv_lfu_park(&lfu, &item[1]);
	ck_assert_int_eq(evict(), 2);
	ck_assert_int_eq(evict(), -1);
}
END_TEST

static Suite *policy_suite(void)
{
	Suite *s = suite_create("policy");
	TCase *t = tcase_create("recent");

	tcase_add_checked_fixture(t, setup, teardown);
	tcase_set_timeout(t, 60);
	tcase_add_test(t, victim_of_equals_is_the_least_recent);
	tcase_add_test(t, victim_is_the_least_frequent);
	tcase_add_test(t, touch_moves_to_the_head_of_its_ring);
	tcase_add_test(t, touch_of_no_access_changes_nothing);
	tcase_add_test(t, touch_of_a_huge_count_is_bounded);
	tcase_add_test(t, batch_touched_in_reverse_loses_its_tail_first);
	tcase_add_test(t, old_favourite_ages_out);
	tcase_add_test(t, age_only_rises_and_wraps);
	tcase_add_test(t, age_stays_when_a_high_one_is_taken);
	tcase_add_test(t, victim_stays_until_it_is_taken);
	tcase_add_test(t, walk_meets_each_once_though_they_are_touched);
	tcase_add_test(t, parked_is_no_victim_but_counts);
	tcase_add_test(t, unparked_after_long_is_the_next_but_not_lost);
	tcase_add_test(t, parked_can_be_removed);
	tcase_add_test(t, f_halves_once_per_epoch);
	tcase_add_test(t, random_use_keeps_the_books);
	tcase_add_test(t, recent_admits_every_newcomer);
	suite_add_tcase(s, t);

	t = tcase_create("ghost");
	tcase_add_checked_fixture(t, setup, teardown);
	tcase_set_timeout(t, 60);
	tcase_add_test(t, ghost_gives_f_back_once);
	tcase_add_test(
		t, ghost_has_nothing_that_the_route_keeps_or_that_was_deleted);
	tcase_add_test(
		t, ghost_forgets_the_oldest_beyond_four_times_the_residents);
	tcase_add_test(t, ghost_memory_is_bounded);
	tcase_add_test(t, ghost_agrees_with_an_array);
	tcase_add_test(t, ghost_sequence_may_wrap);
	tcase_add_test(t, ghost_only_forgets_when_memory_fails);
	suite_add_tcase(s, t);

	t = tcase_create("first");
	tcase_add_checked_fixture(t, setup_first, teardown);
	tcase_add_test(t, first_admits_only_what_is_used_more_than_the_victim);
	tcase_add_test(t, first_keeps_what_came_first_and_the_newest_hundredth);
	tcase_add_test(t, first_lets_a_used_newcomer_replace_an_unused_one);
	tcase_add_test(t, first_scan_displaces_nobody);
	tcase_add_test(t, first_gives_the_newest_up_when_nothing_else_is_left);
	tcase_add_test(t, random_use_keeps_the_books);
	tcase_add_test(t, walk_meets_each_once_though_they_are_touched);
	suite_add_tcase(s, t);
	return s;
}

int main(void)
{
	SRunner *r = srunner_create(policy_suite());
	int failed;

	srunner_run_all(r, CK_NORMAL);
	failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
