// SPDX-License-Identifier: Apache-2.0
/*
 * Real files: below $TMPDIR or /var/tmp (a disk: O_DIRECT), and in /dev/shm
 * (tmpfs: whatever it allows). Each case runs on both and with both engines.
 */
#define _GNU_SOURCE 1
#include <check.h>
#include <dirent.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/base.h"
#include "base/hash.h"
#include "core/ssd/ondisk.h"
#include "io/device.h"
#include "io/shard.h"

#define LIMIT		(64 * FKV_MIB)
#define SEGMENT		(64 * FKV_MIB)
#define RESULTS		16384

static char dir[128];
static char err[512];
static uint8_t *segment;
static struct fkv_device *dev;

/* Results, by the order of their arrival. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t more = PTHREAD_COND_INITIALIZER;
static struct fkv_io_result result[RESULTS];
static int nr_results;

static void on_done(void *arg, const struct fkv_io_result *res)
{
	(void)arg;
	pthread_mutex_lock(&lock);
	ck_assert_int_lt(nr_results, RESULTS);
	result[nr_results++] = *res;
	pthread_cond_broadcast(&more);
	pthread_mutex_unlock(&lock);
}

static void wait_results(int n)
{
	pthread_mutex_lock(&lock);
	while (nr_results < n)
		pthread_cond_wait(&more, &lock);
	pthread_mutex_unlock(&lock);
}

/* Loop cases: bit 0 tmpfs, bit 1 threads. */
#define CASES	4

static const char *base_of(int i)
{
	const char *tmp = getenv("TMPDIR");

	return i & 1 ? "/dev/shm" : tmp ? tmp : "/var/tmp";
}

static void make_dir(int i)
{
	snprintf(dir, sizeof(dir), "%s/fkv-test-XXXXXX", base_of(i));
	ck_assert_ptr_nonnull(mkdtemp(dir));
}

static void remove_dir(void)
{
	char cmd[256];

	snprintf(cmd, sizeof(cmd), "rm -rf '%s'", dir);
	ck_assert_int_eq(system(cmd), 0);
}

static struct fkv_device_config config(int i)
{
	return (struct fkv_device_config){
		.path = dir,
		.cluster = "local",
		.instance = "host.1",
		.limit = LIMIT,
		.nr_shards = FKV_SHARDS_PER_DEVICE,
		.incarnation = 7,
		.engine = i & 2 ? FKV_ENGINE_KIND_THREADS :
			  FKV_ENGINE_KIND_AUTO,
		.io_depth = 16,
		.read_weight = 2,
		.segment = segment,
		.segment_bytes = SEGMENT,
		.done = on_done,
	};
}

static void open_with(const struct fkv_device_config *cfg)
{
	int res = fkv_device_open(cfg, &dev, err, sizeof(err));

	ck_assert_msg(!res, "%d: %s", res, err);
	ck_assert_int_eq(fkv_device_start(dev), 0);
}

