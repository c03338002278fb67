/* SPDX-License-Identifier: Apache-2.0 */
/*
 * lib_fake_device.h - /dev/fluxonkv in the test's process
 *
 * Stands in for the system calls of kdev.c. The instance "one" has a value,
 * "value", for each key but those that begin with "m"; a put of such a key is
 * ENOSPC, and of "x..." too. A put in place is copied from the window to the
 * segment when committed. It counts, and fails on request. For one test file
 * only: everything is static.
 */
#ifndef FKV_TEST_LIB_FAKE_DEVICE_H
#define FKV_TEST_LIB_FAKE_DEVICE_H

#include <check.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "kdev.h"

#define SEGMENT		(4u << 20)
#define VALUE_OFFSET	4096u
#define PUT_OFFSET	8192u
#define FAKE_FDS	64
#define FAKE_IDS	4096

/* One open file; found by its descriptor. */
struct fake_file {
	int fd;
	unsigned int generation;	/* of the daemon; 0: not attached */
	bool held[FAKE_IDS];
};

static struct {
	pthread_mutex_t lock;
	int memory;			/* segment, and windows from 2^43 */
	uint8_t *segment;		/* as the daemon has it */
	uint8_t *window;
	struct fake_file files[FAKE_FDS];
	unsigned int nr_files, generation;
	bool there, several;		/* has a daemon, and others */
	unsigned int restart_at;	/* the daemon dies in this call */
	int open_errno, attach_errno;
	uint32_t abi, hello_flags;
	uint64_t segment_bytes, value_offset, next_id;

	/* CALLs with a body whose number is below: fail, once each */
	int fail_errno;
	unsigned int fail_at, fail_times;
	size_t reply_more;		/* bytes of text behind each reply */
	uint16_t reply_op;		/* instead of the request's; 0 */

	/* counts */
	unsigned int calls, probes, releases, released, aborted, committed;
	uint32_t last_nr_release, last_room;
	uint16_t last_op, last_flags;
	uint32_t last_nr, largest_body;
	uint64_t last_timeout_ns, last_id;
} fake;

static struct fake_file *fake_file(int fd)
{
	for (unsigned int i = fake.nr_files; i-- > 0;) {
		if (fake.files[i].fd == fd)
			return &fake.files[i];
	}
	return NULL;
}

static int fake_open(const char *path, int flags)
{
	int fd;

	ck_assert_str_eq(path, "/dev/fluxonkv");
	ck_assert_int_eq(flags, O_RDWR | O_CLOEXEC);
	if (fake.open_errno) {
		errno = fake.open_errno;
		return -1;
	}
	fd = fcntl(fake.memory, F_DUPFD_CLOEXEC, 0);
	pthread_mutex_lock(&fake.lock);
	ck_assert_uint_lt(fake.nr_files, FAKE_FDS);
	memset(&fake.files[fake.nr_files], 0, sizeof(fake.files[0]));
	fake.files[fake.nr_files++].fd = fd;
	pthread_mutex_unlock(&fake.lock);
	return fd;
}

static int fake_access(const char *path, int mode)
{
	ck_assert_str_eq(path, "/dev/fluxonkv");
	ck_assert_int_eq(mode, F_OK);
	return fake.open_errno == ENOENT ? -1 : 0;
}

static int fake_attach(struct fake_file *f, struct fluxonkv_attach *a)
{
	ck_assert_uint_eq(a->size, sizeof(*a));
	ck_assert_uint_eq(a->flags, 0);
	if (f->generation)
		return -EBADFD;
	if (fake.attach_errno)
		return -fake.attach_errno;
	if (!fake.there || (a->name[0] ? strcmp(a->name, "one") != 0 :
					   fake.several))
		return -EADDRNOTAVAIL;
	f->generation = fake.generation;
	strcpy(a->name, "one");
	a->hello = (struct fluxonkv_hello){
		.abi = fake.abi,
		.flags = fake.hello_flags,
		.incarnation = fake.generation,
		.client = 7,
		.segment_bytes = fake.segment_bytes,
	};
	return 0;
}

static void fake_release(struct fake_file *f, struct fluxonkv_call *c)
{
	const uint64_t *ids = (const void *)(uintptr_t)c->release;

	fake.releases += c->nr_release != 0;
	fake.last_nr_release = c->nr_release;
	for (uint32_t i = 0; i < c->nr_release; i++) {
		if (ids[i] >= FAKE_IDS || !f->held[ids[i]])
			continue;
		f->held[ids[i]] = false;
		c->released++;
		fake.released++;
	}
}

