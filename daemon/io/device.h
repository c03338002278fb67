/* SPDX-License-Identifier: Apache-2.0 */
/*
 * device.h - one SSD: its shard files, its thread, its I/O
 *
 * Takes requests from any thread, runs the arbiter (core/ssd/arbiter.h) and
 * an engine (io/engine.h) in a thread of its own, and hands each result over
 * exactly once, by done() in that thread. Knows files and bytes, no keys'
 * meaning and no ring.
 */
#ifndef FKV_IO_DEVICE_H
#define FKV_IO_DEVICE_H

#include <stdbool.h>
#include <sys/types.h>

#include "base/limits.h"
#include "io/engine.h"

struct fkv_device;

enum fkv_io_kind { FKV_IO_READ, FKV_IO_WRITE };

struct fkv_io_request {
	uint64_t token;
	enum fkv_io_kind kind;
	bool warm;			/* READ: behind those that are not */
	uint32_t shard;			/* of this device */
	uint64_t vpos;			/* of the entry's header */
	uint64_t entry_len;		/* header and padded payload, bytes */
	uint64_t skip_vpos, skip_len;	/* WRITE: skip header, if skip_len */
	void *memory;			/* payload in the segment, 4 KiB aligned */
	uint64_t len;			/* bytes of payload */
	uint64_t at;			/* READ: behind so many of the payload's,
					   in units of the layout */
	uint64_t sum_seed;		/* READ */
	/* WRITE: what the header says */
	uint64_t seq, put_id, sum;
	uint32_t key_len;
	uint8_t key[FKV_KEY_MAX];
};

struct fkv_io_result {
	uint64_t token;
	enum fkv_io_kind kind;
	int res;			/* 0 or -errno */
	uint64_t sum;			/* READ: of what was read */
	const uint64_t *sums;		/* READ: of each FKV_SUM_CHUNK of that,
					   until done() returns */
	uint64_t queue_ns, io_ns;
};

struct fkv_device_config {
	const char *path;		/* large_file_paths[i] */
	const char *cluster, *instance;
	uint64_t limit;			/* bytes of all files */
	uint32_t nr_shards;
	uint64_t incarnation;
	enum fkv_engine_kind engine;
	uint32_t io_depth;
	uint32_t read_weight;
	void *segment;
	uint64_t segment_bytes;
	void (*done)(void *arg, const struct fkv_io_result *res);
	/* asked by open() while files are made; false: stop, with ECANCELED */
	bool (*go_on)(void *arg);
	void *arg;
	fkv_engine_shim shim;		/* tests: faults to inject */
	void *shim_arg;
};

/* Strings are the device's. */
struct fkv_device_stats {
	const char *engine;
	const char *engine_why;		/* auto, but not uring: why; or "" */
	bool direct;
	const char *buffered_why;	/* not direct: why; or "" */
	uint64_t alignment;		/* of direct I/O; 1: buffered */
	uint64_t registered_buffers;
	uint64_t inflight, queued;
	uint64_t reads, writes, read_bytes, write_bytes;
	uint64_t short_ios, retries, errors;
};

/*
 * Lock the directory, make the files, start the engine. 0 or -errno; @err
 * then has one sentence: what was wanted, what is there, why.
 */
int fkv_device_open(const struct fkv_device_config *cfg,
		    struct fkv_device **ret, char *err, size_t err_size);
/* Its thread. 0 or -errno of pthread_create(3). */
int fkv_device_start(struct fkv_device *d);

/*
 * Any thread. 0: done() follows, exactly once. -EAGAIN: FKV_MAILBOX_MAX
 * requests wait; -ENOMEM; -ESHUTDOWN: stopped. A request that makes no sense
 * (shard, range) is done with -EINVAL. Memory is the device's until then.
 */
int fkv_device_submit(struct fkv_device *d, const struct fkv_io_request *req);

/* What was not begun ends with -ECANCELED; returns when all are done. */
void fkv_device_stop(struct fkv_device *d);
void fkv_device_close(struct fkv_device *d);

/* Bytes of each shard's ring; unit of its layout; st_dev of its files. */
uint64_t fkv_device_ring_size(const struct fkv_device *d);
uint64_t fkv_device_unit(const struct fkv_device *d);
dev_t fkv_device_dev(const struct fkv_device *d);
/* Is @path (or what exists of it) on the same device (st_dev)? (S2) */
bool fkv_device_same_fs(const struct fkv_device *d, const char *path);
/* The directory of its files. */
const char *fkv_device_path(const struct fkv_device *d);
void fkv_device_get_stats(const struct fkv_device *d,
			  struct fkv_device_stats *ret);

#endif
