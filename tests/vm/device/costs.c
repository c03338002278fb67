// SPDX-License-Identifier: Apache-2.0
/*
 * costs.c - what hits cost, in empty ioctls of the same run
 *
 * For a guest whose clock counts instructions (vm-check: qemu -icount), so that
 * a figure is the same in each run, whatever else the host does.
 */
#include "cost.h"

#define NAME	"costs"
#define KEYS	64

static struct owner owner = { .slot = MIB };
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

static void start(void)
{
	owner_start(&owner, NAME, 64 * MIB);
	owner_serve(&owner);
	client_start(&client, NAME);
}

static void hit_costs_a_few_empty_calls(void)
{
	u64 none[COST_ROUNDS], one[COST_ROUNDS], many[COST_ROUNDS];

	start();
	publish_keys();
	for (u32 i = 0; i < COST_ROUNDS; i++) {
		none[i] = empty(500) / 500;
		one[i] = gets(500, 1) / 500;
		many[i] = gets(50, KEYS) / 50;
	}
	cost_hold("a hit, in empty ioctls", cost_median(one), cost_median(none), 300);
	cost_hold("64 hits, in empty ioctls", cost_median(many), cost_median(none), 2700);
	client_stop(&client);
}

static const struct test tests[] = {
	LONG_TEST(hit_costs_a_few_empty_calls, 120),
};

int main(int argc, char **argv)
{
	return TESTS_RUN(tests, argc, argv);
}
