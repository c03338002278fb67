/* SPDX-License-Identifier: Apache-2.0 */
/*
 * transfer_driver.h - two hosts in one process, and one that is made of a plain
 * socket, which says what it likes
 *
 * Payload is made from its offset and a seed. Nothing sleeps: the loop of
 * rpc_driver.h runs until a condition holds.
 */
#ifndef FKV_TESTS_TRANSFER_DRIVER_H
#define FKV_TESTS_TRANSFER_DRIVER_H

#include "io/transfer_internal.h"
#include "rpc_driver.h"

#define SEGMENT		(64 * FKV_MIB)
#define SRC_LIFE	11
#define DST_LIFE	22

/* One host. */
struct host {
	struct fkv_transfer *t;
	uint8_t *mem;
	const char *name;
	uint64_t life;
	struct sockaddr_storage at;
};

/* A call, and how it ended. */
struct call {
	unsigned int readies, dones;
	uint32_t slot;
	uint64_t generation;
	struct fkv_transfer_result res;
};

extern struct host src, dst;		/* is asked; has the targets */
extern struct fkv_transfer_times quick;	/* for tests that wait for them */

void transfer_setup(void);
void transfer_teardown(void);
struct fkv_transfer_config host_config(const struct host *h);
void host_start(struct host *h, const char *name, uint64_t life,
		uint32_t channels);
void host_stop(struct host *h);
/* @h knows @peer. */
void host_add(struct host *h, const struct host *peer);

void on_call(void *arg, const struct fkv_transfer_result *res);
void on_ready(void *arg, uint32_t slot, uint64_t generation);
/* It has ended like that. */
void ended(const struct call *c, int err, enum fkv_transfer_fault fault);

/* @len bytes at @p are a payload of @seed; are they? */
void fill(uint8_t *p, uint64_t len, uint64_t seed);
bool filled(const uint8_t *p, uint64_t len, uint64_t seed);

struct fkv_transfer_pull pull_of(struct call *c, uint64_t op, uint64_t offset,
				 uint64_t len);
/* From @offset of src to @offset of dst, exposed before. */
void pull(struct call *c, uint64_t op, uint64_t offset, uint64_t len);
void expose(uint64_t op, uint64_t offset, uint64_t len);
void open_target(struct call *c, uint64_t op, uint64_t offset, uint64_t len);
/* By src, to where @target is open; generation 0 when it is NULL. */
void push(struct call *c, uint64_t op, uint64_t len, const struct call *target);
void piece(struct call *c, uint64_t op, const struct fkv_transfer_piece *p);

/* src serves dst, now. */
void src_serves(void);

struct fkv_transfer_peer_stats peer_stats_of(struct host *h, uint64_t life);
struct fkv_transfer_stats stats_of(struct host *h);

/* ---- a plain socket ---- */

struct raw {
	int fd;
	struct fkv_auth auth;
	struct fkv_auth_self self;
	uint8_t said[2048];		/* all that was sent in the handshake */
	size_t said_len;
};

/* Dials src with key, as a host of this name and life. */
void raw_dial(struct raw *r, const char *name, uint64_t life);
void raw_connect(struct raw *r);
void raw_hello(struct raw *r, const uint8_t *with_key, const char *name,
	       uint64_t life);
/* A listener that is peer "raw" of dst; and who has been dialled. */
#define RAW_LIFE	33
int raw_listen(struct sockaddr_storage *ret);
void raw_accept(struct raw *r, int listener);
void raw_accept_as(struct raw *r, int listener, uint64_t life);
/* Attached: the (slot, generation) that dst gave it. */
struct fkv_frame raw_attach(struct raw *r);

bool raw_send(struct raw *r, const void *data, size_t n);
/* False: it is closed. */
bool raw_recv(struct raw *r, void *to, size_t n);
void raw_say(struct raw *r, const struct fkv_frame *f);
bool raw_hear(struct raw *r, struct fkv_frame *f);
void raw_message(struct raw *r, const void *data, size_t n);
void raw_is_closed(struct raw *r);

#endif
