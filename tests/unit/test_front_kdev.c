// SPDX-License-Identifier: Apache-2.0
/*
 * test_front_kdev.c - the device's front when the kernel module says no
 *
 * The module is a fake: ioctl(2) of this program.
 */
#include <check.h>
#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/log.h"
#include "io/front.h"

#define LEN	5000u
#define BYTES	8192u		/* in pages */
#define ENTRIES	200u		/* more than are asked of at once */

static struct {
	/* each: -errno of the call, or the status of its element */
	int recv, call, status;
	unsigned int recv_fails;	/* so often, then it works */
	uint64_t quiet;			/* cookie of a message to come */
	struct fluxonkv_counts counts;
	uint64_t held[ENTRIES + 1];	/* by put_id */
	unsigned int recvs, retires, probes;
	uint64_t cookie;		/* of the last PUBLISH */
} fake;

static unsigned int nr_scanned, nr_failed;
static struct fkv_entry *scanned, *pending[ENTRIES];
static unsigned int nr_pending;
static uv_loop_t loop;
static struct fkv_front *front;
static int fd;

/* ---- the module ---- */

static int fake_recv(struct fluxonkv_recv *r)
{
	struct fluxonkv_message m = {
		.size = sizeof(m),
		.type = FLUXONKV_MESSAGE_QUIET,
		.cookie = fake.quiet,
	};
	uint64_t was;

	fake.recvs++;
	if (fake.recv_fails) {
		fake.recv_fails--;
		return fake.recv;
	}
	ck_assert_int_eq(read(fd, &was, sizeof(was)), sizeof(was));
	r->used = 0;
	if (!fake.quiet)
		return 0;
	memcpy((void *)(uintptr_t)r->at, &m, sizeof(m));
	r->used = sizeof(m);
	return 0;
}

static int fake_elements(unsigned long cmd, struct fluxonkv_array *a)
{
	struct fluxonkv_entry *e = (void *)(uintptr_t)a->at;

	a->done = 0;
	if (cmd == FLUXONKV_IOC_HITS)
		return 0;
	fake.retires += cmd == FLUXONKV_IOC_RETIRE;
	if (cmd != FLUXONKV_IOC_PUBLISH && fake.call)
		return fake.call;
	for (; a->done < a->nr; a->done++, e++) {
		e->status = fake.status;
		if (cmd == FLUXONKV_IOC_PUBLISH) {
			e->status = 0;
			fake.cookie = e->cookie;
		} else if (cmd == FLUXONKV_IOC_HELD) {
			fake.probes++;
			e->status = fake.held[e->put_id] ? FLUXONKV_HELD :
							   FLUXONKV_QUIET;
		}
	}
	return 0;
}

static int fake_ioctl(unsigned long cmd, void *arg)
{
	switch (cmd) {
	case FLUXONKV_IOC_RECV:
		return fake_recv(arg);
	case FLUXONKV_IOC_COUNTS:
		*(struct fluxonkv_counts *)arg = fake.counts;
		return 0;
	case FLUXONKV_IOC_SEGMENT_READY:
		return 0;
	case FLUXONKV_IOC_HITS:
	case FLUXONKV_IOC_HELD:
	case FLUXONKV_IOC_PUBLISH:
	case FLUXONKV_IOC_RETIRE:
	case FLUXONKV_IOC_EVICT:
		return fake_elements(cmd, arg);
	default:
		return -ENOTTY;
	}
}

int ioctl(int at, unsigned long cmd, ...)
{
	va_list ap;
	void *arg;
	int res;

	va_start(ap, cmd);
	arg = va_arg(ap, void *);
	va_end(ap);
	if (_IOC_TYPE(cmd) != FLUXONKV_IOC_TYPE)
		return (int)syscall(SYS_ioctl, at, cmd, arg);
	res = fake_ioctl(cmd, arg);
	errno = res < 0 ? -res : errno;
	return res < 0 ? -1 : 0;
}

/* ---- the engine ---- */

static void on_scanned(void *arg, struct fkv_entry *e)
{
	(void)arg;
	scanned = e;
	nr_scanned++;
}

static void on_failed(void *arg)
{
	(void)arg;
	nr_failed++;
}

static struct fkv_entry *on_next_pending(void *arg, const struct fkv_entry *e)
{
	unsigned int i = 0;

	(void)arg;
	while (e && i < nr_pending && pending[i] != e)
		i++;
	i += !!e;
	return i < nr_pending ? pending[i] : NULL;
}

