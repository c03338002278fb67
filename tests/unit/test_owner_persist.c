// SPDX-License-Identifier: Apache-2.0
#include <check.h>
#include <stdlib.h>

#include "owner_driver.h"

#define SUM	77u
#define RING	(16 * PAGE)

static void commit_answer(uint64_t op)
{
	owner_msg((struct fkv_msg){
		.type = FKV_MSG_SSD_COMMIT_R,
		.op = op,
	}, NULL);
}

static uint64_t devices_told(void)
{
	return core_take_msg(FKV_MSG_SSD_STATE).n;
}

/* Both shards are full of a value that is still being written. */
static void block_all(struct fkv_cmd write[2])
{
	for (int i = 0; i < 2; i++) {
		owner_persist(i ? "w1" : "w0", 1, RING - PAGE, 20);
		write[i] = owner_write(SUM);
	}
}

static void persist_first(const char *key, uint64_t put_id, uint64_t extent)
{
	owner_msg((struct fkv_msg){
		.type = FKV_MSG_PERSIST,
		.put_id = put_id,
		.len = PAGE,
		.extent = extent,
		.offset = extent * PAGE,
		.first = true,
	}, key);
}

/* The next message is of @type. */
static struct fkv_msg next_msg(enum fkv_msg_type type)
{
	struct fkv_cmd cmd = core_take(FKV_CMD_SEND);

	ck_assert_int_eq(cmd.msg.type, type);
	return cmd.msg;
}

/* P4: pinned and pending is one reason twice; never is it none */
START_TEST(pinned_value_counts_once_while_its_first_persist_is_pending)
{
	struct fkv_cmd write;
	uint64_t id;

	owner_put("k", PAGE, 5, 9);
	id = owner_hold("k", PAGE);
	persist_first("k", 9, 5);
	owner_pinned(0);
	write = owner_write(SUM);
	owner_io(write.token, 0, 0);
	ck_assert_uint_eq(next_msg(FKV_MSG_PINS).n, PAGE);
	commit_answer(next_msg(FKV_MSG_SSD_COMMIT).op);

	/* that of a victim is evictable but for its pins */
	owner_persist("k", 9, PAGE, 5);
	ck_assert(!core_has_msg(FKV_MSG_PINS));
	core_drop_all();
	owner_release(id);
	owner_pinned(0);
}
END_TEST

/* The front asks of these who holds them. */
START_TEST(pending_values_are_listed_until_they_are_persisted_or_retired)
{
	struct fkv_entry *a = owner_put("a", PAGE, 5, 9);
	struct fkv_entry *b = owner_put("b", PAGE, 6, 10);
	struct fkv_cmd write, other;

	ck_assert_ptr_null(fkv_owner_next_pending(owner, NULL));
	persist_first("a", 9, 5);
	persist_first("b", 10, 6);
	ck_assert_ptr_eq(fkv_owner_next_pending(owner, NULL), a);
	ck_assert_ptr_eq(fkv_owner_next_pending(owner, a), b);
	ck_assert_ptr_null(fkv_owner_next_pending(owner, b));
	write = owner_write(SUM);
	other = owner_write(SUM);
	owner_io(write.token, 0, 0);
	commit_answer(core_take_msg(FKV_MSG_SSD_COMMIT).op);
	ck_assert_ptr_eq(fkv_owner_next_pending(owner, NULL), b);
	owner_retire("b", 10);
	ck_assert_ptr_null(fkv_owner_next_pending(owner, NULL));
	fkv_owner_check(owner);
	core_drop_all();
	owner_scanned(b);
	owner_io(other.token, -EIO, 0);
	core_drop_all();
}
END_TEST

