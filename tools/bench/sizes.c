// SPDX-License-Identifier: Apache-2.0
/*
 * sizes.c - put, get, get from SSD and exists at real object sizes
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "bench/args.h"
#include "bench/batch.h"
#include "bench/bench.h"
#include "bench/data.h"

#define HIT_PREFIX	"fluxonkv_bench_hit_"
#define PUT_PREFIX	"fluxonkv_bench_put_"
#define SSD_PREFIX	"fluxonkv_bench_ssd_"
#define SETTLE_S	120
#define SSD_TIMES	1.5	/* of memory, for get_ssd */

struct sizes {
	struct bench_common common;
	struct bench_list sizes, batches, threads, ops;
	uint64_t memory;
	bool verify;

	struct bench_report report;
	struct bench_status status;
};

static const struct bench_column columns[] = {
	{ "op", "op", BENCH_COL_TEXT },
	{ "value_bytes", "value", BENCH_COL_BYTES },
	{ "batch", "batch", BENCH_COL_COUNT },
	{ "threads", "threads", BENCH_COL_COUNT },
	{ "gib_per_second", "GiB/s", BENCH_COL_NUMBER },
	{ "ssd_gib_per_second", "SSD GiB/s", BENCH_COL_NUMBER },
	{ "keys_per_second", "keys/s", BENCH_COL_COUNT },
	{ "latency_p50_ns", "p50", BENCH_COL_NS },
	{ "latency_p99_ns", "p99", BENCH_COL_NS },
	{ "cpu_seconds_per_gib", "CPU s/GiB", BENCH_COL_NUMBER },
	{ "error", "errors", BENCH_COL_COUNT },
	{ "skipped", "skipped", BENCH_COL_TEXT },
	{ NULL, NULL, 0 },
};

/* A quarter: holders are capped at half of memory, and puts need room too. */
static uint64_t room(const struct sizes *s)
{
	return s->memory / 4;
}

static const char *prefix_of(enum bench_batch_op op)
{
	if (op == BENCH_OP_PUT)
		return PUT_PREFIX;
	return op == BENCH_OP_GET_SSD ? SSD_PREFIX : HIT_PREFIX;
}

static uint64_t keys_of(const struct sizes *s, enum bench_batch_op op,
			uint64_t size)
{
	double want = op == BENCH_OP_GET_SSD ?
		      SSD_TIMES * (double)s->memory : (double)room(s);

	return (uint64_t)(want / (double)size) + 1;
}

static const char *why_not(const struct sizes *s, const struct bench_batch *b,
			   unsigned int threads)
{
	if (b->op == BENCH_OP_EXISTS)
		return NULL;
	if (b->value_bytes * b->batch * threads > room(s))
		return "batch x threads exceeds a quarter of memory";
	if (b->op == BENCH_OP_GET_SSD && !s->status.ssd_bytes)
		return "no SSD tier, or its status is not for this user";
	if (b->op == BENCH_OP_GET_SSD &&
	    SSD_TIMES * (double)s->memory > 0.9 * (double)s->status.ssd_bytes)
		return "the SSD tier is too small for 1.5 x memory";
	return NULL;
}

static void skip(struct sizes *s, const struct bench_batch *b,
		 unsigned int threads, const char *why)
{
	struct json_object *row = json_object_new_object();

	bench_row_text(row, "op", bench_batch_op_name(b->op));
	bench_row_count(row, "value_bytes", b->value_bytes);
	bench_row_count(row, "batch", b->batch);
	bench_row_count(row, "threads", threads);
	bench_row_text(row, "skipped", why);
	bench_report_row(&s->report, row);
}

static void measure(struct sizes *s, const struct bench_batch *b,
		    unsigned int threads)
{
	struct bench_run run = {
		.work = &bench_batch_work, .context = b,
		.address = s->common.address, .processes = 1,
		.threads = threads, .seconds = s->common.seconds,
		.warmup = s->common.warmup, .daemon = (pid_t)s->status.pid,
	};
	struct json_object *row;
	struct bench_outcome o = { .window_s = 0 };
	int res;

	bench_report_progress(&s->report, "%s, %" PRIu64 " bytes, batch %u, "
			      "%u threads", bench_batch_op_name(b->op),
			      b->value_bytes, b->batch, threads);
	res = bench_run(&run, &o);
	row = json_object_new_object();
	bench_batch_row(row, b, &run, &o);
	bench_report_row(&s->report, row);
	bench_batch_judge(&s->report, b, &o, res);
}

static int load(struct sizes *s, enum bench_batch_op op, uint64_t size)
{
	struct bench_load l = {
		.address = s->common.address, .prefix = prefix_of(op),
		.keys = keys_of(s, op, size), .value_bytes = size,
	};
	int res;

	if (op == BENCH_OP_PUT)
		return 0;
	res = bench_load(&s->report, &l);
	if (!res && op == BENCH_OP_GET_SSD)
		(void)bench_settle(&s->report, s->common.address, SETTLE_S);
	return res;
}

