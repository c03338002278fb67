// SPDX-License-Identifier: Apache-2.0
#include <errno.h>
#include <sodium.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "svc/hub.h"

/*
 * The session of an owner.
 * Born: when it is first connected. Held by: its peer's data, the member that it
 * is of. Dies: with the session.
 */
struct session {
	TAILQ_ENTRY(session) link;
	struct fkv_rpc_peer *peer;
	struct fkv_batch batch;
	uint32_t member;		/* NO_MEMBER: not registered */
	bool over;			/* to be ended when no step runs */
};

#define NO_MEMBER	UINT32_MAX

TAILQ_HEAD(sessions, session);

struct fkv_hub {
	struct fkv_hub_config hc;
	struct fkv_master *master;
	struct fkv_rpc *rpc;
	uint64_t epoch;
	struct fkv_out out;
	struct fkv_batch_out made;
	struct sessions sessions;
	struct session *of[FKV_OWNERS_MAX];	/* by member */
	uv_timer_t timer;
	uv_prepare_t turn;
	uint64_t timer_at;
	uint64_t raise_to;		/* an epoch, or 0 */
	uint64_t closed_until_ns;	/* by leases of a master before */
	struct fkv_hub_stats stats;
};

/* ---- sessions ---- */

static struct session *session_of(struct fkv_rpc_peer *p)
{
	return *fkv_rpc_peer_data(p);
}

static void session_free(struct fkv_hub *h, struct session *s)
{
	if (s->member != NO_MEMBER && h->of[s->member] == s)
		h->of[s->member] = NULL;
	TAILQ_REMOVE(&h->sessions, s, link);
	*fkv_rpc_peer_data(s->peer) = NULL;
	fkv_batch_done(&s->batch);
	fkv_free(s);
	h->stats.sessions--;
}

/* Not from within the walk of a step's outputs: its owner may be in them. */
static void session_over(struct session *s)
{
	s->over = true;
	fkv_batch_drop(&s->batch);
}

static void session_end(struct fkv_hub *h, struct session *s, int reason)
{
	struct fkv_rpc_peer *p = s->peer;

	session_free(h, s);
	fkv_rpc_peer_end(p, reason);
}

static struct session *session_create(struct fkv_hub *h,
				      struct fkv_rpc_peer *p)
{
	struct session *s = fkv_zalloc(sizeof(*s));

	if (s && fkv_batch_init(&s->batch)) {
		fkv_batch_done(&s->batch);
		fkv_free(s);
		s = NULL;
	}
	if (!s)
		return NULL;
	s->peer = p;
	s->member = NO_MEMBER;
	*fkv_rpc_peer_data(p) = s;
	TAILQ_INSERT_TAIL(&h->sessions, s, link);
	h->stats.sessions++;
	return s;
}

static void unsaid(struct session *s, int err)
{
	fkv_log(FKV_LOG_WARN, "session with owner %s ends, it takes no more: "
		"%s", fkv_rpc_peer_name(s->peer), strerror(-err));
	session_over(s);
}

static void batch_send(struct fkv_hub *h, struct session *s)
{
	int err = fkv_batch_send(&s->batch, s->peer, &h->made,
				 fkv_clock_ns());

	if (err)
		unsaid(s, err);
}

/* ---- what the core says ---- */

static struct session *target(struct fkv_hub *h, uint32_t member)
{
	struct session *s = member < FKV_OWNERS_MAX ? h->of[member] : NULL;

	return s && !s->over ? s : NULL;
}

static void send_msg(struct fkv_hub *h, struct fkv_msg *msg)
{
	struct session *s = target(h, msg->peer);

	/* its session is over: all that was not answered is void (F0) */
	if (!s) {
		fkv_msg_done(msg);
		return;
	}
	if (!fkv_batch_fits(&s->batch, msg))
		batch_send(h, s);
	if (s->over)
		fkv_msg_done(msg);
	else
		fkv_batch_add(&s->batch, msg);
}

static void send_cluster(struct fkv_hub *h, const struct fkv_cmd *cmd)
{
	struct session *s = target(h, cmd->peer);
	int err;

	if (!s)
		return;
	batch_send(h, s);
	if (s->over)
		return;
	err = fkv_batch_say(&cmd->cluster, s->peer, &h->made, fkv_clock_ns());
	if (err)
		unsaid(s, err);
}

/* The member's session is over; @joins, if it is its, is the next one. */
static void end(struct fkv_hub *h, uint32_t member, struct session *joins)
{
	struct session *s = target(h, member);

	if (s && s != joins) {
		fkv_log(FKV_LOG_INFO, "owner %s is out: its session ends",
			fkv_rpc_peer_name(s->peer));
		session_over(s);
	}
	if (member < FKV_OWNERS_MAX)
		h->of[member] = joins && joins->member == member ? joins :
				NULL;
}

