// SPDX-License-Identifier: Apache-2.0
/*
 * field.c - what clients do in the stories of requirements learned in the
 * field, one word each. A word prints what it found and ends with 1 when
 * anything was not as expected.
 */
#include <pthread.h>
#include <stddef.h>
#include <sys/mman.h>

#include "story.h"

/* A value whose first word says all the others, so that any length shows it. */
static void mark(void *data, size_t len, uint64_t seed)
{
	uint8_t *p = data;
	uint64_t w;

	for (size_t i = 0; i < len; i += 8) {
		w = seed * 0x9e3779b97f4a7c15ULL + i;
		memcpy(p + i, &w, len - i < 8 ? len - i : 8);
	}
}

static bool marked(const void *data, size_t len, uint64_t seed)
{
	const uint8_t *p = data;
	uint64_t w;

	for (size_t i = 0; i < len; i += 8) {
		w = seed * 0x9e3779b97f4a7c15ULL + i;
		if (memcmp(p + i, &w, len - i < 8 ? len - i : 8))
			return false;
	}
	return true;
}

/* One buffer a thread, as large as any value here. */
static void *scratch(void)
{
	static __thread uint8_t *p;

	if (!p)
		p = malloc(4 * MIB + KIB);
	if (!p)
		exit(1);
	return p;
}

static int put_marked(struct fluxonkv *kv, const char *key, size_t len,
		      uint64_t seed)
{
	void *p = scratch();

	mark(p, len, seed);
	return fluxonkv_put(kv, key, strlen(key), p, len, 0);
}

static bool persisted(struct fluxonkv *kv)
{
	return becomes(kv, "status", "\"persist_pending\"", 0, 20);
}

/* ---- sizes: A6 ---- */

static const size_t size_of[] = { 1, 511, 4095, 4096, 4097, 65537, 2796202 };

#define SIZES	(sizeof(size_of) / sizeof(size_of[0]))

/* get_into writes the value, and not a byte beside it. */
static bool exact(struct fluxonkv *kv, const char *name, size_t len,
		  uint64_t seed)
{
	uint8_t *p = scratch();
	struct fluxonkv_into into = {
		.key = { name, strlen(name) }, .buf = p + 64, .size = len,
	};

	memset(p, 0xa5, 64);
	memset(p + 64 + len, 0xa5, 64);
	expect(fluxonkv_get_into_many(kv, &into, 1), 0, name);
	expect(into.status, 0, name);
	check(into.len == len && marked(p + 64, len, seed), name);
	for (size_t i = 0; i < 64; i++)
		check(p[i] == 0xa5 && p[64 + len + i] == 0xa5,
		      "bytes beside the buffer");
	return into.source == FLUXONKV_SERVED_SSD_LOCAL;
}

static bool held(struct fluxonkv *kv, const char *name, size_t len,
		 uint64_t seed)
{
	struct fluxonkv_holder h;
	int err = fluxonkv_get(kv, name, strlen(name), &h);

	expect(err, 0, name);
	if (err)
		return false;
	check(h.len == len && marked(h.data, len, seed), name);
	fluxonkv_release(kv, &h);
	return h.source == FLUXONKV_SERVED_SSD_LOCAL;
}

/* New values, 32 MiB of them, push everything else out of 16 MiB. */
static void push_out(struct fluxonkv *kv, const char *turn, unsigned int len)
{
	char name[32];

	check(persisted(kv), "persisted");
	for (unsigned int i = 0; i < 32 * MIB / len; i++) {
		sprintf(name, "push/%s/%u", turn, i);
		expect(put_marked(kv, name, len, i), 0, name);
	}
	check(persisted(kv), "persisted");
}

