// SPDX-License-Identifier: Apache-2.0
/*
 * trace.c - replay of recorded prefix-cache requests
 *
 * A request gets its blocks in order until the first miss, then puts the rest
 * with EXCL. What is touched beyond the first miss must not look like use, or
 * the cache's policy would be judged on a sequence that no prefix cache
 * makes. So by default the request first asks how long its leading run of
 * hits is (which touches nothing, and is what prefix caches do), and gets
 * exactly that run. With --probe get it goes without asking: blocks are got
 * in chunks, those beyond a miss are released uncounted and do touch the
 * policy, up to a chunk less one per request.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/args.h"
#include "bench/bench.h"
#include "bench/data.h"
#include "bench/payload.h"
#include "bench/requests.h"

#define PREFIX		"fluxonkv_bench_trace_"
#define CHUNK_MAX	256u
#define ASK_MAX		1024u		/* keys of one exists */
#define DUE_MAX_NS	1e18		/* 31 years */

enum { PROBE_EXISTS, PROBE_GET };

struct trace {
	struct bench_common common;
	const char *file;
	uint64_t block_bytes, requests_max, chunk;
	double speed;
	unsigned int probe;
	bool verify, keep;

	struct bench_report report;
	struct bench_requests requests;
	struct fluxonkv *client;
};

/* Room for one chunk of a request, and all counts. */
struct replay {
	struct trace *t;
	char (*names)[BENCH_KEY_MAX];	/* ASK_MAX */
	struct fluxonkv_key *keys;	/* ASK_MAX */
	struct fluxonkv_holder *holders;
	struct fluxonkv_value *values;
	char *buf;			/* chunk * block_bytes */

	uint64_t requests, blocks, prefix_hits, late_hits, stored, busy;
	uint64_t get_bytes, put_bytes, errors, corrupt;
	uint64_t source_hits[BENCH_SOURCES], source_bytes[BENCH_SOURCES];
	struct bench_hist service, get, response;
	uint64_t lag_max_ns, start_ns, end_ns;
	char first_error[192];
};

static const struct bench_column columns[] = {
	{ "requests", "requests", BENCH_COL_COUNT },
	{ "blocks", "blocks", BENCH_COL_COUNT },
	{ "block_hit_ratio", "block hits", BENCH_COL_PERCENT },
	{ "prefix_hit_ratio", "prefix hits", BENCH_COL_PERCENT },
	{ "hits_local", "local", BENCH_COL_COUNT },
	{ "hits_ssd_local", "SSD", BENCH_COL_COUNT },
	{ "get_gib_per_second", "get GiB/s", BENCH_COL_NUMBER },
	{ "put_gib_per_second", "put GiB/s", BENCH_COL_NUMBER },
	{ "latency_p50_ns", "p50", BENCH_COL_NS },
	{ "latency_p99_ns", "p99", BENCH_COL_NS },
	{ "error", "errors", BENCH_COL_COUNT },
	{ NULL, NULL, 0 },
};

static void fault(struct replay *p, const char *what, int res)
{
	if (!p->errors++)
		snprintf(p->first_error, sizeof(p->first_error), "%s: %s (%s)",
			 what, fluxonkv_strerror(res), fluxonkv_last_error());
}

static void name_blocks(struct replay *p, const uint64_t *ids, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		p->keys[i].data = p->names[i];
		p->keys[i].len = bench_key(p->names[i], PREFIX, ids[i]);
	}
}

static void check(struct replay *p, size_t i, const struct fluxonkv_holder *h)
{
	uint64_t seed, wrong = BENCH_PAYLOAD_GOOD;

	if (h->len != p->t->block_bytes) {
		wrong = h->len;
	} else if (p->t->verify) {
		seed = bench_payload_seed(p->keys[i].data, p->keys[i].len);
		wrong = bench_payload_check(h->data, h->len, seed);
	}
	if (wrong == BENCH_PAYLOAD_GOOD)
		return;
	p->corrupt++;
	if (!p->errors++)
		snprintf(p->first_error, sizeof(p->first_error), "%s: wrong "
			 "byte or length at offset %" PRIu64, p->names[i],
			 wrong);
}

static void count_hit(struct replay *p, size_t i,
		      const struct fluxonkv_holder *h)
{
	unsigned int s = (unsigned int)h->source < BENCH_SOURCES ?
			 (unsigned int)h->source : FLUXONKV_SERVED_NONE;

	p->prefix_hits++;
	p->get_bytes += h->len;
	p->source_hits[s]++;
	p->source_bytes[s] += h->len;
	check(p, i, h);
}

