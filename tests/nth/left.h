/* SPDX-License-Identifier: Apache-2.0 */
/*
 * left.h - malloc and its family, that may fail, and what of it is left
 *
 * They stand before the C library's (or the sanitizer's) for the whole program
 * and its libraries.
 */
#ifndef FKV_TESTS_NTH_LEFT_H
#define FKV_TESTS_NTH_LEFT_H

#include <stdbool.h>
#include <stddef.h>

/* nth.c's: may one fail now, this one? Is this thread's memory looked at? */
bool left_armed(void);
bool left_fails(void);
bool left_counts(void);

/* Where the last that failed was made: file and offset, for addr2line(1). */
const char *left_failed_by(void);

/* From here on allocations are noted, until stop says how many remain. */
void left_start(void);
/* With @say the first few, by where they were made. */
size_t left_stop(bool say);

#endif
