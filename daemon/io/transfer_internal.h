/* SPDX-License-Identifier: Apache-2.0 */
/*
 * transfer_internal.h - between the loop's side, the data thread's, and what
 * moves the bytes there
 *
 *	transfer.c		loop: calls become items, results callbacks
 *	transfer_thread.c	thread: items in and out, deadlines
 *	transfer_ops.c		thread: ops of this host's targets
 *	transfer_chan.c		thread: peers, their channels, generations
 *	transfer_sends.c	thread: exposures, pushes, whose turn it is
 *	tcp.c, tcp_conn.c	thread: a transport
 *
 * All of struct fkv_data is the data thread's. An item is the loop's until it
 * is posted, then the thread's until it is reported, then the loop's again. A
 * transport moves bytes and decides nothing: it is asked by struct
 * fkv_transport, and says what has happened by fkv_data_chan_*().
 */
#ifndef FKV_IO_TRANSFER_INTERNAL_H
#define FKV_IO_TRANSFER_INTERNAL_H

#include <pthread.h>
#include <stdatomic.h>

#include "base/clock.h"
#include "base/table.h"
#include "base/timer.h"
#include "io/transfer.h"

struct fkv_data;

/* What goes to the thread and comes back. */
struct fkv_item {
	STAILQ_ENTRY(fkv_item) link;
	void (*run)(struct fkv_data *x, struct fkv_item *it);
	void (*report)(struct fkv_transfer *t, struct fkv_item *it);
	fkv_transfer_done_fn *done;
	void *arg;
	uint64_t start_ns;
	struct fkv_transfer_result res;
};

STAILQ_HEAD(fkv_items, fkv_item);

enum fkv_data_timer { FKV_DATA_T_OP, FKV_DATA_T_CHAN, FKV_DATA_T_PUSH };

struct fkv_data_counts {
	_Atomic uint64_t bytes_in, bytes_out, ops, failures, served, refused;
	_Atomic uint64_t generation;
	_Atomic uint32_t channels_out, channels_in;
};

/* Counted by the data thread alone, read by the loop. */
#define fkv_data_count(p, n) \
	atomic_store_explicit((p), atomic_load_explicit((p), \
			      memory_order_relaxed) + (n), memory_order_relaxed)

/*
 * A life of another owner. Born: fkv_transfer_peer_add(), or when it dials.
 * Held by: the thread's table and list. Dies: when it is removed, with all its
 * channels.
 */
struct fkv_data_peer {
	struct fkv_data *x;
	struct fkv_node node;		/* by incarnation */
	TAILQ_ENTRY(fkv_data_peer) link;	/* under peers_lock */
	uint64_t incarnation;
	char name[FKV_AUTH_NAME_MAX + 1];	/* under peers_lock */
	bool known;			/* added: there is an address */
	struct sockaddr_storage at;
	struct fkv_data_chan *out[FKV_TRANSFER_SLOTS];
	struct fkv_data_chan *in[FKV_TRANSFER_SLOTS];
	uint64_t in_generation[FKV_TRANSFER_SLOTS];	/* the last that was */
	TAILQ_HEAD(, fkv_data_op) waiting;
	uint32_t nr_waiting;
	struct fkv_data_counts counts;
};

enum fkv_data_chan_state {
	FKV_CHAN_OPENING,	/* the transport connects, or shakes hands */
	FKV_CHAN_UP,
	FKV_CHAN_DEAD,		/* its end is destroyed; no byte comes */
};

/*
 * One connection. Born: by the ops of a peer that we dial, or by a transport
 * that accepts. Held by: its transport; its peer while it has a slot. Dies:
 * destroyed first, then in the transport's own time.
 */
struct fkv_data_chan {
	struct fkv_data *x;
	struct fkv_data_peer *peer;	/* NULL: in its handshake */
	bool dialled;
	enum fkv_data_chan_state state;
	uint32_t slot;
	uint64_t generation;
	struct fkv_timer timer;		/* opening; then: sending */
	/* dialled: ops of our targets; accepted: what is to be sent, in turn */
	TAILQ_HEAD(, fkv_data_op) ops;
	TAILQ_HEAD(, fkv_data_send) turn;	/* have something to say */
	LIST_HEAD(fkv_data_pushes, fkv_data_send) pushes;
	LIST_HEAD(fkv_data_offers, fkv_data_offer) offers;
	uint32_t nr;			/* of either */
	struct fkv_data_send *current;	/* whose frame is under way */
	uint64_t sent_ns;		/* when the last frame was away */
};

/* A pull, or an open target. */
struct fkv_data_op {
	struct fkv_item item;
	struct fkv_item ready;		/* told when the target is open */
	struct fkv_node node;		/* by op */
	TAILQ_ENTRY(fkv_data_op) link;	/* waiting, or of its channel */
	struct fkv_timer timer;
	struct fkv_data_peer *peer;
	struct fkv_data_chan *chan;	/* NULL: waiting */
	bool pull;
	uint64_t id, peer_life, remote, offset, len, first_ns;
	int own_err;			/* why it alone ends with its channel */
	enum fkv_transfer_fault own_fault;
	struct fkv_spans spans;
	void (*ready_fn)(void *arg, uint32_t slot, uint64_t generation);
	uint32_t slot;
	uint64_t generation;
};

