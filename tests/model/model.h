/* SPDX-License-Identifier: Apache-2.0 */
/*
 * model.h - an exhaustive checker of small programs under C11 atomics
 *
 * A program is a few threads of loads, stores, compare-and-swaps, fences and
 * forward branches. The checker enumerates every control path, every choice of
 * which store each load reads and every order of the stores to one location,
 * keeps the executions that the axioms allow, and says whether one of them is
 * bad: by the program's own predicate, or because two plain accesses race.
 *
 * The axioms are those of RC11 (Lahav, Vafeiadis, Kang, Hur, Dreyer: Repairing
 * Sequential Consistency in C/C++11, PLDI 2017), with the release sequences of
 * C++20: a later store of the releasing thread does not continue one, so fewer
 * executions are forbidden here than C11 forbids. Not modelled: consume,
 * mixed-size accesses, loops (a retry is another run of the same program).
 *
 * Each instruction has a role: a line of the code under test, which has a
 * memory order in one table. A variant of a program changes the order of a
 * role, so the model and the code can be compared line by line.
 */
#ifndef FKV_MODEL_H
#define FKV_MODEL_H

#include <stdbool.h>
#include <stdint.h>

#define MAX_THREADS	4
#define MAX_INSNS	24
#define MAX_REGS	8
#define MAX_LOCS	8
#define MAX_PATH	16	/* events of a thread */
#define MAX_EVENTS	64	/* a row of a relation is one word */
#define MAX_VARIANTS	6
#define UNSET		(-1)

enum order { NONE, NA, RLX, ACQ, REL, ACQ_REL, SC };

/* The first roles are bare orders, for programs that model no code. */
enum role {
	R_NONE, R_NA, R_RLX, R_ACQ, R_REL, R_ACQ_REL, R_SC,
	/* the client: tools/lib/pins.c */
	R_BUCKET, R_GEN, R_FIELD, R_HW_COPY, R_HW_PAGE, R_HW_RAISE,
	R_HW_PUT_COPY, R_SLOT, R_P2, R_P3, R_BACKOUT, R_CLOCK, R_UNPIN,
	R_HEAD, R_RING,
	/* the daemon: daemon/io/index.c */
	R_FILL, R_PUBLISH, R_PUB_BUCKET, R_R1, R_KILL_BUCKET, R_R2_RETIRE,
	R_R2_EVICT, R_R2_SCAN, R_SCAN_HW, R_SCAN_SLOT, R_HITS_HEAD,
	R_HITS_RING,
	NR_ROLES
};

struct role_info {
	const char *name;	/* of the step, as comments and pages say it */
	const char *file, *function, *text;	/* the line that it models */
	const char *why;	/* it may be weaker; NULL: it may not */
	enum order order, weaker;
};

extern const struct role_info roles[NR_ROLES];

enum kind { LOAD, STORE, CAS, FENCE, BRANCH, SET };

struct insn {
	enum kind kind;
	enum role role;
	int loc, reg;
	int from, value;	/* what is stored: register (or -1) + value */
	int expect;		/* CAS */
	bool equal;	/* BRANCH: taken when (reg == from + value) is this */
	int target;
};

struct thread {
	struct insn insn[MAX_INSNS];
	int nr;
};

/* What is left when all threads are done. */
struct outcome {
	int reg[MAX_THREADS][MAX_REGS];
	int mem[MAX_LOCS];
};

struct program {
	struct thread thread[MAX_THREADS];
	int nr_threads, nr_locs;
	int init[MAX_LOCS];
	bool uses_mem;		/* the predicates look at outcome.mem */
	enum order order[NR_ROLES];
	bool used[NR_ROLES];
};

struct verdict {
	bool bad, race;
	bool wanted;		/* what the program must be able to do */
	unsigned long executions;	/* allowed ones looked at */
};

typedef bool (*predicate)(const struct outcome *o);

/* A change of a program: orders of roles, and shapes that it knows itself. */
struct variant {
	const char *name;
	enum role role[2];
	enum order to[2];
	int shape;
	bool found;		/* expected: a bad execution exists */
	const char *why;	/* when none does */
};

struct litmus {
	const char *name;
	void (*build)(struct program *p, int shape);
	predicate bad;
	predicate want;
	enum role breaks[8];	/* roles whose weakening must be found */
	struct variant variant[MAX_VARIANTS];
};

void program_init(struct program *p, int nr_threads, int nr_locs);
void load(struct program *p, int t, enum role role, int loc, int reg);
void store(struct program *p, int t, enum role role, int loc, int value);
void fence(struct program *p, int t, enum role role);
void set(struct program *p, int t, int reg, int value);
/* Returns where it is, for land(). */
int insn_add(struct program *p, int t, struct insn in);

#define store_reg(p, t, ro, lo, fr, add) \
	insn_add(p, t, (struct insn){ .kind = STORE, .role = ro, .loc = lo, \
				      .from = fr, .value = add })
/* register @rg: 1 when it stored, 0 when it saw another value than @ex */
#define cas(p, t, ro, lo, ex, fr, add, rg) \
	insn_add(p, t, (struct insn){ .kind = CAS, .role = ro, .loc = lo, \
				      .expect = ex, .from = fr, \
				      .value = add, .reg = rg })
/* Forward branches; land() says where to. @fr -1: compare with @add. */
#define branch(p, t, rg, eq, fr, add) \
	insn_add(p, t, (struct insn){ .kind = BRANCH, .role = R_NONE, \
				      .reg = rg, .equal = eq, .from = fr, \
				      .value = add, .target = MAX_INSNS })
void land(struct program *p, int t, int at);
void stop_if(struct program *p, int t, int reg, bool equal, int value);

void check_program(const struct program *p, predicate bad, predicate want,
		   struct verdict *ret);

/* graph.c: one execution */
struct event {
	enum kind kind;		/* CAS: one event that reads and writes */
	enum order order;
	int thread;		/* -1: initial store */
	int loc;
	int rval, wval;
};

struct graph {
	struct event ev[MAX_EVENTS];
	int nr, nr_locs;
	int rf[MAX_EVENTS];		/* of a load: the store it reads */
	int mo[MAX_LOCS][MAX_EVENTS];	/* stores of a location, in order */
	int nr_mo[MAX_LOCS];
	uint64_t sb[MAX_EVENTS];
	uint64_t hb[MAX_EVENTS];
};

/* After rf is chosen: false when no order of the stores can be consistent. */
bool graph_happens_before(struct graph *g);
bool graph_races(const struct graph *g);
/* After mo of one location, or of all, is chosen. */
bool graph_coherent(const struct graph *g, int loc);
bool graph_sc(const struct graph *g);

static inline bool reads(const struct event *e)
{
	return e->kind == LOAD || e->kind == CAS;
}

static inline bool writes(const struct event *e)
{
	return e->kind == STORE || e->kind == CAS;
}

extern const struct litmus sanity_litmus[], handshake_litmus[];

/* ties.c: does the code still say what the roles model? */
int check_ties(const char *root, unsigned int *ret_passed);

#endif
