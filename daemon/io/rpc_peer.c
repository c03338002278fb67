// SPDX-License-Identifier: Apache-2.0
/*
 * rpc_peer.c - a peer, its session, and the connection it has at the moment
 */
#include <errno.h>
#include <sodium.h>

#include "base/log.h"
#include "io/rpc_internal.h"
#include "wire/bytes.h"

/* What of a session is on its way at once: the rest waits in order there. */
#define FLUSH_UNTIL	(256u * 1024)

static const struct fkv_rpc_ops *ops(const struct fkv_rpc_peer *p)
{
	return p->r->cfg.ops;
}

struct fkv_rpc_peer *fkv_rpc_peer_create(struct fkv_rpc *r, bool dialled)
{
	struct fkv_rpc_peer *p = fkv_zalloc(sizeof(*p));

	if (!p)
		return NULL;
	p->r = r;
	p->dialled = dialled;
	p->timer.kind = FKV_RPC_T_PEER;
	TAILQ_INSERT_TAIL(&r->peers, p, link);
	r->stats.peers++;
	return p;
}

static void session_over(struct fkv_rpc_peer *p)
{
	if (p->has_session)
		fkv_session_done(&p->session);
	/* what it has met is still asked for */
	p->has_session = false;
	p->up = false;
}

void fkv_rpc_peer_free(struct fkv_rpc_peer *p)
{
	struct fkv_rpc *r = p->r;

	if (!p->dead) {
		TAILQ_REMOVE(&r->peers, p, link);
		r->stats.peers--;
	}
	p->dead = true;
	fkv_timer_clear(&r->timers, &p->timer);
	session_over(p);
	if (!p->busy)
		fkv_free(p);
}

void fkv_rpc_peer_busy(struct fkv_rpc_peer *p)
{
	p->busy++;
}

void fkv_rpc_peer_idle(struct fkv_rpc_peer *p)
{
	if (!--p->busy && p->dead)
		fkv_free(p);
}

/* ---- the session ---- */

void fkv_rpc_peer_flush(struct fkv_rpc_peer *p)
{
	static const uint8_t kind = FKV_RPC_SESSION;
	struct fkv_rpc_conn *c = p->conn;

	if (!c || !p->has_session || c->auth.state != FKV_AUTH_OPEN)
		return;
	while (!c->closing && !c->doomed && c->tx_bytes < FLUSH_UNTIL) {
		size_t n = fkv_session_output(&p->session, p->r->frame);

		if (!n)
			return;
		/* what is lost here the next connection sends again */
		if (fkv_rpc_conn_send(c, &kind, 1, p->r->frame, n))
			fkv_rpc_conn_doom(c, "out of memory");
	}
}

/* Leave the connection of @p to end by itself, its last words written. */
static void let_go(struct fkv_rpc_peer *p)
{
	struct fkv_rpc_conn *c = p->conn;

	if (!c)
		return;
	p->conn = NULL;
	c->peer = NULL;
	fkv_rpc_conn_finish(c);
	fkv_rpc_calls_end(c, -ECONNRESET);
}

/* This pair of lives is over, or, if they never met, may begin once more. */
static void park(struct fkv_rpc_peer *p)
{
	p->parked = p->dialled;
	if (!p->dialled && p->session.met)
		fkv_rpc_life_end(p->r, p);
}

/* The session has ended, and not because we wanted it. */
static void ended(struct fkv_rpc_peer *p, int err)
{
	fkv_rpc_peer_busy(p);
	fkv_rpc_peer_flush(p);
	session_over(p);
	park(p);
	let_go(p);
	if (!p->dead)
		ops(p)->ended(p->r->cfg.arg, p, err);
	if (!p->dead && !p->dialled)
		fkv_rpc_peer_free(p);
	fkv_rpc_peer_idle(p);
}

static void deliver(struct fkv_rpc_peer *p)
{
	struct fkv_session_msg *m;

	while (!p->dead && p->has_session &&
	       (m = fkv_session_take(&p->session))) {
		ops(p)->message(p->r->cfg.arg, p, m->data, m->len);
		fkv_free(m);
	}
}

static void session_in(struct fkv_rpc_peer *p)
{
	/* our own hello goes before anything that up() may send */
	fkv_rpc_peer_flush(p);
	if (!p->up && p->session.state == FKV_SESSION_UP) {
		p->up = true;
		p->failures = 0;
		ops(p)->up(p->r->cfg.arg, p);
	}
	deliver(p);
	if (!p->dead)
		fkv_rpc_peer_flush(p);
}

