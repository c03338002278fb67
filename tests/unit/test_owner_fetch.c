// SPDX-License-Identifier: Apache-2.0
#include <check.h>
#include <stdlib.h>

#include "owner_driver.h"

#define SUM	77u

static void get_into(const char *key)
{
	struct fkv_call *call = owner_call(FLUXONKV_OP_GET, 1);

	call->flags = FLUXONKV_REQ_INTO;
	call->items[0].key = core_key_ref(key);
	owner_run(call);
}

/* A get of "k", version 9 of @len bytes on SSD: its READ was sent. */
static struct fkv_cmd reading(uint64_t len)
{
	owner_on_ssd("k", 9, len, SUM);
	owner_ask(FLUXONKV_OP_GET, "k");
	owner_plan(owner_asked("k"), FLUXONKV_SOURCE_SSD_LOCAL, 9, len, 3,
		   false);
	return core_take(FKV_CMD_READ);
}

static void done(uint64_t op, bool grant)
{
	owner_msg((struct fkv_msg){
		.type = FKV_MSG_GET_DONE_R,
		.op = op,
		.grant = grant,
	}, NULL);
}

/* G1, G8 */
START_TEST(local_entry_is_served_without_the_master)
{
	struct fluxonkv_result res;

	owner_put("k", 100, 5, 9);
	owner_ask(FLUXONKV_OP_GET, "k");
	res = owner_result(0);
	owner_pinned(PAGE);
	ck_assert_uint_eq(res.source, FLUXONKV_SOURCE_LOCAL);
	ck_assert_uint_eq(res.offset, 5 * PAGE);
	ck_assert_uint_eq(res.len, 100);
	ck_assert_uint_eq(res.version, 9);
	ck_assert_uint_eq(owner_stats().hits_local, 1);
}
END_TEST

/* G8 */
START_TEST(miss_says_that_it_is_one)
{
	owner_ask(FLUXONKV_OP_GET, "k");
	owner_refuse(FKV_MSG_GET_PLAN, owner_asked("k"), -ENOENT);
	ck_assert_uint_eq(owner_result(-ENOENT).source, FLUXONKV_SOURCE_MISS);
	ck_assert_uint_eq(owner_stats().misses, 1);
	ck_assert_uint_eq(owner_stats().fetches, 0);
}
END_TEST

/* G2 */
START_TEST(gets_of_one_absent_key_share_one_fetch)
{
	uint64_t op;

	owner_ask(FLUXONKV_OP_GET, "k");
	op = owner_asked("k");
	owner_client(8, UID, 0);
	owner_ask(FLUXONKV_OP_GET, "k");
	ck_assert(!core_has_msg(FKV_MSG_GET_START));
	owner_ask(FLUXONKV_OP_GET, "l");
	owner_refuse(FKV_MSG_GET_PLAN, owner_asked("l"), -ENOENT);
	owner_result(-ENOENT);
	owner_plan(op, FLUXONKV_SOURCE_LOCAL, 9, PAGE, 5, true);
	ck_assert_uint_eq(owner_result(0).offset, 5 * PAGE);
	ck_assert_uint_eq(owner_result(0).offset, 5 * PAGE);
	owner_pinned(PAGE);
	ck_assert_uint_eq(core_take(FKV_CMD_PUBLISH).entry->given, 1);
}
END_TEST

/* K6: a put may have ended between the question and this get's begin */
START_TEST(get_that_joined_later_does_not_take_an_earlier_miss)
{
	uint64_t op;

	owner_ask(FLUXONKV_OP_GET, "k");
	op = owner_asked("k");
	owner_ask(FLUXONKV_OP_GET, "k");
	owner_refuse(FKV_MSG_GET_PLAN, op, -ENOENT);
	owner_result(-ENOENT);
	ck_assert(!core_has(FKV_CMD_REPLY));
	owner_plan(owner_asked("k"), FLUXONKV_SOURCE_LOCAL, 9, PAGE, 5, true);
	ck_assert_uint_eq(owner_result(0).version, 9);
	core_take(FKV_CMD_PUBLISH);
	owner_pinned(PAGE);
	ck_assert_uint_eq(owner_stats().misses, 1);
}
END_TEST

