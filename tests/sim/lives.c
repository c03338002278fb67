// SPDX-License-Identifier: Apache-2.0
/*
 * lives.c - the cores start, crash, and start again
 *
 * Of a life only the epoch file stays, and what is out of a process's hands:
 * bytes that clients mapped, I/O under way, what was on the disks. When one of
 * the cores is gone, the other goes on until it meets the new one; then both
 * begin anew, as the end of their session demands (protocol.md F1, F2), with
 * an empty ring. So all keys are gone, and nothing else may be.
 */
#include "sim.h"

static void make_ring(struct sim *s)
{
	struct fkv_ring_config rc = { .nr_devices = s->cfg.devices };

	if (!s->cfg.devices)
		return;
	for (uint32_t d = 0; d < rc.nr_devices; d++)
		rc.device[d] = (struct fkv_ring_device_config){
			.nr_shards = s->cfg.shards,
			.ring_size = s->cfg.ring_pages * SIM_PAGE,
			.unit = s->cfg.unit,
		};
	fkv_assert(!fkv_ring_create(&rc, &s->ring));
}

/* The least of the caps that there are. */
static uint64_t hold_limit(const struct sim *s)
{
	if (!s->cfg.client_cap || !s->cfg.uid_cap)
		return s->cfg.client_cap + s->cfg.uid_cap;
	return fkv_min_u64(s->cfg.client_cap, s->cfg.uid_cap);
}

static void make_cores(struct sim *s)
{
	struct fkv_owner_config oc = {
		.client_cap = s->cfg.client_cap,
		.uid_cap = s->cfg.uid_cap,
		.hold_limit = sim_chance(s, 500) ? hold_limit(s) : 0,
		.put_limit = sim_chance(s, 500) ? fkv_master_put_limit(
			s->cfg.pages * SIM_PAGE) : 0,
		.ring = s->ring,
		.ring_devices = s->cfg.devices,
		.ring_shards = s->cfg.devices * s->cfg.shards,
	};
	struct fkv_master_config mc = {
		.segment_bytes = s->cfg.pages * SIM_PAGE,
		.epoch = s->l->epoch,
		.shards = oc.ring_shards,
		.first = s->cfg.first,
	};
	struct fkv_msg state = {
		.type = FKV_MSG_SSD_STATE,
		.n = s->cfg.devices,
	};

	fkv_assert(!fkv_owner_create(&oc, &s->owner));
	fkv_assert(!fkv_master_create(&mc, &s->master));
	fkv_master_step(s->master, sim_clock(s, SIM_MASTER), &state,
			&s->mout);
	s->devices_on = s->cfg.devices;
}

/* Each start takes one; some crash before they serve. */
static uint64_t next_epoch(struct sim *s)
{
	if (!s->epoch)
		s->epoch = sim_random(s, 1ULL << sim_random(s, 20));
	s->epoch += 1 + (sim_chance(s, 200) ? sim_random(s, 3) : 0);
	return s->epoch;
}

/* New memory may say anything: here what the last one said. */
static void make_segment(struct sim *s)
{
	struct sim_page *old = s->life ? s->lives[s->life - 1].page : NULL;

	s->l->page = fkv_zalloc(s->cfg.pages * sizeof(*s->l->page));
	fkv_assert(s->l->page);
	for (uint32_t i = 0; old && i < s->cfg.pages; i++)
		s->l->page[i].w = old[i].w;
}

void sim_life_begin(struct sim *s)
{
	s->l = &s->lives[s->life];
	s->l->epoch = next_epoch(s);
	sim_clocks_start(s);
	make_segment(s);
	make_ring(s);
	make_cores(s);
	s->later_tail = &s->later;
	s->to_master.tail = &s->to_master.head;
	s->to_owner.tail = &s->to_owner.head;
	sim_say(s, "life %u, epoch %lu, clocks from %lu at %lu and %lu at "
		"%lu", s->life, s->l->epoch, s->clock[SIM_OWNER].first_ns,
		s->clock[SIM_OWNER].rate, s->clock[SIM_MASTER].first_ns,
		s->clock[SIM_MASTER].rate);
}

/* What the dead owner allocated comes back by the way that the living goes. */
static void bury(struct sim *s, const struct fkv_in *in)
{
	fkv_assert(!fkv_out_reserve(&s->out, 4096));
	fkv_owner_step(s->owner, sim_clock(s, SIM_OWNER), in, &s->out);
	for (size_t i = 0; i < s->out.n; i++)
		if (s->out.cmds[i].type == FKV_CMD_SEND)
			fkv_msg_done(&s->out.cmds[i].msg);
		else if (s->out.cmds[i].type == FKV_CMD_WRITE)
			fkv_key_put(s->out.cmds[i].key);
		else if (s->out.cmds[i].type == FKV_CMD_REPLY)
			fkv_call_free(s->out.cmds[i].call);
	s->out.n = 0;
}

