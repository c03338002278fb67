/* SPDX-License-Identifier: Apache-2.0 */
/*
 * args.h - command lines from a table
 *
 * A subcommand states its options as an array of bench_opt, ended by one
 * without name; parsing writes to their destinations and prints help or a
 * sentence on what was wrong and what was expected. Strings point into argv.
 */
#ifndef FKV_BENCH_ARGS_H
#define FKV_BENCH_ARGS_H

#include <stdbool.h>
#include <stdint.h>

#define BENCH_LIST_MAX	32u

struct bench_list {
	uint64_t v[BENCH_LIST_MAX];
	unsigned int n;
};

enum bench_opt_kind {			/* what dest points to */
	BENCH_FLAG,			/* bool */
	BENCH_STRING,			/* const char * */
	BENCH_COUNT,			/* uint64_t within min..max */
	BENCH_SIZE,			/* uint64_t bytes within min..max */
	BENCH_SECONDS,			/* double, 0..86400 */
	BENCH_NUMBER,			/* double, 0..1e9 */
	BENCH_COUNTS,			/* bench_list */
	BENCH_SIZES,			/* bench_list */
	BENCH_WORD,			/* unsigned int: index in @arg */
	BENCH_WORDS,			/* bench_list of such */
};

struct bench_opt {
	const char *name;		/* without dashes */
	enum bench_opt_kind kind;
	void *dest;
	const char *arg;		/* for help; words: "one|two|three" */
	const char *help;
	uint64_t min, max;		/* 0, 0: anything */
};

/* What every subcommand takes; BENCH_COMMON_OPTS() makes the options. */
struct bench_common {
	const char *address;		/* NULL: the library's default */
	bool json;
	bool quiet;
	double seconds;
	double warmup;
};

#define BENCH_COMMON_OPTS(c) \
	{ "address", BENCH_STRING, &(c)->address, "ADDRESS", \
	  "unix:PATH or dev:NAME (else $FLUXONKV, or the default)", 0, 0 }, \
	{ "json", BENCH_FLAG, &(c)->json, NULL, \
	  "JSON lines on stdout, the table on stderr", 0, 0 }, \
	{ "quiet", BENCH_FLAG, &(c)->quiet, NULL, \
	  "no progress on a terminal", 0, 0 }, \
	{ "seconds", BENCH_SECONDS, &(c)->seconds, "S", \
	  "length of a measurement, warm-up included", 0, 0 }, \
	{ "warmup", BENCH_SECONDS, &(c)->warmup, "S", \
	  "its first seconds, which do not count", 0, 0 }

enum bench_args_result {
	BENCH_ARGS_RUN,
	BENCH_ARGS_HELP,		/* help was printed: exit 0 */
	BENCH_ARGS_BAD,			/* the sentence was printed: exit 2 */
};

/* @argv[0] is the subcommand; @summary heads its help. */
enum bench_args_result bench_args_parse(int argc, char **argv,
					const struct bench_opt *opts,
					const char *summary);

/* Print "fluxonkv-bench SUB: sentence" and return 2. */
int bench_args_fail(const char *sub, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));

/*
 * "4096", "64k", "1.25MiB", "4MB" (units are binary; fractions of a byte are
 * cut off). 0, or -EINVAL.
 */
int bench_size_parse(const char *text, uint64_t *ret_bytes);

#endif
