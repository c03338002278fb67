// SPDX-License-Identifier: Apache-2.0
/*
 * mq.c - multi-queue: LRU lists by the logarithm of the accesses
 *
 * Zhou, Philbin and Li, USENIX 2001. A block that is not accessed for its
 * life goes down by one list; what is evicted leaves its count in a FIFO
 * ghost. Eight lists; life (in accesses) and ghost as large as the room.
 */
#include <assert.h>

#include "cache.h"

enum { OUT, LOWEST, HIGHEST = LOWEST + 7, GHOST };

static_assert(GHOST < CACHE_LISTS, "one list for each");

struct mq {
	struct cache cache;
	uint32_t now;
};

static unsigned int list_of(uint32_t count)
{
	return fkv_min_u64(LOWEST + 31 - __builtin_clz(count), HIGHEST);
}

static void enter(struct mq *mq, struct block *b, unsigned int no)
{
	b->time = mq->now + mq->cache.room;
	cache_move(&mq->cache, b, no);
}

static void age(struct mq *mq)
{
	for (unsigned int no = LOWEST + 1; no <= HIGHEST; no++) {
		struct block *b = cache_oldest(&mq->cache, no);

		if (b && b->time < mq->now)
			enter(mq, b, no - 1);
	}
}

static void make_room(struct cache *c)
{
	unsigned int no = LOWEST;

	while (!c->list[no].count)
		no++;
	if (c->list[GHOST].count == c->room)
		cache_move(c, cache_oldest(c, GHOST), OUT);
	cache_move(c, cache_oldest(c, no), GHOST);
}

static void mq_access(struct cache *c, struct block *b)
{
	struct mq *mq = fkv_container_of(c, struct mq, cache);

	mq->now++;
	if (b->list == OUT)
		b->count = 0;
	if (!cache_holds(c, b)) {
		cache_move(c, b, OUT);
		if (c->used == c->room)
			make_room(c);
	}
	enter(mq, b, list_of(++b->count));
	age(mq);
}

const struct kind mq_kind = {
	.size = sizeof(struct mq),
	.lists = HIGHEST,
	.access = mq_access,
};
