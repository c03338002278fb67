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

struct fkv_member;
struct fkv_mop;

TAILQ_HEAD(fkv_mops, fkv_mop);

/* A version on one owner's SSD. */
struct fkv_ssd {
	TAILQ_ENTRY(fkv_ssd) link;	/* member->shards[].replicas */
	struct fkv_ssd *next;		/* of its route */
	struct fkv_route *route;
	uint64_t seq;
	uint32_t shard;
	uint16_t member;
	bool used;
};

/*
 * A route: one key. Exists while it has a version, a put in flight or a
 * change that waits. put_id 0: no current version. What it has at an owner
 * that is tombed is not to be seen by anybody (F1).
 */
struct fkv_route {
	struct fkv_node node;
	RB_ENTRY(fkv_route) order;
	struct fkv_key *key;
	uint64_t put_id;
	uint64_t len;
	struct fkv_extent *memory;	/* one per owner at most */
	struct fkv_ssd *ssd;		/* the same */
	struct fkv_ssd own;		/* the first of these, mostly */
	struct fkv_mop *changing;	/* waits for RETIRED */
	struct fkv_mops changes;	/* wait for their turn */
	struct fkv_lfu_count count;	/* accesses, while not in memory */
	uint32_t puts;			/* in flight */
	uint16_t counted;		/* member whose count that is */
	bool persist;			/* decided at PutStart */
};

RB_HEAD(fkv_route_tree, fkv_route);
TAILQ_HEAD(fkv_ssds, fkv_ssd);

enum fkv_mop_type { FKV_MOP_PUT, FKV_MOP_GET, FKV_MOP_DELETE };

#define FKV_MEMBERS_WORDS	(FKV_OWNERS_MAX / 64)

/* An operation in flight: from its start message until it is answered for. */
struct fkv_mop {
	struct fkv_node node;		/* by ticket */
	enum fkv_mop_type type;
	struct fkv_member *member;	/* who asked */
	uint64_t id;			/* its name there */
	uint64_t ticket;		/* and here, never used again */
	struct fkv_key *key;
	struct fkv_route *route;	/* PUT, DELETE: kept by it */
	struct fkv_extent *extent;	/* GET: target. PUT: what is written */
	struct fkv_extent *remote;	/* GET: source, pulled. PUT at another
					   owner: target */
	struct fkv_member *peer;	/* whose that is, or the SSD copy */
	uint64_t len;
	uint64_t put_id;		/* GET: version that is being fetched */
	uint32_t flags;
	uint32_t source;		/* GET: enum fluxonkv_source */
	uint64_t until_ns;		/* it waits for room no longer */
	bool persist;
	bool planned;			/* its owner may be using what it got */
	bool queued;			/* on route->changes */
	bool retired;			/* somebody was asked to, ever */
	bool listed;			/* by the heartbeat that is coming in */
	uint8_t missing;		/* from how many in a row */
	uint32_t nr_asked;		/* RETIREs without an answer */
	uint64_t asked[FKV_MEMBERS_WORDS];	/* of these members */
	struct fkv_waiter waiter;
	struct fkv_timer timer;
	TAILQ_ENTRY(fkv_mop) link;	/* route->changes */
	TAILQ_ENTRY(fkv_mop) of_member;
};

struct fkv_shard_routes {
	struct fkv_ssds replicas;	/* by seq, rising */
	uint64_t tail;			/* lowest live seq, as reported */
};

enum fkv_member_state {
	FKV_MEMBER_TOMBED,	/* by its registration, or after 10 min for good */
	FKV_MEMBER_LIVE,	/* by its lease, BYE or a successor */
};

/*
 * An owner and its segment.
 *
 * Born: its first registration, or with a master that has an owner in its own
 * process.
 * Held by: the table of members, under its name.
 * Dies: with the master; its index is that name's for good.
 */
struct fkv_member {
	struct fkv_space space;
	struct fkv_shard_routes shards[FKV_SHARDS_MAX];
	enum fkv_member_state state;
	uint32_t index;
	uint32_t nr_shards;
	uint32_t ssd_devices;		/* that work */
	uint32_t transports;
	uint64_t incarnation;
	uint64_t serial;		/* of that one, in its ops' tickets */
	uint64_t until_ns;		/* LIVE: its lease; TOMBED: kept so long */
	uint64_t suspect_ns;		/* until then others are preferred (F3) */
	uint32_t failures;		/* in a row */
	uint64_t failed_by[FKV_OWNERS_MAX / 64];	/* members, while
					   suspect: others may reach it */
	uint64_t keys;			/* replicas of any kind */
	struct fkv_mops ops;
	struct fkv_cluster_range *busy;	/* of the registration that comes in */
	size_t nr_busy;
	uint32_t next_part;		/* of it, or of a heartbeat */
	bool stirred;			/* its waiters may have room now */
	TAILQ_ENTRY(fkv_member) stir;
	char name[FKV_CLUSTER_NAME_MAX + 1];
	char address[FKV_CLUSTER_NAME_MAX + 1];
};

