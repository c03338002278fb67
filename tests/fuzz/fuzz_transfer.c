// SPDX-License-Identifier: Apache-2.0
/*
 * fuzz_transfer.c - frames of a peer that says anything, against the tables
 * that say where bytes may land and what may leave
 *
 * Input: steps of one byte and its arguments: calls of this host, frames of
 * either kind of channel, time. The transport is none: a DATA frame that is
 * taken fills what it was given. Whatever comes, bytes land only in the target
 * of an op that is open, leave only from what is exposed or pushed, and each
 * call is reported once.
 */
#include "io/transfer_internal.h"

#include "fuzz/fuzz.h"

#define SEGMENT		4096u
#define IDS		8u
#define PEER		5u
#define STEPS		400u

static uv_loop_t loop;
static struct fkv_transfer t;
static uint8_t segment[SEGMENT];
static struct fkv_data_chan *dialled[FKV_TRANSFER_SLOTS];
static struct fkv_data_chan *accepted[FKV_TRANSFER_SLOTS];
static unsigned int posted, reported;

/* what each op of ours may touch; len 0: nothing */
static struct {
	uint64_t offset, len;
} target[IDS];

/* ---- no transport ---- */

static int none_dial(struct fkv_data *x, const struct fkv_data_peer *p,
		     struct fkv_data_chan **ret)
{
	uint32_t i = 0;

	(void)p;
	while (dialled[i])
		if (++i == FKV_TRANSFER_SLOTS)
			return -ENOMEM;
	*ret = dialled[i] = fkv_zalloc(sizeof(**ret));
	fkv_data_chan_init(x, *ret, true);
	return 0;
}

static void none_ask(struct fkv_data_chan *ch, const struct fkv_data_op *op)
{
	fuzz_check(ch->state == FKV_CHAN_UP && op->chan == ch);
}

static void none_kick(struct fkv_data_chan *ch)
{
	fuzz_check(ch->state == FKV_CHAN_UP);
}

/* Freed by sweep(): callers still look at its state. */
static void none_destroy(struct fkv_data_chan *ch)
{
	fuzz_check(ch->state == FKV_CHAN_DEAD);
}

static void sweep(struct fkv_data_chan **all)
{
	for (uint32_t i = 0; i < FKV_TRANSFER_SLOTS; i++) {
		if (!all[i] || all[i]->state != FKV_CHAN_DEAD)
			continue;
		fkv_free(all[i]);
		all[i] = NULL;
	}
}

static void none_shed(struct fkv_data *x)
{
	(void)x;
	for (uint32_t i = 0; i < FKV_TRANSFER_SLOTS; i++)
		if (accepted[i])
			fkv_data_chan_close(accepted[i], -ECANCELED,
					    FKV_FAULT_LOCAL);
}

static const struct fkv_transport none = {
	.name = "none", .dial = none_dial, .ask = none_ask, .kick = none_kick,
	.destroy = none_destroy, .shed = none_shed,
};

/* ---- calls ---- */

static void report_op(struct fkv_transfer *tt, struct fkv_item *it)
{
	struct fkv_data_op *op = fkv_container_of(it, struct fkv_data_op, item);

	(void)tt;
	reported++;
	/* an id that was there already never had a target */
	if (it->res.err != -EEXIST)
		target[op->id].len = 0;
	fkv_free(op);
}

static void report_ready(struct fkv_transfer *tt, struct fkv_item *it)
{
	(void)tt;
	(void)it;
}

static void report_exposure(struct fkv_transfer *tt, struct fkv_item *it)
{
	(void)tt;
	reported++;
	fkv_free(fkv_container_of(it, struct fkv_data_exposure, item));
}

static void report_push(struct fkv_transfer *tt, struct fkv_item *it)
{
	(void)tt;
	reported++;
	fkv_free(fkv_container_of(it, struct fkv_data_send, item));
}

static void report_piece(struct fkv_transfer *tt, struct fkv_item *it)
{
	(void)tt;
	reported++;
	fkv_free(fkv_container_of(it, struct fkv_data_piece, item));
}

static void results(void)
{
	struct fkv_item *it;

	while ((it = STAILQ_FIRST(&t.results))) {
		STAILQ_REMOVE_HEAD(&t.results, link);
		it->report(&t, it);
	}
	sweep(dialled);
	sweep(accepted);
}

static uint64_t id_of(struct fuzz_in *in)
{
	return 1 + fuzz_u8(in) % (IDS - 1);
}

/* A range of the segment. */
static void range(struct fuzz_in *in, uint64_t *offset, uint64_t *len)
{
	*offset = fuzz_u16(in) % SEGMENT;
	*len = 1 + fuzz_u16(in) % (SEGMENT - *offset);
}

static void on_ready(void *arg, uint32_t slot, uint64_t generation)
{
	(void)arg;
	(void)slot;
	(void)generation;
}

