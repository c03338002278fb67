// SPDX-License-Identifier: Apache-2.0
#include <stdlib.h>
#include <string.h>

#include "held.h"

#define KNOWN_FLAGS	(FLUXONKV_EXCL | FLUXONKV_NOWAIT | FLUXONKV_MEMORY_ONLY)

_Static_assert(FLUXONKV_EXCL == FLUXONKV_PUT_EXCL &&
	       FLUXONKV_NOWAIT == FLUXONKV_PUT_NOWAIT &&
	       FLUXONKV_MEMORY_ONLY == FLUXONKV_PUT_MEMORY,
	       "public put flags are the item's");

static void put_fail(struct fluxonkv_putop *put, int err)
{
	*put = (struct fluxonkv_putop){ .status = err };
}

/* 0 or -errno of one value; @data: it must have bytes. */
static int value_check(const char *call, const struct fluxonkv_value *v,
		       bool data)
{
	int err = fkv_key_check(call, v->key.data, v->key.len);

	if (err)
		return err;
	if (v->flags & ~KNOWN_FLAGS)
		return fkv_lib_fail(-EINVAL, "%s: unknown flags 0x%x, known "
				    "are 0x%x", call, v->flags & ~KNOWN_FLAGS,
				    KNOWN_FLAGS);
	if (v->len > FKV_VALUE_MAX)
		return fkv_lib_fail(-EFBIG, "%s: value of %llu bytes, expected "
				    "at most 2^40", call,
				    (unsigned long long)v->len);
	if (data && v->len && !v->data)
		return fkv_lib_fail(-EINVAL, "%s: data is NULL and len is %llu",
				    call, (unsigned long long)v->len);
	return 0;
}

static int arena_check(const struct fkv_conn *conn, const char *call,
		       uint64_t len)
{
	if (len <= conn->writable_bytes)
		return 0;
	if (conn->hello.flags & FLUXONKV_HELLO_WRITABLE)
		return fkv_lib_fail(-EFBIG, "%s: value of %llu bytes, the "
				    "segment has %llu", call,
				    (unsigned long long)len,
				    (unsigned long long)conn->writable_bytes);
	return fkv_lib_fail(-EFBIG, "%s: value of %llu bytes; this process is "
			    "not of the daemon's user, so its puts go through "
			    "an arena of %llu bytes", call,
			    (unsigned long long)len,
			    (unsigned long long)conn->writable_bytes);
}

/* An open put from the daemon's answer to its begin. */
static void put_take(struct fluxonkv *client, struct fkv_conn *conn,
		     const struct fluxonkv_result *res, uint64_t len,
		     struct fluxonkv_putop *put)
{
	uint64_t bytes = conn->writable_bytes;

	if (res->status) {
		put_fail(put, res->status);
		return;
	}
	if (!res->id || len > bytes || res->offset > bytes - len) {
		if (res->id)
			fkv_conn_post_id(conn, FLUXONKV_OP_PUT_ABORT, res->id);
		put_fail(put, fkv_lib_fail(-EPROTO, "the daemon broke the "
					   "protocol: room for a put outside "
					   "of what may be written"));
		return;
	}
	fkv_conn_get(conn);
	fkv_cap_force(client, len);
	*put = (struct fluxonkv_putop){
		.data = len ? conn->writable + res->offset : NULL,
		.len = len,
		.priv = { fkv_held_make(conn, FKV_HELD_PUT), res->id },
	};
}

/* A put that the kernel has carried out, or not. */
static void put_done(struct fluxonkv_putop *put,
		     const struct fluxonkv_result *res)
{
	put_fail(put, res->status);
	if (!res->status)
		put->version = res->version;
}

/*
 * @op for the values whose puts are pending: PUT_BEGIN, or PUT, with which the
 * kernel begins, copies and commits.
 */
