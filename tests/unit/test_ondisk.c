// SPDX-License-Identifier: Apache-2.0
#include <check.h>
#include <stdlib.h>

#include "base/hash.h"
#include "core/ssd/ondisk.h"

static const uint8_t key[] = "layer.7/block-42";
static uint8_t buf[FKV_BLOCK];
static struct fkv_entry_info value;
static struct fkv_superblock super;

static void setup(void)
{
	value = (struct fkv_entry_info){
		.type = FKV_ENTRY_VALUE,
		.incarnation = 0x1112131415161718,
		.shard = 0x21222324,
		.key_len = sizeof(key) - 1,
		.vpos = 0x3132333435363000,
		.put_id = 0x4142434445464748,
		.len = 0x5152,
		.entry_len = 0x7000,
		.sum = 0x7172737475767778,
		.seq = 0x8182838485868788,
		.lease_id = 0x9192939495969798,
		.key = key,
	};
	super = (struct fkv_superblock){
		.instance_hash = 0x1112131415161718,
		.shard = 3,
		.nr_shards = 4,
		.ring_size = 0x3132333435363000,
	};
	for (int i = 0; i < 16; i++) {
		value.store_id[i] = (uint8_t)(0xa0 + i);
		super.store_id[i] = (uint8_t)(0xb0 + i);
	}
}

/* a valid sum over whatever @buf holds, to get past it */
static void reseal(void)
{
	uint64_t sum = fkv_hash_bytes(buf, FKV_BLOCK - 8);

	for (int i = 0; i < 8; i++)
		buf[FKV_BLOCK - 8 + i] = (uint8_t)(sum >> 8 * i);
}

/* S7: the table of Documentation/ondisk.md, byte by byte */
START_TEST(entry_header_bytes_are_the_documented_ones)
{
	static const uint8_t golden[128] = {
		'F', 'K', 'V', 'E', 'N', 'T', 'R', '1',
		1, 0, 1, 0, 0, 0, 0, 0,
		0xa0, 0xa1, 0xa2, 0xa3, 0xa4, 0xa5, 0xa6, 0xa7,
		0xa8, 0xa9, 0xaa, 0xab, 0xac, 0xad, 0xae, 0xaf,
		0x18, 0x17, 0x16, 0x15, 0x14, 0x13, 0x12, 0x11,
		0x24, 0x23, 0x22, 0x21, 16, 0, 0, 0,
		0x00, 0x30, 0x36, 0x35, 0x34, 0x33, 0x32, 0x31,
		20, 0, 0, 0, 0, 0, 0, 0,
		0x48, 0x47, 0x46, 0x45, 0x44, 0x43, 0x42, 0x41,
		0x52, 0x51, 0, 0, 0, 0, 0, 0,
		0x00, 0x70, 0, 0, 0, 0, 0, 0,
		0x78, 0x77, 0x76, 0x75, 0x74, 0x73, 0x72, 0x71,
		0x88, 0x87, 0x86, 0x85, 0x84, 0x83, 0x82, 0x81,
		0x98, 0x97, 0x96, 0x95, 0x94, 0x93, 0x92, 0x91,
	};
	static const uint8_t golden_sum[8] = {
		0x35, 0xba, 0x32, 0x39, 0x0f, 0xdd, 0x55, 0x5f,
	};

	memset(buf, 0xee, sizeof(buf));
	fkv_entry_encode(buf, &value);
	ck_assert_mem_eq(buf, golden, sizeof(golden));
	ck_assert_mem_eq(buf + 128, key, sizeof(key) - 1);
	for (size_t i = 128 + sizeof(key) - 1; i < FKV_BLOCK - 8; i++)
		ck_assert_uint_eq(buf[i], 0);
	ck_assert_mem_eq(buf + FKV_BLOCK - 8, golden_sum, 8);
}
END_TEST

START_TEST(superblock_bytes_are_the_documented_ones)
{
	static const uint8_t golden[56] = {
		'F', 'K', 'V', 'S', 'H', 'R', 'D', '1',
		1, 0, 0, 0, 0, 0, 0, 0,
		0xb0, 0xb1, 0xb2, 0xb3, 0xb4, 0xb5, 0xb6, 0xb7,
		0xb8, 0xb9, 0xba, 0xbb, 0xbc, 0xbd, 0xbe, 0xbf,
		0x18, 0x17, 0x16, 0x15, 0x14, 0x13, 0x12, 0x11,
		3, 0, 0, 0, 4, 0, 0, 0,
		0x00, 0x30, 0x36, 0x35, 0x34, 0x33, 0x32, 0x31,
	};
	static const uint8_t golden_sum[8] = {
		0x27, 0x88, 0x7e, 0xd0, 0x56, 0x47, 0xc7, 0x7a,
	};

	memset(buf, 0xee, sizeof(buf));
	fkv_superblock_encode(buf, &super);
	ck_assert_mem_eq(buf, golden, sizeof(golden));
	for (size_t i = sizeof(golden); i < FKV_BLOCK - 8; i++)
		ck_assert_uint_eq(buf[i], 0);
	ck_assert_mem_eq(buf + FKV_BLOCK - 8, golden_sum, 8);
}
END_TEST

