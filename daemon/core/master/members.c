// SPDX-License-Identifier: Apache-2.0
/*
 * members.c - owners: they register, live by their lease, fail and return
 *
 * protocol.md F1: of an owner whose lease ended only its operations end at
 * once. What it keeps is suspended, for it may have been a stall; it is seen
 * again when the same memory registers in time, and goes for good otherwise.
 * Until its host has said what of its segment is not quiet, nothing of that is
 * given out (G3).
 */
#include <stdio.h>

#include "core/master/internal.h"

#define SERIALS_MAX	(1u << 20)

static struct fkv_member *by_name(const struct fkv_master *m, const char *name)
{
	for (uint32_t i = 0; i < m->nr_members; i++)
		if (!strcmp(m->member[i]->name, name))
			return m->member[i];
	return NULL;
}

/* TOMBED: with nothing in it, and not to be asked. */
struct fkv_member *fkv_member_create(struct fkv_master *m, const char *name,
				     uint64_t segment_bytes)
{
	struct fkv_member *mb;

	if (m->nr_members == FKV_OWNERS_MAX)
		return NULL;
	mb = fkv_zalloc(sizeof(*mb));
	if (!mb)
		return NULL;
	if (fkv_space_init(&mb->space, segment_bytes, m->first)) {
		fkv_free(mb);
		return NULL;
	}
	mb->space.all_waiting = &m->waiting;
	for (uint32_t i = 0; i < FKV_SHARDS_MAX; i++)
		TAILQ_INIT(&mb->shards[i].replicas);
	TAILQ_INIT(&mb->ops);
	snprintf(mb->name, sizeof(mb->name), "%s", name);
	mb->until_ns = FKV_NEVER;
	mb->index = m->nr_members;
	m->member[m->nr_members++] = mb;
	m->tombed++;
	return mb;
}

void fkv_members_free(struct fkv_master *m)
{
	while (m->nr_members) {
		struct fkv_member *mb = m->member[--m->nr_members];

		fkv_space_done(&mb->space);
		fkv_free(mb->busy);
		fkv_free(mb);
	}
}

void fkv_member_live_now(struct fkv_master *m, struct fkv_member *mb,
			 uint64_t until_ns)
{
	mb->state = FKV_MEMBER_LIVE;
	mb->until_ns = until_ns;
	mb->serial = m->next_serial++;
	mb->suspect_ns = 0;
	mb->failures = 0;
	memset(mb->failed_by, 0, sizeof(mb->failed_by));
	m->tombed--;
	m->leased += until_ns != FKV_NEVER;
}

void fkv_member_stir(struct fkv_master *m, struct fkv_member *mb)
{
	if (mb->stirred)
		return;
	mb->stirred = true;
	TAILQ_INSERT_TAIL(&m->stirred, mb, stir);
}

struct fkv_member *fkv_member_at(const struct fkv_master *m, uint32_t peer)
{
	if (peer >= m->nr_members || !fkv_member_live(m->member[peer]))
		return NULL;
	return m->member[peer];
}

struct fkv_msg *fkv_member_send(struct fkv_member *mb, struct fkv_out *out,
				enum fkv_msg_type type)
{
	struct fkv_msg *msg = fkv_out_send(out, type);

	msg->peer = mb->index;
	return msg;
}

static uint64_t bit_of(const struct fkv_member *by)
{
	return 1ULL << by->index % 64;
}

void fkv_member_failed(struct fkv_master *m, struct fkv_member *mb,
		       const struct fkv_member *by)
{
	if (mb->suspect_ns <= m->now_ns)
		memset(mb->failed_by, 0, sizeof(mb->failed_by));
	mb->failed_by[by->index / 64] |= bit_of(by);
	mb->failures++;
	mb->suspect_ns = m->now_ns + FKV_SUSPECT_NS;
	m->stats.suspected++;
}

void fkv_member_worked(struct fkv_member *mb, const struct fkv_member *by)
{
	uint64_t others = 0;

	mb->failed_by[by->index / 64] &= ~bit_of(by);
	for (size_t i = 0; i < FKV_ARRAY_SIZE(mb->failed_by); i++)
		others |= mb->failed_by[i];
	if (others)
		return;
	mb->failures = 0;
	mb->suspect_ns = 0;
}

