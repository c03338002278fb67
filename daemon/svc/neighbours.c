// SPDX-License-Identifier: Apache-2.0
/*
 * neighbours.c - the other owners: who they are, and a connection to ask them
 */
#include <errno.h>
#include <string.h>

#include "base/log.h"
#include "svc/address.h"
#include "svc/moves_internal.h"

static struct fkv_neighbour *by_life(struct fkv_moves *m, uint64_t life)
{
	struct fkv_neighbour *n;

	TAILQ_FOREACH(n, &m->neighbours, link)
		if (n->incarnation == life)
			return n;
	return NULL;
}

static struct fkv_neighbour *by_address(struct fkv_moves *m,
					const struct sockaddr_storage *at)
{
	struct fkv_neighbour *n;

	TAILQ_FOREACH(n, &m->neighbours, link)
		if (!memcmp(&n->at, at, sizeof(*at)))
			return n;
	return NULL;
}

static void leave(struct fkv_neighbour *n)
{
	n->incarnation = 0;
	fkv_rpc_peer_end(n->peer, -ESHUTDOWN);
}

static struct fkv_neighbour *create(struct fkv_moves *m,
				    const struct sockaddr_storage *at)
{
	struct fkv_neighbour *n = fkv_zalloc(sizeof(*n));

	if (!n)
		return NULL;
	n->at = *at;
	if (fkv_rpc_dial(m->mc.rpc, (const struct sockaddr *)at, &n->peer)) {
		fkv_free(n);
		return NULL;
	}
	TAILQ_INSERT_TAIL(&m->neighbours, n, link);
	return n;
}

static void came(struct fkv_moves *m, const struct fkv_cluster_member *mb)
{
	struct sockaddr_storage rpc, data;
	struct fkv_neighbour *n;
	int err;

	err = fkv_address_parse(mb->address, &rpc, &data);
	if (!err)
		err = fkv_transfer_peer_add(m->transfer, mb->name,
					    mb->incarnation,
					    (struct sockaddr *)&data);
	if (err) {
		fkv_log(FKV_LOG_WARN, "owner %s is not reached at '%s': %s",
			mb->name, mb->address ? mb->address : "",
			strerror(-err));
		return;
	}
	n = by_address(m, &rpc);
	if (!n)
		n = create(m, &rpc);
	if (!n) {
		fkv_log(FKV_LOG_WARN, "owner %s is not dialled: no room",
			mb->name);
		return;
	}
	n->incarnation = mb->incarnation;
	fkv_rpc_peer_resume(n->peer);
}

void fkv_neighbours_member(struct fkv_moves *m,
			   const struct fkv_cluster_member *mb)
{
	struct fkv_neighbour *n;

	if (!mb->gone) {
		came(m, mb);
		return;
	}
	fkv_transfer_peer_remove(m->transfer, mb->incarnation);
	n = by_life(m, mb->incarnation);
	if (n)
		leave(n);
}

struct fkv_rpc_peer *fkv_neighbour_of(struct fkv_moves *m, uint64_t life)
{
	struct fkv_neighbour *n = by_life(m, life);

	if (!n || !fkv_rpc_peer_is_up(n->peer) ||
	    fkv_rpc_peer_incarnation(n->peer) != life)
		return NULL;
	return n->peer;
}

void fkv_neighbours_forget(struct fkv_moves *m)
{
	struct fkv_neighbour *n;

	TAILQ_FOREACH(n, &m->neighbours, link)
		leave(n);
}

/* Sessions that ended are not begun at once again: it may be refused. */
void fkv_neighbours_tick(struct fkv_moves *m)
{
	struct fkv_neighbour *n;

	TAILQ_FOREACH(n, &m->neighbours, link)
		if (n->incarnation)
			fkv_rpc_peer_resume(n->peer);
}

void fkv_neighbours_free(struct fkv_moves *m)
{
	struct fkv_neighbour *n;

	while ((n = TAILQ_FIRST(&m->neighbours))) {
		TAILQ_REMOVE(&m->neighbours, n, link);
		fkv_free(n);
	}
}
