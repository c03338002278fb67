// SPDX-License-Identifier: Apache-2.0
/*
 * test_transfer.c - two honest hosts; test_transfer_strangers.c has the others
 */
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "transfer_driver.h"

/* ---- pulls ---- */

static const uint64_t sizes[] = {
	1, 4095, 4096, 65537, FKV_MIB, FKV_MIB + 1, 4 * FKV_MIB, 16 * FKV_MIB,
};

START_TEST(a_pull_brings_the_bytes_and_no_other)
{
	struct call c;

	for (size_t i = 0; i < FKV_ARRAY_SIZE(sizes); i++) {
		uint64_t where = FKV_MIB + 4096 * i, n = sizes[i];

		memset(dst.mem, 0x5a, SEGMENT);
		fill(src.mem + where, n, i);
		pull(&c, 100 + i, where, n);
		ended(&c, 0, FKV_FAULT_NONE);
		ck_assert_uint_eq(c.res.bytes, n);
		ck_assert_uint_gt(c.res.ns, 0);
		ck_assert(filled(dst.mem + where, n, i));
		ck_assert_uint_eq(dst.mem[where - 1], 0x5a);
		ck_assert_uint_eq(dst.mem[where + n], 0x5a);
	}
	ck_assert_uint_eq(peer_stats_of(&dst, SRC_LIFE).ops,
			  FKV_ARRAY_SIZE(sizes));
	ck_assert_uint_eq(peer_stats_of(&src, DST_LIFE).served,
			  FKV_ARRAY_SIZE(sizes));
}
END_TEST

#define MANY	1000

/* T3: connections are few and used again */
START_TEST(many_pulls_share_few_connections)
{
	static struct call c[MANY];
	uint64_t sum = 0;

	fill(src.mem, SEGMENT, 5);
	expose(0, 0, SEGMENT);
	srand(3);
	for (int i = 0; i < MANY; i++) {
		uint64_t n = 1 + (uint64_t)rand() % 65536;
		struct fkv_transfer_pull p =
			pull_of(&c[i], 1 + (uint64_t)i, (uint64_t)i * 65536, n);

		sum += n;
		ck_assert_int_eq(fkv_transfer_pull(dst.t, &p), 0);
	}
	for (int i = 0; i < MANY; i++) {
		wait_for(c[i].dones);
		/* 65536 is a multiple of the word that fill() is made of */
		ck_assert_int_eq(c[i].res.err, 0);
		ck_assert_int_eq(memcmp(dst.mem + i * 65536,
					src.mem + i * 65536,
					c[i].res.bytes), 0);
	}
	ck_assert_uint_eq(peer_stats_of(&dst, SRC_LIFE).bytes_in, sum);
	ck_assert_uint_eq(peer_stats_of(&src, DST_LIFE).bytes_out, sum);
	ck_assert_uint_eq(peer_stats_of(&dst, SRC_LIFE).failures, 0);
	ck_assert_uint_eq(peer_stats_of(&dst, SRC_LIFE).channels_out, 4);
	ck_assert_uint_eq(stats_of(&dst).dials, 4);
	ck_assert_str_eq(peer_stats_of(&src, DST_LIFE).name, "dst");
}
END_TEST

