/* SPDX-License-Identifier: Apache-2.0 */
/*
 * lint-threads.h - what `make lint` puts before each source, so that clang's
 * -Wthread-safety knows mutexes to be taken and given back
 *
 * Functions that expect, take or give a lock say so with FKV_LOCKS().
 */
#ifndef FKV_LINT_THREADS_H
#define FKV_LINT_THREADS_H

#include <pthread.h>
#include <time.h>

#define FKV_LOCKS(x)			__attribute__((x))

struct __attribute__((capability("mutex"))) fkv_lint_mutex {
	pthread_mutex_t mutex;
};

int fkv_lint_lock(struct fkv_lint_mutex *m)
	__attribute__((acquire_capability(*m)));
int fkv_lint_trylock(struct fkv_lint_mutex *m)
	__attribute__((try_acquire_capability(0, *m)));
int fkv_lint_unlock(struct fkv_lint_mutex *m)
	__attribute__((release_capability(*m)));
int fkv_lint_wait(pthread_cond_t *c, struct fkv_lint_mutex *m)
	__attribute__((requires_capability(*m)));
int fkv_lint_timedwait(pthread_cond_t *c, struct fkv_lint_mutex *m,
		       const struct timespec *ts)
	__attribute__((requires_capability(*m)));
int fkv_lint_init(struct fkv_lint_mutex *m, const void *attr);
int fkv_lint_destroy(struct fkv_lint_mutex *m);

#undef PTHREAD_MUTEX_INITIALIZER
#define PTHREAD_MUTEX_INITIALIZER	{ .mutex = { { 0 } } }
#define pthread_mutex_t			struct fkv_lint_mutex
#define pthread_mutex_lock		fkv_lint_lock
#define pthread_mutex_trylock		fkv_lint_trylock
#define pthread_mutex_unlock		fkv_lint_unlock
#define pthread_mutex_init		fkv_lint_init
#define pthread_mutex_destroy		fkv_lint_destroy
#define pthread_cond_wait		fkv_lint_wait
#define pthread_cond_timedwait		fkv_lint_timedwait

#endif
