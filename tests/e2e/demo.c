// SPDX-License-Identifier: Apache-2.0
/*
 * demo.c - the main job, on a daemon that is running: put more than memory
 * holds, read it all back and check every byte, keep a holder through
 * eviction and delete, and print the numbers.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <fluxonkv.h>

#define VALUE	(1u << 20)

static int failures;

static double now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (double)ts.tv_sec + (double)ts.tv_nsec / 1e9;
}

static void check(bool ok, const char *what, int err)
{
	printf("  %s %s", ok ? "ok  " : "FAIL", what);
	if (!ok && err)
		printf(": %s (%s)", fluxonkv_strerror(err),
		       fluxonkv_last_error());
	printf("\n");
	failures += !ok;
}

static void fill(uint64_t *p, unsigned int key)
{
	for (uint64_t i = 0; i < VALUE / 8; i++)
		p[i] = (i + 1) * 0x9e3779b97f4a7c15ULL ^ key;
}

static bool same(const uint64_t *p, unsigned int key)
{
	uint64_t bad = 0;

	for (uint64_t i = 0; i < VALUE / 8; i++)
		bad |= p[i] ^ ((i + 1) * 0x9e3779b97f4a7c15ULL ^ key);
	return !bad;
}

static int name(char *buf, unsigned int key)
{
	return sprintf(buf, "demo/%u", key);
}

static void load(struct fluxonkv *kv, unsigned int keys)
{
	uint64_t *value = malloc(VALUE);
	double t = now();
	int err = 0;

	for (unsigned int k = 0; k < keys && !err; k++) {
		char key[32];

		fill(value, k);
		err = fluxonkv_put(kv, key, (size_t)name(key, k), value,
				   VALUE, FLUXONKV_EXCL);
	}
	t = now() - t;
	free(value);
	check(!err, "put every value", err);
	printf("       %u MiB in %.2f s, filling and copying included\n", keys,
	       t);
}

static void read_back(struct fluxonkv *kv, unsigned int keys)
{
	uint64_t from[FLUXONKV_SERVED_MISS + 1] = { 0 };
	unsigned int wrong = 0;
	double t = now();
	int err = 0;

	for (unsigned int k = 0; k < keys && !err; k++) {
		struct fluxonkv_holder h;
		char key[32];

		err = fluxonkv_get(kv, key, (size_t)name(key, k), &h);
		if (err)
			break;
		from[h.source]++;
		wrong += h.len != VALUE || !same(h.data, k);
		fluxonkv_release(kv, &h);
	}
	t = now() - t;
	check(!err, "get every value", err);
	check(!wrong, "every byte is right", 0);
	printf("       %u MiB in %.2f s: %" PRIu64 " from memory, %" PRIu64
	       " from SSD\n", keys, t, from[FLUXONKV_SERVED_LOCAL],
	       from[FLUXONKV_SERVED_SSD_LOCAL]);
	check(from[FLUXONKV_SERVED_SSD_LOCAL] > 0, "some came from SSD", 0);
}

/* A holder keeps its bytes while its key is deleted and memory turns over. */
static void keep_holder(struct fluxonkv *kv, unsigned int keys)
{
	struct fluxonkv_holder h;
	char key[32];
	int err;

	err = fluxonkv_get(kv, key, (size_t)name(key, 1), &h);
	check(!err, "hold demo/1", err);
	if (err)
		return;
	err = fluxonkv_delete(kv, key, (size_t)name(key, 1));
	check(!err, "delete demo/1", err);
	for (unsigned int k = 2; k < keys; k++) {
		struct fluxonkv_holder other;

		if (!fluxonkv_get(kv, key, (size_t)name(key, k), &other))
			fluxonkv_release(kv, &other);
	}
	check(same(h.data, 1), "the holder's bytes are unchanged", 0);
	err = fluxonkv_get(kv, key, (size_t)name(key, 1), &h);
	check(err == -ENOENT, "a new get of demo/1 misses", err);
}

/* There a hit is found in shared memory; the device is asked for it. */
static bool by_socket(void)
{
	const char *address = getenv("FLUXONKV");

	return address && !strncmp(address, "unix:", 5);
}

static void hit_latency(struct fluxonkv *kv)
{
	enum { N = 1000000 };
	struct fluxonkv_holder h;
	char key[32];
	int n = name(key, 5), err = 0;
	double t;

	/* the first brings it to memory */
	err = fluxonkv_get(kv, key, (size_t)n, &h);
	if (!err)
		fluxonkv_release(kv, &h);
	t = now();
	for (int i = 0; i < N && !err; i++) {
		err = fluxonkv_get(kv, key, (size_t)n, &h);
		if (!err)
			fluxonkv_release(kv, &h);
	}
	t = now() - t;
	check(!err, "1,000,000 hits", err);
	printf("       %.0f ns a get and release%s\n", t / N * 1e9,
	       by_socket() ? ", without a system call" : "");
}

int main(int argc, char **argv)
{
	unsigned int keys = argc > 1 ? (unsigned int)atoi(argv[1]) : 640;
	struct fluxonkv *kv;
	int err;

	err = fluxonkv_open(NULL, &kv);
	if (err) {
		fprintf(stderr, "no daemon: %s (%s)\n", fluxonkv_strerror(err),
			fluxonkv_last_error());
		return 1;
	}
	load(kv, keys);
	read_back(kv, keys);
	keep_holder(kv, keys);
	hit_latency(kv);
	fluxonkv_close(kv);
	return failures != 0;
}
