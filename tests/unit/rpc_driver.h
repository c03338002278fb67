/* SPDX-License-Identifier: Apache-2.0 */
/*
 * rpc_driver.h - two nodes in one loop, over loopback
 *
 * What happens to each is counted; messages of the session are numbers that
 * must come in order. Nothing sleeps: the loop runs until a condition holds.
 */
#ifndef FKV_TESTS_RPC_DRIVER_H
#define FKV_TESTS_RPC_DRIVER_H

#include <check.h>

#include "io/rpc_internal.h"
#include "wait_for.h"

#define HELD_MAX	8192

/* A call, and how it ended. */
struct asked {
	bool done;
	int status;
	size_t len;
	uint64_t deadline_ns, ended_ns;
};

/* One node, what happened to it, and how it answers. */
struct node {
	struct fkv_rpc *rpc;
	struct fkv_rpc_peer *peer;	/* the last that was up */
	unsigned int ups, downs, ends, requests;
	int end_err;
	int admit;
	bool hold;			/* requests are not answered */
	bool resume;			/* a parked peer goes on */
	struct asked *eager;		/* asked as soon as a peer is up */
	uint64_t sent, got;		/* messages of the session, numbered */
	struct fkv_rpc_ask held[HELD_MAX];
	unsigned int nr_held;
	size_t reply_len;
};

extern uv_loop_t *loop;
extern struct node d, a;		/* dials; accepts */
extern uint8_t key[FKV_AUTH_KEY];
extern struct sockaddr_storage at;	/* of the acceptor */
extern uint8_t big[FKV_FRAME_MAX];
extern const struct fkv_rpc_times times;

/* Run the loop until @cond. */
#define wait_for(cond)	wait_by(spin(), cond)

/* One turn of the loop, and at most 10 ms of waiting for it. */
void spin(void);

void rpc_setup(void);
void rpc_teardown(void);
struct fkv_rpc_config config(struct node *n, const char *name,
			     uint64_t incarnation);
void start(struct node *n, const char *name, uint64_t incarnation);
void stop(struct node *n);
void listen_on(uint16_t port);

struct fkv_rpc_peer *dial(void);
/* Both are up. */
void meet(void);
/* The next message of a node's session; of @len bytes, 8 at least. */
int say(struct node *n);
int say_long(struct node *n, size_t len);

/* A call by the dialer, or another, with @ns of time. */
int ask(struct asked *c, size_t len, uint64_t ns);
int ask_peer(struct fkv_rpc_peer *p, struct asked *c, size_t len, uint64_t ns);
/* A call is answered now. */
void served(void);
struct fkv_rpc_stats stats(const struct node *n);

#endif
