/* SPDX-License-Identifier: Apache-2.0 */
/*
 * request.h - one client call, decoded from its body, and its reply
 *
 * Born: fkv_call_decode(), from the bytes of a request.
 * Held by: the owner core while it works on it, then by the reply.
 * Dies: fkv_call_free(), by whoever encodes the reply, or by the owner core
 * when its client is gone.
 *
 * The uapi header documents the layout. Every length is checked here, once;
 * nothing behind this room sees an undecoded byte.
 */
#ifndef FKV_WIRE_REQUEST_H
#define FKV_WIRE_REQUEST_H

#include <sys/queue.h>

#include "linux/fluxonkv.h"

#include "base/base.h"
#include "base/key.h"
#include "base/timer.h"

struct fkv_call;
struct fkv_fetch;

/* One key of a call: what was asked, and the answer. */
struct fkv_item {
	struct fkv_key *key;		/* NULL where the op has none */
	uint32_t flags;
	uint64_t len;
	uint64_t id;

	bool done;
	struct fluxonkv_result res;

	/* the owner core's, while the item waits */
	struct fkv_call *call;
	struct fkv_fetch *fetch;
	uint32_t asked;			/* of the fetch, when it was joined */
	uint32_t next;			/* COMMIT: next item of its key, or 0 */
	bool follows;			/* COMMIT: is such a next one */
	uint64_t op;			/* put or message in flight, or 0 */
	TAILQ_ENTRY(fkv_item) link;	/* fetch->waiters */
};

struct fkv_listed {
	struct fkv_key *key;		/* a reference */
	uint64_t len;
	uint64_t put_id;
	uint32_t where;
};

/* What LIST found; owned by the call once attached. */
struct fkv_listing {
	uint32_t n;
	bool more;
	struct fkv_listed at[];
};

#define FKV_TEXT_MAX	400

struct fkv_call {
	uint64_t client;
	uint64_t id;			/* frame id; 0: no reply wanted */
	uint16_t op;
	uint16_t flags;
	uint32_t nr;
	uint32_t pending;		/* items not done */
	uint64_t timeout_ns;
	uint64_t arg;
	uint64_t began_ns;		/* the service's, for latencies */

	int32_t status;
	uint64_t ret_arg;
	char text[FKV_TEXT_MAX];	/* a sentence for the caller, or "" */
	struct fkv_listing *listing;

	struct fkv_timer timer;
	TAILQ_ENTRY(fkv_call) link;	/* its client's calls */
	struct fkv_item items[];
};

TAILQ_HEAD(fkv_items, fkv_item);
TAILQ_HEAD(fkv_calls, fkv_call);

/*
 * Decode a body of @size bytes. Returns 0 and the call; -EINVAL, -E2BIG,
 * -EFBIG, -EOPNOTSUPP, -EMSGSIZE for a body that is not one (@why then says
 * what was wrong and expected), -ENOMEM. An item that is wrong by itself (a
 * key of the wrong length, a value too large, an unknown flag) does not fail
 * the call: it is done, with its errno.
 */
int fkv_call_decode(const void *body, size_t size, struct fkv_call **ret_call,
		    const char **why);
void fkv_call_free(struct fkv_call *call);
void fkv_listing_free(struct fkv_listing *listing);

/* A call of @nr empty items, for tests and internal use; or NULL. */
struct fkv_call *fkv_call_create(uint16_t op, uint32_t nr);

/*
 * Bytes that the reply body of @call takes, and the reply itself into @buf of
 * at least that size. HELLO and ADMIN replies are the gateway's.
 */
size_t fkv_reply_size(const struct fkv_call *call);
void fkv_reply_encode(const struct fkv_call *call, void *buf);

/* A reply that only says -errno and, when not NULL, a sentence. */
size_t fkv_reply_error(uint16_t op, int status, const char *text, void *buf,
		       size_t size);

#endif
