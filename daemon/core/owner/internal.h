/* SPDX-License-Identifier: Apache-2.0 */
/*
 * internal.h - structs that the files of the owner core share
 */
#ifndef FKV_CORE_OWNER_INTERNAL_H
#define FKV_CORE_OWNER_INTERNAL_H

#include "base/table.h"
#include "base/timer.h"
#include "core/master/extents.h"
#include "core/owner/owner.h"

struct fkv_client;

TAILQ_HEAD(fkv_puts, fkv_put);
TAILQ_HEAD(fkv_jobs, fkv_job);
TAILQ_HEAD(fkv_entries, fkv_entry);
TAILQ_HEAD(fkv_oops, fkv_oop);

struct fkv_uid {
	struct fkv_node node;
	uint32_t uid;
	uint32_t clients;
	uint64_t pinned_bytes;
	uint64_t shared_bytes;
};

struct fkv_client {
	struct fkv_node node;		/* by id */
	uint64_t id;
	struct fkv_uid *uid;
	struct fkv_table holders;	/* by holder id */
	struct fkv_calls calls;
	struct fkv_puts puts;
	struct fkv_extents arena;	/* of a client that maps no segment */
	uint64_t arena_bytes;		/* 0: it writes to the segment */
	uint64_t next_holder;
	uint64_t pinned_bytes;		/* holders by message, open puts */
	uint64_t shared_bytes;		/* in the shared index, as counted */
	uint32_t nr_puts;
	uint32_t nr_calls;
};

struct fkv_holder {
	struct fkv_node node;		/* client->holders */
	uint64_t id;
	struct fkv_entry *entry;
};

/* What an op id stands for; embedded first in each of them. */
enum fkv_oop_type {
	FKV_OOP_PUT,
	FKV_OOP_FETCH,
	FKV_OOP_CALL,
	FKV_OOP_JOB,
	FKV_OOP_CHUNK,
};

struct fkv_oop {
	struct fkv_node node;		/* owner->ops, by id */
	TAILQ_ENTRY(fkv_oop) all;	/* owner->all_ops, by age */
	uint64_t id;
	enum fkv_oop_type type;
	struct fkv_timer timer;
};

/* DELETE, STAT, LIST, COUNT: one message, one answer. */
struct fkv_callop {
	struct fkv_oop op;
	struct fkv_item *item;		/* NULL: nobody waits any more */
	enum fkv_msg_type msg;
	bool sent;			/* in this session */
	bool warm;
	struct fkv_key *key;
};

enum fkv_put_state {
	FKV_PUT_PLANNING,	/* PUT_START sent; moved on by PUT_PLAN */
	FKV_PUT_OPEN,		/* client writes; by commit, abort, timer */
	FKV_PUT_COPYING,	/* arena to segment; by COPIED */
	FKV_PUT_PUSHING,	/* segment to its owner's; by MOVED */
	FKV_PUT_DONE,		/* PUT_DONE sent; by PUT_DONE_R */
	FKV_PUT_EXPIRED,	/* revoked, client may still write; by client */
};

struct fkv_put {
	struct fkv_oop op;
	enum fkv_put_state state;
	struct fkv_client *client;	/* NULL: gone */
	struct fkv_item *item;		/* who waits: begin or commit */
	struct fkv_key *key;
	uint64_t len;
	uint64_t extent;
	uint64_t offset;
	uint64_t arena_offset;
	uint64_t deadline_ns;		/* PLANNING */
	uint64_t incarnation;		/* whose it is to be; 0: ours */
	uint64_t remote;		/* at which place there */
	bool aborted;			/* while COPYING or PUSHING */
	bool lost;			/* with its session */
	bool stalled;			/* PUSHING: was cancelled for that */
	TAILQ_ENTRY(fkv_put) link;	/* client->puts */
};

enum fkv_fetch_state {
	FKV_FETCH_PLANNING,	/* GET_START sent; moved on by GET_PLAN */
	FKV_FETCH_READING,	/* by IO_DONE */
	FKV_FETCH_MOVING,	/* by MOVED */
	FKV_FETCH_DONE,		/* GET_DONE sent; by GET_DONE_R */
};

