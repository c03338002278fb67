// SPDX-License-Identifier: Apache-2.0
#include <stdatomic.h>
#include <sys/mman.h>
#include <unistd.h>

#include "io/index.h"
#include "io/segment.h"

/*
 * The client's half is in the library (pins.c). Both use the C11 memory model
 * through these; plain loads of shared words do not exist here.
 */
#define LOAD_RELAXED(p)		__atomic_load_n(p, __ATOMIC_RELAXED)
#define LOAD_ACQUIRE(p)		__atomic_load_n(p, __ATOMIC_ACQUIRE)
#define STORE_RELAXED(p, v)	__atomic_store_n(p, v, __ATOMIC_RELAXED)
#define STORE_RELEASE(p, v)	__atomic_store_n(p, v, __ATOMIC_RELEASE)

TAILQ_HEAD(fkv_pins_list, fkv_pins);

struct retired {
	struct fkv_entry *entry;
	uint64_t gen;			/* that pins of it name */
};

struct fkv_index {
	struct fluxonkv_index_header *hdr;
	struct fluxonkv_index_bucket *buckets;
	struct fluxonkv_index_entry *entries;
	struct fkv_entry **owner;	/* by index: live or retired */
	uint32_t *stamp;		/* by index: last scan that saw a pin */
	uint32_t *free;			/* stack */
	struct retired *retired;
	struct fkv_pins_list pins;
	size_t size;
	size_t nr_retired, retired_room;
	size_t nr_loose;		/* retired, and never had a slot */
	uint32_t nr_free;
	uint32_t scan_no;
	int fd_rw;
	int fd_ro;
	struct fkv_index_stats stats;
};

static uint32_t pow2_at_least(uint32_t n)
{
	uint32_t p = 1;

	while (p < n)
		p *= 2;
	return p;
}

static void layout(struct fluxonkv_index_header *h, uint32_t nr_entries)
{
	h->magic = FLUXONKV_INDEX_MAGIC;
	h->version = FLUXONKV_SHM_VERSION;
	h->nr_entries = nr_entries;
	/* half full at most, so that two buckets are hardly ever both full */
	h->nr_buckets = pow2_at_least((nr_entries * 2 +
				       FLUXONKV_BUCKET_SLOTS - 1) /
				      FLUXONKV_BUCKET_SLOTS);
	if (h->nr_buckets < 2)
		h->nr_buckets = 2;
	h->buckets_off = sizeof(*h);
	h->entries_off = h->buckets_off +
			 h->nr_buckets * sizeof(struct fluxonkv_index_bucket);
	h->entries_off = fkv_align_up(h->entries_off, 256);
}

static int alloc_arrays(struct fkv_index *ix, uint32_t n)
{
	ix->owner = fkv_zalloc(n * sizeof(*ix->owner));
	ix->stamp = fkv_zalloc(n * sizeof(*ix->stamp));
	ix->free = fkv_zalloc(n * sizeof(*ix->free));
	ix->retired = fkv_zalloc(n * sizeof(*ix->retired));
	if (!ix->owner || !ix->stamp || !ix->free || !ix->retired)
		return -ENOMEM;
	for (uint32_t i = 0; i < n; i++)
		ix->free[i] = n - 1 - i;
	ix->nr_free = n;
	ix->retired_room = n;
	return 0;
}

int fkv_index_create(uint32_t nr_entries, uint64_t incarnation, bool strict,
		     struct fkv_index **ret)
{
	struct fluxonkv_index_header h = { 0 };
	struct fkv_index *ix = fkv_zalloc(sizeof(*ix));
	void *map = NULL;
	int err;

	fkv_assert(nr_entries >= 1 && nr_entries <= FLUXONKV_INDEX_MAX);
	if (!ix)
		return -ENOMEM;
	ix->fd_rw = ix->fd_ro = -1;
	TAILQ_INIT(&ix->pins);
	layout(&h, nr_entries);
	ix->size = fkv_align_up(h.entries_off + (uint64_t)nr_entries *
				sizeof(struct fluxonkv_index_entry), 4096);
	err = alloc_arrays(ix, nr_entries);
	if (!err)
		err = fkv_memfd_create("fluxonkv-index", ix->size, &ix->fd_rw,
				       &map);
	if (err)
		goto err_free;
	ix->hdr = map;
	err = fkv_memfd_readonly(ix->fd_rw, &ix->fd_ro);
	if (err)
		goto err_free;
	h.incarnation = incarnation;
	h.strict = strict;
	h.lease_until_ns = UINT64_MAX;
	*ix->hdr = h;
	ix->buckets = (void *)((char *)map + h.buckets_off);
	ix->entries = (void *)((char *)map + h.entries_off);
	for (uint32_t i = 0; i < nr_entries; i++)
		ix->entries[i].gen = 1;
	ix->stats.entries = nr_entries;
	*ret = ix;
	return 0;

err_free:
	fkv_index_free(ix);
	return err;
}

