// SPDX-License-Identifier: Apache-2.0
/*
 * Lives of versions: all short orders of what can happen to them, long random
 * ones, each step against a model, and threads.
 */
#include <check.h>

#include "fake.h"

#define KEYS		2u
#define PAGES		3u	/* versions take one each */
#define VERSIONS	4096u
#define DEPTH		6u	/* of all orders */
#define RANDOM_STEPS	400000u

/* With a sanitizer, every STRIDE-th order. */
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
#define STRIDE		11u
#else
#define STRIDE		1u
#endif

/* ck_assert() writes to a file each time, and this is millions of times. */
#define must_eq(a, b)	shim_assert((long)(a) == (long)(b))

static struct fake f;

/* What has become of a version, as the owner sees it. */
struct version {
	struct fkv_entry *e;
	u32 key, page;
	u32 readers;
	bool published, live;
	bool held;		/* RETIRE said so: a QUIET follows */
	bool quiet;		/* and it must be there now */
};

static struct version versions[VERSIONS];	/* by put_id */
static u32 nr_versions;
static u32 on_page[PAGES];	/* put_id of the live one, 0 */
static u32 current[KEYS];
static long overlaps;

static void begin(void)
{
	must_eq(fake_up(&f), 0);
	memset(on_page, 0, sizeof(on_page));
	memset(current, 0, sizeof(current));
	nr_versions = 1;
	overlaps = 0;
}

static const char *key_of(u32 key)
{
	return key ? "key-1" : "key-0";
}

static void version_ends(u32 id)
{
	struct version *v = &versions[id];

	v->live = false;
	on_page[v->page] = 0;
	v->quiet = v->held;
}

static u32 version_begins(u32 key, u32 page)
{
	u32 id = nr_versions++;

	versions[id] = (struct version){
		.key = key, .page = page, .live = true,
	};
	on_page[page] = id;
	return id;
}

/* ---- steps: each says what must come of it, and does it ---- */

static void publishes(u32 key, u32 page)
{
	int want = on_page[page] ? -EBUSY : current[key] ? -EEXIST : 0;
	u32 id = nr_versions;

	must_eq(fake_publish(&f, key_of(key), id, page, 1), want);
	overlaps += want == -EBUSY;
	if (want)
		return;
	version_begins(key, page);
	versions[id].published = true;
	current[key] = id;
}

static void gets(u32 key)
{
	struct fkv_entry *e = fake_get(&f, key_of(key));
	u32 id = current[key];

	must_eq(!e, !id);
	if (!e)
		return;
	must_eq(e->put_id, id);
	shim_assert(!versions[id].e || versions[id].e == e);
	versions[id].e = e;
	versions[id].readers++;
	fkv_index_hit(e);
}

/* One reader of what is on that page leaves. */
static void leaves(u32 page)
{
	u32 id = on_page[page];
	struct version *v = &versions[id];

	if (!id || !v->readers)
		return;
	fkv_entry_put(v->e);
	if (!--v->readers && !v->published)
		version_ends(id);
}

static void retires(u32 key, u32 upto)
{
	u32 id = current[key];
	bool ours = id && id <= upto;
	int want = !ours ? -ENOENT : versions[id].readers ? FLUXONKV_HELD :
		   FLUXONKV_QUIET;

	must_eq(fake_retire(&f, key_of(key), upto), want);
	if (!ours)
		return;
	current[key] = 0;
	versions[id].published = false;
	versions[id].held = want == FLUXONKV_HELD;
	if (want == FLUXONKV_QUIET)
		version_ends(id);
}

static void evicts(u32 key, u32 id)
{
	bool ours = id && current[key] == id;
	int want = !ours ? -ENOENT : versions[id].readers ? -EBUSY :
		   FLUXONKV_QUIET;

	must_eq(fake_evict(&f, key_of(key), id), want);
	if (want != FLUXONKV_QUIET)
		return;
	current[key] = 0;
	versions[id].published = false;
	version_ends(id);
}

/* A reply of what is there, of another version there, or of a new one. */
static void gives(u32 page, bool right)
{
	u32 id = on_page[page];
	bool there = id;
	struct fkv_entry *e;
	int err;

	if (!right || !there)
		id = nr_versions;
	e = fake_given(&f, id, page, 1, &err);
	if (!right && there) {
		shim_assert(!e);
		must_eq(err, -EBUSY);
		overlaps++;
		return;
	}
	shim_assert(e);
	if (!there)
		version_begins(KEYS, page);
	shim_assert(!versions[id].e || versions[id].e == e);
	versions[id].e = e;
	versions[id].readers++;
}

static void daemon_reads(void)
{
	struct fluxonkv_message m;
	struct fluxonkv_hit hits[4];
	u32 n = fkv_index_hits(&f.inst, hits, 4);

	for (u32 i = 0; i < n; i++)
		shim_assert(versions[hits[i].cookie].published);
	while (fake_take(&f, &m)) {
		must_eq(m.type, FLUXONKV_MESSAGE_QUIET);
		shim_assert(versions[m.cookie].quiet);
		versions[m.cookie].quiet = false;
	}
	shim_rcu_flush();
}

