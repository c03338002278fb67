// SPDX-License-Identifier: Apache-2.0
#include "core/master/internal.h"

static int order_cmp(struct fkv_route *a, struct fkv_route *b)
{
	return fkv_key_cmp(a->key, b->key);
}

FKV_RB_GENERATE(fkv_route_tree, fkv_route, order, order_cmp)

struct fkv_route *fkv_route_find(const struct fkv_master *m,
				 const struct fkv_key *key)
{
	struct fkv_node *n;

	for (n = fkv_table_first(&m->routes, key->hash.low); n;
	     n = fkv_table_next(n)) {
		struct fkv_route *r;

		r = fkv_container_of(n, struct fkv_route, node);
		if (fkv_key_equal(r->key, key))
			return r;
	}
	return NULL;
}

/* The key's route, made when there is none; NULL without memory. */
struct fkv_route *fkv_route_get(struct fkv_master *m, struct fkv_key *key)
{
	struct fkv_route *r = fkv_route_find(m, key);

	if (r)
		return r;
	r = fkv_zalloc(sizeof(*r));
	if (!r)
		return NULL;
	r->key = fkv_key_get(key);
	TAILQ_INIT(&r->changes);
	fkv_table_add(&m->routes, &r->node, key->hash.low);
	RB_INSERT(fkv_route_tree, &m->order, r);
	return r;
}

/* Free a route that nobody needs. */
void fkv_route_gc(struct fkv_master *m, struct fkv_route *r)
{
	if (r->put_id || r->puts || r->changing || !TAILQ_EMPTY(&r->changes))
		return;
	fkv_assert(!r->memory && !r->ssd);
	fkv_table_del(&m->routes, &r->node);
	RB_REMOVE(fkv_route_tree, &m->order, r);
	fkv_key_put(r->key);
	fkv_free(r);
}

/* The version is gone when its last replica is (D2). */
static void version_gc(struct fkv_master *m, struct fkv_route *r)
{
	if (r->memory || r->ssd)
		return;
	if (r->put_id)
		m->stats.keys--;
	if (r->count.f)
		fkv_lfu_ghost_put(&m->space.lfu, r->key->hash.low, r->count);
	memset(&r->count, 0, sizeof(r->count));
	r->put_id = 0;
	r->len = 0;
	r->persist = false;
}

static void unlink_ssd(struct fkv_master *m, struct fkv_route *r)
{
	if (!r->ssd)
		return;
	TAILQ_REMOVE(&m->shards[r->shard].routes, r, shard_link);
	r->ssd = false;
	m->stats.keys_ssd--;
	if (r->memory)
		r->memory->unbacked = r->persist;
}

void fkv_route_drop_ssd(struct fkv_master *m, struct fkv_route *r)
{
	unlink_ssd(m, r);
	version_gc(m, r);
}

/* seqs mostly come in order: look for the place from the end */
void fkv_route_add_ssd(struct fkv_master *m, struct fkv_route *r,
		       uint32_t shard, uint64_t seq)
{
	struct fkv_routes *list = &m->shards[shard].routes;
	struct fkv_route *at;

	unlink_ssd(m, r);
	r->ssd = true;
	r->shard = shard;
	r->seq = seq;
	m->stats.keys_ssd++;
	if (r->memory)
		r->memory->unbacked = false;
	TAILQ_FOREACH_REVERSE(at, list, fkv_routes, shard_link)
		if (at->seq < seq)
			break;
	if (at)
		TAILQ_INSERT_AFTER(list, at, r, shard_link);
	else
		TAILQ_INSERT_HEAD(list, r, shard_link);
}

static void unlink_memory(struct fkv_master *m, struct fkv_route *r)
{
	struct fkv_extent *x = r->memory;

	if (!x)
		return;
	r->memory = NULL;
	x->route = NULL;
	m->stats.keys_memory--;
	fkv_master_detach(m, x);
}

void fkv_route_drop_memory(struct fkv_master *m, struct fkv_route *r)
{
	unlink_memory(m, r);
	version_gc(m, r);
}

/* No version any more: overwritten or deleted. */
void fkv_route_clear(struct fkv_master *m, struct fkv_route *r)
{
	unlink_ssd(m, r);
	unlink_memory(m, r);
	version_gc(m, r);
}

void fkv_route_set_memory(struct fkv_master *m, struct fkv_route *r,
			  struct fkv_extent *x, unsigned int f)
{
	fkv_assert(!r->memory && !x->route);
	r->memory = x;
	x->route = r;
	m->stats.keys_memory++;
	fkv_extent_set_cause(x, FKV_CAUSE_NONE);
	fkv_extent_enter(x, f, r->key->hash.low);
}

static uint32_t where(const struct fkv_route *r)
{
	return (r->memory ? FLUXONKV_IN_MEMORY : 0) |
	       (r->ssd ? FLUXONKV_ON_SSD : 0);
}

