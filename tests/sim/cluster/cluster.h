/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cluster.h - one master core and several owner cores in a world from a seed
 *
 * The world is what the cores do not see: segments, disks, connections of
 * data, sessions, indexes with their readers, clients, clocks. Each 4 KiB page
 * is one word. What may still write to memory is an object of the world, and
 * goes on when who began it is frozen or dead, until the target's host has
 * fenced it; so whether memory that is given out is quiet can be looked up.
 *
 * Sessions keep order and lose nothing; cut ones deliver later. Which version
 * of a key is current is what the master's answers say.
 */
#ifndef FKV_TESTS_SIM_CLUSTER_H
#define FKV_TESTS_SIM_CLUSTER_H

#include "core/master/master.h"
#include "core/owner/owner.h"

#define CS_PAGE		((uint64_t)4096)
#define CS_OWNERS	5u
#define CS_KEYS		40u
#define CS_CLIENTS	4u		/* of an owner */
#define CS_PENDS	4u
#define CS_PUTS		4u
#define CS_HELD		8u
#define CS_MOVERS	512u
#define CS_STAGES	128u
#define CS_OPENS	64u
#define CS_INDEX	1024u
#define CS_PINS		256u
#define CS_VERSIONS	65536u
#define CS_CHUNKS	2u
#define CS_LIVES	200u
#define CS_MASTER	CS_OWNERS	/* as a host */
#define CS_HOSTS	(CS_OWNERS + 1)

struct cs_word {
	uint64_t tag;
	uint32_t key, page;
};

/* Memory and disks of one process. */
struct cs_segment {
	struct cs_word *page;
	uint16_t *readers;
	struct cs_word *disk[FKV_SHARDS_MAX];
	bool *spoiled[FKV_SHARDS_MAX];
};

enum cs_fault {
	CS_KILL_OWNER, CS_KILL_MASTER, CS_FREEZE_OWNER, CS_FREEZE_MASTER,
	CS_CUT_SESSION, CS_CUT_DATA, CS_READ_FAIL, CS_READ_FLIP, CS_WRITE_FAIL,
	CS_DATA_FAIL, CS_CLIENT_GONE, CS_NOMEM, CS_FAULTS,
};

enum cs_event_type {
	CS_ACT,			/* a: owner; b: client */
	CS_WRITE,		/* a: owner, client; b: put */
	CS_UNHOLD,		/* a: owner, client; b: holder */
	CS_MOVE,		/* a: mover; b: its use */
	CS_TO_MASTER,		/* a: owner; b: session */
	CS_TO_OWNER,		/* the same */
	CS_SCAN,		/* a: owner */
	CS_HITS,		/* a: owner */
	CS_UNPIN,		/* a: pin */
	CS_THAW,		/* a: host */
	CS_RESTART,		/* a: host; b: number of its life */
	CS_DIAL,		/* a: owner; b: life */
	CS_HANG_UP,		/* a: owner; b: session: it learns of its end */
	CS_STAGE,		/* a: stage; b: its use: at the source */
	CS_PUSHED,		/* the same: the answer arrives */
	CS_INPUT,		/* a: owner; b: struct cs_input */
	CS_FAULT,		/* a: fault */
};

struct cs_event {
	uint64_t when, order, a, b;
	enum cs_event_type type;
};

struct cs_post {
	struct cs_post *next;
	bool cluster;
	struct fkv_msg msg;
	struct fkv_cluster_msg cm;
	void *array;
	char name[32];
};

struct cs_fifo {
	struct cs_post *head, **tail;
	uint64_t last_ns;
};

/* An input that comes by itself, or waits for a frozen owner. */
struct cs_input {
	struct fkv_in in;
	struct fkv_cluster_stage_read stage;
	uint64_t sums[4];
	uint32_t life;
	struct cs_input *next;
};

enum cs_mover_type {
	CS_IO_READ, CS_IO_WRITE, CS_HASH, CS_COPY, CS_PULL, CS_PUSH,
};

struct cs_mover {
	bool used;
	bool orphan;		/* its driver died: it goes on for a while */
	enum cs_mover_type type;
	uint64_t use;
	uint32_t driver, life;	/* who began it */
	uint64_t token;
	uint32_t src, src_life, dst, dst_life;
	uint64_t from, to;	/* bytes */
	uint32_t pages, steps;
	uint64_t seed, len;
	bool *moved;
	int res;
	bool flip;
	uint32_t shard;
	uint64_t vpos;
	bool part;
	struct fkv_xfer xfer;
	uint64_t tag;		/* COPY */
	uint32_t key;
};

/* B asked S to push. */
struct cs_stage {
	bool used;
	uint64_t use;
	uint32_t owner, life, source, source_life;
	uint64_t token, op, offset, len, put_id, incarnation;
	struct fkv_key *key;
	int res;
};

struct cs_open {
	bool used;
	uint32_t owner, life;
	uint64_t incarnation, op, offset, len;
};

