/* SPDX-License-Identifier: Apache-2.0 */
/*
 * rpc_internal.h - between rpc.c, rpc_conn.c, rpc_peer.c and rpc_call.c
 */
#ifndef FKV_IO_RPC_INTERNAL_H
#define FKV_IO_RPC_INTERNAL_H

#include <sys/queue.h>

#include "base/clock.h"
#include "base/table.h"
#include "base/timer.h"
#include "io/rpc.h"

enum fkv_rpc_timer { FKV_RPC_T_CONN, FKV_RPC_T_PEER, FKV_RPC_T_CALL };

enum fkv_rpc_kind {
	FKV_RPC_SESSION = 1,
	FKV_RPC_REQUEST,
	FKV_RPC_REPLY,
	FKV_RPC_PING,
	FKV_RPC_PONG,
	FKV_RPC_REFUSED,
};

struct fkv_rpc_call {
	TAILQ_ENTRY(fkv_rpc_call) link;
	struct fkv_node node;		/* by id */
	struct fkv_rpc_conn *conn;
	struct fkv_timer timer;
	fkv_rpc_done_fn *done;
	void *arg;
};

/*
 * Born: accepted or dialled. Held by: its node until its handle is closed, its
 * peer from the end of the handshake (dialled: from the start) until
 * fkv_rpc_conn_close(). Dies: in the handle's close callback, after those of
 * its writes.
 */
struct fkv_rpc_conn {
	struct fkv_rpc *r;
	struct fkv_node node;		/* by number */
	TAILQ_ENTRY(fkv_rpc_conn) link;	/* strangers */
	struct fkv_rpc_peer *peer;
	bool stranger;
	bool closing;
	bool finish;			/* close when all is written */
	bool paused;			/* not read from: it does not read */
	const char *doomed;		/* to be closed, but not in this call */
	uv_tcp_t tcp;
	uv_connect_t connect;
	struct fkv_auth auth;
	struct fkv_timer timer;
	uint64_t heard_ns;
	uint64_t up_ns;
	uint8_t *rx;
	size_t rx_used, rx_room;
	size_t tx_bytes;
	uint32_t asked;			/* requests that wait for our answer */
	uint32_t nr_calls;
	TAILQ_HEAD(, fkv_rpc_call) calls;
};

struct fkv_rpc_peer {
	struct fkv_rpc *r;
	TAILQ_ENTRY(fkv_rpc_peer) link;
	bool dialled;
	bool parked;
	bool has_session;
	bool up;
	bool dead;			/* to be freed when not busy */
	uint32_t busy;			/* callbacks of it that run */
	struct sockaddr_storage to;
	char name[FKV_AUTH_NAME_MAX + 1];
	uint64_t incarnation;
	struct fkv_session session;
	struct fkv_rpc_conn *conn;
	uint32_t tries;
	uint32_t failures;
	struct fkv_timer timer;		/* dial, or linger */
	void *data;
};

TAILQ_HEAD(fkv_rpc_peers, fkv_rpc_peer);

struct fkv_rpc_life {
	uint64_t name_hash;
	uint64_t incarnation;
};

struct fkv_rpc {
	uv_loop_t *loop;
	struct fkv_rpc_config cfg;
	struct fkv_rpc_times times;
	uint8_t key[FKV_AUTH_KEY];
	char cluster[FKV_AUTH_NAME_MAX + 1];
	char name[FKV_AUTH_NAME_MAX + 1];
	bool listening;
	bool closing;
	uv_tcp_t listener;
	uv_timer_t timer;
	uint32_t handles;		/* that are not closed */
	uint64_t due_ns;		/* when the timer is to run; 0: not set */
	struct fkv_timers timers;
	struct fkv_rpc_peers peers;
	TAILQ_HEAD(, fkv_rpc_conn) strangers;
	struct fkv_table conns;
	struct fkv_table calls;
	uint64_t next_conn, next_call;
	struct fkv_rpc_life over[FKV_RPC_ENDED_MAX];
	uint32_t nr_over;
	uint8_t *frame;			/* one of a session, being made */
	struct fkv_rpc_stats stats;
};

/* rpc.c */
void fkv_rpc_arm(struct fkv_rpc *r);
void fkv_rpc_life_end(struct fkv_rpc *r, const struct fkv_rpc_peer *p);
bool fkv_rpc_life_ended(const struct fkv_rpc *r, const char *name,
			uint64_t incarnation);

/* rpc_conn.c */
struct fkv_rpc_conn *fkv_rpc_conn_create(struct fkv_rpc *r);
int fkv_rpc_conn_begin(struct fkv_rpc_conn *c, bool dialer);
void fkv_rpc_conn_timer(struct fkv_rpc_conn *c, uint64_t now_ns);
void fkv_rpc_conn_close(struct fkv_rpc_conn *c, const char *why);
/* Close it when all is written, or from the timer. */
void fkv_rpc_conn_finish(struct fkv_rpc_conn *c);
void fkv_rpc_conn_doom(struct fkv_rpc_conn *c, const char *why);
/* Seal and send two pieces. 0, -EAGAIN (over the bound) or -ENOMEM. */
int fkv_rpc_conn_send(struct fkv_rpc_conn *c, const void *head,
		      size_t head_len, const void *body, size_t len);

/* rpc_peer.c */
struct fkv_rpc_peer *fkv_rpc_peer_create(struct fkv_rpc *r, bool dialled);
void fkv_rpc_peer_free(struct fkv_rpc_peer *p);
void fkv_rpc_peer_timer(struct fkv_rpc_peer *p);
void fkv_rpc_peer_opened(struct fkv_rpc_conn *c);
void fkv_rpc_peer_lost(struct fkv_rpc_conn *c, const char *why);
void fkv_rpc_peer_refused(struct fkv_rpc_conn *c, int err);
void fkv_rpc_peer_session(struct fkv_rpc_conn *c, const uint8_t *data,
			  size_t len);
void fkv_rpc_peer_flush(struct fkv_rpc_peer *p);
void fkv_rpc_peer_busy(struct fkv_rpc_peer *p);
void fkv_rpc_peer_idle(struct fkv_rpc_peer *p);

/* rpc_call.c */
void fkv_rpc_call_timer(struct fkv_rpc_call *call);
void fkv_rpc_calls_end(struct fkv_rpc_conn *c, int err);
void fkv_rpc_request_in(struct fkv_rpc_conn *c, const uint8_t *p, size_t len);
void fkv_rpc_reply_in(struct fkv_rpc_conn *c, const uint8_t *p, size_t len);

#endif
