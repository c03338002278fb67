// SPDX-License-Identifier: Apache-2.0
/*
 * pressure.c - Zipf reads of a data set a little larger than memory
 *
 * One case is a payload size, a layout of processes and threads, and an
 * output mode. Loading is per payload (or per case, --fresh).
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/args.h"
#include "bench/bench.h"
#include "bench/data.h"
#include "bench/host.h"
#include "bench/payload.h"
#include "bench/report.h"
#include "bench/run.h"
#include "bench/spawn.h"
#include "bench/zipf.h"

#define EXPONENT	0.99
#define OVERHEAD	128u		/* bytes that a payload is smaller */
#define DATASET		(2560 * BENCH_MIB)
#define PREFIX		"benchmark_kv_k"
#define DRAWN		(1u << 20)	/* key numbers made before the start */
#define SETTLE_S	120
/* Ring laps and headers take some of an SSD tier; this share does not. */
#define SSD_USABLE	0.9
#define MEMORY_USABLE	0.95

enum { OUTPUT_HOLDER, OUTPUT_BYTES };

struct pressure {
	struct bench_common common;
	struct bench_list payloads, layouts, outputs;
	unsigned int shuffled;
	const char *gap;
	bool verify, verify_all, fresh, no_ssd, no_settle, settle;
	uint64_t keys, memory, ssd;
	struct bench_daemon_config daemon_config;
	const char *ssd_dir;
	double gap_ms;			/* < 0: by the payload's size */

	struct bench_report report;
	struct bench_daemon daemon;
	struct bench_status status;
	const char *address;
};

/* What the threads of one case read. */
struct reading {
	struct bench_zipf zipf;
	uint64_t payload_bytes;
	unsigned int output;
	bool verify, verify_all;
};

struct reader {
	uint32_t *drawn;
	void *buf;
};

static const struct layout {
	unsigned int processes, threads;
} layouts[] = { { 1, 2 }, { 1, 4 }, { 2, 4 }, { 4, 4 } };

static const struct bench_column columns[] = {
	{ "payload_bytes", "payload", BENCH_COL_BYTES },
	{ "layout", "layout", BENCH_COL_TEXT },
	{ "output_mode", "output", BENCH_COL_TEXT },
	{ "hit", "hits", BENCH_COL_COUNT },
	{ "miss", "misses", BENCH_COL_COUNT },
	{ "error", "errors", BENCH_COL_COUNT },
	{ "memory_hit_ratio", "memory", BENCH_COL_PERCENT },
	{ "gib_per_second", "GiB/s", BENCH_COL_NUMBER },
	{ "ssd_logical_read_gib_per_second", "SSD GiB/s", BENCH_COL_NUMBER },
	{ "latency_p50_ns", "p50", BENCH_COL_NS },
	{ "latency_p99_ns", "p99", BENCH_COL_NS },
	{ "latency_p99_9_ns", "p99.9", BENCH_COL_NS },
	{ "cpu_seconds_per_gib", "CPU s/GiB", BENCH_COL_NUMBER },
	{ NULL, NULL, 0 },
};

/* Drawing costs more than a local hit: most of it is done beforehand. */
static int reader_start(struct bench_worker *w)
{
	const struct reading *c = w->run->context;
	struct reader *s = calloc(1, sizeof(*s));

	if (!s)
		return -ENOMEM;
	w->state = s;
	s->drawn = malloc(DRAWN * sizeof(*s->drawn));
	s->buf = malloc(c->payload_bytes + 1);
	if (!s->drawn || !s->buf)
		return -ENOMEM;
	for (uint32_t i = 0; i < DRAWN; i++)
		s->drawn[i] = bench_zipf_draw(&c->zipf, w->thread, i);
	memset(s->buf, 0, c->payload_bytes + 1);
	return 0;
}

static void reader_stop(struct bench_worker *w)
{
	struct reader *s = w->state;

	free(s->drawn);
	free(s->buf);
	free(s);
}

static void verify(struct bench_worker *w, const char *key, size_t key_len,
		   const void *data, uint64_t len)
{
	const struct reading *c = w->run->context;
	uint64_t seed, wrong = BENCH_PAYLOAD_GOOD;

	if (len != c->payload_bytes)
		wrong = len;
	else if (!c->verify && !c->verify_all)
		return;
	seed = bench_payload_seed(key, key_len);
	if (wrong == BENCH_PAYLOAD_GOOD)
		wrong = c->verify_all ?
			bench_payload_check(data, len, seed) :
			bench_payload_check_edges(data, len, seed);
	if (wrong != BENCH_PAYLOAD_GOOD)
		bench_worker_corrupt(w, key, wrong);
}

