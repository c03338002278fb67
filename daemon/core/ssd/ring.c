// SPDX-License-Identifier: Apache-2.0
#include "core/ssd/ring.h"

TAILQ_HEAD(ring_order, fkv_ring_entry);

struct shard {
	uint32_t device;
	uint64_t size;
	uint64_t unit;
	uint64_t head;			/* vpos of the next header */
	uint64_t tail;			/* vpos of the oldest entry, or head */
	uint64_t next_seq;
	bool moved;
	struct ring_order order;
	struct fkv_ring_stats stats;
};

struct fkv_ring {
	uint32_t nr_devices, nr_shards;
	uint32_t next_device;
	struct {
		uint32_t first, nr, next;	/* of its shards */
		bool off;
	} device[FKV_DEVICES_MAX];
	struct fkv_table index;
	struct ring_order passed;	/* overtaken, but pinned */
	struct shard shard[FKV_SHARDS_MAX];
};

int fkv_ring_create(const struct fkv_ring_config *cfg, struct fkv_ring **ret)
{
	struct fkv_ring *r = fkv_zalloc(sizeof(*r));

	if (!r || fkv_table_init(&r->index)) {
		fkv_free(r);
		return -ENOMEM;
	}
	fkv_assert(cfg->nr_devices >= 1 && cfg->nr_devices <= FKV_DEVICES_MAX);
	r->nr_devices = cfg->nr_devices;
	TAILQ_INIT(&r->passed);
	for (uint32_t d = 0; d < cfg->nr_devices; d++) {
		const struct fkv_ring_device_config *dc = &cfg->device[d];

		fkv_assert(dc->unit >= FKV_BLOCK && !(dc->unit % FKV_BLOCK));
		fkv_assert(dc->ring_size && !(dc->ring_size % dc->unit));
		fkv_assert(r->nr_shards + dc->nr_shards <= FKV_SHARDS_MAX);
		r->device[d].first = r->nr_shards;
		r->device[d].nr = dc->nr_shards;
		for (uint32_t i = 0; i < dc->nr_shards; i++) {
			struct shard *s = &r->shard[r->nr_shards++];

			s->device = d;
			s->size = dc->ring_size;
			s->unit = dc->unit;
			s->stats.capacity = dc->ring_size;
			TAILQ_INIT(&s->order);
		}
	}
	*ret = r;
	return 0;
}

static void unindex(struct fkv_ring *r, struct fkv_ring_entry *e)
{
	if (!e->indexed)
		return;
	fkv_table_del(&r->index, &e->node);
	e->indexed = false;
}

static void entry_free(struct fkv_ring *r, struct fkv_ring_entry *e)
{
	unindex(r, e);
	fkv_key_put(e->key);
	fkv_free(e);
}

static void entry_gc(struct fkv_ring *r, struct fkv_ring_entry *e)
{
	if (!e->overtaken || e->read_pins || e->commit_pins)
		return;
	TAILQ_REMOVE(&r->passed, e, link);
	entry_free(r, e);
}

static void free_list(struct fkv_ring *r, struct ring_order *list)
{
	struct fkv_ring_entry *e;

	while ((e = TAILQ_FIRST(list))) {
		TAILQ_REMOVE(list, e, link);
		entry_free(r, e);
	}
}

void fkv_ring_free(struct fkv_ring *r)
{
	if (!r)
		return;
	for (uint32_t i = 0; i < r->nr_shards; i++)
		free_list(r, &r->shard[i].order);
	free_list(r, &r->passed);
	fkv_table_done(&r->index);
	fkv_free(r);
}

/* Not read any more; its bytes stay its own until the tail passes. */
static void kill_entry(struct fkv_ring *r, struct fkv_ring_entry *e)
{
	struct shard *s = &r->shard[e->shard];

	unindex(r, e);
	if (e->state == FKV_RING_DEAD)
		return;
	e->state = FKV_RING_DEAD;
	if (e->overtaken)
		return;
	s->stats.used -= e->entry_len;
	s->stats.entries--;
}

/* Where its bytes begin: its skip header, if it has one, is written too. */
static uint64_t begin(const struct fkv_ring_entry *e)
{
	return e->skip_len ? e->skip_vpos : e->vpos;
}

static void tail_to_oldest(struct shard *s)
{
	struct fkv_ring_entry *e = TAILQ_FIRST(&s->order);

	s->tail = e ? begin(e) : s->head;
	s->moved = true;
}

