// SPDX-License-Identifier: Apache-2.0
#include <stdio.h>
#include <stdlib.h>

#include "base.h"

bool (*fkv_alloc_fail)(size_t size);

_Noreturn void fkv_assert_failed(const char *cond, const char *file, int line)
{
	fprintf(stderr, "fluxonkv: impossible state: %s (%s:%d)\n", cond, file,
		line);
	abort();
}

void *fkv_zalloc(size_t size)
{
	if (fkv_alloc_fail && fkv_alloc_fail(size))
		return NULL;
	return calloc(1, size);
}

void *fkv_realloc(void *old, size_t size)
{
	if (fkv_alloc_fail && fkv_alloc_fail(size))
		return NULL;
	return realloc(old, size);
}

void fkv_free(void *p)
{
	free(p);
}
