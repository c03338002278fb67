// SPDX-License-Identifier: Apache-2.0
#include <check.h>

#include "core_driver.h"

#define KEYS	128
#define OUTS	1024

uint64_t core_now;
struct fkv_out core_out;

static struct fkv_key *keys[KEYS];
static size_t nr_keys;
static uint64_t allocs, fail_at;

static bool fail_one(size_t size)
{
	(void)size;
	return ++allocs == fail_at;
}

void core_fail_alloc(uint64_t n)
{
	allocs = 0;
	fail_at = n;
	fkv_alloc_fail = n ? fail_one : NULL;
}

bool core_alloc_failed(void)
{
	fkv_alloc_fail = NULL;
	return allocs >= fail_at;
}

void core_setup(void)
{
	core_now = 1000 * FKV_SEC;
	fkv_alloc_fail = NULL;
	nr_keys = 0;
	memset(&core_out, 0, sizeof(core_out));
	/* a core that cannot append an output ends the process */
	ck_assert_int_eq(fkv_out_reserve(&core_out, OUTS), 0);
}

void core_teardown(void)
{
	size_t left = core_left();

	fkv_alloc_fail = NULL;
	core_drop_all();
	fkv_out_done(&core_out);
	for (size_t i = 0; i < nr_keys; i++) {
		ck_assert_msg(keys[i]->refs == 1, "%.*s: %u references left",
			      (int)keys[i]->len, (char *)keys[i]->data,
			      keys[i]->refs - 1);
		fkv_key_put(keys[i]);
	}
	ck_assert_msg(!left, "%zu outputs that nobody took", left);
}

struct fkv_key *core_key(const char *name)
{
	size_t len = strlen(name);

	for (size_t i = 0; i < nr_keys; i++)
		if (keys[i]->len == len && !memcmp(keys[i]->data, name, len))
			return keys[i];
	ck_assert_uint_lt(nr_keys, KEYS);
	keys[nr_keys] = fkv_key_create(name, len);
	ck_assert_ptr_nonnull(keys[nr_keys]);
	return keys[nr_keys++];
}

struct fkv_key *core_key_ref(const char *name)
{
	return fkv_key_get(core_key(name));
}

static void remove_at(size_t i)
{
	core_out.n--;
	memmove(&core_out.cmds[i], &core_out.cmds[i + 1],
		(core_out.n - i) * sizeof(core_out.cmds[0]));
}

static size_t find(enum fkv_cmd_type type, int msg)
{
	size_t i;

	for (i = 0; i < core_out.n; i++) {
		const struct fkv_cmd *cmd = &core_out.cmds[i];

		if (cmd->type == type &&
		    (msg < 0 || (int)cmd->msg.type == msg))
			break;
	}
	return i;
}

static struct fkv_cmd take_at(size_t i)
{
	struct fkv_cmd cmd = core_out.cmds[i];

	remove_at(i);
	fkv_key_put(cmd.key);
	if (cmd.type == FKV_CMD_SEND) {
		fkv_key_put(cmd.msg.key);
		fkv_key_put(cmd.msg.key2);
	}
	return cmd;
}

struct fkv_cmd core_take(enum fkv_cmd_type type)
{
	size_t i = find(type, -1);

	ck_assert_msg(i < core_out.n, "no command %d", (int)type);
	return take_at(i);
}

struct fkv_msg core_take_msg(enum fkv_msg_type type)
{
	size_t i = find(FKV_CMD_SEND, (int)type);

	ck_assert_msg(i < core_out.n, "no message %d", (int)type);
	return take_at(i).msg;
}

bool core_has(enum fkv_cmd_type type)
{
	return find(type, -1) < core_out.n;
}

bool core_has_msg(enum fkv_msg_type type)
{
	return find(FKV_CMD_SEND, (int)type) < core_out.n;
}

size_t core_left(void)
{
	return core_out.n;
}

void core_drop_all(void)
{
	while (core_out.n) {
		struct fkv_cmd cmd = take_at(0);

		if (cmd.type == FKV_CMD_SEND)
			fkv_listing_free(cmd.msg.listing);
		else if (cmd.type == FKV_CMD_REPLY)
			fkv_call_free(cmd.call);
	}
}
