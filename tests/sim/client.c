// SPDX-License-Identifier: Apache-2.0
/*
 * client.c - clients: what they ask, write, hold, and how they die
 */
#include "sim.h"

struct sim_client *sim_client(struct sim *s, uint64_t id)
{
	for (uint32_t i = 0; i < s->cfg.clients; i++)
		if (s->client[i].up && s->client[i].id == id)
			return &s->client[i];
	return NULL;
}

void sim_arena_put(struct sim_arena *a)
{
	if (!a || --a->refs)
		return;
	fkv_free(a->page);
	fkv_free(a);
}

static uint64_t pace(struct sim *s)
{
	return 1 + sim_delay(s, 2 * s->cfg.pace_ns);
}

static void come(struct sim *s, struct sim_client *c)
{
	struct fkv_in in = { .type = FKV_IN_CLIENT };

	memset(c, 0, sizeof(*c));
	c->up = true;
	c->id = ++s->next_client;
	in.client = c->id;
	in.uid = (uint32_t)sim_random(s, 3);
	if (sim_chance(s, 300)) {
		c->arena_pages = 4 + sim_random(s, 64);
		c->arena = fkv_zalloc(sizeof(*c->arena));
		c->arena->refs = 1;
		c->arena->page = fkv_zalloc(c->arena_pages *
					    sizeof(struct sim_word));
		in.n = c->arena_pages * SIM_PAGE;
	}
	sim_say(s, "client %lu comes%s", c->id, c->arena ? ", arena" : "");
	sim_feed(s, &in);
}

void sim_client_start(struct sim *s, uint32_t i)
{
	struct sim_client *c = &s->client[i];

	come(s, c);
	sim_at(s, s->now_ns + pace(s), SIM_CLIENT, i, c->id);
}

/* Its memory is unmapped, its connection closed. */
void sim_client_leave(struct sim *s, struct sim_client *c)
{
	struct fkv_in in = { .type = FKV_IN_CLIENT_GONE, .client = c->id };

	sim_say(s, "client %lu leaves", c->id);
	for (uint32_t i = 0; i < c->nr_held; i++) {
		struct sim_held *h = &c->held[i];

		sim_content(s, "holder", h->key, h->put_id, h->offset, h->len);
		sim_readers(s, h->offset, h->len, -1);
	}
	sim_index_client_gone(s, c->id);
	sim_arena_put(c->arena);
	c->up = false;
	sim_feed(s, &in);
}

static uint64_t timeout(struct sim *s)
{
	static const uint64_t max[] = {
		0, 0, 5 * FKV_MS, FKV_SEC, FKV_SEC, 10 * FKV_SEC,
		100 * FKV_SEC,
	};
	uint64_t t = max[sim_random(s, FKV_ARRAY_SIZE(max))];

	return t ? 1 + sim_delay(s, t) : 0;
}

static uint32_t some_key(struct sim *s)
{
	return (uint32_t)sim_random(s, 1 + sim_random(s, s->cfg.keys));
}

static struct sim_pend *pend(struct sim *s, struct sim_client *c, uint16_t op,
			     uint32_t nr)
{
	struct sim_pend *p = &c->pend[c->nr_pends++];

	memset(p, 0, sizeof(*p));
	p->op = op;
	p->nr = nr;
	p->timeout_ns = timeout(s);
	return p;
}

/* Hand the call in; from here its reply may come. */
static void call(struct sim *s, struct sim_client *c, struct sim_pend *p,
		 struct fkv_call *k)
{
	struct fkv_in in = { .type = FKV_IN_CALL, .call = k };

	p->id = ++s->next_call;
	p->began = s->seq;
	p->deadline_ns = s->now_ns + p->timeout_ns;
	k->client = c->id;
	k->id = p->id;
	k->flags = p->flags;
	k->timeout_ns = p->timeout_ns;
	sim_say(s, "client %lu call %lu op %u nr %u key %u timeout %lu us",
		c->id, p->id, p->op, p->nr, p->item[0].key,
		(uint64_t)(p->timeout_ns / FKV_US));
	sim_feed(s, &in);
}

static struct fkv_call *keyed(struct sim *s, struct sim_pend *p)
{
	struct fkv_call *k = fkv_call_create(p->op, p->nr);

	for (uint32_t i = 0; i < p->nr; i++) {
		p->item[i].key = some_key(s);
		k->items[i].key = fkv_key_get(s->key[p->item[i].key]);
	}
	return k;
}

static void keyed_call(struct sim *s, struct sim_client *c, uint16_t op,
		       uint16_t flags)
{
	struct sim_pend *p;

	p = pend(s, c, op, 1 + (uint32_t)sim_random(s, SIM_BATCH_MAX));
	p->flags = flags;
	call(s, c, p, keyed(s, p));
}

