/* SPDX-License-Identifier: Apache-2.0 */
/*
 * index.h - the shared index: hits without a system call (writer's side)
 *
 * One region that the daemon writes and clients map read-only, and one region
 * of pins per client that only this client and the daemon map; layout and the
 * handshake are in fluxonkv-shm.h. The loop thread owns all of it. An entry
 * that does not fit (no free index entry, both buckets full, key longer than
 * 208 bytes) keeps FKV_NO_SLOT and is served by message.
 */
#ifndef FKV_IO_INDEX_H
#define FKV_IO_INDEX_H

#include <sys/queue.h>

#include "core/owner/owner.h"
#include "fluxonkv-shm.h"

struct fkv_index;

#define FKV_PINS_BLOCK	64u		/* slots that are counted together */
#define FKV_PINS_EXACT	1024u		/* so few are all counted each time */

/*
 * The pin pages of one client.
 * Born: fkv_pins_create(), when it connects.
 * Held by: its connection.
 * Dies: fkv_pins_free(), when the connection has ended.
 */
struct fkv_pins {
	TAILQ_ENTRY(fkv_pins) link;
	struct fkv_index *index;
	void *map;
	size_t size;
	int fd;
	uint32_t nr_slots;
	uint64_t ring_tail;		/* hits taken from the ring */
	uint64_t counter[FLUXONKV_CNT_NR];	/* as last read */
	uint64_t pinned_bytes;		/* at the last count */
	uint64_t pinned;
	uint64_t counted;		/* slots that the last full count read */
	uint64_t busy[FKV_PINS_MAX / FKV_PINS_BLOCK / 64];	/* bitmap of
					   blocks in which it found pins */
};

/* What a scan and the hit rings say goes to the owner core. */
struct fkv_index_ops {
	void (*scanned)(void *arg, struct fkv_entry *e);
	void (*hits)(void *arg, struct fkv_entry *e, uint64_t n);
};

struct fkv_index_stats {
	uint64_t entries, used, retired;
	uint64_t not_published;		/* ever: no room, or key too long */
	uint64_t scans, scanned_slots, hits_lost;
	uint64_t counted_slots;
	uint64_t pinned;		/* holders, at the last count */
	uint64_t counter[FLUXONKV_CNT_NR];	/* of all clients, ever */
};

int fkv_index_create(uint32_t nr_entries, uint64_t incarnation, bool strict,
		     struct fkv_index **ret);
void fkv_index_free(struct fkv_index *ix);
int fkv_index_fd(const struct fkv_index *ix);	/* read-only */
size_t fkv_index_size(const struct fkv_index *ix);

/* Clients may use the index until @until_ns (CLOCK_MONOTONIC). */
void fkv_index_alive(struct fkv_index *ix, uint64_t until_ns);
void fkv_index_lease(struct fkv_index *ix, uint64_t until_ns);

void fkv_index_publish(struct fkv_index *ix, struct fkv_entry *e);

/*
 * No new pin succeeds from now; ops.scanned follows when none is left. 0, or
 * -ENOMEM for one without a slot, which then is as it was.
 */
int fkv_index_retire(struct fkv_index *ix, struct fkv_entry *e);

/* Evict up to FKV_EVICT_BATCH entries with one fence and two scans. */
void fkv_index_evict(struct fkv_index *ix, struct fkv_entry *const *es,
		     size_t n, enum fkv_evict_result *ret);

/* Retired entries that wait for a scan; the scan. */
size_t fkv_index_retired(const struct fkv_index *ix);
void fkv_index_scan(struct fkv_index *ix, const struct fkv_index_ops *ops,
		    void *arg);

int fkv_pins_create(struct fkv_index *ix, uint32_t nr_slots,
		    struct fkv_pins **ret);
void fkv_pins_free(struct fkv_pins *p);

/* Take the hits of one client's ring, in order. */
void fkv_pins_hits(struct fkv_pins *p, const struct fkv_index_ops *ops,
		   void *arg);

/*
 * Count again what one client pins; returns the bytes. Of many slots (over
 * FKV_PINS_EXACT) only those near where fkv_index_count() found pins, or that
 * are in use for the first time since: what is pinned elsewhere is missed until
 * then, and nothing is counted that is not pinned.
 */
uint64_t fkv_pins_count(struct fkv_pins *p);

/*
 * Count what every client pins (into its fkv_pins); returns the bytes of
 * distinct live entries that are pinned here, by no holder of the owner's, and
 * not waiting for their first persist.
 */
uint64_t fkv_index_count(struct fkv_index *ix);

void fkv_index_get_stats(struct fkv_index *ix, struct fkv_index_stats *ret);

#endif
