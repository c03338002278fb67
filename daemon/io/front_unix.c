// SPDX-License-Identifier: Apache-2.0
/*
 * front_unix.c - the unix socket and the shared index as a front
 */
#include <stdio.h>

#include "io/front.h"

struct front {
	struct fkv_front front;
	struct fkv_gateway *gateway;
	struct fkv_index *index;
	struct fkv_index_ops ops;
	void *arg;
};

static struct front *of(struct fkv_front *f)
{
	return fkv_container_of(f, struct front, front);
}

static int front_listen(struct fkv_front *f)
{
	return fkv_gateway_listen(of(f)->gateway);
}

static void stop_accept(struct fkv_front *f)
{
	fkv_gateway_stop_accept(of(f)->gateway);
}

static void close_all(struct fkv_front *f)
{
	fkv_index_alive(of(f)->index, 0);
	fkv_gateway_close_all(of(f)->gateway);
}

static void front_free(struct fkv_front *f)
{
	fkv_gateway_free(of(f)->gateway);
	fkv_index_free(of(f)->index);
	fkv_free(of(f));
}

static void reply(struct fkv_front *f, struct fkv_call *call)
{
	fkv_gateway_reply(of(f)->gateway, call);
}

static struct fkv_arena *arena(struct fkv_front *f, uint64_t client)
{
	return fkv_gateway_arena(of(f)->gateway, client);
}

static void publish(struct fkv_front *f, struct fkv_entry *e)
{
	fkv_index_publish(of(f)->index, e);
}

static int retire(struct fkv_front *f, struct fkv_entry *e)
{
	return fkv_index_retire(of(f)->index, e);
}

static void evict(struct fkv_front *f, struct fkv_entry *const *es, size_t n,
		  enum fkv_evict_result *ret)
{
	fkv_index_evict(of(f)->index, es, n, ret);
}

static size_t retired(struct fkv_front *f)
{
	return fkv_index_retired(of(f)->index);
}

static void scan(struct fkv_front *f)
{
	fkv_index_scan(of(f)->index, &of(f)->ops, of(f)->arg);
}

static void alive(struct fkv_front *f, uint64_t until_ns)
{
	fkv_index_alive(of(f)->index, until_ns);
}

static void lease(struct fkv_front *f, uint64_t until_ns)
{
	fkv_index_lease(of(f)->index, until_ns);
}

static uint64_t count(struct fkv_front *f)
{
	fkv_gateway_hits(of(f)->gateway);
	return fkv_gateway_count_pins(of(f)->gateway);
}

/* Its client may go on writing until it ends: the owner core waits for that. */
static void shut(struct fkv_front *f, uint64_t client, uint64_t put)
{
	(void)f;
	(void)client;
	(void)put;
}

static void get_stats(struct fkv_front *f, struct fkv_gateway_stats *gs,
		      struct fkv_index_stats *is)
{
	fkv_gateway_get_stats(of(f)->gateway, gs);
	fkv_index_get_stats(of(f)->index, is);
}

static bool client_info(struct fkv_front *f, uint64_t client,
			struct fkv_conn_info *ret)
{
	return fkv_gateway_conn_info(of(f)->gateway, client, ret);
}

static const struct fkv_front_ops unix_ops = {
	.name = "unix",
	.listen = front_listen,
	.stop_accept = stop_accept,
	.close_all = close_all,
	.free = front_free,
	.reply = reply,
	.arena = arena,
	.publish = publish,
	.retire = retire,
	.evict = evict,
	.retired = retired,
	.scan = scan,
	.alive = alive,
	.lease = lease,
	.count = count,
	.shut = shut,
	.get_stats = get_stats,
	.client_info = client_info,
};

int fkv_front_unix_create(uv_loop_t *loop,
			  const struct fkv_gateway_config *cfg,
			  uint32_t entries, struct fkv_front **ret, char *err,
			  size_t err_size)
{
	struct fkv_gateway_config gc = *cfg;
	struct front *f = fkv_zalloc(sizeof(*f));
	int res;

	snprintf(err, err_size, "out of memory");
	if (!f)
		return -ENOMEM;
	f->front.ops = &unix_ops;
	f->ops = cfg->ops->index;
	f->arg = cfg->arg;
	res = fkv_index_create(entries, cfg->incarnation, cfg->strict,
			       &f->index);
	gc.index = f->index;
	if (!res)
		res = fkv_gateway_create(loop, &gc, &f->gateway, err,
					 err_size);
	if (res) {
		fkv_index_free(f->index);
		fkv_free(f);
		return res;
	}
	*ret = &f->front;
	return 0;
}
