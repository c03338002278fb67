// SPDX-License-Identifier: Apache-2.0
/*
 * cores.c - drives the two cores as the daemon's engine does
 *
 * Commands of the owner are carried out in order; a run of EVICTs is answered
 * before anything else. Standalone: a message is a function call, and what the
 * master answers goes in before the next command. Delayed: each direction is
 * a queue that keeps its order and takes its time; what is on its way when a
 * session ends is void.
 */
#include <stdlib.h>

#include "sim.h"

#define NAME(type)	[FKV_MSG_##type] = #type

static const char *const names[FKV_MSG_NR] = {
	NAME(PUT_START), NAME(PUT_DONE), NAME(PUT_REVOKE), NAME(GET_START),
	NAME(GET_DONE), NAME(GET_REVOKE), NAME(DELETE), NAME(STAT), NAME(LIST),
	NAME(COUNT), NAME(SSD_COMMIT), NAME(PERSIST_FAILED), NAME(SSD_TAIL),
	NAME(SSD_LOST), NAME(SSD_STATE), NAME(RETIRED), NAME(EVICTED),
	NAME(QUIET), NAME(HITS), NAME(PINS), NAME(PUT_PLAN), NAME(PUT_DONE_R),
	NAME(GET_PLAN), NAME(GET_DONE_R), NAME(DELETE_R), NAME(STAT_R),
	NAME(LIST_R), NAME(COUNT_R), NAME(SSD_COMMIT_R), NAME(RETIRE),
	NAME(EVICT), NAME(PERSIST), NAME(PUT_CANCEL),
};

static void master_outputs(struct sim *s);

static void say_msg(struct sim *s, const char *way, const struct fkv_msg *m)
{
	if (s->cfg.verbose)
		sim_say(s, "%s %s op %lu key %d %lx extent %lu res %d n %lu%s",
			way, names[m->type], m->op, m->key && m->key->len > 2 ?
			(int)sim_key_of(m->key) : -1, m->put_id, m->extent,
			m->res, m->n, m->grant ? " grant" : "");
}

static void owner_step(struct sim *s, const struct fkv_in *in)
{
	s->seq++;
	if (in->type == FKV_IN_MSG)
		say_msg(s, "to owner", in->msg);
	if (in->type == FKV_IN_MSG)
		sim_books_granted(s, in->msg);
	if (in->type == FKV_IN_MSG && in->msg->type == FKV_MSG_RETIRE)
		sim_io_void(s, sim_key_of(in->msg->key), 0, in->msg->put_id);
	if (in->type == FKV_IN_MSG && in->msg->type == FKV_MSG_PUT_PLAN)
		sim_op(s, in->msg->op)->opened_ns = sim_clock(s, SIM_OWNER);
	if (in->type == FKV_IN_CALL)
		sim_client_called(s, in->call);
	/* what ends the process without memory is no allocation of a step's */
	fkv_assert(!fkv_out_reserve(&s->out, 4096));
	s->in_core = 1 + SIM_OWNER;
	fkv_owner_step(s->owner, sim_clock(s, SIM_OWNER), in, &s->out);
	s->in_core = 0;
}

/* What came out of the master: seen in order, then what it forgot. */
static void master_saw(struct sim *s, size_t from)
{
	for (size_t i = from; i < s->mout.n; i++)
		sim_saw_answer(s, &s->mout.cmds[i].msg);
	sim_effects_poll(s);
	sim_books_limits(s, from);
	sim_books_check(s);
}

/* An eviction's answer may be overtaken by the end of its extent. */
static void check_refused(struct sim *s, enum fkv_msg_type type, bool held)
{
	struct fkv_master_stats st;

	fkv_master_get_stats(s->master, &st);
	if (st.bad_messages == s->refused)
		return;
	s->refused = st.bad_messages;
	sim_check(s, s->cfg.delayed && type == FKV_MSG_EVICTED && held,
		  "(4) the master refused a %s", names[type]);
}

static void master_step(struct sim *s, struct fkv_msg *msg)
{
	bool held = msg->res == FKV_EVICT_HELD && !msg->n;
	enum fkv_msg_type type = msg->type;
	size_t from = s->mout.n;

	s->seq++;
	if (s->cfg.delayed)
		say_msg(s, "at master", msg);
	sim_books_got(s, msg);
	fkv_assert(!fkv_out_reserve(&s->mout, 4096));
	s->in_core = 1 + SIM_MASTER;
	fkv_master_step(s->master, sim_clock(s, SIM_MASTER), msg, &s->mout);
	s->in_core = 0;
	check_refused(s, type, held);
	master_saw(s, from);
	master_outputs(s);
}

static void post(struct sim *s, struct sim_fifo *f, const struct fkv_msg *msg,
		 enum sim_event_type type)
{
	struct sim_post *p = fkv_zalloc(sizeof(*p));