TAILQ_HEAD(fkv_members, fkv_member);

struct fkv_master {
	struct fkv_table routes;
	struct fkv_route_tree order;
	struct fkv_table ops;
	struct fkv_table extents;
	struct fkv_timers timers;
	struct fkv_member *member[FKV_OWNERS_MAX];
	uint32_t nr_members;
	uint32_t tombed;		/* of these */
	uint32_t leased;		/* of these: LIVE, with a lease */
	struct fkv_members stirred;
	uint64_t epoch;
	uint64_t next_put_id;
	uint64_t next_handle;
	uint64_t next_serial;
	uint32_t waiting;		/* in all segments */
	uint64_t poll_ns;		/* when waiters are tried again */
	uint64_t now_ns;		/* of the last step */
	uint64_t serve_from_ns;
	uint64_t beat_ns;		/* next look at leases */
	uint64_t rng;
	bool first;
	struct fkv_master_stats stats;
	char text[FKV_TEXT_MAX];
};

static inline struct fkv_member *fkv_member_of(const struct fkv_extent *x)
{
	return fkv_container_of(x->space, struct fkv_member, space);
}

static inline bool fkv_member_live(const struct fkv_member *mb)
{
	return mb->state == FKV_MEMBER_LIVE;
}

/* master.c: room to those that wait, where something came free */
void fkv_master_stirred(struct fkv_master *m, struct fkv_out *out);

/* members.c */
struct fkv_member *fkv_member_create(struct fkv_master *m, const char *name,
				     uint64_t segment_bytes);
void fkv_members_free(struct fkv_master *m);
/* Alive from now on, as another life than before. */
void fkv_member_live_now(struct fkv_master *m, struct fkv_member *mb,
			 uint64_t until_ns);
/* Its waiters are looked at when this step ends. */
void fkv_member_stir(struct fkv_master *m, struct fkv_member *mb);
/* NULL unless it lives. */
struct fkv_member *fkv_member_at(const struct fkv_master *m, uint32_t peer);
struct fkv_msg *fkv_member_send(struct fkv_member *mb, struct fkv_out *out,
				enum fkv_msg_type type);
/* Others are preferred for a while; or it works after all (F3, G6). */
/* A transfer with @mb has failed, or gone well, that @by asked for. */
void fkv_member_failed(struct fkv_master *m, struct fkv_member *mb,
		       const struct fkv_member *by);
void fkv_member_worked(struct fkv_member *mb, const struct fkv_member *by);
/* Not to be tried by @by, not even when nothing else is left. */
bool fkv_member_is_lost_to(const struct fkv_member *mb,
			   const struct fkv_member *by);
/* The time is @now_ns; it may have stood still for this process (K6f). */
void fkv_members_ran(struct fkv_master *m, uint64_t now_ns);
void fkv_members_tick(struct fkv_master *m, struct fkv_out *out);

/* routes.c */
struct fkv_route *fkv_route_find(const struct fkv_master *m,
				 const struct fkv_key *key);
struct fkv_route *fkv_route_get(struct fkv_master *m, struct fkv_key *key);
void fkv_route_gc(struct fkv_master *m, struct fkv_route *r);
/* Does it have a version that anybody may see? */
bool fkv_route_present(const struct fkv_master *m, const struct fkv_route *r);
/* Its replica at @mb, or NULL. */
struct fkv_extent *fkv_route_memory(const struct fkv_route *r,
				    const struct fkv_member *mb);
struct fkv_ssd *fkv_route_ssd(const struct fkv_route *r,
			      const struct fkv_member *mb);
void fkv_route_drop_ssd(struct fkv_master *m, struct fkv_ssd *d);
int fkv_route_add_ssd(struct fkv_master *m, struct fkv_route *r,
		      struct fkv_member *mb, uint32_t shard, uint64_t seq);
void fkv_route_drop_memory(struct fkv_master *m, struct fkv_extent *x);
void fkv_route_clear(struct fkv_master *m, struct fkv_route *r);
void fkv_route_set_memory(struct fkv_master *m, struct fkv_route *r,
			  struct fkv_extent *x, unsigned int f);
/* Accesses of it that it kept when it left memory. */
unsigned int fkv_route_count(const struct fkv_master *m,
			     const struct fkv_route *r);
void fkv_master_stat(struct fkv_master *m, struct fkv_msg *msg,
		     struct fkv_out *out);
