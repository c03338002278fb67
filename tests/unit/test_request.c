// SPDX-License-Identifier: Apache-2.0
/*
 * The bytes of a request and of a reply: what is refused, with which errno,
 * and that no malformed body reads behind its end. Bodies are copied into
 * blocks of exactly their size, so that a sanitizer sees one byte too many.
 */
#include <check.h>
#include <stdlib.h>

#include "wire/request.h"

/* The layout is an ABI: a change here breaks clients in the field. */
_Static_assert(sizeof(struct fluxonkv_frame) == 16, "frame");
_Static_assert(offsetof(struct fluxonkv_frame, id) == 8, "frame.id");
_Static_assert(sizeof(struct fluxonkv_req) == 32, "req");
_Static_assert(offsetof(struct fluxonkv_req, op) == 4, "req.op");
_Static_assert(offsetof(struct fluxonkv_req, flags) == 6, "req.flags");
_Static_assert(offsetof(struct fluxonkv_req, nr) == 8, "req.nr");
_Static_assert(offsetof(struct fluxonkv_req, item_size) == 12, "req.isize");
_Static_assert(offsetof(struct fluxonkv_req, timeout_ns) == 16, "req.time");
_Static_assert(offsetof(struct fluxonkv_req, arg) == 24, "req.arg");
_Static_assert(sizeof(struct fluxonkv_item) == 32, "item");
_Static_assert(offsetof(struct fluxonkv_item, flags) == 4, "item.flags");
_Static_assert(offsetof(struct fluxonkv_item, len) == 8, "item.len");
_Static_assert(offsetof(struct fluxonkv_item, id) == 16, "item.id");
_Static_assert(offsetof(struct fluxonkv_item, zero) == 24, "item.zero");
_Static_assert(sizeof(struct fluxonkv_rep) == 32, "rep");
_Static_assert(offsetof(struct fluxonkv_rep, op) == 4, "rep.op");
_Static_assert(offsetof(struct fluxonkv_rep, nr) == 8, "rep.nr");
_Static_assert(offsetof(struct fluxonkv_rep, item_size) == 12, "rep.isize");
_Static_assert(offsetof(struct fluxonkv_rep, status) == 16, "rep.status");
_Static_assert(offsetof(struct fluxonkv_rep, text_len) == 20, "rep.text");
_Static_assert(offsetof(struct fluxonkv_rep, arg) == 24, "rep.arg");
_Static_assert(sizeof(struct fluxonkv_result) == 40, "result");
_Static_assert(offsetof(struct fluxonkv_result, source) == 4, "res.source");
_Static_assert(offsetof(struct fluxonkv_result, offset) == 8, "res.offset");
_Static_assert(offsetof(struct fluxonkv_result, len) == 16, "res.len");
_Static_assert(offsetof(struct fluxonkv_result, version) == 24, "res.vers");
_Static_assert(offsetof(struct fluxonkv_result, id) == 32, "res.id");
_Static_assert(sizeof(struct fluxonkv_listed) == 24, "listed");
_Static_assert(offsetof(struct fluxonkv_listed, where) == 4, "listed.where");
_Static_assert(offsetof(struct fluxonkv_listed, len) == 8, "listed.len");
_Static_assert(offsetof(struct fluxonkv_listed, version) == 16, "listed.ver");
_Static_assert(sizeof(struct fluxonkv_hello) == 64, "hello");
_Static_assert(offsetof(struct fluxonkv_hello, incarnation) == 8, "hello.inc");
_Static_assert(offsetof(struct fluxonkv_hello, client_cap_bytes) == 56,
	       "hello.cap");

#define BODY_MAX	(1024u * 1024u)

static uint8_t body[BODY_MAX];
static size_t size;

/* A request of @op with no items yet. */
static struct fluxonkv_req *begin(uint16_t op)
{
	struct fluxonkv_req *req = (struct fluxonkv_req *)body;

