// SPDX-License-Identifier: GPL-2.0-only
/*
 * kunit.c - tests of the module's parts in a kernel, with its real tables
 *
 * They run at insmod where KUnit is built in (Kbuild), which is in kernels for
 * debugging only. An instance of theirs has no memory behind its segment.
 */
#include <kunit/test.h>
#include <linux/random.h>

#include "index.h"

#define PAGES	4096u
#define KEYS	3000u		/* so that the table grows and shrinks */
#define CLIENT	77

struct world {
	struct fkv_instance inst;
	struct fkv_uid uid;
	struct fkv_session s;
};

static struct world *world_up(struct kunit *test)
{
	struct world *w = kunit_kzalloc(test, sizeof(*w), GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, w);
	KUNIT_ASSERT_EQ(test, fkv_index_init(&w->inst), 0);
	fkv_queue_init(&w->inst.queue);
	mutex_init(&w->inst.sessions_lock);
	INIT_LIST_HEAD(&w->inst.sessions);
	spin_lock_init(&w->inst.seg.lock);
	w->inst.seg.extents = RB_ROOT;
	w->inst.seg.bytes = PAGES * PAGE_SIZE;
	w->s.inst = &w->inst;
	w->s.uid = &w->uid;
	w->s.id = CLIENT;
	fkv_holders_init(&w->s.holders);
	INIT_LIST_HEAD(&w->s.requests);
	INIT_LIST_HEAD(&w->s.active);
	return w;
}

static void world_down(struct kunit *test, struct world *w)
{
	fkv_holder_del_all(&w->s);
	fkv_holders_done(&w->s.holders);
	fkv_index_empty(&w->inst);
	fkv_queue_close(&w->inst);
	fkv_index_done(&w->inst);
	KUNIT_EXPECT_EQ(test, atomic64_read(&w->s.pinned), 0);
	KUNIT_EXPECT_EQ(test, atomic64_read(&w->uid.pinned), 0);
	KUNIT_EXPECT_EQ(test, atomic64_read(&w->inst.entries), 0);
	KUNIT_EXPECT_EQ(test, atomic64_read(&w->inst.retired), 0);
	KUNIT_EXPECT_EQ(test, atomic64_read(&w->inst.held_bytes), 0);
	KUNIT_EXPECT_TRUE(test, RB_EMPTY_ROOT(&w->inst.seg.extents));
	KUNIT_EXPECT_EQ(test, w->inst.queue.nr, 0u);
	/* its memory goes with the test, what is freed late before it */
	rcu_barrier();
}

/* ---- extents, against a byte for each page ---- */

static u8 first_owner(const u8 *pages, u64 first, u64 last)
{
	for (u64 p = first; p <= last; p++)
		if (pages[p])
			return pages[p];
	return 0;
}

static void extents_never_overlap(struct kunit *test)
{
	struct fkv_extent *exts = kunit_kcalloc(test, 64, sizeof(*exts),
						GFP_KERNEL);
	u8 *pages = kunit_kzalloc(test, 128, GFP_KERNEL);
	struct rb_root root = RB_ROOT;

	KUNIT_ASSERT_NOT_NULL(test, exts);
	KUNIT_ASSERT_NOT_NULL(test, pages);
	for (u32 i = 0; i < 20000; i++) {
		struct fkv_extent *e = &exts[get_random_u32() % 64];
		u64 first = get_random_u32() % 120;
		u64 last = first + get_random_u32() % 8;
		u8 who = first_owner(pages, first, last);
		struct fkv_extent *found = fkv_extent_find(&root, first, last);

		KUNIT_ASSERT_PTR_EQ(test, found, who ? &exts[who - 1] : NULL);
		if (e->added) {
			memset(pages + e->first, 0, e->last - e->first + 1);
			fkv_extent_del(&root, e);
			continue;
		}
		e->first = first;
		e->last = last;
		KUNIT_ASSERT_EQ(test, fkv_extent_add(&root, e),
				who ? -EBUSY : 0);
		if (!who)
			memset(pages + first, e - exts + 1, last - first + 1);
	}
}

/* ---- bodies ---- */

static void body_of_random_bytes_is_read_inside(struct kunit *test)
{
	/* KASAN sees the byte behind it */
	u8 *body = kunit_kzalloc(test, 256, GFP_KERNEL);
	u8 *at = body + 256 - 200;

	KUNIT_ASSERT_NOT_NULL(test, body);
	for (u32 i = 0; i < 20000; i++) {
		struct fluxonkv_req *req = (void *)at;
		struct fluxonkv_item it;
		struct fkv_cursor c;
		const void *key;
		int status;

		memset(at, 0, 200);
		req->size = sizeof(*req);
		req->op = 2 + get_random_u32() % 12;
		req->item_size = sizeof(it);
		req->nr = 1 + get_random_u32() % 4;
		at[get_random_u32() % 200] = get_random_u32();
		at[sizeof(*req)] = get_random_u32() % 64;
		if (fkv_body_open(at, 200, req, &c))
			continue;
		while (!fkv_body_next(&c, &it, &key, &status))
			KUNIT_ASSERT_TRUE(test, key <= (void *)at + 200);
	}
}

