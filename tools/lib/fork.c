// SPDX-License-Identifier: Apache-2.0
#include <unistd.h>

#include "fork.h"

uint64_t fkv_fork_generation = 1;

static pthread_mutex_t fork_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static int once_err;
static TAILQ_HEAD(, fkv_conn) conns = TAILQ_HEAD_INITIALIZER(conns);

/* Each is the other's half: no analysis inside. */
void fkv_fork_lock(void) FKV_LOCKS(no_thread_safety_analysis);
void fkv_fork_unlock(void) FKV_LOCKS(no_thread_safety_analysis);
static void child(void) FKV_LOCKS(no_thread_safety_analysis);

void fkv_fork_lock(void)
{
	pthread_mutex_lock(&fork_lock);
}

void fkv_fork_unlock(void)
{
	pthread_mutex_unlock(&fork_lock);
}

void fkv_fork_add(struct fkv_conn *conn)
{
	TAILQ_INSERT_TAIL(&conns, conn, all);
}

void fkv_fork_del(struct fkv_conn *conn)
{
	TAILQ_REMOVE(&conns, conn, all);
}

/* Runs in the child, where only async-signal-safe calls are allowed. */
static void child(void)
{
	struct fkv_conn *conn;

	__atomic_fetch_add(&fkv_fork_generation, 1, __ATOMIC_RELAXED);
	TAILQ_FOREACH(conn, &conns, all) {
		for (int i = 0; i < FKV_CONN_FDS; i++) {
			if (conn->fds[i] >= 0)
				close(conn->fds[i]);
			conn->fds[i] = -1;
		}
	}
	pthread_mutex_unlock(&fork_lock);
}

static void init(void)
{
	once_err = pthread_atfork(fkv_fork_lock, fkv_fork_unlock, child);
}

int fkv_fork_init(void)
{
	pthread_once(&once, init);
	return -once_err;
}
