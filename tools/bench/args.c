// SPDX-License-Identifier: Apache-2.0
/*
 * args.c - command lines from a table
 */
#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "bench/args.h"

#define ITEM_MAX	128u

int bench_args_fail(const char *sub, const char *fmt, ...)
{
	va_list ap;

	fprintf(stderr, "fluxonkv-bench %s: ", sub);
	va_start(ap, fmt);
	vfprintf(stderr, fmt, ap);
	va_end(ap);
	fputc('\n', stderr);
	return 2;
}

/* Exponent of 1024 that a unit stands for, or -1. */
static int unit_power(const char *unit)
{
	static const char *const names[][3] = {
		{ "", "b", "b" },       { "k", "kb", "kib" },
		{ "m", "mb", "mib" },   { "g", "gb", "gib" },
		{ "t", "tb", "tib" },
	};

	for (int p = 0; p < 5; p++)
		for (int i = 0; i < 3; i++)
			if (!strcasecmp(unit, names[p][i]))
				return p;
	return -1;
}

int bench_size_parse(const char *text, uint64_t *ret_bytes)
{
	double value;
	char *end;
	int power;

	if (!isdigit((unsigned char)text[0]) ||
	    !strncasecmp(text, "0x", 2))
		return -EINVAL;
	errno = 0;
	value = strtod(text, &end);
	power = unit_power(end);
	if (errno || power < 0 || !isfinite(value))
		return -EINVAL;
	value = ldexp(value, 10 * power);
	if (value >= 0x1p53)
		return -EINVAL;
	*ret_bytes = (uint64_t)value;
	return 0;
}

static int parse_count(const char *text, uint64_t *ret)
{
	char *end;

	if (!isdigit((unsigned char)text[0]))
		return -EINVAL;
	errno = 0;
	*ret = strtoull(text, &end, 10);
	return errno || *end ? -EINVAL : 0;
}

static int parse_number(const char *text, double max, double *ret)
{
	double value;
	char *end;

	if (!isdigit((unsigned char)text[0]))
		return -EINVAL;
	errno = 0;
	value = strtod(text, &end);
	if (errno || *end || !(value <= max))
		return -EINVAL;
	*ret = value;
	return 0;
}

/* Position of @text in "one|two|three". */
static int parse_word(const char *text, const char *words, uint64_t *ret)
{
	size_t len = strlen(text);

	for (uint64_t i = 0; *words; i++) {
		size_t n = strcspn(words, "|");

		if (n == len && !strncmp(words, text, n)) {
			*ret = i;
			return 0;
		}
		words += n + (words[n] == '|');
	}
	return -EINVAL;
}

static int parse_item(const struct bench_opt *o, const char *text,
		      uint64_t *ret)
{
	uint64_t value;
	int res;

	if (o->kind == BENCH_SIZE || o->kind == BENCH_SIZES)
		res = bench_size_parse(text, &value);
	else if (o->kind == BENCH_WORD || o->kind == BENCH_WORDS)
		res = parse_word(text, o->arg, &value);
	else
		res = parse_count(text, &value);
	if (res)
		return res;
	if (o->max && (value < o->min || value > o->max))
		return -ERANGE;
	*ret = value;
	return 0;
}

static int parse_list(const struct bench_opt *o, const char *text)
{
	struct bench_list list = { .n = 0 };
	char item[ITEM_MAX];
	int res;

	for (;;) {
		size_t n = strcspn(text, ",");

		if (n >= sizeof(item) || list.n == BENCH_LIST_MAX)
			return -EINVAL;
		memcpy(item, text, n);
		item[n] = '\0';
		res = parse_item(o, item, &list.v[list.n]);
		if (res)
			return res;
		list.n++;
		if (!text[n])
			break;
		text += n + 1;
	}
	*(struct bench_list *)o->dest = list;
	return 0;
}

