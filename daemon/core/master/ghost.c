// SPDX-License-Identifier: Apache-2.0
#include <assert.h>

#include "core/master/ghost.h"

#define CHUNK_SHIFT	10
#define CHUNK		(1u << CHUNK_SHIFT)
#define FIRST_SHIFT	6
#define FIRST		(1u << FIRST_SHIFT)
#define NIL		UINT32_MAX
#define ENTRIES_MAX	(1u << 30)

/* a limit may fall by four entries for each one that leaves */
#define TRIM		8

struct entry {
	uint64_t hash;
	uint32_t next;
	struct fkv_lfu_count count;
};

struct fkv_ghost_chunk {
	struct entry entry[CHUNK];
};

static_assert(sizeof(struct entry) == 16, "the design's 16 bytes an entry");

/* Sequence numbers wrap; the ring's size divides their range. */
static struct fkv_ghost_chunk **chunk_of(const struct fkv_ghost *g,
					 uint32_t seq)
{
	return &g->chunk[(seq >> CHUNK_SHIFT) & g->mask];
}

static struct entry *entry_of(const struct fkv_ghost *g, uint32_t seq)
{
	return &(*chunk_of(g, seq))->entry[seq % CHUNK];
}

/* Buckets, as in base/table.c, but of sequence numbers. */
static uint32_t *bucket(const struct fkv_ghost *g, uint32_t b)
{
	unsigned int k = b < FIRST ? 0 : 32 - FIRST_SHIFT - __builtin_clz(b);

	return &g->block[k][k ? b - (FIRST << (k - 1)) : b];
}

static uint32_t *bucket_of(const struct fkv_ghost *g, uint64_t hash)
{
	uint32_t top = 1u << (31 - __builtin_clz(g->nr_buckets));
	uint32_t b = hash & (2ULL * top - 1);

	if (b >= g->nr_buckets)
		b -= top;
	return bucket(g, b);
}

static uint32_t *block_create(uint32_t n)
{
	uint32_t *block = fkv_zalloc(n * sizeof(*block));

	for (uint32_t i = 0; block && i < n; i++)
		block[i] = NIL;
	return block;
}

/* Split one bucket in two; without memory chains just get longer. */
static void buckets_grow(struct fkv_ghost *g)
{
	uint32_t b = g->nr_buckets, top = 1u << (31 - __builtin_clz(b));
	unsigned int k = 32 - FIRST_SHIFT - __builtin_clz(b);
	uint32_t *low, *high, seq, next;

	if (b >= ENTRIES_MAX)
		return;
	if (!g->block[k])
		g->block[k] = fkv_zalloc((FIRST << (k - 1)) * sizeof(*low));
	if (!g->block[k])
		return;
	low = bucket(g, b - top);
	high = bucket(g, b);
	g->nr_buckets++;
	seq = *low;
	*low = NIL;
	*high = NIL;
	for (; seq != NIL; seq = next) {
		struct entry *e = entry_of(g, seq);
		uint32_t *to = e->hash & top ? high : low;

		next = e->next;
		e->next = *to;
		*to = seq;
	}
}

static void unlink_entry(struct fkv_ghost *g, uint32_t seq)
{
	struct entry *e = entry_of(g, seq);
	uint32_t *p = bucket_of(g, e->hash);

	while (*p != seq) {
		fkv_assert(*p != NIL);
		p = &entry_of(g, *p)->next;
	}
	*p = e->next;
	e->count.live = 0;
	g->live--;
}

static void drop_oldest(struct fkv_ghost *g)
{
	struct fkv_ghost_chunk **c = chunk_of(g, g->tail);

	if (entry_of(g, g->tail)->count.live)
		unlink_entry(g, g->tail);
	g->tail++;
	/* one chunk stays at hand, so that a steady FIFO calls no malloc */
	if (g->tail % CHUNK == 0) {
		fkv_free(g->spare);
		g->spare = *c;
		*c = NULL;
	}
}

