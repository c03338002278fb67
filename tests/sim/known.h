/* SPDX-License-Identifier: Apache-2.0 */
/*
 * known.h - what the cores are known to do wrong, and is let pass until then
 *
 * 0 once it is mended: the simulator finds it from then on.
 */
#ifndef FKV_TESTS_SIM_KNOWN_H
#define FKV_TESTS_SIM_KNOWN_H

/* list and count answer 0 and nothing when the owner has no memory */
#ifndef SIM_KNOWN_LIST_NOMEM
#define SIM_KNOWN_LIST_NOMEM	0
#endif
/* a commit that holds answers 0 without a holder then */
#ifndef SIM_KNOWN_HOLD_NOMEM
#define SIM_KNOWN_HOLD_NOMEM	0
#endif
/* with new values first, pinned victims keep the newest from being tried */
#ifndef SIM_KNOWN_BUSY_FIRST
#define SIM_KNOWN_BUSY_FIRST	0
#endif
/* a victim that is slowly written to SSD keeps others from being tried */
#ifndef SIM_KNOWN_SLOW_BACKING
#define SIM_KNOWN_SLOW_BACKING	0
#endif

#endif