static const struct fkv_gateway_ops ops = {
	.index = { .scanned = on_scanned },
	.next_pending = on_next_pending,
	.failed = on_failed,
};

static struct fkv_entry entries[ENTRIES];

static struct fkv_entry *entry(unsigned int i)
{
	struct fkv_entry *e = &entries[i];

	*e = (struct fkv_entry){
		.key = fkv_key_create("key", 3),
		.put_id = i + 1,
		.len = LEN,
		.live = true,
	};
	front->ops->publish(front, e);
	ck_assert_uint_ne(e->slot, FKV_NO_SLOT);
	return e;
}

static uint64_t errors(void)
{
	struct fkv_gateway_stats gs;
	struct fkv_index_stats is;

	front->ops->get_stats(front, &gs, &is);
	return gs.call_errors;
}

static void setup(void)
{
	memset(&fake, 0, sizeof(fake));
	nr_scanned = nr_failed = nr_pending = 0;
	scanned = NULL;
	fkv_log_set_level(FKV_LOG_ERR);
	ck_assert_int_eq(uv_loop_init(&loop), 0);
	fd = eventfd(1, EFD_CLOEXEC);
	ck_assert_int_ge(fd, 0);
	ck_assert_int_eq(fkv_front_kdev_create(&loop, fd, &ops, NULL, &front),
			 0);
}

static void teardown(void)
{
	front->ops->close_all(front);
	uv_run(&loop, UV_RUN_DEFAULT);
	front->ops->free(front);
	ck_assert_int_eq(uv_loop_close(&loop), 0);
	close(fd);
	for (unsigned int i = 0; i < ENTRIES; i++) {
		if (entries[i].key)
			fkv_key_put(entries[i].key);
		entries[i].key = NULL;
	}
}

static void turns(unsigned int n)
{
	for (unsigned int i = 0; i < n; i++)
		uv_run(&loop, UV_RUN_NOWAIT);
}

/* ---- RETIRE, EVICT ---- */

START_TEST(retired_entry_is_free_when_nobody_holds_it)
{
	struct fkv_entry *e = entry(0);

	fake.status = FLUXONKV_QUIET;
	ck_assert_int_eq(front->ops->retire(front, e), 0);
	ck_assert_ptr_eq(scanned, e);
	ck_assert_uint_eq(e->slot, FKV_NO_SLOT);
	/* one that the kernel does not know, and one that it never knew */
	e = entry(1);
	fake.status = -ENOENT;
	ck_assert_int_eq(front->ops->retire(front, e), 0);
	ck_assert_ptr_eq(scanned, e);
	ck_assert_int_eq(front->ops->retire(front, e), 0);
	ck_assert_uint_eq(nr_scanned, 3);
	ck_assert_uint_eq(fake.retires, 2);
	ck_assert_uint_eq(errors(), 0);
}
END_TEST

START_TEST(held_entry_is_free_when_quiet_comes)
{
	struct fkv_entry *e = entry(0);

	fake.status = FLUXONKV_HELD;
	ck_assert_int_eq(front->ops->retire(front, e), 0);
	ck_assert_uint_eq(nr_scanned, 0);
	fake.quiet = fake.cookie;
	ck_assert_int_eq(front->ops->listen(front), 0);
	turns(2);
	ck_assert_ptr_eq(scanned, e);
	ck_assert_uint_eq(nr_scanned, 1);
}
END_TEST

/* H1: clients may be served it still. */
START_TEST(extent_is_not_used_again_when_retire_fails)
{
	struct fkv_entry *e = entry(0);

	fake.status = -EINVAL;
	ck_assert_int_eq(front->ops->retire(front, e), 0);
	ck_assert_uint_eq(nr_scanned, 0);
	ck_assert_uint_eq(errors(), 1);
	e = entry(1);
	fake.call = -EFAULT;
	ck_assert_int_eq(front->ops->retire(front, e), 0);
	ck_assert_uint_eq(nr_scanned, 0);
	ck_assert_uint_eq(errors(), 2);
	ck_assert_uint_ne(entries[0].slot, e->slot);
}
END_TEST

