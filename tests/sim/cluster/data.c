// SPDX-License-Identifier: Apache-2.0
/*
 * data.c - what moves pages: disks, hash and copy threads, transfers
 *
 * A transfer reads and writes page by page at random times. It does not know
 * whether who began it still runs. It ends for good when a host that has its
 * memory in it destroys its end: only then that host says that it is quiet.
 */
#include "cluster.h"

struct cs_segment *cs_segment(struct cs *s, uint32_t i)
{
	return &s->owner[i].seg[s->host[i].life];
}

uint32_t cs_pages(uint64_t len)
{
	return (uint32_t)(fkv_extent_bytes(len) / CS_PAGE);
}

void cs_read(struct cs *s, uint32_t i, uint64_t offset, uint64_t len, int add)
{
	for (uint32_t k = 0; k < cs_pages(len); k++) {
		uint16_t *n = &cs_segment(s, i)->readers[offset / CS_PAGE + k];

		fkv_assert(add > 0 || *n);
		*n = (uint16_t)(*n + add);
	}
}

void cs_content(struct cs *s, const char *who, uint32_t i,
		struct cs_value val)
{
	struct cs_version *v = cs_version(s, val.put_id, false);
	const struct cs_word *page;

	cs_check(s, v && v->key == val.key && v->len == val.len,
		 "(1) %s: key %u %lx of %lu bytes is no version", who, val.key,
		 val.put_id, val.len);
	page = &cs_segment(s, i)->page[val.offset / CS_PAGE];
	for (uint32_t k = 0; k < cs_pages(val.len); k++) {
		struct cs_word w = page[k];

		cs_check(s, w.tag == v->tag && w.key == val.key && w.page == k,
			 "(1) %s at owner %u: page %u of key %u %lx at %lu has "
			 "{%u %lx %u}", who, i, k, val.key, val.put_id,
			 val.offset, w.key, w.tag, w.page);
	}
}

void cs_write(struct cs *s, const char *who, uint32_t i, uint64_t offset,
	      struct cs_word w)
{
	struct cs_segment *seg = cs_segment(s, i);

	cs_check(s, !seg->readers[offset / CS_PAGE],
		 "(2) %s writes at %lu of owner %u, which somebody reads", who,
		 offset, i);
	seg->page[offset / CS_PAGE] = w;
}

static bool overlap(uint64_t a, uint64_t an, uint64_t b, uint64_t bn)
{
	return a < b + bn && b < a + an;
}

static const char *const kinds[] = {
	"a read", "a write", "a hash", "a copy", "a pull", "a push",
};

static bool writes(const struct cs_mover *mv)
{
	return mv->type == CS_IO_READ || mv->type == CS_COPY ||
	       mv->type == CS_PULL || mv->type == CS_PUSH;
}

/* Would a push still be taken by the host of its target? */
static struct cs_stage *stage_of(struct cs *s, const struct cs_mover *mv)
{
	for (uint32_t k = 0; k < CS_STAGES; k++) {
		struct cs_stage *st = &s->stage[k];

		if (st->used && st->use == mv->xfer.generation &&
		    st->op == mv->xfer.op &&
		    st->life == s->host[st->owner].life)
			return st;
	}
	return NULL;
}

static struct cs_open *open_of(struct cs *s, const struct cs_mover *mv)
{
	for (uint32_t k = 0; k < CS_OPENS; k++) {
		struct cs_open *op = &s->open[k];

		if (op->used && op->owner == mv->dst &&
		    op->life == s->host[mv->dst].life &&
		    op->incarnation == mv->xfer.incarnation &&
		    op->op == mv->xfer.op && mv->to >= op->offset &&
		    mv->to + mv->len <= op->offset + op->len)
			return op;
	}
	return NULL;
}

static bool target_takes(struct cs *s, const struct cs_mover *mv)
{
	if (mv->type != CS_PUSH)
		return true;
	if (mv->dst_life != s->host[mv->dst].life || s->host[mv->dst].down)
		return false;
	return mv->xfer.staged ? stage_of(s, mv) != NULL :
		open_of(s, mv) != NULL;
}

