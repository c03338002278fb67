// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>
#include <poll.h>
#include <sodium.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "wire/bytes.h"

#include "transfer_driver.h"

struct host src, dst;
struct fkv_transfer_times quick = {
	.connect_ns = 700 * FKV_MS, .stall_ns = 500 * FKV_MS,
};

/* ---- hosts ---- */

struct fkv_transfer_config host_config(const struct host *h)
{
	return (struct fkv_transfer_config){
		.self = { key, "test", h->name, h->life },
		.segment = h->mem, .segment_bytes = SEGMENT,
		.listen = (const struct sockaddr *)&h->at, .times = quick,
	};
}

static uint8_t *memory(void)
{
	uint8_t *p = mmap(NULL, SEGMENT, PROT_READ | PROT_WRITE,
			  MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	ck_assert_ptr_ne(p, MAP_FAILED);
	return p;
}

void host_start(struct host *h, const char *name, uint64_t life,
		uint32_t channels)
{
	struct fkv_transfer_config cfg;

	h->name = name;
	h->life = life;
	if (!h->mem)
		h->mem = memory();
	if (!h->at.ss_family)
		fkv_rpc_address("127.0.0.1:0", &h->at);
	cfg = host_config(h);
	cfg.channels = channels;
	ck_assert_int_eq(fkv_transfer_create(loop, &cfg, &h->t), 0);
	((struct sockaddr_in *)&h->at)->sin_port =
		htons(fkv_transfer_port(h->t));
}

void host_stop(struct host *h)
{
	if (!h->t)
		return;
	fkv_transfer_close(h->t);
	wait_for(fkv_transfer_is_closed(h->t));
	fkv_transfer_free(h->t);
	h->t = NULL;
}

void host_add(struct host *h, const struct host *peer)
{
	ck_assert_int_eq(fkv_transfer_peer_add(h->t, peer->name, peer->life,
				(const struct sockaddr *)&peer->at), 0);
}

void transfer_setup(void)
{
	ck_assert_int_eq(uv_loop_init(loop), 0);
	memset(key, 0x21, FKV_AUTH_KEY);
	memset(&src, 0, sizeof(src));
	memset(&dst, 0, sizeof(dst));
	host_start(&src, "src", SRC_LIFE, 0);
	host_start(&dst, "dst", DST_LIFE, 0);
	host_add(&dst, &src);
}

void transfer_teardown(void)
{
	host_stop(&dst);
	host_stop(&src);
	munmap(src.mem, SEGMENT);
	munmap(dst.mem, SEGMENT);
	ck_assert_int_eq(uv_loop_close(loop), 0);
}

/* ---- calls ---- */

void on_call(void *arg, const struct fkv_transfer_result *res)
{
	struct call *c = arg;

	c->dones++;
	c->res = *res;
}

void on_ready(void *arg, uint32_t slot, uint64_t generation)
{
	struct call *c = arg;

	ck_assert_uint_eq(c->dones, 0);
	c->readies++;
	c->slot = slot;
	c->generation = generation;
}

void ended(const struct call *c, int err, enum fkv_transfer_fault fault)
{
	wait_for(c->dones);
	ck_assert_uint_eq(c->dones, 1);
	ck_assert_int_eq(c->res.err, err);
	ck_assert_int_eq(c->res.fault, fault);
}

static uint64_t word(uint64_t i, uint64_t seed)
{
	return (i + seed * 0x9e3779b97f4a7c15ULL) * 0xff51afd7ed558ccdULL;
}

void fill(uint8_t *p, uint64_t len, uint64_t seed)
{
	uint64_t i, w;

	for (i = 0; i < len; i += sizeof(w)) {
		w = word(i, seed);
		memcpy(p + i, &w, fkv_min_u64(sizeof(w), len - i));
	}
}

bool filled(const uint8_t *p, uint64_t len, uint64_t seed)
{
	uint64_t i, w;

	for (i = 0; i < len; i += sizeof(w)) {
		w = word(i, seed);
		if (memcmp(p + i, &w, fkv_min_u64(sizeof(w), len - i)))
			return false;
	}
	return true;
}

struct fkv_transfer_pull pull_of(struct call *c, uint64_t op, uint64_t offset,
				 uint64_t len)
{
	memset(c, 0, sizeof(*c));
	return (struct fkv_transfer_pull){
		.op = op, .peer = SRC_LIFE, .remote = offset, .offset = offset,
		.len = len, .done = on_call, .arg = c,
	};
}

void expose(uint64_t op, uint64_t offset, uint64_t len)
{
	struct fkv_transfer_extent e = { .op = op, .offset = offset,
					 .len = len };

	ck_assert_int_eq(fkv_transfer_expose(src.t, &e), 0);
}

void pull(struct call *c, uint64_t op, uint64_t offset, uint64_t len)
{
	struct fkv_transfer_pull p = pull_of(c, op, offset, len);

	expose(op, offset, len);
	/* it is the source's thread that has to know */
	ck_assert_int_eq(fkv_transfer_unexpose(src.t, UINT64_MAX, on_call, c),
			 0);
	wait_for(c->dones);
	memset(c, 0, sizeof(*c));
	ck_assert_int_eq(fkv_transfer_pull(dst.t, &p), 0);
}

void open_target(struct call *c, uint64_t op, uint64_t offset, uint64_t len)
{
	struct fkv_transfer_target o = {
		.op = op, .peer = SRC_LIFE, .offset = offset, .len = len,
		.ready = on_ready, .done = on_call, .arg = c,
	};

	memset(c, 0, sizeof(*c));
	ck_assert_int_eq(fkv_transfer_open(dst.t, &o), 0);
	wait_for(c->readies || c->dones);
}

void push(struct call *c, uint64_t op, uint64_t len, const struct call *target)
{
	struct fkv_transfer_push p = {
		.op = op, .peer = DST_LIFE, .len = len, .done = on_call,
		.arg = c,
	};

	memset(c, 0, sizeof(*c));
	if (target) {
		p.slot = target->slot;
		p.generation = target->generation;
	}
	ck_assert_int_eq(fkv_transfer_push(src.t, &p), 0);
}

void piece(struct call *c, uint64_t op, const struct fkv_transfer_piece *p)
{
	struct fkv_transfer_piece with = *p;

	memset(c, 0, sizeof(*c));
	with.done = on_call;
	with.arg = c;
	ck_assert_int_eq(fkv_transfer_push_piece(src.t, op, &with), 0);
}

void src_serves(void)
{
	static uint64_t op = 1000;
	struct call c;

	fill(src.mem, 70000, op);
	pull(&c, ++op, 0, 70000);
	ended(&c, 0, FKV_FAULT_NONE);
	ck_assert(filled(dst.mem, 70000, op - 1));
}

/* ---- counts ---- */

static void look(void *arg, const struct fkv_transfer_peer_stats *s)
{
	struct fkv_transfer_peer_stats *ret = arg;

	if (s->incarnation == ret->incarnation)
		*ret = *s;
}

struct fkv_transfer_peer_stats peer_stats_of(struct host *h, uint64_t life)
{
	struct fkv_transfer_peer_stats s = { .incarnation = life };

	fkv_transfer_each_peer(h->t, look, &s);
	return s;
}

struct fkv_transfer_stats stats_of(struct host *h)
{
	struct fkv_transfer_stats s;

	fkv_transfer_get_stats(h->t, &s);
	return s;
}

/* ---- a plain socket ---- */

static void nonblocking(int fd)
{
	fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK);
}

