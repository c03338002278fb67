// SPDX-License-Identifier: Apache-2.0
/*
 * transfer_chan.c - peers, the channels between us, and their generations
 */
#include "io/transfer_internal.h"

struct fkv_data_peer *fkv_data_peer_find(const struct fkv_data *x,
					 uint64_t incarnation)
{
	struct fkv_node *n = fkv_table_first(&x->peers, incarnation);

	return n ? fkv_container_of(n, struct fkv_data_peer, node) : NULL;
}

bool fkv_data_is_gone(const struct fkv_data *x, uint64_t incarnation)
{
	for (uint32_t i = 0; i < FKV_TRANSFER_GONE_MAX && i < x->nr_gone; i++)
		if (x->gone[i] == incarnation)
			return true;
	return false;
}

static void peer_link(struct fkv_data *x, struct fkv_data_peer *p)
{
	p->x = x;
	TAILQ_INIT(&p->waiting);
	fkv_table_add(&x->peers, &p->node, p->incarnation);
	pthread_mutex_lock(&x->t->peers_lock);
	TAILQ_INSERT_TAIL(&x->t->peers, p, link);
	pthread_mutex_unlock(&x->t->peers_lock);
}

/* Another life of that name, that is known to be one. */
static struct fkv_data_peer *namesake(const struct fkv_data *x,
				      const char *name, uint64_t incarnation)
{
	struct fkv_data_peer *p;

	/* only this thread changes the list */
	TAILQ_FOREACH(p, &x->t->peers, link)
		if (p->known && p->incarnation != incarnation &&
		    !strcmp(p->name, name))
			return p;
	return NULL;
}

bool fkv_data_peer_add(struct fkv_data *x, struct fkv_data_peer *fresh)
{
	struct fkv_data_peer *p = namesake(x, fresh->name, fresh->incarnation);

	if (p)
		fkv_data_peer_gone(x, p->incarnation);
	p = fkv_data_peer_find(x, fresh->incarnation);
	if (!p) {
		peer_link(x, fresh);
		return true;
	}
	pthread_mutex_lock(&x->t->peers_lock);
	memcpy(p->name, fresh->name, sizeof(p->name));
	pthread_mutex_unlock(&x->t->peers_lock);
	p->at = fresh->at;
	p->known = true;
	return false;
}

static void peer_free(struct fkv_data *x, struct fkv_data_peer *p, int err,
		      enum fkv_transfer_fault fault)
{
	fkv_data_waiting_fail(p, err, fault);
	for (uint32_t i = 0; i < FKV_TRANSFER_SLOTS; i++) {
		if (p->out[i])
			fkv_data_chan_close(p->out[i], err, fault);
		if (p->in[i])
			fkv_data_chan_close(p->in[i], err, fault);
	}
	fkv_table_del(&x->peers, &p->node);
	pthread_mutex_lock(&x->t->peers_lock);
	TAILQ_REMOVE(&x->t->peers, p, link);
	pthread_mutex_unlock(&x->t->peers_lock);
	fkv_free(p);
}

void fkv_data_peer_gone(struct fkv_data *x, uint64_t incarnation)
{
	struct fkv_data_peer *p = fkv_data_peer_find(x, incarnation);

	if (!fkv_data_is_gone(x, incarnation))
		x->gone[x->nr_gone++ % FKV_TRANSFER_GONE_MAX] = incarnation;
	if (p)
		peer_free(x, p, -ESTALE, FKV_FAULT_TRANSPORT);
}

void fkv_data_peers_drop(struct fkv_data *x)
{
	struct fkv_node *n;
	uint64_t pos = 0;

	while ((n = fkv_table_drain(&x->peers, &pos)))
		peer_free(x, fkv_container_of(n, struct fkv_data_peer, node),
			  -ECANCELED, FKV_FAULT_LOCAL);
	x->tp->shed(x);
}

/* ---- channels ---- */

void fkv_data_chan_init(struct fkv_data *x, struct fkv_data_chan *ch,
			bool dialled)
{
	ch->x = x;
	ch->dialled = dialled;
	ch->timer.kind = FKV_DATA_T_CHAN;
	TAILQ_INIT(&ch->ops);
	TAILQ_INIT(&ch->turn);
	LIST_INIT(&ch->pushes);
	LIST_INIT(&ch->offers);
	fkv_timer_set(&x->timers, &ch->timer,
		      fkv_clock_ns() + x->times.connect_ns);
	fkv_data_count(&x->connections, 1);
}

static void place(struct fkv_data_chan *ch, struct fkv_data_peer *p,
		  uint32_t slot, uint64_t generation)
{
	struct fkv_data_counts *c = &p->counts;

	ch->peer = p;
	ch->slot = slot;
	ch->generation = generation;
	if (ch->dialled) {
		p->out[slot] = ch;
		fkv_data_count(&c->channels_out, 1);
		atomic_store_explicit(&c->generation, generation,
				      memory_order_relaxed);
	} else {
		p->in[slot] = ch;
		p->in_generation[slot] = generation;
		fkv_data_count(&c->channels_in, 1);
	}
}

static void displace(struct fkv_data_chan *ch)
{
	struct fkv_data_peer *p = ch->peer;

	if (!p)
		return;
	ch->peer = NULL;
	if (ch->dialled) {
		p->out[ch->slot] = NULL;
		fkv_data_count(&p->counts.channels_out, -1);
	} else {
		p->in[ch->slot] = NULL;
		fkv_data_count(&p->counts.channels_in, -1);
	}
}

