// SPDX-License-Identifier: Apache-2.0
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "fork.h"

#define READ_ROOM	(64u * 1024)

/* ids of a frame that needs no memory, so that a release cannot fail */
#define ID_BATCH	((FKV_MSG_SMALL - sizeof(struct fluxonkv_frame) - \
			  sizeof(struct fluxonkv_req)) /		  \
			 sizeof(struct fluxonkv_item))

/* One caller that waits for the reply @id; lives on its stack. */
struct fkv_wait {
	uint64_t id;
	bool done;
	int err;			/* of taking the reply */
	struct fkv_reply *reply;
	pthread_cond_t woken;		/* done, dead, or nobody leads */
	TAILQ_ENTRY(fkv_wait) link;
};

static struct timespec timespec_of(uint64_t ns)
{
	return (struct timespec){
		.tv_sec = (time_t)(ns / 1000000000ULL),
		.tv_nsec = (long)(ns % 1000000000ULL),
	};
}

/* Conditions wait by the monotonic clock. */
static void cond_init(pthread_cond_t *cond)
{
	pthread_condattr_t attr;

	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(cond, &attr);
	pthread_condattr_destroy(&attr);
}

int fkv_queue_room(struct fkv_queue *q, size_t more)
{
	size_t cap = q->cap ? q->cap : 4096;
	uint8_t *data;

	if (q->off == q->len)
		q->off = q->len = 0;
	if (q->cap - q->len >= more)
		return 0;
	if (q->off) {
		memmove(q->data, q->data + q->off, q->len - q->off);
		q->len -= q->off;
		q->off = 0;
	}
	while (cap - q->len < more)
		cap *= 2;
	if (cap == q->cap)
		return 0;
	data = realloc(q->data, cap);
	if (!data)
		return -ENOMEM;
	q->data = data;
	q->cap = cap;
	return 0;
}

int fkv_queue_add(struct fkv_queue *q, const void *data, size_t size)
{
	int err = fkv_queue_room(q, size);

	if (err)
		return err;
	memcpy(q->data + q->len, data, size);
	q->len += size;
	return 0;
}

void fkv_queue_done(struct fkv_queue *q)
{
	free(q->data);
	memset(q, 0, sizeof(*q));
}

static const struct fkv_conn_ops socket_ops;

struct fkv_conn *fkv_conn_create(int fd)
{
	struct fkv_conn *conn = calloc(1, sizeof(*conn));

	if (!conn)
		return NULL;
	conn->refs = 1;
	conn->next_id = 1;
	conn->ops = &socket_ops;
	conn->fds[0] = fd;
	for (int i = 1; i < FKV_CONN_FDS; i++)
		conn->fds[i] = -1;
	pthread_mutex_init(&conn->lock, NULL);
	cond_init(&conn->sendable);
	TAILQ_INIT(&conn->waits);
	fkv_fork_add(conn);
	return conn;
}

static void wake_all(struct fkv_conn *conn)
	FKV_LOCKS(requires_capability(conn->lock));

static void wake_all(struct fkv_conn *conn)
{
	struct fkv_wait *w;

	TAILQ_FOREACH(w, &conn->waits, link)
		pthread_cond_signal(&w->woken);
	pthread_cond_broadcast(&conn->sendable);
}

void fkv_conn_kill(struct fkv_conn *conn)
{
	pthread_mutex_lock(&conn->lock);
	if (!conn->dead) {
		__atomic_store_n(&conn->dead, true, __ATOMIC_RELEASE);
		conn->ops->end(conn);
		wake_all(conn);
	}
	pthread_mutex_unlock(&conn->lock);
}

void fkv_conn_look(struct fkv_conn *conn)
{
	if (!fkv_conn_dead(conn) && conn->ops->closed(conn))
		fkv_conn_kill(conn);
}

static bool socket_closed(const struct fkv_conn *conn)
{
	struct pollfd pfd = { .fd = conn->fds[0], .events = POLLRDHUP };

	return poll(&pfd, 1, 0) > 0;
}

