// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "kdev.h"

#define TEXT_ROOM	400u		/* a sentence behind the results */
#define REPLY_MAX	(2u << 20)	/* LIST and ADMIN stay below */
#define RELEASE_TRIES	8

_Static_assert(sizeof(struct fluxonkv_call) == 56, "call");

static int sys_open(const char *path, int flags)
{
	return open(path, flags);
}

static int sys_ioctl(int fd, unsigned long request, void *arg)
{
	return ioctl(fd, request, arg);
}

struct fkv_kdev_sys fkv_kdev_sys = {
	.open = sys_open,
	.ioctl = sys_ioctl,
	.access = access,
};

int fkv_kdev_command(const struct fkv_conn *conn, unsigned long request,
		     void *arg)
{
	return fkv_kdev_sys.ioctl(conn->fds[0], request, arg) < 0 ? -errno : 0;
}

/* ---- calls ---- */

static struct fluxonkv_req req_of(const struct fkv_msg *msg)
{
	struct fluxonkv_req req;

	memcpy(&req, msg->data + sizeof(struct fluxonkv_frame), sizeof(req));
	return req;
}

/* Bytes that a reply to @msg takes at most. */
static size_t reply_room(const struct fkv_msg *msg)
{
	size_t room = sizeof(struct fluxonkv_rep) + TEXT_ROOM;
	uint64_t limit;

	switch (msg->op) {
	case FLUXONKV_OP_ADMIN:
		return REPLY_MAX;
	case FLUXONKV_OP_LIST:
		limit = req_of(msg).arg;
		if (limit > FLUXONKV_LIST_MAX)
			limit = FLUXONKV_LIST_MAX;
		return room + limit * (sizeof(struct fluxonkv_listed) +
				       FLUXONKV_KEY_MAX);
	case FLUXONKV_OP_COUNT:
		return room;
	default:
		return room + msg->nr * sizeof(struct fluxonkv_result);
	}
}

/* May it be done again when it is not known to have been done? */
static bool repeatable(uint16_t op)
{
	return op == FLUXONKV_OP_GET || op == FLUXONKV_OP_STAT ||
	       op == FLUXONKV_OP_LIST || op == FLUXONKV_OP_COUNT;
}

static int reply_grow(struct fkv_reply *reply, size_t room)
{
	fkv_reply_done(reply);
	reply->size = room > sizeof(reply->small) ? room :
						    sizeof(reply->small);
	reply->body = room > sizeof(reply->small) ? malloc(room) :
						    reply->small;
	if (reply->body)
		return 0;
	return fkv_lib_fail(-ENOMEM, "no memory for an answer of %zu bytes",
			    room);
}

/* What the kernel's @err of a call as a whole means to its caller. */
static int call_failed(struct fkv_conn *conn, int err)
{
	switch (err) {
	case -EBADF:	/* somebody closed our descriptor, or has it now */
	case -ENOTTY:
	case -EBADFD:
	case -ENOTCONN:
		fkv_conn_kill(conn);
		return fkv_lib_fail(-ENOTCONN, "the daemon is gone, and with "
				    "it its instance of " FKV_KDEV);
	case -EINTR:
		return fkv_lib_fail(-ETIMEDOUT, "the call was interrupted; it "
				    "may have taken effect");
	case -ETIMEDOUT:
		return fkv_lib_fail(err, "no answer of the daemon came by the "
				    "deadline");
	case -EMSGSIZE:
		return fkv_lib_fail(-EPROTO, "the daemon broke the protocol: "
				    "an answer larger than there is room for");
	case -EFAULT:
		return fkv_lib_fail(err, "an argument points to what is no "
				    "memory of this process");
	default:
		return fkv_lib_fail(err, FKV_KDEV ": %s",
				    fluxonkv_strerror(err));
	}
}

/* One CALL with the time that is left; *ret_size is what the reply takes. */
static int call_once(struct fkv_conn *conn, struct fkv_msg *msg,
		     uint64_t deadline, struct fkv_reply *reply,
		     size_t *ret_size)
{
	uint64_t now = fkv_now_ns();
	struct fluxonkv_call c = {
		.size = sizeof(c),
		.body = (uintptr_t)msg->data + sizeof(struct fluxonkv_frame),
		.body_size = (uint32_t)(msg->size -
					sizeof(struct fluxonkv_frame)),
		.reply = (uintptr_t)reply->body,
		.reply_room = (uint32_t)reply->size,
	};
	int err;

	fkv_msg_stamp(msg, 0, deadline > now ? deadline - now : 0);
	err = fkv_kdev_command(conn, FLUXONKV_IOC_CALL, &c);
	*ret_size = c.reply_size;
	return err;
}

