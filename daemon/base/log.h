/* SPDX-License-Identifier: Apache-2.0 */
/*
 * log.h - one line per event to standard error
 *
 * Text first, then key=value pairs, written by the caller. Under systemd each
 * line begins with its priority. Any thread may log; a line is one write(2).
 * Libraries (wire, core) never log.
 */
#ifndef FKV_BASE_LOG_H
#define FKV_BASE_LOG_H

#include <stdbool.h>
#include <stdint.h>

enum fkv_log_level { FKV_LOG_ERR, FKV_LOG_WARN, FKV_LOG_INFO, FKV_LOG_DEBUG };

void fkv_log_set_level(enum fkv_log_level level);

void fkv_log(enum fkv_log_level level, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));

/* At most one line per @every_ns from this place: true when it may log. */
struct fkv_log_limit {
	uint64_t next_ns;
};

bool fkv_log_allowed(struct fkv_log_limit *limit, uint64_t every_ns);

#endif
