// SPDX-License-Identifier: Apache-2.0
/*
 * story.c - what the stories do as clients of a daemon, one word each. A word
 * prints what it found and ends with 1 when anything was not as expected.
 */
#include <pthread.h>

#include "story.h"

/* ---- holders: A2, A3, H1, H4 ---- */

/* A2: single, batch and overwritten holders, and 2,000 puts through a pool. */
static int do_churn(void)
{
	struct fluxonkv *kv = open_client();
	struct fluxonkv_key k[2] = { { "held/0", 6 }, { "held/1", 6 } };
	struct fluxonkv_holder h[2], one, fresh;
	char name[32];

	put_seed(kv, "held/0", 70001, 1, 0);
	put_seed(kv, "held/1", 3, 2, 0);
	expect(fluxonkv_get(kv, "held/0", 6, &one), 0, "hold single");
	expect(fluxonkv_get_many(kv, k, 2, h), 0, "hold a batch");
	for (unsigned int i = 0; i < 2000; i++) {
		sprintf(name, "churn/%u", i % 700);
		expect(put_seed(kv, name, 64 * KIB, i, 0), 0, "put");
		if (i == 500)
			expect(fluxonkv_delete(kv, "held/0", 6), 0, "delete");
		if (i == 1000)
			expect(put_seed(kv, "held/0", 70001, 3, 0), 0,
			       "put again");
		if (i % 100)
			continue;
		check(same(one.data, 70001, 1) && same(h[0].data, 70001, 1) &&
		      same(h[1].data, 3, 2), "held bytes");
	}
	expect(put_seed(kv, "held/0", 70001, 4, 0), 0, "and once more");
	expect(fluxonkv_get(kv, "held/0", 6, &fresh), 0, "get");
	check(same(fresh.data, 70001, 4), "new bytes for a new get");
	check(same(one.data, 70001, 1) && same(h[0].data, 70001, 1) &&
	      same(h[1].data, 3, 2), "held bytes");
	expect(fluxonkv_release(kv, &fresh), 0, "release");
	expect(fluxonkv_release(kv, &one), 0, "release");
	expect(fluxonkv_release_many(kv, h, 2), 0, "release");
	fluxonkv_close(kv);
	return failures != 0;
}

/* Hold @n values, say so, and wait for a signal. */
static int do_hold(unsigned int n)
{
	struct fluxonkv *kv = open_client();
	struct fluxonkv_holder h;
	char name[32];

	for (unsigned int i = 0; i < n; i++) {
		sprintf(name, "hold/%u", i);
		expect(put_seed(kv, name, 8 * KIB, i, 0), 0, "put");
		expect(fluxonkv_get(kv, name, strlen(name), &h), 0, "hold");
	}
	if (failures)
		return 1;
	say("holding");
	pause();
	return 0;
}

/* H4: more than half of the segment is refused, and comes back. */
static int do_quota(void)
{
	struct fluxonkv *kv = open_client();
	struct fluxonkv_holder h[64], more;
	unsigned int n = 0;
	char name[32];
	int err = 0;

	while (n < 64) {
		sprintf(name, "quota/%u", n);
		err = put_seed(kv, name, MIB, n, 0);
		if (!err)
			err = fluxonkv_get(kv, name, strlen(name), &h[n]);
		if (err)
			break;
		n++;
	}
	expect(err, -EDQUOT, "over the cap");
	check(n >= 30 && n <= 32, "half of 64 MiB was held");
	check(strlen(fluxonkv_last_error()) > 10, "EDQUOT says a sentence");
	for (unsigned int i = 0; i < n; i++)
		check(same(h[i].data, MIB, i), "held bytes");
	expect(fluxonkv_release_many(kv, h, n), 0, "release all");
	err = put_seed(kv, "quota/more", MIB, 99, 0);
	expect(err, 0, "put after");
	expect(fluxonkv_get(kv, "quota/more", 10, &more), 0, "get after");
	if (!more.status)
		fluxonkv_release(kv, &more);
	printf("held %u\n", n);
	fluxonkv_close(kv);
	return failures != 0;
}

