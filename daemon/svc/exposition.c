// SPDX-License-Identifier: Apache-2.0
/*
 * exposition.c - the metrics page: every counter by name (O1)
 */
#include <stdio.h>

#include "base/version.h"
#include "svc/admin.h"

static void memory(struct fkv_text *t, const struct fkv_report *r)
{
	static const char *const causes[] = {
		NULL, "open_put", "get_target", "first_persist", "held",
	};

	fkv_metric_one(t, "kvcache_segment_capacity_bytes", "gauge",
		       "Bytes of the memory segment.", r->master.capacity);
	fkv_metric_one(t, "kvcache_segment_used_bytes", "gauge",
		       "Bytes of the memory segment in use.", r->master.used);
	fkv_metric_one(t, "fluxonkv_segment_largest_hole_bytes", "gauge",
		       "Largest contiguous free range.",
		       r->master.largest_hole);
	fkv_metric_one(t, "fluxonkv_segment_holes", "gauge",
		       "Free ranges of the segment.", r->master.holes);
	fkv_metric_head(t, "fluxonkv_segment_unevictable_bytes", "gauge",
			"Bytes that cannot be evicted now, by cause.");
	for (int c = 1; c < 5; c++) {
		char label[48];

		snprintf(label, sizeof(label), "{cause=\"%s\"}", causes[c]);
		fkv_metric(t, "fluxonkv_segment_unevictable_bytes", label,
			   r->master.cause_bytes[c]);
	}
	fkv_metric(t, "fluxonkv_segment_unevictable_bytes",
		   "{cause=\"pinned\"}", r->master.pinned_bytes);
	fkv_metric_head(t, "fluxonkv_keys", "gauge",
			"Keys with a replica in the tier.");
	fkv_metric(t, "fluxonkv_keys", "{tier=\"memory\"}",
		   r->master.keys_memory);
	fkv_metric(t, "fluxonkv_keys", "{tier=\"ssd\"}", r->master.keys_ssd);
	fkv_metric(t, "fluxonkv_keys", "{tier=\"any\"}", r->master.keys);
}

/* Of an owner's segment: what of it is used its master knows. */
static void owned(struct fkv_text *t, struct fkv_engine *e)
{
	fkv_metric_one(t, "kvcache_segment_capacity_bytes", "gauge",
		       "Bytes of the memory segment.",
		       fkv_engine_config(e)->cfg->memory);
}

static void gets(struct fkv_text *t, const struct fkv_report *r)
{
	uint64_t shm = r->index.counter[FLUXONKV_CNT_HITS];

	fkv_metric_one(t, "fluxonkv_gets_total", "counter",
		       "Keys asked for: hits + misses + errors + waiting.",
		       r->owner.gets + shm);
	fkv_metric_head(t, "fluxonkv_hits_total", "counter",
			"Keys served, by source.");
	fkv_metric(t, "fluxonkv_hits_total", "{source=\"local\"}",
		   r->owner.hits_local + shm);
	fkv_metric(t, "fluxonkv_hits_total", "{source=\"ssd-local\"}",
		   r->owner.hits_ssd);
	fkv_metric(t, "fluxonkv_hits_total", "{source=\"memory-remote\"}",
		   r->owner.hits_memory_remote);
	fkv_metric(t, "fluxonkv_hits_total", "{source=\"ssd-remote\"}",
		   r->owner.hits_ssd_remote);
	fkv_metric_one(t, "fluxonkv_hits_shared_index_total", "counter",
		       "Of the local hits, those without a request.", shm);
	fkv_metric_one(t, "fluxonkv_misses_total", "counter",
		       "Keys that had no value.", r->owner.misses);
	fkv_metric_one(t, "fluxonkv_get_errors_total", "counter",
		       "Gets that failed for another reason than a miss.",
		       r->owner.get_errors);
	fkv_metric_one(t, "fluxonkv_index_retries_total", "counter",
		       "Hits that met a retirement and tried again.",
		       r->index.counter[FLUXONKV_CNT_RETRIES]);
	fkv_metric_one(t, "fluxonkv_index_slots_full_total", "counter",
		       "Gets by request because all pin slots were in use.",
		       r->index.counter[FLUXONKV_CNT_FULL]);
	fkv_metric_one(t, "fluxonkv_refetches_total", "counter",
		       "Fetches tried again after a failed source.",
		       r->owner.refetches);
	fkv_metric_one(t, "fluxonkv_promotions_total", "counter",
		       "Fetched values that became memory replicas.",
		       r->master.promotions);
}