	memset(body, 0, sizeof(body));
	req->size = sizeof(*req);
	req->op = op;
	req->item_size = sizeof(struct fluxonkv_item);
	size = sizeof(*req);
	return req;
}

/* One more item with @key; may be changed until the next. */
static struct fluxonkv_item *add_len(const char *key, size_t key_len)
{
	struct fluxonkv_item *it = (struct fluxonkv_item *)(body + size);

	((struct fluxonkv_req *)body)->nr++;
	it->key_len = (uint32_t)key_len;
	size += sizeof(*it);
	memcpy(body + size, key, key_len);
	size += fkv_align_up(key_len, 8);
	return it;
}

static struct fluxonkv_item *add(const char *key)
{
	return add_len(key, strlen(key));
}

static int decode(size_t n, struct fkv_call **ret)
{
	const char *why = NULL;
	void *exact = malloc(n ? n : 1);
	int err;

	memcpy(exact, body, n);
	*ret = NULL;
	err = fkv_call_decode(exact, n, ret, &why);
	free(exact);
	if (err) {
		ck_assert_ptr_nonnull(why);
		ck_assert_ptr_null(*ret);
	}
	return err;
}

static int refused(void)
{
	struct fkv_call *call;
	int err = decode(size, &call);

	fkv_call_free(call);
	return err;
}

/* Status of item 0 of what is decoded. */
static int item_status(void)
{
	struct fkv_call *call;
	int status;

	ck_assert_int_eq(decode(size, &call), 0);
	status = call->items[0].done ? call->items[0].res.status : 0;
	ck_assert_int_eq(call->items[0].done, status != 0);
	ck_assert_uint_eq(call->pending, call->nr - call->items[0].done);
	fkv_call_free(call);
	return status;
}

START_TEST(request_decodes_every_field)
{
	struct fluxonkv_req *req = begin(FLUXONKV_OP_PUT_BEGIN);
	struct fluxonkv_item *it;
	struct fkv_call *call;

	req->timeout_ns = 77;
	req->arg = 5;
	it = add("alpha");
	it->len = 123;
	it->flags = FLUXONKV_PUT_EXCL | FLUXONKV_PUT_MEMORY;
	it = add("12345678");
	it->len = FKV_VALUE_MAX;
	ck_assert_int_eq(decode(size, &call), 0);
	ck_assert_uint_eq(call->op, FLUXONKV_OP_PUT_BEGIN);
	ck_assert_uint_eq(call->nr, 2);
	ck_assert_uint_eq(call->pending, 2);
	ck_assert_uint_eq(call->timeout_ns, 77);
	ck_assert_uint_eq(call->arg, 5);
	ck_assert_uint_eq(call->items[0].key->len, 5);
	ck_assert_mem_eq(call->items[0].key->data, "alpha", 5);
	ck_assert_uint_eq(call->items[0].len, 123);
	ck_assert_uint_eq(call->items[0].flags,
			  FLUXONKV_PUT_EXCL | FLUXONKV_PUT_MEMORY);
	ck_assert_uint_eq(call->items[1].key->len, 8);
	ck_assert_uint_eq(call->items[1].len, FKV_VALUE_MAX);
	ck_assert_ptr_eq(call->items[1].call, call);
	fkv_call_free(call);
}
END_TEST

START_TEST(request_cut_at_every_byte_is_emsgsize)
{
	struct fkv_call *call;

	begin(FLUXONKV_OP_GET);
	add("a");
	add("12345678");
	add("a longer key of 26 letters");
	ck_assert_int_eq(decode(size, &call), 0);
	fkv_call_free(call);
	for (size_t n = 0; n < size; n++)
		ck_assert_msg(decode(n, &call) == -EMSGSIZE, "cut at %zu", n);
}
END_TEST

START_TEST(request_with_bytes_behind_is_emsgsize)
{
	begin(FLUXONKV_OP_GET);
	add("a");
	size += 8;
	ck_assert_int_eq(refused(), -EMSGSIZE);
	size -= 7;
	ck_assert_int_eq(refused(), -EMSGSIZE);
}
END_TEST

