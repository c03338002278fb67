// SPDX-License-Identifier: Apache-2.0
/*
 * books.c - accounts of the master's, kept a second time from the messages
 *
 * References by extent, what class limits speak of, what may be published,
 * what is written to SSD for what is read, and whether there was room when a
 * call was told that there is none.
 */
#include "known.h"
#include "sim.h"

static struct sim_extent *extent_at(struct sim *s, uint64_t extent)
{
	if (extent >= s->nr_extents) {
		size_t n = s->nr_extents ? s->nr_extents : 1024;

		while (n <= extent)
			n *= 2;
		s->extent = fkv_realloc(s->extent, n * sizeof(*s->extent));
		fkv_assert(s->extent);
		memset(s->extent + s->nr_extents, 0,
		       (n - s->nr_extents) * sizeof(*s->extent));
		s->nr_extents = n;
	}
	return &s->extent[extent];
}

static void give(struct sim *s, uint64_t extent)
{
	extent_at(s, extent)->refs++;
}

static void take(struct sim *s, uint64_t extent, uint64_t n)
{
	struct sim_extent *x = extent_at(s, extent);

	sim_check(s, x->refs >= n, "(4) %lu references to extent %lu come "
		  "back, %u were given", n, extent, x->refs);
	x->refs -= (uint32_t)n;
}

/* A message that leaves the master. */
void sim_books_sent(struct sim *s, const struct fkv_msg *msg)
{
	if (msg->res)
		return;
	switch (msg->type) {
	case FKV_MSG_PUT_DONE_R:
		give(s, msg->extent);
		break;
	case FKV_MSG_GET_PLAN:
		if (msg->source == FLUXONKV_SOURCE_LOCAL)
			give(s, msg->extent);
		break;
	case FKV_MSG_GET_DONE_R:
		give(s, sim_op(s, msg->op)->extent);
		break;
	case FKV_MSG_PERSIST:
		give(s, msg->extent);
		extent_at(s, msg->extent)->offset = msg->offset;
		sim_readers(s, msg->offset, msg->len, 1);
		break;
	default:
		break;
	}
}

/* A message that the master is about to handle. */
void sim_books_got(struct sim *s, const struct fkv_msg *msg)
{
	struct sim_version *v;

	switch (msg->type) {
	case FKV_MSG_PUT_REVOKE:
		if (msg->held)
			give(s, sim_op(s, msg->op)->extent);
		break;
	case FKV_MSG_QUIET:
	case FKV_MSG_EVICTED:
		take(s, msg->extent, msg->n);
		break;
	case FKV_MSG_SSD_COMMIT:
	case FKV_MSG_PERSIST_FAILED:
		take(s, msg->extent, 1);
		v = sim_version(s, msg->put_id);
		sim_readers(s, extent_at(s, msg->extent)->offset, v->len, -1);
		break;
	case FKV_MSG_PINS:
		s->told_pins = msg->n;
		break;
	case FKV_MSG_SSD_STATE:
		s->n.path[SIM_PATH_OFF_ON] += msg->n > s->devices_on;
		s->devices_on = msg->n;
		break;
	default:
		break;
	}
}

/* (4) As many references as the messages say. */
void sim_books_check(struct sim *s)
{
	for (uint32_t k = 0; k < s->cfg.keys; k++) {
		struct fkv_route_info ri;
		struct sim_extent *x;

		if (!fkv_master_route_at(s->master, s->key[k], &ri) ||
		    !ri.memory || !ri.len)
			continue;
		x = extent_at(s, s->l->page[ri.offset / SIM_PAGE].extent);
		sim_check(s, x->refs == ri.refs, "(4) key %u: the master "
			  "counts %u references, gave %u", k, ri.refs,
			  x->refs);
	}
}

static uint64_t class_limit(const struct sim *s, uint8_t class)
{
	static const unsigned int percent[] = {
		[FKV_CLASS_INTO] = 100, [FKV_CLASS_GET] = 95,
		[FKV_CLASS_PUT] = 85,
	};

	return fkv_align_down(s->cfg.pages * SIM_PAGE / 100 * percent[class],
			      SIM_PAGE);
}

