// SPDX-License-Identifier: Apache-2.0
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "svc/address.h"
#include "svc/uplink.h"

#define TICK_MS	500

/* Who is refused again and again asks no more often than this. */
#define JOIN_NS	(2 * FKV_SEC)

struct fkv_uplink {
	struct fkv_uplink_config uc;
	struct fkv_rpc *rpc;
	struct fkv_rpc_peer *master;
	struct fkv_moves *moves;
	struct fkv_batch batch;
	struct fkv_batch_out made;
	char address[FKV_ADDRESS_MAX];
	uint64_t incarnation;
	uint64_t epoch;
	uint32_t epoch_met;		/* the highest that took us in */
	bool session;			/* the core has one */
	bool may_begin;			/* the core waits for one */
	bool join_due;			/* JOIN came soon after the last */
	bool over;			/* to be ended in the next turn */
	uint64_t joined_ns;
	uv_prepare_t turn;
	uv_timer_t tick;
	struct fkv_uplink_stats stats;
};

static void input(struct fkv_uplink *u, const struct fkv_in *in)
{
	u->uc.input(u->uc.arg, in);
}

/* ---- the session ---- */

/* Not at once: the core may be in the middle of what it says. */
static void session_over(struct fkv_uplink *u)
{
	u->over = true;
	fkv_batch_drop(&u->batch);
}

static void session_ended(struct fkv_uplink *u)
{
	struct fkv_in in = { .type = FKV_IN_SESSION_END };

	fkv_batch_drop(&u->batch);
	u->over = false;
	if (!u->session)
		return;
	u->session = false;
	u->stats.ended++;
	input(u, &in);
}

static void unsaid(struct fkv_uplink *u, int err)
{
	fkv_log(FKV_LOG_WARN, "session with the master ends, it takes no more: "
		"%s", strerror(-err));
	session_over(u);
}

static void batch_send(struct fkv_uplink *u)
{
	int err = fkv_batch_send(&u->batch, u->master, &u->made,
				 fkv_clock_ns());

	if (err)
		unsaid(u, err);
}

static void send_msg(struct fkv_uplink *u, const struct fkv_cmd *cmd)
{
	struct fkv_msg msg = cmd->msg;

	if (u->session && !u->over && !fkv_batch_fits(&u->batch, &msg))
		batch_send(u);
	/* void with its session (F0) */
	if (!u->session || u->over)
		fkv_msg_done(&msg);
	else
		fkv_batch_add(&u->batch, &msg);
}

static void send_cluster(struct fkv_uplink *u, const struct fkv_cmd *cmd)
{
	struct fkv_cluster_msg msg = cmd->cluster;
	int err;

	if (!u->session || u->over)
		return;
	batch_send(u);
	if (u->over)
		return;
	/* a master that lost its own must not begin below it (K6.b) */
	if (msg.type == FKV_CLUSTER_REGISTER)
		msg.reg.epoch_seen = u->epoch_met;
	err = fkv_batch_say(&msg, u->master, &u->made, fkv_clock_ns());
	if (err)
		unsaid(u, err);
}

static void join(struct fkv_uplink *u)
{
	u->join_due = false;
	u->may_begin = true;
	u->joined_ns = fkv_clock_ns();
	u->incarnation = fkv_moves_incarnation(u->moves);
	fkv_log(FKV_LOG_INFO, "joins the cluster anew: incarnation=%llx",
		(unsigned long long)u->incarnation);
	fkv_rpc_renew(u->rpc, u->incarnation);
	fkv_moves_joined(u->moves);
}

bool fkv_uplink_command(struct fkv_uplink *u, const struct fkv_cmd *cmd)
{
	switch (cmd->type) {
	case FKV_CMD_SEND:
		send_msg(u, cmd);
		return true;
	case FKV_CMD_CLUSTER:
		send_cluster(u, cmd);
		return true;
	case FKV_CMD_END:
		session_over(u);
		return true;
	case FKV_CMD_JOIN:
		u->join_due = fkv_clock_ns() < u->joined_ns + JOIN_NS;
		if (!u->join_due)
			join(u);
		return true;
	default:
		return fkv_moves_command(u->moves, cmd);
	}
}

