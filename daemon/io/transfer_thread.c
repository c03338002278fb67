// SPDX-License-Identifier: Apache-2.0
/*
 * transfer_thread.c - the data thread: items in, results out, deadlines
 */
#include "io/transfer_internal.h"

/* Woken so much too late, this process did not run: peers were not silent. */
#define STALL_NS	(500 * FKV_MS)

/* ---- between the threads ---- */

static void push(struct fkv_transfer *t, struct fkv_item *it)
{
	bool first;

	pthread_mutex_lock(&t->lock);
	first = STAILQ_EMPTY(&t->results);
	STAILQ_INSERT_TAIL(&t->results, it, link);
	pthread_mutex_unlock(&t->lock);
	if (first)
		uv_async_send(&t->async);
}

void fkv_data_report(struct fkv_data *x, struct fkv_item *it)
{
	it->res.ns = fkv_clock_ns() - it->start_ns;
	push(x->t, it);
}

void fkv_data_report_err(struct fkv_data *x, struct fkv_item *it, int err,
			 enum fkv_transfer_fault fault)
{
	it->res.err = err;
	it->res.fault = fault;
	fkv_data_report(x, it);
}

static void items_run(struct fkv_data *x)
{
	struct fkv_items list = STAILQ_HEAD_INITIALIZER(list);
	struct fkv_transfer *t = x->t;
	struct fkv_item *it;

	pthread_mutex_lock(&t->lock);
	t->asleep = false;
	STAILQ_CONCAT(&list, &t->todo);
	pthread_mutex_unlock(&t->lock);
	while ((it = STAILQ_FIRST(&list))) {
		STAILQ_REMOVE_HEAD(&list, link);
		it->run(x, it);
	}
}

/* False: there is something to do, and no time to wait. */
static bool may_sleep(struct fkv_transfer *t)
{
	bool empty;

	pthread_mutex_lock(&t->lock);
	empty = STAILQ_EMPTY(&t->todo);
	t->asleep = empty;
	pthread_mutex_unlock(&t->lock);
	return empty;
}

/* ---- time ---- */

void fkv_data_timer(struct fkv_data *x, struct fkv_timer *t)
{
	switch ((enum fkv_data_timer)t->kind) {
	case FKV_DATA_T_OP:
		fkv_data_op_timer(x, fkv_container_of(t, struct fkv_data_op,
						      timer));
		break;
	case FKV_DATA_T_CHAN:
		fkv_data_chan_timer(x, fkv_container_of(t, struct fkv_data_chan,
							timer));
		break;
	case FKV_DATA_T_PUSH:
		fkv_data_push_timer(x, fkv_container_of(t, struct fkv_data_send,
							timer));
		break;
	}
}

static void timers_run(struct fkv_data *x)
{
	struct fkv_timer *timer;

	while ((timer = fkv_timers_due(&x->timers, x->now_ns)))
		fkv_data_timer(x, timer);
}

void *fkv_data_main(void *p)
{
	struct fkv_data *x = p;
	uint64_t until;

	pthread_setname_np(pthread_self(), "fkv-data");
	for (;;) {
		x->now_ns = fkv_clock_ns();
		items_run(x);
		timers_run(x);
		if (x->stop)
			break;
		until = fkv_timers_next(&x->timers);
		if (!may_sleep(x->t))
			until = 0;
		x->tp->turn(x, until);
		x->now_ns = fkv_clock_ns();
		if (until && until < x->now_ns &&
		    x->now_ns - until > STALL_NS)
			fkv_data_excuse(x);
	}
	return NULL;
}

/* ---- what there is ---- */

void fkv_data_drop(struct fkv_data *x)
{
	fkv_data_peers_drop(x);
	fkv_data_pushes_drop(x);
	fkv_data_exposures_drop(x);
	fkv_assert(!x->ops.count && !x->pushes.count);
}

int fkv_data_tables_init(struct fkv_data *x)
{
	struct fkv_table *all[] = { &x->ops, &x->exposures, &x->pushes,
				    &x->offers, &x->peers };
	size_t i;

	fkv_timers_init(&x->timers);
	for (i = 0; i < FKV_ARRAY_SIZE(all); i++)
		if (fkv_table_init(all[i]))
			break;
	if (i == FKV_ARRAY_SIZE(all))
		return 0;
	while (i--)
		fkv_table_done(all[i]);
	return -ENOMEM;
}

void fkv_data_tables_done(struct fkv_data *x)
{
	fkv_table_done(&x->ops);
	fkv_table_done(&x->exposures);
	fkv_table_done(&x->pushes);
	fkv_table_done(&x->offers);
	fkv_table_done(&x->peers);
}
