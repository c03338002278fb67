/* SPDX-License-Identifier: Apache-2.0 */
/*
 * segment.h - the memory segment: a sealed memfd, or the kernel module's,
 * allocated before it serves
 *
 * Born: fkv_segment_create(), at start. Held by: the daemon's mapping, and by
 * every client that maps it. Dies: when the last mapping is gone. The memory
 * is there (allocated, touched, of fixed size) before a client sees it, so
 * that nobody gets SIGBUS later (M1, X1).
 */
#ifndef FKV_IO_SEGMENT_H
#define FKV_IO_SEGMENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum fkv_huge { FKV_HUGE_OFF, FKV_HUGE_AUTO, FKV_HUGE_REQUIRED };
enum fkv_lock { FKV_LOCK_OFF, FKV_LOCK_AUTO, FKV_LOCK_REQUIRED };

struct fkv_segment;

struct fkv_segment_config {
	uint64_t bytes;			/* multiple of 4 KiB */
	enum fkv_huge huge;
	enum fkv_lock lock;
	unsigned int threads;		/* that touch it, 1..64 */
	bool device;			/* made by the kernel module, for */
	int owner_fd;			/* this bound descriptor */
	bool pinnable;			/* and put windows of ordinary pages */
	/* told each 50 ms; false: stop, and fail with ECANCELED */
	bool (*progress)(void *arg, uint64_t done, uint64_t total);
	void *arg;
};

/* 0 or -errno, then @err has one sentence: wanted, allowed, why. */
int fkv_segment_create(const struct fkv_segment_config *cfg,
		       struct fkv_segment **ret, char *err, size_t err_size);
void fkv_segment_free(struct fkv_segment *s);

void *fkv_segment_base(const struct fkv_segment *s);
uint64_t fkv_segment_size(const struct fkv_segment *s);
int fkv_segment_fd(const struct fkv_segment *s);
int fkv_segment_fd_readonly(const struct fkv_segment *s);
bool fkv_segment_locked(const struct fkv_segment *s);
/* "hugetlb", "madvise", "4k", or the module's: "device", "device-4k" */
const char *fkv_segment_pages(const struct fkv_segment *s);

/*
 * A small shared region: allocated, of fixed size, mode 0600, mapped shared
 * and writable at *ret_map. 0 or -errno.
 */
int fkv_memfd_create(const char *name, size_t size, int *ret_fd,
		     void **ret_map);

/* A second descriptor of it that cannot write. 0 or -errno. */
int fkv_memfd_readonly(int fd, int *ret_fd);

#endif
