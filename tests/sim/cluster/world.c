// SPDX-License-Identifier: Apache-2.0
/*
 * world.c - what a seed makes, and how it goes from step to step to its end
 */
#include <stdio.h>

#include "cluster.h"

struct cs *cs_running;

uint64_t cs_random(struct cs *s, uint64_t below)
{
	uint64_t x;

	s->rng += 0x9e3779b97f4a7c15ULL;
	x = s->rng;
	x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9ULL;
	x = (x ^ x >> 27) * 0x94d049bb133111ebULL;
	x ^= x >> 31;
	return below ? x % below : 0;
}

bool cs_chance(struct cs *s, unsigned int per_mille)
{
	return cs_random(s, 1000) < per_mille;
}

uint64_t cs_delay(struct cs *s, uint64_t max_ns)
{
	return cs_random(s, (max_ns >> cs_random(s, 6)) + 1);
}

bool cs_fault(struct cs *s, enum cs_fault f)
{
	bool now = cs_chance(s, s->p[f]);

	if (!now || s->ending)
		return false;
	s->n.fault[f]++;
	return true;
}

/* ---- events: a heap by time, then order ---- */

static bool before(const struct cs_event *a, const struct cs_event *b)
{
	return a->when != b->when ? a->when < b->when : a->order < b->order;
}

void cs_at(struct cs *s, uint64_t when, enum cs_event_type type, uint64_t a,
	   uint64_t b)
{
	size_t i = s->nr_events++;
	struct cs_event ev = { when, s->event_order++, a, b, type };

	if (i == s->room_events) {
		s->room_events = i ? 2 * i : 256;
		s->heap = fkv_realloc(s->heap,
				      s->room_events * sizeof(*s->heap));
		fkv_assert(s->heap);
	}
	for (; i && before(&ev, &s->heap[(i - 1) / 2]); i = (i - 1) / 2)
		s->heap[i] = s->heap[(i - 1) / 2];
	s->heap[i] = ev;
}

static struct cs_event next(struct cs *s)
{
	struct cs_event first = s->heap[0], last = s->heap[--s->nr_events];
	size_t i = 0, k;

	while ((k = 2 * i + 1) < s->nr_events) {
		if (k + 1 < s->nr_events &&
		    before(&s->heap[k + 1], &s->heap[k]))
			k++;
		if (!before(&s->heap[k], &last))
			break;
		s->heap[i] = s->heap[k];
		i = k;
	}
	s->heap[i] = last;
	return first;
}

/* ---- a world ---- */

static unsigned int sometimes(struct cs *s, unsigned int often,
			      unsigned int per_mille)
{
	bool at_all = cs_chance(s, often);
	unsigned int p = 1 + (unsigned int)cs_random(s, per_mille);

	return at_all ? p : 0;
}

static void choose(struct cs *s)
{
	static const uint64_t paces[] = {
		2 * FKV_MS, 20 * FKV_MS, 100 * FKV_MS, 300 * FKV_MS, FKV_SEC,
	};

	s->owners = 2 + (uint32_t)cs_random(s, CS_OWNERS - 1);
	s->keys = 2 + (uint32_t)cs_random(s, (CS_KEYS - 2) >>
					  cs_random(s, 3));
	s->pace_ns = paces[cs_random(s, FKV_ARRAY_SIZE(paces))];
	s->delay_ns = FKV_MS << cs_random(s, 6);
	for (uint32_t i = 0; i < s->owners; i++) {
		struct cs_owner *o = &s->owner[i];

		o->pages = 16u << cs_random(s, 3);
		o->value_pages = 1 + (uint32_t)cs_random(s, o->pages / 3);
		o->shards = cs_chance(s, 600) ?
			1 + (uint32_t)cs_random(s, 3) : 0;
		snprintf(o->name, sizeof(o->name), "o%u", i % 100);
	}
	for (uint32_t h = 0; h < CS_HOSTS; h++) {
		s->host[h].first_ns = 1 + cs_random(s, 1ULL << 40);
		s->host[h].rate = 1014 + cs_random(s, 21);
	}
	s->p[CS_KILL_OWNER] = sometimes(s, 500, 400);
	s->p[CS_KILL_MASTER] = sometimes(s, 250, 200);
	s->p[CS_FREEZE_OWNER] = sometimes(s, 500, 500);
	s->p[CS_FREEZE_MASTER] = sometimes(s, 300, 300);
	s->p[CS_CUT_SESSION] = sometimes(s, 600, 800);
	s->p[CS_CUT_DATA] = sometimes(s, 400, 800);
	s->p[CS_READ_FAIL] = sometimes(s, 300, 200);
	s->p[CS_READ_FLIP] = sometimes(s, 200, 100);
	s->p[CS_WRITE_FAIL] = sometimes(s, 200, 100);
	s->p[CS_DATA_FAIL] = sometimes(s, 500, 200);
	s->p[CS_CLIENT_GONE] = sometimes(s, 600, 60);
	s->p[CS_NOMEM] = sometimes(s, 300, 400);
}

