// SPDX-License-Identifier: Apache-2.0
/*
 * The shard files of a device: what is made, claimed, refused and left alone.
 */
#include <check.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "device_driver.h"
#include "io/shard.h"

/* S3, S14 */
START_TEST(files_are_allocated_and_within_the_limit)
{
	uint64_t blocks = 0, bytes = 0;
	struct fkv_device_stats ds;

	device_setup_open(_i);
	for (uint32_t i = 0; i < FKV_SHARDS_PER_DEVICE; i++) {
		char path[256];
		struct stat st;

		snprintf(path, sizeof(path), "%s/shard-%03u",
			 fkv_device_path(device), i);
		ck_assert_int_eq(stat(path, &st), 0);
		bytes += (uint64_t)st.st_size;
		blocks += (uint64_t)st.st_blocks * 512;
	}
	ck_assert_uint_eq(bytes, LIMIT);
	ck_assert_uint_ge(blocks, LIMIT);
	fkv_device_get_stats(device, &ds);
	ck_assert_str_eq(ds.engine, _i / 2 == 2 ? "uring_iovec" : _i & 2 ||
			 *ds.engine_why ? "threads" : "uring");
	ck_assert(ds.direct ? !*ds.buffered_why : !!*ds.buffered_why);
	ck_assert_uint_ge(ds.alignment, 1);
	ck_assert(fkv_device_same_fs(device, device_dir));
	ck_assert(!fkv_device_same_fs(device, "/proc"));
	device_teardown();
}
END_TEST

/* S4, A6: what is claimed is what the descriptors say */
START_TEST(direct_is_claimed_only_where_it_is_set)
{
	struct fkv_shards_config sc = {
		.path = device_dir, .cluster = "c", .instance = "i",
		.limit = 1 * FKV_MIB, .nr = 2,
	};
	struct fkv_shards s;

	device_make_dir(_i);
	ck_assert_int_eq(
		fkv_shards_open(&sc, &s, device_why, sizeof(device_why)), 0);
	for (uint32_t i = 0; i < s.nr; i++)
		ck_assert_int_eq(!!(fcntl(s.fd[i], F_GETFL) & O_DIRECT),
				 s.direct);
	ck_assert_uint_eq(s.unit % s.alignment, 0);
	ck_assert_uint_eq(s.ring_size % s.unit, 0);
	fkv_shards_close(&s);
	device_remove_dir();
}
END_TEST

/* A9: the first holder is another process */
START_TEST(a_second_daemon_is_refused_and_touches_nothing)
{
	uint8_t before[FKV_BLOCK], after[FKV_BLOCK];
	struct fkv_device_config cfg;
	char pid[32];
	int status;
	pid_t child;

	device_setup_open(_i);
	device_read_block(0, 0, before);
	snprintf(pid, sizeof(pid), "pid %d", getpid());
	cfg = device_config(_i);
	cfg.limit = 1 * FKV_MIB;
	child = fork();
	if (!child) {
		struct fkv_device *second;
		int res = fkv_device_open(&cfg, &second, device_why,
					  sizeof(device_why));

		_exit(res == -EBUSY && strstr(device_why, "locked") &&
		      strstr(device_why, pid) ? 0 : 1);
	}
	ck_assert_int_eq(waitpid(child, &status, 0), child);
	ck_assert_int_eq(status, 0);
	device_read_block(0, 0, after);
	ck_assert(!memcmp(before, after, FKV_BLOCK));
	device_write_and_read_back(65536, 0);
	device_teardown();
}
END_TEST

START_TEST(leftovers_of_another_size_are_made_right)
{
	struct fkv_device_config cfg;
	uint8_t one[FKV_BLOCK], two[FKV_BLOCK];
	char path[300];
	struct stat st;

	device_setup_open(_i);
	device_read_block(1, 0, one);
	snprintf(path, sizeof(path), "%s/shard-%03u", fkv_device_path(device),
		 FKV_SHARDS_PER_DEVICE);
	close(open(path, O_CREAT | O_WRONLY, 0600));
	fkv_device_close(device);
	cfg = device_config(_i);
	cfg.limit = LIMIT / 2;
	device_open_with(&cfg);
	ck_assert_int_ne(access(path, F_OK), 0);
	snprintf(path, sizeof(path), "%s/shard-001", fkv_device_path(device));
	ck_assert_int_eq(stat(path, &st), 0);
	ck_assert_uint_eq((uint64_t)st.st_size,
			  LIMIT / 2 / FKV_SHARDS_PER_DEVICE);
	device_read_block(1, 0, two);
	ck_assert(memcmp(one, two, FKV_BLOCK));
	device_write_and_read_back(65536, 0);
	device_teardown();
}
END_TEST

/* A12, S1 */
START_TEST(limits_that_cannot_be_are_said_with_numbers)
{
	struct fkv_device_config cfg;
	char path[300];
	struct stat st;

	device_setup();
	device_make_dir(_i);
	cfg = device_config(_i);
	cfg.limit = 1ULL << 50;
	ck_assert_int_eq(fkv_device_open(&cfg, &device, device_why,
					 sizeof(device_why)),
			 -ENOSPC);
	ck_assert_ptr_nonnull(strstr(device_why, "wanted"));
	ck_assert_ptr_nonnull(strstr(device_why, "available"));
	snprintf(path, sizeof(path), "%s/local_cluster_kv_ssd_storage/"
		 "v1-host%%2E1/shard-000", device_dir);
	ck_assert_int_eq(stat(path, &st), 0);
	ck_assert_int_le(st.st_blocks, 128);
	cfg.limit = 5 * 4096;
	ck_assert_int_eq(fkv_device_open(&cfg, &device, device_why,
					 sizeof(device_why)),
			 -EINVAL);
	ck_assert_ptr_nonnull(strstr(device_why, "at least"));
	device = NULL;
	device_teardown();
}
END_TEST

