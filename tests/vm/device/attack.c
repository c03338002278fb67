// SPDX-License-Identifier: Apache-2.0
/*
 * attack.c - nobody writes to what was committed, by whatever way
 *
 * DIRECT in the environment names a block device that may be overwritten.
 */
#include <linux/if_xdp.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include <liburing.h>

#include "common.h"

#define SEGMENT	(16 * MIB)
#define SLOT	(256 * 1024ULL)
#define NAME	"attack"

static struct owner owner = { .slot = SLOT };
static struct client client;

static void start(void)
{
	owner_start(&owner, NAME, SEGMENT);
	owner_serve(&owner);
	client_start(&client, NAME);
}

/* An open put with all its pages in the page table. */
static u8 *window(u64 len, struct fluxonkv_result *put)
{
	EQ(put_begin(&client, "w", len, put), 0);
	memset(client.win + put->offset, 'w', len);
	return client.win + put->offset;
}

static int direct(void)
{
	const char *name = getenv("DIRECT");
	int fd;

	if (!name)
		test_skip("no block device in DIRECT");
	fd = open(name, O_RDWR | O_DIRECT | O_CLOEXEC);
	CHECK(fd >= 0);
	return fd;
}

/* ---- ways to pin memory, each 0 or -errno ---- */

static int pin_fixed_buffer(void *at, size_t len)
{
	struct iovec iov = { .iov_base = at, .iov_len = len };
	struct io_uring ring;
	int err;

	CHECK(!io_uring_queue_init(4, &ring, 0));
	err = io_uring_register_buffers(&ring, &iov, 1);
	io_uring_queue_exit(&ring);
	return err;
}

/* As an RDMA region does: for as long as it likes. */
static int pin_umem(void *at, size_t len)
{
	struct xdp_umem_reg reg = {
		.addr = (uintptr_t)at,
		.len = len,
		.chunk_size = 4096,
	};
	int fd = socket(AF_XDP, SOCK_RAW | SOCK_CLOEXEC, 0), err;

	CHECK(fd >= 0);
	err = setsockopt(fd, SOL_XDP, XDP_UMEM_REG, &reg, sizeof(reg)) ?
		-errno : 0;
	close(fd);
	return err;
}

static int pin_vmsplice(void *at, size_t len)
{
	struct iovec iov = { .iov_base = at, .iov_len = len };
	int p[2];
	ssize_t n;

	CHECK(!pipe(p));
	n = vmsplice(p[1], &iov, 1, 0);
	n = n < 0 ? -errno : 0;
	close(p[0]);
	close(p[1]);
	return (int)n;
}

static int pin_process_vm(void *at, size_t len, bool write)
{
	u8 *mine = calloc(1, len);
	struct iovec local = { mine, len }, remote = { at, len };
	ssize_t n = write ?
		process_vm_writev(getpid(), &local, 1, &remote, 1, 0) :
		process_vm_readv(getpid(), &local, 1, &remote, 1, 0);

	n = n < 0 ? -errno : 0;
	free(mine);
	return (int)n;
}

static int pin_direct_read(void *at, size_t len)
{
	int fd = direct();
	ssize_t n = pread(fd, at, len, 0);

	n = n < 0 ? -errno : 0;
	close(fd);
	return (int)n;
}

/* Submitted by the ring, and left to itself. */
static int pin_async_read(void *at, size_t len)
{
	struct io_uring ring;
	struct io_uring_sqe *sqe;
	struct io_uring_cqe *cqe;
	int fd = direct(), res;

	CHECK(!io_uring_queue_init(4, &ring, 0));
	sqe = io_uring_get_sqe(&ring);
	io_uring_prep_read(sqe, fd, at, (unsigned int)len, 0);
	io_uring_sqe_set_flags(sqe, IOSQE_ASYNC);
	EQ(io_uring_submit(&ring), 1);
	CHECK(!io_uring_wait_cqe(&ring, &cqe));
	res = cqe->res;
	io_uring_queue_exit(&ring);
	close(fd);
	return res < 0 ? res : 0;
}