	fkv_assert(p);
	p->msg = *msg;
	if (msg->deadline_ns)
		p->msg.deadline_ns = sim_clock_left(s, SIM_OWNER,
						    msg->deadline_ns);
	if (msg->text) {
		strncpy(p->text, msg->text, sizeof(p->text) - 1);
		p->msg.text = p->text;
	}
	*f->tail = p;
	f->tail = &p->next;
	f->last_ns = fkv_max_u64(f->last_ns,
				 s->now_ns + sim_delay(s, 20 * FKV_MS));
	sim_at(s, f->last_ns, type, 0, s->life);
}

static struct sim_post *take(struct sim_fifo *f)
{
	struct sim_post *p = f->head;

	fkv_assert(p);
	f->head = p->next;
	if (!f->head)
		f->tail = &f->head;
	return p;
}

/* Standalone: into the owner at once, as one batch. */
static void deliver(struct sim *s)
{
	struct fkv_out got = s->mout;

	memset(&s->mout, 0, sizeof(s->mout));
	for (size_t i = 0; i < got.n; i++) {
		struct fkv_in in = {
			.type = FKV_IN_MSG,
			.msg = &got.cmds[i].msg,
		};

		owner_step(s, &in);
	}
	fkv_out_done(&got);
}

static void master_outputs(struct sim *s)
{
	if (!s->cfg.delayed) {
		deliver(s);
		return;
	}
	for (size_t i = 0; i < s->mout.n; i++)
		post(s, &s->to_owner, &s->mout.cmds[i].msg, SIM_TO_OWNER);
	s->mout.n = 0;
}

static size_t evict_commands(struct sim *s, size_t at)
{
	struct fkv_entry *e[FKV_EVICT_BATCH];
	enum fkv_evict_result res[FKV_EVICT_BATCH];
	size_t n = 0;

	while (at + n < s->out.n && n < FKV_EVICT_BATCH &&
	       s->out.cmds[at + n].type == FKV_CMD_EVICT) {
		e[n] = s->out.cmds[at + n].entry;
		n++;
	}
	for (size_t i = 0; i < n; i++)
		res[i] = sim_index_evict(s, e[i]);
	for (size_t i = 0; i < n; i++) {
		struct fkv_in in = {
			.type = FKV_IN_EVICTED,
			.entry = e[i],
			.res = (int)res[i],
		};

		owner_step(s, &in);
	}
	return n;
}

static void command(struct sim *s, struct fkv_cmd cmd)
{
	switch (cmd.type) {
	case FKV_CMD_SEND:
		say_msg(s, "to master", &cmd.msg);
		sim_saw_request(s, &cmd.msg);
		if (s->cfg.delayed)
			post(s, &s->to_master, &cmd.msg, SIM_TO_MASTER);
		else
			master_step(s, &cmd.msg);
		break;
	case FKV_CMD_REPLY:
		sim_reply(s, cmd.call);
		break;
	case FKV_CMD_PUBLISH:
		sim_index_publish(s, cmd.entry);
		break;
	case FKV_CMD_RETIRE:
		sim_index_retire(s, cmd.entry);
		break;
	case FKV_CMD_READ:
	case FKV_CMD_WRITE:
	case FKV_CMD_HASH:
	case FKV_CMD_COPY:
		sim_io_start(s, &cmd);
		break;
	case FKV_CMD_SHUT:
		/* who maps the segment cannot be stopped */
		break;
	default:
		fkv_assert(!"of a cluster, or handled before");
	}
}

static void commands(struct sim *s)
{
	/* the array grows and moves while it is walked */
	for (size_t i = 0; i < s->out.n;) {
		if (s->out.cmds[i].type == FKV_CMD_EVICT)
			i += evict_commands(s, i);
		else
			command(s, s->out.cmds[i++]);
	}
	s->out.n = 0;
}

static void feed(struct sim *s, const struct fkv_in *in)
{
	fkv_assert(!s->draining);
	s->draining = true;
	owner_step(s, in);
	commands(s);
	s->draining = false;
}

void sim_feed(struct sim *s, const struct fkv_in *in)
{
	struct sim_later *l;

	if (s->down[SIM_OWNER])
		return;
	if (!s->frozen[SIM_OWNER] && !s->later) {
		feed(s, in);
		return;
	}
	l = fkv_zalloc(sizeof(*l));
	fkv_assert(l);
	l->in = *in;
	*s->later_tail = l;
	s->later_tail = &l->next;
}

