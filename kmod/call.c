// SPDX-License-Identifier: GPL-2.0-only
/*
 * call.c - CALL: what a client asks, carried out here or passed on
 *
 * The body is copied in once, results are collected here and copied out once;
 * what cannot be copied out is taken back.
 */
#include <linux/uaccess.h>

#include "internal.h"
#include "trace.h"

#define FEW		4	/* items whose results fit the stack */
#define BODY_SMALL	512
#define ASK		1	/* status of an item that the daemon is asked */
#define OPEN		1	/* version of an item with a put to be ended */

/* What belongs to an item besides its result. */
struct part {
	struct fkv_entry *entry;	/* a reference, and charged */
	struct fkv_release *release;
	struct fkv_put *put;
};

struct work {
	struct fkv_session *s;
	struct fluxonkv_call *arg;
	struct fluxonkv_req req;
	struct fkv_cursor items;	/* from the first */
	struct fluxonkv_rep *rep;	/* the results follow it */
	struct fluxonkv_result *res;
	struct part *parts;
	u64 deadline_ns;		/* CLOCK_MONOTONIC; 0: not asked yet */
	u32 nr_ask;
	struct fkv_request *asked;	/* the last one, for its text */
	u64 hit_bytes, hit_pages;
	u32 hits;
};

/* A choice of items for the daemon: edits @it, or leaves it out. */
typedef bool (*choose_fn)(struct work *w, u32 i, struct fluxonkv_item *it);

/* Counted from the first time that the daemon is asked: a hit reads no clock. */
static u64 time_left(struct work *w)
{
	u64 now = ktime_get_ns(), timeout = w->req.timeout_ns;

	if (!w->deadline_ns)
		w->deadline_ns = timeout > U64_MAX - now ? U64_MAX :
			now + timeout;
	return w->deadline_ns > now ? w->deadline_ns - now : 0;
}

/* ---- asking the daemon ---- */

static bool choose_asked(struct work *w, u32 i, struct fluxonkv_item *it)
{
	return w->res[i].status == ASK;
}

static size_t ask_size(struct work *w, choose_fn choose, u32 *ret_nr)
{
	struct fkv_cursor c = w->items;
	size_t size = sizeof(struct fluxonkv_req);
	struct fluxonkv_item it;
	const void *key;
	int status;

	*ret_nr = 0;
	for (u32 i = 0; i < w->req.nr; i++) {
		if (fkv_body_next(&c, &it, &key, &status) ||
		    !choose(w, i, &it))
			continue;
		size += fkv_item_room(it.key_len);
		++*ret_nr;
	}
	return size;
}

static void ask_fill(struct work *w, choose_fn choose, u8 *at)
{
	struct fkv_cursor c = w->items;
	struct fluxonkv_item it;
	const void *key;
	int status;

	for (u32 i = 0; i < w->req.nr; i++) {
		if (fkv_body_next(&c, &it, &key, &status) ||
		    !choose(w, i, &it))
			continue;
		memcpy(at, &it, sizeof(it));
		memcpy(at + sizeof(it), key, it.key_len);
		at += fkv_item_room(it.key_len);
	}
}

static struct fkv_request *ask_create(struct work *w, u16 op, choose_fn choose)
{
	struct fluxonkv_req head = {
		.size = sizeof(head),
		.op = op,
		.flags = op == w->req.op ? w->req.flags : 0,
		.item_size = sizeof(struct fluxonkv_item),
		.timeout_ns = time_left(w),
	};
	struct fkv_request *req;
	size_t size;

	size = ask_size(w, choose, &head.nr);
	req = fkv_request_create(w->s, op, head.nr);
	if (!req)
		return NULL;
	req->body = kvzalloc(size, GFP_KERNEL_ACCOUNT);
	if (!req->body) {
		fkv_request_finish(req);
		return NULL;
	}
	req->body_size = size;
	memcpy(req->body, &head, sizeof(head));
	ask_fill(w, choose, (u8 *)req->body + sizeof(head));
	return req;
}

static void asked_done(struct work *w)
{
	if (w->asked)
		fkv_request_finish(w->asked);
	w->asked = NULL;
}

