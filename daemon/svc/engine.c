// SPDX-License-Identifier: Apache-2.0
#include <stdio.h>

#include "base/clock.h"
#include "base/log.h"
#include "svc/admin.h"
#include "svc/inbox.h"
#include "svc/notice.h"

#define HITS_TICK_MS	100
#define SCAN_TICK_MS	1

STAILQ_HEAD(later, later_cmd);

/* An input that came while another was being worked on. */
struct later_cmd {
	STAILQ_ENTRY(later_cmd) link;
	struct fkv_in in;
};

/* An I/O request that a device's mailbox had no room for. */
struct waiting_io {
	STAILQ_ENTRY(waiting_io) link;
	uint32_t device;
	struct fkv_io_request req;
};

STAILQ_HEAD(waiting_ios, waiting_io);

struct fkv_engine {
	struct fkv_engine_config ec;
	struct fkv_owner *owner;
	struct fkv_master *master;
	struct fkv_ring *ring;
	struct fkv_index *index;
	struct fkv_gateway *gateway;
	struct fkv_workers *workers;
	struct fkv_out out, mout;
	struct later later;
	struct waiting_ios waiting;
	bool draining;
	uint64_t now_ns;
	struct fkv_inbox inbox;
	uv_async_t wake;
	uv_timer_t timer, alive, hits, scan;
	uint64_t timer_at;
	bool scan_armed;
	struct fkv_notice notice;
	struct fkv_histogram latency[FKV_LAT_NR];
};

static void drain(struct fkv_engine *e);
static void arm(struct fkv_engine *e);

/* ---- results of other threads ---- */

static void inbox_post(struct fkv_engine *e, const struct fkv_result *r)
{
	fkv_inbox_post(&e->inbox, r);
	uv_async_send(&e->wake);
}

void fkv_engine_io_done(void *engine, const struct fkv_io_result *res)
{
	struct fkv_result r = {
		.type = FKV_IN_IO_DONE,
		.res = res->res,
		.token = res->token,
		.sum = res->sum,
		.ns = res->queue_ns + res->io_ns,
		.write = res->kind == FKV_IO_WRITE,
	};

	inbox_post(engine, &r);
}

static void work_done(void *arg, const struct fkv_work *w)
{
	struct fkv_result r = {
		.type = w->type == FKV_WORK_HASH ? FKV_IN_HASHED :
			FKV_IN_COPIED,
		.token = w->token,
		.sum = w->sum,
		.arena = w->user,
	};

	inbox_post(arg, &r);
}

/* ---- inputs ---- */

