// SPDX-License-Identifier: Apache-2.0
#include <check.h>
#include <signal.h>
#include <stdlib.h>

#include "core/master/extents.h"

#define UNIT	FKV_EXTENT_UNIT

static struct fkv_extents x;
static uint64_t allocs, fail_every;

static bool fail_some(size_t size)
{
	(void)size;
	allocs++;
	return fail_every && allocs % fail_every == 0;
}

static bool fail_all(size_t size)
{
	(void)size;
	allocs++;
	return true;
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
	allocs = 0;
	fail_every = 0;
	rng_state = 88172645463325252ULL;
	fkv_alloc_fail = NULL;
}

static void teardown(void)
{
	fkv_alloc_fail = NULL;
	fkv_extents_done(&x);
}

static uint64_t take(uint64_t len)
{
	uint64_t off = UINT64_MAX;

	ck_assert_int_eq(fkv_extents_alloc(&x, len, &off), 0);
	return off;
}

/* M2 */
START_TEST(alloc_rounds_up_to_a_unit_and_no_further)
{
	ck_assert_int_eq(fkv_extents_init(&x, 16 * UNIT), 0);
	take(1);
	ck_assert_uint_eq(fkv_extents_used_bytes(&x), UNIT);
	take(UNIT);
	ck_assert_uint_eq(fkv_extents_used_bytes(&x), 2 * UNIT);
	take(4 * UNIT + 1);
	ck_assert_uint_eq(fkv_extents_used_bytes(&x), 7 * UNIT);
	fkv_extents_check(&x);
}
END_TEST

/* M2 */
START_TEST(whole_segment_is_one_allocation)
{
	ck_assert_int_eq(fkv_extents_init(&x, 16 * UNIT), 0);
	ck_assert_uint_eq(take(16 * UNIT - 5), 0);
	ck_assert_uint_eq(fkv_extents_free_bytes(&x), 0);
	ck_assert_uint_eq(fkv_extents_largest_hole(&x), 0);
	ck_assert_uint_eq(fkv_extents_nr_holes(&x), 0);
	fkv_extents_free(&x, 0, 16 * UNIT - 5);
	ck_assert_uint_eq(fkv_extents_largest_hole(&x), 16 * UNIT);
}
END_TEST

START_TEST(alloc_without_a_hole_is_enospc_and_writes_nothing)
{
	uint64_t off = 77;

	ck_assert_int_eq(fkv_extents_init(&x, 4 * UNIT), 0);
	ck_assert_int_eq(fkv_extents_alloc(&x, 4 * UNIT + 1, &off), -ENOSPC);
	ck_assert_int_eq(fkv_extents_alloc(&x, UINT64_MAX, &off), -ENOSPC);
	take(3 * UNIT);
	ck_assert_int_eq(fkv_extents_alloc(&x, 2 * UNIT, &off), -ENOSPC);
	ck_assert_uint_eq(off, 77);
}
END_TEST

START_TEST(alloc_chooses_the_smallest_hole_that_fits)
{
	uint64_t a, b, c, off;

	ck_assert_int_eq(fkv_extents_init(&x, 64 * UNIT), 0);
	a = take(8 * UNIT);
	take(UNIT);
	b = take(4 * UNIT);
	take(UNIT);
	c = take(4 * UNIT);
	take(UNIT);
	fkv_extents_free(&x, a, 8 * UNIT);
	fkv_extents_free(&x, c, 4 * UNIT);
	fkv_extents_free(&x, b, 4 * UNIT);
	ck_assert_uint_eq(fkv_extents_nr_holes(&x), 4);
	/* of two equal ones the lower */
	off = take(3 * UNIT);
	ck_assert_uint_eq(off, b);
	ck_assert_uint_eq(take(4 * UNIT), c);
	ck_assert_uint_eq(take(5 * UNIT), a);
	fkv_extents_check(&x);
}
END_TEST

