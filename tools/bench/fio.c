// SPDX-License-Identifier: Apache-2.0
/*
 * fio.c - run fio(1) and read its JSON
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bench/bench.h"
#include "bench/fio.h"
#include "bench/host.h"

#define FILE_NAME	"fluxonkv-bench-fio.dat"
#define OUTPUT_MAX	(1u << 20)

extern char **environ;

static int spawn_fio(const struct bench_fio *f, int out, pid_t *ret_pid)
{
	char bs[48], size[48], depth[32], jobs[32], runtime[48];
	char *argv[] = {
		"fio", "--name=randread", "--output-format=json",
		"--ioengine=io_uring", "--direct=1", "--rw=randread",
		"--time_based", "--group_reporting", "--norandommap",
		"--filename=" FILE_NAME, bs, size, depth, jobs, runtime, NULL,
	};
	posix_spawn_file_actions_t fa;
	int res;

	snprintf(bs, sizeof(bs), "--bs=%" PRIu64, f->block_bytes);
	snprintf(size, sizeof(size), "--size=%" PRIu64, f->file_bytes);
	snprintf(depth, sizeof(depth), "--iodepth=%u", f->depth);
	snprintf(jobs, sizeof(jobs), "--numjobs=%u", f->jobs);
	snprintf(runtime, sizeof(runtime), "--runtime=%.0fms",
		 f->seconds * 1000);
	res = posix_spawn_file_actions_init(&fa);
	if (res)
		return -res;
	/* In its directory, for fio splits names at colons. */
	res = posix_spawn_file_actions_addchdir_np(&fa, f->dir);
	if (!res)
		res = posix_spawn_file_actions_adddup2(&fa, out, STDOUT_FILENO);
	if (!res)
		res = posix_spawnp(ret_pid, argv[0], &fa, NULL, argv, environ);
	posix_spawn_file_actions_destroy(&fa);
	return -res;
}

static char *read_all(int fd)
{
	char *text = malloc(OUTPUT_MAX + 1);
	size_t have = 0;
	ssize_t n;

	if (!text)
		return NULL;
	while (have < OUTPUT_MAX) {
		n = read(fd, text + have, OUTPUT_MAX - have);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			break;
		have += (size_t)n;
	}
	text[have] = '\0';
	return text;
}

static struct json_object *at(struct json_object *o, const char *field)
{
	struct json_object *v = NULL;

	if (o)
		json_object_object_get_ex(o, field, &v);
	return v;
}

static int parse(const char *text, struct bench_fio_result *ret)
{
	/* Notes of fio may come before the object. */
	const char *brace = strchr(text, '{');
	struct json_object *o = brace ? json_tokener_parse(brace) : NULL;
	struct json_object *jobs = at(o, "jobs"), *read_o, *percentiles;

	if (!jobs || !json_object_is_type(jobs, json_type_array) ||
	    !json_object_array_length(jobs)) {
		json_object_put(o);
		return -EIO;
	}
	read_o = at(json_object_array_get_idx(jobs, 0), "read");
	percentiles = at(at(read_o, "clat_ns"), "percentile");
	ret->gib_per_second = json_object_get_double(at(read_o, "bw_bytes")) /
			      (double)BENCH_GIB;
	ret->iops = json_object_get_double(at(read_o, "iops"));
	ret->p50_ns = json_object_get_uint64(at(percentiles, "50.000000"));
	ret->p99_ns = json_object_get_uint64(at(percentiles, "99.000000"));
	json_object_put(o);
	return ret->gib_per_second > 0 ? 0 : -EIO;
}

static void remove_file(const struct bench_fio *f)
{
	char path[4200];

	snprintf(path, sizeof(path), "%s/%s", f->dir, FILE_NAME);
	unlink(path);
}

int bench_fio_run(const struct bench_fio *fio, struct bench_fio_result *ret)
{
	int fds[2], status = -1, res;
	struct stat st;
	char *text;
	pid_t pid;

	memset(ret, 0, sizeof(*ret));
	if (stat(fio->dir, &st))
		return -EIO;		/* not to be taken for "no fio" */
	if (pipe2(fds, O_CLOEXEC))
		return -errno;
	res = spawn_fio(fio, fds[1], &pid);
	close(fds[1]);
	if (res) {
		close(fds[0]);
		return res;
	}
	text = read_all(fds[0]);
	close(fds[0]);
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	res = !text ? -ENOMEM : status ? -EIO : parse(text, ret);
	free(text);
	remove_file(fio);
	return res;
}

void bench_fio_report(struct bench_report *r, const struct bench_fio *fio)
{
	struct bench_fio_result result;
	struct json_object *row;
	char fs[64];
	int res;

	bench_report_progress(r, "fio, %" PRIu64 " bytes, depth %u",
			      fio->block_bytes, fio->depth);
	res = bench_fio_run(fio, &result);
	if (res == -ENOENT) {
		bench_report_note(r, "fio is not installed: the disk's own "
				  "limit is not measured");
		return;
	}
	if (res) {
		bench_report_fail(r, "fio in %s failed: %s", fio->dir,
				  strerror(-res));
		return;
	}
	row = json_object_new_object();
	bench_host_filesystem(fio->dir, fs, sizeof(fs));
	bench_row_text(row, "op", "fio_randread");
	bench_row_count(row, "value_bytes", fio->block_bytes);
	bench_row_count(row, "batch", fio->depth);
	bench_row_count(row, "threads", fio->jobs);
	bench_row_text(row, "filesystem", fs);
	bench_row_number(row, "window_seconds", fio->seconds);
	bench_row_number(row, "gib_per_second", result.gib_per_second);
	bench_row_number(row, "calls_per_second", result.iops);
	bench_row_count(row, "latency_p50_ns", result.p50_ns);
	bench_row_count(row, "latency_p99_ns", result.p99_ns);
	bench_report_row(r, row);
}
