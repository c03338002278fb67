// SPDX-License-Identifier: Apache-2.0
/*
 * admin.c - commands that show what the daemon says of itself
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ctl/ctl.h"
#include "ctl/table.h"

void ctl_show(const struct ctl *c, struct json_object *o)
{
	if (c->json)
		puts(json_object_to_json_string_ext(o, CTL_JSON_FLAGS));
	else
		ctl_table(stdout, o);
}

static int show(struct ctl *c, const char *word, const char *argument)
{
	struct json_object *o;
	int status = ctl_open(c), res;
	char *text;

	if (status)
		return status;
	res = fluxonkv_admin(c->client, word, argument, &text);
	if (res)
		return ctl_error(c, word, res);
	o = json_tokener_parse(text);
	if (!o) {
		free(text);
		return ctl_fail(c, "the daemon's answer is not JSON");
	}
	ctl_show(c, o);
	json_object_put(o);
	free(text);
	return CTL_OK;
}

/* Commands whose name is the daemon's word for it. */
int ctl_admin(struct ctl *c, int argc, char **argv)
{
	int status = ctl_arguments(c, argc, argv, 0, 0);

	return status ? status : show(c, c->command->name, NULL);
}

int ctl_status(struct ctl *c, int argc, char **argv)
{
	return ctl_admin(c, argc, argv);
}

/* The prefix goes as the user wrote it: routes show escaped keys. */
int ctl_routes(struct ctl *c, int argc, char **argv)
{
	int status = ctl_arguments(c, argc, argv, 0, 1);
	struct ctl_key prefix;
	char canonical[CTL_ESCAPED_MAX];

	if (status || argc < 2)
		return status ? status : show(c, "routes", NULL);
	status = ctl_key(c, argv[1], &prefix);
	if (status)
		return status;
	return show(c, "routes", ctl_escape(canonical, prefix.bytes,
					    prefix.len));
}

int ctl_debug(struct ctl *c, int argc, char **argv)
{
	int status = ctl_arguments(c, argc, argv, 1, 1);

	if (status)
		return status;
	if (strcmp(argv[1], "refs") && strcmp(argv[1], "check"))
		return ctl_usage(c, "expected 'refs' or 'check', not '%s'", argv[1]);
	return show(c, argv[1], NULL);
}

int ctl_metrics(struct ctl *c, int argc, char **argv)
{
	int status = ctl_arguments(c, argc, argv, 0, 0), res;
	char *text;

	if (!status && c->json)
		return ctl_usage(c, "metrics are Prometheus text, not JSON");
	if (!status)
		status = ctl_open(c);
	if (status)
		return status;
	res = fluxonkv_admin(c->client, "metrics", NULL, &text);
	if (res)
		return ctl_error(c, "metrics", res);
	fputs(text, stdout);
	free(text);
	return CTL_OK;
}
