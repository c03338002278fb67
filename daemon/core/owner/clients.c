// SPDX-License-Identifier: Apache-2.0
/*
 * clients.c - connections, what they hold, and their caps (H2, H4)
 */
#include "core/owner/internal.h"

struct fkv_client *fkv_client_find(const struct fkv_owner *o, uint64_t id)
{
	struct fkv_node *n = fkv_table_first(&o->clients, id);

	return n ? fkv_container_of(n, struct fkv_client, node) : NULL;
}

static struct fkv_uid *uid_get(struct fkv_owner *o, uint32_t uid)
{
	struct fkv_node *n = fkv_table_first(&o->uids, uid);
	struct fkv_uid *u;

	if (n) {
		u = fkv_container_of(n, struct fkv_uid, node);
	} else {
		u = fkv_zalloc(sizeof(*u));
		if (!u)
			return NULL;
		u->uid = uid;
		fkv_table_add(&o->uids, &u->node, uid);
	}
	u->clients++;
	return u;
}

static void uid_put(struct fkv_owner *o, struct fkv_uid *u)
{
	if (--u->clients)
		return;
	fkv_table_del(&o->uids, &u->node);
	fkv_free(u);
}

/* Without memory the client is unknown, and its calls answer ENOMEM. */
void fkv_client_up(struct fkv_owner *o, const struct fkv_in *in)
{
	struct fkv_client *c = fkv_zalloc(sizeof(*c));

	if (!c)
		return;
	if (fkv_table_init(&c->holders))
		goto err_client;
	c->uid = uid_get(o, in->uid);
	if (!c->uid)
		goto err_holders;
	c->id = in->client;
	c->arena_bytes = in->n;
	if (c->arena_bytes && fkv_extents_init(&c->arena, c->arena_bytes))
		goto err_uid;
	c->next_holder = 1;
	TAILQ_INIT(&c->calls);
	TAILQ_INIT(&c->puts);
	fkv_table_add(&o->clients, &c->node, c->id);
	return;

err_uid:
	uid_put(o, c->uid);
err_holders:
	fkv_table_done(&c->holders);
err_client:
	fkv_free(c);
}

static bool over(uint64_t have, uint64_t more, uint64_t cap)
{
	return cap && (more > cap || have > cap - more);
}

int fkv_client_charge(struct fkv_owner *o, struct fkv_client *c, uint64_t len)
{
	uint64_t bytes = fkv_extent_bytes(len);

	if (over(c->pinned_bytes + c->shared_bytes, bytes,
		 o->cfg.client_cap) ||
	    over(c->uid->pinned_bytes + c->uid->shared_bytes, bytes,
		 o->cfg.uid_cap)) {
		o->stats.quota_refused++;
		return -EDQUOT;
	}
	c->pinned_bytes += bytes;
	c->uid->pinned_bytes += bytes;
	o->stats.pinned_bytes += bytes;
	return 0;
}

void fkv_client_uncharge(struct fkv_owner *o, struct fkv_client *c,
			 uint64_t len)
{
	uint64_t bytes = fkv_extent_bytes(len);

	fkv_assert(c->pinned_bytes >= bytes);
	c->pinned_bytes -= bytes;
	c->uid->pinned_bytes -= bytes;
	o->stats.pinned_bytes -= bytes;
}

uint64_t fkv_owner_client_pins(struct fkv_owner *o, uint64_t client,
			       uint64_t bytes)
{
	struct fkv_client *c = fkv_client_find(o, client);

	if (!c)
		return 0;
	c->uid->shared_bytes += bytes - c->shared_bytes;
	c->shared_bytes = bytes;
	return c->pinned_bytes;
}

int fkv_holder_give(struct fkv_owner *o, struct fkv_item *it,
		    struct fkv_entry *e)
{
	struct fkv_client *c = fkv_client_find(o, it->call->client);
	struct fkv_holder *h;
	int err;

	fkv_assert(c);
	if (c->holders.count >= FKV_CLIENT_HOLDERS_MAX) {
		fkv_item_text(it, "this client has 65,536 holders: "
			      "release some");
		return -EDQUOT;
	}
	err = fkv_client_charge(o, c, e->len);
	if (err) {
		fkv_item_text(it, "over the cap of pinned bytes of this "
			      "client or user: release holders first");
		return err;
	}
	h = fkv_zalloc(sizeof(*h));
	if (!h) {
		fkv_client_uncharge(o, c, e->len);
		return -ENOMEM;
	}
	h->id = c->next_holder++;
	h->entry = e;
	fkv_entry_pin(o, e);
	o->stats.holders++;
	fkv_table_add(&c->holders, &h->node, h->id);
	it->res.offset = e->offset;
	it->res.len = e->len;
	it->res.version = e->put_id;
	it->res.id = h->id;
	return 0;
}

static void holder_free(struct fkv_owner *o, struct fkv_client *c,
			struct fkv_holder *h, struct fkv_out *out)
{
	struct fkv_entry *e = h->entry;

	fkv_table_del(&c->holders, &h->node);
	fkv_client_uncharge(o, c, e->len);
	fkv_free(h);
	o->stats.holders--;
	fkv_entry_unpin(o, e, out);
}

int fkv_holder_release(struct fkv_owner *o, struct fkv_client *c, uint64_t id,
		       struct fkv_out *out)
{
	struct fkv_node *n = fkv_table_first(&c->holders, id);

	if (!n)
		return -EINVAL;
	holder_free(o, c, fkv_container_of(n, struct fkv_holder, node), out);
	return 0;
}

void fkv_client_gone(struct fkv_owner *o, uint64_t id, struct fkv_out *out)
{
	struct fkv_client *c = fkv_client_find(o, id);
	struct fkv_call *call;
	struct fkv_put *put;
	struct fkv_node *n;
	uint64_t pos = 0;

	if (!c)
		return;
	while ((call = TAILQ_FIRST(&c->calls)))
		fkv_call_dropped(o, call);
	while ((put = TAILQ_FIRST(&c->puts)))
		fkv_put_client_gone(o, put, out);
	while ((n = fkv_table_drain(&c->holders, &pos)))
		holder_free(o, c, fkv_container_of(n, struct fkv_holder, node),
			    out);
	fkv_assert(!c->pinned_bytes);
	c->uid->shared_bytes -= c->shared_bytes;
	if (c->arena_bytes)
		fkv_extents_done(&c->arena);
	fkv_table_del(&o->clients, &c->node);
	fkv_table_done(&c->holders);
	uid_put(o, c->uid);
	fkv_free(c);
}

bool fkv_owner_client_info(const struct fkv_owner *o, uint64_t i,
			   struct fkv_client_info *ret)
{
	struct fkv_node *n = NULL;
	uint64_t pos = 0;

	while ((n = fkv_table_walk(&o->clients, &pos, n))) {
		struct fkv_client *c;

		if (i--)
			continue;
		c = fkv_container_of(n, struct fkv_client, node);
		*ret = (struct fkv_client_info){
			.client = c->id,
			.uid = c->uid->uid,
			.holders = c->holders.count,
			.pinned_bytes = c->pinned_bytes,
			.open_puts = c->nr_puts,
			.calls = c->nr_calls,
		};
		return true;
	}
	return false;
}
