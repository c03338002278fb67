// SPDX-License-Identifier: Apache-2.0
#include "core/owner/internal.h"

void fkv_oop_add(struct fkv_owner *o, struct fkv_oop *op,
		 enum fkv_oop_type type)
{
	op->id = o->next_op++;
	op->type = type;
	fkv_table_add(&o->ops, &op->node, op->id);
}

void fkv_oop_del(struct fkv_owner *o, struct fkv_oop *op)
{
	fkv_timer_clear(&o->timers, &op->timer);
	fkv_table_del(&o->ops, &op->node);
}

struct fkv_oop *fkv_oop_find(const struct fkv_owner *o, uint64_t id)
{
	struct fkv_node *n = fkv_table_first(&o->ops, id);

	return n ? fkv_container_of(n, struct fkv_oop, node) : NULL;
}

static struct fkv_table *const *tables(struct fkv_owner *o,
				       struct fkv_table *list[6])
{
	list[0] = &o->clients;
	list[1] = &o->uids;
	list[2] = &o->live;
	list[3] = &o->fetches;
	list[4] = &o->ops;
	list[5] = &o->jobs_by_key;
	return list;
}

int fkv_owner_create(const struct fkv_owner_config *cfg,
		     struct fkv_owner **ret)
{
	struct fkv_owner *o = fkv_zalloc(sizeof(*o));
	struct fkv_table *list[6];

	if (!o)
		return -ENOMEM;
	tables(o, list);
	for (size_t i = 0; i < FKV_ARRAY_SIZE(list); i++) {
		if (!fkv_table_init(list[i]))
			continue;
		while (i--)
			fkv_table_done(list[i]);
		fkv_free(o);
		return -ENOMEM;
	}
	o->cfg = *cfg;
	o->next_op = 1;
	o->stats.devices_on = cfg->ring ? cfg->ring_devices : 0;
	TAILQ_INIT(&o->queued);
	TAILQ_INIT(&o->blocked);
	TAILQ_INIT(&o->pending);
	fkv_timers_init(&o->timers);
	*ret = o;
	return 0;
}

static void free_live(struct fkv_owner *o)
{
	struct fkv_node *n;
	uint64_t pos;

	for (pos = 0; (n = fkv_table_drain(&o->live, &pos));) {
		struct fkv_entry *e;

		e = fkv_container_of(n, struct fkv_entry, node);
		fkv_table_del(&o->live, n);
		fkv_key_put(e->key);
		fkv_free(e);
	}
}

static void free_op(struct fkv_owner *o, struct fkv_oop *op)
{
	fkv_oop_del(o, op);
	switch (op->type) {
	case FKV_OOP_PUT:
		fkv_key_put(fkv_container_of(op, struct fkv_put, op)->key);
		fkv_free(fkv_container_of(op, struct fkv_put, op));
		break;
	case FKV_OOP_FETCH:
		fkv_key_put(fkv_container_of(op, struct fkv_fetch, op)->key);
		fkv_free(fkv_container_of(op, struct fkv_fetch, op));
		break;
	case FKV_OOP_CALL:
		fkv_key_put(fkv_container_of(op, struct fkv_callop, op)->key);
		fkv_free(fkv_container_of(op, struct fkv_callop, op));
		break;
	case FKV_OOP_JOB:
		fkv_key_put(fkv_container_of(op, struct fkv_job, op)->key);
		fkv_free(fkv_container_of(op, struct fkv_job, op));
		break;
	}
}

/* The end of the daemon: clients were dropped, I/O has stopped before. */
void fkv_owner_free(struct fkv_owner *o)
{
	struct fkv_out out = { 0 };
	struct fkv_table *list[6];
	struct fkv_node *n;
	uint64_t pos;

	if (!o)
		return;
	for (pos = 0; (n = fkv_table_drain(&o->clients, &pos));)
		fkv_client_gone(o, fkv_container_of(n, struct fkv_client,
						    node)->id, &out);
	for (size_t i = 0; i < out.n; i++)
		if (out.cmds[i].type == FKV_CMD_SEND)
			fkv_msg_done(&out.cmds[i].msg);
	fkv_out_done(&out);
	for (pos = 0; (n = fkv_table_drain(&o->ops, &pos));)
		free_op(o, fkv_container_of(n, struct fkv_oop, node));
	free_live(o);
	tables(o, list);
	for (size_t i = 0; i < FKV_ARRAY_SIZE(list); i++)
		fkv_table_done(list[i]);
	fkv_free(o);
}

