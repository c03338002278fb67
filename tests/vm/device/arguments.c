// SPDX-License-Identifier: Apache-2.0
/*
 * arguments.c - what the ioctls of both nodes refuse: structs, states, calls
 *
 * Nothing of it may change what the kernel counts, or come into its log.
 */
#include "common.h"

#define SEGMENT	(8 * MIB)

static struct owner owner;
static struct client client;

/* ---- structs versioned by their size ---- */

enum node { CLIENT, OWNER };

/* What a command takes, and its answer to @fill. */
struct form {
	enum node node;
	unsigned long cmd;
	u32 size;
	int good;
	int zero_at;			/* a __u32 that must be 0, or -1 */
	bool flags, out;
	void (*fill)(void *to);
};

static void fill_nothing(void *to)
{
	(void)to;
}

static void fill_bind(void *to)
{
	struct fluxonkv_bind *b = to;

	strcpy(b->name, "other");
	b->clients_max = 1;
}

static void fill_segment(void *to)
{
	((struct fluxonkv_segment *)to)->bytes = 2 * MIB;
}

static void fill_array(void *to)
{
	((struct fluxonkv_array *)to)->stride =
		sizeof(struct fluxonkv_entry);
}

static void fill_hits(void *to)
{
	static struct fluxonkv_hit hit;
	struct fluxonkv_array *a = to;

	a->at = (uintptr_t)&hit;
	a->nr = 1;
	a->stride = sizeof(hit);
}

static void fill_clients(void *to)
{
	static struct fluxonkv_client one;
	struct fluxonkv_array *a = to;

	a->at = (uintptr_t)&one;
	a->nr = 1;
	a->stride = sizeof(one);
}

#define AT(type, field)	((int)offsetof(struct type, field))

static const struct form forms[] = {
	{ CLIENT, FLUXONKV_IOC_FEATURES, sizeof(struct fluxonkv_features),
	  0, -1, false, true, fill_nothing },
	{ CLIENT, FLUXONKV_IOC_ATTACH, sizeof(struct fluxonkv_attach),
	  -EBADFD, -1, true, false, fill_nothing },
	{ CLIENT, FLUXONKV_IOC_CALL, sizeof(struct fluxonkv_call),
	  0, AT(fluxonkv_call, zero), true, true, fill_nothing },
	{ OWNER, FLUXONKV_IOC_FEATURES, sizeof(struct fluxonkv_features),
	  0, -1, false, true, fill_nothing },
	{ OWNER, FLUXONKV_IOC_BIND, sizeof(struct fluxonkv_bind),
	  -EBADFD, -1, false, false, fill_bind },
	{ OWNER, FLUXONKV_IOC_SEGMENT_CREATE, sizeof(struct fluxonkv_segment),
	  -EBADFD, -1, true, true, fill_segment },
	{ OWNER, FLUXONKV_IOC_SEGMENT_POPULATE,
	  sizeof(struct fluxonkv_segment), 0, -1, true, true, fill_segment },
	{ OWNER, FLUXONKV_IOC_SEGMENT_READY, sizeof(struct fluxonkv_segment),
	  0, -1, true, true, fill_nothing },
	{ OWNER, FLUXONKV_IOC_PUBLISH, sizeof(struct fluxonkv_array),
	  0, AT(fluxonkv_array, zero), true, true, fill_array },
	{ OWNER, FLUXONKV_IOC_RETIRE, sizeof(struct fluxonkv_array),
	  0, AT(fluxonkv_array, zero), true, true, fill_array },
	{ OWNER, FLUXONKV_IOC_EVICT, sizeof(struct fluxonkv_array),
	  0, AT(fluxonkv_array, zero), true, true, fill_array },
	{ OWNER, FLUXONKV_IOC_HELD, sizeof(struct fluxonkv_array),
	  0, AT(fluxonkv_array, zero), true, true, fill_array },
	{ OWNER, FLUXONKV_IOC_REPLY, sizeof(struct fluxonkv_array),
	  0, AT(fluxonkv_array, zero), true, true, fill_array },
	{ OWNER, FLUXONKV_IOC_HITS, sizeof(struct fluxonkv_array),
	  0, AT(fluxonkv_array, zero), true, true, fill_hits },
	{ OWNER, FLUXONKV_IOC_CLIENTS, sizeof(struct fluxonkv_array),
	  0, AT(fluxonkv_array, zero), true, true, fill_clients },
	{ OWNER, FLUXONKV_IOC_RECV, sizeof(struct fluxonkv_recv),
	  0, AT(fluxonkv_recv, zero), true, true, fill_nothing },
	{ OWNER, FLUXONKV_IOC_SHUT, sizeof(struct fluxonkv_shut),
	  -ENOENT, -1, true, false, fill_nothing },
	{ OWNER, FLUXONKV_IOC_LEASE, sizeof(struct fluxonkv_lease),
	  0, -1, true, false, fill_nothing },
	{ OWNER, FLUXONKV_IOC_COUNTS, sizeof(struct fluxonkv_counts),
	  0, -1, false, true, fill_nothing },
};

