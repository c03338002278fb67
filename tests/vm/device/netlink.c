// SPDX-License-Identifier: Apache-2.0
/*
 * netlink.c - dumps and events, by a socket of our own
 */
#include <linux/genetlink.h>
#include <linux/netlink.h>
#include <poll.h>
#include <sys/socket.h>

#include "common.h"

#define SEGMENT	(16 * MIB)
#define NAME	"netlink"

static struct owner owner;
static u16 family;
static u32 group;

/* What one message said. */
struct told {
	u32 cmd;
	u32 has;			/* bits of attributes */
	u64 value[FLUXONKV_ATTR_MAX + 1];
	char instance[FLUXONKV_NAME_MAX];
};

static int nl_open(void)
{
	struct sockaddr_nl a = { .nl_family = AF_NETLINK };
	int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_GENERIC);

	CHECK(fd >= 0);
	CHECK(!bind(fd, (void *)&a, sizeof(a)));
	return fd;
}

struct request {
	struct nlmsghdr nl;
	struct genlmsghdr genl;
	struct nlattr attr;
	char name[16];
};

static void nl_send(int fd, u16 type, u16 flags, u8 cmd, const char *name)
{
	struct request q = {
		.nl = {
			.nlmsg_len = NLMSG_LENGTH(GENL_HDRLEN),
			.nlmsg_type = type,
			.nlmsg_flags = NLM_F_REQUEST | flags,
			.nlmsg_seq = 1,
		},
		.genl = { .cmd = cmd, .version = 1 },
	};

	if (name) {
		q.attr.nla_type = CTRL_ATTR_FAMILY_NAME;
		q.attr.nla_len = (u16)(NLA_HDRLEN + strlen(name) + 1);
		strcpy(q.name, name);
		q.nl.nlmsg_len += NLA_ALIGN(q.attr.nla_len);
	}
	EQ(send(fd, &q, q.nl.nlmsg_len, 0), q.nl.nlmsg_len);
}

typedef void (*attr_fn)(u32 type, const void *data, u32 len, void *arg);

static void attrs(const void *at, u32 len, attr_fn fn, void *arg)
{
	while (len >= NLA_HDRLEN) {
		const struct nlattr *a = at;
		u32 step = NLA_ALIGN((u32)a->nla_len);

		CHECK(a->nla_len >= NLA_HDRLEN && a->nla_len <= len);
		fn(a->nla_type & NLA_TYPE_MASK, (const u8 *)at + NLA_HDRLEN,
		   a->nla_len - NLA_HDRLEN, arg);
		if (step >= len)
			return;
		at = (const u8 *)at + step;
		len -= step;
	}
}

static void group_attr(u32 type, const void *data, u32 len, void *arg)
{
	(void)len;
	(void)arg;
	if (type == CTRL_ATTR_MCAST_GRP_ID)
		memcpy(&group, data, 4);
}

static void groups_attr(u32 type, const void *data, u32 len, void *arg)
{
	(void)type;
	attrs(data, len, group_attr, arg);
}

static void family_attr(u32 type, const void *data, u32 len, void *arg)
{
	if (type == CTRL_ATTR_FAMILY_ID)
		memcpy(&family, data, 2);
	if (type == CTRL_ATTR_MCAST_GROUPS)
		attrs(data, len, groups_attr, arg);
}

static void find_family(void)
{
	static u8 buf[8192];
	struct nlmsghdr *m = (void *)buf;
	int fd = nl_open();

	nl_send(fd, GENL_ID_CTRL, 0, CTRL_CMD_GETFAMILY, FLUXONKV_GENL_NAME);
	CHECK(recv(fd, buf, sizeof(buf), 0) > 0);
	EQ(m->nlmsg_type, GENL_ID_CTRL);
	attrs(buf + NLMSG_LENGTH(GENL_HDRLEN),
	      m->nlmsg_len - NLMSG_LENGTH(GENL_HDRLEN), family_attr, NULL);
	close(fd);
	CHECK(family && group);
}

static void told_attr(u32 type, const void *data, u32 len, void *arg)
{
	struct told *t = arg;

	CHECK(type <= FLUXONKV_ATTR_MAX);
	t->has |= 1U << type;
	if (type == FLUXONKV_ATTR_INSTANCE)
		snprintf(t->instance, sizeof(t->instance), "%s",
			 (const char *)data);
	else if (len <= 8)
		memcpy(&t->value[type], data, len);
}

static void read_told(const struct nlmsghdr *m, struct told *t)
{
	const struct genlmsghdr *g = NLMSG_DATA(m);

	memset(t, 0, sizeof(*t));
	t->cmd = g->cmd;
	attrs((const u8 *)g + GENL_HDRLEN,
	      m->nlmsg_len - (u32)NLMSG_LENGTH(GENL_HDRLEN), told_attr, t);
}

