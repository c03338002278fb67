// SPDX-License-Identifier: Apache-2.0
/* The axioms: what RC11 says of one candidate execution. */
#include <string.h>

#include "model.h"

#define BIT(i)	(1ULL << (i))

typedef uint64_t rel[MAX_EVENTS];

static void closure(uint64_t *r, int n)
{
	for (int k = 0; k < n; k++)
		for (int i = 0; i < n; i++)
			if (r[i] & BIT(k))
				r[i] |= r[k];
}

static bool irreflexive(const uint64_t *r, int n)
{
	for (int i = 0; i < n; i++)
		if (r[i] & BIT(i))
			return false;
	return true;
}

static bool acyclic(uint64_t *r, int n)
{
	closure(r, n);
	return irreflexive(r, n);
}

static void compose(const uint64_t *a, const uint64_t *b, int n, uint64_t *ret)
{
	for (int i = 0; i < n; i++) {
		ret[i] = 0;
		for (int k = 0; k < n; k++)
			if (a[i] & BIT(k))
				ret[i] |= b[k];
	}
}

static bool acquires(enum order o)
{
	return o == ACQ || o == ACQ_REL || o == SC;
}

static bool releases(enum order o)
{
	return o == REL || o == ACQ_REL || o == SC;
}

/* What a store releases: itself, or fences before it. */
static uint64_t release_side(const struct graph *g, int w)
{
	uint64_t from = releases(g->ev[w].order) ? BIT(w) : 0;

	if (g->ev[w].order < RLX)
		return 0;
	for (int f = 0; f < g->nr; f++)
		if (g->ev[f].kind == FENCE && g->sb[f] & BIT(w) &&
		    releases(g->ev[f].order))
			from |= BIT(f);
	return from;
}

static uint64_t acquire_side(const struct graph *g, int r)
{
	uint64_t to = acquires(g->ev[r].order) ? BIT(r) : 0;

	if (g->ev[r].order < RLX)
		return 0;
	for (int f = 0; f < g->nr; f++)
		if (g->ev[f].kind == FENCE && g->sb[r] & BIT(f) &&
		    acquires(g->ev[f].order))
			to |= BIT(f);
	return to;
}

static void add_synchronizes_with(struct graph *g)
{
	for (int r = 0; r < g->nr; r++) {
		uint64_t from = 0, to;

		if (!reads(&g->ev[r]))
			continue;
		to = acquire_side(g, r);
		/* back along the release sequence: read-modify-writes only */
		for (int w = g->rf[r]; to; w = g->rf[w]) {
			from |= release_side(g, w);
			if (g->ev[w].kind != CAS)
				break;
		}
		for (int i = 0; i < g->nr; i++)
			if (from & BIT(i))
				g->hb[i] |= to;
	}
}

bool graph_happens_before(struct graph *g)
{
	rel sb_rf;

	/* no values out of thin air; also makes the walk above end */
	memcpy(sb_rf, g->sb, sizeof(sb_rf));
	for (int r = 0; r < g->nr; r++)
		if (reads(&g->ev[r]))
			sb_rf[g->rf[r]] |= BIT(r);
	if (!acyclic(sb_rf, g->nr))
		return false;
	memcpy(g->hb, g->sb, sizeof(g->hb));
	add_synchronizes_with(g);
	closure(g->hb, g->nr);
	return irreflexive(g->hb, g->nr);
}

bool graph_races(const struct graph *g)
{
	for (int a = 0; a < g->nr; a++) {
		for (int b = a + 1; b < g->nr; b++) {
			const struct event *x = &g->ev[a], *y = &g->ev[b];

			if (x->kind == FENCE || y->kind == FENCE ||
			    x->loc != y->loc || x->thread == y->thread ||
			    (!writes(x) && !writes(y)) ||
			    (x->order != NA && y->order != NA))
				continue;
			if (!(g->hb[a] & BIT(b)) && !(g->hb[b] & BIT(a)))
				return true;
		}
	}
	return false;
}

