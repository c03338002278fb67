/* SPDX-License-Identifier: Apache-2.0 */
/*
 * spawn.h - a daemon of one's own for a measurement
 *
 * Started standalone with a socket, log and working directory of its own
 * under $TMPDIR, and stopped by its process id. It dies with the benchmark.
 */
#ifndef FKV_BENCH_SPAWN_H
#define FKV_BENCH_SPAWN_H

#include <stdint.h>
#include <sys/types.h>

struct bench_daemon {
	pid_t pid;			/* 0: none is running */
	char dir[128];
	char address[160];		/* "unix:..." */
	char log[160];
};

struct bench_daemon_config {
	const char *path;		/* of fluxonkvd */
	uint64_t memory_bytes;
	const char *ssd_dir;		/* NULL: no SSD tier */
	uint64_t ssd_bytes;
	const char *set;		/* NULL, or KEY=VALUE[,KEY=VALUE]... */
};

/*
 * Start and wait until it serves, at most 300 s (its memory is touched first).
 * 0 or -errno; the reason is said on stderr.
 */
int bench_daemon_start(struct bench_daemon *d,
		       const struct bench_daemon_config *config);

/*
 * SIGTERM, after 60 s SIGKILL. 0 when it ended by itself with status 0, else
 * -EIO; its log is kept then and named on stderr. Nothing when none runs.
 */
int bench_daemon_stop(struct bench_daemon *d);

#endif
