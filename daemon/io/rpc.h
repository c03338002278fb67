/* SPDX-License-Identifier: Apache-2.0 */
/*
 * rpc.h - connections between hosts: who is there, sessions, requests
 *
 * A node listens, and dials peers. Each connection begins with the handshake of
 * wire/auth.h, and nothing is read from or said to who has not passed it. Then
 * it carries, sealed,
 *
 *	messages	of the session of these two lives (wire/session.h): once,
 *			in order, over connections that break and come back
 *	requests	each with an id and a deadline, answered in any order or
 *			not at all; they end with their connection
 *
 * Runs on the loop thread; callbacks are called there, never from within a call
 * into this file but for those that say so, and may call anything here but
 * fkv_rpc_close_all() and fkv_rpc_free().
 *
 * A peer is born by fkv_rpc_dial(), or when one dials us. Of one that dialled
 * the session outlives its connections; it ends by fkv_rpc_peer_end(), by the
 * peer's next life, or when nobody has come back for @linger_ns. Of one that we
 * dial it ends by fkv_rpc_peer_end(), when the other side says that it is over,
 * or when there is another life at that address; then the peer is parked: it is
 * not dialled until fkv_rpc_peer_resume(). After ops->ended() a peer that
 * dialled us is gone; one that we dial lives until fkv_rpc_free().
 *
 * Frames: length (4 bytes, little endian, of what follows), then a message of
 * the handshake, or a sealed
 *	SESSION	kind (1), a frame of wire/session.h
 *	REQUEST	kind (2), 7 zeros, id, what is left of its deadline in ns, body
 *	REPLY	kind (3), 3 zeros, status (4 bytes), id, body
 *	PING, PONG	kind (4, 5)
 *	REFUSED	kind (6), 3 zeros, an errno (4 bytes)
 *
 * Bounds are FKV_RPC_* below. A peer that breaks one, or the protocol, loses its
 * connection, and only it.
 */
#ifndef FKV_IO_RPC_H
#define FKV_IO_RPC_H

#include <netinet/in.h>
#include <uv.h>

#include "wire/auth.h"
#include "wire/session.h"

#define FKV_RPC_BODY_MAX	(FKV_FRAME_MAX - 4096u)
#define FKV_RPC_PEERS_MAX	1024u
#define FKV_RPC_CONNS_MAX	2048u
#define FKV_RPC_STRANGERS_MAX	64u	/* in their handshake */
#define FKV_RPC_CALLS_MAX	4096u	/* of a connection, each way */
#define FKV_RPC_TX_MAX		(8 * FKV_MIB)
#define FKV_RPC_ENDED_MAX	256u	/* lives that are remembered as over */
#define FKV_RPC_SUSPECT		3u	/* failures in a row */

/* 0 in any: the default */
struct fkv_rpc_times {
	uint64_t connect_ns;		/* 2 s */
	uint64_t handshake_ns;		/* 2 s */
	uint64_t ping_ns;		/* 500 ms: a silent peer is asked */
	uint64_t silent_ns;		/* 2 s: and then given up */
	uint64_t backoff_min_ns;	/* 50 ms */
	uint64_t backoff_max_ns;	/* 1 s */
	uint64_t linger_ns;		/* 60 s */
};

struct fkv_rpc;
struct fkv_rpc_peer;

/* A request of a peer, to be answered by this. */
struct fkv_rpc_ask {
	uint64_t conn;
	uint64_t id;
	uint64_t deadline_ns;		/* CLOCK_MONOTONIC, as base/clock.h */
};

struct fkv_rpc_ops {
	/* Somebody dialled, and has the key: 0, or -errno refuses it. */
	int (*accept)(void *arg, const char *name, uint64_t incarnation);
	/* The session is connected: it has begun, or goes on. */
	void (*up)(void *arg, struct fkv_rpc_peer *peer);
	/* It is not any more. Dialled peers are dialled again. */
	void (*down)(void *arg, struct fkv_rpc_peer *peer, const char *why);
	/* The session is over, all that was not taken is void. */
	void (*ended)(void *arg, struct fkv_rpc_peer *peer, int err);
	void (*message)(void *arg, struct fkv_rpc_peer *peer, const void *data,
			size_t len);
	/* To be answered by fkv_rpc_reply(), once. */
	void (*request)(void *arg, struct fkv_rpc_peer *peer,
			const struct fkv_rpc_ask *ask, const void *data,
			size_t len);
};

struct fkv_rpc_config {
	struct fkv_auth_self self;	/* copied; key NULL: loopback only */
	struct fkv_rpc_times times;
	const struct fkv_rpc_ops *ops;
	void *arg;
};

struct fkv_rpc_stats {
	uint64_t connections, strangers, peers;
	/* ever */
	uint64_t accepted, refused, broken, silent, dials;
	uint64_t calls, timeouts, late;
};