static int begin_msg(uint16_t op, const struct fluxonkv_value *values, size_t n,
		     const struct fluxonkv_putop *puts, struct fkv_msg *msg)
{
	struct fluxonkv_req req = {
		.size = sizeof(req),
		.op = op,
		.item_size = sizeof(struct fluxonkv_item),
	};
	size_t room = 0;
	int err;

	for (size_t i = 0; i < n; i++) {
		if (puts[i].status != FKV_PENDING)
			continue;
		room += fkv_key_room(values[i].key.len);
		req.nr++;
	}
	err = fkv_msg_init(msg, &req, room);
	for (size_t i = 0; !err && i < n; i++) {
		struct fluxonkv_item item = {
			.key_len = (uint32_t)values[i].key.len,
			.flags = values[i].flags,
			.len = values[i].len,
		};

		if (op == FLUXONKV_OP_PUT && item.len)
			item.id = (uintptr_t)values[i].data;
		if (puts[i].status == FKV_PENDING)
			fkv_msg_add(msg, &item, values[i].key.data);
	}
	return err;
}

struct begin_how {
	const char *call;
	uint16_t op;			/* PUT_BEGIN or PUT */
	bool data;			/* the values have their bytes */
	uint64_t deadline;
};

/* Begin the puts that are pending, on one connection. */
static int begin_on(struct fluxonkv *client, struct fkv_conn *conn,
		    const struct fluxonkv_value *values, size_t n,
		    struct fluxonkv_putop *puts, const struct begin_how *how)
{
	struct fkv_reply reply;
	struct fkv_msg msg;
	uint32_t nr = 0;
	int err = begin_msg(how->op, values, n, puts, &msg);

	if (!err) {
		err = fkv_client_call_on(client, conn, &msg, how->deadline,
					 &reply);
		fkv_msg_done(&msg);
	}
	for (size_t i = 0; i < n; i++) {
		struct fluxonkv_result res = { .status = err };

		if (puts[i].status != FKV_PENDING)
			continue;
		if (!err)
			res = fkv_answer(&reply, "put", nr++);
		if (how->op == FLUXONKV_OP_PUT)
			put_done(&puts[i], &res);
		else
			put_take(client, conn, &res, values[i].len, &puts[i]);
	}
	if (err)
		return err;
	err = reply.rep.status;
	if (err)
		fkv_reply_fail(&reply, "put", err);
	fkv_reply_done(&reply);
	return err;
}

static void fail_all(struct fluxonkv_putop *puts, size_t n, int err)
{
	for (size_t i = 0; i < n; i++)
		put_fail(&puts[i], err);
}

/*
 * Begin @n puts on a living connection; a value that is wrong by itself gets
 * its errno. Open puts die with their connection, so a begin that met a dead
 * one is safely done again; a PUT may have been committed.
 */
static int begin(struct fluxonkv *client, const struct fluxonkv_value *values,
		 size_t n, struct fluxonkv_putop *puts,
		 const struct begin_how *how)
{
	bool again = how->op == FLUXONKV_OP_PUT_BEGIN;
	uint64_t deadline = how->deadline;
	struct fkv_conn *conn;
	int err;

	do {
		size_t pending = 0;

		err = fkv_client_conn(client, again, deadline, &conn);
		if (err) {
			fail_all(puts, n, err);
			return err;
		}
		for (size_t i = 0; i < n; i++) {
			int bad = value_check(how->call, &values[i], how->data);

			if (!bad)
				bad = arena_check(conn, how->call,
						  values[i].len);
			put_fail(&puts[i], bad ? bad : FKV_PENDING);
			pending += !bad;
		}
		if (pending)
			err = begin_on(client, conn, values, n, puts, how);
		fkv_client_drop(client, conn);
	} while (err == -ENOTCONN && again && fkv_now_ns() < deadline);
	return err;
}

