// SPDX-License-Identifier: Apache-2.0
#include <check.h>
#include <stdlib.h>

#include "owner_driver.h"

#define ARENA	(8 * PAGE)

static void plan(uint64_t op, int res, const char *text)
{
	owner_msg((struct fkv_msg){
		.type = FKV_MSG_PUT_PLAN,
		.op = op,
		.res = res,
		.text = text,
		.extent = res ? 0 : 5,
		.offset = 5 * PAGE,
	}, NULL);
}

static void done(uint64_t op, int res)
{
	owner_msg((struct fkv_msg){
		.type = FKV_MSG_PUT_DONE_R,
		.op = op,
		.res = res,
		.extent = 5,
		.put_id = 9,
		.grant = !res,
	}, NULL);
}

/* P1 */
START_TEST(put_is_published_before_its_answer)
{
	struct fkv_entry *e = owner_put("k", 100, 5, 9);

	ck_assert_uint_eq(e->put_id, 9);
	ck_assert_uint_eq(e->offset, 5 * PAGE);
	ck_assert_uint_eq(e->len, 100);
	ck_assert(e->live);
	ck_assert_uint_eq(owner_stats().open_puts, 0);
	ck_assert_uint_eq(owner_stats().pinned_bytes, 0);
	ck_assert_uint_eq(owner_stats().bytes_put, 100);
}
END_TEST

/* H4: an open put counts as pinned, in extents */
START_TEST(open_put_is_charged_until_it_ends)
{
	uint64_t id = owner_open(CLIENT, "k", 100, 5);

	ck_assert_uint_eq(owner_stats().pinned_bytes, PAGE);
	owner_ask_id(FLUXONKV_OP_PUT_ABORT, CLIENT, id, 0);
	owner_result(0);
	ck_assert(!core_take_msg(FKV_MSG_PUT_REVOKE).held);
	ck_assert_uint_eq(owner_stats().pinned_bytes, 0);
	ck_assert_uint_eq(owner_stats().open_puts, 0);
}
END_TEST

/* K3: 0 is said, and the master is told how long it may wait */
START_TEST(deadline_of_a_put_goes_to_the_master)
{
	struct fkv_msg msg;

	owner_begin(CLIENT, "k", 100, 0);
	msg = core_take_msg(FKV_MSG_PUT_START);
	ck_assert_uint_eq(msg.deadline_ns, core_now);
	plan(msg.op, -ENOSPC, "no room at all");
	/* it would have had to wait */
	owner_result(-EAGAIN);

	owner_begin(CLIENT, "k", 100, UINT64_MAX);
	msg = core_take_msg(FKV_MSG_PUT_START);
	ck_assert_uint_eq(msg.deadline_ns, FKV_NEVER);
	plan(msg.op, -ENOSPC, "no room at all");
	ck_assert_str_eq(owner_reply().text, "no room at all");
	ck_assert_uint_eq(owner_stats().put_errors, 2);
}
END_TEST

/* K4 */
START_TEST(put_that_does_not_wait_is_enospc_at_deadline_0)
{
	struct fkv_call *call = owner_call(FLUXONKV_OP_PUT_BEGIN, 1);
	struct fkv_msg msg;

	call->timeout_ns = 0;
	call->items[0].key = core_key_ref("k");
	call->items[0].len = 100;
	call->items[0].flags = FLUXONKV_PUT_NOWAIT;
	owner_run(call);
	msg = core_take_msg(FKV_MSG_PUT_START);
	ck_assert_uint_eq(msg.flags, FLUXONKV_PUT_NOWAIT);
	plan(msg.op, -ENOSPC, NULL);
	owner_result(-ENOSPC);
}
END_TEST