static void call_op(struct fuzz_in *in)
{
	struct fkv_data_op *op = fkv_zalloc(sizeof(*op));
	uint8_t kind = fuzz_u8(in);

	op->item.report = report_op;
	op->ready.report = report_ready;
	op->pull = kind & 1;
	op->ready_fn = kind & 2 && !op->pull ? on_ready : NULL;
	op->id = id_of(in);
	op->peer_life = PEER + (kind > 250);
	range(in, &op->offset, &op->len);
	if (!fkv_table_first(&t.x.ops, op->id)) {
		target[op->id].offset = op->offset;
		target[op->id].len = op->len;
	}
	posted++;
	fkv_data_op_start(&t.x, &op->item);
}

static void call_expose(struct fuzz_in *in)
{
	struct fkv_data_exposure *e = fkv_zalloc(sizeof(*e));

	e->item.report = report_exposure;
	e->e.op = fuzz_u8(in) % IDS;
	range(in, &e->e.offset, &e->e.len);
	posted++;
	fkv_data_expose(&t.x, &e->item);
}

static void call_push(struct fuzz_in *in)
{
	struct fkv_data_send *s = fkv_zalloc(sizeof(*s));
	uint8_t named = fuzz_u8(in);

	STAILQ_INIT(&s->pieces);
	s->item.report = report_push;
	s->push = true;
	s->id = id_of(in);
	s->peer_life = PEER;
	s->slot = named % 2;
	s->generation = named / 2 % 16;
	s->len = 1 + fuzz_u16(in) % SEGMENT;
	posted++;
	fkv_data_push_start(&t.x, &s->item);
}

static void call_piece(struct fuzz_in *in)
{
	struct fkv_data_piece *p = fkv_zalloc(sizeof(*p));

	p->item.report = report_piece;
	p->op = id_of(in);
	range(in, &p->p.offset, &p->p.len);
	p->p.at = fuzz_u16(in) % SEGMENT;
	p->p.last = fuzz_u8(in) & 1;
	posted++;
	fkv_data_push_piece(&t.x, &p->item);
}

/* ---- frames ---- */

/* Any head, or one with numbers that are likely. */
static bool frame(struct fuzz_in *in, bool by_dialer, struct fkv_frame *f)
{
	uint8_t head[FKV_FRAME_HEAD] = { 0 }, again[FKV_FRAME_HEAD];
	uint8_t choice = fuzz_u8(in);

	if (choice == 255) {
		fuzz_take(in, head, sizeof(head));
	} else {
		head[0] = choice % 8;
		head[4] = fuzz_u8(in) % 20;
		head[8] = fuzz_u8(in) % (IDS + 8);
		fuzz_take(in, head + 16, 2);
		fuzz_take(in, head + 24, 2);
	}
	if (fkv_frame_parse(head, by_dialer, f))
		return false;
	fkv_frame_make(f, again);
	fuzz_check(!memcmp(head, again, sizeof(head)));
	return true;
}

static void data(struct fkv_data_chan *ch, const struct fkv_frame *f)
{
	struct fkv_data_op *op;
	uint8_t *to = fkv_data_op_data(ch, f, &op);
	uint64_t at;

	if (!to) {
		fkv_data_chan_close(ch, -EPROTO, FKV_FAULT_TRANSPORT);
		return;
	}
	at = (uint64_t)(to - segment);
	fuzz_check(op->chan == ch && op->id == f->op);
	fuzz_check(at >= target[op->id].offset &&
		   at + f->len <= target[op->id].offset + target[op->id].len);
	memset(to, 1, f->len);
	fkv_data_op_progress(op, f->len);
}

static void from_source(struct fuzz_in *in)
{
	struct fkv_data_chan *ch = dialled[fuzz_u8(in) % 2];
	bool up = ch && ch->state == FKV_CHAN_UP;
	struct fkv_frame f;

	if (ch && !up) {
		fkv_data_chan_up(ch);
		return;
	}
	if (!ch || !frame(in, false, &f))
		return;
	if (up && f.kind == FKV_FRAME_DATA)
		data(ch, &f);
	else if (!up || f.kind != FKV_FRAME_END || fkv_data_op_ended(ch, &f))
		fkv_data_chan_close(ch, -EPROTO, FKV_FAULT_TRANSPORT);
}

