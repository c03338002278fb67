// SPDX-License-Identifier: Apache-2.0
/*
 * The pin handshake (fluxonkv-shm.h, locking.md), in programs of two to four
 * threads. A pin slot holds gen + 1, so that 0 is free; generation 0 is live, 1
 * dead, 2 the next life. Payload and fields hold the generation that they
 * belong to. Payload is plain memory: that two threads do not race for it is
 * part of what is checked.
 */
#include <stddef.h>

#include "model.h"

enum loc { GEN, SLOT, PAY, F1, F2, AUX, AUX2, BUCKET };

/* registers of a client */
enum { C_GEN, C_F1, C_F2, C_SLOT, C_AGAIN, C_PAY, C_AUX, C_HIT };
/* registers of the daemon */
enum { D_AUX, D_SEEN, D_PEEK, D_HW, D_REUSED = C_HIT };

#define R(t, r)	(o->reg[t][r])
#define HIT(t)	(R(t, C_HIT) == 1)

/* P1 to P3: the thread goes on when it holds the pin. */
static void pin(struct program *p, int t, int slot)
{
	int held;

	cas(p, t, R_SLOT, slot, 0, C_GEN, 1, C_SLOT);
	stop_if(p, t, C_SLOT, true, 0);
	fence(p, t, R_P2);
	load(p, t, R_P3, GEN, C_AGAIN);
	held = branch(p, t, C_AGAIN, true, C_GEN, 0);
	store(p, t, R_BACKOUT, slot, 0);
	set(p, t, C_HIT, 0);
	stop_if(p, t, C_HIT, true, 0);
	land(p, t, held);
}

static void look(struct program *p, int t)
{
	load(p, t, R_GEN, GEN, C_GEN);
	stop_if(p, t, C_GEN, true, 1);
}

static void use(struct program *p, int t, bool unpin)
{
	set(p, t, C_HIT, 1);
	load(p, t, R_NA, PAY, C_PAY);
	if (unpin)
		store(p, t, R_UNPIN, SLOT, 0);
}

/* R3: the daemon goes on when no slot names generation 0. */
static void scan(struct program *p, int t)
{
	load(p, t, R_SCAN_SLOT, SLOT, D_SEEN);
	stop_if(p, t, D_SEEN, true, 1);
	set(p, t, D_REUSED, 1);
}

static bool used_and_reused(const struct outcome *o)
{
	return HIT(0) && R(1, D_REUSED) == 1;
}

static bool hit_held(const struct outcome *o)
{
	return HIT(0) && R(1, D_REUSED) != 1;
}

/*
 * pin_entry() against fkv_index_evict(): peek, R1, R2, R3; each victim of a
 * batch is this program, with the same fence. Shape 1: P3 is not there; 2: the
 * daemon believes its peek.
 */
static void pin_evict(struct program *p, int shape)
{
	program_init(p, 2, 3);
	look(p, 0);
	if (shape == 1) {
		cas(p, 0, R_SLOT, SLOT, 0, C_GEN, 1, C_SLOT);
		fence(p, 0, R_P2);
	} else {
		pin(p, 0, SLOT);
	}
	use(p, 0, false);

	load(p, 1, R_SCAN_SLOT, SLOT, D_PEEK);
	stop_if(p, 1, D_PEEK, true, 1);
	store(p, 1, R_R1, GEN, 1);
	fence(p, 1, R_R2_EVICT);
	if (shape == 2)
		set(p, 1, D_REUSED, 1);
	else
		scan(p, 1);
	store(p, 1, R_NA, PAY, 2);
}

/* pin_entry() against fkv_index_retire(), and fkv_index_scan() later. */
static void pin_retire(struct program *p, int shape)
{
	(void)shape;
	program_init(p, 2, 3);
	look(p, 0);
	pin(p, 0, SLOT);
	use(p, 0, false);

	store(p, 1, R_R1, GEN, 1);
	fence(p, 1, R_R2_RETIRE);
	fence(p, 1, R_R2_SCAN);
	scan(p, 1);
	store(p, 1, R_NA, PAY, 2);
}

/* fkv_pins_unpin() against the reuse behind a scan that found no slot. */
static void unpin_reuse(struct program *p, int shape)
{
	(void)shape;
	program_init(p, 2, 3);
	look(p, 0);
	pin(p, 0, SLOT);
	use(p, 0, true);

	store(p, 1, R_R1, GEN, 1);
	fence(p, 1, R_R2_EVICT);
	scan(p, 1);
	store(p, 1, R_NA, PAY, 2);
}

static bool read_new(const struct outcome *o)
{
	return HIT(0) && R(0, C_PAY) != 0;
}

/*
 * The slot goes from thread 0 to thread 2 between the daemon's looks at it, for
 * a pin (5) that is another entry's. Shape 1: and is backed out of.
 */
