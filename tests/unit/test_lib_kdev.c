// SPDX-License-Identifier: Apache-2.0
#include <stdio.h>
#include <sys/wait.h>

#include "lib_fake_device.h"

static void refused(const char *address, int err, const char *word)
{
	struct fluxonkv *c;

	ck_assert_int_eq(fluxonkv_open(address, &c), err);
	if (word)
		ck_assert_msg(strstr(fluxonkv_last_error(), word) != NULL,
			      "\"%s\" has no %s", fluxonkv_last_error(), word);
}

START_TEST(name_that_is_none_is_refused_before_the_device_is_opened)
{
	char name[80] = "dev:";

	memset(name + 4, 'a', FLUXONKV_NAME_MAX);
	refused(name, -EINVAL, "63");
	refused("dev:a/b", -EINVAL, "a/b");
	refused("dev", -EINVAL, "dev:INSTANCE");
	ck_assert_uint_eq(fake.nr_files, 0);
	name[4 + FLUXONKV_NAME_MAX - 1] = '\0';
	refused(name, -ECONNREFUSED, "aaa");
}
END_TEST

START_TEST(open_says_what_is_missing)
{
	fake.open_errno = ENOENT;
	refused("dev:one", -ENODEV, "module");
	fake.open_errno = EACCES;
	refused("dev:one", -EACCES, "group fluxonkv");
	fake.open_errno = EMFILE;
	refused("dev:one", -EMFILE, NULL);
	fake.open_errno = 0;
	refused("dev:two", -ECONNREFUSED, "\"two\"");
	fake.attach_errno = EUSERS;
	refused("dev:one", -ENOTCONN, "room");
	fake.attach_errno = 0;
	fake.there = false;
	refused("dev:", -ECONNREFUSED, "more than one");
}
END_TEST

START_TEST(what_does_not_fit_this_library_is_refused)
{
	fake.hello_flags = FLUXONKV_HELLO_INDEX;
	refused("dev:one", -EPROTONOSUPPORT, "0x2");
	fake.hello_flags = FLUXONKV_HELLO_STRICT;
	fake.segment_bytes = SEGMENT + 4096;
	refused("dev:one", -EPROTO, "segment");
	fake.segment_bytes = FLUXONKV_SEGMENT_MAX + FLUXONKV_SEGMENT_UNIT;
	refused("dev:one", -EPROTO, "segment");
	fake.segment_bytes = SEGMENT;
	fake.abi = FLUXONKV_ABI_VERSION + 1;
	refused("dev:one", -EPROTONOSUPPORT, "ABI");
	for (unsigned int i = 0; i < fake.nr_files; i++)
		ck_assert_int_eq(fcntl(fake.files[i].fd, F_GETFD), -1);
}
END_TEST

static char dir[] = "/tmp/fkv-kdev-XXXXXX", path[64];

static void socket_that_nobody_listens_at(void)
{
	strcpy(dir, "/tmp/fkv-kdev-XXXXXX");
	ck_assert_ptr_nonnull(mkdtemp(dir));
	snprintf(path, sizeof(path), "%s/fluxonkv.sock", dir);
	close(open(path, O_CREAT | O_WRONLY, 0600));
	setenv("XDG_RUNTIME_DIR", dir, 1);
}

START_TEST(default_address_is_the_device_when_there_is_no_socket)
{
	struct fluxonkv *c;

	if (!access("/run/fluxonkv/fluxonkv.sock", F_OK))
		return;
	unsetenv("FLUXONKV");
	setenv("XDG_RUNTIME_DIR", "/nonexistent", 1);
	ck_assert_int_eq(fluxonkv_open(NULL, &c), 0);
	ck_assert_uint_eq(fake.nr_files, 1);
	fluxonkv_close(c);
	fake.open_errno = ENOENT;
	refused(NULL, -ENOENT, "unix:/nonexistent/fluxonkv.sock");
	fake.open_errno = 0;
	socket_that_nobody_listens_at();
	refused(NULL, -ECONNREFUSED, "unix:/tmp/fkv-kdev-");
	unlink(path);
	rmdir(dir);
}
END_TEST

