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

#include "ctl/netlink.h"

#define NODE		"/dev/fluxonkv"
#define BUFFER		(1 << 20)	/* events wait here for a slow reader */
#define HOST_PIDS	4026531836u	/* inode of the initial pid namespace */
#define SEC_NS		1000000000ull

struct ctl_kernel {
	struct nl_sock *sock;
	int family;
	char only[FLUXONKV_NAME_MAX];
	bool wide, host_pids;
};

enum kind { TEXT, NUMBER, FLAG, PROCESS, SECONDS, HASH, EVENT, WIDE };

/* In the order in which they are shown. */
static const struct field {
	const char *name;
	int attr;
	enum kind kind;
} fields[] = {
	{ "event", FLUXONKV_ATTR_EVENT, EVENT },
	{ "instance", FLUXONKV_ATTR_INSTANCE, TEXT },
	{ "owner_alive", FLUXONKV_ATTR_ALIVE, FLAG },
	{ "client", FLUXONKV_ATTR_CLIENT, NUMBER },
	{ "pid", FLUXONKV_ATTR_PID, PROCESS },
	{ "uid", FLUXONKV_ATTR_UID, NUMBER },
	{ "holder", FLUXONKV_ATTR_HOLDER, NUMBER },
	{ "bytes", FLUXONKV_ATTR_BYTES, NUMBER },
	{ "resident_bytes", FLUXONKV_ATTR_RESIDENT, NUMBER },
	{ "huge_bytes", FLUXONKV_ATTR_HUGE, NUMBER },
	{ "entries", FLUXONKV_ATTR_ENTRIES, NUMBER },
	{ "retired", FLUXONKV_ATTR_RETIRED, NUMBER },
	{ "clients", FLUXONKV_ATTR_NR_CLIENTS, NUMBER },
	{ "holders", FLUXONKV_ATTR_NR_HOLDERS, NUMBER },
	{ "open_puts", FLUXONKV_ATTR_OPEN_PUTS, NUMBER },
	{ "held_bytes", FLUXONKV_ATTR_HELD_BYTES, NUMBER },
	{ "pinned_bytes", FLUXONKV_ATTR_PINNED_BYTES, NUMBER },
	{ "hits", FLUXONKV_ATTR_HITS, NUMBER },
	{ "misses", FLUXONKV_ATTR_MISSES, NUMBER },
	{ "key_hash", FLUXONKV_ATTR_HASH, HASH },
	{ "version", FLUXONKV_ATTR_VERSION, NUMBER },
	{ "age_s", FLUXONKV_ATTR_AGE_NS, SECONDS },
	{ "incarnation", FLUXONKV_ATTR_INCARNATION, WIDE },
};

#define NR_FIELDS	(sizeof(fields) / sizeof(fields[0]))

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
		return fail(-EPERM, why, size, "not permitted: %s needs root "
			    "(CAP_NET_ADMIN)", what);
	return fail(-EIO, why, size, "%s: %s", what, nl_geterror(res));
}

/* ---- messages ---- */

/* Of any width that the kernel chose. */
static uint64_t number(const struct nlattr *a)
{
	switch (nla_len(a)) {
	case 1:
		return nla_get_u8(a);
	case 4:
		return nla_get_u32(a);
	case 8:
		return nla_get_u64(a);
	default:
		return 0;
	}
}

/* The name of a process; NULL: it ended, or is not to be seen from here. */
static struct json_object *process_name(const struct ctl_kernel *k,
					uint64_t pid)
{
	char path[64], comm[64] = "";
	FILE *f;

	if (!k->host_pids || !pid)
		return NULL;
	snprintf(path, sizeof(path), "/proc/%llu/comm",
		 (unsigned long long)pid);
	f = fopen(path, "re");
	if (!f)
		return NULL;
	if (!fgets(comm, sizeof(comm), f))
		comm[0] = '\0';
	fclose(f);
	comm[strcspn(comm, "\n")] = '\0';
	return comm[0] ? json_object_new_string(comm) : NULL;
}

static struct json_object *hash_text(uint64_t hash)
{
	char buf[16];

	snprintf(buf, sizeof(buf), "%08llx", (unsigned long long)hash);
	return json_object_new_string(buf);
}

static struct json_object *event_name(uint64_t event)
{
	static const char *const names[] = {
		[FLUXONKV_EVENT_SEGMENT_READY] = "segment-ready",
		[FLUXONKV_EVENT_OWNER_GONE] = "owner-gone",
		[FLUXONKV_EVENT_CLIENT] = "client",
		[FLUXONKV_EVENT_CLIENT_GONE] = "client-gone",
	};
	const char *name = NULL;

	if (event < sizeof(names) / sizeof(names[0]))
		name = names[event];
	return json_object_new_string(name ? name : "unknown");
}

static void add(const struct ctl_kernel *k, struct json_object *o,
		const struct field *f, struct nlattr *a)
{
	uint64_t v = number(a);

	switch (f->kind) {
	case TEXT:
		json_object_object_add(o, f->name, json_object_new_string_len(
					       nla_data(a), (int)strnlen(
					       nla_data(a), nla_len(a))));
		break;
	case FLAG:
		json_object_object_add(o, f->name, json_object_new_boolean(!!v));
		break;
	case PROCESS:
		json_object_object_add(o, f->name, json_object_new_uint64(v));
		json_object_object_add(o, "process", process_name(k, v));
		break;
	case SECONDS:
		json_object_object_add(o, f->name,
				       json_object_new_uint64(v / SEC_NS));
		break;
	case HASH:
		json_object_object_add(o, f->name, hash_text(v));
		break;
	case EVENT:
		json_object_object_add(o, f->name, event_name(v));
		break;
	case WIDE:
	case NUMBER:
		json_object_object_add(o, f->name, json_object_new_uint64(v));
		break;
	}
}

/* NULL: of an instance that was not asked for, or no message of ours. */
static struct json_object *object(const struct ctl_kernel *k,
				  struct nlmsghdr *h)
{
	struct nlattr *attrs[FLUXONKV_ATTR_MAX + 1];
	struct nlattr *name;
	struct json_object *o;

	/* without a policy: an attribute may grow, number() sees its width */
	if (genlmsg_parse(h, 0, attrs, FLUXONKV_ATTR_MAX, NULL))
		return NULL;
	name = attrs[FLUXONKV_ATTR_INSTANCE];
	if (k->only[0] && (!name || nla_strcmp(name, k->only)))
		return NULL;
	o = json_object_new_object();
	for (size_t i = 0; i < NR_FIELDS; i++) {
		const struct field *f = &fields[i];

		if (attrs[f->attr] && (k->wide || f->kind != WIDE))
			add(k, o, f, attrs[f->attr]);
	}
	return o;
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
	k->host_pids = sees_host_pids();
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
	snprintf(k->only, sizeof(k->only), "%s", name);
	k->wide = wide;
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
	struct json_object *o = object(f->k, nlmsg_hdr(msg));

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
