// SPDX-License-Identifier: Apache-2.0
/*
 * rpc_conn.c - one connection: handshake, sealed frames in and out, silence
 */
#include <errno.h>
#include <sodium.h>

#include "base/log.h"
#include "io/rpc_internal.h"
#include "wire/bytes.h"

#define LENGTH		4u
#define RX_START	(16u * 1024)
#define PAUSE_AT	(FKV_RPC_TX_MAX / 2)

struct tx {
	uv_write_t req;
	struct fkv_rpc_conn *conn;
	size_t size;
	uint8_t data[];
};

static void say_refused(struct fkv_rpc_conn *c, const char *why)
{
	static struct fkv_log_limit limit;

	c->r->stats.refused++;
	if (fkv_log_allowed(&limit, 10 * FKV_SEC))
		fkv_log(FKV_LOG_WARN, "cluster connection refused: %s "
			"(refused=%llu)", why,
			(unsigned long long)c->r->stats.refused);
}

struct fkv_rpc_conn *fkv_rpc_conn_create(struct fkv_rpc *r)
{
	struct fkv_rpc_conn *c = fkv_zalloc(sizeof(*c));

	if (!c)
		return NULL;
	if (uv_tcp_init(r->loop, &c->tcp)) {
		fkv_free(c);
		return NULL;
	}
	c->r = r;
	c->tcp.data = c;
	c->timer.kind = FKV_RPC_T_CONN;
	TAILQ_INIT(&c->calls);
	fkv_table_add(&r->conns, &c->node, r->next_conn++);
	r->handles++;
	r->stats.connections++;
	return c;
}

static void closed(uv_handle_t *h)
{
	struct fkv_rpc_conn *c = h->data;

	c->r->handles--;
	fkv_auth_done(&c->auth);
	fkv_free(c->rx);
	fkv_free(c);
}

static void stranger_no_more(struct fkv_rpc_conn *c)
{
	if (!c->stranger)
		return;
	TAILQ_REMOVE(&c->r->strangers, c, link);
	c->r->stats.strangers--;
	c->stranger = false;
}

void fkv_rpc_conn_close(struct fkv_rpc_conn *c, const char *why)
{
	if (c->closing)
		return;
	c->closing = true;
	stranger_no_more(c);
	fkv_timer_clear(&c->r->timers, &c->timer);
	fkv_table_del(&c->r->conns, &c->node);
	c->r->stats.connections--;
	uv_close((uv_handle_t *)&c->tcp, closed);
	fkv_rpc_calls_end(c, c->r->closing ? -ECANCELED : -ECONNRESET);
	if (c->peer)
		fkv_rpc_peer_lost(c, why);
}

static void broken(struct fkv_rpc_conn *c, const char *why)
{
	if (c->closing)
		return;
	c->r->stats.broken++;
	fkv_rpc_conn_close(c, why);
}

void fkv_rpc_conn_finish(struct fkv_rpc_conn *c)
{
	c->finish = true;
	if (!c->tx_bytes)
		fkv_rpc_conn_doom(c, "finished");
}

void fkv_rpc_conn_doom(struct fkv_rpc_conn *c, const char *why)
{
	c->doomed = why;
	fkv_timer_set(&c->r->timers, &c->timer, fkv_clock_ns());
}

/* ---- out ---- */

static void read_on(struct fkv_rpc_conn *c);

static void written(uv_write_t *req, int status)
{
	struct tx *tx = fkv_container_of(req, struct tx, req);
	struct fkv_rpc_conn *c = tx->conn;

	c->tx_bytes -= tx->size;
	fkv_free(tx);
	if (c->closing)
		return;
	if (status < 0) {
		fkv_rpc_conn_close(c, uv_strerror(status));
		return;
	}
	if (c->finish && !c->tx_bytes) {
		fkv_rpc_conn_close(c, "finished");
		return;
	}
	if (c->paused) {
		/* nothing can be heard of it, but it reads */
		c->heard_ns = fkv_clock_ns();
		if (c->tx_bytes < PAUSE_AT)
			read_on(c);
	}
	if (c->peer && !c->closing)
		fkv_rpc_peer_flush(c->peer);
	fkv_rpc_arm(c->r);
}

static struct tx *tx_create(struct fkv_rpc_conn *c, size_t body)
{
	struct tx *tx = fkv_zalloc(sizeof(*tx) + LENGTH + body);

