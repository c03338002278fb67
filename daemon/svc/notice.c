// SPDX-License-Identifier: Apache-2.0
#include "base/base.h"
#include "base/log.h"
#include "svc/notice.h"

#define ERRORS_NS	(10 * FKV_SEC)

void fkv_notice_init(struct fkv_notice *n, uint64_t devices)
{
	*n = (struct fkv_notice){ .devices = devices, .devices_on = devices };
}

static void errors(struct fkv_notice *n, const struct fkv_owner_stats *s,
		   uint64_t now_ns)
{
	uint64_t sum = s->write_errors + s->read_errors + s->sum_errors;

	if (sum == n->errors ||
	    (n->errors_ns && now_ns - n->errors_ns < ERRORS_NS))
		return;
	n->errors = sum;
	n->errors_ns = now_ns;
	fkv_log(FKV_LOG_WARN, "ssd tier: errors so far: read=%llu write=%llu "
		"checksum=%llu", (unsigned long long)s->read_errors,
		(unsigned long long)s->write_errors,
		(unsigned long long)s->sum_errors);
}

void fkv_notice(struct fkv_notice *n, const struct fkv_owner_stats *s,
		uint64_t now_ns)
{
	errors(n, s, now_ns);
	if (s->devices_on == n->devices_on)
		return;
	fkv_log(s->devices_on < n->devices_on ? FKV_LOG_ERR : FKV_LOG_INFO,
		"ssd tier: %llu of %llu devices work; write_errors=%llu "
		"read_errors=%llu", (unsigned long long)s->devices_on,
		(unsigned long long)n->devices,
		(unsigned long long)s->write_errors,
		(unsigned long long)s->read_errors);
	n->devices_on = s->devices_on;
}
