// SPDX-License-Identifier: Apache-2.0
#include <kernel.h>
#include <linux/rhashtable.h>

#include <xxhash.h>

__thread int shim_atomic;
__thread unsigned long shim_rescheds;
bool (*shim_alloc_fail)(void);
u64 shim_now_ns = 1000;
u64 (*shim_boottime)(void);
bool shim_tracing;
__thread unsigned long shim_holds_traced;

/* ---- memory ---- */

struct later {
	struct later *next;
	void *p;
};

static long live;
static struct later *later;
static pthread_rwlock_t readers =
	PTHREAD_RWLOCK_WRITER_NONRECURSIVE_INITIALIZER_NP;

long shim_live(void)
{
	return READ_ONCE(live);
}

void *shim_alloc(size_t size)
{
	void *p;

	shim_may_sleep();
	if (shim_alloc_fail && shim_alloc_fail())
		return NULL;
	p = calloc(1, size);
	shim_assert(p);
	__atomic_fetch_add(&live, 1, __ATOMIC_RELAXED);
	return p;
}

void shim_free(const void *p)
{
	if (!p)
		return;
	__atomic_fetch_sub(&live, 1, __ATOMIC_RELAXED);
	free((void *)p);
}

void shim_free_later(void *p)
{
	struct later *l = calloc(1, sizeof(*l));

	shim_assert(l);
	l->p = p;
	l->next = READ_ONCE(later);
	while (!__atomic_compare_exchange_n(&later, &l->next, l, false,
					    __ATOMIC_RELEASE,
					    __ATOMIC_RELAXED))
		;
}

void rcu_read_lock(void)
{
	shim_atomic++;
	pthread_rwlock_rdlock(&readers);
}

void rcu_read_unlock(void)
{
	pthread_rwlock_unlock(&readers);
	shim_atomic--;
}

void shim_rcu_flush(void)
{
	struct later *l = __atomic_exchange_n(&later, NULL, __ATOMIC_ACQUIRE);

	shim_may_sleep();
	pthread_rwlock_wrlock(&readers);
	pthread_rwlock_unlock(&readers);
	while (l) {
		struct later *next = l->next;

		shim_free(l->p);
		free(l);
		l = next;
	}
}

/* ---- numbers ---- */

void get_random_bytes(void *p, size_t n)
{
	memset(p, 0x5a, n);
}

/* ---- traces ---- */

void shim_traced(const char *event)
{
	if (shim_tracing && !strcmp(event, "fluxonkv_hold"))
		shim_holds_traced++;
}

/* ---- the table ---- */

static void *object(const struct rhashtable *ht, struct rhash_head *at)
{
	return (char *)at - ht->p.head_offset;
}

/* The walk of the table reads what a writer links: as rcu_dereference(). */
static struct rhash_head *follow(struct rhash_head *const *at)
{
	return __atomic_load_n(at, __ATOMIC_ACQUIRE);
}

int rhashtable_init(struct rhashtable *ht, const struct rhashtable_params *p)
{
	if (shim_alloc_fail && shim_alloc_fail())
		return -ENOMEM;
	*ht = (struct rhashtable){ .p = *p, .seed = 77 };
	pthread_mutex_init(&ht->lock, NULL);
	return 0;
}

void rhashtable_destroy(struct rhashtable *ht)
{
	shim_may_sleep();
	pthread_mutex_destroy(&ht->lock);
}

static struct rhash_head **chain(struct rhashtable *ht, u32 hash)
{
	return &ht->chains[hash % SHIM_CHAINS];
}

void *rhashtable_lookup(struct rhashtable *ht, const void *key,
			struct rhashtable_params p)
{
	struct rhashtable_compare_arg arg = { ht, key };
	struct rhash_head *at;

	shim_assert(shim_atomic);
	at = follow(chain(ht, p.hashfn(key, p.key_len, ht->seed)));
	while (at && p.obj_cmpfn(&arg, object(ht, at)))
		at = follow(&at->next);
	return at ? object(ht, at) : NULL;
}

void *rhashtable_lookup_get_insert_key(struct rhashtable *ht, const void *key,
				       struct rhash_head *obj,
				       struct rhashtable_params p)
{
	u32 hash = p.hashfn(key, p.key_len, ht->seed);
	struct rhash_head **at = chain(ht, hash);
	void *old;

	/* it is found again where it was put */
	shim_assert(p.obj_hashfn(object(ht, obj), p.key_len, ht->seed) ==
		    hash);
	if (shim_alloc_fail && shim_alloc_fail())
		return ERR_PTR(-ENOMEM);
	rcu_read_lock();
	pthread_mutex_lock(&ht->lock);
	old = rhashtable_lookup(ht, key, p);
	if (!old) {
		obj->next = *at;
		__atomic_store_n(at, obj, __ATOMIC_RELEASE);
		ht->nelems++;
	}
	pthread_mutex_unlock(&ht->lock);
	rcu_read_unlock();
	return old;
}

/* Who is at @obj goes on from there: its next stays. */
int rhashtable_remove_fast(struct rhashtable *ht, struct rhash_head *obj,
			   struct rhashtable_params p)
{
	struct rhash_head **at;

	pthread_mutex_lock(&ht->lock);
	at = chain(ht, p.obj_hashfn(object(ht, obj), p.key_len, ht->seed));
	while (*at && *at != obj)
		at = &(*at)->next;
	shim_assert(*at == obj);
	__atomic_store_n(at, obj->next, __ATOMIC_RELEASE);
	ht->nelems--;
	pthread_mutex_unlock(&ht->lock);
	return 0;
}

void rhashtable_walk_enter(struct rhashtable *ht, struct rhashtable_iter *it)
{
	*it = (struct rhashtable_iter){ .ht = ht };
}

void rhashtable_walk_start(struct rhashtable_iter *it)
{
	struct rhash_head *at;
	u32 skip = 0;

	rcu_read_lock();
	if (!it->p)
		return;
	at = follow(&it->ht->chains[it->slot]);
	for (; at; at = follow(&at->next)) {
		skip++;
		if (at == it->p) {
			it->skip = skip;
			return;
		}
	}
	it->p = NULL;
}

static struct rhash_head *from_slot(struct rhashtable_iter *it)
{
	for (; it->slot < SHIM_CHAINS; it->slot++, it->skip = 0) {
		struct rhash_head *at = follow(&it->ht->chains[it->slot]);

		for (u32 skip = it->skip; at && skip; skip--)
			at = follow(&at->next);
		if (at)
			return at;
	}
	return NULL;
}

void *rhashtable_walk_next(struct rhashtable_iter *it)
{
	struct rhash_head *at = it->p ? follow(&it->p->next) : NULL;

	if (it->p && !at) {
		it->slot++;
		it->skip = 0;
	}
	it->p = at ? at : from_slot(it);
	if (!it->p)
		return NULL;
	it->skip++;
	return object(it->ht, it->p);
}

void rhashtable_walk_stop(struct rhashtable_iter *it)
{
	(void)it;
	rcu_read_unlock();
}

void rhashtable_walk_exit(struct rhashtable_iter *it)
{
	(void)it;
	shim_may_sleep();
}
