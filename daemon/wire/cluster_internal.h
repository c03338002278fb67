/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cluster_internal.h - between the files that encode and decode
 *
 * A pool is the memory of one message in protobuf's form: it is given out in
 * pieces and freed as a whole. It has a limit, because two bytes of a hostile
 * message can ask for a hundred.
 */
#ifndef FKV_WIRE_CLUSTER_INTERNAL_H
#define FKV_WIRE_CLUSTER_INTERNAL_H

#include "wire/cluster.h"
#include "wire/cluster.pb-c.h"

struct fkv_pool {
	struct fkv_pool_chunk *chunks;
	uint8_t *at;
	size_t left;
	size_t used;
	size_t limit;
	bool over;		/* more than the limit was asked for */
	bool failed;		/* there was no memory */
};

struct fkv_pool *fkv_pool_create(size_t limit);
void *fkv_pool_alloc(struct fkv_pool *pool, size_t size);
void fkv_pool_free(struct fkv_pool *pool);

/* -errno with a sentence, for one return. */
static inline int fkv_wrong(const char **why, int err, const char *text)
{
	*why = text;
	return err;
}

/* cluster_core.c: the messages of a batch */
int fkv_batch_check(const struct fkv_cluster_batch *b, const char **why);
Fkv__Pb__Batch *fkv_batch_encode(const struct fkv_cluster_batch *b,
				 uint64_t now_ns, struct fkv_pool *pool);
int fkv_batch_decode(const Fkv__Pb__Batch *pb, uint64_t now_ns,
		     struct fkv_pool *pool, struct fkv_cluster_batch *ret,
		     const char **why);

uint64_t fkv_timeout_of(uint64_t deadline_ns, uint64_t now_ns);
uint64_t fkv_deadline_of(uint64_t timeout_ns, uint64_t now_ns);

/* A key's bytes: @ret is NULL for none. 0, -E2BIG or -ENOMEM. */
int fkv_key_decode(const ProtobufCBinaryData *pb, struct fkv_key **ret,
		   const char **why);
void fkv_key_encode(const struct fkv_key *key, ProtobufCBinaryData *pb);

static inline bool fkv_res_ok(int32_t res)
{
	return res <= 0 && res >= -4095;
}

#endif
