/* SPDX-License-Identifier: Apache-2.0 */
/*
 * device_internal.h - a device's requests and parts, for device.c, which runs
 * the thread, and device_io.c, which cuts requests into pieces and sums them
 *
 * All of it belongs to the device's thread but the mailbox and the counters.
 */
#ifndef FKV_IO_DEVICE_INTERNAL_H
#define FKV_IO_DEVICE_INTERNAL_H

#include <pthread.h>
#include <stdatomic.h>
#include <sys/queue.h>

#include "core/ssd/arbiter.h"
#include "io/device.h"
#include "io/mailbox.h"
#include "io/shard.h"

/* Header blocks of a write that go out before its payload. */
enum fkv_header { FKV_HEADER_SKIP, FKV_HEADER_ENTRY, FKV_HEADERS };

/*
 * Born: fkv_device_submit(). Held by: mailbox, then arbiter, then its parts.
 * Dies: done() was called. Last put: the device's thread. Afterwards: nothing.
 */
struct fkv_device_request {
	struct fkv_arbiter_item item;
	struct fkv_io_request io;
	uint64_t submitted_ns, started_ns;
	uint64_t offset;		/* of the payload, in the file */
	uint64_t total;			/* bytes of payload to move, padded */
	uint64_t issued;		/* of them */
	uint32_t headers;		/* bit set of those yet to issue */
	uint32_t parts;			/* issued and not finished */
	int res;			/* first error */
	uint8_t *blocks;		/* WRITE: its header blocks */
	uint32_t *left;			/* READ: bytes missing, by chunk */
	uint64_t chunk[];		/* READ: hashes */
};

/* One piece at the engine, and, for a read, until its bytes are summed. */
struct fkv_device_part {
	struct fkv_piece piece;
	STAILQ_ENTRY(fkv_device_part) link;
	struct fkv_device_request *rq;
	bool header;
	uint64_t at;			/* in the payload */
	uint8_t *bounce;		/* NULL: straight from and to memory */
};

STAILQ_HEAD(fkv_device_parts, fkv_device_part);

struct fkv_device {
	struct fkv_device_config cfg;
	struct fkv_shards shards;
	struct fkv_mailbox mailbox;
	struct fkv_arbiter arbiter;
	struct fkv_io_engine *engine;
	const char *engine_name;
	char engine_why[256];
	pthread_t thread;
	bool started, stopped;

	struct fkv_device_part *parts;	/* 2 x depth */
	struct fkv_device_parts unused;
	struct fkv_device_parts landed;	/* reads to be summed */
	uint8_t *blocks;		/* FKV_WRITES_MAX x FKV_HEADERS x unit */
	uint8_t *block_free[FKV_WRITES_MAX];
	uint32_t nr_blocks_free;
	uint32_t live;			/* requests taken and not done */

	_Atomic uint64_t inflight, queued;
	_Atomic uint64_t reads, writes, read_bytes, write_bytes, errors;
	_Atomic uint64_t short_ios, retries, registered_buffers;
};

static inline void fkv_device_count(_Atomic uint64_t *n, uint64_t by)
{
	atomic_fetch_add_explicit(n, by, memory_order_relaxed);
}

/* Is it something that this device can do? */
bool fkv_device_request_valid(const struct fkv_device *d,
			      const struct fkv_io_request *io);

/* Before its first piece: where its bytes are, headers, sums. */
void fkv_device_begin(struct fkv_device *d, struct fkv_device_request *rq);

/* Hand one more piece to the engine: false when none can be now. */
bool fkv_device_issue(struct fkv_device *d, struct fkv_device_request *rq);

/* A piece that the engine is through with. */
void fkv_device_landed(struct fkv_device *d, struct fkv_device_part *part);

/* Sum what has landed, about @bytes of it. */
void fkv_device_sum(struct fkv_device *d, uint64_t bytes);

/* @rq is over, with @rq->res, whatever it got to. */
void fkv_device_finish(struct fkv_device *d, struct fkv_device_request *rq);

#endif
