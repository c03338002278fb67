// SPDX-License-Identifier: Apache-2.0
#include <check.h>
#include <stdlib.h>

#include "owner_driver.h"

static struct fkv_call *call_of_keys(uint16_t op, const char *const keys[],
				     uint32_t n)
{
	struct fkv_call *call = owner_call(op, n);

	for (uint32_t i = 0; i < n; i++)
		call->items[i].key = core_key_ref(keys[i]);
	return call;
}

static void stat_answer(uint64_t op, int res, uint32_t where)
{
	owner_msg((struct fkv_msg){
		.type = FKV_MSG_STAT_R,
		.op = op,
		.res = res,
		.len = 100,
		.put_id = 9,
		.source = where,
	}, NULL);
}

/* K2 */
START_TEST(stat_of_a_batch_counts_the_leading_run_of_hits)
{
	static const char *const keys[] = { "a", "b", "c", "d" };
	uint64_t op[4];
	struct reply r;

	owner_run(call_of_keys(FLUXONKV_OP_STAT, keys, 4));
	for (int i = 0; i < 4; i++)
		op[i] = core_take_msg(FKV_MSG_STAT).op;
	stat_answer(op[3], 0, FLUXONKV_ON_SSD);
	stat_answer(op[2], -ENOENT, 0);
	stat_answer(op[1], 0, FLUXONKV_IN_MEMORY);
	ck_assert(!core_has(FKV_CMD_REPLY));
	stat_answer(op[0], 0, FLUXONKV_IN_MEMORY);
	r = owner_reply();
	ck_assert_uint_eq(r.arg, 2);
	ck_assert_int_eq(r.res[2].status, -ENOENT);
	ck_assert_uint_eq(r.res[3].source, FLUXONKV_ON_SSD);
	ck_assert_uint_eq(r.res[0].len, 100);
	ck_assert_uint_eq(r.res[0].version, 9);
	ck_assert_uint_eq(owner_stats().pending_ops, 0);
}
END_TEST

/* K2: all of them wrong by themselves: a call that is over when it begins */
START_TEST(stat_whose_keys_are_all_wrong_is_answered_at_once)
{
	struct fkv_call *call = owner_call(FLUXONKV_OP_STAT, 2);
	struct reply r;

	for (int i = 0; i < 2; i++) {
		call->items[i].done = true;
		call->items[i].res.status = -EINVAL;
	}
	call->pending = 0;
	owner_run(call);
	r = owner_reply();
	ck_assert_int_eq(r.status, 0);
	ck_assert_int_eq(r.res[1].status, -EINVAL);
	ck_assert_uint_eq(r.arg, 0);
}
END_TEST

/* K2: one key's failure never fails another's */
START_TEST(wrong_key_of_a_batch_fails_alone)
{
	static const char *const keys[] = { "a", "b" };
	struct fkv_call *call = call_of_keys(FLUXONKV_OP_DELETE, keys, 2);
	struct reply r;

	call->items[0].done = true;
	call->items[0].res.status = -E2BIG;
	call->pending--;
	owner_run(call);
	owner_refuse(FKV_MSG_DELETE_R, core_take_msg(FKV_MSG_DELETE).op, 0);
	r = owner_reply();
	ck_assert_int_eq(r.res[0].status, -E2BIG);
	ck_assert_int_eq(r.res[1].status, 0);
}
END_TEST

/* K3 */
START_TEST(call_ends_at_its_deadline_with_what_it_has)
{
	static const char *const keys[] = { "a", "b", "c" };
	uint64_t op[3];
	struct reply r;

	owner_run(call_of_keys(FLUXONKV_OP_DELETE, keys, 3));
	for (int i = 0; i < 3; i++)
		op[i] = core_take_msg(FKV_MSG_DELETE).op;
	owner_refuse(FKV_MSG_DELETE_R, op[1], 0);
	owner_tick(TIMEOUT - 1);
	ck_assert_uint_eq(core_left(), 0);
	owner_tick(1);
	r = owner_reply();
	ck_assert_int_eq(r.res[0].status, -ETIMEDOUT);
	ck_assert_int_eq(r.res[1].status, 0);
	ck_assert_int_eq(r.res[2].status, -ETIMEDOUT);
	ck_assert_uint_eq(owner_stats().timeouts, 2);
	/* K6h: they may still take effect, and nobody is told */
	owner_refuse(FKV_MSG_DELETE_R, op[0], 0);
	owner_refuse(FKV_MSG_DELETE_R, op[2], 0);
	ck_assert_uint_eq(owner_stats().pending_ops, 0);
}
END_TEST