void fkv_index_free(struct fkv_index *ix)
{
	if (!ix)
		return;
	fkv_assert(TAILQ_EMPTY(&ix->pins));
	if (ix->hdr)
		munmap(ix->hdr, ix->size);
	if (ix->fd_rw >= 0)
		close(ix->fd_rw);
	if (ix->fd_ro >= 0)
		close(ix->fd_ro);
	fkv_free(ix->owner);
	fkv_free(ix->stamp);
	fkv_free(ix->free);
	fkv_free(ix->retired);
	fkv_free(ix);
}

int fkv_index_fd(const struct fkv_index *ix)
{
	return ix->fd_ro;
}

size_t fkv_index_size(const struct fkv_index *ix)
{
	return ix->size;
}

void fkv_index_alive(struct fkv_index *ix, uint64_t until_ns)
{
	STORE_RELEASE(&ix->hdr->alive_until_ns, until_ns);
}

void fkv_index_lease(struct fkv_index *ix, uint64_t until_ns)
{
	STORE_RELEASE(&ix->hdr->lease_until_ns, until_ns);
}

/* A free slot in the emptier of a key's two buckets, or NULL. */
static uint64_t *bucket_slot(struct fkv_index *ix, uint64_t hash)
{
	uint32_t b[2] = { fluxonkv_bucket1(hash, ix->hdr->nr_buckets),
			  fluxonkv_bucket2(hash, ix->hdr->nr_buckets) };
	uint64_t *at[2] = { NULL, NULL };
	unsigned int used[2] = { 0, 0 };

	for (int k = 0; k < 2; k++) {
		uint64_t *slot = ix->buckets[b[k]].slot;

		for (unsigned int i = 0; i < FLUXONKV_BUCKET_SLOTS; i++) {
			if (slot[i])
				used[k]++;
			else
				at[k] = &slot[i];
		}
	}
	return used[1] < used[0] ? at[1] : at[0];
}

/* The slot that names entry @i, for taking it out; must exist. */
static uint64_t *bucket_find(struct fkv_index *ix, uint64_t hash, uint32_t i)
{
	uint64_t want = (uint64_t)fluxonkv_tag(hash) << 32 | (i + 1);

	for (int k = 0; k < 2; k++) {
		uint32_t b = k ? fluxonkv_bucket2(hash, ix->hdr->nr_buckets) :
				 fluxonkv_bucket1(hash, ix->hdr->nr_buckets);

		for (unsigned int j = 0; j < FLUXONKV_BUCKET_SLOTS; j++)
			if (ix->buckets[b].slot[j] == want)
				return &ix->buckets[b].slot[j];
	}
	fkv_assert(!"a published entry is in one of its buckets");
	return NULL;
}

static void fill(struct fluxonkv_index_entry *to, const struct fkv_entry *e)
{
	uint64_t words[FLUXONKV_INDEX_KEY_MAX / 8] = { 0 };

	memcpy(words, e->key->data, e->key->len);
	STORE_RELAXED(&to->put_id, e->put_id);
	STORE_RELAXED(&to->offset, e->offset);
	STORE_RELAXED(&to->len, e->len);
	STORE_RELAXED(&to->key_len, e->key->len);
	for (size_t i = 0; i < FKV_ARRAY_SIZE(words); i++)
		STORE_RELAXED(&to->key[i], words[i]);
}

void fkv_index_publish(struct fkv_index *ix, struct fkv_entry *e)
{
	struct fluxonkv_index_entry *to;
	uint64_t hash = e->key->hash.low;
	uint64_t *slot = NULL;
	uint32_t i;

	e->slot = FKV_NO_SLOT;
	if (ix->nr_free && e->key->len <= FLUXONKV_INDEX_KEY_MAX)
		slot = bucket_slot(ix, hash);
	if (!slot) {
		ix->stats.not_published++;
		return;
	}
	i = ix->free[--ix->nr_free];
	ix->owner[i] = e;
	ix->stats.used++;
	e->slot = i;
	to = &ix->entries[i];
	fill(to, e);
	/*
	 * Pairs with the first load_acquire of gen in pin_entry() (pins.c):
	 * fields before it. R2 keeps the fields behind R1.
	 */
	STORE_RELEASE(&to->gen, to->gen + 1);
	STORE_RELEASE(slot, (uint64_t)fluxonkv_tag(hash) << 32 | (i + 1));
}

