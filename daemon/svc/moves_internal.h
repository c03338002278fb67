/* SPDX-License-Identifier: Apache-2.0 */
/*
 * moves_internal.h - between moves.c, moves_out.c, moves_in.c and neighbours.c
 */
#ifndef FKV_SVC_MOVES_INTERNAL_H
#define FKV_SVC_MOVES_INTERNAL_H

#include <sys/queue.h>

#include "base/clock.h"
#include "base/table.h"
#include "svc/moves.h"

/*
 * Another owner, as the master tells of it.
 * Born: when it is first told of. Held by: the list. Dies: with the moves; its
 * connection is kept for who comes to that address next.
 */
struct fkv_neighbour {
	TAILQ_ENTRY(fkv_neighbour) link;
	uint64_t incarnation;		/* 0: nobody is there now */
	struct sockaddr_storage at;
	struct fkv_rpc_peer *peer;	/* dialled */
};

/*
 * A PULL, STAGE or PUSH of the core, or a piece of what is pushed for a peer.
 * Born: by its command. Held by: the transfer until its done(), the request of
 * a STAGE or PUSH until it is answered. Dies: with the last of these.
 */
struct fkv_move {
	struct fkv_node node;		/* by token, until the core is told */
	struct fkv_moves *m;
	enum fkv_cmd_type type;
	uint64_t token;
	uint64_t wire;			/* the op in transfers */
	uint64_t peer;
	bool moving;			/* done() comes */
	bool asking;			/* an answer comes */
	bool unasked;			/* its source is not connected yet */
	bool told;			/* to the core */
	int said;			/* what the source answered */
	int unsaid;			/* why it was not asked */
	struct fkv_cluster_msg ask;	/* STAGE_READ, with a key; PUSHED */
};

/*
 * What a peer has pushed of our SSD. Born: by its request. Held by: the core
 * until PUSHED, the transfer until its done(). Dies: with the last of these.
 */
struct fkv_serve {
	struct fkv_node node;		/* by token, until the core is done */
	struct fkv_moves *m;
	uint64_t token;
	uint64_t wire;
	uint64_t offset, len;		/* of the target, there */
	struct fkv_rpc_ask ask;
	bool pushing;
	bool answered;
};

/*
 * Where a peer may push a put. Born: by OPEN. Held by: the transfer while it is
 * open, the table until it is asked for or fenced. Dies: out of both.
 */
struct fkv_opened {
	struct fkv_node node;		/* by wire */
	struct fkv_moves *m;
	uint64_t wire;
	bool open;
	bool listed;
	bool asked;			/* the writer waits: ask */
	int res;			/* when it is open no more */
	struct fkv_rpc_ask ask;
};

struct fkv_fencing {
	struct fkv_moves *m;
	uint64_t token;
};

TAILQ_HEAD(fkv_neighbours, fkv_neighbour);

struct fkv_moves {
	struct fkv_moves_config mc;
	struct fkv_transfer *transfer;
	struct fkv_neighbours neighbours;
	struct fkv_table moves, serves, opened;
	uint64_t incarnation;
	uint64_t next_token;
	uint8_t buf[4096];		/* a request being made */
	struct fkv_moves_stats stats;
};

/* moves.c */
uint64_t fkv_moves_wire(uint64_t incarnation, uint64_t op);
void fkv_moves_input(struct fkv_moves *m, const struct fkv_in *in);

/* moves_out.c: what this owner asked for */
void fkv_move_begin(struct fkv_moves *m, const struct fkv_cmd *cmd);
bool fkv_move_cancel(struct fkv_moves *m, uint64_t token);
/* The source at @peer is connected now. */
void fkv_moves_ask(struct fkv_moves *m, uint64_t peer);
/* Those that only wait for an answer are over. */
void fkv_moves_abandon(struct fkv_moves *m);

/* moves_in.c: what others asked for */
void fkv_serve_request(struct fkv_moves *m, const struct fkv_rpc_ask *ask,
		       uint64_t peer, const struct fkv_cluster_msg *msg);
void fkv_serve_piece(struct fkv_moves *m, const struct fkv_cmd *cmd);
void fkv_serve_end(struct fkv_moves *m, const struct fkv_cmd *cmd);
void fkv_open_begin(struct fkv_moves *m, const struct fkv_cmd *cmd);
void fkv_open_asked(struct fkv_moves *m, const struct fkv_rpc_ask *ask,
		    uint64_t peer, const struct fkv_cluster_pushed *q);
bool fkv_open_fence(struct fkv_moves *m, const struct fkv_cmd *cmd);
void fkv_opened_drop(struct fkv_moves *m);

/* neighbours.c */
void fkv_neighbours_member(struct fkv_moves *m,
			   const struct fkv_cluster_member *mb);
/* Connected, and that life; or NULL. */
struct fkv_rpc_peer *fkv_neighbour_of(struct fkv_moves *m, uint64_t life);
/* None of them is dialled until the master tells of it. */
void fkv_neighbours_forget(struct fkv_moves *m);
void fkv_neighbours_tick(struct fkv_moves *m);
void fkv_neighbours_free(struct fkv_moves *m);

#endif
