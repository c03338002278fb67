// SPDX-License-Identifier: Apache-2.0
#include <check.h>
#include <stdlib.h>

#include "master_driver.h"

START_TEST(master_without_memory_is_enomem_at_every_allocation)
{
	struct fkv_master_config cfg = { .segment_bytes = SEGMENT };
	struct fkv_master *m = NULL;
	uint64_t n;
	int err;

	for (n = 1;; n++) {
		core_fail_alloc(n);
		err = fkv_master_create(&cfg, &m);
		if (!core_alloc_failed())
			break;
		ck_assert_int_eq(err, -ENOMEM);
	}
	ck_assert_uint_gt(n, 4);
	ck_assert_int_eq(err, 0);
	fkv_master_free(m);
	fkv_master_free(NULL);
}
END_TEST

/* the end of the daemon, with one of everything in flight */
START_TEST(master_that_ends_frees_what_is_in_flight)
{
	struct fkv_master_config cfg = { .segment_bytes = SEGMENT };

	master_on_ssd(1, "ssd", 1);
	master_put(5, "k", PAGE);
	master_put_start(6, "open", SEGMENT / 100 * 80, 0);
	master_planned(6, 0);
	master_put_start_until(7, "waits", BIG, core_now + FKV_SEC);
	master_get_start(8, "ssd", FKV_CLASS_GET, core_now + FKV_SEC);
	master_send((struct fkv_msg){ .type = FKV_MSG_DELETE, .op = 9 }, "k");
	ck_assert_uint_eq(master_stats().waiting, 2);
	fkv_master_free(master);
	core_drop_all();
	ck_assert_int_eq(fkv_master_create(&cfg, &master), 0);
}
END_TEST

START_TEST(message_for_the_owner_is_refused)
{
	master_send((struct fkv_msg){ .type = FKV_MSG_PUT_PLAN }, "k");
	master_send((struct fkv_msg){ .type = FKV_MSG_NR }, NULL);
	ck_assert_uint_eq(master_stats().bad_messages, 2);
}
END_TEST

/* M4: hits count for what has a route, and only for that */
START_TEST(hits_of_what_has_no_route_are_dropped)
{
	struct given g = master_put(1, "k", PAGE);
	struct fkv_msg hits = { .type = FKV_MSG_HITS, .n = 1 };
	struct fkv_route_info before, after;

	ck_assert(master_route("k", &before));
	hits.extent = 999;
	master_send(hits, NULL);
	hits.extent = g.extent;
	master_send(hits, NULL);
	ck_assert(master_route("k", &after));
	ck_assert_uint_eq(after.frequency, before.frequency + 1);
	master_delete(2, "k", 0);
	master_send(hits, NULL);
	master_quiet(g.extent, 1);
	master_send(hits, NULL);
	ck_assert_uint_eq(master_stats().used, 0);
	ck_assert_uint_eq(master_stats().bad_messages, 0);
}
END_TEST

/* P4: a tick only while somebody waits, each 2 ms as the fallback */
START_TEST(master_wants_ticks_only_while_somebody_waits)
{
	ck_assert_uint_eq(fkv_master_deadline(master), FKV_NEVER);
	master_put_start(1, "a", SEGMENT / 100 * 84, 0);
	master_planned(1, 0);
	master_put_start_until(2, "b", BIG, core_now + FKV_SEC);
	ck_assert_uint_eq(fkv_master_deadline(master), core_now + 2 * FKV_MS);
	core_now += FKV_MS;
	master_send((struct fkv_msg){ .type = FKV_MSG_PINS }, NULL);
	ck_assert_uint_eq(fkv_master_deadline(master), core_now + FKV_MS);
	core_now += FKV_MS;
	master_tick();
	ck_assert_uint_eq(fkv_master_deadline(master), core_now + 2 * FKV_MS);
	master_put_revoke(1, false);
	master_planned(2, 0);
	ck_assert_uint_eq(fkv_master_deadline(master), FKV_NEVER);
	master_put_revoke(2, false);
	master_tick();
	ck_assert_uint_eq(fkv_master_deadline(master), FKV_NEVER);
}
END_TEST

/* M5 */
START_TEST(at_rest_used_is_the_padded_bytes_of_the_routes)
{
	static const uint64_t len[] = { 0, 1, PAGE, PAGE + 1, 3 * PAGE };
	uint64_t sum = 0;
	char key[] = "k0";

	for (uint64_t i = 0; i < FKV_ARRAY_SIZE(len); i++) {
		key[1] = (char)('0' + i);
		master_put(10 + i, key, len[i]);
		sum += fkv_extent_bytes(len[i]);
		ck_assert_uint_eq(master_stats().used, sum);
		ck_assert_uint_eq(master_stats().used + master_stats().free,
				  SEGMENT);
	}
	ck_assert_uint_eq(master_stats().unevictable, 0);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("master");
	TCase *tc = tcase_create("core");
	SRunner *sr = srunner_create(s);
	int failed;

	tcase_add_checked_fixture(tc, master_setup, master_teardown);
	tcase_add_test(tc, master_without_memory_is_enomem_at_every_allocation);
	tcase_add_test(tc, master_that_ends_frees_what_is_in_flight);
	tcase_add_test(tc, message_for_the_owner_is_refused);
	tcase_add_test(tc, hits_of_what_has_no_route_are_dropped);
	tcase_add_test(tc, master_wants_ticks_only_while_somebody_waits);
	tcase_add_test(tc, at_rest_used_is_the_padded_bytes_of_the_routes);
	suite_add_tcase(s, tc);
	srunner_run_all(sr, CK_ENV);
	failed = srunner_ntests_failed(sr);
	srunner_free(sr);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