/* U4 */
START_TEST(get_is_one_call_and_release_another)
{
	struct fluxonkv *c = client_open();
	struct fluxonkv_counters n;
	struct fluxonkv_holder h;
	uintptr_t base;

	ck_assert_int_eq(fluxonkv_get(c, "k1", 2, &h), 0);
	ck_assert_uint_eq(fake.calls, 1);
	ck_assert_uint_eq(fake.probes, 0);
	ck_assert_mem_eq(h.data, "value", 5);
	ck_assert_int_eq(h.source, FLUXONKV_SERVED_LOCAL);
	base = (uintptr_t)h.data - VALUE_OFFSET;
	ck_assert_uint_eq(base % FLUXONKV_SEGMENT_UNIT, 0);
	fluxonkv_get_counters(c, &n);
	ck_assert_uint_eq(n.held, 1);
	ck_assert_uint_eq(n.held_bytes, 4096);
	ck_assert_uint_eq(n.hits_local, 1);
	ck_assert_int_eq(fluxonkv_release(c, &h), 0);
	ck_assert_uint_eq(fake.calls, 1);
	ck_assert_uint_eq(fake.releases, 1);
	ck_assert_uint_eq(fake_holders(), 0);
	ck_assert_int_eq(fluxonkv_release(c, &h), -EINVAL);
	fluxonkv_get_counters(c, &n);
	ck_assert_uint_eq(n.held, 0);
	ck_assert_uint_eq(n.held_bytes, 0);
	ck_assert_int_eq(fluxonkv_get(c, "m1", 2, &h), -ENOENT);
	ck_assert_int_eq(h.source, FLUXONKV_SERVED_MISS);
	fluxonkv_close(c);
}
END_TEST

START_TEST(copy_of_a_released_holder_is_einval)
{
	struct fluxonkv *c = client_open();
	struct fluxonkv_holder h, copy[2];
	struct fluxonkv_counters n;

	ck_assert_int_eq(fluxonkv_get(c, "k1", 2, &h), 0);
	copy[0] = copy[1] = h;
	ck_assert_int_eq(fluxonkv_release(c, &h), 0);
	ck_assert_int_eq(fluxonkv_release(c, &copy[0]), -EINVAL);
	ck_assert_int_eq(fluxonkv_get(c, "k1", 2, &copy[0]), 0);
	ck_assert_int_eq(fluxonkv_release_many(c, copy, 2), 0);
	ck_assert_int_eq(copy[0].status, -EINVAL);
	ck_assert_int_eq(copy[1].status, -EINVAL);
	ck_assert_uint_eq(fake_holders(), 0);
	fluxonkv_get_counters(c, &n);
	ck_assert_uint_eq(n.held, 0);
	/* what is counted is right: the connection is there while it is held */
	ck_assert_int_eq(fluxonkv_get(c, "k1", 2, &h), 0);
	fake_restart();
	ck_assert_int_eq(fluxonkv_get(c, "k1", 2, &copy[0]), 0);
	ck_assert_mem_eq(h.data, "value", 5);
	fluxonkv_close(c);
}
END_TEST

START_TEST(batches_are_one_call_each)
{
	struct fluxonkv_key keys[100];
	struct fluxonkv_holder h[100];
	struct fluxonkv_into into[100];
	struct fluxonkv *c = client_open();
	char buf[8];

	for (int i = 0; i < 100; i++) {
		keys[i] = (struct fluxonkv_key){ i == 9 ? "m1" : "k1", 2 };
		into[i] = (struct fluxonkv_into){ .key = keys[i], .buf = buf,
						  .size = i == 3 ? 2 : 8 };
	}
	keys[7].len = 0;
	ck_assert_int_eq(fluxonkv_get_many(c, keys, 100, h), 0);
	ck_assert_uint_eq(fake.calls, 1);
	ck_assert_int_eq(h[7].status, -EINVAL);
	ck_assert_int_eq(h[8].status, 0);
	ck_assert_int_eq(h[9].status, -ENOENT);
	ck_assert_uint_eq(fake_holders(), 98);
	ck_assert_int_eq(fluxonkv_release_many(c, h, 100), 0);
	ck_assert_uint_eq(fake.releases, 1);
	ck_assert_uint_eq(fake.last_nr_release, 98);
	ck_assert_int_eq(h[9].status, -EINVAL);
	ck_assert_int_eq(h[10].status, 0);
	ck_assert_int_eq(fluxonkv_get_into_many(c, into, 100), 0);
	ck_assert_uint_eq(fake.last_flags, FLUXONKV_REQ_INTO);
	ck_assert_uint_eq(fake.calls, 2);
	ck_assert_uint_eq(fake.releases, 2);
	ck_assert_int_eq(into[3].status, -ENOBUFS);
	ck_assert_uint_eq(into[3].len, 5);
	ck_assert_int_eq(into[9].status, -ENOENT);
	ck_assert_mem_eq(buf, "value", 5);
	ck_assert_uint_eq(fake_holders(), 0);
	fluxonkv_close(c);
}
END_TEST

