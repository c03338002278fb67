// SPDX-License-Identifier: Apache-2.0
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/table.h"
#include "io/gateway.h"
#include "io/segment.h"

#define RX_START	(16u * 1024)
#define TX_MAX		(8u * 1024 * 1024)
#define FDS_MAX		4

/*
 * Born: at HELLO of a client of another user. Held by: its connection, copies
 * in flight. Dies: with the last fkv_arena_put(). Last put: loop thread.
 */
struct fkv_arena {
	unsigned int refs;
	int fd;
	void *map;
	size_t size;
};

struct tx {
	TAILQ_ENTRY(tx) link;
	size_t size, sent;
	int fds[FDS_MAX];
	int nr_fds;
	uint8_t data[];
};

TAILQ_HEAD(txs, tx);

struct conn {
	struct fkv_node node;		/* gateway->conns, by client id */
	struct fkv_gateway *g;
	uv_poll_t poll;
	int fd;
	uint64_t client;
	pid_t pid;
	uid_t uid;
	bool hello, closing, finish;	/* finish: close when all is sent */
	struct fkv_pins *pins;
	struct fkv_arena *arena;
	uint64_t charged;		/* by the core, at the last count */
	uint8_t *rx;
	size_t rx_used, rx_room;
	struct txs tx;
	size_t tx_bytes;
	int events;
};

struct fkv_gateway {
	struct fkv_gateway_config cfg;
	struct fkv_table conns;
	uv_loop_t *loop;
	uv_poll_t poll;
	int fd;
	bool polling, unlinked;
	uint64_t next_client;
	ino_t time_ns;
	struct fkv_gateway_stats stats;
};

static void conn_close(struct conn *c);
static void conn_events(struct conn *c);

static struct conn *conn_find(const struct fkv_gateway *g, uint64_t client)
{
	struct fkv_node *n = fkv_table_first(&g->conns, client);

	return n ? fkv_container_of(n, struct conn, node) : NULL;
}

void *fkv_arena_at(const struct fkv_arena *a, uint64_t offset)
{
	return (char *)a->map + offset;
}

void fkv_arena_put(struct fkv_arena *a)
{
	if (!a || --a->refs)
		return;
	munmap(a->map, a->size);
	close(a->fd);
	fkv_free(a);
}

struct fkv_arena *fkv_gateway_arena(struct fkv_gateway *g, uint64_t client)
{
	struct conn *c = conn_find(g, client);

	if (!c || !c->arena)
		return NULL;
	c->arena->refs++;
	return c->arena;
}

static int arena_create(struct fkv_arena **ret)
{
	struct fkv_arena *a = fkv_zalloc(sizeof(*a));
	int err;

	if (!a)
		return -ENOMEM;
	a->refs = 1;
	a->size = FKV_ARENA_BYTES;
	err = fkv_memfd_create("fluxonkv-puts", a->size, &a->fd, &a->map);
	if (err) {
		fkv_free(a);
		return err;
	}
	*ret = a;
	return 0;
}

static void tx_free(struct conn *c, struct tx *tx)
{
	TAILQ_REMOVE(&c->tx, tx, link);
	c->tx_bytes -= tx->size;
	fkv_free(tx);
}

static ssize_t tx_send(int fd, struct tx *tx)
{
	struct iovec iov = {
		.iov_base = tx->data + tx->sent,
		.iov_len = tx->size - tx->sent,
	};
	struct msghdr mh = { .msg_iov = &iov, .msg_iovlen = 1 };
	union {
		char buf[CMSG_SPACE(sizeof(int) * FDS_MAX)];
		struct cmsghdr align;
	} u;

	if (tx->nr_fds && !tx->sent) {
		struct cmsghdr *cm;

		memset(&u, 0, sizeof(u));
		mh.msg_control = u.buf;
		mh.msg_controllen = CMSG_SPACE(sizeof(int) *
					       (size_t)tx->nr_fds);
		cm = CMSG_FIRSTHDR(&mh);
		cm->cmsg_level = SOL_SOCKET;
		cm->cmsg_type = SCM_RIGHTS;
		cm->cmsg_len = CMSG_LEN(sizeof(int) * (size_t)tx->nr_fds);
		memcpy(CMSG_DATA(cm), tx->fds,
		       sizeof(int) * (size_t)tx->nr_fds);
	}
	return sendmsg(fd, &mh, MSG_NOSIGNAL | MSG_DONTWAIT);
}

