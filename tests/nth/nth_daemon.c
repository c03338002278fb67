// SPDX-License-Identifier: Apache-2.0
/*
 * nth_daemon DIR - the daemon of a build directory, its allocations failing
 *
 * One after the other, and a hundred in a row, while a client puts, gets,
 * lists, and drives values to SSD and back. It answers with an error, and goes
 * on; it never ends itself.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "failmalloc.h"
#include "fluxonkv.h"
#include "nth.h"

#define BIG	(512u << 10)
#define KEYS	24u
#define BATCH	20u
#define REST	100u		/* how many fail, from one on */

static char dir[64], path[96], address[112], log_path[96], so[512];
static char program[512], ssd[112];
static struct failmalloc *fail;
static pid_t pid;
static struct fluxonkv *c;
static uint8_t data[BIG], got[BIG];
static bool gone;			/* the daemon; no more calls */

static bool harmless(int err)
{
	return !err || err == -ENOMEM || err == -ENOTCONN || err == -ENOENT ||
	       err == -ETIMEDOUT || err == -EAGAIN || err == -ECONNREFUSED ||
	       err == -ECONNRESET || err == -EIO || err == -ENOSPC;
}

static bool ok(const char *call, int err)
{
	nth_check(harmless(err), "%s returns %d: %s", call, err,
		  fluxonkv_last_error());
	nth_check(!err || fail->failed, "%s returns %d of no failure", call,
		  err);
	gone = gone || err == -ENOTCONN || err == -ETIMEDOUT;
	return !err;
}

