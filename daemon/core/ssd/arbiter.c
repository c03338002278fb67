// SPDX-License-Identifier: Apache-2.0
#include "core/ssd/arbiter.h"

static struct fkv_arbiter_channel *channel_of(struct fkv_arbiter *a,
					      enum fkv_arbiter_class class)
{
	return class == FKV_ARBITER_WRITE ? &a->write : &a->read;
}

void fkv_arbiter_init(struct fkv_arbiter *a, uint32_t depth,
		      uint32_t read_weight)
{
	fkv_assert(depth >= 1);
	*a = (struct fkv_arbiter){
		.depth = depth,
		.read_weight = read_weight,
		.read = { .max = FKV_READS_MAX,
			  .max_bytes = FKV_READ_BYTES_MAX },
		.write = { .max = FKV_WRITES_MAX,
			   .max_bytes = FKV_WRITE_BYTES_MAX },
	};
	for (int i = 0; i < FKV_ARBITER_CLASSES; i++) {
		TAILQ_INIT(&a->waiting[i]);
		TAILQ_INIT(&a->active[i]);
	}
}

void fkv_arbiter_add(struct fkv_arbiter *a, struct fkv_arbiter_item *it)
{
	fkv_assert(it->state == FKV_ARBITER_OUT);
	it->state = FKV_ARBITER_WAITING;
	TAILQ_INSERT_TAIL(&a->waiting[it->class], it, link);
	a->nr_waiting++;
}

static void take_waiting(struct fkv_arbiter *a, struct fkv_arbiter_item *it)
{
	TAILQ_REMOVE(&a->waiting[it->class], it, link);
	a->nr_waiting--;
}

/* Strictly in order: a large request is not starved by smaller ones. */
static bool admit(struct fkv_arbiter *a, enum fkv_arbiter_class class)
{
	struct fkv_arbiter_channel *c = channel_of(a, class);
	struct fkv_arbiter_item *it = TAILQ_FIRST(&a->waiting[class]);

	if (!it)
		return false;
	if (c->admitted && (c->admitted >= c->max ||
	    it->bytes > c->max_bytes ||
	    c->admitted_bytes > c->max_bytes - it->bytes))
		return false;
	take_waiting(a, it);
	c->admitted++;
	c->admitted_bytes += it->bytes;
	it->state = FKV_ARBITER_ACTIVE;
	TAILQ_INSERT_TAIL(&a->active[class], it, link);
	return true;
}

static struct fkv_arbiter_item *next_of(struct fkv_arbiter *a,
					enum fkv_arbiter_class class)
{
	if (TAILQ_EMPTY(&a->active[class]))
		admit(a, class);
	return TAILQ_FIRST(&a->active[class]);
}

static struct fkv_arbiter_item *next_read(struct fkv_arbiter *a)
{
	struct fkv_arbiter_item *it = next_of(a, FKV_ARBITER_READ);

	if (it)
		return it;
	/* a get that the budget keeps out must not be overtaken by warming */
	it = TAILQ_FIRST(&a->active[FKV_ARBITER_WARM]);
	if (it || !TAILQ_EMPTY(&a->waiting[FKV_ARBITER_READ]))
		return it;
	return next_of(a, FKV_ARBITER_WARM);
}

struct fkv_arbiter_item *fkv_arbiter_next(struct fkv_arbiter *a)
{
	struct fkv_arbiter_item *it;

	if (a->read.inflight + a->write.inflight >= a->depth)
		return NULL;
	if (a->read.inflight <= (uint64_t)a->read_weight * a->write.inflight) {
		it = next_read(a);
		return it ? it : next_of(a, FKV_ARBITER_WRITE);
	}
	it = next_of(a, FKV_ARBITER_WRITE);
	return it ? it : next_read(a);
}

void fkv_arbiter_end(struct fkv_arbiter *a, struct fkv_arbiter_item *it)
{
	fkv_assert(it->state == FKV_ARBITER_ACTIVE);
	TAILQ_REMOVE(&a->active[it->class], it, link);
	it->state = FKV_ARBITER_ISSUED;
}

void fkv_arbiter_issued(struct fkv_arbiter *a, struct fkv_arbiter_item *it,
			bool last)
{
	fkv_assert(it->state == FKV_ARBITER_ACTIVE);
	channel_of(a, it->class)->inflight++;
	if (last)
		fkv_arbiter_end(a, it);
}

void fkv_arbiter_returned(struct fkv_arbiter *a, struct fkv_arbiter_item *it)
{
	struct fkv_arbiter_channel *c = channel_of(a, it->class);

	fkv_assert(c->inflight);
	c->inflight--;
}

void fkv_arbiter_done(struct fkv_arbiter *a, struct fkv_arbiter_item *it)
{
	struct fkv_arbiter_channel *c = channel_of(a, it->class);

	if (it->state == FKV_ARBITER_ACTIVE)
		fkv_arbiter_end(a, it);
	fkv_assert(it->state == FKV_ARBITER_ISSUED);
	fkv_assert(c->admitted && c->admitted_bytes >= it->bytes);
	c->admitted--;
	c->admitted_bytes -= it->bytes;
	it->state = FKV_ARBITER_OUT;
}

struct fkv_arbiter_item *fkv_arbiter_cancel(struct fkv_arbiter *a)
{
	for (int i = 0; i < FKV_ARBITER_CLASSES; i++) {
		struct fkv_arbiter_item *it = TAILQ_FIRST(&a->waiting[i]);

		if (!it)
			continue;
		take_waiting(a, it);
		it->state = FKV_ARBITER_OUT;
		return it;
	}
	return NULL;
}