/* Send what the socket takes; false when the connection is broken. */
static bool tx_flush(struct conn *c)
{
	struct tx *tx;

	while ((tx = TAILQ_FIRST(&c->tx))) {
		ssize_t n = tx_send(c->fd, tx);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return errno == EAGAIN || errno == EWOULDBLOCK;
		tx->sent += (size_t)n;
		if (tx->sent == tx->size)
			tx_free(c, tx);
	}
	return true;
}

static struct tx *tx_new(size_t body, uint64_t id)
{
	struct fluxonkv_frame frame = {
		.size = (uint32_t)(sizeof(frame) + body),
		.id = id,
	};
	struct tx *tx;

	tx = fkv_zalloc(sizeof(*tx) + frame.size);
	if (!tx)
		return NULL;
	tx->size = frame.size;
	memcpy(tx->data, &frame, sizeof(frame));
	return tx;
}

static void tx_queue(struct conn *c, struct tx *tx)
{
	c->g->stats.replies++;
	TAILQ_INSERT_TAIL(&c->tx, tx, link);
	c->tx_bytes += tx->size;
	if (TAILQ_FIRST(&c->tx) == tx && !tx_flush(c)) {
		conn_close(c);
		return;
	}
	if (c->finish && TAILQ_EMPTY(&c->tx))
		conn_close(c);
	else
		conn_events(c);
}

static void send_error(struct conn *c, uint64_t id, uint16_t op, int err,
		       const char *text)
{
	uint8_t buf[sizeof(struct fluxonkv_rep) + FKV_TEXT_MAX];
	size_t n = fkv_reply_error(op, err, text, buf, sizeof(buf));
	struct tx *tx = tx_new(n, id);

	if (!tx) {
		conn_close(c);
		return;
	}
	memcpy(tx->data + sizeof(struct fluxonkv_frame), buf, n);
	tx_queue(c, tx);
}

void fkv_gateway_reply(struct fkv_gateway *g, struct fkv_call *call)
{
	struct conn *c = conn_find(g, call->client);
	struct tx *tx;

	if (!c || c->closing || !call->id) {
		fkv_call_free(call);
		return;
	}
	tx = tx_new(fkv_reply_size(call), call->id);
	if (tx) {
		fkv_reply_encode(call,
				 tx->data + sizeof(struct fluxonkv_frame));
		tx_queue(c, tx);
	} else {
		conn_close(c);
	}
	fkv_call_free(call);
}

static void conn_closed(uv_handle_t *h)
{
	struct conn *c = h->data;
	struct tx *tx;

	while ((tx = TAILQ_FIRST(&c->tx)))
		tx_free(c, tx);
	close(c->fd);
	fkv_free(c->rx);
	fkv_free(c);
}

/*
 * End of a connection: its pins are read a last time, then its pages go, and
 * the owner core drops what it holds.
 */
static void conn_close(struct conn *c)
{
	struct fkv_gateway *g = c->g;

	if (c->closing)
		return;
	c->closing = true;
	fkv_table_del(&g->conns, &c->node);
	g->stats.connections--;
	uv_poll_stop(&c->poll);
	/* no answer can reach it any more, and nothing of it may write */
	shutdown(c->fd, SHUT_RDWR);
	if (c->pins) {
		fkv_pins_hits(c->pins, &g->cfg.ops->index, g->cfg.arg);
		fkv_pins_free(c->pins);
		c->pins = NULL;
	}
	if (c->hello)
		g->cfg.ops->gone(g->cfg.arg, c->client);
	fkv_arena_put(c->arena);
	c->arena = NULL;
	uv_close((uv_handle_t *)&c->poll, conn_closed);
}

static bool privileged(const struct conn *c)
{
	return c->uid == 0 || c->uid == geteuid();
}

static int hello_resources(struct conn *c, bool want_index, bool writable)
{
	int err = 0;

	if (want_index)
		err = fkv_pins_create(c->g->cfg.index, c->g->cfg.pins,
				      &c->pins);
	if (!err && !writable)
		err = arena_create(&c->arena);
	return err;
}