/* What becomes of @put after the answer to @op: over, unless extended. */
static void put_end(struct fluxonkv *client, struct fkv_conn *conn,
		    struct fluxonkv_putop *put, uint16_t op,
		    const struct fluxonkv_result *res)
{
	put->status = res->status;
	if (op == FLUXONKV_OP_PUT_EXTEND)
		return;
	if (op == FLUXONKV_OP_PUT_COMMIT && !res->status)
		put->version = res->version;
	/* without effect, and it may be open still */
	if (op == FLUXONKV_OP_PUT_COMMIT &&
	    (res->status == -EAGAIN || res->status == -ENOMEM))
		fkv_conn_post_id(conn, FLUXONKV_OP_PUT_ABORT, put->priv[1]);
	put->data = NULL;
	put->priv[0] = 0;
	put->priv[1] = 0;
	fkv_cap_give(client, put->len);
	fkv_client_drop(client, conn);
}

/* @op for all pending puts of @conn, which the caller has referenced. */
static int finish_on(struct fluxonkv *client, struct fkv_conn *conn,
		     struct fluxonkv_putop *puts, size_t n, uint16_t op,
		     uint64_t deadline)
{
	uint64_t mine = fkv_held_make(conn, FKV_HELD_PUT);
	struct fluxonkv_req req = {
		.size = sizeof(req),
		.op = op,
		.item_size = sizeof(struct fluxonkv_item),
	};
	struct fkv_reply reply;
	struct fkv_msg msg;
	uint32_t nr = 0;
	int err;

	for (size_t i = 0; i < n; i++)
		req.nr += puts[i].status == FKV_PENDING &&
			  puts[i].priv[0] == mine;
	err = fkv_msg_init(&msg, &req, 0);
	for (size_t i = 0; !err && i < n; i++) {
		struct fluxonkv_item item = { .id = puts[i].priv[1] };

		if (puts[i].status == FKV_PENDING && puts[i].priv[0] == mine)
			fkv_msg_add(&msg, &item, NULL);
	}
	if (!err) {
		err = fkv_client_call_on(client, conn, &msg, deadline, &reply);
		fkv_msg_done(&msg);
	}
	for (size_t i = 0; i < n; i++) {
		struct fluxonkv_result res = { .status = err };

		if (puts[i].status != FKV_PENDING || puts[i].priv[0] != mine)
			continue;
		if (!err)
			res = fkv_answer(&reply, "put", nr++);
		put_end(client, conn, &puts[i], op, &res);
	}
	if (err)
		return err;
	err = reply.rep.status;
	fkv_reply_done(&reply);
	return err;
}

static int not_open(const char *call)
{
	return fkv_lib_fail(-EINVAL, "%s: not an open put of this client",
			    call);
}

/* @op for each put of a batch, one message per connection (usually one). */
static int finish(struct fluxonkv *client, struct fluxonkv_putop *puts,
		  size_t n, uint16_t op, const char *call)
{
	uint64_t deadline = fkv_client_deadline(client);
	int err = 0;

	for (size_t i = 0; i < n; i++)
		puts[i].status = FKV_PENDING;
	for (size_t i = 0; i < n; i++) {
		struct fkv_conn *conn = fkv_held_conn(puts[i].priv);
		int e;

		if (puts[i].status != FKV_PENDING)
			continue;
		if (fkv_held_kind(puts[i].priv) != FKV_HELD_PUT ||
		    !puts[i].priv[1] || !fkv_client_find(client, conn)) {
			puts[i].status = not_open(call);
			continue;
		}
		fkv_conn_look(conn);
		e = finish_on(client, conn, puts + i, n - i, op, deadline);
		fkv_client_drop(client, conn);
		if (e)
			err = e;
	}
	return err;
}

static int finish_many(struct fluxonkv *client, struct fluxonkv_putop *puts,
		       size_t n, uint16_t op, const char *call)
{
	int err = fkv_client_check(client, call);

	if (!err)
		err = fkv_batch_check(call, puts, n);
	return err ? err : finish(client, puts, n, op, call);
}

static int finish_one(struct fluxonkv *client, struct fluxonkv_putop *put,
		      uint16_t op, const char *call)
{
	int err = fkv_client_check(client, call);

	if (err)
		return err;
	if (!put)
		return fkv_lib_fail(-EINVAL, "%s: put is NULL", call);
	err = finish(client, put, 1, op, call);
	return err ? err : put->status;
}