/* K3 */
START_TEST(deadline_0_is_eagain)
{
	struct fkv_call *call = owner_call(FLUXONKV_OP_STAT, 1);
	uint64_t op;

	call->items[0].key = core_key_ref("a");
	call->timeout_ns = 0;
	owner_run(call);
	op = core_take_msg(FKV_MSG_STAT).op;
	owner_tick(0);
	owner_result(-EAGAIN);
	stat_answer(op, 0, FLUXONKV_IN_MEMORY);
}
END_TEST

/* K3 */
START_TEST(deadline_beyond_all_time_is_never)
{
	struct fkv_call *call = owner_call(FLUXONKV_OP_STAT, 1);

	call->items[0].key = core_key_ref("a");
	call->timeout_ns = UINT64_MAX;
	owner_run(call);
	owner_tick(1000000 * FKV_SEC);
	ck_assert(!core_has(FKV_CMD_REPLY));
	ck_assert_uint_eq(owner_stats().calls, 1);
	stat_answer(core_take_msg(FKV_MSG_STAT).op, 0, 0);
	owner_result(0);
}
END_TEST

static struct fkv_call *list_call(uint64_t limit, const char *prefix,
				  const char *cursor)
{
	struct fkv_call *call = owner_call(FLUXONKV_OP_LIST, 2);

	call->arg = limit;
	call->items[0].key = prefix ? core_key_ref(prefix) : NULL;
	call->items[1].key = cursor ? core_key_ref(cursor) : NULL;
	return call;
}

/* D4 */
START_TEST(list_goes_with_prefix_cursor_and_limit)
{
	struct fkv_call *call;
	struct fkv_msg msg;

	owner_run(list_call(17, "p", "pc"));
	msg = core_take_msg(FKV_MSG_LIST);
	ck_assert_ptr_eq(msg.key, core_key("p"));
	ck_assert_ptr_eq(msg.key2, core_key("pc"));
	ck_assert_uint_eq(msg.n, 17);
	owner_msg((struct fkv_msg){
		.type = FKV_MSG_LIST_R,
		.op = msg.op,
		.listing = fkv_zalloc(sizeof(struct fkv_listing)),
	}, NULL);
	call = core_take(FKV_CMD_REPLY).call;
	ck_assert_ptr_nonnull(call->listing);
	fkv_call_free(call);

	owner_run(list_call(1, NULL, NULL));
	msg = core_take_msg(FKV_MSG_LIST);
	ck_assert_ptr_null(msg.key);
	ck_assert_ptr_null(msg.key2);
	owner_refuse(FKV_MSG_LIST_R, msg.op, -ENOMEM);
	ck_assert_int_eq(owner_reply().status, -ENOMEM);
}
END_TEST

/* K3: a listing that nobody waits for any more goes nowhere */
START_TEST(listing_after_the_deadline_is_freed)
{
	struct fkv_listing *l = fkv_zalloc(sizeof(*l) + sizeof(l->at[0]));
	struct fkv_msg msg;

	owner_run(list_call(17, "p", NULL));
	msg = core_take_msg(FKV_MSG_LIST);
	owner_tick(TIMEOUT);
	ck_assert_int_eq(owner_reply().status, -ETIMEDOUT);
	l->n = 1;
	l->at[0].key = core_key_ref("px");
	owner_msg((struct fkv_msg){
		.type = FKV_MSG_LIST_R,
		.op = msg.op,
		.listing = l,
	}, NULL);
	ck_assert_uint_eq(core_key("px")->refs, 1);
}
END_TEST

/* D4 */
START_TEST(count_answers_with_a_number)
{
	struct reply r;
	uint64_t op;

	owner_ask(FLUXONKV_OP_COUNT, "p");
	op = core_take_msg(FKV_MSG_COUNT).op;
	owner_msg((struct fkv_msg){
		.type = FKV_MSG_COUNT_R,
		.op = op,
		.n = 42,
	}, NULL);
	ck_assert_uint_eq(owner_reply().arg, 42);

	owner_ask(FLUXONKV_OP_COUNT, "p");
	op = core_take_msg(FKV_MSG_COUNT).op;
	owner_tick(TIMEOUT);
	r = owner_reply();
	ck_assert_int_eq(r.status, -ETIMEDOUT);
	owner_refuse(FKV_MSG_COUNT_R, op, 0);
}
END_TEST

/* D4, limits */
START_TEST(list_without_a_possible_limit_is_einval)
{
	owner_run(list_call(0, "p", NULL));
	ck_assert_int_eq(owner_reply().status, -EINVAL);
	owner_run(list_call(FKV_LIST_MAX + 1, "p", NULL));
	ck_assert_int_eq(owner_reply().status, -EINVAL);
	owner_run(list_call(FKV_LIST_MAX, "p", NULL));
	owner_refuse(FKV_MSG_LIST_R, core_take_msg(FKV_MSG_LIST).op, 0);
	ck_assert_int_eq(owner_reply().status, 0);
}
END_TEST

