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
	return w->answered ? w->status : -ENOMEM;
}

struct world_key *world_key(struct world *w, const char *fmt, unsigned int i)
{
	struct world_key *k = &w->key[w->nr_keys];

	fkv_assert(w->nr_keys < WORLD_KEYS);
	snprintf(k->name, sizeof(k->name), fmt, i);
	for (size_t at = 0; at < w->nr_keys; at++)
		if (!strcmp(w->key[at].name, k->name))
			return &w->key[at];
	k->nr_may = 1;
	k->may[0] = 0;
	w->nr_keys++;
	return k;
}

/* ---- what a key may be ---- */

static void is_now(struct world_key *k, uint64_t tag)
{
	k->may[0] = tag;
	k->nr_may = 1;
}

static bool may_be(const struct world_key *k, uint64_t tag)
{
	for (unsigned int i = 0; i < k->nr_may; i++)
		if (k->may[i] == tag)
			return true;
	return false;
}

static void or_now(struct world_key *k, uint64_t tag)
{
	if (may_be(k, tag))
		return;
	fkv_assert(k->nr_may < WORLD_MAY);
	k->may[k->nr_may++] = tag;
}

static void not_now(struct world_key *k, uint64_t tag)
{
	unsigned int n = 0;

	for (unsigned int i = 0; i < k->nr_may; i++)
		if (k->may[i] != tag)
			k->may[n++] = k->may[i];
	k->nr_may = n;
}

/*
 * What could not be written to SSD goes with its memory, and what cannot be
 * read, or is not what was written, is dropped; that is told.
 */
static bool ssd_failed(const struct world *w)
{
	struct fkv_master_stats m;
	struct fkv_owner_stats o;

	fkv_master_get_stats(w->master, &m);
	fkv_owner_get_stats(w->owner, &o);
	return w->cfg.ssd && nth_failures() &&
	       (m.persist_failed || o.persist_failed || o.read_errors ||
		o.sum_errors);
}

static void absent(struct world *w, struct world_key *k, const char *call)
{
	bool lost = !w->cfg.drops && !may_be(k, 0);

	w->nr_lost += lost;
	nth_check(!lost || ssd_failed(w), "%s: %s is not there", call,
		  k->name);
	/* a full device is off at once, and all that is there with it */
	nth_check(nth.what != NTH_ONE || w->nr_lost <= 1 ||
		  w->cfg.fault == WORLD_ENOSPC,
		  "%s: one failure loses %u keys", call, w->nr_lost);
	is_now(k, 0);
}

/* An error that is no plain answer: was there a reason for it? */
static void error(const struct world *w, const char *call, const char *name,
		  int err, uint64_t before)
{
	/* EIO: its SSD copy could not be read, as often as it was tried */
	nth_check((err == -ENOMEM ||
		   (err == -EIO && w->cfg.fault == WORLD_ENOMEM)) &&
		  (nth_failures() > before || w->unknown),
		  "%s of %s returns %d, %lu failures before, %lu since", call,
		  name, err, before, nth_failures() - before);
}

/* One failure is of one key, or of the call as a whole. */
static void only_one(const struct world *w, const char *call, uint32_t errors)
{
	nth_check(nth.what != NTH_ONE || errors <= 1 || w->unknown,
		  "%s: one failure is that of %u keys", call, errors);
}

static void keys(struct ask *a, struct world_key *const *k, uint32_t n)
{
	fkv_assert(n <= WORLD_BATCH);
	a->nr = n;
	for (uint32_t i = 0; i < n; i++)
		a->name[i] = k[i]->name;
}

/* ---- puts ---- */

static void fill(struct world *w, struct world_key *k,
		 const struct fluxonkv_result *r)
{
	uint64_t *to = w->cfg.arena_bytes ? w->arena : w->segment;

	k->put = r->id;
	k->late = false;
	k->tag = ++w->next_tag << 16 | k->pages;
	for (uint64_t i = 0; i < k->pages; i++)
		to[r->offset / PAGE + i] = k->tag;
}

