// SPDX-License-Identifier: Apache-2.0
#include "core/master/internal.h"

#define EPOCH_SHIFT	44
#define POLL_NS		(2 * FKV_MS)

/* Who shares a process with its master needs no lease. */
static int own_member(struct fkv_master *m, const struct fkv_master_config *cfg)
{
	struct fkv_member *mb;

	if (!cfg->segment_bytes)
		return 0;
	mb = fkv_member_create(m, "", cfg->segment_bytes);
	if (!mb)
		return -ENOMEM;
	mb->incarnation = cfg->incarnation;
	mb->nr_shards = cfg->shards;
	fkv_member_live_now(m, mb, FKV_NEVER);
	return 0;
}

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
	RB_INIT(&m->order);
	TAILQ_INIT(&m->stirred);
	fkv_timers_init(&m->timers);
	m->first = cfg->first;
	m->rng = cfg->seed;
	m->epoch = cfg->epoch;
	m->serve_from_ns = cfg->serve_from_ns;
	m->beat_ns = FKV_NEVER;
	err = own_member(m, cfg);
	if (err)
		goto err_extents;
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
		while (r->ssd) {
			struct fkv_ssd *d = r->ssd;

			r->ssd = d->next;
			if (d != &r->own)
				fkv_free(d);
		}
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
		fkv_space_unwait(&op->waiter);
		if (op->type == FKV_MOP_GET)
			op->remote = NULL;
		fkv_mop_free(m, op);
	}
	for (pos = 0; (n = fkv_table_drain(&m->extents, &pos));) {
		fkv_table_del(&m->extents, n);
		fkv_free(fkv_container_of(n, struct fkv_extent, node));
	}
	free_routes(m);
	fkv_members_free(m);
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
	struct fkv_member *mb = m->member[msg->peer];
	struct fkv_extent *x = msg->extent ? fkv_master_extent_at(m, msg) :
		fkv_space_at(&mb->space, msg->offset);

	fkv_space_new_round(&mb->space);
	if (x)
		fkv_master_ungive(m, x, msg->n);
	else
		m->stats.bad_messages++;
}

static void hits(struct fkv_master *m, const struct fkv_msg *msg)
{
	struct fkv_extent *x = fkv_master_extent_at(m, msg);

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
		fkv_space_new_round(&m->member[msg->peer]->space);
		fkv_master_put_start(m, now_ns, msg, out);
		return true;
	case FKV_MSG_PUT_DONE:
		fkv_master_put_done(m, msg, out);
		return true;
	case FKV_MSG_PUT_REVOKE:
		fkv_master_put_revoke(m, msg, out);
		return true;
	case FKV_MSG_PUT_CANCEL:
		fkv_master_put_cancel(m, msg, out);
		return true;
	case FKV_MSG_GET_START:
		fkv_space_new_round(&m->member[msg->peer]->space);
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
	case FKV_MSG_EXPOSED:
		fkv_master_exposed(m, msg, out);
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
		m->member[msg->peer]->ssd_devices = (uint32_t)msg->n;
		break;
	case FKV_MSG_EVICTED:
		fkv_master_evicted(m, msg);
		break;
	case FKV_MSG_FENCED:
		fkv_master_fenced(m, msg);
		break;
	case FKV_MSG_QUIET:
		quiet(m, msg);
		break;
	case FKV_MSG_HITS:
		hits(m, msg);
		break;
	case FKV_MSG_PINS:
		m->member[msg->peer]->space.pinned_bytes = msg->n;
		break;
	default:
		m->stats.bad_messages++;
		break;
	}
}

void fkv_master_stirred(struct fkv_master *m, struct fkv_out *out)
{
	struct fkv_member *mb;

	while ((mb = TAILQ_FIRST(&m->stirred))) {
		TAILQ_REMOVE(&m->stirred, mb, stir);
		mb->stirred = false;
		if (fkv_member_live(mb))
			fkv_master_serve(m, mb, out);
	}
	if (!m->waiting)
		m->poll_ns = FKV_NEVER;
	else if (m->poll_ns == FKV_NEVER)
		m->poll_ns = m->now_ns + POLL_NS;
}

void fkv_master_step(struct fkv_master *m, uint64_t now_ns,
		     struct fkv_msg *msg, struct fkv_out *out)
{
	struct fkv_member *mb;

	fkv_members_ran(m, now_ns);
	mb = fkv_member_at(m, msg->peer);
	if (mb) {
		fkv_member_stir(m, mb);
		if (!step_calls(m, now_ns, msg, out))
			step_replicas(m, msg, out);
	}
	fkv_msg_done(msg);
	fkv_master_stirred(m, out);
}

uint64_t fkv_master_deadline(const struct fkv_master *m)
{
	return fkv_min_u64(fkv_min_u64(m->poll_ns, m->beat_ns),
			   fkv_timers_next(&m->timers));
}

static void expire(struct fkv_master *m, struct fkv_mop *op,
		   struct fkv_out *out)
{
	fkv_space_unwait(&op->waiter);
	if (op->type == FKV_MOP_PUT)
		fkv_master_put_planned(m, op, -ENOSPC, out);
	else
		fkv_master_get_planned(m, op, -ENOSPC, out);
}

