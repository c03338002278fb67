// SPDX-License-Identifier: GPL-2.0-only
/*
 * reply.c - the daemon's answers
 *
 * An answer counts once, and only while its caller waits. What it gives (an
 * entry held for the caller, an open put) is made here, in the same step, so
 * that the daemon cannot retire it in between.
 */
#include <linux/bitmap.h>
#include <linux/uaccess.h>

#include "internal.h"

/*
 * A reference to a version, and the release of the daemon's own holder of it;
 * that is not needed where the index keeps the version until we say QUIET.
 */
static int give_entry(struct fkv_request *req, struct fkv_given *g)
{
	struct fkv_session *s = req->session;
	struct fkv_release *release = NULL;
	int err = -ENOMEM;

	release = fkv_release_create(s->id, g->res.id);
	if (release)
		g->entry = fkv_entry_given(s->inst, &g->res, &err);
	if (!g->entry) {
		kfree(release);
		return err;
	}
	if (test_bit(FKV_ENTRY_HASHED, &g->entry->flags)) {
		kfree(release);
		return 0;
	}
	g->release = release;
	return 0;
}

static int give_put(struct fkv_request *req, struct fkv_given *g)
{
	int err;

	if (g->res.len != g->want_len || !g->res.id)
		return -EINVAL;
	g->put = fkv_put_create(req->session, &g->res, &err);
	return g->put ? 0 : err;
}

static int give(struct fkv_request *req, struct fkv_given *g)
{
	if (g->res.status)
		return 0;
	if (req->op == FLUXONKV_OP_PUT_BEGIN)
		return give_put(req, g);
	if (req->op == FLUXONKV_OP_GET || g->hold)
		return g->res.id ? give_entry(req, g) : -EINVAL;
	return 0;
}

/*
 * Of the items that gave something, those that the daemon is to end: refused,
 * or kept here by the index. It is told by a 0 in place of their ids.
 */
struct crossed {
	DECLARE_BITMAP(items, FLUXONKV_BATCH_MAX);
	u32 nr, item_size;
	size_t at;			/* of the first result */
};

static void cross_out(const struct crossed *c, const struct fluxonkv_answer *a)
{
	u8 __user *at = u64_to_user_ptr(a->body) + c->at +
			offsetof(struct fluxonkv_result, id);
	u32 i;

	/* on a fault it keeps what it need not keep */
	for_each_set_bit(i, c->items, c->nr) {
		u64 __user *id = (void __user *)(at + (size_t)i * c->item_size);

		if (put_user(0ULL, id))
			return;
	}
}

/* 0, or -EPROTO when an item was refused. */
static int give_all(struct fkv_request *req, const void *body,
		    struct crossed *c)
{
	int ret = 0;

	c->at = req->rep.size;
	c->item_size = req->rep.item_size;
	c->nr = req->rep.nr;
	for (u32 i = 0; i < req->rep.nr; i++) {
		struct fkv_given *g = &req->given[i];
		int err;

		fkv_reply_at(body, &req->rep, i, &g->res);
		/* a call that failed as a whole gives nothing */
		err = req->rep.status && !g->res.status ? -EINVAL :
			give(req, g);
		if (err || (g->entry && !g->release))
			__set_bit(i, c->items);
		if (!err)
			continue;
		g->res = (struct fluxonkv_result){
			.status = err == -ENOMEM ? err : -EPROTO,
		};
		ret = -EPROTO;
	}
	return ret;
}

/* The sentence that comes with it. */
static void keep_text(struct fkv_request *req, const void *body, size_t size)
{
	u32 n = req->rep.text_len;

	if (!n)
		return;
	req->reply = fkv_alloc(n);
	if (!req->reply)
		return;
	memcpy(req->reply, body + size - n, n);
	req->reply_size = n;
}

/* The body stays the caller's unless it is taken: then *body is NULL. */
static int answer(struct fkv_request *req, struct fluxonkv_answer *a,
		  void **body, struct crossed *c, int *ret_status)
{
	int err = fkv_reply_open(*body, a->body_size, req->op, &req->rep);

	*ret_status = -EPROTO;
	if (!err && fkv_op_known(req->op) && req->rep.nr != req->nr &&
	    (req->rep.nr || !req->rep.status))
		err = -EINVAL;
	if (err)
		return err;
	*ret_status = 0;
	if (!fkv_op_known(req->op)) {
		req->reply = *body;
		req->reply_size = a->body_size;
		*body = NULL;
		return 0;
	}
	err = give_all(req, *body, c);
	keep_text(req, *body, a->body_size);
	return err;
}

long fkv_reply(struct fkv_instance *inst, struct fluxonkv_answer *a)
{
	struct crossed c = { .nr = 0 };
	struct fkv_request *req;
	void *body;
	int status;
	long err = 0;

	if (a->body_size > FLUXONKV_RECV_ROOM)
		return -EMSGSIZE;
	body = fkv_alloc(max_t(u32, a->body_size, 1));
	if (!body)
		return -ENOMEM;
	if (copy_from_user(body, u64_to_user_ptr(a->body), a->body_size))
		err = -EFAULT;
	req = err ? NULL : fkv_request_claim(inst, a->cookie);
	if (!err && !req) {
		atomic64_inc(&inst->stale_replies);
		err = -ENOENT;
	}
	if (req) {
		/* one bad item fails itself, a bad body all of them */
		err = answer(req, a, &body, &c, &status);
		fkv_request_done(req, status);
		/* only now: the daemon's memory may let us wait */
		cross_out(&c, a);
	}
	kvfree(body);
	return err;
}
