/* SPDX-License-Identifier: Apache-2.0 */
/*
 * space.h - one segment's memory: extents, causes, classes, waiters, victims
 *
 * The master decides with it what may be allocated and what must go; routes
 * know nothing of it but extents. The narrow interface is alloc, free, evict,
 * quiet, so that a space can one day run at its segment's host.
 *
 * An extent (struct fkv_extent):
 * Born: fkv_extent_create(), for a put, a get's target or an empty value.
 * Held by: the operation that exposes it to writers; then its route; and by
 * the owner, counted in refs (index entry, holders, persist in flight); by other
 * owners that read it, counted in pulls.
 * Dies: when no operation or route has it, refs and pulls are 0.
 * Last put: fkv_master_ungive(), fkv_master_unpull() or fkv_master_detach().
 * Afterwards: its handle is never used again.
 *
 * Each extent has one cause for which it cannot be evicted, or none; the sum
 * of the causes' bytes plus what live index entries pin is the unevictable
 * part that class limits speak of.
 */
#ifndef FKV_CORE_SPACE_H
#define FKV_CORE_SPACE_H

#include "base/table.h"
#include "core/core.h"
#include "core/master/extents.h"
#include "core/master/policy.h"

struct fkv_route;
struct fkv_space;

enum fkv_cause {
	FKV_CAUSE_NONE,		/* evictable */
	FKV_CAUSE_PUT,		/* uncommitted put */
	FKV_CAUSE_TARGET,	/* a get is filling it */
	FKV_CAUSE_PERSIST,	/* first persist pending */
	FKV_CAUSE_HELD,		/* no route, but the owner still has it */
	FKV_CAUSE_SOURCE,	/* another owner reads it */
	FKV_CAUSE_NR,
};

struct fkv_extent {
	struct fkv_node node;		/* master: by handle */
	struct fkv_space *space;
	struct fkv_route *route;	/* whose memory replica it is, or NULL */
	struct fkv_extent *next;	/* replica of that, of another owner */
	struct fkv_lfu_item lfu;
	RB_ENTRY(fkv_extent) at;	/* space->map, unless it is empty */
	uint64_t handle;
	uint64_t offset;
	uint64_t bytes;			/* in the segment; 0 for empty values */
	uint64_t busy;			/* number of the wait that found it so */
	uint32_t refs;			/* the owner's */
	uint32_t pulls;			/* other owners that read it */
	enum fkv_cause cause;
	bool in_policy;			/* is on the policy's lists or parked */
	bool fencing;			/* FENCE sent, no answer yet */
	bool evicting;			/* EVICT sent, no answer yet */
	bool given_again;		/* a reference was given since then */
	bool persisting;		/* PERSIST sent, no answer yet */
	bool backing;			/* that persist is for its eviction */
	bool unbacked;			/* its SSD copy was dropped (P6.1) */
	bool rebacked;			/* written again since it was last hit */
	bool read;			/* since its put */
	bool first;			/* its first persist was pending at the
					   end of its owner's life */
};

struct fkv_waiter {
	TAILQ_ENTRY(fkv_waiter) link;
	struct fkv_space *space;	/* where it waits, if queued */
	uint64_t len;
	enum fkv_class class;
	uint64_t number;		/* of this wait, from 1 */
	uint8_t windows;		/* tried for it */
	uint8_t polls;			/* that it was first in line for */
	bool queued;
};

RB_HEAD(fkv_extent_map, fkv_extent);

/* A run of neighbours, all evictable: first to last by address. */
struct fkv_window {
	struct fkv_extent *first, *last;
	uint64_t cost;
};

#define FKV_WINDOW_TRIES	2

TAILQ_HEAD(fkv_waiters, fkv_waiter);

struct fkv_space {
	struct fkv_extents extents;
	struct fkv_lfu lfu;
	struct fkv_waiters waiters[FKV_CLASS_NR];
	uint64_t capacity;
	uint64_t cause_bytes[FKV_CAUSE_NR];
	uint64_t pinned_bytes;		/* live entries with pins, as reported */
	uint64_t evicting_bytes;
	uint64_t backing_bytes;		/* of these: wait for a persist */
	uint32_t persisting;		/* evictions that wait for a persist */
	uint32_t asked;			/* evictions that wait for an answer */
	uint32_t burst;			/* evictions at the instant of burst_ns */
	uint64_t burst_ns;
	uint32_t waiting;
	uint32_t *all_waiting;		/* in this space and others, or NULL */
	uint32_t budget;		/* victims left to try in this round */
	uint64_t hole_wanted;		/* bytes that a head waiter lacks */
	struct fkv_waiter *hole_waiter;	/* that waiter, while it does */
	struct fkv_extent_map map;	/* what is not free, by address */
	uint64_t waits;			/* ever */
	uint64_t sweep_from;		/* where the next search begins */
	bool reclaiming;		/* ahead of need, up to 4 % */
};

