/* SPDX-License-Identifier: Apache-2.0 */
/*
 * zipf.h - the key sequence of the pressure workload
 *
 * Zipf with exponent 0.99 by inverse transform over a cumulative table; the
 * uniform number of operation i of thread t comes from SHA-256, so that any
 * implementation, in any language, draws the same keys. Read-only once made.
 */
#ifndef FKV_BENCH_ZIPF_H
#define FKV_BENCH_ZIPF_H

#include <stdint.h>

struct bench_zipf {
	double *cumulative;		/* n ascending, the last exactly 1 */
	uint32_t n;
};

/* @n >= 1 keys. 0, -EINVAL or -ENOMEM. */
int bench_zipf_init(struct bench_zipf *z, uint32_t n, double exponent);
void bench_zipf_done(struct bench_zipf *z);

/* First position whose cumulative weight is at least @u (0..1). */
uint32_t bench_zipf_find(const struct bench_zipf *z, double u);

/*
 * Uniform number of operation @i of @thread: the first 8 bytes, big endian, of
 * SHA-256 over "kv_ssd_pressure_zipf", "benchmark_kv", thread, i, "key", each
 * followed by 0x1f, divided by 2^64.
 */
double bench_zipf_uniform(uint64_t thread, uint64_t i);

static inline uint32_t bench_zipf_draw(const struct bench_zipf *z,
				       uint64_t thread, uint64_t i)
{
	return bench_zipf_find(z, bench_zipf_uniform(thread, i));
}

#endif