static uint64_t value_len(struct sim *s)
{
	uint64_t pages = 1 + sim_random(s, s->cfg.value_pages >>
					sim_random(s, 3));

	if (sim_chance(s, 20))
		return 0;
	if (sim_chance(s, 10))
		pages = 1 + sim_random(s, s->cfg.pages);
	return pages * SIM_PAGE - sim_random(s, 2) * sim_random(s, SIM_PAGE);
}

static void put_begin(struct sim *s, struct sim_client *c)
{
	struct sim_pend *p = pend(s, c, FLUXONKV_OP_PUT_BEGIN,
				  1 + (uint32_t)sim_random(s, 3));
	struct fkv_call *k = keyed(s, p);

	for (uint32_t i = 0; i < p->nr; i++) {
		p->item[i].len = k->items[i].len = value_len(s);
		if (sim_chance(s, 150))
			k->items[i].flags |= FLUXONKV_PUT_EXCL;
		if (sim_chance(s, 150))
			k->items[i].flags |= FLUXONKV_PUT_NOWAIT;
		if (sim_chance(s, 100))
			k->items[i].flags |= FLUXONKV_PUT_MEMORY;
		p->item[i].flags = k->items[i].flags;
	}
	call(s, c, p, k);
}

/* Is there room for what all its calls may return? */
static bool room_to_hold(const struct sim_client *c)
{
	return c->nr_held + SIM_BATCH_MAX * c->nr_pends <
		SIM_HELD_MAX - SIM_BATCH_MAX;
}

/* Commit, abort or extend one open put; after the first two it writes no more. */
static void put_call(struct sim *s, struct sim_client *c, uint32_t at,
		     uint16_t op)
{
	struct sim_put put = c->put[at];
	struct sim_pend *p = pend(s, c, op, 1);
	struct fkv_call *k = fkv_call_create(op, 1);

	p->item[0].key = put.key;
	p->item[0].len = put.len;
	p->item[0].id = k->items[0].id = put.id;
	if (op == FLUXONKV_OP_PUT_COMMIT && room_to_hold(c) &&
	    sim_chance(s, 200))
		k->items[0].flags = FLUXONKV_COMMIT_HOLD;
	p->item[0].flags = k->items[0].flags;
	if (op != FLUXONKV_OP_PUT_EXTEND)
		c->put[at] = c->put[--c->nr_puts];
	call(s, c, p, k);
}

void sim_release(struct sim *s, struct sim_client *c, uint32_t i)
{
	struct sim_held h = c->held[i];
	struct sim_pend *p = pend(s, c, FLUXONKV_OP_RELEASE, 1);
	struct fkv_call *k = fkv_call_create(p->op, 1);

	c->held[i] = c->held[--c->nr_held];
	sim_content(s, "release", h.key, h.put_id, h.offset, h.len);
	sim_readers(s, h.offset, h.len, -1);
	p->item[0].id = k->items[0].id = h.id;
	p->item[0].key = h.key;
	call(s, c, p, k);
}

/* Mostly all that it holds: what is held cannot be evicted. */
static void release_some(struct sim *s, struct sim_client *c)
{
	uint32_t n = 1 + (uint32_t)sim_random(s, 2 * c->nr_held + 1);

	while (n-- && c->nr_held && c->nr_pends < SIM_PENDS_MAX)
		sim_release(s, c, (uint32_t)sim_random(s, c->nr_held));
}

static void list(struct sim *s, struct sim_client *c)
{
	struct sim_pend *p = pend(s, c, FLUXONKV_OP_LIST, 2);
	struct fkv_call *k = fkv_call_create(p->op, 2);

	/* item 1: the cursor, if its flag is set */
	p->item[1].flags = (uint32_t)sim_random(s, 2);
	p->item[1].key = some_key(s);
	if (p->item[1].flags)
		k->items[1].key = fkv_key_get(s->key[p->item[1].key]);
	k->arg = 1 + sim_random(s, s->cfg.keys);
	p->item[0].id = k->arg;
	call(s, c, p, k);
}

static void count(struct sim *s, struct sim_client *c)
{
	struct sim_pend *p = pend(s, c, FLUXONKV_OP_COUNT, 1);
	struct fkv_call *k = fkv_call_create(p->op, 1);

	if (sim_chance(s, 500))
		k->items[0].key = fkv_key_create("k", 1);
	call(s, c, p, k);
}

static void end_a_put(struct sim *s, struct sim_client *c)
{
	uint32_t at;

	if (!c->nr_puts)
		return;
	at = (uint32_t)sim_random(s, c->nr_puts);
	if (c->put[at].written < sim_pages(c->put[at].len))
		put_call(s, c, at, FLUXONKV_OP_PUT_ABORT);
	else
		put_call(s, c, at, sim_chance(s, 700) ?
			 FLUXONKV_OP_PUT_COMMIT : FLUXONKV_OP_PUT_ABORT);
}

