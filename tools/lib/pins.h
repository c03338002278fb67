/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pins.h - a hit without a system call
 *
 * Looks a key up in the daemon's shared index and pins it in a slot of this
 * connection's pin pages, as fluxonkv-shm.h describes. It lives inside a
 * connection, owns none of the memory, and is used by any number of threads
 * without a lock. It never waits; whatever is not certain is FKV_PINS_ASK: ask
 * the daemon.
 *
 * The index is read-only here and its header was checked once; each number
 * read from it later is checked before it is used.
 */
#ifndef FKV_LIB_PINS_H
#define FKV_LIB_PINS_H

#include "lib.h"

#include <fluxonkv-shm.h>

#define FKV_PINS_SLOTS_MAX	65536u	/* a slot number has 16 bits */
#define FKV_PINS_RETRIES	3
#define FKV_PINS_SLACK_NS	(10 * FKV_LIB_MS) /* a coarse clock is late */

struct fkv_pins {
	const struct fluxonkv_index_header *index;	/* NULL: no index */
	const struct fluxonkv_index_bucket *buckets;
	const struct fluxonkv_index_entry *entries;
	struct fluxonkv_pins_header *pages;
	uint64_t *slots;
	uint32_t *ring;
	uint64_t segment_bytes;
	uint32_t nr_buckets;
	uint32_t nr_entries;
	uint32_t nr_slots;
	bool strict;
	uint32_t high_water;	/* atomic: at most what the pages say */
};

/* What was pinned, and where the pin is. */
struct fkv_pin {
	uint64_t offset;
	uint64_t len;
	uint64_t version;
	uint64_t token;		/* names slot and pin to fkv_pins_unpin() */
};

/* Bytes of the segment. */
struct fkv_range {
	uint64_t offset;
	uint64_t len;
};

enum fkv_pins_answer {
	FKV_PINS_HIT,
	FKV_PINS_ASK,
	FKV_PINS_REFUSED,	/* by the cap */
};

/*
 * The cap of pinned bytes: asked before a value is pinned, so that pins never
 * exceed it, not for a moment: the daemon closes who does. NULL: no cap.
 */
struct fkv_pins_cap {
	bool (*take)(struct fkv_pins_cap *cap, uint64_t len);
	void (*give)(struct fkv_pins_cap *cap, uint64_t len);
};

/* Sizes in bytes of index, pin pages and segment, as they are mapped. */
struct fkv_pins_sizes {
	uint64_t index;
	uint64_t pages;
	uint64_t segment;
};

/* Check the headers against the sizes: 0, or -EPROTO with a sentence. */
int fkv_pins_init(struct fkv_pins *pins, const void *index, void *pages,
		  const struct fkv_pins_sizes *sizes);

/* Pin the current version of a key. Only after FKV_PINS_HIT a slot is taken. */
enum fkv_pins_answer fkv_pins_get(struct fkv_pins *pins,
				  const struct fluxonkv_key *key,
				  struct fkv_pins_cap *cap,
				  struct fkv_pin *ret_pin);

/* Count a hit and tell the eviction policy of it (lossy). */
void fkv_pins_note(struct fkv_pins *pins, uint64_t token, uint64_t len);

/* Give a slot back; false when it does not hold what @token names. */
bool fkv_pins_unpin(struct fkv_pins *pins, uint64_t token);

/* Slots taken now. */
uint32_t fkv_pins_held(const struct fkv_pins *pins);

/* What is pinned, to @ret, which has room for all slots; how many. */
size_t fkv_pins_ranges(const struct fkv_pins *pins, struct fkv_range *ret);

/* Number of the calling thread, from 0: spreads threads over cache lines. */
unsigned int fkv_thread_nr(void);

#endif