bool fkv_uplink_has_room(const struct fkv_uplink *u)
{
	return !u->session || fkv_rpc_peer_has_room(u->master);
}

/* ---- what the master says ---- */

static int batch(struct fkv_uplink *u, struct fkv_cluster_batch *b)
{
	for (uint32_t i = 0; i < b->n; i++) {
		struct fkv_msg *msg = &b->msgs[i];
		struct fkv_in in = { .type = FKV_IN_MSG, .msg = msg };

		if (!fkv_batch_of_master(msg->type))
			return -EPROTO;
		if (!u->session || u->over)
			return 0;
		msg->peer = 0;
		input(u, &in);
	}
	return 0;
}

static void registered(struct fkv_uplink *u,
		       const struct fkv_cluster_registered *r)
{
	if (!r->res && r->epoch > u->epoch_met)
		u->epoch_met = r->epoch;
	fkv_log(r->res ? FKV_LOG_WARN : FKV_LOG_INFO, "%s by the master: "
		"epoch=%u%s%s", r->res ? "refused" : "registered", r->epoch,
		r->text && *r->text ? ": " : "", r->text ? r->text : "");
}

static int dispatch(struct fkv_uplink *u, struct fkv_cluster_msg *msg)
{
	struct fkv_in in = { .type = FKV_IN_CLUSTER, .cluster = msg };

	switch (msg->type) {
	case FKV_CLUSTER_BATCH:
		return batch(u, &msg->batch);
	case FKV_CLUSTER_MEMBER:
		fkv_moves_member(u->moves, &msg->member);
		return 0;
	case FKV_CLUSTER_REGISTERED:
		registered(u, &msg->registered);
		input(u, &in);
		return 0;
	case FKV_CLUSTER_HEARTBEAT_REPLY:
		input(u, &in);
		return 0;
	default:
		return -EPROTO;
	}
}

static void broken(struct fkv_uplink *u, const char *why)
{
	u->stats.broken++;
	fkv_log(FKV_LOG_WARN, "session with the master ends: %s", why);
	session_over(u);
}

static void from_master(struct fkv_uplink *u, const void *data, size_t len)
{
	const char *why = "out of memory";
	struct fkv_cluster_msg msg;

	u->stats.received++;
	if (fkv_cluster_decode(data, len, fkv_clock_ns(), &msg, &why)) {
		broken(u, why);
		return;
	}
	if (dispatch(u, &msg))
		broken(u, "a message that is not a master's");
	fkv_cluster_msg_done(&msg);
}

/* ---- the node ---- */

static int on_accept(void *arg, const char *name, uint64_t incarnation)
{
	(void)arg;
	(void)name;
	(void)incarnation;
	return 0;
}

static void begin(struct fkv_uplink *u)
{
	struct fkv_in in = {
		.type = FKV_IN_SESSION,
		.incarnation = u->incarnation,
	};

	u->epoch = fkv_rpc_peer_incarnation(u->master);
	in.n = u->epoch;
	u->session = true;
	u->may_begin = false;
	fkv_log(FKV_LOG_INFO, "session with master %s: epoch=%llu",
		fkv_rpc_peer_name(u->master), (unsigned long long)u->epoch);
	input(u, &in);
}

static void on_up(void *arg, struct fkv_rpc_peer *p)
{
	struct fkv_uplink *u = arg;

	if (p != u->master)
		fkv_moves_up(u->moves, p);
	else if (fkv_rpc_peer_incarnation(p) > FKV_CLUSTER_EPOCH_MAX)
		broken(u, "what is at the master's address is an owner");
	else if (u->may_begin)
		begin(u);
}