START_TEST(unknown_op_is_eopnotsupp)
{
	static const uint16_t ops[] = { 0, 13, 255, 65535 };

	for (size_t i = 0; i < FKV_ARRAY_SIZE(ops); i++) {
		begin(ops[i]);
		ck_assert_int_eq(refused(), -EOPNOTSUPP);
	}
}
END_TEST

START_TEST(smaller_struct_is_einval)
{
	begin(FLUXONKV_OP_HELLO)->size = sizeof(struct fluxonkv_req) - 1;
	ck_assert_int_eq(refused(), -EINVAL);
	begin(FLUXONKV_OP_HELLO)->size = 0;
	ck_assert_int_eq(refused(), -EINVAL);
	begin(FLUXONKV_OP_GET)->item_size = sizeof(struct fluxonkv_item) - 8;
	add("a");
	ck_assert_int_eq(refused(), -EINVAL);
	begin(FLUXONKV_OP_GET)->item_size = 0;
	add("a");
	ck_assert_int_eq(refused(), -EINVAL);
}
END_TEST

START_TEST(header_larger_than_body_is_emsgsize)
{
	begin(FLUXONKV_OP_HELLO)->size = sizeof(struct fluxonkv_req) + 8;
	ck_assert_int_eq(refused(), -EMSGSIZE);
	begin(FLUXONKV_OP_HELLO)->size = UINT32_MAX;
	ck_assert_int_eq(refused(), -EMSGSIZE);
}
END_TEST

/* A newer client: more fields, all zero, mean what they meant before. */
START_TEST(larger_structs_of_zeros_are_accepted)
{
	struct fluxonkv_req *req = begin(FLUXONKV_OP_GET);
	struct fkv_call *call;

	req->size = sizeof(*req) + 104;
	req->item_size = sizeof(struct fluxonkv_item) + 200;
	size = req->size;
	req->nr = 1;
	((struct fluxonkv_item *)(body + size))->key_len = 3;
	memcpy(body + size + req->item_size, "key", 3);
	size += req->item_size + 8;
	ck_assert_int_eq(decode(size, &call), 0);
	ck_assert_mem_eq(call->items[0].key->data, "key", 3);
	fkv_call_free(call);

	body[sizeof(*req) + 103] = 1;
	ck_assert_int_eq(refused(), -E2BIG);
	body[sizeof(*req) + 103] = 0;
	body[req->size + req->item_size - 1] = 1;
	ck_assert_int_eq(refused(), -E2BIG);
}
END_TEST

START_TEST(item_struct_has_a_bound)
{
	struct fluxonkv_req *req = begin(FLUXONKV_OP_RELEASE);

	req->nr = 1;
	req->item_size = 4096;
	size += 4096;
	ck_assert_int_eq(refused(), 0);
	req->item_size = 4104;
	size += 8;
	ck_assert_int_eq(refused(), -EINVAL);
	req->item_size = UINT32_MAX;
	ck_assert_int_eq(refused(), -EINVAL);
}
END_TEST

START_TEST(padding_behind_a_key_must_be_zero)
{
	for (size_t len = 1; len < 8; len++) {
		for (size_t at = len; at < 8; at++) {
			begin(FLUXONKV_OP_GET);
			add_len("1234567", len);
			body[size - 8 + at] = 1;
			ck_assert_int_eq(refused(), -EINVAL);
		}
	}
}
END_TEST

