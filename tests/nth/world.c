// SPDX-License-Identifier: Apache-2.0
#include <stdio.h>

#include "nth.h"
#include "world.h"

#define PAGE		FKV_EXTENT_UNIT
#define RING_PAGES	1024u
#define OUTS		1024u		/* that a step has at most */

static void outputs(struct world *w);

/* ---- steps ---- */

/* A core that cannot append an output ends the process: that is its rule. */
static void room(struct fkv_out *out)
{
	fkv_assert(!fkv_out_reserve(out, OUTS));
}

static void owner_step(struct world *w, const struct fkv_in *in)
{
	room(&w->out);
	nth_arm();
	fkv_owner_step(w->owner, w->now, in, &w->out);
	nth_disarm();
	fkv_owner_check(w->owner);
	if (w->ring)
		fkv_ring_check(w->ring);
}

static void deliver(struct world *w)
{
	for (size_t i = 0; i < w->mout.n; i++) {
		struct fkv_in in = {
			.type = FKV_IN_MSG,
			.msg = &w->mout.cmds[i].msg,
		};

		owner_step(w, &in);
	}
	w->mout.n = 0;
}

static void master_step(struct world *w, struct fkv_msg *msg)
{
	room(&w->mout);
	nth_arm();
	fkv_master_step(w->master, w->now, msg, &w->mout);
	nth_disarm();
	fkv_master_check(w->master);
	deliver(w);
}

void world_feed(struct world *w, const struct fkv_in *in)
{
	owner_step(w, in);
	outputs(w);
}

/* ---- disks, threads, index ---- */

static void later(struct world *w, struct fkv_in in)
{
	fkv_assert(w->nr_done < FKV_ARRAY_SIZE(w->done));
	w->done[w->nr_done++] = in;
}

static uint64_t pages_of(uint64_t len)
{
	return (len + PAGE - 1) / PAGE;
}

/* A checksum of one that has only one tag in it. */
static uint64_t sum(const struct world *w, const struct fkv_cmd *cmd)
{
	uint64_t h = cmd->seed;

	for (uint64_t i = 0; i < pages_of(cmd->len); i++)
		h = h * 31 + w->segment[cmd->offset / PAGE + i];
	return h;
}

/* Pages that are done of @n; what is said of it. */
static uint64_t fault(struct world *w, const struct fkv_cmd *cmd, uint64_t n,
		      int *ret_res)
{
	bool fails;

	*ret_res = 0;
	nth_arm();
	fails = nth_io_fails();
	nth_disarm();
	if (!fails)
		return n;
	if (w->cfg.fault == WORLD_SHORT && cmd->type != FKV_CMD_COPY)
		return n / 2;
	if (w->cfg.fault == WORLD_ENOSPC && cmd->type == FKV_CMD_WRITE)
		*ret_res = -ENOSPC;
	else if (w->cfg.fault == WORLD_ENOMEM || cmd->type == FKV_CMD_COPY)
		*ret_res = -ENOMEM;
	else
		*ret_res = -EIO;
	return n / 2;
}

static void io(struct world *w, struct fkv_cmd *cmd)
{
	uint64_t *disk = w->disk[cmd->io.shard];
	uint64_t at = (cmd->io.vpos / PAGE + 1) % RING_PAGES;
	uint64_t mem = cmd->offset / PAGE;
	int res;
	uint64_t n = fault(w, cmd, pages_of(cmd->len), &res);

	for (uint64_t i = 0; i < n; i++) {
		if (cmd->type == FKV_CMD_WRITE)
			disk[at + i] = w->segment[mem + i];
		else
			w->segment[mem + i] = disk[at + i];
	}
	fkv_key_put(cmd->key);
	later(w, (struct fkv_in){
		.type = FKV_IN_IO_DONE,
		.token = cmd->token,
		.res = res,
		.sum = cmd->type == FKV_CMD_READ ? sum(w, cmd) : 0,
	});
}

static void copy(struct world *w, const struct fkv_cmd *cmd)
{
	int res;
	uint64_t n = fault(w, cmd, pages_of(cmd->len), &res);

	for (uint64_t i = 0; i < n; i++)
		w->segment[cmd->offset / PAGE + i] =
			w->arena[cmd->from / PAGE + i];
	later(w, (struct fkv_in){
		.type = FKV_IN_COPIED,
		.token = cmd->token,
		.res = res,
	});
}

static bool hide(struct world *w, const struct fkv_entry *e)
{
	for (size_t i = 0; i < w->nr_shown; i++) {
		if (w->shown[i] != e)
			continue;
		w->shown[i] = w->shown[--w->nr_shown];
		return true;
	}
	return false;
}

