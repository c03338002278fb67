// SPDX-License-Identifier: Apache-2.0
#include "base/base.h"
#include "io/gateway.h"
#include "svc/inbox.h"

void fkv_inbox_init(struct fkv_inbox *in)
{
	*in = (struct fkv_inbox){ .at = NULL };
	pthread_mutex_init(&in->lock, NULL);
}

void fkv_inbox_done(struct fkv_inbox *in)
{
	for (size_t i = 0; i < in->n; i++)
		fkv_arena_put(in->at[i].arena);
	fkv_free(in->at);
	pthread_mutex_destroy(&in->lock);
}

void fkv_inbox_post(struct fkv_inbox *in, const struct fkv_result *r)
{
	pthread_mutex_lock(&in->lock);
	if (in->n == in->room) {
		size_t room = in->room ? 2 * in->room : 256;
		void *p = fkv_realloc(in->at, room * sizeof(*in->at));

		/* a lost result would hold memory for ever */
		fkv_assert(p);
		in->at = p;
		in->room = room;
	}
	in->at[in->n++] = *r;
	pthread_mutex_unlock(&in->lock);
}

struct fkv_result *fkv_inbox_take(struct fkv_inbox *in, size_t *ret_n)
{
	struct fkv_result *at;

	pthread_mutex_lock(&in->lock);
	at = in->at;
	*ret_n = in->n;
	in->at = NULL;
	in->n = in->room = 0;
	pthread_mutex_unlock(&in->lock);
	return at;
}
