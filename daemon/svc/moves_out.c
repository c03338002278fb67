// SPDX-License-Identifier: Apache-2.0
/*
 * moves_out.c - transfers that our own core has asked for
 */
#include <errno.h>

#include "svc/moves_internal.h"

#define CONFIRM_NS	(2 * FKV_SEC)	/* what was sent has come by then */

static struct fkv_move *find(const struct fkv_moves *m, uint64_t token)
{
	struct fkv_node *n = fkv_table_first(&m->moves, token);

	return n ? fkv_container_of(n, struct fkv_move, node) : NULL;
}

static void tell(struct fkv_move *mv, int res, bool said)
{
	struct fkv_moves *m = mv->m;
	struct fkv_in in = {
		.type = FKV_IN_MOVED,
		.token = mv->token,
		.res = res,
		.said = said,
	};

	mv->told = true;
	fkv_table_del(&m->moves, &mv->node);
	m->stats.failed += !!res;
	fkv_moves_input(m, &in);
}

static void drop_key(struct fkv_move *mv)
{
	if (mv->ask.type != FKV_CLUSTER_STAGE_READ)
		return;
	fkv_key_put(mv->ask.stage_read.key);
	mv->ask.stage_read.key = NULL;
}

static void unhold(struct fkv_move *mv)
{
	if (mv->moving || mv->asking || !mv->told)
		return;
	drop_key(mv);
	fkv_free(mv);
}

/*
 * What the core is to know: whose fault it was. One that was ended for another's
 * sake is as if it had been cancelled (G3.5).
 */
static void tell_result(struct fkv_move *mv,
			const struct fkv_transfer_result *r)
{
	int err = r->err;

	if (mv->said)
		tell(mv, mv->said, true);
	else if (mv->unsaid)
		tell(mv, mv->unsaid, false);
	else if (r->fault == FKV_FAULT_SHARED)
		tell(mv, -ECANCELED, false);
	else if (err == -ECANCELED && r->fault != FKV_FAULT_LOCAL)
		tell(mv, -ECONNRESET, false);
	else
		tell(mv, err, r->fault == FKV_FAULT_SOURCE);
}

/* ---- requests to the other end ---- */

static void end_transfer(struct fkv_move *mv)
{
	/* without memory it ends by its own time */
	if (mv->moving)
		fkv_transfer_end(mv->m->transfer, mv->wire, NULL, NULL);
}

static int answer_of(int status, const void *data, size_t len)
{
	struct fkv_cluster_msg msg;
	const char *why;
	int res = -EPROTO;

	if (status)
		return status;
	if (fkv_cluster_decode(data, len, fkv_clock_ns(), &msg, &why))
		return -EPROTO;
	if (msg.type == FKV_CLUSTER_PUSHED)
		res = msg.pushed.res;
	fkv_cluster_msg_done(&msg);
	return res;
}

static void stage_answered(struct fkv_move *mv, bool heard, int res)
{
	if (!res || mv->told)
		return;
	if (heard)
		mv->said = res;
	else
		mv->unsaid = res;
	end_transfer(mv);
}

static void on_answer(void *arg, int status, const void *data, size_t len)
{
	struct fkv_move *mv = arg;
	int res = answer_of(status, data, len);

	mv->asking = false;
	if (mv->type == FKV_CMD_STAGE)
		stage_answered(mv, !status, res);
	else if (!mv->told)
		tell(mv, res, !status);
	unhold(mv);
}

/* 0: an answer comes. */
static int ask(struct fkv_move *mv, uint64_t within_ns)
{
	struct fkv_rpc_peer *p = fkv_neighbour_of(mv->m, mv->peer);
	uint64_t now = fkv_clock_ns();
	struct fkv_rpc_question q = {
		.data = mv->m->buf,
		.deadline_ns = now + within_ns,
		.done = on_answer,
		.arg = mv,
	};
	int err;

	if (!p)
		return -ENOTCONN;
	err = fkv_cluster_encode(&mv->ask, now, mv->m->buf,
				 sizeof(mv->m->buf), &q.len);
	if (!err)
		err = fkv_rpc_call(p, &q);
	if (err)
		return err;
	mv->m->stats.asked++;
	mv->asking = true;
	return 0;
}

static void stage_ask(struct fkv_move *mv)
{
	int err = ask(mv, FKV_FETCH_MAX);

	/* its source may be just about to be connected */
	mv->unasked = err == -ENOTCONN;
	if (!err || mv->unasked)
		return;
	mv->unsaid = err;
	end_transfer(mv);
}

void fkv_moves_ask(struct fkv_moves *m, uint64_t peer)
{
	struct fkv_node *n = NULL;
	uint64_t pos = 0;

	while ((n = fkv_table_walk(&m->moves, &pos, n))) {
		struct fkv_move *mv = fkv_container_of(n, struct fkv_move,
						       node);

		if (mv->unasked && mv->peer == peer)
			stage_ask(mv);
	}
}

/* ---- ends of transfers ---- */

static void on_done(void *arg, const struct fkv_transfer_result *r)
{
	struct fkv_move *mv = arg;

	mv->moving = mv->unasked = false;
	if (!mv->told)
		tell_result(mv, r);
	unhold(mv);
}