static int parse_value(const struct bench_opt *o, const char *text)
{
	uint64_t value;
	int res;

	switch (o->kind) {
	case BENCH_FLAG:
		*(bool *)o->dest = true;
		return 0;
	case BENCH_STRING:
		*(const char **)o->dest = text;
		return *text ? 0 : -EINVAL;
	case BENCH_SECONDS:
		return parse_number(text, 86400, o->dest);
	case BENCH_NUMBER:
		return parse_number(text, 1e9, o->dest);
	case BENCH_COUNTS:
	case BENCH_SIZES:
	case BENCH_WORDS:
		return parse_list(o, text);
	case BENCH_WORD:
		res = parse_item(o, text, &value);
		if (!res)
			*(unsigned int *)o->dest = (unsigned int)value;
		return res;
	case BENCH_COUNT:
	case BENCH_SIZE:
		return parse_item(o, text, o->dest);
	}
	return -EINVAL;
}

static const char *kind_expects(const struct bench_opt *o)
{
	switch (o->kind) {
	case BENCH_COUNT:
		return "a whole number";
	case BENCH_COUNTS:
		return "whole numbers such as 1,2,4";
	case BENCH_SIZE:
		return "a size such as 64k or 4MiB";
	case BENCH_SIZES:
		return "sizes such as 64k,1m,4MiB";
	case BENCH_SECONDS:
		return "seconds, 0 to 86400";
	case BENCH_NUMBER:
		return "a number, 0 to 1e9";
	case BENCH_WORD:
	case BENCH_WORDS:
		return o->arg;
	default:
		return "a value that is not empty";
	}
}

static int bad_value(const char *sub, const struct bench_opt *o,
		     const char *text, int res)
{
	if (res == -ERANGE)
		return bench_args_fail(sub, "--%s: '%s' is out of range; "
				       "expected %" PRIu64 " to %" PRIu64,
				       o->name, text, o->min, o->max);
	return bench_args_fail(sub, "--%s: expected %s%s, not '%s'", o->name,
			       o->kind == BENCH_WORD ? "one of " :
			       o->kind == BENCH_WORDS ? "some of " : "",
			       kind_expects(o), text);
}

static void help(const char *sub, const struct bench_opt *opts,
		 const char *summary)
{
	char left[96];

	printf("usage: fluxonkv-bench %s [OPTION]...\n\n%s\n\n", sub, summary);
	for (; opts->name; opts++) {
		snprintf(left, sizeof(left), "--%s%s%s", opts->name,
			 opts->arg ? " " : "", opts->arg ? opts->arg : "");
		printf("  %-28s%s%s\n", left,
		       strlen(left) > 27 ? "\n                              " :
		       "", opts->help);
	}
	printf("  %-28s%s\n", "--help", "this text");
}

static const struct bench_opt *find(const struct bench_opt *opts,
				    const char *name, size_t len)
{
	for (; opts->name; opts++)
		if (strlen(opts->name) == len && !strncmp(opts->name, name, len))
			return opts;
	return NULL;
}

/* One option at argv[i]; returns how many words it took, or -2 when bad. */
static int take(char **argv, int i, const struct bench_opt *opts)
{
	const char *sub = argv[0], *arg = argv[i], *value = NULL;
	const struct bench_opt *o;
	size_t len;
	int words = 1, res;

	if (strncmp(arg, "--", 2))
		return -bench_args_fail(sub, "'%s' is no option; options "
					"begin with --, see --help", arg);
	len = strcspn(arg + 2, "=");
	o = find(opts, arg + 2, len);
	if (!o)
		return -bench_args_fail(sub, "%s: unknown option, see --help",
					arg);
	if (arg[2 + len])
		value = arg + 3 + len;
	if (o->kind == BENCH_FLAG && value)
		return -bench_args_fail(sub, "--%s takes no value", o->name);
	if (o->kind != BENCH_FLAG && !value) {
		value = argv[i + 1];
		words = 2;
		if (!value)
			return -bench_args_fail(sub, "--%s: expected %s after "
						"it", o->name,
						kind_expects(o));
	}
	res = parse_value(o, value);
	return res ? -bad_value(sub, o, value, res) : words;
}

enum bench_args_result bench_args_parse(int argc, char **argv,
					const struct bench_opt *opts,
					const char *summary)
{
	int n;

	for (int i = 1; i < argc; i += n) {
		if (!strcmp(argv[i], "--help") || !strcmp(argv[i], "-h")) {
			help(argv[0], opts, summary);
			return BENCH_ARGS_HELP;
		}
		n = take(argv, i, opts);
		if (n < 0)
			return BENCH_ARGS_BAD;
	}
	return BENCH_ARGS_RUN;
}
