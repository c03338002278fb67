// SPDX-License-Identifier: Apache-2.0
#include <check.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "io/rpc_internal.h"
#include "wire/bytes.h"

#define GUARD_NS	(20 * FKV_SEC)	/* what never takes so long */
#define HELD_MAX	8192

/* One node, what happened to it, and how it answers. */
struct node {
	struct fkv_rpc *rpc;
	struct fkv_rpc_peer *peer;	/* the last that was up */
	unsigned int ups, downs, ends, requests;
	int end_err;
	int admit;
	bool hold;			/* requests are not answered */
	bool resume;			/* a parked peer goes on */
	uint64_t sent, got;		/* messages of the session, numbered */
	struct fkv_rpc_ask held[HELD_MAX];
	unsigned int nr_held;
	size_t reply_len;
};

static uv_loop_t loop;
static struct node d, a;		/* dials; accepts */
static uint8_t key[FKV_AUTH_KEY];
static struct sockaddr_storage at;	/* of the acceptor */
static uint8_t big[FKV_FRAME_MAX];

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
	ck_assert_uint_eq(len, 8);
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
static const struct fkv_rpc_times times = {
	.connect_ns = 500 * FKV_MS, .handshake_ns = 300 * FKV_MS,
	.ping_ns = 50 * FKV_MS, .silent_ns = 300 * FKV_MS,
	.backoff_min_ns = 5 * FKV_MS, .backoff_max_ns = 50 * FKV_MS,
	.linger_ns = 500 * FKV_MS,
};

static struct fkv_rpc_config config(struct node *n, const char *name,
				    uint64_t incarnation)
{
	return (struct fkv_rpc_config){
		.self = { key, "test", name, incarnation },
		.times = times, .ops = &node_ops, .arg = n,
	};
}

static void start(struct node *n, const char *name, uint64_t incarnation)
{
	struct fkv_rpc_config cfg = config(n, name, incarnation);

	ck_assert_int_eq(fkv_rpc_create(&loop, &cfg, &n->rpc), 0);
}

static void stop(struct node *n)
{
	if (!n->rpc)
		return;
	fkv_rpc_close_all(n->rpc);
	while (!fkv_rpc_is_closed(n->rpc))
		uv_run(&loop, UV_RUN_ONCE);
	fkv_rpc_free(n->rpc);
	n->rpc = NULL;
	n->peer = NULL;
}

static void listen_on(uint16_t port)
{
	char text[32];

	snprintf(text, sizeof(text), "127.0.0.1:%u", port);
	ck_assert_int_eq(fkv_rpc_address(text, &at), 0);
	ck_assert_int_eq(fkv_rpc_listen(a.rpc, (struct sockaddr *)&at), 0);
	((struct sockaddr_in *)&at)->sin_port = htons(fkv_rpc_port(a.rpc));
}

static void setup(void)
{
	ck_assert_int_eq(uv_loop_init(&loop), 0);
	memset(&d, 0, sizeof(d));
	memset(&a, 0, sizeof(a));
	memset(key, 0x21, sizeof(key));
	start(&d, "owner", 11);
	start(&a, "master", 3);
	listen_on(0);
}

static void teardown(void)
{
	stop(&d);
	stop(&a);
	ck_assert_int_eq(uv_loop_close(&loop), 0);
}

