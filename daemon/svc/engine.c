// SPDX-License-Identifier: Apache-2.0
#include "base/clock.h"
#include "svc/admin.h"
#include "svc/engine_internal.h"

#define SCAN_TICK_MS	1
#define SCAN_TICK_MAX	64	/* while what is held stays held */
#define WAITED_FOR_NS	(3 * FKV_MS)	/* the master polls: room is wanted */

/* Commands that had no memory are tried again after this. */
#define AGAIN_NS	(10 * FKV_MS)

static void drain(struct fkv_engine *e);
static void arm(struct fkv_engine *e);

void fkv_engine_io_done(void *engine, const struct fkv_io_result *res)
{
	struct fkv_engine *e = engine;

	fkv_inbox_io_done(&e->inbox, res);
}

/* ---- inputs ---- */

/* One that comes while another is worked on: its outputs follow theirs. */
static void feed(struct fkv_engine *e, const struct fkv_in *in)
{
	bool nested = e->draining;

	e->draining = true;
	fkv_owner_step(e->owner, e->now_ns, in, &e->out);
	if (!nested)
		drain(e);
	e->draining = nested;
}

/*
 * Room for all that this call, and the end of all that is held or under way,
 * may have to say. What gives back brings no more than was reserved for it.
 */
static int reserve(struct fkv_engine *e, const struct fkv_call *call)
{
	struct fkv_owner_stats s;
	size_t n;
	int err;

	if (call->op == FLUXONKV_OP_RELEASE || call->op == FLUXONKV_OP_PUT_ABORT)
		return 0;
	fkv_owner_get_stats(e->owner, &s);
	n = FKV_OUT_STEP + 2 * (s.holders + s.open_puts + s.calls + s.fetches +
			    s.pending_ops + s.entries_retired);
	err = fkv_out_reserve(&e->out, n);
	return err ? err : fkv_out_reserve(&e->mout, n);
}

static void now(struct fkv_engine *e)
{
	e->now_ns = fkv_clock_ns();
}

/* Of the cluster: another turn, or part of what is being worked on. */
void fkv_engine_input(void *engine, const struct fkv_in *in)
{
	struct fkv_engine *e = engine;

	if (!e->draining)
		now(e);
	feed(e, in);
	arm(e);
}

static void on_client(void *arg, uint64_t client, uint32_t uid,
		      uint64_t arena_bytes)
{
	struct fkv_engine *e = arg;
	struct fkv_in in = {
		.type = FKV_IN_CLIENT,
		.client = client,
		.uid = uid,
		.n = arena_bytes,
	};

	if (e->owner)
		feed(e, &in);
}

static void on_gone(void *arg, uint64_t client)
{
	struct fkv_in in = { .type = FKV_IN_CLIENT_GONE, .client = client };
	struct fkv_engine *e = arg;

	if (e->owner)
		feed(e, &in);
}

/* What ends something is taken whatever waits already. */
static bool ends(uint32_t op)
{
	return op == FLUXONKV_OP_RELEASE || op == FLUXONKV_OP_PUT_ABORT ||
	       op == FLUXONKV_OP_PUT_COMMIT;
}

/* Can it be begun? A master serves no keys. */
static int admit(struct fkv_engine *e, const struct fkv_call *call)
{
	if (!e->owner)
		return -EOPNOTSUPP;
	if (e->uplink && !ends(call->op) && !fkv_uplink_has_room(e->uplink))
		return -EAGAIN;
	return reserve(e, call);
}

static void on_call(void *arg, struct fkv_call *call)
{
	struct fkv_engine *e = arg;
	struct fkv_in in = { .type = FKV_IN_CALL, .call = call };

	now(e);
	call->began_ns = e->now_ns;
	call->status = admit(e, call);
	if (call->status) {
		e->front->ops->reply(e->front, call);
		return;
	}
	feed(e, &in);
	arm(e);
}

static uint64_t on_pinned(void *arg, uint64_t client, uint64_t bytes)
{
	struct fkv_engine *e = arg;

	return e->owner ? fkv_owner_client_pins(e->owner, client, bytes) : 0;
}

static void on_scanned(void *arg, struct fkv_entry *entry)
{
	struct fkv_in in = { .type = FKV_IN_SCANNED, .entry = entry };

	feed(arg, &in);
}

