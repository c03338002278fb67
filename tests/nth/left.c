// SPDX-License-Identifier: Apache-2.0
#include <dlfcn.h>
#include <errno.h>
#include <malloc.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "left.h"

#define SLOTS	(1u << 14)	/* more than any case has at once */
#define GONE	((void *)1)
#define WEAK	__attribute__((weak))

struct note {
	void *p;
	size_t size;
	void *by;
};

static atomic_flag locked = ATOMIC_FLAG_INIT;
static struct note notes[SLOTS];
static size_t used;
static _Atomic bool noting;
static void *failed_by;

/* The sanitizer's, when there is one; else the C library's. */
void *__interceptor_malloc(size_t size) WEAK;
void *__interceptor_calloc(size_t n, size_t size) WEAK;
void *__interceptor_realloc(void *p, size_t size) WEAK;
void *__interceptor_memalign(size_t align, size_t size) WEAK;
void __interceptor_free(void *p) WEAK;
extern void *__libc_malloc(size_t size);
extern void *__libc_calloc(size_t n, size_t size);
extern void *__libc_realloc(void *p, size_t size);
extern void *__libc_memalign(size_t align, size_t size);
extern void __libc_free(void *p);

/*
 * Not a mutex: a sanitizer looks into those, and a thread allocates before the
 * sanitizer knows it and frees after it has forgotten it.
 */
static void lock(void)
{
	while (atomic_flag_test_and_set(&locked))
		sched_yield();
}

static void unlock(void)
{
	atomic_flag_clear(&locked);
}

static size_t slot_of(const void *p)
{
	return ((uintptr_t)p >> 4) * 0x9e3779b97f4a7c15ULL >> 50;
}

static void note(void *p, size_t size, void *by)
{
	size_t i = slot_of(p);

	if (!noting || !p || !left_counts())
		return;
	lock();
	while (notes[i].p && notes[i].p != GONE)
		i = (i + 1) % SLOTS;
	notes[i] = (struct note){ p, size, by };
	used++;
	unlock();
}

static void forget(void *p)
{
	size_t i = slot_of(p);

	if (!noting || !p)
		return;
	lock();
	for (size_t n = 0; notes[i].p && n < SLOTS; n++) {
		if (notes[i].p == p) {
			notes[i].p = GONE;
			used--;
			break;
		}
		i = (i + 1) % SLOTS;
	}
	unlock();
}

void left_start(void)
{
	memset(notes, 0, sizeof(notes));
	used = 0;
	failed_by = NULL;
	noting = true;
}

static void place(void *by, char *name, size_t size)
{
	Dl_info info;

	if (!dladdr(by, &info))
		snprintf(name, size, "%p", by);
	else
		snprintf(name, size, "%s+%#lx (%s)", info.dli_fname,
			 (unsigned long)by - (unsigned long)info.dli_fbase,
			 info.dli_sname ? info.dli_sname : "?");
}

static bool is_in(void *by, const char *library)
{
	Dl_info info;

	return by && dladdr(by, &info) && strstr(info.dli_fname, library);
}

/*
 * The loader's are threads' and stay with their stacks, which are kept. libyaml
 * (0.2.5) loses 128 bytes when it fails inside of a mapping or sequence.
 */
static bool is_others(void *by)
{
	return is_in(by, "/ld-") ||
	       (is_in(by, "/libyaml") && is_in(failed_by, "/libyaml"));
}

size_t left_stop(bool say)
{
	char name[300];
	size_t n = 0;

	noting = false;
	for (size_t i = 0; i < SLOTS && used; i++) {
		if (!notes[i].p || notes[i].p == GONE ||
		    is_others(notes[i].by))
			continue;
		place(notes[i].by, name, sizeof(name));
		if (say && n < 3)
			fprintf(stderr, "left: %zu bytes, by %s\n",
				notes[i].size, name);
		n++;
	}
	return n;
}

static void *none(void)
{
	errno = ENOMEM;
	return NULL;
}

static bool fails(void *by)
{
	/* the sanitizer's, by a call of the C library: it cannot do without */
	if (!left_armed() ||
	    (__interceptor_malloc && is_in(by, "/libc.so")) || !left_fails())
		return false;
	failed_by = by;
	return true;
}

const char *left_failed_by(void)
{
	static char name[300];

	place(failed_by, name, sizeof(name));
	return name;
}

#define BY	__builtin_return_address(0)

void *malloc(size_t size)
{
	void *p;

	if (fails(BY))
		return none();
	p = __interceptor_malloc ? __interceptor_malloc(size) :
				   __libc_malloc(size);
	note(p, size, BY);
	return p;
}

void *calloc(size_t n, size_t size)
{
	void *p;

	if (fails(BY))
		return none();
	p = __interceptor_calloc ? __interceptor_calloc(n, size) :
				   __libc_calloc(n, size);
	note(p, n * size, BY);
	return p;
}

void *realloc(void *old, size_t size)
{
	void *p;

	/* libuv (1.44) ends the process when its table of files cannot grow */
	if (!is_in(BY, "/libuv") && fails(BY))
		return none();
	/* noted as gone first: another thread may be given its address */
	forget(old);
	p = __interceptor_realloc ? __interceptor_realloc(old, size) :
				    __libc_realloc(old, size);
	note(p, size, BY);
	return p;
}

static void *aligned(size_t align, size_t size, void *by)
{
	void *p;

	if (fails(by))
		return none();
	p = __interceptor_memalign ? __interceptor_memalign(align, size) :
				     __libc_memalign(align, size);
	note(p, size, by);
	return p;
}

void *memalign(size_t align, size_t size)
{
	return aligned(align, size, BY);
}

void *aligned_alloc(size_t align, size_t size)
{
	return aligned(align, size, BY);
}

int posix_memalign(void **ret, size_t align, size_t size)
{
	void *p = aligned(align, size, BY);

	if (!p)
		return ENOMEM;
	*ret = p;
	return 0;
}

char *strdup(const char *s)
{
	size_t n = strlen(s) + 1;
	char *p;

	if (fails(BY))
		return none();
	p = __interceptor_malloc ? __interceptor_malloc(n) : __libc_malloc(n);
	note(p, n, BY);
	return p ? memcpy(p, s, n) : NULL;
}

void free(void *p)
{
	forget(p);
	if (__interceptor_free)
		__interceptor_free(p);
	else
		__libc_free(p);
}
