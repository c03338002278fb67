/* SPDX-License-Identifier: Apache-2.0 */
/*
 * uplink.h - an owner's place in a cluster: its session with the master
 *
 * What the owner core says to its master goes out in one session, in batches by
 * turns of the loop; what comes is handed to the core as inputs. The session
 * ends when the master says so, has another epoch, or takes no more; then the
 * core makes all quiet and says when another may begin, as another incarnation
 * (protocol.md F0, F1). The same node takes requests of other owners, which
 * moves.h answers.
 *
 * Loop thread only. Born: fkv_uplink_create(). Dies: fkv_uplink_free(), after
 * close and the loop's end.
 */
#ifndef FKV_SVC_UPLINK_H
#define FKV_SVC_UPLINK_H

#include "core/owner/owner.h"
#include "svc/batch.h"
#include "svc/config.h"
#include "svc/moves.h"

struct fkv_uplink;

struct fkv_uplink_config {
	uv_loop_t *loop;
	const struct fkv_config *cfg;	/* role owner */
	const uint8_t *key;		/* or NULL */
	uint64_t incarnation;
	void *segment;
	uint64_t segment_bytes;		/* all of it */
	uint64_t shown_bytes;		/* without chunk buffers */
	/* to the owner core; of this turn or a new one */
	void (*input)(void *arg, const struct fkv_in *in);
	void *arg;
	char *err;
	size_t err_size;
};

struct fkv_uplink_stats {
	struct fkv_rpc_stats rpc;
	struct fkv_batch_stats sent;
	struct fkv_moves_stats moves;
	bool connected;			/* to the master */
	bool session;
	uint64_t epoch;			/* of it, or 0 */
	uint64_t incarnation;
	/* ever */
	uint64_t received, broken, ended;
};

/* 0 or -errno with a sentence. */
int fkv_uplink_create(const struct fkv_uplink_config *uc,
		      struct fkv_uplink **ret);
/* Dial the master. 0 or -errno with a sentence. */
int fkv_uplink_serve(struct fkv_uplink *u);
void fkv_uplink_close(struct fkv_uplink *u);
void fkv_uplink_free(struct fkv_uplink *u);

/* HOST:PORT/PORT, for other owners. */
const char *fkv_uplink_address(const struct fkv_uplink *u);

/* Commands for clusters, and SEND; false: no memory, try again. */
bool fkv_uplink_command(struct fkv_uplink *u, const struct fkv_cmd *cmd);
/* May new work begin, or is there no end of unanswered messages? */
bool fkv_uplink_has_room(const struct fkv_uplink *u);

void fkv_uplink_get_stats(struct fkv_uplink *u, struct fkv_uplink_stats *ret);

#endif
