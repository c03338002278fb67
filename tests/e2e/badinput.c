// SPDX-License-Identifier: Apache-2.0
/*
 * badinput.c - a client that keeps to no rule: every malformed frame and body,
 * 10,000 random ones from a fixed seed, pin pages full of nonsense, and a peer
 * that never reads. Each ends in an errno or a close, and a second client sees
 * nothing of it.
 */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fluxonkv.h>
#include <linux/fluxonkv.h>

#define RANDOM_FRAMES	10000
#define CLOSED		1		/* an answer: end of the connection */
#define SILENT		2		/* none within its time */

struct message {
	struct fluxonkv_frame frame;
	struct fluxonkv_req req;
	struct fluxonkv_item item;
	char rest[FLUXONKV_FRAME_MAX];
};

static struct message m;
static int failures;
static uint64_t state = 88172645463325252ULL;

static uint64_t rnd(void)
{
	state ^= state << 13;
	state ^= state >> 7;
	state ^= state << 17;
	return state;
}

static void fail(const char *what, int got, int want)
{
	printf("FAIL %s: %d, not %d\n", what, got, want);
	fflush(stdout);
	failures++;
}

static int dial(void)
{
	const char *path = getenv("FLUXONKV") + strlen("unix:");
	struct sockaddr_un sa = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	snprintf(sa.sun_path, sizeof(sa.sun_path), "%s", path);
	if (fd >= 0 && !connect(fd, (struct sockaddr *)&sa, sizeof(sa)))
		return fd;
	printf("FAIL connect: %s\n", strerror(errno));
	exit(1);
}

/* All or as much as the other side takes before it closes. */
static void send_all(int fd, const void *data, size_t n)
{
	const char *p = data;

	while (n > 0) {
		ssize_t got = send(fd, p, n, MSG_NOSIGNAL);

		if (got <= 0)
			return;
		p += got;
		n -= (size_t)got;
	}
}

static bool recv_all(int fd, void *data, size_t n, int ms)
{
	struct pollfd pfd = { .fd = fd, .events = POLLIN };
	char *p = data;

	while (n > 0) {
		ssize_t got;

		if (poll(&pfd, 1, ms) <= 0) {
			errno = ETIMEDOUT;
			return false;
		}
		got = recv(fd, p, n, 0);
		if (got <= 0) {
			errno = EPIPE;
			return false;
		}
		p += got;
		n -= (size_t)got;
	}
	return true;
}

/* The next reply's status, or CLOSED, or SILENT after @ms. */
static int answer(int fd, int ms)
{
	static char body[FLUXONKV_FRAME_MAX];
	struct fluxonkv_frame f;
	struct fluxonkv_rep rep;

	if (!recv_all(fd, &f, sizeof(f), ms))
		return errno == ETIMEDOUT ? SILENT : CLOSED;
	if (f.size < sizeof(f) + sizeof(rep) || f.size > FLUXONKV_FRAME_MAX ||
	    !recv_all(fd, body, f.size - sizeof(f), 5000)) {
		fail("a reply is broken", (int)f.size, 0);
		return CLOSED;
	}
	memcpy(&rep, body, sizeof(rep));
	if (!rep.status && rep.nr == 1 &&
	    rep.item_size == sizeof(struct fluxonkv_result)) {
		struct fluxonkv_result res;

		memcpy(&res, body + rep.size, sizeof(res));
		return res.status;
	}
	return rep.status;
}

/* A good request with one item; its key in m.rest. */
static void good(uint16_t op, const char *key)
{
	size_t n = strlen(key);

	memset(&m, 0, sizeof(m.frame) + sizeof(m.req) + sizeof(m.item) + 1024);
	m.req.size = sizeof(m.req);
	m.req.op = op;
	m.req.item_size = sizeof(m.item);
	m.req.timeout_ns = 1000000000;
	m.req.nr = op != FLUXONKV_OP_HELLO;
	m.item.key_len = (uint32_t)n;
	memcpy(m.rest, key, n);
	m.frame.size = (uint32_t)(sizeof(m.frame) + sizeof(m.req));
	if (m.req.nr)
		m.frame.size += (uint32_t)(sizeof(m.item) + (n + 7) / 8 * 8);
	m.frame.id = 7;
}

static int hello(void)
{
	int fd = dial(), got;

	good(FLUXONKV_OP_HELLO, "");
	send_all(fd, &m, m.frame.size);
	got = answer(fd, 5000);
	if (got)
		fail("HELLO", got, 0);
	return fd;
}

