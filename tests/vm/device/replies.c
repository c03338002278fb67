// SPDX-License-Identifier: Apache-2.0
/*
 * replies.c - an owner that answers twice, late, or with rubbish
 */
#include "common.h"

#define SEGMENT	(16 * MIB)
#define SLOT	(256 * 1024ULL)
#define NAME	"replies"

/* A reply to a request of two items, and how large it is. */
struct reply {
	struct fluxonkv_rep rep;
	struct fluxonkv_result res[2];
	u8 more[256];
};

static struct owner owner = { .slot = SLOT };
static struct client client;
static struct reply reply;
static u32 reply_size;
static int reply_status;
static u64 put_ids = 1000;
static void (*spoil)(void);

/* As it should be: two values of a page each, at 1 MiB and 2 MiB. */
static void good(u16 op, u32 nr, u64 len)
{
	/* of a put, an id is never used again */
	if (op == FLUXONKV_OP_PUT_BEGIN)
		put_ids += 2;
	memset(&reply, 0, sizeof(reply));
	reply.rep = (struct fluxonkv_rep){
		.size = sizeof(reply.rep),
		.op = op,
		.nr = nr,
		.item_size = sizeof(reply.res[0]),
	};
	for (u32 i = 0; i < nr && i < 2; i++)
		reply.res[i] = (struct fluxonkv_result){
			.source = FLUXONKV_SOURCE_SSD_LOCAL,
			.offset = (i + 1) * MIB,
			.len = len,
			.version = 100 + i,
			.id = (op == FLUXONKV_OP_PUT_BEGIN ? put_ids : 200) +
			      i,
		};
	reply_size = (u32)(sizeof(reply.rep) + nr * sizeof(reply.res[0]));
}

static void answer(struct owner *o, struct fluxonkv_message *m,
		   struct fluxonkv_req *q)
{
	const struct fluxonkv_item *it = (void *)(q + 1);

	good(q->op, q->nr, q->op == FLUXONKV_OP_PUT_BEGIN ? it->len : PAGE);
	if (spoil)
		spoil();
	reply_status = owner_reply(o, m->cookie, &reply, reply_size);
}

static void start(void)
{
	owner.answer = answer;
	owner_start(&owner, NAME, SEGMENT);
	owner_serve(&owner);
	client_start(&client, NAME);
}

static const struct item two_keys[2] = { { .key = "a" }, { .key = "b" } };
static const struct item two_puts[2] = {
	{ .key = "a", .len = 5000 }, { .key = "b", .len = 5000 },
};
static struct fluxonkv_result got[2];

/* The owner has seen what became of its answer. */
static void owner_saw(void)
{
	pthread_mutex_lock(&owner.lock);
	pthread_mutex_unlock(&owner.lock);
}

static int ask_two(u16 op, const struct item *it)
{
	int err;

	memset(got, 0, sizeof(got));
	err = call_many(client.fd, op, it, 2, got);
	owner_saw();
	return err;
}

static int get_two(void)
{
	return ask_two(FLUXONKV_OP_GET, two_keys);
}

static int put_two(void)
{
	return ask_two(FLUXONKV_OP_PUT_BEGIN, two_puts);
}

static bool quiet(void *arg)
{
	struct fluxonkv_counts n = owner_counts(arg);

	return !n.holders && !n.open_puts && !n.requests && !n.held_bytes &&
	       !n.retired;
}

static void nothing_kept(void)
{
	CHECK(wait_until(quiet, &owner, 2000));
	/* no extent is in the way either */
	EQ(owner_publish(&owner, "all", 0, SEGMENT, 1), 0);
	EQ(owner_evict(&owner, "all", 1), FLUXONKV_QUIET);
}

static void good_answers_are_taken(void)
{
	start();
	EQ(get_two(), 0);
	EQ(reply_status, 0);
	for (u32 i = 0; i < 2; i++) {
		EQ(got[i].status, 0);
		EQ(got[i].source, FLUXONKV_SOURCE_SSD_LOCAL);
		EQ(got[i].offset, (i + 1) * MIB);
		EQ(got[i].version, 100 + i);
		CHECK(got[i].id && got[i].id != 200 + i);
		EQ(release(&client, got[i].id), 0);
		CHECK(owner_heard(&owner, FLUXONKV_MESSAGE_RELEASED,
				  client.id, 200 + i, 2000));
	}
	EQ(put_two(), 0);
	EQ(reply_status, 0);
	EQ(got[0].status, 0);
	EQ(got[1].status, 0);
	EQ(got[1].id, put_ids + 1);
	EQ(owner_counts(&owner).open_puts, 2);
	EQ(owner_shut(&owner, client.id, put_ids), 0);
	EQ(owner_shut(&owner, client.id, put_ids + 1), 0);
	nothing_kept();
}