void fkv_rpc_peer_session(struct fkv_rpc_conn *c, const uint8_t *data,
			  size_t len)
{
	struct fkv_rpc_peer *p = c->peer;
	const char *why = NULL;
	int err = fkv_session_input(&p->session, data, len, &why);

	if (err == -EPROTO) {
		c->r->stats.broken++;
		fkv_rpc_conn_close(c, why);
		return;
	}
	if (err) {
		ended(p, err);
		return;
	}
	fkv_rpc_peer_busy(p);
	session_in(p);
	fkv_rpc_peer_idle(p);
}

int fkv_rpc_send(struct fkv_rpc_peer *p, const void *data, size_t len,
		 enum fkv_session_class class)
{
	int err;

	if (!p->has_session)
		return -ENOTCONN;
	err = fkv_session_send(&p->session, data, len, class);
	if (!err)
		fkv_rpc_peer_flush(p);
	fkv_rpc_arm(p->r);
	return err;
}

/* ---- connections ---- */

static void dial(struct fkv_rpc_peer *p);

static void dial_later(struct fkv_rpc_peer *p)
{
	uint64_t ns = fkv_rpc_backoff_ns(&p->r->times, p->tries++,
					 randombytes_random());

	fkv_timer_set(&p->r->timers, &p->timer, fkv_clock_ns() + ns);
}

static void connected(uv_connect_t *req, int status)
{
	struct fkv_rpc_conn *c = fkv_container_of(req, struct fkv_rpc_conn,
						  connect);

	if (c->closing)
		return;
	if (!status)
		status = fkv_rpc_conn_begin(c, true);
	if (status)
		fkv_rpc_conn_close(c, uv_strerror(status));
	fkv_rpc_arm(c->r);
}

static void dial(struct fkv_rpc_peer *p)
{
	struct fkv_rpc *r = p->r;
	struct fkv_rpc_conn *c = fkv_rpc_conn_create(r);

	r->stats.dials++;
	if (!c) {
		dial_later(p);
		return;
	}
	c->peer = p;
	p->conn = c;
	fkv_timer_set(&r->timers, &c->timer,
		      fkv_clock_ns() + r->times.connect_ns);
	if (uv_tcp_connect(&c->connect, &c->tcp,
			   (const struct sockaddr *)&p->to, connected))
		fkv_rpc_conn_doom(c, "cannot connect");
}

/* Its time has come: to be dialled, or nobody has come back. */
void fkv_rpc_peer_timer(struct fkv_rpc_peer *p)
{
	if (!p->dialled)
		ended(p, -ETIMEDOUT);
	else if (!p->conn && !p->parked)
		dial(p);
}

void fkv_rpc_peer_resume(struct fkv_rpc_peer *p)
{
	if (!p->dialled || p->dead || !p->parked)
		return;
	p->parked = false;
	p->tries = 0;
	if (!p->conn)
		fkv_timer_set(&p->r->timers, &p->timer, fkv_clock_ns());
	fkv_rpc_arm(p->r);
}

/* Said once in a while; a peer that is away is told of by its absence. */
static void say_unreachable(const struct fkv_rpc_peer *p, const char *why)
{
	static struct fkv_log_limit limit;
	char ip[INET6_ADDRSTRLEN] = "?";

	if (!fkv_log_allowed(&limit, 10 * FKV_SEC))
		return;
	uv_ip_name((const struct sockaddr *)&p->to, ip, sizeof(ip));
	fkv_log(FKV_LOG_WARN, "cluster peer not reached: %s (address=%s "
		"tries=%u)", why, ip, p->tries);
}

/* The connection of @c is no more. */
void fkv_rpc_peer_lost(struct fkv_rpc_conn *c, const char *why)
{
	struct fkv_rpc_peer *p = c->peer;
	uint64_t now = fkv_clock_ns();
	bool was_up = p->up;

	c->peer = NULL;
	p->conn = NULL;
	p->up = false;
	if (p->has_session)
		fkv_session_disconnected(&p->session);
	if (c->r->closing || p->dead)
		return;
	p->failures++;
	if (c->up_ns && now - c->up_ns >= c->r->times.backoff_max_ns)
		p->tries = 0;
	if (p->dialled && !c->up_ns)
		say_unreachable(p, why);
	if (p->dialled && !p->parked)
		dial_later(p);
	else if (!p->dialled)
		fkv_timer_set(&c->r->timers, &p->timer,
			      now + c->r->times.linger_ns);
	if (was_up)
		ops(p)->down(c->r->cfg.arg, p, why);
}

/* @c is the connection of @p from now on. */
static void attach(struct fkv_rpc_peer *p, struct fkv_rpc_conn *c)
{
	uint64_t own = p->r->cfg.self.incarnation;
	struct fkv_session_id id = {
		.incarnation = p->dialled ? own : c->auth.peer_incarnation,
		.epoch = p->dialled ? c->auth.peer_incarnation : own,
	};

	memcpy(p->name, c->auth.peer_name, sizeof(p->name));
	p->incarnation = c->auth.peer_incarnation;
	p->conn = c;
	c->peer = p;
	fkv_timer_clear(&p->r->timers, &p->timer);
	if (!p->has_session)
		fkv_session_init(&p->session, p->dialled, id);
	p->has_session = true;
	fkv_session_connected(&p->session);
	fkv_rpc_peer_flush(p);
}