int fluxonkv_put_begin(struct fluxonkv *client, const void *key, size_t key_len,
		       uint64_t len, unsigned int flags,
		       struct fluxonkv_putop *ret_put)
{
	struct fluxonkv_value value = {
		.key = { .data = key, .len = key_len },
		.len = len,
		.flags = flags,
	};
	struct begin_how how = {
		.call = "put_begin",
		.op = FLUXONKV_OP_PUT_BEGIN,
	};
	int err = fkv_client_check(client, "put_begin");

	if (err)
		return err;
	if (!ret_put)
		return fkv_lib_fail(-EINVAL, "put_begin: ret_put is NULL");
	err = value_check("put_begin", &value, false);
	if (err)
		return err;
	how.deadline = fkv_client_deadline(client);
	err = begin(client, &value, 1, ret_put, &how);
	return err ? err : ret_put->status;
}

int fluxonkv_put_begin_many(struct fluxonkv *client,
			    const struct fluxonkv_value *values, size_t n,
			    struct fluxonkv_putop *ret_puts)
{
	struct begin_how how = {
		.call = "put_begin_many",
		.op = FLUXONKV_OP_PUT_BEGIN,
	};
	int err = fkv_client_check(client, "put_begin_many");

	if (!err)
		err = fkv_batch_check("put_begin_many", values, n);
	if (!err)
		err = fkv_batch_check("put_begin_many", ret_puts, n);
	if (err || !n)
		return err;
	how.deadline = fkv_client_deadline(client);
	return begin(client, values, n, ret_puts, &how);
}

int fluxonkv_put_extend(struct fluxonkv *client, struct fluxonkv_putop *put)
{
	return finish_one(client, put, FLUXONKV_OP_PUT_EXTEND, "put_extend");
}

int fluxonkv_put_extend_many(struct fluxonkv *client,
			     struct fluxonkv_putop *puts, size_t n)
{
	return finish_many(client, puts, n, FLUXONKV_OP_PUT_EXTEND,
			   "put_extend_many");
}

int fluxonkv_put_commit(struct fluxonkv *client, struct fluxonkv_putop *put)
{
	return finish_one(client, put, FLUXONKV_OP_PUT_COMMIT, "put_commit");
}

int fluxonkv_put_commit_many(struct fluxonkv *client,
			     struct fluxonkv_putop *puts, size_t n)
{
	return finish_many(client, puts, n, FLUXONKV_OP_PUT_COMMIT,
			   "put_commit_many");
}

int fluxonkv_put_abort(struct fluxonkv *client, struct fluxonkv_putop *put)
{
	return finish_one(client, put, FLUXONKV_OP_PUT_ABORT, "put_abort");
}

int fluxonkv_put_abort_many(struct fluxonkv *client,
			    struct fluxonkv_putop *puts, size_t n)
{
	return finish_many(client, puts, n, FLUXONKV_OP_PUT_ABORT,
			   "put_abort_many");
}

/*
 * Open puts of one group of put_many(): what is open at once must leave room
 * for others, or a batch would wait for itself.
 */
static size_t group_of(struct fluxonkv *client,
		       const struct fluxonkv_value *values, size_t n,
		       uint64_t deadline)
{
	uint64_t room = 0, sum = 0;
	struct fkv_conn *conn;
	size_t i;

	if (fkv_client_conn(client, true, deadline, &conn))
		return n;	/* begin() meets the same and says so */
	room = conn->hello.flags & FLUXONKV_HELLO_WRITABLE ?
		       conn->writable_bytes / 4 : conn->writable_bytes / 2;
	if (conn->hello.client_cap_bytes &&
	    room > conn->hello.client_cap_bytes / 2)
		room = conn->hello.client_cap_bytes / 2;
	fkv_client_drop(client, conn);
	for (i = 0; i < n; i++) {
		uint64_t len = values[i].len;

		if (i && (len > room || sum > room - len))
			break;
		sum += len < room ? (len + 4095) & ~4095ULL : room;
	}
	return i;
}