static int poke(const void *at, u8 value)
{
	int fd = open("/proc/self/mem", O_RDWR | O_CLOEXEC);
	ssize_t n;

	CHECK(fd >= 0);
	n = pwrite(fd, &value, 1, (off_t)(uintptr_t)at);
	n = n < 0 ? -errno : 0;
	close(fd);
	return (int)n;
}

/* ---- windows ---- */

static void window_cannot_be_pinned(void)
{
	struct fluxonkv_result put;
	u8 *w;

	start();
	w = window(8 * PAGE, &put);
	EQ(pin_fixed_buffer(w, 8 * PAGE), -EFAULT);
	EQ(pin_umem(w, 8 * PAGE), -EFAULT);
	EQ(pin_vmsplice(w, 8 * PAGE), -EFAULT);
	EQ(pin_process_vm(w, PAGE, false), -EFAULT);
	EQ(pin_process_vm(w, PAGE, true), -EFAULT);
	EQ(poke(w, 'x'), -EIO);
	CHECK(madvise(w, PAGE, MADV_DOFORK));
	CHECK(madvise(w, PAGE, MADV_DODUMP));
	EQ(w[0], 'w');
	EQ(put_commit(&client, put.id), 0);
}

static void window_is_no_place_for_direct_io(void)
{
	struct fluxonkv_result put;
	u8 *w;

	start();
	w = window(8 * PAGE, &put);
	EQ(pin_direct_read(w, 8 * PAGE), -EFAULT);
	EQ(pin_async_read(w, 8 * PAGE), -EFAULT);
	EQ(w[0], 'w');
}

static void window_can_be_read_into(void)
{
	struct fluxonkv_result put, res;
	int s[2];

	start();
	EQ(put_begin(&client, "k", 3 * PAGE, &put), 0);
	CHECK(!socketpair(AF_UNIX, SOCK_STREAM, 0, s));
	EQ(write(s[0], "0123456789", 10), 10);
	EQ(recv(s[1], client.win + put.offset + PAGE - 4, 10, 0), 10);
	EQ(put_commit(&client, put.id), 0);
	EQ(write(s[0], "0123456789", 10), 10);
	EQ(recv(s[1], client.win + put.offset, 10, 0), -1);
	EQ(errno, EFAULT);
	EQ(get(&client, "k", &res), 0);
	CHECK(!memcmp(client.seg + res.offset + PAGE - 4, "0123456789", 10));
}

static void pinnable_window_is_of_ordinary_pages(void)
{
	struct fluxonkv_result put;
	u8 *w;

	owner.segment_flags = FLUXONKV_SEGMENT_PINNABLE;
	start();
	w = window(8 * PAGE, &put);
	EQ(pin_umem(w, 8 * PAGE), 0);
	EQ(pin_process_vm(w, PAGE, true), 0);
	EQ(put_commit(&client, put.id), 0);
	EQ(probe_write(w, 1), -SIGBUS);
}

static void window_is_only_where_a_put_is_open(void)
{
	struct fluxonkv_result put, next;
	struct client other;
	u8 *w;

	start();
	client_start(&other, NAME);
	EQ(probe_read(client.win), -SIGBUS);
	EQ(probe_write(client.win, 1), -SIGBUS);
	EQ(put_begin(&client, "a", 2 * PAGE + 1, &put), 0);
	EQ(put_begin(&other, "b", 1, &next), 0);
	w = client.win + put.offset;
	EQ(probe_write(w, 1), 0);
	EQ(probe_write(w + 3 * PAGE - 1, 1), 0);
	EQ(probe_write(w + 3 * PAGE, 1), -SIGBUS);
	if (put.offset)
		EQ(probe_write(w - 1, 1), -SIGBUS);
	EQ(probe_write(other.win + put.offset, 1), -SIGBUS);
	EQ(probe_write(client.win + next.offset, 1), -SIGBUS);
	EQ(probe_write(other.win + next.offset, 1), 0);
	EQ(put_commit(&client, put.id), 0);
	EQ(probe_write(w, 1), -SIGBUS);
	EQ(probe_read(w + PAGE), -SIGBUS);
	EQ(probe_write(other.win + next.offset, 1), 0);
	EQ(put_abort(&other, next.id), 0);
	EQ(probe_write(other.win + next.offset, 1), -SIGBUS);
}

