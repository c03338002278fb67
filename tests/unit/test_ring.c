// SPDX-License-Identifier: Apache-2.0
#include <check.h>
#include <stdio.h>
#include <stdlib.h>

#include "core/ssd/ring.h"

#define UNIT	FKV_BLOCK

static struct fkv_ring *ring;
static struct fkv_key *key[64];

static void ring_of(uint32_t devices, uint32_t shards, uint64_t units)
{
	struct fkv_ring_config cfg = { .nr_devices = devices };

	for (uint32_t d = 0; d < devices; d++) {
		cfg.device[d].nr_shards = shards;
		cfg.device[d].ring_size = units * UNIT;
		cfg.device[d].unit = UNIT;
	}
	ck_assert_int_eq(fkv_ring_create(&cfg, &ring), 0);
}

static void setup(void)
{
	fkv_alloc_fail = NULL;
	for (uint32_t i = 0; i < FKV_ARRAY_SIZE(key); i++) {
		char name[16];
		int n = snprintf(name, sizeof(name), "key-%u", i);

		key[i] = fkv_key_create(name, (size_t)n);
	}
}

static void teardown(void)
{
	fkv_alloc_fail = NULL;
	fkv_ring_free(ring);
	ring = NULL;
	for (uint32_t i = 0; i < FKV_ARRAY_SIZE(key); i++) {
		ck_assert_uint_eq(key[i]->refs, 1);
		fkv_key_put(key[i]);
	}
}

/* an entry that takes @units, header included */
static int reserve(int k, uint64_t id, uint64_t units,
		   struct fkv_ring_entry **ret)
{
	int err = fkv_ring_reserve(ring, key[k], id, (units - 1) * UNIT, ret);

	fkv_ring_check(ring);
	return err;
}

static struct fkv_ring_entry *writing(int k, uint64_t id, uint64_t units)
{
	struct fkv_ring_entry *e = NULL;

	ck_assert_int_eq(reserve(k, id, units, &e), 0);
	return e;
}

static struct fkv_ring_entry *committed(int k, uint64_t id, uint64_t units)
{
	struct fkv_ring_entry *e = writing(k, id, units);

	fkv_ring_commit(ring, e, id);
	fkv_ring_commit_unpin(ring, e);
	fkv_ring_check(ring);
	return e;
}

static int read_pin(int k, uint64_t id, struct fkv_ring_entry **ret)
{
	return fkv_ring_read_pin(ring, key[k], id, ret);
}

static bool readable(int k, uint64_t id)
{
	struct fkv_ring_entry *e;

	if (read_pin(k, id, &e))
		return false;
	ck_assert_int_eq(fkv_ring_read_unpin(ring, e), 0);
	return true;
}

static struct fkv_ring_stats stats(void)
{
	struct fkv_ring_stats st;

	fkv_ring_get_stats(ring, &st);
	return st;
}

/* S8 */
START_TEST(entry_is_a_header_and_payload_in_units)
{
	struct fkv_ring_entry *e;

	ring_of(1, 1, 8);
	ck_assert_int_eq(fkv_ring_reserve(ring, key[0], 1, 1, &e), 0);
	ck_assert_uint_eq(e->entry_len, 2 * UNIT);
	ck_assert_uint_eq(e->len, 1);
	ck_assert_int_eq(fkv_ring_reserve(ring, key[1], 1, UNIT + 1, &e), 0);
	ck_assert_uint_eq(e->entry_len, 3 * UNIT);
	ck_assert_uint_eq(e->vpos, 2 * UNIT);
	ck_assert_uint_eq(stats().used, 5 * UNIT);
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
	ck_assert_int_eq(fkv_ring_reserve(ring, key[0], 1, 5 * UNIT, &e), 0);
	ck_assert_uint_eq(e->entry_len, 12 * UNIT);
	fkv_ring_check(ring);
}
END_TEST

