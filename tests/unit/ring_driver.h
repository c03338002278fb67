/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ring_driver.h - a ring of pages, and keys for what is put into it
 */
#ifndef FKV_TESTS_UNIT_RING_DRIVER_H
#define FKV_TESTS_UNIT_RING_DRIVER_H

#include "core/ssd/ring.h"

#define UNIT		FKV_BLOCK
#define RING_KEYS	64

extern struct fkv_ring *ring;
extern struct fkv_key *ring_key[RING_KEYS];

void ring_setup(void);
/* Frees the ring; nobody refers to a key any more. */
void ring_teardown(void);
void ring_of(uint32_t devices, uint32_t shards, uint64_t units);

/* An entry of key @k that takes @units, header included. */
int ring_reserve(int k, uint64_t id, uint64_t units,
		 struct fkv_ring_entry **ret);
struct fkv_ring_entry *ring_writing(int k, uint64_t id, uint64_t units);
struct fkv_ring_entry *ring_committed(int k, uint64_t id, uint64_t units);
int ring_read_pin(int k, uint64_t id, struct fkv_ring_entry **ret);
bool ring_readable(int k, uint64_t id);
struct fkv_ring_stats ring_stats(void);

#endif
