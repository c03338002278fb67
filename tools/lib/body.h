/* SPDX-License-Identifier: Apache-2.0 */
/*
 * body.h - a request being written, a reply being read
 *
 * A message (struct fkv_msg) is one frame to the daemon, in memory of its own
 * or, when small, inside the struct; fkv_msg_done() frees it. A reply owns the
 * bytes of one frame's body in the same way. The layout is the uapi header's.
 *
 * Every request of up to FLUXONKV_BATCH_MAX items fits one frame, so that
 * nothing is ever split for its size. Every length of a reply is checked once,
 * in fkv_reply_parse(); the daemon is not trusted to be well.
 */
#ifndef FKV_LIB_BODY_H
#define FKV_LIB_BODY_H

#include "lib.h"

#define FKV_MSG_SMALL	640	/* one item with the longest key fits */
#define FKV_REPLY_SMALL	512

struct fkv_msg {
	uint8_t *data;
	size_t size;			/* written so far */
	size_t cap;
	uint16_t op;
	uint32_t nr;			/* items announced */
	uint8_t small[FKV_MSG_SMALL] __attribute__((aligned(8)));
};

struct fkv_reply {
	struct fluxonkv_rep rep;
	uint8_t *body;			/* small, or allocated */
	size_t size;
	const uint8_t *items;		/* behind rep */
	size_t items_size;
	const char *text;		/* rep.text_len bytes, no 0 behind */
	uint8_t small[FKV_REPLY_SMALL] __attribute__((aligned(8)));
};

static inline size_t fkv_key_room(size_t key_len)
{
	return (key_len + 7) & ~(size_t)7;
}

/*
 * Begin a request with room for @nr items whose keys take @keys_room bytes (a
 * sum of fkv_key_room()). Returns 0, -ENOMEM, or -E2BIG for a frame too large.
 */
int fkv_msg_init(struct fkv_msg *msg, const struct fluxonkv_req *req,
		 size_t keys_room);
void fkv_msg_done(struct fkv_msg *msg);

/* Add an item; item->key_len bytes at @key. The room must have been asked. */
void fkv_msg_add(struct fkv_msg *msg, const struct fluxonkv_item *item,
		 const void *key);

/* Stamp the frame's @id and the relative timeout, before each sending. */
void fkv_msg_stamp(struct fkv_msg *msg, uint64_t id, uint64_t timeout_ns);

/*
 * Take a copy of a body of @size bytes, unchecked; -ENOMEM. fkv_reply_done()
 * is fine on a zeroed or done reply.
 */
int fkv_reply_take(struct fkv_reply *reply, const void *body, size_t size);
void fkv_reply_done(struct fkv_reply *reply);

#define FKV_REPLY_ANY	UINT32_MAX

/*
 * Check a taken body as the answer to @op with @nr items (FKV_REPLY_ANY: any
 * number). Returns 0 or -EPROTO with a sentence.
 */
int fkv_reply_parse(struct fkv_reply *reply, uint16_t op, uint32_t nr);

/* Result @i < rep.nr. A status that is no -errno becomes -EPROTO. */
struct fluxonkv_result fkv_reply_result(const struct fkv_reply *reply,
					uint32_t i);

/*
 * The listed key at *@pos (from 0), which moves on: 0, or -EPROTO. *ret_key
 * points into the reply.
 */
int fkv_reply_listed(const struct fkv_reply *reply, size_t *pos,
		     struct fluxonkv_listed *ret_listed, const void **ret_key);

/*
 * Remember the sentence of @err: the reply's text when it has one, else what
 * the errno means. Returns @err.
 */
int fkv_reply_fail(const struct fkv_reply *reply, const char *call, int err);

#endif
