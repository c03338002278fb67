// SPDX-License-Identifier: Apache-2.0
/*
 * service.c - what clients do in the stories about order, caps, identity and
 * daemons that freeze or die, one word each. A word prints what it found and
 * ends with 1 when anything was not as expected.
 */
#include "field.h"

/* ---- identity: A24, K1 ---- */

#define IDS	276u
#define ID_LEN	20000u

static size_t id_key(unsigned int i, char *key)
{
	static const struct fluxonkv_key odd[] = {
		{ "a\0b", 3 }, { "a\0c", 3 }, { "a\0", 2 }, { "a", 1 },
		{ "a/b", 3 }, { "/a", 2 }, { "//", 2 }, { "a/../b", 6 },
		{ "\xff\xfe\x80", 3 }, { "\xc3\x28", 2 }, { "\xc3\xa4", 2 },
		{ "a\xcc\x88", 3 }, { "A", 1 }, { " a", 2 }, { "a ", 2 },
		{ "a\n", 2 }, { "\\x00", 4 },
	};
	const unsigned int n = sizeof(odd) / sizeof(odd[0]);

	if (i < 256) {
		/* "A" and "a" are among these */
		key[0] = (char)i;
		return 1;
	}
	i -= 256;
	if (i < n) {
		memcpy(key, odd[i].data, odd[i].len);
		return odd[i].len;
	}
	memset(key, i == n ? 0 : 0xff, 512);
	key[511] = (char)(i == n + 2 ? 0xfe : key[0]);
	return 512;
}

static int do_identity_write(void)
{
	struct fluxonkv *kv = open_client();
	char key[512];

	for (unsigned int i = 0; i < IDS; i++) {
		size_t n = id_key(i, key);

		mark(scratch(), ID_LEN, i);
		expect(fluxonkv_put(kv, key, n, scratch(), ID_LEN, 0), 0,
		       "put");
	}
	fluxonkv_close(kv);
	return failures != 0;
}

/* Whoever wrote it last: some of the keys are there twice. */
static unsigned int last_writer(const char *key, size_t len)
{
	unsigned int found = IDS;
	char other[512];

	for (unsigned int i = 0; i < IDS; i++)
		if (id_key(i, other) == len && !memcmp(key, other, len))
			found = i;
	return found;
}

static void id_one(struct fluxonkv *kv, const char *key, size_t len)
{
	unsigned int want = last_writer(key, len);
	int there = fluxonkv_exists(kv, key, len), err;
	struct fluxonkv_holder h;
	struct fluxonkv_stat st;

	expect(there, want < IDS ? 0 : -ENOENT, "exists");
	expect(fluxonkv_stat(kv, key, len, &st), there, "stat as exists");
	err = fluxonkv_get(kv, key, len, &h);
	expect(err, there, "get as exists");
	if (err)
		return;
	check(h.len == ID_LEN && marked(h.data, ID_LEN, want), "its own bytes");
	fluxonkv_release(kv, &h);
}

static void id_list(struct fluxonkv *kv)
{
	static struct fluxonkv_listed_key got[1000];
	unsigned int different = 0;
	char key[512];
	size_t n;

	for (unsigned int i = 0; i < IDS; i++) {
		n = id_key(i, key);
		different += last_writer(key, n) == i;
	}
	expect(fluxonkv_list(kv, NULL, NULL, got, 1000, &n), 0, "list");
	check(n == different, "as many as were written");
	for (size_t i = 0; i < n; i++) {
		size_t m = got[i].key_len;
		int cmp;

		check(last_writer(got[i].key, m) < IDS, "a key that is one");
		if (!i)
			continue;
		m = m < got[i - 1].key_len ? m : got[i - 1].key_len;
		cmp = memcmp(got[i - 1].key, got[i].key, m);
		check(cmp < 0 || (!cmp && got[i - 1].key_len < got[i].key_len),
		      "byte order");
	}
}

