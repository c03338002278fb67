/* SPDX-License-Identifier: Apache-2.0 */
/*
 * workers.h - transfer threads: copy and hash payload off the loop thread
 *
 * A few threads take jobs in order from one queue. A result is handed over in
 * the worker's thread by done(); each job is done exactly once, at stop too.
 */
#ifndef FKV_IO_WORKERS_H
#define FKV_IO_WORKERS_H

#include <stdint.h>

struct fkv_workers;

enum fkv_work_type { FKV_WORK_HASH, FKV_WORK_COPY };

struct fkv_work {
	enum fkv_work_type type;
	uint64_t token;
	const void *from;
	void *to;			/* COPY */
	uint64_t len;			/* bytes */
	uint64_t seed;			/* HASH */
	uint64_t sum;			/* HASH: result */
	void *user;			/* goes with the job */
};

/* @threads 1..64. 0 or -errno. */
int fkv_workers_create(unsigned int threads,
		       void (*done)(void *arg, const struct fkv_work *w),
		       void *arg, struct fkv_workers **ret);

/* 0 or -ENOMEM; bounded by the caller's tokens. */
int fkv_workers_post(struct fkv_workers *ws, const struct fkv_work *w);

/* Finish what is queued, then join. */
void fkv_workers_free(struct fkv_workers *ws);

#endif
