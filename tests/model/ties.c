// SPDX-License-Identifier: Apache-2.0
/*
 * A model of code that has changed proves nothing: each role's line must be in
 * its function still.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "model.h"

static char *read_source(const char *root, const char *name)
{
	size_t room = 1 << 18, n;
	char path[4096], *text;
	FILE *f;

	snprintf(path, sizeof(path), "%s/%s", root, name);
	f = fopen(path, "r");
	if (!f)
		return NULL;
	text = calloc(1, room);
	n = text ? fread(text, 1, room - 1, f) : 0;
	fclose(f);
	if (!n) {
		free(text);
		return NULL;
	}
	return text;
}

/* The text of a function: from its name at a definition to the closing brace */
static char *function_body(char *text, const char *name)
{
	char call[64], *at = text, *open, *end;

	snprintf(call, sizeof(call), "%s(", name);
	while ((at = strstr(at, call))) {
		open = strstr(at, "\n{");
		end = strchr(at, ';');
		/* a call or declaration ends before any body begins */
		if (at > text && (at[-1] == ' ' || at[-1] == '*') && open &&
		    open < end) {
			end = strstr(open, "\n}");
			if (end)
				*end = '\0';
			return open;
		}
		at++;
	}
	return NULL;
}

/* Line breaks of the code are not ours. */
static void squeeze(char *s)
{
	char *to = s;

	for (; *s; s++) {
		bool space = *s == ' ' || *s == '\t' || *s == '\n';

		if (!space)
			*to++ = *s;
		else if (to[-1] != ' ')
			*to++ = ' ';
	}
	*to = '\0';
}

static bool tied(const char *root, const struct role_info *r)
{
	char *text = read_source(root, r->file);
	char *body = text ? function_body(text, r->function) : NULL;
	bool ok;

	if (body)
		squeeze(body + 1);
	ok = body && strstr(body, r->text);
	if (!ok)
		printf("%s: %s() has no longer: %s\n", r->file, r->function,
		       r->text);
	free(text);
	return ok;
}

int check_ties(const char *root, unsigned int *ret_passed)
{
	int failed = 0;

	for (int r = R_BUCKET; r < NR_ROLES; r++) {
		if (tied(root, &roles[r]))
			++*ret_passed;
		else
			failed++;
	}
	return failed;
}
