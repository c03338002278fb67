// SPDX-License-Identifier: Apache-2.0
/*
 * index.c - gets, puts, holders and the owner's calls, without a daemon
 */
#include <time.h>

#include "common.h"

#define SEGMENT	(16 * MIB)
#define SLOT	(256 * 1024ULL)
#define NAME	"index"

static struct owner owner = { .slot = SLOT };

static void start(struct client *c)
{
	owner_start(&owner, NAME, SEGMENT);
	owner_serve(&owner);
	client_start(c, NAME);
}

static void value(struct client *c, const char *key, u64 len, u64 seed,
		  struct fluxonkv_result *res)
{
	EQ(put_begin(c, key, len, res), 0);
	EQ(res->len, len);
	fill(c->win + res->offset, len, seed);
	EQ(put_commit(c, res->id), 0);
}

/* ---- a client's calls ---- */

static void put_in_place_is_read_back(void)
{
	static const u64 lens[] = { 1, 4095, 4096, 4097, 100000, SLOT };
	struct fluxonkv_result put, res;
	struct client c;

	start(&c);
	EQ(get(&c, "k", &res), -ENOENT);
	for (u32 i = 0; i < ARRAY_SIZE(lens); i++) {
		value(&c, "k", lens[i], i, &put);
		EQ(get(&c, "k", &res), 0);
		EQ(res.source, FLUXONKV_SOURCE_LOCAL);
		EQ(res.offset, put.offset);
		EQ(res.len, lens[i]);
		EQ(res.version, put.id);
		CHECK(filled(c.seg + res.offset, lens[i], i));
		CHECK(filled(owner.map + res.offset, lens[i], i));
		EQ(release(&c, res.id), 0);
		EQ(release(&c, res.id), -EINVAL);
	}
	EQ(owner_counts(&owner).entries, 1);
	EQ(owner_counts(&owner).open_puts, 0);
	EQ(owner_counts(&owner).hits, ARRAY_SIZE(lens));
	EQ(owner_counts(&owner).misses, 1);
}

static void put_by_copy_is_read_back(void)
{
	static const u64 lens[] = { 0, 1, 4097, 200001, SLOT };
	u8 *from = malloc(SLOT + 1);
	struct fluxonkv_result res;
	struct client c;

	start(&c);
	for (u32 i = 0; i < ARRAY_SIZE(lens); i++) {
		fill(from + 1, lens[i], i);
		EQ(put_copy(&c, "k", from + 1, lens[i]), 0);
		EQ(get(&c, "k", &res), 0);
		EQ(res.len, lens[i]);
		CHECK(filled(c.seg + res.offset, lens[i], i));
	}
	EQ(put_copy(&c, "k", from, SLOT + 1), -EFBIG);
	EQ(put_copy(&c, "k", NULL, 10), -EFAULT);
	EQ(put_copy(&c, "k", edge() + PAGE - 5, 10), -EFAULT);
	EQ(owner_counts(&owner).open_puts, 0);
	EQ(owner_counts(&owner).holders, ARRAY_SIZE(lens));
}

/* Each held version stays as it was, whatever replaces it. */
static void replaced_versions_stay_while_held(void)
{
	struct fluxonkv_result held[10];
	struct fluxonkv_counts n;
	struct client c;

	start(&c);
	for (u32 i = 0; i < ARRAY_SIZE(held); i++) {
		value(&c, "k", 5000, i, &held[i]);
		EQ(get(&c, "k", &held[i]), 0);
	}
	n = owner_counts(&owner);
	EQ(n.entries, 1);
	EQ(n.retired, ARRAY_SIZE(held) - 1);
	EQ(n.holders, ARRAY_SIZE(held));
	EQ(n.held_bytes, 2 * PAGE);
	for (u32 i = 0; i < ARRAY_SIZE(held); i++) {
		CHECK(filled(c.seg + held[i].offset, 5000, i));
		EQ(owner_heard_nr(&owner, FLUXONKV_MESSAGE_QUIET), i);
		EQ(release(&c, held[i].id), 0);
		if (i + 1 < ARRAY_SIZE(held))
			CHECK(owner_heard(&owner, FLUXONKV_MESSAGE_QUIET, 0,
					  held[i].version, 5000));
	}
	n = owner_counts(&owner);
	EQ(n.entries, 1);
	EQ(n.retired, 0);
	EQ(n.held_bytes, 0);
}

