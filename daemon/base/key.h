/* SPDX-License-Identifier: Apache-2.0 */
/*
 * key.h - one key, shared by everyone in a core who names it
 *
 * Born: fkv_key_create(), from bytes of a request.
 * Held by: routes, operations, index entries, ring entries, messages.
 * Dies: with the last fkv_key_put().
 * Last put: any context of the loop thread; counts are not atomic.
 * Afterwards: nothing may be read.
 *
 * A key never changes; its hash is computed once. Other threads get copies.
 */
#ifndef FKV_BASE_KEY_H
#define FKV_BASE_KEY_H

#include "base.h"
#include "hash.h"

struct fkv_key {
	uint32_t refs;
	uint32_t len;
	struct fkv_hash128 hash;
	uint8_t data[];
};

/* A new key with one reference, or NULL without memory. 1..512 bytes. */
struct fkv_key *fkv_key_create(const void *data, size_t len);
struct fkv_key *fkv_key_get(struct fkv_key *key);
void fkv_key_put(struct fkv_key *key);

static inline bool fkv_key_equal(const struct fkv_key *a,
				 const struct fkv_key *b)
{
	return a == b || (a->len == b->len && a->hash.low == b->hash.low &&
			  !memcmp(a->data, b->data, a->len));
}

/* memcmp order, a prefix before its extensions */
int fkv_key_cmp(const struct fkv_key *a, const struct fkv_key *b);

#endif