struct cs_ientry {
	struct fkv_entry *entry;
	uint32_t key, pins;
	uint64_t put_id, offset, len;
	bool live, retired;
};

struct cs_pin {
	bool used;
	uint32_t owner, life, key;
	struct fkv_entry *entry;
	uint64_t put_id, offset, len;
};

struct cs_put {
	uint64_t id, offset, len, tag;
	uint32_t key;
	bool used, written;
};

struct cs_held {
	bool used;
	uint64_t id, put_id, offset, len;
	uint32_t key;
};

struct cs_pend {
	bool used;
	uint64_t id, began_seq, deadline_ns, tag, hold, len, timeout_ns;
	uint16_t op;
	uint32_t key, flags;
};

/* What a client asks for. */
struct cs_ask {
	uint16_t op;
	uint32_t key, flags;
	uint64_t id, len, tag;
};

struct cs_client {
	bool up, arena;
	uint64_t id;
	struct cs_pend pend[CS_PENDS];
	struct cs_put put[CS_PUTS];
	struct cs_held held[CS_HELD];
};

struct cs_op {
	uint64_t len;
	uint32_t key;
};

struct cs_host {
	bool down, frozen;
	uint64_t thaw_ns, woke_ns, restart_ns;
	uint64_t first_ns, rate;	/* its clock */
	uint64_t tick_for, tick_at;
	uint32_t life;
};

struct cs_owner {
	struct fkv_owner *core;
	struct fkv_ring *ring;
	struct fkv_out out;
	struct cs_segment seg[CS_LIVES];
	struct cs_ientry index[CS_INDEX];
	uint32_t nr_index;
	struct cs_client client[CS_CLIENTS];
	struct cs_input *later, **later_tail;
	struct cs_fifo to_master, to_owner;
	uint64_t session;		/* number of it, or 0: none */
	uint64_t incarnation;
	uint64_t old[CS_LIVES];		/* incarnations of this life */
	uint32_t nr_old;
	bool registered;
	bool registers;			/* in this step */
	bool ended;			/* by the master; it does not know */
	bool cut[2];			/* to master, to owner */
	uint64_t cut_until_ns[2];
	struct cs_op *op[CS_LIVES];
	size_t nr_ops[CS_LIVES];
	uint32_t registered_life;	/* of the life that the master knows */
	bool scanning;
	char name[8];
	uint32_t pages, value_pages;
	uint32_t shards;
};

struct cs_version {
	uint64_t tag, len;
	uint32_t key;
};

/* One, as it lies in an owner's memory. */
struct cs_value {
	uint32_t key;
	uint64_t put_id, offset, len;
};

struct cs_state {
	uint64_t seq, put_id;
};

struct cs_history {
	struct cs_state *at;
	size_t n, room;
	uint64_t last_put;
};

struct cs_cover {
	uint64_t gets, puts, deletes, steps, seeds;
	uint64_t pulls, stages, pushes, fences, tombs, revived, temporary;
	uint64_t promotions, suspected, hits, reads, persists, rejoins, lost;
	uint64_t busy, stale_served, unknown, moved_bad, fault[CS_FAULTS];
	uint64_t pull_ok, stage_ok, push_ok;
};

struct cs {
	uint64_t seed, rng, now_ns, seq, steps, max_steps;
	bool verbose, ending, serving;
	bool in_core;
	uint64_t nomem_until_ns, nomem_ns;	/* allocations fail; one did */
	uint32_t owners, keys, p[CS_FAULTS];
	uint64_t pace_ns, delay_ns;
	struct cs_host host[CS_HOSTS];
	struct cs_owner owner[CS_OWNERS];
	bool data_cut[CS_OWNERS][CS_OWNERS];
	uint64_t data_until_ns[CS_OWNERS][CS_OWNERS];
	uint32_t by_peer[FKV_OWNERS_MAX];	/* owner + 1 */
	uint32_t peer_of[CS_OWNERS];
	struct fkv_master *master;
	struct fkv_out mout;
	uint64_t epoch, sessions, next_call, next_client;
	struct cs_mover mover[CS_MOVERS];
	struct cs_stage stage[CS_STAGES];
	struct cs_open open[CS_OPENS];
	struct cs_pin pin[CS_PINS];
	uint64_t uses;
	struct fkv_key *key[CS_KEYS];
	struct cs_history history[CS_KEYS];
	struct cs_version *version;	/* by hash of put_id */
	uint64_t *version_id;
	struct cs_event *heap;
	size_t nr_events, room_events;
	uint64_t event_order;
	struct cs_cover n;
	uint64_t last_id;		/* the call of the end */
	int last_status;
	bool last_done;
};

extern struct cs *cs_running;

_Noreturn void cs_fail(struct cs *s, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));
void cs_say(struct cs *s, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));
#define cs_check(s, cond, ...) \
	do { \
		if (__builtin_expect(!(cond), 0)) \
			cs_fail(s, __VA_ARGS__); \
	} while (0)

