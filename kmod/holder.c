// SPDX-License-Identifier: GPL-2.0-only
/*
 * holder.c - what a session holds, and what that is charged to
 *
 * Holders are slots of a table of the session's, in blocks that never move. An
 * id is a slot and how often it was used, so that an old id is no holder.
 */
#include <linux/nospec.h>

#include "internal.h"
#include "trace.h"

#define BLOCKS_MAX	(1u << 17)
#define BATCH		32

/* Never more than the cap, also for a moment: others would be refused. */
static bool charge(atomic64_t *pinned, u64 cap, u64 bytes)
{
	s64 now = atomic64_read(pinned);

	do {
		if (cap && now + bytes > cap)
			return false;
	} while (!atomic64_try_cmpxchg(pinned, &now, now + bytes));
	return true;
}

bool fkv_charge(struct fkv_session *s, u64 bytes)
{
	if (!charge(&s->pinned, s->inst->client_cap, bytes))
		return false;
	if (charge(&s->uid->pinned, s->inst->uid_cap, bytes))
		return true;
	atomic64_sub(bytes, &s->pinned);
	return false;
}

void fkv_uncharge(struct fkv_session *s, u64 bytes)
{
	atomic64_sub(bytes, &s->pinned);
	atomic64_sub(bytes, &s->uid->pinned);
}

/* ---- the table ---- */

void fkv_holders_init(struct fkv_holders *t)
{
	spin_lock_init(&t->lock);
}

void fkv_holders_done(struct fkv_holders *t)
{
	for (u32 i = 0; i < t->nr_blocks; i++)
		kfree(t->blocks[i]);
	kvfree(t->blocks);
}

/* Room for more blocks: the array of their addresses, of @room of them. */
static void *blocks_alloc(u32 room)
{
	return kvcalloc(room, sizeof(struct fkv_holder *), FKV_GFP);
}

/* Under the lock: put @block and, if it is larger, @blocks to use. */
static void *add_block(struct fkv_holders *t, struct fkv_holder *block,
		       struct fkv_holder **blocks, u32 room)
{
	void *old = blocks;

	if (room > t->room) {
		if (t->nr_blocks)
			memcpy(blocks, t->blocks,
			       t->nr_blocks * sizeof(*blocks));
		old = t->blocks;
		t->blocks = blocks;
		t->room = room;
	}
	for (u32 i = FKV_HOLDER_BLOCK; i-- > 0;) {
		block[i].next = t->free;
		t->free = t->nr_blocks * FKV_HOLDER_BLOCK + i + 1;
	}
	t->blocks[t->nr_blocks++] = block;
	return old;
}

int fkv_holders_grow(struct fkv_holders *t)
{
	u32 room = max_t(u32, 8, READ_ONCE(t->room));
	struct fkv_holder *block;
	void *blocks, *old;

	if (READ_ONCE(t->nr_blocks) >= room)
		room *= 2;
	if (room > BLOCKS_MAX)
		return -ENOMEM;
	block = kcalloc(FKV_HOLDER_BLOCK, sizeof(*block), FKV_GFP);
	blocks = block ? blocks_alloc(room) : NULL;
	if (!blocks) {
		kfree(block);
		return -ENOMEM;
	}
	old = blocks;
	spin_lock(&t->lock);
	if (!t->free && t->nr_blocks < max(room, t->room)) {
		old = add_block(t, block, blocks, room);
		block = NULL;
	}
	spin_unlock(&t->lock);
	kfree(block);
	kvfree(old);
	return 0;
}

u32 fkv_holder_add(struct fkv_session *s, const struct fkv_new_holder *new,
		   u32 n)
{
	struct fkv_holders *t = &s->holders;
	u64 now_ns = ktime_get_coarse_ns();
	u32 i = 0, made;

	do {
		spin_lock(&t->lock);
		for (; i < n && t->free; i++) {
			u64 id = fkv_holder_take(t, new[i].entry,
						 new[i].release, now_ns);

			*new[i].ret_id = id;
			/* under the lock it cannot be released yet */
			trace_fluxonkv_hold(s->id, id, new[i].entry->hash,
					    new[i].entry->put_id,
					    new[i].entry->len);
		}
		spin_unlock(&t->lock);
	} while (i < n && !fkv_holders_grow(t));
	made = i;
	for (; i < n; i++)
		*new[i].ret_id = 0;
	return made;
}

bool fkv_holder_give_back(struct fkv_holders *t, u64 id,
			  struct fkv_holder *ret)
{
	u32 at = (u32)id, end = t->nr_blocks * FKV_HOLDER_BLOCK;
	struct fkv_holder *h;

