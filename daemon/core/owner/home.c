// SPDX-License-Identifier: Apache-2.0
/*
 * home.c - the session with the master: it begins, lives by heartbeats, ends
 *
 * protocol.md F0, F1: what was not answered when a session ends is void. The
 * index is retired, connections of data are destroyed, and when nothing can
 * touch memory any more another session may begin, as another incarnation,
 * with a list of what is still held. Calls that can be asked again wait for
 * it; of a put or a delete that was under way nobody knows the outcome.
 */
#include "core/owner/internal.h"

bool fkv_home_up(const struct fkv_owner *o)
{
	return o->home.state == FKV_HOME_UP;
}

uint64_t fkv_owner_lease(const struct fkv_owner *o)
{
	return o->cfg.cluster ? o->home.lease_ns : FKV_NEVER;
}

typedef void (*oop_fn)(struct fkv_owner *o, struct fkv_oop *op,
		       struct fkv_out *out);

/* @fn may end the op that it gets, or name it anew, and begin none. */
static void each_op(struct fkv_owner *o, oop_fn fn, struct fkv_out *out)
{
	struct fkv_oop *last = TAILQ_LAST(&o->all_ops, fkv_oops);
	struct fkv_oop *op = TAILQ_FIRST(&o->all_ops), *next;

	/* what is named anew goes to the end, behind the last */
	for (; op; op = next) {
		next = op == last ? NULL : TAILQ_NEXT(op, all);
		fn(o, op, out);
	}
}

static void lose(struct fkv_owner *o, struct fkv_oop *op, struct fkv_out *out)
{
	switch (op->type) {
	case FKV_OOP_PUT:
		fkv_put_lost(o, fkv_container_of(op, struct fkv_put, op), out);
		break;
	case FKV_OOP_FETCH:
		fkv_fetch_lost(o, fkv_container_of(op, struct fkv_fetch, op));
		break;
	case FKV_OOP_CALL:
		fkv_callop_lost(o, fkv_container_of(op, struct fkv_callop, op),
				out);
		break;
	case FKV_OOP_JOB:
		fkv_job_lost(o, fkv_container_of(op, struct fkv_job, op), out);
		break;
	case FKV_OOP_CHUNK:
		break;
	}
}

void fkv_home_end(struct fkv_owner *o, struct fkv_out *out)
{
	struct fkv_home *h = &o->home;

	if (h->state != FKV_HOME_UP)
		return;
	if (h->accepted)
		h->was = h->incarnation;
	h->state = FKV_HOME_STOPPING;
	h->stopped = false;
	fkv_out_add(out, FKV_CMD_STOP);
	fkv_entries_lost(o, out);
	fkv_stages_lost(o, out);
	each_op(o, lose, out);
}

static bool op_is_quiet(const struct fkv_oop *op)
{
	const struct fkv_put *put;
	const struct fkv_fetch *f;
	const struct fkv_job *job;

	switch (op->type) {
	case FKV_OOP_PUT:
		put = fkv_container_of(op, struct fkv_put, op);
		return put->state != FKV_PUT_COPYING &&
		       put->state != FKV_PUT_PUSHING;
	case FKV_OOP_FETCH:
		f = fkv_container_of(op, struct fkv_fetch, op);
		return f->state == FKV_FETCH_PLANNING;
	case FKV_OOP_JOB:
		job = fkv_container_of(op, struct fkv_job, op);
		return job->state != FKV_JOB_HASHING &&
		       job->state != FKV_JOB_WRITING;
	case FKV_OOP_CHUNK:
		return false;
	case FKV_OOP_CALL:
		break;
	}
	return true;
}

/* Ranges that a registration may list; more must first become less. */
static uint64_t busy_most(const struct fkv_owner *o)
{
	return o->stats.entries_retired + o->stats.expired_puts;
}

static bool is_quiet(const struct fkv_owner *o)
{
	const struct fkv_oop *op;

	if (!o->home.stopped || !TAILQ_EMPTY(&o->stages) ||
	    busy_most(o) > FKV_BUSY_MAX)
		return false;
	TAILQ_FOREACH(op, &o->all_ops, all)
		if (!op_is_quiet(op))
			return false;
	return true;
}