/* P4: get_into may use more of the segment than a get that waits */
START_TEST(get_into_joins_no_fetch_that_waits_by_a_tighter_limit)
{
	struct fkv_msg msg;
	uint64_t get;

	owner_ask(FLUXONKV_OP_GET, "k");
	get = owner_asked("k");
	get_into("k");
	msg = core_take_msg(FKV_MSG_GET_START);
	ck_assert_uint_eq(msg.class, FKV_CLASS_INTO);
	/* the other way round one fetch does for both */
	owner_ask(FLUXONKV_OP_GET, "k");
	ck_assert(!core_has_msg(FKV_MSG_GET_START));
	owner_refuse(FKV_MSG_GET_PLAN, get, -ENOSPC);
	owner_refuse(FKV_MSG_GET_PLAN, msg.op, -ENOSPC);
	for (int i = 0; i < 3; i++)
		owner_result(-ENOSPC);
	ck_assert_uint_eq(owner_stats().get_errors, 3);
}
END_TEST

/* G2: a caller's deadline ends only its own wait */
START_TEST(fetch_outlives_its_first_caller)
{
	uint64_t op;

	owner_ask(FLUXONKV_OP_GET, "k");
	op = owner_asked("k");
	owner_tick(TIMEOUT / 2);
	owner_ask(FLUXONKV_OP_GET, "k");
	owner_tick(TIMEOUT / 2);
	owner_result(-ETIMEDOUT);
	owner_plan(op, FLUXONKV_SOURCE_LOCAL, 9, PAGE, 5, true);
	owner_result(0);
	core_take(FKV_CMD_PUBLISH);
	owner_pinned(PAGE);
}
END_TEST

/* G2: or its death; then nobody holds it, and it stays cached */
START_TEST(fetch_without_callers_still_publishes)
{
	uint64_t op;

	owner_ask(FLUXONKV_OP_GET, "k");
	op = owner_asked("k");
	owner_gone(CLIENT);
	owner_plan(op, FLUXONKV_SOURCE_LOCAL, 9, PAGE, 5, true);
	ck_assert(core_take(FKV_CMD_PUBLISH).entry->live);
	ck_assert_uint_eq(owner_stats().fetches, 0);
	ck_assert_uint_eq(owner_stats().entries, 1);
}
END_TEST

/* K3: no room and no time to wait for it */
START_TEST(get_without_room_at_deadline_0_is_eagain)
{
	struct fkv_call *call = owner_call(FLUXONKV_OP_GET, 1);
	uint64_t op;

	call->timeout_ns = 0;
	call->items[0].key = core_key_ref("k");
	owner_run(call);
	op = owner_asked("k");
	owner_ask(FLUXONKV_OP_GET, "k");
	owner_msg((struct fkv_msg){
		.type = FKV_MSG_GET_PLAN,
		.op = op,
		.res = -ENOSPC,
		.text = "no room",
	}, NULL);
	owner_result(-EAGAIN);
	ck_assert_str_eq(owner_reply().text, "no room");
	ck_assert_uint_eq(owner_stats().get_errors, 2);
}
END_TEST

/* G1, G7, S9 */
START_TEST(value_on_ssd_is_read_into_its_target)
{
	struct fkv_cmd read = reading(PAGE + 1);
	struct fluxonkv_result res;

	ck_assert_uint_eq(read.offset, 3 * PAGE);
	ck_assert_uint_eq(read.len, PAGE + 1);
	ck_assert_uint_eq(read.io.put_id, 9);
	ck_assert_uint_eq(read.io.sum, SUM);
	ck_assert_uint_eq(read.io.entry_len, 3 * PAGE);
	ck_assert(!read.io.warm);
	owner_io(read.token, 0, SUM);
	ck_assert_uint_eq(core_take_msg(FKV_MSG_GET_DONE).op, read.token);
	/* not before the master has said what becomes of it */
	ck_assert_uint_eq(core_left(), 0);
	done(read.token, true);
	res = owner_result(0);
	ck_assert_uint_eq(res.source, FLUXONKV_SOURCE_SSD_LOCAL);
	ck_assert_uint_eq(res.offset, 3 * PAGE);
	core_take(FKV_CMD_PUBLISH);
	owner_pinned(2 * PAGE);
	ck_assert_uint_eq(owner_stats().hits_ssd, 1);
	ck_assert_uint_eq(owner_stats().bytes_ssd_read, PAGE + 1);
}
END_TEST

