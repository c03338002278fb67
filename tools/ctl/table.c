// SPDX-License-Identifier: Apache-2.0
/*
 * table.c - JSON for people
 */
#include <inttypes.h>
#include <stdbool.h>
#include <string.h>

#include "ctl/table.h"

#define CELL_MAX	2100u		/* an escaped key and more */

struct columns {
	const char *names[CTL_COLUMNS_MAX];
	int widths[CTL_COLUMNS_MAX];
	bool right[CTL_COLUMNS_MAX];	/* numbers */
	unsigned int n;
	bool more;			/* than CTL_COLUMNS_MAX */
};

static bool ends_with(const char *s, const char *end)
{
	size_t n = strlen(s), m = strlen(end);

	return n >= m && !strcmp(s + n - m, end);
}

static void print_bytes(uint64_t bytes, char *buf, size_t size)
{
	static const char *const units[] = { "KiB", "MiB", "GiB", "TiB",
					     "PiB" };
	double v = (double)bytes / 1024;
	unsigned int u = 0;

	if (bytes < 1024) {
		snprintf(buf, size, "%" PRIu64 " B", bytes);
		return;
	}
	while (v >= 1024 && u < 4) {
		v /= 1024;
		u++;
	}
	snprintf(buf, size, "%.2f %s", v, units[u]);
}

static void print_seconds(uint64_t s, char *buf, size_t size)
{
	if (s < 60)
		snprintf(buf, size, "%" PRIu64 " s", s);
	else if (s < 86400)
		snprintf(buf, size, "%" PRIu64 ":%02u:%02u", s / 3600,
			 (unsigned int)(s / 60 % 60), (unsigned int)(s % 60));
	else
		snprintf(buf, size, "%" PRIu64 " d %" PRIu64 ":%02u", s / 86400,
			 s / 3600 % 24, (unsigned int)(s / 60 % 60));
}

/* Bytes of a control character at @p: C0, DEL, or C1 in UTF-8; else 0. */
static size_t control_at(const unsigned char *p)
{
	if (*p < ' ' || *p == 0x7f)
		return 1;
	return *p == 0xc2 && p[1] >= 0x80 && p[1] < 0xa0 ? 2 : 0;
}

/* Bytes that would move the cursor or change its colour become '?'. */
static void print_text(const char *text, char *buf, size_t size)
{
	size_t i, n;

	for (i = 0; *text && i + 1 < size; i++) {
		n = control_at((const unsigned char *)text);
		buf[i] = n ? '?' : *text;
		text += n ? n : 1;
	}
	buf[i] = '\0';
}

char *ctl_table_cell(const char *field, struct json_object *v, char *buf,
		     size_t size)
{
	if (!v)
		snprintf(buf, size, "-");
	else if (json_object_is_type(v, json_type_boolean))
		snprintf(buf, size, json_object_get_boolean(v) ? "yes" : "no");
	else if (json_object_is_type(v, json_type_int) &&
		 ends_with(field, "bytes"))
		print_bytes(json_object_get_uint64(v), buf, size);
	else if (json_object_is_type(v, json_type_int) &&
		 ends_with(field, "_s"))
		print_seconds(json_object_get_uint64(v), buf, size);
	else if (json_object_is_type(v, json_type_string))
		print_text(json_object_get_string(v), buf, size);
	else
		print_text(json_object_to_json_string_ext(
				   v, CTL_JSON_FLAGS), buf, size);
	return buf;
}

static unsigned int column_of(struct columns *c, const char *name)
{
	unsigned int i;

	for (i = 0; i < c->n; i++)
		if (!strcmp(c->names[i], name))
			return i;
	if (c->n == CTL_COLUMNS_MAX) {
		c->more = true;
		return CTL_COLUMNS_MAX;
	}
	c->names[c->n] = name;
	c->widths[c->n] = (int)strlen(name);
	c->right[c->n] = true;
	return c->n++;
}

static void measure_row(struct columns *c, struct json_object *row)
{
	char cell[CELL_MAX];

	json_object_object_foreach(row, name, v) {
		unsigned int i = column_of(c, name);
		int width;

		if (i == CTL_COLUMNS_MAX)
			continue;
		width = (int)strlen(ctl_table_cell(name, v, cell,
						   sizeof(cell)));
		if (width > c->widths[i])
			c->widths[i] = width;
		if (v && !json_object_is_type(v, json_type_int) &&
		    !json_object_is_type(v, json_type_double))
			c->right[i] = false;
	}
}

static void print_cell(FILE *out, const struct columns *c, unsigned int i,
		       const char *cell)
{
	bool last = i + 1 == c->n;

	if (c->right[i])
		fprintf(out, "%*s%s", c->widths[i], cell, last ? "" : "  ");
	else if (last)
		fputs(cell, out);	/* no blanks at the end of a line */
	else
		fprintf(out, "%-*s  ", c->widths[i], cell);
}

static void print_row(FILE *out, const struct columns *c,
		      struct json_object *row)
{
	struct json_object *v;
	char cell[CELL_MAX];

	for (unsigned int i = 0; i < c->n; i++) {
		v = NULL;
		json_object_object_get_ex(row, c->names[i], &v);
		print_cell(out, c, i, ctl_table_cell(c->names[i], v, cell,
						     sizeof(cell)));
	}
	fputc('\n', out);
}

static void print_array(FILE *out, struct json_object *rows)
{
	size_t n = json_object_array_length(rows);
	struct columns c = { .n = 0 };
	struct json_object *row;
	char cell[CELL_MAX];

	for (size_t i = 0; i < n; i++) {
		row = json_object_array_get_idx(rows, i);
		if (json_object_is_type(row, json_type_object))
			measure_row(&c, row);
	}
	for (unsigned int i = 0; i < c.n; i++) {
		print_text(c.names[i], cell, sizeof(cell));
		print_cell(out, &c, i, cell);
	}
	if (c.n)
		fputc('\n', out);
	for (size_t i = 0; i < n; i++) {
		row = json_object_array_get_idx(rows, i);
		if (json_object_is_type(row, json_type_object))
			print_row(out, &c, row);
		else
			fprintf(out, "%s\n", ctl_table_cell("", row, cell,
							    sizeof(cell)));
	}
	if (c.more)
		fputs("(more fields: see --json)\n", out);
	if (!n)
		fputs("none\n", out);
}

static void print_object(FILE *out, struct json_object *o, int indent)
{
	char cell[CELL_MAX], field[128];

	json_object_object_foreach(o, name, v) {
		print_text(name, field, sizeof(field));
		if (json_object_is_type(v, json_type_object) && indent < 16) {
			fprintf(out, "%*s%s:\n", indent, "", field);
			print_object(out, v, indent + 2);
			continue;
		}
		if (json_object_is_type(v, json_type_array) &&
		    json_object_array_length(v) &&
		    json_object_is_type(json_object_array_get_idx(v, 0),
					json_type_object)) {
			fprintf(out, "%*s%s:\n", indent, "", field);
			print_array(out, v);
			continue;
		}
		fprintf(out, "%*s%-*s  %s\n", indent, "", 24 - indent, field,
			ctl_table_cell(name, v, cell, sizeof(cell)));
	}
}

void ctl_table(FILE *out, struct json_object *o)
{
	char cell[CELL_MAX];

	if (json_object_is_type(o, json_type_array))
		print_array(out, o);
	else if (json_object_is_type(o, json_type_object))
		print_object(out, o, 0);
	else
		fprintf(out, "%s\n", ctl_table_cell("", o, cell, sizeof(cell)));
}
