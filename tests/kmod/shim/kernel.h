/* SPDX-License-Identifier: Apache-2.0 */
/*
 * kernel.h - the least of the kernel that kmod's pure files are compiled with
 *
 * Unit tests and a fuzz target build kmod's pure files (tests/build.mk) as they
 * are, in user space. Orders of atomic operations are the kernel's, so that the
 * thread sanitizer judges the same program. What may not be done while a
 * spinlock or rcu_read_lock() is held ends the process; memory is counted, and
 * can be made to fail.
 */
#ifndef FKV_TESTS_KMOD_KERNEL_H
#define FKV_TESTS_KMOD_KERNEL_H

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <linux/errno.h>
#include <linux/types.h>

typedef unsigned int gfp_t;

#define PAGE_SIZE		4096UL
#define PAGE_ALIGN(n)		(((n) + PAGE_SIZE - 1) & ~(PAGE_SIZE - 1))
#define PAGE_ALIGNED(n)		(!((n) & (PAGE_SIZE - 1)))
#define NSEC_PER_MSEC		1000000L
#define GFP_KERNEL_ACCOUNT	0
#define __GFP_RETRY_MAYFAIL	0
#define __GFP_NORETRY		0
#define __GFP_NOWARN		0

#define unlikely(cond)		__builtin_expect(!!(cond), 0)
#define likely(cond)		__builtin_expect(!!(cond), 1)
#ifndef __always_inline
#define __always_inline		inline __attribute__((__always_inline__))
#endif
#ifndef noinline
#define noinline		__attribute__((__noinline__))
#endif
#define array_index_nospec(i, n) (i)
#define container_of(p, type, member) \
	((type *)((char *)(p) - offsetof(type, member)))
#define struct_size(p, member, n) \
	(sizeof(*(p)) + sizeof(*(p)->member) * (size_t)(n))
#define DIV_ROUND_UP(n, d)	(((n) + (d) - 1) / (d))
#define max(a, b)		((a) > (b) ? (a) : (b))
#define min_t(t, a, b)		((t)(a) < (t)(b) ? (t)(a) : (t)(b))
#define max_t(t, a, b)		((t)(a) > (t)(b) ? (t)(a) : (t)(b))

#define ERR_PTR(err)		((void *)(intptr_t)(err))
#define PTR_ERR(p)		((long)(intptr_t)(p))
#define IS_ERR(p)		((uintptr_t)(p) >= (uintptr_t)-4095)

#define shim_assert(cond)						\
	do {								\
		if (__builtin_expect(!(cond), 0)) {			\
			fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, \
				__LINE__, #cond);			\
			abort();					\
		}							\
	} while (0)

/* Spinlocks and read sides of RCU that this thread is in. */
extern __thread int shim_atomic;
/* How often this thread has let others run. */
extern __thread unsigned long shim_rescheds;

#define shim_may_sleep()	shim_assert(!shim_atomic)
#define cond_resched() \
	do { \
		shim_may_sleep(); \
		shim_rescheds++; \
	} while (0)

/* ---- memory ---- */

extern bool (*shim_alloc_fail)(void);
long shim_live(void);			/* allocations not freed yet */
void *shim_alloc(size_t size);
void shim_free(const void *p);
void shim_free_later(void *p);
/* A grace period: what was freed by kfree_rcu() before is gone. */
void shim_rcu_flush(void);

#define kzalloc(size, gfp)	shim_alloc(size)
#define kmalloc(size, gfp)	((void)(gfp), shim_alloc(size))
#define __vmalloc(size, gfp)	((void)(gfp), shim_alloc(size))
#define kcalloc(n, size, gfp)	shim_alloc((size_t)(n) * (size))
#define kvcalloc(n, size, gfp)	shim_alloc((size_t)(n) * (size))
#define kfree(p)		shim_free(p)
#define kvfree(p)		shim_free(p)
#define kfree_rcu(p, member)	shim_free_later(p)

struct rcu_head {
	char unused;
};

void rcu_read_lock(void);
void rcu_read_unlock(void);

/* ---- atomic operations ---- */

