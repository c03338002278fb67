// SPDX-License-Identifier: Apache-2.0
/*
 * test_cluster_unsent.c - what is out of range is refused by who would send it
 */
#include <check.h>
#include <stdlib.h>

#include "wire/cluster.h"

static uint8_t buf[FKV_CLUSTER_BYTES_MAX];
static struct fkv_cluster_msg in;

static void setup(void)
{
	memset(&in, 0, sizeof(in));
}

static int encode_error(void)
{
	size_t len;

	return fkv_cluster_encode(&in, 1000 * FKV_SEC, buf, sizeof(buf), &len);
}

#define BAD(member_, value_)						\
	do {								\
		__typeof__(member_) was_ = member_;			\
									\
		member_ = value_;					\
		ck_assert_int_eq(encode_error(), -EINVAL);		\
		member_ = was_;						\
		ck_assert_int_eq(encode_error(), 0);			\
	} while (0)

static char long_name[FKV_CLUSTER_NAME_MAX + 2];
static char long_text[FKV_TEXT_MAX + 1];

START_TEST(what_is_out_of_range_is_not_sent)
{
	struct fkv_cluster_range r = { 4096, 8192 };

	memset(long_name, 'n', FKV_CLUSTER_NAME_MAX + 1);
	in.type = FKV_CLUSTER_REGISTER;
	in.reg = (struct fkv_cluster_register){
		.name = "o", .incarnation = 1, .segment_bytes = 3 * 4096,
		.parts = 1, .n = 1, .busy = &r,
	};
	BAD(in.reg.name, NULL);
	BAD(in.reg.name, "");
	BAD(in.reg.name, long_name);
	BAD(in.reg.address, long_name);
	BAD(in.reg.incarnation, 0);
	BAD(in.reg.epoch_seen, FKV_CLUSTER_EPOCH_MAX + 1);
	BAD(in.reg.segment_bytes, FKV_SEGMENT_MAX + 4096);
	BAD(in.reg.segment_bytes, 4097);
	BAD(in.reg.ssd_devices, FKV_DEVICES_MAX + 1);
	BAD(in.reg.transports, 4);
	BAD(in.reg.part, 1);
	BAD(in.reg.parts, 0);
	BAD(in.reg.parts, FKV_CLUSTER_PARTS_MAX + 1);
	BAD(r.len, 0);
	BAD(r.len, 100);
	BAD(r.len, 3 * 4096);
	BAD(r.offset, 1);
	BAD(r.offset, 4 * 4096);
	BAD(r.offset, UINT64_MAX - 4095);
	in.type = FKV_CLUSTER_NR;
	ck_assert_int_eq(encode_error(), -EINVAL);
}
END_TEST

START_TEST(what_is_out_of_range_is_not_sent_of_the_others_either)
{
	memset(long_text, 't', FKV_TEXT_MAX);
	in.type = FKV_CLUSTER_REGISTERED;
	in.registered = (struct fkv_cluster_registered){
		.lease_ns = 2, .heartbeat_ns = 1 };
	BAD(in.registered.res, 1);
	BAD(in.registered.epoch, FKV_CLUSTER_EPOCH_MAX + 1);
	BAD(in.registered.heartbeat_ns, 3);
	BAD(in.registered.heartbeat_ns, 0);
	BAD(in.registered.lease_ns, FKV_CLUSTER_TIME_MAX + 1);
	BAD(in.registered.text, long_text);
	memset(&in, 0, sizeof(in));
	in.type = FKV_CLUSTER_HEARTBEAT;
	in.heartbeat.parts = 1;
	BAD(in.heartbeat.part, 1);
	memset(&in, 0, sizeof(in));
	in.type = FKV_CLUSTER_HEARTBEAT_REPLY;
	BAD(in.heartbeat_reply.res, 1);
	BAD(in.heartbeat_reply.epoch, FKV_CLUSTER_EPOCH_MAX + 1);
	BAD(in.heartbeat_reply.lease_ns, FKV_CLUSTER_TIME_MAX + 1);
	memset(&in, 0, sizeof(in));
	in.type = FKV_CLUSTER_FENCE;
	in.fence.op = in.fence.incarnation = 1;
	BAD(in.fence.op, 0);
	BAD(in.fence.incarnation, 0);
	BAD(in.fence.res, 1);
	memset(&in, 0, sizeof(in));
	in.type = FKV_CLUSTER_PUSHED;
	in.pushed.op = 1;
	BAD(in.pushed.op, 0);
	BAD(in.pushed.res, -4096);
	BAD(in.pushed.bytes, FKV_VALUE_MAX + 1);
	memset(&in, 0, sizeof(in));
	in.type = FKV_CLUSTER_BYE;
	BAD(in.bye.text, long_text);
	memset(&in, 0, sizeof(in));
	in.type = FKV_CLUSTER_STAGE_READ;
	in.stage_read = (struct fkv_cluster_stage_read){
		.op = 1, .key = fkv_key_create("k", 1), .len = 1,
		.incarnation = 1 };
	BAD(in.stage_read.op, 0);
	BAD(in.stage_read.incarnation, 0);
	BAD(in.stage_read.len, 0);
	BAD(in.stage_read.len, FKV_VALUE_MAX + 1);
	BAD(in.stage_read.offset, 1);
	BAD(in.stage_read.offset, FKV_SEGMENT_MAX + 4096);
	BAD(in.stage_read.slot, FKV_CLUSTER_SLOTS_MAX);
	fkv_key_put(in.stage_read.key);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("cluster_unsent");
	TCase *tc = tcase_create("cluster_unsent");
	SRunner *sr = srunner_create(s);
	int failed;

	tcase_add_checked_fixture(tc, setup, NULL);
	tcase_add_test(tc, what_is_out_of_range_is_not_sent);
	tcase_add_test(tc,
		what_is_out_of_range_is_not_sent_of_the_others_either);
	suite_add_tcase(s, tc);
	srunner_run_all(sr, CK_NORMAL);
	failed = srunner_ntests_failed(sr);
	srunner_free(sr);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