static void start(void)
{
	owner_start(&owner, "arguments", SEGMENT);
	client_start(&client, "arguments");
	owner_recv(&owner, owner_handle);
}

static int try(const struct form *f, void *at)
{
	return ask(f->node == OWNER ? owner.fd : client.fd, f->cmd, at);
}

static int try_size(const struct form *f, u8 *at, u32 size)
{
	*(u32 *)at = size;
	return try(f, at);
}

static u8 *fresh(const struct form *f, u8 *at)
{
	memset(at, 0, PAGE);
	f->fill(at);
	*(u32 *)at = f->size;
	return at;
}

static void sizes(const struct form *f, u8 *at)
{
	fresh(f, at);
	EQ(try_size(f, at, 0), -EINVAL);
	EQ(try_size(f, at, 4), -EINVAL);
	EQ(try_size(f, at, f->size - 1), -EINVAL);
	EQ(try_size(f, at, f->size - 8), -EINVAL);
	EQ(try_size(f, at, PAGE + 1), -EINVAL);
	EQ(try_size(f, at, UINT32_MAX), -EINVAL);
	EQ(try_size(f, at, f->size), f->good);
	EQ(try_size(f, fresh(f, at), f->size + 1), f->good);
	EQ(try_size(f, fresh(f, at), f->size + 8), f->good);
	EQ(try_size(f, fresh(f, at), PAGE), f->good);
	fresh(f, at)[f->size] = 1;
	EQ(try_size(f, at, f->size), f->good);
	EQ(try_size(f, at, f->size + 1), -E2BIG);
	fresh(f, at)[PAGE - 1] = 1;
	EQ(try_size(f, at, PAGE), -E2BIG);
}

static void pointers(const struct form *f, u8 *end)
{
	u8 *at = end + PAGE - f->size;

	EQ(try(f, NULL), -EFAULT);
	EQ(try(f, end + PAGE), -EFAULT);
	EQ(try(f, (void *)~7ULL), -EFAULT);
	EQ(try(f, (void *)(1ULL << 63)), -EFAULT);
	/* the whole of it, at the end of what is there: good */
	memset(at, 0, f->size);
	f->fill(at);
	EQ(try_size(f, at, f->size), f->good);
	/* its size only */
	*(u32 *)(end + PAGE - 4) = f->size;
	EQ(try(f, end + PAGE - 4), -EFAULT);
	EQ(try(f, end + PAGE - 2), -EFAULT);
	memset(at, 0, f->size);
	f->fill(at);
	EQ(try_size(f, at, f->size + 8), -EFAULT);
	memmove(at - 8, at, f->size);
	memset(end + PAGE - 8, 0, 8);
	EQ(try_size(f, at - 8, f->size + 16), -EFAULT);
}

static void read_only(const struct form *f, u8 *at)
{
	fresh(f, at);
	mprotect(at, PAGE, PROT_READ);
	EQ(try(f, at), f->out && !f->good ? -EFAULT : f->good);
	mprotect(at, PAGE, PROT_READ | PROT_WRITE);
}

