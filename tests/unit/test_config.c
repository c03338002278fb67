// SPDX-License-Identifier: Apache-2.0
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/base.h"
#include "svc/config.h"

static struct fkv_config cfg;
static char err[600];
static char file[64];

static void setup(void)
{
	int fd;

	unsetenv("XDG_RUNTIME_DIR");
	strcpy(file, "/tmp/fkv-test-config-XXXXXX");
	fd = mkstemp(file);
	ck_assert_int_ge(fd, 0);
	close(fd);
	memset(&cfg, 0, sizeof(cfg));
	err[0] = '\0';
}

static void teardown(void)
{
	unlink(file);
	fkv_config_done(&cfg);
}

static int parse(const char *text)
{
	fkv_config_done(&cfg);
	ck_assert_int_eq(fkv_config_init(&cfg), 0);
	return fkv_config_parse(&cfg, "f.yaml", text, strlen(text), err,
				sizeof(err));
}

static void good(const char *text)
{
	ck_assert_msg(!parse(text), "'%s' refused: %s", text, err);
}

static void says(const char *part)
{
	ck_assert_msg(strstr(err, part) != NULL, "'%s' lacks '%s'", err, part);
}

/* C1: the message has file:line, the key, and what was expected */
static void mistake(const char *text, unsigned int line, const char *key,
		    const char *expected)
{
	char place[32];

	ck_assert_msg(parse(text) == -EINVAL, "'%s' accepted", text);
	snprintf(place, sizeof(place), "f.yaml:%u: ", line);
	ck_assert_msg(!strncmp(err, place, strlen(place)),
		      "'%s' does not begin with '%s'", err, place);
	says(key);
	says(expected);
}

/* argv[0] and --standalone are there already; ends at NULL */
static enum fkv_config_result load(const char *const *more)
{
	char *argv[18] = { "fluxonkvd", "--standalone" };
	int argc = 2;

	for (; *more; more++)
		argv[argc++] = (char *)*more;
	fkv_config_done(&cfg);
	err[0] = '\0';
	return fkv_config_load(argc, argv, &cfg, err, sizeof(err));
}

#define LOAD(...) load((const char *const[]){ __VA_ARGS__, NULL })

static void write_file(const char *text)
{
	FILE *f = fopen(file, "we");

	ck_assert_ptr_nonnull(f);
	fputs(text, f);
	fclose(f);
}

/* one test per mistake */
#define MISTAKE(name, text, line, key, expected)			\
	START_TEST(name)						\
	{								\
		mistake(text, line, key, expected);			\
	}								\
	END_TEST

MISTAKE(an_unknown_key_is_named, "memory: 1GiB\nmemroy: 1GiB\n", 2,
	"'memroy'", "fluxonkvd.conf(5)")
MISTAKE(an_unknown_nested_key_is_named, "\nlimits:\n  x: 1\n", 3,
	"'limits.x'", "unknown key")
MISTAKE(a_key_said_twice_is_named, "io_depth: 1\nio_depth: 2\n", 2,
	"io_depth", "expected once")
MISTAKE(a_nested_key_said_twice_is_named,
	"metrics: {listen: none}\nmetrics: {listen: none}\n", 2,
	"metrics.listen", "expected once")
MISTAKE(text_that_is_not_yaml_has_a_line, "a: 1\nb: [1\n", 3, "not YAML",
	"")
MISTAKE(a_list_at_the_top_is_refused, "- memory\n", 1, "mapping",
	"expected")
MISTAKE(a_second_document_is_refused, "memory: 1GiB\n---\nnonsense: 1\n", 2,
	"document", "expected one")
MISTAKE(a_broken_second_document_is_refused, "memory: 1GiB\n---\n[1\n", 4,
	"not YAML", "")
MISTAKE(a_key_that_is_a_list_is_refused, "? [a]\n: b\n", 1, "key",
	"expected")
MISTAKE(a_group_that_is_a_scalar_is_refused, "limits: 5\n", 1, "limits",
	"expected a mapping")
MISTAKE(an_unknown_role_is_refused, "role: king\n", 1, "role",
	"expected standalone, master or owner")
MISTAKE(a_listen_without_a_port_is_refused, "listen: 127.0.0.1\n", 1,
	"listen", "ADDRESS:PORT")
MISTAKE(a_listen_by_name_is_refused, "listen: host:1\n", 1, "listen",
	"ADDRESS:PORT")
