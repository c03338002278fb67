// SPDX-License-Identifier: Apache-2.0
/*
 * arc.c - adaptive replacement: recency and frequency, balanced by ghosts
 *
 * Megiddo and Modha, FAST 2003, fig. 4, whose names the variables have. Its
 * target p is a real number: here in units of 1/65536 of a block.
 */
#include "cache.h"

#define UNIT	((uint64_t)1 << 16)

enum { OUT, T1, T2, B1, B2 };

struct arc {
	struct cache cache;
	uint64_t p;
};

static uint64_t step(const struct cache *c, unsigned int num, unsigned int den)
{
	return fkv_max_u64(UNIT * c->list[num].count / c->list[den].count,
			   UNIT);
}

static void replace(struct arc *arc, bool in_b2)
{
	struct cache *c = &arc->cache;
	uint64_t t1 = UNIT * c->list[T1].count;

	if (t1 && (t1 > arc->p || (in_b2 && t1 == arc->p)))
		cache_move(c, cache_oldest(c, T1), B1);
	else
		cache_move(c, cache_oldest(c, T2), B2);
}

static void new_make_room(struct arc *arc)
{
	struct cache *c = &arc->cache;
	uint32_t l1 = c->list[T1].count + c->list[B1].count;
	uint32_t l2 = c->list[T2].count + c->list[B2].count;

	if (l1 == c->room && !c->list[B1].count) {
		cache_move(c, cache_oldest(c, T1), OUT);
		return;
	}
	if (l1 + l2 < c->room)
		return;
	if (l1 == c->room)
		cache_move(c, cache_oldest(c, B1), OUT);
	else if (l1 + l2 == 2 * c->room)
		cache_move(c, cache_oldest(c, B2), OUT);
	replace(arc, false);
}

static void arc_access(struct cache *c, struct block *b)
{
	struct arc *arc = fkv_container_of(c, struct arc, cache);
	unsigned int to = b->list == OUT ? T1 : T2;

	if (b->list == B1) {
		arc->p = fkv_min_u64(arc->p + step(c, B2, B1),
				     UNIT * c->room);
		replace(arc, false);
	} else if (b->list == B2) {
		arc->p -= fkv_min_u64(arc->p, step(c, B1, B2));
		replace(arc, true);
	} else if (b->list == OUT) {
		new_make_room(arc);
	}
	cache_move(c, b, to);
}

const struct kind arc_kind = {
	.size = sizeof(struct arc),
	.lists = T2,
	.access = arc_access,
};
