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

#include <linux/ioctl.h>
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
	FLUXONKV_OP_PUT		= 13,	/* device only: keys, lengths, addresses */
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
	__aligned_u64 id;	/* put or holder; PUT: address of the bytes */
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

/*
 * The device. A client opens /dev/fluxonkv, attaches to an instance by its
 * name, and maps the segment:
 *
 *	offset 0			the segment, MAP_SHARED, read-only
 *	offset FLUXONKV_WINDOW_OFFSET	the same bytes, writable, each page
 *					only while it lies in an open put of
 *					this open file (else SIGBUS)
 *
 * CALL takes a request body as above and leaves a reply body. GET, RELEASE
 * and the PUT ops are carried out by the kernel, which asks the daemon for
 * what it does not know; all others go to the daemon as they are. A holder is
 * a number of this open file, released by RELEASE, by the release array of a
 * CALL, or when the last reference to the open file is gone.
 *
 * The owner daemon opens /dev/fluxonkv-owner, binds an instance name, makes
 * its segment, and takes requests by RECV and answers them by REPLY. All
 * structs begin with their size, as it was known to their writer.
 *
 * Errors common to all: EINVAL (an argument is out of range, an unknown flag,
 * padding that is not zero), E2BIG (a struct with unknown non-zero bytes),
 * EFAULT, ENOTTY (unknown command), ENOTCONN (the daemon is gone), EBADFD (not
 * attached, or not bound, yet; or already), ENOMEM, EINTR (killed).
 */
#define FLUXONKV_IOC_TYPE	0xf6
#define FLUXONKV_NAME_MAX	64		/* bytes, with the 0 at the end */
#define FLUXONKV_WINDOW_OFFSET	(1ULL << 43)
#define FLUXONKV_SEGMENT_MAX	(1ULL << 43)	/* bytes */
#define FLUXONKV_SEGMENT_UNIT	(2ULL << 20)	/* a segment is a multiple */
#define FLUXONKV_CALL_MAX	(256 * 1024)	/* bytes of an opaque request */
#define FLUXONKV_POPULATE_MAX	(1ULL << 30)	/* bytes of one POPULATE */
#define FLUXONKV_OWNER_BATCH	1024		/* elements of an owner's array */

/* struct fluxonkv_features.features */
#define FLUXONKV_FEATURE_TRACE	(1 << 0)	/* tracepoints */
#define FLUXONKV_FEATURE_NETLINK (1 << 1)	/* generic netlink family */

struct fluxonkv_features {
	__u32 size;
	__u32 abi;			/* out: FLUXONKV_ABI_VERSION */
	__aligned_u64 features;		/* out */
	__aligned_u64 pinned_max;	/* out: bytes, of all segments */
	__aligned_u64 pinned;		/* out: bytes in use */
};

/* EADDRNOTAVAIL: no such instance; EUSERS: it has all clients that it takes. */
struct fluxonkv_attach {
	__u32 size;
	__u32 flags;			/* 0 */
	char name[FLUXONKV_NAME_MAX];	/* "": the only one there is */
	struct fluxonkv_hello hello;	/* out; arena, index, pins: 0 */
};

/*
 * Returns 0 when the reply was written. EMSGSIZE: it takes more than
 * @reply_room bytes; @reply_size says how many. EFAULT, also where this struct
 * cannot be written: no holder that a GET or PUT_COMMIT would have told of
 * remains, and no put that PUT_BEGIN began. The ids in the release array, of 64
 * bits each, are released first; @released says how many were holders of this
 * file. ETIMEDOUT, EINTR: a put may still take effect.
 */
struct fluxonkv_call {
	__u32 size;
	__u32 flags;			/* 0 */
	__aligned_u64 body;		/* address; 0: only releases */
	__aligned_u64 reply;		/* address */
	__aligned_u64 release;		/* address */
	__u32 body_size;
	__u32 reply_room;
	__u32 reply_size;		/* out */
	__u32 nr_release;		/* <= FLUXONKV_BATCH_MAX */
	__u32 released;			/* out */
	__u32 zero;
};

/* struct fluxonkv_bind.flags */
#define FLUXONKV_BIND_STRICT	(1 << 0)	/* hits need a valid LEASE */

