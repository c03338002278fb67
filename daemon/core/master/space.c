// SPDX-License-Identifier: Apache-2.0
#include <inttypes.h>
#include <stdio.h>

#include "core/master/space.h"

/* protocol.md P4: percent of the segment, by enum fkv_class */
static const unsigned int class_percent[FKV_CLASS_NR] = { 100, 95, 85 };

/* reclaim runs ahead below 2 % free, back to 4 % (M4a) */
#define LOW_DIVISOR	50u
#define HIGH_DIVISOR	25u

#define POLLS_MAX	50u		/* 100 ms */

int fkv_space_init(struct fkv_space *s, uint64_t capacity, bool first)
{
	int err;

	memset(s, 0, sizeof(*s));
	err = fkv_extents_init(&s->extents, capacity);
	if (err)
		return err;
	fkv_lfu_init(&s->lfu, first);
	RB_INIT(&s->map);
	s->capacity = capacity;
	for (int c = 0; c < FKV_CLASS_NR; c++)
		TAILQ_INIT(&s->waiters[c]);
	return 0;
}

void fkv_space_done(struct fkv_space *s)
{
	fkv_lfu_done(&s->lfu);
	fkv_extents_done(&s->extents);
}

int fkv_space_resize(struct fkv_space *s, uint64_t capacity)
{
	struct fkv_extents fresh;
	int err = fkv_extents_init(&fresh, capacity);

	fkv_assert(!fkv_extents_used_bytes(&s->extents));
	if (err)
		return err;
	fkv_extents_done(&s->extents);
	s->extents = fresh;
	s->capacity = capacity;
	return 0;
}

uint64_t fkv_space_limit(const struct fkv_space *s, enum fkv_class class)
{
	return fkv_align_down(s->capacity / 100 * class_percent[class],
			      FKV_EXTENT_UNIT);
}

uint64_t fkv_space_unevictable(const struct fkv_space *s)
{
	uint64_t sum = s->pinned_bytes;

	for (int c = FKV_CAUSE_NONE + 1; c < FKV_CAUSE_NR; c++)
		sum += s->cause_bytes[c];
	return sum;
}

bool fkv_space_free_to_try(const struct fkv_space *s, enum fkv_class class)
{
	return TAILQ_EMPTY(&s->waiters[class]) && !s->hole_wanted;
}

int fkv_space_alloc(struct fkv_space *s, enum fkv_class class, uint64_t len,
		    uint64_t *ret_offset)
{
	uint64_t bytes = fkv_extent_bytes(len);

	if (fkv_space_unevictable(s) + bytes > fkv_space_limit(s, class))
		return -EAGAIN;
	return fkv_extents_alloc(&s->extents, bytes, ret_offset);
}

void fkv_space_wait(struct fkv_space *s, struct fkv_waiter *w)
{
	w->queued = true;
	w->space = s;
	w->windows = 0;
	w->polls = 0;
	w->number = ++s->waits;
	TAILQ_INSERT_TAIL(&s->waiters[w->class], w, link);
	s->waiting++;
	if (s->all_waiting)
		++*s->all_waiting;
}

void fkv_space_unwait(struct fkv_waiter *w)
{
	struct fkv_space *s = w->space;

	if (!w->queued)
		return;
	w->queued = false;
	TAILQ_REMOVE(&s->waiters[w->class], w, link);
	s->waiting--;
	if (s->all_waiting)
		--*s->all_waiting;
	s->hole_wanted = 0;
	s->hole_waiter = NULL;
}

void fkv_space_want_hole(struct fkv_space *s, struct fkv_waiter *w)
{
	s->hole_wanted = fkv_extent_bytes(w->len);
	s->hole_waiter = w;
}

void fkv_space_ask_again(struct fkv_space *s)
{
	for (int c = 0; c < FKV_CLASS_NR; c++) {
		struct fkv_waiter *w = TAILQ_FIRST(&s->waiters[c]);

		if (!w)
			continue;
		w->number = ++s->waits;
		w->polls += w->polls < POLLS_MAX;
	}
}

struct fkv_waiter *fkv_space_head(const struct fkv_space *s,
				  enum fkv_class class)
{
	return TAILQ_FIRST(&s->waiters[class]);
}

#define ROUND_MAX	1024u

void fkv_space_new_round(struct fkv_space *s)
{
	s->budget = (uint32_t)fkv_min_u64(s->lfu.resident + 1, ROUND_MAX);
}

static uint64_t less(uint64_t a, uint64_t b)
{
	return a > b ? a - b : 0;
}

uint64_t fkv_space_coming(const struct fkv_space *s)
{
	if (s->hole_waiter && s->hole_waiter->polls >= POLLS_MAX)
		return s->evicting_bytes - s->backing_bytes;
	return s->evicting_bytes;
}

