// SPDX-License-Identifier: Apache-2.0
#include <check.h>
#include <stdlib.h>

#include "owner_driver.h"

static void setup_caps(void)
{
	owner_setup_caps(3 * PAGE, 5 * PAGE, 0);
}

/* H4: by client, counted in extents */
START_TEST(client_over_its_cap_is_edquot)
{
	uint64_t id;

	id = owner_open(CLIENT, "a", PAGE + 1, 5);
	owner_open(CLIENT, "b", 1, 7);
	owner_begin(CLIENT, "c", 1, TIMEOUT);
	ck_assert_ptr_nonnull(strstr(owner_reply().text, "over the cap"));
	ck_assert_uint_eq(owner_stats().quota_refused, 1);
	ck_assert_uint_eq(owner_stats().pinned_bytes, 3 * PAGE);
	owner_ask_id(FLUXONKV_OP_PUT_ABORT, CLIENT, id, 0);
	owner_result(0);
	core_take_msg(FKV_MSG_PUT_REVOKE);
	owner_open(CLIENT, "c", 2 * PAGE, 5);
}
END_TEST

/* H4: by uid, over all its clients, and only over those */
START_TEST(clients_of_one_user_share_a_cap)
{
	owner_client(8, UID, 0);
	owner_client(9, UID + 1, 0);
	owner_open(CLIENT, "a", 3 * PAGE, 5);
	owner_open(8, "b", 2 * PAGE, 10);
	owner_begin(8, "c", 1, TIMEOUT);
	owner_result(-EDQUOT);
	owner_open(9, "c", 3 * PAGE, 15);
	owner_gone(CLIENT);
	core_take_msg(FKV_MSG_PUT_REVOKE);
	owner_open(8, "d", PAGE, 5);
}
END_TEST

/* H4: the first client of a user may go before the second */
START_TEST(user_is_forgotten_with_its_last_client)
{
	struct fkv_client_info info;

	owner_client(8, UID, 0);
	owner_gone(CLIENT);
	owner_open(8, "a", 3 * PAGE, 5);
	owner_gone(8);
	core_take_msg(FKV_MSG_PUT_REVOKE);
	owner_gone(8);		/* twice is once */
	ck_assert_uint_eq(owner_stats().clients, 0);
	ck_assert(!fkv_owner_client_info(owner, 0, &info));
}
END_TEST

/* a value larger than all there is: no overflow in the sum */
START_TEST(value_larger_than_a_cap_is_edquot)
{
	owner_begin(CLIENT, "a", FKV_VALUE_MAX, TIMEOUT);
	owner_result(-EDQUOT);
	owner_begin(CLIENT, "a", 4 * PAGE, TIMEOUT);
	owner_result(-EDQUOT);
}
END_TEST

/* H4: what a client pins in the shared index counts for both caps */
START_TEST(pins_in_the_shared_index_count_for_the_caps)
{
	owner_client(8, UID, 0);
	ck_assert_uint_eq(fkv_owner_client_pins(owner, CLIENT, 2 * PAGE), 0);
	owner_open(CLIENT, "a", PAGE, 5);
	owner_begin(CLIENT, "b", 1, TIMEOUT);
	owner_result(-EDQUOT);
	owner_begin(8, "b", 3 * PAGE, TIMEOUT);
	owner_result(-EDQUOT);
	ck_assert_uint_eq(fkv_owner_client_pins(owner, CLIENT, PAGE), PAGE);
	owner_open(8, "b", 3 * PAGE, 10);
	ck_assert_uint_eq(fkv_owner_client_pins(owner, 99, PAGE), 0);
	owner_gone(CLIENT);
	core_take_msg(FKV_MSG_PUT_REVOKE);
	/* and are gone with it */
	owner_client(9, UID, 0);
	owner_open(9, "c", 2 * PAGE, 20);
}
END_TEST

/* H4 */
START_TEST(get_over_the_cap_is_edquot_and_pins_nothing)
{
	struct fkv_entry *e = owner_put("k", PAGE, 5, 9);

	owner_open(CLIENT, "a", 3 * PAGE, 10);
	owner_ask(FLUXONKV_OP_GET, "k");
	ck_assert_ptr_nonnull(strstr(owner_reply().text, "over the cap"));
	ck_assert_uint_eq(e->pins, 0);
	ck_assert_uint_eq(owner_stats().get_errors, 1);
}
END_TEST

/* H2: a holder ends once, and only by who has it */
START_TEST(holder_is_released_once_by_its_client)
{
	struct fkv_entry *e = owner_put("k", PAGE, 5, 9);
	uint64_t id = owner_hold("k", PAGE);

	owner_client(8, UID, 0);
	owner_ask_id(FLUXONKV_OP_RELEASE, 8, id, 0);
	owner_result(-EINVAL);
	ck_assert_uint_eq(e->pins, 1);
	owner_release(id);
	owner_pinned(0);
	owner_ask_id(FLUXONKV_OP_RELEASE, CLIENT, id, 0);
	owner_result(-EINVAL);
	ck_assert_uint_eq(e->pins, 0);
}
END_TEST

