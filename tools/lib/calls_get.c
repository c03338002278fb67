// SPDX-License-Identifier: Apache-2.0
#include <string.h>

#include "held.h"

static enum fluxonkv_served served_of(uint32_t source)
{
	return source <= FLUXONKV_SERVED_MISS ?
		       (enum fluxonkv_served)source : FLUXONKV_SERVED_NONE;
}

static void holder_fail(struct fluxonkv_holder *h, int err)
{
	*h = (struct fluxonkv_holder){
		.status = err,
		.source = err == -ENOENT ? FLUXONKV_SERVED_MISS :
					   FLUXONKV_SERVED_NONE,
	};
}

/* By the index: 0, or what the holder's status became. */
static int holder_hit(struct fluxonkv *client, const struct fluxonkv_key *key,
		      struct fluxonkv_holder *h, struct fkv_conn **ret_conn)
{
	struct fkv_pin pin;
	int err = fkv_hit(client, key, ret_conn, &pin);

	if (fkv_unlikely(err)) {
		holder_fail(h, err);
		return err;
	}
	h->data = fkv_held_data(*ret_conn, pin.offset, pin.len);
	h->len = pin.len;
	h->version = pin.version;
	h->source = FLUXONKV_SERVED_LOCAL;
	h->status = 0;
	h->priv[0] = fkv_held_make(*ret_conn, FKV_HELD_PIN);
	h->priv[1] = pin.token;
	return 0;
}

/* The kernel has the index of the device, and counts for its own. */
static void count_hit(struct fluxonkv *client, uint32_t source)
{
	if (client->device && source == FLUXONKV_SOURCE_LOCAL)
		__atomic_fetch_add(&client->kernel_hits, 1, __ATOMIC_RELAXED);
}

/* By the daemon: the holder from its answer. */
static int holder_take(struct fluxonkv *client, struct fkv_conn *conn,
		       const struct fluxonkv_result *res,
		       struct fluxonkv_holder *h)
{
	int err = res->status;

	if (!err)
		err = fkv_answer_check(conn, res);
	if (!err)
		err = fkv_keep_note(conn, res->id, res->offset, res->len);
	if (err) {
		if (!res->status && res->id)
			fkv_conn_post_id(conn, FLUXONKV_OP_RELEASE, res->id);
		holder_fail(h, err);
		return err;
	}
	fkv_conn_get(conn);
	__atomic_fetch_add(&client->message_held, 1, __ATOMIC_RELAXED);
	fkv_cap_force(client, res->len);
	count_hit(client, res->source);
	h->data = fkv_held_data(conn, res->offset, res->len);
	h->len = res->len;
	h->version = res->version;
	h->source = served_of(res->source);
	h->status = 0;
	h->priv[0] = fkv_held_make(conn, FKV_HELD_MESSAGE);
	h->priv[1] = res->id;
	return 0;
}

/* Ask the daemon for all holders that are pending. */
static int holders_ask(struct fluxonkv *client, const struct fluxonkv_key *keys,
		       size_t n, struct fluxonkv_holder *holders)
{
	struct fkv_ask ask = {
		.call = "get",
		.op = FLUXONKV_OP_GET,
		.again = true,
		.n = n,
		.deadline = fkv_client_deadline(client),
		.items = keys,
		.stride = sizeof(*keys),
		.status = &holders->status,
		.status_stride = sizeof(*holders),
	};
	struct fkv_reply reply;
	struct fkv_conn *conn;
	int err = fkv_ask(client, &ask, &reply, &conn);
	uint32_t nr = 0;

	for (size_t i = 0; i < n; i++) {
		struct fluxonkv_result res;

		if (holders[i].status != FKV_PENDING)
			continue;
		if (err) {
			holder_fail(&holders[i], err);
			continue;
		}
		res = fkv_answer(&reply, ask.call, nr++);
		holder_take(client, conn, &res, &holders[i]);
	}
	if (err)
		return err;
	err = reply.rep.status;
	fkv_reply_done(&reply);
	fkv_client_drop(client, conn);
	return err;
}

int fluxonkv_get(struct fluxonkv *client, const void *key, size_t key_len,
		 struct fluxonkv_holder *ret_holder)
{
	struct fluxonkv_key k = { .data = key, .len = key_len };
	struct fkv_conn *conn;
	int err = fkv_client_check(client, "get");