MISTAKE(a_listen_without_room_for_a_second_port_is_refused,
	"listen: 127.0.0.1:65535\n", 1, "listen", "up to 65534")
MISTAKE(a_master_without_a_port_is_refused, "master: h\n", 1, "master",
	"HOST:PORT")
MISTAKE(a_master_at_port_zero_is_refused, "master: 'h:0'\n", 1, "master",
	"HOST:PORT")
MISTAKE(an_advertise_with_a_port_is_refused, "advertise: 10.0.0.1:5\n", 1,
	"advertise", "without a port")
MISTAKE(an_empty_name_is_refused, "cluster_name:\n", 1, "cluster_name",
	"expected a name")
MISTAKE(a_name_that_is_a_list_is_refused, "cluster_name: [a]\n", 1,
	"cluster_name", "expected a name")
MISTAKE(a_name_with_a_zero_byte_is_refused, "cluster_name: \"a\\0b\"\n", 1,
	"cluster_name", "zero byte")
MISTAKE(a_mode_that_is_no_mode_is_refused, "socket_mode: 0999\n", 1,
	"socket_mode", "octal")
MISTAKE(a_mode_beyond_0777_is_refused, "socket_mode: 07777\n", 1,
	"socket_mode", "octal")
MISTAKE(a_negative_mode_is_refused, "socket_mode: -0\n", 1,
	"socket_mode", "octal")
MISTAKE(a_group_that_is_not_there_is_refused, "socket_group: no-such-grp\n",
	1, "socket_group", "expected a group")
MISTAKE(a_memory_that_is_no_size_is_refused, "memory: lots\n", 1, "memory",
	"expected a size such as 1GiB, not 'lots'")
MISTAKE(a_memory_too_small_is_refused, "memory: 4KiB\n", 1, "memory",
	"4194304")
MISTAKE(a_memory_too_large_is_refused, "memory: 900TiB\n", 1, "memory",
	"17592186044416")
MISTAKE(a_memory_that_overflows_is_refused, "memory: 99999999TiB\n", 1,
	"memory", "expected a size")
MISTAKE(a_memory_that_is_a_mapping_is_refused, "memory: {a: b}\n", 1,
	"memory", "not a list or mapping")
MISTAKE(an_unknown_huge_page_mode_is_refused, "huge_pages: always\n", 1,
	"huge_pages", "off, auto or required")
MISTAKE(an_unknown_lock_mode_is_refused, "lock_memory: yes\n", 1,
	"lock_memory", "off, auto or required")
MISTAKE(an_unknown_engine_is_refused, "io_engine: aio\n", 1, "io_engine",
	"auto, uring, uring_iovec or threads")
MISTAKE(an_io_depth_of_zero_is_refused, "io_depth: 0\n", 1, "io_depth",
	"expected 1 to 4096, not 0")
MISTAKE(an_io_depth_beyond_the_limit_is_refused, "io_depth: 4097\n", 1,
	"io_depth", "expected 1 to 4096, not 4097")
MISTAKE(a_number_that_is_a_word_is_refused, "io_depth: many\n", 1,
	"io_depth", "expected a number")
MISTAKE(a_quoted_number_is_a_wrong_type, "io_depth: \"12\"\n", 1,
	"io_depth", "expected a number")
MISTAKE(a_quoted_bool_is_a_wrong_type, "strict_reads: 'true'\n", 1,
	"strict_reads", "true or false")
MISTAKE(a_negative_number_is_refused, "read_weight: -1\n", 1, "read_weight",
	"expected a number")
MISTAKE(a_bool_of_another_spelling_is_refused, "strict_reads: yes\n", 1,
	"strict_reads", "true or false")
MISTAKE(an_unknown_policy_is_refused, "eviction:\n  new_values: last\n", 2,
	"eviction.new_values", "recent or first")
MISTAKE(a_cap_that_is_no_size_is_refused,
	"limits:\n  uid_pinned_bytes: half\n", 2, "limits.uid_pinned_bytes",
	"expected a size, 0 for no cap")
MISTAKE(too_many_pins_are_refused, "pins_per_client: 1000000\n", 1,
	"pins_per_client", "expected 8 to 65536")
MISTAKE(no_transfer_thread_is_refused, "transfer_threads: 0\n", 1,
	"transfer_threads", "expected 1 to 64")
