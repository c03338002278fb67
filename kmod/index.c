// SPDX-License-Identifier: GPL-2.0-only
/*
 * index.c - entries: what may be read here, and by whom it still is
 */
#include <linux/random.h>

#include "index.h"
#include "trace.h"

int fkv_index_init(struct fkv_instance *inst)
{
	get_random_bytes(inst->hash_key, sizeof(inst->hash_key));
	init_llist_head(&inst->hits);
	mutex_init(&inst->index_lock);
	return rhashtable_init(&inst->index, &fkv_index_params);
}

static void entry_unuse(struct fkv_entry *e)
{
	if (refcount_dec_and_test(&e->uses))
		kfree_rcu(e, rcu);
}

static void quiet_done(struct fkv_message *msg)
{
	entry_unuse(container_of(msg, struct fkv_entry, quiet));
}

void fkv_entry_end(struct fkv_entry *e)
{
	struct fkv_instance *inst = e->inst;
	bool report = test_bit(FKV_ENTRY_REPORT, &e->flags);

	if (report) {
		atomic64_dec(&inst->retired);
		refcount_inc(&e->uses);
	}
	fkv_segment_del(inst, &e->extent);
	if (report)
		fkv_queue_message(inst, &e->quiet);
	entry_unuse(e);
}

/* One reader more, away from where hits are many. */
static bool entry_get(struct fkv_entry *e)
{
	u64 held = 0;
	bool got = fkv_entry_get(e, &held);

	if (held)
		atomic64_add(held, &e->inst->held_bytes);
	return got;
}

/*
 * Out of the index: the last reader reports, unless there is none. A reader
 * that goes at the same time was counted in what is subtracted, or not.
 */
static int drop_index_ref(struct fkv_entry *e)
{
	/* afterwards its last reader may end it */
	struct fkv_instance *inst = e->inst;
	u64 bytes = PAGE_ALIGN(e->len);

	if (atomic_fetch_sub(FKV_INDEX_REF, &e->refs) == FKV_INDEX_REF)
		return FLUXONKV_QUIET;
	atomic64_sub(bytes, &inst->held_bytes);
	return FLUXONKV_HELD;
}

static struct fkv_entry *entry_create(struct fkv_instance *inst, u64 put_id,
				      u64 offset, u64 len, u32 key_len)
{
	struct fkv_entry *e;

	e = kzalloc(struct_size(e, key, DIV_ROUND_UP(key_len, 8)),
		    FKV_GFP);
	if (!e)
		return NULL;
	e->inst = inst;
	atomic_set(&e->refs, 1);
	refcount_set(&e->uses, 1);
	e->extent.entry = true;
	e->quiet.type = FLUXONKV_MESSAGE_QUIET;
	e->quiet.done = quiet_done;
	e->put_id = put_id;
	e->offset = offset;
	e->len = len;
	e->key_len = key_len;
	return e;
}

void fkv_index_list(struct fkv_entry *e)
{
	if (test_and_set_bit(FKV_ENTRY_LISTED, &e->flags))
		return;
	refcount_inc(&e->uses);
	llist_add(&e->hit, &e->inst->hits);
}

static int hash_in(struct fkv_entry *e)
{
	struct fkv_probe l = {
		.key = e->key,
		.len = e->key_len,
		.hash = e->hash,
	};
	void *old;

	old = rhashtable_lookup_get_insert_key(&e->inst->index, &l, &e->node,
					       fkv_index_params);
	if (IS_ERR(old))
		return PTR_ERR(old);
	if (old)
		return -EEXIST;
	/* whoever clears it has the lock, or comes when there is no owner */
	set_bit(FKV_ENTRY_HASHED, &e->flags);
	return 0;
}

static int publish(struct fkv_entry *e)
{
	struct fkv_instance *inst = e->inst;
	int err;

	fkv_segment_add(&inst->seg, e->offset, e->len, &e->extent, &err);
	if (err) {
		atomic64_inc(&inst->overlaps);
		return err;
	}
	err = hash_in(e);
	if (!err)
		atomic64_inc(&inst->entries);
	return err;
}

