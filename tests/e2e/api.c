// SPDX-License-Identifier: Apache-2.0
/*
 * api.c - every call of the library on a daemon that is running: what it
 * gives back, what it refuses and with which errno
 */
#include "story.h"

/* ---- api: K1, K2, K4, D1, D4, H1, and fork (K5) ---- */

static void api_keys(struct fluxonkv *kv)
{
	char key[513];
	struct fluxonkv_holder h;
	struct fluxonkv_stat st;
	static const char a[] = "a/\0b", b[] = "a/\0c";

	memset(key, 'k', sizeof(key));
	expect(fluxonkv_put(kv, "1", 1, "x", 1, 0), 0, "key of 1 byte");
	expect(fluxonkv_put(kv, key, 512, "y", 1, 0), 0, "key of 512 bytes");
	expect(fluxonkv_put(kv, key, 513, "y", 1, 0), -E2BIG,
	       "key of 513 bytes");
	check(strstr(fluxonkv_last_error(), "512"), "E2BIG names the limit");
	expect(fluxonkv_put(kv, "", 0, "y", 1, 0), -EINVAL, "key of 0 bytes");
	expect(fluxonkv_get(kv, "", 0, &h), -EINVAL, "get: key of 0 bytes");
	expect(fluxonkv_get(kv, key, 513, &h), -E2BIG, "get: 513 bytes");
	expect(fluxonkv_delete(kv, key, 513), -E2BIG, "delete: 513 bytes");
	expect(fluxonkv_stat(kv, key, 513, &st), -E2BIG, "stat: 513 bytes");
	expect(fluxonkv_exists(kv, "", 0), -EINVAL, "exists: 0 bytes");
	expect(fluxonkv_put(kv, a, 4, "A", 1, 0), 0, "key with NUL and /");
	expect(fluxonkv_exists(kv, b, 4), -ENOENT, "bytes behind NUL count");
	expect(fluxonkv_put(kv, b, 4, "B", 1, 0), 0, "its neighbour");
	expect(fluxonkv_get(kv, a, 4, &h), 0, "get of key with NUL");
	check(h.len == 1 && *(const char *)h.data == 'A', "its value");
	expect(fluxonkv_release(kv, &h), 0, "release");
	expect(fluxonkv_get(kv, key, 512, &h), 0, "get of 512 bytes");
	expect(fluxonkv_release(kv, &h), 0, "release");
	expect(fluxonkv_delete(kv, key, 512), 0, "delete of 512 bytes");
	expect(fluxonkv_put(kv, "f", 1, "x", 1, 1u << 9), -EINVAL,
	       "unknown flag");
}

static void api_values(struct fluxonkv *kv)
{
	uint64_t before = used_at_rest(kv), len = 99;
	struct fluxonkv_holder h;
	struct fluxonkv_putop op;
	char buf[4];

	expect(fluxonkv_put(kv, "empty", 5, NULL, 0, 0), 0, "value of 0 bytes");
	check(used(kv) == before, "it takes no room");
	expect(fluxonkv_get(kv, "empty", 5, &h), 0, "get of it");
	check(h.len == 0 && !h.data && h.source == FLUXONKV_SERVED_LOCAL,
	      "0 bytes, NULL, from memory");
	expect(fluxonkv_release(kv, &h), 0, "release of it");
	expect(fluxonkv_get_into(kv, "empty", 5, NULL, 0, &len), 0,
	       "get_into of it");
	check(len == 0, "get_into says 0 bytes");
	expect(fluxonkv_delete(kv, "empty", 5), 0, "delete of it");
	expect(fluxonkv_put_begin(kv, "big", 3, (1ULL << 40) + 1, 0, &op),
	       -EFBIG, "2^40 + 1 bytes");
	expect(fluxonkv_put_begin(kv, "big", 3, 1ULL << 40, 0, &op), -EFBIG,
	       "2^40 bytes do not fit here");
	/* P4: a put may have 85 % of the segment of 64 MiB */
	expect(fluxonkv_put_begin(kv, "big", 3, 62u * MIB, 0, &op), -EFBIG,
	       "more than puts may have");
	check(used(kv) == before, "nothing was allocated");
	expect(fluxonkv_put(kv, "ten", 3, "0123456789", 10, 0), 0, "10 bytes");
	memset(buf, 'z', sizeof(buf));
	expect(fluxonkv_get_into(kv, "ten", 3, buf, 4, &len), -ENOBUFS,
	       "buffer of 4 bytes");
	check(len == 10 && !memcmp(buf, "zzzz", 4), "length said, none copied");
	expect(fluxonkv_get_into(kv, "none", 4, buf, 4, &len), -ENOENT,
	       "get_into of no key");
	expect(fluxonkv_put(kv, "ten", 3, NULL, 10, 0), -EINVAL, "no data");
}

