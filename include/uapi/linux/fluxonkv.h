/* SPDX-License-Identifier: GPL-2.0-only WITH Linux-syscall-note */
/*
 * fluxonkv - request and reply bodies of the FluxonKV key-value cache
 *
 * Bodies are flat: no pointers, keys inline, native byte order (a body never
 * leaves its host). They travel as messages of the unix socket, each behind a
 * struct fluxonkv_frame, and as the opaque body of the device's CALL.
 *
 * A request is a struct fluxonkv_req followed by nr items; an item is a
 * struct fluxonkv_item followed by its key, padded with zero bytes to a
 * multiple of 8. A reply is a struct fluxonkv_rep followed by nr results (or
 * listed keys) and text_len bytes of text.
 *
 * Versioned by size: each struct begins with, or is announced by, the size
 * that its writer knew. A larger size is accepted if all bytes that the
 * reader does not know are zero (else E2BIG); a smaller one than the first
 * version's is EINVAL. Unknown flags and non-zero padding are EINVAL, an
 * unknown op is EOPNOTSUPP.
 */
#ifndef _UAPI_LINUX_FLUXONKV_H
#define _UAPI_LINUX_FLUXONKV_H

#include <linux/types.h>

#define FLUXONKV_ABI_VERSION	1

#define FLUXONKV_KEY_MAX	512
#define FLUXONKV_BATCH_MAX	1024
#define FLUXONKV_FRAME_MAX	(1024 * 1024)
#define FLUXONKV_LIST_MAX	1000

/* Operations: each has one request form and one reply form. */
enum fluxonkv_op {
	FLUXONKV_OP_HELLO	= 1,	/* no items; reply: hello + descriptors */
	FLUXONKV_OP_GET		= 2,	/* keys; result: offset, len, holder id */
	FLUXONKV_OP_RELEASE	= 3,	/* holder ids */
	FLUXONKV_OP_PUT_BEGIN	= 4,	/* keys, lengths; result: offset, put id */
	FLUXONKV_OP_PUT_EXTEND	= 5,	/* put ids: 60 s more for each */
	FLUXONKV_OP_PUT_COMMIT	= 6,	/* put ids; result: version */
	FLUXONKV_OP_PUT_ABORT	= 7,	/* put ids */
	FLUXONKV_OP_DELETE	= 8,	/* keys */
	FLUXONKV_OP_STAT	= 9,	/* keys; result: len, version, where */
	FLUXONKV_OP_LIST	= 10,	/* item 0: prefix, item 1: cursor; arg: limit */
	FLUXONKV_OP_COUNT	= 11,	/* item 0: prefix; reply arg: number */
	FLUXONKV_OP_ADMIN	= 12,	/* item 0: word, item 1: argument; text */
};

/* struct fluxonkv_req.flags */
#define FLUXONKV_REQ_INTO	(1 << 0)  /* GET: copied at once, class get_into */
#define FLUXONKV_REQ_WARM	(1 << 1)  /* STAT: fetch what is only on SSD */

/* struct fluxonkv_item.flags of PUT_BEGIN */
#define FLUXONKV_PUT_EXCL	(1 << 0)  /* EEXIST if current, EBUSY in flight */
#define FLUXONKV_PUT_NOWAIT	(1 << 1)  /* ENOSPC rather than wait for room */
#define FLUXONKV_PUT_MEMORY	(1 << 2)  /* memory only: skip the SSD tier */

/* struct fluxonkv_item.flags of PUT_COMMIT */
#define FLUXONKV_COMMIT_HOLD	(1 << 0)  /* answer with a holder */

/* where a value is (STAT) */
#define FLUXONKV_IN_MEMORY	(1 << 0)
#define FLUXONKV_ON_SSD		(1 << 1)

/* struct fluxonkv_result.source: how a get was served */
enum fluxonkv_source {
	FLUXONKV_SOURCE_NONE		= 0,	/* not a get, or it failed */
	FLUXONKV_SOURCE_LOCAL		= 1,	/* this host's memory */
	FLUXONKV_SOURCE_MEMORY_REMOTE	= 2,
	FLUXONKV_SOURCE_SSD_LOCAL	= 3,
	FLUXONKV_SOURCE_SSD_REMOTE	= 4,
	FLUXONKV_SOURCE_MISS		= 5,
};

/* The unix socket puts this before each body, both ways. */
struct fluxonkv_frame {
	__u32 size;		/* of frame and body; <= FLUXONKV_FRAME_MAX */
	__u32 zero;
	__u64 id;		/* the requester's, echoed; 0: no reply wanted */
};

struct fluxonkv_req {
	__u32 size;		/* of this struct */
	__u16 op;
	__u16 flags;
	__u32 nr;		/* items that follow */
	__u32 item_size;	/* of struct fluxonkv_item */
	__aligned_u64 timeout_ns;	/* relative; 0: do not wait */
	__aligned_u64 arg;
};

struct fluxonkv_item {
	__u32 key_len;		/* bytes of key behind this struct */
	__u32 flags;
	__aligned_u64 len;	/* PUT_BEGIN: bytes of the value */
	__aligned_u64 id;	/* put or holder */
	__aligned_u64 zero;	/* a lease, later */
};

struct fluxonkv_rep {
	__u32 size;		/* of this struct */
	__u16 op;		/* of the request */
	__u16 flags;		/* 0 */
	__u32 nr;		/* results that follow */
	__u32 item_size;	/* of the result struct */
	__s32 status;		/* 0, or -errno of the call as a whole */
	__u32 text_len;		/* bytes of text behind the results */
	__aligned_u64 arg;	/* LIST: 1 = more; COUNT, STAT: a number */
};

struct fluxonkv_result {
	__s32 status;		/* 0 or -errno */
	__u32 source;		/* GET: enum fluxonkv_source; STAT: where */
	__aligned_u64 offset;	/* in the segment, or arena (PUT_BEGIN) */
	__aligned_u64 len;	/* bytes */
	__aligned_u64 version;	/* put_id */
	__aligned_u64 id;	/* holder or put */
};

struct fluxonkv_listed {
	__u32 key_len;		/* key follows, padded to 8 */
	__u32 where;
	__aligned_u64 len;
	__aligned_u64 version;
};

/* HELLO: req.arg = inode of the client's time namespace, or 0. */

/* struct fluxonkv_hello.flags */
#define FLUXONKV_HELLO_WRITABLE	(1 << 0) /* puts go straight to the segment */
#define FLUXONKV_HELLO_INDEX	(1 << 1) /* index and pin pages are given */
#define FLUXONKV_HELLO_STRICT	(1 << 2) /* strict_reads */

/*
 * Result of HELLO, one item. With it come descriptors, in this order: the
 * segment, read-only; the segment, writable (WRITABLE) or the put arena; with
 * INDEX the index, read-only, and the pin pages, writable.
 */
struct fluxonkv_hello {
	__u32 abi;		/* FLUXONKV_ABI_VERSION */
	__u32 flags;
	__aligned_u64 incarnation;	/* of the daemon */
	__aligned_u64 client;		/* id of this connection */
	__aligned_u64 segment_bytes;
	__aligned_u64 arena_bytes;
	__aligned_u64 index_bytes;
	__aligned_u64 pins_bytes;
	__aligned_u64 client_cap_bytes;	/* pinned bytes (H4); 0: no cap */
};

#endif