uint64_t fkv_space_pressure(const struct fkv_space *s)
{
	uint64_t free = fkv_extents_free_bytes(&s->extents);
	uint64_t want = 0;

	if (s->hole_wanted > free)
		want = s->hole_wanted - free;
	/* enough is free, in pieces, and no window helped: as much again */
	else if (s->hole_wanted && s->hole_waiter->windows >= FKV_WINDOW_TRIES)
		want = s->hole_wanted;
	if (free + s->evicting_bytes < s->capacity / LOW_DIVISOR ||
	    s->reclaiming)
		want = fkv_max_u64(want,
				   less(s->capacity / HIGH_DIVISOR, free));
	return less(want, fkv_space_coming(s));
}

bool fkv_space_is_roomy(const struct fkv_space *s)
{
	return fkv_extents_free_bytes(&s->extents) >=
	       s->capacity / HIGH_DIVISOR;
}

void fkv_space_explain(const struct fkv_space *s, uint64_t len, char *buf,
		       size_t size)
{
	snprintf(buf, size, "no room in memory for %" PRIu64
		 " bytes: %" PRIu64 " total, %" PRIu64 " free, %" PRIu64
		 " largest hole; not evictable: %" PRIu64 " held after delete "
		 "or overwrite, %" PRIu64 " pinned, %" PRIu64 " open puts, %"
		 PRIu64 " being filled, %" PRIu64 " not on SSD yet, %" PRIu64
		 " read by other hosts",
		 len, s->capacity, fkv_extents_free_bytes(&s->extents),
		 fkv_extents_largest_hole(&s->extents),
		 s->cause_bytes[FKV_CAUSE_HELD], s->pinned_bytes,
		 s->cause_bytes[FKV_CAUSE_PUT],
		 s->cause_bytes[FKV_CAUSE_TARGET],
		 s->cause_bytes[FKV_CAUSE_PERSIST],
		 s->cause_bytes[FKV_CAUSE_SOURCE]);
}

struct fkv_extent *fkv_extent_create(struct fkv_space *s, uint64_t offset,
				     uint64_t len, enum fkv_cause cause)
{
	struct fkv_extent *x = fkv_zalloc(sizeof(*x));

	if (!x) {
		if (len)
			fkv_extents_free(&s->extents, offset, len);
		return NULL;
	}
	x->space = s;
	x->offset = offset;
	x->bytes = fkv_extent_bytes(len);
	x->lfu.bytes = x->bytes;
	x->cause = cause;
	s->cause_bytes[cause] += x->bytes;
	fkv_space_map(s, x);
	return x;
}

void fkv_extent_set_cause(struct fkv_extent *x, enum fkv_cause cause)
{
	x->space->cause_bytes[x->cause] -= x->bytes;
	x->cause = cause;
	x->space->cause_bytes[cause] += x->bytes;
}

void fkv_extent_free(struct fkv_extent *x)
{
	struct fkv_space *s = x->space;

	fkv_assert(!x->in_policy && !x->refs && !x->pulls && !x->route);
	s->cause_bytes[x->cause] -= x->bytes;
	if (x->evicting || x->backing)
		s->evicting_bytes -= x->bytes;
	s->asked -= x->evicting;
	fkv_space_unmap(s, x);
	if (x->bytes)
		fkv_extents_free(&s->extents, x->offset, x->bytes);
	fkv_free(x);
}

/* Empty values take no room and are never victims (K1). */
void fkv_extent_enter(struct fkv_extent *x, unsigned int f, uint64_t hash)
{
	if (!x->bytes)
		return;
	x->in_policy = true;
	fkv_lfu_insert(&x->space->lfu, &x->lfu, f, hash);
	fkv_extent_update(x);
}

void fkv_extent_leave(struct fkv_extent *x)
{
	if (!x->in_policy)
		return;
	x->in_policy = false;
	fkv_lfu_remove(&x->space->lfu, &x->lfu);
}

struct fkv_lfu_count fkv_extent_evicted(struct fkv_extent *x, bool kept)
{
	fkv_assert(x->in_policy);
	fkv_lfu_unpark(&x->space->lfu, &x->lfu);
	x->in_policy = false;
	return fkv_lfu_evicted(&x->space->lfu, &x->lfu, kept);
}

void fkv_extent_update(struct fkv_extent *x)
{
	if (!x->in_policy)
		return;
	if (x->cause != FKV_CAUSE_NONE || x->evicting || x->persisting ||
	    x->pulls)
		fkv_lfu_park(&x->space->lfu, &x->lfu);
	else
		fkv_lfu_unpark(&x->space->lfu, &x->lfu);
}

void fkv_extent_touch(struct fkv_extent *x, uint64_t count)
{
	if (x->in_policy)
		fkv_lfu_touch(&x->space->lfu, &x->lfu, count);
}
