// SPDX-License-Identifier: Apache-2.0
/*
 * world.c - what a seed makes, and how it goes from step to step to its end
 */
#include <stdio.h>

#include "sim.h"

#define END_NS	(15 * FKV_SEC)

struct sim *sim_running;

/* What kind of world a seed makes. */
static void choose_ssd(struct sim *s)
{
	struct sim_config *c = &s->cfg;
	uint32_t most = c->pages / 3;

	c->devices = sim_chance(s, 150) ? 0 : 1 + (uint32_t)sim_random(s, 3);
	c->shards = 1 + (uint32_t)sim_random(s, 3);
	c->unit = (uint32_t)(SIM_PAGE << sim_random(s, 2));
	/* much smaller than memory, or much larger */
	c->ring_pages = 8 << sim_random(s, 7);
	/* mostly what fits a shard a few times */
	if (c->devices && !sim_chance(s, 200) && most > c->ring_pages / 3)
		most = c->ring_pages / 3;
	c->value_pages = 2 + (uint32_t)sim_random(s, most);
	/* as much as fills memory, or a few times that */
	if (sim_chance(s, 600))
		c->value_pages = 2 + (uint32_t)fkv_min_u64(most, c->pages *
			(2 + sim_random(s, 20)) / c->keys);
}

/* Memory full of values that were read, a ring for a few of them. */
static void choose_tiny_ring(struct sim *s)
{
	struct sim_config *c = &s->cfg;

	if (!sim_chance(s, 60))
		return;
	c->pages = 64;
	c->keys = SIM_KEYS_MAX;
	c->devices = 1;
	c->shards = 1;
	c->unit = SIM_PAGE;
	c->ring_pages = 8 << sim_random(s, 2);
	c->value_pages = 4;
	c->flat = true;
	c->p_get = 45;
	c->p_put = 10;
	c->client_cap = c->uid_cap = 0;
}

/* Several fetches of a key at a time, slow ones, and not all of them good. */
static void choose_bad_reads(struct sim *s)
{
	struct sim_config *c = &s->cfg;

	if (!sim_chance(s, 30))
		return;
	c->pages = 64;
	c->keys = 10;
	c->clients = SIM_CLIENTS_MAX;
	c->devices = 1;
	c->shards = 2;
	c->ring_pages = 256;
	c->value_pages = 12;
	c->delayed = true;
	c->p_get = 60;
	c->p_put = 8;
	c->pace_ns = 20 * FKV_MS;
	c->client_cap = c->uid_cap = 0;
	for (int f = SIM_FAULT_READ_FAIL; f <= SIM_FAULT_WRITE_NOSPACE; f++)
		c->p[f] = 0;
	c->p[SIM_FAULT_READ_FLIP] = c->p[SIM_FAULT_READ_FAIL] = 150;
	c->p[SIM_FAULT_READ_SLOW] = 500;
}

static void choose(struct sim *s)
{
	static const uint64_t paces[] = {
		100 * FKV_US, FKV_MS, 5 * FKV_MS, 20 * FKV_MS,
		300 * FKV_MS, 3 * FKV_SEC,
	};
	struct sim_config *c = &s->cfg;

	sim_reseed(s, UINT64_MAX);
	c->pages = 32 << sim_random(s, 5);
	c->keys = 2 + (uint32_t)sim_random(s, (SIM_KEYS_MAX - 2) >>
					   sim_random(s, 3));
	c->clients = 2 + (uint32_t)sim_random(s, SIM_CLIENTS_MAX - 2);
	choose_ssd(s);
	c->delayed = sim_chance(s, 350);
	c->first = sim_chance(s, 500);
	if (sim_chance(s, 200))
		c->client_cap = (c->pages / 8 + sim_random(s, c->pages / 2)) *
			SIM_PAGE;
	if (sim_chance(s, 200))
		c->uid_cap = (c->pages / 6 + sim_random(s, c->pages / 2)) *
			SIM_PAGE;
	c->p_get = 15 + (unsigned int)sim_random(s, 30);
	c->p_put = 5 + (unsigned int)sim_random(s, 30);
	c->flat = sim_chance(s, 500);
	c->p_pin = 50 + (unsigned int)sim_random(s, 1000);
	c->pace_ns = paces[sim_random(s, FKV_ARRAY_SIZE(paces))];
	choose_tiny_ring(s);
	sim_choose_faults(s);
	/* a put must be able to grow old */
	if (c->pace_ns >= 300 * FKV_MS)
		c->p[SIM_FAULT_KILL] = c->p[SIM_FAULT_KILL] / 5;
	choose_bad_reads(s);
}