static void one_turn(struct fluxonkv *kv, const char *turn)
{
	char name[32];

	for (unsigned int i = 0; i < SIZES; i++) {
		sprintf(name, "%s/%zu", turn, size_of[i]);
		expect(put_marked(kv, name, size_of[i], i), 0, name);
	}
	push_out(kv, turn, MIB);
	for (unsigned int i = 0; i < SIZES; i++) {
		sprintf(name, "%s/%zu", turn, size_of[i]);
		check((*turn == 'g' ? held : exact)(kv, name, size_of[i], i),
		      "each size comes from SSD");
	}
}

static int do_sizes(void)
{
	struct fluxonkv *kv = open_client();

	one_turn(kv, "get");
	one_turn(kv, "into");
	fluxonkv_close(kv);
	return failures != 0;
}

/* ---- batch: A5 ---- */

#define BATCH	100u

static void batch_keys(struct fluxonkv_key *k, char name[][32])
{
	for (unsigned int i = 0; i < BATCH; i++) {
		k[i].data = name[i];
		k[i].len = (size_t)sprintf(name[i], "batch/%03u;", i);
	}
}

/* 100 values that are on SSD only. */
static int do_batch_load(void)
{
	struct fluxonkv *kv = open_client();
	struct fluxonkv_stat st[BATCH];
	struct fluxonkv_key k[BATCH];
	char name[BATCH][32];
	unsigned int ssd = 0;

	batch_keys(k, name);
	for (unsigned int i = 0; i < BATCH; i++)
		expect(put_marked(kv, name[i], 20000 + i, i), 0, name[i]);
	push_out(kv, "batch", 32 * KIB);
	expect(fluxonkv_stat_many(kv, k, BATCH, st, NULL), 0, "stat");
	for (unsigned int i = 0; i < BATCH; i++)
		ssd += st[i].where == FLUXONKV_WHERE_SSD;
	check(ssd == BATCH, "all are on SSD only");
	printf("on SSD only %u\n", ssd);
	fluxonkv_close(kv);
	return failures != 0;
}

/* Of 100 in one call, each seventh up to @broken cannot be read. */
static int do_batch(unsigned int broken, unsigned int again)
{
	struct fluxonkv *kv = open_client();
	struct fluxonkv_holder h[BATCH];
	struct fluxonkv_key k[BATCH];
	unsigned int hits = 0, bad = 0;
	unsigned char there[BATCH];
	char name[BATCH][32];
	double t = now();

	batch_keys(k, name);
	if (again)
		expect(fluxonkv_exists_many(kv, k, BATCH, there, NULL), 0,
		       "exists");
	expect(fluxonkv_get_many(kv, k, BATCH, h), 0, "a batch");
	check(now() - t < 5, "it does not try for ever");
	for (unsigned int i = 0; i < BATCH; i++) {
		bool fails = i % 7 == 0 && i / 7 < broken;

		check(!again || there[i] == !fails, "exists as get");
		if (!h[i].status) {
			hits++;
			check(!fails && h[i].len == 20000 + i &&
			      marked(h[i].data, h[i].len, i), name[i]);
			fluxonkv_release(kv, &h[i]);
			continue;
		}
		check(fails, name[i]);
		check(h[i].status == -ENOENT || (!again && h[i].status == -EIO),
		      "the reason");
		bad++;
	}
	printf("hits %u misses %u\n", hits, bad);
	check(hits == BATCH - broken && bad == broken, "hits and misses");
	fluxonkv_close(kv);
	return failures != 0;
}

/* ---- flood: A8, A9 ---- */

#define FLOOD_KEYS	4000u
#define FLOOD_LEN	1000u

static pthread_barrier_t gate;
static unsigned int flood_each;
static unsigned long flood_count[3];	/* right, a miss, no room in time */

static void flood_one(struct fluxonkv_into *into, unsigned int key)
{
	unsigned int what = 0;

	if (into->status == -ENOENT || into->status == -EIO)
		what = 1;
	else if (into->status == -ENOSPC)
		what = 2;
	else if (into->status || into->len != FLOOD_LEN ||
		 !marked(into->buf, FLOOD_LEN, key)) {
		printf("FAIL flood/%u: %d\n", key, into->status);
		__atomic_fetch_add(&failures, 1, __ATOMIC_RELAXED);
		return;
	}
	__atomic_fetch_add(&flood_count[what], 1, __ATOMIC_RELAXED);
}

