/* SPDX-License-Identifier: Apache-2.0 */
/*
 * rbtree.h - the calls of the kernel's tree on one that is not balanced: what
 * is under test walks and links it, and the balance is the kernel's alone
 */
#ifndef FKV_TESTS_KMOD_RBTREE_H
#define FKV_TESTS_KMOD_RBTREE_H

#include <kernel.h>

struct rb_node {
	struct rb_node *parent, *rb_left, *rb_right;
};

struct rb_root {
	struct rb_node *rb_node;
};

#define RB_ROOT			((struct rb_root){ NULL })
#define rb_entry(p, type, member) container_of(p, type, member)

static inline void rb_link_node(struct rb_node *n, struct rb_node *parent,
				struct rb_node **at)
{
	*n = (struct rb_node){ .parent = parent };
	*at = n;
}

static inline void rb_insert_color(struct rb_node *n, struct rb_root *root)
{
	/* it was linked at the end of a walk from this root */
	while (n->parent)
		n = n->parent;
	shim_assert(root->rb_node == n);
}

static inline void rb_replace(struct rb_node *n, struct rb_node *by,
			      struct rb_root *root)
{
	if (!n->parent)
		root->rb_node = by;
	else if (n->parent->rb_left == n)
		n->parent->rb_left = by;
	else
		n->parent->rb_right = by;
	if (by)
		by->parent = n->parent;
}

static inline void rb_erase(struct rb_node *n, struct rb_root *root)
{
	struct rb_node *next = n->rb_right;

	if (!n->rb_left || !next) {
		rb_replace(n, next ? next : n->rb_left, root);
		return;
	}
	while (next->rb_left)
		next = next->rb_left;
	rb_replace(next, next->rb_right, root);
	rb_replace(n, next, root);
	next->rb_left = n->rb_left;
	next->rb_right = n->rb_right;
	if (next->rb_left)
		next->rb_left->parent = next;
	if (next->rb_right)
		next->rb_right->parent = next;
}

#endif
