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

static const struct fkv_member *ssd_member(const struct fkv_master *m,
					   const struct fkv_ssd *d)
{
	return m->member[d->member];
}

static uint32_t where(const struct fkv_master *m, const struct fkv_route *r)
{
	uint32_t bits = 0;

	for (const struct fkv_extent *x = r->memory; x; x = x->next)
		if (fkv_member_live(fkv_member_of(x)))
			bits |= FLUXONKV_IN_MEMORY;
	for (const struct fkv_ssd *d = r->ssd; d; d = d->next)
		if (fkv_member_live(ssd_member(m, d)))
			bits |= FLUXONKV_ON_SSD;
	return bits;
}

bool fkv_route_present(const struct fkv_master *m, const struct fkv_route *r)
{
	return r->put_id && (!m->tombed || where(m, r));
}

struct fkv_extent *fkv_route_memory(const struct fkv_route *r,
				    const struct fkv_member *mb)
{
	struct fkv_extent *x = r->memory;

	while (x && x->space != &mb->space)
		x = x->next;
	return x;
}

struct fkv_ssd *fkv_route_ssd(const struct fkv_route *r,
			      const struct fkv_member *mb)
{
	struct fkv_ssd *d = r->ssd;

	while (d && d->member != mb->index)
		d = d->next;
	return d;
}

unsigned int fkv_route_count(const struct fkv_master *m,
			     const struct fkv_route *r)
{
	if (!r->count.f)
		return 0;
	return fkv_lfu_count_f(&m->member[r->counted]->space.lfu, r->count);
}

/* The version is gone when its last replica is (D2). */
static void version_gc(struct fkv_master *m, struct fkv_route *r)
{
	if (r->memory || r->ssd)
		return;
	if (r->put_id)
		m->stats.keys--;
	if (r->count.f)
		fkv_lfu_ghost_put(&m->member[r->counted]->space.lfu,
				  r->key->hash.low, r->count);
	memset(&r->count, 0, sizeof(r->count));
	r->put_id = 0;
	r->len = 0;
	r->persist = false;
}

static void set_unbacked(struct fkv_route *r)
{
	for (struct fkv_extent *x = r->memory; x; x = x->next)
		x->unbacked = r->persist && !r->ssd;
}

static void unlink_ssd(struct fkv_master *m, struct fkv_ssd *d)
{
	struct fkv_member *mb = m->member[d->member];
	struct fkv_route *r = d->route;
	struct fkv_ssd **at = &r->ssd;

	while (*at != d)
		at = &(*at)->next;
	*at = d->next;
	TAILQ_REMOVE(&mb->shards[d->shard].replicas, d, link);
	mb->keys--;
	if (d == &r->own)
		d->used = false;
	else
		fkv_free(d);
	if (r->ssd)
		return;
	m->stats.keys_ssd--;
	set_unbacked(r);
}

void fkv_route_drop_ssd(struct fkv_master *m, struct fkv_ssd *d)
{
	struct fkv_route *r = d->route;

	unlink_ssd(m, d);
	version_gc(m, r);
}

static struct fkv_ssd *ssd_create(struct fkv_route *r)
{
	struct fkv_ssd *d = &r->own;

	if (d->used)
		d = fkv_zalloc(sizeof(*d));
	if (d)
		d->used = true;
	return d;
}

/* seqs mostly come in order: look for the place from the end */
int fkv_route_add_ssd(struct fkv_master *m, struct fkv_route *r,
		      struct fkv_member *mb, uint32_t shard, uint64_t seq)
{
	struct fkv_ssds *list = &mb->shards[shard].replicas;
	struct fkv_ssd *d = fkv_route_ssd(r, mb), *at;

	if (d)
		unlink_ssd(m, d);
	d = ssd_create(r);
	if (!d)
		return -ENOMEM;
	d->route = r;
	d->member = (uint16_t)mb->index;
	d->shard = shard;
	d->seq = seq;
	m->stats.keys_ssd += !r->ssd;
	mb->keys++;
	d->next = r->ssd;
	r->ssd = d;
	set_unbacked(r);
	TAILQ_FOREACH_REVERSE(at, list, fkv_ssds, link)
		if (at->seq < seq)
			break;
	if (at)
		TAILQ_INSERT_AFTER(list, at, d, link);
	else
		TAILQ_INSERT_HEAD(list, d, link);
	return 0;
}

