/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tcp_internal.h - between tcp.c and tcp_conn.c
 */
#ifndef FKV_IO_TCP_INTERNAL_H
#define FKV_IO_TCP_INTERNAL_H

#include <sys/uio.h>

#include "io/transfer_internal.h"

#define FKV_TCP_HEAD	(FKV_FRAME_HEAD + FKV_AUTH_SEAL)
#define FKV_TCP_LENGTH	4u	/* in front of messages of the handshake */
/* a message of the handshake, and a head for each op and for itself */
#define FKV_TCP_CONTROL	(FKV_TCP_LENGTH + FKV_AUTH_MSG_MAX + \
			 (FKV_TRANSFER_DEPTH + 2) * FKV_TCP_HEAD)

/*
 * A connection. Born: dialled or accepted. Held by: the epoll set, until
 * tcp_destroy() closes its descriptor. Dies: when this turn of the loop is
 * over, for events of it may be in hand.
 */
struct fkv_tcp_conn {
	struct fkv_data_chan chan;
	TAILQ_ENTRY(fkv_tcp_conn) link;	/* all, or dead */
	TAILQ_ENTRY(fkv_tcp_conn) dirty_link;
	TAILQ_ENTRY(fkv_tcp_conn) stranger_link;
	int fd;				/* -1: destroyed */
	uint32_t events;		/* that epoll waits for */
	bool connecting;
	bool stranger;
	bool dirty;			/* to be flushed */
	bool finish;			/* close when all is written */
	int doomed;			/* -errno: close it, not in this call */
	struct fkv_auth auth;

	/* in: a message of the handshake or a head; then payload */
	uint8_t in[FKV_TCP_LENGTH + FKV_AUTH_MSG_MAX];
	size_t in_len;
	uint8_t *body;
	uint64_t body_left, body_len;
	struct fkv_data_op *op;

	/* out: what is under way, and control frames after it */
	bool has_out;
	struct fkv_data_out out;
	uint8_t head[FKV_TCP_HEAD], tail[FKV_TCP_HEAD];
	uint64_t out_done, out_len;
	uint8_t control[FKV_TCP_CONTROL];
	size_t control_from, control_to;
};

TAILQ_HEAD(fkv_tcp_conns, fkv_tcp_conn);

struct fkv_tcp {
	int epoll_fd;
	int listen_fd;			/* -1: none */
	uint64_t accept_ns;		/* not before; 0: at any time */
	struct fkv_tcp_conns all, dead, dirty, strangers;
};

/* tcp.c */
void fkv_tcp_interest(struct fkv_tcp_conn *c, uint32_t events);
void fkv_tcp_dirty(struct fkv_tcp_conn *c);
void fkv_tcp_known(struct fkv_tcp_conn *c);

/* tcp_conn.c */
/* It is connected: shake hands. */
void fkv_tcp_begin(struct fkv_tcp_conn *c);
void fkv_tcp_readable(struct fkv_tcp_conn *c);
void fkv_tcp_flush(struct fkv_tcp_conn *c);
/* A sealed head, to be sent after what is under way. */
void fkv_tcp_say(struct fkv_tcp_conn *c, const struct fkv_frame *f);

#endif