static bool alloc_fails(size_t size)
{
	struct cs *s = cs_running;

	(void)size;
	if (!s || !s->in_core || s->ending || s->now_ns >= s->nomem_until_ns ||
	    !cs_chance(s, 150))
		return false;
	s->nomem_ns = s->now_ns;
	return true;
}

static struct cs *create(uint64_t seed, uint64_t steps, bool verbose)
{
	struct cs *s = fkv_zalloc(sizeof(*s));
	char name[4];

	fkv_assert(s);
	cs_running = s;
	s->seed = seed;
	s->rng = seed * 0x2545f4914f6cdd1dULL;
	s->max_steps = steps;
	s->verbose = verbose;
	s->now_ns = FKV_SEC;
	s->version = fkv_zalloc(CS_VERSIONS * sizeof(*s->version));
	s->version_id = fkv_zalloc(CS_VERSIONS * sizeof(*s->version_id));
	choose(s);
	for (uint32_t k = 0; k < s->keys; k++) {
		snprintf(name, sizeof(name), "k%02u", k % 100);
		s->key[k] = fkv_key_create(name, 3);
	}
	cs_master_start(s);
	for (uint32_t i = 0; i < s->owners; i++) {
		cs_say(s, "owner %u: %u pages, values of %u, %u shards", i,
		       s->owner[i].pages, s->owner[i].value_pages,
		       s->owner[i].shards);
		cs_owner_start(s, i);
		cs_at(s, s->now_ns, CS_HITS, i, 0);
	}
	fkv_alloc_fail = alloc_fails;
	cs_at(s, s->now_ns + cs_delay(s, 5 * FKV_SEC), CS_FAULT, CS_NOMEM, 0);
	for (int f = CS_KILL_OWNER; f <= CS_CUT_DATA; f++)
		cs_at(s, s->now_ns + cs_delay(s, 5 * FKV_SEC), CS_FAULT,
		      (uint64_t)f, 0);
	return s;
}

static void destroy(struct cs *s, struct cs_cover *sum)
{
	uint64_t *to = (uint64_t *)sum, *from = (uint64_t *)&s->n;

	s->n.steps = s->steps;
	s->n.seeds = 1;
	for (size_t k = 0; k < sizeof(*sum) / sizeof(uint64_t); k++)
		to[k] += from[k];
	fkv_alloc_fail = NULL;
	cs_done(s);
	cs_data_done(s);
	for (uint32_t k = 0; k < CS_KEYS; k++) {
		fkv_key_put(s->key[k]);
		fkv_free(s->history[k].at);
	}
	fkv_free(s->heap);
	fkv_free(s->version);
	fkv_free(s->version_id);
	fkv_free(s);
}

static void data_cut(struct cs *s)
{
	uint32_t a = (uint32_t)cs_random(s, s->owners);
	uint32_t b = (uint32_t)cs_random(s, s->owners);

	s->data_cut[a][b] = true;
	s->data_until_ns[a][b] = s->now_ns + cs_delay(s, 15 * FKV_SEC);
}

static void fault(struct cs *s, enum cs_fault f)
{
	uint32_t i = (uint32_t)cs_random(s, s->owners);

	cs_at(s, s->now_ns + 1 + cs_delay(s, 20 * s->pace_ns + 2 * FKV_SEC),
	      CS_FAULT, f, 0);
	if (!cs_fault(s, f))
		return;
	if (f == CS_KILL_OWNER)
		cs_owner_kill(s, i);
	else if (f == CS_KILL_MASTER)
		cs_master_kill(s);
	else if (f == CS_FREEZE_OWNER)
		cs_freeze(s, i, 1 + (cs_chance(s, 500) ?
			  cs_delay(s, FKV_SEC) : cs_random(s, 12 * FKV_SEC)));
	else if (f == CS_FREEZE_MASTER)
		cs_freeze(s, CS_MASTER, 1 + cs_delay(s, 10 * FKV_SEC));
	else if (f == CS_NOMEM)
		s->nomem_until_ns = s->now_ns + cs_delay(s, FKV_SEC);
	else if (f == CS_CUT_SESSION)
		cs_session_cut(s, i);
	else
		data_cut(s);
}

