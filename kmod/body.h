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
	u32 op;
};

/* Bytes that an item with a key of @key_len bytes takes. */
static inline size_t fkv_item_room(u32 key_len)
{
	return sizeof(struct fluxonkv_item) + ((key_len + 7u) & ~7u);
}

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

/* The key of the next item, of a GET: as fkv_body_next(). */
int fkv_body_key_any(struct fkv_cursor *c, const void **ret_key, u32 *ret_len,
		     int *ret_status);

/* What follows the first @n (1..7) bytes of 8: 0 when these are zeros. */
static inline u64 fkv_behind(u64 last, u32 n)
{
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
	return last >> n * 8;
#else
	return last << n * 8;
#endif
}

/*
 * The bytes of the next item, of a GET and without fault, with its key, which
 * is behind it; 0: it takes fkv_body_key_any() to tell.
 */
static __always_inline size_t fkv_body_plain(const struct fkv_cursor *c)
{
	const struct fluxonkv_item *item = (const void *)c->at;
	const u64 *last;
	size_t room;

	if (c->item_size != sizeof(*item) || c->left < sizeof(*item) ||
	    item->key_len - 1 >= FLUXONKV_KEY_MAX ||
	    (item->len | item->id | item->zero | item->flags))
		return 0;
	room = fkv_item_room(item->key_len);
	if (c->left < room)
		return 0;
	/* the padding behind the key, which is in its last 8 bytes */
	last = (const u64 *)(c->at + room) - 1;
	if (item->key_len % 8 && fkv_behind(*last, item->key_len % 8))
		return 0;
	return room;
}

/* Check the header of a reply to @op: 0 or -EINVAL. */
int fkv_reply_open(const void *body, size_t size, u16 op,
		   struct fluxonkv_rep *ret_rep);

/* Result @i < rep.nr of a reply whose header was checked. */
void fkv_reply_at(const void *body, const struct fluxonkv_rep *rep, u32 i,
		  struct fluxonkv_result *ret);

#endif
