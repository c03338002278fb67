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
#include "svc/config.h"

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
	uint32_t seen;			/* keys of the table, by index */
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

static int set_string(struct walk *w, const struct setting *s, yaml_node_t *n)
{
	const char *v = scalar(n);
	char **to = field(w, s);
	char *copy;

	if (!v || !*v || is_null(n) || (s->max && strlen(v) > s->max) ||
	    (s->min && strchr(v, '/')))
		return wrong(w, s, n);
	copy = strdup(v);
	if (!copy)
		return complain(w, n, "out of memory");
	free(*to);
	*to = copy;
	return 0;
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

	if (v && !strcmp(v, "standalone"))
		w->cfg->standalone = true;
	else if (v && (!strcmp(v, "master") || !strcmp(v, "owner")))
		return complain(w, n, "role: '%s' is not in this version; "
				"expected standalone", v);
	else
		return wrong(w, s, n);
	return 0;
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
	char *copy;

	if (!v || !*v || strlen(v) > DEVICE_NAME_MAX ||
	    strspn(v, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
		   "0123456789._-") != strlen(v))
		return wrong(w, s, n);
	copy = strdup(v);
	if (!copy)
		return -ENOMEM;
	free(w->cfg->device_instance);
	w->cfg->device_instance = copy;
	return 0;
}

/* host:port, [v6]:port or none */
static int listen_parse(struct fkv_config *cfg, const char *v)
{
	const char *colon = v ? strrchr(v, ':') : NULL;
	size_t n = colon ? (size_t)(colon - v) : 0;
	struct in6_addr addr;
	uint64_t port;
	char *host;

	if (v && !strcmp(v, "none")) {
		free(cfg->metrics_host);
		cfg->metrics_host = NULL;
		return 0;
	}
	if (!n || parse_number(colon + 1, &port) || port > 65535)
		return -EINVAL;
	if (v[0] == '[' && v[n - 1] == ']') {
		v++;
		n -= 2;
	}
	host = strndup(v, n);
	if (!host || (inet_pton(AF_INET, host, &addr) != 1 &&
		      inet_pton(AF_INET6, host, &addr) != 1)) {
		free(host);
		return -EINVAL;
	}
	free(cfg->metrics_host);
	cfg->metrics_host = host;
	cfg->metrics_port = port;
	return 0;
}