static void commit_can_hold_in_one_step(void)
{
	struct fluxonkv_result put, res;
	struct item it = { .flags = FLUXONKV_COMMIT_HOLD };
	struct client c;

	start(&c);
	EQ(put_begin(&c, "k", 9000, &put), 0);
	fill(c.win + put.offset, 9000, 3);
	it.id = put.id;
	EQ(call_one(c.fd, FLUXONKV_OP_PUT_COMMIT, it, &res), 0);
	EQ(res.version, put.id);
	CHECK(res.id);
	EQ(owner_counts(&owner).holders, 1);
	EQ(owner_evict(&owner, "k", put.id), -EBUSY);
	EQ(release(&c, res.id), 0);
	EQ(owner_evict(&owner, "k", put.id), FLUXONKV_QUIET);
}

static void put_ends_once(void)
{
	struct fluxonkv_result put;
	struct client c, other;

	start(&c);
	client_start(&other, NAME);
	EQ(put_begin(&c, "k", 100, &put), 0);
	EQ(put_commit(&other, put.id), -EINVAL);
	EQ(put_abort(&other, put.id), -EINVAL);
	EQ(owner_counts(&owner).open_puts, 1);
	EQ(put_abort(&c, put.id), 0);
	EQ(put_abort(&c, put.id), -EINVAL);
	EQ(put_commit(&c, put.id), -EINVAL);
	EQ(put_begin(&c, "k", 100, &put), 0);
	EQ(put_commit(&c, put.id), 0);
	EQ(put_commit(&c, put.id), -EINVAL);
	EQ(put_abort(&c, put.id), -EINVAL);
	EQ(put_commit(&c, 0), -EINVAL);
	EQ(put_commit(&c, ~0ULL), -EINVAL);
}

static void batches_answer_each_item(void)
{
	struct item it[300] = {};
	struct fluxonkv_result res[300];
	static char keys[300][16];
	struct client c;

	start(&c);
	for (u32 i = 0; i < 300; i++) {
		sprintf(keys[i], "key%u", i);
		it[i].key = keys[i];
		if (i % 3 == 0)
			EQ(owner_publish(&owner, keys[i], i * PAGE, i + 1,
					 i + 1), 0);
	}
	EQ(call_many(c.fd, FLUXONKV_OP_GET, it, 300, res), 0);
	for (u32 i = 0; i < 300; i++) {
		EQ(res[i].status, i % 3 ? -ENOENT : 0);
		EQ(res[i].len, i % 3 ? 0 : i + 1);
		it[i] = (struct item){ .id = res[i].id };
	}
	EQ(owner_counts(&owner).holders, 100);
	EQ(call_many(c.fd, FLUXONKV_OP_RELEASE, it, 300, res), 0);
	for (u32 i = 0; i < 300; i++)
		EQ(res[i].status, i % 3 ? -EINVAL : 0);
	EQ(owner_counts(&owner).holders, 0);
	EQ(owner_counts(&owner).held_bytes, 0);
}

static void holders_are_of_one_open_file(void)
{
	struct fluxonkv_result res;
	struct client c, other;

	start(&c);
	client_start(&other, NAME);
	EQ(owner_publish(&owner, "k", 0, 10, 1), 0);
	EQ(get(&c, "k", &res), 0);
	EQ(release(&other, res.id), -EINVAL);
	client_stop(&other);
	EQ(owner_counts(&owner).holders, 1);
	EQ(release(&c, res.id), 0);
}

