// SPDX-License-Identifier: Apache-2.0
/*
 * host.c - processes that start, freeze and die, and the sessions between them
 */
#include "cluster.h"

uint64_t cs_clock(const struct cs *s, uint32_t host)
{
	const struct cs_host *h = &s->host[host];

	return h->first_ns + s->now_ns * h->rate / 1024;
}

static uint64_t clock_when(const struct cs *s, uint32_t host, uint64_t core_ns)
{
	const struct cs_host *h = &s->host[host];

	if (core_ns == FKV_NEVER)
		return FKV_NEVER;
	if (core_ns <= h->first_ns)
		return 0;
	if (core_ns - h->first_ns > 1ULL << 52)
		return FKV_NEVER;
	return ((core_ns - h->first_ns) * 1024 + h->rate - 1) / h->rate;
}

struct cs_op *cs_op(struct cs *s, uint32_t i, uint32_t life, uint64_t id)
{
	struct cs_owner *o = &s->owner[i];
	size_t n = o->nr_ops[life];

	cs_check(s, id < 1000000, "op %lu", id);
	if (id >= n) {
		size_t more = n ? n : 1024;

		while (more <= id)
			more *= 2;
		o->op[life] = fkv_realloc(o->op[life],
					  more * sizeof(struct cs_op));
		fkv_assert(o->op[life]);
		memset(o->op[life] + n, 0, (more - n) * sizeof(struct cs_op));
		o->nr_ops[life] = more;
	}
	return &o->op[life][id];
}

bool cs_lease_valid(const struct cs *s, uint32_t i)
{
	return fkv_owner_lease(s->owner[i].core) > cs_clock(s, i);
}

uint32_t cs_by_incarnation(const struct cs *s, uint64_t incarnation)
{
	for (uint32_t i = 0; i < s->owners; i++)
		if (!s->host[i].down && s->owner[i].incarnation == incarnation)
			return i;
	return CS_OWNERS;
}

/* ---- sessions ---- */

static void post_done(struct cs_post *p)
{
	if (!p->cluster)
		fkv_msg_done(&p->msg);
	fkv_free(p->array);
	fkv_free(p);
}

static void fifo_done(struct cs_fifo *f)
{
	while (f->head) {
		struct cs_post *p = f->head;

		f->head = p->next;
		post_done(p);
	}
	f->tail = &f->head;
}

static void *copy(struct cs_post *p, const void *from, size_t n)
{
	p->array = fkv_zalloc(n + 1);
	fkv_assert(p->array);
	if (n)
		memcpy(p->array, from, n);
	return p->array;
}

static struct cs_post *post_of(const struct fkv_cmd *cmd)
{
	struct cs_post *p = fkv_zalloc(sizeof(*p));

	fkv_assert(p);
	p->cluster = cmd->type == FKV_CMD_CLUSTER;
	if (!p->cluster) {
		p->msg = cmd->msg;
		p->msg.text = NULL;
		return p;
	}
	p->cm = cmd->cluster;
	if (p->cm.type == FKV_CLUSTER_REGISTER) {
		memcpy(p->name, p->cm.reg.name, strlen(p->cm.reg.name));
		p->cm.reg.name = p->name;
		p->cm.reg.address = "";
		p->cm.reg.busy = copy(p, p->cm.reg.busy, p->cm.reg.n *
				      sizeof(*p->cm.reg.busy));
	} else if (p->cm.type == FKV_CLUSTER_HEARTBEAT) {
		p->cm.heartbeat.ops = copy(p, p->cm.heartbeat.ops,
					   p->cm.heartbeat.n *
					   sizeof(uint64_t));
	}
	return p;
}

static void post(struct cs *s, uint32_t i, struct cs_post *p, bool to_master)
{
	struct cs_owner *o = &s->owner[i];
	struct cs_fifo *f = to_master ? &o->to_master : &o->to_owner;

	*f->tail = p;
	f->tail = &p->next;
	f->last_ns = fkv_max_u64(f->last_ns,
				 s->now_ns + cs_delay(s, s->delay_ns));
	cs_at(s, f->last_ns, to_master ? CS_TO_MASTER : CS_TO_OWNER, i,
	      o->session);
}

