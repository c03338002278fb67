// SPDX-License-Identifier: Apache-2.0
/*
 * put.c - open puts: from begin until commit, abort, time-out or death (P5)
 */
#include "core/owner/internal.h"

#define LOST_TEXT	"this host lost its place in the cluster meanwhile, and " \
			"the put with it: put again"

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

static void send_start(struct fkv_put *put, struct fkv_out *out)
{
	struct fkv_msg *msg = fkv_out_send(out, FKV_MSG_PUT_START);

	msg->op = put->op.id;
	msg->key = fkv_key_get(put->key);
	msg->len = put->len;
	msg->flags = put->item->flags;
	msg->deadline_ns = put->deadline_ns;
}

void fkv_put_begin(struct fkv_owner *o, struct fkv_item *it,
		   struct fkv_out *out)
{
	struct fkv_client *c = fkv_client_find(o, it->call->client);
	struct fkv_put *put = fkv_zalloc(sizeof(*put));
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
	put->deadline_ns = o->now_ns + it->call->timeout_ns < o->now_ns ?
		FKV_NEVER : o->now_ns + it->call->timeout_ns;
	send_start(put, out);
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
	if (put->state == FKV_PUT_COPYING || put->state == FKV_PUT_PUSHING)
		put->aborted = true;
	return put->state != FKV_PUT_DONE;
}

bool fkv_put_expects(const struct fkv_owner *o, const struct fkv_msg *msg)
{
	const struct fkv_put *put = put_of(o, msg->op);

	return put && put->state == (msg->type == FKV_MSG_PUT_PLAN ?
				     FKV_PUT_PLANNING : FKV_PUT_DONE);
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
	put->incarnation = msg->incarnation;
	put->remote = msg->remote;
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

	msg->extent = put->lost ? 0 : put->extent;
	msg->offset = put->lost ? put->offset : 0;
	msg->n = 1;
}

bool fkv_put_is_held(const struct fkv_put *put)
{
	return !put->client || !put->client->arena_bytes;
}

/* Commit or abort of a put that timed out: now its client is done writing. */
static void end_expired(struct fkv_owner *o, struct fkv_put *put,
			struct fkv_out *out)
{
	if (fkv_put_is_held(put) && (put->len || !put->lost))
		quiet(put, out);
	put_free(o, put);
}

static struct fkv_msg *send_done(struct fkv_owner *o, struct fkv_put *put,
				 struct fkv_out *out)
{
	struct fkv_msg *msg;

	put->state = FKV_PUT_DONE;
	fkv_timer_clear(&o->timers, &put->op.timer);
	msg = fkv_out_send(out, FKV_MSG_PUT_DONE);
	msg->op = put->op.id;
	return msg;
}

/* It is all in our segment: to where it is to be. */
static void written(struct fkv_owner *o, struct fkv_put *put,
		    struct fkv_out *out)
{
	struct fkv_cmd *cmd;

	if (!put->incarnation || !put->len) {
		send_done(o, put, out);
		return;
	}
	put->state = FKV_PUT_PUSHING;
	fkv_timer_set(&o->timers, &put->op.timer,
		      o->now_ns + FKV_XFER_STALL_NS);
	cmd = fkv_out_add(out, FKV_CMD_PUSH);
	cmd->token = put->op.id;
	cmd->from = put->offset;
	cmd->offset = put->remote;
	cmd->len = put->len;
	cmd->xfer.incarnation = put->incarnation;
	cmd->xfer.op = put->op.id;
	cmd->xfer.last = true;
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
		bool lost = put->lost;

