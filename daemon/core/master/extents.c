// SPDX-License-Identifier: Apache-2.0
#include "core/master/extents.h"

/* nodes kept beyond what frees may need, so that steady use calls no malloc */
#define SPARE_MAX	256

struct fkv_hole {
	union {
		RB_ENTRY(fkv_hole) by_size;
		struct fkv_hole *next;		/* spare */
	};
	RB_ENTRY(fkv_hole) by_offset;
	uint64_t off;
	uint64_t len;
};

static int cmp_u64(uint64_t a, uint64_t b)
{
	return a < b ? -1 : a > b;
}

static int cmp_offset(const struct fkv_hole *a, const struct fkv_hole *b)
{
	return cmp_u64(a->off, b->off);
}

static int cmp_size(const struct fkv_hole *a, const struct fkv_hole *b)
{
	int cmp = cmp_u64(a->len, b->len);

	return cmp ? cmp : cmp_offset(a, b);
}

FKV_RB_GENERATE(fkv_hole_sizes, fkv_hole, by_size, cmp_size)
FKV_RB_GENERATE(fkv_hole_offsets, fkv_hole, by_offset, cmp_offset)

static void spare_put(struct fkv_extents *x, struct fkv_hole *h)
{
	h->next = x->spare;
	x->spare = h;
	x->nr_spare++;
}

static struct fkv_hole *spare_get(struct fkv_extents *x)
{
	struct fkv_hole *h = x->spare;

	fkv_assert(h);
	x->spare = h->next;
	x->nr_spare--;
	return h;
}

/* Spare nodes that future frees could need in the worst case. */
static uint64_t spare_wanted(const struct fkv_extents *x)
{
	return x->live + 1 - x->nr_holes;
}

/* Make the node that one more allocation must bring. */
static int spare_reserve(struct fkv_extents *x)
{
	struct fkv_hole *h;

	if (x->nr_spare > spare_wanted(x))
		return 0;
	h = fkv_zalloc(sizeof(*h));
	if (!h)
		return -ENOMEM;
	spare_put(x, h);
	return 0;
}

static void spare_trim(struct fkv_extents *x)
{
	while (x->nr_spare > spare_wanted(x) + SPARE_MAX)
		fkv_free(spare_get(x));
}

static void hole_add(struct fkv_extents *x, uint64_t off, uint64_t len)
{
	struct fkv_hole *h;

	if (!len)
		return;
	h = spare_get(x);
	h->off = off;
	h->len = len;
	fkv_assert(!RB_INSERT(fkv_hole_offsets, &x->offsets, h));
	fkv_assert(!RB_INSERT(fkv_hole_sizes, &x->sizes, h));
	x->nr_holes++;
}

static void hole_del(struct fkv_extents *x, struct fkv_hole *h)
{
	RB_REMOVE(fkv_hole_offsets, &x->offsets, h);
	RB_REMOVE(fkv_hole_sizes, &x->sizes, h);
	x->nr_holes--;
	spare_put(x, h);
}

/* The hole at @off or the first one above. */
static struct fkv_hole *hole_from(const struct fkv_extents *x, uint64_t off)
{
	struct fkv_hole key = { .off = off };

	return RB_NFIND(fkv_hole_offsets,
			(struct fkv_hole_offsets *)&x->offsets, &key);
}

static struct fkv_hole *hole_last(const struct fkv_extents *x)
{
	return RB_MAX(fkv_hole_offsets,
		      (struct fkv_hole_offsets *)&x->offsets);
}

/* The last hole below @off, given the first one from there on. */
static struct fkv_hole *hole_below(const struct fkv_extents *x,
				   struct fkv_hole *above)
{
	return above ? RB_PREV(fkv_hole_offsets, NULL, above) : hole_last(x);
}

int fkv_extents_init(struct fkv_extents *x, uint64_t capacity_bytes)
{
	struct fkv_hole *h;

	fkv_assert(capacity_bytes && capacity_bytes % FKV_EXTENT_UNIT == 0);
	memset(x, 0, sizeof(*x));
	RB_INIT(&x->sizes);
	RB_INIT(&x->offsets);
	h = fkv_zalloc(sizeof(*h));
	if (!h)
		return -ENOMEM;
	spare_put(x, h);
	x->capacity = capacity_bytes;
	x->free = capacity_bytes;
	hole_add(x, 0, capacity_bytes);
	return 0;
}

void fkv_extents_done(struct fkv_extents *x)
{
	struct fkv_hole *h;

	while ((h = hole_last(x)))
		hole_del(x, h);
	while (x->spare)
		fkv_free(spare_get(x));
	memset(x, 0, sizeof(*x));
}

