// SPDX-License-Identifier: GPL-2.0-only
/*
 * call.c - CALL: what a client asks, carried out here or passed on
 *
 * The body is copied in once, results are collected here and copied out once;
 * what cannot be copied out is taken back. Both are in memory that the session
 * keeps from call to call: the stack and new memory cost their zeroing.
 */
#include "call.h"
#include "user.h"

#define SPARE_MIN	2000
#define SPARE_MAX	(64u << 10)
#define TOLD		1	/* that is 0, and call_out() is done */

int fkv_work_parts(struct fkv_work *w)
{
	if (!w->parts)
		w->parts = fkv_zalloc(w->req.nr * sizeof(struct fkv_part));
	return w->parts ? 0 : -ENOMEM;
}

static int call_release(struct fkv_work *w)
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

static int known_call(struct fkv_work *w)
{
	switch (w->req.op) {
	case FLUXONKV_OP_GET:
		return fkv_call_get(w);
	case FLUXONKV_OP_RELEASE:
		return call_release(w);
	case FLUXONKV_OP_PUT:
		return fkv_call_put(w);
	case FLUXONKV_OP_PUT_BEGIN:
		return fkv_call_put_begin(w);
	default:
		return fkv_call_put_end(w);
	}
}

/* Only what is told: the rest is as it was. */
static int call_out(struct fluxonkv_call __user *user,
		    const struct fluxonkv_call *c)
{
	might_fault();
	if (!user_write_access_begin(user, sizeof(*user)))
		return -EFAULT;
	unsafe_put_user(c->reply_size, &user->reply_size, fault);
	unsafe_put_user(c->released, &user->released, fault);
	user_write_access_end();
	return 0;
fault:
	user_write_access_end();
	return -EFAULT;
}

static long copy_out(struct fkv_work *w)
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
	if (!fkv_bytes_out(to, w->rep, n) ||
	    (text && copy_to_user(to + n, asked->reply, text)))
		return -EFAULT;
	arg->reply_size = n + text;
	return call_out(w->user, arg);
}

static long run(struct fkv_work *w)
{
	long err = known_call(w);

	if (!err) {
		err = copy_out(w);
		if (err)
			fkv_work_uninstall(w);
	}
	fkv_work_drop(w);
	fkv_ask_done(w);
	return err ? err : TOLD;
}

/* @results: memory for one for each item that may fit the body. */
static long call_known(struct fkv_work *w, void *results)
{
	size_t n = sizeof(*w->rep) + w->req.nr * sizeof(*w->res);
	long ret = 0;

	if (w->arg->reply_room < n) {
		w->arg->reply_size = n;
		return -EMSGSIZE;
	}
	if (w->req.nr > w->arg->body_size / sizeof(struct fluxonkv_item))
		return -EMSGSIZE;
	w->rep = results;
	w->res = (void *)(w->rep + 1);
	*w->rep = (struct fluxonkv_rep){};
	/* hits, which are many and want to be fast, write all of them */
	if (w->req.op != FLUXONKV_OP_GET) {
		memset(w->res, 0, w->req.nr * sizeof(*w->res));
		ret = fkv_work_parts(w);
	}
	if (!ret)
		ret = run(w);
	if (w->parts)
		kvfree(w->parts);
	return ret;
}

/* What only the daemon knows: the body goes there, and the answer back. */
static long call_opaque(struct fkv_work *w, void *body)
{
	struct fluxonkv_call *arg = w->arg;
	struct fkv_request *req;
	long err;

	if (arg->body_size > FLUXONKV_CALL_MAX)
		return -EMSGSIZE;
	req = fkv_request_create(w->s, w->req.op, 0);
	if (!req)
		return -ENOMEM;
	req->body = fkv_alloc(arg->body_size);
	err = -ENOMEM;
	if (req->body) {
		memcpy(req->body, body, arg->body_size);
		req->body_size = arg->body_size;
		err = fkv_request_run(req, min_t(u64, w->req.timeout_ns,
						  U64_MAX / 2) + FKV_GRACE_NS);
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

static long call_body(struct fkv_work *w, void *body, void *results)
{
	struct fluxonkv_call *arg = w->arg;
	int err;

	if (!fkv_bytes_in(body, u64_to_user_ptr(arg->body), arg->body_size))
		return -EFAULT;
	err = fkv_body_open(body, arg->body_size, &w->req, &w->items);
	if (err)
		return err;
	if (!fkv_op_known(w->req.op))
		return call_opaque(w, body);
	return call_known(w, results);
}

/* Memory of @size bytes, which the session may have kept. */
static struct fkv_spare *spare_get(struct fkv_session *s, size_t size)
{
	struct fkv_spare *spare = xchg(&s->spare, NULL);

	if (spare && spare->size >= size)
		return spare;
	kvfree(spare);
	size = max_t(size_t, size, SPARE_MIN);
	spare = fkv_alloc(sizeof(*spare) + size);
	if (spare)
		spare->size = size;
	return spare;
}

static void spare_put(struct fkv_session *s, struct fkv_spare *spare)
{
	if (spare->size > SPARE_MAX || cmpxchg(&s->spare, NULL, spare))
		kvfree(spare);
}

static noinline int release_ids(struct fkv_session *s, struct fluxonkv_call *arg)
{
	const u64 __user *from = u64_to_user_ptr(arg->release);
	u64 ids[32];

	for (u32 i = 0; i < arg->nr_release; i += ARRAY_SIZE(ids)) {
		u32 n = min_t(u32, arg->nr_release - i, ARRAY_SIZE(ids));

		if (!fkv_bytes_in(ids, from + i, n * sizeof(*ids)))
			return -EFAULT;
		arg->released += fkv_holder_del(s, ids, n);
	}
	return 0;
}

static long call(struct fkv_session *s, struct fluxonkv_call *arg,
		 struct fluxonkv_call __user *user)
{
	struct fkv_work w = { .s = s, .arg = arg, .user = user };
	size_t body = ALIGN(arg->body_size, 8), results;
	struct fkv_spare *spare;
	long ret;

	if (!arg->body)
		return arg->body_size ? -EINVAL : 0;
	if (arg->body_size > FLUXONKV_FRAME_MAX)
		return -EMSGSIZE;
	results = sizeof(struct fluxonkv_rep) +
		body / sizeof(struct fluxonkv_item) *
		sizeof(struct fluxonkv_result);
	spare = spare_get(s, body + results);
	if (!spare)
		return -ENOMEM;
	ret = call_body(&w, spare->data, (u8 *)spare->data + body);
	spare_put(s, spare);
	return ret;
}

long fkv_call(struct fkv_session *s, struct fluxonkv_call *arg,
	      struct fluxonkv_call __user *user)
{
	long ret = 0;
	int err;

	if (arg->nr_release)
		ret = release_ids(s, arg);
	if (!ret)
		ret = call(s, arg, user);
	if (ret == TOLD)
		return 0;
	err = call_out(user, arg);
	return ret ? ret : err;
}