/* ---- the owner's calls ---- */

static void overlapping_extents_are_refused(void)
{
	struct fluxonkv_result put;
	struct client c;

	start(&c);
	EQ(owner_publish(&owner, "a", 40 * PAGE, 2 * PAGE, 1), 0);
	EQ(owner_publish(&owner, "b", 40 * PAGE, 1, 1), -EBUSY);
	EQ(owner_publish(&owner, "b", 41 * PAGE, 1, 1), -EBUSY);
	EQ(owner_publish(&owner, "b", 39 * PAGE, PAGE + 1, 1), -EBUSY);
	EQ(owner_publish(&owner, "b", 0, SEGMENT, 1), -EBUSY);
	EQ(owner_publish(&owner, "b", 39 * PAGE, PAGE, 1), 0);
	EQ(owner_publish(&owner, "c", 42 * PAGE, PAGE, 1), 0);
	EQ(owner_publish(&owner, "a", 44 * PAGE, PAGE, 2), -EEXIST);
	/* what was refused took nothing */
	EQ(owner_publish(&owner, "d", 44 * PAGE, PAGE, 2), 0);
	EQ(owner_counts(&owner).overlaps, 4);
	/* a put over what is published, and the other way round */
	EQ(put_begin(&c, "p", 50 * PAGE, &put), -EPROTO);
	EQ(owner_counts(&owner).overlaps, 5);
	EQ(put_begin(&c, "p", 50 * PAGE, &put), 0);
	EQ(owner_publish(&owner, "e", put.offset + PAGE, 1, 1), -EBUSY);
	EQ(put_abort(&c, put.id), 0);
	EQ(owner_publish(&owner, "e", put.offset + PAGE, 1, 1), 0);
}

/* An extent is free again when it is quiet, not before. */
static void retired_extent_is_free_when_quiet(void)
{
	struct fluxonkv_result res, more;
	struct client c;

	start(&c);
	EQ(owner_publish(&owner, "a", 0, PAGE, 7), 0);
	EQ(owner_retire(&owner, "a", 6), -ENOENT);
	EQ(owner_retire(&owner, "none", 7), -ENOENT);
	EQ(owner_retire(&owner, "a", 9), FLUXONKV_QUIET);
	EQ(owner_retire(&owner, "a", 9), -ENOENT);
	EQ(owner_publish(&owner, "a", 0, PAGE, 10), 0);
	EQ(get(&c, "a", &res), 0);
	EQ(get(&c, "a", &more), 0);
	EQ(owner_retire(&owner, "a", 10), FLUXONKV_HELD);
	EQ(get(&c, "a", &(struct fluxonkv_result){}), -ENOENT);
	EQ(owner_publish(&owner, "a", 0, PAGE, 11), -EBUSY);
	EQ(release(&c, res.id), 0);
	EQ(owner_publish(&owner, "a", 0, PAGE, 11), -EBUSY);
	EQ(owner_heard_nr(&owner, FLUXONKV_MESSAGE_QUIET), 0);
	EQ(release(&c, more.id), 0);
	CHECK(owner_heard(&owner, FLUXONKV_MESSAGE_QUIET, 0, 10, 5000));
	EQ(owner_publish(&owner, "a", 0, PAGE, 11), 0);
	EQ(owner_heard_nr(&owner, FLUXONKV_MESSAGE_QUIET), 1);
}

