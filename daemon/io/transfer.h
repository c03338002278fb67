/* SPDX-License-Identifier: Apache-2.0 */
/*
 * transfer.h - payload between the segments of owners
 *
 * One data thread has all connections to peers, and moves bytes from segment to
 * socket to segment without a copy of its own. The host of the target dials:
 * payload only goes from who accepted to who dialled, so only that host's own
 * table says where bytes may land, and closing its end stops them.
 *
 *	pull	fkv_transfer_pull() at the target's host; the source serves what
 *		it has exposed for that op, and nothing else
 *	push	fkv_transfer_open() at the target's host names a connection,
 *		(slot, generation), or tells the source on that connection
 *		itself; the source's fkv_transfer_push() uses that one or none
 *
 * An op has ended for the host of its target when its @done is called: by the
 * source's end frame, which comes after all bytes, or with the connection
 * destroyed before. From then on no byte of the target changes (T4, G3).
 *
 * Connections begin with the handshake of wire/auth.h: both ends have the key,
 * are of these incarnations, and nothing that was recorded opens one. Nothing
 * is served to, or taken from, who has not passed it. After it, heads of frames
 * are sealed; payload is NOT encrypted and has no check but TCP's: who is on
 * the path can read it, and change it. What is read from SSD was checked there.
 *
 * Threads: everything here is called on the loop thread, and every callback is
 * called there, in the order in which things happened, never from within a call
 * into this file. Calls are carried out in the order in which they were made. A
 * callback may call anything here but fkv_transfer_free(). Nothing waits.
 *
 * Born: fkv_transfer_create(). Held by: its creator, and its thread until
 * fkv_transfer_close() is through. Dies: fkv_transfer_free(), after
 * fkv_transfer_is_closed(). Afterwards: no callback comes.
 */
#ifndef FKV_IO_TRANSFER_H
#define FKV_IO_TRANSFER_H

#include <netinet/in.h>
#include <sys/queue.h>
#include <uv.h>

#include "wire/auth.h"
#include "wire/frame.h"

#define FKV_TRANSFER_SLOTS	FKV_FRAME_SLOTS	/* connections of a peer */
#define FKV_TRANSFER_DEPTH	64u		/* ops of a connection */
#define FKV_TRANSFER_PEERS_MAX	1024u
#define FKV_TRANSFER_CONNS_MAX	4096u
#define FKV_TRANSFER_STRANGERS_MAX 64u		/* in their handshake */
#define FKV_TRANSFER_CALLS_MAX	65536u		/* not yet reported */
#define FKV_TRANSFER_GONE_MAX	256u		/* lives remembered as over */

/* 0 in any: the default */
struct fkv_transfer_times {
	uint64_t connect_ns;		/* 2 s, with the handshake */
	uint64_t stall_ns;		/* 2 s without a whole frame (G3) */
};

struct fkv_transfer;

struct fkv_transfer_config {
	struct fkv_auth_self self;	/* copied; key NULL: loopback only */
	void *segment;
	uint64_t segment_bytes;
	const struct sockaddr *listen;	/* or NULL: can only pull */
	uint32_t channels;		/* to a peer, 1..16; 0: 4 */
	int buffer_bytes;		/* of sockets; 0: as the kernel tunes,
					   small on loopback */
	struct fkv_transfer_times times;
};

/* Whose fault it was that an op has failed. */
enum fkv_transfer_fault {
	FKV_FAULT_NONE,
	FKV_FAULT_SOURCE,	/* it said so itself, with this errno (G6) */
	FKV_FAULT_TRANSPORT,	/* connecting, connection, silence */
	FKV_FAULT_SHARED,	/* connection destroyed for another op (G3.5):
				   try again, the source is not to blame */
	FKV_FAULT_VOID,		/* no such connection (any more) (G3.2) */
	FKV_FAULT_LOCAL,	/* ended by this host, or never begun */
};

