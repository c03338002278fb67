// SPDX-License-Identifier: Apache-2.0
/*
 * A model of code that has changed proves nothing: each role's line must be in
 * its function still, outside of comments, and what the model takes to come
 * first must come first. What the words mean is looked at, too.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "model.h"

#define LIB	"tools/lib/pins.c"
#define IDX	"daemon/io/index.c"

/* Words of a file, or of one of its functions, in this order. */
struct sequence {
	const char *file, *function;	/* NULL: anywhere */
	const char *words[6];
};

static const struct sequence sequences[] = {
	{ LIB, NULL, { "#define load_relaxed(p) __atomic_load_n(p, "
		       "__ATOMIC_RELAXED)" } },
	{ LIB, NULL, { "#define load_acquire(p) __atomic_load_n(p, "
		       "__ATOMIC_ACQUIRE)" } },
	{ LIB, NULL, { "#define store_release(p, v) __atomic_store_n(p, v, "
		       "__ATOMIC_RELEASE)" } },
	{ IDX, NULL, { "#define LOAD_RELAXED(p) __atomic_load_n(p, "
		       "__ATOMIC_RELAXED)" } },
	{ IDX, NULL, { "#define LOAD_ACQUIRE(p) __atomic_load_n(p, "
		       "__ATOMIC_ACQUIRE)" } },
	{ IDX, NULL, { "#define STORE_RELAXED(p, v) __atomic_store_n(p, v, "
		       "__ATOMIC_RELAXED)" } },
	{ IDX, NULL, { "#define STORE_RELEASE(p, v) __atomic_store_n(p, v, "
		       "__ATOMIC_RELEASE)" } },
	{ LIB, "take_slot", { "raise_high_water(",
			      "__atomic_compare_exchange_n(&pins->slots[at]" } },
	{ LIB, "raise_high_water", { "__atomic_compare_exchange_n(",
				     "store_release(&pins->high_water" } },
	{ LIB, "pin_entry", { "load_acquire(&e->gen)", "key_equal(",
			      "load_relaxed(&e->offset)", "pin_gen(" } },
	{ LIB, "pin_gen", { "take_slot(", "__atomic_thread_fence(",
			    "load_acquire(&e->gen)" } },
	{ LIB, "fkv_pins_get", { "find(", "may_serve(" } },
	{ IDX, "fkv_index_publish", { "fill(to, e)", "STORE_RELEASE(&to->gen",
				      "STORE_RELEASE(slot" } },
	{ IDX, "fkv_index_retire", { "kill_entry(", "atomic_thread_fence(" } },
	{ IDX, "fkv_index_evict", { "stamp_pins(ix)", "kill_entry(",
				    "atomic_thread_fence(", "stamp_pins(ix)",
				    "slot_free(" } },
	{ IDX, "fkv_index_scan", { "atomic_thread_fence(", "stamp_pins(ix)",
				   "slot_free(" } },
};

/* A line that is commented out is gone. */
static void blank_comments(char *s)
{
	while (*s) {
		char *end = NULL;

		if (s[0] == '/' && s[1] == '*')
			end = strstr(s + 2, "*/");
		else if (s[0] == '/' && s[1] == '/')
			end = strchr(s, '\n');
		if (!end) {
			s++;
			continue;
		}
		for (end += *end == '*' ? 2 : 0; s < end; s++)
			if (*s != '\n')
				*s = ' ';
	}
}

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
	blank_comments(text);
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

static bool in_order(const char *root, const struct sequence *o)
{
	char *text = read_source(root, o->file), *at = text;
	bool ok = text != NULL;

	if (ok && o->function)
		at = function_body(text, o->function);
	if (at)
		squeeze(at + 1);
	for (size_t i = 0; at && i < 6 && o->words[i]; i++) {
		at = strstr(at, o->words[i]);
		if (at)
			at++;
	}
	ok = ok && at;
	if (!ok)
		printf("%s: %s: not in this order: %s ...\n", o->file,
		       o->function ? o->function : "macro", o->words[0]);
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
	for (size_t i = 0; i < sizeof(sequences) / sizeof(sequences[0]); i++) {
		if (in_order(root, &sequences[i]))
			++*ret_passed;
		else
			failed++;
	}
	return failed;
}
