// SPDX-License-Identifier: Apache-2.0
/*
 * Both real halves of the pin handshake at once: threads that hit and release
 * with the library's pins.c against one that publishes, evicts, retires, scans
 * and fills memory again with the daemon's index.c.
 *
 * Payload is read and written plainly, as programs do, so the thread sanitizer
 * checks that giving a pin back orders the reads before the next filling. It
 * does not know fences, and needs not: what they decide is whether a pin was
 * seen, and a wrong decision shows as a wrong byte or as a race. What the
 * processor hides from a stress test is for tests/model.
 */
#include <check.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

/* both rooms have a struct of this name; nothing here mixes them */
#define fkv_pins fkv_client_pins
#include "pins.h"
#undef fkv_pins

/* as text: the sanitizer needs the address of the writer's mapping */
#include "io/index.c"

#define KEYS		12u
#define EXTENTS		20u	/* few, so that reuse comes at once */
#define EXTENT		512u	/* bytes */
#define WORDS		(EXTENT / 8)
#define SLOTS		64u
#define CLIENTS		2u
#define READERS		4u	/* two threads of each client */
#define HOLD		3u	/* pins of a thread at once */
#define RUN_NS		(2000ULL * FKV_LIB_MS)
#define GIVE_UP_NS	(60000ULL * FKV_LIB_MS)

/* less than this in all of the time, and nothing was tested */
#define LEAST_HITS	2000u
#define LEAST_REUSES	500u
#define LEAST		50u	/* of each way that a version can go */

/* A version says its key, its length and, with them, all of its bytes. */
#define PUT_ID(nr, key)		((nr) << 4 | (key))
#define KEY_OF(put_id)		((unsigned int)((put_id) & 15))
#define LEN_OF(put_id)		(EXTENT - 8 * (((put_id) >> 4) % 7))
#define PATTERN(put_id, word)	((put_id) * 0x9e3779b97f4a7c15ULL + (word))

#ifdef __SANITIZE_THREAD__
#define ONE_MAPPING	true	/* it knows a word by its address */
#else
#define ONE_MAPPING	false
#endif

struct client {
	struct fkv_pins *daemon;
	struct fkv_client_pins lib;
	void *index, *pages;		/* as the client maps them */
};

struct reader {
	pthread_t thread;
	struct client *client;
	uint64_t seed;
	uint64_t hits, bytes, wrong;
};

/* what became of the versions */
struct tally {
	uint64_t published, busy, held, evicted, scanned, hints;
};

static struct fkv_index *ix;
static struct client clients[CLIENTS];
static struct reader readers[READERS];
static uint64_t segment[EXTENTS * WORDS];
static struct fkv_entry *live[KEYS];
static uint64_t extents[EXTENTS];	/* stack of free ones */
static unsigned int nr_extents;
static struct tally tally;
static bool stop;

static struct fkv_key *key_make(unsigned int nr)
{
	struct fkv_key *key;
	char text[32];

	/* all of one length, different at the end */
	snprintf(text, sizeof(text), "stress/key-%08u", nr);
	key = fkv_key_create(text, strlen(text));
	fkv_assert(key);
	return key;
}

static unsigned int draw(uint64_t *seed, unsigned int n)
{
	*seed = *seed * 6364136223846793005ULL + 1442695040888963407ULL;
	return (unsigned int)(*seed >> 33) % n;
}

static void *map_again(void *first, int fd, size_t size, int prot)
{
	void *map = first;

	if (!ONE_MAPPING)
		map = mmap(NULL, size, prot, MAP_SHARED, fd, 0);
	ck_assert_ptr_ne(map, MAP_FAILED);
	return map;
}

static void client_open(struct client *c)
{
	struct fkv_pins_sizes sizes = {
		.index = fkv_index_size(ix), .segment = sizeof(segment)
	};

	ck_assert_int_eq(fkv_pins_create(ix, SLOTS, &c->daemon), 0);
	sizes.pages = c->daemon->size;
	c->index = map_again(ix->hdr, fkv_index_fd(ix), sizes.index, PROT_READ);
	c->pages = map_again(c->daemon->map, c->daemon->fd, sizes.pages,
			     PROT_READ | PROT_WRITE);
	ck_assert_int_eq(fkv_pins_init(&c->lib, c->index, c->pages, &sizes),
			 0);
}

static void client_close(struct client *c)
{
	if (!ONE_MAPPING) {
		munmap(c->index, fkv_index_size(ix));
		munmap(c->pages, c->daemon->size);
	}
	fkv_pins_free(c->daemon);
}