/* 0 when it was answered: w->asked has the answer. */
static int ask_run(struct work *w, struct fkv_request *req)
{
	asked_done(w);
	w->asked = req;
	return fkv_request_run(req, time_left(w));
}

/* The status of the daemon's answer to its @j-th item. */
static int answered(const struct fkv_request *req, u32 j)
{
	return req->rep.status ? req->rep.status : req->given[j].res.status;
}

/* All items that were asked failed with @err. */
static void ask_failed(struct work *w, int err)
{
	for (u32 i = 0; i < w->req.nr; i++)
		if (w->res[i].status == ASK)
			w->res[i].status = err;
	w->rep->status = err;
}

/* ---- GET ---- */

/* Over a cap: it is not given. */
static void refuse(struct work *w, u32 i, struct fkv_entry *e,
		   struct fkv_release *release)
{
	atomic64_inc(&w->s->inst->quota);
	w->res[i] = (struct fluxonkv_result){ .status = -EDQUOT };
	w->parts[i] = (struct part){};
	fkv_entry_put(e);
	fkv_release_send(w->s->inst, release);
}

/* A reference that was charged, or why not. */
static void take_entry(struct work *w, u32 i, struct fkv_entry *e,
		       struct fkv_release *release)
{
	if (!fkv_charge(w->s, PAGE_ALIGN(e->len))) {
		refuse(w, i, e, release);
		return;
	}
	w->parts[i].entry = e;
	w->parts[i].release = release;
}

/* After the pin: a frozen owner's lease is over before another may write. */
static bool lease_over(const struct fkv_instance *inst)
{
	return inst->strict && ktime_get_boottime_ns() >
			       READ_ONCE(inst->lease_until_ns);
}

static void hit(struct work *w, u32 i, struct fkv_entry *e)
{
	struct fluxonkv_result *res = &w->res[i];

	res->source = FLUXONKV_SOURCE_LOCAL;
	res->offset = e->offset;
	res->len = e->len;
	res->version = e->put_id;
	w->parts[i].entry = e;
	w->hits++;
	w->hit_bytes += e->len;
	w->hit_pages += PAGE_ALIGN(e->len);
	fkv_index_hit(e);
}

/* All hits at once; near a cap one by one, as many as it takes. */
static void charge_hits(struct work *w)
{
	if (!w->hits || fkv_charge(w->s, w->hit_pages))
		return;
	for (u32 i = 0; i < w->req.nr; i++) {
		struct fkv_entry *e = w->parts[i].entry;

		if (!e || fkv_charge(w->s, PAGE_ALIGN(e->len)))
			continue;
		w->hits--;
		w->hit_bytes -= e->len;
		refuse(w, i, e, NULL);
	}
}

static int look_up(struct work *w)
{
	struct fkv_instance *inst = w->s->inst;
	struct fkv_cursor c = w->items;

	for (u32 i = 0; i < w->req.nr; i++) {
		struct fluxonkv_item it;
		struct fkv_entry *e;
		const void *key;
		u32 hash;
		int err = fkv_body_next(&c, &it, &key, &w->res[i].status);

		if (err)
			return err;
		if (w->res[i].status)
			continue;
		e = fkv_index_get(inst, key, it.key_len, &hash);
		trace_fluxonkv_get(w->s->id, hash, e ? e->put_id : 0,
				   e ? e->len : 0, e ? 1 : 0);
		if (e && !lease_over(inst)) {
			hit(w, i, e);
			continue;
		}
		if (e)
			fkv_entry_put(e);
		w->res[i].status = ASK;
		w->nr_ask++;
	}
	return c.left ? -EMSGSIZE : 0;
}

/* Nothing was charged yet. */
static void drop_hits(struct work *w)
{
	for (u32 i = 0; i < w->req.nr; i++) {
		if (w->parts[i].entry)
			fkv_entry_put(w->parts[i].entry);
		w->parts[i].entry = NULL;
	}
}

static void take_given(struct work *w, struct fkv_request *req)
{
	u32 j = 0;

	for (u32 i = 0; i < w->req.nr; i++) {
		struct fkv_given *g;

		if (w->res[i].status != ASK)
			continue;
		g = &req->given[j];
		w->res[i] = g->res;
		w->res[i].id = 0;
		w->res[i].status = answered(req, j++);
		if (!g->entry)
			continue;
		take_entry(w, i, g->entry, g->release);
		g->entry = NULL;
		g->release = NULL;
	}
	w->rep->status = req->rep.status;
}

