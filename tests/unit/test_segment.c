// SPDX-License-Identifier: Apache-2.0
#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/base.h"
#include "base/log.h"
#include "io/segment.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define MLOCK_IS_REAL	false
#else
#define MLOCK_IS_REAL	true
#endif

#define PAGE	4096u
#define SIZE	(FKV_SEGMENT_MIN + 3 * PAGE)

static char err[600];
static uint64_t last_done, last_total;
static int calls;
static bool stop;

static bool progress(void *arg, uint64_t done, uint64_t total)
{
	ck_assert_ptr_eq(arg, &calls);
	ck_assert_uint_ge(done, last_done);
	ck_assert_uint_le(done, total);
	last_done = done;
	last_total = total;
	calls++;
	return !stop;
}

static int create(uint64_t bytes, enum fkv_huge huge, enum fkv_lock lock,
		  struct fkv_segment **ret)
{
	struct fkv_segment_config sc = {
		.bytes = bytes, .huge = huge, .lock = lock, .threads = 2,
		.progress = progress, .arg = &calls,
	};

	err[0] = '\0';
	return fkv_segment_create(&sc, ret, err, sizeof(err));
}

static struct fkv_segment *made(void)
{
	struct fkv_segment *s = NULL;

	ck_assert_msg(!create(SIZE, FKV_HUGE_OFF, FKV_LOCK_OFF, &s), "%s",
		      err);
	return s;
}

static void setup(void)
{
	fkv_log_set_level(FKV_LOG_ERR);
	last_done = last_total = 0;
	calls = 0;
	stop = false;
}

/* a start that is told to stop does not touch all of a large segment first */
START_TEST(start_can_be_stopped)
{
	struct fkv_segment *s = NULL;

	stop = true;
	ck_assert_int_eq(create(SIZE, FKV_HUGE_OFF, FKV_LOCK_OFF, &s),
			 -ECANCELED);
	ck_assert_int_eq(calls, 1);
}
END_TEST

/* M1: allocated and faulted in, not sparse */
START_TEST(every_page_is_there_before_it_serves)
{
	struct fkv_segment *s = made();
	unsigned char there[SIZE / PAGE];
	struct stat st;

	ck_assert_int_eq(fstat(fkv_segment_fd(s), &st), 0);
	ck_assert_uint_eq((uint64_t)st.st_size, SIZE);
	ck_assert_uint_ge((uint64_t)st.st_blocks * 512, SIZE);
	ck_assert_int_eq(mincore(fkv_segment_base(s), SIZE, there), 0);
	for (size_t i = 0; i < SIZE / PAGE; i++)
		ck_assert(there[i] & 1);
	fkv_segment_free(s);
}
END_TEST

START_TEST(a_segment_is_zeroed_and_at_a_2_mib_boundary)
{
	struct fkv_segment *s = made();
	const char *p = fkv_segment_base(s);
	int any = 0;

	ck_assert_uint_eq(fkv_segment_size(s), SIZE);
	ck_assert_uint_eq((uintptr_t)p % (2 * FKV_MIB), 0);
	for (size_t i = 0; i < SIZE; i++)
		any |= p[i];
	ck_assert_int_eq(any, 0);
	ck_assert_str_eq(fkv_segment_pages(s), "4k");
	ck_assert(!fkv_segment_locked(s));
	fkv_segment_free(s);
}
END_TEST

START_TEST(progress_rises_and_ends_at_the_whole)
{
	struct fkv_segment *s = made();

	ck_assert_int_ge(calls, 1);
	ck_assert_uint_eq(last_done, SIZE);
	ck_assert_uint_eq(last_total, SIZE);
	fkv_segment_free(s);
}
END_TEST

/* X1 */
START_TEST(size_and_seals_cannot_be_changed)
{
	struct fkv_segment *s = made();
	int fd = fkv_segment_fd(s);

	ck_assert_int_eq(fcntl(fd, F_GET_SEALS),
			 F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL);
	ck_assert_int_eq(ftruncate(fd, PAGE), -1);
	ck_assert_int_eq(errno, EPERM);
	ck_assert_int_eq(ftruncate(fd, 2 * SIZE), -1);
	ck_assert_int_eq(errno, EPERM);
	ck_assert_int_eq(fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE), -1);
	fkv_segment_free(s);
}
END_TEST

/* X1: born 0777, any user could reopen it for writing */
START_TEST(only_the_owner_may_open_it_and_exec_closes_it)
{
	struct fkv_segment *s = made();
	struct stat st;

	fstat(fkv_segment_fd(s), &st);
	ck_assert_uint_eq(st.st_mode & 07777, 0600);
	ck_assert(fcntl(fkv_segment_fd(s), F_GETFD) & FD_CLOEXEC);
	ck_assert(fcntl(fkv_segment_fd_readonly(s), F_GETFD) & FD_CLOEXEC);
	fkv_segment_free(s);
}
END_TEST

