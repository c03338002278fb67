// SPDX-License-Identifier: Apache-2.0
#define _GNU_SOURCE 1
#include <stdio.h>
#include <stdlib.h>

#include "base/base.h"
#include "base/clock.h"
#include "base/hash.h"
#include "io/device_internal.h"

#define TAKE_BATCH	64u
#define SUM_STEP	FKV_SUM_CHUNK

/* ---- the device's thread ---- */

static void accept_request(struct fkv_device *d,
			   struct fkv_device_request *rq, bool stopping)
{
	d->live++;
	if (stopping)
		rq->res = -ECANCELED;
	else if (!fkv_device_request_valid(d, &rq->io))
		rq->res = -EINVAL;
	if (rq->res)
		fkv_device_finish(d, rq);
	else
		fkv_arbiter_add(&d->arbiter, &rq->item);
}

/* Bounded: what the arbiter has no room for stays in the mailbox. */
static bool arbiter_full(const struct fkv_device *d)
{
	return d->arbiter.nr_waiting >= FKV_MAILBOX_MAX;
}

static void take_requests(struct fkv_device *d, bool stopping)
{
	void *rq[TAKE_BATCH];
	size_t n = TAKE_BATCH;

	while (n == TAKE_BATCH && (stopping || !arbiter_full(d))) {
		n = fkv_mailbox_take(&d->mailbox, rq, TAKE_BATCH);
		for (size_t i = 0; i < n; i++)
			accept_request(d, rq[i], stopping);
	}
}

static void cancel_waiting(struct fkv_device *d)
{
	struct fkv_arbiter_item *it;

	while ((it = fkv_arbiter_cancel(&d->arbiter))) {
		struct fkv_device_request *rq;

		rq = fkv_container_of(it, struct fkv_device_request, item);
		rq->res = -ECANCELED;
		fkv_device_finish(d, rq);
	}
}

static void issue_all(struct fkv_device *d)
{
	struct fkv_arbiter_item *it;

	while ((it = fkv_arbiter_next(&d->arbiter))) {
		struct fkv_device_request *rq;

		rq = fkv_container_of(it, struct fkv_device_request, item);
		if (!rq->started_ns)
			fkv_device_begin(d, rq);
		if (!fkv_device_issue(d, rq))
			return;
	}
}

static uint64_t sqes(const struct fkv_device *d)
{
	return d->arbiter.read.inflight + d->arbiter.write.inflight;
}

/*
 * With an empty mailbox a post wakes us. Where it is not empty on purpose,
 * only a completion gives us something to do.
 */
static bool may_wait(struct fkv_device *d, bool stopping)
{
	if (!STAILQ_EMPTY(&d->landed))
		return false;
	if (fkv_mailbox_sleep(&d->mailbox))
		return true;
	return (stopping || arbiter_full(d)) && sqes(d);
}

static void reap(struct fkv_device *d, bool wait)
{
	struct fkv_piece *p = d->engine->reap(d->engine, wait);

	while (p) {
		struct fkv_piece *next = p->next;

		fkv_device_landed(d, fkv_container_of(p,
				  struct fkv_device_part, piece));
		p = next;
	}
}

static void publish(struct fkv_device *d)
{
	const struct fkv_io_engine_stats *es = &d->engine->stats;
	uint64_t waiting = d->arbiter.nr_waiting;

	atomic_store_explicit(&d->inflight, sqes(d), memory_order_relaxed);
	atomic_store_explicit(&d->queued, waiting, memory_order_relaxed);
	atomic_store_explicit(&d->short_ios, es->short_ios,
			      memory_order_relaxed);
	atomic_store_explicit(&d->retries, es->retries, memory_order_relaxed);
}

static void serve(struct fkv_device *d)
{
	bool stopping = false;

	do {
		/* before the mailbox: what is in it then is all there is */
		stopping = fkv_mailbox_closed(&d->mailbox);
		take_requests(d, stopping);
		if (stopping)
			cancel_waiting(d);
		issue_all(d);
		publish(d);
		reap(d, may_wait(d, stopping));
		/* the device is busy meanwhile: sums cost it nothing */
		issue_all(d);
		fkv_device_sum(d, SUM_STEP);
	} while (!stopping || d->live);
	publish(d);
}

