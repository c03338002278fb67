// SPDX-License-Identifier: Apache-2.0
/*
 * fuzz_args.c - the command line, and sizes as people write them
 *
 * An input that begins with a digit is a size, checked against arithmetic of
 * another kind. Any other is a command line, an argument a line; behind an
 * empty line comes the file that --config names.
 */
#include <getopt.h>
#include <inttypes.h>

#include "base/base.h"
#include "base/size.h"

#include "fuzz/fuzz.h"
#include "fuzz/settings.h"

#define ARGS_MAX	48
#define ERR_SIZE	512

/* ---- sizes ---- */

static unsigned int shift_of(const char *unit)
{
	static const char letters[] = "KMGT";
	const char *at = *unit ? strchr(letters, *unit) : NULL;

	return at ? 10 * (unsigned int)(at - letters + 1) : 0;
}

/* 0.DIGITS times 2^@shift, cut: doubled digit by digit, so exact. */
static uint64_t shift_fraction(const char *digits, size_t n, unsigned int shift)
{
	char *d = (char *)fuzz_copy(digits, n);
	uint64_t res = 0;

	for (; shift; shift--) {
		int carry = 0;

		for (size_t i = n; i-- > 0;) {
			int v = 2 * (d[i] - '0') + carry;

			d[i] = (char)('0' + v % 10);
			carry = v / 10;
		}
		res = 2 * res + (unsigned int)carry;
	}
	free(d);
	return res;
}

/* Is @bytes what @text, which is a size, says? */
static bool is_size(const char *text, uint64_t bytes)
{
	unsigned __int128 whole = 0;
	const char *p, *fraction = "";
	size_t n = 0;
	unsigned int shift;

	for (p = text; *p >= '0' && *p <= '9'; p++)
		whole = whole * 10 + (unsigned int)(*p - '0');
	if (*p == '.') {
		fraction = p + 1;
		n = strspn(fraction, "0123456789");
		p = fraction + n;
	}
	shift = shift_of(p + (*p == ' '));
	return bytes == (uint64_t)(whole << shift) +
			shift_fraction(fraction, n, shift);
}

static void check_size(const char *text)
{
	char exact[32], people[24];
	uint64_t bytes = 77, again;
	int err = fkv_size_parse(text, &bytes);

	if (err) {
		fuzz_check(err == -EINVAL || err == -ERANGE);
		fuzz_check(bytes == 77);
		fuzz_check(text[strspn(text, "0123456789")] ||
			   strlen(text) > 18);
		return;
	}
	fuzz_check(bytes <= INT64_MAX);
	fuzz_check(is_size(text, bytes));
	snprintf(exact, sizeof(exact), "%" PRIu64, bytes);
	fuzz_check(!fkv_size_parse(exact, &again) && again == bytes);
	/* for people: cut down, so never more, and a tenth less at most */
	fuzz_check(fkv_size_print(bytes, people, sizeof(people)) == people);
	fuzz_check(strlen(people) < sizeof(people) - 1);
	fuzz_check(!fkv_size_parse(people, &again) && again <= bytes);
	fuzz_check(bytes - again <= bytes / 8);
}

/* ---- the command line ---- */

/* Lines of @text, each in memory of its own; returns what is behind them. */
static const uint8_t *split(struct fuzz_in *in, char **argv, int *argc)
{
	const uint8_t *p = in->p, *end = p + in->left, *nl;

	argv[(*argc)++] = fuzz_string("fluxonkvd", 9);
	while (p < end && *argc < ARGS_MAX) {
		nl = memchr(p, '\n', (size_t)(end - p));
		if (nl == p)
			return p + 1;
		if (!nl)
			nl = end;
		argv[(*argc)++] = fuzz_string(p, (size_t)(nl - p));
		p = nl < end ? nl + 1 : end;
	}
	return p;
}

/* getopt remembers where it stood in the last input's arguments. */
static void forget(void)
{
	char name[] = "x", *none[] = { name, NULL };

	optind = 0;
	getopt(1, none, "");
}

static void check_result(enum fkv_config_result res, struct fkv_config *cfg,
			 const char *err)
{
	if (res == FKV_CONFIG_BAD) {
		fuzz_check(memchr(err, 0, ERR_SIZE));
		fuzz_check(strlen(err) > 10);
		return;
	}
	fuzz_settings_check(cfg);
	if (res == FKV_CONFIG_EXIT)
		return;
	fuzz_check(res == FKV_CONFIG_RUN);
	fuzz_check(cfg->role != FKV_ROLE_NONE && !cfg->check_only);
	fuzz_check(!(cfg->memory % FKV_EXTENT_UNIT));
}

static void check_args(const uint8_t *data, size_t size)
{
	struct fuzz_in in = { data, size };
	char *argv[ARGS_MAX + 1] = { NULL }, *all[ARGS_MAX], *err;
	enum fkv_config_result res;
	struct fkv_config cfg;
	const uint8_t *rest;
	uint8_t *file;
	size_t left;
	int argc = 0;

	rest = split(&in, argv, &argc);
	left = (size_t)(data + size - rest);
	file = fuzz_copy(rest, left);
	err = fuzz_alloc(ERR_SIZE);
	memset(err, 'x', ERR_SIZE);
	memcpy(all, argv, sizeof(all));
	forget();
	fuzz_file_set(file, left);
	res = fkv_config_load(argc, argv, &cfg, err, ERR_SIZE);
	fuzz_file_clear();
	check_result(res, &cfg, err);
	fkv_config_done(&cfg);
	for (int i = 0; i < argc; i++)
		free(all[i]);	/* getopt changes the order in argv */
	free(err);
	free(file);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static FILE *sink;
	FILE *was = stdout;
	char *text;

	if (size && data[0] >= '0' && data[0] <= '9') {
		text = fuzz_string(data, size);
		check_size(text);
		free(text);
		return 0;
	}
	if (!sink)
		sink = fopen("/dev/null", "we");
	fuzz_check(sink);
	stdout = sink;		/* --help */
	check_args(data, size);
	stdout = was;
	return 0;
}
