/* SPDX-License-Identifier: Apache-2.0 */
/*
 * frame.h - frames of a data connection, and which bytes of a value have come
 *
 * Bytes in, struct out: no sockets, no clock. Heads have one size and are
 * sealed (wire/auth.h) by their sender; payload follows a DATA head as it is.
 * What parses has every number in its range and zeros where nothing is said.
 *
 *	ATTACH		D -> A	this connection is (slot, generation) of D
 *	ATTACHED	A -> D	0, or the errno it is refused with
 *	PULL		D -> A	send me [offset, offset + len) of your segment
 *	TARGET		D -> A	you may push len bytes as this op, here
 *	DATA		A -> D	len bytes of the value, from offset on, follow
 *	END		A -> D	all len bytes were sent, or why not (errno); no
 *				DATA of this op follows on this connection
 *
 * Payload only goes to who dialled. Head, numbers little endian:
 *	kind, 3 zeros, slot or errno (4 bytes), op or generation, offset, len
 */
#ifndef FKV_WIRE_FRAME_H
#define FKV_WIRE_FRAME_H

#include "base/base.h"

#define FKV_FRAME_HEAD		32u
#define FKV_FRAME_DATA_MAX	FKV_MIB
#define FKV_FRAME_SLOTS		16u	/* connections of a peer (T3) */

enum fkv_frame_kind {
	FKV_FRAME_ATTACH = 1,
	FKV_FRAME_ATTACHED,
	FKV_FRAME_PULL,
	FKV_FRAME_TARGET,
	FKV_FRAME_DATA,
	FKV_FRAME_END,
};

struct fkv_frame {
	enum fkv_frame_kind kind;
	uint32_t slot;			/* ATTACH */
	int status;			/* ATTACHED, END: 0 or -errno */
	uint64_t op;			/* or generation; not 0 */
	uint64_t offset;		/* in a segment (PULL), a value (DATA) */
	uint64_t len;
};

void fkv_frame_make(const struct fkv_frame *f, uint8_t head[FKV_FRAME_HEAD]);

/* Of a frame that a dialer sent, or an acceptor. 0 or -EPROTO. */
int fkv_frame_parse(const uint8_t head[FKV_FRAME_HEAD], bool by_dialer,
		    struct fkv_frame *ret);

/*
 * What of a value has come, in any order: disjoint, ascending, never touching.
 * A source reads few chunks at once, so there are few holes at any time.
 */
#define FKV_SPANS_MAX		32u

struct fkv_span {
	uint64_t from, to;
};

struct fkv_spans {
	uint32_t n;
	struct fkv_span at[FKV_SPANS_MAX];
};

/* 0; -EEXIST: some of it has come already; -E2BIG: too many holes. */
int fkv_spans_add(struct fkv_spans *s, uint64_t from, uint64_t to);

/* Is [0, len) all there, and nothing else? */
bool fkv_spans_full(const struct fkv_spans *s, uint64_t len);

#endif
