// SPDX-License-Identifier: Apache-2.0
/*
 * storage.c - SSD, hash threads, copy threads
 *
 * Each request moves its pages in a few groups at random times between submit
 * and completion; requests overtake each other. A fault of a request is drawn
 * when it starts: it fails with nothing, the first part or any part moved, is
 * slow, or ends well though pages did not get where they should be.
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
		struct sim_word w = s->l->page[io->offset / SIM_PAGE + i].w;

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
		    io->life == s->life &&
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
		    io->type > SIM_IO_WRITE || io->life != me->life ||
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
	bool late = io->life != s->life;

	/* what a dead process had given to the disk knows no ring of today's */
	s->n.path[SIM_PATH_LATE_WRITE] += late;
	if (!late)
		check_alone(s, io, vpos, SIM_PAGE);
	s->disk[io->shard].page[i] = w;
	s->disk[io->shard].spoiled[i] = late;
}

/* It says that it wrote page @i: there, or nowhere, or somewhere else. */
static void disk_write_faulty(struct sim *s, struct sim_io *io, uint64_t vpos,
			      struct sim_word w)
{
	struct sim_disk *d = &s->disk[io->shard];

	if (io->life == s->life)
		check_alone(s, io, vpos, SIM_PAGE);
	d->spoiled[disk_page(s, vpos)] = true;
	if (io->fault == SIM_FAULT_WRITE_LOST)
		return;
	d = &s->disk[sim_random(s, s->cfg.devices * s->cfg.shards)];
	vpos = sim_random(s, s->cfg.ring_pages);
	d->page[vpos] = w;
	d->spoiled[vpos] = true;
}

static void disk_read(struct sim *s, struct sim_io *io, uint64_t memory,
		      uint64_t vpos)
{
	struct sim_disk *d = &s->disk[io->shard];
	struct sim_word w;

	if (io->fault == SIM_FAULT_READ_MISDIRECT && sim_chance(s, 500))
		vpos = sim_random(s, s->cfg.ring_pages) * SIM_PAGE;
	w = d->page[disk_page(s, vpos)];
	if (io->fault == SIM_FAULT_READ_FLIP && sim_chance(s, 500))
		w.tag ^= 1ULL << sim_random(s, 40);
	io->spoiled |= d->spoiled[disk_page(s, vpos)] ||
		io->fault == SIM_FAULT_READ_MISDIRECT ||
		io->fault == SIM_FAULT_READ_FLIP;
	sim_page_write(s, "SSD read", io->token, memory, w);
}

