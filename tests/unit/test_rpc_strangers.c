// SPDX-License-Identifier: Apache-2.0
/*
 * test_rpc_strangers.c - those who have no key, or break the rules with it
 */
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "wire/bytes.h"

#include "rpc_driver.h"

/* ---- a plain socket against the acceptor ---- */

static struct fkv_auth auth;
static struct fkv_auth_self raw_self;
static uint8_t raw_buf[FKV_FRAME_MAX + 64];

static int raw_connect(void)
{
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	ck_assert_int_eq(connect(fd, (struct sockaddr *)&at,
				 sizeof(struct sockaddr_in)), 0);
	fcntl(fd, F_SETFL, O_NONBLOCK);
	return fd;
}

static bool raw_write(int fd, const void *data, size_t n)
{
	const uint8_t *p = data;

	while (n) {
		ssize_t k = send(fd, p, n, MSG_NOSIGNAL);

		if (k > 0) {
			p += k;
			n -= (size_t)k;
		} else if (errno != EAGAIN) {
			return false;
		}
		spin();
	}
	return true;
}

static bool raw_frame(int fd, const void *data, size_t n)
{
	uint8_t head[4];

	fkv_put32(head, (uint32_t)n);
	return raw_write(fd, head, 4) && raw_write(fd, data, n);
}

/* Bytes that have come; -1: closed, with nothing before. */
static ssize_t raw_read(int fd, void *to, size_t n)
{
	ssize_t k = -2;

	wait_for((k = recv(fd, to, n, 0)) >= 0 || errno != EAGAIN);
	return k > 0 ? k : -1;
}

static void raw_closed(int fd)
{
	while (raw_read(fd, raw_buf, sizeof(raw_buf)) > 0)
		;
	close(fd);
}

static size_t raw_frame_in(int fd)
{
	size_t have = 0, want = 4;

	while (have < want) {
		ssize_t k = raw_read(fd, raw_buf + have, want - have);

		ck_assert_int_gt(k, 0);
		have += (size_t)k;
		if (have == 4)
			want = 4 + fkv_get32(raw_buf);
	}
	return want - 4;
}

static struct fkv_auth_out hello, proof;

/* A stranger with the key: the handshake by hand. */
static int raw_open(void)
{
	uint8_t random[FKV_AUTH_RANDOM];
	struct fkv_auth_out in;
	const char *why;
	int fd = raw_connect();

	memset(random, 7, sizeof(random));
	raw_self = (struct fkv_auth_self){ key, "test", "raw", 99 };
	ck_assert_int_eq(fkv_auth_init(&auth, &raw_self, true, random, &hello),
			 0);
	ck_assert(raw_frame(fd, hello.data, hello.len));
	in.len = raw_frame_in(fd);
	ck_assert_int_eq(fkv_auth_input(&auth, raw_buf + 4, in.len, &proof,
					&why), 0);
	ck_assert(raw_frame(fd, proof.data, proof.len));
	return fd;
}

static bool raw_sealed(int fd, const void *data, size_t n)
{
	uint8_t *f = malloc(n + FKV_AUTH_SEAL);
	bool ok;

	memcpy(f, data, n);
	fkv_auth_seal(&auth, f, n);
	ok = raw_frame(fd, f, n + FKV_AUTH_SEAL);
	free(f);
	return ok;
}

static void raw_session_hello(int fd)
{
	uint8_t f[33] = { FKV_RPC_SESSION, 1, 1 };

	fkv_put64(f + 1 + 8, 99);
	fkv_put64(f + 1 + 16, 3);
	ck_assert(raw_sealed(fd, f, sizeof(f)));
}

/* A23: each costs only itself */
START_TEST(garbage_is_closed_and_answered_with_nothing)
{
	static const char *const texts[] = {
		"GET / HTTP/1.1\r\nHost: x\r\n\r\n", "\x01\x00\x00\x00z",
		"\x00\x00\x00\x00", "\xff\xff\xff\xff", "SSH-2.0-x\r\n",
		"\x20\x00\x00\x00" "\x01" "FKV.............................",
	};
	static const size_t lens[] = { 27, 5, 4, 4, 11, 36 };
	uint32_t seed = 1;

	meet();
	for (size_t i = 0; i < FKV_ARRAY_SIZE(texts); i++) {
		int fd = raw_connect();

		raw_write(fd, texts[i], lens[i]);
		ck_assert_int_eq(raw_read(fd, raw_buf, 1), -1);
		close(fd);
	}
	for (int i = 0; i < 300; i++) {
		uint8_t junk[700];
		int fd = raw_connect();

		for (size_t j = 0; j < sizeof(junk); j++)
			junk[j] = (uint8_t)((seed = seed * 1103515245 + 12345) >>
					    16);
		/* half of them of a length that a handshake may have */
		if (i % 2)
			fkv_put32(junk, 600);
		raw_write(fd, junk, sizeof(junk));
		ck_assert_int_eq(raw_read(fd, raw_buf, 1), -1);
		close(fd);
	}
	served();
	ck_assert_uint_eq(d.downs, 0);
	wait_for(stats(&a).connections == 1);
	ck_assert_uint_ge(stats(&a).refused, 300);
}
END_TEST

