/* SPDX-License-Identifier: Apache-2.0 */
/*
 * table.h - JSON for people
 *
 * An array of objects becomes a table whose columns are the fields in the
 * order in which they first appear; an object a list of "name: value". Every
 * field is shown, so that one that this version does not know is not lost.
 */
#ifndef FKV_CTL_TABLE_H
#define FKV_CTL_TABLE_H

#include <stdio.h>

#include <json-c/json.h>

/* One line, slashes as they are. */
#define CTL_JSON_FLAGS	(JSON_C_TO_STRING_PLAIN | \
			 JSON_C_TO_STRING_NOSLASHESCAPE)

#define CTL_COLUMNS_MAX	32u

/* Fields named *bytes, *_s get units. Strings cannot move the cursor. */
void ctl_table(FILE *out, struct json_object *o);

/* One value as in a table; @buf of @size bytes. Returns @buf. */
char *ctl_table_cell(const char *field, struct json_object *v, char *buf,
		     size_t size);

#endif