/*
 * Not closed: another thread may be in poll() on it. Nor for writing: to the
 * daemon that would be the end of what is still held by it.
 */
static void socket_end(struct fkv_conn *conn)
{
	shutdown(conn->fds[0], SHUT_RD);
}

/* What cannot be read or sent any more ends with its connection. */
static void out_of_memory(struct fkv_conn *conn)
{
	__atomic_store_n(&conn->no_memory, true, __ATOMIC_RELAXED);
	fkv_conn_kill(conn);
}

static int gone(const struct fkv_conn *conn)
{
	/* not ENOMEM: what was asked for may have been done */
	return fkv_lib_fail(-ENOTCONN, "%s",
			    __atomic_load_n(&conn->no_memory,
					    __ATOMIC_RELAXED) ?
			    "no memory for what the daemon sent: the "
			    "connection was given up" :
			    "the daemon closed the connection");
}

/* Wait until the socket is ready or @until: 0, or -ETIMEDOUT. */
static int wait_for(struct fkv_conn *conn, short events, uint64_t until)
{
	struct pollfd pfd = { .fd = conn->fds[0], .events = events };
	int n = poll(&pfd, 1, fkv_ms_until(until));

	if (n == 0)
		return -ETIMEDOUT;
	return n < 0 && errno != EINTR ? -errno : 0;
}

/*
 * Write from @data until all is taken or @until. Returns bytes written, which
 * are fewer at the deadline only, or -errno of a dead socket.
 */
static ssize_t write_until(struct fkv_conn *conn, const uint8_t *data,
			   size_t size, uint64_t until)
{
	size_t sent = 0;

	while (sent < size) {
		ssize_t n = send(conn->fds[0], data + sent, size - sent,
				 MSG_NOSIGNAL | MSG_DONTWAIT);

		if (n >= 0)
			sent += (size_t)n;
		else if (errno == EAGAIN) {
			int err = wait_for(conn, POLLOUT, until);

			if (err == -ETIMEDOUT)
				break;
			if (err)
				return err;
		} else if (errno != EINTR)
			return -errno;
	}
	return (ssize_t)sent;
}

/* Write what earlier senders and posts left: 0, -ETIMEDOUT or -ENOTCONN. */
static int flush(struct fkv_conn *conn, uint64_t until)
{
	struct fkv_queue *rest = &conn->rest;
	struct fkv_queue empty;

	for (;;) {
		ssize_t n = write_until(conn, rest->data + rest->off,
					rest->len - rest->off, until);

		if (n < 0)
			return -ENOTCONN;
		rest->off += (size_t)n;
		if (rest->off < rest->len)
			return -ETIMEDOUT;
		rest->off = rest->len = 0;
		pthread_mutex_lock(&conn->lock);
		if (conn->posts.len) {
			empty = *rest;
			*rest = conn->posts;
			conn->posts = empty;
		}
		pthread_mutex_unlock(&conn->lock);
		if (!rest->len)
			return 0;
	}
}

/* Become the sender by @until: 0, -ETIMEDOUT or -ENOTCONN. */
static int sender_enter(struct fkv_conn *conn, uint64_t until)
{
	struct timespec ts = timespec_of(until);
	int err = 0;

	pthread_mutex_lock(&conn->lock);
	while (conn->sending && !conn->dead && !err)
		err = pthread_cond_timedwait(&conn->sendable, &conn->lock, &ts);
	if (conn->dead)
		err = -ENOTCONN;
	else if (conn->sending)
		err = -ETIMEDOUT;
	else
		err = 0;
	if (!err)
		conn->sending = true;
	pthread_mutex_unlock(&conn->lock);
	return err;
}

/* Leave; false when posts came meanwhile that can be sent at once. */
static bool sender_leave(struct fkv_conn *conn)
{
	bool more;

	pthread_mutex_lock(&conn->lock);
	more = conn->posts.len && conn->rest.off == conn->rest.len &&
	       !conn->dead;
	if (!more) {
		conn->sending = false;
		pthread_cond_signal(&conn->sendable);
	}
	pthread_mutex_unlock(&conn->lock);
	return !more;
}