MISTAKE(too_many_index_entries_are_refused, "index_entries: 16777216\n", 1,
	"index_entries", "expected 0 to")
MISTAKE(a_listen_address_without_port_is_refused,
	"metrics:\n  listen: localhost\n", 2, "metrics.listen",
	"ADDRESS:PORT or none")
MISTAKE(a_port_beyond_16_bits_is_refused,
	"metrics:\n  listen: 127.0.0.1:65536\n", 2, "metrics.listen",
	"ADDRESS:PORT or none")
MISTAKE(an_empty_listen_address_is_refused, "metrics:\n  listen: '[]:1'\n",
	2, "metrics.listen", "ADDRESS:PORT or none")
MISTAKE(an_unknown_log_level_is_refused, "log_level: loud\n", 1,
	"log_level", "error, warning, info or debug")

/* S1 */
MISTAKE(paths_and_limits_of_other_lengths_are_refused,
	"large_file_paths: [/a, /b]\nlarge_limit_size: [1GB]\n", 2,
	"large_limit_size", "as many as large_file_paths (2), not 1")
MISTAKE(limits_without_paths_are_refused, "large_limit_size: [1GB]\n", 1,
	"large_limit_size", "as many as large_file_paths (0), not 1")
MISTAKE(a_path_list_that_is_a_scalar_is_refused, "large_file_paths: /a\n", 1,
	"large_file_paths", "expected a list of directories")
MISTAKE(a_relative_path_is_refused,
	"large_file_paths:\n- /a\n- b\nlarge_limit_size: [1GB, 1GB]\n", 3,
	"large_file_paths", "absolute path, not 'b'")
MISTAKE(a_limit_that_is_no_size_is_refused,
	"large_file_paths: [/a]\nlarge_limit_size:\n- big\n", 3,
	"large_limit_size", "expected a size such as 8GiB, not 'big'")
MISTAKE(a_limit_too_small_names_the_least_that_works,
	"large_file_paths: [/a]\nlarge_limit_size:\n- 49151\n", 3,
	"large_limit_size", "at least 49152")
MISTAKE(more_devices_than_the_limit_are_refused,
	"large_file_paths: [/1,/2,/3,/4,/5,/6,/7,/8,/9,/10,/11,/12,/13,/14,"
	"/15,/16,/17]\n", 1, "large_file_paths", "at most 16, not 17")

START_TEST(defaults_are_those_of_the_manual)
{
	good("role: standalone\n");
	ck_assert_int_eq(fkv_config_finish(&cfg, err, sizeof(err)), 0);
	ck_assert_str_eq(cfg.cluster_name, "local");
	ck_assert_uint_eq(cfg.memory, FKV_GIB);
	ck_assert_int_eq(cfg.lock_memory, FKV_LOCK_AUTO);
	ck_assert_uint_eq(cfg.io_depth, 128);
	ck_assert_uint_eq(cfg.read_weight, 2);
	ck_assert(!cfg.strict_reads);
	ck_assert_uint_eq(cfg.client_pinned_bytes, FKV_GIB / 2);
	ck_assert_uint_eq(cfg.uid_pinned_bytes, FKV_GIB / 2);
	ck_assert_uint_eq(cfg.pins_per_client, 512);
	ck_assert_uint_eq(cfg.transfer_threads, 2);
	ck_assert_uint_gt(cfg.index_entries, 0);
	ck_assert_str_eq(cfg.metrics_host, "127.0.0.1");
	ck_assert_uint_eq(cfg.metrics_port, 31997);
	ck_assert_uint_eq(cfg.nr_ssd, 0);
	ck_assert_int_eq(cfg.io_engine, FKV_ENGINE_AUTO);
}
END_TEST