START_TEST(slow_strangers_do_not_keep_others_out)
{
	int fds[3 * FKV_RPC_STRANGERS_MAX];

	for (size_t i = 0; i < FKV_ARRAY_SIZE(fds); i++) {
		fds[i] = raw_connect();
		raw_write(fds[i], "\x40", 1);
	}
	wait_for(stats(&a).accepted == FKV_ARRAY_SIZE(fds));
	ck_assert_uint_le(stats(&a).strangers, FKV_RPC_STRANGERS_MAX);
	meet();
	served();
	/* and those that remain have their time, and no more */
	wait_for(!stats(&a).strangers);
	for (size_t i = 0; i < FKV_ARRAY_SIZE(fds); i++)
		raw_closed(fds[i]);
	served();
	ck_assert_uint_eq(d.downs, 0);
}
END_TEST

/* One byte at a time keeps a connection busy, and does not keep it. */
START_TEST(a_handshake_that_trickles_in_is_closed_in_time)
{
	uint64_t began = fkv_clock_ns();
	int fd = raw_connect();
	struct pollfd p = { .fd = fd, .events = POLLIN };
	uint8_t bytes[8] = { 200 };
	size_t n = 0;

	while (poll(&p, 1, 0) == 0) {
		ck_assert_uint_lt(fkv_clock_ns() - began, GUARD_NS);
		send(fd, bytes + n, n < sizeof(bytes) ? 1 : 0, MSG_NOSIGNAL);
		n++;
		spin();
	}
	ck_assert_uint_ge(fkv_clock_ns() - began, times.handshake_ns);
	ck_assert_uint_lt(fkv_clock_ns() - began, times.handshake_ns +
			  500 * FKV_MS);
	raw_closed(fd);
}
END_TEST

START_TEST(a_wrong_key_is_met_with_silence)
{
	struct fkv_rpc_config cfg = config(&d, "owner", 11);
	uint8_t other[FKV_AUTH_KEY] = { 1 };

	stop(&d);
	cfg.self.key = other;
	ck_assert_int_eq(fkv_rpc_create(loop, &cfg, &d.rpc), 0);
	dial();
	wait_for(stats(&a).refused >= 3);
	ck_assert_uint_eq(a.ups + d.ups, 0);
	/* nor is a node that listens with none talked to by one with a key */
	stop(&d);
	cfg.self.key = NULL;
	ck_assert_int_eq(fkv_rpc_create(loop, &cfg, &d.rpc), 0);
	dial();
	wait_for(stats(&a).refused >= 6);
	ck_assert_uint_eq(a.ups + d.ups, 0);
}
END_TEST

START_TEST(a_recorded_handshake_is_refused)
{
	int fd = raw_open();

	wait_for(stats(&a).peers == 1);
	close(fd);
	fd = raw_connect();
	ck_assert(raw_frame(fd, hello.data, hello.len));
	ck_assert_uint_gt(raw_frame_in(fd), 0);
	ck_assert(raw_frame(fd, proof.data, proof.len));
	ck_assert_int_eq(raw_read(fd, raw_buf, 1), -1);
	close(fd);
	ck_assert_uint_eq(a.ups, 0);
}
END_TEST

START_TEST(one_with_the_key_that_breaks_the_protocol_costs_itself)
{
	static const struct {
		uint8_t bytes[20];
		size_t len;
	} bad[] = {
		{ { 9 }, 1 }, { { 0 }, 1 },
		/* a request before the session, or too short */
		{ { FKV_RPC_REQUEST }, 1 },
		{ { FKV_RPC_REPLY }, 1 },
		{ { FKV_RPC_REPLY, 0, 0, 0, 5 }, 16 },
		{ { FKV_RPC_SESSION, 2 }, 2 },
		{ { FKV_RPC_SESSION }, 1 },
		{ { FKV_RPC_REFUSED }, 8 },
	};
	uint8_t length[4] = { 0xff, 0xff, 0x10, 0 };
	int fd;

	meet();
	for (size_t i = 0; i < FKV_ARRAY_SIZE(bad); i++) {
		fd = raw_open();
		raw_sealed(fd, bad[i].bytes, bad[i].len);
		raw_closed(fd);
	}
	/* over 1 MiB, a seal that does not fit, nothing in it */
	fd = raw_open();
	raw_write(fd, length, 4);
	raw_closed(fd);
	fd = raw_open();
	raw_frame(fd, "nothing that was ever sealed", 28);
	raw_closed(fd);
	fd = raw_open();
	raw_sealed(fd, "", 0);
	raw_closed(fd);
	/* at once, not because nothing more was heard */
	ck_assert_uint_eq(stats(&a).silent, 0);
	served();
	ck_assert_uint_eq(d.downs, 0);
}
END_TEST

