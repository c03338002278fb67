// SPDX-License-Identifier: Apache-2.0
/*
 * entries.c - what this host may serve by itself, and when it may not
 *
 * protocol.md K6a, K6d and M4a: published only by grant, retired before a new
 * version becomes current, handed back to the master when quiet.
 */
#include "core/owner/internal.h"

struct fkv_entry *fkv_entry_find(const struct fkv_owner *o,
				 const struct fkv_key *key)
{
	struct fkv_node *n;

	for (n = fkv_table_first(&o->live, key->hash.low); n;
	     n = fkv_table_next(n)) {
		struct fkv_entry *e;

		e = fkv_container_of(n, struct fkv_entry, node);
		if (fkv_key_equal(e->key, key))
			return e;
	}
	return NULL;
}

static void publish(struct fkv_owner *o, struct fkv_entry *e,
		    struct fkv_out *out)
{
	e->live = true;
	e->scanned = false;
	fkv_table_add(&o->live, &e->node, e->key->hash.low);
	o->stats.entries++;
	fkv_out_add(out, FKV_CMD_PUBLISH)->entry = e;
}

/* A grant for what is live already only adds a reference. */
struct fkv_entry *fkv_entry_create(struct fkv_owner *o, struct fkv_key *key,
				   const struct fkv_msg *msg, bool grant,
				   struct fkv_out *out)
{
	struct fkv_entry *e = grant ? fkv_entry_find(o, key) : NULL;

	if (e && e->extent == msg->extent) {
		e->given++;
		return e;
	}
	fkv_assert(!e);
	e = fkv_zalloc(sizeof(*e));
	if (!e)
		return NULL;
	e->key = fkv_key_get(key);
	e->put_id = msg->put_id;
	e->extent = msg->extent;
	e->offset = msg->offset;
	e->len = msg->len;
	e->given = 1;
	e->slot = FKV_NO_SLOT;
	e->scanned = true;
	TAILQ_INSERT_TAIL(&o->entries, e, all);
	if (grant)
		publish(o, e, out);
	else
		o->stats.entries_retired++;
	return e;
}

/*
 * Live entries that somebody pins cannot be evicted: the master counts them,
 * and those whose first persist is pending by itself.
 */
static void count_held(struct fkv_owner *o, const struct fkv_entry *e,
		       bool more)
{
	uint64_t bytes = fkv_extent_bytes(e->len);

	if (!e->live || !e->pins || e->pending)
		return;
	o->held_bytes += more ? bytes : 0 - bytes;
}

static void set_pending(struct fkv_owner *o, struct fkv_entry *e, bool pending)
{
	if (pending && !e->pending)
		TAILQ_INSERT_TAIL(&o->pending, e, waits);
	else if (!pending && e->pending)
		TAILQ_REMOVE(&o->pending, e, waits);
	e->pending = pending;
}

struct fkv_entry *fkv_owner_next_pending(const struct fkv_owner *o,
					 const struct fkv_entry *e)
{
	return e ? TAILQ_NEXT(e, waits) : TAILQ_FIRST(&o->pending);
}

/*
 * What readers pin is known from the last count only, which left pending ones
 * out: one that it saw pinned is taken for pinned until the next.
 */
void fkv_entry_pending(struct fkv_owner *o, const struct fkv_key *key,
		       uint64_t extent, bool pending)
{
	struct fkv_entry *e = fkv_entry_find(o, key);

	if (!e || e->extent != extent || e->pending == pending)
		return;
	count_held(o, e, false);
	set_pending(o, e, pending);
	count_held(o, e, true);
	if (!pending && e->read && !e->pins)
		o->shared_bytes += fkv_extent_bytes(e->len);
	e->read = false;
}

static void unlive(struct fkv_owner *o, struct fkv_entry *e)
{
	count_held(o, e, false);
	set_pending(o, e, false);
	fkv_table_del(&o->live, &e->node);
	e->live = false;
	o->stats.entries--;
	o->stats.entries_retired++;
}

static void entry_free(struct fkv_owner *o, struct fkv_entry *e)
{
	o->stats.entries_retired--;
	TAILQ_REMOVE(&o->entries, e, all);
	fkv_key_put(e->key);
	fkv_free(e);
}

