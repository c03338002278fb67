// SPDX-License-Identifier: Apache-2.0
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/base.h"
#include "base/log.h"
#include "base/size.h"
#include "io/segment.h"
#include "linux/fluxonkv.h"

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

#define HUGE_PAGE	(2 * FKV_MIB)
#define TOUCH_PIECE	(64 * FKV_MIB)

struct fkv_segment {
	void *base;
	uint64_t size;
	int fd, fd_ro;
	bool locked;
	const char *pages;
};

/* What the threads that touch a segment share. */
struct touch {
	int fd;
	bool device;
	char *base;
	uint64_t size;
	uint64_t next;			/* atomic */
	uint64_t done;			/* atomic */
	int err;			/* atomic */
};

int fkv_memfd_readonly(int fd, int *ret_fd)
{
	char path[64];
	int ro;

	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	ro = open(path, O_RDONLY | O_CLOEXEC);
	if (ro < 0)
		return -errno;
	*ret_fd = ro;
	return 0;
}

/* Born 0777: without fchmod any user could reopen it for writing. */
static int memfd_make(const char *name, uint64_t size, unsigned int flags,
		      bool allocate)
{
	int fd = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING | flags);
	int err;

	if (fd < 0)
		return -errno;
	if (fchmod(fd, 0600) || ftruncate(fd, (off_t)size))
		goto err_close;
	/* room is taken now, or the error is now */
	err = allocate ? posix_fallocate(fd, 0, (off_t)size) : 0;
	if (err) {
		errno = err;
		goto err_close;
	}
	if (fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL))
		goto err_close;
	return fd;

err_close:
	err = -errno;
	close(fd);
	return err;
}

int fkv_memfd_create(const char *name, size_t size, int *ret_fd,
		     void **ret_map)
{
	int fd = memfd_make(name, size, 0, true);
	void *map;

	if (fd < 0)
		return fd;
	map = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (map == MAP_FAILED) {
		int err = -errno;

		close(fd);
		return err;
	}
	*ret_fd = fd;
	*ret_map = map;
	return 0;
}

/* One call of the module that makes the segment; @a has its answer. */
static int device_call(int fd, unsigned long cmd, struct fluxonkv_segment *a)
{
	a->size = sizeof(*a);
	return ioctl(fd, cmd, a) ? -errno : 0;
}

static int device_piece(const struct touch *t, uint64_t off, uint64_t n)
{
	struct fluxonkv_segment a = { .offset = off, .bytes = n };

	return device_call(t->fd, FLUXONKV_IOC_SEGMENT_POPULATE, &a);
}

/* Allocate and map a piece: an error here, never a SIGBUS later. */
static int touch_piece(const struct touch *t, uint64_t off, uint64_t n)
{
	char *p = t->base + off;
	int err;

	if (t->device) {
		err = device_piece(t, off, n);
		if (err)
			return err;
	}
	if (!madvise(p, n, MADV_POPULATE_WRITE))
		return 0;
	if (errno != EINVAL)
		return errno == EFAULT ? -ENOMEM : -errno;
	/* before Linux 5.14 */
	err = posix_fallocate(t->fd, (off_t)off, (off_t)n);
	for (uint64_t i = 0; !err && i < n; i += 4096)
		((volatile char *)p)[i] = 0;
	return -err;
}

static void *toucher(void *arg)
{
	struct touch *t = arg;

	for (;;) {
		uint64_t off = __atomic_fetch_add(&t->next, TOUCH_PIECE,
						  __ATOMIC_RELAXED);
		uint64_t n;
		int err;

		if (off >= t->size ||
		    __atomic_load_n(&t->err, __ATOMIC_RELAXED))
			return NULL;
		n = fkv_min_u64(TOUCH_PIECE, t->size - off);
		err = touch_piece(t, off, n);
		if (err)
			__atomic_store_n(&t->err, err, __ATOMIC_RELAXED);
		__atomic_fetch_add(&t->done, n, __ATOMIC_RELAXED);
	}
}

/* Touch all of it with several threads; the caller's thread reports. */
static int touch_all(struct fkv_segment *s,
		     const struct fkv_segment_config *cfg)
{
	struct touch t = {
		.fd = s->fd,
		.device = cfg->device,
		.base = s->base,
		.size = s->size,
	};
	pthread_t thread[64];
	unsigned int n = 0;
	uint64_t done = 0;

	while (n < cfg->threads && n < FKV_ARRAY_SIZE(thread) &&
	       !pthread_create(&thread[n], NULL, toucher, &t))
		n++;
	if (!n)
		toucher(&t);
	while (n && done < s->size) {
		usleep(50000);
		done = __atomic_load_n(&t.done, __ATOMIC_RELAXED);
		if (cfg->progress &&
		    !cfg->progress(cfg->arg, done, s->size)) {
			__atomic_store_n(&t.err, -ECANCELED, __ATOMIC_RELAXED);
			break;
		}
	}
	while (n)
		pthread_join(thread[--n], NULL);
	return t.err;
}