static void evict_spares_what_is_held(void)
{
	struct fluxonkv_result res;
	struct client c;

	start(&c);
	EQ(owner_publish(&owner, "a", 0, PAGE, 7), 0);
	EQ(owner_evict(&owner, "a", 6), -ENOENT);
	EQ(owner_evict(&owner, "a", 8), -ENOENT);
	EQ(owner_evict(&owner, "b", 7), -ENOENT);
	EQ(get(&c, "a", &res), 0);
	EQ(owner_evict(&owner, "a", 7), -EBUSY);
	EQ(get(&c, "a", &(struct fluxonkv_result){}), 0);
	EQ(release(&c, res.id), 0);
	EQ(owner_evict(&owner, "a", 7), -EBUSY);
	client_stop(&c);
	CHECK(owner_heard(&owner, FLUXONKV_MESSAGE_GONE, c.id, 0, 5000));
	EQ(owner_evict(&owner, "a", 7), FLUXONKV_QUIET);
	EQ(owner_evict(&owner, "a", 7), -ENOENT);
	EQ(owner_publish(&owner, "a", 0, PAGE, 7), 0);
}

static void held_version_is_told(void)
{
	struct fluxonkv_result res;
	struct client c;

	start(&c);
	EQ(owner_held(&owner, "a", 7), -ENOENT);
	EQ(owner_publish(&owner, "a", 0, PAGE, 7), 0);
	EQ(owner_held(&owner, "a", 7), FLUXONKV_QUIET);
	EQ(get(&c, "a", &res), 0);
	EQ(owner_held(&owner, "a", 7), FLUXONKV_HELD);
	EQ(owner_held(&owner, "a", 6), -ENOENT);
	EQ(owner_held(&owner, "", 7), -EINVAL);
	EQ(release(&c, res.id), 0);
	EQ(owner_held(&owner, "a", 7), FLUXONKV_QUIET);
	EQ(owner_evict(&owner, "a", 7), FLUXONKV_QUIET);
}

/* ---- where a call lies ---- */

static u64 body[64], reply[64];

static struct fluxonkv_call one_call(u16 op, const struct item *it)
{
	return (struct fluxonkv_call){
		.size = sizeof(struct fluxonkv_call),
		.body = (uintptr_t)body,
		.body_size = body_build(body, op, it, 1, 30 * SEC_NS),
		.reply = (uintptr_t)reply,
		.reply_room = sizeof(reply),
	};
}

