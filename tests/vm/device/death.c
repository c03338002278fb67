// SPDX-License-Identifier: Apache-2.0
/*
 * death.c - clients and owners that are killed, and files that live on
 */
#include <liburing.h>
#include <sys/socket.h>

#include "common.h"

#define SEGMENT	(64 * MIB)
#define SLOT	(256 * 1024ULL)
#define NAME	"death"

static struct owner owner = { .slot = SLOT };
static struct client client;

/* ---- clients ---- */

/* Of a key that begins with w it never hears. */
static void (*toy)(struct owner *o, struct fluxonkv_message *m);

static void serve_some(struct owner *o, struct fluxonkv_message *m)
{
	const struct fluxonkv_req *q = (void *)(m + 1);
	const char *key = (const char *)(q + 1) +
			  sizeof(struct fluxonkv_item);

	if (m->type != FLUXONKV_MESSAGE_REQUEST ||
	    q->op == FLUXONKV_OP_PUT_ABORT || *key != 'w')
		owner_handle(o, m);
}

static void *serve(void *arg)
{
	struct owner *o = arg;

	for (;;)
		if (!owner_recv(o, toy))
			sleep_ms(1);
	return NULL;
}

static void owner_begin(void)
{
	pthread_t t;

	owner_start(&owner, NAME, SEGMENT);
	toy = serve_some;
	CHECK(!pthread_create(&t, NULL, serve, &owner));
	/* values in the first and the third chunk, where no put may go */
	owner.slots[0].used = true;
	owner.slots[4 * MIB / SLOT].used = true;
	fill(owner.map, PAGE, 1);
	fill(owner.map + 4 * MIB, 100000, 2);
	EQ(owner_publish(&owner, "one", 0, PAGE, 1), 0);
	EQ(owner_publish(&owner, "two", 4 * MIB, 100000, 2), 0);
}

static void hold_many(void)
{
	struct fluxonkv_result res;

	for (u32 i = 0; i < 1000; i++)
		EQ(get(&client, i % 2 ? "one" : "two", &res), 0);
}

static void open_many(void)
{
	struct fluxonkv_result put;

	for (u32 i = 0; i < 20; i++) {
		EQ(put_begin(&client, "p", SLOT, &put), 0);
		memset(client.win + put.offset, 1, SLOT);
	}
}

static void wait_for_get(void)
{
	struct fluxonkv_result res;

	get(&client, "wait", &res);
}

static void wait_for_put(void)
{
	struct fluxonkv_result put;

	put_begin(&client, "wait", PAGE, &put);
}

static void *wait_thread(void *arg)
{
	(void)arg;
	wait_for_get();
	return NULL;
}

/* More than a session's requests: some wait for room. */
static void wait_in_many_threads(void)
{
	pthread_t t;

	for (u32 i = 0; i < 300; i++)
		CHECK(!pthread_create(&t, NULL, wait_thread, NULL));
	sleep_ms(300);
}

static void copy_all_the_time(void)
{
	static u8 from[SLOT];

	for (;;)
		put_copy(&client, "copied", from, SLOT);
}

