// SPDX-License-Identifier: Apache-2.0
/*
 * fetch.c - gets that the local index cannot answer
 *
 * One fetch per absent key serves all who ask meanwhile (G2). It belongs to
 * the owner: a caller's deadline ends only its own wait. A fetch of a version
 * that was retired meanwhile takes no new callers and publishes nothing.
 */
#include "core/owner/internal.h"

/*
 * A fetch of @key that one of @class may join. One that waits for room by a
 * tighter limit than its own is none: get_into may use more than get (P4).
 */
static struct fkv_fetch *fetch_find(const struct fkv_owner *o,
				    const struct fkv_key *key,
				    enum fkv_class class)
{
	struct fkv_node *n;

	for (n = fkv_table_first(&o->fetches, key->hash.low); n;
	     n = fkv_table_next(n)) {
		struct fkv_fetch *f;

		f = fkv_container_of(n, struct fkv_fetch, by_key);
		if (f->state == FKV_FETCH_PLANNING && f->class > class)
			continue;
		if (fkv_key_equal(f->key, key))
			return f;
	}
	return NULL;
}

static void unjoin(struct fkv_owner *o, struct fkv_fetch *f)
{
	if (!f->joinable)
		return;
	f->joinable = false;
	fkv_table_del(&o->fetches, &f->by_key);
}

static void start(struct fkv_fetch *f, struct fkv_out *out)
{
	struct fkv_msg *msg = fkv_out_send(out, FKV_MSG_GET_START);

	f->state = FKV_FETCH_PLANNING;
	f->asked++;
	msg->op = f->op.id;
	msg->key = fkv_key_get(f->key);
	msg->class = f->class;
	msg->deadline_ns = f->deadline_ns;
}

/* Its limit is its own: whoever asks for it first may wait shortest (G2). */
static struct fkv_fetch *fetch_create(struct fkv_owner *o, struct fkv_key *key,
				      enum fkv_class class)
{
	struct fkv_fetch *f = fkv_zalloc(sizeof(*f));

	if (!f)
		return NULL;
	f->key = fkv_key_get(key);
	f->class = class;
	f->joinable = true;
	f->deadline_ns = o->now_ns + FKV_FETCH_MAX;
	TAILQ_INIT(&f->waiters);
	fkv_table_add(&o->fetches, &f->by_key, key->hash.low);
	fkv_oop_add(o, &f->op, FKV_OOP_FETCH);
	f->op.timer.kind = FKV_TIMER_FETCH;
	fkv_timer_set(&o->timers, &f->op.timer, o->now_ns + FKV_FETCH_MAX);
	o->stats.fetches++;
	return f;
}

static void fetch_free(struct fkv_owner *o, struct fkv_fetch *f)
{
	fkv_assert(TAILQ_EMPTY(&f->waiters));
	unjoin(o, f);
	fkv_oop_del(o, &f->op);
	fkv_key_put(f->key);
	fkv_free(f);
	o->stats.fetches--;
}

static void join(struct fkv_fetch *f, struct fkv_item *it)
{
	it->fetch = f;
	it->asked = f->asked;
	TAILQ_INSERT_TAIL(&f->waiters, it, link);
}

void fkv_fetch_leave(struct fkv_item *it)
{
	TAILQ_REMOVE(&it->fetch->waiters, it, link);
	it->fetch = NULL;
}

static void get_count(struct fkv_owner *o, const struct fkv_item *it,
		      int status)
{
	if (!status && it->res.source == FLUXONKV_SOURCE_SSD_LOCAL)
		o->stats.hits_ssd++;
	else if (!status)
		o->stats.hits_local++;
	else if (status == -ENOENT)
		o->stats.misses++;
	else
		o->stats.get_errors++;
}

static void get_end(struct fkv_owner *o, struct fkv_item *it, int status,
		    struct fkv_out *out)
{
	if (status == -ENOENT)
		it->res.source = FLUXONKV_SOURCE_MISS;
	else if (status)
		it->res.source = FLUXONKV_SOURCE_NONE;
	get_count(o, it, status);
	fkv_item_done(o, it, status, out);
}

/* A holder of @e, or why not. */
static void get_hold(struct fkv_owner *o, struct fkv_item *it,
		     struct fkv_entry *e, uint32_t source, struct fkv_out *out)
{
	int err = fkv_holder_give(o, it, e);

	it->res.source = source;
	get_end(o, it, err, out);
}

void fkv_owner_get(struct fkv_owner *o, struct fkv_item *it,
		   struct fkv_out *out)
{
	struct fkv_entry *e = fkv_entry_find(o, it->key);
	enum fkv_class class = it->call->flags & FLUXONKV_REQ_INTO ?
		FKV_CLASS_INTO : FKV_CLASS_GET;
	struct fkv_fetch *f;