/* A turn of the loop, without waiting past what the socket is ready for. */
static void raw_spin(const struct raw *r, short events)
{
	struct pollfd p[] = {
		{ .fd = r->fd, .events = events },
		{ .fd = uv_backend_fd(loop), .events = POLLIN },
	};

	poll(p, 2, 10);
	uv_run(loop, UV_RUN_NOWAIT);
}

bool raw_send(struct raw *r, const void *data, size_t n)
{
	const uint8_t *p = data;

	while (n) {
		ssize_t k = send(r->fd, p, n, MSG_NOSIGNAL);

		if (k > 0) {
			p += k;
			n -= (size_t)k;
		} else if (errno != EAGAIN) {
			return false;
		} else {
			raw_spin(r, POLLOUT);
		}
	}
	return true;
}

bool raw_recv(struct raw *r, void *to, size_t n)
{
	uint64_t until = fkv_clock_ns() + GUARD_NS;
	uint8_t *p = to;

	while (n) {
		ssize_t k = recv(r->fd, p, n, 0);

		if (!k || (k < 0 && errno != EAGAIN))
			return false;
		if (k > 0) {
			p += k;
			n -= (size_t)k;
			continue;
		}
		ck_assert_msg(fkv_clock_ns() < until, "nothing comes");
		raw_spin(r, POLLIN);
	}
	return true;
}

void raw_message(struct raw *r, const void *data, size_t n)
{
	uint8_t head[4];

	fkv_put32(head, (uint32_t)n);
	ck_assert_uint_le(r->said_len + 4 + n, sizeof(r->said));
	memcpy(r->said + r->said_len, head, 4);
	memcpy(r->said + r->said_len + 4, data, n);
	r->said_len += 4 + n;
	raw_send(r, head, 4);
	raw_send(r, data, n);
}

