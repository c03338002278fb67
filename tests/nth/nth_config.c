// SPDX-License-Identifier: Apache-2.0
/*
 * nth_config - a full file of settings is read, by flags and by itself
 *
 * Without memory, libyaml's included, the answer is a sentence, never settings
 * that are not those of the file.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/base.h"
#include "nth.h"
#include "svc/config.h"

static const char text[] =
	"role: standalone\n"
	"cluster_name: \"north 7\"\n"
	"instance_key: host.9\n"
	"socket: /tmp/nth/fluxonkv.sock\n"
	"socket_mode: 0660\n"
	"memory: 96MiB\n"
	"huge_pages: off\n"
	"lock_memory: auto\n"
	"large_file_paths: [/tmp/nth/a, /tmp/nth/b]\n"
	"large_limit_size: [64MiB, 128MiB]\n"
	"io_engine: threads\n"
	"io_depth: 17\n"
	"strict_reads: true\n"
	"eviction: {new_values: first}\n"
	"limits:\n"
	"  client_pinned_bytes: 1MiB\n"
	"  uid_pinned_bytes: 2MiB\n"
	"transfer_threads: 3\n"
	"metrics:\n"
	"  listen: \"127.0.0.1:9555\"\n"
	"log_level: warning\n";

static char file[] = "/tmp/fkv-nth-XXXXXX";

/* libyaml's own leak (left.c); that of ours the program itself finds. */
const char *__lsan_default_suppressions(void);
const char *__lsan_default_suppressions(void)
{
	return "leak:yaml_parser_load\n";
}

static void is_as_written(const struct fkv_config *c)
{
	nth_check(c->role == FKV_ROLE_STANDALONE && c->cluster_name && c->instance_key &&
		  c->socket && c->metrics_host, "a string is missing");
	if (!nth_right())
		return;
	nth_check(!strcmp(c->cluster_name, "north 7") &&
		  !strcmp(c->instance_key, "host.9") &&
		  !strcmp(c->socket, "/tmp/nth/fluxonkv.sock") &&
		  !strcmp(c->metrics_host, "127.0.0.1"), "a wrong string");
	nth_check(c->memory == 96 * FKV_MIB && c->io_depth == 17 &&
		  c->strict_reads && c->socket_mode == 0660 &&
		  c->transfer_threads == 3 && c->metrics_port == 9555 &&
		  c->client_pinned_bytes == FKV_MIB, "a wrong number");
	nth_check(c->nr_ssd == 2 && c->ssd[0].path && c->ssd[1].path &&
		  !strcmp(c->ssd[1].path, "/tmp/nth/b") &&
		  c->ssd[0].limit == 64 * FKV_MIB, "a wrong path");
}

static void error(const char *call, const char *err)
{
	nth_check(nth_failures(), "%s: refused: %s", call, err);
	nth_check(strlen(err) > 10, "%s: no sentence: '%s'", call, err);
}

static void load(void *arg)
{
	char *argv[] = { "fluxonkvd", "--standalone", "--config", file,
			 "--set", "read_weight=3" };
	struct fkv_config cfg = { 0 };
	char err[600] = "";
	int res;

	(void)arg;
	nth_arm();
	res = fkv_config_load(FKV_ARRAY_SIZE(argv), argv, &cfg, err,
			      sizeof(err));
	nth_disarm();
	if (res == FKV_CONFIG_RUN)
		is_as_written(&cfg);
	else
		error("load", err);
	fkv_config_done(&cfg);
}

static void parse(void *arg)
{
	struct fkv_config cfg = { 0 };
	char err[600] = "";
	int res;

	(void)arg;
	nth_arm();
	res = fkv_config_init(&cfg);
	if (res) {
		nth_disarm();
		nth_check(res == -ENOMEM && nth_failures(), "init: %d", res);
		fkv_config_done(&cfg);
		return;
	}
	res = fkv_config_parse(&cfg, "f.yaml", text, sizeof(text) - 1, err,
			       sizeof(err));
	nth_disarm();
	if (!res)
		is_as_written(&cfg);
	else
		error("parse", err);
	fkv_config_done(&cfg);
}

static bool write_file(void)
{
	int fd = mkstemp(file);
	bool ok = fd >= 0 &&
		  write(fd, text, sizeof(text) - 1) == sizeof(text) - 1;

	if (fd >= 0)
		close(fd);
	return ok;
}

int main(void)
{
	unsetenv("XDG_RUNTIME_DIR");
	if (!write_file()) {
		perror(file);
		return EXIT_FAILURE;
	}
	nth_all("parse", parse, NULL);
	nth_all("load", load, NULL);
	unlink(file);
	return nth_end();
}
