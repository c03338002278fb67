// SPDX-License-Identifier: GPL-2.0-only
/*
 * netlink.c - what there is, for operators: segments, clients, holders, events
 */
#include <linux/module.h>
#include <net/genetlink.h>

#include "internal.h"

/* Who listens may be anybody where the kernel cannot tell: see put_event(). */
#ifdef GENL_MCAST_CAP_NET_ADMIN
#define EVENT_FLAGS	GENL_MCAST_CAP_NET_ADMIN
#else
#define EVENT_FLAGS	0
#endif

static const struct genl_multicast_group groups[] = {
	{ .name = FLUXONKV_GENL_GROUP, .flags = EVENT_FLAGS },
};

static struct genl_family family;

static int put_u64(struct sk_buff *skb, int attr, u64 value)
{
	return nla_put_u64_64bit(skb, attr, value, FLUXONKV_ATTR_PAD);
}

/* May who asks see this instance? */
static bool may_see(struct sk_buff *asked, const struct fkv_instance *inst)
{
	return netlink_capable(asked, CAP_NET_ADMIN) ||
	       uid_eq(NETLINK_CREDS(asked)->uid, inst->owner_uid);
}

static void *begin(struct sk_buff *skb, struct netlink_callback *cb, u8 cmd)
{
	return genlmsg_put(skb, NETLINK_CB(cb->skb).portid,
			   cb->nlh->nlmsg_seq, &family, NLM_F_MULTI, cmd);
}

/* Closed when it has all, taken back when it has no room. */
static int end(struct sk_buff *skb, void *head, int err)
{
	if (err) {
		genlmsg_cancel(skb, head);
		return -EMSGSIZE;
	}
	genlmsg_end(skb, head);
	return 0;
}

/* ---- what is told of each ---- */

static int put_instance(struct sk_buff *skb, const struct fkv_instance *inst)
{
	return nla_put_string(skb, FLUXONKV_ATTR_INSTANCE, inst->name) ||
	       nla_put_u8(skb, FLUXONKV_ATTR_ALIVE, !inst->dead) ||
	       put_u64(skb, FLUXONKV_ATTR_INCARNATION, inst->incarnation);
}

static int put_segment(struct sk_buff *skb, struct fkv_instance *inst,
		       u64 holders)
{
	const struct fkv_segment *seg = &inst->seg;

	return put_instance(skb, inst) ||
	       nla_put_u32(skb, FLUXONKV_ATTR_PID, inst->owner_pid) ||
	       nla_put_u32(skb, FLUXONKV_ATTR_UID,
			   from_kuid_munged(&init_user_ns, inst->owner_uid)) ||
	       put_u64(skb, FLUXONKV_ATTR_BYTES, seg->bytes) ||
	       put_u64(skb, FLUXONKV_ATTR_RESIDENT, seg->reserved) ||
	       put_u64(skb, FLUXONKV_ATTR_HUGE,
		       (u64)atomic64_read(&seg->huge) * FKV_CHUNK) ||
	       put_u64(skb, FLUXONKV_ATTR_ENTRIES,
		       atomic64_read(&inst->entries)) ||
	       put_u64(skb, FLUXONKV_ATTR_RETIRED,
		       atomic64_read(&inst->retired)) ||
	       put_u64(skb, FLUXONKV_ATTR_NR_CLIENTS, inst->nr_sessions) ||
	       put_u64(skb, FLUXONKV_ATTR_NR_HOLDERS, holders) ||
	       put_u64(skb, FLUXONKV_ATTR_OPEN_PUTS,
		       atomic64_read(&inst->open_puts)) ||
	       put_u64(skb, FLUXONKV_ATTR_HELD_BYTES,
		       fkv_held_bytes(inst)) ||
	       put_u64(skb, FLUXONKV_ATTR_HITS,
		       atomic64_read(&inst->nr_hits)) ||
	       put_u64(skb, FLUXONKV_ATTR_MISSES,
		       atomic64_read(&inst->misses));
}

