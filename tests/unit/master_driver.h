/* SPDX-License-Identifier: Apache-2.0 */
/*
 * master_driver.h - a master core, and an owner made of the test's messages
 */
#ifndef FKV_TESTS_UNIT_MASTER_DRIVER_H
#define FKV_TESTS_UNIT_MASTER_DRIVER_H

#include "core/master/master.h"
#include "core_driver.h"

#define SEGMENT		FKV_SEGMENT_MIN
#define PAGE		FKV_EXTENT_UNIT
#define BIG		FKV_MIB

extern struct fkv_master *master;

/* What the owner was given: one reference to @extent. */
struct given {
	uint64_t put_id, extent, offset;
};

/* Frees what is left and holds the books against zero. */
void master_setup(void);
void master_teardown(void);
struct fkv_master_stats master_stats(void);

/* One message, its key by name. */
void master_send(struct fkv_msg msg, const char *key);
void master_tick(void);

/* No wait for room unless a deadline is given. */
void master_put_start(uint64_t op, const char *key, uint64_t len,
		      uint32_t flags);
void master_put_start_until(uint64_t op, const char *key, uint64_t len,
			    uint64_t deadline_ns);
/* The plan of @op: its extent, or *ret_err. */
struct given master_planned(uint64_t op, int res);
void master_put_done(uint64_t op);
/* An answered PutDone. */
struct given master_published(uint64_t op);
/* A whole put of an absent key. With SSD its PERSIST is left to be taken. */
struct given master_put(uint64_t op, const char *key, uint64_t len);

void master_get_start(uint64_t op, const char *key, enum fkv_class class,
		      uint64_t deadline_ns);
struct fkv_msg master_get_plan(uint64_t op, int res);
void master_quiet(uint64_t extent, uint64_t n);
void master_evicted(uint64_t extent, enum fkv_evict_result res, uint64_t n);
void master_retired(uint64_t op);
void master_delete(uint64_t op, const char *key, int res);
void master_ssd(uint64_t devices);
/* The answer to a PERSIST, which must be there. */
void master_commit(const char *key, uint32_t shard, uint64_t seq);
void master_persist_failed(const char *key, int err);
/* A version of BIG bytes that is only on SSD, at (shard 0, @seq). */
uint64_t master_on_ssd(uint64_t op, const char *key, uint64_t seq);
void master_put_revoke(uint64_t op, bool held);
void master_get_revoke(uint64_t op, bool drop);
struct fkv_msg master_get_done(uint64_t op, int res);
bool master_route(const char *key, struct fkv_route_info *ret);

#endif
