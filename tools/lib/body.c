// SPDX-License-Identifier: Apache-2.0
#include <stdlib.h>
#include <string.h>

#include "body.h"

#define ITEM_ROOM(key)	(sizeof(struct fluxonkv_item) + (key))

_Static_assert(sizeof(struct fluxonkv_frame) + sizeof(struct fluxonkv_req) +
	       FLUXONKV_BATCH_MAX * ITEM_ROOM(FLUXONKV_KEY_MAX) <=
	       FLUXONKV_FRAME_MAX, "the largest batch fits one frame");
_Static_assert(sizeof(struct fluxonkv_frame) + sizeof(struct fluxonkv_req) +
	       ITEM_ROOM(FLUXONKV_KEY_MAX) <= FKV_MSG_SMALL,
	       "a request of one key needs no memory");
_Static_assert(sizeof(struct fluxonkv_frame) == 16, "frame");
_Static_assert(sizeof(struct fluxonkv_req) == 32, "req");
_Static_assert(sizeof(struct fluxonkv_item) == 32, "item");
_Static_assert(sizeof(struct fluxonkv_rep) == 32, "rep");
_Static_assert(sizeof(struct fluxonkv_result) == 40, "result");

int fkv_msg_init(struct fkv_msg *msg, const struct fluxonkv_req *req,
		 size_t keys_room)
{
	size_t cap = sizeof(struct fluxonkv_frame) + sizeof(*req) +
		     req->nr * sizeof(struct fluxonkv_item) + keys_room;

	if (cap > FLUXONKV_FRAME_MAX)
		return fkv_lib_fail(-E2BIG, "request of %zu bytes, expected "
				    "at most %d", cap, FLUXONKV_FRAME_MAX);
	msg->data = cap <= sizeof(msg->small) ? msg->small : malloc(cap);
	if (!msg->data)
		return fkv_lib_fail(-ENOMEM, "no memory for a request of %zu "
				    "bytes", cap);
	msg->cap = cap;
	msg->op = req->op;
	msg->nr = req->nr;
	memset(msg->data, 0, sizeof(struct fluxonkv_frame));
	msg->size = sizeof(struct fluxonkv_frame);
	memcpy(msg->data + msg->size, req, sizeof(*req));
	msg->size += sizeof(*req);
	return 0;
}

void fkv_msg_done(struct fkv_msg *msg)
{
	if (msg->data != msg->small)
		free(msg->data);
	msg->data = NULL;
}

void fkv_msg_add(struct fkv_msg *msg, const struct fluxonkv_item *item,
		 const void *key)
{
	size_t room = fkv_key_room(item->key_len);
	uint8_t *p = msg->data + msg->size;

	if (msg->cap - msg->size < sizeof(*item) + room)
		abort(); /* the caller counted wrong: never beyond the buffer */
	memcpy(p, item, sizeof(*item));
	p += sizeof(*item);
	if (room) {
		memset(p + room - 8, 0, 8);
		memcpy(p, key, item->key_len);
	}
	msg->size += sizeof(*item) + room;
}

void fkv_msg_stamp(struct fkv_msg *msg, uint64_t id, uint64_t timeout_ns)
{
	struct fluxonkv_frame frame = {
		.size = (uint32_t)msg->size,
		.id = id,
	};

	memcpy(msg->data, &frame, sizeof(frame));
	memcpy(msg->data + sizeof(frame) +
	       offsetof(struct fluxonkv_req, timeout_ns),
	       &timeout_ns, sizeof(timeout_ns));
}

int fkv_reply_take(struct fkv_reply *reply, const void *body, size_t size)
{
	reply->body = size <= sizeof(reply->small) ? reply->small :
						     malloc(size);
	if (!reply->body)
		return -ENOMEM;
	memcpy(reply->body, body, size);
	reply->size = size;
	return 0;
}

void fkv_reply_done(struct fkv_reply *reply)
{
	if (reply->body != reply->small)
		free(reply->body);
	reply->body = NULL;
}

static bool all_zero(const uint8_t *p, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		if (p[i])
			return false;
	}
	return true;
}

