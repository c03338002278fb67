/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ring.h - which bytes of the shard files hold which value
 *
 * Per shard a virtual head and tail that only rise; file position is
 * 4096 + vpos % ring_size. Values are contiguous and written in order; a
 * value that does not fit before the end of the file starts the next lap.
 * Advancing the tail evicts the oldest entries, unless one is still being
 * written, read or committed: then the shard is blocked and the writer takes
 * another one (S5).
 *
 * Bookkeeping only: no I/O, no clock, no byte of payload. One thread owns it.
 */
#ifndef FKV_CORE_SSD_RING_H
#define FKV_CORE_SSD_RING_H

#include <sys/queue.h>

#include "base/key.h"
#include "base/table.h"

struct fkv_ring;

enum fkv_ring_state {
	FKV_RING_WRITING,	/* reserved; moved on by commit or abort */
	FKV_RING_COMMITTED,	/* written in full; may be read */
	FKV_RING_DEAD,		/* superseded, dropped or never written in full */
};

/*
 * Born: fkv_ring_reserve().
 * Held by: its shard's order, until the tail passes it; read pins; the commit
 * pin.
 * Dies: overtaken and without pins.
 * Last put: the unpin, or the eviction.
 * Afterwards: nothing; the caller's pointer ends with its pin or its write.
 */
struct fkv_ring_entry {
	struct fkv_node node;			/* ring->index, unless dead */
	TAILQ_ENTRY(fkv_ring_entry) link;	/* shard, by vpos */
	struct fkv_key *key;
	uint64_t put_id;
	uint64_t len;			/* bytes of payload */
	uint64_t entry_len;		/* bytes in the shard: header and padding */
	uint64_t vpos;			/* of the header */
	uint64_t seq;			/* rises per shard */
	uint64_t sum;			/* of the payload, once committed */
	uint64_t skip_vpos;		/* lap remainder that was left out, */
	uint64_t skip_len;		/* if not 0: gets a skip header */
	uint32_t shard;
	uint32_t read_pins;
	enum fkv_ring_state state;
	uint32_t commit_pins;
	bool closing;			/* the tail waits for it: no new pins */
	bool doomed;			/* retired while it is being written */
	bool overtaken;			/* off its shard: bytes are another's */
	bool indexed;
};

struct fkv_ring_device_config {
	uint32_t nr_shards;
	uint64_t ring_size;		/* bytes of each shard's ring */
	uint64_t unit;			/* >= 4096, a multiple of it */
};

struct fkv_ring_config {
	uint32_t nr_devices;
	struct fkv_ring_device_config device[FKV_DEVICES_MAX];
};

struct fkv_ring_stats {
	uint64_t capacity, used, entries;
	/* ever */
	uint64_t evictions, evicted_bytes, laps;
	uint64_t blocked_write, blocked_read, blocked_commit;
};

int fkv_ring_create(const struct fkv_ring_config *cfg, struct fkv_ring **ret);
void fkv_ring_free(struct fkv_ring *r);

/*
 * Room for a value of @len bytes: 0 and a WRITING entry. -EBUSY: all shards
 * that could take it are blocked; -EFBIG: it fits no shard; -ENODEV: no
 * device works; -EALREADY with the entry: this (key, put_id) is committed;
 * -EINPROGRESS: it is being written; -ENOMEM.
 */
int fkv_ring_reserve(struct fkv_ring *r, struct fkv_key *key, uint64_t put_id,
		     uint64_t len, struct fkv_ring_entry **ret);

/*
 * The write ended. commit takes the commit pin; the entry is found by reads
 * unless a newer version of its key is. abort: short or failed.
 */
void fkv_ring_commit(struct fkv_ring *r, struct fkv_ring_entry *e,
		     uint64_t sum);
void fkv_ring_abort(struct fkv_ring *r, struct fkv_ring_entry *e);

/* The commit pin lasts until the master has answered (P7). */
void fkv_ring_commit_pin(struct fkv_ring_entry *e);
void fkv_ring_commit_unpin(struct fkv_ring *r, struct fkv_ring_entry *e);

/* -ENOENT: not here in this version; -ESTALE: about to be overwritten. */
int fkv_ring_read_pin(struct fkv_ring *r, const struct fkv_key *key,
		      uint64_t put_id, struct fkv_ring_entry **ret);
/* 0, or -ENOENT when the bytes were overtaken meanwhile. */
int fkv_ring_read_unpin(struct fkv_ring *r, struct fkv_ring_entry *e);

/* Versions of @key up to @put_id are dead: never read, never in the way. */
void fkv_ring_retire(struct fkv_ring *r, const struct fkv_key *key,
		     uint64_t put_id);
/* This one's bytes are no good. */
void fkv_ring_drop(struct fkv_ring *r, struct fkv_ring_entry *e);

/*
 * Has the tail of @shard moved since the last call? Then *ret_seq is the
 * lowest seq that is still there (S13).
 */
bool fkv_ring_tail_moved(struct fkv_ring *r, uint32_t shard,
			 uint64_t *ret_seq);

uint64_t fkv_ring_tail(const struct fkv_ring *r, uint32_t shard);

/* All entries of a device are gone; on again: empty. -EBUSY: not quiet yet. */
void fkv_ring_device_off(struct fkv_ring *r, uint32_t device);
int fkv_ring_device_on(struct fkv_ring *r, uint32_t device);
bool fkv_ring_device_works(const struct fkv_ring *r, uint32_t device);

/* Of all devices, or of one. */
void fkv_ring_get_stats(const struct fkv_ring *r, struct fkv_ring_stats *ret);
void fkv_ring_device_stats(const struct fkv_ring *r, uint32_t device,
			   struct fkv_ring_stats *ret);

/* Walk everything and end the process where the books disagree. */
void fkv_ring_check(const struct fkv_ring *r);

#endif