static void slot_handed_on(struct program *p, int shape)
{
	program_init(p, 3, 3);
	p->init[SLOT] = 1;
	use(p, 0, true);

	store(p, 1, R_R1, GEN, 1);
	fence(p, 1, R_R2_EVICT);
	scan(p, 1);
	store(p, 1, R_NA, PAY, 2);

	cas(p, 2, R_SLOT, SLOT, 0, -1, 5, C_SLOT);
	stop_if(p, 2, C_SLOT, true, 0);
	fence(p, 2, R_P2);
	store(p, 2, shape ? R_BACKOUT : R_UNPIN, SLOT, 0);
}

static bool handed(const struct outcome *o)
{
	return R(1, D_REUSED) == 1 && R(2, C_SLOT) == 1;
}

/*
 * A client that holds one slot pins again in one that the scan has passed, and
 * lets the first go: the scan reads SLOT, then AUX.
 */
static void pin_moves(struct program *p, int shape)
{
	(void)shape;
	program_init(p, 2, 6);
	p->init[AUX] = 1;
	look(p, 0);
	pin(p, 0, SLOT);
	store(p, 0, R_UNPIN, AUX, 0);
	use(p, 0, false);

	store(p, 1, R_R1, GEN, 1);
	fence(p, 1, R_R2_EVICT);
	load(p, 1, R_SCAN_SLOT, SLOT, D_SEEN);
	stop_if(p, 1, D_SEEN, true, 1);
	load(p, 1, R_SCAN_SLOT, AUX, D_PEEK);
	stop_if(p, 1, D_PEEK, true, 1);
	set(p, 1, D_REUSED, 1);
	store(p, 1, R_NA, PAY, 2);
}

/*
 * probe() and pin_entry() against an entry that is evicted, filled for another
 * version and published. Shape 1: no P3; 2: fields behind gen.
 */
static void publish_probe(struct program *p, int shape)
{
	program_init(p, 2, 5);
	look(p, 0);
	load(p, 0, R_FIELD, F1, C_F1);
	load(p, 0, R_FIELD, F2, C_F2);
	if (shape == 1) {
		cas(p, 0, R_SLOT, SLOT, 0, C_GEN, 1, C_SLOT);
		fence(p, 0, R_P2);
	} else {
		pin(p, 0, SLOT);
	}
	use(p, 0, false);

	store(p, 1, R_R1, GEN, 1);
	fence(p, 1, R_R2_EVICT);
	scan(p, 1);
	store(p, 1, R_NA, PAY, 2);
	if (shape == 2)
		store(p, 1, R_PUBLISH, GEN, 2);
	store(p, 1, R_FILL, F1, 2);
	store(p, 1, R_FILL, F2, 2);
	if (shape != 2)
		store(p, 1, R_PUBLISH, GEN, 2);
}

static bool mixed(const struct outcome *o)
{
	return HIT(0) && (R(0, C_F1) != R(0, C_GEN) ||
			  R(0, C_F2) != R(0, C_GEN) ||
			  R(0, C_PAY) != R(0, C_GEN));
}

static bool hit_next(const struct outcome *o)
{
	return HIT(0) && R(0, C_GEN) == 2;
}

/* The way by the bucket: what it says is a hint, gen decides. */
static void bucket(struct program *p, int shape)
{
	(void)shape;
	program_init(p, 2, 8);
	p->init[GEN] = 1;
	load(p, 0, R_BUCKET, BUCKET, C_AUX);
	stop_if(p, 0, C_AUX, true, 0);
	look(p, 0);
	load(p, 0, R_FIELD, F1, C_F1);
	pin(p, 0, SLOT);
	set(p, 0, C_HIT, 1);

	store(p, 1, R_FILL, F1, 2);
	store(p, 1, R_PUBLISH, GEN, 2);
	store(p, 1, R_PUB_BUCKET, BUCKET, 1);
	store(p, 1, R_R1, GEN, 3);
	store(p, 1, R_KILL_BUCKET, BUCKET, 0);
}

static bool bucket_bad(const struct outcome *o)
{
	return HIT(0) && R(0, C_GEN) != 3 && R(0, C_F1) != 2;
}

static bool hits(const struct outcome *o)
{
	return HIT(0);
}

/*
 * take_slot() with raise_high_water(): AUX is the page's mark, AUX2 the own
 * copy of it.
 */
static void raise_mark(struct program *p, int t, bool put_copy)
{
	int enough;

	load(p, t, R_HW_PAGE, AUX, C_F1);
	enough = branch(p, t, C_F1, true, -1, 1);
	cas(p, t, R_HW_RAISE, AUX, 0, -1, 1, C_F1);
	land(p, t, enough);
	if (put_copy)
		store(p, t, R_HW_PUT_COPY, AUX2, 1);
}

