// SPDX-License-Identifier: Apache-2.0
#include <check.h>
#include <sodium.h>
#include <stdlib.h>

#include "wire/auth.h"
#include "wire/bytes.h"

#define MAC	32

/* One that dials, D, and one that accepts, A, with what each has last said. */
static uint8_t key_d[FKV_AUTH_KEY], key_a[FKV_AUTH_KEY];
static struct fkv_auth_self self_d, self_a;
static struct fkv_auth d, a;
static struct fkv_auth_out out_d, out_a;
static const char *why;
static uint8_t round_nr;

/* Fresh bytes for each handshake, the same in each run. */
static void begin(void)
{
	uint8_t random[FKV_AUTH_RANDOM];

	memset(random, ++round_nr, sizeof(random));
	random[0] = 1;
	ck_assert_int_eq(fkv_auth_init(&d, &self_d, true, random, &out_d), 0);
	random[0] = 2;
	ck_assert_int_eq(fkv_auth_init(&a, &self_a, false, random, &out_a), 0);
	ck_assert_uint_eq(out_a.len, 0);
}

static int to_a(const struct fkv_auth_out *m)
{
	uint8_t *exact = malloc(m->len + 1);
	int err;

	memcpy(exact, m->data, m->len);
	why = NULL;
	err = fkv_auth_input(&a, exact, m->len, &out_a, &why);
	ck_assert(!err || why);
	free(exact);
	return err;
}

static int to_d(const struct fkv_auth_out *m)
{
	uint8_t *exact = malloc(m->len + 1);
	int err;

	memcpy(exact, m->data, m->len);
	why = NULL;
	err = fkv_auth_input(&d, exact, m->len, &out_d, &why);
	ck_assert(!err || why);
	free(exact);
	return err;
}

static void setup(void)
{
	round_nr = 0;
	memset(key_d, 0x5a, sizeof(key_d));
	memset(key_a, 0x5a, sizeof(key_a));
	self_d = (struct fkv_auth_self){ key_d, "prod", "owner-7", 77 };
	self_a = (struct fkv_auth_self){ key_a, "prod", "master-1", 3 };
	begin();
}

static void shake(void)
{
	ck_assert_int_eq(to_a(&out_d), 0);
	ck_assert_int_eq(a.state, FKV_AUTH_PROOF);
	ck_assert_int_eq(to_d(&out_a), 0);
	ck_assert_int_eq(d.state, FKV_AUTH_OPEN);
	ck_assert_int_eq(to_a(&out_d), 0);
	ck_assert_int_eq(a.state, FKV_AUTH_OPEN);
	ck_assert_uint_eq(out_a.len, 0);
}

/* A frame of @n bytes from one to the other arrives as it was. */
static void say(struct fkv_auth *from, struct fkv_auth *to, size_t n)
{
	uint8_t *frame = malloc(n + FKV_AUTH_SEAL), *was = malloc(n + 1);
	size_t len;

	for (size_t i = 0; i < n; i++)
		was[i] = frame[i] = (uint8_t)(i * 7 + n);
	fkv_auth_seal(from, frame, n);
	ck_assert(n < 16 || memcmp(frame, was, n));
	ck_assert_int_eq(fkv_auth_open(to, frame, n + FKV_AUTH_SEAL, &len), 0);
	ck_assert_uint_eq(len, n);
	ck_assert_mem_eq(frame, was, n);
	free(frame);
	free(was);
}

/* T3 */
START_TEST(two_with_one_key_know_each_other)
{
	shake();
	ck_assert_str_eq(d.peer_name, "master-1");
	ck_assert_uint_eq(d.peer_incarnation, 3);
	ck_assert_str_eq(a.peer_name, "owner-7");
	ck_assert_uint_eq(a.peer_incarnation, 77);
	for (size_t n = 0; n < 300; n++) {
		say(&d, &a, n);
		say(&a, &d, n);
	}
	/* what would let a later thief read this is gone */
	ck_assert(sodium_is_zero(d.secret, sizeof(d.secret)));
	ck_assert(sodium_is_zero(a.secret, sizeof(a.secret)));
	ck_assert(sodium_is_zero(a.proof, sizeof(a.proof)));
	fkv_auth_done(&d);
	ck_assert(sodium_is_zero(d.tx_key, sizeof(d.tx_key)));
	ck_assert(sodium_is_zero(d.rx_key, sizeof(d.rx_key)));
}
END_TEST

