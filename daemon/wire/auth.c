// SPDX-License-Identifier: Apache-2.0
#include <assert.h>
#include <sodium.h>

#include "auth.h"
#include "bytes.h"

enum kind { HELLO = 1, REPLY, PROOF, REFUSAL };

#define MAC		32u
#define AT_VERSION	4u
#define AT_ROLE		6u
#define AT_LIFE		8u
#define AT_PUBLIC	16u
#define AT_LENGTHS	48u
#define AT_NAMES	50u
#define PROOF_SIZE	(4u + MAC)
#define REFUSAL_SIZE	(8u + MAC)

static_assert(AT_NAMES + 2 * FKV_AUTH_NAME_MAX + MAC <= FKV_AUTH_MSG_MAX,
	      "a hello with the longest names fits");
static_assert(FKV_AUTH_SEAL == crypto_aead_chacha20poly1305_ietf_ABYTES,
	      "the seal");
static_assert(FKV_AUTH_KEY == crypto_generichash_KEYBYTES, "the key");

static const uint8_t magic[3] = { 'F', 'K', 'V' };
static const uint8_t no_key[FKV_AUTH_KEY];

/* Some bytes to be hashed. */
struct part {
	const void *p;
	size_t n;
};

/* BLAKE2b with @key of a word, and then of @n parts. */
static void hash(const uint8_t *key, const char *word, const struct part *parts,
		 size_t n, uint8_t ret[MAC])
{
	crypto_generichash_state st;

	crypto_generichash_init(&st, key, key ? FKV_AUTH_KEY : 0, MAC);
	/* with its zero, so that none is the beginning of another */
	crypto_generichash_update(&st, (const uint8_t *)word, strlen(word) + 1);
	for (size_t i = 0; i < n; i++)
		crypto_generichash_update(&st, parts[i].p, parts[i].n);
	crypto_generichash_final(&st, ret, MAC);
	sodium_memzero(&st, sizeof(st));
}

static const uint8_t *cluster_key(const struct fkv_auth *a)
{
	return a->self->key ? a->self->key : no_key;
}

static int failed(struct fkv_auth *a, int err, const char *text,
		  const char **why)
{
	a->state = FKV_AUTH_FAILED;
	*why = text;
	return err;
}

static void head(uint8_t *p, int kind)
{
	p[0] = (uint8_t)kind;
	memcpy(p + 1, magic, sizeof(magic));
}

/* A hello without its MAC; returns its length. */
static size_t hello_make(const struct fkv_auth *a, uint8_t *p)
{
	const struct fkv_auth_self *self = a->self;
	size_t cluster = strlen(self->cluster), name = strlen(self->name);

	head(p, a->dialer ? HELLO : REPLY);
	fkv_put16(p + AT_VERSION, FKV_AUTH_VERSION);
	p[AT_ROLE] = a->dialer;
	p[AT_ROLE + 1] = 0;
	fkv_put64(p + AT_LIFE, self->incarnation);
	crypto_scalarmult_base(p + AT_PUBLIC, a->secret);
	p[AT_LENGTHS] = (uint8_t)cluster;
	p[AT_LENGTHS + 1] = (uint8_t)name;
	memcpy(p + AT_NAMES, self->cluster, cluster);
	memcpy(p + AT_NAMES + cluster, self->name, name);
	return AT_NAMES + cluster + name;
}

static void hello_mac(const struct fkv_auth *a, const uint8_t *p, size_t n,
		      uint8_t mac[MAC])
{
	struct part part = { p, n };

	hash(cluster_key(a), "hello", &part, 1, mac);
}

static bool name_ok(const char *s)
{
	size_t n = s ? strlen(s) : 0;

	return n >= 1 && n <= FKV_AUTH_NAME_MAX;
}

int fkv_auth_init(struct fkv_auth *a, const struct fkv_auth_self *self,
		  bool dialer, const uint8_t random[FKV_AUTH_RANDOM],
		  struct fkv_auth_out *out)
{
	memset(a, 0, sizeof(*a));
	out->len = 0;
	if (!name_ok(self->cluster) || !name_ok(self->name) ||
	    !self->incarnation)
		return -EINVAL;
	a->self = self;
	a->dialer = dialer;
	memcpy(a->secret, random, FKV_AUTH_RANDOM);
	if (!dialer)
		return 0;
	a->own_len = hello_make(a, a->own);
	hello_mac(a, a->own, a->own_len, a->own + a->own_len);
	a->own_len += MAC;
	memcpy(out->data, a->own, a->own_len);
	out->len = a->own_len;
	a->state = FKV_AUTH_REPLY;
	return 0;
}

/*
 * The secrets of this handshake, when message 2 is @hello without its MAC and
 * @mac is to be that.
 */