/* P4: a persist that fails ends it, too; pins that end meanwhile are none */
START_TEST(failed_persist_leaves_what_is_pinned_now)
{
	struct fkv_entry *e = owner_put("k", PAGE, 5, 9);
	struct fkv_cmd write;
	uint64_t id;

	persist_first("k", 9, 5);
	write = owner_write(SUM);
	owner_ask(FLUXONKV_OP_GET, "k");
	id = owner_result(0).id;
	owner_release(id);
	owner_ask(FLUXONKV_OP_GET, "k");
	id = owner_result(0).id;
	ck_assert(!core_has_msg(FKV_MSG_PINS));
	owner_io(write.token, -EIO, 0);
	ck_assert_uint_eq(next_msg(FKV_MSG_PINS).n, PAGE);
	ck_assert_int_eq(next_msg(FKV_MSG_PERSIST_FAILED).res, -EIO);
	owner_release(id);
	owner_pinned(0);

	/* readers: what the last count saw, until the next one */
	persist_first("k", 9, 5);
	write = owner_write(SUM);
	e->read = true;
	owner_io(write.token, -EIO, 0);
	ck_assert_uint_eq(next_msg(FKV_MSG_PINS).n, PAGE);
	owner_step(&(struct fkv_in){ .type = FKV_IN_PINS });
	core_take_msg(FKV_MSG_PERSIST_FAILED);
	owner_pinned(0);
}
END_TEST

/* P6, P7, P8 */
START_TEST(persist_is_hashed_written_and_committed)
{
	struct fkv_cmd hash, write;
	struct fkv_msg commit;

	owner_persist("k", 9, PAGE + 1, 5);
	hash = core_take(FKV_CMD_HASH);
	ck_assert_uint_eq(hash.offset, 5 * PAGE);
	ck_assert_uint_eq(hash.len, PAGE + 1);
	owner_hashed(hash.token, SUM);
	write = core_take(FKV_CMD_WRITE);
	ck_assert_uint_eq(write.offset, 5 * PAGE);
	ck_assert_uint_eq(write.io.sum, SUM);
	ck_assert_uint_eq(write.io.entry_len, 3 * PAGE);
	ck_assert_uint_eq(write.io.put_id, 9);
	commit = owner_written(&write);
	ck_assert_uint_eq(commit.put_id, 9);
	ck_assert_uint_eq(commit.extent, 5);
	ck_assert_uint_eq(commit.shard, write.io.shard);
	ck_assert_uint_eq(commit.seq, write.io.seq);
	ck_assert_uint_eq(owner_stats().persist_committing, 1);
	commit_answer(commit.op);
	ck_assert_uint_eq(owner_stats().persist_committing, 0);
	ck_assert_uint_eq(owner_stats().persist_active, 0);
	ck_assert_uint_eq(owner_stats().bytes_persisted, PAGE + 1);
}
END_TEST

/* S10: 32 writes, or 128 MiB, and never none */
START_TEST(persists_in_flight_are_bounded)
{
	struct fkv_cmd hash;

	for (uint32_t i = 0; i < FKV_WRITES_MAX + 2; i++)
		owner_persist("k", i + 1, PAGE, 5);
	ck_assert_uint_eq(owner_stats().persist_active, FKV_WRITES_MAX);
	ck_assert_uint_eq(owner_stats().persist_queued, 2);
	/* one that ends lets one in */
	owner_retire("k", 1);
	hash = core_take(FKV_CMD_HASH);
	owner_hashed(hash.token, SUM);
	owner_persist_failed(-ECANCELED);
	ck_assert_uint_eq(owner_stats().persist_queued, 1);
	/* and queued ones of a retired version end at once */
	owner_retire("k", FKV_WRITES_MAX + 2);
	owner_persist_failed(-ECANCELED);
	ck_assert_uint_eq(owner_stats().persist_queued, 0);
	for (uint32_t i = 0; i < FKV_WRITES_MAX; i++) {
		owner_hashed(core_take(FKV_CMD_HASH).token, SUM);
		owner_persist_failed(-ECANCELED);
	}
	ck_assert_uint_eq(owner_stats().persist_failed, 0);
}
END_TEST

START_TEST(bytes_of_persists_in_flight_are_bounded)
{
	owner_persist("a", 1, FKV_WRITE_BYTES_MAX + PAGE, 5);
	owner_persist("b", 2, PAGE, 5);
	ck_assert_uint_eq(owner_stats().persist_active, 1);
	owner_hashed(core_take(FKV_CMD_HASH).token, SUM);
	/* P6: it fits no shard: memory-only, counted */
	ck_assert_uint_eq(owner_persist_failed(-EFBIG).put_id, 1);
	ck_assert_uint_eq(owner_stats().persist_failed, 1);
	ck_assert_uint_eq(owner_stats().persist_active, 1);
	core_take(FKV_CMD_HASH);
}
END_TEST

