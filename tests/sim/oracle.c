// SPDX-License-Identifier: Apache-2.0
/*
 * oracle.c - which version of a key was current at each step
 *
 * A step of a core is one unit of logical time. A get is right when what it
 * returned was current at some moment between its call and its reply; a pin
 * of the shared index when it is current now.
 */
#include <stdlib.h>

#include "sim.h"

#define COUNTER(put_id) ((put_id) & ((1ULL << 44) - 1))

uint32_t sim_key_of(const struct fkv_key *key)
{
	return (uint32_t)(key->data[1] - '0') * 10 +
	       (uint32_t)(key->data[2] - '0');
}

static struct sim_life *life_of(struct sim *s, uint64_t epoch)
{
	for (uint32_t i = s->life + 1; i--;)
		if (s->lives[i].epoch == epoch)
			return &s->lives[i];
	return NULL;
}

struct sim_version *sim_version(struct sim *s, uint64_t put_id)
{
	struct sim_life *l = life_of(s, put_id >> 44);
	uint64_t i = COUNTER(put_id);

	if (!i || !l || i > 1000000)
		return NULL;
	if (i >= l->nr_versions) {
		size_t n = l->nr_versions ? l->nr_versions : 512;

		while (n <= i)
			n *= 2;
		l->version = fkv_realloc(l->version,
					 n * sizeof(*l->version));
		fkv_assert(l->version);
		memset(l->version + l->nr_versions, 0,
		       (n - l->nr_versions) * sizeof(*l->version));
		l->nr_versions = n;
	}
	return &l->version[i];
}

uint64_t sim_current(const struct sim *s, uint32_t key)
{
	const struct sim_history *h = &s->history[key];

	return h->n ? h->at[h->n - 1].put_id : 0;
}

void sim_effect(struct sim *s, uint32_t key, uint64_t put_id)
{
	struct sim_history *h = &s->history[key];

	sim_say(s, "key %u is now %lx", key, put_id);
	sim_check(s, !put_id || put_id > h->last_put,
		  "(3) key %u: put_id %lx takes effect after %lx", key, put_id,
		  h->last_put);
	if (put_id)
		h->last_put = put_id;
	if (h->n == h->room) {
		h->room = h->room ? 2 * h->room : 64;
		h->at = fkv_realloc(h->at, h->room * sizeof(*h->at));
		fkv_assert(h->at);
	}
	h->at[h->n++] = (struct sim_state){
		.seq = s->seq,
		.put_id = put_id,
	};
}

/* What the master forgot by itself: the last replica went (D2). */
void sim_effects_poll(struct sim *s)
{
	for (uint32_t k = 0; k < s->cfg.keys; k++) {
		struct fkv_route_info ri;
		uint64_t now = 0;

		if (fkv_master_route_at(s->master, s->key[k], &ri))
			now = ri.put_id;
		if (now == sim_current(s, k))
			continue;
		sim_check(s, !now, "(3) key %u became %lx without a put", k,
			  now);
		s->n.path[SIM_PATH_LOST]++;
		sim_effect(s, k, 0);
	}
}

bool sim_was_current(const struct sim *s, uint32_t key, uint64_t put_id,
		     uint64_t from_seq)
{
	const struct sim_history *h = &s->history[key];
	size_t i = h->n;

	while (i--) {
		if (h->at[i].put_id == put_id)
			return true;
		if (h->at[i].seq < from_seq)
			return false;
	}
	return !put_id;
}

bool sim_was_present(const struct sim *s, uint32_t key, uint64_t from_seq)
{
	const struct sim_history *h = &s->history[key];
	size_t i = h->n;

	while (i--) {
		if (h->at[i].put_id)
			return true;
		if (h->at[i].seq < from_seq)
			return false;
	}
	return false;
}

bool sim_took_effect(const struct sim *s, uint32_t key, uint64_t put_id,
		     uint64_t from_seq)
{
	const struct sim_history *h = &s->history[key];
	size_t i = h->n;

	while (i-- && h->at[i].seq >= from_seq)
		if (h->at[i].put_id == put_id)
			return true;
	return false;
}

void sim_check_all(struct sim *s)
{
	struct fkv_master_stats m;

	s->rule = "(4) the books of the owner";
	fkv_owner_check(s->owner);
	s->rule = "(4) the books of the master";
	fkv_master_check(s->master);
	s->rule = "(7) the books of the ring";
	if (s->ring)
		fkv_ring_check(s->ring);
	s->rule = NULL;
	fkv_master_get_stats(s->master, &m);
	sim_check(s, m.used + m.free == m.capacity,
		  "(4) used %lu + free %lu is not %lu", m.used, m.free,
		  m.capacity);
	sim_books_full(s, &m);
	sim_index_check(s);
	sim_deadlines(s);
}

void sim_check_end(struct sim *s)
{
	struct fkv_owner_stats o;
	struct fkv_master_stats m;

	fkv_owner_get_stats(s->owner, &o);
	fkv_master_get_stats(s->master, &m);
	sim_check(s, !o.holders && !o.pinned_bytes, "(10) %lu holders stay",
		  o.holders);
	sim_check(s, !o.fetches, "(10) %lu fetches stay", o.fetches);
	sim_check(s, !o.open_puts && !o.expired_puts, "(10) %lu puts stay",
		  o.open_puts);
	sim_check(s, !o.pending_ops && !o.calls, "(10) %lu ops, %lu calls "
		  "stay", o.pending_ops, o.calls);
	sim_check(s, !o.entries_retired, "(10) %lu retired entries stay",
		  o.entries_retired);
	sim_check(s, !o.persist_queued && !o.persist_active &&
		  !o.persist_blocked && !o.persist_committing,
		  "(10) persists stay: %lu queued %lu active %lu blocked %lu "
		  "committing", o.persist_queued, o.persist_active,
		  o.persist_blocked, o.persist_committing);
	sim_check(s, !m.ops && !m.waiting, "(10) %lu ops stay at the master",
		  m.ops);
	sim_check(s, !m.unevictable, "(10) %lu bytes stay unevictable "
		  "(put %lu target %lu persist %lu held %lu pinned %lu)",
		  m.unevictable, m.cause_bytes[1], m.cause_bytes[2],
		  m.cause_bytes[3], m.cause_bytes[4], m.pinned_bytes);
	sim_books_end(s);
	sim_check(s, o.stale_tokens == s->late, "(10) %lu completions had no "
		  "one waiting, of an earlier life were %lu", o.stale_tokens,
		  s->late);
}
