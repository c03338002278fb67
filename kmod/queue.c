// SPDX-License-Identifier: GPL-2.0-only
/*
 * queue.c - what the daemon is told and asked
 *
 * Messages cannot fail: they are embedded in what they report. Requests are
 * taken session by session in turn; each is answered once or given up once,
 * by whoever takes it out of queue->sent.
 */
#include <linux/sched/signal.h>
#include <linux/uaccess.h>

#include "internal.h"
#include "trace.h"

void fkv_queue_init(struct fkv_queue *q)
{
	spin_lock_init(&q->lock);
	mutex_init(&q->recv_lock);
	INIT_LIST_HEAD(&q->messages);
	INIT_LIST_HEAD(&q->active);
	xa_init(&q->sent);
	init_waitqueue_head(&q->recv);
	init_waitqueue_head(&q->room);
	q->next_cookie = 1;
}

void fkv_queue_message(struct fkv_instance *inst, struct fkv_message *msg)
{
	struct fkv_queue *q = &inst->queue;
	bool closed;

	spin_lock(&q->lock);
	closed = q->closed;
	if (!closed)
		list_add_tail(&msg->link, &q->messages);
	spin_unlock(&q->lock);
	if (closed)
		msg->done(msg);
	else
		wake_up_interruptible(&q->recv);
}

struct fkv_request *fkv_request_create(struct fkv_session *s, u16 op, u32 nr)
{
	struct fkv_request *req;

	req = fkv_zalloc(struct_size(req, given, nr));
	if (!req)
		return NULL;
	req->session = s;
	req->op = op;
	req->nr = nr;
	refcount_set(&req->refs, 1);
	init_waitqueue_head(&req->wait);
	return req;
}

/* What nobody took over ends here. */
static void given_drop(struct fkv_instance *inst, struct fkv_given *g)
{
	if (g->entry)
		fkv_entry_put(g->entry);
	fkv_release_send(inst, g->release);
	if (g->put)
		fkv_put_put(g->put);
}

void fkv_request_finish(struct fkv_request *req)
{
	for (u32 i = 0; i < req->nr; i++)
		given_drop(req->session->inst, &req->given[i]);
	fkv_request_put(req);
}

/* Its session may be gone by now: only its own memory. */
void fkv_request_put(struct fkv_request *req)
{
	if (!refcount_dec_and_test(&req->refs))
		return;
	kvfree(req->reply);
	kvfree(req->body);
	kvfree(req);
}

static bool has_room(struct fkv_session *s)
{
	const struct fkv_queue *q = &s->inst->queue;

	return READ_ONCE(q->closed) ||
	       (READ_ONCE(s->nr_requests) < FKV_SESSION_REQUESTS &&
		READ_ONCE(q->nr) < FKV_INSTANCE_REQUESTS);
}

/* Under queue->lock: 0, -EAGAIN without room, -ENOTCONN. */
static int enqueue(struct fkv_request *req)
{
	struct fkv_session *s = req->session;
	struct fkv_queue *q = &s->inst->queue;

	if (q->closed)
		return -ENOTCONN;
	if (!has_room(s))
		return -EAGAIN;
	q->nr++;
	s->nr_requests++;
	req->queued = true;
	list_add_tail(&req->link, &s->requests);
	if (list_empty(&s->active))
		list_add_tail(&s->active, &q->active);
	return 0;
}

static int cookie_take(struct fkv_queue *q, struct fkv_request *req)
{
	spin_lock(&q->lock);
	req->cookie = q->next_cookie++;
	spin_unlock(&q->lock);
	return xa_err(xa_store(&q->sent, req->cookie, req,
			       FKV_GFP));
}

