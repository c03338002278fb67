// SPDX-License-Identifier: Apache-2.0
/*
 * hist.c - log-linear latency histogram
 */
#include <math.h>

#include "bench/hist.h"

static unsigned int bucket_of(uint64_t ns)
{
	unsigned int shift;

	if (ns < BENCH_HIST_SUB)
		return (unsigned int)ns;
	shift = 63u - (unsigned int)__builtin_clzll(ns) - BENCH_HIST_SUB_BITS;
	return (shift + 1) * BENCH_HIST_SUB +
	       (unsigned int)((ns >> shift) & (BENCH_HIST_SUB - 1));
}

/* The largest value that falls into @bucket. */
static uint64_t bucket_top(unsigned int bucket)
{
	unsigned int shift;
	uint64_t base;

	if (bucket < BENCH_HIST_SUB)
		return bucket;
	shift = bucket / BENCH_HIST_SUB - 1;
	base = (uint64_t)(BENCH_HIST_SUB + bucket % BENCH_HIST_SUB);
	return (base << shift) + ((1ULL << shift) - 1);
}

void bench_hist_add(struct bench_hist *h, uint64_t ns)
{
	h->buckets[bucket_of(ns)]++;
	if (!h->count || ns < h->min_ns)
		h->min_ns = ns;
	if (ns > h->max_ns)
		h->max_ns = ns;
	h->count++;
	h->sum_ns += ns;
}

void bench_hist_merge(struct bench_hist *to, const struct bench_hist *from)
{
	if (!from->count)
		return;
	for (unsigned int i = 0; i < BENCH_HIST_BUCKETS; i++)
		to->buckets[i] += from->buckets[i];
	if (!to->count || from->min_ns < to->min_ns)
		to->min_ns = from->min_ns;
	if (from->max_ns > to->max_ns)
		to->max_ns = from->max_ns;
	to->count += from->count;
	to->sum_ns += from->sum_ns;
}

uint64_t bench_hist_quantile(const struct bench_hist *h, double q)
{
	uint64_t want, seen = 0, top;

	if (!h->count)
		return 0;
	want = (uint64_t)ceil(q * (double)h->count);
	if (want < 1)
		want = 1;
	for (unsigned int i = 0; i < BENCH_HIST_BUCKETS; i++) {
		seen += h->buckets[i];
		if (seen >= want) {
			top = bucket_top(i);
			return top < h->max_ns ? top : h->max_ns;
		}
	}
	return h->max_ns;
}

double bench_hist_mean(const struct bench_hist *h)
{
	return h->count ? (double)h->sum_ns / (double)h->count : 0;
}
