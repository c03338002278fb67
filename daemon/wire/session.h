/* SPDX-License-Identifier: Apache-2.0 */
/*
 * session.h - messages between two hosts, once and in order, over connections
 * that break (protocol.md F0)
 *
 * One session is for one pair of lives: the incarnation of who dials and the
 * epoch of who accepts. Each side numbers its messages from 1, keeps each until
 * the other has acknowledged it, and sends on a new connection again what was
 * not. A message is acknowledged when it was taken, so that one that arrived
 * and was not looked at has not arrived. Whether it was a request or an answer
 * is not seen here: an answer is kept like any other message.
 *
 * Of connections it asks that they deliver in order or not at all: a frame that
 * came before is passed over, one too early is -EPROTO, and then the caller
 * makes another connection. It does not look at clocks; who waits too long ends
 * the session, which voids all that was not taken, on both sides.
 *
 * Bounds: sending is refused with EAGAIN from FKV_SESSION_MSGS messages or
 * FKV_SESSION_BYTES that the peer has not acknowledged. Answers may go on to
 * FKV_SESSION_HARD times as much (-ENOBUFS): two sides that each wait for room
 * before they take from the other would wait forever. A peer that acknowledges
 * nothing and asks all the same is to be ended then.
 *
 * Dialer: IDLE, with a connection OPENING (the peer's hello moves it on), UP.
 * Acceptor: the same; its own hello goes out when the dialer's has come. The
 * first hello of a dialer says NEW until it has met the acceptor's: an acceptor
 * that knows nothing of a session that is not new answers that it is over, and
 * needs no memory of those it ended. ENDED is the last state of both.
 *
 * Frames, numbers little endian:
 *	HELLO	kind, flags (1: NEW), 6 zeros, incarnation, epoch, ack
 *	DATA	kind, 0, count (2 bytes), 4 zeros, first seq, ack,
 *		count times: length (4 bytes), bytes
 *	ACK	kind, 7 zeros, ack
 *	END	kind, 3 zeros, reason (4 bytes, an errno), incarnation, epoch
 */
#ifndef FKV_WIRE_SESSION_H
#define FKV_WIRE_SESSION_H

#include <sys/queue.h>

#include "base/base.h"

#define FKV_SESSION_MSGS	2048u
#define FKV_SESSION_BYTES	(8 * FKV_MIB)
#define FKV_SESSION_HARD	4u
#define FKV_SESSION_MSG_MAX	(FKV_FRAME_MAX - 4096u)
#define FKV_SESSION_FRAME_MAX	(FKV_SESSION_MSG_MAX + 64u)

enum fkv_session_state {
	FKV_SESSION_IDLE,	/* moved on by fkv_session_connected() */
	FKV_SESSION_OPENING,	/* by the peer's HELLO */
	FKV_SESSION_UP,		/* by fkv_session_disconnected() */
	FKV_SESSION_ENDED,
};

/* What a message is to the bounds above. */
enum fkv_session_class {
	FKV_SESSION_REQUEST,
	FKV_SESSION_ANSWER,
};

struct fkv_session_id {
	uint64_t incarnation;	/* of the dialer */
	uint64_t epoch;		/* of the acceptor */
};

struct fkv_session_msg {
	TAILQ_ENTRY(fkv_session_msg) link;
	uint32_t len;
	uint8_t data[];
};

TAILQ_HEAD(fkv_session_msgs, fkv_session_msg);

struct fkv_session_queue {
	struct fkv_session_msgs msgs;
	uint32_t n;
	uint64_t bytes;
};

struct fkv_session {
	struct fkv_session_id id;
	enum fkv_session_state state;
	bool dialer;
	bool met;		/* the peer's HELLO has come, in some connection */
	bool hello_due;
	bool end_due;
	int reason;		/* ENDED: -errno */

	/* sent or to be sent: acked + 1 .. last */
	struct fkv_session_queue tx;
	uint64_t acked;
	uint64_t last;
	uint64_t sent;		/* in this connection, or acknowledged */
	uint64_t ever;		/* in any */
	struct fkv_session_msg *next;	/* of tx: number sent + 1, or NULL */

	/* received, not taken: taken + 1 .. got */
	struct fkv_session_queue rx;
	uint64_t got;
	uint64_t taken;
	uint64_t told;		/* of taken, acknowledged in this connection */

	/* ever */
	uint64_t resent, repeated;
};

void fkv_session_init(struct fkv_session *s, bool dialer,
		      struct fkv_session_id id);
void fkv_session_done(struct fkv_session *s);

/*
 * Queue a copy. 0; -EAGAIN or -ENOBUFS: as above; -ESHUTDOWN: ended;
 * -EMSGSIZE: no bytes or too many; -ENOMEM.
 */
int fkv_session_send(struct fkv_session *s, const void *data, size_t len,
		     enum fkv_session_class class);

/* A connection, authenticated, with nothing sent on it yet; or no more. */
void fkv_session_connected(struct fkv_session *s);
void fkv_session_disconnected(struct fkv_session *s);

/*
 * A frame has come. 0; -EPROTO: the connection is no good, *why says how;
 * -ESTALE: the session has ended, and was not before.
 */
int fkv_session_input(struct fkv_session *s, const void *data, size_t len,
		      const char **why);

/*
 * The next frame to send on the connection, into @buf of at least
 * FKV_SESSION_FRAME_MAX bytes. Its length, or 0: nothing for now.
 */
size_t fkv_session_output(struct fkv_session *s, uint8_t *buf);

/* The next message, each once and in order, to be freed; or NULL. */
struct fkv_session_msg *fkv_session_take(struct fkv_session *s);

/* All that was not taken is void. The peer is told, if it is connected. */
void fkv_session_end(struct fkv_session *s, int reason);

#endif
