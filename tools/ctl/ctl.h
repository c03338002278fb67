/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ctl.h - what the commands of fluxonkvctl share
 *
 * A command gets its own argv (argv[0] is its name), parses its options with
 * getopt_long, opens the client when its arguments are good, and returns the
 * exit status: CTL_OK, CTL_FAILED (also: no such key) or CTL_USAGE.
 */
#ifndef FKV_CTL_CTL_H
#define FKV_CTL_CTL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <json-c/json.h>

#include <fluxonkv.h>

#include "ctl/escape.h"

enum { CTL_OK, CTL_FAILED, CTL_USAGE };

struct ctl {
	const char *address;		/* NULL: the library's default */
	bool json;
	unsigned int timeout_ms;
	struct fluxonkv *client;
	const struct ctl_command *command;
};

struct ctl_command {
	const char *name;
	const char *arguments;		/* for help */
	const char *summary;
	const char *details;		/* may be NULL */
	int (*run)(struct ctl *c, int argc, char **argv);
};

struct ctl_key {
	const char *text;		/* as it was given */
	char bytes[CTL_KEY_MAX];
	size_t len;
};

/* Sentence on stderr; returns CTL_USAGE or CTL_FAILED. */
int ctl_usage(const struct ctl *c, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));
int ctl_fail(const struct ctl *c, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));

/* Say that the library's call for @what failed with @res; CTL_FAILED. */
int ctl_error(const struct ctl *c, const char *what, int res);

/* CTL_OK, or the exit status after a sentence. */
int ctl_open(struct ctl *c);

/* Unescape and check an argument. CTL_OK or CTL_USAGE. */
int ctl_key(const struct ctl *c, const char *text, struct ctl_key *ret);

/* A command without options: does it have @min..@max arguments? */
int ctl_arguments(const struct ctl *c, int argc, char **argv, int min,
		  int max);

/* A number of an option, 0..@max. CTL_OK or CTL_USAGE. */
int ctl_number(const struct ctl *c, const char *option, const char *text,
	       uint64_t max, uint64_t *ret);

/* "memory", "ssd", "memory,ssd" or "none". */
const char *ctl_where(unsigned int where);

/* Print @o on one line, and free it. */
void ctl_print_json(struct json_object *o);

/* Print @o as the user wants it. */
void ctl_show(const struct ctl *c, struct json_object *o);

/* keys.c */
int ctl_put(struct ctl *c, int argc, char **argv);
int ctl_get(struct ctl *c, int argc, char **argv);
int ctl_del(struct ctl *c, int argc, char **argv);
int ctl_exists(struct ctl *c, int argc, char **argv);
int ctl_stat(struct ctl *c, int argc, char **argv);
int ctl_list(struct ctl *c, int argc, char **argv);
int ctl_count(struct ctl *c, int argc, char **argv);

/* admin.c */
int ctl_status(struct ctl *c, int argc, char **argv);
int ctl_admin(struct ctl *c, int argc, char **argv);
int ctl_routes(struct ctl *c, int argc, char **argv);
int ctl_debug(struct ctl *c, int argc, char **argv);
int ctl_metrics(struct ctl *c, int argc, char **argv);

/* kernel.c */
int ctl_segments(struct ctl *c, int argc, char **argv);
int ctl_clients(struct ctl *c, int argc, char **argv);
int ctl_holders(struct ctl *c, int argc, char **argv);
int ctl_events(struct ctl *c, int argc, char **argv);

#endif
