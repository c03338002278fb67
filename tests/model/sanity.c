// SPDX-License-Identifier: Apache-2.0
/*
 * The well-known programs: the checker must say of them what C11 does. The bad
 * outcome of each is the weak one; a variant expects it found or not.
 */
#include <stddef.h>

#include "model.h"

enum { X, Y, Z };

#define R(t, r)	(o->reg[t][r])

/* shape 0: relaxed; 1: seq_cst fences; 2: acq_rel fences; 3: seq_cst all */
static void sb(struct program *p, int shape)
{
	static const enum role f[] = { R_NONE, R_SC, R_ACQ_REL, R_NONE };
	enum role at = shape == 3 ? R_SC : R_RLX;

	program_init(p, 2, 2);
	for (int t = 0; t < 2; t++) {
		store(p, t, at, t ? Y : X, 1);
		fence(p, t, f[shape]);
		load(p, t, at, t ? X : Y, 0);
	}
}

static bool sb_bad(const struct outcome *o)
{
	return R(0, 0) == 0 && R(1, 0) == 0;
}

/*
 * 0: relaxed; 1: release, acquire; 2: fences; 3: plain data; 4: 1 and 3; 5:
 * fences, both release
 */
static void mp(struct program *p, int shape)
{
	bool order = shape == 1 || shape == 4;
	enum role data = shape >= 3 ? R_NA : R_RLX;

	program_init(p, 2, 2);
	store(p, 0, data, X, 1);
	fence(p, 0, shape == 2 || shape == 5 ? R_REL : R_NONE);
	store(p, 0, order ? R_REL : R_RLX, Y, 1);
	load(p, 1, order ? R_ACQ : R_RLX, Y, 0);
	stop_if(p, 1, 0, true, 0);
	fence(p, 1, shape == 2 ? R_ACQ : shape == 5 ? R_REL : R_NONE);
	load(p, 1, data, X, 1);
}

static bool mp_bad(const struct outcome *o)
{
	return R(1, 0) == 1 && R(1, 1) == 0;
}

/* 0: each stores what it read; 1: constants; in RC11 both are refused */
static void lb(struct program *p, int shape)
{
	program_init(p, 2, 2);
	for (int t = 0; t < 2; t++) {
		load(p, t, R_RLX, t ? Y : X, 0);
		if (shape)
			store(p, t, R_RLX, t ? X : Y, 1);
		else
			store_reg(p, t, R_RLX, t ? X : Y, 0, 0);
	}
	/* so that 1 is a value that could be made up */
	set(p, 0, 1, 1);
	stop_if(p, 0, 1, true, 1);
	store(p, 0, R_RLX, X, 1);
}

static bool lb_bad(const struct outcome *o)
{
	return R(0, 0) == 1 && R(1, 0) == 1;
}

/* 0: acquire loads; 1: fences between them; 2: all seq_cst */
static void iriw(struct program *p, int shape)
{
	enum role ld = shape == 2 ? R_SC : R_ACQ;

	program_init(p, 4, 2);
	store(p, 0, shape == 2 ? R_SC : R_REL, X, 1);
	store(p, 1, shape == 2 ? R_SC : R_REL, Y, 1);
	for (int t = 2; t < 4; t++) {
		load(p, t, ld, t == 2 ? X : Y, 0);
		fence(p, t, shape == 1 ? R_SC : R_NONE);
		load(p, t, ld, t == 2 ? Y : X, 1);
	}
}

static bool iriw_bad(const struct outcome *o)
{
	return R(2, 0) == 1 && R(2, 1) == 0 && R(3, 0) == 1 && R(3, 1) == 0;
}

/* one store, or two, and two loads of one thread */
static void corr(struct program *p, int shape)
{
	program_init(p, 2, 1);
	store(p, 0, R_RLX, X, 1);
	if (shape)
		store(p, 0, R_RLX, X, 2);
	load(p, 1, R_RLX, X, 0);
	load(p, 1, R_RLX, X, 1);
}

static bool corr_bad(const struct outcome *o)
{
	return R(1, 0) > R(1, 1);
}

/* 0: relaxed; 1: release; 2: fences; 3: seq_cst */
static void w22(struct program *p, int shape)
{
	static const enum role w[] = { R_RLX, R_REL, R_RLX, R_SC };

	program_init(p, 2, 2);
	p->uses_mem = true;
	for (int t = 0; t < 2; t++) {
		store(p, t, w[shape], t ? Y : X, 1);
		fence(p, t, shape == 2 ? R_SC : R_NONE);
		store(p, t, w[shape], t ? X : Y, 2);
	}
}

static bool w22_bad(const struct outcome *o)
{
	return o->mem[X] == 1 && o->mem[Y] == 1;
}

/* 0: read-modify-write in the middle; 1: a plain store of the same thread */
static void sequence(struct program *p, int shape)
{
	program_init(p, 3, 2);
	store(p, 0, R_RLX, X, 1);
	store(p, 0, R_REL, Y, 1);
	if (shape)
		store(p, 0, R_RLX, Y, 2);
	else
		cas(p, 1, R_RLX, Y, 1, -1, 2, 0);
	load(p, 2, R_ACQ, Y, 0);
	load(p, 2, R_RLX, X, 1);
}

static bool sequence_bad(const struct outcome *o)
{
	return R(2, 0) == 2 && R(2, 1) == 0;
}

