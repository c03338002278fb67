// SPDX-License-Identifier: Apache-2.0
/*
 * batch.c - one batch call as the operation of a run
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/batch.h"
#include "bench/bench.h"
#include "bench/data.h"
#include "bench/payload.h"

#define PICK_TRIES	64u		/* stat calls for one batch */

struct batcher {
	unsigned int n;			/* keys of the next call */
	char (*names)[BENCH_KEY_MAX];
	struct fluxonkv_key *keys;
	struct fluxonkv_holder *holders;
	struct fluxonkv_into *intos;
	struct fluxonkv_value *values;
	struct fluxonkv_stat *stats;
	unsigned char *exists;
	char *buf;			/* batch * value_bytes */
	uint64_t *pool;			/* indices that are on SSD only */
	unsigned int nr_pool;
};

const char *bench_batch_op_name(enum bench_batch_op op)
{
	static const char *const names[] = {
		"put", "get", "get_into", "get_ssd", "get_into_ssd", "exists",
	};

	return names[op];
}

static bool has_buffer(const struct bench_batch *b)
{
	return b->op == BENCH_OP_PUT || b->op == BENCH_OP_GET_INTO ||
	       b->op == BENCH_OP_GET_INTO_SSD;
}

static bool from_ssd(const struct bench_batch *b)
{
	return b->op == BENCH_OP_GET_SSD || b->op == BENCH_OP_GET_INTO_SSD;
}

static int batch_start(struct bench_worker *w)
{
	const struct bench_batch *b = w->run->context;
	struct batcher *s = calloc(1, sizeof(*s));
	unsigned int n = b->batch;

	if (!s)
		return -ENOMEM;
	w->state = s;
	s->names = calloc(BENCH_BATCH_MAX, sizeof(*s->names));
	s->keys = calloc(BENCH_BATCH_MAX, sizeof(*s->keys));
	s->stats = calloc(BENCH_BATCH_MAX, sizeof(*s->stats));
	s->pool = calloc(BENCH_BATCH_MAX, sizeof(*s->pool));
	s->holders = calloc(n, sizeof(*s->holders));
	s->intos = calloc(n, sizeof(*s->intos));
	s->values = calloc(n, sizeof(*s->values));
	s->exists = calloc(n, 1);
	if (!s->names || !s->keys || !s->stats || !s->pool || !s->holders ||
	    !s->intos || !s->values || !s->exists)
		return -ENOMEM;
	if (!has_buffer(b))
		return 0;
	s->buf = malloc(n * b->value_bytes + 1);
	if (!s->buf)
		return -ENOMEM;
	/* The first touch of memory is not what is measured. */
	bench_payload_fill(s->buf, n * b->value_bytes, w->thread);
	return 0;
}

static void batch_stop(struct bench_worker *w)
{
	struct batcher *s = w->state;

	free(s->names);
	free(s->keys);
	free(s->stats);
	free(s->pool);
	free(s->holders);
	free(s->intos);
	free(s->values);
	free(s->exists);
	free(s->buf);
	free(s);
}

static void name_key(const struct bench_batch *b, struct batcher *s,
		     unsigned int i, uint64_t index)
{
	s->keys[i].data = s->names[i];
	s->keys[i].len = bench_key(s->names[i], b->prefix, index);
}

/* Ask where BENCH_BATCH_MAX random keys are; keep those only on SSD. */
static int fill_pool(struct bench_worker *w)
{
	const struct bench_batch *b = w->run->context;
	struct batcher *s = w->state;
	uint64_t indices[BENCH_BATCH_MAX];
	uint64_t from = bench_worker_random(w) % b->keys;
	unsigned int n = b->keys < BENCH_BATCH_MAX ? (unsigned int)b->keys :
						     BENCH_BATCH_MAX;
	int res;

	for (unsigned int i = 0; i < n; i++) {
		/* A few keys: each once. Many: independent. */
		indices[i] = n < BENCH_BATCH_MAX ? (from + i) % b->keys :
			     bench_worker_random(w) % b->keys;
		name_key(b, s, i, indices[i]);
	}
	res = fluxonkv_stat_many(w->client, s->keys, n, s->stats, NULL);
	if (res)
		return res;
	s->nr_pool = 0;
	for (unsigned int i = 0; i < n; i++) {
		if (s->stats[i].status == -ENOENT)
			bench_worker_key(w, -ENOENT, FLUXONKV_SERVED_MISS, 0);
		else if (s->stats[i].where == FLUXONKV_WHERE_SSD)
			s->pool[s->nr_pool++] = indices[i];
	}
	return 0;
}

/*
 * Up to a batch of keys that were on SSD only a moment ago. Scattered over
 * the pool, or the threads would follow each other through the same keys.
 */
