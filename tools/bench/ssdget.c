// SPDX-License-Identifier: Apache-2.0
/*
 * ssdget.c - random gets of values that are only on SSD
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "bench/args.h"
#include "bench/batch.h"
#include "bench/bench.h"
#include "bench/data.h"
#include "bench/fio.h"

#define PREFIX		"fluxonkv_bench_ssdget_"
#define SETTLE_S	300
#define UNIT		4096u

struct ssdget {
	struct bench_common common;
	struct bench_list sizes, threads, batches, outputs;
	uint64_t dataset, fio_file;
	const char *fio_dir;
	bool verify, keep;

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
	{ "hits_ssd_local", "SSD hits", BENCH_COL_COUNT },
	{ "hits_local", "memory hits", BENCH_COL_COUNT },
	{ "latency_p50_ns", "p50", BENCH_COL_NS },
	{ "latency_p99_ns", "p99", BENCH_COL_NS },
	{ "cpu_seconds_per_gib", "CPU s/GiB", BENCH_COL_NUMBER },
	{ "error", "errors", BENCH_COL_COUNT },
	{ NULL, NULL, 0 },
};

static void measure(struct ssdget *s, const struct bench_batch *b,
		    unsigned int threads)
{
	struct bench_run run = {
		.work = &bench_batch_work, .context = b,
		.address = s->common.address, .processes = 1,
		.threads = threads, .seconds = s->common.seconds,
		.warmup = s->common.warmup, .daemon = (pid_t)s->status.pid,
	};
	struct bench_outcome o = { .window_s = 0 };
	struct json_object *row;
	int res;

	bench_report_progress(&s->report, "%s, %" PRIu64 " bytes, batch %u, "
			      "%u threads", bench_batch_op_name(b->op),
			      b->value_bytes, b->batch, threads);
	res = bench_run(&run, &o);
	row = json_object_new_object();
	bench_batch_row(row, b, &run, &o);
	bench_row_text(row, "io_engine", s->status.engine);
	bench_report_row(&s->report, row);
	bench_batch_judge(&s->report, b, &o, res);
}

static void measure_fio(struct ssdget *s, const struct bench_batch *b,
			unsigned int threads)
{
	struct bench_fio f = {
		.dir = s->fio_dir,
		.file_bytes = s->fio_file,
		.block_bytes = (b->value_bytes + UNIT - 1) / UNIT * UNIT,
		.depth = b->batch,
		.jobs = threads,
		.seconds = s->common.seconds,
	};

	if (s->fio_dir)
		bench_fio_report(&s->report, &f);
}

static int load(struct ssdget *s, uint64_t size, uint64_t *ret_keys)
{
	struct bench_load l = {
		.address = s->common.address, .prefix = PREFIX,
		.keys = s->dataset / size + 1, .value_bytes = size,
	};
	int res = bench_wipe(s->common.address, PREFIX);

	if (res) {
		bench_report_fail(&s->report, "cannot delete %s*: %s", PREFIX,
				  fluxonkv_last_error());
		return res;
	}
	*ret_keys = l.keys;
	res = bench_load(&s->report, &l);
	if (!res && bench_settle(&s->report, s->common.address, SETTLE_S))
		bench_report_note(&s->report, "not all values are on SSD "
				  "after %d s; measuring anyway", SETTLE_S);
	return res;
}

static void one_size(struct ssdget *s, uint64_t size)
{
	struct bench_batch b = {
		.prefix = PREFIX, .value_bytes = size, .verify = s->verify,
	};

	if (load(s, size, &b.keys))
		return;
	for (unsigned int i = 0; i < s->batches.n; i++) {
		for (unsigned int t = 0; t < s->threads.n; t++) {
			unsigned int threads = (unsigned int)s->threads.v[t];

			b.batch = (unsigned int)s->batches.v[i];
			for (unsigned int o = 0; o < s->outputs.n; o++) {
				b.op = s->outputs.v[o] ? BENCH_OP_GET_INTO_SSD :
							 BENCH_OP_GET_SSD;
				measure(s, &b, threads);
			}
			measure_fio(s, &b, threads);
		}
	}
	if (!s->keep && bench_wipe(s->common.address, PREFIX))
		bench_report_fail(&s->report, "cannot delete %s*", PREFIX);
}

static int parse(struct ssdget *s, int argc, char **argv)
{
	const struct bench_opt opts[] = {
		BENCH_COMMON_OPTS(&s->common),
		{ "sizes", BENCH_SIZES, &s->sizes, "LIST",
		  "value sizes (1m,4m)", 1, BENCH_GIB },
		{ "threads", BENCH_COUNTS, &s->threads, "LIST",
		  "threads, one client (1,4,16)", 1, BENCH_THREADS_MAX },
		{ "batches", BENCH_COUNTS, &s->batches, "LIST",
		  "gets per call: the depth of a thread (1)",
		  1, BENCH_BATCH_MAX },
		{ "output", BENCH_WORDS, &s->outputs, "holder|bytes",
		  "get, or get_into a buffer (both)", 0, 0 },
		{ "dataset", BENCH_SIZE, &s->dataset, "SIZE",
		  "bytes to load (2 x memory)", BENCH_MIB, 1ULL << 50 },
		{ "fio", BENCH_STRING, &s->fio_dir, "DIR",
		  "beside each case, fio with the same size and depth in DIR",
		  0, 0 },
		{ "fio-file", BENCH_SIZE, &s->fio_file, "SIZE",
		  "size of its file (2GiB)", BENCH_MIB, 1ULL << 44 },
		{ "verify", BENCH_FLAG, &s->verify, NULL,
		  "check every byte that is read, between calls", 0, 0 },
		{ "keep", BENCH_FLAG, &s->keep, NULL,
		  "leave the values in the cache", 0, 0 },
		{ .name = NULL },
	};

	return bench_args_parse(argc, argv, opts, "Random gets of keys that "
		"the daemon says are only on SSD.");
}

static int fits(struct ssdget *s)
{
	int res = bench_status_get(s->common.address, &s->status);

	if (res) {
		bench_report_fail(&s->report, "the daemon's status: %s",
				  fluxonkv_strerror(res));
		return res;
	}
	if (!s->dataset)
		s->dataset = 2 * s->status.memory_bytes;
	if (s->dataset > s->status.ssd_bytes * 9 / 10) {
		bench_report_fail(&s->report, "%" PRIu64 " bytes do not fit "
				  "the SSD tier of %" PRIu64 " with a tenth to "
				  "spare", s->dataset, s->status.ssd_bytes);
		return -1;
	}
	if (s->dataset < s->status.memory_bytes * 5 / 4)
		bench_report_note(&s->report, "less than 1.25 x memory: few "
				  "values will be only on SSD");
	return 0;
}

int bench_ssdget(int argc, char **argv)
{
	static struct ssdget s = {
		.common = { .seconds = 10, .warmup = 1 },
		.sizes = { { 1 << 20, 4 << 20 }, 2 },
		.threads = { { 1, 4, 16 }, 3 },
		.batches = { { 1 }, 1 },
		.outputs = { { 0, 1 }, 2 },
		.fio_file = 2 * BENCH_GIB,
	};
	int res = parse(&s, argc, argv);

	if (res)
		return res == BENCH_ARGS_HELP ? 0 : 2;
	if (s.common.warmup >= s.common.seconds)
		return bench_args_fail("ssdget", "--warmup must be shorter "
				       "than --seconds");
	if (bench_report_init(&s.report, "ssdget", columns, s.common.json,
			      s.common.quiet))
		return 1;
	if (!fits(&s))
		for (unsigned int i = 0; i < s.sizes.n; i++)
			one_size(&s, s.sizes.v[i]);
	return bench_report_done(&s.report);
}