void cs_quiet(struct cs *s, const char *who, uint32_t i, uint64_t offset,
	      uint64_t len)
{
	uint64_t bytes = fkv_extent_bytes(len);

	for (uint32_t k = 0; k < CS_MOVERS; k++) {
		struct cs_mover *mv = &s->mover[k];

		cs_check(s, !mv->used || !writes(mv) || mv->dst != i ||
			 mv->dst_life != s->host[i].life ||
			 !overlap(mv->to, mv->pages * CS_PAGE, offset, bytes) ||
			 !target_takes(s, mv),
			 "(2) %s is given %lu of owner %u, where %s may still "
			 "write", who, offset, i, kinds[mv->type]);
	}
	for (uint32_t k = 0; k < CS_OPENS; k++)
		cs_check(s, !s->open[k].used || s->open[k].owner != i ||
			 s->open[k].life != s->host[i].life ||
			 !overlap(s->open[k].offset, s->open[k].len, offset,
				  bytes),
			 "(2) %s is given %lu of owner %u, where a push may "
			 "come", who, offset, i);
	for (uint32_t c = 0; c < CS_CLIENTS; c++)
		for (uint32_t k = 0; k < CS_PUTS; k++) {
			struct cs_client *cl = &s->owner[i].client[c];
			struct cs_put *put = &cl->put[k];

			cs_check(s, !cl->up || cl->arena || !put->used ||
				 !overlap(put->offset,
					  fkv_extent_bytes(put->len), offset,
					  bytes),
				 "(2) %s is given %lu of owner %u, where a "
				 "client may still write", who, offset, i);
		}
	for (uint32_t k = 0; k < bytes / CS_PAGE; k++)
		cs_check(s, !cs_segment(s, i)->readers[offset / CS_PAGE + k],
			 "(2) %s is given %lu of owner %u, which somebody "
			 "reads", who, offset, i);
}

/* ---- movers ---- */

static uint64_t mix(uint64_t h, uint64_t v)
{
	h = (h ^ v) * 0xff51afd7ed558ccdULL;
	return h ^ (h >> 33);
}

static uint64_t hash(struct cs *s, const struct cs_mover *mv, uint64_t at)
{
	const struct cs_segment *seg = &s->owner[mv->driver].seg[mv->life];
	uint64_t h = 1;

	for (uint32_t k = 0; k < mv->pages; k++) {
		struct cs_word w = seg->page[at / CS_PAGE + k];

		h = mix(mix(mix(h, w.tag), w.key), w.page);
	}
	return h;
}

static struct cs_mover *mover_new(struct cs *s, enum cs_mover_type type,
				  uint32_t i, const struct fkv_cmd *cmd)
{
	uint32_t k = 0;
	struct cs_mover *mv;

	while (k < CS_MOVERS && s->mover[k].used)
		k++;
	cs_check(s, k < CS_MOVERS, "too many transfers");
	mv = &s->mover[k];
	*mv = (struct cs_mover){
		.used = true,
		.type = type,
		.use = ++s->uses,
		.driver = i,
		.life = s->host[i].life,
		.src = i,
		.src_life = s->host[i].life,
		.dst = i,
		.dst_life = s->host[i].life,
		.token = cmd->token,
		.from = cmd->from,
		.to = cmd->offset,
		.len = cmd->len,
		.pages = cs_pages(cmd->len),
		.seed = cmd->seed,
	};
	mv->moved = fkv_zalloc(mv->pages + 1);
	return mv;
}

static void schedule(struct cs *s, struct cs_mover *mv, uint64_t max_ns)
{
	uint64_t took = cs_delay(s, max_ns), slot = (uint64_t)(mv - s->mover);

	mv->steps = 1 + (uint32_t)cs_random(s, 3);
	for (uint32_t k = 1; k < mv->steps; k++)
		cs_at(s, s->now_ns + cs_random(s, took + 1), CS_MOVE, slot,
		      mv->use);
	cs_at(s, s->now_ns + took, CS_MOVE, slot, mv->use);
}

