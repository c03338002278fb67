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
	else if (!status && it->res.source == FLUXONKV_SOURCE_SSD_REMOTE)
		o->stats.hits_ssd_remote++;
	else if (!status && it->res.source == FLUXONKV_SOURCE_MEMORY_REMOTE)
		o->stats.hits_memory_remote++;
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
		fail(o, f, -EIO, f->source == FLUXONKV_SOURCE_MEMORY_REMOTE ?
		     "its host did not answer" :
		     "its SSD copy could not be read", out);
	else
		restart(o, f, out);
}

/* Its waiters that may have begun after what the master says was true. */
static bool asks_again(const struct fkv_fetch *f, const struct fkv_item *it)
{
	return it->asked == f->asked;
}

/* Those stay and are asked for again; or it ends. */
static void ask_again(struct fkv_owner *o, struct fkv_fetch *f,
		      struct fkv_out *out)
{
	if (TAILQ_EMPTY(&f->waiters))
		fetch_free(o, f);
	else
		restart(o, f, out);
}

/*
 * The master gave a reference: hand out holders, publish if granted. A version
 * that was replaced meanwhile is not for all: where no replica is nobody is told
 * that it ends, and some may have joined the fetch since.
 */
static void deliver(struct fkv_owner *o, struct fkv_fetch *f,
		    const struct fkv_msg *given, uint32_t source,
		    struct fkv_out *out)
{
	struct fkv_item *it, *next;
	struct fkv_entry *e;

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
	for (it = TAILQ_FIRST(&f->waiters); it; it = next) {
		next = TAILQ_NEXT(it, link);
		if (given->drop && asks_again(f, it))
			continue;
		fkv_fetch_leave(it);
		get_hold(o, it, e, source, out);
	}
	ask_again(o, f, out);
	fkv_entry_unpin(o, e, out);
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
		if (asks_again(f, it))
			continue;
		fkv_fetch_leave(it);
		get_end(o, it, -ENOENT, out);
	}
	ask_again(o, f, out);
}

/* Its session is over: it begins again with the next one. */
static void to_planning(struct fkv_owner *o, struct fkv_fetch *f)
{
	f->lost = f->stalled = false;
	f->state = FKV_FETCH_PLANNING;
	if (f->given_up)
		fetch_free(o, f);
}

/* What it was to be read to or from ended with its session; true: it did. */
static bool was_lost(struct fkv_owner *o, struct fkv_fetch *f)
{
	if (!f->lost)
		return false;
	to_planning(o, f);
	return true;
}

