// SPDX-License-Identifier: Apache-2.0
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>

#include "conn.h"

#define PAGE	4096ULL

/* An unused note: its index + 1, or 0 without memory. */
static uint32_t note_new(struct fkv_keep *k)
{
	uint32_t room = k->room ? 2 * k->room : 16, i = k->free;
	void *p;

	if (i) {
		k->free = k->notes[i - 1].next;
		return i;
	}
	if (k->n == k->room) {
		p = realloc(k->notes, room * sizeof(*k->notes));
		if (!p)
			return 0;
		k->notes = p;
		k->room = room;
	}
	return ++k->n;
}

int fkv_keep_note(struct fkv_conn *conn, uint64_t id, uint64_t offset,
		  uint64_t len)
{
	struct fkv_keep *k = &conn->keep;
	uint32_t *head = &k->chain[id % FKV_KEEP_CHAINS], i = 0;
	bool begun;

	if (conn->device)
		return 0;
	pthread_mutex_lock(&conn->lock);
	begun = k->begun;
	if (!begun)
		i = note_new(k);
	if (i) {
		k->notes[i - 1] = (struct fkv_note){
			id, { offset, len }, *head,
		};
		*head = i;
	}
	pthread_mutex_unlock(&conn->lock);
	if (begun)
		return fkv_lib_fail(-ENOTCONN, "the daemon is gone");
	return i ? 0 : fkv_lib_fail(-ENOMEM, "no memory to note a holder");
}

void fkv_keep_drop(struct fkv_conn *conn, uint64_t id)
{
	struct fkv_keep *k = &conn->keep;
	uint32_t *at = &k->chain[id % FKV_KEEP_CHAINS], i;

	if (conn->device)
		return;
	pthread_mutex_lock(&conn->lock);
	while ((i = *at) && k->notes[i - 1].id != id)
		at = &k->notes[i - 1].next;
	if (i) {
		*at = k->notes[i - 1].next;
		k->notes[i - 1].next = k->free;
		k->free = i;
	}
	pthread_mutex_unlock(&conn->lock);
}

static int by_offset(const void *a, const void *b)
{
	const struct fkv_range *x = a, *y = b;

	return x->offset < y->offset ? -1 : x->offset > y->offset;
}

/* Whole pages, in order, apart: two holders may have the same value. */
static size_t merge(struct fkv_range *r, size_t n)
{
	size_t to = 0;

	qsort(r, n, sizeof(*r), by_offset);
	for (size_t i = 0; i < n; i++) {
		uint64_t from = r[i].offset & ~(PAGE - 1);
		uint64_t end = (r[i].offset + r[i].len + PAGE - 1) &
			       ~(PAGE - 1);

		if (to && from <= r[to - 1].offset + r[to - 1].len) {
			if (end > r[to - 1].offset + r[to - 1].len)
				r[to - 1].len = end - r[to - 1].offset;
		} else if (end > from) {
			r[to++] = (struct fkv_range){ from, end - from };
		}
	}
	return to;
}

static size_t noted(const struct fkv_keep *k, struct fkv_range *ret)
{
	size_t n = 0;

	for (uint32_t c = 0; c < FKV_KEEP_CHAINS; c++)
		for (uint32_t i = k->chain[c]; i; i = k->notes[i - 1].next)
			ret[n++] = k->notes[i - 1].range;
	return n;
}

/* What is noted and what is pinned, as it is now and will not grow. */
static int begin(struct fkv_conn *conn)
{
	struct fkv_keep *k = &conn->keep;
	size_t pins = conn->pins.index ? conn->pins.nr_slots : 0, n = 0;

	pthread_mutex_lock(&conn->lock);
	k->moving = malloc((k->n + pins + 1) * sizeof(*k->moving));
	if (k->moving) {
		n = noted(k, k->moving);
		k->begun = true;
	}
	pthread_mutex_unlock(&conn->lock);
	if (!k->moving)
		return -ENOMEM;
	n += fkv_pins_ranges(&conn->pins, k->moving + n);
	k->nr_moving = merge(k->moving, n);
	k->moved = 0;
	return 0;
}

/* Readers of the old pages see the new ones, with the same bytes. */
static int move(const struct fkv_conn *conn, const struct fkv_range *r)
{
	char *at = (char *)(uintptr_t)conn->segment + r->offset;
	void *copy = mmap(NULL, r->len, PROT_READ | PROT_WRITE,
			  MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (copy == MAP_FAILED)
		return -ENOMEM;
	memcpy(copy, at, r->len);
	if (!mprotect(copy, r->len, PROT_READ) &&
	    !madvise(copy, r->len, MADV_DONTFORK) &&
	    mremap(copy, r->len, r->len, MREMAP_MAYMOVE | MREMAP_FIXED, at) !=
		    MAP_FAILED)
		return 0;
	munmap(copy, r->len);
	return -EINVAL;
}

/* Nothing is there any more, but nobody else may get these addresses. */
static void let_go(const void *at, uint64_t len)
{
	void *p = (void *)(uintptr_t)at;

	if (len && mmap(p, len, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS |
			MAP_NORESERVE | MAP_FIXED, -1, 0) != MAP_FAILED)
		madvise(p, len, MADV_DONTFORK);
}

void fkv_keep_puts(const struct fkv_conn *conn)
{
	uint64_t len = conn->writable_bytes;

	if (len && mmap(conn->writable, len, PROT_READ | PROT_WRITE,
			MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED,
			-1, 0) != MAP_FAILED)
		madvise(conn->writable, len, MADV_DONTFORK);
}

static void finish(struct fkv_conn *conn)
{
	struct fkv_keep *k = &conn->keep;
	uint64_t at = 0;

	for (size_t i = 0; i < k->nr_moving; i++) {
		let_go(conn->segment + at, k->moving[i].offset - at);
		at = k->moving[i].offset + k->moving[i].len;
	}
	let_go(conn->segment + at, conn->hello.segment_bytes - at);
	fkv_keep_puts(conn);
	/* a daemon that lives may have its memory back */
	shutdown(conn->fds[0], SHUT_RDWR);
	k->done = true;
}

void fkv_keep_held(struct fkv_conn *conn, uint64_t deadline)
{
	struct fkv_keep *k = &conn->keep;

	if (k->done || (!k->begun && begin(conn)))
		return;
	for (; k->moved < k->nr_moving; k->moved++) {
		if (k->moved && fkv_now_ns() >= deadline)
			return;
		/* huge pages, or no memory: it stays as it is */
		if (move(conn, &k->moving[k->moved])) {
			k->done = true;
			return;
		}
	}
	finish(conn);
}
