// SPDX-License-Identifier: Apache-2.0
#include <check.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/base.h"
#include "base/log.h"

#define THREADS		4
#define EACH		200

static char got[256 * 1024];
static int from[2], saved;

/* Standard error becomes a pipe, so that lines can be read back. */
static void setup(void)
{
	unsetenv("JOURNAL_STREAM");
	fkv_log_set_level(FKV_LOG_INFO);
	ck_assert_int_eq(pipe(from), 0);
	saved = dup(STDERR_FILENO);
	dup2(from[1], STDERR_FILENO);
	close(from[1]);
}

static void teardown(void)
{
	close(from[0]);
	close(saved);
}

/* All that was logged; ends the logging. */
static const char *logged(void)
{
	size_t len = 0;
	ssize_t n;

	dup2(saved, STDERR_FILENO);
	while ((n = read(from[0], got + len, sizeof(got) - 1 - len)) > 0)
		len += (size_t)n;
	got[len] = '\0';
	return got;
}

START_TEST(a_line_has_level_text_and_one_end)
{
	fkv_log(FKV_LOG_WARN, "disk is slow: device=%d", 3);
	ck_assert_str_eq(logged(),
			 "fluxonkvd: warning: disk is slow: device=3\n");
}
END_TEST

START_TEST(under_systemd_a_line_begins_with_its_priority)
{
	setenv("JOURNAL_STREAM", "8:1", 1);
	fkv_log(FKV_LOG_ERR, "a");
	fkv_log(FKV_LOG_INFO, "b");
	ck_assert_str_eq(logged(), "<3>a\n<6>b\n");
}
END_TEST

START_TEST(lines_above_the_level_are_not_written)
{
	fkv_log(FKV_LOG_DEBUG, "no");
	fkv_log_set_level(FKV_LOG_ERR);
	fkv_log(FKV_LOG_WARN, "no");
	fkv_log(FKV_LOG_ERR, "yes");
	ck_assert_str_eq(logged(), "fluxonkvd: error: yes\n");
}
END_TEST

/* A path or name with a line end in it must not forge a second event. */
START_TEST(control_bytes_in_the_text_cannot_begin_a_line)
{
	fkv_log(FKV_LOG_INFO, "path=%s", "a\n<3>forged\r\033[2J");
	ck_assert_str_eq(logged(),
			 "fluxonkvd: info: path=a?<3>forged??[2J\n");
}
END_TEST

START_TEST(a_long_line_is_cut_and_still_ends)
{
	static char text[4000];
	const char *out;

	memset(text, 'x', sizeof(text) - 1);
	fkv_log(FKV_LOG_INFO, "%s", text);
	out = logged();
	ck_assert_uint_lt(strlen(out), 1025);
	ck_assert_int_eq(out[strlen(out) - 1], '\n');
	ck_assert_ptr_eq(strchr(out, '\n'), out + strlen(out) - 1);
}
END_TEST

static void *log_many(void *arg)
{
	for (int i = 0; i < EACH; i++)
		fkv_log(FKV_LOG_INFO, "%s", (const char *)arg);
	return NULL;
}

START_TEST(lines_of_many_threads_do_not_mix)
{
	static const char *const word[THREADS] = { "aaaa", "bb", "c", "dddd" };
	pthread_t t[THREADS];
	int lines = 0;
	char *p, *save;

	for (int i = 0; i < THREADS; i++)
		pthread_create(&t[i], NULL, log_many, (void *)word[i]);
	for (int i = 0; i < THREADS; i++)
		pthread_join(t[i], NULL);
	logged();
	for (p = strtok_r(got, "\n", &save); p;
	     p = strtok_r(NULL, "\n", &save)) {
		bool known = false;

		ck_assert(!strncmp(p, "fluxonkvd: info: ", 17));
		for (int i = 0; i < THREADS; i++)
			known |= !strcmp(p + 17, word[i]);
		ck_assert_msg(known, "mixed: %s", p);
		lines++;
	}
	ck_assert_int_eq(lines, THREADS * EACH);
}
END_TEST

START_TEST(a_limited_place_logs_once_a_period)
{
	struct fkv_log_limit limit = { 0 }, other = { 0 };
	int allowed = 0;

	for (int i = 0; i < 1000; i++)
		allowed += fkv_log_allowed(&limit, 3600 * FKV_SEC);
	ck_assert_int_eq(allowed, 1);
	ck_assert(fkv_log_allowed(&other, 3600 * FKV_SEC));
}
END_TEST

START_TEST(a_period_of_nothing_always_allows)
{
	struct fkv_log_limit limit = { 0 };

	for (int i = 0; i < 10; i++)
		ck_assert(fkv_log_allowed(&limit, 0));
}
END_TEST

int main(void)
{
	Suite *s = suite_create("log");
	TCase *tc = tcase_create("log");
	SRunner *sr = srunner_create(s);
	int failed;

	tcase_add_checked_fixture(tc, setup, teardown);
	tcase_add_test(tc, a_line_has_level_text_and_one_end);
	tcase_add_test(tc, under_systemd_a_line_begins_with_its_priority);
	tcase_add_test(tc, lines_above_the_level_are_not_written);
	tcase_add_test(tc, control_bytes_in_the_text_cannot_begin_a_line);
	tcase_add_test(tc, a_long_line_is_cut_and_still_ends);
	tcase_add_test(tc, lines_of_many_threads_do_not_mix);
	tcase_add_test(tc, a_limited_place_logs_once_a_period);
	tcase_add_test(tc, a_period_of_nothing_always_allows);
	suite_add_tcase(s, tc);
	srunner_run_all(sr, CK_NORMAL);
	failed = srunner_ntests_failed(sr);
	srunner_free(sr);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
