// SPDX-License-Identifier: Apache-2.0
/*
 * engine_uring.c - pieces through one io_uring
 *
 * The ring is made disabled, and enabled by the thread that first uses it, so
 * that SINGLE_ISSUER can be had and setup errors still have a place to be
 * told. The wake_fd is read through the ring.
 */
#define _GNU_SOURCE 1
#include <liburing.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/base.h"
#include "io/engine.h"

struct uring {
	struct fkv_io_engine engine;
	struct fkv_engine_config_io cfg;
	struct io_uring ring;
	bool enabled;
	bool wake_armed;
	uint64_t wake_count;		/* target of the read of wake_fd */
	uint32_t inflight;		/* pieces that are the engine's */
	struct fkv_piece *retry;	/* to be sent again */
	struct fkv_piece *ready;	/* complete, to be returned */
	struct fkv_piece **ready_end;
};

static struct uring *uring_of(struct fkv_io_engine *e)
{
	return fkv_container_of(e, struct uring, engine);
}

static void finish(struct uring *u, struct fkv_piece *p)
{
	p->next = NULL;
	*u->ready_end = p;
	u->ready_end = &p->next;
	u->inflight--;
}

static void transfer_ended(struct uring *u, struct fkv_piece *p, int res)
{
	if (fkv_piece_advance(p, fkv_piece_count(p, res), u->cfg.alignment,
			      &u->engine.stats)) {
		finish(u, p);
		return;
	}
	p->next = u->retry;
	u->retry = p;
}

/* Index of the registered region that holds all of it, or -1. */
static int region_of(const struct uring *u, const uint8_t *memory,
		     uint64_t len)
{
	uint64_t at = (uint64_t)(memory - (const uint8_t *)u->cfg.segment);

	if (!u->engine.stats.registered_buffers ||
	    memory < (const uint8_t *)u->cfg.segment ||
	    at + len > u->cfg.segment_bytes ||
	    at / FKV_ENGINE_REGION != (at + len - 1) / FKV_ENGINE_REGION)
		return -1;
	return (int)(at / FKV_ENGINE_REGION);
}

static void prepare(struct uring *u, struct io_uring_sqe *sqe,
		    struct fkv_piece *p, uint64_t len)
{
	uint8_t *memory = p->memory + p->done;
	uint64_t offset = p->offset + p->done;
	int region = region_of(u, memory, len);
	unsigned int n = (unsigned int)len;

	p->iov = (struct iovec){ memory, len };
	if (u->cfg.iovec && p->write)
		io_uring_prep_writev(sqe, p->file, &p->iov, 1, offset);
	else if (u->cfg.iovec)
		io_uring_prep_readv(sqe, p->file, &p->iov, 1, offset);
	else if (p->write && region >= 0)
		io_uring_prep_write_fixed(sqe, p->file, memory, n, offset,
					  region);
	else if (p->write)
		io_uring_prep_write(sqe, p->file, memory, n, offset);
	else if (region >= 0)
		io_uring_prep_read_fixed(sqe, p->file, memory, n, offset,
					 region);
	else
		io_uring_prep_read(sqe, p->file, memory, n, offset);
	io_uring_sqe_set_flags(sqe, IOSQE_FIXED_FILE);
	io_uring_sqe_set_data(sqe, p);
}

/* 0: it is on its way or back with an error already. */
static int send_piece(struct uring *u, struct fkv_piece *p)
{
	struct io_uring_sqe *sqe;
	uint64_t len;
	int err;

	if (io_uring_sq_space_left(&u->ring) == 0)
		return -EAGAIN;
	err = fkv_piece_begin(&u->cfg, p, &len);
	if (err) {
		transfer_ended(u, p, err);
		return 0;
	}
	sqe = io_uring_get_sqe(&u->ring);
	fkv_assert(sqe);
	prepare(u, sqe, p, len);
	return 0;
}

static int uring_submit(struct fkv_io_engine *e, struct fkv_piece *p)
{
	struct uring *u = uring_of(e);
	int err;

	fkv_assert(p->len && p->len <= FKV_SQE_MAX);
	if (u->inflight >= u->cfg.depth)
		return -EAGAIN;
	p->done = 0;
	p->tries = 0;
	u->inflight++;
	err = send_piece(u, p);
	if (err)
		u->inflight--;
	return err;
}

static void send_retries(struct uring *u)
{
	struct fkv_piece *p = u->retry;

	u->retry = NULL;
	while (p) {
		struct fkv_piece *next = p->next;

		if (send_piece(u, p)) {
			p->next = u->retry;
			u->retry = p;
		}
		p = next;
	}
}

static void arm_wake(struct uring *u)
{
	struct io_uring_sqe *sqe;

	if (u->wake_armed)
		return;
	sqe = io_uring_get_sqe(&u->ring);
	if (!sqe)
		return;
	io_uring_prep_read(sqe, u->cfg.wake_fd, &u->wake_count,
			   sizeof(u->wake_count), 0);
	io_uring_sqe_set_data(sqe, NULL);
	u->wake_armed = true;
}

static void take_completions(struct uring *u)
{
	struct io_uring_cqe *cqe;
	unsigned int head, n = 0;

	io_uring_for_each_cqe(&u->ring, head, cqe) {
		struct fkv_piece *p = io_uring_cqe_get_data(cqe);

		if (p)
			transfer_ended(u, p, cqe->res);
		else
			u->wake_armed = false;
		n++;
	}
	io_uring_cq_advance(&u->ring, n);
}