START_TEST(every_key_is_understood)
{
	good("role: standalone\n"
	     "cluster_name: c\ninstance_key: i\nsocket: /s\n"
	     "socket_mode: 0600\nsocket_group: root\nmemory: 8MiB\n"
	     "huge_pages: required\nlock_memory: required\n"
	     "large_file_paths: [/a, /b]\nlarge_limit_size: [1GB, 65536]\n"
	     "io_engine: threads\nio_depth: 4096\nread_weight: 3\n"
	     "strict_reads: true\neviction: {new_values: first}\n"
	     "limits: {client_pinned_bytes: 0, uid_pinned_bytes: 1MB}\n"
	     "pins_per_client: 8\nindex_entries: 99\ntransfer_threads: 1\n"
	     "metrics: {listen: '[::1]:0', dashboard: false}\n"
	     "log_level: debug\n");
	ck_assert_int_eq(fkv_config_finish(&cfg, err, sizeof(err)), 0);
	ck_assert_str_eq(cfg.cluster_name, "c");
	ck_assert_str_eq(cfg.instance_key, "i");
	ck_assert_str_eq(cfg.socket, "/s");
	ck_assert_uint_eq(cfg.socket_mode, 0600);
	ck_assert_uint_eq(cfg.socket_gid, 0);
	ck_assert_uint_eq(cfg.memory, 8 * FKV_MIB);
	ck_assert_int_eq(cfg.huge_pages, FKV_HUGE_REQUIRED);
	ck_assert_int_eq(cfg.lock_memory, FKV_LOCK_REQUIRED);
	ck_assert_uint_eq(cfg.nr_ssd, 2);
	ck_assert_str_eq(cfg.ssd[1].path, "/b");
	ck_assert_uint_eq(cfg.ssd[0].limit, FKV_GIB);
	ck_assert_uint_eq(cfg.ssd[1].limit, 65536);
	ck_assert_int_eq(cfg.io_engine, FKV_ENGINE_THREADS);
	ck_assert_uint_eq(cfg.io_depth, 4096);
	ck_assert(cfg.strict_reads);
	ck_assert_int_eq(cfg.new_values, FKV_NEW_VALUES_FIRST);
	ck_assert_uint_eq(cfg.client_pinned_bytes, 0);
	ck_assert_uint_eq(cfg.uid_pinned_bytes, FKV_MIB);
	ck_assert_uint_eq(cfg.index_entries, 99);
	ck_assert_str_eq(cfg.metrics_host, "::1");
	ck_assert_uint_eq(cfg.metrics_port, 0);
	ck_assert(!cfg.metrics_dashboard);
	ck_assert_int_eq(cfg.log_level, FKV_LOG_DEBUG);
}
END_TEST

/* S1: missing or null limits: no SSD tier */
START_TEST(paths_without_limits_make_no_ssd_tier)
{
	good("large_file_paths: [/a]\n");
	ck_assert_uint_eq(cfg.nr_ssd, 0);
	good("large_file_paths: [/a]\nlarge_limit_size: null\n");
	ck_assert_uint_eq(cfg.nr_ssd, 0);
	good("large_file_paths:\nlarge_limit_size: ~\n");
	ck_assert_uint_eq(cfg.nr_ssd, 0);
}
END_TEST

START_TEST(the_least_limit_is_accepted)
{
	good("large_file_paths: [/a]\nlarge_limit_size: [49152]\n");
	ck_assert_uint_eq(cfg.ssd[0].limit, FKV_SSD_LIMIT_MIN);
}
END_TEST

START_TEST(an_empty_file_is_a_good_file)
{
	good("");
	good("# nothing\n");
	good("---\n");
}
END_TEST

START_TEST(listen_none_turns_http_off)
{
	good("metrics: {listen: none}\n");
	ck_assert_ptr_null(cfg.metrics_host);
}
END_TEST

START_TEST(flags_win_over_the_file)
{
	write_file("memory: 8MiB\nlog_level: debug\n"
		   "large_file_paths: [/a, /b]\nlarge_limit_size: [1GB, 1GB]\n");
	ck_assert_int_eq(LOAD("--memory", "16MiB", "--config", file, "--ssd",
			      "/x:y:2GiB"), FKV_CONFIG_RUN);
	ck_assert_uint_eq(cfg.memory, 16 * FKV_MIB);
	ck_assert_int_eq(cfg.log_level, FKV_LOG_DEBUG);
	ck_assert_uint_eq(cfg.nr_ssd, 1);
	ck_assert_str_eq(cfg.ssd[0].path, "/x:y");
	ck_assert_uint_eq(cfg.ssd[0].limit, 2 * FKV_GIB);
}
END_TEST

