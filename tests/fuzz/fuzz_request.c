// SPDX-License-Identifier: Apache-2.0
/*
 * fuzz_request.c - request bodies
 *
 * What decodes must be the very bytes again when it is written by the rules
 * of the uapi header: so every offset and length lies in the body, and no byte
 * is ignored. What does not decode has a sentence. The reply to it must then
 * be one that the library takes. The input also chooses a request that follows
 * the rules, which must decode.
 */
#include "wire/request.h"

#include "fuzz/fuzz.h"
#include "lib/body.h"

static bool keyed(uint16_t op)
{
	return op == FLUXONKV_OP_GET || op == FLUXONKV_OP_PUT_BEGIN ||
	       op >= FLUXONKV_OP_DELETE;
}

static bool empty_key(uint16_t op)
{
	return !keyed(op) || op >= FLUXONKV_OP_LIST;
}

static uint32_t known_flags(uint16_t op)
{
	if (op == FLUXONKV_OP_PUT_BEGIN)
		return FLUXONKV_PUT_EXCL | FLUXONKV_PUT_NOWAIT |
		       FLUXONKV_PUT_MEMORY;
	return op == FLUXONKV_OP_PUT_COMMIT ? FLUXONKV_COMMIT_HOLD : 0;
}

static bool is_good(uint16_t op, const struct fluxonkv_item *in)
{
	if (in->key_len > 512 || (!in->key_len && !empty_key(op)) ||
	    (in->key_len && !keyed(op)))
		return false;
	if ((in->flags & ~known_flags(op)) || in->zero)
		return false;
	if (op == FLUXONKV_OP_PUT_BEGIN)
		return in->len <= 1ULL << 40 && !in->id;
	return !in->len && (!keyed(op) || !in->id);
}

static void check_item(const struct fkv_call *call, const struct fkv_item *it,
		       const uint8_t *body)
{
	struct fluxonkv_item in;

	memcpy(&in, body, sizeof(in));
	fuzz_check(it->call == call);
	fuzz_check(it->done == !is_good(call->op, &in));
	fuzz_check(it->done ? it->res.status < 0 : !it->res.status);
	fuzz_check(!it->done || !it->key);
	fuzz_check(it->done || (it->key ? it->key->len : 0) == in.key_len);
}

/* The item as its writer wrote it; returns its bytes. */
static size_t write_item(const struct fkv_item *it, const uint8_t *was,
			 size_t item_size, uint8_t *to)
{
	const uint8_t *key = it->key ? it->key->data : was + item_size;
	struct fluxonkv_item out, in;

	memcpy(&in, was, sizeof(in));
	out = (struct fluxonkv_item){
		.key_len = it->key ? it->key->len : in.key_len,
		.flags = it->flags,
		.len = it->len,
		.id = it->id,
		.zero = it->done ? in.zero : 0,
	};
	memcpy(to, &out, sizeof(out));
	if (out.key_len)
		memcpy(to + item_size, key, out.key_len);
	return item_size + fkv_align_up(out.key_len, 8);
}

static void check_call(const struct fkv_call *call, const uint8_t *body,
		       size_t size)
{
	struct fluxonkv_req req, out;
	uint8_t *again = fuzz_alloc(size);
	uint32_t done = 0;
	size_t pos;

	memset(again, 0, size);
	memcpy(&req, body, sizeof(req));
	out = (struct fluxonkv_req){
		.size = req.size,
		.op = call->op,
		.flags = call->flags,
		.nr = call->nr,
		.item_size = req.item_size,
		.timeout_ns = call->timeout_ns,
		.arg = call->arg,
	};
	memcpy(again, &out, sizeof(out));
	pos = req.size;
	for (uint32_t i = 0; i < call->nr; i++) {
		fuzz_check(size - pos >= sizeof(struct fluxonkv_item));
		check_item(call, &call->items[i], body + pos);
		done += call->items[i].done;
		pos += write_item(&call->items[i], body + pos, req.item_size,
				  again + pos);
		fuzz_check(pos <= size);
	}
	fuzz_check(pos == size);
	fuzz_check(!memcmp(again, body, size));
	fuzz_check(call->pending == call->nr - done);
	free(again);
}