/* An address range of @size at a 2 MiB boundary, then the file over it. */
static void *map_aligned(int fd, uint64_t size)
{
	uint64_t room = size + HUGE_PAGE;
	char *p = mmap(NULL, room, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS |
		       MAP_NORESERVE, -1, 0);
	char *at;

	if (p == MAP_FAILED)
		return NULL;
	at = (char *)fkv_align_up((uintptr_t)p, HUGE_PAGE);
	if (at > p)
		munmap(p, (size_t)(at - p));
	if (p + room > at + size)
		munmap(at + size, (size_t)(p + room - (at + size)));
	if (mmap(at, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd,
		 0) == MAP_FAILED) {
		munmap(at, size);
		return NULL;
	}
	return at;
}

static bool shmem_huge_allowed(void)
{
	char buf[128] = "";
	FILE *f = fopen("/sys/kernel/mm/transparent_hugepage/shmem_enabled",
			"re");
	bool never;

	if (!f)
		return false;
	never = !fgets(buf, sizeof(buf), f) || strstr(buf, "[never]") ||
		strstr(buf, "[deny]");
	fclose(f);
	return !never;
}

static int open_memory(struct fkv_segment *s, enum fkv_huge huge)
{
	if (huge != FKV_HUGE_OFF && !(s->size % HUGE_PAGE)) {
		s->fd = memfd_make("fluxonkv-segment", s->size, MFD_HUGETLB,
				   true);
		s->pages = "hugetlb";
		if (s->fd >= 0)
			return 0;
	}
	if (huge == FKV_HUGE_REQUIRED)
		return s->size % HUGE_PAGE ? -EINVAL : s->fd;
	s->fd = memfd_make("fluxonkv-segment", s->size, 0, false);
	s->pages = "4k";
	return s->fd < 0 ? s->fd : 0;
}

static void advise_huge(struct fkv_segment *s, enum fkv_huge huge)
{
	if (huge == FKV_HUGE_OFF || !strcmp(s->pages, "hugetlb"))
		return;
	if (!shmem_huge_allowed()) {
		fkv_log(FKV_LOG_INFO, "segment uses 4 KiB pages: "
			"transparent_hugepage/shmem_enabled is never; "
			"'advise' would allow 2 MiB pages");
		return;
	}
	if (!madvise(s->base, s->size, MADV_HUGEPAGE))
		s->pages = "madvise";
}

static int lock_memory(struct fkv_segment *s, enum fkv_lock lock, char *err,
		       size_t err_size)
{
	struct rlimit rl;
	int res;

	if (lock == FKV_LOCK_OFF)
		return 0;
	if (!mlock(s->base, s->size)) {
		s->locked = true;
		return 0;
	}
	res = -errno;
	getrlimit(RLIMIT_MEMLOCK, &rl);
	if (lock == FKV_LOCK_REQUIRED) {
		snprintf(err, err_size, "lock_memory is required, but %" PRIu64
			 " bytes cannot be locked: memlock limit is %" PRIu64
			 " bytes: %s", s->size, (uint64_t)rl.rlim_cur,
			 strerror(-res));
		return res;
	}
	fkv_log(FKV_LOG_WARN, "memory is not locked: %" PRIu64
		" bytes wanted, memlock limit %" PRIu64 " bytes (%s)", s->size,
		(uint64_t)rl.rlim_cur, strerror(-res));
	return 0;
}