typedef struct {
	int counter;
} atomic_t;
typedef struct {
	long counter;
} atomic64_t;
typedef struct {
	atomic_t refs;
} refcount_t;
struct kref {
	refcount_t refcount;
};

#define READ_ONCE(x)		__atomic_load_n(&(x), __ATOMIC_RELAXED)
#define WRITE_ONCE(x, v)	__atomic_store_n(&(x), (v), __ATOMIC_RELAXED)
#define smp_mb__after_atomic()	__atomic_thread_fence(__ATOMIC_SEQ_CST)

#define atomic_read(a)		READ_ONCE((a)->counter)
#define atomic_set(a, v)	WRITE_ONCE((a)->counter, v)
#define atomic_dec_return(a) \
	__atomic_sub_fetch(&(a)->counter, 1, __ATOMIC_SEQ_CST)
#define atomic_dec(a) \
	((void)__atomic_fetch_sub(&(a)->counter, 1, __ATOMIC_RELAXED))
#define atomic_fetch_sub(n, a) \
	__atomic_fetch_sub(&(a)->counter, (n), __ATOMIC_SEQ_CST)
#define atomic64_read(a)	READ_ONCE((a)->counter)
#define atomic64_set(a, v)	WRITE_ONCE((a)->counter, v)
#define atomic64_add(n, a) \
	((void)__atomic_fetch_add(&(a)->counter, (long)(n), __ATOMIC_RELAXED))
#define atomic64_sub(n, a) \
	((void)__atomic_fetch_sub(&(a)->counter, (long)(n), __ATOMIC_RELAXED))
#define atomic64_inc(a)		atomic64_add(1, a)
#define atomic64_dec(a)		atomic64_sub(1, a)
#define atomic64_add_return(n, a) \
	__atomic_add_fetch(&(a)->counter, (long)(n), __ATOMIC_SEQ_CST)

static inline bool atomic64_try_cmpxchg(atomic64_t *a, s64 *old, s64 to)
{
	long was = *old;
	bool done = __atomic_compare_exchange_n(&a->counter, &was, (long)to,
						false, __ATOMIC_SEQ_CST,
						__ATOMIC_RELAXED);

	*old = was;
	return done;
}

static inline int atomic_cmpxchg(atomic_t *a, int old, int to)
{
	__atomic_compare_exchange_n(&a->counter, &old, to, false,
				    __ATOMIC_SEQ_CST, __ATOMIC_RELAXED);
	return old;
}

static inline int atomic_fetch_add_unless(atomic_t *a, int n, int unless)
{
	int old = atomic_read(a);

	while (old != unless &&
	       !__atomic_compare_exchange_n(&a->counter, &old, old + n, false,
					    __ATOMIC_SEQ_CST,
					    __ATOMIC_RELAXED))
		;
	return old;
}

#define refcount_set(r, n)	atomic_set(&(r)->refs, n)
#define refcount_read(r)	atomic_read(&(r)->refs)

/* As the kernel's, which warns: nothing comes back from 0. */
static inline void refcount_inc(refcount_t *r)
{
	shim_assert(__atomic_fetch_add(&r->refs.counter, 1,
				       __ATOMIC_RELAXED) > 0);
}

static inline bool refcount_dec_and_test(refcount_t *r)
{
	int left = __atomic_sub_fetch(&r->refs.counter, 1, __ATOMIC_ACQ_REL);

	shim_assert(left >= 0);
	return !left;
}

#define shim_bit(bit)		(1UL << (bit))

static inline bool test_bit(int bit, const unsigned long *at)
{
	return READ_ONCE(*at) & shim_bit(bit);
}

static inline void set_bit(int bit, unsigned long *at)
{
	__atomic_fetch_or(at, shim_bit(bit), __ATOMIC_RELAXED);
}

static inline void clear_bit(int bit, unsigned long *at)
{
	__atomic_fetch_and(at, ~shim_bit(bit), __ATOMIC_RELAXED);
}

static inline bool test_and_set_bit(int bit, unsigned long *at)
{
	return __atomic_fetch_or(at, shim_bit(bit), __ATOMIC_SEQ_CST) &
	       shim_bit(bit);
}