/* Messages to nobody: whoever needs an answer asks again. */
static void drop_sends(struct fkv_out *out, size_t from)
{
	size_t to = from;

	for (size_t i = from; i < out->n; i++) {
		if (out->cmds[i].type == FKV_CMD_SEND)
			fkv_msg_done(&out->cmds[i].msg);
		else
			out->cmds[to++] = out->cmds[i];
	}
	out->n = to;
}

void fkv_home_settle(struct fkv_owner *o, size_t from, struct fkv_out *out)
{
	if (o->home.state == FKV_HOME_UP)
		return;
	drop_sends(out, from);
	if (o->home.state != FKV_HOME_STOPPING || !is_quiet(o))
		return;
	o->home.state = FKV_HOME_DOWN;
	fkv_out_add(out, FKV_CMD_JOIN);
}

/* ---- it begins ---- */

static void add_busy(struct fkv_owner *o, size_t *n, uint64_t offset,
		     uint64_t len)
{
	if (!len)
		return;
	o->busy[*n].offset = offset;
	o->busy[(*n)++].len = fkv_extent_bytes(len);
}

/* What holders and writers may still touch: each as often as it is held. */
static size_t list_busy(struct fkv_owner *o)
{
	const struct fkv_entry *e;
	struct fkv_oop *op;
	size_t n = 0;

	TAILQ_FOREACH(e, &o->entries, all)
		add_busy(o, &n, e->offset, e->len);
	TAILQ_FOREACH(op, &o->all_ops, all) {
		struct fkv_put *put = fkv_container_of(op, struct fkv_put, op);

		if (op->type == FKV_OOP_PUT && put->state == FKV_PUT_EXPIRED &&
		    fkv_put_is_held(put))
			add_busy(o, &n, put->offset, put->len);
	}
	return n;
}

/* False: no memory; this session must end, the next one may begin. */
static bool send_register(struct fkv_owner *o, struct fkv_out *out)
{
	struct fkv_cluster_range *busy;
	size_t n, at = 0;
	uint32_t parts;

	busy = fkv_realloc(o->busy, (busy_most(o) + 1) * sizeof(*busy));
	if (!busy)
		return false;
	o->busy = busy;
	n = list_busy(o);
	parts = n ? (uint32_t)((n + FKV_CLUSTER_RANGES_MAX - 1) /
					FKV_CLUSTER_RANGES_MAX) : 1;

	for (uint32_t i = 0; i < parts; i++) {
		struct fkv_cluster_msg *msg;
		uint64_t some = fkv_min_u64(n - at, FKV_CLUSTER_RANGES_MAX);

		msg = fkv_out_cluster(out, 0, FKV_CLUSTER_REGISTER);
		msg->reg = (struct fkv_cluster_register){
			.name = o->cfg.name,
			.incarnation = o->home.incarnation,
			.was = o->home.was,
			.epoch_seen = (uint32_t)o->home.epoch,
			.segment_bytes = o->cfg.segment_bytes,
			.ssd_devices = (uint32_t)o->stats.devices_on,
			.ssd_shards = o->cfg.ring_shards,
			.transports = o->cfg.transports,
			.address = o->cfg.address,
			.part = i,
			.parts = parts,
			.n = (uint32_t)some,
			.busy = o->busy + at,
		};
		at += some;
	}
	return true;
}

static void resume(struct fkv_owner *o, struct fkv_oop *op,
		   struct fkv_out *out)
{
	switch (op->type) {
	case FKV_OOP_PUT:
		fkv_put_resume(o, fkv_container_of(op, struct fkv_put, op),
			       out);
		break;
	case FKV_OOP_FETCH:
		fkv_fetch_resume(o, fkv_container_of(op, struct fkv_fetch, op),
				 out);
		break;
	case FKV_OOP_CALL:
		fkv_callop_resume(o, fkv_container_of(op, struct fkv_callop,
						      op), out);
		break;
	case FKV_OOP_JOB:
	case FKV_OOP_CHUNK:
		break;
	}
}

