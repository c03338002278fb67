// SPDX-License-Identifier: Apache-2.0
/*
 * reply.c - is what a call returned one of the things that it may?
 */
#include "known.h"
#include "sim.h"

/* May an SSD copy be no good? */
static bool faulty(const struct sim *s)
{
	for (int f = SIM_FAULT_READ_FAIL; f <= SIM_FAULT_DEVICE_GONE; f++)
		if (s->n.fault[f])
			return true;
	return s->n.path[SIM_PATH_LATE_WRITE] ||
	       s->n.fault[SIM_FAULT_CRASH_MASTER] ||
	       s->n.fault[SIM_FAULT_FREEZE_OWNER] ||
	       s->n.fault[SIM_FAULT_FREEZE_MASTER] ||
	       s->n.fault[SIM_FAULT_JUMP];
}

/* The errors that any waiting call may end with. */
static bool wait_error(struct sim *s, const struct sim_pend *p, int status)
{
	if (status == -ENOMEM) {
		s->n.path[SIM_PATH_NOMEM]++;
		return sim_out_of_memory(s, p->asked_ns);
	}
	if (status == -EAGAIN) {
		s->n.path[SIM_PATH_AGAIN]++;
		/* the deadline may pass on the way to the master */
		return !p->timeout_ns || s->cfg.delayed;
	}
	if (status == -ETIMEDOUT) {
		s->n.path[SIM_PATH_TIMEOUT]++;
		return p->timeout_ns &&
		       sim_clock(s, SIM_OWNER) >= p->deadline_ns;
	}
	return false;
}

/* A put that waits for room waits as long as it may, by any clock. */
static bool waited(struct sim *s, const struct sim_pend *p)
{
	uint64_t most = fkv_min_u64(p->timeout_ns, FKV_SPACE_WAIT_MAX);

	return p->called_ns <= s->woke_ns || s->frozen[SIM_OWNER] ||
	       sim_clock(s, SIM_OWNER) >= p->began_ns + most / 100 * 97;
}

static bool room_error(struct sim *s, const struct sim_pend *p, int status,
		       uint32_t flags)
{
	bool put = p->op == FLUXONKV_OP_PUT_BEGIN;

	s->n.path[SIM_PATH_QUOTA] += status == -EDQUOT;
	s->n.path[SIM_PATH_PUT_TOO_BIG] += put && status == -EFBIG;
	if (status == -ENOSPC) {
		s->n.path[put ? SIM_PATH_PUT_NOSPACE :
			  SIM_PATH_GET_NOSPACE]++;
		if (put && !(flags & FLUXONKV_PUT_NOWAIT) && !waited(s, p))
			return false;
		if (!(flags & FLUXONKV_PUT_NOWAIT))
			sim_books_no_room(s, p->called_ns);
	}
	return status == -ENOSPC || status == -EFBIG || status == -EDQUOT;
}

static void hold(struct sim *s, struct sim_client *c, uint32_t key,
		 const struct fluxonkv_result *r)
{
	struct sim_held *h;

	sim_check(s, r->id, "(1) a holder without an id");
	fkv_assert(c->nr_held < SIM_HELD_MAX);
	sim_content(s, "get", key, r->version, r->offset, r->len);
	sim_readers(s, r->offset, r->len, 1);
	h = &c->held[c->nr_held++];
	*h = (struct sim_held){
		.id = r->id,
		.put_id = r->version,
		.offset = r->offset,
		.len = r->len,
		.key = key,
	};
}

static void got(struct sim *s, struct sim_client *c, const struct sim_pend *p,
		uint32_t i, const struct fluxonkv_result *r)
{
	uint32_t key = p->item[i].key;

	s->n.gets++;
	if (!r->status) {
		s->n.path[r->source == FLUXONKV_SOURCE_SSD_LOCAL ?
			  SIM_PATH_GET_SSD : SIM_PATH_GET_HIT]++;
		sim_check(s, r->source == FLUXONKV_SOURCE_LOCAL ||
			  r->source == FLUXONKV_SOURCE_SSD_LOCAL,
			  "a hit with source %u", r->source);
		sim_check(s, sim_was_current(s, key, r->version, p->began),
			  "(3) get of key %u returns %lx, which was not "
			  "current since the call began", key,
			  (uint64_t)r->version);
		hold(s, c, key, r);
		sim_books_cap(s, c, p->nr == 1);
		return;
	}
	if (r->status == -ENOENT) {
		s->n.path[SIM_PATH_GET_MISS]++;
		sim_check(s, sim_was_current(s, key, 0, p->began),
			  "(3) get of key %u misses, but it was there all the "
			  "time", key);
		return;
	}
	s->n.path[SIM_PATH_GET_FAILED] += r->status == -EIO;
	sim_check(s, wait_error(s, p, r->status) ||
		  room_error(s, p, r->status, 0) ||
		  (r->status == -EIO && faulty(s)),
		  "(9) get of key %u returns %d", key, r->status);
}

