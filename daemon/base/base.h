/* SPDX-License-Identifier: Apache-2.0 */
/*
 * base.h - words that every room uses
 *
 * Assertions that stay on in release builds, memory that may fail on purpose
 * in tests, and small arithmetic. Nothing here keeps state but the allocation
 * hook, which only tests set.
 */
#ifndef FKV_BASE_H
#define FKV_BASE_H

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "limits.h"

/*
 * For clang's thread-safety analysis, by make lint: requires_capability(lock),
 * acquire_capability(lock), release_capability(lock).
 */
#ifndef FKV_LOCKS
#define FKV_LOCKS(x)
#endif

#define FKV_ARRAY_SIZE(a)	(sizeof(a) / sizeof((a)[0]))
#define fkv_container_of(p, type, member) \
	((type *)((char *)(p) - offsetof(type, member)))

/* Impossible states end the process with the place that saw them. */
#define fkv_assert(cond)						\
	do {								\
		if (__builtin_expect(!(cond), 0))			\
			fkv_assert_failed(#cond, __FILE__, __LINE__);	\
	} while (0)

_Noreturn void fkv_assert_failed(const char *cond, const char *file, int line);

/*
 * Zeroed memory, or NULL. When fkv_alloc_fail is set, a test decides which
 * allocation fails: it is called before each and says true to make it fail.
 */
extern bool (*fkv_alloc_fail)(size_t size);

void *fkv_zalloc(size_t size) __attribute__((malloc, alloc_size(1)));
void *fkv_realloc(void *old, size_t size);
void fkv_free(void *p);

static inline uint64_t fkv_align_up(uint64_t v, uint64_t unit)
{
	return (v + unit - 1) / unit * unit;
}

static inline uint64_t fkv_align_down(uint64_t v, uint64_t unit)
{
	return v / unit * unit;
}

static inline uint64_t fkv_min_u64(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

static inline uint64_t fkv_max_u64(uint64_t a, uint64_t b)
{
	return a > b ? a : b;
}

/* bytes that a value of @len takes in a segment (M2) */
static inline uint64_t fkv_extent_bytes(uint64_t len)
{
	return fkv_align_up(len, FKV_EXTENT_UNIT);
}

#endif
