// SPDX-License-Identifier: Apache-2.0
/*
 * main.c - fluxonkvctl: global options and the command table
 */
#include <ctype.h>
#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <limits.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ctl/ctl.h"
#include "ctl/table.h"

static const struct ctl_command commands[] = {
	{ "status", "", "state of the daemon", NULL, ctl_status },
	{ "put", "[--excl] [--nowait] [--memory-only] KEY [FILE|-]",
	  "store a file, or standard input",
	  "  --excl         fail when the key has a value\n"
	  "  --nowait       fail rather than wait for room\n"
	  "  --memory-only  never write it to SSD\n", ctl_put },
	{ "get", "KEY [-o FILE]", "write a value to a file or to stdout",
	  "  -o, --output FILE  where to\n", ctl_get },
	{ "del", "KEY...", "delete keys", NULL, ctl_del },
	{ "exists", "KEY...", "do all of these keys exist?", NULL,
	  ctl_exists },
	{ "stat", "KEY...", "length, version and place of values", NULL,
	  ctl_stat },
	{ "list", "[--limit N|--all] [PREFIX]", "keys in byte order",
	  "  --limit N  at most N keys (1000)\n"
	  "  --all      all of them\n", ctl_list },
	{ "count", "[PREFIX]", "number of keys", NULL, ctl_count },
	{ "holders", "", "what clients pin", NULL, ctl_holders },
	{ "segments", "", "memory segments", NULL, ctl_segments },
	{ "clients", "", "clients of the device", NULL, ctl_clients },
	{ "events", "[--count N]",
	  "clients and segments of the device, as they come and go",
	  "  -n, --count N  end after N of them\n", ctl_events },
	{ "routes", "[PREFIX]", "where the copies of each key are", NULL,
	  ctl_routes },
	{ "members", "", "owners of the cluster, at its master", NULL,
	  ctl_admin },
	{ "ssd", "", "devices of the SSD tier", NULL, ctl_admin },
	{ "debug", "refs|check", "counted references; do accounts balance?", NULL,
	  ctl_debug },
	{ "metrics", "", "metrics as Prometheus text", NULL, ctl_metrics },
};

#define NR_COMMANDS	(sizeof(commands) / sizeof(commands[0]))

static void say(const struct ctl *c, const char *fmt, va_list ap)
{
	fprintf(stderr, "fluxonkvctl%s%s: ", c->command ? " " : "",
		c->command ? c->command->name : "");
	vfprintf(stderr, fmt, ap);
	fputc('\n', stderr);
}

int ctl_usage(const struct ctl *c, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	say(c, fmt, ap);
	va_end(ap);
	if (c->command)
		fprintf(stderr, "usage: fluxonkvctl %s %s\n", c->command->name,
			c->command->arguments);
	return CTL_USAGE;
}

int ctl_fail(const struct ctl *c, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	say(c, fmt, ap);
	va_end(ap);
	return CTL_FAILED;
}

int ctl_error(const struct ctl *c, const char *what, int res)
{
	const char *sentence = fluxonkv_last_error();

	if (!sentence[0])
		return ctl_fail(c, "%s: %s", what, fluxonkv_strerror(res));
	return ctl_fail(c, "%s: %s (%s)", what, fluxonkv_strerror(res),
			sentence);
}

int ctl_open(struct ctl *c)
{
	int res = fluxonkv_open(c->address, &c->client);

	if (res == -EINVAL)
		return ctl_usage(c, "%s", fluxonkv_last_error());
	if (res)
		return ctl_fail(c, "no daemon: %s", fluxonkv_last_error());
	fluxonkv_set_timeout(c->client, c->timeout_ms);
	return CTL_OK;
}

int ctl_key(const struct ctl *c, const char *text, struct ctl_key *ret)
{
	int res = ctl_unescape(text, ret->bytes, &ret->len);

	ret->text = text;
	if (res == -E2BIG)
		return ctl_usage(c, "the key has more than %u bytes",
				 CTL_KEY_MAX);
	if (res)
		return ctl_usage(c, "'%s': after a backslash, expected "
				 "another one or xNN", text);
	if (!ret->len)
		return ctl_usage(c, "a key has at least one byte");
	return CTL_OK;
}

int ctl_arguments(const struct ctl *c, int argc, char **argv, int min, int max)
{
	int n = argc - 1;

	if (n < min)
		return ctl_usage(c, "expected %s", c->command->arguments);
	if (n > max)
		return ctl_usage(c, "'%s' is one argument too many",
				 argv[max + 1]);
	return CTL_OK;
}

int ctl_number(const struct ctl *c, const char *option, const char *text,
	       uint64_t max, uint64_t *ret)
{
	unsigned long long v = 0;
	char *end = NULL;

	errno = 0;
	if (isdigit((unsigned char)text[0]))
		v = strtoull(text, &end, 10);
	if (!end || *end || errno || v > max)
		return ctl_usage(c, "%s: expected a number, at most %" PRIu64
				 ", not '%s'", option, max, text);
	*ret = v;
	return CTL_OK;
}

const char *ctl_where(unsigned int where)
{
	static const char *const names[] = { "none", "memory", "ssd",
					     "memory,ssd" };

	return names[where & (FLUXONKV_WHERE_MEMORY | FLUXONKV_WHERE_SSD)];
}