/* ---- index ---- */

static int publish(struct world *w, u32 i)
{
	u64 key[2] = { i, ~(u64)i };
	struct fluxonkv_entry arg = {
		.key_len = sizeof(key),
		.put_id = i + 1,
		.offset = i * PAGE_SIZE,
		.len = 100,
		.cookie = i + 1,
	};

	return fkv_index_publish(&w->inst, &arg, key);
}

static struct fkv_entry *get(struct world *w, u32 i)
{
	u64 key[2] = { i, ~(u64)i };
	struct fkv_probe probe = { .key = key, .len = sizeof(key) };
	struct fkv_entry *e;
	u64 held = 0;

	rcu_read_lock();
	e = fkv_index_get(&w->inst, &probe, &held);
	rcu_read_unlock();
	atomic64_add(held, &w->inst.held_bytes);
	return e;
}

static int retire(struct world *w, u32 i)
{
	u64 key[2] = { i, ~(u64)i };

	return fkv_index_retire(&w->inst, key, sizeof(key), i + 1);
}

static int evict(struct world *w, u32 i)
{
	u64 key[2] = { i, ~(u64)i };

	return fkv_index_evict(&w->inst, key, sizeof(key), i + 1);
}

static u32 nr_messages(struct world *w)
{
	struct fkv_message *m;
	u32 n = 0;

	list_for_each_entry(m, &w->inst.queue.messages, link)
		n++;
	return n;
}

static void index_finds_what_is_published(struct kunit *test)
{
	struct world *w = world_up(test);

	for (u32 i = 0; i < KEYS; i++)
		KUNIT_ASSERT_EQ(test, publish(w, i), 0);
	KUNIT_EXPECT_EQ(test, publish(w, 7), -EBUSY);
	for (u32 i = 0; i < KEYS; i++) {
		struct fkv_entry *e = get(w, i);

		KUNIT_ASSERT_NOT_NULL(test, e);
		KUNIT_EXPECT_EQ(test, e->put_id, (u64)i + 1);
		fkv_index_hit(e);
		fkv_entry_put(e);
	}
	KUNIT_EXPECT_NULL(test, get(w, KEYS));
	world_down(test, w);
}

static void index_of_a_dead_owner_is_empty(struct kunit *test)
{
	struct world *w = world_up(test);
	struct fkv_entry *held;

	for (u32 i = 0; i < KEYS; i++)
		KUNIT_ASSERT_EQ(test, publish(w, i), 0);
	held = get(w, 5);
	KUNIT_ASSERT_NOT_NULL(test, held);
	fkv_index_empty(&w->inst);
	KUNIT_EXPECT_EQ(test, atomic64_read(&w->inst.entries), 0);
	for (u32 i = 0; i < KEYS; i++)
		KUNIT_ASSERT_EQ(test,
				!fkv_extent_find(&w->inst.seg.extents, i, i),
				i != 5);
	fkv_entry_put(held);
	KUNIT_EXPECT_TRUE(test, RB_EMPTY_ROOT(&w->inst.seg.extents));
	KUNIT_EXPECT_EQ(test, nr_messages(w), 0u);
	world_down(test, w);
}

static void version_is_quiet_once_its_reader_left(struct kunit *test)
{
	struct world *w = world_up(test);

	for (u32 i = 0; i < KEYS; i++) {
		struct fkv_entry *e;

		KUNIT_ASSERT_EQ(test, publish(w, i), 0);
		e = get(w, i);
		KUNIT_ASSERT_NOT_NULL(test, e);
		KUNIT_EXPECT_EQ(test, evict(w, i), -EBUSY);
		if (i % 2) {
			KUNIT_EXPECT_EQ(test, retire(w, i), FLUXONKV_HELD);
			KUNIT_EXPECT_NULL(test, get(w, i));
			fkv_entry_put(e);
			KUNIT_EXPECT_EQ(test, retire(w, i), -ENOENT);
			continue;
		}
		fkv_entry_put(e);
		KUNIT_EXPECT_EQ(test, i % 4 ? evict(w, i) : retire(w, i),
				FLUXONKV_QUIET);
	}
	KUNIT_EXPECT_EQ(test, nr_messages(w), KEYS / 2);
	KUNIT_EXPECT_TRUE(test, RB_EMPTY_ROOT(&w->inst.seg.extents));
	world_down(test, w);
}

