// SPDX-License-Identifier: Apache-2.0
/*
 * change.c - puts and deletes: what makes a version current, one at a time
 *
 * A change of a key that has a version first retires that version at every
 * owner that may have it in its index, and takes effect when they have
 * answered (protocol.md K6).
 */
#include <stdio.h>

#include "core/master/internal.h"

static struct fkv_msg *answer(struct fkv_out *out, enum fkv_msg_type type,
			      const struct fkv_mop *op, int res)
{
	struct fkv_msg *msg = fkv_member_send(op->member, out, type);

	msg->op = op->id;
	msg->res = res;
	return msg;
}

/* For what never became an op, or is none any more. */
static void answer_msg(struct fkv_out *out, enum fkv_msg_type type,
		       const struct fkv_msg *to, int res)
{
	struct fkv_msg *msg = fkv_out_send(out, type);

	msg->peer = to->peer;
	msg->op = to->op;
	msg->res = res;
}

/* EXCL: is the key taken? (K4) */
static int excl_check(const struct fkv_master *m, const struct fkv_route *r)
{
	if (fkv_route_present(m, r))
		return -EEXIST;
	return r->puts || r->changing || !TAILQ_EMPTY(&r->changes) ?
		-EBUSY : 0;
}

static bool offers_ssd(const struct fkv_master *m, const struct fkv_member *mb)
{
	return fkv_member_live(mb) && mb->ssd_devices &&
	       mb->suspect_ns <= m->now_ns;
}

/* One of those that offer SSD, from some place on; NULL: nobody does. */
static struct fkv_member *next_with_ssd(struct fkv_master *m)
{
	uint32_t from;

	m->rng = m->rng * 6364136223846793005ULL + 1442695040888963407ULL;
	from = (uint32_t)(m->rng >> 33) % m->nr_members;
	for (uint32_t i = 0; i < m->nr_members; i++) {
		struct fkv_member *mb = m->member[(from + i) % m->nr_members];

		if (offers_ssd(m, mb))
			return mb;
	}
	return NULL;
}

#define PLACES	3

/*
 * P3: where the requester is, if it qualifies, else at the one with most free
 * space of three random. Whether to persist is decided here.
 */
static void place(struct fkv_master *m, struct fkv_mop *op)
{
	struct fkv_member *best = NULL;
	bool ssd = op->len && !(op->flags & FLUXONKV_PUT_MEMORY);

	op->peer = NULL;
	op->persist = ssd && op->member->ssd_devices;
	if (!ssd || op->persist || m->nr_members == 1)
		return;
	for (int i = 0; i < PLACES; i++) {
		struct fkv_member *mb = next_with_ssd(m);

		if (mb && (!best ||
			   fkv_extents_free_bytes(&mb->space.extents) >
			   fkv_extents_free_bytes(&best->space.extents)))
			best = mb;
	}
	if (!best || op->len > fkv_space_limit(&best->space, FKV_CLASS_PUT))
		return;
	op->peer = best;
	op->persist = true;
}

static struct fkv_mop *put_create(struct fkv_master *m, struct fkv_msg *msg,
				  int *ret_err)
{
	struct fkv_route *r = fkv_route_get(m, msg->key);
	struct fkv_mop *op;

	*ret_err = -ENOMEM;
	if (!r)
		return NULL;
	if (msg->flags & FLUXONKV_PUT_EXCL) {
		*ret_err = excl_check(m, r);
		if (*ret_err == -EEXIST && r->memory)
			fkv_extent_touch(r->memory, 1);
		if (*ret_err)
			goto err_route;
	}
	*ret_err = -ENOMEM;
	op = fkv_mop_create(m, FKV_MOP_PUT, msg);
	if (!op)
		goto err_route;
	op->route = r;
	place(m, op);
	r->puts++;
	return op;

err_route:
	fkv_route_gc(m, r);
	return NULL;
}

static void put_free(struct fkv_master *m, struct fkv_mop *op)
{
	struct fkv_route *r = op->route;

	fkv_mop_free(m, op);
	r->puts--;
	fkv_route_gc(m, r);
}

