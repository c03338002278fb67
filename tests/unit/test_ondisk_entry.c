// SPDX-License-Identifier: Apache-2.0
#include <check.h>
#include <stdlib.h>

#include "core/ssd/ondisk.h"

/* S7: a sum that is right does not make a length that is possible */
START_TEST(entry_whose_length_cannot_be_is_ebadmsg)
{
	static const uint64_t bad[] = { 0, FKV_BLOCK - 1, FKV_BLOCK + 1 };
	struct fkv_entry_info got, skip = { .type = FKV_ENTRY_SKIP };
	uint8_t block[FKV_BLOCK];

	for (size_t i = 0; i < FKV_ARRAY_SIZE(bad); i++) {
		skip.entry_len = bad[i];
		fkv_entry_encode(block, &skip);
		ck_assert_int_eq(fkv_entry_decode(block, &got), -EBADMSG);
	}
	skip.entry_len = FKV_BLOCK;
	fkv_entry_encode(block, &skip);
	ck_assert_int_eq(fkv_entry_decode(block, &got), 0);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("ondisk entry");
	TCase *tc = tcase_create("core");
	SRunner *sr = srunner_create(s);
	int failed;

	tcase_add_test(tc, entry_whose_length_cannot_be_is_ebadmsg);
	suite_add_tcase(s, tc);
	srunner_run_all(sr, CK_ENV);
	failed = srunner_ntests_failed(sr);
	srunner_free(sr);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
