// SPDX-License-Identifier: Apache-2.0
/*
 * stage.c - peers read what our SSD has: by pieces, through chunk buffers
 *
 * protocol.md G3.2, G5: at most 4 pieces of a value are being read and 4
 * pushed, in order, all on the connection that the request names; the last
 * goes out only when the checksum of all is right. Buffers are a fixed pool,
 * taken in turns; where none is free nothing is read. What was started is
 * drained before an error is told.
 */
#include "core/owner/internal.h"

struct fkv_stage {
	TAILQ_ENTRY(fkv_stage) link;
	uint64_t token;			/* of the request */
	struct fkv_key *key;
	uint64_t put_id, len;
	struct fkv_xfer xfer;		/* of all its pushes */
	uint64_t offset;		/* there */
	struct fkv_ring_entry *read;
	uint64_t pieces;
	uint64_t next_read;		/* piece */
	uint64_t next_push;
	uint64_t pushed;
	uint32_t reading, pushing;
	int res;
	uint64_t sums[];		/* of each FKV_SUM_CHUNK */
};

#define SUMS	(FKV_CHUNK / FKV_SUM_CHUNK)

int fkv_stages_init(struct fkv_owner *o)
{
	TAILQ_INIT(&o->stages);
	if (o->cfg.chunks > FKV_CHUNKS_MAX)
		return -EINVAL;
	for (uint32_t i = 0; i < o->cfg.chunks; i++)
		o->chunk[i].offset = o->cfg.chunk_offset + i * FKV_CHUNK;
	return 0;
}

static void answer(uint64_t token, int res, uint64_t len, struct fkv_out *out)
{
	struct fkv_cmd *cmd = fkv_out_add(out, FKV_CMD_PUSHED);

	cmd->token = token;
	cmd->res = res;
	cmd->len = len;
}

static void stage_free(struct fkv_owner *o, struct fkv_stage *st)
{
	TAILQ_REMOVE(&o->stages, st, link);
	o->stats.stages--;
	fkv_key_put(st->key);
	fkv_free(st);
}

void fkv_stages_done(struct fkv_owner *o)
{
	struct fkv_stage *st;

	while ((st = TAILQ_FIRST(&o->stages)))
		stage_free(o, st);
}

static uint64_t piece_len(const struct fkv_stage *st, uint64_t index)
{
	return fkv_min_u64(FKV_CHUNK, st->len - index * FKV_CHUNK);
}

static void chunk_free(struct fkv_owner *o, struct fkv_chunk *c)
{
	fkv_oop_del(o, &c->op);
	c->state = FKV_CHUNK_FREE;
	c->stage = NULL;
}

/* The read pin ends when the last piece is read (G5). */
static void unpin(struct fkv_owner *o, struct fkv_stage *st)
{
	if (!st->read)
		return;
	if (fkv_ring_read_unpin(o->cfg.ring, st->read) && !st->res)
		st->res = -ENOENT;
	st->read = NULL;
}

static void read_piece(struct fkv_owner *o, struct fkv_stage *st,
		       struct fkv_chunk *c, struct fkv_out *out)
{
	struct fkv_cmd *cmd = fkv_out_add(out, FKV_CMD_READ);

	c->stage = st;
	c->index = st->next_read++;
	c->state = FKV_CHUNK_READING;
	fkv_oop_add(o, &c->op, FKV_OOP_CHUNK);
	st->reading++;
	cmd->token = c->op.id;
	cmd->offset = c->offset;
	cmd->from = c->index * FKV_CHUNK;
	cmd->len = piece_len(st, c->index);
	cmd->io.part = true;
	cmd->io.shard = st->read->shard;
	cmd->io.vpos = st->read->vpos;
	cmd->io.entry_len = st->read->entry_len;
	cmd->io.seq = st->read->seq;
	cmd->io.put_id = st->put_id;
	cmd->io.sum = st->read->sum;
}

static void push_piece(struct fkv_owner *o, struct fkv_chunk *c,
		       struct fkv_out *out)
{
	struct fkv_stage *st = c->stage;
	struct fkv_cmd *cmd = fkv_out_add(out, FKV_CMD_PUSH);

