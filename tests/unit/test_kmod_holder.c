// SPDX-License-Identifier: Apache-2.0
#include <check.h>

#include "fake.h"

#define SLOTS		128u	/* of a block */
#define BLOCKS		8u	/* that the first array has room for */
#define THREADS		4u
#define ROUNDS		3000u

static struct fake f;

static void setup(void)
{
	ck_assert_int_eq(fake_up(&f), 0);
	shim_now_ns = 1000;
	ck_assert_int_eq(fake_publish(&f, "a", 1, 0, 1), 0);
	ck_assert_int_eq(fake_publish(&f, "b", 2, 1, 3), 0);
}

static void teardown(void)
{
	shim_alloc_fail = NULL;
	fake_down(&f);
}

static struct fkv_session *session(u32 i)
{
	return &f.sessions[i];
}

static u64 pinned_pages(u32 i)
{
	return (u64)atomic64_read(&session(i)->pinned) / PAGE_SIZE;
}

static u32 del(u32 i, u64 id)
{
	return fkv_holder_del(session(i), &id, 1);
}

static u32 hash_of(const char *key)
{
	struct fkv_entry *e = fake_get(&f, key);
	u32 hash = e->hash;

	fkv_entry_put(e);
	return hash;
}

/* ---- charges ---- */

/* H4 */
START_TEST(charge_over_the_cap_changes_nothing)
{
	f.inst.client_cap = 3 * PAGE_SIZE;
	ck_assert(fkv_charge(session(0), 3 * PAGE_SIZE));
	ck_assert(!fkv_charge(session(0), 1));
	ck_assert_uint_eq(pinned_pages(0), 3);
	ck_assert_uint_eq(f.uid.pinned.counter, 3 * PAGE_SIZE);
	ck_assert(fkv_charge(session(1), 3 * PAGE_SIZE));
	fkv_uncharge(session(0), PAGE_SIZE);
	ck_assert(fkv_charge(session(0), PAGE_SIZE));
	fkv_uncharge(session(0), 3 * PAGE_SIZE);
	fkv_uncharge(session(1), 3 * PAGE_SIZE);
}
END_TEST

/* H4 */
START_TEST(sessions_of_a_user_share_its_cap)
{
	f.inst.uid_cap = 5 * PAGE_SIZE;
	ck_assert(fkv_charge(session(0), 3 * PAGE_SIZE));
	ck_assert(!fkv_charge(session(1), 3 * PAGE_SIZE));
	ck_assert_uint_eq(pinned_pages(1), 0);
	ck_assert(fkv_charge(session(1), 2 * PAGE_SIZE));
	ck_assert_uint_eq(f.uid.pinned.counter, 5 * PAGE_SIZE);
	fkv_uncharge(session(0), 3 * PAGE_SIZE);
	fkv_uncharge(session(1), 2 * PAGE_SIZE);
}
END_TEST

static void *asks_too_much(void *arg)
{
	while (!READ_ONCE(*(bool *)arg))
		shim_assert(!fkv_charge(session(1), 5 * PAGE_SIZE));
	return NULL;
}

/* H4: not even while it is refused */
START_TEST(refused_charge_takes_no_room_of_others)
{
	bool stop = false;
	pthread_t t;

	f.inst.uid_cap = 5 * PAGE_SIZE;
	ck_assert(fkv_charge(session(0), PAGE_SIZE));
	pthread_create(&t, NULL, asks_too_much, &stop);
	for (u32 i = 0; i < 100 * ROUNDS; i++) {
		ck_assert(fkv_charge(session(0), PAGE_SIZE));
		fkv_uncharge(session(0), PAGE_SIZE);
	}
	WRITE_ONCE(stop, true);
	pthread_join(t, NULL);
	fkv_uncharge(session(0), PAGE_SIZE);
	ck_assert_int_eq(f.uid.pinned.counter, 0);
}
END_TEST