void fkv_master_put_start(struct fkv_master *m, uint64_t now_ns,
			  struct fkv_msg *msg, struct fkv_out *out)
{
	struct fkv_mop *op;
	int err;

	m->stats.puts++;
	op = put_create(m, msg, &err);
	if (!op) {
		answer_msg(out, FKV_MSG_PUT_PLAN, msg, err);
		return;
	}
	err = fkv_master_room(m, op, now_ns, msg);
	if (err != -EAGAIN)
		fkv_master_put_planned(m, op, err, out);
}

/* A frame may come only for a target that its host knows of (G3.3). */
static void expose(struct fkv_mop *op, struct fkv_out *out)
{
	struct fkv_msg *msg = fkv_member_send(op->peer, out, FKV_MSG_EXPOSE);

	msg->op = op->id;
	msg->incarnation = op->member->incarnation;
	msg->ticket = op->ticket;
	msg->extent = op->remote->handle;
	msg->offset = op->remote->offset;
	msg->len = op->len;
}

/* Nothing of @op may come there any more; its host says when (G3.4). */
static void fence(struct fkv_master *m, struct fkv_mop *op,
		  struct fkv_out *out)
{
	struct fkv_extent *x = op->remote;
	struct fkv_msg *msg;

	op->remote = NULL;
	if (!x)
		return;
	if (!x->bytes) {
		fkv_master_detach(m, x);
		return;
	}
	msg = fkv_member_send(op->peer, out, FKV_MSG_FENCE);
	x->fencing = true;
	msg->op = op->id;
	msg->incarnation = op->member->incarnation;
	msg->extent = x->handle;
}

void fkv_master_fenced(struct fkv_master *m, struct fkv_msg *msg)
{
	struct fkv_extent *x = fkv_master_extent_at(m, msg);

	if (!x || !x->fencing) {
		m->stats.bad_messages++;
		return;
	}
	x->fencing = false;
	fkv_master_detach(m, x);
}

static void plan(struct fkv_mop *op, struct fkv_out *out)
{
	struct fkv_msg *ans = answer(out, FKV_MSG_PUT_PLAN, op, 0);

	op->planned = true;
	ans->extent = op->extent->handle;
	ans->offset = op->extent->offset;
	if (!op->remote)
		return;
	ans->incarnation = op->peer->incarnation;
	ans->remote = op->remote->offset;
}

void fkv_master_exposed(struct fkv_master *m, struct fkv_msg *msg,
			struct fkv_out *out)
{
	struct fkv_mop *op = fkv_mop_by_ticket(m, msg->ticket);

	/* its writer left, or it is to be here after all */
	if (!op || !op->remote || op->planned)
		return;
	if (msg->res)
		fence(m, op, out);
	plan(op, out);
}

/* Answer PutStart: with an extent, or with why there is none. */
void fkv_master_put_planned(struct fkv_master *m, struct fkv_mop *op, int res,
			    struct fkv_out *out)
{
	struct fkv_msg *ans;

	if (!res && op->remote) {
		expose(op, out);
		return;
	}
	if (!res) {
		plan(op, out);
		return;
	}
	ans = answer(out, FKV_MSG_PUT_PLAN, op, res);
	if (res == -ENOSPC || res == -EFBIG) {
		m->stats.no_space++;
		fkv_space_explain(op->waiter.space ? op->waiter.space :
				  &op->member->space, op->len, m->text,
				  sizeof(m->text));
		ans->text = m->text;
	}
	put_free(m, op);
}

/* Accesses of the key so far, wherever they were kept. */
static unsigned int take_frequency(struct fkv_master *m, struct fkv_route *r,
				   struct fkv_member *mb)
{
	struct fkv_lfu *lfu = &mb->space.lfu;
	struct fkv_extent *x = fkv_route_memory(r, mb);
	unsigned int f = 0;

	if (x && x->in_policy)
		f = fkv_lfu_f(lfu, &x->lfu);
	else if (r->put_id)
		f = fkv_route_count(m, r);
	else
		f = fkv_lfu_ghost_take(lfu, r->key->hash.low);
	memset(&r->count, 0, sizeof(r->count));
	return f;
}

