// SPDX-License-Identifier: Apache-2.0
/*
 * keys.c - commands on keys and values
 */
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "ctl/ctl.h"
#include "ctl/table.h"

#define READ_FIRST	(1u << 16)
#define READ_MOST	(1ULL << 30)	/* a device that never ends */
#define LIST_PAGE	1000u
#define LIST_DEFAULT	1000u
#define WRITE_MAX	(1u << 30)

/* All of @fd, a pipe perhaps. 0 or -errno. */
static int read_all(int fd, char **ret_data, size_t *ret_len)
{
	size_t room = READ_FIRST, have = 0;
	char *data = malloc(room), *bigger;
	ssize_t n = -1;

	while (data) {
		n = read(fd, data + have, room - have);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			break;
		have += (size_t)n;
		if (have < room)
			continue;
		if (room >= READ_MOST) {
			free(data);
			return -EFBIG;
		}
		room *= 2;
		bigger = realloc(data, room);
		if (!bigger)
			break;
		data = bigger;
	}
	if (!data || n) {
		n = !data || n > 0 ? -ENOMEM : -errno;
		free(data);
		return (int)n;
	}
	*ret_data = data;
	*ret_len = have;
	return 0;
}

static int read_file(const char *path, char **ret_data, size_t *ret_len)
{
	int fd, res;

	if (!path || !strcmp(path, "-"))
		return read_all(STDIN_FILENO, ret_data, ret_len);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	res = read_all(fd, ret_data, ret_len);
	close(fd);
	return res;
}

static int write_all(int fd, const char *data, uint64_t len)
{
	ssize_t n;

	while (len) {
		n = write(fd, data, len < WRITE_MAX ? len : WRITE_MAX);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		data += n;
		len -= (uint64_t)n;
	}
	return 0;
}

static int put_options(struct ctl *c, int argc, char **argv,
		       unsigned int *flags)
{
	static const struct option options[] = {
		{ "excl", no_argument, NULL, 'x' },
		{ "nowait", no_argument, NULL, 'n' },
		{ "memory-only", no_argument, NULL, 'm' },
		{ NULL, 0, NULL, 0 },
	};
	int opt;

	while ((opt = getopt_long(argc, argv, "", options, NULL)) != -1) {
		if (opt == 'x')
			*flags |= FLUXONKV_EXCL;
		else if (opt == 'n')
			*flags |= FLUXONKV_NOWAIT;
		else if (opt == 'm')
			*flags |= FLUXONKV_MEMORY_ONLY;
		else
			return ctl_usage(c, "unknown option '%s'",
					 argv[optind - 1]);
	}
	if (argc - optind < 1 || argc - optind > 2)
		return ctl_usage(c, "expected KEY and a file at most");
	return CTL_OK;
}

static struct json_object *row_new(const char *key, size_t len)
{
	struct json_object *row = json_object_new_object();
	char escaped[CTL_ESCAPED_MAX];

	json_object_object_add(row, "key", json_object_new_string(
		ctl_escape(escaped, key, len)));
	return row;
}

static void report_put(const struct ctl_key *key, uint64_t len)
{
	struct json_object *o = row_new(key->bytes, key->len);

	json_object_object_add(o, "len", json_object_new_uint64(len));
	ctl_print_json(o);
}

int ctl_put(struct ctl *c, int argc, char **argv)
{
	const char *path;
	struct ctl_key key;
	unsigned int flags = 0;
	size_t len;
	char *data;
	int status, res;

	status = put_options(c, argc, argv, &flags);
	if (!status)
		status = ctl_key(c, argv[optind], &key);
	if (status)
		return status;
	path = argv[optind + 1];
	res = read_file(path, &data, &len);
	if (res)
		return ctl_fail(c, "%s: %s", path ? path : "stdin",
				strerror(-res));
	status = ctl_open(c);
	if (!status) {
		res = fluxonkv_put(c->client, key.bytes, key.len, data, len,
				   flags);
		if (res)
			status = ctl_error(c, key.text, res);
		else if (c->json)
			report_put(&key, len);
	}
	free(data);
	return status;
}

static int get_options(struct ctl *c, int argc, char **argv,
		       const char **ret_path)
{
	static const struct option options[] = {
		{ "output", required_argument, NULL, 'o' },
		{ NULL, 0, NULL, 0 },
	};
	int opt;

	while ((opt = getopt_long(argc, argv, "o:", options, NULL)) != -1) {
		if (opt != 'o')
			return ctl_usage(c, "unknown option or missing value: "
					 "'%s'", argv[optind - 1]);
		*ret_path = optarg;
	}
	if (argc - optind != 1)
		return ctl_usage(c, "expected one KEY");
	return CTL_OK;
}

