/* SPDX-License-Identifier: Apache-2.0 */
/*
 * mailbox.h - pointers from many threads to one, bounded
 *
 * A ring of FKV_MAILBOX_MAX pointers under a mutex, and an eventfd that is
 * written only when the receiver said that it sleeps. What a pointer stands
 * for is its sender's until it is posted, then the receiver's.
 *
 *	receiver: loop { take until empty; if (fkv_mailbox_sleep()) wait on fd }
 */
#ifndef FKV_IO_MAILBOX_H
#define FKV_IO_MAILBOX_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/limits.h"

struct fkv_mailbox {
	pthread_mutex_t lock;		/* all below but fd */
	uint32_t head, tail;		/* count up for ever */
	bool asleep;
	bool closed;
	int fd;				/* eventfd, blocking */
	void *at[FKV_MAILBOX_MAX];
};

/* 0 or -errno of eventfd(2). */
int fkv_mailbox_init(struct fkv_mailbox *m);
void fkv_mailbox_done(struct fkv_mailbox *m);

/* Any thread. 0; -EAGAIN: full; -ESHUTDOWN: closed. */
int fkv_mailbox_post(struct fkv_mailbox *m, void *p);

/* The receiver: up to @n pointers, oldest first; how many. */
size_t fkv_mailbox_take(struct fkv_mailbox *m, void **ret, size_t n);

/*
 * The receiver is about to wait on fd: false when something is there, or the
 * box is closed, and it must not. The next post or close writes fd.
 */
bool fkv_mailbox_sleep(struct fkv_mailbox *m);

/* No more posts; wakes the receiver. What is inside can still be taken. */
void fkv_mailbox_close(struct fkv_mailbox *m);
bool fkv_mailbox_closed(struct fkv_mailbox *m);
uint32_t fkv_mailbox_count(struct fkv_mailbox *m);

#endif
