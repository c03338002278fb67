/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sim.h - one owner core and one master core in a world made from a seed
 *
 * The world is everything that the cores do not see: a segment, shard files,
 * worker threads, the shared index with its readers, clients, a clock. Each
 * 4 KiB page is one word {key, tag, page}; the tag is the op id of the put
 * that wrote it. No threads, no real time: a seed always runs the same way.
 *
 * Who may touch a page is written down from the messages that pass between
 * the cores (extents.c), and what a key's current version was at each moment
 * from the master's answers (oracle.c); everything else is held against that.
 */
#ifndef FKV_TESTS_SIM_H
#define FKV_TESTS_SIM_H

#include "core/master/master.h"
#include "core/owner/owner.h"

#define SIM_PAGE	((uint64_t)4096)
#define SIM_KEYS_MAX	24u
#define SIM_CLIENTS_MAX	8u
#define SIM_BATCH_MAX	4u
#define SIM_HELD_MAX	64u
#define SIM_PUTS_MAX	32u
#define SIM_PENDS_MAX	8u
#define SIM_IOS_MAX	512u
#define SIM_HEADER	0xfffffff0u	/* key of a header page on disk */

struct sim_word {
	uint64_t tag;
	uint32_t key;
	uint32_t page;
};

/* A page of the segment, and who has a right to it. */
struct sim_page {
	struct sim_word w;
	uint64_t writer;		/* op id, or 0 */
	uint32_t readers;
};

struct sim_disk {
	struct sim_word *page;		/* of a shard */
	bool *flipped;			/* fault: differs from what was written */
};

struct sim_config {
	uint64_t seed;
	uint64_t steps;
	bool verbose;
	bool strict;			/* gets by the master's time, not the
					   owner's: as many owners need it */

	/* chosen by the seed */
	uint32_t pages, keys, clients, value_pages;
	uint32_t devices, shards, unit;	/* shards per device */
	uint32_t ring_pages;
	bool delayed;			/* messages take time */
	bool first;
	uint64_t client_cap;
	unsigned int p_read, p_write, p_flip, p_slow;	/* per mille */
	unsigned int p_die, p_stall, p_pin;
	uint64_t pace_ns;		/* between a client's actions */
};

enum sim_event_type {
	SIM_CLIENT,			/* a: client; b: its life */
	SIM_WRITE,			/* a: client; b: put id */
	SIM_IO,				/* a: slot; b: its use */
	SIM_TO_MASTER,
	SIM_TO_OWNER,
	SIM_SCAN,
	SIM_HITS,
	SIM_UNPIN,			/* a: pin id */
	SIM_READER,
	SIM_FLIP,
};

struct sim_event {
	uint64_t when, order;
	enum sim_event_type type;
	uint64_t a, b;
};

/* What an op id stands for, from the messages. */
struct sim_op {
	enum fkv_msg_type began;	/* PUT_START, GET_START, DELETE, ... */
	uint32_t key;
	uint64_t len;
	uint64_t extent, offset;
	bool writer;			/* its pages are its to write */
	bool held;			/* revoked, waits for QUIET */
};

struct sim_version {
	uint32_t key;
	uint64_t tag, len;
};

struct sim_state {
	uint64_t seq;
	uint64_t put_id;		/* 0: absent */
	uint64_t op;			/* that made it so, or 0 */
	uint64_t told;			/* step: the owner knows; 0: not yet */
};

struct sim_history {
	struct sim_state *at;
	size_t n, room;
	uint64_t last_put;
};

/* One entry of the shared index. */
struct sim_ientry {
	struct fkv_entry *entry;
	uint32_t key;
	uint64_t put_id, offset, len;
	uint32_t pins;
	uint32_t hits;
	bool live;			/* published, not retired */
	bool retired;			/* SCANNED is owed */
	bool hidden;			/* key too long for the index */
};

struct sim_pin {
	uint64_t id;
	uint64_t client;
	size_t ientry_id;
	uint32_t key;
	uint64_t put_id, offset, len;
	struct fkv_entry *entry;
};

enum sim_io_type { SIM_IO_READ, SIM_IO_WRITE, SIM_IO_HASH, SIM_IO_COPY };

