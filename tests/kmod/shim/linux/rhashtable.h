/* SPDX-License-Identifier: Apache-2.0 */
/*
 * rhashtable.h - the calls of the kernel's table on one of a few chains
 *
 * Read under rcu_read_lock() without a lock, changed under one. A walk keeps
 * its place as the kernel's does, by a count when its last object has left:
 * then it passes one by.
 */
#ifndef FKV_TESTS_KMOD_RHASHTABLE_H
#define FKV_TESTS_KMOD_RHASHTABLE_H

#include <kernel.h>

#define SHIM_CHAINS	4u	/* so that they are long */

struct rhash_head {
	struct rhash_head *next;
};

struct rhashtable;

struct rhashtable_compare_arg {
	struct rhashtable *ht;
	const void *key;
};

struct rhashtable_params {
	u16 key_len;
	u16 head_offset;
	bool automatic_shrinking;
	u32 (*hashfn)(const void *data, u32 len, u32 seed);
	u32 (*obj_hashfn)(const void *data, u32 len, u32 seed);
	int (*obj_cmpfn)(struct rhashtable_compare_arg *arg, const void *obj);
};

struct rhashtable {
	pthread_mutex_t lock;
	struct rhashtable_params p;
	u32 seed;
	u32 nelems;
	struct rhash_head *chains[SHIM_CHAINS];
};

struct rhashtable_iter {
	struct rhashtable *ht;
	struct rhash_head *p;
	u32 slot, skip;
};

int rhashtable_init(struct rhashtable *ht, const struct rhashtable_params *p);
void rhashtable_destroy(struct rhashtable *ht);
void *rhashtable_lookup(struct rhashtable *ht, const void *key,
			struct rhashtable_params p);
void *rhashtable_lookup_get_insert_key(struct rhashtable *ht, const void *key,
				       struct rhash_head *obj,
				       struct rhashtable_params p);
int rhashtable_remove_fast(struct rhashtable *ht, struct rhash_head *obj,
			   struct rhashtable_params p);
void rhashtable_walk_enter(struct rhashtable *ht, struct rhashtable_iter *it);
void rhashtable_walk_start(struct rhashtable_iter *it);
void *rhashtable_walk_next(struct rhashtable_iter *it);
void rhashtable_walk_stop(struct rhashtable_iter *it);
void rhashtable_walk_exit(struct rhashtable_iter *it);

#endif