bool fkv_member_is_lost_to(const struct fkv_member *mb,
			   const struct fkv_member *by)
{
	return mb->failures >= FKV_SUSPECT_MAX &&
	       mb->failed_by[by->index / 64] & bit_of(by);
}

static void tell_member(uint32_t to, const struct fkv_member *of, bool gone,
			struct fkv_out *out)
{
	struct fkv_cluster_member *t;

	t = &fkv_out_cluster(out, to, FKV_CLUSTER_MEMBER)->member;
	t->incarnation = of->incarnation;
	t->gone = gone;
	t->transports = of->transports;
	t->name = of->name;
	t->address = of->address;
}

static void tell_others(struct fkv_master *m, const struct fkv_member *of,
			bool gone, struct fkv_out *out)
{
	for (uint32_t i = 0; i < m->nr_members; i++)
		if (m->member[i] != of && fkv_member_live(m->member[i]))
			tell_member(i, of, gone, out);
}

/* Its session may have been followed by another: this is of that life only. */
static void tell_end(const struct fkv_member *mb, struct fkv_out *out)
{
	struct fkv_cmd *cmd = fkv_out_add(out, FKV_CMD_END);

	cmd->peer = mb->index;
	cmd->token = mb->incarnation;
}

static void tomb(struct fkv_master *m, struct fkv_member *mb,
		 uint64_t until_ns, struct fkv_out *out)
{
	struct fkv_mop *op;

	m->leased -= mb->until_ns != FKV_NEVER;
	m->tombed++;
	m->stats.tombs++;
	mb->state = FKV_MEMBER_TOMBED;
	mb->until_ns = until_ns;
	tell_end(mb, out);
	/* nothing more is said to it: its ops go before those that wait for it */
	fkv_master_unqueue(m, mb);
	fkv_master_lose_targets(m, mb, out);
	while ((op = TAILQ_FIRST(&mb->ops)))
		fkv_master_abandon(m, op, true, out);
	fkv_master_unask(m, mb, out);
	tell_others(m, mb, true, out);
}

typedef void (*extent_fn)(struct fkv_master *m, struct fkv_extent *x);

/* @fn may free the one that it gets. */
static void each_extent(struct fkv_master *m, struct fkv_member *mb,
			extent_fn fn)
{
	uint64_t pos = 0;
	struct fkv_node *n = fkv_table_walk(&m->extents, &pos, NULL), *next;

	for (; n; n = next) {
		struct fkv_extent *x;

		next = fkv_table_walk(&m->extents, &pos, n);
		x = fkv_container_of(n, struct fkv_extent, node);
		if (x->space == &mb->space)
			fn(m, x);
	}
}

static void drop_replica(struct fkv_master *m, struct fkv_extent *x)
{
	struct fkv_route *r = x->route;

	if (!r)
		return;
	/* taken until its host has registered */
	x->refs++;
	fkv_route_drop_memory(m, x);
	fkv_route_gc(m, r);
}

/* What it kept is gone for good. */
static void drop_all(struct fkv_master *m, struct fkv_member *mb)
{
	each_extent(m, mb, drop_replica);
	for (uint32_t i = 0; i < FKV_SHARDS_MAX; i++) {
		struct fkv_ssd *d;

		while ((d = TAILQ_FIRST(&mb->shards[i].replicas))) {
			struct fkv_route *r = d->route;

			fkv_route_drop_ssd(m, d);
			fkv_route_gc(m, r);
		}
		mb->shards[i].tail = 0;
	}
	mb->incarnation = 0;
}

/* Its memory is other memory now: what was read from it never ends well. */
static void drop_sources(struct fkv_master *m, struct fkv_member *mb)
{
	for (uint32_t i = 0; i < m->nr_members; i++) {
		struct fkv_mop *op;

		TAILQ_FOREACH(op, &m->member[i]->ops, of_member) {
			struct fkv_extent *x = op->remote;

			if (op->type != FKV_MOP_GET || !x ||
			    x->space != &mb->space)
				continue;
			op->remote = NULL;
			fkv_master_unpull(m, x);
		}
	}
}