	c->state = FKV_CHUNK_PUSHING;
	st->next_push++;
	st->pushing++;
	cmd->token = c->op.id;
	cmd->xfer = st->xfer;
	cmd->xfer.last = st->next_push == st->pieces;
	cmd->from = c->offset;
	cmd->offset = st->offset + c->index * FKV_CHUNK;
	cmd->len = piece_len(st, c->index);
	c->op.timer.kind = FKV_TIMER_CHUNK;
	fkv_timer_set(&o->timers, &c->op.timer, o->now_ns + FKV_XFER_STALL_NS);
}

static struct fkv_chunk *chunk_of(struct fkv_owner *o, struct fkv_stage *st,
				  uint64_t index, enum fkv_chunk_state state)
{
	for (uint32_t i = 0; i < o->cfg.chunks; i++) {
		struct fkv_chunk *c = &o->chunk[i];

		if (c->state == state &&
		    (state == FKV_CHUNK_FREE ||
		     (c->stage == st && c->index == index)))
			return c;
	}
	return NULL;
}

/* The last piece goes only with a good whole. */
static bool may_push(struct fkv_owner *o, struct fkv_stage *st,
		     struct fkv_out *out)
{
	uint64_t seed;

	if (st->res || st->pushing == FKV_STAGE_PUSHES)
		return false;
	if (st->next_push + 1 < st->pieces)
		return true;
	seed = fkv_sum_seed(st->key->data, st->key->len, st->put_id, st->len);
	if (fkv_sum_chunks_final(seed, st->sums, fkv_sum_chunks(st->len)) ==
	    st->read->sum) {
		unpin(o, st);
	} else {
		o->stats.sum_errors++;
		st->res = -EBADMSG;
		fkv_read_ended(o, st->read, st->res, out);
	}
	return !st->res;
}

static void push_ready(struct fkv_owner *o, struct fkv_stage *st,
		       struct fkv_out *out)
{
	struct fkv_chunk *c;

	while (st->next_push < st->pieces &&
	       (c = chunk_of(o, st, st->next_push, FKV_CHUNK_READY)) &&
	       may_push(o, st, out))
		push_piece(o, c, out);
}

/* After an error what was read is not pushed any more. */
static void drop_ready(struct fkv_owner *o, struct fkv_stage *st)
{
	for (uint32_t i = 0; i < o->cfg.chunks; i++)
		if (o->chunk[i].stage == st &&
		    o->chunk[i].state == FKV_CHUNK_READY)
			chunk_free(o, &o->chunk[i]);
}

/* False when it is over. */
static bool go_on(struct fkv_owner *o, struct fkv_stage *st,
		  struct fkv_out *out)
{
	push_ready(o, st, out);
	if (st->res)
		drop_ready(o, st);
	if (st->reading || st->pushing ||
	    (!st->res && st->next_push < st->pieces))
		return true;
	unpin(o, st);
	if (st->res)
		o->stats.stage_errors++;
	else
		o->stats.staged++;
	answer(st->token, st->res, st->pushed, out);
	stage_free(o, st);
	return false;
}

static bool wants_chunk(const struct fkv_stage *st)
{
	return !st->res && st->next_read < st->pieces &&
	       st->reading < FKV_STAGE_READS &&
	       st->next_read - st->next_push < 2 * FKV_STAGE_READS;
}

/* Free buffers to who waits, in turns. */
static void feed(struct fkv_owner *o, struct fkv_out *out)
{
	struct fkv_stage *st, *next;
	struct fkv_chunk *c;
	bool more = true;

	while (more) {
		more = false;
		for (st = TAILQ_FIRST(&o->stages); st; st = next) {
			next = TAILQ_NEXT(st, link);
			if (!wants_chunk(st))
				continue;
			c = chunk_of(o, st, 0, FKV_CHUNK_FREE);
			if (!c)
				return;
			read_piece(o, st, c, out);
			more = true;
		}
	}
}

static struct fkv_stage *stage_create(const struct fkv_cluster_stage_read *s)
{
	uint64_t n = fkv_sum_chunks(s->len);
	struct fkv_stage *st = fkv_zalloc(sizeof(*st) + n * sizeof(uint64_t));

