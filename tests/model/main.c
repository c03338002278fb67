// SPDX-License-Identifier: Apache-2.0
/*
 * check-model [ROOT] - the pin handshake under the C11 memory model
 *
 * One line per program and variant. With ROOT, the top of the source tree, it
 * also says whether the code still has the lines that the roles model.
 */
#include <stdio.h>
#include <string.h>

#include "model.h"

static unsigned int passed, failed;
static bool needed[NR_ROLES];		/* breaks something when weaker */
static bool modelled[NR_ROLES];

static void line(const char *name, const char *what, bool found, bool expected,
		 const char *why)
{
	printf("%s, %s: %s %s%s%s%s\n", name, what,
	       found ? "allowed" : "forbidden",
	       found == expected ? "as expected" : "NOT AS EXPECTED",
	       why ? " (" : "", why ? why : "", why ? ")" : "");
	if (found == expected)
		passed++;
	else
		failed++;
}

static bool found(const struct litmus *l, const struct program *p,
		  struct verdict *v)
{
	check_program(p, l->bad, l->want, v);
	return v->bad || v->race;
}

static void run_variant(const struct litmus *l, const struct variant *v)
{
	struct verdict res;
	struct program p;

	l->build(&p, v->shape);
	for (int i = 0; i < 2; i++)
		if (v->role[i])
			p.order[v->role[i]] = v->to[i];
	line(l->name, v->name, found(l, &p, &res), v->found, v->why);
}

static bool breaks(const struct litmus *l, int role)
{
	for (int i = 0; i < 8; i++)
		if (l->breaks[i] == (enum role)role)
			return true;
	return false;
}

/* Weaken one role after the other. */
static void run_roles(const struct litmus *l, const struct program *coded)
{
	for (int r = R_BUCKET; r < NR_ROLES; r++) {
		struct program p = *coded;
		struct verdict v;
		char what[80];
		bool bad;

		if (!p.used[r])
			continue;
		modelled[r] = true;
		if (roles[r].weaker == roles[r].order)
			continue;
		p.order[r] = roles[r].weaker;
		bad = found(l, &p, &v);
		needed[r] |= bad;
		snprintf(what, sizeof(what), "%s %s", roles[r].name,
			 roles[r].weaker == NONE ? "dropped" : "relaxed");
		line(l->name, what, bad, breaks(l, r),
		     bad ? v.bad ? NULL : "a race" : roles[r].why);
	}
}

static void run_coded(const struct litmus *l)
{
	struct verdict v;
	struct program p;

	l->build(&p, 0);
	line(l->name, "as coded", found(l, &p, &v), false, NULL);
	/* a program that cannot do its work proves nothing */
	line(l->name, "its use", v.wanted, true, NULL);
	run_roles(l, &p);
}

static void run_table(const struct litmus *l, bool coded)
{
	for (; l->name; l++) {
		if (coded)
			run_coded(l);
		for (int i = 0; i < MAX_VARIANTS && l->variant[i].name; i++)
			run_variant(l, &l->variant[i]);
	}
}

/* Each order is needed somewhere, or says why it is not. */
static void run_completeness(void)
{
	for (int r = R_BUCKET; r < NR_ROLES; r++) {
		bool weak = roles[r].weaker == roles[r].order;
		bool good = modelled[r] &&
			    (weak || needed[r] == !roles[r].why);

		if (good) {
			passed++;
			continue;
		}
		printf("role %s: %s\n", roles[r].name,
		       !modelled[r] ? "in no program" :
		       needed[r] ? "has a reason, but is needed" :
				   "is not needed, and has no reason");
		failed++;
	}
}

int main(int argc, char **argv)
{
	run_table(sanity_litmus, false);
	run_table(handshake_litmus, true);
	run_completeness();
	if (argc > 1)
		failed += (unsigned int)check_ties(argv[1], &passed);
	printf("%u passed, %u failed, %d skipped\n", passed, failed,
	       argc <= 1);
	return failed ? 1 : 0;
}
