// SPDX-License-Identifier: Apache-2.0
/*
 * nth_device - a device on a real file, with each engine
 *
 * What it says to have read is what was written; what met a failure ends with
 * an error, or was tried again. It then goes on, and stops.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/base.h"
#include "base/hash.h"
#include "io/device.h"
#include "nth.h"

#define LIMIT	(32 * FKV_MIB)
#define SEGMENT	(16 * FKV_MIB)
#define READ_AT	(8 * FKV_MIB)

enum fault { OF_MEMORY, OF_EIO, OF_SHORT, OF_EAGAIN, OF_ENOSPC };

static const char *const fault_name[] = {
	"memory", "EIO", "short", "EAGAIN", "ENOSPC",
};
static const int fault_errno[] = {
	-ENOMEM, -EIO, -EIO, -EIO, -ENOSPC,
};

struct device_case {
	const char *engine;
	enum fkv_engine_kind kind;
	enum fault fault;
};

struct piece {
	uint64_t len, skew;		/* skew: of memory, for a bounce */
};

static const struct piece pieces[] = {
	{ 1, 0 }, { 4096, 0 }, { 4097, 0 }, { 65536, 0 }, { 70001, 13 },
	{ 2796202, 0 },
};

static char dir[64];
static uint8_t *segment;
static struct fkv_device *device;
static const struct device_case *now;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t more = PTHREAD_COND_INITIALIZER;
static struct fkv_io_result result;
static bool have;

static void on_done(void *arg, const struct fkv_io_result *res)
{
	(void)arg;
	pthread_mutex_lock(&lock);
	nth_check(!have, "a request is done twice");
	result = *res;
	have = true;
	pthread_cond_broadcast(&more);
	pthread_mutex_unlock(&lock);
}

static int shim(void *arg, struct fkv_piece *p, uint64_t *len)
{
	(void)arg;
	(void)p;
	if (!nth_io_fails())
		return 0;
	if (now->fault == OF_SHORT) {
		*len = *len / 2;
		return 0;
	}
	return now->fault == OF_EIO ? -EIO :
	       now->fault == OF_EAGAIN ? -EAGAIN : -ENOSPC;
}

static struct fkv_device_config config(void)
{
	return (struct fkv_device_config){
		.path = dir,
		.cluster = "local",
		.instance = "host.1",
		.limit = LIMIT,
		.nr_shards = FKV_SHARDS_PER_DEVICE,
		.incarnation = 7,
		.engine = now->kind,
		.io_depth = 4,
		.read_weight = 2,
		.segment = segment,
		.segment_bytes = SEGMENT,
		.done = on_done,
		.shim = now->fault == OF_MEMORY ? NULL : shim,
	};
}

static void fill(uint8_t *p, uint64_t len, uint64_t seed)
{
	for (uint64_t i = 0; i < len; i++) {
		seed = seed * 6364136223846793005u + 1442695040888963407u;
		p[i] = (uint8_t)(seed >> 56);
	}
}

/* 0 or the error, which must have had a reason. */
static int run(const struct fkv_io_request *r)
{
	uint64_t before = nth_failures();
	int res;

	have = false;
	res = fkv_device_submit(device, r);
	if (!res) {
		pthread_mutex_lock(&lock);
		while (!have)
			pthread_cond_wait(&more, &lock);
		pthread_mutex_unlock(&lock);
		nth_check(result.token == r->token && result.kind == r->kind,
			  "the result is another's");
		res = result.res;
	}
	nth_check(!res || (res == fault_errno[now->fault] &&
			   nth_failures() > before),
		  "%s of %lu bytes returns %d, %lu failures since",
		  r->kind == FKV_IO_READ ? "read" : "write", r->len, res,
		  nth_failures() - before);
	nth_check(!res || nth.what != NTH_ONE ||
		  (now->fault != OF_SHORT && now->fault != OF_EAGAIN),
		  "one %s is not tried again: %d", fault_name[now->fault], res);
	return res;
}

static struct fkv_io_request request(enum fkv_io_kind kind,
				     const struct piece *p, uint64_t at)
{
	uint64_t unit = fkv_device_unit(device);
	struct fkv_io_request r = {
		.token = p->len * 2 + kind,
		.kind = kind,
		.shard = (uint32_t)(p->len % FKV_SHARDS_PER_DEVICE),
		.memory = segment + at + p->skew,
		.len = p->len,
		.entry_len = unit + fkv_align_up(p->len, unit),
		.sum_seed = 42,
		.seq = 5,
		.put_id = 9,
		.key_len = 3,
		.key = "key",
	};

	r.sum = fkv_sum_payload(42, r.memory, r.len);
	return r;
}

