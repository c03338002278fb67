/* SPDX-License-Identifier: Apache-2.0 */
/*
 * timer.h - deadlines in order
 *
 * A set of pending deadlines of one thread; each is embedded in the object it
 * belongs to and says by its kind whose it is. The set runs nothing: the
 * owner takes what is due. Equal deadlines come in the order they were set,
 * so that a simulated run replays exactly.
 */
#ifndef FKV_BASE_TIMER_H
#define FKV_BASE_TIMER_H

#include "base.h"
#include "tree.h"

#define FKV_NEVER	UINT64_MAX

struct fkv_timer {
	uint64_t when_ns;
	uint64_t order;
	int kind;			/* meaning is the owner's */
	bool armed;
	RB_ENTRY(fkv_timer) node;
};

RB_HEAD(fkv_timer_tree, fkv_timer);

struct fkv_timers {
	struct fkv_timer_tree tree;
	uint64_t order;
};

void fkv_timers_init(struct fkv_timers *ts);
void fkv_timer_set(struct fkv_timers *ts, struct fkv_timer *t,
		   uint64_t when_ns);
void fkv_timer_clear(struct fkv_timers *ts, struct fkv_timer *t);

/* The earliest deadline, or FKV_NEVER. */
uint64_t fkv_timers_next(const struct fkv_timers *ts);

/* Take one timer that is due at @now_ns, or NULL. */
struct fkv_timer *fkv_timers_due(struct fkv_timers *ts, uint64_t now_ns);

#endif
