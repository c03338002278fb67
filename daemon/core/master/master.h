/* SPDX-License-Identifier: Apache-2.0 */
/*
 * master.h - the master core: routes, space, and who may do what
 *
 * Decides which version of a key is current, where its replicas are, which
 * extent is whose, and what is evicted, for all owners of a cluster. Knows no
 * payload, no SSD offset, no socket. One thread owns it; see core.h for how it
 * is driven.
 */
#ifndef FKV_CORE_MASTER_H
#define FKV_CORE_MASTER_H

#include "core/core.h"

struct fkv_master;

struct fkv_master_config {
	uint64_t segment_bytes;		/* of an owner in this process, which
					   is peer 0 and needs no lease; 0: none */
	uint64_t incarnation;		/* of that */
	uint64_t epoch;			/* 20 bits; above any earlier one */
	uint64_t seed;			/* of what is chosen at random */
	uint64_t serve_from_ns;		/* nobody registers before: leases of
					   the last master may last so long */
	uint32_t shards;		/* of that owner's SSD tier */
	bool first;			/* eviction.new_values: first */
};

struct fkv_master_stats {
	uint64_t capacity, used, free, unevictable;
	uint64_t cause_bytes[6];	/* by enum fkv_cause */
	uint64_t pinned_bytes;
	uint64_t largest_hole, holes;
	uint64_t keys, keys_memory, keys_ssd;
	uint64_t waiting;
	uint64_t ops, extents;
	uint64_t members, members_live;
	/* ever */
	uint64_t puts, gets, misses, deletes;
	uint64_t evictions, evicted_bytes, evict_busy, evict_held;
	uint64_t promotions, promotions_stale, temporary, revokes, persists, commits;
	uint64_t commits_ignored, persist_failed, persist_superseded;
	uint64_t ssd_dropped, rebacked, windows;
	uint64_t space_waits, no_space;
	uint64_t bad_messages;
	uint64_t tombs, suspected, leaked_ops;
};

/* What a dump of routes shows of one. */
struct fkv_route_info {
	const struct fkv_key *key;
	uint64_t put_id, len, offset;
	bool memory, ssd, pending, unbacked;
	unsigned int frequency;
	uint32_t refs;
};

/* What a list of members shows of one. */
struct fkv_member_info {
	const char *name, *address;
	uint64_t incarnation, capacity, free, unevictable, replicas;
	uint32_t ssd_devices;
	bool live, suspect;
};

int fkv_master_create(const struct fkv_master_config *cfg,
		      struct fkv_master **ret);
void fkv_master_free(struct fkv_master *m);

/* Most bytes that a put may ever have in a segment of so many (P4). */
uint64_t fkv_master_put_limit(uint64_t segment_bytes);

/*
 * An owner registers, in as many parts as it needs: 0 and what it is called
 * from now on, by its session's messages (msg->peer) and by those to it; with
 * the last part it is told so. -EUSERS: too many owners; -EEXIST: that name is
 * the owner's in this process; -EAGAIN: too early; -EINVAL, -E2BIG, -EOVERFLOW,
 * -ENOMEM. FKV_CMD_END then says that the session of the life before is over:
 * what is said to the peer before it is that one's.
 */
int fkv_master_register(struct fkv_master *m, uint64_t now_ns,
			const struct fkv_cluster_register *reg,
			uint32_t *ret_peer, struct fkv_out *out);

/* HEARTBEAT or BYE of @peer. */
void fkv_master_cluster(struct fkv_master *m, uint64_t now_ns, uint32_t peer,
			const struct fkv_cluster_msg *msg,
			struct fkv_out *out);

/* One message in, of msg->peer; takes over what it carries. */
void fkv_master_step(struct fkv_master *m, uint64_t now_ns,
		     struct fkv_msg *msg, struct fkv_out *out);
/* When it wants a tick, or FKV_NEVER; and the tick. */
uint64_t fkv_master_deadline(const struct fkv_master *m);
void fkv_master_tick(struct fkv_master *m, uint64_t now_ns,
		     struct fkv_out *out);

void fkv_master_get_stats(const struct fkv_master *m,
			  struct fkv_master_stats *ret);

/* The i-th member, false behind the last. */
bool fkv_master_member(const struct fkv_master *m, uint32_t i,
		       struct fkv_member_info *ret);

/* The route of exactly @key; the first after @cursor (NULL: of all). */
bool fkv_master_route_at(const struct fkv_master *m, const struct fkv_key *key,
			 struct fkv_route_info *ret);
bool fkv_master_route_after(const struct fkv_master *m,
			    const struct fkv_key *cursor,
			    struct fkv_route_info *ret);

/* Walk everything and end the process where accounts do not balance. */
void fkv_master_check(const struct fkv_master *m);

#endif