static void *flooder(void *arg)
{
	unsigned int first = (unsigned int)(uintptr_t)arg * 7919, n = flood_each;
	struct fluxonkv_into *into = calloc(n, sizeof(*into));
	struct fluxonkv *kv = open_client();
	char (*name)[32] = calloc(n, 32);
	uint8_t *buf = malloc((size_t)n * FLOOD_LEN);

	fluxonkv_set_timeout(kv, 20000);
	for (unsigned int i = 0; i < n; i++) {
		into[i].key.data = name[i];
		into[i].key.len = (size_t)sprintf(name[i], "flood/%u",
						  (first + i) % FLOOD_KEYS);
		into[i].buf = buf + (size_t)i * FLOOD_LEN;
		into[i].size = FLOOD_LEN;
		into[i].status = 1;
	}
	pthread_barrier_wait(&gate);
	expect(fluxonkv_get_into_many(kv, into, n), 0, "a flood");
	for (unsigned int i = 0; i < n; i++)
		flood_one(&into[i], (first + i) % FLOOD_KEYS);
	fluxonkv_close(kv);
	free(into);
	free(name);
	free(buf);
	return NULL;
}

/* @threads clients ask for @each keys at once, all at the same time. */
static int do_flood(unsigned int threads, unsigned int each)
{
	struct fluxonkv *kv = open_client();
	pthread_t *t = calloc(threads, sizeof(*t));
	char name[32];

	for (unsigned int i = 0; i < FLOOD_KEYS; i++) {
		sprintf(name, "flood/%u", i);
		expect(put_marked(kv, name, FLOOD_LEN, i), 0, name);
	}
	check(persisted(kv), "persisted");
	flood_each = each;
	pthread_barrier_init(&gate, NULL, threads);
	for (unsigned int i = 0; i < threads; i++)
		if (pthread_create(&t[i], NULL, flooder, (void *)(uintptr_t)i))
			exit(1);
	for (unsigned int i = 0; i < threads; i++)
		pthread_join(t[i], NULL);
	free(t);
	printf("right %lu misses %lu noroom %lu\n", flood_count[0],
	       flood_count[1], flood_count[2]);
	check(flood_count[0] + flood_count[1] + flood_count[2] ==
	      (unsigned long)threads * each, "each is answered once");
	fluxonkv_close(kv);
	return failures != 0;
}

/* ---- mixed: A13 ---- */

#define MIXED_KEYS	4000u

static uint32_t draw(void)
{
	static __thread uint64_t state = 1;

	state = state * 6364136223846793005ULL + 1442695040888963407ULL;
	return (uint32_t)(state >> 33);
}

/* 4 KiB to 4 MiB, as many of each power; one in ten is over 64 KiB. */
static size_t mixed_size(void)
{
	unsigned int power = 12 + draw() % (draw() % 10 ? 4 : 10);

	return (1u << power) + draw() % (1u << power) + 1;
}

static void refill_by_larger(struct fluxonkv *kv)
{
	char name[32];
	double t;

	for (unsigned int i = 0; i < 1100; i++) {
		sprintf(name, "small/%u", i);
		expect(put_marked(kv, name, 64 * KIB, i), 0, name);
	}
	for (unsigned int i = 0; i < 1100; i++) {
		sprintf(name, "small/%u", i);
		fluxonkv_delete(kv, name, strlen(name));
	}
	t = now();
	expect(put_marked(kv, "large", MIB, 1), 0, "1 MiB after 64 KiB");
	check(now() - t < 0.2, "at once");
}

