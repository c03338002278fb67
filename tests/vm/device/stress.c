// SPDX-License-Identifier: Apache-2.0
/*
 * stress.c - clients do everything at random, the owner retires and evicts
 *
 * Each value is a pattern of its key and a number in its first bytes: whoever
 * holds it finds it whole, at once and later.
 */
#include "common.h"

#define SEGMENT	(32 * MIB)
#define SLOT	(128 * 1024ULL)
#define NAME	"stress"
#define KEYS	64
#define HELD	32

static struct owner owner = { .slot = SLOT };
static volatile bool stop;

struct value {
	u64 seed, len;
};

static void value_fill(u8 *p, u64 len, u64 seed)
{
	struct value v = { seed, len };

	fill(p + sizeof(v), len - sizeof(v), seed);
	memcpy(p, &v, sizeof(v));
}

static void value_check(const u8 *p, u64 len)
{
	struct value v;

	memcpy(&v, p, sizeof(v));
	EQ(v.len, len);
	CHECK(filled(p + sizeof(v), len - sizeof(v), v.seed));
}

struct worker {
	pthread_t thread;
	struct client c;
	u64 seed;
	struct fluxonkv_result held[HELD];
	u64 gets, hits, puts;
};

/* What a crowded segment says. */
static void can_be(int err)
{
	if (err && err != -ENOSPC && err != -ENOENT && err != -ETIMEDOUT)
		test_fail(__FILE__, __LINE__, "error %d", err);
}

static void drop(struct worker *w, u32 i)
{
	if (!w->held[i].id)
		return;
	value_check(w->c.seg + w->held[i].offset, w->held[i].len);
	EQ(release(&w->c, w->held[i].id), 0);
	w->held[i].id = 0;
}

static void do_get(struct worker *w, const char *key, u32 i)
{
	int err;

	drop(w, i);
	err = get(&w->c, key, &w->held[i]);
	w->gets++;
	can_be(err);
	if (err) {
		w->held[i].id = 0;
		return;
	}
	w->hits++;
	value_check(w->c.seg + w->held[i].offset, w->held[i].len);
}

static void do_put(struct worker *w, u64 r)
{
	u64 len = sizeof(struct value) + r % (SLOT - sizeof(struct value));
	struct fluxonkv_result put;
	char key[16];
	int err;

	sprintf(key, "key%lu", r % KEYS);
	err = put_begin(&w->c, key, len, &put);
	can_be(err);
	if (err)
		return;
	value_fill(w->c.win + put.offset, len, r);
	err = r >> 60 ? put_commit(&w->c, put.id) : put_abort(&w->c, put.id);
	can_be(err);
	w->puts++;
	EQ(probe_write(w->c.win + put.offset, 1), -SIGBUS);
}

static void do_copy(struct worker *w, u64 r)
{
	static __thread u8 from[SLOT];
	u64 len = sizeof(struct value) + r % (SLOT - sizeof(struct value));
	char key[16];

	sprintf(key, "copy%lu", r % KEYS);
	value_fill(from, len, r);
	can_be(put_copy(&w->c, key, from, len));
	w->puts++;
}

static void restart(struct worker *w)
{
	client_stop(&w->c);
	memset(w->held, 0, sizeof(w->held));
	client_start(&w->c, NAME);
}

static void work_once(struct worker *w)
{
	u64 r = random_next(&w->seed);
	char key[16];

	sprintf(key, r >> 63 ? "copy%lu" : "key%lu", r % KEYS);
	r /= KEYS;
	if (r % 1000 == 0)
		restart(w);
	else if (r % 10 < 6)
		do_get(w, key, (u32)(r / 16 % HELD));
	else if (r % 10 < 7)
		drop(w, (u32)(r / 16 % HELD));
	else if (r % 10 < 9)
		do_put(w, random_next(&w->seed));
	else
		do_copy(w, random_next(&w->seed));
}

static void *work(void *arg)
{
	struct worker *w = arg;

	client_start(&w->c, NAME);
	while (!stop)
		work_once(w);
	for (u32 i = 0; i < HELD; i++)
		drop(w, i);
	client_stop(&w->c);
	return NULL;
}

/* Room is made by what is not held, else by what is. */
static void owner_moves(u64 r)
{
	struct owner_slot *s = &owner.slots[r % (SEGMENT / SLOT)];

	int status = -ENOENT;

	pthread_mutex_lock(&owner.lock);
	if (s->used && s->committed)
		status = r >> 62 ? owner_evict(&owner, s->key, s->put) :
			owner_retire(&owner, s->key, s->put);
	if (status == FLUXONKV_QUIET)
		s->used = false;
	pthread_mutex_unlock(&owner.lock);
}

/* Ends a put by copy of any client: it is told by ETIMEDOUT. */
static void owner_shuts(u64 r)
{
	struct owner_slot *s = &owner.slots[r % (SEGMENT / SLOT)];

	pthread_mutex_lock(&owner.lock);
	if (s->used && !s->committed && s->key[0] == 'c')
		owner_shut(&owner, s->client, s->put);
	pthread_mutex_unlock(&owner.lock);
}

static void *moves(void *arg)
{
	u64 seed = 99;

	(void)arg;
	while (!stop) {
		u64 r = random_next(&seed);

		owner_moves(r);
		owner_shuts(r >> 8);
		usleep(200);
	}
	return NULL;
}

static bool all_quiet(void *arg)
{
	struct fluxonkv_counts n = owner_counts(&owner);

	(void)arg;
	return !n.clients && !n.holders && !n.open_puts && !n.retired &&
	       !n.held_bytes && !n.requests;
}

static void everything_at_random(void)
{
	enum { WORKERS = 6 };
	static struct worker w[WORKERS];
	u64 gets = 0, hits = 0, puts = 0;
	pthread_t t;

	owner_start(&owner, NAME, SEGMENT);
	owner_serve(&owner);
	for (u32 i = 0; i < WORKERS; i++) {
		w[i].seed = i;
		CHECK(!pthread_create(&w[i].thread, NULL, work, &w[i]));
	}
	CHECK(!pthread_create(&t, NULL, moves, NULL));
	sleep_ms(full_run() ? 60000 : 8000);
	stop = true;
	for (u32 i = 0; i < WORKERS; i++) {
		pthread_join(w[i].thread, NULL);
		gets += w[i].gets;
		hits += w[i].hits;
		puts += w[i].puts;
	}
	pthread_join(t, NULL);
	printf("    %lu gets, %lu hits, %lu puts, %llu overlaps\n", gets,
	       hits, puts, owner_counts(&owner).overlaps);
	CHECK(hits > 100 && puts > 100);
	CHECK(wait_until(all_quiet, NULL, 5000));
	EQ(owner_counts(&owner).overlaps, 0);
	EQ(owner_counts(&owner).stale_replies, 0);
}

int main(int argc, char **argv)
{
	static const struct test tests[] = {
		LONG_TEST(everything_at_random, 700),
	};

	return TESTS_RUN(tests, argc, argv);
}
