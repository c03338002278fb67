// SPDX-License-Identifier: Apache-2.0
/*
 * policy-sim - replay a trace of block ids against eviction policies
 *
 * One JSON object a line, of which `hash_ids` is read: the blocks of one
 * request. A block counts as hit when it is cached as its request begins.
 * Blocks have one size; the cache has room for 5, 10 and 25 % of the distinct
 * ones. LFU-DA is the daemon's; the others are here to compare, each from its
 * published description.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include <json-c/json.h>

#include "policies/cache.h"

#define TOLERANCE	0.1
#define NR_ROOMS	3
#define NR_HASHES	16

static const unsigned int percents[NR_ROOMS] = { 5, 10, 25 };

/*
 * What depends on a hash that nobody recorded is run with several: the figure
 * must be near one that they give.
 */
struct hits {
	double least, mean, most;
};

/* Blocks touched first to last unless reverse; first_percent, threshold. */
static const struct policy policies[] = {
	{ &belady_kind, "Belady", NULL, false, 0, 0,
	  { 36.64, 36.64, 36.64 } },
	{ &fifo_kind, "FIFO", NULL, false, 0, 0,
	  { 18.01, 25.59, 33.45 } },
	{ &lru_kind, "LRU", NULL, false, 0, 0,
	  { 19.57, 27.89, 35.35 } },
	{ &sieve_kind, "SIEVE", NULL, false, 0, 0,
	  { 12.75, 19.49, 33.64 } },
	{ &arc_kind, "ARC", "p in fractions of a block", false, 0, 0,
	  { 21.01, 28.42, 33.55 } },
	{ &clock_kind, "CLOCK 2-bit", "blocks enter with 0", false, 0, 0,
	  { 20.36, 28.67, 35.36 } },
	{ &tiny_lfu_kind, "W-TinyLFU 1 %", NULL, false, 1, 0,
	  { 16.76, 20.12, 25.82 } },
	{ &tiny_lfu_kind, "W-TinyLFU 80 %", NULL, false, 80, 0,
	  { 20.24, 27.75, 34.93 } },
	{ &s3_fifo_kind, "S3-FIFO 10 %, thr 2", "ghost of 90 % of the room",
	  false, 10, 2, { 18.78, 24.60, 34.60 } },
	{ &s3_fifo_kind, "S3-FIFO 50 %, thr 1", "ghost of 90 % of the room",
	  false, 50, 1, { 21.41, 29.04, 34.49 } },
	{ &mq_kind, "MQ, reverse touch", "8 lists", true, 0, 0,
	  { 21.74, 29.45, 35.44 } },
	{ &lfu_da_kind, "LFU-DA, reverse touch", NULL, true, 0, 0,
	  { 21.99, 29.07, 35.36 } },
};

static void *grow(void *old, size_t n, size_t *room, size_t size)
{
	void *p = old;

	if (n < *room)
		return old;
	*room = *room ? 2 * *room : 1024;
	p = realloc(old, *room * size);
	if (!p)
		fatal("out of memory");
	return p;
}

static void trace_add_request(struct trace *t, const char *line)
{
	struct json_object *request = json_tokener_parse(line), *ids;

	if (!json_object_object_get_ex(request, "hash_ids", &ids))
		fatal("a line without hash_ids");
	for (size_t i = 0; i < json_object_array_length(ids); i++) {
		int64_t id = json_object_get_int64(
			json_object_array_get_idx(ids, i));

		if (id < 0 || id > INT32_MAX)
			fatal("a hash id out of range");
		t->ids = grow(t->ids, t->nr_ids, &t->room_ids,
			      sizeof(*t->ids));
		t->ids[t->nr_ids++] = id;
		if (id >= t->nr_blocks)
			t->nr_blocks = id + 1;
	}
	t->ends = grow(t->ends, t->nr_requests, &t->room_requests,
		       sizeof(*t->ends));
	t->ends[t->nr_requests++] = t->nr_ids;
	json_object_put(request);
}

static void trace_count_distinct(struct trace *t)
{
	bool *seen = array_create(t->nr_blocks, sizeof(*seen));

	for (size_t i = 0; i < t->nr_ids; i++) {
		t->distinct += !seen[t->ids[i]];
		seen[t->ids[i]] = true;
	}
	free(seen);
}

