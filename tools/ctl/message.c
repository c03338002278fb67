// SPDX-License-Identifier: Apache-2.0
/*
 * message.c - a message of the kernel module as an object
 */
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <netlink/genl/genl.h>
#include <netlink/netlink.h>

#include "ctl/message.h"

#define SEC_NS		1000000000ull

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

/* Of any width that the kernel chose; false: it is no number. */
static bool number(const struct nlattr *a, uint64_t *ret)
{
	switch (nla_len(a)) {
	case 1:
		*ret = nla_get_u8(a);
		return true;
	case 4:
		*ret = nla_get_u32(a);
		return true;
	case 8:
		*ret = nla_get_u64(a);
		return true;
	default:
		return false;
	}
}

/* The name of a process; NULL: it ended, or is not to be seen from here. */
static struct json_object *process_name(const struct ctl_view *view,
					uint64_t pid)
{
	char path[64], comm[64] = "";
	FILE *f;

	if (!view->host_pids || !pid)
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

static void add(const struct ctl_view *view, struct json_object *o,
		const struct field *f, struct nlattr *a)
{
	uint64_t v = 0;

	if (f->kind != TEXT && !number(a, &v))
		return;
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
		json_object_object_add(o, "process", process_name(view, v));
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

struct json_object *ctl_message_object(const struct ctl_view *view,
				       struct nlmsghdr *h)
{
	struct nlattr *attrs[FLUXONKV_ATTR_MAX + 1];
	struct nlattr *name;
	struct json_object *o;

	/* without a policy: an attribute may grow, number() sees its width */
	if (genlmsg_parse(h, 0, attrs, FLUXONKV_ATTR_MAX, NULL))
		return NULL;
	name = attrs[FLUXONKV_ATTR_INSTANCE];
	if (view->only[0] && (!name || nla_strcmp(name, view->only)))
		return NULL;
	o = json_object_new_object();
	for (size_t i = 0; i < NR_FIELDS; i++) {
		const struct field *f = &fields[i];

		if (attrs[f->attr] && (view->wide || f->kind != WIDE))
			add(view, o, f, attrs[f->attr]);
	}
	return o;
}