/* K3: who has left before the plan comes gets nothing, and gives it back */
START_TEST(plan_that_nobody_waits_for_is_revoked)
{
	struct fkv_msg msg;

	owner_begin(CLIENT, "k", 100, TIMEOUT);
	msg = core_take_msg(FKV_MSG_PUT_START);
	/* the master speaks first */
	owner_tick(TIMEOUT);
	ck_assert_uint_eq(core_left(), 0);
	owner_tick(FKV_TIMEOUT_GRACE);
	owner_result(-ETIMEDOUT);
	plan(msg.op, 0, NULL);
	ck_assert(!core_take_msg(FKV_MSG_PUT_REVOKE).held);
	ck_assert_uint_eq(owner_stats().open_puts, 0);
	ck_assert_uint_eq(owner_stats().pinned_bytes, 0);

	owner_begin(CLIENT, "k", 100, TIMEOUT);
	msg = core_take_msg(FKV_MSG_PUT_START);
	owner_tick(TIMEOUT + FKV_TIMEOUT_GRACE);
	owner_result(-ETIMEDOUT);
	plan(msg.op, -ENOSPC, "late");
	ck_assert_uint_eq(owner_stats().open_puts, 0);
}
END_TEST

/* P5: the master hears of it at once; an answer that crosses is no other put */
START_TEST(client_that_goes_while_a_put_is_planned_leaves_none)
{
	const int answers[] = { -ECANCELED, 0, -ENOSPC };
	struct fkv_msg msg;

	for (size_t i = 0; i < FKV_ARRAY_SIZE(answers); i++) {
		owner_client(8, UID, 0);
		owner_begin(8, "k", 100, TIMEOUT);
		msg = core_take_msg(FKV_MSG_PUT_START);
		owner_gone(8);
		ck_assert_uint_eq(core_take_msg(FKV_MSG_PUT_CANCEL).op,
				  msg.op);
		ck_assert_uint_eq(owner_stats().pinned_bytes, 0);
		plan(msg.op, answers[i], NULL);
		if (!answers[i])
			core_take_msg(FKV_MSG_PUT_REVOKE);
		ck_assert_uint_eq(core_left(), 0);
		ck_assert_uint_eq(owner_stats().open_puts, 0);
	}
}
END_TEST

/* P5 */
START_TEST(client_that_goes_ends_its_open_puts)
{
	uint64_t a = owner_open(CLIENT, "a", 100, 5);
	uint64_t b = owner_open(CLIENT, "b", 100, 6);
	struct fkv_msg msg;

	owner_gone(CLIENT);
	msg = core_take_msg(FKV_MSG_PUT_REVOKE);
	ck_assert(msg.op == a && !msg.held);
	msg = core_take_msg(FKV_MSG_PUT_REVOKE);
	ck_assert(msg.op == b && !msg.held);
	ck_assert_uint_eq(owner_stats().open_puts, 0);
}
END_TEST

/* P5: the key is free, the extent waits for who may still write it */
START_TEST(put_open_for_60_s_is_over_but_its_extent_is_not)
{
	uint64_t id = owner_open(CLIENT, "k", 100, 5);

	owner_tick(FKV_PUT_OPEN_MAX - 1);
	ck_assert_uint_eq(core_left(), 0);
	owner_tick(1);
	ck_assert(core_take_msg(FKV_MSG_PUT_REVOKE).held);
	ck_assert_uint_eq(owner_stats().put_timeouts, 1);
	ck_assert_uint_eq(owner_stats().expired_puts, 1);
	owner_ask_id(FLUXONKV_OP_PUT_EXTEND, CLIENT, id, 0);
	owner_result(-ETIMEDOUT);
	owner_ask_id(FLUXONKV_OP_PUT_COMMIT, CLIENT, id, 0);
	ck_assert_ptr_nonnull(strstr(owner_reply().text, "60 s"));
	owner_quiet(5, 1);
	ck_assert_uint_eq(owner_stats().expired_puts, 0);
	ck_assert_uint_eq(owner_stats().pinned_bytes, 0);
}
END_TEST

/* P5 */
START_TEST(expired_put_ends_with_abort_or_with_its_client)
{
	uint64_t id = owner_open(CLIENT, "k", 100, 5);

	owner_open(CLIENT, "l", 100, 6);
	owner_tick(FKV_PUT_OPEN_MAX);
	ck_assert(core_take_msg(FKV_MSG_PUT_REVOKE).held);
	ck_assert(core_take_msg(FKV_MSG_PUT_REVOKE).held);
	owner_ask_id(FLUXONKV_OP_PUT_ABORT, CLIENT, id, 0);
	owner_result(0);
	owner_quiet(5, 1);
	owner_gone(CLIENT);
	owner_quiet(6, 1);
	ck_assert_uint_eq(owner_stats().open_puts, 0);
}
END_TEST

