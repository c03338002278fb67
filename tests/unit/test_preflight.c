// SPDX-License-Identifier: Apache-2.0
#include <check.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/base.h"
#include "svc/preflight.h"

#define KIB_OF(bytes)	((unsigned long long)(bytes) / 1024)

static char root[64];
static char err[600];
static struct fkv_config cfg;

static void make_parents(char *path)
{
	for (char *p = path + strlen(root) + 1; (p = strchr(p, '/')); p++) {
		*p = '\0';
		mkdir(path, 0700);
		*p = '/';
	}
}

/* A file of the host that is played, below the root. */
static void host(const char *path, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));

static void host(const char *path, const char *fmt, ...)
{
	char full[512];
	va_list ap;
	FILE *f;

	snprintf(full, sizeof(full), "%s%s", root, path);
	make_parents(full);
	f = fopen(full, "we");
	ck_assert_msg(f != NULL, "%s: %s", full, strerror(errno));
	va_start(ap, fmt);
	vfprintf(f, fmt, ap);
	va_end(ap);
	fclose(f);
}

static void meminfo(uint64_t available, unsigned int huge_free,
		    unsigned int huge_reserved)
{
	host("/proc/meminfo", "MemTotal: 99999999 kB\n"
	     "MemAvailable: %llu kB\nHugePages_Total: 9999\n"
	     "HugePages_Free: %u\nHugePages_Rsvd: %u\n"
	     "Hugepagesize: 2048 kB\n", KIB_OF(available), huge_free,
	     huge_reserved);
}

static void setup(void)
{
	strcpy(root, "/tmp/fkv-test-preflight-XXXXXX");
	ck_assert_ptr_nonnull(mkdtemp(root));
	memset(&cfg, 0, sizeof(cfg));
	cfg.memory = 8 * FKV_GIB;
	cfg.huge_pages = FKV_HUGE_OFF;
	err[0] = '\0';
	meminfo(64 * FKV_GIB, 0, 0);
}

static void teardown(void)
{
	char cmd[128];

	snprintf(cmd, sizeof(cmd), "rm -rf '%s'", root);
	ck_assert_int_eq(system(cmd), 0);
}

static void fits(void)
{
	ck_assert_msg(!fkv_preflight_segment(&cfg, root, err, sizeof(err)),
		      "%s", err);
}

/* M1, A10: one sentence with wanted, allowed and why */
static void refused(const char *wanted, const char *allowed)
{
	int res = fkv_preflight_segment(&cfg, root, err, sizeof(err));

	ck_assert_int_eq(res, -ENOMEM);
	ck_assert_msg(strstr(err, wanted) && strstr(err, allowed) &&
		      strstr(err, strerror(ENOMEM)),
		      "'%s' lacks %s, %s or the reason", err, wanted,
		      allowed);
	ck_assert_ptr_null(strchr(err, '\n'));
}

START_TEST(memory_that_is_available_is_enough)
{
	fits();
	cfg.memory = 64 * FKV_GIB;
	fits();
}
END_TEST

START_TEST(more_memory_than_available_is_refused)
{
	meminfo(4 * FKV_GIB, 0, 0);
	refused("8589934592", "4294967296");
}
END_TEST

START_TEST(a_host_without_those_files_is_not_refused)
{
	char path[128];

	snprintf(path, sizeof(path), "%s/proc/meminfo", root);
	unlink(path);
	fits();
}
END_TEST

START_TEST(a_v2_limit_of_the_own_group_counts)
{
	host("/proc/self/cgroup", "0::/a/b\n");
	host("/sys/fs/cgroup/a/b/memory.max", "4294967296\n");
	host("/sys/fs/cgroup/a/b/memory.current", "1048576\n");
	refused("8589934592", "4294967296");
	ck_assert_ptr_nonnull(strstr(err, "/a/b"));
}
END_TEST

START_TEST(a_v2_limit_of_a_parent_counts)
{
	host("/proc/self/cgroup", "0::/a/b\n");
	host("/sys/fs/cgroup/a/b/memory.max", "max\n");
	host("/sys/fs/cgroup/a/memory.max", "4294967296\n");
	refused("8589934592", "4294967296");
	ck_assert_ptr_nonnull(strstr(err, "'/a'"));
}
END_TEST

START_TEST(what_a_group_uses_already_counts)
{
	host("/proc/self/cgroup", "0::/a\n");
	host("/sys/fs/cgroup/a/memory.max", "9663676416\n");
	host("/sys/fs/cgroup/a/memory.current", "524288000\n");
	fits();
	host("/sys/fs/cgroup/a/memory.current", "2147483648\n");
	refused("8589934592", "9663676416");
	ck_assert_ptr_nonnull(strstr(err, "2147483648"));
}
END_TEST

