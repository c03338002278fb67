// SPDX-License-Identifier: Apache-2.0
#include "base/hash.h"
#include "svc/inbox.h"

static void post(struct fkv_inbox *in, struct fkv_result *r)
{
	pthread_mutex_lock(&in->lock);
	STAILQ_INSERT_TAIL(&in->results, r, link);
	pthread_mutex_unlock(&in->lock);
	uv_async_send(&in->wake);
}

void fkv_inbox_io_done(struct fkv_inbox *in, const struct fkv_io_result *res)
{
	struct fkv_result *r = (void *)(uintptr_t)res->token;

	r->res = res->res;
	r->sum = res->sum;
	if (r->cmd.io.part && !res->res)
		memcpy(r->sums, res->sums, fkv_sum_chunks(r->cmd.len) *
		       sizeof(r->sums[0]));
	r->ns = res->queue_ns + res->io_ns;
	post(in, r);
}

void fkv_inbox_work_done(void *inbox, const struct fkv_work *w)
{
	struct fkv_result *r = w->user;

	r->sum = w->sum;
	post(inbox, r);
}

static struct fkv_result *result_new(const struct fkv_cmd *cmd)
{
	struct fkv_result *r = fkv_zalloc(sizeof(*r));

	if (r)
		r->cmd = *cmd;
	return r;
}

static void request(const struct fkv_inbox *in, struct fkv_result *r,
		    struct fkv_io_request *ret)
{
	const struct fkv_cmd *cmd = &r->cmd;

	*ret = (struct fkv_io_request){
		.token = (uintptr_t)r,
		.kind = cmd->type == FKV_CMD_READ ? FKV_IO_READ : FKV_IO_WRITE,
		.shard = cmd->io.shard % in->shards_per_device,
		.vpos = cmd->io.vpos,
		.entry_len = cmd->io.entry_len,
		.skip_vpos = cmd->io.skip_vpos,
		.skip_len = cmd->io.skip_len,
		.memory = in->segment + cmd->offset,
		.len = cmd->len,
		.at = cmd->io.part ? cmd->from : 0,
		.sum_seed = cmd->seed,
		.seq = cmd->io.seq,
		.put_id = cmd->io.put_id,
		.sum = cmd->io.sum,
		.warm = cmd->io.warm,
	};
	if (!cmd->key)
		return;
	ret->key_len = cmd->key->len;
	memcpy(ret->key, cmd->key->data, cmd->key->len);
}

/* To the device; false when its mailbox is full now. */
static bool io_post(struct fkv_inbox *in, struct fkv_result *r)
{
	uint32_t device = r->cmd.io.shard / in->shards_per_device;
	struct fkv_key *key = r->cmd.key;
	struct fkv_io_request req;
	int err;

	request(in, r, &req);
	err = fkv_device_submit(in->devices[device], &req);
	if (err == -EAGAIN)
		return false;
	/* from here on it may be done, and the device's no more */
	fkv_key_put(key);
	if (err) {
		r->res = err;
		post(in, r);
	}
	return true;
}

bool fkv_inbox_io(struct fkv_inbox *in, const struct fkv_cmd *cmd)
{
	struct fkv_result *r = result_new(cmd);

	fkv_assert(!cmd->io.part || cmd->len <= FKV_CHUNK);
	if (!r)
		return false;
	if (!STAILQ_EMPTY(&in->waiting) || !io_post(in, r))
		STAILQ_INSERT_TAIL(&in->waiting, r, link);
	return true;
}

void fkv_inbox_retry(struct fkv_inbox *in)
{
	struct fkv_result *r;

	while ((r = STAILQ_FIRST(&in->waiting))) {
		/* once it is posted its link is the inbox's */
		STAILQ_REMOVE_HEAD(&in->waiting, link);
		if (io_post(in, r))
			continue;
		STAILQ_INSERT_HEAD(&in->waiting, r, link);
		return;
	}
}

bool fkv_inbox_work(struct fkv_inbox *in, const struct fkv_cmd *cmd,
		    struct fkv_front *f)
{
	struct fkv_result *r = result_new(cmd);
	struct fkv_work w = {
		.type = cmd->type == FKV_CMD_HASH ? FKV_WORK_HASH :
			FKV_WORK_COPY,
		.from = in->segment + cmd->offset,
		.len = cmd->len,
		.seed = cmd->seed,
		.user = r,
	};

	if (!r)
		return false;
	if (cmd->type == FKV_CMD_COPY) {
		r->arena = f->ops->arena(f, cmd->client);
		if (!r->arena) {
			r->res = -ECANCELED;
			post(in, r);
			return true;
		}
		w.from = fkv_arena_at(r->arena, cmd->from);
		w.to = in->segment + cmd->offset;
	}
	if (!fkv_workers_post(in->workers, &w))
		return true;
	fkv_arena_put(r->arena);
	fkv_free(r);
	return false;
}

struct fkv_in fkv_result_input(const struct fkv_result *r)
{
	static const enum fkv_in_type type[] = {
		[FKV_CMD_READ] = FKV_IN_IO_DONE,
		[FKV_CMD_WRITE] = FKV_IN_IO_DONE,
		[FKV_CMD_HASH] = FKV_IN_HASHED,
		[FKV_CMD_COPY] = FKV_IN_COPIED,
	};

	return (struct fkv_in){
		.type = type[r->cmd.type],
		.res = r->res,
		.token = r->cmd.token,
		.sum = r->sum,
		.sums = r->sums,
	};
}

void fkv_inbox_init(struct fkv_inbox *in)
{
	STAILQ_INIT(&in->results);
	STAILQ_INIT(&in->waiting);
	pthread_mutex_init(&in->lock, NULL);
}

void fkv_inbox_done(struct fkv_inbox *in)
{
	struct fkv_result *r;

	while ((r = STAILQ_FIRST(&in->results))) {
		STAILQ_REMOVE_HEAD(&in->results, link);
		fkv_arena_put(r->arena);
		fkv_free(r);
	}
	while ((r = STAILQ_FIRST(&in->waiting))) {
		STAILQ_REMOVE_HEAD(&in->waiting, link);
		fkv_key_put(r->cmd.key);
		fkv_free(r);
	}
	pthread_mutex_destroy(&in->lock);
}

void fkv_inbox_take(struct fkv_inbox *in, struct fkv_results *ret)
{
	STAILQ_INIT(ret);
	pthread_mutex_lock(&in->lock);
	STAILQ_CONCAT(ret, &in->results);
	pthread_mutex_unlock(&in->lock);
}