struct fkv_transfer_result {
	int err;			/* 0 or -errno */
	enum fkv_transfer_fault fault;
	uint64_t bytes;
	uint64_t ns;			/* from the call to its end */
};

typedef void fkv_transfer_done_fn(void *arg,
				  const struct fkv_transfer_result *res);

/*
 * 0; -EINVAL; -ENOMEM; -EACCES: to listen beyond loopback without a key; or
 * what socket(2), bind(2) or pthread_create(3) say.
 */
int fkv_transfer_create(uv_loop_t *loop, const struct fkv_transfer_config *cfg,
			struct fkv_transfer **ret);
uint16_t fkv_transfer_port(const struct fkv_transfer *t);

/* All ops end with -ECANCELED. Run the loop until it is closed, then free. */
void fkv_transfer_close(struct fkv_transfer *t);
bool fkv_transfer_is_closed(const struct fkv_transfer *t);
void fkv_transfer_free(struct fkv_transfer *t);

/*
 * Calls below return 0, and then call what they were given once; or -errno, and
 * nothing: -EINVAL: a range outside the segment, an op or incarnation 0;
 * -EAGAIN: FKV_TRANSFER_CALLS_MAX; -ENOMEM; -ESHUTDOWN: closed.
 */

/*
 * A life that may be dialled at @at, and may dial. One with this name and
 * another incarnation is removed. Who dials and is not known by name is let in
 * as well, its life may be news.
 */
int fkv_transfer_peer_add(struct fkv_transfer *t, const char *name,
			  uint64_t incarnation, const struct sockaddr *at);

/* That life is over: its connections are destroyed, new ones refused (T3). */
int fkv_transfer_peer_remove(struct fkv_transfer *t, uint64_t incarnation);

/*
 * An extent that an op's reader may pull; any reader when @reader is 0. With op
 * 0, of which there is one at most: whatever the op is that has no exposure.
 */
struct fkv_transfer_extent {
	uint64_t op;
	uint64_t reader;		/* incarnation */
	uint64_t offset, len;
};

int fkv_transfer_expose(struct fkv_transfer *t,
			const struct fkv_transfer_extent *e);

/*
 * No more; a connection that is sending from it is destroyed. @done may be
 * NULL; after it nothing is read from the extent for that op.
 */
int fkv_transfer_unexpose(struct fkv_transfer *t, uint64_t op,
			  fkv_transfer_done_fn *done, void *arg);

struct fkv_transfer_pull {
	uint64_t op;
	uint64_t peer;			/* incarnation */
	uint64_t remote;		/* offset in the peer's segment */
	uint64_t offset;		/* in ours */
	uint64_t len;
	fkv_transfer_done_fn *done;
	void *arg;
};

/* Read from a peer. With FKV_FAULT_SOURCE the errno is the source's. */
int fkv_transfer_pull(struct fkv_transfer *t,
		      const struct fkv_transfer_pull *p);

/* A target that a peer is to push into. */
struct fkv_transfer_target {
	uint64_t op;
	uint64_t peer;			/* incarnation */
	uint64_t offset, len;
	uint64_t first_ns;		/* until the first frame; 0: stall_ns */
	/* it is open: tell the source; not called when it fails before.
	   NULL: the source is told by the connection, and pushes with
	   generation 0 */
	void (*ready)(void *arg, uint32_t slot, uint64_t generation);
	fkv_transfer_done_fn *done;
	void *arg;
};

int fkv_transfer_open(struct fkv_transfer *t,
		      const struct fkv_transfer_target *o);

/*
 * Make the target of an op quiet: if it is in flight its connection is
 * destroyed and its own done() is called with -ECANCELED. Then @done (or NULL),
 * with 0, or -ENOENT when there was no such op, which is as quiet (G3.4).
 */
int fkv_transfer_end(struct fkv_transfer *t, uint64_t op,
		     fkv_transfer_done_fn *done, void *arg);