/* The wire carries what is left of a time (cluster.h). */
static void retime(struct cs *s, struct fkv_msg *msg, uint32_t host, bool left)
{
	uint64_t now = cs_clock(s, host), t = msg->deadline_ns;

	if ((msg->type != FKV_MSG_PUT_START &&
	     msg->type != FKV_MSG_GET_START) || t == FKV_NEVER)
		return;
	msg->deadline_ns = left ? (t > now ? t - now : 0) : now + t;
}

static void hang_up_at(struct cs *s, uint32_t i)
{
	struct cs_owner *o = &s->owner[i];

	o->registered = false;
	o->ended = true;
	fifo_done(&o->to_master);
	if (cs_chance(s, 500))
		fifo_done(&o->to_owner);
	cs_at(s, fkv_max_u64(o->to_owner.last_ns, s->now_ns) + 1 +
	      cs_delay(s, 100 * FKV_MS), CS_HANG_UP, i, o->session);
}

void cs_hang_up(struct cs *s, uint32_t i, uint64_t session)
{
	struct cs_owner *o = &s->owner[i];
	struct fkv_in in = { .type = FKV_IN_SESSION_END };

	if (!o->session || o->session != session)
		return;
	if (o->cut[1] || s->host[i].frozen) {
		cs_at(s, s->now_ns + 50 * FKV_MS, CS_HANG_UP, i, session);
		return;
	}
	cs_say(s, "owner %u: its session is over", i);
	o->session = 0;
	o->registered = false;
	fifo_done(&o->to_master);
	fifo_done(&o->to_owner);
	cs_feed(s, i, &in);
}

void cs_dial(struct cs *s, uint32_t i, uint64_t life)
{
	struct cs_owner *o = &s->owner[i];
	struct fkv_in in = { .type = FKV_IN_SESSION };

	if (s->host[i].down || s->host[i].life != life || o->session)
		return;
	if (s->host[CS_MASTER].down || s->host[CS_MASTER].frozen ||
	    s->host[i].frozen || o->cut[0] || o->cut[1]) {
		cs_at(s, s->now_ns + 20 * FKV_MS + cs_delay(s, 100 * FKV_MS),
		      CS_DIAL, i, life);
		return;
	}
	o->session = ++s->sessions;
	o->incarnation = (o->session << 8 | i) * 2654435761ULL + 1;
	o->registered = o->ended = false;
	s->n.rejoins++;
	in.incarnation = o->incarnation;
	in.n = s->epoch;
	cs_say(s, "owner %u: session %lu", i, o->session);
	cs_feed(s, i, &in);
}

/* ---- the master ---- */

static void master_outputs(struct cs *s)
{
	for (size_t k = 0; k < s->mout.n; k++) {
		struct fkv_cmd *cmd = &s->mout.cmds[k];
		uint32_t peer = cmd->type == FKV_CMD_SEND ? cmd->msg.peer :
			cmd->peer;
		uint32_t i = s->by_peer[peer] - 1;
		struct cs_owner *o = &s->owner[i];

		fkv_assert(s->by_peer[peer]);
		if (cmd->type == FKV_CMD_END) {
			s->n.tombs++;
			cs_say(s, "owner %u is tombed", i);
			if (o->registered && o->incarnation == cmd->token)
				hang_up_at(s, i);
			continue;
		}
		if (cmd->type == FKV_CMD_SEND) {
			cs_say(s, "to owner %u: %u op %lu res %d source %u "
			       "extent %lu put_id %lx%s%s", i, cmd->msg.type,
			       cmd->msg.op, cmd->msg.res, cmd->msg.source,
			       cmd->msg.extent, cmd->msg.put_id,
			       cmd->msg.grant ? " grant" : "",
			       cmd->msg.drop ? " drop" : "");
			s->n.fences += cmd->msg.type == FKV_MSG_FENCE;
		}
		if (o->registered)
			post(s, i, post_of(cmd), false);
		else if (cmd->type == FKV_CMD_SEND)
			fkv_msg_done(&cmd->msg);
	}
	s->mout.n = 0;
}

static void register_owner(struct cs *s, uint32_t i, struct cs_post *p)
{
	struct cs_owner *o = &s->owner[i];
	uint32_t peer = 0;
	int err = fkv_master_register(s->master, cs_clock(s, CS_MASTER),
				      &p->cm.reg, &peer, &s->mout);
	struct fkv_cmd no = { .type = FKV_CMD_CLUSTER };

	s->n.busy += p->cm.reg.n;
	if (err) {
		s->in_core = false;
		no.cluster.type = FKV_CLUSTER_REGISTERED;
		no.cluster.registered.res = err;
		cs_say(s, "owner %u is refused: %d", i, err);
		post(s, i, post_of(&no), false);
		return;
	}
	s->by_peer[peer] = i + 1;
	s->peer_of[i] = peer;
	o->registers = true;
	s->serving = true;
}

