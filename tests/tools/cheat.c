// SPDX-License-Identifier: Apache-2.0
/*
 * cheat.c - a client that goes round its cap by the library's own hand (H4)
 *
 * cheat N: with N values of 1 MiB and a cap of a third of them. It has to know
 * the library from inside, which stories do not. cheat lease: what the index
 * says of strict reads.
 */
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "client.h"

#define KEYS	300u

static struct fluxonkv *kv;

static size_t name_of(char *name, uint32_t key)
{
	return (size_t)sprintf(name, "cheat/%u", key);
}

static unsigned long reconnects(void)
{
	struct fluxonkv_counters n;
	char name[32];

	fluxonkv_exists(kv, name, name_of(name, 0));
	fluxonkv_get_counters(kv, &n);
	return (unsigned long)n.reconnects;
}

/* Pins by the library's own hand, without asking the cap: how many. */
static unsigned int pin_all(unsigned int n, bool honest)
{
	static struct fluxonkv_holder h[KEYS];
	unsigned int pinned = 0;

	for (uint32_t i = 0; i < n; i++) {
		char name[32];
		struct fluxonkv_key key = { name, name_of(name, i) };
		struct fkv_pin pin;

		if (honest)
			pinned += !fluxonkv_get(kv, name, key.len, &h[i]);
		else
			pinned += fkv_pins_get(&kv->conn->pins, &key, NULL,
					       &pin) == FKV_PINS_HIT;
	}
	return pinned;
}

/*
 * H4: N values of 1 MiB under a cap of a third of them. Who keeps to it is
 * left in peace, who goes round it is not served any more.
 */
static int cheat(unsigned int n)
{
	static uint64_t value[(1u << 20) / 8];
	unsigned int pinned;

	if (fluxonkv_open(NULL, &kv))
		return 1;
	for (uint32_t i = 0; i < n; i++) {
		char name[32];

		if (fluxonkv_put(kv, name, name_of(name, i), value,
				 sizeof(value), 0))
			return 1;
	}
	pinned = pin_all(n, true);
	sleep(3);
	printf("honest: %u pinned, %lu reconnects\n", pinned, reconnects());
	if (pinned < n / 4 || pinned > n / 3 || reconnects())
		return 1;
	fluxonkv_close(kv);
	if (fluxonkv_open(NULL, &kv))
		return 1;
	pinned = pin_all(n, false);
	for (int i = 0; i < 80 && !reconnects(); i++)
		usleep(100000);
	printf("cheat: %u pinned, %lu reconnects\n", pinned, reconnects());
	return pinned != n || reconnects() != 1;
}

/* "strict=0" or "strict=1 lease=MS", the time until it ends. */
static int lease(void)
{
	const struct fluxonkv_index_header *h;
	uint64_t now = fkv_clock_ns(CLOCK_BOOTTIME), until;

	if (fluxonkv_open(NULL, &kv))
		return 1;
	h = kv->conn->pins.index;
	until = __atomic_load_n(&h->lease_until_ns, __ATOMIC_RELAXED);
	if (kv->conn->pins.strict)
		printf("strict=1 lease=%lld\n",
		       (long long)(until - now) / 1000000);
	else
		printf("strict=0\n");
	fluxonkv_close(kv);
	return 0;
}

int main(int argc, char **argv)
{
	unsigned int n = argc == 2 ? (unsigned int)atoi(argv[1]) : 0;

	if (n && n <= KEYS)
		return cheat(n);
	if (argc == 2 && !strcmp(argv[1], "lease"))
		return lease();
	fprintf(stderr, "usage: cheat N | lease\n");
	return 2;
}
