/* SPDX-License-Identifier: Apache-2.0 */
/*
 * held.h - what priv of a holder and of a put in place says
 *
 * priv[0] is the connection with the kind in its low bits, priv[1] the token
 * of a pin or the daemon's id. Both 0: nothing is held, so that a second
 * release of the same struct is EINVAL. A connection found here is never
 * touched before fkv_client_find() knows it.
 */
#ifndef FKV_LIB_HELD_H
#define FKV_LIB_HELD_H

#include "client.h"

enum fkv_held {
	FKV_HELD_NONE,
	FKV_HELD_PIN,		/* a slot of the pin pages */
	FKV_HELD_MESSAGE,	/* a holder of the daemon's */
	FKV_HELD_PUT,		/* an open put */
};

#define FKV_PENDING	1	/* status of an item that the daemon is asked */

static inline uint64_t fkv_held_make(const struct fkv_conn *conn,
				     enum fkv_held kind)
{
	return (uint64_t)(uintptr_t)conn | kind;
}

static inline enum fkv_held fkv_held_kind(const uint64_t *priv)
{
	return priv[0] & 3;
}

static inline struct fkv_conn *fkv_held_conn(const uint64_t *priv)
{
	return (struct fkv_conn *)(uintptr_t)(priv[0] & ~(uint64_t)3);
}

/*
 * Pin a key by the shared index, charged to the cap: 0, FKV_PENDING (ask the
 * daemon), or -EDQUOT. *ret_conn is safe to use while the pin is.
 */
int fkv_hit(struct fluxonkv *client, const struct fluxonkv_key *key,
	    struct fkv_conn **ret_conn, struct fkv_pin *ret_pin);

/*
 * Ask the daemon about the keys that are pending: @key_of and @status_of tell
 * of item i of n. On 0 there is a parsed reply and a referenced connection.
 */
struct fkv_ask {
	const char *call;		/* its name, for sentences */
	uint16_t op;
	uint16_t flags;
	bool again;			/* harmless when done twice */
	size_t n;
	uint64_t deadline;
	const void *items;		/* n of @stride bytes, key first */
	size_t stride;
	const int *status;		/* the first item's */
	size_t status_stride;
};

int fkv_ask(struct fluxonkv *client, const struct fkv_ask *ask,
	    struct fkv_reply *ret_reply, struct fkv_conn **ret_conn);

/* Answer @i of a reply, also when it has none or failed as a whole. */
struct fluxonkv_result fkv_answer(const struct fkv_reply *reply,
				  const char *call, uint32_t i);

/* Does what a GET answered lie in the segment? 0 or -EPROTO. */
int fkv_answer_check(const struct fkv_conn *conn,
		     const struct fluxonkv_result *res);

static inline const void *fkv_held_data(const struct fkv_conn *conn,
					uint64_t offset, uint64_t len)
{
	return len ? conn->segment + offset : NULL;
}

#endif
