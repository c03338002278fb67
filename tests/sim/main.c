// SPDX-License-Identifier: Apache-2.0
/*
 * sim - runs the cores through random histories and checks every step
 *
 * Seeds run in processes of their own, which share one report. The first
 * broken rule ends all, is shrunk, and is printed with the command that
 * replays it; the exit status is 1 then.
 */
#include <inttypes.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "sim.h"

struct sim_report *sim_report;

static void report(struct sim *s, const char *rule)
{
	struct sim_report *r = sim_report;

	if (__atomic_exchange_n(&r->failed, true, __ATOMIC_SEQ_CST))
		return;
	r->seed = s->cfg.seed;
	r->until_ns = s->ending ? s->end_ns : s->now_ns + 1;
	memcpy(r->acts, s->acts, sizeof(r->acts));
	memcpy(r->fault, s->n.fault, sizeof(r->fault));
	for (size_t i = 0; i < sizeof(r->rule) - 1 && rule[i]; i++) {
		r->rule[i] = rule[i];
		if (rule[i] == ')')
			break;
	}
}

_Noreturn void sim_fail(struct sim *s, const char *fmt, ...)
{
	va_list ap;

	fflush(stdout);
	fprintf(stderr, "seed %" PRIu64 " step %" PRIu64 " at %.6f s: ",
		s->cfg.seed, s->steps, (double)s->now_ns / 1e9);
	va_start(ap, fmt);
	vfprintf(stderr, fmt, ap);
	va_end(ap);
	fputc('\n', stderr);
	report(s, fmt);
	_exit(EXIT_FAILURE);
}

void sim_say(struct sim *s, const char *fmt, ...)
{
	va_list ap;

	if (!s->cfg.verbose)
		return;
	printf("%6" PRIu64 " %.6f ", s->steps, (double)s->now_ns / 1e9);
	va_start(ap, fmt);
	vprintf(fmt, ap);
	va_end(ap);
	putchar('\n');
}

/* an assertion failed, or worse */
static void on_signal(int sig)
{
	struct sim *s = sim_running;

	signal(sig, SIG_DFL);
	if (!s)
		raise(sig);
	sim_fail(s, "%s", s->rule ? s->rule : sig == SIGABRT ?
		 "(!) an assertion does not hold" : "(!) a crash");
}

/* Every @jobs-th seed, until one of them fails somewhere. */
static void work(const struct sim_config *cfg, const struct sim_args *args,
		 uint64_t first, struct sim_cover *total)
{
	struct sim_config one = *cfg;

	for (uint64_t i = first; i < args->seeds; i += args->jobs) {
		if (__atomic_load_n(&sim_report->failed, __ATOMIC_RELAXED))
			return;
		one.seed = cfg->seed + i;
		sim_run(&one, total);
	}
}

bool sim_try(const struct sim_config *cfg, bool quiet)
{
	struct sim_cover n = { 0 };
	int status = 0;
	pid_t pid;

	memset(sim_report, 0, sizeof(*sim_report));
	fflush(stdout);
	pid = fork();
	if (!pid) {
		if (quiet && !freopen("/dev/null", "w", stderr))
			_exit(EXIT_FAILURE);
		sim_run(cfg, &n);
		fflush(stdout);
		_exit(EXIT_SUCCESS);
	}
	fkv_assert(pid > 0 && waitpid(pid, &status, 0) == pid);
	return WIFEXITED(status) && !WEXITSTATUS(status);
}

static bool run_all(const struct sim_config *cfg, const struct sim_args *args,
		    struct sim_cover *total)
{
	bool good = true;
	int status = 0;

	for (uint64_t i = 0; i < args->jobs; i++) {
		pid_t pid = fork();

		fkv_assert(pid >= 0);
		if (pid)
			continue;
		work(cfg, args, i, &total[i]);
		exit(EXIT_SUCCESS);
	}
	while (wait(&status) > 0)
		good &= WIFEXITED(status) && !WEXITSTATUS(status);
	for (uint64_t i = 1; i < args->jobs; i++)
		sim_cover_add(&total[0], &total[i]);
	return good;
}

static void *shared(size_t bytes)
{
	void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
		       MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	if (p == MAP_FAILED) {
		perror("mmap");
		exit(2);
	}
	return p;
}

static int failed(struct sim_config *cfg, const struct sim_args *args,
		  bool verbose)
{
	if (!sim_report->failed) {
		fprintf(stderr, "a process of the simulator ended by itself\n");
		return EXIT_FAILURE;
	}
	cfg->seed = sim_report->seed;
	if (args->shrink)
		sim_shrink(cfg);
	if (verbose) {
		cfg->verbose = true;
		sim_try(cfg, false);
	}
	sim_say_replay(cfg);
	return EXIT_FAILURE;
}

static double seconds(const struct timespec *a)
{
	struct timespec b;

	clock_gettime(CLOCK_MONOTONIC, &b);
	return (double)(b.tv_sec - a->tv_sec) +
		(double)(b.tv_nsec - a->tv_nsec) / 1e9 + 1e-9;
}

int main(int argc, char **argv)
{
	static struct sim_config cfg = {
		.seed = 1, .steps = 4000, .until_ns = FKV_NEVER,
	};
	struct sim_args args = { .seeds = 100, .jobs = 1, .shrink = true };
	struct sim_cover *total;
	struct timespec began;
	bool verbose, good;

	sim_options(argc, argv, &cfg, &args);
	sim_report = shared(sizeof(*sim_report));
	total = shared(args.jobs * sizeof(*total));
	signal(SIGABRT, on_signal);
	signal(SIGSEGV, on_signal);
	/* a trace is that of the shrunk run */
	verbose = cfg.verbose && args.shrink;
	cfg.verbose &= !args.shrink;
	clock_gettime(CLOCK_MONOTONIC, &began);
	good = run_all(&cfg, &args, total);
	if (!good)
		return failed(&cfg, &args, verbose);
	printf("%" PRIu64 " seeds of %" PRIu64 " steps passed, %.1f seeds/s\n",
	       args.seeds, cfg.steps, (double)args.seeds / seconds(&began));
	sim_cover_print(&total[0]);
	if (args.seeds >= SIM_RARE && !args.partial &&
	    !sim_cover_full(&total[0]))
		return EXIT_FAILURE;
	return EXIT_SUCCESS;
}