/* What can never fit is said at once, and nothing goes for it. */
static void impossible(struct fluxonkv *kv)
{
	uint64_t keys = number(kv, "status", "\"keys\"");
	struct fluxonkv_putop op;
	double t = now();

	expect(fluxonkv_put_begin(kv, "never", 5, 60u * MIB, 0, &op), -EFBIG,
	       "60 of 64 MiB");
	check(now() - t < 0.1, "at once");
	check(number(kv, "status", "\"keys\"") == keys, "nothing was evicted");
}

static int do_mixed(unsigned int puts)
{
	struct fluxonkv *kv = open_client();
	static size_t len[MIXED_KEYS];
	static unsigned int seed[MIXED_KEYS];
	unsigned long hits = 0, retries = 0, samples = 0;
	struct fluxonkv_holder h;
	double full = 0;
	char name[32];

	refill_by_larger(kv);
	for (unsigned int i = 1; i <= puts && !failures; i++) {
		unsigned int k = draw() % MIXED_KEYS;
		int err;

		sprintf(name, "mixed/%u", k);
		len[k] = mixed_size();
		seed[k] = i;
		err = put_marked(kv, name, len[k], i);
		if (err) {
			retries++;
			expect(put_marked(kv, name, len[k], i), 0, "again");
		}
		k = draw() % MIXED_KEYS;
		sprintf(name, "mixed/%u", k);
		err = fluxonkv_get(kv, name, strlen(name), &h);
		check(!err || err == -ENOENT, "a hit or a miss");
		if (!err) {
			hits++;
			check(h.len == len[k] &&
			      marked(h.data, h.len, seed[k]), name);
			fluxonkv_release(kv, &h);
		}
		if (i > puts / 10 && i % 500 == 0) {
			full += (double)used(kv) / (64u * MIB);
			samples++;
		}
	}
	printf("hits %lu retries %lu full %.1f%%\n", hits, retries,
	       samples ? 100 * full / (double)samples : 0);
	check(samples && full / (double)samples > 0.9, "memory is full");
	check(hits > puts / 100, "hits");
	impossible(kv);
	fluxonkv_close(kv);
	return failures != 0;
}

/* ---- steps: A1, A3, H2 ---- */

#define STEP_LEN	(64 * KIB)

static struct fluxonkv_holder taken[128];
static unsigned int n_taken;

/* Holders of what was on SSD, until gets wait for room. */
static void take_all(struct fluxonkv *kv)
{
	unsigned int failed = 0;
	char name[32];

	fluxonkv_set_timeout(kv, 400);
	for (n_taken = 0; n_taken < 128 && failed < 3;) {
		sprintf(name, "load/%u", n_taken);
		if (fluxonkv_get(kv, name, strlen(name), &taken[n_taken]))
			failed++;
		else
			n_taken++;
	}
	check(n_taken > 10 && n_taken < 60, "there is no more room");
	fluxonkv_set_timeout(kv, 10000);
}

static void child_put(struct fluxonkv *kv, const char *step, const char *key)
{
	struct fluxonkv_putop op;

	if (fluxonkv_put_begin(kv, key, strlen(key), STEP_LEN, 0, &op))
		_exit(1);
	if (!strcmp(step, "half"))
		mark(op.data, STEP_LEN / 2, 2);
	else if (strcmp(step, "begin"))
		mark(op.data, STEP_LEN, 2);
	if (!strcmp(step, "committed") && fluxonkv_put_commit(kv, &op))
		_exit(1);
}

static void child(int ready, const char *step, const char *key)
{
	bool waits = !strncmp(step, "wait", 4);
	struct fluxonkv *kv = open_client();
	struct fluxonkv_holder h;

	if (waits && write(ready, "x", 1) != 1)
		_exit(1);
	if (!strcmp(step, "wait-get"))
		fluxonkv_get(kv, "load/64", 7, &h);
	else if (!strcmp(step, "wait-put"))
		put_marked(kv, key, MIB, 3);
	else if (strcmp(step, "hold"))
		child_put(kv, step, key);
	else if (fluxonkv_get(kv, key, strlen(key), &h))
		_exit(1);
	if (waits)
		_exit(1);
	if (write(ready, "x", 1) != 1)
		_exit(1);
	pause();
	_exit(1);
}

