/* SPDX-License-Identifier: Apache-2.0 */
/*
 * common.h - what the programs share that test the device in a guest
 *
 * Each test is a child of its own, with a time limit; when it has ended,
 * nothing of the module may be left: no pinned byte, no reference.
 */
#ifndef FKV_VM_DEVICE_COMMON_H
#define FKV_VM_DEVICE_COMMON_H

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <linux/fluxonkv.h>

typedef uint8_t u8;
typedef uint16_t u16;
typedef uint32_t u32;
typedef uint64_t u64;

#define MIB	(1ULL << 20)
#define SEC_NS	1000000000ULL
#define PAGE	4096ULL
#define ARRAY_SIZE(a)	(sizeof(a) / sizeof((a)[0]))

/* ---- the frame ---- */

struct test {
	const char *name;
	void (*fn)(void);
	u32 seconds;			/* 0: 60 */
};

#define TEST(f)		{ #f, f, 0 }
#define LONG_TEST(f, s)	{ #f, f, s }

/* Runs all, or those whose name is in argv; the program's exit status. */
int tests_run(const struct test *tests, u32 n, int argc, char **argv);
#define TESTS_RUN(tests, argc, argv) \
	tests_run(tests, ARRAY_SIZE(tests), argc, argv)
/* The same; it fails, too, when the kernel's log has a line more. */
int tests_run_silent(const struct test *tests, u32 n, int argc, char **argv);
#define TESTS_RUN_SILENT(tests, argc, argv) \
	tests_run_silent(tests, ARRAY_SIZE(tests), argc, argv)

/* FULL=1 in the environment: many rounds. */
bool full_run(void);
_Noreturn void test_fail(const char *file, int line, const char *format, ...)
	__attribute__((format(printf, 3, 4)));
_Noreturn void test_skip(const char *why);

#define CHECK(x) do { \
	if (!(x)) \
		test_fail(__FILE__, __LINE__, "%s", #x); \
} while (0)

#define EQ(a, b) do { \
	long long a_ = (long long)(a), b_ = (long long)(b); \
	if (a_ != b_) \
		test_fail(__FILE__, __LINE__, "%s is %lld, not %s (%lld)", \
			  #a, a_, #b, b_); \
} while (0)

u64 now_ns(void);
void sleep_ms(u32 ms);
/* 0 or more, or -errno. */
int ask(int fd, unsigned long cmd, void *arg);
bool kernel_is(u32 major, u32 minor_min);
/* Waits up to @ms until @done. */
bool wait_until(bool (*done)(void *arg), void *arg, u32 ms);
u64 random_next(u64 *state);
void fill(u8 *p, u64 len, u64 seed);
bool filled(const u8 *p, u64 len, u64 seed);
/* The byte, or -signal. */
int probe_read(const volatile u8 *p);
int probe_write(volatile u8 *p, u8 value);
/* A new child: it dies with its parent. */
pid_t spawn(void);
int reap(pid_t pid);
/* A child tells that it has come so far; when it died, the wait fails. */
struct ready {
	int p[2];
};
void ready_init(struct ready *r);
void ready_say(struct ready *r);
void ready_wait(struct ready *r);
u64 pinned(void);
int refcnt(void);
/* Two pages of which only the first is there. */
u8 *edge(void);

/* ---- an owner that answers from a table ---- */

#define OWNER_SLOTS	512
#define OWNER_HEARD	65536

struct owner_slot {
	bool used, committed;
	char key[64];
	u64 put, client, len;
};

struct owner_heard {
	u32 type;
	u64 client, cookie;
};

/*
 * The segment is divided in slots of @slot bytes, each for one put. With
 * @answer it does not answer by itself.
 */
struct owner {
	struct fluxonkv_bind bind;
	u32 segment_flags;
	int fd;
	u8 *map;
	u64 bytes, slot;
	pthread_t thread;
	pthread_mutex_t lock;
	struct owner_slot slots[OWNER_SLOTS];
	u32 next_slot;
	u64 next_put;
	struct owner_heard heard[OWNER_HEARD];
	u32 nr_heard;
	void (*answer)(struct owner *o, struct fluxonkv_message *m,
		       struct fluxonkv_req *q);
};

int owner_node(void);
int client_node(void);
/* All zero but what is wanted: bind fields, flags. */
void owner_start(struct owner *o, const char *name, u64 bytes);
/* A thread takes what comes. */
void owner_serve(struct owner *o);
/* One RECV, into a buffer of this thread; messages are handled by @fn. */
u32 owner_recv(struct owner *o,
	       void (*fn)(struct owner *o, struct fluxonkv_message *m));
void owner_handle(struct owner *o, struct fluxonkv_message *m);
bool owner_heard(struct owner *o, u32 type, u64 client, u64 cookie, u32 ms);
u32 owner_heard_nr(struct owner *o, u32 type);
int owner_publish(struct owner *o, const char *key, u64 offset, u64 len,
		  u64 put_id);
int owner_retire(struct owner *o, const char *key, u64 put_id);
/* Retire what it has of a key, up to @put_id; under o->lock. */
void owner_drop(struct owner *o, const char *key, u64 put_id);
int owner_evict(struct owner *o, const char *key, u64 put_id);
int owner_held(struct owner *o, const char *key, u64 put_id);
int owner_shut(struct owner *o, u64 client, u64 put);
int owner_reply(struct owner *o, u64 cookie, const void *body, u32 size);
struct fluxonkv_counts owner_counts(struct owner *o);

/* ---- a client ---- */

struct client {
	int fd;
	u64 id, bytes;
	const u8 *seg;
	u8 *win;
};

struct item {
	const char *key;
	u64 len, id;
	u32 flags;
};

int attach(int fd, const char *name, struct fluxonkv_attach *ret);
void client_start(struct client *c, const char *name);
void client_stop(struct client *c);
u32 body_build(void *to, u16 op, const struct item *it, u32 n,
	       u64 timeout_ns);
/* 0 or -errno of the call; results in @res. */
int call_raw(int fd, const void *body, u32 size, struct fluxonkv_result *res,
	     u32 n);
int call_many(int fd, u16 op, const struct item *it, u32 n,
	      struct fluxonkv_result *res);
/* One item: its status, or that of the call. */
int call_one(int fd, u16 op, struct item it, struct fluxonkv_result *res);
int get(struct client *c, const char *key, struct fluxonkv_result *res);
int release(struct client *c, u64 holder);
int put_begin(struct client *c, const char *key, u64 len,
	      struct fluxonkv_result *res);
int put_commit(struct client *c, u64 put);
int put_abort(struct client *c, u64 put);
int put_copy(struct client *c, const char *key, const void *from, u64 len);

#endif
