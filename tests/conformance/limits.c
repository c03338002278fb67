// SPDX-License-Identifier: Apache-2.0
/*
 * limits.c - K2, K3, K4, H4, P4: the largest batches, caps, no room, deadlines
 */
#include "conformance.h"

#define BATCH	1024u

static char names[BATCH][512];
static struct fluxonkv_key keys[BATCH];

static void name_keys(void)
{
	for (unsigned int i = 0; i < BATCH; i++) {
		memset(names[i], 'n', sizeof(names[i]));
		memcpy(names[i] + 100, &i, sizeof(i));
		keys[i] = (struct fluxonkv_key){ names[i], sizeof(names[i]) };
	}
}

/* All calls that take a batch of keys, of which the first @n are there. */
static void large_reads(struct fluxonkv *kv, unsigned int n)
{
	static struct fluxonkv_holder h[BATCH];
	static struct fluxonkv_into into[BATCH];
	static struct fluxonkv_stat st[BATCH];
	static unsigned char there[BATCH];
	static uint64_t buf[BATCH];
	size_t run = 0;

	for (unsigned int i = 0; i < BATCH; i++)
		into[i] = (struct fluxonkv_into){
			.key = keys[i], .buf = &buf[i], .size = 8,
		};
	expect(fluxonkv_get_many(kv, keys, BATCH, h), 0, "get_many");
	expect(fluxonkv_get_into_many(kv, into, BATCH), 0, "get_into_many");
	expect(fluxonkv_stat_many(kv, keys, BATCH, st, &run), 0, "stat_many");
	check(run == n, "its leading run");
	expect(fluxonkv_exists_many(kv, keys, BATCH, there, &run), 0,
	       "exists_many");
	check(run == n, "its leading run");
	for (unsigned int i = 0; i < BATCH; i++) {
		int want = i < n ? 0 : -ENOENT;

		expect(h[i].status, want, "get");
		expect(into[i].status, want, "get_into");
		expect(st[i].status, want, "stat");
		check(there[i] == (i < n), "exists");
		check(i >= n || (*(const uint64_t *)h[i].data == i &&
				 buf[i] == i && st[i].len == 8), "its value");
	}
	expect(fluxonkv_release_many(kv, h, BATCH), 0, "release_many");
	for (unsigned int i = 0; i < BATCH; i++)
		expect(h[i].status, i < n ? 0 : -EINVAL, "release");
}

static int batch_of_1024_longest_keys_goes_through_every_call(void)
{
	static struct fluxonkv_value v[BATCH];
	static struct fluxonkv_putop op[BATCH];
	static uint64_t data[BATCH];
	static int gone[BATCH];
	struct fluxonkv *kv = open_client();

	name_keys();
	for (unsigned int i = 0; i < BATCH; i++) {
		data[i] = i;
		v[i] = (struct fluxonkv_value){
			.key = keys[i], .data = &data[i], .len = 8,
		};
	}
	expect(fluxonkv_put_many(kv, v, 1000), 0, "put_many");
	for (unsigned int i = 0; i < 1000; i++)
		expect(v[i].status, 0, "put");
	large_reads(kv, 1000);
	expect(fluxonkv_put_begin_many(kv, v, BATCH, op), 0, "begin_many");
	for (unsigned int i = 0; i < BATCH; i++) {
		expect(op[i].status, 0, "begin");
		if (!op[i].status)
			memcpy(op[i].data, &data[i], 8);
	}
	expect(fluxonkv_put_extend_many(kv, op, BATCH), 0, "extend_many");
	expect(fluxonkv_put_commit_many(kv, op, BATCH), 0, "commit_many");
	for (unsigned int i = 0; i < BATCH; i++)
		expect(op[i].status, 0, "commit");
	large_reads(kv, BATCH);
	expect(fluxonkv_delete_many(kv, keys, BATCH, gone), 0, "delete_many");
	for (unsigned int i = 0; i < BATCH; i++)
		expect(gone[i], 0, "delete");
	fluxonkv_close(kv);
	return failures != 0;
}

/* What is begun at once must leave room for others, or it waits for itself. */
static int batch_of_puts_larger_than_memory_goes_through(void)
{
	struct fluxonkv *kv = open_client();
	unsigned int n = (unsigned int)(conf_segment(kv) / MIB * 3 / 2);
	struct fluxonkv_value *v;
	void *data = bytes(MIB, 3);
	double t = now();

	n = n < BATCH ? n : BATCH;
	v = calloc(n, sizeof(*v));
	for (unsigned int i = 0; i < n; i++) {
		sprintf(names[i], "large/%u", i);
		v[i] = (struct fluxonkv_value){
			.key = conf_key(names[i]), .data = data, .len = MIB,
		};
	}
	expect(fluxonkv_put_many(kv, v, n), 0, "put_many");
	for (unsigned int i = 0; i < n; i++)
		expect(v[i].status, 0, "each");
	check(now() - t < 10.1, "by its deadline");
	check(n && conf_has(kv, names[n - 1], MIB, 3), "the last is there");
	free(v);
	free(data);
	fluxonkv_close(kv);
	return failures != 0;
}

