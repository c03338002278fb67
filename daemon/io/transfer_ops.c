// SPDX-License-Identifier: Apache-2.0
/*
 * transfer_ops.c - ops whose target is here: where bytes may land, and when
 * they have all come
 */
#include "io/transfer_internal.h"

static struct fkv_data_op *op_find(const struct fkv_data *x, uint64_t id)
{
	struct fkv_node *n = fkv_table_first(&x->ops, id);

	return n ? fkv_container_of(n, struct fkv_data_op, node) : NULL;
}

/* Its end: nothing writes to its target any more. */
static void op_finish(struct fkv_data *x, struct fkv_data_op *op, int err,
		      enum fkv_transfer_fault fault)
{
	struct fkv_data_peer *p = op->peer;

	fkv_table_del(&x->ops, &op->node);
	fkv_timer_clear(&x->timers, &op->timer);
	if (op->chan) {
		TAILQ_REMOVE(&op->chan->ops, op, link);
		op->chan->nr--;
	} else {
		TAILQ_REMOVE(&p->waiting, op, link);
		p->nr_waiting--;
	}
	fkv_data_count(&p->counts.ops, 1);
	if (err)
		fkv_data_count(&p->counts.failures, 1);
	fkv_data_report_err(x, &op->item, err, fault);
}

/* ---- which channel ---- */

/* The least loaded; none while others that open will soon have room. */
static struct fkv_data_chan *choose(struct fkv_data_peer *p, bool opening)
{
	uint32_t most = opening ? 2 : FKV_TRANSFER_DEPTH;
	struct fkv_data_chan *best = NULL;

	for (uint32_t i = 0; i < FKV_TRANSFER_SLOTS; i++) {
		struct fkv_data_chan *ch = p->out[i];

		if (ch && ch->state == FKV_CHAN_UP && ch->nr < most) {
			best = ch;
			most = ch->nr;
		}
	}
	return best;
}

static void assign(struct fkv_data *x, struct fkv_data_op *op,
		   struct fkv_data_chan *ch)
{
	uint64_t ns = x->times.stall_ns;

	TAILQ_REMOVE(&op->peer->waiting, op, link);
	op->peer->nr_waiting--;
	op->chan = ch;
	TAILQ_INSERT_TAIL(&ch->ops, op, link);
	ch->nr++;
	if (op->first_ns)
		ns = op->first_ns;
	fkv_timer_set(&x->timers, &op->timer, x->now_ns + ns);
	if (!op->ready_fn) {
		x->tp->ask(ch, op);
		return;
	}
	op->slot = ch->slot;
	op->generation = ch->generation;
	fkv_data_report(x, &op->ready);
}

struct tally {
	uint32_t all, idle, opening;
};

static struct tally count(const struct fkv_data_peer *p)
{
	struct tally n = { 0 };

	for (uint32_t i = 0; i < FKV_TRANSFER_SLOTS; i++) {
		const struct fkv_data_chan *ch = p->out[i];

		n.all += ch != NULL;
		n.opening += ch && ch->state == FKV_CHAN_OPENING;
		n.idle += ch && ch->state == FKV_CHAN_UP && !ch->nr;
	}
	return n;
}

void fkv_data_peer_feed(struct fkv_data *x, struct fkv_data_peer *p)
{
	struct tally n = count(p);
	struct fkv_data_chan *ch;
	int err = 0;

	while (p->known && p->nr_waiting > n.idle + n.opening &&
	       n.all < x->channels) {
		err = fkv_data_chan_dial(x, p);
		if (err)
			break;
		n.all++;
		n.opening++;
	}
	if (!n.all)
		fkv_data_waiting_fail(p, err ? err : -EHOSTUNREACH,
				      FKV_FAULT_TRANSPORT);
	while (p->nr_waiting && (ch = choose(p, n.opening)))
		assign(x, TAILQ_FIRST(&p->waiting), ch);
}

/* ---- begin and end ---- */

