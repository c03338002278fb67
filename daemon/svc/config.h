/* SPDX-License-Identifier: Apache-2.0 */
/*
 * config.h - settings of one daemon: a strict YAML file, and flags over it
 *
 * Every mistake names file, line, key and what was expected (C1). Strings are
 * the config's own; fkv_config_done() frees them.
 */
#ifndef FKV_SVC_CONFIG_H
#define FKV_SVC_CONFIG_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/limits.h"
#include "base/log.h"
#include "io/segment.h"

enum fkv_engine_choice {
	FKV_ENGINE_AUTO,		/* uring, else threads */
	FKV_ENGINE_URING,
	FKV_ENGINE_URING_IOVEC,
	FKV_ENGINE_THREADS,
};

enum fkv_backend {
	FKV_BACKEND_AUTO,		/* the device, where it can be owned */
	FKV_BACKEND_UNIX,
	FKV_BACKEND_DEVICE,
};

enum fkv_new_values { FKV_NEW_VALUES_RECENT, FKV_NEW_VALUES_FIRST };

enum fkv_role {
	FKV_ROLE_NONE,
	FKV_ROLE_STANDALONE,
	FKV_ROLE_MASTER,
	FKV_ROLE_OWNER,
	FKV_ROLE_NR,
};

/* Most settings that a file can have. */
#define FKV_SETTINGS_MAX	64u

struct fkv_ssd_path {
	char *path;
	uint64_t limit;			/* bytes */
};

struct fkv_config {
	enum fkv_role role;
	bool check_only;
	char *cluster_name;
	char *instance_key;
	char *cluster_key_file;		/* NULL: loopback only */
	char *master;			/* owner: HOST:PORT */
	char *listen;			/* ADDRESS:PORT of RPC; data: the next */
	char *advertise;		/* ADDRESS, NULL: that of listen */
	char *state_dir;		/* master */
	enum fkv_backend backend;
	char *device_instance;
	bool pinnable_puts;		/* device: windows of ordinary pages */
	char *socket;
	mode_t socket_mode;
	gid_t socket_gid;		/* (gid_t)-1: as the process */
	uint64_t memory;		/* bytes of the segment */
	enum fkv_huge huge_pages;
	enum fkv_lock lock_memory;
	struct fkv_ssd_path ssd[FKV_DEVICES_MAX];
	unsigned int nr_ssd;
	enum fkv_engine_choice io_engine;
	uint64_t io_depth;
	uint64_t read_weight;
	bool strict_reads;
	enum fkv_new_values new_values;
	uint64_t client_pinned_bytes;	/* 0: no cap */
	uint64_t uid_pinned_bytes;
	uint64_t pins_per_client;
	uint64_t index_entries;		/* 0: by the size of the segment */
	uint64_t transfer_threads;
	char *metrics_host;		/* NULL: none */
	uint64_t metrics_port;
	bool metrics_dashboard;
	enum fkv_log_level log_level;
	/* what was said, by number of setting, and where */
	uint64_t given;
	uint32_t line[FKV_SETTINGS_MAX];	/* 0: by a flag */
	char *file;
};

const char *fkv_role_name(enum fkv_role role);

enum fkv_config_result {
	FKV_CONFIG_RUN,			/* start with it */
	FKV_CONFIG_EXIT,		/* --help, --version, --check-config: done */
	FKV_CONFIG_BAD,			/* @err says what is wrong */
};

enum fkv_config_result fkv_config_load(int argc, char **argv,
				       struct fkv_config *cfg, char *err,
				       size_t err_size);
void fkv_config_done(struct fkv_config *cfg);

/* The text of a YAML file, as if read from @file. 0 or -EINVAL. For tests. */
int fkv_config_parse(struct fkv_config *cfg, const char *file,
		     const char *text, size_t len, char *err,
		     size_t err_size);

/*
 * One scalar setting, dotted where nested, as the value of @flag. The same
 * checks as in the file. 0 or -EINVAL.
 */
int fkv_config_set(struct fkv_config *cfg, const char *flag, const char *key,
		   const char *value, char *err, size_t err_size);

/* That setting was said by a flag of its own. */
void fkv_config_gave(struct fkv_config *cfg, const char *key);

/* Defaults, as they are before file and flags. 0 or -ENOMEM. */
int fkv_config_init(struct fkv_config *cfg);

/* What depends on several settings. 0 or -EINVAL. */
int fkv_config_finish(struct fkv_config *cfg, char *err, size_t err_size);

/* Least bytes that a large_limit_size may be. */
#define FKV_SSD_LIMIT_MIN \
	(FKV_SHARDS_PER_DEVICE * (FKV_BLOCK + 2 * FKV_BLOCK))

#endif
