// SPDX-License-Identifier: Apache-2.0
/*
 * clock.c - each core has a clock of its own
 *
 * It runs at 0.99 to 1.01 of the world's and began at some other time. In one
 * process, which is what Standalone is, both cores read the same one. A time
 * that crosses from one core to the other is told as how long it is until
 * then: no two hosts' clocks can be compared.
 */
#include "sim.h"

#define RATE_ONE	1024u
#define FAR_NS		(1ULL << 52)

static struct sim_clock some_clock(struct sim *s)
{
	return (struct sim_clock){
		.since_ns = s->now_ns,
		.first_ns = 1 + sim_random(s, FKV_SEC <<
					   sim_random(s, 20)),
		.rate = RATE_ONE - 10 + sim_random(s, 21),
	};
}

void sim_clocks_start(struct sim *s)
{
	s->clock[SIM_OWNER] = some_clock(s);
	s->clock[SIM_MASTER] = some_clock(s);
	if (!s->cfg.delayed)
		s->clock[SIM_MASTER] = s->clock[SIM_OWNER];
}

uint64_t sim_clock_at(const struct sim *s, enum sim_core core,
		      uint64_t world_ns)
{
	const struct sim_clock *c = &s->clock[core];

	if (world_ns <= c->since_ns)
		return c->first_ns;
	return c->first_ns + (world_ns - c->since_ns) * c->rate / RATE_ONE;
}

uint64_t sim_clock(const struct sim *s, enum sim_core core)
{
	return sim_clock_at(s, core, s->now_ns);
}

/* When it has come to @core_ns: not a nanosecond before. */
uint64_t sim_clock_when(const struct sim *s, enum sim_core core,
			uint64_t core_ns)
{
	const struct sim_clock *c = &s->clock[core];

	if (core_ns <= c->first_ns)
		return c->since_ns;
	if (core_ns - c->first_ns > FAR_NS)
		return FKV_NEVER;
	return c->since_ns + ((core_ns - c->first_ns) * RATE_ONE + c->rate -
			      1) / c->rate;
}

void sim_clock_stood(struct sim *s, enum sim_core core, uint64_t for_ns)
{
	s->clock[core].since_ns += for_ns;
}

uint64_t sim_clock_left(const struct sim *s, enum sim_core core,
			uint64_t core_ns)
{
	uint64_t now = sim_clock(s, core);

	if (core_ns == FKV_NEVER)
		return FKV_NEVER;
	return core_ns > now ? core_ns - now : 0;
}

uint64_t sim_clock_after(const struct sim *s, enum sim_core core,
			 uint64_t left_ns)
{
	uint64_t now = sim_clock(s, core);

	return left_ns > FKV_NEVER - now ? FKV_NEVER : now + left_ns;
}
