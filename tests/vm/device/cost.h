/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cost.h - figures as ratios, and the limits that fail a test
 */
#ifndef FKV_VM_DEVICE_COST_H
#define FKV_VM_DEVICE_COST_H

#include "common.h"

#define COST_ROUNDS	41

static inline int cost_by_size(const void *a, const void *b)
{
	u64 x = *(const u64 *)a, y = *(const u64 *)b;

	return x < y ? -1 : x > y;
}

static inline u64 cost_median(u64 *ns)
{
	qsort(ns, COST_ROUNDS, sizeof(*ns), cost_by_size);
	return ns[COST_ROUNDS / 2];
}

static inline u64 cost_least(u64 *ns)
{
	cost_median(ns);
	return ns[0];
}

/* Figures as hundredths: 3.00 is 300. */
static inline void cost_hold(const char *what, u64 cost, u64 unit, u64 limit)
{
	u64 ratio = cost * 100 / (unit ? unit : 1);

	printf("%s: %llu.%02llu (at most %llu.%02llu)\n", what,
	       (unsigned long long)ratio / 100,
	       (unsigned long long)ratio % 100,
	       (unsigned long long)limit / 100, (unsigned long long)limit % 100);
	CHECK(ratio <= limit);
}

#endif
