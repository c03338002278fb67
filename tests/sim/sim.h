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
#include "cover.h"

#define SIM_PAGE	((uint64_t)4096)
#define SIM_KEYS_MAX	48u
#define SIM_CLIENTS_MAX	8u
#define SIM_BATCH_MAX	4u
#define SIM_HELD_MAX	64u
#define SIM_PUTS_MAX	32u
#define SIM_PENDS_MAX	8u
#define SIM_IOS_MAX	512u
#define SIM_HEADER	0xfffffff0u	/* key of a header page on disk */
#define SIM_DROPS_MAX	1024u
#define SIM_LIVES_MAX	16u

/*
 * Who acts on its own. What an actor does for the n-th time, and when, follows
 * from the seed, its number and n alone: leaving out one act changes no other.
 */
enum sim_actor {
	SIM_ACTOR_READER = SIM_CLIENTS_MAX,
	SIM_ACTOR_FLIP,
	SIM_ACTOR_FREEZE,
	SIM_ACTOR_JUMP,
	SIM_ACTOR_DEVICE,
	SIM_ACTOR_ALLOC,
	SIM_ACTOR_KILL,
	SIM_ACTOR_CRASH,
	SIM_ACTORS,
};

enum sim_core { SIM_OWNER, SIM_MASTER, SIM_CORES };

struct sim_word {
	uint64_t tag;
	uint32_t key;
	uint32_t page;
};

/* A page of the segment, and who has a right to it. */
struct sim_page {
	struct sim_word w;
	uint64_t writer;		/* op id, or 0 */
	uint64_t extent;		/* that was planned here last */
	uint64_t idle_ns;		/* when somebody last used it */
	uint32_t readers;
	uint32_t shown;			/* of the readers: published entries */
};

struct sim_disk {
	struct sim_word *page;		/* of a shard */
	bool *spoiled;			/* fault: not what was written */
};

/* Acts @from to @to of an actor do not happen. */
struct sim_drop {
	uint32_t actor, from, to;
};

struct sim_args {
	uint64_t seeds, jobs;
	bool shrink;
	bool partial;			/* not all faults: not all paths */
};

struct sim_config {
	uint64_t seed;
	uint64_t steps;
	uint64_t until_ns;		/* clients leave by then */
	bool verbose;
	uint64_t without;		/* faults that do not happen */
	struct sim_drop drop[SIM_DROPS_MAX];
	uint32_t nr_drops;

	/* chosen by the seed */
	uint32_t pages, keys, clients, value_pages;
	uint32_t devices, shards, unit;	/* shards per device */
	uint32_t ring_pages;
	bool delayed;			/* messages take time */
	bool first;
	uint64_t client_cap, uid_cap;
	unsigned int p[SIM_FAULTS_NR];	/* per mille */
	unsigned int p_pin;
	unsigned int p_get, p_put;	/* of a client's acts, percent */
	bool flat;			/* keys alike, not some hot */
	uint64_t pace_ns;		/* between a client's actions */
};

enum sim_event_type {
	SIM_ACT,			/* a: actor; b: number of its act */
	SIM_WRITE,			/* a: client; b: put id */
	SIM_IO,				/* a: slot; b: its use */
	SIM_TO_MASTER,			/* b: life that it is of */
	SIM_TO_OWNER,			/* b: the same */
	SIM_SCAN,
	SIM_HITS,
	SIM_UNPIN,			/* a: pin id */
	SIM_THAW,			/* a: core */
	SIM_DEVICE_BACK,		/* a: device */
	SIM_RESTART,
};

struct sim_event {
	uint64_t when, order;
	uint64_t id;			/* seeds what happens in it */
	enum sim_event_type type;
	uint64_t a, b;
};

/* What an op id stands for, from the messages. */
struct sim_op {
	enum fkv_msg_type began;	/* PUT_START, GET_START, DELETE, ... */
	uint32_t key;
	uint64_t len;
	uint64_t extent, offset, put_id;
	uint32_t flags;
	uint8_t class;
	bool writer;			/* its pages are its to write */
	bool held;			/* revoked, waits for QUIET */
	int copied;			/* how its copy ended */
	uint64_t opened_ns;		/* its plan came: owner's clock */
};

struct sim_version {
	uint32_t key;
	uint64_t tag, len;
	uint64_t uses;			/* gets planned, pins */
	uint64_t writes;		/* to SSD */
	bool granted;			/* the owner may publish it */
};

