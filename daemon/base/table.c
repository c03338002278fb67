// SPDX-License-Identifier: Apache-2.0
#include "table.h"

#define FIRST_SHIFT	6
#define FIRST		(1ULL << FIRST_SHIFT)

/* 0 for buckets below 64, then one block per doubling */
static unsigned int block_of(uint64_t b)
{
	return b < FIRST ? 0 : 64 - FIRST_SHIFT - __builtin_clzll(b);
}

static uint64_t block_base(unsigned int k)
{
	return k ? FIRST << (k - 1) : 0;
}

static struct fkv_node **bucket(const struct fkv_table *t, uint64_t b)
{
	unsigned int k = block_of(b);

	return &t->block[k][b - block_base(k)];
}

/* linear hashing: use the larger mask unless that bucket is not made yet */
static uint64_t bucket_no(const struct fkv_table *t, uint64_t hash)
{
	uint64_t top = 1ULL << (63 - __builtin_clzll(t->nr_buckets));
	uint64_t mask = t->nr_buckets == top ? top - 1 : 2 * top - 1;
	uint64_t b = hash & mask;

	return b < t->nr_buckets ? b : b - top;
}

int fkv_table_init(struct fkv_table *t)
{
	memset(t, 0, sizeof(*t));
	t->block[0] = fkv_zalloc(FIRST * sizeof(struct fkv_node *));
	if (!t->block[0])
		return -ENOMEM;
	t->nr_buckets = FIRST;
	return 0;
}

void fkv_table_done(struct fkv_table *t)
{
	for (size_t i = 0; i < FKV_ARRAY_SIZE(t->block); i++)
		fkv_free(t->block[i]);
	memset(t, 0, sizeof(*t));
}

/* Split one bucket in two. Without memory the table stays as it is. */
static void grow(struct fkv_table *t)
{
	uint64_t top = 1ULL << (63 - __builtin_clzll(t->nr_buckets));
	uint64_t from = t->nr_buckets - top;
	unsigned int k = block_of(t->nr_buckets);
	struct fkv_node *n, *next, **low, **high;

	if (k >= FKV_ARRAY_SIZE(t->block))
		return;
	if (!t->block[k]) {
		t->block[k] = fkv_zalloc((FIRST << (k - 1)) *
					 sizeof(struct fkv_node *));
		if (!t->block[k])
			return;
	}
	low = bucket(t, from);
	high = bucket(t, t->nr_buckets);
	n = *low;
	*low = NULL;
	t->nr_buckets++;
	for (; n; n = next) {
		struct fkv_node **to = n->hash & top ? high : low;

		next = n->next;
		n->next = *to;
		*to = n;
	}
}

void fkv_table_add(struct fkv_table *t, struct fkv_node *n, uint64_t hash)
{
	struct fkv_node **b;

	if (t->count >= t->nr_buckets)
		grow(t);
	if (t->count >= t->nr_buckets)
		grow(t);
	b = bucket(t, bucket_no(t, hash));
	n->hash = hash;
	n->next = *b;
	*b = n;
	t->count++;
}

void fkv_table_del(struct fkv_table *t, struct fkv_node *n)
{
	struct fkv_node **p = bucket(t, bucket_no(t, n->hash));

	while (*p != n) {
		fkv_assert(*p);
		p = &(*p)->next;
	}
	*p = n->next;
	n->next = NULL;
	t->count--;
}

static struct fkv_node *match(struct fkv_node *n, uint64_t hash)
{
	while (n && n->hash != hash)
		n = n->next;
	return n;
}

struct fkv_node *fkv_table_first(const struct fkv_table *t, uint64_t hash)
{
	return match(*bucket(t, bucket_no(t, hash)), hash);
}

struct fkv_node *fkv_table_next(const struct fkv_node *n)
{
	return match(n->next, n->hash);
}

struct fkv_node *fkv_table_walk(const struct fkv_table *t, uint64_t *pos,
				struct fkv_node *n)
{
	if (n && n->next)
		return n->next;
	while (*pos < t->nr_buckets) {
		struct fkv_node *first = *bucket(t, (*pos)++);

		if (first)
			return first;
	}
	return NULL;
}

struct fkv_node *fkv_table_drain(const struct fkv_table *t, uint64_t *pos)
{
	for (; *pos < t->nr_buckets; (*pos)++)
		if (*bucket(t, *pos))
			return *bucket(t, *pos);
	return NULL;
}
