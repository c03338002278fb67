/* SPDX-License-Identifier: Apache-2.0 */
/*
 * batch.h - one batch call as the operation of a run
 *
 * The context of the run is a bench_batch; each thread has its own buffers.
 * Keys are loaded before by data.h; a put writes keys of its own thread. For
 * the _SSD operations a thread asks the daemon beforehand, outside of what is
 * timed, which keys have no copy in memory, and reads only those.
 */
#ifndef FKV_BENCH_BATCH_H
#define FKV_BENCH_BATCH_H

#include <stdbool.h>
#include <stdint.h>

#include "bench/report.h"
#include "bench/run.h"

#define BENCH_BATCH_MAX	1024u

enum bench_batch_op {
	BENCH_OP_PUT,
	BENCH_OP_GET,			/* holders, released at once */
	BENCH_OP_GET_INTO,
	BENCH_OP_GET_SSD,
	BENCH_OP_GET_INTO_SSD,
	BENCH_OP_EXISTS,
};

struct bench_batch {
	enum bench_batch_op op;
	const char *prefix;
	uint64_t keys;			/* loaded; put: per thread */
	uint64_t value_bytes;
	unsigned int batch;		/* 1..BENCH_BATCH_MAX */
	bool verify;			/* every byte, outside of what is timed */
};

extern const struct bench_work bench_batch_work;

const char *bench_batch_op_name(enum bench_batch_op op);

/* All fields of a finished run but what the caller knows of its case. */
void bench_batch_row(struct json_object *row, const struct bench_batch *b,
		     const struct bench_run *run,
		     const struct bench_outcome *o);

/* Fail @r for errors, misses and runs that did nothing. */
void bench_batch_judge(struct bench_report *r, const struct bench_batch *b,
		       const struct bench_outcome *o, int res);

#endif