/* EADDRINUSE: another owner has that name. */
struct fluxonkv_bind {
	__u32 size;
	__u32 flags;
	char name[FLUXONKV_NAME_MAX];	/* 1..63 of [A-Za-z0-9._-] */
	__aligned_u64 incarnation;
	__aligned_u64 client_cap_bytes;	/* 0: no cap */
	__aligned_u64 uid_cap_bytes;	/* 0: no cap */
	__u32 clients_max;
	__u32 zero;
};

/* struct fluxonkv_segment.flags */
#define FLUXONKV_SEGMENT_PINNABLE (1 << 0)	/* windows of ordinary pages */

/*
 * SEGMENT_CREATE: @bytes, ENOSPC over pinned_max. SEGMENT_POPULATE: a range,
 * from any number of threads; ENOMEM says what is short: @pinned and
 * @pinned_max. SEGMENT_READY: clients may attach; EAGAIN while not all of it
 * is populated.
 */
struct fluxonkv_segment {
	__u32 size;
	__u32 flags;
	__aligned_u64 bytes;
	__aligned_u64 offset;
	__aligned_u64 pinned;		/* out: bytes in use, of all segments */
	__aligned_u64 pinned_max;	/* out */
	__aligned_u64 huge;		/* out: bytes in pages of 2 MiB */
};

/*
 * An element of PUBLISH, RETIRE, EVICT and HELD. PUBLISH: 0; EEXIST (a version of
 * the key is published), EBUSY (overlaps a live extent),
 * EINVAL. RETIRE: FLUXONKV_QUIET, FLUXONKV_HELD (a QUIET message follows), or
 * ENOENT (not published with at most that put_id). EVICT: FLUXONKV_QUIET, or
 * EBUSY (held, still published), or ENOENT. HELD: FLUXONKV_QUIET (nobody holds
 * that version), FLUXONKV_HELD, or ENOENT.
 */
struct fluxonkv_entry {
	__aligned_u64 key;		/* address */
	__u32 key_len;
	__s32 status;			/* out */
	__aligned_u64 put_id;
	__aligned_u64 offset;		/* PUBLISH */
	__aligned_u64 len;		/* PUBLISH */
	__aligned_u64 cookie;		/* PUBLISH: comes back in messages */
};

#define FLUXONKV_QUIET	0
#define FLUXONKV_HELD	1

/* What the index was asked since the last HITS. */
struct fluxonkv_hit {
	__aligned_u64 cookie;
	__aligned_u64 hits;
};

/*
 * An element of REPLY. ENOENT: nobody waits for that cookie (any more); EINVAL:
 * no reply to what was asked, who waits has got EPROTO; in both cases nothing
 * was given. 0, or EPROTO when items were refused: the ids of results that the
 * daemon is to end itself, since they were refused or since the index keeps
 * them from now on, are 0 afterwards. Others (ENOMEM, EFAULT, EMSGSIZE): not
 * answered yet.
 */
struct fluxonkv_answer {
	__aligned_u64 cookie;
	__aligned_u64 body;		/* address of a reply body */
	__u32 body_size;
	__s32 status;			/* out: 0 or -errno */
};

/* An array, in and out, of at most FLUXONKV_OWNER_BATCH elements. */
struct fluxonkv_array {
	__u32 size;
	__u32 flags;			/* 0 */
	__aligned_u64 at;		/* address */
	__u32 nr;
	__u32 stride;			/* bytes of an element */
	__u32 done;			/* out: elements worked on, or written */
	__u32 zero;
};

/* RECV fills a buffer with messages, each a multiple of 8 bytes. */
enum fluxonkv_message_type {
	FLUXONKV_MESSAGE_CLIENT	 = 1,	/* attached: client, uid, pid */
	FLUXONKV_MESSAGE_GONE	 = 2,	/* client: nothing of it is left */
	FLUXONKV_MESSAGE_REQUEST = 3,	/* client, cookie; body follows */
	FLUXONKV_MESSAGE_QUIET	 = 4,	/* cookie of a retired entry */
	FLUXONKV_MESSAGE_RELEASED = 5,	/* client, cookie: holder of a GET */
	FLUXONKV_MESSAGE_SHUT	 = 6,	/* client, cookie: put; see SHUT */
};

