/* SPDX-License-Identifier: Apache-2.0 */
/*
 * batch.h - what the cores say to one peer in one turn of the loop
 *
 * Messages are kept until the turn is over and travel as one BATCH, so that the
 * keys of a call cost one round trip. Whoever sends anything else in the same
 * session sends what is kept before: a session has one order.
 *
 * Nothing is refused for want of room at the other end: what a core has said it
 * relies on. Who admits new work looks at fkv_rpc_peer_has_room() before; a
 * session that takes no more at all is over.
 */
#ifndef FKV_SVC_BATCH_H
#define FKV_SVC_BATCH_H

#include "io/rpc.h"
#include "wire/cluster.h"

struct fkv_batch {
	uint32_t n;
	bool recalls;			/* and nothing else */
	struct fkv_msg *msgs;
	char **texts;			/* of each, or NULL */
};

/* Bytes of messages being made, of one thread. */
struct fkv_batch_stats {
	uint64_t frames, messages, bytes;
};

struct fkv_batch_out {
	uint8_t *buf;			/* FKV_CLUSTER_BYTES_MAX */
	struct fkv_batch_stats stats;
};

/* 0 or -ENOMEM; done() also after a failure. */
int fkv_batch_init(struct fkv_batch *b);
void fkv_batch_done(struct fkv_batch *b);
int fkv_batch_out_init(struct fkv_batch_out *o);
void fkv_batch_out_done(struct fkv_batch_out *o);

/* Is there room for @msg, or is it to be sent before? */
bool fkv_batch_fits(const struct fkv_batch *b, const struct fkv_msg *msg);
/* @msg is taken over, its text copied. */
void fkv_batch_add(struct fkv_batch *b, const struct fkv_msg *msg);

/* Send all in one message, or more if it is long. 0 or -errno: end the session. */
int fkv_batch_send(struct fkv_batch *b, struct fkv_rpc_peer *to,
		   struct fkv_batch_out *o, uint64_t now_ns);
/* All is void. */
void fkv_batch_drop(struct fkv_batch *b);

/* Another message of the session. 0 or -errno: end it. */
int fkv_batch_say(const struct fkv_cluster_msg *msg, struct fkv_rpc_peer *to,
		  struct fkv_batch_out *o, uint64_t now_ns);

/* Is a message of @type said by masters, and not by owners? */
bool fkv_batch_of_master(enum fkv_msg_type type);

#endif
