// SPDX-License-Identifier: Apache-2.0
/*
 * nth_lib - the client library against a small server
 *
 * A call that met a failure returns ENOMEM, or ENOTCONN when it was asked for and
 * its answer had no room: it may have been done; or it worked. The client goes on, and
 * the server has back all holders and puts that it gave.
 */
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "nth.h"

static ssize_t seen_recv(int fd, void *buf, size_t size, int flags);

/* The server's checks, where no test of check(3) runs. */
#include <check.h>
#undef ck_assert_int_eq
#undef ck_assert_int_ge
#undef ck_assert_uint_eq
#undef ck_assert_ptr_ne
#undef ck_assert_ptr_nonnull
#define ck_assert_int_eq(a, b)		must((a) == (b))
#define ck_assert_int_ge(a, b)		must((a) >= (b))
#define ck_assert_uint_eq(a, b)		must((a) == (b))
#define ck_assert_ptr_ne(a, b)		must((a) != (b))
#define ck_assert_ptr_nonnull(p)	must((p) != NULL)

static void must(bool true_)
{
	if (!true_)
		abort();
}

/* The server's client is its thread's own. */
static _Atomic bool busy;

static int seen_accept4(int fd, struct sockaddr *sa, socklen_t *len, int flags)
{
	int client = accept4(fd, sa, len, flags);

	busy = client >= 0;
	return client;
}

static int seen_close(int fd)
{
	int err = close(fd);

	busy = false;
	return err;
}

#define recv seen_recv
#define accept4 seen_accept4
#define close seen_close
#pragma GCC diagnostic ignored "-Wunused-function"
#include "unit/lib_fake_server.h"
#undef recv
#undef accept4
#undef close

#define MANY	300		/* replies that need memory of their own */

static struct fluxonkv *c;
static unsigned int given, begun;	/* by the server's lock */

/* What the server will give for a request; bodies follow frames. */
static ssize_t seen_recv(int fd, void *buf, size_t size, int flags)
{
	static bool is_body;
	ssize_t n = recv(fd, buf, size, flags);
	struct fluxonkv_req req;

	if (is_body && n >= (ssize_t)sizeof(req)) {
		memcpy(&req, buf, sizeof(req));
		pthread_mutex_lock(&server.lock);
		if (server.mode == ANSWER && req.op == FLUXONKV_OP_GET)
			given += req.nr;
		if (server.mode == ANSWER && req.op == FLUXONKV_OP_PUT_BEGIN)
			begun += req.nr;
		pthread_mutex_unlock(&server.lock);
	}
	is_body = n == sizeof(struct fluxonkv_frame) && !is_body;
	return n;
}

/* True when it worked. */
static bool ok(const char *call, int err, uint64_t before)
{
	nth_check(!err || ((err == -ENOMEM || err == -ENOTCONN) &&
			   nth_failures() > before),
		  "%s returns %d, %lu failures since", call, err,
		  nth_failures() - before);
	nth_check(!err || fluxonkv_last_error()[0], "%s says nothing", call);
	return !err;
}