int fkv_index_publish(struct fkv_instance *inst,
		      const struct fluxonkv_entry *arg, const void *key)
{
	struct fkv_entry *e;
	int err;

	if (!fkv_segment_covers(&inst->seg, arg->offset, arg->len))
		return -EINVAL;
	e = entry_create(inst, arg->put_id, arg->offset, arg->len,
			 arg->key_len);
	if (!e)
		return -ENOMEM;
	memcpy(e->key, key, arg->key_len);
	atomic_set(&e->refs, FKV_INDEX_REF);
	e->hash = fkv_hash(inst, e->key, arg->key_len);
	e->cookie = arg->cookie;
	e->quiet.cookie = arg->cookie;
	mutex_lock(&inst->index_lock);
	err = publish(e);
	trace_fluxonkv_publish(e->hash, e->put_id, e->offset, e->len, err);
	mutex_unlock(&inst->index_lock);
	/* a reply for its bytes may have found it: then that one ends it */
	if (err && drop_index_ref(e) == FLUXONKV_QUIET)
		fkv_entry_end(e);
	return err;
}

/* Out of the index, if it is there; only one caller gets true. */
static bool unhash(struct fkv_entry *e)
{
	if (!test_and_clear_bit(FKV_ENTRY_HASHED, &e->flags))
		return false;
	rhashtable_remove_fast(&e->inst->index, &e->node, fkv_index_params);
	atomic64_dec(&e->inst->entries);
	return true;
}

static int retire(struct fkv_entry *e)
{
	u32 hash = e->hash;
	u64 put_id = e->put_id, offset = e->offset, len = e->len;
	int held;

	/* before the reference goes: whoever drops the last one reads it */
	atomic64_inc(&e->inst->retired);
	set_bit(FKV_ENTRY_REPORT, &e->flags);
	held = drop_index_ref(e);
	trace_fluxonkv_retire(hash, put_id, offset, len, held);
	if (held == FLUXONKV_HELD)
		return held;
	atomic64_dec(&e->inst->retired);
	clear_bit(FKV_ENTRY_REPORT, &e->flags);
	fkv_entry_end(e);
	return held;
}

/* Under rcu_read_lock(): what is published for a key (padded). */
static struct fkv_entry *look_up(struct fkv_instance *inst, const void *key,
				 u32 len)
{
	struct fkv_probe l = {
		.key = key,
		.len = len,
		.hash = fkv_hash(inst, key, len),
	};

	return rhashtable_lookup(&inst->index, &l, fkv_index_params);
}

int fkv_index_retire(struct fkv_instance *inst, const void *key, u32 len,
		     u64 put_id)
{
	struct fkv_entry *e;
	bool ours;
	int ret;

	mutex_lock(&inst->index_lock);
	rcu_read_lock();
	e = look_up(inst, key, len);
	ours = e && e->put_id <= put_id && unhash(e);
	rcu_read_unlock();
	/* who unhashed it has the index's reference now */
	ret = ours ? retire(e) : -ENOENT;
	mutex_unlock(&inst->index_lock);
	return ret;
}

static int evict(struct fkv_instance *inst, const void *key, u32 len,
		 u64 put_id)
{
	struct fkv_entry *e;
	int ret = -ENOENT;

	rcu_read_lock();
	e = look_up(inst, key, len);
	if (e && e->put_id == put_id)
		ret = atomic_cmpxchg(&e->refs, FKV_INDEX_REF, 0) ==
		      FKV_INDEX_REF ? FLUXONKV_QUIET : -EBUSY;
	rcu_read_unlock();
	if (ret != FLUXONKV_QUIET)
		return ret;
	/* no reader, and no new one: ours alone until fkv_entry_end() */
	unhash(e);
	trace_fluxonkv_retire(e->hash, e->put_id, e->offset, e->len, ret);
	fkv_entry_end(e);
	return ret;
}

/* Only when nobody holds it: the index's reference is the last one. */
int fkv_index_evict(struct fkv_instance *inst, const void *key, u32 len,
		    u64 put_id)
{
	int ret;

	mutex_lock(&inst->index_lock);
	ret = evict(inst, key, len, put_id);
	mutex_unlock(&inst->index_lock);
	return ret;
}

int fkv_index_held(struct fkv_instance *inst, const void *key, u32 len,
		   u64 put_id)
{
	struct fkv_entry *e;
	int ret = -ENOENT;

	rcu_read_lock();
	e = look_up(inst, key, len);
	if (e && e->put_id == put_id)
		ret = atomic_read(&e->refs) == FKV_INDEX_REF ?
		      FLUXONKV_QUIET : FLUXONKV_HELD;
	rcu_read_unlock();
	return ret;
}

/*
 * A walk keeps its place by a count where its last entry has left: it passes
 * the next one by. False: there was none.
 */
static bool empty_some(struct fkv_instance *inst)
{
	struct rhashtable_iter iter;
	struct fkv_entry *e;
	bool some = false;

	rhashtable_walk_enter(&inst->index, &iter);
	rhashtable_walk_start(&iter);
	while ((e = rhashtable_walk_next(&iter))) {
		if (IS_ERR(e) || !unhash(e))
			continue;
		some = true;
		rhashtable_walk_stop(&iter);
		if (drop_index_ref(e) == FLUXONKV_QUIET)
			fkv_entry_end(e);
		cond_resched();
		rhashtable_walk_start(&iter);
	}
	rhashtable_walk_stop(&iter);
	rhashtable_walk_exit(&iter);
	return some;
}

