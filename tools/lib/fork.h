/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fork.h - what a forked child must not inherit
 *
 * Every descriptor of every connection of this process is on one list. In a
 * child they are closed and the generation rises, so that each client of the
 * parent is known as foreign. The fork lock keeps fork() away while
 * descriptors are on their way onto the list and memory is mapped but not yet
 * DONTFORK; it is held for moments only, and is the outermost lock but for a
 * client's.
 */
#ifndef FKV_LIB_FORK_H
#define FKV_LIB_FORK_H

#include "conn.h"

extern uint64_t fkv_fork_generation;	/* changes in a child, only there */

/* Register the handlers, once: 0 or -ENOMEM. */
int fkv_fork_init(void);

void fkv_fork_lock(void);
void fkv_fork_unlock(void);

/* Under the fork lock. */
void fkv_fork_add(struct fkv_conn *conn);
void fkv_fork_del(struct fkv_conn *conn);

static inline uint64_t fkv_fork_now(void)
{
	return __atomic_load_n(&fkv_fork_generation, __ATOMIC_RELAXED);
}

#endif