/* A child does @step and is killed there; what it had is gone. */
static void step(struct fluxonkv *kv, const char *what, const char *key)
{
	bool waits = !strncmp(what, "wait", 4);
	int pipes[2], status;
	uint64_t before;
	pid_t pid;
	char c;

	expect(put_marked(kv, key, STEP_LEN, 1), 0, key);
	check(persisted(kv), "persisted");
	if (waits)
		take_all(kv);
	before = used_at_rest(kv);
	if (pipe(pipes))
		exit(1);
	fflush(stdout);
	pid = fork();
	if (!pid)
		child(pipes[1], what, key);
	close(pipes[1]);
	check(read(pipes[0], &c, 1) == 1, what);
	close(pipes[0]);
	if (waits)
		check(becomes(kv, "status", "\"waiting\"", 1, 3), "it waits");
	kill(pid, SIGKILL);
	waitpid(pid, &status, 0);
	check(WIFSIGNALED(status), "it was killed where it should be");
	check(becomes(kv, "status", "\"clients\"", 1, 3) &&
	      becomes(kv, "status", "\"open_puts\"", 0, 3), "it is gone");
	if (waits)
		check(becomes(kv, "status", "\"waiting\"", 0, 6), "no waiter");
	else
		check(becomes(kv, "status", "\"pinned_bytes\"", 0, 3) &&
		      becomes(kv, "status", "\"used_bytes\"", before, 3),
		      "its room is back");
	held(kv, key, STEP_LEN, strcmp(what, "committed") ? 1 : 2);
	if (waits)
		expect(fluxonkv_release_many(kv, taken, n_taken), 0, "release");
	expect(put_marked(kv, key, STEP_LEN, 4), 0, "another put");
	held(kv, key, STEP_LEN, 4);
	if (failures)
		printf("so much for %s of %.20s\n", what, key);
}

static int do_steps(unsigned int times)
{
	static const char *const puts[] = { "begin", "half", "full",
					    "committed", "hold" };
	struct fluxonkv *kv = open_client();
	char by_message[301];

	/* the shared index has no keys over 208 bytes */
	memset(by_message, 'm', 300);
	by_message[300] = '\0';
	for (unsigned int i = 0; i < times && !failures; i++) {
		for (unsigned int k = 0; k < 5; k++) {
			step(kv, puts[k], "steps");
			step(kv, puts[k], by_message);
		}
	}
	step(kv, "wait-get", "steps");
	step(kv, "wait-put", "steps");
	fluxonkv_close(kv);
	return failures != 0;
}

static unsigned int number_of(char **argv, int argc, int i)
{
	return i < argc ? (unsigned int)strtoul(argv[i], NULL, 10) : 0;
}

int main(int argc, char **argv)
{
	static const struct {
		const char *word;
		int (*plain)(void);
		int (*one)(unsigned int a);
		int (*two)(unsigned int a, unsigned int b);
	} words[] = {
		{ "sizes", .plain = do_sizes },
		{ "batch-load", .plain = do_batch_load },
		{ "batch", .two = do_batch },
		{ "flood", .two = do_flood },
		{ "mixed", .one = do_mixed },
		{ "steps", .one = do_steps },
	};

	unsigned int a = number_of(argv, argc, 2), b = number_of(argv, argc, 3);

	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
		if (argc < 2 || strcmp(argv[1], words[i].word))
			continue;
		if (words[i].two)
			return words[i].two(a, b);
		return words[i].one ? words[i].one(a) : words[i].plain();
	}
	fprintf(stderr, "usage: field WORD [NUMBER [NUMBER]]\n");
	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
		fprintf(stderr, "\t%s\n", words[i].word);
	return 2;
}
