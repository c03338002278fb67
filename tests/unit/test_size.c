// SPDX-License-Identifier: Apache-2.0
#include <check.h>
#include <errno.h>
#include <stdlib.h>

#include "base/base.h"
#include "base/size.h"

static void holds(const char *text, uint64_t bytes)
{
	uint64_t got = 7;

	ck_assert_msg(!fkv_size_parse(text, &got), "'%s' refused", text);
	ck_assert_msg(got == bytes, "'%s' is %llu", text,
		      (unsigned long long)got);
}

static void refused(const char *text, int err)
{
	uint64_t got = 7;
	int res = fkv_size_parse(text, &got);

	ck_assert_msg(res == err, "'%s' gave %d", text, res);
	ck_assert_uint_eq(got, 7);
}

/* S1 */
START_TEST(a_plain_number_is_bytes)
{
	holds("0", 0);
	holds("4096", 4096);
	holds("007", 7);
	holds("9223372036854775807", INT64_MAX);
}
END_TEST

/* S1 */
START_TEST(all_units_are_binary)
{
	holds("1B", 1);
	holds("1KB", FKV_KIB);
	holds("1KiB", FKV_KIB);
	holds("3MB", 3 * FKV_MIB);
	holds("3MiB", 3 * FKV_MIB);
	holds("4GB", 4 * FKV_GIB);
	holds("4GiB", 4 * FKV_GIB);
	holds("2TB", 2048 * FKV_GIB);
	holds("2TiB", 2048 * FKV_GIB);
	holds("4 GiB", 4 * FKV_GIB);
}
END_TEST

/* S1 */
START_TEST(fractions_are_cut_down_to_bytes)
{
	holds("512.9B", 512);
	holds("1.5GB", FKV_GIB + FKV_GIB / 2);
	holds("0.0009KB", 0);
	holds("0.9999999999999999999999999KB", 1023);
	holds("1.1KiB", 1126);
	holds("0.3TB", 329853488332ULL);
}
END_TEST

START_TEST(garbage_is_refused_and_writes_nothing)
{
	static const char *const bad[] = {
		"", " ", " 1", "1 ", "-1", "+1", "x", "1.", ".5GB", "1.5",
		"1..5GB", "1.5.5GB", "1gb", "1XB", "1  GB", "1GBx", "1e9",
		"0x10", "1,5GB", "GiB", "1PB", "1\n",
	};

	for (size_t i = 0; i < FKV_ARRAY_SIZE(bad); i++)
		refused(bad[i], -EINVAL);
}
END_TEST

START_TEST(more_than_63_bits_is_out_of_range)
{
	refused("9223372036854775808", -ERANGE);
	refused("18446744073709551616", -ERANGE);
	refused("99999999999999999999999999999999999999999999", -ERANGE);
	refused("8388608TB", -ERANGE);
	refused("9223372036854775807TiB", -ERANGE);
	holds("8388607TB", 8388607ULL << 40);
	holds("8388607.999999999999999999TB", INT64_MAX);
}
END_TEST

START_TEST(sizes_print_in_the_largest_unit_that_fits)
{
	char buf[24];

	ck_assert_str_eq(fkv_size_print(0, buf, sizeof(buf)), "0 B");
	ck_assert_str_eq(fkv_size_print(1023, buf, sizeof(buf)), "1023 B");
	ck_assert_str_eq(fkv_size_print(1024, buf, sizeof(buf)), "1.0 KiB");
	ck_assert_str_eq(fkv_size_print(3 * FKV_GIB / 2, buf, sizeof(buf)),
			 "1.5 GiB");
	ck_assert_str_eq(fkv_size_print(UINT64_MAX, buf, sizeof(buf)),
			 "16777215.9 TiB");
}
END_TEST

int main(void)
{
	Suite *s = suite_create("size");
	TCase *tc = tcase_create("size");
	SRunner *sr = srunner_create(s);
	int failed;

	tcase_add_test(tc, a_plain_number_is_bytes);
	tcase_add_test(tc, all_units_are_binary);
	tcase_add_test(tc, fractions_are_cut_down_to_bytes);
	tcase_add_test(tc, garbage_is_refused_and_writes_nothing);
	tcase_add_test(tc, more_than_63_bits_is_out_of_range);
	tcase_add_test(tc, sizes_print_in_the_largest_unit_that_fits);
	suite_add_tcase(s, tc);
	srunner_run_all(sr, CK_NORMAL);
	failed = srunner_ntests_failed(sr);
	srunner_free(sr);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