static void commands(struct fkv_hub *h, struct session *joins)
{
	for (size_t i = 0; i < h->out.n; i++) {
		struct fkv_cmd *cmd = &h->out.cmds[i];

		if (cmd->type == FKV_CMD_SEND)
			send_msg(h, &cmd->msg);
		else if (cmd->type == FKV_CMD_CLUSTER)
			send_cluster(h, cmd);
		else if (cmd->type == FKV_CMD_END)
			end(h, cmd->peer, joins);
		else
			fkv_assert(!"an owner's command");
	}
	h->out.n = 0;
}

/* ---- the core's time ---- */

static void arm(struct fkv_hub *h);

static void on_timer(uv_timer_t *t)
{
	struct fkv_hub *h = t->data;
	uint64_t now = fkv_clock_ns();

	h->timer_at = FKV_NEVER;
	if (fkv_master_deadline(h->master) <= now) {
		fkv_master_tick(h->master, now, &h->out);
		commands(h, NULL);
	}
	arm(h);
}

static void arm(struct fkv_hub *h)
{
	uint64_t next = fkv_master_deadline(h->master);
	uint64_t now = fkv_clock_ns();

	if (next == h->timer_at)
		return;
	h->timer_at = next;
	if (next == FKV_NEVER) {
		uv_timer_stop(&h->timer);
		return;
	}
	next = next > now ? (next - now + FKV_MS - 1) / FKV_MS : 0;
	uv_timer_start(&h->timer, on_timer, next, 0);
}

/* ---- what owners say ---- */

/*
 * Has the owner met an epoch that is not below ours, and not ours? A name that
 * is new here and has met ours met another master's: its store was lost.
 */
static bool epoch_is_old(const struct fkv_hub *h,
			 const struct fkv_cluster_register *reg)
{
	struct fkv_member_info info;

	if (reg->epoch_seen != h->epoch)
		return reg->epoch_seen > h->epoch;
	for (uint32_t i = 0; fkv_master_member(h->master, i, &info); i++)
		if (!strcmp(info.name, reg->name))
			return false;
	return true;
}

static void refused(struct fkv_hub *h, struct session *s, int err)
{
	struct fkv_cluster_msg msg = {
		.type = FKV_CLUSTER_REGISTERED,
		.registered = {
			.res = err,
			.epoch = (uint32_t)h->epoch,
			.text = strerror(-err),
		},
	};

	h->stats.refused++;
	fkv_log(FKV_LOG_WARN, "owner %s is refused: %s",
		fkv_rpc_peer_name(s->peer), strerror(-err));
	if (fkv_batch_say(&msg, s->peer, &h->made, fkv_clock_ns()))
		session_over(s);
}

static void broken(struct fkv_hub *h, struct session *s, const char *why)
{
	h->stats.broken++;
	fkv_log(FKV_LOG_WARN, "session with owner %s ends: %s",
		fkv_rpc_peer_name(s->peer), why);
	session_over(s);
}

static int admit(struct fkv_hub *h, const struct session *s,
		 const struct fkv_cluster_register *reg)
{
	/* the handshake says who it is, this only repeats it */
	if (strcmp(reg->name, fkv_rpc_peer_name(s->peer)) ||
	    reg->incarnation != fkv_rpc_peer_incarnation(s->peer) ||
	    (s->member != NO_MEMBER && !reg->part))
		return -EPROTO;
	if (!epoch_is_old(h, reg))
		return 0;
	if (reg->epoch_seen >= FKV_CLUSTER_EPOCH_MAX)
		return -EOVERFLOW;
	h->raise_to = (uint64_t)reg->epoch_seen + 1;
	return -ESTALE;
}

static void join(struct fkv_hub *h, struct session *s,
		 const struct fkv_cluster_register *reg)
{
	uint32_t member = NO_MEMBER;
	int err = admit(h, s, reg);

	if (err == -EPROTO)
		broken(h, s, "it is not who the handshake says");
	else if (err == -EOVERFLOW)
		refused(h, s, err);
	if (err)
		return;
	err = fkv_master_register(h->master, fkv_clock_ns(), reg, &member,
				  &h->out);
	if (err) {
		commands(h, s);
		refused(h, s, err);
		return;
	}
	/* what it said of the life before goes to that one's session */
	s->member = member;
	if (!h->of[member])
		h->of[member] = s;
	commands(h, s);
	if (reg->part + 1 < reg->parts)
		return;
	h->stats.registered++;
	fkv_log(FKV_LOG_INFO, "owner %s registered: address=%s bytes=%llu "
		"ssd_devices=%u busy=%u", reg->name,
		reg->address ? reg->address : "",
		(unsigned long long)reg->segment_bytes, reg->ssd_devices,
		reg->n);
}

