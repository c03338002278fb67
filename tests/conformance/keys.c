// SPDX-License-Identifier: Apache-2.0
/*
 * keys.c - K1: which keys and values there may be; what is no argument
 */
#include "conformance.h"

static char longest[4096];

static int key_of_1_to_512_bytes_is_a_key(void)
{
	struct fluxonkv *kv = open_client();
	struct fluxonkv_holder h;

	memset(longest, 'k', sizeof(longest));
	expect(fluxonkv_put(kv, "1", 1, "x", 1, 0), 0, "1 byte");
	expect(fluxonkv_put(kv, longest, 512, "y", 1, 0), 0, "512 bytes");
	expect(fluxonkv_exists(kv, longest, 511), -ENOENT, "511 are another");
	expect(fluxonkv_get(kv, longest, 512, &h), 0, "get of 512 bytes");
	check(h.len == 1 && *(const char *)h.data == 'y', "its value");
	expect(fluxonkv_release(kv, &h), 0, "release");
	expect(fluxonkv_delete(kv, longest, 512), 0, "delete of 512 bytes");
	fluxonkv_close(kv);
	return failures != 0;
}

/* Every call that takes a key, with one of @len bytes. */
static void refuse_key(struct fluxonkv *kv, size_t len, int err)
{
	struct fluxonkv_holder h;
	struct fluxonkv_putop op;
	struct fluxonkv_stat st;
	uint64_t n;

	expect(fluxonkv_put(kv, longest, len, "y", 1, 0), err, "put");
	check(err != -E2BIG || strstr(fluxonkv_last_error(), "512"),
	      "E2BIG names the limit");
	expect(fluxonkv_put_begin(kv, longest, len, 1, 0, &op), err, "begin");
	expect(fluxonkv_get(kv, longest, len, &h), err, "get");
	expect(fluxonkv_get_into(kv, longest, len, &n, 8, NULL), err,
	       "get_into");
	expect(fluxonkv_delete(kv, longest, len), err, "delete");
	expect(fluxonkv_stat(kv, longest, len, &st), err, "stat");
	expect(fluxonkv_exists(kv, longest, len), err, "exists");
	if (len)
		expect(fluxonkv_count(kv, longest, len, &n), err, "count");
}

static int key_of_another_length_is_refused_by_every_call(void)
{
	struct fluxonkv *kv = open_client();

	refuse_key(kv, 0, -EINVAL);
	refuse_key(kv, 513, -E2BIG);
	refuse_key(kv, sizeof(longest), -E2BIG);
	fluxonkv_close(kv);
	return failures != 0;
}

static int key_is_compared_byte_for_byte(void)
{
	static const struct fluxonkv_key keys[] = {
		{ "a", 1 }, { "A", 1 }, { "a\0", 2 }, { "a\0b", 3 },
		{ "a/\0b", 4 }, { "a/\0c", 4 }, { "a/b", 3 }, { "a/", 2 },
		{ " a", 2 }, { "\xff\xfe\x80", 3 }, { "\xc3\xa4", 2 },
		{ "a\xcc\x88", 3 }, { "\n", 1 }, { "\0", 1 }, { "\\x00", 4 },
	};
	const unsigned int n = sizeof(keys) / sizeof(keys[0]);
	struct fluxonkv *kv = open_client();
	uint64_t count = 0, len;
	unsigned int v;

	for (unsigned int i = 0; i < n; i++)
		expect(fluxonkv_put(kv, keys[i].data, keys[i].len, &i,
				    sizeof(i), 0), 0, "put");
	for (unsigned int i = 0; i < n; i++) {
		v = n;
		expect(fluxonkv_get_into(kv, keys[i].data, keys[i].len, &v,
					 sizeof(v), &len), 0, "get_into");
		check(len == sizeof(v) && v == i, "each has its own value");
	}
	expect(fluxonkv_count(kv, NULL, 0, &count), 0, "count");
	check(count == n, "as many keys as were put");
	expect(fluxonkv_exists(kv, "a/\0", 3), -ENOENT, "not of its beginning");
	fluxonkv_close(kv);
	return failures != 0;
}