/* What came in while the owner was frozen. */
void sim_feed_later(struct sim *s)
{
	s->n.path[SIM_PATH_THAW] += s->later != NULL;
	while (s->later) {
		struct sim_later *l = s->later;

		feed(s, &l->in);
		sim_check_all(s);
		s->later = l->next;
		if (!s->later)
			s->later_tail = &s->later;
		fkv_free(l);
	}
}

/* The next one; NULL: of a session that is over, or for nobody. */
static struct sim_post *receive(struct sim *s, struct sim_fifo *f,
				enum sim_core core, uint64_t life)
{
	struct sim_post *p;

	s->n.path[SIM_PATH_LATE_MESSAGE] += life != s->life;
	if (life != s->life)
		return NULL;
	p = take(f);
	if (!s->down[core])
		return p;
	fkv_msg_done(&p->msg);
	fkv_free(p);
	return NULL;
}

void sim_to_master(struct sim *s, uint64_t life)
{
	struct sim_post *p = receive(s, &s->to_master, SIM_MASTER, life);

	if (!p)
		return;
	if (p->msg.type == FKV_MSG_PUT_START ||
	    p->msg.type == FKV_MSG_GET_START)
		p->msg.deadline_ns = sim_clock_after(s, SIM_MASTER,
						     p->msg.deadline_ns);
	master_step(s, &p->msg);
	fkv_free(p);
}

void sim_to_owner(struct sim *s, uint64_t life)
{
	struct sim_post *p = receive(s, &s->to_owner, SIM_OWNER, life);
	struct fkv_in in = { .type = FKV_IN_MSG };

	if (!p)
		return;
	in.msg = &p->msg;
	sim_feed(s, &in);
	fkv_free(p);
}

void sim_hits(struct sim *s, struct fkv_entry *e, uint64_t n)
{
	struct fkv_in in = { .type = FKV_IN_HITS, .entry = e, .n = n };

	sim_feed(s, &in);
}

/* By the world's clock. */
static uint64_t deadline_of(const struct sim *s, enum sim_core core)
{
	uint64_t when;

	if (s->frozen[core] || s->down[core] ||
	    (!s->cfg.delayed && s->frozen[SIM_OWNER]))
		return FKV_NEVER;
	when = core == SIM_OWNER ? fkv_owner_deadline(s->owner) :
		fkv_master_deadline(s->master);
	return sim_clock_when(s, core, when);
}

static uint64_t tick_at(struct sim *s, enum sim_core core)
{
	uint64_t next = deadline_of(s, core);

	if (next == FKV_NEVER)
		return FKV_NEVER;
	if (next != s->tick_for[core]) {
		sim_reseed(s, next + core);
		s->tick_for[core] = next;
		s->tick_at[core] = fkv_max_u64(next, s->now_ns) +
			sim_delay(s, 2 * FKV_MS);
	}
	return s->tick_at[core];
}

/* Is a core's deadline due, and late enough, before the next event? */
bool sim_tick_due(struct sim *s, uint64_t before_ns)
{
	uint64_t owner = tick_at(s, SIM_OWNER);

	return fkv_min_u64(owner, tick_at(s, SIM_MASTER)) <= before_ns;
}

static void tick_master(struct sim *s)
{
	size_t from = s->mout.n;

	s->seq++;
	s->draining = true;
	fkv_assert(!fkv_out_reserve(&s->mout, 4096));
	s->in_core = 1 + SIM_MASTER;
	fkv_master_tick(s->master, sim_clock(s, SIM_MASTER), &s->mout);
	s->in_core = 0;
	master_saw(s, from);
	master_outputs(s);
	commands(s);
	s->draining = false;
}

void sim_tick(struct sim *s)
{
	struct fkv_in in = { .type = FKV_IN_TICK };
	uint64_t owner = tick_at(s, SIM_OWNER);
	uint64_t when = fkv_min_u64(owner, tick_at(s, SIM_MASTER));

	s->now_ns = fkv_max_u64(s->now_ns, when);
	sim_reseed(s, when);
	if (deadline_of(s, SIM_MASTER) <= s->now_ns) {
		s->tick_for[SIM_MASTER] = 0;
		tick_master(s);
	}
	if (deadline_of(s, SIM_OWNER) <= s->now_ns) {
		s->tick_for[SIM_OWNER] = 0;
		sim_feed(s, &in);
	}
}

static void fifo_done(struct sim_fifo *f)
{
	while (f->head) {
		struct sim_post *p = take(f);

		fkv_msg_done(&p->msg);
		fkv_free(p);
	}
}

void sim_posts_done(struct sim *s)
{
	fifo_done(&s->to_master);
	fifo_done(&s->to_owner);
}

void sim_later_done(struct sim *s)
{
	while (s->later) {
		struct sim_later *l = s->later;

		s->later = l->next;
		fkv_call_free(l->in.call);
		fkv_free(l);
	}
	s->later_tail = &s->later;
}