/* a prefix that is none fails the call: there is no result of an item */
START_TEST(list_with_a_wrong_cursor_fails_as_a_whole)
{
	struct fkv_call *call = list_call(17, "p", "c");

	call->items[1].done = true;
	call->items[1].res.status = -E2BIG;
	call->pending--;
	owner_run(call);
	ck_assert_int_eq(owner_reply().status, -E2BIG);
	ck_assert_uint_eq(core_left(), 0);
}
END_TEST

START_TEST(calls_of_a_client_are_bounded)
{
	for (uint32_t i = 0; i < FKV_CLIENT_CALLS_MAX; i++) {
		owner_ask(FLUXONKV_OP_STAT, "a");
		core_take_msg(FKV_MSG_STAT);
	}
	owner_run(list_call(17, "p", "c"));
	ck_assert_int_eq(owner_reply().status, -EBUSY);
	ck_assert_uint_eq(owner_stats().calls, FKV_CLIENT_CALLS_MAX);
	/* dropped with its client, their answers later find nobody */
	owner_gone(CLIENT);
	ck_assert_uint_eq(owner_stats().calls, 0);
	for (uint32_t i = 0; i < FKV_CLIENT_CALLS_MAX; i++)
		stat_answer(i + 1, 0, FLUXONKV_IN_MEMORY);
	ck_assert_uint_eq(owner_stats().pending_ops, 0);
	ck_assert_uint_eq(core_left(), 0);
}
END_TEST

/* what was refused as a whole keeps nothing of what it came with */
START_TEST(refused_call_gives_its_keys_back)
{
	static const char *const keys[] = { "a", "b" };
	struct fkv_call *call = call_of_keys(FLUXONKV_OP_DELETE, keys, 2);

	call->client = CLIENT + 1;
	owner_run(call);
	ck_assert_int_eq(owner_reply().status, -ENOMEM);
	ck_assert_uint_eq(core_key("a")->refs, 1);
	ck_assert_uint_eq(core_key("b")->refs, 1);
}
END_TEST

START_TEST(call_without_memory_is_enomem)
{
	static const char *const keys[] = { "a", "b" };
	struct fkv_call *call = call_of_keys(FLUXONKV_OP_DELETE, keys, 2);
	struct reply r;

	core_fail_alloc(1);
	owner_run(call);
	ck_assert(core_alloc_failed());
	owner_refuse(FKV_MSG_DELETE_R, core_take_msg(FKV_MSG_DELETE).op, 0);
	r = owner_reply();
	ck_assert_int_eq(r.res[0].status, -ENOMEM);
	ck_assert_int_eq(r.res[1].status, 0);
}
END_TEST

/* a sentence: the first one stays, a long one is cut */
START_TEST(text_of_a_call_is_its_first_and_fits)
{
	static const char *const keys[] = { "a", "b" };
	struct fkv_call *call = call_of_keys(FLUXONKV_OP_PUT_BEGIN, keys, 2);
	char text[FKV_TEXT_MAX + 100];
	struct reply r;
	uint64_t op[2];

	memset(text, 'x', sizeof(text) - 1);
	text[sizeof(text) - 1] = 0;
	owner_run(call);
	op[0] = core_take_msg(FKV_MSG_PUT_START).op;
	op[1] = core_take_msg(FKV_MSG_PUT_START).op;
	owner_msg((struct fkv_msg){
		.type = FKV_MSG_PUT_PLAN,
		.op = op[0],
		.res = -ENOSPC,
		.text = text,
	}, NULL);
	owner_msg((struct fkv_msg){
		.type = FKV_MSG_PUT_PLAN,
		.op = op[1],
		.res = -EFBIG,
		.text = "later",
	}, NULL);
	r = owner_reply();
	ck_assert_uint_eq(strlen(r.text), FKV_TEXT_MAX - 1);
	ck_assert_int_eq(r.res[0].status, -ENOSPC);
	ck_assert_int_eq(r.res[1].status, -EFBIG);
}
END_TEST

/* M4: first keys are touched last */
START_TEST(get_and_commit_go_from_the_last_key_to_the_first)
{
	static const char *const keys[] = { "a", "b", "c" };
	const char *order = "cba";

	owner_run(call_of_keys(FLUXONKV_OP_GET, keys, 3));
	for (int i = 0; i < 3; i++) {
		struct fkv_msg msg = core_take_msg(FKV_MSG_GET_START);

		ck_assert_int_eq(msg.key->data[0], order[i]);
		owner_refuse(FKV_MSG_GET_PLAN, msg.op, -ENOENT);
	}
	ck_assert_int_eq(owner_reply().res[0].status, -ENOENT);
}
END_TEST

