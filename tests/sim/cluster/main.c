// SPDX-License-Identifier: Apache-2.0
/*
 * cluster - runs a cluster of cores through random histories (cluster.h)
 *
 * cluster [--seeds N] [--seed FIRST] [--steps K] [--jobs N] [--verbose]
 * The first broken rule ends all, with the command that repeats it.
 */
#include <getopt.h>
#include <inttypes.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cluster.h"

static const char *program;

_Noreturn void cs_fail(struct cs *s, const char *fmt, ...)
{
	va_list ap;

	fflush(stdout);
	fprintf(stderr, "seed %" PRIu64 " step %" PRIu64 " at %.6f s: ",
		s->seed, s->steps, (double)s->now_ns / 1e9);
	va_start(ap, fmt);
	vfprintf(stderr, fmt, ap);
	va_end(ap);
	fprintf(stderr, "\nreplay: %s --seed %" PRIu64 " --seeds 1 --steps %"
		PRIu64 " --verbose\n", program, s->seed, s->max_steps);
	_exit(EXIT_FAILURE);
}

void cs_say(struct cs *s, const char *fmt, ...)
{
	va_list ap;

	if (!s->verbose)
		return;
	printf("%6" PRIu64 " %.6f ", s->steps, (double)s->now_ns / 1e9);
	va_start(ap, fmt);
	vprintf(fmt, ap);
	va_end(ap);
	putchar('\n');
}

static void on_signal(int sig)
{
	signal(sig, SIG_DFL);
	if (!cs_running)
		raise(sig);
	cs_fail(cs_running, sig == SIGABRT ?
		"(!) an assertion does not hold" : "(!) a crash");
}

static void print(const struct cs_cover *n)
{
	static const char *const faults[] = {
		"owners killed", "masters killed", "owners frozen",
		"masters frozen", "sessions cut", "data cut", "reads failed",
		"reads flipped", "writes failed", "transfers failed",
		"clients gone", "times without memory",
	};

	printf("gets %lu puts %lu deletes %lu hits %lu\n", n->gets, n->puts,
	       n->deletes, n->hits);
	printf("pulls %lu/%lu stages %lu/%lu pushes %lu/%lu fences %lu\n",
	       n->pull_ok, n->pulls, n->stage_ok, n->stages, n->push_ok,
	       n->pushes, n->fences);
	printf("sessions %lu tombs %lu revived %lu lost %lu busy %lu "
	       "stale hits past a lease %lu unknown outcomes %lu\n",
	       n->rejoins, n->tombs, n->revived, n->lost, n->busy,
	       n->stale_served, n->unknown);
	printf("reads %lu persists %lu steps %lu\n", n->reads, n->persists,
	       n->steps);
	for (int f = 0; f < CS_FAULTS; f++)
		printf("%s %lu%s", faults[f], n->fault[f],
		       f + 1 < CS_FAULTS ? ", " : "\n");
}

static void add(struct cs_cover *sum, const struct cs_cover *n)
{
	for (size_t k = 0; k < sizeof(*sum) / sizeof(uint64_t); k++)
		((uint64_t *)sum)[k] += ((const uint64_t *)n)[k];
}

struct args {
	uint64_t seeds, first, steps, jobs;
	bool verbose;
};

static void options(int argc, char **argv, struct args *a)
{
	static const struct option options[] = {
		{ "seeds", required_argument, NULL, 'n' },
		{ "seed", required_argument, NULL, 's' },
		{ "steps", required_argument, NULL, 'k' },
		{ "jobs", required_argument, NULL, 'j' },
		{ "no-shrink", no_argument, NULL, 'x' },
		{ "verbose", no_argument, NULL, 'v' },
		{ 0 },
	};
	int c;

	while ((c = getopt_long(argc, argv, "", options, NULL)) != -1) {
		uint64_t n = optarg ? strtoull(optarg, NULL, 0) : 0;

		if (c == 'n')
			a->seeds = n;
		else if (c == 's')
			a->first = n;
		else if (c == 'k')
			a->steps = n;
		else if (c == 'j')
			a->jobs = n;
		else if (c == 'v')
			a->verbose = true;
		else if (c != 'x')
			exit(2);
	}
}

int main(int argc, char **argv)
{
	struct args a = { .seeds = 100, .first = 1, .steps = 20000, .jobs = 1 };
	struct cs_cover *n;
	bool good = true, *stop;
	int status;

	program = argv[0];
	options(argc, argv, &a);
	n = mmap(NULL, (a.jobs + 1) * sizeof(*n), PROT_READ | PROT_WRITE,
		 MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (n == MAP_FAILED)
		return 2;
	stop = (bool *)&n[a.jobs];
	signal(SIGABRT, on_signal);
	signal(SIGSEGV, on_signal);
	for (uint64_t j = 0; j < a.jobs; j++) {
		if (fork())
			continue;
		for (uint64_t k = j; k < a.seeds && !*stop; k += a.jobs)
			cs_run(a.first + k, a.steps, a.verbose, &n[j]);
		exit(EXIT_SUCCESS);
	}
	while (wait(&status) > 0) {
		bool ok = WIFEXITED(status) && !WEXITSTATUS(status);

		good &= ok;
		*stop |= !ok;
	}
	for (uint64_t j = 1; j < a.jobs; j++)
		add(&n[0], &n[j]);
	if (!good)
		return EXIT_FAILURE;
	printf("%" PRIu64 " clusters of %" PRIu64 " steps passed\n", a.seeds,
	       a.steps);
	print(&n[0]);
	return EXIT_SUCCESS;
}