static bool is_plan(const struct fkv_msg *msg)
{
	return !msg->res && (msg->type == FKV_MSG_PUT_PLAN ||
			     (msg->type == FKV_MSG_GET_PLAN &&
			      msg->source == FLUXONKV_SOURCE_SSD_LOCAL));
}

/* (5) When room was given out, what cannot be evicted is within limits. */
void sim_books_limits(struct sim *s, size_t from)
{
	struct fkv_master_stats m;
	uint64_t limit = 0;

	for (size_t i = from; i < s->mout.n; i++) {
		const struct fkv_msg *msg = &s->mout.cmds[i].msg;
		struct sim_op *op = sim_op(s, msg->op);

		if (is_plan(msg) && op->len)
			limit = fkv_max_u64(limit, class_limit(s, op->class));
	}
	if (!limit)
		return;
	fkv_master_get_stats(s->master, &m);
	sim_check(s, m.unevictable <= limit, "(5) %lu bytes are not "
		  "evictable, the limit is %lu", m.unevictable, limit);
	sim_check(s, s->exposed * SIM_PAGE + s->told_pins <= limit,
		  "(5) %lu bytes are being written, %lu pinned, the limit is "
		  "%lu", s->exposed * SIM_PAGE, s->told_pins, limit);
}

/* (6) What the owner may publish: by the messages that reach it. */
void sim_books_granted(struct sim *s, const struct fkv_msg *msg)
{
	uint64_t put_id = msg->put_id;
	struct sim_version *v;

	if (msg->type == FKV_MSG_GET_DONE_R)
		put_id = sim_op(s, msg->op)->put_id;
	v = sim_version(s, put_id);
	if (!v)
		return;
	if (msg->type == FKV_MSG_RETIRE)
		v->granted = false;
	else if (msg->grant && !msg->res)
		v->granted = true;
}

/*
 * Each put is written once, and again at most once for each time that it was
 * read since.
 */
void sim_books_written(struct sim *s, const struct sim_io *io, uint32_t key)
{
	struct sim_version *v = sim_version(s, io->put_id);

	v->writes++;
	sim_check(s, v->writes <= 1 + v->uses, "(W) key %u %lx is written for "
		  "the %lu. time, it was read %lu times", key, io->put_id,
		  v->writes, v->uses);
	if (s->nr_persists == s->room_persists) {
		s->room_persists = s->room_persists ? 2 * s->room_persists :
			64;
		s->persist = fkv_realloc(s->persist, s->room_persists *
					 sizeof(*s->persist));
		fkv_assert(s->persist);
	}
	s->persist[s->nr_persists++] = (struct sim_persist){
		.seq = io->seq,
		.put_id = io->put_id,
		.vpos = io->vpos,
		.shard = io->shard,
		.key = key,
	};
}

#define WINDOW_NS	(6 * FKV_SEC)
#define CAUSE_HELD	4	/* no route, but the owner still has it */

/* The largest room that anybody asked for lately; @len 0: some get did. */
void sim_books_wants(struct sim *s, uint64_t len)
{
	uint64_t window = s->now_ns / WINDOW_NS;

	if (window != s->len_window) {
		s->len_max[0] = window == s->len_window + 1 ? s->len_max[1] :
			0;
		s->len_max[1] = 0;
		s->len_window = window;
	}
	for (uint32_t k = 0; !len && k < s->cfg.keys; k++)
		if (sim_current(s, k))
			s->len_max[1] = fkv_max_u64(s->len_max[1],
				sim_version(s, sim_current(s, k))->len);
	s->len_max[1] = fkv_max_u64(s->len_max[1], len);
}

static bool idle(const struct sim *s, const struct sim_page *p)
{
	return !p->writer && p->readers == p->shown &&
	       p->idle_ns + FKV_SEC < s->now_ns;
}

static uint64_t most_wanted(const struct sim *s)
{
	return sim_pages(fkv_max_u64(s->len_max[0], s->len_max[1]));
}

/* A pinned value whose persist is pending counts twice: the limit is lower. */
void sim_books_full(struct sim *s, const struct fkv_master_stats *m)
{
	if (m->unevictable + most_wanted(s) * SIM_PAGE >
	    class_limit(s, FKV_CLASS_PUT))
		s->full_ns = s->now_ns;
}

