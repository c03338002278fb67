// SPDX-License-Identifier: Apache-2.0
#include <errno.h>
#include <sodium.h>

#include "base/hash.h"
#include "svc/moves_internal.h"

uint64_t fkv_moves_wire(uint64_t incarnation, uint64_t op)
{
	uint64_t both[2] = { incarnation, op };
	uint64_t wire = fkv_hash_bytes(both, sizeof(both));

	return wire ? wire : 1;
}

void fkv_moves_input(struct fkv_moves *m, const struct fkv_in *in)
{
	m->mc.input(m->mc.arg, in);
}

/* Peers may pull what the master tells them to. */
static int show(struct fkv_moves *m)
{
	struct fkv_transfer_extent all = { .len = m->mc.shown_bytes };

	return fkv_transfer_expose(m->transfer, &all);
}

/* ---- a new life ---- */

static void on_stopped(void *arg, const struct fkv_transfer_result *r)
{
	struct fkv_in in = { .type = FKV_IN_STOPPED };
	struct fkv_moves *m = arg;

	/* at the close of all: it is nobody's business any more */
	if (r->err)
		return;
	/* without it peers' pulls fail, until the next life */
	show(m);
	fkv_moves_input(m, &in);
}

static bool stop(struct fkv_moves *m)
{
	uint64_t life;

	do
		randombytes_buf(&life, sizeof(life));
	while (!life);
	if (fkv_transfer_renew(m->transfer, life, on_stopped, m))
		return false;
	m->incarnation = life;
	fkv_moves_abandon(m);
	fkv_opened_drop(m);
	return true;
}

uint64_t fkv_moves_incarnation(const struct fkv_moves *m)
{
	return m->incarnation;
}

/* ---- commands ---- */

bool fkv_moves_command(struct fkv_moves *m, const struct fkv_cmd *cmd)
{
	switch (cmd->type) {
	case FKV_CMD_PULL:
	case FKV_CMD_STAGE:
		fkv_move_begin(m, cmd);
		return true;
	case FKV_CMD_PUSH:
		if (cmd->xfer.staged)
			fkv_serve_piece(m, cmd);
		else
			fkv_move_begin(m, cmd);
		return true;
	case FKV_CMD_CANCEL:
		return fkv_move_cancel(m, cmd->token);
	case FKV_CMD_PUSHED:
		fkv_serve_end(m, cmd);
		return true;
	case FKV_CMD_OPEN:
		fkv_open_begin(m, cmd);
		return true;
	case FKV_CMD_FENCE:
		return fkv_open_fence(m, cmd);
	case FKV_CMD_STOP:
		return stop(m);
	default:
		fkv_assert(!"not of transfers");
	}
	return true;
}

/* ---- the other owners ---- */

void fkv_moves_member(struct fkv_moves *m, const struct fkv_cluster_member *mb)
{
	fkv_neighbours_member(m, mb);
}

void fkv_moves_up(struct fkv_moves *m, struct fkv_rpc_peer *p)
{
	if (fkv_rpc_peer_is_dialled(p))
		fkv_moves_ask(m, fkv_rpc_peer_incarnation(p));
}

void fkv_moves_request(struct fkv_moves *m, struct fkv_rpc_peer *p,
		       const struct fkv_rpc_ask *ask, const void *data,
		       size_t len)
{
	uint64_t peer = fkv_rpc_peer_incarnation(p);
	struct fkv_cluster_msg msg;
	const char *why;

	if (fkv_cluster_decode(data, len, fkv_clock_ns(), &msg, &why)) {
		m->stats.refused++;
		fkv_rpc_reply(m->mc.rpc, ask, -EPROTO, NULL, 0);
		return;
	}
	if (msg.type == FKV_CLUSTER_STAGE_READ) {
		fkv_serve_request(m, ask, peer, &msg);
	} else if (msg.type == FKV_CLUSTER_PUSHED) {
		fkv_open_asked(m, ask, peer, &msg.pushed);
	} else {
		m->stats.refused++;
		fkv_rpc_reply(m->mc.rpc, ask, -EPROTO, NULL, 0);
	}
	fkv_cluster_msg_done(&msg);
}

