// SPDX-License-Identifier: Apache-2.0
#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "left.h"
#include "nth.h"

#define SHOWN	20u		/* failed cases that are described */

#if defined(__SANITIZE_ADDRESS__) || defined(NTH_SANITIZED)
#define SANITIZED
#endif

#ifdef SANITIZED
#define LIMIT	120u		/* seconds that a case has */
#else
#define LIMIT	20u
#endif

struct nth_case nth;

static _Atomic int armed;
static _Atomic bool healed;
static _Atomic uint64_t points, failures, io_points, io_failures;
static bool of_io;
static _Thread_local bool exempt;
static unsigned int passed, failed, skipped;
static unsigned int wrongs;		/* of this case */
static sigjmp_buf over;
static bool keeps_threads, few_rests;
static char call[80];			/* that failed last */
static char now[200];			/* the case that runs */
static int err_fd = -1;			/* stderr, whatever is redirected */

void nth_arm(void)
{
	armed++;
}

void nth_disarm(void)
{
	armed--;
}

void nth_exempt(void)
{
	exempt = true;
}

void nth_heal(void)
{
	healed = true;
}

uint64_t nth_failures(void)
{
	return of_io ? io_failures : failures;
}

uint64_t nth_points(void)
{
	return of_io ? io_points : points;
}

static bool is_it(uint64_t at)
{
	if (healed || nth.what == NTH_NOTHING)
		return false;
	return nth.what == NTH_ONE ? at == nth.n : at >= nth.n;
}

bool left_armed(void)
{
	return armed && !exempt && !healed && !of_io;
}

/* Called by the allocator for each allocation while it is armed. */
bool left_fails(void)
{
	if (!is_it(++points))
		return false;
	failures++;
	return true;
}

bool left_counts(void)
{
	return !exempt;
}

bool nth_io_fails(void)
{
	if (!of_io || !armed || healed || !is_it(++io_points))
		return false;
	io_failures++;
	return true;
}

bool nth_call_fails(const char *name)
{
	bool fails = nth_io_fails();

	if (fails)
		snprintf(call, sizeof(call), "%s", name);
	return fails;
}

static const char *what_name(void)
{
	return nth.what == NTH_NOTHING ? "no failure" :
	       nth.what == NTH_ONE ? "only" : "all from";
}

void nth_wrong(const char *fmt, ...)
{
	va_list ap;

	if (!wrongs++ && failed < SHOWN) {
		fprintf(stderr, "%s, %s %lu: ", nth.name, what_name(), nth.n);
		va_start(ap, fmt);
		vfprintf(stderr, fmt, ap);
		va_end(ap);
		if (failures)
			fprintf(stderr, "\n\tfailed: %s", left_failed_by());
		if (io_failures && *call)
			fprintf(stderr, "\n\tfailed: %s", call);
		fputc('\n', stderr);
	}
}

void nth_few_rests(void)
{
	few_rests = !getenv("NTH_ALL");
}

void nth_keeps_threads(void)
{
	keeps_threads = true;
}

bool nth_right(void)
{
	return !wrongs;
}

static void say(const char *what)
{
	if (write(err_fd, now, strlen(now)) < 0 ||
	    write(err_fd, what, strlen(what)) < 0)
		_exit(EXIT_FAILURE);
}

static void on_abort(int sig)
{
	(void)sig;
	if (!keeps_threads)
		siglongjmp(over, 1);
	say("it ends itself\n");
	_exit(EXIT_FAILURE);
}

/* Its threads may wait for each other: there is no way on from here. */
static void on_alarm(int sig)
{
	(void)sig;
	say("it hangs\n");
	_exit(EXIT_FAILURE);
}

#ifndef SANITIZED
/* Its name is said; then it is what it would be. */
static void on_crash(int sig)
{
	say("it crashes\n");
	raise(sig);
}
#endif

static unsigned int limit(void)
{
	const char *s = getenv("NTH_LIMIT");

	return s ? (unsigned int)atoi(s) : LIMIT;
}

