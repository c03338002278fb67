// SPDX-License-Identifier: Apache-2.0
#include <stdlib.h>

#include "base/base.h"
#include "base/clock.h"
#include "base/hash.h"
#include "core/ssd/ondisk.h"
#include "io/device_internal.h"

/* ---- requests ---- */

static bool range_valid(const struct fkv_device *d, uint64_t vpos,
			uint64_t len)
{
	uint64_t size = d->shards.ring_size;

	return vpos % d->shards.unit == 0 && len >= d->shards.unit &&
	       len % d->shards.unit == 0 && len <= size &&
	       vpos % size <= size - len;
}

bool fkv_device_request_valid(const struct fkv_device *d,
			      const struct fkv_io_request *io)
{
	if (io->shard >= d->shards.nr || !io->len || !io->memory ||
	    !range_valid(d, io->vpos, io->entry_len) ||
	    io->len > io->entry_len - d->shards.unit)
		return false;
	if (io->kind == FKV_IO_READ)
		return io->at % d->shards.unit == 0 &&
		       io->at <= io->entry_len - d->shards.unit - io->len;
	return io->key_len >= 1 && io->key_len <= FKV_KEY_MAX &&
	       (!io->skip_len || range_valid(d, io->skip_vpos, io->skip_len));
}

static void encode_headers(struct fkv_device *d,
			   struct fkv_device_request *rq)
{
	const struct fkv_io_request *io = &rq->io;
	struct fkv_entry_info info = {
		.type = FKV_ENTRY_SKIP,
		.incarnation = d->cfg.incarnation,
		.shard = io->shard,
		.vpos = io->skip_vpos,
		.entry_len = io->skip_len,
		.seq = io->seq,
	};

	memcpy(info.store_id, d->shards.store_id, sizeof(info.store_id));
	rq->headers = 1u << FKV_HEADER_ENTRY;
	if (io->skip_len) {
		rq->headers |= 1u << FKV_HEADER_SKIP;
		fkv_entry_encode(rq->blocks, &info);
	}
	info.type = FKV_ENTRY_VALUE;
	info.vpos = io->vpos;
	info.entry_len = io->entry_len;
	info.key_len = io->key_len;
	info.key = io->key;
	info.put_id = io->put_id;
	info.len = io->len;
	info.sum = io->sum;
	fkv_entry_encode(rq->blocks + d->shards.unit, &info);
}

static void begin_sums(struct fkv_device_request *rq)
{
	size_t n = fkv_sum_chunks(rq->io.len);

	rq->left = (uint32_t *)(rq->chunk + n);
	for (size_t i = 0; i < n; i++)
		rq->left[i] = (uint32_t)fkv_min_u64(FKV_SUM_CHUNK,
			rq->io.len - i * FKV_SUM_CHUNK);
}

void fkv_device_begin(struct fkv_device *d, struct fkv_device_request *rq)
{
	const struct fkv_shards *s = &d->shards;

	rq->started_ns = fkv_clock_ns();
	rq->offset = fkv_shards_offset(s, rq->io.vpos) + s->unit;
	if (rq->io.kind == FKV_IO_READ) {
		rq->offset += rq->io.at;
		rq->total = fkv_align_up(rq->io.len, s->alignment);
		begin_sums(rq);
		return;
	}
	/* the arbiter admits no more writes than there are blocks */
	fkv_assert(d->nr_blocks_free);
	rq->blocks = d->block_free[--d->nr_blocks_free];
	/* whole blocks: no read-modify-write below; no more than is used */
	rq->total = fkv_align_up(rq->io.len, s->unit);
	encode_headers(d, rq);
}

static void count(struct fkv_device *d, const struct fkv_device_request *rq)
{
	if (rq->res) {
		if (rq->res != -ECANCELED)
			fkv_device_count(&d->errors, 1);
	} else if (rq->io.kind == FKV_IO_READ) {
		fkv_device_count(&d->reads, 1);
		fkv_device_count(&d->read_bytes, rq->io.len);
	} else {
		fkv_device_count(&d->writes, 1);
		fkv_device_count(&d->write_bytes, rq->io.entry_len);
	}
}

