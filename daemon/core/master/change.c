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
			      uint64_t op, int res)
{
	struct fkv_msg *msg = fkv_out_send(out, type);

	msg->op = op;
	msg->res = res;
	return msg;
}

/* EXCL: is the key taken? (K4) */
static int excl_check(const struct fkv_route *r, uint32_t puts)
{
	if (r->put_id)
		return -EEXIST;
	return r->puts > puts || r->changing || !TAILQ_EMPTY(&r->changes) ?
		-EBUSY : 0;
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
		*ret_err = excl_check(r, 0);
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
	op->persist = m->ssd_devices && msg->len &&
		      !(msg->flags & FLUXONKV_PUT_MEMORY);
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
		answer(out, FKV_MSG_PUT_PLAN, msg->op, err);
		return;
	}
	err = fkv_master_room(m, op, now_ns, msg);
	if (err != -EAGAIN)
		fkv_master_put_planned(m, op, err, out);
}

/* Answer PutStart: with an extent, or with why there is none. */
void fkv_master_put_planned(struct fkv_master *m, struct fkv_mop *op, int res,
			    struct fkv_out *out)
{
	struct fkv_msg *ans = answer(out, FKV_MSG_PUT_PLAN, op->id, res);

	if (!res) {
		ans->extent = op->extent->handle;
		ans->offset = op->extent->offset;
		return;
	}
	if (res == -ENOSPC || res == -EFBIG) {
		m->stats.no_space++;
		fkv_space_explain(&m->space, op->len, m->text,
				  sizeof(m->text));
		ans->text = m->text;
	}
	put_free(m, op);
}

/* Accesses of the key so far, wherever they were kept. */
static unsigned int take_frequency(struct fkv_master *m, struct fkv_route *r)
{
	struct fkv_lfu *lfu = &m->space.lfu;
	unsigned int f = 0;

	if (r->memory && r->memory->in_policy)
		f = fkv_lfu_f(lfu, &r->memory->lfu);
	else if (r->put_id)
		f = fkv_lfu_count_f(lfu, r->count);
	else
		f = fkv_lfu_ghost_take(lfu, r->key->hash.low);
	memset(&r->count, 0, sizeof(r->count));
	return f;
}

static void apply_put(struct fkv_master *m, struct fkv_mop *op,
		      struct fkv_out *out)
{
	struct fkv_route *r = op->route;
	struct fkv_extent *x = op->extent;
	unsigned int f = take_frequency(m, r);
	struct fkv_msg *ans;

	fkv_route_clear(m, r);
	r->put_id = m->next_put_id++;
	r->len = op->len;
	r->persist = op->persist;
	m->stats.keys++;
	x->refs++;
	fkv_route_set_memory(m, r, x, f);
	ans = answer(out, FKV_MSG_PUT_DONE_R, op->id, 0);
	ans->put_id = r->put_id;
	ans->extent = x->handle;
	ans->grant = true;
	if (r->persist) {
		fkv_extent_set_cause(x, FKV_CAUSE_PERSIST);
		fkv_master_persist(m, x, out);
	}
	op->extent = NULL;
}

static void apply(struct fkv_master *m, struct fkv_mop *op,
		  struct fkv_out *out)
{
	struct fkv_route *r = op->route;

	if (op->type == FKV_MOP_PUT) {
		apply_put(m, op, out);
		r->puts--;
	} else {
		fkv_route_clear(m, r);
		answer(out, FKV_MSG_DELETE_R, op->id, 0);
	}
	fkv_mop_free(m, op);
}

/* May this change still take effect? 0 or its errno. */
static int change_check(const struct fkv_mop *op)
{
	if (op->type == FKV_MOP_DELETE)
		return op->route->put_id ? 0 : -ENOENT;
	if (op->flags & FLUXONKV_PUT_EXCL)
		return op->route->put_id ? -EEXIST : 0;
	return 0;
}

