/* SPDX-License-Identifier: Apache-2.0 */
/*
 * auth.h - who is at the other end of a connection, and that it stays so
 *
 * Bytes in, bytes out: no sockets, no randomness, no clock. Both sides know the
 * cluster's key, 32 random bytes.
 *
 *	1  D -> A   hello of D, MAC by the key
 *	2  A -> D   hello of A, MAC by the secrets of this handshake
 *	3  D -> A   MAC by the secrets of this handshake
 *
 * A hello has protocol version, role, incarnation, cluster, name, and a fresh
 * X25519 key, which is the nonce as well. The secrets come, by BLAKE2b keyed
 * with the cluster's key, from a hash of both hellos as sent and from what the
 * two X25519 keys share. After message 3 is verified D may be served, after
 * message 2 A may be; from then on each frame is sealed (ChaCha20-Poly1305)
 * with a key for its direction and its number as nonce.
 *
 * Protected: only who has the key gets a word out of either side; version,
 * cluster, names and incarnations are what the other end said; a handshake or
 * frame that was recorded, reflected, reordered, dropped from the middle,
 * changed or made up is refused; what was recorded stays secret when the key is
 * stolen later.
 *
 * Not protected: one who has the key may be any owner or the master, the key
 * is all there is; lengths and times of frames are seen; who is on the path may
 * cut a connection or hold it back, and sends message 1 of another once more,
 * which costs the acceptor one answer. Payload of transfers has its own
 * connections and is not sealed by this. Without a key (@key NULL) nothing is
 * protected: for loopback only.
 *
 * A refusal that the other end can do something about (version, cluster, itself)
 * is told to it, with a MAC by the key; a wrong key is met with silence.
 *
 * Messages, numbers little endian:
 *	hello	kind (1, 2), "FKV", version (2 bytes), role, 0, incarnation,
 *		X25519 key, length of cluster and of name (a byte each),
 *		cluster, name, MAC
 *	proof	kind (3), "FKV", MAC
 *	refusal	kind (4), "FKV", errno (4 bytes), MAC
 */
#ifndef FKV_WIRE_AUTH_H
#define FKV_WIRE_AUTH_H

#include "base/base.h"

#define FKV_AUTH_VERSION	1u
#define FKV_AUTH_KEY		32u	/* bytes of the cluster's key */
#define FKV_AUTH_RANDOM		32u
#define FKV_AUTH_NAME_MAX	255u	/* of cluster and name, 1 at least */
#define FKV_AUTH_MSG_MAX	640u	/* of a message of the handshake */
#define FKV_AUTH_SEAL		16u	/* what sealing adds to a frame */

/* Who one is; the strings are the caller's and outlive the handshake. */
struct fkv_auth_self {
	const uint8_t *key;		/* FKV_AUTH_KEY bytes, or NULL */
	const char *cluster;
	const char *name;
	uint64_t incarnation;
};

enum fkv_auth_state {
	FKV_AUTH_HELLO,		/* D: 1 to be made; A: 1 to come */
	FKV_AUTH_REPLY,		/* D: 2 to come */
	FKV_AUTH_PROOF,		/* A: 3 to come */
	FKV_AUTH_OPEN,
	FKV_AUTH_FAILED,
};

struct fkv_auth {
	const struct fkv_auth_self *self;
	enum fkv_auth_state state;
	bool dialer;

	/* of the peer; to be trusted when OPEN */
	uint64_t peer_incarnation;
	char peer_name[FKV_AUTH_NAME_MAX + 1];

	uint8_t secret[32];		/* of the own X25519 key */
	uint8_t own[FKV_AUTH_MSG_MAX];	/* message 1, as made or received */
	size_t own_len;
	uint8_t proof[32];		/* message 3 */
	uint8_t tx_key[32], rx_key[32];
	uint64_t tx_n, rx_n;
};

/* What to send back, and how much. */
struct fkv_auth_out {
	size_t len;
	uint8_t data[FKV_AUTH_MSG_MAX];
};

/*
 * Begin. @random is fresh for each handshake, from a good source, and never
 * used for anything else; a dialer's message 1 comes in @out. 0 or -EINVAL:
 * cluster or name is empty or too long.
 */
int fkv_auth_init(struct fkv_auth *a, const struct fkv_auth_self *self,
		  bool dialer, const uint8_t random[FKV_AUTH_RANDOM],
		  struct fkv_auth_out *out);

/*
 * A message of the handshake has come; what is in @out is to be sent, also
 * with an error, after which the connection is to be closed. 0;
 * -EACCES: wrong key, or made up; -EPROTO: no message of a handshake;
 * -EPROTONOSUPPORT: another version; -EXDEV: another cluster;
 * -ELOOP: it is ourselves.
 */
int fkv_auth_input(struct fkv_auth *a, const void *data, size_t len,
		   struct fkv_auth_out *out, const char **why);

/* Seal @len bytes in place; behind them is room for FKV_AUTH_SEAL more. */
void fkv_auth_seal(struct fkv_auth *a, uint8_t *frame, size_t len);

/* The plain bytes of a frame, in place. 0 or -EBADMSG: close the connection. */
int fkv_auth_open(struct fkv_auth *a, uint8_t *frame, size_t len,
		  size_t *ret_len);

/* Forget all secrets. */
void fkv_auth_done(struct fkv_auth *a);

/*
 * A key as it is in its file: 64 hexadecimal digits and perhaps a newline. 0 or
 * -EINVAL; all zeros are no key.
 */
int fkv_auth_key_parse(const char *text, size_t len,
		       uint8_t key[FKV_AUTH_KEY]);

#endif