/* K6d */
START_TEST(persist_retired_while_hashed_or_written_is_dropped)
{
	struct fkv_cmd hash, write;

	owner_persist("a", 5, PAGE, 5);
	hash = core_take(FKV_CMD_HASH);
	owner_retire("a", 5);
	owner_hashed(hash.token, SUM);
	owner_persist_failed(-ECANCELED);
	owner_persist("b", 6, PAGE, 6);
	write = owner_write(SUM);
	owner_retire("b", 5);		/* an older one: goes on */
	owner_retire("b", 6);
	owner_io(write.token, 0, 0);
	owner_persist_failed(-ECANCELED);
	ck_assert_uint_eq(owner_stats().persist_active, 0);
	ck_assert_uint_eq(owner_stats().persist_failed, 0);
}
END_TEST

/* K6d: of that key, up to that version */
START_TEST(retire_leaves_persists_of_newer_versions)
{
	struct fkv_cmd write;

	owner_persist("a", 5, PAGE, 5);
	owner_retire("a", 4);
	write = owner_write(SUM);
	commit_answer(owner_written(&write).op);
}
END_TEST

/* S5: all shards blocked: the command waits, on events */
START_TEST(persist_waits_while_all_shards_are_blocked)
{
	struct fkv_cmd w[2], write;

	block_all(w);
	owner_persist("k", 9, PAGE, 5);
	owner_hashed(core_take(FKV_CMD_HASH).token, SUM);
	owner_persist("l", 10, PAGE, 6);
	owner_hashed(core_take(FKV_CMD_HASH).token, SUM);
	ck_assert_uint_eq(owner_stats().persist_blocked, 2);
	ck_assert_uint_eq(owner_stats().blocked_waits, 2);
	core_now += FKV_SEC;
	commit_answer(owner_written(&w[0]).op);
	write = core_take(FKV_CMD_WRITE);
	ck_assert_ptr_eq(write.key, core_key("k"));
	ck_assert_uint_eq(core_take_msg(FKV_MSG_SSD_TAIL).shard,
			  w[0].io.shard);
	write = core_take(FKV_CMD_WRITE);
	ck_assert_ptr_eq(write.key, core_key("l"));
	ck_assert_uint_eq(owner_stats().persist_blocked, 0);
	ck_assert_uint_eq(owner_stats().blocked_ns, 2 * FKV_SEC);
}
END_TEST

/* P6: 30 s blocked is failed; the wait counts from its begin */
START_TEST(persist_blocked_for_30_s_has_failed)
{
	struct fkv_cmd w[2];

	block_all(w);
	owner_persist("k", 9, PAGE, 5);
	owner_hashed(core_take(FKV_CMD_HASH).token, SUM);
	owner_tick(FKV_PERSIST_STALL_MAX - 1);
	/* something happens, nothing comes free */
	owner_persist("l", 10, PAGE, 6);
	owner_hashed(core_take(FKV_CMD_HASH).token, SUM);
	ck_assert_uint_eq(owner_stats().persist_blocked, 2);
	owner_tick(1);
	ck_assert_uint_eq(owner_persist_failed(-ETIMEDOUT).put_id, 9);
	ck_assert_uint_eq(owner_stats().persist_blocked, 1);
	ck_assert_uint_eq(owner_stats().persist_failed, 1);
	owner_retire("l", 10);
	owner_persist_failed(-ECANCELED);
	ck_assert_uint_eq(owner_stats().persist_blocked, 0);
	ck_assert_uint_eq(owner_stats().persist_active, 2);
}
END_TEST