/* X2 */
START_TEST(the_readonly_descriptor_shows_the_bytes_and_cannot_write)
{
	struct fkv_segment *s = made();
	int ro = fkv_segment_fd_readonly(s);
	char *base = fkv_segment_base(s), *p;

	base[SIZE - 1] = 'x';
	p = mmap(NULL, SIZE, PROT_READ, MAP_SHARED, ro, 0);
	ck_assert_ptr_ne(p, MAP_FAILED);
	ck_assert_int_eq(p[SIZE - 1], 'x');
	ck_assert_int_eq(mprotect(p, SIZE, PROT_READ | PROT_WRITE), -1);
	ck_assert_int_eq(errno, EACCES);
	munmap(p, SIZE);
	p = mmap(NULL, SIZE, PROT_WRITE, MAP_SHARED, ro, 0);
	ck_assert_ptr_eq(p, MAP_FAILED);
	ck_assert_int_eq(pwrite(ro, "y", 1, 0), -1);
	fkv_segment_free(s);
}
END_TEST

START_TEST(bytes_outlive_the_segment_for_who_has_mapped_it)
{
	struct fkv_segment *s = made();
	char *p = mmap(NULL, SIZE, PROT_READ, MAP_SHARED,
		       fkv_segment_fd_readonly(s), 0);

	*(char *)fkv_segment_base(s) = 'z';
	fkv_segment_free(s);
	ck_assert_int_eq(*p, 'z');
	munmap(p, SIZE);
}
END_TEST

/* Root is not held to the limit: tests of it become another user. */
static void small_memlock(void)
{
	struct rlimit rl = { 64 * FKV_KIB, 64 * FKV_KIB };

	ck_assert_int_eq(setrlimit(RLIMIT_MEMLOCK, &rl), 0);
	if (geteuid() == 0)
		ck_assert_int_eq(setresuid(65534, 65534, 65534), 0);
}

/* M1, A10 */
START_TEST(required_memlock_beyond_the_limit_says_wanted_and_allowed)
{
	struct fkv_segment *s = NULL;

	small_memlock();
	ck_assert_int_lt(create(SIZE, FKV_HUGE_OFF, FKV_LOCK_REQUIRED, &s),
			 0);
	ck_assert_ptr_null(s);
	ck_assert_msg(strstr(err, "4206592") && strstr(err, "65536") &&
		      strstr(err, "lock_memory"), "%s", err);
}
END_TEST

START_TEST(memlock_auto_goes_on_unlocked_beyond_the_limit)
{
	struct fkv_segment *s = NULL;

	small_memlock();
	ck_assert_msg(!create(SIZE, FKV_HUGE_OFF, FKV_LOCK_AUTO, &s), "%s",
		      err);
	ck_assert(!fkv_segment_locked(s));
	fkv_segment_free(s);
}
END_TEST

START_TEST(memlock_auto_locks_where_it_may)
{
	struct rlimit rl;
	struct fkv_segment *s = NULL;

	getrlimit(RLIMIT_MEMLOCK, &rl);
	ck_assert_int_eq(create(SIZE, FKV_HUGE_OFF, FKV_LOCK_AUTO, &s), 0);
	ck_assert_int_eq(fkv_segment_locked(s),
			 geteuid() == 0 || rl.rlim_cur >= SIZE);
	fkv_segment_free(s);
}
END_TEST

START_TEST(required_huge_pages_that_are_not_there_are_an_error)
{
	struct fkv_segment *s = NULL;

	/* more than any host has reserved */
	ck_assert_int_lt(create(FKV_SEGMENT_MAX, FKV_HUGE_REQUIRED,
				FKV_LOCK_OFF, &s), 0);
	ck_assert_ptr_null(s);
	ck_assert_msg(strstr(err, "huge pages") &&
		      strstr(err, "17592186044416"), "%s", err);
}
END_TEST

START_TEST(required_huge_pages_need_whole_pages)
{
	struct fkv_segment *s = NULL;

	ck_assert_int_eq(create(SIZE, FKV_HUGE_REQUIRED, FKV_LOCK_OFF, &s),
			 -EINVAL);
	ck_assert_msg(strstr(err, "multiple of 2 MiB") != NULL, "%s", err);
}
END_TEST

