// SPDX-License-Identifier: GPL-2.0-only
/*
 * call_put.c - puts: begun, ended, or filled by a copy in one call
 */
#include "call.h"
#include "trace.h"

#define OPEN		1	/* version of an item with a put to be ended */

/* FKV_ASK, or what the daemon would say, too. */
static int charge_put(struct fkv_session *s, u64 len)
{
	const struct fkv_instance *inst = s->inst;
	u64 bytes = PAGE_ALIGN(len);

	if (fkv_charge(s, bytes))
		return FKV_ASK;
	/* it could not be put by a client that holds nothing either */
	if ((inst->client_cap && bytes > inst->client_cap) ||
	    (inst->uid_cap && bytes > inst->uid_cap))
		return -EFBIG;
	atomic64_inc(&s->inst->quota);
	return -EDQUOT;
}

/* Check all items before anything is done; @charge: those that are good. */
static int check_puts(struct fkv_work *w, bool charge)
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
		w->res[i].status = charge ?
			charge_put(w->s, w->res[i].len) : FKV_ASK;
		if (w->res[i].status != FKV_ASK)
			continue;
		w->nr_ask++;
	}
	return 0;
}

static bool choose_begin(struct fkv_work *w, u32 i, struct fluxonkv_item *it)
{
	it->id = 0;
	return w->res[i].status == FKV_ASK;
}

static void uncharge_asked(struct fkv_work *w)
{
	for (u32 i = 0; i < w->req.nr; i++)
		if (w->res[i].status == FKV_ASK)
			fkv_uncharge(w->s, PAGE_ALIGN(w->res[i].len));
}

static void want_lens(struct fkv_work *w, struct fkv_request *req)
{
	u32 j = 0;

	for (u32 i = 0; i < w->req.nr; i++)
		if (w->res[i].status == FKV_ASK)
			req->given[j++].want_len = w->res[i].len;
}

/* Puts of the items that are asked, in w->parts; else their status. */
static void take_puts(struct fkv_work *w, struct fkv_request *req)
{
	u32 j = 0;

	for (u32 i = 0; i < w->req.nr; i++) {
		struct fkv_given *g;

		if (w->res[i].status != FKV_ASK)
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
		w->res[i].status = fkv_answered(req, j++);
	}
	w->rep->status = req->rep.status;
}

static int begin(struct fkv_work *w)
{
	struct fkv_request *req;
	int err = check_puts(w, true);

	if (err || !w->nr_ask)
		return err;
	req = fkv_ask_create(w, FLUXONKV_OP_PUT_BEGIN, choose_begin);
	err = -ENOMEM;
	if (req) {
		want_lens(w, req);
		err = fkv_ask_run(w, req);
	}
	if (err) {
		uncharge_asked(w);
		if (err == -ENOTCONN || err == -EINTR)
			return err;
		fkv_ask_failed(w, err);
		return 0;
	}
	take_puts(w, req);
	return 0;
}

int fkv_call_put_begin(struct fkv_work *w)
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

void fkv_call_put_unbegin(struct fkv_work *w)
{
	for (u32 i = 0; i < w->req.nr; i++)
		if (!w->res[i].status && w->res[i].id)
			fkv_put_cancel(w->s, w->res[i].id);
}

/* Commit or abort: shut the windows first, then the daemon hears of it. */
static void take_windows(struct fkv_work *w)
{
	for (u32 i = 0; i < w->req.nr; i++) {
		struct fkv_put *put;
		int err;

		if (w->res[i].status != FKV_ASK)
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

static void want_holders(struct fkv_work *w, struct fkv_request *req)
{
	struct fkv_cursor c = w->items;
	struct fluxonkv_item it;
	const void *key;
	int status;
	u32 j = 0;

	for (u32 i = 0; i < w->req.nr; i++) {
		if (fkv_body_next(&c, &it, &key, &status))
			return;
		if (w->res[i].status == FKV_ASK)
			req->given[j++].hold = it.flags &
					       FLUXONKV_COMMIT_HOLD;
	}
}

int fkv_call_put_end(struct fkv_work *w)
{
	struct fkv_request *req;
	int err = READ_ONCE(w->s->inst->dead) ? -ENOTCONN :
		  check_puts(w, false);

	if (err)
		return err;
	take_windows(w);
	if (!w->nr_ask)
		return 0;
	req = fkv_ask_create(w, w->req.op, fkv_choose_asked);
	err = -ENOMEM;
	if (req) {
		want_holders(w, req);
		err = fkv_ask_run(w, req);
	}
	if (err == -ENOTCONN || err == -EINTR)
		return err;
	if (err) {
		fkv_ask_failed(w, err);
		return 0;
	}
	fkv_work_take(w, req);
	fkv_work_install(w);
	return 0;
}

/* ---- PUT by copy ---- */

static void fill(struct fkv_work *w, u32 i, const void __user *from)
{
	struct fkv_put *put = w->parts[i].put;
	int err = fkv_put_fill(put, from);
	int end = fkv_put_filled(put);

	err = err ? err : end;
	trace_fluxonkv_put(w->s->id, put->id, put->offset, put->len, err);
	fkv_put_put(put);
	w->parts[i].put = NULL;
	w->res[i].status = err ? err : FKV_ASK;
	w->res[i].version = OPEN;
}

/* FKV_ASK: filled, to be committed; an error with an id: to be aborted. */
static void fill_all(struct fkv_work *w)
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
		w->nr_ask += w->res[i].status == FKV_ASK;
	}
}

static bool choose_filled(struct fkv_work *w, u32 i, struct fluxonkv_item *it)
{
	*it = (struct fluxonkv_item){ .id = w->res[i].id };
	return w->res[i].status == FKV_ASK;
}

static bool choose_failed(struct fkv_work *w, u32 i, struct fluxonkv_item *it)
{
	*it = (struct fluxonkv_item){ .id = w->res[i].id };
	return w->res[i].status < 0 && w->res[i].version == OPEN;
}

static void abort_failed(struct fkv_work *w)
{
	u32 nr;

	fkv_ask_size(w, choose_failed, &nr);
	if (!nr)
		return;
	/* if this cannot be said, the put ends by itself in 60 s */
	fkv_ask(w, FLUXONKV_OP_PUT_ABORT, choose_failed);
	for (u32 i = 0; i < w->req.nr; i++) {
		struct fluxonkv_result *res = &w->res[i];

		if (res->status < 0)
			*res = (struct fluxonkv_result){ .status = res->status };
	}
}

int fkv_call_put(struct fkv_work *w)
{
	int err = begin(w);

	if (err)
		return err;
	fill_all(w);
	abort_failed(w);
	if (!w->nr_ask)
		return 0;
	err = fkv_ask(w, FLUXONKV_OP_PUT_COMMIT, choose_filled);
	if (err == -ENOTCONN || err == -EINTR)
		return err;
	if (err)
		fkv_ask_failed(w, err);
	else
		fkv_work_take(w, w->asked);
	return 0;
}