/* ---- space: P4, K3, K4 (NOWAIT), A3b ---- */

static void no_room(struct fluxonkv *kv)
{
	struct fluxonkv *other = open_client();
	double t = now();
	int err;

	expect(put_seed(other, "nowait", MIB, 1, FLUXONKV_NOWAIT), -ENOSPC,
	       "NOWAIT");
	check(now() - t < 0.3, "it does not wait");
	check(strstr(fluxonkv_last_error(), "unevictable") ||
	      strstr(fluxonkv_last_error(), "free"), "ENOSPC says why");
	fluxonkv_set_timeout(other, 0);
	err = put_seed(other, "zero", MIB, 1, 0);
	expect(err, -EAGAIN, "timeout 0 and no room");
	fluxonkv_set_timeout(other, 400);
	t = now();
	err = put_seed(other, "short", MIB, 1, 0);
	check(err == -ENOSPC || err == -ETIMEDOUT, "400 ms and no room");
	check(now() - t > 0.3 && now() - t < 0.55, "it waits 400 ms");
	expect(fluxonkv_exists(kv, "nowait", 6), -ENOENT, "nothing is there");
	fluxonkv_close(other);
}

/* Open puts up to what puts may have: 85 % of 64 MiB. */
static void full_of_puts(struct fluxonkv *kv)
{
	struct fluxonkv_putop op[64];
	unsigned int n = 0;
	char name[32];

	fluxonkv_set_timeout(kv, 300);
	for (; n < 64; n++) {
		sprintf(name, "open/%u", n);
		if (fluxonkv_put_begin(kv, name, strlen(name), MIB,
				       FLUXONKV_NOWAIT, &op[n]))
			break;
	}
	check(n >= 53 && n <= 54, "85 % of the segment for open puts");
	no_room(kv);
	expect(fluxonkv_put_abort_many(kv, op, n), 0, "abort all");
	fluxonkv_set_timeout(kv, 5000);
	expect(put_seed(kv, "after", MIB, 1, 0), 0, "room is back");
}

/* Holders of what comes from SSD, until there is no room for one more. */
static void full_of_holders(struct fluxonkv *kv, unsigned int keys)
{
	static struct fluxonkv_holder h[256];
	struct fluxonkv_holder more;
	static char buf[MIB];
	unsigned int n = 0, k;
	uint64_t len = 0;
	char name[32];
	int err = 0;
	double t = 0;

	fluxonkv_set_timeout(kv, 400);
	for (k = 0; k < keys && n < 256; k++) {
		sprintf(name, "load/%u", k);
		t = now();
		err = fluxonkv_get(kv, name, strlen(name), &h[n]);
		if (err)
			break;
		n++;
	}
	check(err == -ENOSPC || err == -ETIMEDOUT, "no room for a holder");
	check(now() - t < 0.55, "it says so by its deadline");
	check(n >= 55 && n <= 62, "95 % of the segment for holders");
	printf("held %u, then %s\n", n, fluxonkv_strerror(err));
	no_room(kv);
	/* the rest is for get_into */
	fluxonkv_set_timeout(kv, 5000);
	expect(fluxonkv_get_into(kv, name, strlen(name), buf, MIB, &len), 0,
	       "get_into of one that is on SSD only");
	check(len == MIB && same(buf, MIB, k), "its bytes");
	for (unsigned int i = 0; i < n; i++)
		check(same(h[i].data, MIB, i), "held bytes");
	expect(fluxonkv_release_many(kv, h, n), 0, "release all");
	expect(fluxonkv_get(kv, name, strlen(name), &more), 0, "get after");
	check(!more.status && same(more.data, MIB, k), "its bytes");
	fluxonkv_release(kv, &more);
}

