// SPDX-License-Identifier: Apache-2.0
/*
 * args.c - the command line: flags over the file
 */
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/base.h"
#include "base/size.h"
#include "base/version.h"
#include "svc/config.h"

#define FILE_MAX	(1u << 20)

enum {
	OPT_STANDALONE = 256, OPT_MEMORY, OPT_SSD, OPT_SOCKET, OPT_CONFIG,
	OPT_CHECK, OPT_CLUSTER, OPT_INSTANCE, OPT_METRICS, OPT_LOG, OPT_ENGINE,
	OPT_BACKEND, OPT_SET, OPT_VERSION, OPT_HELP, OPT_ROLE, OPT_MASTER,
	OPT_LISTEN, OPT_ADVERTISE, OPT_KEY, OPT_STATE,
};

static const struct option options[] = {
	{ "standalone", no_argument, NULL, OPT_STANDALONE },
	{ "role", required_argument, NULL, OPT_ROLE },
	{ "master", required_argument, NULL, OPT_MASTER },
	{ "listen", required_argument, NULL, OPT_LISTEN },
	{ "advertise", required_argument, NULL, OPT_ADVERTISE },
	{ "cluster-key", required_argument, NULL, OPT_KEY },
	{ "state-dir", required_argument, NULL, OPT_STATE },
	{ "memory", required_argument, NULL, OPT_MEMORY },
	{ "ssd", required_argument, NULL, OPT_SSD },
	{ "socket", required_argument, NULL, OPT_SOCKET },
	{ "config", required_argument, NULL, OPT_CONFIG },
	{ "check-config", no_argument, NULL, OPT_CHECK },
	{ "cluster", required_argument, NULL, OPT_CLUSTER },
	{ "instance", required_argument, NULL, OPT_INSTANCE },
	{ "metrics", required_argument, NULL, OPT_METRICS },
	{ "log-level", required_argument, NULL, OPT_LOG },
	{ "io-engine", required_argument, NULL, OPT_ENGINE },
	{ "backend", required_argument, NULL, OPT_BACKEND },
	{ "set", required_argument, NULL, OPT_SET },
	{ "version", no_argument, NULL, OPT_VERSION },
	{ "help", no_argument, NULL, OPT_HELP },
	{ NULL, 0, NULL, 0 },
};

static const char usage[] =
"fluxonkvd - owner daemon of the FluxonKV cache\n"
"\n"
"usage: fluxonkvd --standalone [--memory SIZE] [--ssd DIR:SIZE]...\n"
"       fluxonkvd --role master --listen A:P [--cluster-key FILE]\n"
"       fluxonkvd --role owner --master HOST:P --listen A:P\n"
"                 [--cluster-key FILE] [--memory SIZE] [--ssd DIR:SIZE]...\n"
"       fluxonkvd --config FILE [--check-config]\n"
"\n"
"  --standalone        owner and master in one process\n"
"  --role NAME         standalone, master or owner\n"
"  --master HOST:PORT  owner: where its master is\n"
"  --listen A:PORT     cluster: where this daemon listens; owners also on\n"
"                      the port after it, for payload\n"
"  --advertise A       owner: by which address others reach it\n"
"  --cluster-key FILE  cluster_key_file: 64 hexadecimal digits, mode 0600\n"
"  --state-dir DIR     master: what it keeps over restarts\n"
"  --memory SIZE       bytes of the memory segment (1GiB)\n"
"  --ssd DIR:SIZE      an SSD tier in DIR, of at most SIZE; repeatable\n"
"  --socket PATH       the clients' socket\n"
"  --backend NAME      device (/dev/fluxonkv), unix (a socket), or auto\n"
"  --config FILE       settings in YAML: fluxonkvd.conf(5)\n"
"  --check-config      check the settings, and exit\n"
"  --cluster NAME      cluster_name (local)\n"
"  --instance KEY      instance_key (the host name)\n"
"  --metrics A:P|none  where /metrics listens (127.0.0.1:31997)\n"
"  --io-engine NAME    auto, uring, uring_iovec or threads\n"
"  --log-level NAME    error, warning, info or debug\n"
"  --set KEY=VALUE     any key of the file, as 'limits.uid_pinned_bytes=0'\n"
"  --version, --help\n"
"\n"
"Example: fluxonkvd --standalone --memory 4GiB --ssd /mnt/nvme:64GiB\n";

static int read_file(const char *path, char **ret, size_t *ret_len, char *err,
		     size_t err_size)
{
	FILE *f = fopen(path, "re");
	char *text;
	size_t n;

	if (!f) {
		snprintf(err, err_size, "%s: cannot read it: %s", path,
			 strerror(errno));
		return -EINVAL;
	}
	text = malloc(FILE_MAX + 1);
	n = text ? fread(text, 1, FILE_MAX + 1, f) : 0;
	if (!text || ferror(f) || n > FILE_MAX) {
		snprintf(err, err_size, "%s: %s", path, n > FILE_MAX ?
			 "larger than 1 MiB: not a configuration" :
			 strerror(errno));
		free(text);
		fclose(f);
		return -EINVAL;
	}
	fclose(f);
	*ret = text;
	*ret_len = n;
	return 0;
}

static int load_file(struct fkv_config *cfg, const char *path, char *err,
		     size_t err_size)
{
	char *text;
	size_t n;
	int res;

	res = read_file(path, &text, &n, err, err_size);
	if (res)
		return res;
	res = fkv_config_parse(cfg, path, text, n, err, err_size);
	free(text);
	return res;
}

