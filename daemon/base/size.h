/* SPDX-License-Identifier: Apache-2.0 */
/*
 * size.h - sizes as people write them (S1)
 *
 * A number of bytes, or a number with a unit: "512.9B", "1.5GB", "4GiB". KB,
 * MB, GB, TB are binary, like KiB to TiB; fractions are cut down to bytes.
 */
#ifndef FKV_BASE_SIZE_H
#define FKV_BASE_SIZE_H

#include <stddef.h>
#include <stdint.h>

/* 0; -EINVAL: not a size; -ERANGE: more than 2^63 - 1 bytes. */
int fkv_size_parse(const char *text, uint64_t *ret_bytes);

/* "1.5 GiB", for people; @buf of at least 24 bytes. Returns @buf. */
const char *fkv_size_print(uint64_t bytes, char *buf, size_t size);

#endif