/* S6: the same (key, put_id) twice: wait for the first, then it is done */
START_TEST(version_that_is_on_ssd_already_is_only_committed)
{
	struct fkv_cmd write;
	struct fkv_msg commit;

	owner_persist("k", 9, PAGE, 5);
	write = owner_write(SUM);
	owner_persist("k", 9, PAGE, 6);
	owner_hashed(core_take(FKV_CMD_HASH).token, SUM);
	ck_assert_uint_eq(owner_stats().persist_blocked, 1);
	commit = owner_written(&write);
	commit_answer(commit.op);
	commit = core_take_msg(FKV_MSG_SSD_COMMIT);
	ck_assert_uint_eq(commit.extent, 6);
	ck_assert_uint_eq(commit.seq, write.io.seq);
	commit_answer(commit.op);
	ck_assert(!core_has(FKV_CMD_WRITE));
	ck_assert_uint_eq(owner_stats().persist_active, 0);
}
END_TEST

/* S11: EIO loses that write only, the third in a row the device */
START_TEST(write_errors_in_a_row_turn_a_device_off)
{
	struct fkv_cmd write;
	uint32_t bad = UINT32_MAX;
	int errors = 0;

	for (uint64_t i = 1; errors < 3; i++) {
		owner_persist("k", i, PAGE, 5);
		write = owner_write(SUM);
		if (bad == UINT32_MAX)
			bad = write.io.shard;
		if (write.io.shard != bad) {
			commit_answer(owner_written(&write).op);
			continue;
		}
		ck_assert(!core_has_msg(FKV_MSG_SSD_STATE));
		owner_io(write.token, -EIO, 0);
		owner_persist_failed(-EIO);
		errors++;
	}
	ck_assert_uint_eq(devices_told(), 1);
	ck_assert(!fkv_ring_device_works(owner_ring, bad));
	ck_assert_uint_eq(owner_stats().devices_on, 1);
	ck_assert_uint_eq(owner_stats().write_errors, 3);
	core_drop_all();
}
END_TEST

/* S14: a full disk is off at once */
START_TEST(disk_without_room_is_off_at_once_and_tried_again)
{
	struct fkv_cmd write;
	uint32_t d;

	owner_persist("k", 1, PAGE, 5);
	write = owner_write(SUM);
	d = write.io.shard;
	owner_io(write.token, -ENOSPC, 0);
	owner_persist_failed(-ENOSPC);
	ck_assert_uint_eq(devices_told(), 1);
	ck_assert_uint_eq(fkv_owner_deadline(owner), core_now + 5 * FKV_SEC);
	owner_tick(FKV_SEC);
	ck_assert(!core_has_msg(FKV_MSG_SSD_STATE));
	owner_tick(4 * FKV_SEC);
	ck_assert_uint_eq(devices_told(), 2);
	ck_assert_uint_eq(fkv_owner_deadline(owner), FKV_NEVER);
	/* the next write there is the probe: one error is enough */
	core_drop_all();
	for (uint64_t i = 2;; i++) {
		owner_persist("k", i, PAGE, 5);
		write = owner_write(SUM);
		if (write.io.shard == d)
			break;
		commit_answer(owner_written(&write).op);
	}
	owner_io(write.token, -EIO, 0);
	owner_persist_failed(-EIO);
	ck_assert_uint_eq(devices_told(), 1);
	core_drop_all();
}
END_TEST

/* P6: the tier is off: what waits fails, and placement stops */
START_TEST(persists_fail_when_no_device_works)
{
	struct fkv_cmd w[2];

	block_all(w);
	owner_persist("k", 9, PAGE, 5);
	owner_hashed(core_take(FKV_CMD_HASH).token, SUM);
	owner_io(w[0].token, -ENOSPC, 0);
	owner_persist_failed(-ENOSPC);
	ck_assert_uint_eq(devices_told(), 1);
	ck_assert_uint_eq(owner_stats().persist_blocked, 1);
	owner_io(w[1].token, -ENOSPC, 0);
	owner_persist_failed(-ENOSPC);
	ck_assert_uint_eq(devices_told(), 0);
	owner_persist_failed(-ENODEV);
	ck_assert_uint_eq(owner_stats().persist_active, 0);
	owner_persist("l", 10, PAGE, 6);
	owner_hashed(core_take(FKV_CMD_HASH).token, SUM);
	owner_persist_failed(-ENODEV);
	core_drop_all();
}
END_TEST

