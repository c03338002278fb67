// SPDX-License-Identifier: Apache-2.0
/*
 * calls.c - calls of a client of the world, and what they may return
 *
 * Without a failure a call does what it should. In a call that met one, ENOMEM
 * is right; in those after it only what follows from that (a key is not there
 * because its put failed).
 */
#include <stdio.h>

#include "nth.h"
#include "world.h"

#define PAGE	FKV_EXTENT_UNIT
#define TIMEOUT	(2 * FKV_SEC)

struct ask {
	uint16_t op, flags;
	uint32_t nr;
	uint64_t arg;
	struct fkv_item item[WORLD_BATCH];
	const char *name[WORLD_BATCH];
};

static uint8_t *encode_item(uint8_t *p, const struct ask *a, uint32_t i)
{
	const char *name = a->name[i] ? a->name[i] : "";
	struct fluxonkv_item it = {
		.key_len = (uint32_t)strlen(name),
		.flags = a->item[i].flags,
		.len = a->item[i].len,
		.id = a->item[i].id,
	};

	memcpy(p, &it, sizeof(it));
	memset(p + sizeof(it), 0, fkv_align_up(it.key_len, 8));
	memcpy(p + sizeof(it), name, it.key_len);
	return p + sizeof(it) + fkv_align_up(it.key_len, 8);
}

static struct fkv_call *decode(const struct ask *a, int *ret_err)
{
	static uint8_t body[65536];
	struct fluxonkv_req req = {
		.size = sizeof(req), .op = a->op, .flags = a->flags,
		.nr = a->nr, .item_size = sizeof(struct fluxonkv_item),
		.timeout_ns = TIMEOUT, .arg = a->arg,
	};
	struct fkv_call *call = NULL;
	uint8_t *p = body + sizeof(req);
	const char *why;

	memcpy(body, &req, sizeof(req));
	for (uint32_t i = 0; i < a->nr; i++)
		p = encode_item(p, a, i);
	nth_arm();
	*ret_err = fkv_call_decode(body, (size_t)(p - body), &call, &why);
	nth_disarm();
	return call;
}

/* Its status as a whole; those of items are in w->res. */
static int run(struct world *w, const struct ask *a)
{
	struct fkv_owner_stats st;
	struct fkv_call *call;
	int err;

	w->answered = false;
	w->status = 0;
	w->arg = 0;
	memset(w->res, 0, sizeof(w->res));
	call = decode(a, &err);
	if (!call)
		return err;
	call->client = w->client;
	call->id = 1;
	world_feed(w, &(struct fkv_in){ .type = FKV_IN_CALL, .call = call });
	if (!w->answered)
		world_settle(w, TIMEOUT + 100 * FKV_MS);
	nth_check(w->answered, "op %u is not answered by its deadline", a->op);
	fkv_owner_get_stats(w->owner, &st);
	return w->answered ? w->status : -ENOMEM;
}
