// SPDX-License-Identifier: Apache-2.0
#include <inttypes.h>
#include <stdio.h>

#include "sim.h"

#define NAME_OF(id, name)	name,

const char *const sim_fault_name[SIM_FAULTS_NR] = { SIM_FAULTS(NAME_OF) };
const char *const sim_path_name[SIM_PATHS_NR] = { SIM_PATHS(NAME_OF) };

static void take_master(struct sim *s)
{
	uint64_t *n = s->n.path;
	struct fkv_master_stats m;

	fkv_master_get_stats(s->master, &m);
	n[SIM_PATH_SUPERSEDED] += m.persist_superseded;
	n[SIM_PATH_PROMOTED] += m.promotions;
	n[SIM_PATH_PROMOTED_STALE] += m.promotions_stale;
	n[SIM_PATH_REVOKED] += m.revokes;
	n[SIM_PATH_SSD_DROPPED] += m.ssd_dropped;
	n[SIM_PATH_REBACKED] += m.rebacked;
	n[SIM_PATH_SPACE_WAIT] += m.space_waits;
}

static void take_ring(struct sim *s)
{
	uint64_t *n = s->n.path;
	struct fkv_ring_stats r;

	if (!s->ring)
		return;
	fkv_ring_get_stats(s->ring, &r);
	n[SIM_PATH_RING_EVICTION] += r.evictions;
	n[SIM_PATH_RING_LAP] += r.laps;
	n[SIM_PATH_RING_BLOCKED_WRITE] += r.blocked_write;
	n[SIM_PATH_RING_BLOCKED_READ] += r.blocked_read;
	n[SIM_PATH_RING_BLOCKED_COMMIT] += r.blocked_commit;
}

void sim_cover_cores(struct sim *s)
{
	uint64_t *n = s->n.path;
	struct fkv_owner_stats o;

	fkv_owner_get_stats(s->owner, &o);
	n[SIM_PATH_SUM_ERROR] += o.sum_errors;
	n[SIM_PATH_PUT_EXPIRED] += o.put_timeouts;
	n[SIM_PATH_REFETCH] += o.refetches;
	n[SIM_PATH_PERSIST_FAILED] += o.persist_failed;
	n[SIM_PATH_BLOCKED] += o.blocked_waits;
	take_master(s);
	take_ring(s);
}

void sim_cover_add(struct sim_cover *to, const struct sim_cover *from)
{
	const uint64_t *n = (const uint64_t *)from;
	uint64_t *p = (uint64_t *)to;

	for (size_t i = 0; i < sizeof(*from) / sizeof(*n); i++)
		p[i] += n[i];
}

static void print(const char *title, const char *const *name,
		  const uint64_t *n, size_t nr)
{
	printf("%s\n", title);
	for (size_t i = 0; i < nr; i++)
		printf("  %-40s %12" PRIu64 "\n", name[i], n[i]);
}

void sim_cover_print(const struct sim_cover *n)
{
	print("faults", sim_fault_name, n->fault, SIM_FAULTS_NR);
	print("paths", sim_path_name, n->path, SIM_PATHS_NR);
	printf("gets %" PRIu64 " reads %" PRIu64 " writes %" PRIu64 " steps %"
	       PRIu64 "\n", n->gets, n->reads, n->writes, n->steps);
}

static bool full(const char *const *name, const uint64_t *n, size_t nr)
{
	bool all = true;

	for (size_t i = 0; i < nr; i++) {
		if (n[i])
			continue;
		fprintf(stderr, "never met: %s\n", name[i]);
		all = false;
	}
	return all;
}

bool sim_cover_full(const struct sim_cover *n)
{
	bool faults = full(sim_fault_name, n->fault, SIM_FAULTS_NR);

	return full(sim_path_name, n->path, SIM_PATHS_NR) && faults;
}