/* Run the loop until @cond; the guard only ends what hangs. */
#define wait_for(cond)							\
	do {								\
		uint64_t until_ = fkv_clock_ns() + GUARD_NS;		\
									\
		while (!(cond)) {					\
			ck_assert_msg(fkv_clock_ns() < until_,		\
				      "never: " #cond);			\
			spin();						\
		}							\
	} while (0)

/* One turn of the loop, and at most 10 ms of waiting for it. */
static void spin(void)
{
	struct pollfd p = { .fd = uv_backend_fd(&loop), .events = POLLIN };
	int most = uv_backend_timeout(&loop);

	poll(&p, 1, most < 0 || most > 10 ? 10 : most);
	uv_run(&loop, UV_RUN_NOWAIT);
}

static struct fkv_rpc_peer *dial(void)
{
	struct fkv_rpc_peer *p;

	ck_assert_int_eq(fkv_rpc_dial(d.rpc, (struct sockaddr *)&at, &p), 0);
	return p;
}

static void meet(void)
{
	dial();
	wait_for(d.ups && a.ups);
	ck_assert_str_eq(fkv_rpc_peer_name(d.peer), "master");
	ck_assert_str_eq(fkv_rpc_peer_name(a.peer), "owner");
	ck_assert_uint_eq(fkv_rpc_peer_incarnation(a.peer), 11);
}

static int say(struct node *n)
{
	uint8_t m[8];
	int err;

	fkv_put64(m, n->sent + 1);
	err = fkv_rpc_send(n->peer, m, sizeof(m), FKV_SESSION_REQUEST);
	if (!err)
		n->sent++;
	return err;
}

/* A call, and how it ended. */
struct asked {
	bool done;
	int status;
	size_t len;
	uint64_t deadline_ns, ended_ns;
};

static void on_done(void *arg, int status, const void *data, size_t len)
{
	struct asked *c = arg;

	ck_assert(!c->done);
	c->done = true;
	c->status = status;
	c->len = data ? len : 0;
	c->ended_ns = fkv_clock_ns();
}

static int ask(struct asked *c, const void *data, size_t len, uint64_t ns)
{
	struct fkv_rpc_question q = {
		.data = data, .len = len, .deadline_ns = fkv_clock_ns() + ns,
		.done = on_done, .arg = c,
	};

	memset(c, 0, sizeof(*c));
	c->deadline_ns = q.deadline_ns;
	return fkv_rpc_call(d.peer, &q);
}

static void served(void)
{
	struct asked c;

	ck_assert_int_eq(ask(&c, "ping", 4, 10 * FKV_SEC), 0);
	wait_for(c.done);
	ck_assert_int_eq(c.status, -ENOENT);
	ck_assert_uint_eq(c.len, 4);
}

static struct fkv_rpc_stats stats(const struct node *n)
{
	struct fkv_rpc_stats s;

	fkv_rpc_get_stats(n->rpc, &s);
	return s;
}

START_TEST(messages_and_requests_go_both_ways)
{
	struct asked c;

	meet();
	for (int i = 0; i < 1000; i++) {
		ck_assert_int_eq(say(&d), 0);
		ck_assert_int_eq(say(&a), 0);
	}
	wait_for(a.got == 1000 && d.got == 1000);
	served();
	ck_assert_int_eq(ask(&c, big, FKV_RPC_BODY_MAX, 10 * FKV_SEC), 0);
	wait_for(c.done);
	ck_assert_uint_eq(c.len, FKV_RPC_BODY_MAX);
	ck_assert_int_eq(ask(&c, NULL, 0, 10 * FKV_SEC), 0);
	wait_for(c.done);
	ck_assert_int_eq(c.status, -ENOENT);
	ck_assert_uint_eq(stats(&a).strangers, 0);
	ck_assert_uint_eq(stats(&a).connections, 1);
}
END_TEST

/* F0: a session outlives its connections */
START_TEST(a_session_goes_on_over_connections_that_break)
{
	unsigned int breaks = 0;

	meet();
	while (breaks < 50) {
		for (int i = 0; i < 20; i++) {
			if (d.sent < d.sent + 1)
				say(&d);
			say(&a);
			spin();
		}
		if (!fkv_rpc_peer_is_up(d.peer) || !fkv_rpc_peer_is_up(a.peer))
			continue;
		fkv_rpc_conn_close(breaks % 2 ? d.peer->conn : a.peer->conn,
				   "broken by a test");
		breaks++;
	}
	wait_for(a.got == d.sent && d.got == a.sent);
	ck_assert_uint_gt(d.sent, 100);
	ck_assert_uint_eq(d.ends + a.ends, 0);
	ck_assert_uint_ge(d.downs, 50);
	served();
}
END_TEST

/* K3: none outlives its deadline by more than 100 ms */
START_TEST(a_call_ends_at_its_deadline)
{
	static struct asked c[200];

	meet();
	a.hold = true;
	for (int i = 0; i < 200; i++)
		ck_assert_int_eq(ask(&c[i], "x", 1,
				     (uint64_t)(i * 7 % 200 + 1) * FKV_MS), 0);
	for (int i = 0; i < 200; i++)
		wait_for(c[i].done);
	for (int i = 0; i < 200; i++) {
		ck_assert_int_eq(c[i].status, -ETIMEDOUT);
		ck_assert_uint_ge(c[i].ended_ns, c[i].deadline_ns);
		ck_assert_uint_lt(c[i].ended_ns,
				  c[i].deadline_ns + 100 * FKV_MS);
	}
	/* late answers are nobody's */
	wait_for(a.nr_held == 200);
	for (int i = 0; i < 200; i++)
		fkv_rpc_reply(a.rpc, &a.held[i], 0, NULL, 0);
	a.hold = false;
	served();
	ck_assert_uint_eq(stats(&d).late, 200);
	ck_assert_int_eq(ask(&c[0], "x", 1, 0), -ETIMEDOUT);
}
END_TEST

START_TEST(calls_are_bounded_and_end_with_their_connection)
{
	static struct asked c[FKV_RPC_CALLS_MAX + 1];
	uint32_t i;

	dial();
	ck_assert_int_eq(fkv_rpc_dial(d.rpc, (struct sockaddr *)&at, &d.peer),
			 0);
	ck_assert_int_eq(ask(&c[0], "x", 1, FKV_SEC), -ENOTCONN);
	ck_assert_int_eq(fkv_rpc_send(d.peer, "x", 1, 0), -ENOTCONN);
	stop(&d);
	memset(&d, 0, sizeof(d));
	start(&d, "owner", 12);
	meet();
	a.hold = true;
	ck_assert_int_eq(ask(&c[0], big, FKV_RPC_BODY_MAX + 1, FKV_SEC),
			 -EMSGSIZE);
	for (i = 0; i < FKV_RPC_CALLS_MAX; i++)
		ck_assert_int_eq(ask(&c[i], "x", 1, 10 * FKV_SEC), 0);
	ck_assert_int_eq(ask(&c[i], "x", 1, 10 * FKV_SEC), -EAGAIN);
	wait_for(a.nr_held == FKV_RPC_CALLS_MAX);
	fkv_rpc_conn_close(a.peer->conn, "broken by a test");
	wait_for(d.downs);
	for (i = 0; i < FKV_RPC_CALLS_MAX; i++)
		ck_assert_int_eq(c[i].status, -ECONNRESET);
	/* to a connection that is gone */
	fkv_rpc_reply(a.rpc, &a.held[0], 0, NULL, 0);
}
END_TEST

START_TEST(what_waits_to_be_written_is_bounded)
{
	struct asked c[16];
	int err = 0, n;

	meet();
	for (n = 0; n < 16 && !err; n++)
		err = ask(&c[n], big, FKV_RPC_BODY_MAX, 10 * FKV_SEC);
	ck_assert_int_eq(err, -EAGAIN);
	ck_assert_uint_le(d.peer->conn->tx_bytes, FKV_RPC_TX_MAX + 100);
	for (int i = 0; i < n - 1; i++)
		wait_for(c[i].done);
	served();
	/* a session's wait in the session */
	for (n = 0; n < 2048 && !say(&d); n++)
		ck_assert_uint_lt(d.peer->conn->tx_bytes, FKV_MIB);
	ck_assert_int_eq(say(&d), -EAGAIN);
	wait_for(a.got == d.sent);
	ck_assert_int_eq(say(&d), 0);
}
END_TEST

/* ---- peers that are frozen or gone ---- */

static pid_t child;

/* A process of its own that dials us, and answers. */
static void fork_dialer(void)
{
	child = fork();
	ck_assert_int_ge(child, 0);
	if (child)
		return;
	uv_loop_fork(&loop);
	memset(&d, 0, sizeof(d));
	start(&d, "frozen", 50);
	dial();
	uv_run(&loop, UV_RUN_DEFAULT);
	_exit(0);
}

static void reap(void)
{
	kill(child, SIGKILL);
	waitpid(child, NULL, 0);
}

/* F3, A21 */
START_TEST(a_frozen_peer_is_given_up_and_comes_back_to_its_session)
{
	struct asked c;
	struct node *was = &a;

	stop(&d);
	fork_dialer();
	wait_for(a.ups == 1);
	say(&a);
	/* asked by us this time */
	d.peer = a.peer;
	kill(child, SIGSTOP);
	ck_assert_int_eq(ask(&c, "x", 1, 150 * FKV_MS), 0);
	wait_for(c.done);
	ck_assert_int_eq(c.status, -ETIMEDOUT);
	ck_assert_uint_lt(c.ended_ns, c.deadline_ns + 100 * FKV_MS);
	/* and one with all the time ends when the peer is given up */
	ck_assert_int_eq(ask(&c, "x", 1, 60 * FKV_SEC), 0);
	wait_for(a.downs == 1);
	ck_assert(c.done);
	ck_assert_int_eq(c.status, -ECONNRESET);
	ck_assert_uint_eq(stats(was).silent, 1);
	for (int i = 0; i < 100; i++)
		ck_assert_int_eq(say(&a), 0);
	kill(child, SIGCONT);
	wait_for(a.ups == 2 && a.peer->session.tx.n == 0);
	ck_assert_uint_eq(a.ends, 0);
	reap();
	/* it does not come back: its session ends */
	wait_for(a.ends == 1);
	ck_assert_int_eq(a.end_err, -ETIMEDOUT);
	ck_assert_uint_eq(stats(&a).peers, 0);
}
END_TEST

/* A listener that accepts, in the kernel, and says nothing. */
START_TEST(a_black_hole_is_dialled_again_and_suspected)
{
	struct sockaddr_in hole = { .sin_family = AF_INET };
	socklen_t n = sizeof(hole);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	hole.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	ck_assert_int_eq(bind(fd, (struct sockaddr *)&hole, n), 0);
	ck_assert_int_eq(listen(fd, 64), 0);
	getsockname(fd, (struct sockaddr *)&hole, &n);
	ck_assert_int_eq(fkv_rpc_dial(d.rpc, (struct sockaddr *)&hole,
				      &d.peer), 0);
	wait_for(fkv_rpc_peer_is_suspect(d.peer));
	ck_assert_uint_ge(stats(&d).dials, FKV_RPC_SUSPECT);
	ck_assert(!fkv_rpc_peer_is_up(d.peer));
	/* somebody serves there at last */
	close(fd);
	stop(&a);
	start(&a, "master", 3);
	listen_on(ntohs(hole.sin_port));
	wait_for(a.ups);
	wait_for(!fkv_rpc_peer_is_suspect(d.peer));
}
END_TEST

START_TEST(a_loop_that_stood_still_accuses_nobody)
{
	uint64_t until;

	meet();
	/* longer than a peer may be silent, and than a late timer is normal */
	until = fkv_clock_ns() + times.silent_ns + 600 * FKV_MS;
	while (fkv_clock_ns() < until)
		;
	served();
	ck_assert_uint_eq(stats(&d).silent + stats(&a).silent, 0);
	ck_assert_uint_eq(d.downs, 0);
}
END_TEST

/* ---- lives ---- */

/* A20, A22: a master that starts again is another life */
START_TEST(a_peer_that_restarts_ends_the_session)
{
	uint16_t port = fkv_rpc_port(a.rpc);

	meet();
	d.resume = true;
	for (unsigned int life = 4; life < 24; life++) {
		say(&d);
		stop(&a);
		memset(&a, 0, sizeof(a));
		start(&a, "master", life);
		listen_on(port);
		wait_for(a.ups);
		wait_for(d.ends == life - 3 && d.peer &&
			 fkv_rpc_peer_is_up(d.peer));
		ck_assert_int_eq(d.end_err, -ESTALE);
		served();
	}
	ck_assert_uint_eq(stats(&d).connections, 1);
}
END_TEST

START_TEST(a_parked_peer_waits_for_its_caller)
{
	uint16_t port = fkv_rpc_port(a.rpc);
	struct fkv_rpc_peer *p = dial();
	uint64_t dials;

	wait_for(d.ups);
	stop(&a);
	start(&a, "master", 4);
	listen_on(port);
	wait_for(d.ends == 1);
	dials = stats(&d).dials;
	for (int i = 0; i < 20; i++)
		spin();
	ck_assert_uint_eq(stats(&d).dials, dials);
	fkv_rpc_peer_resume(p);
	wait_for(d.ups == 2);
	ck_assert_uint_eq(fkv_rpc_peer_incarnation(p), 4);
}
END_TEST

START_TEST(a_new_life_of_our_own_begins_new_sessions)
{
	meet();
	say(&d);
	fkv_rpc_renew(d.rpc, 12);
	d.sent = 0;
	wait_for(a.ends == 1 && a.peer && fkv_rpc_peer_is_up(a.peer) &&
		 fkv_rpc_peer_is_up(d.peer));
	ck_assert_uint_eq(d.ends, 0);
	ck_assert_uint_eq(fkv_rpc_peer_incarnation(a.peer), 12);
	say(&d);
	wait_for(a.got == 1);
	ck_assert_uint_eq(stats(&a).peers, 1);
}
END_TEST

START_TEST(a_life_that_was_ended_does_not_come_back)
{
	meet();
	say(&d);
	wait_for(a.got == 1);
	fkv_rpc_peer_end(a.peer, -ETIMEDOUT);
	ck_assert_uint_eq(stats(&a).peers, 0);
	wait_for(d.ends == 1);
	ck_assert_int_eq(d.end_err, -ESTALE);
	/* the same, with another connection */
	fkv_rpc_peer_resume(TAILQ_FIRST(&d.rpc->peers));
	wait_for(d.ends == 2);
	ck_assert_uint_eq(a.ups, 1);
	ck_assert_uint_eq(stats(&a).peers, 0);
	/* a new one may */
	fkv_rpc_renew(d.rpc, 12);
	wait_for(a.ups == 2);
}
END_TEST

START_TEST(who_is_not_admitted_is_told_and_tries_again)
{
	a.admit = -EPERM;
	dial();
	wait_for(stats(&a).refused >= 2);
	ck_assert_uint_eq(a.ups + d.ups, 0);
	a.admit = 0;
	wait_for(a.ups && d.ups);
}
END_TEST

START_TEST(two_connections_of_one_life_are_one_session)
{
	struct fkv_rpc_peer *second;

	meet();
	say(&a);
	wait_for(d.got == 1);
	/* what a half-open connection looks like: the old one is not closed */
	second = dial();
	wait_for(a.downs == 1 && a.ends == 1);
	(void)second;
}
END_TEST

START_TEST(closing_ends_calls)
{
	struct asked c;

	meet();
	a.hold = true;
	ck_assert_int_eq(ask(&c, "x", 1, 10 * FKV_SEC), 0);
	fkv_rpc_close_all(d.rpc);
	ck_assert(c.done);
	ck_assert_int_eq(c.status, -ECANCELED);
	ck_assert_int_eq(ask(&c, "x", 1, 10 * FKV_SEC), -ENOTCONN);
}
END_TEST

/* ---- strangers: a plain socket against the acceptor ---- */

static struct fkv_auth auth;
static struct fkv_auth_self raw_self;
static uint8_t raw_buf[FKV_FRAME_MAX + 64];

static int raw_connect(void)
{
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	ck_assert_int_eq(connect(fd, (struct sockaddr *)&at,
				 sizeof(struct sockaddr_in)), 0);
	fcntl(fd, F_SETFL, O_NONBLOCK);
	return fd;
}

static bool raw_write(int fd, const void *data, size_t n)
{
	const uint8_t *p = data;

	while (n) {
		ssize_t k = send(fd, p, n, MSG_NOSIGNAL);

		if (k > 0) {
			p += k;
			n -= (size_t)k;
		} else if (errno != EAGAIN) {
			return false;
		}
		spin();
	}
	return true;
}

static bool raw_frame(int fd, const void *data, size_t n)
{
	uint8_t head[4];

	fkv_put32(head, (uint32_t)n);
	return raw_write(fd, head, 4) && raw_write(fd, data, n);
}

/* Bytes that have come; -1: closed, with nothing before. */
static ssize_t raw_read(int fd, void *to, size_t n)
{
	ssize_t k = -2;

	wait_for((k = recv(fd, to, n, 0)) >= 0 || errno != EAGAIN);
	return k > 0 ? k : -1;
}

static void raw_closed(int fd)
{
	while (raw_read(fd, raw_buf, sizeof(raw_buf)) > 0)
		;
	close(fd);
}

static size_t raw_frame_in(int fd)
{
	size_t have = 0, want = 4;

	while (have < want) {
		ssize_t k = raw_read(fd, raw_buf + have, want - have);

		ck_assert_int_gt(k, 0);
		have += (size_t)k;
		if (have == 4)
			want = 4 + fkv_get32(raw_buf);
	}
	return want - 4;
}

static struct fkv_auth_out hello, proof;

/* A stranger with the key: the handshake by hand. */
static int raw_open(void)
{
	uint8_t random[FKV_AUTH_RANDOM];
	struct fkv_auth_out in;
	const char *why;
	int fd = raw_connect();

	memset(random, 7, sizeof(random));
	raw_self = (struct fkv_auth_self){ key, "test", "raw", 99 };
	ck_assert_int_eq(fkv_auth_init(&auth, &raw_self, true, random, &hello),
			 0);
	ck_assert(raw_frame(fd, hello.data, hello.len));
	in.len = raw_frame_in(fd);
	ck_assert_int_eq(fkv_auth_input(&auth, raw_buf + 4, in.len, &proof,
					&why), 0);
	ck_assert(raw_frame(fd, proof.data, proof.len));
	return fd;
}

static bool raw_sealed(int fd, const void *data, size_t n)
{
	uint8_t *f = malloc(n + FKV_AUTH_SEAL);
	bool ok;

	memcpy(f, data, n);
	fkv_auth_seal(&auth, f, n);
	ok = raw_frame(fd, f, n + FKV_AUTH_SEAL);
	free(f);
	return ok;
}

static void raw_session_hello(int fd)
{
	uint8_t f[33] = { FKV_RPC_SESSION, 1, 1 };

	fkv_put64(f + 1 + 8, 99);
	fkv_put64(f + 1 + 16, 3);
	ck_assert(raw_sealed(fd, f, sizeof(f)));
}

/* A23: each costs only itself */
START_TEST(garbage_is_closed_and_answered_with_nothing)
{
	static const char *const texts[] = {
		"GET / HTTP/1.1\r\nHost: x\r\n\r\n", "\x01\x00\x00\x00z",
		"\x00\x00\x00\x00", "\xff\xff\xff\xff", "SSH-2.0-x\r\n",
		"\x20\x00\x00\x00" "\x01" "FKV.............................",
	};
	static const size_t lens[] = { 27, 5, 4, 4, 11, 36 };
	uint32_t seed = 1;

	meet();
	for (size_t i = 0; i < FKV_ARRAY_SIZE(texts); i++) {
		int fd = raw_connect();

		raw_write(fd, texts[i], lens[i]);
		ck_assert_int_eq(raw_read(fd, raw_buf, 1), -1);
		close(fd);
	}
	for (int i = 0; i < 300; i++) {
		uint8_t junk[700];
		int fd = raw_connect();

		for (size_t j = 0; j < sizeof(junk); j++)
			junk[j] = (uint8_t)((seed = seed * 1103515245 + 12345) >>
					    16);
		/* half of them of a length that a handshake may have */
		if (i % 2)
			fkv_put32(junk, 600);
		raw_write(fd, junk, sizeof(junk));
		ck_assert_int_eq(raw_read(fd, raw_buf, 1), -1);
		close(fd);
	}
	served();
	ck_assert_uint_eq(d.downs, 0);
	wait_for(stats(&a).connections == 1);
	ck_assert_uint_ge(stats(&a).refused, 300);
}
END_TEST

START_TEST(slow_strangers_do_not_keep_others_out)
{
	int fds[3 * FKV_RPC_STRANGERS_MAX];

	for (size_t i = 0; i < FKV_ARRAY_SIZE(fds); i++) {
		fds[i] = raw_connect();
		raw_write(fds[i], "\x40", 1);
	}
	wait_for(stats(&a).accepted == FKV_ARRAY_SIZE(fds));
	ck_assert_uint_le(stats(&a).strangers, FKV_RPC_STRANGERS_MAX);
	meet();
	served();
	/* and those that remain have their time, and no more */
	wait_for(!stats(&a).strangers);
	for (size_t i = 0; i < FKV_ARRAY_SIZE(fds); i++)
		raw_closed(fds[i]);
	served();
	ck_assert_uint_eq(d.downs, 0);
}
END_TEST

/* One byte at a time keeps a connection busy, and does not keep it. */
START_TEST(a_handshake_that_trickles_in_is_closed_in_time)
{
	uint64_t began = fkv_clock_ns();
	int fd = raw_connect();
	struct pollfd p = { .fd = fd, .events = POLLIN };
	uint8_t bytes[8] = { 200 };
	size_t n = 0;

	while (poll(&p, 1, 0) == 0) {
		ck_assert_uint_lt(fkv_clock_ns() - began, GUARD_NS);
		send(fd, bytes + n, n < sizeof(bytes) ? 1 : 0, MSG_NOSIGNAL);
		n++;
		spin();
	}
	ck_assert_uint_ge(fkv_clock_ns() - began, times.handshake_ns);
	ck_assert_uint_lt(fkv_clock_ns() - began, times.handshake_ns +
			  500 * FKV_MS);
	raw_closed(fd);
}
END_TEST

START_TEST(a_wrong_key_is_met_with_silence)
{
	struct fkv_rpc_config cfg = config(&d, "owner", 11);
	uint8_t other[FKV_AUTH_KEY] = { 1 };

	stop(&d);
	cfg.self.key = other;
	ck_assert_int_eq(fkv_rpc_create(&loop, &cfg, &d.rpc), 0);
	dial();
	wait_for(stats(&a).refused >= 3);
	ck_assert_uint_eq(a.ups + d.ups, 0);
	/* nor is a node that listens with none talked to by one with a key */
	stop(&d);
	cfg.self.key = NULL;
	ck_assert_int_eq(fkv_rpc_create(&loop, &cfg, &d.rpc), 0);
	dial();
	wait_for(stats(&a).refused >= 6);
	ck_assert_uint_eq(a.ups + d.ups, 0);
}
END_TEST

START_TEST(a_recorded_handshake_is_refused)
{
	int fd = raw_open();

	wait_for(stats(&a).peers == 1);
	close(fd);
	fd = raw_connect();
	ck_assert(raw_frame(fd, hello.data, hello.len));
	ck_assert_uint_gt(raw_frame_in(fd), 0);
	ck_assert(raw_frame(fd, proof.data, proof.len));
	ck_assert_int_eq(raw_read(fd, raw_buf, 1), -1);
	close(fd);
	ck_assert_uint_eq(a.ups, 0);
}
END_TEST

START_TEST(one_with_the_key_that_breaks_the_protocol_costs_itself)
{
	static const struct {
		uint8_t bytes[20];
		size_t len;
	} bad[] = {
		{ { 9 }, 1 }, { { 0 }, 1 },
		/* a request before the session, or too short */
		{ { FKV_RPC_REQUEST }, 1 },
		{ { FKV_RPC_REPLY }, 1 },
		{ { FKV_RPC_REPLY, 0, 0, 0, 5 }, 16 },
		{ { FKV_RPC_SESSION, 2 }, 2 },
		{ { FKV_RPC_SESSION }, 1 },
		{ { FKV_RPC_REFUSED }, 8 },
	};
	uint8_t length[4] = { 0xff, 0xff, 0x10, 0 };
	int fd;

	meet();
	for (size_t i = 0; i < FKV_ARRAY_SIZE(bad); i++) {
		fd = raw_open();
		raw_sealed(fd, bad[i].bytes, bad[i].len);
		raw_closed(fd);
	}
	/* over 1 MiB, a seal that does not fit, nothing in it */
	fd = raw_open();
	raw_write(fd, length, 4);
	raw_closed(fd);
	fd = raw_open();
	raw_frame(fd, "nothing that was ever sealed", 28);
	raw_closed(fd);
	fd = raw_open();
	raw_sealed(fd, NULL, 0);
	raw_closed(fd);
	served();
	ck_assert_uint_eq(d.downs, 0);
}
END_TEST

/* It asks for megabytes and does not read them. */
START_TEST(one_that_does_not_read_is_not_read_from_and_given_up)
{
	uint8_t request[24] = { FKV_RPC_REQUEST };
	struct fkv_rpc_conn *c;
	int fd = raw_open();
	uint64_t most = 0;

	a.reply_len = 512 * 1024;
	fkv_put64(request + 16, FKV_NEVER);
	raw_session_hello(fd);
	wait_for(a.ups == 1);
	c = a.peer->conn;
	for (int i = 0; i < 100 && a.downs == 0; i++) {
		fkv_put64(request + 8, (uint64_t)i);
		raw_sealed(fd, request, sizeof(request));
		if (a.downs == 0)
			most = fkv_max_u64(most, c->tx_bytes);
	}
	ck_assert_uint_gt(most, FKV_RPC_TX_MAX / 2);
	ck_assert_uint_le(most, FKV_RPC_TX_MAX);
	ck_assert_uint_lt(a.requests, 100);
	wait_for(a.downs == 1);
	close(fd);
	a.reply_len = 0;
	a.ups = 0;
	meet();
	served();
}
END_TEST

/* ---- addresses, key, backoff ---- */

START_TEST(without_a_key_only_loopback_is_met)
{
	static const struct {
		const char *text;
		int err;
	} cases[] = {
		{ "127.0.0.1:0", 0 }, { "127.9.9.9:0", 0 }, { "[::1]:0", 0 },
		{ "0.0.0.0:0", -EACCES }, { "10.0.0.1:7", -EACCES },
		{ "[::]:0", -EACCES }, { "[fe80::1]:7", -EACCES },
		{ "[::ffff:10.0.0.1]:7", -EACCES },
	};
	struct fkv_rpc_config cfg = config(&d, "open", 1);
	struct sockaddr_storage ss;
	struct fkv_rpc_peer *p;

	cfg.self.key = NULL;
	for (size_t i = 0; i < FKV_ARRAY_SIZE(cases); i++) {
		int err;

		stop(&d);
		ck_assert_int_eq(fkv_rpc_create(&loop, &cfg, &d.rpc), 0);
		ck_assert_int_eq(fkv_rpc_address(cases[i].text, &ss), 0);
		err = fkv_rpc_listen(d.rpc, (struct sockaddr *)&ss);
		/* there may be no IPv6 here */
		if (err != -EADDRNOTAVAIL && err != -EAFNOSUPPORT)
			ck_assert_int_eq(err, cases[i].err);
		ck_assert_int_eq(fkv_rpc_dial(d.rpc, (struct sockaddr *)&ss,
					      &p), cases[i].err);
	}
}
END_TEST

START_TEST(addresses_are_numbers_and_a_port)
{
	static const char *const bad[] = {
		"", ":", "1.2.3.4", "1.2.3.4:", "1.2.3.4:x", "1.2.3.4:65536",
		"1.2.3.4:-1", "1.2.3:1", "host:1", "::1:1", "[::1]", "[::1:1",
		"[::1]:", "[]:1", "1.2.3.4:1x", ":1",
	};
	struct sockaddr_storage ss;

	for (size_t i = 0; i < FKV_ARRAY_SIZE(bad); i++)
		ck_assert_msg(fkv_rpc_address(bad[i], &ss) == -EINVAL, "%s",
			      bad[i]);
	ck_assert_int_eq(fkv_rpc_address("1.2.3.4:65535", &ss), 0);
	ck_assert_int_eq(ntohs(((struct sockaddr_in *)&ss)->sin_port), 65535);
	ck_assert_int_eq(fkv_rpc_address("[fd00::1]:1", &ss), 0);
	ck_assert_int_eq(ss.ss_family, AF_INET6);
}
END_TEST

START_TEST(backoff_doubles_to_its_limit_and_half_of_it_is_chance)
{
	const struct fkv_rpc_times t = {
		.backoff_min_ns = 50 * FKV_MS, .backoff_max_ns = FKV_SEC,
	};
	uint64_t want = 50 * FKV_MS;

	for (uint32_t tries = 0; tries < 100; tries++) {
		ck_assert_uint_eq(fkv_rpc_backoff_ns(&t, tries, 0), want / 2);
		ck_assert_uint_eq(fkv_rpc_backoff_ns(&t, tries, UINT32_MAX),
				  want);
		want = fkv_min_u64(want * 2, FKV_SEC);
	}
	ck_assert_uint_lt(fkv_rpc_backoff_ns(&t, 9, 1u << 31), FKV_SEC);
}
END_TEST

static void key_file(const char *path, const char *text, mode_t mode)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

	ck_assert_int_ge(fd, 0);
	ck_assert_int_eq(write(fd, text, strlen(text)), strlen(text));
	close(fd);
	ck_assert_int_eq(chmod(path, mode), 0);
}