static void bury_owner(struct sim *s)
{
	struct fkv_in in = { .type = FKV_IN_CLIENT_GONE };
	struct fkv_client_info info;

	while (fkv_owner_client_info(s->owner, 0, &info)) {
		in.client = info.client;
		bury(s, &in);
	}
	in.type = FKV_IN_SCANNED;
	for (size_t i = 0; i < s->nr_index; i++) {
		in.entry = s->index[i].entry;
		if (s->index[i].retired)
			bury(s, &in);
	}
	s->nr_index = 0;
}

void sim_life_end(struct sim *s)
{
	sim_cover_cores(s);
	sim_posts_done(s);
	sim_later_done(s);
	bury_owner(s);
	fkv_owner_free(s->owner);
	fkv_master_free(s->master);
	fkv_ring_free(s->ring);
	s->owner = NULL;
	s->master = NULL;
	s->ring = NULL;
	fkv_out_done(&s->out);
	fkv_out_done(&s->mout);
	fkv_free(s->extent);
	s->extent = NULL;
	s->nr_extents = 0;
}

static void count_crash(struct sim *s)
{
	uint64_t *path = s->n.path;

	for (uint32_t i = 0; i < s->cfg.clients; i++) {
		struct sim_client *c = &s->client[i];

		if (!c->up || c->life != s->life)
			continue;
		path[SIM_PATH_CRASH_HOLDING] += c->nr_held != 0;
		path[SIM_PATH_CRASH_OPEN] += c->nr_puts != 0;
		path[SIM_PATH_CRASH_WAITING] += c->nr_pends != 0;
	}
	path[SIM_PATH_CRASH_PINNING] += s->nr_pins != 0;
}

/* Their calls end; what they mapped they have until they notice. */
static void disconnect(struct sim *s)
{
	for (uint32_t i = 0; i < s->cfg.clients; i++)
		if (s->client[i].life == s->life)
			s->client[i].nr_pends = 0;
}

/*
 * A daemon that starts waits until the index of the one before is taken for
 * dead (FKV_ALIVE_NS).
 */
void sim_crash(struct sim *s, enum sim_core core)
{
	uint64_t after_ns = FKV_ALIVE_NS + sim_delay(s, 10 * FKV_SEC);

	if (s->down[SIM_OWNER] || s->down[SIM_MASTER] ||
	    s->life + 1 == SIM_LIVES_MAX)
		return;
	sim_say(s, "%s crashes", core == SIM_OWNER ? "owner" : "master");
	for (int i = 0; i < SIM_CORES; i++) {
		s->down[i] = !s->cfg.delayed || i == (int)core;
		s->frozen[i] &= !s->down[i];
	}
	s->down_ns = s->woke_ns = s->now_ns;
	s->restart_ns = s->now_ns + after_ns;
	sim_at(s, s->restart_ns, SIM_RESTART, 0, 0);
	count_crash(s);
	if (!s->down[SIM_OWNER])
		return;
	sim_later_done(s);
	disconnect(s);
	sim_io_linger(s);
}

static void forget(struct sim *s)
{
	for (uint32_t k = 0; k < s->cfg.keys; k++)
		if (sim_current(s, k))
			sim_effect(s, k, 0);
	for (int i = 0; i < SIM_CORES; i++) {
		s->down[i] = s->frozen[i] = false;
		s->tick_for[i] = 0;
	}
	s->nr_persists = 0;
	/* one that was put off to the end of a freeze may come much later */
	s->scan_armed = false;
	s->exposed = s->told_pins = s->refused = s->late = 0;
	s->full_ns = s->woke_ns = s->now_ns;
}

void sim_restart(struct sim *s)
{
	disconnect(s);
	sim_life_end(s);
	s->seq++;
	s->life++;
	forget(s);
	sim_life_begin(s);
}

bool sim_connected(const struct sim *s, const struct sim_client *c)
{
	return c->up && c->life == s->life && !s->down[SIM_OWNER];
}

void sim_view(struct sim *s, uint32_t life)
{
	s->l = &s->lives[life];
}

uint64_t sim_tag(const struct sim *s, uint64_t op)
{
	return (uint64_t)(s->l - s->lives) << 48 | op;
}