static void puts_(struct fkv_text *t, const struct fkv_report *r)
{
	fkv_metric_one(t, "fluxonkv_puts_total", "counter", "Puts begun.",
		       r->owner.puts);
	fkv_metric_one(t, "fluxonkv_put_errors_total", "counter",
		       "Puts that failed.", r->owner.put_errors);
	fkv_metric_one(t, "fluxonkv_put_bytes_total", "counter",
		       "Bytes of values published.", r->owner.bytes_put);
	fkv_metric_one(t, "fluxonkv_put_timeouts_total", "counter",
		       "Puts that stayed open too long.",
		       r->owner.put_timeouts);
	fkv_metric_one(t, "fluxonkv_deletes_total", "counter", "Deletes.",
		       r->master.deletes);
	fkv_metric_one(t, "fluxonkv_space_waits_total", "counter",
		       "Requests that waited for room.",
		       r->master.space_waits);
	fkv_metric_one(t, "fluxonkv_no_space_total", "counter",
		       "Requests that got no room.", r->master.no_space);
	fkv_metric_one(t, "fluxonkv_revokes_total", "counter",
		       "Operations given up before they took effect.",
		       r->master.revokes);
	fkv_metric_one(t, "fluxonkv_call_timeouts_total", "counter",
		       "Keys of calls whose deadline passed.",
		       r->owner.timeouts);
	fkv_metric_one(t, "fluxonkv_quota_refused_total", "counter",
		       "Requests over a cap of pinned bytes.",
		       r->owner.quota_refused);
}

static void eviction(struct fkv_text *t, const struct fkv_report *r)
{
	fkv_metric_one(t, "fluxonkv_evictions_total", "counter",
		       "Memory replicas evicted.", r->master.evictions);
	fkv_metric_one(t, "fluxonkv_evicted_bytes_total", "counter",
		       "Bytes of memory replicas evicted.",
		       r->master.evicted_bytes);
	fkv_metric_one(t, "fluxonkv_evictions_busy_total", "counter",
		       "Victims that were pinned and stayed.",
		       r->master.evict_busy);
	fkv_metric_one(t, "fluxonkv_evictions_held_total", "counter",
		       "Victims that were pinned while they were retired.",
		       r->master.evict_held);
	fkv_metric_one(t, "fluxonkv_evictions_window_total", "counter",
		       "Runs of neighbours evicted for one large value.",
		       r->master.windows);
	fkv_metric_one(t, "fluxonkv_index_scans_total", "counter",
		       "Scans of all clients' pins.", r->index.scans);
	fkv_metric_one(t, "fluxonkv_index_hits_lost_total", "counter",
		       "Hits that the policy did not see.",
		       r->index.hits_lost);
	fkv_metric_one(t, "fluxonkv_index_unpublished_total", "counter",
		       "Values not in the shared index for want of room.",
		       r->index.not_published);
}