/* S7, G6 */
START_TEST(wrong_checksum_drops_the_copy_and_asks_again)
{
	struct fkv_cmd read = reading(PAGE);
	struct fkv_msg msg;

	owner_io(read.token, 0, SUM + 1);
	msg = core_take_msg(FKV_MSG_SSD_LOST);
	ck_assert_uint_eq(msg.put_id, 9);
	msg = core_take_msg(FKV_MSG_GET_REVOKE);
	ck_assert_uint_eq(msg.op, read.token);
	ck_assert(msg.drop);
	ck_assert_uint_eq(owner_stats().sum_errors, 1);
	owner_refuse(FKV_MSG_GET_PLAN, owner_asked("k"), -ENOENT);
	owner_result(-ENOENT);
}
END_TEST

/* G6: an I/O that was only cancelled says nothing about the copy */
START_TEST(cancelled_read_keeps_the_copy)
{
	struct fkv_cmd read = reading(PAGE);

	owner_io(read.token, -ECANCELED, 0);
	ck_assert(!core_take_msg(FKV_MSG_GET_REVOKE).drop);
	ck_assert(!core_has_msg(FKV_MSG_SSD_LOST));
	owner_plan(owner_asked("k"), FLUXONKV_SOURCE_SSD_LOCAL, 9, PAGE, 4,
		   false);
	read = core_take(FKV_CMD_READ);
	owner_io(read.token, 0, SUM);
	core_take_msg(FKV_MSG_GET_DONE);
	done(read.token, false);
	owner_result(0);
	ck_assert_uint_eq(owner_stats().refetches, 1);
	ck_assert_uint_eq(owner_stats().read_errors, 0);
}
END_TEST

/* G6: three times in all, then EIO */
START_TEST(source_that_is_bad_three_times_is_eio)
{
	static const int bad[] = { -ENOENT, -ESTALE, -EBADMSG };

	for (int i = 0; i < 3; i++)
		owner_on_ssd("k", 10 + (uint64_t)i, PAGE, SUM);
	owner_ask(FLUXONKV_OP_GET, "k");
	for (int i = 0; i < 3; i++) {
		struct fkv_cmd read;

		owner_plan(owner_asked("k"), FLUXONKV_SOURCE_SSD_LOCAL, 12,
			   PAGE, 3, false);
		read = core_take(FKV_CMD_READ);
		owner_io(read.token, bad[i], 0);
		ck_assert(core_take_msg(FKV_MSG_GET_REVOKE).drop);
	}
	core_take_msg(FKV_MSG_SSD_LOST);
	ck_assert_ptr_nonnull(strstr(owner_reply().text, "SSD copy"));
	ck_assert_uint_eq(owner_stats().get_errors, 1);
	ck_assert_uint_eq(owner_stats().fetches, 0);
}
END_TEST

/* G6: the ring has lost it before the master knows */
START_TEST(version_that_the_ring_lost_is_asked_for_again)
{
	owner_ask(FLUXONKV_OP_GET, "k");
	owner_plan(owner_asked("k"), FLUXONKV_SOURCE_SSD_LOCAL, 9, PAGE, 3,
		   false);
	ck_assert(core_take_msg(FKV_MSG_GET_REVOKE).drop);
	owner_refuse(FKV_MSG_GET_PLAN, owner_asked("k"), -ENOENT);
	owner_result(-ENOENT);
}
END_TEST

/* S6: its bytes were taken while they were read */
START_TEST(read_that_was_overtaken_is_not_served)
{
	struct fkv_cmd read = reading(PAGE);

	fkv_ring_device_off(owner_ring, read.io.shard);
	owner_io(read.token, 0, SUM);
	ck_assert(core_take_msg(FKV_MSG_GET_REVOKE).drop);
	owner_refuse(FKV_MSG_GET_PLAN, owner_asked("k"), -ENOENT);
	owner_result(-ENOENT);
}
END_TEST