static void mark_daemon(struct program *p, int t)
{
	int none;

	store(p, t, R_R1, GEN, 1);
	fence(p, t, R_R2_EVICT);
	load(p, t, R_SCAN_HW, AUX, D_HW);
	none = branch(p, t, D_HW, true, -1, 0);
	load(p, t, R_SCAN_SLOT, SLOT, D_SEEN);
	stop_if(p, t, D_SEEN, true, 1);
	land(p, t, none);
	set(p, t, D_REUSED, 1);
}

/*
 * The mark was raised by thread 2, maybe; thread 0 relies on its copy or on the
 * page. Shape 1: the slot is taken before the mark is raised.
 */
static void high_water(struct program *p, int shape)
{
	int enough;

	program_init(p, 3, 7);
	look(p, 0);
	if (shape) {
		pin(p, 0, SLOT);
		raise_mark(p, 0, true);
	} else {
		load(p, 0, R_HW_COPY, AUX2, C_AUX);
		enough = branch(p, 0, C_AUX, true, -1, 1);
		raise_mark(p, 0, true);
		land(p, 0, enough);
		pin(p, 0, SLOT);
	}
	set(p, 0, C_HIT, 1);
	mark_daemon(p, 1);
	raise_mark(p, 2, true);
}

/*
 * Thread 2 raises and has not told; thread 3 sees it in the page and tells;
 * thread 0 relies on that.
 */
static void high_water_told(struct program *p, int shape)
{
	(void)shape;
	program_init(p, 4, 7);
	look(p, 0);
	load(p, 0, R_HW_COPY, AUX2, C_AUX);
	stop_if(p, 0, C_AUX, true, 0);
	pin(p, 0, SLOT);
	set(p, 0, C_HIT, 1);
	mark_daemon(p, 1);
	cas(p, 2, R_HW_RAISE, AUX, 0, -1, 1, C_F1);
	load(p, 3, R_HW_PAGE, AUX, C_F1);
	stop_if(p, 3, C_F1, true, 0);
	store(p, 3, R_HW_PUT_COPY, AUX2, 1);
}

/*
 * may_serve(): AUX says that the daemon's time is over; the clock is the
 * kernel's, so an acquire load. Who comes after that time, a successor that
 * looks at the slots, finds the pin of every hit. Shape 1: asked before the
 * pin.
 */
static void alive_pin(struct program *p, int shape)
{
	program_init(p, 3, 6);
	look(p, 0);
	for (int i = 0; i < 2; i++) {
		if (i == shape) {
			pin(p, 0, SLOT);
			continue;
		}
		load(p, 0, R_ACQ, AUX, C_AUX);
		load(p, 0, R_CLOCK, AUX, C_F1);
		stop_if(p, 0, C_F1, true, 1);
	}
	set(p, 0, C_HIT, 1);
	load(p, 1, R_ACQ, AUX, D_AUX);
	stop_if(p, 1, D_AUX, true, 0);
	fence(p, 1, R_SC);
	scan(p, 1);
	store(p, 2, R_REL, AUX, 1);
}

/*
 * A new daemon waits until the time of the old one is over, takes a put and
 * acknowledges it (AUX2): a get that begins after that does not hit in the old
 * index. Shape 1: asked before the pin, in the same get; 2: asked before the
 * get.
 */
static void alive_fresh(struct program *p, int shape)
{
	program_init(p, 3, 7);
	for (int i = 0; i < 3; i++) {
		if (i == 2 - shape) {
			load(p, 0, R_CLOCK, AUX, C_F1);
			stop_if(p, 0, C_F1, true, 1);
		}
		if (!i) {
			load(p, 0, R_ACQ, AUX2, C_AUX);
			stop_if(p, 0, C_AUX, true, 0);
			look(p, 0);
		} else if (i == 1) {
			pin(p, 0, SLOT);
		}
	}
	set(p, 0, C_HIT, 1);
	load(p, 1, R_ACQ, AUX, D_AUX);
	stop_if(p, 1, D_AUX, true, 0);
	store(p, 1, R_REL, AUX2, 1);
	store(p, 2, R_REL, AUX, 1);
}

static bool acked(const struct outcome *o)
{
	return R(0, C_AUX) == 1;
}

/* A get that begins after a put was acknowledged sees the old one retired. */
static void retire_ack(struct program *p, int shape)
{
	program_init(p, 2, 6);
	load(p, 0, R_ACQ, AUX, C_AUX);
	stop_if(p, 0, C_AUX, true, 0);
	look(p, 0);
	pin(p, 0, SLOT);
	set(p, 0, C_HIT, 1);

	if (shape)
		store(p, 1, R_REL, AUX, 1);
	store(p, 1, R_R1, GEN, 1);
	fence(p, 1, R_R2_RETIRE);
	if (!shape)
		store(p, 1, R_REL, AUX, 1);
}