static bool secrets(struct fkv_auth *a, const uint8_t *hello, size_t n,
		    const uint8_t *peer_public, uint8_t mac[MAC])
{
	uint8_t *d_to_a = a->dialer ? a->tx_key : a->rx_key;
	uint8_t *a_to_d = a->dialer ? a->rx_key : a->tx_key;
	uint8_t all[MAC], shared[32], mac_key[MAC];
	struct part said[] = { { a->own, a->own_len }, { hello, n } };
	struct part from[] = { { all, MAC }, { shared, sizeof(shared) } };
	const uint8_t *key = cluster_key(a);

	/* a point whose multiples are few: nobody honest has one */
	if (crypto_scalarmult(shared, a->secret, peer_public))
		return false;
	hash(NULL, "said", said, 2, all);
	hash(key, "mac", from, 2, mac_key);
	hash(key, "dialer", from, 2, d_to_a);
	hash(key, "acceptor", from, 2, a_to_d);
	hash(mac_key, "reply", NULL, 0, mac);
	hash(mac_key, "proof", NULL, 0, a->proof);
	sodium_memzero(shared, sizeof(shared));
	sodium_memzero(mac_key, sizeof(mac_key));
	sodium_memzero(a->secret, sizeof(a->secret));
	return true;
}

static void refusal_mac(const struct fkv_auth *a, const uint8_t *p,
			uint8_t mac[MAC])
{
	struct part parts[] = { { a->own, a->own_len }, { p, 8 } };

	hash(cluster_key(a), "refusal", parts, 2, mac);
}

static int refuse(struct fkv_auth *a, int err, const char *text,
		  struct fkv_auth_out *out, const char **why)
{
	head(out->data, REFUSAL);
	fkv_put32(out->data + 4, (uint32_t)-err);
	refusal_mac(a, out->data, out->data + 8);
	out->len = REFUSAL_SIZE;
	return failed(a, err, text, why);
}

static int refused(struct fkv_auth *a, const uint8_t *p, const char **why)
{
	uint8_t mac[MAC];

	refusal_mac(a, p, mac);
	if (sodium_memcmp(mac, p + 8, MAC))
		return failed(a, -EACCES, "a refusal that is made up", why);
	switch (fkv_get32(p + 4)) {
	case EPROTONOSUPPORT:
		return failed(a, -EPROTONOSUPPORT,
			      "the peer has another version of the protocol",
			      why);
	case EXDEV:
		return failed(a, -EXDEV, "the peer is of another cluster", why);
	case ELOOP:
		return failed(a, -ELOOP, "the peer is this very process", why);
	}
	return failed(a, -EPROTO, "the peer refuses, for no known reason", why);
}

static bool is_hello(const uint8_t *p, size_t len, int kind)
{
	return len >= AT_NAMES + MAC && len <= FKV_AUTH_MSG_MAX &&
	       p[0] == kind && !memcmp(p + 1, magic, sizeof(magic));
}

/* Of a hello with a good MAC: 0, or the errno to refuse it with. */
static int hello_parse(struct fkv_auth *a, const uint8_t *p, size_t n,
		       const char **why)
{
	const struct fkv_auth_self *self = a->self;
	size_t cluster = p[AT_LENGTHS], name = p[AT_LENGTHS + 1];

	*why = "the peer has another version of the protocol";
	if (fkv_get16(p + AT_VERSION) != FKV_AUTH_VERSION)
		return -EPROTONOSUPPORT;
	*why = "a hello that is none";
	if (p[AT_ROLE] == a->dialer || p[AT_ROLE] > 1 || p[AT_ROLE + 1] ||
	    !fkv_get64(p + AT_LIFE) || n != AT_NAMES + cluster + name ||
	    !name || memchr(p + AT_NAMES, 0, cluster + name))
		return -EPROTO;
	*why = "the peer is of another cluster";
	if (cluster != strlen(self->cluster) ||
	    memcmp(p + AT_NAMES, self->cluster, cluster))
		return -EXDEV;
	a->peer_incarnation = fkv_get64(p + AT_LIFE);
	memcpy(a->peer_name, p + AT_NAMES + cluster, name);
	a->peer_name[name] = '\0';
	*why = "the peer is this very process";
	if (a->peer_incarnation == self->incarnation &&
	    !strcmp(a->peer_name, self->name))
		return -ELOOP;
	return 0;
}

/* Message 1, at the acceptor. */
static int hello_in(struct fkv_auth *a, const uint8_t *p, size_t len,
		    struct fkv_auth_out *out, const char **why)
{
	uint8_t mac[MAC];
	size_t n;
	int err;

	if (!is_hello(p, len, HELLO))
		return failed(a, -EPROTO, "no hello", why);
	hello_mac(a, p, len - MAC, mac);
	if (sodium_memcmp(mac, p + len - MAC, MAC))
		return failed(a, -EACCES, "the peer has another key", why);
	memcpy(a->own, p, len);
	a->own_len = len;
	err = hello_parse(a, p, len - MAC, why);
	if (err)
		return refuse(a, err, *why, out, why);
	n = hello_make(a, out->data);
	if (!secrets(a, out->data, n, p + AT_PUBLIC, out->data + n))
		return failed(a, -EACCES, "a public key that is none", why);
	out->len = n + MAC;
	a->state = FKV_AUTH_PROOF;
	return 0;
}