/* K3: timeout 0 and only on SSD: EAGAIN, and soon it is in memory. */
static void warms(struct fluxonkv *kv, unsigned int keys)
{
	struct fluxonkv_holder h;
	double end = now() + 5;
	char name[32];
	int err;

	for (unsigned int k = 0; k < keys; k++) {
		struct fluxonkv_stat st;

		sprintf(name, "load/%u", k);
		expect(fluxonkv_stat(kv, name, strlen(name), &st), 0, name);
		if (st.where == FLUXONKV_WHERE_SSD)
			break;
	}
	fluxonkv_set_timeout(kv, 0);
	expect(fluxonkv_get(kv, name, strlen(name), &h), -EAGAIN,
	       "timeout 0, on SSD only");
	do {
		usleep(2000);
		err = fluxonkv_get(kv, name, strlen(name), &h);
	} while (err == -EAGAIN && now() < end);
	expect(err, 0, "it was warmed");
	if (!err)
		fluxonkv_release(kv, &h);
	fluxonkv_set_timeout(kv, 5000);
}

static int do_space(unsigned int keys)
{
	struct fluxonkv *kv = open_client();

	warms(kv, keys);
	full_of_puts(kv);
	full_of_holders(kv, keys);
	fluxonkv_close(kv);
	return failures != 0;
}

/* ---- orphan: A1, P5 ---- */

#define ORPHANS		4u	/* at a time */

static void half(const char *key, int ready)
{
	struct fluxonkv *kv = open_client();
	struct fluxonkv_putop op;

	if (fluxonkv_put_begin(kv, key, strlen(key), 64 * KIB, 0, &op))
		_exit(1);
	memset(op.data, 0xaa, 32 * KIB);
	if (write(ready, "x", 1) != 1)
		_exit(1);
	pause();
	_exit(1);
}

static void no_orphan(struct fluxonkv *kv, char key[][16], const char *when)
{
	struct fluxonkv_holder h;

	for (unsigned int i = 0; i < ORPHANS; i++)
		expect(fluxonkv_get(kv, key[i], strlen(key[i]), &h), -ENOENT,
		       when);
}

static void put_anew(struct fluxonkv *kv, const char *key, unsigned int seed)
{
	struct fluxonkv_holder h;

	expect(put_seed(kv, key, 64 * KIB, seed, 0), 0, "another put");
	expect(fluxonkv_get(kv, key, strlen(key), &h), 0, "a hit");
	check(!h.status && same(h.data, 64 * KIB, seed), "its bytes");
	expect(fluxonkv_release(kv, &h), 0, "release");
	expect(fluxonkv_delete(kv, key, strlen(key)), 0, "delete");
}

static void some_orphans(struct fluxonkv *kv, uint64_t before)
{
	char key[ORPHANS][16], ready[ORPHANS];
	pid_t pid[ORPHANS];
	int pipes[2];
	size_t n = 0;

	if (pipe(pipes))
		exit(1);
	fflush(stdout);
	for (unsigned int i = 0; i < ORPHANS; i++) {
		sprintf(key[i], "orphan/%u", i);
		pid[i] = fork();
		if (!pid[i])
			half(key[i], pipes[1]);
	}
	close(pipes[1]);
	for (ssize_t r = 1; r > 0 && n < ORPHANS; n += (size_t)r)
		r = read(pipes[0], ready, ORPHANS - n);
	check(n == ORPHANS, "the children reserved");
	close(pipes[0]);
	check(used(kv) >= before + ORPHANS * 64 * KIB, "room is reserved");
	no_orphan(kv, key, "a miss before");
	for (unsigned int i = 0; i < ORPHANS; i++)
		kill(pid[i], SIGKILL);
	for (unsigned int i = 0; i < ORPHANS; i++)
		waitpid(pid[i], NULL, 0);
	no_orphan(kv, key, "a miss after");
	for (unsigned int i = 0; i < ORPHANS && !failures; i++)
		put_anew(kv, key[i], i);
	check(becomes(kv, "status", "\"used_bytes\"", before, 5),
	      "used bytes are as before");
}

static int do_orphan(unsigned int times)
{
	struct fluxonkv *kv = open_client();
	uint64_t before = used(kv);

	for (unsigned int i = 0; i < times && !failures; i += ORPHANS)
		some_orphans(kv, before);
	check(number(kv, "refs", "\"open_puts\"") == 0, "no open puts");
	fluxonkv_close(kv);
	return failures != 0;
}