/* What the owner had of it was this life's before: it begins at nothing. */
static void unrefer(struct fkv_master *m, struct fkv_extent *x)
{
	(void)m;
	x->first = x->cause == FKV_CAUSE_PERSIST;
	fkv_master_forget(x);
	x->refs = 0;
}

static void free_unused(struct fkv_master *m, struct fkv_extent *x)
{
	if (!x->route)
		fkv_master_detach(m, x);
}

/*
 * Unevictable until the new life reports it quiet, as often as it said that it
 * is busy.
 */
static int take_busy(struct fkv_master *m, struct fkv_member *mb,
		     const struct fkv_cluster_range *b)
{
	struct fkv_extent *x = fkv_space_at(&mb->space, b->offset);
	int err;

	if (x && x->bytes == b->len) {
		x->refs++;
		return 0;
	}
	err = fkv_extents_take(&mb->space.extents, b->offset, b->len);
	if (err)
		return err == -EBUSY ? -EINVAL : err;
	x = fkv_master_extent(m, mb, b->offset, b->len, FKV_CAUSE_HELD);
	if (!x)
		return -ENOMEM;
	x->refs = 1;
	return 0;
}

/* Ranges that are known; their length is 0 from then on. */
static void keep_busy(struct fkv_member *mb)
{
	for (size_t i = 0; i < mb->nr_busy; i++) {
		struct fkv_cluster_range *b = &mb->busy[i];
		struct fkv_extent *x = fkv_space_at(&mb->space, b->offset);

		if (!x || x->bytes != b->len)
			continue;
		x->refs++;
		b->len = 0;
	}
}

/* All that is taken of the segment is what the owner says. */
static int settle_segment(struct fkv_master *m, struct fkv_member *mb,
			  uint64_t segment_bytes)
{
	int err = 0;

	each_extent(m, mb, unrefer);
	keep_busy(mb);
	each_extent(m, mb, free_unused);
	if (mb->space.capacity != segment_bytes)
		err = fkv_space_resize(&mb->space, segment_bytes);
	for (size_t i = 0; i < mb->nr_busy && !err; i++)
		if (mb->busy[i].len)
			err = take_busy(m, mb, &mb->busy[i]);
	mb->space.pinned_bytes = 0;
	return err;
}

/* First persists that its last life was asked for are asked for again (P6). */
static void persist_again(struct fkv_master *m, struct fkv_member *mb,
			  struct fkv_out *out)
{
	uint64_t pos = 0;
	struct fkv_node *n = NULL;

	while ((n = fkv_table_walk(&m->extents, &pos, n))) {
		struct fkv_extent *x;

		x = fkv_container_of(n, struct fkv_extent, node);
		if (x->space != &mb->space || !x->first)
			continue;
		x->first = false;
		if (!x->route || !mb->ssd_devices || x->route->ssd)
			continue;
		fkv_extent_set_cause(x, FKV_CAUSE_PERSIST);
		fkv_master_persist(m, x, out);
	}
}

static void registered(struct fkv_master *m, const struct fkv_member *mb,
		       struct fkv_out *out)
{
	struct fkv_cluster_registered *r;

	r = &fkv_out_cluster(out, mb->index, FKV_CLUSTER_REGISTERED)->registered;
	r->epoch = (uint32_t)m->epoch;
	r->lease_ns = FKV_LEASE_NS;
	r->heartbeat_ns = FKV_HEARTBEAT_NS;
}