static int choose_ssd(struct bench_worker *w)
{
	const struct bench_batch *b = w->run->context;
	struct batcher *s = w->state;
	uint64_t chosen[BENCH_BATCH_MAX];
	unsigned int n = 0;

	for (unsigned int t = 0; t < PICK_TRIES && n < b->batch; t++) {
		while (s->nr_pool && n < b->batch) {
			uint64_t at = bench_worker_random(w) % s->nr_pool;

			chosen[n++] = s->pool[at];
			s->pool[at] = s->pool[--s->nr_pool];
		}
		if (n == b->batch)
			break;
		if (n && b->keys < BENCH_BATCH_MAX)
			break;	/* a second look would give the same keys */
		if (fill_pool(w))
			return -EIO;
	}
	for (unsigned int i = 0; i < n; i++)
		name_key(b, s, i, chosen[i]);
	s->n = n;
	return n ? 0 : -ENODATA;
}

static void choose(struct bench_worker *w)
{
	const struct bench_batch *b = w->run->context;
	struct batcher *s = w->state;
	uint64_t all = b->keys, base = 0, from;

	if (b->op == BENCH_OP_PUT) {
		base = w->thread * b->keys;
		from = w->i * b->batch;
	} else {
		from = bench_worker_random(w) % b->keys;
	}
	s->n = b->batch;
	for (unsigned int i = 0; i < s->n; i++)
		name_key(b, s, i, base + (from + i) % all);
}

static void check(struct bench_worker *w, unsigned int i, const void *data,
		  uint64_t len)
{
	const struct bench_batch *b = w->run->context;
	struct batcher *s = w->state;
	uint64_t wrong = BENCH_PAYLOAD_GOOD;

	if (len != b->value_bytes)
		wrong = len;
	else if (b->verify)
		wrong = bench_payload_check(data, len,
					    bench_payload_seed(s->keys[i].data,
							       s->keys[i].len));
	if (wrong != BENCH_PAYLOAD_GOOD)
		bench_worker_corrupt(w, s->names[i], wrong);
}

static void do_get(struct bench_worker *w)
{
	struct batcher *s = w->state;
	uint64_t start = bench_now_ns();
	int res = fluxonkv_get_many(w->client, s->keys, s->n, s->holders);
	unsigned int held = 0;

	bench_worker_call(w, start, bench_now_ns());
	if (res) {
		bench_worker_error(w, "get_many", res);
		return;
	}
	for (unsigned int i = 0; i < s->n; i++) {
		struct fluxonkv_holder *h = &s->holders[i];

		bench_worker_key(w, h->status, h->source, h->len);
		if (h->status)
			continue;
		check(w, i, h->data, h->len);
		s->holders[held++] = *h;
	}
	res = held ? fluxonkv_release_many(w->client, s->holders, held) : 0;
	if (res)
		bench_worker_error(w, "release_many", res);
}

static void do_get_into(struct bench_worker *w)
{
	const struct bench_batch *b = w->run->context;
	struct batcher *s = w->state;
	uint64_t start;
	int res;

	for (unsigned int i = 0; i < s->n; i++)
		s->intos[i] = (struct fluxonkv_into){
			.key = s->keys[i],
			.buf = s->buf + i * b->value_bytes,
			.size = b->value_bytes,
		};
	start = bench_now_ns();
	res = fluxonkv_get_into_many(w->client, s->intos, s->n);
	bench_worker_call(w, start, bench_now_ns());
	if (res) {
		bench_worker_error(w, "get_into_many", res);
		return;
	}
	for (unsigned int i = 0; i < s->n; i++) {
		struct fluxonkv_into *t = &s->intos[i];

		bench_worker_key(w, t->status, t->source, t->len);
		if (!t->status)
			check(w, i, t->buf, t->len);
	}
}

static void do_put(struct bench_worker *w)
{
	const struct bench_batch *b = w->run->context;
	struct batcher *s = w->state;
	uint64_t start;
	int res;

	for (unsigned int i = 0; i < s->n; i++) {
		char *data = s->buf + i * b->value_bytes;

		if (b->verify)
			bench_payload_fill(data, b->value_bytes,
					   bench_payload_seed(s->keys[i].data,
							      s->keys[i].len));
		s->values[i] = (struct fluxonkv_value){
			.key = s->keys[i], .data = data, .len = b->value_bytes,
		};
	}
	start = bench_now_ns();
	res = fluxonkv_put_many(w->client, s->values, s->n);
	bench_worker_call(w, start, bench_now_ns());
	if (res) {
		bench_worker_error(w, "put_many", res);
		return;
	}
	for (unsigned int i = 0; i < s->n; i++)
		bench_worker_key(w, s->values[i].status,
				 FLUXONKV_SERVED_LOCAL, b->value_bytes);
}

