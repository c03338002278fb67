// SPDX-License-Identifier: Apache-2.0
/*
 * calls.c - client calls: one result per key, and an answer by the deadline
 */
#include "core/owner/internal.h"

static void reply(struct fkv_owner *o, struct fkv_call *call,
		  struct fkv_out *out)
{
	struct fkv_client *c = fkv_client_find(o, call->client);

	fkv_timer_clear(&o->timers, &call->timer);
	if (c) {
		TAILQ_REMOVE(&c->calls, call, link);
		c->nr_calls--;
		o->stats.calls--;
	}
	fkv_out_add(out, FKV_CMD_REPLY)->call = call;
}

/* The leading run of hits is what prefix caches ask for (K2). */
static void stat_finish(struct fkv_call *call)
{
	uint64_t n = 0;

	while (n < call->nr && !call->items[n].res.status)
		n++;
	call->ret_arg = n;
}

void fkv_item_done(struct fkv_owner *o, struct fkv_item *it, int status,
		   struct fkv_out *out)
{
	struct fkv_call *call = it->call;

	fkv_assert(!it->done && !it->fetch);
	it->done = true;
	it->op = 0;
	it->res.status = status;
	/* these have no result per item */
	if (status && (call->op == FLUXONKV_OP_LIST ||
		       call->op == FLUXONKV_OP_COUNT))
		call->status = status;
	if (--call->pending)
		return;
	if (call->op == FLUXONKV_OP_STAT)
		stat_finish(call);
	reply(o, call, out);
}

void fkv_item_text(struct fkv_item *it, const char *text)
{
	size_t n = text ? strlen(text) : 0;

	if (!n || it->call->text[0])
		return;
	if (n >= sizeof(it->call->text))
		n = sizeof(it->call->text) - 1;
	memcpy(it->call->text, text, n);
}

/* What an item answers when its call's deadline passed (K3). */
int fkv_item_timeout(const struct fkv_item *it)
{
	return it->call->timeout_ns ? -ETIMEDOUT : -EAGAIN;
}

static struct fkv_put *put_of_item(const struct fkv_owner *o,
				   const struct fkv_item *it)
{
	struct fkv_oop *op = it->op ? fkv_oop_find(o, it->op) : NULL;

	return op && op->type == FKV_OOP_PUT ?
		fkv_container_of(op, struct fkv_put, op) : NULL;
}

/* Nobody waits for this item any more; what it started goes on. */
static void item_detach(struct fkv_owner *o, struct fkv_item *it)
{
	struct fkv_oop *op;

	if (it->fetch)
		fkv_fetch_leave(it);
	if (!it->op)
		return;
	op = fkv_oop_find(o, it->op);
	fkv_assert(op);
	if (op->type == FKV_OOP_PUT)
		fkv_put_item_gone(fkv_container_of(op, struct fkv_put, op));
	else
		fkv_container_of(op, struct fkv_callop, op)->item = NULL;
	it->op = 0;
}

/* EAGAIN promises that nothing was done; of a commit only a put can tell. */
static int item_timeout(const struct fkv_owner *o, const struct fkv_item *it)
{
	struct fkv_put *put = put_of_item(o, it);
	int err = fkv_item_timeout(it);

	if (err == -EAGAIN && put && !fkv_put_undo(put))
		return -ETIMEDOUT;
	return err;
}

void fkv_call_expired(struct fkv_owner *o, struct fkv_call *call,
		      struct fkv_out *out)
{
	uint32_t nr = call->nr;

	for (uint32_t i = 0; i < nr; i++) {
		struct fkv_item *it = &call->items[i];
		bool last = call->pending == 1;
		int status;

		if (it->done)
			continue;
		o->stats.timeouts++;
		if (call->op == FLUXONKV_OP_GET)
			o->stats.get_errors++;
		status = item_timeout(o, it);
		item_detach(o, it);
		fkv_item_done(o, it, status, out);
		if (last)
			return;
	}
}

/* Its client is gone: no reply. */
void fkv_call_dropped(struct fkv_owner *o, struct fkv_call *call)
{
	struct fkv_client *c = fkv_client_find(o, call->client);

	for (uint32_t i = 0; i < call->nr; i++) {
		if (call->items[i].done)
			continue;
		if (call->op == FLUXONKV_OP_GET)
			o->stats.get_errors++;
		item_detach(o, &call->items[i]);
	}
	fkv_timer_clear(&o->timers, &call->timer);
	TAILQ_REMOVE(&c->calls, call, link);
	c->nr_calls--;
	o->stats.calls--;
	fkv_call_free(call);
}

static const enum fkv_msg_type callop_msg[] = {
	[FLUXONKV_OP_DELETE] = FKV_MSG_DELETE,
	[FLUXONKV_OP_STAT] = FKV_MSG_STAT,
	[FLUXONKV_OP_LIST] = FKV_MSG_LIST,
	[FLUXONKV_OP_COUNT] = FKV_MSG_COUNT,
};