/* The module's memory: its limits are in the error. */
static int open_device(struct fkv_segment *s,
		       const struct fkv_segment_config *cfg, char *err,
		       size_t err_size)
{
	struct fluxonkv_segment a = {
		.bytes = s->size,
		.flags = cfg->pinnable ? FLUXONKV_SEGMENT_PINNABLE : 0,
	};
	int res;

	if (s->size % FLUXONKV_SEGMENT_UNIT) {
		snprintf(err, err_size, "memory of %" PRIu64 " bytes is no "
			 "multiple of 2 MiB, which the device wants", s->size);
		return -EINVAL;
	}
	res = device_call(cfg->owner_fd, FLUXONKV_IOC_SEGMENT_CREATE, &a);
	if (res) {
		snprintf(err, err_size, "the module allows no segment of %"
			 PRIu64 " bytes: %" PRIu64 " of %" PRIu64 " bytes are "
			 "in use (max_pinned_bytes of module fluxonkv): %s",
			 s->size, (uint64_t)a.pinned, (uint64_t)a.pinned_max,
			 strerror(-res));
		return res;
	}
	s->fd = fcntl(cfg->owner_fd, F_DUPFD_CLOEXEC, 3);
	s->pages = "device";
	/* its pages are nobody's to swap or move */
	s->locked = true;
	return s->fd < 0 ? -errno : 0;
}

/* After the last piece: how much of it is in large pages? */
static void device_pages(struct fkv_segment *s)
{
	struct fluxonkv_segment a = {
		.bytes = FLUXONKV_SEGMENT_UNIT,
	};

	/* it is there already: only the answer counts */
	if (!device_call(s->fd, FLUXONKV_IOC_SEGMENT_POPULATE, &a) &&
	    a.huge < s->size)
		s->pages = "device-4k";
}

static int memory_open(struct fkv_segment *s,
		       const struct fkv_segment_config *cfg, char *err,
		       size_t err_size)
{
	int res;

	if (cfg->device)
		return open_device(s, cfg, err, err_size);
	res = open_memory(s, cfg->huge);
	if (res)
		snprintf(err, err_size, "cannot allocate a memory segment of %"
			 PRIu64 " bytes%s%s: %s", s->size,
			 cfg->huge == FKV_HUGE_REQUIRED ?
			 " in reserved 2 MiB huge pages (see "
			 "/proc/sys/vm/nr_hugepages)" : "",
			 res == -EINVAL && s->size % HUGE_PAGE ?
			 ", which is no multiple of 2 MiB" : "",
			 strerror(-res));
	return res;
}

/* It was touched: pinned, and with a descriptor for clients. */
static int memory_ready(struct fkv_segment *s,
			const struct fkv_segment_config *cfg, char *err,
			size_t err_size)
{
	int res;

	if (cfg->device) {
		device_pages(s);
		return 0;
	}
	res = lock_memory(s, cfg->lock, err, err_size);
	return res ? res : fkv_memfd_readonly(s->fd, &s->fd_ro);
}

int fkv_segment_create(const struct fkv_segment_config *cfg,
		       struct fkv_segment **ret, char *err, size_t err_size)
{
	struct fkv_segment *s = fkv_zalloc(sizeof(*s));
	int res = -ENOMEM;

	snprintf(err, err_size, "out of memory");
	if (!s)
		return res;
	s->size = cfg->bytes;
	s->fd = s->fd_ro = -1;
	res = memory_open(s, cfg, err, err_size);
	if (res)
		goto err_free;
	s->base = map_aligned(s->fd, s->size);
	if (!s->base) {
		res = -errno;
		snprintf(err, err_size, "cannot map %" PRIu64 " bytes: %s",
			 s->size, strerror(errno));
		goto err_free;
	}
	/* a core dump is of the daemon, not of what it caches */
	madvise(s->base, s->size, MADV_DONTDUMP);
	if (!cfg->device)
		advise_huge(s, cfg->huge);
	res = touch_all(s, cfg);
	if (res) {
		snprintf(err, err_size, "cannot get %" PRIu64 " bytes of "
			 "memory: %s", s->size, strerror(-res));
		goto err_free;
	}
	res = memory_ready(s, cfg, err, err_size);
	if (res)
		goto err_free;
	*ret = s;
	return 0;

err_free:
	fkv_segment_free(s);
	return res;
}

void fkv_segment_free(struct fkv_segment *s)
{
	if (!s)
		return;
	if (s->base)
		munmap(s->base, s->size);
	if (s->fd >= 0)
		close(s->fd);
	if (s->fd_ro >= 0)
		close(s->fd_ro);
	fkv_free(s);
}

void *fkv_segment_base(const struct fkv_segment *s)
{
	return s->base;
}

uint64_t fkv_segment_size(const struct fkv_segment *s)
{
	return s->size;
}

int fkv_segment_fd(const struct fkv_segment *s)
{
	return s->fd;
}

int fkv_segment_fd_readonly(const struct fkv_segment *s)
{
	return s->fd_ro;
}

bool fkv_segment_locked(const struct fkv_segment *s)
{
	return s->locked;
}

const char *fkv_segment_pages(const struct fkv_segment *s)
{
	return s->pages;
}