int fkv_data_chan_dial(struct fkv_data *x, struct fkv_data_peer *p)
{
	struct fkv_data_chan *ch;
	uint32_t slot = 0;
	int err;

	while (p->out[slot])
		slot++;
	fkv_assert(slot < FKV_TRANSFER_SLOTS);
	fkv_data_count(&x->dials, 1);
	err = x->tp->dial(x, p, &ch);
	if (!err)
		place(ch, p, slot, ++x->next_generation);
	return err;
}

void fkv_data_chan_up(struct fkv_data_chan *ch)
{
	ch->state = FKV_CHAN_UP;
	fkv_timer_clear(&ch->x->timers, &ch->timer);
	if (ch->dialled)
		fkv_data_peer_feed(ch->x, ch->peer);
}

/* A peer that we were not told of yet. */
static int peer_meet(struct fkv_data *x, const struct fkv_auth *a,
		     struct fkv_data_peer **ret)
{
	struct fkv_data_peer *p;

	if (fkv_data_is_gone(x, a->peer_incarnation) ||
	    namesake(x, a->peer_name, a->peer_incarnation))
		return -ESTALE;
	p = fkv_data_peer_find(x, a->peer_incarnation);
	if (!p) {
		if (x->peers.count >= FKV_TRANSFER_PEERS_MAX)
			return -EUSERS;
		p = fkv_zalloc(sizeof(*p));
		if (!p)
			return -ENOMEM;
		p->incarnation = a->peer_incarnation;
		strcpy(p->name, a->peer_name);
		peer_link(x, p);
	}
	*ret = p;
	return strcmp(p->name, a->peer_name) ? -ESTALE : 0;
}

int fkv_data_chan_attach(struct fkv_data_chan *ch, const struct fkv_auth *a,
			 const struct fkv_frame *f)
{
	struct fkv_data_peer *p;
	int err = peer_meet(ch->x, a, &p);

	if (err)
		return err;
	/* a generation that was, or was passed over, does not come again */
	if (f->op <= p->in_generation[f->slot])
		return -ESTALE;
	if (p->in[f->slot])
		fkv_data_chan_close(p->in[f->slot], -ECONNRESET,
				    FKV_FAULT_TRANSPORT);
	place(ch, p, f->slot, f->op);
	fkv_data_chan_up(ch);
	return 0;
}

/* Nobody is left who could carry what waits, or a new channel may. */
static void after(struct fkv_data *x, struct fkv_data_peer *p, bool opening,
		  int err)
{
	bool others = false;

	for (uint32_t i = 0; i < FKV_TRANSFER_SLOTS; i++)
		others |= p->out[i] != NULL;
	if (opening && !others)
		fkv_data_waiting_fail(p, err, FKV_FAULT_TRANSPORT);
	else if (!opening)
		fkv_data_peer_feed(x, p);
}

void fkv_data_chan_close(struct fkv_data_chan *ch, int err,
			 enum fkv_transfer_fault fault)
{
	bool opening = ch->state == FKV_CHAN_OPENING;
	struct fkv_data_peer *p = ch->peer;
	struct fkv_data *x = ch->x;

	if (ch->state == FKV_CHAN_DEAD)
		return;
	ch->state = FKV_CHAN_DEAD;
	fkv_timer_clear(&x->timers, &ch->timer);
	/* from here on the kernel has no memory of ours */
	x->tp->destroy(ch);
	displace(ch);
	fkv_data_count(&x->connections, -1);
	fkv_data_ops_fail(ch, err, fault);
	fkv_data_sends_fail(ch, err, fault);
	if (p && ch->dialled)
		after(x, p, opening, err);
}

void fkv_data_chan_timer(struct fkv_data *x, struct fkv_data_chan *ch)
{
	uint64_t until = ch->sent_ns + x->times.stall_ns;

	if (ch->state == FKV_CHAN_UP && until > x->now_ns) {
		fkv_timer_set(&x->timers, &ch->timer, until);
		return;
	}
	fkv_data_count(&x->stalls, 1);
	fkv_data_chan_close(ch, -ETIMEDOUT, FKV_FAULT_TRANSPORT);
}

void fkv_data_chan_sending(struct fkv_data_chan *ch, bool sending)
{
	struct fkv_data *x = ch->x;

	if (ch->state != FKV_CHAN_UP || ch->timer.armed == sending)
		return;
	if (!sending) {
		fkv_timer_clear(&x->timers, &ch->timer);
		return;
	}
	ch->sent_ns = fkv_clock_ns();
	fkv_timer_set(&x->timers, &ch->timer, ch->sent_ns + x->times.stall_ns);
}

static void chan_excuse(struct fkv_data_chan *ch)
{
	struct fkv_data *x = ch->x;
	struct fkv_data_op *op;

	ch->sent_ns = x->now_ns;
	if (ch->timer.armed)
		fkv_timer_set(&x->timers, &ch->timer,
			      x->now_ns + x->times.stall_ns);
	TAILQ_FOREACH(op, &ch->ops, link)
		fkv_timer_set(&x->timers, &op->timer,
			      x->now_ns + x->times.stall_ns);
}

static void peer_excuse(struct fkv_data_peer *p)
{
	for (uint32_t i = 0; i < FKV_TRANSFER_SLOTS; i++) {
		if (p->out[i])
			chan_excuse(p->out[i]);
		if (p->in[i])
			chan_excuse(p->in[i]);
	}
}

void fkv_data_excuse(struct fkv_data *x)
{
	struct fkv_data_peer *p;

	TAILQ_FOREACH(p, &x->t->peers, link)
		peer_excuse(p);
}