/* The owner is dead: its entries live on only where they are held. */
void fkv_index_empty(struct fkv_instance *inst)
{
	while (empty_some(inst))
		;
}

static void hits_drop(struct llist_node *at)
{
	struct fkv_entry *e, *next;

	llist_for_each_entry_safe(e, next, at, hit) {
		entry_unuse(e);
		cond_resched();
	}
}

void fkv_index_done(struct fkv_instance *inst)
{
	hits_drop(inst->hits_left);
	hits_drop(llist_del_all(&inst->hits));
	rhashtable_destroy(&inst->index);
}

/* The next one that was hit; under index_lock. */
static struct fkv_entry *next_hit(struct fkv_instance *inst)
{
	struct llist_node *at = inst->hits_left;

	if (!at)
		at = llist_del_all(&inst->hits);
	if (!at)
		return NULL;
	inst->hits_left = at->next;
	return llist_entry(at, struct fkv_entry, hit);
}

/* Its hits, and it may be listed again. */
static u32 take_hits(struct fkv_entry *e)
{
	u32 n;

	/*
	 * After its next one was read and before the count (a full barrier): a
	 * hit from now on lists it again.
	 */
	test_and_clear_bit(FKV_ENTRY_LISTED, &e->flags);
	n = READ_ONCE(e->hits);
	WRITE_ONCE(e->hits, 0);
	return test_bit(FKV_ENTRY_HASHED, &e->flags) ? n : 0;
}

u32 fkv_index_hits(struct fkv_instance *inst, struct fluxonkv_hit *ret,
		   u32 max)
{
	struct fkv_entry *e;
	u32 n = 0;

	mutex_lock(&inst->index_lock);
	while (n < max && (e = next_hit(inst))) {
		ret[n].cookie = e->cookie;
		ret[n].hits = take_hits(e);
		if (ret[n].hits)
			n++;
		entry_unuse(e);
	}
	mutex_unlock(&inst->index_lock);
	return n;
}

/* The extent at @ext is one of an entry that a reply may mean. */
static bool same(const struct fkv_extent *ext,
		 const struct fluxonkv_result *res)
{
	const struct fkv_entry *e;

	if (!ext->entry)
		return false;
	e = container_of(ext, struct fkv_entry, extent);
	return e->put_id == res->version && e->offset == res->offset &&
	       e->len == res->len;
}

/*
 * Under segment->lock: the live entry of that extent, or @fresh put there. An
 * entry at its end, which gives its extent back next, may still be in the way.
 */
static struct fkv_entry *find_or_add(struct fkv_segment *seg,
				     const struct fluxonkv_result *res,
				     struct fkv_entry *fresh)
{
	struct fkv_extent *ext;
	struct fkv_entry *e;

	ext = fkv_extent_find(&seg->extents, fresh->extent.first,
			      fresh->extent.last);
	if (ext && !same(ext, res))
		return NULL;
	if (ext) {
		e = container_of(ext, struct fkv_entry, extent);
		if (entry_get(e))
			return e;
		/* it has too many readers, and is not at its end */
		if (atomic_read(&e->refs))
			return NULL;
		fkv_extent_del(&seg->extents, ext);
	}
	return fkv_extent_add(&seg->extents, &fresh->extent) ? NULL : fresh;
}

struct fkv_entry *fkv_entry_given(struct fkv_instance *inst,
				  const struct fluxonkv_result *res,
				  int *ret_err)
{
	struct fkv_segment *seg = &inst->seg;
	struct fkv_entry *fresh, *e;

	*ret_err = -EINVAL;
	if (!fkv_segment_covers(seg, res->offset, res->len))
		return NULL;
	*ret_err = -ENOMEM;
	fresh = entry_create(inst, res->version, res->offset, res->len, 0);
	if (!fresh || !res->len)
		return fresh;
	fresh->extent.first = res->offset / PAGE_SIZE;
	fresh->extent.last = (res->offset + res->len - 1) / PAGE_SIZE;
	spin_lock(&seg->lock);
	e = find_or_add(seg, res, fresh);
	spin_unlock(&seg->lock);
	if (e != fresh)
		kfree(fresh);
	if (!e) {
		atomic64_inc(&inst->overlaps);
		*ret_err = -EBUSY;
	}
	return e;
}