static void on_hits(void *arg, struct fkv_entry *entry, uint64_t n)
{
	struct fkv_engine *e = arg;
	struct fkv_msg msg = {
		.type = FKV_MSG_HITS,
		.extent = entry->extent,
		.n = n,
	};
	struct fkv_in in = { .type = FKV_IN_HITS, .entry = entry, .n = n };

	if (e->uplink) {
		feed(e, &in);
		return;
	}
	/* only counts: need not wait for what is being worked on */
	fkv_master_step(e->master, e->now_ns, &msg, &e->mout);
}

/* ---- commands ---- */

static void deliver(struct fkv_engine *e)
{
	for (size_t i = 0; i < e->mout.n; i++) {
		struct fkv_in in = {
			.type = FKV_IN_MSG,
			.msg = &e->mout.cmds[i].msg,
		};

		fkv_owner_step(e->owner, e->now_ns, &in, &e->out);
	}
	e->mout.n = 0;
}

static void latency(struct fkv_engine *e, const struct fkv_call *call)
{
	static const uint8_t of[] = {
		[FLUXONKV_OP_GET] = FKV_LAT_GET,
		[FLUXONKV_OP_PUT_BEGIN] = FKV_LAT_PUT_BEGIN,
		[FLUXONKV_OP_PUT_COMMIT] = FKV_LAT_PUT_COMMIT,
		[FLUXONKV_OP_DELETE] = FKV_LAT_DELETE,
		[FLUXONKV_OP_ADMIN] = 0,
	};
	enum fkv_latency which = FKV_LAT_OTHER;

	if (call->op == FLUXONKV_OP_GET || (call->op < sizeof(of) &&
					    of[call->op]))
		which = of[call->op];
	fkv_histogram_record(&e->latency[which],
			     fkv_clock_ns() - call->began_ns);
}

/* A run of EVICT commands is one batch: one fence, two scans. */
static size_t evict_commands(struct fkv_engine *e, size_t at)
{
	enum fkv_evict_result res[FKV_EVICT_BATCH];
	struct fkv_entry *es[FKV_EVICT_BATCH] = { NULL };
	size_t n = 0;

	while (at + n < e->out.n && n < FKV_EVICT_BATCH &&
	       e->out.cmds[at + n].type == FKV_CMD_EVICT) {
		es[n] = e->out.cmds[at + n].entry;
		n++;
	}
	e->front->ops->evict(e->front, es, n, res);
	for (size_t i = 0; i < n; i++) {
		struct fkv_in in = {
			.type = FKV_IN_EVICTED,
			.entry = es[i],
			.res = (int)res[i],
		};

		fkv_owner_step(e->owner, e->now_ns, &in, &e->out);
	}
	return n;
}

/* False when it has no memory now. */
static bool command(struct fkv_engine *e, struct fkv_cmd cmd)
{
	switch (cmd.type) {
	case FKV_CMD_SEND:
		if (e->uplink)
			return fkv_uplink_command(e->uplink, &cmd);
		fkv_master_step(e->master, e->now_ns, &cmd.msg, &e->mout);
		deliver(e);
		break;
	case FKV_CMD_REPLY:
		latency(e, cmd.call);
		e->front->ops->reply(e->front, cmd.call);
		break;
	case FKV_CMD_PUBLISH:
		e->front->ops->publish(e->front, cmd.entry);
		break;
	case FKV_CMD_RETIRE:
		return !e->front->ops->retire(e->front, cmd.entry);
	case FKV_CMD_READ:
	case FKV_CMD_WRITE:
		return !e->kept && fkv_inbox_io(&e->inbox, &cmd);
	case FKV_CMD_HASH:
	case FKV_CMD_COPY:
		return !e->kept && fkv_inbox_work(&e->inbox, &cmd, e->front);
	case FKV_CMD_SHUT:
		e->front->ops->shut(e->front, cmd.client, cmd.token);
		break;
	case FKV_CMD_EVICT:
		fkv_assert(!"handled before");
	default:
		return fkv_uplink_command(e->uplink, &cmd);
	}
	return true;
}

/* Stays, first of all, until there is memory. */
static void keep(struct fkv_engine *e, const struct fkv_cmd *cmd)
{
	if (!e->kept)
		e->again_ns = e->now_ns + AGAIN_NS;
	e->out.cmds[e->kept++] = *cmd;
}

/* Those before @at are over, but for the kept. */
static size_t compact(struct fkv_engine *e, size_t at)
{
	size_t left = e->out.n - at;

	memmove(&e->out.cmds[e->kept], &e->out.cmds[at],
		left * sizeof(e->out.cmds[0]));
	e->out.n = e->kept + left;
	return e->kept;
}

