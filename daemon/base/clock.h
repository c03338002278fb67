/* SPDX-License-Identifier: Apache-2.0 */
/*
 * clock.h - the clock of a running daemon: CLOCK_MONOTONIC in ns
 *
 * Cores never call it: time comes in with each input.
 */
#ifndef FKV_BASE_CLOCK_H
#define FKV_BASE_CLOCK_H

#include <stdint.h>
#include <time.h>

static inline uint64_t fkv_clock_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000ULL + (uint64_t)ts.tv_nsec;
}

#endif
