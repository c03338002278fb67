// SPDX-License-Identifier: Apache-2.0
/*
 * transfer_sends.c - what leaves this host: exposures that are pulled, pushes,
 * and whose turn it is on a channel
 */
#include "io/transfer_internal.h"

static struct fkv_data_exposure *exposure_find(const struct fkv_data *x,
					       uint64_t op)
{
	struct fkv_node *n = fkv_table_first(&x->exposures, op);

	return n ? fkv_container_of(n, struct fkv_data_exposure, node) : NULL;
}

static struct fkv_data_send *push_find(const struct fkv_data *x, uint64_t op)
{
	struct fkv_node *n = fkv_table_first(&x->pushes, op);

	return n ? fkv_container_of(n, struct fkv_data_send, node) : NULL;
}

/* ---- turns ---- */

static void turn_join(struct fkv_data_send *s)
{
	if (s->in_turn)
		return;
	s->in_turn = true;
	TAILQ_INSERT_TAIL(&s->chan->turn, s, turn);
	s->chan->x->tp->kick(s->chan);
}

static void turn_leave(struct fkv_data_send *s)
{
	if (s->in_turn)
		TAILQ_REMOVE(&s->chan->turn, s, turn);
	s->in_turn = false;
}

/* ---- exposures ---- */

void fkv_data_expose(struct fkv_data *x, struct fkv_item *it)
{
	struct fkv_data_exposure *e =
		fkv_container_of(it, struct fkv_data_exposure, item);

	/* the same op once more: what it was before counts no more */
	fkv_data_unexpose(x, e->e.op);
	LIST_INIT(&e->sends);
	fkv_table_add(&x->exposures, &e->node, e->e.op);
}

static void exposure_end(struct fkv_data *x, struct fkv_data_exposure *e)
{
	struct fkv_data_send *s;

	while ((s = LIST_FIRST(&e->sends)))
		fkv_data_chan_close(s->chan, -ECONNABORTED, FKV_FAULT_SHARED);
	fkv_table_del(&x->exposures, &e->node);
	fkv_data_report(x, &e->item);
}

int fkv_data_unexpose(struct fkv_data *x, uint64_t op)
{
	struct fkv_data_exposure *e = exposure_find(x, op);

	if (!e)
		return -ENOENT;
	exposure_end(x, e);
	return 0;
}

void fkv_data_exposures_drop(struct fkv_data *x)
{
	struct fkv_node *n;
	uint64_t pos = 0;

	while ((n = fkv_table_drain(&x->exposures, &pos)))
		exposure_end(x, fkv_container_of(n, struct fkv_data_exposure,
						 node));
}

/* ---- pulls of peers ---- */

static int may_pull(const struct fkv_data_exposure *e, uint64_t reader,
		    const struct fkv_frame *f)
{
	if (!e || (e->e.reader && e->e.reader != reader))
		return -ENOENT;
	if (f->len > e->e.len || f->offset < e->e.offset ||
	    f->offset - e->e.offset > e->e.len - f->len)
		return -ERANGE;
	return 0;
}

int fkv_data_serve(struct fkv_data_chan *ch, const struct fkv_frame *f)
{
	struct fkv_data_exposure *e = exposure_find(ch->x, f->op);
	struct fkv_data_counts *counts = &ch->peer->counts;
	struct fkv_data_send *s;

	if (ch->nr >= FKV_TRANSFER_DEPTH)
		return -EPROTO;
	s = fkv_zalloc(sizeof(*s));
	if (!s)
		return -ENOMEM;
	if (!e)
		e = exposure_find(ch->x, 0);
	s->chan = ch;
	s->id = f->op;
	s->status = may_pull(e, ch->peer->incarnation, f);
	s->offset = f->offset;
	s->len = f->len;
	if (!s->status) {
		s->exposure = e;
		LIST_INSERT_HEAD(&e->sends, s, link);
	}
	fkv_data_count(s->status ? &counts->refused : &counts->served, 1);
	ch->nr++;
	turn_join(s);
	return 0;
}

static void serve_free(struct fkv_data_send *s)
{
	turn_leave(s);
	if (s->exposure)
		LIST_REMOVE(s, link);
	s->chan->nr--;
	fkv_free(s);
}

/* ---- pushes ---- */

static void pieces_end(struct fkv_data_send *s, int err,
		       enum fkv_transfer_fault fault, bool keep_first)
{
	struct fkv_data_piece *p, *first = STAILQ_FIRST(&s->pieces);

	if (first && keep_first)
		STAILQ_REMOVE_HEAD(&s->pieces, link);
	while ((p = STAILQ_FIRST(&s->pieces))) {
		STAILQ_REMOVE_HEAD(&s->pieces, link);
		fkv_data_report_err(s->x, &p->item, err, fault);
	}
	if (first && keep_first)
		STAILQ_INSERT_HEAD(&s->pieces, first, link);
}

static void push_finish(struct fkv_data_send *s, int err,
			enum fkv_transfer_fault fault)
{
	struct fkv_data *x = s->x;
	struct fkv_data_peer *p = fkv_data_peer_find(x, s->peer_life);