static void commands(struct fkv_engine *e)
{
	/* the array grows and moves while it is walked */
	for (size_t i = e->kept; i < e->out.n;) {
		/* room for a step: more, or that of those that are over */
		if (fkv_out_reserve(&e->out, FKV_OUT_STEP))
			i = compact(e, i);
		if (e->out.cmds[i].type == FKV_CMD_EVICT) {
			i += evict_commands(e, i);
		} else {
			struct fkv_cmd cmd = e->out.cmds[i++];

			if (!command(e, cmd))
				keep(e, &cmd);
		}
	}
	e->out.n = e->kept;
}

static void scan(struct fkv_engine *e)
{
	e->front->ops->scan(e->front);
	e->held = e->front->ops->retired(e->front);
}

/* Those that readers hold are looked at again with the next batch. */
static void drain(struct fkv_engine *e)
{
	commands(e);
	while (e->front->ops->retired(e->front) >= e->held + FKV_SCAN_BATCH) {
		scan(e);
		if (e->out.n == e->kept)
			return;
		commands(e);
	}
}

/* What an end is known of, and nothing else may happen to. */
static bool waits_on(enum fkv_cmd_type type)
{
	return type == FKV_CMD_HASH || type == FKV_CMD_RETIRE ||
	       type == FKV_CMD_CANCEL || type == FKV_CMD_FENCE ||
	       type == FKV_CMD_STOP;
}

/* Still no memory: some wait on, the rest fails. */
static void try_again(struct fkv_engine *e, struct fkv_cmd cmd)
{
	struct fkv_result r = { .cmd = cmd, .res = -ENOMEM };
	struct fkv_in in = fkv_result_input(&r);

	if (command(e, cmd))
		return;
	if (waits_on(cmd.type)) {
		keep(e, &cmd);
		return;
	}
	fkv_key_put(cmd.key);
	fkv_owner_step(e->owner, e->now_ns, &in, &e->out);
}

static void again(struct fkv_engine *e)
{
	size_t n = e->kept;

	e->kept = 0;
	for (size_t i = 0; i < n; i++)
		try_again(e, e->out.cmds[i]);
	/* what the failed had to say follows what is kept */
	compact(e, n);
	drain(e);
}

/* ---- the loop's events ---- */

static uint64_t master_deadline(const struct fkv_engine *e)
{
	return e->master ? fkv_master_deadline(e->master) : FKV_NEVER;
}

static void tick(struct fkv_engine *e)
{
	struct fkv_in in = { .type = FKV_IN_TICK };

	fkv_assert(!e->draining);
	e->draining = true;
	if (e->kept && e->again_ns <= e->now_ns)
		again(e);
	if (master_deadline(e) <= e->now_ns) {
		fkv_master_tick(e->master, e->now_ns, &e->mout);
		deliver(e);
		drain(e);
	}
	if (fkv_owner_deadline(e->owner) <= e->now_ns) {
		fkv_owner_step(e->owner, e->now_ns, &in, &e->out);
		drain(e);
	}
	e->draining = false;
}

static void on_scan_timer(uv_timer_t *t)
{
	struct fkv_engine *e = t->data;
	size_t before = e->front->ops->retired(e->front);

	e->armed_ms = 0;
	now(e);
	e->draining = true;
	scan(e);
	drain(e);
	e->draining = false;
	if (e->held < before)
		e->scan_ms = SCAN_TICK_MS;
	else if (e->scan_ms < SCAN_TICK_MAX)
		e->scan_ms *= 2;
	arm(e);
}

/* Soon when something is new or room is wanted, else ever more rarely. */
static void arm_scan(struct fkv_engine *e)
{
	size_t n = e->front->ops->retired(e->front);

	if (!n)
		return;
	if (n > e->held ||
	    master_deadline(e) < e->now_ns + WAITED_FOR_NS)
		e->scan_ms = SCAN_TICK_MS;
	if (e->armed_ms && e->armed_ms <= e->scan_ms)
		return;
	e->armed_ms = e->scan_ms;
	uv_timer_start(&e->scan, on_scan_timer, e->scan_ms, 0);
}

static void on_timer(uv_timer_t *t)
{
	struct fkv_engine *e = t->data;

	e->timer_at = FKV_NEVER;
	now(e);
	arm(e);
}