static void free_engine(struct fkv_device *d)
{
	d->engine->free(d->engine);
	d->engine = NULL;
}

static void *device_thread(void *arg)
{
	struct fkv_device *d = arg;

	pthread_setname_np(pthread_self(), "fkv-ssd");
	serve(d);
	free_engine(d);
	return NULL;
}

/* ---- open, start, stop, close ---- */

static int engine_create(struct fkv_device *d, char *err, size_t err_size)
{
	struct fkv_engine_config_io ec = {
		.fds = d->shards.fd,
		.nr_fds = (int)d->shards.nr,
		.depth = d->cfg.io_depth,
		.alignment = d->shards.alignment,
		.segment = d->cfg.segment,
		.segment_bytes = d->cfg.segment_bytes,
		.wake_fd = d->mailbox.fd,
		.shim = d->cfg.shim,
		.shim_arg = d->cfg.shim_arg,
		.iovec = d->cfg.engine == FKV_ENGINE_KIND_URING_IOVEC,
	};
	int res = -ENOSYS;

	if (d->cfg.engine != FKV_ENGINE_KIND_THREADS) {
		res = fkv_engine_uring(&ec, &d->engine, err, err_size);
		if (!res || d->cfg.engine != FKV_ENGINE_KIND_AUTO)
			goto out;
		snprintf(d->engine_why, sizeof(d->engine_why), "%s", err);
	}
	res = fkv_engine_threads(&ec, &d->engine, err, err_size);
out:
	if (res)
		return res;
	d->engine_name = d->engine->name;
	atomic_store(&d->registered_buffers,
		     d->engine->stats.registered_buffers);
	return 0;
}

static int make_parts(struct fkv_device *d)
{
	size_t n = 2 * (size_t)d->cfg.io_depth;

	STAILQ_INIT(&d->unused);
	STAILQ_INIT(&d->landed);
	d->parts = fkv_zalloc(n * sizeof(*d->parts));
	if (!d->parts)
		return -ENOMEM;
	for (size_t i = 0; i < n; i++)
		STAILQ_INSERT_TAIL(&d->unused, &d->parts[i], link);
	return 0;
}

static int make_blocks(struct fkv_device *d)
{
	size_t each = FKV_HEADERS * d->shards.unit;
	void *p;

	if (posix_memalign(&p, d->shards.unit, FKV_WRITES_MAX * each))
		return -ENOMEM;
	memset(p, 0, FKV_WRITES_MAX * each);
	d->blocks = p;
	while (d->nr_blocks_free < FKV_WRITES_MAX) {
		d->block_free[d->nr_blocks_free] = d->blocks +
			d->nr_blocks_free * each;
		d->nr_blocks_free++;
	}
	return 0;
}

static int make_memory(struct fkv_device *d, char *err, size_t err_size)
{
	int res = make_parts(d);

	if (!res)
		res = make_blocks(d);
	if (res)
		snprintf(err, err_size, "no memory for the I/O of %s",
			 d->shards.dir);
	return res;
}

static int open_shards(struct fkv_device *d, char *err, size_t err_size)
{
	const struct fkv_shards_config sc = {
		.path = d->cfg.path,
		.cluster = d->cfg.cluster,
		.instance = d->cfg.instance,
		.limit = d->cfg.limit,
		.nr = d->cfg.nr_shards,
		.go_on = d->cfg.go_on,
		.arg = d->cfg.arg,
	};

	return fkv_shards_open(&sc, &d->shards, err, err_size);
}

int fkv_device_open(const struct fkv_device_config *cfg,
		    struct fkv_device **ret, char *err, size_t err_size)
{
	struct fkv_device *d = fkv_zalloc(sizeof(*d));
	int res;

	fkv_assert(cfg->io_depth >= 1 && cfg->io_depth <= FKV_IO_DEPTH_MAX);
	if (!d) {
		snprintf(err, err_size, "no memory for %s", cfg->path);
		return -ENOMEM;
	}
	d->cfg = *cfg;
	fkv_arbiter_init(&d->arbiter, cfg->io_depth, cfg->read_weight);
	res = open_shards(d, err, err_size);
	if (res)
		goto err_free;
	/* the caller's strings may go */
	d->cfg.path = d->cfg.cluster = d->cfg.instance = NULL;
	res = fkv_mailbox_init(&d->mailbox);
	if (res) {
		snprintf(err, err_size, "no eventfd: %s", strerror(-res));
		goto err_shards;
	}
	res = make_memory(d, err, err_size);
	if (!res)
		res = engine_create(d, err, err_size);
	if (res)
		goto err_mailbox;
	*ret = d;
	return 0;

err_mailbox:
	free(d->blocks);
	fkv_free(d->parts);
	fkv_mailbox_done(&d->mailbox);
err_shards:
	fkv_shards_close(&d->shards);
err_free:
	fkv_free(d);
	return res;
}

