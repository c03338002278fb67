// SPDX-License-Identifier: Apache-2.0
/*
 * reclaim.c - victims, persists and waiters: how memory comes free
 *
 * A replica that the owner has no reference to goes at once; one in its index
 * is asked for by EVICT; one whose SSD copy the ring has dropped is written
 * again first (P6.1). Freed room goes to waiters, in order.
 */
#include "core/master/internal.h"

/*
 * What is asked of the owner at once, and what is evicted in one step of the
 * clock: outputs are bounded by the first, and others are served meanwhile by
 * the second.
 */
#define ASKED_MAX	1024u
#define BURST_MAX	4096u

void fkv_master_persist(struct fkv_master *m, struct fkv_extent *x,
			struct fkv_out *out)
{
	struct fkv_msg *msg = fkv_member_send(fkv_member_of(x), out,
					      FKV_MSG_PERSIST);

	m->stats.persists++;
	x->refs++;
	x->persisting = true;
	fkv_extent_update(x);
	msg->key = fkv_key_get(x->route->key);
	msg->put_id = x->route->put_id;
	msg->extent = x->handle;
	msg->offset = x->offset;
	msg->len = x->route->len;
	msg->first = x->cause == FKV_CAUSE_PERSIST;
}

static void back_first(struct fkv_master *m, struct fkv_extent *x,
		       struct fkv_out *out)
{
	m->stats.rebacked++;
	x->rebacked = true;
	x->space->persisting++;
	x->space->evicting_bytes += x->bytes;
	x->space->backing_bytes += x->bytes;
	x->backing = true;
	fkv_master_persist(m, x, out);
}

static void backing_end(struct fkv_extent *x)
{
	struct fkv_space *s = x->space;

	if (!x->backing)
		return;
	x->backing = false;
	s->persisting--;
	s->evicting_bytes -= x->bytes;
	s->backing_bytes -= x->bytes;
}

static void asking_end(struct fkv_extent *x)
{
	if (!x->evicting)
		return;
	x->evicting = false;
	x->space->asked--;
	x->space->evicting_bytes -= x->bytes;
}

void fkv_master_forget(struct fkv_extent *x)
{
	asking_end(x);
	backing_end(x);
	x->persisting = x->fencing = x->given_again = false;
	if (x->cause == FKV_CAUSE_PERSIST)
		fkv_extent_set_cause(x, FKV_CAUSE_NONE);
	fkv_master_settle(x);
}

static void ask(struct fkv_extent *x, struct fkv_out *out)
{
	struct fkv_msg *msg = fkv_member_send(fkv_member_of(x), out,
					      FKV_MSG_EVICT);

	x->evicting = true;
	x->given_again = false;
	x->space->asked++;
	x->space->evicting_bytes += x->bytes;
	fkv_extent_update(x);
	msg->extent = x->handle;
	msg->key = fkv_key_get(x->route->key);
	msg->put_id = x->route->put_id;
}

/* Out of memory, keeping its frequency for when it comes back. */
static void evict(struct fkv_master *m, struct fkv_extent *x)
{
	struct fkv_route *r = x->route;
	bool last = r->memory == x && !x->next;
	struct fkv_lfu_count count;

	m->stats.evictions++;
	m->stats.evicted_bytes += x->bytes;
	count = fkv_extent_evicted(x, r->ssd && last);
	if (r->ssd && last) {
		r->count = count;
		r->counted = (uint16_t)fkv_member_of(x)->index;
	}
	fkv_route_drop_memory(m, x);
	fkv_route_gc(m, r);
}

/* Is there another replica of it that is not about to go, too? */
static bool read_elsewhere(const struct fkv_extent *x)
{
	for (const struct fkv_extent *o = x->route->memory; o; o = o->next)
		if (o != x && !o->evicting && fkv_member_live(fkv_member_of(o)))
			return true;
	return false;
}

/*
 * Once between two hits: a ring smaller than memory drops the new copy before
 * the turn of this victim comes again, and writing would never end.
 */
static bool wants_backing(const struct fkv_extent *x)
{
	return x->unbacked && x->read && !x->rebacked &&
	       fkv_member_of(x)->ssd_devices && !x->route->changing &&
	       x->space->persisting < FKV_WRITES_MAX && !read_elsewhere(x);
}

static bool may_evict(const struct fkv_space *s)
{
	return s->asked < ASKED_MAX && s->burst < BURST_MAX;
}