/* ---- bodies that are none: all items fail ---- */

static void no_bytes(void)
{
	reply_size = 0;
}

static void half_a_head(void)
{
	reply_size = sizeof(reply.rep) - 1;
}

static void byte_short(void)
{
	reply_size--;
}

static void byte_long(void)
{
	reply_size++;
}

static void huge_body(void)
{
	reply.rep.text_len = UINT32_MAX;
}

static void small_head(void)
{
	reply.rep.size = 8;
}

static void large_head(void)
{
	reply.rep.size = UINT32_MAX;
}

static void other_op(void)
{
	reply.rep.op = FLUXONKV_OP_RELEASE;
}

static void unknown_op(void)
{
	reply.rep.op = 999;
}

static void unknown_flags(void)
{
	reply.rep.flags = 1;
}

static void positive_status(void)
{
	reply.rep.status = 1;
}

static void one_less(void)
{
	reply.rep.nr = 1;
	reply_size -= sizeof(reply.res[0]);
}

static void one_more(void)
{
	reply.rep.nr = 3;
	reply_size += sizeof(reply.res[0]);
}

static void very_many(void)
{
	reply.rep.nr = UINT32_MAX;
}

static void none(void)
{
	reply.rep.nr = 0;
	reply_size = sizeof(reply.rep);
}

static void no_item_size(void)
{
	reply.rep.item_size = 0;
}

static void small_items(void)
{
	reply.rep.item_size -= 8;
	reply_size -= 16;
}

static void huge_items(void)
{
	reply.rep.item_size = UINT32_MAX / 2 + 1;
}

static void rubbish_fails_the_call(void)
{
	static void (*const ways[])(void) = {
		no_bytes, half_a_head, byte_short, byte_long, huge_body,
		small_head, large_head, other_op, unknown_op, unknown_flags,
		positive_status, one_less, one_more, very_many, none,
		no_item_size, small_items, huge_items,
	};

	start();
	for (u32 i = 0; i < ARRAY_SIZE(ways); i++) {
		spoil = ways[i];
		if (get_two() != 0 || got[0].status != -EPROTO ||
		    got[1].status != -EPROTO || !reply_status)
			test_fail(__FILE__, __LINE__, "get, way %u: %d %d", i,
				  got[0].status, reply_status);
		if (put_two() != 0 || got[0].status != -EPROTO ||
		    got[1].status != -EPROTO || !reply_status)
			test_fail(__FILE__, __LINE__, "put, way %u: %d %d", i,
				  got[0].status, reply_status);
	}
	nothing_kept();
}

/* ---- results that cannot be: one item fails ---- */

static void unaligned(void)
{
	reply.res[0].offset++;
}

static void at_the_end(void)
{
	reply.res[0].offset = SEGMENT;
}

static void across_the_end(void)
{
	reply.res[0].offset = SEGMENT - PAGE;
	reply.res[0].len = 2 * PAGE;
}

static void wrapped(void)
{
	reply.res[0].offset = 0 - PAGE;
}

static void endless(void)
{
	reply.res[0].len = ~0ULL;
}

static void without_id(void)
{
	reply.res[0].id = 0;
}

static void positive(void)
{
	reply.res[0].status = 5;
}

static void wrong_item_fails_alone(void)
{
	static void (*const ways[])(void) = {
		unaligned, at_the_end, across_the_end, wrapped, endless,
		without_id, positive,
	};

	start();
	for (u32 i = 0; i < ARRAY_SIZE(ways); i++) {
		spoil = ways[i];
		if (get_two() != 0 || got[0].status != -EPROTO ||
		    got[1].status)
			test_fail(__FILE__, __LINE__, "get, way %u: %d %d", i,
				  got[0].status, got[1].status);
		EQ(release(&client, got[1].id), 0);
		if (put_two() != 0 || got[0].status != -EPROTO ||
		    got[1].status)
			test_fail(__FILE__, __LINE__, "put, way %u: %d %d", i,
				  got[0].status, got[1].status);
		EQ(owner_shut(&owner, client.id, got[1].id), 0);
	}
	nothing_kept();
}

static void same_extent(void)
{
	reply.res[1].offset = reply.res[0].offset;
}

static void same_value(void)
{
	same_extent();
	reply.res[1].version = reply.res[0].version;
}

