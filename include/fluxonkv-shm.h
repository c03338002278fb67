/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fluxonkv-shm.h - shared memory of the unix back end: index and pin pages
 *
 * Not installed: library and daemon of one build share it; magic and version
 * refuse a mix. The daemon alone writes the index, each client only its own
 * pin pages. Everything in them is read with atomics and checked against
 * bounds once; the other side may be hostile.
 *
 * Pinning (client) and retiring (daemon) meet in a store-load handshake:
 *
 *	client				daemon
 *	P1 slot = gen<<24 | index+1	R1 entry.gen = g + 1
 *	P2 fence(seq_cst)		R2 fence(seq_cst)
 *	P3 reread entry.gen		R3 read all slots
 *
 * Either P3 sees R1 and the client backs out, or R3 sees P1 and the extent
 * stays. An odd gen is dead; gen never repeats (40 bits).
 */
#ifndef FLUXONKV_SHM_H
#define FLUXONKV_SHM_H

#include <stdint.h>

#define FLUXONKV_INDEX_MAGIC	0x3158444956584b46ULL	/* "FKXVIDX1" */
#define FLUXONKV_PINS_MAGIC	0x3153504e49504b46ULL	/* "FKPINPS1" */
#define FLUXONKV_SHM_VERSION	1u

#define FLUXONKV_BUCKET_SLOTS	8u
#define FLUXONKV_INDEX_KEY_MAX	208u
#define FLUXONKV_INDEX_MAX	((1u << 24) - 2)	/* entries; index+1 < 2^24 */
#define FLUXONKV_HIT_RING	1024u		/* a power of two */

/* clocks are CLOCK_MONOTONIC (alive) and CLOCK_BOOTTIME (lease), in ns */
struct fluxonkv_index_header {
	uint64_t magic;
	uint32_t version;
	uint32_t strict;		/* check lease_until_ns on each hit */
	uint32_t nr_entries;
	uint32_t nr_buckets;		/* a power of two */
	uint64_t buckets_off;		/* bytes from the start of the index */
	uint64_t entries_off;
	uint64_t incarnation;
	uint8_t pad0[16];
	/* own cache line: written five times a second */
	uint64_t alive_until_ns __attribute__((aligned(64)));
	uint64_t lease_until_ns;
	uint8_t pad1[48];
};

/*
 * A key is looked for in two buckets: fluxonkv_bucket1/2() of its hash. A
 * bucket slot is tag << 32 | entry + 1, or 0.
 */
struct fluxonkv_index_bucket {
	uint64_t slot[FLUXONKV_BUCKET_SLOTS];
} __attribute__((aligned(64)));

struct fluxonkv_index_entry {
	uint64_t gen;			/* even: live; odd: dead */
	uint64_t put_id;
	uint64_t offset;		/* bytes from the start of the segment */
	uint64_t len;
	uint64_t key_len;
	uint64_t key[FLUXONKV_INDEX_KEY_MAX / 8];	/* zero padded */
	uint64_t zero;
} __attribute__((aligned(64)));

/* a pin: gen << 24 | entry + 1; 0 = free */
#define FLUXONKV_PIN(gen, entry)	((uint64_t)(gen) << 24 | ((entry) + 1))
#define FLUXONKV_PIN_ENTRY(pin)		((uint32_t)((pin) & 0xffffff) - 1)
#define FLUXONKV_PIN_GEN(pin)		((pin) >> 24)

/* What a pinned value of @len bytes counts against the caps: its pages. */
static inline uint64_t fluxonkv_charge(uint64_t len)
{
	return (len + 4095) & ~4095ULL;
}

/* counters that only the client adds to; the daemon reads them */
enum fluxonkv_pin_counter {
	FLUXONKV_CNT_HITS,		/* gets served from the index */
	FLUXONKV_CNT_HIT_BYTES,
	FLUXONKV_CNT_RETRIES,		/* gen changed under a pin */
	FLUXONKV_CNT_FULL,		/* no slot free: asked the daemon */
	FLUXONKV_CNT_NR = 8,
};

struct fluxonkv_pins_header {
	uint64_t magic;
	uint32_t version;
	uint32_t nr_slots;
	uint64_t slots_off;		/* bytes from the start of the pages */
	uint64_t ring_off;		/* FLUXONKV_HIT_RING x u32: entry + 1 */
	/* the client's line */
	uint64_t high_water __attribute__((aligned(64))); /* slots ever used */
	uint64_t ring_head;		/* hits ever written to the ring */
	uint64_t counter[FLUXONKV_CNT_NR];
	uint8_t pad[48];
};

static inline uint32_t fluxonkv_bucket1(uint64_t hash, uint32_t nr_buckets)
{
	return (uint32_t)hash & (nr_buckets - 1);
}

static inline uint32_t fluxonkv_tag(uint64_t hash)
{
	return (uint32_t)(hash >> 32);
}

/* differs from bucket1 and, xor'ed again, gives it back */
static inline uint32_t fluxonkv_bucket2(uint64_t hash, uint32_t nr_buckets)
{
	return (fluxonkv_bucket1(hash, nr_buckets) ^
		((fluxonkv_tag(hash) * 0x5bd1e995u) | 1)) &
	       (nr_buckets - 1);
}

_Static_assert(sizeof(struct fluxonkv_index_header) == 128, "index header");
_Static_assert(sizeof(struct fluxonkv_index_bucket) == 64, "bucket");
_Static_assert(sizeof(struct fluxonkv_index_entry) == 256, "index entry");
_Static_assert(sizeof(struct fluxonkv_pins_header) == 192, "pins header");

#endif
