/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FKV_TESTS_KMOD_BYTEORDER_H
#define FKV_TESTS_KMOD_BYTEORDER_H

#include_next <asm/byteorder.h>

#define le64_to_cpu(n)	__le64_to_cpu(n)

#endif
