// SPDX-License-Identifier: Apache-2.0
/*
 * rpc_call.c - requests with a deadline, and their answers
 */
#include <errno.h>

#include "io/rpc_internal.h"
#include "wire/bytes.h"

#define REQUEST_HEAD	24u
#define REPLY_HEAD	16u

static struct fkv_rpc_call *call_of(struct fkv_node *n)
{
	return fkv_container_of(n, struct fkv_rpc_call, node);
}

/* Its end; @data is of the answer, or NULL. */
static void call_done(struct fkv_rpc_call *call, int status, const void *data,
		      size_t len)
{
	struct fkv_rpc *r = call->conn->r;

	TAILQ_REMOVE(&call->conn->calls, call, link);
	call->conn->nr_calls--;
	fkv_table_del(&r->calls, &call->node);
	fkv_timer_clear(&r->timers, &call->timer);
	call->done(call->arg, status, data, len);
	fkv_free(call);
}

void fkv_rpc_call_timer(struct fkv_rpc_call *call)
{
	struct fkv_rpc_peer *p = call->conn->peer;

	call->conn->r->stats.timeouts++;
	if (p)
		p->failures++;
	call_done(call, -ETIMEDOUT, NULL, 0);
}

void fkv_rpc_calls_end(struct fkv_rpc_conn *c, int err)
{
	struct fkv_rpc_call *call;

	while ((call = TAILQ_FIRST(&c->calls)))
		call_done(call, err, NULL, 0);
}

static void call_start(struct fkv_rpc_call *call, struct fkv_rpc_conn *c,
		       const struct fkv_rpc_question *q)
{
	call->conn = c;
	call->done = q->done;
	call->arg = q->arg;
	call->timer.kind = FKV_RPC_T_CALL;
	TAILQ_INSERT_TAIL(&c->calls, call, link);
	c->nr_calls++;
	c->r->stats.calls++;
	fkv_table_add(&c->r->calls, &call->node, c->r->next_call++);
	fkv_timer_set(&c->r->timers, &call->timer, q->deadline_ns);
	fkv_rpc_arm(c->r);
}

int fkv_rpc_call(struct fkv_rpc_peer *p, const struct fkv_rpc_question *q)
{
	uint8_t head[REQUEST_HEAD] = { FKV_RPC_REQUEST };
	uint64_t now = fkv_clock_ns();
	struct fkv_rpc_conn *c = p->conn;
	struct fkv_rpc_call *call;
	int err;

	if (!p->up || !c || c->closing)
		return -ENOTCONN;
	if (q->deadline_ns <= now)
		return -ETIMEDOUT;
	if (q->len > FKV_RPC_BODY_MAX)
		return -EMSGSIZE;
	if (c->nr_calls >= FKV_RPC_CALLS_MAX)
		return -EAGAIN;
	call = fkv_zalloc(sizeof(*call));
	if (!call)
		return -ENOMEM;
	fkv_put64(head + 8, c->r->next_call);
	fkv_put64(head + 16, q->deadline_ns == FKV_NEVER ?
		  FKV_NEVER : q->deadline_ns - now);
	err = fkv_rpc_conn_send(c, head, sizeof(head), q->data, q->len);
	if (err) {
		fkv_free(call);
		return err;
	}
	call_start(call, c, q);
	return 0;
}

void fkv_rpc_reply_in(struct fkv_rpc_conn *c, const uint8_t *p, size_t len)
{
	int32_t status = len >= REPLY_HEAD ? (int32_t)fkv_get32(p + 4) : 1;
	struct fkv_node *n;

	if (status > 0 || status < -4095) {
		fkv_rpc_conn_close(c, "an answer that is none");
		return;
	}
	n = fkv_table_first(&c->r->calls, fkv_get64(p + 8));
	/* an id of another connection is nothing that this one may answer */
	if (!n || call_of(n)->conn != c) {
		c->r->stats.late++;
		return;
	}
	c->peer->failures = 0;
	call_done(call_of(n), status, p + REPLY_HEAD, len - REPLY_HEAD);
}

void fkv_rpc_request_in(struct fkv_rpc_conn *c, const uint8_t *p, size_t len)
{
	const struct fkv_rpc_config *cfg = &c->r->cfg;
	struct fkv_rpc_peer *peer = c->peer;
	struct fkv_rpc_ask ask = { .conn = c->node.hash };
	uint64_t now = fkv_clock_ns(), left;

	if (len < REQUEST_HEAD || len - REQUEST_HEAD > FKV_RPC_BODY_MAX ||
	    c->asked >= FKV_RPC_CALLS_MAX || !peer || !peer->up) {
		fkv_rpc_conn_close(c, "a request that is none, or too many");
		return;
	}
	ask.id = fkv_get64(p + 8);
	left = fkv_get64(p + 16);
	ask.deadline_ns = left > FKV_NEVER - now ? FKV_NEVER : now + left;
	c->asked++;
	fkv_rpc_peer_busy(peer);
	cfg->ops->request(cfg->arg, peer, &ask, p + REQUEST_HEAD,
			  len - REQUEST_HEAD);
	fkv_rpc_peer_idle(peer);
}

void fkv_rpc_reply(struct fkv_rpc *r, const struct fkv_rpc_ask *ask, int status,
		   const void *data, size_t len)
{
	struct fkv_node *n = fkv_table_first(&r->conns, ask->conn);
	uint8_t head[REPLY_HEAD] = { FKV_RPC_REPLY };
	struct fkv_rpc_conn *c;

	if (!n)
		return;
	c = fkv_container_of(n, struct fkv_rpc_conn, node);
	fkv_assert(c->asked > 0);
	c->asked--;
	if (len > FKV_RPC_BODY_MAX) {
		status = -EMSGSIZE;
		len = 0;
	}
	fkv_put32(head + 4, (uint32_t)status);
	fkv_put64(head + 8, ask->id);
	/* who waits for it in vain must not: the end of the connection tells */
	if (!c->finish && fkv_rpc_conn_send(c, head, sizeof(head), data, len))
		fkv_rpc_conn_doom(c, "no room for an answer");
	fkv_rpc_arm(r);
}