/* H4: a client may pin half of the segment. */
static int client_has_its_cap_of_held_bytes(void)
{
	struct fluxonkv *kv = open_client();
	unsigned int half = (unsigned int)(conf_segment(kv) / MIB / 2), n = 0;
	struct fluxonkv_holder *h = calloc(half + 2, sizeof(*h)), more;
	struct fluxonkv_putop op;
	static char buf[MIB];
	int err = 0;

	expect(put_seed(kv, "k", MIB, 1, 0), 0, "put");
	while (n < half + 2 && !(err = fluxonkv_get(kv, "k", 1, &h[n])))
		n++;
	expect(err, -EDQUOT, "over the cap");
	check(n <= half && n + 2 >= half, "which is half of the segment");
	conf_sentence("cap", "with a sentence");
	expect(fluxonkv_put_begin(kv, "p", 1, 2 * MIB, 0, &op), -EDQUOT,
	       "an open put counts, too");
	expect(fluxonkv_get_into(kv, "k", 1, buf, MIB, NULL), -EDQUOT,
	       "and so does what is copied");
	expect(fluxonkv_release(kv, &h[0]), 0, "release");
	expect(fluxonkv_get(kv, "k", 1, &more), 0, "room for another");
	expect(fluxonkv_release(kv, &more), 0, "release");
	expect(fluxonkv_release_many(kv, h + 1, n - 1), 0, "release all");
	expect(fluxonkv_put_begin(kv, "p", 1, 2 * MIB, 0, &op), 0, "begin");
	expect(fluxonkv_put_abort(kv, &op), 0, "abort");
	free(h);
	fluxonkv_close(kv);
	return failures != 0;
}

/* In memory that is full of open puts. */
static void no_room(struct fluxonkv *other)
{
	double t = now();
	int err;

	expect(put_seed(other, "nowait", MIB, 1, FLUXONKV_NOWAIT), -ENOSPC,
	       "NOWAIT");
	check(now() - t < 0.3, "it does not wait");
	conf_sentence("free", "ENOSPC says why");
	fluxonkv_set_timeout(other, 0);
	err = put_seed(other, "zero", MIB, 1, 0);
	expect(err, -EAGAIN, "timeout 0");
	fluxonkv_set_timeout(other, 400);
	t = now();
	err = put_seed(other, "short", MIB, 1, 0);
	check(err == -ENOSPC || err == -ETIMEDOUT, "timeout of 400 ms");
	check(now() - t > 0.3 && now() - t < 0.55, "it waits so long");
	expect(conf_exists(other, "nowait"), -ENOENT, "nothing is there");
	fluxonkv_set_timeout(other, 10000);
}

/* P4, K3, K4 */
static int full_memory_is_enospc_or_eagain_by_the_deadline(void)
{
	struct fluxonkv *kv = open_client(), *other = open_client();
	unsigned int n = 0, all = (unsigned int)(conf_segment(kv) / MIB);
	struct fluxonkv_putop *op = calloc(all + 1, sizeof(*op));
	char name[32];

	while (n <= all) {
		sprintf(name, "open/%u", n);
		if (fluxonkv_put_begin(kv, name, strlen(name), MIB,
				       FLUXONKV_NOWAIT, &op[n]))
			break;
		n++;
	}
	check(n >= all * 82 / 100 && n <= all * 86 / 100,
	      "85 % of the segment for open puts");
	no_room(other);
	expect(fluxonkv_put_abort_many(kv, op, n), 0, "abort all");
	expect(put_seed(other, "after", MIB, 1, 0), 0, "room is back");
	free(op);
	fluxonkv_close(other);
	fluxonkv_close(kv);
	return failures != 0;
}

/* Waits for room that somebody gives back meanwhile. */
static int put_waits_until_there_is_room(void)
{
	struct fluxonkv *kv = open_client();
	unsigned int n = 0, all = (unsigned int)(conf_segment(kv) / MIB);
	struct fluxonkv_putop *op = calloc(all + 1, sizeof(*op));
	int status = -1;
	pid_t pid;

	while (n <= all && !fluxonkv_put_begin(kv, "k", 1, MIB,
					       FLUXONKV_NOWAIT, &op[n]))
		n++;
	fflush(stdout);
	pid = fork();
	if (!pid) {
		struct fluxonkv *own = open_client();

		failures = 0;
		expect(put_seed(own, "waits", 8 * MIB, 1, 0), 0, "child: put");
		fluxonkv_close(own);
		fflush(stdout);
		_exit(failures != 0);
	}
	check(becomes(kv, "status", "\"waiting\"", 1, 5), "it waits");
	expect(fluxonkv_put_abort_many(kv, op, n), 0, "abort all");
	waitpid(pid, &status, 0);
	check(!status, "the child's put went through");
	check(conf_has(kv, "waits", 8 * MIB, 1), "its value");
	free(op);
	fluxonkv_close(kv);
	return failures != 0;
}

/* K3 */
static int timeout_of_0_serves_what_needs_no_waiting(void)
{
	struct fluxonkv *kv = open_client();
	struct fluxonkv_putop op;

	expect(fluxonkv_set_timeout(kv, 0), 0, "timeout 0");
	expect(put_seed(kv, "k", 100, 3, 0), 0, "put");
	check(conf_has(kv, "k", 100, 3), "get of what is in memory");
	expect(conf_exists(kv, "none"), -ENOENT, "exists");
	expect(fluxonkv_put_begin(kv, "p", 1, 100, 0, &op), 0, "begin");
	fill(op.data, 100, 4);
	expect(fluxonkv_put_commit(kv, &op), 0, "commit");
	check(conf_has(kv, "p", 100, 4), "its value");
	expect(fluxonkv_delete(kv, "k", 1), 0, "delete");
	fluxonkv_close(kv);
	return failures != 0;
}

const struct conf_test conf_limits[] = {
	CONF(batch_of_1024_longest_keys_goes_through_every_call, ALWAYS),
	CONF(batch_of_puts_larger_than_memory_goes_through, ALWAYS),
	CONF(client_has_its_cap_of_held_bytes, CAPPED),
	CONF(full_memory_is_enospc_or_eagain_by_the_deadline, UNCAPPED),
	CONF(put_waits_until_there_is_room, UNCAPPED),
	CONF(timeout_of_0_serves_what_needs_no_waiting, ALWAYS),
	CONF_END,
};