static void move_page(struct cs *s, struct cs_mover *mv, uint32_t k)
{
	struct cs_segment *seg = &s->owner[mv->driver].seg[mv->life];
	uint64_t to = mv->to + k * CS_PAGE;
	uint64_t at = (mv->vpos + CS_PAGE + k * CS_PAGE) / CS_PAGE;
	struct cs_word w;

	switch (mv->type) {
	case CS_IO_READ:
		at %= s->owner[mv->driver].pages;
		w = seg->disk[mv->shard][at];
		if (mv->flip)
			w.tag ^= 1ULL << 63;
		cs_write(s, kinds[mv->type], mv->dst, to, w);
		break;
	case CS_IO_WRITE:
		at %= s->owner[mv->driver].pages;
		seg->disk[mv->shard][at] = seg->page[to / CS_PAGE];
		break;
	case CS_HASH:
		break;
	case CS_COPY:
		w = (struct cs_word){ mv->tag, mv->key, k };
		cs_write(s, kinds[mv->type], mv->dst, to, w);
		break;
	case CS_PULL:
	case CS_PUSH:
		seg = &s->owner[mv->src].seg[mv->src_life];
		w = seg->page[mv->from / CS_PAGE + k];
		cs_write(s, kinds[mv->type], mv->dst, to, w);
		break;
	}
}

static void move_some(struct cs *s, struct cs_mover *mv, bool all)
{
	if (mv->dst_life != s->host[mv->dst].life || s->host[mv->dst].down)
		return;
	for (uint32_t k = 0; k < mv->pages; k++) {
		if (mv->moved[k] || (!all && cs_random(s, 2)))
			continue;
		mv->moved[k] = true;
		move_page(s, mv, k);
	}
}

static void mover_free(struct cs_mover *mv)
{
	fkv_free(mv->moved);
	memset(mv, 0, sizeof(*mv));
}

static bool alive(const struct cs *s, const struct cs_mover *mv)
{
	return !mv->orphan && !s->host[mv->driver].down &&
	       s->host[mv->driver].life == mv->life;
}

static void tell_moved(struct cs *s, uint32_t i, uint64_t token, int res,
		       bool said)
{
	struct cs_input in = {
		.in.type = FKV_IN_MOVED,
		.in.token = token,
		.in.res = res,
		.in.said = said,
	};

	s->n.moved_bad += res != 0;
	cs_input(s, i, &in, 1 + cs_delay(s, FKV_MS));
}

static void mover_end(struct cs *s, struct cs_mover *mv, int res)
{
	if (alive(s, mv))
		tell_moved(s, mv->driver, mv->token, res, false);
	mover_free(mv);
}

static void stage_end(struct cs *s, struct cs_stage *st, int res, bool said)
{
	st->used = false;
	fkv_key_put(st->key);
	st->key = NULL;
	if (st->life == s->host[st->owner].life && !s->host[st->owner].down)
		tell_moved(s, st->owner, st->token, res, said);
}

/* The last piece came in with the op id: only now it is complete (G3.2). */
static void push_arrived(struct cs *s, struct cs_mover *mv)
{
	struct cs_stage *st;
	struct cs_open *op;

	if (!mv->xfer.last)
		return;
	s->n.push_ok++;
	if (mv->xfer.staged) {
		st = stage_of(s, mv);
		s->n.stage_ok++;
		stage_end(s, st, 0, false);
	} else {
		op = open_of(s, mv);
		op->used = false;
	}
}

static bool is_cut(const struct cs *s, uint32_t a, uint32_t b)
{
	return s->data_cut[a][b] || s->data_cut[b][a];
}

/* Its peer is no more: a while later it knows. */
static bool peer_gone(const struct cs *s, const struct cs_mover *mv)
{
	return mv->type == CS_PULL && (s->host[mv->src].down ||
	       s->host[mv->src].life != mv->src_life);
}

static void transfer_step(struct cs *s, struct cs_mover *mv, uint64_t slot)
{
	if (is_cut(s, mv->src, mv->dst)) {
		cs_at(s, s->now_ns + 20 * FKV_MS, CS_MOVE, slot, mv->use);
		return;
	}
	if (peer_gone(s, mv) || !target_takes(s, mv) ||
	    (mv->steps == 1 && cs_fault(s, CS_DATA_FAIL))) {
		mover_end(s, mv, -ECONNRESET);
		return;
	}
	if (--mv->steps) {
		move_some(s, mv, false);
		return;
	}
	move_some(s, mv, true);
	if (mv->type == CS_PUSH)
		push_arrived(s, mv);
	else
		s->n.pull_ok++;
	mover_end(s, mv, 0);
}

