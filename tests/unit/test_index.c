// SPDX-License-Identifier: Apache-2.0
/* The daemon's half of the shared index; the pins are written by hand here. */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include "io/index.h"

#define ENTRIES	8u
#define SLOTS	16u
#define LEN	5000u		/* two pages of 4 KiB */

static struct fkv_index *ix;
static struct fkv_pins *pins;
static const struct fluxonkv_index_header *seen;	/* as a client maps it */
static struct fkv_entry *scanned[32];
static unsigned int nr_scanned;
static struct fkv_entry *hit[4096];
static unsigned int nr_hits;

static void on_scanned(void *arg, struct fkv_entry *e)
{
	(void)arg;
	scanned[nr_scanned++] = e;
}

static void on_hits(void *arg, struct fkv_entry *e, uint64_t n)
{
	(void)arg;
	ck_assert_uint_eq(n, 1);
	hit[nr_hits++] = e;
}

static const struct fkv_index_ops ops = {
	.scanned = on_scanned, .hits = on_hits,
};

static void setup(void)
{
	nr_scanned = nr_hits = 0;
	ck_assert_int_eq(fkv_index_create(ENTRIES, 77, false, &ix), 0);
	ck_assert_int_eq(fkv_pins_create(ix, SLOTS, &pins), 0);
	seen = mmap(NULL, fkv_index_size(ix), PROT_READ, MAP_SHARED,
		    fkv_index_fd(ix), 0);
	ck_assert_ptr_ne(seen, MAP_FAILED);
}

static void teardown(void)
{
	fkv_pins_free(pins);
	munmap((void *)(uintptr_t)seen, fkv_index_size(ix));
	fkv_index_free(ix);
}

static struct fkv_entry *entry(const char *name, size_t key_len)
{
	struct fkv_entry *e = fkv_zalloc(sizeof(*e));
	char key[FKV_KEY_MAX];

	ck_assert_ptr_nonnull(e);
	memset(key, 'x', sizeof(key));
	memcpy(key, name, strlen(name));
	e->key = fkv_key_create(key, key_len ? key_len : strlen(name));
	ck_assert_ptr_nonnull(e->key);
	e->put_id = 42;
	e->offset = 8192;
	e->len = LEN;
	e->live = true;
	e->slot = FKV_NO_SLOT;
	return e;
}

static void drop(struct fkv_entry *e)
{
	fkv_key_put(e->key);
	fkv_free(e);
}

static const struct fluxonkv_index_entry *at(uint32_t slot)
{
	return (const void *)((const char *)seen + seen->entries_off +
			      slot * sizeof(struct fluxonkv_index_entry));
}

static uint64_t *slot(unsigned int i)
{
	return (uint64_t *)((char *)pins->map +
			    sizeof(struct fluxonkv_pins_header)) + i;
}

static struct fluxonkv_pins_header *header(void)
{
	return pins->map;
}

/* As a client does, when the entry is live. */
static void pin(unsigned int i, const struct fkv_entry *e)
{
	if (header()->high_water < i + 1)
		header()->high_water = i + 1;
	*slot(i) = FLUXONKV_PIN(at(e->slot)->gen, e->slot);
}

static enum fkv_evict_result evict(struct fkv_entry *e)
{
	enum fkv_evict_result res;

	fkv_index_evict(ix, &e, 1, &res);
	return res;
}

static unsigned int in_buckets(uint32_t i)
{
	const struct fluxonkv_index_bucket *b;
	unsigned int n = 0;

	b = (const void *)((const char *)seen + seen->buckets_off);
	for (uint32_t k = 0; k < seen->nr_buckets; k++)
		for (unsigned int s = 0; s < FLUXONKV_BUCKET_SLOTS; s++)
			n += (uint32_t)b[k].slot[s] == i + 1;
	return n;
}

START_TEST(published_entry_is_there_with_all_its_fields)
{
	struct fkv_entry *e = entry("key/1", 0);

	fkv_index_publish(ix, e);
	ck_assert_uint_ne(e->slot, FKV_NO_SLOT);
	ck_assert_uint_eq(at(e->slot)->gen % 2, 0);
	ck_assert_uint_eq(at(e->slot)->put_id, 42);
	ck_assert_uint_eq(at(e->slot)->offset, 8192);
	ck_assert_uint_eq(at(e->slot)->len, LEN);
	ck_assert_uint_eq(at(e->slot)->key_len, 5);
	ck_assert_mem_eq(at(e->slot)->key, "key/1\0\0", 8);
	ck_assert_uint_eq(in_buckets(e->slot), 1);
	ck_assert_int_eq(evict(e), FKV_EVICT_OK);
	ck_assert_uint_eq(e->slot, FKV_NO_SLOT);
	drop(e);
}
END_TEST