/* H4 */
START_TEST(charge_is_given_back_when_the_holder_ends)
{
	u64 a = fake_hold(&f, 0, "a", NULL), b = fake_hold(&f, 0, "b", NULL);

	ck_assert_uint_eq(pinned_pages(0), 4);
	ck_assert_uint_eq(del(0, b), 1);
	ck_assert_uint_eq(pinned_pages(0), 1);
	ck_assert_uint_eq(del(0, b), 0);
	ck_assert_uint_eq(pinned_pages(0), 1);
	ck_assert_uint_eq(del(0, a), 1);
	ck_assert_uint_eq(pinned_pages(0), 0);
	ck_assert_uint_eq(f.uid.pinned.counter, 0);
}
END_TEST

/* ---- ids ---- */

/* H1, H2 */
START_TEST(id_of_an_ended_holder_is_no_holder)
{
	u64 old = fake_hold(&f, 0, "a", NULL), id;

	ck_assert_uint_eq(del(0, old), 1);
	for (u32 i = 0; i < 1000; i++) {
		id = fake_hold(&f, 0, "b", NULL);
		/* the slot is the same one, and the id is not */
		ck_assert_uint_eq((u32)id, (u32)old);
		ck_assert_uint_ne(id, old);
		ck_assert_uint_eq(del(0, old), 0);
		ck_assert_uint_eq(session(0)->holders.nr, 1);
		ck_assert_uint_eq(del(0, id), 1);
		old = id;
	}
}
END_TEST

/* U6 */
START_TEST(id_that_never_was_is_no_holder)
{
	u64 id = fake_hold(&f, 0, "a", NULL);

	ck_assert_uint_eq(del(0, 0), 0);
	ck_assert_uint_eq(del(0, id & UINT32_MAX), 0);
	ck_assert_uint_eq(del(0, id + 1), 0);
	ck_assert_uint_eq(del(0, id + SLOTS), 0);
	ck_assert_uint_eq(del(0, (id >> 32 << 32) | SLOTS), 0);
	ck_assert_uint_eq(del(0, (id >> 32 << 32) | (SLOTS + 1)), 0);
	ck_assert_uint_eq(del(0, UINT64_MAX), 0);
	ck_assert_uint_eq(del(0, id ^ 1ULL << 63), 0);
	ck_assert_uint_eq(session(0)->holders.nr, 1);
}
END_TEST

/* U5 */
START_TEST(holder_of_another_session_is_none_here)
{
	u64 id = fake_hold(&f, 0, "a", NULL);

	ck_assert_uint_eq(del(1, id), 0);
	ck_assert_uint_eq(session(0)->holders.nr, 1);
	fake_hold(&f, 1, "b", NULL);
	fkv_holder_del_all(session(1));
	ck_assert_uint_eq(pinned_pages(0), 1);
	ck_assert_uint_eq(del(0, id), 1);
}
END_TEST

/* U4 */
START_TEST(release_of_many_ends_those_that_are_holders)
{
	u64 ids[100];

	for (u32 i = 0; i < 100; i++)
		ids[i] = i % 3 ? fake_hold(&f, 0, "a", NULL) : i;
	/* and twice the same one */
	ids[99] = ids[98];
	ck_assert_uint_eq(session(0)->holders.nr, 66);
	ck_assert_uint_eq(fkv_holder_del(session(0), ids, 100), 66);
	ck_assert_uint_eq(fkv_holder_del(session(0), ids, 100), 0);
	ck_assert_uint_eq(fkv_holder_del(session(0), NULL, 0), 0);
	ck_assert_uint_eq(session(0)->holders.nr, 0);
	ck_assert_int_eq(atomic64_read(&f.inst.held_bytes), 0);
}
END_TEST

/* ---- the table ---- */

