// SPDX-License-Identifier: Apache-2.0
#include <errno.h>
#include <microhttpd.h>
#include <netdb.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>
#include <sys/socket.h>
#include <time.h>

#include "base/base.h"
#include "svc/admin.h"
#include "svc/http.h"

#define CONNECTIONS_MAX	64
#define CROWDED		48	/* beyond, the oldest has to go */
#define IDLE_SECONDS	5
#define ANSWER_SECONDS	1

struct fkv_snapshot {
	struct fkv_engine *engine;
	uv_async_t wake;
	pthread_mutex_t lock;		/* all below */
	pthread_cond_t made;
	uint64_t wanted, done;
	char *text;			/* of the last one made */
	bool closed;
};

/* A connection. All of it is the HTTP thread's. */
struct peer {
	TAILQ_ENTRY(peer) link;
	int fd;
	bool shut;			/* and off the list */
};

TAILQ_HEAD(peers, peer);

struct fkv_http {
	struct MHD_Daemon *mhd;
	struct peers peers;		/* by age */
	unsigned int nr_peers;
	struct fkv_snapshot *snapshot;
	bool dashboard;
};

static const char page[] =
"<!doctype html><html lang=en><meta charset=utf-8>"
"<meta name=viewport content='width=device-width'>"
"<title>FluxonKV</title>"
"<style>body{font:16px/1.5 sans-serif;margin:2em auto;max-width:40em;"
"padding:0 1em;color-scheme:light dark}</style>"
"<h1>FluxonKV</h1><p>This owner daemon is running.</p>"
"<ul><li><a href=/metrics>/metrics</a>: counters for Prometheus</li>"
"<li><a href=/healthz>/healthz</a>: is it alive?</li></ul>"
"<p>On the host: <code>fluxonkvctl status</code></p></html>\n";

/* ---- snapshot ---- */

static void on_wake(uv_async_t *a)
{
	struct fkv_snapshot *s = a->data;
	char *text;

	text = fkv_admin_metrics(s->engine);
	pthread_mutex_lock(&s->lock);
	free(s->text);
	s->text = text;
	s->done = s->wanted;
	pthread_cond_broadcast(&s->made);
	pthread_mutex_unlock(&s->lock);
}

int fkv_snapshot_create(uv_loop_t *loop, struct fkv_engine *e,
			struct fkv_snapshot **ret)
{
	struct fkv_snapshot *s = fkv_zalloc(sizeof(*s));
	pthread_condattr_t attr;

	if (!s)
		return -ENOMEM;
	s->engine = e;
	pthread_mutex_init(&s->lock, NULL);
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&s->made, &attr);
	pthread_condattr_destroy(&attr);
	uv_async_init(loop, &s->wake, on_wake);
	s->wake.data = s;
	*ret = s;
	return 0;
}

void fkv_snapshot_close(struct fkv_snapshot *s)
{
	if (!s)
		return;
	pthread_mutex_lock(&s->lock);
	s->closed = true;
	pthread_cond_broadcast(&s->made);
	pthread_mutex_unlock(&s->lock);
	uv_close((uv_handle_t *)&s->wake, NULL);
}

void fkv_snapshot_free(struct fkv_snapshot *s)
{
	if (!s)
		return;
	free(s->text);
	pthread_cond_destroy(&s->made);
	pthread_mutex_destroy(&s->lock);
	fkv_free(s);
}

char *fkv_snapshot_metrics(struct fkv_snapshot *s)
{
	struct timespec until;
	char *text = NULL;
	uint64_t mine;
	int err = 0;

	clock_gettime(CLOCK_MONOTONIC, &until);
	until.tv_sec += ANSWER_SECONDS;
	pthread_mutex_lock(&s->lock);
	mine = ++s->wanted;
	if (!s->closed)
		uv_async_send(&s->wake);
	while (s->done < mine && !s->closed && !err)
		err = pthread_cond_timedwait(&s->made, &s->lock, &until);
	if (s->done >= mine && s->text)
		text = strdup(s->text);
	pthread_mutex_unlock(&s->lock);
	return text;
}

/* ---- HTTP ---- */

static enum MHD_Result respond(struct MHD_Connection *c, unsigned int code,
			       const char *type, const char *text)
{
	struct MHD_Response *r;
	enum MHD_Result res;

	r = MHD_create_response_from_buffer(strlen(text), (void *)text,
					    MHD_RESPMEM_MUST_COPY);
	if (!r)
		return MHD_NO;
	MHD_add_response_header(r, "Content-Type", type);
	MHD_add_response_header(r, "X-Content-Type-Options", "nosniff");
	MHD_add_response_header(r, "Cache-Control", "no-store");
	if (code == MHD_HTTP_METHOD_NOT_ALLOWED)
		MHD_add_response_header(r, "Allow", "GET, HEAD");
	res = MHD_queue_response(c, code, r);
	MHD_destroy_response(r);
	return res;
}

static enum MHD_Result metrics(struct fkv_http *h, struct MHD_Connection *c)
{
	char *text = fkv_snapshot_metrics(h->snapshot);
	enum MHD_Result res;

	if (!text)
		return respond(c, MHD_HTTP_SERVICE_UNAVAILABLE, "text/plain",
			       "the daemon's loop did not answer\n");
	res = respond(c, MHD_HTTP_OK, "text/plain; version=0.0.4", text);
	free(text);
	return res;
}