START_TEST(put_is_one_call_and_the_kernel_copies)
{
	struct fluxonkv_value v[4] = {
		{ .key = { "k1", 2 }, .data = "12345", .len = 5 },
		{ .key = { "k2", 2 }, .data = NULL, .len = 5 },
		{ .key = { "x3", 2 }, .data = "12345", .len = 5 },
		{ .key = { "k4", 2 }, .data = "vwxyz", .len = 5 },
	};
	struct fluxonkv *c = client_open();
	struct fluxonkv_counters n;

	ck_assert_int_eq(fluxonkv_put(c, "k1", 2, "abcde", 5, 0), 0);
	ck_assert_uint_eq(fake.calls, 1);
	ck_assert_uint_eq(fake.last_op, FLUXONKV_OP_PUT);
	ck_assert_mem_eq(fake.segment + PUT_OFFSET, "abcde", 5);
	ck_assert_int_eq(fluxonkv_put(c, "k0", 2, "", 0, 0), 0);
	ck_assert_uint_eq(fake.last_id, 0);
	ck_assert_int_eq(fluxonkv_put_many(c, v, 4), 0);
	ck_assert_uint_eq(fake.calls, 3);
	ck_assert_int_eq(v[0].status, 0);
	ck_assert_int_eq(v[1].status, -EINVAL);
	ck_assert_int_eq(v[2].status, -ENOSPC);
	ck_assert_int_eq(v[3].status, 0);
	ck_assert_uint_gt(v[3].version, v[0].version);
	ck_assert_uint_eq(v[2].version, 0);
	ck_assert_mem_eq(fake.segment + PUT_OFFSET, "vwxyz", 5);
	ck_assert_int_eq(fluxonkv_put(c, "k1", 2, "a", SEGMENT + 1, 0),
			 -EFBIG);
	ck_assert_uint_eq(fake.calls, 3);
	fluxonkv_get_counters(c, &n);
	ck_assert_uint_eq(n.held_bytes, 0);
	fluxonkv_close(c);
}
END_TEST

/* U3 */
START_TEST(put_in_place_is_written_through_the_window)
{
	struct fluxonkv *c = client_open();
	struct fluxonkv_putop put, other;

	ck_assert_int_eq(fluxonkv_put_begin(c, "k1", 2, 5, 0, &put), 0);
	memcpy(put.data, "abcde", 5);
	ck_assert_mem_eq(fake.window + PUT_OFFSET, "abcde", 5);
	ck_assert_mem_ne(fake.segment + PUT_OFFSET, "abcde", 5);
	ck_assert_int_eq(fluxonkv_put_extend(c, &put), 0);
	ck_assert_int_eq(fluxonkv_put_commit(c, &put), 0);
	ck_assert_mem_eq(fake.segment + PUT_OFFSET, "abcde", 5);
	ck_assert_uint_ne(put.version, 0);
	ck_assert_int_eq(fluxonkv_put_commit(c, &put), -EINVAL);
	ck_assert_int_eq(fluxonkv_put_begin(c, "k1", 2, 5, 0, &other), 0);
	ck_assert_int_eq(fluxonkv_put_abort(c, &other), 0);
	ck_assert_uint_eq(fake.aborted, 1);
	fluxonkv_close(c);
}
END_TEST

static char long_keys[FLUXONKV_BATCH_MAX][FLUXONKV_KEY_MAX];
static struct fluxonkv_key batch[FLUXONKV_BATCH_MAX];

/* Every fourth is a miss. */
static void fill_batch(void)
{
	for (size_t i = 0; i < FLUXONKV_BATCH_MAX; i++) {
		memset(long_keys[i], 'k', FLUXONKV_KEY_MAX);
		if (i % 4 == 3)
			long_keys[i][0] = 'm';
		batch[i] = (struct fluxonkv_key){
			long_keys[i], FLUXONKV_KEY_MAX - i % 3,
		};
	}
}

