// SPDX-License-Identifier: Apache-2.0
#include <errno.h>
#include <inttypes.h>
#include <libgen.h>
#include <linux/capability.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/base.h"
#include "base/log.h"
#include "svc/engine.h"
#include "svc/preflight.h"

#define INDEX_BYTES	300ULL	/* of the shared index, each entry */
#define HUGE_PAGE	(2 * FKV_MIB)

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

/* The number behind @word at the begin of a line. */
static bool read_word(const char *root, const char *path, const char *word,
		      uint64_t *ret)
{
	FILE *f = open_below(root, path);
	size_t n = strlen(word);
	char line[256];
	bool ok = false;

	while (f && !ok && fgets(line, sizeof(line), f))
		ok = !strncmp(line, word, n) &&
		     sscanf(line + n, " %" SCNu64, ret) == 1;
	if (f)
		fclose(f);
	return ok;
}

static bool meminfo(const char *root, const char *word, uint64_t *ret)
{
	return read_word(root, "/proc/meminfo", word, ret);
}

static bool mem_available(const char *root, uint64_t *ret)
{
	uint64_t kib;

	if (!meminfo(root, "MemAvailable:", &kib))
		return false;
	*ret = kib * 1024;
	return true;
}

/* Bytes of reserved 2 MiB pages that are free and promised to nobody. */
static uint64_t huge_free(const char *root)
{
	uint64_t pages, promised, kib;

	if (!meminfo(root, "HugePages_Free:", &pages) ||
	    !meminfo(root, "HugePages_Rsvd:", &promised) ||
	    !meminfo(root, "Hugepagesize:", &kib) || promised > pages)
		return 0;
	return kib * 1024 == HUGE_PAGE ? (pages - promised) * HUGE_PAGE : 0;
}

/* Is memory in a list of controllers, as "cpu,memory"? */
static bool names_memory(const char *list)
{
	while (list) {
		size_t n = strcspn(list, ",");

		if (n == 6 && !strncmp(list, "memory", n))
			return true;
		list = list[n] ? list + n + 1 : NULL;
	}
	return false;
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
		if (ctl[1] && !names_memory(ctl + 1))
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

/*
 * Page cache of a group: it is given back at the limit. Shared memory is not
 * in these two lists.
 */
static uint64_t group_cache(const char *root, const char *path, bool v2)
{
	uint64_t inactive = 0, active = 0;
	char file[512];

	snprintf(file, sizeof(file), v2 ? "/sys/fs/cgroup%s/memory.stat" :
		 "/sys/fs/cgroup/memory%s/memory.stat", path);
	read_word(root, file, v2 ? "inactive_file " : "total_inactive_file ",
		  &inactive);
	read_word(root, file, v2 ? "active_file " : "total_active_file ",
		  &active);
	return inactive + active;
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
	*ret_used -= fkv_min_u64(*ret_used, group_cache(root, path, v2));
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
				 " and %" PRIu64 " are in use: %s", bytes,
				 *path ? path : "/", limit, used,
				 strerror(ENOMEM));
			return -ENOMEM;
		}
		slash = strrchr(path, '/');
		if (!slash || (slash == path && !path[1]))
			return 0;
		*slash = '\0';
	}
}

static int check_ordinary(uint64_t bytes, const char *root, char *err,
			  size_t err_size)
{
	uint64_t available;

	if (mem_available(root, &available) && bytes > available) {
		snprintf(err, err_size, "memory: %" PRIu64 " bytes wanted, but "
			 "only %" PRIu64 " are available on this host: %s",
			 bytes, available, strerror(ENOMEM));
		return -ENOMEM;
	}
	return check_cgroup(bytes, root, err, err_size);
}

int fkv_preflight_segment(const struct fkv_config *cfg, const char *root,
			  char *err, size_t err_size)
{
	uint64_t bytes = cfg->memory + fkv_engine_chunk_bytes(cfg);
	uint64_t huge = 0;

	/* taken from the host already, and by default charged to no group */
	if (cfg->huge_pages != FKV_HUGE_OFF && !(bytes % HUGE_PAGE)) {
		huge = huge_free(root);
		if (huge >= bytes)
			return 0;
	}
	if (cfg->huge_pages != FKV_HUGE_REQUIRED)
		return check_ordinary(bytes + cfg->index_entries *
				      INDEX_BYTES, root, err, err_size);
	snprintf(err, err_size, "huge_pages: required, but %" PRIu64
		 " bytes are wanted and reserved 2 MiB pages have room for %"
		 PRIu64 " (see /proc/sys/vm/nr_hugepages): %s", bytes,
		 huge, strerror(ENOMEM));
	return -ENOMEM;
}