START_TEST(the_longest_names_fit)
{
	static char cluster[257], name[257];

	memset(cluster, 'c', 255);
	memset(name, 'n', 255);
	self_d.cluster = self_a.cluster = cluster;
	self_d.name = self_a.name = name;
	begin();
	shake();
	ck_assert_str_eq(a.peer_name, name);
	name[255] = 'n';
	ck_assert_int_eq(fkv_auth_init(&d, &self_d, true, key_d, &out_d),
			 -EINVAL);
	self_d.name = "";
	ck_assert_int_eq(fkv_auth_init(&d, &self_d, true, key_d, &out_d),
			 -EINVAL);
	self_d = (struct fkv_auth_self){ key_d, "prod", "x", 0 };
	ck_assert_int_eq(fkv_auth_init(&d, &self_d, true, key_d, &out_d),
			 -EINVAL);
}
END_TEST

START_TEST(a_wrong_key_gets_no_answer)
{
	for (size_t i = 0; i < FKV_AUTH_KEY; i++) {
		key_d[i] ^= 1;
		begin();
		ck_assert_int_eq(to_a(&out_d), -EACCES);
		ck_assert_uint_eq(out_a.len, 0);
		ck_assert_int_eq(a.state, FKV_AUTH_FAILED);
		key_d[i] ^= 1;
	}
	/* nor does one without any */
	self_d.key = NULL;
	begin();
	ck_assert_int_eq(to_a(&out_d), -EACCES);
	ck_assert_uint_eq(out_a.len, 0);
}
END_TEST

/* One who has no key answers a hello with an X25519 key of his own. */
START_TEST(an_acceptor_without_the_key_is_found_out)
{
	uint8_t secret[32];

	ck_assert_int_eq(to_a(&out_d), 0);
	memset(secret, 4, sizeof(secret));
	crypto_scalarmult_base(out_a.data + 16, secret);
	randombytes_buf(out_a.data + out_a.len - MAC, MAC);
	ck_assert_int_eq(to_d(&out_a), -EACCES);
	ck_assert_uint_eq(out_d.len, 0);
	ck_assert_int_eq(d.state, FKV_AUTH_FAILED);
}
END_TEST

/* Each bit of each message: nobody may come to trust, nor crash. */
START_TEST(a_flipped_bit_anywhere_is_refused)
{
	size_t lens[3];
	bool open;

	shake();
	begin();
	lens[0] = out_d.len;
	ck_assert_int_eq(to_a(&out_d), 0);
	lens[1] = out_a.len;
	ck_assert_int_eq(to_d(&out_a), 0);
	lens[2] = out_d.len;
	for (int message = 0; message < 3; message++) {
		for (size_t bit = 0; bit < lens[message] * 8; bit++) {
			uint8_t flip = (uint8_t)(1u << bit % 8);

			begin();
			if (message == 0)
				out_d.data[bit / 8] ^= flip;
			if (to_a(&out_d))
				goto refused;
			if (message == 1)
				out_a.data[bit / 8] ^= flip;
			if (to_d(&out_a))
				goto refused;
			if (message == 2)
				out_d.data[bit / 8] ^= flip;
			to_a(&out_d);
refused:
			open = a.state == FKV_AUTH_OPEN;
			ck_assert(!open);
			ck_assert(message == 2 || d.state != FKV_AUTH_OPEN);
			ck_assert(message != 0 || !out_a.len);
		}
	}
}
END_TEST

START_TEST(a_message_that_is_cut_or_longer_is_refused)
{
	struct fkv_auth_out m;

	for (int message = 0; message < 3; message++) {
		for (size_t len = 0; len <= FKV_AUTH_MSG_MAX; len++) {
			size_t was;

			begin();
			if (message > 0)
				ck_assert_int_eq(to_a(&out_d), 0);
			if (message > 1)
				ck_assert_int_eq(to_d(&out_a), 0);
			m = message == 1 ? out_a : out_d;
			was = m.len;
			if (len > was)
				memset(m.data + was, 0, len - was);
			m.len = len;
			if (len == was)
				continue;
			if (message == 1)
				ck_assert_int_ne(to_d(&m), 0);
			else
				ck_assert_int_ne(to_a(&m), 0);
		}
	}
}
END_TEST

START_TEST(a_recorded_handshake_opens_nothing)
{
	struct fkv_auth_out hello = out_d, proof;

	ck_assert_int_eq(to_a(&out_d), 0);
	ck_assert_int_eq(to_d(&out_a), 0);
	proof = out_d;
	ck_assert_int_eq(to_a(&proof), 0);
	/* the same again, to another connection of the same acceptor */
	begin();
	ck_assert_int_eq(to_a(&hello), 0);
	ck_assert_int_eq(to_a(&proof), -EACCES);
	ck_assert_int_eq(a.state, FKV_AUTH_FAILED);
	/* a connection that failed does not come back */
	ck_assert_int_eq(to_a(&proof), -EPROTO);
}
END_TEST

