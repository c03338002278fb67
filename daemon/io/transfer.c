// SPDX-License-Identifier: Apache-2.0
/*
 * transfer.c - the loop's side: calls become items, and come back as callbacks
 */
#include <signal.h>
#include <sodium.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "io/rpc.h"
#include "io/transfer_internal.h"

static int post(struct fkv_transfer *t, struct fkv_item *it)
{
	static const uint64_t one = 1;
	bool wake;

	it->start_ns = fkv_clock_ns();
	t->calls++;
	pthread_mutex_lock(&t->lock);
	STAILQ_INSERT_TAIL(&t->todo, it, link);
	wake = t->asleep;
	t->asleep = false;
	pthread_mutex_unlock(&t->lock);
	/* an eventfd takes so few */
	if (wake)
		fkv_assert(write(t->x.wake_fd, &one, sizeof(one)) > 0);
	return 0;
}

/* Room for one more: 0 or -errno, and zeroed memory. */
static int item_alloc(struct fkv_transfer *t, size_t size, void *ret)
{
	void *p;

	if (t->closing)
		return -ESHUTDOWN;
	if (t->calls >= FKV_TRANSFER_CALLS_MAX)
		return -EAGAIN;
	p = fkv_zalloc(size);
	if (!p)
		return -ENOMEM;
	memcpy(ret, &p, sizeof(p));
	return 0;
}

static void on_results(uv_async_t *async)
{
	struct fkv_transfer *t = async->data;
	struct fkv_items list = STAILQ_HEAD_INITIALIZER(list);
	struct fkv_item *it;

	pthread_mutex_lock(&t->lock);
	STAILQ_CONCAT(&list, &t->results);
	pthread_mutex_unlock(&t->lock);
	while ((it = STAILQ_FIRST(&list))) {
		STAILQ_REMOVE_HEAD(&list, link);
		/* what comes twice was posted once */
		t->calls -= it->run != NULL;
		it->report(t, it);
	}
}

static void tell(const struct fkv_item *it)
{
	if (it->done)
		it->done(it->arg, &it->res);
}

static bool in_segment(const struct fkv_transfer *t, uint64_t offset,
		       uint64_t len)
{
	return len && len <= t->x.segment_bytes &&
	       offset <= t->x.segment_bytes - len;
}

/* ---- calls that are a number ---- */

static void call_report(struct fkv_transfer *t, struct fkv_item *it)
{
	struct fkv_data_call *c = fkv_container_of(it, struct fkv_data_call,
						   item);

	(void)t;
	tell(it);
	fkv_free(c->fresh);
	fkv_free(c);
}

static int call(struct fkv_transfer *t, const struct fkv_data_call *what)
{
	struct fkv_data_call *c;
	int err = item_alloc(t, sizeof(*c), &c);

	if (err)
		return err;
	*c = *what;
	c->item.report = call_report;
	return post(t, &c->item);
}

static struct fkv_data_call *call_of(struct fkv_item *it)
{
	return fkv_container_of(it, struct fkv_data_call, item);
}

static void run_end(struct fkv_data *x, struct fkv_item *it)
{
	fkv_data_report_err(x, it, fkv_data_op_end(x, call_of(it)->id),
			    FKV_FAULT_NONE);
}

int fkv_transfer_end(struct fkv_transfer *t, uint64_t op,
		     fkv_transfer_done_fn *done, void *arg)
{
	if (!op)
		return -EINVAL;
	return call(t, &(struct fkv_data_call){
		.item = { .run = run_end, .done = done, .arg = arg },
		.id = op });
}

static void run_unexpose(struct fkv_data *x, struct fkv_item *it)
{
	fkv_data_report_err(x, it, fkv_data_unexpose(x, call_of(it)->id),
			    FKV_FAULT_NONE);
}

int fkv_transfer_unexpose(struct fkv_transfer *t, uint64_t op,
			  fkv_transfer_done_fn *done, void *arg)
{
	return call(t, &(struct fkv_data_call){
		.item = { .run = run_unexpose, .done = done, .arg = arg },
		.id = op });
}

static void run_peer_remove(struct fkv_data *x, struct fkv_item *it)
{
	fkv_data_peer_gone(x, call_of(it)->id);
	fkv_data_report(x, it);
}

int fkv_transfer_peer_remove(struct fkv_transfer *t, uint64_t incarnation)
{
	if (!incarnation)
		return -EINVAL;
	return call(t, &(struct fkv_data_call){
		.item = { .run = run_peer_remove }, .id = incarnation });
}

