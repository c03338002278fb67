/* SPDX-License-Identifier: Apache-2.0 */
/*
 * moves.h - an owner's payload to and from other owners
 *
 * Carries out what the owner core asks of transfers (PULL, STAGE, PUSH, OPEN,
 * FENCE, CANCEL, STOP, PUSHED), with io/transfer.h for the bytes and requests
 * by io/rpc.h to
 *
 *	have an SSD copy pushed		STAGE_READ, answered when all is sent
 *	learn that a put has come	PUSHED, answered when its target is whole:
 *					what was sent may still be on its way
 *
 * Ops of the cores are numbers of each owner's own: in transfers an op is a hash
 * of who began it and its number. The source of a pull exposes all of its
 * segment: the master keeps what is read, and nothing is read without the key.
 *
 * Loop thread only. Born: fkv_moves_create(). Dies: fkv_moves_free(), after
 * close and the loop's end.
 */
#ifndef FKV_SVC_MOVES_H
#define FKV_SVC_MOVES_H

#include "core/owner/owner.h"
#include "io/rpc.h"
#include "io/transfer.h"

struct fkv_moves;

struct fkv_moves_config {
	uv_loop_t *loop;
	struct fkv_rpc *rpc;
	struct fkv_auth_self self;
	void *segment;
	uint64_t segment_bytes;		/* all of it, chunk buffers too */
	uint64_t shown_bytes;		/* from its start: may be pulled */
	const struct sockaddr *listen;
	/* to the owner core */
	void (*input)(void *arg, const struct fkv_in *in);
	void *arg;
};

struct fkv_moves_stats {
	struct fkv_transfer_stats transfers;
	uint64_t active, serving, opened;
	/* ever */
	uint64_t pulls, stages, pushes, failed, asked, refused;
	uint64_t bytes_in, bytes_out;
};

/* 0, or -errno of fkv_transfer_create(). */
int fkv_moves_create(const struct fkv_moves_config *mc,
		     struct fkv_moves **ret);
void fkv_moves_close(struct fkv_moves *m);
void fkv_moves_free(struct fkv_moves *m);
uint16_t fkv_moves_port(const struct fkv_moves *m);

/* False: no memory, not done; its end is told in any other case. */
bool fkv_moves_command(struct fkv_moves *m, const struct fkv_cmd *cmd);
/* The incarnation of the life after a STOP; ours, before. */
uint64_t fkv_moves_incarnation(const struct fkv_moves *m);

/* All that are dialled were dialled anew, by the next life. */
void fkv_moves_joined(struct fkv_moves *m);

/* News of the master. */
void fkv_moves_member(struct fkv_moves *m, const struct fkv_cluster_member *mb);
/* A peer that is no master is connected, or asks. */
void fkv_moves_up(struct fkv_moves *m, struct fkv_rpc_peer *p);
void fkv_moves_request(struct fkv_moves *m, struct fkv_rpc_peer *p,
		       const struct fkv_rpc_ask *ask, const void *data,
		       size_t len);
/* Every half second: peers that came back are dialled, cores told of life. */
void fkv_moves_tick(struct fkv_moves *m);

void fkv_moves_get_stats(struct fkv_moves *m, struct fkv_moves_stats *ret);

#endif
