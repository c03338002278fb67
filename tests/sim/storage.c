// SPDX-License-Identifier: Apache-2.0
/*
 * storage.c - SSD, hash threads, copy threads
 *
 * Each request moves its pages in a few groups at random times between submit
 * and completion; requests overtake each other. Faults: errors after part of
 * the pages moved, seconds of delay, pages that differ on disk.
 */
#include "sim.h"

static uint64_t mix(uint64_t h, uint64_t v)
{
	h = (h ^ v) * 0xff51afd7ed558ccdULL;
	return h ^ (h >> 33);
}

static uint64_t sum(struct sim *s, const struct sim_io *io)
{
	uint64_t h = io->seed;

	for (uint32_t i = 0; i < io->pages; i++) {
		struct sim_word w = s->page[io->offset / SIM_PAGE + i].w;

		h = mix(mix(mix(h, w.tag), w.key), w.page);
	}
	return h;
}

static uint64_t ring_bytes(const struct sim *s)
{
	return s->cfg.ring_pages * SIM_PAGE;
}

/* index of a page of the shard file */
static uint64_t disk_page(const struct sim *s, uint64_t vpos)
{
	return vpos % ring_bytes(s) / SIM_PAGE;
}

/*
 * What a read of this version returns is not used any more: it was retired,
 * dropped, or its device went off. Only then may its pages be overwritten.
 */
void sim_io_void(struct sim *s, uint32_t key, uint64_t from, uint64_t to)
{
	for (size_t i = 0; i < SIM_IOS_MAX; i++) {
		struct sim_io *io = &s->io[i];

		if (io->used && io->type == SIM_IO_READ &&
		    (key == SIM_HEADER || sim_op(s, io->token)->key == key) &&
		    io->put_id >= from && io->put_id <= to)
			io->unused = true;
	}
}

static bool overlap(uint64_t a, uint64_t an, uint64_t b, uint64_t bn)
{
	return a < b + bn && b < a + an;
}

/* (7) No other write, no read that matters, where @me writes. */
static void check_alone(struct sim *s, const struct sim_io *me, uint64_t vpos,
			uint64_t len)
{
	uint64_t at = vpos % ring_bytes(s);

	sim_check(s, at + len <= ring_bytes(s), "(7) write behind the ring");
	for (size_t i = 0; i < SIM_IOS_MAX; i++) {
		const struct sim_io *io = &s->io[i];

		if (!io->used || io == me || io->shard != me->shard ||
		    io->type > SIM_IO_WRITE ||
		    !overlap(at, len, io->vpos % ring_bytes(s),
			     io->entry_len))
			continue;
		sim_check(s, io->type == SIM_IO_READ,
			  "(7) two writes meet at %lu of shard %u", at,
			  me->shard);
		sim_check(s, io->unused, "(7) a write at %lu of "
			  "shard %u meets a read of a live entry", at,
			  me->shard);
	}
}

static void disk_write(struct sim *s, struct sim_io *io, uint64_t vpos,
		       struct sim_word w)
{
	uint64_t i = disk_page(s, vpos);

	check_alone(s, io, vpos, SIM_PAGE);
	s->disk[io->shard].page[i] = w;
	s->disk[io->shard].flipped[i] = false;
}

static void move_page(struct sim *s, struct sim_io *io, uint32_t i)
{
	uint64_t memory = io->offset + i * SIM_PAGE;
	uint64_t vpos = io->vpos + s->cfg.unit + i * SIM_PAGE;

	switch (io->type) {
	case SIM_IO_READ:
		sim_page_write(s, "SSD read", io->token, memory,
			       s->disk[io->shard].page[disk_page(s, vpos)]);
		break;
	case SIM_IO_WRITE:
		disk_write(s, io, vpos, s->page[memory / SIM_PAGE].w);
		break;
	case SIM_IO_COPY:
		sim_page_write(s, "copy", io->token, memory,
			       io->arena->page[io->from / SIM_PAGE + i]);
		break;
	case SIM_IO_HASH:
		break;
	}
}

static void move(struct sim *s, struct sim_io *io, bool all)
{
	for (uint32_t i = 0; i < io->pages; i++) {
		if (io->moved[i] || (!all && sim_random(s, 2)))
			continue;
		io->moved[i] = true;
		move_page(s, io, i);
	}
}

static struct sim_io *io_new(struct sim *s, uint64_t *ret_slot)
{
	for (size_t i = 0; i < SIM_IOS_MAX; i++) {
		if (s->io[i].used)
			continue;
		memset(&s->io[i], 0, sizeof(s->io[i]));
		s->io[i].used = true;
		s->io[i].use = ++s->io_uses;
		*ret_slot = i;
		return &s->io[i];
	}
	sim_fail(s, "more than %u requests in flight", SIM_IOS_MAX);
}

/* (7), (8): where it goes, and what it is. */
static void check_write(struct sim *s, struct sim_io *io,
			const struct fkv_key *key)
{
	sim_check(s, io->entry_len >= s->cfg.unit + io->pages * SIM_PAGE,
		  "(7) an entry is smaller than its value");
	check_alone(s, io, io->vpos, io->entry_len);
	if (io->skip_len) {
		check_alone(s, io, io->skip_vpos, SIM_PAGE);
		disk_write(s, io, io->skip_vpos, (struct sim_word){
			   .key = SIM_HEADER });
	}
	sim_content(s, "persist", sim_key_of(key), io->put_id, io->offset,
		    io->len);
	disk_write(s, io, io->vpos, (struct sim_word){ .tag = io->put_id,
		   .key = SIM_HEADER });
}