/* H2 */
START_TEST(client_that_goes_releases_all_its_holders)
{
	struct fkv_entry *a = owner_put("a", PAGE, 5, 9);
	struct fkv_entry *b = owner_put("b", PAGE, 6, 10);

	owner_hold("a", PAGE);
	owner_ask(FLUXONKV_OP_GET, "a");
	owner_result(0);
	owner_hold("b", 2 * PAGE);
	owner_gone(CLIENT);
	owner_pinned(0);
	ck_assert_uint_eq(a->pins, 0);
	ck_assert_uint_eq(b->pins, 0);
	ck_assert_uint_eq(owner_stats().holders, 0);
}
END_TEST

START_TEST(what_a_client_has_is_shown)
{
	struct fkv_client_info info;

	owner_client(8, 1001, 0);
	owner_put("k", PAGE, 5, 9);
	owner_hold("k", PAGE);
	owner_open(CLIENT, "a", PAGE, 10);
	owner_ask(FLUXONKV_OP_STAT, "a");
	core_take_msg(FKV_MSG_STAT);
	for (uint64_t i = 0; i < 2; i++) {
		ck_assert(fkv_owner_client_info(owner, i, &info));
		ck_assert_uint_eq(info.uid, info.client == 8 ? 1001 : UID);
		if (info.client == 8)
			continue;
		ck_assert_uint_eq(info.holders, 1);
		ck_assert_uint_eq(info.open_puts, 1);
		ck_assert_uint_eq(info.calls, 1);
		ck_assert_uint_eq(info.pinned_bytes, 2 * PAGE);
	}
	ck_assert(!fkv_owner_client_info(owner, 2, &info));
}
END_TEST

/* H4, H2: holders are bounded, and all of them end in no time */
START_TEST(holders_of_a_client_are_bounded)
{
	struct fkv_entry *e = owner_put("k", 0, 5, 9);

	for (uint32_t i = 0; i < FKV_CLIENT_HOLDERS_MAX; i += RESULTS) {
		struct fkv_call *call = owner_call(FLUXONKV_OP_GET, RESULTS);

		for (uint32_t k = 0; k < RESULTS; k++)
			call->items[k].key = core_key_ref("k");
		fkv_owner_step(owner, core_now, &(struct fkv_in){
			.type = FKV_IN_CALL,
			.call = call,
		}, &core_out);
		ck_assert_int_eq(owner_reply().res[0].status, 0);
	}
	owner_ask(FLUXONKV_OP_GET, "k");
	ck_assert_ptr_nonnull(strstr(owner_reply().text, "65,536 holders"));
	ck_assert_uint_eq(e->pins, FKV_CLIENT_HOLDERS_MAX);
	owner_gone(CLIENT);
	ck_assert_uint_eq(e->pins, 0);
}
END_TEST

/* K3 */
START_TEST(holder_without_memory_is_enomem_and_charges_nothing)
{
	struct fkv_entry *e = owner_put("k", PAGE, 5, 9);
	struct fkv_call *call = owner_call(FLUXONKV_OP_GET, 1);

	call->items[0].key = core_key_ref("k");
	core_fail_alloc(1);
	owner_run(call);
	ck_assert(core_alloc_failed());
	owner_result(-ENOMEM);
	ck_assert_uint_eq(e->pins, 0);
	ck_assert_uint_eq(owner_stats().pinned_bytes, 0);
}
END_TEST

/* every allocation of a new client: it is unknown, and says so */
START_TEST(client_without_memory_answers_enomem)
{
	uint64_t n;

	for (n = 1;; n++) {
		core_fail_alloc(n);
		owner_step(&(struct fkv_in){
			.type = FKV_IN_CLIENT,
			.client = 50,
			.uid = 5000,
			.n = 8 * PAGE,
		});
		if (!core_alloc_failed())
			break;
		ck_assert_uint_eq(owner_stats().clients, 1);
		owner_ask_id(FLUXONKV_OP_RELEASE, 50, 1, 0);
		ck_assert_int_eq(owner_reply().status, -ENOMEM);
	}
	ck_assert_uint_gt(n, 4);
	owner_gone(50);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("owner clients");
	TCase *tc = tcase_create("core");
	SRunner *sr = srunner_create(s);
	int failed;

	tcase_add_checked_fixture(tc, setup_caps, owner_teardown);
	tcase_add_test(tc, client_over_its_cap_is_edquot);
	tcase_add_test(tc, clients_of_one_user_share_a_cap);
	tcase_add_test(tc, user_is_forgotten_with_its_last_client);
	tcase_add_test(tc, value_larger_than_a_cap_is_edquot);
	tcase_add_test(tc, pins_in_the_shared_index_count_for_the_caps);
	tcase_add_test(tc, get_over_the_cap_is_edquot_and_pins_nothing);
	tcase_add_test(tc, holder_is_released_once_by_its_client);
	tcase_add_test(tc, client_that_goes_releases_all_its_holders);
	tcase_add_test(tc, what_a_client_has_is_shown);
	tcase_add_test(tc, holders_of_a_client_are_bounded);
	tcase_add_test(tc, holder_without_memory_is_enomem_and_charges_nothing);
	tcase_add_test(tc, client_without_memory_answers_enomem);
	suite_add_tcase(s, tc);
	srunner_run_all(sr, CK_ENV);
	failed = srunner_ntests_failed(sr);
	srunner_free(sr);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