static void retire(struct world *w, struct fkv_entry *e)
{
	hide(w, e);
	later(w, (struct fkv_in){ .type = FKV_IN_SCANNED, .entry = e });
}

static size_t evict(struct world *w, size_t at)
{
	struct fkv_entry *e[FKV_EVICT_BATCH];
	size_t n = 0;

	while (at + n < w->out.n && n < FKV_EVICT_BATCH &&
	       w->out.cmds[at + n].type == FKV_CMD_EVICT) {
		e[n] = w->out.cmds[at + n].entry;
		n++;
	}
	for (size_t i = 0; i < n; i++) {
		struct fkv_in in = {
			.type = FKV_IN_EVICTED,
			.entry = e[i],
			.res = FKV_EVICT_OK,
		};

		hide(w, e[i]);
		owner_step(w, &in);
	}
	return n;
}

/* ---- answers ---- */

static void answer(struct world *w, struct fkv_call *call)
{
	static uint8_t body[FLUXONKV_FRAME_MAX];

	if (call->client == w->client && call->id) {
		w->answered = true;
		w->status = call->status;
		w->arg = call->ret_arg;
		w->nr_listed = call->listing ? call->listing->n : 0;
		for (uint32_t i = 0; i < call->nr && i < WORLD_BATCH; i++)
			w->res[i] = call->items[i].res;
	}
	fkv_assert(fkv_reply_size(call) <= sizeof(body));
	fkv_reply_encode(call, body);
	fkv_call_free(call);
}

static void output(struct world *w, struct fkv_cmd cmd)
{
	switch (cmd.type) {
	case FKV_CMD_SEND:
		master_step(w, &cmd.msg);
		break;
	case FKV_CMD_REPLY:
		answer(w, cmd.call);
		break;
	case FKV_CMD_PUBLISH:
		fkv_assert(w->nr_shown < FKV_ARRAY_SIZE(w->shown));
		w->shown[w->nr_shown++] = cmd.entry;
		break;
	case FKV_CMD_RETIRE:
		retire(w, cmd.entry);
		break;
	case FKV_CMD_READ:
	case FKV_CMD_WRITE:
		io(w, &cmd);
		break;
	case FKV_CMD_HASH:
		later(w, (struct fkv_in){ .type = FKV_IN_HASHED,
					  .token = cmd.token,
					  .sum = sum(w, &cmd) });
		break;
	case FKV_CMD_COPY:
		copy(w, &cmd);
		break;
	case FKV_CMD_SHUT:
		/* as by the socket: its client may write until it ends */
		break;
	default:
		fkv_assert(!"not of this scenario, or handled before");
	}
}

static void outputs(struct world *w)
{
	for (size_t i = 0; i < w->out.n;) {
		if (w->out.cmds[i].type == FKV_CMD_EVICT)
			i += evict(w, i);
		else
			output(w, w->out.cmds[i++]);
	}
	w->out.n = 0;
}

static void all_done(struct world *w)
{
	while (w->nr_done) {
		struct fkv_in in = w->done[0];

		w->nr_done--;
		memmove(&w->done[0], &w->done[1],
			w->nr_done * sizeof(w->done[0]));
		world_feed(w, &in);
	}
}

static void tick(struct world *w)
{
	if (fkv_master_deadline(w->master) <= w->now) {
		room(&w->mout);
		nth_arm();
		fkv_master_tick(w->master, w->now, &w->mout);
		nth_disarm();
		deliver(w);
		outputs(w);
	}
	if (fkv_owner_deadline(w->owner) <= w->now)
		world_feed(w, &(struct fkv_in){ .type = FKV_IN_TICK });
}

static bool wait(struct world *w, uint64_t until)
{
	uint64_t next;

	all_done(w);
	next = fkv_min_u64(fkv_master_deadline(w->master),
			   fkv_owner_deadline(w->owner));
	if (next > until)
		return false;
	w->now = fkv_max_u64(w->now, next);
	tick(w);
	return true;
}

void world_settle(struct world *w, uint64_t ns)
{
	uint64_t until = w->now + ns;

	for (int i = 0; i < 10000 && wait(w, until); i++)
		;
	w->now = until;
}

void world_client(struct world *w, uint64_t client)
{
	uint64_t before = nth_failures();

	world_feed(w, &(struct fkv_in){
		.type = FKV_IN_CLIENT,
		.client = client,
		.uid = 1000,
		.n = w->cfg.arena_bytes,
	});
	w->unknown = nth_failures() > before;
}

