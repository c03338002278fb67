// SPDX-License-Identifier: Apache-2.0
/*
 * limits.c - what memory, disk and sockets can do on this host
 *
 * The figures that results of the same run are divided by.
 */
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bench/args.h"
#include "bench/bench.h"
#include "bench/fio.h"
#include "bench/host.h"

#define CACHE_TIMES	4u		/* a buffer is at least so many caches */
#define BUFFER_MIN	(512 * BENCH_MIB)
#define MESSAGE		64u		/* bytes of a round trip */
#define PAGE		4096u

struct limits {
	struct bench_common common;
	struct bench_list sizes, threads, depths;
	const char *fio_dir;
	uint64_t fio_file, buffer;

	struct bench_report report;
};

/* Copies in pieces, the source always cold. */
struct copying {
	char *from;			/* bytes, shared by the threads */
	char *to;			/* NULL: each thread reuses one piece */
	uint64_t bytes;
	uint64_t piece;
	unsigned int threads;
};

static const struct bench_column columns[] = {
	{ "op", "op", BENCH_COL_TEXT },
	{ "value_bytes", "piece", BENCH_COL_BYTES },
	{ "batch", "depth", BENCH_COL_COUNT },
	{ "threads", "threads", BENCH_COL_COUNT },
	{ "gib_per_second", "GiB/s", BENCH_COL_NUMBER },
	{ "calls_per_second", "per second", BENCH_COL_COUNT },
	{ "latency_p50_ns", "p50", BENCH_COL_NS },
	{ "latency_p99_ns", "p99", BENCH_COL_NS },
	{ NULL, NULL, 0 },
};

static double gib_per_second(uint64_t bytes, double seconds)
{
	return seconds > 0 ? (double)bytes / (double)BENCH_GIB / seconds : 0;
}

static int copy_start(struct bench_worker *w)
{
	const struct copying *c = w->run->context;
	char *to = malloc(c->piece);

	if (!to)
		return -ENOMEM;
	memset(to, 1, c->piece);
	w->state = to;
	/* Shared pages are not mapped anew by fork: not in the window then. */
	if (!w->thread) {
		(void)madvise(c->from, c->bytes, MADV_POPULATE_READ);
		if (c->to)
			(void)madvise(c->to, c->bytes, MADV_POPULATE_WRITE);
	}
	return 0;
}

static void copy_stop(struct bench_worker *w)
{
	free(w->state);
}

/* Each thread walks its own share, so that no piece is warm. */
static void copy_op(struct bench_worker *w)
{
	const struct copying *c = w->run->context;
	uint64_t share = c->bytes / c->threads / c->piece;
	uint64_t at = (w->thread * share + w->i % share) * c->piece;
	char *to = c->to ? c->to + at : w->state;
	uint64_t start = bench_now_ns();

	memcpy(to, c->from + at, c->piece);
	__asm__ __volatile__("" : : "r"(to) : "memory");
	bench_worker_call(w, start, bench_now_ns());
	bench_worker_key(w, 0, FLUXONKV_SERVED_LOCAL, c->piece);
}

static const struct bench_work copy_work = {
	.start = copy_start,
	.stop = copy_stop,
	.op = copy_op,
};

static void row_copy(struct limits *l, const struct copying *c,
		     const struct bench_outcome *o)
{
	struct json_object *row = json_object_new_object();
	double seconds = o->window_s > 0 ? o->window_s : 1;

	bench_row_text(row, "op", c->to ? "memcpy_cold" : "memcpy_reused");
	bench_row_text(row, "destination", c->to ? "cold" : "reused");
	bench_row_count(row, "value_bytes", c->piece);
	bench_row_count(row, "threads", c->threads);
	bench_row_count(row, "buffer_bytes", c->bytes);
	bench_row_count(row, "cache_bytes", bench_host_cache_bytes());
	bench_row_number(row, "window_seconds", o->window_s);
	bench_row_number(row, "gib_per_second",
			 gib_per_second(o->all.bytes, seconds));
	bench_row_number(row, "calls_per_second",
			 (double)o->all.calls / seconds);
	bench_row_latency(row, &o->all.latency);
	bench_report_row(&l->report, row);
}

static void measure_copy(struct limits *l, struct copying *c)
{
	struct bench_run run = {
		.work = &copy_work, .context = c, .processes = 1,
		.threads = c->threads, .seconds = l->common.seconds,
		.warmup = l->common.warmup, .no_client = true,
	};
	struct bench_outcome o;
	int res;

	if (c->bytes / c->threads < c->piece)
		return;		/* no thread would have a piece of its own */
	bench_report_progress(&l->report, "memcpy, %" PRIu64 " bytes, %u "
			      "threads", c->piece, c->threads);
	res = bench_run(&run, &o);
	if (res)
		bench_report_fail(&l->report, "memcpy: %s", strerror(-res));
	else
		row_copy(l, c, &o);
}

