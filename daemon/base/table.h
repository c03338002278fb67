/* SPDX-License-Identifier: Apache-2.0 */
/*
 * table.h - intrusive hash table that grows without a pause
 *
 * Chained; grows by linear hashing (Litwin 1980): an insert splits at most
 * two buckets, so no operation is ever longer than its chain. Buckets live in
 * blocks of 2^k that are never moved. Not locked: one thread owns a table.
 * The caller embeds struct fkv_node, computes hashes, compares keys, owns the
 * objects.
 *
 *	for (n = fkv_table_first(t, h); n; n = fkv_table_next(n))
 *		if (equal(container_of(n)))
 *			...
 */
#ifndef FKV_BASE_TABLE_H
#define FKV_BASE_TABLE_H

#include "base.h"

struct fkv_node {
	struct fkv_node *next;
	uint64_t hash;
};

struct fkv_table {
	struct fkv_node **block[40];	/* block 0: 64 buckets, b: 64 << (b-1) */
	uint64_t nr_buckets;
	uint64_t count;
};

/* 0 or -ENOMEM */
int fkv_table_init(struct fkv_table *t);
void fkv_table_done(struct fkv_table *t);	/* must be empty of objects */

/* Never fails: without memory to grow, chains just get longer. */
void fkv_table_add(struct fkv_table *t, struct fkv_node *n, uint64_t hash);
void fkv_table_del(struct fkv_table *t, struct fkv_node *n);

/* First node of the chain whose hash equals @hash, or NULL; and the next. */
struct fkv_node *fkv_table_first(const struct fkv_table *t, uint64_t hash);
struct fkv_node *fkv_table_next(const struct fkv_node *n);

/*
 * Walk all nodes: *pos starts at 0 with NULL as @n. The node just returned
 * may be deleted before the next call only if its successor was fetched.
 */
struct fkv_node *fkv_table_walk(const struct fkv_table *t, uint64_t *pos,
				struct fkv_node *n);

/*
 * Empty a table: some node that is still in, or NULL. *pos starts at 0; the
 * node must be deleted before the next call, and none be added.
 */
struct fkv_node *fkv_table_drain(const struct fkv_table *t, uint64_t *pos);

#endif