/* ---- faults, seccomp: load many, and look at what comes back ---- */

static int do_load(unsigned int from, unsigned int to, unsigned int len)
{
	struct fluxonkv *kv = open_client();
	char name[32];

	for (unsigned int k = from; k < to && !failures; k++) {
		sprintf(name, "load/%u", k);
		expect(put_seed(kv, name, len, k, 0), 0, "put");
	}
	fluxonkv_close(kv);
	return failures != 0;
}

/* Right bytes, a miss or EIO; never wrong bytes. Prints how many of each. */
static int do_look(unsigned int from, unsigned int to, unsigned int len)
{
	unsigned int ok = 0, ssd = 0, miss = 0, eio = 0, wrong = 0, odd = 0;
	struct fluxonkv *kv = open_client();
	struct fluxonkv_holder h;
	char name[32];

	for (unsigned int k = from; k < to; k++) {
		int err;

		sprintf(name, "load/%u", k);
		err = fluxonkv_get(kv, name, strlen(name), &h);
		miss += err == -ENOENT;
		eio += err == -EIO;
		if (err && err != -ENOENT && err != -EIO) {
			expect(err, 0, name);
			odd++;
		}
		if (err)
			continue;
		ok++;
		ssd += h.source == FLUXONKV_SERVED_SSD_LOCAL;
		wrong += h.len != len || !same(h.data, len, k);
		fluxonkv_release(kv, &h);
	}
	printf("ok %u ssd %u miss %u eio %u wrong %u odd %u\n", ok, ssd, miss,
	       eio, wrong, odd);
	fluxonkv_close(kv);
	return wrong || odd;
}

/* ---- restart: F4 ---- */

static void wait_signal(void)
{
	sigset_t set;
	int sig;

	sigemptyset(&set);
	sigaddset(&set, SIGUSR1);
	sigwait(&set, &sig);
}

static void without_daemon(struct fluxonkv *kv, struct fluxonkv_holder *h)
{
	struct fluxonkv_holder other;
	double t = now();
	int err;

	check(same(h->data, MIB, 1), "held bytes without a daemon");
	fluxonkv_set_timeout(kv, 500);
	expect(put_seed(kv, "gone", 10, 1, 0), -ENOTCONN, "put");
	check(strlen(fluxonkv_last_error()) > 10, "it says a sentence");
	check(now() - t < 0.7, "put ends by its deadline");
	t = now();
	err = fluxonkv_get(kv, "kept", 4, &other);
	expect(err, -ENOTCONN, "get");
	if (!err)
		fluxonkv_release(kv, &other);
	check(now() - t < 0.7, "get ends by its deadline");
	fluxonkv_set_timeout(kv, 0);
	t = now();
	err = fluxonkv_delete(kv, "kept", 4);
	check(err == -ENOTCONN || err == -EAGAIN, "delete with timeout 0");
	check(now() - t < 0.2, "it does not wait");
	fluxonkv_set_timeout(kv, 5000);
}

/* Reads what is held, all the time, while the segment is let go below it. */
struct watcher {
	pthread_t thread;
	const void *bytes;
	unsigned long rounds;
	bool stop;
};

static void *watch(void *arg)
{
	struct watcher *w = arg;

	while (!__atomic_load_n(&w->stop, __ATOMIC_RELAXED)) {
		check(same(w->bytes, MIB, 1), "held bytes, as they are kept");
		w->rounds++;
	}
	return NULL;
}

/* X5: of a dead daemon's segment only what is held is left. */
static void only_held_is_left(void)
{
	char line[512];
	FILE *f = fopen("/proc/self/maps", "r");
	unsigned int n = 0;

	while (f && fgets(line, sizeof(line), f))
		n += strstr(line, "memfd:fluxonkv-segment") != NULL;
	check(f && !n, "nothing of the old segment is mapped");
	if (f)
		fclose(f);
}

