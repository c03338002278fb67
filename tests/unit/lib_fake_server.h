/* SPDX-License-Identifier: Apache-2.0 */
/*
 * lib_fake_server.h - a small server in the test's process
 *
 * It has one value, "value", for each key, and one in its index, "khot". It
 * counts what is given back and misbehaves on request (enum mode). One client
 * at a time; its thread ends with server_stop(), so that a test can restart
 * it. For one test file only: everything is static.
 */
#ifndef FKV_TEST_LIB_FAKE_SERVER_H
#define FKV_TEST_LIB_FAKE_SERVER_H

#include <check.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "lib_fake_index.h"

#define SEGMENT		(4u << 20)
#define HOT_OFFSET	8192u

enum mode {
	ANSWER,
	HOLD,		/* keep requests unanswered until the mode changes */
	BAD_BODY,	/* a reply to another operation */
	BAD_FRAME,	/* a frame of an impossible size */
	BAD_OFFSET,	/* a value outside of the segment */
	HANG_UP,	/* close instead of answering, once */
};

struct held_request {
	uint64_t id;
	uint16_t op;
	uint32_t nr;
};

static struct {
	pthread_mutex_t lock;
	pthread_cond_t changed;
	pthread_t thread;
	int listener, client, wake[2];
	enum mode mode;
	bool index, arena;
	uint64_t cap;
	unsigned int connections, requests, released, aborted, committed;
	unsigned int releases;		/* frames */
	struct held_request held[64];
	unsigned int nr_held;
	uint64_t next_id;
	uint8_t *segment, *index_map, *pages;
	int segment_fd, arena_fd, index_fd, pages_fd;
	bool quit;
} server;

static char dir[] = "/tmp/fkv-lib-XXXXXX";
static char path[64], address[80];

static int memory(size_t bytes, uint8_t **ret_map)
{
	int fd = memfd_create("test", MFD_CLOEXEC);

	ck_assert_int_ge(fd, 0);
	ck_assert_int_eq(ftruncate(fd, (off_t)bytes), 0);
	*ret_map = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd,
			0);
	ck_assert_ptr_ne(*ret_map, MAP_FAILED);
	return fd;
}

/* All of @size, or give up: the client may be gone. */
static void send_all(int fd, const void *data, size_t size)
{
	const char *p = data;

	while (size) {
		ssize_t n = send(fd, p, size, MSG_NOSIGNAL);

		if (n <= 0)
			return;
		p += n;
		size -= (size_t)n;
	}
}

static void send_reply(uint64_t id, const struct fluxonkv_rep *rep,
		       const void *items)
{
	size_t size = rep->nr * rep->item_size;
	struct fluxonkv_frame f = {
		.size = (uint32_t)(sizeof(f) + sizeof(*rep) + size),
		.id = id,
	};

	send_all(server.client, &f, sizeof(f));
	send_all(server.client, rep, sizeof(*rep));
	send_all(server.client, items, size);
}

static void say_hello(uint64_t id)
{
	struct fluxonkv_hello h = {
		.abi = FLUXONKV_ABI_VERSION,
		.flags = (server.index ? FLUXONKV_HELLO_INDEX : 0) |
			 (server.arena ? 0 : FLUXONKV_HELLO_WRITABLE),
		.segment_bytes = SEGMENT,
		.arena_bytes = server.arena ? 65536 : 0,
		.index_bytes = server.index ? FAKE_INDEX_BYTES : 0,
		.pins_bytes = server.index ? FAKE_PAGES_BYTES : 0,
		.client_cap_bytes = server.cap,
	};
	struct fluxonkv_rep rep = {
		.size = sizeof(rep), .op = FLUXONKV_OP_HELLO, .nr = 1,
		.item_size = sizeof(h),
	};
	struct fluxonkv_frame f = {
		.size = sizeof(f) + sizeof(rep) + sizeof(h), .id = id,
	};
	int fds[4] = {
		server.segment_fd,
		server.arena ? server.arena_fd : server.segment_fd,
		server.index_fd, server.pages_fd,
	};
	size_t n = (server.index ? 4 : 2) * sizeof(int);
	union {
		struct cmsghdr h;
		char room[CMSG_SPACE(sizeof(fds))];
	} control = { 0 };
	struct iovec iov = { .iov_base = &f, .iov_len = sizeof(f) };
	struct msghdr m = {
		.msg_iov = &iov, .msg_iovlen = 1,
		.msg_control = &control, .msg_controllen = CMSG_SPACE(n),
	};

	control.h.cmsg_level = SOL_SOCKET;
	control.h.cmsg_type = SCM_RIGHTS;
	control.h.cmsg_len = CMSG_LEN(n);
	memcpy(CMSG_DATA(&control.h), fds, n);
	sendmsg(server.client, &m, MSG_NOSIGNAL);
	send_all(server.client, &rep, sizeof(rep));
	send_all(server.client, &h, sizeof(h));
}