static void on_down(void *arg, struct fkv_rpc_peer *p, const char *why)
{
	struct fkv_uplink *u = arg;

	if (p == u->master)
		fkv_log(FKV_LOG_WARN, "the master is not connected: %s", why);
}

static void on_ended(void *arg, struct fkv_rpc_peer *p, int err)
{
	struct fkv_uplink *u = arg;

	if (p != u->master)
		return;
	fkv_log(FKV_LOG_WARN, "session with the master is over: %s",
		strerror(-err));
	session_ended(u);
}

static void on_message(void *arg, struct fkv_rpc_peer *p, const void *data,
		       size_t len)
{
	struct fkv_uplink *u = arg;

	if (p != u->master)
		fkv_rpc_peer_end(p, -EPROTO);
	else if (u->session && !u->over)
		from_master(u, data, len);
}

static void on_request(void *arg, struct fkv_rpc_peer *p,
		       const struct fkv_rpc_ask *ask, const void *data,
		       size_t len)
{
	struct fkv_uplink *u = arg;

	if (p == u->master)
		fkv_rpc_reply(u->rpc, ask, -EOPNOTSUPP, NULL, 0);
	else
		fkv_moves_request(u->moves, p, ask, data, len);
}

static const struct fkv_rpc_ops rpc_ops = {
	.accept = on_accept,
	.up = on_up,
	.down = on_down,
	.ended = on_ended,
	.message = on_message,
	.request = on_request,
};

/* ---- the loop ---- */

/* A turn of the loop is over: what was said in it goes out. */
static void on_turn(uv_prepare_t *t)
{
	struct fkv_uplink *u = t->data;

	if (u->session && !u->over && u->batch.n)
		batch_send(u);
	if (!u->over)
		return;
	fkv_rpc_peer_end(u->master, -ESTALE);
	session_ended(u);
}

static void on_tick(uv_timer_t *t)
{
	struct fkv_uplink *u = t->data;

	fkv_moves_tick(u->moves);
	if (u->join_due && fkv_clock_ns() >= u->joined_ns + JOIN_NS)
		join(u);
	/* one that never began was refused: not at once again */
	else if (u->may_begin)
		fkv_rpc_peer_resume(u->master);
}

/* ---- life ---- */

static int node_create(struct fkv_uplink *u, struct fkv_auth_self *self,
		       struct sockaddr_storage *at)
{
	const struct fkv_config *cfg = u->uc.cfg;
	struct fkv_rpc_config rc = {
		.self = *self,
		.ops = &rpc_ops,
		.arg = u,
	};
	int err = fkv_rpc_address(cfg->listen, at);

	if (!err)
		err = fkv_rpc_create(u->uc.loop, &rc, &u->rpc);
	if (!err)
		err = fkv_rpc_listen(u->rpc, (const struct sockaddr *)at);
	if (err)
		snprintf(u->uc.err, u->uc.err_size, "listen: cannot listen on "
			 "%s: %s", cfg->listen, strerror(-err));
	return err;
}

static int moves_create(struct fkv_uplink *u, const struct fkv_auth_self *self,
			const struct sockaddr_storage *at)
{
	struct sockaddr_storage data = fkv_address_data(at);
	struct fkv_moves_config mc = {
		.loop = u->uc.loop,
		.rpc = u->rpc,
		.self = *self,
		.segment = u->uc.segment,
		.segment_bytes = u->uc.segment_bytes,
		.shown_bytes = u->uc.shown_bytes,
		.listen = (const struct sockaddr *)&data,
		.input = u->uc.input,
		.arg = u->uc.arg,
	};
	int err = fkv_moves_create(&mc, &u->moves);

	if (err)
		snprintf(u->uc.err, u->uc.err_size, "listen: cannot listen for "
			 "payload on the port after %s: %s", u->uc.cfg->listen,
			 strerror(-err));
	return err;
}