static void fields(const struct form *f, u8 *at)
{
	for (int bit = 0; bit < 32; bit++) {
		/* PINNABLE, STRICT are known */
		if (!f->flags || (!bit && f->cmd ==
				  FLUXONKV_IOC_SEGMENT_CREATE))
			continue;
		((u32 *)fresh(f, at))[1] = 1U << bit;
		EQ(try(f, at), -EINVAL);
	}
	if (f->zero_at < 0)
		return;
	*(u32 *)(fresh(f, at) + f->zero_at) = 1;
	EQ(try(f, at), -EINVAL);
	*(u32 *)(fresh(f, at) + f->zero_at) = 1U << 31;
	EQ(try(f, at), -EINVAL);
}

static void same_counts(const struct fluxonkv_counts *was)
{
	struct fluxonkv_counts is = owner_counts(&owner);

	is.stale_replies = was->stale_replies;
	is.overlaps = was->overlaps;
	is.misses = was->misses;
	is.hits = was->hits;
	is.hit_bytes = was->hit_bytes;
	CHECK(!memcmp(was, &is, sizeof(is)));
}

static void structs_are_versioned_by_size(void)
{
	u8 *at = mmap(NULL, PAGE, PROT_READ | PROT_WRITE,
		      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	u8 *end = edge();
	struct fluxonkv_counts was;

	start();
	was = owner_counts(&owner);
	for (u32 i = 0; i < ARRAY_SIZE(forms); i++) {
		sizes(&forms[i], at);
		pointers(&forms[i], end);
		read_only(&forms[i], at);
		fields(&forms[i], at);
	}
	same_counts(&was);
}

/* ---- commands and states ---- */

static bool known(enum node node, unsigned long cmd)
{
	if (node == OWNER && cmd == FLUXONKV_IOC_STOP)
		return true;
	for (u32 i = 0; i < ARRAY_SIZE(forms); i++)
		if (forms[i].node == node && forms[i].cmd == cmd)
			return true;
	return false;
}

static void unknown_commands_are_enotty(void)
{
	static u8 at[PAGE];
	u32 tried = 0;

	start();
	for (u32 nr = 0; nr < 256; nr++) {
		unsigned long cmd = _IO(FLUXONKV_IOC_TYPE, nr);

		if (!known(CLIENT, cmd))
			EQ(ask(client.fd, cmd, at), -ENOTTY);
		if (!known(OWNER, cmd))
			EQ(ask(owner.fd, cmd, at), -ENOTTY);
		tried += !known(OWNER, cmd);
		EQ(ask(client.fd, _IOC(_IOC_WRITE, FLUXONKV_IOC_TYPE, nr, 8),
		       at), -ENOTTY);
		EQ(ask(owner.fd, _IOC(_IOC_READ, FLUXONKV_IOC_TYPE, nr, 8),
		       at), -ENOTTY);
	}
	EQ(tried, 256 - 17);
	EQ(read(client.fd, at, 8), -1);
	EQ(write(owner.fd, at, 8), -1);
}

static void calls_want_their_state(void)
{
	u8 at[PAGE];
	int fd;

	start();
	fd = owner_node();
	for (u32 i = 0; i < ARRAY_SIZE(forms); i++) {
		const struct form *f = &forms[i];

		if (f->node == CLIENT || f->cmd == FLUXONKV_IOC_FEATURES ||
		    f->cmd == FLUXONKV_IOC_BIND)
			continue;
		EQ(ask(fd, f->cmd, fresh(f, at)), -EBADFD);
	}
	EQ(ask(fd, FLUXONKV_IOC_STOP, NULL), -EBADFD);
	CHECK(mmap(NULL, PAGE, PROT_READ, MAP_SHARED, fd, 0) == MAP_FAILED);
	EQ(errno, EBADFD);
	close(fd);
	fd = client_node();
	EQ(ask(fd, FLUXONKV_IOC_CALL, fresh(&forms[2], at)), -EBADFD);
	CHECK(mmap(NULL, PAGE, PROT_READ, MAP_SHARED, fd, 0) == MAP_FAILED);
	EQ(errno, EBADFD);
	close(fd);
}

/* ---- CALL ---- */

static u8 body[300 * 1024];

static int call_at(const void *from, u32 size, void *to, u32 room)
{
	struct fluxonkv_call c = {
		.size = sizeof(c),
		.body = (uintptr_t)from,
		.body_size = size,
		.reply = (uintptr_t)to,
		.reply_room = room,
	};

	return ask(client.fd, FLUXONKV_IOC_CALL, &c);
}

static void call_pointers_are_checked(void)
{
	struct item it = { .key = "some-key" };
	static u8 rep[PAGE];
	u32 size, room = sizeof(struct fluxonkv_rep) +
			 sizeof(struct fluxonkv_result);
	u8 *end = edge();
	int before;

	start();
	EQ(owner_publish(&owner, "some-key", 0, 100, 1), 0);
	size = body_build(body, FLUXONKV_OP_GET, &it, 1, 0);
	EQ(call_at(NULL, 0, NULL, 0), 0);
	EQ(call_at(NULL, 8, rep, PAGE), -EINVAL);
	EQ(call_at(body, 0, rep, PAGE), -EMSGSIZE);
	EQ(call_at(body, size - 1, rep, PAGE), -EMSGSIZE);
	EQ(call_at(body, size + 8, rep, PAGE), -EMSGSIZE);
	EQ(call_at(body, FLUXONKV_FRAME_MAX + 1, rep, PAGE), -EMSGSIZE);
	EQ(call_at(body, UINT32_MAX, rep, PAGE), -EMSGSIZE);
	EQ(call_at((void *)8, size, rep, PAGE), -EFAULT);
	EQ(call_at((void *)~0ULL, size, rep, PAGE), -EFAULT);
	memcpy(end + PAGE - size, body, size);
	EQ(call_at(end + PAGE - size, size + 8, rep, PAGE), -EFAULT);
	EQ(call_at(body, size, rep, room - 1), -EMSGSIZE);
	EQ(call_at(body, size, rep, 0), -EMSGSIZE);
	before = (int)owner_counts(&owner).holders;
	EQ(call_at(body, size, NULL, PAGE), -EFAULT);
	EQ(call_at(body, size, (void *)~0ULL, PAGE), -EFAULT);
	EQ(call_at(body, size, end + PAGE - 8, PAGE), -EFAULT);
	EQ(call_at(body, size, end + PAGE - room + 1, PAGE), -EFAULT);
	EQ(owner_counts(&owner).holders, before);
	EQ(owner_counts(&owner).held_bytes, 0);
	EQ(call_at(body, size, end + PAGE - room, room), 0);
	EQ(owner_counts(&owner).holders, before + 1);
}

static int releases(void *at, u32 nr, u32 *released)
{
	struct fluxonkv_call c = {
		.size = sizeof(c),
		.release = (uintptr_t)at,
		.nr_release = nr,
	};
	int err = ask(client.fd, FLUXONKV_IOC_CALL, &c);

	*released = c.released;
	return err;
}

static void release_arrays_are_checked(void)
{
	static u64 ids[1024];
	struct fluxonkv_result res;
	u64 *end = (u64 *)edge();
	u32 n;

	start();
	EQ(owner_publish(&owner, "k", 0, 100, 1), 0);
	EQ(get(&client, "k", &res), 0);
	EQ(releases(ids, 1025, &n), -EINVAL);
	EQ(releases(ids, UINT32_MAX, &n), -EINVAL);
	EQ(releases(NULL, 1, &n), -EFAULT);
	EQ(releases((void *)~0ULL, 1, &n), -EFAULT);
	EQ(releases(ids, 1024, &n), 0);
	EQ(n, 0);
	memset(ids, 0xff, sizeof(ids));
	EQ(releases(ids, 1024, &n), 0);
	EQ(n, 0);
	for (u32 i = 0; i < 1024; i++)
		ids[i] = res.id ^ 1ULL << (i % 64);
	EQ(releases(ids, 1024, &n), 0);
	EQ(n, 0);
	/* the first 32 are there, and end, then it faults */
	for (u32 i = 0; i < 32; i++)
		end[512 - 32 + i] = res.id;
	EQ(releases(end + 512 - 32, 33, &n), -EFAULT);
	EQ(n, 1);
	EQ(owner_counts(&owner).holders, 0);
	EQ(releases(&res.id, 1, &n), 0);
	EQ(n, 0);
}

/* The call's answer to one changed field of a good GET of one key. */
static int changed(u32 at, u64 value, u32 bytes)
{
	static u8 rep[65536];
	struct item it = { .key = "k23" };
	u32 size = body_build(body, FLUXONKV_OP_GET, &it, 1, 0);
	struct fluxonkv_result *res = (void *)(rep +
					       sizeof(struct fluxonkv_rep));
	int err;

	memcpy(body + at, &value, bytes);
	err = call_at(body, size, rep, sizeof(rep));
	return err ? err : res->status;
}

#define REQ(field, v)	changed((u32)AT(fluxonkv_req, field), v, \
				sizeof(((struct fluxonkv_req *)0)->field))