static void persist(struct fkv_text *t, const struct fkv_report *r)
{
	fkv_metric_one(t, "fluxonkv_persists_total", "counter",
		       "Versions sent to the SSD tier.", r->master.persists);
	fkv_metric_one(t, "fluxonkv_persist_commits_total", "counter",
		       "Versions committed there.", r->master.commits);
	fkv_metric_one(t, "fluxonkv_persist_ignored_total", "counter",
		       "Commits of versions that were not current any more.",
		       r->master.commits_ignored);
	fkv_metric_one(t, "fluxonkv_persist_superseded_total", "counter",
		       "Versions replaced or deleted before they were "
		       "written.", r->master.persist_superseded);
	fkv_metric_one(t, "fluxonkv_persist_failed_total", "counter",
		       "Versions that stay memory-only.",
		       r->master.persist_failed);
	fkv_metric_one(t, "fluxonkv_persist_again_total", "counter",
		       "Victims written again before they were evicted.",
		       r->master.rebacked);
	fkv_metric_one(t, "fluxonkv_persist_bytes_total", "counter",
		       "Bytes of payload written.", r->owner.bytes_persisted);
	fkv_metric_one(t, "fluxonkv_persist_queued", "gauge",
		       "Versions that wait to be written.",
		       r->owner.persist_queued);
	fkv_metric_one(t, "fluxonkv_persist_active", "gauge",
		       "Versions being written.", r->owner.persist_active);
	fkv_metric_one(t, "fluxonkv_persist_blocked", "gauge",
		       "Versions that wait for room in the rings.",
		       r->owner.persist_blocked);
	fkv_metric_one(t, "fluxonkv_persist_blocked_total", "counter",
		       "Times that all rings were blocked by busy entries.",
		       r->owner.blocked_waits);
	fkv_metric_one(t, "fluxonkv_ssd_dropped_total", "counter",
		       "SSD replicas that left a route.",
		       r->master.ssd_dropped);
}

static void ssd_errors(struct fkv_text *t, const struct fkv_report *r)
{
	fkv_metric_one(t, "fluxonkv_ssd_read_bytes_total", "counter",
		       "Bytes of payload read.", r->owner.bytes_ssd_read);
	fkv_metric_one(t, "fluxonkv_ssd_checksum_failures_total", "counter",
		       "Values whose checksum did not match.",
		       r->owner.sum_errors);
	fkv_metric_one(t, "fluxonkv_ssd_read_errors_total", "counter",
		       "Reads that failed.", r->owner.read_errors);
	fkv_metric_one(t, "fluxonkv_ssd_write_errors_total", "counter",
		       "Writes that failed.", r->owner.write_errors);
	fkv_metric_one(t, "fluxonkv_ssd_devices_on", "gauge",
		       "SSD devices that work.", r->owner.devices_on);
}

static void device(struct fkv_text *t, struct fkv_engine *e, uint32_t d,
		   const char *what)
{
	const struct fkv_engine_config *ec = fkv_engine_config(e);
	struct fkv_device_stats ds;
	struct fkv_ring_stats rs;
	char label[96];

	fkv_device_get_stats(ec->devices[d], &ds);
	fkv_ring_device_stats(fkv_engine_ring(e), d, &rs);
	snprintf(label, sizeof(label), "{device=\"%u\"}", d);
	if (!strcmp(what, "kv_ssd_capacity_bytes"))
		fkv_metric(t, what, label, rs.capacity);
	else if (!strcmp(what, "kv_ssd_used_bytes"))
		fkv_metric(t, what, label, rs.used);
	else if (!strcmp(what, "fluxonkv_ssd_evictions_total"))
		fkv_metric(t, what, label, rs.evictions);
	else if (!strcmp(what, "fluxonkv_ssd_inflight"))
		fkv_metric(t, what, label, ds.inflight);
	else if (!strcmp(what, "fluxonkv_ssd_queued"))
		fkv_metric(t, what, label, ds.queued);
	else if (!strcmp(what, "fluxonkv_ssd_short_total"))
		fkv_metric(t, what, label, ds.short_ios);
	else if (!strcmp(what, "fluxonkv_ssd_buffered"))
		fkv_metric(t, what, label, !ds.direct);
	else if (!strcmp(what, "fluxonkv_ssd_registered_buffers"))
		fkv_metric(t, what, label, ds.registered_buffers);
	else if (!strcmp(what, "fluxonkv_io_engine")) {
		snprintf(label, sizeof(label), "{device=\"%u\",engine=\"%s\"}",
			 d, ds.engine);
		fkv_metric(t, what, label, 1);
	}
}

