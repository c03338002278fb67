/* SPDX-License-Identifier: Apache-2.0 */
/*
 * report.h - results: JSON lines for programs, a table for people
 *
 * A row is a JSON object. Each is printed as soon as it is there (--json) and
 * kept for the table, which shows the columns that the subcommand chose. With
 * --json the table goes to stderr, so that stdout holds nothing but JSON.
 */
#ifndef FKV_BENCH_REPORT_H
#define FKV_BENCH_REPORT_H

#include <stdbool.h>
#include <stdint.h>

#include <json-c/json.h>

#include "bench/hist.h"

enum bench_column_kind {
	BENCH_COL_TEXT,
	BENCH_COL_COUNT,
	BENCH_COL_BYTES,
	BENCH_COL_NUMBER,		/* 3 decimals */
	BENCH_COL_PERCENT,		/* of a ratio 0..1 */
	BENCH_COL_NS,			/* with a fitting unit */
};

struct bench_column {
	const char *field;
	const char *title;
	enum bench_column_kind kind;
};

struct bench_report {
	const char *name;		/* field "benchmark" of each row */
	const struct bench_column *columns;	/* ended by one without field */
	struct json_object *rows;
	bool json;
	bool progress;			/* stderr is a terminal, not quiet */
	bool failed;			/* a row was bad: exit 1 */
};

/* 0 or -ENOMEM. */
int bench_report_init(struct bench_report *r, const char *name,
		      const struct bench_column *columns, bool json,
		      bool quiet);

/* Takes @row over; NULL (no memory) fails the report. */
void bench_report_row(struct bench_report *r, struct json_object *row);

/* Print the table and free. Returns the exit status: 0 or 1. */
int bench_report_done(struct bench_report *r);

/* A sentence on stderr that also makes the exit status 1. */
void bench_report_fail(struct bench_report *r, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));

/* A sentence on stderr that does not. */
void bench_report_note(struct bench_report *r, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));

/* Overwritten by the next one; only on a terminal. "" clears. */
void bench_report_progress(struct bench_report *r, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));

/* Setters; the object may be NULL. */
void bench_row_text(struct json_object *row, const char *field,
		    const char *text);
void bench_row_count(struct json_object *row, const char *field,
		     uint64_t value);
void bench_row_number(struct json_object *row, const char *field, double value);
void bench_row_bool(struct json_object *row, const char *field, bool value);
/* latency_{p50,p95,p99,p99_9,max,mean}_ns and latency_count. */
void bench_row_latency(struct json_object *row, const struct bench_hist *h);

#endif