	if (!err)
		err = fkv_key_check("get", key, key_len);
	if (fkv_unlikely(err))
		return err;
	if (fkv_unlikely(!ret_holder))
		return fkv_lib_fail(-EINVAL, "get: ret_holder is NULL");
	err = holder_hit(client, &k, ret_holder, &conn);
	if (fkv_likely(!err)) {
		fkv_pins_note(&conn->pins, ret_holder->priv[1],
			      ret_holder->len);
		return 0;
	}
	if (err != FKV_PENDING)
		return err;
	err = holders_ask(client, &k, 1, ret_holder);
	return err ? err : ret_holder->status;
}

/*
 * Note the hits of a batch, last key first: a prefix cache's first blocks are
 * then the most recent ones. A pin keeps its connection.
 */
static void note_batch(const struct fluxonkv_holder *holders, size_t n)
{
	while (n-- > 0) {
		const struct fluxonkv_holder *h = &holders[n];

		if (!h->status && fkv_held_kind(h->priv) == FKV_HELD_PIN)
			fkv_pins_note(&fkv_held_conn(h->priv)->pins,
				      h->priv[1], h->len);
	}
}

int fluxonkv_get_many(struct fluxonkv *client, const struct fluxonkv_key *keys,
		      size_t n, struct fluxonkv_holder *ret_holders)
{
	int err = fkv_client_check(client, "get_many");
	size_t pending = 0;

	if (!err)
		err = fkv_batch_check("get_many", keys, n);
	if (!err)
		err = fkv_batch_check("get_many", ret_holders, n);
	if (err)
		return err;
	for (size_t i = 0; i < n; i++) {
		struct fkv_conn *conn;
		int bad = fkv_key_check("get_many", keys[i].data, keys[i].len);

		if (bad)
			holder_fail(&ret_holders[i], bad);
		else
			pending += holder_hit(client, &keys[i],
					      &ret_holders[i], &conn) ==
				   FKV_PENDING;
	}
	note_batch(ret_holders, n);
	return pending ? holders_ask(client, keys, n, ret_holders) : 0;
}

static int not_held(const char *call)
{
	return fkv_lib_fail(-EINVAL, "%s: not a live holder of this client",
			    call);
}

/* A holder is released or not one: nothing is held any more. */
static void holder_clear(struct fluxonkv_holder *h)
{
	h->data = NULL;
	h->priv[0] = 0;
	h->priv[1] = 0;
}

static bool unpin(struct fluxonkv *client, struct fkv_conn *conn,
		  const struct fluxonkv_holder *h)
{
	if (!conn->pins.index || !fkv_pins_unpin(&conn->pins, h->priv[1]))
		return false;
	fkv_cap_give(client, h->len);
	return true;
}

/* A holder of an older connection, or of the daemon's. */
static int release_slow(struct fluxonkv *client, struct fluxonkv_holder *h,
			const char *call)
{
	enum fkv_held kind = fkv_held_kind(h->priv);
	struct fkv_conn *conn = fkv_held_conn(h->priv);
	bool ok = false;

	if ((kind != FKV_HELD_PIN && kind != FKV_HELD_MESSAGE) ||
	    !fkv_client_find(client, conn))
		return not_held(call);
	if (kind == FKV_HELD_PIN) {
		ok = unpin(client, conn, h);
	} else if (h->priv[1]) {
		fkv_keep_drop(conn, h->priv[1]);
		ok = fkv_conn_post_id(conn, FLUXONKV_OP_RELEASE, h->priv[1]);
	}
	if (ok && kind == FKV_HELD_MESSAGE) {
		__atomic_fetch_sub(&client->message_held, 1, __ATOMIC_RELAXED);
		fkv_cap_give(client, h->len);
		fkv_client_drop(client, conn);
	}
	fkv_client_drop(client, conn);
	if (!ok)
		return not_held(call);
	holder_clear(h);
	return 0;
}

static bool release_fast(struct fluxonkv *client, struct fluxonkv_holder *h)
{
	struct fkv_conn *conn = __atomic_load_n(&client->conn,
						__ATOMIC_ACQUIRE);

	/* current, and its taken slot keeps it: no reference is needed */
	if (h->priv[0] != fkv_held_make(conn, FKV_HELD_PIN) ||
	    !unpin(client, conn, h))
		return false;
	holder_clear(h);
	return true;
}

