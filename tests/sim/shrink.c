// SPDX-License-Identifier: Apache-2.0
/*
 * shrink.c - the same rule broken with less: fewer faults, actors, acts
 *
 * Leaving out one act changes no choice of the others, so that most of a
 * history stays what it was.
 */
#include <inttypes.h>
#include <stdio.h>

#include "sim.h"

#define TRIES_MAX	600

struct shrinker {
	struct sim_config *cfg;		/* the least that fails so far */
	struct sim_config try;
	char rule[sizeof(sim_report->rule)];
	uint32_t nr[SIM_ACTORS];	/* acts of each actor */
	uint8_t *gone[SIM_ACTORS];
	uint64_t tries;
};

bool sim_dropped(const struct sim_config *cfg, uint32_t actor, uint32_t n)
{
	for (uint32_t i = 0; i < cfg->nr_drops; i++)
		if (cfg->drop[i].actor == actor && n >= cfg->drop[i].from &&
		    n <= cfg->drop[i].to)
			return true;
	return false;
}

/* Does sh->try break the same rule? Then it is the least. */
static bool works(struct shrinker *sh)
{
	if (sh->tries++ >= TRIES_MAX)
		return false;
	if (sim_try(&sh->try, true) || strcmp(sim_report->rule, sh->rule))
		return false;
	sh->try.until_ns = sim_report->until_ns;
	*sh->cfg = sh->try;
	return true;
}

static void less_faults(struct shrinker *sh)
{
	uint64_t met[SIM_FAULTS_NR];

	memcpy(met, sim_report->fault, sizeof(met));
	for (int f = 0; f < SIM_FAULTS_NR; f++) {
		sh->try = *sh->cfg;
		sh->try.without |= 1ULL << f;
		if (met[f])
			works(sh);
	}
}

/* The ranges of sh->gone as sh->try.drop; false when there are too many. */
static bool ranges(struct shrinker *sh)
{
	uint32_t n = 0;

	for (uint32_t a = 0; a < SIM_ACTORS; a++) {
		for (uint32_t i = 0; i < sh->nr[a]; i++) {
			uint32_t from = i;

			if (!sh->gone[a][i])
				continue;
			while (i + 1 < sh->nr[a] && sh->gone[a][i + 1])
				i++;
			if (n == SIM_DROPS_MAX)
				return false;
			sh->try.drop[n++] = (struct sim_drop){
				.actor = a,
				.from = from,
				.to = i + 1 == sh->nr[a] ? UINT32_MAX : i,
			};
		}
	}
	sh->try.nr_drops = n;
	return true;
}

/* Without the acts @from up to @to of @a: 1 = taken out, 2 = on trial. */
static void less(struct shrinker *sh, uint32_t a, uint32_t from, uint32_t to)
{
	uint8_t *gone = sh->gone[a];
	bool any = false, good;

	for (uint32_t i = from; i < to; i++) {
		any |= !gone[i];
		gone[i] += gone[i] ? 0 : 2;
	}
	sh->try = *sh->cfg;
	good = any && ranges(sh) && works(sh);
	for (uint32_t i = from; i < to; i++)
		if (gone[i] == 2)
			gone[i] = good;
}

static void less_acts(struct shrinker *sh)
{
	uint32_t most = 0;

	for (uint32_t a = 0; a < SIM_ACTORS; a++) {
		sh->gone[a] = fkv_zalloc(sh->nr[a] + 1);
		fkv_assert(sh->gone[a]);
		most = sh->nr[a] > most ? sh->nr[a] : most;
	}
	for (uint32_t a = 0; a < SIM_ACTORS; a++)
		less(sh, a, 0, sh->nr[a]);
	for (uint32_t chunk = most / 2; chunk; chunk /= 2)
		for (uint32_t a = 0; a < SIM_ACTORS; a++)
			for (uint32_t i = sh->nr[a]; i;) {
				uint32_t n = chunk < i ? chunk : i;

				less(sh, a, i - n, i);
				i -= n;
			}
	for (uint32_t a = 0; a < SIM_ACTORS; a++)
		fkv_free(sh->gone[a]);
}

void sim_shrink(struct sim_config *cfg)
{
	static struct shrinker sh;
	uint64_t acts = 0, left = 0;

	memset(&sh, 0, sizeof(sh));
	sh.cfg = cfg;
	sh.try = *cfg;
	memcpy(sh.rule, sim_report->rule, sizeof(sh.rule));
	if (!works(&sh)) {
		fprintf(stderr, "shrink: the rule is not broken again\n");
		return;
	}
	less_faults(&sh);
	sh.try = *sh.cfg;
	works(&sh);
	memcpy(sh.nr, sim_report->acts, sizeof(sh.nr));
	less_acts(&sh);
	for (uint32_t a = 0; a < SIM_ACTORS; a++)
		for (uint32_t i = 0; i < sh.nr[a]; i++, acts++)
			left += !sim_dropped(cfg, a, i);
	fprintf(stderr, "shrunk: %" PRIu64 " of %" PRIu64 " acts left, %"
		PRIu64 " runs\n", left, acts, sh.tries);
	sim_try(cfg, false);
}