static void do_exists(struct bench_worker *w)
{
	struct batcher *s = w->state;
	uint64_t start = bench_now_ns();
	size_t leading;
	int res = fluxonkv_exists_many(w->client, s->keys, s->n, s->exists,
				       &leading);

	bench_worker_call(w, start, bench_now_ns());
	if (res) {
		bench_worker_error(w, "exists_many", res);
		return;
	}
	for (unsigned int i = 0; i < s->n; i++)
		bench_worker_key(w, s->exists[i] ? 0 : -ENOENT,
				 FLUXONKV_SERVED_LOCAL, 0);
}

static void batch_op(struct bench_worker *w)
{
	const struct bench_batch *b = w->run->context;
	int res;

	if (from_ssd(b)) {
		res = choose_ssd(w);
		if (res == -ENODATA) {	/* all in memory: wait for evictions */
			bench_sleep_until_ns(bench_now_ns() + 1000000);
			return;
		}
		if (res) {
			bench_worker_error(w, "stat_many", res);
			return;
		}
	} else {
		choose(w);
	}
	switch (b->op) {
	case BENCH_OP_PUT:
		do_put(w);
		break;
	case BENCH_OP_GET:
	case BENCH_OP_GET_SSD:
		do_get(w);
		break;
	case BENCH_OP_GET_INTO:
	case BENCH_OP_GET_INTO_SSD:
		do_get_into(w);
		break;
	case BENCH_OP_EXISTS:
		do_exists(w);
		break;
	}
}

const struct bench_work bench_batch_work = {
	.start = batch_start,
	.stop = batch_stop,
	.op = batch_op,
};

static double per_second(uint64_t n, const struct bench_outcome *o)
{
	return o->window_s > 0 ? (double)n / o->window_s : 0;
}

static void row_sources(struct json_object *row, const struct bench_outcome *o)
{
	const struct bench_result *a = &o->all;

	for (unsigned int s = FLUXONKV_SERVED_LOCAL; s < FLUXONKV_SERVED_MISS;
	     s++) {
		char field[64];

		snprintf(field, sizeof(field), "hits_%s",
			 fluxonkv_served_name((enum fluxonkv_served)s));
		for (char *c = field; *c; c++)
			*c = *c == '-' ? '_' : *c;
		bench_row_count(row, field, a->source_hits[s]);
	}
	bench_row_number(row, "ssd_gib_per_second", per_second(
		a->source_bytes[FLUXONKV_SERVED_SSD_LOCAL] +
		a->source_bytes[FLUXONKV_SERVED_SSD_REMOTE], o) /
		(double)BENCH_GIB);
}

void bench_batch_row(struct json_object *row, const struct bench_batch *b,
		     const struct bench_run *run,
		     const struct bench_outcome *o)
{
	const struct bench_result *a = &o->all;

	bench_row_text(row, "op", bench_batch_op_name(b->op));
	bench_row_count(row, "value_bytes", b->value_bytes);
	bench_row_count(row, "keys", b->keys);
	bench_row_count(row, "batch", b->batch);
	bench_row_count(row, "processes", run->processes);
	bench_row_count(row, "threads", run->threads);
	bench_row_text(row, "verify", b->verify ? "all" : "length");
	bench_row_count(row, "calls", a->calls);
	bench_row_count(row, "hit", a->hits);
	bench_row_count(row, "miss", a->misses);
	bench_row_count(row, "error", a->errors);
	bench_row_count(row, "corrupt", a->corrupt);
	bench_row_text(row, "first_error", a->errors ? a->first_error : NULL);
	bench_row_number(row, "window_seconds", o->window_s);
	bench_row_number(row, "calls_per_second", per_second(a->calls, o));
	bench_row_number(row, "keys_per_second", per_second(a->hits, o));
	bench_row_number(row, "gib_per_second",
			 per_second(a->bytes, o) / (double)BENCH_GIB);
	if (b->op != BENCH_OP_PUT && b->op != BENCH_OP_EXISTS)
		row_sources(row, o);
	bench_row_latency(row, &a->latency);
	bench_row_cpu(row, o);
}

void bench_batch_judge(struct bench_report *r, const struct bench_batch *b,
		       const struct bench_outcome *o, int res)
{
	const struct bench_result *a = &o->all;
	const char *op = bench_batch_op_name(b->op);

	if (res) {
		bench_report_fail(r, "%s: the run failed: %s; %s", op,
				  strerror(-res), a->first_error);
		return;
	}
	if (a->errors)
		bench_report_fail(r, "%s: %" PRIu64 " errors, the first: %s",
				  op, a->errors, a->first_error);
	if (a->misses || a->misses_outside)
		bench_report_fail(r, "%s: %" PRIu64 " misses of keys that were "
				  "loaded", op, a->misses + a->misses_outside);
	if (!a->calls)
		bench_report_fail(r, "%s: no call ended in the window", op);
	else if (from_ssd(b) && !a->source_hits[FLUXONKV_SERVED_SSD_LOCAL] &&
		 !a->source_hits[FLUXONKV_SERVED_SSD_REMOTE])
		bench_report_fail(r, "%s: nothing came from SSD", op);
}