static int do_identity(unsigned int want)
{
	struct fluxonkv *kv = open_client();
	char key[513];
	uint64_t count;

	for (unsigned int i = 0; want && i < IDS; i++) {
		size_t n = id_key(i, key), skip = n > 8 ? 511 : 1;

		id_one(kv, key, n);
		/* its neighbours are other keys, or none */
		for (size_t at = 0; at < n; at += skip) {
			key[at] ^= 1;
			id_one(kv, key, n);
			key[at] ^= 1;
		}
		if (n < 512) {
			key[n] = '\0';
			id_one(kv, key, n + 1);
		}
		if (n > 1)
			id_one(kv, key, n - 1);
	}
	if (want)
		id_list(kv);
	expect(fluxonkv_count(kv, NULL, 0, &count), 0, "count");
	check(want || !count, "no key of before");
	expect(fluxonkv_exists(kv, key, 0), -EINVAL, "0 bytes");
	memset(key, 'k', 513);
	expect(fluxonkv_exists(kv, key, 513), -E2BIG, "513 bytes");
	fluxonkv_close(kv);
	return failures != 0;
}

/* ---- counts: A25 ---- */

static void count_gets(struct fluxonkv *kv, char names[][32], unsigned int n,
		       enum fluxonkv_served want)
{
	struct fluxonkv_holder h[10] = { 0 };
	struct fluxonkv_key k[10];

	/* a batch of ten, ten single, ten copies */
	for (unsigned int i = 0; i < n; i += 10) {
		for (unsigned int j = 0; j < 10; j++) {
			struct fluxonkv_into into = {
				.buf = scratch(), .size = 4u * MIB,
			};

			k[j].data = names[i + j];
			k[j].len = strlen(names[i + j]);
			into.key = k[j];
			if (i / 10 % 3 == 1)
				fluxonkv_get(kv, k[j].data, k[j].len, &h[j]);
			if (i / 10 % 3 == 2)
				fluxonkv_get_into_many(kv, &into, 1);
			h[j].source = i / 10 % 3 == 2 ? into.source :
				h[j].source;
		}
		if (i / 10 % 3 == 0)
			fluxonkv_get_many(kv, k, 10, h);
		for (unsigned int j = 0; j < 10; j++) {
			check(h[j].source == want, names[i + j]);
			if (i / 10 % 3 != 2 && want != FLUXONKV_SERVED_MISS)
				expect(fluxonkv_release(kv, &h[j]), 0, "end");
		}
	}
}

/* Of load/0 to load/@keys: 600 from memory, 200 from SSD, and 200 misses. */
static int do_counts(unsigned int keys)
{
	static char memory[600][32], ssd[200][32], none[200][32];
	struct fluxonkv *kv = open_client();
	struct fluxonkv_counters c;
	unsigned int m = 0, s = 0;
	struct fluxonkv_stat st;
	char name[32];

	for (unsigned int i = 0; i < keys; i++) {
		sprintf(name, "load/%u", i);
		if (fluxonkv_stat(kv, name, strlen(name), &st))
			continue;
		if (st.where == FLUXONKV_WHERE_SSD && s < 200)
			strcpy(ssd[s++], name);
		else if (st.where & FLUXONKV_WHERE_MEMORY && m < 600)
			strcpy(memory[m++], name);
	}
	for (unsigned int i = m; m && i < 600; i++)
		strcpy(memory[i], memory[i - m]);
	for (unsigned int i = 0; i < 200; i++)
		sprintf(none[i], "none/%u", i);
	check(m >= 10 && s == 200, "some in memory and 200 on SSD");
	if (failures)
		return 1;
	count_gets(kv, memory, 600, FLUXONKV_SERVED_LOCAL);
	count_gets(kv, ssd, 200, FLUXONKV_SERVED_SSD_LOCAL);
	count_gets(kv, none, 200, FLUXONKV_SERVED_MISS);
	expect(fluxonkv_get_counters(kv, &c), 0, "counters");
	check(!c.held && !c.held_bytes, "the client holds nothing");
	check(c.hits_local <= 600, "hits without the daemon");
	fluxonkv_close(kv);
	return failures != 0;
}

/* ---- publish: A4 ---- */

#define PUB_KEYS	64u
#define PUB_WRITERS	8u

static bool pub_stop;
static unsigned long pub_gets, pub_hits;
static unsigned int pub_want;

static size_t pub_len(uint64_t seed)
{
	return 4096 + seed * 7919 % 4096;
}