static void make_keys(struct sim *s)
{
	char name[FKV_KEY_MAX + 1];

	for (uint32_t k = 0; k < s->cfg.keys; k++) {
		size_t len = 3;

		memset(name, 'x', sizeof(name));
		snprintf(name, 4, "k%02u", k % 100);
		/* the index takes keys of up to 208 bytes */
		if (sim_chance(s, 100))
			len = FKV_KEY_MAX - sim_random(s, 300);
		name[3] = 'x';
		s->key[k] = fkv_key_create(name, len);
	}
}

static void make_disks(struct sim *s)
{
	for (uint32_t i = 0; i < s->cfg.devices * s->cfg.shards; i++) {
		s->disk[i].page = fkv_zalloc(s->cfg.ring_pages *
					     sizeof(struct sim_word));
		s->disk[i].spoiled = fkv_zalloc(s->cfg.ring_pages);
	}
}

static bool alloc_fails(size_t size)
{
	struct sim *s = sim_running;

	(void)size;
	if (!s->in_core || !s->alloc_steps ||
	    !sim_fault(s, s->in_core == 1 + SIM_OWNER ?
		       SIM_FAULT_ALLOC_OWNER : SIM_FAULT_ALLOC_MASTER))
		return false;
	s->alloc_ns = s->now_ns;
	return true;
}

static void say_config(struct sim *s)
{
	const struct sim_config *c = &s->cfg;

	sim_say(s, "pages %u keys %u clients %u value %u devices %u shards %u "
		"unit %u ring %u%s caps %lu %lu pace %lu us", c->pages,
		c->keys, c->clients, c->value_pages, c->devices, c->shards,
		c->unit, c->ring_pages, c->delayed ? " delayed" : "",
		c->client_cap, c->uid_cap, (uint64_t)(c->pace_ns / FKV_US));
	for (int f = 0; f < SIM_FAULTS_NR; f++)
		if (c->p[f])
			sim_say(s, "%s %u per mille", sim_fault_name[f],
				c->p[f]);
}

static struct sim *sim_create(const struct sim_config *cfg)
{
	struct sim *s = fkv_zalloc(sizeof(*s));

	fkv_assert(s);
	sim_running = s;
	s->cfg = *cfg;
	s->now_ns = FKV_SEC;
	s->next_pin = 1;
	choose(s);
	say_config(s);
	make_keys(s);
	make_disks(s);
	sim_life_begin(s);
	for (uint32_t i = 0; i < s->cfg.clients; i++)
		sim_client_start(s, i);
	sim_at(s, s->now_ns, SIM_HITS, 0, 0);
	for (uint32_t i = 0; i < SIM_ACTORS; i++)
		if (i < s->cfg.clients || i >= SIM_CLIENTS_MAX)
			sim_act_at(s, s->now_ns + 1, i, 0);
	fkv_alloc_fail = alloc_fails;
	return s;
}

static void sim_free(struct sim *s, struct sim_cover *total)
{
	fkv_alloc_fail = NULL;
	sim_io_done_all(s);
	sim_life_end(s);
	s->n.steps += s->steps;
	sim_cover_add(total, &s->n);
	for (uint32_t i = 0; i <= s->life; i++) {
		fkv_free(s->lives[i].page);
		fkv_free(s->lives[i].op);
		fkv_free(s->lives[i].version);
	}
	for (uint32_t i = 0; i < FKV_SHARDS_MAX; i++) {
		fkv_free(s->disk[i].page);
		fkv_free(s->disk[i].spoiled);
	}
	for (uint32_t k = 0; k < SIM_KEYS_MAX; k++) {
		fkv_key_put(s->key[k]);
		fkv_free(s->history[k].at);
	}
	fkv_free(s->heap);
	fkv_free(s->persist);
	fkv_free(s->index);
	fkv_free(s->pin);
	fkv_free(s);
}

static void scan(struct sim *s)
{
	struct fkv_in in = { .type = FKV_IN_SCANNED };

	s->scan_armed = false;
	if (s->down[SIM_OWNER])
		return;
	while ((in.entry = sim_index_scanned(s)))
		sim_feed(s, &in);
	if (!sim_index_retired(s))
		return;
	s->scan_armed = true;
	sim_at(s, s->now_ns + FKV_MS, SIM_SCAN, 0, 0);
}

static void act(struct sim *s, const struct sim_event *ev)
{
	uint32_t actor = (uint32_t)ev->a, n = (uint32_t)ev->b;
	bool client = actor < SIM_CLIENTS_MAX;
	uint64_t next;

	if (s->ending)
		return;
	next = ev->when + (client ? sim_client_pause(s) :
			   sim_fault_pause(s, actor));
	sim_act_at(s, fkv_max_u64(next, s->now_ns), actor, n + 1);
	s->acts[actor] = n + 1;
	if (sim_dropped(&s->cfg, actor, n))
		return;
	if (client)
		sim_client_act(s, actor);
	else
		sim_fault_act(s, ev);
}

