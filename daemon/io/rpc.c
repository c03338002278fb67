// SPDX-License-Identifier: Apache-2.0
/*
 * rpc.c - a node: its listener, timer and lives
 */
#include <arpa/inet.h>
#include <errno.h>
#include <signal.h>
#include <sodium.h>
#include <stdlib.h>

#include "base/hash.h"
#include "io/rpc_internal.h"

/* Woken so much too late, this process did not run: peers were not silent. */
#define STALL_NS	(500 * FKV_MS)

static void strangers_shed(struct fkv_rpc *r)
{
	struct fkv_rpc_conn *c = TAILQ_FIRST(&r->strangers);

	if (r->stats.strangers >= FKV_RPC_STRANGERS_MAX)
		fkv_rpc_conn_close(c, "too many in their handshake");
}

static void on_connection(uv_stream_t *s, int status)
{
	struct fkv_rpc *r = s->data;
	struct fkv_rpc_conn *c;

	if (status || r->closing)
		return;
	c = fkv_rpc_conn_create(r);
	if (!c)
		return;
	if (uv_accept(s, (uv_stream_t *)&c->tcp) ||
	    r->stats.connections > FKV_RPC_CONNS_MAX) {
		r->stats.refused++;
		fkv_rpc_conn_close(c, "not accepted");
		return;
	}
	/* the oldest has had the most time */
	strangers_shed(r);
	r->stats.accepted++;
	r->stats.strangers++;
	c->stranger = true;
	TAILQ_INSERT_TAIL(&r->strangers, c, link);
	if (fkv_rpc_conn_begin(c, false))
		fkv_rpc_conn_close(c, "cannot be read from");
	fkv_rpc_arm(r);
}

/* ---- time ---- */

static void conns_are_heard(struct fkv_rpc *r, uint64_t now_ns)
{
	struct fkv_node *n = NULL;
	uint64_t pos = 0;

	while ((n = fkv_table_walk(&r->conns, &pos, n)))
		fkv_container_of(n, struct fkv_rpc_conn, node)->heard_ns =
			now_ns;
}

static void timer_due(struct fkv_rpc *r, struct fkv_timer *t, uint64_t now_ns)
{
	(void)r;
	switch ((enum fkv_rpc_timer)t->kind) {
	case FKV_RPC_T_CONN:
		fkv_rpc_conn_timer(fkv_container_of(t, struct fkv_rpc_conn,
						    timer), now_ns);
		break;
	case FKV_RPC_T_PEER:
		fkv_rpc_peer_timer(fkv_container_of(t, struct fkv_rpc_peer,
						    timer));
		break;
	case FKV_RPC_T_CALL:
		fkv_rpc_call_timer(fkv_container_of(t, struct fkv_rpc_call,
						    timer));
		break;
	}
}

static void on_timer(uv_timer_t *h)
{
	struct fkv_rpc *r = h->data;
	uint64_t now = fkv_clock_ns();
	struct fkv_timer *t;

	if (now > r->due_ns && now - r->due_ns > STALL_NS)
		conns_are_heard(r, now);
	/* it runs no more, even if it was early and nothing is due */
	r->due_ns = 0;
	while ((t = fkv_timers_due(&r->timers, now)))
		timer_due(r, t, now);
	fkv_rpc_arm(r);
}

void fkv_rpc_arm(struct fkv_rpc *r)
{
	uint64_t next = fkv_timers_next(&r->timers);
	uint64_t now, ms;

	if (r->closing || next == r->due_ns)
		return;
	r->due_ns = next;
	if (next == FKV_NEVER) {
		uv_timer_stop(&r->timer);
		return;
	}
	now = fkv_clock_ns();
	/* the loop's idea of now may be old by what was done since it woke */
	uv_update_time(r->loop);
	ms = next > now ? (next - now + FKV_MS - 1) / FKV_MS : 0;
	uv_timer_start(&r->timer, on_timer, ms, 0);
}

uint64_t fkv_rpc_backoff_ns(const struct fkv_rpc_times *t, uint32_t tries,
			    uint32_t random)
{
	uint64_t ns = t->backoff_min_ns;

	while (tries-- && ns < t->backoff_max_ns)
		ns *= 2;
	ns = fkv_min_u64(ns, t->backoff_max_ns);
	/* half of it by chance, or all come back at once */
	return ns / 2 + (ns - ns / 2) * random / UINT32_MAX;
}

/* ---- lives that are over ---- */

static struct fkv_rpc_life life_of(const char *name, uint64_t incarnation)
{
	return (struct fkv_rpc_life){
		.name_hash = fkv_hash_bytes(name, strlen(name)),
		.incarnation = incarnation,
	};
}

