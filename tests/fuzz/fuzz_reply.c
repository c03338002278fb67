// SPDX-License-Identifier: Apache-2.0
/*
 * fuzz_reply.c - the library's reader of replies, with a daemon that lies
 *
 * Input: one byte of operation, two of the number of results that were asked
 * for, then the body. What is taken must lie in the body, piece by piece.
 */
#include "fuzz/fuzz.h"
#include "lib/body.h"

#define ANY	0xffff

static void check_broken(int err)
{
	fuzz_check(err == -EPROTO);
	fuzz_check(strlen(fluxonkv_last_error()) > 10);
}

static bool inside(const struct fkv_reply *r, const void *p, size_t n)
{
	const uint8_t *at = p;

	return at >= r->body && n <= r->size &&
	       (size_t)(at - r->body) <= r->size - n;
}

static void check_list(const struct fkv_reply *r)
{
	struct fluxonkv_listed at;
	const void *key = NULL;
	size_t pos = 0, was;
	int err;

	for (uint32_t i = 0; i < r->rep.nr; i++) {
		was = pos;
		err = fkv_reply_listed(r, &pos, &at, &key);
		if (err) {
			check_broken(err);
			fuzz_check(pos == was);
			return;
		}
		fuzz_check(at.key_len > 0 && at.key_len <= FLUXONKV_KEY_MAX);
		fuzz_check(inside(r, key, fkv_key_room(at.key_len)));
		fuzz_check(pos == was + r->rep.item_size +
			   fkv_key_room(at.key_len));
		fuzz_check(pos <= r->items_size);
	}
}

static void check_results(const struct fkv_reply *r)
{
	for (uint32_t i = 0; i < r->rep.nr; i++) {
		struct fluxonkv_result res = fkv_reply_result(r, i);

		fuzz_check(res.status <= 0 && res.status >= -4095);
	}
}

static void check_taken(const struct fkv_reply *r, uint16_t op, uint32_t nr)
{
	fuzz_check(r->rep.op == op && !r->rep.flags);
	fuzz_check(r->rep.status <= 0 && r->rep.status >= -4095);
	fuzz_check(r->rep.nr <= FLUXONKV_BATCH_MAX);
	fuzz_check(nr == FKV_REPLY_ANY || r->rep.nr == nr ||
		   (!r->rep.nr && r->rep.status));
	fuzz_check(inside(r, r->items, r->items_size));
	fuzz_check(inside(r, r->text, r->rep.text_len));
	fuzz_check(r->rep.size + r->items_size + r->rep.text_len == r->size);
	if (op == FLUXONKV_OP_LIST) {
		check_list(r);
		return;
	}
	fuzz_check(r->items_size == (size_t)r->rep.nr * r->rep.item_size);
	if (op != FLUXONKV_OP_HELLO)
		check_results(r);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct fuzz_in in = { data, size };
	uint16_t op = fuzz_u8(&in), nr16 = fuzz_u16(&in);
	uint32_t nr = nr16 == ANY ? FKV_REPLY_ANY : nr16;
	struct fkv_reply r = { .size = in.left };
	int err;

	r.body = fuzz_copy(in.p, in.left);
	err = fkv_reply_parse(&r, op, nr);
	if (err) {
		check_broken(err);
	} else {
		check_taken(&r, op, nr);
		fuzz_check(fkv_reply_fail(&r, "call", -EIO) == -EIO);
	}
	free(r.body);
	return 0;
}