static void act(struct sim *s, struct sim_client *c)
{
	uint64_t what = sim_random(s, 100);

	if (c->nr_pends == SIM_PENDS_MAX)
		return;
	if (what < 30 && room_to_hold(c))
		keyed_call(s, c, FLUXONKV_OP_GET, sim_chance(s, 300) ?
			   FLUXONKV_REQ_INTO : 0);
	else if (what < 55 && c->nr_puts + 3 * c->nr_pends <
		 SIM_PUTS_MAX - 3 && !s->ending)
		put_begin(s, c);
	else if (what < 84)
		release_some(s, c);
	else if (what < 87)
		keyed_call(s, c, FLUXONKV_OP_DELETE, 0);
	else if (what < 91)
		keyed_call(s, c, FLUXONKV_OP_STAT, sim_chance(s, 500) ?
			   FLUXONKV_REQ_WARM : 0);
	else if (what < 93)
		list(s, c);
	else if (what < 95)
		count(s, c);
	else if (what < 97 && c->nr_puts)
		put_call(s, c, (uint32_t)sim_random(s, c->nr_puts),
			 FLUXONKV_OP_PUT_EXTEND);
	else if (what < 98)
		end_a_put(s, c);
}

void sim_client_event(struct sim *s, const struct sim_event *ev)
{
	struct sim_client *c = &s->client[ev->a];

	if (s->ending)
		return;
	if (!c->up) {
		sim_client_start(s, (uint32_t)ev->a);
		return;
	}
	if (sim_chance(s, s->cfg.p_die)) {
		s->n.deaths++;
		sim_client_leave(s, c);
	} else {
		act(s, c);
	}
	sim_at(s, s->now_ns + pace(s), SIM_CLIENT, ev->a, c->id);
}

static void write_page(struct sim *s, struct sim_client *c,
		       struct sim_put *put, uint32_t i)
{
	struct sim_word w = { .tag = put->id, .key = put->key, .page = i };

	if (c->arena)
		c->arena->page[put->offset / SIM_PAGE + i] = w;
	else
		sim_page_write(s, "client", put->id,
			       put->offset + i * SIM_PAGE, w);
}

/* Until its next write: now and then longer than a put may stay open. */
static uint64_t write_pause(struct sim *s, uint64_t max_ns)
{
	if (sim_chance(s, s->cfg.p_stall))
		return 50 * FKV_SEC + sim_random(s, 60 * FKV_SEC);
	return sim_delay(s, max_ns);
}

static void written(struct sim *s, struct sim_client *c, uint32_t at)
{
	uint64_t what = sim_random(s, 100);

	if (what < 80 && c->nr_pends < SIM_PENDS_MAX)
		put_call(s, c, at, FLUXONKV_OP_PUT_COMMIT);
	else if (what < 85 && c->nr_pends < SIM_PENDS_MAX)
		put_call(s, c, at, FLUXONKV_OP_PUT_ABORT);
	else
		sim_at(s, s->now_ns + write_pause(s, 10 * FKV_MS), SIM_WRITE,
		       (uint64_t)(c - s->client), c->put[at].id);
}

/* The client of an open put writes some more of it, or ends it. */
void sim_client_write(struct sim *s, const struct sim_event *ev)
{
	struct sim_client *c = &s->client[ev->a];
	uint32_t at, pages, n;
	struct sim_put *put;

	for (at = 0; c->up && at < c->nr_puts; at++)
		if (c->put[at].id == ev->b)
			break;
	if (!c->up || at == c->nr_puts || s->ending)
		return;
	put = &c->put[at];
	pages = sim_pages(put->len);
	n = 1 + (uint32_t)sim_random(s, pages);
	while (n-- && put->written < pages)
		write_page(s, c, put, put->written++);
	if (pages && put->written == pages)
		write_page(s, c, put, (uint32_t)sim_random(s, pages));
	if (put->written == pages && sim_random(s, 2)) {
		written(s, c, at);
		return;
	}
	sim_at(s, s->now_ns + write_pause(s, FKV_MS), SIM_WRITE, ev->a,
	       ev->b);
}

void sim_last_put(struct sim *s)
{
	struct sim_client *c = &s->client[0];
	struct sim_pend *p;
	struct fkv_call *k;

	come(s, c);
	p = pend(s, c, FLUXONKV_OP_PUT_BEGIN, 1);
	k = keyed(s, p);
	p->timeout_ns = 4 * FKV_SEC;
	p->item[0].len = s->cfg.pages * 3 / 4 * SIM_PAGE;
	if (c->arena)
		p->item[0].len = SIM_PAGE;
	if (s->cfg.client_cap)
		p->item[0].len = fkv_min_u64(s->cfg.client_cap,
					     p->item[0].len);
	k->items[0].len = p->item[0].len;
	call(s, c, p, k);
}
