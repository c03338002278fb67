// SPDX-License-Identifier: Apache-2.0
/*
 * lfu_da.c - the daemon's own policy, core/master/policy.c
 */
#include <stdlib.h>

#include "cache.h"
#include "core/master/policy.h"

#define BLOCK_BYTES	(1ULL << 20)

enum { OUT, IN };

struct lfu_da {
	struct cache cache;
	struct fkv_lfu lfu;
	struct fkv_lfu_item *item;	/* by id */
};

static struct lfu_da *lfu_da_of(struct cache *c)
{
	return fkv_container_of(c, struct lfu_da, cache);
}

static void lfu_da_init(struct cache *c, const struct trace *t)
{
	fkv_lfu_init(&lfu_da_of(c)->lfu, false);
	lfu_da_of(c)->item = array_create(t->nr_blocks,
					  sizeof(struct fkv_lfu_item));
}

static void lfu_da_done(struct cache *c)
{
	fkv_lfu_check(&lfu_da_of(c)->lfu);
	fkv_lfu_done(&lfu_da_of(c)->lfu);
	free(lfu_da_of(c)->item);
}

static void make_room(struct lfu_da *l)
{
	struct fkv_lfu_cursor cursor = { .started = false };
	struct fkv_lfu_item *item = fkv_lfu_victim(&l->lfu, &cursor);

	fkv_lfu_evicted(&l->lfu, item, false);
	cache_move(&l->cache, &l->cache.block[item - l->item], OUT);
}

static void lfu_da_access(struct cache *c, struct block *b)
{
	struct lfu_da *l = lfu_da_of(c);
	struct fkv_lfu_item *item = &l->item[b->id];
	uint64_t hash = id_hash(b->id);

	if (cache_holds(c, b)) {
		fkv_lfu_touch(&l->lfu, item, 1);
		return;
	}
	if (c->used == c->room)
		make_room(l);
	item->bytes = BLOCK_BYTES;
	fkv_lfu_insert(&l->lfu, item, fkv_lfu_ghost_take(&l->lfu, hash), hash);
	cache_move(c, b, IN);
}

const struct kind lfu_da_kind = {
	.size = sizeof(struct lfu_da),
	.lists = IN,
	.init = lfu_da_init,
	.access = lfu_da_access,
	.done = lfu_da_done,
};
