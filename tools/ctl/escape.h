/* SPDX-License-Identifier: Apache-2.0 */
/*
 * escape.h - keys as people read and write them
 *
 * A key is any bytes. Printable ASCII but the backslash stands for itself,
 * "\\" for a backslash, "\xNN" (two hexadecimal digits) for any byte.
 */
#ifndef FKV_CTL_ESCAPE_H
#define FKV_CTL_ESCAPE_H

#include <stddef.h>

#define CTL_KEY_MAX	512u
#define CTL_ESCAPED_MAX	(4 * CTL_KEY_MAX + 1)

/*
 * Write the 0-terminated escaped form of @len (at most CTL_KEY_MAX) bytes to
 * @buf, which has CTL_ESCAPED_MAX bytes. Returns @buf.
 */
char *ctl_escape(char *buf, const void *key, size_t len);

/*
 * The bytes that @text stands for, to @key (CTL_KEY_MAX bytes). Bytes that
 * are not ASCII stand for themselves here. 0; -EINVAL for an unknown escape,
 * -E2BIG for more than CTL_KEY_MAX bytes.
 */
int ctl_unescape(const char *text, char *key, size_t *ret_len);

#endif