/* CAP_IPC_LOCK: no limit then. Root in a container may lack it. */
static bool may_lock_all(void)
{
	FILE *f = fopen("/proc/self/status", "re");
	uint64_t caps = 0;
	char line[256];

	while (f && fgets(line, sizeof(line), f))
		if (sscanf(line, "CapEff: %" SCNx64, &caps) == 1)
			break;
	if (f)
		fclose(f);
	return caps >> CAP_IPC_LOCK & 1;
}

static int check_memlock(const struct fkv_config *cfg, char *err,
			 size_t err_size)
{
	struct rlimit rl;

	/* the device's memory is nobody's to swap */
	if (cfg->lock_memory != FKV_LOCK_REQUIRED ||
	    cfg->backend == FKV_BACKEND_DEVICE || may_lock_all())
		return 0;
	if (getrlimit(RLIMIT_MEMLOCK, &rl) || rl.rlim_cur >= cfg->memory)
		return 0;
	snprintf(err, err_size, "lock_memory: required, but %" PRIu64
		 " bytes are wanted and the memlock limit is %" PRIu64
		 " bytes (ulimit -l, or LimitMEMLOCK=): %s", cfg->memory,
		 (uint64_t)rl.rlim_cur, strerror(EPERM));
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

/* A client costs a socket and its pin pages, and a put area of its own uid. */
#define FDS_PER_CLIENT	3
#define FDS_OURS	128

uint32_t fkv_preflight_clients(void)
{
	const rlim_t want = FKV_CLIENTS_MAX * FDS_PER_CLIENT + FDS_OURS;
	struct rlimit rl;
	rlim_t have;
	uint32_t n;

	if (getrlimit(RLIMIT_NOFILE, &rl))
		return FKV_CLIENTS_MAX;
	have = rl.rlim_cur;
	if (have >= want)
		return FKV_CLIENTS_MAX;
	rl.rlim_cur = rl.rlim_max < want ? rl.rlim_max : want;
	if (!setrlimit(RLIMIT_NOFILE, &rl))
		have = rl.rlim_cur;
	if (have >= want)
		return FKV_CLIENTS_MAX;
	n = (uint32_t)(have >= 2 * FDS_OURS ?
		       (have - FDS_OURS) / FDS_PER_CLIENT : have / 6);
	fkv_log(FKV_LOG_WARN, "%llu file descriptors (ulimit -Hn, or "
		"LimitNOFILE=) are enough for %u clients, not for %u",
		(unsigned long long)have, n, FKV_CLIENTS_MAX);
	return n;
}

/* Can it be bound? Asked before files are made for nothing. */
static int check_metrics(const struct fkv_config *cfg, char *err,
			 size_t err_size)
{
	struct addrinfo hints = { .ai_socktype = SOCK_STREAM,
				  .ai_flags = AI_NUMERICHOST | AI_PASSIVE };
	char service[16];
	struct addrinfo *ai;
	int fd, res = 0, yes = 1;

	if (!cfg->metrics_host || !cfg->metrics_port)
		return 0;
	snprintf(service, sizeof(service), "%u",
		 (unsigned int)cfg->metrics_port);
	if (getaddrinfo(cfg->metrics_host, service, &hints, &ai))
		return 0;	/* said when it is opened */
	fd = socket(ai->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (fd >= 0) {
		setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes));
		res = bind(fd, ai->ai_addr, ai->ai_addrlen) ? -errno : 0;
		close(fd);
	}
	freeaddrinfo(ai);
	if (res)
		snprintf(err, err_size, "metrics.listen: cannot listen on "
			 "%s:%s: %s", cfg->metrics_host, service,
			 strerror(-res));
	return res;
}

int fkv_preflight(const struct fkv_config *cfg, char *err, size_t err_size)
{
	int res = check_socket(cfg, err, err_size);

	if (!res)
		res = fkv_preflight_segment(cfg, "", err, err_size);
	if (!res)
		res = check_memlock(cfg, err, err_size);
	if (!res)
		res = check_metrics(cfg, err, err_size);
	return res;
}
