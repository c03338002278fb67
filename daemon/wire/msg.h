/* SPDX-License-Identifier: Apache-2.0 */
/*
 * msg.h - the messages between an owner core and a master core
 *
 * Plain structs: in standalone passed in memory, between hosts encoded by
 * cluster.h and carried by session.h. Exactly once, in order, both ways.
 */
#ifndef FKV_WIRE_MSG_H
#define FKV_WIRE_MSG_H

#include "base/base.h"
#include "base/key.h"
#include "wire/request.h"

/* What a request for memory may use of a segment (protocol.md P4). */
enum fkv_class {
	FKV_CLASS_INTO,		/* get_into: 100 % */
	FKV_CLASS_GET,		/* get with a holder: 95 % */
	FKV_CLASS_PUT,		/* puts and leases: 85 % */
	FKV_CLASS_NR,
};

enum fkv_msg_type {
	/* owner to master */
	FKV_MSG_PUT_START,	/* op key len flags(FLUXONKV_PUT_*) deadline */
	FKV_MSG_PUT_DONE,	/* op */
	FKV_MSG_PUT_REVOKE,	/* op; held: the extent is not quiet yet;
				   suspect: its target's host is silent */
	FKV_MSG_GET_START,	/* op key class deadline */
	FKV_MSG_GET_DONE,	/* op */
	FKV_MSG_GET_REVOKE,	/* op; drop: that SSD replica is no good;
				   suspect: its source is silent (G6) */
	FKV_MSG_DELETE,		/* op key */
	FKV_MSG_STAT,		/* op key */
	FKV_MSG_LIST,		/* op key(prefix) key2(cursor) n(limit) */
	FKV_MSG_COUNT,		/* op key(prefix) */
	FKV_MSG_SSD_COMMIT,	/* op key put_id extent shard seq */
	FKV_MSG_PERSIST_FAILED,	/* op key put_id extent res */
	FKV_MSG_SSD_TAIL,	/* shard seq */
	FKV_MSG_SSD_LOST,	/* key put_id */
	FKV_MSG_SSD_STATE,	/* n: devices that work */
	FKV_MSG_RETIRED,	/* op */
	FKV_MSG_EVICTED,	/* extent res(FKV_EVICT_*) n(references back) */
	FKV_MSG_QUIET,		/* extent n(references back); extent 0: what was
				   reported busy at offset (F1) */
	FKV_MSG_HITS,		/* extent n */
	FKV_MSG_PINS,		/* n: bytes of live entries now pinned, but not
				   of those whose first persist is pending */

	/* master to owner */
	FKV_MSG_PUT_PLAN,	/* op res extent offset text; incarnation
				   remote: where it is to be pushed */
	FKV_MSG_PUT_DONE_R,	/* op res put_id extent grant */
	FKV_MSG_GET_PLAN,	/* op res source put_id len extent offset grant;
				   incarnation remote: of the source */
	FKV_MSG_GET_DONE_R,	/* op res grant */
	FKV_MSG_DELETE_R,	/* op res */
	FKV_MSG_STAT_R,		/* op res len put_id where */
	FKV_MSG_LIST_R,		/* op listing */
	FKV_MSG_COUNT_R,	/* op n */
	FKV_MSG_SSD_COMMIT_R,	/* op */
	FKV_MSG_RETIRE,		/* op key put_id */
	FKV_MSG_EVICT,		/* extent key put_id */
	FKV_MSG_PERSIST,	/* key put_id extent offset len first */

	/* owner to master */
	FKV_MSG_PUT_CANCEL,	/* op; if it waits for room, PUT_PLAN is at once */

	/* puts at another owner (protocol.md G3.2, G3.4): master to its host */
	FKV_MSG_EXPOSE,		/* op incarnation: of the writer; ticket extent
				   offset len: may be written from now on */
	FKV_MSG_FENCE,		/* op incarnation extent: no more, ever */
	/* and its answers */
	FKV_MSG_EXPOSED,	/* ticket res */
	FKV_MSG_FENCED,		/* extent */
	FKV_MSG_NR,
};

/* answers of EVICTED (protocol.md M4a) */
enum fkv_evict_result {
	FKV_EVICT_OK,		/* retired and quiet */
	FKV_EVICT_BUSY,		/* pinned: still published */
	FKV_EVICT_HELD,		/* retired, still pinned: QUIET follows */
};

struct fkv_msg {
	enum fkv_msg_type type;
	int32_t res;
	uint32_t peer;		/* the session that it comes from or goes to: at
				   a master the member, at an owner the home */
	uint32_t flags;
	uint32_t shard;
	uint32_t source;	/* enum fluxonkv_source; STAT_R: where */
	uint8_t class;
	bool grant;
	bool held;
	bool drop;
	bool first;		/* PERSIST: of a new version, not of a victim */
	bool suspect;
	uint64_t op;
	struct fkv_key *key;	/* a reference that goes with the message */
	struct fkv_key *key2;
	uint64_t put_id;
	uint64_t len;		/* bytes of the value */
	uint64_t extent;	/* handle, never reused; 0: none */
	uint64_t offset;	/* bytes from the start of the segment */
	uint64_t seq;
	uint64_t ticket;	/* the master's name of an op; RETIRE has it
				   as its op */
	uint64_t incarnation;	/* of another owner, or 0: none */
	uint64_t remote;	/* bytes from the start of its segment */
	uint64_t n;
	uint64_t deadline_ns;
	struct fkv_listing *listing;
	const char *text;	/* of the sender's, until the next step */
};

/* Drop what a message carries (references, listing). */
void fkv_msg_done(struct fkv_msg *msg);

#endif