START_TEST(batch_larger_than_a_call_takes_is_split)
{
	static struct fluxonkv_holder h[FLUXONKV_BATCH_MAX];
	static int status[FLUXONKV_BATCH_MAX];
	struct fluxonkv *c = client_open();

	fill_batch();
	ck_assert_int_eq(fluxonkv_delete_many(c, batch, FLUXONKV_BATCH_MAX,
					      status), 0);
	ck_assert_uint_eq(fake.calls, 3);
	ck_assert_uint_le(fake.largest_body, FLUXONKV_CALL_MAX);
	ck_assert_int_eq(fluxonkv_delete_many(c, batch, 482, status), 0);
	ck_assert_uint_eq(fake.calls, 5);
	for (int i = 0; i < FLUXONKV_BATCH_MAX; i++)
		ck_assert_int_eq(status[i], i % 4 == 3 ? -ENOENT : 0);
	ck_assert_int_eq(fluxonkv_get_many(c, batch, FLUXONKV_BATCH_MAX, h),
			 0);
	for (int i = 0; i < FLUXONKV_BATCH_MAX; i++)
		ck_assert_int_eq(h[i].status, i % 4 == 3 ? -ENOENT : 0);
	ck_assert_int_eq(fluxonkv_release_many(c, h, FLUXONKV_BATCH_MAX), 0);
	ck_assert_uint_eq(fake.releases, 1);
	ck_assert_uint_eq(fake_holders(), 0);
	fluxonkv_close(c);
}
END_TEST

START_TEST(part_that_fails_takes_none_from_those_before)
{
	static struct fluxonkv_holder h[FLUXONKV_BATCH_MAX];
	struct fluxonkv *c = client_open();

	fill_batch();
	fake.fail_at = 2;
	fake.fail_times = 1;
	fake.fail_errno = ETIMEDOUT;
	ck_assert_int_eq(fluxonkv_get_many(c, batch, FLUXONKV_BATCH_MAX, h),
			 0);
	ck_assert_uint_eq(fake.calls, 2);
	ck_assert_int_eq(h[0].status, 0);
	ck_assert_int_eq(h[3].status, -ENOENT);
	ck_assert_int_eq(h[FLUXONKV_BATCH_MAX - 1].status, -ETIMEDOUT);
	ck_assert_uint_gt(fake_holders(), 300);
	fluxonkv_release_many(c, h, FLUXONKV_BATCH_MAX);
	ck_assert_uint_eq(fake_holders(), 0);
	fake.calls = 0;
	fake.fail_at = 1;
	fake.fail_times = 1;
	ck_assert_int_eq(fluxonkv_get_many(c, batch, FLUXONKV_BATCH_MAX, h),
			 -ETIMEDOUT);
	ck_assert_int_eq(h[0].status, -ETIMEDOUT);
	fluxonkv_close(c);
}
END_TEST

START_TEST(list_count_and_admin)
{
	struct fluxonkv_listed_key keys[3];
	struct fluxonkv *c = client_open();
	uint64_t count;
	char *text;
	size_t n;

	ck_assert_int_eq(fluxonkv_list(c, NULL, NULL, keys, 3, &n), 0);
	ck_assert_uint_eq(n, 1);
	ck_assert_mem_eq(keys[0].key, "kone", 4);
	ck_assert_uint_ge(fake.last_room, 3 * (24 + 512));
	ck_assert_int_eq(fluxonkv_count(c, "k", 1, &count), 0);
	ck_assert_uint_eq(count, 7);
	ck_assert_int_eq(fluxonkv_admin(c, "status", NULL, &text), 0);
	ck_assert_str_eq(text, "{}");
	ck_assert_uint_eq(fake.last_room, 2u << 20);
	free(text);
	fluxonkv_close(c);
}
END_TEST

START_TEST(reply_larger_than_its_room_is_asked_again_only_if_harmless)
{
	struct fluxonkv *c = client_open();
	struct fluxonkv_stat st;

	fake.reply_more = 5000;
	ck_assert_int_eq(fluxonkv_stat(c, "k1", 2, &st), 0);
	ck_assert_uint_eq(st.len, 5);
	ck_assert_uint_eq(fake.calls, 2);
	ck_assert_int_eq(fluxonkv_delete(c, "k1", 2), -EPROTO);
	ck_assert_uint_eq(fake.calls, 3);
	fake.reply_more = 3u << 20;
	ck_assert_int_eq(fluxonkv_stat(c, "k1", 2, &st), -EPROTO);
	ck_assert_uint_eq(fake.calls, 4);
	fluxonkv_close(c);
}
END_TEST

