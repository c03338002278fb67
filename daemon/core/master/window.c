// SPDX-License-Identifier: Apache-2.0
/*
 * window.c - the cheapest run of neighbours whose eviction makes a hole (M2)
 *
 * Evicting in the policy's order until a large hole appears by chance would
 * cost most of a cache of small values. Two pointers walk the extents by
 * address; what lies between two that must stay can all go.
 */
#include "core/master/space.h"

/*
 * Extents looked at in one search, when nothing was found before, and when
 * something was: the cheapest of so many is not much dearer than of all, and
 * the next search begins where this one ended.
 */
#define SWEEP_MAX	65536u
#define SWEEP_ENOUGH	4096u

static int cmp_offset(const struct fkv_extent *a, const struct fkv_extent *b)
{
	return a->offset < b->offset ? -1 : a->offset > b->offset;
}

FKV_RB_GENERATE(fkv_extent_map, fkv_extent, at, cmp_offset)

void fkv_space_map(struct fkv_space *s, struct fkv_extent *x)
{
	if (x->bytes)
		fkv_assert(!RB_INSERT(fkv_extent_map, &s->map, x));
}

void fkv_space_unmap(struct fkv_space *s, struct fkv_extent *x)
{
	if (x->bytes)
		RB_REMOVE(fkv_extent_map, &s->map, x);
}

struct fkv_extent *fkv_space_at(struct fkv_space *s, uint64_t offset)
{
	struct fkv_extent at = { .offset = offset };

	return RB_FIND(fkv_extent_map, &s->map, &at);
}

struct fkv_extent *fkv_extent_next(struct fkv_extent *x)
{
	return RB_NEXT(fkv_extent_map, NULL, x);
}

static uint64_t end_of(const struct fkv_extent *x)
{
	return x->offset + x->bytes;
}

struct sweep {
	struct fkv_space *space;
	uint64_t want;			/* bytes */
	struct fkv_extent *left;	/* of the run, or NULL */
	uint64_t low;			/* where it begins, free space too */
	uint64_t cost;
	struct fkv_window best;
};

/* One more than its priority: of equal ones fewer are better. */
static uint64_t cost_of(const struct fkv_space *s, const struct fkv_extent *x)
{
	return 1 + fkv_lfu_priority(&s->lfu, &x->lfu);
}

/* It cannot go, or was found pinned when it was asked for this waiter. */
static bool stays(const struct fkv_space *s, const struct fkv_extent *x)
{
	return !x->in_policy || x->lfu.parked ||
	       x->busy == s->hole_waiter->number;
}

static void drop_left(struct sweep *w)
{
	w->cost -= cost_of(w->space, w->left);
	w->low = end_of(w->left);
	w->left = fkv_extent_next(w->left);
}

/* @x joins the run, which ends at @high. */
static void step(struct sweep *w, struct fkv_extent *x, uint64_t high)
{
	if (stays(w->space, x)) {
		w->left = NULL;
		w->cost = 0;
		w->low = end_of(x);
		return;
	}
	if (!w->left)
		w->left = x;
	w->cost += cost_of(w->space, x);
	while (w->left != x && high - end_of(w->left) >= w->want)
		drop_left(w);
	if (high - w->low >= w->want && w->cost < w->best.cost)
		w->best = (struct fkv_window){ w->left, x, w->cost };
}

static bool enough(const struct sweep *w, uint32_t room)
{
	return w->best.first && SWEEP_MAX - room >= SWEEP_ENOUGH;
}

/* From @x on, at most *room extents; returns where it stopped, or NULL. */
static struct fkv_extent *sweep_from(struct sweep *w, struct fkv_extent *x,
				     uint32_t *room)
{
	struct fkv_extent *before = x ? RB_PREV(fkv_extent_map, NULL, x) : NULL;

	w->left = NULL;
	w->cost = 0;
	w->low = before ? end_of(before) : 0;
	for (; x && *room && !enough(w, *room); --*room) {
		struct fkv_extent *next = fkv_extent_next(x);

		step(w, x, next ? next->offset : w->space->capacity);
		x = next;
	}
	return x;
}

bool fkv_space_window(struct fkv_space *s, uint64_t bytes,
		      struct fkv_window *ret)
{
	struct sweep w = { .space = s, .want = bytes,
			   .best = { .cost = UINT64_MAX } };
	struct fkv_extent from = { .offset = s->sweep_from }, *x;
	uint32_t room = SWEEP_MAX;

	x = sweep_from(&w, RB_NFIND(fkv_extent_map, &s->map, &from), &room);
	if (!x && s->sweep_from)
		x = sweep_from(&w, RB_MIN(fkv_extent_map, &s->map), &room);
	s->sweep_from = x ? x->offset : 0;
	*ret = w.best;
	return w.best.first;
}
