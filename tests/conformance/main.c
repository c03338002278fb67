// SPDX-License-Identifier: Apache-2.0
/*
 * main.c - runs the suite at an address; see conformance.h
 */
#include <sys/wait.h>

#include "conformance.h"

#define TEST_SECONDS	60
#define SLOW_SECONDS	120

static struct {
	const char *address, *stop, *start;
	bool uncapped, slow;
	char **names;			/* only these; NULL at the end */
} options;

static const struct conf_test *const files[] = {
	conf_keys, conf_puts, conf_gets, conf_meta, conf_limits, conf_lives,
};

static void command(const char *cmd)
{
	int rc;

	fflush(stdout);
	rc = system(cmd);
	if (rc) {
		printf("FAIL \"%s\" ended with %d\n", cmd, rc);
		exit(1);
	}
}

void conf_stop(void)
{
	command(options.stop);
}

void conf_start(void)
{
	command(options.start);
}

static void wipe(struct fluxonkv *kv)
{
	static struct fluxonkv_listed_key got[100];
	static struct fluxonkv_key keys[100];
	static int status[100];
	size_t n;

	do {
		expect(fluxonkv_list(kv, NULL, NULL, got, 100, &n), 0, "list");
		for (size_t i = 0; i < n; i++)
			keys[i] = (struct fluxonkv_key){
				got[i].key, got[i].key_len,
			};
		expect(fluxonkv_delete_many(kv, keys, n, status), 0,
		       "delete_many");
	} while (n && !failures);
}

/* Nothing is left of a test: no byte used, held or reserved (M5, H2). */
static int clean(void)
{
	struct fluxonkv *kv = open_client();
	char *text;

	wipe(kv);
	if (fluxonkv_admin(kv, "status", NULL, &text)) {
		printf("FAIL status, which says what is left: %s\n",
		       fluxonkv_last_error());
		return 1;
	}
	free(text);
	check(becomes(kv, "refs", "\"holders\"", 0, 5), "no holder is left");
	check(becomes(kv, "refs", "\"open_puts\"", 0, 5),
	      "no open put is left");
	check(becomes(kv, "status", "\"used_bytes\"", 0, 5),
	      "no byte is used");
	fluxonkv_close(kv);
	return failures != 0;
}

static int in_child(int (*run)(void), unsigned int seconds)
{
	int status = -1;
	pid_t pid;

	fflush(stdout);
	pid = fork();
	if (!pid) {
		alarm(seconds);
		exit(run());
	}
	waitpid(pid, &status, 0);
	if (WIFSIGNALED(status))
		printf("FAIL signal %d (%s)\n", WTERMSIG(status),
		       strsignal(WTERMSIG(status)));
	return status;
}

/* Why it is not run; NULL: it is. */
static const char *why_not(const struct conf_test *t)
{
	switch (t->when) {
	case CONF_CAPPED:
		return options.uncapped ? "the daemon has no caps" : NULL;
	case CONF_UNCAPPED:
		return options.uncapped ? NULL : "the daemon has caps";
	case CONF_RESTARTS:
		return options.start && options.stop ?
			       NULL : "no --stop and --start";
	case CONF_SLOW:
		return options.slow ? NULL : "no --slow";
	default:
		return NULL;
	}
}

static bool wanted(const struct conf_test *t)
{
	for (char **name = options.names; *name; name++) {
		if (!strcmp(*name, t->name))
			return true;
	}
	return !*options.names;
}

static bool run(const struct conf_test *t)
{
	double began = now();
	unsigned int seconds = t->when == CONF_SLOW ? SLOW_SECONDS :
						      TEST_SECONDS;
	bool ok = !in_child(t->run, seconds);

	ok = !in_child(clean, seconds) && ok;
	printf("%s %s (%.1f s)\n", ok ? "ok" : "FAIL", t->name, now() - began);
	return ok;
}

static int usage(void)
{
	fprintf(stderr, "usage: conformance ADDRESS [--uncapped] [--slow] "
		"[--stop COMMAND --start COMMAND] [TEST]...\n"
		"ADDRESS is of a daemon with 64 MiB or more that nobody else "
		"uses\n");
	return 2;
}

static int parse(int argc, char **argv)
{
	int i = 2;

	if (argc < 2)
		return usage();
	options.address = argv[1];
	for (; i < argc && !strncmp(argv[i], "--", 2); i++) {
		if (!strcmp(argv[i], "--uncapped"))
			options.uncapped = true;
		else if (!strcmp(argv[i], "--slow"))
			options.slow = true;
		else if (!strcmp(argv[i], "--stop") && i + 1 < argc)
			options.stop = argv[++i];
		else if (!strcmp(argv[i], "--start") && i + 1 < argc)
			options.start = argv[++i];
		else
			return usage();
	}
	options.names = argv + i;
	return 0;
}

int main(int argc, char **argv)
{
	unsigned int passed = 0, failed = 0, skipped = 0;
	int err = parse(argc, argv);

	if (err)
		return err;
	setenv("FLUXONKV", options.address, 1);
	if (in_child(clean, TEST_SECONDS))
		return 1;
	for (size_t f = 0; f < sizeof(files) / sizeof(files[0]); f++) {
		for (const struct conf_test *t = files[f]; t->name; t++) {
			const char *why = why_not(t);

			if (!wanted(t))
				continue;
			if (why) {
				printf("skip %s: %s\n", t->name, why);
				skipped++;
			} else if (run(t)) {
				passed++;
			} else {
				failed++;
			}
		}
	}
	printf("%u passed, %u failed, %u skipped\n", passed, failed, skipped);
	return failed || !passed;
}
