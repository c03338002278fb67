// SPDX-License-Identifier: Apache-2.0
#include "request.h"

/* What an op wants of its items. */
struct op_form {
	uint32_t nr_min, nr_max;
	uint32_t key_min;		/* 0: a key may be empty */
	bool has_key;
	uint16_t req_flags;
	uint32_t item_flags;
};

static const struct op_form forms[] = {
	[FLUXONKV_OP_HELLO] = { 0, 0, 0, false, 0, 0 },
	[FLUXONKV_OP_GET] = { 1, FKV_BATCH_MAX, 1, true,
			      FLUXONKV_REQ_INTO, 0 },
	[FLUXONKV_OP_RELEASE] = { 1, FKV_BATCH_MAX, 0, false, 0, 0 },
	[FLUXONKV_OP_PUT_BEGIN] = { 1, FKV_BATCH_MAX, 1, true, 0,
				    FLUXONKV_PUT_EXCL | FLUXONKV_PUT_NOWAIT |
				    FLUXONKV_PUT_MEMORY },
	[FLUXONKV_OP_PUT_EXTEND] = { 1, FKV_BATCH_MAX, 0, false, 0, 0 },
	[FLUXONKV_OP_PUT_COMMIT] = { 1, FKV_BATCH_MAX, 0, false, 0,
				     FLUXONKV_COMMIT_HOLD },
	[FLUXONKV_OP_PUT_ABORT] = { 1, FKV_BATCH_MAX, 0, false, 0, 0 },
	[FLUXONKV_OP_DELETE] = { 1, FKV_BATCH_MAX, 1, true, 0, 0 },
	[FLUXONKV_OP_STAT] = { 1, FKV_BATCH_MAX, 1, true,
			       FLUXONKV_REQ_WARM, 0 },
	[FLUXONKV_OP_LIST] = { 2, 2, 0, true, 0, 0 },
	[FLUXONKV_OP_COUNT] = { 1, 1, 0, true, 0, 0 },
	[FLUXONKV_OP_ADMIN] = { 1, 2, 0, true, 0, 0 },
};

static const uint8_t zeros[sizeof(struct fluxonkv_req) + 64];

static bool all_zero(const uint8_t *p, size_t n)
{
	while (n > 0) {
		size_t m = n < sizeof(zeros) ? n : sizeof(zeros);

		if (memcmp(p, zeros, m))
			return false;
		p += m;
		n -= m;
	}
	return true;
}

struct fkv_call *fkv_call_create(uint16_t op, uint32_t nr)
{
	struct fkv_call *call;

	call = fkv_zalloc(sizeof(*call) + nr * sizeof(call->items[0]));
	if (!call)
		return NULL;
	call->op = op;
	call->nr = nr;
	call->pending = nr;
	for (uint32_t i = 0; i < nr; i++)
		call->items[i].call = call;
	return call;
}

void fkv_listing_free(struct fkv_listing *listing)
{
	if (!listing)
		return;
	for (uint32_t i = 0; i < listing->n; i++)
		fkv_key_put(listing->at[i].key);
	fkv_free(listing);
}

void fkv_call_free(struct fkv_call *call)
{
	if (!call)
		return;
	for (uint32_t i = 0; i < call->nr; i++)
		fkv_key_put(call->items[i].key);
	fkv_listing_free(call->listing);
	fkv_free(call);
}

/* Struct of @size bytes of which this build knows @known: 0 or -errno. */
static int check_struct(const uint8_t *p, size_t size, size_t known,
			const char **why)
{
	if (size < known) {
		*why = "a struct is smaller than its first version";
		return -EINVAL;
	}
	if (!all_zero(p + known, size - known)) {
		*why = "a struct has fields that this version does not know";
		return -E2BIG;
	}
	return 0;
}

static int check_req(const struct fluxonkv_req *req, const char **why)
{
	const struct op_form *f;

	if (req->op >= FKV_ARRAY_SIZE(forms) || req->op < FLUXONKV_OP_HELLO) {
		*why = "unknown operation";
		return -EOPNOTSUPP;
	}
	f = &forms[req->op];
	if (req->flags & ~f->req_flags) {
		*why = "unknown request flag for this operation";
		return -EINVAL;
	}
	if (req->nr > f->nr_max) {
		*why = f->nr_max == FKV_BATCH_MAX ?
			"more than 1,024 items in one request" :
			"more items than the operation takes";
		return -E2BIG;
	}
	if (req->nr < f->nr_min) {
		*why = "fewer items than the operation takes";
		return -EINVAL;
	}
	if (req->nr && req->item_size > 4096) {
		*why = "item struct larger than 4,096 bytes";
		return -EINVAL;
	}
	return 0;
}

static void item_fail(struct fkv_item *it, int err)
{
	it->res.status = err;
	it->done = true;
	it->call->pending--;
}

/* What is wrong with one item, as 0 or -errno of that item. */
static int check_item(const struct op_form *f, uint16_t op,
		      const struct fluxonkv_item *in)
{
	if (in->key_len > FKV_KEY_MAX)
		return -E2BIG;
	if (in->key_len < f->key_min || (!f->has_key && in->key_len))
		return -EINVAL;
	if ((in->flags & ~f->item_flags) || in->zero)
		return -EINVAL;
	if (op == FLUXONKV_OP_PUT_BEGIN) {
		if (in->len > FKV_VALUE_MAX)
			return -EFBIG;
		return in->id ? -EINVAL : 0;
	}
	return in->len || (f->has_key && in->id) ? -EINVAL : 0;
}

static int decode_key(struct fkv_item *it, const uint8_t *p, uint32_t len)
{
	if (!len)
		return 0;
	it->key = fkv_key_create(p, len);
	return it->key ? 0 : -ENOMEM;
}