void fkv_master_list(struct fkv_master *m, struct fkv_msg *msg,
		     struct fkv_out *out);
void fkv_master_count(struct fkv_master *m, struct fkv_msg *msg,
		      struct fkv_out *out);

/* ops.c */
struct fkv_mop *fkv_mop_find(const struct fkv_master *m,
			     const struct fkv_msg *msg);
struct fkv_mop *fkv_mop_of(const struct fkv_master *m,
			   const struct fkv_member *mb, uint64_t id);
struct fkv_mop *fkv_mop_by_ticket(const struct fkv_master *m, uint64_t ticket);
struct fkv_mop *fkv_mop_create(struct fkv_master *m, enum fkv_mop_type type,
			       const struct fkv_msg *msg);
void fkv_mop_free(struct fkv_master *m, struct fkv_mop *op);
struct fkv_extent *fkv_master_extent(struct fkv_master *m,
				     struct fkv_member *mb, uint64_t offset,
				     uint64_t len, enum fkv_cause cause);
struct fkv_extent *fkv_master_extent_find(const struct fkv_master *m,
					  uint64_t handle);
/* That one, if it is @peer's. */
struct fkv_extent *fkv_master_extent_at(const struct fkv_master *m,
					const struct fkv_msg *msg);
/* Give @n references back; frees the extent when it was the last. */
void fkv_master_ungive(struct fkv_master *m, struct fkv_extent *x, uint64_t n);
void fkv_master_pull(struct fkv_extent *x);
void fkv_master_unpull(struct fkv_master *m, struct fkv_extent *x);
void fkv_master_detach(struct fkv_master *m, struct fkv_extent *x);
/* What its cause is while it is a replica. */
void fkv_master_settle(struct fkv_extent *x);
int fkv_master_room(struct fkv_master *m, struct fkv_mop *op, uint64_t now_ns,
		    const struct fkv_msg *msg);
/* The same for one that waits; *ret_space has none, if it is not 0. */
int fkv_master_give(struct fkv_master *m, struct fkv_mop *op,
		    struct fkv_space **ret_space);
void fkv_master_wait(struct fkv_master *m, struct fkv_mop *op,
		     struct fkv_space *space);
void fkv_master_unwait(struct fkv_master *m, struct fkv_mop *op);

/* change.c: puts and deletes */
void fkv_master_put_start(struct fkv_master *m, uint64_t now_ns,
			  struct fkv_msg *msg, struct fkv_out *out);
void fkv_master_put_planned(struct fkv_master *m, struct fkv_mop *op, int res,
			    struct fkv_out *out);
void fkv_master_put_done(struct fkv_master *m, struct fkv_msg *msg,
			 struct fkv_out *out);
void fkv_master_put_revoke(struct fkv_master *m, struct fkv_msg *msg,
			   struct fkv_out *out);
void fkv_master_put_cancel(struct fkv_master *m, struct fkv_msg *msg,
			   struct fkv_out *out);
void fkv_master_delete(struct fkv_master *m, struct fkv_msg *msg,
		       struct fkv_out *out);
void fkv_master_retired(struct fkv_master *m, struct fkv_msg *msg,
			struct fkv_out *out);
void fkv_master_exposed(struct fkv_master *m, struct fkv_msg *msg,
			struct fkv_out *out);
void fkv_master_fenced(struct fkv_master *m, struct fkv_msg *msg);
/* Puts that were to be pushed to @mb become their requesters' own. */
void fkv_master_lose_targets(struct fkv_master *m, struct fkv_member *mb,
			     struct fkv_out *out);
void fkv_master_unqueue(struct fkv_master *m, struct fkv_member *mb);
/* @mb will answer nothing any more. */
void fkv_master_unask(struct fkv_master *m, struct fkv_member *mb,
		      struct fkv_out *out);
/*
 * @op ends though its owner did not say so. @taken: what it may write stays so
 * until the owner has registered again.
 */
void fkv_master_abandon(struct fkv_master *m, struct fkv_mop *op, bool taken,
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
void fkv_master_serve(struct fkv_master *m, struct fkv_member *mb,
		      struct fkv_out *out);
void fkv_master_persist(struct fkv_master *m, struct fkv_extent *x,
			struct fkv_out *out);
void fkv_master_persist_end(struct fkv_master *m, struct fkv_msg *msg,
			    struct fkv_out *out);
void fkv_master_ssd_tail(struct fkv_master *m, struct fkv_msg *msg);
void fkv_master_ssd_lost(struct fkv_master *m, struct fkv_msg *msg);
void fkv_master_evicted(struct fkv_master *m, struct fkv_msg *msg);
/* Nobody at its owner refers to @x any more, nor answers for it. */
void fkv_master_forget(struct fkv_extent *x);

#endif