/* T1, G3 */
START_TEST(a_source_serves_only_what_is_exposed_for_the_op)
{
	struct fkv_transfer_extent other = { .op = 3, .reader = 99,
					     .len = 4096 };
	struct fkv_transfer_pull p;
	struct call c;

	pull(&c, 1, 8192, 4096);
	ended(&c, 0, FKV_FAULT_NONE);
	/* another op */
	p = pull_of(&c, 2, 8192, 4096);
	ck_assert_int_eq(fkv_transfer_pull(dst.t, &p), 0);
	ended(&c, -ENOENT, FKV_FAULT_SOURCE);
	/* a byte before, a byte behind, and one more than there is */
	for (int i = 0; i < 3; i++) {
		p = pull_of(&c, 1, i == 1 ? 8193 : 8191, i == 2 ? 4097 : 4096);
		ck_assert_int_eq(fkv_transfer_pull(dst.t, &p), 0);
		ended(&c, -ERANGE, FKV_FAULT_SOURCE);
	}
	/* another reader's */
	ck_assert_int_eq(fkv_transfer_expose(src.t, &other), 0);
	p = pull_of(&c, 3, 0, 4096);
	ck_assert_int_eq(fkv_transfer_pull(dst.t, &p), 0);
	ended(&c, -ENOENT, FKV_FAULT_SOURCE);
	/* and not any more */
	ck_assert_int_eq(fkv_transfer_unexpose(src.t, 1, on_call, &c), 0);
	memset(&c, 0, sizeof(c));
	wait_for(c.dones);
	p = pull_of(&c, 1, 8192, 4096);
	ck_assert_int_eq(fkv_transfer_pull(dst.t, &p), 0);
	ended(&c, -ENOENT, FKV_FAULT_SOURCE);
	/* none of it was worth a connection */
	ck_assert_uint_eq(stats_of(&dst).dials, 1);
	ck_assert_uint_eq(peer_stats_of(&src, DST_LIFE).refused, 6);
	ck_assert_uint_eq(peer_stats_of(&dst, SRC_LIFE).failures, 6);
}
END_TEST

/* ---- pushes ---- */

START_TEST(a_push_in_pieces_of_any_order_arrives)
{
	struct call to, from, p[4];
	uint64_t len = 4 * FKV_CHUNK - 777;

	memset(dst.mem, 0x5a, SEGMENT);
	fill(src.mem, len, 9);
	open_target(&to, 7, 4096, len);
	ck_assert_uint_eq(to.readies, 1);
	push(&from, 7, len, &to);
	for (int i = 0; i < 4; i++) {
		/* 1 0 3 2, the last of which is not the value's end */
		uint64_t where = (uint64_t)(i ^ 1) * FKV_CHUNK;

		piece(&p[i], 7, &(struct fkv_transfer_piece){
			.offset = where, .at = where, .last = i == 3,
			.len = fkv_min_u64(FKV_CHUNK, len - where) });
	}
	ended(&from, 0, FKV_FAULT_NONE);
	ended(&to, 0, FKV_FAULT_NONE);
	for (int i = 0; i < 4; i++)
		ended(&p[i], 0, FKV_FAULT_NONE);
	ck_assert_uint_eq(from.res.bytes, len);
	ck_assert_uint_eq(to.res.bytes, len);
	ck_assert(filled(dst.mem + 4096, len, 9));
	ck_assert_uint_eq(dst.mem[4095], 0x5a);
	ck_assert_uint_eq(dst.mem[4096 + len], 0x5a);
}
END_TEST

/* G5: a chunk is sent while the next is read */
START_TEST(a_piece_arrives_before_the_next_is_there)
{
	struct call to, from, p;

	fill(src.mem, 8192, 1);
	open_target(&to, 7, 0, 8192);
	push(&from, 7, 8192, &to);
	for (int i = 0; i < 2; i++) {
		uint64_t where = (uint64_t)i * 4096;

		piece(&p, 7, &(struct fkv_transfer_piece){
			.offset = where, .at = where, .len = 4096,
			.last = i == 1 });
		wait_for(peer_stats_of(&dst, SRC_LIFE).bytes_in ==
			 where + 4096);
		/* its buffer is free */
		ended(&p, 0, FKV_FAULT_NONE);
	}
	ended(&to, 0, FKV_FAULT_NONE);
	ck_assert(filled(dst.mem, 8192, 1));
}
END_TEST

