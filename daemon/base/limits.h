/* SPDX-License-Identifier: Apache-2.0 */
/*
 * limits.h - every bound of the system, by name
 *
 * A queue, table, message or retry that is not bounded here is a bug. Sizes
 * are in bytes, times in nanoseconds unless the name says otherwise.
 */
#ifndef FKV_BASE_LIMITS_H
#define FKV_BASE_LIMITS_H

#include <stdint.h>

#define FKV_KIB			1024ULL
#define FKV_MIB			(1024 * FKV_KIB)
#define FKV_GIB			(1024 * FKV_MIB)

#define FKV_US			1000ULL
#define FKV_MS			(1000 * FKV_US)
#define FKV_SEC			(1000 * FKV_MS)

/* keys and values (behaviour K1) */
#define FKV_KEY_MAX		512u
#define FKV_VALUE_MAX		(1ULL << 40)

/* memory extents (M2) and what a segment may be */
#define FKV_EXTENT_UNIT		4096ULL
#define FKV_SEGMENT_MIN		(4 * FKV_MIB)
#define FKV_SEGMENT_MAX		(1ULL << 44)

/* requests (protocol body and socket frame) */
#define FKV_BATCH_MAX		1024u
#define FKV_FRAME_MAX		(1024u * 1024u)
#define FKV_LIST_MAX		1000u
#define FKV_CLIENTS_MAX		4096u
#define FKV_CLIENT_CALLS_MAX	256u
#define FKV_CLIENT_PUTS_MAX	4096u
#define FKV_CLIENT_HOLDERS_MAX	65536u
#define FKV_PINS_DEFAULT	512u
#define FKV_PINS_MAX		65536u
#define FKV_ARENA_BYTES		(64 * FKV_MIB)

/* deadlines (K3, P4, P5, protocol G3) */
#define FKV_TIMEOUT_DEFAULT	(10 * FKV_SEC)
#define FKV_TIMEOUT_GRACE	(50 * FKV_MS)
#define FKV_SPACE_WAIT_MAX	(5 * FKV_SEC)
#define FKV_PUT_OPEN_MAX	(60 * FKV_SEC)
#define FKV_FETCH_MAX		(10 * FKV_SEC)
#define FKV_PERSIST_STALL_MAX	(30 * FKV_SEC)
#define FKV_STOP_WAIT		(10 * FKV_SEC)
#define FKV_FETCH_TRIES		3u

/* local index (fast-path.md) */
#define FKV_ALIVE_NS		(1 * FKV_SEC)
#define FKV_ALIVE_TICK		(200 * FKV_MS)
#define FKV_EVICT_BATCH		256u
#define FKV_SCAN_BATCH		32u

/* SSD tier (S3, S10, protocol S10) */
#define FKV_DEVICES_MAX		16u
#define FKV_SHARDS_PER_DEVICE	4u
#define FKV_SHARDS_MAX		(FKV_DEVICES_MAX * FKV_SHARDS_PER_DEVICE)
#define FKV_BLOCK		4096ULL
#define FKV_IO_DEPTH		128u
#define FKV_IO_DEPTH_MAX	4096u
#define FKV_SQE_MAX		(4 * FKV_MIB)
#define FKV_READS_MAX		256u
#define FKV_READ_BYTES_MAX	(512 * FKV_MIB)
#define FKV_WRITES_MAX		32u
#define FKV_WRITE_BYTES_MAX	(128 * FKV_MIB)
#define FKV_SUM_CHUNK		(1 * FKV_MIB)
#define FKV_IO_RETRIES		8u
#define FKV_MAILBOX_MAX		4096u

/* clusters (protocol.md F, G3, G5, K6) */
#define FKV_OWNERS_MAX		256u
#define FKV_HEARTBEAT_NS	(500 * FKV_MS)
#define FKV_LEASE_NS		(3000 * FKV_MS)	/* the owner counts */
#define FKV_LEASE_MASTER_NS	(3200 * FKV_MS)	/* the master counts */
#define FKV_LOOP_GAP_MAX	(500 * FKV_MS)
#define FKV_LOOP_TICK_NS	(250 * FKV_MS)
#define FKV_SUSPEND_NS		(600 * FKV_SEC)
#define FKV_SUSPECT_NS		(5 * FKV_SEC)
#define FKV_SUSPECT_MAX		3u	/* failures until it is not tried */
#define FKV_XFER_STALL_NS	(2 * FKV_SEC)
#define FKV_CHUNK		(4 * FKV_MIB)
#define FKV_CHUNKS_MAX		16u
#define FKV_STAGE_READS		4u	/* chunks of one StageRead being read */
#define FKV_STAGE_PUSHES	4u
#define FKV_STAGES_MAX		1024u
#define FKV_BUSY_MAX		(1u << 20)	/* ranges in a registration */

#endif