static void hello_send(struct conn *c, uint64_t id, bool writable)
{
	const struct fkv_gateway_config *cfg = &c->g->cfg;
	struct fluxonkv_rep rep = {
		.size = sizeof(rep),
		.op = FLUXONKV_OP_HELLO,
		.nr = 1,
		.item_size = sizeof(struct fluxonkv_hello),
	};
	struct fluxonkv_hello h = {
		.abi = FLUXONKV_ABI_VERSION,
		.flags = (writable ? FLUXONKV_HELLO_WRITABLE : 0) |
			 (c->pins ? FLUXONKV_HELLO_INDEX : 0) |
			 (cfg->strict ? FLUXONKV_HELLO_STRICT : 0),
		.incarnation = cfg->incarnation,
		.client = c->client,
		.segment_bytes = cfg->segment_bytes,
		.arena_bytes = c->arena ? c->arena->size : 0,
		.index_bytes = c->pins ? fkv_index_size(cfg->index) : 0,
		.pins_bytes = c->pins ? c->pins->size : 0,
		.client_cap_bytes = cfg->client_cap,
	};
	struct tx *tx = tx_new(sizeof(rep) + sizeof(h), id);
	uint8_t *p;

	if (!tx) {
		conn_close(c);
		return;
	}
	p = tx->data + sizeof(struct fluxonkv_frame);
	memcpy(p, &rep, sizeof(rep));
	memcpy(p + sizeof(rep), &h, sizeof(h));
	tx->fds[tx->nr_fds++] = cfg->segment_ro;
	tx->fds[tx->nr_fds++] = writable ? cfg->segment_rw : c->arena->fd;
	if (c->pins) {
		tx->fds[tx->nr_fds++] = fkv_index_fd(cfg->index);
		tx->fds[tx->nr_fds++] = c->pins->fd;
	}
	tx_queue(c, tx);
}

static void hello(struct conn *c, uint64_t id, uint64_t time_ns)
{
	struct fkv_gateway *g = c->g;
	bool writable = c->uid == geteuid();
	bool index = g->cfg.index && (!time_ns || time_ns == g->time_ns);
	int err;

	if (c->hello) {
		send_error(c, id, FLUXONKV_OP_HELLO, -EALREADY,
			   "HELLO was said before");
		return;
	}
	err = hello_resources(c, index, writable);
	if (err) {
		c->finish = true;
		send_error(c, id, FLUXONKV_OP_HELLO, err,
			   "no memory for this client's pin pages");
		return;
	}
	c->hello = true;
	g->cfg.ops->client(g->cfg.arg, c->client, c->uid,
			   c->arena ? c->arena->size : 0);
	hello_send(c, id, writable);
}

static void admin_text(struct conn *c, uint64_t id, const char *text)
{
	struct fluxonkv_rep rep = {
		.size = sizeof(rep),
		.op = FLUXONKV_OP_ADMIN,
		.item_size = sizeof(struct fluxonkv_result),
	};
	size_t n = strlen(text);
	size_t most = FKV_FRAME_MAX - sizeof(rep) -
		      sizeof(struct fluxonkv_frame);
	struct tx *tx;
	uint8_t *p;

	if (n > most) {
		send_error(c, id, FLUXONKV_OP_ADMIN, -EMSGSIZE,
			   "the answer is larger than a frame: ask for less");
		return;
	}
	rep.text_len = (uint32_t)n;
	tx = tx_new(sizeof(rep) + n, id);
	if (!tx) {
		conn_close(c);
		return;
	}
	p = tx->data + sizeof(struct fluxonkv_frame);
	memcpy(p, &rep, sizeof(rep));
	memcpy(p + sizeof(rep), text, n);
	tx_queue(c, tx);
}

static void key_text(const struct fkv_key *key, char *buf)
{
	size_t n = key ? key->len : 0;

	if (n)
		memcpy(buf, key->data, n);
	buf[n] = '\0';
}

static void admin(struct conn *c, const struct fkv_call *call)
{
	char word[FKV_KEY_MAX + 1], argument[FKV_KEY_MAX + 1];
	int err = -EINVAL;
	char *text;

	if (!privileged(c)) {
		send_error(c, call->id, call->op, -EPERM, "operators only: "
			   "root, or the user that the daemon runs as");
		return;
	}
	key_text(call->items[0].key, word);
	key_text(call->nr > 1 ? call->items[1].key : NULL, argument);
	text = c->g->cfg.ops->admin(c->g->cfg.arg, word, argument, &err);
	if (text)
		admin_text(c, call->id, text);
	else
		send_error(c, call->id, call->op, err, err == -EINVAL ?
			   "unknown word for the daemon" : NULL);
	free(text);
}

static void bad_request(struct conn *c, uint64_t id, int err,
			const char *why)
{
	c->g->stats.bad_requests++;
	/* a body that ends elsewhere than its frame says: out of step */
	if (err == -EMSGSIZE || !c->hello)
		c->finish = true;
	if (id)
		send_error(c, id, 0, err, why);
	else if (c->finish)
		conn_close(c);
}

