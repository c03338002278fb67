/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fuzz.h - what every fuzz target uses
 *
 * A target is one LLVMFuzzerTestOneInput(): clang's libFuzzer calls it with
 * made-up inputs, replay.c with those of the corpus. It takes nothing from
 * outside its input, and ends the process when a property does not hold.
 */
#ifndef FKV_TESTS_FUZZ_H
#define FKV_TESTS_FUZZ_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define fuzz_check(cond)						\
	do {								\
		if (__builtin_expect(!(cond), 0)) {			\
			fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, \
				__LINE__, #cond);			\
			abort();					\
		}							\
	} while (0)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Memory of exactly @size, so that a sanitizer sees the byte behind it. */
static inline void *fuzz_alloc(size_t size)
{
	void *p = malloc(size);

	fuzz_check(p);
	return p;
}

static inline uint8_t *fuzz_copy(const void *data, size_t size)
{
	uint8_t *p = fuzz_alloc(size);

	if (size)
		memcpy(p, data, size);
	return p;
}

/* Up to the first zero byte, or all. */
static inline char *fuzz_string(const void *data, size_t size)
{
	size_t n = size ? strnlen(data, size) : 0;
	char *p = fuzz_alloc(n + 1);

	if (n)
		memcpy(p, data, n);
	p[n] = '\0';
	return p;
}

/* Numbers from the front of an input; 0 when it is used up. */
struct fuzz_in {
	const uint8_t *p;
	size_t left;
};

static inline void fuzz_take(struct fuzz_in *in, void *to, size_t n)
{
	size_t some = n < in->left ? n : in->left;

	memset(to, 0, n);
	if (some)
		memcpy(to, in->p, some);
	in->p += some;
	in->left -= some;
}

static inline uint8_t fuzz_u8(struct fuzz_in *in)
{
	uint8_t v;

	fuzz_take(in, &v, sizeof(v));
	return v;
}

static inline uint16_t fuzz_u16(struct fuzz_in *in)
{
	uint16_t v;

	fuzz_take(in, &v, sizeof(v));
	return v;
}

/*
 * memfile.c: while a memory file is set, fopen() of any path opens it for
 * reading (the targets are linked with --wrap=fopen).
 */
void fuzz_file_set(const void *data, size_t size);
void fuzz_file_clear(void);

#endif
