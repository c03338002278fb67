// SPDX-License-Identifier: Apache-2.0
/*
 * config.c - the YAML file
 *
 * A table of keys, dotted where nested, walks libyaml's document: its nodes
 * know their line, which libcyaml's callers do not get to see.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <grp.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>
#include <yaml.h>

#include "base/base.h"
#include "base/size.h"
#include "svc/config_internal.h"

#define DEVICE_NAME_MAX	63	/* FLUXONKV_NAME_MAX with its 0 */

struct walk {
	struct fkv_config *cfg;
	const char *file;		/* or the flag */
	const char *text;		/* of the file */
	bool flag;			/* no lines, no types */
	yaml_document_t doc;
	char *err;
	size_t err_size;
	uint64_t limits[FKV_DEVICES_MAX];
	unsigned int nr_paths, nr_limits;
	bool have_paths, have_limits;
	int limits_line;
	uint64_t seen;			/* keys of the table, by index */
};

enum kind { K_STRING, K_SIZE, K_NUMBER, K_BOOL, K_ENUM, K_OTHER };

struct setting {
	const char *key;
	enum kind kind;
	size_t offset;
	uint64_t min, max;
	const char *const *names;	/* K_ENUM: in order of value */
	int (*set)(struct walk *w, const struct setting *s, yaml_node_t *n);
	const char *expected;
	unsigned int roles;		/* that it fits; 0: all */
};

