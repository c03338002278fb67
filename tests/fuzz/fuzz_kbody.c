// SPDX-License-Identifier: Apache-2.0
/*
 * fuzz_kbody.c - the module's readers of request and reply bodies
 *
 * Input: one byte of how, then the body. It is in memory of just its size,
 * aligned as the module's copy is. What is taken lies in it, item by item.
 */
#include "fuzz/fuzz.h"

#include <linux/errno.h>

#include "kmod/body.h"

#define VALUE_MAX	(1ULL << 40)

struct body {
	const u8 *at;
	size_t size;
};

static bool inside(const struct body *b, const void *p, size_t n)
{
	const u8 *at = p;

	return at >= b->at && n <= b->size &&
	       (size_t)(at - b->at) <= b->size - n;
}

/* ---- requests ---- */

static void check_header(const struct fluxonkv_req *req)
{
	fuzz_check(req->size >= sizeof(*req));
	fuzz_check(req->op >= FLUXONKV_OP_GET && req->op <= FLUXONKV_OP_PUT);
	fuzz_check(req->nr <= FLUXONKV_BATCH_MAX);
	if (!fkv_op_known(req->op))
		return;
	fuzz_check(req->nr && !req->arg);
	fuzz_check(!(req->flags & ~FLUXONKV_REQ_INTO));
	fuzz_check(!req->flags || req->op == FLUXONKV_OP_GET);
}

static void check_item(u16 op, const struct fluxonkv_item *it)
{
	bool put = op == FLUXONKV_OP_PUT || op == FLUXONKV_OP_PUT_BEGIN;
	bool key = put || op == FLUXONKV_OP_GET;

	fuzz_check(!it->zero && it->flags < 8);
	fuzz_check(key ? it->key_len && it->key_len <= FLUXONKV_KEY_MAX :
		   !it->key_len);
	fuzz_check(put ? it->len <= VALUE_MAX : !it->len);
	fuzz_check(!it->id || !key || op == FLUXONKV_OP_PUT);
}

/* The fast way to a key knows the plain ones, and only these. */
static void check_key(const struct fkv_cursor *before, int err,
		      const struct fluxonkv_item *it, int status)
{
	size_t room = fkv_body_plain(before);

	fuzz_check(!room ==
		   (err || status || before->item_size != sizeof(*it)));
	fuzz_check(!room || room == fkv_item_room(it->key_len));
}

static void check_items(const struct body *b, const struct fluxonkv_req *req,
			struct fkv_cursor *c)
{
	for (u32 i = 0; i < req->nr; i++) {
		struct fkv_cursor before = *c;
		struct fluxonkv_item it;
		const void *key;
		int status, err = fkv_body_next(c, &it, &key, &status);

		if (req->op == FLUXONKV_OP_GET)
			check_key(&before, err, &it, status);
		if (err) {
			fuzz_check(err == -EMSGSIZE || err == -EINVAL ||
				   err == -E2BIG);
			return;
		}
		fuzz_check(inside(b, key, (it.key_len + 7) & ~7u));
		fuzz_check(c->left < before.left);
		fuzz_check(c->at + c->left == b->at + b->size);
		if (status)
			fuzz_check(status == -EINVAL || status == -E2BIG ||
				   status == -EFBIG);
		else if (fkv_op_known(req->op))
			check_item(req->op, &it);
	}
}

static void check_request(const struct body *b)
{
	struct fluxonkv_req req;
	struct fkv_cursor c;
	int err = fkv_body_open(b->at, b->size, &req, &c);

	if (err) {
		fuzz_check(err == -EMSGSIZE || err == -EINVAL ||
			   err == -E2BIG || err == -EOPNOTSUPP);
		return;
	}
	check_header(&req);
	fuzz_check(c.left == b->size - req.size && c.at == b->at + req.size);
	/* the bodies of other ops go to the daemon unread */
	if (fkv_op_known(req.op))
		check_items(b, &req, &c);
}

/* ---- replies ---- */

static void check_reply(const struct body *b, u16 op)
{
	struct fluxonkv_rep rep;

	if (fkv_reply_open(b->at, b->size, op, &rep)) {
		fuzz_check(fkv_reply_open(b->at, b->size, op, &rep) ==
			   -EINVAL);
		return;
	}
	fuzz_check(rep.op == op && !rep.flags && rep.status <= 0);
	fuzz_check(rep.size >= sizeof(rep) && rep.size <= b->size);
	if (!fkv_op_known(op))
		return;
	fuzz_check(rep.size + (u64)rep.nr * rep.item_size + rep.text_len ==
		   b->size);
	for (u32 i = 0; i < rep.nr; i++) {
		struct fluxonkv_result res;

		fkv_reply_at(b->at, &rep, i, &res);
		fuzz_check(res.status <= 0);
	}
}

/* The low bit of the first byte: which way; the rest: the op of a reply. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct fuzz_in in = { data, size };
	u8 how = fuzz_u8(&in);
	u8 *copy = fuzz_copy(in.p, in.left);
	struct body b = { copy, in.left };

	if (how & 1)
		check_reply(&b, how >> 1);
	else
		check_request(&b);
	free(copy);
	return 0;
}