/* world.c */
uint64_t cs_random(struct cs *s, uint64_t below);
bool cs_chance(struct cs *s, unsigned int per_mille);
uint64_t cs_delay(struct cs *s, uint64_t max_ns);
bool cs_fault(struct cs *s, enum cs_fault f);
void cs_at(struct cs *s, uint64_t when, enum cs_event_type type, uint64_t a,
	   uint64_t b);
uint64_t cs_clock(const struct cs *s, uint32_t host);
void cs_run(uint64_t seed, uint64_t steps, bool verbose, struct cs_cover *sum);

/* host.c: owners and the master as processes; sessions between them */
void cs_owner_start(struct cs *s, uint32_t i);
void cs_owner_kill(struct cs *s, uint32_t i);
void cs_master_start(struct cs *s);
void cs_master_kill(struct cs *s);
void cs_feed(struct cs *s, uint32_t i, const struct fkv_in *in);
/* The same, later and with its own copy of what it points to. */
void cs_input(struct cs *s, uint32_t i, const struct cs_input *in,
	      uint64_t after_ns);
void cs_input_event(struct cs *s, const struct cs_event *ev);
void cs_thaw(struct cs *s, uint32_t host);
void cs_freeze(struct cs *s, uint32_t host, uint64_t for_ns);
void cs_session_cut(struct cs *s, uint32_t i);
void cs_dial(struct cs *s, uint32_t i, uint64_t life);
void cs_hang_up(struct cs *s, uint32_t i, uint64_t session);
void cs_to_master(struct cs *s, uint32_t i, uint64_t session);
void cs_to_owner(struct cs *s, uint32_t i, uint64_t session);
void cs_tick(struct cs *s, uint32_t host);
uint64_t cs_tick_at(struct cs *s, uint32_t host);
void cs_done(struct cs *s);
/* The owner of that incarnation, if that process still is; or CS_OWNERS. */
uint32_t cs_by_incarnation(const struct cs *s, uint64_t incarnation);
bool cs_lease_valid(const struct cs *s, uint32_t i);
struct cs_op *cs_op(struct cs *s, uint32_t i, uint32_t life, uint64_t id);
void cs_master_step(struct cs *s, uint32_t i, struct cs_post *p);

/* data.c: what moves pages */
struct cs_segment *cs_segment(struct cs *s, uint32_t i);
uint32_t cs_pages(uint64_t len);
void cs_command(struct cs *s, uint32_t i, struct fkv_cmd *cmd);
void cs_move(struct cs *s, uint64_t slot, uint64_t use);
void cs_stage_event(struct cs *s, const struct cs_event *ev);
void cs_write(struct cs *s, const char *who, uint32_t i, uint64_t offset,
	      struct cs_word w);
void cs_read(struct cs *s, uint32_t i, uint64_t offset, uint64_t len, int add);
/* (1): what is there is that version. */
void cs_content(struct cs *s, const char *who, uint32_t i,
		struct cs_value val);
/* (2): nothing may still write there, nobody reads it. */
void cs_quiet(struct cs *s, const char *who, uint32_t i, uint64_t offset,
	      uint64_t len);
void cs_data_killed(struct cs *s, uint32_t i);
void cs_data_done(struct cs *s);

/* index.c: what an owner shows, and its readers */
void cs_publish(struct cs *s, uint32_t i, struct fkv_entry *e);
void cs_retire(struct cs *s, uint32_t i, struct fkv_entry *e);
enum fkv_evict_result cs_evict(struct cs *s, uint32_t i, struct fkv_entry *e);
void cs_scan(struct cs *s, uint32_t i);
void cs_pin_some(struct cs *s, uint32_t i);
void cs_unpin(struct cs *s, uint64_t pin);
void cs_hits(struct cs *s, uint32_t i);
void cs_index_check(struct cs *s, uint32_t i);

/* client.c */
void cs_clients_start(struct cs *s, uint32_t i);
void cs_clients_die(struct cs *s, uint32_t i);
void cs_client_act(struct cs *s, uint32_t i, uint64_t c);
void cs_client_write(struct cs *s, uint64_t who, uint64_t put);
void cs_client_unhold(struct cs *s, uint64_t who, uint64_t id);
void cs_client_leave(struct cs *s, uint32_t i, struct cs_client *c);
void cs_reply(struct cs *s, uint32_t i, struct fkv_call *call);
void cs_deadlines(struct cs *s);
bool cs_last_call(struct cs *s, uint32_t i, const struct cs_ask *ask);

/* oracle.c */
uint32_t cs_key_of(const struct fkv_key *key);
struct cs_version *cs_version(struct cs *s, uint64_t put_id, bool add);
uint64_t cs_current(const struct cs *s, uint32_t key);
void cs_effect(struct cs *s, uint32_t key, uint64_t put_id);
void cs_poll(struct cs *s);
bool cs_was_current(const struct cs *s, uint32_t key, uint64_t put_id,
		    uint64_t from_seq);
bool cs_ever(const struct cs *s, uint32_t key, uint64_t put_id);
void cs_master_saw(struct cs *s, size_t from);

#endif