/* A second mapping, and one that was moved, are shut as well. */
static void every_mapping_of_a_window_is_shut(void)
{
	struct fluxonkv_result put;
	u8 *again, *moved, *room;

	start();
	again = mmap(NULL, SEGMENT, PROT_READ | PROT_WRITE, MAP_SHARED,
		     client.fd, (off_t)FLUXONKV_WINDOW_OFFSET);
	room = mmap(NULL, SEGMENT, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS,
		    -1, 0);
	CHECK(again != MAP_FAILED && room != MAP_FAILED);
	EQ(put_begin(&client, "a", SLOT, &put), 0);
	memset(client.win + put.offset, 1, SLOT);
	memset(again + put.offset, 1, SLOT);
	moved = mremap(client.win, SEGMENT, SEGMENT,
		       MREMAP_MAYMOVE | MREMAP_FIXED, room);
	CHECK(moved == room);
	EQ(probe_write(moved + put.offset, 2), 0);
	CHECK(mremap(again, SEGMENT, 2 * SEGMENT, MREMAP_MAYMOVE) ==
	      MAP_FAILED);
	CHECK(mremap(again, 0, PAGE, MREMAP_MAYMOVE) == MAP_FAILED);
	EQ(put_commit(&client, put.id), 0);
	for (u64 i = 0; i < SLOT; i += PAGE) {
		EQ(probe_write(moved + put.offset + i, 3), -SIGBUS);
		EQ(probe_write(again + put.offset + i, 3), -SIGBUS);
	}
}

/* ---- protections ---- */

static void read_only_map_stays_read_only(void)
{
	struct fluxonkv_result res;
	u8 *seg;

	start();
	EQ(owner_publish(&owner, "k", 0, PAGE, 1), 0);
	EQ(get(&client, "k", &res), 0);
	seg = (u8 *)client.seg;
	EQ(probe_read(seg), 0);
	EQ(probe_write(seg, 1), -SIGSEGV);
	EQ(mprotect(seg, SEGMENT, PROT_READ | PROT_WRITE), -1);
	EQ(errno, EACCES);
	EQ(mprotect(seg, SEGMENT, PROT_READ | PROT_EXEC), -1);
	EQ(mprotect(client.win, SEGMENT, PROT_READ | PROT_EXEC), -1);
	EQ(poke(seg, 1), -EIO);
	EQ(pin_process_vm(seg, PAGE, false), 0);
	EQ(pin_process_vm(seg, PAGE, true), -EFAULT);
	CHECK(mremap(seg, SEGMENT, 2 * SEGMENT, MREMAP_MAYMOVE) ==
	      MAP_FAILED);
	CHECK(madvise(seg, SEGMENT, MADV_DODUMP));
	CHECK(pin_fixed_buffer(seg, PAGE) < 0);
	EQ(probe_read(seg), 0);
}

static void descriptor_for_reading_has_no_window(void)
{
	struct fluxonkv_attach a;
	int fd;
	u8 *p;

	start();
	fd = open("/dev/fluxonkv", O_RDONLY | O_CLOEXEC);
	CHECK(fd >= 0);
	EQ(attach(fd, NAME, &a), 0);
	p = mmap(NULL, PAGE, PROT_READ, MAP_SHARED, fd, 0);
	CHECK(p != MAP_FAILED);
	EQ(probe_read(p), 0);
	EQ(mprotect(p, PAGE, PROT_READ | PROT_WRITE), -1);
	CHECK(mmap(NULL, PAGE, PROT_READ, MAP_SHARED, fd,
		   (off_t)FLUXONKV_WINDOW_OFFSET) == MAP_FAILED);
	EQ(errno, EACCES);
	CHECK(mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd,
		   (off_t)FLUXONKV_WINDOW_OFFSET) == MAP_FAILED);
	EQ(errno, EACCES);
}