static void feed(struct fkv_engine *e, const struct fkv_in *in)
{
	struct later_cmd *l;

	if (!e->draining) {
		e->draining = true;
		fkv_owner_step(e->owner, e->now_ns, in, &e->out);
		drain(e);
		e->draining = false;
		return;
	}
	l = fkv_zalloc(sizeof(*l));
	fkv_assert(l);
	l->in = *in;
	STAILQ_INSERT_TAIL(&e->later, l, link);
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
	struct fkv_out got = e->mout;

	memset(&e->mout, 0, sizeof(e->mout));
	for (size_t i = 0; i < got.n; i++) {
		struct fkv_in in = {
			.type = FKV_IN_MSG,
			.msg = &got.cmds[i].msg,
		};

		fkv_owner_step(e->owner, e->now_ns, &in, &e->out);
	}
	got.n = 0;
	/* keep the larger of the two arrays */
	if (e->mout.room < got.room && !e->mout.n) {
		fkv_out_done(&e->mout);
		e->mout = got;
	} else {
		fkv_out_done(&got);
	}
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

/* To the device; false when its mailbox is full now. */
static bool io_post(struct fkv_engine *e, uint32_t device,
		    const struct fkv_io_request *req)
{
	struct fkv_result r = {
		.type = FKV_IN_IO_DONE,
		.token = req->token,
		.write = req->kind == FKV_IO_WRITE,
	};

	r.res = fkv_device_submit(e->ec.devices[device], req);
	if (r.res == -EAGAIN)
		return false;
	if (r.res)
		inbox_post(e, &r);
	return true;
}

static void io_submit(struct fkv_engine *e, uint32_t device,
		      const struct fkv_io_request *req)
{
	struct waiting_io *w;

	if (STAILQ_EMPTY(&e->waiting) && io_post(e, device, req))
		return;
	w = fkv_zalloc(sizeof(*w));
	fkv_assert(w);
	w->device = device;
	w->req = *req;
	STAILQ_INSERT_TAIL(&e->waiting, w, link);
}

static void io_retry(struct fkv_engine *e)
{
	struct waiting_io *w;

	while ((w = STAILQ_FIRST(&e->waiting))) {
		if (!io_post(e, w->device, &w->req))
			return;
		STAILQ_REMOVE_HEAD(&e->waiting, link);
		fkv_free(w);
	}
}

static void io_command(struct fkv_engine *e, struct fkv_cmd *cmd)
{
	uint32_t per = e->ec.shards_per_device;
	struct fkv_io_request req = {
		.token = cmd->token,
		.kind = cmd->type == FKV_CMD_READ ? FKV_IO_READ : FKV_IO_WRITE,
		.shard = cmd->io.shard % per,
		.vpos = cmd->io.vpos,
		.entry_len = cmd->io.entry_len,
		.skip_vpos = cmd->io.skip_vpos,
		.skip_len = cmd->io.skip_len,
		.memory = (char *)fkv_segment_base(e->ec.segment) +
			  cmd->offset,
		.len = cmd->len,
		.sum_seed = cmd->seed,
		.seq = cmd->io.seq,
		.put_id = cmd->io.put_id,
		.sum = cmd->io.sum,
		.warm = cmd->io.warm,
	};

	if (cmd->key) {
		req.key_len = cmd->key->len;
		memcpy(req.key, cmd->key->data, cmd->key->len);
		fkv_key_put(cmd->key);
	}
	io_submit(e, cmd->io.shard / per, &req);
}

static void work_command(struct fkv_engine *e, struct fkv_cmd *cmd)
{
	char *base = fkv_segment_base(e->ec.segment);
	struct fkv_work w = {
		.type = cmd->type == FKV_CMD_HASH ? FKV_WORK_HASH :
			FKV_WORK_COPY,
		.token = cmd->token,
		.from = base + cmd->offset,
		.len = cmd->len,
		.seed = cmd->seed,
	};
	struct fkv_result failed = { .type = FKV_IN_COPIED, .res = -ENOMEM,
				     .token = cmd->token };

	if (cmd->type == FKV_CMD_COPY) {
		struct fkv_arena *a;

		a = fkv_gateway_arena(e->gateway, cmd->client);
		if (!a) {
			failed.res = -ECANCELED;
			inbox_post(e, &failed);
			return;
		}
		w.from = fkv_arena_at(a, cmd->from);
		w.to = base + cmd->offset;
		w.user = a;
	}
	if (!fkv_workers_post(e->workers, &w))
		return;
	/* a hash has no way to fail: its put would never be persisted */
	fkv_assert(cmd->type == FKV_CMD_COPY);
	fkv_arena_put(w.user);
	inbox_post(e, &failed);
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
	fkv_index_evict(e->index, es, n, res);
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

static void command(struct fkv_engine *e, struct fkv_cmd cmd)
{
	switch (cmd.type) {
	case FKV_CMD_SEND:
		fkv_master_step(e->master, e->now_ns, &cmd.msg, &e->mout);
		deliver(e);
		break;
	case FKV_CMD_REPLY:
		latency(e, cmd.call);
		fkv_gateway_reply(e->gateway, cmd.call);
		break;
	case FKV_CMD_PUBLISH:
		fkv_index_publish(e->index, cmd.entry);
		break;
	case FKV_CMD_RETIRE:
		fkv_index_retire(e->index, cmd.entry);
		break;
	case FKV_CMD_READ:
	case FKV_CMD_WRITE:
		io_command(e, &cmd);
		break;
	case FKV_CMD_HASH:
	case FKV_CMD_COPY:
		work_command(e, &cmd);
		break;
	case FKV_CMD_EVICT:
	case FKV_CMD_NR:
		fkv_assert(!"handled before");
	}
}

static void commands(struct fkv_engine *e)
{
	/* the array grows and moves while it is walked */
	for (size_t i = 0; i < e->out.n;) {
		if (e->out.cmds[i].type == FKV_CMD_EVICT)
			i += evict_commands(e, i);
		else
			command(e, e->out.cmds[i++]);
	}
	e->out.n = 0;
}

static void scan(struct fkv_engine *e)
{
	static const struct fkv_index_ops ops = {
		.scanned = on_scanned,
		.hits = on_hits,
	};

	fkv_index_scan(e->index, &ops, e);
}

static void drain(struct fkv_engine *e)
{
	struct later_cmd *l;

	commands(e);
	for (;;) {
		l = STAILQ_FIRST(&e->later);
		if (!l && fkv_index_retired(e->index) >= FKV_SCAN_BATCH)
			scan(e);
		l = STAILQ_FIRST(&e->later);
		if (!l)
			return;
		STAILQ_REMOVE_HEAD(&e->later, link);
		fkv_owner_step(e->owner, e->now_ns, &l->in, &e->out);
		fkv_free(l);
		commands(e);
	}
}

/* ---- the loop's events ---- */

static void tick(struct fkv_engine *e)
{
	struct fkv_in in = { .type = FKV_IN_TICK };

	fkv_assert(!e->draining);
	e->draining = true;
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

	e->scan_armed = false;
	now(e);
	scan(e);
	arm(e);
}

static void on_timer(uv_timer_t *t)
{
	struct fkv_engine *e = t->data;

	e->timer_at = FKV_NEVER;
	arm(e);
}

/* After every event: what is due, and when to look again. */
static void arm(struct fkv_engine *e)
{
	uint64_t next;

	if (e->draining)
		return;
	if (fkv_master_deadline(e->master) <= e->now_ns ||
	    fkv_owner_deadline(e->owner) <= e->now_ns)
		tick(e);
	next = fkv_min_u64(fkv_master_deadline(e->master),
			   fkv_owner_deadline(e->owner));
	if (!e->scan_armed && fkv_index_retired(e->index)) {
		e->scan_armed = true;
		uv_timer_start(&e->scan, on_scan_timer, SCAN_TICK_MS, 0);
	}
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

static void result(struct fkv_engine *e, const struct fkv_result *r)
{
	struct fkv_in in = {
		.type = r->type,
		.res = r->res,
		.token = r->token,
		.sum = r->sum,
	};

	if (r->type == FKV_IN_IO_DONE)
		fkv_histogram_record(&e->latency[r->write ? FKV_LAT_SSD_WRITE :
						 FKV_LAT_SSD_READ], r->ns);
	fkv_arena_put(r->arena);
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
	struct fkv_result *at;
	size_t n;

	at = fkv_inbox_take(&e->inbox, &n);
	now(e);
	for (size_t i = 0; i < n; i++)
		result(e, &at[i]);
	fkv_free(at);
	io_retry(e);
	notice(e);
	arm(e);
}

static void on_alive(uv_timer_t *t)
{
	struct fkv_engine *e = t->data;

	now(e);
	fkv_index_alive(e->index, e->now_ns + FKV_ALIVE_NS);
	/* nobody else owns these keys: the lease is that of living itself */
	if (e->ec.cfg->strict_reads)
		fkv_index_lease(e->index, fkv_clock_boot_ns() + FKV_ALIVE_NS);
}

static void on_hits_timer(uv_timer_t *t)
{
	struct fkv_engine *e = t->data;
	struct fkv_in in = { .type = FKV_IN_PINS };

	now(e);
	fkv_gateway_hits(e->gateway);
	in.n = fkv_gateway_count_pins(e->gateway);
	feed(e, &in);
	arm(e);
}

/* ---- life ---- */

static char *on_admin(void *arg, const char *word, const char *argument,
		      int *ret_err)
{
	return fkv_admin_answer(arg, word, argument, ret_err);
}

static const struct fkv_gateway_ops gateway_ops = {
	.client = on_client,
	.gone = on_gone,
	.pinned = on_pinned,
	.call = on_call,
	.admin = on_admin,
	.index = { .scanned = on_scanned, .hits = on_hits },
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

static int gateway_create(struct fkv_engine *e)
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
		.index = e->index,
		.pins = cfg->pins_per_client,
		.strict = cfg->strict_reads,
		.ops = &gateway_ops,
		.arg = e,
	};

	return fkv_gateway_create(e->ec.loop, &gc, &e->gateway, e->ec.err,
				  e->ec.err_size);
}

static void timers_init(struct fkv_engine *e)
{
	uv_timer_t *all[] = { &e->timer, &e->alive, &e->hits, &e->scan };

	for (size_t i = 0; i < FKV_ARRAY_SIZE(all); i++) {
		uv_timer_init(e->ec.loop, all[i]);
		all[i]->data = e;
	}
	uv_async_init(e->ec.loop, &e->wake, on_wake);
	e->wake.data = e;
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
	fkv_notice_init(&e->notice, ec->nr_devices);
	STAILQ_INIT(&e->later);
	STAILQ_INIT(&e->waiting);
	fkv_inbox_init(&e->inbox);
	timers_init(e);
	now(e);
	err = cores_create(e);
	if (!err)
		err = fkv_index_create((uint32_t)ec->cfg->index_entries,
				       ec->incarnation, ec->cfg->strict_reads,
				       &e->index);
	if (!err)
		err = fkv_workers_create(ec->cfg->transfer_threads, work_done,
					 e, &e->workers);
	if (!err)
		err = gateway_create(e);
	*ret = e;
	return err;
}

void fkv_engine_serve(struct fkv_engine *e)
{
	on_alive(&e->alive);
	uv_timer_start(&e->alive, on_alive, FKV_ALIVE_TICK / FKV_MS,
		       FKV_ALIVE_TICK / FKV_MS);
	uv_timer_start(&e->hits, on_hits_timer, HITS_TICK_MS, HITS_TICK_MS);
	fkv_gateway_listen(e->gateway);
}

void fkv_engine_stop_accept(struct fkv_engine *e)
{
	fkv_gateway_stop_accept(e->gateway);
}

bool fkv_engine_idle(struct fkv_engine *e)
{
	struct fkv_owner_stats s;

	fkv_owner_get_stats(e->owner, &s);
	return !s.holders && !s.open_puts && !s.calls &&
	       !fkv_index_count(e->index);
}

/* No client from now; what other threads still do ends with their stop. */
void fkv_engine_close(struct fkv_engine *e)
{
	uv_timer_t *all[] = { &e->timer, &e->alive, &e->hits, &e->scan };

	if (e->index)
		fkv_index_alive(e->index, 0);
	if (e->gateway)
		fkv_gateway_close_all(e->gateway);
	for (size_t i = 0; i < FKV_ARRAY_SIZE(all); i++)
		uv_close((uv_handle_t *)all[i], NULL);
	uv_close((uv_handle_t *)&e->wake, NULL);
}

/* Devices were stopped by the caller: no result can come any more. */
void fkv_engine_free(struct fkv_engine *e)
{
	struct waiting_io *w;

	fkv_workers_free(e->workers);
	fkv_inbox_done(&e->inbox);
	while ((w = STAILQ_FIRST(&e->waiting))) {
		STAILQ_REMOVE_HEAD(&e->waiting, link);
		fkv_free(w);
	}
	fkv_owner_free(e->owner);
	fkv_master_free(e->master);
	fkv_ring_free(e->ring);
	fkv_gateway_free(e->gateway);
	fkv_index_free(e->index);
	fkv_out_done(&e->out);
	fkv_out_done(&e->mout);
	fkv_free(e);
}

void fkv_engine_report(struct fkv_engine *e, struct fkv_report *ret)
{
	fkv_master_get_stats(e->master, &ret->master);
	fkv_owner_get_stats(e->owner, &ret->owner);
	fkv_index_get_stats(e->index, &ret->index);
	fkv_gateway_get_stats(e->gateway, &ret->gateway);
}

struct fkv_gateway *fkv_engine_gateway(struct fkv_engine *e)
{
	return e->gateway;
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