/*
 * 0: sent, or its tail is kept for the next sender. -ETIMEDOUT: not a byte of
 * it was sent.
 */
static int send_msg(struct fkv_conn *conn, const struct fkv_msg *msg,
		    uint64_t until)
{
	int err = sender_enter(conn, until);
	ssize_t n;

	if (err)
		return err;
	err = flush(conn, until);
	if (!err) {
		n = write_until(conn, msg->data, msg->size, until);
		if (n < 0)
			err = -ENOTCONN;
		else if (n == 0)
			err = -ETIMEDOUT;
		else if ((size_t)n < msg->size &&
			 fkv_queue_add(&conn->rest, msg->data + n,
				       msg->size - (size_t)n))
			err = -ENOTCONN;
	}
	if (err == -ENOTCONN)
		fkv_conn_kill(conn);
	while (!sender_leave(conn)) {
		if (flush(conn, 0) == -ENOTCONN)
			fkv_conn_kill(conn);
	}
	return err;
}

static void read_once(struct fkv_conn *conn);
static void pass_on(struct fkv_conn *conn, const struct fkv_wait *self)
	FKV_LOCKS(requires_capability(conn->lock));

/* Read what is there already, if it may be a reply nobody waits for. */
static void drain_late(struct fkv_conn *conn)
{
	bool mine;

	pthread_mutex_lock(&conn->lock);
	mine = conn->late && !conn->leader && !conn->dead;
	if (mine)
		conn->leader = true;
	pthread_mutex_unlock(&conn->lock);
	if (!mine)
		return;
	read_once(conn);
	pthread_mutex_lock(&conn->lock);
	conn->leader = false;
	pass_on(conn, NULL);
	pthread_mutex_unlock(&conn->lock);
}

/*
 * Send without waiting for anything: what a full socket does not take is kept
 * and sent by the next sender.
 */
static int post(struct fkv_conn *conn, struct fkv_msg *msg)
{
	bool mine = false;
	int err;

	fkv_msg_stamp(msg, 0, 0);
	pthread_mutex_lock(&conn->lock);
	err = conn->dead ? -ENOTCONN :
			   fkv_queue_add(&conn->posts, msg->data, msg->size);
	if (!err && !conn->sending)
		conn->sending = mine = true;
	pthread_mutex_unlock(&conn->lock);
	/* a release that is lost would hold for ever: the end releases all */
	if (err == -ENOMEM)
		out_of_memory(conn);
	if (!mine)
		return err;
	do {
		if (flush(conn, 0) == -ENOTCONN)
			fkv_conn_kill(conn);
	} while (!sender_leave(conn));
	return 0;
}

static size_t socket_post_ids(struct fkv_conn *conn, uint16_t op,
			      const uint64_t *ids, size_t n)
{
	struct fluxonkv_req req = {
		.size = sizeof(req),
		.op = op,
		.item_size = sizeof(struct fluxonkv_item),
	};
	struct fkv_msg msg;

	for (size_t at = 0; at < n; at += req.nr) {
		size_t left = n - at;

		req.nr = left < FLUXONKV_BATCH_MAX ? (uint32_t)left :
						     FLUXONKV_BATCH_MAX;
		if (fkv_msg_init(&msg, &req, 0)) {
			req.nr = ID_BATCH;
			fkv_msg_init(&msg, &req, 0);
		}
		for (uint32_t i = 0; i < req.nr; i++) {
			struct fluxonkv_item item = { .id = ids[at + i] };

			fkv_msg_add(&msg, &item, NULL);
		}
		post(conn, &msg);
		fkv_msg_done(&msg);
	}
	drain_late(conn);
	return n;
}

