// SPDX-License-Identifier: Apache-2.0
/*
 * What the master is told, devices that go off and on, and a random walk.
 */
#include <check.h>
#include <stdlib.h>

#include "ring_driver.h"

/* S13 */
START_TEST(tail_report_coalesces_and_is_told_once)
{
	uint64_t seq = 77, first;
	struct fkv_ring_entry *e;

	ring_of(1, 1, 8);
	ck_assert(!fkv_ring_tail_moved(ring, 0, &seq));
	first = ring_committed(0, 1, 4)->seq;
	ring_committed(1, 1, 4);
	ck_assert(!fkv_ring_tail_moved(ring, 0, &seq));
	ck_assert_uint_eq(seq, 77);
	ring_committed(2, 1, 4);
	e = ring_committed(3, 1, 4);
	ck_assert(fkv_ring_tail_moved(ring, 0, &seq));
	ck_assert_uint_eq(seq, first + 2);
	ck_assert_uint_eq(e->seq, first + 3);
	ck_assert(!fkv_ring_tail_moved(ring, 0, &seq));
}
END_TEST

START_TEST(tail_report_is_per_shard)
{
	uint64_t seq;

	ring_of(1, 2, 8);
	ring_committed(0, 1, 8);
	ring_committed(1, 1, 8);
	ring_committed(2, 1, 8);
	ck_assert(fkv_ring_tail_moved(ring, 0, &seq));
	ck_assert(!fkv_ring_tail_moved(ring, 1, &seq));
}
END_TEST

/* P7: a commit in flight is never below what was reported */
START_TEST(reported_seq_never_passes_a_commit_in_flight)
{
	struct fkv_ring_entry *c;
	uint64_t seq;

	ring_of(1, 1, 8);
	ring_committed(0, 1, 4);
	c = ring_writing(1, 1, 4);
	fkv_ring_commit(ring, c, 0);
	ring_committed(2, 1, 4);
	ck_assert(fkv_ring_tail_moved(ring, 0, &seq));
	ck_assert_uint_eq(seq, c->seq);
	fkv_ring_commit_unpin(ring, c);
}
END_TEST

/* S11 */
START_TEST(device_that_is_off_loses_its_entries_and_takes_none)
{
	struct fkv_ring_entry *e;
	uint64_t seq;

	ring_of(2, 1, 8);
	ring_committed(0, 1, 2);
	ring_committed(1, 1, 2);
	fkv_ring_device_off(ring, 0);
	fkv_ring_check(ring);
	ck_assert(!fkv_ring_device_works(ring, 0));
	ck_assert(!ring_readable(0, 1) && ring_readable(1, 1));
	ck_assert(fkv_ring_tail_moved(ring, 0, &seq));
	for (int i = 2; i < 5; i++)
		ck_assert_uint_eq(ring_committed(i, 1, 2)->shard, 1);
	fkv_ring_device_off(ring, 1);
	ck_assert_int_eq(ring_reserve(9, 1, 2, &e), -ENODEV);
}
END_TEST

START_TEST(device_comes_back_empty_when_its_writes_have_ended)
{
	struct fkv_ring_entry *w;

	ring_of(1, 1, 8);
	ring_committed(0, 1, 2);
	w = ring_writing(1, 1, 2);
	fkv_ring_device_off(ring, 0);
	fkv_ring_check(ring);
	ck_assert_int_eq(fkv_ring_device_on(ring, 0), -EBUSY);
	fkv_ring_abort(ring, w);
	ck_assert_int_eq(fkv_ring_device_on(ring, 0), 0);
	fkv_ring_check(ring);
	ck_assert(!ring_readable(0, 1) && !ring_readable(1, 1));
	ck_assert_uint_eq(ring_stats().used, 0);
	ring_committed(0, 1, 2);
	ck_assert(ring_readable(0, 1));
}
END_TEST

START_TEST(commit_pin_outlives_its_device)
{
	struct fkv_ring_entry *c;

	ring_of(1, 1, 8);
	c = ring_writing(0, 1, 2);
	fkv_ring_commit(ring, c, 0);
	fkv_ring_device_off(ring, 0);
	ck_assert_uint_eq(c->put_id, 1);
	fkv_ring_commit_unpin(ring, c);
	ck_assert_int_eq(fkv_ring_device_on(ring, 0), 0);
}
END_TEST

static bool fail_all(size_t size)
{
	(void)size;
	return true;
}

START_TEST(reserve_without_memory_changes_nothing)
{
	struct fkv_ring_entry *e;

	ring_of(1, 1, 8);
	ring_committed(0, 1, 8);
	fkv_alloc_fail = fail_all;
	ck_assert_int_eq(ring_reserve(1, 1, 2, &e), -ENOMEM);
	fkv_alloc_fail = NULL;
	ck_assert(ring_readable(0, 1));
}
END_TEST