static int proto(const char *what)
{
	return fkv_lib_fail(-EPROTO, "the daemon broke the protocol: %s",
			    what);
}

static size_t item_known(uint16_t op)
{
	if (op == FLUXONKV_OP_HELLO)
		return sizeof(struct fluxonkv_hello);
	if (op == FLUXONKV_OP_LIST)
		return sizeof(struct fluxonkv_listed);
	return sizeof(struct fluxonkv_result);
}

static int check_rep(const struct fkv_reply *r, uint16_t op, uint32_t nr)
{
	const struct fluxonkv_rep *rep = &r->rep;

	if (rep->size < sizeof(*rep) || rep->size > r->size)
		return proto("a reply header of an impossible size");
	if (!all_zero(r->body + sizeof(*rep), rep->size - sizeof(*rep)))
		return proto("reply fields that this library does not know");
	if (rep->op != op)
		return proto("a reply to another operation");
	if (rep->flags)
		return proto("unknown reply flags");
	if (rep->status > 0 || rep->status < -4095)
		return proto("a status that is no errno");
	if (rep->text_len > r->size - rep->size)
		return proto("text longer than the reply");
	if (rep->nr > FLUXONKV_BATCH_MAX)
		return proto("more results than a batch may have");
	if (nr != FKV_REPLY_ANY && rep->nr != nr && !(rep->status && !rep->nr))
		return proto("another number of results than was asked for");
	if (rep->nr && (rep->item_size < item_known(op) ||
			rep->item_size > 4096))
		return proto("results of an impossible size");
	return 0;
}

/* Fields of each result that this library does not know must be zero. */
static int check_items(const struct fkv_reply *r, uint16_t op)
{
	size_t known = item_known(op), size = r->rep.item_size;

	if (op == FLUXONKV_OP_LIST)
		return 0;	/* fkv_reply_listed() checks as it goes */
	if (r->items_size != r->rep.nr * size)
		return proto("a reply longer or shorter than its results");
	for (uint32_t i = 0; i < r->rep.nr; i++) {
		if (!all_zero(r->items + i * size + known, size - known))
			return proto("result fields that this library does "
				     "not know");
	}
	return 0;
}

int fkv_reply_parse(struct fkv_reply *r, uint16_t op, uint32_t nr)
{
	int err;

	if (r->size < sizeof(r->rep))
		return proto("a reply shorter than its header");
	memcpy(&r->rep, r->body, sizeof(r->rep));
	err = check_rep(r, op, nr);
	if (err)
		return err;
	r->items = r->body + r->rep.size;
	r->items_size = r->size - r->rep.size - r->rep.text_len;
	r->text = (const char *)r->items + r->items_size;
	return check_items(r, op);
}

struct fluxonkv_result fkv_reply_result(const struct fkv_reply *r, uint32_t i)
{
	struct fluxonkv_result res;

	memcpy(&res, r->items + (size_t)i * r->rep.item_size, sizeof(res));
	if (res.status > 0 || res.status < -4095)
		res.status = -EPROTO;
	return res;
}

int fkv_reply_listed(const struct fkv_reply *r, size_t *pos,
		     struct fluxonkv_listed *ret_listed, const void **ret_key)
{
	size_t left = r->items_size - *pos, size = r->rep.item_size, room;
	const uint8_t *p = r->items + *pos;
	struct fluxonkv_listed at;

	if (left < size)
		return proto("a list that ends inside a key");
	memcpy(&at, p, sizeof(at));
	if (!all_zero(p + sizeof(at), size - sizeof(at)))
		return proto("list fields that this library does not know");
	room = fkv_key_room(at.key_len);
	if (!at.key_len || at.key_len > FLUXONKV_KEY_MAX || left - size < room)
		return proto("a listed key of an impossible length");
	*ret_listed = at;
	*ret_key = p + size;
	*pos += size + room;
	return 0;
}

int fkv_reply_fail(const struct fkv_reply *r, const char *call, int err)
{
	if (r && r->body && r->rep.text_len)
		return fkv_lib_fail(err, "%s: %.*s", call,
				    (int)r->rep.text_len, r->text);
	return fkv_lib_fail(err, "%s: %s", call, fluxonkv_strerror(err));
}
