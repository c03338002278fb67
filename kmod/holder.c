// SPDX-License-Identifier: GPL-2.0-only
/*
 * holder.c - what a session holds, and what that is charged to
 */

#include "internal.h"
#include "trace.h"

static struct kmem_cache *cache;

int fkv_holder_init(void)
{
	cache = kmem_cache_create("fluxonkv_holder", sizeof(struct fkv_holder),
				  0, SLAB_ACCOUNT, NULL);
	return cache ? 0 : -ENOMEM;
}

void fkv_holder_exit(void)
{
	kmem_cache_destroy(cache);
}

static bool charge(atomic64_t *pinned, u64 cap, u64 bytes)
{
	u64 now = atomic64_add_return(bytes, pinned);

	if (!cap || now <= cap)
		return true;
	atomic64_sub(bytes, pinned);
	return false;
}

bool fkv_charge(struct fkv_session *s, u64 len)
{
	u64 bytes = PAGE_ALIGN(len);

	if (!charge(&s->pinned, s->inst->client_cap, bytes))
		goto refused;
	if (charge(&s->uid->pinned, s->inst->uid_cap, bytes))
		return true;
	atomic64_sub(bytes, &s->pinned);
refused:
	atomic64_inc(&s->inst->quota);
	return false;
}

void fkv_uncharge(struct fkv_session *s, u64 len)
{
	u64 bytes = PAGE_ALIGN(len);

	atomic64_sub(bytes, &s->pinned);
	atomic64_sub(bytes, &s->uid->pinned);
}

static void hold(struct fkv_session *s, struct fkv_entry *e)
{
	atomic64_inc(&s->nr_holders);
	if (atomic_inc_return(&e->holders) == 1)
		atomic64_add(PAGE_ALIGN(e->len), &e->inst->held_bytes);
}

static void unhold(struct fkv_session *s, struct fkv_entry *e)
{
	atomic64_dec(&s->nr_holders);
	if (atomic_dec_and_test(&e->holders))
		atomic64_sub(PAGE_ALIGN(e->len), &e->inst->held_bytes);
}

long fkv_holder_add(struct fkv_session *s, struct fkv_entry *entry,
		    struct fkv_release *release)
{
	struct fkv_holder *h = kmem_cache_alloc(cache, GFP_KERNEL);
	u32 id;
	int err;

	if (!h)
		return -ENOMEM;
	h->entry = entry;
	h->release = release;
	h->since_ns = ktime_get_coarse_ns();
	hold(s, entry);
	/* from here on another thread may release it */
	err = xa_alloc_cyclic(&s->holders, &id, h, XA_LIMIT(1, U32_MAX),
			      &s->next_holder, GFP_KERNEL_ACCOUNT);
	if (err < 0) {
		unhold(s, entry);
		kmem_cache_free(cache, h);
		return err;
	}
	trace_fluxonkv_hold(s->id, id, entry->hash, entry->put_id, entry->len);
	return id;
}

static void holder_end(struct fkv_session *s, u32 id, struct fkv_holder *h)
{
	struct fkv_instance *inst = s->inst;
	struct fkv_release *release = h->release;
	struct fkv_entry *e = h->entry;

	trace_fluxonkv_release(s->id, id, e->hash, e->put_id, e->len,
			       ktime_get_coarse_ns() - h->since_ns);
	fkv_uncharge(s, e->len);
	unhold(s, e);
	fkv_entry_put(e);
	/* only now: the daemon may use the extent again when it hears of it */
	fkv_release_send(inst, release);
	kmem_cache_free(cache, h);
}

bool fkv_holder_del(struct fkv_session *s, u64 id)
{
	struct fkv_holder *h;

	if (id > U32_MAX)
		return false;
	h = xa_erase(&s->holders, id);
	if (!h)
		return false;
	holder_end(s, id, h);
	return true;
}

void fkv_holder_del_all(struct fkv_session *s)
{
	struct fkv_holder *h;
	unsigned long id;

	xa_for_each(&s->holders, id, h) {
		xa_erase(&s->holders, id);
		/* its client ends as a whole: one message for all */
		kfree(h->release);
		h->release = NULL;
		holder_end(s, id, h);
		cond_resched();
	}
}

static void release_done(struct fkv_message *msg)
{
	kfree(container_of(msg, struct fkv_release, msg));
}

struct fkv_release *fkv_release_create(u64 client, u64 id)
{
	struct fkv_release *r = kzalloc(sizeof(*r), GFP_KERNEL_ACCOUNT);

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