static void message(struct fkv_owner *o, struct fkv_msg *msg,
		    struct fkv_out *out)
{
	switch (msg->type) {
	case FKV_MSG_PUT_PLAN:
		fkv_put_plan(o, msg, out);
		break;
	case FKV_MSG_PUT_DONE_R:
		fkv_put_done(o, msg, out);
		break;
	case FKV_MSG_GET_PLAN:
		fkv_fetch_plan(o, msg, out);
		break;
	case FKV_MSG_GET_DONE_R:
		fkv_fetch_done(o, msg, out);
		break;
	case FKV_MSG_DELETE_R:
	case FKV_MSG_STAT_R:
	case FKV_MSG_LIST_R:
	case FKV_MSG_COUNT_R:
		fkv_callop_answer(o, msg, out);
		break;
	case FKV_MSG_SSD_COMMIT_R:
		fkv_job_committed(o, msg);
		fkv_persist_pump(o, out);
		break;
	case FKV_MSG_RETIRE:
		fkv_owner_retire(o, msg, out);
		break;
	case FKV_MSG_EVICT:
		fkv_owner_evict(o, msg, out);
		break;
	case FKV_MSG_PERSIST:
		fkv_owner_persist(o, msg, out);
		break;
	default:
		fkv_assert(!"a message for the master");
	}
	fkv_msg_done(msg);
}

static void io_done(struct fkv_owner *o, const struct fkv_in *in,
		    struct fkv_out *out)
{
	struct fkv_oop *op = fkv_oop_find(o, in->token);
	struct fkv_fetch *f;

	if (op && op->type == FKV_OOP_JOB) {
		fkv_job_written(o, fkv_container_of(op, struct fkv_job, op),
				in->res, out);
		return;
	}
	f = op && op->type == FKV_OOP_FETCH ?
		fkv_container_of(op, struct fkv_fetch, op) : NULL;
	if (f && f->state == FKV_FETCH_READING)
		fkv_fetch_read(o, f, in->res, in->sum, out);
	else
		o->stats.stale_tokens++;
}

static void timer_due(struct fkv_owner *o, struct fkv_timer *t,
		      struct fkv_out *out)
{
	struct fkv_oop *op;

	if (t->kind == FKV_TIMER_CALL) {
		fkv_call_expired(o, fkv_container_of(t, struct fkv_call,
						     timer), out);
		return;
	}
	op = fkv_container_of(t, struct fkv_oop, timer);
	if (op->type == FKV_OOP_PUT)
		fkv_put_expired(o, fkv_container_of(op, struct fkv_put, op),
				out);
	else if (op->type == FKV_OOP_FETCH)
		fkv_fetch_expired(o, fkv_container_of(op, struct fkv_fetch,
						      op), out);
	else if (op->type == FKV_OOP_JOB)
		fkv_job_expired(o, fkv_container_of(op, struct fkv_job, op),
				out);
}

static void tick(struct fkv_owner *o, struct fkv_out *out)
{
	struct fkv_timer *t;

	while ((t = fkv_timers_due(&o->timers, o->now_ns)))
		timer_due(o, t, out);
	fkv_persist_tick(o, out);
}

static void hits(const struct fkv_in *in, struct fkv_out *out)
{
	struct fkv_msg *msg = fkv_out_send(out, FKV_MSG_HITS);

	msg->extent = in->entry->extent;
	msg->n = in->n;
}

void fkv_owner_tell_pins(struct fkv_owner *o, struct fkv_out *out)
{
	uint64_t bytes = o->held_bytes + o->shared_bytes;

	if (bytes == o->told_bytes)
		return;
	o->told_bytes = bytes;
	fkv_out_send(out, FKV_MSG_PINS)->n = bytes;
}