/* A remote put: who writes has no name for the connection. */
START_TEST(a_push_finds_the_connection_that_offers_its_op)
{
	struct fkv_transfer_target o = {
		.peer = SRC_LIFE, .len = 4096, .done = on_call,
	};
	struct fkv_transfer_piece whole = { .len = 4096, .last = true };

	fill(src.mem, 4096, 2);
	for (uint64_t op = 1; op <= 20; op++) {
		struct call to = { 0 }, from, p;

		o.op = op;
		o.arg = &to;
		memset(dst.mem, 0, 4096);
		/* whichever is first */
		if (op % 2)
			push(&from, op, 4096, NULL);
		ck_assert_int_eq(fkv_transfer_open(dst.t, &o), 0);
		if (op % 2 == 0)
			push(&from, op, 4096, NULL);
		piece(&p, op, &whole);
		ended(&to, 0, FKV_FAULT_NONE);
		ended(&from, 0, FKV_FAULT_NONE);
		ended(&p, 0, FKV_FAULT_NONE);
		ck_assert(filled(dst.mem, 4096, 2));
	}
	ck_assert_uint_eq(stats_of(&dst).dials, 1);
}
END_TEST

START_TEST(a_push_that_nobody_offers_ends)
{
	struct fkv_transfer_piece whole = { .len = 4096, .last = true };
	struct call from, p, late;

	push(&from, 1, 4096, NULL);
	piece(&p, 1, &whole);
	ended(&from, -ETIMEDOUT, FKV_FAULT_VOID);
	ended(&p, -ETIMEDOUT, FKV_FAULT_VOID);
	piece(&late, 1, &whole);
	ended(&late, -ENOENT, FKV_FAULT_LOCAL);
}
END_TEST

/* G3.2 */
START_TEST(a_push_to_a_destroyed_generation_is_void)
{
	struct call to, from, quiet;

	open_target(&to, 7, 0, 4096);
	memset(&quiet, 0, sizeof(quiet));
	ck_assert_int_eq(fkv_transfer_end(dst.t, 7, on_call, &quiet), 0);
	ended(&quiet, 0, FKV_FAULT_NONE);
	ended(&to, -ECANCELED, FKV_FAULT_LOCAL);
	wait_for(!peer_stats_of(&src, DST_LIFE).channels_in);
	push(&from, 7, 4096, &to);
	ended(&from, -ESTALE, FKV_FAULT_VOID);
	/* nor is its successor in the same slot meant */
	open_target(&quiet, 8, 0, 4096);
	ck_assert_uint_eq(quiet.slot, to.slot);
	ck_assert_uint_gt(quiet.generation, to.generation);
	push(&from, 7, 4096, &to);
	ended(&from, -ESTALE, FKV_FAULT_VOID);
	to.slot = 15;
	push(&from, 7, 4096, &to);
	ended(&from, -ESTALE, FKV_FAULT_VOID);
	host_stop(&dst);
}
END_TEST

/* G6 */
START_TEST(a_source_that_fails_says_why)
{
	struct call to, from, p[2];

	open_target(&to, 7, 0, 8192);
	push(&from, 7, 8192, &to);
	piece(&p[0], 7, &(struct fkv_transfer_piece){ .len = 4096 });
	ck_assert_int_eq(fkv_transfer_push_fail(src.t, 7, -EBADMSG), 0);
	ended(&to, -EBADMSG, FKV_FAULT_SOURCE);
	ended(&from, -EBADMSG, FKV_FAULT_LOCAL);
	wait_for(p[0].dones);
	/* less than was said, or more */
	open_target(&to, 8, 0, 8192);
	push(&from, 8, 8192, &to);
	piece(&p[0], 8, &(struct fkv_transfer_piece){ .len = 8193 });
	ended(&p[0], -EINVAL, FKV_FAULT_LOCAL);
	piece(&p[1], 8, &(struct fkv_transfer_piece){ .len = 4096,
						      .last = true });
	ended(&to, -EIO, FKV_FAULT_SOURCE);
	ended(&from, -EIO, FKV_FAULT_LOCAL);
	/* the connection is as good as before */
	open_target(&to, 9, 0, 8192);
	ck_assert_uint_eq(to.generation, 1);
	host_stop(&dst);
}
END_TEST

/* ---- ends ---- */

