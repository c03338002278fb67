// SPDX-License-Identifier: Apache-2.0
#include <check.h>
#include <pthread.h>
#include <stdlib.h>

#include "base/hash.h"
#include "core/ssd/ondisk.h"
#include "device_driver.h"

static const uint64_t sizes[] = {
	1, 511, 4095, 4096, 4097, 65536, 1048576, 1048577, 2796202, 9000001,
};

/* S8, S9, A6 */
START_TEST(what_was_written_is_read_and_nothing_behind_the_extent)
{
	uint64_t last, size;

	device_setup_open(_i);
	for (size_t i = 0; i < FKV_ARRAY_SIZE(sizes); i++)
		device_write_and_read_back(sizes[i], 0);
	/* the end of the ring, a later lap */
	size = fkv_device_ring_size(device);
	last = size - 2 * fkv_device_unit(device);
	device_write_and_read_back(4095, last + 3 * size);
	device_teardown();
}
END_TEST

START_TEST(memory_that_is_not_aligned_goes_through_a_bounce)
{
	struct fkv_io_request w, r;
	struct fkv_io_result res;
	uint64_t len = 3000001, to = 32 * FKV_MIB + 13;

	device_setup_open(_i);
	device_fill(device_segment + 7, len, 3);
	w = device_request(FKV_IO_WRITE, 1, 7, len);
	ck_assert_int_eq(device_run(&w).res, 0);
	memset(device_segment + to, 0x55, len + 64);
	r = device_request(FKV_IO_READ, 2, to, len);
	res = device_run(&r);
	ck_assert_int_eq(res.res, 0);
	ck_assert_uint_eq(res.sum, w.sum);
	ck_assert(!memcmp(device_segment + 7, device_segment + to, len));
	device_teardown();
}
END_TEST

/* G5: pieces of a value, whose sums are those of the whole */
START_TEST(a_value_is_read_by_parts)
{
	uint64_t len = 9000001, to = 32 * FKV_MIB, all[9], n = 0;
	struct fkv_io_request w, r;

	device_setup_open(_i);
	device_fill(device_segment, len, 4);
	w = device_request(FKV_IO_WRITE, 1, 0, len);
	ck_assert_int_eq(device_run(&w).res, 0);
	for (uint64_t at = 0; at < len; at += FKV_CHUNK) {
		uint64_t some = fkv_min_u64(FKV_CHUNK, len - at);

		r = device_request(FKV_IO_READ, 2, to, some);
		r.entry_len = w.entry_len;
		r.at = at;
		device_nr_sums = (unsigned int)fkv_sum_chunks(some);
		ck_assert_int_eq(device_run(&r).res, 0);
		ck_assert(!memcmp(device_segment + at, device_segment + to,
				  some));
		memcpy(&all[n], device_sums, device_nr_sums * sizeof(*all));
		n += device_nr_sums;
	}
	device_nr_sums = 0;
	ck_assert_uint_eq(n, fkv_sum_chunks(len));
	ck_assert_uint_eq(fkv_sum_chunks_final(42, all, n), w.sum);
	device_teardown();
}
END_TEST

/* S7, ondisk.md */
START_TEST(entries_and_skips_on_disk_describe_themselves)
{
	uint8_t block[FKV_BLOCK];
	struct fkv_superblock sb;
	struct fkv_entry_info info;
	struct fkv_io_request w;
	uint64_t unit;

	device_setup_open(_i);
	unit = fkv_device_unit(device);
	device_fill(device_segment, 5000, 1);
	w = device_request(FKV_IO_WRITE, 1, 0, 5000);
	w.shard = 2;
	w.vpos = fkv_device_ring_size(device);
	w.skip_len = 4 * unit;
	w.skip_vpos = w.vpos - w.skip_len;
	ck_assert_int_eq(device_run(&w).res, 0);

	device_read_block(2, 0, block);
	ck_assert_int_eq(fkv_superblock_decode(block, &sb), 0);
	ck_assert_uint_eq(sb.shard, 2);
	ck_assert_uint_eq(sb.nr_shards, FKV_SHARDS_PER_DEVICE);
	ck_assert_uint_eq(sb.ring_size, fkv_device_ring_size(device));

	device_read_block(2, unit, block);
	ck_assert_int_eq(fkv_entry_decode(block, &info), 0);
	ck_assert_uint_eq(info.type, FKV_ENTRY_VALUE);
	ck_assert(!memcmp(info.store_id, sb.store_id, 16));
	ck_assert_uint_eq(info.vpos, w.vpos);
	ck_assert_uint_eq(info.len, 5000);
	ck_assert_uint_eq(info.sum, w.sum);
	ck_assert_uint_eq(info.put_id, 9);
	ck_assert_uint_eq(info.seq, 5);
	ck_assert_uint_eq(info.incarnation, 7);
	ck_assert(info.key_len == 3 && !memcmp(info.key, "key", 3));

	device_read_block(2, unit + sb.ring_size - 4 * unit, block);
	ck_assert_int_eq(fkv_entry_decode(block, &info), 0);
	ck_assert_uint_eq(info.type, FKV_ENTRY_SKIP);
	ck_assert_uint_eq(info.entry_len, 4 * unit);
	device_teardown();
}
END_TEST

