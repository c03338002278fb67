// SPDX-License-Identifier: Apache-2.0
#include <check.h>

#include "fake.h"

#define ITEM_MAX	4096u		/* bytes of an item's struct */
#define LEN_MAX		(1ULL << 40)

static u8 buf[65536];
static size_t len;
static struct fluxonkv_req got;
static struct fkv_cursor at;

static struct fluxonkv_req *request(u16 op)
{
	struct fluxonkv_req req = {
		.size = sizeof(req),
		.op = op,
		.item_size = sizeof(struct fluxonkv_item),
		.timeout_ns = 5,
	};

	memset(buf, 0, sizeof(buf));
	memcpy(buf, &req, sizeof(req));
	len = sizeof(req);
	return (void *)buf;
}

static struct fluxonkv_item *item(u32 key_len)
{
	struct fluxonkv_item *it = (void *)(buf + len);

	it->key_len = key_len;
	memset(it + 1, 'k', key_len);
	len += fkv_item_room(key_len);
	((struct fluxonkv_req *)buf)->nr++;
	return it;
}

/* In memory of just that size, so that a sanitizer sees the byte behind it. */
static int open_body(void)
{
	u8 *body = malloc(len + !len);
	int err;

	memcpy(body, buf, len);
	err = fkv_body_open(body, len, &got, &at);
	free(body);
	return err;
}

/* What becomes of the first item of buf. */
static int next(int *ret_status)
{
	struct fluxonkv_item it;
	const void *key;
	int err;

	ck_assert_int_eq(fkv_body_open(buf, len, &got, &at), 0);
	*ret_status = 1;
	err = fkv_body_next(&at, &it, &key, ret_status);
	if (!err)
		ck_assert(key > (void *)buf && key <= (void *)(buf + len));
	return err;
}

static int status_of_item(void)
{
	int status;

	ck_assert_int_eq(next(&status), 0);
	ck_assert_uint_eq(at.left, 0);
	return status;
}

static int err_of_item(void)
{
	int status;

	return next(&status);
}

/* A good item of @op: 0 but for what is then changed. */
static struct fluxonkv_item *one(u16 op)
{
	bool key = op == FLUXONKV_OP_GET || op == FLUXONKV_OP_PUT ||
		   op == FLUXONKV_OP_PUT_BEGIN;

	request(op);
	return item(key ? 5 : 0);
}

static const u16 known[] = {
	FLUXONKV_OP_GET, FLUXONKV_OP_RELEASE, FLUXONKV_OP_PUT_BEGIN,
	FLUXONKV_OP_PUT_COMMIT, FLUXONKV_OP_PUT_ABORT, FLUXONKV_OP_PUT,
};

#define NR_KNOWN	(sizeof(known) / sizeof(known[0]))

/* ---- the header ---- */

/* U6 */
START_TEST(known_ops_are_those_of_the_kernel)
{
	u32 n = 0;

	for (u32 op = 0; op <= UINT16_MAX; op++)
		n += fkv_op_known((u16)op);
	ck_assert_uint_eq(n, NR_KNOWN);
	for (u32 i = 0; i < NR_KNOWN; i++)
		ck_assert(fkv_op_known(known[i]));
}
END_TEST

START_TEST(body_that_ends_early_is_too_short)
{
	one(FLUXONKV_OP_GET);
	for (size_t n = 0; n < sizeof(struct fluxonkv_req); n++) {
		len = n;
		ck_assert_int_eq(open_body(), -EMSGSIZE);
	}
	request(FLUXONKV_OP_GET)->size = sizeof(struct fluxonkv_req) + 1;
	item(5);
	len = sizeof(struct fluxonkv_req);
	ck_assert_int_eq(open_body(), -EMSGSIZE);
}
END_TEST

START_TEST(larger_header_is_taken_while_it_says_nothing)
{
	struct fluxonkv_req *req = request(FLUXONKV_OP_RELEASE);

	req->nr = 1;
	req->size += 16;
	len += 16 + sizeof(struct fluxonkv_item);
	ck_assert_int_eq(open_body(), 0);
	ck_assert_int_eq(status_of_item(), 0);
	buf[sizeof(*req) + 15] = 1;
	ck_assert_int_eq(open_body(), -E2BIG);
	req->size = sizeof(*req) - 1;
	ck_assert_int_eq(open_body(), -EINVAL);
	req->size = UINT32_MAX;
	ck_assert_int_eq(open_body(), -EMSGSIZE);
}
END_TEST

