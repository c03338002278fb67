// SPDX-License-Identifier: Apache-2.0
/*
 * moves_in.c - what other owners have of us: SSD copies, and room for their puts
 */
#include <errno.h>

#include "svc/moves_internal.h"

/* A put may be open so long before its first byte comes (P5, put_extend). */
#define OPEN_NS		(24 * 3600 * FKV_SEC)

/* What is never asked for or fenced is none: the master says when. */
#define OPENED_MAX	65536u

/* PUSHED, as the answer to @ask. */
static void reply(struct fkv_moves *m, const struct fkv_rpc_ask *ask, int res,
		  uint64_t bytes)
{
	struct fkv_cluster_msg msg = {
		.type = FKV_CLUSTER_PUSHED,
		.pushed = { .op = 1, .res = res, .bytes = bytes },
	};
	size_t len;
	int err;

	err = fkv_cluster_encode(&msg, fkv_clock_ns(), m->buf, sizeof(m->buf),
				 &len);
	fkv_rpc_reply(m->mc.rpc, ask, err, m->buf, err ? 0 : len);
}

/* ---- SSD copies ---- */

static struct fkv_serve *serve_find(const struct fkv_moves *m, uint64_t wire)
{
	struct fkv_node *n = NULL;
	uint64_t pos = 0;

	while ((n = fkv_table_walk(&m->serves, &pos, n))) {
		struct fkv_serve *s = fkv_container_of(n, struct fkv_serve,
						       node);

		if (s->wire == wire)
			return s;
	}
	return NULL;
}

static void serve_unhold(struct fkv_serve *s)
{
	if (!s->pushing && s->answered)
		fkv_free(s);
}

void fkv_serve_request(struct fkv_moves *m, const struct fkv_rpc_ask *ask,
		       uint64_t peer, const struct fkv_cluster_msg *msg)
{
	const struct fkv_cluster_stage_read *r = &msg->stage_read;
	struct fkv_in in = { .type = FKV_IN_STAGE, .stage = r };
	struct fkv_serve *s;

	/* for itself only; one that is tried again waits for the last to end */
	if (r->incarnation != peer ||
	    serve_find(m, fkv_moves_wire(peer, r->op))) {
		m->stats.refused++;
		reply(m, ask, -EBUSY, 0);
		return;
	}
	s = fkv_zalloc(sizeof(*s));
	if (!s) {
		reply(m, ask, -ENOMEM, 0);
		return;
	}
	s->m = m;
	s->token = m->next_token++;
	s->wire = fkv_moves_wire(peer, r->op);
	s->offset = r->offset;
	s->len = r->len;
	s->ask = *ask;
	fkv_table_add(&m->serves, &s->node, s->token);
	in.token = s->token;
	fkv_moves_input(m, &in);
}

static void on_push_done(void *arg, const struct fkv_transfer_result *r)
{
	struct fkv_serve *s = arg;

	(void)r;
	s->pushing = false;
	serve_unhold(s);
}

static int push_begin(struct fkv_serve *s, const struct fkv_cmd *cmd)
{
	struct fkv_transfer_push p = {
		.op = s->wire,
		.peer = cmd->xfer.incarnation,
		.slot = cmd->xfer.slot,
		.generation = cmd->xfer.generation,
		.len = s->len,
		.done = on_push_done,
		.arg = s,
	};
	int err;

	if (s->pushing)
		return 0;
	err = fkv_transfer_push(s->m->transfer, &p);
	if (!err)
		s->pushing = true;
	return err;
}

/* A chunk buffer that is being sent: its core is told when it is not any more. */
struct piece {
	struct fkv_moves *m;
	uint64_t token;
};

static void piece_told(struct fkv_moves *m, uint64_t token, int err)
{
	struct fkv_in in = {
		.type = FKV_IN_MOVED,
		.token = token,
		.res = err,
	};

	m->stats.failed += !!err;
	fkv_moves_input(m, &in);
}

static void on_piece_done(void *arg, const struct fkv_transfer_result *r)
{
	struct piece *p = arg;
	struct piece was = *p;

	fkv_free(p);
	piece_told(was.m, was.token, r->err);
}

static int piece_begin(struct fkv_serve *s, const struct fkv_cmd *cmd)
{
	struct piece *p = fkv_zalloc(sizeof(*p));
	struct fkv_transfer_piece tp = {
		.offset = cmd->from,
		.at = cmd->offset - s->offset,
		.len = cmd->len,
		.last = cmd->xfer.last,
		.done = on_piece_done,
		.arg = p,
	};
	int err;

	if (!p)
		return -ENOMEM;
	p->m = s->m;
	p->token = cmd->token;
	err = push_begin(s, cmd);
	if (!err)
		err = fkv_transfer_push_piece(s->m->transfer, s->wire, &tp);
	if (err)
		fkv_free(p);
	return err;
}