struct sim_state {
	uint64_t seq;
	uint64_t put_id;		/* 0: absent */
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
	uint32_t key, life;
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
	bool unused;			/* READ: nobody wants it any more */
	bool spoiled;			/* READ: moved what is not right */
	enum sim_fault fault;		/* or SIM_FAULTS_NR */
	uint64_t seq, began_ns;
	uint64_t use;			/* generation of the slot */
	enum sim_io_type type;
	uint64_t token, offset, len, seed, put_id, vpos, entry_len, from;
	uint64_t skip_vpos, skip_len;
	uint32_t shard, pages, most, chunks, life;
	int res;
	bool *moved;
	struct sim_arena *arena;
};

struct sim_extent {
	uint32_t refs;			/* the owner's */
	uint64_t offset;		/* if it was ever persisted */
};

/* One entry that was written to a shard. */
struct sim_persist {
	uint64_t seq, put_id, vpos;
	uint32_t shard, key;
};

struct sim_put {
	uint64_t id;
	uint32_t key;
	uint64_t len, offset;
	uint32_t written;		/* pages */
	bool stalled;
	uint64_t opened_ns, until_ns;	/* by the owner's clock */
	bool extended;
};

struct sim_held {
	uint64_t id, put_id, offset, len;
	uint32_t key;
};

struct sim_pend_item {
	uint32_t key;
	uint64_t len, id;
	uint64_t opened_ns, until_ns;	/* of a put */
	bool extended;
	uint32_t flags;
};

struct sim_pend {
	uint64_t id;			/* of the call */
	uint16_t op, flags;
	uint32_t nr;
	uint64_t began;			/* seq */
	bool foreign;			/* names what is not its client's */
	uint64_t asked_ns;
	uint64_t called_ns;		/* the owner has it since then */
	uint64_t began_ns, deadline_ns;	/* the same by the owner's clock */
	uint64_t timeout_ns;
	struct sim_pend_item item[SIM_BATCH_MAX];
};

struct sim_client {
	bool up;
	uint64_t id;			/* of this connection */
	uint32_t life;			/* of the owner that it knows */
	uint32_t uid;
	uint64_t came_ns;
	uint64_t counted;		/* pinned bytes, as last told */
	bool stalled;			/* a put of it grew old */
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

/*
 * One life of the cores, from start to crash: its segment, which those who
 * mapped it keep, and what its op ids and versions stand for.
 */
struct sim_life {
	struct sim_page *page;
	struct sim_op *op;
	size_t nr_ops;
	uint64_t epoch;
	struct sim_version *version;	/* by counter of the put id */
	size_t nr_versions;
};

/* A core's own time: it runs faster or slower, and began anywhere. */
struct sim_clock {
	uint64_t since_ns;		/* when the world's was this, */
	uint64_t first_ns;		/* it was that */
	uint64_t rate;			/* of 1,024 */
};

/* An input that waits for a frozen owner. */
struct sim_later {
	struct fkv_in in;
	struct sim_later *next;
};

struct sim {
	struct sim_config cfg;
	uint64_t rng;
	uint64_t now_ns, seq, steps;
	bool ending;			/* no new work, no faults */
	uint64_t end_ns;		/* since when */

	struct fkv_owner *owner;
	struct fkv_master *master;
	struct fkv_ring *ring;
	struct fkv_out out, mout;
	bool draining;
	uint64_t tick_for[SIM_CORES], tick_at[SIM_CORES];
	bool frozen[SIM_CORES];
	uint64_t froze_ns[SIM_CORES], thaw_ns[SIM_CORES];
	struct sim_clock clock[SIM_CORES];
	bool down[SIM_CORES];		/* crashed */
	uint64_t down_ns, restart_ns;
	uint64_t epoch;			/* what the epoch file says */
	uint64_t late;			/* completions for an earlier life */
	uint64_t woke_ns;		/* after the last freeze or jump */
	struct sim_later *later, **later_tail;
	bool gone[FKV_DEVICES_MAX];
	uint32_t in_core;		/* 1 + core: whose code runs */
	uint32_t alloc_steps;		/* while allocations fail */
	uint64_t alloc_ns;		/* when one did last */
	const char *rule;		/* that an assertion would break */
	uint64_t refused;		/* messages, by the master */

	struct sim_event *heap;
	size_t nr_events, room_events;
	uint64_t event_order;
	uint64_t event_id, event_children;
	uint32_t acts[SIM_ACTORS];	/* so far */