/* Cut [off, off + len) out of @h, which covers it. */
static void carve(struct fkv_extents *x, struct fkv_hole *h, uint64_t off,
		  uint64_t len)
{
	uint64_t start = h->off, end = h->off + h->len;

	hole_del(x, h);
	hole_add(x, start, off - start);
	hole_add(x, off + len, end - off - len);
	x->free -= len;
	x->live++;
}

int fkv_extents_alloc(struct fkv_extents *x, uint64_t len_bytes,
		      uint64_t *ret_off)
{
	struct fkv_hole key = { .off = 0 }, *h;
	int err;

	fkv_assert(len_bytes);
	if (len_bytes > x->capacity)
		return -ENOSPC;
	key.len = fkv_extent_bytes(len_bytes);
	h = RB_NFIND(fkv_hole_sizes, &x->sizes, &key);
	if (!h)
		return -ENOSPC;
	err = spare_reserve(x);
	if (err)
		return err;
	*ret_off = h->off;
	carve(x, h, h->off, key.len);
	return 0;
}

int fkv_extents_take(struct fkv_extents *x, uint64_t off, uint64_t len_bytes)
{
	struct fkv_hole *h;
	uint64_t len;
	int err;

	fkv_assert(len_bytes && off % FKV_EXTENT_UNIT == 0);
	if (len_bytes > x->capacity || off > x->capacity - len_bytes)
		return -EBUSY;
	len = fkv_extent_bytes(len_bytes);
	h = hole_from(x, off);
	if (!h || h->off != off)
		h = hole_below(x, h);
	if (!h || h->off + h->len < off + len)
		return -EBUSY;
	err = spare_reserve(x);
	if (err)
		return err;
	carve(x, h, off, len);
	return 0;
}

void fkv_extents_free(struct fkv_extents *x, uint64_t off, uint64_t len_bytes)
{
	uint64_t len, start = off, end;
	struct fkv_hole *above, *below;

	fkv_assert(len_bytes && len_bytes <= x->capacity);
	len = fkv_extent_bytes(len_bytes);
	fkv_assert(off % FKV_EXTENT_UNIT == 0);
	fkv_assert(off <= x->capacity - len);
	fkv_assert(x->live && x->free + len <= x->capacity);
	end = off + len;
	above = hole_from(x, off);
	below = hole_below(x, above);
	fkv_assert(!above || above->off >= end);
	fkv_assert(!below || below->off + below->len <= off);

	if (above && above->off == end) {
		end += above->len;
		hole_del(x, above);
	}
	if (below && below->off + below->len == off) {
		start = below->off;
		hole_del(x, below);
	}
	hole_add(x, start, end - start);
	x->free += len;
	x->live--;
	fkv_assert(x->live || x->free == x->capacity);
	spare_trim(x);
}

uint64_t fkv_extents_largest_hole(const struct fkv_extents *x)
{
	struct fkv_hole *h = RB_MAX(fkv_hole_sizes,
				    (struct fkv_hole_sizes *)&x->sizes);

	return h ? h->len : 0;
}

bool fkv_extents_next_hole(const struct fkv_extents *x, uint64_t from,
			   uint64_t *ret_off, uint64_t *ret_bytes)
{
	struct fkv_hole *above = hole_from(x, from);
	struct fkv_hole *below = hole_below(x, above);
	struct fkv_hole *h = above;

	if (below && below->off + below->len > from)
		h = below;
	if (!h)
		return false;
	*ret_off = h->off;
	*ret_bytes = h->len;
	return true;
}

void fkv_extents_check(const struct fkv_extents *x)
{
	struct fkv_hole *h, *s;
	uint64_t sum = 0, n = 0, spare = 0, end = 0;

	RB_FOREACH(h, fkv_hole_offsets,
		   (struct fkv_hole_offsets *)&x->offsets) {
		fkv_assert(h->len && h->len % FKV_EXTENT_UNIT == 0);
		/* adjacent holes would not have been joined */
		fkv_assert(n == 0 || h->off > end);
		end = h->off + h->len;
		s = RB_FIND(fkv_hole_sizes,
			    (struct fkv_hole_sizes *)&x->sizes, h);
		fkv_assert(s == h);
		sum += h->len;
		n++;
	}
	fkv_assert(end <= x->capacity && sum == x->free && n == x->nr_holes);
	n = 0;
	RB_FOREACH(h, fkv_hole_sizes, (struct fkv_hole_sizes *)&x->sizes)
		n++;
	fkv_assert(n == x->nr_holes);
	for (h = x->spare; h; h = h->next)
		spare++;
	fkv_assert(spare == x->nr_spare && spare >= spare_wanted(x));
}