/* G3.5 */
START_TEST(what_dies_with_anothers_connection_is_told_so)
{
	struct call a_op, b_op, quiet;

	host_stop(&dst);
	host_start(&dst, "dst", DST_LIFE + 1, 1);
	host_add(&dst, &src);
	open_target(&a_op, 1, 0, 4096);
	open_target(&b_op, 2, 4096, 4096);
	ck_assert_uint_eq(a_op.generation, b_op.generation);
	memset(&quiet, 0, sizeof(quiet));
	ck_assert_int_eq(fkv_transfer_end(dst.t, 1, on_call, &quiet), 0);
	ended(&a_op, -ECANCELED, FKV_FAULT_LOCAL);
	ended(&b_op, -ECONNABORTED, FKV_FAULT_SHARED);
	ended(&quiet, 0, FKV_FAULT_NONE);
	/* G3.4: what is not there is quiet */
	memset(&quiet, 0, sizeof(quiet));
	ck_assert_int_eq(fkv_transfer_end(dst.t, 1, on_call, &quiet), 0);
	ended(&quiet, -ENOENT, FKV_FAULT_NONE);
	/* and the next op has a new one */
	pull(&a_op, 3, 0, 4096);
	ended(&a_op, 0, FKV_FAULT_NONE);
}
END_TEST

START_TEST(an_op_is_there_once)
{
	struct call to, twice, from, again;

	open_target(&to, 7, 0, 4096);
	open_target(&twice, 7, 4096, 4096);
	ended(&twice, -EEXIST, FKV_FAULT_LOCAL);
	ck_assert_uint_eq(to.dones, 0);
	push(&from, 7, 4096, &to);
	push(&again, 7, 4096, &to);
	ended(&again, -EEXIST, FKV_FAULT_LOCAL);
	piece(&again, 7, &(struct fkv_transfer_piece){ .len = 4096,
						       .last = true });
	ended(&to, 0, FKV_FAULT_NONE);
	ended(&from, 0, FKV_FAULT_NONE);
}
END_TEST

/* T3, A20 */
START_TEST(a_life_that_is_over_is_neither_dialled_nor_let_in)
{
	struct call c;

	host_add(&src, &dst);
	pull(&c, 1, 0, 4096);
	ended(&c, 0, FKV_FAULT_NONE);
	/* dst is known to live again: its old life goes */
	ck_assert_int_eq(fkv_transfer_peer_add(src.t, "dst", DST_LIFE + 1,
			(struct sockaddr *)&dst.at), 0);
	wait_for(!peer_stats_of(&dst, SRC_LIFE).channels_out);
	pull(&c, 2, 0, 4096);
	ended(&c, -ESTALE, FKV_FAULT_TRANSPORT);
	host_stop(&dst);
	host_start(&dst, "dst", DST_LIFE + 1, 0);
	host_add(&dst, &src);
	pull(&c, 3, 0, 4096);
	ended(&c, 0, FKV_FAULT_NONE);
	/* the other way round: another life at the address */
	host_stop(&src);
	host_start(&src, "src", SRC_LIFE + 1, 0);
	pull(&c, 4, 0, 4096);
	ended(&c, -ESTALE, FKV_FAULT_TRANSPORT);
	ck_assert_int_eq(fkv_transfer_peer_remove(dst.t, SRC_LIFE), 0);
	pull(&c, 5, 0, 4096);
	ended(&c, -ESTALE, FKV_FAULT_TRANSPORT);
}
END_TEST

START_TEST(removing_a_peer_ends_what_is_open)
{
	struct call to;

	open_target(&to, 7, 0, 4096);
	ck_assert_int_eq(fkv_transfer_peer_remove(dst.t, SRC_LIFE), 0);
	ended(&to, -ESTALE, FKV_FAULT_TRANSPORT);
}
END_TEST

