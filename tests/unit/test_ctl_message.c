// SPDX-License-Identifier: Apache-2.0
/*
 * test_ctl_message.c - what the kernel module tells, made by hand, well or not
 */
#include <check.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <linux/genetlink.h>
#include <linux/netlink.h>

#include "ctl/message.h"

#define ROOM	1024u
#define HEAD	(NLMSG_HDRLEN + GENL_HDRLEN)

static uint8_t msg[ROOM];
static uint32_t len;

static void begin(void)
{
	memset(msg, 0, sizeof(msg));
	len = HEAD;
}

static void attr(uint16_t type, const void *data, uint16_t n)
{
	struct nlattr a = {
		.nla_type = type,
		.nla_len = (uint16_t)(NLA_HDRLEN + n),
	};

	memcpy(msg + len, &a, sizeof(a));
	memcpy(msg + len + NLA_HDRLEN, data, n);
	len += NLA_HDRLEN + NLA_ALIGN(n);
}

static void attr_u8(uint16_t type, uint8_t v)
{
	attr(type, &v, 1);
}

static void attr_u32(uint16_t type, uint32_t v)
{
	attr(type, &v, 4);
}

static void attr_u64(uint16_t type, uint64_t v)
{
	attr(type, &v, 8);
}

/* Of memory that ends where the message ends, for tools that look there. */
static struct json_object *decode_as(const struct ctl_view *view,
				     uint32_t said)
{
	struct nlmsghdr *h = malloc(len);
	struct json_object *o;

	ck_assert_ptr_nonnull(h);
	memcpy(h, msg, len);
	h->nlmsg_len = said;
	o = ctl_message_object(view, h);
	free(h);
	return o;
}

static struct json_object *decode(const struct ctl_view *view)
{
	return decode_as(view, len);
}

static void is(struct json_object *o, const char *want)
{
	ck_assert_ptr_nonnull(o);
	ck_assert_str_eq(json_object_to_json_string_ext(
				 o, JSON_C_TO_STRING_PLAIN), want);
	json_object_put(o);
}

static const struct ctl_view all = { .only = "" };

/* U7 */
START_TEST(fields_have_their_names_and_order)
{
	begin();
	attr_u64(FLUXONKV_ATTR_AGE_NS, 3999999999ull);
	attr_u32(FLUXONKV_ATTR_HASH, 0xbeef);
	attr_u64(FLUXONKV_ATTR_BYTES, UINT64_MAX);
	attr_u32(FLUXONKV_ATTR_UID, 1000);
	attr_u32(FLUXONKV_ATTR_PID, 4000000);
	attr_u8(FLUXONKV_ATTR_ALIVE, 1);
	attr(FLUXONKV_ATTR_INSTANCE, "kv", 3);
	is(decode(&all), "{\"instance\":\"kv\",\"owner_alive\":true,"
	   "\"pid\":4000000,\"process\":null,\"uid\":1000,"
	   "\"bytes\":18446744073709551615,\"key_hash\":\"0000beef\","
	   "\"age_s\":3}");
}
END_TEST

START_TEST(events_have_names)
{
	static const char *const names[] = {
		[FLUXONKV_EVENT_SEGMENT_READY] = "segment-ready",
		[FLUXONKV_EVENT_OWNER_GONE] = "owner-gone",
		[FLUXONKV_EVENT_CLIENT] = "client",
		[FLUXONKV_EVENT_CLIENT_GONE] = "client-gone",
	};
	char want[64];

	for (uint32_t i = 0; i < 6; i++) {
		const char *name = i < sizeof(names) / sizeof(names[0]) ?
				   names[i] : NULL;

		snprintf(want, sizeof(want), "{\"event\":\"%s\"}",
			 name ? name : "unknown");
		begin();
		attr_u32(FLUXONKV_ATTR_EVENT, i);
		is(decode(&all), want);
	}
	begin();
	attr_u32(FLUXONKV_ATTR_EVENT, UINT32_MAX);
	is(decode(&all), "{\"event\":\"unknown\"}");
}
END_TEST

START_TEST(only_the_instance_that_is_asked_for)
{
	static const struct ctl_view kv = { .only = "kv" };

	begin();
	attr(FLUXONKV_ATTR_INSTANCE, "kv", 3);
	is(decode(&kv), "{\"instance\":\"kv\"}");
	begin();
	attr(FLUXONKV_ATTR_INSTANCE, "kv2", 4);
	ck_assert_ptr_null(decode(&kv));
	begin();
	attr(FLUXONKV_ATTR_INSTANCE, "k", 2);
	ck_assert_ptr_null(decode(&kv));
	begin();
	attr_u64(FLUXONKV_ATTR_BYTES, 1);
	ck_assert_ptr_null(decode(&kv));
	/* without its end it is no name, but is shown */
	begin();
	attr(FLUXONKV_ATTR_INSTANCE, "kv", 2);
	ck_assert_ptr_null(decode(&kv));
	is(decode(&all), "{\"instance\":\"kv\"}");
}
END_TEST

START_TEST(incarnation_is_for_programs)
{
	static const struct ctl_view wide = { .wide = true };

	begin();
	attr_u64(FLUXONKV_ATTR_INCARNATION, 77);
	is(decode(&all), "{}");
	is(decode(&wide), "{\"incarnation\":77}");
}
END_TEST