/* S11: what was being written when its device went off is not committed */
START_TEST(write_that_ends_after_its_device_went_off_has_failed)
{
	struct fkv_cmd a, b, other;

	owner_persist("a", 1, PAGE, 5);
	a = owner_write(SUM);
	owner_persist("x", 2, PAGE, 6);
	other = owner_write(SUM);
	owner_persist("b", 3, PAGE, 7);
	b = owner_write(SUM);
	ck_assert_uint_eq(a.io.shard, b.io.shard);
	owner_io(a.token, -ENOSPC, 0);
	owner_persist_failed(-ENOSPC);
	ck_assert_uint_eq(devices_told(), 1);
	/* not quiet yet: it is asked again later */
	owner_tick(5 * FKV_SEC);
	ck_assert(!core_has_msg(FKV_MSG_SSD_STATE));
	owner_io(b.token, 0, 0);
	owner_persist_failed(-ENODEV);
	commit_answer(owner_written(&other).op);
	owner_tick(5 * FKV_SEC);
	ck_assert_uint_eq(devices_told(), 2);
	core_drop_all();
}
END_TEST

/* S11: off is off: a second failure of it says nothing new */
START_TEST(device_that_is_off_fails_each_write_without_a_word)
{
	struct fkv_cmd w[3];

	for (int i = 0; i < 3; i++) {
		owner_persist("k", 1 + (uint64_t)i, PAGE, 5);
		w[i] = owner_write(SUM);
	}
	owner_io(w[0].token, -ENOSPC, 0);
	ck_assert_uint_eq(devices_told(), 1);
	owner_io(w[2].token, -ENOSPC, 0);
	ck_assert(!core_has_msg(FKV_MSG_SSD_STATE));
	core_drop_all();
}
END_TEST

/* Each write goes to both devices in turn: the one on @shard fails. */
static void fail_write(uint32_t shard, uint64_t *put_id)
{
	struct fkv_cmd write;

	for (;;) {
		owner_persist("k", ++*put_id, PAGE, 5);
		write = owner_write(SUM);
		if (write.io.shard == shard)
			break;
		commit_answer(owner_written(&write).op);
	}
	owner_io(write.token, -ENOSPC, 0);
	owner_persist_failed(-ENOSPC);
	ck_assert_uint_eq(devices_told(), 1);
}

static void comes_back_after(uint64_t ns)
{
	ck_assert_uint_eq(fkv_owner_deadline(owner), core_now + ns);
	owner_tick(ns);
	ck_assert_uint_eq(devices_told(), 2);
	core_drop_all();
}

/* S11: a device that flips is not flipped every 5 s for ever */
START_TEST(device_that_fails_after_each_return_is_tried_more_rarely)
{
	static const unsigned int wait[] = { 5, 10, 20, 40, 60, 60 };
	uint64_t put_id = 0;

	for (size_t i = 0; i < FKV_ARRAY_SIZE(wait); i++) {
		fail_write(0, &put_id);
		comes_back_after(wait[i] * FKV_SEC);
		owner_tick(FKV_SEC);
	}
	/* the other one's time is its own */
	fail_write(1, &put_id);
	comes_back_after(5 * FKV_SEC);
	/* one that did work for a minute starts anew */
	owner_tick(60 * FKV_SEC);
	fail_write(0, &put_id);
	comes_back_after(5 * FKV_SEC);
}
END_TEST

/* S11, G6: what is not there any more has no copy, and takes no write */
START_TEST(device_that_departed_is_off_and_its_copy_is_dropped)
{
	static const int gone[] = { -ENXIO, -ENODEV };

	for (size_t i = 0; i < FKV_ARRAY_SIZE(gone); i++) {
		struct fkv_cmd read;

		owner_on_ssd("k", 2 * i + 1, PAGE, SUM);
		owner_ask(FLUXONKV_OP_GET, "k");
		owner_plan(owner_asked("k"), FLUXONKV_SOURCE_SSD_LOCAL,
			   2 * i + 1, PAGE, 3, false);
		read = core_take(FKV_CMD_READ);
		owner_io(read.token, gone[i], 0);
		core_take_msg(FKV_MSG_SSD_LOST);
		ck_assert(core_take_msg(FKV_MSG_GET_REVOKE).drop);
		ck_assert_uint_eq(devices_told(), 1);
		ck_assert(!fkv_ring_device_works(owner_ring, read.io.shard));
		owner_refuse(FKV_MSG_GET_PLAN, owner_asked("k"), -ENOENT);
		owner_result(-ENOENT);
		owner_tick(10 * FKV_SEC);
		core_drop_all();
	}
}
END_TEST