/* Does a frozen core have to do with it? Then it comes after the thaw. */
static bool put_off(struct sim *s, const struct sim_event *ev)
{
	enum sim_core core = ev->type == SIM_TO_MASTER ? SIM_MASTER :
		SIM_OWNER;

	if (ev->type != SIM_TO_MASTER && ev->type != SIM_TO_OWNER &&
	    ev->type != SIM_SCAN && ev->type != SIM_HITS)
		return false;
	if (!s->frozen[core])
		return false;
	/* of an ended session: nobody waits for it */
	if (ev->type != SIM_SCAN && ev->type != SIM_HITS && ev->b != s->life)
		return false;
	sim_at(s, s->thaw_ns[core], ev->type, ev->a, ev->b);
	return true;
}

static void handle(struct sim *s, const struct sim_event *ev)
{
	switch (ev->type) {
	case SIM_ACT:
		act(s, ev);
		break;
	case SIM_WRITE:
		sim_client_write(s, ev);
		break;
	case SIM_IO:
		sim_io_event(s, ev);
		break;
	case SIM_TO_MASTER:
		sim_to_master(s, ev->b);
		break;
	case SIM_TO_OWNER:
		sim_to_owner(s, ev->b);
		break;
	case SIM_SCAN:
		scan(s);
		break;
	case SIM_HITS:
		if (!s->down[SIM_OWNER])
			sim_index_hits(s);
		sim_at(s, s->now_ns + 100 * FKV_MS, SIM_HITS, 0, 0);
		break;
	case SIM_UNPIN:
		sim_index_unpin(s, ev->a);
		break;
	case SIM_THAW:
		sim_thaw(s, (enum sim_core)ev->a);
		break;
	case SIM_DEVICE_BACK:
		sim_device_back(s, ev->a);
		break;
	case SIM_RESTART:
		sim_restart(s);
		break;
	}
}

/* One thing happens; false when that would be later than @until_ns. */
static bool step(struct sim *s, uint64_t until_ns)
{
	struct sim_event ev;

	/* the hits timer always runs */
	fkv_assert(s->nr_events);
	if (sim_tick_due(s, fkv_min_u64(s->heap[0].when, until_ns))) {
		sim_tick(s);
	} else {
		if (s->heap[0].when > until_ns)
			return false;
		fkv_assert(sim_next(s, &ev));
		s->now_ns = fkv_max_u64(s->now_ns, ev.when);
		sim_reseed(s, ev.id);
		if (!put_off(s, &ev))
			handle(s, &ev);
		/* ten a second, whatever the pace */
		s->steps -= ev.type == SIM_HITS;
	}
	s->steps++;
	s->alloc_steps -= s->alloc_steps != 0;
	sim_check_all(s);
	return true;
}

static void run_until(struct sim *s, uint64_t until_ns)
{
	while (step(s, until_ns))
		;
	s->now_ns = fkv_max_u64(s->now_ns, until_ns);
}

/* Faults stop; who is down starts, who is frozen thaws, slow I/O ends. */
static void heal(struct sim *s)
{
	s->ending = true;
	if (s->down[SIM_OWNER] || s->down[SIM_MASTER])
		run_until(s, s->restart_ns);
	for (int core = 0; core < SIM_CORES; core++)
		if (s->frozen[core])
			run_until(s, s->thaw_ns[core]);
	if (s->io_until_ns > s->now_ns)
		run_until(s, s->io_until_ns);
	sim_reseed(s, UINT64_MAX - 1);
}

/* (11) With nobody else a client puts most of the segment and gets it. */
static void last_client(struct sim *s)
{
	struct sim_client *c = &s->client[0];

	sim_last_put(s);
	run_until(s, s->now_ns + 5 * FKV_SEC);
	sim_check(s, c->nr_puts == 1,
		  "(11) no room for a put though nobody holds anything");
	sim_last_commit(s);
	run_until(s, s->now_ns + FKV_SEC);
	sim_last_get(s);
	run_until(s, s->now_ns + 5 * FKV_SEC);
	sim_check(s, c->nr_held == 1, "(11) a last get finds nothing");
	sim_client_leave(s, c);
}

/* (10), (11): clients leave, faults stop, all comes to rest; then a put. */
static void end(struct sim *s)
{
	heal(s);
	for (uint32_t i = 0; i < s->cfg.clients; i++)
		if (s->client[i].up)
			sim_client_leave(s, &s->client[i]);
	run_until(s, s->now_ns + END_NS);
	sim_check_end(s);
	last_client(s);
	run_until(s, s->now_ns + END_NS);
	sim_check_end(s);
}

void sim_run(const struct sim_config *cfg, struct sim_cover *total)
{
	struct sim *s = sim_create(cfg);

	while (s->steps < cfg->steps && s->now_ns < cfg->until_ns &&
	       step(s, cfg->until_ns))
		;
	s->end_ns = s->now_ns;
	end(s);
	sim_free(s, total);
}
