/* SPDX-License-Identifier: Apache-2.0 */
/*
 * metrics.h - latency histograms, and the Prometheus text format
 */
#ifndef FKV_SVC_METRICS_H
#define FKV_SVC_METRICS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Buckets by powers of two: 1 us, 2 us, ... 2^24 us (about 17 s), +Inf. */
#define FKV_HISTOGRAM_BUCKETS	26u

struct fkv_histogram {
	uint64_t bucket[FKV_HISTOGRAM_BUCKETS];
	uint64_t count;
	uint64_t sum_ns;
};

void fkv_histogram_record(struct fkv_histogram *h, uint64_t ns);

/*
 * A text that grows. Without memory it stays broken, which done() tells; the
 * calls between need no check.
 */
struct fkv_text {
	char *data;
	size_t len, room;
	bool broken;
};

void fkv_text_add(struct fkv_text *t, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));
/* The text, to be freed, or NULL without memory. */
char *fkv_text_done(struct fkv_text *t);

/* HELP and TYPE; @type is counter, gauge or histogram. */
void fkv_metric_head(struct fkv_text *t, const char *name, const char *type,
		     const char *help);
/* One sample; @labels is "" or `{a="b"}`. */
void fkv_metric(struct fkv_text *t, const char *name, const char *labels,
		uint64_t value);
/* head and one sample */
void fkv_metric_one(struct fkv_text *t, const char *name, const char *type,
		    const char *help, uint64_t value);
/* Samples of a histogram in seconds; @label is `op="get"` or "". */
void fkv_metric_histogram(struct fkv_text *t, const char *name,
			  const char *label, const struct fkv_histogram *h);

#endif
