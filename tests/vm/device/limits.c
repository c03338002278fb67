// SPDX-License-Identifier: Apache-2.0
/*
 * limits.c - what the owner's ioctls, and mmap of both nodes, refuse
 *
 * Places outside the segment, names and keys without a form, arrays that end in
 * no memory. Nothing of it may come into the kernel's log.
 */
#include "common.h"

#define SEGMENT	(8 * MIB)

static struct owner owner;
static struct client client;

static void start(void)
{
	owner_start(&owner, "limits", SEGMENT);
	client_start(&client, "limits");
	owner_recv(&owner, owner_handle);
}

/* ---- segments ---- */

static int segment(int fd, unsigned long cmd, u64 offset, u64 bytes,
		   u32 flags)
{
	struct fluxonkv_segment s = {
		.size = sizeof(s),
		.flags = flags,
		.bytes = bytes,
		.offset = offset,
	};

	return ask(fd, cmd, &s);
}

#define CREATE(o, b, f)	segment(fd, FLUXONKV_IOC_SEGMENT_CREATE, o, b, f)
#define POPULATE(o, b)	segment(fd, FLUXONKV_IOC_SEGMENT_POPULATE, o, b, 0)
#define READY(o, b)	segment(fd, FLUXONKV_IOC_SEGMENT_READY, o, b, 0)

static void segments_have_limits(void)
{
	struct fluxonkv_bind b = {
		.size = sizeof(b), .name = "limits", .clients_max = 1,
	};
	struct fluxonkv_attach a;
	int fd = owner_node(), c = client_node();

	EQ(ask(fd, FLUXONKV_IOC_BIND, &b), 0);
	EQ(POPULATE(0, 2 * MIB), -EBADFD);
	EQ(READY(0, 0), -EBADFD);
	EQ(attach(c, "limits", &a), -EADDRNOTAVAIL);
	EQ(CREATE(0, 0, 0), -EINVAL);
	EQ(CREATE(0, MIB, 0), -EINVAL);
	EQ(CREATE(0, 2 * MIB + PAGE, 0), -EINVAL);
	EQ(CREATE(0, 2 * MIB + 1, 0), -EINVAL);
	EQ(CREATE(2 * MIB, 2 * MIB, 0), -EINVAL);
	EQ(CREATE(0, FLUXONKV_SEGMENT_MAX, 0), -EINVAL);
	EQ(CREATE(0, 1ULL << 63, 0), -EINVAL);
	EQ(CREATE(0, 0 - 2 * MIB, 0), -EINVAL);
	EQ(CREATE(0, 2 * MIB, 2), -EINVAL);
	EQ(CREATE(0, 1ULL << 40, 0), -ENOSPC);
	EQ(pinned(), 0);
	EQ(CREATE(0, 8 * MIB, 0), 0);
	EQ(pinned(), 8 * MIB);
	EQ(CREATE(0, 8 * MIB, 0), -EBADFD);
	EQ(POPULATE(0, 0), -EINVAL);
	EQ(POPULATE(0, MIB), -EINVAL);
	EQ(POPULATE(MIB, 2 * MIB), -EINVAL);
	EQ(POPULATE(8 * MIB, 2 * MIB), -EINVAL);
	EQ(POPULATE(0, 10 * MIB), -EINVAL);
	EQ(POPULATE(0 - 2 * MIB, 2 * MIB), -EINVAL);
	EQ(POPULATE(0 - 2 * MIB, 4 * MIB), -EINVAL);
	EQ(POPULATE(0, FLUXONKV_POPULATE_MAX + 2 * MIB), -EINVAL);
	EQ(READY(0, 0), -EAGAIN);
	EQ(POPULATE(0, 6 * MIB), 0);
	EQ(POPULATE(0, 6 * MIB), 0);
	EQ(READY(0, 0), -EAGAIN);
	EQ(POPULATE(6 * MIB, 2 * MIB), 0);
	EQ(READY(0, 2 * MIB), -EINVAL);
	EQ(READY(2 * MIB, 0), -EINVAL);
	EQ(READY(0, 0), 0);
	EQ(attach(c, "limits", &a), 0);
	EQ(attach(c, "limits", &a), -EBADFD);
}

static int bind_name(const char *name, u32 len)
{
	struct fluxonkv_bind b = { .size = sizeof(b), .clients_max = 1 };
	int fd = owner_node(), err;

	memcpy(b.name, name, len);
	err = ask(fd, FLUXONKV_IOC_BIND, &b);
	close(fd);
	return err;
}