static void devices(struct fkv_text *t, struct fkv_engine *e)
{
	static const char *const names[][3] = {
		{ "kv_ssd_capacity_bytes", "gauge", "Bytes of the rings." },
		{ "kv_ssd_used_bytes", "gauge", "Bytes of live entries." },
		{ "fluxonkv_ssd_evictions_total", "counter",
		  "Entries overtaken by a ring's tail." },
		{ "fluxonkv_ssd_inflight", "gauge", "I/Os at the device." },
		{ "fluxonkv_ssd_queued", "gauge", "I/Os that wait." },
		{ "fluxonkv_ssd_short_total", "counter",
		  "Short reads and writes that were resumed." },
		{ "fluxonkv_ssd_buffered", "gauge",
		  "1 when O_DIRECT was refused." },
		{ "fluxonkv_ssd_registered_buffers", "gauge",
		  "Pieces of the segment registered with io_uring." },
		{ "fluxonkv_io_engine", "gauge", "The I/O engine in use." },
	};

	if (!fkv_engine_ring(e))
		return;
	for (size_t i = 0; i < FKV_ARRAY_SIZE(names); i++) {
		fkv_metric_head(t, names[i][0], names[i][1], names[i][2]);
		for (uint32_t d = 0; d < fkv_engine_config(e)->nr_devices; d++)
			device(t, e, d, names[i][0]);
	}
}

static void clients(struct fkv_text *t, const struct fkv_report *r)
{
	fkv_metric_one(t, "fluxonkv_clients", "gauge", "Clients connected.",
		       r->owner.clients);
	fkv_metric_one(t, "fluxonkv_holders", "gauge",
		       "Holders of clients.", r->holders);
	fkv_metric_one(t, "fluxonkv_open_puts", "gauge", "Puts in flight.",
		       r->owner.open_puts);
	fkv_metric_one(t, "fluxonkv_fetches", "gauge", "Fetches in flight.",
		       r->owner.fetches);
	fkv_metric_one(t, "fluxonkv_calls", "gauge", "Calls in flight.",
		       r->owner.calls);
	fkv_metric_one(t, "fluxonkv_connections_total", "counter",
		       "Connections accepted.", r->gateway.accepted);
	fkv_metric_one(t, "fluxonkv_connections_refused_total", "counter",
		       "Connections refused.", r->gateway.refused);
	fkv_metric_one(t, "fluxonkv_requests_total", "counter",
		       "Requests received.", r->gateway.requests);
	fkv_metric_one(t, "fluxonkv_bad_requests_total", "counter",
		       "Requests that were refused as malformed.",
		       r->gateway.bad_requests);
	fkv_metric_one(t, "fluxonkv_device_call_errors_total", "counter",
		       "Calls that the kernel module refused, which is a bug.",
		       r->gateway.call_errors);
	fkv_metric_one(t, "fluxonkv_broken_connections_total", "counter",
		       "Connections closed for broken framing.",
		       r->gateway.broken);
	fkv_metric_one(t, "fluxonkv_over_cap_total", "counter",
		       "Connections closed for pins over their cap.",
		       r->gateway.over_cap);
}

static void latencies(struct fkv_text *t, struct fkv_engine *e)
{
	static const char *const ops[FKV_LAT_NR] = {
		[FKV_LAT_GET] = "op=\"get\"",
		[FKV_LAT_PUT_BEGIN] = "op=\"put_begin\"",
		[FKV_LAT_PUT_COMMIT] = "op=\"put_commit\"",
		[FKV_LAT_DELETE] = "op=\"delete\"",
		[FKV_LAT_OTHER] = "op=\"other\"",
		[FKV_LAT_SSD_READ] = "op=\"read\"",
		[FKV_LAT_SSD_WRITE] = "op=\"write\"",
	};

	fkv_metric_head(t, "fluxonkv_request_seconds", "histogram",
			"From request to reply in the daemon.");
	for (int i = 0; i < FKV_LAT_SSD_READ; i++)
		fkv_metric_histogram(t, "fluxonkv_request_seconds", ops[i],
				     fkv_engine_latency(e,
						(enum fkv_latency)i));
	fkv_metric_head(t, "fluxonkv_ssd_seconds", "histogram",
			"SSD reads and writes, queueing included.");
	for (int i = FKV_LAT_SSD_READ; i < FKV_LAT_NR; i++)
		fkv_metric_histogram(t, "fluxonkv_ssd_seconds", ops[i],
				     fkv_engine_latency(e,
						(enum fkv_latency)i));
}

/* ---- clusters ---- */