static void run_daemon(void)
{
	int fd = open(log_path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
	const struct rlimit no_core = { 0, 0 };

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	setrlimit(RLIMIT_CORE, &no_core);
	dup2(fd, 2);
	setenv("LD_PRELOAD", so, 1);
	execl(program, program, "--standalone", "--socket", path, "--metrics",
	      "none", "--memory", "8MiB", "--ssd", ssd, "--io-engine",
	      "threads", (char *)NULL);
	_exit(127);
}

static bool start(void)
{
	fail->at = 0;
	pid = fork();
	if (!pid)
		run_daemon();
	for (int i = 0; i < 500; i++) {
		if (!fluxonkv_open(address, &c)) {
			fluxonkv_close(c);
			return true;
		}
		usleep(10000);
	}
	return false;
}

/* ---- what a client does ---- */

static void put_get(unsigned int i, uint64_t len)
{
	char key[16];
	uint64_t n;

	snprintf(key, sizeof(key), "key%u", i);
	memset(data, (int)(i + 1), len);
	if (gone || !ok("put", fluxonkv_put(c, key, strlen(key), data, len,
					     0)))
		return;
	memset(got, 0, len);
	if (ok("get", fluxonkv_get_into(c, key, strlen(key), got, len, &n)))
		nth_check(n == len && !memcmp(data, got, len),
			  "%s: another value", key);
}

static void get_again(unsigned int i)
{
	struct fluxonkv_holder h;
	const uint8_t *p;
	char key[16];

	snprintf(key, sizeof(key), "key%u", i);
	if (gone || !ok("get", fluxonkv_get(c, key, strlen(key), &h)))
		return;
	p = h.data;
	nth_check(h.len == BIG && p[0] == i + 1 && p[BIG - 1] == i + 1,
		  "%s: another value from SSD", key);
	fluxonkv_release(c, &h);
}

static void batch(void)
{
	struct fluxonkv_value v[BATCH];
	struct fluxonkv_key keys[BATCH];
	char name[BATCH][16];
	int status[BATCH];

	memset(v, 0, sizeof(v));
	for (unsigned int i = 0; i < BATCH; i++) {
		snprintf(name[i], sizeof(name[i]), "batch%u", i);
		keys[i] = (struct fluxonkv_key){ name[i], strlen(name[i]) };
		v[i].key = keys[i];
		v[i].data = data;
		v[i].len = 5000;
	}
	ok("put_many", fluxonkv_put_many(c, v, BATCH));
	if (!gone)
		ok("delete_many", fluxonkv_delete_many(c, keys, BATCH, status));
}

static void all_calls(void)
{
	static struct fluxonkv_listed_key listed[100];
	struct fluxonkv_stat st;
	char *text = NULL;
	uint64_t n;
	size_t nr;

	put_get(100, 100);
	if (!gone)
		batch();
	for (unsigned int i = 0; i < KEYS; i++)
		put_get(i, BIG);
	for (unsigned int i = 0; i < KEYS; i++)
		get_again(i);
	if (gone)
		return;
	if (ok("stat", fluxonkv_stat(c, "key1", 4, &st)) || !gone)
		ok("list", fluxonkv_list(c, NULL, NULL, listed, 100, &nr));
	if (!gone)
		ok("count", fluxonkv_count(c, NULL, 0, &n));
	if (!gone)
		ok("admin", fluxonkv_admin(c, "status", NULL, &text));
	free(text);
	if (!gone)
		ok("delete", fluxonkv_delete(c, "key1", 4));
}

/* ---- how it ends ---- */

/* The daemon is gone: why? */
static void ended(int status)
{
	FILE *f = fopen(log_path, "re");
	char line[400], last[400] = "it said nothing";

	while (f && fgets(line, sizeof(line), f))
		if (strstr(line, "impossible state"))
			snprintf(last, sizeof(last), "%.399s", line);
	if (f)
		fclose(f);
	last[strcspn(last, "\n")] = '\0';
	nth_wrong("the daemon ended with %#x: %s", status, last);
	nth_check(start(), "the daemon does not start again");
}

static bool says(const char *word, const char *part)
{
	char *text = NULL;
	bool yes = !fluxonkv_admin(c, word, NULL, &text) && text &&
		   strstr(text, part);

	free(text);
	return yes;
}

/* Its sockets close before it is there to be waited for. */
static bool has_ended(int *ret_status)
{
	for (int i = 0; i < 300; i++) {
		if (waitpid(pid, ret_status, WNOHANG) == pid)
			return true;
		if (!fluxonkv_open(address, &c)) {
			fluxonkv_close(c);
			return false;
		}
		usleep(10000);
	}
	return false;
}

static void afterwards(void)
{
	int status;

	fail->at = 0;
	/* what it allocates later may have met it, too */
	usleep(1000);
	if (has_ended(&status)) {
		ended(status);
		return;
	}
	gone = false;
	fail->failed = 0;
	if (!ok("open afterwards", fluxonkv_open(address, &c)))
		return;
	put_get(200, 3000);
	nth_check(says("check", "true"), "accounts do not balance");
	/* want of memory is no fault of the device's */
	nth_check(says("ssd", "\"on\""), "the device is off");
	ok("delete afterwards", fluxonkv_delete(c, "key200", 6));
	fluxonkv_close(c);
}

static void scenario(void *arg)
{
	(void)arg;
	gone = false;
	fail->failed = 0;
	fail->count = 0;
	fail->until = nth.n + (nth.what == NTH_REST ? REST : 1);
	fail->at = nth.n;
	if (ok("open", fluxonkv_open(address, &c))) {
		/* also how long the library tries to come back */
		fluxonkv_set_timeout(c, nth.what == NTH_REST ? 50 : 200);
		all_calls();
		fluxonkv_close(c);
	}
	afterwards();
}

static bool prepare(const char *build)
{
	char file[96];
	int fd;

	strcpy(dir, "/var/tmp/fkv-nth-XXXXXX");
	if (!mkdtemp(dir))
		return false;
	snprintf(path, sizeof(path), "%s/s", dir);
	snprintf(address, sizeof(address), "unix:%s", path);
	snprintf(log_path, sizeof(log_path), "%s/log", dir);
	snprintf(ssd, sizeof(ssd), "%s/ssd", dir);
	if (mkdir(ssd, 0700))
		return false;
	strcat(ssd, ":64MiB");
	snprintf(program, sizeof(program), "%s/fluxonkvd", build);
	snprintf(so, sizeof(so), "%s/tests/nth/failmalloc.so", build);
	snprintf(file, sizeof(file), "%s/fail", dir);
	setenv(FAILMALLOC_FILE, file, 1);
	fd = open(file, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	if (fd < 0 || ftruncate(fd, sizeof(*fail)))
		return false;
	fail = mmap(NULL, sizeof(*fail), PROT_READ | PROT_WRITE, MAP_SHARED,
		    fd, 0);
	close(fd);
	return fail != MAP_FAILED;
}

static void cleanup(void)
{
	char cmd[128];

	if (pid > 0) {
		kill(pid, SIGTERM);
		waitpid(pid, NULL, 0);
	}
	snprintf(cmd, sizeof(cmd), "rm -rf '%s'", dir);
	if (system(cmd))
		perror(dir);
}

/* All of the first, then fewer: the later are much the same. */
static uint64_t next(uint64_t n)
{
	return n < 100 || getenv("NTH_ALL") ? n + 1 : n + n / 12;
}

int main(int argc, char **argv)
{
	char real[400];

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
	nth_skip("daemon", "a sanitizer's malloc cannot be preloaded over");
	return nth_end();
#endif
	if (argc != 2 || !realpath(argv[1], real) || !prepare(real)) {
		fprintf(stderr, "usage: nth_daemon BUILD-DIRECTORY\n");
		return EXIT_FAILURE;
	}
	if (start()) {
		nth_some("daemon", scenario, next, &fail->count);
	} else {
		nth.name = "daemon";
		nth_wrong("it does not start");
	}
	cleanup();
	return nth_end();
}