static int value_of_0_bytes_takes_no_room(void)
{
	struct fluxonkv *kv = open_client();
	struct fluxonkv_holder h;
	struct fluxonkv_putop op;
	uint64_t len = 99;

	expect(fluxonkv_put(kv, "empty", 5, NULL, 0, 0), 0, "put");
	expect(fluxonkv_put_begin(kv, "empty2", 6, 0, 0, &op), 0, "begin");
	check(!op.data && !op.len, "nothing to write to");
	expect(fluxonkv_put_commit(kv, &op), 0, "commit");
	check(used_at_rest(kv) == 0, "no bytes are used");
	for (int i = 0; i < 2; i++) {
		expect(fluxonkv_get(kv, "empty2", 5 + (size_t)i, &h), 0,
		       "get");
		check(h.len == 0 && !h.data &&
		      h.source == FLUXONKV_SERVED_LOCAL,
		      "0 bytes, NULL, from memory");
		expect(fluxonkv_release(kv, &h), 0, "release");
		expect(fluxonkv_release(kv, &h), -EINVAL, "release again");
	}
	expect(fluxonkv_get_into(kv, "empty", 5, NULL, 0, &len), 0,
	       "get_into");
	check(len == 0, "of 0 bytes");
	expect(fluxonkv_delete(kv, "empty", 5), 0, "delete");
	expect(fluxonkv_exists(kv, "empty", 5), -ENOENT, "gone");
	fluxonkv_close(kv);
	return failures != 0;
}

static int value_that_cannot_fit_is_efbig_at_once(void)
{
	struct fluxonkv *kv = open_client();
	struct fluxonkv_value v = { .key = { "big", 3 }, .data = "x" };
	uint64_t segment = conf_segment(kv);
	struct fluxonkv_putop op;
	double t = now();

	expect(fluxonkv_put_begin(kv, "big", 3, (1ULL << 40) + 1, 0, &op),
	       -EFBIG, "2^40 + 1 bytes");
	conf_sentence("2^40", "it names the limit");
	expect(fluxonkv_put_begin(kv, "big", 3, 1ULL << 40, 0, &op), -EFBIG,
	       "2^40 bytes");
	expect(fluxonkv_put_begin(kv, "big", 3, segment + 1, 0, &op), -EFBIG,
	       "more than the segment");
	/* P4: puts may have 85 % of it */
	expect(fluxonkv_put_begin(kv, "big", 3, segment / 100 * 96, 0, &op),
	       -EFBIG, "more than puts may have");
	expect(fluxonkv_put(kv, "big", 3, "x", segment + 1, 0), -EFBIG, "put");
	v.len = 1ULL << 41;
	expect(fluxonkv_put_many(kv, &v, 1), 0, "put_many");
	expect(v.status, -EFBIG, "its one");
	check(now() - t < 1, "nobody waited");
	check(used(kv) == 0, "nothing was allocated");
	expect(fluxonkv_exists(kv, "big", 3), -ENOENT, "nothing was put");
	fluxonkv_close(kv);
	return failures != 0;
}

/* Around pages, pieces of a copy and huge pages. */
static int value_of_any_length_comes_back_as_it_was(void)
{
	static const size_t lens[] = {
		1, 7, 8, 4095, 4096, 4097, 65536, MIB - 1, 2 * MIB,
		2 * MIB + 1, 5 * MIB + 3, 9 * MIB,
	};
	struct fluxonkv *kv = open_client();
	void *buf = malloc(9 * MIB);
	char name[16];
	uint64_t len;

	for (unsigned int i = 0; i < sizeof(lens) / sizeof(lens[0]); i++) {
		sprintf(name, "len%u", i);
		expect(put_seed(kv, name, lens[i], i, 0), 0, "put");
		check(conf_has(kv, name, lens[i], i), "get");
		expect(fluxonkv_get_into(kv, name, strlen(name), buf, lens[i],
					 &len), 0, "get_into");
		check(len == lens[i] && same(buf, lens[i], i), "its copy");
		expect(fluxonkv_delete(kv, name, strlen(name)), 0, "delete");
	}
	free(buf);
	fluxonkv_close(kv);
	return failures != 0;
}