START_TEST(a_recorded_answer_opens_nothing)
{
	struct fkv_auth_out answer;

	ck_assert_int_eq(to_a(&out_d), 0);
	answer = out_a;
	begin();
	ck_assert_int_eq(to_d(&answer), -EACCES);
	ck_assert_uint_eq(out_d.len, 0);
}
END_TEST

START_TEST(what_one_says_is_not_taken_from_its_mirror)
{
	struct fkv_auth_out hello = out_d, answer;

	/* a dialer hears itself */
	ck_assert_int_eq(to_d(&hello), -EPROTO);
	/* as an answer */
	begin();
	hello = out_d;
	hello.data[0] = 2;
	ck_assert_int_eq(to_d(&hello), -EACCES);
	/* an acceptor hears itself */
	begin();
	ck_assert_int_eq(to_a(&out_d), 0);
	answer = out_a;
	ck_assert_int_eq(to_a(&answer), -EPROTO);
	/* as another's hello */
	begin();
	answer.data[0] = 1;
	ck_assert_int_eq(to_a(&answer), -EACCES);
}
END_TEST

/* Between two dialers, by one who has no key: each the other's mirror. */
START_TEST(two_dialers_cannot_be_led_to_each_other)
{
	struct fkv_auth_out mine = out_d;

	self_d.name = "owner-8";
	begin();
	ck_assert_int_eq(to_d(&mine), -EPROTO);
	begin();
	mine.data[0] = 2;
	ck_assert_int_eq(to_d(&mine), -EACCES);
}
END_TEST

START_TEST(another_cluster_is_refused_and_told)
{
	self_d.cluster = "test";
	begin();
	ck_assert_int_eq(to_a(&out_d), -EXDEV);
	ck_assert_uint_gt(out_a.len, 0);
	ck_assert_int_eq(to_d(&out_a), -EXDEV);
	/* names whose border is elsewhere are not the same */
	self_d.cluster = "prodo";
	self_d.name = "wner-7";
	begin();
	ck_assert_int_eq(to_a(&out_d), -EXDEV);
}
END_TEST

/* A hello with a good MAC, as one who has the key and other rules makes it. */
static void resign(void)
{
	crypto_generichash_state st;

	crypto_generichash_init(&st, key_d, sizeof(key_d), MAC);
	crypto_generichash_update(&st, (const uint8_t *)"hello", 6);
	crypto_generichash_update(&st, out_d.data, out_d.len - MAC);
	crypto_generichash_final(&st, out_d.data + out_d.len - MAC, MAC);
}

START_TEST(another_version_is_refused_whatever_else_it_says)
{
	fkv_put16(out_d.data + 4, FKV_AUTH_VERSION + 1);
	resign();
	memcpy(d.own, out_d.data, out_d.len);
	ck_assert_int_eq(to_a(&out_d), -EPROTONOSUPPORT);
	ck_assert_int_eq(to_d(&out_a), -EPROTONOSUPPORT);
	/* of another length, too */
	begin();
	fkv_put16(out_d.data + 4, FKV_AUTH_VERSION + 1);
	memset(out_d.data + out_d.len - MAC, 0xee, 40 + MAC);
	out_d.len += 40;
	resign();
	ck_assert_int_eq(to_a(&out_d), -EPROTONOSUPPORT);
}
END_TEST

START_TEST(a_refusal_that_is_made_up_is_not_believed)
{
	self_d.cluster = "test";
	begin();
	ck_assert_int_eq(to_a(&out_d), -EXDEV);
	for (size_t i = 4; i < out_a.len; i++) {
		struct fkv_auth_out m = out_a;

		begin();
		m.data[i] ^= 1;
		ck_assert_int_eq(to_d(&m), -EACCES);
	}
	/* one for another hello is not for this */
	begin();
	ck_assert_int_eq(to_d(&out_a), -EPROTO);
}
END_TEST

START_TEST(a_hello_with_the_key_but_without_sense_is_refused)
{
	/* role, the zero, incarnation, a name's length, and a zero in a name */
	static const struct {
		size_t at;
		uint8_t value;
	} bad[] = { { 6, 0 }, { 6, 2 }, { 7, 1 }, { 8, 0 }, { 48, 5 },
		    { 49, 0 }, { 49, 255 }, { 51, 0 }, { 56, 0 } };

	for (size_t i = 0; i < FKV_ARRAY_SIZE(bad); i++) {
		begin();
		out_d.data[bad[i].at] = bad[i].value;
		resign();
		ck_assert_int_eq(to_a(&out_d), -EPROTO);
		ck_assert_int_ne(a.state, FKV_AUTH_OPEN);
	}
	/* a key of few multiples makes a secret that all know */
	begin();
	memset(out_d.data + 16, 0, 32);
	resign();
	ck_assert_int_eq(to_a(&out_d), -EACCES);
	ck_assert_uint_eq(out_a.len, 0);
}
END_TEST

