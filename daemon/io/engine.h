/* SPDX-License-Identifier: Apache-2.0 */
/*
 * engine.h - reads and writes of pieces of shard files
 *
 * One interface, three engines: `uring` (files and, where the kernel and
 * memlock allow, the segment registered), `uring_iovec` (vectored requests,
 * nothing registered but the files: for kernels and memlock limits that make
 * fixed buffers a burden, and to compare) and `threads` (a pool of pread and
 * pwrite). One thread, the device's, calls an engine. A piece is at most
 * FKV_SQE_MAX bytes; it completes exactly once, in full, or with an error:
 * short transfers are resumed in here, on an aligned boundary.
 */
#ifndef FKV_IO_ENGINE_H
#define FKV_IO_ENGINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

/* The segment is registered in pieces of this, counted from its base. */
#define FKV_ENGINE_REGION	(1ULL << 30)

enum fkv_engine_kind {
	FKV_ENGINE_KIND_AUTO, FKV_ENGINE_KIND_URING,
	FKV_ENGINE_KIND_URING_IOVEC, FKV_ENGINE_KIND_THREADS,
};

struct fkv_piece {
	int file;			/* index into the engine's files */
	bool write;
	uint64_t offset;		/* in the file */
	uint8_t *memory;
	uint64_t len;
	uint64_t done;			/* bytes so far */
	uint64_t cap;			/* the shim's: no transfer is longer */
	unsigned int tries;		/* in a row without progress */
	int res;			/* 0 or -errno, when complete */
	struct iovec iov;		/* the engine's, while it is in flight */
	struct fkv_piece *next;		/* the engine's */
};

/*
 * A fault to inject, for tests; NULL in production. Called before each
 * transfer of @p: < 0 is its result, or *len is cut to make it short (0: end
 * of file). The threads engine calls it in its pool.
 */
typedef int (*fkv_engine_shim)(void *arg, struct fkv_piece *p, uint64_t *len);

struct fkv_engine_config_io {
	const int *fds;
	int nr_fds;
	uint32_t depth;
	uint64_t alignment;
	void *segment;
	uint64_t segment_bytes;
	int wake_fd;			/* eventfd that ends a wait */
	bool iovec;			/* uring: vectored, no fixed buffers */
	fkv_engine_shim shim;
	void *shim_arg;
};

struct fkv_io_engine_stats {
	uint64_t short_ios, retries;
	uint64_t registered_buffers;
};

struct fkv_io_engine {
	const char *name;
	/* The piece is the engine's until reap() returns it. -EAGAIN: full. */
	int (*submit)(struct fkv_io_engine *e, struct fkv_piece *p);
	/*
	 * Send what was submitted; with @wait, wait for a completion or the
	 * wake_fd. Returns a list of complete pieces, by next, or NULL. Takes
	 * what was written to the wake_fd.
	 */
	struct fkv_piece *(*reap)(struct fkv_io_engine *e, bool wait);
	/* Nothing in flight; called by the thread that used it, if any did. */
	void (*free)(struct fkv_io_engine *e);
	struct fkv_io_engine_stats stats;
};

/* 0 or -errno with a sentence that names the likely cause. */
int fkv_engine_uring(const struct fkv_engine_config_io *cfg,
		     struct fkv_io_engine **ret, char *err, size_t err_size);
int fkv_engine_threads(const struct fkv_engine_config_io *cfg,
		       struct fkv_io_engine **ret, char *err,
		       size_t err_size);

/*
 * A transfer of @res bytes (or -errno) of piece @p ended: true when the piece
 * is complete (p->res), false when it goes on behind p->done.
 */
bool fkv_piece_advance(struct fkv_piece *p, int res, uint64_t alignment,
		       struct fkv_io_engine_stats *stats);

/* 0 with *len to transfer now, set p->cap; or the shim's -errno. */
int fkv_piece_begin(const struct fkv_engine_config_io *cfg,
		    struct fkv_piece *p, uint64_t *len);

/* What a transfer that returned @res counts for, the shim's cut applied. */
static inline int fkv_piece_count(const struct fkv_piece *p, int res)
{
	return res > 0 && (uint64_t)res > p->cap ? (int)p->cap : res;
}

#endif
