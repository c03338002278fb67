// SPDX-License-Identifier: Apache-2.0
/*
 * Payload between two owners that have no cores: the test says what cores would,
 * and reads what they would hear.
 */
#include <check.h>
#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "svc/address.h"
#include "svc/moves.h"
#include "wait_for.h"

#define SEGMENT		(16 * FKV_MIB)
#define LEN		3000001u

struct owner {
	struct fkv_rpc *rpc;
	struct fkv_moves *moves;
	uint64_t incarnation;
	uint8_t *segment;
	char address[FKV_ADDRESS_MAX];
	unsigned int heard[FKV_IN_STAGE + 1];
	unsigned int ups;
	int res;			/* of the last MOVED */
	bool said;
	uint64_t stage;			/* token of the last request */
	struct fkv_cluster_stage_read asked;
};

static uv_loop_t loop;
static struct owner a, b;

static void spin(void)
{
	spin_loop(&loop);
}

#define wait_for(cond)	wait_by(spin(), cond)

static void on_input(void *arg, const struct fkv_in *in)
{
	struct owner *o = arg;

	o->heard[in->type]++;
	if (in->type == FKV_IN_MOVED) {
		o->res = in->res;
		o->said = in->said;
	}
	if (in->type == FKV_IN_STAGE) {
		o->stage = in->token;
		o->asked = *in->stage;
		o->asked.key = NULL;
	}
}

static int on_accept(void *arg, const char *name, uint64_t incarnation)
{
	(void)arg;
	(void)name;
	(void)incarnation;
	return 0;
}

static void on_up(void *arg, struct fkv_rpc_peer *p)
{
	struct owner *o = arg;

	o->ups += fkv_rpc_peer_is_dialled(p);
	fkv_moves_up(o->moves, p);
}

static void on_down(void *arg, struct fkv_rpc_peer *p, const char *why)
{
	(void)arg;
	(void)p;
	(void)why;
}

static void on_ended(void *arg, struct fkv_rpc_peer *p, int why)
{
	(void)arg;
	(void)p;
	(void)why;
}

static void on_message(void *arg, struct fkv_rpc_peer *p, const void *data,
		       size_t len)
{
	(void)arg;
	(void)p;
	(void)data;
	(void)len;
}

static void on_request(void *arg, struct fkv_rpc_peer *p,
		       const struct fkv_rpc_ask *ask, const void *data,
		       size_t len)
{
	struct owner *o = arg;

	fkv_moves_request(o->moves, p, ask, data, len);
}

static const struct fkv_rpc_ops ops = {
	.accept = on_accept, .up = on_up, .down = on_down, .ended = on_ended,
	.message = on_message, .request = on_request,
};

