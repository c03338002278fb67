// SPDX-License-Identifier: Apache-2.0
/*
 * costs.c - what calls cost, in empty ioctls and copies of the same run
 *
 * Each figure is the median of interleaved rounds, so that what else the host
 * does hits both sides. The limits that fail the test leave room for that.
 */
#include "common.h"

#define NAME	"costs"
#define VALUE	(4 * MIB)
#define KEYS	64
#define ROUNDS	41

static struct owner owner = { .slot = VALUE };
static struct client client;
static char key[KEYS][16];
static u8 body[8192], reply[8192];

/* Keys whose values have no bytes cost what others do. */
static void publish_keys(void)
{
	for (u32 i = 0; i < KEYS; i++) {
		snprintf(key[i], sizeof(key[i]), "block-%06u", i);
		EQ(owner_publish(&owner, key[i], 0, 0, 1000 + i), 0);
	}
}

static int by_size(const void *a, const void *b)
{
	u64 x = *(const u64 *)a, y = *(const u64 *)b;

	return x < y ? -1 : x > y;
}

static u64 median(u64 *ns)
{
	qsort(ns, ROUNDS, sizeof(*ns), by_size);
	return ns[ROUNDS / 2];
}

/* @n calls of nothing, in ns. */
static u64 empty(u32 n)
{
	u64 from = now_ns();

	for (u32 i = 0; i < n; i++)
		ioctl(client.fd, FLUXONKV_IOC_CALL + 0x80, NULL);
	return now_ns() - from;
}

/* @n gets of @keys keys; each is released, outside of the time. */
static u64 gets(u32 n, u32 keys)
{
	struct fluxonkv_result *res = (void *)(reply +
					       sizeof(struct fluxonkv_rep));
	struct item items[KEYS];
	struct fluxonkv_call get = {
		.size = sizeof(get),
		.body = (uintptr_t)body,
		.reply = (uintptr_t)reply,
		.reply_room = sizeof(reply),
	};
	u64 ids[KEYS], ns = 0;
	struct fluxonkv_call end = {
		.size = sizeof(end),
		.release = (uintptr_t)ids,
		.nr_release = keys,
	};

	for (u32 i = 0; i < keys; i++)
		items[i] = (struct item){ .key = key[i] };
	get.body_size = body_build(body, FLUXONKV_OP_GET, items, keys, SEC_NS);
	for (u32 i = 0; i < n; i++) {
		u64 from = now_ns();

		EQ(ask(client.fd, FLUXONKV_IOC_CALL, &get), 0);
		ns += now_ns() - from;
		for (u32 k = 0; k < keys; k++)
			ids[k] = res[k].id;
		EQ(ask(client.fd, FLUXONKV_IOC_CALL, &end), 0);
		EQ(end.released, keys);
	}
	return ns;
}

/* Figures as hundredths: 3.00 is 300. */
static void hold_to(const char *what, u64 cost, u64 unit, u64 goal, u64 limit)
{
	u64 ratio = cost * 100 / (unit ? unit : 1);

	printf("%s: %llu.%02llu (goal %llu.%02llu)\n", what,
	       (unsigned long long)ratio / 100,
	       (unsigned long long)ratio % 100,
	       (unsigned long long)goal / 100, (unsigned long long)goal % 100);
	CHECK(ratio <= limit);
}

static void start(void)
{
	owner_start(&owner, NAME, 64 * MIB);
	owner_serve(&owner);
	client_start(&client, NAME);
}

static void hit_costs_a_few_empty_calls(void)
{
	u64 none[ROUNDS], one[ROUNDS], many[ROUNDS];

	start();
	publish_keys();
	for (u32 i = 0; i < ROUNDS; i++) {
		none[i] = empty(500) / 500;
		one[i] = gets(500, 1) / 500;
		many[i] = gets(50, KEYS) / 50;
	}
	hold_to("a hit, in empty ioctls", median(one), median(none), 300, 1200);
	hold_to("64 hits, in empty ioctls", median(many), none[ROUNDS / 2],
		1200, 6000);
	client_stop(&client);
}

/* The kernel's own copy of as many bytes to memory that is there. */
static u64 copy_alone(int fd, const u8 *from)
{
	u64 began = now_ns();

	EQ(pwrite(fd, from, VALUE, 0), VALUE);
	return now_ns() - began;
}

static void put_costs_little_more_than_its_copy(void)
{
	u8 *from = mmap(NULL, VALUE, PROT_READ | PROT_WRITE,
			MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
	int fd = memfd_create("copy", MFD_CLOEXEC);
	u64 put[ROUNDS], copy[ROUNDS];

	CHECK(from != MAP_FAILED && fd >= 0);
	start();
	fill(from, VALUE, 1);
	copy_alone(fd, from);
	for (u32 i = 0; i < ROUNDS; i++) {
		u64 began;

		copy[i] = copy_alone(fd, from);
		began = now_ns();
		EQ(put_copy(&client, "value", from, VALUE), 0);
		put[i] = now_ns() - began;
	}
	hold_to("a put of 4 MiB, in its copy alone", median(put),
		median(copy), 130, 2000);
	client_stop(&client);
}

static const struct test tests[] = {
	LONG_TEST(hit_costs_a_few_empty_calls, 120),
	LONG_TEST(put_costs_little_more_than_its_copy, 120),
};

int main(int argc, char **argv)
{
	return TESTS_RUN(tests, argc, argv);
}
