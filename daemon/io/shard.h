/* SPDX-License-Identifier: Apache-2.0 */
/*
 * shard.h - the files of one SSD device: directory, lock, shards
 *
 * Born: fkv_shards_open(), which locks the directory before it touches any
 * file, makes each file exactly as large as it will ever be, and finds out
 * how the device wants to be read and written. Held by: its device. Dies:
 * fkv_shards_close(); files stay. Rings start empty: what an earlier daemon
 * left has another store_id. Does no I/O on entries.
 */
#ifndef FKV_IO_SHARD_H
#define FKV_IO_SHARD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/limits.h"

#define FKV_SSD_DIR_NAME_MAX	256

struct fkv_shards_config {
	const char *path;		/* large_file_paths[i] */
	const char *cluster, *instance;
	uint64_t limit;			/* bytes of all files */
	uint32_t nr;			/* files, 1..FKV_SHARDS_MAX */
	/* asked while files are made; false: stop, and fail with ECANCELED */
	bool (*go_on)(void *arg);
	void *arg;
};

struct fkv_shards {
	char *dir;
	int lock_fd;			/* the directory, locked */
	dev_t dev;			/* st_dev */
	uint32_t nr;
	int fd[FKV_SHARDS_MAX];
	bool direct;
	char buffered_why[128];		/* empty when direct */
	uint64_t alignment;		/* of file offsets and lengths; 1: none */
	uint64_t memory_alignment;
	uint64_t unit;			/* of layout: >= 4096 and alignment */
	uint64_t ring_size;		/* bytes, of each, a multiple of unit */
	uint8_t store_id[16];
};

/*
 * Last part of the directory (S2): "v1-" and @instance with bytes outside
 * [A-Za-z0-9_-] as %XX; over 200 bytes, its XXH3-128 in hex. -EINVAL when
 * @instance is empty.
 */
int fkv_ssd_dir_name(const char *instance, char buf[FKV_SSD_DIR_NAME_MAX]);

/*
 * 0 or -errno; @err then has a sentence. -EBUSY: another daemon has the
 * directory, which is left alone. -ENOSPC: the limit is more than is free;
 * -ECANCELED: told to stop. What was allocated so far is given back then.
 */
int fkv_shards_open(const struct fkv_shards_config *cfg,
		    struct fkv_shards *ret, char *err, size_t err_size);
void fkv_shards_close(struct fkv_shards *s);

/* Where byte @vpos of a ring is in its file. */
static inline uint64_t fkv_shards_offset(const struct fkv_shards *s,
					 uint64_t vpos)
{
	return s->unit + vpos % s->ring_size;
}

/* st_dev of @path, or of what exists of it. 0 or -errno. */
int fkv_path_dev(const char *path, dev_t *ret);

/* How direct I/O on @fd must be aligned, by what the kernel says and by
 * trying. 0, or -errno: not possible. @fd is open with O_DIRECT. */
int fkv_direct_alignment(int fd, uint64_t *ret_offset, uint64_t *ret_memory);

#endif
