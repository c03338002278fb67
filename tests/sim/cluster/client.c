// SPDX-License-Identifier: Apache-2.0
/*
 * client.c - clients of an owner: what they ask, write, hold, and are told
 */
#include "cluster.h"

#define WHO(i, c)	((uint64_t)(i) << 8 | (c))

static void come(struct cs *s, uint32_t i, struct cs_client *c)
{
	struct fkv_in in = { .type = FKV_IN_CLIENT };

	memset(c, 0, sizeof(*c));
	c->up = true;
	c->id = ++s->next_client;
	c->arena = cs_chance(s, 300);
	in.client = c->id;
	in.uid = 1;
	in.n = c->arena ? 64 * CS_PAGE : 0;
	cs_feed(s, i, &in);
}

void cs_clients_start(struct cs *s, uint32_t i)
{
	for (uint32_t c = 0; c < CS_CLIENTS; c++) {
		come(s, i, &s->owner[i].client[c]);
		cs_at(s, s->now_ns + 1 + cs_delay(s, s->pace_ns), CS_ACT, i, c);
	}
}

/* With their daemon: what they mapped does not matter here any more. */
void cs_clients_die(struct cs *s, uint32_t i)
{
	memset(s->owner[i].client, 0, sizeof(s->owner[i].client));
}

static void unhold(struct cs *s, uint32_t i, struct cs_held *h)
{
	cs_content(s, "holder", i, (struct cs_value){
		   h->key, h->put_id, h->offset, h->len });
	cs_read(s, i, h->offset, h->len, -1);
	h->used = false;
}

void cs_client_leave(struct cs *s, uint32_t i, struct cs_client *c)
{
	struct fkv_in in = { .type = FKV_IN_CLIENT_GONE, .client = c->id };

	cs_say(s, "client %lu leaves", c->id);
	for (uint32_t k = 0; k < CS_HELD; k++)
		if (c->held[k].used)
			unhold(s, i, &c->held[k]);
	memset(c, 0, sizeof(*c));
	cs_feed(s, i, &in);
}

static struct cs_pend *pend(struct cs_client *c)
{
	for (uint32_t k = 0; k < CS_PENDS; k++)
		if (!c->pend[k].used)
			return &c->pend[k];
	return NULL;
}

static uint64_t timeout(struct cs *s)
{
	static const uint64_t max[] = {
		0, 100 * FKV_MS, 2 * FKV_SEC, 10 * FKV_SEC, 20 * FKV_SEC,
		40 * FKV_SEC,
	};

	if (s->ending)
		return 8 * FKV_SEC;
	return cs_delay(s, max[cs_random(s, FKV_ARRAY_SIZE(max))]);
}

static void call(struct cs *s, uint32_t i, struct cs_client *c,
		 struct cs_pend *p, struct fkv_call *k)
{
	struct fkv_in in = { .type = FKV_IN_CALL, .call = k };

	p->used = true;
	p->id = ++s->next_call;
	p->began_seq = s->seq;
	p->op = k->op;
	p->deadline_ns = FKV_NEVER;
	if (!s->host[i].frozen)
		p->deadline_ns = cs_clock(s, i) + p->timeout_ns;
	k->client = c->id;
	k->id = p->id;
	k->timeout_ns = p->timeout_ns;
	cs_say(s, "owner %u client %lu call %lu op %u key %u timeout %lu us",
	       i, c->id, p->id, p->op, p->key,
	       (uint64_t)(p->timeout_ns / FKV_US));
	cs_feed(s, i, &in);
}

static void keyed(struct cs *s, uint32_t i, struct cs_client *c, uint16_t op)
{
	struct cs_pend *p = pend(c);
	struct fkv_call *k;

	if (!p)
		return;
	memset(p, 0, sizeof(*p));
	k = fkv_call_create(op, 1);
	p->timeout_ns = timeout(s);
	p->key = (uint32_t)cs_random(s, s->keys);
	k->items[0].key = fkv_key_get(s->key[p->key]);
	if (op == FLUXONKV_OP_STAT && cs_chance(s, 500))
		k->flags = FLUXONKV_REQ_WARM;
	if (op == FLUXONKV_OP_PUT_BEGIN) {
		p->len = (1 + cs_random(s, s->owner[i].value_pages)) * CS_PAGE -
			cs_random(s, CS_PAGE);
		if (cs_chance(s, 30))
			p->len = 0;
		k->items[0].len = p->len;
		k->items[0].flags = cs_chance(s, 150) ? FLUXONKV_PUT_EXCL : 0;
		if (cs_chance(s, 100))
			k->items[0].flags |= FLUXONKV_PUT_MEMORY;
		p->flags = k->items[0].flags;
	}
	call(s, i, c, p, k);
}

