// SPDX-License-Identifier: Apache-2.0
#include <stdio.h>

#include "base/clock.h"
#include "base/log.h"
#include "svc/admin.h"
#include "svc/inbox.h"
#include "svc/notice.h"

#define HITS_TICK_MS	100
#define SCAN_TICK_MS	1
#define SCAN_TICK_MAX	64	/* while what is held stays held */
#define WAITED_FOR_NS	(3 * FKV_MS)	/* the master polls: room is wanted */

/* Outputs that one step has at most. */
#define OUT_STEP	(4 * (size_t)FKV_BATCH_MAX)
/* Commands that had no memory are tried again after this. */
#define AGAIN_NS	(10 * FKV_MS)

struct fkv_engine {
	struct fkv_engine_config ec;
	struct fkv_owner *owner;
	struct fkv_master *master;
	struct fkv_ring *ring;
	struct fkv_front *front;
	struct fkv_out out, mout;
	size_t kept;			/* first of out: had no memory */
	uint64_t again_ns;		/* when they are tried again */
	bool draining;
	size_t held;			/* retired that the last scan kept */
	uint64_t now_ns;
	struct fkv_inbox inbox;
	uv_timer_t timer, alive, hits, scan;
	uint64_t timer_at;
	unsigned int scan_ms, armed_ms;	/* armed_ms 0: it is not */
	struct fkv_notice notice;
	struct fkv_histogram latency[FKV_LAT_NR];
};

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
	n = OUT_STEP + 2 * (s.holders + s.open_puts + s.calls + s.fetches +
			    s.pending_ops + s.entries_retired);
	err = fkv_out_reserve(&e->out, n);
	return err ? err : fkv_out_reserve(&e->mout, n);
}

static void now(struct fkv_engine *e)
{
	e->now_ns = fkv_clock_ns();
}

static void on_client(void *arg, uint64_t client, uint32_t uid,
		      uint64_t arena_bytes)
{
	struct fkv_in in = {
		.type = FKV_IN_CLIENT,
		.client = client,
		.uid = uid,
		.n = arena_bytes,
	};

	feed(arg, &in);
}

static void on_gone(void *arg, uint64_t client)
{
	struct fkv_in in = { .type = FKV_IN_CLIENT_GONE, .client = client };

	feed(arg, &in);
}

