// SPDX-License-Identifier: Apache-2.0
/*
 * engine_life.c - what an engine is made of, in each role, and how it ends
 */
#include <stdio.h>

#include "base/clock.h"
#include "io/transfer.h"
#include "svc/engine_internal.h"

#define HITS_TICK_MS	100

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

static uint32_t nr_shards(const struct fkv_engine *e)
{
	return e->ec.nr_devices * e->ec.shards_per_device;
}

static int owner_create(struct fkv_engine *e)
{
	const struct fkv_config *cfg = e->ec.cfg;
	struct fkv_owner_config oc = {
		.client_cap = cfg->client_pinned_bytes,
		.uid_cap = cfg->uid_pinned_bytes,
		.ring = e->ring,
		.ring_devices = e->ec.nr_devices,
		.ring_shards = nr_shards(e),
		.put_limit = fkv_master_put_limit(
			fkv_segment_size(e->ec.segment) -
			fkv_engine_chunk_bytes(cfg)),
		.hold_limit = hold_limit(cfg),
	};

	if (e->uplink) {
		oc.cluster = true;
		oc.name = cfg->instance_key;
		oc.address = fkv_uplink_address(e->uplink);
		oc.transports = FKV_CLUSTER_TCP;
		oc.segment_bytes = cfg->memory;
		oc.chunk_offset = cfg->memory;
		oc.chunks = (uint32_t)(fkv_engine_chunk_bytes(cfg) / FKV_CHUNK);
	}
	return fkv_owner_create(&oc, &e->owner);
}

static int master_create(struct fkv_engine *e)
{
	struct fkv_master_config mc = {
		.segment_bytes = fkv_segment_size(e->ec.segment),
		.epoch = e->ec.epoch,
		.shards = nr_shards(e),
		.first = e->ec.cfg->new_values == FKV_NEW_VALUES_FIRST,
	};
	struct fkv_msg state = {
		.type = FKV_MSG_SSD_STATE,
		.n = e->ec.nr_devices,
	};
	int err = fkv_master_create(&mc, &e->master);

	if (!err)
		fkv_master_step(e->master, 0, &state, &e->mout);
	return err;
}

static int hub_create(struct fkv_engine *e)
{
	const struct fkv_config *cfg = e->ec.cfg;
	struct fkv_hub_config hc = {
		.loop = e->ec.loop,
		.cluster = cfg->cluster_name,
		.name = cfg->instance_key,
		.key = e->ec.key,
		.listen = cfg->listen,
		.store = e->ec.store,
		.first = cfg->new_values == FKV_NEW_VALUES_FIRST,
		.lease_ns = FKV_LEASE_MASTER_NS,
		.err = e->ec.err,
		.err_size = e->ec.err_size,
	};

	return fkv_hub_create(&hc, &e->hub);
}

static int uplink_create(struct fkv_engine *e)
{
	struct fkv_uplink_config uc = {
		.loop = e->ec.loop,
		.cfg = e->ec.cfg,
		.key = e->ec.key,
		.incarnation = e->ec.incarnation,
		.segment = fkv_segment_base(e->ec.segment),
		.segment_bytes = fkv_segment_size(e->ec.segment),
		.shown_bytes = e->ec.cfg->memory,
		.input = fkv_engine_input,
		.arg = e,
		.err = e->ec.err,
		.err_size = e->ec.err_size,
	};

	return fkv_uplink_create(&uc, &e->uplink);
}

/* What this role has, of both cores. */
static int cores_create(struct fkv_engine *e)
{
	enum fkv_role role = e->ec.cfg->role;
	int err;

	if (role == FKV_ROLE_MASTER)
		return hub_create(e);
	err = fkv_out_reserve(&e->out, 2 * FKV_OUT_STEP);
	if (!err)
		err = fkv_out_reserve(&e->mout, 2 * FKV_OUT_STEP);
	if (!err)
		err = ring_create(e);
	if (!err && role == FKV_ROLE_OWNER)
		err = uplink_create(e);
	if (!err)
		err = owner_create(e);
	if (!err && role == FKV_ROLE_STANDALONE)
		err = master_create(e);
	return err;
}

