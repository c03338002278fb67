// SPDX-License-Identifier: Apache-2.0
/*
 * front_kdev.c - the kernel module as a front
 *
 * The kernel serves hits, holds what clients hold, and shuts what they write
 * to; it asks here for the rest. What the owner core knows as a holder by
 * message is a holder of the kernel's: either the index keeps the version for
 * it (then the core's own is released at once, and QUIET comes after a
 * retirement), or RELEASED comes when it ends.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/log.h"
#include "base/table.h"
#include "io/front.h"

#define HITS_BATCH	512
#define PROBE_BATCH	64
#define PROBES_MAX	16384	/* in one count */
#define NO_COOKIE	0
#define RECV_TRIES	16	/* that fail in a row */
#define SAY_EVERY	(10 * FKV_SEC)

struct client {
	struct fkv_node node;		/* by number */
	uint64_t id;
	pid_t pid;
	uid_t uid;
};

/* An entry that the kernel knows by the cookie slot + 1. */
struct slot {
	struct fkv_entry *entry;	/* NULL: free */
	uint32_t next;			/* free ones; slot + 1 */
};

struct front {
	struct fkv_front front;
	int fd;
	uv_poll_t poll;
	const struct fkv_gateway_ops *ops;
	void *arg;
	struct fkv_table clients;
	struct slot *slots;
	uint32_t nr_slots, free;	/* free: slot + 1 */
	uint64_t refused;		/* PUBLISH, ever */
	uint32_t recv_failures;		/* in a row */
	struct fkv_log_limit said;
	struct fkv_gateway_stats stats;
	struct fluxonkv_counts counts;
	uint8_t *room;			/* RECV's */
};

static struct front *of(struct fkv_front *f)
{
	return fkv_container_of(f, struct front, front);
}

static struct fluxonkv_array array_of(void *at, size_t stride, size_t nr)
{
	return (struct fluxonkv_array){
		.size = sizeof(struct fluxonkv_array),
		.at = (uintptr_t)at,
		.nr = (uint32_t)nr,
		.stride = (uint32_t)stride,
	};
}

/* 0, or -errno of the call; @a->done is how many elements were worked on. */
static int array_ioctl(const struct front *f, unsigned long cmd,
		       struct fluxonkv_array *a)
{
	return ioctl(f->fd, cmd, a) ? -errno : 0;
}

/* One element: 0, or -errno of the call. */
static int one_ioctl(const struct front *f, unsigned long cmd, void *element,
		     size_t size)
{
	struct fluxonkv_array a = array_of(element, size, 1);

	return array_ioctl(f, cmd, &a);
}

/* What cannot be, unless we or the kernel are wrong. */
static void call_failed(struct front *f, const char *call, int err)
{
	f->stats.call_errors++;
	if (fkv_log_allowed(&f->said, SAY_EVERY))
		fkv_log(FKV_LOG_ERR, "the kernel module refused %s: %s "
			"(errors=%llu)", call, strerror(-err),
			(unsigned long long)f->stats.call_errors);
}

/* ---- entries ---- */

static int slots_grow(struct front *f)
{
	uint32_t n = f->nr_slots ? f->nr_slots * 2 : 1024;
	struct slot *p = fkv_realloc(f->slots, n * sizeof(*p));

	if (!p)
		return -ENOMEM;
	f->slots = p;
	for (uint32_t i = n; i-- > f->nr_slots;) {
		p[i] = (struct slot){ .next = f->free };
		f->free = i + 1;
	}
	f->nr_slots = n;
	return 0;
}

static int slot_take(struct front *f, struct fkv_entry *e)
{
	if (!f->free && slots_grow(f))
		return -ENOMEM;
	e->slot = f->free - 1;
	f->free = f->slots[e->slot].next;
	f->slots[e->slot].entry = e;
	return 0;
}

static void slot_free(struct front *f, struct fkv_entry *e)
{
	f->slots[e->slot] = (struct slot){ .next = f->free };
	f->free = e->slot + 1;
	e->slot = FKV_NO_SLOT;
}