/* K3 */
START_TEST(interrupted_get_goes_on_and_a_put_does_not)
{
	struct fluxonkv *c = client_open();
	struct fluxonkv_holder h;

	fake.fail_errno = EINTR;
	fake.fail_times = 2;
	ck_assert_int_eq(fluxonkv_get(c, "k1", 2, &h), 0);
	ck_assert_uint_eq(fake.calls, 3);
	fake.fail_times = 1;
	ck_assert_int_eq(fluxonkv_put(c, "k1", 2, "a", 1, 0), -ETIMEDOUT);
	ck_assert_uint_eq(fake.calls, 4);
	ck_assert_ptr_nonnull(strstr(fluxonkv_last_error(), "interrupted"));
	fluxonkv_set_timeout(c, 0);
	fake.fail_times = 1;
	ck_assert_int_eq(fluxonkv_get(c, "k1", 2, &h), -ETIMEDOUT);
	ck_assert_uint_eq(fake.calls, 5);
	fluxonkv_close(c);
}
END_TEST

/* K3 */
START_TEST(body_has_the_time_that_is_left)
{
	struct fluxonkv *c = client_open();

	fluxonkv_set_timeout(c, 0);
	ck_assert_int_eq(fluxonkv_exists(c, "k1", 2), 0);
	ck_assert_uint_eq(fake.last_timeout_ns, 0);
	fluxonkv_set_timeout(c, 5000);
	ck_assert_int_eq(fluxonkv_exists(c, "k1", 2), 0);
	ck_assert_uint_le(fake.last_timeout_ns, 5000 * FKV_LIB_MS);
	ck_assert_uint_gt(fake.last_timeout_ns, 4000 * FKV_LIB_MS);
	fluxonkv_close(c);
}
END_TEST

START_TEST(errno_of_a_call_reaches_the_caller_with_a_sentence)
{
	static const int errs[] = { ENOMEM, ETIMEDOUT, EAGAIN, EFAULT, E2BIG };
	struct fluxonkv *c = client_open();

	fake.fail_times = 5;
	for (int i = 0; i < 5; i++) {
		fake.fail_errno = errs[i];
		ck_assert_int_eq(fluxonkv_put(c, "k1", 2, "a", 1, 0),
				 -errs[i]);
		ck_assert_uint_gt(strlen(fluxonkv_last_error()), 10);
	}
	fluxonkv_close(c);
}
END_TEST

START_TEST(malformed_reply_fails_its_call_only)
{
	struct fluxonkv *c = client_open();
	struct fluxonkv_counters n;
	struct fluxonkv_holder h;

	fake.value_offset = SEGMENT - 4;
	ck_assert_int_eq(fluxonkv_get(c, "k1", 2, &h), -EPROTO);
	ck_assert_uint_eq(fake_holders(), 0);
	fake.value_offset = VALUE_OFFSET;
	fake.reply_op = FLUXONKV_OP_ADMIN;
	ck_assert_int_eq(fluxonkv_delete(c, "k1", 2), -EPROTO);
	fake.reply_op = 0;
	ck_assert_int_eq(fluxonkv_delete(c, "k1", 2), 0);
	fluxonkv_get_counters(c, &n);
	ck_assert_uint_eq(n.reconnects, 0);
	fluxonkv_close(c);
}
END_TEST

/* F4, U5, K3 */
START_TEST(client_attaches_again_when_the_daemon_restarts)
{
	struct fluxonkv *c = client_open();
	struct fluxonkv_holder old, h;
	struct fluxonkv_counters n;
	struct fluxonkv_putop put;
	int fd = fake.files[0].fd;

	ck_assert_int_eq(fluxonkv_get(c, "k1", 2, &old), 0);
	ck_assert_int_eq(fluxonkv_put_begin(c, "k2", 2, 5, 0, &put), 0);
	fake_restart();
	ck_assert_int_eq(fluxonkv_get(c, "k1", 2, &h), 0);
	ck_assert_uint_eq(fake.nr_files, 2);
	fluxonkv_get_counters(c, &n);
	ck_assert_uint_eq(n.reconnects, 1);
	ck_assert_uint_eq(n.held, 2);
	ck_assert_mem_eq(old.data, "value", 5);
	ck_assert_ptr_ne(old.data, h.data);
	/* the window is nobody's memory now, instead of a SIGBUS */
	memcpy(put.data, "zzzzz", 5);
	ck_assert_mem_ne(fake.window + PUT_OFFSET, "zzzzz", 5);
	ck_assert_int_eq(fluxonkv_put_commit(c, &put), -ENOTCONN);
	ck_assert_uint_eq(fake.committed, 0);
	ck_assert_int_ne(fcntl(fd, F_GETFD), -1);
	ck_assert_int_eq(fluxonkv_release(c, &old), 0);
	ck_assert(!fake.files[0].held[1]);
	ck_assert_int_eq(fcntl(fd, F_GETFD), -1);
	ck_assert_int_eq(fluxonkv_release(c, &old), -EINVAL);
	ck_assert_int_eq(fluxonkv_release(c, &h), 0);
	ck_assert_uint_eq(fake_holders(), 0);
	fluxonkv_close(c);
}
END_TEST