int fkv_device_start(struct fkv_device *d)
{
	int err;

	fkv_assert(!d->started && !d->stopped);
	err = -pthread_create(&d->thread, NULL, device_thread, d);
	d->started = !err;
	return err;
}

static uint64_t arbiter_bytes(const struct fkv_io_request *io)
{
	return io->kind == FKV_IO_READ ? io->len : io->entry_len;
}

static enum fkv_arbiter_class class_of(const struct fkv_io_request *io)
{
	if (io->kind == FKV_IO_WRITE)
		return FKV_ARBITER_WRITE;
	return io->warm ? FKV_ARBITER_WARM : FKV_ARBITER_READ;
}

int fkv_device_submit(struct fkv_device *d, const struct fkv_io_request *req)
{
	struct fkv_device_request *rq;
	size_t chunks = 0;
	int err;

	if (req->kind == FKV_IO_READ && req->len <= d->shards.ring_size)
		chunks = fkv_sum_chunks(req->len);
	rq = fkv_zalloc(sizeof(*rq) + chunks * (sizeof(rq->chunk[0]) +
						sizeof(rq->left[0])));
	if (!rq)
		return -ENOMEM;
	rq->io = *req;
	rq->item.class = class_of(req);
	rq->item.bytes = arbiter_bytes(req);
	rq->submitted_ns = fkv_clock_ns();
	err = fkv_mailbox_post(&d->mailbox, rq);
	if (err)
		fkv_free(rq);
	return err;
}

void fkv_device_stop(struct fkv_device *d)
{
	if (d->stopped)
		return;
	d->stopped = true;
	fkv_mailbox_close(&d->mailbox);
	if (d->started) {
		pthread_join(d->thread, NULL);
		return;
	}
	take_requests(d, true);
	free_engine(d);
}

void fkv_device_close(struct fkv_device *d)
{
	if (!d)
		return;
	fkv_device_stop(d);
	free(d->blocks);
	fkv_free(d->parts);
	fkv_mailbox_done(&d->mailbox);
	fkv_shards_close(&d->shards);
	fkv_free(d);
}

/* ---- what is known about it ---- */

uint64_t fkv_device_ring_size(const struct fkv_device *d)
{
	return d->shards.ring_size;
}

uint64_t fkv_device_unit(const struct fkv_device *d)
{
	return d->shards.unit;
}

dev_t fkv_device_dev(const struct fkv_device *d)
{
	return d->shards.dev;
}

bool fkv_device_same_fs(const struct fkv_device *d, const char *path)
{
	dev_t dev;

	return !fkv_path_dev(path, &dev) && dev == d->shards.dev;
}

const char *fkv_device_path(const struct fkv_device *d)
{
	return d->shards.dir;
}

static uint64_t load(_Atomic uint64_t *n)
{
	return atomic_load_explicit(n, memory_order_relaxed);
}

void fkv_device_get_stats(const struct fkv_device *dev,
			  struct fkv_device_stats *ret)
{
	struct fkv_device *d = (struct fkv_device *)dev;

	*ret = (struct fkv_device_stats){
		.engine = d->engine_name,
		.engine_why = d->engine_why,
		.direct = d->shards.direct,
		.buffered_why = d->shards.buffered_why,
		.alignment = d->shards.alignment,
		.registered_buffers = load(&d->registered_buffers),
		.inflight = load(&d->inflight),
		.queued = load(&d->queued) +
			  fkv_mailbox_count(&d->mailbox),
		.reads = load(&d->reads),
		.writes = load(&d->writes),
		.read_bytes = load(&d->read_bytes),
		.write_bytes = load(&d->write_bytes),
		.short_ios = load(&d->short_ios),
		.retries = load(&d->retries),
		.errors = load(&d->errors),
	};
}
