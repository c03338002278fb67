/* SPDX-License-Identifier: Apache-2.0 */
/*
 * device_driver.h - a device on real files, and what its threads answered
 *
 * Files are below $TMPDIR or /var/tmp (a disk: O_DIRECT), and in /dev/shm
 * (tmpfs: whatever it allows). Each case runs on both and with each engine.
 */
#ifndef FKV_TESTS_UNIT_DEVICE_DRIVER_H
#define FKV_TESTS_UNIT_DEVICE_DRIVER_H

#include "base/base.h"
#include "io/device.h"

#define LIMIT		(64 * FKV_MIB)
#define SEGMENT		(64 * FKV_MIB)
#define RESULTS		16384

/* Loop cases: bit 0 tmpfs, bit 1 threads. */
#define CASES	6	/* two filesystems, three engines */

extern char device_dir[128];
extern char device_why[512];
extern uint8_t *device_segment;
extern struct fkv_device *device;

/* Results, by the order of their arrival. */
extern struct fkv_io_result device_result[RESULTS];
extern int device_results;
/* Of the last read the first so many sums, as the test wants them. */
extern uint64_t device_sums[16];
extern unsigned int device_nr_sums;

void device_wait(int n);
void device_make_dir(int i);
void device_remove_dir(void);
struct fkv_device_config device_config(int i);
void device_open_with(const struct fkv_device_config *cfg);
void device_setup(void);
void device_setup_open(int i);
void device_teardown(void);
void device_fill(uint8_t *p, uint64_t len, uint32_t seed);
struct fkv_io_request device_request(enum fkv_io_kind kind, uint64_t token,
				     uint64_t memory, uint64_t len);
void device_submit(const struct fkv_io_request *r);
struct fkv_io_result device_run(const struct fkv_io_request *r);
void device_write_and_read_back(uint64_t len, uint64_t vpos);
void device_read_block(uint32_t shard, uint64_t offset, uint8_t *block);

#endif
