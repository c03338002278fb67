// SPDX-License-Identifier: Apache-2.0
/*
 * spawn.c - a daemon of one's own for a measurement
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fluxonkv.h>

#include "bench/run.h"
#include "bench/spawn.h"

#define START_MAX_NS	(300 * BENCH_SEC_NS)
#define STOP_MAX_NS	(60 * BENCH_SEC_NS)
#define POLL_NS		(20 * 1000000ULL)
#define ARGS_MAX	48

static void show_log(const struct bench_daemon *d)
{
	FILE *f = fopen(d->log, "re");
	char line[512];

	if (!f)
		return;
	fprintf(stderr, "fluxonkv-bench: the daemon said:\n");
	while (fgets(line, sizeof(line), f))
		fprintf(stderr, "  %s", line);
	fclose(f);
}

static int make_dir(struct bench_daemon *d)
{
	const char *tmp = getenv("TMPDIR");

	snprintf(d->dir, sizeof(d->dir), "%s/fluxonkv-bench.XXXXXX",
		 tmp && strlen(tmp) < 80 ? tmp : "/tmp");
	if (!mkdtemp(d->dir))
		return -errno;
	snprintf(d->address, sizeof(d->address), "unix:%s/socket", d->dir);
	snprintf(d->log, sizeof(d->log), "%s/log", d->dir);
	return 0;
}

static unsigned int add_sets(char **argv, unsigned int n, char *set)
{
	char *save, *item;

	for (item = strtok_r(set, ",", &save); item && n < ARGS_MAX - 2;
	     item = strtok_r(NULL, ",", &save)) {
		argv[n++] = "--set";
		argv[n++] = item;
	}
	return n;
}

static void exec_daemon(const struct bench_daemon *d,
			const struct bench_daemon_config *c)
{
	char memory[32], ssd[4200], *argv[ARGS_MAX + 1] = { 0 };
	unsigned int n = 0;
	int fd;

	prctl(PR_SET_PDEATHSIG, SIGTERM);
	fd = open(d->log, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	if (fd < 0 || dup2(fd, STDOUT_FILENO) < 0 ||
	    dup2(fd, STDERR_FILENO) < 0)
		_exit(126);
	snprintf(memory, sizeof(memory), "%" PRIu64, c->memory_bytes);
	argv[n++] = (char *)c->path;
	argv[n++] = "--standalone";
	argv[n++] = "--metrics";
	argv[n++] = "none";
	argv[n++] = "--socket";
	argv[n++] = (char *)d->address + strlen("unix:");
	argv[n++] = "--memory";
	argv[n++] = memory;
	if (c->ssd_dir) {
		snprintf(ssd, sizeof(ssd), "%s:%" PRIu64, c->ssd_dir,
			 c->ssd_bytes);
		argv[n++] = "--ssd";
		argv[n++] = ssd;
	}
	if (c->set)
		add_sets(argv, n, strdup(c->set));
	execvp(argv[0], argv);
	dprintf(STDERR_FILENO, "%s: %s\n", argv[0], strerror(errno));
	_exit(127);
}

static int wait_serving(struct bench_daemon *d)
{
	uint64_t until = bench_now_ns() + START_MAX_NS;
	struct fluxonkv *client;

	while (bench_now_ns() < until) {
		if (waitpid(d->pid, NULL, WNOHANG) == d->pid) {
			d->pid = 0;
			return -ECHILD;
		}
		if (!fluxonkv_open(d->address, &client)) {
			fluxonkv_close(client);
			return 0;
		}
		bench_sleep_until_ns(bench_now_ns() + POLL_NS);
	}
	return -ETIMEDOUT;
}

/* Ours and what the daemon left beside its socket (its lock). */
static void remove_dir(const struct bench_daemon *d)
{
	DIR *dir = opendir(d->dir);
	struct dirent *e;

	if (!dir)
		return;
	while ((e = readdir(dir)))
		(void)unlinkat(dirfd(dir), e->d_name, 0);
	closedir(dir);
	(void)rmdir(d->dir);
}

int bench_daemon_start(struct bench_daemon *d,
		       const struct bench_daemon_config *config)
{
	int res;

	memset(d, 0, sizeof(*d));
	if (config->ssd_dir && mkdir(config->ssd_dir, 0700) && errno != EEXIST)
		res = -errno;
	else
		res = make_dir(d);
	if (res) {
		fprintf(stderr, "fluxonkv-bench: cannot make a directory for "
			"the daemon: %s\n", strerror(-res));
		return res;
	}
	fflush(NULL);
	d->pid = fork();
	if (!d->pid)
		exec_daemon(d, config);
	res = d->pid < 0 ? -errno : wait_serving(d);
	if (!res)
		return 0;
	fprintf(stderr, "fluxonkv-bench: %s %s\n", config->path,
		res == -ECHILD ? "ended before it served" :
		res == -ETIMEDOUT ? "does not serve after 300 s" :
		"cannot be started");
	show_log(d);
	if (d->pid > 0)
		bench_daemon_stop(d);
	else
		remove_dir(d);
	return res;
}

int bench_daemon_stop(struct bench_daemon *d)
{
	uint64_t until = bench_now_ns() + STOP_MAX_NS;
	int status = -1;
	pid_t ended = 0;

	if (d->pid <= 0)
		return 0;
	kill(d->pid, SIGTERM);
	while (!ended && bench_now_ns() < until) {
		ended = waitpid(d->pid, &status, WNOHANG);
		if (!ended)
			bench_sleep_until_ns(bench_now_ns() + POLL_NS);
	}
	if (!ended) {
		kill(d->pid, SIGKILL);
		waitpid(d->pid, &status, 0);
	}
	d->pid = 0;
	if (!status) {
		remove_dir(d);
		return 0;
	}
	fprintf(stderr, "fluxonkv-bench: the daemon %s; its log: %s\n",
		ended ? "did not end well" : "did not end within 60 s",
		d->log);
	show_log(d);
	return -EIO;
}