/* F1 */
START_TEST(a_new_life_begins_with_nothing)
{
	struct fkv_transfer_pull p;
	struct call to, from, waits, renewed;

	open_target(&to, 7, 0, 4096);
	memset(&renewed, 0, sizeof(renewed));
	ck_assert_int_eq(fkv_transfer_renew(dst.t, DST_LIFE + 1, on_call,
					    &renewed), 0);
	ended(&renewed, 0, FKV_FAULT_NONE);
	ended(&to, -ECANCELED, FKV_FAULT_LOCAL);
	ck_assert_uint_eq(stats_of(&dst).connections, 0);
	p = pull_of(&to, 8, 0, 4096);
	ck_assert_int_eq(fkv_transfer_pull(dst.t, &p), 0);
	ended(&to, -EHOSTUNREACH, FKV_FAULT_TRANSPORT);
	host_add(&dst, &src);
	pull(&to, 9, 0, 4096);
	ended(&to, 0, FKV_FAULT_NONE);
	wait_for(peer_stats_of(&src, DST_LIFE + 1).served == 1);
	/* the source's */
	push(&waits, 10, 4096, NULL);
	open_target(&to, 11, 0, 4096);
	push(&from, 11, 4096, &to);
	memset(&renewed, 0, sizeof(renewed));
	ck_assert_int_eq(fkv_transfer_renew(src.t, SRC_LIFE + 1, on_call,
					    &renewed), 0);
	ended(&renewed, 0, FKV_FAULT_NONE);
	wait_for(waits.dones && from.dones && to.dones);
	ck_assert_int_eq(to.res.fault, FKV_FAULT_TRANSPORT);
}
END_TEST

START_TEST(closing_ends_what_is_open)
{
	struct fkv_transfer_pull p;
	struct call to, from;

	open_target(&to, 7, 0, 4096);
	push(&from, 8, 4096, NULL);
	fkv_transfer_close(dst.t);
	fkv_transfer_close(dst.t);
	p = pull_of(&from, 9, 0, 4096);
	ck_assert_int_eq(fkv_transfer_pull(dst.t, &p), -ESHUTDOWN);
	wait_for(fkv_transfer_is_closed(dst.t));
	ended(&to, -ECANCELED, FKV_FAULT_LOCAL);
	host_stop(&src);
	ck_assert_int_eq(from.res.err, -ECANCELED);
}
END_TEST

/* ---- peers that are not there ---- */

START_TEST(a_peer_that_refuses_is_unreachable)
{
	struct call c[3];

	host_stop(&src);
	for (int i = 0; i < 3; i++) {
		struct fkv_transfer_pull p = pull_of(&c[i], 1 + (uint64_t)i, 0,
						     4096);

		ck_assert_int_eq(fkv_transfer_pull(dst.t, &p), 0);
	}
	for (int i = 0; i < 3; i++)
		ended(&c[i], -ECONNREFUSED, FKV_FAULT_TRANSPORT);
	/* nobody has told of it */
	c[0].dones = 0;
	ck_assert_int_eq(fkv_transfer_pull(dst.t, &(struct fkv_transfer_pull){
		.op = 9, .peer = 77, .len = 1, .done = on_call,
		.arg = &c[0] }), 0);
	ended(&c[0], -EHOSTUNREACH, FKV_FAULT_TRANSPORT);
}
END_TEST

/* A21 */
START_TEST(a_black_hole_costs_the_time_to_connect)
{
	struct sockaddr_storage at_hole;
	int fd = raw_listen(&at_hole);
	struct fkv_transfer_pull p;
	struct call c;

	p = pull_of(&c, 1, 0, 4096);
	p.peer = RAW_LIFE;
	ck_assert_int_eq(fkv_transfer_pull(dst.t, &p), 0);
	ended(&c, -ETIMEDOUT, FKV_FAULT_TRANSPORT);
	ck_assert_uint_ge(c.res.ns, quick.connect_ns);
	ck_assert_uint_lt(c.res.ns, quick.connect_ns + 500 * FKV_MS);
	close(fd);
}
END_TEST

