// SPDX-License-Identifier: Apache-2.0
/*
 * stress.c - all calls at once by many threads, every byte checked
 *
 * A value says its key and its put in each of its words, so a word of another
 * key, of another put, or of nobody shows wherever it is.
 */
#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <fluxonkv.h>

#define KEYS		300u
#define VALUE_MAX	(2u << 20)
#define THREADS_MAX	64u
#define CROWD_MAX	4096u

enum { PUT, GET, INTO, DELETE, LIST, BATCH, OPS };

static const char *const op_name[OPS] = {
	"put", "get", "get_into", "delete", "list", "get_many",
};

struct worker {
	pthread_t thread;
	uint64_t random;
	uint64_t *buffer;
	unsigned long done[OPS], hits, failed[256];
};

static struct fluxonkv *kv;
static bool stop;
static unsigned long wrong;

static uint32_t draw(struct worker *w)
{
	w->random = w->random * 6364136223846793005ULL + 1442695040888963407ULL;
	return (uint32_t)(w->random >> 33);
}

static size_t name_of(char *name, uint32_t key)
{
	return (size_t)sprintf(name, "stress/%u", key);
}

static void expect(const uint64_t *p, uint64_t len, uint32_t key)
{
	bool good = len >= 8 && p[0] >> 48 == key;

	for (uint64_t i = 0; good && i < len / 8; i++)
		good = p[i] == p[0] + i;
	if (good)
		return;
	__atomic_fetch_add(&wrong, 1, __ATOMIC_RELAXED);
	fprintf(stderr, "wrong bytes in %llu of key %u\n",
		(unsigned long long)len, key);
}

static int put(struct worker *w, uint32_t key)
{
	uint64_t len = draw(w) % VALUE_MAX & ~7ULL;
	uint64_t first = (uint64_t)key << 48 | (uint64_t)draw(w) << 12;
	char name[32];
	size_t n = name_of(name, key);

	len = len < 8 ? 8 : len;
	for (uint64_t i = 0; i < len / 8; i++)
		w->buffer[i] = first + i;
	return fluxonkv_put(kv, name, n, w->buffer, len, 0);
}

/* The bytes stay what they are while they are held (H1). */
static void use(struct worker *w, struct fluxonkv_holder *h, uint32_t key)
{
	w->hits++;
	expect(h->data, h->len, key);
	usleep(draw(w) % 300);
	expect(h->data, h->len, key);
	fluxonkv_release(kv, h);
}

static int get(struct worker *w, uint32_t key)
{
	struct fluxonkv_holder h;
	char name[32];
	int err = fluxonkv_get(kv, name, name_of(name, key), &h);

	if (!err)
		use(w, &h, key);
	return err;
}

static int get_many(struct worker *w, uint32_t key)
{
	struct fluxonkv_holder h[8];
	struct fluxonkv_key k[8];
	char name[8][32];
	int err;

	for (uint32_t i = 0; i < 8; i++) {
		k[i].data = name[i];
		k[i].len = name_of(name[i], (key + i) % KEYS);
	}
	err = fluxonkv_get_many(kv, k, 8, h);
	for (uint32_t i = 0; i < 8 && !err; i++)
		if (!h[i].status)
			use(w, &h[i], (key + i) % KEYS);
	return err;
}

static int get_into(struct worker *w, uint32_t key)
{
	char name[32];
	uint64_t len;
	int err = fluxonkv_get_into(kv, name, name_of(name, key), w->buffer,
				    VALUE_MAX, &len);

	if (!err) {
		w->hits++;
		expect(w->buffer, len, key);
	}
	return err;
}

static int list(void)
{
	struct fluxonkv_key prefix = { "stress/", 7 };
	struct fluxonkv_listed_key keys[64];
	size_t n;

	return fluxonkv_list(kv, &prefix, NULL, keys, 64, &n);
}

static int one(struct worker *w, unsigned int op)
{
	uint32_t key = draw(w) % KEYS;
	char name[32];

	switch (op) {
	case PUT:
		return put(w, key);
	case GET:
		return get(w, key);
	case INTO:
		return get_into(w, key);
	case BATCH:
		return get_many(w, key);
	case LIST:
		return list();
	default:
		return fluxonkv_delete(kv, name, name_of(name, key));
	}
}