static void wipe(struct sizes *s, const char *prefix)
{
	if (bench_wipe(s->common.address, prefix))
		bench_report_fail(&s->report, "cannot delete %s*: %s", prefix,
				  fluxonkv_last_error());
}

static void one_op(struct sizes *s, enum bench_batch_op op, uint64_t size)
{
	struct bench_batch b = {
		.op = op, .prefix = prefix_of(op), .value_bytes = size,
		.verify = s->verify,
	};
	bool loaded = false;

	for (unsigned int i = 0; i < s->batches.n; i++) {
		for (unsigned int t = 0; t < s->threads.n; t++) {
			unsigned int threads = (unsigned int)s->threads.v[t];
			const char *why;

			b.batch = (unsigned int)s->batches.v[i];
			b.keys = keys_of(s, op, size);
			if (op == BENCH_OP_PUT)
				b.keys = b.keys / threads + 1;
			why = why_not(s, &b, threads);
			if (why) {
				skip(s, &b, threads, why);
				continue;
			}
			if (!loaded && load(s, op, size))
				return;
			loaded = true;
			measure(s, &b, threads);
		}
	}
}

static int parse(struct sizes *s, int argc, char **argv)
{
	const struct bench_opt opts[] = {
		BENCH_COMMON_OPTS(&s->common),
		{ "sizes", BENCH_SIZES, &s->sizes, "LIST",
		  "value sizes (384k,512k,1.25m,2.44m,4m,4497408,32m)",
		  1, BENCH_GIB },
		{ "batches", BENCH_COUNTS, &s->batches, "LIST",
		  "keys per call (1,32,128,256)", 1, BENCH_BATCH_MAX },
		{ "threads", BENCH_COUNTS, &s->threads, "LIST",
		  "threads, one client (1,2,4,8,16)", 1, BENCH_THREADS_MAX },
		{ "ops", BENCH_WORDS, &s->ops,
		  "put|get|get_into|get_ssd|exists", "(all)", 0, 0 },
		{ "memory", BENCH_SIZE, &s->memory, "SIZE",
		  "of the daemon, when its status is not for this user",
		  BENCH_MIB, 1ULL << 44 },
		{ "verify", BENCH_FLAG, &s->verify, NULL,
		  "check every byte that is read, between calls", 0, 0 },
		{ .name = NULL },
	};

	return bench_args_parse(argc, argv, opts,
		"Closed loops of batch calls at real object sizes.");
}

/* --ops has its own words, for get_into_ssd belongs to ssdget. */
static enum bench_batch_op op_of(uint64_t word)
{
	static const enum bench_batch_op ops[] = {
		BENCH_OP_PUT, BENCH_OP_GET, BENCH_OP_GET_INTO,
		BENCH_OP_GET_SSD, BENCH_OP_EXISTS,
	};

	return ops[word];
}

static void run_all(struct sizes *s)
{
	static const char *const prefixes[] = { PUT_PREFIX, HIT_PREFIX,
						SSD_PREFIX };

	for (unsigned int i = 0; i < s->sizes.n; i++) {
		for (unsigned int o = 0; o < s->ops.n; o++) {
			enum bench_batch_op op = op_of(s->ops.v[o]);

			/* What earlier ones left must not take room. */
			for (unsigned int p = 0; p < 3; p++)
				wipe(s, prefixes[p]);
			one_op(s, op, s->sizes.v[i]);
		}
	}
	for (unsigned int p = 0; p < 3; p++)
		wipe(s, prefixes[p]);
}

int bench_sizes(int argc, char **argv)
{
	static struct sizes s = {
		.common = { .seconds = 1.25, .warmup = 0.25 },
		/* 0.5B K page; 8B TP8; 70B TP8; V3.2 fp8; 8B TP1; V3 MLA;
		   a chunk of 256 tokens of 8B */
		.sizes = { { 384 << 10, 512 << 10, 1280 << 10, 2558524,
			     4 << 20, 4497408, 32 << 20 }, 7 },
		.batches = { { 1, 32, 128, 256 }, 4 },
		.threads = { { 1, 2, 4, 8, 16 }, 5 },
		.ops = { { 0, 1, 2, 3, 4 }, 5 },
	};
	int res = parse(&s, argc, argv);

	if (res)
		return res == BENCH_ARGS_HELP ? 0 : 2;
	if (s.common.warmup >= s.common.seconds)
		return bench_args_fail("sizes", "--warmup must be shorter than "
				       "--seconds");
	if (bench_report_init(&s.report, "sizes", columns, s.common.json,
			      s.common.quiet))
		return 1;
	res = bench_status_get(s.common.address, &s.status);
	if (!s.memory)
		s.memory = s.status.memory_bytes;
	if (!s.memory)
		bench_report_fail(&s.report, "the daemon's status: %s; "
				  "--memory SIZE does without it",
				  fluxonkv_strerror(res));
	else
		run_all(&s);
	return bench_report_done(&s.report);
}
