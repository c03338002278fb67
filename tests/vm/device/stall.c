// SPDX-License-Identifier: Apache-2.0
/*
 * stall.c - copies that stop in the middle, on a page that does not come
 */
#include <linux/userfaultfd.h>
#include <sched.h>

#include "common.h"

#define SEGMENT	(16 * MIB)
#define SLOT	(256 * 1024ULL)
#define NAME	"stall"
#define QUIET_MS	200	/* long enough for what must not come */
#define MARKS	1024		/* puts shut that the kernel remembers */

static struct owner owner = { .slot = SLOT };
static struct client client;

static void start(void)
{
	owner_start(&owner, NAME, SEGMENT);
	owner_serve(&owner);
	client_start(&client, NAME);
}

/* ---- memory that is not there until it is let go ---- */

struct stalled {
	u8 *at;
	int fd;
};

static void stall(struct stalled *s, u64 len)
{
	struct uffdio_api api = { .api = UFFD_API };
	struct uffdio_register reg = {
		.range = { .len = len },
		.mode = UFFDIO_REGISTER_MODE_MISSING,
	};

	s->fd = (int)syscall(SYS_userfaultfd, O_CLOEXEC);
	if (s->fd < 0)
		test_skip("no userfaultfd");
	CHECK(!ioctl(s->fd, UFFDIO_API, &api));
	s->at = mmap(NULL, len, PROT_READ | PROT_WRITE,
		     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	CHECK(s->at != MAP_FAILED);
	reg.range.start = (uintptr_t)s->at;
	CHECK(!ioctl(s->fd, UFFDIO_REGISTER, &reg));
}

/* Somebody waits for a page of it. */
static void await(const struct stalled *s)
{
	struct uffd_msg m;

	EQ(read(s->fd, &m, sizeof(m)), sizeof(m));
	EQ(m.event, UFFD_EVENT_PAGEFAULT);
}

/* Its pages are zero from now on. */
static void let_go(struct stalled *s)
{
	close(s->fd);
}

/* ---- a put by copy in another thread ---- */

struct copy {
	pthread_t thread;
	struct item it[2];
	u32 nr;
	int err;
	struct fluxonkv_result res[2];
};

static void *copy_thread(void *arg)
{
	struct copy *c = arg;

	c->err = call_many(client.fd, FLUXONKV_OP_PUT, c->it, c->nr, c->res);
	return NULL;
}

static void copy_start(struct copy *c, const struct stalled *s, u64 len)
{
	c->it[0] = (struct item){
		.key = "slow", .len = len, .id = (uintptr_t)s->at,
	};
	c->nr = c->nr ? c->nr : 1;
	CHECK(!pthread_create(&c->thread, NULL, copy_thread, c));
	await(s);
}

static int copy_end(struct copy *c)
{
	pthread_join(c->thread, NULL);
	return c->err ? c->err : c->res[0].status;
}

static u64 open_puts(void)
{
	return owner_counts(&owner).open_puts;
}

static void shut_extent_returns_when_the_copier_left(void)
{
	struct copy c = {};
	struct stalled s;

	start();
	stall(&s, 4 * PAGE);
	copy_start(&c, &s, 4 * PAGE);
	EQ(open_puts(), 1);
	EQ(put_commit(&client, 1), -EINVAL);
	EQ(put_abort(&client, 1), -EINVAL);
	EQ(owner_shut(&owner, client.id, 1), 0);
	EQ(owner_shut(&owner, client.id, 1), -ENOENT);
	CHECK(!owner_heard(&owner, FLUXONKV_MESSAGE_SHUT, client.id, 1,
			   QUIET_MS));
	EQ(open_puts(), 1);
	EQ(owner_publish(&owner, "x", 0, PAGE, 9), -EBUSY);
	let_go(&s);
	EQ(copy_end(&c), -ETIMEDOUT);
	CHECK(owner_heard(&owner, FLUXONKV_MESSAGE_SHUT, client.id, 1, 5000));
	EQ(open_puts(), 0);
	EQ(owner_publish(&owner, "x", 0, PAGE, 9), 0);
}

/* The second of two is open as well while the first one is copied. */
static void every_put_of_a_batch_can_be_shut(void)
{
	static u8 bytes[PAGE];
	struct copy c = {
		.it[1] = {
			.key = "second", .len = PAGE, .id = (uintptr_t)bytes,
		},
		.nr = 2,
	};
	struct stalled s;

	start();
	memset(bytes, 'x', sizeof(bytes));
	stall(&s, PAGE);
	copy_start(&c, &s, PAGE);
	EQ(open_puts(), 2);
	EQ(owner_shut(&owner, client.id, 2), 0);
	EQ(owner_shut(&owner, client.id, 1), 0);
	let_go(&s);
	EQ(copy_end(&c), -ETIMEDOUT);
	EQ(c.res[1].status, -ETIMEDOUT);
	EQ(owner.map[SLOT], 0);
	EQ(open_puts(), 0);
}

static void shut_window_is_told_to_its_client(void)
{
	struct fluxonkv_result put;

	start();
	EQ(put_begin(&client, "k", PAGE, &put), 0);
	EQ(probe_write(client.win + put.offset, 1), 0);
	EQ(owner_shut(&owner, client.id, put.id + 1), -ENOENT);
	EQ(owner_shut(&owner, client.id + 1, put.id), -ENOENT);
	EQ(owner_shut(&owner, client.id, put.id), 0);
	EQ(probe_write(client.win + put.offset, 1), -SIGBUS);
	CHECK(owner_heard(&owner, FLUXONKV_MESSAGE_SHUT, client.id, put.id,
			  5000));
	EQ(open_puts(), 0);
	EQ(put_commit(&client, put.id), -ETIMEDOUT);
	EQ(put_commit(&client, put.id), -EINVAL);
}

/* A client that never asks what became of them: only the last ones are kept. */
static void shut_puts_are_remembered_to_a_limit(void)
{
	static u64 ids[MARKS + 10];
	struct fluxonkv_result put;

	start();
	for (u32 i = 0; i < ARRAY_SIZE(ids); i++) {
		EQ(put_begin(&client, "k", PAGE, &put), 0);
		ids[i] = put.id;
		EQ(owner_shut(&owner, client.id, put.id), 0);
		CHECK(owner_heard(&owner, FLUXONKV_MESSAGE_SHUT, client.id,
				  put.id, 5000));
	}
	EQ(put_commit(&client, ids[0]), -EINVAL);
	EQ(put_commit(&client, ids[9]), -EINVAL);
	EQ(put_commit(&client, ids[10]), -ETIMEDOUT);
	EQ(put_commit(&client, ids[MARKS + 9]), -ETIMEDOUT);
	EQ(put_commit(&client, ids[MARKS + 9]), -EINVAL);
	EQ(put_begin(&client, "k", PAGE, &put), 0);
	EQ(put_commit(&client, put.id), 0);
	EQ(put_commit(&client, ids[11]), -ETIMEDOUT);
}

/* The client is killed amid its copy: it goes, and its put with it. */
static void killed_copier_leaves_at_once(void)
{
	struct client other;
	struct stalled s;
	u64 began;
	pid_t pid;
	int p[2];

	start();
	CHECK(!pipe(p));
	pid = spawn();
	if (!pid) {
		client_start(&client, NAME);
		stall(&s, PAGE);
		EQ(write(p[1], &client.id, 8), 8);
		put_copy(&client, "slow", s.at, PAGE);
		_exit(1);
	}
	EQ(read(p[0], &other.id, 8), 8);
	while (open_puts() != 1)
		sleep_ms(5);
	sleep_ms(50);
	began = now_ns();
	kill(pid, SIGKILL);
	EQ(reap(pid), -SIGKILL);
	CHECK(owner_heard(&owner, FLUXONKV_MESSAGE_GONE, other.id, 0, 5000));
	CHECK(now_ns() - began < 5 * SEC_NS);
	EQ(open_puts(), 0);
}

/* ---- the owner dies meanwhile ---- */

static pid_t owner_process(void)
{
	struct ready r;
	pid_t pid;

	ready_init(&r);
	pid = spawn();
	if (!pid) {
		owner_start(&owner, NAME, SEGMENT);
		owner_serve(&owner);
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

static void dead_owners_chunk_stays_while_copied_to(void)
{
	u64 one = 2 * MIB, two = 2 * MIB + SEGMENT, none = 0;
	struct copy c = {};
	struct stalled s;
	pid_t pid, next;

	pid = owner_process();
	client_start(&client, NAME);
	stall(&s, 2 * PAGE);
	copy_start(&c, &s, 2 * PAGE);
	kill(pid, SIGKILL);
	EQ(reap(pid), -SIGKILL);
	CHECK(wait_until(pinned_is, &one, 5000));
	next = owner_process();
	EQ(pinned(), two);
	kill(next, SIGKILL);
	reap(next);
	CHECK(wait_until(pinned_is, &one, 5000));
	let_go(&s);
	EQ(copy_end(&c), -ENOTCONN);
	CHECK(wait_until(pinned_is, &none, 5000));
}

/* ---- other copies ---- */

/* A GET whose results do not arrive has no holders, and keeps none. */
static void killed_reader_leaves_no_holder(void)
{
	static u8 body[512];
	struct item it = { .key = "k" };
	struct fluxonkv_call call = {
		.size = sizeof(call), .body = (uintptr_t)body,
		.reply_room = PAGE,
	};
	struct stalled s;
	pid_t pid;

	start();
	EQ(owner_publish(&owner, "k", 0, PAGE, 1), 0);
	call.body_size = body_build(body, FLUXONKV_OP_GET, &it, 1, 0);
	pid = spawn();
	if (!pid) {
		client_start(&client, NAME);
		stall(&s, PAGE);
		call.reply = (uintptr_t)s.at;
		ask(client.fd, FLUXONKV_IOC_CALL, &call);
		_exit(1);
	}
	while (!owner_counts(&owner).hits)
		sleep_ms(5);
	sleep_ms(50);
	EQ(owner_evict(&owner, "k", 1), -EBUSY);
	kill(pid, SIGKILL);
	EQ(reap(pid), -SIGKILL);
	EQ(owner_counts(&owner).holders, 0);
	EQ(owner_evict(&owner, "k", 1), FLUXONKV_QUIET);
}

static void *stalled_recv(void *arg)
{
	struct fluxonkv_recv r = {
		.size = sizeof(r),
		.at = (uintptr_t)arg,
		.room = PAGE,
	};

	EQ(ask(owner.fd, FLUXONKV_IOC_RECV, &r), 0);
	/* two came, and two went meanwhile */
	EQ(r.nr, 4);
	EQ(((struct fluxonkv_message *)arg)[3].type, FLUXONKV_MESSAGE_GONE);
	EQ(((struct fluxonkv_message *)arg)[3].client, client.id);
	return NULL;
}

/* Clients come, go and are killed while the owner's RECV stands still. */
static void stalled_owner_holds_up_no_exit(void)
{
	struct fluxonkv_result res;
	struct stalled s;
	pthread_t t;
	pid_t pid;

	owner_start(&owner, NAME, SEGMENT);
	client_start(&client, NAME);
	EQ(owner_publish(&owner, "k", 0, PAGE, 1), 0);
	stall(&s, PAGE);
	CHECK(!pthread_create(&t, NULL, stalled_recv, s.at));
	await(&s);
	EQ(get(&client, "k", &res), 0);
	pid = spawn();
	if (!pid) {
		client_start(&client, NAME);
		get(&client, "none", &res);
		_exit(1);
	}
	while (owner_counts(&owner).requests != 1)
		sleep_ms(5);
	kill(pid, SIGKILL);
	EQ(reap(pid), -SIGKILL);
	EQ(owner_counts(&owner).requests, 0);
	client_stop(&client);
	EQ(owner_counts(&owner).clients, 0);
	let_go(&s);
	pthread_join(t, NULL);
}

static u64 last_cookie;

static void remember(struct owner *o, struct fluxonkv_message *m,
		     struct fluxonkv_req *q)
{
	(void)o;
	(void)q;
	last_cookie = m->cookie;
}

static void *stalled_reply(void *arg)
{
	EQ(owner_reply(&owner, last_cookie, arg, 64), -ENOENT);
	return NULL;
}

/* An answer that is not there yet answers nobody. */
static void caller_times_out_while_its_answer_stalls(void)
{
	static u8 body[512];
	struct item it = { .key = "none" };
	struct fluxonkv_result res;
	struct stalled s;
	pthread_t t;
	u32 size;
	pid_t pid;

	owner.answer = remember;
	start();
	size = body_build(body, FLUXONKV_OP_GET, &it, 1, SEC_NS);
	stall(&s, PAGE);
	pid = spawn();
	if (!pid) {
		client_start(&client, NAME);
		EQ(call_raw(client.fd, body, size, &res, 1), 0);
		EQ(res.status, -ETIMEDOUT);
		_exit(0);
	}
	while (!last_cookie)
		sleep_ms(1);
	CHECK(!pthread_create(&t, NULL, stalled_reply, s.at));
	await(&s);
	EQ(reap(pid), 0);
	EQ(owner_counts(&owner).requests, 0);
	let_go(&s);
	pthread_join(t, NULL);
}

/* ---- at the same time as the client's end ---- */

static u64 to_shut;
static int shut_said;

/* Takes a put, sometimes a little later, and leaves 0 when it has said so. */
static void *shut_all_the_time(void *arg)
{
	u64 seed = 5, put;

	(void)arg;
	for (;;) {
		put = __atomic_load_n(&to_shut, __ATOMIC_ACQUIRE);
		if (put == ~0ULL)
			return NULL;
		if (!put) {
			sched_yield();
			continue;
		}
		for (u64 n = random_next(&seed) % 20000; n; n--)
			__asm__ volatile("");
		shut_said = owner_shut(&owner, client.id, put);
		__atomic_store_n(&to_shut, 0, __ATOMIC_RELEASE);
	}
}

/* The client's end of put @put: what the daemon and the client were told. */
static bool shut_won(u64 put)
{
	int err;

	__atomic_store_n(&to_shut, put, __ATOMIC_RELEASE);
	err = put_commit(&client, put);
	while (__atomic_load_n(&to_shut, __ATOMIC_ACQUIRE))
		sched_yield();
	if (shut_said)
		EQ(shut_said, -ENOENT);
	EQ(err, shut_said ? 0 : -ETIMEDOUT);
	return !shut_said;
}

/* Told that SHUT follows, the daemon is asked no commit any more. */
static void shut_and_commit_do_not_cross(void)
{
	const u32 rounds = full_run() ? 4000 : 1000;
	struct fluxonkv_result put;
	pthread_t t;
	u32 won = 0;

	start();
	CHECK(!pthread_create(&t, NULL, shut_all_the_time, NULL));
	for (u32 i = 0; i < rounds; i++) {
		EQ(put_begin(&client, "both", PAGE, &put), 0);
		client.win[put.offset] = 1;
		won += shut_won(put.id);
	}
	__atomic_store_n(&to_shut, ~0ULL, __ATOMIC_RELEASE);
	pthread_join(t, NULL);
	printf("    %u of %u were shut\n", won, rounds);
	CHECK(won && won < rounds);
	EQ(owner_counts(&owner).overlaps, 0);
}

int main(int argc, char **argv)
{
	static const struct test tests[] = {
		TEST(shut_extent_returns_when_the_copier_left),
		TEST(every_put_of_a_batch_can_be_shut),
		TEST(shut_window_is_told_to_its_client),
		TEST(shut_puts_are_remembered_to_a_limit),
		TEST(killed_copier_leaves_at_once),
		TEST(dead_owners_chunk_stays_while_copied_to),
		TEST(killed_reader_leaves_no_holder),
		TEST(stalled_owner_holds_up_no_exit),
		TEST(caller_times_out_while_its_answer_stalls),
		LONG_TEST(shut_and_commit_do_not_cross, 300),
	};

	return TESTS_RUN(tests, argc, argv);
}