static void run_push_fail(struct fkv_data *x, struct fkv_item *it)
{
	fkv_data_push_fail(x, call_of(it)->id, call_of(it)->err);
	fkv_data_report(x, it);
}

int fkv_transfer_push_fail(struct fkv_transfer *t, uint64_t op, int err)
{
	if (!op || err >= 0 || err < -4095)
		return -EINVAL;
	return call(t, &(struct fkv_data_call){
		.item = { .run = run_push_fail }, .id = op, .err = err });
}

static void run_renew(struct fkv_data *x, struct fkv_item *it)
{
	fkv_data_drop(x);
	x->self.incarnation = call_of(it)->id;
	fkv_data_report(x, it);
}

int fkv_transfer_renew(struct fkv_transfer *t, uint64_t incarnation,
		       fkv_transfer_done_fn *done, void *arg)
{
	if (!incarnation)
		return -EINVAL;
	return call(t, &(struct fkv_data_call){
		.item = { .run = run_renew, .done = done, .arg = arg },
		.id = incarnation });
}

static void run_peer_add(struct fkv_data *x, struct fkv_item *it)
{
	struct fkv_data_call *c = call_of(it);

	if (fkv_data_peer_add(x, c->fresh))
		c->fresh = NULL;
	fkv_data_report(x, it);
}

static bool name_ok(const char *name)
{
	return name && *name && strlen(name) <= FKV_AUTH_NAME_MAX;
}

static size_t address_size(const struct sockaddr *at)
{
	return at->sa_family == AF_INET ? sizeof(struct sockaddr_in) :
					  sizeof(struct sockaddr_in6);
}

int fkv_transfer_peer_add(struct fkv_transfer *t, const char *name,
			  uint64_t incarnation, const struct sockaddr *at)
{
	struct fkv_data_peer *p = NULL;
	int err;

	if (!name_ok(name) || !incarnation)
		return -EINVAL;
	err = fkv_rpc_may_meet(t->x.self.key, at);
	if (!err)
		err = item_alloc(t, sizeof(*p), &p);
	if (err)
		return err;
	p->incarnation = incarnation;
	p->known = true;
	strcpy(p->name, name);
	memcpy(&p->at, at, address_size(at));
	err = call(t, &(struct fkv_data_call){
		.item = { .run = run_peer_add },
		.id = incarnation, .fresh = p });
	if (err)
		fkv_free(p);
	return err;
}

/* ---- exposures ---- */

static void expose_report(struct fkv_transfer *t, struct fkv_item *it)
{
	(void)t;
	fkv_free(fkv_container_of(it, struct fkv_data_exposure, item));
}

int fkv_transfer_expose(struct fkv_transfer *t,
			const struct fkv_transfer_extent *e)
{
	struct fkv_data_exposure *x;
	int err;

	if (!in_segment(t, e->offset, e->len))
		return -EINVAL;
	err = item_alloc(t, sizeof(*x), &x);
	if (err)
		return err;
	x->e = *e;
	x->item.run = fkv_data_expose;
	x->item.report = expose_report;
	return post(t, &x->item);
}

/* ---- pulls and targets ---- */

static void op_report(struct fkv_transfer *t, struct fkv_item *it)
{
	(void)t;
	tell(it);
	fkv_free(fkv_container_of(it, struct fkv_data_op, item));
}

static void ready_report(struct fkv_transfer *t, struct fkv_item *it)
{
	struct fkv_data_op *op = fkv_container_of(it, struct fkv_data_op,
						  ready);

	(void)t;
	op->ready_fn(op->item.arg, op->slot, op->generation);
}

static int op_post(struct fkv_transfer *t, const struct fkv_data_op *what)
{
	struct fkv_data_op *op = NULL;
	int err = -EINVAL;

	if (what->id && what->peer_life && what->item.done &&
	    in_segment(t, what->offset, what->len))
		err = item_alloc(t, sizeof(*op), &op);
	if (err)
		return err;
	*op = *what;
	op->item.run = fkv_data_op_start;
	op->item.report = op_report;
	op->ready.report = ready_report;
	return post(t, &op->item);
}

int fkv_transfer_pull(struct fkv_transfer *t, const struct fkv_transfer_pull *p)
{
	if (p->remote > FKV_SEGMENT_MAX - fkv_min_u64(p->len, FKV_SEGMENT_MAX))
		return -EINVAL;
	return op_post(t, &(struct fkv_data_op){
		.item = { .done = p->done, .arg = p->arg }, .pull = true,
		.id = p->op, .peer_life = p->peer, .remote = p->remote,
		.offset = p->offset, .len = p->len });
}

