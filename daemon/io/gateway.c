// SPDX-License-Identifier: Apache-2.0
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "io/gateway_internal.h"

#define ACCEPT_PAUSE_MS	100
#define OVER_TIMES	2	/* the cap */
#define OVER_COUNTS	20	/* in a row: about 2 s */
#define REFUSED_SAY_NS	(10 * FKV_SEC)

static struct fkv_gwconn *conn_of(struct fkv_node *n)
{
	return fkv_container_of(n, struct fkv_gwconn, node);
}

static struct fkv_gwconn *conn_find(const struct fkv_gateway *g,
				    uint64_t client)
{
	struct fkv_node *n = fkv_table_first(&g->conns, client);

	return n ? conn_of(n) : NULL;
}

struct fkv_arena *fkv_gateway_arena(struct fkv_gateway *g, uint64_t client)
{
	struct fkv_gwconn *c = conn_find(g, client);

	if (!c || !c->arena)
		return NULL;
	c->arena->refs++;
	return c->arena;
}

void fkv_gateway_reply(struct fkv_gateway *g, struct fkv_call *call)
{
	struct fkv_gwconn *c = conn_find(g, call->client);

	if (c && !c->closing && !c->quit && call->id)
		fkv_gateway_conn_reply(c, call);
	fkv_call_free(call);
}

static void accept_ready(uv_poll_t *h, int status, int events);

static void reserve_open(struct fkv_gateway *g)
{
	g->reserve = open("/dev/null", O_RDONLY | O_CLOEXEC);
}

/* One line in a while: who is refused comes back, and often. */
static void refused(struct fkv_gateway *g, const char *why)
{
	uint64_t now = fkv_clock_ns();

	g->stats.refused++;
	if (g->said_ns && now - g->said_ns < REFUSED_SAY_NS)
		return;
	g->said_ns = now;
	fkv_log(FKV_LOG_WARN, "client refused: %s (connections=%llu "
		"refused=%llu)", why, (unsigned long long)g->stats.connections,
		(unsigned long long)g->stats.refused);
}

static void on_pause(uv_timer_t *t)
{
	struct fkv_gateway *g = t->data;

	if (g->polling)
		uv_poll_start(&g->poll, UV_READABLE, accept_ready);
}

/*
 * Out of descriptors. The listening socket stays readable, so a client must
 * be taken off its queue, with the descriptor kept for that, or not be looked
 * at for a while.
 */