	pieces_end(s, err ? err : -ECANCELED, fault, false);
	fkv_timer_clear(&x->timers, &s->timer);
	fkv_table_del(&x->pushes, &s->node);
	if (s->chan) {
		turn_leave(s);
		LIST_REMOVE(s, link);
		s->chan->nr--;
	}
	if (p) {
		fkv_data_count(&p->counts.ops, 1);
		if (err)
			fkv_data_count(&p->counts.failures, 1);
	}
	s->item.res.bytes = s->sent;
	fkv_data_report_err(x, &s->item, err, fault);
}

static void push_may_speak(struct fkv_data_send *s)
{
	if (s->chan && (s->status || s->all || !STAILQ_EMPTY(&s->pieces)))
		turn_join(s);
}

static void push_bind(struct fkv_data_send *s, struct fkv_data_chan *ch)
{
	s->chan = ch;
	ch->nr++;
	LIST_INSERT_HEAD(&ch->pushes, s, link);
	fkv_timer_clear(&s->x->timers, &s->timer);
	push_may_speak(s);
}

static struct fkv_data_offer *offer_find(const struct fkv_data *x,
					 uint64_t peer_life, uint64_t op)
{
	struct fkv_node *n = fkv_table_first(&x->offers, op);

	for (; n; n = fkv_table_next(n)) {
		struct fkv_data_offer *o =
			fkv_container_of(n, struct fkv_data_offer, node);

		if (o->chan->peer->incarnation == peer_life)
			return o;
	}
	return NULL;
}

static struct fkv_data_chan *offer_take(struct fkv_data *x,
					struct fkv_data_offer *o)
{
	struct fkv_data_chan *ch = o->chan;

	fkv_table_del(&x->offers, &o->node);
	LIST_REMOVE(o, link);
	ch->nr--;
	fkv_free(o);
	return ch;
}

/* G3.2: the connection that was named, or none. */
static struct fkv_data_chan *named(struct fkv_data *x,
				   const struct fkv_data_send *s)
{
	struct fkv_data_peer *p = fkv_data_peer_find(x, s->peer_life);
	struct fkv_data_chan *ch = p ? p->in[s->slot] : NULL;

	if (!ch || ch->generation != s->generation ||
	    ch->nr >= FKV_TRANSFER_DEPTH)
		return NULL;
	return ch;
}

void fkv_data_push_start(struct fkv_data *x, struct fkv_item *it)
{
	struct fkv_data_send *s = fkv_container_of(it, struct fkv_data_send,
						   item);
	struct fkv_data_offer *o = NULL;
	struct fkv_data_chan *ch = NULL;

	s->x = x;
	s->timer.kind = FKV_DATA_T_PUSH;
	if (push_find(x, s->id)) {
		fkv_data_report_err(x, it, -EEXIST, FKV_FAULT_LOCAL);
		return;
	}
	if (s->generation)
		ch = named(x, s);
	else
		o = offer_find(x, s->peer_life, s->id);
	if (o)
		ch = offer_take(x, o);
	if (s->generation && !ch) {
		fkv_data_report_err(x, it, -ESTALE, FKV_FAULT_VOID);
		return;
	}
	fkv_table_add(&x->pushes, &s->node, s->id);
	if (ch)
		push_bind(s, ch);
	else
		fkv_timer_set(&x->timers, &s->timer,
			      x->now_ns + x->times.connect_ns);
}

void fkv_data_push_timer(struct fkv_data *x, struct fkv_data_send *s)
{
	(void)x;
	push_finish(s, -ETIMEDOUT, FKV_FAULT_VOID);
}

int fkv_data_offered(struct fkv_data_chan *ch, const struct fkv_frame *f)
{
	struct fkv_data_send *s = push_find(ch->x, f->op);
	struct fkv_data_offer *o;

	if (ch->nr >= FKV_TRANSFER_DEPTH)
		return -EPROTO;
	if (s && !s->chan && s->peer_life == ch->peer->incarnation) {
		push_bind(s, ch);
		return 0;
	}
	o = fkv_zalloc(sizeof(*o));
	if (!o)
		return -ENOMEM;
	o->chan = ch;
	o->id = f->op;
	fkv_table_add(&ch->x->offers, &o->node, f->op);
	LIST_INSERT_HEAD(&ch->offers, o, link);
	ch->nr++;
	return 0;
}

/* Is it of this value, and does it come in time? */
static bool piece_ok(const struct fkv_data_send *s,
		     const struct fkv_transfer_piece *p)
{
	return !s->all && !s->status && p->len <= s->len &&
	       p->at <= s->len - p->len;
}

void fkv_data_push_piece(struct fkv_data *x, struct fkv_item *it)
{
	struct fkv_data_piece *p = fkv_container_of(it, struct fkv_data_piece,
						    item);
	struct fkv_data_send *s = push_find(x, p->op);

	if (!s || !piece_ok(s, &p->p)) {
		fkv_data_report_err(x, it, s ? -EINVAL : -ENOENT,
				    FKV_FAULT_LOCAL);
		return;
	}
	STAILQ_INSERT_TAIL(&s->pieces, p, link);
	s->all = p->p.last;
	push_may_speak(s);
}