/* Give back what a reply that nobody waits for has in it. */
static void undo_late(struct fkv_conn *conn, const uint8_t *body, size_t size)
{
	struct fkv_reply reply = { 0 };
	uint16_t op, undo;

	if (size < sizeof(reply.rep))
		return;
	if (fkv_reply_take(&reply, body, size)) {
		out_of_memory(conn);
		return;
	}
	memcpy(&op, body + offsetof(struct fluxonkv_rep, op), sizeof(op));
	undo = op == FLUXONKV_OP_GET ? FLUXONKV_OP_RELEASE :
				       FLUXONKV_OP_PUT_ABORT;
	if ((op == FLUXONKV_OP_GET || op == FLUXONKV_OP_PUT_BEGIN) &&
	    !fkv_reply_parse(&reply, op, FKV_REPLY_ANY)) {
		for (uint32_t i = 0; i < reply.rep.nr; i++) {
			struct fluxonkv_result r = fkv_reply_result(&reply, i);

			if (!r.status && r.id)
				fkv_conn_post_id(conn, undo, r.id);
		}
	}
	fkv_reply_done(&reply);
}

/* Hand a frame to who waits for it; false when nobody does. */
static bool deliver(struct fkv_conn *conn, uint64_t id, const uint8_t *body,
		    size_t size)
{
	struct fkv_wait *w;
	bool taken = false;

	pthread_mutex_lock(&conn->lock);
	TAILQ_FOREACH(w, &conn->waits, link) {
		if (w->id == id && !w->done)
			break;
	}
	if (w) {
		w->err = fkv_reply_take(w->reply, body, size);
		/* once done and unlocked, w is gone from its waiter's stack */
		taken = !w->err;
		w->done = true;
		pthread_cond_signal(&w->woken);
	} else if (conn->late) {
		conn->late--;
	}
	pthread_mutex_unlock(&conn->lock);
	/* no memory to hand it over: nobody will know what is in it */
	return taken;
}

/* Deliver all whole frames that were read: 0, or -EPROTO. */
static int dispatch(struct fkv_conn *conn)
{
	struct fkv_queue *in = &conn->in;
	struct fluxonkv_frame f;

	while (in->len - in->off >= sizeof(f)) {
		const uint8_t *p = in->data + in->off;

		memcpy(&f, p, sizeof(f));
		if (f.size < sizeof(f) || f.size > FLUXONKV_FRAME_MAX ||
		    f.zero)
			return -EPROTO;
		if (in->len - in->off < f.size)
			return fkv_queue_room(in, f.size - (in->len - in->off));
		if (!deliver(conn, f.id, p + sizeof(f), f.size - sizeof(f)))
			undo_late(conn, p + sizeof(f), f.size - sizeof(f));
		in->off += f.size;
	}
	return 0;
}

/* Read once, as the leader. What it finds is delivered, or kills. */
static void read_once(struct fkv_conn *conn)
{
	struct fkv_queue *in = &conn->in;
	ssize_t n;

	if (in->cap - in->len < 4096 && fkv_queue_room(in, READ_ROOM)) {
		out_of_memory(conn);
		return;
	}
	n = fkv_conn_recv(conn, in->data + in->len, in->cap - in->len);
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n > 0) {
		in->len += (size_t)n;
		if (!dispatch(conn))
			return;
	}
	fkv_conn_kill(conn);
}

/* Nobody leads: wake one who waits, other than @self, to do it. Lock held. */
static void pass_on(struct fkv_conn *conn, const struct fkv_wait *self)
{
	struct fkv_wait *w;

	TAILQ_FOREACH(w, &conn->waits, link) {
		if (w != self && !w->done) {
			pthread_cond_signal(&w->woken);
			return;
		}
	}
}

static void lead(struct fkv_conn *conn, const struct fkv_wait *w,
		 uint64_t until) FKV_LOCKS(requires_capability(conn->lock));

/* Lead until @w is done, the connection is dead, or @until. Lock held. */
static void lead(struct fkv_conn *conn, const struct fkv_wait *w,
		 uint64_t until)
{
	int err = 0;

	conn->leader = true;
	while (!w->done && !conn->dead && err != -ETIMEDOUT) {
		pthread_mutex_unlock(&conn->lock);
		err = wait_for(conn, POLLIN, until);
		if (!err)
			read_once(conn);
		else if (err != -ETIMEDOUT)
			fkv_conn_kill(conn);
		pthread_mutex_lock(&conn->lock);
	}
	conn->leader = false;
}

