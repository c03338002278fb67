// SPDX-License-Identifier: Apache-2.0
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "body.h"

static uint8_t body[4096];
static size_t body_size;

static void add(const void *p, size_t n)
{
	memcpy(body + body_size, p, n);
	body_size += n;
}

static struct fluxonkv_rep rep_of(uint16_t op, uint32_t nr)
{
	return (struct fluxonkv_rep){
		.size = sizeof(struct fluxonkv_rep),
		.op = op,
		.nr = nr,
		.item_size = sizeof(struct fluxonkv_result),
	};
}

static void begin(const struct fluxonkv_rep *rep)
{
	body_size = 0;
	add(rep, sizeof(*rep));
}

static int parse(struct fkv_reply *r, uint16_t op, uint32_t nr)
{
	ck_assert_int_eq(fkv_reply_take(r, body, body_size), 0);
	return fkv_reply_parse(r, op, nr);
}

static int parse_only(uint16_t op, uint32_t nr)
{
	struct fkv_reply r;
	int err = parse(&r, op, nr);

	fkv_reply_done(&r);
	return err;
}

START_TEST(request_has_padded_keys_and_a_stamped_frame)
{
	struct fluxonkv_req req = {
		.size = sizeof(req),
		.op = FLUXONKV_OP_GET,
		.nr = 2,
		.item_size = sizeof(struct fluxonkv_item),
	};
	struct fluxonkv_item item = { .key_len = 3 };
	struct fluxonkv_frame frame;
	struct fkv_msg msg;
	const uint8_t *key;

	ck_assert_int_eq(fkv_msg_init(&msg, &req, 8 + 16), 0);
	fkv_msg_add(&msg, &item, "abc");
	item.key_len = 9;
	fkv_msg_add(&msg, &item, "123456789");
	fkv_msg_stamp(&msg, 77, 5);
	ck_assert_uint_eq(msg.size, 16 + 32 + 2 * 32 + 8 + 16);
	memcpy(&frame, msg.data, sizeof(frame));
	ck_assert_uint_eq(frame.size, msg.size);
	ck_assert_uint_eq(frame.id, 77);
	key = msg.data + 16 + 32 + 32;
	ck_assert_mem_eq(key, "abc\0\0\0\0\0", 8);
	ck_assert_mem_eq(key + 8 + 32, "123456789\0\0\0\0\0\0\0", 16);
	memcpy(&req, msg.data + 16, sizeof(req));
	ck_assert_uint_eq(req.timeout_ns, 5);
	fkv_msg_done(&msg);
}
END_TEST

START_TEST(request_of_one_longest_key_needs_no_memory)
{
	struct fluxonkv_req req = { .size = sizeof(req), .nr = 1 };
	struct fkv_msg msg;

	ck_assert_int_eq(fkv_msg_init(&msg, &req, FLUXONKV_KEY_MAX), 0);
	ck_assert_ptr_eq(msg.data, msg.small);
	fkv_msg_done(&msg);
}
END_TEST

START_TEST(request_larger_than_a_frame_is_refused)
{
	struct fluxonkv_req req = { .size = sizeof(req), .nr = 1 };
	struct fkv_msg msg;

	ck_assert_int_eq(fkv_msg_init(&msg, &req, FLUXONKV_FRAME_MAX), -E2BIG);
}
END_TEST

START_TEST(reply_gives_its_results_and_its_text)
{
	struct fluxonkv_rep rep = rep_of(FLUXONKV_OP_GET, 2);
	struct fluxonkv_result res[2] = {
		{ .offset = 4096, .len = 7, .id = 9 },
		{ .status = -ENOENT },
	};
	struct fkv_reply r;

	rep.text_len = 5;
	begin(&rep);
	add(res, sizeof(res));
	add("hello", 5);
	ck_assert_int_eq(parse(&r, FLUXONKV_OP_GET, 2), 0);
	ck_assert_uint_eq(fkv_reply_result(&r, 0).offset, 4096);
	ck_assert_int_eq(fkv_reply_result(&r, 1).status, -ENOENT);
	ck_assert_int_eq(fkv_reply_fail(&r, "get", -ENOENT), -ENOENT);
	ck_assert_str_eq(fluxonkv_last_error(), "get: hello");
	fkv_reply_done(&r);
}
END_TEST

START_TEST(reply_with_larger_zero_padded_results_is_accepted)
{
	struct fluxonkv_rep rep = rep_of(FLUXONKV_OP_GET, 1);
	struct fluxonkv_result res = { .len = 7, .id = 9 };
	uint64_t more = 0;

	rep.item_size += 8;
	begin(&rep);
	add(&res, sizeof(res));
	add(&more, 8);
	ck_assert_int_eq(parse_only(FLUXONKV_OP_GET, 1), 0);
	body[body_size - 1] = 1;
	ck_assert_int_eq(parse_only(FLUXONKV_OP_GET, 1), -EPROTO);
}
END_TEST