/* Get @n named blocks; returns how many of them lead without a miss. */
static size_t get_chunk(struct replay *p, size_t n)
{
	int res = fluxonkv_get_many(p->t->client, p->keys, n, p->holders);
	size_t run = 0, held = 0;

	if (res) {
		fault(p, "get_many", res);
		return 0;
	}
	while (run < n && !p->holders[run].status) {
		count_hit(p, run, &p->holders[run]);
		run++;
	}
	for (size_t i = 0; i < n; i++) {
		if (p->holders[i].status && p->holders[i].status != -ENOENT)
			fault(p, "get", p->holders[i].status);
		if (!p->holders[i].status)
			p->holders[held++] = p->holders[i];
	}
	res = held ? fluxonkv_release_many(p->t->client, p->holders, held) : 0;
	if (res)
		fault(p, "release_many", res);
	return run;
}

/* Length of the leading run of hits; touches nothing. */
static size_t ask(struct replay *p, const uint64_t *ids, size_t n)
{
	size_t done = 0, leading, some;
	int res;

	while (done < n) {
		some = n - done < ASK_MAX ? n - done : ASK_MAX;
		name_blocks(p, ids + done, some);
		res = fluxonkv_exists_many(p->t->client, p->keys, some, NULL,
					   &leading);
		if (res) {
			fault(p, "exists_many", res);
			return done;
		}
		done += leading;
		if (leading < some)
			break;
	}
	return done;
}

static size_t get_prefix(struct replay *p, const uint64_t *ids, size_t n)
{
	size_t most = p->t->probe == PROBE_EXISTS ? ask(p, ids, n) : n;
	size_t done = 0, some, run;

	while (done < most) {
		some = most - done < p->t->chunk ? most - done : p->t->chunk;
		name_blocks(p, ids + done, some);
		run = get_chunk(p, some);
		done += run;
		if (run < some)
			break;
	}
	return done;
}

static void count_put(struct replay *p, const struct fluxonkv_value *v)
{
	if (v->status == -EEXIST) {
		p->late_hits++;
	} else if (v->status == -EBUSY) {
		p->busy++;
	} else if (v->status) {
		fault(p, "put", v->status);
	} else {
		p->stored++;
		p->put_bytes += v->len;
	}
}

static void put_chunk(struct replay *p, size_t n)
{
	int res;

	for (size_t i = 0; i < n; i++) {
		char *data = p->buf + i * p->t->block_bytes;

		bench_payload_fill(data, p->t->block_bytes,
				   bench_payload_seed(p->keys[i].data,
						      p->keys[i].len));
		p->values[i] = (struct fluxonkv_value){
			.key = p->keys[i], .data = data,
			.len = p->t->block_bytes, .flags = FLUXONKV_EXCL,
		};
	}
	res = fluxonkv_put_many(p->t->client, p->values, n);
	if (res) {
		fault(p, "put_many", res);
		return;
	}
	for (size_t i = 0; i < n; i++)
		count_put(p, &p->values[i]);
}

static void put_rest(struct replay *p, const uint64_t *ids, size_t n)
{
	size_t some;

	for (size_t done = 0; done < n; done += some) {
		some = n - done < p->t->chunk ? n - done : p->t->chunk;
		name_blocks(p, ids + done, some);
		put_chunk(p, some);
	}
}

/* When the request is due; the start of the replay when speed is 0. */
static uint64_t due_ns(const struct replay *p, const struct bench_request *q)
{
	double ms = q->timestamp_ms - p->t->requests.v[0].timestamp_ms;
	double ns = ms / p->t->speed * 1e6;

	if (p->t->speed <= 0 || ms < 0)
		return p->start_ns;
	/* a time that no uint64_t holds is as far as one that it does */
	return p->start_ns + (uint64_t)(ns < DUE_MAX_NS ? ns : DUE_MAX_NS);
}

static void one_request(struct replay *p, const struct bench_request *q)
{
	const uint64_t *ids = p->t->requests.ids + q->first;
	uint64_t due = due_ns(p, q), start, got, end;
	size_t run;

	if (p->t->speed > 0)
		bench_sleep_until_ns(due);
	start = bench_now_ns();
	run = get_prefix(p, ids, q->n);
	got = bench_now_ns();
	put_rest(p, ids + run, q->n - run);
	end = bench_now_ns();
	bench_hist_add(&p->service, end - start);
	bench_hist_add(&p->get, got - start);
	p->requests++;
	p->blocks += q->n;
	if (p->t->speed <= 0)
		return;
	/* From when it was due: a slow one delays those behind it too. */
	bench_hist_add(&p->response, end - due);
	if (start - due > p->lag_max_ns)
		p->lag_max_ns = start - due;
}

static bool timed_out(const struct replay *p)
{
	return p->t->common.seconds > 0 &&
	       bench_now_ns() - p->start_ns >
	       (uint64_t)(p->t->common.seconds * 1e9);
}

