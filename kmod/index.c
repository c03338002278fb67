// SPDX-License-Identifier: GPL-2.0-only
/*
 * index.c - entries: what may be read here, and by whom it still is
 */
#include <linux/random.h>

#include "internal.h"
#include "trace.h"

struct lookup {
	const void *key;
	u32 len;
	u32 hash;
};

static u32 hash_lookup(const void *data, u32 len, u32 seed)
{
	return ((const struct lookup *)data)->hash ^ seed;
}

static u32 hash_entry(const void *data, u32 len, u32 seed)
{
	return ((const struct fkv_entry *)data)->hash ^ seed;
}

static int compare(struct rhashtable_compare_arg *arg, const void *obj)
{
	const struct lookup *l = arg->key;
	const struct fkv_entry *e = obj;

	return e->hash != l->hash || e->key_len != l->len ||
	       memcmp(e->key, l->key, l->len);
}

static const struct rhashtable_params index_params = {
	.head_offset = offsetof(struct fkv_entry, node),
	.key_len = sizeof(struct lookup),
	.hashfn = hash_lookup,
	.obj_hashfn = hash_entry,
	.obj_cmpfn = compare,
	.automatic_shrinking = true,
};

int fkv_index_init(struct fkv_instance *inst)
{
	get_random_bytes(&inst->hash_key, sizeof(inst->hash_key));
	init_llist_head(&inst->hits);
	mutex_init(&inst->hits_lock);
	return rhashtable_init(&inst->index, &index_params);
}

