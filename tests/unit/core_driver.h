/* SPDX-License-Identifier: Apache-2.0 */
/*
 * core_driver.h - one core by itself: inputs go in, outputs are looked at
 *
 * A test takes each output that it expects; what nobody took fails the test
 * at its end. So does a key that somebody still refers to when the core is
 * gone. After every step the core's own books are checked.
 */
#ifndef FKV_TESTS_UNIT_CORE_DRIVER_H
#define FKV_TESTS_UNIT_CORE_DRIVER_H

#include "core/core.h"

extern uint64_t core_now;
extern struct fkv_out core_out;

void core_setup(void);
/* All outputs were taken, and all keys are only ours. */
void core_teardown(void);

/* The key of that name: a reference of the driver's. */
struct fkv_key *core_key(const char *name);
/* A reference more, for a message or an item to take over. */
struct fkv_key *core_key_ref(const char *name);

/*
 * The oldest output of a type, which must be there. References that came with
 * it are dropped, a listing is the test's to free.
 */
struct fkv_cmd core_take(enum fkv_cmd_type type);
struct fkv_msg core_take_msg(enum fkv_msg_type type);
bool core_has(enum fkv_cmd_type type);
bool core_has_msg(enum fkv_msg_type type);
/* Outputs that nobody took. */
size_t core_left(void);
void core_drop_all(void);

/* Only the @n-th allocation from now on fails; 0: none. */
void core_fail_alloc(uint64_t n);
/* Did it come to that? Ends it, too. */
bool core_alloc_failed(void);

#endif