/* Lock held. */
static void answer(const struct held_request *q)
{
	static struct fluxonkv_result res[FLUXONKV_BATCH_MAX];
	struct fluxonkv_rep rep = {
		.size = sizeof(rep), .op = q->op, .nr = q->nr,
		.item_size = sizeof(res[0]),
	};

	for (uint32_t i = 0; i < q->nr; i++)
		res[i] = (struct fluxonkv_result){
			.source = FLUXONKV_SOURCE_LOCAL,
			.offset = server.mode == BAD_OFFSET ? SEGMENT : 4096,
			.len = 5,
			.version = 1,
			.id = ++server.next_id,
		};
	if (server.mode == BAD_BODY)
		rep.op = FLUXONKV_OP_ADMIN;
	send_reply(q->id, &rep, res);
}

/* LIST: one key, "kone"; COUNT: 7; ADMIN: "{}". Lock held. */
static void answer_text(const struct held_request *q)
{
	struct {
		struct fluxonkv_frame f;
		struct fluxonkv_rep rep;
		struct fluxonkv_listed at;
		char key[8];
	} m = {
		.rep = {
			.size = sizeof(m.rep), .op = q->op, .arg = 7,
			.item_size = sizeof(m.at),
		},
	};
	size_t size = sizeof(m.f) + sizeof(m.rep);

	if (q->op == FLUXONKV_OP_LIST) {
		m.rep.nr = 1;
		m.rep.arg = 0;
		m.at.key_len = 4;
		m.at.len = 5;
		memcpy(m.key, "kone", 4);
		size = sizeof(m);
	} else if (q->op == FLUXONKV_OP_ADMIN) {
		m.rep.text_len = 2;
		memcpy(&m.at, "{}", 2);
		size += 2;
	}
	m.f.size = (uint32_t)size;
	m.f.id = q->id;
	send_all(server.client, &m, size);
}

/* One request; false ends the connection. Lock held. */
static bool serve(const struct fluxonkv_frame *f, const uint8_t *body)
{
	struct held_request q = { .id = f->id };
	struct fluxonkv_frame bad = { .size = 3, .id = f->id };
	struct fluxonkv_req req;

	memcpy(&req, body, sizeof(req));
	q.op = req.op;
	q.nr = req.nr;
	if (req.op == FLUXONKV_OP_HELLO) {
		say_hello(f->id);
		return true;
	}
	server.requests++;
	if (req.op == FLUXONKV_OP_RELEASE) {
		server.released += req.nr;
		server.releases++;
	}
	if (req.op == FLUXONKV_OP_PUT_ABORT)
		server.aborted += req.nr;
	if (req.op == FLUXONKV_OP_PUT_COMMIT)
		server.committed += req.nr;
	pthread_cond_broadcast(&server.changed);
	if (!f->id)
		return true;
	if (server.mode == HANG_UP) {
		server.mode = ANSWER;
		return false;
	}
	if (server.mode == BAD_FRAME) {
		send_all(server.client, &bad, sizeof(bad));
		return false;
	}
	if (server.mode == HOLD)
		server.held[server.nr_held++ % 64] = q;
	else if (q.op >= FLUXONKV_OP_LIST)
		answer_text(&q);
	else
		answer(&q);
	return true;
}

static bool read_all(int fd, void *buf, size_t size)
{
	return recv(fd, buf, size, MSG_WAITALL) == (ssize_t)size;
}

