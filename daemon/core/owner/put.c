// SPDX-License-Identifier: Apache-2.0
/*
 * put.c - open puts: from begin until commit, abort, time-out or death (P5)
 */
#include "core/owner/internal.h"

static struct fkv_put *put_of(const struct fkv_owner *o, uint64_t id)
{
	struct fkv_oop *op = fkv_oop_find(o, id);

	if (!op || op->type != FKV_OOP_PUT)
		return NULL;
	return fkv_container_of(op, struct fkv_put, op);
}

/* Only the client that began a put may name it. */
static struct fkv_put *put_of_item(const struct fkv_owner *o,
				   const struct fkv_item *it)
{
	struct fkv_put *put = put_of(o, it->id);

	if (!put || !put->client || put->client->id != it->call->client)
		return NULL;
	if (put->state == FKV_PUT_OPEN || put->state == FKV_PUT_EXPIRED)
		return put;
	return NULL;
}

/* It is the client's no more: cap, arena, list. */
static void leave_client(struct fkv_owner *o, struct fkv_put *put)
{
	struct fkv_client *c = put->client;

	if (!c)
		return;
	fkv_client_uncharge(o, c, put->len);
	if (c->arena_bytes && put->len)
		fkv_extents_free(&c->arena, put->arena_offset, put->len);
	TAILQ_REMOVE(&c->puts, put, link);
	c->nr_puts--;
	put->client = NULL;
}

static void put_free(struct fkv_owner *o, struct fkv_put *put)
{
	leave_client(o, put);
	if (put->state == FKV_PUT_EXPIRED)
		o->stats.expired_puts--;
	o->stats.open_puts--;
	fkv_oop_del(o, &put->op);
	fkv_key_put(put->key);
	fkv_free(put);
}

static int charge(struct fkv_owner *o, struct fkv_item *it,
		  struct fkv_client *c, uint64_t *ret_arena)
{
	int err;

	if (c->nr_puts >= FKV_CLIENT_PUTS_MAX) {
		fkv_item_text(it, "this client has 4,096 open puts: commit or "
			      "abort some");
		return -EDQUOT;
	}
	if (c->arena_bytes && it->len > c->arena_bytes) {
		fkv_item_text(it, "larger than the put area of a client of "
			      "another user (64 MiB)");
		return -EFBIG;
	}
	if (o->cfg.put_limit && it->len > o->cfg.put_limit) {
		fkv_item_text(it, "larger than 85 % of the memory segment, "
			      "which is what puts may use of it");
		return -EFBIG;
	}
	if (o->cfg.hold_limit && fkv_extent_bytes(it->len) >
				 o->cfg.hold_limit) {
		fkv_item_text(it, "larger than what a client or user may "
			      "hold (limits.client_pinned_bytes, "
			      "limits.uid_pinned_bytes)");
		return -EFBIG;
	}
	err = fkv_client_charge(o, c, it->len);
	if (err) {
		fkv_item_text(it, "over the cap of pinned bytes of this "
			      "client or user: commit puts or release "
			      "holders first");
		return err;
	}
	if (!c->arena_bytes || !it->len)
		return 0;
	err = fkv_extents_alloc(&c->arena, it->len, ret_arena);
	if (err) {
		fkv_client_uncharge(o, c, it->len);
		fkv_item_text(it, "the put area of this client is full: "
			      "commit open puts first");
		return err == -ENOSPC ? -EDQUOT : err;
	}
	return 0;
}

void fkv_put_begin(struct fkv_owner *o, struct fkv_item *it,
		   struct fkv_out *out)
{
	struct fkv_client *c = fkv_client_find(o, it->call->client);
	struct fkv_put *put = fkv_zalloc(sizeof(*put));
	struct fkv_msg *msg;
	int err = -ENOMEM;

	o->stats.puts++;
	if (put)
		err = charge(o, it, c, &put->arena_offset);
	if (err) {
		o->stats.put_errors++;
		fkv_free(put);
		fkv_item_done(o, it, err, out);
		return;
	}
	put->client = c;
	put->item = it;
	put->key = fkv_key_get(it->key);
	put->len = it->len;
	TAILQ_INSERT_TAIL(&c->puts, put, link);
	c->nr_puts++;
	fkv_oop_add(o, &put->op, FKV_OOP_PUT);
	put->op.timer.kind = FKV_TIMER_PUT;
	o->stats.open_puts++;
	it->op = put->op.id;
	msg = fkv_out_send(out, FKV_MSG_PUT_START);
	msg->op = put->op.id;
	msg->key = fkv_key_get(put->key);
	msg->len = put->len;
	msg->flags = it->flags;
	msg->deadline_ns = o->now_ns + it->call->timeout_ns < o->now_ns ?
		FKV_NEVER : o->now_ns + it->call->timeout_ns;
}