static int join(struct fkv_master *m, struct fkv_member *mb,
		const struct fkv_cluster_register *reg, struct fkv_out *out)
{
	bool same = reg->was && reg->was == mb->incarnation &&
		    reg->segment_bytes == mb->space.capacity &&
		    reg->ssd_shards == mb->nr_shards;
	int err;

	if (!same) {
		drop_sources(m, mb);
		drop_all(m, mb);
	}
	err = settle_segment(m, mb, reg->segment_bytes);
	if (err) {
		/* next time nothing that it left counts */
		drop_all(m, mb);
		return err;
	}
	mb->incarnation = reg->incarnation;
	mb->nr_shards = reg->ssd_shards;
	mb->ssd_devices = reg->ssd_devices;
	mb->transports = reg->transports;
	memset(mb->address, 0, sizeof(mb->address));
	if (reg->address)
		snprintf(mb->address, sizeof(mb->address), "%s",
			 reg->address);
	fkv_member_live_now(m, mb, m->now_ns + FKV_LEASE_MASTER_NS);
	registered(m, mb, out);
	for (uint32_t i = 0; i < m->nr_members; i++)
		if (m->member[i] != mb && fkv_member_live(m->member[i]))
			tell_member(mb->index, m->member[i], false, out);
	tell_others(m, mb, false, out);
	persist_again(m, mb, out);
	return 0;
}

/* The next part of what is busy; all but the first must follow another. */
static int add_part(struct fkv_member *mb,
		    const struct fkv_cluster_register *reg)
{
	size_t n = reg->part ? mb->nr_busy : 0;
	struct fkv_cluster_range *more;

	if (reg->part && reg->part != mb->next_part)
		return -EINVAL;
	if (n + reg->n > FKV_BUSY_MAX)
		return -E2BIG;
	more = fkv_realloc(mb->busy, (n + reg->n + 1) * sizeof(*more));
	if (!more)
		return -ENOMEM;
	if (reg->n)
		memcpy(more + n, reg->busy, reg->n * sizeof(*more));
	mb->busy = more;
	mb->nr_busy = n + reg->n;
	mb->next_part = reg->part + 1;
	return 0;
}

static int register_check(const struct fkv_master *m,
			  const struct fkv_cluster_register *reg)
{
	if (m->now_ns < m->serve_from_ns)
		return -EAGAIN;
	if (!reg->segment_bytes || reg->segment_bytes % FKV_EXTENT_UNIT)
		return -EINVAL;
	if (m->next_serial >= SERIALS_MAX)
		return -EOVERFLOW;
	return 0;
}

int fkv_master_register(struct fkv_master *m, uint64_t now_ns,
			const struct fkv_cluster_register *reg,
			uint32_t *ret_peer, struct fkv_out *out)
{
	struct fkv_member *mb = by_name(m, reg->name);
	int err;

	fkv_members_ran(m, now_ns);
	err = register_check(m, reg);
	if (err)
		return err;
	if (!mb)
		mb = fkv_member_create(m, reg->name, reg->segment_bytes);
	if (!mb)
		return m->nr_members == FKV_OWNERS_MAX ? -EUSERS : -ENOMEM;
	if (fkv_member_live(mb) && mb->until_ns == FKV_NEVER)
		return -EEXIST;
	/* there are never two lives of one name */
	if (fkv_member_live(mb))
		tomb(m, mb, m->now_ns + FKV_SUSPEND_NS, out);
	err = add_part(mb, reg);
	if (!err && reg->part + 1 == reg->parts) {
		err = join(m, mb, reg, out);
		fkv_free(mb->busy);
		mb->busy = NULL;
		mb->nr_busy = 0;
		mb->next_part = 0;
	}
	fkv_master_stirred(m, out);
	if (!err)
		*ret_peer = mb->index;
	return err;
}

static void beat_begins(struct fkv_member *mb)
{
	struct fkv_mop *op;

	TAILQ_FOREACH(op, &mb->ops, of_member)
		op->listed = false;
}

/*
 * The session keeps order: an op whose start came before this and that is not
 * listed is none any more at its owner (G3). Once may be our own mistake.
 */
static void beat_ends(struct fkv_master *m, struct fkv_member *mb,
		      struct fkv_out *out)
{
	struct fkv_mop *op = TAILQ_FIRST(&mb->ops);

	while (op) {
		bool gone;

		op->missing = op->listed ? 0 : op->missing + 1;
		op->listed = true;
		gone = op->missing >= 2;
		if (gone) {
			m->stats.leaked_ops++;
			fkv_master_abandon(m, op, false, out);
		}
		/* what ends may let others of the list end */
		op = gone ? TAILQ_FIRST(&mb->ops) :
			TAILQ_NEXT(op, of_member);
	}
}

