/* SPDX-License-Identifier: Apache-2.0 */
/*
 * owner_driver.h - an owner core; the test is its clients, master and disks
 */
#ifndef FKV_TESTS_UNIT_OWNER_DRIVER_H
#define FKV_TESTS_UNIT_OWNER_DRIVER_H

#include "core/owner/owner.h"
#include "core_driver.h"

#define PAGE		FKV_EXTENT_UNIT
#define CLIENT		7u
#define UID		1000u
#define TIMEOUT		FKV_SEC
#define RESULTS		8

extern struct fkv_owner *owner;
extern struct fkv_ring *owner_ring;

/* A client of UID is there. SSD: two devices of one shard of 16 pages. */
void owner_setup(void);
void owner_setup_ssd(void);
/* Of a cluster: no session yet; one shard of 64 MiB, two chunk buffers. */
void owner_setup_cluster(void);
/* The same with caps of the client and of its user. */
void owner_setup_caps(uint64_t client_cap, uint64_t uid_cap,
		      uint64_t put_limit);
/* Clients go, and with them all that they held. */
void owner_teardown(void);
struct fkv_owner_stats owner_stats(void);

void owner_step(const struct fkv_in *in);
void owner_tick(uint64_t after_ns);
void owner_msg(struct fkv_msg msg, const char *key);
void owner_client(uint64_t id, uint32_t uid, uint64_t arena_bytes);
void owner_gone(uint64_t id);
void owner_io(uint64_t token, int res, uint64_t sum);
void owner_copied(uint64_t token, int res);
void owner_hashed(uint64_t token, uint64_t sum);
void owner_scanned(struct fkv_entry *e);
void owner_evicted(struct fkv_entry *e, enum fkv_evict_result res);

/* A call of @nr empty items of CLIENT; and in it goes. */
struct fkv_call *owner_call(uint16_t op, uint32_t nr);
void owner_run(struct fkv_call *call);
/* Of one item: by key, or by id. */
void owner_ask(uint16_t op, const char *key);
void owner_ask_id(uint16_t op, uint64_t client, uint64_t id, uint32_t flags);
void owner_begin(uint64_t client, const char *key, uint64_t len,
		 uint64_t timeout_ns);

struct reply {
	int status;
	uint32_t nr;
	uint64_t arg;
	char text[FKV_TEXT_MAX];
	struct fluxonkv_result res[RESULTS];
};

/* The oldest reply, which must be there. */
struct reply owner_reply(void);
/* Its only result, which must have that status. */
struct fluxonkv_result owner_result(int status);
/* The master was told what is pinned. */
void owner_pinned(uint64_t bytes);

/* Begun and planned at page @extent. */
uint64_t owner_open(uint64_t client, const char *key, uint64_t len,
		    uint64_t extent);
/* Committed and published as version @put_id. */
struct fkv_entry *owner_put(const char *key, uint64_t len, uint64_t extent,
			    uint64_t put_id);
/* GET_START was sent: its op id. */
uint64_t owner_asked(const char *key);
/* The master's answer to it. */
void owner_plan(uint64_t op, enum fluxonkv_source source, uint64_t put_id,
		uint64_t len, uint64_t extent, bool grant);
void owner_refuse(enum fkv_msg_type type, uint64_t op, int res);
void owner_retire(const char *key, uint64_t put_id);
void owner_quiet(uint64_t extent, uint64_t n);
/* A holder of CLIENT's on a live key. */
uint64_t owner_hold(const char *key, uint64_t pinned);
void owner_release(uint64_t id);

/* Is asked to persist; then hashed; then written; then committed. */
void owner_persist(const char *key, uint64_t put_id, uint64_t len,
		   uint64_t extent);
struct fkv_cmd owner_write(uint64_t sum);
struct fkv_msg owner_written(const struct fkv_cmd *write);
void owner_on_ssd(const char *key, uint64_t put_id, uint64_t len,
		  uint64_t sum);
struct fkv_msg owner_persist_failed(int res);

#endif