/* Send what m holds on @fd: @want, then the daemon lives and fd goes. */
static void try_on(int fd, const char *what, int want)
{
	int got;

	send_all(fd, &m, m.frame.size);
	got = answer(fd, 3000);
	if (got != want)
		fail(what, got, want);
	close(fd);
}

/* One change to a good GET at a time: an errno that fits. */
static void bodies(void)
{
#define TRY(change, want) do {						\
		int fd = hello();					\
									\
		good(FLUXONKV_OP_GET, "abc");				\
		change;							\
		try_on(fd, #change, want);				\
	} while (0)
	TRY((void)0, -ENOENT);
	TRY(m.req.op = 0, -EOPNOTSUPP);
	TRY(m.req.op = 13, -EOPNOTSUPP);
	TRY(m.req.op = 0xffff, -EOPNOTSUPP);
	TRY(m.req.flags = 1 << 7, -EINVAL);
	TRY(m.req.flags = FLUXONKV_REQ_WARM, -EINVAL);
	TRY(m.req.size = 0, -EINVAL);
	TRY(m.req.size = 8, -EINVAL);
	TRY(m.req.size = sizeof(m.req) + 8, -E2BIG);
	TRY(m.req.size = 0xffffffff, -EMSGSIZE);
	TRY(m.req.nr = 0, -EINVAL);
	TRY(m.req.nr = 2, -EMSGSIZE);
	TRY(m.req.nr = 1025, -E2BIG);
	TRY(m.req.nr = 0xffffffff, -E2BIG);
	TRY(m.req.item_size = 0, -EINVAL);
	TRY(m.req.item_size = 8, -EINVAL);
	TRY(m.req.item_size = 0xffffffff, -EINVAL);
	TRY(m.req.item_size = 4096, -EMSGSIZE);
	TRY(m.item.key_len = 0, -EMSGSIZE);
	TRY((m.item.key_len = 0, m.frame.size -= 8), -EINVAL);
	TRY(m.item.key_len = 513, -EMSGSIZE);
	TRY((m.item.key_len = 513, m.frame.size += 512), -E2BIG);
	TRY(m.item.key_len = 0xffffffff, -EMSGSIZE);
	TRY(m.item.flags = 1, -EINVAL);
	TRY(m.item.len = 1, -EINVAL);
	TRY(m.item.id = 1, -EINVAL);
	TRY(m.item.zero = 1, -EINVAL);
	TRY(m.rest[3] = 1, -EINVAL);
	TRY(m.frame.size -= 8, -EMSGSIZE);
	TRY(m.frame.size += 8, -EMSGSIZE);
	TRY(m.frame.size = sizeof(m.frame), -EMSGSIZE);
	TRY(m.frame.size = sizeof(m.frame) + 4, -EMSGSIZE);
	TRY(m.req.op = FLUXONKV_OP_RELEASE, -EINVAL);
	TRY(m.req.op = FLUXONKV_OP_PUT_COMMIT, -EINVAL);
	TRY(m.req.op = FLUXONKV_OP_LIST, -EINVAL);
	TRY((m.req.op = FLUXONKV_OP_PUT_BEGIN, m.item.len = 1ULL << 41),
	    -EFBIG);
	TRY((m.req.op = FLUXONKV_OP_PUT_BEGIN, m.item.len = UINT64_MAX),
	    -EFBIG);
	TRY((m.req.op = FLUXONKV_OP_PUT_BEGIN, m.item.flags = 1 << 5), -EINVAL);
	TRY((m.req.op = FLUXONKV_OP_PUT_BEGIN, m.item.id = 5), -EINVAL);
	TRY(m.req.op = FLUXONKV_OP_ADMIN, -EINVAL);
	TRY((m.req.timeout_ns = UINT64_MAX, m.req.arg = UINT64_MAX), -ENOENT);
#undef TRY
}

/* Ids that are not this client's. */
static void ids(void)
{
	static const uint16_t ops[] = {
		FLUXONKV_OP_RELEASE, FLUXONKV_OP_PUT_EXTEND,
		FLUXONKV_OP_PUT_COMMIT, FLUXONKV_OP_PUT_ABORT,
	};
	static const uint64_t bad[] = { 0, 1, 2, 1000, 1ULL << 32, UINT64_MAX };

	for (size_t o = 0; o < sizeof(ops) / sizeof(ops[0]); o++) {
		for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
			int fd = hello();

			good(ops[o], "");
			m.item.id = bad[i];
			try_on(fd, "an id of nobody", -EINVAL);
		}
	}
}