/* rule 12: too long for the room, or no room: by message */
START_TEST(what_does_not_fit_is_not_published)
{
	struct fkv_entry *e[ENTRIES + 1], *l = entry("long", 209);
	struct fkv_index_stats s;

	fkv_index_publish(ix, l);
	ck_assert_uint_eq(l->slot, FKV_NO_SLOT);
	ck_assert_int_eq(evict(l), FKV_EVICT_OK);
	fkv_index_retire(ix, l);
	fkv_index_scan(ix, &ops, NULL);
	ck_assert_uint_eq(nr_scanned, 1);
	drop(l);
	l = entry("just", 208);
	fkv_index_publish(ix, l);
	ck_assert_uint_ne(l->slot, FKV_NO_SLOT);
	ck_assert_int_eq(evict(l), FKV_EVICT_OK);
	drop(l);
	for (unsigned int i = 0; i <= ENTRIES; i++) {
		char name[8];

		sprintf(name, "n%u", i);
		e[i] = entry(name, 0);
		fkv_index_publish(ix, e[i]);
	}
	ck_assert_uint_eq(e[ENTRIES]->slot, FKV_NO_SLOT);
	fkv_index_get_stats(ix, &s);
	ck_assert_uint_eq(s.used, ENTRIES);
	ck_assert_uint_eq(s.not_published, 2);
	for (unsigned int i = 0; i <= ENTRIES; i++) {
		ck_assert_int_eq(evict(e[i]), FKV_EVICT_OK);
		drop(e[i]);
	}
}
END_TEST

/* Both buckets of a key full: by message, too. */
START_TEST(full_buckets_leave_an_entry_out)
{
	struct fkv_entry *e[4096] = { NULL };
	struct fkv_index *big;
	struct fkv_index_stats s;
	unsigned int n = 0;

	/* all of one bucket pair: same low bits and tag are a matter of luck */
	ck_assert_int_eq(fkv_index_create(4096, 1, true, &big), 0);
	for (; n < 4096; n++) {
		char name[16];

		sprintf(name, "b%u", n);
		e[n] = entry(name, 0);
		/* a test's hash: the key's bytes do not matter to buckets */
		e[n]->key->hash.low = 5;
		fkv_index_publish(big, e[n]);
		if (e[n]->slot == FKV_NO_SLOT)
			break;
	}
	ck_assert_uint_eq(n, 2 * FLUXONKV_BUCKET_SLOTS);
	fkv_index_get_stats(big, &s);
	ck_assert_uint_eq(s.not_published, 1);
	for (unsigned int i = 0; i <= n; i++) {
		enum fkv_evict_result res;

		fkv_index_evict(big, &e[i], 1, &res);
		ck_assert_int_eq(res, FKV_EVICT_OK);
		drop(e[i]);
	}
	fkv_index_free(big);
}
END_TEST

/* rules 7 and 8 */
START_TEST(retired_entry_waits_for_its_pins)
{
	struct fkv_entry *e = entry("k", 0), *f = entry("l", 0);
	uint64_t gen;

	fkv_index_publish(ix, e);
	fkv_index_publish(ix, f);
	pin(3, e);
	gen = at(e->slot)->gen;
	fkv_index_retire(ix, e);
	fkv_index_retire(ix, f);
	ck_assert_uint_eq(at(e->slot)->gen, gen + 1);
	ck_assert_uint_eq(in_buckets(e->slot), 0);
	ck_assert_uint_eq(fkv_index_retired(ix), 2);
	fkv_index_scan(ix, &ops, NULL);
	ck_assert_uint_eq(nr_scanned, 1);
	ck_assert_ptr_eq(scanned[0], f);
	fkv_index_scan(ix, &ops, NULL);
	ck_assert_uint_eq(nr_scanned, 1);
	*slot(3) = 0;
	fkv_index_scan(ix, &ops, NULL);
	ck_assert_uint_eq(nr_scanned, 2);
	ck_assert_uint_eq(fkv_index_retired(ix), 0);
	fkv_index_scan(ix, &ops, NULL);	/* of nothing */
	drop(e);
	drop(f);
}
END_TEST