static int batch(struct fkv_hub *h, struct session *s,
		 struct fkv_cluster_batch *b)
{
	uint64_t now = fkv_clock_ns();

	if (s->member == NO_MEMBER)
		return -EPROTO;
	for (uint32_t i = 0; i < b->n; i++) {
		struct fkv_msg *msg = &b->msgs[i];

		if (fkv_batch_of_master(msg->type))
			return -EPROTO;
		msg->peer = s->member;
		fkv_master_step(h->master, now, msg, &h->out);
		/* taken over: what it carried is not ours to drop */
		memset(msg, 0, sizeof(*msg));
		commands(h, NULL);
		if (s->over)
			return 0;
	}
	return 0;
}

static int dispatch(struct fkv_hub *h, struct session *s,
		    struct fkv_cluster_msg *msg)
{
	switch (msg->type) {
	case FKV_CLUSTER_REGISTER:
		join(h, s, &msg->reg);
		return 0;
	case FKV_CLUSTER_BATCH:
		return batch(h, s, &msg->batch);
	case FKV_CLUSTER_HEARTBEAT:
	case FKV_CLUSTER_BYE:
		if (s->member == NO_MEMBER)
			return -EPROTO;
		fkv_master_cluster(h->master, fkv_clock_ns(), s->member, msg,
				   &h->out);
		commands(h, NULL);
		return 0;
	default:
		return -EPROTO;
	}
}

static void on_message(void *arg, struct fkv_rpc_peer *p, const void *data,
		       size_t len)
{
	struct session *s = session_of(p);
	const char *why = "out of memory";
	struct fkv_cluster_msg msg;
	struct fkv_hub *h = arg;
	int err;

	if (!s || s->over)
		return;
	h->stats.received++;
	err = fkv_cluster_decode(data, len, fkv_clock_ns(), &msg, &why);
	if (err) {
		broken(h, s, why);
		return;
	}
	if (dispatch(h, s, &msg))
		broken(h, s, "a message that is not an owner's, or too early");
	fkv_cluster_msg_done(&msg);
	arm(h);
}

/*
 * There are never two lives of one name: the one that is heard stays. One that
 * began anew comes back until it is heard no more.
 */
static int on_accept(void *arg, const char *name, uint64_t incarnation)
{
	static struct fkv_log_limit limit;
	struct fkv_hub *h = arg;
	struct session *s;

	if (fkv_clock_ns() < h->closed_until_ns)
		return -EAGAIN;
	TAILQ_FOREACH(s, &h->sessions, link) {
		if (s->over || !fkv_rpc_peer_is_up(s->peer) ||
		    fkv_rpc_peer_incarnation(s->peer) == incarnation ||
		    strcmp(fkv_rpc_peer_name(s->peer), name))
			continue;
		if (fkv_log_allowed(&limit, 10 * FKV_SEC))
			fkv_log(FKV_LOG_WARN, "another owner by the name of "
				"%s is refused: one is connected", name);
		return -EBUSY;
	}
	return 0;
}

static void on_up(void *arg, struct fkv_rpc_peer *p)
{
	struct fkv_hub *h = arg;

	if (!session_of(p) && !session_create(h, p))
		fkv_rpc_peer_end(p, -ENOMEM);
}

static void on_down(void *arg, struct fkv_rpc_peer *p, const char *why)
{
	(void)arg;
	fkv_log(FKV_LOG_INFO, "owner %s is not connected: %s",
		fkv_rpc_peer_name(p), why);
}

static void on_ended(void *arg, struct fkv_rpc_peer *p, int err)
{
	struct session *s = session_of(p);

	(void)err;
	if (s)
		session_free(arg, s);
}

/* Owners ask masters nothing in this way. */
static void on_request(void *arg, struct fkv_rpc_peer *p,
		       const struct fkv_rpc_ask *ask, const void *data,
		       size_t len)
{
	struct fkv_hub *h = arg;

	(void)p;
	(void)data;
	(void)len;
	fkv_rpc_reply(h->rpc, ask, -EOPNOTSUPP, NULL, 0);
}

/* ---- the epoch ---- */

static int core_create(struct fkv_hub *h)
{
	struct fkv_master_config mc = {
		.epoch = h->epoch,
		.first = h->hc.first,
		.serve_from_ns = h->closed_until_ns,
	};

	randombytes_buf(&mc.seed, sizeof(mc.seed));
	return fkv_master_create(&mc, &h->master);
}

