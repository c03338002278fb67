// SPDX-License-Identifier: Apache-2.0
#include "core/master/internal.h"

#define EPOCH_SHIFT	44
#define POLL_NS		(2 * FKV_MS)

int fkv_master_create(const struct fkv_master_config *cfg,
		      struct fkv_master **ret)
{
	struct fkv_master *m = fkv_zalloc(sizeof(*m));
	int err;

	if (!m)
		return -ENOMEM;
	err = fkv_table_init(&m->routes);
	if (err)
		goto err_free;
	err = fkv_table_init(&m->ops);
	if (err)
		goto err_routes;
	err = fkv_table_init(&m->extents);
	if (err)
		goto err_ops;
	err = fkv_space_init(&m->space, cfg->segment_bytes, cfg->first);
	if (err)
		goto err_extents;
	RB_INIT(&m->order);
	fkv_timers_init(&m->timers);
	for (uint32_t i = 0; i < FKV_SHARDS_MAX; i++)
		TAILQ_INIT(&m->shards[i].routes);
	m->nr_shards = cfg->shards;
	m->next_put_id = (cfg->epoch << EPOCH_SHIFT) + 1;
	m->next_handle = 1;
	m->poll_ns = FKV_NEVER;
	*ret = m;
	return 0;

err_extents:
	fkv_table_done(&m->extents);
err_ops:
	fkv_table_done(&m->ops);
err_routes:
	fkv_table_done(&m->routes);
err_free:
	fkv_free(m);
	return err;
}

static void free_routes(struct fkv_master *m)
{
	struct fkv_node *n;
	uint64_t pos;

	for (pos = 0; (n = fkv_table_drain(&m->routes, &pos));) {
		struct fkv_route *r;

		r = fkv_container_of(n, struct fkv_route, node);
		fkv_table_del(&m->routes, n);
		fkv_key_put(r->key);
		fkv_free(r);
	}
}

void fkv_master_free(struct fkv_master *m)
{
	struct fkv_node *n;
	uint64_t pos;

	if (!m)
		return;
	for (pos = 0; (n = fkv_table_drain(&m->ops, &pos));) {
		struct fkv_mop *op;

		op = fkv_container_of(n, struct fkv_mop, node);
		fkv_space_unwait(&m->space, &op->waiter);
		fkv_mop_free(m, op);
	}
	for (pos = 0; (n = fkv_table_drain(&m->extents, &pos));) {
		fkv_table_del(&m->extents, n);
		fkv_free(fkv_container_of(n, struct fkv_extent, node));
	}
	free_routes(m);
	fkv_space_done(&m->space);
	fkv_table_done(&m->extents);
	fkv_table_done(&m->ops);
	fkv_table_done(&m->routes);
	fkv_free(m);
}

uint64_t fkv_master_put_limit(uint64_t segment_bytes)
{
	struct fkv_space s = { .capacity = segment_bytes };

	return fkv_space_limit(&s, FKV_CLASS_PUT);
}

static void quiet(struct fkv_master *m, const struct fkv_msg *msg)
{
	struct fkv_extent *x = fkv_master_extent_find(m, msg->extent);

	fkv_space_new_round(&m->space);
	if (x)
		fkv_master_ungive(m, x, msg->n);
	else
		m->stats.bad_messages++;
}

static void hits(struct fkv_master *m, const struct fkv_msg *msg)
{
	struct fkv_extent *x = fkv_master_extent_find(m, msg->extent);

	if (!x || !x->route)
		return;
	x->read = true;
	x->rebacked = false;
	fkv_extent_touch(x, msg->n);
}

/* Messages that need an answer at once or change what is current. */
static bool step_calls(struct fkv_master *m, uint64_t now_ns,
		       struct fkv_msg *msg, struct fkv_out *out)
{
	switch (msg->type) {
	case FKV_MSG_PUT_START:
		fkv_space_new_round(&m->space);
		fkv_master_put_start(m, now_ns, msg, out);
		return true;
	case FKV_MSG_PUT_DONE:
		fkv_master_put_done(m, msg, out);
		return true;
	case FKV_MSG_PUT_REVOKE:
		fkv_master_put_revoke(m, msg);
		return true;
	case FKV_MSG_PUT_CANCEL:
		fkv_master_put_cancel(m, msg, out);
		return true;
	case FKV_MSG_GET_START:
		fkv_space_new_round(&m->space);
		fkv_master_get_start(m, now_ns, msg, out);
		return true;
	case FKV_MSG_GET_DONE:
		fkv_master_get_done(m, msg, out);
		return true;
	case FKV_MSG_GET_REVOKE:
		fkv_master_get_revoke(m, msg);
		return true;
	case FKV_MSG_DELETE:
		fkv_master_delete(m, msg, out);
		return true;
	case FKV_MSG_STAT:
		fkv_master_stat(m, msg, out);
		return true;
	case FKV_MSG_LIST:
		fkv_master_list(m, msg, out);
		return true;
	case FKV_MSG_COUNT:
		fkv_master_count(m, msg, out);
		return true;
	case FKV_MSG_RETIRED:
		fkv_master_retired(m, msg, out);
		return true;
	default:
		return false;
	}
}