/* A writer has keys of its own: what readers see of one only goes up. */
static void *pub_writer(void *arg)
{
	unsigned int me = (unsigned int)(uintptr_t)arg, key;
	struct fluxonkv *kv = open_client();
	struct fluxonkv_putop op;
	char name[32];

	/* more than those of a program that ran before */
	for (uint64_t seq = (uint64_t)(now() * 1e6) % (1ULL << 39);
	     !__atomic_load_n(&pub_stop, __ATOMIC_RELAXED); seq++) {
		uint64_t seed;

		key = (unsigned int)(seq % (PUB_KEYS / PUB_WRITERS)) *
		      PUB_WRITERS + me;
		seed = (uint64_t)key << 40 | seq;
		sprintf(name, "pub/%u", key);
		if (fluxonkv_put_begin(kv, name, strlen(name), pub_len(seed),
				       0, &op)) {
			expect(-EIO, 0, fluxonkv_last_error());
			break;
		}
		if (seq % 16 == 3)
			usleep((useconds_t)(seed * 31 % 200));
		/* of those that are given up, half is another value */
		mark(op.data, pub_len(seed), seq % 7 ? seed : ~seed);
		memcpy(op.data, &seed, 8);
		if (seq % 16 == 5)
			usleep((useconds_t)(seed * 17 % 300));
		expect(seq % 7 ? fluxonkv_put_commit(kv, &op) :
		       fluxonkv_put_abort(kv, &op), 0, "end of a put");
	}
	fluxonkv_close(kv);
	return NULL;
}

static bool pub_good(struct fluxonkv_holder *h, unsigned int key,
		     uint64_t *last)
{
	uint8_t *p = scratch();
	uint64_t seed;

	memcpy(&seed, h->data, 8);
	if (seed >> 40 != key || seed < *last || h->len != pub_len(seed))
		return false;
	*last = seed;
	mark(p, h->len, seed);
	return !memcmp(p + 8, (const uint8_t *)h->data + 8, h->len - 8);
}

static void *pub_reader(void *arg)
{
	struct fluxonkv *kv = open_client();
	uint64_t last[PUB_KEYS] = { 0 };
	struct fluxonkv_holder h;
	char name[32];

	for (unsigned int i = (unsigned int)(uintptr_t)arg * 7;; i++) {
		unsigned int key = i * 29 % PUB_KEYS;

		if (__atomic_fetch_add(&pub_gets, 1, __ATOMIC_RELAXED) >=
		    pub_want || failures)
			break;
		sprintf(name, "pub/%u", key);
		if (fluxonkv_get(kv, name, strlen(name), &h))
			continue;
		__atomic_fetch_add(&pub_hits, 1, __ATOMIC_RELAXED);
		check(pub_good(&h, key, &last[key]), name);
		fluxonkv_release(kv, &h);
	}
	fluxonkv_close(kv);
	return NULL;
}

static int do_publish(unsigned int gets)
{
	pthread_t w[PUB_WRITERS], r[PUB_WRITERS];

	pub_want = gets;
	for (uintptr_t i = 0; i < PUB_WRITERS; i++)
		if (pthread_create(&w[i], NULL, pub_writer, (void *)i) ||
		    pthread_create(&r[i], NULL, pub_reader, (void *)i))
			exit(1);
	for (unsigned int i = 0; i < PUB_WRITERS; i++)
		pthread_join(r[i], NULL);
	__atomic_store_n(&pub_stop, true, __ATOMIC_RELAXED);
	for (unsigned int i = 0; i < PUB_WRITERS; i++)
		pthread_join(w[i], NULL);
	printf("gets %u hits %lu\n", gets, pub_hits);
	check(pub_hits > gets / 2, "hits");
	return failures != 0;
}

/* Batches of which some fail: what those took is given back. */
static int do_partial(unsigned int batches)
{
	struct fluxonkv *kv = open_client();
	struct fluxonkv_value v[6] = {
		{ .key = { "part/0", 6 }, .len = 64 * KIB },
		{ .key = { "", 0 }, .len = 64 * KIB },
		{ .key = { "part/1", 6 }, .len = 1ULL << 35 },
		{ .key = { "part/2", 6 }, .len = 64 * KIB },
		{ .key = { "part/3", 6 }, .len = 64 * KIB,
		  .flags = FLUXONKV_EXCL },
		{ .key = { "part/4", 6 }, .len = 64 * KIB, .flags = 1u << 20 },
	};

	uint64_t before;

	expect(fluxonkv_put(kv, "part/3", 6, "x", 1, 0), 0, "put");
	before = used_at_rest(kv);
	mark(scratch(), 64 * KIB, 1);
	for (unsigned int i = 0; i < 6; i++)
		v[i].data = scratch();
	for (unsigned int i = 0; i < batches && !failures; i++) {
		expect(fluxonkv_put_many(kv, v, 6), 0, "a batch");
		expect(v[0].status, 0, "the first");
		expect(v[1].status, -EINVAL, "no key");
		expect(v[2].status, -EFBIG, "too large");
		expect(v[3].status, 0, "the fourth");
		expect(v[4].status, -EEXIST, "is there");
		expect(v[5].status, -EINVAL, "no such flag");
	}
	check(number(kv, "status", "\"open_puts\"") == 0, "no open puts");
	check(used_at_rest(kv) <= before + 128 * KIB, "room is given back");
	fluxonkv_close(kv);
	return failures != 0;
}