/* A request that the kernel takes as it is: 0 with a reply, or -errno. */
static int call_whole(struct fkv_conn *conn, struct fkv_msg *msg,
		      uint64_t deadline, struct fkv_reply *reply)
{
	size_t size = 0;
	int err = reply_grow(reply, reply_room(msg));

	if (err)
		return err;
	for (;;) {
		err = call_once(conn, msg, deadline, reply, &size);
		if (!err)
			break;
		if (err == -EMSGSIZE && repeatable(msg->op) &&
		    size > reply->size && size <= REPLY_MAX) {
			err = reply_grow(reply, size);
			if (err)
				return err;
		} else if (err != -EINTR || !repeatable(msg->op) ||
			   fkv_now_ns() >= deadline) {
			return call_failed(conn, err);
		}
	}
	if (size > reply->size)
		return call_failed(conn, -EMSGSIZE);
	reply->size = size;
	return 0;
}

/* ---- requests that are larger than the kernel takes ---- */

/* Their items in parts, and their results in one reply. */
struct split {
	const struct fkv_msg *msg;
	size_t at;			/* of the first item not asked yet */
	uint32_t left;
	uint32_t done;
	uint8_t *body;			/* of the reply: rep, results, text */
	uint32_t text_len;
};

/* How many of the items at s->at fit one part; *ret_bytes: they take. */
static uint32_t part_items(const struct split *s, size_t *ret_bytes)
{
	size_t room = FLUXONKV_CALL_MAX - sizeof(struct fluxonkv_req);
	struct fluxonkv_item item;
	uint32_t n = 0;
	size_t bytes = 0;

	while (n < s->left) {
		size_t more;

		memcpy(&item, s->msg->data + s->at + bytes, sizeof(item));
		more = sizeof(item) + fkv_key_room(item.key_len);
		if (more > room - bytes)
			break;
		bytes += more;
		n++;
	}
	*ret_bytes = bytes;
	return n;
}

static int part_init(struct split *s, struct fkv_msg *part)
{
	struct fluxonkv_req req = req_of(s->msg);
	size_t bytes;
	int err;

	req.nr = part_items(s, &bytes);
	err = fkv_msg_init(part, &req, bytes - req.nr *
			   sizeof(struct fluxonkv_item));
	if (err)
		return err;
	memcpy(part->data + part->size, s->msg->data + s->at, bytes);
	part->size += bytes;
	s->at += bytes;
	return 0;
}

static void put_result(struct split *s, const struct fluxonkv_result *res)
{
	memcpy(s->body + sizeof(struct fluxonkv_rep) + s->done * sizeof(*res),
	       res, sizeof(*res));
	s->done++;
	s->left--;
}

/* The results of a part: 0, or the -errno that it failed with as a whole. */
static int take_part(struct split *s, const struct fkv_reply *reply)
{
	uint8_t *text = s->body + sizeof(struct fluxonkv_rep) +
			(s->done + s->left) * sizeof(struct fluxonkv_result);

	for (uint32_t i = 0; i < reply->rep.nr; i++) {
		struct fluxonkv_result res = fkv_reply_result(reply, i);

		put_result(s, &res);
	}
	if (!s->text_len && reply->rep.text_len <= TEXT_ROOM) {
		s->text_len = reply->rep.text_len;
		memcpy(text, reply->text, s->text_len);
	}
	return reply->rep.status;
}

static int ask_part(struct fkv_conn *conn, struct split *s, uint64_t deadline)
{
	struct fkv_reply reply = { 0 };
	struct fkv_msg part;
	int err = part_init(s, &part);

	if (err)
		return err;
	err = call_whole(conn, &part, deadline, &reply);
	if (!err)
		err = fkv_reply_parse(&reply, part.op, part.nr);
	if (!err)
		err = take_part(s, &reply);
	fkv_reply_done(&reply);
	fkv_msg_done(&part);
	return err;
}

/*
 * What fails as a whole fails the items behind it, too, but not those before:
 * they may have holders.
 */