#define ITEM(field, v)	changed((u32)(sizeof(struct fluxonkv_req) + \
				AT(fluxonkv_item, field)), v, \
				sizeof(((struct fluxonkv_item *)0)->field))

static void call_bodies_are_checked(void)
{
	u32 key_at = sizeof(struct fluxonkv_req) +
		     sizeof(struct fluxonkv_item);

	start();
	EQ(owner_publish(&owner, "k23", 0, 100, 1), 0);
	EQ(REQ(arg, 0), 0);
	EQ(REQ(size, 0), -EINVAL);
	EQ(REQ(size, sizeof(struct fluxonkv_req) - 8), -EINVAL);
	EQ(REQ(size, sizeof(struct fluxonkv_req) + 8), -E2BIG);
	EQ(REQ(size, UINT32_MAX), -EMSGSIZE);
	EQ(REQ(op, 0), -EOPNOTSUPP);
	EQ(REQ(op, FLUXONKV_OP_HELLO), -EOPNOTSUPP);
	EQ(REQ(op, FLUXONKV_OP_PUT + 1), -EOPNOTSUPP);
	EQ(REQ(op, UINT16_MAX), -EOPNOTSUPP);
	EQ(REQ(flags, FLUXONKV_REQ_WARM), -EINVAL);
	EQ(REQ(flags, 1 << 15), -EINVAL);
	EQ(REQ(nr, 0), -EINVAL);
	EQ(REQ(nr, 2), -EMSGSIZE);
	EQ(REQ(nr, 1025), -E2BIG);
	EQ(REQ(nr, UINT32_MAX), -E2BIG);
	EQ(REQ(item_size, 0), -EINVAL);
	EQ(REQ(item_size, 8), -EINVAL);
	EQ(REQ(item_size, UINT32_MAX), -EINVAL);
	EQ(REQ(item_size, sizeof(struct fluxonkv_item) + 8), -E2BIG);
	EQ(REQ(arg, 1), -EINVAL);
	EQ(ITEM(key_len, 0), -EMSGSIZE);
	EQ(ITEM(key_len, 513), -EMSGSIZE);
	EQ(ITEM(key_len, UINT32_MAX), -EMSGSIZE);
	EQ(ITEM(key_len, 2), -EINVAL);
	EQ(ITEM(flags, 1), -EINVAL);
	EQ(ITEM(len, 1), -EINVAL);
	EQ(ITEM(id, 1), -EINVAL);
	EQ(ITEM(zero, 1), -EINVAL);
	EQ(changed(key_at + 3, 1, 1), -EINVAL);
	EQ(REQ(timeout_ns, ~0ULL), 0);
	EQ(owner_counts(&owner).holders, 2);
}