static void child_has_no_mapping(void)
{
	struct fluxonkv_result put;
	pid_t pid;

	start();
	EQ(put_begin(&client, "k", PAGE, &put), 0);
	EQ(probe_write(client.win + put.offset, 1), 0);
	EQ(probe_read(client.seg + put.offset), 1);
	pid = spawn();
	if (!pid) {
		EQ(probe_read(client.seg + put.offset), -SIGSEGV);
		EQ(probe_write(client.win + put.offset, 2), -SIGSEGV);
		EQ(probe_write(owner.map + put.offset, 2), -SIGSEGV);
		/* the open file is the same one */
		EQ(put_commit(&client, put.id), 0);
		_exit(0);
	}
	EQ(reap(pid), 0);
	EQ(probe_write(client.win + put.offset, 1), -SIGBUS);
}

/* ---- pages of the segment ---- */

static u64 pmd_mapped(const void *at)
{
	FILE *f = fopen("/proc/self/smaps", "r");
	u64 start_at, end, kib;
	bool ours = false;
	char line[256];

	CHECK(f);
	while (fgets(line, sizeof(line), f)) {
		if (sscanf(line, "%lx-%lx ", &start_at, &end) == 2)
			ours = (uintptr_t)at == start_at;
		if (ours && sscanf(line, "FilePmdMapped: %lu kB", &kib) == 1) {
			fclose(f);
			return kib << 10;
		}
	}
	fclose(f);
	return 0;
}

static void whole_chunks_are_mapped_at_once(void)
{
	struct fluxonkv_segment s = { .size = sizeof(s) };

	start();
	EQ(ask(owner.fd, FLUXONKV_IOC_SEGMENT_READY, &s), 0);
	for (u64 i = 0; i < SEGMENT; i += PAGE) {
		EQ(client.seg[i], 0);
		owner.map[i] = 1;
	}
	EQ(s.huge, SEGMENT);
	EQ(pmd_mapped(client.seg), SEGMENT);
	EQ(pmd_mapped(owner.map), SEGMENT);
}

static void held_bytes_are_written_directly(void)
{
	struct fluxonkv_result res;
	int fd = direct();

	start();
	fill(owner.map + MIB, SLOT, 9);
	EQ(owner_publish(&owner, "k", MIB, SLOT, 1), 0);
	EQ(get(&client, "k", &res), 0);
	EQ(pwrite(fd, client.seg + res.offset, SLOT, 4 * MIB), SLOT);
	EQ(pread(fd, owner.map + 2 * MIB, SLOT, 4 * MIB), SLOT);
	CHECK(filled(owner.map + 2 * MIB, SLOT, 9));
	EQ(pin_umem(owner.map, MIB), 0);
	EQ(pin_vmsplice((void *)client.seg, SLOT), 0);
}

static void fixed_read(int fd, u8 *to, u32 len)
{
	struct iovec iov = { .iov_base = owner.map, .iov_len = SEGMENT };
	struct io_uring ring;
	struct io_uring_sqe *sqe;
	struct io_uring_cqe *cqe;

	CHECK(!io_uring_queue_init(4, &ring, 0));
	EQ(io_uring_register_buffers(&ring, &iov, 1), 0);
	sqe = io_uring_get_sqe(&ring);
	io_uring_prep_read_fixed(sqe, fd, to, len, 0, 0);
	EQ(io_uring_submit(&ring), 1);
	CHECK(!io_uring_wait_cqe(&ring, &cqe));
	EQ(cqe->res, len);
	io_uring_queue_exit(&ring);
}