/* The core may end what it is told of: not while the table is walked. */
static size_t tokens(struct fkv_moves *m, uint64_t *list)
{
	struct fkv_node *n = NULL;
	uint64_t pos = 0;
	size_t i = 0;

	while ((n = fkv_table_walk(&m->moves, &pos, n)))
		list[i++] = fkv_container_of(n, struct fkv_move, node)->token;
	return i;
}

/* Transfers see for themselves that nothing comes: until then they go on. */
void fkv_moves_tick(struct fkv_moves *m)
{
	uint64_t *list = fkv_zalloc((m->moves.count + 1) * sizeof(*list));
	size_t n = list ? tokens(m, list) : 0;

	fkv_neighbours_tick(m);
	for (size_t i = 0; i < n; i++) {
		struct fkv_in in = {
			.type = FKV_IN_PROGRESS,
			.token = list[i],
		};

		fkv_moves_input(m, &in);
	}
	fkv_free(list);
}

void fkv_moves_joined(struct fkv_moves *m)
{
	fkv_neighbours_forget(m);
}

/* ---- life ---- */

static int tables_init(struct fkv_moves *m)
{
	int err = fkv_table_init(&m->moves);

	if (!err)
		err = fkv_table_init(&m->serves);
	return err ? err : fkv_table_init(&m->opened);
}

int fkv_moves_create(const struct fkv_moves_config *mc,
		     struct fkv_moves **ret)
{
	struct fkv_moves *m = fkv_zalloc(sizeof(*m));
	struct fkv_transfer_config tc = {
		.self = mc->self,
		.segment = mc->segment,
		.segment_bytes = mc->segment_bytes,
		.listen = mc->listen,
	};
	int err;

	if (!m)
		return -ENOMEM;
	m->mc = *mc;
	m->incarnation = mc->self.incarnation;
	m->next_token = 1;
	TAILQ_INIT(&m->neighbours);
	*ret = m;
	err = tables_init(m);
	if (!err)
		err = fkv_transfer_create(mc->loop, &tc, &m->transfer);
	return err ? err : show(m);
}

void fkv_moves_close(struct fkv_moves *m)
{
	if (m->transfer)
		fkv_transfer_close(m->transfer);
}

void fkv_moves_free(struct fkv_moves *m)
{
	struct fkv_node *n;
	uint64_t pos;

	if (!m)
		return;
	if (m->transfer)
		fkv_transfer_free(m->transfer);
	fkv_opened_drop(m);
	for (pos = 0; (n = fkv_table_drain(&m->serves, &pos));) {
		fkv_table_del(&m->serves, n);
		fkv_free(fkv_container_of(n, struct fkv_serve, node));
	}
	fkv_neighbours_free(m);
	fkv_table_done(&m->moves);
	fkv_table_done(&m->serves);
	fkv_table_done(&m->opened);
	fkv_free(m);
}

uint16_t fkv_moves_port(const struct fkv_moves *m)
{
	return fkv_transfer_port(m->transfer);
}

static void add_peer(void *arg, const struct fkv_transfer_peer_stats *s)
{
	struct fkv_moves_stats *ret = arg;

	ret->bytes_in += s->bytes_in;
	ret->bytes_out += s->bytes_out;
}

void fkv_moves_get_stats(struct fkv_moves *m, struct fkv_moves_stats *ret)
{
	*ret = m->stats;
	fkv_transfer_get_stats(m->transfer, &ret->transfers);
	fkv_transfer_each_peer(m->transfer, add_peer, ret);
	ret->active = m->moves.count;
	ret->serving = m->serves.count;
	ret->opened = m->opened.count;
}