/* U7 */
START_TEST(dump_tells_each_holder_once)
{
	enum { N = SLOTS * (BLOCKS * 2 + 1) };
	static u64 ids[N];
	static u8 seen[2 * N];
	struct fkv_told h;
	u32 at = 0, n = 0;

	ck_assert(!fkv_holder_next(session(0), &at, &h));
	for (u32 i = 0; i < N; i++) {
		shim_now_ns = 1000 + i;
		ids[i] = fake_hold(&f, 0, i % 2 ? "a" : "b", NULL);
		ck_assert_uint_ne(ids[i], 0);
	}
	for (u32 i = 0; i < N; i += 3)
		ck_assert_uint_eq(del(0, ids[i]), 1);
	for (at = 0; fkv_holder_next(session(0), &at, &h); n++) {
		u32 i = (u32)(h.since_ns - 1000);

		ck_assert(!seen[(u32)h.id - 1]++);
		ck_assert(i < N && i % 3);
		ck_assert_uint_eq(h.id, ids[i]);
		ck_assert_uint_eq(h.put_id, i % 2 ? 1 : 2);
		ck_assert_uint_eq(h.len, (i % 2 ? 1 : 3) * PAGE_SIZE);
		ck_assert_uint_eq(h.hash, hash_of(i % 2 ? "a" : "b"));
	}
	ck_assert_uint_eq(n, session(0)->holders.nr);
	ck_assert_uint_eq(n, N - (N + 2) / 3);
}
END_TEST

/* U5 */
/* Of a table that is all but empty: calls of its client get between. */
START_TEST(dump_leaves_the_lock_after_each_block)
{
	static u64 ids[64 * SLOTS];
	unsigned long before;
	struct fkv_told h;
	u32 at = 0;

	for (u32 i = 0; i < 64 * SLOTS; i++)
		ids[i] = fake_hold(&f, 0, "a", NULL);
	ck_assert_uint_eq(fkv_holder_del(session(0), ids, 64 * SLOTS - 1),
			  64 * SLOTS - 1);
	before = shim_rescheds;
	ck_assert(fkv_holder_next(session(0), &at, &h));
	ck_assert_uint_eq(h.id, ids[64 * SLOTS - 1]);
	ck_assert_uint_ge(shim_rescheds - before, 63);
	ck_assert(!fkv_holder_next(session(0), &at, &h));
	ck_assert_uint_eq(del(0, ids[64 * SLOTS - 1]), 1);
}
END_TEST

START_TEST(session_that_ends_holds_nothing)
{
	for (u32 i = 0; i < 3 * SLOTS; i++)
		fake_hold(&f, 0, i % 2 ? "a" : "b", NULL);
	ck_assert_int_eq(fake_evict(&f, "a", 1), -EBUSY);
	fkv_holder_del_all(session(0));
	ck_assert_uint_eq(pinned_pages(0), 0);
	ck_assert_int_eq(atomic64_read(&f.inst.held_bytes), 0);
	ck_assert_int_eq(fake_evict(&f, "a", 1), FLUXONKV_QUIET);
	ck_assert_int_eq(fake_evict(&f, "b", 2), FLUXONKV_QUIET);
}
END_TEST

/* U4 */
START_TEST(holders_of_a_call_are_made_together)
{
	enum { N = 1200 };
	static struct fkv_new_holder new[N];
	static u64 ids[N];
	u32 made = 0;

	for (u32 i = 0; i < N; i++) {
		ids[i] = 1;
		new[i].entry = fake_get(&f, i % 2 ? "a" : "b");
		new[i].ret_id = &ids[i];
	}
	/* room for seven blocks of 128: what follows has no memory */
	fake_fail_nth(15);
	fkv_holder_add(session(0), new, N);
	ck_assert(fake_failed());
	while (made < N && ids[made])
		made++;
	ck_assert_uint_eq(made, 7 * SLOTS);
	for (u32 i = 0; i < N; i++) {
		ck_assert_int_eq(!ids[i], i >= made);
		if (!ids[i])
			fkv_entry_put(new[i].entry);
		else
			ck_assert(fkv_charge(session(0),
					     PAGE_ALIGN(new[i].entry->len)));
	}
	ck_assert_uint_eq(session(0)->holders.nr, made);
	ck_assert_uint_eq(fkv_holder_del(session(0), ids, made), made);
}
END_TEST

