// SPDX-License-Identifier: Apache-2.0
/*
 * puts.c - K2, K4, P1, P2, P5: put and put in place, single and in a batch
 */
#include "conformance.h"

static int put_is_seen_when_it_returns_and_replaces(void)
{
	struct fluxonkv *kv = open_client(), *other = open_client();
	struct fluxonkv_stat a, b;

	expect(put_seed(kv, "k", 5000, 1, 0), 0, "put");
	check(conf_has(other, "k", 5000, 1), "another client sees it");
	expect(fluxonkv_stat(kv, "k", 1, &a), 0, "stat");
	expect(put_seed(other, "k", 70000, 2, 0), 0, "put by the other");
	check(conf_has(kv, "k", 70000, 2), "the first one sees that");
	expect(fluxonkv_stat(kv, "k", 1, &b), 0, "stat");
	check(a.version && b.version > a.version, "versions rise");
	fluxonkv_close(other);
	fluxonkv_close(kv);
	return failures != 0;
}

/* P1: without its bytes being the caller's any more. */
static int put_has_copied_when_it_returns(void)
{
	struct fluxonkv *kv = open_client();
	uint8_t *p = bytes(3 * MIB, 5);

	expect(fluxonkv_put(kv, "k", 1, p, 3 * MIB, 0), 0, "put");
	memset(p, 0xee, 3 * MIB);
	check(conf_has(kv, "k", 3 * MIB, 5), "the bytes of then");
	free(p);
	fluxonkv_close(kv);
	return failures != 0;
}

static int batch_of_puts_has_a_status_and_a_version_each(void)
{
	static char longkey[600];
	struct fluxonkv *kv = open_client();
	struct fluxonkv_value v[5] = {
		{ .key = { "b0", 2 }, .data = "zero", .len = 4 },
		{ .key = { "", 0 }, .data = "x", .len = 1 },
		{ .key = { longkey, 600 }, .data = "x", .len = 1 },
		{ .key = { "b0", 2 }, .data = "x", .len = (1ULL << 41) },
		{ .key = { "b4", 2 }, .data = "four", .len = 4 },
	};
	static const int want[5] = { 0, -EINVAL, -E2BIG, -EFBIG, 0 };
	struct fluxonkv_stat st;

	expect(fluxonkv_put_many(kv, v, 5), 0, "put_many");
	for (int i = 0; i < 5; i++)
		expect(v[i].status, want[i], "each");
	check(v[0].version && v[4].version && !v[1].version, "versions");
	expect(fluxonkv_stat(kv, "b4", 2, &st), 0, "stat");
	check(st.version == v[4].version && st.len == 4, "as stat says");
	expect(fluxonkv_put_many(kv, v, 1025), -E2BIG, "batch of 1,025");
	conf_sentence("1024", "it names the limit");
	expect(fluxonkv_put_many(kv, v, 0), 0, "batch of none");
	expect(fluxonkv_put_many(kv, NULL, 1), -EINVAL, "NULL");
	fluxonkv_close(kv);
	return failures != 0;
}

