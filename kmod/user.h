/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * user.h - some words from and to user space, inline
 *
 * A call of a few words costs more by its copies' calls and checks of objects
 * than by the copies. Sizes are multiples of 8; who has more than that, or much,
 * or an address that is none, takes copy_from_user() and copy_to_user().
 */
#ifndef FKV_KMOD_USER_H
#define FKV_KMOD_USER_H

#include <linux/uaccess.h>

#define FKV_WORDS_MAX	256	/* bytes that are copied by words */

static __always_inline bool fkv_words_in(u64 *to, const void __user *from,
					 size_t size)
{
	const u64 __user *at = from;

	might_fault();
	if (!user_read_access_begin(from, size))
		return false;
	for (size_t i = 0; i < size / 8; i++)
		unsafe_get_user(to[i], at + i, fault);
	user_read_access_end();
	return true;
fault:
	user_read_access_end();
	return false;
}

static __always_inline bool fkv_words_out(void __user *to, const u64 *from,
					  size_t size)
{
	u64 __user *at = to;

	might_fault();
	if (!user_write_access_begin(to, size))
		return false;
	for (size_t i = 0; i < size / 8; i++)
		unsafe_put_user(from[i], at + i, fault);
	user_write_access_end();
	return true;
fault:
	user_write_access_end();
	return false;
}

/* Not all processors load words from any address. */
static __always_inline bool fkv_words(const void __user *at, size_t size)
{
	return size <= FKV_WORDS_MAX && !(((unsigned long)at | size) % 8);
}

/* Bytes of any number; false: a fault. */
static __always_inline bool fkv_bytes_in(void *to, const void __user *from,
					 size_t size)
{
	if (fkv_words(from, size))
		return fkv_words_in(to, from, size);
	return !copy_from_user(to, from, size);
}

static __always_inline bool fkv_bytes_out(void __user *to, const void *from,
					  size_t size)
{
	if (fkv_words(to, size))
		return fkv_words_out(to, from, size);
	return !copy_to_user(to, from, size);
}

#endif