static void reset(enum nth_what what, uint64_t n)
{
	nth.what = what;
	nth.n = n;
	armed = 0;
	healed = false;
	points = failures = io_points = io_failures = 0;
	wrongs = 0;
	snprintf(now, sizeof(now), "%s, %s %lu: ", nth.name, what_name(), n);
}

static __attribute__((noinline)) int files(void)
{
	DIR *d = opendir("/proc/self/fd");
	int n = 0;

	while (d && readdir(d))
		n++;
	if (d)
		closedir(d);
	return n;
}

/* True when it passed. */
static bool run(void (*scenario)(void *arg), void *arg)
{
	int open = files();

	alarm(limit());
	left_start();
	if (sigsetjmp(over, 1)) {
		armed = 0;
		left_stop(false);
		nth_wrong("the process ended itself");
	} else {
		scenario(arg);
		armed = 0;
		nth_check(!left_stop(wrongs == 0), "memory is left");
		nth_check(files() == open, "%d files are left open",
			  files() - open);
	}
	alarm(0);
	if (wrongs)
		failed++;
	else
		passed++;
	return !wrongs;
}

/* A thread's sanitizer is too slow for all: then fewer, the later they come. */
static uint64_t step(uint64_t n)
{
#ifdef NTH_SANITIZED
	if (n >= 8 && !getenv("NTH_ALL"))
		return n / 4;
#endif
	(void)n;
	return 1;
}

static void all(void (*scenario)(void *arg), void *arg)
{
	uint64_t m;

	reset(NTH_NOTHING, 0);
	if (!run(scenario, arg))
		return;
	m = nth_points();
	for (uint64_t n = 1; n <= m; n += step(n)) {
		for (int what = NTH_ONE; what <= NTH_REST; what++) {
			if (what == NTH_REST && few_rests && n % 4)
				continue;
			reset(what, n);
			run(scenario, arg);
		}
	}
	printf("%s: %lu points\n", nth.name, m);
}

static void start(const char *name, bool io)
{
	struct sigaction sa = { .sa_handler = on_abort };

	sigaction(SIGABRT, &sa, NULL);
	sa.sa_handler = on_alarm;
	sigaction(SIGALRM, &sa, NULL);
#ifndef SANITIZED
	sa.sa_handler = on_crash;
	sa.sa_flags = (int)SA_RESETHAND;
	sigaction(SIGSEGV, &sa, NULL);
	sigaction(SIGBUS, &sa, NULL);
#endif
	if (err_fd < 0)
		err_fd = fcntl(2, F_DUPFD_CLOEXEC, 3);
	setvbuf(stdout, NULL, _IOLBF, 4096);
	nth.name = name;
	of_io = io;
}

void nth_all(const char *name, void (*scenario)(void *arg), void *arg)
{
	start(name, false);
	all(scenario, arg);
}

void nth_all_io(const char *name, void (*scenario)(void *arg), void *arg)
{
	start(name, true);
	all(scenario, arg);
}

void nth_some(const char *name, void (*scenario)(void *arg),
	      uint64_t (*next)(uint64_t n), const _Atomic uint64_t *count)
{
	unsigned int cases = 0;
	uint64_t m;

	start(name, true);
	reset(NTH_NOTHING, 0);
	if (!run(scenario, NULL))
		return;
	m = *count;
	for (uint64_t n = 1; n <= m; n = next(n), cases++) {
		reset(NTH_ONE, n);
		run(scenario, NULL);
		if (cases % 4 && !getenv("NTH_ALL"))
			continue;
		reset(NTH_REST, n);
		run(scenario, NULL);
	}
	printf("%s: %u of %lu points\n", name, cases, m);
}

void nth_skip(const char *name, const char *why)
{
	printf("%s: skipped: %s\n", name, why);
	skipped++;
}

int nth_end(void)
{
	printf("%u passed, %u failed, %u skipped\n", passed, failed, skipped);
	if (failed || !(passed + skipped))
		return EXIT_FAILURE;
	return passed ? EXIT_SUCCESS : 77;
}
