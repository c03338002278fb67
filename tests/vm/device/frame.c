// SPDX-License-Identifier: Apache-2.0
/*
 * frame.c - runs tests, each in a child of its own
 */
#include <setjmp.h>
#include <stdarg.h>
#include <sys/prctl.h>
#include <sys/utsname.h>
#include <time.h>

#include "common.h"

#define SKIPPED	77

u64 now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (u64)t.tv_sec * SEC_NS + (u64)t.tv_nsec;
}

void sleep_ms(u32 ms)
{
	usleep(ms * 1000);
}

int ask(int fd, unsigned long cmd, void *arg)
{
	int ret = ioctl(fd, cmd, arg);

	return ret < 0 ? -errno : ret;
}

bool full_run(void)
{
	const char *full = getenv("FULL");

	return full && !strcmp(full, "1");
}

bool kernel_is(u32 major, u32 minor_min)
{
	struct utsname u;
	unsigned int a = 0, b = 0;

	uname(&u);
	sscanf(u.release, "%u.%u", &a, &b);
	return a > major || (a == major && b >= minor_min);
}

bool wait_until(bool (*done)(void *arg), void *arg, u32 ms)
{
	u64 end = now_ns() + ms * 1000000ULL;

	while (!done(arg)) {
		if (now_ns() > end)
			return false;
		sleep_ms(2);
	}
	return true;
}

u64 random_next(u64 *state)
{
	u64 z = *state += 0x9e3779b97f4a7c15ULL;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ULL;
	z = (z ^ z >> 27) * 0x94d049bb133111ebULL;
	return z ^ z >> 31;
}

void fill(u8 *p, u64 len, u64 seed)
{
	for (u64 i = 0; i < len; i++)
		p[i] = (u8)((seed * 31 + i / 7) ^ i);
}

bool filled(const u8 *p, u64 len, u64 seed)
{
	for (u64 i = 0; i < len; i++)
		if (p[i] != (u8)((seed * 31 + i / 7) ^ i))
			return false;
	return true;
}

static __thread sigjmp_buf probe_env;

static void probe_signal(int sig)
{
	siglongjmp(probe_env, sig);
}

static void probe_catch(void)
{
	struct sigaction sa = { .sa_handler = probe_signal };

	sigaction(SIGBUS, &sa, NULL);
	sigaction(SIGSEGV, &sa, NULL);
}

int probe_read(const volatile u8 *p)
{
	int sig;

	probe_catch();
	sig = sigsetjmp(probe_env, 1);
	return sig ? -sig : *p;
}

int probe_write(volatile u8 *p, u8 value)
{
	int sig;

	probe_catch();
	sig = sigsetjmp(probe_env, 1);
	if (sig)
		return -sig;
	*p = value;
	return 0;
}

pid_t spawn(void)
{
	pid_t pid = fork();

	CHECK(pid >= 0);
	if (!pid)
		prctl(PR_SET_PDEATHSIG, SIGKILL);
	return pid;
}

int reap(pid_t pid)
{
	int status;

	CHECK(waitpid(pid, &status, 0) == pid);
	return WIFSIGNALED(status) ? -WTERMSIG(status) : WEXITSTATUS(status);
}

void ready_init(struct ready *r)
{
	CHECK(!pipe(r->p));
}

void ready_say(struct ready *r)
{
	EQ(write(r->p[1], "r", 1), 1);
	close(r->p[0]);
	close(r->p[1]);
}

void ready_wait(struct ready *r)
{
	char c;

	close(r->p[1]);
	EQ(read(r->p[0], &c, 1), 1);
	close(r->p[0]);
}