/* The time at which waiters try again, or have waited long enough. */
static void try_again(struct fkv_master *m, struct fkv_out *out)
{
	struct fkv_timer *t;

	for (uint32_t i = 0; i < m->nr_members; i++) {
		struct fkv_space *s = &m->member[i]->space;

		fkv_space_new_round(s);
		fkv_space_ask_again(s);
		fkv_member_stir(m, m->member[i]);
	}
	while ((t = fkv_timers_due(&m->timers, m->now_ns)))
		expire(m, fkv_container_of(t, struct fkv_mop, timer), out);
	m->poll_ns = FKV_NEVER;
}

void fkv_master_tick(struct fkv_master *m, uint64_t now_ns,
		     struct fkv_out *out)
{
	fkv_members_ran(m, now_ns);
	fkv_members_tick(m, out);
	try_again(m, out);
	fkv_master_stirred(m, out);
}

static void space_stats(const struct fkv_space *s, struct fkv_master_stats *ret)
{
	uint64_t hole = fkv_extents_largest_hole(&s->extents);

	ret->capacity += s->capacity;
	ret->free += fkv_extents_free_bytes(&s->extents);
	ret->used += fkv_extents_used_bytes(&s->extents);
	ret->unevictable += fkv_space_unevictable(s);
	for (int c = 0; c < FKV_CAUSE_NR; c++)
		ret->cause_bytes[c] += s->cause_bytes[c];
	ret->pinned_bytes += s->pinned_bytes;
	ret->largest_hole = fkv_max_u64(ret->largest_hole, hole);
	ret->holes += fkv_extents_nr_holes(&s->extents);
}

void fkv_master_get_stats(const struct fkv_master *m,
			  struct fkv_master_stats *ret)
{
	*ret = m->stats;
	for (uint32_t i = 0; i < m->nr_members; i++)
		space_stats(&m->member[i]->space, ret);
	ret->waiting = m->waiting;
	ret->ops = m->ops.count;
	ret->extents = m->extents.count;
	ret->members = m->nr_members;
	ret->members_live = m->nr_members - m->tombed;
}

static void check_replicas(const struct fkv_master *m,
			   const struct fkv_route *r)
{
	uint64_t seen[FKV_MEMBERS_WORDS] = { 0 };

	for (const struct fkv_extent *x = r->memory; x; x = x->next) {
		uint32_t i = fkv_member_of(x)->index;

		fkv_assert(x->route == r && !(seen[i / 64] >> i % 64 & 1));
		seen[i / 64] |= 1ULL << i % 64;
	}
	for (const struct fkv_ssd *d = r->ssd; d; d = d->next) {
		const struct fkv_member *mb = m->member[d->member];

		fkv_assert(d->route == r && d->shard < mb->nr_shards);
		fkv_assert(d->seq >= mb->shards[d->shard].tail);
	}
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
		ssd += r->ssd != NULL;
		fkv_assert(!r->put_id == !(r->memory || r->ssd));
		check_replicas(m, r);
	}
	fkv_assert(keys == m->stats.keys);
	fkv_assert(mem == m->stats.keys_memory);
	fkv_assert(ssd == m->stats.keys_ssd);
}

/* M5: used + free = capacity, and every used byte is some extent's. */
static void check_space(const struct fkv_master *m, const struct fkv_space *s)
{
	uint64_t cause[FKV_CAUSE_NR] = { 0 }, evicting = 0, pos = 0, used = 0;
	uint32_t asked = 0;
	struct fkv_node *n = NULL;

	while ((n = fkv_table_walk(&m->extents, &pos, n))) {
		struct fkv_extent *x;

		x = fkv_container_of(n, struct fkv_extent, node);
		if (x->space != s)
			continue;
		used += x->bytes;
		cause[x->cause] += x->bytes;
		evicting += x->evicting || x->backing ? x->bytes : 0;
		asked += x->evicting;
		fkv_assert(x->cause != FKV_CAUSE_HELD || x->refs || x->pulls);
		fkv_assert(x->cause != FKV_CAUSE_HELD || !x->route);
		fkv_assert(x->cause != FKV_CAUSE_SOURCE || x->pulls);
	}
	fkv_assert(used == fkv_extents_used_bytes(&s->extents));
	fkv_assert(evicting == s->evicting_bytes);
	fkv_assert(asked == s->asked);
	for (int c = 0; c < FKV_CAUSE_NR; c++)
		fkv_assert(cause[c] == s->cause_bytes[c]);
	fkv_extents_check(&s->extents);
	fkv_lfu_check(&s->lfu);
}

static void check_ops(const struct fkv_master *m)
{
	uint64_t ops = 0;
	uint32_t waiting = 0, tombed = 0;
	struct fkv_mop *op;

	for (uint32_t i = 0; i < m->nr_members; i++) {
		waiting += m->member[i]->space.waiting;
		tombed += !fkv_member_live(m->member[i]);
		TAILQ_FOREACH(op, &m->member[i]->ops, of_member) {
			ops++;
			fkv_assert(op->type != FKV_MOP_GET || !op->remote ||
				   op->remote->pulls);
		}
	}
	fkv_assert(ops == m->ops.count);
	fkv_assert(waiting == m->waiting && tombed == m->tombed);
}

void fkv_master_check(const struct fkv_master *m)
{
	check_routes(m);
	check_ops(m);
	for (uint32_t i = 0; i < m->nr_members; i++)
		check_space(m, &m->member[i]->space);
}

_Static_assert(sizeof(struct fkv_route) <= 200, "a route is compact");