static void unlink_memory(struct fkv_master *m, struct fkv_extent *x)
{
	struct fkv_route *r = x->route;
	struct fkv_extent **at = &r->memory;

	while (*at != x)
		at = &(*at)->next;
	*at = x->next;
	x->next = NULL;
	x->route = NULL;
	m->stats.keys_memory -= !r->memory;
	fkv_member_of(x)->keys--;
	fkv_master_detach(m, x);
}

void fkv_route_drop_memory(struct fkv_master *m, struct fkv_extent *x)
{
	struct fkv_route *r = x->route;

	unlink_memory(m, x);
	version_gc(m, r);
}

/* No version any more: overwritten or deleted. */
void fkv_route_clear(struct fkv_master *m, struct fkv_route *r)
{
	while (r->ssd)
		unlink_ssd(m, r->ssd);
	while (r->memory)
		unlink_memory(m, r->memory);
	version_gc(m, r);
}

void fkv_route_set_memory(struct fkv_master *m, struct fkv_route *r,
			  struct fkv_extent *x, unsigned int f)
{
	fkv_assert(!fkv_route_memory(r, fkv_member_of(x)) && !x->route);
	m->stats.keys_memory += !r->memory;
	fkv_member_of(x)->keys++;
	x->next = r->memory;
	r->memory = x;
	x->route = r;
	fkv_extent_set_cause(x, FKV_CAUSE_NONE);
	fkv_extent_enter(x, f, r->key->hash.low);
}

void fkv_master_stat(struct fkv_master *m, struct fkv_msg *msg,
		     struct fkv_out *out)
{
	struct fkv_route *r = fkv_route_find(m, msg->key);
	struct fkv_msg *ans = fkv_out_send(out, FKV_MSG_STAT_R);

	ans->op = msg->op;
	ans->peer = msg->peer;
	ans->res = -ENOENT;
	if (!r || !fkv_route_present(m, r))
		return;
	ans->res = 0;
	ans->len = r->len;
	ans->put_id = r->put_id;
	ans->source = where(m, r);
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

static struct fkv_route *next_with(const struct fkv_master *m,
				   struct fkv_route *r,
				   const struct fkv_key *prefix)
{
	while (r && has_prefix(r->key, prefix) && !fkv_route_present(m, r))
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
	return next_with(m, r, msg->key);
}

void fkv_master_list(struct fkv_master *m, struct fkv_msg *msg,
		     struct fkv_out *out)
{
	struct fkv_msg *ans = fkv_out_send(out, FKV_MSG_LIST_R);
	struct fkv_listing *l;
	struct fkv_route *r;

	ans->op = msg->op;
	ans->peer = msg->peer;
	l = fkv_zalloc(sizeof(*l) + msg->n * sizeof(l->at[0]));
	if (!l) {
		ans->res = -ENOMEM;
		return;
	}
	for (r = list_start(m, msg); r && l->n < msg->n;
	     r = next_with(m, RB_NEXT(fkv_route_tree, NULL, r), msg->key)) {
		struct fkv_listed *at = &l->at[l->n++];

		at->key = fkv_key_get(r->key);
		at->len = r->len;
		at->put_id = r->put_id;
		at->where = where(m, r);
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
	ans->peer = msg->peer;
	if (!msg->key && !m->tombed) {
		ans->n = m->stats.keys;
		return;
	}
	for (r = next_with(m, first_from(m, msg->key), msg->key); r;
	     r = next_with(m, RB_NEXT(fkv_route_tree, NULL, r), msg->key))
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
		.ssd = r->ssd != NULL,
		.pending = x && x->persisting,
		.unbacked = x && x->unbacked,
		.frequency = x ? fkv_lfu_f(&x->space->lfu, &x->lfu) :
			fkv_route_count(m, r),
		.refs = x ? x->refs : 0,
	};
}

bool fkv_master_route_at(const struct fkv_master *m, const struct fkv_key *key,
			 struct fkv_route_info *ret)
{
	struct fkv_route *r = fkv_route_find(m, key);

	if (!r || !fkv_route_present(m, r))
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
	r = next_with(m, r, NULL);
	if (!r)
		return false;
	route_info(m, r, ret);
	return true;
}