static void api_batch_put(struct fluxonkv *kv)
{
	static char longkey[600];
	struct fluxonkv_value v[5] = {
		{ .key = { "b0", 2 }, .data = "zero", .len = 4 },
		{ .key = { "", 0 }, .data = "x", .len = 1 },
		{ .key = { longkey, 600 }, .data = "x", .len = 1 },
		{ .key = { "b0", 2 }, .data = "x", .len = (1ULL << 41) },
		{ .key = { "b4", 2 }, .data = "four", .len = 4 },
	};
	struct fluxonkv_value again[2] = {
		{ .key = { "b0", 2 }, .data = "new", .len = 3,
		  .flags = FLUXONKV_EXCL },
		{ .key = { "b5", 2 }, .data = "five", .len = 4,
		  .flags = FLUXONKV_EXCL },
	};

	expect(fluxonkv_put_many(kv, v, 5), 0, "put_many with wrong ones");
	expect(v[0].status, 0, "put_many[0]");
	expect(v[1].status, -EINVAL, "put_many[1]");
	expect(v[2].status, -E2BIG, "put_many[2]");
	expect(v[3].status, -EFBIG, "put_many[3]");
	expect(v[4].status, 0, "put_many[4]");
	check(v[0].version && v[4].version, "versions of a batch are set");
	expect(fluxonkv_put_many(kv, again, 2), 0, "put_many EXCL");
	expect(again[0].status, -EEXIST, "EXCL of one that is there");
	expect(again[1].status, 0, "EXCL of a new one");
	expect(fluxonkv_put_many(kv, v, 1025), -E2BIG, "batch of 1,025");
	expect(fluxonkv_put_many(kv, v, 0), 0, "batch of none");
}

/* Of several puts of one key in a batch the last one's value stays. */
static void api_batch_same_key(struct fluxonkv *kv)
{
	struct fluxonkv_value v[5] = { 0 };
	uint64_t len = 0;
	char got[8];

	for (unsigned int i = 0; i < 5; i++) {
		v[i].key.data = i % 2 ? "other" : "twice";
		v[i].key.len = 5;
		v[i].data = &"0\0001\0002\0003\0004"[2 * i];
		v[i].len = 2;
	}
	expect(fluxonkv_put_many(kv, v, 5), 0, "put_many of one key twice");
	for (unsigned int i = 0; i < 5; i++)
		expect(v[i].status, 0, "each of them");
	check(v[4].version > v[2].version && v[2].version > v[0].version,
	      "versions rise with the index");
	expect(fluxonkv_get_into(kv, "twice", 5, got, 8, &len), 0, "get");
	check(len == 2 && got[0] == '4', "the last put's value");
}

