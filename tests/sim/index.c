// SPDX-License-Identifier: Apache-2.0
/*
 * index.c - the shared index and the readers that pin its entries
 *
 * A published entry may be pinned at any moment without asking anybody, so
 * its pages count as read. Once retired nobody pins it any more; SCANNED is
 * told only when no pin remains.
 */
#include "sim.h"

static struct sim_ientry *find(struct sim *s, const struct fkv_entry *e)
{
	for (size_t i = 0; i < s->nr_index; i++)
		if (s->index[i].entry == e)
			return &s->index[i];
	return NULL;
}

static struct sim_ientry *add(struct sim *s, struct fkv_entry *e)
{
	struct sim_ientry *ie;

	if (s->nr_index == s->room_index) {
		s->room_index = s->room_index ? 2 * s->room_index : 64;
		s->index = fkv_realloc(s->index,
				       s->room_index * sizeof(*s->index));
		fkv_assert(s->index);
	}
	ie = &s->index[s->nr_index++];
	*ie = (struct sim_ientry){
		.entry = e,
		.key = sim_key_of(e->key),
		.put_id = e->put_id,
		.offset = e->offset,
		.len = e->len,
		.hidden = e->key->len > 208,
	};
	return ie;
}

static void del(struct sim *s, struct sim_ientry *ie)
{
	*ie = s->index[--s->nr_index];
}

void sim_index_publish(struct sim *s, struct fkv_entry *e)
{
	struct sim_ientry *ie;

	sim_check(s, !find(s, e), "an entry is published twice");
	ie = add(s, e);
	ie->live = true;
	sim_say(s, "publish key %u %lx", ie->key, ie->put_id);
	sim_content(s, "publish", ie->key, ie->put_id, ie->offset, ie->len);
	sim_check(s, sim_version(s, ie->put_id)->granted,
		  "(6) key %u %lx is published without a grant", ie->key,
		  ie->put_id);
	sim_show(s, ie->offset, ie->len, 1);
}

static void kill_entry(struct sim *s, struct sim_ientry *ie)
{
	ie->live = false;
	sim_version(s, ie->put_id)->granted = false;
	sim_show(s, ie->offset, ie->len, -1);
}

void sim_index_retire(struct sim *s, struct fkv_entry *e)
{
	struct sim_ientry *ie = find(s, e);

	/* an eviction took it out of the index before */
	if (!ie)
		ie = add(s, e);
	sim_check(s, !ie->retired, "an entry is retired twice");
	sim_say(s, "retire key %u %lx", ie->key, ie->put_id);
	s->n.path[SIM_PATH_RETIRED_PINNED] += ie->pins != 0;
	if (ie->live)
		kill_entry(s, ie);
	ie->retired = true;
	if (!s->scan_armed) {
		s->scan_armed = true;
		sim_at(s, s->now_ns + FKV_MS, SIM_SCAN, 0, 0);
	}
}

static void pin(struct sim *s, struct sim_ientry *ie, uint64_t client,
		uint64_t for_ns)
{
	struct sim_pin *p;

	if (s->nr_pins == s->room_pins) {
		s->room_pins = s->room_pins ? 2 * s->room_pins : 64;
		s->pin = fkv_realloc(s->pin, s->room_pins * sizeof(*s->pin));
		fkv_assert(s->pin);
	}
	p = &s->pin[s->nr_pins++];
	*p = (struct sim_pin){
		.id = s->next_pin++,
		.client = client,
		.life = s->life,
		.entry = ie->entry,
		.key = ie->key,
		.put_id = ie->put_id,
		.offset = ie->offset,
		.len = ie->len,
	};
	s->n.path[SIM_PATH_PIN]++;
	ie->pins++;
	ie->hits++;
	sim_check(s, sim_current(s, ie->key) == ie->put_id,
		  "(3) a local hit of key %u returns %lx, current is %lx",
		  ie->key, ie->put_id, sim_current(s, ie->key));
	sim_content(s, "pin", p->key, p->put_id, p->offset, p->len);
	sim_readers(s, p->offset, p->len, 1);
	sim_at(s, s->now_ns + for_ns, SIM_UNPIN, p->id, 0);
}

static void unpin(struct sim *s, size_t i)
{
	struct sim_pin p = s->pin[i];
	struct sim_ientry *ie = find(s, p.entry);

	s->pin[i] = s->pin[--s->nr_pins];
	if (p.life == s->life) {
		sim_check(s, ie && ie->pins, "a pinned entry left the index");
		ie->pins--;
	}
	sim_view(s, p.life);
	sim_content(s, "unpin", p.key, p.put_id, p.offset, p.len);
	sim_readers(s, p.offset, p.len, -1);
	sim_view(s, s->life);
}

void sim_index_unpin(struct sim *s, uint64_t id)
{
	for (size_t i = 0; i < s->nr_pins; i++) {
		if (s->pin[i].id != id)
			continue;
		unpin(s, i);
		return;
	}
}