static int ask(struct work *w, u16 op, choose_fn choose)
{
	struct fkv_request *req = ask_create(w, op, choose);

	return req ? ask_run(w, req) : -ENOMEM;
}

/* Who was not answered in time keeps its hits; who must end has none. */
static int ask_get(struct work *w)
{
	int err;

	atomic64_add(w->nr_ask, &w->s->inst->misses);
	err = ask(w, FLUXONKV_OP_GET, choose_asked);
	if (err == -ENOTCONN || err == -EINTR)
		return err;
	if (err)
		ask_failed(w, err);
	else
		take_given(w, w->asked);
	return 0;
}

static void drop_part(struct work *w, struct part *p, u64 len)
{
	if (p->entry) {
		fkv_uncharge(w->s, PAGE_ALIGN(len));
		fkv_entry_put(p->entry);
		fkv_release_send(w->s->inst, p->release);
	}
	if (p->put)
		fkv_put_put(p->put);
	*p = (struct part){};
}

static void install(struct work *w)
{
	u64 now_ns = ktime_get_coarse_ns();

	for (u32 i = 0; i < w->req.nr; i++) {
		struct part *p = &w->parts[i];

		if (!p->entry)
			continue;
		w->res[i].id = fkv_holder_add(w->s, p->entry, p->release,
					      now_ns);
		if (!w->res[i].id) {
			drop_part(w, p, p->entry->len);
			w->res[i] = (struct fluxonkv_result){
				.status = -ENOMEM,
			};
		}
		p->entry = NULL;
	}
}

/* The results could not be copied out: nobody knows of these holders. */
static void uninstall(struct work *w)
{
	if (w->req.op != FLUXONKV_OP_GET &&
	    w->req.op != FLUXONKV_OP_PUT_COMMIT)
		return;
	for (u32 i = 0; i < w->req.nr; i++)
		if (!w->res[i].status && w->res[i].id)
			fkv_holder_del(w->s, &w->res[i].id, 1);
}

static int call_get(struct work *w)
{
	int err = look_up(w);

	/* its index is not served any more, also not what was found before */
	if (!err && READ_ONCE(w->s->inst->dead))
		err = -ENOTCONN;
	if (err) {
		drop_hits(w);
		return err;
	}
	charge_hits(w);
	if (w->nr_ask)
		err = ask_get(w);
	if (err)
		return err;
	if (w->hits) {
		atomic64_add(w->hits, &w->s->inst->nr_hits);
		atomic64_add(w->hit_bytes, &w->s->inst->hit_bytes);
	}
	install(w);
	return 0;
}

/* ---- RELEASE ---- */

static int call_release(struct work *w)
{
	struct fkv_cursor c = w->items;
	struct fluxonkv_item it;
	const void *key;

	for (u32 i = 0; i < w->req.nr; i++) {
		int err = fkv_body_next(&c, &it, &key, &w->res[i].status);

		if (err)
			return err;
		if (!w->res[i].status &&
		    !fkv_holder_del(w->s, &it.id, 1))
			w->res[i].status = -EINVAL;
	}
	return c.left ? -EMSGSIZE : 0;
}

/* ---- puts ---- */

/* Check all items before anything is done; @charge: those that are good. */
static int check_puts(struct work *w, bool charge)
{
	struct fkv_cursor c = w->items;
	struct fluxonkv_item it;
	const void *key;

	for (u32 i = 0; i < w->req.nr; i++) {
		int err = fkv_body_next(&c, &it, &key, &w->res[i].status);

		if (err)
			return err;
		w->res[i].id = it.id;
		w->res[i].len = it.len;
	}
	if (c.left)
		return -EMSGSIZE;
	for (u32 i = 0; i < w->req.nr; i++) {
		if (w->res[i].status)
			continue;
		if (charge && !fkv_charge(w->s, PAGE_ALIGN(w->res[i].len))) {
			atomic64_inc(&w->s->inst->quota);
			w->res[i].status = -EDQUOT;
			continue;
		}
		w->res[i].status = ASK;
		w->nr_ask++;
	}
	return 0;
}