static void row_touch(struct limits *l, const char *op, uint64_t bytes,
		      uint64_t ns)
{
	struct json_object *row = json_object_new_object();

	bench_row_text(row, "op", op);
	bench_row_count(row, "value_bytes", PAGE);
	bench_row_count(row, "threads", 1);
	bench_row_count(row, "buffer_bytes", bytes);
	bench_row_number(row, "window_seconds", (double)ns / 1e9);
	bench_row_number(row, "gib_per_second",
			 gib_per_second(bytes, (double)ns / 1e9));
	bench_row_number(row, "calls_per_second",
			 (double)bytes / PAGE / ((double)ns / 1e9));
	bench_report_row(&l->report, row);
}

/*
 * Map @bytes, touch each page and report how fast that was. Shared, so that
 * the children of a run use these pages and not copies of them.
 */
static char *touched(struct limits *l, const char *op, int fd, uint64_t bytes)
{
	int flags = fd < 0 ? MAP_SHARED | MAP_ANONYMOUS : MAP_SHARED;
	char *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, flags, fd, 0);
	uint64_t start = bench_now_ns();

	if (p == MAP_FAILED) {
		bench_report_fail(&l->report, "%s: %s", op, strerror(errno));
		return NULL;
	}
	for (uint64_t at = 0; at < bytes; at += PAGE)
		((volatile char *)p)[at] = (char)at;
	row_touch(l, op, bytes, bench_now_ns() - start);
	return p;
}

static void touch_private(struct limits *l, uint64_t bytes)
{
	char *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
		       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	uint64_t start = bench_now_ns();

	if (p == MAP_FAILED) {
		bench_report_fail(&l->report, "mmap: %s", strerror(errno));
		return;
	}
	for (uint64_t at = 0; at < bytes; at += PAGE)
		((volatile char *)p)[at] = (char)at;
	row_touch(l, "first_touch_private", bytes, bench_now_ns() - start);
	munmap(p, bytes);
}

static void all_copies(struct limits *l, struct copying *c)
{
	char *to = c->to;

	for (unsigned int i = 0; i < l->sizes.n; i++) {
		for (unsigned int t = 0; t < l->threads.n; t++) {
			c->piece = l->sizes.v[i];
			c->threads = (unsigned int)l->threads.v[t];
			c->to = to;
			measure_copy(l, c);
			c->to = NULL;
			measure_copy(l, c);
			c->to = to;
		}
	}
}

/* First touch of both kinds of memory, then copies between them. */
static void memory(struct limits *l)
{
	struct copying c = { .bytes = l->buffer };
	int fd = memfd_create("fluxonkv-bench", MFD_CLOEXEC);

	bench_report_progress(&l->report, "first touch of memory");
	touch_private(l, c.bytes);
	if (fd < 0 || ftruncate(fd, (off_t)c.bytes)) {
		bench_report_fail(&l->report, "memfd: %s", strerror(errno));
	} else {
		c.from = touched(l, "first_touch_memfd", fd, c.bytes);
		c.to = touched(l, "first_touch_shared", -1, c.bytes);
	}
	if (c.from && c.to)
		all_copies(l, &c);
	if (c.from)
		munmap(c.from, c.bytes);
	if (c.to)
		munmap(c.to, c.bytes);
	if (fd >= 0)
		close(fd);
}

static void echo(int fd)
{
	char message[MESSAGE];
	ssize_t n;

	while ((n = recv(fd, message, sizeof(message), 0)) > 0)
		if (send(fd, message, (size_t)n, MSG_NOSIGNAL) != n)
			break;
	_exit(0);
}

static int round_trips(int fd, double seconds, struct bench_hist *h)
{
	uint64_t until = bench_now_ns() + (uint64_t)(seconds * 1e9), start;
	char message[MESSAGE] = { 0 };

	do {
		start = bench_now_ns();
		if (send(fd, message, MESSAGE, MSG_NOSIGNAL) != MESSAGE ||
		    recv(fd, message, MESSAGE, MSG_WAITALL) != MESSAGE)
			return -EIO;
		bench_hist_add(h, bench_now_ns() - start);
	} while (bench_now_ns() < until);
	return 0;
}

static void row_socket(struct limits *l, const struct bench_hist *h)
{
	struct json_object *row = json_object_new_object();

	bench_row_text(row, "op", "socket_round_trip");
	bench_row_count(row, "value_bytes", MESSAGE);
	bench_row_count(row, "threads", 1);
	bench_row_number(row, "calls_per_second",
			 (double)h->count / l->common.seconds);
	bench_row_latency(row, h);
	bench_report_row(&l->report, row);
}

