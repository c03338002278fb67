// SPDX-License-Identifier: Apache-2.0
#include "timer.h"

static int timer_cmp(struct fkv_timer *a, struct fkv_timer *b)
{
	if (a->when_ns != b->when_ns)
		return a->when_ns < b->when_ns ? -1 : 1;
	return (a->order > b->order) - (a->order < b->order);
}

FKV_RB_GENERATE(fkv_timer_tree, fkv_timer, node, timer_cmp)

void fkv_timers_init(struct fkv_timers *ts)
{
	RB_INIT(&ts->tree);
	ts->order = 0;
}

void fkv_timer_set(struct fkv_timers *ts, struct fkv_timer *t,
		   uint64_t when_ns)
{
	fkv_timer_clear(ts, t);
	if (when_ns == FKV_NEVER)
		return;
	t->when_ns = when_ns;
	t->order = ts->order++;
	t->armed = true;
	RB_INSERT(fkv_timer_tree, &ts->tree, t);
}

void fkv_timer_clear(struct fkv_timers *ts, struct fkv_timer *t)
{
	if (!t->armed)
		return;
	RB_REMOVE(fkv_timer_tree, &ts->tree, t);
	t->armed = false;
}

uint64_t fkv_timers_next(const struct fkv_timers *ts)
{
	struct fkv_timer *t;

	t = RB_MIN(fkv_timer_tree, (struct fkv_timer_tree *)&ts->tree);
	return t ? t->when_ns : FKV_NEVER;
}

struct fkv_timer *fkv_timers_due(struct fkv_timers *ts, uint64_t now_ns)
{
	struct fkv_timer *t = RB_MIN(fkv_timer_tree, &ts->tree);

	if (!t || t->when_ns > now_ns)
		return NULL;
	fkv_timer_clear(ts, t);
	return t;
}