	if (!st)
		return NULL;
	st->key = fkv_key_get(s->key);
	st->put_id = s->put_id;
	st->len = s->len;
	st->offset = s->offset;
	st->pieces = (s->len + FKV_CHUNK - 1) / FKV_CHUNK;
	st->xfer = (struct fkv_xfer){
		.incarnation = s->incarnation,
		.op = s->op,
		.slot = s->slot,
		.generation = s->generation,
		.staged = true,
	};
	return st;
}

static int stage_check(const struct fkv_owner *o)
{
	if (!fkv_home_up(o))
		return -ESHUTDOWN;
	if (!o->cfg.ring || !o->cfg.chunks)
		return -ENOENT;
	return o->stats.stages < FKV_STAGES_MAX ? 0 : -EBUSY;
}

void fkv_stage_begin(struct fkv_owner *o, const struct fkv_in *in,
		     struct fkv_out *out)
{
	const struct fkv_cluster_stage_read *s = in->stage;
	struct fkv_ring_entry *e = NULL;
	struct fkv_stage *st;
	int err = stage_check(o);

	if (!err)
		err = fkv_ring_read_pin(o->cfg.ring, s->key, s->put_id, &e);
	if (!err && e->len != s->len) {
		fkv_ring_read_unpin(o->cfg.ring, e);
		err = -ENOENT;
	}
	if (err) {
		answer(in->token, err, 0, out);
		return;
	}
	st = stage_create(s);
	if (!st) {
		fkv_ring_read_unpin(o->cfg.ring, e);
		answer(in->token, -ENOMEM, 0, out);
		return;
	}
	st->token = in->token;
	st->read = e;
	TAILQ_INSERT_TAIL(&o->stages, st, link);
	o->stats.stages++;
	feed(o, out);
}

void fkv_chunk_read(struct fkv_owner *o, struct fkv_chunk *c,
		    const struct fkv_in *in, struct fkv_out *out)
{
	struct fkv_stage *st = c->stage;
	uint64_t n = fkv_sum_chunks(piece_len(st, c->index));

	fkv_assert(c->state == FKV_CHUNK_READING);
	st->reading--;
	fkv_read_ended(o, st->read, in->res, out);
	if (in->res) {
		if (!st->res)
			st->res = in->res;
		chunk_free(o, c);
	} else {
		memcpy(&st->sums[c->index * SUMS], in->sums,
		       n * sizeof(uint64_t));
		o->stats.bytes_ssd_read += piece_len(st, c->index);
		c->state = FKV_CHUNK_READY;
	}
	go_on(o, st, out);
	feed(o, out);
	fkv_persist_pump(o, out);
}

void fkv_chunk_pushed(struct fkv_owner *o, struct fkv_chunk *c, int res,
		      struct fkv_out *out)
{
	struct fkv_stage *st = c->stage;
	uint64_t len = piece_len(st, c->index);

	fkv_assert(c->state == FKV_CHUNK_PUSHING);
	st->pushing--;
	if (!res) {
		st->pushed += len;
		o->stats.bytes_pushed += len;
	} else if (!st->res) {
		st->res = -ECONNRESET;	/* of this copy it says nothing */
	}
	chunk_free(o, c);
	go_on(o, st, out);
	feed(o, out);
	fkv_persist_pump(o, out);
}

void fkv_chunk_progress(struct fkv_owner *o, struct fkv_chunk *c)
{
	if (c->state == FKV_CHUNK_PUSHING)
		fkv_timer_set(&o->timers, &c->op.timer,
			      o->now_ns + FKV_XFER_STALL_NS);
}

void fkv_chunk_stalled(struct fkv_owner *o, struct fkv_chunk *c,
		       struct fkv_out *out)
{
	o->stats.stalls++;
	fkv_xfer_cancel(o, &c->op, out);
}

void fkv_stages_lost(struct fkv_owner *o, struct fkv_out *out)
{
	struct fkv_stage *st, *next;

	for (st = TAILQ_FIRST(&o->stages); st; st = next) {
		next = TAILQ_NEXT(st, link);
		if (!st->res)
			st->res = -ESHUTDOWN;
		go_on(o, st, out);
	}
}