static void read_holder(struct bench_worker *w, const char *key, size_t len)
{
	struct fluxonkv_holder h = { .source = FLUXONKV_SERVED_NONE };
	uint64_t start = bench_now_ns();
	int res = fluxonkv_get(w->client, key, len, &h);

	bench_worker_call(w, start, bench_now_ns());
	bench_worker_key(w, res, h.source, h.len);
	if (res)
		return;
	verify(w, key, len, h.data, h.len);
	res = fluxonkv_release(w->client, &h);
	if (res)
		bench_worker_error(w, "release", res);
}

static void read_bytes(struct bench_worker *w, const char *key, size_t len)
{
	const struct reading *c = w->run->context;
	struct reader *s = w->state;
	struct fluxonkv_into item = {
		.key = { key, len },
		.buf = s->buf,
		.size = c->payload_bytes,
	};
	volatile unsigned char *bytes = s->buf;
	uint64_t start = bench_now_ns();
	int res = fluxonkv_get_into_many(w->client, &item, 1);

	if (!res)
		res = item.status;
	if (!res && item.len)
		(void)(bytes[0] + bytes[item.len - 1]);
	bench_worker_call(w, start, bench_now_ns());
	bench_worker_key(w, res, item.source, item.len);
	if (!res)
		verify(w, key, len, s->buf, item.len);
}

static void reader_op(struct bench_worker *w)
{
	const struct reading *c = w->run->context;
	struct reader *s = w->state;
	char key[BENCH_KEY_MAX];
	uint32_t idx;
	size_t len;

	idx = w->i < DRAWN ? s->drawn[w->i] :
	      bench_zipf_draw(&c->zipf, w->thread, w->i);
	len = bench_key(key, PREFIX, idx);
	if (c->output == OUTPUT_HOLDER)
		read_holder(w, key, len);
	else
		read_bytes(w, key, len);
}

static const struct bench_work reader_work = {
	.start = reader_start,
	.stop = reader_stop,
	.op = reader_op,
};

/* ms; the reference workload's table, and 6.25 ms a MiB for other sizes */
static double default_gap_ms(uint64_t size)
{
	static const struct {
		uint64_t mib;
		double ms;
	} table[] = { { 1, 6 }, { 4, 25 }, { 8, 50 }, { 16, 100 } };

	for (unsigned int i = 0; i < 4; i++)
		if (size == table[i].mib * BENCH_MIB)
			return table[i].ms;
	return (double)size / (double)BENCH_MIB * 6.25;
}

static uint64_t keys_of(const struct pressure *p, uint64_t size)
{
	return p->keys ? p->keys : DATASET / size;
}

/* Does everything fit somewhere, so that a miss is a failure? */
static bool must_hit(const struct pressure *p, uint64_t size)
{
	double all = (double)(keys_of(p, size) * size);

	return all <= (double)p->status.ssd_bytes * SSD_USABLE ||
	       all <= (double)p->status.memory_bytes * MEMORY_USABLE;
}

static double rate(uint64_t bytes, double seconds)
{
	return seconds > 0 ? (double)bytes / (double)BENCH_GIB / seconds : 0;
}

static double ratio(uint64_t part, uint64_t all)
{
	return all ? (double)part / (double)all : 0;
}