struct fkv_transfer_push {
	uint64_t op;
	uint64_t peer;			/* incarnation */
	uint32_t slot;			/* as the target's host named it */
	uint64_t generation;		/* 0: on the connection that offers */
	uint64_t len;			/* it, if one does in connect_ns */
	fkv_transfer_done_fn *done;	/* all is sent, or it has failed */
	void *arg;
};

/* A piece of a value, in the segment until its @done: a chunk buffer. */
struct fkv_transfer_piece {
	uint64_t offset;		/* in the segment */
	uint64_t at;			/* in the value */
	uint64_t len;
	bool last;			/* no piece comes after it */
	fkv_transfer_done_fn *done;	/* or NULL; never after the push's */
	void *arg;
};

int fkv_transfer_push(struct fkv_transfer *t,
		      const struct fkv_transfer_push *p);

/* In order; a piece of a push that has ended fails with -ENOENT. */
int fkv_transfer_push_piece(struct fkv_transfer *t, uint64_t op,
			    const struct fkv_transfer_piece *p);

/* The source cannot go on: @err (-errno) is told to the target's host. */
int fkv_transfer_push_fail(struct fkv_transfer *t, uint64_t op, int err);

/*
 * A new life of our own (protocol.md F1): every connection is destroyed, all
 * ops, pushes, exposures and peers are gone; then @done.
 */
int fkv_transfer_renew(struct fkv_transfer *t, uint64_t incarnation,
		       fkv_transfer_done_fn *done, void *arg);

struct fkv_transfer_peer_stats {
	char name[FKV_AUTH_NAME_MAX + 1];	/* "" until it is known */
	uint64_t incarnation;
	uint32_t channels_out, channels_in;	/* that we, that it dialled */
	uint64_t generation;		/* of the last that we dialled */
	uint64_t bytes_in, bytes_out;
	uint64_t ops, failures;		/* of pulls, targets and pushes */
	uint64_t served, refused;	/* pulls of the peer */
};

struct fkv_transfer_stats {
	uint64_t strangers, connections;
	/* ever */
	uint64_t accepted, refused, broken, stalls, dials;
};

void fkv_transfer_get_stats(struct fkv_transfer *t,
			    struct fkv_transfer_stats *ret);

typedef void fkv_transfer_each_fn(void *arg,
				  const struct fkv_transfer_peer_stats *s);

void fkv_transfer_each_peer(struct fkv_transfer *t, fkv_transfer_each_fn *each,
			    void *arg);

/* ---- chunk buffers (protocol.md G5), of one thread, the loop's ---- */

#define FKV_CHUNKS_MIN		2u	/* and FKV_CHUNKS_MAX */

/* Who waits for a chunk, or has one: the caller's, until it is given back. */
struct fkv_chunk_user {
	TAILQ_ENTRY(fkv_chunk_user) link;
	uint64_t peer;			/* incarnation of the target's host */
	uint64_t offset;		/* of the chunk, in the segment */
	/* it has one; within fkv_chunk_get() or another's fkv_chunk_put() */
	void (*granted)(struct fkv_chunk_user *u);
	bool waiting, holding;
};

struct fkv_chunks {
	uint32_t nr, nr_free;
	uint64_t free[FKV_CHUNKS_MAX];
	uint64_t peer[FKV_CHUNKS_MAX];	/* by number; 0: free */
	uint64_t base;
	TAILQ_HEAD(, fkv_chunk_user) waiting;
};

/* How many a segment of that size has. */
uint32_t fkv_chunks_count(uint64_t segment_bytes);
void fkv_chunks_init(struct fkv_chunks *c, uint64_t offset, uint32_t nr);

/* Ask. One goes to the peer that has fewest, then to who waits longest. */
void fkv_chunk_get(struct fkv_chunks *c, struct fkv_chunk_user *u);

/* Give back, or wait no more. */
void fkv_chunk_put(struct fkv_chunks *c, struct fkv_chunk_user *u);

#endif
