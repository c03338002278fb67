// SPDX-License-Identifier: Apache-2.0
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base.h"
#include "clock.h"
#include "log.h"

static enum fkv_log_level max_level = FKV_LOG_INFO;

void fkv_log_set_level(enum fkv_log_level level)
{
	__atomic_store_n(&max_level, level, __ATOMIC_RELAXED);
}

/* Text from outside (a path, a name) must not begin an event of its own. */
static void one_line(char *text, size_t len)
{
	for (size_t i = 0; i < len; i++)
		if ((unsigned char)text[i] < ' ' || text[i] == 127)
			text[i] = '?';
}

void fkv_log(enum fkv_log_level level, const char *fmt, ...)
{
	static const struct {
		const char *journal, *name;
	} of[] = {
		[FKV_LOG_ERR] = { "<3>", "error" },
		[FKV_LOG_WARN] = { "<4>", "warning" },
		[FKV_LOG_INFO] = { "<6>", "info" },
		[FKV_LOG_DEBUG] = { "<7>", "debug" },
	};
	char line[1024];
	va_list ap;
	int n, m, text;

	if (level > __atomic_load_n(&max_level, __ATOMIC_RELAXED))
		return;
	if (getenv("JOURNAL_STREAM"))
		n = snprintf(line, sizeof(line), "%s", of[level].journal);
	else
		n = snprintf(line, sizeof(line), "fluxonkvd: %s: ",
			     of[level].name);
	text = n;
	va_start(ap, fmt);
	m = vsnprintf(line + n, sizeof(line) - (size_t)n - 1, fmt, ap);
	va_end(ap);
	if (m < 0)
		return;
	n += m;
	if ((size_t)n > sizeof(line) - 2)
		n = (int)sizeof(line) - 2;
	one_line(line + text, (size_t)(n - text));
	line[n++] = '\n';
	if (write(STDERR_FILENO, line, (size_t)n) < 0)
		return;		/* nowhere left to say it */
}

bool fkv_log_allowed(struct fkv_log_limit *limit, uint64_t every_ns)
{
	uint64_t now = fkv_clock_ns();
	uint64_t next = __atomic_load_n(&limit->next_ns, __ATOMIC_RELAXED);

	if (now < next)
		return false;
	return __atomic_compare_exchange_n(&limit->next_ns, &next,
					   now + every_ns, false,
					   __ATOMIC_RELAXED, __ATOMIC_RELAXED);
}