START_TEST(auto_huge_pages_fall_back_to_small_ones)
{
	struct fkv_segment *s = NULL;

	ck_assert_msg(!create(SIZE, FKV_HUGE_AUTO, FKV_LOCK_OFF, &s), "%s",
		      err);
	ck_assert_str_ne(fkv_segment_pages(s), "hugetlb");
	fkv_segment_free(s);
}
END_TEST

static unsigned int open_fds(void)
{
	unsigned int n = 0;

	for (int fd = 0; fd < 256; fd++)
		n += fcntl(fd, F_GETFD) >= 0;
	return n;
}

START_TEST(neither_success_nor_failure_leaks_descriptors)
{
	unsigned int before = open_fds();
	struct fkv_segment *s = NULL;

	fkv_segment_free(made());
	create(SIZE, FKV_HUGE_REQUIRED, FKV_LOCK_OFF, &s);
	create(FKV_SEGMENT_MAX, FKV_HUGE_REQUIRED, FKV_LOCK_OFF, &s);
	ck_assert_uint_eq(open_fds(), before);
}
END_TEST

static bool always(size_t size)
{
	(void)size;
	return true;
}

START_TEST(without_memory_for_itself_create_says_so)
{
	struct fkv_segment *s = NULL;

	fkv_alloc_fail = always;
	ck_assert_int_eq(create(SIZE, FKV_HUGE_OFF, FKV_LOCK_OFF, &s),
			 -ENOMEM);
	fkv_alloc_fail = NULL;
	ck_assert_str_eq(err, "out of memory");
}
END_TEST

START_TEST(a_small_region_is_sealed_private_and_allocated)
{
	struct stat st;
	void *map;
	int fd, ro;

	ck_assert_int_eq(fkv_memfd_create("t", 3 * PAGE, &fd, &map), 0);
	ck_assert_int_eq(fstat(fd, &st), 0);
	ck_assert_uint_eq(st.st_mode & 07777, 0600);
	ck_assert_uint_ge((uint64_t)st.st_blocks * 512, 3 * PAGE);
	memset(map, 1, 3 * PAGE);
	ck_assert_int_eq(ftruncate(fd, PAGE), -1);
	ck_assert_int_eq(fkv_memfd_readonly(fd, &ro), 0);
	ck_assert_int_eq(pwrite(ro, "y", 1, 0), -1);
	close(ro);
	close(fd);
	munmap(map, 3 * PAGE);
}
END_TEST

START_TEST(a_small_region_of_no_bytes_is_refused)
{
	int fd = -7;
	void *map = NULL;

	ck_assert_int_lt(fkv_memfd_create("t", 0, &fd, &map), 0);
	ck_assert_int_eq(fd, -7);
	ck_assert_ptr_null(map);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("segment");
	TCase *tc = tcase_create("segment");
	SRunner *sr = srunner_create(s);
	int failed;

	tcase_add_checked_fixture(tc, setup, NULL);
	tcase_set_timeout(tc, 30);
	tcase_add_test(tc, start_can_be_stopped);
	tcase_add_test(tc, every_page_is_there_before_it_serves);
	tcase_add_test(tc, a_segment_is_zeroed_and_at_a_2_mib_boundary);
	tcase_add_test(tc, progress_rises_and_ends_at_the_whole);
	tcase_add_test(tc, size_and_seals_cannot_be_changed);
	tcase_add_test(tc, only_the_owner_may_open_it_and_exec_closes_it);
	tcase_add_test(tc,
		the_readonly_descriptor_shows_the_bytes_and_cannot_write);
	tcase_add_test(tc, bytes_outlive_the_segment_for_who_has_mapped_it);
	if (MLOCK_IS_REAL) {
		tcase_add_test(tc,
			required_memlock_beyond_the_limit_says_wanted_and_allowed);
		tcase_add_test(tc,
			memlock_auto_goes_on_unlocked_beyond_the_limit);
	} else {
		fprintf(stderr, "SKIP memlock beyond the limit: the sanitizer "
			"makes mlock do nothing\n");
	}
	tcase_add_test(tc, memlock_auto_locks_where_it_may);
	tcase_add_test(tc,
		required_huge_pages_that_are_not_there_are_an_error);
	tcase_add_test(tc, required_huge_pages_need_whole_pages);
	tcase_add_test(tc, auto_huge_pages_fall_back_to_small_ones);
	tcase_add_test(tc, neither_success_nor_failure_leaks_descriptors);
	tcase_add_test(tc, without_memory_for_itself_create_says_so);
	tcase_add_test(tc, a_small_region_is_sealed_private_and_allocated);
	tcase_add_test(tc, a_small_region_of_no_bytes_is_refused);
	suite_add_tcase(s, tc);
	srunner_run_all(sr, CK_NORMAL);
	failed = srunner_ntests_failed(sr);
	srunner_free(sr);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
