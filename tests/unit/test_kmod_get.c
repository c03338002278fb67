// SPDX-License-Identifier: Apache-2.0
/*
 * test_kmod_get.c - a whole GET: hits, answers, and many threads of them
 */
#include <check.h>

#include "gets.h"

static int get_two_of_four(struct fkv_work *w)
{
	rq_begin(sizeof(struct fluxonkv_item));
	rq_add_key(1);
	rq_add_key(50);
	rq_add_key(2);
	rq_add_key(51);
	rq_open(0, w);
	return fkv_call_get(w);
}

static void says(int err, bool no_parts)
{
	memset(&rq_daemon, 0, sizeof(rq_daemon));
	rq_daemon.err = err;
	rq_daemon.no_parts = no_parts;
}

/* U4, U5 */
START_TEST(get_that_fails_as_a_whole_holds_nothing)
{
	struct fkv_work w;

	says(-EINTR, false);
	ck_assert_int_eq(get_two_of_four(&w), -EINTR);
	ck_assert_uint_eq(rq_daemon.nr_asked, 2);
	says(-ENOTCONN, false);
	ck_assert_int_eq(get_two_of_four(&w), -ENOTCONN);
	says(0, true);
	ck_assert_int_eq(get_two_of_four(&w), -ENOMEM);
	/* its index is not served, also where nothing is asked */
	says(0, false);
	world.inst.dead = true;
	ck_assert_int_eq(get_two_of_four(&w), -ENOTCONN);
	ck_assert_uint_eq(rq_daemon.nr_asked, 0);
	world.inst.dead = false;
	ck_assert_uint_eq(nr_holders(0), 0);
	ck_assert_uint_eq(pinned_pages(0), 0);
	ck_assert_uint_eq(held_pages(), 0);
	ck_assert_int_eq(atomic64_read(&world.inst.nr_hits), 0);
}
END_TEST

/* K5 */
START_TEST(hits_remain_when_the_daemon_is_late)
{
	struct fkv_work w;

	says(-ETIMEDOUT, false);
	ck_assert_int_eq(get_two_of_four(&w), 0);
	expect_hit(0, 1);
	expect_status(1, -ETIMEDOUT);
	expect_hit(2, 2);
	expect_status(3, -ETIMEDOUT);
	ck_assert_int_eq(atomic64_read(&world.inst.nr_hits), 2);
	ck_assert_int_eq(atomic64_read(&world.inst.hit_bytes), 3 * PAGE_SIZE);
	ck_assert_int_eq(atomic64_read(&world.inst.misses), 2);
	fkv_work_drop(&w);
	release_all(0, 4);
}
END_TEST

static struct fkv_request *answer_of(u64 page, u64 pages)
{
	struct fkv_request *req = calloc(1, sizeof(*req) +
					 2 * sizeof(req->given[0]));
	struct fkv_given *g = req->given;
	int err;

	g[0].res.status = -ENOENT;
	g[1].entry = fake_given(&world, 77, page, pages, &err);
	g[1].release = fkv_release_create(100, 9);
	g[1].res = (struct fluxonkv_result){ .version = 77, .id = 9,
					     .len = pages * PAGE_SIZE };
	return req;
}

/* H4 */
START_TEST(answers_become_holders_beside_the_hits)
{
	struct fluxonkv_message m;
	struct fkv_work w;

	for (u32 i = 0; i < 3; i++) {
		/* 1: over the cap; 2: without a slot */
		world.inst.client_cap = i == 1 ? 3 * PAGE_SIZE : 0;
		says(0, false);
		rq_daemon.req = answer_of(0, 2);
		rq_daemon.other_takes_slot = i == 2;
		while (i == 2 && nr_holders(0) < RQ_SLOTS - 3)
			fake_hold(&world, 0, "k04", NULL);
		if (i == 2)
			shim_alloc_fail = rq_no_memory;
		ck_assert_int_eq(get_two_of_four(&w), 0);
		shim_alloc_fail = NULL;
		expect_hit(0, 1);
		expect_hit(2, 2);
		expect_status(1, -ENOENT);
		if (i)
			expect_status(3, i == 1 ? -EDQUOT : -ENOMEM);
		else
			ck_assert(!rq_res[3].status && rq_res[3].id);
		/* k04 has no bytes */
		ck_assert_uint_eq(pinned_pages(0), i ? 3 : 5);
		fkv_work_drop(&w);
		free(rq_daemon.req);
		if (i < 2)
			release_all(0, 4);
		ck_assert(fake_take(&world, &m));
		ck_assert_uint_eq(m.type, FLUXONKV_MESSAGE_RELEASED);
		ck_assert(!fake_take(&world, &m));
	}
}
END_TEST

/* ---- threads ---- */

#define PAGES		24u	/* few, so that reuse comes at once */
#define WORDS		64u
#define LIVES		3000u	/* of versions */
#define CLIENT_CAP	20u
#define UID_CAP		45u

static u64 memory[PAGES][WORDS];
static bool stop;
static u64 last_id, hits, refused, guessed;

/* A version fills its page with its number: plain stores, as programs do. */
static void check_hits(u32 nr)
{
	for (u32 i = 0; i < nr; i++) {
		const struct fluxonkv_result *res = &rq_res[i];
		const u64 *page = memory[res->offset / PAGE_SIZE];

		shim_assert(res->status == -EDQUOT || res->status == FKV_ASK ||
			    (!res->status && res->id));
		for (u32 k = 0; !res->status && k < WORDS; k++)
			shim_assert(page[k] == res->version);
	}
}

