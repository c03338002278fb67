// SPDX-License-Identifier: Apache-2.0
#include "held.h"

struct cap {
	struct fkv_pins_cap ops;
	struct fluxonkv *client;
	struct fkv_stripe *stripe;
};

static bool cap_take(struct fkv_pins_cap *ops, uint64_t len)
{
	struct cap *cap = (struct cap *)ops;

	return fkv_cap_take(cap->client, cap->stripe, len);
}

static void cap_give(struct fkv_pins_cap *ops, uint64_t len)
{
	fkv_cap_give(((struct cap *)ops)->client, len);
}

int fkv_hit(struct fluxonkv *client, const struct fluxonkv_key *key,
	    struct fkv_conn **ret_conn, struct fkv_pin *ret_pin)
{
	struct fkv_stripe *stripe = fkv_client_stripe(client);
	struct cap cap = { { cap_take, cap_give }, client, stripe };
	enum fkv_pins_answer answer = FKV_PINS_ASK;
	struct fkv_conn *conn;

	/* pairs with reap(): it sees us busy, or we see the new connection */
	__atomic_fetch_add(&stripe->busy, 1, __ATOMIC_SEQ_CST);
	conn = __atomic_load_n(&client->conn, __ATOMIC_SEQ_CST);
	if (fkv_likely(conn->pins.index && !fkv_conn_dead(conn)))
		answer = fkv_pins_get(&conn->pins, key, &cap.ops, ret_pin);
	/* release: who sees us gone sees our pin */
	__atomic_fetch_sub(&stripe->busy, 1, __ATOMIC_RELEASE);
	*ret_conn = conn;
	if (fkv_likely(answer == FKV_PINS_HIT))
		return 0;
	return answer == FKV_PINS_REFUSED ? -EDQUOT : FKV_PENDING;
}

static const struct fluxonkv_key *key_at(const struct fkv_ask *ask, size_t i)
{
	return (const void *)((const char *)ask->items + i * ask->stride);
}

static bool pending_at(const struct fkv_ask *ask, size_t i)
{
	const char *p = (const char *)ask->status + i * ask->status_stride;

	return *(const int *)(const void *)p == FKV_PENDING;
}

static int build(const struct fkv_ask *ask, struct fkv_msg *msg)
{
	struct fluxonkv_req req = {
		.size = sizeof(req),
		.op = ask->op,
		.flags = ask->flags,
		.item_size = sizeof(struct fluxonkv_item),
	};
	size_t room = 0;
	int err;

	for (size_t i = 0; i < ask->n; i++) {
		if (!pending_at(ask, i))
			continue;
		room += fkv_key_room(key_at(ask, i)->len);
		req.nr++;
	}
	err = fkv_msg_init(msg, &req, room);
	for (size_t i = 0; !err && i < ask->n; i++) {
		struct fluxonkv_item item = { 0 };

		if (!pending_at(ask, i))
			continue;
		item.key_len = (uint32_t)key_at(ask, i)->len;
		fkv_msg_add(msg, &item, key_at(ask, i)->data);
	}
	return err;
}

int fkv_ask(struct fluxonkv *client, const struct fkv_ask *ask,
	    struct fkv_reply *ret_reply, struct fkv_conn **ret_conn)
{
	struct fkv_msg msg;
	int err = build(ask, &msg);

	if (err)
		return err;
	err = fkv_client_call(client, &msg, ask->again, ask->deadline,
			      ret_reply, ret_conn);
	fkv_msg_done(&msg);
	if (!err && ret_reply->rep.status)
		fkv_reply_fail(ret_reply, ask->call, ret_reply->rep.status);
	return err;
}

struct fluxonkv_result fkv_answer(const struct fkv_reply *reply,
				  const char *call, uint32_t i)
{
	struct fluxonkv_result res = { .status = reply->rep.status };

	if (i < reply->rep.nr) {
		res = fkv_reply_result(reply, i);
		if (!res.status && !res.id)
			res.status = reply->rep.status;
	}
	if (res.status)
		fkv_reply_fail(reply, call, res.status);
	return res;
}

int fkv_answer_check(const struct fkv_conn *conn,
		     const struct fluxonkv_result *res)
{
	uint64_t bytes = conn->hello.segment_bytes;

	if (!res->id)
		return fkv_lib_fail(-EPROTO, "the daemon broke the protocol: "
				    "a holder without an id");
	if (res->len > bytes || res->offset > bytes - res->len)
		return fkv_lib_fail(-EPROTO, "the daemon broke the protocol: "
				    "a value outside of the segment");
	return 0;
}