	if (!tx)
		return NULL;
	tx->conn = c;
	tx->size = LENGTH + body;
	fkv_put32(tx->data, (uint32_t)body);
	return tx;
}

static int tx_write(struct tx *tx)
{
	uv_buf_t buf = uv_buf_init((char *)tx->data, (unsigned int)tx->size);
	struct fkv_rpc_conn *c = tx->conn;
	int err;

	c->tx_bytes += tx->size;
	err = uv_write(&tx->req, (uv_stream_t *)&c->tcp, &buf, 1, written);
	if (!err)
		return 0;
	c->tx_bytes -= tx->size;
	fkv_free(tx);
	return err;
}

int fkv_rpc_conn_send(struct fkv_rpc_conn *c, const void *head,
		      size_t head_len, const void *body, size_t len)
{
	size_t plain = head_len + len;
	struct tx *tx;

	if (c->closing || c->finish || c->doomed)
		return -ENOTCONN;
	if (c->tx_bytes + plain > FKV_RPC_TX_MAX)
		return -EAGAIN;
	tx = tx_create(c, plain + FKV_AUTH_SEAL);
	if (!tx)
		return -ENOMEM;
	memcpy(tx->data + LENGTH, head, head_len);
	if (len)
		memcpy(tx->data + LENGTH + head_len, body, len);
	fkv_auth_seal(&c->auth, tx->data + LENGTH, plain);
	return tx_write(tx);
}

static void send_kind(struct fkv_rpc_conn *c, uint8_t kind)
{
	fkv_rpc_conn_send(c, &kind, 1, NULL, 0);
}

static int send_handshake(struct fkv_rpc_conn *c, const struct fkv_auth_out *o)
{
	struct tx *tx;

	if (!o->len)
		return 0;
	tx = tx_create(c, o->len);
	if (!tx)
		return -ENOMEM;
	memcpy(tx->data + LENGTH, o->data, o->len);
	return tx_write(tx);
}

/* ---- in ---- */

static void sealed_in(struct fkv_rpc_conn *c, uint8_t *p, size_t len)
{
	size_t n;

	if (fkv_auth_open(&c->auth, p, len, &n) || !n) {
		broken(c, "a frame with a wrong seal");
		return;
	}
	switch (p[0]) {
	case FKV_RPC_SESSION:
		fkv_rpc_peer_session(c, p + 1, n - 1);
		break;
	case FKV_RPC_REQUEST:
		fkv_rpc_request_in(c, p, n);
		break;
	case FKV_RPC_REPLY:
		fkv_rpc_reply_in(c, p, n);
		break;
	case FKV_RPC_PING:
		send_kind(c, FKV_RPC_PONG);
		break;
	case FKV_RPC_PONG:
		break;
	case FKV_RPC_REFUSED:
		fkv_rpc_peer_refused(c, n == 8 ? -(int)fkv_get32(p + 4) :
						 -EPROTO);
		break;
	default:
		broken(c, "a frame of unknown kind");
	}
}

static void handshake_in(struct fkv_rpc_conn *c, const uint8_t *p, size_t len)
{
	struct fkv_auth_out out;
	const char *why = NULL;
	int err = fkv_auth_input(&c->auth, p, len, &out, &why);

	if (err) {
		say_refused(c, why);
		/* the reason, if there is one to tell, and no more */
		if (send_handshake(c, &out) || !out.len)
			fkv_rpc_conn_close(c, why);
		else
			fkv_rpc_conn_finish(c);
		return;
	}
	if (send_handshake(c, &out)) {
		fkv_rpc_conn_close(c, "out of memory");
		return;
	}
	if (c->auth.state != FKV_AUTH_OPEN)
		return;
	stranger_no_more(c);
	c->up_ns = fkv_clock_ns();
	fkv_timer_set(&c->r->timers, &c->timer, c->up_ns + c->r->times.ping_ns);
	fkv_rpc_peer_opened(c);
}

static size_t frame_max(const struct fkv_rpc_conn *c)
{
	return c->auth.state == FKV_AUTH_OPEN ? FKV_FRAME_MAX - LENGTH :
						FKV_AUTH_MSG_MAX;
}

