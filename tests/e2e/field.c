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
static void push_out(struct fluxonkv *kv, const char *turn)
{
	char name[32];

	check(persisted(kv), "persisted");
	for (unsigned int i = 0; i < 32; i++) {
		sprintf(name, "push/%s/%u", turn, i);
		expect(put_marked(kv, name, MIB, i), 0, name);
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
	push_out(kv, turn);
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

static unsigned int number_of(char **argv, int argc, int i)
{
	return i < argc ? (unsigned int)strtoul(argv[i], NULL, 10) : 0;
}

int main(int argc, char **argv)
{
	static const struct {
		const char *word;
		int (*run)(unsigned int a, unsigned int b);
		int (*plain)(void);
	} words[] = {
		{ "sizes", NULL, do_sizes },
	};

	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
		if (argc < 2 || strcmp(argv[1], words[i].word))
			continue;
		return words[i].plain ? words[i].plain() :
			words[i].run(number_of(argv, argc, 2),
				     number_of(argv, argc, 3));
	}
	fprintf(stderr, "usage: field WORD [NUMBER [NUMBER]]\n");
	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
		fprintf(stderr, "\t%s\n", words[i].word);
	return 2;
}