static void rpc(struct fkv_text *t, const struct fkv_rpc_stats *s,
		const struct fkv_batch_stats *b, uint64_t received,
		uint64_t broken)
{
	fkv_metric_one(t, "fluxonkv_cluster_connections", "gauge",
		       "Connections between daemons.", s->connections);
	fkv_metric_one(t, "fluxonkv_cluster_accepted_total", "counter",
		       "Connections of daemons that were accepted.",
		       s->accepted);
	fkv_metric_one(t, "fluxonkv_cluster_refused_total", "counter",
		       "Connections and handshakes that were refused.",
		       s->refused);
	fkv_metric_one(t, "fluxonkv_cluster_dials_total", "counter",
		       "Times that a daemon was dialled.", s->dials);
	fkv_metric_one(t, "fluxonkv_cluster_broken_total", "counter",
		       "Connections that broke the protocol.", s->broken);
	fkv_metric_one(t, "fluxonkv_cluster_silent_total", "counter",
		       "Connections closed for silence.", s->silent);
	fkv_metric_one(t, "fluxonkv_cluster_calls_total", "counter",
		       "Requests to other owners.", s->calls);
	fkv_metric_one(t, "fluxonkv_cluster_call_timeouts_total", "counter",
		       "Requests to other owners without an answer.",
		       s->timeouts);
	fkv_metric_one(t, "fluxonkv_cluster_frames_total", "counter",
		       "Messages sent in sessions.", b->frames);
	fkv_metric_one(t, "fluxonkv_cluster_messages_total", "counter",
		       "Messages of the cores in them.", b->messages);
	fkv_metric_one(t, "fluxonkv_cluster_bytes_total", "counter",
		       "Bytes of messages sent in sessions.", b->bytes);
	fkv_metric_one(t, "fluxonkv_cluster_received_total", "counter",
		       "Messages received in sessions.", received);
	fkv_metric_one(t, "fluxonkv_cluster_sessions_broken_total", "counter",
		       "Sessions ended for what the other end said.", broken);
}

static void transfers(struct fkv_text *t, const struct fkv_report *r)
{
	const struct fkv_moves_stats *m = &r->uplink.moves;

	fkv_metric_one(t, "fluxonkv_transfers", "gauge",
		       "Transfers that this owner asked for.", m->active);
	fkv_metric_one(t, "fluxonkv_transfers_serving", "gauge",
		       "SSD copies being read for other owners.", m->serving);
	fkv_metric_one(t, "fluxonkv_transfers_opened", "gauge",
		       "Extents that another owner may put into.", m->opened);
	fkv_metric_head(t, "fluxonkv_transfers_total", "counter",
			"Transfers begun, by what for.");
	fkv_metric(t, "fluxonkv_transfers_total", "{kind=\"pull\"}",
		   m->pulls);
	fkv_metric(t, "fluxonkv_transfers_total", "{kind=\"stage\"}",
		   m->stages);
	fkv_metric(t, "fluxonkv_transfers_total", "{kind=\"push\"}",
		   m->pushes);
	fkv_metric_one(t, "fluxonkv_transfers_failed_total", "counter",
		       "Transfers that failed.", m->failed);
	fkv_metric_one(t, "fluxonkv_transfer_stalls_total", "counter",
		       "Data connections closed for silence.",
		       m->transfers.stalls);
	fkv_metric_one(t, "fluxonkv_transfer_connections", "gauge",
		       "Data connections.", m->transfers.connections);
	fkv_metric_head(t, "fluxonkv_transfer_bytes_total", "counter",
			"Payload between owners.");
	fkv_metric(t, "fluxonkv_transfer_bytes_total", "{way=\"in\"}",
		   m->bytes_in);
	fkv_metric(t, "fluxonkv_transfer_bytes_total", "{way=\"out\"}",
		   m->bytes_out);
	fkv_metric_one(t, "fluxonkv_staged_total", "counter",
		       "SSD copies pushed to other owners.", r->owner.staged);
	fkv_metric_one(t, "fluxonkv_stage_errors_total", "counter",
		       "SSD copies that could not be.",
		       r->owner.stage_errors);
}