/* P5 */
START_TEST(extended_put_has_60_s_more)
{
	uint64_t id = owner_open(CLIENT, "k", 100, 5);

	owner_tick(FKV_PUT_OPEN_MAX - 1);
	owner_ask_id(FLUXONKV_OP_PUT_EXTEND, CLIENT, id, 0);
	owner_result(0);
	owner_tick(FKV_PUT_OPEN_MAX - 1);
	ck_assert_uint_eq(core_left(), 0);
	owner_tick(1);
	ck_assert(core_take_msg(FKV_MSG_PUT_REVOKE).held);
}
END_TEST

/* P5: its copy has ended when the time-out comes: nobody writes the extent */
START_TEST(expired_put_of_an_arena_gives_its_extent_back_at_once)
{
	uint64_t id;

	owner_client(8, 2000, ARENA);
	id = owner_open(8, "k", 100, 5);
	owner_tick(FKV_PUT_OPEN_MAX);
	ck_assert(!core_take_msg(FKV_MSG_PUT_REVOKE).held);
	owner_ask_id(FLUXONKV_OP_PUT_COMMIT, 8, id, 0);
	owner_result(-ETIMEDOUT);
	ck_assert_uint_eq(core_left(), 0);
	ck_assert_uint_eq(owner_stats().pinned_bytes, 0);
}
END_TEST

/* H4: puts are by client */
START_TEST(put_of_another_client_cannot_be_named)
{
	static const uint16_t ops[] = {
		FLUXONKV_OP_PUT_EXTEND, FLUXONKV_OP_PUT_COMMIT,
		FLUXONKV_OP_PUT_ABORT,
	};
	uint64_t id = owner_open(CLIENT, "k", 100, 5);

	owner_client(8, UID, 0);
	for (size_t i = 0; i < FKV_ARRAY_SIZE(ops); i++) {
		owner_ask_id(ops[i], 8, id, 0);
		owner_result(-EINVAL);
		owner_ask_id(ops[i], CLIENT, id + 1, 0);
		owner_result(-EINVAL);
	}
	ck_assert_uint_eq(owner_stats().open_puts, 1);
	ck_assert_uint_eq(core_left(), 0);
}
END_TEST

/* an op id that is none of a put, and a put that is committed already */
START_TEST(what_is_no_open_put_is_einval)
{
	uint64_t id = owner_open(CLIENT, "k", 100, 5);
	uint64_t op;

	owner_ask(FLUXONKV_OP_DELETE, "l");
	op = core_take_msg(FKV_MSG_DELETE).op;
	owner_ask_id(FLUXONKV_OP_PUT_COMMIT, CLIENT, op, 0);
	owner_result(-EINVAL);
	owner_refuse(FKV_MSG_DELETE_R, op, -ENOENT);
	owner_result(-ENOENT);
	owner_ask_id(FLUXONKV_OP_PUT_COMMIT, CLIENT, id, 0);
	core_take_msg(FKV_MSG_PUT_DONE);
	owner_ask_id(FLUXONKV_OP_PUT_ABORT, CLIENT, id, 0);
	owner_result(-EINVAL);
	done(id, 0);
	owner_result(0);
	core_take(FKV_CMD_PUBLISH);
}
END_TEST

/* K4: EXCL that lost the race, at commit */
START_TEST(refused_commit_tells_why_and_ends_the_put)
{
	uint64_t id = owner_open(CLIENT, "k", 100, 5);

	owner_ask_id(FLUXONKV_OP_PUT_COMMIT, CLIENT, id, 0);
	core_take_msg(FKV_MSG_PUT_DONE);
	done(id, -EEXIST);
	owner_result(-EEXIST);
	ck_assert_uint_eq(owner_stats().open_puts, 0);
	ck_assert_uint_eq(owner_stats().pinned_bytes, 0);
	ck_assert_uint_eq(owner_stats().entries, 0);
}
END_TEST