/* Asks the daemon, which does not answer: a time-out of 0 ends soon. */
static void timeouts_do_not_overflow(void)
{
	struct item it = { .key = "none" };
	struct fluxonkv_result res;
	u64 began = now_ns();
	u32 size;
	pid_t pid;

	start();
	size = body_build(body, FLUXONKV_OP_GET, &it, 1, 0);
	EQ(call_raw(client.fd, body, size, &res, 1), 0);
	EQ(res.status, -ETIMEDOUT);
	CHECK(now_ns() - began < 5 * SEC_NS);
	pid = spawn();
	if (!pid) {
		size = body_build(body, FLUXONKV_OP_GET, &it, 1, ~0ULL);
		call_raw(client.fd, body, size, &res, 1);
		_exit(1);
	}
	sleep_ms(500);
	EQ(waitpid(pid, NULL, WNOHANG), 0);
	kill(pid, SIGKILL);
	EQ(reap(pid), -SIGKILL);
	EQ(owner_counts(&owner).requests, 0);
}

/* ---- at random ---- */

static u64 odd(u64 *seed)
{
	static const u64 values[] = {
		0, 1, 4, 7, 8, 40, 48, 63, 64, 80, 4095, 4096, 4097,
		1 << 20, 2 << 20, 8 << 20, UINT32_MAX, 1ULL << 32,
		1ULL << 43, 1ULL << 63, ~0ULL, ~0ULL - 4095,
	};
	u64 r = random_next(seed);

	if (r % 8 == 0)
		return (uintptr_t)body;
	if (r % 8 == 1)
		return r >> 32;
	return values[(r >> 8) % ARRAY_SIZE(values)];
}