/* ---- survive: a daemon that is killed under load ---- */

#define SUR_KEYS	200u

static bool sur_stop;
static uint64_t sur_epoch;
static unsigned long sur_hits, sur_gone, sur_puts;

/* What is seen of a newer daemon ends all that is older. */
static void sur_seen(uint64_t epoch)
{
	uint64_t was = __atomic_load_n(&sur_epoch, __ATOMIC_SEQ_CST);

	while (was < epoch &&
	       !__atomic_compare_exchange_n(&sur_epoch, &was, epoch, false,
					    __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST))
		;
}

static void sur_get(struct fluxonkv *kv, const char *name, unsigned int key)
{
	uint64_t before = __atomic_load_n(&sur_epoch, __ATOMIC_SEQ_CST), seed;
	struct fluxonkv_holder h;
	int err = fluxonkv_get(kv, name, strlen(name), &h);

	if (err) {
		check(err == -ENOENT || err == -ENOTCONN || err == -ETIMEDOUT,
		      fluxonkv_last_error());
		return;
	}
	__atomic_fetch_add(&sur_hits, 1, __ATOMIC_RELAXED);
	check(h.version >> 44 >= before, "nothing of a daemon of before");
	memcpy(&seed, (const uint8_t *)h.data + h.len - 8, 8);
	check(seed >> 32 == key && marked(h.data, h.len - 8, seed),
	      "only what was put");
	sur_seen(h.version >> 44);
	fluxonkv_release(kv, &h);
}

static void sur_put(struct fluxonkv *kv, const char *name, unsigned int key)
{
	uint64_t seed = (uint64_t)key << 32 | draw();
	size_t len = 8 * (1 + seed % 16384);
	uint8_t *p = scratch();
	int err;

	mark(p, len, seed);
	memcpy(p + len, &seed, 8);
	err = fluxonkv_put(kv, name, strlen(name), p, len + 8, 0);
	if (!err)
		__atomic_fetch_add(&sur_puts, 1, __ATOMIC_RELAXED);
	else if (err == -ENOTCONN || err == -ETIMEDOUT)
		__atomic_fetch_add(&sur_gone, 1, __ATOMIC_RELAXED);
	else
		expect(err, 0, "put");
}

static void *sur_thread(void *arg)
{
	struct fluxonkv *kv = open_client();
	uintptr_t turn = (uintptr_t)arg * 101;
	const char *slow = getenv("SLOW");	/* seconds, under emulation */
	double slack = slow ? atof(slow) : 1;
	char name[32];

	fluxonkv_set_timeout(kv, 400);
	while (!__atomic_load_n(&sur_stop, __ATOMIC_RELAXED) && !failures) {
		unsigned int key = (unsigned int)((draw() + turn++) % SUR_KEYS);
		double t = now();

		sprintf(name, "sur/%u", key);
		if (turn % 4)
			sur_get(kv, name, key);
		else
			sur_put(kv, name, key);
		check(now() - t < slack, "a call ends by its deadline");
	}
	fluxonkv_close(kv);
	return NULL;
}

/* Until stdin ends; the daemon dies @deaths times meanwhile. */
static int do_survive(unsigned int deaths)
{
	struct fluxonkv *kv = open_client();
	struct fluxonkv_holder h;
	pthread_t t[8];
	char c;

	expect(put_marked(kv, "kept", MIB, 77), 0, "put");
	expect(fluxonkv_get(kv, "kept", 4, &h), 0, "hold");
	for (uintptr_t i = 0; i < 8; i++)
		if (pthread_create(&t[i], NULL, sur_thread, (void *)i))
			exit(1);
	say("running");
	while (read(0, &c, 1) > 0)
		check(marked(h.data, h.len, 77), "held bytes");
	__atomic_store_n(&sur_stop, true, __ATOMIC_RELAXED);
	for (unsigned int i = 0; i < 8; i++)
		pthread_join(t[i], NULL);
	printf("hits %lu puts %lu without a daemon %lu epoch %" PRIu64 "\n",
	       sur_hits, sur_puts, sur_gone, sur_epoch);
	check(sur_hits > 100 && sur_puts > 100 && sur_gone >= deaths, "load");
	check(sur_epoch == deaths + 1, "each daemon's values were seen");
	check(marked(h.data, h.len, 77), "held bytes of the first daemon");
	expect(fluxonkv_release(kv, &h), 0, "release");
	expect(fluxonkv_exists(kv, "kept", 4), -ENOENT, "and it is gone");
	fluxonkv_close(kv);
	return failures != 0;
}