static void move_page(struct sim *s, struct sim_io *io, uint32_t i)
{
	uint64_t memory = io->offset + i * SIM_PAGE;
	uint64_t vpos = io->vpos + s->cfg.unit + i * SIM_PAGE;

	switch (io->type) {
	case SIM_IO_READ:
		disk_read(s, io, memory, vpos);
		break;
	case SIM_IO_WRITE:
		if ((io->fault == SIM_FAULT_WRITE_LOST ||
		     io->fault == SIM_FAULT_WRITE_MISDIRECT) &&
		    sim_chance(s, 500))
			disk_write_faulty(s, io, vpos,
					  s->l->page[memory / SIM_PAGE].w);
		else
			disk_write(s, io, vpos,
				   s->l->page[memory / SIM_PAGE].w);
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
	for (uint32_t i = 0; i < io->pages && i < io->most; i++) {
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

static const enum sim_fault read_faults[] = {
	SIM_FAULT_READ_FAIL, SIM_FAULT_READ_SHORT, SIM_FAULT_READ_TORN,
	SIM_FAULT_READ_FLIP, SIM_FAULT_READ_MISDIRECT,
};

static const enum sim_fault write_faults[] = {
	SIM_FAULT_WRITE_FAIL, SIM_FAULT_WRITE_SHORT, SIM_FAULT_WRITE_TORN,
	SIM_FAULT_WRITE_LOST, SIM_FAULT_WRITE_MISDIRECT,
	SIM_FAULT_WRITE_NOSPACE,
};

static const enum sim_fault copy_faults[] = {
	SIM_FAULT_COPY_FAIL, SIM_FAULT_COPY_SHORT,
};

static void draw_fault(struct sim *s, struct sim_io *io,
		       const enum sim_fault *list, size_t n)
{
	io->fault = SIM_FAULTS_NR;
	for (size_t i = 0; i < n && io->fault == SIM_FAULTS_NR; i++)
		if (sim_fault(s, list[i]))
			io->fault = list[i];
}

static uint32_t device_of(const struct sim *s, uint32_t shard)
{
	return shard / s->cfg.shards;
}

/* A device that is not there: EIO mostly, or what says that it left. */
static void io_gone(struct sim *s, struct sim_io *io)
{
	io->res = sim_chance(s, 700) ? -EIO : -ENXIO;
	io->most = 0;
}

static void faults(struct sim *s, struct sim_io *io)
{
	io->most = io->pages;
	io->fault = SIM_FAULTS_NR;
	if (io->type == SIM_IO_READ)
		draw_fault(s, io, read_faults, FKV_ARRAY_SIZE(read_faults));
	else if (io->type == SIM_IO_WRITE)
		draw_fault(s, io, write_faults, FKV_ARRAY_SIZE(write_faults));
	else if (io->type == SIM_IO_COPY)
		draw_fault(s, io, copy_faults, FKV_ARRAY_SIZE(copy_faults));
	switch (io->fault) {
	case SIM_FAULT_READ_FAIL:
	case SIM_FAULT_WRITE_FAIL:
		io->most = 0;
		io->res = -EIO;
		break;
	case SIM_FAULT_WRITE_NOSPACE:
	case SIM_FAULT_READ_SHORT:
	case SIM_FAULT_WRITE_SHORT:
		io->most = (uint32_t)sim_random(s, io->pages);
		io->res = io->fault == SIM_FAULT_WRITE_NOSPACE ? -ENOSPC :
			-EIO;
		break;
	/* no memory for the work; its pages cannot be read */
	case SIM_FAULT_COPY_FAIL:
	case SIM_FAULT_COPY_SHORT:
		io->most = io->fault == SIM_FAULT_COPY_FAIL ? 0 :
			(uint32_t)sim_random(s, io->pages);
		io->res = io->fault == SIM_FAULT_COPY_FAIL ? -ENOMEM : -EFAULT;
		break;
	case SIM_FAULT_READ_TORN:
	case SIM_FAULT_WRITE_TORN:
		io->res = -EIO;
		break;
	default:
		break;
	}
	if (io->type <= SIM_IO_WRITE && s->gone[device_of(s, io->shard)])
		io_gone(s, io);
}

void sim_io_device_gone(struct sim *s, uint32_t device)
{
	for (size_t i = 0; i < SIM_IOS_MAX; i++)
		if (s->io[i].used && s->io[i].type <= SIM_IO_WRITE &&
		    device_of(s, s->io[i].shard) == device)
			io_gone(s, &s->io[i]);
}

void sim_io_linger(struct sim *s)
{
	for (size_t i = 0; i < SIM_IOS_MAX; i++) {
		struct sim_io *io = &s->io[i];
		uint64_t until = s->restart_ns + sim_delay(s, 20 * FKV_SEC);

		if (!io->used || io->life != s->life || sim_chance(s, 300))
			continue;
		io->chunks++;
		sim_at(s, until, SIM_IO, i, io->use);
		s->io_until_ns = fkv_max_u64(s->io_until_ns, until);
	}
}

static uint64_t io_time(struct sim *s, const struct sim_io *io)
{
	uint64_t max = 2 * FKV_MS;

	if (io->type == SIM_IO_READ && sim_fault(s, SIM_FAULT_READ_SLOW))
		max = 14 * FKV_SEC;
	if (io->type == SIM_IO_WRITE && sim_fault(s, SIM_FAULT_WRITE_SLOW))
		max = 40 * FKV_SEC;
	if (io->type == SIM_IO_COPY && sim_fault(s, SIM_FAULT_COPY_SLOW))
		max = 4 * FKV_SEC;
	return sim_delay(s, max);
}

/* What an earlier life's op of that number does ends at the worst moment. */
static void meet(struct sim *s, uint64_t token, uint64_t within_ns)
{
	for (size_t i = 0; s->life && i < SIM_IOS_MAX; i++) {
		struct sim_io *io = &s->io[i];

		if (!io->used || io->life == s->life || io->token != token)
			continue;
		io->chunks = 1;
		sim_at(s, s->now_ns + sim_random(s, within_ns + 1), SIM_IO, i,
		       io->use);
	}
}

static void schedule(struct sim *s, struct sim_io *io, uint64_t slot)
{
	uint64_t took = io_time(s, io);

	meet(s, io->token, took);
	io->began_ns = s->now_ns;
	s->io_until_ns = fkv_max_u64(s->io_until_ns, s->now_ns + took);
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
	io->life = s->life;
	io->token = cmd->token;
	io->offset = cmd->offset;
	io->len = cmd->len;
	io->from = cmd->from;
	io->pages = sim_pages(cmd->len);
	io->seed = cmd->seed;
	io->put_id = cmd->io.put_id;
	io->shard = cmd->io.shard;
	io->seq = cmd->io.seq;
	io->vpos = cmd->io.vpos;
	io->entry_len = cmd->io.entry_len;
	io->skip_vpos = cmd->io.skip_vpos;
	io->skip_len = cmd->io.skip_len;
	io->moved = fkv_zalloc(io->pages + 1);
	if (io->type == SIM_IO_WRITE) {
		check_write(s, io, cmd->key);
		sim_books_written(s, io, sim_key_of(cmd->key));
		fkv_key_put(cmd->key);
	}
	if (io->type == SIM_IO_WRITE || io->type == SIM_IO_HASH)
		sim_readers(s, io->offset, io->len, 1);
	s->n.reads += io->type == SIM_IO_READ;
	s->n.writes += io->type == SIM_IO_WRITE;
	faults(s, io);
	if (io->type == SIM_IO_COPY)
		arena_get(s, io, cmd->client);
	schedule(s, io, slot);
}

/* (8) What was written and not spoiled has the sum that it was written with. */
static void read_ends(struct sim *s, const struct sim_io *io,
		      const struct fkv_in *in)
{
	uint64_t *path = s->n.path;
	struct fkv_owner_stats a, b;
	bool clean = !io->spoiled && !io->unused;

	path[SIM_PATH_READ_UNUSED] += io->unused;
	path[SIM_PATH_READ_LATE] += s->now_ns > io->began_ns + FKV_FETCH_MAX;
	fkv_owner_get_stats(s->owner, &a);
	sim_feed(s, in);
	fkv_owner_get_stats(s->owner, &b);
	sim_check(s, !clean || a.sum_errors == b.sum_errors,
		  "(8) a good copy of %lx fails its checksum", io->put_id);
}

/*
 * Its issuer is no more. The next one has tokens of its own, and must see
 * that this is none of them.
 */
static void done_late(struct sim *s, const struct sim_io *io,
		      struct fkv_in *in)
{
	if (s->down[SIM_OWNER])
		return;
	in->token |= (uint64_t)(s->life - io->life) << 32;
	s->n.path[SIM_PATH_LATE_DONE]++;
	s->late++;
	sim_feed(s, in);
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

	if (io->type == SIM_IO_COPY)
		sim_op(s, io->token)->copied = io->res;
	/* what failed did only part of its work */
	move(s, io, !io->res || io->most < io->pages);
	if (io->type != SIM_IO_COPY)
		in.sum = sum(s, io);
	if (io->type == SIM_IO_WRITE || io->type == SIM_IO_HASH)
		sim_readers(s, io->offset, io->len, -1);
	sim_arena_put(io->arena);
	fkv_free(io->moved);
	io->moved = NULL;
	io->used = false;
	sim_view(s, s->life);
	if (io->life != s->life || s->down[SIM_OWNER])
		done_late(s, io, &in);
	else if (io->type == SIM_IO_READ)
		read_ends(s, io, &in);
	else
		sim_feed(s, &in);
}

void sim_io_event(struct sim *s, const struct sim_event *ev)
{
	struct sim_io *io = &s->io[ev->a];

	if (!io->used || io->use != ev->b)
		return;
	sim_view(s, io->life);
	if (--io->chunks)
		move(s, io, false);
	else
		complete(s, io);
	sim_view(s, s->life);
}

bool sim_io_reads_into(const struct sim *s, uint64_t token)
{
	for (size_t i = 0; i < SIM_IOS_MAX; i++)
		if (s->io[i].used && s->io[i].token == token &&
		    s->io[i].life == s->life &&
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
	s->disk[shard].spoiled[i] = true;
}

bool sim_io_copies(const struct sim *s, uint64_t token)
{
	for (size_t i = 0; i < SIM_IOS_MAX; i++)
		if (s->io[i].used && s->io[i].token == token &&
		    s->io[i].life == s->life && s->io[i].type == SIM_IO_COPY)
			return true;
	return false;
}

static const struct sim_persist *persist_of(const struct sim *s,
					    uint32_t shard, uint64_t seq)
{
	for (size_t i = s->nr_persists; i--;)
		if (s->persist[i].shard == shard && s->persist[i].seq == seq)
			return &s->persist[i];
	return NULL;
}

/* (8) What is committed is on disk, but for what a fault spoiled. */
void sim_io_committed(struct sim *s, const struct fkv_msg *msg)
{
	const struct sim_persist *p = persist_of(s, msg->shard, msg->seq);
	struct sim_disk *d = &s->disk[msg->shard];
	struct sim_version *v;

	sim_check(s, p && p->put_id == msg->put_id &&
		  p->key == sim_key_of(msg->key),
		  "(8) a commit of %lx, which was not written", msg->put_id);
	v = sim_version(s, p->put_id);
	for (uint32_t i = 0; i < sim_pages(v->len); i++) {
		uint64_t at = disk_page(s, p->vpos + s->cfg.unit +
					i * SIM_PAGE);

		sim_check(s, d->spoiled[at] ||
			  (d->page[at].tag == v->tag && d->page[at].page == i),
			  "(8) a commit of %lx, but page %u is not on disk",
			  msg->put_id, i);
	}
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
