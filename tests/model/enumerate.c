// SPDX-License-Identifier: Apache-2.0
/*
 * All candidate executions: paths of each thread with every value that a load
 * could see, then who reads whom, then the order of stores per location.
 */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "model.h"

#define MAX_VALUE	16	/* values are 0..15 */
#define MAX_PATHS	4096

struct path {
	struct event ev[MAX_PATH];
	int nr;
	int reg[MAX_REGS];
};

struct search {
	const struct program *p;
	predicate bad, want;
	struct verdict *v;
	uint32_t values[MAX_LOCS];	/* that somebody stores there */
	bool any_na;
	struct path *paths[MAX_THREADS];
	int nr_paths[MAX_THREADS];
	const struct path *chosen[MAX_THREADS];
	struct graph g;
	struct outcome out;
};

/* Which values can be in a location: found by repeating until none is new. */
static void find_values(struct search *s)
{
	const struct program *p = s->p;
	uint32_t all = 0;

	for (int l = 0; l < p->nr_locs; l++)
		all |= s->values[l] = 1u << p->init[l];
	for (int t = 0; t < p->nr_threads; t++)
		for (int i = 0; i < p->thread[t].nr; i++)
			if (p->thread[t].insn[i].kind == STORE ||
			    p->thread[t].insn[i].kind == CAS)
				all |= 1u << p->thread[t].insn[i].value;
	for (int t = 0; t < p->nr_threads; t++) {
		for (int i = 0; i < p->thread[t].nr; i++) {
			const struct insn *in = &p->thread[t].insn[i];

			if (in->kind != STORE && in->kind != CAS)
				continue;
			s->values[in->loc] |= in->from < 0 ?
				1u << in->value :
				(all << in->value | all) & 0xffff;
		}
	}
}

static void run(struct search *s, int t, int pc, struct path path);

static void step_event(struct search *s, int t, int pc, struct path path,
		       struct event ev)
{
	const struct insn *in = &s->p->thread[t].insn[pc];

	assert(path.nr < MAX_PATH);
	ev.thread = t;
	ev.loc = in->loc;
	path.ev[path.nr++] = ev;
	run(s, t, pc + 1, path);
}

static int operand(const struct insn *in, const struct path *path)
{
	return (in->from < 0 ? 0 : path->reg[in->from]) + in->value;
}

/* A load or compare-and-swap: once for each value it may see. */
static void step_read(struct search *s, int t, int pc, const struct path *at)
{
	const struct insn *in = &s->p->thread[t].insn[pc];
	enum order order = s->p->order[in->role];

	for (int v = 0; v < MAX_VALUE; v++) {
		struct path path = *at;
		struct event ev = { .kind = LOAD, .order = order, .rval = v };

		if (!(s->values[in->loc] & 1u << v))
			continue;
		path.reg[in->reg] = v;
		if (in->kind == CAS) {
			path.reg[in->reg] = v == in->expect;
			ev.order = RLX;		/* of a failure */
		}
		if (in->kind == CAS && v == in->expect) {
			ev.kind = CAS;
			ev.order = order;
			ev.wval = operand(in, at);
		}
		step_event(s, t, pc, path, ev);
	}
}

static void path_done(struct search *s, int t, const struct path *path)
{
	assert(s->nr_paths[t] < MAX_PATHS);
	s->paths[t][s->nr_paths[t]++] = *path;
}

static void run(struct search *s, int t, int pc, struct path path)
{
	const struct thread *th = &s->p->thread[t];
	const struct insn *in = &th->insn[pc];
	struct event ev;

	if (pc >= th->nr) {
		path_done(s, t, &path);
		return;
	}
	ev = (struct event){ .kind = in->kind,
			     .order = s->p->order[in->role] };
	if (in->kind == BRANCH) {
		int want = operand(in, &path);
		bool taken = (path.reg[in->reg] == want) == in->equal;

		run(s, t, taken ? in->target : pc + 1, path);
	} else if (in->kind == SET) {
		path.reg[in->reg] = in->value;
		run(s, t, pc + 1, path);
	} else if (ev.order == NONE) {
		/* dropped; what a load would have found is as if unchanged */
		run(s, t, pc + 1, path);
	} else if (in->kind == FENCE) {
		step_event(s, t, pc, path, ev);
	} else if (in->kind == STORE) {
		ev.wval = operand(in, &path);
		step_event(s, t, pc, path, ev);
	} else {
		step_read(s, t, pc, &path);
	}
}