static bool shed(struct fkv_gateway *g)
{
	int fd;

	if (g->reserve < 0) {
		uv_poll_stop(&g->poll);
		uv_timer_start(&g->pause, on_pause, ACCEPT_PAUSE_MS, 0);
		return false;
	}
	close(g->reserve);
	fd = accept4(g->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
	if (fd >= 0) {
		refused(g, "out of file descriptors (ulimit -n, or "
			"LimitNOFILE=)");
		close(fd);
	}
	reserve_open(g);
	return fd >= 0;
}

static void take(struct fkv_gateway *g, int fd)
{
	int err = -EUSERS;

	if (g->stats.connections < g->cfg.clients_max)
		err = fkv_gateway_conn_create(g, fd);
	if (!err)
		return;
	refused(g, err == -EUSERS ? "as many clients as can be are connected" :
		strerror(-err));
	close(fd);
}

static void accept_ready(uv_poll_t *h, int status, int events)
{
	struct fkv_gateway *g = h->data;

	(void)events;
	if (status < 0)
		return;
	if (g->reserve < 0)
		reserve_open(g);
	for (int i = 0; i < 64; i++) {
		int fd = accept4(g->fd, NULL, NULL,
				 SOCK_CLOEXEC | SOCK_NONBLOCK);

		if (fd >= 0)
			take(g, fd);
		else if (errno != EMFILE && errno != ENFILE &&
			 errno != ENOMEM && errno != ENOBUFS)
			return;
		else if (!shed(g))
			return;
	}
}

static int socket_open(const struct fkv_gateway_config *cfg, char *err,
		       size_t size)
{
	struct sockaddr_un sa = { .sun_family = AF_UNIX };
	bool bound;
	mode_t old;
	int fd, res;

	if (strlen(cfg->path) >= sizeof(sa.sun_path)) {
		snprintf(err, size, "socket path %s is longer than %zu bytes",
			 cfg->path, sizeof(sa.sun_path) - 1);
		return -ENAMETOOLONG;
	}
	strcpy(sa.sun_path, cfg->path);
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return -errno;
	old = umask(0177);
	res = bind(fd, (struct sockaddr *)&sa, sizeof(sa)) ? -errno : 0;
	bound = !res;
	umask(old);
	if (!res && cfg->group != (gid_t)-1 &&
	    chown(cfg->path, (uid_t)-1, cfg->group))
		res = -errno;
	if (!res && chmod(cfg->path, cfg->mode))
		res = -errno;
	if (!res)
		return fd;
	snprintf(err, size, "cannot make the socket %s: %s", cfg->path,
		 strerror(-res));
	if (bound)
		unlink(cfg->path);
	close(fd);
	return res;
}

int fkv_gateway_create(uv_loop_t *loop, const struct fkv_gateway_config *cfg,
		       struct fkv_gateway **ret, char *err, size_t err_size)
{
	struct fkv_gateway *g = fkv_zalloc(sizeof(*g));
	struct stat st;
	int res = -ENOMEM;

	snprintf(err, err_size, "out of memory");
	if (!g || fkv_table_init(&g->conns))
		goto err_free;
	g->cfg = *cfg;
	g->loop = loop;
	g->next_client = 1;
	if (!stat("/proc/self/ns/time", &st))
		g->time_ns = st.st_ino;
	g->fd = socket_open(cfg, err, err_size);
	if (g->fd < 0) {
		res = g->fd;
		fkv_table_done(&g->conns);
		goto err_free;
	}
	reserve_open(g);
	*ret = g;
	return 0;

err_free:
	fkv_free(g);
	return res;
}

int fkv_gateway_listen(struct fkv_gateway *g)
{
	int err;

	if (listen(g->fd, 256))
		return -errno;
	err = uv_poll_init(g->loop, &g->poll, g->fd);
	if (err)
		return err;
	uv_timer_init(g->loop, &g->pause);
	g->poll.data = g;
	g->pause.data = g;
	g->polling = true;
	uv_poll_start(&g->poll, UV_READABLE, accept_ready);
	return 0;
}

void fkv_gateway_stop_accept(struct fkv_gateway *g)
{
	if (!g->unlinked)
		unlink(g->cfg.path);
	g->unlinked = true;
	if (!g->polling)
		return;
	g->polling = false;
	uv_poll_stop(&g->poll);
	uv_close((uv_handle_t *)&g->poll, NULL);
	uv_close((uv_handle_t *)&g->pause, NULL);
}

void fkv_gateway_close_all(struct fkv_gateway *g)
{
	struct fkv_node *n;
	uint64_t pos;

	fkv_gateway_stop_accept(g);
	for (pos = 0; (n = fkv_table_drain(&g->conns, &pos));)
		fkv_gateway_conn_close(conn_of(n));
}

void fkv_gateway_free(struct fkv_gateway *g)
{
	if (!g)
		return;
	fkv_assert(!g->conns.count);
	close(g->fd);
	if (g->reserve >= 0)
		close(g->reserve);
	fkv_table_done(&g->conns);
	fkv_free(g);
}

static void key_text(const struct fkv_key *key, char *buf)
{
	size_t n = key ? key->len : 0;

	if (n)
		memcpy(buf, key->data, n);
	buf[n] = '\0';
}

char *fkv_admin_ask(const struct fkv_gateway_ops *ops, void *arg, uid_t uid,
		    const struct fkv_call *call, struct fkv_refusal *ret)
{
	char word[FKV_KEY_MAX + 1], argument[FKV_KEY_MAX + 1];
	char *text;

	if (uid && uid != geteuid()) {
		*ret = (struct fkv_refusal){ -EPERM, "operators only: root, "
			"or the user that the daemon runs as" };
		return NULL;
	}
	*ret = (struct fkv_refusal){ .err = -EINVAL };
	key_text(call->items[0].key, word);
	key_text(call->nr > 1 ? call->items[1].key : NULL, argument);
	text = ops->admin(arg, word, argument, &ret->err);
	if (text && sizeof(struct fluxonkv_rep) + strlen(text) >
		    FKV_FRAME_MAX - sizeof(struct fluxonkv_frame)) {
		*ret = (struct fkv_refusal){ -EMSGSIZE, "the answer is larger "
			"than a frame: ask for less" };
		free(text);
		return NULL;
	}
	if (!text && ret->err == -EINVAL)
		ret->why = "unknown word for the daemon";
	if (!text && ret->err == -EOPNOTSUPP)
		ret->why = "only a master knows it: ask the master's daemon";
	return text;
}

void fkv_gateway_hits(struct fkv_gateway *g)
{
	struct fkv_node *n = NULL;
	uint64_t pos = 0;

	while ((n = fkv_table_walk(&g->conns, &pos, n))) {
		struct fkv_gwconn *c = conn_of(n);

		if (c->pins)
			fkv_pins_hits(c->pins, &g->cfg.ops->index,
				      g->cfg.arg);
	}
}

/*
 * The library keeps to its cap (H4), and so do we with what we grant; but what
 * we grant it may pin besides until our answer is there, and a count is no
 * snapshot: a pin that moves while the slots are read is seen twice. So only who
 * has more than twice its cap, for a while, is none of its clients, and
 * forfeits its pins. The rest of what it has stays until it closes its end.
 */
static void watch_cap(struct fkv_gwconn *c)
{
	struct fkv_gateway *g = c->g;
	uint64_t bytes = c->pins->pinned_bytes + c->charged;

	if (bytes / OVER_TIMES <= g->cfg.client_cap) {
		c->over = 0;
		return;
	}
	if (++c->over < OVER_COUNTS)
		return;
	g->stats.over_cap++;
	fkv_log(FKV_LOG_WARN, "client with pid=%d uid=%u pins %llu bytes, its "
		"cap is %llu: it is not served any more", (int)c->pid, c->uid,
		(unsigned long long)bytes,
		(unsigned long long)g->cfg.client_cap);
	fkv_gateway_conn_forfeit(c);
}

/* What each client pins by itself counts against its caps, too. */
static void report_pins(struct fkv_gateway *g)
{
	struct fkv_node *n = NULL;
	uint64_t pos = 0;

	while ((n = fkv_table_walk(&g->conns, &pos, n))) {
		struct fkv_gwconn *c = conn_of(n);

		if (!c->pins || !c->hello)
			continue;
		c->charged = g->cfg.ops->pinned(g->cfg.arg, c->client,
						c->pins->pinned_bytes);
		if (g->cfg.client_cap)
			watch_cap(c);
	}
}

uint64_t fkv_gateway_count_pins(struct fkv_gateway *g)
{
	uint64_t bytes;

	if (!g->cfg.index)
		return 0;
	bytes = fkv_index_count(g->cfg.index);
	report_pins(g);
	return bytes;
}

void fkv_gateway_get_stats(const struct fkv_gateway *g,
			   struct fkv_gateway_stats *ret)
{
	*ret = g->stats;
}

bool fkv_gateway_conn_info(const struct fkv_gateway *g, uint64_t client,
			   struct fkv_conn_info *ret)
{
	struct fkv_gwconn *c = conn_find(g, client);

	if (!c)
		return false;
	*ret = (struct fkv_conn_info){
		.client = client,
		.pid = c->pid,
		.uid = c->uid,
		.pinned = c->pins ? c->pins->pinned : 0,
		.pinned_bytes = c->pins ? c->pins->pinned_bytes : 0,
	};
	return true;
}