/* rf, mo and fr of one location into @eco, not yet closed. */
static void communication(const struct graph *g, int loc, uint64_t *eco,
			  uint64_t *mo_fr)
{
	const int *mo = g->mo[loc];
	uint64_t after = 0;

	for (int k = g->nr_mo[loc] - 1; k >= 0; k--) {
		mo_fr[mo[k]] |= after;
		for (int r = 0; r < g->nr; r++) {
			if (!reads(&g->ev[r]) || g->ev[r].loc != loc ||
			    g->rf[r] != mo[k])
				continue;
			mo_fr[r] |= after & ~BIT(r);
			eco[mo[k]] |= BIT(r);
		}
		after |= BIT(mo[k]);
	}
	for (int i = 0; i < g->nr; i++)
		eco[i] |= mo_fr[i];
}

bool graph_coherent(const struct graph *g, int loc)
{
	rel eco = { 0 }, mo_fr = { 0 }, both = { 0 };

	/* a read-modify-write follows the store that it read at once */
	for (int k = 0; k < g->nr_mo[loc]; k++) {
		int w = g->mo[loc][k];

		if (g->ev[w].kind == CAS &&
		    (!k || g->rf[w] != g->mo[loc][k - 1]))
			return false;
	}
	communication(g, loc, eco, mo_fr);
	closure(eco, g->nr);
	compose(g->hb, eco, g->nr, both);
	return irreflexive(both, g->nr);
}

static bool same_loc(const struct event *a, const struct event *b)
{
	return a->kind != FENCE && b->kind != FENCE && a->loc == b->loc;
}

/* scb: sb, sb;hb;sb that leaves the location, hb of one location, mo, fr */
static void sc_before(const struct graph *g, const uint64_t *mo_fr,
		      uint64_t *ret)
{
	rel leaves = { 0 }, half = { 0 }, around = { 0 };

	for (int a = 0; a < g->nr; a++)
		for (int b = 0; b < g->nr; b++)
			if (g->sb[a] & BIT(b) &&
			    !same_loc(&g->ev[a], &g->ev[b]))
				leaves[a] |= BIT(b);
	compose(leaves, g->hb, g->nr, half);
	compose(half, leaves, g->nr, around);
	for (int a = 0; a < g->nr; a++) {
		ret[a] = g->sb[a] | around[a] | mo_fr[a];
		for (int b = 0; b < g->nr; b++)
			if (g->hb[a] & BIT(b) &&
			    same_loc(&g->ev[a], &g->ev[b]))
				ret[a] |= BIT(b);
	}
}

/*
 * [SC] + [fence];hb? of @left, and hb?;[fence] + [SC] of @right: how an SC
 * event reaches into, and is reached from, the relation between them.
 */
static void sc_edges(const struct graph *g, uint64_t *left, uint64_t *right)
{
	for (int i = 0; i < g->nr; i++) {
		if (g->ev[i].order != SC)
			continue;
		left[i] |= BIT(i);
		right[i] |= BIT(i);
		if (g->ev[i].kind != FENCE)
			continue;
		left[i] |= g->hb[i];
		for (int a = 0; a < g->nr; a++)
			if (g->hb[a] & BIT(i))
				right[a] |= BIT(i);
	}
}

/* psc is acyclic */
bool graph_sc(const struct graph *g)
{
	rel eco = { 0 }, mo_fr = { 0 }, left = { 0 }, right = { 0 };
	rel scb = { 0 }, a = { 0 }, psc = { 0 };
	uint64_t fences = 0;

	for (int l = 0; l < g->nr_locs; l++)
		communication(g, l, eco, mo_fr);
	closure(eco, g->nr);
	sc_before(g, mo_fr, scb);
	sc_edges(g, left, right);
	compose(left, scb, g->nr, a);
	compose(a, right, g->nr, psc);

	for (int i = 0; i < g->nr; i++)
		if (g->ev[i].kind == FENCE && g->ev[i].order == SC)
			fences |= BIT(i);
	compose(g->hb, eco, g->nr, a);
	compose(a, g->hb, g->nr, scb);
	for (int i = 0; i < g->nr; i++)
		if (fences & BIT(i))
			psc[i] |= (g->hb[i] | scb[i]) & fences;
	return acyclic(psc, g->nr);
}
