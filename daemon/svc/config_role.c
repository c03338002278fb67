// SPDX-License-Identifier: Apache-2.0
/*
 * config_role.c - what settings are before anything was said, and whether they
 * go together in a role
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/base.h"
#include "svc/config_internal.h"

const char *fkv_role_name(enum fkv_role role)
{
	static const char *const names[] = {
		[FKV_ROLE_NONE] = "none", [FKV_ROLE_STANDALONE] = "standalone",
		[FKV_ROLE_MASTER] = "master", [FKV_ROLE_OWNER] = "owner",
	};

	return names[role];
}

static char *default_socket(void)
{
	const char *run = getenv("XDG_RUNTIME_DIR");
	char *path = NULL;

	if (geteuid() == 0 || !run)
		return strdup("/run/fluxonkv/fluxonkv.sock");
	if (asprintf(&path, "%s/fluxonkv.sock", run) < 0)
		return NULL;
	return path;
}

static char *default_state(void)
{
	const char *state = getenv("XDG_STATE_HOME");
	char *path = NULL;

	if (geteuid() == 0 || !state)
		return strdup("/var/lib/fluxonkv");
	if (asprintf(&path, "%s/fluxonkv", state) < 0)
		return NULL;
	return path;
}

int fkv_config_init(struct fkv_config *cfg)
{
	char host[256] = "localhost";

	gethostname(host, sizeof(host) - 1);
	*cfg = (struct fkv_config){
		.cluster_name = strdup("local"),
		.instance_key = strdup(host),
		.device_instance = strdup("default"),
		.socket = default_socket(),
		.state_dir = default_state(),
		.socket_mode = 0660,
		.socket_gid = (gid_t)-1,
		.memory = FKV_GIB,
		.lock_memory = FKV_LOCK_AUTO,
		.huge_pages = FKV_HUGE_AUTO,
		.io_depth = FKV_IO_DEPTH,
		.read_weight = 2,
		.client_pinned_bytes = UINT64_MAX,
		.uid_pinned_bytes = UINT64_MAX,
		.pins_per_client = FKV_PINS_DEFAULT,
		.transfer_threads = 2,
		.metrics_host = strdup("127.0.0.1"),
		.metrics_port = 31997,
		.metrics_dashboard = true,
		.log_level = FKV_LOG_INFO,
	};
	return cfg->cluster_name && cfg->instance_key && cfg->socket &&
	       cfg->state_dir && cfg->device_instance && cfg->metrics_host ? 0 : -ENOMEM;
}

/* Who names a socket wants one. */
static int choose_backend(struct fkv_config *cfg)
{
	char *usual = default_socket();

	if (!usual)
		return -ENOMEM;
	if (cfg->backend == FKV_BACKEND_AUTO && strcmp(usual, cfg->socket))
		cfg->backend = FKV_BACKEND_UNIX;
	free(usual);
	return 0;
}

/* The setting by its name, for what is said when all is known. */
static int misfit(const struct fkv_config *cfg, const char *key, char *err,
		  size_t err_size, const char *what)
{
	unsigned int roles;
	size_t i = 0;
	int len = 0;

	while (strcmp(fkv_config_setting(i, &roles), key))
		i++;
	if (cfg->given >> i & 1 && cfg->line[i])
		len = snprintf(err, err_size, "%s:%u: ", cfg->file,
			       cfg->line[i]);
	if (len >= 0 && (size_t)len < err_size)
		snprintf(err + len, err_size - (size_t)len, "%s: %s", key,
			 what);
	return -EINVAL;
}

/* "a or b" of a mask. */
static const char *roles_text(unsigned int roles, char *buf, size_t size)
{
	size_t n = 0;

	for (enum fkv_role r = FKV_ROLE_STANDALONE; r < FKV_ROLE_NR; r++)
		if (roles & 1u << r && n < size)
			n += (size_t)snprintf(buf + n, size - n, "%s%s",
					      n ? " or " : "",
					      fkv_role_name(r));
	return buf;
}

