// SPDX-License-Identifier: Apache-2.0
#define _GNU_SOURCE 1
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "fork.h"
#include "map.h"

/* Keep the descriptors of one message; what does not fit is closed. */
static void collect_fds(struct fkv_conn *conn, struct msghdr *m)
{
	struct cmsghdr *c;

	for (c = CMSG_FIRSTHDR(m); c; c = CMSG_NXTHDR(m, c)) {
		size_t n;

		if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
			continue;
		n = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
		for (size_t i = 0; i < n; i++) {
			int at = 1, fd;

			memcpy(&fd, CMSG_DATA(c) + i * sizeof(int), sizeof(fd));
			while (at < FKV_CONN_FDS && conn->fds[at] >= 0)
				at++;
			if (at < FKV_CONN_FDS)
				conn->fds[at] = fd;
			else
				close(fd);
		}
	}
}

ssize_t fkv_conn_recv(struct fkv_conn *conn, void *buf, size_t size)
{
	union {
		struct cmsghdr align;
		char room[CMSG_SPACE((FKV_CONN_FDS - 1) * sizeof(int))];
	} control;
	struct iovec iov = { .iov_base = buf, .iov_len = size };
	struct msghdr m = {
		.msg_iov = &iov,
		.msg_iovlen = 1,
		.msg_control = control.room,
		.msg_controllen = sizeof(control.room),
	};
	ssize_t n;
	int err;

	if (!conn->opening)
		return recv(conn->fds[0], buf, size, MSG_DONTWAIT);
	fkv_fork_lock();
	n = recvmsg(conn->fds[0], &m, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
	err = errno;
	if (n > 0)
		collect_fds(conn, &m);
	/* the kernel drops what the process has no descriptors for */
	conn->fds_lost |= n > 0 && m.msg_flags & MSG_CTRUNC;
	fkv_fork_unlock();
	errno = err;
	return n;
}

static void close_fds(struct fkv_conn *conn, int from)
{
	for (int i = from; i < FKV_CONN_FDS; i++) {
		if (conn->fds[i] >= 0)
			close(conn->fds[i]);
		conn->fds[i] = -1;
	}
}

void fkv_conn_free(struct fkv_conn *conn)
{
	const struct fluxonkv_hello *h = &conn->hello;

	fkv_fork_lock();
	fkv_fork_del(conn);
	close_fds(conn, 0);
	fkv_fork_unlock();
	fkv_unmap(conn->segment, h->segment_bytes);
	fkv_unmap(conn->writable, conn->writable_bytes);
	fkv_unmap(conn->index, h->index_bytes);
	fkv_unmap(conn->pages, h->pins_bytes);
	fkv_queue_done(&conn->posts);
	fkv_queue_done(&conn->rest);
	fkv_queue_done(&conn->in);
	free(conn->keep.notes);
	free(conn->keep.moving);
	pthread_cond_destroy(&conn->sendable);
	pthread_mutex_destroy(&conn->lock);
	free(conn);
}

void fkv_conn_forget(struct fkv_conn *conn)
{
	fkv_fork_lock();
	fkv_fork_del(conn);
	fkv_fork_unlock();
	if (pthread_mutex_trylock(&conn->lock) || conn->leader ||
	    conn->sending)
		return;
	/* conditions may have waiters of the parent: destroying would wait */
	fkv_queue_done(&conn->posts);
	fkv_queue_done(&conn->rest);
	fkv_queue_done(&conn->in);
	free(conn->keep.notes);
	free(conn->keep.moving);
	free(conn);
}

/* Map what the daemon gave; NULL on failure, said why. */
static void *map(int fd, uint64_t bytes, int prot, const char *what)
{
	struct fkv_mapped m = { .fd = fd, .bytes = bytes, .what = what };
	struct stat st;

	if (!bytes || fstat(fd, &st) || (uint64_t)st.st_size < bytes) {
		fkv_lib_fail(-EPROTO, "the daemon broke the protocol: its %s "
			     "is smaller than it says", what);
		return NULL;
	}
	return fkv_map(&m, prot);
}

static bool map_index(struct fkv_conn *conn)
{
	struct fluxonkv_hello *h = &conn->hello;

	conn->index = map(conn->fds[3], h->index_bytes, PROT_READ, "index");
	if (!conn->index)
		return false;
	conn->pages = map(conn->fds[4], h->pins_bytes, PROT_READ | PROT_WRITE,
			  "pin pages");
	return conn->pages != NULL;
}

/* Under the fork lock: a child would inherit what is not DONTFORK yet. */
static int map_all(struct fkv_conn *conn)
{
	struct fluxonkv_hello *h = &conn->hello;
	bool direct = h->flags & FLUXONKV_HELLO_WRITABLE;

	conn->segment = map(conn->fds[1], h->segment_bytes, PROT_READ,
			    "segment");
	if (!conn->segment)
		return -ENOMEM;
	conn->writable_bytes = direct ? h->segment_bytes : h->arena_bytes;
	conn->writable = map(conn->fds[2], conn->writable_bytes,
			     PROT_READ | PROT_WRITE,
			     direct ? "segment" : "put arena");
	if (!conn->writable)
		return -ENOMEM;
	if ((h->flags & FLUXONKV_HELLO_INDEX) && !map_index(conn))
		return -ENOMEM;
	close_fds(conn, 1);
	return 0;
}

int fkv_hello_check(const struct fluxonkv_hello *h, uint32_t known)
{
	if (h->abi != FLUXONKV_ABI_VERSION)
		return fkv_lib_fail(-EPROTONOSUPPORT, "the daemon speaks ABI "
				    "version %u, expected %d", h->abi,
				    FLUXONKV_ABI_VERSION);
	if (h->flags & ~known)
		return fkv_lib_fail(-EPROTONOSUPPORT, "the daemon wants "
				    "features that this library does not know "
				    "(flags 0x%x)", h->flags);
	return 0;
}

static int check_hello(struct fkv_conn *conn)
{
	uint32_t known = FLUXONKV_HELLO_WRITABLE | FLUXONKV_HELLO_INDEX |
			 FLUXONKV_HELLO_STRICT;
	const struct fluxonkv_hello *h = &conn->hello;
	int want = h->flags & FLUXONKV_HELLO_INDEX ? 4 : 2, got = 0;
	int err = fkv_hello_check(h, known);

	if (err)
		return err;
	while (got + 1 < FKV_CONN_FDS && conn->fds[got + 1] >= 0)
		got++;
	if (got < want && conn->fds_lost)
		return fkv_lib_fail(-EMFILE, "this process is out of file "
				    "descriptors (ulimit -n): a connection "
				    "needs %d", want + 1);
	if (got != want)
		return fkv_lib_fail(-EPROTO, "the daemon broke the protocol: "
				    "%d descriptors came with its hello, "
				    "expected %d", got, want);
	return 0;
}

static int take_hello(struct fkv_conn *conn)
{
	struct fkv_pins_sizes sizes;
	int err = check_hello(conn);

	if (err)
		return err;
	fkv_fork_lock();
	err = map_all(conn);
	fkv_fork_unlock();
	if (err || !conn->index)
		return err;
	sizes = (struct fkv_pins_sizes){
		.index = conn->hello.index_bytes,
		.pages = conn->hello.pins_bytes,
		.segment = conn->hello.segment_bytes,
	};
	err = fkv_pins_init(&conn->pins, conn->index, conn->pages, &sizes);
	if (conn->hello.flags & FLUXONKV_HELLO_STRICT)
		conn->pins.strict = true;
	return err;
}

/* Identity of this process's time namespace; 0: the kernel has none. */
static uint64_t time_namespace(void)
{
	struct stat st;

	return stat("/proc/self/ns/time", &st) ? 0 : (uint64_t)st.st_ino;
}

static int say_hello(struct fkv_conn *conn, uint64_t deadline)
{
	struct fluxonkv_req req = {
		.size = sizeof(req),
		.op = FLUXONKV_OP_HELLO,
		.item_size = sizeof(struct fluxonkv_item),
		.arg = time_namespace(),
	};
	struct fkv_reply reply;
	struct fkv_msg msg;
	int err;

	err = fkv_msg_init(&msg, &req, 0);
	if (err)
		return err;
	conn->opening = true;
	err = fkv_conn_call(conn, &msg, deadline, &reply);
	conn->opening = false;
	fkv_msg_done(&msg);
	if (err == -ENOTCONN && conn->no_memory)
		return fkv_lib_fail(-ENOMEM, "no memory for the daemon's "
				    "hello");
	if (err == -ENOTCONN)
		return fkv_lib_fail(err, "the daemon closed the connection at "
				    "once: it is stopping, or has no room for "
				    "one more client (its log says which)");
	if (err)
		return err;
	if (reply.rep.status)
		err = fkv_reply_fail(&reply, "open", reply.rep.status);
	else if (reply.rep.nr != 1)
		err = fkv_lib_fail(-EPROTO, "the daemon broke the protocol: "
				   "an empty hello");
	else
		memcpy(&conn->hello, reply.items, sizeof(conn->hello));
	fkv_reply_done(&reply);
	return err ? err : take_hello(conn);
}

/* A socket that neither blocks nor survives exec or fork. */
static int create_socket(struct fkv_conn **ret)
{
	struct fkv_conn *conn = NULL;
	int fd, err = -ENOMEM;

	fkv_fork_lock();
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd >= 0)
		conn = fkv_conn_create(fd);
	else
		err = -errno;
	if (!conn && fd >= 0)
		close(fd);
	fkv_fork_unlock();
	*ret = conn;
	return conn ? 0 : fkv_lib_fail(err, "cannot make a socket: %s",
				       strerror(-err));
}

