/* SPDX-License-Identifier: Apache-2.0 */
/*
 * keep.h - held bytes that outlive their connection (X5)
 *
 * When a daemon is gone, what a client holds of its segment is copied to
 * memory of the client's own, at the same addresses: pointers and bytes stay,
 * the rest of the segment is let go. Where nothing else would say which bytes
 * those are (holders that the daemon keeps), they are noted here. On the device
 * the kernel does all that: nothing is noted or copied.
 */
#ifndef FKV_LIB_KEEP_H
#define FKV_LIB_KEEP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "pins.h"

struct fkv_conn;

#define FKV_KEEP_CHAINS	256u

/* A holder that the daemon keeps: on the chain of its id, or free. */
struct fkv_note {
	uint64_t id;
	struct fkv_range range;
	uint32_t next;			/* index + 1; 0: the last */
};

struct fkv_keep {
	struct fkv_note *notes;
	uint32_t n, room;		/* ever used, allocated */
	uint32_t chain[FKV_KEEP_CHAINS], free;	/* index + 1 of the first */
	struct fkv_range *moving;	/* by offset, apart */
	size_t nr_moving, moved;
	bool begun;			/* no note is taken any more */
	bool done;
};

/*
 * Note that @id holds bytes, until they are dropped. 0, -ENOTCONN when the
 * segment is being let go, -ENOMEM; with a sentence.
 */
int fkv_keep_note(struct fkv_conn *conn, uint64_t id, uint64_t offset,
		  uint64_t len);
void fkv_keep_drop(struct fkv_conn *conn, uint64_t id);

/*
 * Keep what is held of a dead connection, until @deadline; a later call goes
 * on. No thread can pin on it any more. One caller at a time.
 */
void fkv_keep_held(struct fkv_conn *conn, uint64_t deadline);

/*
 * Open puts are lost with their daemon, but may still be written to: memory of
 * nobody's takes their place, and room where it is touched.
 */
void fkv_keep_puts(const struct fkv_conn *conn);

#endif
