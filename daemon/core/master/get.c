// SPDX-License-Identifier: Apache-2.0
/*
 * get.c - where a get is served from, and what its bytes become
 */
#include "core/master/internal.h"

static struct fkv_msg *plan(struct fkv_out *out, const struct fkv_mop *op,
			    int res)
{
	struct fkv_msg *msg = fkv_member_send(op->member, out,
					      FKV_MSG_GET_PLAN);

	msg->op = op->id;
	msg->res = res;
	return msg;
}

static void plan_memory(struct fkv_route *r, struct fkv_extent *x,
			const struct fkv_mop *op, struct fkv_out *out)
{
	struct fkv_msg *msg = plan(out, op, 0);

	x->refs++;
	x->read = true;
	x->rebacked = false;
	if (x->evicting)
		x->given_again = true;
	fkv_extent_touch(x, 1);
	msg->source = FLUXONKV_SOURCE_LOCAL;
	msg->put_id = r->put_id;
	msg->len = r->len;
	msg->extent = x->handle;
	msg->offset = x->offset;
	msg->grant = !r->changing;
}

/*
 * Answer at once when no room is needed: a miss, or a memory replica here.
 * Otherwise notes in the op what is to be fetched.
 */
bool fkv_master_get_answer(struct fkv_master *m, struct fkv_mop *op,
			   struct fkv_out *out)
{
	struct fkv_route *r = fkv_route_find(m, op->key);
	struct fkv_extent *x;

	if (!r || !fkv_route_present(m, r)) {
		m->stats.misses++;
		plan(out, op, -ENOENT)->source = FLUXONKV_SOURCE_MISS;
		fkv_mop_free(m, op);
		return true;
	}
	x = fkv_route_memory(r, op->member);
	if (!x) {
		op->len = r->len;
		op->put_id = r->put_id;
		op->waiter.len = r->len;
		return false;
	}
	plan_memory(r, x, op, out);
	fkv_mop_free(m, op);
	return true;
}

/* Is @mb one to read from? Suspects only when nothing else is left. */
static bool usable(const struct fkv_master *m, const struct fkv_mop *op,
		   const struct fkv_member *mb, bool suspects)
{
	if (!fkv_member_live(mb))
		return false;
	if (mb->suspect_ns <= m->now_ns)
		return !suspects;
	return suspects && !fkv_member_is_lost_to(mb, op->member);
}

/* The memory replica that fewest others read. */
static bool from_memory(struct fkv_master *m, const struct fkv_route *r,
			struct fkv_mop *op, bool suspects)
{
	struct fkv_extent *best = NULL;

	for (struct fkv_extent *x = r->memory; x; x = x->next)
		if (usable(m, op, fkv_member_of(x), suspects) &&
		    (!best || x->pulls < best->pulls))
			best = x;
	if (!best)
		return false;
	op->source = FLUXONKV_SOURCE_MEMORY_REMOTE;
	op->remote = best;
	op->peer = fkv_member_of(best);
	fkv_master_pull(best);
	fkv_extent_touch(best, 1);
	best->read = true;
	return true;
}

static bool from_ssd(struct fkv_master *m, const struct fkv_route *r,
		     struct fkv_mop *op, bool suspects)
{
	for (struct fkv_ssd *d = r->ssd; d; d = d->next) {
		struct fkv_member *mb = m->member[d->member];

		if (mb == op->member || !usable(m, op, mb, suspects))
			continue;
		op->source = FLUXONKV_SOURCE_SSD_REMOTE;
		op->peer = mb;
		return true;
	}
	return false;
}

/* G1, F3: memory before SSD, here before elsewhere. */
static bool choose_source(struct fkv_master *m, struct fkv_mop *op)
{
	struct fkv_route *r = fkv_route_find(m, op->key);

	if (from_memory(m, r, op, false))
		return true;
	if (fkv_route_ssd(r, op->member)) {
		op->source = FLUXONKV_SOURCE_SSD_LOCAL;
		return true;
	}
	return from_ssd(m, r, op, false) || from_memory(m, r, op, true) ||
	       from_ssd(m, r, op, true);
}

static void plan_fetch(const struct fkv_mop *op, struct fkv_msg *msg)
{
	msg->source = op->source;
	msg->put_id = op->put_id;
	msg->len = op->len;
	msg->extent = op->extent->handle;
	msg->offset = op->extent->offset;
	if (op->peer)
		msg->incarnation = op->peer->incarnation;
	if (op->remote)
		msg->remote = op->remote->offset;
}

/* Room was found for the fetch of op->put_id, or was not. */
void fkv_master_get_planned(struct fkv_master *m, struct fkv_mop *op, int res,
			    struct fkv_out *out)
{
	struct fkv_msg *msg;