/* R1: dead from now on. The caller fences before it looks at pins. */
static void kill_entry(struct fkv_index *ix, struct fkv_entry *e)
{
	struct fluxonkv_index_entry *at = &ix->entries[e->slot];

	STORE_RELEASE(&at->gen, at->gen + 1);
	STORE_RELEASE(bucket_find(ix, e->key->hash.low, e->slot), 0);
}

static bool is_dead(const struct fkv_index *ix, const struct fkv_entry *e)
{
	return ix->entries[e->slot].gen & 1;
}

/* Each slot has room already, for the time when it is retired. */
static int loose_room(struct fkv_index *ix)
{
	size_t room = ix->retired_room + ix->retired_room / 4 + 64;
	struct retired *r;

	if (ix->hdr->nr_entries + ix->nr_loose < ix->retired_room)
		return 0;
	r = fkv_realloc(ix->retired, room * sizeof(*r));
	if (!r)
		return -ENOMEM;
	ix->retired = r;
	ix->retired_room = room;
	return 0;
}

static void retired_add(struct fkv_index *ix, struct fkv_entry *e)
{
	ix->retired[ix->nr_retired].entry = e;
	ix->retired[ix->nr_retired].gen =
		e->slot == FKV_NO_SLOT ? 0 : ix->entries[e->slot].gen - 1;
	ix->nr_retired++;
}

static void slot_free(struct fkv_index *ix, struct fkv_entry *e)
{
	ix->owner[e->slot] = NULL;
	ix->free[ix->nr_free++] = e->slot;
	ix->stats.used--;
	e->slot = FKV_NO_SLOT;
}

/*
 * R3: stamp every index that a slot of any client names under its generation.
 * Slots are a client's memory: bounded reads, anything odd is ignored. An
 * entry is pinned under the generation that it had while live: gen of a live
 * entry, gen - 1 of a dead one.
 */
static void stamp_pins(struct fkv_index *ix)
{
	struct fkv_pins *p;

	ix->scan_no++;
	ix->stats.scans++;
	TAILQ_FOREACH(p, &ix->pins, link) {
		const struct fluxonkv_pins_header *h = p->map;
		uint64_t *slot = (uint64_t *)((char *)p->map + sizeof(*h));
		uint64_t n = LOAD_ACQUIRE(&h->high_water);

		if (n > p->nr_slots)
			n = p->nr_slots;
		ix->stats.scanned_slots += n;
		for (uint64_t k = 0; k < n; k++) {
			/*
			 * acquire: pairs with store_release in
			 * fkv_pins_unpin(): reads under a pin end before reuse
			 */
			uint64_t pin = LOAD_ACQUIRE(&slot[k]);
			uint32_t i = FLUXONKV_PIN_ENTRY(pin);

			if (!pin || i >= ix->hdr->nr_entries)
				continue;
			if (FLUXONKV_PIN_GEN(pin) ==
			    (ix->entries[i].gen & ~1ULL))
				ix->stamp[i] = ix->scan_no;
		}
	}
}

static bool stamped(const struct fkv_index *ix, const struct fkv_entry *e)
{
	return ix->stamp[e->slot] == ix->scan_no;
}

int fkv_index_retire(struct fkv_index *ix, struct fkv_entry *e)
{
	if (e->slot == FKV_NO_SLOT) {
		int err = loose_room(ix);

		if (err)
			return err;
		ix->nr_loose++;
	}
	if (e->slot != FKV_NO_SLOT && !is_dead(ix, e)) {
		kill_entry(ix, e);
		/*
		 * R2, before the acknowledgement that lets a new version in:
		 * pairs with P2 in pin_gen() (pins.c)
		 */
		atomic_thread_fence(memory_order_seq_cst);
	}
	retired_add(ix, e);
	return 0;
}