/* Standard output, or a file that is whole or not there. */
static int save(struct ctl *c, const char *path,
		const struct fluxonkv_holder *h)
{
	int fd, res;

	if (!path || !strcmp(path, "-")) {
		res = write_all(STDOUT_FILENO, h->data, h->len);
		return res ? ctl_fail(c, "stdout: %s", strerror(-res)) : CTL_OK;
	}
	fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
	if (fd < 0)
		return ctl_fail(c, "%s: %s", path, strerror(errno));
	res = write_all(fd, h->data, h->len);
	if (close(fd) && !res)
		res = -errno;
	if (!res)
		return CTL_OK;
	unlink(path);
	return ctl_fail(c, "%s: %s", path, strerror(-res));
}

static void report_get(const struct ctl *c, const struct ctl_key *key,
		       const struct fluxonkv_holder *h)
{
	struct json_object *o;

	if (!c->json)
		return;
	o = row_new(key->bytes, key->len);
	json_object_object_add(o, "len", json_object_new_uint64(h->len));
	json_object_object_add(o, "version",
			       json_object_new_uint64(h->version));
	json_object_object_add(o, "source", json_object_new_string(
		fluxonkv_served_name(h->source)));
	ctl_print_json(o);
}

int ctl_get(struct ctl *c, int argc, char **argv)
{
	struct fluxonkv_holder h;
	const char *path = NULL;
	struct ctl_key key;
	int status, res;

	status = get_options(c, argc, argv, &path);
	if (!status && c->json && (!path || !strcmp(path, "-")))
		status = ctl_usage(c, "--json needs -o FILE, for the value "
				   "goes to stdout otherwise");
	if (!status)
		status = ctl_key(c, argv[optind], &key);
	if (!status)
		status = ctl_open(c);
	if (status)
		return status;
	res = fluxonkv_get(c->client, key.bytes, key.len, &h);
	if (res)
		return ctl_error(c, key.text, res);
	status = save(c, path, &h);
	if (!status)
		report_get(c, &key, &h);
	fluxonkv_release(c->client, &h);
	return status;
}

/* All keys are checked before the first is used. */
static int parse_keys(struct ctl *c, int argc, char **argv,
		      struct ctl_key **ret)
{
	struct ctl_key *keys;
	int status = ctl_arguments(c, argc, argv, 1, 1024);

	if (status)
		return status;
	keys = calloc((size_t)argc - 1, sizeof(*keys));
	if (!keys)
		return ctl_fail(c, "out of memory");
	for (int i = 1; i < argc && !status; i++)
		status = ctl_key(c, argv[i], &keys[i - 1]);
	if (!status)
		status = ctl_open(c);
	if (status)
		free(keys);
	else
		*ret = keys;
	return status;
}

static void row_stat(struct json_object *row, uint64_t len, uint64_t version,
		     unsigned int where)
{
	json_object_object_add(row, "len", json_object_new_uint64(len));
	json_object_object_add(row, "version", json_object_new_uint64(version));
	json_object_object_add(row, "where",
			       json_object_new_string(ctl_where(where)));
}

static void print_rows(const struct ctl *c, struct json_object *rows)
{
	if (c->json)
		puts(json_object_to_json_string_ext(rows,
						    CTL_JSON_FLAGS));
	else if (json_object_array_length(rows))
		ctl_table(stdout, rows);
	json_object_put(rows);
}

int ctl_del(struct ctl *c, int argc, char **argv)
{
	struct json_object *rows;
	struct ctl_key *keys;
	int status = parse_keys(c, argc, argv, &keys), res;

	if (status)
		return status;
	rows = json_object_new_array();
	for (int i = 0; i < argc - 1; i++) {
		struct json_object *row = row_new(keys[i].bytes, keys[i].len);

		res = fluxonkv_delete(c->client, keys[i].bytes, keys[i].len);
		if (res)
			status = ctl_error(c, keys[i].text, res);
		json_object_object_add(row, "deleted",
				       json_object_new_boolean(!res));
		json_object_array_add(rows, row);
	}
	if (c->json)
		print_rows(c, rows);
	else
		json_object_put(rows);
	free(keys);
	return status;
}

int ctl_exists(struct ctl *c, int argc, char **argv)
{
	struct json_object *rows;
	struct ctl_key *keys;
	int status = parse_keys(c, argc, argv, &keys), res;

	if (status)
		return status;
	rows = json_object_new_array();
	for (int i = 0; i < argc - 1; i++) {
		struct json_object *row = row_new(keys[i].bytes, keys[i].len);

		res = fluxonkv_exists(c->client, keys[i].bytes, keys[i].len);
		if (res && res != -ENOENT)
			(void)ctl_error(c, keys[i].text, res);
		if (res)
			status = CTL_FAILED;
		json_object_object_add(row, "exists",
				       json_object_new_boolean(!res));
		json_object_array_add(rows, row);
	}
	print_rows(c, rows);
	free(keys);
	return status;
}