/* Off its shard: its bytes are free, it lives on for its pins. */
static void pass(struct fkv_ring *r, struct shard *s,
		 struct fkv_ring_entry *e)
{
	TAILQ_REMOVE(&s->order, e, link);
	TAILQ_INSERT_TAIL(&r->passed, e, link);
	e->overtaken = true;
}

/* The tail passes the oldest entry. */
static void overtake(struct fkv_ring *r, struct shard *s,
		     struct fkv_ring_entry *e)
{
	if (e->state == FKV_RING_COMMITTED) {
		s->stats.evictions++;
		s->stats.evicted_bytes += e->len;
	}
	kill_entry(r, e);
	pass(r, s, e);
	tail_to_oldest(s);
	entry_gc(r, e);
}

/*
 * May the tail pass this entry? A dead one only waits for its write: a read
 * of it notices by itself.
 */
static bool in_the_way(struct shard *s, struct fkv_ring_entry *e)
{
	if (e->state == FKV_RING_DEAD)
		return false;
	if (e->state == FKV_RING_WRITING)
		s->stats.blocked_write++;
	else if (e->read_pins)
		s->stats.blocked_read++;
	else if (e->commit_pins)
		s->stats.blocked_commit++;
	else
		return false;
	return true;
}

/* Where an entry of @need bytes would begin: here, or with the next lap. */
static uint64_t place(const struct shard *s, uint64_t need)
{
	uint64_t rest = s->size - s->head % s->size;

	return need <= rest ? s->head : s->head + rest;
}

static bool fits_now(struct shard *s, uint64_t end)
{
	struct fkv_ring_entry *e;

	TAILQ_FOREACH(e, &s->order, link) {
		if (end <= begin(e) + s->size)
			return true;
		if (in_the_way(s, e)) {
			e->closing = true;
			return false;
		}
	}
	return true;
}

/* 0 with the entry placed, -EBUSY, or -EFBIG. */
static int shard_reserve(struct fkv_ring *r, struct shard *s,
			 struct fkv_ring_entry *e)
{
	uint64_t need = s->unit + fkv_align_up(e->len, s->unit);
	struct fkv_ring_entry *old;
	uint64_t at;

	if (need > s->size)
		return -EFBIG;
	at = place(s, need);
	if (!fits_now(s, at + need))
		return -EBUSY;
	while ((old = TAILQ_FIRST(&s->order)) &&
	       at + need > begin(old) + s->size)
		overtake(r, s, old);
	if (at != s->head)
		s->stats.laps++;
	/* a value so large that it covers the place gets no skip header */
	if (at != s->head && at + need - s->head <= s->size) {
		e->skip_vpos = s->head;
		e->skip_len = at - s->head;
	}
	e->vpos = at;
	e->entry_len = need;
	e->seq = s->next_seq++;
	s->head = at + need;
	TAILQ_INSERT_TAIL(&s->order, e, link);
	if (TAILQ_FIRST(&s->order) == e)
		s->tail = begin(e);
	s->stats.used += need;
	s->stats.entries++;
	return 0;
}

static int device_reserve(struct fkv_ring *r, uint32_t d,
			  struct fkv_ring_entry *e)
{
	int err = -EFBIG;

	for (uint32_t i = 0; i < r->device[d].nr; i++) {
		uint32_t k = (r->device[d].next + i) % r->device[d].nr;
		int res;

		e->shard = r->device[d].first + k;
		res = shard_reserve(r, &r->shard[e->shard], e);
		if (!res) {
			r->device[d].next = (k + 1) % r->device[d].nr;
			return 0;
		}
		if (res == -EBUSY)
			err = res;
	}
	return err;
}

static struct fkv_ring_entry *find(const struct fkv_ring *r,
				   const struct fkv_key *key, uint64_t put_id)
{
	struct fkv_node *n;

	for (n = fkv_table_first(&r->index, key->hash.low); n;
	     n = fkv_table_next(n)) {
		struct fkv_ring_entry *e;

		e = fkv_container_of(n, struct fkv_ring_entry, node);
		if (e->put_id == put_id && fkv_key_equal(e->key, key))
			return e;
	}
	return NULL;
}

