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

uint64_t sim_client_pause(struct sim *s)
{
	return 1 + sim_delay(s, 2 * s->cfg.pace_ns);
}

static void come(struct sim *s, struct sim_client *c)
{
	struct fkv_in in = { .type = FKV_IN_CLIENT };

	memset(c, 0, sizeof(*c));
	c->up = true;
	c->id = ++s->next_client;
	c->life = s->life;
	c->uid = (uint32_t)sim_random(s, 3);
	c->came_ns = s->now_ns;
	in.client = c->id;
	in.uid = c->uid;
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
	come(s, &s->client[i]);
}

static void count_death(struct sim *s, const struct sim_client *c)
{
	uint64_t *path = s->n.path;

	path[SIM_PATH_KILL_HOLDING] += c->nr_held != 0;
	path[SIM_PATH_KILL_PINNING] += sim_index_pinned(s, c->id) != 0;
	path[SIM_PATH_KILL_OPEN] += c->nr_puts != 0;
	path[SIM_PATH_KILL_WAITING] += c->nr_pends != 0;
	path[SIM_PATH_KILL_EXPIRED] += c->nr_puts && c->stalled;
	for (uint32_t i = 0; i < c->nr_puts; i++)
		path[SIM_PATH_KILL_HALF] += c->put[i].written &&
			c->put[i].written < sim_pages(c->put[i].len);
	for (uint32_t i = 0; i < c->nr_pends; i++)
		path[SIM_PATH_KILL_COPYING] +=
			c->pend[i].op == FLUXONKV_OP_PUT_COMMIT &&
			sim_io_copies(s, c->pend[i].item[0].id);
}

void sim_client_kill(struct sim *s, struct sim_client *c)
{
	count_death(s, c);
	sim_client_leave(s, c);
}

/* Its memory is unmapped, its connection closed. */
void sim_client_leave(struct sim *s, struct sim_client *c)
{
	struct fkv_in in = { .type = FKV_IN_CLIENT_GONE, .client = c->id };

	sim_say(s, "client %lu leaves", c->id);
	sim_view(s, c->life);
	for (uint32_t i = 0; i < c->nr_held; i++) {
		struct sim_held *h = &c->held[i];

		sim_content(s, "holder", h->key, h->put_id, h->offset, h->len);
		sim_readers(s, h->offset, h->len, -1);
	}
	sim_view(s, s->life);
	sim_index_client_gone(s, c->id);
	sim_arena_put(c->arena);
	c->up = false;
	if (c->life == s->life)
		sim_feed(s, &in);
}

static uint64_t timeout(struct sim *s)
{
	static const uint64_t max[] = {
		0, 0, 5 * FKV_MS, FKV_SEC, FKV_SEC, 10 * FKV_SEC,
		100 * FKV_SEC,
	};
	uint64_t t = max[sim_random(s, FKV_ARRAY_SIZE(max))];

	if (s->ending)
		return 4 * FKV_SEC;
	return t ? 1 + sim_delay(s, t) : 0;
}

static uint32_t some_key(struct sim *s)
{
	if (s->cfg.flat)
		return (uint32_t)sim_random(s, s->cfg.keys);
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
	p->asked_ns = s->now_ns;
	p->deadline_ns = FKV_NEVER;
	k->client = c->id;
	k->id = p->id;
	k->flags = p->flags;
	k->timeout_ns = p->timeout_ns;
	sim_say(s, "client %lu call %lu op %u nr %u key %u timeout %lu us",
		c->id, p->id, p->op, p->nr, p->item[0].key,
		(uint64_t)(p->timeout_ns / FKV_US));
	sim_feed(s, &in);
}

