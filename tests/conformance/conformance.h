/* SPDX-License-Identifier: Apache-2.0 */
/*
 * conformance.h - the definition of the client API, as tests
 *
 * The same on every back end: the address is all that differs. A test is a
 * function that returns 0 when all was as expected; it runs in a process of
 * its own and finds no key, holder or open put of the others, nor may it leave
 * any but keys. The daemon is the suite's alone.
 */
#ifndef FKV_TESTS_CONFORMANCE_H
#define FKV_TESTS_CONFORMANCE_H

#include "e2e/story.h"

struct conf_test {
	const char *name;
	int (*run)(void);
	enum {
		CONF_ALWAYS,
		CONF_CAPPED,	/* a client may pin half of the segment */
		CONF_UNCAPPED,	/* any number of bytes: limits.* are 0 */
		CONF_RESTARTS,	/* there are commands to stop and to start */
		CONF_SLOW,	/* takes more than a minute */
	} when;
};

#define CONF(test, which)	{ #test, test, CONF_##which }
#define CONF_END		{ NULL, NULL, CONF_ALWAYS }

extern const struct conf_test conf_keys[];
extern const struct conf_test conf_puts[];
extern const struct conf_test conf_gets[];
extern const struct conf_test conf_meta[];
extern const struct conf_test conf_limits[];
extern const struct conf_test conf_lives[];

/* Stop the daemon as if it were killed, and start it again. */
void conf_stop(void);
void conf_start(void);

/* A key that is a string. */
static inline struct fluxonkv_key conf_key(const char *s)
{
	return (struct fluxonkv_key){ s, strlen(s) };
}

static inline int conf_exists(struct fluxonkv *kv, const char *key)
{
	return fluxonkv_exists(kv, key, strlen(key));
}

/* Has the key the bytes of @seed? */
static inline bool conf_has(struct fluxonkv *kv, const char *key, size_t len,
			    unsigned int seed)
{
	struct fluxonkv_holder h;
	bool ok;

	if (fluxonkv_get(kv, key, strlen(key), &h))
		return false;
	ok = h.len == len && (!len || same(h.data, len, seed));
	return !fluxonkv_release(kv, &h) && ok;
}

/* The last call's sentence says more than its errno does. */
static inline void conf_sentence(const char *word, const char *what)
{
	check(strstr(fluxonkv_last_error(), word) &&
	      strlen(fluxonkv_last_error()) > 10, what);
}

/* Bytes that all values may have together. */
static inline uint64_t conf_segment(struct fluxonkv *kv)
{
	return number(kv, "status", "\"capacity_bytes\"");
}

#endif
