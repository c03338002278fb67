// SPDX-License-Identifier: Apache-2.0
#include <check.h>
#include <stdio.h>

#include "ring_driver.h"

struct fkv_ring *ring;
struct fkv_key *ring_key[64];

void ring_of(uint32_t devices, uint32_t shards, uint64_t units)
{
	struct fkv_ring_config cfg = { .nr_devices = devices };

	for (uint32_t d = 0; d < devices; d++) {
		cfg.device[d].nr_shards = shards;
		cfg.device[d].ring_size = units * UNIT;
		cfg.device[d].unit = UNIT;
	}
	ck_assert_int_eq(fkv_ring_create(&cfg, &ring), 0);
}

void ring_setup(void)
{
	fkv_alloc_fail = NULL;
	for (uint32_t i = 0; i < FKV_ARRAY_SIZE(ring_key); i++) {
		char name[16];
		int n = snprintf(name, sizeof(name), "key-%u", i);

		ring_key[i] = fkv_key_create(name, (size_t)n);
	}
}

void ring_teardown(void)
{
	fkv_alloc_fail = NULL;
	fkv_ring_free(ring);
	ring = NULL;
	for (uint32_t i = 0; i < FKV_ARRAY_SIZE(ring_key); i++) {
		ck_assert_uint_eq(ring_key[i]->refs, 1);
		fkv_key_put(ring_key[i]);
	}
}

/* an entry that takes @units, header included */
int ring_reserve(int k, uint64_t id, uint64_t units,
		   struct fkv_ring_entry **ret)
{
	int err = fkv_ring_reserve(ring, ring_key[k], id, (units - 1) * UNIT,
				   ret);

	fkv_ring_check(ring);
	return err;
}

struct fkv_ring_entry *ring_writing(int k, uint64_t id, uint64_t units)
{
	struct fkv_ring_entry *e = NULL;

	ck_assert_int_eq(ring_reserve(k, id, units, &e), 0);
	return e;
}

struct fkv_ring_entry *ring_committed(int k, uint64_t id, uint64_t units)
{
	struct fkv_ring_entry *e = ring_writing(k, id, units);

	fkv_ring_commit(ring, e, id);
	fkv_ring_commit_unpin(ring, e);
	fkv_ring_check(ring);
	return e;
}

int ring_read_pin(int k, uint64_t id, struct fkv_ring_entry **ret)
{
	return fkv_ring_read_pin(ring, ring_key[k], id, ret);
}

bool ring_readable(int k, uint64_t id)
{
	struct fkv_ring_entry *e;

	if (ring_read_pin(k, id, &e))
		return false;
	ck_assert_int_eq(fkv_ring_read_unpin(ring, e), 0);
	return true;
}

struct fkv_ring_stats ring_stats(void)
{
	struct fkv_ring_stats st;

	fkv_ring_get_stats(ring, &st);
	return st;
}