static void began_put(struct sim *s, struct sim_client *c,
		      const struct sim_pend *p, uint32_t i,
		      const struct fluxonkv_result *r)
{
	const struct sim_pend_item *it = &p->item[i];

	if (!r->status) {
		/* others of the batch may have waited for longer */
		uint64_t opened = sim_op(s, r->id)->opened_ns;

		fkv_assert(c->nr_puts < SIM_PUTS_MAX);
		c->put[c->nr_puts++] = (struct sim_put){
			.id = r->id,
			.key = it->key,
			.len = it->len,
			.offset = r->offset,
			.opened_ns = opened,
			.until_ns = opened + FKV_PUT_OPEN_MAX,
		};
		sim_books_cap(s, c, false);
		sim_at(s, s->now_ns + sim_delay(s, FKV_MS), SIM_WRITE,
		       (uint64_t)(c - s->client), r->id);
		return;
	}
	s->n.path[SIM_PATH_PUT_EXCL] += r->status == -EEXIST;
	s->n.path[SIM_PATH_PUT_EXCL_BUSY] += r->status == -EBUSY;
	if (r->status == -EEXIST)
		sim_check(s, it->flags & FLUXONKV_PUT_EXCL &&
			  sim_was_present(s, it->key, p->began),
			  "(3) put of key %u: EEXIST, but it was absent all "
			  "the time", it->key);
	else if (r->status == -EBUSY)
		sim_check(s, it->flags & FLUXONKV_PUT_EXCL,
			  "(9) put of key %u returns EBUSY", it->key);
	else
		sim_check(s, wait_error(s, p, r->status) ||
			  room_error(s, p, r->status, it->flags),
			  "(9) put_begin of key %u returns %d", it->key,
			  r->status);
}

/* (P5) 60 s from its begin or last extend, by the owner's clock: no less. */
static bool expired(struct sim *s, const struct sim_pend_item *it)
{
	return sim_clock(s, SIM_OWNER) >= it->until_ns;
}

/* And no more, but for a tick that comes late. */
static void check_open(struct sim *s, const struct sim_pend *p,
		       const struct sim_pend_item *it)
{
	uint64_t woke = sim_clock_at(s, SIM_OWNER, s->woke_ns);
	uint64_t until = fkv_max_u64(it->until_ns, woke) + 100 * FKV_MS;

	s->n.path[SIM_PATH_EXTENDED] += it->extended &&
		p->began_ns > it->opened_ns + FKV_PUT_OPEN_MAX;
	sim_check(s, p->began_ns <= until, "(P5) put %lu is committed after "
		  "it was open for too long", it->id);
}

static void committed(struct sim *s, struct sim_client *c,
		      const struct sim_pend *p, uint32_t i,
		      const struct fluxonkv_result *r)
{
	const struct sim_pend_item *it = &p->item[i];
	int copied = sim_op(s, it->id)->copied;

	sim_check(s, !copied || r->status, "(1) put %lu is committed though "
		  "its copy failed", it->id);

	if (!r->status) {
		struct sim_version *v = sim_version(s, r->version);

		s->n.path[SIM_PATH_PUT]++;
		check_open(s, p, it);
		sim_check(s, v && v->tag == sim_tag(s, it->id), "(3) commit "
			  "of put %lu returns version %lx, which is another's",
			  it->id, (uint64_t)r->version);
		sim_check(s, sim_took_effect(s, it->key, r->version,
					     p->began),
			  "(3) put of key %u, version %lx, did not take "
			  "effect during its commit", it->key,
			  (uint64_t)r->version);
		if (SIM_KNOWN_HOLD_NOMEM && !r->id &&
		    sim_out_of_memory(s, p->asked_ns))
			return;
		if (it->flags & FLUXONKV_COMMIT_HOLD)
			hold(s, c, it->key, r);
		return;
	}
	if (r->status == -ETIMEDOUT && expired(s, it)) {
		s->n.path[SIM_PATH_EXPIRED_COMMIT]++;
		return;
	}
	sim_check(s, r->status != -ETIMEDOUT || sim_clock(s, SIM_OWNER) >=
		  p->deadline_ns + FKV_TIMEOUT_GRACE,
		  "(P5) put %lu is over before its time", it->id);
	sim_check(s, r->status == -ETIMEDOUT ||
		  wait_error(s, p, r->status) || r->status == -EEXIST ||
		  (copied && r->status == copied) ||
		  (r->status == -EDQUOT && it->flags & FLUXONKV_COMMIT_HOLD),
		  "(9) commit of key %u returns %d", it->key, r->status);
}

