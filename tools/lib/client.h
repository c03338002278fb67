/* SPDX-License-Identifier: Apache-2.0 */
/*
 * client.h - a client: the current connection, older ones, the cap
 *
 * Born: fluxonkv_open(). Dies: fluxonkv_close(). The caller owns it and calls
 * nothing else while closing it.
 *
 * A dead connection is replaced by the next call that needs the daemon; it
 * stays on the list, mapped, until nothing refers to it: no call, message
 * holder or open put (its count), no taken slot, and no thread that found it
 * before it was replaced (the stripes: a thread raises its stripe's busy count
 * before it loads the current connection, and lowers it when its pin is
 * stored).
 *
 * Lock: client->lock, for the list and for connecting; outside of the fork
 * lock and of conn->lock.
 */
#ifndef FKV_LIB_CLIENT_H
#define FKV_LIB_CLIENT_H

#include "fork.h"

#define FKV_STRIPES	16u	/* threads that share no cache line */

/*
 * The cap of pinned bytes (H4): a stripe draws bytes from the client in steps
 * and keeps them as credit, so that a hit touches no shared line.
 */
struct fkv_stripe {
	uint64_t busy;			/* atomic: threads on the fast path */
	int64_t credit;			/* atomic: bytes drawn, not held */
} __attribute__((aligned(64)));

struct fluxonkv {
	struct fkv_conn *conn;		/* atomic: current, may be dead */
	uint64_t generation;		/* fkv_fork_now() at open */
	uint64_t timeout_ns;		/* atomic */
	int64_t cap;			/* atomic: bytes; INT64_MAX / 2: none */

	struct fkv_stripe stripes[FKV_STRIPES];
	/* atomic: held + credits */
	int64_t drawn __attribute__((aligned(64)));
	uint64_t requests;		/* atomic */
	uint64_t kernel_hits;		/* atomic; the device's local hits */
	uint64_t message_held;		/* atomic: message holders */

	pthread_mutex_t lock;
	pthread_cond_t connected;	/* lock; !connecting */
	bool connecting;		/* lock */
	bool keeping;			/* lock; held bytes are being copied */
	TAILQ_HEAD(fkv_conns, fkv_conn) conns; /* lock; the current one included */
	uint64_t reconnects;		/* lock */
	uint64_t past_hits;		/* lock; of freed connections */
	bool device;			/* the address is of the device */
	char instance[FLUXONKV_NAME_MAX]; /* while connecting */
	char address[];			/* "unix:PATH" or "dev:INSTANCE" */
};

/* The deadline of a call that begins now. */
static inline uint64_t fkv_client_deadline(const struct fluxonkv *client)
{
	return fkv_now_ns() +
	       __atomic_load_n(&client->timeout_ns, __ATOMIC_RELAXED);
}

/* 0, -EINVAL for NULL, -EOWNERDEAD in a child of the one who opened it. */
int fkv_client_check_slow(const struct fluxonkv *client, const char *call);

static inline int fkv_client_check(const struct fluxonkv *client,
				   const char *call)
{
	if (fkv_likely(client && client->generation == fkv_fork_now()))
		return 0;
	return fkv_client_check_slow(client, call);
}

/* 0, -EINVAL, -E2BIG with a sentence. */
int fkv_key_check(const char *call, const void *key, size_t len);
int fkv_batch_check(const char *call, const void *items, size_t n);

/*
 * A living connection with a reference, made anew by @deadline if need be.
 * Give it back with fkv_client_drop(), which may free it. @again: what it is
 * for may be done again on another one, so that on the device it need not be
 * looked at, which would be a system call of its own.
 */
int fkv_client_conn(struct fluxonkv *client, bool again, uint64_t deadline,
		    struct fkv_conn **ret_conn);
void fkv_client_drop(struct fluxonkv *client, struct fkv_conn *conn);

/* Is @conn, possibly garbage, one of this client's? With a reference then. */
bool fkv_client_find(struct fluxonkv *client, struct fkv_conn *conn);

/*
 * Send @msg by a living connection and wait. @again: it may be repeated when
 * the connection dies. On 0 the reply is parsed and *ret_conn referenced.
 */
int fkv_client_call(struct fluxonkv *client, struct fkv_msg *msg, bool again,
		    uint64_t deadline, struct fkv_reply *ret_reply,
		    struct fkv_conn **ret_conn);

/* The same on one connection, not repeated. */
int fkv_client_call_on(struct fluxonkv *client, struct fkv_conn *conn,
		       struct fkv_msg *msg, uint64_t deadline,
		       struct fkv_reply *ret_reply);

/* Count @bytes as held: false when over the cap. */
bool fkv_cap_take_slow(struct fluxonkv *client, struct fkv_stripe *stripe,
		       int64_t bytes);

static inline struct fkv_stripe *fkv_client_stripe(struct fluxonkv *client)
{
	return &client->stripes[fkv_thread_nr() % FKV_STRIPES];
}

static inline bool fkv_cap_take(struct fluxonkv *client,
				struct fkv_stripe *stripe, uint64_t len)
{
	int64_t bytes = (int64_t)fluxonkv_charge(len);

	if (fkv_likely(__atomic_sub_fetch(&stripe->credit, bytes,
					  __ATOMIC_RELAXED) >= 0))
		return true;
	return fkv_cap_take_slow(client, stripe, bytes);
}

/* Give what a value of @len bytes was charged back to the cap. */
void fkv_cap_give(struct fluxonkv *client, uint64_t len);

/* Count a value that the daemon granted: never refused. */
void fkv_cap_force(struct fluxonkv *client, uint64_t len);

/* A client that never waits may copy until its call must be over. */
static inline uint64_t fkv_copy_deadline(const struct fluxonkv *client,
					 uint64_t deadline)
{
	return __atomic_load_n(&client->timeout_ns, __ATOMIC_RELAXED) ?
		       deadline : deadline + FKV_LIB_GRACE_NS;
}

/*
 * Copy until @deadline: 0, or -ETIMEDOUT. A copy of up to FKV_LIB_PIECE is
 * always finished.
 */
int fkv_copy(void *dst, const void *src, uint64_t len, uint64_t deadline);

#endif
