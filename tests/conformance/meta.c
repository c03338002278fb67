// SPDX-License-Identifier: Apache-2.0
/*
 * meta.c - K2, D1, D4: delete, stat, exists, warm, list, count, admin, and the
 * words of the library
 */
#include "conformance.h"

static int delete_says_what_was_there(void)
{
	struct fluxonkv *kv = open_client();
	struct fluxonkv_key k[4] = {
		{ "a", 1 }, { "none", 4 }, { "b", 1 }, { "", 0 },
	};
	int gone[4];

	expect(fluxonkv_delete(kv, "a", 1), -ENOENT, "of no key");
	expect(put_seed(kv, "a", 100, 1, 0), 0, "put");
	expect(put_seed(kv, "b", 100, 1, 0), 0, "put");
	expect(fluxonkv_delete(kv, "a", 1), 0, "of a key");
	expect(fluxonkv_delete(kv, "a", 1), -ENOENT, "and again");
	expect(put_seed(kv, "a", 100, 2, 0), 0, "put again");
	expect(fluxonkv_delete_many(kv, k, 4, gone), 0, "delete_many");
	check(!gone[0] && gone[1] == -ENOENT && !gone[2] &&
	      gone[3] == -EINVAL, "one status per key");
	expect(conf_exists(kv, "a"), -ENOENT, "a is gone");
	expect(fluxonkv_delete_many(kv, k, 4, NULL), -EINVAL, "NULL");
	expect(fluxonkv_delete_many(kv, k, 1025, gone), -E2BIG, "1,025");
	expect(fluxonkv_delete_many(kv, k, 0, gone), 0, "none");
	check(becomes(kv, "status", "\"used_bytes\"", 0, 5), "no byte is used");
	fluxonkv_close(kv);
	return failures != 0;
}

static int stat_says_length_version_and_place(void)
{
	struct fluxonkv *kv = open_client();
	struct fluxonkv_key k[4] = {
		{ "a", 1 }, { "b", 1 }, { "none", 4 }, { "", 0 },
	};
	struct fluxonkv_stat st, many[4];
	size_t run = 99;

	expect(fluxonkv_stat(kv, "a", 1, &st), -ENOENT, "of no key");
	expect(put_seed(kv, "a", 12345, 1, 0), 0, "put");
	expect(put_seed(kv, "b", 0, 1, 0), 0, "put of 0 bytes");
	expect(fluxonkv_stat(kv, "a", 1, &st), 0, "stat");
	check(st.len == 12345 && st.version &&
	      st.where & FLUXONKV_WHERE_MEMORY && !st.status, "what is there");
	expect(fluxonkv_stat_many(kv, k, 4, many, &run), 0, "stat_many");
	check(run == 2, "the leading run of hits");
	check(!many[0].status && many[0].len == 12345 &&
	      many[0].version == st.version && !many[1].status &&
	      !many[1].len && many[2].status == -ENOENT &&
	      many[3].status == -EINVAL, "one status per key");
	expect(fluxonkv_stat_many(kv, k, 4, many, NULL), 0, "without run");
	expect(fluxonkv_stat_many(kv, k, 1025, many, &run), -E2BIG, "1,025");
	expect(fluxonkv_stat_many(kv, k, 0, many, &run), 0, "none");
	check(run == 0, "a run of none");
	fluxonkv_close(kv);
	return failures != 0;
}

static int exists_and_warm_give_the_leading_run(void)
{
	struct fluxonkv *kv = open_client();
	struct fluxonkv_key k[4] = {
		{ "a", 1 }, { "b", 1 }, { "none", 4 }, { "c", 1 },
	};
	unsigned char there[4] = { 9, 9, 9, 9 };
	size_t run = 99;

	for (int i = 0; i < 4; i++)
		if (i != 2)
			expect(put_seed(kv, k[i].data, 100, 1, 0), 0, "put");
	expect(conf_exists(kv, "a"), 0, "exists");
	expect(conf_exists(kv, "none"), -ENOENT, "does not");
	expect(fluxonkv_exists_many(kv, k, 4, there, &run), 0, "exists_many");
	check(run == 2 && there[0] == 1 && there[1] == 1 && there[2] == 0 &&
	      there[3] == 1, "1 or 0, and a run of 2");
	expect(fluxonkv_exists_many(kv, k + 2, 1, NULL, &run), 0, "only run");
	check(run == 0, "of 0");
	expect(fluxonkv_exists_many(kv, k, 2, NULL, &run), 0, "all of them");
	check(run == 2, "a run of 2");
	memset(there, 9, sizeof(there));
	expect(fluxonkv_warm(kv, k, 4, there, &run), 0, "warm");
	check(run == 2 && there[0] == 1 && there[2] == 0, "as exists_many");
	expect(fluxonkv_exists_many(kv, k, 1025, NULL, &run), -E2BIG, "1,025");
	expect(fluxonkv_warm(kv, k, 1025, NULL, &run), -E2BIG, "1,025");
	fluxonkv_close(kv);
	return failures != 0;
}