void fkv_home_begin(struct fkv_owner *o, const struct fkv_in *in,
		    struct fkv_out *out)
{
	struct fkv_home *h = &o->home;

	fkv_assert(h->state == FKV_HOME_DOWN && in->incarnation);
	/* another master knows nothing of what we kept for the last */
	if (h->epoch != in->n)
		h->was = 0;
	h->epoch = in->n;
	h->incarnation = in->incarnation;
	h->state = FKV_HOME_UP;
	h->accepted = false;
	h->lease_ns = 0;
	h->beat_ns = o->now_ns + FKV_HEARTBEAT_NS;
	memset(h->sent_ns, 0, sizeof(h->sent_ns));
	h->sent_ns[++h->beat % FKV_BEATS] = o->now_ns;
	o->told_bytes = 0;
	o->stats.sessions++;
	if (!send_register(o, out)) {
		fkv_out_add(out, FKV_CMD_END);
		return;
	}
	fkv_persist_report_all(o, out);
	each_op(o, resume, out);
}

/* ---- it lives ---- */

static void reply(struct fkv_home *h, uint64_t seq, uint64_t lease_ns)
{
	uint64_t sent = h->sent_ns[seq % FKV_BEATS];

	if (seq + FKV_BEATS > h->beat && seq <= h->beat && sent)
		h->lease_ns = fkv_max_u64(h->lease_ns, sent + lease_ns);
}

void fkv_home_message(struct fkv_owner *o, const struct fkv_cluster_msg *msg,
		      struct fkv_out *out)
{
	struct fkv_home *h = &o->home;
	int res = 0;

	if (h->state != FKV_HOME_UP)
		return;
	if (msg->type == FKV_CLUSTER_REGISTERED) {
		res = msg->registered.res;
		h->accepted = !res;
		if (!res)
			reply(h, h->beat, msg->registered.lease_ns);
		else
			h->was = 0;
	} else if (msg->type == FKV_CLUSTER_HEARTBEAT_REPLY) {
		res = msg->heartbeat_reply.res;
		if (!res)
			reply(h, msg->heartbeat_reply.seq,
			      msg->heartbeat_reply.lease_ns);
	}
	/* it does not know us: SESSION_END follows */
	if (res)
		fkv_out_add(out, FKV_CMD_END);
}

/* Which ops are open, in as many parts as that takes (G3). */
static void heartbeat(struct fkv_owner *o, struct fkv_out *out)
{
	uint64_t n = 0, at = 0;
	uint64_t *ops = fkv_realloc(o->beat_ops,
				    (o->ops.count + 1) * sizeof(*ops));
	const struct fkv_oop *op;
	uint32_t parts;

	if (!ops)
		return;
	o->beat_ops = ops;
	TAILQ_FOREACH(op, &o->all_ops, all)
		ops[n++] = op->id;
	parts = n ? (uint32_t)((n + FKV_CLUSTER_OPS_MAX - 1) /
			       FKV_CLUSTER_OPS_MAX) : 1;
	o->home.sent_ns[++o->home.beat % FKV_BEATS] = o->now_ns;
	for (uint32_t i = 0; i < parts; i++) {
		struct fkv_cluster_heartbeat *h;

		h = &fkv_out_cluster(out, 0, FKV_CLUSTER_HEARTBEAT)->heartbeat;
		h->seq = o->home.beat;
		h->part = i;
		h->parts = parts;
		h->n = (uint32_t)fkv_min_u64(n - at, FKV_CLUSTER_OPS_MAX);
		h->ops = ops + at;
		at += h->n;
	}
}

uint64_t fkv_home_deadline(const struct fkv_owner *o)
{
	return o->cfg.cluster && fkv_home_up(o) ? o->home.beat_ns : FKV_NEVER;
}

void fkv_home_tick(struct fkv_owner *o, struct fkv_out *out)
{
	if (fkv_home_deadline(o) > o->now_ns)
		return;
	o->home.beat_ns = o->now_ns + FKV_HEARTBEAT_NS;
	heartbeat(o, out);
}