void cs_master_step(struct cs *s, uint32_t i, struct cs_post *p)
{
	size_t from = s->mout.n;

	s->seq++;
	fkv_assert(!fkv_out_reserve(&s->mout, 8192));
	s->in_core = true;
	if (p->cluster && p->cm.type == FKV_CLUSTER_REGISTER) {
		register_owner(s, i, p);
	} else if (p->cluster) {
		fkv_master_cluster(s->master, cs_clock(s, CS_MASTER),
				   s->peer_of[i], &p->cm, &s->mout);
	} else {
		p->msg.peer = s->peer_of[i];
		retime(s, &p->msg, CS_MASTER, false);
		fkv_master_step(s->master, cs_clock(s, CS_MASTER), &p->msg,
				&s->mout);
	}
	s->in_core = false;
	fkv_master_check(s->master);
	cs_master_saw(s, from);
	/* what came out for its last life was seen as that one's */
	if (s->owner[i].registers) {
		s->owner[i].registers = false;
		s->owner[i].registered = true;
		s->owner[i].registered_life = s->host[i].life;
	}
	master_outputs(s);
}

static struct cs_post *take(struct cs_fifo *f)
{
	struct cs_post *p = f->head;

	fkv_assert(p);
	f->head = p->next;
	if (!f->head)
		f->tail = &f->head;
	return p;
}

void cs_to_master(struct cs *s, uint32_t i, uint64_t session)
{
	struct cs_owner *o = &s->owner[i];
	struct cs_host *h = &s->host[CS_MASTER];
	struct cs_post *p;

	if (o->session != session || !o->to_master.head || o->ended)
		return;
	if (o->cut[0] || h->frozen) {
		cs_at(s, fkv_max_u64(o->cut[0] ? o->cut_until_ns[0] : 0,
				     h->frozen ? h->thaw_ns : 0) + 1,
		      CS_TO_MASTER, i, session);
		return;
	}
	p = take(&o->to_master);
	/* of who was refused nothing else is heard */
	if (o->registered || (p->cluster &&
			      p->cm.type == FKV_CLUSTER_REGISTER)) {
		cs_master_step(s, i, p);
		if (!p->cluster)
			memset(&p->msg, 0, sizeof(p->msg));
	}
	post_done(p);
}

/* ---- an owner ---- */

static size_t evict_commands(struct cs *s, uint32_t i, size_t at)
{
	struct cs_owner *o = &s->owner[i];
	struct fkv_in in = {
		.type = FKV_IN_EVICTED,
		.entry = o->out.cmds[at].entry,
	};

	in.res = (int)cs_evict(s, i, in.entry);
	fkv_assert(!fkv_out_reserve(&o->out, 4096));
	s->in_core = true;
	fkv_owner_step(o->core, cs_clock(s, i), &in, &o->out);
	s->in_core = false;
	return 1;
}

static void saw_request(struct cs *s, uint32_t i, const struct fkv_msg *msg)
{
	struct cs_op *op;

	if (msg->type != FKV_MSG_PUT_START && msg->type != FKV_MSG_GET_START &&
	    msg->type != FKV_MSG_DELETE)
		return;
	op = cs_op(s, i, s->host[i].life, msg->op);
	op->key = cs_key_of(msg->key);
	op->len = msg->len;
}