static int post(struct fkv_request *req, long *left)
{
	struct fkv_session *s = req->session;
	struct fkv_queue *q = &s->inst->queue;
	int err = cookie_take(q, req);

	if (err)
		return err;
	refcount_inc(&req->refs);	/* the queue's */
	for (;;) {
		spin_lock(&q->lock);
		err = enqueue(req);
		spin_unlock(&q->lock);
		if (err != -EAGAIN)
			break;
		*left = wait_event_killable_timeout(q->room, has_room(s),
						    *left);
		err = !*left ? -ETIMEDOUT : *left < 0 ? -EINTR : 0;
		if (err)
			break;
	}
	if (err) {
		/* under the lock: claim() may look at it by its cookie */
		spin_lock(&q->lock);
		xa_erase(&q->sent, req->cookie);
		spin_unlock(&q->lock);
		fkv_request_put(req);
		return err;
	}
	wake_up_interruptible(&q->recv);
	return 0;
}

/* Under queue->lock: it is nobody's to send any more. */
static void unqueue(struct fkv_queue *q, struct fkv_request *req)
{
	struct fkv_session *s = req->session;

	if (req->queued) {
		list_del(&req->link);
		req->queued = false;
	}
	if (list_empty(&s->requests))
		list_del_init(&s->active);
	q->nr--;
	s->nr_requests--;
}

static struct fkv_request *claim(struct fkv_queue *q, u64 cookie, bool sent)
{
	struct fkv_request *req;

	spin_lock(&q->lock);
	req = xa_load(&q->sent, cookie);
	/* by its number alone: it may be gone, or not posted yet */
	if (req && (sent ? req->sent : req->sent || req->queued)) {
		xa_erase(&q->sent, cookie);
		unqueue(q, req);
	} else {
		req = NULL;
	}
	spin_unlock(&q->lock);
	if (req)
		wake_up(&q->room);
	return req;
}

struct fkv_request *fkv_request_claim(struct fkv_instance *inst, u64 cookie)
{
	return claim(&inst->queue, cookie, true);
}

void fkv_request_done(struct fkv_request *req, int status)
{
	req->status = status;
	/* pairs with the load of the one who waits: given[] is complete */
	smp_store_release(&req->done, true);
	wake_up(&req->wait);
	fkv_request_put(req);
}

static bool is_done(struct fkv_request *req)
{
	return smp_load_acquire(&req->done);
}

static long jiffies_of(u64 wait_ns)
{
	u64 max = (u64)MAX_SCHEDULE_TIMEOUT / 2;

	return min_t(u64, nsecs_to_jiffies64(wait_ns) + 1, max);
}

int fkv_request_run(struct fkv_request *req, u64 wait_ns)
{
	struct fkv_queue *q = &req->session->inst->queue;
	u64 cookie, began = ktime_get_ns();
	long left = jiffies_of(wait_ns);
	int err;

	req->queued_ns = began;
	err = post(req, &left);
	if (err)
		return err;
	cookie = req->cookie;
	left = wait_event_killable_timeout(req->wait, is_done(req), left);
	if (!is_done(req) && claim(q, cookie, false)) {
		fkv_request_put(req);	/* the queue's */
		err = left < 0 ? -EINTR : -ETIMEDOUT;
	} else {
		/* it is being answered at this moment */
		wait_event(req->wait, is_done(req));
		err = req->status;
	}
	trace_fluxonkv_wait(req->session->id, cookie, req->op, err,
			    ktime_get_ns() - began);
	return err;
}

static void messages_drop(struct list_head *list)
{
	struct fkv_message *m, *next;

	list_for_each_entry_safe(m, next, list, link) {
		list_del(&m->link);
		m->done(m);
		cond_resched();
	}
}

void fkv_queue_close(struct fkv_instance *inst)
{
	struct fkv_queue *q = &inst->queue;
	struct fkv_request *req;
	unsigned long cookie;
	LIST_HEAD(messages);

	spin_lock(&q->lock);
	q->closed = true;
	list_splice_init(&q->messages, &messages);
	spin_unlock(&q->lock);
	wake_up_all(&q->room);
	xa_for_each(&q->sent, cookie, req) {
		req = claim(q, cookie, false);
		if (req)
			fkv_request_done(req, -ENOTCONN);
	}
	messages_drop(&messages);
}

/* ---- RECV ---- */

struct recv {
	u8 __user *to;
	u32 room, used, nr;
};