int world_begin(struct world *w, struct world_key *const *k, uint32_t n,
		uint64_t pages)
{
	struct ask a = { .op = FLUXONKV_OP_PUT_BEGIN };
	uint64_t before = nth_failures();
	uint32_t errors = 0;
	int err;

	keys(&a, k, n);
	for (uint32_t i = 0; i < n; i++) {
		k[i]->put = 0;
		k[i]->pages = pages;
		a.item[i].len = pages * PAGE - 7;
	}
	err = run(w, &a);
	if (err)
		error(w, "begin", k[0]->name, err, before);
	for (uint32_t i = 0; !err && i < n; i++) {
		if (!w->res[i].status)
			fill(w, k[i], &w->res[i]);
		else
			error(w, "begin", k[i]->name, w->res[i].status, before);
		errors += w->res[i].status != 0;
	}
	only_one(w, "begin", errors);
	return err;
}

/* Of those of @k that are open; their number. */
static uint32_t open_puts(struct ask *a, struct world_key *const *k, uint32_t n,
		     struct world_key **ret)
{
	for (uint32_t i = 0; i < n; i++) {
		if (!k[i]->put)
			continue;
		ret[a->nr] = k[i];
		a->item[a->nr++].id = k[i]->put;
	}
	return a->nr;
}

/* A commit that nobody read may have left it open. */
static void abort_put(struct world *w, struct world_key *k)
{
	struct ask a = { .op = FLUXONKV_OP_PUT_ABORT };
	struct world_key *open[1];

	open_puts(&a, &k, 1, open);
	if (!run(w, &a) && !w->res[0].status) {
		not_now(k, k->tag);
		k->put = 0;
	}
}

static void committed(struct world *w, struct world_key *k,
		      const struct fluxonkv_result *r, bool hold)
{
	k->put = 0;
	is_now(k, k->tag);
	if (hold)
		w->hold[w->nr_hold++] = r->id;
	nth_check(!hold || r->id, "commit of %s: no holder", k->name);
}

void world_commit(struct world *w, struct world_key *const *k, uint32_t n,
		  uint32_t flags)
{
	struct ask a = { .op = FLUXONKV_OP_PUT_COMMIT };
	struct world_key *open[WORLD_BATCH];
	uint64_t before = nth_failures();
	struct fluxonkv_result res[WORLD_BATCH];
	uint32_t errors = 0;
	int err;

	if (!open_puts(&a, k, n, open))
		return;
	for (uint32_t i = 0; i < a.nr; i++)
		a.item[i].flags = flags;
	err = run(w, &a);
	if (err)
		error(w, "commit", open[0]->name, err, before);
	memcpy(res, w->res, sizeof(res));
	for (uint32_t i = 0; i < a.nr; i++) {
		if (!err && !res[i].status) {
			committed(w, open[i], &res[i], flags);
			continue;
		}
		if (!err && !(open[i]->late && res[i].status == -ETIMEDOUT))
			error(w, "commit", open[i]->name, res[i].status,
			      before);
		errors += !err;
		or_now(open[i], open[i]->tag);
		abort_put(w, open[i]);
	}
	only_one(w, "commit", errors);
}

void world_extend(struct world *w, struct world_key *k)
{
	struct ask a = { .op = FLUXONKV_OP_PUT_EXTEND };
	uint64_t before = nth_failures();
	struct world_key *open[1];
	int err;

	if (!open_puts(&a, &k, 1, open))
		return;
	err = run(w, &a);
	if (!err)
		err = w->res[0].status;
	if (err)
		error(w, "extend", k->name, err, before);
	k->late = err;
}

void world_put(struct world *w, struct world_key *k, uint64_t pages)
{
	world_begin(w, &k, 1, pages);
	world_commit(w, &k, 1, 0);
}

/* ---- gets ---- */

static void got(struct world *w, struct world_key *k,
		const struct fluxonkv_result *r)
{
	uint64_t at = r->offset / PAGE, tag = w->segment[at];
	uint64_t pages = tag & 0xffff;

	nth_check(r->len == pages * PAGE - 7, "get of %s: length %lu",
		  k->name, (uint64_t)r->len);
	for (uint64_t i = 0; i < pages; i++)
		nth_check(w->segment[at + i] == tag,
			  "get of %s: page %lu is another's", k->name, i);
	nth_check(tag && may_be(k, tag), "get of %s: value %lu, not %lu",
		  k->name, tag, k->may[0]);
	is_now(k, tag);
	fkv_assert(w->nr_hold < FKV_ARRAY_SIZE(w->hold));
	w->hold[w->nr_hold++] = r->id;
}

