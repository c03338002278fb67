// SPDX-License-Identifier: GPL-2.0-only
/*
 * hit.c - GET: what is published here becomes holders, in one pass
 *
 * Keys are taken from the request, looked up and made holders one by one, under
 * the lock of the session's holders: nobody else's. What all of them share is
 * charged and counted once for each time that the lock is held.
 */
#include "call.h"
#include "index.h"
#include "trace.h"

#define AT_ONCE		32	/* keys, while the lock is held */

/* What was found since the lock was taken. */
struct found {
	u64 bytes;			/* whole pages of holders */
	u64 held;			/* of first readers */
	u64 hit_bytes;
	u32 hits;
	u32 nr_drop;
	struct fkv_probe odd;
	struct fkv_entry *drop[AT_ONCE]; /* references to be given back */
};

/* After the pin: a frozen owner's lease is over before another may write. */
static bool lease_over(const struct fkv_instance *inst)
{
	return inst->strict && ktime_get_boottime_ns() >
			       READ_ONCE(inst->lease_until_ns);
}

static void miss(struct fkv_work *w, struct fluxonkv_result *res)
{
	*res = (struct fluxonkv_result){ .status = FKV_ASK };
	w->nr_ask++;
}

static __always_inline void hit(struct fkv_holders *t, struct found *f,
				struct fluxonkv_result *res,
				struct fkv_entry *e, u64 now_ns)
{
	u64 len = e->len;

	res->status = 0;
	res->source = FLUXONKV_SOURCE_LOCAL;
	res->offset = e->offset;
	res->len = len;
	res->version = e->put_id;
	res->id = fkv_holder_take(t, e, NULL, now_ns);
	fkv_index_hit(e);
	f->hit_bytes += len;
	f->bytes += PAGE_ALIGN(len);
}

/*
 * An item that is not plain: 0 and its key; or its result, and no bytes of a
 * key; or -errno of the request.
 */
static noinline int odd_item(struct fkv_work *w, struct fkv_cursor *c, u32 i,
			     struct fkv_probe *ret)
{
	const void *key;
	int status, err = fkv_body_key_any(c, &key, &ret->len, &status);

	if (err)
		return err;
	ret->key = key;
	if (status) {
		ret->len = 0;
		w->res[i] = (struct fluxonkv_result){ .status = status };
	}
	return 0;
}

/*
 * Under rcu_read_lock() and the lock: items *@at to @to, as long as there are
 * slots for holders. 0, or -errno of the request, which is bad from *@at on.
 * What each item needs is in locals, and with luck in registers.
 */
static __always_inline int look_up_some(struct fkv_work *w,
					struct fkv_cursor *cursor, u32 *at,
					u32 to, struct found *f)
{
	struct fkv_instance *inst = w->s->inst;
	struct fkv_holders *t = &w->s->holders;
	struct fkv_cursor c = *cursor;
	u64 now_ns = ktime_get_coarse_ns();
	u32 i = *at;
	int err = 0;

	for (; i < to && t->free; i++) {
		struct fluxonkv_result *res = &w->res[i];
		const struct fluxonkv_item *item = (const void *)c.at;
		size_t room = fkv_body_plain(&c);
		struct fkv_probe p = { .key = (const u64 *)(item + 1) };
		struct fkv_entry *e;

		if (likely(room)) {
			p.len = item->key_len;
			c.at += room;
			c.left -= room;
		} else {
			*cursor = c;
			err = odd_item(w, cursor, i, &f->odd);
			c = *cursor;
			if (err)
				break;
			p = f->odd;
			if (!p.len)
				continue;
		}
		e = fkv_index_get(inst, &p, &f->held);
		if (e && lease_over(inst)) {
			f->drop[f->nr_drop++] = e;
			e = NULL;
		}
		trace_fluxonkv_get(w->s->id, p.hash, e ? e->put_id : 0,
				   e ? e->len : 0, !!e);
		if (e)
			hit(t, f, res, e, now_ns);
		else
			miss(w, res);
	}
	*cursor = c;
	*at = i;
	return err;
}

