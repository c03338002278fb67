// SPDX-License-Identifier: Apache-2.0
#include <string.h>
#include <sys/mman.h>

#include "map.h"

#define HUGE	(2ULL << 20)

/* Addresses for @bytes, taken from nobody; NULL when there are none. */
static char *reserve(uint64_t bytes)
{
	uint64_t room = bytes >= HUGE ? bytes + HUGE : bytes;
	char *p, *at;

	p = mmap(NULL, room, PROT_NONE,
		 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (p == MAP_FAILED)
		return NULL;
	if (room == bytes)
		return p;
	at = (char *)(((uintptr_t)p + HUGE - 1) & ~(HUGE - 1));
	if (at > p)
		munmap(p, (size_t)(at - p));
	if (at + bytes < p + room)
		munmap(at + bytes, (size_t)(p + room - at - bytes));
	return at;
}

void *fkv_map(const struct fkv_mapped *m, int prot)
{
	char *at = reserve(m->bytes);

	if (!at)
		goto err_say;
	if (mmap(at, m->bytes, prot, MAP_SHARED | MAP_FIXED, m->fd,
		 (off_t)m->offset) == MAP_FAILED)
		goto err_unmap;
	/* a core dump of a client is not of the cache */
	madvise(at, m->bytes, MADV_DONTDUMP);
	if (!madvise(at, m->bytes, MADV_DONTFORK))
		return at;

err_unmap:
	munmap(at, m->bytes);
err_say:
	fkv_lib_fail(-ENOMEM, "cannot map the daemon's %s of %llu bytes: %s",
		     m->what, (unsigned long long)m->bytes, strerror(errno));
	return NULL;
}

void fkv_unmap(const void *p, uint64_t bytes)
{
	if (p)
		munmap((void *)(uintptr_t)p, bytes);
}
