// SPDX-License-Identifier: Apache-2.0
/*
 * ops.c - operations in flight, what they may write, and room for it
 *
 * An op is named by its owner, from 1 for each of its lives; its ticket adds
 * which life that is, so that an answer that comes late is never another's.
 */
#include "core/master/internal.h"

#define SERIAL_SHIFT	44

static uint64_t ticket_of(const struct fkv_member *mb, uint64_t id)
{
	return mb->serial << SERIAL_SHIFT | id;
}

struct fkv_mop *fkv_mop_by_ticket(const struct fkv_master *m, uint64_t ticket)
{
	struct fkv_node *n = fkv_table_first(&m->ops, ticket);

	return n ? fkv_container_of(n, struct fkv_mop, node) : NULL;
}

struct fkv_mop *fkv_mop_of(const struct fkv_master *m,
			   const struct fkv_member *mb, uint64_t id)
{
	return id >> SERIAL_SHIFT ? NULL :
		fkv_mop_by_ticket(m, ticket_of(mb, id));
}

struct fkv_mop *fkv_mop_find(const struct fkv_master *m,
			     const struct fkv_msg *msg)
{
	return fkv_mop_of(m, m->member[msg->peer], msg->op);
}

struct fkv_mop *fkv_mop_create(struct fkv_master *m, enum fkv_mop_type type,
			       const struct fkv_msg *msg)
{
	struct fkv_member *mb = m->member[msg->peer];
	struct fkv_mop *op;

	if (msg->op >> SERIAL_SHIFT || fkv_mop_find(m, msg))
		return NULL;
	op = fkv_zalloc(sizeof(*op));
	if (!op)
		return NULL;
	op->type = type;
	op->member = mb;
	op->id = msg->op;
	op->ticket = ticket_of(mb, op->id);
	op->key = fkv_key_get(msg->key);
	op->len = msg->len;
	op->flags = msg->flags;
	op->waiter.class = type == FKV_MOP_PUT ? FKV_CLASS_PUT :
		(enum fkv_class)msg->class;
	fkv_table_add(&m->ops, &op->node, op->ticket);
	TAILQ_INSERT_TAIL(&mb->ops, op, of_member);
	return op;
}

void fkv_mop_free(struct fkv_master *m, struct fkv_mop *op)
{
	fkv_assert(!op->waiter.queued);
	if (op->type == FKV_MOP_GET && op->remote)
		fkv_master_unpull(m, op->remote);
	fkv_timer_clear(&m->timers, &op->timer);
	fkv_table_del(&m->ops, &op->node);
	TAILQ_REMOVE(&op->member->ops, op, of_member);
	fkv_key_put(op->key);
	fkv_free(op);
}

struct fkv_extent *fkv_master_extent_find(const struct fkv_master *m,
					  uint64_t handle)
{
	struct fkv_node *n = fkv_table_first(&m->extents, handle);

	return n ? fkv_container_of(n, struct fkv_extent, node) : NULL;
}

struct fkv_extent *fkv_master_extent_at(const struct fkv_master *m,
					const struct fkv_msg *msg)
{
	struct fkv_extent *x = fkv_master_extent_find(m, msg->extent);

	return x && fkv_member_of(x)->index == msg->peer ? x : NULL;
}

/* An extent for room that was allocated; gives the room back on failure. */
struct fkv_extent *fkv_master_extent(struct fkv_master *m,
				     struct fkv_member *mb, uint64_t offset,
				     uint64_t len, enum fkv_cause cause)
{
	struct fkv_extent *x;

	x = fkv_extent_create(&mb->space, offset, len, cause);
	if (!x)
		return NULL;
	x->handle = m->next_handle++;
	fkv_table_add(&m->extents, &x->node, x->handle);
	return x;
}