/* Twice the room for chunks; each goes to its place in the new ring. */
static int ring_grow(struct fkv_ghost *g)
{
	uint32_t size = g->chunk ? 2 * (g->mask + 1) : 8;
	struct fkv_ghost_chunk **ring = fkv_zalloc(size * sizeof(*ring));
	uint32_t no = g->tail >> CHUNK_SHIFT;

	if (!ring)
		return -ENOMEM;
	for (uint32_t i = 0; g->chunk && i <= g->mask; i++, no++)
		ring[no & (size - 1)] = g->chunk[no & g->mask];
	fkv_free(g->chunk);
	g->chunk = ring;
	g->mask = size - 1;
	return 0;
}

/* Room for the entry at the head. */
static int head_reserve(struct fkv_ghost *g)
{
	struct fkv_ghost_chunk **c;

	if (!g->block[0]) {
		g->block[0] = block_create(FIRST);
		if (!g->block[0])
			return -ENOMEM;
		g->nr_buckets = FIRST;
	}
	if (g->head % CHUNK)
		return 0;
	if (!g->chunk || *chunk_of(g, g->head)) {
		int err = ring_grow(g);

		if (err)
			return err;
	}
	c = chunk_of(g, g->head);
	*c = g->spare ? g->spare : fkv_zalloc(sizeof(**c));
	g->spare = NULL;
	return *c ? 0 : -ENOMEM;
}

void fkv_ghost_init(struct fkv_ghost *g)
{
	memset(g, 0, sizeof(*g));
}

void fkv_ghost_done(struct fkv_ghost *g)
{
	for (uint32_t i = 0; g->chunk && i <= g->mask; i++)
		fkv_free(g->chunk[i]);
	fkv_free(g->chunk);
	fkv_free(g->spare);
	for (size_t i = 0; i < FKV_ARRAY_SIZE(g->block); i++)
		fkv_free(g->block[i]);
	memset(g, 0, sizeof(*g));
}

void fkv_ghost_trim(struct fkv_ghost *g, uint64_t limit)
{
	for (int i = 0; i < TRIM && fkv_ghost_entries(g) > limit; i++)
		drop_oldest(g);
}

void fkv_ghost_put(struct fkv_ghost *g, uint64_t hash,
		   struct fkv_lfu_count count, uint64_t limit)
{
	struct fkv_lfu_count old;
	struct entry *e;
	uint32_t *b;

	fkv_ghost_take(g, hash, &old);
	limit = fkv_min_u64(limit, ENTRIES_MAX);
	fkv_ghost_trim(g, limit ? limit - 1 : 0);
	if (!limit || head_reserve(g))
		return;
	/* the number that ends chains names no entry */
	if (g->head == NIL) {
		entry_of(g, g->head++)->count.live = 0;
		if (head_reserve(g))
			return;
	}
	if (g->live >= g->nr_buckets)
		buckets_grow(g);
	if (g->live >= g->nr_buckets)
		buckets_grow(g);
	b = bucket_of(g, hash);
	e = entry_of(g, g->head);
	e->hash = hash;
	e->next = *b;
	e->count = count;
	e->count.live = 1;
	*b = g->head++;
	g->live++;
}

bool fkv_ghost_take(struct fkv_ghost *g, uint64_t hash,
		    struct fkv_lfu_count *ret_count)
{
	uint32_t seq;

	if (!g->nr_buckets)
		return false;
	for (seq = *bucket_of(g, hash); seq != NIL;
	     seq = entry_of(g, seq)->next) {
		if (entry_of(g, seq)->hash != hash)
			continue;
		*ret_count = entry_of(g, seq)->count;
		unlink_entry(g, seq);
		return true;
	}
	return false;
}

uint64_t fkv_ghost_bytes(const struct fkv_ghost *g)
{
	uint64_t sum = g->spare ? sizeof(*g->spare) : 0;

	for (uint32_t i = 0; g->chunk && i <= g->mask; i++)
		sum += sizeof(*g->chunk) +
		       (g->chunk[i] ? sizeof(*g->chunk[i]) : 0);
	for (unsigned int k = 0; k < FKV_ARRAY_SIZE(g->block); k++)
		if (g->block[k])
			sum += (k ? FIRST << (k - 1) : FIRST) *
			       sizeof(*g->block[k]);
	return sum;
}