static void evict_one(struct fkv_master *m, struct fkv_extent *x,
		      struct fkv_out *out)
{
	x->space->burst++;
	if (wants_backing(x))
		back_first(m, x, out);
	else if (x->refs)
		ask(x, out);
	else
		evict(m, x);
}

/* Pinned when it was asked lately: the turn is that of the others. */
static bool found_busy(const struct fkv_space *s, const struct fkv_extent *x)
{
	return s->hole_waiter && x->busy == s->hole_waiter->number;
}

/*
 * Ask for or take victims in the policy's order while there is pressure.
 * True when room came free at once.
 */
static bool reclaim(struct fkv_master *m, struct fkv_space *s,
		    struct fkv_out *out)
{
	struct fkv_lfu_cursor cursor = { 0 };
	uint64_t before = fkv_extents_free_bytes(&s->extents);

	while (s->budget && may_evict(s) && fkv_space_pressure(s)) {
		struct fkv_lfu_item *it = fkv_lfu_victim(&s->lfu, &cursor);
		struct fkv_extent *x;

		if (!it)
			break;
		s->budget--;
		x = fkv_container_of(it, struct fkv_extent, lfu);
		if (found_busy(s, x))
			continue;
		s->reclaiming = true;
		evict_one(m, x, out);
	}
	s->reclaiming = false;
	return fkv_extents_free_bytes(&s->extents) > before;
}

static void planned(struct fkv_master *m, struct fkv_mop *op, int res,
		    struct fkv_out *out)
{
	fkv_master_unwait(m, op);
	if (op->type == FKV_MOP_PUT)
		fkv_master_put_planned(m, op, res, out);
	else
		fkv_master_get_planned(m, op, res, out);
}

/* A waiting get whose value came into memory meanwhile needs no room. */
static bool answered(struct fkv_master *m, struct fkv_mop *op,
		     struct fkv_out *out)
{
	struct fkv_route *r;

	if (op->type != FKV_MOP_GET)
		return false;
	r = fkv_route_find(m, op->key);
	if (!r || !fkv_route_present(m, r) || fkv_route_memory(r, op->member))
		fkv_space_unwait(&op->waiter);
	return fkv_master_get_answer(m, op, out);
}

/* Serve one class from its head on: false when a hole is missing. */
static bool serve_class(struct fkv_master *m, struct fkv_space *s,
			enum fkv_class class, struct fkv_out *out)
{
	struct fkv_waiter *w;

	while ((w = fkv_space_head(s, class))) {
		struct fkv_space *none = s;
		struct fkv_mop *op;
		int err;

		op = fkv_container_of(w, struct fkv_mop, waiter);
		if (answered(m, op, out))
			continue;
		err = fkv_master_give(m, op, &none);
		if (none != s && (err == -EAGAIN || err == -ENOSPC)) {
			/* there is room here, so it waits where there is none */
			fkv_master_unwait(m, op);
			fkv_master_wait(m, op, none);
			fkv_member_stir(m, fkv_container_of(none,
						struct fkv_member, space));
			continue;
		}
		if (err == -EAGAIN)
			return true;
		if (err == -ENOSPC) {
			fkv_space_want_hole(s, w);
			return false;
		}
		planned(m, op, err, out);
	}
	return true;
}

/*
 * Enough is free, but in pieces: evict the cheapest window for who waits, and
 * when some of it was pinned or had to be written first, one more. True when
 * room may have come free at once.
 */
static bool empty_window(struct fkv_master *m, struct fkv_space *s,
			 struct fkv_out *out)
{
	struct fkv_waiter *w = s->hole_waiter;
	struct fkv_extent *x, *next;
	struct fkv_window window;

	if (!s->hole_wanted || fkv_space_coming(s) || !may_evict(s) ||
	    w->windows >= FKV_WINDOW_TRIES ||
	    fkv_extents_free_bytes(&s->extents) < s->hole_wanted)
		return false;
	w->windows++;
	if (!fkv_space_window(s, s->hole_wanted, &window)) {
		w->windows = FKV_WINDOW_TRIES;
		return true;
	}
	m->stats.windows++;
	for (x = window.first; x && may_evict(s); x = next) {
		next = x == window.last ? NULL : fkv_extent_next(x);
		evict_one(m, x, out);
	}
	/* the rest of it comes next, and is no other try */
	if (x)
		w->windows--;
	return true;
}

/* Room to waiters, from victims if need be. After every step. */
void fkv_master_serve(struct fkv_master *m, struct fkv_member *mb,
		      struct fkv_out *out)
{
	struct fkv_space *s = &mb->space;