static void hang_up(void)
{
	if (server.client >= 0)
		close(server.client);
	server.client = -1;
	server.nr_held = 0;
	pthread_cond_broadcast(&server.changed);
}

/* The next frame of the client. */
static void serve_next(void)
{
	static uint8_t body[FLUXONKV_FRAME_MAX];
	struct fluxonkv_frame f;
	bool ok = read_all(server.client, &f, sizeof(f)) &&
		  read_all(server.client, body, f.size - sizeof(f));

	pthread_mutex_lock(&server.lock);
	if (!ok || !serve(&f, body))
		hang_up();
	pthread_mutex_unlock(&server.lock);
}

static void *run(void *arg)
{
	(void)arg;
	for (;;) {
		struct pollfd p[2] = {
			{ .fd = server.wake[0], .events = POLLIN },
			{ .fd = server.client >= 0 ? server.client :
						     server.listener,
			  .events = POLLIN },
		};

		poll(p, 2, -1);
		if (p[0].revents)
			break;
		if (server.client >= 0) {
			serve_next();
			continue;
		}
		pthread_mutex_lock(&server.lock);
		server.client = accept4(server.listener, NULL, NULL,
					SOCK_CLOEXEC);
		server.connections++;
		pthread_mutex_unlock(&server.lock);
	}
	hang_up();
	return NULL;
}

static void listen_at(void)
{
	struct sockaddr_un sa = { .sun_family = AF_UNIX };

	snprintf(sa.sun_path, sizeof(sa.sun_path), "%s", path);
	unlink(path);
	server.listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	ck_assert_int_eq(bind(server.listener, (struct sockaddr *)&sa,
			      sizeof(sa)), 0);
	ck_assert_int_eq(listen(server.listener, 8), 0);
}

static void server_start(void)
{
	server.client = -1;
	ck_assert_int_eq(pipe(server.wake), 0);
	listen_at();
	ck_assert_int_eq(pthread_create(&server.thread, NULL, run, NULL), 0);
}

static void server_stop(void)
{
	ck_assert_int_eq(write(server.wake[1], "x", 1), 1);
	pthread_join(server.thread, NULL);
	close(server.listener);
	close(server.wake[0]);
	close(server.wake[1]);
	unlink(path);
}

static void setup(void)
{
	uint8_t *arena;

	memset(&server, 0, sizeof(server));
	pthread_mutex_init(&server.lock, NULL);
	pthread_cond_init(&server.changed, NULL);
	strcpy(dir, "/tmp/fkv-lib-XXXXXX");
	ck_assert_ptr_nonnull(mkdtemp(dir));
	snprintf(path, sizeof(path), "%s/s", dir);
	snprintf(address, sizeof(address), "unix:%s", path);
	server.segment_fd = memory(SEGMENT, &server.segment);
	server.arena_fd = memory(65536, &arena);
	server.index_fd = memory(FAKE_INDEX_BYTES, &server.index_map);
	server.pages_fd = memory(FAKE_PAGES_BYTES, &server.pages);
	memcpy(server.segment + 4096, "value", 5);
	memcpy(server.segment + HOT_OFFSET, "hot", 3);
	fake_init(server.index_map, server.pages);
	fake_add(server.index_map, 1, "khot", HOT_OFFSET, 3);
	server_start();
}

static void teardown(void)
{
	server_stop();
	rmdir(dir);
}

static void set_mode(enum mode mode)
{
	pthread_mutex_lock(&server.lock);
	server.mode = mode;
	if (mode == ANSWER) {
		for (unsigned int i = 0; i < server.nr_held; i++)
			answer(&server.held[i]);
		server.nr_held = 0;
	}
	pthread_mutex_unlock(&server.lock);
}

static void wait_count(const unsigned int *count, unsigned int want)
{
	pthread_mutex_lock(&server.lock);
	while (*count < want)
		pthread_cond_wait(&server.changed, &server.lock);
	ck_assert_uint_eq(*count, want);
	pthread_mutex_unlock(&server.lock);
}

static struct fluxonkv *client_open(void)
{
	struct fluxonkv *c = NULL;

	ck_assert_int_eq(fluxonkv_open(address, &c), 0);
	return c;
}

#endif