/* Over without effect; @held: its client may still write to the extent. */
static void revoke(struct fkv_put *put, bool held, struct fkv_out *out)
{
	struct fkv_msg *msg = fkv_out_send(out, FKV_MSG_PUT_REVOKE);

	msg->op = put->op.id;
	msg->held = held;
}

static void item_end(struct fkv_owner *o, struct fkv_put *put, int status,
		     struct fkv_out *out)
{
	struct fkv_item *it = put->item;

	put->item = NULL;
	if (!it)
		return;
	it->op = 0;
	if (status)
		o->stats.put_errors++;
	fkv_item_done(o, it, status, out);
}

void fkv_put_item_gone(struct fkv_put *put)
{
	put->item = NULL;
}

bool fkv_put_undo(struct fkv_put *put)
{
	if (put->state == FKV_PUT_COPYING)
		put->aborted = true;
	return put->state != FKV_PUT_DONE;
}

void fkv_put_plan(struct fkv_owner *o, struct fkv_msg *msg,
		  struct fkv_out *out)
{
	struct fkv_put *put = put_of(o, msg->op);
	struct fkv_item *it;
	int err = msg->res;

	fkv_assert(put && put->state == FKV_PUT_PLANNING);
	it = put->item;
	if (err) {
		if (it && err == -ENOSPC && !it->call->timeout_ns &&
		    !(it->flags & FLUXONKV_PUT_NOWAIT))
			err = -EAGAIN;
		if (it)
			fkv_item_text(it, msg->text);
		item_end(o, put, err, out);
		put_free(o, put);
		return;
	}
	put->extent = msg->extent;
	put->offset = msg->offset;
	if (!it) {
		revoke(put, false, out);
		put_free(o, put);
		return;
	}
	put->state = FKV_PUT_OPEN;
	fkv_timer_set(&o->timers, &put->op.timer,
		      o->now_ns + FKV_PUT_OPEN_MAX);
	it->res.id = put->op.id;
	it->res.len = put->len;
	it->res.offset = put->client->arena_bytes ? put->arena_offset :
		put->offset;
	item_end(o, put, 0, out);
}

void fkv_put_extend(struct fkv_owner *o, struct fkv_item *it,
		    struct fkv_out *out)
{
	struct fkv_put *put = put_of_item(o, it);
	int err = 0;

	if (!put)
		err = -EINVAL;
	else if (put->state == FKV_PUT_EXPIRED)
		err = -ETIMEDOUT;
	else
		fkv_timer_set(&o->timers, &put->op.timer,
			      o->now_ns + FKV_PUT_OPEN_MAX);
	fkv_item_done(o, it, err, out);
}

static void quiet(struct fkv_put *put, struct fkv_out *out)
{
	struct fkv_msg *msg = fkv_out_send(out, FKV_MSG_QUIET);

	msg->extent = put->extent;
	msg->n = 1;
}

/* Commit or abort of a put that timed out: now its client is done writing. */
static void end_expired(struct fkv_owner *o, struct fkv_put *put,
			struct fkv_out *out)
{
	if (!put->client || !put->client->arena_bytes)
		quiet(put, out);
	put_free(o, put);
}

static void send_done(struct fkv_owner *o, struct fkv_put *put,
		      struct fkv_out *out)
{
	put->state = FKV_PUT_DONE;
	fkv_timer_clear(&o->timers, &put->op.timer);
	fkv_out_send(out, FKV_MSG_PUT_DONE)->op = put->op.id;
}

void fkv_put_commit(struct fkv_owner *o, struct fkv_item *it,
		    struct fkv_out *out)
{
	struct fkv_put *put = put_of_item(o, it);
	struct fkv_cmd *cmd;