static void api_batch_get(struct fluxonkv *kv)
{
	struct fluxonkv_key k[4] = {
		{ "b0", 2 }, { "b4", 2 }, { "none", 4 }, { "", 0 },
	};
	struct fluxonkv_holder h[4];
	struct fluxonkv_stat st[4];
	unsigned char there[3];
	size_t run = 99;
	char buf[8];
	struct fluxonkv_into into[4] = {
		{ .key = k[0], .buf = buf, .size = 4 },
		{ .key = k[1], .buf = buf, .size = 3 },
		{ .key = k[2], .buf = buf, .size = 8 },
		{ .key = k[3], .buf = buf, .size = 8 },
	};
	int gone[4];

	expect(fluxonkv_get_many(kv, k, 4, h), 0, "get_many");
	expect(h[0].status, 0, "get_many[0]");
	expect(h[1].status, 0, "get_many[1]");
	expect(h[2].status, -ENOENT, "get_many[2]");
	expect(h[3].status, -EINVAL, "get_many[3]");
	check(h[2].source == FLUXONKV_SERVED_MISS, "a miss says so");
	check(!h[0].status && !memcmp(h[0].data, "zero", 4), "its bytes");
	expect(fluxonkv_release_many(kv, h, 2), 0, "release_many");
	expect(fluxonkv_release(kv, &h[0]), -EINVAL, "release again");
	expect(fluxonkv_get_into_many(kv, into, 4), 0, "get_into_many");
	expect(into[0].status, 0, "get_into_many[0]");
	expect(into[1].status, -ENOBUFS, "get_into_many[1]");
	check(into[1].len == 4, "and its length");
	expect(into[2].status, -ENOENT, "get_into_many[2]");
	expect(into[3].status, -EINVAL, "get_into_many[3]");
	expect(fluxonkv_stat_many(kv, k, 4, st, &run), 0, "stat_many");
	check(run == 2 && st[0].len == 4 && st[2].status == -ENOENT &&
	      st[3].status == -EINVAL, "stat_many: run of 2");
	check(st[0].where & FLUXONKV_WHERE_MEMORY, "in memory");
	expect(fluxonkv_exists_many(kv, k, 3, there, &run), 0, "exists_many");
	check(run == 2 && there[0] && there[1] && !there[2], "run of 2");
	expect(fluxonkv_exists_many(kv, k + 2, 1, NULL, &run), 0, "only run");
	check(run == 0, "run of 0");
	expect(fluxonkv_delete_many(kv, k, 4, gone), 0, "delete_many");
	check(!gone[0] && !gone[1] && gone[2] == -ENOENT &&
	      gone[3] == -EINVAL, "delete_many: one result per key");
}

static void api_options(struct fluxonkv *kv, struct fluxonkv *other)
{
	struct fluxonkv_putop op, second;
	struct fluxonkv_holder h;

	expect(put_seed(kv, "o", 100, 1, FLUXONKV_EXCL), 0, "EXCL, new");
	expect(put_seed(kv, "o", 100, 2, FLUXONKV_EXCL), -EEXIST, "EXCL, old");
	expect(fluxonkv_put_begin(kv, "p", 1, 100, 0, &op), 0, "begin");
	expect(put_seed(other, "p", 100, 2, FLUXONKV_EXCL), -EBUSY,
	       "EXCL while one is in flight");
	expect(fluxonkv_get(other, "p", 1, &h), -ENOENT, "not published yet");
	expect(put_seed(other, "p", 100, 3, 0), 0, "a second put");
	fill(op.data, 100, 4);
	expect(fluxonkv_put_commit(kv, &op), 0, "commit of the first");
	check(op.version != 0, "commit gives a version");
	expect(fluxonkv_put_commit(kv, &op), -EINVAL, "commit again");
	expect(fluxonkv_get(other, "p", 1, &h), 0, "get");
	check(same(h.data, 100, 4) && h.version == op.version,
	      "the last commit wins");
	expect(fluxonkv_release(other, &h), 0, "release");
	expect(fluxonkv_release(other, &h), -EINVAL, "double release");
	expect(fluxonkv_put_begin(kv, "q", 1, 100, 0, &op), 0, "begin q");
	expect(fluxonkv_put_extend(kv, &op), 0, "extend");
	expect(fluxonkv_put_begin(kv, "r", 1, 100, 0, &second), 0, "begin r");
	expect(fluxonkv_put_commit(other, &second), -EINVAL,
	       "commit by another client");
	/* a put that is refused keeps none of its handles: begin again */
	if (!second.priv[0])
		fluxonkv_put_begin(kv, "r", 1, 100, 0, &second);
	expect(fluxonkv_put_abort(kv, &op), 0, "abort");
	expect(fluxonkv_put_abort(kv, &op), -EINVAL, "abort again");
	expect(fluxonkv_put_abort(kv, &second), 0, "abort r");
	expect(fluxonkv_exists(kv, "q", 1), -ENOENT, "aborted: nothing there");
	expect(put_seed(kv, "mem", 5000, 5, FLUXONKV_MEMORY_ONLY), 0,
	       "memory only");
}