START_TEST(delete_is_not_repeated_but_goes_to_the_new_daemon)
{
	struct fluxonkv *c = client_open();

	fake_restart();
	ck_assert_int_eq(fluxonkv_delete(c, "k1", 2), 0);
	ck_assert_uint_eq(fake.calls, 1);
	ck_assert_int_eq(fluxonkv_put(c, "k1", 2, "a", 1, 0), 0);
	fake_restart();
	ck_assert_int_eq(fluxonkv_put(c, "k1", 2, "a", 1, 0), 0);
	ck_assert_uint_eq(fake.calls, 3);
	/* it goes while it is asked */
	fake.restart_at = 4;
	ck_assert_int_eq(fluxonkv_delete(c, "k1", 2), -ENOTCONN);
	ck_assert_uint_eq(fake.calls, 3);
	fake.restart_at = 0;
	ck_assert_int_eq(fluxonkv_delete(c, "k1", 2), 0);
	fake.restart_at = 5;
	ck_assert_int_eq(fluxonkv_put(c, "k1", 2, "a", 1, 0), -ENOTCONN);
	fake.restart_at = 0;
	ck_assert_int_eq(fluxonkv_put(c, "k1", 2, "a", 1, 0), 0);
	fluxonkv_close(c);
}
END_TEST

/* K3 */
START_TEST(daemon_that_stays_away_is_enotconn_at_the_deadline)
{
	static const int errs[] = { ENOENT, EADDRINUSE, EUSERS, EADDRNOTAVAIL };
	struct fluxonkv *c = client_open();
	struct fluxonkv_holder h;
	uint64_t t0 = fkv_now_ns(), ms;

	fake.there = false;
	fluxonkv_set_timeout(c, 50);
	for (int i = 0; i < 4; i++) {
		unsigned int before = fake.nr_files;

		fake.attach_errno = errs[i];
		ck_assert_int_eq(fluxonkv_get(c, "k1", 2, &h), -ENOTCONN);
		ck_assert_ptr_nonnull(strstr(fluxonkv_last_error(),
					     "dev:one"));
		ck_assert_uint_gt(fake.nr_files, before + 1);
	}
	ms = (fkv_now_ns() - t0) / FKV_LIB_MS;
	ck_assert_uint_ge(ms, 4 * 30);
	fake.attach_errno = 0;
	fake.open_errno = ENOENT;
	ck_assert_int_eq(fluxonkv_get(c, "k1", 2, &h), -ENOTCONN);
	fake.open_errno = 0;
	fake.there = true;
	fake_restart();
	ck_assert_int_eq(fluxonkv_get(c, "k1", 2, &h), 0);
	fluxonkv_close(c);
}
END_TEST

/* "dev:" stays with what it found, whatever else there is later. */
START_TEST(only_instance_is_attached_to_by_its_name_again)
{
	struct fluxonkv_holder h;
	struct fluxonkv *c;

	ck_assert_int_eq(fluxonkv_open("dev:", &c), 0);
	fake.several = true;
	refused("dev:", -ECONNREFUSED, "more than one");
	fake_restart();
	ck_assert_int_eq(fluxonkv_get(c, "k1", 2, &h), 0);
	fluxonkv_close(c);
}
END_TEST

static void in_child(struct fluxonkv *c, int fd, int *ret)
{
	struct fluxonkv_holder x;

	*ret = fluxonkv_get(c, "k1", 2, &x) == -EOWNERDEAD &&
	       fluxonkv_put(c, "k", 1, "", 0, 0) == -EOWNERDEAD &&
	       fcntl(fd, F_GETFD) == -1;
	fluxonkv_close(c);
}