/* G2: its own limit; the I/O ends when it ends */
START_TEST(fetch_that_takes_10_s_is_given_up_and_cleans_up_later)
{
	struct fkv_call *call = owner_call(FLUXONKV_OP_GET, 1);
	struct fkv_cmd read;

	owner_on_ssd("k", 9, PAGE, SUM);
	call->items[0].key = core_key_ref("k");
	call->timeout_ns = 60 * FKV_SEC;
	owner_run(call);
	owner_plan(owner_asked("k"), FLUXONKV_SOURCE_SSD_LOCAL, 9, PAGE, 3,
		   false);
	read = core_take(FKV_CMD_READ);
	owner_tick(FKV_FETCH_MAX);
	ck_assert_ptr_nonnull(strstr(owner_reply().text, "10 s"));
	/* nobody joins it */
	owner_ask(FLUXONKV_OP_GET, "k");
	owner_refuse(FKV_MSG_GET_PLAN, owner_asked("k"), -ENOENT);
	owner_result(-ENOENT);
	owner_io(read.token, -EIO, 0);
	ck_assert(core_take_msg(FKV_MSG_GET_REVOKE).drop);
	core_take_msg(FKV_MSG_SSD_LOST);
	ck_assert(!core_has_msg(FKV_MSG_GET_START));
	ck_assert_uint_eq(owner_stats().fetches, 0);
}
END_TEST

/* K6d: what begins after RETIRED must not see the retired version */
START_TEST(get_after_a_retire_joins_no_fetch_of_before)
{
	struct fkv_cmd read = reading(PAGE);
	uint64_t planning, op;

	owner_ask(FLUXONKV_OP_GET, "l");
	planning = owner_asked("l");
	owner_retire("k", 9);
	owner_retire("l", 3);
	owner_ask(FLUXONKV_OP_GET, "k");
	op = owner_asked("k");
	owner_ask(FLUXONKV_OP_GET, "l");
	owner_refuse(FKV_MSG_GET_PLAN, owner_asked("l"), -ENOENT);
	owner_result(-ENOENT);
	owner_refuse(FKV_MSG_GET_PLAN, op, -ENOENT);
	owner_result(-ENOENT);
	owner_refuse(FKV_MSG_GET_PLAN, planning, -ENOENT);
	owner_result(-ENOENT);
	/* who asked before still gets it */
	owner_io(read.token, 0, SUM);
	core_take_msg(FKV_MSG_GET_DONE);
	done(read.token, false);
	owner_result(0);
}
END_TEST

/* K6d, G6: the master will not say when a version ends whose copy is no good */
START_TEST(get_joins_no_fetch_of_a_copy_that_another_found_bad)
{
	struct fkv_cmd bad, good;
	struct fkv_msg msg;
	uint64_t get;

	owner_on_ssd("k", 9, PAGE, SUM);
	owner_ask(FLUXONKV_OP_GET, "k");
	get = owner_asked("k");
	get_into("k");
	msg = core_take_msg(FKV_MSG_GET_START);
	owner_plan(get, FLUXONKV_SOURCE_SSD_LOCAL, 9, PAGE, 3, false);
	bad = core_take(FKV_CMD_READ);
	owner_plan(msg.op, FLUXONKV_SOURCE_SSD_LOCAL, 9, PAGE, 4, false);
	good = core_take(FKV_CMD_READ);
	owner_io(bad.token, -EIO, 0);
	core_take_msg(FKV_MSG_SSD_LOST);
	core_take_msg(FKV_MSG_GET_REVOKE);
	owner_refuse(FKV_MSG_GET_PLAN, owner_asked("k"), -ENOENT);
	owner_result(-ENOENT);
	/* the other one still reads it, but for nobody who comes now */
	owner_ask(FLUXONKV_OP_GET, "k");
	owner_refuse(FKV_MSG_GET_PLAN, owner_asked("k"), -ENOENT);
	owner_result(-ENOENT);
	owner_io(good.token, 0, SUM);
	core_take_msg(FKV_MSG_GET_DONE);
	done(good.token, false);
	ck_assert_uint_eq(owner_result(0).version, 9);
}
END_TEST