/* fkv_pins_note() and fkv_pins_hits(): the ring may lose, never make up. */
static void hit_ring(struct program *p, int shape)
{
	(void)shape;
	program_init(p, 2, 2);
	cas(p, 0, R_HEAD, 0, 0, -1, 1, C_SLOT);
	store(p, 0, R_RING, 1, 5);
	load(p, 1, R_HITS_HEAD, 0, D_HW);
	stop_if(p, 1, D_HW, true, 0);
	load(p, 1, R_HITS_RING, 1, D_SEEN);
}

static bool ring_bad(const struct outcome *o)
{
	return R(1, D_HW) == 1 && R(1, D_SEEN) != 0 && R(1, D_SEEN) != 5;
}

static bool ring_lost(const struct outcome *o)
{
	return R(1, D_HW) == 1 && R(1, D_SEEN) == 0;
}

const struct litmus handshake_litmus[] = {
	{ "pin_evict", pin_evict, used_and_reused, hit_held,
	  { R_P2, R_R2_EVICT }, {
		{ "P2 acquire and release only", { R_P2 }, { ACQ_REL }, 0,
		  true, NULL },
		{ "R2 acquire and release only", { R_R2_EVICT }, { ACQ_REL },
		  0, true, NULL },
		{ "P2 dropped, P3 seq_cst as P1 is", { R_P2, R_P3 },
		  { NONE, SC }, 0, false,
		  "would do here, but not for high_water_told" },
		{ .name = "no P3", .shape = 1, .found = true },
		{ .name = "peek without a scan", .shape = 2, .found = true },
	  } },
	{ "pin_retire", pin_retire, used_and_reused, hit_held, { R_P2 }, {
		{ "both fences of the daemon dropped",
		  { R_R2_RETIRE, R_R2_SCAN }, { NONE, NONE }, 0, true, NULL },
		{ "both fences acquire and release only",
		  { R_R2_RETIRE, R_R2_SCAN }, { ACQ_REL, ACQ_REL }, 0, true,
		  NULL },
	  } },
	{ "unpin_reuse", unpin_reuse, read_new, used_and_reused,
	  { R_P2, R_R2_EVICT, R_UNPIN, R_SCAN_SLOT }, { { .name = NULL } } },
	{ "slot_handed_on", slot_handed_on, read_new, handed,
	  { R_UNPIN, R_SCAN_SLOT }, {
		{ .name = "backed out of", .shape = 1 },
		{ "backed out of, relaxed", { R_BACKOUT }, { RLX }, 1, false,
		  "P2 releases before it" },
		{ "P1 relaxed, P2 dropped", { R_SLOT, R_P2 }, { RLX, NONE }, 0,
		  true, NULL },
	  } },
	{ "pin_moves", pin_moves, used_and_reused, hit_held,
	  { R_P2, R_R2_EVICT }, { { .name = NULL } } },
	{ "publish_probe", publish_probe, mixed, hit_next,
	  { R_GEN, R_P2, R_PUBLISH, R_R2_EVICT }, {
		{ .name = "no P3", .shape = 1, .found = true },
		{ .name = "fields behind gen", .shape = 2, .found = true },
		{ "P3 relaxed, P2 dropped", { R_P3, R_P2 }, { RLX, NONE }, 0,
		  true, NULL },
	  } },
	{ "bucket", bucket, bucket_bad, hits, { R_GEN, R_PUBLISH },
	  { { .name = NULL } } },
	{ "high_water", high_water, used_and_reused, hits,
	  { R_P2, R_R2_EVICT, R_HW_PUT_COPY }, {
		{ .name = "raised behind the slot", .shape = 1,
		  .found = true },
	  } },
	{ "high_water_told", high_water_told, used_and_reused, hits,
	  { R_P2, R_R2_EVICT, R_HW_PUT_COPY }, {
		{ "P2 dropped, P3 seq_cst as P1 is", { R_P2, R_P3 },
		  { NONE, SC }, 0, true, NULL },
	  } },
	{ "alive_pin", alive_pin, used_and_reused, hits, { R_P2 }, {
		{ .name = "asked before the pin", .shape = 1, .found = true },
	  } },
	{ "alive_fresh", alive_fresh, hits, acked, { 0 }, {
		{ .name = "asked before the pin", .shape = 1,
		  .why = "a get is as old as its question, which is enough "
			 "for freshness; alive_pin needs the order" },
		{ .name = "asked before the get", .shape = 2, .found = true },
	  } },
	{ "retire_ack", retire_ack, hits, acked, { 0 }, {
		{ .name = "acknowledged before R1", .shape = 1,
		  .found = true },
	  } },
	{ "hit_ring", hit_ring, ring_bad, ring_lost, { 0 },
	  { { .name = NULL } } },
	{ .name = NULL },
};