START_TEST(every_flag_is_understood)
{
	ck_assert_msg(LOAD("--socket=/s", "--cluster=c", "--instance=i",
			   "--metrics=none", "--log-level=error",
			   "--io-engine=uring", "--memory=64MB",
			   "--ssd=/a:1GB", "--ssd=/b:2GB",
			   "--set=limits.uid_pinned_bytes=0",
			   "--set=io_depth=7",
			   "--set=strict_reads=true") == FKV_CONFIG_RUN,
		      "%s", err);
	ck_assert_str_eq(cfg.socket, "/s");
	ck_assert_str_eq(cfg.cluster_name, "c");
	ck_assert_str_eq(cfg.instance_key, "i");
	ck_assert_ptr_null(cfg.metrics_host);
	ck_assert_int_eq(cfg.log_level, FKV_LOG_ERR);
	ck_assert_int_eq(cfg.io_engine, FKV_ENGINE_URING);
	ck_assert_uint_eq(cfg.nr_ssd, 2);
	ck_assert_uint_eq(cfg.uid_pinned_bytes, 0);
	ck_assert_uint_eq(cfg.io_depth, 7);
	ck_assert(cfg.strict_reads);
}
END_TEST

START_TEST(a_bad_flag_value_names_flag_and_expectation)
{
	ck_assert_int_eq(LOAD("--memory", "much"), FKV_CONFIG_BAD);
	says("--memory");
	says("expected a size");
	ck_assert_int_eq(LOAD("--io-engine", "aio"), FKV_CONFIG_BAD);
	says("--io-engine");
	says("auto, uring, uring_iovec or threads");
	ck_assert_int_eq(LOAD("--metrics", "here"), FKV_CONFIG_BAD);
	says("--metrics");
	says("ADDRESS:PORT or none");
	ck_assert_int_eq(LOAD("--set", "nokey"), FKV_CONFIG_BAD);
	says("KEY=VALUE");
	ck_assert_int_eq(LOAD("--set", "no.such=1"), FKV_CONFIG_BAD);
	says("--set");
}
END_TEST

START_TEST(an_ssd_flag_without_size_or_dir_is_refused)
{
	ck_assert_int_eq(LOAD("--ssd", "/a"), FKV_CONFIG_BAD);
	says("DIR:SIZE");
	ck_assert_int_eq(LOAD("--ssd", ":1GB"), FKV_CONFIG_BAD);
	says("DIR:SIZE");
	ck_assert_int_eq(LOAD("--ssd", "/a:"), FKV_CONFIG_BAD);
	says("DIR:SIZE");
	ck_assert_int_eq(LOAD("--ssd", "/a:1KB"), FKV_CONFIG_BAD);
	says("at least 49152");
}
END_TEST

START_TEST(an_unknown_flag_is_refused_by_name)
{
	ck_assert_int_eq(LOAD("--frobnicate"), FKV_CONFIG_BAD);
	says("--frobnicate");
	ck_assert_int_eq(LOAD("--memory"), FKV_CONFIG_BAD);
	says("--memory");
	ck_assert_int_eq(LOAD("word"), FKV_CONFIG_BAD);
	says("word");
}
END_TEST

START_TEST(a_flag_cannot_smuggle_other_settings)
{
	ck_assert_int_eq(LOAD("--cluster", "a\"\nio_depth: 5"),
			 FKV_CONFIG_BAD);
	says("--cluster");
	ck_assert_int_eq(LOAD("--set", "io_depth: 5\nmemory=8MiB"),
			 FKV_CONFIG_BAD);
	says("--set");
	ck_assert_uint_eq(cfg.io_depth, FKV_IO_DEPTH);
}
END_TEST

START_TEST(a_file_that_cannot_be_read_is_named)
{
	ck_assert_int_eq(LOAD("--config", "/nonexistent/x.yaml"),
			 FKV_CONFIG_BAD);
	says("/nonexistent/x.yaml");
	says("No such file");
	ck_assert_int_eq(LOAD("--config", "/tmp"), FKV_CONFIG_BAD);
	says("/tmp");
	says("directory");
}
END_TEST

START_TEST(a_mistake_in_the_file_names_the_file)
{
	write_file("\n\nio_depth: x\n");
	ck_assert_int_eq(LOAD("--config", file), FKV_CONFIG_BAD);
	says(file);
	says(":3: io_depth: expected a number");
}
END_TEST

START_TEST(check_config_help_and_version_end_without_error)
{
	ck_assert_int_eq(LOAD("--check-config"), FKV_CONFIG_EXIT);
	ck_assert_int_eq(LOAD("--help"), FKV_CONFIG_EXIT);
	ck_assert_int_eq(LOAD("--version"), FKV_CONFIG_EXIT);
	ck_assert_int_eq(LOAD("--check-config", "--memory=x"),
			 FKV_CONFIG_BAD);
}
END_TEST

