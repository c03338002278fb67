/* SPDX-License-Identifier: Apache-2.0 */
/*
 * internal.h - structs that the files of the master core share
 */
#ifndef FKV_CORE_MASTER_INTERNAL_H
#define FKV_CORE_MASTER_INTERNAL_H

#include "base/table.h"
#include "base/timer.h"
#include "core/master/master.h"
#include "core/master/space.h"

struct fkv_mop;

TAILQ_HEAD(fkv_mops, fkv_mop);

/*
 * A route: one key. Exists while it has a version, a put in flight or a
 * change that waits. put_id 0: no current version.
 */
struct fkv_route {
	struct fkv_node node;
	RB_ENTRY(fkv_route) order;
	TAILQ_ENTRY(fkv_route) shard_link;	/* master->shards[].routes */
	struct fkv_key *key;
	uint64_t put_id;
	uint64_t len;
	struct fkv_extent *memory;
	uint64_t seq;			/* of the SSD replica */
	uint32_t shard;
	uint32_t puts;			/* in flight */
	struct fkv_lfu_count count;	/* accesses, while not in memory */
	bool ssd;
	bool persist;			/* decided at PutStart */
	struct fkv_mop *changing;	/* waits for RETIRED */
	struct fkv_mops changes;	/* wait for their turn */
};

RB_HEAD(fkv_route_tree, fkv_route);
TAILQ_HEAD(fkv_routes, fkv_route);

enum fkv_mop_type { FKV_MOP_PUT, FKV_MOP_GET, FKV_MOP_DELETE };

/* An operation in flight: from its start message until it is answered for. */
struct fkv_mop {
	struct fkv_node node;		/* by op id */
	enum fkv_mop_type type;
	uint64_t id;
	struct fkv_key *key;
	struct fkv_route *route;	/* PUT, DELETE: kept by it */
	struct fkv_extent *extent;
	uint64_t len;
	uint64_t put_id;		/* GET: version that is being fetched */
	uint32_t flags;
	bool persist;
	struct fkv_waiter waiter;
	struct fkv_timer timer;
	TAILQ_ENTRY(fkv_mop) link;	/* route->changes */
};

struct fkv_shard_routes {
	struct fkv_routes routes;	/* by seq, rising */
	uint64_t tail;			/* lowest live seq, as reported */
};

struct fkv_master {
	struct fkv_table routes;
	struct fkv_route_tree order;
	struct fkv_table ops;
	struct fkv_table extents;
	struct fkv_timers timers;
	struct fkv_space space;
	struct fkv_shard_routes shards[FKV_SHARDS_MAX];
	uint64_t next_put_id;
	uint64_t next_handle;
	uint64_t poll_ns;		/* when waiters are tried again */
	uint32_t nr_shards;
	uint32_t ssd_devices;
	struct fkv_master_stats stats;
	char text[FKV_TEXT_MAX];
};

/* routes.c */
struct fkv_route *fkv_route_find(const struct fkv_master *m,
				 const struct fkv_key *key);
struct fkv_route *fkv_route_get(struct fkv_master *m, struct fkv_key *key);
void fkv_route_gc(struct fkv_master *m, struct fkv_route *r);
void fkv_route_drop_ssd(struct fkv_master *m, struct fkv_route *r);
void fkv_route_add_ssd(struct fkv_master *m, struct fkv_route *r,
		       uint32_t shard, uint64_t seq);
void fkv_route_drop_memory(struct fkv_master *m, struct fkv_route *r);
void fkv_route_clear(struct fkv_master *m, struct fkv_route *r);
void fkv_route_set_memory(struct fkv_master *m, struct fkv_route *r,
			  struct fkv_extent *x, unsigned int f);
void fkv_master_stat(struct fkv_master *m, struct fkv_msg *msg,
		     struct fkv_out *out);
void fkv_master_list(struct fkv_master *m, struct fkv_msg *msg,
		     struct fkv_out *out);
void fkv_master_count(struct fkv_master *m, struct fkv_msg *msg,
		      struct fkv_out *out);

/* ops.c */
struct fkv_mop *fkv_mop_find(const struct fkv_master *m, uint64_t id);
struct fkv_mop *fkv_mop_create(struct fkv_master *m, enum fkv_mop_type type,
			       const struct fkv_msg *msg);
void fkv_mop_free(struct fkv_master *m, struct fkv_mop *op);
struct fkv_extent *fkv_master_extent(struct fkv_master *m, uint64_t offset,
				     uint64_t len, enum fkv_cause cause);
struct fkv_extent *fkv_master_extent_find(const struct fkv_master *m,
					  uint64_t handle);
/* Give @n references back; frees the extent when it was the last. */
void fkv_master_ungive(struct fkv_master *m, struct fkv_extent *x, uint64_t n);
void fkv_master_detach(struct fkv_master *m, struct fkv_extent *x);
int fkv_master_room(struct fkv_master *m, struct fkv_mop *op, uint64_t now_ns,
		    const struct fkv_msg *msg);

/* change.c: puts and deletes */
void fkv_master_put_start(struct fkv_master *m, uint64_t now_ns,
			  struct fkv_msg *msg, struct fkv_out *out);
void fkv_master_put_planned(struct fkv_master *m, struct fkv_mop *op, int res,
			    struct fkv_out *out);
void fkv_master_put_done(struct fkv_master *m, struct fkv_msg *msg,
			 struct fkv_out *out);
void fkv_master_put_revoke(struct fkv_master *m, struct fkv_msg *msg);
void fkv_master_put_cancel(struct fkv_master *m, struct fkv_msg *msg,
			   struct fkv_out *out);
void fkv_master_delete(struct fkv_master *m, struct fkv_msg *msg,
		       struct fkv_out *out);
void fkv_master_retired(struct fkv_master *m, struct fkv_msg *msg,
			struct fkv_out *out);

/* get.c */
void fkv_master_get_start(struct fkv_master *m, uint64_t now_ns,
			  struct fkv_msg *msg, struct fkv_out *out);
bool fkv_master_get_answer(struct fkv_master *m, struct fkv_mop *op,
			   struct fkv_out *out);
void fkv_master_get_planned(struct fkv_master *m, struct fkv_mop *op, int res,
			    struct fkv_out *out);
void fkv_master_get_done(struct fkv_master *m, struct fkv_msg *msg,
			 struct fkv_out *out);
void fkv_master_get_revoke(struct fkv_master *m, struct fkv_msg *msg);

/* reclaim.c: eviction, persists, waiters */
void fkv_master_serve(struct fkv_master *m, uint64_t now_ns,
		      struct fkv_out *out);
void fkv_master_persist(struct fkv_master *m, struct fkv_extent *x,
			struct fkv_out *out);
void fkv_master_persist_end(struct fkv_master *m, struct fkv_msg *msg,
			    struct fkv_out *out);
void fkv_master_ssd_tail(struct fkv_master *m, struct fkv_msg *msg);
void fkv_master_ssd_lost(struct fkv_master *m, struct fkv_msg *msg);
void fkv_master_evicted(struct fkv_master *m, struct fkv_msg *msg);

#endif
