// SPDX-License-Identifier: Apache-2.0
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "client.h"
#include "kdev.h"

#define NO_CAP		(INT64_MAX / 2)
#define STEPS		(FKV_STRIPES * 4)	/* a cap is drawn in these */
#define DEFAULT_SOCKET	"/run/fluxonkv/fluxonkv.sock"

int fkv_client_check_slow(const struct fluxonkv *client, const char *call)
{
	if (!client)
		return fkv_lib_fail(-EINVAL, "%s: client is NULL", call);
	return fkv_lib_fail(-EOWNERDEAD, "%s: this client was opened before "
			    "fork(); the child must open its own", call);
}

int fkv_key_check(const char *call, const void *key, size_t len)
{
	if (fkv_likely(key && len - 1 < FLUXONKV_KEY_MAX))
		return 0;
	if (!key && len)
		return fkv_lib_fail(-EINVAL, "%s: key is NULL", call);
	return fkv_lib_fail(len ? -E2BIG : -EINVAL, "%s: key of %zu bytes, "
			    "expected 1 to %d", call, len, FLUXONKV_KEY_MAX);
}

int fkv_batch_check(const char *call, const void *items, size_t n)
{
	if (n > FLUXONKV_BATCH_MAX)
		return fkv_lib_fail(-E2BIG, "%s: batch of %zu, expected at "
				    "most %d", call, n, FLUXONKV_BATCH_MAX);
	if (n && !items)
		return fkv_lib_fail(-EINVAL, "%s: an array is NULL", call);
	return 0;
}

int fkv_copy(void *dst, const void *src, uint64_t len, uint64_t deadline)
{
	uint8_t *d = dst;
	const uint8_t *s = src;

	while (len) {
		size_t n = len < FKV_LIB_PIECE ? len : FKV_LIB_PIECE;

		memcpy(d, s, n);
		d += n;
		s += n;
		len -= n;
		if (len && fkv_now_ns() > deadline)
			return fkv_lib_fail(-ETIMEDOUT, "the deadline passed "
					    "while the value was copied");
	}
	return 0;
}

/* The cap */

static int64_t step_of(const struct fluxonkv *client)
{
	return __atomic_load_n(&client->cap, __ATOMIC_RELAXED) / STEPS;
}

/* Other stripes' credit back to the client. */
static void collect_credit(struct fluxonkv *client)
{
	for (unsigned int i = 0; i < FKV_STRIPES; i++) {
		int64_t *credit = &client->stripes[i].credit;
		int64_t c = __atomic_load_n(credit, __ATOMIC_RELAXED);

		while (c > 0 &&
		       !__atomic_compare_exchange_n(credit, &c, 0, true,
						    __ATOMIC_RELAXED,
						    __ATOMIC_RELAXED))
			;
		if (c > 0)
			__atomic_fetch_sub(&client->drawn, c,
					   __ATOMIC_RELAXED);
	}
}

static bool draw(struct fluxonkv *client, int64_t want)
{
	int64_t cap = __atomic_load_n(&client->cap, __ATOMIC_RELAXED);

	if (__atomic_add_fetch(&client->drawn, want, __ATOMIC_RELAXED) <= cap)
		return true;
	__atomic_fetch_sub(&client->drawn, want, __ATOMIC_RELAXED);
	return false;
}

/* The stripe's credit has just gone below 0 by @bytes. */
bool fkv_cap_take_slow(struct fluxonkv *client, struct fkv_stripe *stripe,
		       int64_t bytes)
{
	int64_t step = step_of(client);

	__atomic_fetch_add(&stripe->credit, bytes, __ATOMIC_RELAXED);
	if (draw(client, bytes + step)) {
		__atomic_fetch_add(&stripe->credit, step, __ATOMIC_RELAXED);
		return true;
	}
	collect_credit(client);
	if (draw(client, bytes))
		return true;
	fkv_lib_fail(-EDQUOT, "over this client's cap of %lld pinned bytes",
		     (long long)client->cap);
	return false;
}

