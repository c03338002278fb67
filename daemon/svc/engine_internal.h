/* SPDX-License-Identifier: Apache-2.0 */
/*
 * engine_internal.h - between engine.c and engine_life.c
 */
#ifndef FKV_SVC_ENGINE_INTERNAL_H
#define FKV_SVC_ENGINE_INTERNAL_H

#include "svc/engine.h"
#include "svc/inbox.h"
#include "svc/notice.h"

/* Outputs that one step has at most. */
#define FKV_OUT_STEP	(4 * (size_t)FKV_BATCH_MAX)

struct fkv_engine {
	struct fkv_engine_config ec;
	/* standalone: both cores; else one of them, and who speaks for it */
	struct fkv_owner *owner;
	struct fkv_master *master;
	struct fkv_uplink *uplink;
	struct fkv_hub *hub;		/* has the master of its process */
	struct fkv_ring *ring;
	struct fkv_front *front;
	struct fkv_out out, mout;
	size_t kept;			/* first of out: had no memory */
	uint64_t again_ns;		/* when they are tried again */
	bool draining;
	size_t held;			/* retired that the last scan kept */
	uint64_t now_ns;
	uint64_t stale_ns;		/* hits were served past the lease */
	uint64_t alive_ns;		/* of the last look at that */
	struct fkv_inbox inbox;
	uv_timer_t timer, alive, hits, scan;
	uint64_t timer_at;
	unsigned int scan_ms, armed_ms;	/* armed_ms 0: it is not */
	struct fkv_notice notice;
	struct fkv_histogram latency[FKV_LAT_NR];
};

/* engine.c */
extern const struct fkv_gateway_ops fkv_engine_gateway_ops;
void fkv_engine_input(void *engine, const struct fkv_in *in);
void fkv_engine_on_wake(uv_async_t *a);
void fkv_engine_on_alive(uv_timer_t *t);
void fkv_engine_on_hits(uv_timer_t *t);

#endif
