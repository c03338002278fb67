// SPDX-License-Identifier: Apache-2.0
/*
 * field.c - what clients do in the stories about bytes and room, one word each.
 * A word prints what it found and ends with 1 when anything was not as
 * expected.
 */
#include "field.h"

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

/* Is any of a turn's values in memory still? */
static bool in_memory(struct fluxonkv *kv, const char *turn)
{
	struct fluxonkv_stat st;
	char name[32];

	for (unsigned int i = 0; i < SIZES; i++) {
		int n = sprintf(name, "%s/%zu", turn, size_of[i]);

		if (!fluxonkv_stat(kv, name, (size_t)n, &st) &&
		    st.where & FLUXONKV_WHERE_MEMORY)
			return true;
	}
	return false;
}

static void one_turn(struct fluxonkv *kv, const char *turn)
{
	char name[32];

	for (unsigned int i = 0; i < SIZES; i++) {
		sprintf(name, "%s/%zu", turn, size_of[i]);
		expect(put_marked(kv, name, size_of[i], i), 0, name);
	}
	/* on a slow disk what was put first is not always what goes first */
	for (unsigned int i = 0; i < 10 && (!i || in_memory(kv, turn)); i++)
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

/* One call for 100 keys, of which @there are. */
static int do_asks(unsigned int there)
{
	struct fluxonkv *kv = open_client();
	struct fluxonkv_key k[BATCH];
	unsigned char yes[BATCH];
	char name[BATCH][32];
	unsigned int n = 0;

	batch_keys(k, name);
	expect(fluxonkv_exists_many(kv, k, BATCH, yes, NULL), 0, "exists");
	for (unsigned int i = 0; i < BATCH; i++)
		n += yes[i];
	check(n == there, "as many as there are");
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

/* exists says yes, others put, and only then it is asked for. */
static int do_evicted(unsigned int misses)
{
	struct fluxonkv *kv = open_client(), *other = open_client();
	static uint8_t buf[20000 + BATCH];
	struct fluxonkv_holder h[BATCH];
	struct fluxonkv_key k[BATCH];
	unsigned char there[BATCH];
	unsigned int missed = 0;
	char name[BATCH][32];
	size_t run = 0;
	double t;

	batch_keys(k, name);
	for (unsigned int i = 0; i < BATCH; i++)
		expect(put_marked(kv, name[i], 20000 + i, i), 0, name[i]);
	check(persisted(kv), "persisted");
	expect(fluxonkv_exists_many(kv, k, BATCH, there, &run), 0, "exists");
	check(run == BATCH, "all of them exist");
	push_out(other, "evicted", 32 * KIB);
	t = now();
	expect(fluxonkv_get_many(kv, k, BATCH, h), 0, "a batch");
	for (unsigned int i = 0; i < BATCH; i++) {
		struct fluxonkv_into into = { k[i], buf, sizeof(buf), 0, 0,
					      FLUXONKV_SERVED_NONE, 1 };

		missed += h[i].status == -ENOENT &&
			  h[i].source == FLUXONKV_SERVED_MISS;
		expect(fluxonkv_get_into_many(kv, &into, 1), 0, "get_into");
		expect(into.status, h[i].status, "get_into as get");
		expect(fluxonkv_exists(kv, k[i].data, k[i].len), h[i].status,
		       "exists as get");
		if (h[i].status)
			continue;
		check(h[i].source == FLUXONKV_SERVED_SSD_LOCAL, "from SSD");
		check(h[i].len == 20000 + i && marked(h[i].data, h[i].len, i) &&
		      marked(buf, into.len, i), name[i]);
		fluxonkv_release(kv, &h[i]);
	}
	check(now() - t < 5, "it does not try for ever");
	printf("misses %u\n", missed);
	check(missed == misses, "so many misses");
	fluxonkv_close(other);
	fluxonkv_close(kv);
	return failures != 0;
}

#define RACE_KEYS	1000u	/* more than there is room for */
#define RACE_LEN	(16 * KIB)
#define RACE_OLDEST	16u

static unsigned int race_next, race_over;

static void *racer(void *arg)
{
	struct fluxonkv *kv = open_client();
	char name[32];

	for (unsigned int i = 0;
	     !__atomic_load_n(&race_over, __ATOMIC_RELAXED); i++) {
		sprintf(name, "race/%u", i);
		expect(put_marked(kv, name, RACE_LEN, i), 0, name);
		__atomic_store_n(&race_next, i + 1, __ATOMIC_RELEASE);
	}
	fluxonkv_close(kv);
	return arg;
}

/*
 * The oldest that exist and were not read are next to go: some do, and are
 * misses. What is read stays for longer: @read is one past it.
 */
static unsigned int race_once(struct fluxonkv *kv, unsigned int first,
			      unsigned int *read)
{
	static struct fluxonkv_key k[RACE_KEYS];
	static unsigned char there[RACE_KEYS];
	static char name[RACE_KEYS][32];
	struct fluxonkv_holder h[RACE_OLDEST];
	unsigned int gone = 0, at = 0;

	for (unsigned int i = 0; i < RACE_KEYS; i++) {
		k[i].data = name[i];
		k[i].len = (size_t)sprintf(name[i], "race/%u", first + i);
	}
	expect(fluxonkv_exists_many(kv, k, RACE_KEYS, there, NULL), 0,
	       "exists");
	while (at < RACE_KEYS - RACE_OLDEST &&
	       (!there[at] || first + at < *read))
		at++;
	*read = first + at + RACE_OLDEST;
	expect(fluxonkv_get_many(kv, k + at, RACE_OLDEST, h), 0, "a batch");
	for (unsigned int i = 0; i < RACE_OLDEST; i++) {
		if (h[i].status) {
			expect(h[i].status, -ENOENT, name[at + i]);
			gone += there[at + i];
			continue;
		}
		check(h[i].len == RACE_LEN &&
		      marked(h[i].data, RACE_LEN, first + at + i),
		      name[at + i]);
		fluxonkv_release(kv, &h[i]);
	}
	return gone;
}

/* Until @times it was gone between exists and get. */
static int do_race(unsigned int times)
{
	struct fluxonkv *kv = open_client();
	unsigned int gone = 0, n, last = 0, read = 0;
	double end = now() + 30;
	pthread_t t;

	if (pthread_create(&t, NULL, racer, NULL))
		exit(1);
	while (gone < times && !failures && now() < end) {
		n = __atomic_load_n(&race_next, __ATOMIC_ACQUIRE);
		if (n < RACE_KEYS || n < last + 4 * RACE_OLDEST) {
			usleep(100);
			continue;
		}
		gone += race_once(kv, n - RACE_KEYS, &read);
		last = n;
	}
	__atomic_store_n(&race_over, 1, __ATOMIC_RELEASE);
	pthread_join(t, NULL);
	printf("gone between exists and get: %u of %u\n", gone, last);
	check(gone >= times, "some went between the two");
	fluxonkv_close(kv);
	return failures != 0;
}

/* ---- flood: A8, A9 ---- */

#define FLOOD_KEYS	4000u
#define FLOOD_LEN	1000u

static pthread_barrier_t gate;
static unsigned int flood_each;
static unsigned long flood_count[4];	/* right, a miss, no room, by a read */

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
	if (into->source == FLUXONKV_SERVED_SSD_LOCAL)
		__atomic_fetch_add(&flood_count[3], 1, __ATOMIC_RELAXED);
}

static void *flooder(void *arg)
{
	unsigned int first = (unsigned int)(uintptr_t)arg * 7919;
	unsigned int n = flood_each;
	struct fluxonkv_into *into = calloc(n, sizeof(*into));
	struct fluxonkv *kv = open_client();
	char *name = calloc(n, 32), *key = name;
	uint8_t *buf = malloc((size_t)n * FLOOD_LEN);

	fluxonkv_set_timeout(kv, 20000);
	for (unsigned int i = 0; i < n; i++, key += 32) {
		into[i].key.data = key;
		into[i].key.len = (size_t)sprintf(key, "flood/%u",
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

/* With @push they are on SSD only. */
static int do_flood_load(unsigned int push)
{
	struct fluxonkv *kv = open_client();
	struct fluxonkv_stat st;
	char name[32];

	for (unsigned int i = 0; i < FLOOD_KEYS; i++) {
		sprintf(name, "flood/%u", i);
		expect(put_marked(kv, name, FLOOD_LEN, i), 0, name);
	}
	check(persisted(kv), "persisted");
	if (push)
		push_out(kv, "flood", 32 * KIB);
	for (unsigned int i = 0; push && i < FLOOD_KEYS && !failures; i++) {
		sprintf(name, "flood/%u", i);
		expect(fluxonkv_stat(kv, name, strlen(name), &st), 0, name);
		check(st.where == FLUXONKV_WHERE_SSD, "it is on SSD only");
	}
	fluxonkv_close(kv);
	return failures != 0;
}

/* @threads clients ask for @each keys at once, all at the same time. */
static int do_flood(unsigned int threads, unsigned int each)
{
	pthread_t *t = calloc(threads, sizeof(*t));

	flood_each = each;
	pthread_barrier_init(&gate, NULL, threads);
	for (unsigned int i = 0; i < threads; i++)
		if (pthread_create(&t[i], NULL, flooder, (void *)(uintptr_t)i))
			exit(1);
	for (unsigned int i = 0; i < threads; i++)
		pthread_join(t[i], NULL);
	free(t);
	printf("right %lu misses %lu noroom %lu read %lu\n", flood_count[0],
	       flood_count[1], flood_count[2], flood_count[3]);
	check(flood_count[0] + flood_count[1] + flood_count[2] ==
	      (unsigned long)threads * each, "each is answered once");
	return failures != 0;
}

/* ---- mixed: A13 ---- */

#define MIXED_KEYS	4000u

/* 4 KiB to 4 MiB, as many of each power; one in 40 is over 64 KiB. */
static size_t mixed_size(void)
{
	unsigned int power = 12 + draw() % (draw() % 25 ? 4 : 10);

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
		if (err == -ENOSPC) {
			retries++;
			err = 0;
			expect(put_marked(kv, name, len[k], i), 0, "again");
		}
		expect(err, 0, "put");
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
	/* what was asked for in vain waits on for a while */
	check(becomes(kv, "status", "\"waiting\"", 0, 8), "no waiter yet");
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

static void child(int ready, const char *what, const char *key)
{
	bool waits = !strncmp(what, "wait", 4);
	struct fluxonkv *kv = open_client();
	struct fluxonkv_holder h;

	if (waits && write(ready, "x", 1) != 1)
		_exit(1);
	if (!strcmp(what, "wait-get"))
		fluxonkv_get(kv, "load/64", 7, &h);
	else if (!strcmp(what, "wait-put"))
		put_marked(kv, key, MIB, 3);
	else if (strcmp(what, "hold"))
		child_put(kv, what, key);
	else if (fluxonkv_get(kv, key, strlen(key), &h))
		_exit(1);
	if (waits || write(ready, "x", 1) != 1)
		_exit(1);
	pause();
	_exit(1);
}

static pid_t begin_step(const char *what, const char *key)
{
	int pipes[2];
	pid_t pid;
	char c;

	if (pipe(pipes))
		exit(1);
	fflush(stdout);
	pid = fork();
	if (!pid)
		child(pipes[1], what, key);
	close(pipes[1]);
	check(read(pipes[0], &c, 1) == 1, what);
	close(pipes[0]);
	return pid;
}

static void end_step(struct fluxonkv *kv, pid_t pid)
{
	int status;

	kill(pid, SIGKILL);
	waitpid(pid, &status, 0);
	check(WIFSIGNALED(status), "it was killed where it should be");
	check(becomes(kv, "status", "\"clients\"", 1, 3) &&
	      becomes(kv, "status", "\"open_puts\"", 0, 7), "it is gone");
}

/* A child does @what and is killed there; what it had is gone. */
static void step(struct fluxonkv *kv, const char *what, const char *key)
{
	uint64_t before;

	if (failures)
		return;
	expect(put_marked(kv, key, STEP_LEN, 1), 0, key);
	check(persisted(kv), "persisted");
	before = used_at_rest(kv);
	end_step(kv, begin_step(what, key));
	check(becomes(kv, "status", "\"pinned_bytes\"", 0, 3) &&
	      becomes(kv, "status", "\"used_bytes\"", before, 3),
	      "its room is back");
	held(kv, key, STEP_LEN, strcmp(what, "committed") ? 1 : 2);
	expect(put_marked(kv, key, STEP_LEN, 4), 0, "another put");
	held(kv, key, STEP_LEN, 4);
	if (failures)
		printf("so much for %s of %.20s\n", what, key);
}

/* Killed while they wait for room. */
static void waiters(struct fluxonkv *kv)
{
	pid_t get, put;

	expect(put_marked(kv, "waits", STEP_LEN, 1), 0, "waits");
	check(persisted(kv), "persisted");
	take_all(kv);
	get = begin_step("wait-get", "waits");
	put = begin_step("wait-put", "waits");
	check(becomes(kv, "status", "\"waiting\"", 2, 3), "they wait");
	kill(get, SIGKILL);
	end_step(kv, put);
	waitpid(get, NULL, 0);
	check(becomes(kv, "status", "\"waiting\"", 0, 6), "no waiter");
	held(kv, "waits", STEP_LEN, 1);
	expect(fluxonkv_release_many(kv, taken, n_taken), 0, "release");
	expect(put_marked(kv, "waits", STEP_LEN, 4), 0, "another put");
	held(kv, "waits", STEP_LEN, 4);
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
	waiters(kv);
	fluxonkv_close(kv);
	return failures != 0;
}

/* ---- refill: A3, G2, G3, on a disk that takes seconds for a value ---- */

/* A value of "story load". */
static void loaded(struct fluxonkv *kv, const char *key, unsigned int seed)
{
	struct fluxonkv_holder h;
	int err = fluxonkv_get(kv, key, strlen(key), &h);

	expect(err, 0, key);
	if (err)
		return;
	check(h.len == MIB && same(h.data, MIB, seed), key);
	fluxonkv_release(kv, &h);
}

static pid_t reader_of(const char *key, unsigned int seed)
{
	struct fluxonkv *kv;
	pid_t pid;

	fflush(stdout);
	pid = fork();
	if (pid)
		return pid;
	kv = open_client();
	loaded(kv, key, seed);
	fluxonkv_close(kv);
	_exit(failures != 0);
}

/* Of two that wait for one read one is killed, then one that waits alone. */
static int do_refill(void)
{
	struct fluxonkv *kv = open_client();
	pid_t dies, lives;
	int status;
	double t = now();

	dies = reader_of("load/1", 1);
	check(becomes(kv, "refs", "\"fetches\"", 1, 3), "it is being read");
	lives = reader_of("load/1", 1);
	check(becomes(kv, "status", "\"clients\"", 3, 3), "two wait");
	usleep(100000);
	kill(dies, SIGKILL);
	waitpid(dies, &status, 0);
	check(WIFSIGNALED(status), "killed while it waited");
	waitpid(lives, &status, 0);
	check(WIFEXITED(status) && !WEXITSTATUS(status), "the other has it");
	check(now() - t > 0.5, "the disk was slow");

	dies = reader_of("load/2", 2);
	check(becomes(kv, "refs", "\"fetches\"", 1, 3), "it is being read");
	kill(dies, SIGKILL);
	waitpid(dies, &status, 0);
	check(WIFSIGNALED(status), "killed while it waited");
	check(becomes(kv, "refs", "\"fetches\"", 0, 12), "the read ends");
	loaded(kv, "load/2", 2);
	check(number(kv, "status", "\"ssd_local\"") <= 2, "read once each");
	check(becomes(kv, "status", "\"clients\"", 1, 3) &&
	      becomes(kv, "status", "\"pinned_bytes\"", 0, 3), "pins are gone");
	fluxonkv_close(kv);
	return failures != 0;
}

/* ---- small pool: A2 ---- */

/* Held from SSD, single, by message and in a batch, while all else changes. */
static int do_small_pool(unsigned int puts)
{
	struct fluxonkv *kv = open_client(), *other = open_client();
	struct fluxonkv_key k[2] = { { "pool/1", 6 }, { "pool/2", 6 } };
	struct fluxonkv_holder one, many[2], fresh;
	char name[32];

	for (unsigned int i = 0; i < 3; i++) {
		sprintf(name, "pool/%u", i);
		expect(put_marked(kv, name, 70001, i), 0, name);
	}
	push_out(kv, "pool", 64 * KIB);
	expect(fluxonkv_get(kv, "pool/0", 6, &one), 0, "hold");
	expect(fluxonkv_get_many(kv, k, 2, many), 0, "hold");
	check(one.source == FLUXONKV_SERVED_SSD_LOCAL &&
	      many[1].source == FLUXONKV_SERVED_SSD_LOCAL, "from SSD");
	for (unsigned int i = 0; i < puts && !failures; i++) {
		sprintf(name, "new/%u", i);
		expect(put_marked(other, name, 16 * KIB, i), 0, name);
		if (i % 1000 == 500)
			expect(fluxonkv_delete(other, "pool/0", 6), 0,
			       "delete");
		if (i % 1000 == 700)
			expect(put_marked(other, "pool/0", 70001, i), 0, "new");
		if (i % 1000 == 900) {
			expect(fluxonkv_get(other, "pool/0", 6, &fresh), 0,
			       "a new reader");
			check(marked(fresh.data, 70001, i - 200), "new bytes");
			fluxonkv_release(other, &fresh);
		}
		if (i % 100 == 0)
			check(marked(one.data, 70001, 0) &&
			      marked(many[0].data, 70001, 1) &&
			      marked(many[1].data, 70001, 2), "held bytes");
	}
	expect(fluxonkv_release(kv, &one), 0, "release");
	expect(fluxonkv_release_many(kv, many, 2), 0, "release");
	fluxonkv_close(other);
	fluxonkv_close(kv);
	return failures != 0;
}

int main(int argc, char **argv)
{
	static const struct word words[] = {
		{ "sizes", .plain = do_sizes },
		{ "batch-load", .plain = do_batch_load },
		{ "batch", .two = do_batch },
		{ "asks", .one = do_asks },
		{ "evicted", .one = do_evicted },
		{ "race", .one = do_race },
		{ "flood-load", .one = do_flood_load },
		{ "flood", .two = do_flood },
		{ "mixed", .one = do_mixed },
		{ "steps", .one = do_steps },
		{ "refill", .plain = do_refill },
		{ "small-pool", .one = do_small_pool },
	};

	return run_word(words, sizeof(words) / sizeof(words[0]), argc, argv);
}