/* What the requester keeps of a put that is another's: a copy to hold. */
static void keep_staged(struct fkv_master *m, struct fkv_mop *op)
{
	op->extent->refs++;
	fkv_master_detach(m, op->extent);
}

static void apply_put(struct fkv_master *m, struct fkv_mop *op,
		      struct fkv_out *out)
{
	struct fkv_route *r = op->route;
	struct fkv_extent *x = op->remote ? op->remote : op->extent;
	unsigned int f = take_frequency(m, r, fkv_member_of(x));
	struct fkv_msg *ans;

	fkv_route_clear(m, r);
	r->put_id = m->next_put_id++;
	r->len = op->len;
	r->persist = op->persist;
	m->stats.keys++;
	fkv_route_set_memory(m, r, x, f);
	ans = answer(out, FKV_MSG_PUT_DONE_R, op, 0);
	ans->put_id = r->put_id;
	ans->extent = op->extent->handle;
	ans->grant = !op->remote;
	if (op->remote)
		keep_staged(m, op);
	else
		x->refs++;
	if (r->persist) {
		fkv_extent_set_cause(x, FKV_CAUSE_PERSIST);
		fkv_master_persist(m, x, out);
	}
	op->extent = op->remote = NULL;
}

static void apply_delete(struct fkv_master *m, struct fkv_mop *op,
			 struct fkv_out *out)
{
	fkv_route_clear(m, op->route);
	/* where nobody had to retire it all is suspended: none saw it */
	answer(out, FKV_MSG_DELETE_R, op, op->retired ? 0 : -ENOENT);
}

static void apply(struct fkv_master *m, struct fkv_mop *op,
		  struct fkv_out *out)
{
	if (op->type == FKV_MOP_PUT) {
		apply_put(m, op, out);
		op->route->puts--;
	} else {
		apply_delete(m, op, out);
	}
	fkv_mop_free(m, op);
}

/* May this change still take effect? 0 or its errno. */
static int change_check(const struct fkv_master *m, const struct fkv_mop *op)
{
	if (op->type == FKV_MOP_DELETE)
		return op->route->put_id ? 0 : -ENOENT;
	if (op->flags & FLUXONKV_PUT_EXCL)
		return fkv_route_present(m, op->route) ? -EEXIST : 0;
	return 0;
}

static void refuse(struct fkv_master *m, struct fkv_mop *op, int err,
		   struct fkv_out *out)
{
	if (op->type == FKV_MOP_DELETE) {
		answer(out, FKV_MSG_DELETE_R, op, err);
	} else {
		answer(out, FKV_MSG_PUT_DONE_R, op, err);
		fkv_master_detach(m, op->extent);
		/* all of it was pushed: nothing can touch it any more */
		if (op->remote)
			fkv_master_detach(m, op->remote);
		op->route->puts--;
	}
	fkv_mop_free(m, op);
}

static void ask(struct fkv_member *mb, struct fkv_mop *op, struct fkv_out *out)
{
	uint64_t bit = 1ULL << mb->index % 64;
	struct fkv_msg *msg;

	if (!fkv_member_live(mb) || op->asked[mb->index / 64] & bit)
		return;
	op->asked[mb->index / 64] |= bit;
	op->nr_asked++;
	op->retired = true;
	msg = fkv_member_send(mb, out, FKV_MSG_RETIRE);
	msg->op = op->ticket;
	msg->key = fkv_key_get(op->route->key);
	msg->put_id = op->route->put_id;
}

/* All that may have it in an index or a ring (K6c); false: nobody. */
static bool retire(struct fkv_master *m, struct fkv_route *r,
		   struct fkv_mop *op, struct fkv_out *out)
{
	for (struct fkv_extent *x = r->memory; x; x = x->next)
		ask(fkv_member_of(x), op, out);
	for (struct fkv_ssd *d = r->ssd; d; d = d->next)
		ask(m->member[d->member], op, out);
	if (op->nr_asked)
		r->changing = op;
	return op->nr_asked;
}

static void changes_run(struct fkv_master *m, struct fkv_route *r,
			struct fkv_out *out)
{
	struct fkv_mop *op;