static bool bytes_right(const struct fkv_pin *pin, unsigned int key)
{
	const uint64_t *word = &segment[pin->offset / 8];

	if (KEY_OF(pin->version) != key ||
	    pin->len != LEN_OF(pin->version) || pin->offset % EXTENT)
		return false;
	for (unsigned int i = 0; i < pin->len / 8; i++)
		if (word[i] != PATTERN(pin->version, i))
			return false;
	return true;
}

static bool reader_get(struct reader *r, struct fkv_key *const *keys,
		       unsigned int nr, struct fkv_pin *pin)
{
	struct fluxonkv_key key = {
		.data = keys[nr]->data, .len = keys[nr]->len,
	};

	if (fkv_pins_get(&r->client->lib, &key, NULL, pin) != FKV_PINS_HIT)
		return false;
	fkv_pins_note(&r->client->lib, pin->token, pin->len);
	r->hits++;
	r->bytes += pin->len;
	r->wrong += !bytes_right(pin, nr);
	return true;
}

/* Hold a few at once; read each when pinned, and before it is let go. */
static void reader_round(struct reader *r, struct fkv_key *const *keys)
{
	struct fkv_pin pins[HOLD];
	unsigned int nr[HOLD];
	unsigned int n = 0;

	for (unsigned int i = 0; i < HOLD; i++) {
		nr[n] = draw(&r->seed, KEYS);
		n += reader_get(r, keys, nr[n], &pins[n]);
	}
	while (n--) {
		r->wrong += !bytes_right(&pins[n], nr[n]);
		r->wrong += !fkv_pins_unpin(&r->client->lib, pins[n].token);
	}
}

static void *reader_main(void *arg)
{
	struct fkv_key *keys[KEYS];
	struct reader *r = arg;

	for (unsigned int k = 0; k < KEYS; k++)
		keys[k] = key_make(k);
	while (!__atomic_load_n(&stop, __ATOMIC_RELAXED))
		reader_round(r, keys);
	for (unsigned int k = 0; k < KEYS; k++)
		fkv_key_put(keys[k]);
	return NULL;
}

static void publish(unsigned int nr)
{
	struct fkv_entry *e = fkv_zalloc(sizeof(*e));

	fkv_assert(e);
	e->key = key_make(nr);
	e->put_id = PUT_ID(++tally.published, nr);
	e->offset = extents[--nr_extents] * EXTENT;
	e->len = LEN_OF(e->put_id);
	e->live = true;
	for (unsigned int i = 0; i < e->len / 8; i++)
		segment[e->offset / 8 + i] = PATTERN(e->put_id, i);
	fkv_index_publish(ix, e);
	fkv_assert(e->slot != FKV_NO_SLOT);
	live[nr] = e;
}

static void entry_free(struct fkv_entry *e)
{
	/* wrong from now on, for a reader that should not be here any more */
	for (unsigned int i = 0; i < WORDS; i++)
		segment[e->offset / 8 + i] = ~0ULL;
	extents[nr_extents++] = e->offset / EXTENT;
	fkv_key_put(e->key);
	fkv_free(e);
}

static void on_scanned(void *arg, struct fkv_entry *e)
{
	(void)arg;
	tally.scanned++;
	entry_free(e);
}

static void on_hits(void *arg, struct fkv_entry *e, uint64_t n)
{
	(void)arg;
	fkv_assert(e->live);
	tally.hints += n;
}

static const struct fkv_index_ops ops = { on_scanned, on_hits };

static void evicted(unsigned int key, enum fkv_evict_result res)
{
	struct fkv_entry *e = live[key];

	if (res == FKV_EVICT_BUSY) {
		tally.busy++;
		return;
	}
	live[key] = NULL;
	e->live = false;
	if (res == FKV_EVICT_HELD) {
		tally.held++;
		return;
	}
	tally.evicted++;
	entry_free(e);
}

/* Some keys, in one batch. */
static void evict_some(uint64_t *seed)
{
	enum fkv_evict_result res[KEYS];
	struct fkv_entry *es[KEYS];
	unsigned int at[KEYS];
	unsigned int n = 0;

	for (unsigned int k = 0; k < KEYS; k++) {
		if (!live[k] || draw(seed, 3))
			continue;
		at[n] = k;
		es[n++] = live[k];
	}
	fkv_index_evict(ix, es, n, res);
	for (unsigned int i = 0; i < n; i++)
		evicted(at[i], res[i]);
}

/* As a put over a key does, or a delete: one version in @of. */
static void retire_some(uint64_t *seed, unsigned int of)
{
	for (unsigned int k = 0; k < KEYS; k++) {
		if (!live[k] || draw(seed, of))
			continue;
		live[k]->live = false;
		fkv_index_retire(ix, live[k]);
		live[k] = NULL;
	}
}