static void socket_trip(struct limits *l)
{
	struct bench_hist *h = calloc(1, sizeof(*h));
	int fds[2], res = -ENOMEM;
	pid_t pid;

	bench_report_progress(&l->report, "round trips over a unix socket");
	if (!h || socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds)) {
		bench_report_fail(&l->report, "socketpair: %s",
				  strerror(errno));
		free(h);
		return;
	}
	fflush(NULL);
	pid = fork();
	if (!pid) {
		close(fds[0]);
		echo(fds[1]);
	}
	close(fds[1]);
	if (pid > 0)
		res = round_trips(fds[0], l->common.seconds, h);
	close(fds[0]);
	if (pid > 0)
		waitpid(pid, NULL, 0);
	if (res)
		bench_report_fail(&l->report, "the round trip failed");
	else
		row_socket(l, h);
	free(h);
}

static void disk(struct limits *l)
{
	if (!l->fio_dir) {
		bench_report_note(&l->report, "without --fio DIR the disk is "
				  "not measured");
		return;
	}
	for (unsigned int i = 0; i < l->sizes.n; i++) {
		for (unsigned int d = 0; d < l->depths.n; d++) {
			struct bench_fio f = {
				.dir = l->fio_dir,
				.file_bytes = l->fio_file,
				.block_bytes = l->sizes.v[i],
				.depth = (unsigned int)l->depths.v[d],
				.jobs = 1,
				.seconds = l->common.seconds,
			};

			bench_fio_report(&l->report, &f);
		}
	}
}

static int parse(struct limits *l, int argc, char **argv)
{
	const struct bench_opt opts[] = {
		BENCH_COMMON_OPTS(&l->common),
		{ "sizes", BENCH_SIZES, &l->sizes, "LIST",
		  "pieces of memory and disk (64k,1m,4m,16m)",
		  PAGE, BENCH_GIB },
		{ "threads", BENCH_COUNTS, &l->threads, "LIST",
		  "threads of memcpy (1,2)", 1, BENCH_THREADS_MAX },
		{ "buffer", BENCH_SIZE, &l->buffer, "SIZE",
		  "each of two buffers (512 MiB, or 4 caches)",
		  BENCH_MIB, 1ULL << 40 },
		{ "fio", BENCH_STRING, &l->fio_dir, "DIR",
		  "measure the disk of DIR with fio", 0, 0 },
		{ "fio-file", BENCH_SIZE, &l->fio_file, "SIZE",
		  "size of its file (2GiB)", BENCH_MIB, 1ULL << 44 },
		{ "depths", BENCH_COUNTS, &l->depths, "LIST",
		  "reads in flight of fio (1,4,16)", 1, 4096 },
		{ .name = NULL },
	};

	return bench_args_parse(argc, argv, opts, "Limits of this host: "
		"memcpy, first touch, unix socket, disk (fio).");
}

static int check(const struct limits *l)
{
	if (l->common.warmup >= l->common.seconds)
		return bench_args_fail("limits", "--warmup must be shorter "
				       "than --seconds");
	for (unsigned int i = 0; i < l->sizes.n; i++)
		if (l->sizes.v[i] % PAGE)
			return bench_args_fail("limits", "--sizes: %" PRIu64
				" is not a multiple of %u", l->sizes.v[i],
				PAGE);
	return 0;
}

int bench_limits(int argc, char **argv)
{
	static struct limits l = {
		.common = { .seconds = 3, .warmup = 0.5 },
		.sizes = { { 64 << 10, 1 << 20, 4 << 20, 16 << 20 }, 4 },
		.threads = { { 1, 2 }, 2 },
		.depths = { { 1, 4, 16 }, 3 },
		.fio_file = 2 * BENCH_GIB,
	};
	uint64_t least = CACHE_TIMES * bench_host_cache_bytes();
	int res = parse(&l, argc, argv);

	if (res)
		return res == BENCH_ARGS_HELP ? 0 : 2;
	res = check(&l);
	if (res)
		return res;
	if (bench_report_init(&l.report, "limits", columns, l.common.json,
			      l.common.quiet))
		return 1;
	if (!l.buffer)
		l.buffer = least > BUFFER_MIN ? least / PAGE * PAGE :
						BUFFER_MIN;
	else if (l.buffer < least)
		bench_report_note(&l.report, "--buffer is smaller than %u "
				  "caches: figures will flatter", CACHE_TIMES);
	if (3 * l.buffer > bench_host_available_bytes())
		bench_report_note(&l.report, "two buffers of %" PRIu64
				  " bytes may not fit in memory", l.buffer);
	memory(&l);
	socket_trip(&l);
	disk(&l);
	return bench_report_done(&l.report);
}