static void io_end(struct cs *s, struct cs_mover *mv)
{
	struct cs_input in = {
		.in.type = mv->type == CS_HASH ? FKV_IN_HASHED :
			mv->type == CS_COPY ? FKV_IN_COPIED : FKV_IN_IO_DONE,
		.in.token = mv->token,
		.in.res = mv->res,
	};
	uint64_t part = 0;
	uint32_t i = mv->driver;

	if (!mv->res)
		move_some(s, mv, true);
	if (mv->type == CS_IO_READ || mv->type == CS_HASH)
		part = hash(s, mv, mv->to);
	if (mv->type == CS_IO_WRITE || mv->type == CS_HASH)
		cs_read(s, i, mv->to, mv->len, -1);
	in.in.sum = fkv_sum_chunks_final(mv->seed, &part, 1);
	if (mv->part) {
		in.sums[0] = part;
		in.in.sums = in.sums;
	}
	mover_free(mv);
	cs_feed(s, i, &in.in);
}

void cs_move(struct cs *s, uint64_t slot, uint64_t use)
{
	struct cs_mover *mv = &s->mover[slot];

	if (!mv->used || mv->use != use)
		return;
	if (mv->type == CS_PULL || mv->type == CS_PUSH) {
		transfer_step(s, mv, slot);
		return;
	}
	if (--mv->steps) {
		if (!mv->res)
			move_some(s, mv, false);
		return;
	}
	io_end(s, mv);
}

/* ---- commands ---- */

static void io(struct cs *s, uint32_t i, struct fkv_cmd *cmd)
{
	enum cs_mover_type type = cmd->type == FKV_CMD_READ ? CS_IO_READ :
		cmd->type == FKV_CMD_WRITE ? CS_IO_WRITE :
		cmd->type == FKV_CMD_HASH ? CS_HASH : CS_COPY;
	struct cs_mover *mv = mover_new(s, type, i, cmd);
	struct cs_op *op;

	mv->shard = cmd->io.shard;
	mv->vpos = cmd->io.vpos;
	mv->part = cmd->io.part;
	if (type == CS_IO_READ) {
		s->n.reads++;
		mv->res = cs_fault(s, CS_READ_FAIL) ? -EIO : 0;
		mv->flip = cs_fault(s, CS_READ_FLIP);
	}
	if (type == CS_IO_WRITE) {
		s->n.persists++;
		mv->res = cs_fault(s, CS_WRITE_FAIL) ? -EIO : 0;
		cs_content(s, "persist", i, (struct cs_value){
			   cs_key_of(cmd->key), cmd->io.put_id, cmd->offset,
			   cmd->len });
		fkv_key_put(cmd->key);
	}
	if (type == CS_IO_WRITE || type == CS_HASH)
		cs_read(s, i, mv->to, mv->len, 1);
	if (type == CS_COPY) {
		op = cs_op(s, i, s->host[i].life, cmd->token);
		mv->tag = (uint64_t)i << 56 | (uint64_t)s->host[i].life << 40 |
			cmd->token;
		mv->key = op->key;
	}
	schedule(s, mv, type == CS_IO_READ && cs_chance(s, 20) ?
		 5 * FKV_SEC : 3 * FKV_MS);
}

static void pull(struct cs *s, uint32_t i, struct fkv_cmd *cmd)
{
	uint32_t src = cs_by_incarnation(s, cmd->xfer.incarnation);
	struct cs_mover *mv;

	s->n.pulls++;
	if (src == CS_OWNERS) {
		tell_moved(s, i, cmd->token, -ECONNREFUSED, false);
		return;
	}
	mv = mover_new(s, CS_PULL, i, cmd);
	mv->src = src;
	mv->src_life = s->host[src].life;
	schedule(s, mv, 5 * FKV_MS);
}

