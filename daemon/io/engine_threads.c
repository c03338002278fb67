// SPDX-License-Identifier: Apache-2.0
/*
 * engine_threads.c - pieces through a pool of threads that pread and pwrite
 *
 * For where io_uring cannot be had (S12). The pool writes the wake_fd when
 * the list of complete pieces becomes non-empty, so a wait is one read.
 */
#define _GNU_SOURCE 1
#include <pthread.h>
#include <stdio.h>
#include <unistd.h>

#include "base/base.h"
#include "io/engine.h"

#define POOL_MAX	32u

struct threads {
	struct fkv_io_engine engine;
	struct fkv_engine_config_io cfg;
	uint32_t inflight;		/* the device thread's */
	pthread_mutex_t lock;		/* all below */
	pthread_cond_t more;
	struct fkv_piece *queue, **queue_end;
	struct fkv_piece *ready, **ready_end;
	struct fkv_io_engine_stats stats;
	bool stop;
	uint32_t nr;
	pthread_t thread[POOL_MAX];
};

static struct threads *threads_of(struct fkv_io_engine *e)
{
	return fkv_container_of(e, struct threads, engine);
}

static int transfer(const struct threads *t, struct fkv_piece *p)
{
	int fd = t->cfg.fds[p->file];
	uint64_t len;
	ssize_t n;
	int err;

	err = fkv_piece_begin(&t->cfg, p, &len);
	if (err)
		return err;
	if (p->write)
		n = pwrite(fd, p->memory + p->done, len,
			   (off_t)(p->offset + p->done));
	else
		n = pread(fd, p->memory + p->done, len,
			  (off_t)(p->offset + p->done));
	return n < 0 ? -errno : fkv_piece_count(p, (int)n);
}

static void run_piece(const struct threads *t, struct fkv_piece *p,
		      struct fkv_io_engine_stats *stats)
{
	while (!fkv_piece_advance(p, transfer(t, p), t->cfg.alignment, stats))
		;
}

static struct fkv_piece *take(struct threads *t)
	FKV_LOCKS(requires_capability(t->lock));

static struct fkv_piece *take(struct threads *t)
{
	struct fkv_piece *p;

	while (!t->queue && !t->stop)
		pthread_cond_wait(&t->more, &t->lock);
	p = t->queue;
	if (p) {
		t->queue = p->next;
		if (!t->queue)
			t->queue_end = &t->queue;
	}
	return p;
}

static void give_back(struct threads *t, struct fkv_piece *p)
{
	uint64_t one = 1;
	bool first = !t->ready;

	p->next = NULL;
	*t->ready_end = p;
	t->ready_end = &p->next;
	if (!first)
		return;
	while (write(t->cfg.wake_fd, &one, sizeof(one)) < 0)
		fkv_assert(errno == EINTR);
}

static void *pool_thread(void *arg)
{
	struct threads *t = arg;
	struct fkv_piece *p;

	pthread_setname_np(pthread_self(), "fkv-io-pool");
	pthread_mutex_lock(&t->lock);
	while ((p = take(t))) {
		struct fkv_io_engine_stats stats = { 0 };

		pthread_mutex_unlock(&t->lock);
		run_piece(t, p, &stats);
		pthread_mutex_lock(&t->lock);
		t->stats.short_ios += stats.short_ios;
		t->stats.retries += stats.retries;
		give_back(t, p);
	}
	pthread_mutex_unlock(&t->lock);
	return NULL;
}

static int threads_submit(struct fkv_io_engine *e, struct fkv_piece *p)
{
	struct threads *t = threads_of(e);

	fkv_assert(p->len && p->len <= FKV_SQE_MAX);
	if (t->inflight >= t->cfg.depth)
		return -EAGAIN;
	t->inflight++;
	p->done = 0;
	p->tries = 0;
	p->next = NULL;
	pthread_mutex_lock(&t->lock);
	*t->queue_end = p;
	t->queue_end = &p->next;
	pthread_cond_signal(&t->more);
	pthread_mutex_unlock(&t->lock);
	return 0;
}

static struct fkv_piece *collect(struct threads *t)
{
	struct fkv_piece *list;

	pthread_mutex_lock(&t->lock);
	list = t->ready;
	t->ready = NULL;
	t->ready_end = &t->ready;
	t->engine.stats = t->stats;
	pthread_mutex_unlock(&t->lock);
	for (struct fkv_piece *p = list; p; p = p->next)
		t->inflight--;
	return list;
}

static struct fkv_piece *threads_reap(struct fkv_io_engine *e, bool wait)
{
	struct threads *t = threads_of(e);
	struct fkv_piece *list = collect(t);
	uint64_t count;

	if (list || !wait)
		return list;
	/* an old count ends this at once: the caller just comes again */
	if (read(t->cfg.wake_fd, &count, sizeof(count)) < 0)
		fkv_assert(errno == EINTR);
	return collect(t);
}

static void threads_free(struct fkv_io_engine *e)
{
	struct threads *t = threads_of(e);

	pthread_mutex_lock(&t->lock);
	t->stop = true;
	pthread_cond_broadcast(&t->more);
	pthread_mutex_unlock(&t->lock);
	for (uint32_t i = 0; i < t->nr; i++)
		pthread_join(t->thread[i], NULL);
	pthread_cond_destroy(&t->more);
	pthread_mutex_destroy(&t->lock);
	fkv_free(t);
}

static int start_pool(struct threads *t)
{
	uint32_t want = (uint32_t)fkv_min_u64(t->cfg.depth, POOL_MAX);
	int err = 0;

	while (t->nr < want && !err) {
		err = -pthread_create(&t->thread[t->nr], NULL, pool_thread, t);
		if (!err)
			t->nr++;
	}
	/* fewer are slower, none is none */
	return t->nr ? 0 : err;
}

int fkv_engine_threads(const struct fkv_engine_config_io *cfg,
		       struct fkv_io_engine **ret, char *err,
		       size_t err_size)
{
	struct threads *t = fkv_zalloc(sizeof(*t));
	int res = -ENOMEM;

	if (t) {
		t->cfg = *cfg;
		t->queue_end = &t->queue;
		t->ready_end = &t->ready;
		pthread_mutex_init(&t->lock, NULL);
		pthread_cond_init(&t->more, NULL);
		t->engine.name = "threads";
		t->engine.submit = threads_submit;
		t->engine.reap = threads_reap;
		t->engine.free = threads_free;
		res = start_pool(t);
	}
	if (res) {
		snprintf(err, err_size, "cannot start I/O threads: %s",
			 strerror(-res));
		if (t)
			threads_free(&t->engine);
		return res;
	}
	*ret = &t->engine;
	return 0;
}
