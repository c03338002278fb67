// SPDX-License-Identifier: GPL-2.0-only
/*
 * call_ask.c - what of a call the daemon is asked, and how it answered
 */
#include "call.h"

/* Counted from the first time that the daemon is asked: a hit reads no clock. */
static u64 time_left(struct fkv_work *w)
{
	u64 now = ktime_get_ns(), timeout = w->req.timeout_ns;

	if (!w->deadline_ns)
		w->deadline_ns = timeout > U64_MAX - now ? U64_MAX :
			now + timeout;
	return w->deadline_ns > now ? w->deadline_ns - now : 0;
}

/* The grace is one for all requests of a call. */
static u64 wait_left(struct fkv_work *w)
{
	u64 left = time_left(w), now = ktime_get_ns();
	u64 end = w->deadline_ns;

	if (left > U64_MAX / 2)
		return left;
	end += FKV_GRACE_NS;
	return end > now ? end - now : 0;
}

bool fkv_choose_asked(struct fkv_work *w, u32 i, struct fluxonkv_item *it)
{
	return w->res[i].status == FKV_ASK;
}

size_t fkv_ask_size(struct fkv_work *w, fkv_choose_fn choose, u32 *ret_nr)
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

static void ask_fill(struct fkv_work *w, fkv_choose_fn choose, u8 *at)
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

struct fkv_request *fkv_ask_create(struct fkv_work *w, u16 op,
				   fkv_choose_fn choose)
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

	size = fkv_ask_size(w, choose, &head.nr);
	req = fkv_request_create(w->s, op, head.nr);
	if (!req)
		return NULL;
	req->body = fkv_zalloc(size);
	if (!req->body) {
		fkv_request_finish(req);
		return NULL;
	}
	req->body_size = size;
	memcpy(req->body, &head, sizeof(head));
	ask_fill(w, choose, (u8 *)req->body + sizeof(head));
	return req;
}

void fkv_ask_done(struct fkv_work *w)
{
	if (w->asked)
		fkv_request_finish(w->asked);
	w->asked = NULL;
}

int fkv_ask_run(struct fkv_work *w, struct fkv_request *req)
{
	fkv_ask_done(w);
	w->asked = req;
	return fkv_request_run(req, wait_left(w));
}

int fkv_ask(struct fkv_work *w, u16 op, fkv_choose_fn choose)
{
	struct fkv_request *req = fkv_ask_create(w, op, choose);

	return req ? fkv_ask_run(w, req) : -ENOMEM;
}

int fkv_answered(const struct fkv_request *req, u32 j)
{
	return req->rep.status ? req->rep.status : req->given[j].res.status;
}

void fkv_ask_failed(struct fkv_work *w, int err)
{
	for (u32 i = 0; i < w->req.nr; i++)
		if (w->res[i].status == FKV_ASK)
			w->res[i].status = err;
	w->rep->status = err;
}