int fluxonkv_release(struct fluxonkv *client, struct fluxonkv_holder *holder)
{
	int err = fkv_client_check(client, "release");

	if (fkv_unlikely(err))
		return err;
	if (fkv_unlikely(!holder))
		return fkv_lib_fail(-EINVAL, "release: holder is NULL");
	if (fkv_likely(release_fast(client, holder)))
		return 0;
	return release_slow(client, holder, "release");
}

/* Does the daemon, or the kernel, keep it for the connection of @mine? */
static bool is_message(const struct fluxonkv_holder *h, uint64_t mine)
{
	return h->status == FKV_PENDING && h->priv[0] == mine && h->priv[1];
}

/*
 * All holders of @conn that the daemon keeps, at once. When fewer were live
 * than that, which takes copies of a holder, nobody can say which.
 */
static void release_messages(struct fluxonkv *client, struct fkv_conn *conn,
			     struct fluxonkv_holder *holders, size_t n)
{
	uint64_t mine = fkv_held_make(conn, FKV_HELD_MESSAGE);
	uint64_t ids[FLUXONKV_BATCH_MAX];
	size_t nr = 0, live;

	for (size_t i = 0; i < n; i++) {
		if (!is_message(&holders[i], mine))
			continue;
		ids[nr++] = holders[i].priv[1];
		fkv_keep_drop(conn, holders[i].priv[1]);
	}
	live = fkv_conn_post_ids(conn, FLUXONKV_OP_RELEASE, ids, nr);
	__atomic_fetch_sub(&client->message_held, live, __ATOMIC_RELAXED);
	for (size_t i = 0; i < n; i++) {
		struct fluxonkv_holder *h = &holders[i];

		if (!is_message(h, mine))
			continue;
		fkv_cap_give(client, h->len);
		holder_clear(h);
		h->status = live == nr ? 0 : not_held("release_many");
	}
	while (live-- > 0)
		fkv_client_drop(client, conn);
}

int fluxonkv_release_many(struct fluxonkv *client,
			  struct fluxonkv_holder *holders, size_t n)
{
	int err = fkv_client_check(client, "release_many");

	if (!err)
		err = fkv_batch_check("release_many", holders, n);
	if (err)
		return err;
	for (size_t i = 0; i < n; i++)
		holders[i].status = release_fast(client, &holders[i]) ?
					    0 : FKV_PENDING;
	for (size_t i = 0; i < n; i++) {
		struct fluxonkv_holder *h = &holders[i];
		struct fkv_conn *conn = fkv_held_conn(h->priv);

		if (h->status != FKV_PENDING)
			continue;
		if (fkv_held_kind(h->priv) == FKV_HELD_MESSAGE &&
		    fkv_client_find(client, conn)) {
			release_messages(client, conn, h, n - i);
			fkv_client_drop(client, conn);
		}
		if (h->status == FKV_PENDING)
			h->status = release_slow(client, h, "release_many");
	}
	return 0;
}

/* Copy what a pin or a holder refers to, if it fits. */
static int into_copy(const struct fkv_conn *conn, struct fluxonkv_into *it,
		     uint64_t offset, uint64_t deadline)
{
	if (it->len > it->size)
		return fkv_lib_fail(-ENOBUFS, "get_into: value of %llu bytes, "
				    "buffer of %llu",
				    (unsigned long long)it->len,
				    (unsigned long long)it->size);
	return it->len ? fkv_copy(it->buf, conn->segment + offset, it->len,
				  deadline) : 0;
}

static int into_hit(struct fluxonkv *client, struct fluxonkv_into *it,
		    uint64_t *ret_token, struct fkv_conn **ret_conn)
{
	uint64_t deadline = 0;
	struct fkv_pin pin;
	int err = fkv_hit(client, &it->key, ret_conn, &pin);

	if (err)
		return err;
	it->len = pin.len;
	it->version = pin.version;
	it->source = FLUXONKV_SERVED_LOCAL;
	if (pin.len > FKV_LIB_PIECE)
		deadline = fkv_copy_deadline(client,
					     fkv_client_deadline(client));
	err = into_copy(*ret_conn, it, pin.offset, deadline);
	*ret_token = pin.token;
	return err;
}

static void into_fail(struct fluxonkv_into *it, int err)
{
	it->len = 0;
	it->version = 0;
	it->source = err == -ENOENT ? FLUXONKV_SERVED_MISS :
				      FLUXONKV_SERVED_NONE;
	it->status = err;
}

