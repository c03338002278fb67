// SPDX-License-Identifier: Apache-2.0
#include "core/master/internal.h"

struct fkv_mop *fkv_mop_find(const struct fkv_master *m, uint64_t id)
{
	struct fkv_node *n = fkv_table_first(&m->ops, id);

	return n ? fkv_container_of(n, struct fkv_mop, node) : NULL;
}

struct fkv_mop *fkv_mop_create(struct fkv_master *m, enum fkv_mop_type type,
			       const struct fkv_msg *msg)
{
	struct fkv_mop *op;

	if (fkv_mop_find(m, msg->op))
		return NULL;
	op = fkv_zalloc(sizeof(*op));
	if (!op)
		return NULL;
	op->type = type;
	op->id = msg->op;
	op->key = fkv_key_get(msg->key);
	op->len = msg->len;
	op->flags = msg->flags;
	fkv_table_add(&m->ops, &op->node, op->id);
	return op;
}

void fkv_mop_free(struct fkv_master *m, struct fkv_mop *op)
{
	fkv_assert(!op->waiter.queued);
	fkv_timer_clear(&m->timers, &op->timer);
	fkv_table_del(&m->ops, &op->node);
	fkv_key_put(op->key);
	fkv_free(op);
}

struct fkv_extent *fkv_master_extent_find(const struct fkv_master *m,
					  uint64_t handle)
{
	struct fkv_node *n = fkv_table_first(&m->extents, handle);

	return n ? fkv_container_of(n, struct fkv_extent, node) : NULL;
}

/* An extent for room that was allocated; gives the room back on failure. */
struct fkv_extent *fkv_master_extent(struct fkv_master *m, uint64_t offset,
				     uint64_t len, enum fkv_cause cause)
{
	struct fkv_extent *x;

	x = fkv_extent_create(&m->space, offset, len, cause);
	if (!x)
		return NULL;
	x->handle = m->next_handle++;
	fkv_table_add(&m->extents, &x->node, x->handle);
	return x;
}

static void extent_gc(struct fkv_master *m, struct fkv_extent *x)
{
	if (x->refs || x->cause != FKV_CAUSE_HELD)
		return;
	fkv_table_del(&m->extents, &x->node);
	fkv_extent_free(x);
}

void fkv_master_ungive(struct fkv_master *m, struct fkv_extent *x, uint64_t n)
{
	if (n > x->refs) {
		m->stats.bad_messages++;
		n = x->refs;
	}
	x->refs -= (uint32_t)n;
	extent_gc(m, x);
}

/* No operation and no route has it from now; the owner may. */
void fkv_master_detach(struct fkv_master *m, struct fkv_extent *x)
{
	fkv_assert(!x->route);
	fkv_extent_leave(x);
	fkv_extent_set_cause(x, FKV_CAUSE_HELD);
	extent_gc(m, x);
}

static enum fkv_cause op_cause(const struct fkv_mop *op)
{
	return op->type == FKV_MOP_PUT ? FKV_CAUSE_PUT : FKV_CAUSE_TARGET;
}

static void queue_op(struct fkv_master *m, struct fkv_mop *op, uint64_t now_ns,
		     uint64_t deadline_ns)
{
	uint64_t until = fkv_min_u64(deadline_ns, now_ns + FKV_SPACE_WAIT_MAX);

	if (op->flags & FLUXONKV_PUT_NOWAIT)
		until = now_ns;
	fkv_space_wait(&m->space, &op->waiter);
	fkv_timer_set(&m->timers, &op->timer, until);
	m->stats.space_waits++;
}

/*
 * Room for op->len bytes: 0 with op->extent, -EAGAIN when it waits for it,
 * -EFBIG when it can never be had, -ENOMEM.
 */
int fkv_master_room(struct fkv_master *m, struct fkv_mop *op, uint64_t now_ns,
		    const struct fkv_msg *msg)
{
	enum fkv_class class = op->type == FKV_MOP_PUT ?
		FKV_CLASS_PUT : (enum fkv_class)msg->class;
	uint64_t offset = 0;
	int err = -EAGAIN;

	op->waiter.len = op->len;
	op->waiter.class = class;
	if (op->len > fkv_space_limit(&m->space, class))
		return -EFBIG;
	if (!op->len)
		err = 0;
	else if (fkv_space_free_to_try(&m->space, class))
		err = fkv_space_alloc(&m->space, class, op->len, &offset);
	if (err == -ENOMEM)
		return err;
	if (err) {
		queue_op(m, op, now_ns, msg->deadline_ns);
		return -EAGAIN;
	}
	op->extent = fkv_master_extent(m, offset, op->len, op_cause(op));
	return op->extent ? 0 : -ENOMEM;
}
