// SPDX-License-Identifier: Apache-2.0
#define _GNU_SOURCE 1
#include <sys/wait.h>

#include "lib_fake_server.h"

START_TEST(address_that_is_none_is_refused_with_a_sentence)
{
	struct fluxonkv *c;

	ck_assert_int_eq(fluxonkv_open("/some/path", &c), -EINVAL);
	ck_assert_ptr_nonnull(strstr(fluxonkv_last_error(), "unix:PATH"));
	ck_assert_int_eq(fluxonkv_open("unix:", &c), -EINVAL);
	ck_assert_int_eq(fluxonkv_open("dev:0/1", &c), -EINVAL);
	ck_assert_int_eq(fluxonkv_open("unix:/nonexistent/s", &c), -ENOENT);
	setenv("FLUXONKV", address, 1);
	ck_assert_int_eq(fluxonkv_open(NULL, &c), 0);
	fluxonkv_close(c);
}
END_TEST

START_TEST(get_and_release_by_message)
{
	struct fluxonkv *c = client_open();
	struct fluxonkv_counters n;
	struct fluxonkv_holder h;

	ck_assert_int_eq(fluxonkv_get(c, "k1", 2, &h), 0);
	ck_assert_mem_eq(h.data, "value", 5);
	ck_assert_int_eq(h.source, FLUXONKV_SERVED_LOCAL);
	fluxonkv_get_counters(c, &n);
	ck_assert_uint_eq(n.held, 1);
	ck_assert_uint_eq(n.held_bytes, 4096);
	ck_assert_int_eq(fluxonkv_release(c, &h), 0);
	ck_assert_int_eq(fluxonkv_release(c, &h), -EINVAL);
	wait_count(&server.released, 1);
	fluxonkv_get_counters(c, &n);
	ck_assert_uint_eq(n.held, 0);
	ck_assert_uint_eq(n.held_bytes, 0);
	fluxonkv_close(c);
}
END_TEST

START_TEST(release_many_is_one_message)
{
	struct fluxonkv_key keys[100];
	struct fluxonkv_holder h[100];
	struct fluxonkv *c = client_open();

	for (int i = 0; i < 100; i++)
		keys[i] = (struct fluxonkv_key){ "k1", 2 };
	keys[7].len = 0;
	ck_assert_int_eq(fluxonkv_get_many(c, keys, 100, h), 0);
	ck_assert_int_eq(h[7].status, -EINVAL);
	ck_assert_int_eq(h[8].status, 0);
	ck_assert_int_eq(fluxonkv_release_many(c, h, 100), 0);
	ck_assert_int_eq(h[7].status, -EINVAL);
	ck_assert_int_eq(h[8].status, 0);
	wait_count(&server.released, 99);
	ck_assert_uint_eq(server.releases, 1);
	fluxonkv_close(c);
}
END_TEST

START_TEST(index_hit_asks_nobody)
{
	struct fluxonkv_counters n;
	struct fluxonkv_holder h;
	struct fluxonkv *c;
	uint64_t len;
	char buf[8];

	server.index = true;
	c = client_open();
	ck_assert_int_eq(fluxonkv_get(c, "khot", 4, &h), 0);
	ck_assert_mem_eq(h.data, "hot", 3);
	ck_assert(fake_pinned(server.pages, 1));
	fluxonkv_get_counters(c, &n);
	ck_assert_uint_eq(n.requests, 0);
	ck_assert_uint_eq(n.hits_local, 1);
	ck_assert_uint_eq(n.held, 1);
	ck_assert_uint_eq(n.held_bytes, 4096);
	ck_assert_int_eq(fluxonkv_release(c, &h), 0);
	ck_assert_int_eq(fluxonkv_release(c, &h), -EINVAL);
	ck_assert(!fake_pinned(server.pages, 1));
	ck_assert_int_eq(fluxonkv_get_into(c, "khot", 4, buf, 8, &len), 0);
	ck_assert_uint_eq(len, 3);
	ck_assert_int_eq(fluxonkv_get_into(c, "khot", 4, buf, 2, &len),
			 -ENOBUFS);
	ck_assert_uint_eq(len, 3);
	ck_assert(!fake_pinned(server.pages, 1));
	fluxonkv_get_counters(c, &n);
	ck_assert_uint_eq(n.requests, 0);
	ck_assert_uint_eq(n.held_bytes, 0);
	fluxonkv_close(c);
}
END_TEST

