/* SPDX-License-Identifier: Apache-2.0 */
/*
 * core.h - what goes into a core and what comes out
 *
 * Both cores are state machines: one input in, state changes, outputs are
 * appended to a queue that the caller drains. No clock, no I/O, no callback.
 * Messages between owner and master are plain structs; in standalone they are
 * passed in memory, in order, which is all that a session promises
 * (protocol.md F0).
 *
 * Memory is named by (extent handle, offset, length): a core never sees a
 * byte of payload.
 */
#ifndef FKV_CORE_H
#define FKV_CORE_H

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
	FKV_MSG_PUT_REVOKE,	/* op; held: the extent is not quiet yet */
	FKV_MSG_GET_START,	/* op key class deadline */
	FKV_MSG_GET_DONE,	/* op */
	FKV_MSG_GET_REVOKE,	/* op; drop: that SSD replica is no good */
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
	FKV_MSG_QUIET,		/* extent n(references back) */
	FKV_MSG_HITS,		/* extent n */
	FKV_MSG_PINS,		/* n: bytes of live entries now pinned, but not
				   of those whose first persist is pending */

	/* master to owner */
	FKV_MSG_PUT_PLAN,	/* op res extent offset text */
	FKV_MSG_PUT_DONE_R,	/* op res put_id extent grant */
	FKV_MSG_GET_PLAN,	/* op res source put_id len extent offset grant */
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
	uint32_t flags;
	uint32_t shard;
	uint32_t source;	/* enum fluxonkv_source; STAT_R: where */
	uint8_t class;
	bool grant;
	bool held;
	bool drop;
	bool first;		/* PERSIST: of a new version, not of a victim */
	uint64_t op;
	struct fkv_key *key;	/* a reference that goes with the message */
	struct fkv_key *key2;
	uint64_t put_id;
	uint64_t len;		/* bytes of the value */
	uint64_t extent;	/* handle, never reused; 0: none */
	uint64_t offset;	/* bytes from the start of the segment */
	uint64_t seq;
	uint64_t n;
	uint64_t deadline_ns;
	struct fkv_listing *listing;
	const char *text;	/* of the sender's, until the next step */
};

/* What an owner core asks of its surroundings. */
enum fkv_cmd_type {
	FKV_CMD_SEND,		/* msg: to the other core */
	FKV_CMD_REPLY,		/* call: encode, send, free */
	FKV_CMD_PUBLISH,	/* entry: show it in the local index */
	FKV_CMD_RETIRE,		/* entry: no new pin from now; SCANNED follows */
	FKV_CMD_EVICT,		/* entry: peek, retire, scan; its EVICTED input
				   comes before any other input */
	FKV_CMD_READ,		/* io: SSD to segment */
	FKV_CMD_WRITE,		/* io: segment to SSD, header first */
	FKV_CMD_HASH,		/* token offset len seed: checksum a payload */
	FKV_CMD_COPY,		/* token client from offset len: arena to segment */
	FKV_CMD_SHUT,		/* token client: that put is over, stop its writer */
	FKV_CMD_NR,
};

struct fkv_io {
	uint32_t shard;
	uint64_t vpos;		/* of the entry's header */
	uint64_t entry_len;
	uint64_t skip_vpos;	/* WRITE: skip header to write, if skip_len */
	uint64_t skip_len;
	uint64_t seq;
	uint64_t put_id;
	uint64_t sum;
	bool warm;		/* READ: nobody waits for it */
};

struct fkv_entry;

struct fkv_cmd {
	enum fkv_cmd_type type;
	uint64_t token;
	uint64_t client;
	uint64_t offset;
	uint64_t from;
	uint64_t len;
	uint64_t seed;
	struct fkv_key *key;	/* WRITE: a reference that goes with it */
	struct fkv_io io;
	union {
		struct fkv_msg msg;
		struct fkv_call *call;
		struct fkv_entry *entry;
	};
};

/* Outputs of a step, in order. Owned by the caller, reused. */
struct fkv_out {
	struct fkv_cmd *cmds;
	size_t n;
	size_t room;
};

/* Room for @n more commands: 0 or -ENOMEM. Appending then cannot fail. */
int fkv_out_reserve(struct fkv_out *out, size_t n);

/* A zeroed command of @type at the end; ends the process without memory. */
struct fkv_cmd *fkv_out_add(struct fkv_out *out, enum fkv_cmd_type type);

/* A SEND of @type; the message is returned to be filled. */
struct fkv_msg *fkv_out_send(struct fkv_out *out, enum fkv_msg_type type);

void fkv_out_done(struct fkv_out *out);

/* Drop what a message carries (references, listing). */
void fkv_msg_done(struct fkv_msg *msg);

#endif
