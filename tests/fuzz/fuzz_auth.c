// SPDX-License-Identifier: Apache-2.0
/*
 * fuzz_auth.c - what a stranger says during the handshake and after it
 *
 * Input: a byte of choice, then messages, each with its length in front (2
 * bytes). The input has not the key: whatever it says, nobody gets to trust it.
 * With CHOOSE_KEY the MAC of a hello is made right, as one who has the key would
 * who breaks the rules. Or two honest ends meet, and the input is what they
 * say to each other when they are open, one bit of it changed on its way.
 */
#include <sodium.h>

#include "wire/auth.h"

#include "fuzz/fuzz.h"

enum { CHOOSE_DIALER = 1, CHOOSE_KEY = 2, CHOOSE_OPEN = 4 };

static const uint8_t key[FKV_AUTH_KEY] = { 1, 2, 3 };
/* of which no input was ever made */
static const uint8_t other_key[FKV_AUTH_KEY] = { 9, 9, 9 };
static const uint8_t random_d[FKV_AUTH_RANDOM] = { 4, 5 };
static const uint8_t random_a[FKV_AUTH_RANDOM] = { 6, 7 };
static const struct fkv_auth_self self_d = { key, "c", "dialer", 1 };
static const struct fkv_auth_self self_a = { key, "c", "acceptor", 2 };

static void mac(uint8_t *p, size_t len)
{
	crypto_generichash_state st;

	crypto_generichash_init(&st, key, sizeof(key), 32);
	crypto_generichash_update(&st, (const uint8_t *)"hello", 6);
	crypto_generichash_update(&st, p, len - 32);
	crypto_generichash_final(&st, p + len - 32, 32);
}

static void strange(struct fuzz_in *in, uint8_t choice)
{
	bool dialer = choice & CHOOSE_DIALER;
	struct fkv_auth_self self = dialer ? self_d : self_a;
	struct fkv_auth_out out;
	struct fkv_auth a;
	const char *why = NULL;

	if (!(choice & CHOOSE_KEY))
		self.key = other_key;
	fuzz_check(!fkv_auth_init(&a, &self, dialer,
				  dialer ? random_d : random_a, &out));
	while (in->left) {
		size_t n = fuzz_u16(in) % (FKV_AUTH_MSG_MAX + 1);
		uint8_t *p = fuzz_alloc(n + 1);
		int err;

		fuzz_take(in, p, n);
		/* a refusal has another MAC: that of a seed is right */
		if (choice & CHOOSE_KEY && n >= 32 && p[0] != 4)
			mac(p, n);
		err = fkv_auth_input(&a, p, n, &out, &why);
		fuzz_check(out.len <= sizeof(out.data));
		fuzz_check(!err || (why && a.state == FKV_AUTH_FAILED));
		/* an answer, or a refusal, only to who has the key */
		fuzz_check(choice & CHOOSE_KEY || !out.len);
		fuzz_check(a.state != FKV_AUTH_OPEN);
		if (n >= FKV_AUTH_SEAL)
			fuzz_check(fkv_auth_open(&a, p, n, &n));
		free(p);
	}
	fkv_auth_done(&a);
}

static void meet(struct fkv_auth *d, struct fkv_auth *a)
{
	struct fkv_auth_out out_d, out_a;
	const char *why;

	fuzz_check(!fkv_auth_init(d, &self_d, true, random_d, &out_d));
	fuzz_check(!fkv_auth_init(a, &self_a, false, random_a, &out_a));
	fuzz_check(!fkv_auth_input(a, out_d.data, out_d.len, &out_a, &why));
	fuzz_check(!fkv_auth_input(d, out_a.data, out_a.len, &out_d, &why));
	fuzz_check(!fkv_auth_input(a, out_d.data, out_d.len, &out_a, &why));
	fuzz_check(d->state == FKV_AUTH_OPEN && a->state == FKV_AUTH_OPEN);
}

static void honest(struct fuzz_in *in)
{
	struct fkv_auth d, a;

	meet(&d, &a);
	while (in->left) {
		size_t n = fuzz_u16(in) % 2048, bit = fuzz_u16(in), got = 0;
		uint8_t *p = fuzz_alloc(n + FKV_AUTH_SEAL);
		uint8_t *was = fuzz_alloc(n + 1);

		fuzz_take(in, was, n);
		memcpy(p, was, n);
		fkv_auth_seal(&d, p, n);
		if (bit < (n + FKV_AUTH_SEAL) * 8) {
			p[bit / 8] ^= (uint8_t)(1u << bit % 8);
			fuzz_check(fkv_auth_open(&a, p, n + FKV_AUTH_SEAL,
						 &got));
			in->left = 0;
		} else {
			fuzz_check(!fkv_auth_open(&a, p, n + FKV_AUTH_SEAL,
						  &got));
			fuzz_check(got == n && !memcmp(p, was, n));
		}
		free(p);
		free(was);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct fuzz_in in = { data, size };
	uint8_t choice = fuzz_u8(&in);

	if (choice & CHOOSE_OPEN)
		honest(&in);
	else
		strange(&in, choice);
	return 0;
}