void sim_index_client_gone(struct sim *s, uint64_t client)
{
	for (size_t i = s->nr_pins; i-- > 0;)
		if (s->pin[i].client == client)
			unpin(s, i);
}

uint64_t sim_index_pinned(const struct sim *s, uint64_t client)
{
	uint64_t n = 0;

	for (size_t i = 0; i < s->nr_pins; i++)
		if (s->pin[i].client == client)
			n += fkv_extent_bytes(s->pin[i].len);
	return n;
}

/* Some client hits some entry. */
void sim_index_read(struct sim *s)
{
	struct sim_client *c = &s->client[sim_random(s, s->cfg.clients)];
	struct sim_ientry *ie;

	if (!s->nr_index || !c->up || c->life != s->life || s->ending)
		return;
	/* of a daemon that is gone for longer nobody takes anything */
	if (s->down[SIM_OWNER] && s->now_ns > s->down_ns + FKV_ALIVE_NS)
		return;
	ie = &s->index[sim_random(s, s->nr_index)];
	if (ie->live && !ie->hidden)
		pin(s, ie, c->id, sim_delay(s, 2 * FKV_SEC));
}

enum fkv_evict_result sim_index_evict(struct sim *s, struct fkv_entry *e)
{
	struct sim_ientry *ie = find(s, e);
	struct sim_client *c = &s->client[sim_random(s, s->cfg.clients)];
	bool race = sim_fault(s, SIM_FAULT_PIN_RACE);

	if (!ie || ie->hidden) {
		if (ie && ie->live) {
			kill_entry(s, ie);
			del(s, ie);
		}
		s->n.path[SIM_PATH_EVICT_OK]++;
		return FKV_EVICT_OK;
	}
	if (!ie->live || ie->pins) {
		s->n.path[SIM_PATH_EVICT_BUSY] += ie->live;
		return ie->live ? FKV_EVICT_BUSY : FKV_EVICT_HELD;
	}
	/* a reader that pins between the peek and the retirement */
	if (race && c->up && c->life == s->life && !s->ending)
		pin(s, ie, c->id, sim_delay(s, FKV_SEC));
	kill_entry(s, ie);
	if (!ie->pins) {
		s->n.path[SIM_PATH_EVICT_OK]++;
		del(s, ie);
		return FKV_EVICT_OK;
	}
	s->n.path[SIM_PATH_EVICT_HELD]++;
	sim_index_retire(s, e);
	return FKV_EVICT_HELD;
}

struct fkv_entry *sim_index_scanned(struct sim *s)
{
	for (size_t i = 0; i < s->nr_index; i++) {
		struct fkv_entry *e = s->index[i].entry;

		if (!s->index[i].retired || s->index[i].pins)
			continue;
		del(s, &s->index[i]);
		return e;
	}
	return NULL;
}

size_t sim_index_retired(const struct sim *s)
{
	size_t n = 0;

	for (size_t i = 0; i < s->nr_index; i++)
		n += s->index[i].retired;
	return n;
}

/* Pages of entries that the owner pins are in use, reply or not. */
void sim_index_held(struct sim *s)
{
	for (size_t i = 0; i < s->nr_index; i++) {
		struct sim_ientry *ie = &s->index[i];
		uint64_t at = ie->offset / SIM_PAGE;

		for (uint32_t k = 0; ie->entry->pins && k < sim_pages(ie->len);
		     k++)
			s->l->page[at + k].idle_ns = s->now_ns;
	}
}

/* What the gateway tells ten times a second. */
void sim_index_hits(struct sim *s)
{
	struct fkv_in in = { .type = FKV_IN_PINS };

	for (size_t i = 0; i < s->nr_index; i++) {
		struct sim_ientry *ie = &s->index[i];

		if (ie->live && ie->hits) {
			sim_version(s, ie->put_id)->uses++;
			sim_hits(s, ie->entry, ie->hits);
			ie->hits = 0;
		}
		if (!ie->live || !ie->pins || ie->entry->pins)
			continue;
		if (ie->entry->pending)
			ie->entry->read = true;
		else
			in.n += fkv_extent_bytes(ie->len);
	}
	sim_feed(s, &in);
}

/* (6) What is published is current, and of a live entry. */
void sim_index_check(struct sim *s)
{
	for (size_t i = 0; i < s->nr_index; i++) {
		struct sim_ientry *ie = &s->index[i];

		if (!ie->live)
			continue;
		sim_check(s, sim_current(s, ie->key) == ie->put_id,
			  "(6) key %u is published as %lx, current is %lx",
			  ie->key, ie->put_id, sim_current(s, ie->key));
		sim_check(s, ie->entry->live, "(6) a published entry of key "
			  "%u is not live at the owner", ie->key);
	}
}