struct sim_arena {
	uint32_t refs;
	struct sim_word *page;
};

struct sim_io {
	bool used;
	bool unused;			/* READ: its result will be thrown away */
	uint64_t use;			/* generation of the slot */
	enum sim_io_type type;
	uint64_t token, offset, len, seed, put_id, vpos, entry_len, from;
	uint64_t skip_vpos, skip_len;
	uint32_t shard, pages, left, chunks;
	int res;
	bool *moved;
	struct sim_arena *arena;
};

struct sim_put {
	uint64_t id;
	uint32_t key;
	uint64_t len, offset;
	uint32_t written;		/* pages */
	bool stalled;
};

struct sim_held {
	uint64_t id, put_id, offset, len;
	uint32_t key;
};

struct sim_pend_item {
	uint32_t key;
	uint64_t len, id;
	uint32_t flags;
};

struct sim_pend {
	uint64_t id;			/* of the call */
	uint16_t op, flags;
	uint32_t nr;
	uint64_t began, deadline_ns;	/* seq; time */
	uint64_t timeout_ns;
	struct sim_pend_item item[SIM_BATCH_MAX];
};

struct sim_client {
	bool up;
	uint64_t id;			/* of this life */
	struct sim_arena *arena;	/* NULL: writes to the segment */
	uint64_t arena_pages;
	struct sim_held held[SIM_HELD_MAX];
	uint32_t nr_held;
	struct sim_put put[SIM_PUTS_MAX];
	uint32_t nr_puts;
	struct sim_pend pend[SIM_PENDS_MAX];
	uint32_t nr_pends;
};

struct sim_post {
	struct fkv_msg msg;
	char text[FKV_TEXT_MAX];
	struct sim_post *next;
};

struct sim_fifo {
	struct sim_post *head, **tail;
	uint64_t last_ns;
};

struct sim_counts {
	uint64_t gets, hits, misses, puts, deletes, pins, evict_ok, evict_busy;
	uint64_t evict_held, reads, writes, flips, io_errors, deaths, nospace;
	uint64_t timeouts, ssd_hits, sum_errors, lost, expired;
};

struct sim {
	struct sim_config cfg;
	uint64_t rng;
	uint64_t now_ns, seq, steps;
	bool ending;			/* no new work, no faults */

	struct fkv_owner *owner;
	struct fkv_master *master;
	struct fkv_ring *ring;
	struct fkv_out out, mout;
	bool draining;
	uint64_t tick_for, tick_at;
	uint64_t refused;		/* messages, by the master */

	struct sim_event *heap;
	size_t nr_events, room_events;
	uint64_t event_order;

	struct sim_page *page;
	struct sim_disk disk[FKV_SHARDS_MAX];
	struct fkv_key *key[SIM_KEYS_MAX];

	struct sim_op *op;
	size_t nr_ops;
	struct sim_version *version;	/* by counter of the put id */
	size_t nr_versions;
	struct sim_history history[SIM_KEYS_MAX];

	struct sim_ientry *index;
	size_t nr_index, room_index;
	struct sim_pin *pin;
	size_t nr_pins, room_pins;
	uint64_t next_pin;
	bool scan_armed;

	struct sim_io io[SIM_IOS_MAX];
	uint64_t io_uses;

	struct sim_client client[SIM_CLIENTS_MAX];
	uint64_t next_client, next_call;

	struct sim_fifo to_master, to_owner;
	struct sim_counts n;
};

/* main.c: a broken rule ends the program with the command that replays it */
_Noreturn void sim_fail(struct sim *s, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));
void sim_say(struct sim *s, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));
#define sim_check(s, cond, ...) \
	do { \
		if (__builtin_expect(!(cond), 0)) \
			sim_fail(s, __VA_ARGS__); \
	} while (0)

/* random.c: all choices; and the queue of what happens when */
uint64_t sim_random(struct sim *s, uint64_t below);
bool sim_chance(struct sim *s, unsigned int per_mille);
/* 0 .. max, small ones more often */
uint64_t sim_delay(struct sim *s, uint64_t max_ns);
void sim_at(struct sim *s, uint64_t when_ns, enum sim_event_type type,
	    uint64_t a, uint64_t b);
