// SPDX-License-Identifier: Apache-2.0
/*
 * faults.c - what goes wrong, and when
 *
 * Most faults are a matter of chance where they may happen; some come by an
 * actor of their own: freezes, jumps of time, devices that go and come back,
 * a time without memory, a client's or a core's death at any moment.
 */
#include "sim.h"

bool sim_fault(struct sim *s, enum sim_fault f)
{
	/* drawn in any case: what follows must not depend on it */
	bool now = sim_chance(s, s->cfg.p[f]);

	if (!now || s->ending || s->cfg.without >> f & 1)
		return false;
	s->n.fault[f]++;
	sim_say(s, "fault %s", sim_fault_name[f]);
	return true;
}

static unsigned int sometimes(struct sim *s, unsigned int often,
			      unsigned int per_mille)
{
	bool at_all = sim_chance(s, often);
	unsigned int p = 1 + (unsigned int)sim_random(s, per_mille);

	return at_all ? p : 0;
}

void sim_choose_faults(struct sim *s)
{
	unsigned int *p = s->cfg.p;

	for (int f = SIM_FAULT_READ_FAIL; f <= SIM_FAULT_WRITE_NOSPACE; f++)
		p[f] = sometimes(s, 150, 300);
	p[SIM_FAULT_FLIP] = sometimes(s, 300, 500);
	p[SIM_FAULT_DEVICE_GONE] = sometimes(s, 250, 200);
	p[SIM_FAULT_FREEZE_OWNER] = sometimes(s, 300, 400);
	p[SIM_FAULT_FREEZE_MASTER] = sometimes(s, 300, 400);
	p[SIM_FAULT_JUMP] = sometimes(s, 250, 200);
	p[SIM_FAULT_ALLOC_OWNER] = sometimes(s, 250, 400);
	p[SIM_FAULT_ALLOC_MASTER] = sometimes(s, 250, 400);
	p[SIM_FAULT_KILL] = sometimes(s, 700, 300);
	p[SIM_FAULT_STALL] = sometimes(s, 400, 300);
	p[SIM_FAULT_PIN_RACE] = 50;
	p[SIM_FAULT_CRASH_OWNER] = sometimes(s, 200, 100);
	p[SIM_FAULT_CRASH_MASTER] = sometimes(s, 200, 100);
	for (int f = SIM_FAULT_COPY_FAIL; f <= SIM_FAULT_COPY_SLOW; f++)
		p[f] = sometimes(s, 200, 300);
}

/*
 * A get may join a fetch whose bad answer is on its way, past a freeze and a
 * jump.
 */
bool sim_out_of_memory(const struct sim *s, uint64_t since_ns)
{
	return s->alloc_ns && s->alloc_ns + 200 * FKV_SEC >= since_ns;
}

static void freeze(struct sim *s, enum sim_core core)
{
	uint64_t for_ns = 1 + sim_delay(s, 30 * FKV_SEC);

	if (s->frozen[core] || s->down[core])
		return;
	s->frozen[core] = true;
	s->froze_ns[core] = s->now_ns;
	s->thaw_ns[core] = s->now_ns + for_ns;
	sim_at(s, s->thaw_ns[core], SIM_THAW, core, 0);
}

/* Some hosts stop as a whole, and their clocks with them. */
static void clocks_stood(struct sim *s, enum sim_core core)
{
	uint64_t for_ns = s->now_ns - s->froze_ns[core];

	if (sim_chance(s, 500))
		return;
	for (int i = 0; i < SIM_CORES; i++)
		if (!s->cfg.delayed || i == (int)core)
			sim_clock_stood(s, (enum sim_core)i, for_ns);
}

void sim_thaw(struct sim *s, enum sim_core core)
{
	/* it may be another freeze's, of an earlier life */
	if (!s->frozen[core] || s->now_ns < s->thaw_ns[core])
		return;
	s->frozen[core] = false;
	s->woke_ns = s->now_ns;
	clocks_stood(s, core);
	sim_say(s, "%s thaws", core == SIM_OWNER ? "owner" : "master");
	if (core == SIM_OWNER)
		sim_feed_later(s);
}

static void jump(struct sim *s)
{
	s->now_ns += sim_delay(s, 70 * FKV_SEC);
	s->woke_ns = s->now_ns;
	sim_say(s, "time jumps");
}

static void device_gone(struct sim *s)
{
	uint32_t d = (uint32_t)sim_random(s, s->cfg.devices);
	uint64_t for_ns = 1 + sim_delay(s, 40 * FKV_SEC);

	if (!s->cfg.devices || s->gone[d])
		return;
	s->gone[d] = true;
	sim_io_device_gone(s, d);
	sim_at(s, s->now_ns + for_ns, SIM_DEVICE_BACK, d, 0);
}

void sim_device_back(struct sim *s, uint64_t device)
{
	s->gone[device] = false;
	sim_say(s, "device %lu is back", device);
}

static void kill_one(struct sim *s)
{
	uint32_t i = (uint32_t)sim_random(s, s->cfg.clients);

	if (s->client[i].up)
		sim_client_kill(s, &s->client[i]);
}

uint64_t sim_fault_pause(struct sim *s, uint32_t actor)
{
	uint64_t n = actor == SIM_ACTOR_READER ? 4 : actor == SIM_ACTOR_FLIP ?
		8 : 20;

	return 1 + sim_delay(s, n * s->cfg.pace_ns);
}

void sim_fault_act(struct sim *s, const struct sim_event *ev)
{
	switch (ev->a) {
	case SIM_ACTOR_READER:
		if (sim_chance(s, s->cfg.p_pin))
			sim_index_read(s);
		break;
	case SIM_ACTOR_FLIP:
		if (s->cfg.devices && sim_fault(s, SIM_FAULT_FLIP))
			sim_flip(s);
		break;
	case SIM_ACTOR_FREEZE:
		if (sim_fault(s, SIM_FAULT_FREEZE_OWNER))
			freeze(s, SIM_OWNER);
		if (s->cfg.delayed && sim_fault(s, SIM_FAULT_FREEZE_MASTER))
			freeze(s, SIM_MASTER);
		break;
	case SIM_ACTOR_JUMP:
		if (sim_fault(s, SIM_FAULT_JUMP))
			jump(s);
		break;
	case SIM_ACTOR_DEVICE:
		if (s->cfg.devices && sim_fault(s, SIM_FAULT_DEVICE_GONE))
			device_gone(s);
		break;
	case SIM_ACTOR_ALLOC:
		if (sim_chance(s, 300))
			s->alloc_steps = 1 + (uint32_t)sim_random(s, 30);
		break;
	case SIM_ACTOR_KILL:
		if (sim_fault(s, SIM_FAULT_KILL))
			kill_one(s);
		break;
	case SIM_ACTOR_CRASH:
		if (sim_fault(s, SIM_FAULT_CRASH_OWNER))
			sim_crash(s, SIM_OWNER);
		if (s->cfg.delayed && sim_fault(s, SIM_FAULT_CRASH_MASTER))
			sim_crash(s, SIM_MASTER);
		break;
	}
}
