// SPDX-License-Identifier: Apache-2.0
/*
 * escape.c - keys as people read and write them
 */
#include <errno.h>
#include <stdint.h>

#include "ctl/escape.h"

char *ctl_escape(char *buf, const void *key, size_t len)
{
	static const char digits[] = "0123456789abcdef";
	const unsigned char *p = key;
	char *out = buf;

	for (size_t i = 0; i < len; i++) {
		if (p[i] == '\\') {
			*out++ = '\\';
			*out++ = '\\';
		} else if (p[i] >= ' ' && p[i] < 0x7f) {
			*out++ = (char)p[i];
		} else {
			*out++ = '\\';
			*out++ = 'x';
			*out++ = digits[p[i] >> 4];
			*out++ = digits[p[i] & 15];
		}
	}
	*out = '\0';
	return buf;
}

static int digit(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	if (c >= 'a' && c <= 'f')
		return c - 'a' + 10;
	if (c >= 'A' && c <= 'F')
		return c - 'A' + 10;
	return -1;
}

/* The escape at @text; returns its length, 0 when it is none. */
static size_t unescape_one(const char *text, char *ret)
{
	if (text[1] == '\\') {
		*ret = '\\';
		return 2;
	}
	if (text[1] != 'x' || digit(text[2]) < 0 || digit(text[3]) < 0)
		return 0;
	*ret = (char)(digit(text[2]) << 4 | digit(text[3]));
	return 4;
}

int ctl_unescape(const char *text, char *key, size_t *ret_len)
{
	size_t n = 0, step;
	char c;

	for (; *text; text += step) {
		c = *text;
		step = c == '\\' ? unescape_one(text, &c) : 1;
		if (!step)
			return -EINVAL;
		if (n == CTL_KEY_MAX)
			return -E2BIG;
		key[n++] = c;
	}
	*ret_len = n;
	return 0;
}