void fkv_index_evict(struct fkv_index *ix, struct fkv_entry *const *es,
		     size_t n, enum fkv_evict_result *ret)
{
	/* a peek without the fence: most pins are old */
	stamp_pins(ix);
	for (size_t k = 0; k < n; k++) {
		struct fkv_entry *e = es[k];

		ret[k] = FKV_EVICT_OK;
		if (e->slot == FKV_NO_SLOT)
			continue;
		if (is_dead(ix, e))
			ret[k] = FKV_EVICT_HELD;
		else if (stamped(ix, e))
			ret[k] = FKV_EVICT_BUSY;
		else
			kill_entry(ix, e);
	}
	/* R2: pairs with P2 in pin_gen() (pins.c) */
	atomic_thread_fence(memory_order_seq_cst);
	stamp_pins(ix);
	for (size_t k = 0; k < n; k++) {
		struct fkv_entry *e = es[k];

		if (ret[k] != FKV_EVICT_OK || e->slot == FKV_NO_SLOT)
			continue;
		if (stamped(ix, e)) {
			ret[k] = FKV_EVICT_HELD;
			retired_add(ix, e);
		} else {
			slot_free(ix, e);
		}
	}
}

size_t fkv_index_retired(const struct fkv_index *ix)
{
	return ix->nr_retired;
}

void fkv_index_scan(struct fkv_index *ix, const struct fkv_index_ops *ops,
		    void *arg)
{
	size_t n = ix->nr_retired, kept = 0;

	if (!n)
		return;
	/* R2 once more, where retire has one: pairs with P2 in pin_gen() */
	atomic_thread_fence(memory_order_seq_cst);
	stamp_pins(ix);
	/* quiet ones behind the kept ones, so that callbacks may retire more */
	for (size_t k = 0; k < n; k++) {
		struct retired r = ix->retired[k];

		if (r.entry->slot == FKV_NO_SLOT || !stamped(ix, r.entry))
			continue;
		ix->retired[k] = ix->retired[kept];
		ix->retired[kept++] = r;
	}
	for (size_t k = kept; k < n; k++)
		if (ix->retired[k].entry->slot != FKV_NO_SLOT)
			slot_free(ix, ix->retired[k].entry);
		else
			ix->nr_loose--;
	while (n > kept) {
		struct fkv_entry *e = ix->retired[--n].entry;

		ix->nr_retired--;
		ix->retired[n] = ix->retired[ix->nr_retired];
		ops->scanned(arg, e);
	}
}

int fkv_pins_create(struct fkv_index *ix, uint32_t nr_slots,
		    struct fkv_pins **ret)
{
	struct fkv_pins *p = fkv_zalloc(sizeof(*p));
	struct fluxonkv_pins_header *h;
	int err;

	fkv_assert(nr_slots <= FKV_PINS_MAX);
	if (!p)
		return -ENOMEM;
	p->nr_slots = nr_slots;
	p->index = ix;
	p->size = fkv_align_up(sizeof(*h) + nr_slots * 8ULL +
			       FLUXONKV_HIT_RING * 4ULL, 4096);
	err = fkv_memfd_create("fluxonkv-pins", p->size, &p->fd, &p->map);
	if (err) {
		fkv_free(p);
		return err;
	}
	h = p->map;
	h->magic = FLUXONKV_PINS_MAGIC;
	h->version = FLUXONKV_SHM_VERSION;
	h->nr_slots = nr_slots;
	h->slots_off = sizeof(*h);
	h->ring_off = sizeof(*h) + nr_slots * 8ULL;
	TAILQ_INSERT_TAIL(&ix->pins, p, link);
	*ret = p;
	return 0;
}

static void counters_read(struct fkv_pins *p)
{
	struct fluxonkv_pins_header *h = p->map;

	for (int i = 0; i < FLUXONKV_CNT_NR; i++) {
		uint64_t v = LOAD_RELAXED(&h->counter[i]);

		/* a client that counts backwards is not believed */
		if (v < p->counter[i])
			continue;
		p->index->stats.counter[i] += v - p->counter[i];
		p->counter[i] = v;
	}
}

void fkv_pins_free(struct fkv_pins *p)
{
	if (!p)
		return;
	counters_read(p);
	TAILQ_REMOVE(&p->index->pins, p, link);
	munmap(p->map, p->size);
	close(p->fd);
	fkv_free(p);
}