/* Which request flags each op knows. */
START_TEST(unknown_request_flags_are_einval)
{
	for (uint16_t op = FLUXONKV_OP_HELLO; op <= FLUXONKV_OP_ADMIN; op++) {
		uint16_t known = 0;

		if (op == FLUXONKV_OP_GET)
			known = FLUXONKV_REQ_INTO;
		if (op == FLUXONKV_OP_STAT)
			known = FLUXONKV_REQ_WARM;
		for (int bit = 0; bit < 16; bit++) {
			bool keyed = op == FLUXONKV_OP_GET ||
				op == FLUXONKV_OP_PUT_BEGIN ||
				op >= FLUXONKV_OP_DELETE;

			begin(op)->flags = (uint16_t)(1u << bit);
			if (op != FLUXONKV_OP_HELLO)
				add(keyed ? "k" : "");
			if (op == FLUXONKV_OP_LIST)
				add("k");
			ck_assert_msg(refused() == (known & 1u << bit ? 0 :
						    -EINVAL),
				      "op %u bit %d", op, bit);
		}
	}
}
END_TEST

START_TEST(number_of_items_is_bounded_per_op)
{
	static const struct {
		uint16_t op;
		uint32_t min, max;
	} of[] = {
		{ FLUXONKV_OP_HELLO, 0, 0 },
		{ FLUXONKV_OP_GET, 1, 1024 },
		{ FLUXONKV_OP_RELEASE, 1, 1024 },
		{ FLUXONKV_OP_PUT_BEGIN, 1, 1024 },
		{ FLUXONKV_OP_PUT_EXTEND, 1, 1024 },
		{ FLUXONKV_OP_PUT_COMMIT, 1, 1024 },
		{ FLUXONKV_OP_PUT_ABORT, 1, 1024 },
		{ FLUXONKV_OP_DELETE, 1, 1024 },
		{ FLUXONKV_OP_STAT, 1, 1024 },
		{ FLUXONKV_OP_LIST, 2, 2 },
		{ FLUXONKV_OP_COUNT, 1, 1 },
		{ FLUXONKV_OP_ADMIN, 1, 2 },
	};

	for (size_t i = 0; i < FKV_ARRAY_SIZE(of); i++) {
		if (of[i].min) {
			begin(of[i].op)->nr = 0;
			for (uint32_t n = 0; n + 1 < of[i].min; n++)
				add("");
			ck_assert_int_eq(refused(), -EINVAL);
		}
		begin(of[i].op);
		for (uint32_t n = 0; n < of[i].max; n++)
			add("");
		ck_assert_int_eq(refused(), 0);
		add("");
		ck_assert_int_eq(refused(), -E2BIG);
		begin(of[i].op)->nr = UINT32_MAX;
		ck_assert_int_eq(refused(), -E2BIG);
	}
}
END_TEST

/* K1: 1 to 512 bytes, any byte. */
START_TEST(key_length_fails_its_item_only)
{
	char key[FKV_KEY_MAX + 1];
	struct fkv_call *call;

	memset(key, 0, sizeof(key));
	begin(FLUXONKV_OP_GET);
	add_len(key, FKV_KEY_MAX);
	ck_assert_int_eq(item_status(), 0);
	begin(FLUXONKV_OP_GET);
	add_len(key, FKV_KEY_MAX + 1);
	ck_assert_int_eq(item_status(), -E2BIG);
	begin(FLUXONKV_OP_GET);
	add_len(key, 0);
	ck_assert_int_eq(item_status(), -EINVAL);

	begin(FLUXONKV_OP_DELETE);
	add("a");
	add_len(key, FKV_KEY_MAX + 1);
	add("b");
	ck_assert_int_eq(decode(size, &call), 0);
	ck_assert_uint_eq(call->pending, 2);
	ck_assert(!call->items[0].done && !call->items[2].done);
	ck_assert_int_eq(call->items[1].res.status, -E2BIG);
	ck_assert_ptr_null(call->items[1].key);
	fkv_call_free(call);
}
END_TEST

START_TEST(key_length_that_overflows_is_emsgsize)
{
	static const uint32_t lens[] = {
		9, 4096, INT32_MAX, UINT32_MAX - 7, UINT32_MAX,
	};

	for (size_t i = 0; i < FKV_ARRAY_SIZE(lens); i++) {
		begin(FLUXONKV_OP_GET);
		add("12345678")->key_len = lens[i];
		ck_assert_int_eq(refused(), -EMSGSIZE);
	}
}
END_TEST