/* S5 */
START_TEST(oldest_entries_are_evicted_first)
{
	ring_of(1, 1, 8);
	for (int i = 0; i < 4; i++)
		committed(i, 1, 2);
	committed(4, 1, 2);
	ck_assert(!readable(0, 1));
	ck_assert(readable(1, 1));
	committed(5, 1, 3);
	ck_assert(!readable(1, 1) && !readable(2, 1));
	ck_assert(readable(3, 1) && readable(4, 1) && readable(5, 1));
	ck_assert_uint_eq(stats().evictions, 3);
}
END_TEST

/* S5 */
START_TEST(value_that_does_not_fit_before_the_end_starts_the_next_lap)
{
	struct fkv_ring_entry *e;

	ring_of(1, 1, 8);
	committed(0, 1, 6);
	e = writing(1, 1, 3);
	ck_assert_uint_eq(e->vpos, 8 * UNIT);
	ck_assert_uint_eq(e->skip_vpos, 6 * UNIT);
	ck_assert_uint_eq(e->skip_len, 2 * UNIT);
	ck_assert(!readable(0, 1));
	ck_assert_uint_eq(stats().laps, 1);
}
END_TEST

START_TEST(value_that_ends_at_the_end_skips_nothing)
{
	struct fkv_ring_entry *e;

	ring_of(1, 1, 8);
	committed(0, 1, 5);
	e = writing(1, 1, 3);
	ck_assert_uint_eq(e->vpos, 5 * UNIT);
	ck_assert_uint_eq(e->skip_len, 0);
	fkv_ring_commit(ring, e, 0);
	fkv_ring_commit_unpin(ring, e);
	e = writing(2, 1, 2);
	ck_assert_uint_eq(e->vpos, 8 * UNIT);
	ck_assert_uint_eq(e->skip_len, 0);
	ck_assert(readable(1, 1));
}
END_TEST

START_TEST(value_as_large_as_the_ring_is_taken_and_takes_all)
{
	ring_of(1, 1, 8);
	committed(0, 1, 2);
	committed(1, 1, 8);
	ck_assert(!readable(0, 1));
	ck_assert(readable(1, 1));
	ck_assert_uint_eq(stats().used, 8 * UNIT);
	committed(2, 1, 8);
	ck_assert(!readable(1, 1));
}
END_TEST

/* K1 */
START_TEST(value_larger_than_a_shard_is_refused_without_effect)
{
	struct fkv_ring_entry *e = NULL;

	ring_of(1, 4, 8);
	committed(0, 1, 8);
	ck_assert_int_eq(reserve(1, 1, 9, &e), -EFBIG);
	ck_assert_int_eq(fkv_ring_reserve(ring, key[1], 1, FKV_VALUE_MAX, &e),
			 -EFBIG);
	ck_assert_ptr_null(e);
	ck_assert(readable(0, 1));
}
END_TEST

/* S3 */
START_TEST(devices_and_their_shards_take_turns)
{
	static const uint32_t want[] = { 0, 2, 1, 3, 0, 2, 1, 3 };

	ring_of(2, 2, 16);
	for (int i = 0; i < 8; i++)
		ck_assert_uint_eq(committed(i, 1, 2)->shard, want[i]);
}
END_TEST

/* S5: each kind of what is in the way */
START_TEST(write_in_flight_blocks_its_shard)
{
	struct fkv_ring_entry *w, *e;

	ring_of(1, 1, 8);
	w = writing(0, 1, 8);
	ck_assert_int_eq(reserve(1, 1, 2, &e), -EBUSY);
	ck_assert_uint_eq(stats().blocked_write, 1);
	fkv_ring_abort(ring, w);
	ck_assert_int_eq(reserve(1, 1, 2, &e), 0);
}
END_TEST

START_TEST(read_pin_blocks_its_shard)
{
	struct fkv_ring_entry *r, *e;

	ring_of(1, 1, 8);
	committed(0, 1, 8);
	ck_assert_int_eq(read_pin(0, 1, &r), 0);
	ck_assert_int_eq(reserve(1, 1, 2, &e), -EBUSY);
	ck_assert_uint_eq(stats().blocked_read, 1);
	ck_assert_int_eq(fkv_ring_read_unpin(ring, r), 0);
	ck_assert_int_eq(reserve(1, 1, 2, &e), 0);
}
END_TEST