static void await(struct fkv_conn *conn, struct fkv_wait *w, uint64_t until)
	FKV_LOCKS(requires_capability(conn->lock));

/* Wait for the reply, leading when nobody else does. Lock held. */
static void await(struct fkv_conn *conn, struct fkv_wait *w, uint64_t until)
{
	struct timespec ts = timespec_of(until);
	int err = 0;

	while (!w->done && !conn->dead && !err) {
		if (!conn->leader) {
			lead(conn, w, until);
			break;
		}
		err = pthread_cond_timedwait(&w->woken, &conn->lock, &ts);
	}
	/*
	 * Also when we did not lead: it may have been passed to us just as we
	 * gave up, and the others would sleep until their own deadlines.
	 */
	if (!conn->leader)
		pass_on(conn, w);
}

static void wait_begin(struct fkv_conn *conn, struct fkv_wait *w,
		       struct fkv_reply *reply)
{
	w->done = false;
	w->err = 0;
	w->reply = reply;
	reply->body = NULL;
	cond_init(&w->woken);
	pthread_mutex_lock(&conn->lock);
	w->id = conn->next_id++;
	TAILQ_INSERT_TAIL(&conn->waits, w, link);
	pthread_mutex_unlock(&conn->lock);
}

/* What became of it: 0 with a reply, or -errno with a sentence. */
static int wait_end(struct fkv_conn *conn, struct fkv_wait *w, int err)
{
	pthread_mutex_lock(&conn->lock);
	TAILQ_REMOVE(&conn->waits, w, link);
	if (!w->done && !err) {
		err = conn->dead ? -ENOTCONN : -ETIMEDOUT;
		conn->late += !conn->dead;
	} else if (w->done) {
		err = w->err;
	}
	pthread_mutex_unlock(&conn->lock);
	pthread_cond_destroy(&w->woken);
	if (err == -ENOTCONN)
		return gone(conn);
	if (err == -ETIMEDOUT)
		return fkv_lib_fail(err, "no answer of the daemon came by the "
				    "deadline");
	/* it was answered: what was asked for may have been done */
	if (err)
		return fkv_lib_fail(-ENOTCONN, "no memory for the daemon's "
				    "answer");
	return 0;
}

static int socket_call(struct fkv_conn *conn, struct fkv_msg *msg,
		       uint64_t deadline, struct fkv_reply *ret_reply)
{
	uint64_t now = fkv_now_ns(), until = deadline + FKV_LIB_GRACE_NS;
	struct fkv_wait w;
	int err;

	wait_begin(conn, &w, ret_reply);
	fkv_msg_stamp(msg, w.id, deadline > now ? deadline - now : 0);
	err = send_msg(conn, msg, until);
	if (!err) {
		pthread_mutex_lock(&conn->lock);
		await(conn, &w, until);
		pthread_mutex_unlock(&conn->lock);
	}
	return wait_end(conn, &w, err);
}

static const struct fkv_conn_ops socket_ops = {
	.call = socket_call,
	.post_ids = socket_post_ids,
	.closed = socket_closed,
	.end = socket_end,
};

int fkv_conn_call(struct fkv_conn *conn, struct fkv_msg *msg,
		  uint64_t deadline, struct fkv_reply *ret_reply)
{
	uint32_t nr = msg->nr;
	int err;

	if (msg->op == FLUXONKV_OP_HELLO || msg->op == FLUXONKV_OP_LIST ||
	    msg->op == FLUXONKV_OP_COUNT || msg->op == FLUXONKV_OP_ADMIN)
		nr = FKV_REPLY_ANY;
	ret_reply->body = NULL;
	err = conn->ops->call(conn, msg, deadline, ret_reply);
	if (!err)
		err = fkv_reply_parse(ret_reply, msg->op, nr);
	if (err)
		fkv_reply_done(ret_reply);
	return err;
}
