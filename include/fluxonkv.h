/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fluxonkv.h - client API of the FluxonKV cache
 *
 * A client (struct fluxonkv) is one connection to the host's owner daemon, by
 * its unix socket or by the kernel module's device, with the same results and
 * errors. It may be used by any number of threads; it starts none and calls
 * nobody back. Keys are 1..512 arbitrary bytes, values 0..2^40 bytes.
 *
 * Every call returns 0 or -errno; batch calls return 0 when the batch was
 * carried out and leave one status per key in its result: one key's failure
 * never fails another's. Errors common to all calls:
 *
 *	EINVAL		an argument is out of range (key of 0 bytes, unknown flag)
 *	E2BIG		key longer than 512 bytes, or more than 1,024 in a batch
 *	EAGAIN		timeout 0 and the call would have had to wait
 *	ETIMEDOUT	the deadline passed; a put or delete may still take effect
 *	ENOTCONN	the daemon is gone and did not come back by the deadline
 *	EOWNERDEAD	the client was inherited through fork(): open a new one
 *	EPROTO		the daemon broke the protocol
 *	ENOMEM		no memory in this process or in the daemon
 *
 * fluxonkv_last_error() has the sentence that goes with the last failure in
 * this thread: what was wrong and what was expected.
 *
 * A fork()ed child must open its own client; calls on the inherited one fail
 * with EOWNERDEAD and disturb nothing in the parent.
 */
#ifndef FLUXONKV_H
#define FLUXONKV_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define FLUXONKV_DEFAULT_TIMEOUT_MS	10000

struct fluxonkv;

/* How a get was served, and by which tier. */
enum fluxonkv_served {
	FLUXONKV_SERVED_NONE,		/* failed for another reason than a miss */
	FLUXONKV_SERVED_LOCAL,		/* this host's memory */
	FLUXONKV_SERVED_MEMORY_REMOTE,	/* another host's memory */
	FLUXONKV_SERVED_SSD_LOCAL,	/* this host's SSD */
	FLUXONKV_SERVED_SSD_REMOTE,	/* another host's SSD */
	FLUXONKV_SERVED_MISS,
};

/* fluxonkv_put flags */
#define FLUXONKV_EXCL		(1u << 0) /* EEXIST if the key has a value, EBUSY
					     if a put of it is in flight */
#define FLUXONKV_NOWAIT		(1u << 1) /* ENOSPC rather than wait for room */
#define FLUXONKV_MEMORY_ONLY	(1u << 2) /* never written to SSD */

/* fluxonkv_stat.where */
#define FLUXONKV_WHERE_MEMORY	(1u << 0)
#define FLUXONKV_WHERE_SSD	(1u << 1)

struct fluxonkv_key {
	const void *data;
	size_t len;			/* bytes, 1..512 */
};

/*
 * A holder: a reference to the bytes of one version of a value. They are
 * read-only, stay where they are and do not change until released, whatever
 * happens to the key. Filled by get; the caller owns the struct.
 */
struct fluxonkv_holder {
	const void *data;		/* NULL when len is 0 */
	uint64_t len;			/* bytes */
	uint64_t version;		/* rises per key */
	enum fluxonkv_served source;
	int status;			/* batch: 0 or -errno */
	uint64_t priv[2];		/* the library's */
};

/* A put in place: write len bytes to data, then commit or abort. */
struct fluxonkv_putop {
	void *data;			/* NULL when len is 0 */
	uint64_t len;			/* bytes */
	uint64_t version;		/* set by commit */
	int status;			/* batch: 0 or -errno */
	uint64_t priv[2];
};

struct fluxonkv_value {			/* one put of a batch */
	struct fluxonkv_key key;
	const void *data;		/* put; ignored by put_begin */
	uint64_t len;			/* bytes */
	unsigned int flags;
	int status;			/* 0 or -errno, set by the call */
	uint64_t version;		/* set by the call */
};

struct fluxonkv_into {			/* one get_into of a batch */
	struct fluxonkv_key key;
	void *buf;
	uint64_t size;			/* bytes of buf */
	uint64_t len;			/* bytes of the value, set by the call */
	uint64_t version;
	enum fluxonkv_served source;
	int status;			/* ENOBUFS: value larger than buf, len says */
};