/* H4 */
START_TEST(hits_over_the_cap_are_edquot)
{
	struct fluxonkv_holder h[4];
	struct fluxonkv *c;

	server.index = true;
	server.cap = 4 * 4096 - 1;
	c = client_open();
	for (int i = 0; i < 3; i++)
		ck_assert_int_eq(fluxonkv_get(c, "khot", 4, &h[i]), 0);
	ck_assert_int_eq(fluxonkv_get(c, "khot", 4, &h[3]), -EDQUOT);
	ck_assert_int_eq(fluxonkv_release(c, &h[0]), 0);
	ck_assert_int_eq(fluxonkv_get(c, "khot", 4, &h[3]), 0);
	fluxonkv_close(c);
}
END_TEST

/* K3: a frozen daemon costs the deadline and at most 100 ms. */
START_TEST(frozen_daemon_costs_the_deadline)
{
	struct fluxonkv *c = client_open();
	struct fluxonkv_holder h;
	uint64_t t0, ms;

	set_mode(HOLD);
	ck_assert_int_eq(fluxonkv_set_timeout(c, 50), 0);
	t0 = fkv_now_ns();
	ck_assert_int_eq(fluxonkv_get(c, "k1", 2, &h), -ETIMEDOUT);
	ms = (fkv_now_ns() - t0) / FKV_LIB_MS;
	ck_assert_uint_ge(ms, 50);
	ck_assert_uint_le(ms, 50 + 100 + 50 /* a busy machine */);
	fluxonkv_close(c);
}
END_TEST

START_TEST(late_holders_and_puts_are_given_back)
{
	struct fluxonkv *c = client_open();
	struct fluxonkv_putop put;
	struct fluxonkv_holder h;

	set_mode(HOLD);
	fluxonkv_set_timeout(c, 0);
	ck_assert_int_eq(fluxonkv_get(c, "k1", 2, &h), -ETIMEDOUT);
	ck_assert_int_eq(fluxonkv_put_begin(c, "k1", 2, 5, 0, &put),
			 -ETIMEDOUT);
	set_mode(ANSWER);
	fluxonkv_set_timeout(c, 10000);
	ck_assert_int_eq(fluxonkv_exists(c, "k1", 2), 0);
	wait_count(&server.released, 1);
	wait_count(&server.aborted, 1);
	fluxonkv_close(c);
}
END_TEST

START_TEST(malformed_body_fails_its_call_only)
{
	struct fluxonkv *c = client_open();
	struct fluxonkv_counters n;
	struct fluxonkv_holder h;

	set_mode(BAD_BODY);
	ck_assert_int_eq(fluxonkv_get(c, "k1", 2, &h), -EPROTO);
	set_mode(BAD_OFFSET);
	ck_assert_int_eq(fluxonkv_get(c, "k1", 2, &h), -EPROTO);
	wait_count(&server.released, 1);
	set_mode(ANSWER);
	ck_assert_int_eq(fluxonkv_get(c, "k1", 2, &h), 0);
	fluxonkv_get_counters(c, &n);
	ck_assert_uint_eq(n.reconnects, 0);
	fluxonkv_close(c);
}
END_TEST