static void *work(void *arg)
{
	static const uint8_t mix[16] = {
		PUT, PUT, PUT, PUT, PUT, GET, GET, GET, GET, GET, GET, INTO,
		INTO, BATCH, LIST, DELETE,
	};
	struct worker *w = arg;

	while (!__atomic_load_n(&stop, __ATOMIC_RELAXED)) {
		unsigned int op = mix[draw(w) % 16];
		int err = one(w, op);

		w->done[op]++;
		if (err)
			w->failed[-err & 255]++;
		/* what this load may meet; anything else is a fault */
		if (err && err != -ENOENT && err != -EBUSY && err != -ENOSPC &&
		    err != -EDQUOT) {
			__atomic_fetch_add(&wrong, 1, __ATOMIC_RELAXED);
			fprintf(stderr, "%s: %s\n", op_name[op],
				fluxonkv_last_error());
		}
	}
	return NULL;
}

static unsigned long report(struct worker *w, unsigned int threads)
{
	unsigned long hits = 0;

	for (unsigned int op = 0; op < OPS; op++) {
		unsigned long n = 0;

		for (unsigned int i = 0; i < threads; i++)
			n += w[i].done[op];
		printf("%s %lu ", op_name[op], n);
		if (!n)
			wrong++;
	}
	for (unsigned int e = 0; e < 256; e++) {
		unsigned long n = 0;

		for (unsigned int i = 0; i < threads; i++)
			n += w[i].failed[e];
		if (n)
			printf("%s %lu ", strerrorname_np((int)e), n);
	}
	for (unsigned int i = 0; i < threads; i++)
		hits += w[i].hits;
	printf("hits %lu wrong %lu\n", hits, wrong);
	return hits;
}

static int load(unsigned int seconds, unsigned int threads)
{
	struct worker *w = calloc(threads, sizeof(*w));
	unsigned long hits;

	if (!w || fluxonkv_open(NULL, &kv)) {
		fprintf(stderr, "%s\n", fluxonkv_last_error());
		return 1;
	}
	for (unsigned int i = 0; i < threads; i++) {
		w[i].random = i * 7919 + 1;
		w[i].buffer = malloc(VALUE_MAX);
		if (!w[i].buffer ||
		    pthread_create(&w[i].thread, NULL, work, &w[i]))
			return 1;
	}
	sleep(seconds);
	__atomic_store_n(&stop, true, __ATOMIC_RELAXED);
	for (unsigned int i = 0; i < threads; i++) {
		pthread_join(w[i].thread, NULL);
		free(w[i].buffer);
	}
	hits = report(w, threads);
	fluxonkv_close(kv);
	free(w);
	return wrong || !hits;
}

static double seconds_now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (double)ts.tv_sec + (double)ts.tv_nsec / 1e9;
}

/* Clients beyond a limit hear of it at once. */
static int crowd(unsigned int n)
{
	static struct fluxonkv *client[CROWD_MAX];
	unsigned int served = 0, refused = 0;

	for (unsigned int i = 0; i < n; i++) {
		double began = seconds_now();

		if (!fluxonkv_open(NULL, &client[i]))
			served++;
		else if (seconds_now() - began < 2)
			refused++;
	}
	printf("served %u refused %u left hanging %u\n", served, refused,
	       n - served - refused);
	for (unsigned int i = 0; i < n; i++)
		if (client[i])
			fluxonkv_close(client[i]);
	return !served || served + refused != n;
}

int main(int argc, char **argv)
{
	unsigned int a = argc > 2 ? (unsigned int)atoi(argv[2]) : 0;
	unsigned int b = argc > 3 ? (unsigned int)atoi(argv[3]) : 0;

	if (argc == 4 && !strcmp(argv[1], "load") && a && b &&
	    b <= THREADS_MAX)
		return load(a, b);
	if (argc == 3 && !strcmp(argv[1], "crowd") && a && a <= CROWD_MAX)
		return crowd(a);
	fprintf(stderr, "usage: stress load SECONDS THREADS | crowd N\n");
	return 2;
}
