/* SPDX-License-Identifier: Apache-2.0 */
/*
 * lockfile.h - one daemon per socket, and no hit in a dead one's index
 *
 * <socket>.lock is locked for a daemon's life. It says "running" meanwhile; a
 * daemon that finds that word after it got the lock follows one that was
 * killed, and waits until clients cannot believe the old index any more.
 */
#ifndef FKV_SVC_LOCKFILE_H
#define FKV_SVC_LOCKFILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct fkv_lockfile;

/* Takes the lock and removes a socket that nobody listens on. 0 or -errno. */
int fkv_lockfile_take(const char *socket_path, struct fkv_lockfile **ret,
		      char *err, size_t err_size);
/*
 * The epoch of this start: one more than the last one's on this socket, and
 * on disk before this returned from take() (P2). 20 bits.
 */
uint64_t fkv_lockfile_epoch(const struct fkv_lockfile *l);

/* A higher one, on disk when this returns. 0 or -errno. */
int fkv_lockfile_raise(struct fkv_lockfile *l, uint64_t epoch);

/* Until 1.2 s after the start, if the last one did not stop cleanly. */
void fkv_lockfile_wait(struct fkv_lockfile *l);
void fkv_lockfile_release(struct fkv_lockfile *l, bool clean);

/* Remove a socket that a daemon left and nobody serves; others stay. */
void fkv_lockfile_clear(const char *socket);

#endif
