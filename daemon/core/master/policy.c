// SPDX-License-Identifier: Apache-2.0
#include <assert.h>

#include "core/master/policy.h"

#define EPOCH_MASK	((1u << 27) - 1)

static_assert(FKV_LFU_RINGS > FKV_COUNT_MAX + 1 && FKV_LFU_RINGS == 64,
	      "rings in use span f's range; one bit of a word for each");

static unsigned int ring_no(uint32_t bucket)
{
	return bucket % FKV_LFU_RINGS;
}

static unsigned int halved(const struct fkv_lfu *lfu, unsigned int f,
			   uint32_t epoch)
{
	uint32_t passed = (lfu->epoch - epoch) & EPOCH_MASK;

	return passed > 3 ? 0 : f >> passed;
}

static void set_f(struct fkv_lfu *lfu, struct fkv_lfu_item *item, uint64_t f)
{
	item->f = fkv_min_u64(f, FKV_COUNT_MAX);
	item->epoch = lfu->epoch;
	item->bucket = lfu->age + item->f;
}

static void count_accesses(struct fkv_lfu *lfu, uint64_t n)
{
	uint64_t length = FKV_LFU_EPOCH_FACTOR *
			  fkv_max_u64(lfu->resident, 1);

	lfu->accesses += n;
	if (lfu->accesses < length)
		return;
	lfu->epoch = (lfu->epoch + lfu->accesses / length) & EPOCH_MASK;
	lfu->accesses %= length;
}

/* The lowest filled ring that is at least @above over the age. */
static bool lowest_bucket(const struct fkv_lfu *lfu, uint32_t above,
			  uint32_t *ret_bucket)
{
	unsigned int shift = ring_no(lfu->age);
	uint64_t rings = lfu->filled >> shift;

	if (above >= FKV_LFU_RINGS)
		return false;
	if (shift)
		rings |= lfu->filled << (FKV_LFU_RINGS - shift);
	rings = rings >> above << above;
	if (!rings)
		return false;
	*ret_bucket = lfu->age + __builtin_ctzll(rings);
	return true;
}

static void ring_add(struct fkv_lfu *lfu, struct fkv_lfu_item *item)
{
	unsigned int no;

	/* the age may have passed it while it was parked or in the window */
	if (item->bucket - lfu->age > FKV_COUNT_MAX)
		item->bucket = lfu->age;
	no = ring_no(item->bucket);
	TAILQ_INSERT_HEAD(&lfu->ring[no], item, link);
	lfu->filled |= 1ULL << no;
}

static void ring_del(struct fkv_lfu *lfu, struct fkv_lfu_item *item)
{
	unsigned int no = ring_no(item->bucket);

	TAILQ_REMOVE(&lfu->ring[no], item, link);
	if (TAILQ_EMPTY(&lfu->ring[no]))
		lfu->filled &= ~(1ULL << no);
}

static void lists_add(struct fkv_lfu *lfu, struct fkv_lfu_item *item)
{
	if (item->stage == FKV_LFU_WINDOW) {
		TAILQ_INSERT_HEAD(&lfu->window, item, young);
		lfu->window_bytes += item->bytes;
		return;
	}
	if (item->stage == FKV_LFU_NEWCOMER)
		TAILQ_INSERT_HEAD(&lfu->newcomers, item, young);
	ring_add(lfu, item);
}

static void lists_del(struct fkv_lfu *lfu, struct fkv_lfu_item *item)
{
	if (item->stage == FKV_LFU_WINDOW) {
		TAILQ_REMOVE(&lfu->window, item, young);
		lfu->window_bytes -= item->bytes;
		return;
	}
	if (item->stage == FKV_LFU_NEWCOMER)
		TAILQ_REMOVE(&lfu->newcomers, item, young);
	ring_del(lfu, item);
}

/* The window keeps the newest 1 %, and always the newest one. */
static void window_trim(struct fkv_lfu *lfu)
{
	uint64_t limit = lfu->resident_bytes / FKV_LFU_WINDOW_DIVISOR;

	while (lfu->window_bytes > limit) {
		struct fkv_lfu_item *item = TAILQ_LAST(&lfu->window,
						       fkv_lfu_list);

		if (item == TAILQ_FIRST(&lfu->window))
			return;
		lists_del(lfu, item);
		item->stage = FKV_LFU_NEWCOMER;
		lists_add(lfu, item);
	}
}

static uint64_t ghost_limit(const struct fkv_lfu *lfu)
{
	return FKV_LFU_GHOST_FACTOR * lfu->resident;
}