/* Quiet at last: the master gets its references back. */
void fkv_entry_gc(struct fkv_owner *o, struct fkv_entry *e,
		  struct fkv_out *out)
{
	struct fkv_msg *msg;

	if (e->live || e->pins || !e->scanned || e->evicting)
		return;
	/* of an empty value of an earlier session the master knows nothing */
	if (e->extent || e->len) {
		msg = fkv_out_send(out, FKV_MSG_QUIET);
		msg->extent = e->extent;
		msg->offset = e->extent ? 0 : e->offset;
		msg->n = e->given;
	}
	entry_free(o, e);
}

void fkv_entry_pin(struct fkv_owner *o, struct fkv_entry *e)
{
	if (!e->pins++)
		count_held(o, e, true);
}

void fkv_entry_unpin(struct fkv_owner *o, struct fkv_entry *e,
		     struct fkv_out *out)
{
	fkv_assert(e->pins > 0);
	if (e->pins == 1)
		count_held(o, e, false);
	e->pins--;
	fkv_entry_gc(o, e, out);
}

void fkv_owner_retire(struct fkv_owner *o, struct fkv_msg *msg,
		      struct fkv_out *out)
{
	struct fkv_entry *e = fkv_entry_find(o, msg->key);

	if (e && e->put_id <= msg->put_id) {
		unlive(o, e);
		fkv_out_add(out, FKV_CMD_RETIRE)->entry = e;
	}
	fkv_fetch_retire(o, msg->key, msg->put_id);
	fkv_job_retire(o, msg->key, msg->put_id, out);
	if (o->cfg.ring)
		fkv_ring_retire(o->cfg.ring, msg->key, msg->put_id);
	fkv_out_send(out, FKV_MSG_RETIRED)->op = msg->op;
}

void fkv_entries_lost(struct fkv_owner *o, struct fkv_out *out)
{
	struct fkv_entry *e, *next;

	for (e = TAILQ_FIRST(&o->entries); e; e = next) {
		next = TAILQ_NEXT(e, all);
		e->extent = 0;
		e->given = 1;
		if (!e->live)
			continue;
		unlive(o, e);
		fkv_out_add(out, FKV_CMD_RETIRE)->entry = e;
	}
}

static void evict_answer(struct fkv_out *out, uint64_t extent, int res,
			 uint64_t n)
{
	struct fkv_msg *msg = fkv_out_send(out, FKV_MSG_EVICTED);

	msg->extent = extent;
	msg->res = res;
	msg->n = n;
}

void fkv_owner_evict(struct fkv_owner *o, struct fkv_msg *msg,
		     struct fkv_out *out)
{
	struct fkv_entry *e = fkv_entry_find(o, msg->key);

	if (!e || e->extent != msg->extent) {
		evict_answer(out, msg->extent, FKV_EVICT_HELD, 0);
	} else if (e->pins) {
		evict_answer(out, msg->extent, FKV_EVICT_BUSY, 0);
	} else {
		e->evicting = true;
		fkv_out_add(out, FKV_CMD_EVICT)->entry = e;
	}
}

/*
 * The gateway peeked and, unless BUSY, retired and scanned. An entry that was
 * retired since the question is the retirement's: its scan follows.
 */
void fkv_entry_evicted(struct fkv_owner *o, struct fkv_entry *e, int res,
		       struct fkv_out *out)
{
	uint64_t extent = e->extent;
	uint64_t n = e->given;

	e->evicting = false;
	if (!e->live) {
		evict_answer(out, extent, FKV_EVICT_HELD, 0);
		fkv_entry_gc(o, e, out);
		return;
	}
	if (res == FKV_EVICT_BUSY) {
		evict_answer(out, extent, res, 0);
		return;
	}
	unlive(o, e);
	e->scanned = res == FKV_EVICT_OK;
	if (!e->scanned || e->pins) {
		evict_answer(out, extent, FKV_EVICT_HELD, 0);
		return;
	}
	entry_free(o, e);
	evict_answer(out, extent, FKV_EVICT_OK, n);
}

void fkv_entry_scanned(struct fkv_owner *o, struct fkv_entry *e,
		       struct fkv_out *out)
{
	fkv_assert(!e->live);
	e->scanned = true;
	fkv_entry_gc(o, e, out);
}