START_TEST(reply_that_failed_as_a_whole_may_have_no_results)
{
	struct fluxonkv_rep rep = rep_of(FLUXONKV_OP_GET, 0);

	rep.status = -ENOMEM;
	begin(&rep);
	ck_assert_int_eq(parse_only(FLUXONKV_OP_GET, 3), 0);
	rep.status = 0;
	begin(&rep);
	ck_assert_int_eq(parse_only(FLUXONKV_OP_GET, 3), -EPROTO);
}
END_TEST

START_TEST(reply_that_is_cut_short_anywhere_is_eproto)
{
	struct fluxonkv_rep rep = rep_of(FLUXONKV_OP_GET, 2);
	struct fluxonkv_result res[2] = { { .id = 1 }, { .id = 2 } };
	size_t whole;

	begin(&rep);
	add(res, sizeof(res));
	whole = body_size;
	for (body_size = 0; body_size < whole; body_size++)
		ck_assert_int_eq(parse_only(FLUXONKV_OP_GET, 2), -EPROTO);
	ck_assert_int_eq(parse_only(FLUXONKV_OP_GET, 2), 0);
	body_size++;
	ck_assert_int_eq(parse_only(FLUXONKV_OP_GET, 2), -EPROTO);
}
END_TEST

START_TEST(reply_with_an_impossible_field_is_eproto)
{
	struct fluxonkv_rep good = rep_of(FLUXONKV_OP_GET, 1), bad[8];
	struct fluxonkv_result res = { .id = 1 };

	for (size_t i = 0; i < 8; i++)
		bad[i] = good;
	bad[0].size = 8;
	bad[1].size = 4000;
	bad[2].op = FLUXONKV_OP_STAT;
	bad[3].flags = 1;
	bad[4].status = 5;
	bad[5].text_len = UINT32_MAX;
	bad[6].nr = UINT32_MAX;
	bad[7].item_size = 8;
	for (size_t i = 0; i < 8; i++) {
		begin(&bad[i]);
		add(&res, sizeof(res));
		ck_assert_int_eq(parse_only(FLUXONKV_OP_GET, FKV_REPLY_ANY),
				 -EPROTO);
	}
}
END_TEST

START_TEST(status_that_is_no_errno_becomes_eproto)
{
	struct fluxonkv_rep rep = rep_of(FLUXONKV_OP_GET, 1);
	struct fluxonkv_result res = { .status = 17, .id = 1 };
	struct fkv_reply r;

	begin(&rep);
	add(&res, sizeof(res));
	ck_assert_int_eq(parse(&r, FLUXONKV_OP_GET, 1), 0);
	ck_assert_int_eq(fkv_reply_result(&r, 0).status, -EPROTO);
	fkv_reply_done(&r);
}
END_TEST

START_TEST(listed_keys_are_walked_and_checked)
{
	struct fluxonkv_rep rep = rep_of(FLUXONKV_OP_LIST, 2);
	struct fluxonkv_listed at = { .key_len = 3, .len = 11 };
	const void *key;
	struct fkv_reply r;
	size_t pos = 0;

	rep.item_size = sizeof(at);
	begin(&rep);
	add(&at, sizeof(at));
	add("abc\0\0\0\0\0", 8);
	at.key_len = 600;
	add(&at, sizeof(at));
	ck_assert_int_eq(parse(&r, FLUXONKV_OP_LIST, FKV_REPLY_ANY), 0);
	ck_assert_int_eq(fkv_reply_listed(&r, &pos, &at, &key), 0);
	ck_assert_mem_eq(key, "abc", 3);
	ck_assert_uint_eq(at.len, 11);
	ck_assert_int_eq(fkv_reply_listed(&r, &pos, &at, &key), -EPROTO);
	fkv_reply_done(&r);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("lib_body");
	TCase *tc = tcase_create("body");
	SRunner *sr = srunner_create(s);
	int failed;

	tcase_add_test(tc, request_has_padded_keys_and_a_stamped_frame);
	tcase_add_test(tc, request_of_one_longest_key_needs_no_memory);
	tcase_add_test(tc, request_larger_than_a_frame_is_refused);
	tcase_add_test(tc, reply_gives_its_results_and_its_text);
	tcase_add_test(tc, reply_with_larger_zero_padded_results_is_accepted);
	tcase_add_test(tc, reply_that_failed_as_a_whole_may_have_no_results);
	tcase_add_test(tc, reply_that_is_cut_short_anywhere_is_eproto);
	tcase_add_test(tc, reply_with_an_impossible_field_is_eproto);
	tcase_add_test(tc, status_that_is_no_errno_becomes_eproto);
	tcase_add_test(tc, listed_keys_are_walked_and_checked);
	suite_add_tcase(s, tc);
	srunner_run_all(sr, CK_NORMAL);
	failed = srunner_ntests_failed(sr);
	srunner_free(sr);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
