/* SPDX-License-Identifier: Apache-2.0 */
/*
 * hash.h - key hash and payload checksum
 *
 * Keys: XXH3-128 with a fixed seed (0), of which the low 64 bits choose
 * buckets; the same in library and daemon, on every host.
 *
 * Payload checksum: XXH3-64, seeded with XXH3-64(key || put_id || len), over
 * the little-endian list of the XXH3-64 of each 1 MiB of payload, so that
 * pieces verify in any order and another entry's intact bytes fail.
 */
#ifndef FKV_BASE_HASH_H
#define FKV_BASE_HASH_H

#include <stddef.h>
#include <stdint.h>

struct fkv_hash128 {
	uint64_t low;
	uint64_t high;
};

struct fkv_hash128 fkv_hash_key(const void *key, size_t len);

/* XXH3-64 of plain bytes, seed 0: headers, superblocks, payload chunks. */
uint64_t fkv_hash_bytes(const void *p, size_t len);

/* The same for AVX2 processors; called by fkv_hash_bytes(). */
uint64_t fkv_hash_bytes_avx2(const void *p, size_t len);

/* Seed of a payload's checksum. @put_id and @len enter little endian. */
uint64_t fkv_sum_seed(const void *key, size_t key_len, uint64_t put_id,
		      uint64_t len);

/* Chunks of FKV_SUM_CHUNK that @len bytes have. */
static inline size_t fkv_sum_chunks(uint64_t len)
{
	return (size_t)((len + (1ULL << 20) - 1) >> 20);
}

/* Checksum from the list of @n chunk hashes. */
uint64_t fkv_sum_chunks_final(uint64_t seed, const uint64_t *chunks, size_t n);

/* Whole payload at once; needs no memory. */
uint64_t fkv_sum_payload(uint64_t seed, const void *p, uint64_t len);

#endif