static void uncut(struct cs *s)
{
	for (uint32_t i = 0; i < s->owners; i++) {
		for (int way = 0; way < 2; way++)
			if (s->owner[i].cut_until_ns[way] <= s->now_ns)
				s->owner[i].cut[way] = false;
		for (uint32_t k = 0; k < s->owners; k++)
			if (s->data_until_ns[i][k] <= s->now_ns)
				s->data_cut[i][k] = false;
	}
}

static void restart(struct cs *s, const struct cs_event *ev)
{
	if (!s->host[ev->a].down || s->host[ev->a].life != ev->b)
		return;
	cs_say(s, "host %lu starts", ev->a);
	if (ev->a == CS_MASTER)
		cs_master_start(s);
	else
		cs_owner_start(s, (uint32_t)ev->a);
}

static void scan(struct cs *s, uint32_t i, uint64_t life)
{
	if (!s->host[i].down && s->host[i].life == life)
		cs_scan(s, i);
}

static void hits(struct cs *s, uint32_t i)
{
	cs_at(s, s->now_ns + 100 * FKV_MS, CS_HITS, i, 0);
	s->steps--;
	if (!s->host[i].down && !s->host[i].frozen)
		cs_hits(s, i);
}

static void handle(struct cs *s, const struct cs_event *ev)
{
	uint32_t i = (uint32_t)ev->a;

	switch (ev->type) {
	case CS_ACT:
		cs_client_act(s, i, ev->b);
		break;
	case CS_WRITE:
		cs_client_write(s, ev->a, ev->b);
		break;
	case CS_UNHOLD:
		cs_client_unhold(s, ev->a, ev->b);
		break;
	case CS_MOVE:
		cs_move(s, ev->a, ev->b);
		break;
	case CS_TO_MASTER:
		cs_to_master(s, i, ev->b);
		break;
	case CS_TO_OWNER:
		cs_to_owner(s, i, ev->b);
		break;
	case CS_SCAN:
		scan(s, i, ev->b);
		break;
	case CS_HITS:
		hits(s, i);
		break;
	case CS_UNPIN:
		cs_unpin(s, ev->a);
		break;
	case CS_THAW:
		cs_thaw(s, i);
		break;
	case CS_RESTART:
		restart(s, ev);
		break;
	case CS_DIAL:
		cs_dial(s, i, ev->b);
		break;
	case CS_HANG_UP:
		cs_hang_up(s, i, ev->b);
		break;
	case CS_STAGE:
	case CS_PUSHED:
		cs_stage_event(s, ev);
		break;
	case CS_INPUT:
		cs_input_event(s, ev);
		break;
	case CS_FAULT:
		if (!s->ending)
			fault(s, (enum cs_fault)ev->a);
		break;
	}
}

static bool step(struct cs *s, uint64_t until_ns)
{
	uint64_t when = s->heap[0].when, at;
	uint32_t who = CS_HOSTS;
	struct cs_event ev;

	for (uint32_t h = 0; h < CS_HOSTS; h++) {
		if (h >= s->owners && h != CS_MASTER)
			continue;
		at = cs_tick_at(s, h);
		if (at <= when) {
			when = at;
			who = h;
		}
	}
	if (when > until_ns)
		return false;
	s->now_ns = fkv_max_u64(s->now_ns, when);
	uncut(s);
	if (who < CS_HOSTS) {
		cs_tick(s, who);
	} else {
		ev = next(s);
		handle(s, &ev);
	}
	s->steps++;
	cs_deadlines(s);
	return true;
}

static void run_until(struct cs *s, uint64_t until_ns)
{
	while (step(s, until_ns))
		;
	s->now_ns = fkv_max_u64(s->now_ns, until_ns);
}

/* ---- the end: all comes to rest, nothing is left (10), (11) ---- */

static void heal(struct cs *s)
{
	uint64_t until = s->now_ns;

	s->ending = true;
	for (uint32_t i = 0; i < s->owners; i++)
		for (int way = 0; way < 2; way++)
			until = fkv_max_u64(until,
					    s->owner[i].cut_until_ns[way]);
	for (uint32_t i = 0; i < s->owners; i++)
		for (uint32_t k = 0; k < s->owners; k++)
			until = fkv_max_u64(until, s->data_until_ns[i][k]);
	for (uint32_t h = 0; h < CS_HOSTS; h++) {
		if (s->host[h].frozen)
			until = fkv_max_u64(until, s->host[h].thaw_ns);
		if (s->host[h].down)
			until = fkv_max_u64(until, s->host[h].restart_ns);
	}
	run_until(s, until + 1);
}