static void by_id(struct cs *s, uint32_t i, struct cs_client *c,
		  const struct cs_ask *ask)
{
	struct cs_pend *p = pend(c);
	struct fkv_call *k;

	if (!p)
		return;
	memset(p, 0, sizeof(*p));
	k = fkv_call_create(ask->op, 1);
	p->timeout_ns = ask->op == FLUXONKV_OP_RELEASE ? FKV_SEC : timeout(s);
	p->key = ask->key;
	p->tag = ask->tag;
	p->hold = ask->id;
	p->flags = ask->flags;
	k->items[0].id = ask->id;
	k->items[0].flags = ask->flags;
	call(s, i, c, p, k);
}

static uint32_t nr_held(const struct cs_client *c)
{
	uint32_t n = 0;

	for (uint32_t k = 0; k < CS_HELD; k++)
		n += c->held[k].used;
	for (uint32_t k = 0; k < CS_PENDS; k++)
		n += c->pend[k].used;
	return n;
}

static uint32_t nr_puts(const struct cs_client *c)
{
	uint32_t n = 0;

	for (uint32_t k = 0; k < CS_PUTS; k++)
		n += c->put[k].used;
	for (uint32_t k = 0; k < CS_PENDS; k++)
		n += c->pend[k].used && c->pend[k].op == FLUXONKV_OP_PUT_BEGIN;
	return n;
}

static void act(struct cs *s, uint32_t i, struct cs_client *c)
{
	uint64_t what = cs_random(s, 100);

	if (what < 45) {
		if (nr_held(c) + 1 < CS_HELD)
			keyed(s, i, c, FLUXONKV_OP_GET);
	} else if (what < 75) {
		if (nr_puts(c) < CS_PUTS)
			keyed(s, i, c, FLUXONKV_OP_PUT_BEGIN);
	} else if (what < 84) {
		keyed(s, i, c, FLUXONKV_OP_DELETE);
	} else if (what < 90) {
		keyed(s, i, c, FLUXONKV_OP_STAT);
	} else {
		cs_pin_some(s, i);
	}
}

void cs_client_act(struct cs *s, uint32_t i, uint64_t at)
{
	struct cs_client *c = &s->owner[i].client[at];

	if (s->host[i].down || s->ending)
		return;
	if (!c->up)
		come(s, i, c);
	else if (cs_fault(s, CS_CLIENT_GONE))
		cs_client_leave(s, i, c);
	else
		act(s, i, c);
	cs_at(s, s->now_ns + 1 + cs_delay(s, 2 * s->pace_ns), CS_ACT, i, at);
}

static struct cs_client *client_of(struct cs *s, uint64_t who)
{
	return &s->owner[who >> 8].client[who & 255];
}

/* Some more of it is written; in the end it is committed, mostly. */
void cs_client_write(struct cs *s, uint64_t who, uint64_t id)
{
	uint32_t i = (uint32_t)(who >> 8), k = 0;
	struct cs_client *c = client_of(s, who);
	struct cs_ask ask = { .id = id };
	struct cs_put *put;

	while (k < CS_PUTS && !(c->put[k].used && c->put[k].id == id))
		k++;
	if (s->host[i].down || !c->up || k == CS_PUTS)
		return;
	put = &c->put[k];
	for (uint32_t p = 0; !c->arena && p < cs_pages(put->len); p++)
		if (put->written || cs_random(s, 2))
			cs_write(s, "a client", i, put->offset + p * CS_PAGE,
				 (struct cs_word){ put->tag, put->key, p });
	if (!put->written || !pend(c)) {
		put->written = true;
		cs_at(s, s->now_ns + 1 + cs_delay(s, cs_chance(s, 20) &&
						  !s->ending ?
						  70 * FKV_SEC : 5 * FKV_MS),
		      CS_WRITE, who, id);
		return;
	}
	put->used = false;
	ask.key = put->key;
	ask.tag = put->tag;
	if (cs_chance(s, 200) && nr_held(c) + 1 < CS_HELD && !s->ending)
		ask.flags = FLUXONKV_COMMIT_HOLD;
	ask.op = cs_chance(s, 900) || s->ending ?
		FLUXONKV_OP_PUT_COMMIT : FLUXONKV_OP_PUT_ABORT;
	by_id(s, i, c, &ask);
}