void fkv_pins_hits(struct fkv_pins *p, const struct fkv_index_ops *ops,
		   void *arg)
{
	struct fluxonkv_pins_header *h = p->map;
	uint32_t *ring = (uint32_t *)((char *)p->map + sizeof(*h) +
				      p->nr_slots * 8ULL);
	uint64_t head = LOAD_ACQUIRE(&h->ring_head);	/* only hints */

	if (head - p->ring_tail > FLUXONKV_HIT_RING) {
		uint64_t lost = head - p->ring_tail - FLUXONKV_HIT_RING;

		p->index->stats.hits_lost += lost;
		p->ring_tail = head - FLUXONKV_HIT_RING;
	}
	for (; p->ring_tail != head; p->ring_tail++) {
		uint32_t i = LOAD_RELAXED(&ring[p->ring_tail &
						(FLUXONKV_HIT_RING - 1)]);
		struct fkv_entry *e;

		if (!i || i > p->index->hdr->nr_entries)
			continue;
		e = p->index->owner[i - 1];
		if (e && e->live)
			ops->hits(arg, e, 1);
	}
}

/*
 * The owner counts what it has given holders of by itself, and the master what
 * it cannot evict for want of a copy.
 */
static uint64_t count_live(struct fkv_entry *e)
{
	if (!e->live || e->pins)
		return 0;
	if (!e->pending)
		return fkv_extent_bytes(e->len);
	e->read = true;
	return 0;
}

/* What slots @from to @to pin is added up; false: they are all free. */
static bool count_slots(struct fkv_pins *p, uint64_t from, uint64_t to,
			uint64_t *live_bytes)
{
	struct fkv_index *ix = p->index;
	const uint64_t *slot = (uint64_t *)((char *)p->map +
				sizeof(struct fluxonkv_pins_header));
	bool used = false;

	ix->stats.counted_slots += to - from;
	for (uint64_t k = from; k < to; k++) {
		uint64_t pin = LOAD_RELAXED(&slot[k]);
		uint32_t i = FLUXONKV_PIN_ENTRY(pin);

		used |= pin != 0;
		if (!pin || i >= ix->hdr->nr_entries || !ix->owner[i] ||
		    FLUXONKV_PIN_GEN(pin) != (ix->entries[i].gen & ~1ULL))
			continue;
		p->pinned++;
		p->pinned_bytes += fkv_extent_bytes(ix->owner[i]->len);
		if (ix->stamp[i] == ix->scan_no)
			continue;
		ix->stamp[i] = ix->scan_no;
		*live_bytes += count_live(ix->owner[i]);
	}
	return used;
}

/*
 * The high water never falls, for clients rely on it: one that once had very
 * many pins would make each of its requests slow. So unless @all, blocks that
 * were free at the last full count are taken for free.
 */
static void count_one(struct fkv_pins *p, bool all, uint64_t *live_bytes)
{
	const struct fluxonkv_pins_header *h = p->map;
	uint64_t n = fkv_min_u64(LOAD_ACQUIRE(&h->high_water), p->nr_slots);

	p->pinned = p->pinned_bytes = 0;
	all |= n <= FKV_PINS_EXACT;
	for (uint64_t at = 0; at < n; at += FKV_PINS_BLOCK) {
		uint64_t end = fkv_min_u64(at + FKV_PINS_BLOCK, n);
		uint64_t *word = &p->busy[at / FKV_PINS_BLOCK / 64];
		uint64_t bit = 1ULL << at / FKV_PINS_BLOCK % 64;

		if (!all && end <= p->counted && !(*word & bit))
			continue;
		if (count_slots(p, at, end, live_bytes))
			*word |= bit;
		else if (all)
			*word &= ~bit;
	}
	if (all)
		p->counted = n;
	counters_read(p);
}

uint64_t fkv_pins_count(struct fkv_pins *p)
{
	uint64_t live = 0;

	p->index->scan_no++;
	count_one(p, false, &live);
	return p->pinned_bytes;
}

uint64_t fkv_index_count(struct fkv_index *ix)
{
	struct fkv_pins *p;
	uint64_t bytes = 0;

	ix->scan_no++;
	TAILQ_FOREACH(p, &ix->pins, link)
		count_one(p, true, &bytes);
	return bytes;
}

void fkv_index_get_stats(struct fkv_index *ix, struct fkv_index_stats *ret)
{
	struct fkv_pins *p;
	uint64_t pinned = 0;

	TAILQ_FOREACH(p, &ix->pins, link) {
		counters_read(p);
		pinned += p->pinned;
	}
	*ret = ix->stats;
	ret->retired = ix->nr_retired;
	ret->pinned = pinned;
}
