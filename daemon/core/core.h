/* SPDX-License-Identifier: Apache-2.0 */
/*
 * core.h - what goes into a core and what comes out
 *
 * Both cores are state machines: one input in, state changes, outputs are
 * appended to a queue that the caller drains. No clock, no I/O, no callback.
 * Messages between owner and master are plain structs (wire/msg.h); in
 * standalone they are passed in memory, in order, which is all that a session
 * promises (protocol.md F0).
 *
 * Memory is named by (extent handle, offset, length): a core never sees a
 * byte of payload.
 */
#ifndef FKV_CORE_H
#define FKV_CORE_H

#include "base/base.h"
#include "base/key.h"
#include "wire/cluster.h"
#include "wire/msg.h"
#include "wire/request.h"

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

	/* clusters; at both cores: */
	FKV_CMD_CLUSTER,	/* peer cluster: to the other core */
	FKV_CMD_END,		/* peer token(incarnation; an owner: 0): end the
				   session of that life */
	/* owners; transfers end by MOVED, when nothing can touch memory here: */
	FKV_CMD_PULL,		/* token xfer offset from len: a peer's memory at
				   from to offset here */
	FKV_CMD_STAGE,		/* token xfer key offset len: have a peer push
				   that version from its SSD to offset here */
	FKV_CMD_PUSH,		/* token xfer offset from len: from here at from to
				   a peer's memory at offset */
	FKV_CMD_CANCEL,		/* token: end that transfer, which ends then */
	FKV_CMD_PUSHED,		/* token res len: answer of a StageRead */
	FKV_CMD_OPEN,		/* xfer offset len: a peer may push there */
	FKV_CMD_FENCE,		/* token xfer: it may no more; FENCED follows */
	FKV_CMD_STOP,		/* destroy all connections of data; STOPPED
				   follows when nothing can touch memory here */
	FKV_CMD_JOIN,		/* a session of a new incarnation may begin */
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
	bool part;		/* READ: len bytes of the value, at from */
};

/* The other end of a transfer, and what it is for. */
struct fkv_xfer {
	uint64_t incarnation;
	uint64_t op;		/* the target's host knows it by this */
	uint64_t put_id;	/* STAGE */
	uint64_t generation;	/* PUSH for a StageRead: of connection slot */
	uint32_t slot;
	bool staged;		/* PUSH: for a StageRead */
	bool last;		/* PUSH: carries the op id */
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
	uint32_t peer;
	int32_t res;
	struct fkv_key *key;	/* WRITE, STAGE: a reference that goes with it */
	struct fkv_io io;
	union {
		struct fkv_xfer xfer;
		struct fkv_cluster_msg cluster;	/* what it points to: until the
						   next step */
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

/* A CLUSTER of @type to @peer, to be filled. */
struct fkv_cluster_msg *fkv_out_cluster(struct fkv_out *out, uint32_t peer,
					enum fkv_cluster_type type);

/* A SEND of @type; the message is returned to be filled. */
struct fkv_msg *fkv_out_send(struct fkv_out *out, enum fkv_msg_type type);

void fkv_out_done(struct fkv_out *out);

#endif