static void command(struct cs *s, uint32_t i, struct fkv_cmd *cmd)
{
	struct cs_owner *o = &s->owner[i];
	struct cs_input end = { .in.type = FKV_IN_SESSION_END };
	struct cs_post *p;

	switch (cmd->type) {
	case FKV_CMD_SEND:
	case FKV_CMD_CLUSTER:
		if (cmd->type == FKV_CMD_SEND) {
			cs_say(s, "owner %u: %u op %lu extent %lu res %d n %lu"
			       "%s%s", i, cmd->msg.type, cmd->msg.op,
			       cmd->msg.extent, cmd->msg.res, cmd->msg.n,
			       cmd->msg.drop ? " drop" : "",
			       cmd->msg.suspect ? " suspect" : "");
			saw_request(s, i, &cmd->msg);
		}
		p = post_of(cmd);
		if (!o->session || o->ended) {
			post_done(p);
			break;
		}
		retime(s, &p->msg, i, true);
		post(s, i, p, true);
		break;
	case FKV_CMD_END:
		o->session = 0;
		o->registered = false;
		fifo_done(&o->to_master);
		fifo_done(&o->to_owner);
		cs_input(s, i, &end, 1);
		break;
	case FKV_CMD_JOIN:
		cs_at(s, s->now_ns + 1 + cs_delay(s, 200 * FKV_MS), CS_DIAL, i,
		      s->host[i].life);
		break;
	case FKV_CMD_REPLY:
		cs_reply(s, i, cmd->call);
		break;
	case FKV_CMD_PUBLISH:
		cs_publish(s, i, cmd->entry);
		break;
	case FKV_CMD_RETIRE:
		cs_retire(s, i, cmd->entry);
		break;
	case FKV_CMD_SHUT:
		break;
	default:
		cs_command(s, i, cmd);
		break;
	}
}

static void feed(struct cs *s, uint32_t i, const struct fkv_in *in)
{
	struct cs_owner *o = &s->owner[i];

	s->seq++;
	fkv_assert(!fkv_out_reserve(&o->out, 8192));
	s->in_core = true;
	fkv_owner_step(o->core, cs_clock(s, i), in, &o->out);
	s->in_core = false;
	for (size_t k = 0; k < o->out.n;) {
		struct fkv_cmd cmd = o->out.cmds[k];

		if (cmd.type == FKV_CMD_EVICT) {
			k += evict_commands(s, i, k);
			continue;
		}
		k++;
		command(s, i, &cmd);
	}
	o->out.n = 0;
	fkv_owner_check(o->core);
	if (o->ring)
		fkv_ring_check(o->ring);
	cs_index_check(s, i);
}

static void input_done(struct cs_input *in)
{
	fkv_key_put(in->stage.key);
	fkv_call_free(in->in.call);
	fkv_free(in);
}

static struct cs_input *input_copy(const struct fkv_in *in)
{
	struct cs_input *c = fkv_zalloc(sizeof(*c));

	fkv_assert(c);
	c->in = *in;
	if (in->stage) {
		c->stage = *in->stage;
		fkv_key_get(c->stage.key);
		c->in.stage = &c->stage;
	}
	if (in->sums) {
		memcpy(c->sums, in->sums, sizeof(c->sums));
		c->in.sums = c->sums;
	}
	return c;
}

void cs_feed(struct cs *s, uint32_t i, const struct fkv_in *in)
{
	struct cs_owner *o = &s->owner[i];
	struct cs_input *c;

	if (s->host[i].down) {
		fkv_call_free(in->call);
		return;
	}
	if (!s->host[i].frozen && !o->later) {
		feed(s, i, in);
		return;
	}
	c = input_copy(in);
	*o->later_tail = c;
	o->later_tail = &c->next;
}

void cs_input(struct cs *s, uint32_t i, const struct cs_input *in,
	      uint64_t after_ns)
{
	struct cs_input *c = input_copy(&in->in);

	c->life = s->host[i].life;
	cs_at(s, s->now_ns + after_ns, CS_INPUT, i, (uint64_t)(uintptr_t)c);
}

void cs_input_event(struct cs *s, const struct cs_event *ev)
{
	struct cs_input *c = (struct cs_input *)(uintptr_t)ev->b;

	if (c->life == s->host[ev->a].life && !s->host[ev->a].down)
		cs_feed(s, (uint32_t)ev->a, &c->in);
	input_done(c);
}

void cs_to_owner(struct cs *s, uint32_t i, uint64_t session)
{
	struct cs_owner *o = &s->owner[i];
	struct fkv_in in = { .type = FKV_IN_MSG };
	struct cs_post *p;

	if (o->session != session || !o->to_owner.head)
		return;
	if (o->cut[1] || s->host[i].frozen) {
		cs_at(s, fkv_max_u64(o->cut[1] ? o->cut_until_ns[1] : 0,
				     s->host[i].frozen ? s->host[i].thaw_ns :
				     0) + 1, CS_TO_OWNER, i, session);
		return;
	}
	p = take(&o->to_owner);
	if (p->cluster) {
		in.type = FKV_IN_CLUSTER;
		in.cluster = &p->cm;
	} else {
		p->msg.peer = 0;
		in.msg = &p->msg;
	}
	cs_feed(s, i, &in);
	if (!p->cluster)
		memset(&p->msg, 0, sizeof(p->msg));
	post_done(p);
}