/* All messages of a dump: how many, the first @max in @ret; or -errno. */
static int dump(int fd, u8 cmd, struct told *ret, u32 max)
{
	static u8 buf[65536];
	u32 n = 0;

	nl_send(fd, family, NLM_F_DUMP, cmd, NULL);
	for (;;) {
		ssize_t got = recv(fd, buf, sizeof(buf), 0);
		const struct nlmsghdr *m;

		CHECK(got > 0);
		for (ssize_t at = 0; at < got;
		     at += NLMSG_ALIGN(m->nlmsg_len)) {
			m = (void *)(buf + at);
			if (m->nlmsg_type == NLMSG_DONE)
				return (int)n;
			if (m->nlmsg_type == NLMSG_ERROR)
				return *(int *)NLMSG_DATA(m);
			if (n < max)
				read_told(m, &ret[n]);
			n++;
		}
	}
}

#define BIT(a)	(1U << FLUXONKV_ATTR_##a)

static void start(struct client *c, u32 n)
{
	find_family();
	owner.bind.incarnation = 77;
	owner_start(&owner, NAME, SEGMENT);
	owner_serve(&owner);
	for (u32 i = 0; i < n; i++)
		client_start(&c[i], NAME);
	EQ(owner_publish(&owner, "k", 0, 5000, 9), 0);
}

static void dumps_agree_with_the_counts(void)
{
	static struct told t[5000];
	struct fluxonkv_result res;
	struct fluxonkv_counts n;
	struct client c[3];
	u64 holders = 0;
	int fd;

	start(c, 3);
	fd = nl_open();
	for (u32 i = 0; i < 3; i++)
		for (u32 j = 0; j < i * 1000; j++)
			EQ(get(&c[i], "k", &res), 0);
	EQ(put_begin(&c[0], "p", PAGE, &res), -EPROTO);
	EQ(put_begin(&c[0], "p", PAGE, &res), 0);
	n = owner_counts(&owner);
	EQ(dump(fd, FLUXONKV_CMD_SEGMENTS, t, 1), 1);
	CHECK(!strcmp(t->instance, NAME));
	EQ(t->value[FLUXONKV_ATTR_ALIVE], 1);
	EQ(t->value[FLUXONKV_ATTR_INCARNATION], 77);
	EQ(t->value[FLUXONKV_ATTR_PID], getpid());
	EQ(t->value[FLUXONKV_ATTR_UID], 0);
	EQ(t->value[FLUXONKV_ATTR_BYTES], SEGMENT);
	EQ(t->value[FLUXONKV_ATTR_RESIDENT], SEGMENT);
	EQ(t->value[FLUXONKV_ATTR_ENTRIES], n.entries);
	EQ(t->value[FLUXONKV_ATTR_RETIRED], n.retired);
	EQ(t->value[FLUXONKV_ATTR_NR_CLIENTS], n.clients);
	EQ(t->value[FLUXONKV_ATTR_NR_HOLDERS], n.holders);
	EQ(t->value[FLUXONKV_ATTR_OPEN_PUTS], n.open_puts);
	EQ(t->value[FLUXONKV_ATTR_HELD_BYTES], n.held_bytes);
	EQ(t->value[FLUXONKV_ATTR_HITS], n.hits);
	EQ(t->value[FLUXONKV_ATTR_MISSES], n.misses);
	EQ(dump(fd, FLUXONKV_CMD_CLIENTS, t, 10), 3);
	for (u32 i = 0; i < 3; i++) {
		EQ(t[i].value[FLUXONKV_ATTR_CLIENT], c[i].id);
		EQ(t[i].value[FLUXONKV_ATTR_NR_HOLDERS], i * 1000);
		EQ(t[i].value[FLUXONKV_ATTR_PID], getpid());
		EQ(t[i].value[FLUXONKV_ATTR_PINNED_BYTES],
		   i * 2000 * PAGE + (i ? 0 : PAGE));
		CHECK(t[i].has & BIT(AGE_NS));
		holders += t[i].value[FLUXONKV_ATTR_NR_HOLDERS];
	}
	EQ(holders, n.holders);
	EQ(dump(fd, FLUXONKV_CMD_HOLDERS, t, 5000), n.holders);
	for (u32 i = 0; i < n.holders; i++) {
		EQ(t[i].value[FLUXONKV_ATTR_CLIENT], c[i < 1000 ? 1 : 2].id);
		EQ(t[i].value[FLUXONKV_ATTR_BYTES], 5000);
		EQ(t[i].value[FLUXONKV_ATTR_VERSION], 9);
		EQ(t[i].value[FLUXONKV_ATTR_HASH],
		   t[0].value[FLUXONKV_ATTR_HASH]);
		CHECK(t[i].value[FLUXONKV_ATTR_HOLDER]);
	}
}