START_TEST(free_joins_both_neighbours)
{
	uint64_t a, b, c;

	ck_assert_int_eq(fkv_extents_init(&x, 16 * UNIT), 0);
	a = take(2 * UNIT);
	b = take(3 * UNIT);
	c = take(4 * UNIT);
	fkv_extents_free(&x, a, 2 * UNIT);
	fkv_extents_free(&x, c, 4 * UNIT);
	ck_assert_uint_eq(fkv_extents_nr_holes(&x), 2);
	fkv_extents_free(&x, b, 3 * UNIT);
	ck_assert_uint_eq(fkv_extents_nr_holes(&x), 1);
	ck_assert_uint_eq(fkv_extents_largest_hole(&x), 16 * UNIT);
}
END_TEST

/* M2: in both orders, and every second one first */
START_TEST(mib_fits_after_64_kib_fill_is_freed)
{
	const uint64_t len = 64 * FKV_KIB, n = 1024;

	ck_assert_int_eq(fkv_extents_init(&x, n * len), 0);
	for (int order = 0; order < 3; order++) {
		for (uint64_t i = 0; i < n; i++)
			take(len);
		ck_assert_uint_eq(fkv_extents_free_bytes(&x), 0);
		for (uint64_t i = 0; i < n; i++) {
			uint64_t k = i;

			if (order == 1)
				k = n - 1 - i;
			if (order == 2)
				k = i < n / 2 ? 2 * i : 2 * (i - n / 2) + 1;
			fkv_extents_free(&x, k * len, len);
		}
		fkv_extents_check(&x);
		fkv_extents_free(&x, take(FKV_MIB), FKV_MIB);
		ck_assert_uint_eq(fkv_extents_nr_holes(&x), 1);
	}
}
END_TEST

START_TEST(take_claims_exactly_those_bytes)
{
	uint64_t off, len;

	ck_assert_int_eq(fkv_extents_init(&x, 16 * UNIT), 0);
	ck_assert_int_eq(fkv_extents_take(&x, 4 * UNIT, 4 * UNIT), 0);
	ck_assert_int_eq(fkv_extents_take(&x, 7 * UNIT, UNIT), -EBUSY);
	ck_assert_int_eq(fkv_extents_take(&x, 3 * UNIT, 2 * UNIT), -EBUSY);
	ck_assert_int_eq(fkv_extents_take(&x, 15 * UNIT, 2 * UNIT), -EBUSY);
	ck_assert_int_eq(fkv_extents_take(&x, 0, 4 * UNIT), 0);
	ck_assert_uint_eq(fkv_extents_free_bytes(&x), 8 * UNIT);
	ck_assert(fkv_extents_next_hole(&x, 0, &off, &len));
	ck_assert_uint_eq(off, 8 * UNIT);
	ck_assert_uint_eq(len, 8 * UNIT);
	fkv_extents_check(&x);
}
END_TEST

START_TEST(next_hole_walks_by_address)
{
	uint64_t off, len;

	ck_assert_int_eq(fkv_extents_init(&x, 16 * UNIT), 0);
	ck_assert_int_eq(fkv_extents_take(&x, 2 * UNIT, UNIT), 0);
	ck_assert_int_eq(fkv_extents_take(&x, 8 * UNIT, 8 * UNIT), 0);
	ck_assert(fkv_extents_next_hole(&x, 0, &off, &len));
	ck_assert_uint_eq(off + len, 2 * UNIT);
	ck_assert(fkv_extents_next_hole(&x, off + len, &off, &len));
	ck_assert_uint_eq(off, 3 * UNIT);
	ck_assert(fkv_extents_next_hole(&x, 5 * UNIT, &off, &len));
	ck_assert_uint_eq(off, 3 * UNIT);
	ck_assert_uint_eq(len, 5 * UNIT);
	ck_assert(!fkv_extents_next_hole(&x, off + len, &off, &len));
}
END_TEST

START_TEST(free_of_a_free_extent_is_an_impossible_state)
{
	ck_assert_int_eq(fkv_extents_init(&x, 16 * UNIT), 0);
	take(2 * UNIT);
	take(2 * UNIT);
	fkv_extents_free(&x, 0, 2 * UNIT);
	fkv_extents_free(&x, 0, 2 * UNIT);
}
END_TEST

