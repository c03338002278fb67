// SPDX-License-Identifier: Apache-2.0
/*
 * lives.c - K5, H2, F4: threads, processes that fork and die, daemons that stop
 * and come back
 */
#include <pthread.h>

#include "conformance.h"

#define THREADS	4
#define ROUNDS	200

struct worker {
	pthread_t thread;
	struct fluxonkv *kv;
	unsigned int nr, wrong;
};

/* A key of its own, and one that all overwrite. */
static void *work(void *arg)
{
	struct worker *w = arg;
	char mine[16];

	sprintf(mine, "mine/%u", w->nr);
	for (unsigned int i = 0; i < ROUNDS; i++) {
		struct fluxonkv_holder h;
		unsigned int seed;

		w->wrong += put_seed(w->kv, mine, 5000, i, 0) != 0;
		w->wrong += !conf_has(w->kv, mine, 5000, i);
		seed = w->nr * ROUNDS + i;
		w->wrong += put_seed(w->kv, "shared", 9000, seed, 0) != 0;
		if (fluxonkv_get(w->kv, "shared", 6, &h)) {
			w->wrong++;
			continue;
		}
		for (seed = 0; seed < THREADS * ROUNDS; seed++)
			if (same(h.data, 9000, seed))
				break;
		w->wrong += seed == THREADS * ROUNDS;
		w->wrong += fluxonkv_release(w->kv, &h) != 0;
	}
	return NULL;
}

static int threads_share_a_client(void)
{
	struct fluxonkv *kv = open_client();
	struct worker w[THREADS] = { 0 };
	struct fluxonkv_counters c;

	for (unsigned int i = 0; i < THREADS; i++) {
		w[i].kv = kv;
		w[i].nr = i;
		pthread_create(&w[i].thread, NULL, work, &w[i]);
	}
	for (unsigned int i = 0; i < THREADS; i++) {
		pthread_join(w[i].thread, NULL);
		check(!w[i].wrong, "a thread's calls and bytes");
	}
	expect(fluxonkv_get_counters(kv, &c), 0, "counters");
	check(!c.held && !c.held_bytes, "nothing is held");
	fluxonkv_close(kv);
	return failures != 0;
}

static void child_of_fork(struct fluxonkv *kv, struct fluxonkv_holder *h)
{
	struct fluxonkv_holder mine;
	struct fluxonkv_putop op;
	struct fluxonkv_counters c;
	struct fluxonkv *own;

	failures = 0;
	expect(fluxonkv_get(kv, "fork", 4, &mine), -EOWNERDEAD, "child: get");
	conf_sentence("fork", "with a sentence");
	expect(put_seed(kv, "fork", 10, 9, 0), -EOWNERDEAD, "child: put");
	expect(fluxonkv_put_begin(kv, "f", 1, 1, 0, &op), -EOWNERDEAD,
	       "child: begin");
	expect(fluxonkv_release(kv, h), -EOWNERDEAD, "child: release");
	expect(fluxonkv_delete(kv, "fork", 4), -EOWNERDEAD, "child: delete");
	expect(conf_exists(kv, "fork"), -EOWNERDEAD, "child: exists");
	expect(fluxonkv_set_timeout(kv, 1), -EOWNERDEAD, "child: timeout");
	expect(fluxonkv_get_counters(kv, &c), -EOWNERDEAD, "child: counters");
	fluxonkv_close(kv);
	own = open_client();
	expect(fluxonkv_get(own, "fork", 4, &mine), 0, "child: own client");
	check(same(mine.data, 5000, 7), "child: bytes");
	fluxonkv_close(own);
	fflush(stdout);
	_exit(failures != 0);
}