static void on_call(void *arg, struct fkv_call *call)
{
	struct fkv_engine *e = arg;
	struct fkv_in in = { .type = FKV_IN_CALL, .call = call };

	now(e);
	call->began_ns = e->now_ns;
	call->status = reserve(e, call);
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

	return fkv_owner_client_pins(e->owner, client, bytes);
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
	case FKV_CMD_NR:
		fkv_assert(!"handled before");
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
		if (fkv_out_reserve(&e->out, OUT_STEP))
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

/* Still no memory: a hash or a retirement waits on, the rest fails. */
static void try_again(struct fkv_engine *e, struct fkv_cmd cmd)
{
	struct fkv_result r = { .cmd = cmd, .res = -ENOMEM };
	struct fkv_in in = fkv_result_input(&r);

	if (command(e, cmd))
		return;
	if (cmd.type == FKV_CMD_HASH || cmd.type == FKV_CMD_RETIRE) {
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

static void tick(struct fkv_engine *e)
{
	struct fkv_in in = { .type = FKV_IN_TICK };

	fkv_assert(!e->draining);
	e->draining = true;
	if (e->kept && e->again_ns <= e->now_ns)
		again(e);
	if (fkv_master_deadline(e->master) <= e->now_ns) {
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
	    fkv_master_deadline(e->master) < e->now_ns + WAITED_FOR_NS)
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
	uint64_t next = fkv_min_u64(fkv_master_deadline(e->master),
				    fkv_owner_deadline(e->owner));

	return e->kept ? fkv_min_u64(next, e->again_ns) : next;
}

/* After every event: what is due, and when to look again. */
static void arm(struct fkv_engine *e)
{
	uint64_t next;

	if (e->draining)
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
	fkv_free(r);
	feed(e, &in);
}

static void notice(struct fkv_engine *e)
{
	struct fkv_owner_stats s;

	if (!e->ring)
		return;
	fkv_owner_get_stats(e->owner, &s);
	fkv_notice(&e->notice, &s, e->now_ns);
}

static void on_wake(uv_async_t *a)
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

static void on_alive(uv_timer_t *t)
{
	struct fkv_engine *e = t->data;

	now(e);
	e->front->ops->alive(e->front, e->now_ns + FKV_ALIVE_NS);
	/* nobody else owns these keys: the lease is that of living itself */
	if (e->ec.cfg->strict_reads)
		e->front->ops->lease(e->front, fkv_clock_boot_ns() +
				      FKV_ALIVE_NS);
}

static void on_hits_timer(uv_timer_t *t)
{
	struct fkv_engine *e = t->data;
	struct fkv_in in = { .type = FKV_IN_PINS };

	now(e);
	in.n = e->front->ops->count(e->front);
	feed(e, &in);
	arm(e);
}

/* ---- life ---- */

static char *on_admin(void *arg, const char *word, const char *argument,
		      int *ret_err)
{
	return fkv_admin_answer(arg, word, argument, ret_err);
}

static struct fkv_entry *on_next_pending(void *arg, const struct fkv_entry *at)
{
	struct fkv_engine *e = arg;

	return fkv_owner_next_pending(e->owner, at);
}

static void on_failed(void *arg)
{
	struct fkv_engine *e = arg;

	e->ec.failed(e->ec.arg);
}

static const struct fkv_gateway_ops gateway_ops = {
	.client = on_client,
	.gone = on_gone,
	.pinned = on_pinned,
	.call = on_call,
	.admin = on_admin,
	.index = { .scanned = on_scanned, .hits = on_hits },
	.next_pending = on_next_pending,
	.failed = on_failed,
};

static int ring_create(struct fkv_engine *e)
{
	struct fkv_ring_config rc = { .nr_devices = e->ec.nr_devices };

	if (!e->ec.nr_devices)
		return 0;
	for (uint32_t d = 0; d < rc.nr_devices; d++) {
		rc.device[d].nr_shards = e->ec.shards_per_device;
		rc.device[d].ring_size =
			fkv_device_ring_size(e->ec.devices[d]);
		rc.device[d].unit = fkv_device_unit(e->ec.devices[d]);
	}
	return fkv_ring_create(&rc, &e->ring);
}

/* The largest value that one client may hold or put; 0: any. */
static uint64_t hold_limit(const struct fkv_config *cfg)
{
	if (!cfg->client_pinned_bytes || !cfg->uid_pinned_bytes)
		return fkv_max_u64(cfg->client_pinned_bytes,
				   cfg->uid_pinned_bytes);
	return fkv_min_u64(cfg->client_pinned_bytes, cfg->uid_pinned_bytes);
}

static int cores_create(struct fkv_engine *e)
{
	const struct fkv_config *cfg = e->ec.cfg;
	uint32_t shards = e->ec.nr_devices * e->ec.shards_per_device;
	struct fkv_owner_config oc = {
		.client_cap = cfg->client_pinned_bytes,
		.uid_cap = cfg->uid_pinned_bytes,
		.ring_devices = e->ec.nr_devices,
		.ring_shards = shards,
		.put_limit = fkv_master_put_limit(
			fkv_segment_size(e->ec.segment)),
		.hold_limit = hold_limit(cfg),
	};
	struct fkv_master_config mc = {
		.segment_bytes = fkv_segment_size(e->ec.segment),
		.epoch = e->ec.epoch,
		.shards = shards,
		.first = cfg->new_values == FKV_NEW_VALUES_FIRST,
	};
	struct fkv_msg state = {
		.type = FKV_MSG_SSD_STATE,
		.n = e->ec.nr_devices,
	};
	int err;

	err = fkv_out_reserve(&e->out, 2 * OUT_STEP);
	if (!err)
		err = fkv_out_reserve(&e->mout, 2 * OUT_STEP);
	if (!err)
		err = ring_create(e);
	if (err)
		return err;
	oc.ring = e->ring;
	err = fkv_owner_create(&oc, &e->owner);
	if (!err)
		err = fkv_master_create(&mc, &e->master);
	if (!err)
		fkv_master_step(e->master, 0, &state, &e->mout);
	return err;
}

static int front_create(struct fkv_engine *e)
{
	const struct fkv_config *cfg = e->ec.cfg;
	struct fkv_gateway_config gc = {
		.path = cfg->socket,
		.mode = cfg->socket_mode,
		.group = cfg->socket_gid,
		.segment_ro = fkv_segment_fd_readonly(e->ec.segment),
		.segment_rw = fkv_segment_fd(e->ec.segment),
		.segment_bytes = fkv_segment_size(e->ec.segment),
		.client_cap = cfg->client_pinned_bytes,
		.clients_max = e->ec.clients_max,
		.incarnation = e->ec.incarnation,
		.pins = cfg->pins_per_client,
		.strict = cfg->strict_reads,
		.ops = &gateway_ops,
		.arg = e,
	};

	if (e->ec.owner_fd >= 0)
		return fkv_front_kdev_create(e->ec.loop, e->ec.owner_fd,
					     &gateway_ops, e, &e->front);
	return fkv_front_unix_create(e->ec.loop, &gc,
				     (uint32_t)cfg->index_entries, &e->front,
				     e->ec.err, e->ec.err_size);
}

static void timers_init(struct fkv_engine *e)
{
	uv_timer_t *all[] = { &e->timer, &e->alive, &e->hits, &e->scan };

	for (size_t i = 0; i < FKV_ARRAY_SIZE(all); i++) {
		uv_timer_init(e->ec.loop, all[i]);
		all[i]->data = e;
	}
	e->inbox.wake.data = e;
	uv_async_init(e->ec.loop, &e->inbox.wake, on_wake);
}

int fkv_engine_create(const struct fkv_engine_config *ec,
		      struct fkv_engine **ret)
{
	struct fkv_engine *e = fkv_zalloc(sizeof(*e));
	int err;

	snprintf(ec->err, ec->err_size, "out of memory");
	if (!e)
		return -ENOMEM;
	e->ec = *ec;
	e->timer_at = FKV_NEVER;
	e->scan_ms = SCAN_TICK_MS;
	fkv_notice_init(&e->notice, ec->nr_devices);
	fkv_inbox_init(&e->inbox);
	e->inbox.devices = ec->devices;
	e->inbox.shards_per_device = ec->shards_per_device;
	e->inbox.segment = fkv_segment_base(ec->segment);
	timers_init(e);
	now(e);
	err = cores_create(e);
	if (!err)
		err = fkv_workers_create(ec->cfg->transfer_threads,
					 fkv_inbox_work_done, &e->inbox,
					 &e->inbox.workers);
	if (!err)
		err = front_create(e);
	*ret = e;
	return err;
}

int fkv_engine_serve(struct fkv_engine *e)
{
	on_alive(&e->alive);
	uv_timer_start(&e->alive, on_alive, FKV_ALIVE_TICK / FKV_MS,
		       FKV_ALIVE_TICK / FKV_MS);
	uv_timer_start(&e->hits, on_hits_timer, HITS_TICK_MS, HITS_TICK_MS);
	return e->front->ops->listen(e->front);
}

void fkv_engine_stop_accept(struct fkv_engine *e)
{
	e->front->ops->stop_accept(e->front);
}

bool fkv_engine_idle(struct fkv_engine *e)
{
	struct fkv_report r;

	e->front->ops->count(e->front);
	fkv_engine_report(e, &r);
	return !r.holders && !r.owner.holders && !r.owner.open_puts &&
	       !r.owner.calls;
}

/* No client from now; what other threads still do ends with their stop. */
void fkv_engine_close(struct fkv_engine *e)
{
	uv_timer_t *all[] = { &e->timer, &e->alive, &e->hits, &e->scan };

	if (e->front)
		e->front->ops->close_all(e->front);
	for (size_t i = 0; i < FKV_ARRAY_SIZE(all); i++)
		uv_close((uv_handle_t *)all[i], NULL);
	uv_close((uv_handle_t *)&e->inbox.wake, NULL);
}

/* Devices were stopped by the caller: no result can come any more. */
void fkv_engine_free(struct fkv_engine *e)
{
	fkv_workers_free(e->inbox.workers);
	fkv_inbox_done(&e->inbox);
	for (size_t i = 0; i < e->kept; i++)
		fkv_key_put(e->out.cmds[i].key);
	fkv_owner_free(e->owner);
	fkv_master_free(e->master);
	fkv_ring_free(e->ring);
	if (e->front)
		e->front->ops->free(e->front);
	fkv_out_done(&e->out);
	fkv_out_done(&e->mout);
	fkv_free(e);
}

void fkv_engine_report(struct fkv_engine *e, struct fkv_report *ret)
{
	fkv_master_get_stats(e->master, &ret->master);
	fkv_owner_get_stats(e->owner, &ret->owner);
	e->front->ops->get_stats(e->front, &ret->gateway, &ret->index);
	ret->holders = ret->index.pinned;
	if (!e->front->ops->keeps)
		ret->holders += ret->owner.holders;
}

bool fkv_engine_client(struct fkv_engine *e, uint64_t i,
		       struct fkv_client_info *ret, pid_t *ret_pid)
{
	struct fkv_conn_info info = { 0 };

	if (!fkv_owner_client_info(e->owner, i, ret))
		return false;
	e->front->ops->client_info(e->front, ret->client, &info);
	*ret_pid = info.pid;
	if (e->front->ops->keeps)
		ret->holders = ret->pinned_bytes = 0;
	ret->holders += info.pinned;
	ret->pinned_bytes += info.pinned_bytes;
	return true;
}

struct fkv_front *fkv_engine_front(struct fkv_engine *e)
{
	return e->front;
}

struct fkv_owner *fkv_engine_owner(struct fkv_engine *e)
{
	return e->owner;
}

struct fkv_master *fkv_engine_master(struct fkv_engine *e)
{
	return e->master;
}

struct fkv_ring *fkv_engine_ring(struct fkv_engine *e)
{
	return e->ring;
}

const struct fkv_histogram *fkv_engine_latency(struct fkv_engine *e,
					       enum fkv_latency which)
{
	return &e->latency[which];
}

const struct fkv_engine_config *fkv_engine_config(struct fkv_engine *e)
{
	return &e->ec;
}