/* U6 */
START_TEST(op_that_is_unknown_is_not_supported)
{
	for (u32 op = 0; op <= UINT16_MAX; op++) {
		bool served = op >= FLUXONKV_OP_GET && op <= FLUXONKV_OP_PUT;

		request((u16)op);
		item(0);
		ck_assert_int_eq(open_body(), served ? 0 : -EOPNOTSUPP);
	}
}
END_TEST

START_TEST(header_fields_have_limits)
{
	struct fluxonkv_req *req = request(FLUXONKV_OP_GET);

	ck_assert_int_eq(open_body(), -EINVAL);	/* no items */
	req->nr = FLUXONKV_BATCH_MAX;
	ck_assert_int_eq(open_body(), 0);
	req->nr++;
	ck_assert_int_eq(open_body(), -E2BIG);
	req->nr = 1;
	req->item_size = ITEM_MAX;
	ck_assert_int_eq(open_body(), 0);
	req->item_size += 8;
	ck_assert_int_eq(open_body(), -EINVAL);
	req->item_size = UINT32_MAX - 7;
	ck_assert_int_eq(open_body(), -EINVAL);
	req->item_size = sizeof(struct fluxonkv_item);
	req->arg = 1ULL << 63;
	ck_assert_int_eq(open_body(), -EINVAL);
}
END_TEST

/* The daemon checks its own: here they only have to be read. */
START_TEST(opaque_op_has_any_flags_and_argument)
{
	struct fluxonkv_req *req = request(FLUXONKV_OP_LIST);

	req->flags = 0xffff;
	req->arg = 7;
	req->item_size = UINT32_MAX;
	ck_assert_int_eq(open_body(), 0);
	req->nr = FLUXONKV_BATCH_MAX + 1;
	ck_assert_int_eq(open_body(), -E2BIG);
}
END_TEST

/* Keys are compared by 8 bytes: all that lies before them is of 8. */
START_TEST(structs_of_a_known_op_are_multiples_of_8)
{
	for (u32 add = 1; add <= 16; add++) {
		struct fluxonkv_req *req = request(FLUXONKV_OP_GET);
		int err = add % 8 ? -EINVAL : 0;

		req->nr = 1;
		req->item_size += add;
		ck_assert_int_eq(open_body(), err);
		req->item_size -= add;
		req->size += add;
		len += add;
		ck_assert_int_eq(open_body(), err);
		req->op = FLUXONKV_OP_STAT;
		ck_assert_int_eq(open_body(), 0);
	}
}
END_TEST

START_TEST(only_get_has_a_flag)
{
	for (u32 i = 0; i < NR_KNOWN; i++) {
		for (u32 bit = 0; bit < 16; bit++) {
			bool good = known[i] == FLUXONKV_OP_GET &&
				    1 << bit == FLUXONKV_REQ_INTO;

			one(known[i]);
			((struct fluxonkv_req *)buf)->flags = (u16)(1 << bit);
			ck_assert_int_eq(open_body(), good ? 0 : -EINVAL);
		}
	}
}
END_TEST

/* ---- items ---- */

START_TEST(item_that_ends_early_is_too_short)
{
	size_t whole;

	one(FLUXONKV_OP_GET);
	whole = len;
	for (len = sizeof(struct fluxonkv_req); len < whole; len++)
		ck_assert_int_eq(err_of_item(), -EMSGSIZE);
	ck_assert_int_eq(status_of_item(), 0);
	one(FLUXONKV_OP_GET)->key_len = UINT32_MAX;
	ck_assert_int_eq(err_of_item(), -EMSGSIZE);
}
END_TEST

START_TEST(larger_item_is_taken_while_it_says_nothing)
{
	struct fluxonkv_req *req = request(FLUXONKV_OP_RELEASE);

	req->nr = 1;
	req->item_size = ITEM_MAX;
	len += ITEM_MAX;
	ck_assert_int_eq(status_of_item(), 0);
	buf[len - 1] = 1;
	ck_assert_int_eq(err_of_item(), -E2BIG);
	req->item_size = sizeof(struct fluxonkv_item) - 8;
	ck_assert_int_eq(err_of_item(), -EINVAL);
	req->item_size = 0;
	ck_assert_int_eq(err_of_item(), -EINVAL);
}
END_TEST

START_TEST(padding_is_zero)
{
	for (u32 n = 1; n < 17; n++) {
		request(FLUXONKV_OP_GET);
		item(n);
		ck_assert_int_eq(status_of_item(), 0);
		if (n % 8 == 0)
			continue;
		buf[len - 1] = 1;
		ck_assert_int_eq(err_of_item(), -EINVAL);
	}
}
END_TEST