/*
 * 0, -EINVAL (names), -ENOMEM, -EIO: no libsodium. SIGPIPE is ignored from then
 * on, if it had its default action.
 */
int fkv_rpc_create(uv_loop_t *loop, const struct fkv_rpc_config *cfg,
		   struct fkv_rpc **ret);

/* "1.2.3.4:80", "[::1]:80". 0 or -EINVAL; names are not looked up. */
int fkv_rpc_address(const char *text, struct sockaddr_storage *ret);

/* Without a key (NULL) only loopback: 0, -EACCES or -EAFNOSUPPORT. */
int fkv_rpc_may_meet(const uint8_t *key, const struct sockaddr *sa);

/* 0; -EACCES: beyond loopback without a key; or what bind(2) says. */
int fkv_rpc_listen(struct fkv_rpc *r, const struct sockaddr *at);
uint16_t fkv_rpc_port(const struct fkv_rpc *r);

/* Dial, now and whenever there is no connection. 0; -EACCES; -ENOMEM. */
int fkv_rpc_dial(struct fkv_rpc *r, const struct sockaddr *to,
		 struct fkv_rpc_peer **ret);
void fkv_rpc_peer_resume(struct fkv_rpc_peer *p);

/*
 * The session is over for us; calls of its connection end. No ended() follows,
 * and a peer that dialled is gone when this returns, or, in a callback of its
 * own, when that returns.
 */
void fkv_rpc_peer_end(struct fkv_rpc_peer *p, int reason);

/*
 * A new life of our own: all sessions end (without ended()), all dialled peers
 * are dialled anew.
 */
void fkv_rpc_renew(struct fkv_rpc *r, uint64_t incarnation);

/*
 * Send in the session, now or when it is connected. 0; -ENOTCONN: there is none
 * yet; or as fkv_session_send().
 */
int fkv_rpc_send(struct fkv_rpc_peer *p, const void *data, size_t len,
		 enum fkv_session_class class);

/*
 * Ask. 0, and then @done once, at the deadline at the latest: with the status
 * of the answer, or -ETIMEDOUT or -ECONNRESET, which leave open whether it was
 * carried out. Or else at once, without @done, -ENOTCONN, -EAGAIN (bounds),
 * -ETIMEDOUT, -EMSGSIZE, -ENOMEM.
 */
typedef void fkv_rpc_done_fn(void *arg, int status, const void *data,
			     size_t len);

struct fkv_rpc_question {
	const void *data;
	size_t len;
	uint64_t deadline_ns;
	fkv_rpc_done_fn *done;
	void *arg;
};

int fkv_rpc_call(struct fkv_rpc_peer *p, const struct fkv_rpc_question *q);

/* A connection that is gone does not matter. Status 0 or -errno. */
void fkv_rpc_reply(struct fkv_rpc *r, const struct fkv_rpc_ask *ask, int status,
		   const void *data, size_t len);

bool fkv_rpc_peer_is_up(const struct fkv_rpc_peer *p);
/* Would a small FKV_SESSION_REQUEST be taken? */
bool fkv_rpc_peer_has_room(const struct fkv_rpc_peer *p);
/* Failed FKV_RPC_SUSPECT times in a row, and has not answered since (F3). */
bool fkv_rpc_peer_is_suspect(const struct fkv_rpc_peer *p);
bool fkv_rpc_peer_is_dialled(const struct fkv_rpc_peer *p);
/* Of its last connection: "" and 0 before. */
const char *fkv_rpc_peer_name(const struct fkv_rpc_peer *p);
uint64_t fkv_rpc_peer_incarnation(const struct fkv_rpc_peer *p);
void **fkv_rpc_peer_data(struct fkv_rpc_peer *p);

void fkv_rpc_get_stats(const struct fkv_rpc *r, struct fkv_rpc_stats *ret);

/* All calls end with -ECANCELED. Then run the loop until it is, and free. */
void fkv_rpc_close_all(struct fkv_rpc *r);
bool fkv_rpc_is_closed(const struct fkv_rpc *r);
void fkv_rpc_free(struct fkv_rpc *r);

/* How long to wait before dial @tries + 1; pure, @random of 32 bits. */
uint64_t fkv_rpc_backoff_ns(const struct fkv_rpc_times *t, uint32_t tries,
			    uint32_t random);

/*
 * The cluster's key from its file: of this user or root, 0600 or 0400, 64
 * hexadecimal digits. 0; -EPERM: others may read or write it; -EINVAL: no key;
 * or what open(2) says. @err is a sentence.
 */
int fkv_rpc_key_read(const char *path, uint8_t key[FKV_AUTH_KEY], char *err,
		     size_t err_size);

#endif