static struct fkv_entry *slot_entry(const struct front *f, uint64_t cookie)
{
	if (cookie == NO_COOKIE || cookie > f->nr_slots)
		return NULL;
	return f->slots[cookie - 1].entry;
}

static struct fluxonkv_entry describe(const struct fkv_entry *e)
{
	return (struct fluxonkv_entry){
		.key = (uintptr_t)e->key->data,
		.key_len = e->key->len,
		.put_id = e->put_id,
		.offset = e->offset,
		.len = e->len,
		.cookie = e->slot == FKV_NO_SLOT ? NO_COOKIE :
			(uint64_t)e->slot + 1,
	};
}

/* What the index does not take is served by message. */
static void publish(struct fkv_front *front, struct fkv_entry *e)
{
	struct front *f = of(front);
	struct fluxonkv_entry el;
	int err;

	e->slot = FKV_NO_SLOT;
	if (slot_take(f, e)) {
		f->refused++;
		return;
	}
	el = describe(e);
	err = one_ioctl(f, FLUXONKV_IOC_PUBLISH, &el, sizeof(el));
	if (!err)
		err = el.status;
	if (!err)
		return;
	f->refused++;
	fkv_log(FKV_LOG_DEBUG, "entry not published: %s", strerror(-err));
	slot_free(f, e);
}

static int retire(struct fkv_front *front, struct fkv_entry *e)
{
	struct front *f = of(front);
	struct fluxonkv_entry el = describe(e);
	int err = -ENOENT;

	if (e->slot != FKV_NO_SLOT) {
		err = one_ioctl(f, FLUXONKV_IOC_RETIRE, &el, sizeof(el));
		err = err ? err : el.status;
	}
	if (err == FLUXONKV_HELD)
		return 0;
	if (err && err != -ENOENT) {
		/* it may be served still: its extent is not used again */
		call_failed(f, "RETIRE", err);
		return 0;
	}
	if (e->slot != FKV_NO_SLOT)
		slot_free(f, e);
	f->ops->index.scanned(f->arg, e);
	return 0;
}

static void evict(struct fkv_front *front, struct fkv_entry *const *es,
		  size_t n, enum fkv_evict_result *ret)
{
	struct front *f = of(front);
	struct fluxonkv_entry el[FKV_EVICT_BATCH];
	size_t at[FKV_EVICT_BATCH], m = 0;
	struct fluxonkv_array a;
	int err;

	for (size_t i = 0; i < n; i++) {
		ret[i] = FKV_EVICT_OK;
		if (es[i]->slot == FKV_NO_SLOT)
			continue;
		ret[i] = FKV_EVICT_BUSY;
		at[m] = i;
		el[m++] = describe(es[i]);
	}
	if (!m)
		return;
	a = array_of(el, sizeof(el[0]), m);
	err = array_ioctl(f, FLUXONKV_IOC_EVICT, &a);
	if (err)
		call_failed(f, "EVICT", err);
	for (size_t j = 0; j < a.done; j++) {
		if (el[j].status == -EBUSY)
			continue;
		if (el[j].status && el[j].status != -ENOENT) {
			call_failed(f, "EVICT", el[j].status);
			continue;
		}
		ret[at[j]] = FKV_EVICT_OK;
		slot_free(f, es[at[j]]);
	}
}

/* The kernel says of each by itself. */
static size_t retired(struct fkv_front *f)
{
	(void)f;
	return 0;
}

static void scan(struct fkv_front *f)
{
	(void)f;
}

/* ---- calls and replies ---- */

/* A call of our own for @client that nobody waits for. */
static void call_for(struct front *f, uint64_t client, uint16_t op,
		     uint64_t id)
{
	struct fkv_call *call = fkv_call_create(op, 1);

	if (!call) {
		fkv_log(FKV_LOG_WARN, "no memory to end holder or put %llu of "
			"client %llu: kept until it disconnects",
			(unsigned long long)id, (unsigned long long)client);
		return;
	}
	call->client = client;
	call->items[0].id = id;
	f->ops->call(f->arg, call);
}