static void same_id(void)
{
	reply.res[1].id = reply.res[0].id;
}

static void other_len(void)
{
	reply.res[0].len--;
}

static void items_do_not_overlap(void)
{
	start();
	spoil = same_extent;
	EQ(get_two(), 0);
	EQ(got[0].status, 0);
	EQ(got[1].status, -EPROTO);
	EQ(reply_status, -EPROTO);
	/* crossed out: the owner is to end its holder */
	EQ(reply.res[1].id, 0);
	EQ(reply.res[0].id, 200);
	EQ(release(&client, got[0].id), 0);
	EQ(put_two(), 0);
	EQ(got[0].status, 0);
	EQ(got[1].status, -EPROTO);
	EQ(owner_shut(&owner, client.id, put_ids), 0);
	EQ(owner_counts(&owner).overlaps, 2);
	/* of one value there can be any number */
	spoil = same_value;
	EQ(get_two(), 0);
	EQ(got[0].status, 0);
	EQ(got[1].status, 0);
	EQ(release(&client, got[0].id), 0);
	EQ(release(&client, got[1].id), 0);
	spoil = same_id;
	EQ(put_two(), 0);
	EQ(got[0].status, 0);
	EQ(got[1].status, -EPROTO);
	EQ(owner_shut(&owner, client.id, put_ids), 0);
	spoil = other_len;
	EQ(put_two(), 0);
	EQ(got[0].status, -EPROTO);
	EQ(got[1].status, 0);
	EQ(owner_shut(&owner, client.id, put_ids + 1), 0);
	nothing_kept();
}

static void failed_as_a_whole(void)
{
	reply.rep.status = -EIO;
}

/* Its results count for nothing. */
static void failed_answer_gives_nothing(void)
{
	start();
	spoil = failed_as_a_whole;
	EQ(get_two(), 0);
	EQ(got[0].status, -EIO);
	EQ(owner_counts(&owner).holders, 0);
	EQ(put_two(), 0);
	EQ(got[0].status, -EIO);
	EQ(owner_counts(&owner).open_puts, 0);
	nothing_kept();
}

/* ---- which request ---- */

static u64 cookies[4];
static u32 nr_cookies;

static void collect(struct owner *o, struct fluxonkv_message *m)
{
	(void)o;
	if (m->type == FLUXONKV_MESSAGE_REQUEST && nr_cookies < 4)
		cookies[nr_cookies++] = m->cookie;
}

static void *getter(void *arg)
{
	struct fluxonkv_result *res = arg;

	EQ(call_many(client.fd, FLUXONKV_OP_GET, two_keys, 2, res), 0);
	return NULL;
}

static void *putter(void *arg)
{
	struct fluxonkv_result *res = arg;

	EQ(call_many(client.fd, FLUXONKV_OP_PUT_BEGIN, two_puts, 2, res), 0);
	return NULL;
}

static void await_request(u32 n)
{
	while (owner_counts(&owner).requests < n)
		sleep_ms(2);
}

static void by_hand(void)
{
	owner_start(&owner, NAME, SEGMENT);
	client_start(&client, NAME);
	owner_recv(&owner, collect);
}

static int say(u64 cookie)
{
	return owner_reply(&owner, cookie, &reply, reply_size);
}

static void answer_counts_once(void)
{
	struct fluxonkv_result res[2];
	pthread_t t;

	by_hand();
	good(FLUXONKV_OP_GET, 2, PAGE);
	CHECK(!pthread_create(&t, NULL, getter, res));
	await_request(1);
	/* not told of it yet: it cannot know */
	for (u64 cookie = 0; cookie < 10; cookie++)
		EQ(say(cookie), -ENOENT);
	EQ(say(~0ULL), -ENOENT);
	owner_recv(&owner, collect);
	EQ(nr_cookies, 1);
	EQ(say(cookies[0] + 1), -ENOENT);
	EQ(say(cookies[0] - 1), -ENOENT);
	EQ(owner_reply(&owner, cookies[0], NULL, reply_size), -EFAULT);
	EQ(owner_reply(&owner, cookies[0], &reply, UINT32_MAX), -EMSGSIZE);
	EQ(say(cookies[0]), 0);
	EQ(say(cookies[0]), -ENOENT);
	pthread_join(t, NULL);
	EQ(res[0].status, 0);
	EQ(res[1].status, 0);
	EQ(owner_counts(&owner).stale_replies, 14);
	EQ(owner_counts(&owner).requests, 0);
}