static void heartbeat(struct fkv_master *m, struct fkv_member *mb,
		      const struct fkv_cluster_heartbeat *h,
		      struct fkv_out *out)
{
	struct fkv_cluster_msg *reply;

	if (mb->until_ns != FKV_NEVER)
		mb->until_ns = m->now_ns + FKV_LEASE_MASTER_NS;
	if (!h->part)
		beat_begins(mb);
	else if (h->part != mb->next_part)
		return;
	mb->next_part = h->part + 1;
	for (uint32_t i = 0; i < h->n; i++) {
		struct fkv_mop *op = fkv_mop_of(m, mb, h->ops[i]);

		if (op)
			op->listed = true;
	}
	if (mb->next_part < h->parts)
		return;
	mb->next_part = 0;
	beat_ends(m, mb, out);
	reply = fkv_out_cluster(out, mb->index, FKV_CLUSTER_HEARTBEAT_REPLY);
	reply->heartbeat_reply.seq = h->seq;
	reply->heartbeat_reply.epoch = (uint32_t)m->epoch;
	reply->heartbeat_reply.lease_ns = FKV_LEASE_NS;
}

void fkv_master_cluster(struct fkv_master *m, uint64_t now_ns, uint32_t peer,
			const struct fkv_cluster_msg *msg, struct fkv_out *out)
{
	struct fkv_member *mb;

	fkv_members_ran(m, now_ns);
	mb = fkv_member_at(m, peer);
	if (mb && msg->type == FKV_CLUSTER_HEARTBEAT)
		heartbeat(m, mb, &msg->heartbeat, out);
	else if (mb && msg->type == FKV_CLUSTER_BYE)
		tomb(m, mb, m->now_ns, out);
	else if (mb)
		m->stats.bad_messages++;
	fkv_master_stirred(m, out);
}

void fkv_members_ran(struct fkv_master *m, uint64_t now_ns)
{
	bool stood = m->now_ns && now_ns > m->now_ns + FKV_LOOP_GAP_MAX;

	m->now_ns = now_ns;
	if (m->beat_ns == FKV_NEVER && (m->leased || m->tombed))
		m->beat_ns = now_ns + FKV_LOOP_TICK_NS;
	for (uint32_t i = 0; stood && m->leased && i < m->nr_members; i++) {
		struct fkv_member *mb = m->member[i];

		if (fkv_member_live(mb) && mb->until_ns != FKV_NEVER)
			mb->until_ns = now_ns + FKV_LEASE_MASTER_NS;
	}
}

void fkv_members_tick(struct fkv_master *m, struct fkv_out *out)
{
	if (m->now_ns < m->beat_ns)
		return;
	m->beat_ns = m->leased || m->tombed ?
		m->now_ns + FKV_LOOP_TICK_NS : FKV_NEVER;
	for (uint32_t i = 0; i < m->nr_members; i++) {
		struct fkv_member *mb = m->member[i];

		if (m->now_ns < mb->until_ns)
			continue;
		if (fkv_member_live(mb)) {
			tomb(m, mb, m->now_ns + FKV_SUSPEND_NS, out);
		} else {
			drop_all(m, mb);
			mb->until_ns = FKV_NEVER;
		}
	}
}

bool fkv_master_member(const struct fkv_master *m, uint32_t i,
		       struct fkv_member_info *ret)
{
	const struct fkv_member *mb;

	if (i >= m->nr_members)
		return false;
	mb = m->member[i];
	*ret = (struct fkv_member_info){
		.name = mb->name,
		.address = mb->address,
		.incarnation = mb->incarnation,
		.live = fkv_member_live(mb),
		.suspect = mb->suspect_ns > m->now_ns,
		.capacity = mb->space.capacity,
		.free = fkv_extents_free_bytes(&mb->space.extents),
		.unevictable = fkv_space_unevictable(&mb->space),
		.replicas = mb->keys,
		.ssd_devices = mb->ssd_devices,
	};
	return true;
}