START_TEST(a_process_does_not_dial_itself)
{
	self_a.name = self_d.name;
	self_a.incarnation = self_d.incarnation;
	begin();
	ck_assert_int_eq(to_a(&out_d), -ELOOP);
	ck_assert_int_eq(to_d(&out_a), -ELOOP);
	/* another life of that name may */
	self_a.incarnation++;
	begin();
	shake();
}
END_TEST

/* A frame of D, sealed, and what A makes of it after a change. */
static uint8_t frame[64 + FKV_AUTH_SEAL];
static size_t frame_len;

static void seal(size_t n)
{
	memset(frame, 0x33, n);
	fkv_auth_seal(&d, frame, n);
	frame_len = n + FKV_AUTH_SEAL;
}

static int open_frame(struct fkv_auth *who)
{
	size_t n;

	return fkv_auth_open(who, frame, frame_len, &n);
}

START_TEST(a_frame_with_a_flipped_bit_is_refused)
{
	uint8_t good[sizeof(frame)];

	for (size_t bit = 0; bit < (40 + FKV_AUTH_SEAL) * 8; bit++) {
		begin();
		shake();
		seal(40);
		memcpy(good, frame, sizeof(good));
		frame[bit / 8] ^= (uint8_t)(1u << bit % 8);
		ck_assert_int_eq(open_frame(&a), -EBADMSG);
		/* and nothing after it is believed, nor the same as it was */
		memcpy(frame, good, sizeof(good));
		ck_assert_int_eq(open_frame(&a), -EBADMSG);
	}
}
END_TEST

START_TEST(a_frame_that_is_cut_is_refused)
{
	for (size_t n = 0; n < 40 + FKV_AUTH_SEAL; n++) {
		begin();
		shake();
		seal(40);
		frame_len = n;
		ck_assert_int_eq(open_frame(&a), -EBADMSG);
	}
}
END_TEST

START_TEST(frames_cannot_be_repeated_reordered_dropped_or_reflected)
{
	uint8_t first[sizeof(frame)];

	/* repeated */
	shake();
	seal(40);
	memcpy(first, frame, sizeof(first));
	ck_assert_int_eq(open_frame(&a), 0);
	memcpy(frame, first, sizeof(first));
	ck_assert_int_eq(open_frame(&a), -EBADMSG);
	/* one missing, or before its turn */
	begin();
	shake();
	seal(40);
	seal(40);
	ck_assert_int_eq(open_frame(&a), -EBADMSG);
	/* back to its sender */
	begin();
	shake();
	seal(40);
	ck_assert_int_eq(open_frame(&d), -EBADMSG);
	/* from another connection of the same two */
	begin();
	shake();
	seal(40);
	memcpy(first, frame, sizeof(first));
	begin();
	shake();
	memcpy(frame, first, sizeof(first));
	ck_assert_int_eq(open_frame(&a), -EBADMSG);
}
END_TEST

START_TEST(nothing_is_opened_before_the_handshake_is_over)
{
	memset(frame, 0, sizeof(frame));
	frame_len = 40;
	ck_assert_int_eq(open_frame(&a), -EBADMSG);
	ck_assert_int_eq(to_a(&out_d), 0);
	ck_assert_int_eq(open_frame(&a), -EBADMSG);
	/* a dialer that sends before its proof was read */
	ck_assert_int_eq(to_d(&out_a), 0);
	seal(16);
	ck_assert_int_eq(open_frame(&a), -EBADMSG);
}
END_TEST

START_TEST(without_a_key_there_is_the_same_handshake)
{
	self_d.key = self_a.key = NULL;
	begin();
	shake();
	say(&d, &a, 100);
}
END_TEST