START_TEST(a_key_that_others_may_read_is_refused)
{
	static const char hex[] = "00112233445566778899aabbccddeeff"
				  "00112233445566778899aabbccddeeff\n";
	char path[] = "/tmp/fkv-key-XXXXXX", err[200];
	uint8_t got[FKV_AUTH_KEY];

	close(mkstemp(path));
	key_file(path, hex, 0600);
	ck_assert_int_eq(fkv_rpc_key_read(path, got, err, sizeof(err)), 0);
	ck_assert_uint_eq(got[1], 0x11);
	key_file(path, hex, 0400);
	ck_assert_int_eq(fkv_rpc_key_read(path, got, err, sizeof(err)), 0);
	for (mode_t bit = 0100; bit; bit >>= 1) {
		key_file(path, hex, 0600);
		chmod(path, 0600 | bit);
		ck_assert_int_eq(fkv_rpc_key_read(path, got, err, sizeof(err)),
				 -EPERM);
		ck_assert_ptr_nonnull(strstr(err, "0600"));
		chmod(path, 0600);
	}
	key_file(path, "short\n", 0600);
	ck_assert_int_eq(fkv_rpc_key_read(path, got, err, sizeof(err)),
			 -EINVAL);
	ck_assert_ptr_nonnull(strstr(err, "hexadecimal"));
	key_file(path, "", 0600);
	ck_assert_int_eq(fkv_rpc_key_read(path, got, err, sizeof(err)),
			 -EINVAL);
	unlink(path);
	ck_assert_int_eq(fkv_rpc_key_read(path, got, err, sizeof(err)),
			 -ENOENT);
	ck_assert_ptr_nonnull(strstr(err, path));
	ck_assert_int_eq(mkfifo(path, 0600), 0);
	ck_assert_int_eq(fkv_rpc_key_read(path, got, err, sizeof(err)),
			 -EINVAL);
	unlink(path);
}
END_TEST

