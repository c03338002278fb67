// SPDX-License-Identifier: Apache-2.0
#include <pthread.h>
#include <sys/queue.h>

#include "base/base.h"
#include "base/hash.h"
#include "io/workers.h"

struct job {
	STAILQ_ENTRY(job) link;
	struct fkv_work work;
};

STAILQ_HEAD(jobs, job);

struct fkv_workers {
	pthread_mutex_t lock;		/* queue, stop */
	pthread_cond_t more;
	struct jobs queue;
	bool stop;
	unsigned int nr;
	void (*done)(void *arg, const struct fkv_work *w);
	void *arg;
	pthread_t thread[64];
};

static void run(struct fkv_work *w)
{
	if (w->type == FKV_WORK_HASH)
		w->sum = fkv_sum_payload(w->seed, w->from, w->len);
	else
		memcpy(w->to, w->from, w->len);
}

static struct job *take(struct fkv_workers *ws)
{
	struct job *j;

	pthread_mutex_lock(&ws->lock);
	while (STAILQ_EMPTY(&ws->queue) && !ws->stop)
		pthread_cond_wait(&ws->more, &ws->lock);
	j = STAILQ_FIRST(&ws->queue);
	if (j)
		STAILQ_REMOVE_HEAD(&ws->queue, link);
	pthread_mutex_unlock(&ws->lock);
	return j;
}

static void *worker(void *p)
{
	struct fkv_workers *ws = p;
	struct job *j;

	pthread_setname_np(pthread_self(), "fkv-transfer");
	while ((j = take(ws))) {
		run(&j->work);
		ws->done(ws->arg, &j->work);
		fkv_free(j);
	}
	return NULL;
}

int fkv_workers_create(unsigned int threads,
		       void (*done)(void *arg, const struct fkv_work *w),
		       void *arg, struct fkv_workers **ret)
{
	struct fkv_workers *ws = fkv_zalloc(sizeof(*ws));
	int err = 0;

	if (!ws)
		return -ENOMEM;
	fkv_assert(threads >= 1 && threads <= FKV_ARRAY_SIZE(ws->thread));
	pthread_mutex_init(&ws->lock, NULL);
	pthread_cond_init(&ws->more, NULL);
	STAILQ_INIT(&ws->queue);
	ws->done = done;
	ws->arg = arg;
	while (ws->nr < threads && !err) {
		err = -pthread_create(&ws->thread[ws->nr], NULL, worker, ws);
		if (!err)
			ws->nr++;
	}
	if (err) {
		fkv_workers_free(ws);
		return err;
	}
	*ret = ws;
	return 0;
}

int fkv_workers_post(struct fkv_workers *ws, const struct fkv_work *w)
{
	struct job *j = fkv_zalloc(sizeof(*j));

	if (!j)
		return -ENOMEM;
	j->work = *w;
	pthread_mutex_lock(&ws->lock);
	STAILQ_INSERT_TAIL(&ws->queue, j, link);
	pthread_cond_signal(&ws->more);
	pthread_mutex_unlock(&ws->lock);
	return 0;
}

void fkv_workers_free(struct fkv_workers *ws)
{
	if (!ws)
		return;
	pthread_mutex_lock(&ws->lock);
	ws->stop = true;
	pthread_cond_broadcast(&ws->more);
	pthread_mutex_unlock(&ws->lock);
	for (unsigned int i = 0; i < ws->nr; i++)
		pthread_join(ws->thread[i], NULL);
	pthread_cond_destroy(&ws->more);
	pthread_mutex_destroy(&ws->lock);
	fkv_free(ws);
}
