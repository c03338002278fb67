// SPDX-License-Identifier: Apache-2.0
#include <string.h>
#define XXH_INLINE_ALL
#include <xxhash.h>

#include "pins.h"

#define SPREAD	16u	/* threads that start in cache lines of their own */

/* initial-exec: a dlopen()ed library has room for a few such words */
#define FAST_TLS __thread __attribute__((tls_model("initial-exec")))

static FAST_TLS unsigned int thread_nr;		/* + 1; 0: none yet */
static FAST_TLS unsigned int slot_hint;

#define load_relaxed(p)		__atomic_load_n(p, __ATOMIC_RELAXED)
#define load_acquire(p)		__atomic_load_n(p, __ATOMIC_ACQUIRE)
#define store_release(p, v)	__atomic_store_n(p, v, __ATOMIC_RELEASE)
#define add_relaxed(p, v)	__atomic_fetch_add(p, v, __ATOMIC_RELAXED)

unsigned int fkv_thread_nr(void)
{
	static unsigned int threads;

	if (fkv_unlikely(!thread_nr)) {
		thread_nr = 1 + (add_relaxed(&threads, 1) & 0xffff);
		/* 32 slots apart, so that few threads keep the scan short */
		slot_hint = (thread_nr - 1) % SPREAD * 32;
	}
	return thread_nr - 1;
}

static int bad(const char *what)
{
	return fkv_lib_fail(-EPROTO, "the daemon broke the protocol: %s",
			    what);
}

/* Do @nr things of @size bytes at @off lie behind a header, inside @bytes? */
static bool fits(uint64_t off, uint64_t nr, uint64_t size, uint64_t bytes)
{
	return off <= bytes && nr <= (bytes - off) / size;
}

static int init_index(struct fkv_pins *pins, const void *index, uint64_t bytes)
{
	const struct fluxonkv_index_header *h = index;
	uint64_t buckets_off, entries_off;

	if (bytes < sizeof(*h) || h->magic != FLUXONKV_INDEX_MAGIC)
		return bad("what it gave as its index is none");
	if (h->version != FLUXONKV_SHM_VERSION)
		return bad("its index is of another version");
	pins->nr_buckets = load_relaxed(&h->nr_buckets);
	pins->nr_entries = load_relaxed(&h->nr_entries);
	buckets_off = load_relaxed(&h->buckets_off);
	entries_off = load_relaxed(&h->entries_off);
	if (!pins->nr_buckets || pins->nr_buckets & (pins->nr_buckets - 1))
		return bad("index buckets are not a power of two");
	if (!pins->nr_entries || pins->nr_entries > FLUXONKV_INDEX_MAX)
		return bad("an index with an impossible number of entries");
	if (buckets_off % 64 || entries_off % 64 ||
	    buckets_off < sizeof(*h) || entries_off < sizeof(*h) ||
	    !fits(buckets_off, pins->nr_buckets,
		  sizeof(struct fluxonkv_index_bucket), bytes) ||
	    !fits(entries_off, pins->nr_entries,
		  sizeof(struct fluxonkv_index_entry), bytes))
		return bad("index tables outside of the index");
	pins->strict = load_relaxed(&h->strict) != 0;
	pins->buckets = (const void *)((const char *)index + buckets_off);
	pins->entries = (const void *)((const char *)index + entries_off);
	return 0;
}

