// SPDX-License-Identifier: Apache-2.0
/*
 * tcp_conn.c - one TCP connection: handshake, frames in and out
 *
 * Payload goes by sendmsg(2) from the segment, and by recvmsg(2) to where an op
 * of this host has it: that is asked for each frame before a byte of it is
 * read.
 */
#include <sodium.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include "base/log.h"
#include "io/tcp_internal.h"
#include "wire/bytes.h"

/* What one connection may do before it is another one's turn. */
#define BUDGET		(4 * FKV_MIB)

static void lost(struct fkv_tcp_conn *c, int err)
{
	fkv_data_chan_close(&c->chan, err, FKV_FAULT_TRANSPORT);
}

/* The other end breaks the rules. */
static void broken(struct fkv_tcp_conn *c)
{
	fkv_data_count(&c->chan.x->broken, 1);
	lost(c, -EPROTO);
}

static void say_refused(const struct fkv_tcp_conn *c, const char *why)
{
	static struct fkv_log_limit limit;

	fkv_data_count(&c->chan.x->refused, 1);
	if (fkv_log_allowed(&limit, 10 * FKV_SEC))
		fkv_log(FKV_LOG_WARN, "data connection refused: %s "
			"(refused=%llu)", why,
			(unsigned long long)c->chan.x->refused);
}

/* ---- control frames ---- */

/* Room for @n bytes, or NULL: then it is doomed, for it reads nothing. */
static uint8_t *control(struct fkv_tcp_conn *c, size_t n)
{
	uint8_t *p;

	if (c->control_from) {
		memmove(c->control, c->control + c->control_from,
			c->control_to - c->control_from);
		c->control_to -= c->control_from;
		c->control_from = 0;
	}
	fkv_tcp_dirty(c);
	if (c->control_to + n > sizeof(c->control)) {
		c->doomed = -ENOBUFS;
		return NULL;
	}
	p = c->control + c->control_to;
	c->control_to += n;
	return p;
}

static void seal(struct fkv_tcp_conn *c, const struct fkv_frame *f, uint8_t *to)
{
	fkv_frame_make(f, to);
	fkv_auth_seal(&c->auth, to, FKV_FRAME_HEAD);
}

void fkv_tcp_say(struct fkv_tcp_conn *c, const struct fkv_frame *f)
{
	uint8_t *p = control(c, FKV_TCP_HEAD);

	if (p)
		seal(c, f, p);
}

static void say_handshake(struct fkv_tcp_conn *c, const struct fkv_auth_out *o)
{
	uint8_t *p = o->len ? control(c, FKV_TCP_LENGTH + o->len) : NULL;

	if (!p)
		return;
	fkv_put32(p, (uint32_t)o->len);
	memcpy(p + FKV_TCP_LENGTH, o->data, o->len);
}

/* ---- handshake ---- */

void fkv_tcp_begin(struct fkv_tcp_conn *c)
{
	uint8_t random[FKV_AUTH_RANDOM];
	struct fkv_auth_out out;

	randombytes_buf(random, sizeof(random));
	/* its names were checked */
	fkv_assert(!fkv_auth_init(&c->auth, &c->chan.x->self, c->chan.dialled,
				  random, &out));
	sodium_memzero(random, sizeof(random));
	say_handshake(c, &out);
	fkv_tcp_interest(c, EPOLLIN);
}

/* Is it the life that was meant to be dialled (T3)? */
static bool is_meant(const struct fkv_tcp_conn *c)
{
	const struct fkv_data_peer *p = c->chan.peer;

	return c->auth.peer_incarnation == p->incarnation &&
	       !strcmp(c->auth.peer_name, p->name);
}

static void opened(struct fkv_tcp_conn *c)
{
	struct fkv_frame f = {
		.kind = FKV_FRAME_ATTACH, .slot = c->chan.slot,
		.op = c->chan.generation,
	};

	if (!c->chan.dialled)
		return;
	if (is_meant(c))
		fkv_tcp_say(c, &f);
	else
		lost(c, -ESTALE);
}

static void handshake_in(struct fkv_tcp_conn *c, size_t len)
{
	struct fkv_auth_out out;
	const char *why = NULL;
	int err = fkv_auth_input(&c->auth, c->in + FKV_TCP_LENGTH, len, &out,
				 &why);

	c->in_len = 0;
	say_handshake(c, &out);
	if (err)
		say_refused(c, why);
	if (err && (c->chan.dialled || !out.len))
		lost(c, err);
	else if (err)
		c->finish = true;
	else if (c->auth.state == FKV_AUTH_OPEN)
		opened(c);
}