static void replay_all(struct replay *p)
{
	const struct bench_requests *all = &p->t->requests;

	p->start_ns = bench_now_ns();
	for (size_t i = 0; i < all->n && !timed_out(p); i++) {
		if (!(i % 64))
			bench_report_progress(&p->t->report, "request %zu of "
					      "%zu", i, all->n);
		one_request(p, &all->v[i]);
	}
	p->end_ns = bench_now_ns();
}

static int replay_init(struct replay *p, struct trace *t)
{
	memset(p, 0, sizeof(*p));
	p->t = t;
	p->names = calloc(ASK_MAX, sizeof(*p->names));
	p->keys = calloc(ASK_MAX, sizeof(*p->keys));
	p->holders = calloc(t->chunk, sizeof(*p->holders));
	p->values = calloc(t->chunk, sizeof(*p->values));
	p->buf = malloc(t->chunk * t->block_bytes);
	if (!p->names || !p->keys || !p->holders || !p->values || !p->buf)
		return -ENOMEM;
	memset(p->buf, 0, t->chunk * t->block_bytes);
	return 0;
}

static void replay_done(struct replay *p)
{
	free(p->names);
	free(p->keys);
	free(p->holders);
	free(p->values);
	free(p->buf);
}

static double part(uint64_t n, uint64_t all)
{
	return all ? (double)n / (double)all : 0;
}

static void row_config(struct json_object *row, const struct trace *t)
{
	bench_row_text(row, "op", "trace");
	bench_row_text(row, "file", t->file);
	bench_row_count(row, "block_bytes", t->block_bytes);
	bench_row_number(row, "speed", t->speed);
	bench_row_text(row, "probe", t->probe == PROBE_GET ? "get" : "exists");
	bench_row_count(row, "chunk", t->chunk);
	bench_row_text(row, "verify", t->verify ? "all" : "length");
	bench_row_count(row, "requests_in_file", t->requests.n);
}

static void row_sources(struct json_object *row, const struct replay *p,
			double seconds)
{
	for (unsigned int s = FLUXONKV_SERVED_LOCAL; s < FLUXONKV_SERVED_MISS;
	     s++) {
		const char *name = fluxonkv_served_name(
			(enum fluxonkv_served)s);
		char hits[64], rate[64];

		snprintf(hits, sizeof(hits), "hits_%s", name);
		snprintf(rate, sizeof(rate), "gib_per_second_%s", name);
		for (char *c = hits; *c; c++)
			*c = *c == '-' ? '_' : *c;
		for (char *c = rate; *c; c++)
			*c = *c == '-' ? '_' : *c;
		bench_row_count(row, hits, p->source_hits[s]);
		bench_row_number(row, rate, (double)p->source_bytes[s] /
				 (double)BENCH_GIB / seconds);
	}
	bench_row_count(row, "unknown_source_operations",
			p->source_hits[FLUXONKV_SERVED_NONE] +
			p->source_hits[FLUXONKV_SERVED_MISS]);
}

static void row_hists(struct json_object *row, const struct replay *p)
{
	bench_row_latency(row, &p->service);
	bench_row_count(row, "get_latency_p50_ns",
			bench_hist_quantile(&p->get, 0.5));
	bench_row_count(row, "get_latency_p99_ns",
			bench_hist_quantile(&p->get, 0.99));
	if (p->t->speed <= 0)
		return;
	bench_row_count(row, "response_p50_ns",
			bench_hist_quantile(&p->response, 0.5));
	bench_row_count(row, "response_p99_ns",
			bench_hist_quantile(&p->response, 0.99));
	bench_row_count(row, "response_max_ns", p->response.max_ns);
	bench_row_count(row, "lag_max_ns", p->lag_max_ns);
}

static void report(const struct replay *p)
{
	struct json_object *row = json_object_new_object();
	double seconds = (double)(p->end_ns - p->start_ns) / 1e9;
	double gib = (double)BENCH_GIB * seconds;

	row_config(row, p->t);
	bench_row_count(row, "requests", p->requests);
	bench_row_count(row, "blocks", p->blocks);
	bench_row_count(row, "prefix_hits", p->prefix_hits);
	bench_row_count(row, "block_hits", p->prefix_hits + p->late_hits);
	bench_row_count(row, "stored", p->stored);
	bench_row_count(row, "busy", p->busy);
	bench_row_count(row, "error", p->errors);
	bench_row_count(row, "corrupt", p->corrupt);
	bench_row_text(row, "first_error", p->errors ? p->first_error : NULL);
	bench_row_number(row, "block_hit_ratio",
			 part(p->prefix_hits + p->late_hits, p->blocks));
	bench_row_number(row, "prefix_hit_ratio",
			 part(p->prefix_hits, p->blocks));
	bench_row_number(row, "window_seconds", seconds);
	bench_row_number(row, "gib_per_second", (double)p->get_bytes / gib);
	bench_row_number(row, "get_gib_per_second", (double)p->get_bytes / gib);
	bench_row_number(row, "put_gib_per_second", (double)p->put_bytes / gib);
	row_sources(row, p, seconds);
	row_hists(row, p);
	bench_report_row(&p->t->report, row);
}

