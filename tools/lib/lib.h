/* SPDX-License-Identifier: Apache-2.0 */
/*
 * lib.h - words that every file of libfluxonkv uses
 *
 * Errors are -errno with one sentence per thread, times are CLOCK_MONOTONIC
 * nanoseconds. The library uses libc and xxhash only, starts no threads and
 * never logs; nothing of the daemon's rooms is used here.
 */
#ifndef FKV_LIB_H
#define FKV_LIB_H

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

#include "linux/fluxonkv.h"

#include <fluxonkv.h>

#define FKV_LIB_MS		1000000ULL

/* past a deadline: K3's 100 ms less what waking up takes */
#define FKV_LIB_GRACE_NS	(80 * FKV_LIB_MS)

#define FKV_LIB_RETRY_MS	10	/* between two tries to connect */
#define FKV_LIB_PIECE		(2u << 20) /* copied between deadline checks */

#define FKV_VALUE_MAX		(1ULL << 40)

/*
 * For clang's thread-safety analysis, by make lint: requires_capability(lock),
 * acquire_capability(lock), release_capability(lock).
 */
#ifndef FKV_LOCKS
#define FKV_LOCKS(x)
#endif

#define fkv_likely(x)		__builtin_expect(!!(x), 1)
#define fkv_unlikely(x)		__builtin_expect(!!(x), 0)

/* Remember the sentence of a failure in this thread; returns @err. */
int fkv_lib_fail(int err, const char *fmt, ...)
	__attribute__((format(printf, 2, 3), cold));

static inline uint64_t fkv_clock_ns(clockid_t clock)
{
	struct timespec ts;

	clock_gettime(clock, &ts);
	return (uint64_t)ts.tv_sec * 1000000000ULL + (uint64_t)ts.tv_nsec;
}

static inline uint64_t fkv_now_ns(void)
{
	return fkv_clock_ns(CLOCK_MONOTONIC);
}

/* Milliseconds from now to @until, rounded up, for poll(). */
int fkv_ms_until(uint64_t until);

#endif
