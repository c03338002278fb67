/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gets.h - GETs as bytes, and what came of them
 *
 * Requests are opened as the module opens them; results lie in memory that was
 * used before, as a session's is. What is expected and is not so ends the
 * process. It stands for the daemon as well, and for what PUTs do.
 */
#ifndef FKV_TESTS_KMOD_GETS_H
#define FKV_TESTS_KMOD_GETS_H

#include "call.h"
#include "fake.h"
#include "index.h"

#define RQ_KEYS		16u	/* published: key i has i % 4 pages */
#define RQ_SLOTS	128u	/* that are added to a session at once */
#define RQ_BODY_MAX	(FLUXONKV_BATCH_MAX * 96)

/* What may be wrong with an item; the first is wrong for the request. */
enum {
	BAD_PADDING = 1,
	NO_KEY,
	LONG_KEY,
	WITH_ID,
};

struct rq {
	u64 body[RQ_BODY_MAX / 8];
	size_t size;
	u32 item_size, nr;
};

/* What the daemon answers: @err of the asking, or @req. */
struct rq_daemon {
	int err;
	u32 nr_asked;
	struct fkv_request *req;
	bool no_parts;
	bool other_takes_slot;		/* of session 0, meanwhile */
};

extern struct fake world;
extern struct rq_daemon rq_daemon;
extern u32 rq_asked_memory;

/* Of each thread its own. */
extern __thread struct rq rq;
extern __thread struct fluxonkv_result rq_res[FLUXONKV_BATCH_MAX];
extern __thread struct fluxonkv_rep rq_rep;

/* The world, with RQ_KEYS that have four pages of the segment each. */
void rq_up(void);
void rq_down(void);
void rq_begin(u32 item_size);
/* An item, for which the caller may spoil what it returns. */
struct fluxonkv_item *rq_add(const char *key, u32 len);
void rq_add_wrong(u32 how);
int rq_wrong_status(u32 how);
void rq_name(char *to, u32 i);
void rq_add_key(u32 i);
void rq_open(u32 session, struct fkv_work *w);
int rq_hits(u32 session, struct fkv_work *w);

u64 pinned_pages(u32 session);
u64 held_pages(void);
u32 nr_holders(u32 session);
/* Everything that results tell of is given back, and then all is as before. */
void release_all(u32 session, u32 nr);
void expect_hit(u32 at, u32 key);
void expect_status(u32 at, int status);
/* For shim_alloc_fail: counts. */
bool rq_no_memory(void);

#endif