static void frames(void)
{
	static const uint32_t sizes[] = {
		0, 1, 15, FLUXONKV_FRAME_MAX + 1, 0x7fffffff, 0xffffffff,
	};
	int fd, got;

	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		fd = hello();
		good(FLUXONKV_OP_GET, "abc");
		m.frame.size = sizes[i];
		send_all(fd, &m, 64);
		got = answer(fd, 3000);
		if (got != -EPROTO)
			fail("a frame of a size out of range", got, -EPROTO);
		got = answer(fd, 3000);
		if (got != CLOSED)
			fail("and then a close", got, CLOSED);
		close(fd);
	}
	fd = hello();
	good(FLUXONKV_OP_GET, "abc");
	m.frame.zero = 1;
	try_on(fd, "a frame with padding", -EPROTO);
	fd = dial();
	good(FLUXONKV_OP_GET, "abc");
	try_on(fd, "GET before HELLO", -EPROTO);
	fd = hello();
	good(FLUXONKV_OP_HELLO, "");
	try_on(fd, "HELLO twice", -EALREADY);
	fd = hello();
	good(FLUXONKV_OP_GET, "abc");
	m.frame.id = 0;
	try_on(fd, "no reply wanted", SILENT);
}

/* A frame that comes byte by byte is good; one that ends early is nothing. */
static void slow(void)
{
	int fd = hello(), got;

	good(FLUXONKV_OP_GET, "abc");
	for (size_t i = 0; i < m.frame.size; i++)
		send_all(fd, (char *)&m + i, 1);
	got = answer(fd, 3000);
	if (got != -ENOENT)
		fail("a frame byte by byte", got, -ENOENT);
	send_all(fd, &m, m.frame.size - 5);
	got = answer(fd, 50);
	if (got != SILENT)
		fail("half a frame", got, SILENT);
	close(fd);
}

/* A request of which some bytes are others. */
static void mutate(void)
{
	static const uint16_t ops[] = { 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12 };
	uint32_t n;

	good(ops[rnd() % 11], rnd() & 1 ? "abc" : "random/12345");
	n = m.frame.size - (uint32_t)sizeof(m.frame);
	for (uint64_t i = rnd() % 6; i > 0; i--)
		((uint8_t *)&m.req)[rnd() % n] = (uint8_t)rnd();
	if (rnd() % 4 == 0)
		m.req.arg = rnd();
	if (rnd() % 3 == 0)
		m.item.id = rnd() % 64;
	m.req.timeout_ns = rnd() % 1000000;
}

static void noise(void)
{
	uint32_t n = (uint32_t)(rnd() % 300);

	m.frame = (struct fluxonkv_frame){
		.size = (uint32_t)sizeof(m.frame) + n, .id = rnd(),
	};
	for (uint32_t i = 0; i < n; i++)
		((uint8_t *)&m.req)[i] = (uint8_t)rnd();
	if (rnd() % 8 == 0)
		m.frame.size = (uint32_t)rnd();
	if (rnd() % 16 == 0)
		m.frame.zero = (uint32_t)rnd();
}

static void random_frames(void)
{
	int fd = hello(), got;

	for (int i = 0; i < RANDOM_FRAMES; i++) {
		size_t n;

		if (rnd() & 1)
			mutate();
		else
			noise();
		n = m.frame.size < 1024 ? m.frame.size : 1024;
		if (n < sizeof(m.frame))
			n = sizeof(m.frame);
		send_all(fd, &m, n);
		got = SILENT;
		if (m.frame.id)
			got = answer(fd, m.frame.size > 1024 ? 20 : 3000);
		if (got == SILENT && m.frame.id && m.frame.size <= 1024)
			fail("no answer to a random frame", i, -1);
		if (got <= 0 && got != -EPROTO && got != -EMSGSIZE)
			continue;
		close(fd);
		fd = rnd() % 8 ? hello() : dial();
	}
	close(fd);
}

/* HELLO with its descriptors: the last one is the pin pages, writable. */
static int hello_pins(int *ret_pins)
{
	char body[4096], control[256];
	struct iovec iov = { body, sizeof(body) };
	struct msghdr mh = {
		.msg_iov = &iov, .msg_iovlen = 1,
		.msg_control = control, .msg_controllen = sizeof(control),
	};
	struct cmsghdr *cm;
	int fd = dial(), fds[8], n;

	good(FLUXONKV_OP_HELLO, "");
	send_all(fd, &m, m.frame.size);
	*ret_pins = -1;
	if (recvmsg(fd, &mh, MSG_CMSG_CLOEXEC) <= 0)
		return fd;
	cm = CMSG_FIRSTHDR(&mh);
	if (!cm)
		return fd;
	n = (int)((cm->cmsg_len - CMSG_LEN(0)) / sizeof(int));
	memcpy(fds, CMSG_DATA(cm), (size_t)n * sizeof(int));
	for (int i = 0; i < n; i++) {
		if (i == 3)
			*ret_pins = fds[i];
		else
			close(fds[i]);
	}
	return fd;
}