uint64_t fkv_engine_chunk_bytes(const struct fkv_config *cfg)
{
	if (cfg->role != FKV_ROLE_OWNER || !cfg->nr_ssd)
		return 0;
	return fkv_chunks_count(cfg->memory) * FKV_CHUNK;
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
		.ops = &fkv_engine_gateway_ops,
		.arg = e,
	};

	if (e->ec.owner_fd >= 0)
		return fkv_front_kdev_create(e->ec.loop, e->ec.owner_fd,
					     &fkv_engine_gateway_ops, e, &e->front);
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
	uv_async_init(e->ec.loop, &e->inbox.wake, fkv_engine_on_wake);
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
	e->scan_ms = 1;
	fkv_notice_init(&e->notice, ec->nr_devices);
	fkv_inbox_init(&e->inbox);
	e->inbox.devices = ec->devices;
	e->inbox.shards_per_device = ec->shards_per_device;
	e->inbox.segment = fkv_segment_base(ec->segment);
	timers_init(e);
	e->now_ns = fkv_clock_ns();
	*ret = e;
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
	int err = 0;

	fkv_engine_on_alive(&e->alive);
	uv_timer_start(&e->alive, fkv_engine_on_alive,
		       FKV_ALIVE_TICK / FKV_MS, FKV_ALIVE_TICK / FKV_MS);
	if (e->owner)
		uv_timer_start(&e->hits, fkv_engine_on_hits, HITS_TICK_MS,
			       HITS_TICK_MS);
	if (e->hub)
		err = fkv_hub_serve(e->hub);
	if (e->uplink)
		err = fkv_uplink_serve(e->uplink);
	return err ? err : e->front->ops->listen(e->front);
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
	if (e->uplink)
		fkv_uplink_close(e->uplink);
	if (e->hub)
		fkv_hub_close(e->hub);
	for (size_t i = 0; i < FKV_ARRAY_SIZE(all); i++)
		uv_close((uv_handle_t *)all[i], NULL);
	uv_close((uv_handle_t *)&e->inbox.wake, NULL);
}

/* Devices were stopped by the caller: no result can come any more. */
void fkv_engine_free(struct fkv_engine *e)
{
	fkv_uplink_free(e->uplink);
	fkv_hub_free(e->hub);
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
	struct fkv_master *m = fkv_engine_master(e);

	memset(ret, 0, sizeof(*ret));
	if (m)
		fkv_master_get_stats(m, &ret->master);
	if (e->owner)
		fkv_owner_get_stats(e->owner, &ret->owner);
	if (e->hub)
		fkv_hub_get_stats(e->hub, &ret->hub);
	if (e->uplink)
		fkv_uplink_get_stats(e->uplink, &ret->uplink);
	ret->stale_ns = e->stale_ns;
	e->front->ops->get_stats(e->front, &ret->gateway, &ret->index);
	ret->holders = ret->index.pinned;
	if (!e->front->ops->keeps)
		ret->holders += ret->owner.holders;
}

bool fkv_engine_client(struct fkv_engine *e, uint64_t i,
		       struct fkv_client_info *ret, pid_t *ret_pid)
{
	struct fkv_conn_info info = { 0 };

	if (!e->owner || !fkv_owner_client_info(e->owner, i, ret))
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
	return e->hub ? fkv_hub_master(e->hub) : e->master;
}

struct fkv_hub *fkv_engine_hub(struct fkv_engine *e)
{
	return e->hub;
}

uint64_t fkv_engine_epoch(struct fkv_engine *e)
{
	struct fkv_uplink_stats s;

	if (e->hub)
		return fkv_hub_epoch(e->hub);
	if (!e->uplink)
		return e->ec.epoch;
	fkv_uplink_get_stats(e->uplink, &s);
	return s.epoch;
}

uint64_t fkv_engine_lease(struct fkv_engine *e)
{
	uint64_t until = e->owner ? fkv_owner_lease(e->owner) : FKV_NEVER;
	uint64_t now = fkv_clock_ns();

	if (until == FKV_NEVER)
		return FKV_NEVER;
	return until > now ? until - now : 0;
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
