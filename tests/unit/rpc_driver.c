// SPDX-License-Identifier: Apache-2.0
#include <poll.h>
#include <stdio.h>

#include "wire/bytes.h"

#include "rpc_driver.h"

static uv_loop_t first_loop;
uv_loop_t *loop = &first_loop;
struct node d, a;
uint8_t key[FKV_AUTH_KEY];
struct sockaddr_storage at;
uint8_t big[FKV_FRAME_MAX];

static int on_accept(void *arg, const char *name, uint64_t incarnation)
{
	struct node *n = arg;

	ck_assert(*name && incarnation);
	return n->admit;
}

static void on_up(void *arg, struct fkv_rpc_peer *peer)
{
	struct node *n = arg;

	n->peer = peer;
	n->ups++;
	if (n->eager)
		ck_assert_int_eq(ask_peer(peer, n->eager, 4, FKV_SEC), 0);
}

static void on_down(void *arg, struct fkv_rpc_peer *peer, const char *why)
{
	struct node *n = arg;

	(void)peer;
	ck_assert_ptr_nonnull(why);
	n->downs++;
}

static void on_ended(void *arg, struct fkv_rpc_peer *peer, int err)
{
	struct node *n = arg;

	n->ends++;
	n->end_err = err;
	/* numbers begin anew with a session */
	n->sent = n->got = 0;
	if (n->peer == peer)
		n->peer = NULL;
	if (n->resume)
		fkv_rpc_peer_resume(peer);
}

static void on_message(void *arg, struct fkv_rpc_peer *peer, const void *data,
		       size_t len)
{
	struct node *n = arg;

	(void)peer;
	ck_assert_uint_ge(len, 8);
	ck_assert_uint_eq(fkv_get64(data), ++n->got);
}

static void on_request(void *arg, struct fkv_rpc_peer *peer,
		       const struct fkv_rpc_ask *ask, const void *data,
		       size_t len)
{
	struct node *n = arg;

	ck_assert_ptr_nonnull(peer);
	n->requests++;
	if (n->hold)
		n->held[n->nr_held++] = *ask;
	else if (n->reply_len)
		fkv_rpc_reply(n->rpc, ask, 0, big, n->reply_len);
	else
		fkv_rpc_reply(n->rpc, ask, -ENOENT, data, len);
}

static const struct fkv_rpc_ops node_ops = {
	on_accept, on_up, on_down, on_ended, on_message, on_request,
};

/* Times short enough for a test that waits for them. */
const struct fkv_rpc_times times = {
	.connect_ns = 500 * FKV_MS, .handshake_ns = 300 * FKV_MS,
	.ping_ns = 50 * FKV_MS, .silent_ns = 300 * FKV_MS,
	.backoff_min_ns = 5 * FKV_MS, .backoff_max_ns = 50 * FKV_MS,
	.linger_ns = 2 * FKV_SEC,
};

struct fkv_rpc_config config(struct node *n, const char *name,
			     uint64_t incarnation)
{
	return (struct fkv_rpc_config){
		.self = { key, "test", name, incarnation },
		.times = times, .ops = &node_ops, .arg = n,
	};
}

void start(struct node *n, const char *name, uint64_t incarnation)
{
	struct fkv_rpc_config cfg = config(n, name, incarnation);

	ck_assert_int_eq(fkv_rpc_create(loop, &cfg, &n->rpc), 0);
}

void stop(struct node *n)
{
	if (!n->rpc)
		return;
	fkv_rpc_close_all(n->rpc);
	while (!fkv_rpc_is_closed(n->rpc))
		uv_run(loop, UV_RUN_ONCE);
	fkv_rpc_free(n->rpc);
	n->rpc = NULL;
	n->peer = NULL;
}

void listen_on(uint16_t port)
{
	char text[32];

	snprintf(text, sizeof(text), "127.0.0.1:%u", port);
	ck_assert_int_eq(fkv_rpc_address(text, &at), 0);
	ck_assert_int_eq(fkv_rpc_listen(a.rpc, (struct sockaddr *)&at), 0);
	((struct sockaddr_in *)&at)->sin_port = htons(fkv_rpc_port(a.rpc));
}

void rpc_setup(void)
{
	ck_assert_int_eq(uv_loop_init(loop), 0);
	memset(&d, 0, sizeof(d));
	memset(&a, 0, sizeof(a));
	memset(key, 0x21, sizeof(key));
	start(&d, "owner", 11);
	start(&a, "master", 3);
	listen_on(0);
}

void rpc_teardown(void)
{
	stop(&d);
	stop(&a);
	ck_assert_int_eq(uv_loop_close(loop), 0);
}

void spin(void)
{
	spin_loop(loop);
}

struct fkv_rpc_peer *dial(void)
{
	struct fkv_rpc_peer *p;

	ck_assert_int_eq(fkv_rpc_dial(d.rpc, (struct sockaddr *)&at, &p), 0);
	return p;
}

void meet(void)
{
	dial();
	wait_for(d.ups && a.ups);
	ck_assert_str_eq(fkv_rpc_peer_name(d.peer), "master");
	ck_assert_str_eq(fkv_rpc_peer_name(a.peer), "owner");
}

int say_long(struct node *n, size_t len)
{
	int err;

	fkv_put64(big, n->sent + 1);
	err = fkv_rpc_send(n->peer, big, len, FKV_SESSION_REQUEST);
	if (!err)
		n->sent++;
	return err;
}

int say(struct node *n)
{
	return say_long(n, 8);
}

static void on_done(void *arg, int status, const void *data, size_t len)
{
	struct asked *c = arg;

	ck_assert(!c->done);
	c->done = true;
	c->status = status;
	c->len = data ? len : 0;
	c->ended_ns = fkv_clock_ns();
}

int ask_peer(struct fkv_rpc_peer *p, struct asked *c, size_t len, uint64_t ns)
{
	struct fkv_rpc_question q = {
		.data = big, .len = len, .deadline_ns = fkv_clock_ns() + ns,
		.done = on_done, .arg = c,
	};

	memset(c, 0, sizeof(*c));
	c->deadline_ns = q.deadline_ns;
	return fkv_rpc_call(p, &q);
}

int ask(struct asked *c, size_t len, uint64_t ns)
{
	return ask_peer(d.peer, c, len, ns);
}

void served(void)
{
	struct asked c;

	wait_for(d.peer && fkv_rpc_peer_is_up(d.peer));
	ck_assert_int_eq(ask(&c, 4, 10 * FKV_SEC), 0);
	wait_for(c.done);
	ck_assert_int_eq(c.status, -ENOENT);
	ck_assert_uint_eq(c.len, 4);
}

struct fkv_rpc_stats stats(const struct node *n)
{
	struct fkv_rpc_stats s;

	fkv_rpc_get_stats(n->rpc, &s);
	return s;
}
