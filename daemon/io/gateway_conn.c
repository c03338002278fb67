// SPDX-License-Identifier: Apache-2.0
/*
 * gateway_conn.c - one connection: frames in, replies and descriptors out
 */
#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "io/gateway_internal.h"
#include "io/segment.h"

#define RX_START	(16u * 1024)
#define TX_MAX		(8u * 1024 * 1024)

static void conn_events(struct fkv_gwconn *c);

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

static void tx_free(struct fkv_gwconn *c, struct fkv_tx *tx)
{
	TAILQ_REMOVE(&c->tx, tx, link);
	c->tx_bytes -= tx->size;
	fkv_free(tx);
}

static ssize_t tx_send(int fd, struct fkv_tx *tx)
{
	struct iovec iov = {
		.iov_base = tx->data + tx->sent,
		.iov_len = tx->size - tx->sent,
	};
	struct msghdr mh = { .msg_iov = &iov, .msg_iovlen = 1 };
	union {
		char buf[CMSG_SPACE(sizeof(int) * FKV_GATEWAY_FDS)];
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
static bool tx_flush(struct fkv_gwconn *c)
{
	struct fkv_tx *tx;

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

static struct fkv_tx *tx_new(size_t body, uint64_t id)
{
	struct fluxonkv_frame frame = {
		.size = (uint32_t)(sizeof(frame) + body),
		.id = id,
	};
	struct fkv_tx *tx;

	tx = fkv_zalloc(sizeof(*tx) + frame.size);
	if (!tx)
		return NULL;
	tx->size = frame.size;
	memcpy(tx->data, &frame, sizeof(frame));
	return tx;
}

static void tx_queue(struct fkv_gwconn *c, struct fkv_tx *tx)
{
	c->g->stats.replies++;
	TAILQ_INSERT_TAIL(&c->tx, tx, link);
	c->tx_bytes += tx->size;
	if (TAILQ_FIRST(&c->tx) == tx && !tx_flush(c)) {
		fkv_gateway_conn_quit(c);
		return;
	}
	if (c->finish && TAILQ_EMPTY(&c->tx))
		fkv_gateway_conn_quit(c);
	else
		conn_events(c);
}

static void send_error(struct fkv_gwconn *c, uint64_t id, uint16_t op, int err,
		       const char *text)
{
	uint8_t buf[sizeof(struct fluxonkv_rep) + FKV_TEXT_MAX];
	size_t n = fkv_reply_error(op, err, text, buf, sizeof(buf));
	struct fkv_tx *tx = tx_new(n, id);

	if (!tx) {
		fkv_gateway_conn_quit(c);
		return;
	}
	memcpy(tx->data + sizeof(struct fluxonkv_frame), buf, n);
	tx_queue(c, tx);
}

void fkv_gateway_conn_reply(struct fkv_gwconn *c,
			    const struct fkv_call *call)
{
	struct fkv_tx *tx = tx_new(fkv_reply_size(call), call->id);

	if (!tx) {
		fkv_gateway_conn_quit(c);
		return;
	}
	fkv_reply_encode(call, tx->data + sizeof(struct fluxonkv_frame));
	tx_queue(c, tx);
}

static void conn_closed(uv_handle_t *h)
{
	struct fkv_gwconn *c = h->data;
	struct fkv_tx *tx;

	while ((tx = TAILQ_FIRST(&c->tx)))
		tx_free(c, tx);
	close(c->fd);
	fkv_free(c->rx);
	fkv_free(c);
}

static void drop_pins(struct fkv_gwconn *c)
{
	if (!c->pins)
		return;
	fkv_pins_hits(c->pins, &c->g->cfg.ops->index, c->g->cfg.arg);
	fkv_pins_free(c->pins);
	c->pins = NULL;
}

/*
 * End of a connection: its pins are read a last time, then its pages go, and
 * the owner core drops what it holds.
 */
void fkv_gateway_conn_close(struct fkv_gwconn *c)
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
	drop_pins(c);
	if (c->hello)
		g->cfg.ops->gone(g->cfg.arg, c->client);
	fkv_arena_put(c->arena);
	c->arena = NULL;
	uv_close((uv_handle_t *)&c->poll, conn_closed);
}

static void quit_ready(uv_poll_t *h, int status, int events)
{
	struct fkv_gwconn *c = h->data;

	if (status < 0 || events & UV_DISCONNECT)
		fkv_gateway_conn_close(c);
}

void fkv_gateway_conn_quit(struct fkv_gwconn *c)
{
	if (c->closing || c->quit)
		return;
	if (!c->hello) {
		fkv_gateway_conn_close(c);
		return;
	}
	c->quit = true;
	/* the peer reads an end of file; its own end is not closed by this */
	shutdown(c->fd, SHUT_WR);
	uv_poll_start(&c->poll, UV_DISCONNECT, quit_ready);
}

void fkv_gateway_conn_forfeit(struct fkv_gwconn *c)
{
	fkv_gateway_conn_quit(c);
	drop_pins(c);
	c->g->cfg.ops->pinned(c->g->cfg.arg, c->client, 0);
}

static int hello_resources(struct fkv_gwconn *c, bool want_index, bool writable)
{
	int err = 0;

	if (want_index)
		err = fkv_pins_create(c->g->cfg.index, c->g->cfg.pins,
				      &c->pins);
	if (!err && !writable)
		err = arena_create(&c->arena);
	return err;
}

static void hello_send(struct fkv_gwconn *c, uint64_t id, bool writable)
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
	struct fkv_tx *tx = tx_new(sizeof(rep) + sizeof(h), id);
	uint8_t *p;

	if (!tx) {
		fkv_gateway_conn_quit(c);
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

static void hello(struct fkv_gwconn *c, uint64_t id, uint64_t time_ns)
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

static void admin_text(struct fkv_gwconn *c, uint64_t id, const char *text)
{
	struct fluxonkv_rep rep = {
		.size = sizeof(rep),
		.op = FLUXONKV_OP_ADMIN,
		.item_size = sizeof(struct fluxonkv_result),
	};
	size_t n = strlen(text);
	struct fkv_tx *tx;
	uint8_t *p;

	rep.text_len = (uint32_t)n;
	tx = tx_new(sizeof(rep) + n, id);
	if (!tx) {
		fkv_gateway_conn_quit(c);
		return;
	}
	p = tx->data + sizeof(struct fluxonkv_frame);
	memcpy(p, &rep, sizeof(rep));
	memcpy(p + sizeof(rep), text, n);
	tx_queue(c, tx);
}

static void admin(struct fkv_gwconn *c, const struct fkv_call *call)
{
	const struct fkv_gateway_config *cfg = &c->g->cfg;
	struct fkv_refusal no;
	char *text = fkv_admin_ask(cfg->ops, cfg->arg, c->uid, call, &no);

	if (text)
		admin_text(c, call->id, text);
	else
		send_error(c, call->id, call->op, no.err, no.why);
	free(text);
}

/* What a body says that it is, if it has room for that. */
static uint16_t op_of(const uint8_t *body, size_t size)
{
	struct fluxonkv_req req = { 0 };

	if (size >= sizeof(req))
		memcpy(&req, body, sizeof(req));
	return req.op;
}

static void bad_request(struct fkv_gwconn *c, uint64_t id, uint16_t op, int err,
			const char *why)
{
	c->g->stats.bad_requests++;
	/* a body that ends elsewhere than its frame says: out of step */
	if (err == -EMSGSIZE || !c->hello)
		c->finish = true;
	if (id)
		send_error(c, id, op, err, why);
	/* without memory for a release that nobody waits for: its end is */
	else if (c->finish || err == -ENOMEM)
		fkv_gateway_conn_quit(c);
}

/* May it give something to hold? */
static bool charges(const struct fkv_call *call)
{
	return call->op == FLUXONKV_OP_GET ||
	       call->op == FLUXONKV_OP_PUT_BEGIN ||
	       call->op == FLUXONKV_OP_PUT_COMMIT;
}

static void request(struct fkv_gwconn *c, uint64_t id, const uint8_t *body,
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
		bad_request(c, id, op_of(body, size), err, why);
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
	/* as it is now: the last count is of up to 100 ms ago */
	if (c->pins && charges(call))
		c->charged = c->g->cfg.ops->pinned(c->g->cfg.arg, c->client,
						   fkv_pins_count(c->pins));
	c->g->cfg.ops->call(c->g->cfg.arg, call);
}

/* Broken framing: there is no way back into step. */
static void broken(struct fkv_gwconn *c, uint64_t id, const char *why)
{
	c->g->stats.broken++;
	c->finish = true;
	send_error(c, id, 0, -EPROTO, why);
}

/* All whole frames that were received. */
static void frames(struct fkv_gwconn *c)
{
	size_t at = 0;

	while (!c->closing && !c->finish && !c->quit &&
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
static int rx_grow(struct fkv_gwconn *c)
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

static void conn_read(struct fkv_gwconn *c)
{
	for (int i = 0; i < 16 && !c->closing && !c->finish && !c->quit; i++) {
		ssize_t n;

		if (rx_grow(c)) {
			fkv_gateway_conn_quit(c);
			return;
		}
		n = recv(c->fd, c->rx + c->rx_used, c->rx_room - c->rx_used,
			 MSG_DONTWAIT);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
			return;
		if (n <= 0) {
			fkv_gateway_conn_close(c);
			return;
		}
		c->rx_used += (size_t)n;
		if (c->rx_used >= sizeof(struct fluxonkv_frame))
			frames(c);
	}
}

static void conn_ready(uv_poll_t *h, int status, int events)
{
	struct fkv_gwconn *c = h->data;

	if (status < 0) {
		fkv_gateway_conn_close(c);
		return;
	}
	if (events & UV_WRITABLE && !tx_flush(c)) {
		fkv_gateway_conn_quit(c);
		return;
	}
	if (events & (UV_READABLE | UV_DISCONNECT))
		conn_read(c);
	if (c->closing || c->quit)
		return;
	if (c->finish && TAILQ_EMPTY(&c->tx))
		fkv_gateway_conn_quit(c);
	else
		conn_events(c);
}

/* A client that does not read its replies is not read from. */
static void conn_events(struct fkv_gwconn *c)
{
	int events = 0;

	if (c->closing || c->quit)
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

int fkv_gateway_conn_create(struct fkv_gateway *g, int fd)
{
	struct fkv_gwconn *c = fkv_zalloc(sizeof(*c));
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