static int init_pages(struct fkv_pins *pins, void *pages, uint64_t bytes)
{
	struct fluxonkv_pins_header *h = pages;
	uint64_t slots_off, ring_off;

	if (bytes < sizeof(*h) || h->magic != FLUXONKV_PINS_MAGIC)
		return bad("what it gave as pin pages are none");
	if (h->version != FLUXONKV_SHM_VERSION)
		return bad("its pin pages are of another version");
	pins->nr_slots = load_relaxed(&h->nr_slots);
	slots_off = load_relaxed(&h->slots_off);
	ring_off = load_relaxed(&h->ring_off);
	if (!pins->nr_slots || pins->nr_slots > FKV_PINS_SLOTS_MAX)
		return bad("pin pages with an impossible number of slots");
	if (slots_off % 8 || ring_off % 4 ||
	    slots_off < sizeof(*h) || ring_off < sizeof(*h) ||
	    !fits(slots_off, pins->nr_slots, sizeof(uint64_t), bytes) ||
	    !fits(ring_off, FLUXONKV_HIT_RING, sizeof(uint32_t), bytes))
		return bad("pin slots outside of the pin pages");
	pins->pages = h;
	pins->slots = (uint64_t *)((char *)pages + slots_off);
	pins->ring = (uint32_t *)((char *)pages + ring_off);
	return 0;
}

int fkv_pins_init(struct fkv_pins *pins, const void *index, void *pages,
		  const struct fkv_pins_sizes *sizes)
{
	int err;

	memset(pins, 0, sizeof(*pins));
	err = init_index(pins, index, sizes->index);
	if (!err)
		err = init_pages(pins, pages, sizes->pages);
	if (err)
		return err;
	pins->segment_bytes = sizes->segment;
	pins->index = index;
	return 0;
}

/* Low 48 bits of the pin and the slot's number: the token. */
static uint64_t token_of(uint32_t slot, uint64_t pin)
{
	return (uint64_t)slot << 48 | (pin & 0xffffffffffffULL);
}

/* The daemon reads slots up to here: raise it before the first use of one. */
static void raise_high_water(struct fkv_pins *pins, uint64_t want)
{
	uint64_t seen = load_relaxed(&pins->pages->high_water);

	while (seen < want &&
	       !__atomic_compare_exchange_n(&pins->pages->high_water, &seen,
					    want, true, __ATOMIC_SEQ_CST,
					    __ATOMIC_RELAXED))
		;
	/*
	 * Our copy, for the pages' line is written with each hit. Pairs with
	 * the load_acquire in take_slot(): who skips the exchange has it
	 * before its P2.
	 */
	store_release(&pins->high_water, (uint32_t)want);
}

/*
 * P1: store @pin in a free slot; ordered by P2, the fence behind it, read by R3
 * in stamp_pins(). Returns its number, or -1 when all are full.
 */
static int take_slot(struct fkv_pins *pins, uint64_t pin)
{
	uint32_t nr = pins->nr_slots, at = slot_hint;

	if (at >= nr)
		at %= nr;
	for (uint32_t i = 0; i < nr; i++, at = at + 1 == nr ? 0 : at + 1) {
		uint64_t expected = 0;

		if (load_relaxed(&pins->slots[at]))
			continue;
		if (load_acquire(&pins->high_water) < at + 1)
			raise_high_water(pins, at + 1);
		if (__atomic_compare_exchange_n(&pins->slots[at], &expected,
						pin, false, __ATOMIC_SEQ_CST,
						__ATOMIC_RELAXED)) {
			slot_hint = at + 1;
			return (int)at;
		}
	}
	add_relaxed(&pins->pages->counter[FLUXONKV_CNT_FULL], 1);
	return -1;
}

static bool key_equal(const struct fluxonkv_index_entry *e, const void *key,
		      size_t key_len)
{
	const uint8_t *k = key;
	size_t i = 0;
	uint64_t word;

	if (load_relaxed(&e->key_len) != key_len)
		return false;
	for (; key_len >= 8; i++, k += 8, key_len -= 8) {
		memcpy(&word, k, 8);
		if (load_relaxed(&e->key[i]) != word)
			return false;
	}
	if (!key_len)
		return true;
	word = 0;
	memcpy(&word, k, key_len);
	return load_relaxed(&e->key[i]) == word;
}

enum step { STEP_PINNED, STEP_OTHER, STEP_RETIRED, STEP_FULL, STEP_REFUSED };