/* Hosts of different builds meet: what is said, byte by byte, stays as it is. */
START_TEST(the_handshake_is_what_it_was)
{
	static const char want[] = "208da79570062d8bad528e6826c8372f";
	crypto_generichash_state st;
	uint8_t sum[16];
	char hex[33];

	crypto_generichash_init(&st, NULL, 0, sizeof(sum));
	crypto_generichash_update(&st, out_d.data, out_d.len);
	ck_assert_int_eq(to_a(&out_d), 0);
	crypto_generichash_update(&st, out_a.data, out_a.len);
	ck_assert_int_eq(to_d(&out_a), 0);
	crypto_generichash_update(&st, out_d.data, out_d.len);
	ck_assert_int_eq(to_a(&out_d), 0);
	for (int i = 0; i < 2; i++) {
		seal(40);
		crypto_generichash_update(&st, frame, frame_len);
	}
	crypto_generichash_final(&st, sum, sizeof(sum));
	sodium_bin2hex(hex, sizeof(hex), sum, sizeof(sum));
	ck_assert_str_eq(hex, want);
}
END_TEST

START_TEST(a_key_is_64_hexadecimal_digits)
{
	char text[67] = "00112233445566778899aabbccddeeffFFEEDDCCBBAA99887766554433"
			"221100\n";
	uint8_t key[FKV_AUTH_KEY];

	ck_assert_int_eq(fkv_auth_key_parse(text, 65, key), 0);
	ck_assert_int_eq(fkv_auth_key_parse(text, 64, key), 0);
	for (int i = 0; i < 16; i++) {
		ck_assert_uint_eq(key[i], i * 0x11);
		ck_assert_uint_eq(key[31 - i], i * 0x11);
	}
	memset(key, 7, sizeof(key));
	ck_assert_int_eq(fkv_auth_key_parse(text, 63, key), -EINVAL);
	ck_assert_int_eq(fkv_auth_key_parse(text, 66, key), -EINVAL);
	ck_assert_int_eq(fkv_auth_key_parse(text, 0, key), -EINVAL);
	for (size_t i = 0; i < 64; i++) {
		static const char none[] = "/:@G`g \n";

		for (const char *c = none; *c; c++) {
			char was = text[i];

			text[i] = *c;
			ck_assert_int_eq(fkv_auth_key_parse(text, 64, key),
					 -EINVAL);
			text[i] = was;
		}
	}
	text[64] = 'a';
	ck_assert_int_eq(fkv_auth_key_parse(text, 65, key), -EINVAL);
	memset(text, '0', 64);
	ck_assert_int_eq(fkv_auth_key_parse(text, 64, key), -EINVAL);
	/* none of them has changed it */
	ck_assert_uint_eq(key[0], 7);
}
END_TEST

static void add_tests(TCase *tc)
{
	tcase_add_test(tc, two_with_one_key_know_each_other);
	tcase_add_test(tc, the_longest_names_fit);
	tcase_add_test(tc, a_wrong_key_gets_no_answer);
	tcase_add_test(tc, an_acceptor_without_the_key_is_found_out);
	tcase_add_test(tc, a_flipped_bit_anywhere_is_refused);
	tcase_add_test(tc, a_message_that_is_cut_or_longer_is_refused);
	tcase_add_test(tc, a_recorded_handshake_opens_nothing);
	tcase_add_test(tc, a_recorded_answer_opens_nothing);
	tcase_add_test(tc, what_one_says_is_not_taken_from_its_mirror);
	tcase_add_test(tc, two_dialers_cannot_be_led_to_each_other);
	tcase_add_test(tc, another_cluster_is_refused_and_told);
	tcase_add_test(tc, another_version_is_refused_whatever_else_it_says);
	tcase_add_test(tc, a_refusal_that_is_made_up_is_not_believed);
	tcase_add_test(tc, a_hello_with_the_key_but_without_sense_is_refused);
	tcase_add_test(tc, a_process_does_not_dial_itself);
	tcase_add_test(tc, a_frame_with_a_flipped_bit_is_refused);
	tcase_add_test(tc, a_frame_that_is_cut_is_refused);
	tcase_add_test(tc,
		frames_cannot_be_repeated_reordered_dropped_or_reflected);
	tcase_add_test(tc, nothing_is_opened_before_the_handshake_is_over);
	tcase_add_test(tc, without_a_key_there_is_the_same_handshake);
	tcase_add_test(tc, the_handshake_is_what_it_was);
	tcase_add_test(tc, a_key_is_64_hexadecimal_digits);
}

int main(void)
{
	Suite *s = suite_create("auth");
	TCase *tc = tcase_create("auth");
	SRunner *sr = srunner_create(s);
	int failed;

	if (sodium_init() < 0)
		return EXIT_FAILURE;
	tcase_add_checked_fixture(tc, setup, NULL);
	tcase_set_timeout(tc, 120);
	add_tests(tc);
	suite_add_tcase(s, tc);
	srunner_run_all(sr, CK_NORMAL);
	failed = srunner_ntests_failed(sr);
	srunner_free(sr);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