static void names_have_a_form(void)
{
	struct fluxonkv_bind b = { .size = sizeof(b), .name = "x" };
	struct fluxonkv_attach a = { .size = sizeof(a) };
	char long_name[64];
	int fd = owner_node(), other = owner_node(), c = client_node();

	memset(long_name, 'a', sizeof(long_name));
	EQ(bind_name("", 1), -EINVAL);
	EQ(bind_name("a/b", 4), -EINVAL);
	EQ(bind_name("a b", 4), -EINVAL);
	EQ(bind_name("a\n", 3), -EINVAL);
	EQ(bind_name("\xe4", 2), -EINVAL);
	EQ(bind_name("a\0b", 4), -EINVAL);
	EQ(bind_name(long_name, 64), -EINVAL);
	EQ(bind_name(long_name, 63), 0);
	EQ(bind_name("A-z.0_9", 8), 0);
	EQ(ask(fd, FLUXONKV_IOC_BIND, &b), -EINVAL);
	b.clients_max = 1;
	b.flags = 2;
	EQ(ask(fd, FLUXONKV_IOC_BIND, &b), -EINVAL);
	b.flags = 0;
	b.zero = 1;
	EQ(ask(fd, FLUXONKV_IOC_BIND, &b), -EINVAL);
	b.zero = 0;
	EQ(ask(fd, FLUXONKV_IOC_BIND, &b), 0);
	EQ(ask(fd, FLUXONKV_IOC_BIND, &b), -EBADFD);
	EQ(ask(other, FLUXONKV_IOC_BIND, &b), -EADDRINUSE);
	memset(a.name, 'a', sizeof(a.name));
	EQ(ask(c, FLUXONKV_IOC_ATTACH, &a), -EINVAL);
	EQ(attach(c, "none", &a), -EADDRNOTAVAIL);
	EQ(attach(c, "x", &a), -EADDRNOTAVAIL);
}

/* ---- arrays ---- */

static int array(unsigned long cmd, void *at, u32 nr, u32 stride, u32 *done)
{
	struct fluxonkv_array a = {
		.size = sizeof(a),
		.at = (uintptr_t)at,
		.nr = nr,
		.stride = stride,
	};
	int err = ask(owner.fd, cmd, &a);

	if (done)
		*done = a.done;
	return err;
}

static void array_bounds(unsigned long cmd, u32 element)
{
	u8 *end = edge(), *last = end + PAGE - element;
	u32 done;

	EQ(array(cmd, end, 1025, element, NULL), -EINVAL);
	EQ(array(cmd, end, UINT32_MAX, element, NULL), -EINVAL);
	EQ(array(cmd, end, 1, 0, NULL), -EINVAL);
	EQ(array(cmd, end, 1, element - 1, NULL), -EINVAL);
	EQ(array(cmd, end, 1, PAGE + 8, NULL), -EINVAL);
	EQ(array(cmd, end, 1, UINT32_MAX, NULL), -EINVAL);
	EQ(array(cmd, NULL, 0, element, &done), 0);
	EQ(array(cmd, NULL, 1, element, &done), -EFAULT);
	EQ(array(cmd, (void *)~7ULL, 4, element, &done), -EFAULT);
	EQ(array(cmd, (void *)(0 - 4096ULL), 1024, 4096, &done), -EFAULT);
	EQ(array(cmd, last + 1, 1, element, &done), -EFAULT);
	EQ(done, 0);
	EQ(array(cmd, last, 1, PAGE, &done), 0);
	EQ(done, 1);
	/* the first is good, the second is not there */
	EQ(array(cmd, last, 2, element, &done), -EFAULT);
	EQ(done, 1);
	mprotect(end, PAGE, PROT_READ);
	EQ(array(cmd, end, 1, element, &done), -EFAULT);
	EQ(done, 0);
	munmap(end, PAGE);
}

static void arrays_end_where_their_memory_ends(void)
{
	start();
	array_bounds(FLUXONKV_IOC_PUBLISH, sizeof(struct fluxonkv_entry));
	array_bounds(FLUXONKV_IOC_RETIRE, sizeof(struct fluxonkv_entry));
	array_bounds(FLUXONKV_IOC_EVICT, sizeof(struct fluxonkv_entry));
	array_bounds(FLUXONKV_IOC_HELD, sizeof(struct fluxonkv_entry));
	array_bounds(FLUXONKV_IOC_REPLY, sizeof(struct fluxonkv_answer));
	EQ(owner_counts(&owner).entries, 0);
}