int fkv_space_init(struct fkv_space *s, uint64_t capacity, bool first);
void fkv_space_done(struct fkv_space *s);
/* Of an empty one. 0 or -ENOMEM. */
int fkv_space_resize(struct fkv_space *s, uint64_t capacity);

/* Most that a value of @class may ever have here, bytes. */
uint64_t fkv_space_limit(const struct fkv_space *s, enum fkv_class class);
uint64_t fkv_space_unevictable(const struct fkv_space *s);

/*
 * May a new request of @class go before those who wait? No when its class has
 * waiters, or when a waiter's hole would be taken.
 */
bool fkv_space_free_to_try(const struct fkv_space *s, enum fkv_class class);

/*
 * 0 and the offset; -EAGAIN: over the class limit now; -ENOSPC: no hole;
 * -ENOMEM.
 */
int fkv_space_alloc(struct fkv_space *s, enum fkv_class class, uint64_t len,
		    uint64_t *ret_offset);
void fkv_space_wait(struct fkv_space *s, struct fkv_waiter *w);
void fkv_space_unwait(struct fkv_waiter *w);

/* What was found pinned for those first in line may be so no more. */
void fkv_space_ask_again(struct fkv_space *s);

/* Who has waited longest in @class, or NULL. */
struct fkv_waiter *fkv_space_head(const struct fkv_space *s,
				  enum fkv_class class);

/* Something happened that may make victims: try each again, once. */
void fkv_space_new_round(struct fkv_space *s);

/* The head of a class needs a hole of @bytes, and there is none. */
void fkv_space_want_hole(struct fkv_space *s, struct fkv_waiter *w);

/*
 * The cheapest run of evictable extents and the free space between them that
 * is at least @bytes long; false when there is none where it looked.
 */
bool fkv_space_window(struct fkv_space *s, uint64_t bytes,
		      struct fkv_window *ret);
struct fkv_extent *fkv_extent_next(struct fkv_extent *x);	/* by address */
void fkv_space_map(struct fkv_space *s, struct fkv_extent *x);
void fkv_space_unmap(struct fkv_space *s, struct fkv_extent *x);
/* The extent that begins at @offset, or NULL. */
struct fkv_extent *fkv_space_at(struct fkv_space *s, uint64_t offset);

/*
 * Bytes that are about to come free. Who has waited for long does not wait
 * for a slow SSD as well while others could go.
 */
uint64_t fkv_space_coming(const struct fkv_space *s);

/* Bytes that should be evicted now, beyond what is on its way. */
uint64_t fkv_space_pressure(const struct fkv_space *s);

/* May something come in without making others go soon? (G7) */
bool fkv_space_is_roomy(const struct fkv_space *s);

/* One sentence: total, free, and what is unevictable and why. */
void fkv_space_explain(const struct fkv_space *s, uint64_t len, char *buf,
		       size_t size);

/* Extents. create: 0 bytes need no room; the rest was allocated before. */
struct fkv_extent *fkv_extent_create(struct fkv_space *s, uint64_t offset,
				     uint64_t len, enum fkv_cause cause);
void fkv_extent_set_cause(struct fkv_extent *x, enum fkv_cause cause);
void fkv_extent_free(struct fkv_extent *x);

/* Into the policy with @f earlier accesses, or out of it. */
void fkv_extent_enter(struct fkv_extent *x, unsigned int f, uint64_t hash);
void fkv_extent_leave(struct fkv_extent *x);

/* Out of it as a victim; @kept: the route keeps the count, not the ghost. */
struct fkv_lfu_count fkv_extent_evicted(struct fkv_extent *x, bool kept);

/* Park while it cannot be evicted, by what the extent says of itself. */
void fkv_extent_update(struct fkv_extent *x);
void fkv_extent_touch(struct fkv_extent *x, uint64_t count);

#endif