/* K1 */
START_TEST(key_has_1_to_512_bytes_where_there_is_one)
{
	request(FLUXONKV_OP_GET);
	item(FLUXONKV_KEY_MAX);
	ck_assert_int_eq(status_of_item(), 0);
	request(FLUXONKV_OP_GET);
	item(FLUXONKV_KEY_MAX + 1);
	ck_assert_int_eq(status_of_item(), -E2BIG);
	for (u32 i = 0; i < NR_KNOWN; i++) {
		u32 other = one(known[i])->key_len ? 0 : 5;

		request(known[i]);
		item(other);
		ck_assert_int_eq(status_of_item(), -EINVAL);
	}
}
END_TEST

/* U6 */
START_TEST(item_flags_are_those_of_the_op)
{
	static const u32 puts = FLUXONKV_PUT_EXCL | FLUXONKV_PUT_NOWAIT |
				FLUXONKV_PUT_MEMORY;

	for (u32 i = 0; i < NR_KNOWN; i++) {
		u32 good = 0;

		if (known[i] == FLUXONKV_OP_PUT ||
		    known[i] == FLUXONKV_OP_PUT_BEGIN)
			good = puts;
		if (known[i] == FLUXONKV_OP_PUT_COMMIT)
			good = FLUXONKV_COMMIT_HOLD;
		for (u32 bit = 0; bit < 32; bit++) {
			one(known[i])->flags = 1u << bit;
			ck_assert_int_eq(status_of_item(),
					 good & 1u << bit ? 0 : -EINVAL);
		}
	}
}
END_TEST

/* K1 */
START_TEST(only_a_put_has_a_length)
{
	for (u32 i = 0; i < NR_KNOWN; i++) {
		bool put = known[i] == FLUXONKV_OP_PUT ||
			   known[i] == FLUXONKV_OP_PUT_BEGIN;

		one(known[i])->len = LEN_MAX;
		ck_assert_int_eq(status_of_item(), put ? 0 : -EINVAL);
		one(known[i])->len = LEN_MAX + 1;
		ck_assert_int_eq(status_of_item(), put ? -EFBIG : -EINVAL);
	}
}
END_TEST

START_TEST(only_what_has_no_key_has_an_id)
{
	for (u32 i = 0; i < NR_KNOWN; i++) {
		bool id = known[i] != FLUXONKV_OP_GET &&
			  known[i] != FLUXONKV_OP_PUT_BEGIN;

		one(known[i])->id = 1ULL << 63;
		ck_assert_int_eq(status_of_item(), id ? 0 : -EINVAL);
		one(known[i])->zero = 1;
		ck_assert_int_eq(status_of_item(), -EINVAL);
	}
}
END_TEST

START_TEST(wrong_item_does_not_hide_the_next)
{
	struct fluxonkv_item it;
	const void *key;
	int status;

	request(FLUXONKV_OP_GET);
	item(9)->zero = 1;
	item(3);
	ck_assert_int_eq(open_body(), 0);
	ck_assert_int_eq(fkv_body_open(buf, len, &got, &at), 0);
	ck_assert_int_eq(fkv_body_next(&at, &it, &key, &status), 0);
	ck_assert_int_eq(status, -EINVAL);
	ck_assert_int_eq(fkv_body_next(&at, &it, &key, &status), 0);
	ck_assert_int_eq(status, 0);
	ck_assert_uint_eq(it.key_len, 3);
	ck_assert(!memcmp(key, "kkk", 3));
	ck_assert_int_eq(fkv_body_next(&at, &it, &key, &status), -EMSGSIZE);
}
END_TEST

/*
 * The faster way to the keys of a GET, in memory of just that size. Tens of
 * thousands of times: ck_assert() writes to a file each time.
 */
static void check_key_is_the_same(void)
{
	struct fkv_cursor c, before;
	const void *key = NULL;
	struct fluxonkv_item it;
	u8 *body = malloc(len);
	int status = 1, err;
	size_t room;

	memcpy(body, buf, len);
	if (!fkv_body_open(body, len, &got, &c)) {
		before = c;
		room = fkv_body_plain(&c);
		err = fkv_body_next(&c, &it, &key, &status);
		shim_assert(!room == (err || status ||
				      before.item_size != sizeof(it)));
		shim_assert(!room || c.at == before.at + room);
		shim_assert(!room || c.left == before.left - room);
		shim_assert(!room || key == before.at + sizeof(it));
		shim_assert(!room || room == fkv_item_room(it.key_len));
	}
	free(body);
}