static int reply_send(struct front *f, uint64_t cookie, void *body,
		      size_t size)
{
	struct fluxonkv_answer a = {
		.cookie = cookie,
		.body = (uintptr_t)body,
		.body_size = (uint32_t)size,
	};
	int err = one_ioctl(f, FLUXONKV_IOC_REPLY, &a, sizeof(a));

	f->stats.replies++;
	return err ? err : a.status;
}

static void reply_error(struct front *f, uint64_t cookie, uint16_t op,
			int err, const char *text)
{
	uint64_t buf[64];
	size_t n = fkv_reply_error(op, err, text, buf, sizeof(buf));

	reply_send(f, cookie, buf, n);
}

static bool gives(const struct fkv_call *call)
{
	return call->op == FLUXONKV_OP_GET ||
	       call->op == FLUXONKV_OP_PUT_BEGIN ||
	       call->op == FLUXONKV_OP_PUT_COMMIT;
}

/*
 * What was given and not taken ends: all of it when nobody waited any more,
 * else what the kernel has crossed out: refused, or kept by its index.
 */
static void end_given(struct front *f, const struct fkv_call *call, int err,
		      const uint8_t *results)
{
	uint16_t op = call->op == FLUXONKV_OP_PUT_BEGIN ?
		FLUXONKV_OP_PUT_ABORT : FLUXONKV_OP_RELEASE;

	for (uint32_t i = 0; i < call->nr; i++) {
		const struct fluxonkv_result *was = &call->items[i].res;
		struct fluxonkv_result now;

		memcpy(&now, results + i * sizeof(now), sizeof(now));
		if (was->status || !was->id ||
		    ((!err || err == -EPROTO) && now.id))
			continue;
		call_for(f, call->client, op, was->id);
	}
}

static void reply(struct fkv_front *front, struct fkv_call *call)
{
	struct front *f = of(front);
	size_t n = fkv_reply_size(call);
	uint8_t *body;
	int err;

	if (!call->id) {
		fkv_call_free(call);
		return;
	}
	body = fkv_zalloc(n);
	if (!body) {
		reply_error(f, call->id, call->op, -ENOMEM, NULL);
		fkv_call_free(call);
		return;
	}
	fkv_reply_encode(call, body);
	err = reply_send(f, call->id, body, n);
	if (err == -ENOMEM)
		reply_error(f, call->id, call->op, err, NULL);
	if (err && err != -ENOENT)
		call_failed(f, "REPLY", err);
	if (gives(call))
		end_given(f, call, err, body + sizeof(struct fluxonkv_rep));
	fkv_free(body);
	fkv_call_free(call);
}

static const struct client *client_find(const struct front *f, uint64_t id)
{
	struct fkv_node *n = fkv_table_first(&f->clients, id);

	return n ? fkv_container_of(n, struct client, node) : NULL;
}

static void admin_text(struct front *f, const struct fkv_call *call,
		       const char *text)
{
	struct fluxonkv_rep rep = {
		.size = sizeof(rep),
		.op = call->op,
		.item_size = sizeof(struct fluxonkv_result),
		.text_len = (uint32_t)strlen(text),
	};
	size_t n = sizeof(rep) + rep.text_len;
	uint8_t *body = fkv_zalloc(n);

	if (!body) {
		reply_error(f, call->id, call->op, -ENOMEM, NULL);
		return;
	}
	memcpy(body, &rep, sizeof(rep));
	memcpy(body + sizeof(rep), text, rep.text_len);
	reply_send(f, call->id, body, n);
	fkv_free(body);
}

static void admin(struct front *f, const struct fkv_call *call)
{
	const struct client *c = client_find(f, call->client);
	struct fkv_refusal no;
	char *text = fkv_admin_ask(f->ops, f->arg, c ? c->uid : (uid_t)-1,
				   call, &no);

	if (text)
		admin_text(f, call, text);
	else
		reply_error(f, call->id, call->op, no.err, no.why);
	free(text);
}

