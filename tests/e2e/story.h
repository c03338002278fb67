/* SPDX-License-Identifier: Apache-2.0 */
/*
 * story.h - what the clients of the stories share: expectations that print
 * and count, values whose bytes say which they are, numbers of the daemon
 */
#ifndef FKV_TESTS_STORY_H
#define FKV_TESTS_STORY_H

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <fluxonkv.h>

#define KIB	1024u
#define MIB	(1024u * 1024u)

static int failures;

static inline double now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (double)ts.tv_sec + (double)ts.tv_nsec / 1e9;
}

static inline void check(bool ok, const char *what)
{
	if (ok)
		return;
	printf("FAIL %s\n", what);
	__atomic_fetch_add(&failures, 1, __ATOMIC_RELAXED);
}

/* @err must be @want, both 0 or -errno. */
static inline void expect(int err, int want, const char *what)
{
	if (err == want)
		return;
	printf("FAIL %s: %d %s, not %d %s (%s)\n", what, err,
	       fluxonkv_strerror(err), want, fluxonkv_strerror(want),
	       fluxonkv_last_error());
	__atomic_fetch_add(&failures, 1, __ATOMIC_RELAXED);
}

static inline struct fluxonkv *open_client(void)
{
	struct fluxonkv *kv;
	int err = fluxonkv_open(NULL, &kv);

	if (!err)
		return kv;
	printf("FAIL open: %s (%s)\n", fluxonkv_strerror(err),
	       fluxonkv_last_error());
	exit(1);
}

static inline void say(const char *word)
{
	printf("%s\n", word);
	fflush(stdout);
}

/* Bytes that depend on the key's number, the version and the place. */
static inline void fill(void *data, size_t len, unsigned int seed)
{
	uint8_t *p = data;

	for (size_t i = 0; i < len; i++)
		p[i] = (uint8_t)((i * 2654435761u + seed * 40503u) >> 7);
}

static inline bool same(const void *data, size_t len, unsigned int seed)
{
	const uint8_t *p = data;

	for (size_t i = 0; i < len; i++)
		if (p[i] != (uint8_t)((i * 2654435761u + seed * 40503u) >> 7))
			return false;
	return true;
}

static inline void *bytes(size_t len, unsigned int seed)
{
	void *p = malloc(len ? len : 1);

	if (!p)
		exit(1);
	fill(p, len, seed);
	return p;
}

static inline int put_seed(struct fluxonkv *kv, const char *key, size_t len,
			   unsigned int seed, unsigned int flags)
{
	void *p = bytes(len, seed);
	int err = fluxonkv_put(kv, key, strlen(key), p, len, flags);

	free(p);
	return err;
}

/* The number behind @name in the daemon's JSON or text answer. */
static inline uint64_t number(struct fluxonkv *kv, const char *word,
			      const char *name)
{
	uint64_t v = UINT64_MAX;
	char *text, *p;
	int err;

	err = fluxonkv_admin(kv, word, NULL, &text);
	expect(err, 0, word);
	if (err)
		return v;
	p = strstr(text, name);
	if (p)
		v = strtoull(p + strlen(name) + 1, NULL, 10);
	else
		printf("FAIL no %s in %s\n", name, word);
	free(text);
	return v;
}

static inline uint64_t used(struct fluxonkv *kv)
{
	return number(kv, "status", "\"used_bytes\"");
}

/* What was deleted before is freed a moment later. */
static inline uint64_t used_at_rest(struct fluxonkv *kv)
{
	uint64_t last, v = used(kv);

	do {
		last = v;
		usleep(50000);
		v = used(kv);
	} while (v != last);
	return v;
}

/* Until @name of @word is @want, at most @seconds. */
static inline bool becomes(struct fluxonkv *kv, const char *word, const char *name,
		    uint64_t want, double seconds)
{
	double end = now() + seconds;

	while (number(kv, word, name) != want) {
		if (now() > end)
			return false;
		usleep(2000);
	}
	return true;
}

#endif
