/* SPDX-License-Identifier: Apache-2.0 */
/*
 * engine.h - the loop thread: the cores, and who carries out their commands
 *
 * Feeds inputs to the owner core, passes messages between the cores in order,
 * hands commands to the front (clients, index), transfer and SSD threads, and
 * takes their results from an inbox. With the master in another process its
 * messages go by uplink.h; a master's engine has hub.h, and a front for operators
 * only. All of it runs on the loop thread but fkv_engine_done_*(), which any
 * thread may call.
 */
#ifndef FKV_SVC_ENGINE_H
#define FKV_SVC_ENGINE_H

#include <uv.h>

#include "core/master/master.h"
#include "core/owner/owner.h"
#include "io/device.h"
#include "io/front.h"
#include "io/workers.h"
#include "svc/config.h"
#include "svc/hub.h"
#include "svc/metrics.h"
#include "svc/uplink.h"

/* Latencies by what was asked, from request to reply, in ns. */
enum fkv_latency {
	FKV_LAT_GET, FKV_LAT_PUT_BEGIN, FKV_LAT_PUT_COMMIT, FKV_LAT_DELETE,
	FKV_LAT_OTHER, FKV_LAT_SSD_READ, FKV_LAT_SSD_WRITE, FKV_LAT_NR,
};

struct fkv_engine;

struct fkv_engine_config {
	const struct fkv_config *cfg;
	uv_loop_t *loop;
	struct fkv_segment *segment;
	int owner_fd;			/* of the kernel module, or -1 */
	struct fkv_device *const *devices;
	uint32_t nr_devices;
	uint32_t shards_per_device;
	uint64_t epoch;
	struct fkv_lockfile *store;	/* master: of the epoch */
	const uint8_t *key;		/* of the cluster, or NULL */
	uint64_t incarnation;
	uint64_t started_ns;
	uint32_t clients_max;
	char *err;
	size_t err_size;
	/* no client is heard any more: end */
	void (*failed)(void *arg);
	void *arg;
};

/*
 * 0, or -errno with a sentence in ec->err. Also a failed engine, if *ret is
 * set, wants close() and free() around the end of the loop.
 */
int fkv_engine_create(const struct fkv_engine_config *ec,
		      struct fkv_engine **ret);
/* 0 or -errno. */
int fkv_engine_serve(struct fkv_engine *e);

/* Of the segment, behind what the core allocates: for peers' reads (G5). */
uint64_t fkv_engine_chunk_bytes(const struct fkv_config *cfg);

/* Stop: no new clients; true when nobody holds anything any more. */
void fkv_engine_stop_accept(struct fkv_engine *e);
bool fkv_engine_idle(struct fkv_engine *e);
/* Close all connections; then, once the loop has run, free. */
void fkv_engine_close(struct fkv_engine *e);
void fkv_engine_free(struct fkv_engine *e);

/* What a device's thread reports; goes into struct fkv_device_config. */
void fkv_engine_io_done(void *engine, const struct fkv_io_result *res);

/* Reports for operators and metrics; loop thread. */
struct fkv_report {
	struct fkv_master_stats master;
	struct fkv_owner_stats owner;
	struct fkv_index_stats index;
	struct fkv_gateway_stats gateway;
	struct fkv_hub_stats hub;
	struct fkv_uplink_stats uplink;
	uint64_t holders;		/* of clients, by whatever way */
	uint64_t stale_ns;
};

void fkv_engine_report(struct fkv_engine *e, struct fkv_report *ret);
/* The i-th client, with what it holds by itself; false behind the last. */
bool fkv_engine_client(struct fkv_engine *e, uint64_t i,
		       struct fkv_client_info *ret, pid_t *ret_pid);
struct fkv_front *fkv_engine_front(struct fkv_engine *e);
/* NULL: in another process. */
struct fkv_owner *fkv_engine_owner(struct fkv_engine *e);
struct fkv_master *fkv_engine_master(struct fkv_engine *e);
struct fkv_hub *fkv_engine_hub(struct fkv_engine *e);
/* Of the master, here or there; 0: none. */
uint64_t fkv_engine_epoch(struct fkv_engine *e);
/* What is left of the lease, or FKV_NEVER. */
uint64_t fkv_engine_lease(struct fkv_engine *e);
struct fkv_ring *fkv_engine_ring(struct fkv_engine *e);
const struct fkv_histogram *fkv_engine_latency(struct fkv_engine *e,
					       enum fkv_latency which);
const struct fkv_engine_config *fkv_engine_config(struct fkv_engine *e);

#endif