START_TEST(ops_on_ids_take_no_key)
{
	static const uint16_t ops[] = {
		FLUXONKV_OP_RELEASE, FLUXONKV_OP_PUT_EXTEND,
		FLUXONKV_OP_PUT_COMMIT, FLUXONKV_OP_PUT_ABORT,
	};

	for (size_t i = 0; i < FKV_ARRAY_SIZE(ops); i++) {
		begin(ops[i]);
		add("")->id = 7;
		ck_assert_int_eq(item_status(), 0);
		begin(ops[i]);
		add("k")->id = 7;
		ck_assert_int_eq(item_status(), -EINVAL);
		begin(ops[i]);
		add("")->len = 1;
		ck_assert_int_eq(item_status(), -EINVAL);
	}
}
END_TEST

START_TEST(fields_that_an_op_does_not_use_must_be_zero)
{
	begin(FLUXONKV_OP_GET);
	add("k")->len = 1;
	ck_assert_int_eq(item_status(), -EINVAL);
	begin(FLUXONKV_OP_GET);
	add("k")->id = 1;
	ck_assert_int_eq(item_status(), -EINVAL);
	begin(FLUXONKV_OP_GET);
	add("k")->zero = 1;
	ck_assert_int_eq(item_status(), -EINVAL);
	begin(FLUXONKV_OP_PUT_BEGIN);
	add("k")->id = 1;
	ck_assert_int_eq(item_status(), -EINVAL);
}
END_TEST

START_TEST(unknown_item_flags_fail_the_item)
{
	for (int bit = 0; bit < 32; bit++) {
		begin(FLUXONKV_OP_PUT_BEGIN);
		add("k")->flags = 1u << bit;
		ck_assert_int_eq(item_status(), bit < 3 ? 0 : -EINVAL);
		begin(FLUXONKV_OP_PUT_COMMIT);
		add("")->flags = 1u << bit;
		ck_assert_int_eq(item_status(), bit < 1 ? 0 : -EINVAL);
		begin(FLUXONKV_OP_GET);
		add("k")->flags = 1u << bit;
		ck_assert_int_eq(item_status(), -EINVAL);
	}
}
END_TEST

START_TEST(value_over_the_maximum_is_efbig)
{
	begin(FLUXONKV_OP_PUT_BEGIN);
	add("k")->len = FKV_VALUE_MAX + 1;
	ck_assert_int_eq(item_status(), -EFBIG);
	begin(FLUXONKV_OP_PUT_BEGIN);
	add("k")->len = UINT64_MAX;
	ck_assert_int_eq(item_status(), -EFBIG);
	begin(FLUXONKV_OP_PUT_BEGIN);
	add("k")->len = 0;
	ck_assert_int_eq(item_status(), 0);
}
END_TEST

/* Nothing a body can hold makes the decoder read or write out of bounds. */
START_TEST(any_bytes_decode_or_fail)
{
	static const uint8_t values[] = { 0, 1, 7, 8, 127, 128, 255 };
	struct fkv_call *call;

	for (size_t at = 0; at < 32 + 2 * 40; at++) {
		for (size_t v = 0; v < sizeof(values); v++) {
			begin(FLUXONKV_OP_PUT_BEGIN);
			add("abc");
			add("12345678");
			body[at] = values[v];
			decode(size, &call);
			fkv_call_free(call);
		}
	}
}
END_TEST

static bool fail_now(size_t n)
{
	static int countdown;

	(void)n;
	if (countdown-- > 0)
		return false;
	countdown = 1;
	return true;
}

