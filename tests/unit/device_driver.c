// SPDX-License-Identifier: Apache-2.0
#include <check.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/hash.h"
#include "device_driver.h"

char device_dir[128];
char device_why[512];
uint8_t *device_segment;
struct fkv_device *device;

/* Results, by the order of their arrival. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t more = PTHREAD_COND_INITIALIZER;
struct fkv_io_result device_result[RESULTS];
int device_results;
uint64_t device_sums[16];
unsigned int device_nr_sums;

static void on_done(void *arg, const struct fkv_io_result *res)
{
	(void)arg;
	pthread_mutex_lock(&lock);
	ck_assert_int_lt(device_results, RESULTS);
	device_result[device_results++] = *res;
	/* they are the device's only until this returns */
	if (res->sums && !res->res)
		memcpy(device_sums, res->sums,
		       device_nr_sums * sizeof(device_sums[0]));
	pthread_cond_broadcast(&more);
	pthread_mutex_unlock(&lock);
}

void device_wait(int n)
{
	pthread_mutex_lock(&lock);
	while (device_results < n)
		pthread_cond_wait(&more, &lock);
	pthread_mutex_unlock(&lock);
}

static const char *base_of(int i)
{
	const char *tmp = getenv("TMPDIR");

	return i & 1 ? "/dev/shm" : tmp ? tmp : "/var/tmp";
}

void device_make_dir(int i)
{
	snprintf(device_dir, sizeof(device_dir), "%s/fkv-test-XXXXXX",
		 base_of(i));
	ck_assert_ptr_nonnull(mkdtemp(device_dir));
}

void device_remove_dir(void)
{
	char cmd[256];

	snprintf(cmd, sizeof(cmd), "rm -rf '%s'", device_dir);
	ck_assert_int_eq(system(cmd), 0);
}

static const enum fkv_engine_kind device_engine[] = {
	FKV_ENGINE_KIND_AUTO, FKV_ENGINE_KIND_THREADS,
	FKV_ENGINE_KIND_URING_IOVEC,
};

struct fkv_device_config device_config(int i)
{
	return (struct fkv_device_config){
		.path = device_dir,
		.cluster = "local",
		.instance = "host.1",
		.limit = LIMIT,
		.nr_shards = FKV_SHARDS_PER_DEVICE,
		.incarnation = 7,
		.engine = device_engine[i / 2],
		.io_depth = 16,
		.read_weight = 2,
		.segment = device_segment,
		.segment_bytes = SEGMENT,
		.done = on_done,
	};
}

void device_open_with(const struct fkv_device_config *cfg)
{
	int res = fkv_device_open(cfg, &device, device_why, sizeof(device_why));

	ck_assert_msg(!res, "%d: %s", res, device_why);
	ck_assert_int_eq(fkv_device_start(device), 0);
}

void device_setup(void)
{
	device_results = 0;
	device = NULL;
	device_segment = mmap(NULL, SEGMENT, PROT_READ | PROT_WRITE,
		       MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	ck_assert_ptr_ne(device_segment, MAP_FAILED);
}

void device_setup_open(int i)
{
	struct fkv_device_config cfg;

	device_setup();
	device_make_dir(i);
	cfg = device_config(i);
	device_open_with(&cfg);
}

void device_teardown(void)
{
	fkv_device_close(device);
	munmap(device_segment, SEGMENT);
	device_remove_dir();
}

void device_fill(uint8_t *p, uint64_t len, uint32_t seed)
{
	for (uint64_t i = 0; i < len; i++) {
		seed = seed * 1664525 + 1013904223;
		p[i] = (uint8_t)(seed >> 24);
	}
}

struct fkv_io_request device_request(enum fkv_io_kind kind, uint64_t token,
				     uint64_t memory, uint64_t len)
{
	struct fkv_io_request r = {
		.token = token,
		.kind = kind,
		.memory = device_segment + memory,
		.len = len,
		.sum_seed = 42,
		.seq = 5,
		.put_id = 9,
		.sum = fkv_sum_payload(42, device_segment + memory, len),
		.key_len = 3,
		.key = "key",
	};
	uint64_t unit = fkv_device_unit(device);

	r.entry_len = unit + fkv_align_up(len, unit);
	return r;
}

void device_submit(const struct fkv_io_request *r)
{
	ck_assert_int_eq(fkv_device_submit(device, r), 0);
}

struct fkv_io_result device_run(const struct fkv_io_request *r)
{
	int n = device_results;

	device_submit(r);
	device_wait(n + 1);
	return device_result[n];
}

void device_write_and_read_back(uint64_t len, uint64_t vpos)
{
	struct fkv_io_request w, r;
	struct fkv_io_result res;
	uint64_t to = 32 * FKV_MIB;

	device_fill(device_segment, fkv_extent_bytes(len), (uint32_t)len);
	memset(device_segment + to, 0, fkv_extent_bytes(len));
	memset(device_segment + to + fkv_extent_bytes(len), 0x77, 4096);
	w = device_request(FKV_IO_WRITE, 1, 0, len);
	w.vpos = vpos;
	w.shard = (uint32_t)(len % FKV_SHARDS_PER_DEVICE);
	ck_assert_int_eq(device_run(&w).res, 0);
	r = device_request(FKV_IO_READ, 2, to, len);
	r.vpos = vpos;
	r.shard = w.shard;
	res = device_run(&r);
	ck_assert_int_eq(res.res, 0);
	ck_assert_uint_eq(res.token, 2);
	ck_assert_uint_eq(res.sum, w.sum);
	ck_assert(!memcmp(device_segment, device_segment + to, len));
	for (int i = 0; i < 4096; i++)
		ck_assert_uint_eq(
			device_segment[to + fkv_extent_bytes(len) + i], 0x77);
}

void device_read_block(uint32_t shard, uint64_t offset, uint8_t *block)
{
	char path[256];
	int fd;

	snprintf(path, sizeof(path), "%s/shard-%03u", fkv_device_path(device),
		 shard);
	fd = open(path, O_RDONLY);
	ck_assert_int_ge(fd, 0);
	ck_assert_int_eq(pread(fd, block, FKV_BLOCK, (off_t)offset),
			 FKV_BLOCK);
	close(fd);
}