static int set_pair(struct fkv_config *cfg, const char *arg, char *err,
		    size_t err_size)
{
	const char *eq = strchr(arg, '=');
	char key[128];

	if (!eq || eq == arg || (size_t)(eq - arg) >= sizeof(key)) {
		snprintf(err, err_size, "--set: expected KEY=VALUE, not '%s'",
			 arg);
		return -EINVAL;
	}
	memcpy(key, arg, (size_t)(eq - arg));
	key[eq - arg] = '\0';
	return fkv_config_set(cfg, "--set", key, eq + 1, err, err_size);
}

/* DIR:SIZE, split at the last colon (S1). */
static int add_ssd(struct fkv_config *cfg, const char *arg, bool *first,
		   char *err, size_t err_size)
{
	const char *colon = strrchr(arg, ':');
	struct fkv_ssd_path *p;
	uint64_t limit;

	if (!colon || colon == arg || fkv_size_parse(colon + 1, &limit)) {
		snprintf(err, err_size, "--ssd: expected DIR:SIZE such as "
			 "/mnt/nvme:8GiB, not '%s'", arg);
		return -EINVAL;
	}
	if (limit < FKV_SSD_LIMIT_MIN) {
		snprintf(err, err_size, "--ssd: %" PRIu64 " bytes hold no "
			 "entry; expected at least %llu", limit,
			 FKV_SSD_LIMIT_MIN);
		return -EINVAL;
	}
	if (*first) {		/* flags replace the file's */
		cfg->nr_ssd = 0;
		*first = false;
	}
	if (cfg->nr_ssd == FKV_DEVICES_MAX) {
		snprintf(err, err_size, "--ssd: expected at most %u",
			 FKV_DEVICES_MAX);
		return -EINVAL;
	}
	p = &cfg->ssd[cfg->nr_ssd];
	free(p->path);
	p->path = strndup(arg, (size_t)(colon - arg));
	if (!p->path)
		return -ENOMEM;
	p->limit = limit;
	cfg->nr_ssd++;
	fkv_config_gave(cfg, "large_file_paths");
	return 0;
}

static const char *flag_key(int opt)
{
	switch (opt) {
	case OPT_ROLE:
		return "role";
	case OPT_MASTER:
		return "master";
	case OPT_LISTEN:
		return "listen";
	case OPT_ADVERTISE:
		return "advertise";
	case OPT_KEY:
		return "cluster_key_file";
	case OPT_STATE:
		return "state_dir";
	case OPT_MEMORY:
		return "memory";
	case OPT_SOCKET:
		return "socket";
	case OPT_CLUSTER:
		return "cluster_name";
	case OPT_INSTANCE:
		return "instance_key";
	case OPT_METRICS:
		return "metrics.listen";
	case OPT_LOG:
		return "log_level";
	case OPT_ENGINE:
		return "io_engine";
	case OPT_BACKEND:
		return "backend";
	default:
		return NULL;
	}
}

static int flag(struct fkv_config *cfg, int opt, int index, bool *first_ssd,
		char *err, size_t err_size)
{
	char name[32];

	switch (opt) {
	case OPT_STANDALONE:
		cfg->role = FKV_ROLE_STANDALONE;
		return 0;
	case OPT_CHECK:
		cfg->check_only = true;
		return 0;
	case OPT_CONFIG:
		return 0;
	case OPT_SSD:
		return add_ssd(cfg, optarg, first_ssd, err, err_size);
	case OPT_SET:
		return set_pair(cfg, optarg, err, err_size);
	default:
		snprintf(name, sizeof(name), "--%s", options[index].name);
		return fkv_config_set(cfg, name, flag_key(opt), optarg, err,
				      err_size);
	}
}

/* Flags come second although they stand first: find --config before. */
static const char *find_config(int argc, char **argv, int *ret_exit)
{
	const char *path = NULL;
	int opt;

	optind = 1;
	opterr = 0;
	while ((opt = getopt_long(argc, argv, "", options, NULL)) != -1) {
		if (opt == OPT_CONFIG)
			path = optarg;
		if (opt == OPT_VERSION || opt == OPT_HELP)
			*ret_exit = opt;
	}
	return path;
}

static int flags(int argc, char **argv, struct fkv_config *cfg, char *err,
		 size_t err_size)
{
	bool first_ssd = true;
	int index = 0, opt, res;

	optind = 1;
	opterr = 0;
	while ((opt = getopt_long(argc, argv, "", options, &index)) != -1) {
		if (opt == '?') {
			snprintf(err, err_size, "%s: unknown flag or missing "
				 "value; see --help", argv[optind - 1]);
			return -EINVAL;
		}
		res = flag(cfg, opt, index, &first_ssd, err, err_size);
		if (res)
			return res;
	}
	if (optind < argc) {
		snprintf(err, err_size, "%s: expected flags only; see --help",
			 argv[optind]);
		return -EINVAL;
	}
	return 0;
}

enum fkv_config_result fkv_config_load(int argc, char **argv,
				       struct fkv_config *cfg, char *err,
				       size_t err_size)
{
	const char *path;
	int leave = 0;

	snprintf(err, err_size, "out of memory");
	if (fkv_config_init(cfg))
		return FKV_CONFIG_BAD;
	path = find_config(argc, argv, &leave);
	if (leave == OPT_HELP)
		fputs(usage, stdout);
	if (leave == OPT_VERSION)
		printf("fluxonkvd %s\n", FKV_VERSION);
	if (leave)
		return FKV_CONFIG_EXIT;
	if (path && load_file(cfg, path, err, err_size))
		return FKV_CONFIG_BAD;
	if (flags(argc, argv, cfg, err, err_size) ||
	    fkv_config_finish(cfg, err, err_size))
		return FKV_CONFIG_BAD;
	if (!cfg->check_only)
		return FKV_CONFIG_RUN;
	printf("%s: the configuration is good\n", path ? path : "flags");
	return FKV_CONFIG_EXIT;
}