/* ---- frames in ---- */

static void attach_in(struct fkv_tcp_conn *c, const struct fkv_frame *f)
{
	struct fkv_frame reply = {
		.kind = FKV_FRAME_ATTACHED, .op = f->op,
		.status = fkv_data_chan_attach(&c->chan, &c->auth, f),
	};

	fkv_tcp_known(c);
	if (reply.status)
		fkv_data_count(&c->chan.x->refused, 1);
	c->finish = reply.status != 0;
	fkv_tcp_say(c, &reply);
}

static void attached_in(struct fkv_tcp_conn *c, const struct fkv_frame *f)
{
	if (f->op != c->chan.generation)
		broken(c);
	else if (f->status)
		lost(c, f->status);
	else
		fkv_data_chan_up(&c->chan);
}

static void data_in(struct fkv_tcp_conn *c, const struct fkv_frame *f)
{
	c->body = fkv_data_op_data(&c->chan, f, &c->op);
	if (!c->body) {
		broken(c);
		return;
	}
	c->body_left = c->body_len = f->len;
}

static void frame_in(struct fkv_tcp_conn *c, const struct fkv_frame *f)
{
	bool up = c->chan.state == FKV_CHAN_UP;
	int err = -EPROTO;

	if (f->kind == FKV_FRAME_ATTACH && !up) {
		attach_in(c, f);
		return;
	}
	if (f->kind == FKV_FRAME_ATTACHED && !up) {
		attached_in(c, f);
		return;
	}
	if (up && f->kind == FKV_FRAME_DATA) {
		data_in(c, f);
		return;
	}
	if (up && f->kind == FKV_FRAME_PULL)
		err = fkv_data_serve(&c->chan, f);
	else if (up && f->kind == FKV_FRAME_TARGET)
		err = fkv_data_offered(&c->chan, f);
	else if (up && f->kind == FKV_FRAME_END)
		err = fkv_data_op_ended(&c->chan, f);
	if (err)
		broken(c);
}

static void head_in(struct fkv_tcp_conn *c)
{
	struct fkv_frame f;
	size_t n;

	c->in_len = 0;
	if (fkv_auth_open(&c->auth, c->in, FKV_TCP_HEAD, &n) ||
	    fkv_frame_parse(c->in, !c->chan.dialled, &f))
		broken(c);
	else
		frame_in(c, &f);
}

/* Bytes that were received, or 0: none any more, or not now. */
static size_t receive(struct fkv_tcp_conn *c, struct iovec *iov, size_t n)
{
	struct msghdr m = { .msg_iov = iov, .msg_iovlen = n };
	ssize_t k = recvmsg(c->fd, &m, MSG_DONTWAIT);

	if (k > 0)
		return (size_t)k;
	if (!k)
		lost(c, -ECONNRESET);
	else if (errno != EAGAIN && errno != EINTR)
		lost(c, -errno);
	return 0;
}

/* Not a byte more than the message has: what follows may not be one. */
static size_t read_handshake(struct fkv_tcp_conn *c)
{
	size_t want = FKV_TCP_LENGTH, n;
	struct iovec iov;

	if (c->in_len >= FKV_TCP_LENGTH)
		want += fkv_get32(c->in);
	iov = (struct iovec){ c->in + c->in_len, want - c->in_len };
	n = receive(c, &iov, 1);
	c->in_len += n;
	if (c->fd < 0 || c->in_len < FKV_TCP_LENGTH)
		return n;
	want = fkv_get32(c->in);
	if (!want || want > FKV_AUTH_MSG_MAX) {
		say_refused(c, "no frame of a handshake");
		lost(c, -EPROTO);
	} else if (c->in_len == FKV_TCP_LENGTH + want) {
		handshake_in(c, want);
	}
	return n;
}

/* The rest of a payload, and the head that follows it. */
static size_t read_frames(struct fkv_tcp_conn *c)
{
	struct iovec iov[] = {
		{ c->body, c->body_left },
		{ c->in + c->in_len, FKV_TCP_HEAD - c->in_len },
	};
	bool body = c->body_left;
	size_t n = receive(c, body ? iov : iov + 1, body ? 2 : 1);
	size_t k = fkv_min_u64(n, c->body_left);

	if (!n)
		return 0;
	c->body += k;
	c->body_left -= k;
	if (body && !c->body_left)
		fkv_data_op_progress(c->op, c->body_len);
	c->in_len += n - k;
	if (c->in_len == FKV_TCP_HEAD)
		head_in(c);
	return n;
}

