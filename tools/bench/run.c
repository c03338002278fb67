// SPDX-License-Identifier: Apache-2.0
/*
 * run.c - closed loops in processes and threads
 */
#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "bench/host.h"
#include "bench/run.h"

#define START_MARGIN_NS		(20 * 1000000ULL)
#define START_WAIT_NS		(300 * BENCH_SEC_NS)
#define POLL_NS			2000000ULL

/* Shared by the parent and all children. */
struct arena {
	unsigned int ready;		/* threads that can begin */
	unsigned int failed;		/* threads that cannot */
	uint64_t begin_ns;		/* set by the parent; 0: wait */
	struct bench_result results[];	/* processes * threads */
};

struct child {
	const struct bench_run *run;
	struct arena *arena;
	unsigned int process;
	struct fluxonkv *client;
};

struct thread {
	struct child *child;
	struct bench_worker worker;
	pthread_t id;
	int res;
};

uint64_t bench_now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * BENCH_SEC_NS + (uint64_t)t.tv_nsec;
}

static uint64_t thread_cpu_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return (uint64_t)t.tv_sec * BENCH_SEC_NS + (uint64_t)t.tv_nsec;
}

void bench_sleep_until_ns(uint64_t when_ns)
{
	struct timespec t = {
		.tv_sec = (time_t)(when_ns / BENCH_SEC_NS),
		.tv_nsec = (long)(when_ns % BENCH_SEC_NS),
	};

	while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL) ==
	       EINTR)
		;
}

uint64_t bench_worker_random(struct bench_worker *w)
{
	uint64_t z = (w->random += 0x9e3779b97f4a7c15ULL);

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
	return z ^ (z >> 31);
}

bool bench_worker_call(struct bench_worker *w, uint64_t start_ns,
		       uint64_t end_ns)
{
	w->in_window = end_ns >= w->window_from_ns && end_ns < w->window_to_ns;
	if (!w->in_window)
		return false;
	if (!w->result->calls)
		w->cpu_from_ns = thread_cpu_ns();
	w->result->calls++;
	bench_hist_add(&w->result->latency, end_ns - start_ns);
	return true;
}

void bench_worker_error(struct bench_worker *w, const char *what, int res)
{
	struct bench_result *r = w->result;

	if (!r->errors++)
		snprintf(r->first_error, sizeof(r->first_error), "%s: %s (%s)",
			 what, fluxonkv_strerror(res), fluxonkv_last_error());
}

void bench_worker_key(struct bench_worker *w, int status,
		      enum fluxonkv_served source, uint64_t bytes)
{
	struct bench_result *r = w->result;

	if (status == -ENOENT) {
		if (w->in_window)
			r->misses++;
		else
			r->misses_outside++;
		return;
	}
	if (status) {
		bench_worker_error(w, "a key of a call", status);
		return;
	}
	if (!w->in_window)
		return;
	if ((unsigned int)source >= BENCH_SOURCES)
		source = FLUXONKV_SERVED_NONE;
	r->hits++;
	r->bytes += bytes;
	r->source_hits[source]++;
	r->source_bytes[source] += bytes;
}

void bench_worker_corrupt(struct bench_worker *w, const char *key,
			  uint64_t offset)
{
	struct bench_result *r = w->result;

	r->corrupt++;
	if (!r->errors++)
		snprintf(r->first_error, sizeof(r->first_error),
			 "%s: wrong byte or length at offset %" PRIu64, key,
			 offset);
}

static uint64_t wait_for_begin(struct arena *a)
{
	uint64_t begin;

	__atomic_add_fetch(&a->ready, 1, __ATOMIC_SEQ_CST);
	while (!(begin = __atomic_load_n(&a->begin_ns, __ATOMIC_ACQUIRE)))
		bench_sleep_until_ns(bench_now_ns() + POLL_NS);
	return begin;
}

static void repeat(struct bench_worker *w, uint64_t begin_ns)
{
	const struct bench_run *run = w->run;

	w->window_from_ns = begin_ns + (uint64_t)(run->warmup * 1e9);
	w->window_to_ns = begin_ns + (uint64_t)(run->seconds * 1e9);
	bench_sleep_until_ns(begin_ns);
	while (bench_now_ns() < w->window_to_ns) {
		run->work->op(w);
		w->i++;
	}
	if (w->result->calls)
		w->result->cpu_ns = thread_cpu_ns() - w->cpu_from_ns;
}

static void *thread_main(void *arg)
{
	struct thread *t = arg;
	struct bench_worker *w = &t->worker;
	const struct bench_work *work = w->run->work;
	uint64_t begin;

	t->res = work->start ? work->start(w) : 0;
	if (t->res) {
		bench_worker_error(w, "a thread could not start", t->res);
		__atomic_add_fetch(&t->child->arena->failed, 1,
				   __ATOMIC_SEQ_CST);
		return NULL;
	}
	begin = wait_for_begin(t->child->arena);
	repeat(w, begin);
	if (work->stop)
		work->stop(w);
	return NULL;
}

static int run_threads(struct child *c)
{
	const struct bench_run *run = c->run;
	struct thread *threads = calloc(run->threads, sizeof(*threads));
	unsigned int n;
	int res = 0;

	if (!threads)
		return -ENOMEM;
	for (n = 0; n < run->threads && !res; n++) {
		unsigned int slot = c->process * run->threads + n;

		threads[n].child = c;
		threads[n].worker = (struct bench_worker){
			.run = run,
			.result = &c->arena->results[slot],
			.client = c->client,
			.process = c->process,
			.thread = n,
			.random = (slot + 1) * 0x2545f4914f6cdd1dULL,
		};
		res = -pthread_create(&threads[n].id, NULL, thread_main,
				      &threads[n]);
	}
	if (res)		/* the others wait for a beginning for good */
		return res;
	for (unsigned int i = 0; i < n; i++) {
		pthread_join(threads[i].id, NULL);
		if (!res)
			res = threads[i].res;
	}
	free(threads);
	return res;
}