static void row_case(struct json_object *row, const struct pressure *p,
		     uint64_t size, unsigned int layout, unsigned int output)
{
	const struct layout *l = &layouts[layout];
	unsigned int all = l->processes * l->threads;
	char name[16], fs[64] = "";

	snprintf(name, sizeof(name), "c%u", all);
	bench_row_count(row, "payload_bytes", size - OVERHEAD);
	bench_row_count(row, "keyspace_size", keys_of(p, size));
	bench_row_count(row, "owner_dram_bytes", p->status.memory_bytes);
	bench_row_count(row, "ssd_capacity_bytes", p->status.ssd_bytes);
	bench_row_text(row, "layout", name);
	bench_row_count(row, "worker_concurrency", all);
	bench_row_count(row, "processes_per_target", l->processes);
	bench_row_count(row, "threads_per_process", l->threads);
	bench_row_text(row, "output_mode", output ? "bytes" : "holder");
	bench_row_bool(row, "ssd_enabled", p->status.ssd_bytes > 0);
	bench_row_text(row, "load_order", p->shuffled ? "shuffled" : "ordered");
	bench_row_number(row, "load_gap_ms",
			 p->gap_ms < 0 ? default_gap_ms(size) : p->gap_ms);
	bench_row_bool(row, "settled", !p->no_settle);
	bench_row_bool(row, "fresh", p->fresh);
	bench_row_text(row, "verify", p->verify_all ? "all" : p->verify ?
		       "edges" : "length");
	bench_row_text(row, "io_engine", p->status.engine);
	if (p->ssd_dir)
		bench_host_filesystem(p->ssd_dir, fs, sizeof(fs));
	bench_row_text(row, "ssd_filesystem", fs);
}

static void row_result(struct json_object *row, const struct bench_outcome *o)
{
	const struct bench_result *a = &o->all;
	uint64_t memory = a->source_hits[FLUXONKV_SERVED_LOCAL] +
			  a->source_hits[FLUXONKV_SERVED_MEMORY_REMOTE];
	uint64_t ssd = a->source_hits[FLUXONKV_SERVED_SSD_LOCAL] +
		       a->source_hits[FLUXONKV_SERVED_SSD_REMOTE];

	bench_row_count(row, "hit", a->hits);
	bench_row_count(row, "miss", a->misses);
	bench_row_count(row, "error", a->errors);
	bench_row_count(row, "corrupt", a->corrupt);
	bench_row_text(row, "first_error", a->errors ? a->first_error : NULL);
	bench_row_count(row, "memory_hit_operations", memory);
	bench_row_count(row, "ssd_hit_operations", ssd);
	bench_row_count(row, "unknown_source_operations",
			a->hits - memory - ssd);
	bench_row_number(row, "hit_ratio", ratio(a->hits, a->hits + a->misses));
	bench_row_number(row, "memory_hit_ratio", ratio(memory, a->hits));
	bench_row_number(row, "window_seconds", o->window_s);
	bench_row_number(row, "gib_per_second", rate(a->bytes, o->window_s));
	bench_row_number(row, "memory_logical_read_gib_per_second", rate(
		a->source_bytes[FLUXONKV_SERVED_LOCAL] +
		a->source_bytes[FLUXONKV_SERVED_MEMORY_REMOTE], o->window_s));
	bench_row_number(row, "ssd_logical_read_gib_per_second", rate(
		a->source_bytes[FLUXONKV_SERVED_SSD_LOCAL] +
		a->source_bytes[FLUXONKV_SERVED_SSD_REMOTE], o->window_s));
	bench_row_latency(row, &a->latency);
	bench_row_cpu(row, o);
}

static void judge(struct pressure *p, uint64_t size,
		  const struct bench_outcome *o)
{
	const struct bench_result *a = &o->all;

	if (a->errors)
		bench_report_fail(&p->report, "%" PRIu64 " errors, the first: "
				  "%s", a->errors, a->first_error);
	if ((a->misses || a->misses_outside) && must_hit(p, size))
		bench_report_fail(&p->report, "%" PRIu64 " misses although "
				  "the keys fit",
				  a->misses + a->misses_outside);
	if (!a->hits)
		bench_report_fail(&p->report, "nothing was read");
	if (a->source_hits[FLUXONKV_SERVED_NONE] ||
	    a->source_hits[FLUXONKV_SERVED_MISS])
		bench_report_fail(&p->report, "hits of unknown source");
}