/* ---- frozen: strict_reads, K3, K6 ---- */

#define FROZEN_MS	300u

static void in_time(double t, const char *what)
{
	check(now() - t < (FROZEN_MS + 150) / 1e3, what);
}

static void frozen_calls(struct fluxonkv *kv)
{
	struct fluxonkv_listed_key one;
	struct fluxonkv_stat st;
	struct fluxonkv_putop op;
	char *text = NULL;
	uint64_t count;
	size_t n;
	double t;

#define TRY(call) do { \
		t = now(); \
		check((call) < 0, #call " has nobody to answer"); \
		in_time(t, #call); \
	} while (0)
	TRY(put_marked(kv, "new", KIB, 1));
	TRY(fluxonkv_put_begin(kv, "new", 3, KIB, 0, &op));
	TRY(fluxonkv_delete(kv, "other", 5));
	TRY(fluxonkv_exists(kv, "absent", 6));
	TRY(fluxonkv_stat(kv, "absent", 6, &st));
	TRY(fluxonkv_list(kv, NULL, NULL, &one, 1, &n));
	TRY(fluxonkv_count(kv, "", 0, &count));
	TRY(fluxonkv_admin(kv, "status", NULL, &text));
#undef TRY
}

/* SIGSTOP the daemon for @ms: hits end with its index's time to live. */
static int do_frozen(unsigned int pid, unsigned int ms)
{
	struct fluxonkv *kv = open_client();
	unsigned int early = 0, late = 0, hits = 0;
	struct fluxonkv_holder h, kept;
	double stop, t;
	int err;

	expect(put_marked(kv, "hot", 64 * KIB, 1), 0, "put");
	expect(put_marked(kv, "other", KIB, 2), 0, "put");
	expect(fluxonkv_get(kv, "hot", 3, &kept), 0, "hold");
	fluxonkv_set_timeout(kv, FROZEN_MS);
	for (unsigned int i = 0; i < 50; i++)
		held(kv, "hot", 64 * KIB, 1);
	stop = now();
	kill((pid_t)pid, SIGSTOP);
	while (now() - stop < ms / 1e3) {
		t = now();
		err = fluxonkv_get(kv, "hot", 3, &h);
		in_time(t, "get of a frozen daemon");
		check(!err || err == -ETIMEDOUT || err == -ENOTCONN,
		      fluxonkv_last_error());
		if (!err) {
			*(t - stop < 1.3 ? &early : &late) += 1;
			fluxonkv_release(kv, &h);
		}
		usleep(1000);
	}
	frozen_calls(kv);
	check(marked(kept.data, kept.len, 1), "held bytes");
	kill((pid_t)pid, SIGCONT);
	t = now();
	do
		err = fluxonkv_get(kv, "hot", 3, &h);
	while (err && now() - t < 5);
	expect(err, 0, "it goes on");
	check(!err && marked(h.data, h.len, 1), "its bytes");
	fluxonkv_release(kv, &h);
	fluxonkv_set_timeout(kv, 10000);
	expect(put_marked(kv, "hot", 64 * KIB, 5), 0, "put");
	held(kv, "hot", 64 * KIB, 5);
	check(marked(kept.data, kept.len, 1), "held bytes");
	expect(fluxonkv_release(kv, &kept), 0, "release");
	for (unsigned int i = 0; i < 50; i++)
		hits += !fluxonkv_exists(kv, "hot", 3);
	printf("early %u late %u after %u\n", early, late, hits);
	check(early > 0 && !late && hits == 50, "hits end in time");
	fluxonkv_close(kv);
	return failures != 0;
}

/* ---- caps: H4, A3 ---- */

/* Hold values of 1 MiB until it is refused; by message when keys are long. */
static unsigned int hold_most(struct fluxonkv *kv, unsigned int max, int want)
{
	struct fluxonkv_holder h;
	char name[300];
	int err = 0;
	unsigned int n;

	for (n = 0; n < max && !err; n++) {
		memset(name, 'c', 250);
		sprintf(name + 250, "/%u", n);
		err = put_marked(kv, name, MIB, n);
		if (!err)
			err = fluxonkv_get(kv, name, strlen(name), &h);
	}
	expect(err, want, "the cap");
	if (err)
		check(*fluxonkv_last_error(), "a sentence");
	return err ? n - 1 : n;
}

/* Caps of 8 MiB a client and 12 MiB a user. */
static int do_caps(void)
{
	struct fluxonkv *a = open_client(), *b = open_client();
	struct fluxonkv *c = open_client();
	struct fluxonkv_putop op[16];
	char name[32];
	unsigned int n = 0;

	n = hold_most(a, 64, -EDQUOT);
	check(n >= 7 && n <= 8, "8 MiB for a client");
	n = hold_most(b, 64, -EDQUOT);
	check(n >= 3 && n <= 5, "12 MiB for a user");
	/* one that holds for ever does not stop the others */
	fluxonkv_close(b);
	check(becomes(c, "status", "\"clients\"", 2, 3), "one has gone");
	for (unsigned int i = 0; i < 300; i++) {
		sprintf(name, "caps/%u", i);
		expect(put_marked(c, name, MIB, i), 0, name);
	}
	for (n = 0; n < 16; n++) {
		sprintf(name, "open/%u", n);
		if (fluxonkv_put_begin(c, name, strlen(name), MIB, 0, &op[n]))
			break;
	}
	check(n >= 3 && n <= 5, "open puts count");
	fluxonkv_close(a);
	check(becomes(c, "status", "\"clients\"", 1, 3), "the others are gone");
	for (; n < 16; n++) {
		sprintf(name, "open/%u", n);
		if (fluxonkv_put_begin(c, name, strlen(name), MIB, 0, &op[n]))
			break;
	}
	check(n == 8, "a client that went frees its user's");
	expect(fluxonkv_put_abort_many(c, op, n), 0, "abort");
	fluxonkv_close(c);
	return failures != 0;
}

/* Without caps, of 64 MiB: 40 of 1 MiB. */
static int do_uncapped(void)
{
	struct fluxonkv *kv = open_client();

	check(hold_most(kv, 40, 0) == 40, "40 MiB by one client");
	fluxonkv_close(kv);
	return failures != 0;
}

/* ---- scan: eviction.new_values ---- */

/* 20 values that are used, then @n that are not: how many are left? */
static int do_scan(unsigned int n)
{
	struct fluxonkv *kv = open_client();
	unsigned int left = 0;
	char name[32];

	for (unsigned int i = 0; i < 20; i++) {
		sprintf(name, "hot/%u", i);
		expect(put_marked(kv, name, MIB, i), 0, name);
	}
	for (unsigned int turn = 0; turn < 3; turn++) {
		for (unsigned int i = 0; i < 20; i++) {
			sprintf(name, "hot/%u", i);
			held(kv, name, MIB, i);
		}
		usleep(250000);	/* hits are passed on each 100 ms */
	}
	for (unsigned int i = 0; i < n; i++) {
		sprintf(name, "scan/%u", i);
		expect(put_marked(kv, name, MIB, i), 0, name);
	}
	held(kv, name, MIB, n - 1);	/* the newest always stays */
	for (unsigned int i = 0; i < 20; i++) {
		sprintf(name, "hot/%u", i);
		left += !fluxonkv_exists(kv, name, strlen(name));
	}
	printf("left %u\n", left);
	fluxonkv_close(kv);
	return failures != 0;
}

int main(int argc, char **argv)
{
	static const struct word words[] = {
		{ "identity-write", .plain = do_identity_write },
		{ "identity", .one = do_identity },
		{ "counts", .one = do_counts },
		{ "publish", .one = do_publish },
		{ "partial", .one = do_partial },
		{ "survive", .one = do_survive },
		{ "frozen", .two = do_frozen },
		{ "caps", .plain = do_caps },
		{ "uncapped", .plain = do_uncapped },
		{ "scan", .one = do_scan },
	};

	return run_word(words, sizeof(words) / sizeof(words[0]), argc, argv);
}
