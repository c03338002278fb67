// SPDX-License-Identifier: Apache-2.0
/*
 * tcp.c - the TCP transport: its sockets, and one turn of their loop
 *
 * A peer that vanishes without a word is given up by the kernel: idle, by
 * keepalive; with bytes under way, by the user timeout (A21).
 */
#include <assert.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "io/rpc.h"
#include "io/tcp_internal.h"

#define BACKLOG		256
#define ACCEPTS_MAX	64	/* of one turn */
#define EVENTS_MAX	64
#define NO_FD_NS	(100 * FKV_MS)	/* no descriptors: try again then */
#define LOOPBACK_BUFFER	(256 * 1024)
#define IDLE_SEC	2
#define PROBE_SEC	1
#define PROBES		3

static struct fkv_tcp *tcp_of(const struct fkv_data *x)
{
	return x->transport;
}

static struct fkv_tcp_conn *conn_of(struct fkv_data_chan *ch)
{
	return fkv_container_of(ch, struct fkv_tcp_conn, chan);
}

/* ---- sockets ---- */

static void option(int fd, int level, int name, int value)
{
	/* what a kernel does not have it does without */
	setsockopt(fd, level, name, &value, sizeof(value));
}

/*
 * What is in flight within a host had better stay in its caches: measured, a
 * third less time per byte than with the megabytes that the kernel tunes it to.
 */
static int buffer_bytes(const struct fkv_data *x, int fd, bool dialled)
{
	struct sockaddr_storage ss = { 0 };
	struct sockaddr *sa = (struct sockaddr *)&ss;
	socklen_t n = sizeof(ss);

	if (x->buffer_bytes)
		return x->buffer_bytes;
	if (dialled ? getpeername(fd, sa, &n) : getsockname(fd, sa, &n))
		return 0;
	return fkv_rpc_may_meet(NULL, sa) ? 0 : LOOPBACK_BUFFER;
}

static void options(const struct fkv_data *x, int fd, bool dialled)
{
	int buffer = buffer_bytes(x, fd, dialled);
	uint64_t silent_ms = x->times.stall_ns * 3 / 2 / FKV_MS;

	option(fd, IPPROTO_TCP, TCP_NODELAY, 1);
	option(fd, SOL_SOCKET, SO_KEEPALIVE, 1);
	option(fd, IPPROTO_TCP, TCP_KEEPIDLE, IDLE_SEC);
	option(fd, IPPROTO_TCP, TCP_KEEPINTVL, PROBE_SEC);
	option(fd, IPPROTO_TCP, TCP_KEEPCNT, PROBES);
	option(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, (int)silent_ms);
	if (buffer) {
		option(fd, SOL_SOCKET, SO_SNDBUF, buffer);
		option(fd, SOL_SOCKET, SO_RCVBUF, buffer);
	}
}

static struct fkv_tcp_conn *conn_create(struct fkv_data *x, int fd,
					bool dialled)
{
	struct fkv_tcp_conn *c = fkv_zalloc(sizeof(*c));
	struct epoll_event ev = { .data.ptr = c };

	if (!c || epoll_ctl(tcp_of(x)->epoll_fd, EPOLL_CTL_ADD, fd, &ev)) {
		fkv_free(c);
		return NULL;
	}
	c->fd = fd;
	options(x, fd, dialled);
	fkv_data_chan_init(x, &c->chan, dialled);
	TAILQ_INSERT_TAIL(&tcp_of(x)->all, c, link);
	return c;
}

void fkv_tcp_interest(struct fkv_tcp_conn *c, uint32_t events)
{
	struct epoll_event ev = { .events = events, .data.ptr = c };

	if (c->fd < 0 || c->events == events)
		return;
	c->events = events;
	fkv_assert(!epoll_ctl(tcp_of(c->chan.x)->epoll_fd, EPOLL_CTL_MOD, c->fd,
			      &ev));
}

void fkv_tcp_dirty(struct fkv_tcp_conn *c)
{
	if (c->dirty || c->fd < 0)
		return;
	c->dirty = true;
	TAILQ_INSERT_TAIL(&tcp_of(c->chan.x)->dirty, c, dirty_link);
}

/* It has shown that it has the key, or is no more. */
void fkv_tcp_known(struct fkv_tcp_conn *c)
{
	if (!c->stranger)
		return;
	c->stranger = false;
	TAILQ_REMOVE(&tcp_of(c->chan.x)->strangers, c, stranger_link);
	fkv_data_count(&c->chan.x->strangers, -1);
}

static void tcp_destroy(struct fkv_data_chan *ch)
{
	struct fkv_tcp_conn *c = conn_of(ch);
	struct fkv_tcp *tcp = tcp_of(ch->x);

	fkv_tcp_known(c);
	if (c->dirty)
		TAILQ_REMOVE(&tcp->dirty, c, dirty_link);
	c->dirty = false;
	/* out of the epoll set as well: nobody else has this descriptor */
	close(c->fd);
	c->fd = -1;
	c->body = NULL;
	fkv_auth_done(&c->auth);
	TAILQ_REMOVE(&tcp->all, c, link);
	TAILQ_INSERT_TAIL(&tcp->dead, c, link);
}