void fkv_device_finish(struct fkv_device *d, struct fkv_device_request *rq)
{
	uint64_t now = fkv_clock_ns();
	uint64_t started = rq->started_ns ? rq->started_ns : now;
	struct fkv_io_result res = {
		.token = rq->io.token,
		.kind = rq->io.kind,
		.res = rq->res,
		.queue_ns = started - rq->submitted_ns,
		.io_ns = now - started,
	};

	fkv_assert(!rq->parts);
	if (!rq->res && rq->io.kind == FKV_IO_READ)
		res.sum = fkv_sum_chunks_final(rq->io.sum_seed, rq->chunk,
					       fkv_sum_chunks(rq->io.len));
	if (rq->blocks)
		d->block_free[d->nr_blocks_free++] = rq->blocks;
	if (rq->item.state != FKV_ARBITER_OUT)
		fkv_arbiter_done(&d->arbiter, &rq->item);
	if (rq->io.kind == FKV_IO_READ)
		res.sums = rq->chunk;
	count(d, rq);
	d->cfg.done(d->cfg.arg, &res);
	fkv_free(rq);
	d->live--;
}

static bool all_issued(const struct fkv_device_request *rq)
{
	return rq->res || (!rq->headers && rq->issued == rq->total);
}

/* An error ends issuing; what is out is waited for. */
static void part_over(struct fkv_device *d, struct fkv_device_part *part,
		      int res)
{
	struct fkv_device_request *rq = part->rq;

	free(part->bounce);
	part->bounce = NULL;
	STAILQ_INSERT_HEAD(&d->unused, part, link);
	rq->parts--;
	if (res && !rq->res)
		rq->res = res;
	if (!rq->parts && all_issued(rq))
		fkv_device_finish(d, rq);
}

/* ---- pieces ---- */

static uint64_t region_left(const struct fkv_device *d, const uint8_t *memory)
{
	const uint8_t *base = d->cfg.segment;

	if (!base || memory < base || memory >= base + d->cfg.segment_bytes)
		return UINT64_MAX;
	return FKV_ENGINE_REGION -
	       (uint64_t)(memory - base) % FKV_ENGINE_REGION;
}

/*
 * How long the next piece of payload is, and whether it needs a bounce: where
 * memory is not aligned for the device, or where an aligned transfer would
 * go past the extent or over the border of a registered region.
 */
static uint64_t cut(const struct fkv_device *d,
		    const struct fkv_device_request *rq, bool *ret_bounce)
{
	const uint8_t *memory = (uint8_t *)rq->io.memory + rq->issued;
	uint64_t align = d->shards.alignment;
	uint64_t most = rq->io.kind == FKV_IO_READ ? FKV_SUM_CHUNK :
			FKV_SQE_MAX;
	uint64_t n = fkv_min_u64(rq->total - rq->issued, most);
	uint64_t fits = fkv_extent_bytes(rq->io.len) - rq->issued;

	*ret_bounce = (uintptr_t)memory % d->shards.memory_alignment != 0;
	if (*ret_bounce)
		return n;
	fits = fkv_min_u64(fits, region_left(d, memory));
	if (n <= fits)
		return n;
	fits = fkv_align_down(fits, align);
	*ret_bounce = !fits;
	return fits ? fits : fkv_min_u64(n, align);
}

/* Payload bytes of a part, without padding. */
static uint64_t payload_of(const struct fkv_device_part *part)
{
	return fkv_min_u64(part->piece.len, part->rq->io.len - part->at);
}

static int bounce(struct fkv_device_part *part)
{
	struct fkv_piece *p = &part->piece;
	void *to;

	if (posix_memalign(&to, 64 * FKV_KIB, p->len))
		return -ENOMEM;
	part->bounce = to;
	if (p->write) {
		uint64_t n = payload_of(part);

		memcpy(to, p->memory, n);
		memset((uint8_t *)to + n, 0, p->len - n);
	}
	p->memory = to;
	return 0;
}

static void fill_header(struct fkv_device *d, struct fkv_device_part *part,
			enum fkv_header which)
{
	struct fkv_device_request *rq = part->rq;
	uint64_t vpos = which == FKV_HEADER_SKIP ? rq->io.skip_vpos :
			rq->io.vpos;

