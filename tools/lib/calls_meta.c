// SPDX-License-Identifier: Apache-2.0
#include <stdlib.h>
#include <string.h>

#include "held.h"

/* What the answer to one key becomes; @i is its place in the batch. */
typedef void (*take_fn)(void *arg, size_t i, const struct fluxonkv_result *res);

/*
 * @op for a batch of keys: @take is called once for each, also for those that
 * are wrong by themselves or got no answer.
 */
static int ask_keys(struct fluxonkv *client, struct fkv_ask *ask, take_fn take,
		    void *arg)
{
	const struct fluxonkv_key *keys = ask->items;
	int status[FLUXONKV_BATCH_MAX];
	struct fkv_reply reply;
	struct fkv_conn *conn = NULL;
	uint32_t pending = 0, nr = 0;
	int err = 0;

	for (size_t i = 0; i < ask->n; i++) {
		int bad = fkv_key_check(ask->call, keys[i].data, keys[i].len);

		status[i] = bad ? bad : FKV_PENDING;
		pending += !bad;
	}
	ask->stride = sizeof(*keys);
	ask->status = status;
	ask->status_stride = sizeof(*status);
	ask->deadline = fkv_client_deadline(client);
	if (pending)
		err = fkv_ask(client, ask, &reply, &conn);
	for (size_t i = 0; i < ask->n; i++) {
		struct fluxonkv_result res = { .status = status[i] };

		if (res.status == FKV_PENDING && err)
			res.status = err;
		else if (res.status == FKV_PENDING)
			res = fkv_answer(&reply, ask->call, nr++);
		take(arg, i, &res);
	}
	if (err || !pending)
		return err;
	err = reply.rep.status;
	fkv_reply_done(&reply);
	fkv_client_drop(client, conn);
	return err;
}

static void take_status(void *arg, size_t i, const struct fluxonkv_result *res)
{
	int *status = arg;

	status[i] = res->status;
}

static int delete_keys(struct fluxonkv *client, const struct fluxonkv_key *keys,
		       size_t n, int *status, const char *call)
{
	struct fkv_ask ask = {
		.call = call,
		.op = FLUXONKV_OP_DELETE,
		.n = n,
		.items = keys,
	};

	return ask_keys(client, &ask, take_status, status);
}

int fluxonkv_delete(struct fluxonkv *client, const void *key, size_t key_len)
{
	struct fluxonkv_key k = { .data = key, .len = key_len };
	int err = fkv_client_check(client, "delete"), status = 0;

	if (!err)
		err = delete_keys(client, &k, 1, &status, "delete");
	return err ? err : status;
}

int fluxonkv_delete_many(struct fluxonkv *client,
			 const struct fluxonkv_key *keys, size_t n,
			 int *ret_status)
{
	int err = fkv_client_check(client, "delete_many");

	if (!err)
		err = fkv_batch_check("delete_many", keys, n);
	if (!err)
		err = fkv_batch_check("delete_many", ret_status, n);
	return err ? err :
		     delete_keys(client, keys, n, ret_status, "delete_many");
}

static void take_stat(void *arg, size_t i, const struct fluxonkv_result *res)
{
	struct fluxonkv_stat *st = (struct fluxonkv_stat *)arg + i;

	*st = (struct fluxonkv_stat){ .status = res->status };
	if (res->status)
		return;
	st->len = res->len;
	st->version = res->version;
	st->where = res->source & (FLUXONKV_WHERE_MEMORY | FLUXONKV_WHERE_SSD);
}

/* @how: call, flags, items, n. */
static int stat_keys(struct fluxonkv *client, const struct fkv_ask *how,
		     struct fluxonkv_stat *stats)
{
	struct fkv_ask ask = {
		.call = how->call,
		.op = FLUXONKV_OP_STAT,
		.flags = how->flags,
		.again = true,
		.n = how->n,
		.items = how->items,
	};

	return ask_keys(client, &ask, take_stat, stats);
}

int fluxonkv_stat(struct fluxonkv *client, const void *key, size_t key_len,
		  struct fluxonkv_stat *ret_stat)
{
	struct fluxonkv_key k = { .data = key, .len = key_len };
	struct fkv_ask how = { .call = "stat", .items = &k, .n = 1 };
	int err = fkv_client_check(client, "stat");

	if (err)
		return err;
	if (!ret_stat)
		return fkv_lib_fail(-EINVAL, "stat: ret_stat is NULL");
	err = stat_keys(client, &how, ret_stat);
	return err ? err : ret_stat->status;
}

static size_t leading(const struct fluxonkv_stat *stats, size_t n)
{
	size_t run = 0;

	while (run < n && !stats[run].status)
		run++;
	return run;
}

