// SPDX-License-Identifier: Apache-2.0
/*
 * one_list.c - FIFO, LRU, CLOCK and SIEVE: one list, differently aged
 *
 * CLOCK with counters of two bits: a block enters with 0, each hit counts up
 * to 3, the hand counts down what it passes and takes the first that has 0.
 * SIEVE: Zhang et al., NSDI 2024; one bit, and the hand leaves in place what
 * it passes.
 */
#include "cache.h"

#define CLOCK_MAX	3u

enum { OUT, IN };

struct sieve {
	struct cache cache;
	struct block *hand;		/* NULL: at the oldest */
};

static void fifo_access(struct cache *c, struct block *b)
{
	if (cache_holds(c, b))
		return;
	if (c->used == c->room)
		cache_move(c, cache_oldest(c, IN), OUT);
	cache_move(c, b, IN);
}

static void lru_access(struct cache *c, struct block *b)
{
	if (cache_holds(c, b))
		cache_move(c, b, IN);
	else
		fifo_access(c, b);
}

static void clock_make_room(struct cache *c)
{
	struct block *oldest = cache_oldest(c, IN);

	while (oldest->count) {
		oldest->count--;
		cache_move(c, oldest, IN);
		oldest = cache_oldest(c, IN);
	}
	cache_move(c, oldest, OUT);
}

static void clock_access(struct cache *c, struct block *b)
{
	if (cache_holds(c, b)) {
		b->count = fkv_min_u64(b->count + 1, CLOCK_MAX);
		return;
	}
	if (c->used == c->room)
		clock_make_room(c);
	cache_move(c, b, IN);
}

static void sieve_make_room(struct cache *c)
{
	struct sieve *sieve = fkv_container_of(c, struct sieve, cache);
	struct block *b = sieve->hand ? sieve->hand : cache_oldest(c, IN);

	while (b->count) {
		b->count = 0;
		b = TAILQ_PREV(b, blocks, link);
		if (!b)
			b = cache_oldest(c, IN);
	}
	sieve->hand = TAILQ_PREV(b, blocks, link);
	cache_move(c, b, OUT);
}

static void sieve_access(struct cache *c, struct block *b)
{
	if (cache_holds(c, b)) {
		b->count = 1;
		return;
	}
	if (c->used == c->room)
		sieve_make_room(c);
	cache_move(c, b, IN);
}

const struct kind fifo_kind = {
	.size = sizeof(struct cache),
	.lists = IN,
	.access = fifo_access,
};

const struct kind lru_kind = {
	.size = sizeof(struct cache),
	.lists = IN,
	.access = lru_access,
};

const struct kind clock_kind = {
	.size = sizeof(struct cache),
	.lists = IN,
	.access = clock_access,
};

const struct kind sieve_kind = {
	.size = sizeof(struct sieve),
	.lists = IN,
	.access = sieve_access,
};
