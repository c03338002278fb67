/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cover.h - what a run met: each fault, each path that only some runs take
 *
 * A run of many seeds that never met one of them proves nothing about it, and
 * fails. SIM_RARE says how many seeds that takes.
 */
#ifndef FKV_TESTS_SIM_COVER_H
#define FKV_TESTS_SIM_COVER_H

#include <stdbool.h>
#include <stdint.h>

#define SIM_RARE	1000u

/* X(id, name): the name is what --without takes */
#define SIM_FAULTS(X)						\
	X(READ_FAIL, "read-fail")				\
	X(READ_SHORT, "read-short")				\
	X(READ_TORN, "read-torn")				\
	X(READ_SLOW, "read-slow")				\
	X(READ_FLIP, "read-flip")				\
	X(READ_MISDIRECT, "read-misdirect")			\
	X(WRITE_FAIL, "write-fail")				\
	X(WRITE_SHORT, "write-short")				\
	X(WRITE_TORN, "write-torn")				\
	X(WRITE_SLOW, "write-slow")				\
	X(WRITE_LOST, "write-lost")				\
	X(WRITE_MISDIRECT, "write-misdirect")			\
	X(WRITE_NOSPACE, "write-nospace")			\
	X(FLIP, "flip-at-rest")					\
	X(DEVICE_GONE, "device-gone")				\
	X(FREEZE_OWNER, "freeze-owner")				\
	X(FREEZE_MASTER, "freeze-master")			\
	X(JUMP, "time-jump")					\
	X(ALLOC_OWNER, "alloc-owner")				\
	X(ALLOC_MASTER, "alloc-master")				\
	X(KILL, "kill")						\
	X(STALL, "stall")					\
	X(PIN_RACE, "pin-race")					\
	X(CRASH_OWNER, "crash-owner")				\
	X(CRASH_MASTER, "crash-master")				\
	X(COPY_FAIL, "copy-fail")				\
	X(COPY_SHORT, "copy-short")				\
	X(COPY_SLOW, "copy-slow")

#define SIM_PATHS(X)						\
	X(GET_HIT, "get: hit in memory")			\
	X(GET_SSD, "get: hit from SSD")				\
	X(GET_MISS, "get: miss")				\
	X(GET_FAILED, "get: EIO")				\
	X(GET_NOSPACE, "get: ENOSPC")				\
	X(PUT, "put")						\
	X(PUT_EXCL, "put: EEXIST")				\
	X(PUT_EXCL_BUSY, "put: EBUSY")				\
	X(PUT_NOSPACE, "put: ENOSPC")				\
	X(PUT_TOO_BIG, "put: EFBIG")				\
	X(PUT_EXPIRED, "put: open for too long")		\
	X(EXPIRED_COMMIT, "put: commit after that")		\
	X(DELETE, "delete")					\
	X(QUOTA, "EDQUOT")					\
	X(TIMEOUT, "a call's time is over")			\
	X(AGAIN, "EAGAIN")					\
	X(NOMEM, "a call answers ENOMEM")			\
	X(PIN, "pin in the index")				\
	X(EVICT_OK, "evict: OK")				\
	X(EVICT_BUSY, "evict: BUSY")				\
	X(EVICT_HELD, "evict: HELD")				\
	X(LOST, "last replica is gone")				\
	X(RETIRED_PINNED, "retired while pinned")		\
	X(READ_UNUSED, "a read ends after its version")		\
	X(READ_LATE, "a read ends after its fetch gave up")	\
	X(OFF_ON, "device off and on again")			\
	X(THAW, "thawed with inputs waiting")			\
	X(KILL_HOLDING, "killed with holders")			\
	X(KILL_PINNING, "killed with pins")			\
	X(KILL_OPEN, "killed with an open put")			\
	X(KILL_HALF, "killed with a put half written")		\
	X(KILL_COPYING, "killed while a put is copied")		\
	X(KILL_WAITING, "killed while a call waits")		\
	X(KILL_EXPIRED, "killed with an expired put")		\
	X(CRASH_HOLDING, "crash under a holder")		\
	X(CRASH_PINNING, "crash under a pin")			\
	X(CRASH_OPEN, "crash under an open put")		\
	X(CRASH_WAITING, "crash while a call waits")		\
	X(LATE_MESSAGE, "message of an ended session")		\
	X(LATE_DONE, "completion for an earlier life")		\
	X(LATE_WRITE, "write of an earlier life")		\
	X(EXTENDED, "put: commit that an extend allows")	\
	X(MEDDLED, "another client's put named")		\
	X(SUM_ERROR, "checksum error")				\
	X(REFETCH, "get asks the master again")			\
	X(PERSIST_FAILED, "persist failed")			\
	X(SUPERSEDED, "persist superseded")			\
	X(BLOCKED, "persist waits for the ring")		\
	X(PROMOTED, "promotion")				\
	X(PROMOTED_STALE, "promotion too late")			\
	X(REVOKED, "operation revoked")				\
	X(SSD_DROPPED, "SSD copy dropped")			\
	X(REBACKED, "victim written again")			\
	X(SPACE_WAIT, "waits for room")				\
	X(RING_EVICTION, "ring eviction")			\
	X(RING_LAP, "ring lap")					\
	X(RING_BLOCKED_WRITE, "ring blocked by a write")	\
	X(RING_BLOCKED_READ, "ring blocked by a read")		\
	X(RING_BLOCKED_COMMIT, "ring blocked by a commit")	\
	X(ROOM_CHECKED, "ENOSPC held against what was free")

#define SIM_ENUM_FAULT(id, name)	SIM_FAULT_##id,
#define SIM_ENUM_PATH(id, name)		SIM_PATH_##id,

enum sim_fault { SIM_FAULTS(SIM_ENUM_FAULT) SIM_FAULTS_NR };
enum sim_path { SIM_PATHS(SIM_ENUM_PATH) SIM_PATHS_NR };

extern const char *const sim_fault_name[SIM_FAULTS_NR];
extern const char *const sim_path_name[SIM_PATHS_NR];

struct sim_cover {
	uint64_t fault[SIM_FAULTS_NR];
	uint64_t path[SIM_PATHS_NR];
	uint64_t gets, reads, writes, steps;
};

struct sim;

void sim_cover_cores(struct sim *s);	/* what they counted so far */
void sim_cover_add(struct sim_cover *to, const struct sim_cover *from);
void sim_cover_print(const struct sim_cover *n);
/* Was everything met? Says what was not. */
bool sim_cover_full(const struct sim_cover *n);

#endif
