// SPDX-License-Identifier: Apache-2.0
#include "gets.h"

#define STALE		0xa5	/* what is in memory that was used before */

#define shim_eq(a, b)	shim_assert((long)(a) == (long)(b))

struct fake world;

/* ---- requests ---- */

/* Of each thread its own. */
__thread struct rq rq;
__thread struct fluxonkv_result rq_res[FLUXONKV_BATCH_MAX];
__thread struct fluxonkv_rep rq_rep;

void rq_begin(u32 item_size)
{
	memset(&rq, 0, rq.size);
	rq.size = sizeof(struct fluxonkv_req);
	rq.nr = 0;
	rq.item_size = item_size;
}

/* An item, for which the caller may spoil what it returns. */
struct fluxonkv_item *rq_add(const char *key, u32 len)
{
	struct fluxonkv_item *item = (void *)((u8 *)rq.body + rq.size);

	item->key_len = len;
	memcpy((u8 *)item + rq.item_size, key, len);
	rq.size += rq.item_size + ((len + 7) & ~7u);
	rq.nr++;
	shim_assert(rq.size <= sizeof(rq.body));
	return item;
}

void rq_add_wrong(u32 how)
{
	static char key[FLUXONKV_KEY_MAX + 1];

	if (how == BAD_PADDING)
		((u8 *)rq_add("k00", 3))[rq.item_size + 3] = 1;
	else if (how == NO_KEY)
		rq_add("", 0);
	else if (how == LONG_KEY)
		rq_add(key, sizeof(key));
	else
		rq_add("k00", 3)->id = 1;
}

int rq_wrong_status(u32 how)
{
	return how == LONG_KEY ? -E2BIG : -EINVAL;
}

void rq_name(char *to, u32 i)
{
	snprintf(to, 8, "k%02u", i % 100);
}

void rq_add_key(u32 i)
{
	char key[8];

	rq_name(key, i);
	rq_add(key, 3);
}

void rq_open(u32 i, struct fkv_work *w)
{
	struct fluxonkv_req req = {
		.size = sizeof(req), .op = FLUXONKV_OP_GET, .nr = rq.nr,
		.item_size = rq.item_size,
	};

	memcpy(rq.body, &req, sizeof(req));
	*w = (struct fkv_work){ .s = &world.sessions[i], .rep = &rq_rep,
				.res = rq_res };
	shim_assert(!fkv_body_open(rq.body, rq.size, &w->req, &w->items));
	memset(rq_res, STALE, rq.nr * sizeof(rq_res[0]));
}

int rq_hits(u32 i, struct fkv_work *w)
{
	rq_open(i, w);
	return fkv_hits(w);
}

/* ---- what is held ---- */

void rq_up(void)
{
	shim_eq(fake_up(&world), 0);
	/* key i has i % 4 pages; each has four of the segment */
	for (u32 i = 0; i < RQ_KEYS; i++) {
		char key[8];

		rq_name(key, i);
		shim_eq(fake_publish(&world, key, i + 1, i * 4, i % 4),
				 0);
	}
}

void rq_down(void)
{
	shim_alloc_fail = NULL;
	shim_boottime = NULL;
	shim_tracing = false;
	fake_down(&world);
}

u64 pinned_pages(u32 i)
{
	return (u64)atomic64_read(&world.sessions[i].pinned) / PAGE_SIZE;
}

u64 held_pages(void)
{
	return (u64)atomic64_read(&world.inst.held_bytes) / PAGE_SIZE;
}

u32 nr_holders(u32 i)
{
	return world.sessions[i].holders.nr;
}

/* Everything that rq_res tell of is given back, and then all is as before. */
void release_all(u32 i, u32 nr)
{
	u32 ended = 0;

	for (u32 k = 0; k < nr; k++)
		if (!rq_res[k].status)
			ended += fkv_holder_del(&world.sessions[i],
						&rq_res[k].id, 1);
	shim_eq(nr_holders(i), 0);
	shim_eq(pinned_pages(i), 0);
	shim_eq(atomic64_read(&world.uid.pinned), 0);
	shim_eq(atomic64_read(&world.inst.held_bytes), 0);
	shim_assert(ended <= nr);
}

void expect_hit(u32 at, u32 key)
{
	const struct fluxonkv_result *res = &rq_res[at];

	shim_eq(res->status, 0);
	shim_eq(res->source, FLUXONKV_SOURCE_LOCAL);
	shim_eq(res->version, key + 1);
	shim_eq(res->offset, key * 4 * PAGE_SIZE);
	shim_eq(res->len, key % 4 * PAGE_SIZE);
	shim_assert(res->id);
}

void expect_status(u32 at, int status)
{
	const struct fluxonkv_result want = { .status = status };

	shim_eq(rq_res[at].status, status);
	/* nothing of what was there before */
	shim_assert(!memcmp(&rq_res[at], &want, sizeof(want)));
}
/* ---- memory that fails ---- */

u32 rq_asked_memory;

bool rq_no_memory(void)
{
	rq_asked_memory++;
	return true;
}

/* ---- the daemon ---- */

struct rq_daemon rq_daemon;

static struct fkv_part parts[FLUXONKV_BATCH_MAX];

int fkv_work_parts(struct fkv_work *w)
{
	memset(parts, 0, sizeof(parts));
	w->parts = rq_daemon.no_parts ? NULL : parts;
	return w->parts ? 0 : -ENOMEM;
}

bool fkv_choose_asked(struct fkv_work *w, u32 i, struct fluxonkv_item *it)
{
	return w->res[i].status == FKV_ASK;
}

int fkv_ask(struct fkv_work *w, u16 op, fkv_choose_fn choose)
{
	shim_eq(op, FLUXONKV_OP_GET);
	for (u32 i = 0; i < w->req.nr; i++)
		rq_daemon.nr_asked += choose(w, i, NULL);
	w->asked = rq_daemon.req;
	if (rq_daemon.other_takes_slot)
		fake_hold(&world, 0, "k04", NULL);
	return rq_daemon.err;
}

void fkv_ask_failed(struct fkv_work *w, int err)
{
	for (u32 i = 0; i < w->req.nr; i++)
		if (w->res[i].status == FKV_ASK)
			w->res[i].status = err;
}

int fkv_answered(const struct fkv_request *req, u32 j)
{
	return req->given[j].res.status;
}

/* Of other calls than GET. */
void fkv_put_put(struct fkv_put *put)
{
	shim_assert(!put);
}

void fkv_call_put_unbegin(struct fkv_work *w)
{
	shim_assert(!w);
}
