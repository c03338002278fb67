// SPDX-License-Identifier: Apache-2.0
/*
 * test_ctl_escape.c - keys and tables as people see them
 */
#include <check.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ctl/escape.h"
#include "ctl/table.h"

/* K1: any bytes are a key. */
START_TEST(every_byte_survives_the_round_trip)
{
	char key[256], back[CTL_KEY_MAX], text[CTL_ESCAPED_MAX];
	size_t len;

	for (int i = 0; i < 256; i++)
		key[i] = (char)i;
	ctl_escape(text, key, sizeof(key));
	for (const char *p = text; *p; p++)
		ck_assert(*p >= ' ' && *p < 0x7f);
	ck_assert_int_eq(ctl_unescape(text, back, &len), 0);
	ck_assert_uint_eq(len, sizeof(key));
	ck_assert_mem_eq(back, key, sizeof(key));
}
END_TEST

START_TEST(longest_key_fits_escaped)
{
	char key[CTL_KEY_MAX], back[CTL_KEY_MAX], text[CTL_ESCAPED_MAX];
	size_t len;

	memset(key, 0xff, sizeof(key));
	ctl_escape(text, key, sizeof(key));
	ck_assert_uint_eq(strlen(text), CTL_ESCAPED_MAX - 1);
	ck_assert_int_eq(ctl_unescape(text, back, &len), 0);
	ck_assert_uint_eq(len, CTL_KEY_MAX);
}
END_TEST

START_TEST(longer_keys_are_too_big)
{
	char text[CTL_KEY_MAX + 2], key[CTL_KEY_MAX];
	size_t len;

	memset(text, 'a', sizeof(text));
	text[CTL_KEY_MAX + 1] = '\0';
	ck_assert_int_eq(ctl_unescape(text, key, &len), -E2BIG);
}
END_TEST

START_TEST(printable_text_is_itself)
{
	char text[CTL_ESCAPED_MAX];

	ck_assert_str_eq(ctl_escape(text, "model/layer 3", 13),
			 "model/layer 3");
	ck_assert_str_eq(ctl_escape(text, "a\\b\n", 4), "a\\\\b\\x0a");
	ck_assert_str_eq(ctl_escape(text, "", 0), "");
}
END_TEST

START_TEST(unknown_escapes_are_refused)
{
	static const char *const bad[] = { "\\", "a\\n", "\\x", "\\x1",
					   "\\xg0", "\\x0g", "\\X00" };
	char key[CTL_KEY_MAX];
	size_t len;

	for (unsigned int i = 0; i < sizeof(bad) / sizeof(*bad); i++)
		ck_assert_int_eq(ctl_unescape(bad[i], key, &len), -EINVAL);
}
END_TEST

static char *table_of(const char *json)
{
	struct json_object *o = json_tokener_parse(json);
	char *text = NULL;
	size_t size;
	FILE *f = open_memstream(&text, &size);

	ctl_table(f, o);
	fclose(f);
	json_object_put(o);
	return text;
}

START_TEST(fields_nobody_knows_are_shown)
{
	char *text = table_of("[{\"client\":1,\"new\":\"x\"},"
			      "{\"client\":22,\"later\":true}]");

	ck_assert_str_eq(text, "client  new  later\n"
			 "     1  x    -\n"
			 "    22  -    yes\n");
	free(text);
	text = table_of("{\"a\":{\"used_bytes\":2048},\"odd\":[1,2]}");
	ck_assert_ptr_nonnull(strstr(text, "2.00 KiB"));
	ck_assert_ptr_nonnull(strstr(text, "[1,2]"));
	free(text);
}
END_TEST

START_TEST(text_cannot_move_the_cursor)
{
	char *text = table_of("{\"name\":\"a\\u001b[2Jb\"}");

	ck_assert_ptr_null(strchr(text, 0x1b));
	free(text);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("ctl_escape");
	TCase *t = tcase_create("all");
	SRunner *r;
	int failed;

	tcase_add_test(t, every_byte_survives_the_round_trip);
	tcase_add_test(t, longest_key_fits_escaped);
	tcase_add_test(t, longer_keys_are_too_big);
	tcase_add_test(t, printable_text_is_itself);
	tcase_add_test(t, unknown_escapes_are_refused);
	tcase_add_test(t, fields_nobody_knows_are_shown);
	tcase_add_test(t, text_cannot_move_the_cursor);
	suite_add_tcase(s, t);
	r = srunner_create(s);
	srunner_run_all(r, CK_NORMAL);
	failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