/* Any other call. */
struct fkv_data_call {
	struct fkv_item item;
	uint64_t id;			/* op or incarnation */
	int err;
	struct fkv_data_peer *fresh;	/* to be added, unless it is there */
};

struct fkv_data_piece {
	struct fkv_item item;
	STAILQ_ENTRY(fkv_data_piece) link;
	uint64_t op;
	struct fkv_transfer_piece p;
	uint64_t sent;
};

struct fkv_data_exposure {
	struct fkv_item item;		/* kept until it is over */
	struct fkv_node node;		/* by op */
	struct fkv_transfer_extent e;
	LIST_HEAD(fkv_data_sends, fkv_data_send) sends;
};

/* What is sent on an accepted channel: a served pull, or a push. */
struct fkv_data_send {
	struct fkv_item item;		/* of a push */
	struct fkv_node node;		/* pushes by op */
	TAILQ_ENTRY(fkv_data_send) turn;	/* of its channel */
	LIST_ENTRY(fkv_data_send) link;	/* of its exposure, or channel */
	struct fkv_data *x;		/* of a push */
	struct fkv_timer timer;		/* of a push without a connection */
	struct fkv_data_chan *chan;
	struct fkv_data_exposure *exposure;
	bool push;
	bool in_turn;			/* has something to say */
	bool all;			/* the last piece is here */
	int status;			/* to be told with the end */
	uint64_t id, peer_life, generation;
	uint32_t slot;
	uint64_t offset, len, sent;
	STAILQ_HEAD(fkv_data_pieces, fkv_data_piece) pieces;
};

/* A target that a peer has told us of, until it is pushed to. */
struct fkv_data_offer {
	struct fkv_node node;		/* by op */
	LIST_ENTRY(fkv_data_offer) link;	/* of its channel */
	struct fkv_data_chan *chan;
	uint64_t id;
};

/* A frame to be sent: @payload, of the segment, then perhaps the op's end. */
struct fkv_data_out {
	struct fkv_data_send *send;
	struct fkv_frame data;		/* len 0: none */
	const uint8_t *payload;
	bool end;
	struct fkv_frame last;
};

/* How bytes are moved. All calls in the data thread; none waits. */
struct fkv_transport {
	const char *name;
	/* Connect; which channel it is is said later. 0 or -errno. */
	int (*dial)(struct fkv_data *x, const struct fkv_data_peer *p,
		    struct fkv_data_chan **ret);
	/* Begin a pull on this channel, or tell the peer of a target; a
	   failure is told later. */
	void (*ask)(struct fkv_data_chan *ch, const struct fkv_data_op *op);
	/* There is something to be sent: fkv_data_next(), but not within. */
	void (*kick)(struct fkv_data_chan *ch);
	/* When it returns no byte goes in or out any more (T4). */
	void (*destroy)(struct fkv_data_chan *ch);
	/* Destroy those that are nobody's yet. */
	void (*shed)(struct fkv_data *x);
	/* Wait, until @until_ns or fkv_data's wake_fd, and do what is to do. */
	void (*turn)(struct fkv_data *x, uint64_t until_ns);
	void (*free)(struct fkv_data *x);
};

struct fkv_data {
	struct fkv_transfer *t;
	const struct fkv_transport *tp;
	void *transport;		/* its own */
	struct fkv_auth_self self;
	uint8_t *segment;
	uint64_t segment_bytes;
	uint32_t channels;
	int buffer_bytes;
	struct fkv_transfer_times times;
	int wake_fd;
	bool stop;
	uint64_t now_ns;
	uint64_t next_generation;
	uint64_t gone[FKV_TRANSFER_GONE_MAX];
	uint32_t nr_gone;
	struct fkv_timers timers;
	struct fkv_table ops, exposures, pushes, offers, peers;
	_Atomic uint64_t strangers, connections, accepted, refused, broken,
		stalls, dials;
};

struct fkv_transfer {
	/* the loop's */
	uv_loop_t *loop;
	uv_async_t async;
	bool closing, closed;
	uint32_t calls;			/* not yet reported */
	uint16_t port;
	struct fkv_item stop;
	uint8_t key[FKV_AUTH_KEY];
	char cluster[FKV_AUTH_NAME_MAX + 1];
	char name[FKV_AUTH_NAME_MAX + 1];
	pthread_t thread;

	pthread_mutex_t lock;		/* todo, results, asleep */
	struct fkv_items todo, results;
	bool asleep;			/* the thread waits: wake it */

	pthread_mutex_t peers_lock;	/* the list; names */
	TAILQ_HEAD(, fkv_data_peer) peers;

