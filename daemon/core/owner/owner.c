// SPDX-License-Identifier: Apache-2.0
#include "core/owner/internal.h"

void fkv_oop_add(struct fkv_owner *o, struct fkv_oop *op,
		 enum fkv_oop_type type)
{
	op->id = o->next_op++;
	op->type = type;
	fkv_table_add(&o->ops, &op->node, op->id);
	TAILQ_INSERT_TAIL(&o->all_ops, op, all);
}

void fkv_oop_del(struct fkv_owner *o, struct fkv_oop *op)
{
	fkv_timer_clear(&o->timers, &op->timer);
	fkv_table_del(&o->ops, &op->node);
	TAILQ_REMOVE(&o->all_ops, op, all);
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

/* A master in this process is there from the start. */
static int home_init(struct fkv_owner *o)
{
	o->home.state = o->cfg.cluster ? FKV_HOME_DOWN : FKV_HOME_UP;
	o->home.accepted = !o->cfg.cluster;
	return fkv_stages_init(o);
}

int fkv_owner_create(const struct fkv_owner_config *cfg,
		     struct fkv_owner **ret)
{
	struct fkv_owner *o = fkv_zalloc(sizeof(*o));
	struct fkv_table *list[6];
	int err;

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
	TAILQ_INIT(&o->entries);
	TAILQ_INIT(&o->all_ops);
	fkv_timers_init(&o->timers);
	err = home_init(o);
	if (err) {
		fkv_owner_free(o);
		return err;
	}
	*ret = o;
	return 0;
}

static void free_entries(struct fkv_owner *o)
{
	struct fkv_entry *e;

	while ((e = TAILQ_FIRST(&o->entries))) {
		TAILQ_REMOVE(&o->entries, e, all);
		if (e->live)
			fkv_table_del(&o->live, &e->node);
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
	case FKV_OOP_CHUNK:
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
	free_entries(o);
	fkv_stages_done(o);
	fkv_free(o->busy);
	fkv_free(o->beat_ops);
	tables(o, list);
	for (size_t i = 0; i < FKV_ARRAY_SIZE(list); i++)
		fkv_table_done(list[i]);
	fkv_free(o);
}

/* A peer may push to that part of our segment (G3.3). */
static void expose(const struct fkv_msg *msg, struct fkv_out *out)
{
	struct fkv_cmd *cmd = fkv_out_add(out, FKV_CMD_OPEN);
	struct fkv_msg *ans;

	cmd->offset = msg->offset;
	cmd->len = msg->len;
	cmd->xfer.incarnation = msg->incarnation;
	cmd->xfer.op = msg->op;
	ans = fkv_out_send(out, FKV_MSG_EXPOSED);
	ans->ticket = msg->ticket;
}

static void fence(const struct fkv_msg *msg, struct fkv_out *out)
{
	struct fkv_cmd *cmd = fkv_out_add(out, FKV_CMD_FENCE);

	cmd->token = msg->extent;
	cmd->xfer.incarnation = msg->incarnation;
	cmd->xfer.op = msg->op;
}

void fkv_xfer_cancel(struct fkv_owner *o, const struct fkv_oop *op,
		     struct fkv_out *out)
{
	(void)o;
	fkv_out_add(out, FKV_CMD_CANCEL)->token = op->id;
}

static bool in_segment(const struct fkv_owner *o, const struct fkv_msg *msg)
{
	return msg->offset <= o->cfg.segment_bytes &&
	       msg->len <= o->cfg.segment_bytes - msg->offset;
}

/*
 * A master on another host may be of another mind, or no master at all: what
 * names no op that waits for it, or bytes that are not ours, is not followed.
 */
static bool makes_sense(const struct fkv_owner *o, const struct fkv_msg *msg)
{
	switch (msg->type) {
	case FKV_MSG_PUT_PLAN:
		return fkv_put_expects(o, msg) &&
		       msg->offset <= o->cfg.segment_bytes;
	case FKV_MSG_PUT_DONE_R:
		return fkv_put_expects(o, msg);
	case FKV_MSG_GET_PLAN:
		return fkv_fetch_expects(o, msg) && in_segment(o, msg);
	case FKV_MSG_GET_DONE_R:
		return fkv_fetch_expects(o, msg);
	case FKV_MSG_DELETE_R:
	case FKV_MSG_STAT_R:
	case FKV_MSG_LIST_R:
	case FKV_MSG_COUNT_R:
		return fkv_callop_expects(o, msg);
	case FKV_MSG_SSD_COMMIT_R:
		return fkv_job_expects(o, msg);
	case FKV_MSG_PERSIST:
	case FKV_MSG_EXPOSE:
		return in_segment(o, msg);
	default:
		return msg->type == FKV_MSG_RETIRE ||
		       msg->type == FKV_MSG_EVICT ||
		       msg->type == FKV_MSG_FENCE;
	}
}

static void message(struct fkv_owner *o, struct fkv_msg *msg,
		    struct fkv_out *out)
{
	if (o->cfg.cluster && !makes_sense(o, msg)) {
		/* SESSION_END follows */
		fkv_out_add(out, FKV_CMD_END);
		fkv_msg_done(msg);
		return;
	}
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
	case FKV_MSG_EXPOSE:
		expose(msg, out);
		break;
	case FKV_MSG_FENCE:
		fence(msg, out);
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
	if (op && op->type == FKV_OOP_CHUNK) {
		fkv_chunk_read(o, fkv_container_of(op, struct fkv_chunk, op),
			       in, out);
		return;
	}
	f = op && op->type == FKV_OOP_FETCH ?
		fkv_container_of(op, struct fkv_fetch, op) : NULL;
	if (f && f->state == FKV_FETCH_READING)
		fkv_fetch_read(o, f, in->res, in->sum, out);
	else
		o->stats.stale_tokens++;
}

static void moved(struct fkv_owner *o, const struct fkv_in *in,
		  struct fkv_out *out)
{
	struct fkv_oop *op = fkv_oop_find(o, in->token);
	struct fkv_fetch *f = fkv_container_of(op, struct fkv_fetch, op);
	struct fkv_put *put = fkv_container_of(op, struct fkv_put, op);
	struct fkv_chunk *c = fkv_container_of(op, struct fkv_chunk, op);

	if (op && op->type == FKV_OOP_FETCH && f->state == FKV_FETCH_MOVING)
		fkv_fetch_moved(o, f, in->res, in->said, out);
	else if (op && op->type == FKV_OOP_PUT &&
		 put->state == FKV_PUT_PUSHING)
		fkv_put_moved(o, put, in->res, in->said, out);
	else if (op && op->type == FKV_OOP_CHUNK &&
		 c->state == FKV_CHUNK_PUSHING)
		fkv_chunk_pushed(o, c, in->res, out);
	else
		o->stats.stale_tokens++;
}

static void progress(struct fkv_owner *o, uint64_t token)
{
	struct fkv_oop *op = fkv_oop_find(o, token);

	if (op && op->type == FKV_OOP_FETCH)
		fkv_fetch_progress(o, fkv_container_of(op, struct fkv_fetch,
						       op));
	else if (op && op->type == FKV_OOP_PUT)
		fkv_put_progress(o, fkv_container_of(op, struct fkv_put, op));
	else if (op && op->type == FKV_OOP_CHUNK)
		fkv_chunk_progress(o, fkv_container_of(op, struct fkv_chunk,
						       op));
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
	if (t->kind == FKV_TIMER_STALL) {
		fkv_fetch_stalled(o, fkv_container_of(t, struct fkv_fetch,
						      stall), out);
		return;
	}
	op = fkv_container_of(t, struct fkv_oop, timer);
	if (op->type == FKV_OOP_CHUNK)
		fkv_chunk_stalled(o, fkv_container_of(op, struct fkv_chunk,
						      op), out);
	else if (op->type == FKV_OOP_PUT)
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
	fkv_home_tick(o, out);
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

static void fenced(uint64_t extent, struct fkv_out *out)
{
	fkv_out_send(out, FKV_MSG_FENCED)->extent = extent;
}

static void step_cluster(struct fkv_owner *o, const struct fkv_in *in,
			 struct fkv_out *out)
{
	switch (in->type) {
	case FKV_IN_SESSION:
		fkv_home_begin(o, in, out);
		break;
	case FKV_IN_SESSION_END:
		fkv_home_end(o, out);
		break;
	case FKV_IN_CLUSTER:
		fkv_home_message(o, in->cluster, out);
		break;
	case FKV_IN_MOVED:
		moved(o, in, out);
		break;
	case FKV_IN_PROGRESS:
		progress(o, in->token);
		break;
	case FKV_IN_FENCED:
		fenced(in->token, out);
		break;
	case FKV_IN_STOPPED:
		o->home.stopped = true;
		break;
	case FKV_IN_STAGE:
		fkv_stage_begin(o, in, out);
		break;
	default:
		fkv_assert(!"an input of no kind");
	}
}

static void step(struct fkv_owner *o, const struct fkv_in *in,
		 struct fkv_out *out)
{
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
	default:
		step_cluster(o, in, out);
		break;
	}
}

void fkv_owner_step(struct fkv_owner *o, uint64_t now_ns,
		    const struct fkv_in *in, struct fkv_out *out)
{
	size_t from = out->n;

	o->now_ns = now_ns;
	step(o, in, out);
	fkv_persist_report(o, out);
	fkv_owner_tell_pins(o, out);
	fkv_home_settle(o, from, out);
}

uint64_t fkv_owner_deadline(const struct fkv_owner *o)
{
	return fkv_min_u64(fkv_home_deadline(o),
			   fkv_min_u64(fkv_timers_next(&o->timers),
				       fkv_persist_deadline(o)));
}

void fkv_owner_get_stats(const struct fkv_owner *o,
			 struct fkv_owner_stats *ret)
{
	*ret = o->stats;
	ret->clients = o->clients.count;
	ret->persist_active = o->active;
	ret->lease_ns = fkv_owner_lease(o);
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
			   s->hits_memory_remote + s->hits_ssd_remote +
			   s->misses + s->get_errors);
}
