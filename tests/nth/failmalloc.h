/* SPDX-License-Identifier: Apache-2.0 */
/*
 * failmalloc.h - what a test and the library that it preloads share: a file
 */
#ifndef FKV_TESTS_NTH_FAILMALLOC_H
#define FKV_TESTS_NTH_FAILMALLOC_H

#include <stdint.h>

#define FAILMALLOC_FILE	"FAILMALLOC_FILE"	/* in the environment */

struct failmalloc {
	_Atomic uint64_t count;		/* allocations since it was zeroed */
	_Atomic uint64_t at;		/* the first that fails; 0: none */
	_Atomic uint64_t until;		/* the first that works again */
	_Atomic uint64_t failed;
};

#endif
