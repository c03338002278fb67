/* SPDX-License-Identifier: Apache-2.0 */
/*
 * arbiter.h - which request of one SSD device is served next
 *
 * Two channels, read and write. While read_inflight <= read_weight x
 * write_inflight reads go first, else writes; an empty channel never idles
 * the other: a bias, not a ratio, without preemption or deadlines (S10).
 * Requests are admitted within a budget of count and bytes per channel; one
 * that is larger than the whole budget is admitted alone. Gets go before
 * reads that only warm.
 *
 * Pure: counts what the device's thread tells it, knows no file and no clock.
 * The caller owns the items, embedded in its requests; one is in the arbiter
 * from fkv_arbiter_add() to fkv_arbiter_done() or fkv_arbiter_cancel().
 */
#ifndef FKV_CORE_SSD_ARBITER_H
#define FKV_CORE_SSD_ARBITER_H

#include <sys/queue.h>

#include "base/base.h"

enum fkv_arbiter_class {
	FKV_ARBITER_READ,
	FKV_ARBITER_WARM,
	FKV_ARBITER_WRITE,
	FKV_ARBITER_CLASSES,
};

/* Who moves it on: next() admits, issued(last) ends issuing. */
enum fkv_arbiter_state {
	FKV_ARBITER_OUT,
	FKV_ARBITER_WAITING,
	FKV_ARBITER_ACTIVE,
	FKV_ARBITER_ISSUED,
};

struct fkv_arbiter_item {
	TAILQ_ENTRY(fkv_arbiter_item) link;
	enum fkv_arbiter_class class;
	enum fkv_arbiter_state state;
	uint64_t bytes;
};

TAILQ_HEAD(fkv_arbiter_items, fkv_arbiter_item);

struct fkv_arbiter_channel {
	uint32_t inflight;		/* SQEs at the device */
	uint32_t admitted;		/* requests in the budget */
	uint64_t admitted_bytes;
	uint32_t max;
	uint64_t max_bytes;
};

struct fkv_arbiter {
	uint32_t depth;			/* SQEs of both channels */
	uint32_t read_weight;
	struct fkv_arbiter_channel read, write;
	struct fkv_arbiter_items waiting[FKV_ARBITER_CLASSES];
	struct fkv_arbiter_items active[FKV_ARBITER_CLASSES];
	uint32_t nr_waiting;
};

/* @depth SQEs in flight at most, >= 1. */
void fkv_arbiter_init(struct fkv_arbiter *a, uint32_t depth,
		      uint32_t read_weight);

/* Queue @it, whose class and bytes are set, behind its class. */
void fkv_arbiter_add(struct fkv_arbiter *a, struct fkv_arbiter_item *it);

/*
 * The item that the next SQE is for, or NULL: nothing may be issued now. The
 * caller issues one SQE of it and says so with fkv_arbiter_issued().
 */
struct fkv_arbiter_item *fkv_arbiter_next(struct fkv_arbiter *a);

/* One SQE of @it went out; @last: it has no more. */
void fkv_arbiter_issued(struct fkv_arbiter *a, struct fkv_arbiter_item *it,
			bool last);

/* @it has nothing more to issue, though no SQE went out for the rest. */
void fkv_arbiter_end(struct fkv_arbiter *a, struct fkv_arbiter_item *it);

/* One SQE of @it came back. */
void fkv_arbiter_returned(struct fkv_arbiter *a, struct fkv_arbiter_item *it);

/* @it is over: its budget is free. Not while it is waiting. */
void fkv_arbiter_done(struct fkv_arbiter *a, struct fkv_arbiter_item *it);

/* Take out one item that was not begun, or NULL. For a stop. */
struct fkv_arbiter_item *fkv_arbiter_cancel(struct fkv_arbiter *a);

#endif