static void push(struct cs *s, uint32_t i, struct fkv_cmd *cmd)
{
	uint32_t dst = cs_by_incarnation(s, cmd->xfer.incarnation);
	struct cs_mover *mv;

	s->n.pushes++;
	if (dst == CS_OWNERS) {
		tell_moved(s, i, cmd->token, -ECONNREFUSED, false);
		return;
	}
	mv = mover_new(s, CS_PUSH, i, cmd);
	mv->xfer = cmd->xfer;
	mv->dst = dst;
	mv->dst_life = s->host[dst].life;
	if (!cmd->xfer.staged)
		mv->xfer.incarnation = s->owner[i].incarnation;
	schedule(s, mv, 5 * FKV_MS);
}

static void stage(struct cs *s, uint32_t i, struct fkv_cmd *cmd)
{
	uint32_t src = cs_by_incarnation(s, cmd->xfer.incarnation);
	uint64_t k = 0;

	s->n.stages++;
	if (src == CS_OWNERS) {
		fkv_key_put(cmd->key);
		tell_moved(s, i, cmd->token, -ECONNREFUSED, false);
		return;
	}
	while (k < CS_STAGES && s->stage[k].used)
		k++;
	cs_check(s, k < CS_STAGES, "too many stages");
	s->stage[k] = (struct cs_stage){
		.used = true,
		.use = ++s->uses,
		.owner = i,
		.life = s->host[i].life,
		.source = src,
		.source_life = s->host[src].life,
		.token = cmd->token,
		.op = cmd->xfer.op,
		.offset = cmd->offset,
		.len = cmd->len,
		.put_id = cmd->xfer.put_id,
		.incarnation = s->owner[i].incarnation,
		.key = cmd->key,
	};
	cs_at(s, s->now_ns + cs_delay(s, s->delay_ns), CS_STAGE, k,
	      s->stage[k].use);
}

/* A request may be read however late: then it is void (G3.2). */
static void stage_arrives(struct cs *s, uint64_t slot, uint64_t use)
{
	struct cs_stage *st = &s->stage[slot];
	struct cs_input in = { .in.type = FKV_IN_STAGE };

	if (!st->used || st->use != use)
		return;
	if (s->host[st->source].down ||
	    s->host[st->source].life != st->source_life) {
		stage_end(s, st, -ECONNRESET, false);
		return;
	}
	if (is_cut(s, st->owner, st->source)) {
		cs_at(s, s->now_ns + 50 * FKV_MS, CS_STAGE, slot, use);
		return;
	}
	in.stage = (struct fkv_cluster_stage_read){
		.op = st->op,
		.key = st->key,
		.put_id = st->put_id,
		.len = st->len,
		.incarnation = st->incarnation,
		.offset = st->offset,
		.generation = use,
	};
	in.in.token = use;
	in.in.stage = &in.stage;
	cs_feed(s, st->source, &in.in);
}

static void pushed(struct cs *s, const struct fkv_cmd *cmd)
{
	for (uint32_t k = 0; k < CS_STAGES; k++)
		if (s->stage[k].used && s->stage[k].use == cmd->token) {
			s->stage[k].res = cmd->res;
			cs_at(s, s->now_ns + cs_delay(s, s->delay_ns),
			      CS_PUSHED, k, cmd->token);
		}
}

void cs_stage_event(struct cs *s, const struct cs_event *ev)
{
	struct cs_stage *st = &s->stage[ev->a];

	if (ev->type == CS_STAGE)
		stage_arrives(s, ev->a, ev->b);
	else if (st->used && st->use == ev->b && st->res)
		stage_end(s, st, st->res, true);
}

static bool drives(const struct cs *s, const struct cs_mover *mv, uint32_t i)
{
	return mv->used && (mv->type == CS_PULL || mv->type == CS_PUSH) &&
	       !mv->orphan && mv->driver == i && mv->life == s->host[i].life;
}

static void cancel(struct cs *s, uint32_t i, uint64_t token)
{
	for (uint32_t k = 0; k < CS_MOVERS; k++)
		if (drives(s, &s->mover[k], i) && s->mover[k].token == token)
			mover_end(s, &s->mover[k], -ECANCELED);
	for (uint32_t k = 0; k < CS_STAGES; k++)
		if (s->stage[k].used && s->stage[k].owner == i &&
		    s->stage[k].life == s->host[i].life &&
		    s->stage[k].token == token)
			stage_end(s, &s->stage[k], -ECANCELED, false);
}