START_TEST(decode_without_memory_is_enomem)
{
	struct fkv_call *call;

	begin(FLUXONKV_OP_GET);
	add("a");
	add("b");
	fkv_alloc_fail = fail_now;
	/* the call's own memory, then a key's */
	ck_assert_int_eq(decode(size, &call), -ENOMEM);
	ck_assert_int_eq(decode(size, &call), -ENOMEM);
	fkv_alloc_fail = NULL;
}
END_TEST

/* The reply of @call, in a block of exactly its size. */
static uint8_t *encode(const struct fkv_call *call, size_t *ret_size)
{
	uint8_t *buf;

	*ret_size = fkv_reply_size(call);
	buf = malloc(*ret_size);
	memset(buf, 0xee, *ret_size);
	fkv_reply_encode(call, buf);
	return buf;
}

START_TEST(reply_carries_a_result_per_item_and_the_text)
{
	struct fkv_call *call = fkv_call_create(FLUXONKV_OP_GET, 2);
	struct fluxonkv_result res;
	struct fluxonkv_rep rep;
	uint8_t *buf;
	size_t n;

	call->status = 0;
	call->ret_arg = 9;
	strcpy(call->text, "a sentence");
	call->items[0].res.status = -ENOSPC;
	call->items[1].res = (struct fluxonkv_result){
		.source = FLUXONKV_SOURCE_SSD_LOCAL,
		.offset = 4096,
		.len = 5,
		.version = 6,
		.id = 7,
	};
	buf = encode(call, &n);
	ck_assert_uint_eq(n, sizeof(rep) + 2 * sizeof(res) + 10);
	memcpy(&rep, buf, sizeof(rep));
	ck_assert_uint_eq(rep.size, sizeof(rep));
	ck_assert_uint_eq(rep.op, FLUXONKV_OP_GET);
	ck_assert_uint_eq(rep.flags, 0);
	ck_assert_uint_eq(rep.nr, 2);
	ck_assert_uint_eq(rep.item_size, sizeof(res));
	ck_assert_uint_eq(rep.text_len, 10);
	ck_assert_uint_eq(rep.arg, 9);
	memcpy(&res, buf + sizeof(rep), sizeof(res));
	ck_assert_int_eq(res.status, -ENOSPC);
	memcpy(&res, buf + sizeof(rep) + sizeof(res), sizeof(res));
	ck_assert_mem_eq(&res, &call->items[1].res, sizeof(res));
	ck_assert_mem_eq(buf + n - 10, "a sentence", 10);
	free(buf);
	fkv_call_free(call);
}
END_TEST

START_TEST(reply_of_a_list_carries_padded_keys)
{
	struct fkv_call *call = fkv_call_create(FLUXONKV_OP_LIST, 2);
	struct fkv_listing *l = fkv_zalloc(sizeof(*l) + 2 * sizeof(l->at[0]));
	struct fluxonkv_listed listed;
	struct fluxonkv_rep rep;
	uint8_t *buf;
	size_t n;

	l->n = 2;
	l->more = true;
	l->at[0] = (struct fkv_listed){
		.key = fkv_key_create("abc", 3), .len = 1, .put_id = 2,
		.where = FLUXONKV_ON_SSD,
	};
	l->at[1].key = fkv_key_create("12345678", 8);
	call->listing = l;
	buf = encode(call, &n);
	ck_assert_uint_eq(n, sizeof(rep) + 2 * (sizeof(listed) + 8));
	memcpy(&rep, buf, sizeof(rep));
	ck_assert_uint_eq(rep.nr, 2);
	ck_assert_uint_eq(rep.item_size, sizeof(listed));
	ck_assert_uint_eq(rep.arg, 1);
	memcpy(&listed, buf + sizeof(rep), sizeof(listed));
	ck_assert_uint_eq(listed.key_len, 3);
	ck_assert_uint_eq(listed.where, FLUXONKV_ON_SSD);
	ck_assert_uint_eq(listed.len, 1);
	ck_assert_uint_eq(listed.version, 2);
	ck_assert_mem_eq(buf + sizeof(rep) + sizeof(listed), "abc\0\0\0\0\0",
			 8);
	ck_assert_mem_eq(buf + n - 8, "12345678", 8);
	free(buf);
	fkv_call_free(call);
}
END_TEST

