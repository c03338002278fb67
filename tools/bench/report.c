// SPDX-License-Identifier: Apache-2.0
/*
 * report.c - JSON lines and the table
 */
#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

#include <fluxonkv.h>

#include "bench/bench.h"
#include "bench/report.h"

#define CELL_MAX	64u
#define COLUMNS_MAX	24u

int bench_report_init(struct bench_report *r, const char *name,
		      const struct bench_column *columns, bool json,
		      bool quiet)
{
	*r = (struct bench_report){
		.name = name,
		.columns = columns,
		.json = json,
		.progress = !quiet && isatty(STDERR_FILENO),
	};
	r->rows = json_object_new_array();
	return r->rows ? 0 : -ENOMEM;
}

void bench_row_text(struct json_object *row, const char *field,
		    const char *text)
{
	if (row)
		json_object_object_add(row, field, text ?
				       json_object_new_string(text) : NULL);
}

void bench_row_count(struct json_object *row, const char *field, uint64_t value)
{
	if (row)
		json_object_object_add(row, field,
				       json_object_new_uint64(value));
}

void bench_row_number(struct json_object *row, const char *field, double value)
{
	char text[40];

	if (!row)
		return;
	/* json-c would print 17 digits; six significant ones are honest. */
	snprintf(text, sizeof(text), "%.6g", value);
	json_object_object_add(row, field,
			       json_object_new_double_s(value, text));
}

void bench_row_bool(struct json_object *row, const char *field, bool value)
{
	if (row)
		json_object_object_add(row, field,
				       json_object_new_boolean(value));
}

void bench_row_latency(struct json_object *row, const struct bench_hist *h)
{
	static const struct {
		const char *field;
		double q;
	} quantiles[] = {
		{ "latency_p50_ns", 0.5 },   { "latency_p95_ns", 0.95 },
		{ "latency_p99_ns", 0.99 },  { "latency_p99_9_ns", 0.999 },
		{ "latency_max_ns", 1 },
	};

	for (unsigned int i = 0; i < 5; i++)
		bench_row_count(row, quantiles[i].field,
				bench_hist_quantile(h, quantiles[i].q));
	bench_row_number(row, "latency_mean_ns", bench_hist_mean(h));
	bench_row_count(row, "latency_count", h->count);
}

void bench_row_cpu(struct json_object *row, const struct bench_outcome *o)
{
	double gib = (double)o->all.bytes / (double)BENCH_GIB;
	double daemon = o->daemon_cpu_s > 0 ? o->daemon_cpu_s : 0;

	bench_row_number(row, "client_cpu_seconds", o->client_cpu_s);
	if (o->daemon_cpu_s < 0)
		bench_row_text(row, "daemon_cpu_seconds", NULL);
	else
		bench_row_number(row, "daemon_cpu_seconds", daemon);
	bench_row_bool(row, "cpu_includes_daemon", o->daemon_cpu_s >= 0);
	if (gib > 0)
		bench_row_number(row, "cpu_seconds_per_gib",
				 (o->client_cpu_s + daemon) / gib);
	else
		bench_row_text(row, "cpu_seconds_per_gib", NULL);
}

static void add_host(struct json_object *row)
{
	struct utsname u;
	struct timespec now;

	if (!uname(&u)) {
		bench_row_text(row, "host_name", u.nodename);
		bench_row_text(row, "host_kernel", u.release);
		bench_row_text(row, "host_machine", u.machine);
	}
	bench_row_count(row, "host_cpus",
			(uint64_t)sysconf(_SC_NPROCESSORS_ONLN));
	clock_gettime(CLOCK_REALTIME, &now);
	bench_row_count(row, "time_unix", (uint64_t)now.tv_sec);
	bench_row_text(row, "fluxonkv_version", fluxonkv_version());
}

void bench_report_row(struct bench_report *r, struct json_object *row)
{
	bench_report_progress(r, "%s", "");
	if (!row) {
		bench_report_fail(r, "no memory for a row of the result");
		return;
	}
	bench_row_text(row, "benchmark", r->name);
	add_host(row);
	json_object_array_add(r->rows, row);
	if (!r->json)
		return;
	puts(json_object_to_json_string_ext(row, JSON_C_TO_STRING_PLAIN |
					    JSON_C_TO_STRING_NOSLASHESCAPE));
	fflush(stdout);
}

static void say(struct bench_report *r, const char *fmt, va_list ap)
{
	bench_report_progress(r, "%s", "");
	fprintf(stderr, "fluxonkv-bench %s: ", r->name);
	vfprintf(stderr, fmt, ap);
	fputc('\n', stderr);
}