/* ---- messages ---- */

static void request(struct front *f, const struct fluxonkv_message *m,
		    const uint8_t *body)
{
	struct fluxonkv_req req = { 0 };
	struct fkv_call *call;
	const char *why = NULL;
	int err;

	f->stats.requests++;
	err = fkv_call_decode(body, m->body_size, &call, &why);
	if (err) {
		f->stats.bad_requests++;
		if (m->body_size >= sizeof(req))
			memcpy(&req, body, sizeof(req));
		reply_error(f, m->cookie, req.op, err, why);
		return;
	}
	call->client = m->client;
	call->id = m->cookie;
	if (call->op == FLUXONKV_OP_ADMIN) {
		admin(f, call);
		fkv_call_free(call);
		return;
	}
	f->ops->call(f->arg, call);
}

static void client_new(struct front *f, const struct fluxonkv_message *m)
{
	struct client *c = fkv_zalloc(sizeof(*c));

	f->stats.accepted++;
	f->stats.connections++;
	if (c) {
		c->id = m->client;
		c->pid = (pid_t)m->pid;
		c->uid = m->uid;
		fkv_table_add(&f->clients, &c->node, c->id);
	}
	/* without it only its pid is not told */
	f->ops->client(f->arg, m->client, m->uid, 0);
}

static void client_gone(struct front *f, uint64_t id)
{
	struct fkv_node *n = fkv_table_first(&f->clients, id);

	f->stats.connections--;
	f->ops->gone(f->arg, id);
	if (!n)
		return;
	fkv_table_del(&f->clients, n);
	fkv_free(fkv_container_of(n, struct client, node));
}

static void quiet(struct front *f, uint64_t cookie)
{
	struct fkv_entry *e = slot_entry(f, cookie);

	if (!e)
		return;
	slot_free(f, e);
	f->ops->index.scanned(f->arg, e);
}

static void message(struct front *f, const struct fluxonkv_message *m,
		    const uint8_t *body)
{
	switch (m->type) {
	case FLUXONKV_MESSAGE_CLIENT:
		client_new(f, m);
		break;
	case FLUXONKV_MESSAGE_GONE:
		client_gone(f, m->client);
		break;
	case FLUXONKV_MESSAGE_REQUEST:
		request(f, m, body);
		break;
	case FLUXONKV_MESSAGE_QUIET:
		quiet(f, m->cookie);
		break;
	case FLUXONKV_MESSAGE_RELEASED:
		call_for(f, m->client, FLUXONKV_OP_RELEASE, m->cookie);
		break;
	case FLUXONKV_MESSAGE_SHUT:
		call_for(f, m->client, FLUXONKV_OP_PUT_ABORT, m->cookie);
		break;
	}
}

/*
 * What failed once may work next time, and is tried again at once, for it is
 * as readable as before. Else our clients would wait for ever.
 */
static void recv_failed(struct front *f, int err, bool again)
{
	call_failed(f, "RECV", err);
	if (again && ++f->recv_failures < RECV_TRIES)
		return;
	uv_poll_stop(&f->poll);
	f->ops->failed(f->arg);
}

static void recv_ready(uv_poll_t *h, int status, int events)
{
	struct front *f = h->data;
	struct fluxonkv_recv r = {
		.size = sizeof(r),
		.at = (uintptr_t)f->room,
		.room = FLUXONKV_RECV_ROOM,
	};
	uint32_t at = 0;

	(void)events;
	if (status < 0) {
		recv_failed(f, status, false);
		return;
	}
	if (ioctl(f->fd, FLUXONKV_IOC_RECV, &r)) {
		recv_failed(f, -errno, true);
		return;
	}
	f->recv_failures = 0;
	while (at < r.used) {
		struct fluxonkv_message m;

		memcpy(&m, f->room + at, sizeof(m));
		message(f, &m, f->room + at + sizeof(m));
		at += m.size;
	}
}

/* ---- the clock ---- */