/* S11: reads: nothing but errors is a bad device, some are bad ranges */
START_TEST(reads_that_only_fail_turn_a_device_off)
{
	for (uint64_t i = 1; i <= 128; i++) {
		struct fkv_cmd read;
		uint64_t seen = owner_stats().read_errors;

		ck_assert(!core_has_msg(FKV_MSG_SSD_STATE));
		/* both devices take turns: keep the second one clean */
		owner_on_ssd("k", 2 * i, PAGE, SUM);
		owner_ask(FLUXONKV_OP_GET, "k");
		owner_plan(owner_asked("k"), FLUXONKV_SOURCE_SSD_LOCAL, 2 * i,
			   PAGE, 3, false);
		read = core_take(FKV_CMD_READ);
		owner_on_ssd("x", 2 * i + 1, PAGE, SUM);
		owner_io(read.token, -EIO, 0);
		ck_assert_uint_eq(owner_stats().read_errors, seen + 1);
		if (i == 128)
			break;
		core_take_msg(FKV_MSG_SSD_LOST);
		core_take_msg(FKV_MSG_GET_REVOKE);
		owner_refuse(FKV_MSG_GET_PLAN, owner_asked("k"), -ENOENT);
		core_drop_all();
	}
	ck_assert_uint_eq(devices_told(), 1);
	core_drop_all();
}
END_TEST

/* S13 */
START_TEST(evictions_of_a_shard_are_told_by_its_lowest_seq)
{
	struct fkv_msg tail;

	for (uint64_t i = 1; i <= 4; i++)
		owner_on_ssd("k", i, 7 * PAGE, SUM);
	ck_assert(!core_has_msg(FKV_MSG_SSD_TAIL));
	owner_on_ssd("k", 5, 7 * PAGE, SUM);
	tail = core_take_msg(FKV_MSG_SSD_TAIL);
	ck_assert_uint_eq(tail.shard, 0);
	ck_assert_uint_eq(core_left(), 0);
}
END_TEST

START_TEST(persist_without_memory_has_failed)
{
	core_key("k");
	core_fail_alloc(1);
	owner_persist("k", 9, PAGE, 5);
	ck_assert(core_alloc_failed());
	owner_persist_failed(-ENOMEM);
	ck_assert_uint_eq(owner_stats().persist_failed, 1);
}
END_TEST

START_TEST(persist_without_memory_for_the_ring_has_failed)
{
	struct fkv_cmd hash;

	owner_persist("k", 9, PAGE, 5);
	hash = core_take(FKV_CMD_HASH);
	core_fail_alloc(1);
	owner_hashed(hash.token, SUM);
	ck_assert(core_alloc_failed());
	owner_persist_failed(-ENOMEM);
	ck_assert_uint_eq(owner_stats().persist_active, 0);
}
END_TEST

/* without a tier a persist is refused, and nothing else is different */
START_TEST(persist_without_a_tier_is_enodev)
{
	owner_teardown();
	owner_setup();
	owner_persist("k", 9, PAGE, 5);
	owner_persist_failed(-ENODEV);
	owner_tick(FKV_SEC);
	ck_assert_uint_eq(fkv_owner_deadline(owner), FKV_NEVER);
}
END_TEST

/* S12: answers of a thread for what is over are counted and dropped */
START_TEST(answers_for_no_such_job_are_stale)
{
	struct fkv_cmd write;
	uint64_t put;

	owner_persist("k", 9, PAGE, 5);
	write = owner_write(SUM);
	owner_hashed(write.token, SUM);
	owner_hashed(999, SUM);
	owner_io(999, 0, 0);
	put = owner_open(CLIENT, "p", PAGE, 6);
	owner_hashed(put, SUM);
	owner_io(put, 0, 0);
	owner_ask(FLUXONKV_OP_GET, "l");
	owner_io(core_take_msg(FKV_MSG_GET_START).op, 0, 0);
	ck_assert_uint_eq(owner_stats().stale_tokens, 6);
	commit_answer(owner_written(&write).op);
}
END_TEST