static void measure(struct pressure *p, uint64_t size, unsigned int layout,
		    unsigned int output)
{
	struct json_object *row = json_object_new_object();
	struct reading c = {
		.payload_bytes = size - OVERHEAD, .output = output,
		.verify = p->verify || p->verify_all,
		.verify_all = p->verify_all,
	};
	struct bench_run run = {
		.work = &reader_work, .context = &c, .address = p->address,
		.processes = layouts[layout].processes,
		.threads = layouts[layout].threads,
		.seconds = p->common.seconds, .warmup = p->common.warmup,
		.daemon = p->daemon.pid ? p->daemon.pid :
			  (pid_t)p->status.pid,
	};
	struct bench_outcome o = { .window_s = 0 };
	int res;

	bench_report_progress(&p->report, "measuring %" PRIu64 " bytes, c%u, "
			      "%s", size, run.processes * run.threads,
			      output ? "bytes" : "holder");
	res = bench_zipf_init(&c.zipf, (uint32_t)keys_of(p, size), EXPONENT);
	if (!res)
		res = bench_run(&run, &o);
	bench_zipf_done(&c.zipf);
	row_case(row, p, size, layout, output);
	row_result(row, &o);
	bench_report_row(&p->report, row);
	if (res)
		bench_report_fail(&p->report, "the run failed: %s; %s",
				  strerror(-res), o.all.first_error);
	else
		judge(p, size, &o);
}

static int start_daemon(struct pressure *p)
{
	if (!p->daemon_config.path)
		return 0;
	p->daemon_config.memory_bytes = p->memory;
	p->daemon_config.ssd_bytes = p->ssd;
	p->daemon_config.ssd_dir = p->no_ssd ? NULL : p->ssd_dir;
	bench_report_progress(&p->report, "starting the daemon");
	if (bench_daemon_start(&p->daemon, &p->daemon_config)) {
		bench_report_fail(&p->report, "no daemon, no measurement");
		return -EIO;
	}
	p->address = p->daemon.address;
	return 0;
}

static int load(struct pressure *p, uint64_t size)
{
	struct bench_load l = {
		.address = p->address, .prefix = PREFIX,
		.keys = keys_of(p, size), .value_bytes = size - OVERHEAD,
		.gap_ms = p->gap_ms < 0 ? default_gap_ms(size) : p->gap_ms,
		.shuffled = p->shuffled,
	};
	int res = bench_wipe(p->address, PREFIX);

	if (res) {
		bench_report_fail(&p->report, "cannot delete the keys of an "
				  "earlier run: %s", fluxonkv_last_error());
		return res;
	}
	res = bench_load(&p->report, &l);
	if (res)
		return res;
	if (bench_status_get(p->address, &p->status))
		bench_report_note(&p->report, "the daemon's status is not for "
				  "this user: sizes are not known, misses are "
				  "not judged");
	if (p->no_settle || !p->status.ssd_bytes)
		return 0;
	if (bench_settle(&p->report, p->address, SETTLE_S))
		bench_report_note(&p->report, "not all values are on SSD "
				  "after %d s; measuring anyway", SETTLE_S);
	return 0;
}

/* Daemon (its own when asked for) with the keys of @size in it. */
static int prepare(struct pressure *p, uint64_t size)
{
	int res = start_daemon(p);

	return res ? res : load(p, size);
}

static void finish(struct pressure *p)
{
	if (bench_daemon_stop(&p->daemon))
		bench_report_fail(&p->report, "the daemon did not end well");
}

static void one_payload(struct pressure *p, uint64_t size)
{
	bool ready = false;

	for (unsigned int l = 0; l < p->layouts.n; l++) {
		for (unsigned int o = 0; o < p->outputs.n; o++) {
			if (ready && p->fresh) {
				finish(p);
				ready = false;
			}
			if (!ready && prepare(p, size))
				goto out;
			ready = true;
			measure(p, size, (unsigned int)p->layouts.v[l],
				(unsigned int)p->outputs.v[o]);
		}
	}
out:
	finish(p);
}

static int check(struct pressure *p)
{
	char *end;

	if (p->common.warmup >= p->common.seconds)
		return bench_args_fail("pressure", "--warmup must be shorter "
				       "than --seconds");
	if (p->settle && p->no_settle)
		return bench_args_fail("pressure", "--settle and --no-settle "
				       "exclude each other");
	p->gap_ms = -1;
	if (strcmp(p->gap, "default")) {
		p->gap_ms = strtod(p->gap, &end);
		if (*end || !(p->gap_ms >= 0 && p->gap_ms <= 60000))
			return bench_args_fail("pressure", "--load-gap: "
				"expected 'default' or milliseconds, not '%s'",
				p->gap);
	}
	if (p->daemon_config.path && !p->no_ssd && !p->ssd_dir)
		return bench_args_fail("pressure", "--daemon needs --ssd-dir "
				       "DIR or --no-ssd");
	if (p->no_ssd && p->ssd_dir)
		return bench_args_fail("pressure", "--ssd-dir and --no-ssd "
				       "exclude each other");
	if (!p->daemon_config.path &&
	    (p->ssd_dir || p->no_ssd || p->daemon_config.set))
		return bench_args_fail("pressure", "--ssd-dir, --no-ssd and "
				       "--set belong to --daemon");
	return 0;
}