void fkv_lfu_init(struct fkv_lfu *lfu, bool first)
{
	memset(lfu, 0, sizeof(*lfu));
	for (unsigned int i = 0; i < FKV_LFU_RINGS; i++)
		TAILQ_INIT(&lfu->ring[i]);
	TAILQ_INIT(&lfu->window);
	TAILQ_INIT(&lfu->newcomers);
	fkv_ghost_init(&lfu->ghost);
	lfu->first = first;
}

void fkv_lfu_done(struct fkv_lfu *lfu)
{
	fkv_ghost_done(&lfu->ghost);
	memset(lfu, 0, sizeof(*lfu));
}

void fkv_lfu_insert(struct fkv_lfu *lfu, struct fkv_lfu_item *item,
		    unsigned int f, uint64_t hash)
{
	fkv_assert(item->stage == FKV_LFU_OUT);
	count_accesses(lfu, 1);
	lfu->resident++;
	lfu->resident_bytes += item->bytes;
	item->hash = hash;
	item->parked = false;
	item->round = 0;
	item->stage = lfu->first ? FKV_LFU_WINDOW : FKV_LFU_SETTLED;
	set_f(lfu, item, (uint64_t)f + 1);
	lists_add(lfu, item);
	window_trim(lfu);
}

void fkv_lfu_touch(struct fkv_lfu *lfu, struct fkv_lfu_item *item,
		   uint64_t count)
{
	bool on_ring = !item->parked && item->stage != FKV_LFU_WINDOW;

	fkv_assert(item->stage != FKV_LFU_OUT);
	if (!count)
		return;
	count_accesses(lfu, count);
	if (on_ring)
		ring_del(lfu, item);
	set_f(lfu, item, fkv_lfu_f(lfu, item) +
		fkv_min_u64(count, FKV_COUNT_MAX));
	if (on_ring)
		ring_add(lfu, item);
}

void fkv_lfu_remove(struct fkv_lfu *lfu, struct fkv_lfu_item *item)
{
	fkv_assert(item->stage != FKV_LFU_OUT && lfu->resident);
	if (!item->parked)
		lists_del(lfu, item);
	item->stage = FKV_LFU_OUT;
	item->parked = false;
	lfu->resident--;
	lfu->resident_bytes -= item->bytes;
	fkv_ghost_trim(&lfu->ghost, ghost_limit(lfu));
}

void fkv_lfu_park(struct fkv_lfu *lfu, struct fkv_lfu_item *item)
{
	fkv_assert(item->stage != FKV_LFU_OUT);
	if (item->parked)
		return;
	lists_del(lfu, item);
	item->parked = true;
}

void fkv_lfu_unpark(struct fkv_lfu *lfu, struct fkv_lfu_item *item)
{
	fkv_assert(item->stage != FKV_LFU_OUT);
	if (!item->parked)
		return;
	item->parked = false;
	lists_add(lfu, item);
	window_trim(lfu);
}

/* From @item of the rings to the one that goes after it. */
static struct fkv_lfu_item *ring_next(const struct fkv_lfu *lfu,
				      struct fkv_lfu_item *item)
{
	struct fkv_lfu_item *next = TAILQ_PREV(item, fkv_lfu_list, link);
	uint32_t bucket;

	if (next)
		return next;
	if (!lowest_bucket(lfu, item->bucket - lfu->age + 1, &bucket))
		return NULL;
	return TAILQ_LAST(&lfu->ring[ring_no(bucket)], fkv_lfu_list);
}

static void cursor_start(struct fkv_lfu *lfu, struct fkv_lfu_cursor *c)
{
	uint32_t bucket;

	window_trim(lfu);
	memset(c, 0, sizeof(*c));
	c->started = true;
	c->round = ++lfu->round;
	if (lowest_bucket(lfu, 0, &bucket))
		c->lowest = TAILQ_LAST(&lfu->ring[ring_no(bucket)],
				       fkv_lfu_list);
	c->newcomer = TAILQ_FIRST(&lfu->newcomers);
	c->window = TAILQ_LAST(&lfu->window, fkv_lfu_list);
}

/* Past those that this walk has met: touched, they lie ahead again. */
static void cursor_skip(const struct fkv_lfu *lfu, struct fkv_lfu_cursor *c)
{
	while (c->lowest && c->lowest->round == c->round)
		c->lowest = ring_next(lfu, c->lowest);
	while (c->newcomer && c->newcomer->round == c->round)
		c->newcomer = TAILQ_NEXT(c->newcomer, young);
}

static struct fkv_lfu_item *cursor_take(const struct fkv_lfu *lfu,
					struct fkv_lfu_cursor *c,
					struct fkv_lfu_item *item)
{
	item->round = c->round;
	cursor_skip(lfu, c);
	return item;
}

