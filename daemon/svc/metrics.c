// SPDX-License-Identifier: Apache-2.0
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/base.h"
#include "svc/metrics.h"

void fkv_histogram_record(struct fkv_histogram *h, uint64_t ns)
{
	uint64_t us = ns / 1000 + !!(ns % 1000);
	unsigned int b = 0;

	if (us > 1)
		b = 64 - (unsigned int)__builtin_clzll(us - 1);
	if (b >= FKV_HISTOGRAM_BUCKETS)
		b = FKV_HISTOGRAM_BUCKETS - 1;
	h->bucket[b]++;
	h->count++;
	h->sum_ns += ns;
}

static bool grow(struct fkv_text *t, size_t more)
{
	size_t room = t->room ? t->room : 4096;
	char *p;

	if (t->broken)
		return false;
	while (room - t->len <= more)
		room *= 2;
	if (room == t->room)
		return true;
	p = fkv_realloc(t->data, room);
	if (!p) {
		t->broken = true;
		return false;
	}
	t->data = p;
	t->room = room;
	return true;
}

void fkv_text_add(struct fkv_text *t, const char *fmt, ...)
{
	va_list ap, again;
	int n;

	va_start(ap, fmt);
	va_copy(again, ap);
	n = vsnprintf(NULL, 0, fmt, ap);
	if (n >= 0 && grow(t, (size_t)n)) {
		vsnprintf(t->data + t->len, t->room - t->len, fmt, again);
		t->len += (size_t)n;
	}
	va_end(again);
	va_end(ap);
}

char *fkv_text_done(struct fkv_text *t)
{
	if (!t->data && !t->broken)
		return strdup("");
	if (!t->broken)
		return t->data;
	free(t->data);
	return NULL;
}

void fkv_metric_head(struct fkv_text *t, const char *name, const char *type,
		     const char *help)
{
	fkv_text_add(t, "# HELP %s %s\n# TYPE %s %s\n", name, help, name,
		     type);
}

void fkv_metric(struct fkv_text *t, const char *name, const char *labels,
		uint64_t value)
{
	fkv_text_add(t, "%s%s %" PRIu64 "\n", name, labels, value);
}

void fkv_metric_one(struct fkv_text *t, const char *name, const char *type,
		    const char *help, uint64_t value)
{
	fkv_metric_head(t, name, type, help);
	fkv_metric(t, name, "", value);
}

void fkv_metric_histogram(struct fkv_text *t, const char *name,
			  const char *label, const struct fkv_histogram *h)
{
	const char *comma = *label ? "," : "";
	uint64_t sum = 0;

	for (unsigned int b = 0; b + 1 < FKV_HISTOGRAM_BUCKETS; b++) {
		sum += h->bucket[b];
		fkv_text_add(t, "%s_bucket{%s%sle=\"%.10g\"} %" PRIu64 "\n",
			     name, label, comma, (double)(1ULL << b) / 1e6, sum);
	}
	fkv_text_add(t, "%s_bucket{%s%sle=\"+Inf\"} %" PRIu64 "\n", name,
		     label, comma, h->count);
	/* exact: a rounded sum stands still while the count goes on */
	fkv_text_add(t, "%s_sum%s%s%s %" PRIu64 ".%09" PRIu64 "\n", name,
		     *label ? "{" : "", label, *label ? "}" : "",
		     (uint64_t)(h->sum_ns / FKV_SEC),
		     (uint64_t)(h->sum_ns % FKV_SEC));
	fkv_text_add(t, "%s_count%s%s%s %" PRIu64 "\n", name,
		     *label ? "{" : "", label, *label ? "}" : "", h->count);
}
