// SPDX-License-Identifier: Apache-2.0
/*
 * gets.c - K2, H1, H2, G8: holders and copies, single and in a batch
 */
#include "conformance.h"

static int holder_has_bytes_length_version_and_source(void)
{
	struct fluxonkv *kv = open_client();
	struct fluxonkv_holder h, miss;
	struct fluxonkv_stat st;

	expect(put_seed(kv, "k", 9000, 1, 0), 0, "put");
	expect(fluxonkv_stat(kv, "k", 1, &st), 0, "stat");
	expect(fluxonkv_get(kv, "k", 1, &h), 0, "get");
	check(h.len == 9000 && same(h.data, 9000, 1), "bytes");
	check(h.version == st.version && !h.status, "version");
	check(h.source == FLUXONKV_SERVED_LOCAL, "from this host's memory");
	expect(fluxonkv_get(kv, "none", 4, &miss), -ENOENT, "no such key");
	check(miss.source == FLUXONKV_SERVED_MISS && !miss.data &&
	      miss.status == -ENOENT, "a miss says so");
	expect(fluxonkv_release(kv, &h), 0, "release");
	fluxonkv_close(kv);
	return failures != 0;
}

/* H1 */
static int held_bytes_survive_overwrite_delete_and_eviction(void)
{
	struct fluxonkv *kv = open_client(), *other = open_client();
	uint64_t puts = conf_segment(kv) / MIB * 2;
	struct fluxonkv_key keys[2] = { { "w", 1 }, { "v", 1 } };
	struct fluxonkv_holder one, h[2];
	char name[32];

	expect(put_seed(kv, "w", 9000, 1, 0), 0, "put w");
	expect(put_seed(kv, "v", 3, 2, 0), 0, "put v");
	expect(fluxonkv_get(kv, "w", 1, &one), 0, "hold");
	expect(fluxonkv_get_many(kv, keys, 2, h), 0, "hold a batch");
	expect(put_seed(other, "w", 8000, 3, 0), 0, "overwrite w");
	expect(fluxonkv_delete(kv, "v", 1), 0, "delete v");
	expect(fluxonkv_delete(kv, "v", 1), -ENOENT, "delete v again");
	check(conf_has(kv, "w", 8000, 3), "new bytes for a new get");
	for (unsigned int i = 0; i < puts; i++) {
		sprintf(name, "churn/%u", i);
		expect(put_seed(other, name, MIB, i, 0), 0, "put");
		check(same(one.data, 9000, 1) && same(h[0].data, 9000, 1) &&
		      same(h[1].data, 3, 2), "the bytes of then");
	}
	expect(fluxonkv_release(kv, &one), 0, "release");
	check(same(h[0].data, 9000, 1), "another holder of the same");
	expect(fluxonkv_release_many(kv, h, 2), 0, "release_many");
	fluxonkv_close(other);
	fluxonkv_close(kv);
	return failures != 0;
}

static int release_of_what_is_not_held_is_einval(void)
{
	struct fluxonkv *kv = open_client(), *other = open_client();
	struct fluxonkv_holder h, copy, none = { .len = 1 }, two[2];

	expect(put_seed(kv, "k", 100, 1, 0), 0, "put");
	expect(fluxonkv_get(kv, "k", 1, &h), 0, "get");
	copy = h;
	expect(fluxonkv_release(other, &copy), -EINVAL, "another client's");
	conf_sentence("holder", "with a sentence");
	check(same(h.data, 100, 1), "which it does not lose");
	two[0] = h;
	two[1] = none;
	expect(fluxonkv_release(kv, &none), -EINVAL, "none");
	expect(fluxonkv_release_many(kv, two, 2), 0, "release_many");
	expect(two[0].status, 0, "the one");
	expect(two[1].status, -EINVAL, "the other");
	expect(fluxonkv_release_many(kv, two, 2), 0, "release_many again");
	expect(two[0].status, -EINVAL, "the one");
	expect(fluxonkv_release_many(kv, two, 0), 0, "of none");
	expect(fluxonkv_release_many(kv, two, 1025), -E2BIG, "of 1,025");
	expect(fluxonkv_get(kv, "none", 4, &h), -ENOENT, "a miss");
	expect(fluxonkv_release(kv, &h), -EINVAL, "its holder");
	check(conf_has(kv, "k", 100, 1), "the value is there");
	fluxonkv_close(other);
	fluxonkv_close(kv);
	return failures != 0;
}