struct fluxonkv_message {
	__u32 size;			/* of this struct and its body */
	__u32 type;
	__aligned_u64 client;
	__aligned_u64 cookie;
	__u32 uid;
	__u32 pid;
	__u32 body_size;
	__u32 zero;
};

/*
 * Never waits: @used is 0 when there is nothing; poll() says when. EMSGSIZE:
 * the first message takes more than @room bytes. A room of
 * FLUXONKV_RECV_ROOM takes any.
 */
#define FLUXONKV_RECV_ROOM	(2 * 1024 * 1024)

struct fluxonkv_recv {
	__u32 size;
	__u32 flags;			/* 0 */
	__aligned_u64 at;		/* address */
	__u32 room;
	__u32 used;			/* out */
	__u32 nr;			/* out: messages */
	__u32 zero;
};

/*
 * End an open put without its client: it can no longer write when the message
 * SHUT comes. ENOENT: there is no such put. SHUT also comes unasked, of a put
 * whose client could not be told of it.
 */
struct fluxonkv_shut {
	__u32 size;
	__u32 flags;			/* 0 */
	__aligned_u64 client;
	__aligned_u64 put;
};

struct fluxonkv_lease {
	__u32 size;
	__u32 flags;			/* 0 */
	__aligned_u64 until_ns;		/* CLOCK_BOOTTIME */
};

/* What the kernel knows of an instance. */
struct fluxonkv_counts {
	__u32 size;
	__u32 clients;
	__aligned_u64 entries;		/* published */
	__aligned_u64 retired;		/* and still held */
	__aligned_u64 holders;
	__aligned_u64 open_puts;
	__aligned_u64 held_bytes;	/* of published entries, once each */
	__aligned_u64 requests;		/* waiting for the daemon */
	/* ever */
	__aligned_u64 hits;
	__aligned_u64 hit_bytes;
	__aligned_u64 misses;
	__aligned_u64 overlaps;		/* refused: EBUSY of PUBLISH, REPLY */
	__aligned_u64 stale_replies;	/* refused: ENOENT of REPLY */
	__aligned_u64 quota;		/* refused: EDQUOT */
};

/* STOP, without argument: no client may attach from now on. */

/* An element of CLIENTS: what the kernel knows of one that is attached. */
struct fluxonkv_client {
	__aligned_u64 client;
	__aligned_u64 pinned_bytes;	/* holders and open puts */
	__aligned_u64 holders;
	__u32 uid;
	__u32 pid;			/* that attached */
};

/* numbers from 0x20: the VFS takes small ones itself */
#define FLUXONKV_IOC_FEATURES	_IO(FLUXONKV_IOC_TYPE, 0x20)
#define FLUXONKV_IOC_ATTACH	_IO(FLUXONKV_IOC_TYPE, 0x21)
#define FLUXONKV_IOC_CALL	_IO(FLUXONKV_IOC_TYPE, 0x22)

#define FLUXONKV_IOC_BIND	_IO(FLUXONKV_IOC_TYPE, 0x40)
#define FLUXONKV_IOC_SEGMENT_CREATE _IO(FLUXONKV_IOC_TYPE, 0x41)
#define FLUXONKV_IOC_SEGMENT_POPULATE _IO(FLUXONKV_IOC_TYPE, 0x42)
#define FLUXONKV_IOC_SEGMENT_READY _IO(FLUXONKV_IOC_TYPE, 0x43)
#define FLUXONKV_IOC_PUBLISH	_IO(FLUXONKV_IOC_TYPE, 0x44)
#define FLUXONKV_IOC_RETIRE	_IO(FLUXONKV_IOC_TYPE, 0x45)
#define FLUXONKV_IOC_EVICT	_IO(FLUXONKV_IOC_TYPE, 0x46)
#define FLUXONKV_IOC_HITS	_IO(FLUXONKV_IOC_TYPE, 0x47)
#define FLUXONKV_IOC_RECV	_IO(FLUXONKV_IOC_TYPE, 0x48)
#define FLUXONKV_IOC_REPLY	_IO(FLUXONKV_IOC_TYPE, 0x49)
#define FLUXONKV_IOC_SHUT	_IO(FLUXONKV_IOC_TYPE, 0x4a)
#define FLUXONKV_IOC_LEASE	_IO(FLUXONKV_IOC_TYPE, 0x4b)
#define FLUXONKV_IOC_COUNTS	_IO(FLUXONKV_IOC_TYPE, 0x4c)
#define FLUXONKV_IOC_CLIENTS	_IO(FLUXONKV_IOC_TYPE, 0x4d)
#define FLUXONKV_IOC_STOP	_IO(FLUXONKV_IOC_TYPE, 0x4e)
#define FLUXONKV_IOC_HELD	_IO(FLUXONKV_IOC_TYPE, 0x4f)

