/* SPDX-License-Identifier: Apache-2.0 */
/*
 * owner.h - the owner core: clients, local index entries, fetches, persists
 *
 * Turns client calls into messages to the master, keeps what this host may
 * serve by itself (entries), counts who holds what, fills memory from the SSD
 * ring and writes to it. Knows no byte of payload; the gateway and the SSD
 * threads carry out its commands. One thread owns it; see core.h.
 */
#ifndef FKV_CORE_OWNER_H
#define FKV_CORE_OWNER_H

#include "core/core.h"
#include "core/ssd/ring.h"

struct fkv_owner;

#define FKV_NO_SLOT	UINT32_MAX

/*
 * An entry: one version in this host's local index, or only held.
 *
 * Born: by the answer of the master that gives a reference (PutDone, GetPlan,
 * GetDone).
 * Held by: the index (while live), client holders (pins), readers of the
 * shared index until the gateway has scanned.
 * Dies: retired, no pins, scanned.
 * Last put: fkv_entry_gc() in the owner core.
 * Afterwards: the master may use the extent again.
 */
struct fkv_entry {
	struct fkv_node node;		/* owner: live entries by key */
	struct fkv_key *key;
	uint64_t put_id;
	uint64_t extent;
	uint64_t offset;		/* bytes, in the segment */
	uint64_t len;
	uint32_t given;			/* references of the master's */
	uint32_t pins;			/* holders by message */
	uint32_t slot;			/* the gateway's: its index entry */
	bool live;
	bool scanned;			/* no pin in shared memory any more */
	bool evicting;
	bool pending;			/* first persist: not evictable anyway */
	bool read;			/* the front's: pinned while pending */
	TAILQ_ENTRY(fkv_entry) waits;	/* owner: live ones that are pending */
	TAILQ_ENTRY(fkv_entry) all;	/* owner: all of them */
};

enum fkv_in_type {
	FKV_IN_CALL,		/* call: taken over */
	FKV_IN_CLIENT,		/* client uid arena_bytes: connected */
	FKV_IN_CLIENT_GONE,	/* client: nothing of it can write any more */
	FKV_IN_MSG,		/* msg: from the master; taken over */
	FKV_IN_IO_DONE,		/* token res sum */
	FKV_IN_HASHED,		/* token sum */
	FKV_IN_COPIED,		/* token res */
	FKV_IN_SCANNED,		/* entry: retired, and no reader pins it */
	FKV_IN_EVICTED,		/* entry res(enum fkv_evict_result) */
	FKV_IN_HITS,		/* entry n */
	FKV_IN_PINS,		/* n: bytes of live entries pinned by readers, but not
				   by holders as well, nor pending */
	FKV_IN_TICK,

	/* clusters */
	FKV_IN_SESSION,		/* incarnation n(epoch): after FKV_CMD_JOIN one
				   began, in order with what follows */
	FKV_IN_SESSION_END,	/* it is over: all unanswered is void (F0) */
	FKV_IN_CLUSTER,		/* cluster: of that session, but for batches */
	FKV_IN_MOVED,		/* token res said: a PULL, STAGE or PUSH ended;
				   -ECANCELED without a CANCEL: for another's
				   sake (G3.5); said: the peer itself says so */
	FKV_IN_PROGRESS,	/* token: a piece of that is through */
	FKV_IN_FENCED,		/* token: of the FENCE */
	FKV_IN_STOPPED,		/* after FKV_CMD_STOP, and all MOVED and FENCED */
	FKV_IN_STAGE,		/* token stage: a peer asks for a push; PUSHED
				   with that token is the answer */
};

struct fkv_in {
	enum fkv_in_type type;
	int32_t res;
	uint64_t token;
	uint64_t client;
	uint32_t uid;
	uint64_t n;
	uint64_t sum;
	uint64_t incarnation;
	bool said;
	const uint64_t *sums;		/* IO_DONE: of a READ that is a part, of
					   each FKV_SUM_CHUNK of it */
	const struct fkv_cluster_msg *cluster;
	const struct fkv_cluster_stage_read *stage;
	struct fkv_call *call;
	struct fkv_msg *msg;
	struct fkv_entry *entry;
};

struct fkv_owner_config {
	uint64_t client_cap;		/* bytes; 0: none (H4) */
	uint64_t uid_cap;
	uint64_t put_limit;		/* largest value of a put; 0: any */
	uint64_t hold_limit;		/* the least of the caps; 0: none */
	struct fkv_ring *ring;		/* NULL: no SSD tier; stays the caller's */
	uint32_t ring_devices;
	uint32_t ring_shards;

	bool cluster;			/* false: the master is in this process */
	const char *name;		/* of this owner; the caller's, as below */
	const char *address;		/* of its transfers */
	uint32_t transports;
	uint64_t segment_bytes;
	uint64_t chunk_offset;		/* behind these: chunk buffers (G5), */
	uint32_t chunks;		/* so many of FKV_CHUNK bytes */
};

struct fkv_owner_stats {
	uint64_t entries, entries_retired, clients, holders, pinned_bytes;
	uint64_t open_puts, expired_puts, fetches, pending_ops, calls;
	uint64_t persist_queued, persist_active, persist_blocked;
	uint64_t persist_committing;
	uint64_t devices_on;
	uint64_t stages, sessions, lease_ns;
	/* ever; gets = hits + misses + errors */
	uint64_t hits_memory_remote, hits_ssd_remote, bytes_pulled, bytes_pushed;
	uint64_t staged, stage_errors, stalls;
	uint64_t gets, hits_local, hits_ssd, misses, get_errors;
	uint64_t puts, put_errors, bytes_put, bytes_ssd_read, bytes_persisted;
	uint64_t timeouts, quota_refused, sum_errors, read_errors;
	uint64_t write_errors, refetches, persist_failed, put_timeouts;
	uint64_t blocked_waits, blocked_ns, stale_tokens;
};

struct fkv_client_info {
	uint64_t client;
	uint32_t uid;
	uint64_t holders, pinned_bytes, open_puts, calls;
};

int fkv_owner_create(const struct fkv_owner_config *cfg,
		     struct fkv_owner **ret);
void fkv_owner_free(struct fkv_owner *o);

void fkv_owner_step(struct fkv_owner *o, uint64_t now_ns,
		    const struct fkv_in *in, struct fkv_out *out);
uint64_t fkv_owner_deadline(const struct fkv_owner *o);

/* Until when hits are good without asking (K6f); FKV_NEVER: always. */
uint64_t fkv_owner_lease(const struct fkv_owner *o);

void fkv_owner_get_stats(const struct fkv_owner *o,
			 struct fkv_owner_stats *ret);
/*
 * What @client pins in the shared index, at the last count: against its caps
 * from now. Returns what it is charged for besides. 0 for nobody.
 */
uint64_t fkv_owner_client_pins(struct fkv_owner *o, uint64_t client,
			       uint64_t bytes);
/* Live entries whose first persist is pending: the one after @e, NULL: first. */
struct fkv_entry *fkv_owner_next_pending(const struct fkv_owner *o,
					 const struct fkv_entry *e);
/* The i-th client, false behind the last. */
bool fkv_owner_client_info(const struct fkv_owner *o, uint64_t i,
			   struct fkv_client_info *ret);
void fkv_owner_check(const struct fkv_owner *o);

#endif
