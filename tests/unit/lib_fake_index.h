/* SPDX-License-Identifier: Apache-2.0 */
/*
 * lib_fake_index.h - an index and pin pages for tests of the library
 *
 * Laid out in memory that the test gives, as the daemon would; publish and
 * retire are the daemon's side of fluxonkv-shm.h, without its scan.
 */
#ifndef FKV_TEST_LIB_FAKE_INDEX_H
#define FKV_TEST_LIB_FAKE_INDEX_H

#include <string.h>
#include <xxhash.h>

#include "pins.h"

#define FAKE_BUCKETS	64u
#define FAKE_ENTRIES	256u
#define FAKE_BUCKETS_OFF 128u
#define FAKE_ENTRIES_OFF (FAKE_BUCKETS_OFF + FAKE_BUCKETS * 64u)
#define FAKE_INDEX_BYTES (FAKE_ENTRIES_OFF + FAKE_ENTRIES * 256u)
#define FAKE_SLOTS	64u
#define FAKE_SLOTS_OFF	192u
#define FAKE_RING_OFF	(FAKE_SLOTS_OFF + FAKE_SLOTS * 8u)
#define FAKE_PAGES_BYTES (FAKE_RING_OFF + FLUXONKV_HIT_RING * 4u)

static inline void fake_alive(void *index, uint64_t ms)
{
	struct fluxonkv_index_header *h = index;

	__atomic_store_n(&h->alive_until_ns, fkv_now_ns() + ms * FKV_LIB_MS,
			 __ATOMIC_RELAXED);
}

static inline void fake_init(void *index, void *pages)
{
	*(struct fluxonkv_index_header *)index =
		(struct fluxonkv_index_header){
			.magic = FLUXONKV_INDEX_MAGIC,
			.version = FLUXONKV_SHM_VERSION,
			.nr_entries = FAKE_ENTRIES,
			.nr_buckets = FAKE_BUCKETS,
			.buckets_off = FAKE_BUCKETS_OFF,
			.entries_off = FAKE_ENTRIES_OFF,
		};
	*(struct fluxonkv_pins_header *)pages = (struct fluxonkv_pins_header){
		.magic = FLUXONKV_PINS_MAGIC,
		.version = FLUXONKV_SHM_VERSION,
		.nr_slots = FAKE_SLOTS,
		.slots_off = FAKE_SLOTS_OFF,
		.ring_off = FAKE_RING_OFF,
	};
	fake_alive(index, 3600 * 1000);
}

static inline struct fluxonkv_index_entry *fake_entry(void *index, uint32_t i)
{
	return (struct fluxonkv_index_entry *)((char *)index +
					       FAKE_ENTRIES_OFF) + i;
}

static inline struct fluxonkv_index_bucket *fake_bucket(void *index,
							uint32_t i)
{
	return (struct fluxonkv_index_bucket *)((char *)index +
						FAKE_BUCKETS_OFF) + i;
}

/* Make entry @nr (odd or new) live, with the fields of @want but gen. */
static inline void fake_publish(void *index, uint32_t nr,
				const struct fluxonkv_index_entry *want)
{
	struct fluxonkv_index_entry *e = fake_entry(index, nr);
	uint64_t gen = e->gen;

	__atomic_store_n(&e->put_id, want->put_id, __ATOMIC_RELAXED);
	__atomic_store_n(&e->offset, want->offset, __ATOMIC_RELAXED);
	__atomic_store_n(&e->len, want->len, __ATOMIC_RELAXED);
	__atomic_store_n(&e->key_len, want->key_len, __ATOMIC_RELAXED);
	for (size_t i = 0; i < FLUXONKV_INDEX_KEY_MAX / 8; i++)
		__atomic_store_n(&e->key[i], want->key[i], __ATOMIC_RELAXED);
	__atomic_store_n(&e->gen, (gen & 1) ? gen + 1 : gen + 2,
			 __ATOMIC_RELEASE);
}

/* Name entry @nr in the first (@which 1) or second bucket of @key. */
static inline void fake_link(void *index, uint32_t nr, const char *key,
			     int which)
{
	uint64_t hash = XXH3_128bits(key, strlen(key)).low64;
	uint32_t at = which == 1 ? fluxonkv_bucket1(hash, FAKE_BUCKETS) :
				   fluxonkv_bucket2(hash, FAKE_BUCKETS);
	struct fluxonkv_index_bucket *b = fake_bucket(index, at);

	for (int i = 0; i < (int)FLUXONKV_BUCKET_SLOTS; i++) {
		if (!b->slot[i]) {
			b->slot[i] = (uint64_t)fluxonkv_tag(hash) << 32 |
				     (nr + 1);
			return;
		}
	}
}

static inline void fake_add(void *index, uint32_t nr, const char *key,
			    uint64_t offset, uint64_t len)
{
	struct fluxonkv_index_entry want = {
		.put_id = 1000 + nr,
		.offset = offset,
		.len = len,
		.key_len = strlen(key),
	};

	memcpy(want.key, key, strlen(key));
	fake_publish(index, nr, &want);
	fake_link(index, nr, key, 1);
}

static inline void fake_retire(void *index, uint32_t nr)
{
	struct fluxonkv_index_entry *e = fake_entry(index, nr);

	__atomic_store_n(&e->gen, e->gen + 1, __ATOMIC_RELEASE);	/* R1 */
	__atomic_thread_fence(__ATOMIC_SEQ_CST);			/* R2 */
}

/* R3: does any slot hold entry @nr? */
static inline bool fake_pinned(void *pages, uint32_t nr)
{
	struct fluxonkv_pins_header *h = pages;
	uint64_t *slots = (uint64_t *)((char *)pages + FAKE_SLOTS_OFF);
	uint64_t high = __atomic_load_n(&h->high_water, __ATOMIC_ACQUIRE);

	for (uint64_t i = 0; i < high && i < FAKE_SLOTS; i++) {
		uint64_t pin = __atomic_load_n(&slots[i], __ATOMIC_ACQUIRE);

		if (pin && FLUXONKV_PIN_ENTRY(pin) == nr)
			return true;
	}
	return false;
}

#endif