static int put_message(struct recv *r, const struct fluxonkv_message *m,
		       const void *body)
{
	if (m->size > r->room - r->used)
		return -EMSGSIZE;
	if (copy_to_user(r->to + r->used, m, sizeof(*m)))
		return -EFAULT;
	if (m->body_size &&
	    copy_to_user(r->to + r->used + sizeof(*m), body, m->body_size))
		return -EFAULT;
	if (clear_user(r->to + r->used + sizeof(*m) + m->body_size,
		       m->size - sizeof(*m) - m->body_size))
		return -EFAULT;
	r->used += m->size;
	r->nr++;
	return 0;
}

static struct fkv_message *message_pop(struct fkv_queue *q)
{
	struct fkv_message *m;

	spin_lock(&q->lock);
	m = list_first_entry_or_null(&q->messages, struct fkv_message, link);
	if (m)
		list_del(&m->link);
	spin_unlock(&q->lock);
	return m;
}

static void message_back(struct fkv_queue *q, struct fkv_message *m)
{
	spin_lock(&q->lock);
	list_add(&m->link, &q->messages);
	spin_unlock(&q->lock);
}

static int recv_messages(struct fkv_queue *q, struct recv *r)
{
	struct fkv_message *m;
	int err;

	while ((m = message_pop(q))) {
		struct fluxonkv_message out = {
			.size = sizeof(out),
			.type = m->type,
			.client = m->client,
			.cookie = m->cookie,
			.uid = m->uid,
			.pid = m->pid,
		};

		err = put_message(r, &out, NULL);
		if (err) {
			message_back(q, m);
			return err;
		}
		m->done(m);
	}
	return 0;
}

/*
 * The next request of the session whose turn it is; with a reference. None
 * before a message that was queued earlier.
 */
static struct fkv_request *request_pop(struct fkv_queue *q)
{
	struct fkv_request *req = NULL;
	struct fkv_session *s;

	spin_lock(&q->lock);
	s = list_empty(&q->messages) ?
		list_first_entry_or_null(&q->active, struct fkv_session,
					 active) : NULL;
	if (s) {
		req = list_first_entry(&s->requests, struct fkv_request, link);
		list_del(&req->link);
		req->queued = false;
		req->sent = true;
		refcount_inc(&req->refs);
		list_del_init(&s->active);
		if (!list_empty(&s->requests))
			list_add_tail(&s->active, &q->active);
	}
	spin_unlock(&q->lock);
	return req;
}

static void request_back(struct fkv_queue *q, struct fkv_request *req)
{
	struct fkv_session *s = req->session;

	spin_lock(&q->lock);
	/* unless it was given up meanwhile */
	if (xa_load(&q->sent, req->cookie) == req) {
		req->sent = false;
		req->queued = true;
		list_add(&req->link, &s->requests);
		if (list_empty(&s->active))
			list_add(&s->active, &q->active);
	}
	spin_unlock(&q->lock);
}

static int recv_requests(struct fkv_queue *q, struct recv *r)
{
	struct fkv_request *req;
	int err = 0;

	while (!err && (req = request_pop(q))) {
		struct fluxonkv_message out = {
			.size = sizeof(out) + ALIGN(req->body_size, 8),
			.type = FLUXONKV_MESSAGE_REQUEST,
			.client = req->session->id,
			.cookie = req->cookie,
			.body_size = req->body_size,
		};

		err = put_message(r, &out, req->body);
		if (err)
			request_back(q, req);
		fkv_request_put(req);
	}
	return err;
}

long fkv_queue_recv(struct fkv_instance *inst, struct fluxonkv_recv *arg)
{
	struct fkv_queue *q = &inst->queue;
	struct recv r = {
		.to = u64_to_user_ptr(arg->at),
		.room = arg->room,
	};
	int err;

	/*
	 * One at a time: a session's memory goes with its last message, and a
	 * request that is copied here needs it until then.
	 */
	mutex_lock(&q->recv_lock);
	/* what is told before what is asked: clients are known then */
	do {
		err = recv_messages(q, &r);
		if (!err)
			err = recv_requests(q, &r);
	} while (!err && !list_empty_careful(&q->messages));
	mutex_unlock(&q->recv_lock);
	arg->used = r.used;
	arg->nr = r.nr;
	return err && !r.nr ? err : 0;
}