/* What one item of an op that has results becomes. */
static void fake_item(struct fake_file *f, uint16_t op,
		      const struct fluxonkv_item *item, const char *key,
		      struct fluxonkv_result *res)
{
	bool put = op == FLUXONKV_OP_PUT_BEGIN || op == FLUXONKV_OP_PUT;

	memset(res, 0, sizeof(*res));
	fake.last_id = item->id;
	if (item->key_len && (*key == 'm' || (put && *key == 'x'))) {
		res->status = put ? -ENOSPC : -ENOENT;
		return;
	}
	res->len = 5;
	res->version = ++fake.next_id;
	if (op == FLUXONKV_OP_GET) {
		res->source = FLUXONKV_SOURCE_LOCAL;
		res->offset = fake.value_offset;
		res->id = fake.next_id % FAKE_IDS;
		f->held[res->id] = true;
	} else if (op == FLUXONKV_OP_PUT_BEGIN) {
		res->offset = PUT_OFFSET;
		res->id = fake.next_id;
	} else if (op == FLUXONKV_OP_PUT_COMMIT &&
		   f->generation != fake.generation) {
		res->status = -ETIMEDOUT;
	} else if (op == FLUXONKV_OP_PUT_COMMIT) {
		memcpy(fake.segment + PUT_OFFSET, fake.window + PUT_OFFSET,
		       4096);
		fake.committed++;
	} else if (op == FLUXONKV_OP_PUT_ABORT) {
		fake.aborted++;
	} else if (op == FLUXONKV_OP_PUT) {
		if (item->len)
			memcpy(fake.segment + PUT_OFFSET,
			       (const void *)(uintptr_t)item->id, item->len);
		fake.committed++;
	}
}

/* LIST: one key, "kone"; COUNT: 7; ADMIN: "{}". Returns bytes behind rep. */
static size_t fake_text(struct fluxonkv_rep *rep, uint8_t *p)
{
	struct fluxonkv_listed at = { .key_len = 4, .len = 5 };

	rep->nr = 0;
	if (rep->op == FLUXONKV_OP_COUNT)
		rep->arg = 7;
	if (rep->op == FLUXONKV_OP_ADMIN) {
		rep->text_len = 2;
		memcpy(p, "{}", 2);
		return 2;
	}
	if (rep->op != FLUXONKV_OP_LIST)
		return 0;
	rep->nr = 1;
	rep->item_size = sizeof(at);
	memcpy(p, &at, sizeof(at));
	memcpy(p + sizeof(at), "kone\0\0\0\0", 8);
	return sizeof(at) + 8;
}

/* The reply to a body, of any size. */
static size_t fake_serve(struct fake_file *f, const uint8_t *body,
			 const struct fluxonkv_req *req, uint8_t *out)
{
	struct fluxonkv_rep rep = {
		.size = sizeof(rep), .op = req->op, .nr = req->nr,
		.item_size = sizeof(struct fluxonkv_result),
	};
	const uint8_t *p = body + sizeof(*req);
	size_t n = sizeof(rep);

	for (uint32_t i = 0; i < req->nr && req->op != FLUXONKV_OP_LIST &&
	     req->op != FLUXONKV_OP_COUNT && req->op != FLUXONKV_OP_ADMIN;
	     i++) {
		struct fluxonkv_item item;
		struct fluxonkv_result res;

		memcpy(&item, p, sizeof(item));
		p += sizeof(item);
		fake_item(f, req->op, &item, (const char *)p, &res);
		p += fkv_key_room(item.key_len);
		memcpy(out + n, &res, sizeof(res));
		n += sizeof(res);
	}
	if (n == sizeof(rep))
		n += fake_text(&rep, out + n);
	memset(out + n, 't', fake.reply_more);
	rep.text_len += (uint32_t)fake.reply_more;
	if (fake.reply_op)
		rep.op = fake.reply_op;
	memcpy(out, &rep, sizeof(rep));
	return n + fake.reply_more;
}

/* A GET of no key: EINVAL of itself. */
static bool fake_probe(const uint8_t *body, struct fluxonkv_call *c)
{
	struct fluxonkv_req req;
	struct fluxonkv_item item;

	memcpy(&req, body, sizeof(req));
	memcpy(&item, body + sizeof(req), sizeof(item));
	if (req.op != FLUXONKV_OP_GET || item.key_len)
		return false;
	ck_assert_uint_eq(c->body_size, sizeof(req) + sizeof(item));
	ck_assert_uint_ge(c->reply_room, sizeof(struct fluxonkv_rep) +
			  sizeof(struct fluxonkv_result));
	fake.probes++;
	return true;
}

