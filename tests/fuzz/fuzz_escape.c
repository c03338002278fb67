// SPDX-License-Identifier: Apache-2.0
/*
 * fuzz_escape.c - what fluxonkvctl prints
 *
 * The input is a key: escaped, it is printable, the key again, and valid JSON.
 * It is also text with escapes, and JSON of a daemon: as a table it cannot
 * move the cursor.
 */
#include <errno.h>

#include "ctl/escape.h"
#include "ctl/table.h"

#include "fuzz/fuzz.h"

static char *escape(const void *key, size_t len)
{
	char *text = fuzz_alloc(4 * len + 1);

	fuzz_check(ctl_escape(text, key, len) == text);
	fuzz_check(strlen(text) >= len);
	for (const char *p = text; *p; p++)
		fuzz_check(*p >= ' ' && *p < 0x7f);
	return text;
}

static struct json_object *parse(const char *text, size_t len)
{
	struct json_tokener *tok = json_tokener_new();
	struct json_object *o;

	fuzz_check(tok);
	json_tokener_set_flags(tok, JSON_TOKENER_STRICT |
			       JSON_TOKENER_VALIDATE_UTF8);
	o = json_tokener_parse_ex(tok, text, (int)len);
	json_tokener_free(tok);
	return o;
}

static void check_json(const char *escaped)
{
	struct json_object *o = json_object_new_object(), *again, *key;
	const char *text;

	json_object_object_add(o, "key", json_object_new_string(escaped));
	text = json_object_to_json_string_ext(o, CTL_JSON_FLAGS);
	again = parse(text, strlen(text) + 1);
	fuzz_check(again && json_object_object_length(again) == 1);
	fuzz_check(json_object_object_get_ex(again, "key", &key));
	fuzz_check(!strcmp(json_object_get_string(key), escaped));
	json_object_put(again);
	json_object_put(o);
}

static void check_key(const uint8_t *data, size_t size)
{
	size_t len = size < CTL_KEY_MAX ? size : CTL_KEY_MAX, len_again;
	uint8_t *key = fuzz_copy(data, len);
	char *text = escape(key, len), *again = fuzz_alloc(CTL_KEY_MAX);

	fuzz_check(!ctl_unescape(text, again, &len_again));
	fuzz_check(len_again == len && !memcmp(again, key, len));
	check_json(text);
	free(again);
	free(text);
	free(key);
}

/* What is taken is a key, whose own form means the same. */
static void check_text(const uint8_t *data, size_t size)
{
	char *text = fuzz_string(data, size), *key = fuzz_alloc(CTL_KEY_MAX);
	size_t len = 0;
	int err = ctl_unescape(text, key, &len);

	if (!err) {
		fuzz_check(len <= CTL_KEY_MAX && len <= strlen(text));
		check_key((const uint8_t *)key, len);
	} else {
		fuzz_check(err == -EINVAL || err == -E2BIG);
		fuzz_check(err != -E2BIG || strlen(text) > CTL_KEY_MAX);
	}
	free(key);
	free(text);
}

/* C0, DEL, and C1 in UTF-8: a terminal takes U+009B for ESC [. */
static bool moves_cursor(const unsigned char *p)
{
	return (*p < ' ' && *p != '\n') || *p == 0x7f ||
	       (*p == 0xc2 && p[1] >= 0x80 && p[1] < 0xa0);
}

static void check_table(const uint8_t *data, size_t size)
{
	char *text = fuzz_string(data, size), *out = NULL;
	struct json_object *o = parse(text, strlen(text) + 1);
	size_t out_size;
	FILE *f;

	if (o) {
		f = open_memstream(&out, &out_size);
		fuzz_check(f);
		ctl_table(f, o);
		fuzz_check(!fclose(f) && strlen(out) == out_size);
		for (const char *p = out; *p; p++)
			fuzz_check(!moves_cursor((const unsigned char *)p));
		fuzz_check(!out_size || out[out_size - 1] == '\n');
	}
	free(out);
	json_object_put(o);
	free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	check_key(data, size);
	check_text(data, size);
	check_table(data, size);
	return 0;
}