static bool choose_begin(struct work *w, u32 i, struct fluxonkv_item *it)
{
	it->id = 0;
	return w->res[i].status == ASK;
}

static void uncharge_asked(struct work *w)
{
	for (u32 i = 0; i < w->req.nr; i++)
		if (w->res[i].status == ASK)
			fkv_uncharge(w->s, PAGE_ALIGN(w->res[i].len));
}

static void want_lens(struct work *w, struct fkv_request *req)
{
	u32 j = 0;

	for (u32 i = 0; i < w->req.nr; i++)
		if (w->res[i].status == ASK)
			req->given[j++].want_len = w->res[i].len;
}

/* Puts of the items that are asked, in w->parts; else their status. */
static void take_puts(struct work *w, struct fkv_request *req)
{
	u32 j = 0;

	for (u32 i = 0; i < w->req.nr; i++) {
		struct fkv_given *g;

		if (w->res[i].status != ASK)
			continue;
		g = &req->given[j];
		if (!g->put) {
			fkv_uncharge(w->s, PAGE_ALIGN(w->res[i].len));
			w->res[i] = (struct fluxonkv_result){};
		} else {
			w->res[i] = g->res;
			g->put->charged = true;
			w->parts[i].put = g->put;
			g->put = NULL;
		}
		w->res[i].status = answered(req, j++);
	}
	w->rep->status = req->rep.status;
}

static int begin(struct work *w)
{
	struct fkv_request *req;
	int err = check_puts(w, true);

	if (err || !w->nr_ask)
		return err;
	req = ask_create(w, FLUXONKV_OP_PUT_BEGIN, choose_begin);
	err = -ENOMEM;
	if (req) {
		want_lens(w, req);
		err = ask_run(w, req);
	}
	if (err) {
		uncharge_asked(w);
		if (err == -ENOTCONN || err == -EINTR)
			return err;
		ask_failed(w, err);
		return 0;
	}
	take_puts(w, req);
	return 0;
}

static int call_put_begin(struct work *w)
{
	int err = begin(w);

	for (u32 i = 0; !err && i < w->req.nr; i++) {
		struct fluxonkv_result *res = &w->res[i];
		struct fkv_put *put = w->parts[i].put;

		if (!put)
			continue;
		w->parts[i].put = NULL;
		res->status = fkv_put_install(put);
		trace_fluxonkv_put(w->s->id, res->id, res->offset, res->len,
				   res->status);
		if (res->status)
			*res = (struct fluxonkv_result){ .status = res->status };
	}
	return err;
}

/* Commit or abort: shut the windows first, then the daemon hears of it. */
static void take_windows(struct work *w)
{
	for (u32 i = 0; i < w->req.nr; i++) {
		struct fkv_put *put;
		int err;

		if (w->res[i].status != ASK)
			continue;
		put = fkv_put_take(w->s, w->res[i].id, &err);
		if (put) {
			fkv_put_put(put);
		} else {
			w->res[i].status = err;
			w->nr_ask--;
		}
	}
}

static void want_holders(struct work *w, struct fkv_request *req)
{
	struct fkv_cursor c = w->items;
	struct fluxonkv_item it;
	const void *key;
	int status;
	u32 j = 0;

	for (u32 i = 0; i < w->req.nr; i++) {
		if (fkv_body_next(&c, &it, &key, &status))
			return;
		if (w->res[i].status == ASK)
			req->given[j++].hold = it.flags &
					       FLUXONKV_COMMIT_HOLD;
	}
}

static int call_put_end(struct work *w)
{
	struct fkv_request *req;
	int err = check_puts(w, false);

	if (err)
		return err;
	take_windows(w);
	if (!w->nr_ask)
		return 0;
	req = ask_create(w, w->req.op, choose_asked);
	err = -ENOMEM;
	if (req) {
		want_holders(w, req);
		err = ask_run(w, req);
	}
	if (err == -ENOTCONN || err == -EINTR)
		return err;
	if (err) {
		ask_failed(w, err);
		return 0;
	}
	take_given(w, req);
	install(w);
	return 0;
}