static void out_arrays_have_one_stride(void)
{
	static u8 at[PAGE * 32];
	u32 hit = sizeof(struct fluxonkv_hit);
	u32 one = sizeof(struct fluxonkv_client);

	start();
	EQ(array(FLUXONKV_IOC_HITS, at, 0, hit, NULL), -EINVAL);
	EQ(array(FLUXONKV_IOC_HITS, at, 1025, hit, NULL), -EINVAL);
	EQ(array(FLUXONKV_IOC_HITS, at, 1, hit + 8, NULL), -EINVAL);
	EQ(array(FLUXONKV_IOC_HITS, at, 1, hit - 8, NULL), -EINVAL);
	EQ(array(FLUXONKV_IOC_HITS, at, 1024, hit, NULL), 0);
	EQ(array(FLUXONKV_IOC_CLIENTS, at, 0, one, NULL), -EINVAL);
	EQ(array(FLUXONKV_IOC_CLIENTS, at, 65537, one, NULL), -EINVAL);
	EQ(array(FLUXONKV_IOC_CLIENTS, at, 1, one + 8, NULL), -EINVAL);
	EQ(array(FLUXONKV_IOC_CLIENTS, NULL, 1, one, NULL), -EFAULT);
	EQ(array(FLUXONKV_IOC_CLIENTS, at, 65536, one, NULL), 0);
	EQ(((struct fluxonkv_client *)at)->client, client.id);
	EQ(((struct fluxonkv_client *)at)->pid, getpid());
}

static int entry(u64 key, u32 key_len, u64 offset, u64 len)
{
	struct fluxonkv_entry e = {
		.key = key,
		.key_len = key_len,
		.put_id = 1,
		.offset = offset,
		.len = len,
	};
	int err = array(FLUXONKV_IOC_PUBLISH, &e, 1, sizeof(e), NULL);

	return err ? err : e.status;
}

static void entries_have_limits(void)
{
	static char key[600];
	u64 at = (uintptr_t)key;

	start();
	EQ(entry(at, 0, 0, 1), -EINVAL);
	EQ(entry(at, 513, 0, 1), -EINVAL);
	EQ(entry(at, UINT32_MAX, 0, 1), -EINVAL);
	EQ(entry(0, 1, 0, 1), -EFAULT);
	EQ(entry((uintptr_t)edge() + PAGE - 3, 4, 0, 1), -EFAULT);
	EQ(entry(~0ULL, 8, 0, 1), -EFAULT);
	EQ(entry(at, 1, 1, 1), -EINVAL);
	EQ(entry(at, 1, SEGMENT, 1), -EINVAL);
	EQ(entry(at, 1, SEGMENT - PAGE, PAGE + 1), -EINVAL);
	EQ(entry(at, 1, 0, SEGMENT + 1), -EINVAL);
	EQ(entry(at, 1, 0, ~0ULL), -EINVAL);
	EQ(entry(at, 1, 0 - PAGE, PAGE), -EINVAL);
	EQ(entry(at, 1, PAGE, 0 - PAGE), -EINVAL);
	EQ(owner_counts(&owner).entries, 0);
	EQ(entry(at, 512, 0, SEGMENT), 0);
	EQ(entry(at, 512, 0, 0), -EEXIST);
	EQ(entry(at, 511, ~0ULL, 0), 0);
	EQ(owner_counts(&owner).entries, 2);
}

/* ---- RECV ---- */

static int recv_at(void *at, u32 room, u32 *used)
{
	struct fluxonkv_recv r = {
		.size = sizeof(r),
		.at = (uintptr_t)at,
		.room = room,
	};
	int err = ask(owner.fd, FLUXONKV_IOC_RECV, &r);

	*used = r.used;
	return err;
}

static void refused_recv_loses_no_message(void)
{
	static u8 buf[4096];
	struct fluxonkv_message *m = (void *)buf;
	u32 used, size = sizeof(*m);
	u8 *end = edge();

	owner_start(&owner, "arguments", SEGMENT);
	EQ(recv_at(NULL, 0, &used), 0);
	EQ(used, 0);
	client_start(&client, "arguments");
	EQ(recv_at(buf, 0, &used), -EMSGSIZE);
	EQ(recv_at(buf, size - 1, &used), -EMSGSIZE);
	EQ(recv_at(NULL, PAGE, &used), -EFAULT);
	EQ(recv_at((void *)~0xfffULL, UINT32_MAX, &used), -EFAULT);
	EQ(recv_at(end + PAGE - size + 1, PAGE, &used), -EFAULT);
	EQ(used, 0);
	EQ(recv_at(buf, size, &used), 0);
	EQ(used, size);
	EQ(m->type, FLUXONKV_MESSAGE_CLIENT);
	EQ(m->client, client.id);
	EQ(m->pid, getpid());
	EQ(m->uid, getuid());
	EQ(recv_at(buf, sizeof(buf), &used), 0);
	EQ(used, 0);
}