static int any_device(struct fkv_ring *r, struct fkv_ring_entry *e)
{
	int err = -ENODEV;

	for (uint32_t i = 0; i < r->nr_devices; i++) {
		uint32_t d = (r->next_device + i) % r->nr_devices;
		int res;

		if (r->device[d].off)
			continue;
		res = device_reserve(r, d, e);
		if (!res) {
			r->next_device = (d + 1) % r->nr_devices;
			return 0;
		}
		if (err != -EBUSY)
			err = res;
	}
	return err;
}

int fkv_ring_reserve(struct fkv_ring *r, struct fkv_key *key, uint64_t put_id,
		     uint64_t len, struct fkv_ring_entry **ret)
{
	struct fkv_ring_entry *e = find(r, key, put_id);
	int err;

	if (e && e->closing)
		return -EBUSY;
	if (e) {
		*ret = e;
		return e->state == FKV_RING_WRITING ? -EINPROGRESS : -EALREADY;
	}
	e = fkv_zalloc(sizeof(*e));
	if (!e)
		return -ENOMEM;
	e->len = len;
	e->put_id = put_id;
	err = any_device(r, e);
	if (err) {
		fkv_free(e);
		return err;
	}
	e->key = fkv_key_get(key);
	e->indexed = true;
	fkv_table_add(&r->index, &e->node, key->hash.low);
	*ret = e;
	return 0;
}

/* Older versions of the key are superseded; true when a newer one is there. */
static bool supersede(struct fkv_ring *r, const struct fkv_ring_entry *e)
{
	struct fkv_node *n, *next;
	bool newer = false;

	for (n = fkv_table_first(&r->index, e->key->hash.low); n; n = next) {
		struct fkv_ring_entry *o;

		next = fkv_table_next(n);
		o = fkv_container_of(n, struct fkv_ring_entry, node);
		if (o == e || o->state != FKV_RING_COMMITTED ||
		    !fkv_key_equal(o->key, e->key))
			continue;
		if (o->put_id > e->put_id)
			newer = true;
		else
			kill_entry(r, o);
	}
	return newer;
}

void fkv_ring_commit(struct fkv_ring *r, struct fkv_ring_entry *e,
		     uint64_t sum)
{
	fkv_assert(e->state == FKV_RING_WRITING);
	e->sum = sum;
	e->state = FKV_RING_COMMITTED;
	e->commit_pins = 1;
	if (supersede(r, e) || e->doomed)
		kill_entry(r, e);
}

void fkv_ring_abort(struct fkv_ring *r, struct fkv_ring_entry *e)
{
	fkv_assert(e->state == FKV_RING_WRITING);
	kill_entry(r, e);
}

void fkv_ring_commit_pin(struct fkv_ring_entry *e)
{
	fkv_assert(e->state == FKV_RING_COMMITTED);
	e->commit_pins++;
}

void fkv_ring_commit_unpin(struct fkv_ring *r, struct fkv_ring_entry *e)
{
	fkv_assert(e->commit_pins > 0);
	e->commit_pins--;
	entry_gc(r, e);
}

int fkv_ring_read_pin(struct fkv_ring *r, const struct fkv_key *key,
		      uint64_t put_id, struct fkv_ring_entry **ret)
{
	struct fkv_ring_entry *e = find(r, key, put_id);

	if (!e || e->state != FKV_RING_COMMITTED)
		return -ENOENT;
	if (e->closing)
		return -ESTALE;
	e->read_pins++;
	*ret = e;
	return 0;
}

int fkv_ring_read_unpin(struct fkv_ring *r, struct fkv_ring_entry *e)
{
	int res = e->overtaken ? -ENOENT : 0;

	fkv_assert(e->read_pins > 0);
	e->read_pins--;
	entry_gc(r, e);
	return res;
}

void fkv_ring_retire(struct fkv_ring *r, const struct fkv_key *key,
		     uint64_t put_id)
{
	struct fkv_node *n, *next;

	for (n = fkv_table_first(&r->index, key->hash.low); n; n = next) {
		struct fkv_ring_entry *e;

		next = fkv_table_next(n);
		e = fkv_container_of(n, struct fkv_ring_entry, node);
		if (e->put_id > put_id || !fkv_key_equal(e->key, key))
			continue;
		/* what is being written blocks until that ends */
		if (e->state == FKV_RING_WRITING)
			e->doomed = true;
		else
			kill_entry(r, e);
	}
}

void fkv_ring_drop(struct fkv_ring *r, struct fkv_ring_entry *e)
{
	fkv_assert(e->state != FKV_RING_WRITING);
	kill_entry(r, e);
}