static void get(struct world *w, struct world_key *const *k, uint32_t n,
		uint16_t flags)
{
	struct ask a = { .op = FLUXONKV_OP_GET, .flags = flags };
	uint64_t before = nth_failures();
	uint32_t errors = 0;
	int err;

	keys(&a, k, n);
	err = run(w, &a);
	if (err)
		error(w, "get", k[0]->name, err, before);
	for (uint32_t i = 0; !err && i < n; i++) {
		int status = w->res[i].status;

		if (!status)
			got(w, k[i], &w->res[i]);
		else if (status == -ENOENT)
			absent(w, k[i], "get");
		else
			error(w, "get", k[i]->name, status, before);
		errors += status && status != -ENOENT;
	}
	only_one(w, "get", errors);
}

void world_get(struct world *w, struct world_key *const *k, uint32_t n,
	       bool keep)
{
	get(w, k, n, 0);
	if (!keep)
		world_release(w);
}

void world_get_into(struct world *w, struct world_key *k)
{
	get(w, &k, 1, FLUXONKV_REQ_INTO);
	world_release(w);
}

void world_release(struct world *w)
{
	while (w->nr_hold) {
		struct ask a = { .op = FLUXONKV_OP_RELEASE };
		uint64_t before = nth_failures();
		int err;

		while (a.nr < w->nr_hold && a.nr < WORLD_BATCH) {
			a.item[a.nr].id = w->hold[w->nr_hold - 1 - a.nr];
			a.nr++;
		}
		err = run(w, &a);
		if (err) {
			error(w, "release", "a holder", err, before);
			return;
		}
		for (uint32_t i = 0; i < a.nr; i++)
			nth_check(!w->res[i].status, "release returns %d",
				  w->res[i].status);
		w->nr_hold -= a.nr;
	}
}

/* ---- the rest ---- */

void world_delete(struct world *w, struct world_key *k)
{
	struct ask a = { .op = FLUXONKV_OP_DELETE };
	uint64_t before = nth_failures();
	int err;

	keys(&a, &k, 1);
	err = run(w, &a);
	if (!err)
		err = w->res[0].status;
	if (!err) {
		nth_check(k->nr_may > 1 || k->may[0],
			  "%s, absent, is deleted", k->name);
		is_now(k, 0);
	} else if (err == -ENOENT) {
		absent(w, k, "delete");
	} else {
		error(w, "delete", k->name, err, before);
		or_now(k, 0);
	}
}

void world_stat(struct world *w, struct world_key *k, bool warm)
{
	struct ask a = {
		.op = FLUXONKV_OP_STAT,
		.flags = warm ? FLUXONKV_REQ_WARM : 0,
	};
	uint64_t before = nth_failures();
	int err;

	keys(&a, &k, 1);
	err = run(w, &a);
	if (!err)
		err = w->res[0].status;
	if (err == -ENOENT)
		absent(w, k, "stat");
	else if (err)
		error(w, "stat", k->name, err, before);
	else
		nth_check(k->nr_may > 1 || k->may[0],
			  "stat of %s, which is absent", k->name);
}

/* Keys that are there for sure, and that may be there. */
static void presence(const struct world *w, const char *prefix,
		     uint64_t *ret_least, uint64_t *ret_most)
{
	*ret_least = *ret_most = 0;
	for (size_t i = 0; i < w->nr_keys; i++) {
		const struct world_key *k = &w->key[i];

		if (strncmp(k->name, prefix, strlen(prefix)))
			continue;
		*ret_least += !may_be(k, 0) && !w->cfg.drops;
		*ret_most += k->nr_may > 1 || k->may[0];
	}
}

static void number(struct world *w, struct ask *a, const char *call,
		   uint64_t limit)
{
	uint64_t before = nth_failures(), least, most, n;
	int err = run(w, a);

	if (err) {
		error(w, call, "keys", err, before);
		return;
	}
	presence(w, a->name[0], &least, &most);
	n = a->op == FLUXONKV_OP_LIST ? w->nr_listed : w->arg;
	nth_check(n <= fkv_min_u64(limit, most) &&
		  n >= fkv_min_u64(limit, least),
		  "%s: %lu, not %lu to %lu", call, n, least, most);
}

void world_list(struct world *w, const char *prefix, uint64_t limit)
{
	struct ask a = { .op = FLUXONKV_OP_LIST, .nr = 2, .arg = limit };

	a.name[0] = prefix;
	number(w, &a, "list", limit);
}

void world_count(struct world *w, const char *prefix)
{
	struct ask a = { .op = FLUXONKV_OP_COUNT, .nr = 1 };

	a.name[0] = prefix;
	number(w, &a, "count", UINT64_MAX);
}