	part->header = true;
	part->piece.offset = fkv_shards_offset(&d->shards, vpos);
	part->piece.len = d->shards.unit;
	part->piece.memory = rq->blocks;
	if (which == FKV_HEADER_ENTRY)
		part->piece.memory += d->shards.unit;
}

static int fill_payload(struct fkv_device *d, struct fkv_device_part *part)
{
	struct fkv_device_request *rq = part->rq;
	bool needs_bounce;

	part->header = false;
	part->at = rq->issued;
	part->piece.len = cut(d, rq, &needs_bounce);
	part->piece.offset = rq->offset + rq->issued;
	part->piece.memory = (uint8_t *)rq->io.memory + rq->issued;
	return needs_bounce ? bounce(part) : 0;
}

static int fill(struct fkv_device *d, struct fkv_device_part *part)
{
	struct fkv_device_request *rq = part->rq;

	part->piece.file = (int)rq->io.shard;
	part->piece.write = rq->io.kind == FKV_IO_WRITE;
	if (!rq->headers)
		return fill_payload(d, part);
	fill_header(d, part, rq->headers & (1u << FKV_HEADER_SKIP) ?
		    FKV_HEADER_SKIP : FKV_HEADER_ENTRY);
	return 0;
}

/* No memory for a bounce: the request fails as if the device had. */
static void issue_failed(struct fkv_device *d, struct fkv_device_request *rq,
			 int err)
{
	if (!rq->res)
		rq->res = err;
	fkv_arbiter_end(&d->arbiter, &rq->item);
	if (!rq->parts)
		fkv_device_finish(d, rq);
}

bool fkv_device_issue(struct fkv_device *d, struct fkv_device_request *rq)
{
	struct fkv_device_part *part = STAILQ_FIRST(&d->unused);
	int err;

	if (!part)
		return false;
	if (rq->res) {
		issue_failed(d, rq, rq->res);
		return true;
	}
	part->rq = rq;
	err = fill(d, part);
	if (err) {
		issue_failed(d, rq, err);
		return true;
	}
	if (d->engine->submit(d->engine, &part->piece)) {
		free(part->bounce);
		part->bounce = NULL;
		return false;
	}
	STAILQ_REMOVE_HEAD(&d->unused, link);
	rq->parts++;
	if (part->header)
		rq->headers &= rq->headers - 1;
	else
		rq->issued += part->piece.len;
	fkv_arbiter_issued(&d->arbiter, &rq->item, all_issued(rq));
	return true;
}

void fkv_device_landed(struct fkv_device *d, struct fkv_device_part *part)
{
	struct fkv_device_request *rq = part->rq;

	fkv_arbiter_returned(&d->arbiter, &rq->item);
	if (part->piece.res || part->piece.write)
		part_over(d, part, part->piece.res);
	else
		STAILQ_INSERT_TAIL(&d->landed, part, link);
}

/* ---- sums ---- */

static void sum_part(struct fkv_device_part *part)
{
	struct fkv_device_request *rq = part->rq;
	uint8_t *memory = rq->io.memory;
	uint64_t at = part->at, end = at + payload_of(part);

	if (part->bounce)
		memcpy(memory + at, part->bounce, end - at);
	while (at < end) {
		uint64_t i = at / FKV_SUM_CHUNK;
		uint64_t from = i * FKV_SUM_CHUNK;
		uint64_t to = fkv_min_u64(end, from + FKV_SUM_CHUNK);

		rq->left[i] -= (uint32_t)(to - at);
		at = to;
		if (!rq->left[i])
			rq->chunk[i] = fkv_hash_bytes(memory + from,
				fkv_min_u64(FKV_SUM_CHUNK, rq->io.len - from));
	}
}

void fkv_device_sum(struct fkv_device *d, uint64_t bytes)
{
	struct fkv_device_part *part;

	while (bytes && (part = STAILQ_FIRST(&d->landed))) {
		STAILQ_REMOVE_HEAD(&d->landed, link);
		bytes -= fkv_min_u64(bytes, part->piece.len);
		if (!part->rq->res)
			sum_part(part);
		part_over(d, part, 0);
	}
}