/* Two take the same free word. */
static void take(struct program *p, int shape)
{
	(void)shape;
	program_init(p, 2, 1);
	for (int t = 0; t < 2; t++)
		cas(p, t, R_RLX, X, 0, -1, t + 1, 0);
}

static bool take_bad(const struct outcome *o)
{
	return R(0, 0) == 1 && R(1, 0) == 1;
}

/* A write is seen by one thread, and through it by another. */
static void wrc(struct program *p, int shape)
{
	program_init(p, 3, 2);
	store(p, 0, R_RLX, X, 1);
	load(p, 1, R_RLX, X, 0);
	store(p, 1, shape ? R_REL : R_RLX, Y, 1);
	load(p, 2, shape ? R_ACQ : R_RLX, Y, 0);
	load(p, 2, R_RLX, X, 1);
}

static bool wrc_bad(const struct outcome *o)
{
	return R(1, 0) == 1 && R(2, 0) == 1 && R(2, 1) == 0;
}

/*
 * Store buffering with the second store behind a chain: fences are cumulative
 * over what happens before them and over reads (the repair of RC11).
 */
static void rwc(struct program *p, int shape)
{
	program_init(p, 3, 2);
	store(p, 0, R_RLX, X, 1);
	load(p, 1, R_RLX, X, 0);
	fence(p, 1, shape ? R_SC : R_NONE);
	load(p, 1, R_RLX, Y, 1);
	store(p, 2, R_RLX, Y, 1);
	fence(p, 2, shape ? R_SC : R_NONE);
	load(p, 2, R_RLX, X, 0);
}

static bool rwc_bad(const struct outcome *o)
{
	return R(1, 0) == 1 && R(1, 1) == 0 && R(2, 0) == 0;
}

/* What was read is written behind a flag: no value tells, but it is a race. */
static void race(struct program *p, int shape)
{
	program_init(p, 2, 2);
	load(p, 0, R_NA, X, 0);
	store(p, 0, shape ? R_REL : R_RLX, Y, 1);
	load(p, 1, shape ? R_ACQ : R_RLX, Y, 0);
	stop_if(p, 1, 0, true, 0);
	store(p, 1, R_NA, X, 1);
}

static bool race_bad(const struct outcome *o)
{
	return R(0, 0) == 1;
}

/* Store buffering of seq_cst accesses; one side is handed to a third thread. */
static void sb_message(struct program *p, int shape)
{
	program_init(p, 3, 3);
	store(p, 0, R_SC, X, 1);
	store(p, 0, shape ? R_RLX : R_REL, Y, 1);
	load(p, 1, R_ACQ, Y, 0);
	load(p, 1, R_SC, Z, 1);
	store(p, 2, R_SC, Z, 1);
	load(p, 2, R_SC, X, 0);
}

static bool sb_message_bad(const struct outcome *o)
{
	return R(1, 0) == 1 && R(1, 1) == 0 && R(2, 0) == 0;
}

#define V(n, s, f)	{ .name = n, .shape = s, .found = f }

/* shape 0 is the first variant: these have no "as coded" */
const struct litmus sanity_litmus[] = {
	{ "SB", sb, sb_bad, NULL, { 0 }, {
		V("relaxed", 0, true), V("seq_cst fences", 1, false),
		V("acq_rel fences", 2, true), V("seq_cst", 3, false) } },
	{ "MP", mp, mp_bad, NULL, { 0 }, {
		V("relaxed", 0, true), V("release and acquire", 1, false),
		V("fences", 2, false), V("plain data, relaxed flag", 3, true),
		V("plain data, release and acquire", 4, false),
		V("two release fences", 5, true) } },
	{ "race", race, race_bad, NULL, { 0 }, {
		V("relaxed flag", 0, true),
		V("release and acquire", 1, false) } },
	{ "SB over a message", sb_message, sb_message_bad, NULL, { 0 }, {
		V("seq_cst", 0, false), V("relaxed message", 1, true) } },
	{ "LB", lb, lb_bad, NULL, { 0 }, {
		V("out of thin air", 0, false),
		V("constants, as RC11 says", 1, false) } },
	{ "IRIW", iriw, iriw_bad, NULL, { 0 }, {
		V("acquire", 0, true), V("seq_cst fences", 1, false),
		V("seq_cst", 2, false) } },
	{ "CoRR", corr, corr_bad, NULL, { 0 }, {
		V("one store", 0, false), V("two stores", 1, false) } },
	{ "2+2W", w22, w22_bad, NULL, { 0 }, {
		V("relaxed", 0, true), V("release", 1, true),
		V("seq_cst fences", 2, false), V("seq_cst", 3, false) } },
	{ "release sequence", sequence, sequence_bad, NULL, { 0 }, {
		V("of a read-modify-write", 0, false),
		V("not of a plain store (C++20)", 1, true) } },
	{ "one takes a free word", take, take_bad, NULL, { 0 }, {
		V("relaxed", 0, false) } },
	{ "WRC", wrc, wrc_bad, NULL, { 0 }, {
		V("relaxed", 0, true), V("release and acquire", 1, false) } },
	{ "RWC", rwc, rwc_bad, NULL, { 0 }, {
		V("relaxed", 0, true), V("seq_cst fences", 1, false) } },
	{ .name = NULL },
};