static void reply_gives_one_entry_for_the_same_bytes(struct kunit *test)
{
	struct world *w = world_up(test);
	struct fluxonkv_result res = { .version = 8, .offset = 7 * PAGE_SIZE,
				       .len = 100, .id = 1 };
	struct fkv_entry *a, *b;
	int err;

	KUNIT_ASSERT_EQ(test, publish(w, 7), 0);
	a = fkv_entry_given(&w->inst, &res, &err);
	b = get(w, 7);
	KUNIT_ASSERT_NOT_NULL(test, a);
	KUNIT_EXPECT_PTR_EQ(test, a, b);
	res.version = 9;
	KUNIT_EXPECT_NULL(test, fkv_entry_given(&w->inst, &res, &err));
	KUNIT_EXPECT_EQ(test, err, -EBUSY);
	fkv_entry_put(a);
	fkv_entry_put(b);
	world_down(test, w);
}

/* ---- holders ---- */

static void holders_end_once(struct kunit *test)
{
	struct world *w = world_up(test);
	u64 *ids = kunit_kcalloc(test, KEYS, sizeof(*ids), GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, ids);
	KUNIT_ASSERT_EQ(test, publish(w, 0), 0);
	for (u32 i = 0; i < KEYS; i++) {
		struct fkv_new_holder new = {
			.entry = get(w, 0),
			.ret_id = &ids[i],
		};

		if (i % 2)
			new.release = fkv_release_create(CLIENT, i);
		KUNIT_ASSERT_TRUE(test, fkv_charge(&w->s, PAGE_SIZE));
		fkv_holder_add(&w->s, &new, 1);
		KUNIT_ASSERT_NE(test, ids[i], 0ull);
	}
	KUNIT_EXPECT_EQ(test, fkv_holder_del(&w->s, ids, 1000), 1000u);
	KUNIT_EXPECT_EQ(test, fkv_holder_del(&w->s, ids, 1000), 0u);
	KUNIT_EXPECT_EQ(test, nr_messages(w), 500u);
	KUNIT_EXPECT_EQ(test, (u64)atomic64_read(&w->s.pinned),
			(KEYS - 1000) * PAGE_SIZE);
	world_down(test, w);
}

/* ---- queue ---- */

static void request_that_nobody_answers_times_out(struct kunit *test)
{
	struct world *w = world_up(test);
	struct fkv_request *req = fkv_request_create(&w->s, FLUXONKV_OP_GET,
						     3);

	KUNIT_ASSERT_NOT_NULL(test, req);
	KUNIT_EXPECT_EQ(test, fkv_request_run(req, NSEC_PER_MSEC),
			-ETIMEDOUT);
	KUNIT_EXPECT_EQ(test, w->s.nr_requests, 0u);
	KUNIT_EXPECT_NULL(test, fkv_request_claim(&w->inst, req->cookie));
	fkv_request_finish(req);
	world_down(test, w);
}

static void request_to_a_dead_owner_fails(struct kunit *test)
{
	struct world *w = world_up(test);
	struct fkv_request *req;

	fkv_queue_close(&w->inst);
	req = fkv_request_create(&w->s, FLUXONKV_OP_GET, 1);
	KUNIT_ASSERT_NOT_NULL(test, req);
	KUNIT_EXPECT_EQ(test, fkv_request_run(req, NSEC_PER_SEC), -ENOTCONN);
	fkv_request_finish(req);
	world_down(test, w);
}

static void messages_of_a_dead_owner_end(struct kunit *test)
{
	struct world *w = world_up(test);

	fkv_release_send(&w->inst, fkv_release_create(CLIENT, 1));
	fkv_release_send(&w->inst, fkv_release_create(CLIENT, 2));
	KUNIT_EXPECT_EQ(test, nr_messages(w), 2u);
	fkv_queue_close(&w->inst);
	KUNIT_EXPECT_EQ(test, nr_messages(w), 0u);
	fkv_release_send(&w->inst, fkv_release_create(CLIENT, 3));
	KUNIT_EXPECT_EQ(test, nr_messages(w), 0u);
	world_down(test, w);
}

static struct kunit_case cases[] = {
	KUNIT_CASE(extents_never_overlap),
	KUNIT_CASE(body_of_random_bytes_is_read_inside),
	KUNIT_CASE(index_finds_what_is_published),
	KUNIT_CASE(index_of_a_dead_owner_is_empty),
	KUNIT_CASE(version_is_quiet_once_its_reader_left),
	KUNIT_CASE(reply_gives_one_entry_for_the_same_bytes),
	KUNIT_CASE(holders_end_once),
	KUNIT_CASE(request_that_nobody_answers_times_out),
	KUNIT_CASE(request_to_a_dead_owner_fails),
	KUNIT_CASE(messages_of_a_dead_owner_end),
	{}
};

static struct kunit_suite suite = {
	.name = "fluxonkv",
	.test_cases = cases,
};

kunit_test_suite(suite);