bool sim_next(struct sim *s, struct sim_event *ret);

/* cores.c: one input to a core, and all that follows from it */
void sim_feed(struct sim *s, const struct fkv_in *in);
void sim_to_master(struct sim *s);
void sim_to_owner(struct sim *s);
bool sim_tick_due(struct sim *s, uint64_t before_ns);
void sim_tick(struct sim *s);
void sim_hits(struct sim *s, struct fkv_entry *e, uint64_t n);
void sim_posts_done(struct sim *s);

/* extents.c: pages, and who may touch them */
uint32_t sim_pages(uint64_t len);
void sim_readers(struct sim *s, uint64_t offset, uint64_t len, int add);
void sim_content(struct sim *s, const char *who, uint32_t key,
		 uint64_t put_id, uint64_t offset, uint64_t len);
void sim_page_write(struct sim *s, const char *who, uint64_t op,
		    uint64_t offset, struct sim_word w);
void sim_saw_request(struct sim *s, const struct fkv_msg *msg);
void sim_saw_answer(struct sim *s, const struct fkv_msg *msg);
struct sim_op *sim_op(struct sim *s, uint64_t op);

/* oracle.c: which version was current when */
uint32_t sim_key_of(const struct fkv_key *key);
struct sim_version *sim_version(struct sim *s, uint64_t put_id);
void sim_effect(struct sim *s, uint32_t key, uint64_t put_id, uint64_t op);
void sim_told(struct sim *s, const struct fkv_msg *msg);
void sim_effects_poll(struct sim *s);
uint64_t sim_current(const struct sim *s, uint32_t key);
bool sim_was_current(const struct sim *s, uint32_t key, uint64_t put_id,
		     uint64_t from_seq);
bool sim_may_get(const struct sim *s, uint32_t key, uint64_t put_id,
		 uint64_t from_seq);
bool sim_was_present(const struct sim *s, uint32_t key, uint64_t from_seq);
bool sim_took_effect(const struct sim *s, uint32_t key, uint64_t put_id,
		     uint64_t from_seq);
void sim_check_all(struct sim *s);
void sim_check_end(struct sim *s);

/* index.c: the shared index, its readers */
void sim_index_publish(struct sim *s, struct fkv_entry *e);
void sim_index_retire(struct sim *s, struct fkv_entry *e);
enum fkv_evict_result sim_index_evict(struct sim *s, struct fkv_entry *e);
/* Entries without pins that SCANNED is owed for: takes one, or NULL. */
struct fkv_entry *sim_index_scanned(struct sim *s);
size_t sim_index_retired(const struct sim *s);
void sim_index_read(struct sim *s);
void sim_index_unpin(struct sim *s, uint64_t pin);
void sim_index_client_gone(struct sim *s, uint64_t client);
void sim_index_hits(struct sim *s);
void sim_index_check(struct sim *s);

/* storage.c: SSD, hash and copy threads */
void sim_io_start(struct sim *s, struct fkv_cmd *cmd);
void sim_io_event(struct sim *s, const struct sim_event *ev);
void sim_io_void(struct sim *s, uint32_t key, uint64_t from, uint64_t to);
void sim_flip(struct sim *s);
bool sim_io_reads_into(const struct sim *s, uint64_t token);
void sim_io_done_all(struct sim *s);

/* client.c, reply.c */
void sim_client_start(struct sim *s, uint32_t i);
void sim_client_event(struct sim *s, const struct sim_event *ev);
void sim_client_write(struct sim *s, const struct sim_event *ev);
void sim_client_leave(struct sim *s, struct sim_client *c);
struct sim_client *sim_client(struct sim *s, uint64_t id);
void sim_arena_put(struct sim_arena *a);
void sim_reply(struct sim *s, struct fkv_call *call);
void sim_release(struct sim *s, struct sim_client *c, uint32_t i);
void sim_deadlines(struct sim *s);
/* One put of most of the segment by a client that came last. */
void sim_last_put(struct sim *s);

#endif