/* Of several settings: finish() says which line is to blame, and why. */
static void misfit(const char *text, const char *begin, const char *why)
{
	good(text);
	ck_assert_int_eq(fkv_config_finish(&cfg, err, sizeof(err)), -EINVAL);
	ck_assert_msg(!strncmp(err, begin, strlen(begin)),
		      "'%s' does not begin with '%s'", err, begin);
	says(why);
}

#define MASTER	"role: master\nlisten: 127.0.0.1:7000\n"
#define OWNER	"role: owner\nlisten: 127.0.0.1:7000\nmaster: 'm:1'\n"

/* C1, S1: a master has no memory and no SSD tier */
START_TEST(what_does_not_fit_a_role_names_its_line)
{
	misfit(MASTER "memory: 8MiB\n", "f.yaml:3: memory: ",
	       "does not fit role master; expected with role standalone or "
	       "owner only");
	misfit(MASTER "large_file_paths: [/a]\nlarge_limit_size: [1GB]\n",
	       "f.yaml:3: large_file_paths: ", "role master");
	misfit(MASTER "master: 'm:1'\n", "f.yaml:3: master: ",
	       "expected with role owner only");
	misfit("role: standalone\nlisten: 127.0.0.1:1\n",
	       "f.yaml:2: listen: ", "does not fit role standalone");
	misfit(OWNER "state_dir: /s\n", "f.yaml:4: state_dir: ",
	       "expected with role master only");
	misfit(OWNER "eviction: {new_values: first}\n",
	       "f.yaml:4: eviction.new_values: ", "role owner");
}
END_TEST

START_TEST(a_flag_that_does_not_fit_a_role_is_refused)
{
	ck_assert_int_eq(LOAD("--listen", "127.0.0.1:1"), FKV_CONFIG_BAD);
	says("listen: does not fit role standalone");
	ck_assert_int_eq(LOAD("--role", "master", "--listen", "127.0.0.1:1",
			      "--ssd", "/a:1GiB"), FKV_CONFIG_BAD);
	says("large_file_paths: does not fit role master");
}
END_TEST

START_TEST(an_owner_without_a_master_is_refused)
{
	misfit("role: owner\nlisten: 127.0.0.1:7000\n", "master: missing",
	       "HOST:PORT");
}
END_TEST

START_TEST(a_cluster_role_without_listen_is_refused)
{
	misfit("role: master\n", "listen: missing", "ADDRESS:PORT");
	misfit("role: owner\nmaster: 'm:1'\n", "listen: missing", "role");
}
END_TEST

/* A23 */
START_TEST(beyond_loopback_without_a_key_is_refused)
{
	misfit("role: master\nlisten: 10.0.0.1:7000\n", "f.yaml:2: listen: ",
	       "cluster_key_file");
	misfit("role: master\nlisten: '[::]:7000'\n", "f.yaml:2: listen: ",
	       "cluster_key_file");
	good("role: master\nlisten: '[::1]:7000'\n");
	ck_assert_int_eq(fkv_config_finish(&cfg, err, sizeof(err)), 0);
	good("role: master\nlisten: 10.0.0.1:7000\ncluster_key_file: /k\n");
	ck_assert_int_eq(fkv_config_finish(&cfg, err, sizeof(err)), 0);
}
END_TEST

START_TEST(all_addresses_want_one_that_is_advertised)
{
	misfit("role: owner\nlisten: 0.0.0.0:7000\nmaster: 'm:1'\n"
	       "cluster_key_file: /k\n", "advertise: missing", "ADDRESS");
	good("role: owner\nlisten: 0.0.0.0:7000\nmaster: 'm:1'\n"
	     "cluster_key_file: /k\nadvertise: 10.0.0.1\n");
	ck_assert_int_eq(fkv_config_finish(&cfg, err, sizeof(err)), 0);
}
END_TEST