#define WALK	500u

/* The keys walk/sN are there throughout; others come and go. */
static void walk(struct fluxonkv *kv)
{
	static struct fluxonkv_listed_key got[37];
	struct fluxonkv_key prefix = { "walk/", 5 }, cursor = { NULL, 0 };
	unsigned int seen[WALK] = { 0 }, turn = 0;
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
			if (sscanf(last, "walk/s%4u", &k) == 1 && k < WALK)
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
	for (unsigned int k = 0; k < WALK; k++)
		check(seen[k] == 1, "each key exactly once");
}

/* D4 */
static int list_has_each_key_once_while_others_come_and_go(void)
{
	struct fluxonkv *kv = open_client();
	uint64_t count = 0;
	char name[64];

	for (unsigned int k = 0; k < WALK; k++) {
		sprintf(name, "walk/s%04u", k);
		expect(put_seed(kv, name, 10, k, 0), 0, "put");
	}
	walk(kv);
	expect(fluxonkv_count(kv, "walk/s", 6, &count), 0, "count");
	check(count == WALK, "as many as there are");
	fluxonkv_close(kv);
	return failures != 0;
}

static int list_and_count_go_by_prefix_cursor_and_limit(void)
{
	struct fluxonkv *kv = open_client();
	struct fluxonkv_key none = { "nosuch/", 7 }, p = { "p/", 2 };
	struct fluxonkv_key cursor = { "p/b", 3 };
	struct fluxonkv_listed_key got[4];
	struct fluxonkv_stat st;
	uint64_t count = 0;
	size_t n = 9;

	for (const char *k = "cab"; *k; k++) {
		char name[4] = { 'p', '/', *k, '\0' };

		expect(put_seed(kv, name, (size_t)*k, 1, 0), 0, "put");
	}
	expect(put_seed(kv, "q", 1, 1, 0), 0, "put");
	expect(fluxonkv_list(kv, &p, NULL, got, 4, &n), 0, "by prefix");
	check(n == 3 && !memcmp(got[0].key, "p/a", 3) && got[0].key_len == 3 &&
	      !memcmp(got[2].key, "p/c", 3), "in byte order");
	expect(fluxonkv_stat(kv, "p/a", 3, &st), 0, "stat");
	check(got[0].len == 'a' && got[0].version == st.version &&
	      got[0].where & FLUXONKV_WHERE_MEMORY, "with what stat says");
	expect(fluxonkv_list(kv, &p, &cursor, got, 4, &n), 0, "by cursor");
	check(n == 1 && !memcmp(got[0].key, "p/c", 3), "behind the cursor");
	expect(fluxonkv_list(kv, &p, NULL, got, 2, &n), 0, "by limit");
	check(n == 2 && !memcmp(got[1].key, "p/b", 3), "as many as asked");
	expect(fluxonkv_list(kv, NULL, NULL, got, 4, &n), 0, "all");
	check(n == 4, "all four");
	expect(fluxonkv_list(kv, &none, NULL, got, 4, &n), 0, "of none");
	check(n == 0, "none");
	expect(fluxonkv_list(kv, NULL, NULL, got, 0, &n), -EINVAL, "max 0");
	expect(fluxonkv_list(kv, NULL, NULL, got, 1001, &n), -EINVAL, "1,001");
	expect(fluxonkv_count(kv, "p/", 2, &count), 0, "count");
	check(count == 3, "of a prefix");
	expect(fluxonkv_count(kv, NULL, 0, &count), 0, "count");
	check(count == 4, "of all");
	expect(fluxonkv_count(kv, "nosuch/", 7, &count), 0, "count");
	check(count == 0, "of none");
	fluxonkv_close(kv);
	return failures != 0;
}