	while (!r->changing && (op = TAILQ_FIRST(&r->changes))) {
		int err = change_check(m, op);

		TAILQ_REMOVE(&r->changes, op, link);
		op->queued = false;
		if (err)
			refuse(m, op, err, out);
		else if (!retire(m, r, op, out))
			apply(m, op, out);
	}
	fkv_route_gc(m, r);
}

static void change_queue(struct fkv_mop *op)
{
	op->queued = true;
	TAILQ_INSERT_TAIL(&op->route->changes, op, link);
}

/* A put that has its plan, and is not over. */
static struct fkv_mop *open_put(const struct fkv_master *m,
				const struct fkv_msg *msg)
{
	struct fkv_mop *op = fkv_mop_find(m, msg);

	return op && op->type == FKV_MOP_PUT && op->planned && !op->queued &&
	       op->route->changing != op ? op : NULL;
}

/* It is the requester's own put from now on. */
static void to_here(struct fkv_mop *op)
{
	op->peer = NULL;
	op->persist = op->len && op->member->ssd_devices &&
		      !(op->flags & FLUXONKV_PUT_MEMORY);
}

void fkv_master_put_done(struct fkv_master *m, struct fkv_msg *msg,
			 struct fkv_out *out)
{
	struct fkv_mop *op = open_put(m, msg);

	if (!op) {
		m->stats.bad_messages++;
		answer_msg(out, FKV_MSG_PUT_DONE_R, msg, -ETIMEDOUT);
		return;
	}
	/* it could not be pushed: what it was staged in is its replica */
	if (msg->res && op->remote) {
		if (msg->suspect)
			fkv_member_failed(m, op->peer, op->member);
		fence(m, op, out);
		to_here(op);
	}
	change_queue(op);
	changes_run(m, op->route, out);
}

/*
 * The put is over without effect. With msg->held its client may still write:
 * the extent stays until the owner says QUIET for one reference.
 */
void fkv_master_put_revoke(struct fkv_master *m, struct fkv_msg *msg,
			   struct fkv_out *out)
{
	struct fkv_mop *op = open_put(m, msg);

	if (!op) {
		m->stats.bad_messages++;
		return;
	}
	m->stats.revokes++;
	if (msg->held)
		op->extent->refs++;
	fkv_master_detach(m, op->extent);
	fence(m, op, out);
	put_free(m, op);
}

/*
 * Its client is gone (P5). Only a wait for room ends by this: a plan that is
 * on its way to the owner is answered by its revocation, a refusal by nothing.
 */
void fkv_master_put_cancel(struct fkv_master *m, struct fkv_msg *msg,
			   struct fkv_out *out)
{
	struct fkv_mop *op = fkv_mop_find(m, msg);

	if (!op || op->type != FKV_MOP_PUT || !op->waiter.queued)
		return;
	fkv_master_unwait(m, op);
	fkv_master_put_planned(m, op, -ECANCELED, out);
}

void fkv_master_delete(struct fkv_master *m, struct fkv_msg *msg,
		       struct fkv_out *out)
{
	struct fkv_route *r = fkv_route_find(m, msg->key);
	struct fkv_mop *op;

	m->stats.deletes++;
	if (!r || (!r->put_id && !r->changing && TAILQ_EMPTY(&r->changes))) {
		answer_msg(out, FKV_MSG_DELETE_R, msg, -ENOENT);
		return;
	}
	op = fkv_mop_create(m, FKV_MOP_DELETE, msg);
	if (!op) {
		answer_msg(out, FKV_MSG_DELETE_R, msg, -ENOMEM);
		return;
	}
	op->route = r;
	change_queue(op);
	changes_run(m, r, out);
}

/* @op was answered for, or nobody is left to answer. */
static void answered(struct fkv_master *m, struct fkv_mop *op,
		     struct fkv_out *out)
{
	struct fkv_route *r = op->route;

	if (--op->nr_asked)
		return;
	r->changing = NULL;
	apply(m, op, out);
	changes_run(m, r, out);
}

static bool asked(struct fkv_mop *op, const struct fkv_member *mb)
{
	uint64_t bit = 1ULL << mb->index % 64;
	bool was = op->asked[mb->index / 64] & bit;

	op->asked[mb->index / 64] &= ~bit;
	return was;
}