START_TEST(cluster_roles_are_understood)
{
	good(OWNER "cluster_key_file: /k\nadvertise: '::1'\n");
	ck_assert_int_eq(fkv_config_finish(&cfg, err, sizeof(err)), 0);
	ck_assert_int_eq(cfg.role, FKV_ROLE_OWNER);
	ck_assert_str_eq(cfg.master, "m:1");
	ck_assert_str_eq(cfg.listen, "127.0.0.1:7000");
	ck_assert_str_eq(cfg.advertise, "::1");
	ck_assert_str_eq(cfg.cluster_key_file, "/k");
	good(MASTER "state_dir: /s\neviction: {new_values: first}\n");
	ck_assert_int_eq(fkv_config_finish(&cfg, err, sizeof(err)), 0);
	ck_assert_int_eq(cfg.role, FKV_ROLE_MASTER);
	ck_assert_str_eq(cfg.state_dir, "/s");
	ck_assert_int_eq(cfg.new_values, FKV_NEW_VALUES_FIRST);
}
END_TEST

START_TEST(cluster_flags_are_those_of_the_file)
{
	ck_assert_int_eq(LOAD("--role", "owner", "--master", "[::1]:4",
			      "--listen", "127.0.0.1:5", "--cluster-key", "/k",
			      "--advertise", "127.0.0.2"), FKV_CONFIG_RUN);
	ck_assert_int_eq(cfg.role, FKV_ROLE_OWNER);
	ck_assert_str_eq(cfg.master, "[::1]:4");
	ck_assert_str_eq(cfg.listen, "127.0.0.1:5");
	ck_assert_str_eq(cfg.cluster_key_file, "/k");
	ck_assert_str_eq(cfg.advertise, "127.0.0.2");
	ck_assert_int_eq(LOAD("--role", "master", "--listen", "127.0.0.1:5",
			      "--state-dir", "/s"), FKV_CONFIG_RUN);
	ck_assert_str_eq(cfg.state_dir, "/s");
}
END_TEST

START_TEST(no_role_at_all_is_refused)
{
	char *argv[] = { "fluxonkvd", NULL };

	ck_assert_int_eq(fkv_config_load(1, argv, &cfg, err, sizeof(err)),
			 FKV_CONFIG_BAD);
	says("--standalone");
}
END_TEST

START_TEST(the_socket_is_below_the_users_runtime_directory)
{
	setenv("XDG_RUNTIME_DIR", "/run/user/7", 1);
	ck_assert_int_eq(fkv_config_init(&cfg), 0);
	ck_assert_str_eq(cfg.socket, geteuid() ?
			 "/run/user/7/fluxonkv.sock" :
			 "/run/fluxonkv/fluxonkv.sock");
}
END_TEST