static void opened(struct fkv_auth *a)
{
	sodium_memzero(a->proof, sizeof(a->proof));
	sodium_memzero(a->own, sizeof(a->own));
	a->state = FKV_AUTH_OPEN;
}

/* Message 2, at the dialer. */
static int reply_in(struct fkv_auth *a, const uint8_t *p, size_t len,
		    struct fkv_auth_out *out, const char **why)
{
	uint8_t mac[MAC];
	int err;

	if (len == REFUSAL_SIZE && p[0] == REFUSAL &&
	    !memcmp(p + 1, magic, sizeof(magic)))
		return refused(a, p, why);
	if (!is_hello(p, len, REPLY))
		return failed(a, -EPROTO, "no answer to a hello", why);
	if (!secrets(a, p, len - MAC, p + AT_PUBLIC, mac) ||
	    sodium_memcmp(mac, p + len - MAC, MAC))
		return failed(a, -EACCES, "the peer has another key", why);
	err = hello_parse(a, p, len - MAC, why);
	if (err)
		return failed(a, err, *why, why);
	head(out->data, PROOF);
	memcpy(out->data + 4, a->proof, MAC);
	out->len = PROOF_SIZE;
	opened(a);
	return 0;
}

/* Message 3, at the acceptor. */
static int proof_in(struct fkv_auth *a, const uint8_t *p, size_t len,
		    const char **why)
{
	if (len != PROOF_SIZE || p[0] != PROOF ||
	    memcmp(p + 1, magic, sizeof(magic)))
		return failed(a, -EPROTO, "no proof", why);
	if (sodium_memcmp(a->proof, p + 4, MAC))
		return failed(a, -EACCES, "a hello of another connection", why);
	opened(a);
	return 0;
}

int fkv_auth_input(struct fkv_auth *a, const void *data, size_t len,
		   struct fkv_auth_out *out, const char **why)
{
	out->len = 0;
	switch (a->state) {
	case FKV_AUTH_HELLO:
		return hello_in(a, data, len, out, why);
	case FKV_AUTH_REPLY:
		return reply_in(a, data, len, out, why);
	case FKV_AUTH_PROOF:
		return proof_in(a, data, len, why);
	default:
		return failed(a, -EPROTO, "the handshake is over", why);
	}
}

static void nonce(uint64_t n, uint8_t ret[12])
{
	memset(ret, 0, 4);
	fkv_put64(ret + 4, n);
}

void fkv_auth_seal(struct fkv_auth *a, uint8_t *frame, size_t len)
{
	uint8_t n[12];

	fkv_assert(a->state == FKV_AUTH_OPEN && a->tx_n < UINT64_MAX);
	nonce(a->tx_n++, n);
	crypto_aead_chacha20poly1305_ietf_encrypt(frame, NULL, frame, len, NULL,
						  0, NULL, n, a->tx_key);
}

int fkv_auth_open(struct fkv_auth *a, uint8_t *frame, size_t len,
		  size_t *ret_len)
{
	uint8_t n[12];

	if (a->state != FKV_AUTH_OPEN || a->rx_n == UINT64_MAX)
		return -EBADMSG;
	nonce(a->rx_n, n);
	if (crypto_aead_chacha20poly1305_ietf_decrypt(frame, NULL, NULL, frame,
						      len, NULL, 0, n,
						      a->rx_key)) {
		a->state = FKV_AUTH_FAILED;
		return -EBADMSG;
	}
	a->rx_n++;
	*ret_len = len - FKV_AUTH_SEAL;
	return 0;
}

void fkv_auth_done(struct fkv_auth *a)
{
	sodium_memzero(a, sizeof(*a));
	a->state = FKV_AUTH_FAILED;
}

static int digit(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	if (c >= 'a' && c <= 'f')
		return c - 'a' + 10;
	if (c >= 'A' && c <= 'F')
		return c - 'A' + 10;
	return -1;
}

int fkv_auth_key_parse(const char *text, size_t len, uint8_t key[FKV_AUTH_KEY])
{
	uint8_t got[FKV_AUTH_KEY];
	int err = 0;

	if (len == 2 * FKV_AUTH_KEY + 1 && text[len - 1] == '\n')
		len--;
	if (len != 2 * FKV_AUTH_KEY)
		return -EINVAL;
	for (size_t i = 0; i < FKV_AUTH_KEY; i++) {
		int high = digit(text[2 * i]), low = digit(text[2 * i + 1]);

		if (high < 0 || low < 0)
			err = -EINVAL;
		got[i] = (uint8_t)((unsigned int)high << 4 |
				   ((unsigned int)low & 15));
	}
	if (!err && sodium_is_zero(got, sizeof(got)))
		err = -EINVAL;
	if (!err)
		memcpy(key, got, sizeof(got));
	sodium_memzero(got, sizeof(got));
	return err;
}
