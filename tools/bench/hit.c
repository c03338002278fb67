// SPDX-License-Identifier: Apache-2.0
/*
 * hit.c - latency of a hit in local memory
 *
 * Small values, all in memory, uniform random holders. Each process has one
 * busy connection; more may be open and idle, to see what they cost.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "bench/args.h"
#include "bench/bench.h"
#include "bench/data.h"
#include "bench/payload.h"

#define PREFIX		"fluxonkv_bench_local_"
#define CLOCK_ROUNDS	1000000u
#define IDLE_FDS	16u		/* at most, of one connection */

struct hit {
	struct bench_common common;
	struct bench_list keys;
	uint64_t value, threads, processes, clients;
	bool verify;

	struct bench_report report;
	struct bench_status status;
};

struct hitting {
	char (*names)[BENCH_KEY_MAX];
	uint64_t keys, value, idle;
	bool verify;
};

struct idlers {
	struct fluxonkv **clients;
	uint64_t n;
};

static const struct bench_column columns[] = {
	{ "keys", "keys", BENCH_COL_COUNT },
	{ "value_bytes", "value", BENCH_COL_BYTES },
	{ "processes", "processes", BENCH_COL_COUNT },
	{ "threads", "threads", BENCH_COL_COUNT },
	{ "clients", "clients", BENCH_COL_COUNT },
	{ "calls_per_second", "gets/s", BENCH_COL_COUNT },
	{ "local_hit_ratio", "local", BENCH_COL_PERCENT },
	{ "latency_p50_ns", "p50", BENCH_COL_NS },
	{ "latency_p99_ns", "p99", BENCH_COL_NS },
	{ "latency_p99_9_ns", "p99.9", BENCH_COL_NS },
	{ "latency_max_ns", "max", BENCH_COL_NS },
	{ "clock_ns", "clock", BENCH_COL_NS },
	{ "error", "errors", BENCH_COL_COUNT },
	{ NULL, NULL, 0 },
};

/* The first thread opens the connections that stay idle. */
static int hit_start(struct bench_worker *w)
{
	const struct hitting *h = w->run->context;
	struct idlers *idle = calloc(1, sizeof(*idle));
	uint64_t n = w->process || w->thread ? 0 : h->idle;
	int res;

	if (!idle)
		return -ENOMEM;
	w->state = idle;
	idle->clients = calloc(n + 1, sizeof(*idle->clients));
	if (!idle->clients)
		return -ENOMEM;
	for (; idle->n < n; idle->n++) {
		res = fluxonkv_open(w->run->address, &idle->clients[idle->n]);
		if (res)
			return res;
	}
	return 0;
}

static void hit_stop(struct bench_worker *w)
{
	struct idlers *idle = w->state;

	for (uint64_t i = 0; i < idle->n; i++)
		fluxonkv_close(idle->clients[i]);
	free(idle->clients);
	free(idle);
}

static void hit_op(struct bench_worker *w)
{
	const struct hitting *h = w->run->context;
	const char *key = h->names[bench_worker_random(w) % h->keys];
	struct fluxonkv_holder holder = { .source = FLUXONKV_SERVED_NONE };
	size_t len = strlen(key);
	uint64_t start = bench_now_ns();
	int res = fluxonkv_get(w->client, key, len, &holder);
	uint64_t end = bench_now_ns();

	bench_worker_call(w, start, end);
	bench_worker_key(w, res, holder.source, holder.len);
	if (res)
		return;
	if (holder.len != h->value)
		bench_worker_corrupt(w, key, holder.len);
	else if (h->verify &&
		 bench_payload_check(holder.data, holder.len,
				     bench_payload_seed(key, len)) !=
		 BENCH_PAYLOAD_GOOD)
		bench_worker_corrupt(w, key, 0);
	res = fluxonkv_release(w->client, &holder);
	if (res)
		bench_worker_error(w, "release", res);
}

static const struct bench_work hit_work = {
	.start = hit_start,
	.stop = hit_stop,
	.op = hit_op,
};

/* Part of each latency is the clock itself. */
static double clock_ns(void)
{
	uint64_t start = bench_now_ns();

	for (unsigned int i = 0; i < CLOCK_ROUNDS; i++)
		(void)bench_now_ns();
	return (double)(bench_now_ns() - start) / CLOCK_ROUNDS;
}

static void row(struct hit *h, const struct hitting *c,
		const struct bench_outcome *o)
{
	struct json_object *r = json_object_new_object();
	const struct bench_result *a = &o->all;
	double seconds = o->window_s > 0 ? o->window_s : 1;

	bench_row_text(r, "op", "hit");
	bench_row_count(r, "keys", c->keys);
	bench_row_count(r, "value_bytes", c->value);
	bench_row_count(r, "processes", h->processes);
	bench_row_count(r, "threads", h->threads);
	bench_row_count(r, "clients", h->clients);
	bench_row_text(r, "verify", c->verify ? "all" : "length");
	bench_row_count(r, "hit", a->hits);
	bench_row_count(r, "miss", a->misses);
	bench_row_count(r, "error", a->errors);
	bench_row_text(r, "first_error", a->errors ? a->first_error : NULL);
	bench_row_number(r, "window_seconds", o->window_s);
	bench_row_number(r, "calls_per_second", (double)a->calls / seconds);
	bench_row_number(r, "local_hit_ratio", a->hits ?
			 (double)a->source_hits[FLUXONKV_SERVED_LOCAL] /
			 (double)a->hits : 0);
	bench_row_number(r, "clock_ns", clock_ns());
	bench_row_latency(r, &a->latency);
	bench_row_cpu(r, o);
	bench_report_row(&h->report, r);
}

