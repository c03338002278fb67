// SPDX-License-Identifier: GPL-2.0-only
#include <linux/errno.h>

#include "extent.h"

static struct fkv_extent *of(struct rb_node *node)
{
	return rb_entry(node, struct fkv_extent, node);
}

int fkv_extent_add(struct rb_root *root, struct fkv_extent *ext)
{
	struct rb_node **at = &root->rb_node, *parent = NULL;

	while (*at) {
		parent = *at;
		if (ext->last < of(parent)->first)
			at = &parent->rb_left;
		else if (ext->first > of(parent)->last)
			at = &parent->rb_right;
		else
			return -EBUSY;
	}
	rb_link_node(&ext->node, parent, at);
	rb_insert_color(&ext->node, root);
	ext->added = true;
	return 0;
}

void fkv_extent_del(struct rb_root *root, struct fkv_extent *ext)
{
	if (!ext->added)
		return;
	rb_erase(&ext->node, root);
	ext->added = false;
}

struct fkv_extent *fkv_extent_find(const struct rb_root *root, u64 first,
				   u64 last)
{
	struct rb_node *at = root->rb_node;
	struct fkv_extent *found = NULL;

	while (at) {
		struct fkv_extent *ext = of(at);

		if (last < ext->first) {
			at = at->rb_left;
		} else if (first > ext->last) {
			at = at->rb_right;
		} else {
			found = ext;
			at = at->rb_left;
		}
	}
	return found;
}