static int parse(struct pressure *p, int argc, char **argv)
{
	const struct bench_opt opts[] = {
		BENCH_COMMON_OPTS(&p->common),
		{ "payload", BENCH_SIZES, &p->payloads, "LIST",
		  "sizes (1m,4m,8m,16m); a payload is 128 bytes smaller",
		  4096, BENCH_GIB },
		{ "layout", BENCH_WORDS, &p->layouts, "c2|c4|c8|c16",
		  "1x2, 1x4, 2x4, 4x4 processes x threads (all)", 0, 0 },
		{ "output", BENCH_WORDS, &p->outputs, "holder|bytes",
		  "reference, or copy of the bytes (both)", 0, 0 },
		{ "load-order", BENCH_WORD, &p->shuffled, "ordered|shuffled",
		  "order of loading (ordered)", 0, 0 },
		{ "load-gap", BENCH_STRING, &p->gap, "MS|default",
		  "pause after each put while loading", 0, 0 },
		{ "keys", BENCH_COUNT, &p->keys, "N",
		  "number of keys (2.5 GiB / size)", 1, 1u << 24 },
		{ "verify", BENCH_FLAG, &p->verify, NULL,
		  "check the first and last page of each value", 0, 0 },
		{ "verify-all", BENCH_FLAG, &p->verify_all, NULL,
		  "check every byte (touches them in holder mode too)", 0, 0 },
		{ "no-settle", BENCH_FLAG, &p->no_settle, NULL,
		  "do not wait for persisting after loading", 0, 0 },
		{ "settle", BENCH_FLAG, &p->settle, NULL,
		  "wait for it (the default)", 0, 0 },
		{ "daemon", BENCH_STRING, &p->daemon_config.path, "PATH",
		  "start this fluxonkvd, once per payload", 0, 0 },
		{ "fresh", BENCH_FLAG, &p->fresh, NULL,
		  "reload (and restart the own daemon) before each case", 0, 0 },
		{ "memory", BENCH_SIZE, &p->memory, "SIZE",
		  "of the own daemon (2GiB)", BENCH_MIB, 1ULL << 44 },
		{ "ssd-dir", BENCH_STRING, &p->ssd_dir, "DIR",
		  "SSD tier of the own daemon", 0, 0 },
		{ "ssd-size", BENCH_SIZE, &p->ssd, "SIZE",
		  "its limit (16GiB)", BENCH_MIB, 1ULL << 50 },
		{ "no-ssd", BENCH_FLAG, &p->no_ssd, NULL,
		  "own daemon without SSD tier", 0, 0 },
		{ "set", BENCH_STRING, &p->daemon_config.set, "K=V[,K=V]",
		  "more settings of the own daemon", 0, 0 },
		{ .name = NULL },
	};

	return bench_args_parse(argc, argv, opts, "Zipf reads of 2.5 GiB of "
		"values through 2 GiB of memory, with or without SSD.");
}

int bench_pressure(int argc, char **argv)
{
	static struct pressure p = {
		.common = { .seconds = 35, .warmup = 5 },
		.payloads = { { 1 * BENCH_MIB, 4 * BENCH_MIB, 8 * BENCH_MIB,
				16 * BENCH_MIB }, 4 },
		.layouts = { { 0, 1, 2, 3 }, 4 },
		.outputs = { { OUTPUT_HOLDER, OUTPUT_BYTES }, 2 },
		.gap = "default",
		.memory = 2 * BENCH_GIB,
		.ssd = 16 * BENCH_GIB,
	};
	int res = parse(&p, argc, argv);

	if (res)
		return res == BENCH_ARGS_HELP ? 0 : 2;
	res = check(&p);
	if (res)
		return res;
	p.address = p.common.address;
	if (bench_report_init(&p.report, "pressure", columns, p.common.json,
			      p.common.quiet))
		return 1;
	for (unsigned int i = 0; i < p.payloads.n; i++)
		one_payload(&p, p.payloads.v[i]);
	return bench_report_done(&p.report);
}