static void check_rest(struct cs *s)
{
	struct fkv_master_stats m;
	struct fkv_owner_stats o;

	fkv_master_get_stats(s->master, &m);
	cs_check(s, m.members_live == s->owners,
		 "(10) %lu owners of %u live", m.members_live, s->owners);
	cs_check(s, !m.ops && !m.waiting, "(10) %lu ops stay at the master",
		 m.ops);
	cs_check(s, !m.unevictable, "(10) %lu bytes stay unevictable (put %lu "
		 "target %lu persist %lu held %lu source %lu pinned %lu)",
		 m.unevictable, m.cause_bytes[1], m.cause_bytes[2],
		 m.cause_bytes[3], m.cause_bytes[4], m.cause_bytes[5],
		 m.pinned_bytes);
	cs_check(s, !m.leaked_ops, "(10) %lu ops leaked", m.leaked_ops);
	for (uint32_t i = 0; i < s->owners; i++) {
		fkv_owner_get_stats(s->owner[i].core, &o);
		cs_check(s, !o.holders && !o.fetches && !o.open_puts &&
			 !o.pending_ops && !o.calls && !o.entries_retired &&
			 !o.stages && !o.persist_queued && !o.persist_active &&
			 !o.persist_blocked && !o.persist_committing,
			 "(10) owner %u keeps: holders %lu fetches %lu "
			 "puts %lu ops %lu calls %lu retired %lu stages %lu "
			 "persists %lu",
			 i, o.holders, o.fetches, o.open_puts, o.pending_ops,
			 o.calls, o.entries_retired, o.stages,
			 o.persist_queued + o.persist_active +
			 o.persist_blocked + o.persist_committing);
	}
}

/* It succeeds, or its status is @or. */
static void last_call(struct cs *s, uint32_t i, struct cs_ask ask, int or)
{
	cs_check(s, cs_last_call(s, i, &ask), "no last call");
	for (int k = 0; k < 100 && !s->last_done; k++)
		run_until(s, s->now_ns + 100 * FKV_MS);
	cs_check(s, s->last_done && (!s->last_status || s->last_status == or),
		 "(11) the last call of op %u at owner %u: %d", ask.op, i,
		 s->last_status);
}

/* What one puts all others get; then all is deleted, and nothing is used. */
static void last_calls(struct cs *s)
{
	struct cs_ask put = { .op = FLUXONKV_OP_PUT_BEGIN, .len = 5 * CS_PAGE };
	struct cs_ask get = { .op = FLUXONKV_OP_GET };
	struct cs_ask del = { .op = FLUXONKV_OP_DELETE };
	struct fkv_master_stats m;

	for (uint32_t i = 0; i < s->owners; i++) {
		put.key = get.key = i % s->keys;
		last_call(s, i, put, 0);
		run_until(s, s->now_ns + FKV_SEC);
		for (uint32_t k = 0; k < s->owners; k++)
			last_call(s, k, get, 0);
	}
	run_until(s, s->now_ns + 8 * FKV_SEC);
	for (del.key = 0; del.key < s->keys; del.key++)
		last_call(s, del.key % s->owners, del, -ENOENT);
	run_until(s, s->now_ns + 8 * FKV_SEC);
	check_rest(s);
	fkv_master_get_stats(s->master, &m);
	cs_check(s, !m.used && !m.extents && !m.keys, "(4) %lu bytes are used, "
		 "%lu extents, %lu keys are left", m.used, m.extents, m.keys);
}

static void end(struct cs *s)
{
	heal(s);
	for (uint32_t i = 0; i < s->owners; i++)
		for (uint32_t c = 0; c < CS_CLIENTS; c++)
			if (s->owner[i].client[c].up)
				cs_client_leave(s, i, &s->owner[i].client[c]);
	run_until(s, s->now_ns + 20 * FKV_SEC);
	check_rest(s);
	last_calls(s);
}

void cs_run(uint64_t seed, uint64_t steps, bool verbose, struct cs_cover *sum)
{
	struct cs *s = create(seed, steps, verbose);

	while (s->steps < s->max_steps && step(s, FKV_NEVER - 1))
		;
	end(s);
	destroy(s, sum);
	cs_running = NULL;
}
