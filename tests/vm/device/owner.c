// SPDX-License-Identifier: Apache-2.0
/*
 * owner.c - an owner that answers from a table
 */
#include <poll.h>

#include "common.h"

int owner_node(void)
{
	int fd = open("/dev/fluxonkv-owner", O_RDWR | O_CLOEXEC);

	CHECK(fd >= 0);
	return fd;
}

void owner_start(struct owner *o, const char *name, u64 bytes)
{
	struct fluxonkv_segment s = {
		.size = sizeof(s),
		.bytes = bytes,
		.flags = o->segment_flags,
	};

	o->fd = owner_node();
	o->bind.size = sizeof(o->bind);
	strcpy(o->bind.name, name);
	if (!o->bind.clients_max)
		o->bind.clients_max = 1000;
	o->bytes = bytes;
	o->next_put = 1;
	if (!o->slot)
		o->slot = bytes / 64;
	pthread_mutex_init(&o->lock, NULL);
	EQ(ask(o->fd, FLUXONKV_IOC_BIND, &o->bind), 0);
	EQ(ask(o->fd, FLUXONKV_IOC_SEGMENT_CREATE, &s), 0);
	s.flags = 0;
	EQ(ask(o->fd, FLUXONKV_IOC_SEGMENT_POPULATE, &s), 0);
	s = (struct fluxonkv_segment){ .size = sizeof(s) };
	EQ(ask(o->fd, FLUXONKV_IOC_SEGMENT_READY, &s), 0);
	o->map = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, o->fd,
		      0);
	CHECK(o->map != MAP_FAILED);
}

/* ---- what it tells the kernel ---- */

static int entry(struct owner *o, unsigned long cmd,
		 struct fluxonkv_entry *e, const char *key)
{
	struct fluxonkv_array a = {
		.size = sizeof(a),
		.at = (uintptr_t)e,
		.nr = 1,
		.stride = sizeof(*e),
	};
	int err;

	e->key = (uintptr_t)key;
	e->key_len = (u32)strlen(key);
	err = ask(o->fd, cmd, &a);
	return err ? err : e->status;
}

int owner_publish(struct owner *o, const char *key, u64 offset, u64 len,
		  u64 put_id)
{
	struct fluxonkv_entry e = {
		.put_id = put_id,
		.offset = offset,
		.len = len,
		.cookie = put_id,
	};

	return entry(o, FLUXONKV_IOC_PUBLISH, &e, key);
}

int owner_retire(struct owner *o, const char *key, u64 put_id)
{
	struct fluxonkv_entry e = { .put_id = put_id };

	return entry(o, FLUXONKV_IOC_RETIRE, &e, key);
}

int owner_evict(struct owner *o, const char *key, u64 put_id)
{
	struct fluxonkv_entry e = { .put_id = put_id };

	return entry(o, FLUXONKV_IOC_EVICT, &e, key);
}

int owner_held(struct owner *o, const char *key, u64 put_id)
{
	struct fluxonkv_entry e = { .put_id = put_id };

	return entry(o, FLUXONKV_IOC_HELD, &e, key);
}

int owner_shut(struct owner *o, u64 client, u64 put)
{
	struct fluxonkv_shut s = {
		.size = sizeof(s),
		.client = client,
		.put = put,
	};

	return ask(o->fd, FLUXONKV_IOC_SHUT, &s);
}

int owner_reply(struct owner *o, u64 cookie, const void *body, u32 size)
{
	struct fluxonkv_answer a = {
		.cookie = cookie,
		.body = (uintptr_t)body,
		.body_size = size,
	};
	struct fluxonkv_array all = {
		.size = sizeof(all),
		.at = (uintptr_t)&a,
		.nr = 1,
		.stride = sizeof(a),
	};
	int err = ask(o->fd, FLUXONKV_IOC_REPLY, &all);

	return err ? err : a.status;
}

struct fluxonkv_counts owner_counts(struct owner *o)
{
	struct fluxonkv_counts c = { .size = sizeof(c) };

	EQ(ask(o->fd, FLUXONKV_IOC_COUNTS, &c), 0);
	return c;
}

/* ---- what it is asked ---- */

static struct owner_slot *slot_of(struct owner *o, u64 put)
{
	for (u32 i = 0; i < OWNER_SLOTS; i++)
		if (o->slots[i].used && o->slots[i].put == put)
			return &o->slots[i];
	return NULL;
}

static u64 offset_of(struct owner *o, const struct owner_slot *s)
{
	return (u64)(s - o->slots) * o->slot;
}

static int begin(struct owner *o, u64 client, const char *key,
		 const struct fluxonkv_item *it, struct fluxonkv_result *res)
{
	u32 n = (u32)(o->bytes / o->slot);

	if (n > OWNER_SLOTS)
		n = OWNER_SLOTS;
	if (it->len > o->slot)
		return -EFBIG;
	for (u32 i = 0; i < n; i++) {
		struct owner_slot *s = &o->slots[(o->next_slot + i) % n];

		if (s->used)
			continue;
		*s = (struct owner_slot){
			.used = true,
			.put = o->next_put++,
			.client = client,
			.len = it->len,
		};
		memcpy(s->key, key, it->key_len);
		o->next_slot = (o->next_slot + i + 1) % n;
		res->offset = offset_of(o, s);
		res->len = it->len;
		res->id = s->put;
		return 0;
	}
	return -ENOSPC;
}

void owner_drop(struct owner *o, const char *key, u64 put_id)
{
	for (u32 i = 0; i < OWNER_SLOTS; i++) {
		struct owner_slot *s = &o->slots[i];

		if (s->used && s->committed && s->put <= put_id &&
		    !strcmp(s->key, key) &&
		    owner_retire(o, key, s->put) == FLUXONKV_QUIET)
			s->used = false;
	}
}

