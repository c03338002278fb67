/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cluster.h - the messages between hosts, as structs and as bytes
 *
 * The schema is cluster.proto. What decodes has every length, count and number
 * in its range, so that nothing behind this room checks them again; what does
 * not is an error with a sentence. Fields that this version does not know are
 * passed over.
 *
 * Born: fkv_cluster_decode(), or filled by its sender.
 * Held by: whoever decoded it.
 * Dies: fkv_cluster_msg_done(). A sender's own arrays and strings are not freed.
 * Afterwards: no text, array or message of it may be read.
 *
 * Deadlines are absolute here and what is left of them on the wire: hosts have
 * no clock in common. The time that a message waits or travels is not taken
 * off, so a master may wait longer than its caller, who keeps his own deadline.
 */
#ifndef FKV_WIRE_CLUSTER_H
#define FKV_WIRE_CLUSTER_H

#include "wire/msg.h"

#define FKV_CLUSTER_VERSION		1u

/* of one encoded message: a frame has room for its seal and numbers */
#define FKV_CLUSTER_BYTES_MAX		(FKV_FRAME_MAX - 4096u)
#define FKV_CLUSTER_BATCH_MAX		128u
#define FKV_CLUSTER_RECALL_MAX		256u	/* a batch of recalls */
#define FKV_CLUSTER_OPS_MAX		16384u	/* of one part */
#define FKV_CLUSTER_RANGES_MAX		4096u	/* of one part */
#define FKV_CLUSTER_PARTS_MAX		1024u
#define FKV_CLUSTER_NAME_MAX		255u	/* without its zero */
#define FKV_CLUSTER_EPOCH_MAX		((1u << 20) - 1)
#define FKV_CLUSTER_TIME_MAX		(3600 * FKV_SEC)
#define FKV_CLUSTER_SLOTS_MAX		16u	/* connections of a peer (T3) */

enum fkv_cluster_type {
	FKV_CLUSTER_BATCH,		/* messages of the cores, in order */
	FKV_CLUSTER_REGISTER,		/* owner: takes part from now on */
	FKV_CLUSTER_REGISTERED,
	FKV_CLUSTER_HEARTBEAT,		/* owner: lives, and has these ops open */
	FKV_CLUSTER_HEARTBEAT_REPLY,	/* its lease goes on */
	FKV_CLUSTER_FENCE,		/* master: nothing may touch that op's
					   target any more */
	FKV_CLUSTER_FENCED,		/* and so it is */
	FKV_CLUSTER_QUIET,		/* owner: exposures by these ops are over */
	FKV_CLUSTER_STAGE_READ,		/* owner to owner: read and push to me */
	FKV_CLUSTER_PUSHED,		/* its answer: all chunks are sent */
	FKV_CLUSTER_BYE,		/* leaves on purpose */
	FKV_CLUSTER_MEMBER,		/* master: another owner came or went */
	FKV_CLUSTER_NR,
};

/* A message of these types may come with 255 others, of the rest with 127. */
static inline bool fkv_msg_is_recall(enum fkv_msg_type type)
{
	return type == FKV_MSG_RETIRE || type == FKV_MSG_RETIRED ||
	       type == FKV_MSG_EVICT || type == FKV_MSG_EVICTED ||
	       type == FKV_MSG_QUIET || type == FKV_MSG_HITS;
}

struct fkv_cluster_batch {
	uint32_t n;
	struct fkv_msg *msgs;
};

struct fkv_cluster_range {
	uint64_t offset;
	uint64_t len;
};

/* What of its memory is not quiet comes in @parts messages, the rest in each. */
struct fkv_cluster_register {
	const char *name;		/* instance, 1..255 bytes */
	uint64_t incarnation;		/* not 0 */
	uint64_t was;			/* what it was before, if nothing that
					   it kept was changed since; or 0 */
	uint32_t epoch_seen;		/* the highest that it has met, or 0 */
	uint64_t segment_bytes;
	uint32_t ssd_devices;
	uint32_t ssd_shards;		/* of all devices */
	uint32_t transports;		/* FKV_CLUSTER_TCP, _VERBS */
	const char *address;		/* of its transfers: "host:port" */
	uint32_t part, parts;
	uint32_t n;
	struct fkv_cluster_range *busy;	/* in whole units of 4 KiB */
};