static int do_keep(void)
{
	struct fluxonkv *kv = open_client();
	struct fluxonkv_holder h, other, message;
	struct watcher w = { .rounds = 0 };
	char name[300];
	struct fluxonkv_putop op;
	struct fluxonkv_counters c;
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGUSR1);
	sigprocmask(SIG_BLOCK, &set, NULL);
	expect(put_seed(kv, "kept", MIB, 1, 0), 0, "put");
	expect(fluxonkv_get(kv, "kept", 4, &h), 0, "hold");
	/* too long for the shared index: a holder of the daemon's */
	memset(name, 'n', sizeof(name));
	expect(fluxonkv_put(kv, name, sizeof(name), h.data, 5000, 0), 0,
	       "put of a long key");
	expect(fluxonkv_get(kv, name, sizeof(name), &message), 0,
	       "hold by message");
	w.bytes = h.data;
	check(!pthread_create(&w.thread, NULL, watch, &w), "a thread");
	expect(fluxonkv_put_begin(kv, "open", 4, MIB, 0, &op), 0, "begin");
	say("holding");
	wait_signal();
	usleep(1300000);	/* K6: a dead daemon's index ends in 1.2 s */
	without_daemon(kv, &h);
	fill(op.data, MIB, 2);	/* may still be written to, to no effect */
	only_held_is_left();
	check(!memcmp(message.data, h.data, 5000), "bytes held by message");
	say("gone");
	wait_signal();
	expect(fluxonkv_put_commit(kv, &op), -ENOTCONN, "commit of a dead put");
	expect(fluxonkv_get(kv, "kept", 4, &other), -ENOENT, "memory is new");
	expect(put_seed(kv, "kept", MIB, 3, 0), 0, "put by the same client");
	expect(fluxonkv_get(kv, "kept", 4, &other), 0, "get by it");
	check(same(other.data, MIB, 3), "new bytes");
	check(same(h.data, MIB, 1), "the old holder's bytes");
	__atomic_store_n(&w.stop, true, __ATOMIC_RELAXED);
	pthread_join(w.thread, NULL);
	check(w.rounds > 10, "the watcher watched");
	check(!memcmp(message.data, h.data, 5000), "bytes held by message");
	expect(fluxonkv_release(kv, &message), 0, "release of that");
	expect(fluxonkv_release(kv, &h), 0, "release of the old holder");
	expect(fluxonkv_release(kv, &h), -EINVAL, "and again");
	expect(fluxonkv_release(kv, &other), 0, "release of the new");
	fluxonkv_get_counters(kv, &c);
	check(c.reconnects == 1 && !c.held, "one reconnect, nothing held");
	fluxonkv_close(kv);
	say("done");
	return failures != 0;
}

/* ---- metrics: A25, G8 ---- */

static void get_n(struct fluxonkv *kv, char names[][32], unsigned int n,
		  enum fluxonkv_served want)
{
	for (unsigned int i = 0; i < n; i++) {
		struct fluxonkv_key k = { names[i], strlen(names[i]) };
		struct fluxonkv_into into = { .key = k };
		struct fluxonkv_holder h = { .status = -1 };
		static char buf[256 * KIB];

		into.buf = buf;
		into.size = sizeof(buf);
		if (i % 3 == 0)
			fluxonkv_get(kv, k.data, k.len, &h);
		else if (i % 3 == 1)
			fluxonkv_get_many(kv, &k, 1, &h);
		else
			fluxonkv_get_into_many(kv, &into, 1);
		check((i % 3 == 2 ? into.source : h.source) == want, k.data);
		if (i % 3 != 2 && !h.status)
			fluxonkv_release(kv, &h);
	}
}