	if (!at || at > end)
		return false;
	/* the id is what a client says: no load beyond, also by speculation */
	h = fkv_holder_slot(t, array_index_nospec(at - 1, end));
	if (!h->entry || h->uses != id >> 32)
		return false;
	*ret = *h;
	h->entry = NULL;
	h->release = NULL;
	h->next = t->free;
	t->free = at;
	t->nr--;
	return true;
}

/* It is out of the table; returns what it was charged. */
static u64 end(struct fkv_session *s, u64 id, const struct fkv_holder *h,
	       u64 now_ns)
{
	struct fkv_entry *e = h->entry;
	u64 bytes = PAGE_ALIGN(e->len);

	trace_fluxonkv_release(s->id, id, e->hash, e->put_id, e->len,
			       now_ns - h->since_ns);
	fkv_entry_put(e);
	/* only now: the daemon may use the extent again when it hears of it */
	fkv_release_send(s->inst, h->release);
	return bytes;
}

u32 fkv_holder_del(struct fkv_session *s, const u64 *ids, u32 n)
{
	struct fkv_holders *t = &s->holders;
	u64 now_ns = ktime_get_coarse_ns();
	struct fkv_holder was[BATCH];
	u32 ended = 0;
	u64 bytes = 0;

	for (u32 from = 0; from < n; from += BATCH) {
		u32 m = min_t(u32, n - from, BATCH);

		spin_lock(&t->lock);
		for (u32 i = 0; i < m; i++)
			if (!fkv_holder_give_back(t, ids[from + i], &was[i]))
				was[i].entry = NULL;
		spin_unlock(&t->lock);
		for (u32 i = 0; i < m; i++) {
			if (!was[i].entry)
				continue;
			bytes += end(s, ids[from + i], &was[i], now_ns);
			ended++;
		}
	}
	if (ended)
		fkv_uncharge(s, bytes);
	return ended;
}

/* Under the lock: the same to the end of the block at most. */
static bool next_in_block(const struct fkv_holders *t, u32 *at,
			  struct fkv_told *ret)
{
	do {
		const struct fkv_holder *h = fkv_holder_slot(t, *at);

		++*at;
		if (!h->entry)
			continue;
		*ret = (struct fkv_told){
			.id = (u64)h->uses << 32 | *at,
			.hash = h->entry->hash,
			.len = h->entry->len,
			.put_id = h->entry->put_id,
			.since_ns = h->since_ns,
		};
		return true;
	} while (*at % FKV_HOLDER_BLOCK);
	return false;
}

/* Its client's calls wait for the lock: for one block at a time. */
bool fkv_holder_next(struct fkv_session *s, u32 *at, struct fkv_told *ret)
{
	struct fkv_holders *t = &s->holders;
	bool found = false, more;

	do {
		spin_lock(&t->lock);
		more = *at < t->nr_blocks * FKV_HOLDER_BLOCK;
		if (more)
			found = next_in_block(t, at, ret);
		spin_unlock(&t->lock);
		cond_resched();
	} while (more && !found);
	return found;
}

void fkv_holder_del_all(struct fkv_session *s)
{
	struct fkv_holders *t = &s->holders;
	u64 now_ns = ktime_get_coarse_ns();

	for (u32 at = 0; at < t->nr_blocks * FKV_HOLDER_BLOCK; at++) {
		struct fkv_holder *h = fkv_holder_slot(t, at);

		if (!h->entry)
			continue;
		/* its client ends as a whole: one message for all */
		kfree(h->release);
		h->release = NULL;
		fkv_uncharge(s, end(s, (u64)h->uses << 32 | (at + 1), h,
				    now_ns));
		h->entry = NULL;
		cond_resched();
	}
}

/* ---- what the daemon keeps for us ---- */

static void release_done(struct fkv_message *msg)
{
	kfree(container_of(msg, struct fkv_release, msg));
}

struct fkv_release *fkv_release_create(u64 client, u64 id)
{
	struct fkv_release *r = kzalloc(sizeof(*r), FKV_GFP);

	if (!r)
		return NULL;
	r->msg.type = FLUXONKV_MESSAGE_RELEASED;
	r->msg.client = client;
	r->msg.cookie = id;
	r->msg.done = release_done;
	return r;
}

void fkv_release_send(struct fkv_instance *inst, struct fkv_release *r)
{
	if (r)
		fkv_queue_message(inst, &r->msg);
}
