// SPDX-License-Identifier: Apache-2.0
/*
 * traces.c - the tracepoints are an ABI: their fields, and that they come
 */
#include "common.h"

#define TRACING	"/sys/kernel/tracing/"
#define NAME	"traces"

static struct owner owner;

/* name, and type and name of each field in their order */
static const char *const formats[] = {
	"fluxonkv_get: u64 session; u32 hash; u64 put_id; u64 len; int hit;",
	"fluxonkv_hold: u64 session; u64 holder; u32 hash; u64 put_id; "
	"u64 len;",
	"fluxonkv_release: u64 session; u64 holder; u32 hash; u64 put_id; "
	"u64 len; u64 age_ns;",
	"fluxonkv_put: u64 session; u64 put; u64 offset; u64 len; "
	"int result;",
	"fluxonkv_publish: u32 hash; u64 put_id; u64 offset; u64 len; "
	"int result;",
	"fluxonkv_retire: u32 hash; u64 put_id; u64 offset; u64 len; "
	"int result;",
	"fluxonkv_wait: u64 session; u64 cookie; u32 op; int result; u64 ns;",
};

static void read_file(const char *name, char *to, size_t size)
{
	int fd = open(name, O_RDONLY | O_CLOEXEC);
	size_t n = 0;
	ssize_t got;

	CHECK(fd >= 0);
	while ((got = read(fd, to + n, size - 1 - n)) > 0)
		n += (size_t)got;
	to[n] = 0;
	close(fd);
}

static void write_file(const char *name, const char *text)
{
	int fd = open(name, O_WRONLY | O_TRUNC | O_CLOEXEC);

	CHECK(fd >= 0);
	EQ(write(fd, text, strlen(text)), strlen(text));
	close(fd);
}

static void format_of(const char *event, char *ret, size_t size)
{
	char name[128], text[4096], *line, *save;
	size_t n;

	snprintf(name, sizeof(name), TRACING "events/fluxonkv/%s/format",
		 event);
	read_file(name, text, sizeof(text));
	n = (size_t)snprintf(ret, size, "%s:", event);
	for (line = strtok_r(text, "\n", &save); line;
	     line = strtok_r(NULL, "\n", &save)) {
		char type[64], field[64];

		if (sscanf(line, " field:%63[^;]", field) != 1 ||
		    strstr(field, " common_"))
			continue;
		EQ(sscanf(line, " field:%63s %63[^;]", type, field), 2);
		n += (size_t)snprintf(ret + n, size - n, " %s %s;", type,
				      field);
	}
}

static void formats_are_what_they_were(void)
{
	char is[512];

	for (u32 i = 0; i < ARRAY_SIZE(formats); i++) {
		char event[64];

		EQ(sscanf(formats[i], "%63[^:]", event), 1);
		format_of(event, is, sizeof(is));
		if (strcmp(is, formats[i]))
			test_fail(__FILE__, __LINE__, "\"%s\", not \"%s\"",
				  is, formats[i]);
	}
}

/* Once: a line with all of @what. */
static void came(const char *trace, const char *event, const char *what)
{
	const char *at = strstr(trace, event);

	if (!at || !strstr(at, what))
		test_fail(__FILE__, __LINE__, "no %s %s in:\n%s", event,
			  what, trace);
}

static void each_event_comes_with_its_numbers(void)
{
	static char trace[65536];
	struct fluxonkv_result res, put;
	struct client c;
	char id[64];

	write_file(TRACING "trace", "\n");
	write_file(TRACING "events/fluxonkv/enable", "1");
	owner_start(&owner, NAME, 4 * MIB);
	owner_serve(&owner);
	client_start(&c, NAME);
	EQ(get(&c, "k", &res), -ENOENT);
	EQ(put_begin(&c, "k", 5000, &put), 0);
	EQ(put_commit(&c, put.id), 0);
	EQ(get(&c, "k", &res), 0);
	EQ(owner_retire(&owner, "k", put.id), FLUXONKV_HELD);
	EQ(release(&c, res.id), 0);
	write_file(TRACING "events/fluxonkv/enable", "0");
	read_file(TRACING "trace", trace, sizeof(trace));
	came(trace, "fluxonkv_get: ", "put_id=0 len=0 hit=0");
	came(trace, "fluxonkv_wait: ", "op=2 result=0");
	came(trace, "fluxonkv_wait: ", "op=4 result=0");
	came(trace, "fluxonkv_put: ", "put=1 offset=0 len=5000 result=0");
	came(trace, "fluxonkv_publish: ",
	     "put_id=1 offset=0 len=5000 result=0");
	came(trace, "fluxonkv_get: ", "put_id=1 len=5000 hit=1");
	came(trace, "fluxonkv_retire: ",
	     "put_id=1 offset=0 len=5000 result=1");
	snprintf(id, sizeof(id), "session=%lu holder=%llu hash=", c.id,
		 res.id);
	came(trace, "fluxonkv_hold: ", id);
	came(trace, "fluxonkv_release: ", id);
	came(trace, "fluxonkv_release: ", "age_ns=");
}

int main(int argc, char **argv)
{
	static const struct test tests[] = {
		TEST(formats_are_what_they_were),
		TEST(each_event_comes_with_its_numbers),
	};

	return TESTS_RUN(tests, argc, argv);
}