/* P7 */
START_TEST(commit_pin_blocks_until_the_master_answered)
{
	struct fkv_ring_entry *c, *e;

	ring_of(1, 1, 8);
	c = writing(0, 1, 8);
	fkv_ring_commit(ring, c, 5);
	ck_assert_int_eq(reserve(1, 1, 2, &e), -EBUSY);
	ck_assert_uint_eq(stats().blocked_commit, 1);
	fkv_ring_commit_unpin(ring, c);
	ck_assert_int_eq(reserve(1, 1, 2, &e), 0);
}
END_TEST

START_TEST(what_is_blocked_keeps_no_other_shard_back)
{
	struct fkv_ring_entry *r, *e;

	ring_of(1, 2, 8);
	committed(0, 1, 8);
	committed(1, 1, 8);
	ck_assert_int_eq(read_pin(0, 1, &r), 0);
	e = writing(2, 1, 2);
	ck_assert_uint_eq(e->shard, 1);
	fkv_ring_abort(ring, e);
	ck_assert_uint_eq(committed(3, 1, 2)->shard, 1);
	ck_assert_int_eq(fkv_ring_read_unpin(ring, r), 0);
	ck_assert_uint_eq(committed(4, 1, 2)->shard, 0);
}
END_TEST

START_TEST(blocked_device_passes_the_value_to_the_next)
{
	struct fkv_ring_entry *r;

	ring_of(2, 1, 8);
	committed(0, 1, 8);
	committed(1, 1, 8);
	ck_assert_int_eq(read_pin(0, 1, &r), 0);
	ck_assert_uint_eq(committed(2, 1, 2)->shard, 1);
	ck_assert_int_eq(fkv_ring_read_unpin(ring, r), 0);
}
END_TEST

/* S5 */
START_TEST(entry_the_tail_waits_for_gets_no_new_read_pins)
{
	struct fkv_ring_entry *r, *e, *again;

	ring_of(1, 1, 8);
	committed(0, 1, 4);
	committed(1, 1, 4);
	ck_assert_int_eq(read_pin(0, 1, &r), 0);
	ck_assert_int_eq(reserve(2, 1, 2, &e), -EBUSY);
	ck_assert_int_eq(read_pin(0, 1, &again), -ESTALE);
	ck_assert(readable(1, 1));
	ck_assert_int_eq(fkv_ring_read_unpin(ring, r), 0);
	committed(2, 1, 2);
	ck_assert_int_eq(read_pin(0, 1, &again), -ENOENT);
}
END_TEST

/* S6 */
START_TEST(only_committed_entries_of_the_same_version_are_read)
{
	struct fkv_ring_entry *w, *e;

	ring_of(1, 1, 8);
	w = writing(0, 7, 2);
	ck_assert_int_eq(read_pin(0, 7, &e), -ENOENT);
	fkv_ring_commit(ring, w, 99);
	ck_assert_int_eq(read_pin(0, 6, &e), -ENOENT);
	ck_assert_int_eq(read_pin(1, 7, &e), -ENOENT);
	ck_assert_int_eq(read_pin(0, 7, &e), 0);
	ck_assert_uint_eq(e->sum, 99);
	ck_assert_int_eq(fkv_ring_read_unpin(ring, e), 0);
	fkv_ring_commit_unpin(ring, w);
}
END_TEST

/* S6 */
START_TEST(aborted_entry_is_never_read_and_returns_its_accounting)
{
	ring_of(1, 1, 8);
	fkv_ring_abort(ring, writing(0, 1, 4));
	fkv_ring_check(ring);
	ck_assert(!readable(0, 1));
	ck_assert_uint_eq(stats().used, 0);
	committed(0, 1, 2);
	ck_assert(readable(0, 1));
}
END_TEST