/* ---- time ---- */

uint64_t cs_tick_at(struct cs *s, uint32_t host)
{
	struct cs_host *h = &s->host[host];
	uint64_t when;

	if (h->down || h->frozen)
		return FKV_NEVER;
	when = clock_when(s, host, host == CS_MASTER ?
			  fkv_master_deadline(s->master) :
			  fkv_owner_deadline(s->owner[host].core));
	if (when == FKV_NEVER)
		return FKV_NEVER;
	if (when != h->tick_for) {
		h->tick_for = when;
		h->tick_at = fkv_max_u64(when, s->now_ns) +
			cs_delay(s, 2 * FKV_MS);
	}
	return h->tick_at;
}

void cs_tick(struct cs *s, uint32_t host)
{
	struct fkv_in in = { .type = FKV_IN_TICK };
	size_t from = s->mout.n;

	s->host[host].tick_for = 0;
	if (host != CS_MASTER) {
		cs_feed(s, host, &in);
		return;
	}
	s->seq++;
	fkv_assert(!fkv_out_reserve(&s->mout, 8192));
	s->in_core = true;
	fkv_master_tick(s->master, cs_clock(s, CS_MASTER), &s->mout);
	s->in_core = false;
	fkv_master_check(s->master);
	cs_master_saw(s, from);
	master_outputs(s);
}

void cs_freeze(struct cs *s, uint32_t host, uint64_t for_ns)
{
	struct cs_host *h = &s->host[host];

	if (h->frozen || h->down)
		return;
	cs_say(s, "host %u freezes", host);
	h->frozen = true;
	h->thaw_ns = s->now_ns + for_ns;
	cs_at(s, h->thaw_ns, CS_THAW, host, 0);
}

void cs_thaw(struct cs *s, uint32_t host)
{
	struct cs_host *h = &s->host[host];
	struct cs_owner *o = &s->owner[host];

	if (!h->frozen || h->thaw_ns > s->now_ns)
		return;
	cs_say(s, "host %u thaws", host);
	h->frozen = false;
	h->woke_ns = s->now_ns;
	if (host == CS_MASTER)
		return;
	while (o->later) {
		struct cs_input *c = o->later;

		o->later = c->next;
		if (!o->later)
			o->later_tail = &o->later;
		feed(s, host, &c->in);
		c->in.call = NULL;
		input_done(c);
	}
}

void cs_session_cut(struct cs *s, uint32_t i)
{
	struct cs_owner *o = &s->owner[i];
	uint64_t for_ns = 1 + (cs_chance(s, 500) ? cs_delay(s, FKV_SEC) :
			       cs_random(s, 12 * FKV_SEC));
	uint64_t ways = 1 + cs_random(s, 3);

	cs_say(s, "owner %u is cut off, %lu", i, ways);
	for (int way = 0; way < 2; way++) {
		if (!(ways >> way & 1))
			continue;
		o->cut[way] = true;
		o->cut_until_ns[way] = s->now_ns + for_ns;
	}
}

/* ---- they start and die ---- */

static void make_ring(struct cs *s, struct cs_owner *o)
{
	struct fkv_ring_config rc = { .nr_devices = 1 };

	o->ring = NULL;
	if (!o->shards)
		return;
	rc.device[0] = (struct fkv_ring_device_config){
		.nr_shards = o->shards,
		.ring_size = o->pages * CS_PAGE,
		.unit = CS_PAGE,
	};
	cs_check(s, !fkv_ring_create(&rc, &o->ring), "no ring");
}