/* What is not in the index can be more than it has room for. */
START_TEST(any_number_of_unpublished_entries_can_be_retired)
{
	struct fkv_entry *e[3 * ENTRIES];

	for (unsigned int i = 0; i < 3 * ENTRIES; i++) {
		e[i] = entry("long", 209);
		fkv_index_publish(ix, e[i]);
		fkv_index_retire(ix, e[i]);
	}
	fkv_index_scan(ix, &ops, NULL);
	ck_assert_uint_eq(nr_scanned, 3 * ENTRIES);
	for (unsigned int i = 0; i < 3 * ENTRIES; i++)
		drop(e[i]);
}
END_TEST

/* rule 10: pinned victims are skipped; rule 16: found dead they are HELD */
START_TEST(pinned_victim_is_busy_and_a_dead_one_held)
{
	struct fkv_entry *e = entry("k", 0);

	fkv_index_publish(ix, e);
	pin(0, e);
	ck_assert_int_eq(evict(e), FKV_EVICT_BUSY);
	ck_assert_uint_eq(at(e->slot)->gen % 2, 0);
	fkv_index_retire(ix, e);
	ck_assert_int_eq(evict(e), FKV_EVICT_HELD);
	fkv_index_retire(ix, e);	/* dead already: waits a second time */
	*slot(0) = 0;
	fkv_index_scan(ix, &ops, NULL);
	ck_assert_uint_ge(nr_scanned, 1);
	drop(e);
}
END_TEST

/* rule 8: a client's memory is not believed */
START_TEST(impossible_pins_are_ignored)
{
	struct fkv_entry *e = entry("k", 0);

	fkv_index_publish(ix, e);
	header()->high_water = UINT64_MAX;
	*slot(0) = FLUXONKV_PIN(at(e->slot)->gen, (uint64_t)ENTRIES);
	*slot(1) = FLUXONKV_PIN(at(e->slot)->gen + 2, (uint64_t)e->slot);
	*slot(2) = ~0ULL;
	*slot(SLOTS - 1) = FLUXONKV_PIN(1, (uint64_t)e->slot + 1);
	ck_assert_uint_eq(fkv_pins_count(pins), 0);
	ck_assert_uint_eq(fkv_index_count(ix), 0);
	ck_assert_int_eq(evict(e), FKV_EVICT_OK);
	drop(e);
}
END_TEST

/* H4: whole pages, each entry once for all, dead ones only for who pins */
START_TEST(pins_are_counted_in_pages)
{
	struct fkv_entry *e = entry("k", 0), *f = entry("l", 0);
	struct fkv_pins *other;

	ck_assert_int_eq(fkv_pins_create(ix, SLOTS, &other), 0);
	fkv_index_publish(ix, e);
	fkv_index_publish(ix, f);
	pin(0, e);
	pin(1, e);
	pin(2, f);
	ck_assert_uint_eq(fkv_pins_count(pins), 3 * 8192);
	ck_assert_uint_eq(pins->pinned, 3);
	ck_assert_uint_eq(fkv_index_count(ix), 2 * 8192);
	/* P4: with a holder by message, too, it is the owner's to count */
	e->pins = 1;
	ck_assert_uint_eq(fkv_index_count(ix), 8192);
	e->pins = 0;
	/* and what waits for its first persist the master's */
	f->pending = true;
	ck_assert_uint_eq(fkv_index_count(ix), 8192);
	ck_assert(f->read && !e->read);
	f->pending = false;
	f->live = false;
	ck_assert_uint_eq(fkv_index_count(ix), 8192);
	ck_assert_uint_eq(pins->pinned_bytes, 3 * 8192);
	for (unsigned int i = 0; i < 3; i++)
		*slot(i) = 0;
	ck_assert_int_eq(evict(e), FKV_EVICT_OK);
	ck_assert_int_eq(evict(f), FKV_EVICT_OK);
	fkv_pins_free(other);
	fkv_pins_free(NULL);
	drop(e);
	drop(f);
}
END_TEST

/* Slots that a request of the client makes be read. */
static uint64_t counted(uint64_t bytes)
{
	struct fkv_index_stats before, after;

	fkv_index_get_stats(ix, &before);
	ck_assert_uint_eq(fkv_pins_count(pins), bytes);
	fkv_index_get_stats(ix, &after);
	return after.counted_slots - before.counted_slots;
}

