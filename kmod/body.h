/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * body.h - request and reply bodies, checked
 *
 * Pure: bytes in, numbers out. A body was copied from user space once and is
 * in memory that nobody else writes. The uapi header has the layout.
 */
#ifndef FKV_KMOD_BODY_H
#define FKV_KMOD_BODY_H

#include <linux/fluxonkv.h>
#include <linux/types.h>

/* A walk over the items of a request. */
struct fkv_cursor {
	const u8 *at;
	size_t left;
	u32 item_size;
	u16 op;
};

/* Is it carried out here, and not by the daemon alone? */
bool fkv_op_known(u16 op);

/*
 * Check the header of a request: 0, -EMSGSIZE (ends inside it), -EINVAL,
 * -E2BIG (fields that are not known; more than FLUXONKV_BATCH_MAX items),
 * -EOPNOTSUPP.
 */
int fkv_body_open(const void *body, size_t size, struct fluxonkv_req *ret_req,
		  struct fkv_cursor *ret_cursor);

/*
 * The next item. Returns 0, or -errno that fails the whole request. An item
 * that is wrong by itself has its -errno in *ret_status.
 */
int fkv_body_next(struct fkv_cursor *c, struct fluxonkv_item *ret_item,
		  const void **ret_key, int *ret_status);

/* Check the header of a reply to @op: 0 or -EINVAL. */
int fkv_reply_open(const void *body, size_t size, u16 op,
		   struct fluxonkv_rep *ret_rep);

/* Result @i < rep.nr of a reply whose header was checked. */
void fkv_reply_at(const void *body, const struct fluxonkv_rep *rep, u32 i,
		  struct fluxonkv_result *ret);

/* Bytes that an item with a key of @key_len bytes takes. */
static inline size_t fkv_item_room(u32 key_len)
{
	return sizeof(struct fluxonkv_item) + ((key_len + 7u) & ~7u);
}

#endif