/* It asks for megabytes and does not read them. */
START_TEST(one_that_does_not_read_is_not_read_from_and_given_up)
{
	uint8_t request[24] = { FKV_RPC_REQUEST };
	struct fkv_rpc_conn *c;
	int fd = raw_open();
	uint64_t most = 0;

	a.reply_len = 512 * 1024;
	fkv_put64(request + 16, FKV_NEVER);
	raw_session_hello(fd);
	wait_for(a.ups == 1);
	c = a.peer->conn;
	for (int i = 0; i < 100 && a.downs == 0; i++) {
		fkv_put64(request + 8, (uint64_t)i);
		raw_sealed(fd, request, sizeof(request));
		if (a.downs == 0)
			most = fkv_max_u64(most, c->tx_bytes);
	}
	ck_assert_uint_gt(most, FKV_RPC_TX_MAX / 2);
	ck_assert_uint_le(most, FKV_RPC_TX_MAX);
	ck_assert_uint_lt(a.requests, 100);
	wait_for(a.downs == 1);
	ck_assert_uint_eq(stats(&a).silent, 1);
	close(fd);
	a.reply_len = 0;
	a.ups = 0;
	meet();
	served();
}
END_TEST

/* ---- addresses, key, backoff ---- */

START_TEST(without_a_key_only_loopback_is_met)
{
	static const struct {
		const char *text;
		int err;
	} cases[] = {
		{ "127.0.0.1:0", 0 }, { "127.9.9.9:0", 0 }, { "[::1]:0", 0 },
		{ "0.0.0.0:0", -EACCES }, { "10.0.0.1:7", -EACCES },
		{ "[::]:0", -EACCES }, { "[fe80::1]:7", -EACCES },
		{ "[::ffff:10.0.0.1]:7", -EACCES },
	};
	struct fkv_rpc_config cfg = config(&d, "open", 1);
	struct sockaddr_storage ss;
	struct fkv_rpc_peer *p;

	cfg.self.key = NULL;
	for (size_t i = 0; i < FKV_ARRAY_SIZE(cases); i++) {
		int err;

		stop(&d);
		ck_assert_int_eq(fkv_rpc_create(loop, &cfg, &d.rpc), 0);
		ck_assert_int_eq(fkv_rpc_address(cases[i].text, &ss), 0);
		err = fkv_rpc_listen(d.rpc, (struct sockaddr *)&ss);
		/* there may be no IPv6 here */
		if (err != -EADDRNOTAVAIL && err != -EAFNOSUPPORT)
			ck_assert_int_eq(err, cases[i].err);
		ck_assert_int_eq(fkv_rpc_dial(d.rpc, (struct sockaddr *)&ss,
					      &p), cases[i].err);
	}
}
END_TEST

START_TEST(addresses_are_numbers_and_a_port)
{
	static const char *const bad[] = {
		"", ":", "1.2.3.4", "1.2.3.4:", "1.2.3.4:x", "1.2.3.4:65536",
		"1.2.3.4:-1", "1.2.3:1", "host:1", "::1:1", "[::1]", "[::1:1",
		"[::1]:", "[]:1", "1.2.3.4:1x", ":1",
	};
	struct sockaddr_storage ss;

	for (size_t i = 0; i < FKV_ARRAY_SIZE(bad); i++)
		ck_assert_msg(fkv_rpc_address(bad[i], &ss) == -EINVAL, "%s",
			      bad[i]);
	ck_assert_int_eq(fkv_rpc_address("1.2.3.4:65535", &ss), 0);
	ck_assert_int_eq(ntohs(((struct sockaddr_in *)&ss)->sin_port), 65535);
	ck_assert_int_eq(fkv_rpc_address("[fd00::1]:1", &ss), 0);
	ck_assert_int_eq(ss.ss_family, AF_INET6);
}
END_TEST

START_TEST(backoff_doubles_to_its_limit_and_half_of_it_is_chance)
{
	const struct fkv_rpc_times t = {
		.backoff_min_ns = 50 * FKV_MS, .backoff_max_ns = FKV_SEC,
	};
	uint64_t want = 50 * FKV_MS;

	for (uint32_t tries = 0; tries < 100; tries++) {
		ck_assert_uint_eq(fkv_rpc_backoff_ns(&t, tries, 0), want / 2);
		ck_assert_uint_eq(fkv_rpc_backoff_ns(&t, tries, UINT32_MAX),
				  want);
		want = fkv_min_u64(want * 2, FKV_SEC);
	}
	ck_assert_uint_lt(fkv_rpc_backoff_ns(&t, 9, 1u << 31), FKV_SEC);
}
END_TEST