static inline bool test_and_clear_bit(int bit, unsigned long *at)
{
	return __atomic_fetch_and(at, ~shim_bit(bit), __ATOMIC_SEQ_CST) &
	       shim_bit(bit);
}

/* ---- locks; zeroed memory is an open one ---- */

/* For clang's -Wthread-safety, when lint looks at it. */
#ifndef FKV_LOCKS
#define FKV_LOCKS(x)
#endif

typedef struct {
	pthread_mutex_t lock;
} spinlock_t;
struct mutex {
	pthread_mutex_t lock;
};
struct rw_semaphore {
	char unused;
};

static inline void spin_lock_init(spinlock_t *l)
{
	pthread_mutex_init(&l->lock, NULL);
}

static inline void spin_lock(spinlock_t *l)
	FKV_LOCKS(acquire_capability(l->lock))
{
	shim_atomic++;
	pthread_mutex_lock(&l->lock);
}

static inline void spin_unlock(spinlock_t *l)
	FKV_LOCKS(release_capability(l->lock))
{
	pthread_mutex_unlock(&l->lock);
	shim_atomic--;
}

static inline void mutex_init(struct mutex *m)
{
	pthread_mutex_init(&m->lock, NULL);
}

static inline void mutex_lock(struct mutex *m)
	FKV_LOCKS(acquire_capability(m->lock))
{
	shim_may_sleep();
	pthread_mutex_lock(&m->lock);
}

static inline void mutex_unlock(struct mutex *m)
	FKV_LOCKS(release_capability(m->lock))
{
	pthread_mutex_unlock(&m->lock);
}

/* ---- lists ---- */

struct list_head {
	struct list_head *next, *prev;
};

struct llist_node {
	struct llist_node *next;
};

struct llist_head {
	struct llist_node *first;
};

#define init_llist_head(h)	((h)->first = NULL)
#define llist_entry(p, type, member) container_of(p, type, member)
#define llist_for_each_entry_safe(e, after, at, member)			\
	for (; (at) && ((e) = llist_entry(at, __typeof__(*(e)), member), \
			(after) = (void *)(at)->next, true);		\
	     (at) = (void *)(after))

static inline void llist_add_batch(struct llist_node *first,
				   struct llist_node *last,
				   struct llist_head *h)
{
	struct llist_node *was = READ_ONCE(h->first);

	do
		WRITE_ONCE(last->next, was);
	while (!__atomic_compare_exchange_n(&h->first, &was, first, false,
					    __ATOMIC_SEQ_CST,
					    __ATOMIC_RELAXED));
}

static inline void llist_add(struct llist_node *n, struct llist_head *h)
{
	llist_add_batch(n, n, h);
}

static inline struct llist_node *llist_del_all(struct llist_head *h)
{
	return __atomic_exchange_n(&h->first, NULL, __ATOMIC_SEQ_CST);
}

/* ---- the rest ---- */

struct file;
struct vm_area_struct;
struct vm_fault;

typedef struct {
	unsigned int val;
} kuid_t;
typedef unsigned int vm_fault_t;
typedef struct {
	char unused;
} wait_queue_head_t;
struct xarray {
	char unused;
};

extern u64 shim_now_ns;
/* NULL: 0. */
extern u64 (*shim_boottime)(void);
/* Is somebody tracing? And what this thread has told him of holders. */
extern bool shim_tracing;
extern __thread unsigned long shim_holds_traced;
void shim_traced(const char *event);

void get_random_bytes(void *p, size_t n);

static inline u64 ktime_get_coarse_ns(void)
{
	return READ_ONCE(shim_now_ns);
}

static inline u64 ktime_get_boottime_ns(void)
{
	return shim_boottime ? shim_boottime() : 0;
}

/* The first byte that is not @c, NULL: none. */
static inline const void *memchr_inv(const void *p, int c, size_t n)
{
	const u8 *at = p;

	while (n && *at == (u8)c) {
		at++;
		n--;
	}
	return n ? at : NULL;
}

#endif
