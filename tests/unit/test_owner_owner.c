// SPDX-License-Identifier: Apache-2.0
#include <check.h>
#include <signal.h>
#include <stdlib.h>

#include "owner_driver.h"

START_TEST(owner_without_memory_is_enomem_at_every_allocation)
{
	struct fkv_owner_config cfg = { 0 };
	struct fkv_owner *o = NULL;
	uint64_t n;
	int err;

	for (n = 1;; n++) {
		core_fail_alloc(n);
		err = fkv_owner_create(&cfg, &o);
		if (!core_alloc_failed())
			break;
		ck_assert_int_eq(err, -ENOMEM);
	}
	ck_assert_uint_gt(n, 6);
	ck_assert_int_eq(err, 0);
	fkv_owner_free(o);
	fkv_owner_free(NULL);
}
END_TEST

/* the end of the daemon: one of everything in flight, nothing is leaked */
START_TEST(owner_that_ends_frees_what_is_in_flight)
{
	owner_open(CLIENT, "put", PAGE, 5);
	owner_put("live", PAGE, 6, 9);
	owner_hold("live", PAGE);
	owner_ask(FLUXONKV_OP_GET, "get");
	owner_ask(FLUXONKV_OP_DELETE, "call");
	owner_persist("job", 10, PAGE, 7);
	owner_client(8, UID, 8 * PAGE);
	owner_open(8, "arena", PAGE, 8);
	owner_ask_id(FLUXONKV_OP_PUT_COMMIT, 8,
		     owner_open(8, "done", 0, 9), 0);
	fkv_owner_free(owner);
	core_drop_all();
	ck_assert_int_eq(fkv_owner_create(&(struct fkv_owner_config){
		.ring = owner_ring,
		.ring_devices = 2,
		.ring_shards = 2,
	}, &owner), 0);
}
END_TEST

/* K3: the earliest of all that is pending */
START_TEST(deadline_is_the_earliest_of_all)
{
	ck_assert_uint_eq(fkv_owner_deadline(owner), FKV_NEVER);
	owner_open(CLIENT, "k", PAGE, 5);
	ck_assert_uint_eq(fkv_owner_deadline(owner),
			  core_now + FKV_PUT_OPEN_MAX);
	owner_ask(FLUXONKV_OP_DELETE, "l");
	ck_assert_uint_eq(fkv_owner_deadline(owner), core_now + TIMEOUT);
	owner_refuse(FKV_MSG_DELETE_R, core_take_msg(FKV_MSG_DELETE).op, 0);
	owner_result(0);
	ck_assert_uint_eq(fkv_owner_deadline(owner),
			  core_now + FKV_PUT_OPEN_MAX);
}
END_TEST

/* P5: what is being committed does not expire */
START_TEST(put_that_is_committed_or_planned_does_not_expire)
{
	uint64_t id = owner_open(CLIENT, "k", PAGE, 5);

	owner_ask_id(FLUXONKV_OP_PUT_COMMIT, CLIENT, id, 0);
	core_take_msg(FKV_MSG_PUT_DONE);
	owner_tick(FKV_PUT_OPEN_MAX);
	owner_result(-ETIMEDOUT);
	ck_assert(!core_has_msg(FKV_MSG_PUT_REVOKE));
	ck_assert_uint_eq(owner_stats().put_timeouts, 0);
}
END_TEST

/* a message of the wrong direction is a state that cannot be */
START_TEST(message_for_the_master_ends_the_process)
{
	owner_msg((struct fkv_msg){ .type = FKV_MSG_PUT_START }, NULL);
}
END_TEST

/* an answer to nothing, too: sessions answer each message once (F0) */
START_TEST(answer_to_nothing_ends_the_process)
{
	owner_refuse(FKV_MSG_STAT_R, 99, 0);
}
END_TEST

/* O1 */
START_TEST(numbers_at_rest_are_zero)
{
	struct fkv_owner_stats st;

	owner_put("k", PAGE, 5, 9);
	owner_release(owner_hold("k", PAGE));
	owner_pinned(0);
	st = owner_stats();
	ck_assert_uint_eq(st.entries, 1);
	ck_assert_uint_eq(st.clients, 1);
	ck_assert_uint_eq(st.devices_on, 2);
	ck_assert_uint_eq(st.holders + st.pinned_bytes + st.open_puts +
			  st.fetches + st.pending_ops + st.calls, 0);
	ck_assert_uint_eq(st.gets, st.hits_local + st.hits_ssd + st.misses +
			  st.get_errors);
}
END_TEST

/* what is reserved cannot fail later; what cannot be is said before */
START_TEST(outputs_are_reserved_or_refused)
{
	struct fkv_out out = { 0 };

	core_fail_alloc(1);
	ck_assert_int_eq(fkv_out_reserve(&out, 100), -ENOMEM);
	ck_assert(core_alloc_failed());
	ck_assert_int_eq(fkv_out_reserve(&out, 100), 0);
	core_fail_alloc(1);
	ck_assert_int_eq(fkv_out_reserve(&out, 100), 0);
	for (int i = 0; i < 100; i++)
		fkv_out_add(&out, FKV_CMD_REPLY);
	ck_assert_uint_eq(out.n, 100);
	ck_assert(!core_alloc_failed());
	fkv_out_done(&out);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("owner");
	TCase *tc = tcase_create("core");
	SRunner *sr = srunner_create(s);
	int failed;

	tcase_add_checked_fixture(tc, owner_setup_ssd, owner_teardown);
	tcase_add_test(tc,
		       owner_without_memory_is_enomem_at_every_allocation);
	tcase_add_test(tc, owner_that_ends_frees_what_is_in_flight);
	tcase_add_test(tc, deadline_is_the_earliest_of_all);
	tcase_add_test(tc, put_that_is_committed_or_planned_does_not_expire);
	tcase_add_test_raise_signal(tc, message_for_the_master_ends_the_process,
				    SIGABRT);
	tcase_add_test_raise_signal(tc, answer_to_nothing_ends_the_process,
				    SIGABRT);
	tcase_add_test(tc, numbers_at_rest_are_zero);
	tcase_add_test(tc, outputs_are_reserved_or_refused);
	suite_add_tcase(s, tc);
	srunner_run_all(sr, CK_ENV);
	failed = srunner_ntests_failed(sr);
	srunner_free(sr);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
