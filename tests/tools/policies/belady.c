// SPDX-License-Identifier: Apache-2.0
/*
 * belady.c - the optimum: what is used latest, or never again, goes
 *
 * Belady, IBM Systems Journal 1966. A heap has one element for each access,
 * by the time of the next one; those of a block but its last are stale.
 */
#include <stdlib.h>

#include "cache.h"

enum { OUT, IN };

struct belady {
	struct cache cache;
	uint32_t *next_use;		/* of the access's block, by access */
	uint64_t *heap;			/* next use, id; the latest first */
	size_t now, nr_heap;
};

static struct belady *belady_of(struct cache *c)
{
	return fkv_container_of(c, struct belady, cache);
}

static void belady_init(struct cache *c, const struct trace *t)
{
	struct belady *belady = belady_of(c);
	uint32_t *next = array_create(t->nr_blocks, sizeof(*next));

	belady->next_use = array_create(t->nr_ids, sizeof(*belady->next_use));
	belady->heap = array_create(t->nr_ids, sizeof(*belady->heap));
	memset(next, 0xff, t->nr_blocks * sizeof(*next));
	for (size_t i = t->nr_ids; i-- > 0;) {
		belady->next_use[i] = next[t->ids[i]];
		next[t->ids[i]] = i;
	}
	free(next);
}

static void belady_done(struct cache *c)
{
	free(belady_of(c)->next_use);
	free(belady_of(c)->heap);
}

static void heap_push(struct belady *belady, uint64_t element)
{
	uint64_t *heap = belady->heap;
	size_t i = belady->nr_heap++;

	for (; i && heap[(i - 1) / 2] < element; i = (i - 1) / 2)
		heap[i] = heap[(i - 1) / 2];
	heap[i] = element;
}

static uint64_t heap_pop(struct belady *belady)
{
	uint64_t *heap = belady->heap, top, last;
	size_t i = 0, child;

	fkv_assert(belady->nr_heap);
	top = heap[0];
	last = heap[--belady->nr_heap];
	for (child = 1; child < belady->nr_heap; child = 2 * i + 1) {
		if (child + 1 < belady->nr_heap &&
		    heap[child + 1] > heap[child])
			child++;
		if (heap[child] <= last)
			break;
		heap[i] = heap[child];
		i = child;
	}
	heap[i] = last;
	return top;
}

static struct block *latest(struct belady *belady)
{
	struct cache *c = &belady->cache;
	struct block *b;
	uint64_t top;

	do {
		top = heap_pop(belady);
		b = &c->block[(uint32_t)top];
	} while (!cache_holds(c, b) || b->time != top >> 32);
	return b;
}

static void belady_access(struct cache *c, struct block *b)
{
	struct belady *belady = belady_of(c);

	if (!cache_holds(c, b) && c->used == c->room)
		cache_move(c, latest(belady), OUT);
	b->time = belady->next_use[belady->now++];
	heap_push(belady, (uint64_t)b->time << 32 | b->id);
	cache_move(c, b, IN);
}

const struct kind belady_kind = {
	.size = sizeof(struct belady),
	.lists = IN,
	.init = belady_init,
	.access = belady_access,
	.done = belady_done,
};