static void alive(struct fkv_front *f, uint64_t until_ns)
{
	/* the kernel sees by itself when its owner is gone */
	(void)f;
	(void)until_ns;
}

static void lease(struct fkv_front *f, uint64_t until_ns)
{
	struct fluxonkv_lease l = {
		.size = sizeof(l),
		.until_ns = until_ns,
	};

	if (ioctl(of(f)->fd, FLUXONKV_IOC_LEASE, &l))
		call_failed(of(f), "LEASE", -errno);
}

static void take_hits(struct front *f)
{
	struct fluxonkv_hit hits[HITS_BATCH];
	struct fluxonkv_array a;

	do {
		a = array_of(hits, sizeof(hits[0]), HITS_BATCH);
		if (array_ioctl(f, FLUXONKV_IOC_HITS, &a))
			return;
		for (uint32_t i = 0; i < a.done; i++) {
			struct fkv_entry *e = slot_entry(f, hits[i].cookie);

			if (e && e->live)
				f->ops->index.hits(f->arg, e, hits[i].hits);
		}
	} while (a.done == HITS_BATCH);
}

/* Entries from *at on, which moves on: those that are held, and their bytes. */
static uint64_t probe(struct front *f, struct fkv_entry **at)
{
	struct fluxonkv_entry el[PROBE_BATCH];
	struct fkv_entry *of_el[PROBE_BATCH], *e = *at;
	struct fluxonkv_array a;
	uint64_t bytes = 0;
	uint32_t n = 0;

	for (; e && n < PROBE_BATCH; e = f->ops->next_pending(f->arg, e)) {
		e->read = false;
		if (e->slot == FKV_NO_SLOT)
			continue;
		of_el[n] = e;
		el[n++] = describe(e);
	}
	*at = e;
	a = array_of(el, sizeof(el[0]), n);
	if (n)
		array_ioctl(f, FLUXONKV_IOC_HELD, &a);
	for (uint32_t i = 0; i < a.done; i++) {
		of_el[i]->read = el[i].status == FLUXONKV_HELD;
		if (of_el[i]->read)
			bytes += fkv_extent_bytes(of_el[i]->len);
	}
	return bytes;
}

/*
 * Of what the kernel knows to be held, bytes that wait for their first persist:
 * these the master counts by itself. The oldest ones: behind very many of them
 * nobody is asked of, and what is held there counts twice for a while.
 */
static uint64_t held_pending(struct front *f)
{
	struct fkv_entry *at = f->ops->next_pending(f->arg, NULL);
	uint64_t bytes = 0;

	for (uint32_t i = 0; at && i < PROBES_MAX; i += PROBE_BATCH)
		bytes += probe(f, &at);
	return bytes;
}

static uint64_t count(struct fkv_front *front)
{
	struct front *f = of(front);
	struct fluxonkv_counts c = { .size = sizeof(c) };
	uint64_t held, pending;

	take_hits(f);
	if (!ioctl(f->fd, FLUXONKV_IOC_COUNTS, &c))
		f->counts = c;
	else
		call_failed(f, "COUNTS", -errno);
	held = f->counts.held_bytes;
	pending = held ? held_pending(f) : 0;
	/* released or taken between the two questions */
	return held - fkv_min_u64(held, pending);
}

static void shut(struct fkv_front *front, uint64_t client, uint64_t put)
{
	struct front *f = of(front);
	struct fluxonkv_shut s = {
		.size = sizeof(s),
		.client = client,
		.put = put,
	};

	/* not there any more: nobody writes, and no message will come */
	if (ioctl(f->fd, FLUXONKV_IOC_SHUT, &s))
		call_for(f, client, FLUXONKV_OP_PUT_ABORT, put);
}

/* ---- life ---- */

static int front_listen(struct fkv_front *front)
{
	struct front *f = of(front);
	struct fluxonkv_segment s = { .size = sizeof(s) };

	uv_poll_start(&f->poll, UV_READABLE, recv_ready);
	return ioctl(f->fd, FLUXONKV_IOC_SEGMENT_READY, &s) ? -errno : 0;
}