/* The same, where the copy cannot even be begun to be read */
START_TEST(get_joins_no_fetch_of_a_copy_that_another_could_not_pin)
{
	struct fkv_key *key = fkv_key_create("k", 1);
	struct fkv_ring_entry *e;
	struct fkv_cmd good;
	struct fkv_msg msg;
	uint64_t get;

	owner_on_ssd("k", 9, PAGE, SUM);
	owner_ask(FLUXONKV_OP_GET, "k");
	get = owner_asked("k");
	get_into("k");
	msg = core_take_msg(FKV_MSG_GET_START);
	owner_plan(msg.op, FLUXONKV_SOURCE_SSD_LOCAL, 9, PAGE, 4, false);
	good = core_take(FKV_CMD_READ);
	/* that shard's writer comes for its place: no new reads of it */
	ck_assert_int_eq(fkv_ring_read_pin(owner_ring, key, 9, &e), 0);
	e->closing = true;
	fkv_ring_read_unpin(owner_ring, e);
	fkv_key_put(key);
	owner_plan(get, FLUXONKV_SOURCE_SSD_LOCAL, 9, PAGE, 3, false);
	msg = core_take_msg(FKV_MSG_GET_REVOKE);
	ck_assert(msg.drop);
	owner_refuse(FKV_MSG_GET_PLAN, owner_asked("k"), -ENOENT);
	owner_result(-ENOENT);
	owner_ask(FLUXONKV_OP_GET, "k");
	owner_refuse(FKV_MSG_GET_PLAN, owner_asked("k"), -ENOENT);
	owner_result(-ENOENT);
	owner_io(good.token, 0, SUM);
	core_take_msg(FKV_MSG_GET_DONE);
	done(good.token, false);
	ck_assert_uint_eq(owner_result(0).version, 9);
}
END_TEST

/* K6d: by version and by key */
START_TEST(retire_of_an_older_version_lets_gets_join)
{
	struct fkv_cmd read = reading(PAGE);

	owner_retire("k", 8);
	owner_retire("l", 9);
	owner_ask(FLUXONKV_OP_GET, "k");
	ck_assert(!core_has_msg(FKV_MSG_GET_START));
	owner_io(read.token, 0, SUM);
	core_take_msg(FKV_MSG_GET_DONE);
	done(read.token, false);
	owner_result(0);
	owner_result(0);
}
END_TEST

static uint64_t warm(const char *key)
{
	struct fkv_call *call = owner_call(FLUXONKV_OP_STAT, 1);
	uint64_t op;

	call->flags = FLUXONKV_REQ_WARM;
	call->items[0].key = core_key_ref(key);
	owner_run(call);
	op = core_take_msg(FKV_MSG_STAT).op;
	owner_msg((struct fkv_msg){
		.type = FKV_MSG_STAT_R,
		.op = op,
		.source = FLUXONKV_ON_SSD,
	}, NULL);
	owner_result(0);
	return op;
}

/* K2 WARM, S10: for nobody, after those who wait */
START_TEST(warmed_key_is_read_for_nobody_and_stays)
{
	struct fkv_cmd read;

	owner_on_ssd("k", 9, PAGE, SUM);
	warm("k");
	owner_plan(owner_asked("k"), FLUXONKV_SOURCE_SSD_LOCAL, 9, PAGE, 3,
		   false);
	warm("k");
	read = core_take(FKV_CMD_READ);
	ck_assert(read.io.warm);
	ck_assert(!core_has_msg(FKV_MSG_GET_START));
	owner_io(read.token, 0, SUM);
	core_take_msg(FKV_MSG_GET_DONE);
	done(read.token, true);
	core_take(FKV_CMD_PUBLISH);
	warm("k");
	ck_assert_uint_eq(core_left(), 0);
	ck_assert_uint_eq(owner_stats().gets, 0);
}
END_TEST

