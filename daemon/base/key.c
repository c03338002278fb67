// SPDX-License-Identifier: Apache-2.0
#include "key.h"

struct fkv_key *fkv_key_create(const void *data, size_t len)
{
	struct fkv_key *key;

	fkv_assert(len >= 1 && len <= FKV_KEY_MAX);
	key = fkv_zalloc(sizeof(*key) + len);
	if (!key)
		return NULL;
	key->refs = 1;
	key->len = (uint32_t)len;
	key->hash = fkv_hash_key(data, len);
	memcpy(key->data, data, len);
	return key;
}

struct fkv_key *fkv_key_get(struct fkv_key *key)
{
	fkv_assert(key->refs > 0 && key->refs < UINT32_MAX);
	key->refs++;
	return key;
}

void fkv_key_put(struct fkv_key *key)
{
	if (!key)
		return;
	fkv_assert(key->refs > 0);
	if (--key->refs == 0)
		fkv_free(key);
}

int fkv_key_cmp(const struct fkv_key *a, const struct fkv_key *b)
{
	size_t n = a->len < b->len ? a->len : b->len;
	int c = memcmp(a->data, b->data, n);

	if (c)
		return c;
	return (a->len > b->len) - (a->len < b->len);
}
