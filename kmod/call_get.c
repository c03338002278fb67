// SPDX-License-Identifier: GPL-2.0-only
/*
 * call_get.c - GET: hits of the index, the rest as the daemon answers
 */
#include "call.h"
#include "trace.h"

#define CHUNK		16	/* keys looked up, or holders made, at once */

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

/* After the pin: a frozen owner's lease is over before another may write. */
static bool lease_over(const struct fkv_instance *inst)
{
	return inst->strict && ktime_get_boottime_ns() >
			       READ_ONCE(inst->lease_until_ns);
}

/* What a hit answers but its holder's id. */
static void hit(struct fkv_work *w, struct fluxonkv_result *res,
		const struct fkv_entry *e)
{
	res->status = 0;
	res->source = FLUXONKV_SOURCE_LOCAL;
	res->offset = e->offset;
	res->len = e->len;
	res->version = e->put_id;
	w->hits++;
	w->hit_bytes += e->len;
}

static void miss(struct fkv_work *w, struct fluxonkv_result *res)
{
	*res = (struct fluxonkv_result){ .status = FKV_ASK };
	w->nr_ask++;
}

static struct fluxonkv_result *result_of(const struct fkv_new_holder *new)
{
	return container_of(new->ret_id, struct fluxonkv_result, id);
}

static void unhit(struct fkv_work *w, const struct fkv_new_holder *new,
		  int status)
{
	struct fluxonkv_result *res = result_of(new);

	w->hits--;
	w->hit_bytes -= new->entry->len;
	*res = (struct fluxonkv_result){ .status = status };
	fkv_entry_put(new->entry);
}

/* Near a cap: one by one, as many as it takes. Returns how many those are. */
static u32 charge_each(struct fkv_work *w, struct fkv_new_holder *new, u32 n)
{
	u32 m = 0;

	for (u32 i = 0; i < n; i++) {
		if (fkv_charge(w->s, PAGE_ALIGN(new[i].entry->len))) {
			new[m++] = new[i];
			continue;
		}
		atomic64_inc(&w->s->inst->quota);
		unhit(w, &new[i], -EDQUOT);
	}
	return m;
}

static void hold_hits(struct fkv_work *w, struct fkv_new_holder *new, u32 n,
		      u64 bytes)
{
	if (!fkv_charge(w->s, bytes))
		n = charge_each(w, new, n);
	if (!n || fkv_holder_add(w->s, new, n) == n)
		return;
	for (u32 i = 0; i < n; i++) {
		if (*new[i].ret_id)
			continue;
		fkv_uncharge(w->s, PAGE_ALIGN(new[i].entry->len));
		unhit(w, &new[i], -ENOMEM);
	}
}

/* A chunk of keys: hits become holders, the others are to be asked. */
static void look_up_chunk(struct fkv_work *w, struct fkv_probe *p, u32 n)
{
	struct fkv_instance *inst = w->s->inst;
	struct fkv_new_holder new[CHUNK];
	u64 bytes = 0;
	u32 m = 0;
	bool over;

	fkv_index_get(inst, p, n);
	over = lease_over(inst);
	for (u32 i = 0; i < n; i++) {
		struct fluxonkv_result *res = &w->res[p[i].item];
		struct fkv_entry *e = p[i].entry;

		trace_fluxonkv_get(w->s->id, p[i].hash, e ? e->put_id : 0,
				   e ? e->len : 0, e && !over);
		if (e && over)
			fkv_entry_put(e);
		if (!e || over) {
			miss(w, res);
			continue;
		}
		hit(w, res, e);
		fkv_index_hit(e);
		bytes += PAGE_ALIGN(e->len);
		new[m++] = (struct fkv_new_holder){
			.entry = e,
			.ret_id = &res->id,
		};
	}
	if (m)
		hold_hits(w, new, m, bytes);
}

/* A bad request: what was not looked up yet has no result. */
static void look_up_failed(struct fkv_work *w, const struct fkv_probe *p, u32 n,
			   u32 at)
{
	while (n-- > 0)
		w->res[p[n].item] = (struct fluxonkv_result){};
	memset(&w->res[at], 0, (w->req.nr - at) * sizeof(*w->res));
}

/* All results are written. On an error some may be holders. */
static int look_up(struct fkv_work *w)
{
	struct fkv_probe probes[CHUNK];
	struct fkv_cursor c = w->items;
	u32 n = 0;

	for (u32 i = 0; i < w->req.nr; i++) {
		const void *key;
		u32 len;
		int status, err = fkv_body_key(&c, &key, &len, &status);

		if (err) {
			look_up_failed(w, probes, n, i);
			return err;
		}
		if (status) {
			w->res[i] = (struct fluxonkv_result){
				.status = status,
			};
			continue;
		}
		probes[n].key = key;
		probes[n].len = len;
		probes[n].item = i;
		if (++n < CHUNK)
			continue;
		look_up_chunk(w, probes, n);
		n = 0;
	}
	if (n)
		look_up_chunk(w, probes, n);
	return c.left ? -EMSGSIZE : 0;
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
	int err = look_up(w);

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
