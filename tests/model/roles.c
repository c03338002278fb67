// SPDX-License-Identifier: Apache-2.0
/*
 * The lines of the code that take part in the handshake, and their orders. A
 * role with a reason is stronger than any of the programs needs: the checker
 * refuses the reason when a program breaks without it.
 */
#include <stddef.h>

#include "model.h"

#define LIB	"tools/lib/pins.c"
#define IDX	"daemon/io/index.c"

#define BARE(n, o)	[R_##n] = { .name = #n, .order = o, .weaker = o }

const struct role_info roles[NR_ROLES] = {
	BARE(NONE, NONE), BARE(NA, NA), BARE(RLX, RLX), BARE(ACQ, ACQ),
	BARE(REL, REL), BARE(ACQ_REL, ACQ_REL), BARE(SC, SC),

	[R_BUCKET] = { "probe bucket", LIB, "probe",
		"load_relaxed(&b->slot[i])", NULL, RLX, RLX },
	[R_GEN] = { "first gen load", LIB, "pin_entry",
		"gen = load_acquire(&e->gen);", NULL, ACQ, RLX },
	[R_FIELD] = { "field loads", LIB, "pin_entry",
		"load_relaxed(&e->offset)", NULL, RLX, RLX },
	[R_HW_COPY] = { "read of the own high-water mark", LIB, "take_slot",
		"load_acquire(&pins->high_water) < at + 1",
		"fence P2 behind it acquires", ACQ, RLX },
	[R_HW_PAGE] = { "read of the page's high-water mark", LIB,
		"raise_high_water", "load_relaxed(&pins->pages->high_water)",
		NULL, RLX, RLX },
	[R_HW_RAISE] = { "raise of the page's high-water mark", LIB,
		"raise_high_water", "want, true, __ATOMIC_SEQ_CST",
		"P2, or the release of the own copy, orders it", SC, RLX },
	[R_HW_PUT_COPY] = { "store of the own high-water mark", LIB,
		"raise_high_water", "store_release(&pins->high_water",
		NULL, REL, RLX },
	[R_SLOT] = { "P1", LIB, "take_slot", "pin, false, __ATOMIC_SEQ_CST",
		"P2 orders it, and acquires from the slot's last user",
		SC, RLX },
	[R_P2] = { "P2", LIB, "pin_gen",
		"__atomic_thread_fence(__ATOMIC_SEQ_CST)", NULL, SC, NONE },
	[R_P3] = { "P3", LIB, "pin_gen", "load_acquire(&e->gen) != gen",
		"the first load of this gen has acquired, P2 orders the rest",
		ACQ, RLX },
	[R_BACKOUT] = { "back out", LIB, "pin_gen",
		"store_release(&pins->slots[slot], 0);",
		"nothing was read under it, and P2 releases what was before",
		REL, RLX },
	[R_CLOCK] = { "alive check", LIB, "may_serve",
		"load_relaxed(&h->alive_until_ns)", NULL, RLX, RLX },
	[R_UNPIN] = { "unpin", LIB, "fkv_pins_unpin",
		"store_release(&pins->slots[slot], 0);", NULL, REL, RLX },
	[R_HEAD] = { "head of the hit ring", LIB, "fkv_pins_note",
		"add_relaxed(&h->ring_head, 1)", NULL, RLX, RLX },
	[R_RING] = { "entry of the hit ring", LIB, "fkv_pins_note",
		"(token & 0xffffff), __ATOMIC_RELAXED", NULL, RLX, RLX },

	[R_FILL] = { "fields", IDX, "fill", "STORE_RELAXED(&to->offset",
		NULL, RLX, RLX },
	[R_PUBLISH] = { "publish", IDX, "fkv_index_publish",
		"STORE_RELEASE(&to->gen, to->gen + 1)", NULL, REL, RLX },
	[R_PUB_BUCKET] = { "publish in the bucket", IDX, "fkv_index_publish",
		"STORE_RELEASE(slot,", "gen is checked by itself", REL, RLX },
	[R_R1] = { "R1", IDX, "kill_entry",
		"STORE_RELEASE(&at->gen, at->gen + 1)",
		"what follows it is ordered by R2, what precedes is no matter",
		REL, RLX },
	[R_KILL_BUCKET] = { "take out of the bucket", IDX, "kill_entry",
		"STORE_RELEASE(bucket_find(", "gen is checked by itself",
		REL, RLX },
	[R_R2_RETIRE] = { "R2 of a retirement", IDX, "fkv_index_retire",
		"atomic_thread_fence(memory_order_seq_cst)",
		"the scan that must follow has its own", SC, NONE },
	[R_R2_EVICT] = { "R2 of an eviction", IDX, "fkv_index_evict",
		"atomic_thread_fence(memory_order_seq_cst)", NULL, SC, NONE },
	[R_R2_SCAN] = { "R2 of a scan", IDX, "fkv_index_scan",
		"atomic_thread_fence(memory_order_seq_cst)",
		"retiring has fenced already", SC, NONE },
	[R_SCAN_HW] = { "R3 high-water mark", IDX, "stamp_pins",
		"LOAD_ACQUIRE(&h->high_water)",
		"R2 orders it behind R1, and each slot acquires by itself",
		ACQ, RLX },
	[R_SCAN_SLOT] = { "R3 slot", IDX, "stamp_pins",
		"LOAD_ACQUIRE(&slot[k])", NULL, ACQ, RLX },
	[R_HITS_HEAD] = { "read of the hit ring's head", IDX, "fkv_pins_hits",
		"LOAD_ACQUIRE(&h->ring_head)",
		"hints: no store of the ring releases", ACQ, RLX },
	[R_HITS_RING] = { "read of the hit ring", IDX, "fkv_pins_hits",
		"LOAD_RELAXED(&ring[", NULL, RLX, RLX },
};
