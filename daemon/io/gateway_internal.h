/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gateway_internal.h - a gateway and its connections, for gateway.c, which
 * accepts and counts, and gateway_conn.c, which reads and answers
 *
 * All of it belongs to the loop thread.
 */
#ifndef FKV_IO_GATEWAY_INTERNAL_H
#define FKV_IO_GATEWAY_INTERNAL_H

#include "base/table.h"
#include "io/gateway.h"

#define FKV_GATEWAY_FDS	4

/*
 * Born: at HELLO of a client of another user. Held by: its connection, copies
 * in flight. Dies: with the last fkv_arena_put(). Last put: loop thread.
 */
struct fkv_arena {
	unsigned int refs;
	int fd;
	void *map;
	size_t size;
};

struct fkv_tx {
	TAILQ_ENTRY(fkv_tx) link;
	size_t size, sent;
	int fds[FKV_GATEWAY_FDS];
	int nr_fds;
	uint8_t data[];
};

TAILQ_HEAD(fkv_txs, fkv_tx);

struct fkv_gwconn {
	struct fkv_node node;		/* gateway->conns, by client id */
	struct fkv_gateway *g;
	uv_poll_t poll;
	int fd;
	uint64_t client;
	pid_t pid;
	uid_t uid;
	bool hello, closing, finish;	/* finish: quit when all is sent */
	bool quit;			/* only waits for the peer to close */
	struct fkv_pins *pins;
	struct fkv_arena *arena;
	uint64_t charged;		/* by the core, at the last count */
	unsigned int over;		/* counts in a row over its cap */
	uint8_t *rx;
	size_t rx_used, rx_room;
	struct fkv_txs tx;
	size_t tx_bytes;
	int events;
};

struct fkv_gateway {
	struct fkv_gateway_config cfg;
	struct fkv_table conns;
	uv_loop_t *loop;
	uv_poll_t poll;
	uv_timer_t pause;		/* of accepting */
	int fd;
	int reserve;			/* given up to refuse a client, or -1 */
	bool polling, unlinked;
	uint64_t said_ns;		/* when a refusal was last logged */
	uint64_t next_client;
	ino_t time_ns;
	struct fkv_gateway_stats stats;
};

/* Take @fd over as a client's connection, or -errno. */
int fkv_gateway_conn_create(struct fkv_gateway *g, int fd);

/*
 * The peer is gone, or forfeits what it holds: its pins are read a last time,
 * the owner core drops the rest.
 */
void fkv_gateway_conn_close(struct fkv_gwconn *c);

/*
 * No more is read from it or sent to it, but what it holds stays its own until
 * it closes its end: its process may be reading those bytes (H1).
 */
void fkv_gateway_conn_quit(struct fkv_gwconn *c);

/* The same, but what it has pinned in the shared index may be evicted. */
void fkv_gateway_conn_forfeit(struct fkv_gwconn *c);

/* Send the reply of @call; the call stays the caller's. */
void fkv_gateway_conn_reply(struct fkv_gwconn *c,
			    const struct fkv_call *call);

#endif