START_TEST(a_directory_that_cannot_be_is_a_sentence)
{
	struct fkv_device_config cfg;

	device_setup();
	device_make_dir(_i);
	cfg = device_config(_i);
	cfg.path = "/proc/nothing/here";
	ck_assert_int_lt(fkv_device_open(&cfg, &device, device_why,
					 sizeof(device_why)),
			 0);
	ck_assert_ptr_nonnull(strstr(device_why, "/proc/nothing"));
	cfg = device_config(_i);
	cfg.cluster = "a/b";
	ck_assert_int_eq(fkv_device_open(&cfg, &device, device_why,
					 sizeof(device_why)),
			 -EINVAL);
	device = NULL;
	device_teardown();
}
END_TEST

static int fail_at, allocs;

static bool fail_nth(size_t size)
{
	(void)size;
	return ++allocs == fail_at;
}

START_TEST(open_without_memory_fails_clean_at_every_allocation)
{
	struct fkv_device_config cfg;
	int res = -ENOMEM;

	device_setup();
	device_make_dir(_i);
	cfg = device_config(_i);
	for (fail_at = 1; res; fail_at++) {
		ck_assert_int_lt(fail_at, 20);
		allocs = 0;
		fkv_alloc_fail = fail_nth;
		res = fkv_device_open(&cfg, &device, device_why,
				      sizeof(device_why));
		fkv_alloc_fail = NULL;
		ck_assert(!res || res == -ENOMEM);
	}
	device_teardown();
}
END_TEST

static bool asked_often(void *arg)
{
	int *left = arg;

	return (*left)-- > 0;
}

static uint64_t bytes_of(const char *file)
{
	char path[400];
	struct stat st;

	snprintf(path, sizeof(path), "%s/c_cluster_kv_ssd_storage/v1-i/%s",
		 device_dir, file);
	ck_assert_int_eq(stat(path, &st), 0);
	return (uint64_t)(st.st_size + st.st_blocks);
}

/* S3: one told to stop does so between pieces, and leaves the disk its room */
START_TEST(stop_while_files_are_made_gives_them_back)
{
	/* of 256 MiB each on a disk; within the first file, and behind it */
	const uint64_t limit[] = { 1024 * FKV_MIB, 32 * FKV_MIB };
	int asked[] = { 1, 1 };

	device_make_dir(0);
	for (size_t i = 0; i < FKV_ARRAY_SIZE(limit); i++) {
		struct fkv_shards_config sc = {
			.path = device_dir, .cluster = "c", .instance = "i",
			.limit = limit[i], .nr = i ? 2 : 1,
			.go_on = asked_often, .arg = &asked[i],
		};
		struct fkv_shards s;

		ck_assert_int_eq(fkv_shards_open(&sc, &s, device_why,
				 sizeof(device_why)), -ECANCELED);
		ck_assert_ptr_nonnull(strstr(device_why, "told to stop"));
		ck_assert_int_eq(asked[i], -1);
		ck_assert_uint_eq(bytes_of("shard-000"), 0);
	}
	device_remove_dir();
}
END_TEST

/* S2 */
START_TEST(instance_keys_become_safe_names)
{
	char name[FKV_SSD_DIR_NAME_MAX], key[600];

	ck_assert_int_eq(fkv_ssd_dir_name("host-1_A", name), 0);
	ck_assert_str_eq(name, "v1-host-1_A");
	ck_assert_int_eq(fkv_ssd_dir_name("../a b\xff", name), 0);
	ck_assert_str_eq(name, "v1-%2E%2E%2Fa%20b%FF");
	ck_assert_int_eq(fkv_ssd_dir_name("", name), -EINVAL);
	memset(key, 'a', sizeof(key));
	key[200] = '\0';
	ck_assert_int_eq(fkv_ssd_dir_name(key, name), 0);
	ck_assert_uint_eq(strlen(name), 203);
	key[200] = 'a';
	key[201] = '\0';
	ck_assert_int_eq(fkv_ssd_dir_name(key, name), 0);
	ck_assert_uint_eq(strlen(name), 3 + 32);
	memset(key, '/', sizeof(key));
	key[599] = '\0';
	ck_assert_int_eq(fkv_ssd_dir_name(key, name), 0);
	ck_assert_uint_eq(strlen(name), 3 + 32);
}
END_TEST

static void add_file_tests(TCase *tc)
{
	tcase_add_loop_test(tc, files_are_allocated_and_within_the_limit,
			    0, CASES);
	tcase_add_loop_test(tc, direct_is_claimed_only_where_it_is_set, 0, 2);
	tcase_add_loop_test(tc, a_second_daemon_is_refused_and_touches_nothing,
			    0, 2);
	tcase_add_loop_test(tc, leftovers_of_another_size_are_made_right,
			    0, 2);
	tcase_add_loop_test(tc, limits_that_cannot_be_are_said_with_numbers,
			    0, 2);
	tcase_add_loop_test(tc, a_directory_that_cannot_be_is_a_sentence,
			    0, 1);
	tcase_add_loop_test(tc,
		open_without_memory_fails_clean_at_every_allocation,
		0, CASES);
	tcase_add_test(tc, stop_while_files_are_made_gives_them_back);
	tcase_add_test(tc, instance_keys_become_safe_names);
}

int main(void)
{
	Suite *s = suite_create("device files");
	TCase *tc = tcase_create("files");
	SRunner *sr = srunner_create(s);
	int failed;

	tcase_set_timeout(tc, 120);
	add_file_tests(tc);
	suite_add_tcase(s, tc);
	srunner_run_all(sr, CK_NORMAL);
	failed = srunner_ntests_failed(sr);
	srunner_free(sr);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
