/* SPDX-License-Identifier: Apache-2.0 */
/*
 * map.h - shared memory of a descriptor, mapped so that a forked child has none
 */
#ifndef FKV_LIB_MAP_H
#define FKV_LIB_MAP_H

#include "lib.h"

/* A range of a file, and a word for sentences that says what it is. */
struct fkv_mapped {
	int fd;
	uint64_t offset;
	uint64_t bytes;
	const char *what;
};

/*
 * Map it with @prot (PROT_READ, PROT_WRITE), at a multiple of 2 MiB when it is
 * that large, so that huge pages can be mapped as such. Under the fork lock.
 * NULL on failure, said why.
 */
void *fkv_map(const struct fkv_mapped *m, int prot);

void fkv_unmap(const void *p, uint64_t bytes);

#endif