static int commit(struct owner *o, const struct fluxonkv_item *it,
		  struct fluxonkv_result *res)
{
	struct owner_slot *s = slot_of(o, it->id);

	if (!s || s->committed)
		return -EINVAL;
	owner_drop(o, s->key, ~0ULL);
	s->committed = true;
	res->version = s->put;
	if (it->flags & FLUXONKV_COMMIT_HOLD) {
		res->offset = offset_of(o, s);
		res->len = s->len;
		res->id = s->put;
	}
	return owner_publish(o, s->key, offset_of(o, s), s->len, s->put);
}

static int end_put(struct owner *o, u64 put)
{
	struct owner_slot *s = slot_of(o, put);

	if (!s)
		return -EINVAL;
	s->used = false;
	return 0;
}

static int do_item(struct owner *o, const struct fluxonkv_message *m,
		   const struct fluxonkv_item *it, const char *key,
		   struct fluxonkv_result *res)
{
	const struct fluxonkv_req *q = (const void *)(m + 1);

	switch (q->op) {
	case FLUXONKV_OP_GET:
		return -ENOENT;
	case FLUXONKV_OP_PUT_BEGIN:
		return begin(o, m->client, key, it, res);
	case FLUXONKV_OP_PUT_COMMIT:
		return commit(o, it, res);
	case FLUXONKV_OP_PUT_ABORT:
		return end_put(o, it->id);
	default:
		return -EOPNOTSUPP;
	}
}

static void answer(struct owner *o, struct fluxonkv_message *m)
{
	static __thread u8 out[65536];
	struct fluxonkv_req *q = (void *)(m + 1);
	struct fluxonkv_rep *r = (void *)out;
	struct fluxonkv_result *res = (void *)(r + 1);
	const u8 *at = (const u8 *)q + q->size;
	u32 size;

	*r = (struct fluxonkv_rep){
		.size = sizeof(*r),
		.op = q->op,
		.nr = q->nr,
		.item_size = sizeof(*res),
	};
	memset(res, 0, q->nr * sizeof(*res));
	for (u32 i = 0; i < q->nr; i++) {
		const struct fluxonkv_item *it = (const void *)at;
		char key[FLUXONKV_KEY_MAX + 1] = "";

		at += sizeof(*it);
		memcpy(key, at, it->key_len);
		at += (it->key_len + 7) & ~7U;
		res[i].status = do_item(o, m, it, key, &res[i]);
	}
	size = (u32)(sizeof(*r) + q->nr * sizeof(*res));
	owner_reply(o, m->cookie, out, size);
}

/* What it committed stays. */
static void free_client(struct owner *o, u64 client)
{
	for (u32 i = 0; i < OWNER_SLOTS; i++)
		if (o->slots[i].client == client && !o->slots[i].committed)
			o->slots[i].used = false;
}

void owner_handle(struct owner *o, struct fluxonkv_message *m)
{
	pthread_mutex_lock(&o->lock);
	if (o->nr_heard < OWNER_HEARD)
		o->heard[o->nr_heard++] = (struct owner_heard){
			m->type, m->client, m->cookie,
		};
	if (m->type == FLUXONKV_MESSAGE_REQUEST) {
		if (o->answer)
			o->answer(o, m, (void *)(m + 1));
		else
			answer(o, m);
	} else if (m->type == FLUXONKV_MESSAGE_QUIET ||
		   m->type == FLUXONKV_MESSAGE_SHUT) {
		end_put(o, m->cookie);
	} else if (m->type == FLUXONKV_MESSAGE_GONE) {
		free_client(o, m->client);
	}
	pthread_mutex_unlock(&o->lock);
}

u32 owner_recv(struct owner *o,
	       void (*fn)(struct owner *o, struct fluxonkv_message *m))
{
	static __thread u8 *buf;
	struct fluxonkv_recv r = {
		.size = sizeof(r),
		.room = FLUXONKV_RECV_ROOM,
	};

	if (!buf)
		buf = malloc(FLUXONKV_RECV_ROOM);
	r.at = (uintptr_t)buf;
	EQ(ask(o->fd, FLUXONKV_IOC_RECV, &r), 0);
	for (u32 at = 0; at < r.used;) {
		struct fluxonkv_message *m = (void *)(buf + at);

		fn(o, m);
		at += m->size;
	}
	return r.nr;
}

static void *serve(void *arg)
{
	struct owner *o = arg;

	for (;;) {
		struct pollfd p = { .fd = o->fd, .events = POLLIN };

		poll(&p, 1, -1);
		owner_recv(o, owner_handle);
	}
	return NULL;
}

void owner_serve(struct owner *o)
{
	CHECK(!pthread_create(&o->thread, NULL, serve, o));
}

struct want {
	struct owner *o;
	u32 type;
	u64 client, cookie;
};

static bool heard_it(void *arg)
{
	struct want *w = arg;
	bool found = false;

	pthread_mutex_lock(&w->o->lock);
	for (u32 i = 0; i < w->o->nr_heard && !found; i++) {
		const struct owner_heard *h = &w->o->heard[i];

		found = h->type == w->type && h->client == w->client &&
			h->cookie == w->cookie;
	}
	pthread_mutex_unlock(&w->o->lock);
	return found;
}

bool owner_heard(struct owner *o, u32 type, u64 client, u64 cookie, u32 ms)
{
	struct want w = { o, type, client, cookie };

	return wait_until(heard_it, &w, ms);
}

u32 owner_heard_nr(struct owner *o, u32 type)
{
	u32 n = 0;

	pthread_mutex_lock(&o->lock);
	for (u32 i = 0; i < o->nr_heard; i++)
		n += o->heard[i].type == type;
	pthread_mutex_unlock(&o->lock);
	return n;
}