static void callop_send(struct fkv_owner *o, struct fkv_callop *c,
			struct fkv_out *out)
{
	struct fkv_call *call = c->item->call;
	struct fkv_msg *msg;

	/* asked when there is somebody to ask */
	c->sent = fkv_home_up(o);
	msg = fkv_out_send(out, c->msg);
	msg->op = c->op.id;
	msg->key = c->key ? fkv_key_get(c->key) : NULL;
	if (call->op == FLUXONKV_OP_LIST) {
		struct fkv_key *cursor = call->items[1].key;

		msg->key2 = cursor ? fkv_key_get(cursor) : NULL;
		msg->n = call->arg;
	}
}

static void callop_start(struct fkv_owner *o, struct fkv_item *it,
			 struct fkv_out *out)
{
	struct fkv_call *call = it->call;
	struct fkv_callop *c = fkv_zalloc(sizeof(*c));

	if (!c) {
		fkv_item_done(o, it, -ENOMEM, out);
		return;
	}
	c->item = it;
	c->msg = callop_msg[call->op];
	c->warm = call->flags & FLUXONKV_REQ_WARM;
	c->key = it->key ? fkv_key_get(it->key) : NULL;
	fkv_oop_add(o, &c->op, FKV_OOP_CALL);
	o->stats.pending_ops++;
	it->op = c->op.id;
	callop_send(o, c, out);
}

static void callop_free(struct fkv_owner *o, struct fkv_callop *c)
{
	fkv_oop_del(o, &c->op);
	o->stats.pending_ops--;
	fkv_key_put(c->key);
	fkv_free(c);
}

static void callop_end(struct fkv_owner *o, struct fkv_callop *c, int status,
		       struct fkv_out *out)
{
	if (c->item) {
		c->item->op = 0;
		fkv_item_done(o, c->item, status, out);
	}
	callop_free(o, c);
}

/* What only looks can look again; a delete may have been, or not (K6h). */
void fkv_callop_lost(struct fkv_owner *o, struct fkv_callop *c,
		     struct fkv_out *out)
{
	if (!c->item) {
		callop_free(o, c);
	} else if (c->msg == FKV_MSG_DELETE && c->sent) {
		fkv_item_text(c->item, FKV_UNKNOWN_TEXT);
		callop_end(o, c, -ETIMEDOUT, out);
	}
}

void fkv_callop_resume(struct fkv_owner *o, struct fkv_callop *c,
		       struct fkv_out *out)
{
	if (c->item)
		callop_send(o, c, out);
	else
		callop_free(o, c);
}

static void callop_result(struct fkv_callop *c, struct fkv_msg *msg)
{
	struct fkv_call *call = c->item->call;

	switch (msg->type) {
	case FKV_MSG_STAT_R:
		c->item->res.len = msg->len;
		c->item->res.version = msg->put_id;
		c->item->res.source = msg->source;
		break;
	case FKV_MSG_LIST_R:
		call->listing = msg->listing;
		call->status = msg->res;
		msg->listing = NULL;
		break;
	case FKV_MSG_COUNT_R:
		call->ret_arg = msg->n;
		break;
	default:
		break;
	}
}

bool fkv_callop_expects(const struct fkv_owner *o, const struct fkv_msg *msg)
{
	const struct fkv_oop *op = fkv_oop_find(o, msg->op);

	return op && op->type == FKV_OOP_CALL;
}

void fkv_callop_answer(struct fkv_owner *o, struct fkv_msg *msg,
		       struct fkv_out *out)
{
	struct fkv_oop *op = fkv_oop_find(o, msg->op);
	struct fkv_callop *c;

	fkv_assert(op && op->type == FKV_OOP_CALL);
	c = fkv_container_of(op, struct fkv_callop, op);
	if (c->warm && !msg->res && msg->source == FLUXONKV_ON_SSD)
		fkv_owner_warm(o, c->key, out);
	if (c->item)
		callop_result(c, msg);
	callop_end(o, c, msg->res, out);
}

static void release(struct fkv_owner *o, struct fkv_item *it,
		    struct fkv_out *out)
{
	struct fkv_client *c = fkv_client_find(o, it->call->client);

	fkv_item_done(o, it, fkv_holder_release(o, c, it->id, out), out);
}

static void item_start(struct fkv_owner *o, struct fkv_item *it,
		       struct fkv_out *out)
{
	switch (it->call->op) {
	case FLUXONKV_OP_GET:
		fkv_owner_get(o, it, out);
		break;
	case FLUXONKV_OP_RELEASE:
		release(o, it, out);
		break;
	case FLUXONKV_OP_PUT_BEGIN:
		fkv_put_begin(o, it, out);
		break;
	case FLUXONKV_OP_PUT_EXTEND:
		fkv_put_extend(o, it, out);
		break;
	case FLUXONKV_OP_PUT_COMMIT:
		fkv_put_commit(o, it, out);
		break;
	case FLUXONKV_OP_PUT_ABORT:
		fkv_put_abort(o, it, out);
		break;
	default:
		callop_start(o, it, out);
		break;
	}
}