static void lease(struct fkv_text *t, struct fkv_engine *e,
		  const struct fkv_report *r)
{
	char seconds[32];

	fkv_metric_one(t, "fluxonkv_master_connected", "gauge",
		       "1 while the master is connected.",
		       r->uplink.connected);
	fkv_metric_one(t, "fluxonkv_lease_valid", "gauge",
		       "1 while the lease holds.", fkv_engine_lease(e) > 0);
	fkv_metric_one(t, "fluxonkv_sessions_total", "counter",
		       "Sessions with masters begun.", r->owner.sessions);
	fkv_metric_head(t, "fluxonkv_stale_serving_seconds", "counter",
			"Time in which hits were served without a lease.");
	snprintf(seconds, sizeof(seconds), "%.3f", (double)r->stale_ns / 1e9);
	fkv_text_add(t, "fluxonkv_stale_serving_seconds %s\n", seconds);
}

static void members(struct fkv_text *t, struct fkv_engine *e,
		    const struct fkv_report *r)
{
	static const char *const names[][2] = {
		{ "fluxonkv_member_live", "1 while its lease holds." },
		{ "fluxonkv_member_capacity_bytes", "Bytes of its segment." },
		{ "fluxonkv_member_free_bytes", "Bytes of it that are free." },
	};
	struct fkv_member_info info;
	char label[300];

	fkv_metric_one(t, "fluxonkv_members", "gauge", "Owners known.",
		       r->master.members);
	fkv_metric_one(t, "fluxonkv_members_live", "gauge",
		       "Owners whose lease holds.", r->master.members_live);
	fkv_metric_one(t, "fluxonkv_member_tombs_total", "counter",
		       "Times that an owner went.", r->master.tombs);
	fkv_metric_one(t, "fluxonkv_member_suspects_total", "counter",
		       "Failures that made an owner suspect.",
		       r->master.suspected);
	for (size_t n = 0; n < FKV_ARRAY_SIZE(names); n++) {
		fkv_metric_head(t, names[n][0], "gauge", names[n][1]);
		for (uint32_t i = 0; fkv_master_member(fkv_engine_master(e), i,
						       &info); i++) {
			snprintf(label, sizeof(label), "{owner=\"%s\"}",
				 info.name);
			fkv_metric(t, names[n][0], label, n == 0 ? info.live :
				   n == 1 ? info.capacity : info.free);
		}
	}
}

static void cluster(struct fkv_text *t, struct fkv_engine *e,
		    const struct fkv_report *r)
{
	enum fkv_role role = fkv_engine_config(e)->cfg->role;

	if (fkv_engine_master(e))
		fkv_metric_one(t, "fluxonkv_leaked_ops_total", "counter",
			       "Operations that their owner forgot: a bug.",
			       r->master.leaked_ops);
	if (role == FKV_ROLE_STANDALONE)
		return;
	fkv_metric_one(t, "fluxonkv_epoch", "gauge", "The master's epoch.",
		       fkv_engine_epoch(e));
	if (role == FKV_ROLE_MASTER) {
		rpc(t, &r->hub.rpc, &r->hub.sent, r->hub.received,
		    r->hub.broken);
		members(t, e, r);
		return;
	}
	rpc(t, &r->uplink.rpc, &r->uplink.sent, r->uplink.received,
	    r->uplink.broken);
	lease(t, e, r);
	transfers(t, r);
}

/* What an owner alone knows, or what a master does, or both. */
static void local(struct fkv_text *t, struct fkv_engine *e,
		  const struct fkv_report *r)
{
	if (!fkv_engine_owner(e))
		return;
	gets(t, r);
	puts_(t, r);
	persist(t, r);
	ssd_errors(t, r);
	devices(t, e);
	clients(t, r);
	latencies(t, e);
}

char *fkv_admin_metrics(struct fkv_engine *e)
{
	struct fkv_text t = { 0 };
	struct fkv_report r;

	fkv_engine_report(e, &r);
	fkv_metric_head(&t, "fluxonkv_build_info", "gauge", "The version.");
	fkv_metric(&t, "fluxonkv_build_info", "{version=\"" FKV_VERSION "\"}",
		   1);
	if (fkv_engine_master(e)) {
		memory(&t, &r);
		eviction(&t, &r);
	} else {
		owned(&t, e);
	}
	local(&t, e, &r);
	cluster(&t, e, &r);
	return fkv_text_done(&t);
}
