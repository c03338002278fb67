// SPDX-License-Identifier: Apache-2.0
/*
 * memfile.c - a file that is the input, for readers that take a path
 */
#include "fuzz/fuzz.h"

FILE *__real_fopen(const char *path, const char *mode);
FILE *__wrap_fopen(const char *path, const char *mode);

static const uint8_t *file;
static size_t file_size, file_pos;

void fuzz_file_set(const void *data, size_t size)
{
	file = data;
	file_size = size;
}

void fuzz_file_clear(void)
{
	file = NULL;
}

static ssize_t file_read(void *cookie, char *buf, size_t size)
{
	size_t left = file_size - file_pos;

	(void)cookie;
	if (size > left)
		size = left;
	if (size)
		memcpy(buf, file + file_pos, size);
	file_pos += size;
	return (ssize_t)size;
}

FILE *__wrap_fopen(const char *path, const char *mode)
{
	cookie_io_functions_t io = { .read = file_read };

	if (!file)
		return __real_fopen(path, mode);
	file_pos = 0;
	return fopencookie(NULL, "r", io);
}