/* ---- what must hold after each ---- */

static void check_counts(void)
{
	long entries = 0, retired = 0, held = 0;

	for (u32 page = 0; page < PAGES; page++) {
		const struct version *v = &versions[on_page[page]];

		must_eq(fake_live(&f, page), on_page[page] != 0);
		if (!on_page[page])
			continue;
		entries += v->published;
		retired += v->held;
		held += v->published && v->readers;
	}
	must_eq(atomic64_read(&f.inst.entries), entries);
	must_eq(atomic64_read(&f.inst.retired), retired);
	must_eq(atomic64_read(&f.inst.held_bytes),
			 held * (long)PAGE_SIZE);
	must_eq(atomic64_read(&f.inst.overlaps), overlaps);
}

static void check_quiet(u32 from)
{
	daemon_reads();
	for (u32 id = from; id < nr_versions; id++)
		shim_assert(!versions[id].quiet);
}

static void end(void)
{
	check_quiet(1);
	for (u32 page = 0; page < PAGES; page++)
		while (versions[on_page[page]].readers)
			leaves(page);
	for (u32 key = 0; key < KEYS; key++)
		retires(key, UINT32_MAX);
	check_counts();
	check_quiet(1);
	fake_down(&f);
}

static void setup(void)
{
	memset(versions, 0, sizeof(versions));
}

/* ---- all short orders ---- */

#define ACTS	11u

static void act(u32 n)
{
	switch (n) {
	case 0:
	case 1:
		publishes(0, n);
		break;
	case 2:
		publishes(1, 1);
		break;
	case 3:
		gets(0);
		break;
	case 4:
	case 5:
		leaves(n - 4);
		break;
	case 6:
		retires(0, UINT32_MAX);
		break;
	case 7:
		evicts(0, current[0]);
		break;
	case 8:
	case 9:
		gives(0, n == 8);
		break;
	default:
		daemon_reads();
	}
	check_counts();
}

static void run_order(u32 order)
{
	begin();
	for (u32 i = 0; i < DEPTH; i++, order /= ACTS)
		act(order % ACTS);
	end();
	memset(versions, 0, nr_versions * sizeof(versions[0]));
}

/* K6, H1 */
START_TEST(every_short_order_of_events_keeps_the_rules)
{
	u32 orders = 1;

	for (u32 i = 0; i < DEPTH; i++)
		orders *= ACTS;
	for (u32 order = (u32)_i; order < orders; order += 8 * STRIDE)
		run_order(order);
}
END_TEST

/* ---- long random ones ---- */

static void random_act(u64 *state)
{
	u32 r = (u32)(fake_random(state) >> 8);
	u32 key = r % KEYS, page = (r >> 4) % PAGES;
	u32 id = current[key] + (r >> 8) % 3 - 1;

	switch ((r >> 12) % 16) {
	case 0 ... 3:
		publishes(key, page);
		break;
	case 4 ... 6:
		gets(key);
		break;
	case 7 ... 10:
		leaves(page);
		break;
	case 11:
		retires(key, id);
		break;
	case 12:
		evicts(key, id);
		break;
	case 13:
		gives(page, r & 1 << 20);
		break;
	default:
		daemon_reads();
	}
	check_counts();
}

/* K6, H1 */
START_TEST(random_orders_of_events_keep_the_rules)
{
	u64 state = 88172645463325252ULL + (u64)_i;

	for (u32 i = 0; i < RANDOM_STEPS / 8 / STRIDE; i += 1000) {
		begin();
		for (u32 j = 0; j < 1000; j++)
			random_act(&state);
		end();
		memset(versions, 0, nr_versions * sizeof(versions[0]));
	}
}
END_TEST

/* ---- threads ---- */

#define THREAD_KEYS	4u
#define THREAD_PAGES	12u	/* few, so that reuse comes at once */
#define WORDS		64u
#define READERS		3u
#define LIVES		(4000u / STRIDE)
#define LEAST		(100u / STRIDE)

static const char *const names[THREAD_KEYS] = { "a", "b", "c", "d" };
static u64 memory[THREAD_PAGES][WORDS];
static bool stop;
static u64 reads;

/* A version fills its page with its number: plain stores, as programs do. */
static void check_page(const struct fkv_entry *e)
{
	const u64 *page = memory[e->offset / PAGE_SIZE];

	for (u32 i = 0; i < WORDS; i++)
		shim_assert(page[i] == e->put_id);
}

static void *reader(void *arg)
{
	u64 state = 99 + (u64)(uintptr_t)arg, n = 0;
	struct fkv_entry *held[4] = { NULL };

	while (!READ_ONCE(stop)) {
		u32 r = (u32)(fake_random(&state) >> 8), at = r % 4;

		if (held[at]) {
			check_page(held[at]);
			fkv_entry_put(held[at]);
		}
		held[at] = fake_get(&f, names[(r >> 4) % THREAD_KEYS]);
		if (!held[at])
			continue;
		fkv_index_hit(held[at]);
		check_page(held[at]);
		n++;
	}
	for (u32 i = 0; i < 4; i++)
		if (held[i])
			fkv_entry_put(held[i]);
	__atomic_fetch_add(&reads, n, __ATOMIC_RELAXED);
	return NULL;
}