u32 fkv_index_hash(const struct fkv_instance *inst, const void *key, u32 len)
{
	return hsiphash(key, len, &inst->hash_key);
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

/* Nobody reads its bytes any more. */
static void entry_end(struct fkv_entry *e)
{
	struct fkv_instance *inst = e->inst;
	bool report = test_bit(FKV_ENTRY_REPORT, &e->flags);

	if (report) {
		atomic64_dec(&inst->retired);
		atomic64_sub(PAGE_ALIGN(e->len), &inst->retired_bytes);
		refcount_inc(&e->uses);
	}
	fkv_segment_del(inst, &e->extent);
	if (report)
		fkv_queue_message(inst, &e->quiet);
	entry_unuse(e);
}

void fkv_entry_put(struct fkv_entry *e)
{
	if (refcount_dec_and_test(&e->refs))
		entry_end(e);
}

static struct fkv_entry *entry_create(struct fkv_instance *inst, u64 put_id,
				      u64 offset, u64 len, u32 key_len)
{
	struct fkv_entry *e;

	e = kzalloc(struct_size(e, key, key_len), GFP_KERNEL_ACCOUNT);
	if (!e)
		return NULL;
	e->inst = inst;
	refcount_set(&e->refs, 1);
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

struct fkv_entry *fkv_index_get(struct fkv_instance *inst, const void *key,
				u32 len, u32 *ret_hash)
{
	struct lookup l = {
		.key = key,
		.len = len,
		.hash = fkv_index_hash(inst, key, len),
	};
	struct fkv_entry *e;

	*ret_hash = l.hash;

	rcu_read_lock();
	e = rhashtable_lookup(&inst->index, &l, index_params);
	if (e && !refcount_inc_not_zero(&e->refs))
		e = NULL;
	rcu_read_unlock();
	return e;
}

void fkv_index_hit(struct fkv_entry *e)
{
	atomic_inc(&e->hits);
	if (test_bit(FKV_ENTRY_LISTED, &e->flags) ||
	    test_and_set_bit(FKV_ENTRY_LISTED, &e->flags))
		return;
	refcount_inc(&e->uses);
	llist_add(&e->hit, &e->inst->hits);
}

/* The first of the list gives way to what is at its place in the index. */
static int hash_in(struct fkv_entry *e)
{
	struct lookup l = {
		.key = e->key,
		.len = e->key_len,
		.hash = e->hash,
	};
	void *old;

	set_bit(FKV_ENTRY_HASHED, &e->flags);
	old = rhashtable_lookup_get_insert_key(&e->inst->index, &l, &e->node,
					       index_params);
	if (IS_ERR(old))
		return PTR_ERR(old);
	return old ? -EEXIST : 0;
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
	if (err)
		fkv_segment_del(inst, &e->extent);
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
	e->hash = fkv_index_hash(inst, key, arg->key_len);
	e->cookie = arg->cookie;
	e->quiet.cookie = arg->cookie;
	err = publish(e);
	trace_fluxonkv_publish(e->hash, e->put_id, e->offset, e->len, err);
	if (err) {
		/* a lookup may have seen it for a moment */
		kfree_rcu(e, rcu);
		return err;
	}
	atomic64_inc(&inst->entries);
	return 0;
}

/* Out of the index, if it is there; only one caller gets true. */
static bool unhash(struct fkv_entry *e)
{
	if (!test_and_clear_bit(FKV_ENTRY_HASHED, &e->flags))
		return false;
	rhashtable_remove_fast(&e->inst->index, &e->node, index_params);
	atomic64_dec(&e->inst->entries);
	return true;
}

static int retire(struct fkv_entry *e)
{
	struct fkv_instance *inst = e->inst;
	int held;

	/* before the reference goes: whoever drops the last one reads it */
	atomic64_inc(&inst->retired);
	atomic64_add(PAGE_ALIGN(e->len), &inst->retired_bytes);
	set_bit(FKV_ENTRY_REPORT, &e->flags);
	/* ours of the lookup is dropped last, and tells */
	refcount_dec(&e->refs);
	held = refcount_dec_and_test(&e->refs) ? FLUXONKV_QUIET :
		FLUXONKV_HELD;
	trace_fluxonkv_retire(e->hash, e->put_id, e->offset, e->len, held);
	if (held == FLUXONKV_HELD)
		return held;
	atomic64_dec(&inst->retired);
	atomic64_sub(PAGE_ALIGN(e->len), &inst->retired_bytes);
	clear_bit(FKV_ENTRY_REPORT, &e->flags);
	entry_end(e);
	return held;
}

int fkv_index_retire(struct fkv_instance *inst, const void *key, u32 len,
		     u64 put_id)
{
	u32 hash;
	struct fkv_entry *e = fkv_index_get(inst, key, len, &hash);

	if (!e)
		return -ENOENT;
	if (e->put_id > put_id || !unhash(e)) {
		fkv_entry_put(e);
		return -ENOENT;
	}
	return retire(e);
}

/* Only when nobody holds it: the index's reference is the last one. */
int fkv_index_evict(struct fkv_instance *inst, const void *key, u32 len,
		    u64 put_id)
{
	struct lookup l = {
		.key = key,
		.len = len,
		.hash = fkv_index_hash(inst, key, len),
	};
	struct fkv_entry *e;

	rcu_read_lock();
	e = rhashtable_lookup(&inst->index, &l, index_params);
	if (!e || e->put_id != put_id) {
		rcu_read_unlock();
		return -ENOENT;
	}
	if (!refcount_dec_if_one(&e->refs)) {
		rcu_read_unlock();
		return -EBUSY;
	}
	/* ours alone now, until entry_end() */
	rcu_read_unlock();
	unhash(e);
	trace_fluxonkv_retire(e->hash, e->put_id, e->offset, e->len,
			      FLUXONKV_QUIET);
	entry_end(e);
	return FLUXONKV_QUIET;
}

/* The owner is dead: its entries live on only where they are held. */
void fkv_index_empty(struct fkv_instance *inst)
{
	struct rhashtable_iter iter;
	struct fkv_entry *e;

	rhashtable_walk_enter(&inst->index, &iter);
	rhashtable_walk_start(&iter);
	while ((e = rhashtable_walk_next(&iter))) {
		if (IS_ERR(e))
			continue;
		if (!refcount_inc_not_zero(&e->refs))
			continue;
		rhashtable_walk_stop(&iter);
		if (unhash(e))
			refcount_dec(&e->refs);
		fkv_entry_put(e);
		cond_resched();
		rhashtable_walk_start(&iter);
	}
	rhashtable_walk_stop(&iter);
	rhashtable_walk_exit(&iter);
}

static void hits_drop(struct fkv_instance *inst)
{
	struct llist_node *at = llist_del_all(&inst->hits);
	struct fkv_entry *e, *next;

	llist_for_each_entry_safe(e, next, at, hit)
		entry_unuse(e);
}

void fkv_index_done(struct fkv_instance *inst)
{
	hits_drop(inst);
	rhashtable_destroy(&inst->index);
}

/* What is not taken goes back, in one piece. */
static void hits_back(struct fkv_instance *inst, struct llist_node *first)
{
	struct llist_node *last = first;

	if (!first)
		return;
	while (last->next)
		last = last->next;
	llist_add_batch(first, last, &inst->hits);
}

u32 fkv_index_hits(struct fkv_instance *inst, struct fluxonkv_hit *ret,
		   u32 max)
{
	struct llist_node *at;
	u32 n = 0;

	mutex_lock(&inst->hits_lock);
	at = llist_del_all(&inst->hits);
	while (at && n < max) {
		struct fkv_entry *e = llist_entry(at, struct fkv_entry, hit);

		at = at->next;
		/* before the count: a hit from now on lists it again */
		clear_bit(FKV_ENTRY_LISTED, &e->flags);
		smp_mb__after_atomic();
		ret[n].hits = atomic_xchg(&e->hits, 0);
		ret[n].cookie = e->cookie;
		if (ret[n].hits && test_bit(FKV_ENTRY_HASHED, &e->flags))
			n++;
		entry_unuse(e);
	}
	hits_back(inst, at);
	mutex_unlock(&inst->hits_lock);
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
		if (refcount_inc_not_zero(&e->refs))
			return e;
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
