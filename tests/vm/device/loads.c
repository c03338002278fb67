// SPDX-License-Identifier: Apache-2.0
/*
 * loads.c - the module comes and goes, and leaves nothing behind
 *
 * loads MODULE.ko: the module is not loaded before, nor after.
 */
#include <sched.h>

#include "common.h"

#define NAME	"loads"
#define SEGMENT	(16 * MIB)
#define SLOT	(64 * 1024ULL)

static const char *module;
static struct owner owner = { .slot = SLOT };

static int load(const char *parameters)
{
	int fd = open(module, O_RDONLY | O_CLOEXEC), err;

	CHECK(fd >= 0);
	err = syscall(SYS_finit_module, fd, parameters, 0) ? -errno : 0;
	close(fd);
	return err;
}

static int unload(void)
{
	return syscall(SYS_delete_module, "fluxonkv", O_NONBLOCK) ?
		-errno : 0;
}

/* Messages that are on their way hold a reference for a moment. */
static void unload_soon(void)
{
	int err = -1;

	for (u32 i = 0; i < 500 && err; i++) {
		err = unload();
		if (err)
			sleep_ms(10);
	}
	EQ(err, 0);
}

static void stay_on_one_cpu(void)
{
	cpu_set_t one;

	CPU_ZERO(&one);
	CPU_SET(0, &one);
	EQ(sched_setaffinity(0, sizeof(one), &one), 0);
}

/*
 * All of an instance's calls, in a process that ends with it. In an emulated
 * guest to wake another CPU costs as much as some hundred calls: only some
 * rounds have it.
 */
static void traffic(bool one_cpu)
{
	static u8 from[SLOT];
	struct fluxonkv_result res;
	struct client c;
	pid_t pid = spawn();

	if (pid) {
		EQ(reap(pid), 0);
		return;
	}
	if (one_cpu)
		stay_on_one_cpu();
	owner_start(&owner, NAME, SEGMENT);
	owner_serve(&owner);
	client_start(&c, NAME);
	for (u32 i = 0; i < 100; i++) {
		char key[16];

		sprintf(key, "key%u", i);
		EQ(put_copy(&c, key, from, 4096), 0);
		EQ(get(&c, key, &res), 0);
		if (i % 2)
			EQ(release(&c, res.id), 0);
		EQ(c.seg[res.offset], 0);
	}
	EQ(put_begin(&c, "open", SLOT, &res), 0);
	c.win[res.offset] = 1;
	_exit(0);
}

/* KiB of slabs and of page tables: what a leak would add to. */
static u64 kernel_memory(void)
{
	FILE *f = fopen("/proc/meminfo", "r");
	u64 kib, sum = 0;
	char line[256];

	CHECK(f);
	while (fgets(line, sizeof(line), f))
		if (sscanf(line, "SUnreclaim: %lu", &kib) == 1 ||
		    sscanf(line, "VmallocUsed: %lu", &kib) == 1 ||
		    sscanf(line, "PageTables: %lu", &kib) == 1)
			sum += kib;
	fclose(f);
	return sum;
}

static u64 free_memory(void)
{
	FILE *f = fopen("/proc/meminfo", "r");
	char line[256];
	u64 kib = 0;

	CHECK(f);
	while (fgets(line, sizeof(line), f))
		if (sscanf(line, "MemAvailable: %lu", &kib) == 1)
			break;
	fclose(f);
	return kib;
}

static void it_loads_and_unloads(void)
{
	u32 rounds = full_run() ? 500 : 20, warm = rounds / 4;
	u64 kernel = 0, before = 0, began = now_ns();

	for (u32 i = 0; i < rounds; i++) {
		if (i == warm) {
			kernel = kernel_memory();
			before = free_memory();
		}
		EQ(load(""), 0);
		EQ(load(""), -EEXIST);
		traffic(i % 8);
		EQ(pinned(), 0);
		unload_soon();
	}
	sleep_ms(500);
	printf("    %u times, %llu s\n", rounds,
	       (now_ns() - began) / SEC_NS);
	printf("    kernel memory: %lu KiB, then %lu; available: %lu, %lu\n",
	       kernel, kernel_memory(), before, free_memory());
	CHECK(kernel_memory() < kernel + 2048);
	CHECK(free_memory() + 16384 > before);
}

static void it_stays_while_it_is_used(void)
{
	struct fluxonkv_result res;
	struct client c;
	int fd;

	EQ(load(""), 0);
	fd = client_node();
	EQ(unload(), -EAGAIN);
	close(fd);
	owner_start(&owner, NAME, SEGMENT);
	EQ(unload(), -EAGAIN);
	close(owner.fd);
	EQ(unload(), -EAGAIN);
	/* only the owner's mapping is left: it is alive */
	client_start(&c, NAME);
	EQ(c.seg[0], 0);
	munmap(owner.map, SEGMENT);
	EQ(unload(), -EAGAIN);
	close(c.fd);
	munmap(c.win, SEGMENT);
	EQ(get(&c, "k", &res), -EBADF);
	EQ(unload(), -EAGAIN);
	EQ(probe_read(c.seg), -SIGBUS);
	munmap((void *)c.seg, SEGMENT);
	unload_soon();
}

static void parameter_limits_what_is_pinned(void)
{
	struct fluxonkv_segment s = {
		.size = sizeof(s), .bytes = 6 * MIB,
	};
	struct fluxonkv_bind b = {
		.size = sizeof(b), .name = NAME, .clients_max = 1,
	};
	int fd;

	EQ(load("max_pinned_bytes=8388608"), 0);
	fd = owner_node();
	EQ(ask(fd, FLUXONKV_IOC_BIND, &b), 0);
	EQ(ask(fd, FLUXONKV_IOC_SEGMENT_CREATE, &s), 0);
	EQ(s.pinned, 6 * MIB);
	EQ(s.pinned_max, 8 * MIB);
	strcpy(b.name, "second");
	fd = owner_node();
	EQ(ask(fd, FLUXONKV_IOC_BIND, &b), 0);
	EQ(ask(fd, FLUXONKV_IOC_SEGMENT_CREATE, &s), -ENOSPC);
	EQ(s.pinned, 6 * MIB);
	s.bytes = 2 * MIB;
	EQ(ask(fd, FLUXONKV_IOC_SEGMENT_CREATE, &s), 0);
	EQ(pinned(), 8 * MIB);
}

/* The frame looks at the module after each test: here it is not there. */
int main(int argc, char **argv)
{
	static void (*const tests[])(void) = {
		it_stays_while_it_is_used,
		parameter_limits_what_is_pinned,
		it_loads_and_unloads,
	};
	static const char *const names[] = {
		"it_stays_while_it_is_used",
		"parameter_limits_what_is_pinned",
		"it_loads_and_unloads",
	};
	u32 failed = 0;

	setbuf(stdout, NULL);
	if (argc != 2)
		return 2;
	module = argv[1];
	for (u32 i = 0; i < ARRAY_SIZE(tests); i++) {
		pid_t pid = fork();
		bool ok;

		if (!pid) {
			tests[i]();
			_exit(0);
		}
		ok = !reap(pid);
		unload();
		failed += !ok;
		printf("%s %s\n", ok ? "ok" : "FAIL", names[i]);
	}
	printf("%zu tests, %u failed\n", ARRAY_SIZE(tests), failed);
	return failed != 0;
}
