/* SPDX-License-Identifier: Apache-2.0 */
/*
 * data.h - what the cache holds before a measurement
 *
 * Loading puts keys "<prefix><index>" whose values are payload.h's; wiping
 * deletes what earlier runs left. These open a client of their own for the
 * time of the call, so that a run may fork afterwards.
 */
#ifndef FKV_BENCH_DATA_H
#define FKV_BENCH_DATA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <fluxonkv.h>

#include "bench/report.h"

#define BENCH_KEY_MAX	64u

/* What "status" says; zeros when it is not for us to know. */
struct bench_status {
	bool known;
	uint64_t memory_bytes;
	uint64_t ssd_bytes;		/* 0: no SSD tier */
	uint64_t persist_pending;
	uint64_t pid;			/* 0: not said */
	char engine[24];
};

struct bench_load {
	const char *address;
	const char *prefix;
	uint64_t from;			/* first index */
	uint64_t keys;
	uint64_t value_bytes;
	double gap_ms;			/* after each put */
	bool shuffled;
};

/* Key @index into @buf (BENCH_KEY_MAX); returns its length. */
size_t bench_key(char *buf, const char *prefix, uint64_t index);

int bench_status_get(const char *address, struct bench_status *ret);

/* Delete all keys that begin with @prefix. 0 or -errno. */
int bench_wipe(const char *address, const char *prefix);

/* 0 or -errno, said in @r. Puts with EXCL. */
int bench_load(struct bench_report *r, const struct bench_load *load);

/*
 * Wait until nothing is left to persist, at most @seconds. 0, -ETIMEDOUT, or
 * -EPERM when the daemon does not say.
 */
int bench_settle(struct bench_report *r, const char *address, double seconds);

#endif
