// SPDX-License-Identifier: Apache-2.0
/*
 * client.c - calls of a client, without the library
 */
#include "common.h"

#define REPLY_ROOM	65536

int client_node(void)
{
	int fd = open("/dev/fluxonkv", O_RDWR | O_CLOEXEC);

	CHECK(fd >= 0);
	return fd;
}

int attach(int fd, const char *name, struct fluxonkv_attach *ret)
{
	*ret = (struct fluxonkv_attach){ .size = sizeof(*ret) };
	strcpy(ret->name, name);
	return ask(fd, FLUXONKV_IOC_ATTACH, ret);
}

void client_start(struct client *c, const char *name)
{
	struct fluxonkv_attach a;

	c->fd = client_node();
	EQ(attach(c->fd, name, &a), 0);
	c->id = a.hello.client;
	c->bytes = a.hello.segment_bytes;
	c->seg = mmap(NULL, c->bytes, PROT_READ, MAP_SHARED, c->fd, 0);
	CHECK(c->seg != MAP_FAILED);
	c->win = mmap(NULL, c->bytes, PROT_READ | PROT_WRITE, MAP_SHARED,
		      c->fd, (off_t)FLUXONKV_WINDOW_OFFSET);
	CHECK(c->win != MAP_FAILED);
}

void client_stop(struct client *c)
{
	munmap((void *)c->seg, c->bytes);
	munmap(c->win, c->bytes);
	close(c->fd);
}

u32 body_build(void *to, u16 op, const struct item *it, u32 n, u64 timeout_ns)
{
	struct fluxonkv_req *q = to;
	u8 *at = (u8 *)(q + 1);

	*q = (struct fluxonkv_req){
		.size = sizeof(*q),
		.op = op,
		.nr = n,
		.item_size = sizeof(struct fluxonkv_item),
		.timeout_ns = timeout_ns,
	};
	for (u32 i = 0; i < n; i++) {
		u32 len = it[i].key ? (u32)strlen(it[i].key) : 0;

		*(struct fluxonkv_item *)at = (struct fluxonkv_item){
			.key_len = len,
			.flags = it[i].flags,
			.len = it[i].len,
			.id = it[i].id,
		};
		at += sizeof(struct fluxonkv_item);
		memset(at, 0, (len + 7) & ~7U);
		if (len)
			memcpy(at, it[i].key, len);
		at += (len + 7) & ~7U;
	}
	return (u32)(at - (u8 *)to);
}

int call_raw(int fd, const void *body, u32 size, struct fluxonkv_result *res,
	     u32 n)
{
	static __thread u8 rep[REPLY_ROOM];
	struct fluxonkv_call c = {
		.size = sizeof(c),
		.body = (uintptr_t)body,
		.body_size = size,
		.reply = (uintptr_t)rep,
		.reply_room = sizeof(rep),
	};
	int err = ask(fd, FLUXONKV_IOC_CALL, &c);

	if (!err && n)
		memcpy(res, rep + sizeof(struct fluxonkv_rep),
		       n * sizeof(*res));
	return err;
}

int call_many(int fd, u16 op, const struct item *it, u32 n,
	      struct fluxonkv_result *res)
{
	static __thread u8 body[65536];
	u32 size = body_build(body, op, it, n, 30 * SEC_NS);

	return call_raw(fd, body, size, res, n);
}

int call_one(int fd, u16 op, struct item it, struct fluxonkv_result *res)
{
	int err = call_many(fd, op, &it, 1, res);

	return err ? err : res->status;
}

int get(struct client *c, const char *key, struct fluxonkv_result *res)
{
	return call_one(c->fd, FLUXONKV_OP_GET, (struct item){ .key = key },
			res);
}

int release(struct client *c, u64 holder)
{
	struct fluxonkv_result res;

	return call_one(c->fd, FLUXONKV_OP_RELEASE,
			(struct item){ .id = holder }, &res);
}

int put_begin(struct client *c, const char *key, u64 len,
	      struct fluxonkv_result *res)
{
	return call_one(c->fd, FLUXONKV_OP_PUT_BEGIN,
			(struct item){ .key = key, .len = len }, res);
}

int put_commit(struct client *c, u64 put)
{
	struct fluxonkv_result res;

	return call_one(c->fd, FLUXONKV_OP_PUT_COMMIT,
			(struct item){ .id = put }, &res);
}

int put_abort(struct client *c, u64 put)
{
	struct fluxonkv_result res;

	return call_one(c->fd, FLUXONKV_OP_PUT_ABORT,
			(struct item){ .id = put }, &res);
}

int put_copy(struct client *c, const char *key, const void *from, u64 len)
{
	struct fluxonkv_result res;

	return call_one(c->fd, FLUXONKV_OP_PUT,
			(struct item){
				.key = key,
				.len = len,
				.id = (uintptr_t)from,
			}, &res);
}