void fkv_owner_step(struct fkv_owner *o, uint64_t now_ns,
		    const struct fkv_in *in, struct fkv_out *out)
{
	o->now_ns = now_ns;
	switch (in->type) {
	case FKV_IN_CALL:
		fkv_owner_call(o, in->call, out);
		break;
	case FKV_IN_CLIENT:
		fkv_client_up(o, in);
		break;
	case FKV_IN_CLIENT_GONE:
		fkv_client_gone(o, in->client, out);
		break;
	case FKV_IN_MSG:
		message(o, in->msg, out);
		break;
	case FKV_IN_IO_DONE:
		io_done(o, in, out);
		break;
	case FKV_IN_HASHED:
		fkv_job_hashed(o, in->token, in->sum, out);
		break;
	case FKV_IN_COPIED:
		fkv_put_copied(o, in->token, in->res, out);
		break;
	case FKV_IN_SCANNED:
		fkv_entry_scanned(o, in->entry, out);
		break;
	case FKV_IN_EVICTED:
		fkv_entry_evicted(o, in->entry, in->res, out);
		break;
	case FKV_IN_HITS:
		hits(in, out);
		break;
	case FKV_IN_PINS:
		o->shared_bytes = in->n;
		break;
	case FKV_IN_TICK:
		tick(o, out);
		break;
	}
	fkv_persist_report(o, out);
	fkv_owner_tell_pins(o, out);
}

uint64_t fkv_owner_deadline(const struct fkv_owner *o)
{
	return fkv_min_u64(fkv_timers_next(&o->timers),
			   fkv_persist_deadline(o));
}

void fkv_owner_get_stats(const struct fkv_owner *o,
			 struct fkv_owner_stats *ret)
{
	*ret = o->stats;
	ret->clients = o->clients.count;
	ret->persist_active = o->active;
}

static void check_clients(const struct fkv_owner *o)
{
	uint64_t pinned = 0, holders = 0, pos = 0;
	struct fkv_node *n = NULL;

	while ((n = fkv_table_walk(&o->clients, &pos, n))) {
		struct fkv_client *c;
		struct fkv_put *put;
		uint64_t mine = 0, hpos = 0;
		struct fkv_node *h = NULL;

		c = fkv_container_of(n, struct fkv_client, node);
		TAILQ_FOREACH(put, &c->puts, link)
			mine += fkv_extent_bytes(put->len);
		while ((h = fkv_table_walk(&c->holders, &hpos, h))) {
			struct fkv_entry *e;

			e = fkv_container_of(h, struct fkv_holder, node)->entry;
			fkv_assert(e->pins > 0);
			mine += fkv_extent_bytes(e->len);
		}
		fkv_assert(mine == c->pinned_bytes);
		pinned += mine;
		holders += c->holders.count;
	}
	fkv_assert(pinned == o->stats.pinned_bytes);
	fkv_assert(holders == o->stats.holders);
}

static void check_held(const struct fkv_owner *o)
{
	uint64_t held = 0, pending = 0, listed = 0, pos = 0;
	const struct fkv_entry *of;
	struct fkv_node *n = NULL;

	while ((n = fkv_table_walk(&o->live, &pos, n))) {
		struct fkv_entry *e;

		e = fkv_container_of(n, struct fkv_entry, node);
		held += e->pins && !e->pending ? fkv_extent_bytes(e->len) : 0;
		pending += e->pending;
	}
	fkv_assert(held == o->held_bytes);
	TAILQ_FOREACH(of, &o->pending, waits)
		listed += of->live && of->pending;
	fkv_assert(pending == listed);
}

void fkv_owner_check(const struct fkv_owner *o)
{
	const struct fkv_owner_stats *s = &o->stats;

	check_clients(o);
	check_held(o);
	fkv_assert(o->live.count == s->entries);
	if (!s->calls && !s->fetches)
		fkv_assert(s->gets == s->hits_local + s->hits_ssd +
			   s->misses + s->get_errors);
}