bool fkv_rpc_life_ended(const struct fkv_rpc *r, const char *name,
			uint64_t incarnation)
{
	struct fkv_rpc_life life = life_of(name, incarnation);

	for (uint32_t i = 0; i < FKV_RPC_ENDED_MAX && i < r->nr_over; i++)
		if (r->over[i].incarnation == life.incarnation &&
		    r->over[i].name_hash == life.name_hash)
			return true;
	return false;
}

void fkv_rpc_life_end(struct fkv_rpc *r, const struct fkv_rpc_peer *p)
{
	r->over[r->nr_over++ % FKV_RPC_ENDED_MAX] = life_of(p->name,
							    p->incarnation);
}

void fkv_rpc_renew(struct fkv_rpc *r, uint64_t incarnation)
{
	struct fkv_rpc_peer *p, *next;
	struct fkv_rpc_conn *c;

	while ((c = TAILQ_FIRST(&r->strangers)))
		fkv_rpc_conn_close(c, "of an earlier life");
	r->cfg.self.incarnation = incarnation;
	for (p = TAILQ_FIRST(&r->peers); p; p = next) {
		next = TAILQ_NEXT(p, link);
		fkv_rpc_peer_end(p, -ESTALE);
	}
	/* they may come back to the new one */
	r->nr_over = 0;
	TAILQ_FOREACH(p, &r->peers, link)
		fkv_rpc_peer_resume(p);
}

/* ---- addresses ---- */

int fkv_rpc_address(const char *text, struct sockaddr_storage *ret)
{
	const char *colon = strrchr(text, ':');
	struct sockaddr_storage ss = { 0 };
	char host[INET6_ADDRSTRLEN + 2] = "";
	size_t n = colon ? (size_t)(colon - text) : 0;
	unsigned long port;
	char *end;
	int err;

	if (!n || n >= sizeof(host) || colon[1] < '0' || colon[1] > '9')
		return -EINVAL;
	port = strtoul(colon + 1, &end, 10);
	if (*end || port > UINT16_MAX)
		return -EINVAL;
	memcpy(host, text, n);
	if (host[0] == '[' && host[n - 1] == ']') {
		host[n - 1] = '\0';
		err = uv_ip6_addr(host + 1, (int)port,
				  (struct sockaddr_in6 *)&ss);
	} else {
		err = uv_ip4_addr(host, (int)port, (struct sockaddr_in *)&ss);
	}
	if (err)
		return -EINVAL;
	*ret = ss;
	return 0;
}

static bool is_loopback(const struct sockaddr *sa)
{
	const struct sockaddr_in6 *v6 = (const struct sockaddr_in6 *)sa;
	const struct sockaddr_in *v4 = (const struct sockaddr_in *)sa;

	if (sa->sa_family == AF_INET)
		return ntohl(v4->sin_addr.s_addr) >> 24 == 127;
	return sa->sa_family == AF_INET6 &&
	       IN6_IS_ADDR_LOOPBACK(&v6->sin6_addr);
}

int fkv_rpc_may_meet(const uint8_t *key, const struct sockaddr *sa)
{
	if (sa->sa_family != AF_INET && sa->sa_family != AF_INET6)
		return -EAFNOSUPPORT;
	return key || is_loopback(sa) ? 0 : -EACCES;
}

static void listener_closed(uv_handle_t *h)
{
	struct fkv_rpc *r = h->data;

	r->handles--;
}

int fkv_rpc_listen(struct fkv_rpc *r, const struct sockaddr *at)
{
	int err = fkv_rpc_may_meet(r->cfg.self.key, at);

	if (err)
		return err;
	fkv_assert(!r->listening);
	err = uv_tcp_init(r->loop, &r->listener);
	if (err)
		return err;
	r->handles++;
	r->listener.data = r;
	err = uv_tcp_bind(&r->listener, at, 0);
	if (!err)
		err = uv_listen((uv_stream_t *)&r->listener, 256,
				on_connection);
	if (err)
		uv_close((uv_handle_t *)&r->listener, listener_closed);
	else
		r->listening = true;
	return err;
}

uint16_t fkv_rpc_port(const struct fkv_rpc *r)
{
	struct sockaddr_storage ss = { 0 };
	int n = sizeof(ss);

	if (!r->listening ||
	    uv_tcp_getsockname(&r->listener, (struct sockaddr *)&ss, &n))
		return 0;
	return ntohs(ss.ss_family == AF_INET ?
		     ((struct sockaddr_in *)&ss)->sin_port :
		     ((struct sockaddr_in6 *)&ss)->sin6_port);
}

int fkv_rpc_dial(struct fkv_rpc *r, const struct sockaddr *to,
		 struct fkv_rpc_peer **ret)
{
	struct fkv_rpc_peer *p;
	int err = fkv_rpc_may_meet(r->cfg.self.key, to);

