/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ghost.h - how often keys were used that are no longer here
 *
 * A FIFO of (key hash, count), found by hash, 16 bytes an entry and about 4
 * for its bucket. The caller says with each call how many it may have; the
 * oldest go first. Entries live in chunks that come and go with the FIFO's
 * ends; buckets grow by linear hashing. So no call is long, and nothing is
 * ever copied to grow but the list of chunks.
 *
 * Embedded in a policy, one thread. It is only a memory: without room for an
 * entry the entry is lost, and two keys with one hash share it.
 */
#ifndef FKV_CORE_MASTER_GHOST_H
#define FKV_CORE_MASTER_GHOST_H

#include "base/base.h"

#define FKV_COUNT_MAX	15u

/* How often a key was used (0..15), and the epoch in which that was true. */
struct fkv_lfu_count {
	uint32_t f : 4;
	uint32_t live : 1;		/* the ghost's own */
	uint32_t epoch : 27;
};

struct fkv_ghost_chunk;

struct fkv_ghost {
	struct fkv_ghost_chunk **chunk;	/* a ring of mask + 1 */
	struct fkv_ghost_chunk *spare;
	uint32_t *block[32];		/* buckets: first entry of a chain */
	uint32_t mask;
	uint32_t head, tail;		/* sequence numbers of entries */
	uint32_t nr_buckets;
	uint32_t live;
};

void fkv_ghost_init(struct fkv_ghost *g);
void fkv_ghost_done(struct fkv_ghost *g);

/*
 * Remember @count for @hash. Drops up to 8 of the oldest for entries above
 * @limit, so that a limit that fell is reached soon, by no long call.
 */
void fkv_ghost_put(struct fkv_ghost *g, uint64_t hash,
		   struct fkv_lfu_count count, uint64_t limit);

/* Forget @hash and say what was remembered; false: nothing. */
bool fkv_ghost_take(struct fkv_ghost *g, uint64_t hash,
		    struct fkv_lfu_count *ret_count);

/* Only that drop. For callers whose limit falls. */
void fkv_ghost_trim(struct fkv_ghost *g, uint64_t limit);

/* Bytes of memory in use. */
uint64_t fkv_ghost_bytes(const struct fkv_ghost *g);

static inline uint32_t fkv_ghost_entries(const struct fkv_ghost *g)
{
	return g->head - g->tail;
}

#endif