void fkv_data_op_start(struct fkv_data *x, struct fkv_item *it)
{
	struct fkv_data_op *op = fkv_container_of(it, struct fkv_data_op, item);
	struct fkv_data_peer *p = fkv_data_peer_find(x, op->peer_life);

	op->timer.kind = FKV_DATA_T_OP;
	if (op_find(x, op->id)) {
		fkv_data_report_err(x, it, -EEXIST, FKV_FAULT_LOCAL);
		return;
	}
	if (!p || !p->known) {
		fkv_data_report_err(x, it, fkv_data_is_gone(x, op->peer_life) ?
				    -ESTALE : -EHOSTUNREACH,
				    FKV_FAULT_TRANSPORT);
		return;
	}
	op->peer = p;
	fkv_table_add(&x->ops, &op->node, op->id);
	TAILQ_INSERT_TAIL(&p->waiting, op, link);
	p->nr_waiting++;
	fkv_data_peer_feed(x, p);
}

int fkv_data_op_end(struct fkv_data *x, uint64_t id)
{
	struct fkv_data_op *op = op_find(x, id);

	if (!op)
		return -ENOENT;
	if (!op->chan) {
		op_finish(x, op, -ECANCELED, FKV_FAULT_LOCAL);
		return 0;
	}
	op->own_err = -ECANCELED;
	op->own_fault = FKV_FAULT_LOCAL;
	fkv_data_chan_close(op->chan, -ECONNABORTED, FKV_FAULT_SHARED);
	return 0;
}

/*
 * It has made no progress. Others of its channel that have made none for half
 * that time are not its victims: the peer is silent to all of them.
 */
void fkv_data_op_timer(struct fkv_data *x, struct fkv_data_op *op)
{
	uint64_t soon = x->now_ns + x->times.stall_ns / 2;
	struct fkv_data_op *other;

	fkv_data_count(&x->stalls, 1);
	TAILQ_FOREACH(other, &op->chan->ops, link) {
		if (other != op && other->timer.when_ns > soon)
			continue;
		other->own_err = -ETIMEDOUT;
		other->own_fault = FKV_FAULT_TRANSPORT;
	}
	fkv_data_chan_close(op->chan, -ECONNABORTED, FKV_FAULT_SHARED);
}

void fkv_data_ops_fail(struct fkv_data_chan *ch, int err,
		       enum fkv_transfer_fault fault)
{
	struct fkv_data_op *op;

	fkv_assert(ch->state == FKV_CHAN_DEAD);
	while ((op = TAILQ_FIRST(&ch->ops))) {
		bool own = op->own_err;

		op_finish(ch->x, op, own ? op->own_err : err,
			  own ? op->own_fault : fault);
	}
}

void fkv_data_waiting_fail(struct fkv_data_peer *p, int err,
			   enum fkv_transfer_fault fault)
{
	struct fkv_data_op *op;

	while ((op = TAILQ_FIRST(&p->waiting)))
		op_finish(p->x, op, err, fault);
}

/* ---- bytes ---- */

uint8_t *fkv_data_op_data(struct fkv_data_chan *ch, const struct fkv_frame *f,
			  struct fkv_data_op **ret)
{
	struct fkv_data_op *op = op_find(ch->x, f->op);

	if (!op || op->chan != ch || f->len > op->len ||
	    f->offset > op->len - f->len ||
	    fkv_spans_add(&op->spans, f->offset, f->offset + f->len))
		return NULL;
	*ret = op;
	return ch->x->segment + op->offset + f->offset;
}

void fkv_data_op_progress(struct fkv_data_op *op, uint64_t bytes)
{
	struct fkv_data *x = op->chan->x;

	op->item.res.bytes += bytes;
	fkv_data_count(&op->peer->counts.bytes_in, bytes);
	fkv_timer_set(&x->timers, &op->timer, x->now_ns + x->times.stall_ns);
}

int fkv_data_op_ended(struct fkv_data_chan *ch, const struct fkv_frame *f)
{
	struct fkv_data *x = ch->x;
	struct fkv_data_op *op = op_find(x, f->op);
	struct fkv_data_peer *p;

	if (!op || op->chan != ch)
		return -EPROTO;
	if (!f->status &&
	    (f->len != op->len || !fkv_spans_full(&op->spans, op->len)))
		return -EPROTO;
	p = op->peer;
	op_finish(x, op, f->status,
		  f->status ? FKV_FAULT_SOURCE : FKV_FAULT_NONE);
	fkv_data_peer_feed(x, p);
	return 0;
}
