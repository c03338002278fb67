/* SPDX-License-Identifier: Apache-2.0 */
/*
 * hist.h - latency histogram
 *
 * Log-linear: below 64 ns one bucket a nanosecond, above 64 buckets a power
 * of two, so a quantile is at most 1/64 too large. Holds no pointers: it may
 * live in memory shared between processes. One writer; merge after it ended.
 */
#ifndef FKV_BENCH_HIST_H
#define FKV_BENCH_HIST_H

#include <stdint.h>

#define BENCH_HIST_SUB_BITS	6u
#define BENCH_HIST_SUB		(1u << BENCH_HIST_SUB_BITS)
#define BENCH_HIST_BUCKETS	((64u - BENCH_HIST_SUB_BITS + 1) * BENCH_HIST_SUB)

struct bench_hist {
	uint64_t count;
	uint64_t sum_ns;
	uint64_t min_ns;		/* meaningless while count is 0 */
	uint64_t max_ns;
	uint64_t buckets[BENCH_HIST_BUCKETS];
};

/* A zeroed struct is an empty histogram. */
void bench_hist_add(struct bench_hist *h, uint64_t ns);

/* Add all of @from to @to. */
void bench_hist_merge(struct bench_hist *to, const struct bench_hist *from);

/*
 * The least value that at least @q (0..1) of the entries do not exceed, up to
 * the bucket's width and never over the maximum. 0 when empty.
 */
uint64_t bench_hist_quantile(const struct bench_hist *h, double q);

/* ns; 0 when empty. */
double bench_hist_mean(const struct bench_hist *h);

#endif