void bench_report_fail(struct bench_report *r, const char *fmt, ...)
{
	va_list ap;

	r->failed = true;
	va_start(ap, fmt);
	say(r, fmt, ap);
	va_end(ap);
}

void bench_report_note(struct bench_report *r, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	say(r, fmt, ap);
	va_end(ap);
}

void bench_report_progress(struct bench_report *r, const char *fmt, ...)
{
	va_list ap;

	if (!r->progress)
		return;
	fputs("\r\033[K", stderr);
	va_start(ap, fmt);
	vfprintf(stderr, fmt, ap);
	va_end(ap);
	fflush(stderr);
}

static void print_ns(char *cell, double ns)
{
	static const char *const units[] = { "ns", "us", "ms", "s" };
	unsigned int u = 0;

	while (ns >= 1000 && u < 3) {
		ns /= 1000;
		u++;
	}
	snprintf(cell, CELL_MAX, u ? "%.1f %s" : "%.0f %s", ns, units[u]);
}

static void print_bytes(char *cell, double bytes)
{
	static const char *const units[] = { "B", "KiB", "MiB", "GiB", "TiB" };
	unsigned int u = 0;

	while (bytes >= 1024 && u < 4) {
		bytes /= 1024;
		u++;
	}
	snprintf(cell, CELL_MAX, "%.4g %s", bytes, units[u]);
}

static void print_cell(char *cell, struct json_object *row,
		       const struct bench_column *c)
{
	struct json_object *v = NULL;

	if (!json_object_object_get_ex(row, c->field, &v) || !v) {
		strcpy(cell, "-");
		return;
	}
	switch (c->kind) {
	case BENCH_COL_TEXT:
		snprintf(cell, CELL_MAX, "%s", json_object_get_string(v));
		break;
	case BENCH_COL_COUNT:
		snprintf(cell, CELL_MAX, "%" PRIu64, json_object_get_uint64(v));
		break;
	case BENCH_COL_BYTES:
		print_bytes(cell, json_object_get_double(v));
		break;
	case BENCH_COL_NUMBER:
		snprintf(cell, CELL_MAX, "%.3f", json_object_get_double(v));
		break;
	case BENCH_COL_PERCENT:
		snprintf(cell, CELL_MAX, "%.2f %%",
			 100 * json_object_get_double(v));
		break;
	case BENCH_COL_NS:
		print_ns(cell, json_object_get_double(v));
		break;
	}
}

static void measure(struct bench_report *r, int *widths)
{
	size_t rows = json_object_array_length(r->rows);
	char cell[CELL_MAX];

	for (unsigned int c = 0; r->columns[c].field; c++) {
		widths[c] = (int)strlen(r->columns[c].title);
		for (size_t i = 0; i < rows; i++) {
			print_cell(cell, json_object_array_get_idx(r->rows, i),
				   &r->columns[c]);
			if ((int)strlen(cell) > widths[c])
				widths[c] = (int)strlen(cell);
		}
	}
}

static void print_line(FILE *out, struct bench_report *r, const int *widths,
		       struct json_object *row)
{
	char cell[CELL_MAX];

	for (unsigned int c = 0; r->columns[c].field; c++) {
		const struct bench_column *col = &r->columns[c];

		if (row)
			print_cell(cell, row, col);
		else
			snprintf(cell, sizeof(cell), "%s", col->title);
		if (col->kind != BENCH_COL_TEXT)
			fprintf(out, "%s%*s", c ? "  " : "", widths[c], cell);
		else	/* no blanks at the end of a line */
			fprintf(out, "%s%-*s", c ? "  " : "",
				col[1].field ? widths[c] : 0, cell);
	}
	fputc('\n', out);
}

static void print_table(struct bench_report *r)
{
	size_t rows = json_object_array_length(r->rows);
	FILE *out = r->json ? stderr : stdout;
	int widths[COLUMNS_MAX] = { 0 };

	if (!rows)
		return;
	measure(r, widths);
	print_line(out, r, widths, NULL);
	for (size_t i = 0; i < rows; i++)
		print_line(out, r, widths,
			   json_object_array_get_idx(r->rows, i));
	fflush(out);
}

int bench_report_done(struct bench_report *r)
{
	bench_report_progress(r, "%s", "");
	print_table(r);
	json_object_put(r->rows);
	r->rows = NULL;
	return r->failed ? 1 : 0;
}