START_TEST(free_over_a_hole_is_an_impossible_state)
{
	ck_assert_int_eq(fkv_extents_init(&x, 16 * UNIT), 0);
	take(2 * UNIT);
	take(2 * UNIT);
	fkv_extents_free(&x, 2 * UNIT, 3 * UNIT);
}
END_TEST

START_TEST(free_outside_is_an_impossible_state)
{
	ck_assert_int_eq(fkv_extents_init(&x, 16 * UNIT), 0);
	take(16 * UNIT);
	fkv_extents_free(&x, 15 * UNIT, 2 * UNIT);
}
END_TEST

#define MODEL_UNITS	4096
#define MODEL_LIVE	2048

struct model {
	bool busy[MODEL_UNITS];
	struct {
		uint64_t off, len;
	} live[MODEL_LIVE];
	size_t nr_live;
	uint64_t used;
};

static struct model model;

/* Length of the best hole for @want units, 0: none. */
static uint64_t model_best(uint64_t want)
{
	uint64_t best = 0, run = 0;

	for (size_t i = 0; i <= MODEL_UNITS; i++) {
		if (i < MODEL_UNITS && !model.busy[i]) {
			run++;
			continue;
		}
		if (run >= want && (!best || run < best))
			best = run;
		run = 0;
	}
	return best;
}

static uint64_t model_hole_at(uint64_t unit)
{
	uint64_t n = 0;

	while (unit + n < MODEL_UNITS && !model.busy[unit + n])
		n++;
	return n;
}

static void model_alloc(bool compare_best)
{
	uint64_t len = (rng() % 4 ? rng() % 8 : rng() % 96) * UNIT +
		       1 + rng() % UNIT;
	uint64_t units = fkv_extent_bytes(len) / UNIT, off;
	uint64_t best = compare_best ? model_best(units) : 0;
	int err = fkv_extents_alloc(&x, len, &off);

	if (compare_best)
		ck_assert_int_eq(err, best ? 0 : -ENOSPC);
	if (err)
		return;
	if (compare_best)
		ck_assert_uint_eq(model_hole_at(off / UNIT), best);
	for (uint64_t i = off / UNIT; i < off / UNIT + units; i++) {
		ck_assert(!model.busy[i]);
		model.busy[i] = true;
	}
	model.live[model.nr_live].off = off;
	model.live[model.nr_live++].len = len;
	model.used += units * UNIT;
}

static void model_free(size_t i)
{
	uint64_t off = model.live[i].off, len = model.live[i].len;

	fkv_extents_free(&x, off, len);
	for (uint64_t u = off / UNIT; u * UNIT < off + len; u++)
		model.busy[u] = false;
	model.used -= fkv_extent_bytes(len);
	model.live[i] = model.live[--model.nr_live];
}

static void model_step(uint64_t step)
{
	/* waves of filling and draining, so that runs split and join */
	bool fill = step / 3000 % 2 == 0;

	if (model.nr_live < MODEL_LIVE && (rng() % 8 < 5) == fill)
		model_alloc(step % 50 == 0 && !fkv_alloc_fail);
	else if (model.nr_live)
		model_free(rng() % model.nr_live);
	ck_assert_uint_eq(fkv_extents_used_bytes(&x), model.used);
	ck_assert_uint_eq(fkv_extents_used_bytes(&x) +
			  fkv_extents_free_bytes(&x), MODEL_UNITS * UNIT);
	if (step % 500 == 0)
		fkv_extents_check(&x);
}

static void model_drain(void)
{
	while (model.nr_live)
		model_free(rng() % model.nr_live);
	fkv_extents_check(&x);
	ck_assert_uint_eq(fkv_extents_largest_hole(&x), MODEL_UNITS * UNIT);
	ck_assert_uint_eq(fkv_extents_nr_holes(&x), 1);
}

/* M2, M5 */
START_TEST(extents_agree_with_a_bitmap)
{
	memset(&model, 0, sizeof(model));
	ck_assert_int_eq(fkv_extents_init(&x, MODEL_UNITS * UNIT), 0);
	for (uint64_t step = 0; step < 200000; step++)
		model_step(step);
	model_drain();
}
END_TEST