static int fake_call(struct fake_file *f, struct fluxonkv_call *c)
{
	static uint8_t out[4 << 20];
	const uint8_t *body = (const void *)(uintptr_t)c->body;
	struct fluxonkv_req req;

	ck_assert_uint_eq(c->size, sizeof(*c));
	ck_assert_uint_le(c->nr_release, FLUXONKV_BATCH_MAX);
	fake_release(f, c);
	if (!c->body)
		return c->nr_release ? 0 : -EINVAL;
	memcpy(&req, body, sizeof(req));
	if (fake_probe(body, c))
		return fake.there && f->generation == fake.generation ?
			       0 : -ENOTCONN;
	if (!fake.there)
		return -ENOTCONN;
	if (fake.calls + 1 == fake.restart_at)
		fake.generation++;
	/* a put that is shut is known here to be, whoever lives */
	if (f->generation != fake.generation &&
	    req.op != FLUXONKV_OP_PUT_COMMIT)
		return -ENOTCONN;
	fake.last_op = req.op;
	fake.last_flags = req.flags;
	fake.last_nr = req.nr;
	fake.last_timeout_ns = req.timeout_ns;
	fake.last_room = c->reply_room;
	if (c->body_size > fake.largest_body)
		fake.largest_body = c->body_size;
	if (++fake.calls >= fake.fail_at && fake.fail_times) {
		fake.fail_times--;
		return -fake.fail_errno;
	}
	if (c->body_size > FLUXONKV_CALL_MAX)
		return -EMSGSIZE;
	c->reply_size = (uint32_t)fake_serve(f, body, &req, out);
	if (c->reply_size > c->reply_room)
		return -EMSGSIZE;
	memcpy((void *)(uintptr_t)c->reply, out, c->reply_size);
	return 0;
}

static int fake_ioctl(int fd, unsigned long request, void *arg)
{
	struct fluxonkv_features *features = arg;
	struct fake_file *f;
	int err = -ENOTTY;

	pthread_mutex_lock(&fake.lock);
	f = fake_file(fd);
	ck_assert_ptr_nonnull(f);
	if (request == FLUXONKV_IOC_FEATURES) {
		features->abi = fake.abi;
		err = 0;
	} else if (request == FLUXONKV_IOC_ATTACH) {
		err = fake_attach(f, arg);
	} else if (request == FLUXONKV_IOC_CALL) {
		err = f->generation ? fake_call(f, arg) : -EBADFD;
	}
	pthread_mutex_unlock(&fake.lock);
	if (err)
		errno = -err;
	return err ? -1 : 0;
}

/* Another daemon takes the instance over; its memory is the same here. */
static void fake_restart(void)
{
	pthread_mutex_lock(&fake.lock);
	fake.generation++;
	pthread_mutex_unlock(&fake.lock);
}

static uint8_t *fake_map(uint64_t offset)
{
	void *p = mmap(NULL, SEGMENT, PROT_READ | PROT_WRITE, MAP_SHARED,
		       fake.memory, (off_t)offset);

	ck_assert_ptr_ne(p, MAP_FAILED);
	return p;
}

static void setup(void)
{
	memset(&fake, 0, sizeof(fake));
	pthread_mutex_init(&fake.lock, NULL);
	fake.memory = memfd_create("device", MFD_CLOEXEC);
	ck_assert_int_ge(fake.memory, 0);
	ck_assert_int_eq(ftruncate(fake.memory, (off_t)FLUXONKV_WINDOW_OFFSET +
				   SEGMENT), 0);
	fake.segment = fake_map(0);
	fake.window = fake_map(FLUXONKV_WINDOW_OFFSET);
	memcpy(fake.segment + VALUE_OFFSET, "value", 5);
	fake.there = true;
	fake.generation = 1;
	fake.abi = FLUXONKV_ABI_VERSION;
	fake.segment_bytes = SEGMENT;
	fake.value_offset = VALUE_OFFSET;
	fkv_kdev_sys.open = fake_open;
	fkv_kdev_sys.ioctl = fake_ioctl;
	fkv_kdev_sys.access = fake_access;
}

static void teardown(void)
{
	munmap(fake.segment, SEGMENT);
	munmap(fake.window, SEGMENT);
	close(fake.memory);
}

/* Holders that the kernel has, of all files. */
static unsigned int fake_holders(void)
{
	unsigned int n = 0;

	for (unsigned int i = 0; i < fake.nr_files; i++) {
		for (unsigned int j = 0; j < FAKE_IDS; j++)
			n += fake.files[i].held[j];
	}
	return n;
}

static struct fluxonkv *client_open(void)
{
	struct fluxonkv *c = NULL;

	ck_assert_int_eq(fluxonkv_open("dev:one", &c), 0);
	return c;
}

#endif