/* @suspect: whoever it came from does not answer. */
static void revoke(struct fkv_owner *o, struct fkv_fetch *f, bool drop,
		   bool suspect, struct fkv_out *out)
{
	struct fkv_msg *msg = fkv_out_send(out, FKV_MSG_GET_REVOKE);

	msg->op = f->op.id;
	msg->drop = drop;
	msg->suspect = suspect;
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
		revoke(o, f, true, false, out);
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

static void send_done(struct fkv_owner *o, struct fkv_fetch *f,
		      struct fkv_out *out)
{
	fkv_timer_clear(&o->timers, &f->stall);
	f->state = FKV_FETCH_DONE;
	/*
	 * Without a replica here this owner is not asked when the version
	 * ends, which may be between the master's answer and its arrival; and
	 * a copy on SSD may be dropped because a peer could not read it.
	 */
	if (o->cfg.cluster)
		unjoin(o, f);
	fkv_out_send(out, FKV_MSG_GET_DONE)->op = f->op.id;
}

/* From another owner: its memory is read, its SSD copy is pushed (G1). */
static void move_start(struct fkv_owner *o, struct fkv_fetch *f,
		       const struct fkv_msg *msg, struct fkv_out *out)
{
	bool ssd = msg->source == FLUXONKV_SOURCE_SSD_REMOTE;
	struct fkv_cmd *cmd;

	if (!f->len) {
		send_done(o, f, out);
		return;
	}
	f->state = FKV_FETCH_MOVING;
	f->stalled = false;
	f->stall.kind = FKV_TIMER_STALL;
	fkv_timer_set(&o->timers, &f->stall, o->now_ns + FKV_XFER_STALL_NS);
	cmd = fkv_out_add(out, ssd ? FKV_CMD_STAGE : FKV_CMD_PULL);
	cmd->token = f->op.id;
	cmd->offset = f->offset;
	cmd->from = msg->remote;
	cmd->len = f->len;
	cmd->key = ssd ? fkv_key_get(f->key) : NULL;
	cmd->xfer.incarnation = msg->incarnation;
	cmd->xfer.op = f->op.id;
	cmd->xfer.put_id = f->put_id;
}

bool fkv_fetch_expects(const struct fkv_owner *o, const struct fkv_msg *msg)
{
	return fetch_of(o, msg->op, msg->type == FKV_MSG_GET_PLAN ?
			FKV_FETCH_PLANNING : FKV_FETCH_DONE);
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
	f->source = msg->source;
	/*
	 * A replica that came here while the version was being replaced: the
	 * end of that is not told here.
	 */
	msg->drop = o->cfg.cluster && !msg->grant;
	if (msg->source == FLUXONKV_SOURCE_LOCAL)
		deliver(o, f, msg, FLUXONKV_SOURCE_LOCAL, out);
	else if (msg->source == FLUXONKV_SOURCE_SSD_LOCAL)
		read_start(o, f, out);
	else
		move_start(o, f, msg, out);
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
	if (was_lost(o, f)) {
		fkv_persist_pump(o, out);
		return;
	}
	if (err) {
		revoke(o, f, source_is_bad(err), false, out);
	} else {
		o->stats.bytes_ssd_read += f->len;
		send_done(o, f, out);
	}
	fkv_persist_pump(o, out);
}

/*
 * A transfer ended: nothing of it can touch our memory. One that ended for
 * another's sake does not count against its source (G3.5).
 */
void fkv_fetch_moved(struct fkv_owner *o, struct fkv_fetch *f, int res,
		     bool said, struct fkv_out *out)
{
	bool innocent = res == -ECANCELED && !f->stalled;

	fkv_timer_clear(&o->timers, &f->stall);
	if (was_lost(o, f))
		return;
	if (!res) {
		o->stats.bytes_pulled += f->len;
		send_done(o, f, out);
		return;
	}
	f->tries -= innocent && f->tries;
	revoke(o, f, said && source_is_bad(res) &&
	       f->source == FLUXONKV_SOURCE_SSD_REMOTE, !said && !innocent,
	       out);
}

void fkv_fetch_progress(struct fkv_owner *o, struct fkv_fetch *f)
{
	if (f->state != FKV_FETCH_MOVING || f->given_up)
		return;
	fkv_timer_set(&o->timers, &f->stall, o->now_ns + FKV_XFER_STALL_NS);
	fkv_timer_set(&o->timers, &f->op.timer, o->now_ns + FKV_FETCH_MAX);
}

void fkv_fetch_stalled(struct fkv_owner *o, struct fkv_fetch *f,
		       struct fkv_out *out)
{
	o->stats.stalls++;
	f->stalled = true;
	fkv_xfer_cancel(o, &f->op, out);
}

void fkv_fetch_lost(struct fkv_owner *o, struct fkv_fetch *f)
{
	if (f->state == FKV_FETCH_READING || f->state == FKV_FETCH_MOVING)
		f->lost = true;
	else
		to_planning(o, f);
}

void fkv_fetch_resume(struct fkv_owner *o, struct fkv_fetch *f,
		      struct fkv_out *out)
{
	if (f->given_up)
		fetch_free(o, f);
	else
		restart(o, f, out);
}

void fkv_fetch_done(struct fkv_owner *o, struct fkv_msg *msg,
		    struct fkv_out *out)
{
	struct fkv_fetch *f = fetch_of(o, msg->op, FKV_FETCH_DONE);
	struct fkv_msg given;

	fkv_assert(f);
	if (msg->res) {
		again(o, f, out);
		return;
	}
	given = (struct fkv_msg){
		.put_id = f->put_id,
		.len = f->len,
		.extent = f->extent,
		.offset = f->offset,
		.grant = msg->grant,
		.drop = msg->drop && o->cfg.cluster,
	};
	deliver(o, f, &given, f->source, out);
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
	fail_all(o, f, -EIO, f->state == FKV_FETCH_MOVING ?
		 "another host did not answer within 10 s" :
		 "the SSD did not answer within 10 s", out);
	if (f->state == FKV_FETCH_MOVING)
		fkv_xfer_cancel(o, &f->op, out);
	else if (f->state == FKV_FETCH_PLANNING && !fkv_home_up(o))
		fetch_free(o, f);
}