static void deleted(struct sim *s, const struct sim_pend *p, uint32_t i,
		    const struct fluxonkv_result *r)
{
	uint32_t key = p->item[i].key;

	s->n.path[SIM_PATH_DELETE] += !r->status;
	if (!r->status)
		sim_check(s, sim_took_effect(s, key, 0, p->began),
			  "(3) delete of key %u did not take effect during "
			  "the call", key);
	else if (r->status == -ENOENT)
		sim_check(s, sim_was_current(s, key, 0, p->began),
			  "(3) delete of key %u misses, but it was there all "
			  "the time", key);
	else
		sim_check(s, wait_error(s, p, r->status),
			  "(9) delete of key %u returns %d", key, r->status);
}

static void statted(struct sim *s, const struct sim_pend *p, uint32_t i,
		    const struct fluxonkv_result *r)
{
	uint32_t key = p->item[i].key;
	struct sim_version *v;

	if (r->status && r->status != -ENOENT) {
		sim_check(s, wait_error(s, p, r->status),
			  "(9) stat of key %u returns %d", key, r->status);
		return;
	}
	sim_check(s, sim_was_current(s, key, r->status ? 0 : r->version,
				     p->began),
		  "(3) stat of key %u returns %d %lx, which was not so", key,
		  r->status, (uint64_t)r->version);
	if (r->status)
		return;
	v = sim_version(s, r->version);
	sim_check(s, v->len == r->len && r->source, "(3) stat of key %u: "
		  "length %lu, where %u", key, (uint64_t)r->len, r->source);
}

/* Has it had one version since @from? */
static bool steady(const struct sim *s, uint32_t key, uint64_t from)
{
	const struct sim_history *h = &s->history[key];

	return h->n && h->at[h->n - 1].put_id && h->at[h->n - 1].seq < from;
}

static void listed(struct sim *s, const struct sim_pend *p,
		   const struct fkv_call *call)
{
	const struct fkv_listing *l = call->listing;
	uint32_t next = p->item[1].flags ? p->item[1].key + 1 : 0;

	if (call->status) {
		sim_check(s, wait_error(s, p, call->status),
			  "(9) list returns %d", call->status);
		return;
	}
	if (SIM_KNOWN_LIST_NOMEM && !l && sim_out_of_memory(s, p->asked_ns))
		return;
	sim_check(s, l && l->n <= p->item[0].id,
		  "(3) a list too long, or none");
	for (uint32_t i = 0; i < l->n; i++) {
		uint32_t k = sim_key_of(l->at[i].key);

		sim_check(s, k >= next, "(3) a list out of order");
		for (; next < k; next++)
			sim_check(s, !steady(s, next, p->began),
				  "(3) a list without key %u", next);
		sim_check(s, sim_was_current(s, k, l->at[i].put_id, p->began),
			  "(3) a list shows key %u as %lx", k,
			  l->at[i].put_id);
		next = k + 1;
	}
	for (; !l->more && next < s->cfg.keys; next++)
		sim_check(s, !steady(s, next, p->began),
			  "(3) a list without key %u", next);
}

static void counted(struct sim *s, const struct sim_pend *p,
		    const struct fkv_call *call)
{
	uint64_t least = 0, most = 0;

	if (call->status) {
		sim_check(s, wait_error(s, p, call->status),
			  "(9) count returns %d", call->status);
		return;
	}
	if (SIM_KNOWN_LIST_NOMEM && !call->ret_arg &&
	    sim_out_of_memory(s, p->asked_ns))
		return;
	for (uint32_t k = 0; k < s->cfg.keys; k++) {
		least += steady(s, k, p->began);
		most += sim_was_present(s, k, p->began);
	}
	sim_check(s, call->ret_arg >= least && call->ret_arg <= most,
		  "(3) count returns %lu, not %lu to %lu", call->ret_arg, least,
		  most);
}