/* U4, U6 */
START_TEST(fast_way_to_a_key_checks_the_same)
{
	for (u32 n = 0; n <= FLUXONKV_KEY_MAX + 8; n += n < 24 ? 1 : 61) {
		size_t whole;

		request(FLUXONKV_OP_GET);
		item(n);
		whole = len;
		for (len = sizeof(struct fluxonkv_req); len <= whole; len++)
			check_key_is_the_same();
		len = whole;
		/* each bit of the item and of what is behind the key */
		for (size_t i = sizeof(struct fluxonkv_req); i < len; i++) {
			for (u32 bit = 0; bit < 8; bit++) {
				buf[i] ^= (u8)(1 << bit);
				check_key_is_the_same();
				buf[i] ^= (u8)(1 << bit);
			}
		}
	}
	request(FLUXONKV_OP_GET)->item_size += 8;
	((struct fluxonkv_req *)buf)->nr = 1;
	memset(buf + len, 0, 64);
	buf[len] = 3;
	len += sizeof(struct fluxonkv_item) + 16;
	check_key_is_the_same();
	ck_assert_int_eq(status_of_item(), 0);
}
END_TEST

/* ---- replies ---- */

static struct fluxonkv_rep *reply(u16 op, u32 nr, u32 text_len)
{
	struct fluxonkv_rep rep = {
		.size = sizeof(rep),
		.op = op,
		.nr = nr,
		.item_size = sizeof(struct fluxonkv_result),
		.text_len = text_len,
	};

	memset(buf, 0, sizeof(buf));
	memcpy(buf, &rep, sizeof(rep));
	len = sizeof(rep) + nr * sizeof(struct fluxonkv_result) + text_len;
	return (void *)buf;
}

static int open_reply(u16 op)
{
	u8 *body = malloc(len + !len);
	struct fluxonkv_rep rep;
	int err;

	memcpy(body, buf, len);
	err = fkv_reply_open(body, len, op, &rep);
	free(body);
	return err;
}

/* U6 */
START_TEST(reply_is_as_long_as_it_says)
{
	size_t whole;

	reply(FLUXONKV_OP_GET, 3, 5);
	whole = len;
	for (len = 0; len < whole; len++)
		ck_assert_int_eq(open_reply(FLUXONKV_OP_GET), -EINVAL);
	ck_assert_int_eq(open_reply(FLUXONKV_OP_GET), 0);
	len++;
	ck_assert_int_eq(open_reply(FLUXONKV_OP_GET), -EINVAL);
	reply(FLUXONKV_OP_GET, 1, 0)->text_len = UINT32_MAX;
	ck_assert_int_eq(open_reply(FLUXONKV_OP_GET), -EINVAL);
	/* what wraps a sum of 32 bits */
	reply(FLUXONKV_OP_GET, 1, 0)->text_len =
		-(u32)sizeof(struct fluxonkv_result);
	len = sizeof(struct fluxonkv_rep);
	ck_assert_int_eq(open_reply(FLUXONKV_OP_GET), -EINVAL);
}
END_TEST

START_TEST(reply_fields_have_limits)
{
	struct fluxonkv_rep *rep = reply(FLUXONKV_OP_GET, 1, 0);

	ck_assert_int_eq(open_reply(FLUXONKV_OP_PUT_BEGIN), -EINVAL);
	rep->flags = 1;
	ck_assert_int_eq(open_reply(FLUXONKV_OP_GET), -EINVAL);
	rep = reply(FLUXONKV_OP_GET, 1, 0);
	rep->status = -EIO;
	ck_assert_int_eq(open_reply(FLUXONKV_OP_GET), 0);
	rep->status = 1;
	ck_assert_int_eq(open_reply(FLUXONKV_OP_GET), -EINVAL);
	rep = reply(FLUXONKV_OP_GET, FLUXONKV_BATCH_MAX, 0);
	ck_assert_int_eq(open_reply(FLUXONKV_OP_GET), 0);
	rep->nr++;
	len += rep->item_size;
	ck_assert_int_eq(open_reply(FLUXONKV_OP_GET), -EINVAL);
	rep = reply(FLUXONKV_OP_GET, 1, 0);
	rep->item_size--;
	len--;
	ck_assert_int_eq(open_reply(FLUXONKV_OP_GET), -EINVAL);
	rep = reply(FLUXONKV_OP_GET, 1, 0);
	rep->item_size = ITEM_MAX;
	len = sizeof(*rep) + ITEM_MAX;
	ck_assert_int_eq(open_reply(FLUXONKV_OP_GET), 0);
	rep->item_size++;
	len++;
	ck_assert_int_eq(open_reply(FLUXONKV_OP_GET), -EINVAL);
}
END_TEST