/* What the daemon answers is what its library takes. */
static void check_reply(struct fkv_call *call)
{
	bool results = call->op != FLUXONKV_OP_LIST &&
		       call->op != FLUXONKV_OP_COUNT;
	struct fkv_reply r = { .size = fkv_reply_size(call) };

	/* the gateway's own, with a result of another size */
	if (call->op == FLUXONKV_OP_HELLO)
		return;
	snprintf(call->text, sizeof(call->text), "%u", call->op);
	r.size = fkv_reply_size(call);
	r.body = fuzz_alloc(r.size);
	fkv_reply_encode(call, r.body);
	fuzz_check(!fkv_reply_parse(&r, call->op, results ? call->nr : 0));
	fuzz_check(r.rep.text_len == strlen(call->text));
	fuzz_check(!memcmp(r.text, call->text, r.rep.text_len));
	for (uint32_t i = 0; i < r.rep.nr; i++)
		fuzz_check(fkv_reply_result(&r, i).status ==
			   call->items[i].res.status);
	free(r.body);
}

static void check_refused(int err, const char *why)
{
	fuzz_check(err == -EINVAL || err == -E2BIG || err == -EFBIG ||
		   err == -EOPNOTSUPP || err == -EMSGSIZE);
	fuzz_check(why && *why);
}

/* A request that the library could write, of words of the input. */
static void write_request(struct fuzz_in *in, struct fkv_msg *msg)
{
	struct fluxonkv_req req = {
		.size = sizeof(req),
		.op = (uint16_t)(2 + fuzz_u8(in) % 11),
		.nr = 1 + fuzz_u8(in) % 4u,
		.item_size = sizeof(struct fluxonkv_item),
	};
	uint8_t key[FLUXONKV_KEY_MAX];

	if (req.op == FLUXONKV_OP_LIST)
		req.nr = 2;
	if (req.op == FLUXONKV_OP_COUNT || req.op == FLUXONKV_OP_ADMIN)
		req.nr = 1;
	fuzz_check(!fkv_msg_init(msg, &req, req.nr * sizeof(key)));
	for (uint32_t i = 0; i < req.nr; i++) {
		struct fluxonkv_item it = { .key_len = 0 };

		if (keyed(req.op))
			it.key_len = 1 + fuzz_u16(in) % FLUXONKV_KEY_MAX;
		else
			fuzz_take(in, &it.id, sizeof(it.id));
		if (req.op == FLUXONKV_OP_PUT_BEGIN)
			it.len = fuzz_u16(in);
		it.flags = fuzz_u8(in) & known_flags(req.op);
		fuzz_take(in, key, it.key_len);
		fkv_msg_add(msg, &it, key);
	}
}

static void check_written(const uint8_t *data, size_t size)
{
	struct fuzz_in in = { data, size };
	struct fkv_call *call;
	struct fkv_msg msg;
	const char *why;
	uint8_t *body;

	write_request(&in, &msg);
	fkv_msg_stamp(&msg, 7, 8);
	size = msg.size - sizeof(struct fluxonkv_frame);
	body = fuzz_copy(msg.data + sizeof(struct fluxonkv_frame), size);
	fuzz_check(!fkv_call_decode(body, size, &call, &why));
	check_call(call, body, size);
	fuzz_check(call->pending == call->nr && call->timeout_ns == 8);
	fkv_call_free(call);
	free(body);
	fkv_msg_done(&msg);
}

static unsigned int allocations_left;

static bool fail_last(size_t n)
{
	(void)n;
	if (allocations_left)
		allocations_left--;
	return !allocations_left;
}

/* Without memory for the @nth allocation: what was made before is freed. */
static void check_no_memory(const uint8_t *body, size_t size, int err,
			    unsigned int nth)
{
	struct fkv_call *call = NULL;
	const char *why = NULL;
	int res;

	allocations_left = nth;
	fkv_alloc_fail = fail_last;
	res = fkv_call_decode(body, size, &call, &why);
	fkv_alloc_fail = NULL;
	fuzz_check(res == (allocations_left ? err : -ENOMEM));
	fuzz_check(res ? !call && why && *why : call != NULL);
	if (!res)
		fkv_call_free(call);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	uint8_t *body = fuzz_copy(data, size);
	struct fkv_call *call = NULL;
	const char *why = NULL;
	int err = fkv_call_decode(body, size, &call, &why);

	if (err) {
		fuzz_check(!call);
		check_refused(err, why);
	} else {
		check_call(call, body, size);
		check_reply(call);
		fkv_call_free(call);
	}
	check_no_memory(body, size, err, 1 + (unsigned int)size % 4);
	free(body);
	check_written(data, size);
	return 0;
}