struct fluxonkv_stat {
	uint64_t len;			/* bytes */
	uint64_t version;
	unsigned int where;		/* FLUXONKV_WHERE_* */
	int status;			/* 0 or -ENOENT */
};

struct fluxonkv_listed_key {
	char key[512];
	size_t key_len;
	uint64_t len;
	uint64_t version;
	unsigned int where;
};

/* Counters of this client, all since it was opened. */
struct fluxonkv_counters {
	uint64_t hits_local;		/* gets served without the daemon; on
					   the device: from local memory */
	uint64_t requests;		/* to the daemon, or to the kernel */
	uint64_t reconnects;
	uint64_t held_bytes;		/* now, in whole pages of 4 KiB */
	uint64_t held;			/* holders now */
};

/*
 * Open a client. @address is
 *
 *	"unix:PATH"	the daemon's socket
 *	"dev:INSTANCE"	the daemon's instance of /dev/fluxonkv
 *	"dev:"		the only instance there is
 *	NULL		$FLUXONKV if set; else the first of these that is there:
 *			the socket /run/fluxonkv/fluxonkv.sock, the socket
 *			$XDG_RUNTIME_DIR/fluxonkv.sock, the device ("dev:")
 *
 * A program that is to use the device where a socket is there, too, says so by
 * $FLUXONKV. ENOENT or ECONNREFUSED when no daemon listens there, ENODEV when
 * the kernel module is not loaded, EACCES without permission (for the device:
 * not in the group fluxonkv), ENOTCONN when the daemon takes no more clients,
 * EPROTONOSUPPORT on another ABI, EINVAL for an address that is none.
 */
int fluxonkv_open(const char *address, struct fluxonkv **ret_client);

/*
 * Close: drops all holders and open puts of this client; pointers into them
 * are invalid afterwards. No other call may be running. NULL is fine.
 */
void fluxonkv_close(struct fluxonkv *client);

/* Deadline of this client's calls in ms (default 10,000; 0: never wait). */
int fluxonkv_set_timeout(struct fluxonkv *client, unsigned int timeout_ms);

/*
 * Get a holder. ENOENT: no such key. EDQUOT: over this client's cap of pinned
 * bytes. ENOSPC: on SSD, and no room in memory for it. EIO: its SSD copy could
 * not be read. A batch that fails as a whole (ENOMEM, ETIMEDOUT, ENOTCONN) may
 * still have holders with status 0, which are to be released.
 */
int fluxonkv_get(struct fluxonkv *client, const void *key, size_t key_len,
		 struct fluxonkv_holder *ret_holder);
int fluxonkv_get_many(struct fluxonkv *client, const struct fluxonkv_key *keys,
		      size_t n, struct fluxonkv_holder *ret_holders);

/* Release; EINVAL when it is not a live holder of this client. */
int fluxonkv_release(struct fluxonkv *client, struct fluxonkv_holder *holder);
int fluxonkv_release_many(struct fluxonkv *client,
			  struct fluxonkv_holder *holders, size_t n);

/*
 * Copy a value to @buf. *ret_len is its length, also when ENOBUFS says that
 * it is larger than @size bytes; nothing is copied then. While it is copied
 * the value is held: EDQUOT, as for get.
 */
int fluxonkv_get_into(struct fluxonkv *client, const void *key, size_t key_len,
		      void *buf, uint64_t size, uint64_t *ret_len);
int fluxonkv_get_into_many(struct fluxonkv *client, struct fluxonkv_into *items,
			   size_t n);

/*
 * Put a copy of @len bytes at @data. Returns when every reader sees it. Errors
 * besides the common ones: EEXIST, EBUSY (FLUXONKV_EXCL), EFBIG (larger than
 * puts may ever be here), ENOSPC (no room came free in time), EDQUOT.
 */
int fluxonkv_put(struct fluxonkv *client, const void *key, size_t key_len,
		 const void *data, uint64_t len, unsigned int flags);
int fluxonkv_put_many(struct fluxonkv *client, struct fluxonkv_value *values,
		      size_t n);

/*
 * Put in place: begin gives room to write to, commit publishes it, abort
 * gives it back. An open put ends by itself 60 s after begin or the last
 * extend: commit answers ETIMEDOUT then. After commit or abort the caller
 * must not write to data any more. By the device data is a window that the
 * kernel shuts when the put ends: writing to it then raises SIGBUS, also when
 * the 60 s have passed or the daemon has died meanwhile.
 */
