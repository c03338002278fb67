/* SPDX-License-Identifier: Apache-2.0 */
/*
 * payload.h - bytes that prove where they belong
 *
 * Word i (64 bits, native order) of a key's value is seed + i * an odd
 * constant, the seed a hash of the key: a word of another key or of another
 * place in the same value differs, so a torn or foreign byte is found. Costs
 * one addition a word, to leave the bandwidth to what is measured.
 */
#ifndef FKV_BENCH_PAYLOAD_H
#define FKV_BENCH_PAYLOAD_H

#include <stddef.h>
#include <stdint.h>

#define BENCH_PAYLOAD_GOOD	UINT64_MAX

uint64_t bench_payload_seed(const void *key, size_t key_len);

/* Write the @len bytes that belong to @seed. @p needs no alignment. */
void bench_payload_fill(void *p, uint64_t len, uint64_t seed);

/* Offset of the first wrong 8-byte word, BENCH_PAYLOAD_GOOD when none is. */
uint64_t bench_payload_check(const void *p, uint64_t len, uint64_t seed);

/* The same for the first and the last 4 KiB only. */
uint64_t bench_payload_check_edges(const void *p, uint64_t len, uint64_t seed);

#endif