/* Every allocation of the first 1,200 holders fails once. */
START_TEST(holder_without_memory_takes_nothing_over)
{
	u32 failed = 0;

	for (u32 i = 0; i < 1200; i++) {
		for (u32 n = 1;; n++) {
			struct fkv_entry *e = fake_get(&f, "a");
			int refs = atomic_read(&e->refs);
			u64 id;

			fake_fail_nth(n);
			id = fake_add(&f, 0, e, NULL);
			failed += !id;
			ck_assert_int_eq(!id, fake_failed());
			ck_assert_int_eq(atomic_read(&e->refs), refs);
			if (!id) {
				fkv_entry_put(e);
				continue;
			}
			ck_assert(fkv_charge(session(0), PAGE_SIZE));
			break;
		}
		ck_assert_uint_eq(session(0)->holders.nr, i + 1);
	}
	/* ten blocks, each with an array that may be the larger one */
	ck_assert_uint_eq(failed, 20);
}
END_TEST

/* ---- what the daemon keeps ---- */

/* H3 */
START_TEST(release_is_told_once_and_after_the_reference)
{
	struct fkv_release *r = fkv_release_create(100, 7);
	struct fluxonkv_message m;
	u64 id = fake_hold(&f, 0, "a", r);

	ck_assert_uint_eq(f.nr_messages, 0);
	ck_assert_uint_eq(del(0, id), 1);
	ck_assert_uint_eq(del(0, id), 0);
	ck_assert(fake_take(&f, &m));
	ck_assert(m.type == FLUXONKV_MESSAGE_RELEASED && m.client == 100 &&
		  m.cookie == 7);
	ck_assert(!fake_take(&f, &m));
	fkv_release_send(&f.inst, NULL);
	ck_assert(!fake_take(&f, &m));
}
END_TEST

/* The daemon must not hear RELEASED before the extent is free. */
START_TEST(released_follows_quiet)
{
	struct fluxonkv_message m;
	u64 id = fake_hold(&f, 0, "a", fkv_release_create(100, 7));

	ck_assert_int_eq(fake_retire(&f, "a", 1), FLUXONKV_HELD);
	ck_assert_uint_eq(del(0, id), 1);
	ck_assert(fake_take(&f, &m));
	ck_assert_uint_eq(m.type, FLUXONKV_MESSAGE_QUIET);
	ck_assert(fake_take(&f, &m));
	ck_assert_uint_eq(m.type, FLUXONKV_MESSAGE_RELEASED);
}
END_TEST

/* U5: its GONE tells of all of them */
START_TEST(session_that_ends_tells_no_releases)
{
	struct fluxonkv_message m;

	fake_hold(&f, 0, "a", fkv_release_create(100, 7));
	fake_hold(&f, 0, "b", fkv_release_create(100, 8));
	fkv_holder_del_all(session(0));
	ck_assert(!fake_take(&f, &m));
}
END_TEST

START_TEST(release_without_memory_is_none)
{
	fake_fail_nth(1);
	ck_assert_ptr_null(fkv_release_create(1, 2));
	ck_assert(fake_failed());
}
END_TEST

START_TEST(release_to_a_daemon_that_is_gone_ends)
{
	u64 id = fake_hold(&f, 0, "a", fkv_release_create(100, 7));

	f.inst.queue.closed = true;
	ck_assert_uint_eq(del(0, id), 1);
	ck_assert_uint_eq(f.nr_messages, 0);
}
END_TEST

/* ---- threads ---- */

static u64 shared_id;		/* whoever is first releases it */
static long ended;

static void *holds_and_releases(void *arg)
{
	u64 state = 77 + (u64)(uintptr_t)arg;
	u64 mine[16] = { 0 };

	for (u32 i = 0; i < ROUNDS; i++) {
		u32 at = (u32)(fake_random(&state) % 16);
		u64 id;

		if (mine[at])
			shim_assert(fkv_holder_del(session(0), &mine[at], 1));
		mine[at] = fake_hold(&f, 0, i % 2 ? "a" : "b", NULL);
		shim_assert(mine[at]);
		id = __atomic_exchange_n(&shared_id,
					 fake_hold(&f, 0, "a", NULL),
					 __ATOMIC_ACQ_REL);
		if (id)
			shim_assert(fkv_holder_del(session(0), &id, 1));
		/* an id that another thread may be ending */
		id = READ_ONCE(shared_id);
		if (i % 64 == 0)
			fkv_holder_del(session(1), &id, 1);
	}
	for (u32 i = 0; i < 16; i++)
		if (mine[i])
			shim_assert(fkv_holder_del(session(0), &mine[i], 1));
	return NULL;
}