START_TEST(entry_decodes_to_what_was_encoded)
{
	struct fkv_entry_info got;

	fkv_entry_encode(buf, &value);
	ck_assert_int_eq(fkv_entry_decode(buf, &got), 0);
	ck_assert_int_eq(got.type, value.type);
	ck_assert_mem_eq(got.store_id, value.store_id, 16);
	ck_assert_uint_eq(got.incarnation, value.incarnation);
	ck_assert_uint_eq(got.shard, value.shard);
	ck_assert_uint_eq(got.vpos, value.vpos);
	ck_assert_uint_eq(got.put_id, value.put_id);
	ck_assert_uint_eq(got.len, value.len);
	ck_assert_uint_eq(got.entry_len, value.entry_len);
	ck_assert_uint_eq(got.sum, value.sum);
	ck_assert_uint_eq(got.seq, value.seq);
	ck_assert_uint_eq(got.lease_id, value.lease_id);
	ck_assert_uint_eq(got.key_len, value.key_len);
	ck_assert_mem_eq(got.key, key, got.key_len);
}
END_TEST

START_TEST(longest_key_and_largest_value_fit_a_header)
{
	uint8_t longest[FKV_KEY_MAX];
	struct fkv_entry_info got;

	memset(longest, 0xff, sizeof(longest));
	value.key = longest;
	value.key_len = FKV_KEY_MAX;
	value.len = FKV_VALUE_MAX;
	value.entry_len = FKV_VALUE_MAX + FKV_BLOCK;
	fkv_entry_encode(buf, &value);
	ck_assert_int_eq(fkv_entry_decode(buf, &got), 0);
	ck_assert_mem_eq(got.key, longest, FKV_KEY_MAX);
	ck_assert_uint_eq(got.len, FKV_VALUE_MAX);
}
END_TEST

START_TEST(skip_entry_has_no_key_and_no_payload)
{
	struct fkv_entry_info got, skip = {
		.type = FKV_ENTRY_SKIP,
		.vpos = 3 * FKV_BLOCK,
		.entry_len = 5 * FKV_BLOCK,
	};

	fkv_entry_encode(buf, &skip);
	ck_assert_uint_eq(buf[10], 3);
	ck_assert_int_eq(fkv_entry_decode(buf, &got), 0);
	ck_assert_int_eq(got.type, FKV_ENTRY_SKIP);
	ck_assert_uint_eq(got.entry_len, 5 * FKV_BLOCK);
	ck_assert_uint_eq(got.key_len, 0);
}
END_TEST

START_TEST(superblock_decodes_to_what_was_encoded)
{
	struct fkv_superblock got;

	fkv_superblock_encode(buf, &super);
	ck_assert_int_eq(fkv_superblock_decode(buf, &got), 0);
	ck_assert_mem_eq(got.store_id, super.store_id, 16);
	ck_assert_uint_eq(got.instance_hash, super.instance_hash);
	ck_assert_uint_eq(got.shard, super.shard);
	ck_assert_uint_eq(got.nr_shards, super.nr_shards);
	ck_assert_uint_eq(got.ring_size, super.ring_size);
}
END_TEST

/* S7 */
START_TEST(any_single_changed_byte_of_a_header_is_found)
{
	struct fkv_entry_info got = { .seq = 77 };

	fkv_entry_encode(buf, &value);
	for (size_t i = 0; i < FKV_BLOCK; i++) {
		static const uint8_t flip[] = { 0x01, 0x80, 0xff };

		for (size_t k = 0; k < FKV_ARRAY_SIZE(flip); k++) {
			buf[i] ^= flip[k];
			ck_assert_int_eq(fkv_entry_decode(buf, &got),
					 i < 8 ? -ENOMSG : -EBADMSG);
			buf[i] ^= flip[k];
		}
	}
	ck_assert_uint_eq(got.seq, 77);
	ck_assert_int_eq(fkv_entry_decode(buf, &got), 0);
}
END_TEST

START_TEST(any_single_changed_byte_of_a_superblock_is_found)
{
	struct fkv_superblock got;

	fkv_superblock_encode(buf, &super);
	for (size_t i = 0; i < FKV_BLOCK; i++) {
		buf[i] ^= 0x10;
		ck_assert_int_eq(fkv_superblock_decode(buf, &got),
				 i < 8 ? -ENOMSG : -EBADMSG);
		buf[i] ^= 0x10;
	}
}
END_TEST