static void owners_map_is_a_fixed_buffer(void)
{
	int fd;

	start();
	if (!kernel_is(6, 5)) {
		EQ(pin_fixed_buffer(owner.map, SEGMENT), -EOPNOTSUPP);
		return;
	}
	EQ(pin_fixed_buffer(owner.map, SEGMENT), 0);
	fd = direct();
	fill(owner.map, SLOT, 4);
	EQ(pwrite(fd, owner.map, SLOT, 0), SLOT);
	fixed_read(fd, owner.map + 8 * MIB, SLOT);
	CHECK(filled(owner.map + 8 * MIB, SLOT, 4));
}

/* ---- the race ---- */

#define HAMMERS	3
#define RACE	(3 * PAGE)

static volatile u64 hammered_at;
static volatile bool hammer_stop;
static u64 hammer_writes[HAMMERS];

/* Writes to wherever the last window was, and takes each SIGBUS. */
static void *hammer(void *arg)
{
	u64 *writes = arg;
	u64 i = 0;

	/* the others run when they can */
	setpriority(PRIO_PROCESS, (id_t)gettid(), 19);
	while (!hammer_stop) {
		u8 *w = client.win + hammered_at;

		for (u32 j = 0; j < 64; j++)
			if (!probe_write(w + i++ * 1021 % RACE, 0xee))
				++*writes;
	}
	return NULL;
}

static u64 all_writes(void)
{
	u64 sum = 0;

	for (u32 i = 0; i < HAMMERS; i++)
		sum += *(volatile u64 *)&hammer_writes[i];
	return sum;
}

static void race_round(u32 i, bool commit)
{
	u64 before = all_writes(), until = now_ns() + SEC_NS / 2000;
	struct fluxonkv_result put;
	u8 *bytes;

	EQ(put_begin(&client, "race", RACE, &put), 0);
	bytes = owner.map + put.offset;
	hammered_at = put.offset;
	if (i % 4)
		probe_write(client.win + put.offset, 1);
	/* most rounds end amid the writes */
	while (i % 16 && all_writes() == before && now_ns() < until)
		sched_yield();
	EQ(commit ? put_commit(&client, put.id) : put_abort(&client, put.id),
	   0);
	/* now it is the owner's: what it writes stays */
	memset(bytes, (int)(i % 200), RACE);
	if (i % 8 == 0)
		sched_yield();
	for (u32 j = 0; j < RACE; j++)
		if (bytes[j] != i % 200)
			test_fail(__FILE__, __LINE__, "round %u: byte %u", i,
				  j);
}

static void nobody_writes_after_commit(void)
{
	const u32 rounds = full_run() ? 4000 : 1500;
	pthread_t t[HAMMERS];

	start();
	for (u32 i = 0; i < HAMMERS; i++)
		CHECK(!pthread_create(&t[i], NULL, hammer,
				      &hammer_writes[i]));
	for (u32 i = 0; i < rounds; i++)
		race_round(i, i % 3);
	hammer_stop = true;
	for (u32 i = 0; i < HAMMERS; i++)
		pthread_join(t[i], NULL);
	printf("    %u rounds, %lu writes in time\n", rounds, all_writes());
	CHECK(all_writes() > rounds / 4);
}

int main(int argc, char **argv)
{
	static const struct test tests[] = {
		TEST(window_cannot_be_pinned),
		TEST(window_is_no_place_for_direct_io),
		TEST(window_can_be_read_into),
		TEST(pinnable_window_is_of_ordinary_pages),
		TEST(window_is_only_where_a_put_is_open),
		TEST(every_mapping_of_a_window_is_shut),
		TEST(read_only_map_stays_read_only),
		TEST(descriptor_for_reading_has_no_window),
		TEST(child_has_no_mapping),
		TEST(whole_chunks_are_mapped_at_once),
		TEST(held_bytes_are_written_directly),
		TEST(owners_map_is_a_fixed_buffer),
		LONG_TEST(nobody_writes_after_commit, 1200),
	};

	return TESTS_RUN(tests, argc, argv);
}