static u64 page_put_id[THREAD_PAGES];	/* the owner's book */

struct owner {
	u64 state;
	u64 next_id;
	u64 published[THREAD_KEYS];	/* put_id, 0 */
	u32 page[THREAD_KEYS];
	u64 evicted, busy, quiet, held, told, hits;
};

static void owner_frees(u32 page)
{
	page_put_id[page] = 0;
}

static void owner_hears(struct owner *o)
{
	struct fluxonkv_hit hits[THREAD_PAGES];
	struct fluxonkv_message m;

	o->hits += fkv_index_hits(&f.inst, hits, 3);
	while (fake_take(&f, &m)) {
		u32 page = 0;

		shim_assert(m.type == FLUXONKV_MESSAGE_QUIET);
		while (page < THREAD_PAGES && page_put_id[page] != m.cookie)
			page++;
		/* told once, and of what was said to be held */
		shim_assert(page < THREAD_PAGES);
		owner_frees(page);
		o->told++;
	}
	shim_rcu_flush();
}

static void owner_publishes(struct owner *o, u32 key, u32 page)
{
	u64 id = o->next_id++;

	for (u32 i = 0; i < WORDS; i++)
		memory[page][i] = id;
	shim_assert(!fake_publish(&f, names[key], id, page, 1));
	o->published[key] = id;
	o->page[key] = page;
	page_put_id[page] = id;
}

static void owner_ends(struct owner *o, u32 key, bool evict)
{
	int ret = evict ? fake_evict(&f, names[key], o->published[key]) :
			  fake_retire(&f, names[key], o->published[key]);

	if (ret == -EBUSY) {
		o->busy++;
		return;
	}
	shim_assert(ret == FLUXONKV_QUIET || (!evict && ret == FLUXONKV_HELD));
	o->published[key] = 0;
	o->evicted += evict;
	if (ret == FLUXONKV_HELD) {
		o->held++;
		return;
	}
	o->quiet += !evict;
	owner_frees(o->page[key]);
}

/* A reply for what is published holds it for a while. */
static void owner_replies(struct owner *o, u32 key)
{
	struct fkv_entry *e;
	int err;

	e = fake_given(&f, o->published[key], o->page[key], 1, &err);
	shim_assert(e && e->put_id == o->published[key]);
	check_page(e);
	fkv_entry_put(e);
}

static void owner_step(struct owner *o)
{
	u32 r = (u32)(fake_random(&o->state) >> 8);
	u32 key = r % THREAD_KEYS, page = (r >> 4) % THREAD_PAGES;

	if (o->published[key] && (r >> 8) % 8 == 0)
		owner_replies(o, key);
	else if (o->published[key])
		owner_ends(o, key, (r >> 12) % 2);
	else if (!page_put_id[page])
		owner_publishes(o, key, page);
	if ((r >> 16) % 4 == 0)
		owner_hears(o);
}

/* H1, K6 */
START_TEST(threads_read_while_versions_come_and_go)
{
	struct owner o = { .state = 7, .next_id = 1 };
	pthread_t t[READERS];

	ck_assert_int_eq(fake_up(&f), 0);
	stop = false;
	memset(page_put_id, 0, sizeof(page_put_id));
	for (uintptr_t i = 0; i < READERS; i++)
		pthread_create(&t[i], NULL, reader, (void *)i);
	while (o.next_id < LIVES || o.held < LEAST || o.evicted < LEAST)
		owner_step(&o);
	WRITE_ONCE(stop, true);
	for (u32 i = 0; i < READERS; i++)
		pthread_join(t[i], NULL);
	for (u32 key = 0; key < THREAD_KEYS; key++)
		if (o.published[key])
			owner_ends(&o, key, false);
	owner_hears(&o);
	ck_assert_uint_eq(o.told, o.held);
	for (u32 page = 0; page < THREAD_PAGES; page++)
		ck_assert(!page_put_id[page] && !fake_live(&f, page));
	ck_assert_uint_gt(reads, LIVES / 10);
	fake_down(&f);
}
END_TEST

static TCase *add_case(Suite *s, const char *name)
{
	TCase *tc = tcase_create(name);

	tcase_add_checked_fixture(tc, setup, NULL);
	tcase_set_timeout(tc, 300);
	suite_add_tcase(s, tc);
	return tc;
}

int main(void)
{
	Suite *s = suite_create("kmod_lives");
	SRunner *sr;
	int failed;

	tcase_add_loop_test(add_case(s, "orders"),
			    every_short_order_of_events_keeps_the_rules, 0, 8);
	tcase_add_loop_test(add_case(s, "random"),
			    random_orders_of_events_keep_the_rules, 0, 8);
	tcase_add_test(add_case(s, "threads"),
		       threads_read_while_versions_come_and_go);
	sr = srunner_create(s);
	srunner_run_all(sr, CK_NORMAL);
	failed = srunner_ntests_failed(sr);
	srunner_free(sr);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