static int call_in_read_only_memory(struct client *c, u16 op,
				    const struct item *it)
{
	struct fluxonkv_call *at = mmap(NULL, PAGE, PROT_READ | PROT_WRITE,
					MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	int err;

	CHECK(at != MAP_FAILED);
	*at = one_call(op, it);
	CHECK(!mprotect(at, PAGE, PROT_READ));
	err = ask(c->fd, FLUXONKV_IOC_CALL, at);
	CHECK(!munmap(at, PAGE));
	return err;
}

/* U4: it got EFAULT, whatever is in the reply's memory. */
static void call_that_cannot_be_told_is_taken_back(void)
{
	const struct item key = { .key = "a" };
	const struct item put = { .key = "b", .len = PAGE };
	struct client c;

	start(&c);
	EQ(owner_publish(&owner, "a", 0, PAGE, 7), 0);
	EQ(call_in_read_only_memory(&c, FLUXONKV_OP_GET, &key), -EFAULT);
	EQ(owner_counts(&owner).holders, 0);
	EQ(owner_counts(&owner).held_bytes, 0);
	EQ(owner_evict(&owner, "a", 7), FLUXONKV_QUIET);
	EQ(call_in_read_only_memory(&c, FLUXONKV_OP_PUT_BEGIN, &put),
	   -EFAULT);
	EQ(owner_counts(&owner).open_puts, 0);
	EQ(owner_heard_nr(&owner, FLUXONKV_MESSAGE_SHUT), 1);
}

/* Whole words are copied by words, where they lie as words do. */
static void call_may_lie_at_any_address(void)
{
	const struct item key = { .key = "a" };
	static u64 moved[64], back[64], id[2];
	struct fluxonkv_result res;
	struct fluxonkv_call call;
	struct client c;

	start(&c);
	EQ(owner_publish(&owner, "a", 0, PAGE, 7), 0);
	for (u32 i = 0; i < 8; i++) {
		call = one_call(FLUXONKV_OP_GET, &key);
		call.body = (uintptr_t)memcpy((u8 *)moved + i, body,
					      call.body_size);
		call.reply = (uintptr_t)back + (7 - i);
		call.release = (uintptr_t)id + i;
		call.nr_release = 1;
		EQ(ask(c.fd, FLUXONKV_IOC_CALL, &call), 0);
		EQ(call.released, i ? 1 : 0);
		memcpy(&res, (u8 *)back + (7 - i) +
		       sizeof(struct fluxonkv_rep), sizeof(res));
		EQ(res.status, 0);
		EQ(res.version, 7);
		memcpy((u8 *)id + i + 1, &res.id, sizeof(res.id));
		EQ(owner_counts(&owner).holders, 1);
	}
}

static u32 hits(struct fluxonkv_hit *at, u32 nr)
{
	struct fluxonkv_array a = {
		.size = sizeof(a),
		.at = (uintptr_t)at,
		.nr = nr,
		.stride = sizeof(*at),
	};

	EQ(ask(owner.fd, FLUXONKV_IOC_HITS, &a), 0);
	return a.done;
}

static void hits_are_told_once(void)
{
	struct fluxonkv_hit h[8];
	struct fluxonkv_result res;
	struct client c;
	u64 sum = 0;

	start(&c);
	EQ(hits(h, 8), 0);
	for (u64 i = 0; i < 4; i++) {
		char key[2] = { (char)('a' + i), 0 };

		EQ(owner_publish(&owner, key, i * PAGE, 1, 100 + i), 0);
		for (u64 j = 0; j <= i; j++)
			EQ(get(&c, key, &res), 0);
	}
	EQ(owner_retire(&owner, "a", 100), FLUXONKV_HELD);
	EQ(hits(h, 2) + hits(h + 2, 6), 3);
	for (u32 i = 0; i < 3; i++) {
		EQ(h[i].hits, h[i].cookie - 100 + 1);
		sum += h[i].hits;
	}
	EQ(sum, 9);
	EQ(hits(h, 8), 0);
	EQ(get(&c, "d", &res), 0);
	EQ(hits(h, 8), 1);
	EQ(h[0].cookie, 103);
	EQ(h[0].hits, 1);
}

static void lease(u64 until_ns)
{
	struct fluxonkv_lease l = { .size = sizeof(l), .until_ns = until_ns };

	EQ(ask(owner.fd, FLUXONKV_IOC_LEASE, &l), 0);
}

static u64 boot_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_BOOTTIME, &t);
	return (u64)t.tv_sec * SEC_NS + (u64)t.tv_nsec;
}

/* Without a lease each get is asked: the toy answers that there is none. */
static void strict_hits_need_a_lease(void)
{
	struct fluxonkv_result res;
	struct client c;

	owner.bind.flags = FLUXONKV_BIND_STRICT;
	start(&c);
	EQ(owner_publish(&owner, "k", 0, 10, 1), 0);
	EQ(get(&c, "k", &res), -ENOENT);
	lease(boot_ns() + 3600 * SEC_NS);
	EQ(get(&c, "k", &res), 0);
	EQ(release(&c, res.id), 0);
	lease(boot_ns() + SEC_NS / 2);
	sleep_ms(600);
	EQ(get(&c, "k", &res), -ENOENT);
	EQ(owner_counts(&owner).held_bytes, 0);
	lease(~0ULL);
	EQ(get(&c, "k", &res), 0);
	lease(0);
	EQ(get(&c, "k", &res), -ENOENT);
}

/* ---- caps ---- */