START_TEST(a_node_needs_a_name_a_cluster_and_a_life)
{
	struct fkv_rpc_config cfg = config(&d, "x", 1);
	struct fkv_rpc *r;

	cfg.self.name = "";
	ck_assert_int_eq(fkv_rpc_create(&loop, &cfg, &r), -EINVAL);
	cfg = config(&d, "x", 0);
	ck_assert_int_eq(fkv_rpc_create(&loop, &cfg, &r), -EINVAL);
	cfg = config(&d, "x", 1);
	cfg.self.cluster = NULL;
	ck_assert_int_eq(fkv_rpc_create(&loop, &cfg, &r), -EINVAL);
}
END_TEST

static void add_tests(TCase *tc)
{
	tcase_add_test(tc, messages_and_requests_go_both_ways);
	tcase_add_test(tc, a_session_goes_on_over_connections_that_break);
	tcase_add_test(tc, a_call_ends_at_its_deadline);
	tcase_add_test(tc, calls_are_bounded_and_end_with_their_connection);
	tcase_add_test(tc, what_waits_to_be_written_is_bounded);
	tcase_add_test(tc,
		a_frozen_peer_is_given_up_and_comes_back_to_its_session);
	tcase_add_test(tc, a_black_hole_is_dialled_again_and_suspected);
	tcase_add_test(tc, a_loop_that_stood_still_accuses_nobody);
	tcase_add_test(tc, a_peer_that_restarts_ends_the_session);
	tcase_add_test(tc, a_parked_peer_waits_for_its_caller);
	tcase_add_test(tc, a_new_life_of_our_own_begins_new_sessions);
	tcase_add_test(tc, a_life_that_was_ended_does_not_come_back);
	tcase_add_test(tc, who_is_not_admitted_is_told_and_tries_again);
	tcase_add_test(tc, two_connections_of_one_life_are_one_session);
	tcase_add_test(tc, closing_ends_calls);
	tcase_add_test(tc, garbage_is_closed_and_answered_with_nothing);
	tcase_add_test(tc, slow_strangers_do_not_keep_others_out);
	tcase_add_test(tc, a_handshake_that_trickles_in_is_closed_in_time);
	tcase_add_test(tc, a_wrong_key_is_met_with_silence);
	tcase_add_test(tc, a_recorded_handshake_is_refused);
	tcase_add_test(tc,
		one_with_the_key_that_breaks_the_protocol_costs_itself);
	tcase_add_test(tc,
		one_that_does_not_read_is_not_read_from_and_given_up);
	tcase_add_test(tc, without_a_key_only_loopback_is_met);
	tcase_add_test(tc, addresses_are_numbers_and_a_port);
	tcase_add_test(tc,
		backoff_doubles_to_its_limit_and_half_of_it_is_chance);
	tcase_add_test(tc, a_key_that_others_may_read_is_refused);
	tcase_add_test(tc, a_node_needs_a_name_a_cluster_and_a_life);
}

int main(void)
{
	Suite *s = suite_create("rpc");
	TCase *tc = tcase_create("rpc");
	SRunner *sr = srunner_create(s);
	int failed;

	tcase_add_checked_fixture(tc, setup, teardown);
	tcase_set_timeout(tc, 120);
	add_tests(tc);
	suite_add_tcase(s, tc);
	srunner_run_all(sr, CK_NORMAL);
	failed = srunner_ntests_failed(sr);
	srunner_free(sr);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