void fkv_master_retired(struct fkv_master *m, struct fkv_msg *msg,
			struct fkv_out *out)
{
	struct fkv_mop *op = fkv_mop_by_ticket(m, msg->op);

	if (!op || !op->nr_asked || !asked(op, m->member[msg->peer])) {
		m->stats.bad_messages += m->nr_members == 1;
		return;
	}
	answered(m, op, out);
}

/* The segment that it was to be pushed to is out of reach. */
static void lose_target(struct fkv_master *m, struct fkv_mop *op,
			struct fkv_out *out)
{
	bool waits = op->waiter.queued;
	struct fkv_extent *x = op->remote;
	struct fkv_space *none = NULL;
	int err = 0;

	op->remote = NULL;
	to_here(op);
	if (x) {
		/* taken until its host has told what is quiet */
		x->refs++;
		fkv_master_detach(m, x);
	}
	if (op->planned || (!waits && !x))
		return;
	if (waits) {
		fkv_space_unwait(&op->waiter);
		err = fkv_master_give(m, op, &none);
	}
	if (err == -EAGAIN || err == -ENOSPC) {
		fkv_master_wait(m, op, none);
		return;
	}
	fkv_timer_clear(&m->timers, &op->timer);
	fkv_master_put_planned(m, op, err, out);
}

void fkv_master_lose_targets(struct fkv_master *m, struct fkv_member *mb,
			     struct fkv_out *out)
{
	for (uint32_t i = 0; i < m->nr_members; i++) {
		struct fkv_mop *op, *next;

		for (op = TAILQ_FIRST(&m->member[i]->ops); op; op = next) {
			next = TAILQ_NEXT(op, of_member);
			if (op->type == FKV_MOP_PUT && op->peer == mb)
				lose_target(m, op, out);
		}
	}
}

void fkv_master_unask(struct fkv_master *m, struct fkv_member *mb,
		      struct fkv_out *out)
{
	/* an op that ends by this lets others begin: from the start again */
	for (uint32_t i = 0; i < m->nr_members; i++) {
		struct fkv_mop *op = TAILQ_FIRST(&m->member[i]->ops);

		while (op) {
			bool was = op->nr_asked && asked(op, mb);

			if (was)
				answered(m, op, out);
			op = was ? TAILQ_FIRST(&m->member[i]->ops) :
				TAILQ_NEXT(op, of_member);
		}
	}
}

/* None of its changes may take effect when others end. */
void fkv_master_unqueue(struct fkv_master *m, struct fkv_member *mb)
{
	struct fkv_mop *op, *next;

	for (op = TAILQ_FIRST(&mb->ops); op; op = next) {
		struct fkv_route *r = op->route;

		next = TAILQ_NEXT(op, of_member);
		if (!op->queued)
			continue;
		op->queued = false;
		TAILQ_REMOVE(&r->changes, op, link);
		if (op->type != FKV_MOP_DELETE)
			continue;
		/* the queue was all that kept its route */
		fkv_mop_free(m, op);
		fkv_route_gc(m, r);
	}
}

static void abandon_change(struct fkv_master *m, struct fkv_mop *op,
			   bool taken, struct fkv_out *out)
{
	struct fkv_route *r = op->route;

	if (op->queued)
		TAILQ_REMOVE(&r->changes, op, link);
	if (r->changing == op)
		r->changing = NULL;
	if (op->type == FKV_MOP_PUT) {
		if (op->extent) {
			op->extent->refs += taken;
			fkv_master_detach(m, op->extent);
		}
		fence(m, op, out);
		r->puts--;
	}
	fkv_mop_free(m, op);
	changes_run(m, r, out);
}

void fkv_master_abandon(struct fkv_master *m, struct fkv_mop *op, bool taken,
			struct fkv_out *out)
{
	if (op->waiter.queued)
		fkv_master_unwait(m, op);
	if (op->type != FKV_MOP_GET) {
		abandon_change(m, op, taken, out);
		return;
	}
	if (op->extent) {
		op->extent->refs += taken;
		fkv_master_detach(m, op->extent);
	}
	fkv_mop_free(m, op);
}
