/* SPDX-License-Identifier: Apache-2.0 */
/*
 * inbox.h - results of other threads on their way to the loop
 *
 * Any thread posts, the loop takes all at once. It does not wake the loop.
 */
#ifndef FKV_SVC_INBOX_H
#define FKV_SVC_INBOX_H

#include <pthread.h>

#include "core/owner/owner.h"

struct fkv_arena;

/* A result from another thread, on its way to the loop. */
struct fkv_result {
	enum fkv_in_type type;
	int res;
	uint64_t token;
	uint64_t sum;
	uint64_t ns;
	bool write;
	struct fkv_arena *arena;	/* NULL, or its reference */
};

struct fkv_inbox {
	pthread_mutex_t lock;		/* all of it */
	struct fkv_result *at;
	size_t n, room;
};

void fkv_inbox_init(struct fkv_inbox *in);
void fkv_inbox_done(struct fkv_inbox *in);	/* nobody posts any more */
void fkv_inbox_post(struct fkv_inbox *in, const struct fkv_result *r);

/* All results, to be freed with fkv_free(), or NULL: none. */
struct fkv_result *fkv_inbox_take(struct fkv_inbox *in, size_t *ret_n);

#endif