static void client_cap_counts_pages_of_holders_and_puts(void)
{
	struct fluxonkv_result res[5], put;
	struct item two[2] = { { .key = "a" }, { .key = "b" } };
	struct client c;

	owner.bind.client_cap_bytes = 4 * PAGE;
	start(&c);
	EQ(owner_publish(&owner, "a", 8 * MIB, PAGE + 1, 1), 0);
	EQ(owner_publish(&owner, "b", 9 * MIB, 1, 2), 0);
	EQ(get(&c, "a", &res[0]), 0);
	EQ(get(&c, "b", &res[1]), 0);
	EQ(get(&c, "a", &res[2]), -EDQUOT);
	EQ(get(&c, "b", &res[2]), 0);
	EQ(get(&c, "b", &res[3]), -EDQUOT);
	EQ(put_begin(&c, "p", 1, &put), -EDQUOT);
	EQ(put_copy(&c, "p", &put, 1), -EDQUOT);
	EQ(owner_counts(&owner).quota, 4);
	EQ(release(&c, res[0].id), 0);
	EQ(put_begin(&c, "p", PAGE + 1, &put), 0);
	EQ(get(&c, "b", &res[3]), -EDQUOT);
	EQ(put_commit(&c, put.id), 0);
	/* as many of a batch as it takes */
	EQ(release(&c, res[1].id), 0);
	EQ(get(&c, "b", &res[1]), 0);
	EQ(get(&c, "b", &res[0]), 0);
	EQ(call_many(c.fd, FLUXONKV_OP_GET, two, 2, res + 2), 0);
	EQ(res[2].status, -EDQUOT);
	EQ(res[3].status, 0);
	EQ(owner_counts(&owner).holders, 4);
}

static void uid_cap_counts_all_files_of_a_user(void)
{
	struct fluxonkv_result res;
	struct client c, other;
	pid_t pid;

	owner.bind.uid_cap_bytes = 2 * PAGE;
	start(&c);
	client_start(&other, NAME);
	EQ(owner_publish(&owner, "a", 0, PAGE, 1), 0);
	EQ(get(&c, "a", &res), 0);
	EQ(get(&other, "a", &res), 0);
	EQ(get(&other, "a", &res), -EDQUOT);
	EQ(get(&c, "a", &res), -EDQUOT);
	pid = spawn();
	if (!pid) {
		struct client third;

		CHECK(!seteuid(1234));
		CHECK(!seteuid(0));
		third.fd = client_node();
		CHECK(!seteuid(1234));
		EQ(attach(third.fd, NAME, &(struct fluxonkv_attach){}), 0);
		EQ(get(&third, "a", &res), 0);
		EQ(get(&third, "a", &res), 0);
		EQ(get(&third, "a", &res), -EDQUOT);
		_exit(0);
	}
	EQ(reap(pid), 0);
	client_stop(&other);
	EQ(get(&c, "a", &res), 0);
	EQ(get(&c, "a", &res), -EDQUOT);
}

/* ---- instances and clients ---- */

static void instances_are_apart(void)
{
	static struct owner second = { .slot = SLOT };
	struct fluxonkv_result res;
	struct fluxonkv_attach a;
	struct client c, other;
	int fd = client_node();

	owner_start(&owner, "one", SEGMENT);
	EQ(attach(fd, "", &a), 0);
	CHECK(!strcmp(a.name, "one"));
	owner_serve(&owner);
	owner_start(&second, "two", 2 * MIB);
	owner_serve(&second);
	EQ(pinned(), SEGMENT + 2 * MIB);
	EQ(attach(client_node(), "", &a), -EADDRNOTAVAIL);
	client_start(&c, "one");
	client_start(&other, "two");
	EQ(other.bytes, 2 * MIB);
	EQ(owner_publish(&owner, "k", 0, 10, 1), 0);
	EQ(get(&c, "k", &res), 0);
	EQ(get(&other, "k", &res), -ENOENT);
	EQ(owner_counts(&second).clients, 1);
	EQ(owner_counts(&owner).clients, 2);
	EQ(owner_shut(&second, c.id, 1), -ENOENT);
}