void fkv_serve_piece(struct fkv_moves *m, const struct fkv_cmd *cmd)
{
	uint64_t wire = fkv_moves_wire(cmd->xfer.incarnation, cmd->xfer.op);
	struct fkv_serve *s = serve_find(m, wire);
	int err = s ? piece_begin(s, cmd) : -ENOENT;

	if (err)
		piece_told(m, cmd->token, err);
}

void fkv_serve_end(struct fkv_moves *m, const struct fkv_cmd *cmd)
{
	struct fkv_node *n = fkv_table_first(&m->serves, cmd->token);
	struct fkv_serve *s;

	if (!n)
		return;
	s = fkv_container_of(n, struct fkv_serve, node);
	fkv_table_del(&m->serves, &s->node);
	/* who waits for the rest is told in the connection, too */
	if (cmd->res && s->pushing)
		fkv_transfer_push_fail(m->transfer, s->wire, cmd->res);
	reply(m, &s->ask, cmd->res, cmd->len);
	s->answered = true;
	serve_unhold(s);
}

/* ---- room for puts ---- */

static struct fkv_opened *opened_find(const struct fkv_moves *m, uint64_t wire)
{
	struct fkv_node *n = fkv_table_first(&m->opened, wire);

	return n ? fkv_container_of(n, struct fkv_opened, node) : NULL;
}

static void opened_unlist(struct fkv_opened *o)
{
	if (o->listed)
		fkv_table_del(&o->m->opened, &o->node);
	o->listed = false;
	if (!o->open)
		fkv_free(o);
}

static void opened_answer(struct fkv_opened *o)
{
	if (o->asked)
		reply(o->m, &o->ask, o->res, 0);
	o->asked = false;
}

static void on_open_done(void *arg, const struct fkv_transfer_result *r)
{
	struct fkv_opened *o = arg;
	bool asked = o->asked;

	o->open = false;
	o->res = r->err;
	opened_answer(o);
	/* the writer will ask, or the master have it fenced */
	if (asked || !o->listed)
		opened_unlist(o);
}

void fkv_open_begin(struct fkv_moves *m, const struct fkv_cmd *cmd)
{
	struct fkv_transfer_target t = {
		.op = fkv_moves_wire(cmd->xfer.incarnation, cmd->xfer.op),
		.peer = cmd->xfer.incarnation,
		.offset = cmd->offset,
		.len = cmd->len,
		.first_ns = OPEN_NS,
		.done = on_open_done,
	};
	struct fkv_opened *o = opened_find(m, t.op);

	/* without it the writer's push fails, and its put stays with it */
	if (o || m->opened.count >= OPENED_MAX)
		return;
	o = fkv_zalloc(sizeof(*o));
	if (!o)
		return;
	o->m = m;
	o->wire = t.op;
	t.arg = o;
	if (fkv_transfer_open(m->transfer, &t)) {
		fkv_free(o);
		return;
	}
	o->open = o->listed = true;
	fkv_table_add(&m->opened, &o->node, o->wire);
}

void fkv_open_asked(struct fkv_moves *m, const struct fkv_rpc_ask *ask,
		    uint64_t peer, const struct fkv_cluster_pushed *q)
{
	struct fkv_opened *o = opened_find(m, fkv_moves_wire(peer, q->op));

	if (!o || o->asked) {
		reply(m, ask, -ENOENT, 0);
		return;
	}
	o->ask = *ask;
	o->asked = true;
	if (o->open)
		return;
	opened_answer(o);
	opened_unlist(o);
}

static void on_fenced(void *arg, const struct fkv_transfer_result *r)
{
	struct fkv_fencing *f = arg;
	struct fkv_in in = { .type = FKV_IN_FENCED, .token = f->token };
	struct fkv_moves *m = f->m;

	(void)r;
	fkv_free(f);
	fkv_moves_input(m, &in);
}

bool fkv_open_fence(struct fkv_moves *m, const struct fkv_cmd *cmd)
{
	uint64_t wire = fkv_moves_wire(cmd->xfer.incarnation, cmd->xfer.op);
	struct fkv_fencing *f = fkv_zalloc(sizeof(*f));
	struct fkv_opened *o = opened_find(m, wire);

	if (!f)
		return false;
	f->m = m;
	f->token = cmd->token;
	if (fkv_transfer_end(m->transfer, wire, on_fenced, f)) {
		fkv_free(f);
		return false;
	}
	if (o) {
		o->res = -ESTALE;
		opened_answer(o);
		opened_unlist(o);
	}
	return true;
}

void fkv_opened_drop(struct fkv_moves *m)
{
	struct fkv_node *n;
	uint64_t pos = 0;

	while ((n = fkv_table_drain(&m->opened, &pos))) {
		struct fkv_opened *o = fkv_container_of(n, struct fkv_opened,
							node);

		o->res = -ESHUTDOWN;
		opened_answer(o);
		opened_unlist(o);
	}
}