static bool is_hit(const struct fkv_work *w, u32 i)
{
	return !w->res[i].status && w->res[i].id;
}

/* Under the lock: those that are over a cap, taken one by one, are no holders. */
static noinline void refuse(struct fkv_work *w, struct found *f, u32 from,
			    u32 to)
{
	for (u32 i = from; i < to; i++) {
		struct fluxonkv_result *res = &w->res[i];
		struct fkv_holder was;

		if (!is_hit(w, i) || fkv_charge(w->s, PAGE_ALIGN(res->len)))
			continue;
		fkv_holder_give_back(&w->s->holders, res->id, &was);
		f->drop[f->nr_drop++] = was.entry;
		f->hits--;
		f->hit_bytes -= res->len;
		*res = (struct fluxonkv_result){ .status = -EDQUOT };
		atomic64_inc(&w->s->inst->quota);
	}
}

/* Under the lock they cannot be released yet. */
static noinline void trace_holds(struct fkv_work *w, u32 from, u32 to)
{
	for (u32 i = from; i < to; i++) {
		struct fluxonkv_result *res = &w->res[i];
		struct fkv_entry *e;

		if (!is_hit(w, i))
			continue;
		e = fkv_holder_slot(&w->s->holders, (u32)res->id - 1)->entry;
		trace_fluxonkv_hold(w->s->id, res->id, e->hash, e->put_id,
				    e->len);
	}
}

/* Items *@at to @to at most: 0 or -errno of the request. */
static int hold_some(struct fkv_work *w, struct fkv_cursor *c, u32 *at, u32 to)
{
	struct fkv_instance *inst = w->s->inst;
	struct fkv_holders *t = &w->s->holders;
	struct found f;
	u32 from = *at, held;
	int err;

	f.bytes = f.held = f.hit_bytes = 0;
	f.nr_drop = 0;
	rcu_read_lock();
	spin_lock(&t->lock);
	held = t->nr;
	err = look_up_some(w, c, at, to, &f);
	f.hits = t->nr - held;
	if (f.held)
		atomic64_add(f.held, &inst->held_bytes);
	if (f.hits && !fkv_charge(w->s, f.bytes))
		refuse(w, &f, from, *at);
	if (trace_fluxonkv_hold_enabled())
		trace_holds(w, from, *at);
	spin_unlock(&t->lock);
	rcu_read_unlock();
	while (f.nr_drop)
		fkv_entry_put(f.drop[--f.nr_drop]);
	w->hits += f.hits;
	w->hit_bytes += f.hit_bytes;
	return err;
}

/* Item @at has no slot, and there is no memory for some. */
static int no_room(struct fkv_work *w, struct fkv_cursor *c, u32 at)
{
	struct fkv_probe p;
	int err = odd_item(w, c, at, &p);

	if (!err && p.len)
		w->res[at] = (struct fluxonkv_result){ .status = -ENOMEM };
	return err;
}

int fkv_hits(struct fkv_work *w)
{
	struct fkv_cursor c = w->items;
	u32 i = 0, nr = w->req.nr;
	bool full = false;
	int err = 0;

	while (i < nr && !err) {
		u32 to = min_t(u32, nr, i + AT_ONCE);

		err = hold_some(w, &c, &i, to);
		if (err || i == to)
			continue;
		/* to ask for memory may take long: once for all of them */
		full = full || fkv_holders_grow(&w->s->holders);
		if (full) {
			err = no_room(w, &c, i);
			i += !err;
		}
	}
	if (!err && c.left)
		err = -EMSGSIZE;
	/* a bad request: what was not looked up has no result */
	memset(&w->res[i], 0, (nr - i) * sizeof(*w->res));
	return err;
}