struct fkv_fetch {
	struct fkv_oop op;
	struct fkv_node by_key;		/* owner->fetches, while joinable */
	enum fkv_fetch_state state;
	struct fkv_key *key;
	struct fkv_items waiters;
	struct fkv_ring_entry *read;
	uint64_t put_id, len, extent, offset;
	uint64_t deadline_ns;
	struct fkv_timer stall;		/* MOVING */
	uint32_t source;		/* enum fluxonkv_source */
	uint32_t asked;			/* GET_STARTs sent */
	uint32_t tries;			/* sources that failed */
	uint8_t class;
	bool joinable;
	bool given_up;			/* waiters were answered: only clean up */
	bool lost;			/* with its session: what comes is void */
	bool stalled;			/* was cancelled for that */
};

enum fkv_job_state {
	FKV_JOB_QUEUED,		/* moved on by persist_pump() */
	FKV_JOB_HASHING,	/* by HASHED */
	FKV_JOB_BLOCKED,	/* wants ring room; by persist_pump(), timer */
	FKV_JOB_WRITING,	/* by IO_DONE */
	FKV_JOB_COMMITTING,	/* by SSD_COMMIT_R */
};

/* One version on its way to SSD. */
struct fkv_job {
	struct fkv_oop op;
	struct fkv_node by_key;		/* owner->jobs_by_key */
	TAILQ_ENTRY(fkv_job) link;
	enum fkv_job_state state;
	struct fkv_key *key;
	uint64_t put_id, extent, offset, len;
	uint64_t sum;
	uint64_t blocked_ns;
	struct fkv_ring_entry *entry;
	bool dropped;
	bool first;			/* no copy on SSD was ever asked for */
};

/*
 * Where keys are decided: the session with the master. While it is not UP no
 * message goes out; what was asked and can be asked again is, in the next one.
 */
enum fkv_home_state {
	FKV_HOME_DOWN,		/* quiet; moved on by SESSION */
	FKV_HOME_UP,		/* by SESSION_END */
	FKV_HOME_STOPPING,	/* by STOPPED, when all is quiet */
};

#define FKV_BEATS	8u	/* heartbeats under way */

struct fkv_home {
	enum fkv_home_state state;
	bool accepted;		/* REGISTERED came */
	bool stopped;		/* STOPPED came */
	uint64_t incarnation;
	uint64_t was;		/* accepted last, by the master of that epoch */
	uint64_t epoch;
	uint64_t lease_ns;	/* until then */
	uint64_t beat_ns;	/* next heartbeat */
	uint64_t beat;		/* number of the last */
	uint64_t sent_ns[FKV_BEATS];
};

struct fkv_stage;

/* A buffer for pieces of what peers read from our SSD (G5). */
enum fkv_chunk_state {
	FKV_CHUNK_FREE,
	FKV_CHUNK_READING,	/* by IO_DONE */
	FKV_CHUNK_READY,	/* by the pieces before it */
	FKV_CHUNK_PUSHING,	/* by MOVED */
};

struct fkv_chunk {
	struct fkv_oop op;
	enum fkv_chunk_state state;
	struct fkv_stage *stage;
	uint64_t index;		/* of the piece */
	uint64_t offset;	/* of the buffer */
};

TAILQ_HEAD(fkv_stages, fkv_stage);

