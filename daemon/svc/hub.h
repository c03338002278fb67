/* SPDX-License-Identifier: Apache-2.0 */
/*
 * hub.h - a master's process: the master core, and the sessions of owners
 *
 * Owners dial. What comes in a session goes to the core as of that member, what
 * the core says goes out in the member's session, in batches by turns of the
 * loop. A session that ends is only forgotten: the core waits for the lease.
 *
 * While leases may last that an earlier master has given, nobody is let in: their
 * owners serve what this one does not know of (K6.f).
 *
 * The core's epoch is the one that is stored; when an owner has met a higher
 * one, or this one of another master, a higher one is stored and all begins
 * anew with it (protocol.md K6.b). Loop thread only.
 *
 * Born: fkv_hub_create(). Dies: fkv_hub_free(), after close and the loop's end.
 */
#ifndef FKV_SVC_HUB_H
#define FKV_SVC_HUB_H

#include "core/master/master.h"
#include "io/rpc.h"
#include "svc/batch.h"
#include "svc/lockfile.h"

struct fkv_hub;

struct fkv_hub_config {
	uv_loop_t *loop;
	const char *cluster, *name;
	const uint8_t *key;		/* or NULL */
	const char *listen;		/* ADDRESS:PORT */
	struct fkv_lockfile *store;	/* of the epoch */
	bool first;			/* eviction.new_values */
	uint64_t lease_ns;		/* a master before this one may have
					   given leases for so long */
	char *err;
	size_t err_size;
};

struct fkv_hub_stats {
	struct fkv_rpc_stats rpc;
	struct fkv_batch_stats sent;
	uint64_t sessions;
	/* ever */
	uint64_t received, broken, registered, refused;
};

/* 0 or -errno with a sentence. */
int fkv_hub_create(const struct fkv_hub_config *hc, struct fkv_hub **ret);
/* Owners are heard from now on. 0 or -errno with a sentence. */
int fkv_hub_serve(struct fkv_hub *h);
uint16_t fkv_hub_port(const struct fkv_hub *h);
void fkv_hub_close(struct fkv_hub *h);
void fkv_hub_free(struct fkv_hub *h);

struct fkv_master *fkv_hub_master(struct fkv_hub *h);
uint64_t fkv_hub_epoch(const struct fkv_hub *h);
void fkv_hub_get_stats(const struct fkv_hub *h, struct fkv_hub_stats *ret);
/* Has that member a session with a connection? */
bool fkv_hub_is_connected(const struct fkv_hub *h, uint32_t member);

#endif
