// SPDX-License-Identifier: Apache-2.0
/*
 * copies.c - what a put by copy costs, in copies of as many bytes
 *
 * Each figure is the least of interleaved rounds: what else the host does only
 * adds to one. For a guest with one CPU: in an emulated one, to wake
 * another that is halted costs as much as a copy.
 */
#include "cost.h"

#define NAME	"copies"
#define VALUE	(4 * MIB)

static struct owner owner = { .slot = VALUE };
static struct client client;

static void start(void)
{
	owner_start(&owner, NAME, 64 * MIB);
	owner_serve(&owner);
	client_start(&client, NAME);
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
	u64 put[COST_ROUNDS], copy[COST_ROUNDS];

	CHECK(from != MAP_FAILED && fd >= 0);
	start();
	fill(from, VALUE, 1);
	copy_alone(fd, from);
	for (u32 i = 0; i < COST_ROUNDS; i++) {
		u64 began;

		copy[i] = copy_alone(fd, from);
		began = now_ns();
		EQ(put_copy(&client, "value", from, VALUE), 0);
		put[i] = now_ns() - began;
	}
	cost_hold("a put of 4 MiB, in its copy alone", cost_least(put),
		cost_least(copy), 130);
	client_stop(&client);
}

static const struct test tests[] = {
	LONG_TEST(put_costs_little_more_than_its_copy, 120),
};

int main(int argc, char **argv)
{
	return TESTS_RUN(tests, argc, argv);
}
