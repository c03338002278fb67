// SPDX-License-Identifier: Apache-2.0
#include <stdlib.h>

#include "sim.h"

/* splitmix64 */
static uint64_t next(struct sim *s)
{
	uint64_t z = (s->rng += 0x9e3779b97f4a7c15ULL);

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
	return z ^ (z >> 31);
}

static uint64_t mix(uint64_t a, uint64_t b)
{
	uint64_t z = (a ^ b * 0x9e3779b97f4a7c15ULL) * 0xff51afd7ed558ccdULL;

	z = (z ^ (z >> 32)) * 0xc4ceb9fe1a85ec53ULL;
	return z ^ (z >> 29);
}

void sim_reseed(struct sim *s, uint64_t id)
{
	s->event_id = mix(s->cfg.seed, id);
	s->event_children = 0;
	s->rng = s->event_id;
}

uint64_t sim_random(struct sim *s, uint64_t below)
{
	return below ? next(s) % below : 0;
}

bool sim_chance(struct sim *s, unsigned int per_mille)
{
	return sim_random(s, 1000) < per_mille;
}

uint64_t sim_delay(struct sim *s, uint64_t max_ns)
{
	return sim_random(s, (max_ns >> sim_random(s, 8)) + 1);
}

static bool before(const struct sim_event *a, const struct sim_event *b)
{
	return a->when < b->when ||
	       (a->when == b->when && a->order < b->order);
}

static void push(struct sim *s, struct sim_event ev)
{
	size_t i;

	ev.order = s->event_order++;

	if (s->nr_events == s->room_events) {
		s->room_events = s->room_events ? 2 * s->room_events : 256;
		s->heap = fkv_realloc(s->heap,
				      s->room_events * sizeof(*s->heap));
		fkv_assert(s->heap);
	}
	i = s->nr_events++;
	while (i && before(&ev, &s->heap[(i - 1) / 2])) {
		s->heap[i] = s->heap[(i - 1) / 2];
		i = (i - 1) / 2;
	}
	s->heap[i] = ev;
}

/* What an event leads to is told by which one it is, not by when it comes. */
void sim_at(struct sim *s, uint64_t when_ns, enum sim_event_type type,
	    uint64_t a, uint64_t b)
{
	push(s, (struct sim_event){
		.when = when_ns,
		.id = mix(s->event_id, ++s->event_children),
		.type = type,
		.a = a,
		.b = b,
	});
}

void sim_act_at(struct sim *s, uint64_t when_ns, uint32_t actor, uint32_t n)
{
	push(s, (struct sim_event){
		.when = when_ns,
		.id = mix(actor, n),
		.type = SIM_ACT,
		.a = actor,
		.b = n,
	});
}

bool sim_next(struct sim *s, struct sim_event *ret)
{
	struct sim_event last;
	size_t i = 0, n;

	if (!s->nr_events)
		return false;
	*ret = s->heap[0];
	last = s->heap[--s->nr_events];
	n = s->nr_events;
	for (;;) {
		size_t k = 2 * i + 1;

		if (k >= n)
			break;
		if (k + 1 < n && before(&s->heap[k + 1], &s->heap[k]))
			k++;
		if (!before(&s->heap[k], &last))
			break;
		s->heap[i] = s->heap[k];
		i = k;
	}
	s->heap[i] = last;
	return true;
}
