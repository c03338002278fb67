// SPDX-License-Identifier: Apache-2.0
/*
 * oracle.c - which version of a key was current when; what memory is given out
 */
#include "cluster.h"

uint32_t cs_key_of(const struct fkv_key *key)
{
	return (uint32_t)(key->data[1] - '0') * 10 +
	       (uint32_t)(key->data[2] - '0');
}

struct cs_version *cs_version(struct cs *s, uint64_t put_id, bool add)
{
	uint64_t at = (put_id * 0x9e3779b97f4a7c15ULL) % CS_VERSIONS;

	while (s->version_id[at] && s->version_id[at] != put_id)
		at = (at + 1) % CS_VERSIONS;
	if (!s->version_id[at] && !add)
		return NULL;
	s->version_id[at] = put_id;
	return &s->version[at];
}

uint64_t cs_current(const struct cs *s, uint32_t key)
{
	const struct cs_history *h = &s->history[key];

	return h->n ? h->at[h->n - 1].put_id : 0;
}

void cs_effect(struct cs *s, uint32_t key, uint64_t put_id)
{
	struct cs_history *h = &s->history[key];

	cs_say(s, "key %u is now %lx", key, put_id);
	if (h->n == h->room) {
		h->room = h->room ? 2 * h->room : 64;
		h->at = fkv_realloc(h->at, h->room * sizeof(*h->at));
		fkv_assert(h->at);
	}
	h->at[h->n++] = (struct cs_state){ s->seq, put_id };
}

/* What goes or comes back without a call: last copies, and suspended ones. */
void cs_poll(struct cs *s)
{
	/* until it has met an owner a new master says nothing to anybody */
	if (!s->serving)
		return;
	for (uint32_t k = 0; k < s->keys; k++) {
		struct fkv_route_info ri;
		uint64_t now = 0;

		if (s->master && fkv_master_route_at(s->master, s->key[k], &ri))
			now = ri.put_id;
		if (now == cs_current(s, k))
			continue;
		cs_check(s, !now || now == s->history[k].last_put,
			 "(3) key %u became %lx without a put", k, now);
		s->n.revived += now != 0;
		s->n.lost += !now;
		cs_effect(s, k, now);
	}
}

bool cs_was_current(const struct cs *s, uint32_t key, uint64_t put_id,
		    uint64_t from_seq)
{
	const struct cs_history *h = &s->history[key];
	size_t i = h->n;

	while (i--) {
		if (h->at[i].put_id == put_id)
			return true;
		if (h->at[i].seq < from_seq)
			return false;
	}
	return !put_id;
}

bool cs_ever(const struct cs *s, uint32_t key, uint64_t put_id)
{
	return cs_was_current(s, key, put_id, 0);
}

static uint32_t owner_of(struct cs *s, uint32_t peer)
{
	cs_check(s, peer < FKV_OWNERS_MAX && s->by_peer[peer],
		 "a message to nobody");
	return s->by_peer[peer] - 1;
}

static struct cs_op *op_of(struct cs *s, uint32_t i, uint64_t id)
{
	return cs_op(s, i, s->owner[i].registered_life, id);
}

/* Memory of a process that is no more cannot be looked at. */
static bool there(const struct cs *s, uint32_t i)
{
	return !s->host[i].down &&
	       s->owner[i].registered_life == s->host[i].life;
}

static void put_done(struct cs *s, uint32_t i, const struct fkv_msg *msg)
{
	struct cs_op *op = op_of(s, i, msg->op);
	struct cs_version *v = cs_version(s, msg->put_id, true);
	struct cs_history *h = &s->history[op->key];
	uint64_t life = s->owner[i].registered_life;

	cs_check(s, !v->tag, "(3) put_id %lx is given twice", msg->put_id);
	*v = (struct cs_version){
		.tag = (uint64_t)i << 56 | life << 40 | msg->op,
		.len = op->len,
		.key = op->key,
	};
	cs_check(s, msg->put_id > h->last_put, "(3) key %u: %lx after %lx",
		 op->key, msg->put_id, h->last_put);
	h->last_put = msg->put_id;
	cs_say(s, "by owner %u op %lu", i, msg->op);
	cs_effect(s, op->key, msg->put_id);
}

static void get_plan(struct cs *s, uint32_t i, const struct fkv_msg *msg)
{
	struct cs_op *op = op_of(s, i, msg->op);

	op->len = msg->len;
	if (!there(s, i))
		return;
	if (msg->source != FLUXONKV_SOURCE_LOCAL)
		cs_quiet(s, "a get's target", i, msg->offset, msg->len);
	else
		cs_content(s, "plan from memory", i, (struct cs_value){
			   op->key, msg->put_id, msg->offset, msg->len });
}

/*
 * In the step in which an owner is tombed a key may be gone, found so, and put
 * again: all that is seen of it is this answer.
 */
static void gone(struct cs *s, uint32_t i, const struct fkv_msg *msg)
{
	uint32_t key = op_of(s, i, msg->op)->key;
	struct cs_history *h = &s->history[key];

	if (msg->type == FKV_MSG_DELETE_R && msg->res == -ENOENT &&
	    cs_current(s, key) && h->at[h->n - 1].seq < s->seq)
		cs_effect(s, key, 0);
}

static void saw(struct cs *s, const struct fkv_msg *msg, bool tomb)
{
	uint32_t i = owner_of(s, msg->peer);

	if (msg->res && tomb)
		gone(s, i, msg);
	if (msg->res)
		return;
	switch (msg->type) {
	case FKV_MSG_PUT_PLAN:
		if (there(s, i))
			cs_quiet(s, "a put", i, msg->offset,
				 op_of(s, i, msg->op)->len);
		break;
	case FKV_MSG_EXPOSE:
		if (there(s, i))
			cs_quiet(s, "another's put", i, msg->offset, msg->len);
		break;
	case FKV_MSG_GET_PLAN:
		get_plan(s, i, msg);
		break;
	case FKV_MSG_PUT_DONE_R:
		put_done(s, i, msg);
		break;
	case FKV_MSG_DELETE_R:
		cs_effect(s, op_of(s, i, msg->op)->key, 0);
		break;
	default:
		break;
	}
}

void cs_master_saw(struct cs *s, size_t from)
{
	bool tomb = false;

	for (size_t k = from; k < s->mout.n; k++) {
		tomb |= s->mout.cmds[k].type == FKV_CMD_END;
		if (s->mout.cmds[k].type == FKV_CMD_SEND)
			saw(s, &s->mout.cmds[k].msg, tomb);
	}
	cs_poll(s);
}