static void open_target(struct cs *s, uint32_t i, const struct fkv_cmd *cmd)
{
	uint32_t k = 0;

	while (k < CS_OPENS && s->open[k].used)
		k++;
	cs_check(s, k < CS_OPENS, "too many open targets");
	s->open[k] = (struct cs_open){
		.used = true,
		.owner = i,
		.life = s->host[i].life,
		.incarnation = cmd->xfer.incarnation,
		.op = cmd->xfer.op,
		.offset = cmd->offset,
		.len = cmd->len,
	};
}

static void fence(struct cs *s, uint32_t i, const struct fkv_cmd *cmd)
{
	struct cs_input in = {
		.in.type = FKV_IN_FENCED,
		.in.token = cmd->token,
	};

	for (uint32_t k = 0; k < CS_OPENS; k++)
		if (s->open[k].used && s->open[k].owner == i &&
		    s->open[k].incarnation == cmd->xfer.incarnation &&
		    s->open[k].op == cmd->xfer.op)
			s->open[k].used = false;
	cs_input(s, i, &in, 1 + cs_delay(s, FKV_MS));
}

/* All ends of its connections are destroyed: nothing comes, nothing goes. */
static void stop(struct cs *s, uint32_t i)
{
	struct cs_input in = { .in.type = FKV_IN_STOPPED };

	for (uint32_t k = 0; k < CS_MOVERS; k++) {
		struct cs_mover *mv = &s->mover[k];

		if (drives(s, mv, i))
			mover_end(s, mv, -ECANCELED);
		else if (mv->used &&
			 ((mv->type == CS_PUSH && mv->dst == i) ||
			  (mv->type == CS_PULL && mv->src == i)))
			mover_end(s, mv, -ECONNRESET);
	}
	for (uint32_t k = 0; k < CS_STAGES; k++)
		if (s->stage[k].used && s->stage[k].owner == i &&
		    s->stage[k].life == s->host[i].life)
			stage_end(s, &s->stage[k], -ECANCELED, false);
	for (uint32_t k = 0; k < CS_OPENS; k++)
		if (s->open[k].owner == i)
			s->open[k].used = false;
	cs_input(s, i, &in, 2 * FKV_MS + cs_delay(s, 20 * FKV_MS));
}

void cs_command(struct cs *s, uint32_t i, struct fkv_cmd *cmd)
{
	switch (cmd->type) {
	case FKV_CMD_PULL:
		pull(s, i, cmd);
		break;
	case FKV_CMD_PUSH:
		push(s, i, cmd);
		break;
	case FKV_CMD_STAGE:
		stage(s, i, cmd);
		break;
	case FKV_CMD_CANCEL:
		cancel(s, i, cmd->token);
		break;
	case FKV_CMD_PUSHED:
		pushed(s, cmd);
		break;
	case FKV_CMD_OPEN:
		open_target(s, i, cmd);
		break;
	case FKV_CMD_FENCE:
		fence(s, i, cmd);
		break;
	case FKV_CMD_STOP:
		stop(s, i);
		break;
	default:
		io(s, i, cmd);
		break;
	}
}

/* Its own memory is gone; what it had posted to others goes on for a while. */
void cs_data_killed(struct cs *s, uint32_t i)
{
	for (uint32_t k = 0; k < CS_MOVERS; k++) {
		struct cs_mover *mv = &s->mover[k];

		if (!mv->used || mv->driver != i || mv->life != s->host[i].life)
			continue;
		if (mv->type != CS_PUSH || mv->dst == i) {
			mover_free(mv);
			continue;
		}
		mv->orphan = true;
		cs_at(s, s->now_ns + cs_delay(s, 8 * FKV_SEC), CS_MOVE, k,
		      mv->use);
		mv->steps++;
	}
	for (uint32_t k = 0; k < CS_STAGES; k++)
		if (s->stage[k].used && s->stage[k].owner == i) {
			s->stage[k].used = false;
			fkv_key_put(s->stage[k].key);
		}
	for (uint32_t k = 0; k < CS_OPENS; k++)
		if (s->open[k].owner == i)
			s->open[k].used = false;
}

void cs_data_done(struct cs *s)
{
	for (uint32_t k = 0; k < CS_MOVERS; k++)
		if (s->mover[k].used)
			mover_free(&s->mover[k]);
}