static uint64_t due(const struct fkv_engine *e)
{
	uint64_t next = fkv_min_u64(master_deadline(e),
				    fkv_owner_deadline(e->owner));

	return e->kept ? fkv_min_u64(next, e->again_ns) : next;
}

/* After every event: what is due, and when to look again. */
static void arm(struct fkv_engine *e)
{
	uint64_t next;

	if (e->draining || !e->owner)
		return;
	if (due(e) <= e->now_ns)
		tick(e);
	next = due(e);
	arm_scan(e);
	if (next == e->timer_at)
		return;
	e->timer_at = next;
	if (next == FKV_NEVER) {
		uv_timer_stop(&e->timer);
		return;
	}
	next = next > e->now_ns ? (next - e->now_ns + FKV_MS - 1) / FKV_MS : 0;
	uv_timer_start(&e->timer, on_timer, next, 0);
}

static void result(struct fkv_engine *e, struct fkv_result *r)
{
	struct fkv_in in = fkv_result_input(r);

	if (in.type == FKV_IN_IO_DONE)
		fkv_histogram_record(&e->latency[
			r->cmd.type == FKV_CMD_WRITE ? FKV_LAT_SSD_WRITE :
			FKV_LAT_SSD_READ], r->ns);
	fkv_arena_put(r->arena);
	feed(e, &in);
	fkv_free(r);
}

static void notice(struct fkv_engine *e)
{
	struct fkv_owner_stats s;

	if (!e->ring)
		return;
	fkv_owner_get_stats(e->owner, &s);
	fkv_notice(&e->notice, &s, e->now_ns);
}

void fkv_engine_on_wake(uv_async_t *a)
{
	struct fkv_engine *e = a->data;
	struct fkv_results got;
	struct fkv_result *r;

	fkv_inbox_take(&e->inbox, &got);
	now(e);
	while ((r = STAILQ_FIRST(&got))) {
		STAILQ_REMOVE_HEAD(&got, link);
		result(e, r);
	}
	fkv_inbox_retry(&e->inbox);
	notice(e);
	arm(e);
}

/* Hits go on without a lease unless reads are strict: it is counted (K6.g). */
static void count_stale(struct fkv_engine *e, uint64_t until_ns)
{
	uint64_t from = fkv_max_u64(until_ns, e->alive_ns);

	if (e->alive_ns && from < e->now_ns)
		e->stale_ns += e->now_ns - from;
	e->alive_ns = e->now_ns;
}

void fkv_engine_on_alive(uv_timer_t *t)
{
	struct fkv_engine *e = t->data;
	uint64_t until;

	now(e);
	e->front->ops->alive(e->front, e->now_ns + FKV_ALIVE_NS);
	if (!e->owner)
		return;
	/* alone, nobody else owns these keys: the lease is living itself */
	until = fkv_min_u64(fkv_owner_lease(e->owner),
			    e->now_ns + (e->uplink ? FKV_LEASE_NS :
						     FKV_ALIVE_NS));
	if (e->uplink && !e->ec.cfg->strict_reads)
		count_stale(e, until);
	if (e->ec.cfg->strict_reads)
		e->front->ops->lease(e->front, until > e->now_ns ?
				      fkv_clock_boot_ns() + until - e->now_ns :
				      0);
}

void fkv_engine_on_hits(uv_timer_t *t)
{
	struct fkv_engine *e = t->data;
	struct fkv_in in = { .type = FKV_IN_PINS };

	now(e);
	in.n = e->front->ops->count(e->front);
	feed(e, &in);
	arm(e);
}

static char *on_admin(void *arg, const char *word, const char *argument,
		      int *ret_err)
{
	return fkv_admin_answer(arg, word, argument, ret_err);
}

static struct fkv_entry *on_next_pending(void *arg, const struct fkv_entry *at)
{
	struct fkv_engine *e = arg;

	return e->owner ? fkv_owner_next_pending(e->owner, at) : NULL;
}

static void on_failed(void *arg)
{
	struct fkv_engine *e = arg;

	e->ec.failed(e->ec.arg);
}

const struct fkv_gateway_ops fkv_engine_gateway_ops = {
	.client = on_client,
	.gone = on_gone,
	.pinned = on_pinned,
	.call = on_call,
	.admin = on_admin,
	.index = { .scanned = on_scanned, .hits = on_hits },
	.next_pending = on_next_pending,
	.failed = on_failed,
};
