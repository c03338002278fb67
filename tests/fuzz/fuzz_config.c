// SPDX-License-Identifier: Apache-2.0
/*
 * fuzz_config.c - the YAML file
 *
 * What is refused has a line and a key (C1), in one line of printable text;
 * the line moves with comments put before. What is taken is within bounds, and
 * comes out the same when it is written down and read again.
 */
#include <errno.h>
#include <inttypes.h>

#include "fuzz/fuzz.h"
#include "fuzz/settings.h"

#define NAME		"fluxonkvd.yaml"
#define ERR_SIZE	300

/* Lines as a reader of YAML counts them: a stray \r or U+2028 is one, too. */
static size_t lines_most(const uint8_t *p, size_t n)
{
	size_t lines = 2;

	for (size_t i = 0; i < n; i++)
		lines += p[i] == '\n' || p[i] == '\r' || p[i] == 0x85 ||
			 p[i] == 0xa8 || p[i] == 0xa9 || p[i] == 0x28 ||
			 p[i] == 0x29;
	return lines;
}

static int parse(struct fkv_config *cfg, const void *text, size_t n, char *err)
{
	uint8_t *copy = fuzz_copy(text, n);
	int res;

	fuzz_check(!fkv_config_init(cfg));
	memset(err, 'x', ERR_SIZE);
	res = fkv_config_parse(cfg, NAME, (const char *)copy, n, err,
			       ERR_SIZE);
	free(copy);
	return res;
}

/* Numbers only: how a string is quoted is YAML's matter. */
static int write_down(const struct fkv_config *cfg, char *buf, size_t size)
{
	return snprintf(buf, size, "memory: %" PRIu64 "\nio_depth: %" PRIu64
			"\nread_weight: %" PRIu64 "\nstrict_reads: %s\n"
			"pins_per_client: %" PRIu64 "\nindex_entries: %" PRIu64
			"\ntransfer_threads: %" PRIu64 "\nsocket_mode: %o\n",
			cfg->memory, cfg->io_depth, cfg->read_weight,
			cfg->strict_reads ? "true" : "false",
			cfg->pins_per_client, cfg->index_entries,
			cfg->transfer_threads, cfg->socket_mode);
}

static void check_again(const struct fkv_config *cfg, char *err)
{
	char text[512], text_again[512];
	struct fkv_config again;
	int n = write_down(cfg, text, sizeof(text));

	fuzz_check(n > 0 && (size_t)n < sizeof(text));
	fuzz_check(!parse(&again, text, (size_t)n, err));
	write_down(&again, text_again, sizeof(text_again));
	fuzz_check(!strcmp(text, text_again));
	fkv_config_done(&again);
}

static void check_paths(const struct fkv_config *cfg)
{
	for (unsigned int i = 0; i < cfg->nr_ssd; i++)
		fuzz_check(cfg->ssd[i].path[0] == '/');
}

/* Lines of a text that begins with a mark of its encoding cannot be moved. */
static bool is_marked(const uint8_t *data, size_t size)
{
	return size && (*data == 0xef || *data == 0xfe || *data == 0xff);
}

static unsigned long line_of(const char *err)
{
	return strtoul(err + sizeof(NAME), NULL, 10);
}

/* The same below three comments: the same, three lines below. */
static void check_below(const uint8_t *data, size_t size, int res,
			const char *err)
{
	static const char comments[] = "#\n#\n#\n";
	size_t n = sizeof(comments) - 1;
	char below[ERR_SIZE];
	struct fkv_config cfg;
	uint8_t *text;

	if (is_marked(data, size))
		return;
	text = fuzz_alloc(n + size);
	memcpy(text, comments, n);
	if (size)
		memcpy(text + n, data, size);
	fuzz_check(parse(&cfg, text, n + size, below) == res);
	fuzz_check(!res || line_of(below) == line_of(err) + 3);
	fkv_config_done(&cfg);
	free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *err = fuzz_alloc(ERR_SIZE);
	struct fkv_config cfg;
	int res = parse(&cfg, data, size, err);

	check_below(data, size, res, err);
	if (res) {
		fuzz_check(res == -EINVAL);
		fuzz_complaint_check(err, ERR_SIZE, NAME,
				     lines_most(data, size));
	} else {
		fuzz_settings_check(&cfg);
		check_paths(&cfg);
		check_again(&cfg, err);
		fuzz_settings_finish(&cfg);
	}
	fkv_config_done(&cfg);
	free(err);
	return 0;
}