void cs_owner_start(struct cs *s, uint32_t i)
{
	struct cs_owner *o = &s->owner[i];
	struct cs_host *h = &s->host[i];
	struct cs_segment *seg = &o->seg[h->life];
	uint32_t pages = o->pages + CS_CHUNKS * (uint32_t)(FKV_CHUNK / CS_PAGE);
	struct fkv_owner_config cfg = {
		.ring_devices = o->shards != 0,
		.ring_shards = o->shards,
		.cluster = true,
		.name = o->name,
		.address = "",
		.segment_bytes = o->pages * CS_PAGE,
		.chunk_offset = o->pages * CS_PAGE,
		.chunks = CS_CHUNKS,
	};

	h->down = h->frozen = false;
	h->woke_ns = s->now_ns;
	seg->page = fkv_zalloc(pages * sizeof(*seg->page));
	seg->readers = fkv_zalloc(pages * sizeof(*seg->readers));
	for (uint32_t d = 0; d < o->shards; d++) {
		seg->disk[d] = fkv_zalloc(o->pages * sizeof(struct cs_word));
		seg->spoiled[d] = fkv_zalloc(o->pages);
	}
	make_ring(s, o);
	cfg.ring = o->ring;
	fkv_assert(!fkv_owner_create(&cfg, &o->core));
	o->to_master.tail = &o->to_master.head;
	o->to_owner.tail = &o->to_owner.head;
	o->later_tail = &o->later;
	o->nr_index = 0;
	o->scanning = false;
	cs_clients_start(s, i);
	cs_at(s, s->now_ns + 1, CS_DIAL, i, h->life);
}

void cs_owner_kill(struct cs *s, uint32_t i)
{
	struct cs_owner *o = &s->owner[i];

	if (s->host[i].down || s->host[i].life + 1 == CS_LIVES)
		return;
	cs_say(s, "owner %u dies", i);
	cs_data_killed(s, i);
	cs_clients_die(s, i);
	fifo_done(&o->to_master);
	fifo_done(&o->to_owner);
	while (o->later) {
		struct cs_input *c = o->later;

		o->later = c->next;
		input_done(c);
	}
	o->session = 0;
	o->registered = false;
	o->incarnation = 0;
	fkv_owner_free(o->core);
	fkv_ring_free(o->ring);
	fkv_out_done(&o->out);
	o->core = NULL;
	o->ring = NULL;
	s->host[i].down = true;
	s->host[i].frozen = false;
	s->host[i].life++;
	s->host[i].restart_ns = s->now_ns + 1 + cs_delay(s, 10 * FKV_SEC);
	cs_at(s, s->host[i].restart_ns, CS_RESTART, i, s->host[i].life);
}

void cs_master_start(struct cs *s)
{
	struct fkv_master_config mc = {
		.epoch = ++s->epoch,
		.seed = cs_random(s, UINT64_MAX),
	};
	struct cs_host *h = &s->host[CS_MASTER];

	h->down = h->frozen = false;
	h->woke_ns = s->now_ns;
	/* it does not know when the last one died */
	if (s->epoch > 1)
		mc.serve_from_ns = cs_clock(s, CS_MASTER) + FKV_LEASE_MASTER_NS;
	memset(s->by_peer, 0, sizeof(s->by_peer));
	s->serving = false;
	fkv_assert(!fkv_master_create(&mc, &s->master));
}

/* Leases that it granted must be over before the next one changes anything. */
void cs_master_kill(struct cs *s)
{
	struct cs_host *h = &s->host[CS_MASTER];

	if (h->down)
		return;
	cs_say(s, "the master dies");
	fkv_master_free(s->master);
	fkv_out_done(&s->mout);
	s->master = NULL;
	h->down = true;
	h->frozen = false;
	h->life++;
	s->seq++;
	for (uint32_t i = 0; i < s->owners; i++)
		if (s->owner[i].session)
			hang_up_at(s, i);
	h->restart_ns = s->now_ns + 1 + cs_delay(s, 8 * FKV_SEC);
	cs_at(s, h->restart_ns, CS_RESTART, CS_MASTER, h->life);
}

void cs_done(struct cs *s)
{
	for (size_t k = 0; k < s->nr_events; k++)
		if (s->heap[k].type == CS_INPUT)
			input_done((struct cs_input *)(uintptr_t)s->heap[k].b);
	for (uint32_t i = 0; i < s->owners; i++) {
		struct cs_owner *o = &s->owner[i];

		cs_owner_kill(s, i);
		for (uint32_t l = 0; l < CS_LIVES; l++) {
			fkv_free(o->seg[l].page);
			fkv_free(o->seg[l].readers);
			for (uint32_t d = 0; d < FKV_SHARDS_MAX; d++) {
				fkv_free(o->seg[l].disk[d]);
				fkv_free(o->seg[l].spoiled[d]);
			}
			fkv_free(o->op[l]);
		}
	}
	cs_master_kill(s);
}
