// SPDX-License-Identifier: Apache-2.0
#include <endian.h>
#include <string.h>
#define XXH_INLINE_ALL
#include <xxhash.h>

#include "base.h"
#include "hash.h"

struct fkv_hash128 fkv_hash_key(const void *key, size_t len)
{
	XXH128_hash_t h = XXH3_128bits(key, len);

	return (struct fkv_hash128){ .low = h.low64, .high = h.high64 };
}

uint64_t fkv_hash_bytes(const void *p, size_t len)
{
#if defined(__x86_64__)
	if (len >= 4096 && __builtin_cpu_supports("avx2"))
		return fkv_hash_bytes_avx2(p, len);
#endif
	return XXH3_64bits(p, len);
}

uint64_t fkv_sum_seed(const void *key, size_t key_len, uint64_t put_id,
		      uint64_t len)
{
	uint8_t buf[FKV_KEY_MAX + 16];
	uint64_t id = htole64(put_id), l = htole64(len);

	fkv_assert(key_len <= FKV_KEY_MAX);
	memcpy(buf, key, key_len);
	memcpy(buf + key_len, &id, 8);
	memcpy(buf + key_len + 8, &l, 8);
	return XXH3_64bits(buf, key_len + 16);
}

uint64_t fkv_sum_chunks_final(uint64_t seed, const uint64_t *chunks, size_t n)
{
#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "chunk hashes are hashed in memory order: port this first"
#endif
	return XXH3_64bits_withSeed(chunks, n * sizeof(*chunks), seed);
}

uint64_t fkv_sum_payload(uint64_t seed, const void *p, uint64_t len)
{
	uint64_t chunks[64];
	const uint8_t *b = p;
	XXH3_state_t st;
	size_t n = 0;

	XXH3_INITSTATE(&st);
	XXH3_64bits_reset_withSeed(&st, seed);
	for (uint64_t off = 0; off < len; off += FKV_SUM_CHUNK) {
		uint64_t left = fkv_min_u64(FKV_SUM_CHUNK, len - off);

		chunks[n++] = fkv_hash_bytes(b + off, (size_t)left);
		if (n < FKV_ARRAY_SIZE(chunks))
			continue;
		XXH3_64bits_update(&st, chunks, sizeof(chunks));
		n = 0;
	}
	XXH3_64bits_update(&st, chunks, n * sizeof(chunks[0]));
	return XXH3_64bits_digest(&st);
}