/* Its put is another's if it was ended since: then its time does not count. */
static void extended(struct sim *s, struct sim_client *c,
		     const struct sim_pend *p, const struct fluxonkv_result *r)
{
	sim_check(s, !r->status || (r->status == -ETIMEDOUT &&
				    expired(s, &p->item[0])),
		  "(P5) extend of put %lu returns %d", p->item[0].id,
		  r->status);
	for (uint32_t i = 0; !r->status && i < c->nr_puts; i++) {
		if (c->put[i].id != p->item[0].id)
			continue;
		c->put[i].until_ns = sim_clock(s, SIM_OWNER) +
			FKV_PUT_OPEN_MAX;
		c->put[i].extended = true;
	}
}

static void item(struct sim *s, struct sim_client *c, const struct sim_pend *p,
		 uint32_t i, const struct fluxonkv_result *r)
{
	if (p->foreign) {
		sim_check(s, r->status == -EINVAL, "(9) op %u of a put that "
			  "is not its client's returns %d", p->op, r->status);
		return;
	}
	switch (p->op) {
	case FLUXONKV_OP_GET:
		got(s, c, p, i, r);
		break;
	case FLUXONKV_OP_PUT_BEGIN:
		began_put(s, c, p, i, r);
		break;
	case FLUXONKV_OP_PUT_COMMIT:
		committed(s, c, p, i, r);
		break;
	case FLUXONKV_OP_DELETE:
		deleted(s, p, i, r);
		break;
	case FLUXONKV_OP_STAT:
		statted(s, p, i, r);
		break;
	case FLUXONKV_OP_RELEASE:
	case FLUXONKV_OP_PUT_ABORT:
		sim_check(s, !r->status, "(9) op %u returns %d", p->op,
			  r->status);
		break;
	case FLUXONKV_OP_PUT_EXTEND:
		extended(s, c, p, r);
		break;
	}
}

void sim_reply(struct sim *s, struct fkv_call *call)
{
	struct sim_client *c = sim_client(s, call->client);
	struct sim_pend p;
	uint32_t at;

	if (!c) {
		fkv_call_free(call);
		return;
	}
	for (at = 0; at < c->nr_pends; at++)
		if (c->pend[at].id == call->id)
			break;
	sim_check(s, at < c->nr_pends, "(9) a second reply to call %lu",
		  call->id);
	p = c->pend[at];
	c->pend[at] = c->pend[--c->nr_pends];
	sim_say(s, "client %lu reply to %lu: %d, first %d", c->id, call->id,
		call->status, call->nr ? call->items[0].res.status : 0);
	if (call->status == -ENOMEM && sim_out_of_memory(s, c->came_ns))
		; /* there was none for the client, so it is not known */
	else if (p.op == FLUXONKV_OP_LIST)
		listed(s, &p, call);
	else if (p.op == FLUXONKV_OP_COUNT)
		counted(s, &p, call);
	else
		sim_check(s, !call->status, "(9) call of op %u returns %d",
			  p.op, call->status);
	for (uint32_t i = 0; i < call->nr && p.op != FLUXONKV_OP_LIST; i++)
		item(s, c, &p, i, &call->items[i].res);
	fkv_call_free(call);
}

void sim_deadlines(struct sim *s)
{
	uint64_t now = sim_clock(s, SIM_OWNER);
	uint64_t woke = sim_clock_at(s, SIM_OWNER, s->woke_ns);

	if (s->frozen[SIM_OWNER] || s->down[SIM_OWNER])
		return;
	for (uint32_t i = 0; i < s->cfg.clients; i++) {
		struct sim_client *c = &s->client[i];

		for (uint32_t k = 0; c->up && k < c->nr_pends; k++)
			sim_check(s, c->pend[k].deadline_ns == FKV_NEVER ||
				  now <= fkv_max_u64(woke,
				  c->pend[k].deadline_ns) + 100 * FKV_MS,
				  "(9) call %lu of op %u was not answered by "
				  "its deadline", c->pend[k].id,
				  c->pend[k].op);
	}
}
