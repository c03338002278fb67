// SPDX-License-Identifier: Apache-2.0
/*
 * tiny_lfu.c - W-TinyLFU: an LRU window before a segmented LRU that admits
 *
 * Einziger, Friedman and Manes, ACM ToS 2017. What leaves the window enters
 * the main part only if it was accessed more often than the block that would
 * go for it, by a count-min sketch of counters to 15, of which an access counts
 * up the least, halved every 10 x room accesses. A hit in probation, which
 * holds at least 20 % of the main part, protects.
 *
 * Rows are 4 x room wide, as in Caffeine, and there is no doorkeeper. Which
 * blocks collide depends on the hash and moves a figure by up to half a point:
 * policy-sim runs many.
 */
#include <stdlib.h>

#include "cache.h"

#define ROWS		4u
#define COUNTER_MAX	15u
#define WIDTH_FACTOR	4u		/* counters of a row, times the room */
#define SAMPLE_FACTOR	10u
#define PROBATION_PERCENT 20u

enum { OUT, WINDOW, PROBATION, PROTECTED };

struct tiny_lfu {
	struct cache cache;
	uint8_t *row[ROWS];
	uint64_t width;			/* of a row */
	uint64_t accesses;		/* since the counters were halved */
	uint32_t window_max, protected_max;
};

static struct tiny_lfu *tiny_lfu_of(struct cache *c)
{
	return fkv_container_of(c, struct tiny_lfu, cache);
}

static void tiny_lfu_init(struct cache *c, const struct trace *t)
{
	struct tiny_lfu *tiny = tiny_lfu_of(c);

	(void)t;
	tiny->width = (uint64_t)WIDTH_FACTOR * c->room;
	for (unsigned int i = 0; i < ROWS; i++)
		tiny->row[i] = array_create(tiny->width, 1);
	tiny->window_max = fkv_max_u64((uint64_t)c->room *
				       c->policy->first_percent / 100, 1);
	tiny->protected_max = c->room - tiny->window_max;
	tiny->protected_max -= (uint64_t)tiny->protected_max *
			       PROBATION_PERCENT / 100;
}

static void tiny_lfu_done(struct cache *c)
{
	for (unsigned int i = 0; i < ROWS; i++)
		free(tiny_lfu_of(c)->row[i]);
}

static uint8_t *counter(const struct tiny_lfu *tiny, const struct block *b,
			unsigned int i)
{
	uint64_t hash = id_hash((uint64_t)ROWS * b->id + i + 1);

	hash = id_hash(hash + tiny->cache.seed);
	return &tiny->row[i][hash % tiny->width];
}

static unsigned int estimate(const struct tiny_lfu *tiny,
			     const struct block *b)
{
	unsigned int least = COUNTER_MAX;

	for (unsigned int i = 0; i < ROWS; i++)
		least = fkv_min_u64(least, *counter(tiny, b, i));
	return least;
}

static void sketch_halve(struct tiny_lfu *tiny)
{
	for (unsigned int i = 0; i < ROWS; i++)
		for (uint64_t j = 0; j < tiny->width; j++)
			tiny->row[i][j] /= 2;
	tiny->accesses /= 2;
}

static void sketch_add(struct tiny_lfu *tiny, const struct block *b)
{
	unsigned int least = estimate(tiny, b);

	for (unsigned int i = 0; i < ROWS && least < COUNTER_MAX; i++)
		*counter(tiny, b, i) += *counter(tiny, b, i) == least;
	if (++tiny->accesses >= (uint64_t)SAMPLE_FACTOR * tiny->cache.room)
		sketch_halve(tiny);
}

static void admit(struct tiny_lfu *tiny, struct block *candidate)
{
	struct cache *c = &tiny->cache;
	struct block *victim = cache_oldest(c, PROBATION);

	if (!victim)
		victim = cache_oldest(c, PROTECTED);
	if (victim && estimate(tiny, candidate) > estimate(tiny, victim)) {
		cache_move(c, victim, OUT);
		cache_move(c, candidate, PROBATION);
	} else {
		cache_move(c, candidate, OUT);
	}
}

static void window_enter(struct tiny_lfu *tiny, struct block *b)
{
	struct cache *c = &tiny->cache;

	if (c->list[WINDOW].count == tiny->window_max && c->used == c->room)
		admit(tiny, cache_oldest(c, WINDOW));
	else if (c->list[WINDOW].count == tiny->window_max)
		cache_move(c, cache_oldest(c, WINDOW), PROBATION);
	cache_move(c, b, WINDOW);
}

static void protect(struct tiny_lfu *tiny, struct block *b)
{
	struct cache *c = &tiny->cache;

	cache_move(c, b, PROTECTED);
	if (c->list[PROTECTED].count > tiny->protected_max)
		cache_move(c, cache_oldest(c, PROTECTED), PROBATION);
}

static void tiny_lfu_access(struct cache *c, struct block *b)
{
	struct tiny_lfu *tiny = tiny_lfu_of(c);

	sketch_add(tiny, b);
	if (!cache_holds(c, b))
		window_enter(tiny, b);
	else if (b->list == PROBATION)
		protect(tiny, b);
	else
		cache_move(c, b, b->list);
}

const struct kind tiny_lfu_kind = {
	.size = sizeof(struct tiny_lfu),
	.lists = PROTECTED,
	.by_hash = true,
	.init = tiny_lfu_init,
	.access = tiny_lfu_access,
	.done = tiny_lfu_done,
};
