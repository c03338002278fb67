/* SPDX-License-Identifier: Apache-2.0 */
/*
 * clock.h - the clocks of a running daemon, in ns
 *
 * Cores never call it: time comes in with each input.
 */
#ifndef FKV_BASE_CLOCK_H
#define FKV_BASE_CLOCK_H

#include <stdint.h>
#include <time.h>

static inline uint64_t fkv_clock_of(clockid_t clock)
{
	struct timespec ts;

	clock_gettime(clock, &ts);
	return (uint64_t)ts.tv_sec * 1000000000ULL + (uint64_t)ts.tv_nsec;
}

static inline uint64_t fkv_clock_ns(void)
{
	return fkv_clock_of(CLOCK_MONOTONIC);
}

/* Goes on while the host is suspended. */
static inline uint64_t fkv_clock_boot_ns(void)
{
	return fkv_clock_of(CLOCK_BOOTTIME);
}

#endif
