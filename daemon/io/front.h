/* SPDX-License-Identifier: Apache-2.0 */
/*
 * front.h - the way in for clients: the unix socket, or the kernel module
 *
 * One interface, two implementations. Both take clients' calls, carry replies,
 * keep the local index that hits are served from, and say when nobody reads an
 * entry any more. A front decides nothing about keys. All of it is the loop
 * thread's; what it learns goes to the gateway's ops.
 */
#ifndef FKV_IO_FRONT_H
#define FKV_IO_FRONT_H

#include "io/gateway.h"
#include "io/segment.h"

struct fkv_front;

struct fkv_front_ops {
	const char *name;		/* "unix" or "device" */
	bool keeps;			/* its counts of holders are of all */
	int (*listen)(struct fkv_front *f);	/* 0 or -errno */
	/* no new clients; then none at all; then, after the loop ran, free */
	void (*stop_accept)(struct fkv_front *f);
	void (*close_all)(struct fkv_front *f);
	void (*free)(struct fkv_front *f);

	/* send the reply of @call and free it */
	void (*reply)(struct fkv_front *f, struct fkv_call *call);
	/* see gateway.h; NULL where clients write to the segment */
	struct fkv_arena *(*arena)(struct fkv_front *f, uint64_t client);

	void (*publish)(struct fkv_front *f, struct fkv_entry *e);
	/* 0, or -ENOMEM: nothing happened */
	int (*retire)(struct fkv_front *f, struct fkv_entry *e);
	/* up to FKV_EVICT_BATCH entries */
	void (*evict)(struct fkv_front *f, struct fkv_entry *const *es,
		      size_t n, enum fkv_evict_result *ret);
	/* entries that scan() may have something to say of; say it */
	size_t (*retired)(struct fkv_front *f);
	void (*scan)(struct fkv_front *f);
	/* hits may be served until then: CLOCK_MONOTONIC, CLOCK_BOOTTIME */
	void (*alive)(struct fkv_front *f, uint64_t until_ns);
	void (*lease)(struct fkv_front *f, uint64_t until_ns);
	/* hits to ops, pins counted; bytes of distinct live pinned entries */
	uint64_t (*count)(struct fkv_front *f);
	/* the put timed out: its client is to stop writing */
	void (*shut)(struct fkv_front *f, uint64_t client, uint64_t put);

	void (*get_stats)(struct fkv_front *f, struct fkv_gateway_stats *gs,
			  struct fkv_index_stats *is);
	bool (*client_info)(struct fkv_front *f, uint64_t client,
			    struct fkv_conn_info *ret);
};

struct fkv_front {
	const struct fkv_front_ops *ops;
};

/*
 * @cfg->index is the front's to fill in, @entries how many it has room for.
 * 0 or -errno, then @err has a sentence.
 */
int fkv_front_unix_create(uv_loop_t *loop,
			  const struct fkv_gateway_config *cfg,
			  uint32_t entries, struct fkv_front **ret, char *err,
			  size_t err_size);

struct fkv_kdev_config {
	const char *instance;
	uint64_t incarnation;
	uint64_t client_cap, uid_cap;
	uint32_t clients_max;
	bool strict;
};

/* May this process own an instance of the kernel module? 0 or -errno. */
int fkv_kdev_probe(void);

/* Open the owner's node and take the name: a descriptor, or -errno. */
int fkv_kdev_bind(const struct fkv_kdev_config *cfg, char *err,
		  size_t err_size);

/* On a bound descriptor, with its segment made; takes it over. */
int fkv_front_kdev_create(uv_loop_t *loop, int fd,
			  const struct fkv_gateway_ops *ops, void *arg,
			  struct fkv_front **ret);

#endif