static void request(struct conn *c, uint64_t id, const uint8_t *body,
		    size_t size)
{
	struct fkv_call *call;
	const char *why = NULL;
	int err;

	c->g->stats.requests++;
	err = fkv_call_decode(body, size, &call, &why);
	if (!err && !c->hello && call->op != FLUXONKV_OP_HELLO) {
		fkv_call_free(call);
		err = -EPROTO;
		why = "the first request must be HELLO";
	}
	if (err) {
		bad_request(c, id, err, why);
		return;
	}
	call->client = c->client;
	call->id = id;
	if (call->op == FLUXONKV_OP_HELLO)
		hello(c, id, call->arg);
	else if (call->op == FLUXONKV_OP_ADMIN)
		admin(c, call);
	if (call->op == FLUXONKV_OP_HELLO || call->op == FLUXONKV_OP_ADMIN) {
		fkv_call_free(call);
		return;
	}
	/* hits came before this request: keep that order for the policy */
	if (c->pins)
		fkv_pins_hits(c->pins, &c->g->cfg.ops->index, c->g->cfg.arg);
	/* what it has released since the last count is not held against it */
	if (c->pins && c->pins->pinned_bytes)
		c->charged = c->g->cfg.ops->pinned(c->g->cfg.arg, c->client,
						   fkv_pins_count(c->pins));
	c->g->cfg.ops->call(c->g->cfg.arg, call);
}

/* Broken framing: there is no way back into step. */
static void broken(struct conn *c, uint64_t id, const char *why)
{
	c->g->stats.broken++;
	c->finish = true;
	send_error(c, id, 0, -EPROTO, why);
}

/* All whole frames that were received. */
static void frames(struct conn *c)
{
	size_t at = 0;

	while (!c->closing && !c->finish &&
	       c->rx_used - at >= sizeof(struct fluxonkv_frame)) {
		struct fluxonkv_frame f;

		memcpy(&f, c->rx + at, sizeof(f));
		if (f.size < sizeof(f) || f.size > FLUXONKV_FRAME_MAX ||
		    f.zero) {
			broken(c, f.id, "a frame of 16 bytes to 1 MiB with "
			       "zero padding was expected");
			return;
		}
		if (c->rx_used - at < f.size)
			break;
		request(c, f.id, c->rx + at + sizeof(f),
			f.size - sizeof(f));
		at += f.size;
	}
	if (c->closing)
		return;
	memmove(c->rx, c->rx + at, c->rx_used - at);
	c->rx_used -= at;
}

/* Room for the frame that is being received. */
static int rx_grow(struct conn *c)
{
	size_t want = RX_START;
	struct fluxonkv_frame f;
	void *p;

	if (c->rx_used >= sizeof(f)) {
		memcpy(&f, c->rx, sizeof(f));
		if (f.size > want)
			want = fkv_align_up(f.size, 4096);
	}
	if (want <= c->rx_room)
		return 0;
	p = fkv_realloc(c->rx, want);
	if (!p)
		return -ENOMEM;
	c->rx = p;
	c->rx_room = want;
	return 0;
}

static void conn_read(struct conn *c)
{
	for (int i = 0; i < 16 && !c->closing && !c->finish; i++) {
		ssize_t n;

		if (rx_grow(c)) {
			conn_close(c);
			return;
		}
		n = recv(c->fd, c->rx + c->rx_used, c->rx_room - c->rx_used,
			 MSG_DONTWAIT);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
			return;
		if (n <= 0) {
			conn_close(c);
			return;
		}
		c->rx_used += (size_t)n;
		if (c->rx_used >= sizeof(struct fluxonkv_frame))
			frames(c);
	}
}

static void conn_ready(uv_poll_t *h, int status, int events)
{
	struct conn *c = h->data;

	if (status < 0) {
		conn_close(c);
		return;
	}
	if (events & UV_WRITABLE && !tx_flush(c)) {
		conn_close(c);
		return;
	}
	if (events & (UV_READABLE | UV_DISCONNECT))
		conn_read(c);
	if (c->closing)
		return;
	if (c->finish && TAILQ_EMPTY(&c->tx))
		conn_close(c);
	else
		conn_events(c);
}

/* A client that does not read its replies is not read from. */
static void conn_events(struct conn *c)
{
	int events = 0;

	if (c->closing)
		return;
	if (!TAILQ_EMPTY(&c->tx))
		events |= UV_WRITABLE;
	if (c->tx_bytes < TX_MAX)
		events |= UV_READABLE;
	if (events == c->events)
		return;
	c->events = events;
	uv_poll_start(&c->poll, events, conn_ready);
}

