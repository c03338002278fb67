// SPDX-License-Identifier: Apache-2.0
/*
 * failmalloc - preloaded: allocations of a process fail, as a file says
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "failmalloc.h"

extern void *__libc_malloc(size_t size);
extern void *__libc_calloc(size_t n, size_t size);
extern void *__libc_realloc(void *p, size_t size);
extern void *__libc_memalign(size_t align, size_t size);

static struct failmalloc *shared;

static __attribute__((constructor)) void start(void)
{
	const char *path = getenv(FAILMALLOC_FILE);
	int fd = path ? open(path, O_RDWR | O_CLOEXEC) : -1;
	void *p;

	if (fd < 0)
		return;
	p = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED, fd,
		 0);
	close(fd);
	if (p != MAP_FAILED)
		shared = p;
}

static int fails(void)
{
	uint64_t n;

	if (!shared)
		return 0;
	n = ++shared->count;
	if (!shared->at || n < shared->at || n >= shared->until)
		return 0;
	shared->failed++;
	errno = ENOMEM;
	return 1;
}

void *malloc(size_t size)
{
	return fails() ? NULL : __libc_malloc(size);
}

void *calloc(size_t n, size_t size)
{
	return fails() ? NULL : __libc_calloc(n, size);
}

void *realloc(void *old, size_t size)
{
	return fails() ? NULL : __libc_realloc(old, size);
}

void *aligned_alloc(size_t align, size_t size)
{
	return fails() ? NULL : __libc_memalign(align, size);
}

int posix_memalign(void **ret, size_t align, size_t size)
{
	void *p = fails() ? NULL : __libc_memalign(align, size);

	if (!p)
		return ENOMEM;
	*ret = p;
	return 0;
}