/* H2 */
static int close_releases_what_is_held(void)
{
	struct fluxonkv *kv = open_client(), *other = open_client();
	struct fluxonkv_holder h[16];
	char name[16];

	for (unsigned int i = 0; i < 16; i++) {
		sprintf(name, "k%u", i);
		expect(put_seed(kv, name, 5000, i, 0), 0, "put");
		expect(fluxonkv_get(other, name, strlen(name), &h[i]), 0,
		       "hold");
		expect(fluxonkv_delete(kv, name, strlen(name)), 0, "delete");
	}
	fluxonkv_close(other);
	check(becomes(kv, "refs", "\"holders\"", 0, 5), "no holder is left");
	check(becomes(kv, "status", "\"used_bytes\"", 0, 5), "nor their bytes");
	fluxonkv_close(kv);
	return failures != 0;
}

static int batch_of_gets_has_a_status_each(void)
{
	struct fluxonkv *kv = open_client();
	struct fluxonkv_key k[5] = {
		{ "b0", 2 }, { "none", 4 }, { "b4", 2 }, { "", 0 }, { "b0", 2 },
	};
	struct fluxonkv_holder h[5];

	expect(put_seed(kv, "b0", 4, 1, 0), 0, "put");
	expect(put_seed(kv, "b4", 6, 2, 0), 0, "put");
	expect(fluxonkv_get_many(kv, k, 5, h), 0, "get_many");
	expect(h[0].status, 0, "b0");
	expect(h[1].status, -ENOENT, "none");
	check(h[1].source == FLUXONKV_SERVED_MISS, "a miss says so");
	expect(h[2].status, 0, "b4");
	expect(h[3].status, -EINVAL, "no key");
	expect(h[4].status, 0, "b0 twice");
	check(h[0].len == 4 && same(h[0].data, 4, 1) && h[2].len == 6 &&
	      same(h[2].data, 6, 2), "their bytes");
	expect(fluxonkv_release(kv, &h[0]), 0, "release of the first b0");
	check(same(h[4].data, 4, 1), "the second is held");
	expect(fluxonkv_release_many(kv, h, 5), 0, "release_many");
	expect(h[0].status, -EINVAL, "the first was released");
	expect(h[4].status, 0, "the second was not");
	expect(fluxonkv_get_many(kv, k, 0, h), 0, "none");
	expect(fluxonkv_get_many(kv, k, 1025, h), -E2BIG, "1,025");
	fluxonkv_close(kv);
	return failures != 0;
}

static int get_into_copies_what_fits(void)
{
	struct fluxonkv *kv = open_client();
	struct fluxonkv_counters c;
	uint64_t len = 0;
	char buf[16];

	expect(fluxonkv_put(kv, "ten", 3, "0123456789", 10, 0), 0, "10 bytes");
	memset(buf, 'z', sizeof(buf));
	expect(fluxonkv_get_into(kv, "ten", 3, buf, 9, &len), -ENOBUFS,
	       "buffer of 9 bytes");
	check(len == 10 && buf[0] == 'z', "length said, none copied");
	expect(fluxonkv_get_into(kv, "ten", 3, buf, 10, NULL), 0, "of 10");
	check(!memcmp(buf, "0123456789zzzzzz", 16), "ten and no more");
	len = 0;
	expect(fluxonkv_get_into(kv, "ten", 3, buf, 16, &len), 0, "of 16");
	check(len == 10 && buf[10] == 'z', "ten and no more");
	len = 77;
	expect(fluxonkv_get_into(kv, "none", 4, buf, 4, &len), -ENOENT,
	       "no such key");
	check(len == 77, "no length then");
	expect(fluxonkv_get_counters(kv, &c), 0, "counters");
	check(!c.held && !c.held_bytes, "nothing is held afterwards");
	fluxonkv_close(kv);
	return failures != 0;
}