static int conn_create(struct fkv_gateway *g, int fd)
{
	struct conn *c = fkv_zalloc(sizeof(*c));
	struct ucred cred;
	socklen_t n = sizeof(cred);

	if (!c)
		return -ENOMEM;
	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &cred, &n)) {
		fkv_free(c);
		return -errno;
	}
	c->g = g;
	c->fd = fd;
	c->uid = cred.uid;
	c->pid = cred.pid;
	c->client = g->next_client++;
	TAILQ_INIT(&c->tx);
	if (uv_poll_init(g->loop, &c->poll, fd)) {
		fkv_free(c);
		return -EIO;
	}
	c->poll.data = c;
	fkv_table_add(&g->conns, &c->node, c->client);
	g->stats.connections++;
	g->stats.accepted++;
	conn_events(c);
	return 0;
}

static void accept_ready(uv_poll_t *h, int status, int events)
{
	struct fkv_gateway *g = h->data;

	(void)events;
	if (status < 0)
		return;
	for (int i = 0; i < 64; i++) {
		int fd = accept4(g->fd, NULL, NULL,
				 SOCK_CLOEXEC | SOCK_NONBLOCK);

		if (fd < 0)
			return;
		if (g->stats.connections >= FKV_CLIENTS_MAX ||
		    conn_create(g, fd)) {
			g->stats.refused++;
			close(fd);
		}
	}
}

static int socket_open(const struct fkv_gateway_config *cfg, char *err,
		       size_t size)
{
	struct sockaddr_un sa = { .sun_family = AF_UNIX };
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
	*ret = g;
	return 0;

err_free:
	fkv_free(g);
	return res;
}

void fkv_gateway_listen(struct fkv_gateway *g)
{
	fkv_assert(!listen(g->fd, 256));
	fkv_assert(!uv_poll_init(g->loop, &g->poll, g->fd));
	g->poll.data = g;
	g->polling = true;
	uv_poll_start(&g->poll, UV_READABLE, accept_ready);
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
}

void fkv_gateway_close_all(struct fkv_gateway *g)
{
	struct fkv_node *n;
	uint64_t pos;

	fkv_gateway_stop_accept(g);
	for (pos = 0; (n = fkv_table_walk(&g->conns, &pos, NULL)); pos = 0)
		conn_close(fkv_container_of(n, struct conn, node));
}

void fkv_gateway_free(struct fkv_gateway *g)
{
	if (!g)
		return;
	fkv_assert(!g->conns.count);
	close(g->fd);
	fkv_table_done(&g->conns);
	fkv_free(g);
}

void fkv_gateway_hits(struct fkv_gateway *g)
{
	struct fkv_node *n = NULL;
	uint64_t pos = 0;

	while ((n = fkv_table_walk(&g->conns, &pos, n))) {
		struct conn *c = fkv_container_of(n, struct conn, node);

		if (c->pins)
			fkv_pins_hits(c->pins, &g->cfg.ops->index,
				      g->cfg.arg);
	}
}

/* The library keeps to its cap; who does not is closed (H4). */
static void close_over_cap(struct fkv_gateway *g)
{
	struct fkv_node *n = NULL;
	uint64_t pos = 0;

	while ((n = fkv_table_walk(&g->conns, &pos, n))) {
		struct conn *c = fkv_container_of(n, struct conn, node);

		if (!c->pins || c->pins->pinned_bytes + c->charged <=
				g->cfg.client_cap)
			continue;
		g->stats.over_cap++;
		conn_close(c);
		/* that may have closed others, too: from the start */
		pos = 0;
		n = NULL;
	}
}

/* What each client pins by itself counts against its caps, too. */
static void report_pins(struct fkv_gateway *g)
{
	struct fkv_node *n = NULL;
	uint64_t pos = 0;

	while ((n = fkv_table_walk(&g->conns, &pos, n))) {
		struct conn *c = fkv_container_of(n, struct conn, node);

		if (c->pins && c->hello)
			c->charged = g->cfg.ops->pinned(g->cfg.arg, c->client,
						c->pins->pinned_bytes);
	}
}

uint64_t fkv_gateway_count_pins(struct fkv_gateway *g)
{
	uint64_t bytes;

	if (!g->cfg.index)
		return 0;
	bytes = fkv_index_count(g->cfg.index);
	report_pins(g);
	if (g->cfg.client_cap)
		close_over_cap(g);
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
	struct conn *c = conn_find(g, client);

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