/*
 * Random walk against a model that knows only which entry last got each
 * block: no entry gets blocks that another may still touch, and what can be
 * read has all of its own.
 */
#define M_SHARDS	6
#define M_UNITS		37
#define M_ENTRIES	24
#define M_KEYS		12
#define M_STEPS		100000

static struct m_entry {
	struct fkv_ring_entry *e;	/* while in use */
	uint64_t serial;
	bool writing;
	bool commit_pin;
	uint32_t reads;
	uint32_t generation;		/* of its device */
} m[M_ENTRIES];
static uint64_t m_block[M_SHARDS][M_UNITS], m_serial, m_put_id, m_seed;
static uint64_t m_reported[M_SHARDS], m_seq[M_SHARDS];
static uint32_t m_generation[2];
static bool m_off[2];

/* xorshift64 (Marsaglia 2003): the same sequence everywhere */
static uint64_t rng(uint64_t n)
{
	m_seed ^= m_seed << 13;
	m_seed ^= m_seed >> 7;
	m_seed ^= m_seed << 17;
	return m_seed % n;
}

static uint64_t *m_blocks(const struct fkv_ring_entry *e)
{
	return &m_block[e->shard][e->vpos / UNIT % M_UNITS];
}

static bool m_intact(const struct m_entry *x)
{
	for (uint64_t i = 0; i < x->e->entry_len / UNIT; i++)
		if (m_blocks(x->e)[i] != x->serial)
			return false;
	return true;
}

/* who may still touch its bytes, and must not be overwritten */
static bool m_guards(const struct m_entry *x)
{
	if (!x->e || x->generation != m_generation[x->e->shard / 3])
		return x->e && x->writing;
	return x->writing || (x->e->state == FKV_RING_COMMITTED &&
			      (x->reads || x->commit_pin));
}

static void m_guarded_are_intact(void)
{
	for (int i = 0; i < M_ENTRIES; i++)
		if (m_guards(&m[i]))
			ck_assert(m_intact(&m[i]));
}

static void m_write(struct m_entry *x)
{
	uint64_t id = ++m_put_id - rng(3);
	struct fkv_ring_entry *e;
	uint64_t units = 2 + (rng(20) ? rng(8) : rng(M_UNITS - 1));
	int err = fkv_ring_reserve(ring, ring_key[rng(M_KEYS)], id,
				   (units - 1) * UNIT - rng(UNIT), &e);

	if (err) {
		ck_assert(err == -EBUSY || err == -EALREADY ||
			  err == -EINPROGRESS ||
			  (err == -ENODEV && m_off[0] && m_off[1]));
		return;
	}
	*x = (struct m_entry){
		.e = e, .serial = ++m_serial, .writing = true,
		.generation = m_generation[e->shard / 3],
	};
	ck_assert(!m_off[e->shard / 3]);
	ck_assert(e->entry_len == units * UNIT);
	ck_assert(!m_seq[e->shard] || e->seq > m_seq[e->shard]);
	m_seq[e->shard] = e->seq;
	for (uint64_t i = 0; i < units; i++)
		m_blocks(e)[i] = x->serial;
	m_guarded_are_intact();
}

static void m_read(struct m_entry *x, const struct m_entry *of)
{
	struct fkv_ring_entry *e;
	int err = fkv_ring_read_pin(ring, of->e->key, of->e->put_id, &e);

	if (err || e != of->e) {
		if (!err)
			fkv_ring_read_unpin(ring, e);
		return;
	}
	*x = (struct m_entry){
		.e = e, .serial = of->serial, .reads = 1,
		.generation = of->generation,
	};
	ck_assert(m_intact(x));
}

static void m_end(struct m_entry *x)
{
	struct fkv_ring_entry *e = x->e;
	uint32_t d = e->shard / 3;

	if (x->reads) {
		bool intact = m_intact(x);

		if (!rng(40))
			fkv_ring_drop(ring, e);
		if (!fkv_ring_read_unpin(ring, e))
			ck_assert(intact);
		x->e = NULL;
	} else if (x->commit_pin) {
		fkv_ring_commit_unpin(ring, e);
		x->e = NULL;
	} else if (rng(10) && !m_off[d]) {
		ck_assert(m_intact(x));
		x->writing = false;
		x->commit_pin = true;
		fkv_ring_commit(ring, e, 0);
	} else {
		fkv_ring_abort(ring, e);
		x->e = NULL;
	}
}

static void m_device(uint32_t d)
{
	if (!m_off[d]) {
		fkv_ring_device_off(ring, d);
		m_off[d] = true;
		m_generation[d]++;
	} else if (!fkv_ring_device_on(ring, d)) {
		m_off[d] = false;
	}
}