/* K3, O1: gets = hits + misses + errors, by whatever way they end */
START_TEST(get_that_ends_by_deadline_or_death_is_an_error)
{
	static const char *const keys[] = { "a", "b" };
	uint64_t op;

	owner_run(call_of_keys(FLUXONKV_OP_GET, keys, 2));
	op = core_take_msg(FKV_MSG_GET_START).op;
	owner_refuse(FKV_MSG_GET_PLAN, op, -ENOENT);
	op = core_take_msg(FKV_MSG_GET_START).op;
	owner_tick(TIMEOUT);
	owner_reply();
	owner_refuse(FKV_MSG_GET_PLAN, op, -ENOENT);
	owner_run(call_of_keys(FLUXONKV_OP_GET, keys, 2));
	op = core_take_msg(FKV_MSG_GET_START).op;
	owner_refuse(FKV_MSG_GET_PLAN, op, -ENOENT);
	op = core_take_msg(FKV_MSG_GET_START).op;
	owner_gone(CLIENT);
	owner_refuse(FKV_MSG_GET_PLAN, op, -ENOENT);
	ck_assert_uint_eq(owner_stats().gets, 4);
	ck_assert_uint_eq(owner_stats().misses, 2);
	ck_assert_uint_eq(owner_stats().get_errors, 2);
}
END_TEST

/* K2 WARM: what is only on SSD is fetched, and the answer does not wait */
START_TEST(stat_that_warms_fetches_what_is_only_on_ssd)
{
	static const char *const keys[] = { "a", "b", "c" };
	struct fkv_call *call = call_of_keys(FLUXONKV_OP_STAT, keys, 3);
	uint64_t op[3], fetch;

	call->flags = FLUXONKV_REQ_WARM;
	owner_run(call);
	for (int i = 0; i < 3; i++)
		op[i] = core_take_msg(FKV_MSG_STAT).op;
	stat_answer(op[0], 0, FLUXONKV_ON_SSD | FLUXONKV_IN_MEMORY);
	stat_answer(op[1], -ENOENT, FLUXONKV_ON_SSD);
	ck_assert(!core_has_msg(FKV_MSG_GET_START));
	/* its caller may have gone */
	owner_tick(TIMEOUT);
	owner_reply();
	stat_answer(op[2], 0, FLUXONKV_ON_SSD);
	fetch = owner_asked("c");
	owner_refuse(FKV_MSG_GET_PLAN, fetch, -ENOSPC);
	ck_assert_uint_eq(owner_stats().gets, 0);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("owner calls");
	TCase *tc = tcase_create("core");
	SRunner *sr = srunner_create(s);
	int failed;

	tcase_add_checked_fixture(tc, owner_setup, owner_teardown);
	tcase_add_test(tc, stat_of_a_batch_counts_the_leading_run_of_hits);
	tcase_add_test(tc, stat_whose_keys_are_all_wrong_is_answered_at_once);
	tcase_add_test(tc, wrong_key_of_a_batch_fails_alone);
	tcase_add_test(tc, call_ends_at_its_deadline_with_what_it_has);
	tcase_add_test(tc, deadline_0_is_eagain);
	tcase_add_test(tc, deadline_beyond_all_time_is_never);
	tcase_add_test(tc, list_goes_with_prefix_cursor_and_limit);
	tcase_add_test(tc, listing_after_the_deadline_is_freed);
	tcase_add_test(tc, count_answers_with_a_number);
	tcase_add_test(tc, list_without_a_possible_limit_is_einval);
	tcase_add_test(tc, list_with_a_wrong_cursor_fails_as_a_whole);
	tcase_add_test(tc, calls_of_a_client_are_bounded);
	tcase_add_test(tc, refused_call_gives_its_keys_back);
	tcase_add_test(tc, call_without_memory_is_enomem);
	tcase_add_test(tc, text_of_a_call_is_its_first_and_fits);
	tcase_add_test(tc, get_and_commit_go_from_the_last_key_to_the_first);
	tcase_add_test(tc, get_that_ends_by_deadline_or_death_is_an_error);
	tcase_add_test(tc, stat_that_warms_fetches_what_is_only_on_ssd);
	suite_add_tcase(s, tc);
	srunner_run_all(sr, CK_ENV);
	failed = srunner_ntests_failed(sr);
	srunner_free(sr);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