START_TEST(an_op_that_waits_for_a_connection_is_ended_at_once)
{
	struct sockaddr_storage at_hole;
	int fd = raw_listen(&at_hole);
	struct fkv_transfer_pull p;
	struct call c, quiet;

	p = pull_of(&c, 1, 0, 4096);
	p.peer = RAW_LIFE;
	memset(&quiet, 0, sizeof(quiet));
	ck_assert_int_eq(fkv_transfer_pull(dst.t, &p), 0);
	ck_assert_int_eq(fkv_transfer_end(dst.t, 1, on_call, &quiet), 0);
	ended(&quiet, 0, FKV_FAULT_NONE);
	ended(&c, -ECANCELED, FKV_FAULT_LOCAL);
	ck_assert_uint_lt(c.res.ns, quick.connect_ns);
	close(fd);
}
END_TEST

/* ---- arguments ---- */

START_TEST(what_is_no_call_is_refused)
{
	struct fkv_transfer_pull p;
	struct call c;
	struct fkv_transfer_push s = { .op = 1, .peer = 1, .len = 1,
				       .done = on_call };
	struct fkv_transfer_piece piece0 = { .len = 0 };

	p = pull_of(&c, 0, 0, 1);
	ck_assert_int_eq(fkv_transfer_pull(dst.t, &p), -EINVAL);
	p = pull_of(&c, 1, 0, 0);
	ck_assert_int_eq(fkv_transfer_pull(dst.t, &p), -EINVAL);
	p = pull_of(&c, 1, SEGMENT, 1);
	ck_assert_int_eq(fkv_transfer_pull(dst.t, &p), -EINVAL);
	p = pull_of(&c, 1, 1, SEGMENT);
	ck_assert_int_eq(fkv_transfer_pull(dst.t, &p), -EINVAL);
	p = pull_of(&c, 1, 0, SEGMENT + 1);
	p.remote = 0;
	ck_assert_int_eq(fkv_transfer_pull(dst.t, &p), -EINVAL);
	p = pull_of(&c, 1, UINT64_MAX, 2);
	ck_assert_int_eq(fkv_transfer_pull(dst.t, &p), -EINVAL);
	p = pull_of(&c, 1, 0, 2);
	p.remote = UINT64_MAX;
	ck_assert_int_eq(fkv_transfer_pull(dst.t, &p), -EINVAL);
	p = pull_of(&c, 1, 0, 2);
	p.peer = 0;
	ck_assert_int_eq(fkv_transfer_pull(dst.t, &p), -EINVAL);
	s.slot = FKV_TRANSFER_SLOTS;
	ck_assert_int_eq(fkv_transfer_push(dst.t, &s), -EINVAL);
	ck_assert_int_eq(fkv_transfer_push_piece(dst.t, 1, &piece0), -EINVAL);
	ck_assert_int_eq(fkv_transfer_push_fail(dst.t, 1, 0), -EINVAL);
	ck_assert_int_eq(fkv_transfer_end(dst.t, 0, NULL, NULL), -EINVAL);
	ck_assert_int_eq(fkv_transfer_peer_remove(dst.t, 0), -EINVAL);
	ck_assert_int_eq(fkv_transfer_renew(dst.t, 0, NULL, NULL), -EINVAL);
	ck_assert_int_eq(fkv_transfer_peer_add(dst.t, "", 1,
			(struct sockaddr *)&src.at), -EINVAL);
	ck_assert_int_eq(fkv_transfer_expose(src.t,
			&(struct fkv_transfer_extent){ .op = 1,
				.offset = SEGMENT - 1, .len = 2 }), -EINVAL);
}
END_TEST

/* A23 */
START_TEST(without_a_key_only_loopback_is_met)
{
	struct fkv_transfer_config cfg = host_config(&src);
	struct sockaddr_storage far;
	struct fkv_transfer *t;

	ck_assert_int_eq(fkv_rpc_address("0.0.0.0:0", &far), 0);
	cfg.self.key = NULL;
	cfg.listen = (struct sockaddr *)&far;
	ck_assert_int_eq(fkv_transfer_create(loop, &cfg, &t), -EACCES);
	cfg.listen = NULL;
	ck_assert_int_eq(fkv_transfer_create(loop, &cfg, &t), 0);
	ck_assert_int_eq(fkv_transfer_peer_add(t, "x", 5,
			(struct sockaddr *)&far), -EACCES);
	fkv_transfer_close(t);
	wait_for(fkv_transfer_is_closed(t));
	fkv_transfer_free(t);
	/* and an address that is taken is an error at once */
	cfg = host_config(&src);
	ck_assert_int_eq(fkv_transfer_create(loop, &cfg, &t), -EADDRINUSE);
	cfg.channels = FKV_TRANSFER_SLOTS + 1;
	ck_assert_int_eq(fkv_transfer_create(loop, &cfg, &t), -EINVAL);
}
END_TEST