static int put_client(struct sk_buff *skb, struct fkv_session *s)
{
	struct fluxonkv_client c;

	fkv_session_tell(s, &c);
	return put_instance(skb, s->inst) ||
	       put_u64(skb, FLUXONKV_ATTR_CLIENT, c.client) ||
	       nla_put_u32(skb, FLUXONKV_ATTR_PID, c.pid) ||
	       nla_put_u32(skb, FLUXONKV_ATTR_UID, c.uid) ||
	       put_u64(skb, FLUXONKV_ATTR_NR_HOLDERS, c.holders) ||
	       put_u64(skb, FLUXONKV_ATTR_PINNED_BYTES, c.pinned_bytes) ||
	       put_u64(skb, FLUXONKV_ATTR_AGE_NS,
		       ktime_get_coarse_ns() - s->since_ns);
}

static int put_holder(struct sk_buff *skb, struct fkv_session *s,
		      const struct fkv_told *h)
{
	return put_instance(skb, s->inst) ||
	       put_u64(skb, FLUXONKV_ATTR_CLIENT, s->id) ||
	       nla_put_u32(skb, FLUXONKV_ATTR_PID, s->pid) ||
	       nla_put_u32(skb, FLUXONKV_ATTR_UID,
			   from_kuid_munged(&init_user_ns, s->kuid)) ||
	       put_u64(skb, FLUXONKV_ATTR_HOLDER, h->id) ||
	       nla_put_u32(skb, FLUXONKV_ATTR_HASH, h->hash) ||
	       put_u64(skb, FLUXONKV_ATTR_BYTES, h->len) ||
	       put_u64(skb, FLUXONKV_ATTR_VERSION, h->put_id) ||
	       put_u64(skb, FLUXONKV_ATTR_AGE_NS,
		       ktime_get_coarse_ns() - h->since_ns);
}

/* ---- dumps ---- */

/*
 * Where a dump goes on: cb->args has the instances and sessions that are done,
 * and the next holder. What comes or goes meanwhile may be told or not.
 */
typedef int (*tell_fn)(struct sk_buff *skb, struct netlink_callback *cb,
		       struct fkv_instance *inst);

static int dump(struct sk_buff *skb, struct netlink_callback *cb, tell_fn tell)
{
	struct fkv_instance *inst;
	long at = 0;
	int err = 0;

	mutex_lock(&fkv_instances_lock);
	list_for_each_entry(inst, &fkv_instances, link) {
		if (at++ < cb->args[0])
			continue;
		if (may_see(cb->skb, inst)) {
			mutex_lock(&inst->sessions_lock);
			err = tell(skb, cb, inst);
			mutex_unlock(&inst->sessions_lock);
		}
		if (err)
			break;
		cb->args[0]++;
		cb->args[1] = 0;
		cb->args[2] = 0;
	}
	mutex_unlock(&fkv_instances_lock);
	return err && !skb->len ? err : skb->len;
}

/* Who may see none is told so, rather than that there is none. */
static int may_dump(struct netlink_callback *cb)
{
	struct fkv_instance *inst;
	bool may = false;

	if (netlink_capable(cb->skb, CAP_NET_ADMIN))
		return 0;
	mutex_lock(&fkv_instances_lock);
	list_for_each_entry(inst, &fkv_instances, link)
		may = may || may_see(cb->skb, inst);
	mutex_unlock(&fkv_instances_lock);
	return may ? 0 : -EPERM;
}

static int tell_segment(struct sk_buff *skb, struct netlink_callback *cb,
			struct fkv_instance *inst)
{
	struct fkv_session *s;
	u64 holders = 0;
	void *head;

	list_for_each_entry(s, &inst->sessions, link)
		holders += READ_ONCE(s->holders.nr);
	head = begin(skb, cb, FLUXONKV_CMD_SEGMENTS);
	if (!head)
		return -EMSGSIZE;
	return end(skb, head, put_segment(skb, inst, holders));
}

static int tell_clients(struct sk_buff *skb, struct netlink_callback *cb,
			struct fkv_instance *inst)
{
	struct fkv_session *s;
	long at = 0;

