// SPDX-License-Identifier: Apache-2.0
/*
 * policy-sim - replay a trace of block ids against the eviction policy
 *
 * One JSON object a line, of which `hash_ids` is read: the blocks of one
 * request. A block counts as hit when it is resident as its request begins.
 * Blocks have one size; the cache has room for 5, 10 and 25 % of the distinct
 * ones. LFU-DA is core/master/policy.c with the blocks of a request touched
 * last to first; FIFO and LRU, front to back, are here to compare.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include <json-c/json.h>

#include "core/master/policy.h"

#define BLOCK_BYTES	(1ULL << 20)
#define TOLERANCE	0.1

struct trace {
	uint32_t *ids;
	size_t nr_ids, room_ids;
	size_t *ends;			/* of requests, in ids */
	size_t nr_requests, room_requests;
	uint32_t distinct;		/* ids are below */
	uint32_t nr_blocks;
};

struct block {
	struct fkv_lfu_item lfu;
	TAILQ_ENTRY(block) link;
	bool resident;
};

TAILQ_HEAD(blocks, block);

struct cache {
	struct block *block;
	struct fkv_lfu lfu;
	struct blocks list;		/* FIFO, LRU: next to go is last */
	uint32_t room, used;
};

struct policy {
	const char *name;
	bool reverse;
	void (*access)(struct cache *c, uint32_t id);
	double expected[3];		/* design/eviction.md, W2 */
};

static const unsigned int percents[3] = { 5, 10, 25 };

static void fatal(const char *what)
{
	fprintf(stderr, "policy-sim: %s\n", what);
	exit(EXIT_FAILURE);
}

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
	bool *seen = calloc(t->nr_blocks ? t->nr_blocks : 1, sizeof(*seen));

	if (!seen)
		fatal("out of memory");
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

static void list_enter(struct cache *c, struct block *b)
{
	if (c->used == c->room) {
		struct block *victim = TAILQ_LAST(&c->list, blocks);

		TAILQ_REMOVE(&c->list, victim, link);
		victim->resident = false;
		c->used--;
	}
	TAILQ_INSERT_HEAD(&c->list, b, link);
	b->resident = true;
	c->used++;
}

static void fifo_access(struct cache *c, uint32_t id)
{
	if (!c->block[id].resident)
		list_enter(c, &c->block[id]);
}

static void lru_access(struct cache *c, uint32_t id)
{
	struct block *b = &c->block[id];

	if (!b->resident) {
		list_enter(c, b);
		return;
	}
	TAILQ_REMOVE(&c->list, b, link);
	TAILQ_INSERT_HEAD(&c->list, b, link);
}

/* a permutation of 64 bits that mixes well (MurmurHash3's finalizer) */
static uint64_t id_hash(uint64_t id)
{
	id = (id ^ id >> 33) * 0xff51afd7ed558ccdULL;
	id = (id ^ id >> 33) * 0xc4ceb9fe1a85ec53ULL;
	return id ^ id >> 33;
}

static void lfu_access(struct cache *c, uint32_t id)
{
	struct block *b = &c->block[id];

	if (b->resident) {
		fkv_lfu_touch(&c->lfu, &b->lfu, 1);
		return;
	}
	if (c->used == c->room) {
		struct fkv_lfu_cursor cursor = { .started = false };
		struct fkv_lfu_item *item = fkv_lfu_victim(&c->lfu, &cursor);

		fkv_lfu_evicted(&c->lfu, item, false);
		fkv_container_of(item, struct block, lfu)->resident = false;
		c->used--;
	}
	b->lfu.bytes = BLOCK_BYTES;
	fkv_lfu_insert(&c->lfu, &b->lfu,
		       fkv_lfu_ghost_take(&c->lfu, id_hash(id)), id_hash(id));
	b->resident = true;
	c->used++;
}

static size_t request_replay(const struct policy *p, struct cache *c,
			     const uint32_t *ids, size_t n)
{
	size_t hits = 0;

	for (size_t i = 0; i < n; i++)
		hits += c->block[ids[i]].resident;
	for (size_t i = 0; i < n; i++)
		p->access(c, ids[p->reverse ? n - 1 - i : i]);
	return hits;
}

static double replay(const struct policy *p, const struct trace *t,
		     uint32_t room)
{
	struct cache c = { .room = room ? room : 1 };
	size_t hits = 0, start = 0;

	c.block = calloc(t->nr_blocks, sizeof(*c.block));
	if (!c.block)
		fatal("out of memory");
	TAILQ_INIT(&c.list);
	fkv_lfu_init(&c.lfu, false);
	for (size_t i = 0; i < t->nr_requests; i++) {
		hits += request_replay(p, &c, t->ids + start,
				       t->ends[i] - start);
		start = t->ends[i];
	}
	fkv_lfu_check(&c.lfu);
	fkv_lfu_done(&c.lfu);
	free(c.block);
	return 100.0 * hits / t->nr_ids;
}

static bool report(const struct policy *p, const struct trace *t, bool check)
{
	bool ok = true;

	printf("%-8s", p->name);
	for (int i = 0; i < 3; i++) {
		double hit = replay(p, t, (uint64_t)t->distinct *
					  percents[i] / 100);

		printf(" %6.2f", hit);
		if (fabs(hit - p->expected[i]) > TOLERANCE)
			ok = false;
	}
	printf("%s\n", check && !ok ? "  not the recorded figures" : "");
	return ok;
}

int main(int argc, char **argv)
{
	static const struct policy policies[] = {
		{ "FIFO", false, fifo_access, { 18.01, 25.59, 33.45 } },
		{ "LRU", false, lru_access, { 19.57, 27.89, 35.35 } },
		{ "LFU-DA", true, lfu_access, { 21.99, 29.07, 35.36 } },
	};
	bool check = argc == 3 && !strcmp(argv[1], "--check"), ok = true;
	struct trace t = { .ids = NULL };

	if (argc != 2 + check) {
		fprintf(stderr,
			"usage: policy-sim [--check] TRACE\n"
			"Block hit %% with room for 5, 10, 25 %% of them.\n"
			"--check: fail unless the figures are those recorded\n"
			"         for the conversation trace.\n");
		return EXIT_FAILURE;
	}
	trace_read(&t, argv[argc - 1]);
	printf("%zu accesses, %u distinct blocks\n", t.nr_ids, t.distinct);
	printf("%-8s %6u %6u %6u\n", "room %", percents[0], percents[1],
	       percents[2]);
	for (size_t i = 0; i < FKV_ARRAY_SIZE(policies); i++)
		ok = report(&policies[i], &t, check) && ok;
	free(t.ids);
	free(t.ends);
	return check && !ok ? EXIT_FAILURE : EXIT_SUCCESS;
}