START_TEST(broken_framing_ends_the_connection)
{
	struct fluxonkv *c = client_open();
	struct fluxonkv_counters n;

	set_mode(BAD_FRAME);
	ck_assert_int_eq(fluxonkv_delete(c, "k1", 2), -ENOTCONN);
	set_mode(ANSWER);
	ck_assert_int_eq(fluxonkv_delete(c, "k1", 2), 0);
	fluxonkv_get_counters(c, &n);
	ck_assert_uint_eq(n.reconnects, 1);
	fluxonkv_close(c);
}
END_TEST

/* F4 */
START_TEST(held_bytes_stay_when_the_daemon_restarts)
{
	struct fluxonkv_holder slot, message, again;
	struct fluxonkv_counters n;
	struct fluxonkv_putop put;
	struct fluxonkv *c;

	server.index = true;
	c = client_open();
	ck_assert_int_eq(fluxonkv_get(c, "khot", 4, &slot), 0);
	ck_assert_int_eq(fluxonkv_get(c, "k1", 2, &message), 0);
	ck_assert_int_eq(fluxonkv_put_begin(c, "k2", 2, 5, 0, &put), 0);
	server_stop();
	server.index = false;
	server_start();
	ck_assert_int_eq(fluxonkv_get(c, "k1", 2, &again), 0);
	fluxonkv_get_counters(c, &n);
	ck_assert_uint_eq(n.reconnects, 1);
	ck_assert_mem_eq(slot.data, "hot", 3);
	ck_assert_mem_eq(message.data, "value", 5);
	memcpy(put.data, "xxxxx", 5);
	ck_assert_int_eq(fluxonkv_put_commit(c, &put), -ENOTCONN);
	ck_assert_int_eq(fluxonkv_release(c, &slot), 0);
	ck_assert_int_eq(fluxonkv_release(c, &message), 0);
	ck_assert_int_eq(fluxonkv_release(c, &again), 0);
	fluxonkv_get_counters(c, &n);
	ck_assert_uint_eq(n.held, 0);
	ck_assert_uint_eq(n.held_bytes, 0);
	fluxonkv_close(c);
}
END_TEST

START_TEST(get_is_repeated_and_delete_is_not)
{
	struct fluxonkv *c = client_open();
	struct fluxonkv_holder h;

	set_mode(HANG_UP);
	ck_assert_int_eq(fluxonkv_get(c, "k1", 2, &h), 0);
	wait_count(&server.requests, 2);
	set_mode(HANG_UP);
	ck_assert_int_eq(fluxonkv_delete(c, "k1", 2), -ENOTCONN);
	wait_count(&server.requests, 3);
	fluxonkv_close(c);
}
END_TEST

START_TEST(daemon_that_stays_away_is_enotconn_at_the_deadline)
{
	struct fluxonkv *c = client_open();
	struct fluxonkv_holder h;

	server_stop();
	fluxonkv_set_timeout(c, 50);
	ck_assert_int_eq(fluxonkv_get(c, "k1", 2, &h), -ENOTCONN);
	fluxonkv_close(c);
	server_start();
}
END_TEST

START_TEST(put_copies_and_commits)
{
	struct fluxonkv_value v[3] = {
		{ .key = { "k1", 2 }, .data = "12345", .len = 5 },
		{ .key = { "k2", 2 }, .data = NULL, .len = 5 },
		{ .key = { "k3", 2 }, .data = "12345", .len = 5,
		  .flags = 1u << 9 },
	};
	struct fluxonkv *c = client_open();
	struct fluxonkv_counters n;

	ck_assert_int_eq(fluxonkv_put(c, "k1", 2, "abcde", 5, 0), 0);
	ck_assert_mem_eq(server.segment + 4096, "abcde", 5);
	ck_assert_int_eq(fluxonkv_put_many(c, v, 3), 0);
	ck_assert_int_eq(v[0].status, 0);
	ck_assert_uint_eq(v[0].version, 1);
	ck_assert_int_eq(v[1].status, -EINVAL);
	ck_assert_int_eq(v[2].status, -EINVAL);
	wait_count(&server.committed, 2);
	fluxonkv_get_counters(c, &n);
	ck_assert_uint_eq(n.held_bytes, 0);
	fluxonkv_close(c);
}
END_TEST

