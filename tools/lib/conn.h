/* SPDX-License-Identifier: Apache-2.0 */
/*
 * conn.h - one connection to the daemon: socket or device, mappings, pin pages
 *
 * Born: fkv_conn_open() or fkv_kdev_open(), with one reference, connected and
 * mapped.
 * Held by: the client while it is the current one; each call in flight; each
 * message holder and each open put. Pins in slots are not counted: the client
 * looks at the slots (fkv_pins_held()) before it frees a connection.
 * Dies: fkv_conn_free(), by the client (client.c), never by the last put.
 * Afterwards: nothing may be read; the mappings are gone.
 *
 * A dead connection (end of file, broken framing) never comes to life again,
 * but its mappings stay, so that held bytes stay readable.
 *
 * Reading: any thread that waits and finds no leader becomes it, reads replies
 * for all, and passes leadership on when it has its own. Writing: one sender
 * at a time; what a full socket did not take is kept and sent first by the
 * next one, because half a frame would end the connection and with it all
 * pins. Lock: conn->lock, innermost; never held over a system call that waits.
 */
#ifndef FKV_LIB_CONN_H
#define FKV_LIB_CONN_H

#include <pthread.h>
#include <sys/queue.h>
#include <sys/types.h>

#include "body.h"
#include "keep.h"
#include "pins.h"

#define FKV_CONN_FDS	5	/* the socket, then what HELLO gives */

/* Bytes to be written to, or read from, the socket. */
struct fkv_queue {
	uint8_t *data;
	size_t off;
	size_t len;		/* from data, off included */
	size_t cap;
};

struct fkv_conn;

/* What a socket and the device (kdev.h) do each in their way. */
struct fkv_conn_ops {
	/* 0 with a reply that is not checked yet, or -errno with a sentence */
	int (*call)(struct fkv_conn *conn, struct fkv_msg *msg,
		    uint64_t deadline, struct fkv_reply *ret_reply);
	size_t (*post_ids)(struct fkv_conn *conn, uint16_t op,
			   const uint64_t *ids, size_t n);
	bool (*closed)(const struct fkv_conn *conn);	/* without waiting */
	void (*end)(struct fkv_conn *conn);	/* it has just died; locked */
};

struct fkv_wait;
TAILQ_HEAD(fkv_waits, fkv_wait);

struct fkv_conn {
	uint32_t refs;			/* atomic */
	int fds[FKV_CONN_FDS];		/* fork lock; -1: none */
	TAILQ_ENTRY(fkv_conn) all;	/* fork lock */
	TAILQ_ENTRY(fkv_conn) link;	/* client->lock */

	pthread_mutex_t lock;
	pthread_cond_t sendable;	/* lock; !sending */
	struct fkv_waits waits;		/* lock */
	bool leader;			/* lock */
	bool sending;			/* lock */
	bool dead;			/* lock to write, atomic to read */
	bool no_memory;			/* atomic; that is why it is */
	uint64_t next_id;		/* lock */
	uint32_t late;			/* lock; replies nobody waits for */
	struct fkv_queue posts;		/* lock; frames without reply */
	struct fkv_keep keep;		/* notes: lock; the rest: its caller */

	struct fkv_queue rest;		/* the sender's */
	struct fkv_queue in;		/* the leader's */

	const struct fkv_conn_ops *ops;
	bool device;			/* what is held, the kernel keeps */
	bool opening;			/* HELLO's descriptors may come */
	bool fds_lost;			/* and not all could be taken */

	/* set while opening, constant afterwards */
	struct fluxonkv_hello hello;
	const uint8_t *segment;
	uint8_t *writable;		/* where puts are written */
	uint64_t writable_bytes;
	void *index;
	void *pages;
	struct fkv_pins pins;
};

/* Is its ABI ours, and none but @known flags set? 0, or -EPROTONOSUPPORT. */
int fkv_hello_check(const struct fluxonkv_hello *hello, uint32_t known);

/*
 * Connect to the socket at @path, once, say HELLO and map what it gives, until
 * @deadline. Errors: those of connect(), EPROTO, EPROTONOSUPPORT, ETIMEDOUT,
 * ENOTCONN (closed while saying HELLO), ENOMEM; each with a sentence.
 */
int fkv_conn_open(const char *path, uint64_t deadline,
		  struct fkv_conn **ret_conn);
void fkv_conn_free(struct fkv_conn *conn);

/*
 * Free in a forked child: its memory only, because mappings are not inherited
 * and what is at their addresses now is not ours. What a thread of the parent
 * was changing is given up.
 */
void fkv_conn_forget(struct fkv_conn *conn)
	FKV_LOCKS(no_thread_safety_analysis);	/* the lock is freed with it */

/* Notice without waiting that the daemon has closed the connection. */
void fkv_conn_look(struct fkv_conn *conn);

/*
 * A connection on the socket @fd that has not said HELLO; takes @fd. Under the
 * fork lock. NULL without memory.
 */
struct fkv_conn *fkv_conn_create(int fd);

/* recv() without waiting; while opening it collects descriptors. */
ssize_t fkv_conn_recv(struct fkv_conn *conn, void *buf, size_t size);

static inline bool fkv_conn_dead(const struct fkv_conn *conn)
{
	return __atomic_load_n(&conn->dead, __ATOMIC_ACQUIRE);
}

static inline void fkv_conn_get(struct fkv_conn *conn)
{
	__atomic_fetch_add(&conn->refs, 1, __ATOMIC_RELAXED);
}

/*
 * Send @msg and wait for its reply until @deadline and the grace behind it.
 * Returns 0 with a parsed reply (to be done with by the caller), or
 * -ETIMEDOUT, -ENOTCONN (the connection died: the call may have taken effect),
 * -EPROTO, -ENOMEM. A reply that comes later is undone by whoever reads it.
 */
int fkv_conn_call(struct fkv_conn *conn, struct fkv_msg *msg,
		  uint64_t deadline, struct fkv_reply *ret_reply);

/*
 * Post @op (RELEASE, PUT_ABORT) for @n ids: waits for nothing, wants no reply,
 * is sent later when the socket is full, and is void on a dead socket. Returns
 * how many of them there were, for all that is known: @n on a socket.
 */
static inline size_t fkv_conn_post_ids(struct fkv_conn *conn, uint16_t op,
				       const uint64_t *ids, size_t n)
{
	return n ? conn->ops->post_ids(conn, op, ids, n) : 0;
}

static inline size_t fkv_conn_post_id(struct fkv_conn *conn, uint16_t op,
				      uint64_t id)
{
	return fkv_conn_post_ids(conn, op, &id, 1);
}

/* The stream cannot be used any more: wake everyone who waits on it. */
void fkv_conn_kill(struct fkv_conn *conn);

/* Make room for @more bytes at the end: 0 or -ENOMEM. */
int fkv_queue_room(struct fkv_queue *q, size_t more);
int fkv_queue_add(struct fkv_queue *q, const void *data, size_t size);
void fkv_queue_done(struct fkv_queue *q);

#endif