/* H4: many pins once do not make all later requests slow */
START_TEST(slots_that_were_pinned_once_are_not_counted_for_ever)
{
	struct fkv_entry *e = entry("k", 0);

	fkv_pins_free(pins);
	ck_assert_int_eq(fkv_pins_create(ix, FKV_PINS_MAX, &pins), 0);
	fkv_index_publish(ix, e);
	for (unsigned int i = 0; i < FKV_PINS_MAX - 64; i++)
		pin(i, e);
	ck_assert_uint_eq(counted((FKV_PINS_MAX - 64) * 8192ULL),
			  FKV_PINS_MAX - 64);
	for (unsigned int i = 0; i < FKV_PINS_MAX - 64; i++)
		*slot(i) = 0;
	pin(5000, e);
	fkv_index_count(ix);
	ck_assert_uint_eq(counted(8192), 64);
	/* its neighbour, and what is used for the first time, are seen at once */
	pin(5001, e);
	pin(FKV_PINS_MAX - 1, e);
	ck_assert_uint_eq(counted(3 * 8192), 128);
	/* another one by the full count, and then each time */
	pin(70, e);
	ck_assert_uint_eq(counted(3 * 8192), 128);
	ck_assert_uint_eq(fkv_index_count(ix), 8192);
	ck_assert_uint_eq(counted(4 * 8192), 192);
	/* what is free again costs nothing after the next one */
	*slot(5000) = *slot(5001) = *slot(70) = *slot(FKV_PINS_MAX - 1) = 0;
	ck_assert_uint_eq(counted(0), 192);
	fkv_index_count(ix);
	ck_assert_uint_eq(counted(0), 0);
	ck_assert_int_eq(evict(e), FKV_EVICT_OK);
	drop(e);
}
END_TEST

/* H4: the pins of a client with the usual slots are those of this moment */
START_TEST(few_slots_are_all_counted_each_time)
{
	struct fkv_entry *e = entry("k", 0);

	fkv_pins_free(pins);
	ck_assert_int_eq(fkv_pins_create(ix, FKV_PINS_EXACT, &pins), 0);
	fkv_index_publish(ix, e);
	pin(FKV_PINS_EXACT - 1, e);
	*slot(FKV_PINS_EXACT - 1) = 0;
	fkv_index_count(ix);
	pin(100, e);
	ck_assert_uint_eq(counted(8192), FKV_PINS_EXACT);
	*slot(100) = 0;
	ck_assert_int_eq(evict(e), FKV_EVICT_OK);
	drop(e);
}
END_TEST

static void note(uint32_t what)
{
	uint32_t *ring = (uint32_t *)(void *)((char *)pins->map +
					      header()->ring_off);

	ring[header()->ring_head++ & (FLUXONKV_HIT_RING - 1)] = what;
}

/* the hit ring: in order, lossy, odd values and dead entries are skipped */
START_TEST(hits_reach_the_policy_in_order)
{
	struct fkv_entry *e = entry("k", 0), *f = entry("l", 0);
	struct fkv_index_stats s;

	fkv_index_publish(ix, e);
	fkv_index_publish(ix, f);
	note(e->slot + 1);
	note(0);
	note(ENTRIES + 1);
	note(f->slot + 1);
	note(7);	/* nobody's */
	fkv_pins_hits(pins, &ops, NULL);
	ck_assert_uint_eq(nr_hits, 2);
	ck_assert_ptr_eq(hit[0], e);
	ck_assert_ptr_eq(hit[1], f);
	f->live = false;
	note(f->slot + 1);
	fkv_pins_hits(pins, &ops, NULL);
	ck_assert_uint_eq(nr_hits, 2);
	for (unsigned int i = 0; i < FLUXONKV_HIT_RING + 5; i++)
		note(e->slot + 1);
	fkv_pins_hits(pins, &ops, NULL);
	ck_assert_uint_eq(nr_hits, 2 + FLUXONKV_HIT_RING);
	fkv_index_get_stats(ix, &s);
	ck_assert_uint_eq(s.hits_lost, 5);
	ck_assert_int_eq(evict(e), FKV_EVICT_OK);
	ck_assert_int_eq(evict(f), FKV_EVICT_OK);
	drop(e);
	drop(f);
}
END_TEST

START_TEST(counters_only_rise)
{
	struct fkv_index_stats s;

	header()->counter[FLUXONKV_CNT_HITS] = 10;
	fkv_index_get_stats(ix, &s);
	ck_assert_uint_eq(s.counter[FLUXONKV_CNT_HITS], 10);
	header()->counter[FLUXONKV_CNT_HITS] = 3;
	fkv_index_get_stats(ix, &s);
	ck_assert_uint_eq(s.counter[FLUXONKV_CNT_HITS], 10);
	header()->counter[FLUXONKV_CNT_HITS] = 12;
	fkv_index_get_stats(ix, &s);
	ck_assert_uint_eq(s.counter[FLUXONKV_CNT_HITS], 12);
}
END_TEST