struct fkv_owner {
	struct fkv_owner_config cfg;
	struct fkv_home home;
	struct fkv_table clients;
	struct fkv_table uids;
	struct fkv_table live;		/* entries by key */
	struct fkv_table fetches;	/* joinable, by key */
	struct fkv_table ops;
	struct fkv_oops all_ops;
	struct fkv_table jobs_by_key;
	struct fkv_jobs queued;
	struct fkv_jobs blocked;
	struct fkv_timers timers;
	uint64_t next_op;
	uint64_t now_ns;
	uint64_t active_bytes;		/* of jobs hashing or writing */
	uint32_t active;
	struct fkv_entries entries;	/* all */
	struct fkv_entries pending;	/* live, and their first persist is */
	struct fkv_stages stages;
	struct fkv_chunk chunk[FKV_CHUNKS_MAX];
	struct fkv_cluster_range *busy;	/* told to the master: until next time */
	uint64_t *beat_ops;
	/* live entries whose first persist is not pending: */
	uint64_t held_bytes;		/* that holders pin */
	uint64_t shared_bytes;		/* that readers pin */
	uint64_t told_bytes;		/* their sum, as the master knows it */
	struct {
		uint32_t errors;	/* writes failed in a row */
		uint32_t read_errors;	/* reads, too */
		bool off;
		uint64_t retry_ns, wait_ns;
		uint64_t on_ns;		/* when it last came back */
	} device[FKV_DEVICES_MAX];
	struct fkv_owner_stats stats;
};

/* kinds of timers */
enum {
	FKV_TIMER_CALL,
	FKV_TIMER_PUT,
	FKV_TIMER_FETCH,
	FKV_TIMER_JOB,
	FKV_TIMER_STALL,	/* of a fetch */
	FKV_TIMER_CHUNK,
};

/* calls.c */
void fkv_owner_call(struct fkv_owner *o, struct fkv_call *call,
		    struct fkv_out *out);
void fkv_item_done(struct fkv_owner *o, struct fkv_item *it, int status,
		   struct fkv_out *out);
void fkv_item_text(struct fkv_item *it, const char *text);
void fkv_call_expired(struct fkv_owner *o, struct fkv_call *call,
		      struct fkv_out *out);
void fkv_call_dropped(struct fkv_owner *o, struct fkv_call *call);
int fkv_item_timeout(const struct fkv_item *it);
bool fkv_callop_expects(const struct fkv_owner *o, const struct fkv_msg *msg);
void fkv_callop_answer(struct fkv_owner *o, struct fkv_msg *msg,
		       struct fkv_out *out);

#define FKV_UNKNOWN_TEXT "the session with the master ended: whether it took " \
			 "effect is not known"

/* The session ended; a new one begins. */
void fkv_callop_lost(struct fkv_owner *o, struct fkv_callop *c,
		     struct fkv_out *out);
void fkv_callop_resume(struct fkv_owner *o, struct fkv_callop *c,
		       struct fkv_out *out);

/* May its client still write to its extent, though it is over? */
bool fkv_put_is_held(const struct fkv_put *put);

/* home.c */
bool fkv_home_up(const struct fkv_owner *o);
void fkv_home_begin(struct fkv_owner *o, const struct fkv_in *in,
		    struct fkv_out *out);
void fkv_home_end(struct fkv_owner *o, struct fkv_out *out);
void fkv_home_message(struct fkv_owner *o, const struct fkv_cluster_msg *msg,
		      struct fkv_out *out);
void fkv_home_tick(struct fkv_owner *o, struct fkv_out *out);
uint64_t fkv_home_deadline(const struct fkv_owner *o);
/* After each step: is all quiet? Nothing is said to a home that is not up. */
void fkv_home_settle(struct fkv_owner *o, size_t from, struct fkv_out *out);

/* stage.c: pieces of our SSD copies for peers */
int fkv_stages_init(struct fkv_owner *o);
void fkv_stages_done(struct fkv_owner *o);
void fkv_stage_begin(struct fkv_owner *o, const struct fkv_in *in,
		     struct fkv_out *out);
void fkv_chunk_read(struct fkv_owner *o, struct fkv_chunk *c,
		    const struct fkv_in *in, struct fkv_out *out);
void fkv_chunk_pushed(struct fkv_owner *o, struct fkv_chunk *c, int res,
		      struct fkv_out *out);
void fkv_chunk_progress(struct fkv_owner *o, struct fkv_chunk *c);
void fkv_chunk_stalled(struct fkv_owner *o, struct fkv_chunk *c,
		       struct fkv_out *out);
void fkv_stages_lost(struct fkv_owner *o, struct fkv_out *out);

/* transfers */
void fkv_xfer_cancel(struct fkv_owner *o, const struct fkv_oop *op,
		     struct fkv_out *out);