int fluxonkv_put_begin(struct fluxonkv *client, const void *key, size_t key_len,
		       uint64_t len, unsigned int flags,
		       struct fluxonkv_putop *ret_put);
int fluxonkv_put_begin_many(struct fluxonkv *client,
			    const struct fluxonkv_value *values, size_t n,
			    struct fluxonkv_putop *ret_puts);
int fluxonkv_put_extend(struct fluxonkv *client, struct fluxonkv_putop *put);
int fluxonkv_put_extend_many(struct fluxonkv *client,
			     struct fluxonkv_putop *puts, size_t n);
int fluxonkv_put_commit(struct fluxonkv *client, struct fluxonkv_putop *put);
int fluxonkv_put_commit_many(struct fluxonkv *client,
			     struct fluxonkv_putop *puts, size_t n);
int fluxonkv_put_abort(struct fluxonkv *client, struct fluxonkv_putop *put);
int fluxonkv_put_abort_many(struct fluxonkv *client,
			    struct fluxonkv_putop *puts, size_t n);

/* Delete; ENOENT when absent. Holders taken before keep their bytes. */
int fluxonkv_delete(struct fluxonkv *client, const void *key, size_t key_len);
int fluxonkv_delete_many(struct fluxonkv *client,
			 const struct fluxonkv_key *keys, size_t n,
			 int *ret_status);

/* Does it exist, how long is it, where is it? 0 or -ENOENT. */
int fluxonkv_stat(struct fluxonkv *client, const void *key, size_t key_len,
		  struct fluxonkv_stat *ret_stat);
/* *ret_leading (may be NULL) is the length of the leading run of hits. */
int fluxonkv_stat_many(struct fluxonkv *client, const struct fluxonkv_key *keys,
		       size_t n, struct fluxonkv_stat *ret_stats,
		       size_t *ret_leading);
int fluxonkv_exists(struct fluxonkv *client, const void *key, size_t key_len);
/* ret_exists[i] is 1 or 0; may be NULL when only the run is wanted. */
int fluxonkv_exists_many(struct fluxonkv *client,
			 const struct fluxonkv_key *keys, size_t n,
			 unsigned char *ret_exists, size_t *ret_leading);
/*
 * The same, and what is only on SSD is fetched to memory, in this order, after
 * the reads that somebody waits for. The answer does not wait for that.
 */
int fluxonkv_warm(struct fluxonkv *client, const struct fluxonkv_key *keys,
		  size_t n, unsigned char *ret_exists, size_t *ret_leading);

/*
 * List keys that begin with @prefix (prefix_len 0: all) in byte order, after
 * the key @cursor (cursor_len 0: from the start), at most @max (1..1000) of
 * them. *ret_n says how many; fewer than @max are the end. Every key present
 * throughout a walk appears in it exactly once.
 */
int fluxonkv_list(struct fluxonkv *client, const struct fluxonkv_key *prefix,
		  const struct fluxonkv_key *cursor,
		  struct fluxonkv_listed_key *ret_keys, size_t max,
		  size_t *ret_n);
int fluxonkv_count(struct fluxonkv *client, const void *prefix,
		   size_t prefix_len, uint64_t *ret_count);

/*
 * Ask the daemon as an operator (its uid or root; else EPERM): @word is
 * "status", "holders", "segments", "routes", "ssd", "metrics", "refs", ... The
 * answer is JSON text (metrics: Prometheus text), 0-terminated, to be freed
 * with free(). EINVAL for a word that it does not know.
 */
int fluxonkv_admin(struct fluxonkv *client, const char *word,
		   const char *argument, char **ret_text);

int fluxonkv_get_counters(struct fluxonkv *client,
			  struct fluxonkv_counters *ret_counters);

/* A name for a source: "local", "memory-remote", "ssd-local", ... */
const char *fluxonkv_served_name(enum fluxonkv_served source);

/* What an errno of this API means, positive or negative. Never NULL. */
const char *fluxonkv_strerror(int err);

/* The sentence of the last failure in this thread; "" when there was none. */
const char *fluxonkv_last_error(void);

const char *fluxonkv_version(void);

#ifdef __cplusplus
}
#endif

#endif