static void setup(void)
{
	nr_results = 0;
	dev = NULL;
	segment = mmap(NULL, SEGMENT, PROT_READ | PROT_WRITE,
		       MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	ck_assert_ptr_ne(segment, MAP_FAILED);
}

static void setup_device(int i)
{
	struct fkv_device_config cfg;

	setup();
	make_dir(i);
	cfg = config(i);
	open_with(&cfg);
}

static void teardown(void)
{
	fkv_device_close(dev);
	munmap(segment, SEGMENT);
	remove_dir();
}

static void fill(uint8_t *p, uint64_t len, uint32_t seed)
{
	for (uint64_t i = 0; i < len; i++) {
		seed = seed * 1664525 + 1013904223;
		p[i] = (uint8_t)(seed >> 24);
	}
}

static struct fkv_io_request request(enum fkv_io_kind kind, uint64_t token,
				     uint64_t memory, uint64_t len)
{
	struct fkv_io_request r = {
		.token = token,
		.kind = kind,
		.memory = segment + memory,
		.len = len,
		.sum_seed = 42,
		.seq = 5,
		.put_id = 9,
		.sum = fkv_sum_payload(42, segment + memory, len),
		.key_len = 3,
		.key = "key",
	};
	uint64_t unit = fkv_device_unit(dev);

	r.entry_len = unit + fkv_align_up(len, unit);
	return r;
}

static void submit(const struct fkv_io_request *r)
{
	ck_assert_int_eq(fkv_device_submit(dev, r), 0);
}

static struct fkv_io_result run(const struct fkv_io_request *r)
{
	int n = nr_results;

	submit(r);
	wait_results(n + 1);
	return result[n];
}

static const uint64_t sizes[] = {
	1, 511, 4095, 4096, 4097, 65536, 1048576, 1048577, 2796202, 9000001,
};

static void write_and_read_back(uint64_t len, uint64_t vpos)
{
	struct fkv_io_request w, r;
	struct fkv_io_result res;
	uint64_t to = 32 * FKV_MIB;

	fill(segment, fkv_extent_bytes(len), (uint32_t)len);
	memset(segment + to, 0, fkv_extent_bytes(len));
	memset(segment + to + fkv_extent_bytes(len), 0x77, 4096);
	w = request(FKV_IO_WRITE, 1, 0, len);
	w.vpos = vpos;
	w.shard = (uint32_t)(len % FKV_SHARDS_PER_DEVICE);
	ck_assert_int_eq(run(&w).res, 0);
	r = request(FKV_IO_READ, 2, to, len);
	r.vpos = vpos;
	r.shard = w.shard;
	res = run(&r);
	ck_assert_int_eq(res.res, 0);
	ck_assert_uint_eq(res.token, 2);
	ck_assert_uint_eq(res.sum, w.sum);
	ck_assert(!memcmp(segment, segment + to, len));
	for (int i = 0; i < 4096; i++)
		ck_assert_uint_eq(segment[to + fkv_extent_bytes(len) + i],
				  0x77);
}

/* S8, S9, A6 */
START_TEST(what_was_written_is_read_and_nothing_behind_the_extent)
{
	uint64_t last, size;

	setup_device(_i);
	for (size_t i = 0; i < FKV_ARRAY_SIZE(sizes); i++)
		write_and_read_back(sizes[i], 0);
	/* the end of the ring, a later lap */
	size = fkv_device_ring_size(dev);
	last = size - 2 * fkv_device_unit(dev);
	write_and_read_back(4095, last + 3 * size);
	teardown();
}
END_TEST

START_TEST(memory_that_is_not_aligned_goes_through_a_bounce)
{
	struct fkv_io_request w, r;
	struct fkv_io_result res;
	uint64_t len = 3000001, to = 32 * FKV_MIB + 13;

	setup_device(_i);
	fill(segment + 7, len, 3);
	w = request(FKV_IO_WRITE, 1, 7, len);
	ck_assert_int_eq(run(&w).res, 0);
	memset(segment + to, 0x55, len + 64);
	r = request(FKV_IO_READ, 2, to, len);
	res = run(&r);
	ck_assert_int_eq(res.res, 0);
	ck_assert_uint_eq(res.sum, w.sum);
	ck_assert(!memcmp(segment + 7, segment + to, len));
	teardown();
}
END_TEST

static void read_block(uint32_t shard, uint64_t offset, uint8_t *block)
{
	char path[256];
	int fd;

	snprintf(path, sizeof(path), "%s/shard-%03u", fkv_device_path(dev),
		 shard);
	fd = open(path, O_RDONLY);
	ck_assert_int_ge(fd, 0);
	ck_assert_int_eq(pread(fd, block, FKV_BLOCK, (off_t)offset),
			 FKV_BLOCK);
	close(fd);
}

/* S7, ondisk.md */
START_TEST(entries_and_skips_on_disk_describe_themselves)
{
	uint8_t block[FKV_BLOCK];
	struct fkv_superblock sb;
	struct fkv_entry_info info;
	struct fkv_io_request w;
	uint64_t unit;

	setup_device(_i);
	unit = fkv_device_unit(dev);
	fill(segment, 5000, 1);
	w = request(FKV_IO_WRITE, 1, 0, 5000);
	w.shard = 2;
	w.vpos = fkv_device_ring_size(dev);
	w.skip_len = 4 * unit;
	w.skip_vpos = w.vpos - w.skip_len;
	ck_assert_int_eq(run(&w).res, 0);

	read_block(2, 0, block);
	ck_assert_int_eq(fkv_superblock_decode(block, &sb), 0);
	ck_assert_uint_eq(sb.shard, 2);
	ck_assert_uint_eq(sb.nr_shards, FKV_SHARDS_PER_DEVICE);
	ck_assert_uint_eq(sb.ring_size, fkv_device_ring_size(dev));

	read_block(2, unit, block);
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

	read_block(2, unit + sb.ring_size - 4 * unit, block);
	ck_assert_int_eq(fkv_entry_decode(block, &info), 0);
	ck_assert_uint_eq(info.type, FKV_ENTRY_SKIP);
	ck_assert_uint_eq(info.entry_len, 4 * unit);
	teardown();
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

	setup();
	make_dir(i);
	shim_calls = 0;
	cfg = config(i);
	cfg.shim = shim;
	cfg.shim_arg = arg;
	open_with(&cfg);
}

START_TEST(short_transfers_resume_with_pointer_and_offset)
{
	uint64_t cuts[] = { 4096, 4096 * 3 + 17, 999, 1 };

	for (size_t c = 0; c < FKV_ARRAY_SIZE(cuts); c++) {
		struct fkv_device_stats ds;

		setup_shim(_i, shim_short, &cuts[c]);
		write_and_read_back(2796202, 0);
		write_and_read_back(9000001, 0);
		fkv_device_get_stats(dev, &ds);
		ck_assert_uint_gt(ds.short_ios, 0);
		teardown();
	}
}
END_TEST

START_TEST(busy_and_interrupted_transfers_are_sent_again)
{
	struct fkv_device_stats ds;

	setup_shim(_i, shim_busy, NULL);
	write_and_read_back(2796202, 0);
	fkv_device_stop(dev);
	fkv_device_get_stats(dev, &ds);
	ck_assert_uint_gt(ds.retries, 0);
	teardown();
}
END_TEST

START_TEST(an_error_ends_the_request_once_and_the_thread_lives)
{
	int error = -EIO;
	struct fkv_io_request r;

	setup_shim(_i, shim_error, &error);
	r = request(FKV_IO_READ, 1, 0, 9000001);
	ck_assert_int_eq(run(&r).res, -EIO);
	r = request(FKV_IO_WRITE, 2, 0, 9000001);
	ck_assert_int_eq(run(&r).res, -EIO);
	error = -EBUSY;
	ck_assert_int_eq(run(&r).res, -EIO);
	error = -ENOSPC;
	ck_assert_int_eq(run(&r).res, -ENOSPC);
	error = 0;
	write_and_read_back(65536, 0);
	ck_assert_int_eq(nr_results, 6);
	teardown();
}
END_TEST

START_TEST(end_of_file_ends_a_read)
{
	struct fkv_io_request r;

	setup_shim(_i, shim_eof, NULL);
	r = request(FKV_IO_READ, 1, 0, 3 * FKV_MIB);
	ck_assert_int_eq(run(&r).res, -EIO);
	ck_assert_uint_le(shim_calls, 3);
	teardown();
}
END_TEST

START_TEST(every_request_completes_exactly_once_at_any_depth)
{
	static uint8_t seen[4000];
	struct fkv_device_config cfg;
	struct fkv_device_stats ds;

	setup();
	make_dir(_i);
	cfg = config(_i);
	cfg.io_depth = 4;
	open_with(&cfg);
	memset(seen, 0, sizeof(seen));
	for (uint64_t t = 0; t < 4000; t++) {
		uint64_t at = t * 8192;
		struct fkv_io_request r = request(t % 3 ? FKV_IO_READ :
			FKV_IO_WRITE, t, at, 8192);

		r.warm = t % 5 == 0;
		r.shard = t % 4;
		r.vpos = t % 100 * 12288;
		while (fkv_device_submit(dev, &r))
			sched_yield();
	}
	wait_results(4000);
	fkv_device_stop(dev);
	ck_assert_int_eq(nr_results, 4000);
	for (int i = 0; i < 4000; i++) {
		ck_assert_int_eq(result[i].res, 0);
		ck_assert_uint_eq(seen[result[i].token]++, 0);
	}
	fkv_device_get_stats(dev, &ds);
	ck_assert_uint_eq(ds.inflight + ds.queued, 0);
	ck_assert_uint_eq(ds.reads + ds.writes, 4000);
	teardown();
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
	fkv_device_stop(dev);
	return NULL;
}

START_TEST(stop_finishes_what_began_and_cancels_the_rest)
{
	pthread_mutex_t gate = PTHREAD_MUTEX_INITIALIZER;
	struct fkv_io_request r;
	pthread_t t;
	int res, sent = 200, done = 0;

	setup_shim(_i, shim_gate, &gate);
	r = request(FKV_IO_WRITE, 0, 0, 4096);
	pthread_mutex_lock(&gate);
	for (int i = 0; i < 200; i++) {
		r.token = (uint64_t)i;
		submit(&r);
	}
	while (!shim_calls)
		sched_yield();
	pthread_create(&t, NULL, stop_device, NULL);
	while ((res = fkv_device_submit(dev, &r)) != -ESHUTDOWN)
		sent += !res;
	pthread_mutex_unlock(&gate);
	pthread_join(t, NULL);
	ck_assert_int_eq(nr_results, sent);
	for (int i = 0; i < nr_results; i++) {
		ck_assert(!result[i].res || result[i].res == -ECANCELED);
		done += !result[i].res;
	}
	ck_assert_int_lt(done, nr_results);
	teardown();
}
END_TEST

START_TEST(a_device_that_never_started_cancels)
{
	struct fkv_device_config cfg;
	struct fkv_io_request r;

	setup();
	make_dir(_i);
	cfg = config(_i);
	ck_assert_int_eq(fkv_device_open(&cfg, &dev, err, sizeof(err)), 0);
	r = request(FKV_IO_READ, 1, 0, 4096);
	submit(&r);
	fkv_device_stop(dev);
	ck_assert_int_eq(nr_results, 1);
	ck_assert_int_eq(result[0].res, -ECANCELED);
	teardown();
}
END_TEST

START_TEST(requests_that_make_no_sense_are_einval)
{
	struct fkv_io_request r, ok;

	setup_device(_i);
	ok = request(FKV_IO_READ, 1, 0, 8192);
	r = ok;
	r.shard = FKV_SHARDS_PER_DEVICE;
	ck_assert_int_eq(run(&r).res, -EINVAL);
	r = ok;
	r.vpos = fkv_device_ring_size(dev) - fkv_device_unit(dev);
	ck_assert_int_eq(run(&r).res, -EINVAL);
	r = ok;
	r.vpos = 1;
	ck_assert_int_eq(run(&r).res, -EINVAL);
	r = ok;
	r.len = 1ULL << 40;
	ck_assert_int_eq(run(&r).res, -EINVAL);
	r = ok;
	r.len = 0;
	ck_assert_int_eq(run(&r).res, -EINVAL);
	ck_assert_int_eq(run(&ok).res, 0);
	teardown();
}
END_TEST

/* ---- files ---- */

/* S3, S14 */
START_TEST(files_are_allocated_and_within_the_limit)
{
	uint64_t blocks = 0, bytes = 0;
	struct fkv_device_stats ds;

	setup_device(_i);
	for (uint32_t i = 0; i < FKV_SHARDS_PER_DEVICE; i++) {
		char path[256];
		struct stat st;

		snprintf(path, sizeof(path), "%s/shard-%03u",
			 fkv_device_path(dev), i);
		ck_assert_int_eq(stat(path, &st), 0);
		bytes += (uint64_t)st.st_size;
		blocks += (uint64_t)st.st_blocks * 512;
	}
	ck_assert_uint_eq(bytes, LIMIT);
	ck_assert_uint_ge(blocks, LIMIT);
	fkv_device_get_stats(dev, &ds);
	ck_assert_str_eq(ds.engine, _i & 2 ? "threads" :
			 *ds.engine_why ? "threads" : "uring");
	ck_assert(ds.direct ? !*ds.buffered_why : !!*ds.buffered_why);
	ck_assert_uint_ge(ds.alignment, 1);
	ck_assert(fkv_device_same_fs(dev, dir));
	ck_assert(!fkv_device_same_fs(dev, "/proc"));
	teardown();
}
END_TEST

/* S4, A6: what is claimed is what the descriptors say */
START_TEST(direct_is_claimed_only_where_it_is_set)
{
	struct fkv_shards_config sc = {
		.path = dir, .cluster = "c", .instance = "i",
		.limit = 1 * FKV_MIB, .nr = 2,
	};
	struct fkv_shards s;

	make_dir(_i);
	ck_assert_int_eq(fkv_shards_open(&sc, &s, err, sizeof(err)), 0);
	for (uint32_t i = 0; i < s.nr; i++)
		ck_assert_int_eq(!!(fcntl(s.fd[i], F_GETFL) & O_DIRECT),
				 s.direct);
	ck_assert_uint_eq(s.unit % s.alignment, 0);
	ck_assert_uint_eq(s.ring_size % s.unit, 0);
	fkv_shards_close(&s);
	remove_dir();
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

	setup_device(_i);
	read_block(0, 0, before);
	snprintf(pid, sizeof(pid), "pid %d", getpid());
	cfg = config(_i);
	cfg.limit = 1 * FKV_MIB;
	child = fork();
	if (!child) {
		struct fkv_device *second;
		int res = fkv_device_open(&cfg, &second, err, sizeof(err));

		_exit(res == -EBUSY && strstr(err, "locked") &&
		      strstr(err, pid) ? 0 : 1);
	}
	ck_assert_int_eq(waitpid(child, &status, 0), child);
	ck_assert_int_eq(status, 0);
	read_block(0, 0, after);
	ck_assert(!memcmp(before, after, FKV_BLOCK));
	write_and_read_back(65536, 0);
	teardown();
}
END_TEST

START_TEST(leftovers_of_another_size_are_made_right)
{
	struct fkv_device_config cfg;
	uint8_t one[FKV_BLOCK], two[FKV_BLOCK];
	char path[300];
	struct stat st;

	setup_device(_i);
	read_block(1, 0, one);
	snprintf(path, sizeof(path), "%s/shard-%03u", fkv_device_path(dev),
		 FKV_SHARDS_PER_DEVICE);
	close(open(path, O_CREAT | O_WRONLY, 0600));
	fkv_device_close(dev);
	cfg = config(_i);
	cfg.limit = LIMIT / 2;
	open_with(&cfg);
	ck_assert_int_ne(access(path, F_OK), 0);
	snprintf(path, sizeof(path), "%s/shard-001", fkv_device_path(dev));
	ck_assert_int_eq(stat(path, &st), 0);
	ck_assert_uint_eq((uint64_t)st.st_size,
			  LIMIT / 2 / FKV_SHARDS_PER_DEVICE);
	read_block(1, 0, two);
	ck_assert(memcmp(one, two, FKV_BLOCK));
	write_and_read_back(65536, 0);
	teardown();
}
END_TEST

/* A12, S1 */
START_TEST(limits_that_cannot_be_are_said_with_numbers)
{
	struct fkv_device_config cfg;
	char path[300];
	struct stat st;

	setup();
	make_dir(_i);
	cfg = config(_i);
	cfg.limit = 1ULL << 50;
	ck_assert_int_eq(fkv_device_open(&cfg, &dev, err, sizeof(err)),
			 -ENOSPC);
	ck_assert_ptr_nonnull(strstr(err, "wanted"));
	ck_assert_ptr_nonnull(strstr(err, "available"));
	snprintf(path, sizeof(path), "%s/local_cluster_kv_ssd_storage/"
		 "v1-host%%2E1/shard-000", dir);
	ck_assert_int_eq(stat(path, &st), 0);
	ck_assert_int_le(st.st_blocks, 128);
	cfg.limit = 5 * 4096;
	ck_assert_int_eq(fkv_device_open(&cfg, &dev, err, sizeof(err)),
			 -EINVAL);
	ck_assert_ptr_nonnull(strstr(err, "at least"));
	dev = NULL;
	teardown();
}
END_TEST

START_TEST(a_directory_that_cannot_be_is_a_sentence)
{
	struct fkv_device_config cfg;

	setup();
	make_dir(_i);
	cfg = config(_i);
	cfg.path = "/proc/nothing/here";
	ck_assert_int_lt(fkv_device_open(&cfg, &dev, err, sizeof(err)), 0);
	ck_assert_ptr_nonnull(strstr(err, "/proc/nothing"));
	cfg = config(_i);
	cfg.cluster = "a/b";
	ck_assert_int_eq(fkv_device_open(&cfg, &dev, err, sizeof(err)),
			 -EINVAL);
	dev = NULL;
	teardown();
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

	setup();
	make_dir(_i);
	cfg = config(_i);
	for (fail_at = 1; res; fail_at++) {
		ck_assert_int_lt(fail_at, 20);
		allocs = 0;
		fkv_alloc_fail = fail_nth;
		res = fkv_device_open(&cfg, &dev, err, sizeof(err));
		fkv_alloc_fail = NULL;
		ck_assert(!res || res == -ENOMEM);
	}
	teardown();
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

static void add_device_tests(TCase *tc)
{
	tcase_add_loop_test(tc,
		what_was_written_is_read_and_nothing_behind_the_extent,
		0, CASES);
	tcase_add_loop_test(tc,
		memory_that_is_not_aligned_goes_through_a_bounce, 0, CASES);
	tcase_add_loop_test(tc,
		entries_and_skips_on_disk_describe_themselves, 0, CASES);
	tcase_add_loop_test(tc,
		short_transfers_resume_with_pointer_and_offset, 0, CASES);
	tcase_add_loop_test(tc,
		busy_and_interrupted_transfers_are_sent_again, 0, CASES);
	tcase_add_loop_test(tc,
		an_error_ends_the_request_once_and_the_thread_lives, 0, CASES);
	tcase_add_loop_test(tc, end_of_file_ends_a_read, 0, CASES);
	tcase_add_loop_test(tc,
		every_request_completes_exactly_once_at_any_depth, 0, CASES);
	tcase_add_loop_test(tc, stop_finishes_what_began_and_cancels_the_rest,
			    0, CASES);
	tcase_add_loop_test(tc, a_device_that_never_started_cancels, 0, CASES);
	tcase_add_loop_test(tc, requests_that_make_no_sense_are_einval,
			    0, CASES);
}

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
	tcase_add_test(tc, instance_keys_become_safe_names);
}

int main(void)
{
	Suite *s = suite_create("device");
	TCase *tc = tcase_create("device");
	SRunner *sr = srunner_create(s);
	int failed;

	tcase_set_timeout(tc, 120);
	add_device_tests(tc);
	add_file_tests(tc);
	suite_add_tcase(s, tc);
	srunner_run_all(sr, CK_NORMAL);
	failed = srunner_ntests_failed(sr);
	srunner_free(sr);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