	struct fkv_data x;		/* the thread's */
};

/* transfer_thread.c */
void *fkv_data_main(void *x);
/* To the loop; the item is not the thread's any more. */
void fkv_data_report(struct fkv_data *x, struct fkv_item *it);
void fkv_data_report_err(struct fkv_data *x, struct fkv_item *it, int err,
			 enum fkv_transfer_fault fault);
int fkv_data_tables_init(struct fkv_data *x);
void fkv_data_tables_done(struct fkv_data *x);
void fkv_data_timer(struct fkv_data *x, struct fkv_timer *t);
/* All that there is ends. */
void fkv_data_drop(struct fkv_data *x);

/* transfer_ops.c */
void fkv_data_op_start(struct fkv_data *x, struct fkv_item *it);
/* 0, or -ENOENT: there is none. */
int fkv_data_op_end(struct fkv_data *x, uint64_t id);
void fkv_data_op_timer(struct fkv_data *x, struct fkv_data_op *op);
/* Where a DATA frame may land, or NULL: close the connection. */
uint8_t *fkv_data_op_data(struct fkv_data_chan *ch, const struct fkv_frame *f,
			  struct fkv_data_op **ret);
void fkv_data_op_progress(struct fkv_data_op *op, uint64_t bytes);
/* An END frame. 0 or -EPROTO: close the connection. */
int fkv_data_op_ended(struct fkv_data_chan *ch, const struct fkv_frame *f);
void fkv_data_peer_feed(struct fkv_data *x, struct fkv_data_peer *p);
/* Those of a channel that is destroyed; those that wait for one. */
void fkv_data_ops_fail(struct fkv_data_chan *ch, int err,
		       enum fkv_transfer_fault fault);
void fkv_data_waiting_fail(struct fkv_data_peer *p, int err,
			   enum fkv_transfer_fault fault);

/* transfer_chan.c */
struct fkv_data_peer *fkv_data_peer_find(const struct fkv_data *x,
					 uint64_t incarnation);
bool fkv_data_is_gone(const struct fkv_data *x, uint64_t incarnation);
/* It is taken, or what is known already is brought up to date by it. */
bool fkv_data_peer_add(struct fkv_data *x, struct fkv_data_peer *fresh);
void fkv_data_peer_gone(struct fkv_data *x, uint64_t incarnation);
void fkv_data_peers_drop(struct fkv_data *x);
void fkv_data_chan_init(struct fkv_data *x, struct fkv_data_chan *ch,
			bool dialled);
int fkv_data_chan_dial(struct fkv_data *x, struct fkv_data_peer *p);
/* The peer has taken it: ops may use it. */
void fkv_data_chan_up(struct fkv_data_chan *ch);
/* Somebody who has the key says that it is this channel. 0 or -errno. */
int fkv_data_chan_attach(struct fkv_data_chan *ch, const struct fkv_auth *a,
			 const struct fkv_frame *f);
/* Destroy it, then report what was on it. */
void fkv_data_chan_close(struct fkv_data_chan *ch, int err,
			 enum fkv_transfer_fault fault);
void fkv_data_chan_timer(struct fkv_data *x, struct fkv_data_chan *ch);
/* The transport has bytes that the peer does not take, or not any more. */
void fkv_data_chan_sending(struct fkv_data_chan *ch, bool sending);
/* This process did not run for a while: nobody was silent. */
void fkv_data_excuse(struct fkv_data *x);

/* transfer_sends.c */
void fkv_data_expose(struct fkv_data *x, struct fkv_item *it);
int fkv_data_unexpose(struct fkv_data *x, uint64_t op);
void fkv_data_exposures_drop(struct fkv_data *x);
void fkv_data_push_start(struct fkv_data *x, struct fkv_item *it);
void fkv_data_push_piece(struct fkv_data *x, struct fkv_item *it);
void fkv_data_push_fail(struct fkv_data *x, uint64_t op, int err);
void fkv_data_push_timer(struct fkv_data *x, struct fkv_data_send *s);
void fkv_data_pushes_drop(struct fkv_data *x);
/* A PULL frame, a TARGET frame. 0 or -errno: close the connection. */
int fkv_data_offered(struct fkv_data_chan *ch, const struct fkv_frame *f);
int fkv_data_serve(struct fkv_data_chan *ch, const struct fkv_frame *f);
/* What to send next; false: nothing. */
bool fkv_data_next(struct fkv_data_chan *ch, struct fkv_data_out *ret);
/* It is with the kernel: its buffer is not needed any more. */
void fkv_data_sent(struct fkv_data_chan *ch, const struct fkv_data_out *o);
void fkv_data_sends_fail(struct fkv_data_chan *ch, int err,
			 enum fkv_transfer_fault fault);

/* tcp.c */
int fkv_tcp_create(struct fkv_data *x, const struct sockaddr *listen,
		   uint16_t *ret_port);

#endif