void cs_client_unhold(struct cs *s, uint64_t who, uint64_t id)
{
	const struct cs_ask release = { .op = FLUXONKV_OP_RELEASE, .id = id };
	uint32_t i = (uint32_t)(who >> 8);
	struct cs_client *c = client_of(s, who);

	for (uint32_t k = 0; k < CS_HELD; k++) {
		if (s->host[i].down || !c->held[k].used ||
		    c->held[k].id != id)
			continue;
		if (!pend(c)) {
			cs_at(s, s->now_ns + FKV_MS, CS_UNHOLD, who, id);
			return;
		}
		unhold(s, i, &c->held[k]);
		by_id(s, i, c, &release);
		return;
	}
}

/* ---- replies ---- */

static void hold(struct cs *s, uint32_t i, struct cs_client *c, uint32_t key,
		 const struct fluxonkv_result *r)
{
	uint64_t who = WHO(i, (uint64_t)(c - s->owner[i].client));
	uint32_t k = 0;

	while (k < CS_HELD && c->held[k].used)
		k++;
	cs_check(s, k < CS_HELD, "too many holders");
	c->held[k] = (struct cs_held){
		.used = true,
		.id = r->id,
		.put_id = r->version,
		.offset = r->offset,
		.len = r->len,
		.key = key,
	};
	cs_content(s, "a get", i, (struct cs_value){
		   key, r->version, r->offset, r->len });
	cs_read(s, i, r->offset, r->len, 1);
	cs_at(s, s->now_ns + 1 + cs_delay(s, 3 * FKV_SEC), CS_UNHOLD, who,
	      r->id);
}

static bool error_ok(struct cs *s, uint32_t i, const struct cs_pend *p,
		     int status)
{
	switch (status) {
	case -EAGAIN:
		return true;
	case -ENOMEM:
		return s->nomem_ns && s->nomem_ns + 200 * FKV_SEC > s->now_ns;
	case -ETIMEDOUT:
		s->n.unknown++;
		return true;
	case -ENOSPC:
	case -EIO:
	case -ESTALE:
	case -ECANCELED:
		return true;
	case -EFBIG:
	case -EDQUOT:
		return p->op == FLUXONKV_OP_PUT_BEGIN || p->len ||
		       i < CS_OWNERS;
	default:
		return false;
	}
}

static void got(struct cs *s, uint32_t i, struct cs_client *c,
		struct cs_pend *p, const struct fluxonkv_result *r)
{
	s->n.gets++;
	if (!r->status) {
		cs_check(s, cs_was_current(s, p->key, r->version,
					   p->began_seq) ||
			 (!cs_lease_valid(s, i) &&
			  cs_ever(s, p->key, r->version)),
			 "(3) get %lu at owner %u of key %u returns %lx, which "
			 "was not current", p->id, i, p->key,
			 (uint64_t)r->version);
		hold(s, i, c, p->key, r);
	} else if (r->status == -ENOENT) {
		cs_check(s, cs_was_current(s, p->key, 0, p->began_seq),
			 "(3) get %lu at owner %u of key %u misses", p->id, i,
			 p->key);
	} else {
		cs_check(s, error_ok(s, i, p, r->status),
			 "get: status %d", r->status);
	}
}

static void begun(struct cs *s, uint32_t i, struct cs_client *c,
		  struct cs_pend *p, const struct fluxonkv_result *r)
{
	uint64_t who = WHO(i, (uint64_t)(c - s->owner[i].client));
	uint32_t k = 0;

	if (r->status) {
		cs_check(s, error_ok(s, i, p, r->status) ||
			 (p->flags & FLUXONKV_PUT_EXCL &&
			  (r->status == -EEXIST || r->status == -EBUSY)),
			 "put: status %d", r->status);
		return;
	}
	while (k < CS_PUTS && c->put[k].used)
		k++;
	cs_check(s, k < CS_PUTS, "too many puts");
	c->put[k] = (struct cs_put){
		.used = true,
		.id = r->id,
		.offset = r->offset,
		.len = p->len,
		.key = p->key,
		.tag = (uint64_t)i << 56 | (uint64_t)s->host[i].life << 40 |
			r->id,
	};
	cs_at(s, s->now_ns + 1 + cs_delay(s, 5 * FKV_MS), CS_WRITE, who, r->id);
}

static void committed(struct cs *s, uint32_t i, struct cs_client *c,
		      struct cs_pend *p, const struct fluxonkv_result *r)
{
	struct cs_version *v;