static void refuse(struct fkv_master *m, struct fkv_mop *op, int err,
		   struct fkv_out *out)
{
	if (op->type == FKV_MOP_DELETE) {
		answer(out, FKV_MSG_DELETE_R, op->id, err);
	} else {
		answer(out, FKV_MSG_PUT_DONE_R, op->id, err);
		fkv_master_detach(m, op->extent);
		op->route->puts--;
	}
	fkv_mop_free(m, op);
}

static void retire(struct fkv_route *r, struct fkv_mop *op,
		   struct fkv_out *out)
{
	struct fkv_msg *msg = fkv_out_send(out, FKV_MSG_RETIRE);

	r->changing = op;
	msg->op = op->id;
	msg->key = fkv_key_get(r->key);
	msg->put_id = r->put_id;
}

static void changes_run(struct fkv_master *m, struct fkv_route *r,
			struct fkv_out *out)
{
	struct fkv_mop *op;

	while (!r->changing && (op = TAILQ_FIRST(&r->changes))) {
		int err = change_check(op);

		TAILQ_REMOVE(&r->changes, op, link);
		if (err)
			refuse(m, op, err, out);
		else if (r->put_id)
			retire(r, op, out);
		else
			apply(m, op, out);
	}
	fkv_route_gc(m, r);
}

void fkv_master_put_done(struct fkv_master *m, struct fkv_msg *msg,
			 struct fkv_out *out)
{
	struct fkv_mop *op = fkv_mop_find(m, msg->op);

	if (!op || op->type != FKV_MOP_PUT || !op->extent) {
		m->stats.bad_messages++;
		answer(out, FKV_MSG_PUT_DONE_R, msg->op, -ETIMEDOUT);
		return;
	}
	TAILQ_INSERT_TAIL(&op->route->changes, op, link);
	changes_run(m, op->route, out);
}

/*
 * The put is over without effect. With msg->held its client may still write:
 * the extent stays until the owner says QUIET for one reference.
 */
void fkv_master_put_revoke(struct fkv_master *m, struct fkv_msg *msg)
{
	struct fkv_mop *op = fkv_mop_find(m, msg->op);

	if (!op || op->type != FKV_MOP_PUT || !op->extent) {
		m->stats.bad_messages++;
		return;
	}
	m->stats.revokes++;
	if (msg->held)
		op->extent->refs++;
	fkv_master_detach(m, op->extent);
	put_free(m, op);
}

/*
 * Its client is gone (P5). Only a wait for room ends by this: a plan that is
 * on its way to the owner is answered by its revocation, a refusal by nothing.
 */
void fkv_master_put_cancel(struct fkv_master *m, struct fkv_msg *msg,
			   struct fkv_out *out)
{
	struct fkv_mop *op = fkv_mop_find(m, msg->op);

	if (!op || op->type != FKV_MOP_PUT || !op->waiter.queued)
		return;
	fkv_space_unwait(&m->space, &op->waiter);
	fkv_master_put_planned(m, op, -ECANCELED, out);
}

void fkv_master_delete(struct fkv_master *m, struct fkv_msg *msg,
		       struct fkv_out *out)
{
	struct fkv_route *r = fkv_route_find(m, msg->key);
	struct fkv_mop *op;

	m->stats.deletes++;
	if (!r || (!r->put_id && !r->changing && TAILQ_EMPTY(&r->changes))) {
		answer(out, FKV_MSG_DELETE_R, msg->op, -ENOENT);
		return;
	}
	op = fkv_mop_create(m, FKV_MOP_DELETE, msg);
	if (!op) {
		answer(out, FKV_MSG_DELETE_R, msg->op, -ENOMEM);
		return;
	}
	op->route = r;
	TAILQ_INSERT_TAIL(&r->changes, op, link);
	changes_run(m, r, out);
}

void fkv_master_retired(struct fkv_master *m, struct fkv_msg *msg,
			struct fkv_out *out)
{
	struct fkv_mop *op = fkv_mop_find(m, msg->op);
	struct fkv_route *r;

	if (!op || !op->route || op->route->changing != op) {
		m->stats.bad_messages++;
		return;
	}
	r = op->route;
	r->changing = NULL;
	apply(m, op, out);
	changes_run(m, r, out);
}