static int call_split(struct fkv_conn *conn, const struct fkv_msg *msg,
		      uint64_t deadline, struct fkv_reply *reply)
{
	struct split s = {
		.msg = msg,
		.at = sizeof(struct fluxonkv_frame) +
		      sizeof(struct fluxonkv_req),
		.left = msg->nr,
	};
	struct fluxonkv_rep rep = {
		.size = sizeof(rep), .op = msg->op, .nr = msg->nr,
		.item_size = sizeof(struct fluxonkv_result),
	};
	struct fluxonkv_result failed = { 0 };
	int err = reply_grow(reply, reply_room(msg));

	if (err)
		return err;
	s.body = reply->body;
	while (s.left && !err)
		err = ask_part(conn, &s, deadline);
	if (err && !s.done)
		return err;
	failed.status = err;
	while (s.left)
		put_result(&s, &failed);
	rep.text_len = s.text_len;
	memcpy(s.body, &rep, sizeof(rep));
	reply->size = sizeof(rep) + rep.nr * sizeof(failed) + rep.text_len;
	return 0;
}

static int kdev_call(struct fkv_conn *conn, struct fkv_msg *msg,
		     uint64_t deadline, struct fkv_reply *ret_reply)
{
	size_t size = msg->size - sizeof(struct fluxonkv_frame);

	/* not ETIMEDOUT, as the kernel says of puts that it has shut */
	if (fkv_unlikely(fkv_conn_dead(conn)))
		return call_failed(conn, -ENOTCONN);
	/* what is as large has items with a result each */
	if (fkv_unlikely(size > FLUXONKV_CALL_MAX))
		return call_split(conn, msg, deadline, ret_reply);
	return call_whole(conn, msg, deadline, ret_reply);
}

/* ---- what wants no reply ---- */

/* Accepted also when the daemon is gone: the holders are the kernel's. */
static size_t release(struct fkv_conn *conn, const uint64_t *ids, size_t n)
{
	size_t released = 0, nr;

	for (size_t at = 0; at < n; at += nr) {
		int err = -EINTR;

		nr = n - at < FLUXONKV_BATCH_MAX ? n - at : FLUXONKV_BATCH_MAX;
		for (int i = 0; i < RELEASE_TRIES && err == -EINTR; i++) {
			struct fluxonkv_call c = {
				.size = sizeof(c),
				.release = (uintptr_t)(ids + at),
				.nr_release = (uint32_t)nr,
			};

			err = fkv_kdev_command(conn, FLUXONKV_IOC_CALL, &c);
			released += c.released;
		}
	}
	return released;
}

/* One by one: they are rare, and none may fail for want of memory. */
static size_t post(struct fkv_conn *conn, uint16_t op, const uint64_t *ids,
		   size_t n)
{
	struct fluxonkv_req req = {
		.size = sizeof(req),
		.op = op,
		.nr = 1,
		.item_size = sizeof(struct fluxonkv_item),
	};

	for (size_t i = 0; i < n && !fkv_conn_dead(conn); i++) {
		struct fluxonkv_item item = { .id = ids[i] };
		struct fkv_reply reply = { 0 };
		struct fkv_msg msg;

		if (fkv_msg_init(&msg, &req, 0))
			continue;
		fkv_msg_add(&msg, &item, NULL);
		call_whole(conn, &msg, 0, &reply);
		fkv_reply_done(&reply);
		fkv_msg_done(&msg);
	}
	return n;
}

static size_t kdev_post_ids(struct fkv_conn *conn, uint16_t op,
			    const uint64_t *ids, size_t n)
{
	return op == FLUXONKV_OP_RELEASE ? release(conn, ids, n) :
					   post(conn, op, ids, n);
}

/* A GET of no key fails by itself and asks nobody, if there is somebody. */
static bool kdev_closed(const struct fkv_conn *conn)
{
	struct {
		struct fluxonkv_req req;
		struct fluxonkv_item item;
	} body = {
		.req = {
			.size = sizeof(body.req),
			.op = FLUXONKV_OP_GET,
			.nr = 1,
			.item_size = sizeof(body.item),
		},
	};
	uint64_t reply[FKV_REPLY_SMALL / sizeof(uint64_t)];
	struct fluxonkv_call c = {
		.size = sizeof(c),
		.body = (uintptr_t)&body,
		.body_size = sizeof(body),
		.reply = (uintptr_t)reply,
		.reply_room = sizeof(reply),
	};

	return fkv_kdev_command(conn, FLUXONKV_IOC_CALL, &c) == -ENOTCONN;
}

/* Nothing can be written to the windows any more: it would be a SIGBUS. */
static void kdev_end(struct fkv_conn *conn)
{
	fkv_keep_puts(conn);
}

const struct fkv_conn_ops fkv_kdev_ops = {
	.call = kdev_call,
	.post_ids = kdev_post_ids,
	.closed = kdev_closed,
	.end = kdev_end,
};