static void child_main(struct child *c)
{
	struct bench_result *r = &c->arena->results[c->process *
						    c->run->threads];
	int res = 0;

	prctl(PR_SET_PDEATHSIG, SIGTERM);
	if (!c->run->no_client)
		res = fluxonkv_open(c->run->address, &c->client);
	if (res) {
		snprintf(r->first_error, sizeof(r->first_error), "open: %s",
			 fluxonkv_last_error());
		_exit(1);
	}
	res = run_threads(c);
	fluxonkv_close(c->client);
	_exit(res ? 1 : 0);
}

static unsigned int fork_all(const struct bench_run *run, struct arena *a,
			     pid_t *pids)
{
	unsigned int n;

	fflush(NULL);
	for (n = 0; n < run->processes; n++) {
		struct child c = { .run = run, .arena = a, .process = n };

		pids[n] = fork();
		if (!pids[n])
			child_main(&c);
		if (pids[n] < 0)
			break;
	}
	return n;
}

/* Has one of the children ended? It is then no longer in @pids. */
static bool one_ended(pid_t *pids, unsigned int n)
{
	for (unsigned int i = 0; i < n; i++)
		if (pids[i] > 0 && waitpid(pids[i], NULL, WNOHANG) == pids[i]) {
			pids[i] = 0;
			return true;
		}
	return false;
}

static int wait_ready(const struct bench_run *run, struct arena *a,
		      pid_t *pids)
{
	uint64_t until = bench_now_ns() + START_WAIT_NS;
	unsigned int want = run->processes * run->threads;

	while (__atomic_load_n(&a->ready, __ATOMIC_ACQUIRE) < want) {
		if (__atomic_load_n(&a->failed, __ATOMIC_ACQUIRE) ||
		    one_ended(pids, run->processes) || bench_now_ns() > until)
			return -EIO;
		bench_sleep_until_ns(bench_now_ns() + POLL_NS);
	}
	return 0;
}

static int reap(pid_t *pids, unsigned int n, bool stop)
{
	int res = 0, status;

	for (unsigned int i = 0; i < n; i++) {
		if (pids[i] <= 0)
			continue;
		if (stop)
			kill(pids[i], SIGKILL);
		if (waitpid(pids[i], &status, 0) != pids[i] || status)
			res = -EIO;
		pids[i] = 0;
	}
	return res;
}

/* Begin together and sample the daemon's CPU time at the window's edges. */
static void conduct(const struct bench_run *run, struct arena *a,
		    struct bench_outcome *out)
{
	uint64_t begin = bench_now_ns() + START_MARGIN_NS;
	double before;

	__atomic_store_n(&a->begin_ns, begin, __ATOMIC_RELEASE);
	bench_sleep_until_ns(begin + (uint64_t)(run->warmup * 1e9));
	before = bench_host_process_cpu_s(run->daemon);
	bench_sleep_until_ns(begin + (uint64_t)(run->seconds * 1e9));
	out->daemon_cpu_s = bench_host_process_cpu_s(run->daemon);
	if (before < 0 || out->daemon_cpu_s < 0)
		out->daemon_cpu_s = -1;
	else
		out->daemon_cpu_s -= before;
}

static void merge(struct bench_result *to, const struct bench_result *from)
{
	bench_hist_merge(&to->latency, &from->latency);
	to->calls += from->calls;
	to->hits += from->hits;
	to->misses += from->misses;
	to->misses_outside += from->misses_outside;
	to->errors += from->errors;
	to->corrupt += from->corrupt;
	to->bytes += from->bytes;
	to->cpu_ns += from->cpu_ns;
	for (unsigned int s = 0; s < BENCH_SOURCES; s++) {
		to->source_hits[s] += from->source_hits[s];
		to->source_bytes[s] += from->source_bytes[s];
	}
	if (!to->first_error[0])
		memcpy(to->first_error, from->first_error,
		       sizeof(to->first_error));
}

int bench_run(const struct bench_run *run, struct bench_outcome *ret)
{
	unsigned int slots = run->processes * run->threads, forked;
	size_t bytes = sizeof(struct arena) +
		       slots * sizeof(struct bench_result);
	pid_t pids[BENCH_PROCESSES_MAX] = { 0 };
	struct arena *a;
	int res;

	if (!slots || run->processes > BENCH_PROCESSES_MAX ||
	    run->threads > BENCH_THREADS_MAX)
		return -EINVAL;
	a = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
		 MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (a == MAP_FAILED)
		return -errno;
	memset(ret, 0, sizeof(*ret));
	forked = fork_all(run, a, pids);
	res = forked == run->processes ? wait_ready(run, a, pids) : -EIO;
	if (!res)
		conduct(run, a, ret);
	if (reap(pids, forked, res))
		res = -EIO;
	for (unsigned int i = 0; i < slots; i++)
		merge(&ret->all, &a->results[i]);
	ret->window_s = run->seconds - run->warmup;
	ret->client_cpu_s = (double)ret->all.cpu_ns / 1e9;
	munmap(a, bytes);
	return res;
}
