// SPDX-License-Identifier: Apache-2.0
#define _GNU_SOURCE 1
#include <fcntl.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "base/base.h"
#include "base/hash.h"
#include "base/size.h"
#include "core/ssd/ondisk.h"
#include "io/shard.h"

#define ZEROS_BYTES	(1 * FKV_MIB)
#define ALLOCATE_BYTES	(256 * FKV_MIB)

/* Where a sentence about a failure goes. */
struct say {
	char *text;
	size_t size;
};

__attribute__((format(printf, 3, 4)))
static int fail(const struct say *say, int err, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(say->text, say->size, fmt, ap);
	va_end(ap);
	return err;
}

/* ---- names ---- */

int fkv_ssd_dir_name(const char *instance, char buf[FKV_SSD_DIR_NAME_MAX])
{
	static const char plain[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
		"abcdefghijklmnopqrstuvwxyz0123456789_-";
	size_t n = 0;

	if (!*instance)
		return -EINVAL;
	for (const char *c = instance; *c && n <= 200; c++) {
		if (strchr(plain, *c)) {
			buf[3 + n++] = *c;
			continue;
		}
		n += (size_t)sprintf(buf + 3 + n, "%%%02X", (uint8_t)*c);
	}
	if (n > 200) {
		struct fkv_hash128 h = fkv_hash_key(instance,
						    strlen(instance));

		n = (size_t)sprintf(buf + 3, "%016" PRIx64 "%016" PRIx64,
				    h.high, h.low);
	}
	memcpy(buf, "v1-", 3);
	buf[3 + n] = '\0';
	return 0;
}

int fkv_path_dev(const char *path, dev_t *ret)
{
	char *p = strdup(path);
	struct stat st;
	int err = 0;

	if (!p)
		return -ENOMEM;
	while (stat(p, &st)) {
		char *slash = strrchr(p, '/');

		err = -errno;
		if (err != -ENOENT)
			break;
		err = 0;
		if (slash && slash != p)
			*slash = '\0';
		else
			strcpy(p, slash ? "/" : ".");
	}
	if (!err)
		*ret = st.st_dev;
	free(p);
	return err;
}

/* ---- directory and lock ---- */

static int make_dirs(char *path, const struct say *say)
{
	for (char *c = path + 1;; c++) {
		char was = *c;

		if (was && was != '/')
			continue;
		*c = '\0';
		if (mkdir(path, 0700) && errno != EEXIST)
			return fail(say, -errno, "cannot make directory %s: "
				    "%s", path, strerror(errno));
		*c = was;
		if (!was)
			return 0;
	}
}

/* Who holds a lock on @st, by /proc/locks; 0: not known. */
static int lock_holder(const struct stat *st)
{
	FILE *f = fopen("/proc/locks", "re");
	char line[256];
	int found = 0;

	while (f && !found && fgets(line, sizeof(line), f)) {
		unsigned int maj, min;
		unsigned long long ino;
		int pid;

		if (sscanf(line, "%*s FLOCK %*s %*s %d %x:%x:%llu", &pid,
			   &maj, &min, &ino) == 4 && ino == st->st_ino &&
		    makedev(maj, min) == st->st_dev)
			found = pid;
	}
	if (f)
		fclose(f);
	return found;
}

static int lock_dir(struct fkv_shards *s, const struct say *say)
{
	struct stat st;
	int pid;

	s->lock_fd = open(s->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (s->lock_fd < 0 || fstat(s->lock_fd, &st))
		return fail(say, -errno, "cannot open %s: %s", s->dir,
			    strerror(errno));
	s->dev = st.st_dev;
	if (!flock(s->lock_fd, LOCK_EX | LOCK_NB))
		return 0;
	if (errno != EWOULDBLOCK)
		return fail(say, -errno, "cannot lock %s: %s", s->dir,
			    strerror(errno));
	pid = lock_holder(&st);
	if (pid > 0)
		return fail(say, -EBUSY, "%s is locked: another fluxonkvd "
			    "(pid %d) uses it; it is left alone", s->dir, pid);
	return fail(say, -EBUSY, "%s is locked: another fluxonkvd uses it; it "
		    "is left alone", s->dir);
}

static int open_dir(struct fkv_shards *s, const struct fkv_shards_config *cfg,
		    const struct say *say)
{
	char name[FKV_SSD_DIR_NAME_MAX];
	struct stat st;

	if (!*cfg->cluster || strchr(cfg->cluster, '/'))
		return fail(say, -EINVAL, "cluster name \"%s\" cannot be part "
			    "of a directory name", cfg->cluster);
	if (!*cfg->path || fkv_ssd_dir_name(cfg->instance, name))
		return fail(say, -EINVAL, "an SSD path and an instance key are "
			    "needed, got \"%s\" and \"%s\"", cfg->path,
			    cfg->instance);
	/* not made: a disk that is not mounted would fill the root's */
	if (stat(cfg->path, &st))
		return fail(say, -errno, "SSD path %s: %s; expected a "
			    "directory that exists", cfg->path,
			    strerror(errno));
	if (!S_ISDIR(st.st_mode))
		return fail(say, -ENOTDIR, "SSD path %s: not a directory",
			    cfg->path);
	if (asprintf(&s->dir, "%s/%s_cluster_kv_ssd_storage/%s", cfg->path,
		     cfg->cluster, name) < 0) {
		s->dir = NULL;
		return fail(say, -ENOMEM, "no memory");
	}
	return make_dirs(s->dir, say) ?: lock_dir(s, say);
}

/* ---- files ---- */

static void shard_name(uint32_t i, char buf[32])
{
	snprintf(buf, 32, "shard-%03u", i);
}

/* Files of a daemon that had more shards would count against no limit. */
static void remove_others(const struct fkv_shards *s)
{
	char name[32];

	for (uint32_t i = s->nr; i < FKV_SHARDS_MAX; i++) {
		shard_name(i, name);
		unlinkat(s->lock_fd, name, 0);
	}
}

static int open_file(struct fkv_shards *s, uint32_t i, const struct say *say)
{
	int flags = O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW;
	char name[32];

	shard_name(i, name);
	s->fd[i] = openat(s->lock_fd, name, flags | O_DIRECT, 0600);
	if (s->fd[i] < 0 && errno == EINVAL) {
		s->direct = false;
		snprintf(s->buffered_why, sizeof(s->buffered_why),
			 "the filesystem refuses O_DIRECT");
		s->fd[i] = openat(s->lock_fd, name, flags, 0600);
	}
	if (s->fd[i] < 0)
		return fail(say, -errno, "cannot open %s/%s: %s", s->dir, name,
			    strerror(errno));
	if (s->direct && !(fcntl(s->fd[i], F_GETFL) & O_DIRECT)) {
		s->direct = false;
		snprintf(s->buffered_why, sizeof(s->buffered_why),
			 "O_DIRECT was accepted but is not set");
	}
	return 0;
}

static int open_files(struct fkv_shards *s, const struct say *say)
{
	int err = 0;

	s->direct = true;
	for (uint32_t i = 0; i < s->nr && !err; i++)
		err = open_file(s, i, say);
	return err;
}

/* All or none: one way of I/O for a device. */
static void drop_direct(struct fkv_shards *s)
{
	s->direct = false;
	s->alignment = 1;
	s->memory_alignment = 1;
	for (uint32_t i = 0; i < s->nr; i++) {
		int flags = fcntl(s->fd[i], F_GETFL);

		if (flags >= 0)
			fcntl(s->fd[i], F_SETFL, flags & ~O_DIRECT);
	}
}

static void find_alignment(struct fkv_shards *s)
{
	int err;

	if (s->direct) {
		err = fkv_direct_alignment(s->fd[0], &s->alignment,
					   &s->memory_alignment);
		if (!err)
			return;
		snprintf(s->buffered_why, sizeof(s->buffered_why),
			 "direct I/O fails: %s", strerror(-err));
	}
	drop_direct(s);
}

/* ---- room ---- */

static uint64_t allocated(const struct fkv_shards *s)
{
	uint64_t sum = 0;
	struct stat st;

	for (uint32_t i = 0; i < s->nr; i++)
		if (!fstat(s->fd[i], &st))
			sum += (uint64_t)st.st_blocks * 512;
	return sum;
}

static int no_room(const struct fkv_shards *s, uint64_t want,
		   const struct say *say)
{
	struct statvfs fs;
	uint64_t there = 0;
	char a[24], b[24];

	if (!fstatvfs(s->lock_fd, &fs))
		there = (uint64_t)fs.f_bavail * fs.f_frsize + allocated(s);
	return fail(say, -ENOSPC, "%s: wanted %s (%" PRIu64 " bytes), "
		    "available %s (%" PRIu64 " bytes): lower large_limit_size",
		    s->dir, fkv_size_print(want, a, sizeof(a)), want,
		    fkv_size_print(there, b, sizeof(b)), there);
}

static int check_room(const struct fkv_shards *s, uint64_t want,
		      const struct say *say)
{
	struct statvfs fs;
	uint64_t there;

	if (fstatvfs(s->lock_fd, &fs))
		return fail(say, -errno, "cannot ask for room in %s: %s",
			    s->dir, strerror(errno));
	/* ramfs would take all of the host's memory before it said no */
	if (!fs.f_blocks)
		return fail(say, -EOPNOTSUPP, "%s: its filesystem does not say "
			    "how much room it has: not used", s->dir);
	there = (uint64_t)fs.f_bavail * fs.f_frsize + allocated(s);
	return want > there ? no_room(s, want, say) : 0;
}

static bool told_to_stop(const struct fkv_shards_config *cfg)
{
	return cfg->go_on && !cfg->go_on(cfg->arg);
}

/* Where there is no fallocate, blocks come only by being written. */
static int write_zeros(const struct fkv_shards_config *cfg, int fd,
		       uint64_t size, uint64_t unit)
{
	uint64_t off = 0;
	void *zeros;
	int err = 0;

	if (posix_memalign(&zeros, fkv_max_u64(unit, FKV_BLOCK), ZEROS_BYTES))
		return -ENOMEM;
	memset(zeros, 0, ZEROS_BYTES);
	while (off < size && !err) {
		size_t n = (size_t)fkv_min_u64(ZEROS_BYTES, size - off);
		ssize_t w = pwrite(fd, zeros, n, (off_t)off);

		if (w > 0)
			off += fkv_align_down((uint64_t)w, unit);
		if (w >= 0 ? (uint64_t)w < unit : errno != EINTR)
			err = w < 0 ? -errno : -EIO;
		else if (told_to_stop(cfg))
			err = -ECANCELED;
	}
	free(zeros);
	return err;
}

/* In pieces: one call for a large file would hold up a stop for minutes. */
static int allocate_pieces(const struct fkv_shards_config *cfg, int fd,
			   uint64_t size)
{
	uint64_t off = 0;

	while (off < size) {
		uint64_t n = fkv_min_u64(ALLOCATE_BYTES, size - off);

		if (told_to_stop(cfg))
			return -ECANCELED;
		if (!fallocate(fd, 0, (off_t)off, (off_t)n))
			off += n;
		else if (errno != EINTR)
			return -errno;
	}
	return 0;
}

static int allocate(const struct fkv_shards_config *cfg, int fd,
		    uint64_t size, uint64_t unit)
{
	int err;

	if (ftruncate(fd, (off_t)size))
		return -errno;
	err = allocate_pieces(cfg, fd, size);
	return err == -EOPNOTSUPP ? write_zeros(cfg, fd, size, unit) : err;
}

static void size_failed(const struct fkv_shards *s, int err, uint64_t size,
			const struct say *say)
{
	if (err == -ENOSPC || err == -EDQUOT || err == -EFBIG)
		no_room(s, size * s->nr, say);
	else if (err == -ECANCELED)
		fail(say, err, "%s: told to stop while its files were made",
		     s->dir);
	else
		fail(say, err, "cannot allocate %" PRIu64 " bytes in %s: %s",
		     size, s->dir, strerror(-err));
}

static void give_back(const struct fkv_shards *s)
{
	for (uint32_t i = 0; i < s->nr; i++)
		if (ftruncate(s->fd[i], 0))
			return;
}

static int size_files(struct fkv_shards *s,
		      const struct fkv_shards_config *cfg,
		      const struct say *say)
{
	uint64_t size = fkv_align_down(cfg->limit / s->nr, s->unit);
	int err = 0;

	if (size < 3 * s->unit)
		return fail(say, -EINVAL, "%s: limit of %" PRIu64 " bytes is "
			    "too small for one entry in each of %u shards: at "
			    "least %" PRIu64 " bytes", s->dir, cfg->limit,
			    s->nr, 3 * s->unit * s->nr);
	err = check_room(s, size * s->nr, say);
	for (uint32_t i = 0; i < s->nr && !err; i++) {
		err = allocate(cfg, s->fd[i], size, s->unit);
		if (err)
			size_failed(s, err, size, say);
	}
	if (err == -ENOSPC || err == -EDQUOT || err == -ECANCELED)
		give_back(s);
	s->ring_size = size - s->unit;
	return err;
}

static int write_superblock(const struct fkv_shards *s, uint32_t i,
			    const char *instance, uint8_t *block)
{
	struct fkv_superblock sb = {
		.instance_hash = fkv_hash_bytes(instance, strlen(instance)),
		.shard = i,
		.nr_shards = s->nr,
		.ring_size = s->ring_size,
	};
	ssize_t n;

	memcpy(sb.store_id, s->store_id, sizeof(sb.store_id));
	fkv_superblock_encode(block, &sb);
	do
		n = pwrite(s->fd[i], block, s->unit, 0);
	while (n < 0 && errno == EINTR);
	if (n != (ssize_t)s->unit)
		return n < 0 ? -errno : -EIO;
	return fdatasync(s->fd[i]) ? -errno : 0;
}

/* A fresh store_id: entries of an earlier life are not ours. */
static int write_superblocks(struct fkv_shards *s, const char *instance,
			     const struct say *say)
{
	void *block;
	int err = 0;

	if (getrandom(s->store_id, sizeof(s->store_id), 0) !=
	    sizeof(s->store_id))
		return fail(say, -EIO, "no random bytes for a store id");
	if (posix_memalign(&block, s->unit, s->unit))
		return fail(say, -ENOMEM, "no memory");
	memset(block, 0, s->unit);
	for (uint32_t i = 0; i < s->nr && !err; i++)
		err = write_superblock(s, i, instance, block);
	free(block);
	if (err)
		fail(say, err, "cannot write to %s: %s", s->dir,
		     strerror(-err));
	return err;
}

int fkv_shards_open(const struct fkv_shards_config *cfg,
		    struct fkv_shards *ret, char *err, size_t err_size)
{
	const struct say say = { err, err_size };
	struct fkv_shards s = { .nr = cfg->nr, .lock_fd = -1 };
	int res;

	fkv_assert(cfg->nr >= 1 && cfg->nr <= FKV_SHARDS_MAX);
	for (uint32_t i = 0; i < s.nr; i++)
		s.fd[i] = -1;
	res = open_dir(&s, cfg, &say);
	if (!res)
		res = open_files(&s, &say);
	if (!res) {
		remove_others(&s);
		find_alignment(&s);
		s.unit = fkv_max_u64(FKV_BLOCK, s.alignment);
		res = size_files(&s, cfg, &say);
	}
	if (!res)
		res = write_superblocks(&s, cfg->instance, &say);
	if (res) {
		fkv_shards_close(&s);
		return res;
	}
	*ret = s;
	return 0;
}

void fkv_shards_close(struct fkv_shards *s)
{
	for (uint32_t i = 0; i < s->nr; i++)
		if (s->fd[i] >= 0)
			close(s->fd[i]);
	/* last: the lock covers the files */
	if (s->lock_fd >= 0)
		close(s->lock_fd);
	free(s->dir);
	s->dir = NULL;
}
