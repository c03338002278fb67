/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cache.h - what the simulated eviction policies are made of
 *
 * A cache has room for a number of blocks of one size, known by their ids.
 * Each block is on one of the lists, newest at the head, or on none. The
 * blocks on the first lists of a policy are those that are cached; what is on
 * further ones is only remembered (a ghost). A policy moves blocks between
 * lists as they are accessed, and must not cache more than there is room for.
 *
 * One thread. Without memory the program ends.
 */
#ifndef FKV_TESTS_CACHE_H
#define FKV_TESTS_CACHE_H

#include <sys/queue.h>

#include "base/base.h"

#define CACHE_LISTS	10

struct trace {
	uint32_t *ids;
	size_t nr_ids, room_ids;
	size_t *ends;			/* of requests, in ids */
	size_t nr_requests, room_requests;
	uint32_t distinct;
	uint32_t nr_blocks;		/* ids are below */
};

struct block {
	TAILQ_ENTRY(block) link;
	uint32_t id;
	uint32_t count, time;		/* the policy's own */
	uint8_t list;			/* 0: on none */
};

TAILQ_HEAD(blocks, block);

struct list {
	struct blocks blocks;
	uint32_t count;
};

struct cache {
	const struct policy *policy;
	struct block *block;		/* by id */
	struct list list[CACHE_LISTS];
	uint32_t room, used;
	uint64_t seed;			/* of a hash, for who uses one */
};

/* The struct of a kind begins with its struct cache; zeroed before init. */
struct kind {
	size_t size;
	unsigned int lists;		/* 1 to this are cached */
	bool by_hash;			/* the seed moves its hits */
	void (*init)(struct cache *c, const struct trace *t);	/* or NULL */
	void (*access)(struct cache *c, struct block *b);
	void (*done)(struct cache *c);				/* or NULL */
};

struct policy {
	const struct kind *kind;
	const char *name;
	const char *note;		/* what its description leaves open */
	bool reverse;			/* a request's blocks, last to first */
	unsigned int first_percent;	/* room for its window, small queue */
	unsigned int threshold;		/* accesses that promote */
	double expected[3];
};

extern const struct kind arc_kind, belady_kind, clock_kind, fifo_kind,
	lfu_da_kind, lru_kind, mq_kind, s3_fifo_kind, sieve_kind,
	tiny_lfu_kind;

_Noreturn void fatal(const char *what);
void *array_create(size_t n, size_t size);	/* zeroed; free() it */

/* @room: at least 1. The trace, for offline policies, is what will come. */
struct cache *cache_create(const struct policy *p, uint32_t room,
			   const struct trace *t, uint64_t seed);
void cache_free(struct cache *c);

/* The block is cached afterwards, and was before if that returns true. */
bool cache_access(struct cache *c, uint32_t id);
bool cache_holds(const struct cache *c, const struct block *b);

/* To the head of list @to, or of none; from where it is now. */
void cache_move(struct cache *c, struct block *b, unsigned int to);
struct block *cache_oldest(const struct cache *c, unsigned int no);

/* A permutation of 64 bits that mixes well: MurmurHash3's finalizer. */
static inline uint64_t id_hash(uint64_t id)
{
	id = (id ^ id >> 33) * 0xff51afd7ed558ccdULL;
	id = (id ^ id >> 33) * 0xc4ceb9fe1a85ec53ULL;
	return id ^ id >> 33;
}

#endif
