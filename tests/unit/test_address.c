// SPDX-License-Identifier: Apache-2.0
#include <arpa/inet.h>
#include <check.h>
#include <errno.h>
#include <stdlib.h>

#include "io/rpc.h"
#include "svc/address.h"

static char err[200];

static uint16_t port_of(const struct sockaddr_storage *at)
{
	return ntohs(at->ss_family == AF_INET6 ?
		     ((const struct sockaddr_in6 *)at)->sin6_port :
		     ((const struct sockaddr_in *)at)->sin_port);
}

static void is_good(const char *text, int family, uint16_t rpc, uint16_t data)
{
	struct sockaddr_storage r, d;

	ck_assert_msg(!fkv_address_parse(text, &r, &d), "'%s' refused", text);
	ck_assert_int_eq(r.ss_family, family);
	ck_assert_int_eq(d.ss_family, family);
	ck_assert_uint_eq(port_of(&r), rpc);
	ck_assert_uint_eq(port_of(&d), data);
}

START_TEST(what_is_printed_is_parsed)
{
	struct sockaddr_storage at;
	char buf[FKV_ADDRESS_MAX];

	ck_assert_int_eq(fkv_rpc_address("127.0.0.1:0", &at), 0);
	ck_assert_int_eq(fkv_address_print(&at, NULL, 7, 65535, buf), 0);
	ck_assert_str_eq(buf, "127.0.0.1:7/65535");
	is_good(buf, AF_INET, 7, 65535);
	ck_assert_int_eq(fkv_address_print(&at, "fe80::1", 7, 8, buf), 0);
	ck_assert_str_eq(buf, "[fe80::1]:7/8");
	is_good(buf, AF_INET6, 7, 8);
}
END_TEST

static const char long_port[] =
	"127.0.0.1:00000000000000000000000000000000000000000000000000"
	"0000000000000000000000000000000000000000000000000007/8";

/* what a member says of itself is not believed */
START_TEST(an_address_that_is_none_is_refused)
{
	static const char *const bad[] = {
		"", "127.0.0.1:7", "127.0.0.1/7", "127.0.0.1:7/", ":7/8",
		"127.0.0.1:7/x", "127.0.0.1:7/0", "127.0.0.1:7/65536",
		"127.0.0.1:7/8 ", "host:7/8", "127.0.0.1:x/8", "127.0.0.1:7/-1",
		long_port,
	};
	struct sockaddr_storage r, d;

	for (size_t i = 0; i < FKV_ARRAY_SIZE(bad); i++)
		ck_assert_msg(fkv_address_parse(bad[i], &r, &d) == -EINVAL,
			      "'%s' taken", bad[i]);
	ck_assert_int_eq(fkv_address_parse(NULL, &r, &d), -EINVAL);
}
END_TEST

START_TEST(payload_has_the_port_after_and_any_stays_any)
{
	struct sockaddr_storage at, data;

	ck_assert_int_eq(fkv_rpc_address("127.0.0.1:7000", &at), 0);
	data = fkv_address_data(&at);
	ck_assert_uint_eq(port_of(&data), 7001);
	ck_assert_int_eq(fkv_rpc_address("[::1]:0", &at), 0);
	data = fkv_address_data(&at);
	ck_assert_uint_eq(port_of(&data), 0);
}
END_TEST

START_TEST(a_name_is_looked_up_and_one_that_is_none_is_named)
{
	struct sockaddr_storage at;

	ck_assert_int_eq(fkv_address_find("localhost:7000", &at, err,
					  sizeof(err)), 0);
	ck_assert_uint_eq(port_of(&at), 7000);
	ck_assert_int_eq(fkv_address_find("no.such.host.invalid:7", &at, err,
					  sizeof(err)), -EHOSTUNREACH);
	ck_assert_ptr_nonnull(strstr(err, "no.such.host.invalid:7"));
}
END_TEST

int main(void)
{
	Suite *s = suite_create("address");
	TCase *tc = tcase_create("address");
	SRunner *sr = srunner_create(s);
	int failed;

	tcase_add_test(tc, what_is_printed_is_parsed);
	tcase_add_test(tc, an_address_that_is_none_is_refused);
	tcase_add_test(tc, payload_has_the_port_after_and_any_stays_any);
	tcase_add_test(tc, a_name_is_looked_up_and_one_that_is_none_is_named);
	suite_add_tcase(s, tc);
	srunner_run_all(sr, CK_NORMAL);
	failed = srunner_ntests_failed(sr);
	srunner_free(sr);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