START_TEST(fetch_without_memory_is_enomem)
{
	struct fkv_call *call = owner_call(FLUXONKV_OP_GET, 1);
	uint64_t op;

	call->items[0].key = core_key_ref("k");
	core_fail_alloc(1);
	owner_run(call);
	ck_assert(core_alloc_failed());
	owner_result(-ENOMEM);
	/* and what it brought goes back when there is no entry for it */
	owner_ask(FLUXONKV_OP_GET, "k");
	op = owner_asked("k");
	core_fail_alloc(1);
	owner_plan(op, FLUXONKV_SOURCE_LOCAL, 9, PAGE, 5, true);
	ck_assert(core_alloc_failed());
	owner_quiet(5, 1);
	owner_result(-ENOMEM);
	ck_assert_uint_eq(owner_stats().fetches, 0);
	ck_assert_uint_eq(owner_stats().entries, 0);
}
END_TEST

/* K2 WARM is best effort */
START_TEST(warming_without_memory_does_nothing)
{
	struct fkv_call *call = owner_call(FLUXONKV_OP_STAT, 1);
	uint64_t op;

	call->flags = FLUXONKV_REQ_WARM;
	call->items[0].key = core_key_ref("k");
	owner_run(call);
	op = core_take_msg(FKV_MSG_STAT).op;
	core_fail_alloc(1);
	owner_msg((struct fkv_msg){
		.type = FKV_MSG_STAT_R,
		.op = op,
		.source = FLUXONKV_ON_SSD,
	}, NULL);
	ck_assert(core_alloc_failed());
	owner_result(0);
	ck_assert_uint_eq(owner_stats().fetches, 0);
}
END_TEST

START_TEST(value_on_ssd_without_a_tier_is_a_bad_source)
{
	owner_teardown();
	owner_setup();
	owner_ask(FLUXONKV_OP_GET, "k");
	owner_plan(owner_asked("k"), FLUXONKV_SOURCE_SSD_LOCAL, 9, PAGE, 3,
		   false);
	ck_assert(core_take_msg(FKV_MSG_GET_REVOKE).drop);
	owner_refuse(FKV_MSG_GET_PLAN, owner_asked("k"), -ENOENT);
	owner_result(-ENOENT);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("owner fetch");
	TCase *tc = tcase_create("core");
	SRunner *sr = srunner_create(s);
	int failed;

	tcase_add_checked_fixture(tc, owner_setup_ssd, owner_teardown);
	tcase_add_test(tc, local_entry_is_served_without_the_master);
	tcase_add_test(tc, miss_says_that_it_is_one);
	tcase_add_test(tc, gets_of_one_absent_key_share_one_fetch);
	tcase_add_test(tc, get_that_joined_later_does_not_take_an_earlier_miss);
	tcase_add_test(tc,
		       get_into_joins_no_fetch_that_waits_by_a_tighter_limit);
	tcase_add_test(tc, fetch_outlives_its_first_caller);
	tcase_add_test(tc, fetch_without_callers_still_publishes);
	tcase_add_test(tc, get_without_room_at_deadline_0_is_eagain);
	tcase_add_test(tc, value_on_ssd_is_read_into_its_target);
	tcase_add_test(tc, wrong_checksum_drops_the_copy_and_asks_again);
	tcase_add_test(tc, cancelled_read_keeps_the_copy);
	tcase_add_test(tc, source_that_is_bad_three_times_is_eio);
	tcase_add_test(tc, version_that_the_ring_lost_is_asked_for_again);
	tcase_add_test(tc, read_that_was_overtaken_is_not_served);
	tcase_add_test(tc,
		       fetch_that_takes_10_s_is_given_up_and_cleans_up_later);
	tcase_add_test(tc, get_after_a_retire_joins_no_fetch_of_before);
	tcase_add_test(tc,
		       get_joins_no_fetch_of_a_copy_that_another_found_bad);
	tcase_add_test(tc,
		       get_joins_no_fetch_of_a_copy_that_another_could_not_pin);
	tcase_add_test(tc, retire_of_an_older_version_lets_gets_join);
	tcase_add_test(tc, warmed_key_is_read_for_nobody_and_stays);
	tcase_add_test(tc, fetch_without_memory_is_enomem);
	tcase_add_test(tc, warming_without_memory_does_nothing);
	tcase_add_test(tc, value_on_ssd_without_a_tier_is_a_bad_source);
	suite_add_tcase(s, tc);
	srunner_run_all(sr, CK_ENV);
	failed = srunner_ntests_failed(sr);
	srunner_free(sr);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