static void trace_read(struct trace *t, const char *path)
{
	FILE *file = fopen(path, "r");
	char *line = NULL;
	size_t size = 0;

	if (!file)
		fatal("cannot open the trace");
	while (getline(&line, &size, file) > 0)
		trace_add_request(t, line);
	free(line);
	fclose(file);
	trace_count_distinct(t);
	if (!t->distinct)
		fatal("an empty trace");
}

static size_t request_replay(struct cache *c, const uint32_t *ids, size_t n)
{
	size_t hits = 0;

	for (size_t i = 0; i < n; i++)
		hits += cache_holds(c, &c->block[ids[i]]);
	for (size_t i = 0; i < n; i++)
		cache_access(c, ids[c->policy->reverse ? n - 1 - i : i]);
	return hits;
}

/* The share of the accesses that hit, in percent. */
static double replay(const struct policy *p, const struct trace *t,
		     uint32_t room, uint64_t seed)
{
	struct cache *c = cache_create(p, room ? room : 1, t, seed);
	size_t hits = 0, start = 0;

	for (size_t i = 0; i < t->nr_requests; i++) {
		hits += request_replay(c, t->ids + start, t->ends[i] - start);
		start = t->ends[i];
	}
	cache_free(c);
	return 100.0 * hits / t->nr_ids;
}

static struct hits replay_all(const struct policy *p, const struct trace *t,
			      uint32_t room)
{
	unsigned int n = p->kind->by_hash ? NR_HASHES : 1;
	struct hits hits = { .least = 100 };

	for (unsigned int seed = 0; seed < n; seed++) {
		double hit = replay(p, t, room, seed);

		hits.least = fmin(hits.least, hit);
		hits.most = fmax(hits.most, hit);
		hits.mean += hit / n;
	}
	return hits;
}

static bool agrees(const struct hits *hits, double expected)
{
	return expected > hits->least - TOLERANCE &&
	       expected < hits->most + TOLERANCE;
}

/* Returns how many cells are not the expected ones; without @check 0. */
static int report(const struct policy *p, const struct trace *t, bool check)
{
	struct hits hits[NR_ROOMS];
	int off = 0;

	printf("%-22s", p->name);
	for (int i = 0; i < NR_ROOMS; i++) {
		bool good;

		hits[i] = replay_all(p, t, (uint64_t)t->distinct *
					   percents[i] / 100);
		good = agrees(&hits[i], p->expected[i]);
		printf(" %6.2f", hits[i].mean);
		if (check)
			printf(" (%5.2f)%c", p->expected[i], good ? ' ' : '!');
		off += check && !good;
	}
	if (check && p->note)
		printf(" %s", p->note);
	if (p->kind->by_hash) {
		printf("\n  with %d hashes       ", NR_HASHES);
		for (int i = 0; i < NR_ROOMS; i++)
			printf("%s %5.2f to %5.2f", i ? "," : "",
			       hits[i].least, hits[i].most);
	}
	printf("\n");
	return off;
}

static int report_all(const struct trace *t, bool check)
{
	int off = 0;

	printf("%zu accesses, %u distinct blocks\n", t->nr_ids, t->distinct);
	printf("%-22s", "room %");
	for (int i = 0; i < NR_ROOMS; i++)
		printf(check ? " %6u expected" : " %6u", percents[i]);
	printf("\n");
	for (size_t i = 0; i < FKV_ARRAY_SIZE(policies); i++)
		off += report(&policies[i], t, check);
	if (off)
		printf("%d cells marked ! are not the expected ones\n", off);
	return off;
}

int main(int argc, char **argv)
{
	bool check = argc == 3 && !strcmp(argv[1], "--check");
	struct trace t = { .ids = NULL };
	int off;

	if (argc != 2 + check) {
		fprintf(stderr,
			"usage: policy-sim [--check] TRACE\n"
			"Block hit %% with room for 5, 10, 25 %% of them.\n"
			"--check: beside those recorded for the conversation\n"
			"    trace; fail if one is off by more than 0.1. What\n"
			"    depends on a hash: off all that %d hashes give.\n",
			NR_HASHES);
		return EXIT_FAILURE;
	}
	trace_read(&t, argv[argc - 1]);
	off = report_all(&t, check);
	free(t.ids);
	free(t.ends);
	return off ? EXIT_FAILURE : EXIT_SUCCESS;
}
