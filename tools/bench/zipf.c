// SPDX-License-Identifier: Apache-2.0
/*
 * zipf.c - the key sequence of the pressure workload
 */
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include <sodium.h>

#include "bench/zipf.h"

int bench_zipf_init(struct bench_zipf *z, uint32_t n, double exponent)
{
	double sum = 0, upto = 0;

	if (!n)
		return -EINVAL;
	z->cumulative = calloc(n, sizeof(*z->cumulative));
	if (!z->cumulative)
		return -ENOMEM;
	z->n = n;
	for (uint32_t i = 0; i < n; i++)
		sum += 1 / pow(i + 1.0, exponent);
	for (uint32_t i = 0; i < n; i++) {
		upto += 1 / pow(i + 1.0, exponent) / sum;
		z->cumulative[i] = upto;
	}
	z->cumulative[n - 1] = 1;
	return 0;
}

void bench_zipf_done(struct bench_zipf *z)
{
	free(z->cumulative);
	z->cumulative = NULL;
}

uint32_t bench_zipf_find(const struct bench_zipf *z, double u)
{
	uint32_t low = 0, high = z->n - 1, mid;

	while (low < high) {
		mid = low + (high - low) / 2;
		if (z->cumulative[mid] >= u)
			high = mid;
		else
			low = mid + 1;
	}
	return low;
}

double bench_zipf_uniform(uint64_t thread, uint64_t i)
{
	unsigned char digest[crypto_hash_sha256_BYTES];
	uint64_t first = 0;
	char text[128];
	int n;

	n = snprintf(text, sizeof(text),
		     "kv_ssd_pressure_zipf\x1f" "benchmark_kv\x1f"
		     "%" PRIu64 "\x1f%" PRIu64 "\x1fkey\x1f", thread, i);
	crypto_hash_sha256(digest, (unsigned char *)text,
			   (unsigned long long)n);
	for (int b = 0; b < 8; b++)
		first = first << 8 | digest[b];
	return (double)first * 0x1p-64;
}