/* What a probe looks for, and what it is charged to. */
struct want {
	const struct fluxonkv_key *key;
	uint64_t hash;
	struct fkv_pins_cap *cap;
};

/* P1 to P3 on an entry whose fields were read under @gen. */
static enum step pin_gen(struct fkv_pins *pins, uint32_t nr, uint64_t gen,
			 struct fkv_pin *pin)
{
	const struct fluxonkv_index_entry *e = &pins->entries[nr];
	uint64_t value = FLUXONKV_PIN(gen, (uint64_t)nr);
	int slot = take_slot(pins, value);

	if (slot < 0)
		return STEP_FULL;
	pin->token = token_of((uint32_t)slot, value);
	/*
	 * P2. Pairs with R2, the fences in fkv_index_evict(),
	 * fkv_index_retire() and fkv_index_scan(): either stamp_pins() (R3)
	 * sees our slot, or P3 below sees the gen of kill_entry() (R1). It
	 * also keeps the loads of the fields before P3.
	 */
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	if (load_acquire(&e->gen) != gen) {
		store_release(&pins->slots[slot], 0);
		return STEP_RETIRED;
	}
	if (pin->len <= pins->segment_bytes &&
	    pin->offset <= pins->segment_bytes - pin->len)
		return STEP_PINNED;
	store_release(&pins->slots[slot], 0);
	return STEP_OTHER;
}

/* Pin entry @nr if it is live, has this key, and the cap has room for it. */
static enum step pin_entry(struct fkv_pins *pins, uint32_t nr,
			   const struct want *w, struct fkv_pin *pin)
{
	const struct fluxonkv_index_entry *e = &pins->entries[nr];
	/* pairs with STORE_RELEASE of gen in fkv_index_publish() */
	uint64_t gen = load_acquire(&e->gen);
	enum step step;

	if (gen & 1 || gen >> 40 || !key_equal(e, w->key->data, w->key->len))
		return STEP_OTHER;
	pin->offset = load_relaxed(&e->offset);
	pin->len = load_relaxed(&e->len);
	pin->version = load_relaxed(&e->put_id);
	if (fkv_unlikely(pin->len > pins->segment_bytes))
		return STEP_OTHER;	/* torn: the gen has changed since */
	if (w->cap && fkv_unlikely(!w->cap->take(w->cap, pin->len)))
		return STEP_REFUSED;
	step = pin_gen(pins, nr, gen, pin);
	if (w->cap && fkv_unlikely(step != STEP_PINNED))
		w->cap->give(w->cap, pin->len);
	return step;
}

/* The entry may be in any slot of the bucket that has its tag. */
static enum step probe(struct fkv_pins *pins, uint32_t bucket,
		       const struct want *w, struct fkv_pin *pin)
{
	const struct fluxonkv_index_bucket *b = &pins->buckets[bucket];

	for (unsigned int i = 0; i < FLUXONKV_BUCKET_SLOTS; i++) {
		uint64_t s = load_relaxed(&b->slot[i]);
		uint32_t entry = (uint32_t)s - 1;
		enum step step;

		if (!s || s >> 32 != fluxonkv_tag(w->hash) ||
		    entry >= pins->nr_entries)
			continue;
		step = pin_entry(pins, entry, w, pin);
		if (step != STEP_OTHER)
			return step;
	}
	return STEP_OTHER;
}

/*
 * Does the daemon live, and is its lease valid where that matters? Asked after
 * pinning, never before: time passes until the pin is seen.
 */
static bool may_serve(const struct fkv_pins *pins)
{
	const struct fluxonkv_index_header *h = pins->index;

	if (fkv_clock_ns(CLOCK_MONOTONIC_COARSE) + FKV_PINS_SLACK_NS >
	    load_relaxed(&h->alive_until_ns))
		return false;
	return !pins->strict || fkv_clock_ns(CLOCK_BOOTTIME) <=
				load_relaxed(&h->lease_until_ns);
}