/* 200 from memory, 50 from SSD, 50 misses, in 256 KiB values load/N. */
static int do_gets(unsigned int keys)
{
	static char memory[200][32], ssd[50][32], none[50][32];
	struct fluxonkv *kv = open_client();
	unsigned int m = 0, s = 0;

	for (unsigned int k = 0; k < keys; k++) {
		struct fluxonkv_stat st;
		char name[32];

		sprintf(name, "load/%u", k);
		if (fluxonkv_stat(kv, name, strlen(name), &st))
			continue;
		if (st.where == FLUXONKV_WHERE_SSD && s < 50)
			strcpy(ssd[s++], name);
		else if (st.where & FLUXONKV_WHERE_MEMORY && m < 100)
			strcpy(memory[m++], name);
	}
	check(m == 100 && s == 50, "100 in memory and 50 on SSD");
	if (failures)
		return 1;
	for (unsigned int i = 0; i < 100; i++)
		strcpy(memory[100 + i], memory[i]);
	for (unsigned int i = 0; i < 50; i++)
		sprintf(none[i], "none/%u", i);
	get_n(kv, memory, 200, FLUXONKV_SERVED_LOCAL);
	get_n(kv, ssd, 50, FLUXONKV_SERVED_SSD_LOCAL);
	get_n(kv, none, 50, FLUXONKV_SERVED_MISS);
	fluxonkv_close(kv);
	return failures != 0;
}

/*
 * K2 WARM: of KEYS keys, all loaded, those only on SSD come to memory without a
 * get, and the answer came before them.
 */
static int do_warm(unsigned int keys)
{
	struct fluxonkv *kv = open_client();
	struct fluxonkv_key k[16], missing = { "load/none", 9 };
	static char name[16][32];
	unsigned char exists[16], not_there = 1;
	struct fluxonkv_stat st[16];
	size_t n = 0, run = 99, in_memory = 0;

	for (unsigned int i = 0; i < keys && n < 16; i++) {
		k[n].data = name[n];
		k[n].len = (size_t)sprintf(name[n], "load/%u", i);
		expect(fluxonkv_stat(kv, k[n].data, k[n].len, &st[n]), 0,
		       "stat");
		n += st[n].where == FLUXONKV_WHERE_SSD;
	}
	check(n == 16, "16 keys are only on SSD");
	expect(fluxonkv_warm(kv, k, n, exists, &run), 0, "warm");
	check(run == n && exists[0] && exists[n - 1], "all of them exist");
	expect(fluxonkv_warm(kv, &missing, 1, &not_there, NULL), 0,
	       "warm of what is not there");
	check(!not_there, "which does not exist");
	for (int i = 0; i < 500 && in_memory < n; i++) {
		usleep(10000);
		expect(fluxonkv_stat_many(kv, k, n, st, NULL), 0, "stat_many");
		in_memory = 0;
		for (size_t j = 0; j < n; j++)
			in_memory += st[j].where & FLUXONKV_WHERE_MEMORY;
	}
	check(in_memory == n, "all of them came to memory");
	fluxonkv_close(kv);
	return failures != 0;
}

static unsigned int arg(char **argv, int argc, int i)
{
	return i < argc ? (unsigned int)strtoul(argv[i], NULL, 10) : 0;
}

int main(int argc, char **argv)
{
	const char *word = argc > 1 ? argv[1] : "";
	unsigned int a = arg(argv, argc, 2), b = arg(argv, argc, 3);
	unsigned int c = arg(argv, argc, 4);

	if (!strcmp(word, "churn"))
		return do_churn();
	if (!strcmp(word, "hold"))
		return do_hold(a);
	if (!strcmp(word, "quota"))
		return do_quota();
	if (!strcmp(word, "space"))
		return do_space(a);
	if (!strcmp(word, "orphan"))
		return do_orphan(a);
	if (!strcmp(word, "load"))
		return do_load(a, b, c);
	if (!strcmp(word, "look"))
		return do_look(a, b, c);
	if (!strcmp(word, "keep"))
		return do_keep();
	if (!strcmp(word, "gets"))
		return do_gets(a);
	if (!strcmp(word, "warm"))
		return do_warm(a);
	fprintf(stderr, "usage: story churn|hold N|quota|space KEYS|orphan N|"
		"load A B LEN|look A B LEN|keep|gets KEYS|warm KEYS\n");
	return 2;
}