static void faults(struct sim *s, struct sim_io *io)
{
	unsigned int p = io->type == SIM_IO_READ ? s->cfg.p_read :
			 io->type == SIM_IO_WRITE ? s->cfg.p_write : 0;

	if (s->ending || !sim_chance(s, p))
		return;
	s->n.io_errors++;
	io->res = io->type == SIM_IO_WRITE && sim_chance(s, 200) ? -ENOSPC :
		-EIO;
}

static void schedule(struct sim *s, struct sim_io *io, uint64_t slot)
{
	uint64_t max = 2 * FKV_MS, took;

	if (io->type <= SIM_IO_WRITE && !s->ending &&
	    sim_chance(s, s->cfg.p_slow))
		max = 12 * FKV_SEC;
	took = sim_delay(s, max);
	io->chunks = 1 + (uint32_t)sim_random(s, 4);
	for (uint32_t i = 1; i < io->chunks; i++)
		sim_at(s, s->now_ns + sim_random(s, took + 1), SIM_IO, slot,
		       io->use);
	sim_at(s, s->now_ns + took, SIM_IO, slot, io->use);
}

static void arena_get(struct sim *s, struct sim_io *io, uint64_t client)
{
	struct sim_client *c = sim_client(s, client);

	if (!c) {
		io->res = -ECANCELED;
		io->pages = 0;
		return;
	}
	io->arena = c->arena;
	io->arena->refs++;
}

void sim_io_start(struct sim *s, struct fkv_cmd *cmd)
{
	static const enum sim_io_type type[] = {
		[FKV_CMD_READ] = SIM_IO_READ, [FKV_CMD_WRITE] = SIM_IO_WRITE,
		[FKV_CMD_HASH] = SIM_IO_HASH, [FKV_CMD_COPY] = SIM_IO_COPY,
	};
	uint64_t slot;
	struct sim_io *io = io_new(s, &slot);

	io->type = type[cmd->type];
	io->token = cmd->token;
	io->offset = cmd->offset;
	io->len = cmd->len;
	io->from = cmd->from;
	io->pages = sim_pages(cmd->len);
	io->seed = cmd->seed;
	io->put_id = cmd->io.put_id;
	io->shard = cmd->io.shard;
	io->vpos = cmd->io.vpos;
	io->entry_len = cmd->io.entry_len;
	io->skip_vpos = cmd->io.skip_vpos;
	io->skip_len = cmd->io.skip_len;
	io->moved = fkv_zalloc(io->pages + 1);
	if (io->type == SIM_IO_COPY)
		arena_get(s, io, cmd->client);
	if (io->type == SIM_IO_WRITE) {
		check_write(s, io, cmd->key);
		fkv_key_put(cmd->key);
	}
	if (io->type == SIM_IO_WRITE || io->type == SIM_IO_HASH)
		sim_readers(s, io->offset, io->len, 1);
	s->n.reads += io->type == SIM_IO_READ;
	s->n.writes += io->type == SIM_IO_WRITE;
	faults(s, io);
	schedule(s, io, slot);
}

static void complete(struct sim *s, struct sim_io *io)
{
	static const enum fkv_in_type type[] = {
		[SIM_IO_READ] = FKV_IN_IO_DONE,
		[SIM_IO_WRITE] = FKV_IN_IO_DONE,
		[SIM_IO_HASH] = FKV_IN_HASHED,
		[SIM_IO_COPY] = FKV_IN_COPIED,
	};
	struct fkv_in in = {
		.type = type[io->type],
		.token = io->token,
		.res = io->res,
	};

	/* what failed did only part of its work */
	move(s, io, !io->res);
	if (io->type != SIM_IO_COPY)
		in.sum = sum(s, io);
	if (io->type == SIM_IO_WRITE || io->type == SIM_IO_HASH)
		sim_readers(s, io->offset, io->len, -1);
	sim_arena_put(io->arena);
	fkv_free(io->moved);
	io->moved = NULL;
	io->used = false;
	sim_feed(s, &in);
}

void sim_io_event(struct sim *s, const struct sim_event *ev)
{
	struct sim_io *io = &s->io[ev->a];

	if (!io->used || io->use != ev->b)
		return;
	if (--io->chunks)
		move(s, io, false);
	else
		complete(s, io);
}

bool sim_io_reads_into(const struct sim *s, uint64_t token)
{
	for (size_t i = 0; i < SIM_IOS_MAX; i++)
		if (s->io[i].used && s->io[i].token == token &&
		    (s->io[i].type == SIM_IO_READ ||
		     s->io[i].type == SIM_IO_COPY))
			return true;
	return false;
}

void sim_flip(struct sim *s)
{
	uint32_t shard, i;

	if (!s->cfg.devices)
		return;
	shard = (uint32_t)sim_random(s, s->cfg.devices * s->cfg.shards);
	i = (uint32_t)sim_random(s, s->cfg.ring_pages);
	s->disk[shard].page[i].tag ^= 1ULL << 62;
	s->disk[shard].flipped[i] = true;
	s->n.flips++;
}

void sim_io_done_all(struct sim *s)
{
	for (size_t i = 0; i < SIM_IOS_MAX; i++) {
		if (!s->io[i].used)
			continue;
		sim_arena_put(s->io[i].arena);
		fkv_free(s->io[i].moved);
	}
}
