// SPDX-License-Identifier: Apache-2.0
/*
 * extents.c - pages of the segment: who may write them, who reads them
 *
 * An extent is its op's to write from the master's plan until the owner says
 * that the op is over (PUT_DONE, REVOKE, GET_DONE; QUIET when it was held). A
 * page with a reader - a holder, a pin, a published entry, a hash or write
 * thread - must never be written, and never be planned for another op.
 */
#include "sim.h"

uint32_t sim_pages(uint64_t len)
{
	return (uint32_t)((len + SIM_PAGE - 1) / SIM_PAGE);
}

static struct sim_page *page_at(struct sim *s, uint64_t offset)
{
	sim_check(s, !(offset % SIM_PAGE) && offset / SIM_PAGE < s->cfg.pages,
		  "offset %lu is not in the segment", offset);
	return &s->l->page[offset / SIM_PAGE];
}

void sim_readers(struct sim *s, uint64_t offset, uint64_t len, int add)
{
	for (uint32_t i = 0; i < sim_pages(len); i++) {
		struct sim_page *p = page_at(s, offset + i * SIM_PAGE);

		sim_check(s, add > 0 || p->readers,
			  "(1) page %lu has no reader to leave",
			  offset / SIM_PAGE + i);
		if (add < 0)
			p->idle_ns = s->now_ns;
		sim_check(s, add < 0 || !p->writer,
			  "(2) page %lu has a reader while op %lu may write it",
			  offset / SIM_PAGE + i, p->writer);
		p->readers += (uint32_t)add;
	}
}

/* A published entry: like a reader, but it may be taken away. */
void sim_show(struct sim *s, uint64_t offset, uint64_t len, int add)
{
	for (uint32_t i = 0; i < sim_pages(len); i++) {
		struct sim_page *p = page_at(s, offset + i * SIM_PAGE);
		uint64_t idle = p->idle_ns;

		p->shown += (uint32_t)add;
		sim_readers(s, offset + i * SIM_PAGE, SIM_PAGE, add);
		p->idle_ns = idle;
	}
}

void sim_content(struct sim *s, const char *who, uint32_t key,
		 uint64_t put_id, uint64_t offset, uint64_t len)
{
	struct sim_version *v = sim_version(s, put_id);

	sim_check(s, v && v->key == key,
		  "(1) %s: put_id %lx is no version of key %u", who, put_id,
		  key);
	sim_check(s, v->len == len, "(1) %s: length %lu, was put with %lu",
		  who, len, v->len);
	for (uint32_t i = 0; i < sim_pages(len); i++) {
		struct sim_word *w = &page_at(s, offset + i * SIM_PAGE)->w;

		sim_check(s, w->key == key && w->tag == v->tag && w->page == i,
			  "(1) %s: key %u version %lx (put %lu) page %u at "
			  "%lu is key %u put %lu page %u", who, key, put_id,
			  v->tag, i, offset / SIM_PAGE + i, w->key, w->tag,
			  w->page);
	}
}

void sim_page_write(struct sim *s, const char *who, uint64_t op,
		    uint64_t offset, struct sim_word w)
{
	struct sim_page *p = page_at(s, offset);

	sim_check(s, p->writer == op,
		  "(2) %s of op %lu writes page %lu, which is op %lu's", who,
		  op, offset / SIM_PAGE, p->writer);
	sim_check(s, !p->readers, "(2) %s of op %lu writes page %lu, which "
		  "has readers", who, op, offset / SIM_PAGE);
	p->w = w;
}

struct sim_op *sim_op(struct sim *s, uint64_t op)
{
	if (op >= s->l->nr_ops) {
		size_t n = s->l->nr_ops ? s->l->nr_ops : 1024;

		while (n <= op)
			n *= 2;
		s->l->op = fkv_realloc(s->l->op, n * sizeof(*s->l->op));
		fkv_assert(s->l->op);
		memset(s->l->op + s->l->nr_ops, 0,
		       (n - s->l->nr_ops) * sizeof(*s->l->op));
		s->l->nr_ops = n;
	}
	return &s->l->op[op];
}

static void planned(struct sim *s, uint64_t id, const struct fkv_msg *msg)
{
	struct sim_op *op = sim_op(s, id);

	op->extent = msg->extent;
	op->offset = msg->offset;
	op->writer = true;
	s->exposed += sim_pages(op->len);
	for (uint32_t i = 0; i < sim_pages(op->len); i++) {
		struct sim_page *p = page_at(s, op->offset + i * SIM_PAGE);

		sim_check(s, !p->writer, "(2) page %lu is given to op %lu "
			  "while op %lu may write it",
			  op->offset / SIM_PAGE + i, id, p->writer);
		sim_check(s, !p->readers, "(2) page %lu is given to op %lu "
			  "while it has readers", op->offset / SIM_PAGE + i,
			  id);
		p->writer = id;
		p->extent = msg->extent;
	}
}