	o->stats.gets++;
	if (e) {
		get_hold(o, it, e, FLUXONKV_SOURCE_LOCAL, out);
		return;
	}
	f = fetch_find(o, it->key, class);
	if (f) {
		join(f, it);
		return;
	}
	f = fetch_create(o, it->key, class);
	if (!f) {
		get_end(o, it, -ENOMEM, out);
		return;
	}
	join(f, it);
	start(f, out);
}

/* Fetch for nobody in particular (K2 WARM). */
void fkv_owner_warm(struct fkv_owner *o, struct fkv_key *key,
		    struct fkv_out *out)
{
	struct fkv_fetch *f;

	if (fkv_entry_find(o, key) || fetch_find(o, key, FKV_CLASS_GET))
		return;
	f = fetch_create(o, key, FKV_CLASS_GET);
	if (f)
		start(f, out);
}

static void fail_all(struct fkv_owner *o, struct fkv_fetch *f, int err,
		     const char *text, struct fkv_out *out)
{
	struct fkv_item *it;

	while ((it = TAILQ_FIRST(&f->waiters))) {
		int status = err;

		fkv_fetch_leave(it);
		if (err == -ENOSPC && !it->call->timeout_ns)
			status = -EAGAIN;
		fkv_item_text(it, text);
		get_end(o, it, status, out);
	}
}

static void fail(struct fkv_owner *o, struct fkv_fetch *f, int err,
		 const char *text, struct fkv_out *out)
{
	unjoin(o, f);
	fail_all(o, f, err, text, out);
	fetch_free(o, f);
}

/* The master gave a reference: hand out holders, publish if granted. */
static void deliver(struct fkv_owner *o, struct fkv_fetch *f,
		    const struct fkv_msg *given, uint32_t source,
		    struct fkv_out *out)
{
	struct fkv_entry *e;
	struct fkv_item *it;

	unjoin(o, f);
	e = fkv_entry_create(o, f->key, given, given->grant, out);
	if (!e) {
		struct fkv_msg *msg = fkv_out_send(out, FKV_MSG_QUIET);

		msg->extent = given->extent;
		msg->n = 1;
		fail(o, f, -ENOMEM, NULL, out);
		return;
	}
	fkv_entry_pin(o, e);
	while ((it = TAILQ_FIRST(&f->waiters))) {
		fkv_fetch_leave(it);
		get_hold(o, it, e, source, out);
	}
	fetch_free(o, f);
	fkv_entry_unpin(o, e, out);
}

/* Ask the master again, with a new op: the old one is over there. */
static void restart(struct fkv_owner *o, struct fkv_fetch *f,
		  struct fkv_out *out)
{
	uint64_t until = f->op.timer.armed ? f->op.timer.when_ns : FKV_NEVER;

	o->stats.refetches++;
	fkv_oop_del(o, &f->op);
	fkv_oop_add(o, &f->op, FKV_OOP_FETCH);
	fkv_timer_set(&o->timers, &f->op.timer, until);
	start(f, out);
}

/* Its source failed: look for another one. */
static void again(struct fkv_owner *o, struct fkv_fetch *f,
		  struct fkv_out *out)
{
	if (f->given_up)
		fetch_free(o, f);
	else if (++f->tries >= FKV_FETCH_TRIES)
		fail(o, f, -EIO, "its SSD copy could not be read", out);
	else
		restart(o, f, out);
}

/*
 * The master has no such key. It looked when it was asked: whoever joined
 * since then may have seen a put end before its get began, and is asked for
 * again.
 */
static void missed(struct fkv_owner *o, struct fkv_fetch *f,
		   struct fkv_out *out)
{
	struct fkv_item *it, *next;

	for (it = TAILQ_FIRST(&f->waiters); it; it = next) {
		next = TAILQ_NEXT(it, link);
		if (it->asked == f->asked)
			continue;
		fkv_fetch_leave(it);
		get_end(o, it, -ENOENT, out);
	}
	if (TAILQ_EMPTY(&f->waiters))
		fetch_free(o, f);
	else
		restart(o, f, out);
}

static void revoke(struct fkv_owner *o, struct fkv_fetch *f, bool drop,
		   struct fkv_out *out)
{
	struct fkv_msg *msg = fkv_out_send(out, FKV_MSG_GET_REVOKE);

	msg->op = f->op.id;
	msg->drop = drop;
	/*
	 * The version may end with its last copy, and nobody will say so: no
	 * get may join another fetch that still reads it.
	 */
	if (drop)
		fkv_fetch_retire(o, f->key, f->put_id);
	again(o, f, out);
}

static void read_start(struct fkv_owner *o, struct fkv_fetch *f,
		       struct fkv_out *out)
{
	struct fkv_cmd *cmd;
	int err = -ENOENT;

