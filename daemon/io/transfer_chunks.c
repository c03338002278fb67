// SPDX-License-Identifier: Apache-2.0
/*
 * transfer_chunks.c - the pool of chunk buffers, fair among peers
 */
#include "io/transfer.h"

uint32_t fkv_chunks_count(uint64_t segment_bytes)
{
	uint64_t n = segment_bytes / 64 / FKV_CHUNK;

	return (uint32_t)fkv_max_u64(fkv_min_u64(n, FKV_CHUNKS_MAX),
				     FKV_CHUNKS_MIN);
}

void fkv_chunks_init(struct fkv_chunks *c, uint64_t offset, uint32_t nr)
{
	fkv_assert(nr <= FKV_CHUNKS_MAX);
	memset(c, 0, sizeof(*c));
	TAILQ_INIT(&c->waiting);
	c->base = offset;
	c->nr = c->nr_free = nr;
	for (uint32_t i = 0; i < nr; i++)
		c->free[i] = offset + (nr - 1 - i) * FKV_CHUNK;
}

static uint32_t held_by(const struct fkv_chunks *c, uint64_t peer)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < c->nr; i++)
		n += c->peer[i] == peer;
	return n;
}

static struct fkv_chunk_user *choose(const struct fkv_chunks *c)
{
	struct fkv_chunk_user *u, *best = NULL;
	uint32_t least = UINT32_MAX;

	TAILQ_FOREACH(u, &c->waiting, link) {
		uint32_t n = held_by(c, u->peer);

		if (n < least) {
			least = n;
			best = u;
		}
		if (!n)
			break;
	}
	return best;
}

static uint32_t number_of(const struct fkv_chunks *c, uint64_t offset)
{
	return (uint32_t)((offset - c->base) / FKV_CHUNK);
}

static void grant(struct fkv_chunks *c)
{
	struct fkv_chunk_user *u;

	while (c->nr_free && (u = choose(c))) {
		TAILQ_REMOVE(&c->waiting, u, link);
		u->waiting = false;
		u->holding = true;
		u->offset = c->free[--c->nr_free];
		c->peer[number_of(c, u->offset)] = u->peer;
		u->granted(u);
	}
}

void fkv_chunk_get(struct fkv_chunks *c, struct fkv_chunk_user *u)
{
	fkv_assert(u->peer && !u->waiting && !u->holding);
	u->waiting = true;
	TAILQ_INSERT_TAIL(&c->waiting, u, link);
	grant(c);
}

void fkv_chunk_put(struct fkv_chunks *c, struct fkv_chunk_user *u)
{
	if (u->waiting)
		TAILQ_REMOVE(&c->waiting, u, link);
	u->waiting = false;
	if (!u->holding)
		return;
	u->holding = false;
	c->peer[number_of(c, u->offset)] = 0;
	c->free[c->nr_free++] = u->offset;
	grant(c);
}