/* What a client may write to, with nonsense: no other client may see it. */
static void pin_nonsense(void)
{
	for (int round = 0; round < 20; round++) {
		int pins, fd = hello_pins(&pins);
		off_t size = lseek(pins, 0, SEEK_END);
		uint64_t *p;

		p = size > 0 ? mmap(NULL, (size_t)size, PROT_READ | PROT_WRITE,
				    MAP_SHARED, pins, 0) : MAP_FAILED;
		if (p == MAP_FAILED) {
			fail("pin pages", round, -1);
			return;
		}
		for (size_t i = 0; i < (size_t)size / 8; i++)
			p[i] = round & 1 ? rnd() : rnd() % 256 << 32 |
							  rnd() % 64;
		good(FLUXONKV_OP_GET, "abc");
		send_all(fd, &m, m.frame.size);
		answer(fd, 500);
		if (!ftruncate(pins, 0))
			fail("pin pages may be cut", round, -1);
		usleep(20000);
		munmap(p, (size_t)size);
		close(pins);
		close(fd);
	}
}

/* Asks and asks and never reads. */
static void never_reads(void)
{
	int fd = hello();
	size_t sent = 0;

	good(FLUXONKV_OP_ADMIN, "metrics");
	while (sent < 4 * FLUXONKV_FRAME_MAX) {
		ssize_t n = send(fd, &m, m.frame.size,
				 MSG_NOSIGNAL | MSG_DONTWAIT);

		if (n != (ssize_t)m.frame.size)
			break;
		sent += (size_t)n;
	}
	if (sent >= 4 * FLUXONKV_FRAME_MAX)
		fail("a client that does not read is read from", 0, 0);
	usleep(300000);
	close(fd);
}

/* Another client, all the while: prints nothing unless disturbed. */
static void neighbour(int stop)
{
	struct pollfd pfd = { .fd = stop, .events = POLLIN };
	struct fluxonkv_holder h, kept = { .data = NULL };
	struct fluxonkv_counters c;
	struct fluxonkv *kv;
	char v[100];
	unsigned int n = 0;
	int err = fluxonkv_open(NULL, &kv);

	memset(v, 'n', sizeof(v));
	if (!err)
		err = fluxonkv_put(kv, "kept", 4, v, 50, 0);
	if (!err)
		err = fluxonkv_get(kv, "kept", 4, &kept);
	while (!err && poll(&pfd, 1, 1) == 0) {
		char key[32];
		size_t len = (size_t)snprintf(key, sizeof(key), "n/%u",
					      n++ % 100);

		err = fluxonkv_put(kv, key, len, v, sizeof(v), 0);
		if (!err)
			err = fluxonkv_get(kv, key, len, &h);
		if (!err && (h.len != 100 || memcmp(h.data, v, 100)))
			err = -EBADMSG;
		if (!err)
			err = fluxonkv_release(kv, &h);
	}
	if (err)
		printf("FAIL the neighbour: %s (%s)\n", fluxonkv_strerror(err),
		       fluxonkv_last_error());
	if (!err && memcmp(kept.data, v, 50))
		err = -EBADMSG;
	if (!err && !fluxonkv_get_counters(kv, &c) && c.reconnects) {
		printf("FAIL the neighbour was disconnected\n");
		err = -EPIPE;
	}
	if (!err)
		err = fluxonkv_release(kv, &kept);
	printf("neighbour: %u puts and gets\n", n);
	fflush(stdout);
	fluxonkv_close(kv);
	_exit(err != 0);
}

int main(void)
{
	int stop[2], status = 1;
	pid_t pid;

	signal(SIGPIPE, SIG_IGN);
	if (!getenv("FLUXONKV") || pipe(stop))
		return 2;
	pid = fork();
	if (!pid) {
		close(stop[1]);
		neighbour(stop[0]);
	}
	bodies();
	ids();
	frames();
	slow();
	random_frames();
	pin_nonsense();
	never_reads();
	close(stop[1]);
	waitpid(pid, &status, 0);
	if (!WIFEXITED(status) || WEXITSTATUS(status))
		fail("a neighbour was disturbed", status, 0);
	return failures != 0;
}
