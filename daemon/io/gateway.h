/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gateway.h - the unix socket: connections, frames, descriptors
 *
 * Accepts clients, decodes their requests into calls, encodes replies. Decides
 * nothing about keys. Runs on the loop thread; ops are called there. A
 * connection that breaks the protocol is closed, and only it.
 */
#ifndef FKV_IO_GATEWAY_H
#define FKV_IO_GATEWAY_H

#include <sys/types.h>
#include <uv.h>

#include "io/index.h"
#include "wire/request.h"

struct fkv_gateway;

struct fkv_gateway_config {
	const char *path;
	mode_t mode;			/* of the socket */
	gid_t group;			/* or (gid_t)-1 */
	int segment_ro, segment_rw;
	uint64_t segment_bytes;
	uint64_t client_cap;
	uint32_t clients_max;
	uint64_t incarnation;
	struct fkv_index *index;
	uint32_t pins;			/* slots of each client */
	bool strict;
	const struct fkv_gateway_ops *ops;
	void *arg;
};

struct fkv_gateway_ops {
	/* a client has said HELLO; 0 or -errno refuses it */
	void (*client)(void *arg, uint64_t client, uint32_t uid,
		       uint64_t arena_bytes);
	void (*gone)(void *arg, uint64_t client);
	/* a client pins so much by itself; returns what else it is charged */
	uint64_t (*pinned)(void *arg, uint64_t client, uint64_t bytes);
	/* a call of this client: taken over */
	void (*call)(void *arg, struct fkv_call *call);
	/* ADMIN: text to be freed, or NULL and *ret_err; root and own uid */
	char *(*admin)(void *arg, const char *word, const char *argument,
		       int *ret_err);
	struct fkv_index_ops index;
	/* live entries that wait for their first persist; NULL: the first */
	struct fkv_entry *(*next_pending)(void *arg, const struct fkv_entry *e);
	/* no client is heard any more, nor will be */
	void (*failed)(void *arg);
};

/* Why an operator's question has no answer; @why may be NULL. */
struct fkv_refusal {
	int err;
	const char *why;
};

/* ADMIN of a client of @uid, by both fronts: text to be freed, or NULL. */
char *fkv_admin_ask(const struct fkv_gateway_ops *ops, void *arg, uid_t uid,
		    const struct fkv_call *call, struct fkv_refusal *ret);

struct fkv_gateway_stats {
	uint64_t connections;
	/* ever */
	uint64_t accepted, refused, requests, replies;
	uint64_t bad_requests, broken, over_cap;
	uint64_t call_errors;		/* of the kernel module */
};

struct fkv_conn_info {
	uint64_t client;
	pid_t pid;
	uid_t uid;
	uint64_t pinned, pinned_bytes;	/* in shared memory, at last count */
};

int fkv_gateway_create(uv_loop_t *loop, const struct fkv_gateway_config *cfg,
		       struct fkv_gateway **ret, char *err, size_t err_size);
int fkv_gateway_listen(struct fkv_gateway *g);

/* No new clients; then, with the second call, none at all. */
void fkv_gateway_stop_accept(struct fkv_gateway *g);
void fkv_gateway_close_all(struct fkv_gateway *g);
/* After close_all() and one run of the loop. */
void fkv_gateway_free(struct fkv_gateway *g);

/* Send the reply of @call and free it. */
void fkv_gateway_reply(struct fkv_gateway *g, struct fkv_call *call);

/*
 * The put area of a client, kept mapped while a copy of it runs; NULL when
 * the client is gone. Each use ends with arena_put().
 */
struct fkv_arena;
struct fkv_arena *fkv_gateway_arena(struct fkv_gateway *g, uint64_t client);
void *fkv_arena_at(const struct fkv_arena *a, uint64_t offset);
void fkv_arena_put(struct fkv_arena *a);

/* Hits of all clients to ops; pins counted, clients over their cap closed. */
void fkv_gateway_hits(struct fkv_gateway *g);
uint64_t fkv_gateway_count_pins(struct fkv_gateway *g);

void fkv_gateway_get_stats(const struct fkv_gateway *g,
			   struct fkv_gateway_stats *ret);
bool fkv_gateway_conn_info(const struct fkv_gateway *g, uint64_t client,
			   struct fkv_conn_info *ret);

#endif