void fkv_tcp_readable(struct fkv_tcp_conn *c)
{
	uint64_t sum = 0;
	size_t n = 1;

	while (n && sum < BUDGET && c->fd >= 0 && !c->finish && !c->doomed) {
		if (c->auth.state == FKV_AUTH_OPEN)
			n = read_frames(c);
		else
			n = read_handshake(c);
		sum += n;
	}
	/* it is to hear why and go, not to say more */
	if (c->finish)
		fkv_tcp_interest(c, EPOLLOUT);
}

/* ---- out ---- */

static void out_begin(struct fkv_tcp_conn *c)
{
	const struct fkv_data_out *o = &c->out;

	c->has_out = true;
	c->out_done = c->out_len = 0;
	if (o->data.len) {
		seal(c, &o->data, c->head);
		c->out_len += FKV_TCP_HEAD + o->data.len;
	}
	if (o->end) {
		seal(c, &o->last, c->tail);
		c->out_len += FKV_TCP_HEAD;
	}
}

/* What is left of @n bytes at @p, of which @skip in all are away already. */
static size_t rest(struct iovec *iov, const void *p, uint64_t n, uint64_t *skip)
{
	uint64_t k = fkv_min_u64(*skip, n);

	*skip -= k;
	if (k == n)
		return 0;
	iov->iov_base = (uint8_t *)p + k;
	iov->iov_len = n - k;
	return 1;
}

static size_t out_iov(const struct fkv_tcp_conn *c, struct iovec iov[3])
{
	const struct fkv_data_out *o = &c->out;
	uint64_t skip = c->out_done;
	size_t n = 0;

	if (!c->has_out) {
		iov[0].iov_base = (uint8_t *)c->control + c->control_from;
		iov[0].iov_len = c->control_to - c->control_from;
		return 1;
	}
	if (o->data.len) {
		n += rest(&iov[n], c->head, FKV_TCP_HEAD, &skip);
		n += rest(&iov[n], o->payload, o->data.len, &skip);
	}
	if (o->end)
		n += rest(&iov[n], c->tail, FKV_TCP_HEAD, &skip);
	return n;
}

static void out_sent(struct fkv_tcp_conn *c, size_t n)
{
	if (!c->has_out) {
		c->control_from += n;
		return;
	}
	c->out_done += n;
	if (c->out_done < c->out_len)
		return;
	c->has_out = false;
	fkv_data_sent(&c->chan, &c->out);
}

/* Is there something to be sent? It is made ready then. */
static bool out_next(struct fkv_tcp_conn *c)
{
	if (c->has_out || c->control_from < c->control_to)
		return true;
	if (c->chan.state != FKV_CHAN_UP || c->chan.dialled ||
	    !fkv_data_next(&c->chan, &c->out))
		return false;
	out_begin(c);
	return true;
}

/* Bytes that the kernel took; 0: none now, or it is lost. */
static size_t out_send(struct fkv_tcp_conn *c)
{
	struct iovec iov[3];
	struct msghdr m = { .msg_iov = iov, .msg_iovlen = out_iov(c, iov) };
	ssize_t k = sendmsg(c->fd, &m, MSG_DONTWAIT | MSG_NOSIGNAL);

	if (k > 0) {
		out_sent(c, (size_t)k);
		return (size_t)k;
	}
	if (k < 0 && errno != EAGAIN && errno != EINTR)
		lost(c, -errno);
	return 0;
}

void fkv_tcp_flush(struct fkv_tcp_conn *c)
{
	uint32_t in = c->finish ? 0 : EPOLLIN;
	uint64_t sum = 0;
	bool more = false;
	size_t n = 1;

	if (c->connecting)
		return;
	while (n && sum < BUDGET && c->fd >= 0) {
		more = out_next(c);
		if (!more)
			break;
		n = out_send(c);
		sum += n;
	}
	if (c->fd < 0)
		return;
	if (!more && c->finish) {
		lost(c, -ECONNRESET);
		return;
	}
	fkv_tcp_interest(c, in | (more ? EPOLLOUT : 0));
	fkv_data_chan_sending(&c->chan, more);
}
