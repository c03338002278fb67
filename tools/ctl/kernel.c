// SPDX-License-Identifier: Apache-2.0
/*
 * kernel.c - commands that show what the kernel module knows
 *
 * It knows of every instance and of every holder, with or without a daemon:
 * what the owner of a dead instance left is seen nowhere else.
 */
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <linux/fluxonkv.h>

#include "ctl/ctl.h"
#include "ctl/netlink.h"
#include "ctl/table.h"

#define WHY_MAX		256
#define CELL_MAX	256

/*
 * The instance that an address of the device names, "" for all of them; NULL
 * for one of a socket.
 */
static const char *instance_of(const char *address)
{
	return !strncmp(address, "dev:", 4) ? address + 4 : NULL;
}

static const char *address_of(const struct ctl *c)
{
	const char *env = getenv("FLUXONKV");

	if (c->address)
		return c->address;
	return env && *env ? env : NULL;
}

/* As the library chooses when no address is given. */
static bool socket_is_there(void)
{
	const char *run = getenv("XDG_RUNTIME_DIR");
	char path[256];

	if (!access("/run/fluxonkv/fluxonkv.sock", F_OK))
		return true;
	snprintf(path, sizeof(path), "%s/fluxonkv.sock", run ? run : "");
	return run && *run && !access(path, F_OK);
}

/* NULL: the daemon is to be asked, by its socket. */
static const char *asks_kernel(const struct ctl *c)
{
	const char *address = address_of(c);

	if (address)
		return instance_of(address);
	return !socket_is_there() && !access("/dev/fluxonkv", F_OK) ? "" : NULL;
}

static int open_kernel(const struct ctl *c, const char *name,
		       struct ctl_kernel **ret)
{
	char why[WHY_MAX];

	if (strlen(name) >= FLUXONKV_NAME_MAX)
		return ctl_usage(c, "an instance's name has at most %d bytes",
				 FLUXONKV_NAME_MAX - 1);
	if (ctl_kernel_open(ret, why, sizeof(why)))
		return ctl_fail(c, "%s", why);
	ctl_kernel_only(*ret, name, c->json);
	return CTL_OK;
}

/* Who may see some instances is not told of others. */
static int check_nothing(const struct ctl *c, const char *name, int cmd)
{
	if (cmd == FLUXONKV_CMD_SEGMENTS && *name)
		return ctl_fail(c, "the kernel has no instance '%s'%s", name,
				geteuid() ? " that this user may see" : "");
	return CTL_OK;
}

static int show(struct ctl *c, const char *name, int cmd)
{
	struct json_object *list;
	struct ctl_kernel *k;
	char why[WHY_MAX];
	int status = open_kernel(c, name, &k);

	if (status)
		return status;
	if (ctl_kernel_dump(k, cmd, &list, why, sizeof(why))) {
		status = ctl_fail(c, "%s", why);
	} else {
		if (!json_object_array_length(list))
			status = check_nothing(c, name, cmd);
		if (!status)
			ctl_show(c, list);
		json_object_put(list);
	}
	ctl_kernel_close(k);
	return status;
}

static int show_or_ask(struct ctl *c, int argc, char **argv, int cmd)
{
	const char *name = asks_kernel(c);

	if (!name)
		return ctl_admin(c, argc, argv);
	return ctl_arguments(c, argc, argv, 0, 0) ? CTL_USAGE :
						    show(c, name, cmd);
}

int ctl_segments(struct ctl *c, int argc, char **argv)
{
	return show_or_ask(c, argc, argv, FLUXONKV_CMD_SEGMENTS);
}

int ctl_holders(struct ctl *c, int argc, char **argv)
{
	return show_or_ask(c, argc, argv, FLUXONKV_CMD_HOLDERS);
}

/* What only the kernel tells: of all instances, or of that of an address. */
static int only_kernel(const struct ctl *c, const char **ret_name)
{
	const char *address = address_of(c);

	*ret_name = address ? instance_of(address) : "";
	if (*ret_name)
		return CTL_OK;
	return ctl_usage(c, "the kernel module tells it: expected an address "
			 "'dev:' or 'dev:INSTANCE', not '%s'", address);
}

int ctl_clients(struct ctl *c, int argc, char **argv)
{
	int status = ctl_arguments(c, argc, argv, 0, 0);
	const char *name;

	if (!status)
		status = only_kernel(c, &name);
	return status ? status : show(c, name, FLUXONKV_CMD_CLIENTS);
}

struct events {
	const struct ctl *c;
	uint64_t left;			/* 0: without end */
};

static char *time_text(char *buf, size_t size)
{
	time_t now = time(NULL);
	struct tm tm;

	localtime_r(&now, &tm);
	strftime(buf, size, "%Y-%m-%dT%H:%M:%S%z", &tm);
	return buf;
}

/* For people: the event, then names and values, in one line. */
static void print_line(const char *when, struct json_object *o)
{
	char cell[CELL_MAX];

	printf("%s", when);
	json_object_object_foreach(o, name, v) {
		const char *text = ctl_table_cell(name, v, cell, sizeof(cell));

		if (!strcmp(name, "event"))
			printf(" %-13s", text);
		else
			printf("  %s %s", name, text);
	}
	putchar('\n');
}

static void print_event(const struct ctl *c, struct json_object *o)
{
	char when[64];

	time_text(when, sizeof(when));
	if (c->json) {
		json_object_object_add(o, "time", json_object_new_string(when));
		ctl_print_json(o);
	} else {
		print_line(when, o);
		json_object_put(o);
	}
	/* who reads them through a pipe wants each when it comes */
	fflush(stdout);
}

static bool event(void *arg, struct json_object *o)
{
	struct events *e = arg;

	if (!o) {
		ctl_fail(e->c, "some events were lost: see segments and "
			 "clients for what there is");
		return true;
	}
	print_event(e->c, o);
	return !ferror(stdout) && (!e->left || --e->left);
}

/* Options of events. CTL_OK or CTL_USAGE. */
static int events_options(struct ctl *c, int argc, char **argv,
			  uint64_t *ret_count)
{
	static const struct option options[] = {
		{ "count", required_argument, NULL, 'n' },
		{ NULL, 0, NULL, 0 },
	};
	int opt;

	*ret_count = 0;
	while ((opt = getopt_long(argc, argv, "n:", options, NULL)) != -1) {
		if (opt != 'n')
			return ctl_usage(c, "unknown option or missing value: "
					 "'%s'", argv[optind - 1]);
		if (ctl_number(c, "--count", optarg, UINT32_MAX, ret_count))
			return CTL_USAGE;
		if (!*ret_count)
			return ctl_usage(c, "--count: expected at least 1");
	}
	return optind < argc ? ctl_usage(c, "'%s' is one argument too many",
					 argv[optind]) : CTL_OK;
}

int ctl_events(struct ctl *c, int argc, char **argv)
{
	struct events e = { .c = c };
	int status = events_options(c, argc, argv, &e.left);
	struct ctl_kernel *k = NULL;
	char why[WHY_MAX];
	const char *name;

	if (!status)
		status = only_kernel(c, &name);
	if (!status)
		status = open_kernel(c, name, &k);
	if (status)
		return status;
	if (ctl_kernel_follow(k, event, &e, why, sizeof(why)))
		status = ctl_fail(c, "%s", why);
	ctl_kernel_close(k);
	return status;
}