static void start(struct owner *o, const char *name, uint64_t incarnation)
{
	struct fkv_rpc_config rc = {
		.self = { .cluster = "c", .name = name,
			  .incarnation = incarnation },
		.ops = &ops,
		.arg = o,
	};
	struct sockaddr_storage at;
	struct fkv_moves_config mc = {
		.loop = &loop, .self = rc.self, .segment_bytes = SEGMENT,
		.shown_bytes = SEGMENT, .input = on_input, .arg = o,
		.listen = (struct sockaddr *)&at,
	};

	memset(o, 0, sizeof(*o));
	o->incarnation = incarnation;
	o->segment = mmap(NULL, SEGMENT, PROT_READ | PROT_WRITE,
			  MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	ck_assert_ptr_ne(o->segment, MAP_FAILED);
	ck_assert_int_eq(fkv_rpc_address("127.0.0.1:0", &at), 0);
	ck_assert_int_eq(fkv_rpc_create(&loop, &rc, &o->rpc), 0);
	ck_assert_int_eq(fkv_rpc_listen(o->rpc, (struct sockaddr *)&at), 0);
	mc.rpc = o->rpc;
	mc.segment = o->segment;
	ck_assert_int_eq(fkv_moves_create(&mc, &o->moves), 0);
	ck_assert_int_eq(fkv_address_print(&at, NULL, fkv_rpc_port(o->rpc),
					   fkv_moves_port(o->moves),
					   o->address), 0);
}

static void tell(struct owner *o, const struct owner *of, const char *name,
		 bool gone)
{
	struct fkv_cluster_member mb = {
		.incarnation = of->incarnation, .gone = gone, .name = name,
		.address = of->address, .transports = FKV_CLUSTER_TCP,
	};

	fkv_moves_member(o->moves, &mb);
}

static void setup(void)
{
	fkv_log_set_level(FKV_LOG_ERR);
	ck_assert_int_eq(uv_loop_init(&loop), 0);
	start(&a, "a", 1ULL << 40);
	start(&b, "b", 2ULL << 40);
	tell(&a, &b, "b", false);
	tell(&b, &a, "a", false);
	wait_for(a.ups && b.ups);
	for (uint32_t i = 0; i < SEGMENT; i++)
		b.segment[i] = (uint8_t)(i * 2654435761u >> 24);
}

static void teardown(void)
{
	struct owner *both[] = { &a, &b };

	for (int i = 0; i < 2; i++) {
		fkv_moves_close(both[i]->moves);
		fkv_rpc_close_all(both[i]->rpc);
	}
	uv_run(&loop, UV_RUN_DEFAULT);
	for (int i = 0; i < 2; i++) {
		fkv_moves_free(both[i]->moves);
		fkv_rpc_free(both[i]->rpc);
		munmap(both[i]->segment, SEGMENT);
	}
	ck_assert_int_eq(uv_loop_close(&loop), 0);
}

/* A command of @o's core to the other. */
static struct fkv_cmd cmd_of(enum fkv_cmd_type type, const struct owner *peer,
			     uint64_t token)
{
	struct fkv_cmd cmd = {
		.type = type, .token = token, .len = LEN,
		.xfer = { .incarnation = peer->incarnation, .op = token,
			  .put_id = 9 },
	};

	return cmd;
}

static void run(struct owner *o, const struct fkv_cmd *cmd)
{
	ck_assert(fkv_moves_command(o->moves, cmd));
}

static void stage(uint64_t token)
{
	struct fkv_cmd cmd = cmd_of(FKV_CMD_STAGE, &b, token);

	cmd.key = fkv_key_create("key", 3);
	cmd.offset = 8 * FKV_MIB;
	run(&a, &cmd);
}

/* The core of b answers a request. */
static void answer(int res)
{
	struct fkv_cmd cmd = {
		.type = FKV_CMD_PUSHED, .token = b.stage, .res = res,
	};

	run(&b, &cmd);
}

/* A piece of what was asked for, from b's segment. */
static void piece(uint64_t at, uint64_t len, bool last)
{
	struct fkv_cmd cmd = {
		.type = FKV_CMD_PUSH, .token = 100 + at, .from = at,
		.offset = b.asked.offset + at, .len = len,
		.xfer = {
			.incarnation = b.asked.incarnation, .op = b.asked.op,
			.slot = b.asked.slot,
			.generation = b.asked.generation, .staged = true,
			.last = last,
		},
	};

	run(&b, &cmd);
}

static struct fkv_moves_stats stats(const struct owner *o)
{
	struct fkv_moves_stats s;

	fkv_moves_get_stats(o->moves, &s);
	return s;
}

static void nothing_is_left(void)
{
	wait_for(!stats(&a).active && !stats(&a).opened && !stats(&a).serving);
	wait_for(!stats(&b).active && !stats(&b).opened && !stats(&b).serving);
}

/* G3.1 */
START_TEST(memory_of_a_peer_is_pulled)
{
	struct fkv_cmd cmd = cmd_of(FKV_CMD_PULL, &b, 7);

	cmd.from = 4096;
	cmd.offset = 8 * FKV_MIB;
	run(&a, &cmd);
	wait_for(a.heard[FKV_IN_MOVED] == 1);
	ck_assert_int_eq(a.res, 0);
	ck_assert(!memcmp(a.segment + cmd.offset, b.segment + 4096, LEN));
	nothing_is_left();
}
END_TEST

START_TEST(an_unknown_life_is_not_pulled_from)
{
	struct owner none = { .incarnation = 77 };
	struct fkv_cmd cmd = cmd_of(FKV_CMD_PULL, &none, 7);

	run(&a, &cmd);
	wait_for(a.heard[FKV_IN_MOVED] == 1);
	ck_assert_int_ne(a.res, 0);
	ck_assert(!a.said);
	nothing_is_left();
}
END_TEST

/* G3.2: on one connection, that the request names */
START_TEST(an_ssd_copy_is_pushed_by_pieces)
{
	stage(7);
	wait_for(b.heard[FKV_IN_STAGE] == 1);
	ck_assert_uint_eq(b.asked.len, LEN);
	ck_assert_uint_eq(b.asked.put_id, 9);
	ck_assert_uint_eq(b.asked.incarnation, a.incarnation);
	ck_assert_uint_ne(b.asked.generation, 0);
	piece(0, 2 * FKV_MIB, false);
	wait_for(b.heard[FKV_IN_MOVED] == 1);
	ck_assert_uint_eq(a.heard[FKV_IN_MOVED], 0);
	piece(2 * FKV_MIB, LEN - 2 * FKV_MIB, true);
	wait_for(a.heard[FKV_IN_MOVED] == 1 && b.heard[FKV_IN_MOVED] == 2);
	answer(0);
	ck_assert_int_eq(a.res, 0);
	ck_assert_int_eq(b.res, 0);
	ck_assert(!memcmp(a.segment + 8 * FKV_MIB, b.segment, LEN));
	nothing_is_left();
}
END_TEST

/* G6: only what the source says itself counts against its copy */
START_TEST(a_source_that_has_it_not_says_so)
{
	stage(7);
	wait_for(b.heard[FKV_IN_STAGE] == 1);
	answer(-ENOENT);
	wait_for(a.heard[FKV_IN_MOVED] == 1);
	ck_assert_int_eq(a.res, -ENOENT);
	ck_assert(a.said);
	nothing_is_left();
}
END_TEST

START_TEST(a_source_that_fails_on_the_way_says_so)
{
	stage(7);
	wait_for(b.heard[FKV_IN_STAGE] == 1);
	piece(0, FKV_MIB, false);
	wait_for(b.heard[FKV_IN_MOVED] == 1);
	answer(-EBADMSG);
	wait_for(a.heard[FKV_IN_MOVED] == 1);
	ck_assert_int_eq(a.res, -EBADMSG);
	ck_assert(a.said);
	nothing_is_left();
}
END_TEST

START_TEST(what_is_cancelled_ends_and_is_nobodys_fault)
{
	struct fkv_cmd cmd = { .type = FKV_CMD_CANCEL, .token = 7 };

	stage(7);
	wait_for(b.heard[FKV_IN_STAGE] == 1);
	run(&a, &cmd);
	wait_for(a.heard[FKV_IN_MOVED] == 1);
	ck_assert_int_eq(a.res, -ECANCELED);
	ck_assert(!a.said);
	/* its pieces go nowhere */
	piece(0, FKV_MIB, false);
	wait_for(b.heard[FKV_IN_MOVED] == 1);
	ck_assert_int_ne(b.res, 0);
	answer(-ECONNRESET);
	nothing_is_left();
}
END_TEST

/* ---- puts kept elsewhere ---- */

static void open_for_b(uint64_t op)
{
	struct fkv_cmd cmd = cmd_of(FKV_CMD_OPEN, &b, op);

	cmd.offset = 4 * FKV_MIB;
	run(&a, &cmd);
}

static void push(uint64_t op)
{
	struct fkv_cmd cmd = cmd_of(FKV_CMD_PUSH, &a, op);

	cmd.from = 8192;
	cmd.offset = 4 * FKV_MIB;
	cmd.xfer.last = true;
	run(&b, &cmd);
}

/* G3.2: it is there when the writer is told so, not only sent */
START_TEST(a_put_has_come_when_its_writer_is_told)
{
	open_for_b(5);
	push(5);
	wait_for(b.heard[FKV_IN_MOVED] == 1);
	ck_assert_int_eq(b.res, 0);
	ck_assert(!memcmp(a.segment + 4 * FKV_MIB, b.segment + 8192, LEN));
	ck_assert_uint_eq(stats(&b).asked, 1);
	nothing_is_left();
}
END_TEST

/* the same number of two owners is two ops */
START_TEST(ops_of_two_owners_are_not_mistaken)
{
	struct fkv_cmd cmd = cmd_of(FKV_CMD_PULL, &b, 5);

	open_for_b(5);
	cmd.offset = 12 * FKV_MIB;
	run(&a, &cmd);
	wait_for(a.heard[FKV_IN_MOVED] == 1);
	ck_assert_int_eq(a.res, 0);
	ck_assert_uint_eq(stats(&a).opened, 1);
	push(5);
	wait_for(b.heard[FKV_IN_MOVED] == 1);
	ck_assert_int_eq(b.res, 0);
	nothing_is_left();
}
END_TEST

/* G3.4 */
START_TEST(what_is_fenced_is_not_written_any_more)
{
	struct fkv_cmd cmd = cmd_of(FKV_CMD_FENCE, &b, 5);

	open_for_b(5);
	cmd.token = 31;
	run(&a, &cmd);
	wait_for(a.heard[FKV_IN_FENCED] == 1);
	push(5);
	wait_for(b.heard[FKV_IN_MOVED] == 1);
	ck_assert_int_ne(b.res, 0);
	ck_assert_uint_eq(a.segment[4 * FKV_MIB], 0);
	/* and once more, as it is */
	run(&a, &cmd);
	wait_for(a.heard[FKV_IN_FENCED] == 2);
	nothing_is_left();
}
END_TEST

/* ---- F1 ---- */

START_TEST(all_ends_before_it_is_stopped)
{
	struct fkv_cmd cmd = { .type = FKV_CMD_STOP };
	uint64_t before = fkv_moves_incarnation(a.moves);

	stage(7);
	open_for_b(5);
	wait_for(b.heard[FKV_IN_STAGE] == 1);
	run(&a, &cmd);
	wait_for(a.heard[FKV_IN_STOPPED] == 1);
	ck_assert_uint_eq(a.heard[FKV_IN_MOVED], 1);
	ck_assert_int_ne(a.res, 0);
	ck_assert_uint_ne(fkv_moves_incarnation(a.moves), before);
	ck_assert_uint_eq(stats(&a).active + stats(&a).opened, 0);
	answer(-ESHUTDOWN);
	nothing_is_left();
}
END_TEST

START_TEST(the_next_life_is_pulled_from)
{
	struct fkv_cmd stop = { .type = FKV_CMD_STOP }, cmd;

	run(&b, &stop);
	wait_for(b.heard[FKV_IN_STOPPED] == 1);
	b.incarnation = fkv_moves_incarnation(b.moves);
	fkv_rpc_renew(b.rpc, b.incarnation);
	fkv_moves_joined(b.moves);
	tell(&a, &b, "b", false);
	cmd = cmd_of(FKV_CMD_PULL, &b, 8);
	run(&a, &cmd);
	wait_for(a.heard[FKV_IN_MOVED] == 1);
	ck_assert_int_eq(a.res, 0);
	ck_assert(!memcmp(a.segment, b.segment, LEN));
	nothing_is_left();
}
END_TEST

START_TEST(a_life_that_is_gone_is_neither_asked_nor_pulled_from)
{
	struct fkv_cmd cmd = cmd_of(FKV_CMD_PULL, &b, 8);

	tell(&a, &b, "b", true);
	run(&a, &cmd);
	wait_for(a.heard[FKV_IN_MOVED] == 1);
	ck_assert_int_ne(a.res, 0);
	nothing_is_left();
}
END_TEST

int main(void)
{
	Suite *s = suite_create("moves");
	TCase *tc = tcase_create("moves");
	SRunner *sr = srunner_create(s);
	int failed;

	tcase_add_checked_fixture(tc, setup, teardown);
	tcase_set_timeout(tc, 60);
	tcase_add_test(tc, memory_of_a_peer_is_pulled);
	tcase_add_test(tc, an_unknown_life_is_not_pulled_from);
	tcase_add_test(tc, an_ssd_copy_is_pushed_by_pieces);
	tcase_add_test(tc, a_source_that_has_it_not_says_so);
	tcase_add_test(tc, a_source_that_fails_on_the_way_says_so);
	tcase_add_test(tc, what_is_cancelled_ends_and_is_nobodys_fault);
	tcase_add_test(tc, a_put_has_come_when_its_writer_is_told);
	tcase_add_test(tc, ops_of_two_owners_are_not_mistaken);
	tcase_add_test(tc, what_is_fenced_is_not_written_any_more);
	tcase_add_test(tc, all_ends_before_it_is_stopped);
	tcase_add_test(tc, the_next_life_is_pulled_from);
	tcase_add_test(tc,
		a_life_that_is_gone_is_neither_asked_nor_pulled_from);
	suite_add_tcase(s, tc);
	srunner_run_all(sr, CK_NORMAL);
	failed = srunner_ntests_failed(sr);
	srunner_free(sr);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