int fkv_transfer_open(struct fkv_transfer *t,
		      const struct fkv_transfer_target *o)
{
	return op_post(t, &(struct fkv_data_op){
		.item = { .done = o->done, .arg = o->arg },
		.id = o->op, .peer_life = o->peer, .offset = o->offset,
		.len = o->len, .first_ns = o->first_ns,
		.ready_fn = o->ready });
}

/* ---- pushes ---- */

static void push_report(struct fkv_transfer *t, struct fkv_item *it)
{
	(void)t;
	tell(it);
	fkv_free(fkv_container_of(it, struct fkv_data_send, item));
}

int fkv_transfer_push(struct fkv_transfer *t, const struct fkv_transfer_push *p)
{
	struct fkv_data_send *s = NULL;
	int err = -EINVAL;

	if (p->op && p->peer && p->done && p->len &&
	    p->len <= FKV_VALUE_MAX && p->slot < FKV_TRANSFER_SLOTS)
		err = item_alloc(t, sizeof(*s), &s);
	if (err)
		return err;
	STAILQ_INIT(&s->pieces);
	s->push = true;
	s->id = p->op;
	s->peer_life = p->peer;
	s->slot = p->slot;
	s->generation = p->generation;
	s->len = p->len;
	s->item = (struct fkv_item){ .run = fkv_data_push_start,
				     .report = push_report,
				     .done = p->done, .arg = p->arg };
	return post(t, &s->item);
}

static void piece_report(struct fkv_transfer *t, struct fkv_item *it)
{
	(void)t;
	tell(it);
	fkv_free(fkv_container_of(it, struct fkv_data_piece, item));
}

int fkv_transfer_push_piece(struct fkv_transfer *t, uint64_t op,
			    const struct fkv_transfer_piece *p)
{
	struct fkv_data_piece *piece;
	int err;

	if (!op || !in_segment(t, p->offset, p->len))
		return -EINVAL;
	err = item_alloc(t, sizeof(*piece), &piece);
	if (err)
		return err;
	piece->op = op;
	piece->p = *p;
	piece->item = (struct fkv_item){ .run = fkv_data_push_piece,
					 .report = piece_report,
					 .done = p->done, .arg = p->arg };
	return post(t, &piece->item);
}

/* ---- counts ---- */

#define LOAD(v) atomic_load_explicit(&(v), memory_order_relaxed)

void fkv_transfer_get_stats(struct fkv_transfer *t,
			    struct fkv_transfer_stats *ret)
{
	const struct fkv_data *x = &t->x;

	*ret = (struct fkv_transfer_stats){
		.strangers = LOAD(x->strangers),
		.connections = LOAD(x->connections),
		.accepted = LOAD(x->accepted), .refused = LOAD(x->refused),
		.broken = LOAD(x->broken), .stalls = LOAD(x->stalls),
		.dials = LOAD(x->dials),
	};
}

static void peer_stats(const struct fkv_data_peer *p,
		       struct fkv_transfer_peer_stats *s)
{
	const struct fkv_data_counts *c = &p->counts;

	*s = (struct fkv_transfer_peer_stats){
		.incarnation = p->incarnation,
		.channels_out = LOAD(c->channels_out),
		.channels_in = LOAD(c->channels_in),
		.generation = LOAD(c->generation),
		.bytes_in = LOAD(c->bytes_in), .bytes_out = LOAD(c->bytes_out),
		.ops = LOAD(c->ops), .failures = LOAD(c->failures),
		.served = LOAD(c->served), .refused = LOAD(c->refused),
	};
	memcpy(s->name, p->name, sizeof(s->name));
}

void fkv_transfer_each_peer(struct fkv_transfer *t, fkv_transfer_each_fn *each,
			    void *arg)
{
	struct fkv_transfer_peer_stats s;
	struct fkv_data_peer *p;

	pthread_mutex_lock(&t->peers_lock);
	TAILQ_FOREACH(p, &t->peers, link) {
		peer_stats(p, &s);
		each(arg, &s);
	}
	pthread_mutex_unlock(&t->peers_lock);
}

/* ---- life ---- */

static int thread_start(struct fkv_transfer *t)
{
	sigset_t all, old;
	int err;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	err = -pthread_create(&t->thread, NULL, fkv_data_main, &t->x);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	return err;
}

