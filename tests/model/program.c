// SPDX-License-Identifier: Apache-2.0
/* Writing down a program. */
#include <assert.h>
#include <string.h>

#include "model.h"

void program_init(struct program *p, int nr_threads, int nr_locs)
{
	assert(nr_threads <= MAX_THREADS && nr_locs <= MAX_LOCS);
	memset(p, 0, sizeof(*p));
	p->nr_threads = nr_threads;
	p->nr_locs = nr_locs;
	for (int r = 0; r < NR_ROLES; r++)
		p->order[r] = roles[r].order;
}

int insn_add(struct program *p, int t, struct insn in)
{
	struct thread *th = &p->thread[t];

	assert(th->nr < MAX_INSNS);
	p->used[in.role] = true;
	th->insn[th->nr] = in;
	return th->nr++;
}

void load(struct program *p, int t, enum role role, int loc, int reg)
{
	insn_add(p, t, (struct insn){ .kind = LOAD, .role = role, .loc = loc,
				 .reg = reg });
}

void store(struct program *p, int t, enum role role, int loc, int value)
{
	store_reg(p, t, role, loc, -1, value);
}

void fence(struct program *p, int t, enum role role)
{
	insn_add(p, t, (struct insn){ .kind = FENCE, .role = role });
}

void set(struct program *p, int t, int reg, int value)
{
	insn_add(p, t, (struct insn){ .kind = SET, .role = R_NONE, .reg = reg,
				 .from = -1, .value = value });
}

void land(struct program *p, int t, int at)
{
	p->thread[t].insn[at].target = p->thread[t].nr;
}

void stop_if(struct program *p, int t, int reg, bool equal, int value)
{
	branch(p, t, reg, equal, -1, value);
}