/* M5 */
START_TEST(failed_memory_leaves_the_books_right)
{
	memset(&model, 0, sizeof(model));
	ck_assert_int_eq(fkv_extents_init(&x, MODEL_UNITS * UNIT), 0);
	fkv_alloc_fail = fail_some;
	for (fail_every = 1; fail_every < 20; fail_every++)
		for (uint64_t step = 0; step < 3000; step++)
			model_step(step + 3000 * (fail_every % 2));
	model_drain();
}
END_TEST

START_TEST(init_without_memory_is_enomem)
{
	fkv_alloc_fail = fail_all;
	ck_assert_int_eq(fkv_extents_init(&x, UNIT), -ENOMEM);
}
END_TEST

START_TEST(alloc_without_memory_is_enomem_and_takes_nothing)
{
	uint64_t off = 77;

	ck_assert_int_eq(fkv_extents_init(&x, 8 * UNIT), 0);
	fkv_alloc_fail = fail_all;
	ck_assert_int_eq(fkv_extents_alloc(&x, UNIT, &off), -ENOMEM);
	ck_assert_int_eq(fkv_extents_take(&x, UNIT, UNIT), -ENOMEM);
	ck_assert_uint_eq(off, 77);
	ck_assert_uint_eq(fkv_extents_free_bytes(&x), 8 * UNIT);
	fkv_extents_check(&x);
}
END_TEST

/* the worst case: every second unit becomes a hole */
START_TEST(free_never_allocates)
{
	ck_assert_int_eq(fkv_extents_init(&x, MODEL_UNITS * UNIT), 0);
	for (int i = 0; i < MODEL_UNITS; i++)
		take(UNIT);
	fkv_alloc_fail = fail_all;
	for (int i = 0; i < MODEL_UNITS; i += 2)
		fkv_extents_free(&x, i * UNIT, UNIT);
	fkv_extents_check(&x);
	ck_assert_uint_eq(fkv_extents_nr_holes(&x), MODEL_UNITS / 2);
	for (int i = 1; i < MODEL_UNITS; i += 2)
		fkv_extents_free(&x, i * UNIT, UNIT);
	ck_assert_uint_eq(allocs, 0);
	fkv_extents_check(&x);
}
END_TEST

static Suite *extents_suite(void)
{
	Suite *s = suite_create("extents");
	TCase *t = tcase_create("extents");

	tcase_add_checked_fixture(t, setup, teardown);
	tcase_set_timeout(t, 60);
	tcase_add_test(t, alloc_rounds_up_to_a_unit_and_no_further);
	tcase_add_test(t, whole_segment_is_one_allocation);
	tcase_add_test(t, alloc_without_a_hole_is_enospc_and_writes_nothing);
	tcase_add_test(t, alloc_chooses_the_smallest_hole_that_fits);
	tcase_add_test(t, free_joins_both_neighbours);
	tcase_add_test(t, mib_fits_after_64_kib_fill_is_freed);
	tcase_add_test(t, take_claims_exactly_those_bytes);
	tcase_add_test(t, next_hole_walks_by_address);
	tcase_add_test_raise_signal(
		t, free_of_a_free_extent_is_an_impossible_state, SIGABRT);
	tcase_add_test_raise_signal(
		t, free_over_a_hole_is_an_impossible_state, SIGABRT);
	tcase_add_test_raise_signal(
		t, free_outside_is_an_impossible_state, SIGABRT);
	tcase_add_test(t, extents_agree_with_a_bitmap);
	tcase_add_test(t, failed_memory_leaves_the_books_right);
	tcase_add_test(t, init_without_memory_is_enomem);
	tcase_add_test(t, alloc_without_memory_is_enomem_and_takes_nothing);
	tcase_add_test(t, free_never_allocates);
	suite_add_tcase(s, t);
	return s;
}

int main(void)
{
	SRunner *r = srunner_create(extents_suite());
	int failed;

	srunner_run_all(r, CK_NORMAL);
	failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