START_TEST(entry_stays_when_evict_fails)
{
	static const struct {
		int call, status;
		enum fkv_evict_result want;
		unsigned int errors;
	} cases[] = {
		{ 0, FLUXONKV_QUIET, FKV_EVICT_OK, 0 },
		{ 0, -ENOENT, FKV_EVICT_OK, 0 },
		{ 0, -EBUSY, FKV_EVICT_BUSY, 0 },
		{ 0, -EINVAL, FKV_EVICT_BUSY, 1 },
		{ -EFAULT, 0, FKV_EVICT_BUSY, 1 },
	};

	for (unsigned int i = 0; i < FKV_ARRAY_SIZE(cases); i++) {
		struct fkv_entry *e = entry(i);
		enum fkv_evict_result res;
		uint64_t before = errors();

		fake.call = cases[i].call;
		fake.status = cases[i].status;
		front->ops->evict(front, &e, 1, &res);
		ck_assert_int_eq(res, cases[i].want);
		ck_assert_uint_eq(errors() - before, cases[i].errors);
		ck_assert_int_eq(e->slot == FKV_NO_SLOT, res == FKV_EVICT_OK);
	}
}
END_TEST

/* ---- RECV ---- */

START_TEST(recv_that_fails_is_tried_again)
{
	fake.recv = -EFAULT;
	fake.recv_fails = 5;
	ck_assert_int_eq(front->ops->listen(front), 0);
	turns(20);
	ck_assert_uint_eq(fake.recvs, 6);
	ck_assert_uint_eq(errors(), 5);
	ck_assert_uint_eq(nr_failed, 0);
}
END_TEST

START_TEST(service_ends_when_recv_fails_for_good)
{
	fake.recv = -EFAULT;
	fake.recv_fails = UINT32_MAX;
	ck_assert_int_eq(front->ops->listen(front), 0);
	turns(100);
	ck_assert_uint_eq(nr_failed, 1);
	ck_assert_uint_eq(fake.recvs, 16);
	ck_assert_uint_eq(errors(), 16);
}
END_TEST

/* ---- counts ---- */

START_TEST(holders_are_counted_by_the_kernel)
{
	struct fkv_gateway_stats gs;
	struct fkv_index_stats is;

	fake.counts.holders = 7;
	fake.counts.held_bytes = 3 * BYTES;
	ck_assert_uint_eq(front->ops->count(front), 3 * BYTES);
	front->ops->get_stats(front, &gs, &is);
	ck_assert_uint_eq(is.pinned, 7);
	ck_assert(front->ops->keeps);
}
END_TEST

/* P4: what waits for its first persist the master counts by itself. */
START_TEST(held_bytes_that_are_pending_count_once)
{
	for (unsigned int i = 0; i < ENTRIES; i++)
		entry(i);
	for (unsigned int i = 0; i < ENTRIES; i++)
		pending[nr_pending++] = &entries[i];
	fake.held[1] = fake.held[100] = fake.held[ENTRIES] = true;
	fake.counts.held_bytes = 5 * BYTES;
	ck_assert_uint_eq(front->ops->count(front), 2 * BYTES);
	for (unsigned int i = 0; i < ENTRIES; i++)
		ck_assert_uint_eq(entries[i].read, fake.held[i + 1]);
	ck_assert_uint_eq(fake.probes, ENTRIES);
	/* released meanwhile */
	fake.held[100] = false;
	ck_assert_uint_eq(front->ops->count(front), 3 * BYTES);
	ck_assert(!entries[99].read);
	fake.counts.held_bytes = BYTES;
	ck_assert_uint_eq(front->ops->count(front), 0);
	/* a module that does not know the question */
	fake.counts.held_bytes = 5 * BYTES;
	fake.call = -ENOTTY;
	ck_assert_uint_eq(front->ops->count(front), 5 * BYTES);
	/* nothing is held: nothing to ask */
	fake.probes = 0;
	fake.call = 0;
	fake.counts.held_bytes = 0;
	ck_assert_uint_eq(front->ops->count(front), 0);
	ck_assert_uint_eq(fake.probes, 0);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("front_kdev");
	TCase *tc = tcase_create("front_kdev");
	SRunner *sr;
	int failed;

	tcase_add_checked_fixture(tc, setup, teardown);
	tcase_add_test(tc, retired_entry_is_free_when_nobody_holds_it);
	tcase_add_test(tc, held_entry_is_free_when_quiet_comes);
	tcase_add_test(tc, extent_is_not_used_again_when_retire_fails);
	tcase_add_test(tc, entry_stays_when_evict_fails);
	tcase_add_test(tc, recv_that_fails_is_tried_again);
	tcase_add_test(tc, service_ends_when_recv_fails_for_good);
	tcase_add_test(tc, holders_are_counted_by_the_kernel);
	tcase_add_test(tc, held_bytes_that_are_pending_count_once);
	suite_add_tcase(s, tc);
	sr = srunner_create(s);
	srunner_run_all(sr, CK_NORMAL);
	failed = srunner_ntests_failed(sr);
	srunner_free(sr);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