/* ---- mmap ---- */

static int map(int fd, u64 len, int prot, int flags, u64 offset)
{
	void *p = (void *)syscall(SYS_mmap, NULL, len, prot, flags, fd,
				  offset);

	if (p == MAP_FAILED)
		return -errno;
	munmap(p, len);
	return 0;
}

#define MAP_C(len, prot, flags, at)	map(client.fd, len, prot, flags, at)
#define MAP_O(len, prot, flags, at)	map(owner.fd, len, prot, flags, at)

static void mappings_lie_within_the_segment(void)
{
	const u64 win = FLUXONKV_WINDOW_OFFSET;
	const int r = PROT_READ, rw = PROT_READ | PROT_WRITE;

	start();
	EQ(MAP_C(SEGMENT, r, MAP_SHARED, 0), 0);
	EQ(MAP_C(0, r, MAP_SHARED, 0), -EINVAL);
	EQ(MAP_C(PAGE, r, MAP_SHARED, SEGMENT - PAGE), 0);
	EQ(MAP_C(PAGE, r, MAP_SHARED, SEGMENT), -EINVAL);
	EQ(MAP_C(2 * PAGE, r, MAP_SHARED, SEGMENT - PAGE), -EINVAL);
	EQ(MAP_C(SEGMENT + PAGE, r, MAP_SHARED, 0), -EINVAL);
	EQ(MAP_C(PAGE, r, MAP_SHARED, 1), -EINVAL);
	CHECK(MAP_C(PAGE, r, MAP_SHARED, 0 - PAGE) < 0);
	CHECK(MAP_C(2 * PAGE, r, MAP_SHARED, 0 - PAGE) < 0);
	EQ(MAP_C(PAGE, r, MAP_SHARED, win - PAGE), -EINVAL);
	EQ(MAP_C(2 * PAGE, r, MAP_SHARED, win - PAGE), -EINVAL);
	EQ(MAP_C(PAGE, r, MAP_SHARED, 2 * win), -EINVAL);
	EQ(MAP_C(SEGMENT, rw, MAP_SHARED, win), 0);
	EQ(MAP_C(SEGMENT, r, MAP_SHARED, win), 0);
	EQ(MAP_C(SEGMENT + PAGE, rw, MAP_SHARED, win), -EINVAL);
	EQ(MAP_C(PAGE, rw, MAP_SHARED, win + SEGMENT), -EINVAL);
	EQ(MAP_C(PAGE, rw, MAP_SHARED, 0), -EACCES);
	EQ(MAP_C(PAGE, PROT_WRITE, MAP_SHARED, 0), -EACCES);
	EQ(MAP_C(PAGE, r, MAP_PRIVATE, 0), -EINVAL);
	EQ(MAP_C(PAGE, rw, MAP_PRIVATE, 0), -EINVAL);
	EQ(MAP_C(PAGE, rw, MAP_PRIVATE, win), -EINVAL);
	EQ(MAP_C(PAGE, r | PROT_EXEC, MAP_SHARED, 0), -EINVAL);
	EQ(MAP_C(PAGE, rw | PROT_EXEC, MAP_SHARED, win), -EINVAL);
	EQ(MAP_O(SEGMENT, rw, MAP_SHARED, 0), 0);
	EQ(MAP_O(SEGMENT + PAGE, rw, MAP_SHARED, 0), -EINVAL);
	EQ(MAP_O(PAGE, rw, MAP_SHARED, SEGMENT), -EINVAL);
	EQ(MAP_O(PAGE, rw, MAP_SHARED, win), -EINVAL);
	EQ(MAP_O(PAGE, rw, MAP_PRIVATE, 0), -EINVAL);
	EQ(MAP_O(PAGE, r | PROT_EXEC, MAP_SHARED, 0), -EINVAL);
}

int main(int argc, char **argv)
{
	static const struct test tests[] = {
		TEST(segments_have_limits),
		TEST(names_have_a_form),
		TEST(arrays_end_where_their_memory_ends),
		TEST(out_arrays_have_one_stride),
		TEST(entries_have_limits),
		TEST(refused_recv_loses_no_message),
		TEST(mappings_lie_within_the_segment),
	};

	return TESTS_RUN_SILENT(tests, argc, argv);
}
