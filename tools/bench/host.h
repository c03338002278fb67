/* SPDX-License-Identifier: Apache-2.0 */
/*
 * host.h - facts of the machine that results need beside them
 */
#ifndef FKV_BENCH_HOST_H
#define FKV_BENCH_HOST_H

#include <stdint.h>
#include <sys/types.h>

/* User and system time of @pid so far, s; -1 when it cannot be told. */
double bench_host_process_cpu_s(pid_t pid);

/* Largest cache in bytes; 64 MiB when it is not said. */
uint64_t bench_host_cache_bytes(void);

/* Name of the filesystem that @path is on, "ext4"; "" when unknown. */
void bench_host_filesystem(const char *path, char *buf, size_t size);

/* Bytes of memory that are available now; 0 when unknown. */
uint64_t bench_host_available_bytes(void);

#endif