START_TEST(value_larger_than_the_arena_is_efbig)
{
	struct fluxonkv *c;
	char *big = calloc(1, 65537);

	server.arena = true;
	c = client_open();
	ck_assert_int_eq(fluxonkv_put(c, "k1", 2, big, 61440, 0), 0);
	ck_assert_int_eq(fluxonkv_put(c, "k1", 2, big, 65537, 0), -EFBIG);
	ck_assert_ptr_nonnull(strstr(fluxonkv_last_error(), "arena"));
	fluxonkv_close(c);
	free(big);
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
	ck_assert_uint_eq(keys[0].key_len, 4);
	ck_assert_mem_eq(keys[0].key, "kone", 4);
	ck_assert_uint_eq(keys[0].len, 5);
	ck_assert_int_eq(fluxonkv_list(c, NULL, NULL, keys, 1001, &n),
			 -EINVAL);
	ck_assert_int_eq(fluxonkv_count(c, "k", 1, &count), 0);
	ck_assert_uint_eq(count, 7);
	ck_assert_int_eq(fluxonkv_admin(c, "status", NULL, &text), 0);
	ck_assert_str_eq(text, "{}");
	free(text);
	ck_assert_int_eq(fluxonkv_admin(c, "", NULL, &text), -EINVAL);
	fluxonkv_close(c);
}
END_TEST

START_TEST(batch_of_1025_is_e2big)
{
	static struct fluxonkv_key keys[1025];
	static struct fluxonkv_holder h[1025];
	struct fluxonkv *c = client_open();

	ck_assert_int_eq(fluxonkv_get_many(c, keys, 1025, h), -E2BIG);
	fluxonkv_close(c);
}
END_TEST

#define CALLS	300

static void *many_calls(void *arg)
{
	struct fluxonkv *c = arg;

	for (int i = 0; i < CALLS; i++) {
		struct fluxonkv_holder h;

		ck_assert_int_eq(fluxonkv_get(c, "k1", 2, &h), 0);
		ck_assert_mem_eq(h.data, "value", 5);
		ck_assert_int_eq(fluxonkv_get(c, "khot", 4, &h), 0);
		ck_assert_int_eq(fluxonkv_release(c, &h), 0);
		ck_assert_int_eq(fluxonkv_exists(c, "k2", 2), 0);
	}
	return NULL;
}

START_TEST(threads_share_one_connection)
{
	struct fluxonkv *c;
	pthread_t t[4];

	server.index = true;
	c = client_open();
	for (int i = 0; i < 4; i++)
		ck_assert_int_eq(pthread_create(&t[i], NULL, many_calls, c),
				 0);
	for (int i = 0; i < 4; i++)
		pthread_join(t[i], NULL);
	ck_assert_uint_eq(server.connections, 1);
	fluxonkv_close(c);
}
END_TEST

static void *one_call(void *arg)
{
	struct fluxonkv_holder h;

	return (void *)(intptr_t)fluxonkv_get(arg, "k1", 2, &h);
}

START_TEST(leader_that_leaves_passes_leadership_on)
{
	struct fluxonkv *c = client_open();
	struct fluxonkv_holder h;
	pthread_t t[3];
	void *ret;

	set_mode(HOLD);
	fluxonkv_set_timeout(c, 0);
	for (int i = 0; i < 3; i++) {
		pthread_create(&t[i], NULL, one_call, c);
		wait_count(&server.requests, (unsigned int)i + 1);
		/* the first gives up long before the others */
		fluxonkv_set_timeout(c, 10000);
	}
	pthread_join(t[0], &ret);
	ck_assert_int_eq((intptr_t)ret, -ETIMEDOUT);
	set_mode(ANSWER);
	for (int i = 1; i < 3; i++) {
		pthread_join(t[i], &ret);
		ck_assert_int_eq((intptr_t)ret, 0);
	}
	ck_assert_int_eq(fluxonkv_get(c, "k1", 2, &h), 0);
	fluxonkv_close(c);
}
END_TEST