#define FKV_CLUSTER_TCP		(1u << 0)
#define FKV_CLUSTER_VERBS	(1u << 1)

struct fkv_cluster_registered {
	int32_t res;
	uint32_t epoch;
	uint64_t lease_ns;
	uint64_t heartbeat_ns;		/* how often */
	const char *text;
};

/* An id that is in no part of two heartbeats is released (protocol.md G3). */
struct fkv_cluster_heartbeat {
	uint64_t seq;
	uint32_t part, parts;
	uint32_t n;
	const uint64_t *ops;
};

struct fkv_cluster_heartbeat_reply {
	uint64_t seq;			/* of the heartbeat: when was it sent? */
	int32_t res;
	uint32_t epoch;
	uint64_t lease_ns;		/* from its sending */
};

struct fkv_cluster_fence {
	uint64_t incarnation;		/* of the writer */
	uint64_t op;
	int32_t res;			/* FENCED */
};

struct fkv_cluster_quiet {
	uint32_t n;			/* 1..256 */
	const uint64_t *ops;
};

struct fkv_cluster_stage_read {
	uint64_t op;
	struct fkv_key *key;		/* a reference */
	uint64_t put_id;
	uint64_t len;
	uint64_t incarnation;		/* of the requester: its target's host */
	uint64_t offset;		/* of the target */
	uint32_t slot;			/* the connection for all chunks, */
	uint64_t generation;		/* and none after it (G3.2) */
	uint64_t deadline_ns;
};

struct fkv_cluster_pushed {
	uint64_t op;
	int32_t res;
	uint64_t bytes;
};

struct fkv_cluster_bye {
	uint32_t reason;		/* enum fkv_cluster_leave */
	const char *text;
};

/* Plans name owners by incarnation; where each is, is told before. */
struct fkv_cluster_member {
	uint64_t incarnation;
	bool gone;			/* it is no more: let go of it */
	uint32_t transports;
	const char *name, *address;
};

enum fkv_cluster_leave {
	FKV_CLUSTER_STOPS,
	FKV_CLUSTER_DRAINED,
	FKV_CLUSTER_RESTARTS,
	FKV_CLUSTER_LEAVE_NR,
};

struct fkv_pool;

struct fkv_cluster_msg {
	enum fkv_cluster_type type;
	union {
		struct fkv_cluster_batch batch;
		struct fkv_cluster_register reg;
		struct fkv_cluster_registered registered;
		struct fkv_cluster_heartbeat heartbeat;
		struct fkv_cluster_heartbeat_reply heartbeat_reply;
		struct fkv_cluster_fence fence;
		struct fkv_cluster_quiet quiet;
		struct fkv_cluster_stage_read stage_read;
		struct fkv_cluster_pushed pushed;
		struct fkv_cluster_bye bye;
		struct fkv_cluster_member member;
	};
	struct fkv_pool *pool;		/* of a decoded one */
};

/*
 * Encode @m into @buf of @room bytes. 0 and the length; -EINVAL: out of its
 * range, never to be sent; -EMSGSIZE: larger than @room or than a message may
 * be, send fewer at once; -ENOMEM.
 */
int fkv_cluster_encode(const struct fkv_cluster_msg *m, uint64_t now_ns,
		       void *buf, size_t room, size_t *ret_len);

/*
 * Decode @size bytes. 0 and the message; -EPROTONOSUPPORT: another version;
 * -EPROTO: no such message; -E2BIG: too many of something; -EINVAL: out of a
 * range; *why then says what. -ENOMEM.
 */
int fkv_cluster_decode(const void *data, size_t size, uint64_t now_ns,
		       struct fkv_cluster_msg *ret, const char **why);

/* Drop what a decoded message carries; of core messages still in it, too. */
void fkv_cluster_msg_done(struct fkv_cluster_msg *m);

#endif