/* ---- injected faults (A6, A8) ---- */

static _Atomic unsigned int shim_calls;

static int shim_short(void *arg, struct fkv_piece *p, uint64_t *len)
{
	uint64_t cut = *(uint64_t *)arg;

	(void)p;
	shim_calls++;
	if (shim_calls % 2 && *len > cut)
		*len = cut;
	return 0;
}

static int shim_busy(void *arg, struct fkv_piece *p, uint64_t *len)
{
	static const int errors[] = { -EINTR, -EAGAIN, -EBUSY, 0 };

	(void)arg, (void)p, (void)len;
	return errors[shim_calls++ % 4];
}

static int shim_error(void *arg, struct fkv_piece *p, uint64_t *len)
{
	(void)p, (void)len;
	shim_calls++;
	return *(int *)arg;
}

static int shim_eof(void *arg, struct fkv_piece *p, uint64_t *len)
{
	(void)arg;
	shim_calls++;
	if (!p->write)
		*len = 0;
	return 0;
}

static void setup_shim(int i, fkv_engine_shim shim, void *arg)
{
	struct fkv_device_config cfg;

	device_setup();
	device_make_dir(i);
	shim_calls = 0;
	cfg = device_config(i);
	cfg.shim = shim;
	cfg.shim_arg = arg;
	device_open_with(&cfg);
}

START_TEST(short_transfers_resume_with_pointer_and_offset)
{
	uint64_t cuts[] = { 4096, 4096 * 3 + 17, 999, 1 };

	for (size_t c = 0; c < FKV_ARRAY_SIZE(cuts); c++) {
		struct fkv_device_stats ds;

		setup_shim(_i, shim_short, &cuts[c]);
		device_write_and_read_back(2796202, 0);
		device_write_and_read_back(9000001, 0);
		fkv_device_get_stats(device, &ds);
		ck_assert_uint_gt(ds.short_ios, 0);
		device_teardown();
	}
}
END_TEST

START_TEST(busy_and_interrupted_transfers_are_sent_again)
{
	struct fkv_device_stats ds;

	setup_shim(_i, shim_busy, NULL);
	device_write_and_read_back(2796202, 0);
	fkv_device_stop(device);
	fkv_device_get_stats(device, &ds);
	ck_assert_uint_gt(ds.retries, 0);
	device_teardown();
}
END_TEST

START_TEST(an_error_ends_the_request_once_and_the_thread_lives)
{
	int error = -EIO;
	struct fkv_io_request r;

	setup_shim(_i, shim_error, &error);
	r = device_request(FKV_IO_READ, 1, 0, 9000001);
	ck_assert_int_eq(device_run(&r).res, -EIO);
	r = device_request(FKV_IO_WRITE, 2, 0, 9000001);
	ck_assert_int_eq(device_run(&r).res, -EIO);
	error = -EBUSY;
	ck_assert_int_eq(device_run(&r).res, -EIO);
	error = -ENOSPC;
	ck_assert_int_eq(device_run(&r).res, -ENOSPC);
	error = 0;
	device_write_and_read_back(65536, 0);
	ck_assert_int_eq(device_results, 6);
	device_teardown();
}
END_TEST