static void from_reader(struct fuzz_in *in)
{
	uint32_t i = fuzz_u8(in) % 2;
	struct fkv_auth a = { .peer_incarnation = PEER, .peer_name = "peer" };
	struct fkv_data_chan *ch = accepted[i];
	struct fkv_frame f;
	int err = -EPROTO;

	if (!ch) {
		ch = accepted[i] = fkv_zalloc(sizeof(*ch));
		fkv_data_chan_init(&t.x, ch, false);
		/* small: pushes that name one are to find it */
		f = (struct fkv_frame){ .kind = FKV_FRAME_ATTACH, .slot = i,
					.op = 1 + fuzz_u8(in) % 16 };
		err = fkv_data_chan_attach(ch, &a, &f);
	} else if (!frame(in, true, &f)) {
		return;
	} else if (ch->state == FKV_CHAN_UP && f.kind == FKV_FRAME_PULL)
		err = fkv_data_serve(ch, &f);
	else if (ch->state == FKV_CHAN_UP && f.kind == FKV_FRAME_TARGET)
		err = fkv_data_offered(ch, &f);
	if (err)
		fkv_data_chan_close(ch, err, FKV_FAULT_TRANSPORT);
}

static void check_out(const struct fkv_data_out *o)
{
	const struct fkv_data_send *s = o->send;
	uint64_t from = (uint64_t)(o->payload - segment);

	if (!o->data.len)
		return;
	fuzz_check(o->data.len <= FKV_FRAME_DATA_MAX &&
		   from + o->data.len <= SEGMENT);
	if (s->push) {
		fuzz_check(o->data.offset + o->data.len <= s->len);
		return;
	}
	fuzz_check(s->exposure && from >= s->exposure->e.offset &&
		   from + o->data.len <=
			   s->exposure->e.offset + s->exposure->e.len);
}

/* A frame is made; calls may come before it is away. */
static void send_one(struct fuzz_in *in)
{
	struct fkv_data_chan *ch = accepted[fuzz_u8(in) % 2];
	struct fkv_data_out o;

	if (!ch || ch->state != FKV_CHAN_UP || !fkv_data_next(ch, &o))
		return;
	check_out(&o);
	switch (fuzz_u8(in) % 4) {
	case 0:
		fkv_data_push_fail(&t.x, id_of(in), -EIO);
		break;
	case 1:
		fkv_data_unexpose(&t.x, id_of(in));
		break;
	case 2:
		call_piece(in);
		break;
	default:
		break;
	}
	if (ch->state == FKV_CHAN_UP)
		fkv_data_sent(ch, &o);
}

static void time_passes(struct fuzz_in *in)
{
	struct fkv_timer *timer;

	t.x.now_ns += fuzz_u8(in) * 20 * FKV_MS;
	while ((timer = fkv_timers_due(&t.x.timers, t.x.now_ns)))
		fkv_data_timer(&t.x, timer);
}

static void peer_comes(void)
{
	struct fkv_data_peer *p = fkv_zalloc(sizeof(*p));

	p->incarnation = PEER;
	p->known = true;
	strcpy(p->name, "peer");
	if (!fkv_data_peer_add(&t.x, p))
		fkv_free(p);
}

static void step(struct fuzz_in *in)
{
	switch (fuzz_u8(in) % 14) {
	case 0:
	case 1:
		call_op(in);
		break;
	case 2:
		fkv_data_op_end(&t.x, id_of(in));
		break;
	case 3:
		call_expose(in);
		break;
	case 4:
		fkv_data_unexpose(&t.x, fuzz_u8(in) % IDS);
		break;
	case 5:
		call_push(in);
		break;
	case 6:
		call_piece(in);
		break;
	case 7:
		fkv_data_push_fail(&t.x, id_of(in), -EIO);
		break;
	case 8:
	case 9:
		from_source(in);
		break;
	case 10:
		from_reader(in);
		break;
	case 11:
		send_one(in);
		break;
	case 12:
		time_passes(in);
		break;
	default:
		peer_comes();
	}
}

static void begin(void)
{
	static bool ready;

	if (!ready) {
		fuzz_check(!uv_loop_init(&loop));
		fuzz_check(!uv_async_init(&loop, &t.async, NULL));
		pthread_mutex_init(&t.lock, NULL);
		pthread_mutex_init(&t.peers_lock, NULL);
	}
	ready = true;
	memset(&t.x, 0, sizeof(t.x));
	memset(target, 0, sizeof(target));
	STAILQ_INIT(&t.results);
	TAILQ_INIT(&t.peers);
	t.x.t = &t;
	t.x.tp = &none;
	t.x.segment = segment;
	t.x.segment_bytes = SEGMENT;
	t.x.channels = 2;
	t.x.now_ns = fkv_clock_ns();
	t.x.times.connect_ns = t.x.times.stall_ns = 2 * FKV_SEC;
	fuzz_check(!fkv_data_tables_init(&t.x));
	posted = reported = 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
	struct fuzz_in in = { bytes, size };

	begin();
	peer_comes();
	for (uint32_t i = 0; i < STEPS && in.left; i++) {
		step(&in);
		results();
	}
	fkv_data_drop(&t.x);
	results();
	fuzz_check(posted == reported);
	fuzz_check(!t.x.connections);
	fkv_data_tables_done(&t.x);
	return 0;
}
