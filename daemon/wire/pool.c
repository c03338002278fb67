// SPDX-License-Identifier: Apache-2.0
#include "cluster_internal.h"

#define CHUNK	(16u * 1024)

struct fkv_pool_chunk {
	struct fkv_pool_chunk *next;
	/* so that what follows is aligned for anything */
	uint64_t zero;
	uint8_t data[];
};

struct fkv_pool *fkv_pool_create(size_t limit)
{
	struct fkv_pool *pool = fkv_zalloc(sizeof(*pool));

	if (pool)
		pool->limit = limit;
	return pool;
}

static bool chunk_add(struct fkv_pool *pool, size_t size)
{
	struct fkv_pool_chunk *c = fkv_zalloc(sizeof(*c) + size);

	if (!c) {
		pool->failed = true;
		return false;
	}
	c->next = pool->chunks;
	pool->chunks = c;
	pool->at = c->data;
	pool->left = size;
	return true;
}

void *fkv_pool_alloc(struct fkv_pool *pool, size_t size)
{
	void *p;

	/* never 0: the piece after it would have the same address */
	size = size ? fkv_align_up(size, 16) : 16;
	if (size > pool->limit - pool->used) {
		pool->over = true;
		return NULL;
	}
	if (size > pool->left && !chunk_add(pool, size > CHUNK ? size : CHUNK))
		return NULL;
	p = pool->at;
	pool->at += size;
	pool->left -= size;
	pool->used += size;
	return p;
}

void fkv_pool_free(struct fkv_pool *pool)
{
	struct fkv_pool_chunk *c;

	if (!pool)
		return;
	while ((c = pool->chunks)) {
		pool->chunks = c->next;
		fkv_free(c);
	}
	fkv_free(pool);
}