/* Everything that began with the old one is void. */
static void raise_epoch(struct fkv_hub *h)
{
	struct fkv_master *old = h->master;
	struct session *s;
	int err = fkv_lockfile_raise(h->hc.store, h->raise_to);

	if (err) {
		fkv_log(FKV_LOG_ERR, "epoch %llu cannot be stored: %s",
			(unsigned long long)h->raise_to, strerror(-err));
		h->raise_to = 0;
		return;
	}
	fkv_log(FKV_LOG_WARN, "an owner has met a newer master: epoch %llu "
		"becomes %llu", (unsigned long long)h->epoch,
		(unsigned long long)h->raise_to);
	h->epoch = h->raise_to;
	h->raise_to = 0;
	h->closed_until_ns = fkv_clock_ns() + h->hc.lease_ns;
	if (core_create(h)) {
		h->master = old;
		return;
	}
	fkv_master_free(old);
	while ((s = TAILQ_FIRST(&h->sessions)))
		session_free(h, s);
	fkv_rpc_renew(h->rpc, h->epoch);
	arm(h);
}

/* A turn of the loop is over: what was said in it goes out. */
static void on_turn(uv_prepare_t *t)
{
	struct fkv_hub *h = t->data;
	struct session *s, *next;

	if (h->raise_to)
		raise_epoch(h);
	for (s = TAILQ_FIRST(&h->sessions); s; s = next) {
		next = TAILQ_NEXT(s, link);
		if (!s->over && s->batch.n)
			batch_send(h, s);
		if (s->over)
			session_end(h, s, -ESTALE);
	}
}

/* ---- life ---- */

static const struct fkv_rpc_ops rpc_ops = {
	.accept = on_accept,
	.up = on_up,
	.down = on_down,
	.ended = on_ended,
	.message = on_message,
	.request = on_request,
};

static int rpc_create(struct fkv_hub *h)
{
	struct fkv_rpc_config rc = {
		.self = {
			.key = h->hc.key,
			.cluster = h->hc.cluster,
			.name = h->hc.name,
			.incarnation = h->epoch,
		},
		.ops = &rpc_ops,
		.arg = h,
	};

	return fkv_rpc_create(h->hc.loop, &rc, &h->rpc);
}

int fkv_hub_create(const struct fkv_hub_config *hc, struct fkv_hub **ret)
{
	struct fkv_hub *h = fkv_zalloc(sizeof(*h));
	int err;

	if (!h)
		return -ENOMEM;
	h->hc = *hc;
	h->epoch = fkv_lockfile_epoch(hc->store);
	if (h->epoch > 1)
		h->closed_until_ns = fkv_clock_ns() + hc->lease_ns;
	h->timer_at = FKV_NEVER;
	TAILQ_INIT(&h->sessions);
	uv_timer_init(hc->loop, &h->timer);
	uv_prepare_init(hc->loop, &h->turn);
	h->timer.data = h->turn.data = h;
	err = fkv_batch_out_init(&h->made);
	if (!err)
		err = rpc_create(h);
	if (!err)
		err = core_create(h);
	*ret = h;
	return err;
}

int fkv_hub_serve(struct fkv_hub *h)
{
	struct sockaddr_storage at;
	int err = fkv_rpc_address(h->hc.listen, &at);

	if (!err)
		err = fkv_rpc_listen(h->rpc, (const struct sockaddr *)&at);
	if (err) {
		snprintf(h->hc.err, h->hc.err_size, "listen: cannot listen on "
			 "%s: %s", h->hc.listen, strerror(-err));
		return err;
	}
	uv_prepare_start(&h->turn, on_turn);
	arm(h);
	return 0;
}

void fkv_hub_close(struct fkv_hub *h)
{
	struct session *s;

	uv_close((uv_handle_t *)&h->timer, NULL);
	uv_close((uv_handle_t *)&h->turn, NULL);
	while ((s = TAILQ_FIRST(&h->sessions)))
		session_free(h, s);
	if (h->rpc)
		fkv_rpc_close_all(h->rpc);
}

void fkv_hub_free(struct fkv_hub *h)
{
	if (!h)
		return;
	fkv_rpc_free(h->rpc);
	fkv_master_free(h->master);
	fkv_out_done(&h->out);
	fkv_batch_out_done(&h->made);
	fkv_free(h);
}

uint16_t fkv_hub_port(const struct fkv_hub *h)
{
	return fkv_rpc_port(h->rpc);
}

struct fkv_master *fkv_hub_master(struct fkv_hub *h)
{
	return h->master;
}

uint64_t fkv_hub_epoch(const struct fkv_hub *h)
{
	return h->epoch;
}

void fkv_hub_get_stats(const struct fkv_hub *h, struct fkv_hub_stats *ret)
{
	*ret = h->stats;
	fkv_rpc_get_stats(h->rpc, &ret->rpc);
	ret->sent = h->made.stats;
}

bool fkv_hub_is_connected(const struct fkv_hub *h, uint32_t member)
{
	const struct session *s = member < FKV_OWNERS_MAX ? h->of[member] :
							    NULL;

	return s && fkv_rpc_peer_is_up(s->peer);
}