static enum step find(struct fkv_pins *pins, const struct want *w,
		      struct fkv_pin *pin)
{
	uint32_t n = pins->nr_buckets;
	enum step step = STEP_OTHER;

	for (int i = 0; i < FKV_PINS_RETRIES; i++) {
		step = probe(pins, fluxonkv_bucket1(w->hash, n), w, pin);
		if (step == STEP_OTHER)
			step = probe(pins, fluxonkv_bucket2(w->hash, n), w,
				     pin);
		if (step != STEP_RETIRED)
			break;
		add_relaxed(&pins->pages->counter[FLUXONKV_CNT_RETRIES], 1);
	}
	return step;
}

enum fkv_pins_answer fkv_pins_get(struct fkv_pins *pins,
				  const struct fluxonkv_key *key,
				  struct fkv_pins_cap *cap,
				  struct fkv_pin *ret_pin)
{
	struct want w = { .key = key, .cap = cap };
	enum step step;

	if (key->len > FLUXONKV_INDEX_KEY_MAX)
		return FKV_PINS_ASK;
	fkv_thread_nr();
	w.hash = XXH3_128bits(key->data, key->len).low64;
	step = find(pins, &w, ret_pin);
	if (step == STEP_REFUSED)
		return FKV_PINS_REFUSED;
	if (step != STEP_PINNED)
		return FKV_PINS_ASK;
	if (fkv_likely(may_serve(pins)))
		return FKV_PINS_HIT;
	fkv_pins_unpin(pins, ret_pin->token);
	if (cap)
		cap->give(cap, ret_pin->len);
	return FKV_PINS_ASK;
}

void fkv_pins_note(struct fkv_pins *pins, uint64_t token, uint64_t len)
{
	struct fluxonkv_pins_header *h = pins->pages;
	uint64_t head = add_relaxed(&h->ring_head, 1);

	__atomic_store_n(&pins->ring[head & (FLUXONKV_HIT_RING - 1)],
			 (uint32_t)(token & 0xffffff), __ATOMIC_RELAXED);
	add_relaxed(&h->counter[FLUXONKV_CNT_HITS], 1);
	add_relaxed(&h->counter[FLUXONKV_CNT_HIT_BYTES], len);
}

bool fkv_pins_unpin(struct fkv_pins *pins, uint64_t token)
{
	uint32_t slot = (uint32_t)(token >> 48);
	uint64_t value;

	if (slot >= pins->nr_slots)
		return false;
	value = load_relaxed(&pins->slots[slot]);
	if (!value || token_of(slot, value) != token)
		return false;
	/*
	 * Reads of the bytes stay before it: pairs with LOAD_ACQUIRE of the
	 * slot in stamp_pins().
	 */
	store_release(&pins->slots[slot], 0);
	slot_hint = slot;
	return true;
}

uint32_t fkv_pins_held(const struct fkv_pins *pins)
{
	uint32_t n = 0;

	for (uint32_t i = 0; pins->index && i < pins->nr_slots; i++)
		n += load_acquire(&pins->slots[i]) != 0;
	return n;
}

size_t fkv_pins_ranges(const struct fkv_pins *pins, struct fkv_range *ret)
{
	size_t n = 0;

	for (uint32_t i = 0; pins->index && i < pins->nr_slots; i++) {
		uint64_t pin = load_acquire(&pins->slots[i]);
		uint32_t nr = FLUXONKV_PIN_ENTRY(pin);
		uint64_t offset, len;

		if (!pin || nr >= pins->nr_entries)
			continue;
		/* what is pinned is not filled anew */
		offset = load_relaxed(&pins->entries[nr].offset);
		len = load_relaxed(&pins->entries[nr].len);
		if (len <= pins->segment_bytes &&
		    offset <= pins->segment_bytes - len)
			ret[n++] = (struct fkv_range){ offset, len };
	}
	return n;
}
