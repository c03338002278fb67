// SPDX-License-Identifier: Apache-2.0
#include <errno.h>
#include <inttypes.h>
#include <libgen.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/base.h"
#include "svc/preflight.h"

static FILE *open_below(const char *root, const char *path)
{
	char full[512];

	snprintf(full, sizeof(full), "%s%s", root, path);
	return fopen(full, "re");
}

/* First number of a one-line file; false for "max" or when unreadable. */
static bool read_number(const char *root, const char *path, uint64_t *ret)
{
	FILE *f = open_below(root, path);
	bool ok;

	if (!f)
		return false;
	ok = fscanf(f, "%" SCNu64, ret) == 1;
	fclose(f);
	return ok;
}

static bool mem_available(const char *root, uint64_t *ret)
{
	FILE *f = open_below(root, "/proc/meminfo");
	char line[128];
	bool ok = false;

	while (f && !ok && fgets(line, sizeof(line), f))
		ok = sscanf(line, "MemAvailable: %" SCNu64, ret) == 1;
	if (f)
		fclose(f);
	*ret *= 1024;
	return ok;
}

/*
 * This process's memory cgroup: "<hierarchy>:memory:<path>" is version 1,
 * "0::<path>" version 2.
 */
static bool cgroup_path(const char *root, char *ret, size_t size, bool *ret_v2)
{
	FILE *f = open_below(root, "/proc/self/cgroup");
	char line[400];
	bool found = false;

	while (f && fgets(line, sizeof(line), f)) {
		char *ctl = strchr(line, ':');
		char *path = ctl ? strchr(ctl + 1, ':') : NULL;

		if (!path)
			continue;
		*path++ = '\0';
		path[strcspn(path, "\n")] = '\0';
		if (strcmp(ctl + 1, "") && !strstr(ctl + 1, "memory"))
			continue;
		*ret_v2 = !ctl[1];
		snprintf(ret, size, "%s", path);
		found = true;
		if (!*ret_v2)
			break;
	}
	if (f)
		fclose(f);
	return found;
}

static bool group_limit(const char *root, const char *path, bool v2,
			uint64_t *ret_limit, uint64_t *ret_used)
{
	char file[512];

	snprintf(file, sizeof(file), v2 ? "/sys/fs/cgroup%s/memory.max" :
		 "/sys/fs/cgroup/memory%s/memory.limit_in_bytes", path);
	if (!read_number(root, file, ret_limit))
		return false;
	snprintf(file, sizeof(file), v2 ? "/sys/fs/cgroup%s/memory.current" :
		 "/sys/fs/cgroup/memory%s/memory.usage_in_bytes", path);
	if (!read_number(root, file, ret_used))
		*ret_used = 0;
	return true;
}

/* The tightest limit on the way up from this process's group. */
static int check_cgroup(uint64_t bytes, const char *root, char *err,
			size_t err_size)
{
	char path[400];
	bool v2 = false;

	if (!cgroup_path(root, path, sizeof(path), &v2))
		return 0;
	for (;;) {
		uint64_t limit, used;
		char *slash;

		if (group_limit(root, path, v2, &limit, &used) &&
		    limit < INT64_MAX / 2 && used + bytes > limit) {
			snprintf(err, err_size, "memory: %" PRIu64 " bytes "
				 "wanted, but the cgroup '%s' allows %" PRIu64
				 " and %" PRIu64 " are in use", bytes,
				 *path ? path : "/", limit, used);
			return -ENOMEM;
		}
		slash = strrchr(path, '/');
		if (!slash || (slash == path && !path[1]))
			return 0;
		*slash = '\0';
	}
}

int fkv_preflight_memory(uint64_t bytes, const char *root, char *err,
			 size_t err_size)
{
	uint64_t available = 0;

	if (mem_available(root, &available) && bytes > available) {
		snprintf(err, err_size, "memory: %" PRIu64 " bytes wanted, but "
			 "only %" PRIu64 " are available on this host", bytes,
			 available);
		return -ENOMEM;
	}
	return check_cgroup(bytes, root, err, err_size);
}

static int check_memlock(const struct fkv_config *cfg, char *err,
			 size_t err_size)
{
	struct rlimit rl;

	if (cfg->lock_memory != FKV_LOCK_REQUIRED || geteuid() == 0)
		return 0;
	if (getrlimit(RLIMIT_MEMLOCK, &rl) || rl.rlim_cur >= cfg->memory)
		return 0;
	snprintf(err, err_size, "lock_memory: required, but %" PRIu64
		 " bytes are wanted and the memlock limit is %" PRIu64
		 " bytes (ulimit -l, or LimitMEMLOCK=)", cfg->memory,
		 (uint64_t)rl.rlim_cur);
	return -EPERM;
}

/* The socket's directory: ours is made under /run, others must be there. */
static int check_socket(const struct fkv_config *cfg, char *err,
			size_t err_size)
{
	char *copy = strdup(cfg->socket), *dir;
	struct stat st;
	int res = 0;

	if (!copy)
		return -ENOMEM;
	dir = dirname(copy);
	if (!strcmp(dir, "/run/fluxonkv") && mkdir(dir, 0755) &&
	    errno != EEXIST)
		res = -errno;
	else if (stat(dir, &st))
		res = -errno;
	else if (!S_ISDIR(st.st_mode))
		res = -ENOTDIR;
	else if (access(dir, W_OK))
		res = -errno;
	if (res)
		snprintf(err, err_size, "socket: its directory %s cannot be "
			 "written to: %s", dir, strerror(-res));
	free(copy);
	return res;
}

int fkv_preflight(const struct fkv_config *cfg, char *err, size_t err_size)
{
	int res = check_socket(cfg, err, err_size);

	if (!res)
		res = fkv_preflight_memory(cfg->memory, "", err, err_size);
	if (!res)
		res = check_memlock(cfg, err, err_size);
	return res;
}