/* In a container, the host's numbers would name others. */
START_TEST(process_has_a_name_where_pids_are_the_hosts)
{
	static const struct ctl_view host = { .host_pids = true };
	struct json_object *o, *name;

	ck_assert_int_eq(prctl(PR_SET_NAME, "some name"), 0);
	begin();
	attr_u32(FLUXONKV_ATTR_PID, (uint32_t)getpid());
	o = decode(&host);
	ck_assert(json_object_object_get_ex(o, "process", &name));
	ck_assert_str_eq(json_object_get_string(name), "some name");
	json_object_put(o);
	o = decode(&all);
	ck_assert(json_object_object_get_ex(o, "process", &name));
	ck_assert_ptr_null(name);
	json_object_put(o);
}
END_TEST

/* A later kernel's: wider, or more of them. */
START_TEST(numbers_may_be_of_another_width)
{
	begin();
	attr_u8(FLUXONKV_ATTR_BYTES, 1);
	attr_u32(FLUXONKV_ATTR_HITS, 2);
	attr_u64(FLUXONKV_ATTR_UID, 3);
	attr_u64(FLUXONKV_ATTR_MAX + 1, 4);
	attr_u64(0x3fff, 5);
	is(decode(&all), "{\"uid\":3,\"bytes\":1,\"hits\":2}");
}
END_TEST

START_TEST(what_is_no_number_is_left_out)
{
	static const uint8_t bytes[16] = { 1, 2, 3 };

	for (uint16_t n = 0; n <= sizeof(bytes); n++) {
		if (n == 1 || n == 4 || n == 8)
			continue;
		begin();
		attr(FLUXONKV_ATTR_BYTES, bytes, n);
		attr(FLUXONKV_ATTR_PID, bytes, n);
		attr(FLUXONKV_ATTR_HASH, bytes, n);
		attr(FLUXONKV_ATTR_EVENT, bytes, n);
		attr(FLUXONKV_ATTR_ALIVE, bytes, n);
		attr(FLUXONKV_ATTR_AGE_NS, bytes, n);
		attr_u32(FLUXONKV_ATTR_UID, 3);
		is(decode(&all), "{\"uid\":3}");
	}
}
END_TEST

START_TEST(empty_text_is_empty)
{
	begin();
	attr(FLUXONKV_ATTR_INSTANCE, "", 0);
	is(decode(&all), "{\"instance\":\"\"}");
	begin();
	is(decode(&all), "{}");
}
END_TEST

START_TEST(message_without_a_head_is_none)
{
	begin();
	attr_u32(FLUXONKV_ATTR_UID, 3);
	for (uint32_t n = 0; n < HEAD; n++)
		ck_assert_ptr_null(decode_as(&all, n));
}
END_TEST

/* An attribute's length goes past the message's end, or is less than itself. */
START_TEST(attribute_of_a_wrong_length_ends_the_message)
{
	static const uint16_t lens[] = { 0, 1, 3, 13, 100, 0xffff };

	for (size_t i = 0; i < sizeof(lens) / sizeof(lens[0]); i++) {
		begin();
		attr_u32(FLUXONKV_ATTR_UID, 3);
		attr_u64(FLUXONKV_ATTR_BYTES, 4);
		memcpy(msg + HEAD + 8, &lens[i], 2);
		is(decode(&all), "{\"uid\":3}");
	}
	/* cut anywhere */
	begin();
	attr_u32(FLUXONKV_ATTR_UID, 3);
	attr_u64(FLUXONKV_ATTR_BYTES, 4);
	for (uint32_t n = HEAD + 8; n < HEAD + 20; n++) {
		uint32_t whole = len;

		len = n;
		is(decode(&all), "{\"uid\":3}");
		len = whole;
	}
}
END_TEST

START_TEST(last_of_two_counts)
{
	begin();
	attr_u32(FLUXONKV_ATTR_UID, 3);
	attr_u32(FLUXONKV_ATTR_UID, 4);
	is(decode(&all), "{\"uid\":4}");
}
END_TEST

/* Any bytes are an object or none, and are read to their end at most. */
START_TEST(random_bytes_do_no_harm)
{
	static const struct ctl_view wide = { .wide = true };
	uint32_t seed = 1;

	for (uint32_t round = 0; round < 20000; round++) {
		struct json_object *o;

		begin();
		attr_u32(FLUXONKV_ATTR_UID, 3);
		attr(FLUXONKV_ATTR_INSTANCE, "kv", 3);
		attr_u64(FLUXONKV_ATTR_BYTES, 4);
		for (uint32_t i = 0; i < 1 + round % 8; i++) {
			seed = seed * 1664525 + 1013904223;
			msg[HEAD + (seed >> 8) % (len - HEAD)] =
				(uint8_t)(seed >> 24);
		}
		o = decode(&wide);
		ck_assert_ptr_nonnull(o);
		json_object_put(o);
	}
}
END_TEST

int main(void)
{
	Suite *s = suite_create("ctl_message");
	TCase *tc = tcase_create("ctl_message");
	SRunner *sr;
	int failed;

	tcase_add_test(tc, fields_have_their_names_and_order);
	tcase_add_test(tc, events_have_names);
	tcase_add_test(tc, only_the_instance_that_is_asked_for);
	tcase_add_test(tc, incarnation_is_for_programs);
	tcase_add_test(tc, process_has_a_name_where_pids_are_the_hosts);
	tcase_add_test(tc, numbers_may_be_of_another_width);
	tcase_add_test(tc, what_is_no_number_is_left_out);
	tcase_add_test(tc, empty_text_is_empty);
	tcase_add_test(tc, message_without_a_head_is_none);
	tcase_add_test(tc, attribute_of_a_wrong_length_ends_the_message);
	tcase_add_test(tc, last_of_two_counts);
	tcase_add_test(tc, random_bytes_do_no_harm);
	suite_add_tcase(s, tc);
	sr = srunner_create(s);
	srunner_run_all(sr, CK_NORMAL);
	failed = srunner_ntests_failed(sr);
	srunner_free(sr);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