/* S11, G6: the kernel has many names for a range that is no good */
START_TEST(bad_range_is_eio_whatever_the_kernel_calls_it)
{
	static const int bad[] = { -ENODATA, -EILSEQ, -EREMOTEIO, -ENOLINK,
				   -EBADE, -ETIMEDOUT, -EBADMSG, -EUCLEAN };
	static const int other[] = { -ENXIO, -ENODEV, -ENOSPC, -ENOMEM };
	struct fkv_io_request r;
	int error;

	setup_shim(_i, shim_error, &error);
	r = device_request(FKV_IO_READ, 1, 0, 4096);
	for (size_t i = 0; i < FKV_ARRAY_SIZE(bad); i++) {
		error = bad[i];
		ck_assert_int_eq(device_run(&r).res, -EIO);
	}
	for (size_t i = 0; i < FKV_ARRAY_SIZE(other); i++) {
		error = other[i];
		ck_assert_int_eq(device_run(&r).res, other[i]);
	}
	device_teardown();
}
END_TEST

START_TEST(end_of_file_ends_a_read)
{
	struct fkv_io_request r;

	setup_shim(_i, shim_eof, NULL);
	r = device_request(FKV_IO_READ, 1, 0, 3 * FKV_MIB);
	ck_assert_int_eq(device_run(&r).res, -EIO);
	ck_assert_uint_le(shim_calls, 3);
	device_teardown();
}
END_TEST

START_TEST(every_request_completes_exactly_once_at_any_depth)
{
	static uint8_t seen[4000];
	struct fkv_device_config cfg;
	struct fkv_device_stats ds;

	device_setup();
	device_make_dir(_i);
	cfg = device_config(_i);
	cfg.io_depth = 4;
	device_open_with(&cfg);
	memset(seen, 0, sizeof(seen));
	for (uint64_t t = 0; t < 4000; t++) {
		uint64_t at = t * 8192;
		struct fkv_io_request r = device_request(t % 3 ? FKV_IO_READ :
			FKV_IO_WRITE, t, at, 8192);

		r.warm = t % 5 == 0;
		r.shard = t % 4;
		r.vpos = t % 100 * 12288;
		while (fkv_device_submit(device, &r))
			sched_yield();
	}
	device_wait(4000);
	fkv_device_stop(device);
	ck_assert_int_eq(device_results, 4000);
	for (int i = 0; i < 4000; i++) {
		ck_assert_int_eq(device_result[i].res, 0);
		ck_assert_uint_eq(seen[device_result[i].token]++, 0);
	}
	fkv_device_get_stats(device, &ds);
	ck_assert_uint_eq(ds.inflight + ds.queued, 0);
	ck_assert_uint_eq(ds.reads + ds.writes, 4000);
	device_teardown();
}
END_TEST

static int shim_gate(void *arg, struct fkv_piece *p, uint64_t *len)
{
	(void)p, (void)len;
	shim_calls++;
	pthread_mutex_lock(arg);
	pthread_mutex_unlock(arg);
	return 0;
}

static void *stop_device(void *arg)
{
	(void)arg;
	fkv_device_stop(device);
	return NULL;
}

START_TEST(stop_finishes_what_began_and_cancels_the_rest)
{
	pthread_mutex_t gate = PTHREAD_MUTEX_INITIALIZER;
	struct fkv_io_request r;
	pthread_t t;
	int res, sent = 200, done = 0;

	setup_shim(_i, shim_gate, &gate);
	r = device_request(FKV_IO_WRITE, 0, 0, 4096);
	pthread_mutex_lock(&gate);
	for (int i = 0; i < 200; i++) {
		r.token = (uint64_t)i;
		device_submit(&r);
	}
	while (!shim_calls)
		sched_yield();
	pthread_create(&t, NULL, stop_device, NULL);
	while ((res = fkv_device_submit(device, &r)) != -ESHUTDOWN)
		sent += !res;
	pthread_mutex_unlock(&gate);
	pthread_join(t, NULL);
	ck_assert_int_eq(device_results, sent);
	for (int i = 0; i < device_results; i++) {
		ck_assert(!device_result[i].res ||
			  device_result[i].res == -ECANCELED);
		done += !device_result[i].res;
	}
	ck_assert_int_lt(done, device_results);
	device_teardown();
}
END_TEST