static void answers_of_two_are_not_exchanged(void)
{
	struct fluxonkv_result res[2], put[2];
	pthread_t t, u;

	by_hand();
	CHECK(!pthread_create(&t, NULL, getter, res));
	await_request(1);
	owner_recv(&owner, collect);
	CHECK(!pthread_create(&u, NULL, putter, put));
	await_request(2);
	owner_recv(&owner, collect);
	EQ(nr_cookies, 2);
	good(FLUXONKV_OP_GET, 2, PAGE);
	EQ(say(cookies[1]), -EINVAL);
	good(FLUXONKV_OP_PUT_BEGIN, 2, 5000);
	EQ(say(cookies[0]), -EINVAL);
	pthread_join(t, NULL);
	pthread_join(u, NULL);
	EQ(res[0].status, -EPROTO);
	EQ(put[0].status, -EPROTO);
	nothing_kept();
}

static void late_answer_is_refused(void)
{
	u8 body[512];
	struct fluxonkv_result res[2];
	u32 size = body_build(body, FLUXONKV_OP_GET, two_keys, 2, SEC_NS / 10);

	by_hand();
	EQ(call_raw(client.fd, body, size, res, 2), 0);
	EQ(res[0].status, -ETIMEDOUT);
	/* it was never taken, and is no more */
	owner_recv(&owner, collect);
	EQ(nr_cookies, 0);
	good(FLUXONKV_OP_GET, 2, PAGE);
	for (u64 cookie = 0; cookie < 4; cookie++)
		EQ(say(cookie), -ENOENT);
	nothing_kept();
}

/* Ids that it need not keep are told by a 0; it may not be told. */
static void answer_may_lie_in_read_only_memory(void)
{
	struct fluxonkv_result res[2];
	struct reply *at = (void *)edge();
	pthread_t t;

	by_hand();
	EQ(owner_publish(&owner, "x", MIB, PAGE, 100), 0);
	CHECK(!pthread_create(&t, NULL, getter, res));
	await_request(1);
	owner_recv(&owner, collect);
	good(FLUXONKV_OP_GET, 2, PAGE);
	memcpy(at, &reply, sizeof(reply));
	CHECK(!mprotect(at, PAGE, PROT_READ));
	EQ(owner_reply(&owner, cookies[0], at, reply_size), 0);
	pthread_join(t, NULL);
	EQ(res[0].status, 0);
	EQ(at->res[0].id, 200);
	CHECK(!pthread_create(&t, NULL, getter, res));
	await_request(1);
	owner_recv(&owner, collect);
	CHECK(!mprotect(at, PAGE, PROT_READ | PROT_WRITE));
	EQ(owner_reply(&owner, cookies[1], at, reply_size), 0);
	pthread_join(t, NULL);
	EQ(at->res[0].id, 0);
	EQ(at->res[1].id, 201);
}

/* ---- answers that their client cannot take ---- */

static int begin_at(void *at, u32 room)
{
	static u8 body[PAGE];
	struct fluxonkv_call c = {
		.size = sizeof(c),
		.body = (uintptr_t)body,
		.body_size = body_build(body, FLUXONKV_OP_PUT_BEGIN, two_puts,
					2, 30 * SEC_NS),
		.reply = (uintptr_t)at,
		.reply_room = room,
	};

	return ask(client.fd, FLUXONKV_IOC_CALL, &c);
}

/* U4: the owner hears of it, with nobody writing any more. */
static void puts_that_cannot_be_told_end_at_once(void)
{
	u32 size = sizeof(reply.rep) + 2 * sizeof(reply.res[0]);
	u8 *end = edge() + PAGE;
	u8 *const places[] = { (u8 *)8, end, end - size + 8, end - size };

	start();
	for (u32 i = 0; i < ARRAY_SIZE(places); i++) {
		bool good = i == ARRAY_SIZE(places) - 1;

		EQ(begin_at(places[i], size), good ? 0 : -EFAULT);
		owner_saw();
		EQ(reply_status, 0);
		EQ(owner_counts(&owner).open_puts, good ? 2 : 0);
		for (u32 j = 0; j < 2 && !good; j++) {
			CHECK(owner_heard(&owner, FLUXONKV_MESSAGE_SHUT,
					  client.id, put_ids + j, 2000));
			EQ(put_commit(&client, put_ids + j), -EINVAL);
			EQ(probe_write(client.win + (j + 1) * MIB, 1),
			   -SIGBUS);
		}
	}
	EQ(owner_heard_nr(&owner, FLUXONKV_MESSAGE_SHUT), 6);
	EQ(owner_shut(&owner, client.id, put_ids), 0);
	EQ(owner_shut(&owner, client.id, put_ids + 1), 0);
	nothing_kept();
}

