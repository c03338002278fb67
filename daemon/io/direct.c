// SPDX-License-Identifier: Apache-2.0
/*
 * direct.c - how a file wants direct I/O to be aligned (S4)
 *
 * The kernel's word first (statx DIOALIGN, 6.1), then the logical block size
 * of the device below, then trying. What was found is tried in any case.
 */
#define _GNU_SOURCE 1
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "base/base.h"
#include "io/shard.h"

#define ALIGN_LEAST	512ULL
#define ALIGN_MOST	(64 * FKV_KIB)

static int by_statx(int fd, uint64_t *ret_offset, uint64_t *ret_memory)
{
#ifdef STATX_DIOALIGN
	struct statx st;

	if (statx(fd, "", AT_EMPTY_PATH, STATX_DIOALIGN, &st))
		return -errno;
	if (!(st.stx_mask & STATX_DIOALIGN))
		return -ENODATA;
	if (!st.stx_dio_offset_align || !st.stx_dio_mem_align)
		return -EOPNOTSUPP;
	*ret_offset = st.stx_dio_offset_align;
	*ret_memory = st.stx_dio_mem_align;
	return 0;
#else
	(void)fd, (void)ret_offset, (void)ret_memory;
	return -ENODATA;
#endif
}

static uint64_t read_number(const char *path)
{
	FILE *f = fopen(path, "re");
	unsigned long long n = 0;

	if (!f)
		return 0;
	if (fscanf(f, "%llu", &n) != 1)
		n = 0;
	fclose(f);
	return n;
}

/* The device below, or the disk that it is a partition of; 0: not known. */
static uint64_t logical_block(int fd)
{
	static const char *const where[] = { "", "/.." };
	uint64_t n = 0;
	struct stat st;

	if (fstat(fd, &st))
		return 0;
	for (size_t i = 0; i < FKV_ARRAY_SIZE(where) && !n; i++) {
		char path[128];

		snprintf(path, sizeof(path), "/sys/dev/block/%u:%u%s/queue/"
			 "logical_block_size", major(st.st_dev),
			 minor(st.st_dev), where[i]);
		n = read_number(path);
	}
	return n;
}

/* Does a write of @align bytes at @align succeed? The file is ours. */
static int try_align(int fd, uint64_t align)
{
	void *p;
	ssize_t n;

	if (posix_memalign(&p, fkv_max_u64(align, FKV_BLOCK), align))
		return -ENOMEM;
	memset(p, 0, align);
	do
		n = pwrite(fd, p, align, (off_t)align);
	while (n < 0 && errno == EINTR);
	free(p);
	return n < 0 ? -errno : n == (ssize_t)align ? 0 : -EIO;
}

static bool sane(uint64_t align)
{
	return align && !(align & (align - 1)) && align <= ALIGN_MOST;
}

int fkv_direct_alignment(int fd, uint64_t *ret_offset, uint64_t *ret_memory)
{
	uint64_t offset = 0, memory = 0;
	int err = by_statx(fd, &offset, &memory);

	if (err == -EOPNOTSUPP)
		return err;
	if (err)
		offset = memory = logical_block(fd);
	if (!sane(offset) || !sane(memory))
		offset = memory = ALIGN_LEAST;
	err = try_align(fd, offset);
	while (err == -EINVAL && offset < ALIGN_MOST) {
		offset *= 2;
		memory = offset;
		err = try_align(fd, offset);
	}
	/* no room for a block is said later, with the numbers */
	if (err && err != -ENOSPC && err != -EDQUOT)
		return err;
	*ret_offset = offset;
	*ret_memory = memory;
	return 0;
}