/* Page cache of a group is given back when its limit is met. */
START_TEST(page_cache_of_a_v2_group_does_not_count_as_used)
{
	host("/proc/self/cgroup", "0::/a\n");
	host("/sys/fs/cgroup/a/memory.max", "9663676416\n");
	host("/sys/fs/cgroup/a/memory.current", "8000000000\n");
	host("/sys/fs/cgroup/a/memory.stat",
	     "anon 100000000\nfile 7900000000\ninactive_file 4000000000\n"
	     "active_file 3900000000\nworkingset_refault_file 5\n");
	fits();
}
END_TEST

START_TEST(shared_memory_of_a_group_counts_as_used)
{
	host("/proc/self/cgroup", "0::/a\n");
	host("/sys/fs/cgroup/a/memory.max", "9663676416\n");
	host("/sys/fs/cgroup/a/memory.current", "8000000000\n");
	host("/sys/fs/cgroup/a/memory.stat",
	     "file 7900000000\nshmem 7900000000\ninactive_file 0\n"
	     "active_file 0\n");
	refused("8589934592", "9663676416");
}
END_TEST

START_TEST(an_unlimited_v2_group_is_enough)
{
	host("/proc/self/cgroup", "0::/\n");
	host("/sys/fs/cgroup/memory.max", "max\n");
	fits();
}
END_TEST

START_TEST(a_v1_limit_counts_and_wins_over_an_empty_v2_tree)
{
	host("/proc/self/cgroup", "7:blkio:/x\n4:memory:/a\n0::/\n");
	host("/sys/fs/cgroup/memory/a/memory.limit_in_bytes",
	     "4294967296\n");
	host("/sys/fs/cgroup/memory/a/memory.usage_in_bytes", "0\n");
	refused("8589934592", "4294967296");
}
END_TEST

START_TEST(an_unlimited_v1_group_is_enough)
{
	host("/proc/self/cgroup", "4:memory:/a\n0::/\n");
	host("/sys/fs/cgroup/memory/a/memory.limit_in_bytes",
	     "9223372036854771712\n");
	fits();
}
END_TEST

START_TEST(page_cache_of_a_v1_group_does_not_count_as_used)
{
	host("/proc/self/cgroup", "4:memory:/a\n0::/\n");
	host("/sys/fs/cgroup/memory/a/memory.limit_in_bytes",
	     "9663676416\n");
	host("/sys/fs/cgroup/memory/a/memory.usage_in_bytes",
	     "8000000000\n");
	host("/sys/fs/cgroup/memory/a/memory.stat",
	     "inactive_file 1\nactive_file 1\n"
	     "total_inactive_file 7000000000\ntotal_active_file 900000000\n");
	fits();
}
END_TEST

/* In a container the own path is not below the mount; its root is. */
START_TEST(a_container_is_held_to_the_root_of_its_mount)
{
	host("/proc/self/cgroup", "4:memory:/docker/0123\n0::/\n");
	host("/sys/fs/cgroup/memory/memory.limit_in_bytes", "4294967296\n");
	host("/sys/fs/cgroup/memory/memory.usage_in_bytes", "0\n");
	refused("8589934592", "4294967296");
}
END_TEST

START_TEST(a_controller_whose_name_contains_memory_is_another)
{
	host("/proc/self/cgroup", "9:name=memorylike:/z\n"
	     "4:cpu,memory:/a\n");
	host("/sys/fs/cgroup/memory/a/memory.limit_in_bytes",
	     "4294967296\n");
	refused("8589934592", "4294967296");
}
END_TEST

/* A10: reserved pages are not available memory, and need none */
START_TEST(free_huge_pages_hold_the_segment_without_other_memory)
{
	meminfo(FKV_GIB, 4096, 0);
	host("/proc/self/cgroup", "0::/a\n");
	host("/sys/fs/cgroup/a/memory.max", "1073741824\n");
	cfg.huge_pages = FKV_HUGE_AUTO;
	fits();
	cfg.huge_pages = FKV_HUGE_REQUIRED;
	fits();
	cfg.huge_pages = FKV_HUGE_OFF;
	refused("8589934592", "1073741824");
}
END_TEST

START_TEST(huge_pages_promised_to_others_are_not_free)
{
	meminfo(FKV_GIB, 4096, 1);
	cfg.huge_pages = FKV_HUGE_AUTO;
	refused("8589934592", "1073741824");
}
END_TEST

START_TEST(required_huge_pages_say_how_many_are_free)
{
	meminfo(64 * FKV_GIB, 100, 40);
	cfg.huge_pages = FKV_HUGE_REQUIRED;
	refused("8589934592", "125829120");
	ck_assert_ptr_nonnull(strstr(err, "huge_pages"));
	ck_assert_ptr_nonnull(strstr(err, "nr_hugepages"));
}
END_TEST

START_TEST(auto_without_huge_pages_needs_ordinary_memory)
{
	cfg.huge_pages = FKV_HUGE_AUTO;
	fits();
	meminfo(4 * FKV_GIB, 0, 0);
	refused("8589934592", "4294967296");
}
END_TEST