/* All of it is chosen: is it allowed, and what does it show? */
static void judge(struct search *s, bool race)
{
	if (!graph_sc(&s->g))
		return;
	s->v->executions++;
	for (int l = 0; l < s->p->nr_locs; l++) {
		int last = s->g.mo[l][s->g.nr_mo[l] - 1];

		s->out.mem[l] = s->g.ev[last].wval;
	}
	s->v->race |= race;
	s->v->bad |= s->bad(&s->out);
	s->v->wanted |= s->want && s->want(&s->out);
}

static void order_stores(struct search *s, int loc, int from, bool race)
{
	int *mo, nr;

	if (loc == s->p->nr_locs) {
		judge(s, race);
		return;
	}
	mo = s->g.mo[loc];
	nr = s->g.nr_mo[loc];
	if (from == nr) {
		if (graph_coherent(&s->g, loc))
			order_stores(s, loc + 1, 1, race);
		return;
	}
	for (int k = from; k < nr; k++) {
		int a = mo[from];

		mo[from] = mo[k];
		mo[k] = a;
		order_stores(s, loc, from + 1, race);
		mo[k] = mo[from];
		mo[from] = a;
	}
}

static void choose_rf(struct search *s, int r)
{
	struct graph *g = &s->g;

	while (r < g->nr && !reads(&g->ev[r]))
		r++;
	if (r == g->nr) {
		if (graph_happens_before(g))
			order_stores(s, 0, 1, s->any_na && graph_races(g));
		return;
	}
	for (int w = 0; w < g->nr; w++) {
		if (w == r || !writes(&g->ev[w]) ||
		    g->ev[w].loc != g->ev[r].loc ||
		    g->ev[w].wval != g->ev[r].rval)
			continue;
		g->rf[r] = w;
		choose_rf(s, r + 1);
	}
}

static void graph_build(struct search *s)
{
	struct graph *g = &s->g;

	memset(g, 0, sizeof(*g));
	g->nr_locs = s->p->nr_locs;
	for (int l = 0; l < g->nr_locs; l++)
		g->ev[g->nr++] = (struct event){ .kind = STORE, .order = NA,
				.thread = -1, .loc = l,
				.wval = s->p->init[l] };
	for (int t = 0; t < s->p->nr_threads; t++) {
		assert(g->nr + s->chosen[t]->nr <= MAX_EVENTS);
		for (int i = 0; i < s->chosen[t]->nr; i++)
			g->ev[g->nr++] = s->chosen[t]->ev[i];
	}
	for (int a = 0; a < g->nr; a++) {
		if (writes(&g->ev[a]))
			g->mo[g->ev[a].loc][g->nr_mo[g->ev[a].loc]++] = a;
		for (int b = a + 1; b < g->nr; b++)
			if (g->ev[b].thread >= 0 &&
			    (g->ev[a].thread == g->ev[b].thread ||
			     g->ev[a].thread < 0))
				g->sb[a] |= 1ULL << b;
	}
}

/* Could this outcome teach anything that is not known yet? */
static bool worth_it(const struct search *s)
{
	if (s->p->uses_mem)
		return true;
	return (!s->v->bad && s->bad(&s->out)) ||
	       (s->want && !s->v->wanted && s->want(&s->out)) ||
	       (s->any_na && !s->v->race);
}

static void choose_paths(struct search *s, int t)
{
	if (t == s->p->nr_threads) {
		if (!worth_it(s))
			return;
		graph_build(s);
		choose_rf(s, 0);
		return;
	}
	for (int i = 0; i < s->nr_paths[t]; i++) {
		s->chosen[t] = &s->paths[t][i];
		memcpy(s->out.reg[t], s->chosen[t]->reg,
		       sizeof(s->out.reg[t]));
		choose_paths(s, t + 1);
	}
}

void check_program(const struct program *p, predicate bad, predicate want,
		   struct verdict *ret)
{
	struct search s = { .p = p, .bad = bad, .want = want, .v = ret };
	struct path empty = { .nr = 0 };

	memset(ret, 0, sizeof(*ret));
	for (int r = 0; r < MAX_REGS; r++)
		empty.reg[r] = UNSET;
	for (int r = 0; r < NR_ROLES; r++)
		s.any_na |= p->used[r] && p->order[r] == NA;
	find_values(&s);
	for (int t = 0; t < p->nr_threads; t++) {
		s.paths[t] = malloc(MAX_PATHS * sizeof(*s.paths[t]));
		assert(s.paths[t]);
		run(&s, t, 0, empty);
	}
	choose_paths(&s, 0);
	for (int t = 0; t < p->nr_threads; t++)
		free(s.paths[t]);
}