/* All is sent: has it come? */
static void on_pushed(void *arg, const struct fkv_transfer_result *r)
{
	struct fkv_move *mv = arg;
	int err = r->err;

	mv->moving = false;
	if (!err && !mv->told)
		err = ask(mv, CONFIRM_NS);
	if (err && !mv->told && r->err)
		tell_result(mv, r);
	else if (err && !mv->told)
		tell(mv, -ECONNRESET, false);
	unhold(mv);
}

static void on_ready(void *arg, uint32_t slot, uint64_t generation)
{
	struct fkv_move *mv = arg;

	if (mv->told)
		return;
	mv->ask.stage_read.slot = slot;
	mv->ask.stage_read.generation = generation;
	mv->ask.stage_read.deadline_ns = fkv_clock_ns() + FKV_FETCH_MAX;
	stage_ask(mv);
}

/* ---- begin ---- */

static int pull(struct fkv_move *mv, const struct fkv_cmd *cmd)
{
	struct fkv_transfer_pull p = {
		.op = mv->wire,
		.peer = mv->peer,
		.remote = cmd->from,
		.offset = cmd->offset,
		.len = cmd->len,
		.done = on_done,
		.arg = mv,
	};

	mv->m->stats.pulls++;
	return fkv_transfer_pull(mv->m->transfer, &p);
}

static int stage(struct fkv_move *mv, const struct fkv_cmd *cmd)
{
	struct fkv_transfer_target t = {
		.op = mv->wire,
		.peer = mv->peer,
		.offset = cmd->offset,
		.len = cmd->len,
		.ready = on_ready,
		.done = on_done,
		.arg = mv,
	};

	mv->ask.type = FKV_CLUSTER_STAGE_READ;
	mv->ask.stage_read = (struct fkv_cluster_stage_read){
		.op = cmd->xfer.op,
		.key = cmd->key,
		.put_id = cmd->xfer.put_id,
		.len = cmd->len,
		.incarnation = mv->m->incarnation,
		.offset = cmd->offset,
	};
	mv->m->stats.stages++;
	return fkv_transfer_open(mv->m->transfer, &t);
}

static int push(struct fkv_move *mv, const struct fkv_cmd *cmd)
{
	struct fkv_transfer_push p = {
		.op = mv->wire,
		.peer = mv->peer,
		.len = cmd->len,
		.done = on_pushed,
		.arg = mv,
	};
	struct fkv_transfer_piece piece = {
		.offset = cmd->from,
		.len = cmd->len,
		.last = true,
	};
	int err;

	mv->ask.type = FKV_CLUSTER_PUSHED;
	mv->ask.pushed.op = cmd->xfer.op;
	mv->ask.pushed.bytes = cmd->len;
	mv->m->stats.pushes++;
	err = fkv_transfer_push(mv->m->transfer, &p);
	if (err)
		return err;
	err = fkv_transfer_push_piece(mv->m->transfer, mv->wire, &piece);
	if (err)
		fkv_transfer_push_fail(mv->m->transfer, mv->wire, err);
	return 0;
}

static int begin(struct fkv_move *mv, const struct fkv_cmd *cmd)
{
	if (cmd->type == FKV_CMD_PULL)
		return pull(mv, cmd);
	return cmd->type == FKV_CMD_STAGE ? stage(mv, cmd) : push(mv, cmd);
}

/* It has not begun. */
static void begin_failed(struct fkv_moves *m, const struct fkv_cmd *cmd,
			 int err)
{
	struct fkv_in in = {
		.type = FKV_IN_MOVED,
		.token = cmd->token,
		.res = err,
	};

	m->stats.failed++;
	fkv_key_put(cmd->key);
	fkv_moves_input(m, &in);
}

void fkv_move_begin(struct fkv_moves *m, const struct fkv_cmd *cmd)
{
	struct fkv_move *mv = fkv_zalloc(sizeof(*mv));
	int err;

	if (!mv) {
		begin_failed(m, cmd, -ENOMEM);
		return;
	}
	mv->m = m;
	mv->type = cmd->type;
	mv->token = cmd->token;
	mv->peer = cmd->xfer.incarnation;
	mv->wire = fkv_moves_wire(m->incarnation, cmd->xfer.op);
	mv->moving = true;
	err = begin(mv, cmd);
	if (err) {
		fkv_free(mv);
		begin_failed(m, cmd, err);
		return;
	}
	fkv_table_add(&m->moves, &mv->node, mv->token);
}

bool fkv_move_cancel(struct fkv_moves *m, uint64_t token)
{
	struct fkv_move *mv = find(m, token);

	if (!mv)
		return true;
	/* the push is over, only its answer is not: it is not waited for */
	if (!mv->moving) {
		tell(mv, -ECANCELED, false);
		return true;
	}
	if (mv->type == FKV_CMD_PUSH)
		return !fkv_transfer_push_fail(m->transfer, mv->wire,
					       -ECANCELED);
	return !fkv_transfer_end(m->transfer, mv->wire, NULL, NULL);
}

void fkv_moves_abandon(struct fkv_moves *m)
{
	struct fkv_node *n, *next;
	uint64_t pos = 0;

	n = fkv_table_walk(&m->moves, &pos, NULL);
	for (; n; n = next) {
		struct fkv_move *mv = fkv_container_of(n, struct fkv_move,
						       node);

		next = fkv_table_walk(&m->moves, &pos, n);
		if (!mv->moving)
			tell(mv, -ESHUTDOWN, false);
	}
}