START_TEST(larger_reply_is_taken_while_it_says_nothing)
{
	struct fluxonkv_rep *rep = reply(FLUXONKV_OP_GET, 0, 0);

	rep->size += 8;
	len += 8;
	ck_assert_int_eq(open_reply(FLUXONKV_OP_GET), 0);
	buf[len - 1] = 1;
	ck_assert_int_eq(open_reply(FLUXONKV_OP_GET), -EINVAL);
	buf[len - 1] = 0;
	rep->size = sizeof(*rep) - 1;
	ck_assert_int_eq(open_reply(FLUXONKV_OP_GET), -EINVAL);
	rep->size = (u32)len + 1;
	ck_assert_int_eq(open_reply(FLUXONKV_OP_GET), -EINVAL);
}
END_TEST

START_TEST(opaque_reply_is_only_opened)
{
	reply(FLUXONKV_OP_LIST, 7, 0)->item_size = 1;
	len = sizeof(struct fluxonkv_rep) + 3;
	ck_assert_int_eq(open_reply(FLUXONKV_OP_LIST), 0);
}
END_TEST

START_TEST(result_is_found_by_its_number)
{
	struct fluxonkv_rep *rep = reply(FLUXONKV_OP_GET, 2, 0), opened;
	struct fluxonkv_result res = { .status = -ENOENT, .len = 7, .id = 9 };

	rep->item_size += 8;
	len += 16;
	memcpy(buf + sizeof(*rep) + rep->item_size, &res, sizeof(res));
	ck_assert_int_eq(fkv_reply_open(buf, len, FLUXONKV_OP_GET, &opened),
			 0);
	fkv_reply_at(buf, &opened, 0, &res);
	ck_assert(!res.status && !res.len && !res.id);
	fkv_reply_at(buf, &opened, 1, &res);
	ck_assert(res.status == -ENOENT && res.len == 7 && res.id == 9);
	res.status = 5;
	memcpy(buf + sizeof(*rep), &res, sizeof(res));
	fkv_reply_at(buf, &opened, 0, &res);
	ck_assert_int_eq(res.status, -EPROTO);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("kmod_body");
	TCase *tc = tcase_create("body");
	SRunner *sr;
	int failed;

	tcase_add_test(tc, known_ops_are_those_of_the_kernel);
	tcase_add_test(tc, body_that_ends_early_is_too_short);
	tcase_add_test(tc, larger_header_is_taken_while_it_says_nothing);
	tcase_add_test(tc, op_that_is_unknown_is_not_supported);
	tcase_add_test(tc, header_fields_have_limits);
	tcase_add_test(tc, opaque_op_has_any_flags_and_argument);
	tcase_add_test(tc, structs_of_a_known_op_are_multiples_of_8);
	tcase_add_test(tc, only_get_has_a_flag);
	tcase_add_test(tc, item_that_ends_early_is_too_short);
	tcase_add_test(tc, larger_item_is_taken_while_it_says_nothing);
	tcase_add_test(tc, padding_is_zero);
	tcase_add_test(tc, key_has_1_to_512_bytes_where_there_is_one);
	tcase_add_test(tc, item_flags_are_those_of_the_op);
	tcase_add_test(tc, only_a_put_has_a_length);
	tcase_add_test(tc, only_what_has_no_key_has_an_id);
	tcase_add_test(tc, wrong_item_does_not_hide_the_next);
	tcase_add_test(tc, fast_way_to_a_key_checks_the_same);
	tcase_add_test(tc, reply_is_as_long_as_it_says);
	tcase_add_test(tc, reply_fields_have_limits);
	tcase_add_test(tc, larger_reply_is_taken_while_it_says_nothing);
	tcase_add_test(tc, opaque_reply_is_only_opened);
	tcase_add_test(tc, result_is_found_by_its_number);
	suite_add_tcase(s, tc);
	sr = srunner_create(s);
	srunner_run_all(sr, CK_NORMAL);
	failed = srunner_ntests_failed(sr);
	srunner_free(sr);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