	if (o->cfg.ring)
		err = fkv_ring_read_pin(o->cfg.ring, f->key, f->put_id,
					&f->read);
	if (err) {
		revoke(o, f, true, out);
		return;
	}
	f->state = FKV_FETCH_READING;
	cmd = fkv_out_add(out, FKV_CMD_READ);
	cmd->token = f->op.id;
	cmd->offset = f->offset;
	cmd->len = f->len;
	cmd->seed = fkv_sum_seed(f->key->data, f->key->len, f->put_id, f->len);
	cmd->io.shard = f->read->shard;
	cmd->io.vpos = f->read->vpos;
	cmd->io.entry_len = f->read->entry_len;
	cmd->io.seq = f->read->seq;
	cmd->io.put_id = f->put_id;
	cmd->io.sum = f->read->sum;
	cmd->io.warm = TAILQ_EMPTY(&f->waiters);
}

static struct fkv_fetch *fetch_of(const struct fkv_owner *o, uint64_t id,
				  enum fkv_fetch_state state)
{
	struct fkv_oop *op = fkv_oop_find(o, id);
	struct fkv_fetch *f;

	if (!op || op->type != FKV_OOP_FETCH)
		return NULL;
	f = fkv_container_of(op, struct fkv_fetch, op);
	return f->state == state ? f : NULL;
}

void fkv_fetch_plan(struct fkv_owner *o, struct fkv_msg *msg,
		    struct fkv_out *out)
{
	struct fkv_fetch *f = fetch_of(o, msg->op, FKV_FETCH_PLANNING);

	fkv_assert(f);
	if (msg->res == -ENOENT) {
		missed(o, f, out);
		return;
	}
	if (msg->res) {
		fail(o, f, msg->res, msg->text, out);
		return;
	}
	f->put_id = msg->put_id;
	f->len = msg->len;
	f->extent = msg->extent;
	f->offset = msg->offset;
	if (msg->source == FLUXONKV_SOURCE_LOCAL)
		deliver(o, f, msg, FLUXONKV_SOURCE_LOCAL, out);
	else
		read_start(o, f, out);
}

/* Only what the source itself says drops it (G6). */
static bool source_is_bad(int err)
{
	return err == -ENOENT || err == -ESTALE || err == -EIO ||
	       err == -EBADMSG || fkv_device_departed(err);
}

void fkv_fetch_read(struct fkv_owner *o, struct fkv_fetch *f, int res,
		    uint64_t sum, struct fkv_out *out)
{
	struct fkv_ring_entry *e = f->read;
	uint64_t want = e->sum;
	int err = res;

	if (!err && sum != want) {
		o->stats.sum_errors++;
		err = -EBADMSG;
	}
	f->read = NULL;
	fkv_read_ended(o, e, err, out);
	if (fkv_ring_read_unpin(o->cfg.ring, e) && !err)
		err = -ENOENT;
	if (err) {
		revoke(o, f, source_is_bad(err), out);
	} else {
		o->stats.bytes_ssd_read += f->len;
		f->state = FKV_FETCH_DONE;
		fkv_out_send(out, FKV_MSG_GET_DONE)->op = f->op.id;
	}
	fkv_persist_pump(o, out);
}

void fkv_fetch_done(struct fkv_owner *o, struct fkv_msg *msg,
		    struct fkv_out *out)
{
	struct fkv_fetch *f = fetch_of(o, msg->op, FKV_FETCH_DONE);
	struct fkv_msg given;

	fkv_assert(f && !msg->res);
	given = (struct fkv_msg){
		.put_id = f->put_id,
		.len = f->len,
		.extent = f->extent,
		.offset = f->offset,
		.grant = msg->grant,
	};
	deliver(o, f, &given, FLUXONKV_SOURCE_SSD_LOCAL, out);
}

/* What starts after this must not join a fetch of the retired version. */
void fkv_fetch_retire(struct fkv_owner *o, const struct fkv_key *key,
		      uint64_t put_id)
{
	struct fkv_node *n, *next;

	for (n = fkv_table_first(&o->fetches, key->hash.low); n; n = next) {
		struct fkv_fetch *f;

		next = fkv_table_next(n);
		f = fkv_container_of(n, struct fkv_fetch, by_key);
		if (!fkv_key_equal(f->key, key))
			continue;
		/* a plan under way may be of the retired version, too */
		if (f->state == FKV_FETCH_PLANNING || f->put_id <= put_id)
			unjoin(o, f);
	}
}

/* Its own limit: answer who waits; the I/O ends when it ends. */
void fkv_fetch_expired(struct fkv_owner *o, struct fkv_fetch *f,
		       struct fkv_out *out)
{
	f->given_up = true;
	unjoin(o, f);
	fail_all(o, f, -EIO, "the SSD did not answer within 10 s", out);
}
