/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FKV_TESTS_KMOD_TYPES_H
#define FKV_TESTS_KMOD_TYPES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include_next <linux/types.h>

typedef __u8 u8;
typedef __u16 u16;
typedef __u32 u32;
typedef __u64 u64;
typedef __s32 s32;
typedef __s64 s64;

#define __user

#endif