/* ---- PUT by copy ---- */

static void fill(struct work *w, u32 i, const void __user *from)
{
	struct fkv_put *put = w->parts[i].put;
	int err;

	put->copying = true;
	refcount_inc(&put->refs);
	err = fkv_put_install(put);
	if (!err) {
		err = fkv_put_fill(put, from);
		if (!fkv_put_uninstall(put) && !err)
			err = -ETIMEDOUT;
	}
	trace_fluxonkv_put(w->s->id, put->id, put->offset, put->len, err);
	fkv_put_put(put);
	w->parts[i].put = NULL;
	w->res[i].status = err ? err : ASK;
	w->res[i].version = OPEN;
}

/* ASK: filled, to be committed; an error with an id: to be aborted. */
static void fill_all(struct work *w)
{
	struct fkv_cursor c = w->items;
	struct fluxonkv_item it;
	const void *key;
	int status;

	w->nr_ask = 0;
	for (u32 i = 0; i < w->req.nr; i++) {
		if (fkv_body_next(&c, &it, &key, &status))
			return;
		if (!w->parts[i].put)
			continue;
		fill(w, i, u64_to_user_ptr(it.id));
		w->nr_ask += w->res[i].status == ASK;
	}
}

static bool choose_filled(struct work *w, u32 i, struct fluxonkv_item *it)
{
	*it = (struct fluxonkv_item){ .id = w->res[i].id };
	return w->res[i].status == ASK;
}

static bool choose_failed(struct work *w, u32 i, struct fluxonkv_item *it)
{
	*it = (struct fluxonkv_item){ .id = w->res[i].id };
	return w->res[i].status < 0 && w->res[i].version == OPEN;
}

static void abort_failed(struct work *w)
{
	u32 nr;

	ask_size(w, choose_failed, &nr);
	if (!nr)
		return;
	/* if this cannot be said, the put ends by itself in 60 s */
	ask(w, FLUXONKV_OP_PUT_ABORT, choose_failed);
	for (u32 i = 0; i < w->req.nr; i++) {
		struct fluxonkv_result *res = &w->res[i];

		if (res->status < 0)
			*res = (struct fluxonkv_result){ .status = res->status };
	}
}

static int call_put(struct work *w)
{
	int err = begin(w);

	if (err)
		return err;
	fill_all(w);
	abort_failed(w);
	if (!w->nr_ask)
		return 0;
	err = ask(w, FLUXONKV_OP_PUT_COMMIT, choose_filled);
	if (err == -ENOTCONN || err == -EINTR)
		return err;
	if (err)
		ask_failed(w, err);
	else
		take_given(w, w->asked);
	return 0;
}

/* ---- the frame ---- */

static int known_call(struct work *w)
{
	switch (w->req.op) {
	case FLUXONKV_OP_GET:
		return call_get(w);
	case FLUXONKV_OP_RELEASE:
		return call_release(w);
	case FLUXONKV_OP_PUT:
		return call_put(w);
	case FLUXONKV_OP_PUT_BEGIN:
		return call_put_begin(w);
	default:
		return call_put_end(w);
	}
}

static long copy_out(struct work *w)
{
	const struct fkv_request *asked = w->asked;
	struct fluxonkv_call *arg = w->arg;
	u8 __user *to = u64_to_user_ptr(arg->reply);
	size_t n = sizeof(*w->rep) + w->req.nr * sizeof(*w->res);
	u32 text = asked && asked->reply ? asked->reply_size : 0;

	/* the text is only a sentence: it comes along where there is room */
	if (text > arg->reply_room - n)
		text = 0;
	w->rep->size = sizeof(*w->rep);
	w->rep->op = w->req.op;
	w->rep->nr = w->req.nr;
	w->rep->item_size = sizeof(*w->res);
	w->rep->text_len = text;
	if (copy_to_user(to, w->rep, n) ||
	    (text && copy_to_user(to + n, asked->reply, text)))
		return -EFAULT;
	arg->reply_size = n + text;
	return 0;
}