static int batch_of_get_into_has_a_status_each(void)
{
	struct fluxonkv *kv = open_client();
	char buf[4][8];
	struct fluxonkv_into into[4] = {
		{ .key = { "b0", 2 }, .buf = buf[0], .size = 4 },
		{ .key = { "b4", 2 }, .buf = buf[1], .size = 3 },
		{ .key = { "none", 4 }, .buf = buf[2], .size = 8 },
		{ .key = { "", 0 }, .buf = buf[3], .size = 8 },
	};

	expect(fluxonkv_put(kv, "b0", 2, "zero", 4, 0), 0, "put");
	expect(fluxonkv_put(kv, "b4", 2, "four", 4, 0), 0, "put");
	expect(fluxonkv_get_into_many(kv, into, 4), 0, "get_into_many");
	expect(into[0].status, 0, "b0");
	check(into[0].len == 4 && !memcmp(buf[0], "zero", 4) &&
	      into[0].source == FLUXONKV_SERVED_LOCAL && into[0].version,
	      "its bytes, source and version");
	expect(into[1].status, -ENOBUFS, "b4");
	check(into[1].len == 4, "its length");
	expect(into[2].status, -ENOENT, "none");
	check(into[2].source == FLUXONKV_SERVED_MISS, "a miss says so");
	expect(into[3].status, -EINVAL, "no key");
	expect(fluxonkv_get_into_many(kv, into, 0), 0, "none");
	expect(fluxonkv_get_into_many(kv, into, 1025), -E2BIG, "1,025");
	fluxonkv_close(kv);
	return failures != 0;
}

static int counters_count_what_is_held(void)
{
	struct fluxonkv *kv = open_client();
	struct fluxonkv_counters c;
	struct fluxonkv_holder a, b;

	expect(put_seed(kv, "k", 4097, 1, 0), 0, "put");
	expect(fluxonkv_get(kv, "k", 1, &a), 0, "get");
	expect(fluxonkv_get(kv, "k", 1, &b), 0, "get");
	expect(fluxonkv_get_counters(kv, &c), 0, "counters");
	check(c.held == 2 && c.held_bytes == 2 * 8192, "in pages of 4 KiB");
	check(c.hits_local >= 1 && c.requests && !c.reconnects,
	      "hits and requests");
	expect(fluxonkv_release(kv, &a), 0, "release");
	expect(fluxonkv_get_counters(kv, &c), 0, "counters");
	check(c.held == 1 && c.held_bytes == 8192, "one is left");
	expect(fluxonkv_release(kv, &b), 0, "release");
	expect(fluxonkv_get_counters(kv, &c), 0, "counters");
	check(!c.held && !c.held_bytes, "none is left");
	fluxonkv_close(kv);
	return failures != 0;
}

const struct conf_test conf_gets[] = {
	CONF(holder_has_bytes_length_version_and_source, ALWAYS),
	CONF(held_bytes_survive_overwrite_delete_and_eviction, ALWAYS),
	CONF(release_of_what_is_not_held_is_einval, ALWAYS),
	CONF(close_releases_what_is_held, ALWAYS),
	CONF(batch_of_gets_has_a_status_each, ALWAYS),
	CONF(get_into_copies_what_fits, ALWAYS),
	CONF(batch_of_get_into_has_a_status_each, ALWAYS),
	CONF(counters_count_what_is_held, ALWAYS),
	CONF_END,
};