	if (!put) {
		o->stats.put_errors++;
		fkv_item_text(it, "no open put of this client has that id");
		fkv_item_done(o, it, -EINVAL, out);
		return;
	}
	if (put->state == FKV_PUT_EXPIRED) {
		end_expired(o, put, out);
		o->stats.put_errors++;
		fkv_item_text(it, "the put was open for more than 60 s "
			      "without extend: it is over");
		fkv_item_done(o, it, -ETIMEDOUT, out);
		return;
	}
	put->item = it;
	it->op = put->op.id;
	if (!put->client->arena_bytes || !put->len) {
		send_done(o, put, out);
		return;
	}
	put->state = FKV_PUT_COPYING;
	fkv_timer_clear(&o->timers, &put->op.timer);
	cmd = fkv_out_add(out, FKV_CMD_COPY);
	cmd->token = put->op.id;
	cmd->client = put->client->id;
	cmd->from = put->arena_offset;
	cmd->offset = put->offset;
	cmd->len = put->len;
}

void fkv_put_copied(struct fkv_owner *o, uint64_t token, int res,
		    struct fkv_out *out)
{
	struct fkv_put *put = put_of(o, token);

	if (!put || put->state != FKV_PUT_COPYING) {
		o->stats.stale_tokens++;
		return;
	}
	if (res || put->aborted) {
		revoke(put, false, out);
		item_end(o, put, res ? res : -ECANCELED, out);
		put_free(o, put);
		return;
	}
	send_done(o, put, out);
}

void fkv_put_abort(struct fkv_owner *o, struct fkv_item *it,
		   struct fkv_out *out)
{
	struct fkv_put *put = put_of_item(o, it);

	if (!put) {
		fkv_item_done(o, it, -EINVAL, out);
		return;
	}
	if (put->state == FKV_PUT_EXPIRED) {
		end_expired(o, put, out);
	} else {
		revoke(put, false, out);
		put_free(o, put);
	}
	fkv_item_done(o, it, 0, out);
}

/* Published: the put ends, the entry lives. */
void fkv_put_done(struct fkv_owner *o, struct fkv_msg *msg,
		  struct fkv_out *out)
{
	struct fkv_put *put = put_of(o, msg->op);
	struct fkv_entry *e;
	int err = msg->res;

	fkv_assert(put && put->state == FKV_PUT_DONE);
	if (!err) {
		msg->offset = put->offset;
		msg->len = put->len;
		e = fkv_entry_create(o, put->key, msg, msg->grant, out);
		o->stats.bytes_put += put->len;
		if (!e)
			quiet(put, out);
		if (put->item)
			put->item->res.version = msg->put_id;
		leave_client(o, put);
		if (put->item && put->item->flags & FLUXONKV_COMMIT_HOLD)
			err = e ? fkv_holder_give(o, put->item, e) : -ENOMEM;
	}
	item_end(o, put, err, out);
	put_free(o, put);
}

/* Who can stop the client from writing does, and aborts the put for it. */
static void shut(const struct fkv_put *put, struct fkv_out *out)
{
	struct fkv_cmd *cmd = fkv_out_add(out, FKV_CMD_SHUT);

	cmd->client = put->client->id;
	cmd->token = put->op.id;
}

/*
 * 60 s without commit or extend: the key is free at once. A client that maps
 * the segment may still write, so its extent waits for it.
 */
void fkv_put_expired(struct fkv_owner *o, struct fkv_put *put,
		     struct fkv_out *out)
{
	if (put->state != FKV_PUT_OPEN)
		return;
	o->stats.put_timeouts++;
	revoke(put, !put->client->arena_bytes, out);
	put->state = FKV_PUT_EXPIRED;
	o->stats.expired_puts++;
	if (!put->client->arena_bytes)
		shut(put, out);
}

/* The connection is closed: the client cannot write any more. */
void fkv_put_client_gone(struct fkv_owner *o, struct fkv_put *put,
			 struct fkv_out *out)
{
	switch (put->state) {
	case FKV_PUT_OPEN:
		revoke(put, false, out);
		put_free(o, put);
		break;
	case FKV_PUT_EXPIRED:
		end_expired(o, put, out);
		break;
	case FKV_PUT_COPYING:
		put->aborted = true;
		leave_client(o, put);
		break;
	case FKV_PUT_PLANNING:
		/* it may wait for room: nobody behind it waits for the dead */
		fkv_out_send(out, FKV_MSG_PUT_CANCEL)->op = put->op.id;
		leave_client(o, put);
		break;
	case FKV_PUT_DONE:
		leave_client(o, put);
		break;
	}
}