static void bury(struct fkv_tcp *tcp)
{
	struct fkv_tcp_conn *c;

	while ((c = TAILQ_FIRST(&tcp->dead))) {
		TAILQ_REMOVE(&tcp->dead, c, link);
		fkv_free(c);
	}
}

static int tcp_dial(struct fkv_data *x, const struct fkv_data_peer *p,
		    struct fkv_data_chan **ret)
{
	const struct sockaddr *at = (const struct sockaddr *)&p->at;
	socklen_t size = at->sa_family == AF_INET ? sizeof(struct sockaddr_in) :
						    sizeof(struct sockaddr_in6);
	int fd = socket(at->sa_family,
			SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	struct fkv_tcp_conn *c;
	int err = fd < 0 ? -errno : 0;

	if (err)
		return err;
	/* what is refused at once is told like what is refused later */
	if (connect(fd, at, size) && errno != EINPROGRESS)
		err = -errno;
	c = conn_create(x, fd, true);
	if (!c) {
		close(fd);
		return -ENOMEM;
	}
	c->connecting = true;
	c->doomed = err;
	if (err)
		fkv_tcp_dirty(c);
	else
		fkv_tcp_interest(c, EPOLLOUT);
	*ret = &c->chan;
	return 0;
}

/* ---- who comes ---- */

static void shed(struct fkv_data *x)
{
	struct fkv_tcp_conn *c = TAILQ_FIRST(&tcp_of(x)->strangers);

	/* the oldest has had the most time */
	if (x->strangers >= FKV_TRANSFER_STRANGERS_MAX)
		fkv_data_chan_close(&c->chan, -EUSERS, FKV_FAULT_TRANSPORT);
}

static void meet(struct fkv_data *x, int fd)
{
	struct fkv_tcp_conn *c = NULL;

	shed(x);
	if (x->connections < FKV_TRANSFER_CONNS_MAX)
		c = conn_create(x, fd, false);
	if (!c) {
		fkv_data_count(&x->refused, 1);
		close(fd);
		return;
	}
	fkv_data_count(&x->accepted, 1);
	fkv_data_count(&x->strangers, 1);
	c->stranger = true;
	TAILQ_INSERT_TAIL(&tcp_of(x)->strangers, c, stranger_link);
	fkv_tcp_begin(c);
}

static void listen_interest(struct fkv_tcp *tcp, uint32_t events)
{
	struct epoll_event ev = { .events = events };

	fkv_assert(!epoll_ctl(tcp->epoll_fd, EPOLL_CTL_MOD, tcp->listen_fd,
			      &ev));
}

static void accept_all(struct fkv_data *x)
{
	struct fkv_tcp *tcp = tcp_of(x);

	for (int i = 0; i < ACCEPTS_MAX; i++) {
		int fd = accept4(tcp->listen_fd, NULL, NULL,
				 SOCK_CLOEXEC | SOCK_NONBLOCK);

		if (fd >= 0) {
			meet(x, fd);
			continue;
		}
		if (errno == EMFILE || errno == ENFILE || errno == ENOMEM ||
		    errno == ENOBUFS) {
			/* or it would be woken for it all the time */
			tcp->accept_ns = x->now_ns + NO_FD_NS;
			listen_interest(tcp, 0);
		}
		if (errno != EINTR && errno != ECONNABORTED)
			return;
	}
}

static void tcp_shed(struct fkv_data *x)
{
	struct fkv_tcp_conn *c;

	while ((c = TAILQ_FIRST(&tcp_of(x)->all)))
		fkv_data_chan_close(&c->chan, -ECANCELED, FKV_FAULT_LOCAL);
}

/* ---- a turn ---- */

static void connected(struct fkv_tcp_conn *c)
{
	socklen_t n = sizeof(int);
	int err = 0;

	if (getsockopt(c->fd, SOL_SOCKET, SO_ERROR, &err, &n))
		err = errno;
	c->connecting = false;
	if (err)
		fkv_data_chan_close(&c->chan, -err, FKV_FAULT_TRANSPORT);
	else
		fkv_tcp_begin(c);
}

static void event(struct fkv_data *x, const struct epoll_event *ev)
{
	struct fkv_tcp_conn *c = ev->data.ptr;
	uint64_t count;

	if (ev->data.ptr == x) {
		while (read(x->wake_fd, &count, sizeof(count)) < 0 &&
		       errno == EINTR)
			;
		return;
	}
	if (!c) {
		accept_all(x);
		return;
	}
	if (c->fd >= 0 && c->connecting) {
		connected(c);
		return;
	}
	/* an error is what reading says */
	if (c->fd >= 0 && ev->events & ~(uint32_t)EPOLLOUT)
		fkv_tcp_readable(c);
	if (c->fd >= 0 && ev->events & EPOLLOUT)
		fkv_tcp_flush(c);
}

static void flush_all(struct fkv_tcp *tcp)
{
	struct fkv_tcp_conn *c;

	while ((c = TAILQ_FIRST(&tcp->dirty))) {
		TAILQ_REMOVE(&tcp->dirty, c, dirty_link);
		c->dirty = false;
		if (c->doomed)
			fkv_data_chan_close(&c->chan, c->doomed,
					    FKV_FAULT_TRANSPORT);
		else
			fkv_tcp_flush(c);
	}
}

static int wait_ms(const struct fkv_tcp *tcp, uint64_t until_ns)
{
	uint64_t now = fkv_clock_ns();

	if (tcp->accept_ns)
		until_ns = fkv_min_u64(until_ns, tcp->accept_ns);
	if (until_ns == FKV_NEVER)
		return -1;
	if (until_ns <= now)
		return 0;
	return (int)fkv_min_u64((until_ns - now + FKV_MS - 1) / FKV_MS, 60000);
}

static void tcp_turn(struct fkv_data *x, uint64_t until_ns)
{
	struct epoll_event events[EVENTS_MAX];
	struct fkv_tcp *tcp = tcp_of(x);
	int n;

	flush_all(tcp);
	bury(tcp);
	n = epoll_wait(tcp->epoll_fd, events, EVENTS_MAX,
		       wait_ms(tcp, until_ns));
	x->now_ns = fkv_clock_ns();
	if (tcp->accept_ns && tcp->accept_ns <= x->now_ns) {
		tcp->accept_ns = 0;
		listen_interest(tcp, EPOLLIN);
	}
	for (int i = 0; i < n; i++)
		event(x, &events[i]);
	flush_all(tcp);
	bury(tcp);
}

/* ---- life ---- */

static void tcp_ask(struct fkv_data_chan *ch, const struct fkv_data_op *op)
{
	struct fkv_frame f = {
		.kind = op->pull ? FKV_FRAME_PULL : FKV_FRAME_TARGET,
		.op = op->id, .offset = op->pull ? op->remote : 0,
		.len = op->len,
	};

	fkv_tcp_say(conn_of(ch), &f);
}

static void tcp_kick(struct fkv_data_chan *ch)
{
	fkv_tcp_dirty(conn_of(ch));
}

static void tcp_free(struct fkv_data *x)
{
	struct fkv_tcp *tcp = tcp_of(x);

	fkv_assert(TAILQ_EMPTY(&tcp->all));
	bury(tcp);
	if (tcp->listen_fd >= 0)
		close(tcp->listen_fd);
	if (tcp->epoll_fd >= 0)
		close(tcp->epoll_fd);
	fkv_free(tcp);
}

static const struct fkv_transport tcp_transport = {
	.name = "tcp",
	.dial = tcp_dial,
	.ask = tcp_ask,
	.kick = tcp_kick,
	.destroy = tcp_destroy,
	.shed = tcp_shed,
	.turn = tcp_turn,
	.free = tcp_free,
};

static int watch(const struct fkv_tcp *tcp, int fd, void *what)
{
	struct epoll_event ev = { .events = EPOLLIN, .data.ptr = what };

	return epoll_ctl(tcp->epoll_fd, EPOLL_CTL_ADD, fd, &ev) ? -errno : 0;
}

static_assert(offsetof(struct sockaddr_in, sin_port) ==
	      offsetof(struct sockaddr_in6, sin6_port), "one place for both");

static int listen_at(struct fkv_tcp *tcp, const struct sockaddr *at,
		     uint16_t *ret_port)
{
	socklen_t size = at->sa_family == AF_INET ? sizeof(struct sockaddr_in) :
						    sizeof(struct sockaddr_in6);
	struct sockaddr_in6 got = { 0 };
	socklen_t n = sizeof(got);
	int fd = socket(at->sa_family,
			SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	tcp->listen_fd = fd;
	if (fd < 0)
		return -errno;
	option(fd, SOL_SOCKET, SO_REUSEADDR, 1);
	if (bind(fd, at, size) || listen(fd, BACKLOG) ||
	    getsockname(fd, (struct sockaddr *)&got, &n))
		return -errno;
	/* of either family */
	*ret_port = ntohs(got.sin6_port);
	return watch(tcp, fd, NULL);
}

int fkv_tcp_create(struct fkv_data *x, const struct sockaddr *listen,
		   uint16_t *ret_port)
{
	struct fkv_tcp *tcp = fkv_zalloc(sizeof(*tcp));
	int err;

	if (!tcp)
		return -ENOMEM;
	TAILQ_INIT(&tcp->all);
	TAILQ_INIT(&tcp->dead);
	TAILQ_INIT(&tcp->dirty);
	TAILQ_INIT(&tcp->strangers);
	tcp->listen_fd = -1;
	tcp->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	x->transport = tcp;
	x->tp = &tcp_transport;
	err = tcp->epoll_fd < 0 ? -errno : watch(tcp, x->wake_fd, x);
	if (!err && listen)
		err = listen_at(tcp, listen, ret_port);
	if (err)
		tcp_free(x);
	return err;
}