int ctl_stat(struct ctl *c, int argc, char **argv)
{
	struct fluxonkv_stat st;
	struct json_object *rows;
	struct ctl_key *keys;
	int status = parse_keys(c, argc, argv, &keys), res;

	if (status)
		return status;
	rows = json_object_new_array();
	for (int i = 0; i < argc - 1; i++) {
		struct json_object *row;

		res = fluxonkv_stat(c->client, keys[i].bytes, keys[i].len, &st);
		if (res) {
			status = ctl_error(c, keys[i].text, res);
			continue;
		}
		row = row_new(keys[i].bytes, keys[i].len);
		row_stat(row, st.len, st.version, st.where);
		json_object_array_add(rows, row);
	}
	print_rows(c, rows);
	free(keys);
	return status;
}

struct listing {
	struct ctl_key prefix;
	uint64_t limit;			/* UINT64_MAX: all */
	struct fluxonkv_listed_key *page;
	struct fluxonkv_key cursor;
	char last[CTL_KEY_MAX];
	bool more;			/* than the limit */
};

static int list_options(struct ctl *c, int argc, char **argv,
			struct listing *l)
{
	static const struct option options[] = {
		{ "limit", required_argument, NULL, 'l' },
		{ "all", no_argument, NULL, 'a' },
		{ NULL, 0, NULL, 0 },
	};
	int opt, status;

	while ((opt = getopt_long(argc, argv, "", options, NULL)) != -1) {
		if (opt == 'a') {
			l->limit = UINT64_MAX;
			continue;
		}
		if (opt != 'l')
			return ctl_usage(c, "unknown option or missing value: "
					 "'%s'", argv[optind - 1]);
		status = ctl_number(c, "--limit", optarg, UINT64_MAX - 1,
				    &l->limit);
		if (status)
			return status;
	}
	if (argc - optind > 1)
		return ctl_usage(c, "expected one PREFIX at most");
	if (optind == argc || !argv[optind][0])
		return CTL_OK;
	return ctl_key(c, argv[optind], &l->prefix);
}

/* The next page into @rows; *ret_n is how many there were. */
static int list_page(struct ctl *c, struct listing *l,
		     struct json_object *rows, size_t *ret_n)
{
	struct fluxonkv_key prefix = { l->prefix.bytes, l->prefix.len };
	size_t left = l->limit - json_object_array_length(rows);
	int res;

	res = fluxonkv_list(c->client, &prefix, &l->cursor, l->page, LIST_PAGE,
			    ret_n);
	if (res)
		return ctl_error(c, "list", res);
	for (size_t i = 0; i < *ret_n && i < left; i++) {
		struct fluxonkv_listed_key *k = &l->page[i];
		struct json_object *row = row_new(k->key, k->key_len);

		row_stat(row, k->len, k->version, k->where);
		json_object_array_add(rows, row);
	}
	l->more = *ret_n > left;
	if (!*ret_n)
		return CTL_OK;
	l->cursor.len = l->page[*ret_n - 1].key_len;
	memcpy(l->last, l->page[*ret_n - 1].key, l->cursor.len);
	return CTL_OK;
}

static int list_all(struct ctl *c, struct listing *l)
{
	struct json_object *rows = json_object_new_array();
	int status;
	size_t n;

	do {
		status = list_page(c, l, rows, &n);
	} while (!status && n == LIST_PAGE && !l->more);
	print_rows(c, rows);
	if (l->more)
		fprintf(stderr, "fluxonkvctl list: there are more than %" PRIu64
			" keys; --all shows them\n", l->limit);
	return status;
}

int ctl_list(struct ctl *c, int argc, char **argv)
{
	struct listing l = { .limit = LIST_DEFAULT };
	int status = list_options(c, argc, argv, &l);

	if (!status)
		status = ctl_open(c);
	if (status)
		return status;
	l.cursor.data = l.last;
	l.page = calloc(LIST_PAGE, sizeof(*l.page));
	if (!l.page)
		return ctl_fail(c, "out of memory");
	status = list_all(c, &l);
	free(l.page);
	return status;
}

int ctl_count(struct ctl *c, int argc, char **argv)
{
	struct ctl_key prefix = { .len = 0 };
	int status = ctl_arguments(c, argc, argv, 0, 1), res;
	struct json_object *o;
	uint64_t n;

	if (!status && argc > 1 && argv[1][0])
		status = ctl_key(c, argv[1], &prefix);
	if (!status)
		status = ctl_open(c);
	if (status)
		return status;
	res = fluxonkv_count(c->client, prefix.bytes, prefix.len, &n);
	if (res)
		return ctl_error(c, "count", res);
	if (!c->json) {
		printf("%" PRIu64 "\n", n);
		return CTL_OK;
	}
	o = json_object_new_object();
	json_object_object_add(o, "count", json_object_new_uint64(n));
	ctl_print_json(o);
	return CTL_OK;
}