void fkv_cap_give(struct fluxonkv *client, uint64_t len)
{
	struct fkv_stripe *stripe = fkv_client_stripe(client);
	int64_t bytes = (int64_t)fluxonkv_charge(len);
	int64_t keep = 2 * step_of(client), c;

	c = __atomic_add_fetch(&stripe->credit, bytes, __ATOMIC_RELAXED);
	/* above the cap (a put was forced in) no credit may be kept back */
	if (fkv_likely(c <= keep) &&
	    __atomic_load_n(&client->drawn, __ATOMIC_RELAXED) <=
		    __atomic_load_n(&client->cap, __ATOMIC_RELAXED))
		return;
	if (__atomic_compare_exchange_n(&stripe->credit, &c, 0, false,
					__ATOMIC_RELAXED, __ATOMIC_RELAXED))
		__atomic_fetch_sub(&client->drawn, c, __ATOMIC_RELAXED);
}

void fkv_cap_force(struct fluxonkv *client, uint64_t len)
{
	__atomic_fetch_add(&client->drawn, (int64_t)fluxonkv_charge(len),
			   __ATOMIC_RELAXED);
}

/* Connections */

/* Has every thread that may have found an older connection moved on? */
static bool stripes_quiet(struct fluxonkv *client)
{
	for (unsigned int i = 0; i < FKV_STRIPES; i++) {
		if (__atomic_load_n(&client->stripes[i].busy,
				    __ATOMIC_SEQ_CST))
			return false;
	}
	return true;
}

static uint64_t conn_hits(const struct fkv_conn *conn)
{
	if (!conn->pins.index)
		return 0;
	return __atomic_load_n(&conn->pins.pages->counter[FLUXONKV_CNT_HITS],
			       __ATOMIC_RELAXED);
}

static void reap(struct fluxonkv *client)
	FKV_LOCKS(requires_capability(client->lock));

/*
 * Free older connections that nothing refers to. The stripes are read before
 * the slots: a thread stores its pin before it leaves its stripe.
 */
static void reap(struct fluxonkv *client)
{
	struct fkv_conn *conn, *next;

	if (TAILQ_FIRST(&client->conns) == TAILQ_LAST(&client->conns, fkv_conns)
	    || !stripes_quiet(client))
		return;
	for (conn = TAILQ_FIRST(&client->conns); conn; conn = next) {
		next = TAILQ_NEXT(conn, link);
		if (conn == client->conn ||
		    __atomic_load_n(&conn->refs, __ATOMIC_ACQUIRE) ||
		    fkv_pins_held(&conn->pins))
			continue;
		TAILQ_REMOVE(&client->conns, conn, link);
		client->past_hits += conn_hits(conn);
		fkv_conn_free(conn);
	}
}

void fkv_client_drop(struct fluxonkv *client, struct fkv_conn *conn)
{
	/* the current one has a reference of the client: 0 means replaced */
	if (__atomic_sub_fetch(&conn->refs, 1, __ATOMIC_ACQ_REL))
		return;
	pthread_mutex_lock(&client->lock);
	reap(client);
	pthread_mutex_unlock(&client->lock);
}

/*
 * The current connection with a reference, without a lock; NULL when it is not
 * @want (NULL: any that lives).
 */
static struct fkv_conn *current(struct fluxonkv *client,
				const struct fkv_conn *want)
{
	struct fkv_stripe *stripe = fkv_client_stripe(client);
	struct fkv_conn *conn;

	/* as in fkv_hit(); who sees us gone sees our reference */
	__atomic_fetch_add(&stripe->busy, 1, __ATOMIC_SEQ_CST);
	conn = __atomic_load_n(&client->conn, __ATOMIC_SEQ_CST);
	if (want ? conn == want : !fkv_conn_dead(conn))
		fkv_conn_get(conn);
	else
		conn = NULL;
	__atomic_fetch_sub(&stripe->busy, 1, __ATOMIC_RELEASE);
	return conn;
}

bool fkv_client_find(struct fluxonkv *client, struct fkv_conn *conn)
{
	struct fkv_conn *c;

	if (conn && current(client, conn))
		return true;
	pthread_mutex_lock(&client->lock);
	TAILQ_FOREACH(c, &client->conns, link) {
		if (c == conn)
			break;
	}
	if (c)
		fkv_conn_get(c);
	pthread_mutex_unlock(&client->lock);
	return c != NULL;
}