static void drop_all(struct work *w)
{
	for (u32 i = 0; i < w->req.nr; i++) {
		struct part *p = &w->parts[i];

		if (p->entry || p->put)
			drop_part(w, p, p->entry ? p->entry->len : 0);
	}
}

static long run(struct work *w)
{
	long err = known_call(w);

	if (!err) {
		err = copy_out(w);
		if (err)
			uninstall(w);
	}
	drop_all(w);
	asked_done(w);
	return err;
}

static long call_known(struct work *w)
{
	struct {
		struct fluxonkv_rep rep;
		struct fluxonkv_result res[FEW];
		struct part parts[FEW];
	} few;
	size_t results = sizeof(few.rep) + w->req.nr * sizeof(*w->res);
	void *more = NULL;
	long ret;

	if (w->arg->reply_room < results) {
		w->arg->reply_size = results;
		return -EMSGSIZE;
	}
	if (w->req.nr <= FEW) {
		memset(&few, 0, sizeof(few));
		w->rep = &few.rep;
		w->parts = few.parts;
	} else {
		more = kvzalloc(results + w->req.nr * sizeof(struct part),
				GFP_KERNEL_ACCOUNT);
		if (!more)
			return -ENOMEM;
		w->rep = more;
		w->parts = more + results;
	}
	w->res = (void *)(w->rep + 1);
	ret = run(w);
	kvfree(more);
	return ret;
}

/* What only the daemon knows: the body goes there, and the answer back. */
static long call_opaque(struct work *w, void *body)
{
	struct fluxonkv_call *arg = w->arg;
	struct fkv_request *req;
	long err;

	if (arg->body_size > FLUXONKV_CALL_MAX)
		return -EMSGSIZE;
	req = fkv_request_create(w->s, w->req.op, 0);
	if (!req)
		return -ENOMEM;
	req->body = kvmalloc(arg->body_size, GFP_KERNEL_ACCOUNT);
	err = -ENOMEM;
	if (req->body) {
		memcpy(req->body, body, arg->body_size);
		req->body_size = arg->body_size;
		err = fkv_request_run(req, w->req.timeout_ns);
	}
	if (!err) {
		arg->reply_size = req->reply_size;
		if (req->reply_size > arg->reply_room)
			err = -EMSGSIZE;
		else if (copy_to_user(u64_to_user_ptr(arg->reply), req->reply,
				      req->reply_size))
			err = -EFAULT;
	}
	fkv_request_finish(req);
	return err;
}

static long call_body(struct fkv_session *s, struct fluxonkv_call *arg,
		      void *body)
{
	struct work w = { .s = s, .arg = arg };
	int err;

	if (copy_from_user(body, u64_to_user_ptr(arg->body), arg->body_size))
		return -EFAULT;
	err = fkv_body_open(body, arg->body_size, &w.req, &w.items);
	if (err)
		return err;
	if (!fkv_op_known(w.req.op))
		return call_opaque(&w, body);
	return call_known(&w);
}

static int release_ids(struct fkv_session *s, struct fluxonkv_call *arg)
{
	const u64 __user *from = u64_to_user_ptr(arg->release);
	u64 ids[32];

	for (u32 i = 0; i < arg->nr_release; i += ARRAY_SIZE(ids)) {
		u32 n = min_t(u32, arg->nr_release - i, ARRAY_SIZE(ids));

		if (copy_from_user(ids, from + i, n * sizeof(*ids)))
			return -EFAULT;
		arg->released += fkv_holder_del(s, ids, n);
	}
	return 0;
}

long fkv_call(struct fkv_session *s, struct fluxonkv_call *arg)
{
	u64 small[BODY_SMALL / sizeof(u64)];
	void *body = small;
	long ret;
	int err = release_ids(s, arg);

	if (err)
		return err;
	if (!arg->body)
		return arg->body_size ? -EINVAL : 0;
	if (arg->body_size > FLUXONKV_FRAME_MAX)
		return -EMSGSIZE;
	if (arg->body_size > sizeof(small)) {
		body = kvmalloc(arg->body_size, GFP_KERNEL_ACCOUNT);
		if (!body)
			return -ENOMEM;
	}
	ret = call_body(s, arg, body);
	if (body != small)
		kvfree(body);
	return ret;
}