void sim_client_called(struct sim *s, const struct fkv_call *k)
{
	struct sim_client *c = sim_client(s, k->client);

	if (!c)
		return;
	c->counted = sim_index_pinned(s, c->id);
	fkv_owner_client_pins(s->owner, c->id, c->counted);
	for (uint32_t i = 0; i < c->nr_pends; i++) {
		struct sim_pend *p = &c->pend[i];

		if (p->id != k->id)
			continue;
		p->called_ns = s->now_ns;
		p->began_ns = sim_clock(s, SIM_OWNER);
		p->deadline_ns = p->began_ns + p->timeout_ns;
		for (uint32_t j = 0; j < p->nr; j++)
			sim_books_wants(s, p->op == FLUXONKV_OP_PUT_BEGIN ?
					p->item[j].len : 0);
	}
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

/* Commit, abort or extend a put; after the first two it is not written. */
static void put_call(struct sim *s, struct sim_client *c, uint32_t at,
		     uint16_t op)
{
	struct sim_put put = c->put[at];
	struct sim_pend *p = pend(s, c, op, 1);
	struct fkv_call *k = fkv_call_create(op, 1);

	p->item[0].key = put.key;
	p->item[0].len = put.len;
	p->item[0].id = k->items[0].id = put.id;
	p->item[0].opened_ns = put.opened_ns;
	p->item[0].until_ns = put.until_ns;
	p->item[0].extended = put.extended;
	if (op == FLUXONKV_OP_PUT_COMMIT && room_to_hold(c) && !s->ending &&
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

/* A put that is another client's, or nobody's. */
static void meddle(struct sim *s, struct sim_client *c)
{
	static const uint16_t ops[] = {
		FLUXONKV_OP_PUT_COMMIT, FLUXONKV_OP_PUT_ABORT,
		FLUXONKV_OP_PUT_EXTEND,
	};
	struct sim_client *of = &s->client[sim_random(s, s->cfg.clients)];
	uint64_t id = sim_random(s, 1ULL << sim_random(s, 60)) << 20;
	struct sim_pend *p;
	struct fkv_call *k;

	if (of != c && sim_connected(s, of) && of->nr_puts) {
		s->n.path[SIM_PATH_MEDDLED]++;
		id = of->put[sim_random(s, of->nr_puts)].id;
	}
	p = pend(s, c, ops[sim_random(s, FKV_ARRAY_SIZE(ops))], 1);
	k = fkv_call_create(p->op, 1);
	p->foreign = true;
	p->item[0].id = k->items[0].id = id;
	call(s, c, p, k);
}

/* What is neither get, put nor release. */
static void act_rarely(struct sim *s, struct sim_client *c)
{
	uint64_t what = sim_random(s, 18);

	if (what < 4)
		keyed_call(s, c, FLUXONKV_OP_DELETE, 0);
	else if (what < 8)
		keyed_call(s, c, FLUXONKV_OP_STAT, sim_chance(s, 500) ?
			   FLUXONKV_REQ_WARM : 0);
	else if (what < 10)
		list(s, c);
	else if (what < 12)
		count(s, c);
	else if (what < 14 && c->nr_puts)
		put_call(s, c, (uint32_t)sim_random(s, c->nr_puts),
			 FLUXONKV_OP_PUT_EXTEND);
	else if (what < 17)
		end_a_put(s, c);
	else
		meddle(s, c);
}

static void act(struct sim *s, struct sim_client *c)
{
	uint64_t what = sim_random(s, 100);
	bool into = sim_chance(s, 300);

	if (c->nr_pends == SIM_PENDS_MAX)
		return;
	if (what < s->cfg.p_get && room_to_hold(c))
		keyed_call(s, c, FLUXONKV_OP_GET,
			   into ? FLUXONKV_REQ_INTO : 0);
	else if (what < s->cfg.p_get + s->cfg.p_put &&
		 c->nr_puts + 3 * c->nr_pends < SIM_PUTS_MAX - 3)
		put_begin(s, c);
	else if (what < 90)
		release_some(s, c);
	else
		act_rarely(s, c);
}

/* It meets the end of its connection: what it has mapped it keeps for now. */
static void reconnect(struct sim *s, struct sim_client *c)
{
	if (c->up && sim_chance(s, 500))
		return;
	if (c->up)
		sim_client_leave(s, c);
	if (!s->down[SIM_OWNER])
		come(s, c);
}

void sim_client_act(struct sim *s, uint32_t i)
{
	struct sim_client *c = &s->client[i];

	if (sim_connected(s, c))
		act(s, c);
	else
		reconnect(s, c);
}

static void write_page(struct sim *s, struct sim_client *c,
		       struct sim_put *put, uint32_t i)
{
	struct sim_word w = {
		.tag = sim_tag(s, put->id),
		.key = put->key,
		.page = i,
	};

	if (c->arena)
		c->arena->page[put->offset / SIM_PAGE + i] = w;
	else
		sim_page_write(s, "client", put->id,
			       put->offset + i * SIM_PAGE, w);
}

/* Until its next write: now and then longer than a put may stay open. */
static uint64_t write_pause(struct sim *s, struct sim_client *c,
			    uint64_t max_ns)
{
	bool stalls = sim_fault(s, SIM_FAULT_STALL);

	c->stalled |= stalls;
	if (stalls)
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
		sim_at(s, s->now_ns + write_pause(s, c, 10 * FKV_MS),
		       SIM_WRITE, (uint64_t)(c - s->client), c->put[at].id);
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
	sim_view(s, c->life);
	n = 1 + (uint32_t)sim_random(s, pages);
	while (n-- && put->written < pages)
		write_page(s, c, put, put->written++);
	if (pages && put->written == pages)
		write_page(s, c, put, (uint32_t)sim_random(s, pages));
	sim_view(s, s->life);
	if (put->written == pages && sim_random(s, 2)) {
		if (sim_connected(s, c))
			written(s, c, at);
		return;
	}
	sim_at(s, s->now_ns + write_pause(s, c, FKV_MS), SIM_WRITE, ev->a,
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
	p->item[0].len = s->cfg.pages * 3 / 4 * SIM_PAGE;
	if (c->arena)
		p->item[0].len = SIM_PAGE;
	if (s->cfg.client_cap)
		p->item[0].len = fkv_min_u64(s->cfg.client_cap,
					     p->item[0].len);
	if (s->cfg.uid_cap)
		p->item[0].len = fkv_min_u64(s->cfg.uid_cap, p->item[0].len);
	k->items[0].len = p->item[0].len;
	call(s, c, p, k);
}

/* All of it, and its commit. */
void sim_last_commit(struct sim *s)
{
	struct sim_client *c = &s->client[0];
	struct sim_put *put = &c->put[0];

	while (put->written < sim_pages(put->len))
		write_page(s, c, put, put->written++);
	s->last_key = put->key;
	put_call(s, c, 0, FLUXONKV_OP_PUT_COMMIT);
}

void sim_last_get(struct sim *s)
{
	struct sim_client *c = &s->client[0];
	struct sim_pend *p = pend(s, c, FLUXONKV_OP_GET, 1);
	struct fkv_call *k = fkv_call_create(p->op, 1);

	p->item[0].key = s->last_key;
	k->items[0].key = fkv_key_get(s->key[p->item[0].key]);
	call(s, c, p, k);
}