/* Who gets batches in session 0 alone has what it got until it releases it. */
static void *gets(void *arg)
{
	uintptr_t who = (uintptr_t)arg;
	u64 state = 99 + who;
	bool alone = who < 2;
	struct fkv_work w;

	while (!READ_ONCE(stop)) {
		u32 nr = 1 + (u32)(fake_random(&state) >> 8) % 70;

		rq_begin(sizeof(struct fluxonkv_item));
		for (u32 i = 0; i < nr; i++)
			rq_add_key((u32)(fake_random(&state) >> 8) % RQ_KEYS);
		shim_assert(!rq_hits(!alone, &w));
		if (alone)
			check_hits(nr);
		for (u32 i = 0; i < nr; i++) {
			u32 ended = 0;

			if (!rq_res[i].status)
				ended = fkv_holder_del(w.s, &rq_res[i].id, 1);
			if (!rq_res[i].status && !alone)
				WRITE_ONCE(last_id, rq_res[i].id);
			shim_assert(ended || !alone || rq_res[i].status);
			__atomic_fetch_add(&refused,
					   rq_res[i].status == -EDQUOT,
					   __ATOMIC_RELAXED);
		}
		__atomic_fetch_add(&hits, w.hits, __ATOMIC_RELAXED);
	}
	return NULL;
}

/* Ids of holders that are not told yet, or never. */
static void *guesses(void *arg)
{
	u64 ids[64], n = 0;

	while (!READ_ONCE(stop)) {
		u64 id = READ_ONCE(last_id), uses = id >> 32;

		for (u32 i = 0; i < 64; i++)
			ids[i] = (uses + i / 16) << 32 | (1 + i % 16);
		n += fkv_holder_del(arg, ids, 64);
	}
	guessed = n;
	return NULL;
}

static u64 version_of[RQ_KEYS];		/* put_id, 0 */
static bool used[PAGES];

static void owner_step(u64 *state, u64 *next_id)
{
	u32 r = (u32)(fake_random(state) >> 8), key = r % RQ_KEYS;
	u32 page = (r >> 8) % PAGES;
	struct fluxonkv_message m;
	char word[8];
	int ret;

	rq_name(word, key);
	if (version_of[key]) {
		ret = r >> 16 & 1 ? fake_evict(&world, word, version_of[key]) :
			fake_retire(&world, word, version_of[key]);
		if (ret == FLUXONKV_QUIET)
			used[version_of[key] % PAGES] = false;
		if (ret != -EBUSY)
			version_of[key] = 0;
	} else if (!used[page]) {
		/* tells its page */
		version_of[key] = ++*next_id * PAGES + page;
		used[page] = true;
		for (u32 i = 0; i < WORDS; i++)
			memory[page][i] = version_of[key];
		shim_assert(!fake_publish(&world, word, version_of[key], page,
					  1));
	}
	while (fake_take(&world, &m))
		used[m.cookie % PAGES] = false;
	shim_rcu_flush();
}

/* Never more, not for a moment. */
static void check_caps(void)
{
	for (u32 i = 0; i < 2; i++)
		ck_assert_uint_le(pinned_pages(i), CLIENT_CAP);
	ck_assert_int_le(atomic64_read(&world.uid.pinned),
			 (long)(UID_CAP * PAGE_SIZE));
}

/* H1, H2, H4 */
START_TEST(threads_get_while_versions_come_and_go)
{
	u64 state = 7, next_id = 0;
	pthread_t t[5];

	world.inst.client_cap = CLIENT_CAP * PAGE_SIZE;
	world.inst.uid_cap = UID_CAP * PAGE_SIZE;
	for (uintptr_t i = 0; i < 4; i++)
		pthread_create(&t[i], NULL, gets, (void *)i);
	pthread_create(&t[4], NULL, guesses, &world.sessions[1]);
	while (next_id < LIVES || READ_ONCE(refused) < 100) {
		owner_step(&state, &next_id);
		check_caps();
	}
	WRITE_ONCE(stop, true);
	for (u32 i = 0; i < 5; i++)
		pthread_join(t[i], NULL);
	ck_assert_uint_gt(hits, LIVES);
	ck_assert_uint_gt(guessed, 0);
	ck_assert_uint_eq(nr_holders(0), 0);
	ck_assert_uint_eq(nr_holders(1), 0);
	ck_assert_int_eq(atomic64_read(&world.uid.pinned), 0);
}
END_TEST

static void empty_setup(void)
{
	ck_assert_int_eq(fake_up(&world), 0);
}

static TCase *add_case(Suite *s, const char *of, SFun up)
{
	TCase *tc = tcase_create(of);

	tcase_add_checked_fixture(tc, up, rq_down);
	tcase_set_timeout(tc, 120);
	suite_add_tcase(s, tc);
	return tc;
}

int main(void)
{
	Suite *s = suite_create("kmod_get");
	TCase *tc = add_case(s, "get", rq_up);
	SRunner *sr;
	int failed;

	tcase_add_test(tc, get_that_fails_as_a_whole_holds_nothing);
	tcase_add_test(tc, hits_remain_when_the_daemon_is_late);
	tcase_add_test(tc, answers_become_holders_beside_the_hits);
	tcase_add_test(add_case(s, "threads", empty_setup),
		       threads_get_while_versions_come_and_go);
	sr = srunner_create(s);
	srunner_run_all(sr, CK_NORMAL);
	failed = srunner_ntests_failed(sr);
	srunner_free(sr);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
