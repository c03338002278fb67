// SPDX-License-Identifier: Apache-2.0
#include <stdio.h>
#include <stdlib.h>

#include "cache.h"

void fatal(const char *what)
{
	fprintf(stderr, "policy-sim: %s\n", what);
	exit(EXIT_FAILURE);
}

void *array_create(size_t n, size_t size)
{
	void *p = calloc(n ? n : 1, size);

	if (!p)
		fatal("out of memory");
	return p;
}

struct cache *cache_create(const struct policy *p, uint32_t room,
			   const struct trace *t, uint64_t seed)
{
	struct cache *c = array_create(1, p->kind->size);

	fkv_assert(room && p->kind->lists < CACHE_LISTS);
	c->policy = p;
	c->room = room;
	c->seed = seed;
	c->block = array_create(t->nr_blocks, sizeof(*c->block));
	for (uint32_t id = 0; id < t->nr_blocks; id++)
		c->block[id].id = id;
	for (unsigned int no = 0; no < CACHE_LISTS; no++)
		TAILQ_INIT(&c->list[no].blocks);
	if (p->kind->init)
		p->kind->init(c, t);
	return c;
}

void cache_free(struct cache *c)
{
	if (c->policy->kind->done)
		c->policy->kind->done(c);
	free(c->block);
	free(c);
}

bool cache_holds(const struct cache *c, const struct block *b)
{
	return b->list && b->list <= c->policy->kind->lists;
}

bool cache_access(struct cache *c, uint32_t id)
{
	struct block *b = &c->block[id];
	bool hit = cache_holds(c, b);

	c->policy->kind->access(c, b);
	fkv_assert(cache_holds(c, b) && c->used <= c->room);
	return hit;
}

void cache_move(struct cache *c, struct block *b, unsigned int to)
{
	if (b->list) {
		TAILQ_REMOVE(&c->list[b->list].blocks, b, link);
		c->list[b->list].count--;
	}
	c->used -= cache_holds(c, b);
	b->list = to;
	c->used += cache_holds(c, b);
	if (to) {
		TAILQ_INSERT_HEAD(&c->list[to].blocks, b, link);
		c->list[to].count++;
	}
}

struct block *cache_oldest(const struct cache *c, unsigned int no)
{
	return TAILQ_LAST(&c->list[no].blocks, blocks);
}