/* K6h: a commit that ended by its deadline may still take effect */
START_TEST(commit_that_timed_out_is_published_all_the_same)
{
	uint64_t id = owner_open(CLIENT, "k", 100, 5);

	owner_ask_id(FLUXONKV_OP_PUT_COMMIT, CLIENT, id, FLUXONKV_COMMIT_HOLD);
	core_take_msg(FKV_MSG_PUT_DONE);
	owner_tick(TIMEOUT + FKV_TIMEOUT_GRACE);
	owner_result(-ETIMEDOUT);
	done(id, 0);
	ck_assert(core_take(FKV_CMD_PUBLISH).entry->live);
	ck_assert_uint_eq(owner_stats().holders, 0);
	ck_assert_uint_eq(owner_stats().pinned_bytes, 0);
}
END_TEST

/* P5: the client goes between commit and answer */
START_TEST(commit_of_a_client_that_went_is_published)
{
	uint64_t id = owner_open(CLIENT, "k", 100, 5);

	owner_ask_id(FLUXONKV_OP_PUT_COMMIT, CLIENT, id, 0);
	core_take_msg(FKV_MSG_PUT_DONE);
	owner_gone(CLIENT);
	ck_assert_uint_eq(owner_stats().pinned_bytes, 0);
	done(id, 0);
	core_take(FKV_CMD_PUBLISH);
	ck_assert_uint_eq(owner_stats().open_puts, 0);
}
END_TEST

/* K2 */
START_TEST(commit_can_answer_with_a_holder)
{
	uint64_t id = owner_open(CLIENT, "k", 100, 5);
	struct fluxonkv_result res;

	owner_ask_id(FLUXONKV_OP_PUT_COMMIT, CLIENT, id, FLUXONKV_COMMIT_HOLD);
	core_take_msg(FKV_MSG_PUT_DONE);
	done(id, 0);
	core_take(FKV_CMD_PUBLISH);
	owner_pinned(PAGE);
	res = owner_result(0);
	ck_assert_uint_eq(res.version, 9);
	ck_assert_uint_eq(res.len, 100);
	owner_release(res.id);
	owner_pinned(0);
}
END_TEST

/* K3: without memory for its entry the version is current, only not here */
START_TEST(commit_without_memory_gives_its_reference_back)
{
	uint64_t id = owner_open(CLIENT, "k", 100, 5);

	owner_ask_id(FLUXONKV_OP_PUT_COMMIT, CLIENT, id, FLUXONKV_COMMIT_HOLD);
	core_take_msg(FKV_MSG_PUT_DONE);
	core_fail_alloc(1);
	done(id, 0);
	ck_assert(core_alloc_failed());
	owner_quiet(5, 1);
	owner_result(-ENOMEM);
	ck_assert_uint_eq(owner_stats().entries, 0);
}
END_TEST

START_TEST(begin_without_memory_leaves_nothing)
{
	struct fkv_call *call = owner_call(FLUXONKV_OP_PUT_BEGIN, 1);

	call->items[0].key = core_key_ref("k");
	core_fail_alloc(1);
	owner_run(call);
	ck_assert(core_alloc_failed());
	owner_result(-ENOMEM);
	ck_assert_uint_eq(owner_stats().open_puts, 0);
}
END_TEST

/* U: a client of another user writes to an arena, and the daemon copies */
START_TEST(put_of_an_arena_is_copied_at_commit)
{
	struct fkv_cmd copy;
	uint64_t id;

	owner_client(8, 2000, ARENA);
	owner_open(8, "first", PAGE, 4);
	id = owner_open(8, "k", PAGE + 1, 5);
	owner_ask_id(FLUXONKV_OP_PUT_COMMIT, 8, id, 0);
	copy = core_take(FKV_CMD_COPY);
	ck_assert_uint_eq(copy.client, 8);
	ck_assert_uint_eq(copy.from, PAGE);
	ck_assert_uint_eq(copy.offset, 5 * PAGE);
	ck_assert_uint_eq(copy.len, PAGE + 1);
	owner_copied(copy.token, 0);
	ck_assert_uint_eq(core_take_msg(FKV_MSG_PUT_DONE).op, id);
	done(id, 0);
	owner_result(0);
	core_take(FKV_CMD_PUBLISH);
}
END_TEST