/* A message of the handshake; false: closed. */
static bool raw_input(struct raw *r)
{
	uint8_t buf[FKV_AUTH_MSG_MAX];
	struct fkv_auth_out out;
	const char *why;
	uint32_t n;

	if (!raw_recv(r, buf, 4))
		return false;
	n = fkv_get32(buf);
	ck_assert_uint_le(n, sizeof(buf));
	if (!raw_recv(r, buf, n))
		return false;
	ck_assert_int_eq(fkv_auth_input(&r->auth, buf, n, &out, &why), 0);
	if (out.len)
		raw_message(r, out.data, out.len);
	return true;
}

static void raw_begin(struct raw *r, bool dialer)
{
	uint8_t random[FKV_AUTH_RANDOM];
	struct fkv_auth_out out;

	randombytes_buf(random, sizeof(random));
	ck_assert_int_eq(fkv_auth_init(&r->auth, &r->self, dialer, random,
				       &out), 0);
	if (out.len)
		raw_message(r, out.data, out.len);
}

void raw_connect(struct raw *r)
{
	memset(r, 0, sizeof(*r));
	r->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	ck_assert_int_eq(connect(r->fd, (struct sockaddr *)&src.at,
				 sizeof(struct sockaddr_in)), 0);
	nonblocking(r->fd);
}

void raw_hello(struct raw *r, const uint8_t *with_key, const char *name,
	       uint64_t life)
{
	r->self = (struct fkv_auth_self){ with_key, "test", name, life };
	raw_begin(r, true);
}

void raw_dial(struct raw *r, const char *name, uint64_t life)
{
	raw_connect(r);
	raw_hello(r, key, name, life);
	ck_assert(raw_input(r));
	ck_assert_int_eq(r->auth.state, FKV_AUTH_OPEN);
}

int raw_listen(struct sockaddr_storage *ret)
{
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	socklen_t n = sizeof(*ret);

	fkv_rpc_address("127.0.0.1:0", ret);
	ck_assert_int_eq(bind(fd, (struct sockaddr *)ret,
			      sizeof(struct sockaddr_in)), 0);
	ck_assert_int_eq(listen(fd, 64), 0);
	getsockname(fd, (struct sockaddr *)ret, &n);
	nonblocking(fd);
	ck_assert_int_eq(fkv_transfer_peer_add(dst.t, "raw", RAW_LIFE,
					       (struct sockaddr *)ret), 0);
	return fd;
}

void raw_accept_as(struct raw *r, int listener, uint64_t life)
{
	memset(r, 0, sizeof(*r));
	wait_for((r->fd = accept(listener, NULL, NULL)) >= 0);
	nonblocking(r->fd);
	r->self = (struct fkv_auth_self){ key, "test", "raw", life };
	raw_begin(r, false);
	ck_assert(raw_input(r));
	if (life == RAW_LIFE)
		ck_assert(raw_input(r));
}

void raw_accept(struct raw *r, int listener)
{
	raw_accept_as(r, listener, RAW_LIFE);
	ck_assert_int_eq(r->auth.state, FKV_AUTH_OPEN);
}

struct fkv_frame raw_attach(struct raw *r)
{
	struct fkv_frame f, reply = { .kind = FKV_FRAME_ATTACHED };

	ck_assert(raw_hear(r, &f));
	ck_assert_int_eq(f.kind, FKV_FRAME_ATTACH);
	reply.op = f.op;
	raw_say(r, &reply);
	return f;
}

void raw_say(struct raw *r, const struct fkv_frame *f)
{
	uint8_t head[FKV_FRAME_HEAD + FKV_AUTH_SEAL];

	fkv_frame_make(f, head);
	fkv_auth_seal(&r->auth, head, FKV_FRAME_HEAD);
	raw_send(r, head, sizeof(head));
}

bool raw_hear(struct raw *r, struct fkv_frame *f)
{
	uint8_t head[FKV_FRAME_HEAD + FKV_AUTH_SEAL];
	size_t n;

	if (!raw_recv(r, head, sizeof(head)))
		return false;
	ck_assert_int_eq(fkv_auth_open(&r->auth, head, sizeof(head), &n), 0);
	ck_assert_int_eq(fkv_frame_parse(head, !r->auth.dialer, f), 0);
	return true;
}

/* What had come before does not matter. */
void raw_is_closed(struct raw *r)
{
	static uint8_t much[256 * 1024];
	uint64_t until = fkv_clock_ns() + GUARD_NS;
	ssize_t n;

	while ((n = recv(r->fd, much, sizeof(much), 0))) {
		if (n > 0)
			continue;
		if (errno != EAGAIN)
			break;
		ck_assert_msg(fkv_clock_ns() < until, "it is not closed");
		raw_spin(r, POLLIN);
	}
	close(r->fd);
}
