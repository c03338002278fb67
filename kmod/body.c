// SPDX-License-Identifier: GPL-2.0-only
#include <linux/errno.h>
#include <linux/string.h>

#include "body.h"

#define ITEM_SIZE_MAX	4096
#define VALUE_MAX	(1ULL << 40)

static bool all_zero(const u8 *p, size_t n)
{
	return !n || !memchr_inv(p, 0, n);
}

bool fkv_op_known(u16 op)
{
	return op == FLUXONKV_OP_GET || op == FLUXONKV_OP_RELEASE ||
	       op == FLUXONKV_OP_PUT || op == FLUXONKV_OP_PUT_BEGIN ||
	       op == FLUXONKV_OP_PUT_COMMIT || op == FLUXONKV_OP_PUT_ABORT;
}

static inline int check_struct(const u8 *p, size_t size, size_t known)
{
	if (size == known)
		return 0;
	if (size < known)
		return -EINVAL;
	return all_zero(p + known, size - known) ? 0 : -E2BIG;
}

static int check_known(const struct fluxonkv_req *req)
{
	u16 flags = req->op == FLUXONKV_OP_GET ? FLUXONKV_REQ_INTO : 0;

	if (req->flags & ~flags || !req->nr || req->arg)
		return -EINVAL;
	return 0;
}

int fkv_body_open(const void *body, size_t size, struct fluxonkv_req *req,
		  struct fkv_cursor *c)
{
	int err;

	if (size < sizeof(*req))
		return -EMSGSIZE;
	memcpy(req, body, sizeof(*req));
	if (req->size > size)
		return -EMSGSIZE;
	err = check_struct(body, req->size, sizeof(*req));
	if (err)
		return err;
	if (req->op <= FLUXONKV_OP_HELLO || req->op > FLUXONKV_OP_PUT)
		return -EOPNOTSUPP;
	if (req->nr > FLUXONKV_BATCH_MAX)
		return -E2BIG;
	if (req->nr && req->item_size > ITEM_SIZE_MAX)
		return -EINVAL;
	/* keys are compared by 8 bytes */
	if (fkv_op_known(req->op) && (req->size | req->item_size) % 8)
		return -EINVAL;
	c->at = (const u8 *)body + req->size;
	c->left = size - req->size;
	c->item_size = req->item_size;
	c->op = req->op;
	return fkv_op_known(req->op) ? check_known(req) : 0;
}

/* Flags that an item of @op may have. */
static u32 item_flags(u16 op)
{
	switch (op) {
	case FLUXONKV_OP_PUT:
	case FLUXONKV_OP_PUT_BEGIN:
		return FLUXONKV_PUT_EXCL | FLUXONKV_PUT_NOWAIT |
		       FLUXONKV_PUT_MEMORY;
	case FLUXONKV_OP_PUT_COMMIT:
		return FLUXONKV_COMMIT_HOLD;
	default:
		return 0;
	}
}

static int check_item(u16 op, const struct fluxonkv_item *in)
{
	bool put = op == FLUXONKV_OP_PUT || op == FLUXONKV_OP_PUT_BEGIN;
	bool key = put || op == FLUXONKV_OP_GET;

	if (in->key_len > FLUXONKV_KEY_MAX)
		return -E2BIG;
	if (!key != !in->key_len)
		return -EINVAL;
	if ((in->flags & ~item_flags(op)) || in->zero)
		return -EINVAL;
	if (put && in->len > VALUE_MAX)
		return -EFBIG;
	if (!put && in->len)
		return -EINVAL;
	if (key && op != FLUXONKV_OP_PUT && in->id)
		return -EINVAL;
	return 0;
}

int fkv_body_next(struct fkv_cursor *c, struct fluxonkv_item *item,
		  const void **key, int *status)
{
	size_t padded;
	int err;

	if (c->left < c->item_size)
		return -EMSGSIZE;
	err = check_struct(c->at, c->item_size, sizeof(*item));
	if (err)
		return err;
	memcpy(item, c->at, sizeof(*item));
	c->at += c->item_size;
	c->left -= c->item_size;
	padded = ((size_t)item->key_len + 7) & ~(size_t)7;
	if (c->left < padded)
		return -EMSGSIZE;
	for (size_t i = item->key_len; i < padded; i++)
		if (c->at[i])
			return -EINVAL;
	*key = c->at;
	c->at += padded;
	c->left -= padded;
	*status = check_item(c->op, item);
	return 0;
}

int fkv_body_key_any(struct fkv_cursor *c, const void **key, u32 *len,
		     int *status)
{
	struct fluxonkv_item item;
	int err = fkv_body_next(c, &item, key, status);

	if (!err)
		*len = item.key_len;
	return err;
}

int fkv_reply_open(const void *body, size_t size, u16 op,
		   struct fluxonkv_rep *rep)
{
	u64 results;

	if (size < sizeof(*rep))
		return -EINVAL;
	memcpy(rep, body, sizeof(*rep));
	if (rep->size < sizeof(*rep) || rep->size > size ||
	    !all_zero((const u8 *)body + sizeof(*rep),
		      rep->size - sizeof(*rep)))
		return -EINVAL;
	if (rep->op != op || rep->flags || rep->status > 0)
		return -EINVAL;
	if (!fkv_op_known(op))
		return 0;
	if (rep->nr > FLUXONKV_BATCH_MAX || rep->item_size > ITEM_SIZE_MAX ||
	    (rep->nr && rep->item_size < sizeof(struct fluxonkv_result)))
		return -EINVAL;
	results = (u64)rep->nr * rep->item_size;
	if (results + rep->text_len != size - rep->size)
		return -EINVAL;
	return 0;
}

void fkv_reply_at(const void *body, const struct fluxonkv_rep *rep, u32 i,
		  struct fluxonkv_result *ret)
{
	const u8 *p = (const u8 *)body + rep->size;

	memcpy(ret, p + (size_t)i * rep->item_size, sizeof(*ret));
	if (ret->status > 0)
		ret->status = -EPROTO;
}