static void written(struct sim *s, uint64_t id)
{
	struct sim_op *op = sim_op(s, id);

	sim_check(s, op->writer, "(2) op %lu ends without a plan", id);
	sim_check(s, !sim_io_reads_into(s, id),
		  "(2) op %lu is over while I/O still writes to it", id);
	op->writer = false;
	s->exposed -= sim_pages(op->len);
	for (uint32_t i = 0; i < sim_pages(op->len); i++) {
		struct sim_page *p = page_at(s, op->offset + i * SIM_PAGE);

		fkv_assert(p->writer == id);
		p->writer = 0;
		p->idle_ns = s->now_ns;
	}
}

static void quiet(struct sim *s, uint64_t extent)
{
	for (size_t i = 0; i < s->l->nr_ops; i++) {
		if (!s->l->op[i].held || s->l->op[i].extent != extent)
			continue;
		s->l->op[i].held = false;
		written(s, i);
	}
}

/* A message on its way to the master. */
void sim_saw_request(struct sim *s, const struct fkv_msg *msg)
{
	struct sim_op *op;

	switch (msg->type) {
	case FKV_MSG_PUT_START:
	case FKV_MSG_GET_START:
	case FKV_MSG_DELETE:
		op = sim_op(s, msg->op);
		op->began = msg->type;
		op->key = sim_key_of(msg->key);
		op->len = msg->len;
		op->flags = msg->flags;
		op->class = msg->type == FKV_MSG_PUT_START ? FKV_CLASS_PUT :
			msg->class;
		break;
	case FKV_MSG_SSD_COMMIT:
		sim_io_committed(s, msg);
		break;
	case FKV_MSG_GET_DONE:
		sim_content(s, "filled", sim_op(s, msg->op)->key,
			    sim_op(s, msg->op)->put_id,
			    sim_op(s, msg->op)->offset,
			    sim_op(s, msg->op)->len);
		written(s, msg->op);
		break;
	case FKV_MSG_PUT_DONE:
	case FKV_MSG_GET_REVOKE:
		written(s, msg->op);
		break;
	case FKV_MSG_PUT_REVOKE:
		if (msg->held)
			sim_op(s, msg->op)->held = true;
		else
			written(s, msg->op);
		break;
	case FKV_MSG_QUIET:
		quiet(s, msg->extent);
		break;
	case FKV_MSG_SSD_LOST:
		sim_io_void(s, sim_key_of(msg->key), msg->put_id,
			    msg->put_id);
		break;
	case FKV_MSG_SSD_STATE:
		sim_io_void(s, SIM_HEADER, 0, UINT64_MAX);
		break;
	default:
		break;
	}
}

static void put_done(struct sim *s, const struct fkv_msg *msg)
{
	struct sim_op *op = sim_op(s, msg->op);
	struct sim_version *v = sim_version(s, msg->put_id);

	sim_check(s, v && !v->tag, "(3) put_id %lx is given twice",
		  msg->put_id);
	*v = (struct sim_version){
		.key = op->key,
		.tag = sim_tag(s, msg->op),
		.len = op->len,
	};
	sim_check(s, !(op->flags & FLUXONKV_PUT_EXCL) ||
		  !sim_current(s, op->key),
		  "(3) an exclusive put of key %u replaces %lx", op->key,
		  sim_current(s, op->key));
	sim_check(s, op->extent == msg->extent,
		  "(4) PUT_DONE_R of another extent");
	sim_effect(s, op->key, msg->put_id);
	sim_content(s, "put", op->key, msg->put_id, op->offset, op->len);
}

static void get_plan(struct sim *s, const struct fkv_msg *msg)
{
	struct sim_op *op = sim_op(s, msg->op);

	op->len = msg->len;
	op->put_id = msg->put_id;
	sim_version(s, msg->put_id)->uses++;
	if (msg->source == FLUXONKV_SOURCE_SSD_LOCAL) {
		planned(s, msg->op, msg);
		return;
	}
	sim_content(s, "plan from memory", op->key, msg->put_id, msg->offset,
		    msg->len);
}

/* A message from the master. */
void sim_saw_answer(struct sim *s, const struct fkv_msg *msg)
{
	sim_books_sent(s, msg);
	switch (msg->type) {
	case FKV_MSG_PUT_PLAN:
		if (!msg->res)
			planned(s, msg->op, msg);
		break;
	case FKV_MSG_GET_PLAN:
		if (!msg->res)
			get_plan(s, msg);
		break;
	case FKV_MSG_PUT_DONE_R:
		if (!msg->res)
			put_done(s, msg);
		break;
	case FKV_MSG_DELETE_R:
		if (!msg->res)
			sim_effect(s, sim_op(s, msg->op)->key, 0);
		break;
	default:
		break;
	}
}