/* ops (owner.c) */
void fkv_oop_add(struct fkv_owner *o, struct fkv_oop *op,
		 enum fkv_oop_type type);
void fkv_oop_del(struct fkv_owner *o, struct fkv_oop *op);
struct fkv_oop *fkv_oop_find(const struct fkv_owner *o, uint64_t id);
/* P4: what holders and readers pin is not evictable. */
void fkv_owner_tell_pins(struct fkv_owner *o, struct fkv_out *out);

/* clients.c */
struct fkv_client *fkv_client_find(const struct fkv_owner *o, uint64_t id);
void fkv_client_up(struct fkv_owner *o, const struct fkv_in *in);
void fkv_client_gone(struct fkv_owner *o, uint64_t id, struct fkv_out *out);
int fkv_client_charge(struct fkv_owner *o, struct fkv_client *c, uint64_t len);
void fkv_client_uncharge(struct fkv_owner *o, struct fkv_client *c,
			 uint64_t len);
/* A holder of @e for the item's client: fills its result; 0 or -errno. */
int fkv_holder_give(struct fkv_owner *o, struct fkv_item *it,
		    struct fkv_entry *e);
int fkv_holder_release(struct fkv_owner *o, struct fkv_client *c, uint64_t id,
		       struct fkv_out *out);

/* entries.c */
struct fkv_entry *fkv_entry_find(const struct fkv_owner *o,
				 const struct fkv_key *key);
/* A new entry with one reference of the master's; published when @grant. */
struct fkv_entry *fkv_entry_create(struct fkv_owner *o, struct fkv_key *key,
				   const struct fkv_msg *msg, bool grant,
				   struct fkv_out *out);
void fkv_entry_pin(struct fkv_owner *o, struct fkv_entry *e);
void fkv_entry_unpin(struct fkv_owner *o, struct fkv_entry *e,
		     struct fkv_out *out);
void fkv_entry_gc(struct fkv_owner *o, struct fkv_entry *e,
		  struct fkv_out *out);
void fkv_owner_retire(struct fkv_owner *o, struct fkv_msg *msg,
		      struct fkv_out *out);
void fkv_owner_evict(struct fkv_owner *o, struct fkv_msg *msg,
		     struct fkv_out *out);
void fkv_entry_evicted(struct fkv_owner *o, struct fkv_entry *e, int res,
		       struct fkv_out *out);
void fkv_entry_scanned(struct fkv_owner *o, struct fkv_entry *e,
		       struct fkv_out *out);
/* All are void with their session; what is pinned stays so. */
void fkv_entries_lost(struct fkv_owner *o, struct fkv_out *out);
/* The first persist of @extent, which is @key's, begins or is about to end. */
void fkv_entry_pending(struct fkv_owner *o, const struct fkv_key *key,
		       uint64_t extent, bool pending);

/* fetch.c */
void fkv_owner_get(struct fkv_owner *o, struct fkv_item *it,
		   struct fkv_out *out);
void fkv_owner_warm(struct fkv_owner *o, struct fkv_key *key,
		    struct fkv_out *out);
void fkv_fetch_leave(struct fkv_item *it);
/* Does an op of ours wait for that answer, in the state that it is in? */
bool fkv_fetch_expects(const struct fkv_owner *o, const struct fkv_msg *msg);
void fkv_fetch_plan(struct fkv_owner *o, struct fkv_msg *msg,
		    struct fkv_out *out);
void fkv_fetch_read(struct fkv_owner *o, struct fkv_fetch *f, int res,
		    uint64_t sum, struct fkv_out *out);
void fkv_fetch_done(struct fkv_owner *o, struct fkv_msg *msg,
		    struct fkv_out *out);
void fkv_fetch_retire(struct fkv_owner *o, const struct fkv_key *key,
		      uint64_t put_id);
void fkv_fetch_moved(struct fkv_owner *o, struct fkv_fetch *f, int res,
		     bool said, struct fkv_out *out);
void fkv_fetch_progress(struct fkv_owner *o, struct fkv_fetch *f);
void fkv_fetch_stalled(struct fkv_owner *o, struct fkv_fetch *f,
		       struct fkv_out *out);