int fluxonkv_stat_many(struct fluxonkv *client, const struct fluxonkv_key *keys,
		       size_t n, struct fluxonkv_stat *ret_stats,
		       size_t *ret_leading)
{
	struct fkv_ask how = { .call = "stat_many", .items = keys, .n = n };
	int err = fkv_client_check(client, "stat_many");

	if (!err)
		err = fkv_batch_check("stat_many", keys, n);
	if (!err)
		err = fkv_batch_check("stat_many", ret_stats, n);
	if (!err)
		err = stat_keys(client, &how, ret_stats);
	if (!err && ret_leading)
		*ret_leading = leading(ret_stats, n);
	return err;
}

int fluxonkv_exists(struct fluxonkv *client, const void *key, size_t key_len)
{
	struct fluxonkv_stat st;

	return fluxonkv_stat(client, key, key_len, &st);
}

static int exists_keys(struct fluxonkv *client, const struct fkv_ask *how,
		       unsigned char *ret_exists, size_t *ret_leading)
{
	struct fluxonkv_stat stats[FLUXONKV_BATCH_MAX];
	int err = fkv_client_check(client, how->call);

	if (!err)
		err = fkv_batch_check(how->call, how->items, how->n);
	if (!err)
		err = stat_keys(client, how, stats);
	for (size_t i = 0; !err && ret_exists && i < how->n; i++)
		ret_exists[i] = !stats[i].status;
	if (!err && ret_leading)
		*ret_leading = leading(stats, how->n);
	return err;
}

int fluxonkv_exists_many(struct fluxonkv *client,
			 const struct fluxonkv_key *keys, size_t n,
			 unsigned char *ret_exists, size_t *ret_leading)
{
	struct fkv_ask how = { .call = "exists_many", .items = keys, .n = n };

	return exists_keys(client, &how, ret_exists, ret_leading);
}

int fluxonkv_warm(struct fluxonkv *client, const struct fluxonkv_key *keys,
		  size_t n, unsigned char *ret_exists, size_t *ret_leading)
{
	struct fkv_ask how = {
		.call = "warm",
		.flags = FLUXONKV_REQ_WARM,
		.items = keys,
		.n = n,
	};

	return exists_keys(client, &how, ret_exists, ret_leading);
}

/* A call of fixed items whose keys may be empty: LIST, COUNT, ADMIN. */
struct text_call {
	const char *call;
	uint16_t op;
	uint64_t arg;
	uint32_t nr;
	bool again;
	struct fluxonkv_key keys[2];
	uint64_t deadline;
};

static int build_text(const struct text_call *t, struct fkv_msg *msg)
{
	struct fluxonkv_req req = {
		.size = sizeof(req),
		.op = t->op,
		.nr = t->nr,
		.item_size = sizeof(struct fluxonkv_item),
		.arg = t->arg,
	};
	size_t room = 0;
	int err;

	for (uint32_t i = 0; i < t->nr; i++)
		room += fkv_key_room(t->keys[i].len);
	err = fkv_msg_init(msg, &req, room);
	for (uint32_t i = 0; !err && i < t->nr; i++) {
		struct fluxonkv_item item = {
			.key_len = (uint32_t)t->keys[i].len,
		};

		fkv_msg_add(msg, &item, t->keys[i].data);
	}
	return err;
}

/* 0 with a reply of status 0, to be done with; the connection is dropped. */
static int call_text(struct fluxonkv *client, const struct text_call *t,
		     struct fkv_reply *reply)
{
	struct fkv_conn *conn;
	struct fkv_msg msg;
	int err = build_text(t, &msg);

	if (err)
		return err;
	err = fkv_client_call(client, &msg, t->again, t->deadline, reply,
			      &conn);
	fkv_msg_done(&msg);
	if (err)
		return err;
	fkv_client_drop(client, conn);
	err = reply->rep.status;
	if (err) {
		fkv_reply_fail(reply, t->call, err);
		fkv_reply_done(reply);
	}
	return err;
}

/* A key that may be NULL or empty, as a prefix or cursor. */
static int take_key(const struct fluxonkv_key *key, const char *what,
		    struct fluxonkv_key *ret_key)
{
	*ret_key = (struct fluxonkv_key){ 0 };
	if (!key || !key->len)
		return 0;
	if (!key->data)
		return fkv_lib_fail(-EINVAL, "%s is NULL and its length %zu",
				    what, key->len);
	if (key->len > FLUXONKV_KEY_MAX)
		return fkv_lib_fail(-E2BIG, "%s of %zu bytes, expected at most "
				    "%d", what, key->len, FLUXONKV_KEY_MAX);
	*ret_key = *key;
	return 0;
}

