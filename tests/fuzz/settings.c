// SPDX-License-Identifier: Apache-2.0
/*
 * settings.c - what must hold of settings that were taken, and of a refusal
 */
#include "base/base.h"

#include "fuzz/fuzz.h"
#include "fuzz/settings.h"

static void check_text(const char *text)
{
	fuzz_check(text && *text);
}

static void check_ssd(const struct fkv_config *cfg)
{
	fuzz_check(cfg->nr_ssd <= FKV_DEVICES_MAX);
	for (unsigned int i = 0; i < cfg->nr_ssd; i++) {
		check_text(cfg->ssd[i].path);
		fuzz_check(cfg->ssd[i].limit >= FKV_SSD_LIMIT_MIN);
		fuzz_check(cfg->ssd[i].limit <= INT64_MAX);
	}
}

static void check_choices(const struct fkv_config *cfg)
{
	fuzz_check((unsigned int)cfg->backend <= FKV_BACKEND_DEVICE);
	fuzz_check((unsigned int)cfg->huge_pages <= 2);
	fuzz_check((unsigned int)cfg->lock_memory <= 2);
	fuzz_check((unsigned int)cfg->io_engine <= FKV_ENGINE_THREADS);
	fuzz_check((unsigned int)cfg->new_values <= FKV_NEW_VALUES_FIRST);
	fuzz_check((unsigned int)cfg->log_level <= FKV_LOG_DEBUG);
}

void fuzz_settings_check(const struct fkv_config *cfg)
{
	check_text(cfg->cluster_name);
	check_text(cfg->instance_key);
	check_text(cfg->device_instance);
	fuzz_check(strlen(cfg->device_instance) < 64);
	check_text(cfg->socket);
	fuzz_check(!cfg->metrics_host || *cfg->metrics_host);
	fuzz_check(cfg->metrics_port <= 65535);
	fuzz_check(cfg->socket_mode <= 0777);
	/* a master has none, but for what its operators' socket wants */
	fuzz_check(cfg->memory >= FKV_SEGMENT_MIN ||
		   (cfg->role == FKV_ROLE_MASTER &&
		    cfg->memory == FKV_EXTENT_UNIT));
	fuzz_check(cfg->memory <= FKV_SEGMENT_MAX);
	fuzz_check(cfg->io_depth >= 1 && cfg->io_depth <= FKV_IO_DEPTH_MAX);
	fuzz_check(cfg->read_weight >= 1 && cfg->read_weight <= 1000);
	fuzz_check(cfg->pins_per_client >= 8 &&
		   cfg->pins_per_client <= FKV_PINS_MAX);
	fuzz_check(cfg->index_entries <= (1 << 24) - 2);
	fuzz_check(cfg->transfer_threads >= 1 && cfg->transfer_threads <= 64);
	fuzz_check(cfg->client_pinned_bytes <= FKV_SEGMENT_MAX ||
		   cfg->client_pinned_bytes == UINT64_MAX);
	fuzz_check(cfg->uid_pinned_bytes <= FKV_SEGMENT_MAX ||
		   cfg->uid_pinned_bytes == UINT64_MAX);
	check_ssd(cfg);
	check_choices(cfg);
}

void fuzz_settings_finish(struct fkv_config *cfg)
{
	enum fkv_role role = cfg->role;
	char err[200] = "";

	if (fkv_config_finish(cfg, err, sizeof(err))) {
		/* none, or something that does not go with it */
		fuzz_check(role != FKV_ROLE_STANDALONE ||
			   strstr(err, "does not fit role standalone"));
		fuzz_check(strstr(err, "role") || strstr(err, "listen"));
		return;
	}
	fuzz_check(role != FKV_ROLE_NONE);
	fuzz_check(role == FKV_ROLE_STANDALONE || cfg->listen);
	fuzz_check(role != FKV_ROLE_OWNER || cfg->master);
	fuzz_settings_check(cfg);
	fuzz_check(!(cfg->memory % FKV_EXTENT_UNIT));
	fuzz_check(cfg->index_entries > 0);
	fuzz_check(cfg->client_pinned_bytes <= FKV_SEGMENT_MAX);
}

static bool names_key(const char *text)
{
	static const char *const keys[] = {
		"role", "cluster_name", "cluster_key_file", "instance_key",
		"master", "listen", "advertise", "state_dir", "backend",
		"device_instance", "pinnable_puts", "socket",
		"socket_mode", "socket_group", "memory", "huge_pages",
		"lock_memory", "large_file_paths", "large_limit_size",
		"io_engine", "io_depth", "read_weight", "strict_reads",
		"eviction", "eviction.new_values", "limits",
		"limits.client_pinned_bytes", "limits.uid_pinned_bytes",
		"pins_per_client", "index_entries", "transfer_threads",
		"metrics", "metrics.listen", "metrics.dashboard", "log_level",
	};
	size_t n = strcspn(text, ":");

	for (size_t i = 0; i < FKV_ARRAY_SIZE(keys); i++)
		if (strlen(keys[i]) == n && !memcmp(keys[i], text, n))
			return text[n] == ':';
	return false;
}

/* Of no key: the text as a whole, or a key that nobody knows. */
static bool names_text(const char *text)
{
	static const char *const begins[] = {
		"unknown key '", "not YAML: ", "a second document; ",
		"expected a mapping of keys to values", "expected a key",
	};

	for (size_t i = 0; i < FKV_ARRAY_SIZE(begins); i++)
		if (!strncmp(text, begins[i], strlen(begins[i])))
			return true;
	return false;
}

void fuzz_complaint_check(const char *err, size_t size, const char *file,
			  size_t lines)
{
	size_t n = strlen(file);
	unsigned long line;
	char *end;

	fuzz_check(memchr(err, 0, size));
	fuzz_check(!strncmp(err, file, n) && err[n] == ':');
	line = strtoul(err + n + 1, &end, 10);
	fuzz_check(end > err + n + 1 && !strncmp(end, ": ", 2));
	fuzz_check(line >= 1 && line <= lines);
	fuzz_check(names_key(end + 2) || names_text(end + 2));
	for (; *err; err++)
		fuzz_check((unsigned char)*err >= ' ' && *err != 0x7f);
}
