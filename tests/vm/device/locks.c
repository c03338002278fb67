// SPDX-License-Identifier: Apache-2.0
/*
 * locks.c - what hits lock: nothing that their clients share
 *
 * The kernel counts how often each class of locks was taken (CONFIG_LOCK_STAT,
 * which the debug lane has). What rises with the number of hits is taken by
 * each of them.
 */
#include "common.h"

#define NAME		"locks"
#define CLIENTS		4u
#define FEW		1000u		/* hits of all clients */
#define MANY		11000u
#define CLASSES_MAX	2048u
/* of what time alone takes: a lock of each hit would rise by MANY - FEW */
#define NOISE		((MANY - FEW) / 2)

struct class {
	char name[64];
	u64 taken;
};

struct counts {
	struct class at[CLASSES_MAX];
	u32 nr;
};

static struct owner owner = { .slot = MIB };
/*
 * As in lock_stat: the session's own, the process's own (said to be taken where
 * a copy may fault), and two of which a reader writes nothing.
 */
static const char *const own[] = {
	"&t->lock", "&mm->mmap_lock", "rcu_read_lock", "tk_core.seq.seqcount",
};

/* ---- the counts ---- */

/* Reads and writes of a class as one; classes of one name as well. */
static struct class *class_of(struct counts *c, char *name)
{
	size_t n;

	name += strspn(name, " ");
	n = strlen(name);
	if (n > 2 && (!strcmp(name + n - 2, "-R") ||
		      !strcmp(name + n - 2, "-W")))
		name[n - 2] = 0;
	for (u32 i = 0; i < c->nr; i++)
		if (!strncmp(c->at[i].name, name, sizeof(c->at[i].name) - 1))
			return &c->at[i];
	CHECK(c->nr < CLASSES_MAX);
	snprintf(c->at[c->nr].name, sizeof(c->at[0].name), "%s", name);
	return &c->at[c->nr++];
}

/* The eighth number behind a class's name. */
static void count_line(struct counts *c, char *line)
{
	char *end = strrchr(line, ':');
	double n[8];

	if (!end || sscanf(end + 1, "%lf %lf %lf %lf %lf %lf %lf %lf", n,
			   n + 1, n + 2, n + 3, n + 4, n + 5, n + 6,
			   n + 7) != 8)
		return;
	*end = 0;
	class_of(c, line)->taken += (u64)n[7];
}

static void count(struct counts *c)
{
	FILE *f = fopen("/proc/lock_stat", "r");
	char line[512];

	memset(c, 0, sizeof(*c));
	if (f) {
		while (fgets(line, sizeof(line), f))
			count_line(c, line);
		fclose(f);
	} else {
		test_skip("no CONFIG_LOCK_STAT");
	}
}

static u64 taken(const struct counts *c, const char *name)
{
	for (u32 i = 0; i < c->nr; i++)
		if (!strcmp(c->at[i].name, name))
			return c->at[i].taken;
	return 0;
}

/* ---- the load ---- */

/* Each gives back what the one before it got: one call, one hit. */
static void hit_and_release(struct client *c, u32 n)
{
	static u64 body[64], reply[64];
	const struct item it = { .key = "key" };
	struct fluxonkv_result *res = (void *)((u8 *)reply +
					       sizeof(struct fluxonkv_rep));
	u64 id = 0;
	struct fluxonkv_call call = {
		.size = sizeof(call), .body = (uintptr_t)body,
		.body_size = body_build(body, FLUXONKV_OP_GET, &it, 1, 0),
		.reply = (uintptr_t)reply, .reply_room = sizeof(reply),
		.release = (uintptr_t)&id, .nr_release = 1,
	};

	for (u32 i = 0; i < n; i++) {
		EQ(ask(c->fd, FLUXONKV_IOC_CALL, &call), 0);
		EQ(res->status, 0);
		EQ(call.released, i ? 1 : 0);
		id = res->id;
	}
	EQ(release(c, id), 0);
}

struct loader {
	pid_t pid;
	int go, done;			/* pipes: hits to do, 0: end; done */
};

static void say(int fd, u32 n)
{
	EQ(write(fd, &n, sizeof(n)), sizeof(n));
}

static u32 hear(int fd)
{
	u32 n = 0;

	return read(fd, &n, sizeof(n)) == sizeof(n) ? n : 0;
}

static void loader_start(struct loader *l)
{
	int go[2], done[2];
	struct client c;
	u32 n;

	CHECK(!pipe(go) && !pipe(done));
	l->go = go[1];
	l->done = done[0];
	l->pid = spawn();
	if (l->pid)
		return;
	client_start(&c, NAME);
	while ((n = hear(go[0]))) {
		hit_and_release(&c, n);
		say(done[1], n);
	}
	_exit(0);
}

/* What is taken while all do @hits. */
static void load(struct loader *l, u32 hits, struct counts *ret)
{
	static struct counts before;

	count(&before);
	for (u32 i = 0; i < CLIENTS; i++)
		say(l[i].go, hits / CLIENTS);
	for (u32 i = 0; i < CLIENTS; i++)
		EQ(hear(l[i].done), hits / CLIENTS);
	count(ret);
	for (u32 i = 0; i < ret->nr; i++)
		ret->at[i].taken -= taken(&before, ret->at[i].name);
}

static bool is_own(const char *name)
{
	for (u32 i = 0; i < ARRAY_SIZE(own); i++)
		if (!strcmp(name, own[i]))
			return true;
	return false;
}

static void hits_take_no_lock_that_clients_share(void)
{
	static struct counts few, many;
	struct loader l[CLIENTS];
	u32 shared = 0;

	count(&few);
	owner_start(&owner, NAME, 64 * MIB);
	EQ(owner_publish(&owner, "key", 0, PAGE, 1), 0);
	for (u32 i = 0; i < CLIENTS; i++)
		loader_start(&l[i]);
	/* the first ones have memory to be made */
	load(l, FEW, &few);
	load(l, FEW, &few);
	load(l, MANY, &many);
	for (u32 i = 0; i < many.nr; i++) {
		const char *name = many.at[i].name;
		u64 rise = many.at[i].taken - taken(&few, name);

		if ((int64_t)rise < NOISE)
			continue;
		printf("    %s: %llu times for %u hits more%s\n", name,
		       (unsigned long long)rise, MANY - FEW,
		       is_own(name) ? "" : ": SHARED");
		shared += !is_own(name);
	}
	EQ(shared, 0);
	/* it was counted: once for the get, once for the release */
	CHECK(taken(&many, own[0]) >= 2 * MANY);
	for (u32 i = 0; i < CLIENTS; i++) {
		/* closing it is not enough: the others have it, too */
		say(l[i].go, 0);
		EQ(reap(l[i].pid), 0);
	}
}

int main(int argc, char **argv)
{
	static const struct test tests[] = {
		LONG_TEST(hits_take_no_lock_that_clients_share, 240),
	};

	return TESTS_RUN(tests, argc, argv);
}
