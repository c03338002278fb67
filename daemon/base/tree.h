/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tree.h - red-black trees: libbsd's <sys/tree.h>, file-local
 *
 * FKV_RB_GENERATE() is RB_GENERATE_STATIC() without the need for a macro that
 * Linux headers use as a field name.
 */
#ifndef FKV_BASE_TREE_H
#define FKV_BASE_TREE_H

#include <bsd/sys/tree.h>

#define FKV_RB_GENERATE(name, type, field, cmp) \
	RB_GENERATE_INTERNAL(name, type, field, cmp, \
			     static __attribute__((unused)))

#endif