START_TEST(copy_that_fails_ends_the_put)
{
	struct fkv_cmd copy;
	uint64_t id;

	owner_client(8, 2000, ARENA);
	id = owner_open(8, "k", PAGE, 5);
	owner_ask_id(FLUXONKV_OP_PUT_COMMIT, 8, id, 0);
	copy = core_take(FKV_CMD_COPY);
	/* not open any more */
	owner_ask_id(FLUXONKV_OP_PUT_ABORT, 8, id, 0);
	owner_result(-EINVAL);
	owner_copied(copy.token, -EFAULT);
	ck_assert(!core_take_msg(FKV_MSG_PUT_REVOKE).held);
	owner_result(-EFAULT);
	ck_assert_uint_eq(owner_stats().open_puts, 0);
	owner_copied(copy.token, 0);
	ck_assert_uint_eq(owner_stats().stale_tokens, 1);
}
END_TEST

/* P5, G3: the copy is awaited before the extent is anyone's */
START_TEST(put_copied_for_a_client_that_went_is_revoked_then)
{
	struct fkv_cmd copy;
	uint64_t id;

	owner_client(8, 2000, ARENA);
	id = owner_open(8, "k", PAGE, 5);
	owner_ask_id(FLUXONKV_OP_PUT_COMMIT, 8, id, 0);
	copy = core_take(FKV_CMD_COPY);
	owner_gone(8);
	ck_assert_uint_eq(core_left(), 0);
	owner_copied(copy.token, 0);
	ck_assert(!core_take_msg(FKV_MSG_PUT_REVOKE).held);
	ck_assert_uint_eq(owner_stats().open_puts, 0);
	ck_assert_uint_eq(owner_stats().pinned_bytes, 0);
}
END_TEST

START_TEST(copied_of_what_is_not_being_copied_is_stale)
{
	uint64_t id = owner_open(CLIENT, "k", 100, 5);

	owner_copied(id, 0);
	owner_copied(id + 1, 0);
	ck_assert_uint_eq(owner_stats().stale_tokens, 2);
	ck_assert_uint_eq(owner_stats().open_puts, 1);
}
END_TEST

/* K1: of no bytes there is nothing to copy and no room to take */
START_TEST(empty_put_of_an_arena_is_not_copied)
{
	uint64_t id;

	owner_client(8, 2000, ARENA);
	id = owner_open(8, "k", 0, 5);
	owner_ask_id(FLUXONKV_OP_PUT_COMMIT, 8, id, 0);
	ck_assert_uint_eq(core_take_msg(FKV_MSG_PUT_DONE).op, id);
	done(id, 0);
	owner_result(0);
	core_take(FKV_CMD_PUBLISH);
}
END_TEST

/* H4 */
START_TEST(put_area_that_is_full_or_too_small_is_said)
{
	uint64_t id;

	owner_client(8, 2000, ARENA);
	owner_begin(8, "k", ARENA + 1, TIMEOUT);
	ck_assert_ptr_nonnull(strstr(owner_reply().text, "put area"));
	id = owner_open(8, "k", ARENA, 5);
	owner_begin(8, "l", 1, TIMEOUT);
	owner_result(-EDQUOT);
	ck_assert_uint_eq(owner_stats().pinned_bytes, ARENA);
	owner_ask_id(FLUXONKV_OP_PUT_ABORT, 8, id, 0);
	owner_result(0);
	core_take_msg(FKV_MSG_PUT_REVOKE);
	owner_open(8, "l", ARENA, 6);
}
END_TEST

