/* SPDX-License-Identifier: Apache-2.0 */
/*
 * notice.h - what of the SSD tier's state deserves a line in the log
 *
 * Looks at counters after each step that may have changed them; a bad disk
 * brings many errors and few lines. Loop thread only; owns nothing.
 */
#ifndef FKV_SVC_NOTICE_H
#define FKV_SVC_NOTICE_H

#include <stdint.h>

#include "core/owner/owner.h"

struct fkv_notice {
	uint64_t devices, devices_on;	/* as last told */
	uint64_t errors, errors_ns;
};

void fkv_notice_init(struct fkv_notice *n, uint64_t devices);

/* One line when a device goes or comes back (S11), one in 10 s for errors. */
void fkv_notice(struct fkv_notice *n, const struct fkv_owner_stats *s,
		uint64_t now_ns);

#endif