static void extent_gc(struct fkv_master *m, struct fkv_extent *x)
{
	if (x->refs || x->pulls || x->cause != FKV_CAUSE_HELD)
		return;
	fkv_member_stir(m, fkv_member_of(x));
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

void fkv_master_settle(struct fkv_extent *x)
{
	if (x->cause == FKV_CAUSE_NONE && x->pulls)
		fkv_extent_set_cause(x, FKV_CAUSE_SOURCE);
	else if (x->cause == FKV_CAUSE_SOURCE && !x->pulls)
		fkv_extent_set_cause(x, FKV_CAUSE_NONE);
	fkv_extent_update(x);
}

void fkv_master_pull(struct fkv_extent *x)
{
	x->pulls++;
	fkv_master_settle(x);
}

void fkv_master_unpull(struct fkv_master *m, struct fkv_extent *x)
{
	fkv_assert(x->pulls);
	x->pulls--;
	fkv_master_settle(x);
	fkv_member_stir(m, fkv_member_of(x));
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

/* The other segment that a put needs room in. */
static struct fkv_space *other_space(const struct fkv_mop *op)
{
	return op->type == FKV_MOP_PUT && op->peer ? &op->peer->space : NULL;
}

void fkv_master_wait(struct fkv_master *m, struct fkv_mop *op,
		     struct fkv_space *space)
{
	fkv_space_wait(space, &op->waiter);
	fkv_timer_set(&m->timers, &op->timer, op->until_ns);
}

void fkv_master_unwait(struct fkv_master *m, struct fkv_mop *op)
{
	fkv_space_unwait(&op->waiter);
	fkv_timer_clear(&m->timers, &op->timer);
}

/* Both or none (P4): a waiter holds nothing. */
static int alloc(struct fkv_mop *op, uint64_t at[2],
		 struct fkv_space **ret_space)
{
	struct fkv_space *here = &op->member->space;
	struct fkv_space *there = other_space(op);
	enum fkv_class class = op->waiter.class;
	int err;

	at[0] = at[1] = 0;
	if (!op->len)
		return 0;
	*ret_space = here;
	err = fkv_space_alloc(here, class, op->len, &at[0]);
	if (err || !there)
		return err;
	*ret_space = there;
	err = fkv_space_alloc(there, class, op->len, &at[1]);
	if (err)
		fkv_extents_free(&here->extents, at[0], op->len);
	return err;
}

int fkv_master_give(struct fkv_master *m, struct fkv_mop *op,
		    struct fkv_space **ret_space)
{
	uint64_t at[2];
	int err = alloc(op, at, ret_space);

	if (err)
		return err;
	op->extent = fkv_master_extent(m, op->member, at[0], op->len,
				       op_cause(op));
	if (!op->extent && other_space(op) && op->len)
		fkv_extents_free(&op->peer->space.extents, at[1], op->len);
	if (!op->extent || !other_space(op))
		return op->extent ? 0 : -ENOMEM;
	op->remote = fkv_master_extent(m, op->peer, at[1], op->len,
				       FKV_CAUSE_PUT);
	if (op->remote)
		return 0;
	fkv_master_detach(m, op->extent);
	op->extent = NULL;
	return -ENOMEM;
}

/* Who must be asked for room first, or NULL when it may be tried at once. */
static struct fkv_space *crowded(const struct fkv_mop *op)
{
	struct fkv_space *there = other_space(op);
	enum fkv_class class = op->waiter.class;

	if (!op->len)
		return NULL;
	if (!fkv_space_free_to_try(&op->member->space, class))
		return &op->member->space;
	return there && !fkv_space_free_to_try(there, class) ? there : NULL;
}

/*
 * Room for op->len bytes: 0 with op->extent, -EAGAIN when it waits for it,
 * -EFBIG when it can never be had, -ENOMEM.
 */
int fkv_master_room(struct fkv_master *m, struct fkv_mop *op, uint64_t now_ns,
		    const struct fkv_msg *msg)
{
	struct fkv_space *there = other_space(op), *none;
	enum fkv_class class = op->waiter.class;
	int err = -EAGAIN;

	op->waiter.len = op->len;
	if (op->len > fkv_space_limit(&op->member->space, class) ||
	    (there && op->len > fkv_space_limit(there, class)))
		return -EFBIG;
	none = crowded(op);
	if (!none)
		err = fkv_master_give(m, op, &none);
	if (!err || err == -ENOMEM)
		return err;
	op->until_ns = fkv_min_u64(msg->deadline_ns,
				   now_ns + FKV_SPACE_WAIT_MAX);
	if (op->flags & FLUXONKV_PUT_NOWAIT)
		op->until_ns = now_ns;
	fkv_master_wait(m, op, none);
	m->stats.space_waits++;
	return -EAGAIN;
}
