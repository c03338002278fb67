// SPDX-License-Identifier: Apache-2.0
/*
 * payload.c - fill and verify values
 */
#include <string.h>

#include "bench/payload.h"

#define STEP		0x9e3779b97f4a7c15ULL
#define PAGE		4096u
#define PIECE		512u		/* words compared at once */

/* FNV-1a, then the finaliser of splitmix64 (Steele, Lea, Flood 2014). */
uint64_t bench_payload_seed(const void *key, size_t key_len)
{
	const unsigned char *p = key;
	uint64_t h = 0xcbf29ce484222325ULL;

	for (size_t i = 0; i < key_len; i++)
		h = (h ^ p[i]) * 0x100000001b3ULL;
	h = (h ^ (h >> 30)) * 0xbf58476d1ce4e5b9ULL;
	h = (h ^ (h >> 27)) * 0x94d049bb133111ebULL;
	return h ^ (h >> 31);
}

void bench_payload_fill(void *p, uint64_t len, uint64_t seed)
{
	unsigned char *out = p;
	uint64_t n = len / 8, word;

	for (uint64_t i = 0; i < n; i++) {
		word = seed + i * STEP;
		memcpy(out + i * 8, &word, 8);
	}
	word = seed + n * STEP;
	memcpy(out + n * 8, &word, len % 8);
}

/* Without an early exit, so that the compiler makes vectors of it. */
static uint64_t differences(const unsigned char *in, uint64_t from, uint64_t n,
			    uint64_t seed)
{
	uint64_t all = 0, word;

	for (uint64_t i = from; i < from + n; i++) {
		memcpy(&word, in + i * 8, 8);
		all |= word ^ (seed + i * STEP);
	}
	return all;
}

/* Words [from, to), and the odd bytes at the end when @to is past them. */
static uint64_t check_words(const unsigned char *in, uint64_t len,
			    uint64_t seed, uint64_t from, uint64_t to)
{
	uint64_t whole = len / 8, n, word;
	uint64_t last = to < whole ? to : whole;

	for (uint64_t i = from; i < last; i += n) {
		n = last - i < PIECE ? last - i : PIECE;
		if (!differences(in, i, n, seed))
			continue;
		while (!differences(in, i, 1, seed))
			i++;
		return i * 8;
	}
	word = seed + whole * STEP;
	if (to > whole && memcmp(in + whole * 8, &word, len % 8))
		return whole * 8;
	return BENCH_PAYLOAD_GOOD;
}

uint64_t bench_payload_check(const void *p, uint64_t len, uint64_t seed)
{
	return check_words(p, len, seed, 0, len / 8 + 1);
}

uint64_t bench_payload_check_edges(const void *p, uint64_t len, uint64_t seed)
{
	uint64_t wrong;

	if (len <= 2 * PAGE)
		return bench_payload_check(p, len, seed);
	wrong = check_words(p, len, seed, 0, PAGE / 8);
	if (wrong != BENCH_PAYLOAD_GOOD)
		return wrong;
	return check_words(p, len, seed, (len - PAGE) / 8, len / 8 + 1);
}