/* The keys of one reply, up to @max, behind those that were there. */
static int take_list(const struct fkv_reply *reply,
		     struct fluxonkv_listed_key *keys, size_t max,
		     size_t *ret_n)
{
	size_t pos = 0;

	if (reply->rep.nr > max)
		return fkv_lib_fail(-EPROTO, "the daemon broke the protocol: "
				    "it listed %u keys, asked for %zu",
				    reply->rep.nr, max);
	for (uint32_t i = 0; i < reply->rep.nr; i++) {
		struct fluxonkv_listed at;
		const void *key;
		int err = fkv_reply_listed(reply, &pos, &at, &key);

		if (err)
			return err;
		memcpy(keys[i].key, key, at.key_len);
		keys[i].key_len = at.key_len;
		keys[i].len = at.len;
		keys[i].version = at.version;
		keys[i].where = at.where & (FLUXONKV_WHERE_MEMORY |
					    FLUXONKV_WHERE_SSD);
	}
	*ret_n = reply->rep.nr;
	return 0;
}

/* Until the keys are @max or the daemon has no more. */
static int list_all(struct fluxonkv *client, struct text_call *t,
		    struct fluxonkv_listed_key *keys, size_t max, size_t *ret_n)
{
	size_t n = 0, got = 0;
	bool more = true;

	while (more && n < max) {
		struct fkv_reply reply;
		int err;

		t->arg = max - n;
		err = call_text(client, t, &reply);
		if (err)
			return err;
		err = take_list(&reply, keys + n, max - n, &got);
		more = reply.rep.arg && reply.rep.nr;
		fkv_reply_done(&reply);
		if (err)
			return err;
		n += got;
		if (n) {
			t->keys[1].data = keys[n - 1].key;
			t->keys[1].len = keys[n - 1].key_len;
		}
	}
	*ret_n = n;
	return 0;
}

int fluxonkv_list(struct fluxonkv *client, const struct fluxonkv_key *prefix,
		  const struct fluxonkv_key *cursor,
		  struct fluxonkv_listed_key *ret_keys, size_t max,
		  size_t *ret_n)
{
	struct text_call t = {
		.call = "list",
		.op = FLUXONKV_OP_LIST,
		.nr = 2,
		.again = true,
	};
	int err = fkv_client_check(client, "list");

	if (err)
		return err;
	if (!ret_keys || !ret_n)
		return fkv_lib_fail(-EINVAL, "list: %s is NULL",
				    ret_keys ? "ret_n" : "ret_keys");
	if (max < 1 || max > FLUXONKV_LIST_MAX)
		return fkv_lib_fail(-EINVAL, "list: max is %zu, expected 1 to "
				    "%d", max, FLUXONKV_LIST_MAX);
	err = take_key(prefix, "list: prefix", &t.keys[0]);
	if (!err)
		err = take_key(cursor, "list: cursor", &t.keys[1]);
	if (err)
		return err;
	t.deadline = fkv_client_deadline(client);
	return list_all(client, &t, ret_keys, max, ret_n);
}

int fluxonkv_count(struct fluxonkv *client, const void *prefix,
		   size_t prefix_len, uint64_t *ret_count)
{
	struct fluxonkv_key key = { .data = prefix, .len = prefix_len };
	struct text_call t = {
		.call = "count",
		.op = FLUXONKV_OP_COUNT,
		.nr = 1,
		.again = true,
	};
	struct fkv_reply reply;
	int err = fkv_client_check(client, "count");

	if (err)
		return err;
	if (!ret_count)
		return fkv_lib_fail(-EINVAL, "count: ret_count is NULL");
	err = take_key(&key, "count: prefix", &t.keys[0]);
	if (err)
		return err;
	t.deadline = fkv_client_deadline(client);
	err = call_text(client, &t, &reply);
	if (err)
		return err;
	*ret_count = reply.rep.arg;
	fkv_reply_done(&reply);
	return 0;
}

static int take_word(const char *word, const char *what,
		     struct fluxonkv_key *ret_key)
{
	struct fluxonkv_key key = { .data = word, .len = strlen(word) };

	return take_key(&key, what, ret_key);
}

int fluxonkv_admin(struct fluxonkv *client, const char *word,
		   const char *argument, char **ret_text)
{
	struct text_call t = {
		.call = "admin",
		.op = FLUXONKV_OP_ADMIN,
		.nr = 2,
	};
	struct fkv_reply reply;
	char *text;
	int err = fkv_client_check(client, "admin");

	if (err)
		return err;
	if (!word || !*word || !ret_text)
		return fkv_lib_fail(-EINVAL, "admin: %s",
				    ret_text ? "no word, expected for example "
					       "\"status\"" :
					       "ret_text is NULL");
	err = take_word(word, "admin: word", &t.keys[0]);
	if (!err)
		err = take_word(argument ? argument : "", "admin: argument",
				&t.keys[1]);
	if (err)
		return err;
	t.deadline = fkv_client_deadline(client);
	err = call_text(client, &t, &reply);
	if (err)
		return err;
	text = strndup(reply.rep.text_len ? reply.text : "",
		       reply.rep.text_len);
	fkv_reply_done(&reply);
	if (!text)
		return fkv_lib_fail(-ENOMEM, "admin: no memory for the answer");
	*ret_text = text;
	return 0;
}