static int null_and_unknown_flags_are_einval(void)
{
	struct fluxonkv *kv = open_client();
	struct fluxonkv_holder h = { .len = 1 };
	struct fluxonkv_putop op = { .len = 1 };
	struct fluxonkv_listed_key at;
	size_t n;

	expect(fluxonkv_put(kv, "a", 1, NULL, 10, 0), -EINVAL, "no data");
	expect(fluxonkv_put(kv, "a", 1, "x", 1, 1u << 9), -EINVAL, "put flag");
	expect(fluxonkv_put_begin(kv, "a", 1, 1, 1u << 3, &op), -EINVAL,
	       "begin flag");
	expect(fluxonkv_put_begin(kv, "a", 1, 1, 0, NULL), -EINVAL, "begin");
	expect(fluxonkv_get(kv, NULL, 3, &h), -EINVAL, "key is NULL");
	expect(fluxonkv_get(kv, "a", 1, NULL), -EINVAL, "holder is NULL");
	expect(fluxonkv_get_into(kv, "a", 1, NULL, 8, NULL), -EINVAL, "buf");
	expect(fluxonkv_stat(kv, "a", 1, NULL), -EINVAL, "stat");
	expect(fluxonkv_release(kv, NULL), -EINVAL, "release of NULL");
	expect(fluxonkv_put_commit(kv, NULL), -EINVAL, "commit of NULL");
	expect(fluxonkv_put_commit(kv, &op), -EINVAL, "commit of none");
	expect(fluxonkv_get_many(kv, NULL, 2, &h), -EINVAL, "keys are NULL");
	expect(fluxonkv_list(kv, NULL, NULL, NULL, 1, &n), -EINVAL, "keys");
	expect(fluxonkv_list(kv, NULL, NULL, &at, 1, NULL), -EINVAL, "ret_n");
	expect(fluxonkv_count(kv, "", 0, NULL), -EINVAL, "count");
	expect(fluxonkv_admin(kv, "status", NULL, NULL), -EINVAL, "admin");
	expect(fluxonkv_get_counters(kv, NULL), -EINVAL, "counters");
	fluxonkv_close(kv);
	return failures != 0;
}

static int call_without_a_client_is_einval(void)
{
	struct fluxonkv_holder h = { 0 };
	struct fluxonkv_putop op = { 0 };
	uint64_t n;

	expect(fluxonkv_open("unix:/x", NULL), -EINVAL, "open");
	expect(fluxonkv_get(NULL, "a", 1, &h), -EINVAL, "get");
	expect(fluxonkv_release(NULL, &h), -EINVAL, "release");
	expect(fluxonkv_put(NULL, "a", 1, "x", 1, 0), -EINVAL, "put");
	expect(fluxonkv_put_commit(NULL, &op), -EINVAL, "commit");
	expect(fluxonkv_delete(NULL, "a", 1), -EINVAL, "delete");
	expect(fluxonkv_exists(NULL, "a", 1), -EINVAL, "exists");
	expect(fluxonkv_count(NULL, "a", 1, &n), -EINVAL, "count");
	expect(fluxonkv_set_timeout(NULL, 1), -EINVAL, "set_timeout");
	fluxonkv_close(NULL);
	return failures != 0;
}

static int address_that_leads_nowhere_is_refused_with_a_sentence(void)
{
	struct fluxonkv *bad = NULL;
	int err;

	expect(fluxonkv_open("tcp:1", &bad), -EINVAL, "another scheme");
	conf_sentence("unix:PATH", "what was expected");
	expect(fluxonkv_open("", &bad), -EINVAL, "nothing");
	expect(fluxonkv_open("unix:", &bad), -EINVAL, "no path");
	expect(fluxonkv_open("dev:a/b", &bad), -EINVAL, "no name");
	expect(fluxonkv_open("unix:/nonexistent/s", &bad), -ENOENT,
	       "no socket");
	conf_sentence("/nonexistent/s", "which");
	err = fluxonkv_open("dev:no.such.instance", &bad);
	check(err == -ENODEV || err == -ECONNREFUSED || err == -EACCES,
	      "no module, or no such instance");
	conf_sentence("/dev/fluxonkv", "of what");
	check(!bad, "no client came of it");
	return failures != 0;
}

const struct conf_test conf_keys[] = {
	CONF(key_of_1_to_512_bytes_is_a_key, ALWAYS),
	CONF(key_of_another_length_is_refused_by_every_call, ALWAYS),
	CONF(key_is_compared_byte_for_byte, ALWAYS),
	CONF(value_of_0_bytes_takes_no_room, ALWAYS),
	CONF(value_that_cannot_fit_is_efbig_at_once, ALWAYS),
	CONF(value_of_any_length_comes_back_as_it_was, ALWAYS),
	CONF(null_and_unknown_flags_are_einval, ALWAYS),
	CONF(call_without_a_client_is_einval, ALWAYS),
	CONF(address_that_leads_nowhere_is_refused_with_a_sentence, ALWAYS),
	CONF_END,
};
