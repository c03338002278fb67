/* SPDX-License-Identifier: Apache-2.0 */
/*
 * field.h - what field.c and service.c share: values that show a wrong word at
 * any length, quickly
 */
#ifndef FKV_TESTS_FIELD_H
#define FKV_TESTS_FIELD_H

#include <pthread.h>

#include "story.h"

/* A value whose first word says all the others, so that any length shows it. */
static inline void mark(void *data, size_t len, uint64_t seed)
{
	uint8_t *p = data;
	uint64_t w;

	for (size_t i = 0; i < len; i += 8) {
		w = seed * 0x9e3779b97f4a7c15ULL + i;
		memcpy(p + i, &w, len - i < 8 ? len - i : 8);
	}
}

static inline bool marked(const void *data, size_t len, uint64_t seed)
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
static inline void *scratch(void)
{
	static __thread uint8_t p[4 * MIB + KIB];

	return p;
}

static inline int put_marked(struct fluxonkv *kv, const char *key, size_t len,
		      uint64_t seed)
{
	void *p = scratch();

	mark(p, len, seed);
	return fluxonkv_put(kv, key, strlen(key), p, len, 0);
}

static inline bool persisted(struct fluxonkv *kv)
{
	return becomes(kv, "status", "\"persist_pending\"", 0, 20);
}

/* @seed's value; true when it came from SSD. */
static inline bool held(struct fluxonkv *kv, const char *name, size_t len,
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

static inline uint32_t draw(void)
{
	static __thread uint64_t state = 1;

	state = state * 6364136223846793005ULL + 1442695040888963407ULL;
	return (uint32_t)(state >> 33);
}

struct word {
	const char *word;
	int (*plain)(void);
	int (*one)(unsigned int a);
	int (*two)(unsigned int a, unsigned int b);
};

static inline unsigned int number_of(char **argv, int argc, int i)
{
	return i < argc ? (unsigned int)strtoul(argv[i], NULL, 10) : 0;
}

static inline int run_word(const struct word *w, size_t n, int argc,
			   char **argv)
{
	unsigned int a = number_of(argv, argc, 2), b = number_of(argv, argc, 3);

	for (size_t i = 0; i < n; i++) {
		if (argc < 2 || strcmp(argv[1], w[i].word))
			continue;
		if (w[i].two)
			return w[i].two(a, b);
		return w[i].one ? w[i].one(a) : w[i].plain();
	}
	fprintf(stderr, "usage: %s WORD [NUMBER [NUMBER]]\n", argv[0]);
	for (size_t i = 0; i < n; i++)
		fprintf(stderr, "\t%s\n", w[i].word);
	return 2;
}

#endif