/* Do @fn in a process, and kill it there: when it is done, or after @ms. */
static void killed_while(void (*fn)(void), u32 ms)
{
	u64 *id = mmap(NULL, PAGE, PROT_READ | PROT_WRITE,
		       MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	struct ready r;
	pid_t pid;

	ready_init(&r);
	pid = spawn();
	if (!pid) {
		client_start(&client, NAME);
		*id = client.id;
		if (!ms)
			fn();
		ready_say(&r);
		if (ms)
			fn();
		pause();
	}
	ready_wait(&r);
	sleep_ms(ms);
	kill(pid, SIGKILL);
	EQ(reap(pid), -SIGKILL);
	CHECK(owner_heard(&owner, FLUXONKV_MESSAGE_GONE, *id, 0, 5000));
	munmap(id, PAGE);
}

static void nothing_of_it(void)
{
	struct fluxonkv_counts n = owner_counts(&owner);

	EQ(n.clients, 0);
	EQ(n.holders, 0);
	EQ(n.open_puts, 0);
	EQ(n.requests, 0);
	EQ(n.held_bytes, 0);
	EQ(n.retired, 0);
}

static void killed_client_leaves_nothing(void)
{
	owner_begin();
	killed_while(hold_many, 0);
	nothing_of_it();
	killed_while(open_many, 0);
	nothing_of_it();
	killed_while(wait_for_get, 100);
	nothing_of_it();
	killed_while(wait_for_put, 100);
	nothing_of_it();
	killed_while(wait_in_many_threads, 600);
	nothing_of_it();
	EQ(owner_evict(&owner, "one", 1), FLUXONKV_QUIET);
	EQ(owner_evict(&owner, "two", 2), FLUXONKV_QUIET);
	EQ(owner_publish(&owner, "all", 0, SEGMENT, 3), 0);
}

static void client_is_killed_amid_puts(void)
{
	u32 rounds = full_run() ? 100 : 20;

	owner_begin();
	for (u32 i = 0; i < rounds; i++) {
		killed_while(copy_all_the_time, 1 + i % 17);
		nothing_of_it();
	}
}

/* ---- open files ---- */

static bool gone(u32 ms)
{
	return owner_heard(&owner, FLUXONKV_MESSAGE_GONE, client.id, 0, ms);
}

static void mapping_alone_keeps_the_holders(void)
{
	struct fluxonkv_result res;

	owner_begin();
	client_start(&client, NAME);
	EQ(get(&client, "two", &res), 0);
	close(client.fd);
	CHECK(!gone(100));
	EQ(owner_counts(&owner).holders, 1);
	CHECK(filled(client.seg + res.offset, res.len, 2));
	munmap(client.win, SEGMENT);
	CHECK(!gone(100));
	munmap((void *)client.seg, SEGMENT - PAGE);
	CHECK(!gone(100));
	munmap((void *)(client.seg + SEGMENT - PAGE), PAGE);
	CHECK(gone(5000));
	EQ(owner_counts(&owner).holders, 0);
}

static void duplicates_are_one_client(void)
{
	struct fluxonkv_result res;
	pid_t pid;
	int fd;

	owner_begin();
	client_start(&client, NAME);
	EQ(get(&client, "one", &res), 0);
	fd = dup(client.fd);
	client_stop(&client);
	CHECK(!gone(100));
	client.fd = fd;
	EQ(release(&client, res.id), 0);
	EQ(get(&client, "one", &res), 0);
	pid = spawn();
	if (!pid)
		pause();
	close(client.fd);
	CHECK(!gone(100));
	EQ(owner_counts(&owner).holders, 1);
	kill(pid, SIGKILL);
	reap(pid);
	CHECK(gone(5000));
}

static void send_fd(int to, int fd)
{
	union {
		char bytes[CMSG_SPACE(sizeof(int))];
		struct cmsghdr align;
	} control = {};
	struct iovec iov = { .iov_base = (char[]){ 'f' }, .iov_len = 1 };
	struct msghdr m = {
		.msg_iov = &iov,
		.msg_iovlen = 1,
		.msg_control = &control,
		.msg_controllen = sizeof(control),
	};
	struct cmsghdr *c = CMSG_FIRSTHDR(&m);

	c->cmsg_level = SOL_SOCKET;
	c->cmsg_type = SCM_RIGHTS;
	c->cmsg_len = CMSG_LEN(sizeof(int));
	memcpy(CMSG_DATA(c), &fd, sizeof(fd));
	EQ(sendmsg(to, &m, 0), 1);
}

/* In a message that nobody has received yet. */
static void file_in_flight_keeps_the_session(void)
{
	struct fluxonkv_result res;
	int s[2];

	owner_begin();
	client_start(&client, NAME);
	EQ(get(&client, "one", &res), 0);
	CHECK(!socketpair(AF_UNIX, SOCK_STREAM, 0, s));
	send_fd(s[0], client.fd);
	client_stop(&client);
	CHECK(!gone(100));
	EQ(owner_counts(&owner).holders, 1);
	close(s[0]);
	close(s[1]);
	CHECK(gone(5000));
}

/* ---- owners ---- */

static pid_t owner_process(void)
{
	struct ready r;
	pid_t pid;

	ready_init(&r);
	pid = spawn();
	if (!pid) {
		if (client.fd)
			close(client.fd);
		owner_begin();
		ready_say(&r);
		pause();
	}
	ready_wait(&r);
	return pid;
}

static bool pinned_is(void *arg)
{
	return pinned() == *(u64 *)arg;
}

static void await_pinned(u64 bytes)
{
	if (!wait_until(pinned_is, &bytes, 5000))
		test_fail(__FILE__, __LINE__, "%lu bytes are pinned, not %lu",
			  pinned(), bytes);
}

static void owner_kill(pid_t pid)
{
	kill(pid, SIGKILL);
	EQ(reap(pid), -SIGKILL);
}

struct waiter {
	pthread_t thread;
	int err;
	u64 ended_ns;
};

static void *waiter(void *arg)
{
	struct waiter *w = arg;
	struct fluxonkv_result res;

	w->err = get(&client, "wait", &res);
	w->ended_ns = now_ns();
	return NULL;
}

static void waiting_calls_hear_of_the_owners_death(void)
{
	struct waiter w[300] = {};
	struct fluxonkv_result res;
	pid_t pid = owner_process();
	u64 killed_ns;

	client_start(&client, NAME);
	for (u32 i = 0; i < ARRAY_SIZE(w); i++)
		CHECK(!pthread_create(&w[i].thread, NULL, waiter, &w[i]));
	sleep_ms(500);
	owner_kill(pid);
	killed_ns = now_ns();
	for (u32 i = 0; i < ARRAY_SIZE(w); i++) {
		pthread_join(w[i].thread, NULL);
		EQ(w[i].err, -ENOTCONN);
		CHECK(w[i].ended_ns < killed_ns + 5 * SEC_NS);
	}
	EQ(get(&client, "one", &res), -ENOTCONN);
	EQ(put_begin(&client, "p", 1, &res), -ENOTCONN);
	EQ(put_copy(&client, "p", w, 1), -ENOTCONN);
	await_pinned(0);
}

static u64 available(void)
{
	FILE *f = fopen("/proc/meminfo", "r");
	char line[256];
	u64 kib = 0;

	CHECK(f);
	while (fgets(line, sizeof(line), f))
		if (sscanf(line, "MemFree: %lu", &kib) == 1)
			break;
	fclose(f);
	return kib << 10;
}

static void only_what_is_held_outlives_the_owner(void)
{
	struct fluxonkv_result one, two, put;
	pid_t pid = owner_process();
	u64 before, after;

	client_start(&client, NAME);
	EQ(get(&client, "one", &one), 0);
	EQ(get(&client, "two", &two), 0);
	EQ(put_begin(&client, "p", PAGE, &put), 0);
	EQ(probe_write(client.win + put.offset, 1), 0);
	EQ(probe_read(client.seg + 2 * MIB), 0);
	EQ(probe_read(client.seg + SEGMENT - 1), 0);
	before = available();
	owner_kill(pid);
	await_pinned(4 * MIB);
	sleep_ms(100);
	after = available();
	/* each processor keeps some free ones for itself */
	if (after < before + 20 * MIB)
		test_fail(__FILE__, __LINE__, "%llu MiB free, %llu before",
			  after / MIB, before / MIB);
	CHECK(filled(client.seg + one.offset, one.len, 1));
	CHECK(filled(client.seg + two.offset, two.len, 2));
	EQ(probe_read(client.seg + 2 * MIB), -SIGBUS);
	EQ(probe_read(client.seg + SEGMENT - 1), -SIGBUS);
	EQ(probe_write(client.win + put.offset, 1), -SIGBUS);
	EQ(put_commit(&client, put.id), -ENOTCONN);
	EQ(release(&client, one.id), 0);
	await_pinned(2 * MIB);
	EQ(probe_read(client.seg), -SIGBUS);
	CHECK(filled(client.seg + two.offset, two.len, 2));
	EQ(release(&client, two.id), 0);
	await_pinned(0);
	EQ(probe_read(client.seg + two.offset), -SIGBUS);
}

static void next_owner_has_memory_of_its_own(void)
{
	struct fluxonkv_result one, two;
	struct fluxonkv_attach a;
	struct client other;
	pid_t pid = owner_process(), next;

	client_start(&client, NAME);
	EQ(get(&client, "one", &one), 0);
	owner_kill(pid);
	await_pinned(2 * MIB);
	next = owner_process();
	EQ(pinned(), SEGMENT + 2 * MIB);
	EQ(get(&client, "one", &two), -ENOTCONN);
	EQ(attach(client.fd, NAME, &a), -EBADFD);
	client_start(&other, NAME);
	CHECK(other.id != client.id);
	EQ(get(&other, "one", &two), 0);
	CHECK(filled(client.seg + one.offset, one.len, 1));
	client_stop(&client);
	await_pinned(SEGMENT);
	CHECK(filled(other.seg + two.offset, two.len, 1));
	owner_kill(next);
	await_pinned(2 * MIB);
	client_stop(&other);
	await_pinned(0);
}

/* Many small values are gone with their owner, however many there are. */
static void full_index_is_emptied(void)
{
	const u32 n = full_run() ? 200000 : 20000;
	struct ready r;
	pid_t pid;

	ready_init(&r);
	pid = spawn();
	if (!pid) {
		owner_begin();
		for (u32 i = 0; i < n; i++) {
			char key[32];

			sprintf(key, "key%u", i);
			EQ(owner_publish(&owner, key, 8 * MIB + i * PAGE,
					 i < 100 ? PAGE : 0, i), 0);
		}
		EQ(owner_counts(&owner).entries, n + 2);
		ready_say(&r);
		pause();
	}
	ready_wait(&r);
	client_start(&client, NAME);
	owner_kill(pid);
	await_pinned(0);
}

/* It dies with reads of its disk into its segment under way. */
static void read_into_the_map(int fd)
{
	struct io_uring ring;
	u64 seed = now_ns();

	CHECK(!io_uring_queue_init(64, &ring, 0));
	for (u32 n = 0;; n++) {
		struct io_uring_sqe *sqe = io_uring_get_sqe(&ring);
		u64 at = 8 * MIB + random_next(&seed) % 32 * MIB;

		if (sqe)
			io_uring_prep_read(sqe, fd, owner.map + at, MIB,
					   random_next(&seed) % 32 * MIB);
		io_uring_submit_and_wait(&ring, n > 32);
		io_uring_cq_advance(&ring, io_uring_cq_ready(&ring));
	}
}

static void owner_dies_amid_direct_reads(void)
{
	const u32 rounds = full_run() ? 30 : 5;
	const char *name = getenv("DIRECT");
	struct fluxonkv_result res;
	int fd = name ? open(name, O_RDONLY | O_DIRECT | O_CLOEXEC) : -1;

	if (fd < 0)
		test_skip("no block device in DIRECT");
	for (u32 i = 0; i < rounds; i++) {
		struct ready r;
		pid_t pid;

		ready_init(&r);
		pid = spawn();
		if (!pid) {
			owner_begin();
			ready_say(&r);
			read_into_the_map(fd);
		}
		ready_wait(&r);
		client_start(&client, NAME);
		EQ(get(&client, "two", &res), 0);
		sleep_ms(30 + i % 20);
		owner_kill(pid);
		await_pinned(2 * MIB);
		CHECK(filled(client.seg + res.offset, res.len, 2));
		client_stop(&client);
		await_pinned(0);
	}
}

static void owners_file_in_flight_keeps_it_alive(void)
{
	struct fluxonkv_result res;
	int s[2], fd;
	pid_t pid;
	char c;

	CHECK(!socketpair(AF_UNIX, SOCK_STREAM, 0, s));
	pid = spawn();
	if (!pid) {
		owner_begin();
		send_fd(s[0], owner.fd);
		EQ(write(s[0], "r", 1), 1);
		pause();
	}
	EQ(recv(s[1], &c, 1, MSG_PEEK), 1);
	client_start(&client, NAME);
	EQ(get(&client, "one", &res), 0);
	owner_kill(pid);
	sleep_ms(100);
	EQ(pinned(), SEGMENT);
	EQ(release(&client, res.id), 0);
	EQ(get(&client, "one", &res), 0);
	fd = owner_node();
	EQ(ask(fd, FLUXONKV_IOC_BIND, &(struct fluxonkv_bind){
		.size = sizeof(struct fluxonkv_bind),
		.name = NAME,
		.clients_max = 1,
	}), -EADDRINUSE);
	close(s[0]);
	close(s[1]);
	await_pinned(2 * MIB);
	EQ(get(&client, "one", &res), -ENOTCONN);
	client_stop(&client);
	await_pinned(0);
}

/* ---- every order ---- */

enum { UNMAP, CLOSE, CLOSE_OTHER, RETIRE, RELEASE, OWNER_GOES, STEPS };

static void step(u32 what, struct client *other, u64 holder)
{
	struct fluxonkv_result res;

	switch (what) {
	case UNMAP:
		munmap((void *)client.seg, client.bytes);
		munmap(client.win, client.bytes);
		break;
	case CLOSE:
		close(client.fd);
		break;
	case CLOSE_OTHER:
		client_stop(other);
		break;
	case RETIRE:
		owner_retire(&owner, "one", 1);
		break;
	case RELEASE:
		call_one(client.fd, FLUXONKV_OP_RELEASE,
			 (struct item){ .id = holder }, &res);
		break;
	default:
		munmap(owner.map, owner.bytes);
		close(owner.fd);
	}
}

static void in_order(const u32 *order)
{
	struct fluxonkv_result res;
	struct client other;

	owner.bind.size = 0;
	owner_start(&owner, NAME, SEGMENT / 8);
	EQ(owner_publish(&owner, "one", 0, PAGE, 1), 0);
	client_start(&client, NAME);
	client_start(&other, NAME);
	EQ(get(&other, "one", &res), 0);
	EQ(get(&client, "one", &res), 0);
	EQ(probe_read(client.seg), 0);
	for (u32 i = 0; i < STEPS; i++)
		step(order[i], &other, res.id);
	await_pinned(0);
}

static u32 orders(u32 *order, u32 n)
{
	u32 done = 0;

	if (n == STEPS) {
		pid_t pid = spawn();

		if (!pid) {
			in_order(order);
			_exit(0);
		}
		EQ(reap(pid), 0);
		return 1;
	}
	for (u32 i = n; i < STEPS; i++) {
		u32 was = order[n];

		order[n] = order[i];
		order[i] = was;
		done += orders(order, n + 1);
		order[i] = order[n];
		order[n] = was;
	}
	return done;
}

static void every_order_of_ends_is_right(void)
{
	u32 order[STEPS] = {
		UNMAP, CLOSE, CLOSE_OTHER, RETIRE, RELEASE, OWNER_GOES,
	};

	EQ(orders(order, full_run() ? 0 : 1), full_run() ? 720 : 120);
}

int main(int argc, char **argv)
{
	static const struct test tests[] = {
		TEST(killed_client_leaves_nothing),
		TEST(client_is_killed_amid_puts),
		TEST(mapping_alone_keeps_the_holders),
		TEST(duplicates_are_one_client),
		TEST(file_in_flight_keeps_the_session),
		TEST(waiting_calls_hear_of_the_owners_death),
		TEST(only_what_is_held_outlives_the_owner),
		TEST(next_owner_has_memory_of_its_own),
		LONG_TEST(full_index_is_emptied, 120),
		LONG_TEST(owner_dies_amid_direct_reads, 200),
		TEST(owners_file_in_flight_keeps_it_alive),
		LONG_TEST(every_order_of_ends_is_right, 300),
	};

	return TESTS_RUN(tests, argc, argv);
}