struct fkv_lfu_item *fkv_lfu_victim(struct fkv_lfu *lfu,
				    struct fkv_lfu_cursor *c)
{
	struct fkv_lfu_item *item;

	if (!c->started)
		cursor_start(lfu, c);
	item = c->newcomer;
	if (item && !fkv_lfu_admits(lfu, fkv_lfu_f(lfu, item), c->lowest))
		return cursor_take(lfu, c, item);
	if (item) {
		c->newcomer = TAILQ_NEXT(item, young);
		TAILQ_REMOVE(&lfu->newcomers, item, young);
		item->stage = FKV_LFU_SETTLED;
	}
	if (c->lowest)
		return cursor_take(lfu, c, c->lowest);
	/* the newest go when nothing else is left, so that a put can */
	item = c->window;
	if (item)
		c->window = TAILQ_PREV(item, fkv_lfu_list, young);
	return item;
}

struct fkv_lfu_count fkv_lfu_evicted(struct fkv_lfu *lfu,
				     struct fkv_lfu_item *item, bool kept)
{
	struct fkv_lfu_count count = {
		.f = fkv_lfu_f(lfu, item),
		.epoch = lfu->epoch,
	};
	bool on_ring = !item->parked && item->stage != FKV_LFU_WINDOW;
	uint32_t bucket;

	if (on_ring && lowest_bucket(lfu, 0, &bucket) &&
	    bucket == item->bucket)
		lfu->age = bucket;
	fkv_lfu_remove(lfu, item);
	if (!kept)
		fkv_lfu_ghost_put(lfu, item->hash, count);
	return count;
}

void fkv_lfu_ghost_put(struct fkv_lfu *lfu, uint64_t hash,
		       struct fkv_lfu_count count)
{
	if (fkv_lfu_count_f(lfu, count))
		fkv_ghost_put(&lfu->ghost, hash, count, ghost_limit(lfu));
}

unsigned int fkv_lfu_ghost_take(struct fkv_lfu *lfu, uint64_t hash)
{
	struct fkv_lfu_count count;

	if (!fkv_ghost_take(&lfu->ghost, hash, &count))
		return 0;
	return fkv_lfu_count_f(lfu, count);
}

unsigned int fkv_lfu_count_f(const struct fkv_lfu *lfu,
			     struct fkv_lfu_count count)
{
	return halved(lfu, count.f, count.epoch);
}

unsigned int fkv_lfu_f(const struct fkv_lfu *lfu,
		       const struct fkv_lfu_item *item)
{
	return halved(lfu, item->f, item->epoch);
}

unsigned int fkv_lfu_priority(const struct fkv_lfu *lfu,
			      const struct fkv_lfu_item *item)
{
	uint32_t over = item->bucket - lfu->age;

	return over > FKV_COUNT_MAX ? 0 : over;
}

bool fkv_lfu_admits(const struct fkv_lfu *lfu, unsigned int f,
		    const struct fkv_lfu_item *victim)
{
	return !lfu->first || (victim && f > fkv_lfu_f(lfu, victim));
}

static void check_ring(const struct fkv_lfu *lfu, unsigned int no,
		       uint64_t *items, uint64_t *bytes)
{
	const struct fkv_lfu_item *item;

	fkv_assert(TAILQ_EMPTY(&lfu->ring[no]) == !(lfu->filled >> no & 1));
	TAILQ_FOREACH(item, &lfu->ring[no], link) {
		fkv_assert(!item->parked && ring_no(item->bucket) == no);
		fkv_assert(item->bucket - lfu->age <= FKV_COUNT_MAX);
		fkv_assert(item->stage == FKV_LFU_SETTLED ||
			   item->stage == FKV_LFU_NEWCOMER);
		++*items;
		*bytes += item->bytes;
	}
}

void fkv_lfu_check(const struct fkv_lfu *lfu)
{
	const struct fkv_lfu_item *item;
	uint64_t items = 0, bytes = 0, window = 0;

	for (unsigned int i = 0; i < FKV_LFU_RINGS; i++)
		check_ring(lfu, i, &items, &bytes);
	TAILQ_FOREACH(item, &lfu->window, young) {
		fkv_assert(!item->parked && item->stage == FKV_LFU_WINDOW);
		window += item->bytes;
		items++;
	}
	fkv_assert(window == lfu->window_bytes);
	TAILQ_FOREACH(item, &lfu->newcomers, young)
		fkv_assert(!item->parked && item->stage == FKV_LFU_NEWCOMER);
	fkv_assert(items <= lfu->resident);
	fkv_assert(bytes + window <= lfu->resident_bytes);
}
