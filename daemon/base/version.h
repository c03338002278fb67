/* SPDX-License-Identifier: Apache-2.0 */
/*
 * version.h - the version; the Makefile passes it from its VERSION
 */
#ifndef FKV_BASE_VERSION_H
#define FKV_BASE_VERSION_H

#ifdef FLUXONKV_VERSION
#define FKV_VERSION FLUXONKV_VERSION
#else
#define FKV_VERSION "unknown"
#endif

#endif