	if (!res && !choose_source(m, op)) {
		fkv_master_detach(m, op->extent);
		op->extent = NULL;
		res = -EIO;
	}
	msg = plan(out, op, res);
	if (!res) {
		op->planned = true;
		plan_fetch(op, msg);
		return;
	}
	if (res == -EIO)
		msg->text = "its only copies are on hosts that do not answer";
	if (res == -ENOSPC || res == -EFBIG) {
		m->stats.no_space++;
		fkv_space_explain(&op->member->space, op->len, m->text,
				  sizeof(m->text));
		msg->text = m->text;
	}
	fkv_mop_free(m, op);
}

void fkv_master_get_start(struct fkv_master *m, uint64_t now_ns,
			  struct fkv_msg *msg, struct fkv_out *out)
{
	struct fkv_mop *op = fkv_mop_create(m, FKV_MOP_GET, msg);
	int err;

	m->stats.gets++;
	if (!op) {
		struct fkv_msg *ans = fkv_out_send(out, FKV_MSG_GET_PLAN);

		ans->peer = msg->peer;
		ans->op = msg->op;
		ans->res = -ENOMEM;
		return;
	}
	if (fkv_master_get_answer(m, op, out))
		return;
	err = fkv_master_room(m, op, now_ns, msg);
	if (err != -EAGAIN)
		fkv_master_get_planned(m, op, err, out);
}

static struct fkv_mop *open_get(const struct fkv_master *m,
				const struct fkv_msg *msg)
{
	struct fkv_mop *op = fkv_mop_find(m, msg);

	return op && op->type == FKV_MOP_GET && op->planned ? op : NULL;
}

/*
 * G7: what came from another's memory is kept when it was wanted here before,
 * or costs nothing; *ret_f is how often it was.
 */
static bool worth_keeping(const struct fkv_mop *op, unsigned int *ret_f)
{
	struct fkv_space *s = &op->member->space;
	uint64_t hash = op->key->hash.low;
	struct fkv_lfu_count once = { .f = 1, .epoch = s->lfu.epoch };

	if (op->source != FLUXONKV_SOURCE_MEMORY_REMOTE)
		return true;
	*ret_f = fkv_lfu_ghost_take(&s->lfu, hash);
	if (*ret_f || fkv_space_is_roomy(s))
		return true;
	fkv_lfu_ghost_put(&s->lfu, hash, once);
	return false;
}

static void promote(struct fkv_master *m, struct fkv_route *r,
		    struct fkv_extent *x, unsigned int f)
{
	m->stats.promotions++;
	fkv_route_set_memory(m, r, x, f);
	memset(&r->count, 0, sizeof(r->count));
	x->unbacked = r->persist && !r->ssd;
}

/* The bytes are there: a memory replica if the version is still current. */
void fkv_master_get_done(struct fkv_master *m, struct fkv_msg *msg,
			 struct fkv_out *out)
{
	struct fkv_mop *op = open_get(m, msg);
	struct fkv_msg *ans = fkv_out_send(out, FKV_MSG_GET_DONE_R);
	struct fkv_extent *x;
	struct fkv_route *r;
	unsigned int f;

	ans->peer = msg->peer;
	ans->op = msg->op;
	if (!op) {
		m->stats.bad_messages++;
		ans->res = -ESTALE;
		return;
	}
	x = op->extent;
	x->refs++;
	x->read = true;
	if (op->peer)
		fkv_member_worked(op->peer, op->member);
	r = fkv_route_find(m, op->key);
	ans->drop = !r || r->put_id != op->put_id;
	if (!ans->drop)
		f = fkv_route_count(m, r);
	if (ans->drop || fkv_route_memory(r, op->member)) {
		m->stats.promotions_stale++;
		fkv_master_detach(m, x);
	} else if (!worth_keeping(op, &f)) {
		m->stats.temporary++;
		fkv_master_detach(m, x);
	} else {
		ans->grant = !r->changing;
		promote(m, r, x, f);
	}
	fkv_mop_free(m, op);
}

/* The copy on SSD that @op read is no good; its own host said so (G6). */
static void drop_source(struct fkv_master *m, const struct fkv_mop *op)
{
	struct fkv_route *r = fkv_route_find(m, op->key);
	struct fkv_ssd *d;

	if (!r || r->put_id != op->put_id ||
	    op->source == FLUXONKV_SOURCE_MEMORY_REMOTE)
		return;
	d = fkv_route_ssd(r, op->peer ? op->peer : op->member);
	if (!d)
		return;
	m->stats.ssd_dropped++;
	fkv_route_drop_ssd(m, d);
	fkv_route_gc(m, r);
}

/* The fetch failed and its target is quiet. */
void fkv_master_get_revoke(struct fkv_master *m, struct fkv_msg *msg)
{
	struct fkv_mop *op = open_get(m, msg);

	if (!op) {
		m->stats.bad_messages++;
		return;
	}
	m->stats.revokes++;
	fkv_master_detach(m, op->extent);
	if (msg->suspect && op->peer)
		fkv_member_failed(m, op->peer, op->member);
	if (msg->drop)
		drop_source(m, op);
	fkv_mop_free(m, op);
}