/* One item at @p of @left bytes; returns bytes taken or -errno. */
static long decode_item(struct fkv_item *it, const struct fluxonkv_req *req,
			const uint8_t *p, size_t left, const char **why)
{
	const struct op_form *f = &forms[req->op];
	struct fluxonkv_item in;
	uint64_t padded;
	int err;

	if (left < req->item_size) {
		*why = "the request ends inside an item";
		return -EMSGSIZE;
	}
	err = check_struct(p, req->item_size, sizeof(in), why);
	if (err)
		return err;
	memcpy(&in, p, sizeof(in));
	p += req->item_size;
	left -= req->item_size;
	padded = fkv_align_up(in.key_len, 8);
	if (left < padded) {
		*why = "the request ends inside a key";
		return -EMSGSIZE;
	}
	if (!all_zero(p + in.key_len, padded - in.key_len)) {
		*why = "the padding behind a key is not zero";
		return -EINVAL;
	}
	it->flags = in.flags;
	it->len = in.len;
	it->id = in.id;
	err = check_item(f, req->op, &in);
	if (!err)
		err = decode_key(it, p, in.key_len);
	if (err == -ENOMEM)
		return err;
	if (err)
		item_fail(it, err);
	return (long)(req->item_size + padded);
}

int fkv_call_decode(const void *body, size_t size, struct fkv_call **ret_call,
		    const char **why)
{
	const uint8_t *p = body;
	struct fluxonkv_req req;
	struct fkv_call *call;
	int err;

	*why = "out of memory";
	if (size < sizeof(req)) {
		*why = "the request is shorter than its header";
		return -EMSGSIZE;
	}
	memcpy(&req, p, sizeof(req));
	if (req.size > size) {
		*why = "the request header is larger than the request";
		return -EMSGSIZE;
	}
	err = check_struct(p, req.size, sizeof(req), why);
	if (!err)
		err = check_req(&req, why);
	if (err)
		return err;
	call = fkv_call_create(req.op, req.nr);
	if (!call)
		return -ENOMEM;
	call->flags = req.flags;
	call->timeout_ns = req.timeout_ns;
	call->arg = req.arg;
	p += req.size;
	size -= req.size;
	for (uint32_t i = 0; i < req.nr; i++) {
		long n = decode_item(&call->items[i], &req, p, size, why);

		if (n < 0) {
			err = (int)n;
			goto err_free;
		}
		p += n;
		size -= (size_t)n;
	}
	if (size) {
		*why = "bytes behind the last item";
		err = -EMSGSIZE;
		goto err_free;
	}
	*ret_call = call;
	return 0;

err_free:
	fkv_call_free(call);
	return err;
}

static size_t listing_size(const struct fkv_listing *l)
{
	size_t n = 0;

	for (uint32_t i = 0; i < l->n; i++)
		n += sizeof(struct fluxonkv_listed) +
		     fkv_align_up(l->at[i].key->len, 8);
	return n;
}

size_t fkv_reply_size(const struct fkv_call *call)
{
	size_t n = sizeof(struct fluxonkv_rep) + strlen(call->text);

	if (call->op == FLUXONKV_OP_LIST)
		return n + (call->listing ? listing_size(call->listing) : 0);
	if (call->op == FLUXONKV_OP_COUNT)
		return n;
	return n + call->nr * sizeof(struct fluxonkv_result);
}

static uint8_t *encode_listing(const struct fkv_listing *l, uint8_t *p)
{
	for (uint32_t i = 0; i < l->n; i++) {
		const struct fkv_listed *at = &l->at[i];
		struct fluxonkv_listed out = {
			.key_len = at->key->len,
			.where = at->where,
			.len = at->len,
			.version = at->put_id,
		};
		size_t padded = fkv_align_up(out.key_len, 8);

		memcpy(p, &out, sizeof(out));
		p += sizeof(out);
		memset(p, 0, padded);
		memcpy(p, at->key->data, out.key_len);
		p += padded;
	}
	return p;
}

void fkv_reply_encode(const struct fkv_call *call, void *buf)
{
	struct fluxonkv_rep rep = {
		.size = sizeof(rep),
		.op = call->op,
		.item_size = sizeof(struct fluxonkv_result),
		.status = call->status,
		.text_len = (uint32_t)strlen(call->text),
		.arg = call->ret_arg,
	};
	uint8_t *p = (uint8_t *)buf + sizeof(rep);

	if (call->op == FLUXONKV_OP_LIST) {
		rep.item_size = sizeof(struct fluxonkv_listed);
		if (call->listing) {
			rep.nr = call->listing->n;
			rep.arg = call->listing->more;
			p = encode_listing(call->listing, p);
		}
	} else if (call->op != FLUXONKV_OP_COUNT) {
		rep.nr = call->nr;
		for (uint32_t i = 0; i < call->nr; i++) {
			memcpy(p, &call->items[i].res,
			       sizeof(call->items[i].res));
			p += sizeof(call->items[i].res);
		}
	}
	memcpy(buf, &rep, sizeof(rep));
	memcpy(p, call->text, rep.text_len);
}

size_t fkv_reply_error(uint16_t op, int status, const char *text, void *buf,
		       size_t size)
{
	struct fluxonkv_rep rep = {
		.size = sizeof(rep),
		.op = op,
		.item_size = sizeof(struct fluxonkv_result),
		.status = status,
	};
	size_t n = text ? strlen(text) : 0;

	fkv_assert(size >= sizeof(rep));
	if (n > size - sizeof(rep))
		n = size - sizeof(rep);
	rep.text_len = (uint32_t)n;
	memcpy(buf, &rep, sizeof(rep));
	if (n)
		memcpy((uint8_t *)buf + sizeof(rep), text, n);
	return sizeof(rep) + n;
}