/* The largest answer: a thousand keys of 512 bytes. */
static int list_of_a_thousand_longest_keys_is_one_call(void)
{
	static struct fluxonkv_listed_key got[1000];
	struct fluxonkv *kv = open_client();
	char key[512];
	size_t n = 0;

	memset(key, 'l', sizeof(key));
	for (unsigned int i = 0; i < 1000; i++) {
		sprintf(key + 504, "%07u", i);
		key[511] = '.';
		expect(fluxonkv_put(kv, key, 512, NULL, 0, 0), 0, "put");
	}
	expect(fluxonkv_list(kv, NULL, NULL, got, 1000, &n), 0, "list");
	check(n == 1000, "all of them");
	for (unsigned int i = 0; i < n; i++)
		check(got[i].key_len == 512 &&
		      strtoul(got[i].key + 504, NULL, 10) == i, "in order");
	fluxonkv_close(kv);
	return failures != 0;
}

static int admin_answers_words_and_refuses_others(void)
{
	static const char *const words[] = {
		"status", "holders", "segments", "routes", "ssd", "refs",
	};
	struct fluxonkv *kv = open_client();
	char *text = NULL, word[600];

	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
		expect(fluxonkv_admin(kv, words[i], NULL, &text), 0, words[i]);
		check(*text == '{' || *text == '[', "JSON");
		free(text);
	}
	expect(fluxonkv_admin(kv, "metrics", NULL, &text), 0, "metrics");
	check(strstr(text, "kvcache_segment_capacity_bytes") != NULL,
	      "Prometheus text");
	free(text);
	expect(fluxonkv_admin(kv, "nosuch", NULL, &text), -EINVAL, "no word");
	check(*fluxonkv_last_error(), "with a sentence");
	expect(fluxonkv_admin(kv, "", NULL, &text), -EINVAL, "nothing");
	memset(word, 'w', sizeof(word));
	word[599] = '\0';
	expect(fluxonkv_admin(kv, word, NULL, &text), -E2BIG, "a long one");
	fluxonkv_close(kv);
	return failures != 0;
}

static int every_errno_and_source_has_words(void)
{
	static const int errs[] = {
		EINVAL, E2BIG, EAGAIN, ETIMEDOUT, ENOTCONN, EOWNERDEAD, EPROTO,
		ENOMEM, ENOENT, EDQUOT, ENOSPC, EIO, ENOBUFS, EEXIST, EBUSY,
		EFBIG, ECONNREFUSED, EACCES, EPROTONOSUPPORT, EPERM, ENODEV,
	};

	for (size_t i = 0; i < sizeof(errs) / sizeof(errs[0]); i++) {
		const char *s = fluxonkv_strerror(-errs[i]);

		check(strlen(s) > 5 && strcmp(s, "unknown error"), s);
		check(!strcmp(s, fluxonkv_strerror(errs[i])), "either sign");
	}
	check(!strcmp(fluxonkv_strerror(123456), "unknown error"), "no errno");
	check(!strcmp(fluxonkv_served_name(FLUXONKV_SERVED_LOCAL), "local") &&
	      !strcmp(fluxonkv_served_name(FLUXONKV_SERVED_SSD_LOCAL),
		      "ssd-local") &&
	      !strcmp(fluxonkv_served_name(FLUXONKV_SERVED_MISS), "miss"),
	      "names of sources");
	check(strchr(fluxonkv_version(), '.') != NULL, "a version");
	return failures != 0;
}

const struct conf_test conf_meta[] = {
	CONF(delete_says_what_was_there, ALWAYS),
	CONF(stat_says_length_version_and_place, ALWAYS),
	CONF(exists_and_warm_give_the_leading_run, ALWAYS),
	CONF(list_has_each_key_once_while_others_come_and_go, ALWAYS),
	CONF(list_and_count_go_by_prefix_cursor_and_limit, ALWAYS),
	CONF(list_of_a_thousand_longest_keys_is_one_call, ALWAYS),
	CONF(admin_answers_words_and_refuses_others, ALWAYS),
	CONF(every_errno_and_source_has_words, ALWAYS),
	CONF_END,
};