static void api_overwrite(struct fluxonkv *kv)
{
	struct fluxonkv_holder h, h2;

	expect(put_seed(kv, "w", 9000, 1, 0), 0, "put w");
	expect(fluxonkv_get(kv, "w", 1, &h), 0, "hold w");
	expect(put_seed(kv, "w", 8000, 2, 0), 0, "overwrite w");
	check(same(h.data, 9000, 1), "the holder has the old bytes");
	expect(fluxonkv_get(kv, "w", 1, &h2), 0, "get w");
	check(h2.len == 8000 && same(h2.data, 8000, 2) &&
	      h2.version > h.version, "new bytes, larger version");
	expect(fluxonkv_release(kv, &h2), 0, "release of the new");
	expect(fluxonkv_delete(kv, "w", 1), 0, "delete w");
	expect(fluxonkv_delete(kv, "w", 1), -ENOENT, "delete w again");
	expect(fluxonkv_get(kv, "w", 1, &h2), -ENOENT, "w is gone");
	check(same(h.data, 9000, 1), "the holder has them still");
	expect(fluxonkv_release(kv, &h), 0, "release w");
}

/* D4: keys stable/N are there throughout; others come and go. */
static void walk(struct fluxonkv *kv, unsigned int keys)
{
	static struct fluxonkv_listed_key got[37];
	struct fluxonkv_key prefix = { "walk/", 5 }, cursor = { NULL, 0 };
	unsigned int seen[2000] = { 0 }, turn = 0;
	char last[512], name[64];
	size_t n;

	do {
		expect(fluxonkv_list(kv, &prefix, &cursor, got, 37, &n), 0,
		       "list");
		for (size_t i = 0; i < n; i++) {
			unsigned int k;

			got[i].key[got[i].key_len] = '\0';
			check(!cursor.len || strcmp(got[i].key, last) > 0,
			      "byte order");
			strcpy(last, got[i].key);
			cursor = (struct fluxonkv_key){ last, got[i].key_len };
			if (sscanf(last, "walk/s%4u", &k) == 1 && k < keys)
				seen[k]++;
		}
		for (int i = 0; i < 20; i++, turn++) {
			sprintf(name, "walk/x%04u", turn * 7919 % 2000);
			if (turn & 1)
				fluxonkv_delete(kv, name, strlen(name));
			else
				put_seed(kv, name, 10, turn, 0);
			sprintf(name, "walk/x%04u", turn * 104729 % 2000);
			put_seed(kv, name, 10, turn, 0);
		}
	} while (n == 37);
	for (unsigned int k = 0; k < keys; k++)
		check(seen[k] == 1, "each key exactly once");
}

static void api_list(struct fluxonkv *kv)
{
	struct fluxonkv_key none = { "nosuch/", 7 };
	struct fluxonkv_listed_key one;
	uint64_t count = 0;
	char name[64];
	size_t n = 9;

	for (unsigned int k = 0; k < 500; k++) {
		sprintf(name, "walk/s%04u", k);
		expect(put_seed(kv, name, 10, k, 0), 0, "put for a walk");
	}
	expect(fluxonkv_count(kv, "walk/s", 6, &count), 0, "count");
	check(count == 500, "count of 500");
	walk(kv, 500);
	expect(fluxonkv_count(kv, "walk/s", 6, &count), 0, "count");
	check(count == 500, "count of 500 still");
	expect(fluxonkv_list(kv, &none, NULL, &one, 1, &n), 0, "list of none");
	check(n == 0, "none listed");
	expect(fluxonkv_list(kv, &none, NULL, &one, 0, &n), -EINVAL, "max 0");
	expect(fluxonkv_list(kv, &none, NULL, &one, 1001, &n), -EINVAL,
	       "max 1,001");
	expect(fluxonkv_list(kv, NULL, NULL, &one, 1, &n), 0, "list of all");
	check(n == 1, "one listed");
}

