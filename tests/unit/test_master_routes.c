// SPDX-License-Identifier: Apache-2.0
#include <check.h>
#include <stdio.h>
#include <stdlib.h>

#include "master_driver.h"

static struct fkv_msg stat_of(const char *key)
{
	master_send((struct fkv_msg){ .type = FKV_MSG_STAT, .op = 77 }, key);
	return core_take_msg(FKV_MSG_STAT_R);
}

static uint64_t count_of(const char *prefix)
{
	master_send((struct fkv_msg){ .type = FKV_MSG_COUNT, .op = 77 },
		    prefix);
	return core_take_msg(FKV_MSG_COUNT_R).n;
}

/* "a b c" for what was listed, '+' when there is more. */
static const char *list_of(const char *prefix, const char *cursor, uint64_t n)
{
	static char text[256];
	struct fkv_listing *l;

	text[0] = 0;
	master_send((struct fkv_msg){
		.type = FKV_MSG_LIST,
		.op = 77,
		.key2 = cursor ? core_key_ref(cursor) : NULL,
		.n = n,
	}, prefix);
	l = core_take_msg(FKV_MSG_LIST_R).listing;
	for (uint32_t i = 0; i < l->n; i++)
		snprintf(text + strlen(text), sizeof(text) - strlen(text),
			 "%s%.*s", i ? " " : "", (int)l->at[i].key->len,
			 (char *)l->at[i].key->data);
	if (l->more)
		strcat(text, "+");
	fkv_listing_free(l);
	return text;
}

static void put_all(const char *const keys[])
{
	for (uint64_t i = 0; keys[i]; i++)
		master_put(100 + i, keys[i], PAGE);
}

/* K2 */
START_TEST(stat_says_length_version_and_where)
{
	struct given g;

	master_on_ssd(5, "l", 1);
	ck_assert_uint_eq(stat_of("l").source, FLUXONKV_ON_SSD);
	master_ssd(0);
	ck_assert_int_eq(stat_of("k").res, -ENOENT);
	master_put_start(1, "k", 100, 0);
	master_planned(1, 0);
	ck_assert_int_eq(stat_of("k").res, -ENOENT);
	master_put_done(1);
	g = master_published(1);
	ck_assert_uint_eq(stat_of("k").len, 100);
	ck_assert_uint_eq(stat_of("k").put_id, g.put_id);
	ck_assert_uint_eq(stat_of("k").source, FLUXONKV_IN_MEMORY);
}
END_TEST

/* D4 */
START_TEST(list_goes_in_byte_order_from_a_cursor)
{
	static const char *const keys[] = {
		"b", "a", "ab", "abc", "ac", "c", NULL
	};

	ck_assert_str_eq(list_of(NULL, NULL, 10), "");
	put_all(keys);
	ck_assert_str_eq(list_of(NULL, NULL, 10), "a ab abc ac b c");
	ck_assert_str_eq(list_of("a", NULL, 10), "a ab abc ac");
	ck_assert_str_eq(list_of("a", NULL, 2), "a ab+");
	ck_assert_str_eq(list_of("a", "ab", 2), "abc ac");
	ck_assert_str_eq(list_of("a", "ac", 2), "");
	/* a cursor that was deleted, or before the prefix */
	ck_assert_str_eq(list_of("a", "aba", 1), "abc+");
	ck_assert_str_eq(list_of("b", "a", 5), "b");
	ck_assert_str_eq(list_of(NULL, "b", 5), "c");
	ck_assert_str_eq(list_of("ab", "c", 5), "");
	ck_assert_str_eq(list_of("abcd", NULL, 5), "");
	ck_assert_str_eq(list_of("d", NULL, 5), "");
}
END_TEST

/* D4: a put in flight is no key */
START_TEST(list_and_count_pass_over_keys_without_a_version)
{
	static const char *const keys[] = { "a1", "a3", "b1", NULL };

	put_all(keys);
	master_put_start(1, "a0", PAGE, 0);
	master_planned(1, 0);
	master_put_start(2, "a2", PAGE, 0);
	master_planned(2, 0);
	master_put_start(3, "a4", PAGE, 0);
	master_planned(3, 0);
	ck_assert_str_eq(list_of("a", NULL, 10), "a1 a3");
	ck_assert_str_eq(list_of("a", NULL, 1), "a1+");
	ck_assert_uint_eq(count_of("a"), 2);
	ck_assert_uint_eq(count_of(NULL), 3);
	ck_assert_uint_eq(count_of("a3"), 1);
	ck_assert_uint_eq(count_of("c"), 0);
	for (uint64_t op = 1; op < 4; op++)
		master_put_revoke(op, false);
}
END_TEST

START_TEST(list_without_memory_is_enomem)
{
	master_put(1, "k", PAGE);
	core_fail_alloc(1);
	master_send((struct fkv_msg){
		.type = FKV_MSG_LIST,
		.n = 5,
	}, NULL);
	ck_assert(core_alloc_failed());
	ck_assert_int_eq(core_take_msg(FKV_MSG_LIST_R).res, -ENOMEM);
}
END_TEST