static void judge(const struct replay *p)
{
	struct bench_report *r = &p->t->report;

	if (p->errors)
		bench_report_fail(r, "%" PRIu64 " errors, the first: %s",
				  p->errors, p->first_error);
	if (p->requests < p->t->requests.n)
		bench_report_note(r, "the time was over after %" PRIu64
				  " of %zu requests", p->requests,
				  p->t->requests.n);
	if (p->prefix_hits + p->late_hits + p->stored + p->busy != p->blocks &&
	    !p->errors)
		bench_report_fail(r, "the counts of blocks do not add up");
}

static void run(struct trace *t)
{
	struct replay *p = malloc(sizeof(*p));

	if (!p || replay_init(p, t)) {
		bench_report_fail(&t->report, "no memory for a chunk of %"
				  PRIu64 " blocks", t->chunk);
	} else if (fluxonkv_open(t->common.address, &t->client)) {
		bench_report_fail(&t->report, "open: %s",
				  fluxonkv_last_error());
	} else {
		replay_all(p);
		fluxonkv_close(t->client);
		report(p);
		judge(p);
	}
	if (p)
		replay_done(p);
	free(p);
}

static int parse(struct trace *t, int argc, char **argv)
{
	const struct bench_opt opts[] = {
		{ "file", BENCH_STRING, &t->file, "PATH",
		  "the trace, JSON lines (required)", 0, 0 },
		{ "block-bytes", BENCH_SIZE, &t->block_bytes, "SIZE",
		  "size of a block's value (64k)", 1, BENCH_GIB },
		{ "speed", BENCH_NUMBER, &t->speed, "X",
		  "times as fast as recorded; 0: as fast as possible (0)",
		  0, 0 },
		{ "requests", BENCH_COUNT, &t->requests_max, "N",
		  "only the first N requests", 1, 1ULL << 40 },
		{ "probe", BENCH_WORD, &t->probe, "exists|get",
		  "how the first miss is found (exists)", 0, 0 },
		{ "chunk", BENCH_COUNT, &t->chunk, "N",
		  "blocks per get or put call (32)", 1, CHUNK_MAX },
		{ "verify", BENCH_FLAG, &t->verify, NULL,
		  "check every byte that is got (its time counts)", 0, 0 },
		{ "keep", BENCH_FLAG, &t->keep, NULL,
		  "neither delete the blocks before nor after", 0, 0 },
		{ "address", BENCH_STRING, &t->common.address, "ADDRESS",
		  "unix:PATH or dev:NAME (else $FLUXONKV, or the default)", 0, 0 },
		{ "json", BENCH_FLAG, &t->common.json, NULL,
		  "JSON lines on stdout, the table on stderr", 0, 0 },
		{ "quiet", BENCH_FLAG, &t->common.quiet, NULL,
		  "no progress on a terminal", 0, 0 },
		{ "seconds", BENCH_SECONDS, &t->common.seconds, "S",
		  "stop after so long (0: at the end)", 0, 0 },
		{ .name = NULL },
	};

	return bench_args_parse(argc, argv, opts, "Replay of prefix-cache "
		"requests: get until the first miss, put the rest.");
}

static void wipe(struct trace *t)
{
	if (!t->keep && bench_wipe(t->common.address, PREFIX))
		bench_report_fail(&t->report, "cannot delete %s*: %s", PREFIX,
				  fluxonkv_last_error());
}

static int read_file(struct trace *t)
{
	size_t line;
	int res = bench_requests_read(t->file, t->requests_max, &t->requests,
				      &line);

	if (res == -EINVAL)
		return bench_args_fail("trace", "%s:%zu: expected an object "
				       "with a number \"timestamp\" and an "
				       "array \"hash_ids\" of numbers", t->file,
				       line);
	if (res)
		return bench_args_fail("trace", "%s: %s", t->file,
				       strerror(-res));
	if (!t->requests.n)
		return bench_args_fail("trace", "%s: has no requests", t->file);
	return 0;
}

int bench_trace(int argc, char **argv)
{
	static struct trace t = { .block_bytes = 64 << 10, .chunk = 32 };
	int res = parse(&t, argc, argv);

	if (res)
		return res == BENCH_ARGS_HELP ? 0 : 2;
	if (!t.file)
		return bench_args_fail("trace", "--file PATH is required");
	res = read_file(&t);
	if (res)
		return res;
	if (bench_report_init(&t.report, "trace", columns, t.common.json,
			      t.common.quiet))
		return 1;
	wipe(&t);
	if (!t.report.failed)
		run(&t);
	wipe(&t);
	bench_requests_done(&t.requests);
	return bench_report_done(&t.report);
}