static void install(struct fluxonkv *client, struct fkv_conn *conn)
	FKV_LOCKS(requires_capability(client->lock));

static void install(struct fluxonkv *client, struct fkv_conn *conn)
{
	struct fkv_conn *old = client->conn;
	uint64_t cap = conn->hello.client_cap_bytes;

	TAILQ_INSERT_TAIL(&client->conns, conn, link);
	__atomic_store_n(&client->cap, cap && cap < NO_CAP ? (int64_t)cap :
							     NO_CAP,
			 __ATOMIC_RELAXED);
	__atomic_store_n(&client->conn, conn, __ATOMIC_SEQ_CST);
	if (!old)
		return;
	client->reconnects++;
	__atomic_fetch_sub(&old->refs, 1, __ATOMIC_ACQ_REL);
	reap(client);
}

/* What means that a daemon may still be about to come back. */
static bool may_return(int err)
{
	return err == -ENOENT || err == -ECONNREFUSED || err == -ENOTCONN ||
	       err == -ECONNRESET || err == -EPIPE || err == -ENODEV;
}

static const char *behind_scheme(const char *address)
{
	return strchr(address, ':') + 1;
}

static int connect_once(struct fluxonkv *client, uint64_t deadline,
			struct fkv_conn **ret_conn)
{
	return client->device ?
		       fkv_kdev_open(client->instance, ret_conn) :
		       fkv_conn_open(behind_scheme(client->address), deadline,
				     ret_conn);
}

/* Try again and again until @deadline; nobody else connects meanwhile. */
static int reconnect(struct fluxonkv *client, uint64_t deadline,
		     struct fkv_conn **ret_conn)
{
	int err;

	for (;;) {
		err = connect_once(client, deadline, ret_conn);
		if (!err || !may_return(err))
			return err;
		if (fkv_now_ns() + FKV_LIB_RETRY_MS * FKV_LIB_MS >= deadline)
			break;
		poll(NULL, 0, FKV_LIB_RETRY_MS);
	}
	return fkv_lib_fail(-ENOTCONN, "the daemon at %s is gone and did not "
			    "come back by the deadline: %s", client->address,
			    strerror(-err));
}

static int wait_connected(struct fluxonkv *client, uint64_t deadline)
	FKV_LOCKS(requires_capability(client->lock));

/* Wait while another thread connects: 0, or -ENOTCONN. Lock held. */
static int wait_connected(struct fluxonkv *client, uint64_t deadline)
{
	uint64_t until = deadline + FKV_LIB_GRACE_NS;
	struct timespec ts = {
		.tv_sec = (time_t)(until / 1000000000ULL),
		.tv_nsec = (long)(until % 1000000000ULL),
	};

	while (client->connecting) {
		if (pthread_cond_timedwait(&client->connected, &client->lock,
					   &ts))
			return fkv_lib_fail(-ENOTCONN, "the daemon is gone "
					    "and did not come back by the "
					    "deadline");
	}
	return 0;
}

static void keep_held(struct fluxonkv *client, uint64_t deadline)
	FKV_LOCKS(requires_capability(client->lock));

/*
 * Keep what is held of connections that are dead, once no thread can be about
 * to pin on one. Lock held, and given up meanwhile.
 */
static void keep_held(struct fluxonkv *client, uint64_t deadline)
{
	struct fkv_conn *conn;

	/* who keeps is about to change what is looked at here */
	if (client->keeping)
		return;
	TAILQ_FOREACH(conn, &client->conns, link) {
		if (fkv_conn_dead(conn) && !conn->keep.done)
			break;
	}
	if (!conn || !stripes_quiet(client))
		return;
	client->keeping = true;
	fkv_conn_get(conn);
	pthread_mutex_unlock(&client->lock);
	fkv_keep_held(conn, deadline);
	fkv_client_drop(client, conn);
	pthread_mutex_lock(&client->lock);
	client->keeping = false;
}

