/* SPDX-License-Identifier: Apache-2.0 */
/*
 * inbox.h - what the loop asks of other threads, and their results
 *
 * Any thread posts a result and wakes the loop, which takes all at once. The
 * memory of a result is made before what it is the result of is asked for: to
 * post it cannot fail.
 */
#ifndef FKV_SVC_INBOX_H
#define FKV_SVC_INBOX_H

#include <pthread.h>
#include <sys/queue.h>
#include <uv.h>

#include "core/owner/owner.h"
#include "io/device.h"
#include "io/front.h"
#include "io/workers.h"

/*
 * What another thread is asked for, and its result.
 * Born: with the request, by the loop.
 * Held by: who carries it out, then the inbox.
 * Dies: when the loop has taken it.
 */
struct fkv_result {
	STAILQ_ENTRY(fkv_result) link;
	struct fkv_cmd cmd;		/* the command that asks */
	struct fkv_arena *arena;	/* NULL, or its reference */
	int res;
	uint64_t sum;
	uint64_t sums[FKV_CHUNK / FKV_SUM_CHUNK];	/* READ of a part */
	uint64_t ns;
};

STAILQ_HEAD(fkv_results, fkv_result);

struct fkv_inbox {
	pthread_mutex_t lock;		/* results */
	struct fkv_results results;
	struct fkv_results waiting;	/* a device's mailbox had no room */
	struct fkv_device *const *devices;
	uint32_t shards_per_device;
	char *segment;
	struct fkv_workers *workers;
	uv_async_t wake;		/* its callback takes */
};

void fkv_inbox_init(struct fkv_inbox *in);
/* Nobody posts any more; frees what is inside. */
void fkv_inbox_done(struct fkv_inbox *in);

/*
 * The loop asks: READ and WRITE, HASH and COPY. False without memory: nothing
 * was done, and @cmd still has its references.
 */
bool fkv_inbox_io(struct fkv_inbox *in, const struct fkv_cmd *cmd);
bool fkv_inbox_work(struct fkv_inbox *in, const struct fkv_cmd *cmd,
		    struct fkv_front *f);
/* Ask again what a device had no room for. */
void fkv_inbox_retry(struct fkv_inbox *in);

/* For devices and workers: what was asked for is done. */
void fkv_inbox_io_done(struct fkv_inbox *in, const struct fkv_io_result *res);
void fkv_inbox_work_done(void *inbox, const struct fkv_work *w);

/* All results, oldest first; each is the caller's to free. */
void fkv_inbox_take(struct fkv_inbox *in, struct fkv_results *ret);
/* What one says to the owner core, as long as it lives. */
struct fkv_in fkv_result_input(const struct fkv_result *r);

#endif