void ctl_print_json(struct json_object *o)
{
	puts(json_object_to_json_string_ext(o, CTL_JSON_FLAGS));
	json_object_put(o);
}

static void usage(FILE *out)
{
	fputs("usage: fluxonkvctl [--address ADDRESS] [--json] "
	      "[--timeout MS] COMMAND [ARGUMENT]...\n\n", out);
	for (size_t i = 0; i < NR_COMMANDS; i++)
		fprintf(out, "  %-10s%s\n", commands[i].name,
			commands[i].summary);
	fputs("\n"
	      "  --address A   unix:PATH or dev:INSTANCE ($FLUXONKV, else the "
	      "default)\n"
	      "  --json        JSON for programs\n"
	      "  --timeout MS  deadline of each call (10000)\n"
	      "  --version, --help; COMMAND --help\n\n"
	      "In keys, \\xNN is any byte and \\\\ a backslash.\n\n"
	      "EXAMPLES\n"
	      "  fluxonkvctl status\n"
	      "  echo hello | fluxonkvctl put greeting\n"
	      "  fluxonkvctl --json list model/ --limit 10\n", out);
}

static int help(const struct ctl_command *c)
{
	printf("usage: fluxonkvctl [GLOBAL OPTION]... %s %s\n\n%s\n", c->name,
	       c->arguments, c->summary);
	if (c->details)
		printf("\n%s", c->details);
	return CTL_OK;
}

enum { OPT_ADDRESS = 256, OPT_JSON, OPT_TIMEOUT, OPT_VERSION, OPT_HELP };

/* Options before the command. -1: go on; else the exit status. */
static int globals(struct ctl *c, int argc, char **argv)
{
	static const struct option options[] = {
		{ "address", required_argument, NULL, OPT_ADDRESS },
		{ "json", no_argument, NULL, OPT_JSON },
		{ "timeout", required_argument, NULL, OPT_TIMEOUT },
		{ "version", no_argument, NULL, OPT_VERSION },
		{ "help", no_argument, NULL, OPT_HELP },
		{ NULL, 0, NULL, 0 },
	};
	uint64_t ms;
	int opt;

	while ((opt = getopt_long(argc, argv, "+h", options, NULL)) != -1) {
		switch (opt) {
		case OPT_ADDRESS:
			c->address = optarg;
			break;
		case OPT_JSON:
			c->json = true;
			break;
		case OPT_TIMEOUT:
			if (ctl_number(c, "--timeout", optarg, INT_MAX, &ms))
				return CTL_USAGE;
			c->timeout_ms = (unsigned int)ms;
			break;
		case OPT_VERSION:
			printf("fluxonkvctl %s\n", fluxonkv_version());
			return CTL_OK;
		case OPT_HELP:
		case 'h':
			usage(stdout);
			return CTL_OK;
		default:
			return ctl_usage(c, "unknown option or missing value: "
					 "'%s'; see --help", argv[optind - 1]);
		}
	}
	return -1;
}

static const struct ctl_command *find(const char *name)
{
	for (size_t i = 0; i < NR_COMMANDS; i++)
		if (!strcmp(commands[i].name, name))
			return &commands[i];
	return NULL;
}

static bool wants_help(int argc, char **argv)
{
	for (int i = 1; i < argc && strcmp(argv[i], "--"); i++)
		if (!strcmp(argv[i], "--help") || !strcmp(argv[i], "-h"))
			return true;
	return false;
}

/*
 * Commands without options of their own: a key that begins with a dash must
 * follow "--", or a mistyped option would be taken for a key to delete.
 */
static int plain(struct ctl *c, int *argc, char ***argv)
{
	if (c->command->details)
		return CTL_OK;
	if (*argc > 1 && !strcmp((*argv)[1], "--")) {
		--*argc;
		++*argv;
		return CTL_OK;
	}
	for (int i = 1; i < *argc; i++)
		if ((*argv)[i][0] == '-')
			return ctl_usage(c, "unknown option '%s'; global "
					 "options go before the command, keys "
					 "with a dash after '--'", (*argv)[i]);
	return CTL_OK;
}

/* What was written late, to a full disk say, is a failure too. */
static int flush(const struct ctl *c, int status)
{
	if (fflush(stdout) || ferror(stdout))
		return ctl_fail(c, "stdout: %s", strerror(errno));
	return status;
}

int main(int argc, char **argv)
{
	struct ctl c = { .timeout_ms = FLUXONKV_DEFAULT_TIMEOUT_MS };
	int status;

	signal(SIGPIPE, SIG_IGN);
	opterr = 0;
	status = globals(&c, argc, argv);
	if (status >= 0)
		return flush(&c, status);
	argc -= optind;
	argv += optind;
	if (!argc) {
		usage(stderr);
		return CTL_USAGE;
	}
	c.command = find(argv[0]);
	if (!c.command)
		return ctl_usage(&c, "'%s' is no command; see --help",
				 argv[0]);
	if (wants_help(argc, argv))
		return flush(&c, help(c.command));
	optind = 0;	/* glibc: forget the mode of the first scan */
	status = plain(&c, &argc, &argv);
	if (!status)
		status = c.command->run(&c, argc, argv);
	fluxonkv_close(c.client);
	return flush(&c, status);
}