static int connect_socket(int fd, const char *path, uint64_t deadline)
{
	struct sockaddr_un sa = { .sun_family = AF_UNIX };
	size_t len = strlen(path);

	if (!len || len >= sizeof(sa.sun_path))
		return fkv_lib_fail(-EINVAL, "socket path of %zu bytes, "
				    "expected 1 to %zu", len,
				    sizeof(sa.sun_path) - 1);
	memcpy(sa.sun_path, path, len + 1);
	while (connect(fd, (struct sockaddr *)&sa, sizeof(sa))) {
		int err = -errno;

		/* EAGAIN: the daemon does not come to accept(), as if frozen */
		if (err == -EAGAIN && fkv_now_ns() < deadline) {
			poll(NULL, 0, FKV_LIB_RETRY_MS);
			continue;
		}
		if (err == -EINTR)
			continue;
		return fkv_lib_fail(err == -EAGAIN ? -ETIMEDOUT : err,
				    "cannot connect to unix:%s: %s", path,
				    strerror(-err));
	}
	return 0;
}

int fkv_conn_open(const char *path, uint64_t deadline,
		  struct fkv_conn **ret_conn)
{
	struct fkv_conn *conn;
	int err = create_socket(&conn);

	if (err)
		return err;
	err = connect_socket(conn->fds[0], path, deadline);
	if (!err)
		err = say_hello(conn, deadline);
	if (err) {
		fkv_conn_free(conn);
		return err;
	}
	*ret_conn = conn;
	return 0;
}