		end_expired(o, put, out);
		fkv_item_text(it, lost ? LOST_TEXT : "the put was open for "
			      "more than 60 s without extend: it is over");
		o->stats.put_errors++;
		fkv_item_done(o, it, lost ? -ESTALE : -ETIMEDOUT, out);
		return;
	}
	put->item = it;
	it->op = put->op.id;
	if (!put->client->arena_bytes || !put->len) {
		written(o, put, out);
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

static void fail(struct fkv_owner *o, struct fkv_put *put, int err,
		 const char *text, struct fkv_out *out)
{
	if (put->item)
		fkv_item_text(put->item, text);
	item_end(o, put, err, out);
	put_free(o, put);
}

static void undo(struct fkv_owner *o, struct fkv_put *put, int err,
		 struct fkv_out *out)
{
	revoke(put, false, out);
	fail(o, put, err, NULL, out);
}

void fkv_put_copied(struct fkv_owner *o, uint64_t token, int res,
		    struct fkv_out *out)
{
	struct fkv_put *put = put_of(o, token);

	if (!put || put->state != FKV_PUT_COPYING) {
		o->stats.stale_tokens++;
		return;
	}
	if (put->lost)
		fail(o, put, -ESTALE, LOST_TEXT, out);
	else if (res || put->aborted)
		undo(o, put, res ? res : -ECANCELED, out);
	else
		written(o, put, out);
}

/*
 * The push ended. When it failed the master makes of what was staged here the
 * put's only replica: nothing is asked of the client twice.
 */
void fkv_put_moved(struct fkv_owner *o, struct fkv_put *put, int res, bool said,
		   struct fkv_out *out)
{
	struct fkv_msg *msg;

	if (put->lost) {
		fail(o, put, -ESTALE, LOST_TEXT, out);
		return;
	}
	if (put->aborted) {
		undo(o, put, -ECANCELED, out);
		return;
	}
	if (!res)
		o->stats.bytes_pushed += put->len;
	msg = send_done(o, put, out);
	msg->res = res;
	msg->suspect = res && !said && (res != -ECANCELED || put->stalled);
}

void fkv_put_progress(struct fkv_owner *o, struct fkv_put *put)
{
	if (put->state == FKV_PUT_PUSHING)
		fkv_timer_set(&o->timers, &put->op.timer,
			      o->now_ns + FKV_XFER_STALL_NS);
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
		if (e && !msg->grant)
			fkv_entry_pin(o, e);
		if (put->item && put->item->flags & FLUXONKV_COMMIT_HOLD)
			err = e ? fkv_holder_give(o, put->item, e) : -ENOMEM;
		/* of a put at another owner nothing stays here but holders */
		if (e && !msg->grant)
			fkv_entry_unpin(o, e, out);
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

static void expire(struct fkv_owner *o, struct fkv_put *put,
		   struct fkv_out *out)
{
	put->state = FKV_PUT_EXPIRED;
	o->stats.expired_puts++;
	if (!put->client->arena_bytes)
		shut(put, out);
}

/*
 * 60 s without commit or extend: the key is free at once. A client that maps
 * the segment may still write, so its extent waits for it.
 */
void fkv_put_expired(struct fkv_owner *o, struct fkv_put *put,
		     struct fkv_out *out)
{
	if (put->state == FKV_PUT_PUSHING) {
		o->stats.stalls++;
		put->stalled = true;
		fkv_xfer_cancel(o, &put->op, out);
		return;
	}
	if (put->state != FKV_PUT_OPEN)
		return;
	o->stats.put_timeouts++;
	revoke(put, !put->client->arena_bytes, out);
	expire(o, put, out);
}

/* F0: what was not answered is void. Of a commit nobody knows the outcome. */
void fkv_put_lost(struct fkv_owner *o, struct fkv_put *put,
		  struct fkv_out *out)
{
	switch (put->state) {
	case FKV_PUT_PLANNING:
		break;
	case FKV_PUT_OPEN:
		put->lost = true;
		fkv_timer_clear(&o->timers, &put->op.timer);
		expire(o, put, out);
		break;
	case FKV_PUT_COPYING:
	case FKV_PUT_PUSHING:
	case FKV_PUT_EXPIRED:
		put->lost = true;
		break;
	case FKV_PUT_DONE:
		fail(o, put, -ETIMEDOUT, FKV_UNKNOWN_TEXT, out);
		break;
	}
}

void fkv_put_resume(struct fkv_owner *o, struct fkv_put *put,
		    struct fkv_out *out)
{
	if (put->state != FKV_PUT_PLANNING)
		return;
	if (put->item)
		send_start(put, out);
	else
		put_free(o, put);
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
	case FKV_PUT_PUSHING:
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