START_TEST(put_area_without_memory_is_enomem)
{
	uint64_t n = 1;

	owner_client(8, 2000, ARENA);
	owner_open(8, "k", PAGE, 5);
	for (;; n++) {
		struct fkv_call *call = owner_call(FLUXONKV_OP_PUT_BEGIN, 1);

		call->client = 8;
		call->items[0].key = core_key_ref("l");
		call->items[0].len = PAGE;
		core_fail_alloc(n);
		owner_run(call);
		if (!core_alloc_failed())
			break;
		owner_result(-ENOMEM);
		ck_assert_uint_eq(owner_stats().open_puts, 1);
		ck_assert_uint_eq(owner_stats().pinned_bytes, PAGE);
	}
	core_take_msg(FKV_MSG_PUT_START);
	owner_gone(8);
	core_drop_all();
	plan(2, 0, NULL);
	core_take_msg(FKV_MSG_PUT_REVOKE);
}
END_TEST

/* P4: refused here, before the master is asked */
START_TEST(put_larger_than_its_class_is_efbig)
{
	owner_teardown();
	owner_setup_caps(0, 0, 10 * PAGE);
	owner_begin(CLIENT, "k", 10 * PAGE + 1, TIMEOUT);
	ck_assert_ptr_nonnull(strstr(owner_reply().text, "85 %"));
	owner_open(CLIENT, "k", 10 * PAGE, 5);
}
END_TEST

/* H4 */
START_TEST(open_puts_of_a_client_are_bounded)
{
	for (uint32_t i = 0; i < FKV_CLIENT_PUTS_MAX; i++)
		owner_open(CLIENT, "k", 0, 5);
	owner_begin(CLIENT, "k", 0, TIMEOUT);
	ck_assert_ptr_nonnull(strstr(owner_reply().text, "4,096 open puts"));
	owner_gone(CLIENT);
	core_drop_all();
}
END_TEST

int main(void)
{
	Suite *s = suite_create("owner put");
	TCase *tc = tcase_create("core");
	SRunner *sr = srunner_create(s);
	int failed;

	tcase_add_checked_fixture(tc, owner_setup, owner_teardown);
	tcase_add_test(tc, put_is_published_before_its_answer);
	tcase_add_test(tc, open_put_is_charged_until_it_ends);
	tcase_add_test(tc, deadline_of_a_put_goes_to_the_master);
	tcase_add_test(tc, put_that_does_not_wait_is_enospc_at_deadline_0);
	tcase_add_test(tc, plan_that_nobody_waits_for_is_revoked);
	tcase_add_test(tc, client_that_goes_while_a_put_is_planned_leaves_none);
	tcase_add_test(tc, client_that_goes_ends_its_open_puts);
	tcase_add_test(tc, put_open_for_60_s_is_over_but_its_extent_is_not);
	tcase_add_test(tc, expired_put_ends_with_abort_or_with_its_client);
	tcase_add_test(tc, extended_put_has_60_s_more);
	tcase_add_test(tc,
		       expired_put_of_an_arena_gives_its_extent_back_at_once);
	tcase_add_test(tc, put_of_another_client_cannot_be_named);
	tcase_add_test(tc, what_is_no_open_put_is_einval);
	tcase_add_test(tc, refused_commit_tells_why_and_ends_the_put);
	tcase_add_test(tc, commit_that_timed_out_is_published_all_the_same);
	tcase_add_test(tc, commit_of_a_client_that_went_is_published);
	tcase_add_test(tc, commit_can_answer_with_a_holder);
	tcase_add_test(tc, commit_without_memory_gives_its_reference_back);
	tcase_add_test(tc, begin_without_memory_leaves_nothing);
	tcase_add_test(tc, put_of_an_arena_is_copied_at_commit);
	tcase_add_test(tc, copy_that_fails_ends_the_put);
	tcase_add_test(tc, put_copied_for_a_client_that_went_is_revoked_then);
	tcase_add_test(tc, copied_of_what_is_not_being_copied_is_stale);
	tcase_add_test(tc, empty_put_of_an_arena_is_not_copied);
	tcase_add_test(tc, put_area_that_is_full_or_too_small_is_said);
	tcase_add_test(tc, put_area_without_memory_is_enomem);
	tcase_add_test(tc, put_larger_than_its_class_is_efbig);
	tcase_add_test(tc, open_puts_of_a_client_are_bounded);
	suite_add_tcase(s, tc);
	srunner_run_all(sr, CK_ENV);
	failed = srunner_ntests_failed(sr);
	srunner_free(sr);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