static void child_of_fork(struct fluxonkv *kv, struct fluxonkv_holder *h)
{
	struct fluxonkv_holder mine;
	struct fluxonkv *own;

	failures = 0;
	expect(fluxonkv_get(kv, "fork", 4, &mine), -EOWNERDEAD, "child: get");
	expect(put_seed(kv, "fork", 10, 9, 0), -EOWNERDEAD, "child: put");
	expect(fluxonkv_release(kv, h), -EOWNERDEAD, "child: release");
	expect(fluxonkv_delete(kv, "fork", 4), -EOWNERDEAD, "child: delete");
	expect(fluxonkv_set_timeout(kv, 1), -EOWNERDEAD, "child: timeout");
	fluxonkv_close(kv);
	own = open_client();
	expect(fluxonkv_get(own, "fork", 4, &mine), 0, "child: own client");
	fluxonkv_close(own);
	fflush(stdout);
	_exit(failures != 0);
}

static void api_fork(struct fluxonkv *kv)
{
	struct fluxonkv_holder h, again;
	int status = -1;
	pid_t pid;

	expect(put_seed(kv, "fork", 5000, 7, 0), 0, "put fork");
	expect(fluxonkv_get(kv, "fork", 4, &h), 0, "hold fork");
	fflush(stdout);
	pid = fork();
	if (!pid)
		child_of_fork(kv, &h);
	waitpid(pid, &status, 0);
	check(WIFEXITED(status) && !WEXITSTATUS(status), "the child");
	check(same(h.data, 5000, 7), "the parent's holder");
	expect(fluxonkv_get(kv, "fork", 4, &again), 0, "the parent's get");
	expect(fluxonkv_release(kv, &again), 0, "release");
	expect(fluxonkv_release(kv, &h), 0, "release");
	expect(put_seed(kv, "fork", 10, 8, 0), 0, "the parent's put");
}

static void api_timeout(struct fluxonkv *kv)
{
	struct fluxonkv_holder h;
	struct fluxonkv *zero = open_client();

	expect(put_seed(kv, "t0", 100, 3, 0), 0, "put t0");
	expect(fluxonkv_set_timeout(zero, 0), 0, "timeout 0");
	expect(fluxonkv_get(zero, "t0", 2, &h), 0, "a hit does not wait");
	if (!h.status)
		fluxonkv_release(zero, &h);
	expect(fluxonkv_set_timeout(zero, 10000), 0, "timeout 10 s");
	expect(fluxonkv_get(zero, "t1", 2, &h), -ENOENT, "miss");
	fluxonkv_close(zero);
}

static void api_misuse(void)
{
	struct fluxonkv_holder h = { .len = 1 };
	struct fluxonkv *kv = open_client(), *bad = NULL;
	char *text;

	expect(fluxonkv_release(kv, &h), -EINVAL, "release of none");
	expect(fluxonkv_get(kv, NULL, 3, &h), -EINVAL, "key is NULL");
	expect(fluxonkv_get(kv, "a", 1, NULL), -EINVAL, "holder is NULL");
	expect(fluxonkv_open("tcp:1", &bad), -EINVAL, "an address that is none");
	expect(fluxonkv_open("unix:/nonexistent/s", &bad), -ENOENT,
	       "no daemon there");
	expect(fluxonkv_admin(kv, "nosuch", NULL, &text), -EINVAL,
	       "unknown word");
	check(*fluxonkv_last_error(), "a sentence");
	fluxonkv_close(kv);
	fluxonkv_close(NULL);
}

int main(void)
{
	struct fluxonkv *kv = open_client(), *other = open_client();
	struct fluxonkv_counters c;

	api_keys(kv);
	api_values(kv);
	api_batch_put(kv);
	api_batch_same_key(kv);
	api_batch_get(kv);
	api_options(kv, other);
	api_overwrite(kv);
	api_list(kv);
	api_fork(kv);
	api_timeout(kv);
	api_misuse();
	expect(fluxonkv_get_counters(kv, &c), 0, "counters");
	if (c.held || c.held_bytes || !c.requests || !c.hits_local) {
		printf("FAIL counters: held %" PRIu64 " held_bytes %" PRIu64
		       " requests %" PRIu64 " hits_local %" PRIu64 "\n",
		       c.held, c.held_bytes, c.requests, c.hits_local);
		failures++;
	}
	fluxonkv_close(other);
	fluxonkv_close(kv);
	return failures != 0;
}
