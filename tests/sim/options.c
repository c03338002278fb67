// SPDX-License-Identifier: Apache-2.0
/*
 * options.c - the command line, and the one that repeats a run
 */
#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "sim.h"

static const char usage[] =
	"usage: sim [--seeds N] [--seed FIRST] [--steps K] [--jobs N]\n"
	"           [--no-shrink] [--verbose]\n"
	"           [--until NS] [--without FAULT,...]\n"
	"           [--drop ACTOR:FROM-TO,...]\n";

static const char *program = "sim";

_Noreturn static void bad(const char *what, const char *text)
{
	fprintf(stderr, "%s: %s: %s\n%s", program, what, text, usage);
	exit(2);
}

static uint64_t number(const char *text)
{
	char *end;
	uint64_t n = strtoull(text, &end, 0);

	if (!*text || *end)
		bad("not a number", text);
	return n;
}

static void without(struct sim_config *cfg, char *list)
{
	char *save = NULL, *name;

	for (name = strtok_r(list, ",", &save); name;
	     name = strtok_r(NULL, ",", &save)) {
		int f = 0;

		while (f < SIM_FAULTS_NR && strcmp(sim_fault_name[f], name))
			f++;
		if (f == SIM_FAULTS_NR)
			bad("no such fault", name);
		cfg->without |= 1ULL << f;
	}
}

/* "3:17", "3:5-9", "3:5-" (to the end) */
static void drops(struct sim_config *cfg, char *list)
{
	char *save = NULL, *one;

	for (one = strtok_r(list, ",", &save); one;
	     one = strtok_r(NULL, ",", &save)) {
		struct sim_drop *d = &cfg->drop[cfg->nr_drops];
		char *from = strchr(one, ':'), *to = strchr(one, '-');

		if (!from || cfg->nr_drops == SIM_DROPS_MAX)
			bad("not what to drop", one);
		*from++ = 0;
		if (to)
			*to++ = 0;
		d->actor = (uint32_t)number(one);
		d->from = (uint32_t)number(from);
		d->to = !to ? d->from : *to ? (uint32_t)number(to) :
			UINT32_MAX;
		cfg->nr_drops++;
	}
}

static void option(int c, struct sim_config *cfg, struct sim_args *args)
{
	switch (c) {
	case 'n':
		args->seeds = number(optarg);
		break;
	case 's':
		cfg->seed = number(optarg);
		break;
	case 'k':
		cfg->steps = number(optarg);
		break;
	case 'u':
		cfg->until_ns = number(optarg);
		args->shrink = false;
		break;
	case 'w':
		without(cfg, optarg);
		args->partial = true;
		break;
	case 'd':
		drops(cfg, optarg);
		args->shrink = false;
		break;
	case 'j':
		args->jobs = number(optarg);
		break;
	case 'v':
		cfg->verbose = true;
		break;
	case 'x':
		args->shrink = true;
		break;
	case 'X':
		args->shrink = false;
		break;
	case 't':
		break;
	default:
		fputs(usage, stderr);
		exit(2);
	}
}

void sim_options(int argc, char **argv, struct sim_config *cfg,
		 struct sim_args *args)
{
	static const struct option options[] = {
		{ "seeds", required_argument, NULL, 'n' },
		{ "seed", required_argument, NULL, 's' },
		{ "steps", required_argument, NULL, 'k' },
		{ "until", required_argument, NULL, 'u' },
		{ "without", required_argument, NULL, 'w' },
		{ "drop", required_argument, NULL, 'd' },
		{ "jobs", required_argument, NULL, 'j' },
		{ "shrink", no_argument, NULL, 'x' },
		{ "no-shrink", no_argument, NULL, 'X' },
		{ "strict", no_argument, NULL, 't' },
		{ "verbose", no_argument, NULL, 'v' },
		{ 0 },
	};
	int c;

	program = argv[0];
	while ((c = getopt_long(argc, argv, "", options, NULL)) != -1)
		option(c, cfg, args);
	if (optind < argc)
		bad("not an option", argv[optind]);
	if (!args->jobs || !args->seeds)
		bad("must be more than 0", "--jobs, --seeds");
}

static void say_drops(const struct sim_config *cfg)
{
	for (uint32_t i = 0; i < cfg->nr_drops; i++) {
		const struct sim_drop *d = &cfg->drop[i];

		fprintf(stderr, "%s%u:%u", i ? "," : " --drop ", d->actor,
			d->from);
		if (d->to == UINT32_MAX)
			fputc('-', stderr);
		else if (d->to != d->from)
			fprintf(stderr, "-%u", d->to);
	}
}

void sim_say_replay(const struct sim_config *cfg)
{
	const char *between = " --without ";

	fprintf(stderr, "replay: %s --seed %" PRIu64 " --seeds 1 --steps %"
		PRIu64, program, cfg->seed, cfg->steps);
	if (cfg->until_ns != FKV_NEVER)
		fprintf(stderr, " --until %" PRIu64, cfg->until_ns);
	for (int f = 0; f < SIM_FAULTS_NR; f++) {
		if (!(cfg->without >> f & 1))
			continue;
		fprintf(stderr, "%s%s", between, sim_fault_name[f]);
		between = ",";
	}
	say_drops(cfg);
	fputs(" --no-shrink --verbose\n", stderr);
}
