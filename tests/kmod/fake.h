/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fake.h - an instance and sessions around kmod's pure files
 *
 * The queue and the segment are fakes: messages are kept in order until they
 * are taken, extents are in the real tree, without memory behind them.
 */
#ifndef FKV_TESTS_KMOD_FAKE_H
#define FKV_TESTS_KMOD_FAKE_H

#include "internal.h"

#define FAKE_PAGES	64u
#define FAKE_SESSIONS	2u

struct fake {
	struct fkv_instance inst;
	struct fkv_uid uid;
	struct fkv_session sessions[FAKE_SESSIONS];
	/* the queue: linked by next, in the order they were told */
	struct list_head messages;
	u32 nr_messages;
};

/* 0, or -ENOMEM of what may fail. */
int fake_up(struct fake *f);
/* Everything is given back by now: ends the process when it is not. */
void fake_down(struct fake *f);

/* The oldest message, taken: what it said, and the memory that held it ends. */
bool fake_take(struct fake *f, struct fluxonkv_message *ret);

int fake_publish(struct fake *f, const char *key, u64 put_id, u64 page,
		 u64 pages);
struct fkv_entry *fake_get(struct fake *f, const char *key);
int fake_retire(struct fake *f, const char *key, u64 put_id);
int fake_evict(struct fake *f, const char *key, u64 put_id);
/* The entry that a reply for these bytes gives, NULL: *ret_err. */
struct fkv_entry *fake_given(struct fake *f, u64 put_id, u64 page, u64 pages,
			     int *ret_err);
/* Is page @page of the segment in a live extent? */
bool fake_live(struct fake *f, u64 page);
/* A holder of @e in session @i, which is charged already: its id, or 0. */
u64 fake_add(struct fake *f, u32 i, struct fkv_entry *e,
	     struct fkv_release *release);
/* A charged holder of @key. */
u64 fake_hold(struct fake *f, u32 i, const char *key,
	      struct fkv_release *release);

/* xorshift64 (Marsaglia 2003): the same sequence everywhere */
static inline u64 fake_random(u64 *state)
{
	*state ^= *state << 13;
	*state ^= *state >> 7;
	*state ^= *state << 17;
	return *state;
}

/* The @n-th allocation from now on fails, and only that. */
void fake_fail_nth(u32 n);
/* Did it? Nothing fails any more. */
bool fake_failed(void);

#endif