static void stop_accept(struct fkv_front *front)
{
	ioctl(of(front)->fd, FLUXONKV_IOC_STOP);
}

/* Clients end here; in the kernel those that hold something stay. */
static void close_all(struct fkv_front *front)
{
	struct front *f = of(front);
	struct fkv_node *n;
	uint64_t pos = 0;

	if (!uv_is_closing((uv_handle_t *)&f->poll)) {
		uv_poll_stop(&f->poll);
		uv_close((uv_handle_t *)&f->poll, NULL);
	}
	while ((n = fkv_table_drain(&f->clients, &pos))) {
		struct client *c = fkv_container_of(n, struct client, node);

		f->ops->gone(f->arg, c->id);
		fkv_free(c);
	}
}

static void front_free(struct fkv_front *front)
{
	struct front *f = of(front);

	/* its mapping may be there still: this is only one reference */
	close(f->fd);
	fkv_table_done(&f->clients);
	fkv_free(f->slots);
	fkv_free(f->room);
	fkv_free(f);
}

static struct fkv_arena *arena(struct fkv_front *f, uint64_t client)
{
	(void)f;
	(void)client;
	return NULL;
}

static void get_stats(struct fkv_front *front, struct fkv_gateway_stats *gs,
		      struct fkv_index_stats *is)
{
	struct front *f = of(front);
	const struct fluxonkv_counts *c = &f->counts;

	*gs = f->stats;
	gs->over_cap = c->quota;
	memset(is, 0, sizeof(*is));
	is->entries = f->nr_slots;
	is->used = c->entries + c->retired;
	is->retired = c->retired;
	is->pinned = c->holders;
	is->not_published = f->refused;
	is->counter[FLUXONKV_CNT_HITS] = c->hits;
	is->counter[FLUXONKV_CNT_HIT_BYTES] = c->hit_bytes;
}

static bool client_info(struct fkv_front *front, uint64_t client,
			struct fkv_conn_info *ret)
{
	struct front *f = of(front);
	const struct client *c = client_find(f, client);
	struct fluxonkv_client *all;
	size_t most = f->stats.connections + 64;
	struct fluxonkv_array a;

	*ret = (struct fkv_conn_info){ .client = client };
	if (!c)
		return false;
	ret->pid = c->pid;
	ret->uid = c->uid;
	all = fkv_zalloc(most * sizeof(*all));
	if (!all)
		return true;
	a = array_of(all, sizeof(*all), fkv_min_u64(most, 1 << 16));
	array_ioctl(f, FLUXONKV_IOC_CLIENTS, &a);
	for (uint32_t i = 0; i < a.done; i++) {
		if (all[i].client != client)
			continue;
		ret->pinned = all[i].holders;
		ret->pinned_bytes = all[i].pinned_bytes;
	}
	fkv_free(all);
	return true;
}

static const struct fkv_front_ops kdev_ops = {
	.name = "device",
	.keeps = true,
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

int fkv_front_kdev_create(uv_loop_t *loop, int fd,
			  const struct fkv_gateway_ops *ops, void *arg,
			  struct fkv_front **ret)
{
	struct front *f = fkv_zalloc(sizeof(*f));
	int err = -ENOMEM;

	if (!f)
		return err;
	f->front.ops = &kdev_ops;
	f->ops = ops;
	f->arg = arg;
	f->fd = fcntl(fd, F_DUPFD_CLOEXEC, 3);
	f->poll.data = f;
	f->room = fkv_zalloc(FLUXONKV_RECV_ROOM);
	if (f->fd < 0)
		err = -errno;
	else if (f->room && !fkv_table_init(&f->clients))
		err = uv_poll_init(loop, &f->poll, f->fd);
	if (err) {
		fkv_table_done(&f->clients);
		if (f->fd >= 0)
			close(f->fd);
		fkv_free(f->room);
		fkv_free(f);
		return err;
	}
	*ret = &f->front;
	return 0;
}
