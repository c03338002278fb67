// SPDX-License-Identifier: Apache-2.0
/*
 * netlink.c - what the kernel module tells by generic netlink
 */
#include <errno.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <netlink/genl/ctrl.h>
#include <netlink/genl/genl.h>
#include <netlink/netlink.h>

#include <linux/fluxonkv.h>

#include "ctl/message.h"
#include "ctl/netlink.h"

#define NODE		"/dev/fluxonkv"
#define BUFFER		(1 << 20)	/* events wait here for a slow reader */
#define HOST_PIDS	4026531836u	/* inode of the initial pid namespace */

struct ctl_kernel {
	struct nl_sock *sock;
	int family;
	struct ctl_view view;
};

__attribute__((format(printf, 4, 5)))
static int fail(int err, char *why, size_t size, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(why, size, fmt, ap);
	va_end(ap);
	return err;
}

/* libnl's errors are its own; whoever calls looks only whether there is one */
static int nl_fail(int res, const char *what, char *why, size_t size)
{
	if (res == -NLE_PERM || res == -NLE_NOACCESS)
		return fail(-EPERM, why, size, "%s: not permitted: expected "
			    "CAP_NET_ADMIN or the owner's uid", what);
	return fail(-EIO, why, size, "%s: %s", what, nl_geterror(res));
}

/* ---- the socket ---- */

static int no_family(int res, char *why, size_t size)
{
	if (res != -NLE_OBJ_NOTFOUND)
		return nl_fail(res, "netlink", why, size);
	if (access(NODE, F_OK))
		return fail(-ENODEV, why, size, "the kernel module is not "
			    "loaded (modprobe fluxonkv)");
	return fail(-ENODEV, why, size, "the kernel module does not answer "
		    "here: this is not the host's network namespace");
}

/* Process numbers are the host's: in a container they name others. */
static bool sees_host_pids(void)
{
	struct stat st;

	return !stat("/proc/self/ns/pid", &st) && st.st_ino == HOST_PIDS;
}

int ctl_kernel_open(struct ctl_kernel **ret, char *why, size_t size)
{
	struct ctl_kernel *k = calloc(1, sizeof(*k));
	int res;

	if (!k)
		return fail(-ENOMEM, why, size, "no memory");
	k->view.host_pids = sees_host_pids();
	k->sock = nl_socket_alloc();
	res = k->sock ? genl_connect(k->sock) : -NLE_NOMEM;
	if (res) {
		res = nl_fail(res, "netlink", why, size);
		goto fail;
	}
	k->family = genl_ctrl_resolve(k->sock, FLUXONKV_GENL_NAME);
	if (k->family < 0) {
		res = no_family(k->family, why, size);
		goto fail;
	}
	*ret = k;
	return 0;

fail:
	ctl_kernel_close(k);
	return res;
}

void ctl_kernel_close(struct ctl_kernel *k)
{
	if (k && k->sock)
		nl_socket_free(k->sock);
	free(k);
}

void ctl_kernel_only(struct ctl_kernel *k, const char *name, bool wide)
{
	snprintf(k->view.only, sizeof(k->view.only), "%s", name);
	k->view.wide = wide;
}

struct follower {
	struct ctl_kernel *k;
	ctl_told_fn told;
	void *arg;
	bool stop;
};

static int valid(struct nl_msg *msg, void *arg)
{
	struct follower *f = arg;
	struct json_object *o = ctl_message_object(&f->k->view,
						   nlmsg_hdr(msg));

	if (o && !f->told(f->arg, o)) {
		f->stop = true;
		return NL_STOP;
	}
	return NL_OK;
}

static bool append(void *arg, struct json_object *o)
{
	return !json_object_array_add(arg, o);
}

int ctl_kernel_dump(struct ctl_kernel *k, int cmd, struct json_object **ret,
		    char *why, size_t size)
{
	struct json_object *list = json_object_new_array();
	struct follower f = { .k = k, .told = append, .arg = list };
	int res;

	nl_socket_modify_cb(k->sock, NL_CB_VALID, NL_CB_CUSTOM, valid, &f);
	res = genl_send_simple(k->sock, k->family, cmd, FLUXONKV_GENL_VERSION,
			       NLM_F_DUMP);
	if (res >= 0)
		res = nl_recvmsgs_default(k->sock);
	if (res < 0) {
		json_object_put(list);
		return nl_fail(res, "what the kernel knows", why, size);
	}
	*ret = list;
	return 0;
}

int ctl_kernel_follow(struct ctl_kernel *k, ctl_told_fn told, void *arg,
		      char *why, size_t size)
{
	struct follower f = { .k = k, .told = told, .arg = arg };
	int res;

	res = genl_ctrl_resolve_grp(k->sock, FLUXONKV_GENL_NAME,
				    FLUXONKV_GENL_GROUP);
	if (res >= 0)
		res = nl_socket_add_membership(k->sock, res);
	if (res == -NLE_PERM || res == -NLE_NOACCESS)
		return fail(-EPERM, why, size, "the events: not permitted: "
			    "expected CAP_NET_ADMIN");
	if (res < 0)
		return nl_fail(res, "the events", why, size);
	nl_socket_set_buffer_size(k->sock, BUFFER, 0);
	nl_socket_disable_seq_check(k->sock);
	nl_socket_modify_cb(k->sock, NL_CB_VALID, NL_CB_CUSTOM, valid, &f);
	while (!f.stop) {
		res = nl_recvmsgs_default(k->sock);
		/* the socket's buffer ran over */
		if (res == -NLE_NOMEM && told(arg, NULL))
			continue;
		if (res < 0)
			return nl_fail(res, "the events", why, size);
	}
	return 0;
}