static int set_listen(struct walk *w, const struct setting *s, yaml_node_t *n)
{
	return listen_parse(w->cfg, scalar(n)) ? wrong(w, s, n) : 0;
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
#define SOCKET_MAX	(sizeof(((struct sockaddr_un *)NULL)->sun_path) - 1)

static const struct setting settings[] = {
	{ "role", K_OTHER, 0, 0, 0, NULL, set_role, "standalone" },
	{ "cluster_name", K_STRING, AT(cluster_name), NO_SLASH, NAME_MAX_LEN,
	  NULL, NULL, "a name of at most 64 bytes without '/'" },
	{ "instance_key", K_STRING, AT(instance_key), 0, NAME_MAX_LEN, NULL,
	  NULL, "a name of at most 64 bytes" },
	{ "backend", K_ENUM, AT(backend), 0, 0, backend_names, NULL,
	  "auto, unix or device" },
	{ "device_instance", K_OTHER, 0, 0, 0, NULL, set_instance,
	  "a name of 1 to 63 of A-Z a-z 0-9 . _ -" },
	{ "pinnable_puts", K_BOOL, AT(pinnable_puts), 0, 0, NULL, NULL,
	  "true or false" },
	{ "socket", K_STRING, AT(socket), 0, SOCKET_MAX, NULL, NULL,
	  "a path of at most 107 bytes" },
	{ "socket_mode", K_OTHER, 0, 0, 0, NULL, set_mode,
	  "an octal mode such as 0660" },
	{ "socket_group", K_OTHER, 0, 0, 0, NULL, set_group,
	  "a group of this host" },
	{ "memory", K_SIZE, AT(memory), FKV_SEGMENT_MIN, FKV_SEGMENT_MAX,
	  NULL, NULL, "a size such as 1GiB" },
	{ "huge_pages", K_ENUM, AT(huge_pages), 0, 0, huge_names, NULL,
	  "off, auto or required" },
	{ "lock_memory", K_ENUM, AT(lock_memory), 0, 0, huge_names, NULL,
	  "off, auto or required" },
	{ "large_file_paths", K_OTHER, 0, 0, 0, NULL, set_paths,
	  "a list of directories" },
	{ "large_limit_size", K_OTHER, 0, 0, 0, NULL, set_limits,
	  "a list of sizes" },
	{ "io_engine", K_ENUM, AT(io_engine), 0, 0, engine_names, NULL,
	  "auto, uring, uring_iovec or threads" },
	{ "io_depth", K_NUMBER, AT(io_depth), 1, FKV_IO_DEPTH_MAX, NULL, NULL,
	  "a number" },
	{ "read_weight", K_NUMBER, AT(read_weight), 1, 1000, NULL, NULL,
	  "a number" },
	{ "strict_reads", K_BOOL, AT(strict_reads), 0, 0, NULL, NULL,
	  "true or false" },
	{ "eviction.new_values", K_ENUM, AT(new_values), 0, 0, value_names,
	  NULL, "recent or first" },
	{ "limits.client_pinned_bytes", K_SIZE, AT(client_pinned_bytes), 0,
	  FKV_SEGMENT_MAX, NULL, NULL, "a size, 0 for no cap" },
	{ "limits.uid_pinned_bytes", K_SIZE, AT(uid_pinned_bytes), 0,
	  FKV_SEGMENT_MAX, NULL, NULL, "a size, 0 for no cap" },
	{ "pins_per_client", K_NUMBER, AT(pins_per_client), 8, FKV_PINS_MAX,
	  NULL, NULL, "a number" },
	{ "index_entries", K_NUMBER, AT(index_entries), 0, (1 << 24) - 2, NULL,
	  NULL, "a number, 0 for automatic" },
	{ "transfer_threads", K_NUMBER, AT(transfer_threads), 1, 64, NULL,
	  NULL, "a number" },
	{ "metrics.listen", K_OTHER, 0, 0, 0, NULL, set_listen,
	  "ADDRESS:PORT or none" },
	{ "metrics.dashboard", K_BOOL, AT(metrics_dashboard), 0, 0, NULL, NULL,
	  "true or false" },
	{ "log_level", K_ENUM, AT(log_level), 0, 0, level_names, NULL,
	  "error, warning, info or debug" },
};

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
		if (w->seen & 1u << i)
			return complain(w, kn, "%s: said twice; expected "
					"once", key);
		w->seen |= 1u << i;
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

	if (!yaml_parser_initialize(&parser)) {
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

static char *default_socket(void)
{
	const char *run = getenv("XDG_RUNTIME_DIR");
	char *path = NULL;

	if (geteuid() == 0 || !run)
		return strdup("/run/fluxonkv/fluxonkv.sock");
	if (asprintf(&path, "%s/fluxonkv.sock", run) < 0)
		return NULL;
	return path;
}

int fkv_config_init(struct fkv_config *cfg)
{
	char host[256] = "localhost";

	gethostname(host, sizeof(host) - 1);
	*cfg = (struct fkv_config){
		.cluster_name = strdup("local"),
		.instance_key = strdup(host),
		.device_instance = strdup("default"),
		.socket = default_socket(),
		.socket_mode = 0660,
		.socket_gid = (gid_t)-1,
		.memory = FKV_GIB,
		.lock_memory = FKV_LOCK_AUTO,
		.huge_pages = FKV_HUGE_AUTO,
		.io_depth = FKV_IO_DEPTH,
		.read_weight = 2,
		.client_pinned_bytes = UINT64_MAX,
		.uid_pinned_bytes = UINT64_MAX,
		.pins_per_client = FKV_PINS_DEFAULT,
		.transfer_threads = 2,
		.metrics_host = strdup("127.0.0.1"),
		.metrics_port = 31997,
		.metrics_dashboard = true,
		.log_level = FKV_LOG_INFO,
	};
	return cfg->cluster_name && cfg->instance_key && cfg->socket &&
	       cfg->device_instance && cfg->metrics_host ? 0 : -ENOMEM;
}

/* Who names a socket wants one. */
static int choose_backend(struct fkv_config *cfg)
{
	char *usual = default_socket();

	if (!usual)
		return -ENOMEM;
	if (cfg->backend == FKV_BACKEND_AUTO && strcmp(usual, cfg->socket))
		cfg->backend = FKV_BACKEND_UNIX;
	free(usual);
	return 0;
}

int fkv_config_finish(struct fkv_config *cfg, char *err, size_t err_size)
{
	if (!cfg->standalone) {
		snprintf(err, err_size, "no role: expected --standalone, or "
			 "'role: standalone' in the file");
		return -EINVAL;
	}
	if (choose_backend(cfg)) {
		snprintf(err, err_size, "out of memory");
		return -ENOMEM;
	}
	cfg->memory = cfg->memory / FKV_EXTENT_UNIT * FKV_EXTENT_UNIT;
	/* half of the segment unless said otherwise (H4) */
	if (cfg->client_pinned_bytes == UINT64_MAX)
		cfg->client_pinned_bytes = cfg->memory / 2;
	if (cfg->uid_pinned_bytes == UINT64_MAX)
		cfg->uid_pinned_bytes = cfg->memory / 2;
	if (!cfg->index_entries)
		cfg->index_entries = fkv_max_u64(cfg->memory / (16 * FKV_KIB),
						 4096);
	cfg->index_entries = fkv_min_u64(cfg->index_entries, (1 << 24) - 2);
	return 0;
}

void fkv_config_done(struct fkv_config *cfg)
{
	free(cfg->cluster_name);
	free(cfg->instance_key);
	free(cfg->device_instance);
	free(cfg->socket);
	free(cfg->metrics_host);
	for (unsigned int i = 0; i < FKV_DEVICES_MAX; i++)
		free(cfg->ssd[i].path);
	memset(cfg, 0, sizeof(*cfg));
}