static void opened_dialled(struct fkv_rpc_conn *c)
{
	struct fkv_rpc_peer *p = c->peer;

	/* another life there: what was between us and the last one is void */
	if (p->has_session && p->incarnation != c->auth.peer_incarnation)
		ended(p, -ESTALE);
	else
		attach(p, c);
}

static struct fkv_rpc_peer *find(struct fkv_rpc *r, const char *name)
{
	struct fkv_rpc_peer *p;

	TAILQ_FOREACH(p, &r->peers, link)
		if (!p->dialled && !strcmp(p->name, name))
			return p;
	return NULL;
}

/* May this life take part? 0 or -errno. */
static int admit(struct fkv_rpc *r, const struct fkv_auth *a)
{
	if (fkv_rpc_life_ended(r, a->peer_name, a->peer_incarnation))
		return -ESTALE;
	return r->cfg.ops->accept(r->cfg.arg, a->peer_name,
				  a->peer_incarnation);
}

static void refuse(struct fkv_rpc_conn *c, int err)
{
	uint8_t frame[8] = { FKV_RPC_REFUSED };

	c->r->stats.refused++;
	fkv_put32(frame + 4, (uint32_t)-err);
	fkv_rpc_conn_send(c, frame, sizeof(frame), NULL, 0);
	fkv_rpc_conn_finish(c);
}

/* A new connection of one that is known: the old one is dead or will be. */
static void replace(struct fkv_rpc_peer *p)
{
	struct fkv_rpc_conn *old = p->conn;

	if (old)
		fkv_rpc_conn_close(old, "the peer has come back");
}

static void opened_accepted(struct fkv_rpc_conn *c)
{
	struct fkv_rpc *r = c->r;
	struct fkv_rpc_peer *p = find(r, c->auth.peer_name);
	int err = admit(r, &c->auth);

	if (!err && p && p->incarnation != c->auth.peer_incarnation) {
		ended(p, -ESTALE);
		p = NULL;
	}
	if (!err && !p) {
		if (r->stats.peers < FKV_RPC_PEERS_MAX)
			p = fkv_rpc_peer_create(r, false);
		err = p ? 0 : -EUSERS;
	}
	if (err) {
		refuse(c, err);
		return;
	}
	fkv_rpc_peer_busy(p);
	replace(p);
	if (p->dead)
		refuse(c, -ESTALE);
	else
		attach(p, c);
	fkv_rpc_peer_idle(p);
}

void fkv_rpc_peer_opened(struct fkv_rpc_conn *c)
{
	if (c->peer)
		opened_dialled(c);
	else
		opened_accepted(c);
}

void fkv_rpc_peer_refused(struct fkv_rpc_conn *c, int err)
{
	struct fkv_rpc_peer *p = c->peer;

	if (!p->dialled)
		fkv_rpc_conn_close(c, "a refusal that is none");
	else if (err == -ESTALE)
		ended(p, err);
	else
		fkv_rpc_conn_close(c, "refused by the peer");
}

void fkv_rpc_peer_end(struct fkv_rpc_peer *p, int reason)
{
	if (p->dead)
		return;
	if (p->has_session) {
		fkv_session_end(&p->session, reason);
		fkv_rpc_peer_flush(p);
	}
	session_over(p);
	fkv_rpc_peer_busy(p);
	park(p);
	let_go(p);
	fkv_rpc_arm(p->r);
	if (!p->dead && !p->dialled)
		fkv_rpc_peer_free(p);
	fkv_rpc_peer_idle(p);
}

/* ---- questions ---- */

bool fkv_rpc_peer_is_up(const struct fkv_rpc_peer *p)
{
	return p->up;
}

bool fkv_rpc_peer_has_room(const struct fkv_rpc_peer *p)
{
	return p->has_session && p->session.tx.n < FKV_SESSION_MSGS &&
	       p->session.tx.bytes < FKV_SESSION_BYTES;
}

bool fkv_rpc_peer_is_suspect(const struct fkv_rpc_peer *p)
{
	return p->failures >= FKV_RPC_SUSPECT;
}

bool fkv_rpc_peer_is_dialled(const struct fkv_rpc_peer *p)
{
	return p->dialled;
}

const char *fkv_rpc_peer_name(const struct fkv_rpc_peer *p)
{
	return p->name;
}

uint64_t fkv_rpc_peer_incarnation(const struct fkv_rpc_peer *p)
{
	return p->incarnation;
}

void **fkv_rpc_peer_data(struct fkv_rpc_peer *p)
{
	return &p->data;
}