/* All whole frames that were received. */
static void frames(struct fkv_rpc_conn *c)
{
	size_t at = 0;

	while (!c->closing && !c->finish && !c->paused && !c->doomed &&
	       c->rx_used - at >= LENGTH) {
		size_t n = fkv_get32(c->rx + at);
		uint8_t *p = c->rx + at + LENGTH;

		if (!n || n > frame_max(c)) {
			if (c->stranger)
				say_refused(c, "no frame of a handshake");
			broken(c, "a frame of a length that none has");
			return;
		}
		if (c->rx_used - at - LENGTH < n)
			break;
		at += LENGTH + n;
		if (c->auth.state == FKV_AUTH_OPEN)
			sealed_in(c, p, n);
		else
			handshake_in(c, p, n);
		if (!c->closing && c->tx_bytes >= PAUSE_AT) {
			c->paused = true;
			uv_read_stop((uv_stream_t *)&c->tcp);
		}
	}
	if (c->closing)
		return;
	memmove(c->rx, c->rx + at, c->rx_used - at);
	c->rx_used -= at;
}

/* Room for the frame that is being received; its length was checked. */
static void on_alloc(uv_handle_t *h, size_t size, uv_buf_t *buf)
{
	struct fkv_rpc_conn *c = h->data;
	size_t want = RX_START;
	void *p;

	(void)size;
	if (c->rx_used >= LENGTH) {
		size_t n = LENGTH + fkv_get32(c->rx);

		if (n > want && n <= FKV_FRAME_MAX)
			want = fkv_align_up(n, 4096);
	}
	*buf = uv_buf_init(NULL, 0);
	if (want > c->rx_room || (want == RX_START && c->rx_room > RX_START &&
				  c->rx_used <= RX_START)) {
		p = fkv_realloc(c->rx, want);
		if (!p)
			return;
		c->rx = p;
		c->rx_room = want;
	}
	*buf = uv_buf_init((char *)c->rx + c->rx_used,
			   (unsigned int)(c->rx_room - c->rx_used));
}

static void on_read(uv_stream_t *s, ssize_t n, const uv_buf_t *buf)
{
	struct fkv_rpc_conn *c = s->data;

	(void)buf;
	if (c->closing || !n)
		return;
	if (n < 0) {
		fkv_rpc_conn_close(c, n == UV_EOF ? "closed by the peer" :
						    uv_strerror((int)n));
	} else {
		c->rx_used += (size_t)n;
		c->heard_ns = fkv_clock_ns();
		frames(c);
	}
	fkv_rpc_arm(c->r);
}

/* It reads again: go on with what has come meanwhile. */
static void read_on(struct fkv_rpc_conn *c)
{
	c->paused = false;
	frames(c);
	if (!c->closing && !c->paused)
		uv_read_start((uv_stream_t *)&c->tcp, on_alloc, on_read);
}

/* The socket is connected: shake hands. */
int fkv_rpc_conn_begin(struct fkv_rpc_conn *c, bool dialer)
{
	uint8_t random[FKV_AUTH_RANDOM];
	struct fkv_auth_out out;
	uint64_t now = fkv_clock_ns();
	int err;

	randombytes_buf(random, sizeof(random));
	err = fkv_auth_init(&c->auth, &c->r->cfg.self, dialer, random, &out);
	sodium_memzero(random, sizeof(random));
	uv_tcp_nodelay(&c->tcp, 1);
	if (!err)
		err = send_handshake(c, &out);
	if (!err)
		err = uv_read_start((uv_stream_t *)&c->tcp, on_alloc, on_read);
	c->heard_ns = now;
	fkv_timer_set(&c->r->timers, &c->timer,
		      now + c->r->times.handshake_ns);
	return err;
}

void fkv_rpc_conn_timer(struct fkv_rpc_conn *c, uint64_t now_ns)
{
	const struct fkv_rpc_times *t = &c->r->times;

	if (c->doomed) {
		fkv_rpc_conn_close(c, c->doomed);
		return;
	}
	if (c->auth.state != FKV_AUTH_OPEN || c->finish) {
		if (c->stranger)
			say_refused(c, "no handshake in time");
		fkv_rpc_conn_close(c, "no handshake in time");
		return;
	}
	if (now_ns - c->heard_ns >= t->silent_ns) {
		c->r->stats.silent++;
		fkv_rpc_conn_close(c, "nothing was heard of it");
		return;
	}
	if (now_ns - c->heard_ns >= t->ping_ns)
		send_kind(c, FKV_RPC_PING);
	fkv_timer_set(&c->r->timers, &c->timer, now_ns + t->ping_ns);
}