	list_for_each_entry(s, &inst->sessions, link) {
		void *head;

		if (at++ < cb->args[1])
			continue;
		head = begin(skb, cb, FLUXONKV_CMD_CLIENTS);
		if (!head || end(skb, head, put_client(skb, s)))
			return -EMSGSIZE;
		cb->args[1]++;
	}
	return 0;
}

static int tell_session(struct sk_buff *skb, struct netlink_callback *cb,
			struct fkv_session *s)
{
	u32 at = cb->args[2];
	struct fkv_told h;

	while (fkv_holder_next(s, &at, &h)) {
		void *head = begin(skb, cb, FLUXONKV_CMD_HOLDERS);

		if (!head || end(skb, head, put_holder(skb, s, &h)))
			return -EMSGSIZE;
		cb->args[2] = at;
	}
	return 0;
}

static int tell_holders(struct sk_buff *skb, struct netlink_callback *cb,
			struct fkv_instance *inst)
{
	struct fkv_session *s;
	long at = 0;

	list_for_each_entry(s, &inst->sessions, link) {
		int err;

		if (at++ < cb->args[1])
			continue;
		err = tell_session(skb, cb, s);
		if (err)
			return err;
		cb->args[1]++;
		cb->args[2] = 0;
	}
	return 0;
}

static int dump_segments(struct sk_buff *skb, struct netlink_callback *cb)
{
	return dump(skb, cb, tell_segment);
}

static int dump_clients(struct sk_buff *skb, struct netlink_callback *cb)
{
	return dump(skb, cb, tell_clients);
}

static int dump_holders(struct sk_buff *skb, struct netlink_callback *cb)
{
	return dump(skb, cb, tell_holders);
}

/* ---- events ---- */

/* Of clients only their number, unless all who listen may know more. */
static int put_event(struct sk_buff *skb, struct fkv_instance *inst, u32 event,
		     struct fkv_session *s)
{
	if (nla_put_u32(skb, FLUXONKV_ATTR_EVENT, event))
		return -EMSGSIZE;
	if (s && EVENT_FLAGS)
		return put_client(skb, s);
	return put_instance(skb, inst) ||
	       (s && put_u64(skb, FLUXONKV_ATTR_CLIENT, s->id));
}

/* Lossy: who listens and is late asks again by a dump. */
void fkv_netlink_event(struct fkv_instance *inst, u32 event,
		       struct fkv_session *s)
{
	struct sk_buff *skb;
	void *head;

	if (!genl_has_listeners(&family, &init_net, 0))
		return;
	skb = genlmsg_new(NLMSG_GOODSIZE, GFP_KERNEL);
	if (!skb)
		return;
	head = genlmsg_put(skb, 0, 0, &family, 0, FLUXONKV_CMD_EVENT);
	if (!head || put_event(skb, inst, event, s)) {
		nlmsg_free(skb);
		return;
	}
	genlmsg_end(skb, head);
	genlmsg_multicast(&family, skb, 0, 0, GFP_KERNEL);
}

static const struct genl_ops ops[] = {
	{
		.cmd = FLUXONKV_CMD_SEGMENTS,
		.start = may_dump,
		.dumpit = dump_segments,
	},
	{
		.cmd = FLUXONKV_CMD_CLIENTS,
		.start = may_dump,
		.dumpit = dump_clients,
	},
	{
		.cmd = FLUXONKV_CMD_HOLDERS,
		.start = may_dump,
		.dumpit = dump_holders,
	},
};

static const struct nla_policy policy[FLUXONKV_ATTR_MAX + 1];

static struct genl_family family __ro_after_init = {
	.name = FLUXONKV_GENL_NAME,
	.version = FLUXONKV_GENL_VERSION,
	.maxattr = FLUXONKV_ATTR_MAX,
	.policy = policy,
	.ops = ops,
	.n_ops = ARRAY_SIZE(ops),
	.mcgrps = groups,
	.n_mcgrps = ARRAY_SIZE(groups),
	.module = THIS_MODULE,
};

int __init fkv_netlink_init(void)
{
	return genl_register_family(&family);
}

void fkv_netlink_exit(void)
{
	genl_unregister_family(&family);
}
