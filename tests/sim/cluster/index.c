// SPDX-License-Identifier: Apache-2.0
/*
 * index.c - entries that an owner shows: who pins one asks nobody
 */
#include "cluster.h"

static struct cs_ientry *find(struct cs_owner *o, const struct fkv_entry *e)
{
	for (uint32_t k = 0; k < o->nr_index; k++)
		if (o->index[k].entry == e)
			return &o->index[k];
	return NULL;
}

static struct cs_ientry *add(struct cs *s, struct cs_owner *o,
			     struct fkv_entry *e)
{
	struct cs_ientry *ie;

	cs_check(s, o->nr_index < CS_INDEX, "the index is full");
	ie = &o->index[o->nr_index++];
	*ie = (struct cs_ientry){
		.entry = e,
		.key = cs_key_of(e->key),
		.put_id = e->put_id,
		.offset = e->offset,
		.len = e->len,
	};
	return ie;
}

/* Only while its lease lasts an owner must know what is current (K6). */
static void check_current(struct cs *s, uint32_t i, const char *who,
			  uint32_t key, uint64_t put_id)
{
	bool now = cs_current(s, key) == put_id;

	s->n.stale_served += !now;
	cs_check(s, now || (!cs_lease_valid(s, i) && cs_ever(s, key, put_id)),
		 "(3) %s at owner %u of key %u: %lx, current is %lx", who, i,
		 key, put_id, cs_current(s, key));
}

static struct cs_value value_of(const struct cs_ientry *ie)
{
	return (struct cs_value){ ie->key, ie->put_id, ie->offset, ie->len };
}

void cs_publish(struct cs *s, uint32_t i, struct fkv_entry *e)
{
	struct cs_owner *o = &s->owner[i];
	struct cs_ientry *ie = add(s, o, e);

	ie->live = true;
	check_current(s, i, "an entry", ie->key, ie->put_id);
	cs_content(s, "publish", i, value_of(ie));
	cs_read(s, i, ie->offset, ie->len, 1);
}

static void unshow(struct cs *s, uint32_t i, struct cs_ientry *ie)
{
	if (ie->live)
		cs_read(s, i, ie->offset, ie->len, -1);
	ie->live = false;
}

void cs_retire(struct cs *s, uint32_t i, struct fkv_entry *e)
{
	struct cs_owner *o = &s->owner[i];
	struct cs_ientry *ie = find(o, e);

	if (!ie)
		ie = add(s, o, e);
	cs_check(s, !ie->retired, "an entry is retired twice");
	unshow(s, i, ie);
	ie->retired = true;
	if (o->scanning)
		return;
	o->scanning = true;
	cs_at(s, s->now_ns + FKV_MS, CS_SCAN, i, s->host[i].life);
}

static void pin(struct cs *s, uint32_t i, struct cs_ientry *ie, uint64_t for_ns)
{
	uint64_t k = 0;

	while (k < CS_PINS && s->pin[k].used)
		k++;
	if (k == CS_PINS)
		return;
	s->pin[k] = (struct cs_pin){
		.used = true,
		.owner = i,
		.life = s->host[i].life,
		.key = ie->key,
		.entry = ie->entry,
		.put_id = ie->put_id,
		.offset = ie->offset,
		.len = ie->len,
	};
	ie->pins++;
	s->n.hits++;
	check_current(s, i, "a hit", ie->key, ie->put_id);
	cs_content(s, "pin", i, value_of(ie));
	cs_read(s, i, ie->offset, ie->len, 1);
	cs_at(s, s->now_ns + for_ns, CS_UNPIN, k, 0);
}

void cs_unpin(struct cs *s, uint64_t k)
{
	struct cs_pin *p = &s->pin[k];
	struct cs_ientry *ie;

	p->used = false;
	if (p->life != s->host[p->owner].life || s->host[p->owner].down)
		return;
	ie = find(&s->owner[p->owner], p->entry);
	cs_check(s, ie && ie->pins, "a pinned entry left the index");
	ie->pins--;
	cs_content(s, "unpin", p->owner, (struct cs_value){
		   p->key, p->put_id, p->offset, p->len });
	cs_read(s, p->owner, p->offset, p->len, -1);
}

void cs_pin_some(struct cs *s, uint32_t i)
{
	struct cs_owner *o = &s->owner[i];
	struct cs_ientry *ie;

	if (!o->nr_index || s->ending)
		return;
	ie = &o->index[cs_random(s, o->nr_index)];
	if (ie->live)
		pin(s, i, ie, cs_delay(s, 4 * FKV_SEC));
}

enum fkv_evict_result cs_evict(struct cs *s, uint32_t i, struct fkv_entry *e)
{
	struct cs_owner *o = &s->owner[i];
	struct cs_ientry *ie = find(o, e);

	if (!ie)
		return FKV_EVICT_OK;
	if (!ie->live || ie->pins)
		return ie->live ? FKV_EVICT_BUSY : FKV_EVICT_HELD;
	if (!s->ending && cs_chance(s, 50))
		pin(s, i, ie, cs_delay(s, FKV_SEC));
	unshow(s, i, ie);
	if (!ie->pins) {
		*ie = o->index[--o->nr_index];
		return FKV_EVICT_OK;
	}
	cs_retire(s, i, e);
	return FKV_EVICT_HELD;
}

void cs_scan(struct cs *s, uint32_t i)
{
	struct cs_owner *o = &s->owner[i];
	bool left = false;

	o->scanning = false;
	for (uint32_t k = 0; k < o->nr_index;) {
		struct fkv_in in = { .type = FKV_IN_SCANNED };

		left |= o->index[k].retired;
		if (!o->index[k].retired || o->index[k].pins) {
			k++;
			continue;
		}
		in.entry = o->index[k].entry;
		o->index[k] = o->index[--o->nr_index];
		cs_feed(s, i, &in);
		k = 0;
	}
	if (!left || o->scanning)
		return;
	o->scanning = true;
	cs_at(s, s->now_ns + FKV_MS, CS_SCAN, i, s->host[i].life);
}

void cs_hits(struct cs *s, uint32_t i)
{
	struct cs_owner *o = &s->owner[i];
	struct fkv_in in = { .type = FKV_IN_PINS };

	for (uint32_t k = 0; k < o->nr_index; k++) {
		struct cs_ientry *ie = &o->index[k];

		if (!ie->live || !ie->pins || ie->entry->pins)
			continue;
		if (ie->entry->pending)
			ie->entry->read = true;
		else
			in.n += fkv_extent_bytes(ie->len);
	}
	cs_feed(s, i, &in);
}

void cs_index_check(struct cs *s, uint32_t i)
{
	struct cs_owner *o = &s->owner[i];

	for (uint32_t k = 0; k < o->nr_index; k++)
		if (o->index[k].live)
			check_current(s, i, "an entry", o->index[k].key,
				      o->index[k].put_id);
}