static void add_mistakes(TCase *tc)
{
	tcase_add_test(tc, an_unknown_key_is_named);
	tcase_add_test(tc, an_unknown_nested_key_is_named);
	tcase_add_test(tc, a_key_said_twice_is_named);
	tcase_add_test(tc, a_nested_key_said_twice_is_named);
	tcase_add_test(tc, text_that_is_not_yaml_has_a_line);
	tcase_add_test(tc, a_list_at_the_top_is_refused);
	tcase_add_test(tc, a_second_document_is_refused);
	tcase_add_test(tc, a_broken_second_document_is_refused);
	tcase_add_test(tc, a_key_that_is_a_list_is_refused);
	tcase_add_test(tc, a_group_that_is_a_scalar_is_refused);
	tcase_add_test(tc, a_listen_without_a_port_is_refused);
	tcase_add_test(tc, a_listen_by_name_is_refused);
	tcase_add_test(tc, a_listen_without_room_for_a_second_port_is_refused);
	tcase_add_test(tc, a_master_without_a_port_is_refused);
	tcase_add_test(tc, a_master_at_port_zero_is_refused);
	tcase_add_test(tc, an_advertise_with_a_port_is_refused);
	tcase_add_test(tc, what_does_not_fit_a_role_names_its_line);
	tcase_add_test(tc, a_flag_that_does_not_fit_a_role_is_refused);
	tcase_add_test(tc, an_owner_without_a_master_is_refused);
	tcase_add_test(tc, a_cluster_role_without_listen_is_refused);
	tcase_add_test(tc, beyond_loopback_without_a_key_is_refused);
	tcase_add_test(tc, all_addresses_want_one_that_is_advertised);
	tcase_add_test(tc, cluster_roles_are_understood);
	tcase_add_test(tc, cluster_flags_are_those_of_the_file);
	tcase_add_test(tc, an_unknown_role_is_refused);
	tcase_add_test(tc, an_empty_name_is_refused);
	tcase_add_test(tc, a_name_that_is_a_list_is_refused);
	tcase_add_test(tc, a_name_with_a_zero_byte_is_refused);
	tcase_add_test(tc, a_mode_that_is_no_mode_is_refused);
	tcase_add_test(tc, a_mode_beyond_0777_is_refused);
	tcase_add_test(tc, a_negative_mode_is_refused);
	tcase_add_test(tc, a_group_that_is_not_there_is_refused);
	tcase_add_test(tc, a_memory_that_is_no_size_is_refused);
	tcase_add_test(tc, a_memory_too_small_is_refused);
	tcase_add_test(tc, a_memory_too_large_is_refused);
	tcase_add_test(tc, a_memory_that_overflows_is_refused);
	tcase_add_test(tc, a_memory_that_is_a_mapping_is_refused);
	tcase_add_test(tc, an_unknown_huge_page_mode_is_refused);
	tcase_add_test(tc, an_unknown_lock_mode_is_refused);
	tcase_add_test(tc, an_unknown_engine_is_refused);
	tcase_add_test(tc, an_io_depth_of_zero_is_refused);
	tcase_add_test(tc, an_io_depth_beyond_the_limit_is_refused);
	tcase_add_test(tc, a_number_that_is_a_word_is_refused);
	tcase_add_test(tc, a_quoted_number_is_a_wrong_type);
	tcase_add_test(tc, a_quoted_bool_is_a_wrong_type);
	tcase_add_test(tc, a_negative_number_is_refused);
	tcase_add_test(tc, a_bool_of_another_spelling_is_refused);
	tcase_add_test(tc, an_unknown_policy_is_refused);
	tcase_add_test(tc, a_cap_that_is_no_size_is_refused);
	tcase_add_test(tc, too_many_pins_are_refused);
	tcase_add_test(tc, no_transfer_thread_is_refused);
	tcase_add_test(tc, too_many_index_entries_are_refused);
	tcase_add_test(tc, a_listen_address_without_port_is_refused);
	tcase_add_test(tc, a_port_beyond_16_bits_is_refused);
	tcase_add_test(tc, an_empty_listen_address_is_refused);
	tcase_add_test(tc, an_unknown_log_level_is_refused);
	tcase_add_test(tc, paths_and_limits_of_other_lengths_are_refused);
	tcase_add_test(tc, limits_without_paths_are_refused);
	tcase_add_test(tc, a_path_list_that_is_a_scalar_is_refused);
	tcase_add_test(tc, a_relative_path_is_refused);
	tcase_add_test(tc, a_limit_that_is_no_size_is_refused);
	tcase_add_test(tc, a_limit_too_small_names_the_least_that_works);
	tcase_add_test(tc, more_devices_than_the_limit_are_refused);
}

int main(void)
{
	Suite *s = suite_create("config");
	TCase *tc = tcase_create("config");
	SRunner *sr = srunner_create(s);
	int failed;

	tcase_add_checked_fixture(tc, setup, teardown);
	add_mistakes(tc);
	tcase_add_test(tc, defaults_are_those_of_the_manual);
	tcase_add_test(tc, every_key_is_understood);
	tcase_add_test(tc, paths_without_limits_make_no_ssd_tier);
	tcase_add_test(tc, the_least_limit_is_accepted);
	tcase_add_test(tc, an_empty_file_is_a_good_file);
	tcase_add_test(tc, listen_none_turns_http_off);
	tcase_add_test(tc, flags_win_over_the_file);
	tcase_add_test(tc, every_flag_is_understood);
	tcase_add_test(tc, a_bad_flag_value_names_flag_and_expectation);
	tcase_add_test(tc, an_ssd_flag_without_size_or_dir_is_refused);
	tcase_add_test(tc, an_unknown_flag_is_refused_by_name);
	tcase_add_test(tc, a_flag_cannot_smuggle_other_settings);
	tcase_add_test(tc, a_file_that_cannot_be_read_is_named);
	tcase_add_test(tc, a_mistake_in_the_file_names_the_file);
	tcase_add_test(tc, check_config_help_and_version_end_without_error);
	tcase_add_test(tc, no_role_at_all_is_refused);
	tcase_add_test(tc,
		       the_socket_is_below_the_users_runtime_directory);
	suite_add_tcase(s, tc);
	srunner_run_all(sr, CK_NORMAL);
	failed = srunner_ntests_failed(sr);
	srunner_free(sr);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
