/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * extent.h - the live extents of a segment: no two overlap
 *
 * Pure: a tree and numbers. Its caller locks.
 */
#ifndef FKV_KMOD_EXTENT_H
#define FKV_KMOD_EXTENT_H

#include <linux/rbtree.h>
#include <linux/types.h>

struct fkv_extent {
	struct rb_node node;
	u64 first, last;		/* pages */
	bool entry;			/* of an entry; else of a put */
	bool added;			/* in a tree */
};

/* The extent of @pages from page @first; 0 or -EBUSY when one overlaps. */
int fkv_extent_add(struct rb_root *root, struct fkv_extent *ext);
void fkv_extent_del(struct rb_root *root, struct fkv_extent *ext);
/* The lowest extent with a page in [first, last], or NULL. */
struct fkv_extent *fkv_extent_find(const struct rb_root *root, u64 first,
				   u64 last);

#endif
