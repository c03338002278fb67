// SPDX-License-Identifier: GPL-2.0-only
/*
 * call_get.c - GET: what is no hit, as the daemon answers
 */
#include "call.h"

#define CHUNK		16	/* holders made at once */

/* Over a cap: it is not given. */
static void refuse(struct fkv_work *w, u32 i, struct fkv_entry *e,
		   struct fkv_release *release)
{
	atomic64_inc(&w->s->inst->quota);
	w->res[i] = (struct fluxonkv_result){ .status = -EDQUOT };
	w->parts[i] = (struct fkv_part){};
	fkv_entry_put(e);
	fkv_release_send(w->s->inst, release);
}

/* A reference that was charged, or why not. */
static void take_entry(struct fkv_work *w, u32 i, struct fkv_entry *e,
		       struct fkv_release *release)
{
	if (!fkv_charge(w->s, PAGE_ALIGN(e->len))) {
		refuse(w, i, e, release);
		return;
	}
	w->parts[i].entry = e;
	w->parts[i].release = release;
}

void fkv_work_take(struct fkv_work *w, struct fkv_request *req)
{
	u32 j = 0;

	for (u32 i = 0; i < w->req.nr; i++) {
		struct fkv_given *g;

		if (w->res[i].status != FKV_ASK)
			continue;
		g = &req->given[j];
		w->res[i] = g->res;
		w->res[i].id = 0;
		w->res[i].status = fkv_answered(req, j++);
		if (!g->entry)
			continue;
		take_entry(w, i, g->entry, g->release);
		g->entry = NULL;
		g->release = NULL;
	}
	w->rep->status = req->rep.status;
}

/* Who was not answered in time keeps its hits; who must end has none. */
static int ask_get(struct fkv_work *w)
{
	int err;

	atomic64_add(w->nr_ask, &w->s->inst->misses);
	err = fkv_ask(w, FLUXONKV_OP_GET, fkv_choose_asked);
	if (err == -ENOTCONN || err == -EINTR)
		return err;
	if (err)
		fkv_ask_failed(w, err);
	else
		fkv_work_take(w, w->asked);
	return 0;
}

static void drop_part(struct fkv_work *w, struct fkv_part *p, u64 len)
{
	if (p->entry) {
		fkv_uncharge(w->s, PAGE_ALIGN(len));
		fkv_entry_put(p->entry);
		fkv_release_send(w->s->inst, p->release);
	}
	if (p->put)
		fkv_put_put(p->put);
	*p = (struct fkv_part){};
}

/* Entries @from to @to of the parts become holders. */
static void install_chunk(struct fkv_work *w, u32 from, u32 to)
{
	struct fkv_new_holder new[CHUNK];
	u32 n = 0;

	for (u32 i = from; i < to; i++) {
		if (!w->parts[i].entry)
			continue;
		new[n++] = (struct fkv_new_holder){
			.entry = w->parts[i].entry,
			.release = w->parts[i].release,
			.ret_id = &w->res[i].id,
		};
	}
	if (n)
		fkv_holder_add(w->s, new, n);
}

void fkv_work_install(struct fkv_work *w)
{
	for (u32 i = 0; i < w->req.nr; i += CHUNK)
		install_chunk(w, i, min_t(u32, w->req.nr, i + CHUNK));
	for (u32 i = 0; i < w->req.nr; i++) {
		struct fkv_part *p = &w->parts[i];

		if (p->entry && !w->res[i].id) {
			drop_part(w, p, p->entry->len);
			w->res[i] = (struct fluxonkv_result){
				.status = -ENOMEM,
			};
		}
		p->entry = NULL;
	}
}

void fkv_work_uninstall(struct fkv_work *w)
{
	if (w->req.op == FLUXONKV_OP_PUT_BEGIN)
		fkv_call_put_unbegin(w);
	if (w->req.op != FLUXONKV_OP_GET &&
	    w->req.op != FLUXONKV_OP_PUT_COMMIT)
		return;
	for (u32 i = 0; i < w->req.nr; i++)
		if (!w->res[i].status && w->res[i].id)
			fkv_holder_del(w->s, &w->res[i].id, 1);
}

void fkv_work_drop(struct fkv_work *w)
{
	for (u32 i = 0; w->parts && i < w->req.nr; i++) {
		struct fkv_part *p = &w->parts[i];

		if (p->entry || p->put)
			drop_part(w, p, p->entry ? p->entry->len : 0);
	}
}

int fkv_call_get(struct fkv_work *w)
{
	int err = fkv_hits(w);

	/* its index is not served any more, also not what was found before */
	if (!err && READ_ONCE(w->s->inst->dead))
		err = -ENOTCONN;
	if (!err && w->nr_ask)
		err = fkv_work_parts(w);
	if (!err && w->nr_ask)
		err = ask_get(w);
	if (err) {
		fkv_work_uninstall(w);
		return err;
	}
	if (w->hits) {
		atomic64_add(w->hits, &w->s->inst->nr_hits);
		atomic64_add(w->hit_bytes, &w->s->inst->hit_bytes);
	}
	if (w->parts)
		fkv_work_install(w);
	return 0;
}