static void writer_round(uint64_t *seed, uint64_t round)
{
	for (unsigned int k = 0; k < KEYS && nr_extents; k++)
		if (!live[k])
			publish(k);
	if (draw(seed, 2))
		evict_some(seed);
	else
		retire_some(seed, 3);
	fkv_index_scan(ix, &ops, NULL);
	for (unsigned int c = 0; c < CLIENTS && !(round % 64); c++)
		fkv_pins_hits(clients[c].daemon, &ops, NULL);
}

static uint64_t reuses(void)
{
	return tally.published > EXTENTS ? tally.published - EXTENTS : 0;
}

static bool enough(void)
{
	struct fkv_index_stats s;

	fkv_index_get_stats(ix, &s);
	return s.counter[FLUXONKV_CNT_HITS] >= LEAST_HITS &&
	       reuses() >= LEAST_REUSES && tally.evicted >= LEAST &&
	       tally.busy >= LEAST && tally.scanned >= LEAST && tally.hints;
}

static void run(void)
{
	uint64_t start = fkv_now_ns(), now = start, seed = 99, round = 0;

	for (unsigned int i = 0; i < READERS; i++) {
		readers[i].client = &clients[i % CLIENTS];
		readers[i].seed = i + 1;
		ck_assert_int_eq(pthread_create(&readers[i].thread, NULL,
						reader_main, &readers[i]), 0);
	}
	while (now - start < RUN_NS ||
	       (!enough() && now - start < GIVE_UP_NS)) {
		writer_round(&seed, round++);
		now = fkv_now_ns();
	}
	__atomic_store_n(&stop, true, __ATOMIC_RELAXED);
	for (unsigned int i = 0; i < READERS; i++)
		pthread_join(readers[i].thread, NULL);
}

static void setup(void)
{
	ck_assert_int_eq(fkv_index_create(KEYS * 2, 1, false, &ix), 0);
	fkv_index_alive(ix, UINT64_MAX);
	for (unsigned int i = 0; i < EXTENTS; i++)
		extents[nr_extents++] = i;
	for (unsigned int c = 0; c < CLIENTS; c++)
		client_open(&clients[c]);
}

static void check_counters(void)
{
	uint64_t hits = 0, bytes = 0, wrong = 0;
	struct fkv_index_stats s;

	fkv_index_get_stats(ix, &s);
	for (unsigned int i = 0; i < READERS; i++) {
		hits += readers[i].hits;
		bytes += readers[i].bytes;
		wrong += readers[i].wrong;
		ck_assert_uint_gt(readers[i].hits, 0);
	}
	printf("%llu hits, %llu reuses, %llu busy, %llu held, %llu retries\n",
	       (unsigned long long)hits, (unsigned long long)reuses(),
	       (unsigned long long)tally.busy, (unsigned long long)tally.held,
	       (unsigned long long)s.counter[FLUXONKV_CNT_RETRIES]);
	ck_assert_uint_eq(wrong, 0);
	ck_assert_uint_eq(s.counter[FLUXONKV_CNT_HITS], hits);
	ck_assert_uint_eq(s.counter[FLUXONKV_CNT_HIT_BYTES], bytes);
	ck_assert_uint_eq(s.counter[FLUXONKV_CNT_FULL], 0);
	ck_assert_uint_eq(s.not_published, 0);
	ck_assert_uint_eq(s.used, 0);
	ck_assert_uint_eq(s.retired, 0);
}

/* H1, M4a: no byte of a held value changes, and no memory is lost. */
START_TEST(bytes_under_a_pin_are_those_of_its_version)
{
	uint64_t seed = 7;

	setup();
	run();
	ck_assert_msg(enough(), "too little happened to show anything");
	for (unsigned int c = 0; c < CLIENTS; c++)
		ck_assert_uint_eq(fkv_pins_held(&clients[c].lib), 0);
	retire_some(&seed, 1);
	fkv_index_scan(ix, &ops, NULL);
	check_counters();
	ck_assert_uint_eq(nr_extents, EXTENTS);
	ck_assert_uint_eq(tally.published, tally.evicted + tally.scanned);
	for (unsigned int c = 0; c < CLIENTS; c++)
		client_close(&clients[c]);
	fkv_index_free(ix);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("pin_stress");
	TCase *tc = tcase_create("pin_stress");
	SRunner *sr;
	int failed;

	tcase_set_timeout(tc, 120);
	tcase_add_test(tc, bytes_under_a_pin_are_those_of_its_version);
	suite_add_tcase(s, tc);
	sr = srunner_create(s);
	srunner_run_all(sr, CK_ENV);
	failed = srunner_ntests_failed(sr);
	srunner_free(sr);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