void world_gone(struct world *w, uint64_t client)
{
	world_feed(w, &(struct fkv_in){
		.type = FKV_IN_CLIENT_GONE,
		.client = client,
	});
}

/* ---- birth ---- */

static struct fkv_ring *ring(int *ret_err)
{
	struct fkv_ring_config rc = { .nr_devices = 2 };
	struct fkv_ring *r = NULL;

	for (uint32_t d = 0; d < rc.nr_devices; d++)
		rc.device[d] = (struct fkv_ring_device_config){
			.nr_shards = 1,
			.ring_size = RING_PAGES * PAGE,
			.unit = PAGE,
		};
	*ret_err = fkv_ring_create(&rc, &r);
	return r;
}

static int create(struct world *w)
{
	struct fkv_owner_config oc = { .ring_devices = 2, .ring_shards = 2 };
	struct fkv_master_config mc = {
		.segment_bytes = FKV_SEGMENT_MIN,
		.epoch = 3,
		.shards = 2,
	};
	int err = 0;

	if (w->cfg.ssd)
		oc.ring = w->ring = ring(&err);
	else
		oc.ring_devices = oc.ring_shards = 0;
	if (!err)
		err = fkv_master_create(&mc, &w->master);
	if (!err)
		err = fkv_owner_create(&oc, &w->owner);
	return err;
}

static void destroy(struct world *w)
{
	if (w->owner)
		fkv_owner_free(w->owner);
	if (w->master)
		fkv_master_free(w->master);
	if (w->ring)
		fkv_ring_free(w->ring);
	fkv_out_done(&w->out);
	fkv_out_done(&w->mout);
	fkv_free(w);
}

struct world *world_open(const struct world_config *cfg)
{
	struct world *w = fkv_zalloc(sizeof(*w));
	int err;

	fkv_assert(w);
	w->cfg = *cfg;
	w->now = 1000 * FKV_SEC;
	w->client = WORLD_CLIENT;
	nth_arm();
	err = create(w);
	nth_disarm();
	if (err) {
		nth_check(err == -ENOMEM && nth_failures(),
			  "the cores are not made: %d", err);
		destroy(w);
		return NULL;
	}
	if (cfg->ssd) {
		struct fkv_msg on = { .type = FKV_MSG_SSD_STATE, .n = 2 };

		master_step(w, &on);
	}
	world_client(w, w->client);
	return w;
}

/* ---- death ---- */

static void balance(struct world *w)
{
	struct fkv_master_stats m;
	struct fkv_owner_stats o;

	fkv_master_get_stats(w->master, &m);
	fkv_owner_get_stats(w->owner, &o);
	nth_check(!m.used && m.free == m.capacity,
		  "%lu bytes of the segment are used by nobody", m.used);
	nth_check(!m.keys && !m.ops && !m.extents && !m.waiting,
		  "master: %lu keys, %lu ops, %lu extents, %lu wait", m.keys,
		  m.ops, m.extents, m.waiting);
	nth_check(!m.bad_messages, "%lu messages made no sense",
		  m.bad_messages);
	nth_check(!o.clients && !o.holders && !o.pinned_bytes && !o.open_puts,
		  "owner: %lu clients, %lu holders, %lu bytes, %lu puts",
		  o.clients, o.holders, o.pinned_bytes, o.open_puts);
	nth_check(!o.calls && !o.fetches && !o.pending_ops && !o.entries &&
		  !o.entries_retired, "owner: %lu calls, %lu fetches, "
		  "%lu ops, %lu+%lu entries", o.calls, o.fetches,
		  o.pending_ops, o.entries, o.entries_retired);
	nth_check(!o.persist_queued && !o.persist_active &&
		  !o.persist_committing, "owner: a persist never ends");
}

void world_close(struct world *w)
{
	struct world_key *k;

	nth_heal();
	world_settle(w, 100 * FKV_SEC);
	world_gone(w, w->client);
	w->nr_hold = 0;
	w->client++;
	world_client(w, w->client);
	k = world_key(w, "after%u", 0);
	world_put(w, k, 2);
	nth_check(k->nr_may == 1 && k->may[0], "a put fails afterwards");
	for (size_t i = 0; i < w->nr_keys; i++) {
		k = &w->key[i];
		world_get(w, &k, 1, false);
		world_delete(w, k);
		world_get(w, &k, 1, false);
		nth_check(k->nr_may == 1 && !k->may[0],
			  "%s is there after its end", k->name);
	}
	world_count(w, "");
	nth_check(!w->arg, "count says %lu of no keys", w->arg);
	world_gone(w, w->client);
	world_settle(w, 200 * FKV_SEC);
	balance(w);
	destroy(w);
}