static void fuzz_one(u64 *seed)
{
	const struct form *f = &forms[random_next(seed) % ARRAY_SIZE(forms)];
	u8 at[PAGE];
	u64 n = random_next(seed) % 5;

	/* these would change the state that the others need */
	if (f->cmd == FLUXONKV_IOC_PUBLISH || f->cmd == FLUXONKV_IOC_LEASE)
		return;
	fresh(f, at);
	for (u64 i = 0; i < n; i++) {
		u64 value = odd(seed);
		u64 to = random_next(seed) % (f->size / 4) * 4;

		memcpy(at + to, &value, random_next(seed) % 2 ? 4 : 8);
	}
	try(f, at);
}

/* A GET or put of odd fields; time-outs short, so that it ends. */
static void fuzz_call(u64 *seed)
{
	static const u16 ops[] = {
		FLUXONKV_OP_GET, FLUXONKV_OP_RELEASE, FLUXONKV_OP_PUT_COMMIT,
		FLUXONKV_OP_PUT_ABORT,
	};
	static u8 rep[PAGE];
	struct item it[3] = {
		{ .key = "a" }, { .key = "longer-key" }, { .key = "zz" },
	};
	struct fluxonkv_req *q = (void *)body;
	u32 size = body_build(body, ops[random_next(seed) % 4], it,
			      1 + (u32)(random_next(seed) % 3), 0);
	u64 n = 1 + random_next(seed) % 4;

	for (u64 i = 0; i < n; i++) {
		u64 value = odd(seed);

		memcpy(body + random_next(seed) % (size - 8), &value,
		       1 + random_next(seed) % 8);
	}
	/* one that the daemon must be asked takes a tenth of a second */
	if (random_next(seed) % 256)
		q->arg = 1;
	q->timeout_ns = 0;
	call_at(body, size, rep, sizeof(rep));
}

static void random_arguments_change_nothing(void)
{
	struct fluxonkv_counts was;
	u64 seed = 1;
	u32 n = full_run() ? 300000 : 20000;

	start();
	was = owner_counts(&owner);
	for (u32 i = 0; i < n; i++)
		fuzz_one(&seed);
	for (u32 i = 0; i < n / 10; i++)
		fuzz_call(&seed);
	same_counts(&was);
}

int main(int argc, char **argv)
{
	static const struct test tests[] = {
		TEST(structs_are_versioned_by_size),
		TEST(unknown_commands_are_enotty),
		TEST(calls_want_their_state),
		TEST(call_pointers_are_checked),
		TEST(release_arrays_are_checked),
		TEST(call_bodies_are_checked),
		TEST(timeouts_do_not_overflow),
		LONG_TEST(random_arguments_change_nothing, 600),
	};

	return TESTS_RUN_SILENT(tests, argc, argv);
}