	if (err)
		return err;
	if (r->stats.peers >= FKV_RPC_PEERS_MAX)
		return -EUSERS;
	p = fkv_rpc_peer_create(r, true);
	if (!p)
		return -ENOMEM;
	memcpy(&p->to, to, to->sa_family == AF_INET ?
	       sizeof(struct sockaddr_in) : sizeof(struct sockaddr_in6));
	p->parked = true;
	fkv_rpc_peer_resume(p);
	*ret = p;
	return 0;
}

/* ---- life of the node ---- */

static void or_default(uint64_t *ns, uint64_t value)
{
	if (!*ns)
		*ns = value;
}

static void times_fill(struct fkv_rpc_times *t)
{
	or_default(&t->connect_ns, 2 * FKV_SEC);
	or_default(&t->handshake_ns, 2 * FKV_SEC);
	or_default(&t->ping_ns, 500 * FKV_MS);
	or_default(&t->silent_ns, 2 * FKV_SEC);
	or_default(&t->backoff_min_ns, 50 * FKV_MS);
	or_default(&t->backoff_max_ns, 1 * FKV_SEC);
	or_default(&t->linger_ns, 60 * FKV_SEC);
}

static bool name_copy(char *to, const char *from)
{
	if (!from || !*from || strlen(from) > FKV_AUTH_NAME_MAX)
		return false;
	strcpy(to, from);
	return true;
}

static int self_copy(struct fkv_rpc *r, const struct fkv_auth_self *self)
{
	if (!name_copy(r->cluster, self->cluster) ||
	    !name_copy(r->name, self->name) || !self->incarnation)
		return -EINVAL;
	r->cfg.self.cluster = r->cluster;
	r->cfg.self.name = r->name;
	if (self->key) {
		memcpy(r->key, self->key, sizeof(r->key));
		r->cfg.self.key = r->key;
	}
	return 0;
}

/*
 * libuv writes without MSG_NOSIGNAL, and a peer can close its end at any time:
 * who has not said what should come of it must not die of it.
 */
static void ignore_sigpipe(void)
{
	struct sigaction sa = { 0 };

	if (sigaction(SIGPIPE, NULL, &sa) || sa.sa_handler != SIG_DFL)
		return;
	sa.sa_handler = SIG_IGN;
	sigaction(SIGPIPE, &sa, NULL);
}

int fkv_rpc_create(uv_loop_t *loop, const struct fkv_rpc_config *cfg,
		   struct fkv_rpc **ret)
{
	struct fkv_rpc *r;
	int err = -ENOMEM;

	if (sodium_init() < 0)
		return -EIO;
	r = fkv_zalloc(sizeof(*r));
	if (!r)
		return -ENOMEM;
	r->frame = fkv_zalloc(FKV_SESSION_FRAME_MAX);
	if (!r->frame || fkv_table_init(&r->conns))
		goto err_frame;
	if (fkv_table_init(&r->calls))
		goto err_conns;
	r->loop = loop;
	r->cfg = *cfg;
	r->times = cfg->times;
	times_fill(&r->times);
	err = self_copy(r, &cfg->self);
	if (err)
		goto err_calls;
	r->next_conn = r->next_call = 1;
	r->due_ns = FKV_NEVER;
	TAILQ_INIT(&r->peers);
	TAILQ_INIT(&r->strangers);
	fkv_timers_init(&r->timers);
	ignore_sigpipe();
	uv_timer_init(loop, &r->timer);
	r->timer.data = r;
	r->handles = 1;
	*ret = r;
	return 0;

err_calls:
	fkv_table_done(&r->calls);
err_conns:
	fkv_table_done(&r->conns);
err_frame:
	fkv_free(r->frame);
	fkv_free(r);
	return err;
}

void fkv_rpc_get_stats(const struct fkv_rpc *r, struct fkv_rpc_stats *ret)
{
	*ret = r->stats;
}

void fkv_rpc_close_all(struct fkv_rpc *r)
{
	struct fkv_node *n;
	uint64_t pos = 0;

	if (r->closing)
		return;
	r->closing = true;
	if (r->listening)
		uv_close((uv_handle_t *)&r->listener, listener_closed);
	r->listening = false;
	uv_close((uv_handle_t *)&r->timer, listener_closed);
	while ((n = fkv_table_drain(&r->conns, &pos)))
		fkv_rpc_conn_close(fkv_container_of(n, struct fkv_rpc_conn,
						    node), "closed");
}

bool fkv_rpc_is_closed(const struct fkv_rpc *r)
{
	return r->closing && !r->handles;
}

void fkv_rpc_free(struct fkv_rpc *r)
{
	struct fkv_rpc_peer *p;

	if (!r)
		return;
	fkv_assert(fkv_rpc_is_closed(r));
	while ((p = TAILQ_FIRST(&r->peers)))
		fkv_rpc_peer_free(p);
	fkv_table_done(&r->conns);
	fkv_table_done(&r->calls);
	sodium_memzero(r->key, sizeof(r->key));
	fkv_free(r->frame);
	fkv_free(r);
}