/* LIST's second item is its cursor, not a key to work on. */
static uint32_t nr_to_start(const struct fkv_call *call)
{
	return call->op == FLUXONKV_OP_LIST ? 1 : call->nr;
}

static int call_check(struct fkv_owner *o, struct fkv_call *call)
{
	struct fkv_client *c = fkv_client_find(o, call->client);

	if (!c)
		return -ENOMEM;
	if (c->nr_calls >= FKV_CLIENT_CALLS_MAX)
		return -EBUSY;
	if (call->op == FLUXONKV_OP_LIST &&
	    (!call->arg || call->arg > FKV_LIST_MAX))
		return -EINVAL;
	if (call->op == FLUXONKV_OP_LIST || call->op == FLUXONKV_OP_COUNT)
		for (uint32_t i = 0; i < call->nr; i++)
			if (call->items[i].done)
				return call->items[i].res.status;
	return 0;
}

/* A put touches first keys last, so that a prefix's head outlives its tail. */
static bool backwards(const struct fkv_call *call)
{
	return call->op == FLUXONKV_OP_PUT_COMMIT ||
	       call->op == FLUXONKV_OP_GET;
}

static void call_deadline(struct fkv_owner *o, struct fkv_call *call)
{
	bool put = call->op == FLUXONKV_OP_PUT_BEGIN ||
		   call->op == FLUXONKV_OP_PUT_COMMIT;
	uint64_t t = call->timeout_ns;

	/*
	 * The master ends a put's wait for room itself, and says more. The copy
	 * of a commit is work and no wait: who never waits gives it that long.
	 */
	if (put && (t || call->op == FLUXONKV_OP_PUT_COMMIT))
		t += FKV_TIMEOUT_GRACE;
	if (t > FKV_NEVER - 1 - o->now_ns)
		t = FKV_NEVER - 1 - o->now_ns;
	call->timer.kind = FKV_TIMER_CALL;
	fkv_timer_set(&o->timers, &call->timer, o->now_ns + t);
}

static struct fkv_key *commit_key(const struct fkv_owner *o,
				  const struct fkv_item *it)
{
	struct fkv_oop *op = fkv_oop_find(o, it->id);

	return op && op->type == FKV_OOP_PUT ?
		fkv_container_of(op, struct fkv_put, op)->key : NULL;
}

#define COMMIT_SLOTS	(2 * FLUXONKV_BATCH_MAX)

/*
 * Commits come by id. Those of one key are chained in their order: of several
 * puts of a key in a batch the last one's value stays, whatever order the
 * batch is begun in.
 */
static void commits_chain(const struct fkv_owner *o, struct fkv_call *call)
{
	uint16_t last[COMMIT_SLOTS] = { 0 };	/* item + 1, by hash */
	struct fkv_key *key;

	for (uint32_t i = 0; call->nr > 1 && i < call->nr; i++) {
		struct fkv_item *it = &call->items[i];
		uint64_t at;

		key = commit_key(o, it);
		if (!key)
			continue;
		it->key = fkv_key_get(key);
		at = key->hash.low % COMMIT_SLOTS;
		while (last[at] &&
		       !fkv_key_equal(call->items[last[at] - 1].key, key))
			at = (at + 1) % COMMIT_SLOTS;
		if (last[at]) {
			call->items[last[at] - 1].next = i;
			it->follows = true;
		}
		last[at] = (uint16_t)(i + 1);
	}
}

/* @it and, of commits, what is chained to it. */
static void items_start(struct fkv_owner *o, struct fkv_item *it,
			struct fkv_out *out)
{
	struct fkv_item *items = it->call->items;
	uint32_t next;

	if (it->follows)
		return;
	do {
		next = it->next;
		if (!it->done)
			item_start(o, it, out);
		it = &items[next];
	} while (next);
}

void fkv_owner_call(struct fkv_owner *o, struct fkv_call *call,
		    struct fkv_out *out)
{
	struct fkv_client *c = fkv_client_find(o, call->client);
	uint32_t nr = nr_to_start(call);

	call->status = call_check(o, call);
	if (call->status) {
		/* a refusal has no results; LIST's item stays its prefix */
		while (call->op != FLUXONKV_OP_LIST && call->nr)
			fkv_key_put(call->items[--call->nr].key);
		fkv_out_add(out, FKV_CMD_REPLY)->call = call;
		return;
	}
	TAILQ_INSERT_TAIL(&c->calls, call, link);
	c->nr_calls++;
	o->stats.calls++;
	call_deadline(o, call);
	/* one more, so that the call cannot end while it is begun */
	call->pending++;
	if (nr < call->nr)
		call->pending -= call->nr - nr;
	if (call->op == FLUXONKV_OP_PUT_COMMIT)
		commits_chain(o, call);
	for (uint32_t i = 0; i < nr; i++)
		items_start(o, &call->items[backwards(call) ? nr - 1 - i : i],
			    out);
	if (--call->pending == 0) {
		if (call->op == FLUXONKV_OP_STAT)
			stat_finish(call);
		reply(o, call, out);
	}
}