static void clients_have_a_limit(void)
{
	struct fluxonkv_attach a;
	struct client c, other;
	int fd = client_node();

	owner.bind.clients_max = 2;
	start(&c);
	client_start(&other, NAME);
	EQ(attach(fd, NAME, &a), -EUSERS);
	client_stop(&other);
	EQ(attach(fd, NAME, &a), 0);
}

static void stopped_owner_takes_no_client(void)
{
	struct fluxonkv_attach a;
	struct fluxonkv_result res;
	struct client c;

	start(&c);
	EQ(owner_publish(&owner, "k", 0, 10, 1), 0);
	EQ(ask(owner.fd, FLUXONKV_IOC_STOP, NULL), 0);
	EQ(attach(client_node(), NAME, &a), -EADDRNOTAVAIL);
	EQ(attach(client_node(), "", &a), -EADDRNOTAVAIL);
	EQ(get(&c, "k", &res), 0);
}

static void coming_and_going_is_told_in_order(void)
{
	struct client c;
	u32 n;

	owner_start(&owner, NAME, SEGMENT);
	owner_serve(&owner);
	for (u32 i = 0; i < 50; i++) {
		client_start(&c, NAME);
		client_stop(&c);
		CHECK(owner_heard(&owner, FLUXONKV_MESSAGE_GONE, c.id, 0,
				  5000));
	}
	n = owner.nr_heard;
	EQ(n, 100);
	for (u32 i = 0; i < n; i += 2) {
		EQ(owner.heard[i].type, FLUXONKV_MESSAGE_CLIENT);
		EQ(owner.heard[i + 1].type, FLUXONKV_MESSAGE_GONE);
		EQ(owner.heard[i].client, owner.heard[i + 1].client);
	}
	EQ(owner_counts(&owner).clients, 0);
}

/* More than a table's first blocks; the ids of a second round are others. */
static void many_holders_have_ids_of_their_own(void)
{
	const u32 n = full_run() ? 200000 : 20000;
	u64 *ids = malloc(n * sizeof(*ids));
	struct fluxonkv_result res;
	struct client c;

	start(&c);
	EQ(owner_publish(&owner, "k", 0, 0, 1), 0);
	for (u32 i = 0; i < n; i++) {
		EQ(get(&c, "k", &res), 0);
		ids[i] = res.id;
	}
	EQ(owner_counts(&owner).holders, n);
	for (u32 i = 0; i < n; i++)
		EQ(release(&c, ids[i]), 0);
	for (u32 i = 0; i < n; i++) {
		EQ(get(&c, "k", &res), 0);
		if (i % 2)
			EQ(release(&c, res.id), 0);
	}
	for (u32 i = 0; i < n; i++)
		EQ(release(&c, ids[i]), -EINVAL);
	EQ(owner_counts(&owner).holders, n / 2);
}

int main(int argc, char **argv)
{
	static const struct test tests[] = {
		TEST(put_in_place_is_read_back),
		TEST(put_by_copy_is_read_back),
		TEST(replaced_versions_stay_while_held),
		TEST(commit_can_hold_in_one_step),
		TEST(put_ends_once),
		TEST(batches_answer_each_item),
		TEST(holders_are_of_one_open_file),
		TEST(overlapping_extents_are_refused),
		TEST(retired_extent_is_free_when_quiet),
		TEST(evict_spares_what_is_held),
		TEST(held_version_is_told),
		TEST(call_that_cannot_be_told_is_taken_back),
		TEST(call_may_lie_at_any_address),
		TEST(hits_are_told_once),
		TEST(strict_hits_need_a_lease),
		TEST(client_cap_counts_pages_of_holders_and_puts),
		TEST(uid_cap_counts_all_files_of_a_user),
		TEST(instances_are_apart),
		TEST(clients_have_a_limit),
		TEST(stopped_owner_takes_no_client),
		TEST(coming_and_going_is_told_in_order),
		TEST(many_holders_have_ids_of_their_own),
	};

	return TESTS_RUN(tests, argc, argv);
}