START_TEST(a_segment_of_partial_pages_is_not_held_by_huge_ones)
{
	meminfo(FKV_GIB, 8192, 0);
	cfg.huge_pages = FKV_HUGE_AUTO;
	cfg.memory += 4096;
	refused("8589938688", "1073741824");
}
END_TEST

/* the whole check, on this host; @name is below the root */
static int check_all(const char *name)
{
	char path[128];
	int res;

	snprintf(path, sizeof(path), "%s%s", root, name);
	cfg.memory = FKV_SEGMENT_MIN;
	cfg.socket = path;
	res = fkv_preflight(&cfg, err, sizeof(err));
	cfg.socket = NULL;
	return res;
}

START_TEST(a_small_segment_and_a_writable_directory_pass)
{
	ck_assert_msg(!check_all("/s.sock"), "%s", err);
}
END_TEST

START_TEST(a_missing_socket_directory_is_named_with_the_reason)
{
	ck_assert_int_eq(check_all("/none/s.sock"), -ENOENT);
	ck_assert_msg(strstr(err, "/none") && strstr(err, "socket") &&
		      strstr(err, strerror(ENOENT)), "%s", err);
}
END_TEST

START_TEST(a_socket_directory_that_is_a_file_is_refused)
{
	host("/file", "x");
	ck_assert_int_eq(check_all("/file/s.sock"), -ENOTDIR);
	ck_assert_ptr_nonnull(strstr(err, strerror(ENOTDIR)));
}
END_TEST

/* A10: ulimit -l 64 */
START_TEST(required_memlock_beyond_the_limit_is_refused)
{
	struct rlimit rl = { 64 * FKV_KIB, 64 * FKV_KIB };
	bool was_root = geteuid() == 0;

	ck_assert_int_eq(setrlimit(RLIMIT_MEMLOCK, &rl), 0);
	if (was_root)	/* who is not held to the limit */
		ck_assert_int_eq(seteuid(65534), 0);
	cfg.lock_memory = FKV_LOCK_REQUIRED;
	ck_assert_int_eq(check_all("/s.sock"), -EPERM);
	ck_assert_msg(strstr(err, "4194304") && strstr(err, "65536") &&
		      strstr(err, strerror(EPERM)), "%s", err);
	cfg.lock_memory = FKV_LOCK_AUTO;
	ck_assert_int_eq(check_all("/s.sock"), 0);
	if (was_root)
		ck_assert_int_eq(seteuid(0), 0);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("preflight");
	TCase *tc = tcase_create("preflight");
	SRunner *sr = srunner_create(s);
	int failed;

	tcase_add_checked_fixture(tc, setup, teardown);
	tcase_add_test(tc, memory_that_is_available_is_enough);
	tcase_add_test(tc, more_memory_than_available_is_refused);
	tcase_add_test(tc, a_host_without_those_files_is_not_refused);
	tcase_add_test(tc, a_v2_limit_of_the_own_group_counts);
	tcase_add_test(tc, a_v2_limit_of_a_parent_counts);
	tcase_add_test(tc, what_a_group_uses_already_counts);
	tcase_add_test(tc, page_cache_of_a_v2_group_does_not_count_as_used);
	tcase_add_test(tc, shared_memory_of_a_group_counts_as_used);
	tcase_add_test(tc, an_unlimited_v2_group_is_enough);
	tcase_add_test(tc,
		a_v1_limit_counts_and_wins_over_an_empty_v2_tree);
	tcase_add_test(tc, an_unlimited_v1_group_is_enough);
	tcase_add_test(tc, page_cache_of_a_v1_group_does_not_count_as_used);
	tcase_add_test(tc, a_container_is_held_to_the_root_of_its_mount);
	tcase_add_test(tc,
		a_controller_whose_name_contains_memory_is_another);
	tcase_add_test(tc,
		free_huge_pages_hold_the_segment_without_other_memory);
	tcase_add_test(tc, huge_pages_promised_to_others_are_not_free);
	tcase_add_test(tc, required_huge_pages_say_how_many_are_free);
	tcase_add_test(tc, auto_without_huge_pages_needs_ordinary_memory);
	tcase_add_test(tc,
		a_segment_of_partial_pages_is_not_held_by_huge_ones);
	tcase_add_test(tc, a_small_segment_and_a_writable_directory_pass);
	tcase_add_test(tc,
		a_missing_socket_directory_is_named_with_the_reason);
	tcase_add_test(tc, a_socket_directory_that_is_a_file_is_refused);
	tcase_add_test(tc, required_memlock_beyond_the_limit_is_refused);
	suite_add_tcase(s, tc);
	srunner_run_all(sr, CK_NORMAL);
	failed = srunner_ntests_failed(sr);
	srunner_free(sr);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