/* S6 */
START_TEST(newer_version_is_kept_when_an_older_write_ends_later)
{
	struct fkv_ring_entry *old, *new;

	ring_of(1, 1, 8);
	old = writing(0, 1, 2);
	new = writing(0, 2, 2);
	fkv_ring_commit(ring, new, 0);
	fkv_ring_commit(ring, old, 0);
	fkv_ring_check(ring);
	ck_assert(readable(0, 2) && !readable(0, 1));
	fkv_ring_commit_unpin(ring, old);
	fkv_ring_commit_unpin(ring, new);
	ck_assert_uint_eq(stats().entries, 1);
}
END_TEST

START_TEST(newer_commit_makes_the_older_version_dead)
{
	ring_of(1, 1, 8);
	committed(0, 1, 2);
	committed(0, 2, 2);
	ck_assert(readable(0, 2) && !readable(0, 1));
	ck_assert_uint_eq(stats().entries, 1);
}
END_TEST

/* S6 */
START_TEST(same_version_twice_is_one_entry)
{
	struct fkv_ring_entry *w, *e;

	ring_of(1, 1, 8);
	w = writing(0, 1, 2);
	ck_assert_int_eq(reserve(0, 1, 2, &e), -EINPROGRESS);
	fkv_ring_commit(ring, w, 0);
	fkv_ring_commit_unpin(ring, w);
	ck_assert_int_eq(reserve(0, 1, 2, &e), -EALREADY);
	ck_assert_ptr_eq(e, w);
	fkv_ring_commit_pin(e);
	ck_assert_int_eq(reserve(1, 1, 8, &e), -EBUSY);
	fkv_ring_commit_unpin(ring, w);
	ck_assert_int_eq(reserve(1, 1, 8, &e), 0);
}
END_TEST

/* K6d */
START_TEST(retire_ends_older_versions_only)
{
	ring_of(1, 1, 8);
	committed(0, 5, 2);
	committed(1, 5, 2);
	fkv_ring_retire(ring, key[0], 4);
	ck_assert(readable(0, 5));
	fkv_ring_retire(ring, key[0], 5);
	fkv_ring_check(ring);
	ck_assert(!readable(0, 5));
	ck_assert(readable(1, 5));
	fkv_ring_retire(ring, key[0], 5);
}
END_TEST

/* S5 */
START_TEST(dead_entry_with_a_commit_pin_does_not_block)
{
	struct fkv_ring_entry *c;

	ring_of(1, 1, 8);
	c = writing(0, 1, 8);
	fkv_ring_commit(ring, c, 0);
	fkv_ring_retire(ring, key[0], 1);
	committed(1, 1, 8);
	ck_assert_uint_eq(c->put_id, 1);
	fkv_ring_commit_unpin(ring, c);
}
END_TEST

START_TEST(write_of_a_retired_version_still_blocks)
{
	struct fkv_ring_entry *w, *e;

	ring_of(1, 1, 8);
	w = writing(0, 1, 8);
	fkv_ring_retire(ring, key[0], 1);
	ck_assert_int_eq(reserve(1, 1, 2, &e), -EBUSY);
	fkv_ring_abort(ring, w);
	ck_assert_int_eq(reserve(1, 1, 2, &e), 0);
}
END_TEST

/* S6, S7 */
START_TEST(dropped_entry_leaves_the_index_at_once)
{
	struct fkv_ring_entry *r;

	ring_of(1, 1, 8);
	committed(0, 1, 2);
	ck_assert_int_eq(read_pin(0, 1, &r), 0);
	fkv_ring_drop(ring, r);
	fkv_ring_check(ring);
	ck_assert(!readable(0, 1));
	fkv_ring_drop(ring, r);
	fkv_ring_read_unpin(ring, r);
	committed(0, 1, 2);
	ck_assert(readable(0, 1));
}
END_TEST