/* rules 1 and 5 */
START_TEST(header_says_who_how_long_and_how)
{
	struct fkv_index *strict;

	ck_assert_uint_eq(seen->incarnation, 77);
	ck_assert_uint_eq(seen->strict, 0);
	ck_assert_uint_eq(seen->alive_until_ns, 0);
	fkv_index_alive(ix, 1000);
	fkv_index_lease(ix, 2000);
	ck_assert_uint_eq(seen->alive_until_ns, 1000);
	ck_assert_uint_eq(seen->lease_until_ns, 2000);
	ck_assert_int_eq(fkv_index_create(1, 1, true, &strict), 0);
	fkv_index_free(strict);
	fkv_index_free(NULL);
}
END_TEST

static unsigned int fail_at, allocations;

static bool fail_one(size_t size)
{
	(void)size;
	return ++allocations == fail_at;
}

static void fail_nth(unsigned int n)
{
	fail_at = n;
	allocations = 0;
	fkv_alloc_fail = n ? fail_one : NULL;
}

START_TEST(creation_without_memory_is_enomem)
{
	struct fkv_index *other = NULL;
	struct fkv_pins *more = NULL;

	for (unsigned int n = 1; n <= 5; n++) {
		fail_nth(n);
		ck_assert_int_eq(fkv_index_create(16, 1, false, &other),
				 -ENOMEM);
	}
	fail_nth(1);
	ck_assert_int_eq(fkv_pins_create(ix, SLOTS, &more), -ENOMEM);
	fail_nth(0);
}
END_TEST

/* No descriptor but @n more, by the limit of this process. */
static void descriptors(unsigned int n)
{
	static int lowest = -1;
	struct rlimit rl;

	if (lowest < 0) {
		lowest = dup(0);
		ck_assert_int_ge(lowest, 0);
		close(lowest);
	}
	ck_assert_int_eq(getrlimit(RLIMIT_NOFILE, &rl), 0);
	rl.rlim_cur = n == ~0u ? rl.rlim_max : (rlim_t)lowest + n;
	ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &rl), 0);
}

START_TEST(creation_without_descriptors_is_emfile)
{
	struct fkv_index *other = NULL;
	struct fkv_pins *more = NULL;

	for (unsigned int n = 0; n < 2; n++) {
		descriptors(n);
		ck_assert_int_eq(fkv_index_create(16, 1, false, &other),
				 -EMFILE);
	}
	descriptors(0);
	ck_assert_int_eq(fkv_pins_create(ix, SLOTS, &more), -EMFILE);
	descriptors(~0u);
}
END_TEST

/* Clients leave in any order. */
START_TEST(pin_pages_go_in_any_order)
{
	struct fkv_entry *e = entry("k", 0);
	struct fkv_pins *other;

	fkv_index_publish(ix, e);
	pin(0, e);
	ck_assert_int_eq(fkv_pins_create(ix, SLOTS, &other), 0);
	fkv_pins_free(pins);
	ck_assert_int_eq(evict(e), FKV_EVICT_OK);
	pins = other;
	drop(e);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("index");
	TCase *tc = tcase_create("daemon");
	SRunner *sr = srunner_create(s);
	int failed;

	tcase_add_checked_fixture(tc, setup, teardown);
	tcase_add_test(tc, published_entry_is_there_with_all_its_fields);
	tcase_add_test(tc, what_does_not_fit_is_not_published);
	tcase_add_test(tc, full_buckets_leave_an_entry_out);
	tcase_add_test(tc, retired_entry_waits_for_its_pins);
	tcase_add_test(tc, pinned_victim_is_busy_and_a_dead_one_held);
	tcase_add_test(tc, impossible_pins_are_ignored);
	tcase_add_test(tc, pins_are_counted_in_pages);
	tcase_add_test(tc,
		       slots_that_were_pinned_once_are_not_counted_for_ever);
	tcase_add_test(tc, few_slots_are_all_counted_each_time);
	tcase_add_test(tc, hits_reach_the_policy_in_order);
	tcase_add_test(tc, counters_only_rise);
	tcase_add_test(tc, header_says_who_how_long_and_how);
	tcase_add_test(tc, creation_without_memory_is_enomem);
	tcase_add_test(tc, creation_without_descriptors_is_emfile);
	tcase_add_test(tc, pin_pages_go_in_any_order);
	tcase_add_test(tc, any_number_of_unpublished_entries_can_be_retired);
	suite_add_tcase(s, tc);
	srunner_run_all(sr, CK_NORMAL);
	failed = srunner_ntests_failed(sr);
	srunner_free(sr);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