START_TEST(a_device_that_never_started_cancels)
{
	struct fkv_device_config cfg;
	struct fkv_io_request r;

	device_setup();
	device_make_dir(_i);
	cfg = device_config(_i);
	ck_assert_int_eq(fkv_device_open(&cfg, &device, device_why,
					 sizeof(device_why)),
			 0);
	r = device_request(FKV_IO_READ, 1, 0, 4096);
	device_submit(&r);
	fkv_device_stop(device);
	ck_assert_int_eq(device_results, 1);
	ck_assert_int_eq(device_result[0].res, -ECANCELED);
	device_teardown();
}
END_TEST

START_TEST(requests_that_make_no_sense_are_einval)
{
	struct fkv_io_request r, ok;

	device_setup_open(_i);
	ok = device_request(FKV_IO_READ, 1, 0, 8192);
	r = ok;
	r.shard = FKV_SHARDS_PER_DEVICE;
	ck_assert_int_eq(device_run(&r).res, -EINVAL);
	r = ok;
	r.vpos = fkv_device_ring_size(device) - fkv_device_unit(device);
	ck_assert_int_eq(device_run(&r).res, -EINVAL);
	r = ok;
	r.vpos = 1;
	ck_assert_int_eq(device_run(&r).res, -EINVAL);
	r = ok;
	r.len = 1ULL << 40;
	ck_assert_int_eq(device_run(&r).res, -EINVAL);
	r = ok;
	r.len = 0;
	ck_assert_int_eq(device_run(&r).res, -EINVAL);
	/* a part: in units, and not behind the end */
	r = ok;
	r.len = 4096;
	r.at = 1;
	ck_assert_int_eq(device_run(&r).res, -EINVAL);
	r = ok;
	r.at = fkv_device_unit(device);
	ck_assert_int_eq(device_run(&r).res, -EINVAL);
	r.at = UINT64_MAX - fkv_device_unit(device) + 1;
	ck_assert_int_eq(device_run(&r).res, -EINVAL);
	ck_assert_int_eq(device_run(&ok).res, 0);
	device_teardown();
}
END_TEST

static void add_device_tests(TCase *tc)
{
	tcase_add_loop_test(tc,
		what_was_written_is_read_and_nothing_behind_the_extent,
		0, CASES);
	tcase_add_loop_test(tc,
		memory_that_is_not_aligned_goes_through_a_bounce, 0, CASES);
	tcase_add_loop_test(tc, a_value_is_read_by_parts, 0, CASES);
	tcase_add_loop_test(tc,
		entries_and_skips_on_disk_describe_themselves, 0, CASES);
	tcase_add_loop_test(tc,
		short_transfers_resume_with_pointer_and_offset, 0, CASES);
	tcase_add_loop_test(tc,
		busy_and_interrupted_transfers_are_sent_again, 0, CASES);
	tcase_add_loop_test(tc,
		an_error_ends_the_request_once_and_the_thread_lives, 0, CASES);
	tcase_add_loop_test(tc, bad_range_is_eio_whatever_the_kernel_calls_it,
			    0, CASES);
	tcase_add_loop_test(tc, end_of_file_ends_a_read, 0, CASES);
	tcase_add_loop_test(tc,
		every_request_completes_exactly_once_at_any_depth, 0, CASES);
	tcase_add_loop_test(tc, stop_finishes_what_began_and_cancels_the_rest,
			    0, CASES);
	tcase_add_loop_test(tc, a_device_that_never_started_cancels, 0, CASES);
	tcase_add_loop_test(tc, requests_that_make_no_sense_are_einval,
			    0, CASES);
}

int main(void)
{
	Suite *s = suite_create("device");
	TCase *tc = tcase_create("device");
	SRunner *sr = srunner_create(s);
	int failed;

	tcase_set_timeout(tc, 120);
	add_device_tests(tc);
	suite_add_tcase(s, tc);
	srunner_run_all(sr, CK_NORMAL);
	failed = srunner_ntests_failed(sr);
	srunner_free(sr);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
