// SPDX-License-Identifier: Apache-2.0
#include <check.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/base.h"
#include "io/mailbox.h"

#define SENDERS	4
#define EACH	20000

static struct fkv_mailbox m;

static void setup(void)
{
	ck_assert_int_eq(fkv_mailbox_init(&m), 0);
}

static void teardown(void)
{
	fkv_mailbox_done(&m);
}

static bool woken(void)
{
	struct pollfd p = { .fd = m.fd, .events = POLLIN };
	uint64_t n;

	if (poll(&p, 1, 0) != 1)
		return false;
	ck_assert_int_eq(read(m.fd, &n, sizeof(n)), sizeof(n));
	return true;
}

START_TEST(pointers_come_out_in_order)
{
	void *got[4];

	for (uintptr_t i = 1; i <= 3; i++)
		ck_assert_int_eq(fkv_mailbox_post(&m, (void *)i), 0);
	ck_assert_uint_eq(fkv_mailbox_count(&m), 3);
	ck_assert_uint_eq(fkv_mailbox_take(&m, got, 4), 3);
	for (uintptr_t i = 1; i <= 3; i++)
		ck_assert_ptr_eq(got[i - 1], (void *)i);
}
END_TEST

START_TEST(a_full_box_refuses_and_loses_nothing)
{
	void *got[1];

	for (uintptr_t i = 0; i < FKV_MAILBOX_MAX; i++)
		ck_assert_int_eq(fkv_mailbox_post(&m, (void *)(i + 1)), 0);
	ck_assert_int_eq(fkv_mailbox_post(&m, &m), -EAGAIN);
	for (uintptr_t i = 0; i < FKV_MAILBOX_MAX; i++) {
		ck_assert_uint_eq(fkv_mailbox_take(&m, got, 1), 1);
		ck_assert_ptr_eq(got[0], (void *)(i + 1));
	}
	ck_assert_uint_eq(fkv_mailbox_take(&m, got, 1), 0);
}
END_TEST

START_TEST(only_a_sleeper_is_woken_and_once)
{
	void *got[2];

	ck_assert_int_eq(fkv_mailbox_post(&m, &m), 0);
	ck_assert(!woken());
	ck_assert(!fkv_mailbox_sleep(&m));
	fkv_mailbox_take(&m, got, 2);
	ck_assert(fkv_mailbox_sleep(&m));
	ck_assert_int_eq(fkv_mailbox_post(&m, &m), 0);
	ck_assert(woken());
	ck_assert_int_eq(fkv_mailbox_post(&m, &m), 0);
	ck_assert(!woken());
}
END_TEST

START_TEST(a_closed_box_wakes_refuses_and_gives_out_the_rest)
{
	void *got[2];

	ck_assert_int_eq(fkv_mailbox_post(&m, &m), 0);
	fkv_mailbox_close(&m);
	ck_assert(woken());
	ck_assert(fkv_mailbox_closed(&m));
	ck_assert(!fkv_mailbox_sleep(&m));
	ck_assert_int_eq(fkv_mailbox_post(&m, &m), -ESHUTDOWN);
	ck_assert_uint_eq(fkv_mailbox_take(&m, got, 2), 1);
}
END_TEST

static void *send_all(void *arg)
{
	uintptr_t base = (uintptr_t)arg * EACH;

	for (uintptr_t i = 0; i < EACH; i++)
		while (fkv_mailbox_post(&m, (void *)(base + i + 1)))
			sched_yield();
	return NULL;
}

START_TEST(many_senders_lose_nothing_and_no_wake_up_is_missed)
{
	static uintptr_t last[SENDERS];
	pthread_t t[SENDERS];
	size_t total = 0;
	uint64_t n;

	for (uintptr_t i = 0; i < SENDERS; i++)
		pthread_create(&t[i], NULL, send_all, (void *)i);
	while (total < SENDERS * EACH) {
		void *got[64];
		size_t k = fkv_mailbox_take(&m, got, 64);

		for (size_t i = 0; i < k; i++) {
			uintptr_t v = (uintptr_t)got[i] - 1;

			ck_assert_uint_eq(last[v / EACH]++, v % EACH);
		}
		total += k;
		if (!k && fkv_mailbox_sleep(&m))
			ck_assert_int_eq(read(m.fd, &n, sizeof(n)), 8);
	}
	for (int i = 0; i < SENDERS; i++)
		pthread_join(t[i], NULL);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("mailbox");
	TCase *tc = tcase_create("mailbox");
	SRunner *sr = srunner_create(s);
	int failed;

	tcase_add_checked_fixture(tc, setup, teardown);
	tcase_set_timeout(tc, 60);
	tcase_add_test(tc, pointers_come_out_in_order);
	tcase_add_test(tc, a_full_box_refuses_and_loses_nothing);
	tcase_add_test(tc, only_a_sleeper_is_woken_and_once);
	tcase_add_test(tc, a_closed_box_wakes_refuses_and_gives_out_the_rest);
	tcase_add_test(tc,
		many_senders_lose_nothing_and_no_wake_up_is_missed);
	suite_add_tcase(s, tc);
	srunner_run_all(sr, CK_NORMAL);
	failed = srunner_ntests_failed(sr);
	srunner_free(sr);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