/* what a dump shows: in order, one by one */
START_TEST(routes_are_walked_by_key)
{
	static const char *const keys[] = { "b", "a", "c", NULL };
	struct fkv_route_info info;

	ck_assert(!fkv_master_route_after(master, NULL, &info));
	put_all(keys);
	master_put_start(1, "bb", PAGE, 0);
	master_planned(1, 0);
	ck_assert(!master_route("bb", &info));
	ck_assert(!master_route("x", &info));
	ck_assert(fkv_master_route_after(master, NULL, &info));
	ck_assert_ptr_eq(info.key, core_key("a"));
	ck_assert(fkv_master_route_after(master, core_key("aa"), &info));
	ck_assert_ptr_eq(info.key, core_key("b"));
	ck_assert(fkv_master_route_after(master, core_key("b"), &info));
	ck_assert_ptr_eq(info.key, core_key("c"));
	ck_assert(!fkv_master_route_after(master, core_key("c"), &info));
	master_put_revoke(1, false);
}
END_TEST

/* P6: pending until its commit; D2: without memory it has no offset */
START_TEST(route_says_what_it_has)
{
	struct fkv_route_info info;
	struct given g;

	master_on_ssd(5, "l", 1);
	ck_assert(master_route("l", &info));
	ck_assert(!info.pending && !info.unbacked);
	ck_assert_uint_eq(info.refs, 0);
	g = master_put(1, "k", PAGE);
	ck_assert(master_route("k", &info));
	ck_assert(info.memory && !info.ssd && info.pending);
	ck_assert_uint_eq(info.offset, g.offset);
	ck_assert_uint_eq(info.refs, 2);
	master_commit("k", 0, 2);
	ck_assert(master_route("k", &info));
	ck_assert(info.memory && info.ssd && !info.pending);
	ck_assert_uint_eq(info.refs, 1);
}
END_TEST

/* S13: commits of a shard may come out of order; pops do not */
START_TEST(copies_of_a_shard_end_in_the_order_of_their_seq)
{
	static const uint64_t seq[] = { 5, 2, 9, 1, 7 };
	struct fkv_route_info info;
	char key[] = "k0";

	master_ssd(1);
	for (uint64_t i = 0; i < FKV_ARRAY_SIZE(seq); i++) {
		key[1] = (char)('0' + i);
		master_put(10 + i, key, PAGE);
		master_commit(key, 0, seq[i]);
	}
	for (uint64_t at = 0; at <= 10; at++) {
		master_send((struct fkv_msg){
			.type = FKV_MSG_SSD_TAIL,
			.seq = at,
		}, NULL);
		for (size_t i = 0; i < FKV_ARRAY_SIZE(seq); i++) {
			key[1] = (char)('0' + i);
			ck_assert(master_route(key, &info));
			ck_assert_int_eq(info.ssd, seq[i] >= at);
		}
	}
}
END_TEST

/* P6.1, S13: the second copy counts, the first one's end is no loss */
START_TEST(second_copy_of_a_version_replaces_the_first)
{
	struct fkv_route_info info;
	struct given g;

	master_ssd(1);
	g = master_put(1, "k", BIG);
	master_commit("k", 0, 1);
	master_send((struct fkv_msg){
		.type = FKV_MSG_HITS,
		.extent = g.extent,
		.n = 1,
	}, NULL);
	master_quiet(g.extent, 1);
	master_send((struct fkv_msg){ .type = FKV_MSG_SSD_TAIL, .seq = 2 },
		    NULL);
	master_put_start_until(2, "x", SEGMENT / 100 * 84,
			       core_now + FKV_SEC);
	master_commit("k", 1, 1);
	master_planned(2, 0);
	master_send((struct fkv_msg){ .type = FKV_MSG_SSD_TAIL, .seq = 9 },
		    NULL);
	ck_assert(master_route("k", &info) && info.ssd);
	master_put_revoke(2, false);
}
END_TEST

/* K1: keys are compared byte for byte, whatever their hashes say */
START_TEST(keys_of_one_hash_are_told_apart)
{
	struct given a, b;

	core_key("b")->hash.low = core_key("a")->hash.low;
	a = master_put(1, "a", PAGE);
	b = master_put(2, "b", 2 * PAGE);
	ck_assert_uint_eq(stat_of("a").put_id, a.put_id);
	ck_assert_uint_eq(stat_of("b").put_id, b.put_id);
	master_delete(3, "a", 0);
	ck_assert_int_eq(stat_of("a").res, -ENOENT);
	ck_assert_uint_eq(stat_of("b").put_id, b.put_id);
	master_quiet(a.extent, 1);
}
END_TEST

/* K3 */
START_TEST(route_without_memory_is_no_put)
{
	core_key("k");
	core_fail_alloc(1);
	master_put_start(1, "k", PAGE, 0);
	ck_assert(core_alloc_failed());
	master_planned(1, -ENOMEM);
	ck_assert_int_eq(stat_of("k").res, -ENOENT);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("master routes");
	TCase *tc = tcase_create("core");
	SRunner *sr = srunner_create(s);
	int failed;

	tcase_add_checked_fixture(tc, master_setup, master_teardown);
	tcase_add_test(tc, stat_says_length_version_and_where);
	tcase_add_test(tc, list_goes_in_byte_order_from_a_cursor);
	tcase_add_test(tc, list_and_count_pass_over_keys_without_a_version);
	tcase_add_test(tc, list_without_memory_is_enomem);
	tcase_add_test(tc, routes_are_walked_by_key);
	tcase_add_test(tc, route_says_what_it_has);
	tcase_add_test(tc, copies_of_a_shard_end_in_the_order_of_their_seq);
	tcase_add_test(tc, second_copy_of_a_version_replaces_the_first);
	tcase_add_test(tc, keys_of_one_hash_are_told_apart);
	tcase_add_test(tc, route_without_memory_is_no_put);
	suite_add_tcase(s, tc);
	srunner_run_all(sr, CK_ENV);
	failed = srunner_ntests_failed(sr);
	srunner_free(sr);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