/* liburing 2.3 declares io_uring_enable_rings() but does not export it. */
static void enable(struct uring *u)
{
	if (u->enabled)
		return;
	if (u->ring.flags & IORING_SETUP_R_DISABLED)
		fkv_assert(!syscall(SYS_io_uring_register, u->ring.ring_fd,
				    IORING_REGISTER_ENABLE_RINGS, NULL, 0));
	u->enabled = true;
}

/*
 * One system call, or none when nothing is in flight. EINTR, EAGAIN and
 * EBUSY leave the SQEs where they are: the next call sends them, after this
 * one has reaped.
 */
static struct fkv_piece *uring_reap(struct fkv_io_engine *e, bool wait)
{
	struct uring *u = uring_of(e);
	struct fkv_piece *list;
	int res;

	enable(u);
	send_retries(u);
	wait = wait && !u->ready && !u->retry;
	if (wait)
		arm_wake(u);
	if (wait && u->wake_armed)
		res = io_uring_submit_and_wait(&u->ring, 1);
	else if (!u->inflight)
		res = 0;
	else
		res = io_uring_submit_and_get_events(&u->ring);
	if (res == -EINTR || res == -EAGAIN || res == -EBUSY)
		u->engine.stats.retries++;
	else
		fkv_assert(res >= 0);
	take_completions(u);
	list = u->ready;
	u->ready = NULL;
	u->ready_end = &u->ready;
	return list;
}

/* The read of wake_fd targets our memory: have it back before that goes. */
static void disarm_wake(struct uring *u)
{
	uint64_t one = 1;

	while (u->wake_armed) {
		if (write(u->cfg.wake_fd, &one, sizeof(one)) < 0 &&
		    errno != EINTR)
			return;
		uring_reap(&u->engine, true);
	}
}

static void uring_free(struct fkv_io_engine *e)
{
	struct uring *u = uring_of(e);

	fkv_assert(!u->inflight);
	disarm_wake(u);
	io_uring_queue_exit(&u->ring);
	fkv_free(u);
}

static void say_why(int err, char *text, size_t size)
{
	const char *why = "io_uring_setup failed";

	if (err == -ENOSYS)
		why = "the kernel has no io_uring (older than 5.1, built "
		      "without it, or hidden by seccomp)";
	else if (err == -EPERM || err == -EACCES)
		why = "refused by sysctl kernel.io_uring_disabled or by a "
		      "seccomp filter (containers)";
	else if (err == -ENOMEM)
		why = "not enough memory or memlock (ulimit -l) for the ring";
	else if (err == -EMFILE || err == -ENFILE)
		why = "too many open files (ulimit -n)";
	snprintf(text, size, "no io_uring: %s: %s", why, strerror(-err));
}

/* From what the newest kernels have to what every one has. */
static int ring_init(struct uring *u)
{
	static const unsigned int tries[] = {
		IORING_SETUP_R_DISABLED | IORING_SETUP_SINGLE_ISSUER |
			IORING_SETUP_DEFER_TASKRUN,
		IORING_SETUP_R_DISABLED | IORING_SETUP_COOP_TASKRUN |
			IORING_SETUP_TASKRUN_FLAG,
		0,
	};
	int err = -EINVAL;

	for (size_t i = 0; i < FKV_ARRAY_SIZE(tries) && err == -EINVAL; i++)
		err = io_uring_queue_init(u->cfg.depth + 2, &u->ring,
					  tries[i]);
	return err;
}

/* S9: without memlock or kernel support I/O is as direct, only slower. */
static void register_segment(struct uring *u)
{
	uint64_t n = (u->cfg.segment_bytes + FKV_ENGINE_REGION - 1) /
		     FKV_ENGINE_REGION;
	struct iovec *iov;

	if (!n)
		return;
	iov = fkv_zalloc(n * sizeof(*iov));
	if (!iov)
		return;
	for (uint64_t i = 0; i < n; i++) {
		uint64_t at = i * FKV_ENGINE_REGION;

		iov[i].iov_base = (uint8_t *)u->cfg.segment + at;
		iov[i].iov_len = fkv_min_u64(FKV_ENGINE_REGION,
					     u->cfg.segment_bytes - at);
	}
	if (!io_uring_register_buffers(&u->ring, iov, (unsigned int)n))
		u->engine.stats.registered_buffers = n;
	fkv_free(iov);
}

int fkv_engine_uring(const struct fkv_engine_config_io *cfg,
		     struct fkv_io_engine **ret, char *err, size_t err_size)
{
	struct uring *u = fkv_zalloc(sizeof(*u));
	int res;

	if (!u) {
		snprintf(err, err_size, "no memory for an I/O engine");
		return -ENOMEM;
	}
	u->cfg = *cfg;
	u->ready_end = &u->ready;
	res = ring_init(u);
	if (res) {
		say_why(res, err, err_size);
		goto err_free;
	}
	res = io_uring_register_files(&u->ring, cfg->fds,
				      (unsigned int)cfg->nr_fds);
	if (res) {
		snprintf(err, err_size, "io_uring cannot register files: %s",
			 strerror(-res));
		goto err_exit;
	}
	if (!cfg->iovec)
		register_segment(u);
	u->engine.name = cfg->iovec ? "uring_iovec" : "uring";
	u->engine.submit = uring_submit;
	u->engine.reap = uring_reap;
	u->engine.free = uring_free;
	*ret = &u->engine;
	return 0;

err_exit:
	io_uring_queue_exit(&u->ring);
err_free:
	fkv_free(u);
	return res;
}