static void m_report(uint32_t shard)
{
	uint64_t seq;

	if (!fkv_ring_tail_moved(ring, shard, &seq))
		return;
	ck_assert_uint_ge(seq, m_reported[shard]);
	m_reported[shard] = seq;
}

static void m_step(void)
{
	struct m_entry *x = &m[rng(M_ENTRIES)], *of = &m[rng(M_ENTRIES)];
	uint64_t what = rng(1000);

	if (what < 3)
		m_device((uint32_t)rng(2));
	else if (what < 40)
		fkv_ring_retire(ring, ring_key[rng(M_KEYS)],
				m_put_id - rng(20));
	else if (what < 100)
		m_report((uint32_t)rng(M_SHARDS));
	else if (x->e)
		m_end(x);
	else if (what < 600 || !of->e || of->writing)
		m_write(x);
	else
		m_read(x, of);
}

static void m_run(uint64_t seed)
{
	memset(m, 0, sizeof(m));
	memset(m_block, 0, sizeof(m_block));
	memset(m_reported, 0, sizeof(m_reported));
	memset(m_seq, 0, sizeof(m_seq));
	memset(m_off, 0, sizeof(m_off));
	m_put_id = 100;
	m_seed = seed;
	ring_of(2, 3, M_UNITS);
	for (int i = 0; i < M_STEPS; i++) {
		m_step();
		fkv_ring_check(ring);
	}
	for (int i = 0; i < M_ENTRIES; i++)
		while (m[i].e)
			m_end(&m[i]);
	fkv_ring_check(ring);
	ck_assert_uint_gt(ring_stats().evictions, 1000);
	ck_assert_uint_gt(ring_stats().blocked_write +
				  ring_stats().blocked_read +
				  ring_stats().blocked_commit,
			  100);
	ck_assert_uint_gt(ring_stats().laps, 100);
}

START_TEST(random_walk_never_overwrites_what_is_in_use)
{
	m_run(88172645463325252ULL + (uint64_t)_i * 7919);
}
END_TEST

static uint64_t allocs, fail_at;

static bool fail_one(size_t size)
{
	(void)size;
	return ++allocs == fail_at;
}

START_TEST(ring_without_memory_is_enomem_at_every_allocation)
{
	struct fkv_ring_config cfg = { .nr_devices = 1 };
	int err = -ENOMEM;

	cfg.device[0].nr_shards = 1;
	cfg.device[0].ring_size = UNIT;
	cfg.device[0].unit = UNIT;
	for (fail_at = 1; err; fail_at++) {
		ck_assert_uint_lt(fail_at, 10);
		allocs = 0;
		fkv_alloc_fail = fail_one;
		err = fkv_ring_create(&cfg, &ring);
		fkv_alloc_fail = NULL;
		ck_assert(!err || err == -ENOMEM);
	}
	ck_assert_uint_gt(fail_at, 2);
}
END_TEST

/* O1 */
START_TEST(numbers_of_devices_add_up)
{
	struct fkv_ring_stats a, b;

	ring_of(2, 3, 8);
	ring_committed(0, 1, 2);
	ring_committed(1, 1, 3);
	ring_committed(2, 1, 4);
	fkv_ring_device_stats(ring, 0, &a);
	fkv_ring_device_stats(ring, 1, &b);
	ck_assert_uint_eq(a.capacity, 24 * UNIT);
	ck_assert_uint_eq(a.used, 6 * UNIT);
	ck_assert_uint_eq(b.used, 3 * UNIT);
	ck_assert_uint_eq(a.entries + b.entries, ring_stats().entries);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("ring walk");
	TCase *tc = tcase_create("walk");
	SRunner *sr;
	int failed;

	tcase_add_checked_fixture(tc, ring_setup, ring_teardown);
	tcase_set_timeout(tc, 60);
	tcase_add_test(tc, tail_report_coalesces_and_is_told_once);
	tcase_add_test(tc, tail_report_is_per_shard);
	tcase_add_test(tc, reported_seq_never_passes_a_commit_in_flight);
	tcase_add_test(tc, device_that_is_off_loses_its_entries_and_takes_none);
	tcase_add_test(tc,
		       device_comes_back_empty_when_its_writes_have_ended);
	tcase_add_test(tc, commit_pin_outlives_its_device);
	tcase_add_test(tc, reserve_without_memory_changes_nothing);
	tcase_add_loop_test(tc, random_walk_never_overwrites_what_is_in_use,
			    0, 3);
	tcase_add_test(tc, ring_without_memory_is_enomem_at_every_allocation);
	tcase_add_test(tc, numbers_of_devices_add_up);
	suite_add_tcase(s, tc);
	sr = srunner_create(s);
	srunner_run_all(sr, CK_NORMAL);
	failed = srunner_ntests_failed(sr);
	srunner_free(sr);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
