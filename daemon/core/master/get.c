// SPDX-License-Identifier: Apache-2.0
/*
 * get.c - where a get is served from, and what its bytes become
 */
#include "core/master/internal.h"

static struct fkv_msg *plan(struct fkv_out *out, const struct fkv_mop *op,
			    int res)
{
	struct fkv_msg *msg = fkv_out_send(out, FKV_MSG_GET_PLAN);

	msg->op = op->id;
	msg->res = res;
	return msg;
}

static void plan_memory(struct fkv_route *r, const struct fkv_mop *op,
			struct fkv_out *out)
{
	struct fkv_extent *x = r->memory;
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

	if (!r || !r->put_id) {
		m->stats.misses++;
		plan(out, op, -ENOENT)->source = FLUXONKV_SOURCE_MISS;
	} else if (r->memory) {
		plan_memory(r, op, out);
	} else {
		op->len = r->len;
		op->put_id = r->put_id;
		op->waiter.len = r->len;
		return false;
	}
	fkv_mop_free(m, op);
	return true;
}

/* Room was found for the fetch of op->put_id, or was not. */
void fkv_master_get_planned(struct fkv_master *m, struct fkv_mop *op, int res,
			    struct fkv_out *out)
{
	struct fkv_msg *msg = plan(out, op, res);

	if (!res) {
		msg->source = FLUXONKV_SOURCE_SSD_LOCAL;
		msg->put_id = op->put_id;
		msg->len = op->len;
		msg->extent = op->extent->handle;
		msg->offset = op->extent->offset;
		return;
	}
	if (res == -ENOSPC || res == -EFBIG) {
		m->stats.no_space++;
		fkv_space_explain(&m->space, op->len, m->text,
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

/* The bytes are there: a memory replica if the version is still current. */
void fkv_master_get_done(struct fkv_master *m, struct fkv_msg *msg,
			 struct fkv_out *out)
{
	struct fkv_mop *op = fkv_mop_find(m, msg->op);
	struct fkv_msg *ans = fkv_out_send(out, FKV_MSG_GET_DONE_R);
	struct fkv_extent *x;
	struct fkv_route *r;

	ans->op = msg->op;
	if (!op || op->type != FKV_MOP_GET || !op->extent) {
		m->stats.bad_messages++;
		ans->res = -ESTALE;
		return;
	}
	x = op->extent;
	x->refs++;
	x->read = true;
	r = fkv_route_find(m, op->key);
	if (r && r->put_id == op->put_id && !r->memory) {
		m->stats.promotions++;
		ans->grant = !r->changing;
		fkv_route_set_memory(m, r, x,
				     fkv_lfu_count_f(&m->space.lfu, r->count));
		memset(&r->count, 0, sizeof(r->count));
		x->unbacked = r->persist && !r->ssd;
	} else {
		m->stats.promotions_stale++;
		fkv_master_detach(m, x);
	}
	fkv_mop_free(m, op);
}

/* The fetch failed and its target is quiet. */
void fkv_master_get_revoke(struct fkv_master *m, struct fkv_msg *msg)
{
	struct fkv_mop *op = fkv_mop_find(m, msg->op);
	struct fkv_route *r;

	if (!op || op->type != FKV_MOP_GET || !op->extent) {
		m->stats.bad_messages++;
		return;
	}
	m->stats.revokes++;
	fkv_master_detach(m, op->extent);
	r = fkv_route_find(m, op->key);
	if (msg->drop && r && r->put_id == op->put_id && r->ssd) {
		m->stats.ssd_dropped++;
		fkv_route_drop_ssd(m, r);
		fkv_route_gc(m, r);
	}
	fkv_mop_free(m, op);
}