static int last_put_of_a_key_in_a_batch_stays(void)
{
	struct fluxonkv *kv = open_client();
	struct fluxonkv_value v[5] = { 0 };
	uint64_t len = 0;
	char got[8];

	for (unsigned int i = 0; i < 5; i++) {
		v[i].key = conf_key(i % 2 ? "other" : "twice");
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
	fluxonkv_close(kv);
	return failures != 0;
}

static int put_in_place_is_seen_with_its_commit(void)
{
	struct fluxonkv *kv = open_client(), *other = open_client();
	struct fluxonkv_putop op;
	struct fluxonkv_stat st;

	expect(put_seed(kv, "k", 100, 1, 0), 0, "put");
	expect(fluxonkv_put_begin(kv, "k", 1, 3 * MIB, 0, &op), 0, "begin");
	check(op.data && op.len == 3 * MIB, "room to write to");
	fill(op.data, 3 * MIB, 2);
	check(same(op.data, 3 * MIB, 2), "which can be read, too");
	check(conf_has(other, "k", 100, 1), "the old value until then");
	expect(fluxonkv_put_extend(kv, &op), 0, "extend");
	expect(fluxonkv_put_commit(kv, &op), 0, "commit");
	check(op.version, "commit gives a version");
	check(conf_has(other, "k", 3 * MIB, 2), "the new value");
	expect(fluxonkv_stat(kv, "k", 1, &st), 0, "stat");
	check(st.version == op.version, "and version");
	expect(fluxonkv_put_commit(kv, &op), -EINVAL, "commit again");
	expect(fluxonkv_put_abort(kv, &op), -EINVAL, "abort then");
	expect(fluxonkv_put_extend(kv, &op), -EINVAL, "extend then");
	fluxonkv_close(other);
	fluxonkv_close(kv);
	return failures != 0;
}

/* P5 */
static int aborted_put_leaves_nothing(void)
{
	struct fluxonkv *kv = open_client();
	struct fluxonkv_putop op;

	expect(put_seed(kv, "old", 100, 1, 0), 0, "put");
	expect(fluxonkv_put_begin(kv, "old", 3, MIB, 0, &op), 0, "begin");
	fill(op.data, MIB, 2);
	expect(fluxonkv_put_abort(kv, &op), 0, "abort");
	expect(fluxonkv_put_abort(kv, &op), -EINVAL, "abort again");
	expect(fluxonkv_put_commit(kv, &op), -EINVAL, "commit then");
	check(conf_has(kv, "old", 100, 1), "the key is as it was");
	expect(fluxonkv_put_begin(kv, "new", 3, MIB, 0, &op), 0, "begin");
	expect(fluxonkv_put_abort(kv, &op), 0, "abort");
	expect(conf_exists(kv, "new"), -ENOENT, "no key came of it");
	expect(put_seed(kv, "new", 10, 1, FLUXONKV_EXCL), 0, "it is free");
	check(becomes(kv, "status", "\"used_bytes\"", 2 * 4096, 5),
	      "its room is back");
	fluxonkv_close(kv);
	return failures != 0;
}

static int of_two_open_puts_the_last_commit_wins(void)
{
	struct fluxonkv *kv = open_client(), *other = open_client();
	struct fluxonkv_putop a, b;

	expect(fluxonkv_put_begin(kv, "k", 1, 100, 0, &a), 0, "begin");
	expect(fluxonkv_put_begin(other, "k", 1, 200, 0, &b), 0, "second");
	fill(a.data, 100, 1);
	fill(b.data, 200, 2);
	expect(fluxonkv_put_commit(other, &b), 0, "commit of the second");
	check(conf_has(kv, "k", 200, 2), "its value");
	expect(fluxonkv_put_commit(kv, &a), 0, "commit of the first");
	check(conf_has(kv, "k", 100, 1), "its value");
	check(a.version > b.version, "versions rise as they took effect");
	fluxonkv_close(other);
	fluxonkv_close(kv);
	return failures != 0;
}

static int put_belongs_to_its_client(void)
{
	struct fluxonkv *kv = open_client(), *other = open_client();
	struct fluxonkv_putop op, copy;

	expect(fluxonkv_put_begin(kv, "k", 1, 100, 0, &op), 0, "begin");
	copy = op;
	expect(fluxonkv_put_commit(other, &copy), -EINVAL, "commit by another");
	copy = op;
	expect(fluxonkv_put_abort(other, &copy), -EINVAL, "abort by another");
	fill(op.data, 100, 1);
	expect(fluxonkv_put_commit(kv, &op), 0, "commit");
	check(conf_has(other, "k", 100, 1), "its value");
	fluxonkv_close(other);
	fluxonkv_close(kv);
	return failures != 0;
}

/* P5, H2 */
static int open_puts_end_with_their_client(void)
{
	struct fluxonkv *kv = open_client(), *other = open_client();
	struct fluxonkv_putop op[3];

	for (int i = 0; i < 3; i++) {
		expect(fluxonkv_put_begin(other, "k", 1, MIB, 0, &op[i]), 0,
		       "begin");
		memset(op[i].data, 0xaa, MIB / 2);
	}
	fluxonkv_close(other);
	expect(conf_exists(kv, "k"), -ENOENT, "no key came of it");
	check(becomes(kv, "refs", "\"open_puts\"", 0, 5), "no open put");
	check(becomes(kv, "status", "\"used_bytes\"", 0, 5), "no room taken");
	fluxonkv_close(kv);
	return failures != 0;
}

/* K4 */
static int excl_is_eexist_or_ebusy(void)
{
	struct fluxonkv *kv = open_client(), *other = open_client();
	struct fluxonkv_value v[2] = {
		{ .key = { "o", 1 }, .data = "new", .len = 3,
		  .flags = FLUXONKV_EXCL },
		{ .key = { "n", 1 }, .data = "five", .len = 4,
		  .flags = FLUXONKV_EXCL },
	};
	struct fluxonkv_putop op;

	expect(put_seed(kv, "o", 100, 1, FLUXONKV_EXCL), 0, "of a new one");
	expect(put_seed(kv, "o", 100, 2, FLUXONKV_EXCL), -EEXIST, "of an old");
	check(conf_has(kv, "o", 100, 1), "which stays");
	expect(fluxonkv_put_begin(kv, "o", 1, 10, FLUXONKV_EXCL, &op),
	       -EEXIST, "begin");
	expect(fluxonkv_put_many(kv, v, 2), 0, "put_many");
	expect(v[0].status, -EEXIST, "one that is there");
	expect(v[1].status, 0, "one that is not");
	expect(fluxonkv_put_begin(kv, "p", 1, 100, 0, &op), 0, "begin p");
	expect(put_seed(other, "p", 100, 2, FLUXONKV_EXCL), -EBUSY,
	       "while one is in flight");
	expect(put_seed(other, "p", 100, 3, 0), 0, "without EXCL it may");
	expect(fluxonkv_put_abort(kv, &op), 0, "abort");
	expect(fluxonkv_delete(kv, "o", 1), 0, "delete");
	expect(put_seed(kv, "o", 100, 4, FLUXONKV_EXCL), 0, "new again");
	fluxonkv_close(other);
	fluxonkv_close(kv);
	return failures != 0;
}

static int memory_only_and_nowait_puts_are_puts(void)
{
	struct fluxonkv *kv = open_client();
	struct fluxonkv_stat st;

	expect(put_seed(kv, "m", 5000, 5, FLUXONKV_MEMORY_ONLY), 0, "put");
	expect(fluxonkv_stat(kv, "m", 1, &st), 0, "stat");
	check(st.where == FLUXONKV_WHERE_MEMORY, "in memory only");
	check(conf_has(kv, "m", 5000, 5), "its bytes");
	expect(put_seed(kv, "n", 5000, 6, FLUXONKV_NOWAIT), 0, "NOWAIT");
	check(conf_has(kv, "n", 5000, 6), "its bytes");
	fluxonkv_close(kv);
	return failures != 0;
}

static int batch_of_puts_in_place_has_a_status_each(void)
{
	struct fluxonkv *kv = open_client();
	struct fluxonkv_value v[4] = {
		{ .key = { "a", 1 }, .len = 5000 },
		{ .key = { "", 0 }, .len = 1 },
		{ .key = { "c", 1 }, .len = 0 },
		{ .key = { "d", 1 }, .len = 6000, .flags = 1u << 7 },
	};
	struct fluxonkv_putop op[4];

	expect(fluxonkv_put_begin_many(kv, v, 4, op), 0, "begin_many");
	expect(op[0].status, 0, "a");
	expect(op[1].status, -EINVAL, "no key");
	expect(op[2].status, 0, "c");
	expect(op[3].status, -EINVAL, "unknown flag");
	fill(op[0].data, 5000, 1);
	expect(fluxonkv_put_extend_many(kv, op, 4), 0, "extend_many");
	expect(op[0].status, 0, "extended");
	expect(op[1].status, -EINVAL, "not open");
	expect(fluxonkv_put_commit_many(kv, op, 4), 0, "commit_many");
	expect(op[0].status, 0, "committed");
	expect(op[1].status, -EINVAL, "not open");
	expect(op[2].status, 0, "committed");
	check(op[0].version && op[2].version, "versions");
	check(conf_has(kv, "a", 5000, 1) && conf_has(kv, "c", 0, 0),
	      "the values");
	expect(fluxonkv_put_begin_many(kv, v, 1, op), 0, "begin_many");
	expect(fluxonkv_put_abort_many(kv, op, 2), 0, "abort_many");
	expect(op[0].status, 0, "aborted");
	expect(op[1].status, -EINVAL, "not open");
	check(conf_has(kv, "a", 5000, 1), "the value stays");
	expect(fluxonkv_put_begin_many(kv, v, 1025, op), -E2BIG, "1,025");
	expect(fluxonkv_put_commit_many(kv, op, 1025), -E2BIG, "1,025");
	expect(fluxonkv_put_commit_many(kv, op, 0), 0, "none");
	fluxonkv_close(kv);
	return failures != 0;
}

/* P5: 60 s after begin, or after the last extend. */
static int put_that_nobody_extends_ends_after_60_s(void)
{
	struct fluxonkv *kv = open_client();
	struct fluxonkv_putop dies, lives;

	expect(put_seed(kv, "dies", 10, 1, 0), 0, "put");
	expect(fluxonkv_put_begin(kv, "dies", 4, MIB, 0, &dies), 0, "begin");
	expect(fluxonkv_put_begin(kv, "lives", 5, MIB, 0, &lives), 0, "begin");
	fill(lives.data, MIB, 2);
	sleep(40);
	expect(fluxonkv_put_extend(kv, &lives), 0, "extend after 40 s");
	sleep(22);
	expect(fluxonkv_put_commit(kv, &dies), -ETIMEDOUT, "after 62 s");
	check(conf_has(kv, "dies", 10, 1), "the old value");
	expect(fluxonkv_put_commit(kv, &lives), 0, "what was extended");
	check(conf_has(kv, "lives", MIB, 2), "its value");
	fluxonkv_close(kv);
	return failures != 0;
}

const struct conf_test conf_puts[] = {
	CONF(put_is_seen_when_it_returns_and_replaces, ALWAYS),
	CONF(put_has_copied_when_it_returns, ALWAYS),
	CONF(batch_of_puts_has_a_status_and_a_version_each, ALWAYS),
	CONF(last_put_of_a_key_in_a_batch_stays, ALWAYS),
	CONF(put_in_place_is_seen_with_its_commit, ALWAYS),
	CONF(aborted_put_leaves_nothing, ALWAYS),
	CONF(of_two_open_puts_the_last_commit_wins, ALWAYS),
	CONF(put_belongs_to_its_client, ALWAYS),
	CONF(open_puts_end_with_their_client, ALWAYS),
	CONF(excl_is_eexist_or_ebusy, ALWAYS),
	CONF(memory_only_and_nowait_puts_are_puts, ALWAYS),
	CONF(batch_of_puts_in_place_has_a_status_each, ALWAYS),
	CONF(put_that_nobody_extends_ends_after_60_s, SLOW),
	CONF_END,
};