uint64_t fkv_ring_tail(const struct fkv_ring *r, uint32_t shard)
{
	const struct shard *s = &r->shard[shard];
	const struct fkv_ring_entry *e = TAILQ_FIRST(&s->order);

	/* of a device that is off nothing is there, whatever still writes */
	return e && !r->device[s->device].off ? e->seq : s->next_seq;
}

bool fkv_ring_tail_moved(struct fkv_ring *r, uint32_t shard,
			 uint64_t *ret_seq)
{
	struct shard *s = &r->shard[shard];

	if (!s->moved)
		return false;
	s->moved = false;
	*ret_seq = fkv_ring_tail(r, shard);
	return true;
}

static void shard_off(struct fkv_ring *r, struct shard *s)
{
	struct fkv_ring_entry *e, *next;

	for (e = TAILQ_FIRST(&s->order); e; e = next) {
		next = TAILQ_NEXT(e, link);
		if (e->state == FKV_RING_WRITING) {
			e->doomed = true;
			continue;
		}
		kill_entry(r, e);
		pass(r, s, e);
		entry_gc(r, e);
	}
	tail_to_oldest(s);
}

void fkv_ring_device_off(struct fkv_ring *r, uint32_t device)
{
	r->device[device].off = true;
	for (uint32_t i = 0; i < r->device[device].nr; i++)
		shard_off(r, &r->shard[r->device[device].first + i]);
}

int fkv_ring_device_on(struct fkv_ring *r, uint32_t device)
{
	for (uint32_t i = 0; i < r->device[device].nr; i++) {
		struct shard *s = &r->shard[r->device[device].first + i];
		struct fkv_ring_entry *e;

		TAILQ_FOREACH(e, &s->order, link)
			if (e->state == FKV_RING_WRITING)
				return -EBUSY;
	}
	for (uint32_t i = 0; i < r->device[device].nr; i++)
		shard_off(r, &r->shard[r->device[device].first + i]);
	r->device[device].off = false;
	return 0;
}

bool fkv_ring_device_works(const struct fkv_ring *r, uint32_t device)
{
	return !r->device[device].off;
}

static void add_stats(struct fkv_ring_stats *to, const struct fkv_ring_stats *s)
{
	to->capacity += s->capacity;
	to->used += s->used;
	to->entries += s->entries;
	to->evictions += s->evictions;
	to->evicted_bytes += s->evicted_bytes;
	to->laps += s->laps;
	to->blocked_write += s->blocked_write;
	to->blocked_read += s->blocked_read;
	to->blocked_commit += s->blocked_commit;
}

void fkv_ring_device_stats(const struct fkv_ring *r, uint32_t device,
			   struct fkv_ring_stats *ret)
{
	memset(ret, 0, sizeof(*ret));
	for (uint32_t i = 0; i < r->device[device].nr; i++)
		add_stats(ret, &r->shard[r->device[device].first + i].stats);
}

void fkv_ring_get_stats(const struct fkv_ring *r, struct fkv_ring_stats *ret)
{
	memset(ret, 0, sizeof(*ret));
	for (uint32_t i = 0; i < r->nr_shards; i++)
		add_stats(ret, &r->shard[i].stats);
}

static void check_shard(const struct shard *s, uint64_t *indexed)
{
	uint64_t used = 0, entries = 0, end = s->tail, seq = 0;
	struct fkv_ring_entry *e;

	TAILQ_FOREACH(e, &s->order, link) {
		fkv_assert(!e->overtaken);
		fkv_assert(begin(e) >= end && e->entry_len >= s->unit);
		fkv_assert(e->vpos % s->size + e->entry_len <= s->size);
		fkv_assert(!entries || e->seq > seq);
		fkv_assert(e->indexed == (e->state != FKV_RING_DEAD));
		end = e->vpos + e->entry_len;
		seq = e->seq;
		*indexed += e->indexed;
		if (e->state == FKV_RING_DEAD)
			continue;
		used += e->entry_len;
		entries++;
	}
	fkv_assert(end <= s->head && s->head - s->tail <= s->size);
	fkv_assert(used == s->stats.used && used <= s->size);
	fkv_assert(entries == s->stats.entries);
}

void fkv_ring_check(const struct fkv_ring *r)
{
	uint64_t indexed = 0;

	for (uint32_t i = 0; i < r->nr_shards; i++)
		check_shard(&r->shard[i], &indexed);
	fkv_assert(indexed == r->index.count);
}