int fkv_client_conn(struct fluxonkv *client, bool again, uint64_t deadline,
		    struct fkv_conn **ret_conn)
{
	struct fkv_conn *conn;
	int err = 0;

	if (client->device && again) {
		*ret_conn = current(client, NULL);
		if (fkv_likely(*ret_conn))
			return 0;
	}
	pthread_mutex_lock(&client->lock);
	fkv_conn_look(client->conn);
	keep_held(client, deadline);
	while (!err && fkv_conn_dead(client->conn)) {
		if (client->connecting) {
			err = wait_connected(client, deadline);
			continue;
		}
		client->connecting = true;
		pthread_mutex_unlock(&client->lock);
		err = reconnect(client, deadline, &conn);
		pthread_mutex_lock(&client->lock);
		client->connecting = false;
		if (!err)
			install(client, conn);
		pthread_cond_broadcast(&client->connected);
	}
	if (!err) {
		fkv_conn_get(client->conn);
		*ret_conn = client->conn;
	}
	pthread_mutex_unlock(&client->lock);
	return err;
}

int fkv_client_call_on(struct fluxonkv *client, struct fkv_conn *conn,
		       struct fkv_msg *msg, uint64_t deadline,
		       struct fkv_reply *ret_reply)
{
	__atomic_fetch_add(&client->requests, 1, __ATOMIC_RELAXED);
	return fkv_conn_call(conn, msg, deadline, ret_reply);
}

int fkv_client_call(struct fluxonkv *client, struct fkv_msg *msg, bool again,
		    uint64_t deadline, struct fkv_reply *ret_reply,
		    struct fkv_conn **ret_conn)
{
	for (;;) {
		int err = fkv_client_conn(client, again, deadline, ret_conn);

		if (err)
			return err;
		err = fkv_client_call_on(client, *ret_conn, msg, deadline,
					 ret_reply);
		if (!err)
			return 0;
		fkv_client_drop(client, *ret_conn);
		if (err != -ENOTCONN || !again || fkv_now_ns() >= deadline)
			return err;
	}
}

/* Open, close, settings */

static bool is_device(const char *address)
{
	return !strncmp(address, "dev:", 4);
}

static int check_address(const char *address)
{
	if (is_device(address))
		return fkv_kdev_check_name(behind_scheme(address));
	if (!strncmp(address, "unix:", 5) && address[5])
		return 0;
	return fkv_lib_fail(-EINVAL, "address \"%s\", expected \"unix:PATH\" "
			    "or \"dev:INSTANCE\"", address);
}

/*
 * What NULL means, into @buf of @size bytes. A socket that is there comes
 * before the device: who made it is the daemon of this user or host, while of
 * the device's instances none may be meant.
 */
static void default_address(char *buf, size_t size)
{
	const char *env = getenv("FLUXONKV");
	const char *run = getenv("XDG_RUNTIME_DIR");
	bool socket = !access(DEFAULT_SOCKET, F_OK);

	if (env && *env) {
		snprintf(buf, size, "%s", env);
		return;
	}
	if (!socket && run && *run) {
		snprintf(buf, size, "%s/fluxonkv.sock", run);
		socket = !access(buf, F_OK);
	} else {
		run = NULL;
	}
	if (!socket && fkv_kdev_exists())
		snprintf(buf, size, "dev:");
	else if (run)
		snprintf(buf, size, "unix:%s/fluxonkv.sock", run);
	else
		snprintf(buf, size, "unix:%s", DEFAULT_SOCKET);
}

static struct fluxonkv *create(const char *address)
{
	size_t size = sizeof(struct fluxonkv) + strlen(address) + 1;
	pthread_condattr_t attr;
	struct fluxonkv *client;

	client = aligned_alloc(64, (size + 63) & ~(size_t)63);
	if (!client)
		return NULL;
	memset(client, 0, size);
	strcpy(client->address, address);
	client->device = is_device(address);
	if (client->device)
		strcpy(client->instance, behind_scheme(address));
	client->generation = fkv_fork_now();
	client->timeout_ns = FLUXONKV_DEFAULT_TIMEOUT_MS * FKV_LIB_MS;
	pthread_mutex_init(&client->lock, NULL);
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&client->connected, &attr);
	pthread_condattr_destroy(&attr);
	TAILQ_INIT(&client->conns);
	return client;
}

