/* SPDX-License-Identifier: Apache-2.0 */
/*
 * policy.h - in which order memory replicas of one segment go (M4)
 *
 * LFU with dynamic aging, integer, O(1). Each item has f (0..15): one more
 * per put, fetch or hit; halved once per epoch, lazily; an epoch is as many
 * accesses as ten times the resident items. An access moves the item to the
 * head of ring (age + f) of 64; the victim is the tail of the lowest ring,
 * and age follows it. What is gone is remembered in a FIFO ghost of four
 * times the resident items, unless its route keeps the count.
 *
 * With new values first (`eviction.new_values: first`) a newcomer stays only
 * if its f exceeds the victim's, and the newest 1 % of the bytes always
 * stays: items enter a window, leave it for the rings as it overflows, and
 * when victims are wanted the latest that left it has to beat the lowest of
 * the rings or goes itself.
 *
 * Items are embedded in the caller's replicas, who owns them, sets `bytes`
 * before the insert, and touches the items of one batch from last to first,
 * so that the head of a prefix outlives its tail. What cannot be evicted is
 * parked: on no list, but counted and still touched. One thread. The policy
 * frees nothing, knows no clock, no space and no reason, and never fails:
 * without memory the ghost forgets.
 */
#ifndef FKV_CORE_MASTER_POLICY_H
#define FKV_CORE_MASTER_POLICY_H

#include <sys/queue.h>

#include "base/base.h"
#include "core/master/ghost.h"

#define FKV_LFU_RINGS		64u
#define FKV_LFU_GHOST_FACTOR	4u	/* times the resident items */
#define FKV_LFU_EPOCH_FACTOR	10u	/* times the resident items */
#define FKV_LFU_WINDOW_DIVISOR	100u	/* of the resident bytes: 1 % */

enum fkv_lfu_stage {
	FKV_LFU_OUT,		/* not inserted, or removed */
	FKV_LFU_WINDOW,		/* among the newest: on no ring */
	FKV_LFU_NEWCOMER,	/* left the window, has beaten nobody yet */
	FKV_LFU_SETTLED,
};

struct fkv_lfu_item {
	TAILQ_ENTRY(fkv_lfu_item) link;		/* its ring */
	TAILQ_ENTRY(fkv_lfu_item) young;	/* window or newcomers */
	uint64_t hash;
	uint64_t bytes;				/* the caller's, constant */
	uint32_t bucket;			/* age + f at its last access */
	uint32_t epoch;				/* in which f was true */
	uint32_t round;				/* of the last cursor it met */
	uint8_t f;				/* read it by fkv_lfu_f() */
	uint8_t stage;				/* enum fkv_lfu_stage */
	bool parked;
};

TAILQ_HEAD(fkv_lfu_list, fkv_lfu_item);

struct fkv_lfu {
	struct fkv_lfu_list ring[FKV_LFU_RINGS];
	struct fkv_lfu_list window;	/* newest at the head, as below */
	struct fkv_lfu_list newcomers;
	struct fkv_ghost ghost;
	uint64_t filled;		/* bit per ring that is not empty */
	uint64_t accesses;		/* in this epoch */
	uint64_t resident;		/* items, parked ones too */
	uint64_t resident_bytes;
	uint64_t window_bytes;
	uint32_t age;			/* of the lowest ring, modulo 2^32 */
	uint32_t epoch;			/* modulo 2^27 */
	uint32_t round;
	bool first;
};

/*
 * A walk over victims. Between two steps only the item just returned may be
 * touched, parked, removed or evicted, and nothing inserted or unparked. Each
 * item comes at most once.
 */
struct fkv_lfu_cursor {
	struct fkv_lfu_item *lowest;	/* next of the rings */
	struct fkv_lfu_item *newcomer;
	struct fkv_lfu_item *window;
	uint32_t round;
	bool started;
};

void fkv_lfu_init(struct fkv_lfu *lfu, bool first);
void fkv_lfu_done(struct fkv_lfu *lfu);		/* items are just forgotten */

/*
 * @item is new here (a put or a fetch, which counts as one more access than
 * @f): f is what fkv_lfu_ghost_take() or the route remembered. @hash: 64 bits
 * of the key's.
 */
void fkv_lfu_insert(struct fkv_lfu *lfu, struct fkv_lfu_item *item,
		    unsigned int f, uint64_t hash);

/* @count accesses more, of one that may be parked. */
void fkv_lfu_touch(struct fkv_lfu *lfu, struct fkv_lfu_item *item,
		   uint64_t count);

/* Off all lists: deleted or overwritten. Nothing is remembered. */
void fkv_lfu_remove(struct fkv_lfu *lfu, struct fkv_lfu_item *item);

/* Not a victim until it is unparked. Both may be repeated. */
void fkv_lfu_park(struct fkv_lfu *lfu, struct fkv_lfu_item *item);
void fkv_lfu_unpark(struct fkv_lfu *lfu, struct fkv_lfu_item *item);

/* Start with a zeroed cursor. The next to go, which stays; or NULL. */
struct fkv_lfu_item *fkv_lfu_victim(struct fkv_lfu *lfu,
				    struct fkv_lfu_cursor *cursor);

/*
 * @item goes for want of space: off all lists, and the age follows it if it
 * was of the lowest ring. Returns its count. With @kept the caller keeps that
 * in the route (an SSD copy exists), else the ghost has it.
 */
struct fkv_lfu_count fkv_lfu_evicted(struct fkv_lfu *lfu,
				     struct fkv_lfu_item *item, bool kept);

/* A route ends that kept a count: the ghost has it from now on. */
void fkv_lfu_ghost_put(struct fkv_lfu *lfu, uint64_t hash,
		       struct fkv_lfu_count count);

/* f of a key that is not resident, which the ghost then forgets; or 0. */
unsigned int fkv_lfu_ghost_take(struct fkv_lfu *lfu, uint64_t hash);

/* f today of a count taken earlier: halved once per epoch since. */
unsigned int fkv_lfu_count_f(const struct fkv_lfu *lfu,
			     struct fkv_lfu_count count);
unsigned int fkv_lfu_f(const struct fkv_lfu *lfu,
		       const struct fkv_lfu_item *item);

/*
 * How late the policy would have it go: 0 is next, at most 15. For sums over
 * neighbours when a window of addresses must be emptied (M2).
 */
unsigned int fkv_lfu_priority(const struct fkv_lfu *lfu,
			      const struct fkv_lfu_item *item);

/* May one with @f accesses stay at the price of @victim? */
bool fkv_lfu_admits(const struct fkv_lfu *lfu, unsigned int f,
		    const struct fkv_lfu_item *victim);

/* Walk everything and assert that the books agree. For tests. */
void fkv_lfu_check(const struct fkv_lfu *lfu);

#endif