u8 *edge(void)
{
	u8 *p = mmap(NULL, 2 * PAGE, PROT_READ | PROT_WRITE,
		     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	CHECK(p != MAP_FAILED);
	memset(p, 0, 2 * PAGE);
	munmap(p + PAGE, PAGE);
	return p;
}

u64 pinned(void)
{
	struct fluxonkv_features f = { .size = sizeof(f) };
	int fd = open("/dev/fluxonkv", O_RDWR | O_CLOEXEC);

	CHECK(fd >= 0);
	EQ(ask(fd, FLUXONKV_IOC_FEATURES, &f), 0);
	close(fd);
	return f.pinned;
}

int refcnt(void)
{
	FILE *f = fopen("/sys/module/fluxonkv/refcnt", "r");
	int n = -1;

	if (f && fscanf(f, "%d", &n) != 1)
		n = -1;
	if (f)
		fclose(f);
	return n;
}

void test_fail(const char *file, int line, const char *format, ...)
{
	int err = errno;
	char text[512];
	va_list args;

	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	printf("    %s:%d: %s (errno: %s)\n", file, line, text, strerror(err));
	fflush(stdout);
	_exit(1);
}

void test_skip(const char *why)
{
	printf("    skipped: %s\n", why);
	fflush(stdout);
	_exit(SKIPPED);
}

static void child(const struct test *t)
{
	setpgid(0, 0);
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	t->fn();
	fflush(stdout);
	_exit(0);
}

static bool nothing_left(void *arg)
{
	(void)arg;
	return !refcnt() && !pinned();
}

/* Why it failed, or NULL. */
static const char *judge(pid_t pid, u32 seconds, int *status)
{
	u64 end = now_ns() + seconds * SEC_NS;

	while (!waitpid(pid, status, WNOHANG)) {
		if (now_ns() > end) {
			kill(-pid, SIGKILL);
			sleep_ms(5000);
			return waitpid(pid, status, WNOHANG) ?
				"took too long" : "hangs, also when killed";
		}
		sleep_ms(3);
	}
	kill(-pid, SIGKILL);
	if (WIFSIGNALED(*status))
		return strsignal(WTERMSIG(*status));
	if (WEXITSTATUS(*status) && WEXITSTATUS(*status) != SKIPPED)
		return "see above";
	return wait_until(nothing_left, NULL, 10000) ? NULL :
		"pinned bytes or references are left";
}

static bool run_one(const struct test *t)
{
	u64 began = now_ns();
	const char *why;
	int status = 0;
	pid_t pid;

	fflush(stdout);
	pid = fork();
	if (!pid)
		child(t);
	setpgid(pid, pid);
	why = judge(pid, t->seconds ? t->seconds : 60, &status);
	if (why)
		printf("FAIL %s: %s (refcnt %d)\n", t->name, why, refcnt());
	else
		printf("ok %s (%.1f s)\n", t->name,
		       (double)(now_ns() - began) / 1e9);
	fflush(stdout);
	return !why;
}

static bool wanted(const char *name, int argc, char **argv)
{
	for (int i = 1; i < argc; i++)
		if (!strcmp(argv[i], name))
			return true;
	return argc < 2;
}

int tests_run(const struct test *tests, u32 n, int argc, char **argv)
{
	u32 run = 0, failed = 0;

	setbuf(stdout, NULL);
	for (u32 i = 0; i < n; i++) {
		if (!wanted(tests[i].name, argc, argv))
			continue;
		run++;
		failed += !run_one(&tests[i]);
	}
	printf("%u tests, %u failed\n", run, failed);
	return failed || !run;
}

static int log_end(void)
{
	int fd = open("/dev/kmsg", O_RDONLY | O_NONBLOCK | O_CLOEXEC);

	CHECK(fd >= 0);
	lseek(fd, 0, SEEK_END);
	return fd;
}

int tests_run_silent(const struct test *tests, u32 n, int argc, char **argv)
{
	char line[512];
	int fd = log_end(), ret = tests_run(tests, n, argc, argv);
	ssize_t got = read(fd, line, sizeof(line) - 1);

	close(fd);
	if (got <= 0)
		return ret;
	line[got] = 0;
	printf("FAIL log_is_silent: %s\n", line);
	return 1;
}