/*
 * Generic netlink. Dumps are for CAP_NET_ADMIN, or the uid of the owner, of
 * the initial network namespace; pids are those of the initial pid namespace;
 * keys are never told. The multicast group has the begin and end of segments
 * and clients.
 */
#define FLUXONKV_GENL_NAME	"fluxonkv"
#define FLUXONKV_GENL_VERSION	1
#define FLUXONKV_GENL_GROUP	"events"

enum fluxonkv_genl_cmd {
	FLUXONKV_CMD_UNSPEC,
	FLUXONKV_CMD_SEGMENTS,		/* dump: a message for each segment */
	FLUXONKV_CMD_CLIENTS,		/* dump: for each attached open file */
	FLUXONKV_CMD_HOLDERS,		/* dump: for each holder */
	FLUXONKV_CMD_EVENT,		/* multicast */
};

enum fluxonkv_genl_attr {
	FLUXONKV_ATTR_UNSPEC,
	FLUXONKV_ATTR_PAD,
	FLUXONKV_ATTR_INSTANCE,		/* string: name */
	FLUXONKV_ATTR_EVENT,		/* u32: enum fluxonkv_genl_event */
	FLUXONKV_ATTR_ALIVE,		/* u8: has an owner */
	FLUXONKV_ATTR_PID,		/* u32: of the owner, or the client */
	FLUXONKV_ATTR_UID,		/* u32 */
	FLUXONKV_ATTR_BYTES,		/* u64: of the segment, or value */
	FLUXONKV_ATTR_RESIDENT,		/* u64: bytes not given back */
	FLUXONKV_ATTR_HUGE,		/* u64: bytes in pages of 2 MiB */
	FLUXONKV_ATTR_ENTRIES,		/* u64 */
	FLUXONKV_ATTR_RETIRED,		/* u64 */
	FLUXONKV_ATTR_NR_CLIENTS,	/* u64 */
	FLUXONKV_ATTR_NR_HOLDERS,	/* u64 */
	FLUXONKV_ATTR_OPEN_PUTS,	/* u64 */
	FLUXONKV_ATTR_HELD_BYTES,	/* u64 */
	FLUXONKV_ATTR_PINNED_BYTES,	/* u64: of a client */
	FLUXONKV_ATTR_HITS,		/* u64 */
	FLUXONKV_ATTR_MISSES,		/* u64 */
	FLUXONKV_ATTR_CLIENT,		/* u64: number of an open file */
	FLUXONKV_ATTR_HOLDER,		/* u64: id in it */
	FLUXONKV_ATTR_AGE_NS,		/* u64 */
	FLUXONKV_ATTR_HASH,		/* u32: of the key, in its instance */
	FLUXONKV_ATTR_VERSION,		/* u64 */
	FLUXONKV_ATTR_INCARNATION,	/* u64: of the owner */
	__FLUXONKV_ATTR_END,
};

#define FLUXONKV_ATTR_MAX	(__FLUXONKV_ATTR_END - 1)

enum fluxonkv_genl_event {
	FLUXONKV_EVENT_SEGMENT_READY	= 1,
	FLUXONKV_EVENT_OWNER_GONE	= 2,
	FLUXONKV_EVENT_CLIENT		= 3,
	FLUXONKV_EVENT_CLIENT_GONE	= 4,
};

#endif
