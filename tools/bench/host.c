// SPDX-License-Identifier: Apache-2.0
/*
 * host.c - facts of the machine
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "bench/host.h"

#define CACHE_DEFAULT	(64ULL << 20)

double bench_host_process_cpu_s(pid_t pid)
{
	unsigned long user, system;
	char path[64], text[1024];
	const char *after;
	size_t n;
	FILE *f;

	if (pid <= 0)
		return -1;
	snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
	f = fopen(path, "re");
	if (!f)
		return -1;
	n = fread(text, 1, sizeof(text) - 1, f);
	fclose(f);
	text[n] = '\0';
	/* The name in parentheses may hold anything: count from its end. */
	after = strrchr(text, ')');
	if (!after || sscanf(after + 1, " %*c %*d %*d %*d %*d %*d %*u %*u %*u "
			     "%*u %*u %lu %lu", &user, &system) != 2)
		return -1;
	return (double)(user + system) / (double)sysconf(_SC_CLK_TCK);
}

uint64_t bench_host_cache_bytes(void)
{
	long l3 = sysconf(_SC_LEVEL3_CACHE_SIZE);
	long l2 = sysconf(_SC_LEVEL2_CACHE_SIZE);

	if (l3 > 0)
		return (uint64_t)l3;
	return l2 > (long)CACHE_DEFAULT ? (uint64_t)l2 : CACHE_DEFAULT;
}

/* "ID PARENT MAJOR:MINOR ROOT POINT OPTIONS... - TYPE ..." of mountinfo. */
void bench_host_filesystem(const char *path, char *buf, size_t size)
{
	unsigned int major_nr, minor_nr;
	char line[4096], type[64];
	const char *dash;
	struct stat st;
	FILE *f;

	buf[0] = '\0';
	f = stat(path, &st) ? NULL : fopen("/proc/self/mountinfo", "re");
	if (!f)
		return;
	while (fgets(line, sizeof(line), f)) {
		dash = strstr(line, " - ");
		if (!dash || sscanf(line, "%*u %*u %u:%u", &major_nr,
				    &minor_nr) != 2 ||
		    makedev(major_nr, minor_nr) != st.st_dev ||
		    sscanf(dash + 3, "%63s", type) != 1)
			continue;
		snprintf(buf, size, "%s", type);
		break;
	}
	fclose(f);
}

uint64_t bench_host_available_bytes(void)
{
	FILE *f = fopen("/proc/meminfo", "re");
	uint64_t kib = 0;
	char line[256];

	if (!f)
		return 0;
	while (fgets(line, sizeof(line), f))
		if (sscanf(line, "MemAvailable: %" SCNu64, &kib) == 1)
			break;
	fclose(f);
	return kib << 10;
}
