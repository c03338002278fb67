// SPDX-License-Identifier: Apache-2.0
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "svc/batch.h"

int fkv_batch_init(struct fkv_batch *b)
{
	*b = (struct fkv_batch){ .recalls = true };
	b->msgs = fkv_zalloc(FKV_CLUSTER_RECALL_MAX * sizeof(*b->msgs));
	b->texts = fkv_zalloc(FKV_CLUSTER_RECALL_MAX * sizeof(*b->texts));
	return b->msgs && b->texts ? 0 : -ENOMEM;
}

void fkv_batch_drop(struct fkv_batch *b)
{
	for (uint32_t i = 0; i < b->n; i++) {
		fkv_msg_done(&b->msgs[i]);
		free(b->texts[i]);
		b->texts[i] = NULL;
	}
	b->n = 0;
	b->recalls = true;
}

void fkv_batch_done(struct fkv_batch *b)
{
	if (b->msgs && b->texts)
		fkv_batch_drop(b);
	fkv_free(b->msgs);
	fkv_free(b->texts);
	memset(b, 0, sizeof(*b));
}

int fkv_batch_out_init(struct fkv_batch_out *o)
{
	*o = (struct fkv_batch_out){
		.buf = fkv_zalloc(FKV_CLUSTER_BYTES_MAX),
	};
	return o->buf ? 0 : -ENOMEM;
}

void fkv_batch_out_done(struct fkv_batch_out *o)
{
	fkv_free(o->buf);
	o->buf = NULL;
}

bool fkv_batch_fits(const struct fkv_batch *b, const struct fkv_msg *msg)
{
	bool recalls = b->recalls && fkv_msg_is_recall(msg->type);

	return b->n < (recalls ? FKV_CLUSTER_RECALL_MAX :
				 FKV_CLUSTER_BATCH_MAX);
}

void fkv_batch_add(struct fkv_batch *b, const struct fkv_msg *msg)
{
	/* it is the core's, which goes on before this is sent; without memory
	   the message goes without a sentence */
	char *text = msg->text ? strdup(msg->text) : NULL;

	fkv_assert(fkv_batch_fits(b, msg));
	b->msgs[b->n] = *msg;
	b->msgs[b->n].text = text;
	b->texts[b->n++] = text;
	b->recalls = b->recalls && fkv_msg_is_recall(msg->type);
}

int fkv_batch_say(const struct fkv_cluster_msg *msg, struct fkv_rpc_peer *to,
		  struct fkv_batch_out *o, uint64_t now_ns)
{
	size_t len;
	int err;

	err = fkv_cluster_encode(msg, now_ns, o->buf, FKV_CLUSTER_BYTES_MAX,
				 &len);
	if (!err)
		err = fkv_rpc_send(to, o->buf, len, FKV_SESSION_ANSWER);
	if (err)
		return err;
	o->stats.frames++;
	o->stats.bytes += len;
	if (msg->type == FKV_CLUSTER_BATCH)
		o->stats.messages += msg->batch.n;
	return 0;
}

/* Halves of what is too long for one message. */
static int send_some(struct fkv_msg *msgs, uint32_t n, struct fkv_rpc_peer *to,
		     struct fkv_batch_out *o, uint64_t now_ns)
{
	struct fkv_cluster_msg msg = {
		.type = FKV_CLUSTER_BATCH,
		.batch = { .n = n, .msgs = msgs },
	};
	int err = fkv_batch_say(&msg, to, o, now_ns);

	if (err != -EMSGSIZE || n < 2)
		return err;
	err = send_some(msgs, n / 2, to, o, now_ns);
	return err ? err : send_some(msgs + n / 2, n - n / 2, to, o, now_ns);
}

int fkv_batch_send(struct fkv_batch *b, struct fkv_rpc_peer *to,
		   struct fkv_batch_out *o, uint64_t now_ns)
{
	int err = b->n ? send_some(b->msgs, b->n, to, o, now_ns) : 0;

	fkv_batch_drop(b);
	return err;
}

bool fkv_batch_of_master(enum fkv_msg_type type)
{
	return (type >= FKV_MSG_PUT_PLAN && type <= FKV_MSG_PERSIST) ||
	       type == FKV_MSG_EXPOSE || type == FKV_MSG_FENCE;
}