static int create(struct fkv_uplink *u)
{
	const struct fkv_config *cfg = u->uc.cfg;
	struct fkv_auth_self self = {
		.key = u->uc.key,
		.cluster = cfg->cluster_name,
		.name = cfg->instance_key,
		.incarnation = u->incarnation,
	};
	struct sockaddr_storage at;
	int err;

	err = fkv_batch_init(&u->batch);
	if (!err)
		err = fkv_batch_out_init(&u->made);
	if (!err)
		err = node_create(u, &self, &at);
	if (!err)
		err = moves_create(u, &self, &at);
	if (err)
		return err;
	return fkv_address_print(&at, cfg->advertise, fkv_rpc_port(u->rpc),
				 fkv_moves_port(u->moves), u->address);
}

int fkv_uplink_create(const struct fkv_uplink_config *uc,
		      struct fkv_uplink **ret)
{
	struct fkv_uplink *u = fkv_zalloc(sizeof(*u));

	if (!u)
		return -ENOMEM;
	u->uc = *uc;
	u->incarnation = uc->incarnation;
	u->may_begin = true;
	uv_prepare_init(uc->loop, &u->turn);
	uv_timer_init(uc->loop, &u->tick);
	u->turn.data = u->tick.data = u;
	*ret = u;
	return create(u);
}

int fkv_uplink_serve(struct fkv_uplink *u)
{
	struct sockaddr_storage at;
	int err;

	err = fkv_address_find(u->uc.cfg->master, &at, u->uc.err,
			       u->uc.err_size);
	if (err)
		return err;
	err = fkv_rpc_dial(u->rpc, (const struct sockaddr *)&at, &u->master);
	if (err) {
		snprintf(u->uc.err, u->uc.err_size, "master: cannot dial %s: "
			 "%s", u->uc.cfg->master, err == -EACCES ?
			 "it is beyond this host; expected a cluster_key_file" :
			 strerror(-err));
		return err;
	}
	uv_prepare_start(&u->turn, on_turn);
	uv_timer_start(&u->tick, on_tick, TICK_MS, TICK_MS);
	return 0;
}

/* On purpose: the master need not wait for the lease. */
static void say_bye(struct fkv_uplink *u)
{
	struct fkv_cluster_msg bye = {
		.type = FKV_CLUSTER_BYE,
		.bye = { .reason = FKV_CLUSTER_STOPS },
	};

	if (!u->session || u->over)
		return;
	batch_send(u);
	if (!u->over)
		fkv_batch_say(&bye, u->master, &u->made, fkv_clock_ns());
	u->session = false;
}

void fkv_uplink_close(struct fkv_uplink *u)
{
	say_bye(u);
	uv_close((uv_handle_t *)&u->turn, NULL);
	uv_close((uv_handle_t *)&u->tick, NULL);
	if (u->moves)
		fkv_moves_close(u->moves);
	if (u->rpc)
		fkv_rpc_close_all(u->rpc);
}

void fkv_uplink_free(struct fkv_uplink *u)
{
	if (!u)
		return;
	fkv_moves_free(u->moves);
	fkv_rpc_free(u->rpc);
	fkv_batch_done(&u->batch);
	fkv_batch_out_done(&u->made);
	fkv_free(u);
}

const char *fkv_uplink_address(const struct fkv_uplink *u)
{
	return u->address;
}

void fkv_uplink_get_stats(struct fkv_uplink *u, struct fkv_uplink_stats *ret)
{
	*ret = u->stats;
	fkv_rpc_get_stats(u->rpc, &ret->rpc);
	ret->sent = u->made.stats;
	fkv_moves_get_stats(u->moves, &ret->moves);
	ret->connected = u->master && fkv_rpc_peer_is_up(u->master);
	ret->session = u->session;
	ret->epoch = u->session ? u->epoch : 0;
	ret->incarnation = u->incarnation;
}