static void *dumps(void *arg)
{
	struct fkv_told h;

	for (u32 i = 0; i < ROUNDS / 10; i++)
		for (u32 at = 0; fkv_holder_next(arg, &at, &h);)
			shim_assert(h.id && h.put_id);
	return NULL;
}

/* Each id is ended by one thread, whoever asks. */
static void *ends_all(void *arg)
{
	u64 *ids = arg;
	u32 n = 0;

	for (u32 i = 0; i < 512; i++)
		n += fkv_holder_del(session(0), &ids[i], 1);
	__atomic_fetch_add(&ended, n, __ATOMIC_RELAXED);
	return NULL;
}

START_TEST(threads_hold_and_release_in_one_table)
{
	pthread_t t[THREADS + 1];

	shared_id = 0;
	for (uintptr_t i = 0; i < THREADS; i++)
		pthread_create(&t[i], NULL, holds_and_releases, (void *)i);
	pthread_create(&t[THREADS], NULL, dumps, session(0));
	for (u32 i = 0; i <= THREADS; i++)
		pthread_join(t[i], NULL);
	ck_assert_uint_eq(del(0, shared_id), 1);
	ck_assert_uint_eq(session(0)->holders.nr, 0);
	ck_assert_uint_eq(pinned_pages(0), 0);
}
END_TEST

/* H2 */
START_TEST(holder_is_ended_by_one_thread)
{
	static u64 ids[512];
	pthread_t t[THREADS];

	ended = 0;
	for (u32 i = 0; i < 512; i++)
		ids[i] = fake_hold(&f, 0, "a", NULL);
	for (u32 i = 0; i < THREADS; i++)
		pthread_create(&t[i], NULL, ends_all, ids);
	for (u32 i = 0; i < THREADS; i++)
		pthread_join(t[i], NULL);
	ck_assert_int_eq(ended, 512);
	ck_assert_uint_eq(pinned_pages(0), 0);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("kmod_holder");
	TCase *tc = tcase_create("holder");
	SRunner *sr;
	int failed;

	tcase_add_checked_fixture(tc, setup, teardown);
	tcase_set_timeout(tc, 120);
	tcase_add_test(tc, charge_over_the_cap_changes_nothing);
	tcase_add_test(tc, sessions_of_a_user_share_its_cap);
	tcase_add_test(tc, refused_charge_takes_no_room_of_others);
	tcase_add_test(tc, charge_is_given_back_when_the_holder_ends);
	tcase_add_test(tc, id_of_an_ended_holder_is_no_holder);
	tcase_add_test(tc, id_that_never_was_is_no_holder);
	tcase_add_test(tc, holder_of_another_session_is_none_here);
	tcase_add_test(tc, release_of_many_ends_those_that_are_holders);
	tcase_add_test(tc, dump_tells_each_holder_once);
	tcase_add_test(tc, dump_leaves_the_lock_after_each_block);
	tcase_add_test(tc, session_that_ends_holds_nothing);
	tcase_add_test(tc, holders_of_a_call_are_made_together);
	tcase_add_test(tc, holder_without_memory_takes_nothing_over);
	tcase_add_test(tc, release_is_told_once_and_after_the_reference);
	tcase_add_test(tc, released_follows_quiet);
	tcase_add_test(tc, session_that_ends_tells_no_releases);
	tcase_add_test(tc, release_without_memory_is_none);
	tcase_add_test(tc, release_to_a_daemon_that_is_gone_ends);
	tcase_add_test(tc, threads_hold_and_release_in_one_table);
	tcase_add_test(tc, holder_is_ended_by_one_thread);
	suite_add_tcase(s, tc);
	sr = srunner_create(s);
	srunner_run_all(sr, CK_NORMAL);
	failed = srunner_ntests_failed(sr);
	srunner_free(sr);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
