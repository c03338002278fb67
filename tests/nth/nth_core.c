// SPDX-License-Identifier: Apache-2.0
/*
 * nth_core - both cores, every allocation of theirs failing in its turn, and
 * every I/O that they ask for
 */
#include <stdio.h>

#include "nth.h"
#include "world.h"

#define MANY	20u

static const struct world_config plain;
static const struct world_config small = { .drops = true };
static const struct world_config ssd = { .ssd = true };
static const struct world_config arena = { .arena_bytes = 64 * 4096 };

static void keys(struct world *w, struct world_key **k, unsigned int n)
{
	for (unsigned int i = 0; i < n; i++)
		k[i] = world_key(w, "k%02u", i);
}

static void put_get_delete(struct world *w)
{
	struct world_key *k = world_key(w, "key%u", 1);

	world_put(w, k, 3);
	world_get(w, &k, 1, true);
	world_put(w, k, 5);
	world_get(w, &k, 1, false);
	world_get_into(w, k);
	world_stat(w, k, false);
	world_delete(w, k);
	world_get(w, &k, 1, false);
}

static void batch(struct world *w)
{
	struct world_key *k[MANY];

	keys(w, k, MANY);
	world_begin(w, k, MANY, 2);
	world_commit(w, k, MANY, 0);
	world_get(w, k, MANY, true);
	world_get(w, k, MANY, false);
	world_begin(w, k, MANY, 3);
	world_commit(w, k, MANY, FLUXONKV_COMMIT_HOLD);
	world_release(w);
}

/* Three times what the segment takes. */
static void eviction(struct world *w)
{
	struct world_key *k[MANY];

	keys(w, k, MANY);
	for (unsigned int i = 0; i < MANY; i++) {
		world_put(w, k[i], 150);
		world_settle(w, FKV_MS);
	}
	for (unsigned int i = 0; i < MANY; i++)
		world_get(w, &k[i], 1, false);
}

static void persist(struct world *w)
{
	struct world_key *k[MANY];

	keys(w, k, MANY);
	for (unsigned int i = 0; i < 12; i++) {
		world_put(w, k[i], 120);
		world_settle(w, 10 * FKV_MS);
	}
	for (unsigned int i = 0; i < 12; i++)
		world_get(w, &k[i], 1, false);
	world_put(w, k[3], 100);
	world_settle(w, 10 * FKV_MS);
	world_delete(w, k[4]);
}

static void warm(struct world *w)
{
	struct world_key *k[MANY];

	keys(w, k, MANY);
	for (unsigned int i = 0; i < 10; i++) {
		world_put(w, k[i], 120);
		world_settle(w, 10 * FKV_MS);
	}
	for (unsigned int i = 0; i < 4; i++) {
		world_stat(w, k[i], true);
		world_settle(w, 10 * FKV_MS);
		world_get(w, &k[i], 1, false);
	}
}

static void list(struct world *w)
{
	struct world_key *k[MANY];

	keys(w, k, 7);
	for (unsigned int i = 0; i < 7; i++)
		world_put(w, k[i], 1);
	world_list(w, "k", 100);
	world_list(w, "k0", 3);
	world_list(w, "none", 3);
	world_count(w, "k");
	world_count(w, "");
	world_stat(w, k[1], false);
}

/* Tables and the index of routes grow on the way. */
static void long_list(struct world *w)
{
	for (unsigned int i = 0; i < 80; i += MANY) {
		struct world_key *k[MANY];

		for (unsigned int j = 0; j < MANY; j++)
			k[j] = world_key(w, "l%03u", i + j);
		world_begin(w, k, MANY, 1);
		world_commit(w, k, MANY, 0);
	}
	world_list(w, "l", 1000);
	world_count(w, "l");
}

static void death(struct world *w)
{
	struct world_key *k[MANY];

	keys(w, k, 8);
	world_begin(w, k, 4, 2);
	world_commit(w, k, 4, FLUXONKV_COMMIT_HOLD);
	world_get(w, k, 4, true);
	world_delete(w, k[0]);
	world_begin(w, &k[4], 4, 3);
	world_gone(w, w->client);
	w->nr_hold = 0;
	w->client = 99;
	world_client(w, w->client);
	world_put(w, k[5], 1);
	world_settle(w, 70 * FKV_SEC);
	world_get(w, k, 8, false);
}

static void extend(struct world *w)
{
	struct world_key *k[2];

	keys(w, k, 2);
	world_begin(w, k, 2, 4);
	world_settle(w, 40 * FKV_SEC);
	world_extend(w, k[0]);
	world_extend(w, k[1]);
	world_settle(w, 40 * FKV_SEC);
	world_commit(w, k, 2, 0);
	world_get(w, k, 2, false);
}

static void by_arena(struct world *w)
{
	struct world_key *k[MANY];

	keys(w, k, 6);
	world_put(w, k[0], 8);
	world_begin(w, k, 6, 3);
	world_commit(w, k, 6, 0);
	world_get(w, k, 6, false);
	world_put(w, k[1], 1);
	world_begin(w, &k[2], 1, 2);
	world_gone(w, w->client);
	w->nr_hold = 0;
	w->client++;
	world_client(w, w->client);
	world_get(w, k, 6, false);
}

struct core_case {
	const char *name;
	const struct world_config *cfg;
	void (*run)(struct world *w);
};

static const struct core_case cases[] = {
	{ "put, get, delete", &plain, put_get_delete },
	{ "batch", &plain, batch },
	{ "eviction", &small, eviction },
	{ "persist and refill", &ssd, persist },
	{ "warm", &ssd, warm },
	{ "list, count, stat", &plain, list },
	{ "a long list", &plain, long_list },
	{ "death of a client", &plain, death },
	{ "extend", &plain, extend },
	{ "put by an arena", &arena, by_arena },
};

static const char *const fault_name[] = {
	[WORLD_EIO] = "EIO", [WORLD_ENOSPC] = "ENOSPC",
	[WORLD_SHORT] = "short", [WORLD_ENOMEM] = "ENOMEM",
};

static void run(const struct core_case *c, const struct world_config *cfg)
{
	struct world *w = world_open(cfg);

	if (!w)
		return;
	c->run(w);
	world_close(w);
}

static void scenario(void *arg)
{
	const struct core_case *c = arg;

	run(c, c->cfg);
}

static enum world_fault fault;

static void io_scenario(void *arg)
{
	const struct core_case *c = arg;
	struct world_config cfg = *c->cfg;

	cfg.fault = fault;
	run(c, &cfg);
}

static void all_io(const struct core_case *c)
{
	for (int f = WORLD_EIO; f <= WORLD_ENOMEM; f++) {
		char name[64];

		fault = (enum world_fault)f;
		snprintf(name, sizeof(name), "%s, %s", c->name, fault_name[f]);
		nth_all_io(name, io_scenario, (void *)c);
	}
}

int main(void)
{
	for (size_t i = 0; i < FKV_ARRAY_SIZE(cases); i++) {
		nth_all(cases[i].name, scenario, (void *)&cases[i]);
		if (cases[i].cfg->ssd || cases[i].cfg->arena_bytes)
			all_io(&cases[i]);
	}
	return nth_end();
}