/* A batch of gets that waits for some of its keys holds the others. */
static bool half_got(const struct sim *s)
{
	for (uint32_t i = 0; i < s->cfg.clients; i++)
		for (uint32_t k = 0; k < s->client[i].nr_pends; k++)
			if (s->client[i].pend[k].op == FLUXONKV_OP_GET &&
			    s->client[i].pend[k].nr > 1)
				return true;
	return false;
}

/*
 * (11) ENOSPC after a wait: there must not have been room, free or evictable,
 * for whoever may have been first in line, for all of the last second.
 */
void sim_books_no_room(struct sim *s, uint64_t since_ns)
{
	uint64_t want = most_wanted(s);
	uint64_t run = 0, longest = 0, busy = 0;
	struct fkv_master_stats m;

	fkv_master_get_stats(s->master, &m);
	sim_index_held(s);
	if (half_got(s) && m.cause_bytes[CAUSE_HELD])
		return;
	if (since_ns == FKV_NEVER || s->now_ns < since_ns + 2 * FKV_SEC ||
	    s->now_ns < s->woke_ns + 2 * FKV_SEC || s->frozen[SIM_OWNER] ||
	    s->frozen[SIM_MASTER])
		return;
	s->n.path[SIM_PATH_ROOM_CHECKED]++;
	if (s->now_ns < s->full_ns + FKV_SEC ||
	    (SIM_KNOWN_BUSY_FIRST && s->cfg.first) ||
	    (SIM_KNOWN_SLOW_BACKING && s->n.fault[SIM_FAULT_WRITE_SLOW]))
		return;
	for (uint32_t i = 0; i < s->cfg.pages; i++) {
		run = idle(s, &s->l->page[i]) ? run + 1 : 0;
		busy += !run;
		longest = fkv_max_u64(longest, run);
	}
	sim_check(s, longest < want || (busy + want) * SIM_PAGE >
		  class_limit(s, FKV_CLASS_PUT),
		  "(11) no room for anybody's %lu pages, but %lu in a row are "
		  "free or evictable, %lu are in use", want, longest, busy);
}

static uint64_t bytes_of(const struct sim_client *c)
{
	uint64_t n = 0;

	for (uint32_t i = 0; i < c->nr_held; i++)
		n += fkv_extent_bytes(c->held[i].len);
	for (uint32_t i = 0; i < c->nr_puts; i++)
		n += fkv_extent_bytes(c->put[i].len);
	return n;
}

/* (H4) Nobody holds more than the caps; @all: what it pins counts, too. */
void sim_books_cap(struct sim *s, const struct sim_client *c, bool all)
{
	uint64_t mine = bytes_of(c) + (all ? c->counted : 0), uid = 0;

	for (uint32_t i = 0; i < s->cfg.clients; i++)
		if (sim_connected(s, &s->client[i]) &&
		    s->client[i].uid == c->uid)
			uid += bytes_of(&s->client[i]);
	sim_check(s, !s->cfg.client_cap || mine <= s->cfg.client_cap,
		  "(H4) client %lu has %lu bytes, its cap is %lu", c->id, mine,
		  s->cfg.client_cap);
	sim_check(s, !s->cfg.uid_cap || uid <= s->cfg.uid_cap,
		  "(H4) uid %u has %lu bytes, its cap is %lu", c->uid, uid,
		  s->cfg.uid_cap);
}

/* (4) At rest what is used is what routes keep in memory. */
void sim_books_end(struct sim *s)
{
	struct fkv_master_stats m;
	uint64_t used = 0;

	fkv_master_get_stats(s->master, &m);
	for (uint32_t k = 0; k < s->cfg.keys; k++) {
		struct fkv_route_info ri;

		if (fkv_master_route_at(s->master, s->key[k], &ri) &&
		    ri.memory)
			used += fkv_extent_bytes(ri.len);
	}
	sim_check(s, used == m.used, "(4) %lu bytes are used, routes have %lu",
		  m.used, used);
	sim_check(s, !s->exposed, "(10) %lu pages may still be written",
		  s->exposed);
}