/* H2, K5 */
START_TEST(forked_child_disturbs_nothing)
{
	struct fluxonkv_holder h, hot;
	struct fluxonkv *c;
	int status;
	pid_t pid;

	server.index = true;
	c = client_open();
	ck_assert_int_eq(fluxonkv_get(c, "k1", 2, &h), 0);
	ck_assert_int_eq(fluxonkv_get(c, "khot", 4, &hot), 0);
	pid = fork();
	if (!pid) {
		struct fluxonkv_holder x;
		int ok = fluxonkv_get(c, "k1", 2, &x) == -EOWNERDEAD &&
			 fluxonkv_get(c, "khot", 4, &x) == -EOWNERDEAD &&
			 fluxonkv_release(c, &hot) == -EOWNERDEAD &&
			 fluxonkv_put(c, "k", 1, "", 1, 0) == -EOWNERDEAD;

		fluxonkv_close(c);
		_exit(ok ? 0 : 1);
	}
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	ck_assert_int_eq(status, 0);
	ck_assert_mem_eq(h.data, "value", 5);
	ck_assert(fake_pinned(server.pages, 1));
	ck_assert_int_eq(fluxonkv_release(c, &h), 0);
	ck_assert_int_eq(fluxonkv_release(c, &hot), 0);
	ck_assert_int_eq(fluxonkv_exists(c, "k1", 2), 0);
	ck_assert_uint_eq(server.connections, 1);
	fluxonkv_close(c);
}
END_TEST

START_TEST(request_larger_than_the_socket_buffer_gets_through)
{
	static struct fluxonkv_key keys[FLUXONKV_BATCH_MAX];
	static struct fluxonkv_holder h[FLUXONKV_BATCH_MAX];
	static char key[FLUXONKV_KEY_MAX];
	struct fluxonkv *c = client_open();

	memset(key, 'k', sizeof(key));
	for (size_t i = 0; i < FLUXONKV_BATCH_MAX; i++)
		keys[i] = (struct fluxonkv_key){ key, sizeof(key) };
	ck_assert_int_eq(fluxonkv_get_many(c, keys, FLUXONKV_BATCH_MAX, h), 0);
	for (size_t i = 0; i < FLUXONKV_BATCH_MAX; i++)
		ck_assert_int_eq(h[i].status, 0);
	ck_assert_int_eq(fluxonkv_release_many(c, h, FLUXONKV_BATCH_MAX), 0);
	wait_count(&server.released, FLUXONKV_BATCH_MAX);
	fluxonkv_close(c);
}
END_TEST

int main(void)
{
	const TTest *const tests[] = {
		address_that_is_none_is_refused_with_a_sentence,
		get_and_release_by_message,
		release_many_is_one_message,
		index_hit_asks_nobody,
		hits_over_the_cap_are_edquot,
		frozen_daemon_costs_the_deadline,
		late_holders_and_puts_are_given_back,
		malformed_body_fails_its_call_only,
		broken_framing_ends_the_connection,
		held_bytes_stay_when_the_daemon_restarts,
		get_is_repeated_and_delete_is_not,
		daemon_that_stays_away_is_enotconn_at_the_deadline,
		put_copies_and_commits,
		value_larger_than_the_arena_is_efbig,
		list_count_and_admin,
		batch_of_1025_is_e2big,
		threads_share_one_connection,
		leader_that_leaves_passes_leadership_on,
		forked_child_disturbs_nothing,
		request_larger_than_the_socket_buffer_gets_through,
	};
	Suite *s = suite_create("lib_conn");
	TCase *tc = tcase_create("conn");
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