static void judge(struct hit *h, const struct bench_outcome *o, int res)
{
	const struct bench_result *a = &o->all;

	if (res)
		bench_report_fail(&h->report, "the run failed: %s; %s",
				  strerror(-res), a->first_error);
	else if (a->errors)
		bench_report_fail(&h->report, "%" PRIu64 " errors, the first: "
				  "%s", a->errors, a->first_error);
	if (a->misses || a->misses_outside)
		bench_report_fail(&h->report, "%" PRIu64 " misses of keys that "
				  "fit in memory",
				  a->misses + a->misses_outside);
}

static void measure(struct hit *h, struct hitting *c)
{
	struct bench_run run = {
		.work = &hit_work, .context = c, .address = h->common.address,
		.processes = (unsigned int)h->processes,
		.threads = (unsigned int)h->threads,
		.seconds = h->common.seconds, .warmup = h->common.warmup,
		.daemon = (pid_t)h->status.pid,
	};
	struct bench_outcome o = { .window_s = 0 };
	int res;

	bench_report_progress(&h->report, "hits of %" PRIu64 " keys", c->keys);
	res = bench_run(&run, &o);
	row(h, c, &o);
	judge(h, &o, res);
}

static void one_count(struct hit *h, uint64_t keys)
{
	struct hitting c = {
		.names = calloc(keys, BENCH_KEY_MAX),
		.keys = keys, .value = h->value, .verify = h->verify,
		.idle = h->clients - h->processes,
	};
	struct bench_load l = {
		.address = h->common.address, .prefix = PREFIX, .keys = keys,
		.value_bytes = h->value,
	};

	if (!c.names) {
		bench_report_fail(&h->report, "no memory for %" PRIu64 " keys",
				  keys);
		return;
	}
	for (uint64_t i = 0; i < keys; i++)
		bench_key(c.names[i], PREFIX, i);
	if (bench_wipe(l.address, PREFIX))
		bench_report_fail(&h->report, "cannot delete %s*: %s", PREFIX,
				  fluxonkv_last_error());
	else if (!bench_load(&h->report, &l))
		measure(h, &c);
	(void)bench_wipe(l.address, PREFIX);
	free(c.names);
}

static int parse(struct hit *h, int argc, char **argv)
{
	const struct bench_opt opts[] = {
		BENCH_COMMON_OPTS(&h->common),
		{ "keys", BENCH_COUNTS, &h->keys, "LIST",
		  "numbers of keys (1000,100000)", 1, 10000000 },
		{ "value", BENCH_SIZE, &h->value, "SIZE",
		  "bytes of each value (4k)", 1, BENCH_GIB },
		{ "threads", BENCH_COUNT, &h->threads, "N",
		  "threads per process, sharing its connection (1)",
		  1, BENCH_THREADS_MAX },
		{ "processes", BENCH_COUNT, &h->processes, "N",
		  "processes: busy connections (1)", 1, BENCH_PROCESSES_MAX },
		{ "clients", BENCH_COUNT, &h->clients, "N",
		  "connections open, the others idle (as many as processes)",
		  1, 4096 },
		{ "verify", BENCH_FLAG, &h->verify, NULL,
		  "check every byte, between calls", 0, 0 },
		{ .name = NULL },
	};

	return bench_args_parse(argc, argv, opts,
		"Latency of holders of values in this host's memory.");
}

static int check(struct hit *h)
{
	struct rlimit l;

	if (!h->clients)
		h->clients = h->processes;
	if (h->clients < h->processes)
		return bench_args_fail("hit", "--clients must be at least "
				       "--processes");
	if (h->common.warmup >= h->common.seconds)
		return bench_args_fail("hit", "--warmup must be shorter than "
				       "--seconds");
	if (getrlimit(RLIMIT_NOFILE, &l))
		return 0;
	l.rlim_cur = l.rlim_max;
	(void)setrlimit(RLIMIT_NOFILE, &l);
	if (l.rlim_max < h->clients * IDLE_FDS)
		fprintf(stderr, "fluxonkv-bench hit: the limit of open files "
			"(%llu) may be too low for %" PRIu64 " clients\n",
			(unsigned long long)l.rlim_max, h->clients);
	return 0;
}

int bench_hit(int argc, char **argv)
{
	static struct hit h = {
		.common = { .seconds = 6, .warmup = 1 },
		.keys = { { 1000, 100000 }, 2 },
		.value = 4096, .threads = 1, .processes = 1,
	};
	int res = parse(&h, argc, argv);

	if (res)
		return res == BENCH_ARGS_HELP ? 0 : 2;
	res = check(&h);
	if (res)
		return res;
	if (bench_report_init(&h.report, "hit", columns, h.common.json,
			      h.common.quiet))
		return 1;
	(void)bench_status_get(h.common.address, &h.status);
	for (unsigned int i = 0; i < h.keys.n; i++)
		one_count(&h, h.keys.v[i]);
	return bench_report_done(&h.report);
}