static void key_file(const char *path, const char *text, mode_t mode)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

	ck_assert_int_ge(fd, 0);
	ck_assert_int_eq(write(fd, text, strlen(text)), strlen(text));
	close(fd);
	ck_assert_int_eq(chmod(path, mode), 0);
}

START_TEST(a_key_that_others_may_read_is_refused)
{
	static const char hex[] = "00112233445566778899aabbccddeeff"
				  "00112233445566778899aabbccddeeff\n";
	char path[] = "/tmp/fkv-key-XXXXXX", err[200];
	uint8_t got[FKV_AUTH_KEY];

	close(mkstemp(path));
	key_file(path, hex, 0600);
	ck_assert_int_eq(fkv_rpc_key_read(path, got, err, sizeof(err)), 0);
	ck_assert_uint_eq(got[1], 0x11);
	key_file(path, hex, 0400);
	ck_assert_int_eq(fkv_rpc_key_read(path, got, err, sizeof(err)), 0);
	for (mode_t bit = 0100; bit; bit >>= 1) {
		key_file(path, hex, 0600);
		chmod(path, 0600 | bit);
		ck_assert_int_eq(fkv_rpc_key_read(path, got, err, sizeof(err)),
				 -EPERM);
		ck_assert_ptr_nonnull(strstr(err, "0600"));
		chmod(path, 0600);
	}
	key_file(path, "short\n", 0600);
	ck_assert_int_eq(fkv_rpc_key_read(path, got, err, sizeof(err)),
			 -EINVAL);
	ck_assert_ptr_nonnull(strstr(err, "hexadecimal"));
	key_file(path, "", 0600);
	ck_assert_int_eq(fkv_rpc_key_read(path, got, err, sizeof(err)),
			 -EINVAL);
	unlink(path);
	ck_assert_int_eq(fkv_rpc_key_read(path, got, err, sizeof(err)),
			 -ENOENT);
	ck_assert_ptr_nonnull(strstr(err, path));
	ck_assert_int_eq(mkfifo(path, 0600), 0);
	ck_assert_int_eq(fkv_rpc_key_read(path, got, err, sizeof(err)),
			 -EINVAL);
	unlink(path);
}
END_TEST

START_TEST(a_node_needs_a_name_a_cluster_and_a_life)
{
	struct fkv_rpc_config cfg = config(&d, "x", 1);
	struct fkv_rpc *r;

	cfg.self.name = "";
	ck_assert_int_eq(fkv_rpc_create(loop, &cfg, &r), -EINVAL);
	cfg = config(&d, "x", 0);
	ck_assert_int_eq(fkv_rpc_create(loop, &cfg, &r), -EINVAL);
	cfg = config(&d, "x", 1);
	cfg.self.cluster = NULL;
	ck_assert_int_eq(fkv_rpc_create(loop, &cfg, &r), -EINVAL);
}
END_TEST

static void add_tests(TCase *tc)
{
	tcase_add_test(tc, garbage_is_closed_and_answered_with_nothing);
	tcase_add_test(tc, slow_strangers_do_not_keep_others_out);
	tcase_add_test(tc, a_handshake_that_trickles_in_is_closed_in_time);
	tcase_add_test(tc, a_wrong_key_is_met_with_silence);
	tcase_add_test(tc, a_recorded_handshake_is_refused);
	tcase_add_test(tc,
		one_with_the_key_that_breaks_the_protocol_costs_itself);
	tcase_add_test(tc,
		one_that_does_not_read_is_not_read_from_and_given_up);
	tcase_add_test(tc, without_a_key_only_loopback_is_met);
	tcase_add_test(tc, addresses_are_numbers_and_a_port);
	tcase_add_test(tc,
		backoff_doubles_to_its_limit_and_half_of_it_is_chance);
	tcase_add_test(tc, a_key_that_others_may_read_is_refused);
	tcase_add_test(tc, a_node_needs_a_name_a_cluster_and_a_life);
}

int main(void)
{
	Suite *s = suite_create("rpc_strangers");
	TCase *tc = tcase_create("rpc_strangers");
	SRunner *sr = srunner_create(s);
	int failed;

	tcase_add_checked_fixture(tc, rpc_setup, rpc_teardown);
	tcase_set_timeout(tc, 120);
	add_tests(tc);
	suite_add_tcase(s, tc);
	srunner_run_all(sr, CK_NORMAL);
	failed = srunner_ntests_failed(sr);
	srunner_free(sr);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