static enum MHD_Result healthz(struct fkv_http *h, struct MHD_Connection *c)
{
	char *text = fkv_snapshot_metrics(h->snapshot);

	free(text);
	return text ? respond(c, MHD_HTTP_OK, "text/plain", "ok\n") :
		      respond(c, MHD_HTTP_SERVICE_UNAVAILABLE, "text/plain",
			      "the daemon's loop did not answer\n");
}

static void peer_del(struct fkv_http *h, struct peer *p)
{
	TAILQ_REMOVE(&h->peers, p, link);
	h->nr_peers--;
}

/*
 * Clients that send or read one byte now and then would keep all connections,
 * and a scraper out. A connection is for one request: the oldest is the
 * slowest. Its address says nothing: on loopback it is everybody's.
 */
static void make_room(struct fkv_http *h)
{
	struct peer *p = TAILQ_FIRST(&h->peers);

	if (h->nr_peers <= CROWDED)
		return;
	peer_del(h, p);
	p->shut = true;
	shutdown(p->fd, SHUT_RDWR);
}

static void on_connection(void *cls, struct MHD_Connection *c, void **ctx,
			  enum MHD_ConnectionNotificationCode what)
{
	const union MHD_ConnectionInfo *info;
	struct fkv_http *h = cls;
	struct peer *p = *ctx;

	if (what == MHD_CONNECTION_NOTIFY_CLOSED) {
		if (p && !p->shut)
			peer_del(h, p);
		fkv_free(p);
		return;
	}
	info = MHD_get_connection_info(c, MHD_CONNECTION_INFO_CONNECTION_FD);
	p = info ? fkv_zalloc(sizeof(*p)) : NULL;
	*ctx = p;
	if (!p)
		return;		/* its idle time ends it */
	p->fd = info->connect_fd;
	TAILQ_INSERT_TAIL(&h->peers, p, link);
	h->nr_peers++;
	make_room(h);
}

static enum MHD_Result handle(void *cls, struct MHD_Connection *c,
			      const char *url, const char *method,
			      const char *version, const char *data,
			      size_t *size, void **ctx)
{
	struct fkv_http *h = cls;

	(void)version;
	(void)data;
	(void)size;
	(void)ctx;
	if (strcmp(method, "GET") && strcmp(method, "HEAD"))
		return respond(c, MHD_HTTP_METHOD_NOT_ALLOWED, "text/plain",
			       "only GET and HEAD are served\n");
	if (!strcmp(url, "/metrics"))
		return metrics(h, c);
	if (!strcmp(url, "/healthz"))
		return healthz(h, c);
	if (!strcmp(url, "/") && h->dashboard)
		return respond(c, MHD_HTTP_OK, "text/html; charset=utf-8",
			       page);
	return respond(c, MHD_HTTP_NOT_FOUND, "text/plain",
		       "not found: /metrics, /healthz\n");
}

int fkv_http_create(const char *host, uint16_t port, bool dashboard,
		    struct fkv_snapshot *snapshot, struct fkv_http **ret,
		    char *err, size_t err_size)
{
	struct addrinfo hints = { .ai_flags = AI_NUMERICHOST | AI_PASSIVE,
				  .ai_socktype = SOCK_STREAM };
	unsigned int flags = MHD_USE_INTERNAL_POLLING_THREAD | MHD_USE_POLL;
	struct fkv_http *h = fkv_zalloc(sizeof(*h));
	struct addrinfo *ai = NULL;
	char service[8];

	snprintf(service, sizeof(service), "%u", port);
	if (!h || getaddrinfo(host, service, &hints, &ai)) {
		snprintf(err, err_size, "metrics.listen: '%s' is not an "
			 "address of this host", host);
		fkv_free(h);
		return -EINVAL;
	}
	h->snapshot = snapshot;
	h->dashboard = dashboard;
	TAILQ_INIT(&h->peers);
	if (ai->ai_family == AF_INET6)
		flags |= MHD_USE_IPv6;
	errno = 0;
	h->mhd = MHD_start_daemon(flags, port, NULL, NULL, handle, h,
				  MHD_OPTION_SOCK_ADDR, ai->ai_addr,
				  MHD_OPTION_NOTIFY_CONNECTION, on_connection,
				  h, MHD_OPTION_CONNECTION_LIMIT,
				  (unsigned int)CONNECTIONS_MAX,
				  MHD_OPTION_CONNECTION_TIMEOUT,
				  (unsigned int)IDLE_SECONDS,
				  MHD_OPTION_CONNECTION_MEMORY_LIMIT,
				  (size_t)(64 * 1024), MHD_OPTION_END);
	freeaddrinfo(ai);
	if (!h->mhd) {
		int res = errno ? -errno : -EADDRINUSE;

		snprintf(err, err_size, "metrics.listen: cannot listen on "
			 "%s:%u: %s (--metrics none turns it off)", host, port,
			 strerror(-res));
		fkv_free(h);
		return res;
	}
	*ret = h;
	return 0;
}

void fkv_http_free(struct fkv_http *h)
{
	if (!h)
		return;
	MHD_stop_daemon(h->mhd);
	fkv_free(h);
}

uint16_t fkv_http_port(const struct fkv_http *h)
{
	const union MHD_DaemonInfo *info;

	info = MHD_get_daemon_info(h->mhd, MHD_DAEMON_INFO_BIND_PORT);
	return info ? info->port : 0;
}