static void config_copy(struct fkv_transfer *t,
			const struct fkv_transfer_config *cfg)
{
	struct fkv_data *x = &t->x;

	strcpy(t->cluster, cfg->self.cluster);
	strcpy(t->name, cfg->self.name);
	x->self.cluster = t->cluster;
	x->self.name = t->name;
	x->self.incarnation = cfg->self.incarnation;
	if (cfg->self.key) {
		memcpy(t->key, cfg->self.key, sizeof(t->key));
		x->self.key = t->key;
	}
	x->t = t;
	x->segment = cfg->segment;
	x->segment_bytes = cfg->segment_bytes;
	x->channels = cfg->channels ? cfg->channels : 4;
	x->buffer_bytes = cfg->buffer_bytes;
	x->times = cfg->times;
	if (!x->times.connect_ns)
		x->times.connect_ns = 2 * FKV_SEC;
	if (!x->times.stall_ns)
		x->times.stall_ns = FKV_XFER_STALL_NS;
}

static int config_check(const struct fkv_transfer_config *cfg)
{
	if (!name_ok(cfg->self.cluster) || !name_ok(cfg->self.name) ||
	    !cfg->self.incarnation || !cfg->segment || !cfg->segment_bytes ||
	    cfg->segment_bytes > FKV_SEGMENT_MAX ||
	    cfg->channels > FKV_TRANSFER_SLOTS)
		return -EINVAL;
	if (sodium_init() < 0)
		return -EIO;
	return cfg->listen ? fkv_rpc_may_meet(cfg->self.key, cfg->listen) : 0;
}

/* Before there was anything to be told of. */
static void run_quit(struct fkv_data *x, struct fkv_item *it)
{
	(void)it;
	x->stop = true;
}

/* All but what the thread had. */
static void shell_free(struct fkv_transfer *t)
{
	if (t->x.wake_fd >= 0)
		close(t->x.wake_fd);
	pthread_mutex_destroy(&t->peers_lock);
	pthread_mutex_destroy(&t->lock);
	sodium_memzero(t->key, sizeof(t->key));
	fkv_free(t);
}

int fkv_transfer_create(uv_loop_t *loop, const struct fkv_transfer_config *cfg,
			struct fkv_transfer **ret)
{
	int err = config_check(cfg);
	struct fkv_transfer *t;

	if (err)
		return err;
	t = fkv_zalloc(sizeof(*t));
	if (!t)
		return -ENOMEM;
	config_copy(t, cfg);
	pthread_mutex_init(&t->lock, NULL);
	pthread_mutex_init(&t->peers_lock, NULL);
	STAILQ_INIT(&t->todo);
	STAILQ_INIT(&t->results);
	TAILQ_INIT(&t->peers);
	t->loop = loop;
	t->x.wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	err = t->x.wake_fd < 0 ? -errno : fkv_data_tables_init(&t->x);
	if (err)
		goto err_fd;
	err = fkv_tcp_create(&t->x, cfg->listen, &t->port);
	if (err)
		goto err_tables;
	err = thread_start(t);
	if (err)
		goto err_transport;
	err = uv_async_init(loop, &t->async, on_results);
	if (err)
		goto err_thread;
	t->async.data = t;
	*ret = t;
	return 0;

err_thread:
	t->stop.run = run_quit;
	post(t, &t->stop);
	pthread_join(t->thread, NULL);
err_transport:
	t->x.tp->free(&t->x);
err_tables:
	fkv_data_tables_done(&t->x);
err_fd:
	shell_free(t);
	return err;
}

uint16_t fkv_transfer_port(const struct fkv_transfer *t)
{
	return t->port;
}

static void async_closed(uv_handle_t *h)
{
	struct fkv_transfer *t = h->data;

	t->closed = true;
}

static void run_stop(struct fkv_data *x, struct fkv_item *it)
{
	fkv_data_drop(x);
	x->stop = true;
	fkv_data_report(x, it);
}

static void stop_report(struct fkv_transfer *t, struct fkv_item *it)
{
	(void)it;
	/* it has nothing left to do */
	pthread_join(t->thread, NULL);
	uv_close((uv_handle_t *)&t->async, async_closed);
}

void fkv_transfer_close(struct fkv_transfer *t)
{
	if (t->closing)
		return;
	t->closing = true;
	t->stop.run = run_stop;
	t->stop.report = stop_report;
	post(t, &t->stop);
}

bool fkv_transfer_is_closed(const struct fkv_transfer *t)
{
	return t->closed;
}

void fkv_transfer_free(struct fkv_transfer *t)
{
	if (!t)
		return;
	fkv_assert(t->closed && !t->calls);
	t->x.tp->free(&t->x);
	fkv_data_tables_done(&t->x);
	shell_free(t);
}