static int check_fit(const struct fkv_config *cfg, char *err, size_t err_size)
{
	unsigned int roles;
	const char *key;

	for (size_t i = 0; (key = fkv_config_setting(i, &roles)); i++) {
		char what[128], fits[64];

		if (!roles || roles & 1u << cfg->role ||
		    !(cfg->given >> i & 1))
			continue;
		snprintf(what, sizeof(what), "does not fit role %s; expected "
			 "with role %s only", fkv_role_name(cfg->role),
			 roles_text(roles, fits, sizeof(fits)));
		return misfit(cfg, key, err, err_size, what);
	}
	return 0;
}

static bool is_loopback(const char *host)
{
	return !strncmp(host, "127.", 4) || !strcmp(host, "::1");
}

static bool is_any(const char *host)
{
	return !strcmp(host, "0.0.0.0") || !strcmp(host, "::");
}

/* Who is not on this host only is not spoken to without a key. */
static int check_cluster(const struct fkv_config *cfg, char *err,
			 size_t err_size)
{
	char host[64] = "";
	uint64_t port;
	char *text;

	if (cfg->role == FKV_ROLE_STANDALONE)
		return 0;
	if (cfg->role == FKV_ROLE_OWNER && !cfg->master)
		return misfit(cfg, "master", err, err_size, "missing; expected "
			      "HOST:PORT of the master with role owner");
	if (!cfg->listen)
		return misfit(cfg, "listen", err, err_size, "missing; expected "
			      "ADDRESS:PORT with role master or owner");
	text = fkv_config_host_port(cfg->listen, &port);
	snprintf(host, sizeof(host), "%s", text ? text : "");
	free(text);
	if (!cfg->cluster_key_file && !is_loopback(host))
		return misfit(cfg, "listen", err, err_size, "is beyond this "
			      "host; expected a cluster_key_file, or a "
			      "loopback address");
	if (cfg->role == FKV_ROLE_OWNER && is_any(host) && !cfg->advertise)
		return misfit(cfg, "advertise", err, err_size, "missing; "
			      "expected the ADDRESS by which other owners "
			      "reach this one, for 'listen' is all of them");
	return 0;
}

int fkv_config_finish(struct fkv_config *cfg, char *err, size_t err_size)
{
	if (cfg->role == FKV_ROLE_NONE) {
		snprintf(err, err_size, "no role: expected --standalone, or "
			 "'role: standalone', master or owner");
		return -EINVAL;
	}
	if (check_fit(cfg, err, err_size) ||
	    check_cluster(cfg, err, err_size))
		return -EINVAL;
	if (cfg->role == FKV_ROLE_MASTER) {
		/* its socket is for operators */
		cfg->backend = FKV_BACKEND_UNIX;
		cfg->memory = FKV_EXTENT_UNIT;
		cfg->huge_pages = FKV_HUGE_OFF;
		cfg->lock_memory = FKV_LOCK_OFF;
	}
	if (choose_backend(cfg)) {
		snprintf(err, err_size, "out of memory");
		return -ENOMEM;
	}
	cfg->memory = cfg->memory / FKV_EXTENT_UNIT * FKV_EXTENT_UNIT;
	/* half of the segment unless said otherwise (H4) */
	if (cfg->client_pinned_bytes == UINT64_MAX)
		cfg->client_pinned_bytes = cfg->memory / 2;
	if (cfg->uid_pinned_bytes == UINT64_MAX)
		cfg->uid_pinned_bytes = cfg->memory / 2;
	if (!cfg->index_entries)
		cfg->index_entries = fkv_max_u64(cfg->memory / (16 * FKV_KIB),
						 4096);
	cfg->index_entries = fkv_min_u64(cfg->index_entries, (1 << 24) - 2);
	return 0;
}

void fkv_config_done(struct fkv_config *cfg)
{
	free(cfg->cluster_name);
	free(cfg->instance_key);
	free(cfg->device_instance);
	free(cfg->socket);
	free(cfg->cluster_key_file);
	free(cfg->master);
	free(cfg->listen);
	free(cfg->advertise);
	free(cfg->state_dir);
	free(cfg->file);
	free(cfg->metrics_host);
	for (unsigned int i = 0; i < FKV_DEVICES_MAX; i++)
		free(cfg->ssd[i].path);
	memset(cfg, 0, sizeof(*cfg));
}
