// SPDX-License-Identifier: Apache-2.0
#include "core.h"

int fkv_out_reserve(struct fkv_out *out, size_t n)
{
	size_t room = out->room ? out->room : 64;
	void *p;

	if (out->room - out->n >= n)
		return 0;
	while (room - out->n < n)
		room *= 2;
	p = fkv_realloc(out->cmds, room * sizeof(*out->cmds));
	if (!p)
		return -ENOMEM;
	out->cmds = p;
	out->room = room;
	return 0;
}

struct fkv_cmd *fkv_out_add(struct fkv_out *out, enum fkv_cmd_type type)
{
	struct fkv_cmd *cmd;

	if (out->n == out->room)
		fkv_assert(fkv_out_reserve(out, 1) == 0);
	cmd = &out->cmds[out->n++];
	memset(cmd, 0, sizeof(*cmd));
	cmd->type = type;
	return cmd;
}

struct fkv_msg *fkv_out_send(struct fkv_out *out, enum fkv_msg_type type)
{
	struct fkv_cmd *cmd = fkv_out_add(out, FKV_CMD_SEND);

	cmd->msg.type = type;
	return &cmd->msg;
}

struct fkv_cluster_msg *fkv_out_cluster(struct fkv_out *out, uint32_t peer,
					enum fkv_cluster_type type)
{
	struct fkv_cmd *cmd = fkv_out_add(out, FKV_CMD_CLUSTER);

	cmd->peer = peer;
	cmd->cluster.type = type;
	return &cmd->cluster;
}

void fkv_out_done(struct fkv_out *out)
{
	fkv_free(out->cmds);
	memset(out, 0, sizeof(*out));
}