/* K5 */
static int forked_child_opens_its_own_and_disturbs_nothing(void)
{
	struct fluxonkv *kv = open_client();
	struct fluxonkv_holder h;
	struct fluxonkv_putop op;
	int status = -1;
	pid_t pid;

	expect(put_seed(kv, "fork", 5000, 7, 0), 0, "put");
	expect(fluxonkv_get(kv, "fork", 4, &h), 0, "hold");
	expect(fluxonkv_put_begin(kv, "open", 4, 5000, 0, &op), 0, "begin");
	fflush(stdout);
	pid = fork();
	if (!pid)
		child_of_fork(kv, &h);
	waitpid(pid, &status, 0);
	check(!status, "the child");
	check(same(h.data, 5000, 7), "the parent's holder");
	check(number(kv, "refs", "\"open_puts\"") == 1, "its open put");
	fill(op.data, 5000, 8);
	expect(fluxonkv_put_commit(kv, &op), 0, "its commit");
	check(conf_has(kv, "open", 5000, 8), "its value");
	check(conf_has(kv, "fork", 5000, 7), "its get");
	expect(fluxonkv_release(kv, &h), 0, "its release");
	fluxonkv_close(kv);
	return failures != 0;
}

static void die_holding(int ready)
{
	struct fluxonkv *kv = open_client();
	struct fluxonkv_holder h[2];
	struct fluxonkv_putop op;

	if (fluxonkv_get(kv, "k", 1, &h[0]) || fluxonkv_get(kv, "k", 1, &h[1]) ||
	    fluxonkv_put_begin(kv, "k", 1, MIB, 0, &op))
		_exit(1);
	memset(op.data, 0xaa, MIB / 2);
	if (write(ready, "x", 1) == 1)
		pause();
	_exit(1);
}

/* H2, P5, A1 */
static int killed_process_leaves_nothing(void)
{
	struct fluxonkv *kv = open_client();
	int pipes[2];
	pid_t pid;
	char c;

	expect(put_seed(kv, "k", MIB, 1, 0), 0, "put");
	if (pipe(pipes))
		return 1;
	fflush(stdout);
	pid = fork();
	if (!pid) {
		close(pipes[0]);
		die_holding(pipes[1]);
	}
	close(pipes[1]);
	check(read(pipes[0], &c, 1) == 1, "it holds and has begun");
	close(pipes[0]);
	check(conf_has(kv, "k", MIB, 1), "its put is not seen");
	expect(fluxonkv_delete(kv, "k", 1), 0, "delete");
	check(used(kv) >= 2 * MIB, "what it holds is there");
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	expect(conf_exists(kv, "k"), -ENOENT, "its put is not seen");
	check(becomes(kv, "status", "\"used_bytes\"", 0, 5),
	      "its holders and its put are gone");
	expect(put_seed(kv, "k", MIB, 2, 0), 0, "the key is free");
	fluxonkv_close(kv);
	return failures != 0;
}

static void until_gone(struct fluxonkv *kv)
{
	struct fluxonkv_holder h;
	double end = now() + 5;
	int err;

	fluxonkv_set_timeout(kv, 100);
	while (!(err = fluxonkv_get(kv, "kept", 4, &h)) && now() < end) {
		fluxonkv_release(kv, &h);
		usleep(10000);
	}
	expect(err, -ENOTCONN, "get");
}

/* K3, F4: while there is no daemon. */
static void without_daemon(struct fluxonkv *kv)
{
	double t;
	int err;

	until_gone(kv);
	fluxonkv_set_timeout(kv, 400);
	t = now();
	expect(put_seed(kv, "gone", 10, 1, 0), -ENOTCONN, "put");
	conf_sentence("gone", "with a sentence");
	check(now() - t < 0.6, "put ends by its deadline");
	t = now();
	expect(conf_exists(kv, "kept"), -ENOTCONN, "exists");
	check(now() - t > 0.3 && now() - t < 0.6, "exists ends by its, too");
	fluxonkv_set_timeout(kv, 0);
	t = now();
	err = fluxonkv_delete(kv, "kept", 4);
	check(err == -ENOTCONN || err == -EAGAIN, "delete with timeout 0");
	check(now() - t < 0.2, "it does not wait");
	fluxonkv_set_timeout(kv, 10000);
}

