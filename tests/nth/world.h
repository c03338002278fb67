/* SPDX-License-Identifier: Apache-2.0 */
/*
 * world.h - an owner and a master core, and all that is around them
 *
 * The cores are connected as in a standalone daemon; disks, hash and copy
 * threads answer at once, in order. A value is one tag in each of its pages,
 * its number and how many they are, so that wrong bytes are seen. Only what the
 * cores and the decoder allocate may fail, or else what the disks and the copy
 * threads do: by an error, or by half of it, which is not said.
 *
 * For each key there is a set of what a get may find: one version, or, when a
 * change of it failed, that or another.
 */
#ifndef FKV_TESTS_NTH_WORLD_H
#define FKV_TESTS_NTH_WORLD_H

#include "core/master/master.h"
#include "core/owner/owner.h"

#define WORLD_CLIENT	7u
#define WORLD_PAGES	(FKV_SEGMENT_MIN / FKV_EXTENT_UNIT)
#define WORLD_BATCH	20u
#define WORLD_KEYS	256u
#define WORLD_MAY	4u

/* What becomes of an I/O, or a copy, that fails (nth_all_io()). */
enum world_fault { WORLD_EIO, WORLD_ENOSPC, WORLD_SHORT, WORLD_ENOMEM };

struct world_config {
	bool ssd;
	uint64_t arena_bytes;
	bool drops;		/* values may go for want of room */
	enum world_fault fault;
};

struct world_key {
	char name[16];
	uint64_t pages;		/* of its last put */
	uint64_t may[WORLD_MAY]; /* tags that it may have; 0: absent */
	unsigned int nr_may;
	uint64_t put, tag;	/* open, to be committed */
	bool late;		/* could not be extended */
};

struct world {
	struct world_config cfg;
	struct fkv_owner *owner;
	struct fkv_master *master;
	struct fkv_ring *ring;
	struct fkv_out out, mout;
	uint64_t now, next_tag, client;
	bool unknown;		/* its coming met a failure: all is ENOMEM */
	struct fkv_in done[1024];
	size_t nr_done;
	struct fkv_entry *shown[512];
	size_t nr_shown;
	uint64_t segment[WORLD_PAGES];
	uint64_t arena[WORLD_PAGES];
	uint64_t disk[2][WORLD_PAGES];

	/* the answer to the call that was made last */
	bool answered;
	int status;
	uint64_t arg;
	uint32_t nr_listed;
	struct fluxonkv_result res[WORLD_BATCH];

	struct world_key key[WORLD_KEYS];
	size_t nr_keys;
	unsigned int nr_lost;	/* that went with what the disks lost */
	uint64_t hold[64];
	size_t nr_hold;
};

/* NULL when it met a failure. */
struct world *world_open(const struct world_config *cfg);
/*
 * Failures end; it works and balances; all goes, and nothing is left.
 */
void world_close(struct world *w);

/* One input to the owner, and all that follows at once. */
void world_feed(struct world *w, const struct fkv_in *in);
void world_client(struct world *w, uint64_t client);
void world_gone(struct world *w, uint64_t client);
/* What the disks, threads and deadlines up to @ns from now have to say. */
void world_settle(struct world *w, uint64_t ns);

struct world_key *world_key(struct world *w, const char *fmt, unsigned int i);

/* One call each; what it returned is held against what may be. */
int world_begin(struct world *w, struct world_key *const *k, uint32_t n,
		uint64_t pages);
void world_commit(struct world *w, struct world_key *const *k, uint32_t n,
		  uint32_t flags);
void world_extend(struct world *w, struct world_key *k);
void world_put(struct world *w, struct world_key *k, uint64_t pages);
/* @keep: the holder stays. */
void world_get(struct world *w, struct world_key *const *k, uint32_t n,
	       bool keep);
void world_get_into(struct world *w, struct world_key *k);
void world_release(struct world *w);
void world_delete(struct world *w, struct world_key *k);
void world_stat(struct world *w, struct world_key *k, bool warm);
void world_list(struct world *w, const char *prefix, uint64_t limit);
void world_count(struct world *w, const char *prefix);

#endif
