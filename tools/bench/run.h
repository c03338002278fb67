/* SPDX-License-Identifier: Apache-2.0 */
/*
 * run.h - closed loops in processes and threads
 *
 * A run forks its processes, each opens its own client and starts its
 * threads, all begin together and repeat one operation until the end. An
 * operation counts when it ends inside the window, that is after the warm-up
 * and before the end. Results live in memory shared with the parent, one
 * writer each, and are merged when all have ended.
 *
 * The parent must have no client open and no second thread: it forks.
 */
#ifndef FKV_BENCH_RUN_H
#define FKV_BENCH_RUN_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include <fluxonkv.h>

#include "bench/hist.h"

#define BENCH_PROCESSES_MAX	64u
#define BENCH_THREADS_MAX	256u
#define BENCH_SOURCES		(FLUXONKV_SERVED_MISS + 1)

#define BENCH_SEC_NS		1000000000ULL
#define BENCH_MIB		(1ULL << 20)
#define BENCH_GIB		(1ULL << 30)

struct bench_result {
	struct bench_hist latency;	/* of calls, inside the window */
	uint64_t calls;
	uint64_t hits;			/* of keys, inside the window */
	uint64_t misses;		/* inside the window */
	uint64_t errors;		/* at any time, corrupt values too */
	uint64_t misses_outside;
	uint64_t corrupt;
	uint64_t source_hits[BENCH_SOURCES];
	uint64_t source_bytes[BENCH_SOURCES];
	uint64_t bytes;			/* all payload, inside the window */
	uint64_t cpu_ns;		/* of the thread, inside the window */
	char first_error[192];
};

struct bench_run;

/* One thread of a run. */
struct bench_worker {
	const struct bench_run *run;
	struct bench_result *result;
	struct fluxonkv *client;	/* shared by the process's threads */
	unsigned int process;
	unsigned int thread;		/* number within its process */
	uint64_t i;			/* operations begun */
	uint64_t window_from_ns;
	uint64_t window_to_ns;
	uint64_t cpu_from_ns;
	bool in_window;
	uint64_t random;		/* state of bench_worker_random() */
	void *state;			/* the work's */
};

/* What is repeated. Callbacks run in the child; they return 0 or -errno. */
struct bench_work {
	int (*start)(struct bench_worker *w);	/* may be NULL */
	void (*stop)(struct bench_worker *w);	/* may be NULL */
	void (*op)(struct bench_worker *w);
};

struct bench_run {
	const struct bench_work *work;
	const void *context;
	const char *address;
	unsigned int processes;
	unsigned int threads;		/* per process */
	double seconds;			/* warm-up included */
	double warmup;
	pid_t daemon;			/* 0: not known; for its CPU time */
	bool no_client;			/* the work talks to no daemon */
};

struct bench_outcome {
	struct bench_result all;
	double window_s;
	double client_cpu_s;		/* threads of the run, in the window */
	double daemon_cpu_s;		/* < 0: not known */
};

/*
 * Carry it out; *ret is written in any case where 0 is returned. -EIO: a
 * child failed to start or died, the sentence is in ret->all.first_error.
 */
int bench_run(const struct bench_run *run, struct bench_outcome *ret);

/* CLOCK_MONOTONIC. */
uint64_t bench_now_ns(void);
void bench_sleep_until_ns(uint64_t when_ns);

/* A uniform 64-bit number; splitmix64, seeded by process and thread. */
uint64_t bench_worker_random(struct bench_worker *w);

/* One call took from @start to @end; true when it ended in the window. */
bool bench_worker_call(struct bench_worker *w, uint64_t start_ns,
		       uint64_t end_ns);

/* One key of the call just recorded was served, or (-ENOENT) missed, or not. */
void bench_worker_key(struct bench_worker *w, int status,
		      enum fluxonkv_served source, uint64_t bytes);

/* A value had a wrong byte or length; counts as an error. */
void bench_worker_corrupt(struct bench_worker *w, const char *key,
			  uint64_t offset);

/* An error that belongs to no key. */
void bench_worker_error(struct bench_worker *w, const char *what, int res);

#endif