/* The same clients go on, one that saw the end and one that slept. */
static void with_new_daemon(struct fluxonkv *kv, struct fluxonkv *idle)
{
	expect(fluxonkv_delete(idle, "kept", 4), -ENOENT, "delete by an idle");
	expect(conf_exists(kv, "kept"), -ENOENT, "memory is new");
	expect(put_seed(kv, "kept", MIB, 3, 0), 0, "put");
	check(conf_has(idle, "kept", MIB, 3), "the idle one sees it");
	expect(fluxonkv_delete(idle, "kept", 4), 0, "and may delete it");
}

/* F4, X5, U5 */
static int held_bytes_and_clients_outlive_the_daemon(void)
{
	struct fluxonkv *kv = open_client(), *idle = open_client();
	struct fluxonkv_holder h, many[3];
	struct fluxonkv_key keys[3] = {
		{ "kept", 4 }, { "small", 5 }, { "kept", 4 },
	};
	struct fluxonkv_counters c;
	struct fluxonkv_putop op;

	expect(put_seed(kv, "kept", MIB, 1, 0), 0, "put");
	expect(put_seed(kv, "small", 5000, 2, 0), 0, "put");
	expect(fluxonkv_get(kv, "kept", 4, &h), 0, "hold");
	expect(fluxonkv_get_many(kv, keys, 3, many), 0, "hold a batch");
	expect(fluxonkv_put_begin(kv, "open", 4, MIB, 0, &op), 0, "begin");
	conf_stop();
	without_daemon(kv);
	fill(op.data, MIB, 9);	/* to no effect, but no fault either */
	check(same(h.data, MIB, 1), "held bytes without a daemon");
	expect(fluxonkv_release(kv, &many[0]), 0, "release without one");
	conf_start();
	with_new_daemon(kv, idle);
	expect(fluxonkv_put_commit(kv, &op), -ENOTCONN, "commit of a dead put");
	expect(conf_exists(kv, "open"), -ENOENT, "no key came of it");
	check(same(h.data, MIB, 1) && same(many[1].data, 5000, 2) &&
	      same(many[2].data, MIB, 1), "held bytes with a new one");
	expect(fluxonkv_release_many(kv, many + 1, 2), 0, "release_many");
	expect(many[1].status, 0, "one");
	expect(many[2].status, 0, "and the other");
	check(same(h.data, MIB, 1), "what is still held");
	expect(fluxonkv_release(kv, &h), 0, "release of the last");
	expect(fluxonkv_release(kv, &h), -EINVAL, "and again");
	expect(fluxonkv_get_counters(kv, &c), 0, "counters");
	check(c.reconnects >= 1 && !c.held && !c.held_bytes,
	      "it came back, and holds nothing");
	fluxonkv_close(idle);
	fluxonkv_close(kv);
	return failures != 0;
}

/* A call that may be repeated waits for the daemon, up to its deadline. */
static int read_waits_for_the_daemon_to_come_back(void)
{
	struct fluxonkv *kv = open_client();
	struct fluxonkv_holder h;
	int status = -1;
	pid_t pid;

	expect(put_seed(kv, "kept", 100, 1, 0), 0, "put");
	conf_stop();
	until_gone(kv);
	fluxonkv_set_timeout(kv, 30000);
	fflush(stdout);
	pid = fork();
	if (!pid) {
		conf_start();
		_exit(0);
	}
	expect(fluxonkv_get(kv, "kept", 4, &h), -ENOENT, "of the new daemon");
	waitpid(pid, &status, 0);
	check(!status, "it was started");
	fluxonkv_close(kv);
	return failures != 0;
}

const struct conf_test conf_lives[] = {
	CONF(threads_share_a_client, ALWAYS),
	CONF(forked_child_opens_its_own_and_disturbs_nothing, ALWAYS),
	CONF(killed_process_leaves_nothing, ALWAYS),
	CONF(held_bytes_and_clients_outlive_the_daemon, RESTARTS),
	CONF(read_waits_for_the_daemon_to_come_back, RESTARTS),
	CONF_END,
};