int fluxonkv_open(const char *address, struct fluxonkv **ret_client)
{
	struct fluxonkv *client;
	struct fkv_conn *conn;
	char buf[256];
	int err;

	if (!ret_client)
		return fkv_lib_fail(-EINVAL, "open: ret_client is NULL");
	if (!address) {
		default_address(buf, sizeof(buf));
		address = buf;
	}
	err = check_address(address);
	if (err)
		return err;
	err = fkv_fork_init();
	client = err ? NULL : create(address);
	if (!client)
		return fkv_lib_fail(-ENOMEM, "open: no memory for a client");
	err = connect_once(client, fkv_client_deadline(client), &conn);
	if (err) {
		free(client);
		return err;
	}
	pthread_mutex_lock(&client->lock);
	install(client, conn);
	pthread_mutex_unlock(&client->lock);
	*ret_client = client;
	return 0;
}

static void close_foreign(struct fluxonkv *client)
	FKV_LOCKS(no_thread_safety_analysis);	/* the lock is freed with it */

/*
 * In a forked child: its memory only. The list may have been in change in the
 * parent: then the memory is given up.
 */
static void close_foreign(struct fluxonkv *client)
{
	struct fkv_conn *conn, *next;

	if (pthread_mutex_trylock(&client->lock))
		return;
	for (conn = TAILQ_FIRST(&client->conns); conn; conn = next) {
		next = TAILQ_NEXT(conn, link);
		fkv_conn_forget(conn);
	}
	free(client);
}

void fluxonkv_close(struct fluxonkv *client)
{
	struct fkv_conn *conn, *next;

	if (!client)
		return;
	if (client->generation != fkv_fork_now()) {
		close_foreign(client);
		return;
	}
	for (conn = TAILQ_FIRST(&client->conns); conn; conn = next) {
		next = TAILQ_NEXT(conn, link);
		fkv_conn_free(conn);
	}
	pthread_cond_destroy(&client->connected);
	pthread_mutex_destroy(&client->lock);
	free(client);
}

int fluxonkv_set_timeout(struct fluxonkv *client, unsigned int timeout_ms)
{
	int err = fkv_client_check(client, "set_timeout");

	if (!err)
		__atomic_store_n(&client->timeout_ns, timeout_ms * FKV_LIB_MS,
				 __ATOMIC_RELAXED);
	return err;
}

int fluxonkv_get_counters(struct fluxonkv *client,
			  struct fluxonkv_counters *ret)
{
	int err = fkv_client_check(client, "get_counters");
	struct fkv_conn *conn;
	int64_t bytes;

	if (err)
		return err;
	if (!ret)
		return fkv_lib_fail(-EINVAL, "get_counters: ret_counters is "
				    "NULL");
	memset(ret, 0, sizeof(*ret));
	bytes = __atomic_load_n(&client->drawn, __ATOMIC_RELAXED);
	for (unsigned int i = 0; i < FKV_STRIPES; i++)
		bytes -= __atomic_load_n(&client->stripes[i].credit,
					 __ATOMIC_RELAXED);
	ret->held_bytes = bytes < 0 ? 0 : (uint64_t)bytes;
	ret->requests = __atomic_load_n(&client->requests, __ATOMIC_RELAXED);
	ret->hits_local = __atomic_load_n(&client->kernel_hits,
					  __ATOMIC_RELAXED);
	ret->held = __atomic_load_n(&client->message_held, __ATOMIC_RELAXED);
	pthread_mutex_lock(&client->lock);
	ret->reconnects = client->reconnects;
	ret->hits_local += client->past_hits;
	TAILQ_FOREACH(conn, &client->conns, link) {
		ret->hits_local += conn_hits(conn);
		ret->held += fkv_pins_held(&conn->pins);
	}
	pthread_mutex_unlock(&client->lock);
	return 0;
}