static int complain(struct walk *w, const yaml_node_t *n, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

/* What the file has in double quotes may hold anything: keep it one line. */
static void make_printable(char *text)
{
	for (; *text; text++)
		if ((unsigned char)*text < ' ' || *text == 0x7f)
			*text = '?';
}

static int complain(struct walk *w, const yaml_node_t *n, const char *fmt, ...)
{
	va_list ap;
	int len;

	if (w->flag)
		len = snprintf(w->err, w->err_size, "%s: ", w->file);
	else
		len = snprintf(w->err, w->err_size, "%s:%zu: ", w->file,
			       n ? n->start_mark.line + 1 : (size_t)1);
	if (len < 0 || (size_t)len >= w->err_size)
		return -EINVAL;
	va_start(ap, fmt);
	vsnprintf(w->err + len, w->err_size - (size_t)len, fmt, ap);
	va_end(ap);
	make_printable(w->err);
	return -EINVAL;
}

static bool has_zero_byte(const yaml_node_t *n)
{
	return n->type == YAML_SCALAR_NODE &&
	       memchr(n->data.scalar.value, 0, n->data.scalar.length);
}

static const char *scalar(const yaml_node_t *n)
{
	return n->type == YAML_SCALAR_NODE && !has_zero_byte(n) ?
		(const char *)n->data.scalar.value : NULL;
}

/* A number or a bool: what is in quotes is a string. */
static const char *plain(const struct walk *w, const yaml_node_t *n)
{
	return w->flag || (n->type == YAML_SCALAR_NODE &&
			   n->data.scalar.style == YAML_PLAIN_SCALAR_STYLE) ?
		scalar(n) : NULL;
}

static bool is_null(const yaml_node_t *n)
{
	const char *v = scalar(n);

	return v && n->data.scalar.style == YAML_PLAIN_SCALAR_STYLE &&
	       (!*v || !strcmp(v, "null") || !strcmp(v, "~"));
}

static void *field(const struct walk *w, const struct setting *s)
{
	return (char *)w->cfg + s->offset;
}

static int wrong(struct walk *w, const struct setting *s, const yaml_node_t *n)
{
	const char *v = scalar(n);

	if (has_zero_byte(n))
		return complain(w, n, "%s: expected %s without a zero byte",
				s->key, s->expected);
	return complain(w, n, "%s: expected %s, not %s%s%s", s->key,
			s->expected, v ? "'" : "a list or mapping",
			v ? v : "", v ? "'" : "");
}

static int replace(struct walk *w, const yaml_node_t *n, char **to,
		   const char *v)
{
	char *copy = strdup(v);

	if (!copy)
		return complain(w, n, "out of memory");
	free(*to);
	*to = copy;
	return 0;
}

static int set_string(struct walk *w, const struct setting *s, yaml_node_t *n)
{
	const char *v = scalar(n);

	if (!v || !*v || is_null(n) || (s->max && strlen(v) > s->max) ||
	    (s->min && strchr(v, '/')))
		return wrong(w, s, n);
	return replace(w, n, field(w, s), v);
}

static int set_size(struct walk *w, const struct setting *s, yaml_node_t *n)
{
	const char *v = scalar(n);
	uint64_t bytes;

	if (!v || fkv_size_parse(v, &bytes))
		return wrong(w, s, n);
	if (bytes < s->min || bytes > s->max)
		return complain(w, n, "%s: expected %" PRIu64 " to %" PRIu64
				" bytes, not %" PRIu64, s->key, s->min,
				s->max, bytes);
	*(uint64_t *)field(w, s) = bytes;
	return 0;
}

static int parse_number(const char *v, uint64_t *ret)
{
	char *end;

	if (!v || *v < '0' || *v > '9')
		return -EINVAL;
	errno = 0;
	*ret = strtoull(v, &end, 10);
	return errno || *end ? -EINVAL : 0;
}

static int set_number(struct walk *w, const struct setting *s, yaml_node_t *n)
{
	uint64_t v;

	if (parse_number(plain(w, n), &v))
		return wrong(w, s, n);
	if (v < s->min || v > s->max)
		return complain(w, n, "%s: expected %" PRIu64 " to %" PRIu64
				", not %" PRIu64, s->key, s->min, s->max, v);
	*(uint64_t *)field(w, s) = v;
	return 0;
}

static int set_bool(struct walk *w, const struct setting *s, yaml_node_t *n)
{
	const char *v = plain(w, n);

	if (v && !strcmp(v, "true"))
		*(bool *)field(w, s) = true;
	else if (v && !strcmp(v, "false"))
		*(bool *)field(w, s) = false;
	else
		return wrong(w, s, n);
	return 0;
}

static int set_enum(struct walk *w, const struct setting *s, yaml_node_t *n)
{
	const char *v = scalar(n);

	for (unsigned int i = 0; v && s->names[i]; i++) {
		if (strcmp(v, s->names[i]))
			continue;
		*(unsigned int *)field(w, s) = i;
		return 0;
	}
	return wrong(w, s, n);
}

static int set_role(struct walk *w, const struct setting *s, yaml_node_t *n)
{
	const char *v = scalar(n);

	for (enum fkv_role r = FKV_ROLE_STANDALONE; v && r < FKV_ROLE_NR; r++) {
		if (strcmp(v, fkv_role_name(r)))
			continue;
		w->cfg->role = r;
		return 0;
	}
	return wrong(w, s, n);
}

static int set_mode(struct walk *w, const struct setting *s, yaml_node_t *n)
{
	const char *v = scalar(n);
	unsigned long mode;
	char *end;

	if (!v || *v < '0' || *v > '7')
		return wrong(w, s, n);
	mode = strtoul(v, &end, 8);
	if (*end || mode > 0777)
		return wrong(w, s, n);
	w->cfg->socket_mode = (mode_t)mode;
	return 0;
}

static int set_group(struct walk *w, const struct setting *s, yaml_node_t *n)
{
	const char *v = scalar(n);
	struct group *g = v ? getgrnam(v) : NULL;

	if (!g)
		return wrong(w, s, n);
	w->cfg->socket_gid = g->gr_gid;
	return 0;
}

static int set_instance(struct walk *w, const struct setting *s,
			yaml_node_t *n)
{
	const char *v = scalar(n);

	if (!v || !*v || strlen(v) > DEVICE_NAME_MAX ||
	    strspn(v, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
		   "0123456789._-") != strlen(v))
		return wrong(w, s, n);
	return replace(w, n, &w->cfg->device_instance, v);
}

static bool is_address(const char *text)
{
	struct in6_addr addr;

	return inet_pton(AF_INET, text, &addr) == 1 ||
	       inet_pton(AF_INET6, text, &addr) == 1;
}

/* Of host:port or [v6]:port the host, to be freed, and the port; or NULL. */
char *fkv_config_host_port(const char *v, uint64_t *ret_port)
{
	const char *colon = strrchr(v, ':');
	size_t n = colon ? (size_t)(colon - v) : 0;

	if (!n || parse_number(colon + 1, ret_port) || *ret_port > 65535)
		return NULL;
	if (v[0] == '[' && v[n - 1] == ']')
		return strndup(v + 1, n - 2);
	return strndup(v, n);
}

/* host:port, [v6]:port or none */
static int metrics_parse(struct fkv_config *cfg, const char *v)
{
	uint64_t port = 0;
	char *host;

	if (v && !strcmp(v, "none")) {
		free(cfg->metrics_host);
		cfg->metrics_host = NULL;
		return 0;
	}
	host = v ? fkv_config_host_port(v, &port) : NULL;
	if (!host || !is_address(host)) {
		free(host);
		return -EINVAL;
	}
	free(cfg->metrics_host);
	cfg->metrics_host = host;
	cfg->metrics_port = port;
	return 0;
}

static int set_metrics(struct walk *w, const struct setting *s, yaml_node_t *n)
{
	return metrics_parse(w->cfg, scalar(n)) ? wrong(w, s, n) : 0;
}

/* Where to listen: the data's port is the next one. */
static int set_listen(struct walk *w, const struct setting *s, yaml_node_t *n)
{
	const char *v = scalar(n);
	uint64_t port = 0;
	char *host = v ? fkv_config_host_port(v, &port) : NULL;
	bool good = host && is_address(host) && port < 65535;

	free(host);
	return good ? replace(w, n, field(w, s), v) : wrong(w, s, n);
}

/* Whom to dial: a name is looked up at the start. */
static int set_peer(struct walk *w, const struct setting *s, yaml_node_t *n)
{
	const char *v = scalar(n);
	uint64_t port = 0;
	char *host = v ? fkv_config_host_port(v, &port) : NULL;
	bool good = host && *host && strlen(v) < 256 && port;

	free(host);
	return good ? replace(w, n, field(w, s), v) : wrong(w, s, n);
}

static int set_address(struct walk *w, const struct setting *s, yaml_node_t *n)
{
	const char *v = scalar(n);

	return v && is_address(v) ? replace(w, n, field(w, s), v) :
		wrong(w, s, n);
}

static yaml_node_t *item(struct walk *w, yaml_node_t *seq, unsigned int i)
{
	return yaml_document_get_node(&w->doc,
				      seq->data.sequence.items.start[i]);
}

static int list_length(struct walk *w, const struct setting *s,
		       yaml_node_t *n, unsigned int *ret)
{
	size_t len;

	if (n->type != YAML_SEQUENCE_NODE)
		return wrong(w, s, n);
	len = (size_t)(n->data.sequence.items.top -
		       n->data.sequence.items.start);
	if (len > FKV_DEVICES_MAX)
		return complain(w, n, "%s: expected at most %u, not %zu",
				s->key, FKV_DEVICES_MAX, len);
	*ret = (unsigned int)len;
	return 0;
}

static int set_paths(struct walk *w, const struct setting *s, yaml_node_t *n)
{
	int err;

	if (is_null(n))
		return 0;
	err = list_length(w, s, n, &w->nr_paths);
	if (err)
		return err;
	w->have_paths = true;
	for (unsigned int i = 0; i < w->nr_paths; i++) {
		yaml_node_t *it = item(w, n, i);
		const char *v = scalar(it);

		if (!v || *v != '/')
			return complain(w, it, "%s: expected an absolute "
					"path, not '%s'", s->key,
					v ? v : "(list)");
		free(w->cfg->ssd[i].path);
		w->cfg->ssd[i].path = strdup(v);
		if (!w->cfg->ssd[i].path)
			return complain(w, it, "out of memory");
	}
	return 0;
}

static int set_limits(struct walk *w, const struct setting *s, yaml_node_t *n)
{
	int err;

	if (is_null(n))
		return 0;
	err = list_length(w, s, n, &w->nr_limits);
	if (err)
		return err;
	w->have_limits = true;
	w->limits_line = (int)n->start_mark.line + 1;
	for (unsigned int i = 0; i < w->nr_limits; i++) {
		yaml_node_t *it = item(w, n, i);
		const char *v = scalar(it);

		if (!v || fkv_size_parse(v, &w->limits[i]))
			return complain(w, it, "%s: expected a size such as "
					"8GiB, not '%s'", s->key,
					v ? v : "(list)");
		if (w->limits[i] < FKV_SSD_LIMIT_MIN)
			return complain(w, it, "%s: %" PRIu64 " bytes hold no "
					"entry; expected at least %llu",
					s->key, w->limits[i],
					FKV_SSD_LIMIT_MIN);
	}
	return 0;
}

static const char *const huge_names[] = { "off", "auto", "required", NULL };
static const char *const backend_names[] = { "auto", "unix", "device", NULL };
static const char *const engine_names[] = {
	"auto", "uring", "uring_iovec", "threads", NULL
};
static const char *const value_names[] = { "recent", "first", NULL };
static const char *const level_names[] = {
	"error", "warning", "info", "debug", NULL
};

#define AT(f)	offsetof(struct fkv_config, f)

#define NO_SLASH	1	/* as min of K_STRING: part of a file name */
#define NAME_MAX_LEN	64
#define PATH_MAX_LEN	4095
#define SOCKET_MAX	(sizeof(((struct sockaddr_un *)NULL)->sun_path) - 1)

#define SOLO	(1u << FKV_ROLE_STANDALONE)
#define MASTER	(1u << FKV_ROLE_MASTER)
#define OWNER	(1u << FKV_ROLE_OWNER)

static const struct setting settings[] = {
	{ "role", K_OTHER, 0, 0, 0, NULL, set_role,
	  "standalone, master or owner", 0 },
	{ "cluster_name", K_STRING, AT(cluster_name), NO_SLASH, NAME_MAX_LEN,
	  NULL, NULL, "a name of at most 64 bytes without '/'", 0 },
	{ "cluster_key_file", K_STRING, AT(cluster_key_file), 0, PATH_MAX_LEN,
	  NULL, NULL, "a path", MASTER | OWNER },
	{ "instance_key", K_STRING, AT(instance_key), 0, NAME_MAX_LEN, NULL,
	  NULL, "a name of at most 64 bytes", 0 },
	{ "master", K_OTHER, AT(master), 0, 0, NULL, set_peer,
	  "HOST:PORT of the master", OWNER },
	{ "listen", K_OTHER, AT(listen), 0, 0, NULL, set_listen,
	  "ADDRESS:PORT with a port up to 65534", MASTER | OWNER },
	{ "advertise", K_OTHER, AT(advertise), 0, 0, NULL, set_address,
	  "an ADDRESS without a port", OWNER },
	{ "state_dir", K_STRING, AT(state_dir), 0, PATH_MAX_LEN, NULL, NULL,
	  "a path", MASTER },
	{ "backend", K_ENUM, AT(backend), 0, 0, backend_names, NULL,
	  "auto, unix or device", SOLO | OWNER },
	{ "device_instance", K_OTHER, 0, 0, 0, NULL, set_instance,
	  "a name of 1 to 63 of A-Z a-z 0-9 . _ -", SOLO | OWNER },
	{ "pinnable_puts", K_BOOL, AT(pinnable_puts), 0, 0, NULL, NULL,
	  "true or false", SOLO | OWNER },
	{ "socket", K_STRING, AT(socket), 0, SOCKET_MAX, NULL, NULL,
	  "a path of at most 107 bytes", 0 },
	{ "socket_mode", K_OTHER, 0, 0, 0, NULL, set_mode,
	  "an octal mode such as 0660", 0 },
	{ "socket_group", K_OTHER, 0, 0, 0, NULL, set_group,
	  "a group of this host", 0 },
	{ "memory", K_SIZE, AT(memory), FKV_SEGMENT_MIN, FKV_SEGMENT_MAX,
	  NULL, NULL, "a size such as 1GiB", SOLO | OWNER },
	{ "huge_pages", K_ENUM, AT(huge_pages), 0, 0, huge_names, NULL,
	  "off, auto or required", SOLO | OWNER },
	{ "lock_memory", K_ENUM, AT(lock_memory), 0, 0, huge_names, NULL,
	  "off, auto or required", SOLO | OWNER },
	{ "large_file_paths", K_OTHER, 0, 0, 0, NULL, set_paths,
	  "a list of directories", SOLO | OWNER },
	{ "large_limit_size", K_OTHER, 0, 0, 0, NULL, set_limits,
	  "a list of sizes", SOLO | OWNER },
	{ "io_engine", K_ENUM, AT(io_engine), 0, 0, engine_names, NULL,
	  "auto, uring, uring_iovec or threads", SOLO | OWNER },
	{ "io_depth", K_NUMBER, AT(io_depth), 1, FKV_IO_DEPTH_MAX, NULL, NULL,
	  "a number", SOLO | OWNER },
	{ "read_weight", K_NUMBER, AT(read_weight), 1, 1000, NULL, NULL,
	  "a number", SOLO | OWNER },
	{ "strict_reads", K_BOOL, AT(strict_reads), 0, 0, NULL, NULL,
	  "true or false", SOLO | OWNER },
	{ "eviction.new_values", K_ENUM, AT(new_values), 0, 0, value_names,
	  NULL, "recent or first", SOLO | MASTER },
	{ "limits.client_pinned_bytes", K_SIZE, AT(client_pinned_bytes), 0,
	  FKV_SEGMENT_MAX, NULL, NULL, "a size, 0 for no cap", SOLO | OWNER },
	{ "limits.uid_pinned_bytes", K_SIZE, AT(uid_pinned_bytes), 0,
	  FKV_SEGMENT_MAX, NULL, NULL, "a size, 0 for no cap", SOLO | OWNER },
	{ "pins_per_client", K_NUMBER, AT(pins_per_client), 8, FKV_PINS_MAX,
	  NULL, NULL, "a number", SOLO | OWNER },
	{ "index_entries", K_NUMBER, AT(index_entries), 0, (1 << 24) - 2, NULL,
	  NULL, "a number, 0 for automatic", SOLO | OWNER },
	{ "transfer_threads", K_NUMBER, AT(transfer_threads), 1, 64, NULL,
	  NULL, "a number", SOLO | OWNER },
	{ "metrics.listen", K_OTHER, 0, 0, 0, NULL, set_metrics,
	  "ADDRESS:PORT or none", 0 },
	{ "metrics.dashboard", K_BOOL, AT(metrics_dashboard), 0, 0, NULL, NULL,
	  "true or false", 0 },
	{ "log_level", K_ENUM, AT(log_level), 0, 0, level_names, NULL,
	  "error, warning, info or debug", 0 },
};

_Static_assert(FKV_ARRAY_SIZE(settings) <= FKV_SETTINGS_MAX,
	       "fkv_config.given has a bit for each");

static int apply(struct walk *w, const struct setting *s, yaml_node_t *n)
{
	switch (s->kind) {
	case K_STRING:
		return set_string(w, s, n);
	case K_SIZE:
		return set_size(w, s, n);
	case K_NUMBER:
		return set_number(w, s, n);
	case K_BOOL:
		return set_bool(w, s, n);
	case K_ENUM:
		return set_enum(w, s, n);
	case K_OTHER:
		break;
	}
	return s->set(w, s, n);
}

/* Is @key (with its dot) the beginning of any setting? */
static bool is_group(const char *key)
{
	size_t n = strlen(key);

	for (size_t i = 0; i < FKV_ARRAY_SIZE(settings); i++)
		if (!strncmp(settings[i].key, key, n) &&
		    settings[i].key[n] == '.')
			return true;
	return false;
}

static int walk_mapping(struct walk *w, yaml_node_t *map, const char *prefix);

static int walk_pair(struct walk *w, const char *key, yaml_node_t *kn,
		     yaml_node_t *vn)
{
	for (size_t i = 0; i < FKV_ARRAY_SIZE(settings); i++) {
		if (strcmp(settings[i].key, key))
			continue;
		if (w->seen & 1ULL << i)
			return complain(w, kn, "%s: said twice; expected "
					"once", key);
		w->seen |= 1ULL << i;
		w->cfg->given |= 1ULL << i;
		w->cfg->line[i] = w->flag ? 0 :
				  (uint32_t)kn->start_mark.line + 1;
		return apply(w, &settings[i], vn);
	}
	if (!is_group(key))
		return complain(w, kn, "unknown key '%s'; see "
				"fluxonkvd.conf(5) for those that are", key);
	if (vn->type != YAML_MAPPING_NODE)
		return complain(w, vn, "%s: expected a mapping", key);
	return walk_mapping(w, vn, key);
}

static int walk_mapping(struct walk *w, yaml_node_t *map, const char *prefix)
{
	yaml_node_pair_t *p;

	for (p = map->data.mapping.pairs.start;
	     p < map->data.mapping.pairs.top; p++) {
		yaml_node_t *kn = yaml_document_get_node(&w->doc, p->key);
		yaml_node_t *vn = yaml_document_get_node(&w->doc, p->value);
		char key[128];
		int err;

		if (!scalar(kn))
			return complain(w, kn, "expected a key");
		snprintf(key, sizeof(key), "%s%s%s", prefix ? prefix : "",
			 prefix ? "." : "", scalar(kn));
		err = walk_pair(w, key, kn, vn);
		if (err)
			return err;
	}
	return 0;
}

/* S1: paths and limits go pairwise; no limits, no SSD tier. */
static int pair_up(struct walk *w)
{
	struct fkv_config *cfg = w->cfg;

	if (!w->have_limits) {
		for (unsigned int i = 0; i < w->nr_paths; i++) {
			free(cfg->ssd[i].path);
			cfg->ssd[i].path = NULL;
		}
		return 0;
	}
	if (w->nr_paths != w->nr_limits) {
		snprintf(w->err, w->err_size, "%s:%d: large_limit_size: "
			 "expected as many as large_file_paths (%u), not %u",
			 w->file, w->limits_line, w->nr_paths, w->nr_limits);
		return -EINVAL;
	}
	for (unsigned int i = 0; i < w->nr_limits; i++)
		cfg->ssd[i].limit = w->limits[i];
	cfg->nr_ssd = w->nr_limits;
	return 0;
}

static int walk_document(struct walk *w)
{
	yaml_node_t *root = yaml_document_get_root_node(&w->doc);
	int err = 0;

	if (!root)
		return 0;
	if (root->type != YAML_MAPPING_NODE && !is_null(root))
		return complain(w, root, "expected a mapping of keys to "
				"values");
	if (root->type == YAML_MAPPING_NODE)
		err = walk_mapping(w, root, NULL);
	return err ? err : pair_up(w);
}

/* Of bytes that are no characters the parser knows the place, not the line. */
static size_t problem_line(const struct walk *w, const yaml_parser_t *parser)
{
	size_t line = 1;

	if (parser->error != YAML_READER_ERROR)
		return parser->problem_mark.line + 1;
	for (size_t i = 0; i < parser->problem_offset; i++)
		line += w->text[i] == '\n';
	return line;
}

/* One document, or none: w->doc, for the caller to delete. */
static int load(struct walk *w, yaml_parser_t *parser)
{
	if (yaml_parser_load(parser, &w->doc))
		return 0;
	snprintf(w->err, w->err_size, "%s:%zu: not YAML: %s", w->file,
		 problem_line(w, parser),
		 parser->problem ? parser->problem : "out of memory");
	return -EINVAL;
}

/* What stands behind a second '---' would go unread. */
static int load_end(struct walk *w, yaml_parser_t *parser)
{
	int res = load(w, parser);

	if (res)
		return res;
	if (yaml_document_get_root_node(&w->doc)) {
		snprintf(w->err, w->err_size, "%s:%zu: a second document; "
			 "expected one", w->file, w->doc.start_mark.line + 1);
		res = -EINVAL;
	}
	yaml_document_delete(&w->doc);
	return res;
}

int fkv_config_parse(struct fkv_config *cfg, const char *file,
		     const char *text, size_t len, char *err, size_t err_size)
{
	struct walk w = {
		.cfg = cfg, .file = file, .text = text, .err = err,
		.err_size = err_size,
	};
	yaml_parser_t parser;
	int res;

	free(cfg->file);
	cfg->file = strdup(file);
	if (!cfg->file || !yaml_parser_initialize(&parser)) {
		snprintf(err, err_size, "%s: out of memory", file);
		return -EINVAL;
	}
	yaml_parser_set_input_string(&parser, (const unsigned char *)text,
				     len);
	res = load(&w, &parser);
	if (!res) {
		res = walk_document(&w);
		yaml_document_delete(&w.doc);
	}
	if (!res)
		res = load_end(&w, &parser);
	yaml_parser_delete(&parser);
	return res;
}

int fkv_config_set(struct fkv_config *cfg, const char *flag, const char *key,
		   const char *value, char *err, size_t err_size)
{
	struct walk w = {
		.cfg = cfg, .file = flag, .flag = true, .err = err,
		.err_size = err_size,
	};
	yaml_node_t n = {
		.type = YAML_SCALAR_NODE,
		.data.scalar = {
			.value = (yaml_char_t *)value,
			.length = strlen(value),
			.style = YAML_DOUBLE_QUOTED_SCALAR_STYLE,
		},
	};

	if (strchr(value, '\n'))
		return complain(&w, &n, "%s: expected one line", key);
	return walk_pair(&w, key, &n, &n);
}

void fkv_config_gave(struct fkv_config *cfg, const char *key)
{
	for (size_t i = 0; i < FKV_ARRAY_SIZE(settings); i++) {
		if (strcmp(settings[i].key, key))
			continue;
		cfg->given |= 1ULL << i;
		cfg->line[i] = 0;
	}
}

const char *fkv_config_setting(size_t i, unsigned int *ret_roles)
{
	if (i >= FKV_ARRAY_SIZE(settings))
		return NULL;
	*ret_roles = settings[i].roles;
	return settings[i].key;
}