static void step_replicas(struct fkv_master *m, struct fkv_msg *msg,
			  struct fkv_out *out)
{
	switch (msg->type) {
	case FKV_MSG_SSD_COMMIT:
	case FKV_MSG_PERSIST_FAILED:
		fkv_master_persist_end(m, msg, out);
		break;
	case FKV_MSG_SSD_TAIL:
		fkv_master_ssd_tail(m, msg);
		break;
	case FKV_MSG_SSD_LOST:
		fkv_master_ssd_lost(m, msg);
		break;
	case FKV_MSG_SSD_STATE:
		m->ssd_devices = (uint32_t)msg->n;
		break;
	case FKV_MSG_EVICTED:
		fkv_master_evicted(m, msg);
		break;
	case FKV_MSG_QUIET:
		quiet(m, msg);
		break;
	case FKV_MSG_HITS:
		hits(m, msg);
		break;
	case FKV_MSG_PINS:
		m->space.pinned_bytes = msg->n;
		break;
	default:
		m->stats.bad_messages++;
		break;
	}
}

void fkv_master_step(struct fkv_master *m, uint64_t now_ns,
		     struct fkv_msg *msg, struct fkv_out *out)
{
	if (!step_calls(m, now_ns, msg, out))
		step_replicas(m, msg, out);
	fkv_msg_done(msg);
	fkv_master_serve(m, now_ns, out);
	if (!m->space.waiting)
		m->poll_ns = FKV_NEVER;
	else if (m->poll_ns == FKV_NEVER)
		m->poll_ns = now_ns + POLL_NS;
}

uint64_t fkv_master_deadline(const struct fkv_master *m)
{
	return fkv_min_u64(m->poll_ns, fkv_timers_next(&m->timers));
}

static void expire(struct fkv_master *m, struct fkv_mop *op,
		   struct fkv_out *out)
{
	fkv_space_unwait(&m->space, &op->waiter);
	if (op->type == FKV_MOP_PUT)
		fkv_master_put_planned(m, op, -ENOSPC, out);
	else
		fkv_master_get_planned(m, op, -ENOSPC, out);
}

void fkv_master_tick(struct fkv_master *m, uint64_t now_ns,
		     struct fkv_out *out)
{
	struct fkv_timer *t;

	fkv_space_new_round(&m->space);
	fkv_space_ask_again(&m->space);
	while ((t = fkv_timers_due(&m->timers, now_ns)))
		expire(m, fkv_container_of(t, struct fkv_mop, timer), out);
	fkv_master_serve(m, now_ns, out);
	m->poll_ns = m->space.waiting ? now_ns + POLL_NS : FKV_NEVER;
}

void fkv_master_get_stats(const struct fkv_master *m,
			  struct fkv_master_stats *ret)
{
	const struct fkv_space *s = &m->space;

	*ret = m->stats;
	ret->capacity = s->capacity;
	ret->free = fkv_extents_free_bytes(&s->extents);
	ret->used = fkv_extents_used_bytes(&s->extents);
	ret->unevictable = fkv_space_unevictable(s);
	for (int c = 0; c < FKV_CAUSE_NR; c++)
		ret->cause_bytes[c] = s->cause_bytes[c];
	ret->pinned_bytes = s->pinned_bytes;
	ret->largest_hole = fkv_extents_largest_hole(&s->extents);
	ret->holes = fkv_extents_nr_holes(&s->extents);
	ret->waiting = s->waiting;
	ret->ops = m->ops.count;
	ret->extents = m->extents.count;
}

static void check_routes(const struct fkv_master *m)
{
	uint64_t keys = 0, mem = 0, ssd = 0, pos = 0;
	struct fkv_node *n = NULL;

	while ((n = fkv_table_walk(&m->routes, &pos, n))) {
		struct fkv_route *r;

		r = fkv_container_of(n, struct fkv_route, node);
		keys += r->put_id != 0;
		mem += r->memory != NULL;
		ssd += r->ssd;
		fkv_assert(!r->put_id == !(r->memory || r->ssd));
		fkv_assert(!r->memory || r->memory->route == r);
	}
	fkv_assert(keys == m->stats.keys);
	fkv_assert(mem == m->stats.keys_memory);
	fkv_assert(ssd == m->stats.keys_ssd);
}

/* M5: used + free = capacity, and every used byte is some extent's. */
static void check_extents(const struct fkv_master *m)
{
	uint64_t cause[FKV_CAUSE_NR] = { 0 }, evicting = 0, pos = 0, used = 0;
	uint32_t asked = 0;
	struct fkv_node *n = NULL;

	while ((n = fkv_table_walk(&m->extents, &pos, n))) {
		struct fkv_extent *x;

		x = fkv_container_of(n, struct fkv_extent, node);
		used += x->bytes;
		cause[x->cause] += x->bytes;
		evicting += x->evicting || x->backing ? x->bytes : 0;
		asked += x->evicting;
		fkv_assert(x->cause != FKV_CAUSE_HELD || x->refs);
		fkv_assert(x->cause != FKV_CAUSE_HELD || !x->route);
	}
	fkv_assert(used == fkv_extents_used_bytes(&m->space.extents));
	fkv_assert(evicting == m->space.evicting_bytes);
	fkv_assert(asked == m->space.asked);
	for (int c = 0; c < FKV_CAUSE_NR; c++)
		fkv_assert(cause[c] == m->space.cause_bytes[c]);
}

void fkv_master_check(const struct fkv_master *m)
{
	check_routes(m);
	check_extents(m);
	fkv_extents_check(&m->space.extents);
	fkv_lfu_check(&m->space.lfu);
}