static void into_take(struct fkv_conn *conn, const struct fluxonkv_result *res,
		      uint64_t deadline, struct fluxonkv_into *it)
{
	int err = res->status ? res->status : fkv_answer_check(conn, res);

	if (!err)
		err = fkv_keep_note(conn, res->id, res->offset, res->len);
	if (err) {
		into_fail(it, err);
		return;
	}
	it->len = res->len;
	it->version = res->version;
	it->source = served_of(res->source);
	it->status = into_copy(conn, it, res->offset, deadline);
	fkv_keep_drop(conn, res->id);
}

static int into_ask(struct fluxonkv *client, struct fluxonkv_into *items,
		    size_t n)
{
	struct fkv_ask ask = {
		.call = "get_into",
		.op = FLUXONKV_OP_GET,
		.flags = FLUXONKV_REQ_INTO,
		.again = true,
		.n = n,
		.deadline = fkv_client_deadline(client),
		.items = &items->key,
		.stride = sizeof(*items),
		.status = &items->status,
		.status_stride = sizeof(*items),
	};
	uint64_t until = fkv_copy_deadline(client, ask.deadline);
	struct fkv_reply reply;
	struct fkv_conn *conn;
	int err = fkv_ask(client, &ask, &reply, &conn);
	uint64_t ids[FLUXONKV_BATCH_MAX];
	uint32_t nr = 0, held = 0;

	for (size_t i = 0; i < n; i++) {
		struct fluxonkv_result res;

		if (items[i].status != FKV_PENDING)
			continue;
		if (err) {
			into_fail(&items[i], err);
			continue;
		}
		res = fkv_answer(&reply, ask.call, nr++);
		into_take(conn, &res, until, &items[i]);
		if (!items[i].status || items[i].status == -ENOBUFS)
			count_hit(client, res.source);
		if (!res.status && res.id)
			ids[held++] = res.id;
	}
	if (err)
		return err;
	fkv_conn_post_ids(conn, FLUXONKV_OP_RELEASE, ids, held);
	err = reply.rep.status;
	fkv_reply_done(&reply);
	fkv_client_drop(client, conn);
	return err;
}

static int into_check(const struct fluxonkv_into *it, const char *call)
{
	int err = fkv_key_check(call, it->key.data, it->key.len);

	if (!err && !it->buf && it->size)
		err = fkv_lib_fail(-EINVAL, "%s: buf is NULL and size %llu",
				   call, (unsigned long long)it->size);
	return err;
}

static void into_one(struct fluxonkv *client, struct fluxonkv_into *it,
		     const char *call)
{
	struct fkv_conn *conn;
	uint64_t token = 0;
	int err = into_check(it, call);

	if (err) {
		into_fail(it, err);
		return;
	}
	it->len = 0;
	it->source = FLUXONKV_SERVED_NONE;
	it->status = into_hit(client, it, &token, &conn);
	if (it->source != FLUXONKV_SERVED_LOCAL)
		return;
	fkv_pins_note(&conn->pins, token, it->len);
	fkv_pins_unpin(&conn->pins, token);
	fkv_cap_give(client, it->len);
}

int fluxonkv_get_into(struct fluxonkv *client, const void *key, size_t key_len,
		      void *buf, uint64_t size, uint64_t *ret_len)
{
	struct fluxonkv_into it = {
		.key = { .data = key, .len = key_len },
		.buf = buf,
		.size = size,
	};
	int err = fkv_client_check(client, "get_into");

	if (err)
		return err;
	into_one(client, &it, "get_into");
	if (it.status == FKV_PENDING)
		err = into_ask(client, &it, 1);
	if (!err)
		err = it.status;
	if (ret_len && (!err || err == -ENOBUFS))
		*ret_len = it.len;
	return err;
}

int fluxonkv_get_into_many(struct fluxonkv *client, struct fluxonkv_into *items,
			   size_t n)
{
	int err = fkv_client_check(client, "get_into_many");
	size_t pending = 0;

	if (!err)
		err = fkv_batch_check("get_into_many", items, n);
	if (err)
		return err;
	/* last key first, for the same reason as in note_batch() */
	for (size_t i = n; i-- > 0;) {
		into_one(client, &items[i], "get_into_many");
		pending += items[i].status == FKV_PENDING;
	}
	return pending ? into_ask(client, items, n) : 0;
}
