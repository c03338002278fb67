/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fio.h - what the disk can do, asked of fio(1) in the same run
 */
#ifndef FKV_BENCH_FIO_H
#define FKV_BENCH_FIO_H

#include <stdint.h>

#include "bench/report.h"

struct bench_fio {
	const char *dir;		/* where its file is made, and removed */
	uint64_t file_bytes;
	uint64_t block_bytes;		/* a multiple of 4096 */
	unsigned int depth;
	unsigned int jobs;
	double seconds;
};

struct bench_fio_result {
	double gib_per_second;
	double iops;
	uint64_t p50_ns, p99_ns;
};

/*
 * Random reads, io_uring, O_DIRECT. 0; -ENOENT: fio is not installed; -EIO:
 * it failed, and said why on stderr.
 */
int bench_fio_run(const struct bench_fio *fio, struct bench_fio_result *ret);

/* Run it and make a row of it (op "fio_randread"); notes when it cannot. */
void bench_fio_report(struct bench_report *r, const struct bench_fio *fio);

#endif