void fkv_data_push_fail(struct fkv_data *x, uint64_t op, int err)
{
	struct fkv_data_send *s = push_find(x, op);
	bool busy;

	if (!s || s->status)
		return;
	if (!s->chan) {
		push_finish(s, err, FKV_FAULT_LOCAL);
		return;
	}
	/* the frame that is under way has to be finished */
	busy = s->chan->current == s;
	s->status = err;
	pieces_end(s, err, FKV_FAULT_LOCAL, busy);
	push_may_speak(s);
}

void fkv_data_pushes_drop(struct fkv_data *x)
{
	struct fkv_node *n;
	uint64_t pos = 0;

	/* what had a channel has ended with it */
	while ((n = fkv_table_drain(&x->pushes, &pos)))
		push_finish(fkv_container_of(n, struct fkv_data_send, node),
			    -ECANCELED, FKV_FAULT_LOCAL);
}

/* ---- frames ---- */

static void next_data(const struct fkv_data_send *s, uint64_t at,
		      uint64_t offset, uint64_t left, struct fkv_data_out *o)
{
	o->data = (struct fkv_frame){
		.kind = FKV_FRAME_DATA, .op = s->id, .offset = at,
		.len = fkv_min_u64(left, FKV_FRAME_DATA_MAX),
	};
	o->payload = s->chan->x->segment + offset;
}

static void next_end(struct fkv_data_send *s, struct fkv_data_out *o)
{
	uint64_t total = s->sent + o->data.len;

	/* the last piece has come, and there was less, or more */
	if (!s->status && total != s->len)
		s->status = -EIO;
	o->end = true;
	o->last = (struct fkv_frame){
		.kind = FKV_FRAME_END, .op = s->id, .status = s->status,
		.len = total,
	};
}

static void next_push(struct fkv_data_send *s, struct fkv_data_out *o)
{
	struct fkv_data_piece *p = STAILQ_FIRST(&s->pieces);
	bool last = s->all && (!p || !STAILQ_NEXT(p, link));

	if (p && !s->status) {
		next_data(s, p->p.at + p->sent, p->p.offset + p->sent,
			  p->p.len - p->sent, o);
		last = last && p->sent + o->data.len == p->p.len;
	}
	if (last || s->status)
		next_end(s, o);
}

static void next_serve(struct fkv_data_send *s, struct fkv_data_out *o)
{
	if (!s->status)
		next_data(s, s->sent, s->offset + s->sent, s->len - s->sent, o);
	if (s->status || s->sent + o->data.len == s->len)
		next_end(s, o);
}

bool fkv_data_next(struct fkv_data_chan *ch, struct fkv_data_out *o)
{
	struct fkv_data_send *s = TAILQ_FIRST(&ch->turn);

	if (!s)
		return false;
	TAILQ_REMOVE(&ch->turn, s, turn);
	TAILQ_INSERT_TAIL(&ch->turn, s, turn);
	memset(o, 0, sizeof(*o));
	o->send = s;
	ch->current = s;
	if (s->push)
		next_push(s, o);
	else
		next_serve(s, o);
	return true;
}

static void piece_sent(struct fkv_data_send *s, uint64_t n)
{
	struct fkv_data_piece *p = STAILQ_FIRST(&s->pieces);

	p->sent += n;
	if (p->sent < p->p.len)
		return;
	STAILQ_REMOVE_HEAD(&s->pieces, link);
	p->item.res.bytes = p->sent;
	fkv_data_report(s->x, &p->item);
}

void fkv_data_sent(struct fkv_data_chan *ch, const struct fkv_data_out *o)
{
	struct fkv_data_send *s = o->send;

	ch->current = NULL;
	ch->sent_ns = ch->x->now_ns;
	s->sent += o->data.len;
	fkv_data_count(&ch->peer->counts.bytes_out, o->data.len);
	if (s->push && o->data.len)
		piece_sent(s, o->data.len);
	if (o->end && s->push)
		push_finish(s, s->status, s->status ? FKV_FAULT_LOCAL :
						      FKV_FAULT_NONE);
	else if (o->end)
		serve_free(s);
	else if (s->push && !s->status && STAILQ_EMPTY(&s->pieces))
		turn_leave(s);
	else if (s->status)
		pieces_end(s, s->status, FKV_FAULT_LOCAL, false);
}

void fkv_data_sends_fail(struct fkv_data_chan *ch, int err,
			 enum fkv_transfer_fault fault)
{
	struct fkv_data_offer *o;
	struct fkv_data_send *s;

	ch->current = NULL;
	while ((o = LIST_FIRST(&ch->offers)))
		offer_take(ch->x, o);
	while ((s = LIST_FIRST(&ch->pushes)))
		push_finish(s, err, fault);
	/* pulls of the peer: it knows */
	while ((s = TAILQ_FIRST(&ch->turn)))
		serve_free(s);
}