/* ---- memory ---- */

static _Atomic int allocs_left;

static bool fail_one(size_t size)
{
	(void)size;
	return atomic_fetch_sub(&allocs_left, 1) == 1;
}

/* One allocation after the other fails, in whichever thread it is. */
START_TEST(without_memory_calls_fail_and_nothing_else)
{
	struct call c, later;
	int left, n = 0;

	/* before there is a thread that asks for it */
	host_stop(&dst);
	host_stop(&src);
	fkv_alloc_fail = fail_one;
	host_start(&src, "src", SRC_LIFE, 0);
	expose(0, 0, SEGMENT);
	fill(src.mem, 65536, 1);
	do {
		struct fkv_transfer_pull p = pull_of(&c, 1, 0, 65536);
		int err;

		/* from the first connection on */
		host_stop(&dst);
		host_start(&dst, "dst", DST_LIFE + 1 + (uint64_t)n, 1);
		host_add(&dst, &src);
		allocs_left = ++n;
		err = fkv_transfer_pull(dst.t, &p);
		if (!err)
			wait_for(c.dones);
		left = atomic_exchange(&allocs_left, 0);
		ck_assert(err == -ENOMEM || err == 0);
		if (!err && !c.res.err)
			ck_assert(filled(dst.mem, 65536, 1));
		p = pull_of(&later, 2, 0, 65536);
		ck_assert_int_eq(fkv_transfer_pull(dst.t, &p), 0);
		ended(&later, 0, FKV_FAULT_NONE);
	} while (left <= 0);
	ck_assert_int_gt(n, 4);
	host_stop(&dst);
	host_stop(&src);
	fkv_alloc_fail = NULL;
}
END_TEST

START_TEST(without_memory_there_is_no_transfer)
{
	struct fkv_transfer_config cfg = host_config(&src);
	struct fkv_transfer *t;
	int err, n = 0;

	cfg.listen = NULL;
	do {
		allocs_left = ++n;
		fkv_alloc_fail = fail_one;
		err = fkv_transfer_create(loop, &cfg, &t);
		fkv_alloc_fail = NULL;
		ck_assert(err == -ENOMEM || !err);
	} while (err);
	ck_assert_int_gt(n, 5);
	fkv_transfer_close(t);
	wait_for(fkv_transfer_is_closed(t));
	fkv_transfer_free(t);
}
END_TEST

/* ---- chunk buffers (G5) ---- */

static struct fkv_chunk_user *grants[64];
static unsigned int nr_grants;

static void on_grant(struct fkv_chunk_user *u)
{
	ck_assert(u->holding);
	grants[nr_grants++] = u;
}

static void want(struct fkv_chunks *c, struct fkv_chunk_user *u, uint64_t peer)
{
	memset(u, 0, sizeof(*u));
	u->peer = peer;
	u->granted = on_grant;
	fkv_chunk_get(c, u);
}

START_TEST(a_segment_has_as_many_chunks_as_g5_says)
{
	ck_assert_uint_eq(fkv_chunks_count(FKV_SEGMENT_MIN), 2);
	ck_assert_uint_eq(fkv_chunks_count(FKV_GIB), 4);
	ck_assert_uint_eq(fkv_chunks_count(64 * FKV_GIB), 16);
}
END_TEST