static void write_and_read(const struct piece *p)
{
	struct fkv_io_request w, r;
	uint8_t *behind;

	fill(segment + p->skew, p->len, p->len);
	memset(segment + READ_AT, 0x77, SEGMENT - READ_AT);
	w = request(FKV_IO_WRITE, p, 0);
	if (run(&w))
		return;
	r = request(FKV_IO_READ, p, READ_AT);
	if (run(&r))
		return;
	nth_check(!memcmp(w.memory, r.memory, p->len),
		  "%lu bytes: others are read than were written", p->len);
	nth_check(result.sum == w.sum, "%lu bytes: the sum is wrong", p->len);
	behind = (uint8_t *)r.memory + fkv_extent_bytes(p->len);
	nth_check(*behind == 0x77, "%lu bytes: written behind the extent",
		  p->len);
}

static void error(const char *call, int err, const char *why)
{
	/* threads: EAGAIN is what a thread without memory says */
	nth_check((err == -ENOMEM || err == -EAGAIN) && nth_failures(),
		  "%s: %d (%s)", call, err, why);
}

static bool start(void)
{
	struct fkv_device_config cfg = config();
	char why[512] = "";
	int err = fkv_device_open(&cfg, &device, why, sizeof(why));

	if (err) {
		error("open", err, why);
		nth_check(why[0], "open says nothing to its %d", err);
		return false;
	}
	err = fkv_device_start(device);
	if (err) {
		error("start", err, "");
		fkv_device_close(device);
		return false;
	}
	return true;
}

static void scenario(void *arg)
{
	static const struct piece again = { 5000, 0 };

	now = arg;
	nth_arm();
	if (!start())
		return;
	for (size_t i = 0; i < FKV_ARRAY_SIZE(pieces); i++)
		write_and_read(&pieces[i]);
	nth_heal();
	write_and_read(&again);
	fkv_device_stop(device);
	fkv_device_close(device);
	nth_disarm();
}

static void remove_files(void)
{
	char cmd[128];

	snprintf(cmd, sizeof(cmd), "rm -rf '%s'/*", dir);
	if (system(cmd))
		nth_wrong("cannot remove files below %s", dir);
}

/* From no file at all; the second time all is well. */
static void first_open(void *arg)
{
	now = arg;
	remove_files();
	nth_arm();
	if (start())
		fkv_device_close(device);
	nth_heal();
	nth_check(start(), "it does not open afterwards");
	fkv_device_close(device);
	nth_disarm();
}

static const struct device_case engines[] = {
	{ "threads", FKV_ENGINE_KIND_THREADS, OF_MEMORY },
	{ "uring", FKV_ENGINE_KIND_URING, OF_MEMORY },
	{ "uring_iovec", FKV_ENGINE_KIND_URING_IOVEC, OF_MEMORY },
};

static bool works(const struct device_case *c)
{
	struct fkv_device_config cfg;
	char why[512];

	now = c;
	cfg = config();
	if (fkv_device_open(&cfg, &device, why, sizeof(why)))
		return false;
	fkv_device_close(device);
	return true;
}

static void engine(const struct device_case *c)
{
	char name[64];

	if (!works(c)) {
		nth_skip(c->engine, "not on this host");
		return;
	}
	snprintf(name, sizeof(name), "%s, first open", c->engine);
	nth_all(name, first_open, (void *)c);
	snprintf(name, sizeof(name), "%s, memory", c->engine);
	nth_all(name, scenario, (void *)c);
	for (int f = OF_EIO; f <= OF_ENOSPC; f++) {
		struct device_case of = *c;

		of.fault = (enum fault)f;
		snprintf(name, sizeof(name), "%s, %s", c->engine,
			 fault_name[f]);
		nth_all_io(name, scenario, &of);
	}
}

int main(void)
{
	const char *tmp = getenv("TMPDIR");

	snprintf(dir, sizeof(dir), "%s/fkv-nth-XXXXXX",
		 tmp && strlen(tmp) < 40 ? tmp : "/var/tmp");
	segment = mmap(NULL, SEGMENT, PROT_READ | PROT_WRITE,
		       MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (segment == MAP_FAILED || !mkdtemp(dir)) {
		perror(dir);
		return EXIT_FAILURE;
	}
	for (size_t i = 0; i < FKV_ARRAY_SIZE(engines); i++)
		engine(&engines[i]);
	remove_files();
	rmdir(dir);
	munmap(segment, SEGMENT);
	return nth_end();
}