	s->n.puts++;
	if (r->status) {
		cs_check(s, error_ok(s, i, p, r->status) ||
			 r->status == -EEXIST, "commit: status %d", r->status);
		return;
	}
	v = cs_version(s, r->version, false);
	cs_check(s, v && v->tag == p->tag, "(3) commit %lu returns %lx, which "
		 "is another's", p->id, (uint64_t)r->version);
	cs_check(s, cs_was_current(s, p->key, r->version, p->began_seq),
		 "(3) commit %lu of key %u took no effect", p->id, p->key);
	if (p->flags & FLUXONKV_COMMIT_HOLD)
		hold(s, i, c, p->key, r);
}

static void answered(struct cs *s, uint32_t i, struct cs_client *c,
		     struct cs_pend *p, const struct fluxonkv_result *r)
{
	switch (p->op) {
	case FLUXONKV_OP_GET:
		got(s, i, c, p, r);
		break;
	case FLUXONKV_OP_PUT_BEGIN:
		begun(s, i, c, p, r);
		break;
	case FLUXONKV_OP_PUT_COMMIT:
		committed(s, i, c, p, r);
		break;
	case FLUXONKV_OP_DELETE:
		s->n.deletes++;
		if (r->status && r->status != -ENOENT)
			cs_check(s, error_ok(s, i, p, r->status),
				 "delete: status %d", r->status);
		else
			cs_check(s, cs_was_current(s, p->key, 0, p->began_seq),
				 "(3) delete %lu of key %u", p->id, p->key);
		break;
	case FLUXONKV_OP_STAT:
		if (r->status && r->status != -ENOENT)
			cs_check(s, error_ok(s, i, p, r->status),
				 "stat: status %d", r->status);
		else
			cs_check(s, cs_was_current(s, p->key, r->status ? 0 :
						   r->version, p->began_seq),
				 "(3) stat %lu of key %u", p->id, p->key);
		break;
	default:
		break;
	}
}

void cs_reply(struct cs *s, uint32_t i, struct fkv_call *k)
{
	struct cs_owner *o = &s->owner[i];

	for (uint32_t c = 0; c < CS_CLIENTS; c++)
		for (uint32_t at = 0; at < CS_PENDS; at++) {
			struct cs_client *cl = &o->client[c];
			struct cs_pend p = cl->pend[at];

			if (!cl->up || cl->id != k->client || !p.used ||
			    p.id != k->id)
				continue;
			cl->pend[at].used = false;
			cs_say(s, "owner %u reply %lu: %d %d %lx", i, p.id,
			       k->status, k->items[0].res.status,
			       (uint64_t)k->items[0].res.version);
			if (s->last_id == p.id) {
				s->last_done = true;
				s->last_status = k->status ? k->status :
					k->items[0].res.status;
			}
			if (!k->status)
				answered(s, i, cl, &p, &k->items[0].res);
		}
	fkv_call_free(k);
}

void cs_deadlines(struct cs *s)
{
	for (uint32_t i = 0; i < s->owners; i++) {
		const struct cs_host *h = &s->host[i];
		uint64_t now = cs_clock(s, i);
		uint64_t woke = h->first_ns + h->woke_ns * h->rate / 1024;

		if (h->down || h->frozen)
			continue;
		for (uint32_t c = 0; c < CS_CLIENTS; c++)
			for (uint32_t k = 0; k < CS_PENDS; k++) {
				struct cs_pend *p = &s->owner[i].client[c].
					pend[k];

				if (!p->used || p->deadline_ns == FKV_NEVER)
					continue;
				cs_check(s, now <= fkv_max_u64(p->deadline_ns,
					 woke) + 100 * FKV_MS,
					 "(9) call %lu of op %u at owner %u "
					 "was not answered by its deadline",
					 p->id, p->op, i);
			}
	}
}

/* Of the end: one call of client 0, whose answer is waited for. */
bool cs_last_call(struct cs *s, uint32_t i, const struct cs_ask *ask)
{
	struct cs_client *c = &s->owner[i].client[0];
	struct cs_pend *p;
	struct fkv_call *k;

	if (!c->up)
		come(s, i, c);
	p = pend(c);
	if (!p)
		return false;
	memset(p, 0, sizeof(*p));
	k = fkv_call_create(ask->op, 1);
	p->timeout_ns = 8 * FKV_SEC;
	p->key = ask->key;
	p->len = ask->len;
	k->items[0].key = fkv_key_get(s->key[ask->key]);
	k->items[0].len = ask->len;
	s->last_done = false;
	s->last_id = s->next_call + 1;
	call(s, i, c, p, k);
	return true;
}