static void other_users_are_refused(void)
{
	struct fluxonkv_result res;
	struct client c;
	struct told t;
	pid_t pid;

	start(&c, 1);
	EQ(get(&c, "k", &res), 0);
	pid = spawn();
	if (!pid) {
		int fd;

		CHECK(!setresuid(1234, 1234, 1234));
		fd = nl_open();
		EQ(dump(fd, FLUXONKV_CMD_SEGMENTS, &t, 1), -EPERM);
		EQ(dump(fd, FLUXONKV_CMD_CLIENTS, &t, 1), -EPERM);
		EQ(dump(fd, FLUXONKV_CMD_HOLDERS, &t, 1), -EPERM);
		_exit(0);
	}
	EQ(reap(pid), 0);
}

/* The owner's user sees its own, and no other's. */
static void owner_sees_its_own(void)
{
	static struct owner mine;
	struct told t;
	struct client c;
	int fd;

	start(&c, 1);
	mine.fd = owner_node();
	CHECK(!setresuid(1234, 1234, 0));
	mine.bind = (struct fluxonkv_bind){
		.size = sizeof(mine.bind), .name = "mine", .clients_max = 1,
	};
	EQ(ask(mine.fd, FLUXONKV_IOC_BIND, &mine.bind), 0);
	fd = nl_open();
	EQ(dump(fd, FLUXONKV_CMD_SEGMENTS, &t, 1), 1);
	CHECK(!strcmp(t.instance, "mine"));
	EQ(t.value[FLUXONKV_ATTR_UID], 1234);
	EQ(dump(fd, FLUXONKV_CMD_CLIENTS, &t, 1), 0);
}

static void unknown_commands_are_refused(void)
{
	struct client c;
	struct told t;

	start(&c, 1);
	EQ(dump(nl_open(), 0, &t, 1), -EOPNOTSUPP);
	EQ(dump(nl_open(), FLUXONKV_CMD_EVENT, &t, 1), -EOPNOTSUPP);
	EQ(dump(nl_open(), 200, &t, 1), -EOPNOTSUPP);
}

static void await_event(int fd, u32 event, u64 client)
{
	static u8 buf[8192];
	struct pollfd p = { .fd = fd, .events = POLLIN };
	struct told t;

	EQ(poll(&p, 1, 5000), 1);
	CHECK(recv(fd, buf, sizeof(buf), 0) > 0);
	read_told((void *)buf, &t);
	EQ(t.cmd, FLUXONKV_CMD_EVENT);
	EQ(t.value[FLUXONKV_ATTR_EVENT], event);
	EQ(t.value[FLUXONKV_ATTR_CLIENT], client);
	CHECK(!strcmp(t.instance, NAME));
}

static void beginnings_and_ends_are_told(void)
{
	struct client c;
	int fd;

	find_family();
	fd = nl_open();
	CHECK(!setsockopt(fd, SOL_NETLINK, NETLINK_ADD_MEMBERSHIP, &group,
			  sizeof(group)));
	owner_start(&owner, NAME, SEGMENT);
	await_event(fd, FLUXONKV_EVENT_SEGMENT_READY, 0);
	client_start(&c, NAME);
	await_event(fd, FLUXONKV_EVENT_CLIENT, c.id);
	client_stop(&c);
	await_event(fd, FLUXONKV_EVENT_CLIENT_GONE, c.id);
	munmap(owner.map, SEGMENT);
	close(owner.fd);
	await_event(fd, FLUXONKV_EVENT_OWNER_GONE, 0);
}

static volatile bool stop;

static void *dump_all_the_time(void *arg)
{
	struct told t;
	int fd = nl_open();

	(void)arg;
	while (!stop)
		for (u8 cmd = FLUXONKV_CMD_SEGMENTS;
		     cmd <= FLUXONKV_CMD_HOLDERS; cmd++)
			CHECK(dump(fd, cmd, &t, 1) >= 0);
	close(fd);
	return NULL;
}

/* While clients with holders come and go. */
static void dumps_and_ends_do_not_meet(void)
{
	u64 end = now_ns() + (full_run() ? 20 : 4) * SEC_NS;
	struct fluxonkv_result res;
	struct client c, first;
	pthread_t t;

	start(&first, 1);
	CHECK(!pthread_create(&t, NULL, dump_all_the_time, NULL));
	while (now_ns() < end) {
		client_start(&c, NAME);
		EQ(owner_publish(&owner, "held", 8 * MIB, PAGE, 3), 0);
		for (u32 i = 0; i < 1000; i++)
			EQ(get(&c, i % 2 ? "k" : "held", &res), 0);
		owner_retire(&owner, "held", 3);
		client_stop(&c);
	}
	stop = true;
	pthread_join(t, NULL);
}

int main(int argc, char **argv)
{
	static const struct test tests[] = {
		TEST(dumps_agree_with_the_counts),
		TEST(other_users_are_refused),
		TEST(owner_sees_its_own),
		TEST(unknown_commands_are_refused),
		TEST(beginnings_and_ends_are_told),
		LONG_TEST(dumps_and_ends_do_not_meet, 200),
	};

	return TESTS_RUN(tests, argc, argv);
}