/* Each @call with the failures that it met. */
#define TRY(call)						\
	({							\
		uint64_t before_ = nth_failures();		\
		ok(#call, call, before_);			\
	})

static void is_value(const char *call, const struct fluxonkv_holder *h)
{
	nth_check(h->len == 5 && !memcmp(h->data, "value", 5),
		  "%s: another value", call);
}

static void get_one(void)
{
	struct fluxonkv_holder h = { 0 };
	uint64_t len = 0;
	char buf[8] = "";

	if (TRY(fluxonkv_get(c, "k1", 2, &h))) {
		is_value("get", &h);
		TRY(fluxonkv_release(c, &h));
	}
	if (TRY(fluxonkv_get_into(c, "k1", 2, buf, sizeof(buf), &len)))
		nth_check(len == 5 && !memcmp(buf, "value", 5),
			  "get_into: another value");
}

static void get_many(void)
{
	static struct fluxonkv_key keys[MANY];
	static struct fluxonkv_holder h[MANY];
	uint64_t before = nth_failures();

	for (int i = 0; i < MANY; i++)
		keys[i] = (struct fluxonkv_key){ "k1", 2 };
	if (!TRY(fluxonkv_get_many(c, keys, MANY, h)))
		return;
	for (int i = 0; i < MANY; i++)
		if (ok("get_many's", h[i].status, before))
			is_value("get_many", &h[i]);
	TRY(fluxonkv_release_many(c, h, MANY));
}

static void into_many(void)
{
	static struct fluxonkv_into into[MANY];
	static char buf[MANY][8];
	uint64_t before = nth_failures();

	memset(buf, 0, sizeof(buf));
	for (int i = 0; i < MANY; i++)
		into[i] = (struct fluxonkv_into){
			.key = { "k1", 2 }, .buf = buf[i], .size = 8,
		};
	if (!TRY(fluxonkv_get_into_many(c, into, MANY)))
		return;
	for (int i = 0; i < MANY; i++)
		if (ok("get_into_many's", into[i].status, before))
			nth_check(!memcmp(buf[i], "value", 5),
				  "get_into_many: another value");
}

static void puts_by_copy(void)
{
	static struct fluxonkv_value v[MANY];
	uint64_t before;

	TRY(fluxonkv_put(c, "k2", 2, "value", 5, 0));
	before = nth_failures();
	for (int i = 0; i < MANY; i++)
		v[i] = (struct fluxonkv_value){
			.key = { "k2", 2 }, .data = "value", .len = 5,
		};
	if (!TRY(fluxonkv_put_many(c, v, MANY)))
		return;
	for (int i = 0; i < MANY; i++)
		ok("put_many's", v[i].status, before);
}

static void puts_in_place(void)
{
	struct fluxonkv_putop put = { 0 };

	if (TRY(fluxonkv_put_begin(c, "k3", 2, 5, 0, &put))) {
		memcpy(put.data, "value", 5);
		TRY(fluxonkv_put_extend(c, &put));
		TRY(fluxonkv_put_commit(c, &put));
	}
	if (TRY(fluxonkv_put_begin(c, "k3", 2, 5, 0, &put)))
		TRY(fluxonkv_put_abort(c, &put));
}

static void stat_many(void)
{
	static struct fluxonkv_key keys[MANY];
	static struct fluxonkv_stat st[MANY];
	static int status[MANY];
	uint64_t before = nth_failures();
	size_t run = 0;

	for (int i = 0; i < MANY; i++)
		keys[i] = (struct fluxonkv_key){ "k1", 2 };
	if (TRY(fluxonkv_stat_many(c, keys, MANY, st, &run)))
		nth_check(run == MANY, "stat_many: %zu are there", run);
	if (TRY(fluxonkv_exists_many(c, keys, MANY, NULL, &run)))
		nth_check(run == MANY, "exists_many: %zu are there", run);
	if (TRY(fluxonkv_delete_many(c, keys, MANY, status)))
		for (int i = 0; i < MANY; i++)
			ok("delete_many's", status[i], before);
}

static void others(void)
{
	static struct fluxonkv_listed_key listed[1000];
	uint64_t n = 0;
	size_t nr = 0;
	char *text;

	TRY(fluxonkv_exists(c, "k1", 2));
	TRY(fluxonkv_delete(c, "k1", 2));
	if (TRY(fluxonkv_list(c, NULL, NULL, listed, 1000, &nr)))
		nth_check(nr == 1 && listed[0].key_len == 4,
			  "list: %zu keys", nr);
	if (TRY(fluxonkv_count(c, NULL, 0, &n)))
		nth_check(n == 7, "count: %lu", n);
	if (TRY(fluxonkv_admin(c, "status", NULL, &text))) {
		nth_check(!strcmp(text, "{}"), "admin: %s", text);
		free(text);
	}
}

static void calls(void)
{
	get_one();
	get_many();
	into_many();
	puts_by_copy();
	puts_in_place();
	stat_many();
	others();
}

static void hits(void)
{
	static struct fluxonkv_key keys[MANY];
	static struct fluxonkv_holder h[MANY];
	struct fluxonkv_holder hot = { 0 };
	uint64_t before = nth_failures();

	if (TRY(fluxonkv_get(c, "khot", 4, &hot)))
		TRY(fluxonkv_release(c, &hot));
	/* the pages have 64 slots: the rest is by message */
	for (int i = 0; i < MANY; i++)
		keys[i] = (struct fluxonkv_key){ "khot", 4 };
	/* also when the call fails, each key has a status, and hits are held */
	TRY(fluxonkv_get_many(c, keys, MANY, h));
	for (int i = 0; i < MANY; i++)
		if (ok("get_many's", h[i].status, before))
			TRY(fluxonkv_release(c, &h[i]));
}

/* Holders of before stay while it comes back. */
static void reconnect(void)
{
	struct fluxonkv_holder h = { 0 }, again = { 0 };
	bool held = TRY(fluxonkv_get(c, "k1", 2, &h));

	set_mode(HANG_UP);
	if (TRY(fluxonkv_get(c, "k1", 2, &again))) {
		is_value("get again", &again);
		TRY(fluxonkv_release(c, &again));
	}
	set_mode(ANSWER);
	get_one();
	TRY(fluxonkv_put(c, "k2", 2, "value", 5, 0));
	if (held) {
		is_value("held over", &h);
		TRY(fluxonkv_release(c, &h));
	}
}

/* All that was given is back, soon. */
static void balance(void)
{
	struct fluxonkv_counters n;
	bool back = false, exact;

	fluxonkv_get_counters(c, &n);
	nth_check(!n.held && !n.held_bytes, "%lu holders, %lu bytes are held",
		  n.held, n.held_bytes);
	/* what a connection had goes with it */
	exact = !n.reconnects;
	for (int i = 0; i < 300 && exact && !back; i++) {
		pthread_mutex_lock(&server.lock);
		back = given == server.released &&
		       begun == server.committed + server.aborted;
		pthread_mutex_unlock(&server.lock);
		if (!back)
			usleep(1000);
	}
	nth_check(back || !exact,
		  "the server gave %u holders and %u puts, has %u and %u back",
		  given, begun, server.released,
		  server.committed + server.aborted);
}

/* The server has seen the end of who came before. */
static void wait_for_server(void)
{
	while (busy)
		usleep(100);
}

static void start(void)
{
	pthread_mutex_lock(&server.lock);
	given = begun = server.released = 0;
	server.committed = server.aborted = 0;
	pthread_mutex_unlock(&server.lock);
	set_mode(ANSWER);
}

static void scenario(void *arg)
{
	void (*run_calls)(void) = *(void (**)(void))arg;

	start();
	nth_arm();
	if (TRY(fluxonkv_open(address, &c))) {
		run_calls();
		nth_heal();
		set_mode(ANSWER);
		calls();
		balance();
		fluxonkv_close(c);
	}
	nth_heal();
	/* another, whom it serves when it is through with the first */
	if (TRY(fluxonkv_open(address, &c))) {
		get_one();
		fluxonkv_close(c);
	}
	nth_disarm();
	wait_for_server();
}

int main(void)
{
	void (*by_message)(void) = calls, (*by_index)(void) = hits;
	void (*again)(void) = reconnect;

	setup();
	nth_all("by messages", scenario, &by_message);
	nth_all("hang up", scenario, &again);
	server.index = true;
	nth_all("by the index", scenario, &by_index);
	nth_all("hang up, index", scenario, &again);
	server.arena = true;
	nth_all("by an arena", scenario, &by_message);
	teardown();
	return nth_end();
}