/* ---- opaque requests ---- */

static void echo(struct owner *o, struct fluxonkv_message *m,
		 struct fluxonkv_req *q)
{
	struct fluxonkv_rep *r;

	if (q->op != FLUXONKV_OP_STAT) {
		answer(o, m, q);
		return;
	}
	r = malloc(m->body_size + sizeof(*r));
	*r = (struct fluxonkv_rep){ .size = sizeof(*r), .op = q->op };
	memcpy(r + 1, q, m->body_size);
	reply_status = owner_reply(o, m->cookie, r,
				   m->body_size + (u32)sizeof(*r));
	free(r);
}

static void opaque_call_goes_there_and_back(void)
{
	static u8 body[FLUXONKV_CALL_MAX + 8], rep[FLUXONKV_CALL_MAX + 64];
	struct fluxonkv_call c = {
		.size = sizeof(c),
		.body = (uintptr_t)body,
		.reply = (uintptr_t)rep,
	};
	struct fluxonkv_req *q = (void *)body;

	owner.answer = echo;
	owner_start(&owner, NAME, SEGMENT);
	owner_serve(&owner);
	client_start(&client, NAME);
	fill(body, sizeof(body), 1);
	*q = (struct fluxonkv_req){
		.size = sizeof(*q), .op = FLUXONKV_OP_STAT,
		.timeout_ns = 10 * SEC_NS,
	};
	for (c.body_size = sizeof(*q); c.body_size <= FLUXONKV_CALL_MAX;
	     c.body_size += 4111) {
		c.reply_room = sizeof(rep);
		EQ(ask(client.fd, FLUXONKV_IOC_CALL, &c), 0);
		EQ(c.reply_size, c.body_size + sizeof(struct fluxonkv_rep));
		CHECK(!memcmp(rep + sizeof(struct fluxonkv_rep), body,
			      c.body_size));
		c.reply_room = c.reply_size - 1;
		EQ(ask(client.fd, FLUXONKV_IOC_CALL, &c), -EMSGSIZE);
		EQ(c.reply_size, c.body_size + sizeof(struct fluxonkv_rep));
	}
	c.body_size = FLUXONKV_CALL_MAX + 1;
	EQ(ask(client.fd, FLUXONKV_IOC_CALL, &c), -EMSGSIZE);
	nothing_kept();
}

/* ---- at random ---- */

static u64 seed = 1;

static void random_bytes(void)
{
	static const u64 odd[] = {
		0, 1, 40, 4096, 5000, MIB, 2 * MIB, SEGMENT, UINT32_MAX,
		1ULL << 32, 1ULL << 63, ~0ULL, 0 - 4096ULL,
	};
	u64 n = random_next(&seed) % 4;

	for (u64 i = 0; i < n; i++) {
		u64 r = random_next(&seed);
		u64 value = r % 3 ? odd[r / 3 % ARRAY_SIZE(odd)] : r;

		memcpy((u8 *)&reply + random_next(&seed) % (reply_size - 3) /
		       4 * 4, &value, 4);
	}
	if (random_next(&seed) % 8 == 0)
		reply_size = (u32)(random_next(&seed) % sizeof(reply));
}

static void random_answers_leave_nothing(void)
{
	u32 n = full_run() ? 10000 : 3000;

	start();
	spoil = random_bytes;
	for (u32 i = 0; i < n; i++) {
		bool put = i % 2;

		if (put ? put_two() : get_two())
			continue;
		for (u32 j = 0; j < 2; j++) {
			if (got[j].status)
				continue;
			if (put)
				EQ(owner_shut(&owner, client.id, got[j].id),
				   0);
			else
				EQ(release(&client, got[j].id), 0);
		}
	}
	nothing_kept();
	client_stop(&client);
	nothing_kept();
}

int main(int argc, char **argv)
{
	static const struct test tests[] = {
		TEST(good_answers_are_taken),
		TEST(rubbish_fails_the_call),
		TEST(wrong_item_fails_alone),
		TEST(items_do_not_overlap),
		TEST(failed_answer_gives_nothing),
		TEST(answer_counts_once),
		TEST(answers_of_two_are_not_exchanged),
		TEST(late_answer_is_refused),
		TEST(answer_may_lie_in_read_only_memory),
		TEST(puts_that_cannot_be_told_end_at_once),
		TEST(opaque_call_goes_there_and_back),
		LONG_TEST(random_answers_leave_nothing, 900),
	};

	return TESTS_RUN(tests, argc, argv);
}