	struct sim_life lives[SIM_LIVES_MAX];
	uint32_t life;			/* the cores' */
	struct sim_life *l;		/* whose segment and ops are meant */
	struct sim_disk disk[FKV_SHARDS_MAX];
	struct fkv_key *key[SIM_KEYS_MAX];

	struct sim_history history[SIM_KEYS_MAX];

	struct sim_ientry *index;
	size_t nr_index, room_index;
	struct sim_pin *pin;
	size_t nr_pins, room_pins;
	uint64_t next_pin;
	bool scan_armed;

	struct sim_io io[SIM_IOS_MAX];
	uint64_t io_uses, io_until_ns;
	struct sim_persist *persist;
	size_t nr_persists, room_persists;

	struct sim_extent *extent;
	size_t nr_extents;
	uint64_t exposed;		/* pages that ops may write */
	uint64_t told_pins;		/* bytes, as the master knows */
	uint64_t devices_on;		/* the same */
	uint64_t len_max[2], len_window;
	uint64_t full_ns;		/* class limits were in the way */

	struct sim_client client[SIM_CLIENTS_MAX];
	uint64_t next_client, next_call;
	uint32_t last_key;

	struct sim_fifo to_master, to_owner;
	struct sim_cover n;
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

/* What a process that found something tells the one that started it. */
struct sim_report {
	bool failed;
	char rule[80];			/* "(3)" */
	uint64_t seed;
	uint64_t until_ns;		/* the run may end here */
	uint32_t acts[SIM_ACTORS];
	uint64_t fault[SIM_FAULTS_NR];
};

extern struct sim_report *sim_report;

/* One run in a process of its own; false when a rule was broken. */
bool sim_try(const struct sim_config *cfg, bool quiet);

/* world.c: one seed from the first step to the last */
void sim_run(const struct sim_config *cfg, struct sim_cover *total);
extern struct sim *sim_running;

/* lives.c: cores start, crash and start again */
void sim_life_begin(struct sim *s);
void sim_life_end(struct sim *s);
void sim_crash(struct sim *s, enum sim_core core);
void sim_restart(struct sim *s);
/* Is its owner there, and still the one that it knows? */
bool sim_connected(const struct sim *s, const struct sim_client *c);
/* From now on the segment and ops of @life are meant. */
void sim_view(struct sim *s, uint32_t life);
/* What a page says that op @op of the life that is meant wrote. */
uint64_t sim_tag(const struct sim *s, uint64_t op);

/* clock.c: what a core takes for the time, now and at @world_ns; and back */
void sim_clocks_start(struct sim *s);
uint64_t sim_clock(const struct sim *s, enum sim_core core);
uint64_t sim_clock_at(const struct sim *s, enum sim_core core,
		      uint64_t world_ns);
uint64_t sim_clock_when(const struct sim *s, enum sim_core core,
			uint64_t core_ns);
/* It stood still for so long, up to now. */
void sim_clock_stood(struct sim *s, enum sim_core core, uint64_t for_ns);
/* A time is told to the other core as what is left of it. */
uint64_t sim_clock_left(const struct sim *s, enum sim_core core,
			uint64_t core_ns);
uint64_t sim_clock_after(const struct sim *s, enum sim_core core,
			 uint64_t left_ns);

/* options.c: the command line, and the one that runs this configuration */
void sim_options(int argc, char **argv, struct sim_config *cfg,
		 struct sim_args *args);
void sim_say_replay(const struct sim_config *cfg);

/* shrink.c */
void sim_shrink(struct sim_config *cfg);
bool sim_dropped(const struct sim_config *cfg, uint32_t actor, uint32_t n);

/* random.c: all choices; and the queue of what happens when */
uint64_t sim_random(struct sim *s, uint64_t below);
bool sim_chance(struct sim *s, unsigned int per_mille);
/* 0 .. max, small ones more often */
uint64_t sim_delay(struct sim *s, uint64_t max_ns);
/* All choices from now on follow from @id. */
void sim_reseed(struct sim *s, uint64_t id);
void sim_at(struct sim *s, uint64_t when_ns, enum sim_event_type type,
	    uint64_t a, uint64_t b);
void sim_act_at(struct sim *s, uint64_t when_ns, uint32_t actor, uint32_t n);
bool sim_next(struct sim *s, struct sim_event *ret);

/* faults.c: does it happen here? Counted when it does. */
bool sim_fault(struct sim *s, enum sim_fault f);
void sim_choose_faults(struct sim *s);
void sim_fault_act(struct sim *s, const struct sim_event *ev);
uint64_t sim_fault_pause(struct sim *s, uint32_t actor);
void sim_thaw(struct sim *s, enum sim_core core);
void sim_device_back(struct sim *s, uint64_t device);
/* May a call of that time say that there was no memory? */
bool sim_out_of_memory(const struct sim *s, uint64_t since_ns);

/* cores.c: one input to a core, and all that follows from it */
void sim_feed(struct sim *s, const struct fkv_in *in);
void sim_feed_later(struct sim *s);
void sim_to_master(struct sim *s, uint64_t life);
void sim_to_owner(struct sim *s, uint64_t life);
bool sim_tick_due(struct sim *s, uint64_t before_ns);
void sim_tick(struct sim *s);
void sim_hits(struct sim *s, struct fkv_entry *e, uint64_t n);
void sim_posts_done(struct sim *s);
void sim_later_done(struct sim *s);

/* extents.c: pages, and who may touch them */
uint32_t sim_pages(uint64_t len);
void sim_readers(struct sim *s, uint64_t offset, uint64_t len, int add);
void sim_show(struct sim *s, uint64_t offset, uint64_t len, int add);
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
void sim_effect(struct sim *s, uint32_t key, uint64_t put_id);
void sim_effects_poll(struct sim *s);
uint64_t sim_current(const struct sim *s, uint32_t key);
bool sim_was_current(const struct sim *s, uint32_t key, uint64_t put_id,
		     uint64_t from_seq);
bool sim_was_present(const struct sim *s, uint32_t key, uint64_t from_seq);
bool sim_took_effect(const struct sim *s, uint32_t key, uint64_t put_id,
		     uint64_t from_seq);
void sim_check_all(struct sim *s);
void sim_check_end(struct sim *s);

/* books.c: accounts of the master's, kept a second time from the messages */
void sim_books_sent(struct sim *s, const struct fkv_msg *msg);
void sim_books_got(struct sim *s, const struct fkv_msg *msg);
void sim_books_check(struct sim *s);
void sim_books_limits(struct sim *s, size_t from);
void sim_books_granted(struct sim *s, const struct fkv_msg *msg);
void sim_books_written(struct sim *s, const struct sim_io *io, uint32_t key);
void sim_books_wants(struct sim *s, uint64_t len);
void sim_books_full(struct sim *s, const struct fkv_master_stats *m);
void sim_books_no_room(struct sim *s, uint64_t since_ns);
void sim_books_cap(struct sim *s, const struct sim_client *c, bool all);
void sim_books_end(struct sim *s);

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
uint64_t sim_index_pinned(const struct sim *s, uint64_t client);
void sim_index_hits(struct sim *s);
void sim_index_held(struct sim *s);
void sim_index_check(struct sim *s);

/* storage.c: SSD, hash and copy threads */
void sim_io_start(struct sim *s, struct fkv_cmd *cmd);
void sim_io_event(struct sim *s, const struct sim_event *ev);
void sim_io_void(struct sim *s, uint32_t key, uint64_t from, uint64_t to);
void sim_flip(struct sim *s);
void sim_io_device_gone(struct sim *s, uint32_t device);
/* Some of what is under way ends only in the next life. */
void sim_io_linger(struct sim *s);
void sim_io_committed(struct sim *s, const struct fkv_msg *msg);
bool sim_io_copies(const struct sim *s, uint64_t token);
bool sim_io_reads_into(const struct sim *s, uint64_t token);
void sim_io_done_all(struct sim *s);

/* client.c, reply.c */
void sim_client_start(struct sim *s, uint32_t i);
uint64_t sim_client_pause(struct sim *s);
void sim_client_act(struct sim *s, uint32_t i);
void sim_client_kill(struct sim *s, struct sim_client *c);
/* The owner takes the call in: its time begins. */
void sim_client_called(struct sim *s, const struct fkv_call *call);
void sim_client_write(struct sim *s, const struct sim_event *ev);
void sim_client_leave(struct sim *s, struct sim_client *c);
struct sim_client *sim_client(struct sim *s, uint64_t id);
void sim_arena_put(struct sim_arena *a);
void sim_reply(struct sim *s, struct fkv_call *call);
void sim_release(struct sim *s, struct sim_client *c, uint32_t i);
void sim_deadlines(struct sim *s);
/* Most of the segment by a client that came last; its commit; its get. */
void sim_last_put(struct sim *s);
void sim_last_commit(struct sim *s);
void sim_last_get(struct sim *s);

#endif