START_TEST(chunks_go_to_the_peer_that_has_fewest)
{
	struct fkv_chunk_user u[6], v[2], w;
	struct fkv_chunks c;

	nr_grants = 0;
	fkv_chunks_init(&c, 8192, 4);
	for (int i = 0; i < 6; i++)
		want(&c, &u[i], 1);
	ck_assert_uint_eq(nr_grants, 4);
	for (int i = 0; i < 4; i++)
		for (int k = 0; k < i; k++)
			ck_assert_uint_ne(u[i].offset, u[k].offset);
	/* they ask later, and are served first */
	want(&c, &v[0], 2);
	want(&c, &v[1], 2);
	want(&c, &w, 3);
	fkv_chunk_put(&c, &u[0]);
	ck_assert_ptr_eq(grants[4], &v[0]);
	fkv_chunk_put(&c, &u[1]);
	ck_assert_ptr_eq(grants[5], &w);
	/* as many each: who waits longest */
	fkv_chunk_put(&c, &u[2]);
	ck_assert_ptr_eq(grants[6], &u[4]);
	/* who waits no more is passed over */
	fkv_chunk_put(&c, &u[5]);
	fkv_chunk_put(&c, &u[3]);
	ck_assert_ptr_eq(grants[7], &v[1]);
	fkv_chunk_put(&c, &u[4]);
	fkv_chunk_put(&c, &v[0]);
	fkv_chunk_put(&c, &v[1]);
	fkv_chunk_put(&c, &w);
	fkv_chunk_put(&c, &w);
	ck_assert_uint_eq(c.nr_free, 4);
	ck_assert_uint_eq(nr_grants, 8);
}
END_TEST

static void add_tests(TCase *tc)
{
	tcase_add_test(tc, a_pull_brings_the_bytes_and_no_other);
	tcase_add_test(tc, many_pulls_share_few_connections);
	tcase_add_test(tc, a_source_serves_only_what_is_exposed_for_the_op);
	tcase_add_test(tc, a_push_in_pieces_of_any_order_arrives);
	tcase_add_test(tc, a_piece_arrives_before_the_next_is_there);
	tcase_add_test(tc, a_push_finds_the_connection_that_offers_its_op);
	tcase_add_test(tc, a_push_that_nobody_offers_ends);
	tcase_add_test(tc, a_push_to_a_destroyed_generation_is_void);
	tcase_add_test(tc, a_source_that_fails_says_why);
	tcase_add_test(tc, what_dies_with_anothers_connection_is_told_so);
	tcase_add_test(tc, an_op_is_there_once);
	tcase_add_test(tc, a_life_that_is_over_is_neither_dialled_nor_let_in);
	tcase_add_test(tc, removing_a_peer_ends_what_is_open);
	tcase_add_test(tc, a_new_life_begins_with_nothing);
	tcase_add_test(tc, closing_ends_what_is_open);
	tcase_add_test(tc, a_peer_that_refuses_is_unreachable);
	tcase_add_test(tc, a_black_hole_costs_the_time_to_connect);
	tcase_add_test(tc, an_op_that_waits_for_a_connection_is_ended_at_once);
	tcase_add_test(tc, what_is_no_call_is_refused);
	tcase_add_test(tc, without_a_key_only_loopback_is_met);
	tcase_add_test(tc, without_memory_calls_fail_and_nothing_else);
	tcase_add_test(tc, without_memory_there_is_no_transfer);
	tcase_add_test(tc, a_segment_has_as_many_chunks_as_g5_says);
	tcase_add_test(tc, chunks_go_to_the_peer_that_has_fewest);
}

int main(void)
{
	Suite *s = suite_create("transfer");
	TCase *tc = tcase_create("transfer");
	SRunner *sr = srunner_create(s);
	int failed;

	tcase_add_checked_fixture(tc, transfer_setup, transfer_teardown);
	tcase_set_timeout(tc, 120);
	/* none of these waits for it */
	quick.stall_ns = 10 * FKV_SEC;
	add_tests(tc);
	suite_add_tcase(s, tc);
	srunner_run_all(sr, CK_NORMAL);
	failed = srunner_ntests_failed(sr);
	srunner_free(sr);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