START_TEST(reply_of_a_failed_list_or_count_has_no_results)
{
	static const uint16_t ops[] = { FLUXONKV_OP_LIST, FLUXONKV_OP_COUNT };

	for (size_t i = 0; i < FKV_ARRAY_SIZE(ops); i++) {
		struct fkv_call *call = fkv_call_create(ops[i], 2);
		struct fluxonkv_rep rep;
		uint8_t *buf;
		size_t n;

		call->status = -ETIMEDOUT;
		buf = encode(call, &n);
		ck_assert_uint_eq(n, sizeof(rep));
		memcpy(&rep, buf, sizeof(rep));
		ck_assert_int_eq(rep.status, -ETIMEDOUT);
		ck_assert_uint_eq(rep.nr, 0);
		free(buf);
		fkv_call_free(call);
	}
}
END_TEST

START_TEST(error_reply_cuts_its_text_to_the_buffer)
{
	struct fluxonkv_rep rep;
	uint8_t buf[sizeof(rep) + 4];

	ck_assert_uint_eq(fkv_reply_error(FLUXONKV_OP_GET, -EINVAL, NULL, buf,
					  sizeof(buf)), sizeof(rep));
	ck_assert_uint_eq(fkv_reply_error(FLUXONKV_OP_GET, -E2BIG, "abcdefgh",
					  buf, sizeof(buf)), sizeof(buf));
	memcpy(&rep, buf, sizeof(rep));
	ck_assert_int_eq(rep.status, -E2BIG);
	ck_assert_uint_eq(rep.nr, 0);
	ck_assert_uint_eq(rep.text_len, 4);
	ck_assert_mem_eq(buf + sizeof(rep), "abcd", 4);
}
END_TEST

static Suite *suite(void)
{
	Suite *s = suite_create("request");
	TCase *t = tcase_create("decode");

	tcase_add_test(t, request_decodes_every_field);
	tcase_add_test(t, request_cut_at_every_byte_is_emsgsize);
	tcase_add_test(t, request_with_bytes_behind_is_emsgsize);
	tcase_add_test(t, unknown_op_is_eopnotsupp);
	tcase_add_test(t, smaller_struct_is_einval);
	tcase_add_test(t, header_larger_than_body_is_emsgsize);
	tcase_add_test(t, larger_structs_of_zeros_are_accepted);
	tcase_add_test(t, item_struct_has_a_bound);
	tcase_add_test(t, padding_behind_a_key_must_be_zero);
	tcase_add_test(t, unknown_request_flags_are_einval);
	tcase_add_test(t, number_of_items_is_bounded_per_op);
	tcase_add_test(t, key_length_fails_its_item_only);
	tcase_add_test(t, key_length_that_overflows_is_emsgsize);
	tcase_add_test(t, ops_on_ids_take_no_key);
	tcase_add_test(t, fields_that_an_op_does_not_use_must_be_zero);
	tcase_add_test(t, unknown_item_flags_fail_the_item);
	tcase_add_test(t, value_over_the_maximum_is_efbig);
	tcase_add_test(t, any_bytes_decode_or_fail);
	tcase_add_test(t, decode_without_memory_is_enomem);
	suite_add_tcase(s, t);
	t = tcase_create("reply");
	tcase_add_test(t, reply_carries_a_result_per_item_and_the_text);
	tcase_add_test(t, reply_of_a_list_carries_padded_keys);
	tcase_add_test(t, reply_of_a_failed_list_or_count_has_no_results);
	tcase_add_test(t, error_reply_cuts_its_text_to_the_buffer);
	suite_add_tcase(s, t);
	return s;
}

int main(void)
{
	SRunner *r = srunner_create(suite());
	int failed;

	srunner_run_all(r, CK_NORMAL);
	failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
