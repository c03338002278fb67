/* SPDX-License-Identifier: Apache-2.0 */
/*
 * extents.h - which bytes of one segment are free
 *
 * A map of holes in units of 4 KiB, best fit: the smallest hole that is large
 * enough, the lowest such one. Holes sit in two red-black trees, by (size,
 * offset) and by offset, so that every call is O(log holes) and neighbours
 * join at once (M2).
 *
 * Born empty with its capacity, embedded in the object that owns the segment's
 * books; one thread. It knows no handles, classes or reasons: what is
 * allocated is remembered by the caller, who frees exactly what he got.
 *
 * Freeing never needs memory: n live allocations leave at most n + 1 holes,
 * and each allocation brings one hole's node with it. So no byte can be lost
 * to a failed free (M5).
 */
#ifndef FKV_CORE_MASTER_EXTENTS_H
#define FKV_CORE_MASTER_EXTENTS_H

#include "base/base.h"
#include "base/tree.h"

struct fkv_hole;

RB_HEAD(fkv_hole_sizes, fkv_hole);
RB_HEAD(fkv_hole_offsets, fkv_hole);

struct fkv_extents {
	struct fkv_hole_sizes sizes;
	struct fkv_hole_offsets offsets;
	struct fkv_hole *spare;		/* nodes in no tree */
	uint64_t capacity;
	uint64_t free;
	uint64_t live;			/* allocations */
	uint64_t nr_holes;
	uint64_t nr_spare;
};

/* @capacity_bytes: a multiple of 4 KiB, more than 0. 0 or -ENOMEM. */
int fkv_extents_init(struct fkv_extents *x, uint64_t capacity_bytes);
void fkv_extents_done(struct fkv_extents *x);	/* live ones are forgotten */

/*
 * Take @len_bytes (more than 0; rounded up to 4 KiB) from the best hole. 0 and
 * the byte offset, -ENOSPC when no hole is large enough, -ENOMEM.
 */
int fkv_extents_alloc(struct fkv_extents *x, uint64_t len_bytes,
		      uint64_t *ret_off);

/*
 * Take exactly these bytes, as books are rebuilt from what an owner reports.
 * @off is a multiple of 4 KiB. 0, -EBUSY when a part is not free (or outside),
 * -ENOMEM.
 */
int fkv_extents_take(struct fkv_extents *x, uint64_t off, uint64_t len_bytes);

/* Give back one whole allocation. Never fails, never allocates. */
void fkv_extents_free(struct fkv_extents *x, uint64_t off, uint64_t len_bytes);

static inline uint64_t fkv_extents_free_bytes(const struct fkv_extents *x)
{
	return x->free;
}

static inline uint64_t fkv_extents_used_bytes(const struct fkv_extents *x)
{
	return x->capacity - x->free;
}

static inline uint64_t fkv_extents_nr_holes(const struct fkv_extents *x)
{
	return x->nr_holes;
}

/* Bytes of the largest hole, 0 when full. O(log holes). */
uint64_t fkv_extents_largest_hole(const struct fkv_extents *x);

/*
 * The first hole that ends after @from: its offset and bytes, or false. For
 * walks along the addresses: go on with offset + bytes.
 */
bool fkv_extents_next_hole(const struct fkv_extents *x, uint64_t from,
			   uint64_t *ret_off, uint64_t *ret_bytes);

/* Walk everything and assert that the books agree. For tests. */
void fkv_extents_check(const struct fkv_extents *x);

#endif