START_TEST(blank_block_and_the_other_kind_are_no_header)
{
	struct fkv_superblock sb;
	struct fkv_entry_info e;

	memset(buf, 0, sizeof(buf));
	ck_assert_int_eq(fkv_entry_decode(buf, &e), -ENOMSG);
	ck_assert_int_eq(fkv_superblock_decode(buf, &sb), -ENOMSG);
	fkv_superblock_encode(buf, &super);
	ck_assert_int_eq(fkv_entry_decode(buf, &e), -ENOMSG);
	fkv_entry_encode(buf, &value);
	ck_assert_int_eq(fkv_superblock_decode(buf, &sb), -ENOMSG);
}
END_TEST

START_TEST(another_version_is_told_apart_from_damage)
{
	struct fkv_superblock sb;
	struct fkv_entry_info e;

	fkv_entry_encode(buf, &value);
	buf[8] = 2;
	reseal();
	ck_assert_int_eq(fkv_entry_decode(buf, &e), -EPROTONOSUPPORT);
	fkv_superblock_encode(buf, &super);
	buf[8] = 2;
	reseal();
	ck_assert_int_eq(fkv_superblock_decode(buf, &sb), -EPROTONOSUPPORT);
}
END_TEST

/* A right sum is no proof of sense. */
START_TEST(fields_out_of_range_are_refused_under_a_right_sum)
{
	static const struct {
		uint16_t off;
		uint8_t to;
		int err;
	} bad[] = {
		{ 10, 2, -EPROTONOSUPPORT }, { 10, 0, -EPROTONOSUPPORT },
		{ 11, 1, -EPROTONOSUPPORT }, { 12, 1, -EPROTONOSUPPORT },
		{ 15, 1, -EPROTONOSUPPORT }, { 56, 21, -EPROTONOSUPPORT },
		{ 44, 0, -EBADMSG }, { 45, 3, -EBADMSG }, { 47, 8, -EBADMSG },
		{ 77, 1, -EBADMSG }, { 73, 0xff, -EBADMSG },
		{ 81, 0x61, -EBADMSG }, { 81, 0x50, -EBADMSG },
	};
	struct fkv_entry_info e;

	for (size_t i = 0; i < FKV_ARRAY_SIZE(bad); i++) {
		fkv_entry_encode(buf, &value);
		buf[bad[i].off] = bad[i].to;
		reseal();
		ck_assert_msg(fkv_entry_decode(buf, &e) == bad[i].err,
			      "byte %u = %u", bad[i].off, bad[i].to);
	}
}
END_TEST

START_TEST(block_needs_no_alignment)
{
	static uint8_t odd[FKV_BLOCK + 1];
	struct fkv_entry_info got;

	fkv_entry_encode(odd + 1, &value);
	ck_assert_int_eq(fkv_entry_decode(odd + 1, &got), 0);
	ck_assert_uint_eq(got.seq, value.seq);
}
END_TEST

/* A right checksum does not make a shard of it. */
START_TEST(impossible_superblock_is_refused)
{
	struct fkv_superblock got, bad[] = { super, super, super, super };

	bad[0].ring_size = 0;
	bad[1].ring_size++;
	bad[2].shard = bad[2].nr_shards;
	bad[3].nr_shards = FKV_SHARDS_MAX + 1;
	for (unsigned int i = 0; i < 4; i++) {
		fkv_superblock_encode(buf, &bad[i]);
		ck_assert_int_eq(fkv_superblock_decode(buf, &got), -EBADMSG);
	}
}
END_TEST

int main(void)
{
	Suite *s = suite_create("ondisk");
	TCase *tc = tcase_create("ondisk");
	SRunner *sr;
	int failed;

	tcase_add_checked_fixture(tc, setup, NULL);
	tcase_add_test(tc, entry_header_bytes_are_the_documented_ones);
	tcase_add_test(tc, superblock_bytes_are_the_documented_ones);
	tcase_add_test(tc, impossible_superblock_is_refused);
	tcase_add_test(tc, entry_decodes_to_what_was_encoded);
	tcase_add_test(tc, longest_key_and_largest_value_fit_a_header);
	tcase_add_test(tc, skip_entry_has_no_key_and_no_payload);
	tcase_add_test(tc, superblock_decodes_to_what_was_encoded);
	tcase_add_test(tc, any_single_changed_byte_of_a_header_is_found);
	tcase_add_test(tc, any_single_changed_byte_of_a_superblock_is_found);
	tcase_add_test(tc, blank_block_and_the_other_kind_are_no_header);
	tcase_add_test(tc, another_version_is_told_apart_from_damage);
	tcase_add_test(tc,
		       fields_out_of_range_are_refused_under_a_right_sum);
	tcase_add_test(tc, block_needs_no_alignment);
	suite_add_tcase(s, tc);
	sr = srunner_create(s);
	srunner_run_all(sr, CK_NORMAL);
	failed = srunner_ntests_failed(sr);
	srunner_free(sr);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
