/* SPDX-License-Identifier: Apache-2.0 */
/*
 * preflight.h - is there room for what the configuration wants? (M1)
 *
 * Looked at before anything is allocated, so that the answer is a sentence at
 * start and not a signal later.
 */
#ifndef FKV_SVC_PREFLIGHT_H
#define FKV_SVC_PREFLIGHT_H

#include <stddef.h>

#include "svc/config.h"

/* 0, or -errno with a sentence: wanted, allowed, where. */
int fkv_preflight(const struct fkv_config *cfg, char *err, size_t err_size);

/*
 * Raise the limit of descriptors to what all clients need. Returns how many
 * it is enough for, after a line when these are fewer.
 */
uint32_t fkv_preflight_clients(void);

/*
 * The memory part alone, with /proc and /sys below @root: reserved huge pages
 * where the configuration takes them, else what the host and each cgroup on
 * the way up have left. 0, or -ENOMEM with a sentence.
 */
int fkv_preflight_segment(const struct fkv_config *cfg, const char *root,
			  char *err, size_t err_size);

#endif
