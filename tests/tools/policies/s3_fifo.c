// SPDX-License-Identifier: Apache-2.0
/*
 * s3_fifo.c - three FIFO queues: small, main and a ghost
 *
 * Yang et al., SOSP 2023. A block leaves the small queue for the main one if
 * it was hit as often as the threshold says, else for the ghost; what the
 * ghost remembers enters the main queue at once. The main queue takes back
 * what was hit since, one hit less. Hits count up to 3, from 0 on entry to
 * the main queue.
 */
#include "cache.h"

#define COUNT_MAX	3u
#define GHOST_PERCENT	90u

enum { OUT, SMALL, MAIN, GHOST };

static uint32_t percent(const struct cache *c, unsigned int of)
{
	return (uint64_t)c->room * of / 100;
}

static void main_make_room(struct cache *c)
{
	struct block *b = cache_oldest(c, MAIN);

	while (b->count) {
		b->count--;
		cache_move(c, b, MAIN);
		b = cache_oldest(c, MAIN);
	}
	cache_move(c, b, OUT);
}

static void ghost_add(struct cache *c, struct block *b)
{
	if (c->list[GHOST].count &&
	    c->list[GHOST].count >= percent(c, GHOST_PERCENT))
		cache_move(c, cache_oldest(c, GHOST), OUT);
	cache_move(c, b, GHOST);
}

static void small_make_room(struct cache *c)
{
	struct block *b = cache_oldest(c, SMALL);

	while (b && b->count >= c->policy->threshold) {
		b->count = 0;
		cache_move(c, b, MAIN);
		b = cache_oldest(c, SMALL);
	}
	if (b)
		ghost_add(c, b);
	else
		main_make_room(c);
}

static void s3_fifo_access(struct cache *c, struct block *b)
{
	unsigned int to = b->list == GHOST ? MAIN : SMALL;

	if (cache_holds(c, b)) {
		b->count = fkv_min_u64(b->count + 1, COUNT_MAX);
		return;
	}
	cache_move(c, b, OUT);
	if (c->used == c->room && c->list[SMALL].count &&
	    c->list[SMALL].count >= percent(c, c->policy->first_percent))
		small_make_room(c);
	else if (c->used == c->room)
		main_make_room(c);
	b->count = 0;
	cache_move(c, b, to);
}

const struct kind s3_fifo_kind = {
	.size = sizeof(struct cache),
	.lists = MAIN,
	.access = s3_fifo_access,
};