/* S6 */
START_TEST(read_whose_bytes_were_taken_is_told)
{
	struct fkv_ring_entry *r;

	ring_of(2, 1, 8);
	committed(0, 1, 2);
	ck_assert_int_eq(read_pin(0, 1, &r), 0);
	fkv_ring_device_off(ring, r->shard);
	ck_assert_int_eq(fkv_ring_read_unpin(ring, r), -ENOENT);
}
END_TEST

/* S13 */
START_TEST(tail_report_coalesces_and_is_told_once)
{
	uint64_t seq = 77, first;
	struct fkv_ring_entry *e;

	ring_of(1, 1, 8);
	ck_assert(!fkv_ring_tail_moved(ring, 0, &seq));
	first = committed(0, 1, 4)->seq;
	committed(1, 1, 4);
	ck_assert(!fkv_ring_tail_moved(ring, 0, &seq));
	ck_assert_uint_eq(seq, 77);
	committed(2, 1, 4);
	e = committed(3, 1, 4);
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
	committed(0, 1, 8);
	committed(1, 1, 8);
	committed(2, 1, 8);
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
	committed(0, 1, 4);
	c = writing(1, 1, 4);
	fkv_ring_commit(ring, c, 0);
	committed(2, 1, 4);
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
	committed(0, 1, 2);
	committed(1, 1, 2);
	fkv_ring_device_off(ring, 0);
	fkv_ring_check(ring);
	ck_assert(!fkv_ring_device_works(ring, 0));
	ck_assert(!readable(0, 1) && readable(1, 1));
	ck_assert(fkv_ring_tail_moved(ring, 0, &seq));
	for (int i = 2; i < 5; i++)
		ck_assert_uint_eq(committed(i, 1, 2)->shard, 1);
	fkv_ring_device_off(ring, 1);
	ck_assert_int_eq(reserve(9, 1, 2, &e), -ENODEV);
}
END_TEST

START_TEST(device_comes_back_empty_when_its_writes_have_ended)
{
	struct fkv_ring_entry *w;

	ring_of(1, 1, 8);
	committed(0, 1, 2);
	w = writing(1, 1, 2);
	fkv_ring_device_off(ring, 0);
	fkv_ring_check(ring);
	ck_assert_int_eq(fkv_ring_device_on(ring, 0), -EBUSY);
	fkv_ring_abort(ring, w);
	ck_assert_int_eq(fkv_ring_device_on(ring, 0), 0);
	fkv_ring_check(ring);
	ck_assert(!readable(0, 1) && !readable(1, 1));
	ck_assert_uint_eq(stats().used, 0);
	committed(0, 1, 2);
	ck_assert(readable(0, 1));
}
END_TEST

START_TEST(commit_pin_outlives_its_device)
{
	struct fkv_ring_entry *c;

	ring_of(1, 1, 8);
	c = writing(0, 1, 2);
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
	committed(0, 1, 8);
	fkv_alloc_fail = fail_all;
	ck_assert_int_eq(reserve(1, 1, 2, &e), -ENOMEM);
	fkv_alloc_fail = NULL;
	ck_assert(readable(0, 1));
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
	int err = fkv_ring_reserve(ring, key[rng(M_KEYS)], id,
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
		fkv_ring_retire(ring, key[rng(M_KEYS)], m_put_id - rng(20));
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
	ck_assert_uint_gt(stats().evictions, 1000);
	ck_assert_uint_gt(stats().blocked_write + stats().blocked_read +
			  stats().blocked_commit, 100);
	ck_assert_uint_gt(stats().laps, 100);
}

START_TEST(random_walk_never_overwrites_what_is_in_use)
{
	m_run(88172645463325252ULL + (uint64_t)_i * 7919);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("ring");
	TCase *tc = tcase_create("ring");
	SRunner *sr;
	int failed;

	tcase_add_checked_fixture(tc, setup, teardown);
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
	suite_add_tcase(s, tc);
	sr = srunner_create(s);
	srunner_run_all(sr, CK_NORMAL);
	failed = srunner_ntests_failed(sr);
	srunner_free(sr);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