/* Fill the puts that are open; what was not done in time is aborted. */
static void fill(struct fluxonkv *client, const struct fluxonkv_value *values,
		 struct fluxonkv_putop *puts, size_t n, uint64_t deadline)
{
	uint64_t until = fkv_copy_deadline(client, deadline);
	int err = 0;

	for (size_t i = 0; i < n; i++) {
		struct fluxonkv_putop *put = &puts[i];
		struct fluxonkv_result res = { 0 };
		struct fkv_conn *conn = fkv_held_conn(put->priv);

		if (put->status)
			continue;
		if (!err && put->len)
			err = fkv_copy(put->data, values[i].data, put->len,
				       until);
		put->status = err ? err : FKV_PENDING;
		if (!err)
			continue;
		fkv_conn_post_id(conn, FLUXONKV_OP_PUT_ABORT, put->priv[1]);
		res.status = err;
		put_end(client, conn, put, FLUXONKV_OP_PUT_ABORT, &res);
	}
}

/* Commit what fill() left pending; all of it is on one connection. */
static int commit(struct fluxonkv *client, struct fluxonkv_putop *puts,
		  size_t n, uint64_t deadline)
{
	struct fkv_conn *conn;
	size_t i = 0;
	int err;

	while (i < n && puts[i].status != FKV_PENDING)
		i++;
	if (i == n)
		return 0;
	conn = fkv_held_conn(puts[i].priv);
	fkv_conn_get(conn);
	err = finish_on(client, conn, puts + i, n - i, FLUXONKV_OP_PUT_COMMIT,
			deadline);
	fkv_client_drop(client, conn);
	return err;
}

static int put_group(struct fluxonkv *client,
		     const struct fluxonkv_value *values, size_t n,
		     struct fluxonkv_putop *puts, uint64_t deadline)
{
	struct begin_how how = {
		.call = "put",
		.op = client->device ? FLUXONKV_OP_PUT : FLUXONKV_OP_PUT_BEGIN,
		.data = true,
		.deadline = deadline,
	};
	int begun = begin(client, values, n, puts, &how);
	int err;

	if (client->device)
		return begun;
	fill(client, values, puts, n, deadline);
	err = commit(client, puts, n, deadline);
	return begun ? begun : err;
}

int fluxonkv_put(struct fluxonkv *client, const void *key, size_t key_len,
		 const void *data, uint64_t len, unsigned int flags)
{
	struct fluxonkv_value value = {
		.key = { .data = key, .len = key_len },
		.data = data,
		.len = len,
		.flags = flags,
	};
	struct fluxonkv_putop put;
	int err = fkv_client_check(client, "put");

	if (!err)
		err = value_check("put", &value, true);
	if (err)
		return err;
	err = put_group(client, &value, 1, &put, fkv_client_deadline(client));
	return err ? err : put.status;
}

int fluxonkv_put_many(struct fluxonkv *client, struct fluxonkv_value *values,
		      size_t n)
{
	int err = fkv_client_check(client, "put_many");
	struct fluxonkv_putop *puts;
	uint64_t deadline;
	size_t group;

	if (!err)
		err = fkv_batch_check("put_many", values, n);
	if (err || !n)
		return err;
	puts = calloc(n, sizeof(*puts));
	if (!puts)
		return fkv_lib_fail(-ENOMEM, "put_many: no memory");
	deadline = fkv_client_deadline(client);
	for (size_t at = 0; at < n; at += group) {
		int e;

		group = group_of(client, values + at, n - at, deadline);
		e = put_group(client, values + at, group, puts + at, deadline);
		err = err ? err : e;
	}
	for (size_t i = 0; i < n; i++) {
		values[i].status = puts[i].status;
		values[i].version = puts[i].version;
	}
	free(puts);
	return err;
}