void fkv_fetch_lost(struct fkv_owner *o, struct fkv_fetch *f);
void fkv_fetch_resume(struct fkv_owner *o, struct fkv_fetch *f,
		      struct fkv_out *out);
void fkv_fetch_expired(struct fkv_owner *o, struct fkv_fetch *f,
		       struct fkv_out *out);

/* put.c */
void fkv_put_begin(struct fkv_owner *o, struct fkv_item *it,
		   struct fkv_out *out);
void fkv_put_extend(struct fkv_owner *o, struct fkv_item *it,
		    struct fkv_out *out);
void fkv_put_commit(struct fkv_owner *o, struct fkv_item *it,
		    struct fkv_out *out);
void fkv_put_abort(struct fkv_owner *o, struct fkv_item *it,
		   struct fkv_out *out);
bool fkv_put_expects(const struct fkv_owner *o, const struct fkv_msg *msg);
void fkv_put_plan(struct fkv_owner *o, struct fkv_msg *msg,
		  struct fkv_out *out);
void fkv_put_copied(struct fkv_owner *o, uint64_t token, int res,
		    struct fkv_out *out);
void fkv_put_done(struct fkv_owner *o, struct fkv_msg *msg,
		  struct fkv_out *out);
void fkv_put_moved(struct fkv_owner *o, struct fkv_put *put, int res, bool said,
		   struct fkv_out *out);
void fkv_put_progress(struct fkv_owner *o, struct fkv_put *put);
void fkv_put_lost(struct fkv_owner *o, struct fkv_put *put,
		  struct fkv_out *out);
void fkv_put_resume(struct fkv_owner *o, struct fkv_put *put,
		    struct fkv_out *out);
void fkv_put_expired(struct fkv_owner *o, struct fkv_put *put,
		     struct fkv_out *out);
void fkv_put_client_gone(struct fkv_owner *o, struct fkv_put *put,
			 struct fkv_out *out);
void fkv_put_item_gone(struct fkv_put *put);
/* Its time is over: see to it that it has no effect; false: it may have. */
bool fkv_put_undo(struct fkv_put *put);

/* persist.c */
void fkv_owner_persist(struct fkv_owner *o, struct fkv_msg *msg,
		       struct fkv_out *out);
void fkv_job_hashed(struct fkv_owner *o, uint64_t token, uint64_t sum,
		    struct fkv_out *out);
void fkv_job_written(struct fkv_owner *o, struct fkv_job *job, int res,
		     struct fkv_out *out);
bool fkv_job_expects(const struct fkv_owner *o, const struct fkv_msg *msg);
void fkv_job_committed(struct fkv_owner *o, struct fkv_msg *msg);
void fkv_job_retire(struct fkv_owner *o, const struct fkv_key *key,
		    uint64_t put_id, struct fkv_out *out);
void fkv_job_lost(struct fkv_owner *o, struct fkv_job *job,
		  struct fkv_out *out);
void fkv_job_expired(struct fkv_owner *o, struct fkv_job *job,
		     struct fkv_out *out);
/* Start what can start: after anything that may have freed ring room. */
void fkv_persist_pump(struct fkv_owner *o, struct fkv_out *out);
/* Shards whose tail moved are reported (S13); devices come back. */
void fkv_persist_report(struct fkv_owner *o, struct fkv_out *out);
/* All of them, to a home that knows nothing of them. */
void fkv_persist_report_all(struct fkv_owner *o, struct fkv_out *out);
uint64_t fkv_persist_deadline(const struct fkv_owner *o);
void fkv_persist_tick(struct fkv_owner *o, struct fkv_out *out);
/* What a device that is no longer there answers. */
static inline bool fkv_device_departed(int err)
{
	return err == -ENXIO || err == -ENODEV;
}

/* A read of @e ended with @res: the copy may be no good, the device may be. */
void fkv_read_ended(struct fkv_owner *o, struct fkv_ring_entry *e, int res,
		     struct fkv_out *out);

#endif