/* K1 */
START_TEST(persists_of_one_hash_are_told_apart)
{
	struct fkv_cmd write;

	core_key("l")->hash.low = core_key("k")->hash.low;
	owner_persist("k", 9, PAGE, 5);
	owner_retire("l", 9);
	write = owner_write(SUM);
	commit_answer(owner_written(&write).op);
}
END_TEST

/* S11: "in a row": a write that succeeds begins a new count */
START_TEST(write_errors_that_are_not_in_a_row_lose_only_writes)
{
	for (uint64_t i = 0; i < 6; i++) {
		struct fkv_cmd write;

		/* the other device's turn */
		owner_persist("k", 2 * i + 1, PAGE, 5);
		write = owner_write(SUM);
		if (i % 3 == 2) {
			commit_answer(owner_written(&write).op);
		} else {
			owner_io(write.token, -EIO, 0);
			owner_persist_failed(-EIO);
		}
		owner_on_ssd("l", 2 * i + 2, PAGE, SUM);
	}
	ck_assert_uint_eq(owner_stats().write_errors, 4);
	ck_assert_uint_eq(owner_stats().devices_on, 2);
	core_drop_all();
}
END_TEST

int main(void)
{
	Suite *s = suite_create("owner persist");
	TCase *tc = tcase_create("core");
	SRunner *sr = srunner_create(s);
	int failed;

	tcase_add_checked_fixture(tc, owner_setup_ssd, owner_teardown);
	tcase_add_test(tc, persist_is_hashed_written_and_committed);
	tcase_add_test(tc,
		pinned_value_counts_once_while_its_first_persist_is_pending);
	tcase_add_test(tc, pending_values_are_listed_until_they_are_persisted_or_retired);
	tcase_add_test(tc, failed_persist_leaves_what_is_pinned_now);
	tcase_add_test(tc, persists_in_flight_are_bounded);
	tcase_add_test(tc, bytes_of_persists_in_flight_are_bounded);
	tcase_add_test(tc, persist_retired_while_hashed_or_written_is_dropped);
	tcase_add_test(tc, retire_leaves_persists_of_newer_versions);
	tcase_add_test(tc, persist_waits_while_all_shards_are_blocked);
	tcase_add_test(tc, persist_blocked_for_30_s_has_failed);
	tcase_add_test(tc, version_that_is_on_ssd_already_is_only_committed);
	tcase_add_test(tc, write_errors_in_a_row_turn_a_device_off);
	tcase_add_test(tc, disk_without_room_is_off_at_once_and_tried_again);
	tcase_add_test(tc, persists_fail_when_no_device_works);
	tcase_add_test(tc,
		       write_that_ends_after_its_device_went_off_has_failed);
	tcase_add_test(tc, device_that_is_off_fails_each_write_without_a_word);
	tcase_add_test(tc, reads_that_only_fail_turn_a_device_off);
	tcase_add_test(tc,
		device_that_fails_after_each_return_is_tried_more_rarely);
	tcase_add_test(tc,
		       device_that_departed_is_off_and_its_copy_is_dropped);
	tcase_add_test(tc, evictions_of_a_shard_are_told_by_its_lowest_seq);
	tcase_add_test(tc, persist_without_memory_has_failed);
	tcase_add_test(tc, persist_without_memory_for_the_ring_has_failed);
	tcase_add_test(tc, persist_without_a_tier_is_enodev);
	tcase_add_test(tc, answers_for_no_such_job_are_stale);
	tcase_add_test(tc, persists_of_one_hash_are_told_apart);
	tcase_add_test(tc, write_errors_that_are_not_in_a_row_lose_only_writes);
	suite_add_tcase(s, tc);
	srunner_run_all(sr, CK_ENV);
	failed = srunner_ntests_failed(sr);
	srunner_free(sr);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