/* H2, K5 */
START_TEST(forked_child_has_neither_descriptor_nor_mapping)
{
	struct fluxonkv *c = client_open();
	struct fluxonkv_holder h;
	int status, ok = 0;
	unsigned char in_core;
	pid_t pid;

	ck_assert_int_eq(fluxonkv_get(c, "k1", 2, &h), 0);
	pid = fork();
	if (!pid) {
		in_child(c, fake.files[0].fd, &ok);
		ok = ok && mincore((void *)((uintptr_t)h.data & ~4095UL),
				   4096, &in_core) && errno == ENOMEM;
		_exit(ok ? 0 : 1);
	}
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	ck_assert_int_eq(status, 0);
	ck_assert_mem_eq(h.data, "value", 5);
	ck_assert_int_eq(fluxonkv_release(c, &h), 0);
	ck_assert_uint_eq(fake.nr_files, 1);
	fluxonkv_close(c);
}
END_TEST

#define ROUNDS	500

static void *many_calls(void *arg)
{
	struct fluxonkv *c = arg;

	for (int i = 0; i < ROUNDS; i++) {
		struct fluxonkv_holder h;

		ck_assert_int_eq(fluxonkv_get(c, "k1", 2, &h), 0);
		ck_assert_mem_eq(h.data, "value", 5);
		ck_assert_int_eq(fluxonkv_release(c, &h), 0);
	}
	return NULL;
}

START_TEST(threads_go_on_while_daemons_come_and_go)
{
	struct fluxonkv *c = client_open();
	struct fluxonkv_counters n;
	pthread_t t[4];

	for (int i = 0; i < 4; i++)
		pthread_create(&t[i], NULL, many_calls, c);
	for (int i = 0; i < 8; i++) {
		struct fluxonkv_holder h;

		fake_restart();
		ck_assert_int_eq(fluxonkv_get(c, "k2", 2, &h), 0);
		ck_assert_int_eq(fluxonkv_release(c, &h), 0);
	}
	for (int i = 0; i < 4; i++)
		pthread_join(t[i], NULL);
	fluxonkv_get_counters(c, &n);
	ck_assert_uint_eq(n.reconnects, 8);
	ck_assert_uint_eq(n.held, 0);
	ck_assert_uint_eq(n.held_bytes, 0);
	ck_assert_uint_eq(fake_holders(), 0);
	fluxonkv_close(c);
	for (unsigned int i = 0; i < fake.nr_files; i++)
		ck_assert_int_eq(fcntl(fake.files[i].fd, F_GETFD), -1);
}
END_TEST

int main(void)
{
	const TTest *const tests[] = {
		name_that_is_none_is_refused_before_the_device_is_opened,
		open_says_what_is_missing,
		what_does_not_fit_this_library_is_refused,
		default_address_is_the_device_when_there_is_no_socket,
		get_is_one_call_and_release_another,
		copy_of_a_released_holder_is_einval,
		batches_are_one_call_each,
		put_is_one_call_and_the_kernel_copies,
		put_in_place_is_written_through_the_window,
		batch_larger_than_a_call_takes_is_split,
		part_that_fails_takes_none_from_those_before,
		list_count_and_admin,
		reply_larger_than_its_room_is_asked_again_only_if_harmless,
		interrupted_get_goes_on_and_a_put_does_not,
		body_has_the_time_that_is_left,
		errno_of_a_call_reaches_the_caller_with_a_sentence,
		malformed_reply_fails_its_call_only,
		client_attaches_again_when_the_daemon_restarts,
		delete_is_not_repeated_but_goes_to_the_new_daemon,
		daemon_that_stays_away_is_enotconn_at_the_deadline,
		only_instance_is_attached_to_by_its_name_again,
		forked_child_has_neither_descriptor_nor_mapping,
		threads_go_on_while_daemons_come_and_go,
	};
	Suite *s = suite_create("lib_kdev");
	TCase *tc = tcase_create("kdev");
	SRunner *sr = srunner_create(s);
	int failed;

	tcase_add_checked_fixture(tc, setup, teardown);
	tcase_set_timeout(tc, 30);
	for (size_t i = 0; i < sizeof(tests) / sizeof(tests[0]); i++)
		tcase_add_test(tc, tests[i]);
	suite_add_tcase(s, tc);
	srunner_run_all(sr, CK_NORMAL);
	failed = srunner_ntests_failed(sr);
	srunner_free(sr);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