	if (m->now_ns != s->burst_ns)
		s->burst = 0;
	s->burst_ns = m->now_ns;
	do {
		s->hole_wanted = 0;
		s->hole_waiter = NULL;
		for (int c = 0; s->waiting && c < FKV_CLASS_NR; c++)
			if (!serve_class(m, s, (enum fkv_class)c, out))
				break;
	} while ((reclaim(m, s, out) || empty_window(m, s, out)) &&
		 s->waiting);
}

void fkv_master_evicted(struct fkv_master *m, struct fkv_msg *msg)
{
	struct fkv_extent *x = fkv_master_extent_at(m, msg);
	bool kept;

	if (!x)
		return;		/* QUIET came first */
	if (!x->evicting) {
		m->stats.bad_messages++;
		return;
	}
	asking_end(x);
	if (msg->res == FKV_EVICT_OK)
		fkv_space_new_round(x->space);
	if (msg->n > x->refs) {
		m->stats.bad_messages++;
		msg->n = x->refs;
	}
	x->refs -= (uint32_t)msg->n;
	kept = msg->res == FKV_EVICT_BUSY || x->given_again || x->pulls;
	if (!x->route) {
		fkv_master_ungive(m, x, 0);
	} else if (kept) {
		m->stats.evict_busy++;
		if (x->space->hole_waiter)
			x->busy = x->space->hole_waiter->number;
		fkv_extent_update(x);
		fkv_extent_touch(x, 1);
	} else {
		m->stats.evict_held += msg->res == FKV_EVICT_HELD;
		evict(m, x);
	}
}

static void persisted(struct fkv_master *m, struct fkv_msg *msg,
		      struct fkv_extent *x)
{
	struct fkv_route *r = fkv_route_find(m, msg->key);
	struct fkv_member *mb = fkv_member_of(x);

	if (!r || r->put_id != msg->put_id || x->route != r ||
	    msg->shard >= mb->nr_shards ||
	    msg->seq < mb->shards[msg->shard].tail ||
	    fkv_route_add_ssd(m, r, mb, msg->shard, msg->seq)) {
		m->stats.commits_ignored++;
		return;
	}
	m->stats.commits++;
}

/* A persist ended: committed, or not (P6, P7). */
void fkv_master_persist_end(struct fkv_master *m, struct fkv_msg *msg,
			    struct fkv_out *out)
{
	struct fkv_extent *x = fkv_master_extent_at(m, msg);

	if (msg->type == FKV_MSG_SSD_COMMIT) {
		struct fkv_msg *ans = fkv_out_send(out, FKV_MSG_SSD_COMMIT_R);

		ans->peer = msg->peer;
		ans->op = msg->op;
	}
	if (!x || !x->persisting) {
		m->stats.bad_messages++;
		return;
	}
	x->persisting = false;
	backing_end(x);
	if (msg->type == FKV_MSG_SSD_COMMIT) {
		persisted(m, msg, x);
	} else {
		if (msg->res == -ECANCELED)
			m->stats.persist_superseded++;
		else
			m->stats.persist_failed++;
		x->unbacked = false;
	}
	if (x->cause == FKV_CAUSE_PERSIST)
		fkv_extent_set_cause(x, FKV_CAUSE_NONE);
	fkv_master_settle(x);
	fkv_space_new_round(x->space);
	fkv_master_ungive(m, x, 1);
}

static void ssd_gone(struct fkv_master *m, struct fkv_ssd *d)
{
	struct fkv_route *r = d->route;

	m->stats.ssd_dropped++;
	fkv_route_drop_ssd(m, d);
	fkv_route_gc(m, r);
}

void fkv_master_ssd_tail(struct fkv_master *m, struct fkv_msg *msg)
{
	struct fkv_member *mb = m->member[msg->peer];
	struct fkv_shard_routes *sh;
	struct fkv_ssd *d;

	if (msg->shard >= mb->nr_shards) {
		m->stats.bad_messages++;
		return;
	}
	sh = &mb->shards[msg->shard];
	if (msg->seq > sh->tail)
		sh->tail = msg->seq;
	while ((d = TAILQ_FIRST(&sh->replicas)) && d->seq < sh->tail)
		ssd_gone(m, d);
}

void fkv_master_ssd_lost(struct fkv_master *m, struct fkv_msg *msg)
{
	struct fkv_route *r = fkv_route_find(m, msg->key);
	struct fkv_ssd *d;

	if (!r || r->put_id != msg->put_id)
		return;
	d = fkv_route_ssd(r, m->member[msg->peer]);
	if (d)
		ssd_gone(m, d);
}