void fkv_master_stat(struct fkv_master *m, struct fkv_msg *msg,
		     struct fkv_out *out)
{
	struct fkv_route *r = fkv_route_find(m, msg->key);
	struct fkv_msg *ans = fkv_out_send(out, FKV_MSG_STAT_R);

	ans->op = msg->op;
	ans->res = -ENOENT;
	if (!r || !r->put_id)
		return;
	ans->res = 0;
	ans->len = r->len;
	ans->put_id = r->put_id;
	ans->source = where(r);
}

static bool has_prefix(const struct fkv_key *key, const struct fkv_key *prefix)
{
	return !prefix || (key->len >= prefix->len &&
			   !memcmp(key->data, prefix->data, prefix->len));
}

/* First route at or behind @key in byte order; NULL key: the first of all. */
static struct fkv_route *first_from(const struct fkv_master *m,
				    struct fkv_key *key)
{
	struct fkv_route_tree *order = (struct fkv_route_tree *)&m->order;
	struct fkv_route probe = { .key = key };

	if (!key)
		return RB_MIN(fkv_route_tree, order);
	return RB_NFIND(fkv_route_tree, order, &probe);
}

static struct fkv_route *next_with(struct fkv_route *r,
				   const struct fkv_key *prefix)
{
	while (r && has_prefix(r->key, prefix) && !r->put_id)
		r = RB_NEXT(fkv_route_tree, NULL, r);
	return r && has_prefix(r->key, prefix) ? r : NULL;
}

static struct fkv_route *list_start(struct fkv_master *m, struct fkv_msg *msg)
{
	struct fkv_key *from = msg->key;
	struct fkv_route *r;

	if (msg->key2 && (!from || fkv_key_cmp(msg->key2, from) >= 0))
		from = msg->key2;
	r = first_from(m, from);
	if (r && msg->key2 && fkv_key_equal(r->key, msg->key2))
		r = RB_NEXT(fkv_route_tree, NULL, r);
	return next_with(r, msg->key);
}

void fkv_master_list(struct fkv_master *m, struct fkv_msg *msg,
		     struct fkv_out *out)
{
	struct fkv_msg *ans = fkv_out_send(out, FKV_MSG_LIST_R);
	struct fkv_listing *l;
	struct fkv_route *r;

	ans->op = msg->op;
	l = fkv_zalloc(sizeof(*l) + msg->n * sizeof(l->at[0]));
	if (!l) {
		ans->res = -ENOMEM;
		return;
	}
	for (r = list_start(m, msg); r && l->n < msg->n;
	     r = next_with(RB_NEXT(fkv_route_tree, NULL, r), msg->key)) {
		struct fkv_listed *at = &l->at[l->n++];

		at->key = fkv_key_get(r->key);
		at->len = r->len;
		at->put_id = r->put_id;
		at->where = where(r);
	}
	l->more = r != NULL;
	ans->listing = l;
}

void fkv_master_count(struct fkv_master *m, struct fkv_msg *msg,
		      struct fkv_out *out)
{
	struct fkv_msg *ans = fkv_out_send(out, FKV_MSG_COUNT_R);
	struct fkv_route *r;

	ans->op = msg->op;
	if (!msg->key) {
		ans->n = m->stats.keys;
		return;
	}
	for (r = next_with(first_from(m, msg->key), msg->key); r;
	     r = next_with(RB_NEXT(fkv_route_tree, NULL, r), msg->key))
		ans->n++;
}

static void route_info(const struct fkv_master *m, const struct fkv_route *r,
		       struct fkv_route_info *ret)
{
	const struct fkv_extent *x = r->memory;

	*ret = (struct fkv_route_info){
		.key = r->key,
		.put_id = r->put_id,
		.len = r->len,
		.offset = x ? x->offset : 0,
		.memory = x != NULL,
		.ssd = r->ssd,
		.pending = x && x->persisting,
		.unbacked = x && x->unbacked,
		.frequency = x ? fkv_lfu_f(&m->space.lfu, &x->lfu) :
			fkv_lfu_count_f(&m->space.lfu, r->count),
		.refs = x ? x->refs : 0,
	};
}

bool fkv_master_route_at(const struct fkv_master *m, const struct fkv_key *key,
			 struct fkv_route_info *ret)
{
	struct fkv_route *r = fkv_route_find(m, key);

	if (!r || !r->put_id)
		return false;
	route_info(m, r, ret);
	return true;
}

bool fkv_master_route_after(const struct fkv_master *m,
			    const struct fkv_key *cursor,
			    struct fkv_route_info *ret)
{
	struct fkv_route *r = first_from(m, (struct fkv_key *)cursor);

	if (r && cursor && fkv_key_equal(r->key, cursor))
		r = RB_NEXT(fkv_route_tree, NULL, r);
	r = next_with(r, NULL);
	if (!r)
		return false;
	route_info(m, r, ret);
	return true;
}
