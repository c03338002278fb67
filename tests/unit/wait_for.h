/* SPDX-License-Identifier: Apache-2.0 */
/*
 * wait_for.h - run a loop until something holds
 */
#ifndef FKV_TESTS_WAIT_FOR_H
#define FKV_TESTS_WAIT_FOR_H

#include <check.h>
#include <poll.h>
#include <uv.h>

#include "base/clock.h"

#define GUARD_NS	(20 * FKV_SEC)	/* what never takes so long */

static inline void spin_loop(uv_loop_t *loop)
{
	struct pollfd p = { .fd = uv_backend_fd(loop), .events = POLLIN };
	int most = uv_backend_timeout(loop);

	poll(&p, 1, most < 0 || most > 10 ? 10 : most);
	uv_run(loop, UV_RUN_NOWAIT);
}

/* @spin once, and again, until @cond; the guard only ends what hangs. */
#define wait_by(spin, cond)						\
	do {								\
		uint64_t until_ = fkv_clock_ns() + GUARD_NS;		\
									\
		while (!(cond)) {					\
			ck_assert_msg(fkv_clock_ns() < until_,		\
				      "never: " #cond);			\
			spin;						\
		}							\
	} while (0)

#endif
